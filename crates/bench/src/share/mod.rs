//! `share`: sessions on the connection of a master: one after the other, here and over a long path,
//! many at once, and bulk. [`bulk`] compares what is shared with several connections, [`memory`] is that of a
//! master.

mod bulk;
mod memory;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::figures::{BenchEntry, BenchGroup, Emit, EntryKind, Per, Unit};
use super::options::BenchRow;
use super::rounds::{Bench, Ends, Miss, Sample};
use super::transfer::TransferFiles;
use super::wan::World;
use crate::harness::{Harness, ServerHost, SuiteKind};

/// Default number of rounds.
const ROUNDS: usize = 7;
/// Sessions of a round, one after the other.
const IN_TURN: u32 = 50;
/// Those over a long path.
const FAR_IN_TURN: u32 = 8;
/// Sessions of a round that start together.
const AT_ONCE: usize = 64;
/// Time limit for a master to listen.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(2);
/// The server's lines: its limits are not what is measured.
const LINES: &str = "MaxSessions 1000\nMaxStartups 1000\nSubsystem sftp internal-sftp";
/// Fulmar at both ends.
const OURS: Ends = Ends {
    client: 0,
    server: 0,
};
/// Goal for a session on this machine, ms.
const SESSION_GOAL: f64 = 2.5;
/// Goal for the same beside OpenSSH with its own master: as many times as fast.
const PEER_GOAL: f64 = 6.0;
/// Goal for sessions that start together, per second.
const AT_ONCE_GOAL: f64 = 600.0;
/// Goal for bulk through a master beside that of a connection of its own.
const BULK_GOAL: f64 = 0.97;

/// A master, which ends when this is dropped.
struct SharedLine {
    master: Child,
    path: PathBuf,
}

