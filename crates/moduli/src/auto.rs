//! `-M auto`: makes a given number of moduli in one step, sieve and tests together.
//!
//! The window is about as large as the moduli will need, and the sieve goes as far as it saves
//! more tests than it costs. Each modulus is written when it and all before it are tested.

use std::fs::File;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crypto::prime::{PrimalityTests, SieveStarts};
use keys::moduli::{
    ModuliRow, TESTED_BY_MILLER_RABIN, TESTED_BY_SIEVE, TYPE_SAFE_PRIME, time_column,
};

use super::checkpoint::Checkpoint;
use super::generate::{SIEVE_LIMIT, check_size};
use super::natural::Natural;
use super::options::ModuliOptions;
use super::progress::ModuliProgress;
use super::screen::{append, open_output};
use super::search::{PrimePair, in_order, job_len, safe_primes};
use super::sieve::{STEP, Window, sieve};
use super::{ModuliMode, ModuliRequest, announce, workers};

/// What the primes from 5 on make of the chance that q = 5 modulo 12 and 2q + 1 are prime, which
/// were 1/(ln q ln p) for any other two numbers: 9 for the residues modulo 2 and 3, times
/// r (r - 2) / (r - 1)² for each prime r from 5 on (Hardy and Littlewood).
const SAFE_PRIME_FACTOR: f64 = 7.922;
/// e^(-2γ), by Mertens: the part of all pairs that a sieve to B leaves is this value over ln² B,
/// times the same factor.
const MERTENS_SQUARED: f64 = 0.3152;
/// Most seconds that a trial of speed takes.
const TRIAL: Duration = Duration::from_millis(20);

pub(super) fn run(request: &ModuliRequest<'_>) -> Result<(), String> {
    let mut options = ModuliOptions::parse(ModuliMode::Auto, request)?;
    let checkpoint = Checkpoint::new(options.checkpoint.as_deref());
    let resumed = match checkpoint.load()? {
        None => None,
        Some(text) => Some(
            SearchState::parse(&text)
                .filter(|state| state.bits == options.bits)
                .ok_or_else(|| checkpoint.unusable("it belongs to another run"))?,
        ),
    };
    let out = open_output(request)?;
    let mut start = options.start.take();
    let mut search = Search {
        request,
        options: &options,
        tests: PrimalityTests::default(),
        progress: ModuliProgress::new(request.quiet),
        checkpoint,
        out,
        found: resumed.as_ref().map_or(0, |state| state.found),
        tested: 0,
    };
    if request.verbose {
        eprintln!("{} threads, {}", workers(), search.tests.kernel());
    }
    if let Some(state) = &resumed {
        announce(
            request,
            &format!(
                "Loaded checkpoint: {} of {} found",
                state.found, options.count
            ),
        );
    }
    let mut next = resumed;
    while search.found < options.count {
        let state = match next.take() {
            Some(state) => state,
            None => search.window(start.take()),
        };
        let behind = search.look_through(&state)?;
        start = Some(behind);
    }
    search.progress.clear();
    search.checkpoint.remove();
    announce(
        request,
        &format!(
            "Found {} safe primes of {} bits, {} candidates tested in {} seconds",
            search.found,
            options.bits,
            search.tested,
            search.progress.elapsed().as_secs()
        ),
    );
    Ok(())
}

/// How far the work is: which window, and which of it has been tested.
#[derive(Debug, Clone, PartialEq)]
struct SearchState {
    bits: u32,
    start: Natural,
    positions: u64,
    limit: u64,
    /// The first position that has not been tested.
    next: u64,
    found: u64,
}

impl SearchState {
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        let [word, bits, start, positions, limit, next, found] = fields.as_slice() else {
            return None;
        };
        let bits: u32 = bits.parse().ok()?;
        let state = Self {
            bits,
            start: Natural::from_hex(start, bits)?,
            positions: positions.parse().ok()?,
            limit: limit.parse().ok()?,
            next: next.parse().ok()?,
            found: found.parse().ok()?,
        };
        let fits = *word == "auto"
            && state.start.bits() == bits.checked_sub(1)?
            && (1..=super::sieve::MAX_POSITIONS).contains(&state.positions)
            && state.limit <= SIEVE_LIMIT;
        fits.then_some(state)
    }

    fn text(&self) -> String {
        format!(
            "auto {} {:X} {} {} {} {}\n",
            self.bits, self.start, self.positions, self.limit, self.next, self.found
        )
    }
}

