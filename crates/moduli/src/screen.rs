//! `-M screen`: the safe primes among candidates, each with its generator.
//!
//! Lines are taken, counted and passed over as ssh-keygen does, so that either can go on with
//! the other's checkpoint.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::ops::ControlFlow;

use crypto::prime::PrimalityTests;
use keys::moduli::{
    ModuliRow, TESTED_BY_MILLER_RABIN, TESTED_COMPOSITE, TYPE_SAFE_PRIME, TYPE_SOPHIE_GERMAIN,
    time_column,
};

use super::checkpoint::Checkpoint;
use super::natural::Natural;
use super::options::ModuliOptions;
use super::progress::ModuliProgress;
use super::search::{PrimePair, in_order, job_len, safe_primes};
use super::{ModuliMode, ModuliRequest, announce, workers};

/// Longest line that is looked at, in bytes: a number of 16384 bits and its columns.
const MAX_LINE_BYTES: u64 = 8 * 1024;
/// Smallest modulus that is screened, in bits less one (ssh-keygen's).
const MIN_SIZE: u32 = 511;
/// Most bits of a modulus.
const MAX_BITS: u32 = 16_384;

pub(super) fn run(request: &ModuliRequest<'_>) -> Result<(), String> {
    let options = ModuliOptions::parse(ModuliMode::Screen, request)?;
    let input = request.input.filter(|path| path.as_os_str() != "-");
    let reader: Box<dyn Read> = match input {
        None => Box::new(std::io::stdin()),
        Some(path) => Box::new(File::open(path).map_err(|error| {
            format!(
                "Couldn't open modulus candidate file \"{}\": {}",
                path.display(),
                escape::system_words(&error.to_string())
            )
        })?),
    };
    let out = open_output(request)?;
    let total = match (options.lines, input) {
        (Some(lines), _) => Some(options.start_line.saturating_add(lines)),
        // What can be read twice: a pipe's lines would be gone.
        (None, Some(path)) if path.is_file() => File::open(path).ok().map(count_lines),
        (None, Some(_)) => None,
        (None, None) => None,
    };
    Screening::new(request, &options, total)?.run(BufReader::new(reader), out)
}

/// Opens the output; moduli are appended to those in the file.
pub(super) fn open_output(request: &ModuliRequest<'_>) -> Result<File, String> {
    let opened = File::options()
        .append(true)
        .create(true)
        .open(request.output);
    opened.map_err(|error| {
        format!(
            "Couldn't open moduli file \"{}\": {}",
            request.output.display(),
            escape::system_words(&error.to_string())
        )
    })
}

fn count_lines(file: File) -> u64 {
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut count = 0;
    while let Ok(bytes @ [_, ..]) = reader.fill_buf() {
        count += u64::try_from(bytes.iter().filter(|byte| **byte == b'\n').count()).unwrap_or(0);
        let len = bytes.len();
        reader.consume(len);
    }
    count
}

/// A candidate with what its line says.
struct ModulusCandidate {
    pair: PrimePair,
    tests: u32,
    tries: u32,
    size: u32,
    generator: u32,
}

/// Some lines' candidates.
struct ScreenJob {
    candidates: Vec<ModulusCandidate>,
    /// The last line that was read for it.
    last_line: u64,
    /// A failure to read on.
    failed: Option<String>,
}

struct Screening<'a> {
    request: &'a ModuliRequest<'a>,
    options: &'a ModuliOptions,
    progress: ModuliProgress,
    checkpoint: Checkpoint,
    /// Lines up to this number are skipped.
    after: u64,
    /// Lines after this number are not read.
    until: u64,
    /// Where the progress ends, if that is known.
    total: Option<u64>,
}

impl<'a> Screening<'a> {
    fn new(
        request: &'a ModuliRequest<'a>,
        options: &'a ModuliOptions,
        total: Option<u64>,
    ) -> Result<Self, String> {
        let checkpoint = Checkpoint::new(options.checkpoint.as_deref());
        let mut after = options.start_line;
        if let Some(text) = checkpoint.load()? {
            let line: u64 = text
                .trim()
                .parse()
                .map_err(|_| checkpoint.unusable("it holds no line number"))?;
            announce(request, &format!("Loaded checkpoint, line {line}"));
            after = after.max(line);
        }
        Ok(Self {
            request,
            options,
            progress: ModuliProgress::new(request.quiet),
            checkpoint,
            after,
            until: match options.lines {
                Some(lines) => options.start_line.saturating_add(lines),
                None => u64::MAX,
            },
            total,
        })
    }

