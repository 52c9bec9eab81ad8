//! `login`: `ssh host true`, from the client's start to its exit, alone and many at once, and what
//! it costs both ends; with less of the CPU in [`tiers`], with other host keys in [`host_keys`], without
//! the login in [`handshake`], and without SSH in [`starts`].

mod handshake;
mod host_keys;
mod library;
mod starts;
mod tiers;

use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::figures::{BenchEntry, BenchGroup, Cpu, Emit, EntryKind, Per, Unit};
use super::options::BenchRow;
use super::rounds::{Bench, Ends, Miss, Sample};
use super::stats;
use crate::harness::{Harness, Suite, SuiteKind};

/// Default number of rounds.
const ROUNDS: usize = 21;

/// Rounds of logins at once when the command line says nothing.
const CROWD_ROUNDS: usize = 3;
/// Clients at once; dropbear turns away more than five from one address that have not logged in.
const AT_ONCE: usize = 8;
const AT_ONCE_DROPBEAR: usize = 4;

/// A login of one suite's client to another's server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Visit {
    pub(super) chain: Ends,
    /// Options of the client.
    pub(super) options: &'static [&'static str],
}

/// A way in which our client logs in: what it is called, and its options.
pub(super) type Manner = (&'static str, &'static [&'static str]);

/// As if it were the first login.
pub(super) const COLD: Manner = ("cold", &["-oLoginCache=no"]);

/// The chains, those of our client several times: as it is, after a login to the same server, and
/// in these manners.
pub(super) fn visits(bench: &Bench, manners: &[Manner]) -> (Vec<Visit>, Vec<BenchEntry>) {
    let mut all = Vec::new();
    for (chain, entry) in bench.chains() {
        let (label, part) = (entry.label.clone(), entry.part);
        let options: &[&str] = &[];
        all.push((Visit { chain, options }, entry));
        let ours = bench.suites.get(chain.client);
        if ours.is_some_and(|suite| suite.kind == SuiteKind::Ours) {
            for (name, options) in manners {
                let entry = BenchEntry::new(format!("{label}, {name}"), part);
                all.push((Visit { chain, options }, entry));
            }
        }
    }
    all.into_iter().unzip()
}

/// Measures logins to servers that keep running, one for each chain.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) {
    emit(one_by_one(bench));
    emit(at_once(bench));
    handshake::measure(bench, emit);
    emit(tiers::measure(bench));
    emit(host_keys::measure(bench));
}

fn one_by_one(bench: &Bench) -> BenchGroup {
    let (visits, mut entries) = visits(bench, &[COLD]);
    let (library, of_library): (Vec<_>, Vec<_>) = library::visits().into_iter().unzip();
    entries.extend(of_library);
    entries.push(starts::entry());
    // The library logs in to the first suite, which is ours.
    let servers = visits.iter().map(|visit| visit.chain.server);
    let mut harnesses: Vec<Result<Harness, String>> = servers
        .chain(library.iter().map(|_| 0))
        .map(|server| bench.harness(server, &bench.servers, "MaxStartups 1000"))
        .collect();
    let group = BenchGroup {
        row: BenchRow::Login.name(),
        title: "ssh host true".into(),
        unit: Unit::Milliseconds,
        per: Per::Login,
        entries,
        notes: vec![
            "from the client's start to its exit; the server runs on".into(),
            "cold: without the cached server profile (LoginCache no)".into(),
            library::NOTE.into(),
            starts::NOTE.into(),
        ],
    };
    let mut group = bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
        let Some(harness) = harnesses.get_mut(index) else {
            return starts::once();
        };
        let harness = harness.as_mut().map_err(|why| why.clone())?;
        harness.serve()?;
        let client = visits.get(index).map_or(0, |visit| visit.chain.client);
        let suite = bench.suites.get(client).ok_or("no such suite")?;
        match (
            visits.get(index),
            library.get(index.wrapping_sub(visits.len())),
        ) {
            (Some(visit), _) => login(suite, harness, visit.options),
            (None, Some(visit)) => library::once(visit, suite, harness),
            (None, None) => Err("no such visit".into()),
        }
    });
    let harnesses = harnesses.iter_mut().map(|harness| harness.as_mut().ok());
    share_server_time(bench, &mut group, harnesses);
    group
}

