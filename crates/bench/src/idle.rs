//! `idle`: memory of waiting sessions and of silent connections, as proportional set size (PSS).

use std::fs::{self, File};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::figures::{BenchEntry, BenchGroup, Emit, EntryKind, Per, Unit};
use super::options::BenchRow;
use super::roles;
use super::rounds::{Bench, Miss, Sample};
use super::transfer::TransferFiles;
use super::words::{StderrReader, kill};
use crate::corpus::Data;
use crate::harness::{Harness, Suite, SuiteKind, Tree, Wishes};

/// Default number of rounds.
const ROUNDS: usize = 3;
/// Time until processes are idle: Fulmar frees memory after a second without data.
pub(super) const REST: Duration = Duration::from_millis(1500);
/// Number of connections from one address that dropbear accepts before login.
const DROPBEAR_SILENT: usize = 5;

/// The processes whose memory is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdleSubject {
    /// The server's processes of a session, without the command.
    Session,
    /// The client of a session.
    Client,
    /// Additional memory of a server for a connection that sends nothing.
    Silent,
}

/// Measures each suite with its own client and server.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) {
    let sessions = bench.settings.sessions;
    let rows = [
        (
            IdleSubject::Session,
            "server, a session with a command that waits",
        ),
        (IdleSubject::Client, "client of such a session"),
        (IdleSubject::Silent, "server, a silent connection"),
    ];
    for (what, title) in rows {
        let (suites, mut entries): (Vec<usize>, Vec<_>) = bench.served().into_iter().unzip();
        let mut notes = vec![format!(
            "PSS of {sessions} at once, divided by their number; neither listener nor command, nor what waits for more connections"
        )];
        if what == IdleSubject::Session {
            entries.push(BenchEntry::new("no SSH", EntryKind::Limit));
            notes.push("no SSH: two idle programs that need only the C library (cat)".into());
        }
        let group = BenchGroup {
            row: BenchRow::Idle.name(),
            title: title.into(),
            unit: Unit::Kib,
            per: Per::Login,
            entries,
            notes,
        };
        emit(
            bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
                let Some(server) = suites.get(index).copied() else {
                    return empty_programs(sessions);
                };
                let suite = bench.suites.get(server).ok_or("no such suite")?;
                let mut harness =
                    bench.harness(server, &bench.servers, "MaxStartups 1000\nMaxSessions 10")?;
                harness.serve()?;
                match what {
                    IdleSubject::Silent => silent(suite, &harness, sessions),
                    IdleSubject::Session | IdleSubject::Client => {
                        waiting(suite, &harness, sessions, what, (&[], ""))
                    }
                }
            }),
        );
    }
}

/// MiB that a session downloads before its memory is measured.
const CARRIED_MIB: u64 = 4;

/// Measures Fulmar sessions after a bulk transfer, with and without `-C`.
pub(super) fn measure_compressed(
    bench: &Bench,
    files: &TransferFiles,
    emit: &mut Emit<'_>,
) -> Result<(), String> {
    let sent = files.sent();
    File::create(&sent)
        .and_then(|file| Data::Mixed.write(CARRIED_MIB << 20, file))
        .map_err(|error| error.to_string())?;
    let sessions = bench.settings.sessions;
    let carry = format!("cat '{}'; ", sent.display());
    let runs = [("without -C", false), ("with -C", true)];
    for (what, title) in [
        (IdleSubject::Session, "idle, server of a session"),
        (IdleSubject::Client, "idle, client of a session"),
    ] {
        let entries = runs.map(|(label, _)| BenchEntry::new(label, EntryKind::Ours));
        let group = BenchGroup {
            row: BenchRow::Compress.name(),
            title: title.into(),
            unit: Unit::Kib,
            per: Per::Login,
            entries: entries.to_vec(),
            notes: vec![format!(
                "PSS of {sessions} at once that have carried {CARRIED_MIB} MiB down, divided by their number"
            )],
        };
        let mut group = bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
            let (_, compress) = runs.get(index).ok_or("no such run")?;
            let wishes = Wishes {
                compress: *compress,
                ..Wishes::default()
            };
            let suite = bench.suites.first().ok_or("no such suite")?;
            let flags = suite.flags(&wishes).map_err(Miss::Absent)?;
            let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
            let lines = "MaxStartups 1000\nCompression yes";
            let mut harness = bench.harness(0, &bench.servers, lines)?;
            harness.serve()?;
            waiting(suite, &harness, sessions, what, (&flags, &carry))
        });
        let medians: Vec<f64> = group
            .entries
            .iter()
            .filter_map(BenchEntry::median)
            .collect();
        if let [without, with] = medians[..] {
            let more = with - without;
            group
                .notes
                .push(format!("with -C {more:+.0} KiB (goal: at most 1024)"));
        }
        emit(group);
    }
    Ok(())
}