    fn run(mut self, reader: impl BufRead, mut out: File) -> Result<(), String> {
        let tests = PrimalityTests::default();
        if self.request.verbose {
            eprintln!("{} threads, {}", workers(), tests.kernel());
        }
        let rounds = self.options.prime_tests;
        let mut lines = CandidateLines {
            reader,
            number: 0,
            after: self.after,
            until: self.until,
            generator: self.options.generator,
        };
        let work = |job: ScreenJob| {
            let pairs: Vec<PrimePair> = job
                .candidates
                .iter()
                .map(|each| each.pair.clone())
                .collect();
            let safe = safe_primes(&tests, &pairs, rounds);
            (job, safe)
        };
        let (mut found, mut possible) = (0_u64, 0_u64);
        let mut outcome = Ok(());
        in_order(
            workers(),
            std::iter::from_fn(|| lines.job()),
            work,
            |(job, safe)| {
                possible += u64::try_from(job.candidates.len()).unwrap_or(0);
                let any = safe.contains(&true);
                let accepted = job.candidates.iter().zip(safe).filter(|(_, safe)| *safe);
                for (candidate, _) in accepted {
                    found += 1;
                    outcome = self.write(candidate, &mut out);
                    if outcome.is_err() {
                        return ControlFlow::Break(());
                    }
                }
                outcome = self.checkpoint.save(any, || format!("{}\n", job.last_line));
                if let Some(failed) = job.failed {
                    outcome = Err(failed);
                }
                self.tell(job.last_line, found);
                match outcome {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            },
        );
        outcome?;
        self.progress.clear();
        self.checkpoint.remove();
        announce(
            self.request,
            &format!(
                "Found {found} safe primes of {possible} candidates in {} seconds",
                self.progress.elapsed().as_secs()
            ),
        );
        Ok(())
    }

    fn write(&self, candidate: &ModulusCandidate, out: &mut File) -> Result<(), String> {
        let modulus = format!("{:X}", candidate.pair.p);
        let rounds = self.options.prime_tests;
        let tries = match candidate.tests & TESTED_BY_MILLER_RABIN {
            0 => rounds,
            _ => candidate.tries.saturating_add(rounds),
        };
        let row = ModuliRow {
            time: &time_column(sys::time::realtime_seconds()),
            kind: TYPE_SAFE_PRIME,
            tests: candidate.tests | TESTED_BY_MILLER_RABIN,
            tries,
            size: candidate.size,
            generator: candidate.generator,
            modulus: &modulus,
        };
        append(self.request, out, &row)
    }

    fn tell(&self, line: u64, found: u64) {
        let more = format!(", {found} found");
        if let Some(total) = self.total {
            let (done, all) = (
                line.saturating_sub(self.after),
                total.saturating_sub(self.after),
            );
            #[allow(clippy::cast_precision_loss)]
            let part = done as f64 / all.max(1) as f64;
            let what = format!("processed {line} of {total}");
            self.progress.tell(&what, part.min(1.0), &more);
        } else {
            self.progress.tell(&format!("processed {line}"), 1.0, &more);
        }
    }
}

/// Writes a line whole, so that an interruption leaves none in half.
pub(super) fn append(
    request: &ModuliRequest<'_>,
    out: &mut File,
    row: &ModuliRow<'_>,
) -> Result<(), String> {
    out.write_all(format!("{row}\n").as_bytes())
        .map_err(|error| {
            format!(
                "Couldn't write moduli file \"{}\": {}",
                request.output.display(),
                escape::system_words(&error.to_string())
            )
        })
}

/// The lines of a list, a job at a time.
struct CandidateLines<R> {
    reader: R,
    number: u64,
    after: u64,
    until: u64,
    generator: Option<u32>,
}

impl<R: BufRead> CandidateLines<R> {
    fn job(&mut self) -> Option<ScreenJob> {
        let mut candidates = Vec::new();
        let mut read = false;
        let mut failed = None;
        let mut line = Vec::new();
        let mut enough = usize::MAX;
        while self.number < self.until && candidates.len() < enough {
            match read_line(&mut self.reader, &mut line) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failed = Some(format!(
                        "Couldn't read candidates: {}",
                        escape::system_words(&error.to_string())
                    ));
                    self.until = 0;
                    break;
                }
            }
            self.number += 1;
            if self.number <= self.after {
                continue;
            }
            read = true;
            if let Some(candidate) = candidate(&line, self.generator) {
                enough = job_len(candidate.size);
                candidates.push(candidate);
            }
        }
        (read || failed.is_some()).then_some(ScreenJob {
            candidates,
            last_line: self.number,
            failed,
        })
    }
}