/// Logins of ours to servers of ours, each made ready in a way of its own, by turns. The first way is what
/// the others are compared with.
fn by_turns<W>(
    bench: &Bench,
    (title, note): (&str, String),
    rounds: usize,
    ways: &[(&str, W)],
    prepare: impl Fn(&Bench, &W) -> Result<(Suite, Harness), Miss>,
) -> BenchGroup {
    let entries = ways.iter().enumerate().map(|(index, (name, _))| {
        let part = match index {
            0 => EntryKind::Ours,
            _ => EntryKind::Mixed,
        };
        BenchEntry::new(*name, part)
    });
    let group = BenchGroup {
        row: BenchRow::Login.name(),
        title: title.into(),
        unit: Unit::Milliseconds,
        per: Per::Login,
        entries: entries.collect(),
        notes: vec![note],
    };
    let mut harnesses: Vec<_> = ways.iter().map(|(_, way)| prepare(bench, way)).collect();
    let mut group = bench.alternate(group, bench.settings.rounds(rounds), |index| {
        let place = harnesses.get_mut(index).ok_or("no such way")?;
        let (suite, harness) = place.as_mut().map_err(|why| why.clone())?;
        harness.serve()?;
        login(suite, harness, &[])
    });
    let harnesses = harnesses.iter_mut().map(|place| place.as_mut().ok());
    let harnesses = harnesses.map(|place| place.map(|(_, harness)| harness));
    share_server_time(bench, &mut group, harnesses);
    group
}

/// Ends the servers that ran through all rounds, and shares out the CPU time that they used.
fn share_server_time<'l>(
    bench: &Bench,
    group: &mut BenchGroup,
    harnesses: impl Iterator<Item = Option<&'l mut Harness>>,
) {
    for (entry, harness) in group.entries.iter_mut().zip(harnesses) {
        let Some(harness) = harness else { continue };
        match harness.stop() {
            Ok(all) => {
                // With the round that does not count.
                #[allow(clippy::cast_precision_loss)]
                let logins = (entry.values.len() + 1) as f64;
                let each = all.as_secs_f64() / logins;
                entry.cpu.iter_mut().for_each(|cpu| cpu.server = each);
            }
            // The signal has ended the server, too.
            Err(_) if (bench.interrupted)() => {
                entry.cpu.iter_mut().for_each(|cpu| cpu.server = f64::NAN);
            }
            Err(error) => entry.missing = Some(error.into()),
        }
    }
}

fn at_once(bench: &Bench) -> BenchGroup {
    let (chains, entries): (Vec<Ends>, Vec<_>) = bench.chains().into_iter().unzip();
    let mut crowds: Vec<Vec<Crowd>> = vec![Vec::new(); entries.len()];
    let logins = bench.settings.logins;
    let group = BenchGroup {
        row: BenchRow::Login.name(),
        title: format!("ssh host true, {AT_ONCE} at once"),
        unit: Unit::PerSecond,
        per: Per::Login,
        entries,
        notes: vec![format!(
            "{logins} logins a round; dropbear {AT_ONCE_DROPBEAR} at once"
        )],
    };
    let mut group = bench.alternate(group, bench.settings.rounds(CROWD_ROUNDS), |index| {
        let chain = chains.get(index).ok_or("no such chain")?;
        let client = bench.suites.get(chain.client).ok_or("no such suite")?;
        let server = bench.suites.get(chain.server).ok_or("no such suite")?;
        let clients = match server.kind {
            SuiteKind::Dropbear => AT_ONCE_DROPBEAR,
            SuiteKind::Ours | SuiteKind::OpenSsh => AT_ONCE,
        };
        let mut harness = bench.harness(chain.server, &bench.servers, "MaxStartups 1000")?;
        let (sample, crowd) = crowd(client, &mut harness, (clients, logins), bench.interrupted)?;
        if let Some(crowds) = crowds.get_mut(index) {
            crowds.push(crowd);
        }
        Ok(sample)
    });
    for (entry, crowds) in group.entries.iter_mut().zip(&crowds) {
        let counted = crowds.get(1..).unwrap_or_default();
        let slowest: Vec<f64> = counted.iter().map(|crowd| crowd.slowest_ms).collect();
        let slowest = super::report::digits(stats::median(&slowest));
        entry.more.push(("99th of 100, ms".into(), slowest));
        let failed: usize = counted.iter().map(|crowd| crowd.failed.len()).sum();
        let of = counted.len() * logins;
        let failures = format!("{failed} of {of}");
        entry.more.push(("failed".into(), failures));
        if let Some(why) = counted.iter().find_map(|crowd| crowd.failed.first()) {
            group.notes.push(format!("{}: {}", entry.label, why.why()));
        }
    }
    group
}

