//! `-M generate`: the candidates of a window, one a line, as ssh-keygen lists them.
//!
//! Of its candidates ours are those with p = 11 modulo 24, whose generator is 2.

use std::io::{BufWriter, Write};

use keys::moduli::{ModuliRow, TESTED_BY_SIEVE, TYPE_SOPHIE_GERMAIN, time_column};

use super::natural::Natural;
use super::options::ModuliOptions;
use super::progress::ModuliProgress;
use super::sieve::{STEP, Sieved, Window, sieve};
use super::{ModuliMode, ModuliRequest, announce, workers};

/// All primes below are used, as ssh-keygen does.
pub(super) const SIEVE_LIMIT: u64 = 1 << 32;

pub(super) fn run(request: &ModuliRequest<'_>) -> Result<(), String> {
    let options = ModuliOptions::parse(ModuliMode::Generate, request)?;
    let cannot = |error: &std::io::Error| {
        format!(
            "Couldn't write modulus candidate file \"{}\": {}",
            request.output.display(),
            escape::system_words(&error.to_string())
        )
    };
    let file = std::fs::File::create(request.output).map_err(|error| cannot(&error))?;
    let q_bits = options.bits - 1;
    let start = options.start.unwrap_or_else(|| Natural::random(q_bits));
    let numbers = options.numbers.unwrap_or(default_numbers(q_bits));
    let window = Window::new(&start, numbers / STEP);
    check_size(&window, q_bits)?;
    announce(request, &format!("Sieve next {numbers} plus {q_bits}-bit"));
    if request.verbose {
        eprintln!("start point: 0x{start:X}, {} threads", workers());
    }
    let progress = ModuliProgress::new(request.quiet);
    let tell = |part: f64| {
        progress.tell("sieved", part, "");
        true
    };
    let sieved = sieve(&window, SIEVE_LIMIT, workers(), &tell);
    progress.clear();
    announce(
        request,
        &format!(
            "Sieved with {} small primes in {} seconds",
            sieved.primes,
            progress.elapsed().as_secs()
        ),
    );
    let found = write(&window, &sieved, q_bits, BufWriter::new(file)).map_err(|e| cannot(&e))?;
    announce(request, &format!("Found {found} candidates"));
    Ok(())
}

/// The numbers that ssh-keygen's window covers without another word.
pub(super) fn default_numbers(q_bits: u32) -> u64 {
    let bits = u64::from(q_bits);
    64 * (bits * bits / 4)
}

/// A start too near the next power of two gives candidates of another size.
pub(super) fn check_size(window: &Window, q_bits: u32) -> Result<(), String> {
    if window.candidate(window.positions()).bits() == q_bits {
        Ok(())
    } else {
        Err("Invalid start point: the numbers after it are longer than requested".to_owned())
    }
}

fn write(
    window: &Window,
    sieved: &Sieved,
    q_bits: u32,
    mut out: impl Write,
) -> std::io::Result<u64> {
    let time = time_column(sys::time::realtime_seconds());
    let mut found = 0;
    for position in sieved.left(0) {
        let modulus = format!("{:X}", window.candidate(position));
        let row = ModuliRow {
            time: &time,
            kind: TYPE_SOPHIE_GERMAIN,
            tests: TESTED_BY_SIEVE,
            tries: u32::try_from(sieved.primes).unwrap_or(u32::MAX),
            size: q_bits - 1,
            generator: 0,
            modulus: &modulus,
        };
        writeln!(out, "{row}")?;
        found += 1;
    }
    out.flush()?;
    Ok(found)
}
