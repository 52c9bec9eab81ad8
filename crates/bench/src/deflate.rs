//! `compress`, the sender alone: bytes per CPU second of a client that sends with `-C`, and bytes
//! per second of two threads whose output is dropped.

use compress::PacketCompressor;
use std::fs;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use compress::{
    CompressionReport, CompressionSettings, Compressor, DeflateError, Encoded, RunDone, RunJob,
};

use super::figures::{BenchEntry, BenchGroup, EntryKind, Per, Unit};
use super::options::{BenchDirection, BenchRow, BenchTransport};
use super::rounds::{Bench, Miss, Sample};
use super::transfer::{self, Chain, Transfer, TransferFiles};
use crate::corpus::Data;
use crate::harness::{Harness, ServerHost, SuiteKind, Wishes};

/// Payload of a packet of a session's channel, bytes.
const PAYLOAD_BYTES: usize = 32 * 1024;
/// Number of payloads in a run, as in a session.
const RUN_PAYLOADS: usize = 4;
/// Default number of rounds of the row `compress`.
pub(super) const ROUNDS: usize = 5;
/// Number of threads of the second column.
const THREADS: usize = 2;

/// The sender whose time is measured.
#[derive(Debug, Clone)]
enum MeasuredSender {
    /// A client, by the index of its suite.
    Client { suite: usize, wishes: Wishes },
    /// [`THREADS`] threads of this process at a level.
    Threads { level: u8 },
}

/// One line of the table, with its goal as a multiple of OpenSSH's speed.
struct TableLine {
    label: String,
    part: EntryKind,
    sender: MeasuredSender,
    goal: Option<f64>,
}

/// The goals for `data`, as multiples of the speed of OpenSSH's `-C`: with one core and with two,
/// at level 6 and at level 1.
fn goals(data: Data) -> [(Option<f64>, Option<f64>); 2] {
    match data {
        Data::Mixed => [(Some(2.7), Some(5.0)), (Some(5.0), Some(9.0))],
        Data::Text => [(Some(2.5), Some(5.0)), (None, None)],
        Data::Zeros => [(Some(5.0), None), (None, None)],
        Data::Random => [(None, None), (None, None)],
    }
}

fn lines(bench: &Bench, data: Data) -> Vec<TableLine> {
    let mut lines = Vec::new();
    let is_openssh = |suite: &crate::harness::Suite| suite.kind == SuiteKind::OpenSsh;
    if let Some(suite) = bench.suites.iter().position(is_openssh) {
        let wishes = Wishes {
            compress: true,
            ..Wishes::default()
        };
        lines.push(TableLine {
            label: format!("{} -C", bench.suites.get(suite).map_or("", |it| &it.name)),
            part: EntryKind::Peer,
            sender: MeasuredSender::Client { suite, wishes },
            goal: None,
        });
    }
    let ours = |label: &str, options: &[&str], goal: Option<f64>| TableLine {
        label: label.into(),
        part: EntryKind::Ours,
        sender: MeasuredSender::Client {
            suite: 0,
            wishes: Wishes {
                compress: true,
                options: options.iter().map(ToString::to_string).collect(),
                ..Wishes::default()
            },
        },
        goal,
    };
    for (level, (one, two)) in [6, 1].into_iter().zip(goals(data)) {
        let options = [
            format!("CompressionLevel={level}"),
            "CompressionThreads=1".into(),
            "CompressionAdaptive=no".into(),
        ];
        let options = options.each_ref().map(String::as_str);
        lines.push(ours(&format!("level {level}"), &options, one));
        lines.push(TableLine {
            label: format!("level {level}, {THREADS} threads, by the clock"),
            part: EntryKind::Ours,
            sender: MeasuredSender::Threads { level },
            goal: two,
        });
    }
    let goal = (data == Data::Random).then_some(15.0);
    lines.push(ours("adaptive", &["CompressionThreads=1"], goal));
    for (label, adaptive) in [("zstd", "no"), ("zstd, adaptive", "yes")] {
        // The first value of an option counts, so there is no -C.
        let options = [
            "Compression=zstd",
            &format!("CompressionAdaptive={adaptive}"),
        ];
        let mut line = ours(label, &options, None);
        if let MeasuredSender::Client { wishes, .. } = &mut line.sender {
            wishes.compress = false;
        }
        lines.push(line);
    }
    lines
}