/// What many logins at once have come to, beside their number a second.
#[derive(Debug, Clone)]
struct Crowd {
    /// What all but a hundredth took at most.
    slowest_ms: f64,
    /// Why logins failed.
    failed: Vec<Miss>,
}

/// Runs `logins` logins with `clients` at once; returns the successful logins per second and a
/// remark. An interrupted run has no remark.
fn crowd(
    suite: &Suite,
    harness: &mut Harness,
    (clients, logins): (usize, usize),
    interrupted: fn() -> bool,
) -> Result<(Sample, Crowd), Miss> {
    harness.serve()?;
    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    let shared: &Harness = harness;
    let each = || {
        let mut outcomes = Vec::new();
        while !interrupted() && next.fetch_add(1, Ordering::Relaxed) < logins {
            outcomes.push(login(suite, shared, &[]));
        }
        outcomes
    };
    let ran: Vec<Vec<Result<Sample, Miss>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(each)).collect();
        threads
            .into_iter()
            .map(|thread| {
                let panicked = || vec![Err("a client's thread panicked".into())];
                thread.join().unwrap_or_else(|_| panicked())
            })
            .collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    if interrupted() {
        // The signal has hit the clients, too: that they failed says nothing about the server.
        return Err("interrupted".into());
    }
    let (mut samples, mut failed) = (Vec::new(), Vec::new());
    for outcome in ran.into_iter().flatten() {
        match outcome {
            Ok(sample) => samples.push(sample),
            Err(why) => failed.push(why),
        }
    }
    if samples.is_empty() {
        let why = failed.into_iter().next();
        return Err(why.unwrap_or_else(|| "no login was tried".into()));
    }
    #[allow(clippy::cast_precision_loss)]
    let count = samples.len() as f64;
    let server = harness.stop()?.as_secs_f64() / count;
    let client = samples.iter().filter_map(|sample| sample.cpu);
    let client = client.map(|cpu| cpu.client).sum::<f64>() / count;
    let times: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
    let sample = Sample {
        value: count / seconds,
        cpu: Some(Cpu { client, server }),
    };
    let crowd = Crowd {
        slowest_ms: stats::quantile(&times, 0.99),
        failed,
    };
    Ok((sample, crowd))
}

/// One login to a server that runs: ms.
fn login(suite: &Suite, harness: &Harness, options: &[&str]) -> Result<Sample, Miss> {
    let mut client = harness.client(suite, options, "true");
    client
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let begun = Instant::now();
    let mut child = client.spawn().map_err(|error| error.to_string())?;
    let mut words = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // A client that says something that is no text says it in its status, too.
        let _ = std::io::Read::read_to_string(&mut stderr, &mut words);
    }
    let (status, usage) = sys::process::wait_usage(child).map_err(|error| error.to_string())?;
    let seconds = begun.elapsed().as_secs_f64();
    if !status.is_success() {
        let why = match words.trim() {
            "" => format!("{status:?}"),
            words => format!("{status:?}: {words}"),
        };
        return Err(harness.complaint(why).into());
    }
    Ok(Sample {
        value: seconds * 1e3,
        cpu: Some(Cpu::of_client(usage.total().as_secs_f64())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_that_is_interrupted_ends_early_and_without_figures() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let Ok(suite) = Suite::openssh() else {
            println!("skipped: no OpenSSH");
            return;
        };
        let mut harness = Harness::start(&suite, "").unwrap();
        harness.admit(&suite).unwrap();
        let (_, whole) = crowd(&suite, &mut harness, (2, 4), || false).unwrap();
        assert!(whole.failed.is_empty(), "{:?}", whole.failed);
        let cut = crowd(&suite, &mut harness, (1, 1000), || {
            ASKED.fetch_add(1, Ordering::Relaxed) >= 2
        });
        assert_eq!(cut.unwrap_err().why(), "interrupted");
        // Before each of two logins, before the third, and at the end.
        assert_eq!(ASKED.load(Ordering::Relaxed), 4);
    }
}
