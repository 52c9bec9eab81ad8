//! The other tables of `echo`: round trips of one byte while the same connection downloads at full
//! speed, on this machine and over a long path.
//!
//! The byte comes back by standard error, the download by standard output: every client has both,
//! and neither needs a terminal or a second session.

use std::io::{self, Read, Write};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::figures::{BenchGroup, Emit, Per, Unit};
use super::options::BenchRow;
use super::relay::PIPE_BYTES;
use super::report;
use super::roles;
use super::rounds::{Bench, Ends, Miss, Sample};
use super::stats;
use super::wan::World;
use super::words::{Watch, kill};
use crate::harness::{Harness, ServerHost};

/// Default number of rounds.
const ROUNDS: usize = 3;
/// Round trips of one round, fewer where they take longer than [`PATIENCE`].
const TRIPS: usize = 100;
const PATIENCE: Duration = Duration::from_secs(10);
/// The same over a long path.
const FAR_TRIPS: usize = 30;
/// Pause between two round trips, a tenth of the pause of a fast typist.
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes downloaded before the first round trip, if the transfer is that large: windows and buffers
/// have grown by then.
const BEFORE: u64 = 64 << 20;
/// Limit on the time of that download.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Limit on the kept bytes of a client's error message.
const MAX_COMPLAINT_BYTES: usize = 1024;

/// The result of one round.
struct Round {
    /// Round-trip times, milliseconds.
    times: Vec<f64>,
    /// Of the download meanwhile.
    mib_per_second: f64,
}

/// Where both ends are, and how much is asked of them.
struct EchoStand<'a> {
    harnesses: &'a mut [Result<Harness, String>],
    near: &'a ServerHost,
    trips: usize,
}

/// Measures every chain on this machine, and over each path that was asked for, where root asks.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) {
    let mut stand = EchoStand {
        harnesses: &mut bench.harnesses(&bench.servers, ""),
        near: &ServerHost::here(),
        trips: TRIPS,
    };
    emit(stand.measure(bench, group(bench, "", TRIPS)));
    let world = World::begin();
    let mut harnesses = match &world {
        Ok(world) => bench.harnesses(&world.far, ""),
        Err(_) => Vec::new(),
    };
    for rtt_ms in &bench.settings.rtts_ms {
        for mbit in &bench.settings.rates_mbit {
            let rate = match mbit {
                0 => "no rate".to_string(),
                mbit => format!("{mbit} Mbit/s"),
            };
            let mut group = group(bench, &format!(", {rtt_ms} ms, {rate}"), FAR_TRIPS);
            let set = world.as_ref().map_err(Clone::clone);
            match set.and_then(|world| Ok((world, world.set(*rtt_ms, *mbit)?))) {
                Ok((world, seen)) => {
                    group.notes.push(format!(
                        "round-trip time seen: {:.1} ms",
                        seen.as_secs_f64() * 1e3
                    ));
                    let mut stand = EchoStand {
                        harnesses: &mut harnesses,
                        near: &world.near,
                        trips: FAR_TRIPS,
                    };
                    emit(stand.measure(bench, group));
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
}

/// A table without figures.
fn group(bench: &Bench, path: &str, trips: usize) -> BenchGroup {
    BenchGroup {
        row: BenchRow::Echo.name(),
        title: format!("one byte beside a download{path}"),
        unit: Unit::Milliseconds,
        per: Per::RoundTrip,
        entries: bench.chains().into_iter().map(|(_, entry)| entry).collect(),
        notes: vec![format!(
            "ssh host 'cat /dev/zero & cat >&2'; {trips} round trips a round, {} ms between two",
            PAUSE.as_millis()
        )],
    }
}

impl EchoStand<'_> {
    /// Fills the table.
    fn measure(&mut self, bench: &Bench, group: BenchGroup) -> BenchGroup {
        let chains: Vec<Ends> = bench.chains().into_iter().map(|(chain, _)| chain).collect();
        let mut more: Vec<Vec<[f64; 3]>> = vec![Vec::new(); chains.len()];
        let mut group = bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
            let chain = chains.get(index).ok_or("no such chain")?;
            let round = self.round(bench, *chain)?;
            let slow = [0.99, 1.0].map(|part| stats::quantile(&round.times, part));
            if let Some(more) = more.get_mut(index) {
                more.push([slow[0], slow[1], round.mib_per_second]);
            }
            Ok(Sample {
                value: stats::median(&round.times),
                cpu: None,
            })
        });
        for (entry, rounds) in group.entries.iter_mut().zip(&more) {
            // The first does not count.
            let counted = rounds.get(1..).unwrap_or_default();
            for (column, what) in ["99th of 100", "slowest", "download MiB/s"]
                .into_iter()
                .enumerate()
            {
                let values: Vec<f64> = counted.iter().map(|round| round[column]).collect();
                let value = match column {
                    1 => stats::range(&values).1,
                    _ => stats::median(&values),
                };
                entry.more.push((what.into(), report::digits(value)));
            }
        }
        group
    }

    fn round(&mut self, bench: &Bench, chain: Ends) -> Result<Round, Miss> {
        let (Some(suite), Some(harness)) = (
            bench.suites.get(chain.client),
            self.harnesses.get_mut(chain.server),
        ) else {
            return Err("no such suite".into());
        };
        let harness = harness.as_mut().map_err(|why| why.clone())?;
        harness.serve()?;
        let mut client = harness.client(suite, &[], &remote());
        client
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = self.near.spawn(client)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("no pipes".into());
        };
        let watch = Watch::start(child.id());
        let moved = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&moved);
        let download = thread::spawn(move || count(stdout, &counted));
        let before = BEFORE.min(bench.settings.bytes());
        let round = trips((stdin, stderr), self.trips, &moved, before);
        // The download has no end of its own.
        kill(child.id());
        child.wait()?;
        let stuck = watch.stop();
        let _ = download.join();
        harness.stop()?;
        if stuck {
            return Err("stuck".into());
        }
        Ok(round?)
    }
}

