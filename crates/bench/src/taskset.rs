//! `taskset`: one core for each end; `CryptoThreads auto` against `1`, in pairs with an interval.

use super::figures::{BenchEntry, BenchGroup, Emit, EntryKind, Per, Unit};
use super::options::{Algorithms, BenchDirection, BenchRow, BenchTransport};
use super::rounds::{Bench, Miss};
use super::stats;
use super::transfer::{self, Chain, Transfer, TransferFiles};
use crate::harness::{Harness, ServerHost, Wishes};

/// Default number of pairs.
const ROUNDS: usize = 30;
/// The compared values of `CryptoThreads`.
const THREADS: [&str; 2] = ["auto", "1"];

/// Measures Fulmar at both ends, each end on its own core.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) -> Result<(), String> {
    let cpus = sys::process::affinity().map_err(|error| error.to_string())?;
    let (Some(near), Some(far)) = (cpus.first(), cpus.get(1)) else {
        return Err("there is only one core".into());
    };
    let place = |cpu: &usize| ServerHost::on_cpu(*cpu).map_err(|error| error.to_string());
    let (near, far) = (place(near)?, place(far)?);
    let files = TransferFiles::new().map_err(|error| error.to_string())?;
    let mut harnesses: Vec<Result<Harness, String>> = THREADS
        .iter()
        .map(|threads| bench.harness(0, &far, &format!("CryptoThreads {threads}")))
        .collect();
    for algorithms in &bench.settings.algorithms {
        for direction in &bench.settings.directions {
            emit(group(
                bench,
                &mut harnesses,
                (&near, &files),
                (algorithms, *direction),
            ));
        }
    }
    Ok(())
}

fn group(
    bench: &Bench,
    harnesses: &mut [Result<Harness, String>],
    (near, files): (&ServerHost, &TransferFiles),
    (algorithms, direction): (&Algorithms, BenchDirection),
) -> BenchGroup {
    let transfer = Transfer {
        way: BenchTransport::Pipes,
        direction,
        bytes: bench.settings.bytes(),
        files,
    };
    let group = BenchGroup {
        row: BenchRow::Taskset.name(),
        title: format!("pipes, {}, {}", algorithms.name, direction.name()),
        unit: Unit::MibPerSecond,
        per: Per::Gib,
        entries: THREADS
            .iter()
            .map(|threads| BenchEntry::new(format!("CryptoThreads {threads}"), EntryKind::Ours))
            .collect(),
        notes: Vec::new(),
    };
    let mut group = bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
        let suite = bench.suites.first().ok_or("no such suite")?;
        let harness = harnesses.get_mut(index).ok_or("no such server")?;
        let harness = harness.as_mut().map_err(|why| Miss::Failed(why.clone()))?;
        let threads = THREADS.get(index).copied().unwrap_or_default();
        let wishes = Wishes {
            options: vec![format!("CryptoThreads={threads}")],
            ..algorithms.wishes.clone()
        };
        let mut chain = Chain::Ssh {
            harness,
            suite,
            wishes: &wishes,
        };
        transfer::run(&transfer, &mut chain, near).map(|(sample, _)| sample)
    });
    let values = |index: usize| {
        let entry = group.entries.get(index);
        entry.map(|entry| entry.values.clone()).unwrap_or_default()
    };
    if let Some(ratio) = stats::paired_ratio(&values(0), &values(1)) {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        group.notes.push(format!(
            "auto against 1, {} pairs: {:+.1} %, 95 % interval {:+.1} % to {:+.1} %",
            values(0).len(),
            percent(ratio.ratio),
            percent(ratio.low),
            percent(ratio.high)
        ));
    }
    group
}