/// Starts sessions with `flags` whose command runs `first` and then waits.
fn waiting(
    suite: &Suite,
    harness: &Harness,
    sessions: usize,
    what: IdleSubject,
    (flags, first): (&[&str], &str),
) -> Result<Sample, Miss> {
    let mut clients = Clients::default();
    for _ in 0..sessions {
        let command = format!("{first}echo '{}' >&2; exec cat", roles::READY);
        let mut client = harness.client(suite, flags, &command);
        client
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = client.spawn()?;
        let stderr = child.stderr.take();
        clients.0.push(child);
        let words = StderrReader::listen(stderr.ok_or("no pipe")?);
        if !words.wait_ready() {
            return Err(words.all().complaint("no session").into());
        }
    }
    std::thread::sleep(REST);
    match what {
        IdleSubject::Client => {
            let pids: Vec<u32> = clients.0.iter().map(Child::id).collect();
            shared_out(&pids, sessions)
        }
        IdleSubject::Session | IdleSubject::Silent => of_server(harness, sessions),
    }
}

/// Memory of two empty programs for each of `sessions`, the number of processes of a Fulmar session.
fn empty_programs(sessions: usize) -> Result<Sample, Miss> {
    let mut programs = Clients::default();
    for _ in 0..sessions * 2 {
        let mut program = Command::new("cat");
        program
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        programs.0.push(program.spawn()?);
    }
    std::thread::sleep(REST);
    let pids: Vec<u32> = programs.0.iter().map(Child::id).collect();
    shared_out(&pids, sessions)
}

fn silent(suite: &Suite, harness: &Harness, sessions: usize) -> Result<Sample, Miss> {
    let count = match suite.kind {
        SuiteKind::Dropbear => sessions.min(DROPBEAR_SILENT),
        SuiteKind::Ours | SuiteKind::OpenSsh => sessions,
    };
    // A listener may serve them itself, so it counts with its descendants, less their earlier sum.
    let listener = harness.server_pid().ok_or("no server")?;
    let with_all_below = || {
        let mut pids = Tree::of(listener).below().to_vec();
        pids.push(listener);
        shared_out(&pids, 1)
    };
    std::thread::sleep(REST);
    let before = with_all_below()?;
    let connections: Vec<TcpStream> = (0..count)
        .map(|_| TcpStream::connect(harness.address()))
        .collect::<Result<_, _>>()?;
    std::thread::sleep(REST);
    let with = with_all_below()?;
    drop(connections);
    #[allow(clippy::cast_precision_loss)]
    let value = (with.value - before.value) / count as f64;
    Ok(Sample { value, cpu: None })
}

fn of_server(harness: &Harness, sessions: usize) -> Result<Sample, Miss> {
    let listener = harness.server_pid().ok_or("no server")?;
    let tree = Tree::of(listener);
    let pids: Vec<u32> = tree
        .below()
        .iter()
        .copied()
        .filter(|pid| name_of(*pid) != "cat")
        .collect();
    if pids.len() < sessions {
        return Err(format!("{} processes for {sessions} connections", pids.len()).into());
    }
    shared_out(&pids, sessions)
}

fn name_of(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    name.unwrap_or_default().trim().to_string()
}

fn shared_out(pids: &[u32], sessions: usize) -> Result<Sample, Miss> {
    let mut total = 0;
    for pid in pids {
        total += proportional_kib(*pid)?;
    }
    #[allow(clippy::cast_precision_loss)]
    let value = total as f64 / sessions as f64;
    Ok(Sample { value, cpu: None })
}

/// The memory of a process in KiB; shared pages are divided among the processes that share them.
pub(super) fn proportional_kib(pid: u32) -> Result<u64, Miss> {
    rollup_kib(pid, &["Pss:"])
}

/// The memory of a process in KiB that no other process shares.
pub(super) fn private_kib(pid: u32) -> Result<u64, Miss> {
    rollup_kib(pid, &["Private_Clean:", "Private_Dirty:"])
}

/// The sum of these figures of a process's memory, KiB.
fn rollup_kib(pid: u32, figures: &[&str]) -> Result<u64, Miss> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            Miss::Absent("the processes' memory is for root to see".into())
        }
        _ => Miss::Failed(format!("{path}: {error}")),
    })?;
    let mut sum = 0;
    for figure in figures {
        let line = text.lines().find_map(|line| line.strip_prefix(figure));
        let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
        sum += kib.ok_or_else(|| Miss::Absent(format!("{path} has no {figure}")))?;
    }
    Ok(sum)
}

/// Clients, killed on drop.
#[derive(Default)]
struct Clients(Vec<Child>);

impl Drop for Clients {
    fn drop(&mut self) {
        for mut child in self.0.drain(..) {
            kill(child.id());
            let _ = child.wait();
        }
    }
}