struct Search<'a> {
    request: &'a ModuliRequest<'a>,
    options: &'a ModuliOptions,
    tests: PrimalityTests,
    progress: ModuliProgress,
    checkpoint: Checkpoint,
    out: File,
    found: u64,
    tested: u64,
}

impl Search<'_> {
    /// A window that very probably holds the moduli that are still to be found.
    fn window(&self, start: Option<Natural>) -> SearchState {
        let bits = self.options.bits;
        let start = start.unwrap_or_else(|| Natural::random(bits - 1));
        let left = as_f64(self.options.count - self.found);
        // Three deviations more than the mean.
        let wanted = left + 3.0 * left.sqrt() + 4.0;
        let expected = as_u64(wanted * ln_product(bits) / SAFE_PRIME_FACTOR);
        let positions = match self.options.numbers {
            Some(numbers) => numbers / STEP,
            None => expected.min(super::sieve::MAX_POSITIONS),
        };
        let expected = left.min(as_f64(positions) * SAFE_PRIME_FACTOR / ln_product(bits));
        SearchState {
            bits,
            positions,
            limit: self.limit(&start, expected),
            start,
            next: 0,
            found: self.found,
        }
    }

    /// The limit of the sieve for this number of moduli. The tests cost n T A / ln² B, the sieve c B / ln B,
    /// and their sum is least where B ln² B = 2 n T A / c.
    fn limit(&self, start: &Natural, moduli: f64) -> u64 {
        let tests = ln_product(self.options.bits) * MERTENS_SQUARED;
        let goal = 2.0 * moduli * self.seconds_for_test() * tests / seconds_for_prime(start);
        let mut limit = 1e6_f64;
        for _ in 0..30 {
            limit = (goal / ln(limit).powi(2)).max(1e6);
        }
        as_u64(limit).min(SIEVE_LIMIT)
    }

    fn seconds_for_test(&self) -> f64 {
        let lanes = self.tests.lanes();
        let numbers: Vec<Natural> = (0..lanes)
            .map(|_| Natural::random(self.options.bits))
            .collect();
        let words: Vec<&[u64]> = numbers.iter().map(Natural::words).collect();
        let best = best_time(|| {
            std::hint::black_box(self.tests.fermat(&words));
        });
        best / as_f64(u64::try_from(lanes).unwrap_or(1))
    }

    /// Sieves and tests a window until enough is found; the start of the next window.
    fn look_through(&mut self, state: &SearchState) -> Result<Natural, String> {
        let window = Window::new(&state.start, state.positions);
        check_size(&window, state.bits - 1)?;
        if self.request.verbose {
            eprintln!(
                "window of {} numbers, sieved by primes up to {}",
                state.positions * STEP,
                state.limit
            );
        }
        let sieved = sieve(&window, state.limit, workers(), &|part| {
            self.progress.tell("sieved", part, "");
            true
        });
        let tries = self.options.prime_tests;
        let mut left = sieved.left(state.next);
        let jobs = std::iter::from_fn(|| {
            let job: Vec<u64> = left.by_ref().take(job_len(state.bits)).collect();
            (!job.is_empty()).then_some(job)
        });
        let tests = &self.tests;
        let work = |job: Vec<u64>| {
            let pairs: Vec<PrimePair> = job
                .iter()
                .map(|at| PrimePair::of_q(window.candidate(*at)))
                .collect();
            let safe = safe_primes(tests, &pairs, tries);
            let mut results = Vec::with_capacity(job.len());
            for ((at, pair), safe) in job.into_iter().zip(pairs).zip(safe) {
                results.push((at, safe.then_some(pair.p)));
            }
            results
        };
        let mut state = state.clone();
        let mut outcome = Ok(());
        let (options, request) = (self.options, self.request);
        in_order(workers(), jobs, work, |results| {
            let before = state.found;
            for (at, modulus) in results {
                if state.found == options.count {
                    break;
                }
                self.tested += 1;
                state.next = at + 1;
                if let Some(modulus) = modulus {
                    state.found += 1;
                    outcome = write(request, options, &mut self.out, &modulus);
                    if outcome.is_err() {
                        return ControlFlow::Break(());
                    }
                }
            }
            outcome = self.checkpoint.save(state.found > before, || state.text());
            let part = as_f64(state.found) / as_f64(options.count);
            let what = format!("found {} of {}", state.found, options.count);
            let more = format!(", {} tested", self.tested);
            self.progress.tell(&what, part, &more);
            if outcome.is_err() || state.found == options.count {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        self.found = state.found;
        outcome?;
        Ok(window.candidate(window.positions()))
    }
}

fn write(
    request: &ModuliRequest<'_>,
    options: &ModuliOptions,
    out: &mut File,
    modulus: &Natural,
) -> Result<(), String> {
    let row = ModuliRow {
        time: &time_column(sys::time::realtime_seconds()),
        kind: TYPE_SAFE_PRIME,
        tests: TESTED_BY_SIEVE | TESTED_BY_MILLER_RABIN,
        tries: options.prime_tests,
        size: options.bits - 1,
        generator: 2,
        modulus: &format!("{modulus:X}"),
    };
    append(request, out, &row)
}

/// ln q ln p.
fn ln_product(bits: u32) -> f64 {
    let bits = f64::from(bits);
    (bits - 1.0) * bits * std::f64::consts::LN_2.powi(2)
}

/// What a prime of the sieve costs; where its multiples begin is half of it.
fn seconds_for_prime(start: &Natural) -> f64 {
    let starts = SieveStarts::new(start.words());
    let some: Vec<u32> = (0..1024).map(|i| 0x8000_0005 + 6 * i).collect();
    let mut sum = 0_u64;
    let best = best_time(|| {
        starts.of(&some, |_, first, second| {
            sum += u64::from(first) + u64::from(second)
        });
    });
    std::hint::black_box(sum);
    // To find a prime, and to look where it hits the window, costs about as much again.
    2.0 * best / 1024.0
}

fn best_time(mut work: impl FnMut()) -> f64 {
    let begun = Instant::now();
    let mut best = f64::INFINITY;
    while best.is_infinite() || begun.elapsed() < TRIAL {
        let begun = Instant::now();
        work();
        best = best.min(begun.elapsed().as_secs_f64());
    }
    best.max(1e-9)
}

#[allow(clippy::cast_precision_loss)]
fn as_f64(value: u64) -> f64 {
    value as f64
}

/// Converts a positive value far below 2^63.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn as_u64(value: f64) -> u64 {
    value as u64
}

/// The natural logarithm of a number from 1 on, to six digits: the library's is in libm, which
/// every program of ours would load for it.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = i32::try_from((bits >> 52) & 0x7ff).unwrap_or_default() - 1023;
    let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = 1.0 + square * (1.0 / 3.0 + square * (0.2 + square * (1.0 / 7.0 + square / 9.0)));
    f64::from(exponent) * core::f64::consts::LN_2 + 2.0 * ratio * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_says_where_to_go_on() {
        let state = SearchState {
            bits: 512,
            start: Natural::random(511),
            positions: 1000,
            limit: 1 << 20,
            next: 77,
            found: 3,
        };
        assert_eq!(SearchState::parse(&state.text()), Some(state.clone()));
        for text in [
            String::new(),
            "77\n".to_owned(),
            state.text().replace("auto", "else"),
            state.text().replace("auto 512", "auto 1024"),
            state.text().replace(" 1000 ", " 99999999999 "),
            state.text().replace(" 77 ", " -1 "),
        ] {
            assert_eq!(SearchState::parse(&text), None, "{text}");
        }
    }
}