impl Drop for SharedLine {
    fn drop(&mut self) {
        let _ = self.master.kill();
        let _ = self.master.wait();
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Who measures what: the programs of an entry, and whether they share.
#[derive(Clone, Copy)]
struct ShareRun {
    ends: Ends,
    shares: bool,
}

/// Measures each chain of programs that share connections.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) {
    let mut harnesses = bench.harnesses(&bench.servers, LINES);
    let is_sharing = |ends: &Ends| {
        let suite = bench.suites.get(ends.client);
        suite.is_some_and(|suite| suite.kind != SuiteKind::Dropbear)
    };
    let chains: Vec<(Ends, BenchEntry)> = bench
        .chains()
        .into_iter()
        .filter(|(ends, _)| is_sharing(ends))
        .collect();
    let (ends, mut entries): (Vec<Ends>, Vec<BenchEntry>) = chains.into_iter().unzip();
    let group = |title: &str, unit, entries: &[BenchEntry], note: String| BenchGroup {
        row: BenchRow::Share.name(),
        title: title.to_owned(),
        unit,
        per: Per::Login,
        entries: entries.to_vec(),
        notes: vec![note],
    };
    let rounds = bench.settings.rounds(ROUNDS);
    let here = ServerHost::here();

    let note = format!(
        "ssh -S … host true, {IN_TURN} in turn through one master, divided by their number; \
         programs: true twice, without SSH"
    );
    entries.push(BenchEntry::new("programs", EntryKind::Limit));
    let in_turn = group("sessions in turn", Unit::Milliseconds, &entries, note);
    let mut in_turn = bench.alternate(in_turn, rounds, |index| match ends.get(index) {
        Some(ends) => in_turn_once(bench, &mut harnesses, *ends, &here, IN_TURN),
        None => empty_programs(),
    });
    judge_sessions(&mut in_turn);
    emit(in_turn);

    entries.pop();
    let files = TransferFiles::new();
    far_in_turn(bench, &ends, &entries, files.as_ref().ok(), rounds, emit);
    let note = format!("{AT_ONCE} × ssh -S … host true, all started together");
    let at_once = group("sessions at once", Unit::PerSecond, &entries, note);
    let mut at_once = bench.alternate(at_once, rounds, |index| {
        let ends = ends.get(index).copied().ok_or("no such chain")?;
        at_once_once(bench, &mut harnesses, ends)
    });
    at_once.judge("sessions in a second", at_once.ours(), true, AT_ONCE_GOAL);
    emit(at_once);

    bulk_beside_direct(bench, &mut harnesses, (&ends, &entries), rounds, emit);
    if let Ok(files) = &files {
        let place = bulk::BulkPlace {
            near: &here,
            words: String::new(),
            files,
        };
        bulk::measure(bench, &mut harnesses, &place, (&ends, rounds), emit);
    }
    if ends.contains(&OURS) {
        memory::measure(bench, &mut harnesses, emit);
    }
}

/// Bulk through a master of each chain, and by a login of its own.
fn bulk_beside_direct(
    bench: &Bench,
    harnesses: &mut Harnesses,
    (ends, entries): (&[Ends], &[BenchEntry]),
    rounds: usize,
    emit: &mut Emit<'_>,
) {
    let mib = bench.settings.mib();
    let runs: Vec<(ShareRun, BenchEntry)> = ends
        .iter()
        .zip(entries)
        .flat_map(|(ends, entry)| {
            [(true, "shared"), (false, "direct")].map(|(shares, how)| {
                let label = format!("{}, {how}", entry.label);
                let run = ShareRun {
                    ends: *ends,
                    shares,
                };
                (run, BenchEntry::new(label, entry.part))
            })
        })
        .collect();
    let (runs, entries): (Vec<ShareRun>, Vec<BenchEntry>) = runs.into_iter().unzip();
    let note = format!("ssh host 'head -c {mib}M /dev/zero' >/dev/null");
    let bulk = BenchGroup {
        row: BenchRow::Share.name(),
        title: "bulk".to_owned(),
        unit: Unit::MibPerSecond,
        per: Per::Login,
        entries,
        notes: vec![note],
    };
    let mut bulk = bench.alternate(bulk, rounds, |index| {
        let run = runs.get(index).copied().ok_or("no such run")?;
        bulk_once(bench, harnesses, run, mib)
    });
    let medians = [0, 1].map(|index| bulk.entries.get(index)?.median());
    if let ([Some(shared), Some(direct)], true) = (medians, ends.first() == Some(&OURS)) {
        bulk.judge(
            "shared beside direct",
            Some(shared / direct),
            true,
            BULK_GOAL,
        );
    }
    emit(bulk);
}

/// Compares sessions in turn with their goals, of which one is what the programs take.
fn judge_sessions(group: &mut BenchGroup) {
    let ours = group.ours();
    group.judge("ms", ours, false, SESSION_GOAL);
    let programs = group
        .entries
        .iter()
        .find(|entry| entry.part == EntryKind::Limit);
    if let Some(programs) = programs.and_then(BenchEntry::median) {
        let goal = 1.2 * programs + 1.0;
        let goal = (goal * 100.0).round() / 100.0;
        group.judge("ms, beside 1.2 × programs + 1", ours, false, goal);
    }
    let first = group
        .entries
        .iter()
        .find(|entry| entry.part == EntryKind::Ours);
    let ratio = first.and_then(|entry| group.ratio(entry, EntryKind::Peer));
    group.judge("times as fast as the peer", ratio, true, PEER_GOAL);
}

/// The same over each long path that was asked for. A session takes a round trip or two more than the
/// programs here, and no login.
fn far_in_turn(
    bench: &Bench,
    ends: &[Ends],
    entries: &[BenchEntry],
    files: Option<&TransferFiles>,
    rounds: usize,
    emit: &mut Emit<'_>,
) {
    let world = World::begin();
    let mut harnesses = match &world {
        Ok(world) => bench.harnesses(&world.far, LINES),
        Err(_) => Vec::new(),
    };
    for rtt_ms in &bench.settings.rtts_ms {
        let mut group = BenchGroup {
            row: BenchRow::Share.name(),
            title: format!("sessions in turn, {rtt_ms} ms"),
            unit: Unit::Milliseconds,
            per: Per::Login,
            entries: entries.to_vec(),
            notes: vec![format!(
                "ssh -S … host true, {FAR_IN_TURN} in turn through one master, divided by their number"
            )],
        };
        let set = world.as_ref().map_err(Clone::clone);
        match set.and_then(|world| Ok((world, world.set(*rtt_ms, 0)?))) {
            Ok((world, seen)) => {
                let seen = seen.as_secs_f64() * 1e3;
                group
                    .notes
                    .push(format!("round-trip time seen: {seen:.1} ms"));
                emit(bench.alternate(group, rounds, |index| {
                    let ends = ends.get(index).copied().ok_or("no such chain")?;
                    in_turn_once(bench, &mut harnesses, ends, &world.near, FAR_IN_TURN)
                }));
                if let Some(files) = files {
                    let words = format!(", {rtt_ms} ms");
                    let place = bulk::BulkPlace {
                        near: &world.near,
                        words,
                        files,
                    };
                    bulk::measure(bench, &mut harnesses, &place, (ends, rounds), emit);
                }
            }
            Err(why) => {
                for entry in &mut group.entries {
                    entry.missing = Some(Miss::Absent(why.clone()));
                }
                emit(group);
            }
        }
    }
}

type Harnesses = [Result<Harness, String>];

/// The chain's harness, serving.
fn serving(harnesses: &mut Harnesses, ends: Ends) -> Result<&mut Harness, Miss> {
    let harness = harnesses.get_mut(ends.server).ok_or("no such suite")?;
    let harness = harness.as_mut().map_err(|why| why.clone())?;
    harness.serve()?;
    Ok(harness)
}

/// A master of the chain's client at `near`, the `number`th of its connections.
fn share(
    bench: &Bench,
    harness: &Harness,
    ends: Ends,
    near: &ServerHost,
    number: usize,
) -> Result<SharedLine, Miss> {
    let suite = bench.suites.get(ends.client).ok_or("no such suite")?;
    let path = harness.path(&format!("master.{}.{number}", ends.client));
    let _ = std::fs::remove_file(&path);
    let shown = path.display().to_string();
    let mut client = harness.client(suite, &["-M", "-N", "-S", &shown], "");
    client.stdin(Stdio::null()).stdout(Stdio::null());
    let mut line = SharedLine {
        master: near.spawn(client)?,
        path,
    };
    let end = Instant::now() + START_LIMIT;
    while !line.path.exists() {
        if Instant::now() > end || line.master.try_wait()?.is_some() {
            return Err("no master".into());
        }
        std::thread::sleep(LOOK);
    }
    Ok(line)
}

/// A passenger with this command; without a master, a client that logs in.
fn passenger(
    bench: &Bench,
    harness: &Harness,
    ends: Ends,
    line: Option<&SharedLine>,
    command: &str,
) -> Result<Command, Miss> {
    let suite = bench.suites.get(ends.client).ok_or("no such suite")?;
    let path = line.map_or_else(|| "none".to_owned(), |line| line.path.display().to_string());
    let mut client = harness.client(suite, &["-S", &path], command);
    client.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(client)
}

fn ended_well(mut child: Child) -> Result<(), Miss> {
    match child.wait()?.success() {
        true => Ok(()),
        false => Err("a session failed".into()),
    }
}

fn sample(value: f64) -> Sample {
    Sample { value, cpu: None }
}

fn in_turn_once(
    bench: &Bench,
    harnesses: &mut Harnesses,
    ends: Ends,
    near: &ServerHost,
    count: u32,
) -> Result<Sample, Miss> {
    let harness = serving(harnesses, ends)?;
    let line = share(bench, harness, ends, near, 0)?;
    let begin = Instant::now();
    for _ in 0..count {
        ended_well(near.spawn(passenger(bench, harness, ends, Some(&line), "true")?)?)?;
    }
    let ms = begin.elapsed().as_secs_f64() * 1e3;
    Ok(sample(ms / f64::from(count)))
}

/// Two programs that do nothing, one after the other, in place of a session.
fn empty_programs() -> Result<Sample, Miss> {
    let begin = Instant::now();
    for _ in 0..IN_TURN * 2 {
        ended_well(Command::new("true").spawn()?)?;
    }
    let ms = begin.elapsed().as_secs_f64() * 1e3;
    Ok(sample(ms / f64::from(IN_TURN)))
}

fn at_once_once(bench: &Bench, harnesses: &mut Harnesses, ends: Ends) -> Result<Sample, Miss> {
    let harness = serving(harnesses, ends)?;
    let line = share(bench, harness, ends, &ServerHost::here(), 0)?;
    let begin = Instant::now();
    let started: Result<Vec<Child>, Miss> = (0..AT_ONCE)
        .map(|_| Ok(passenger(bench, harness, ends, Some(&line), "true")?.spawn()?))
        .collect();
    started?.into_iter().try_for_each(ended_well)?;
    Ok(sample(64.0 / begin.elapsed().as_secs_f64()))
}

fn bulk_once(
    bench: &Bench,
    harnesses: &mut Harnesses,
    run: ShareRun,
    mib: u64,
) -> Result<Sample, Miss> {
    let ends = run.ends;
    let harness = serving(harnesses, ends)?;
    let command = format!("head -c {mib}M /dev/zero");
    let line = match run.shares {
        true => Some(share(bench, harness, ends, &ServerHost::here(), 0)?),
        false => None,
    };
    let mut client = passenger(bench, harness, ends, line.as_ref(), &command)?;
    client.stdout(Stdio::piped());
    let begin = Instant::now();
    let mut child = client.spawn()?;
    let mut from = child.stdout.take().ok_or("no pipe")?;
    let bytes = std::io::copy(&mut from, &mut std::io::sink())?;
    let seconds = begin.elapsed().as_secs_f64();
    ended_well(child)?;
    if bytes != mib << 20 {
        return Err("bytes are missing".into());
    }
    let whole = f64::from(u32::try_from(mib).unwrap_or(u32::MAX));
    Ok(sample(whole / seconds))
}