/// Measures the senders with `bytes` of `data`, the content of the file to be sent.
pub(super) fn measure(
    bench: &Bench,
    harnesses: &mut [Result<Harness, String>],
    files: &TransferFiles,
    (data, bytes): (Data, u64),
) -> Result<BenchGroup, String> {
    let plain = fs::read(files.sent()).map_err(|error| error.to_string())?;
    let lines = lines(bench, data);
    let transfer = Transfer {
        way: BenchTransport::Null,
        direction: BenchDirection::Up,
        bytes,
        files,
    };
    let entries = lines
        .iter()
        .map(|line| BenchEntry::new(&line.label, line.part));
    let group = BenchGroup {
        row: BenchRow::Compress.name(),
        title: format!("{}, the sender", data.name()),
        unit: Unit::MibPerSecond,
        per: Per::Gib,
        entries: entries.collect(),
        notes: vec![format!(
            "MiB for each second of the client's CPU, {} MiB to our server; with {THREADS} threads: \
             of the codec alone by the clock, what it makes is dropped",
            bytes >> 20
        )],
    };
    let here = ServerHost::here();
    let mut ratios = vec![String::new(); lines.len()];
    let rounds = bench.settings.rounds(ROUNDS);
    let mut group = bench.alternate(group, rounds, |index| {
        let line = lines.get(index).ok_or("no such sender")?;
        let (sample, ratio) = match &line.sender {
            MeasuredSender::Threads { level } => threads(&plain, *level)?,
            MeasuredSender::Client { suite, wishes } => {
                let suite = bench.suites.get(*suite).ok_or("no such suite")?;
                let harness = harnesses.first_mut().ok_or("no server")?;
                let mut chain = Chain::ssh(harness, suite, wishes)?;
                let (sample, said) = transfer::run(&transfer, &mut chain, &here)?;
                let cpu = sample.cpu.ok_or("no CPU time")?;
                let value = 1024.0 / cpu.client;
                let ratio = said.factor(BenchDirection::Up);
                (Sample { value, ..sample }, ratio.unwrap_or_default())
            }
        };
        if let Some(place) = ratios.get_mut(index) {
            *place = ratio;
        }
        Ok(sample)
    });
    for ((entry, ratio), line) in group.entries.iter_mut().zip(ratios).zip(&lines) {
        entry.more.push(("ratio".into(), ratio));
        let goal = line.goal.map_or(String::new(), |goal| format!("{goal}×"));
        entry.more.push(("goal".into(), goal));
    }
    Ok(group)
}

/// Compresses `plain` on [`THREADS`] threads; returns MiB/s and the ratio.
fn threads(plain: &[u8], level: u8) -> Result<(Sample, String), Miss> {
    let begun = Instant::now();
    let report = compress_on_threads(plain, level).map_err(|error| error.to_string())?;
    let seconds = begun.elapsed().as_secs_f64();
    let (raw, compressed) = (report.totals.raw_bytes, report.totals.compressed_bytes);
    // Far below 2^52.
    #[allow(clippy::cast_precision_loss)]
    let (raw, compressed) = (raw as f64, compressed as f64);
    let sample = Sample {
        value: raw / f64::from(1 << 20) / seconds,
        cpu: None,
    };
    Ok((sample, format!("{:.3}", raw / compressed)))
}

/// As in a session, runs begin in order and any free thread compresses them.
fn compress_on_threads(plain: &[u8], level: u8) -> Result<CompressionReport, DeflateError> {
    let mut compressor = Compressor::new(CompressionSettings {
        level,
        adaptive: false,
    });
    let (jobs, work) = mpsc::sync_channel::<RunJob>(2 * THREADS);
    let work = Mutex::new(work);
    let (results, done) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (work, results) = (&work, results.clone());
            scope.spawn(move || work_off(work, |result| results.send(result).is_ok()));
        }
        drop(results);
        begin_runs(plain, &mut compressor, &jobs, &done)?;
        drop(jobs);
        for result in done {
            compressor.finish_run(&result?);
        }
        Ok(compressor.report())
    })
}

type Done = Result<RunDone, DeflateError>;

fn begin_runs(
    plain: &[u8],
    compressor: &mut Compressor,
    jobs: &SyncSender<RunJob>,
    done: &Receiver<Done>,
) -> Result<(), DeflateError> {
    for run in plain.chunks(PAYLOAD_BYTES * RUN_PAYLOADS) {
        let job = compressor.begin_run(0, run.chunks(PAYLOAD_BYTES));
        if jobs.send(job).is_err() {
            return Err(DeflateError);
        }
        while let Ok(result) = done.try_recv() {
            compressor.finish_run(&result?);
        }
    }
    Ok(())
}

fn work_off(work: &Mutex<Receiver<RunJob>>, mut tell: impl FnMut(Done) -> bool) {
    loop {
        let job = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else {
            return;
        };
        let result = job.run(|piece| match piece {
            Encoded::Stored { header } => drop(std::hint::black_box(header)),
            Encoded::Deflated(bytes) => drop(std::hint::black_box(bytes)),
        });
        if !tell(result) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_make_what_one_makes() {
        let mut plain = Vec::new();
        Data::Text.write(900_001, &mut plain).unwrap();
        let report = compress_on_threads(&plain, 6).unwrap();
        assert_eq!(report.totals.raw_bytes, 900_001);
        assert_eq!(report.totals.packets, 28);
        let mut alone = Compressor::with_level(6);
        for payload in plain.chunks(PAYLOAD_BYTES) {
            alone.compress(payload, &mut Vec::new()).unwrap();
        }
        let (ours, theirs) = (report.totals, alone.report().totals);
        // The history is the same; a run may begin a block.
        let apart = ours.compressed_bytes.abs_diff(theirs.compressed_bytes);
        assert!(apart < theirs.compressed_bytes / 100, "{apart}");
    }
}
