//! The memory of a master that persists: without sessions, and with many that wait.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use super::{LOOK, OURS, START_LIMIT, sample, serving};
use crate::figures::{BenchEntry, BenchGroup, Emit, EntryKind, Per, Unit};
use crate::harness::Harness;
use crate::idle::{REST, private_kib};
use crate::options::BenchRow;
use crate::rounds::{Bench, Miss};
use crate::words::kill;

/// Most sessions that wait, if the command line says nothing.
const MOST_SESSIONS: usize = 512;
/// Goal for the growth with each session, KiB.
const SESSION_GOAL: f64 = 8.0;
/// The command of a session that waits.
const WAITS: &str = "echo begun; exec cat";

/// Clients that are ended on drop.
#[derive(Default)]
struct WaitingClients(Vec<Child>);

impl Drop for WaitingClients {
    fn drop(&mut self) {
        for client in &mut self.0 {
            kill(client.id());
            let _ = client.wait();
        }
    }
}

impl WaitingClients {
    /// Starts a client, and waits until its command has begun.
    fn start(&mut self, mut client: Command) -> Result<u32, Miss> {
        client.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = client.spawn()?;
        let pid = child.id();
        let stdout = child.stdout.take().ok_or("no pipe")?;
        self.0.push(child);
        let mut line = String::new();
        let mut reader = BufReader::new(stdout);
        reader.read_line(&mut line)?;
        // The pipe stays open with its child.
        if let Some(child) = self.0.last_mut() {
            child.stdout = Some(reader.into_inner());
        }
        match line == "begun\n" {
            true => Ok(pid),
            false => Err("no session".into()),
        }
    }
}

/// Measures the private memory of a client and of masters, with Fulmar at both ends.
pub(super) fn measure(
    bench: &Bench,
    harnesses: &mut [Result<Harness, String>],
    emit: &mut Emit<'_>,
) {
    let most = bench.settings.connections.unwrap_or(MOST_SESSIONS);
    let counts = [0, most / 8, most].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    let mut labels = vec!["client of a session".to_owned()];
    labels.extend(counts.map(|count| format!("master with {count} sessions")));
    let group = BenchGroup {
        row: BenchRow::Share.name(),
        title: "memory of a persisting master".to_owned(),
        unit: Unit::Kib,
        per: Per::Connection,
        entries: labels
            .iter()
            .map(|label| BenchEntry::new(label, EntryKind::Ours))
            .collect(),
        notes: vec!["private memory of the process, all sessions waiting".to_owned()],
    };
    let mut group = bench.alternate(group, 1, |index| {
        let harness = serving(harnesses, OURS)?;
        let kib = match index.checked_sub(1).and_then(|index| counts.get(index)) {
            None => of_client(bench, harness)?,
            Some(count) => of_master(bench, harness, *count)?,
        };
        Ok(sample(f64::from(u32::try_from(kib).unwrap_or(u32::MAX))))
    });
    let medians: Vec<Option<f64>> = group.entries.iter().map(BenchEntry::median).collect();
    if let [client, alone, rest @ ..] = medians.as_slice() {
        if let (Some(client), Some(alone)) = (client, alone) {
            group.judge("without sessions, KiB", Some(*alone), false, *client);
        }
        for (count, kib) in counts.iter().skip(1).zip(rest) {
            let each = kib
                .zip(*alone)
                .map(|(kib, alone)| (kib - alone) / f64::from(*count));
            group.judge(
                &format!("KiB for each of {count} sessions"),
                each,
                false,
                SESSION_GOAL,
            );
        }
    }
    emit(group);
}

fn of_client(bench: &Bench, harness: &Harness) -> Result<u64, Miss> {
    let suite = bench.suites.get(OURS.client).ok_or("no such suite")?;
    let mut clients = WaitingClients::default();
    let pid = clients.start(harness.client(suite, &["-S", "none"], WAITS))?;
    thread::sleep(REST);
    private_kib(pid)
}

fn of_master(bench: &Bench, harness: &Harness, count: u32) -> Result<u64, Miss> {
    let suite = bench.suites.get(OURS.client).ok_or("no such suite")?;
    let path = harness.path("master.persisting");
    let _ = std::fs::remove_file(&path);
    let shown = path.display().to_string();
    let mut founder = harness.client(suite, &["-M", "-S", &shown, "-oControlPersist=yes"], "true");
    let quiet = |command: &mut Command| {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    };
    if !quiet(&mut founder)?.success() {
        return Err("no master".into());
    }
    let mut check = harness.client(suite, &["-S", &shown, "-O", "check"], "");
    let said = check.stdin(Stdio::null()).output()?.stderr;
    let said = String::from_utf8_lossy(&said).into_owned();
    let pid = said
        .split_once("(pid=")
        .and_then(|(_, rest)| rest.split(')').next()?.parse().ok());
    let pid: u32 = pid.ok_or("no master")?;
    let mut clients = WaitingClients::default();
    let measured = (0..count)
        .try_for_each(|_| {
            let client = harness.client(suite, &["-S", &shown], WAITS);
            clients.start(client).map(drop)
        })
        .and_then(|()| {
            thread::sleep(2 * REST);
            private_kib(pid)
        });
    drop(clients);
    let mut exit = harness.client(suite, &["-S", &shown, "-O", "exit"], "");
    quiet(&mut exit)?;
    let end = Instant::now() + START_LIMIT;
    while path.exists() && Instant::now() < end {
        thread::sleep(LOOK);
    }
    measured
}