/// Reads a line without its end; an over-long one is read and left empty.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let read = reader.take(MAX_LINE_BYTES).read_until(b'\n', line)?;
    if read == 0 {
        return Ok(false);
    }
    if line.last() != Some(&b'\n') && u64::try_from(read).is_ok_and(|read| read == MAX_LINE_BYTES) {
        line.clear();
        reader.skip_until(b'\n')?;
    }
    Ok(true)
}

/// The candidate of a line; `None` for a comment, a number that is known to be composite or whose
/// size differs from the stated one, or one without the wanted generator.
fn candidate(line: &[u8], wanted: Option<u32>) -> Option<ModulusCandidate> {
    let row = ModuliRow::parse(std::str::from_utf8(line).ok()?)?;
    if row.tests & TESTED_COMPOSITE != 0 {
        return None;
    }
    let number = Natural::from_hex(row.modulus, MAX_BITS)?;
    let (pair, size, known) = match row.kind {
        TYPE_SOPHIE_GERMAIN => (PrimePair::of_q(number), row.size.checked_add(1)?, 0),
        _ => (PrimePair::of_p(number), row.size, row.generator),
    };
    if pair.p.bits() != size.checked_add(1)? || !(MIN_SIZE..MAX_BITS).contains(&size) {
        return None;
    }
    let generator = match known {
        0 => generator(&pair.p)?,
        known => known,
    };
    wanted
        .is_none_or(|wanted| wanted == generator)
        .then_some(ModulusCandidate {
            pair,
            tests: row.tests,
            tries: row.tries,
            size,
            generator,
        })
}

/// 2 or 5, where it is no square modulo the safe prime: so it generates all of the group.
fn generator(p: &Natural) -> Option<u32> {
    match (p.modulo(24), p.modulo(10)) {
        (11, _) => Some(2),
        (_, 3 | 7) => Some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A safe prime of 512 bits, p = 11 modulo 24.
    fn q() -> Natural {
        Natural::from_hex(&format!("C{}", "0".repeat(127)), 512).unwrap()
    }

    #[test]
    fn lines_are_passed_over_as_ssh_keygen_does() {
        let number = format!("{:X}", q().plus(5));
        let take =
            |line: &str| candidate(line.as_bytes(), None).map(|each| (each.size, each.generator));
        let p = q().plus(5).twice_plus_one();
        assert_eq!((p.bits(), p.modulo(24)), (513, 11));
        assert_eq!(
            take(&format!("20220714110357 4 2 9 511 0 {number}\n")),
            Some((512, 2))
        );
        assert_eq!(
            take(&format!("20220714110357 2 6 9 512 5 {p:X}\n")),
            Some((512, 5))
        );
        assert_eq!(
            take(&format!("20220714110357 2 6 9 512 0 {p:X}\n")),
            Some((512, 2))
        );
        for line in [
            "# comment".to_owned(),
            String::new(),
            format!("20220714110357 4 3 9 511 0 {number}"),
            format!("20220714110357 4 2 9 510 0 {number}"),
            format!("20220714110357 4 2 9 4294967295 0 {number}"),
            "20220714110357 4 2 9 8 0 1FF".to_owned(),
            "20220714110357 4 2 9 511 0 xyz".to_owned(),
        ] {
            assert_eq!(take(&line), None, "{line}");
        }
        let line = format!("20220714110357 4 2 9 511 0 {number}");
        assert!(candidate(line.as_bytes(), Some(2)).is_some());
        assert!(candidate(line.as_bytes(), Some(5)).is_none());
    }

    #[test]
    fn over_long_lines_are_one_line() {
        let mut text = vec![b'1'; 20_000];
        text.extend_from_slice(b"\nshort\nend");
        let mut reader = std::io::Cursor::new(text);
        let mut line = Vec::new();
        let mut lines = Vec::new();
        while read_line(&mut reader, &mut line).unwrap() {
            lines.push(String::from_utf8(line.clone()).unwrap());
        }
        assert_eq!(lines, ["", "short\n", "end"]);
    }
}