/// The remote command: reports that it runs, writes endless output, and echoes its input to standard
/// error.
fn remote() -> String {
    format!("echo '{}' >&2; cat /dev/zero & exec cat >&2", roles::READY)
}

/// Takes the download as fast as it comes.
fn count(mut from: ChildStdout, moved: &AtomicU64) {
    let _ = sys::io::set_pipe_size(&from, PIPE_BYTES);
    let mut room = vec![0; PIPE_BYTES];
    while let Ok(more @ 1..) = from.read(&mut room) {
        moved.fetch_add(more as u64, Relaxed);
    }
}

fn trips(
    (mut stdin, mut stderr): (ChildStdin, ChildStderr),
    trips: usize,
    moved: &AtomicU64,
    before: u64,
) -> io::Result<Round> {
    wait_ready(&mut stderr)?;
    let begun = Instant::now();
    while moved.load(Relaxed) < before {
        if begun.elapsed() > START_LIMIT {
            return Err(io::Error::other("the download did not start"));
        }
        thread::sleep(PAUSE);
    }
    let mut times = Vec::with_capacity(trips);
    let (begun, before) = (Instant::now(), moved.load(Relaxed));
    while times.len() < trips && (times.is_empty() || begun.elapsed() < PATIENCE) {
        let [sent, ..] = times.len().to_le_bytes();
        let start = Instant::now();
        stdin.write_all(&[sent])?;
        let mut came = [0];
        stderr.read_exact(&mut came)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        if came != [sent] {
            return Err(io::Error::other("another byte came back"));
        }
        thread::sleep(PAUSE);
    }
    let bytes = moved.load(Relaxed) - before;
    if bytes == 0 {
        return Err(io::Error::other("the download stalled"));
    }
    #[allow(clippy::cast_precision_loss)]
    let mib = bytes as f64 / f64::from(1 << 20);
    Ok(Round {
        times,
        mib_per_second: mib / begun.elapsed().as_secs_f64(),
    })
}

/// Reads to the end of the line by which the far end tells that it runs.
///
/// # Errors
/// Returns an error with the other text if the command fails to start.
fn wait_ready(stderr: &mut ChildStderr) -> io::Result<()> {
    let ready = format!("{}\n", roles::READY);
    let mut said = Vec::new();
    let mut byte = [0];
    while !said.ends_with(ready.as_bytes()) {
        if said.len() == MAX_COMPLAINT_BYTES || stderr.read(&mut byte)? == 0 {
            let text = String::from_utf8_lossy(&said);
            return Err(io::Error::other(text.trim().to_owned()));
        }
        said.extend_from_slice(&byte);
    }
    Ok(())
}
