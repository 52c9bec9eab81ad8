//! `compress`: a file with `-C` through a session into `/dev/null`, by kinds of data; the sender
//! alone; and what a session that has compressed keeps of its memory.

use std::fs::File;

use super::deflate;
use super::figures::{BenchEntry, BenchGroup, Emit, EntryKind, Per, Unit};
use super::idle;
use super::options::{BenchDirection, BenchRow, BenchTransport};
use super::rounds::{Bench, Ends};
use super::transfer::{self, Chain, Transfer, TransferFiles};
use crate::corpus::Data;
use crate::harness::{Harness, ServerHost, Wishes};

/// MiB of the file when it says nothing: the slowest of the peers does 29 MiB a second.
const MIB: u64 = 64;

/// Measures every kind in every direction, with and without `-C`.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) -> Result<(), String> {
    let files = TransferFiles::new().map_err(|error| error.to_string())?;
    let mut harnesses = bench.harnesses(&bench.servers, "Compression yes");
    if let Some(ours) = harnesses.first_mut() {
        // Who does not ask for zstd has zlib.
        *ours = bench.harness(0, &bench.servers, "Compression zstd");
    }
    for data in Data::ALL {
        let bytes = bench.settings.mib.unwrap_or(MIB) << 20;
        File::create(files.sent())
            .and_then(|file| data.write(bytes, file))
            .map_err(|error| error.to_string())?;
        emit(deflate::measure(
            bench,
            &mut harnesses,
            &files,
            (data, bytes),
        )?);
        for direction in &bench.settings.directions {
            emit(group(
                bench,
                &mut harnesses,
                &files,
                (data, *direction, bytes),
            ));
        }
    }
    idle::measure_compressed(bench, &files, emit)
}

fn group(
    bench: &Bench,
    harnesses: &mut [Result<Harness, String>],
    files: &TransferFiles,
    (data, direction, bytes): (Data, BenchDirection, u64),
) -> BenchGroup {
    let mut runs: Vec<(Ends, Wishes)> = Vec::new();
    let mut entries = Vec::new();
    for (chain, entry) in bench.chains() {
        runs.push((
            chain,
            Wishes {
                compress: true,
                ..Wishes::default()
            },
        ));
        entries.push(entry);
    }
    let zstd = Wishes {
        options: vec!["Compression=zstd".into()],
        ..Wishes::default()
    };
    for (wishes, label) in [
        (zstd, "Fulmar → Fulmar, zstd"),
        (Wishes::default(), "Fulmar → Fulmar, without -C"),
    ] {
        let ends = Ends {
            client: 0,
            server: 0,
        };
        runs.push((ends, wishes));
        entries.push(BenchEntry::new(label, EntryKind::Mixed));
    }
    let transfer = Transfer {
        way: BenchTransport::Null,
        direction,
        bytes,
        files,
    };
    let mut factors = vec![String::new(); entries.len()];
    let group = BenchGroup {
        row: BenchRow::Compress.name(),
        title: format!("{}, {}", data.name(), direction.name()),
        unit: Unit::MibPerSecond,
        per: Per::Gib,
        entries,
        notes: vec![format!("ssh -C, file of {} MiB to /dev/null", bytes >> 20)],
    };
    let here = ServerHost::here();
    let mut group = bench.alternate(group, bench.settings.rounds(deflate::ROUNDS), |index| {
        let (ends, wishes) = runs.get(index).ok_or("no such chain")?;
        let (Some(suite), Some(harness)) = (
            bench.suites.get(ends.client),
            harnesses.get_mut(ends.server),
        ) else {
            return Err("no such suite".into());
        };
        let mut chain = Chain::ssh(harness, suite, wishes)?;
        let (sample, said) = transfer::run(&transfer, &mut chain, &here)?;
        if let (Some(factor), Some(place)) = (said.factor(direction), factors.get_mut(index)) {
            *place = factor;
        }
        Ok(sample)
    });
    for (entry, factor) in group.entries.iter_mut().zip(factors) {
        entry.more.push(("ratio".into(), factor));
    }
    group
}
