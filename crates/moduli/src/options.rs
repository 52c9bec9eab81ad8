//! The `-O` options, by ssh-keygen's names and with its bounds.

use std::path::PathBuf;

use super::natural::Natural;
use super::{ModuliMode, ModuliRequest};

/// Fewest bits of a modulus (ssh-keygen's); for trying out, not for use.
const MIN_BITS: u32 = 512;
/// Most bits of a modulus that `keys` reads.
const MAX_BITS: u32 = 16_384;
/// The size of moduli without another word.
const DEFAULT_BITS: u32 = 3072;
/// Megabytes that ssh-keygen's sieve may take; ours makes the same windows of them.
const MEMORY: std::ops::RangeInclusive<u64> = 8..=127;
/// Fewest rounds of Miller-Rabin that may be asked for (ssh-keygen's).
const MIN_PRIME_TESTS: u32 = 4;
/// Most rounds: each takes milliseconds for every modulus.
const MAX_PRIME_TESTS: u32 = 1_000_000;
/// Rounds of Miller-Rabin without another word.
const DEFAULT_PRIME_TESTS: u32 = 100;
/// Most moduli at a time.
const MAX_COUNT: u64 = 1_000_000;

/// Options of all three modes; what a mode does not take, it has refused.
#[derive(Debug)]
pub(super) struct ModuliOptions {
    /// Of a modulus.
    pub(super) bits: u32,
    /// Moduli to make.
    pub(super) count: u64,
    /// Numbers that a window covers, where the user has said so.
    pub(super) numbers: Option<u64>,
    /// Where the search begins.
    pub(super) start: Option<Natural>,
    /// Lines to screen.
    pub(super) lines: Option<u64>,
    /// Lines to pass over.
    pub(super) start_line: u64,
    pub(super) checkpoint: Option<PathBuf>,
    /// The only generator wanted.
    pub(super) generator: Option<u32>,
    pub(super) prime_tests: u32,
}

impl ModuliOptions {
    pub(super) fn parse(mode: ModuliMode, request: &ModuliRequest<'_>) -> Result<Self, String> {
        let mut options = Self {
            bits: DEFAULT_BITS,
            count: 50,
            numbers: None,
            start: None,
            lines: None,
            start_line: 0,
            checkpoint: None,
            generator: None,
            prime_tests: DEFAULT_PRIME_TESTS,
        };
        if let Some(bits) = request.bits {
            options.bits = bits_of(&bits.to_string())?;
        }
        if let Some(count) = request.count {
            options.count = number("number of moduli", count)
                .ok()
                .filter(|count| (1..=MAX_COUNT).contains(count))
                .ok_or(format!(
                    "-n {count}: give a number of moduli from 1 to {MAX_COUNT}"
                ))?;
        }
        for option in request.options {
            options.apply(mode, option)?;
        }
        if let Some(start) = &options.start
            && start.bits() != options.bits - 1
        {
            return Err(format!(
                "Invalid start point: it has {} bits, and for moduli of {} bits it must have {}",
                start.bits(),
                options.bits,
                options.bits - 1
            ));
        }
        Ok(options)
    }

