//! `echo`: one byte through a session to `cat` and back, without a terminal, again and again.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::figures::{BenchGroup, Cpu, Per, Unit};
use super::options::BenchRow;
use super::roles;
use super::rounds::{Bench, Ends, Miss, Sample};
use super::stats;
use super::transfer::{RelayEnd, relay_ends};
use super::words::{StderrReader, Watch};
use crate::harness::Harness;

/// Default number of rounds.
const ROUNDS: usize = 5;
/// Round trips of one round, after as many of a tenth that do not count.
const TRIPS: usize = 10_000;

/// Measures every chain, and the relay without SSH.
pub(super) fn measure(bench: &Bench) -> BenchGroup {
    let mut harnesses = bench.harnesses(&bench.servers, "");
    let (chains, entries) = bench.chains_and_tcp();
    let mut slowest: Vec<Vec<f64>> = vec![Vec::new(); entries.len()];
    let group = BenchGroup {
        row: BenchRow::Echo.name(),
        title: "one byte there and back".into(),
        unit: Unit::Microseconds,
        per: Per::RoundTrip,
        entries,
        notes: vec![format!(
            "ssh host cat, no terminal; {TRIPS} round trips a round, of which the median"
        )],
    };
    let mut group = bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
        let (sample, slow) = match chains.get(index).copied().flatten() {
            Some(chain) => through_ssh(bench, chain, &mut harnesses)?,
            None => through_relay(bench)?,
        };
        if let Some(slowest) = slowest.get_mut(index) {
            slowest.push(slow);
        }
        Ok(sample)
    });
    for (entry, slow) in group.entries.iter_mut().zip(&slowest) {
        // The first is of the round that does not count.
        let counted = stats::median(slow.get(1..).unwrap_or_default());
        entry
            .more
            .push(("99th of 100".into(), super::report::digits(counted)));
    }
    group
}

fn through_ssh(
    bench: &Bench,
    chain: Ends,
    harnesses: &mut [Result<Harness, String>],
) -> Result<(Sample, f64), Miss> {
    let (Some(suite), Some(harness)) = (
        bench.suites.get(chain.client),
        harnesses.get_mut(chain.server),
    ) else {
        return Err("no such suite".into());
    };
    let harness = harness.as_mut().map_err(|why| why.clone())?;
    harness.serve()?;
    let mut client = harness.client(suite, &[], &remote());
    client.stderr(Stdio::piped());
    let (mut sample, slow) = trips(client, None)?;
    let server = harness.stop()?;
    set_server(&mut sample, server);
    Ok((sample, slow))
}

fn through_relay(bench: &Bench) -> Result<(Sample, f64), Miss> {
    let RelayEnd { far, words, near } = relay_ends(
        ("relay-server", &[&remote()]),
        "relay-client",
        &bench.servers,
    )?;
    let (mut sample, slow) = trips(near, Some(words))?;
    let (_, used) = sys::process::wait_usage(far)?;
    set_server(&mut sample, used.total());
    Ok((sample, slow))
}

fn set_server(sample: &mut Sample, used: std::time::Duration) {
    #[allow(clippy::cast_precision_loss)]
    let each = used.as_secs_f64() / TRIPS as f64;
    if let Some(cpu) = &mut sample.cpu {
        cpu.server = each;
    }
}

fn remote() -> String {
    format!("echo '{}' >&2; exec cat", roles::READY)
}

/// The median of the round trips through `client`, µs, and the slowest but one hundredth.
fn trips(
    mut client: Command,
    words: Option<std::process::ChildStderr>,
) -> Result<(Sample, f64), Miss> {
    client.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = client.spawn()?;
    let (Some(mut stdin), Some(mut stdout), Some(words)) = (
        child.stdin.take(),
        child.stdout.take(),
        words.or_else(|| child.stderr.take()),
    ) else {
        return Err("no pipes".into());
    };
    let words = StderrReader::listen(words);
    let watch = Watch::start(child.id());
    words.wait_ready();
    let mut times = Vec::with_capacity(TRIPS);
    let mut work = || -> std::io::Result<()> {
        for trip in 0..TRIPS + TRIPS / 10 {
            let [sent, ..] = trip.to_le_bytes();
            let begun = Instant::now();
            stdin.write_all(&[sent])?;
            let mut came = [0];
            stdout.read_exact(&mut came)?;
            if came != [sent] {
                return Err(std::io::Error::other("another byte came back"));
            }
            if trip >= TRIPS / 10 {
                times.push(begun.elapsed().as_secs_f64() * 1e6);
            }
        }
        Ok(())
    };
    let worked = work();
    drop((stdin, stdout));
    let (status, usage) = sys::process::wait_usage(child)?;
    let stuck = watch.stop();
    let said = words.all();
    if stuck {
        return Err("stuck".into());
    }
    worked.map_err(|error| said.complaint(&error.to_string()))?;
    if !status.is_success() {
        return Err(said.complaint(&format!("{status:?}")).into());
    }
    #[allow(clippy::cast_precision_loss)]
    let client = usage.total().as_secs_f64() / TRIPS as f64;
    let sample = Sample {
        value: stats::median(&times),
        cpu: Some(Cpu {
            client,
            server: 0.0,
        }),
    };
    Ok((sample, stats::quantile(&times, 0.99)))
}