    fn apply(&mut self, mode: ModuliMode, option: &str) -> Result<(), String> {
        use ModuliMode::{Auto, Generate, Screen};
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match (name, mode) {
            ("bits", Generate | Auto) => self.bits = bits_of(value)?,
            ("memory", Generate | Auto) => {
                let megabytes = number("memory", value)?;
                if !MEMORY.contains(&megabytes) {
                    return Err(format!(
                        "Invalid memory amount (min {}, max {})",
                        MEMORY.start(),
                        MEMORY.end()
                    ));
                }
                // A bit for each odd number.
                self.numbers = Some(megabytes << 24);
            }
            ("start", Generate | Auto) => {
                let start = Natural::from_hex(value, MAX_BITS);
                self.start = Some(start.ok_or("Invalid start point.")?);
            }
            ("lines", Screen) => self.lines = Some(number("lines", value)?).filter(|n| *n > 0),
            ("start-line", Screen) => self.start_line = number("start-line", value)?,
            ("checkpoint", Screen | Auto) if !value.is_empty() => {
                self.checkpoint = Some(value.into());
            }
            ("generator", Screen) => {
                let generator = number("generator", value)?;
                let known = u32::try_from(generator)
                    .ok()
                    .filter(|n| [2, 3, 5].contains(n));
                self.generator =
                    Some(known.ok_or(format!("Generator invalid: {value} (2, 3 or 5)"))?);
            }
            ("prime-tests", Screen | Auto) => {
                let rounds = u32::try_from(number("prime-tests", value)?).unwrap_or(u32::MAX);
                self.prime_tests = match rounds {
                    ..MIN_PRIME_TESTS => {
                        return Err(format!("Minimum primality trials is {MIN_PRIME_TESTS}"));
                    }
                    MIN_PRIME_TESTS..=MAX_PRIME_TESTS => rounds,
                    _ => return Err(format!("Maximum primality trials is {MAX_PRIME_TESTS}")),
                };
            }
            _ => {
                let work = match mode {
                    Generate | Auto => "generation",
                    Screen => "screening",
                };
                return Err(format!(
                    "Option \"{option}\" is unsupported for moduli {work}"
                ));
            }
        }
        Ok(())
    }
}

fn number(what: &str, value: &str) -> Result<u64, String> {
    value
        .parse()
        .map_err(|_| format!("Invalid number: {value} ({what})"))
}

fn bits_of(value: &str) -> Result<u32, String> {
    let bits = u32::try_from(number("bits", value)?).unwrap_or(u32::MAX);
    match bits {
        ..MIN_BITS => Err(format!("Too few bits: {bits} < {MIN_BITS}")),
        MIN_BITS..=MAX_BITS => Ok(bits),
        _ => Err(format!("Too many bits: {value} > {MAX_BITS}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(mode: ModuliMode, options: &[&str]) -> Result<ModuliOptions, String> {
        let options: Vec<String> = options.iter().map(ToString::to_string).collect();
        ModuliOptions::parse(
            mode,
            &ModuliRequest {
                options: &options,
                bits: None,
                count: Some("7"),
                input: None,
                output: std::path::Path::new("out"),
                quiet: true,
                verbose: false,
            },
        )
    }

    #[test]
    fn options_are_those_of_ssh_keygen() {
        let start = format!("start=C{}", "0".repeat(127));
        let options = parse(ModuliMode::Generate, &["bits=513", "memory=8", &start]).unwrap();
        assert_eq!((options.bits, options.numbers), (513, Some(8 << 24)));
        let options = parse(
            ModuliMode::Screen,
            &[
                "lines=5",
                "start-line=9",
                "generator=5",
                "prime-tests=4",
                "checkpoint=x",
            ],
        )
        .unwrap();
        assert_eq!((options.lines, options.start_line), (Some(5), 9));
        assert_eq!((options.generator, options.prime_tests), (Some(5), 4));
        assert_eq!(options.checkpoint, Some("x".into()));
        assert_eq!(parse(ModuliMode::Auto, &[]).unwrap().count, 7);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (mode, option) in [
            (ModuliMode::Generate, "bits=511"),
            (ModuliMode::Generate, "bits=99999999999999999999"),
            (ModuliMode::Generate, "bits=16385"),
            (ModuliMode::Generate, "bits=x"),
            (ModuliMode::Generate, "memory=7"),
            (ModuliMode::Generate, "memory=128"),
            (ModuliMode::Generate, "start=C0"),
            (ModuliMode::Generate, "start=xyz"),
            (ModuliMode::Generate, "lines=5"),
            (ModuliMode::Generate, "checkpoint=x"),
            (ModuliMode::Screen, "bits=2048"),
            (ModuliMode::Screen, "generator=4"),
            (ModuliMode::Screen, "prime-tests=3"),
            (ModuliMode::Screen, "prime-tests=1000001"),
            (ModuliMode::Screen, "checkpoint="),
            (ModuliMode::Screen, "lines"),
            (ModuliMode::Auto, "lines=3"),
            (ModuliMode::Auto, ""),
        ] {
            assert!(parse(mode, &[option]).is_err(), "{option}");
        }
    }
}
