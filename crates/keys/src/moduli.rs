//! The moduli file of Diffie-Hellman group exchange (moduli(5), RFC 4419 §3): reading and writing
//! it, and choosing a group. `proto` performs the exchange, `crypto` has the fallback group, and
//! `moduli` generates such files.

use core::fmt;

use wire::Mpint;

use crate::lines::lines;
use crate::time::CivilTime;

/// Type column: p = 2q + 1 with q prime.
pub const TYPE_SAFE_PRIME: u32 = 2;
/// Type column: the line holds q, and 2q + 1 is a candidate for a modulus.
pub const TYPE_SOPHIE_GERMAIN: u32 = 4;
/// Highest type of moduli(5); type 0 is unknown.
const MAX_TYPE: u32 = 5;
/// Bit of the tests column: no small prime divides the number.
pub const TESTED_BY_SIEVE: u32 = 0x02;
/// Bit of the tests column: the number has passed the Miller-Rabin test.
pub const TESTED_BY_MILLER_RABIN: u32 = 0x04;
/// Bits of the tests column: the number has passed a probabilistic test.
const TESTS_PROBABILISTIC: u32 = 0x04 | 0x08 | 0x10;
/// Bit of the tests column: the number is composite.
pub const TESTED_COMPOSITE: u32 = 0x01;
/// Largest modulus in bits; lines with a larger one are ignored. There is no lower limit here: the
/// caller of [`choose`] sets the minimum (RFC 8270 §3: 2048 bits).
const MAX_BITS: usize = 16_384;

/// A group of the moduli file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuliGroup {
    /// Size of the modulus in bits.
    pub bits: usize,
    /// The generator, big-endian.
    pub generator: Vec<u8>,
    /// The modulus, big-endian without leading zeros.
    pub modulus: Vec<u8>,
}

/// Reads all groups of a moduli file whose modulus is a tested safe prime. Other lines are skipped.
#[must_use]
pub fn parse(file: &[u8]) -> Vec<ModuliGroup> {
    lines(file)
        .filter_map(|line| parse_line(core::str::from_utf8(line.text?).ok()?))
        .collect()
}

fn parse_line(text: &str) -> Option<ModuliGroup> {
    group_of(&ModuliRow::parse(text).filter(is_usable)?)
}

/// True if the line claims a safe prime that has been tested.
fn is_usable(row: &ModuliRow<'_>) -> bool {
    row.kind == TYPE_SAFE_PRIME
        && row.tests & TESTED_COMPOSITE == 0
        && row.tests & TESTS_PROBABILISTIC != 0
}

/// Decodes the group of a line; `None` if its numbers are inconsistent.
fn group_of(row: &ModuliRow<'_>) -> Option<ModuliGroup> {
    let modulus = hex(row.modulus)?;
    let modulus = Mpint::from_magnitude(&modulus);
    // By convention the column holds the number of bits less one. If it does not fit the modulus,
    // the line is damaged.
    let bits = usize::try_from(row.size).ok()?.checked_add(1)?;
    if modulus.bits() != bits || bits > MAX_BITS || row.generator < 2 {
        return None;
    }
    Some(ModuliGroup {
        bits,
        generator: Mpint::from_magnitude(&row.generator.to_be_bytes())
            .magnitude()
            .to_vec(),
        modulus: modulus.magnitude().to_vec(),
    })
}

/// A line of a moduli file, or of a list of candidates for one: `time type tests tries size
/// generator modulus`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuliRow<'a> {
    /// Time of writing, `YYYYMMDDHHMMSS` in UTC.
    pub time: &'a str,
    /// Type of the number ([`TYPE_SAFE_PRIME`] and others).
    pub kind: u32,
    /// Tests that the number has passed, one bit each.
    pub tests: u32,
    /// Number of tests: small primes of a sieve, or rounds of Miller-Rabin.
    pub tries: u32,
    /// Number of bits of the modulus, less one.
    pub size: u32,
    /// Generator, 0 if not known; hexadecimal in the file.
    pub generator: u32,
    /// The modulus (or q) in hexadecimal.
    pub modulus: &'a str,
}

impl<'a> ModuliRow<'a> {
    /// Parses a line; `None` for comments and malformed lines. Does not check that the modulus is a
    /// number of the stated size.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace();
        let time = fields.next().filter(|time| !time.starts_with(['#', '!']))?;
        let mut number = || fields.next()?.parse::<u32>().ok();
        let (kind, tests, tries, size) = (number()?, number()?, number()?, number()?);
        let row = Self {
            time,
            kind,
            tests,
            tries,
            size,
            generator: u32::from_str_radix(fields.next()?, 16).ok()?,
            modulus: fields.next()?,
        };
        (kind <= MAX_TYPE).then_some(row)
    }
}

impl fmt::Display for ModuliRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} {} {} {:x} {}",
            self.time, self.kind, self.tests, self.tries, self.size, self.generator, self.modulus
        )
    }
}

/// Formats a time in seconds since 1970 for the first column.
#[must_use]
pub fn time_column(seconds: u64) -> String {
    let time = CivilTime::from_utc_seconds(seconds);
    format!(
        "{:04}{:02}{:02}{:02}{:02}{:02}",
        time.year, time.month, time.day, time.hour, time.minute, time.second
    )
}

fn hex(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let padded = if text.len() % 2 == 1 {
        format!("0{text}")
    } else {
        text.to_owned()
    };
    wire::hex::decode(&padded)
}

/// Chooses a group from a moduli file for a client that requests `preferred` bits within
/// `minimum..=maximum`: one of the smallest size that is at least `preferred`, else of the largest
/// size below it. Among groups of one size, the random number `pick` selects the group. Only the
/// chosen line is decoded: decoding a file of 400 groups takes a millisecond.
#[must_use]
pub fn choose(
    file: &[u8],
    minimum: usize,
    preferred: usize,
    maximum: usize,
    pick: u64,
) -> Option<ModuliGroup> {
    let maximum = maximum.min(MAX_BITS);
    let rows = lines(file).filter_map(|line| {
        let text = core::str::from_utf8(line.text?).ok()?;
        let row = ModuliRow::parse(text).filter(is_usable)?;
        let bits = usize::try_from(row.size).ok()?.checked_add(1)?;
        (minimum..=maximum).contains(&bits).then_some((bits, row))
    });
    let mut rows: Vec<(usize, ModuliRow<'_>)> = rows.collect();
    // Best size first; damaged lines are skipped.
    rows.sort_by_key(|(bits, _)| match bits.checked_sub(preferred) {
        Some(more) => (false, more),
        None => (true, preferred - bits),
    });
    for group in rows.chunk_by(|(one, _), (other, _)| one == other) {
        let count = u64::try_from(group.len()).ok()?;
        let first = usize::try_from(pick.checked_rem(count)?).ok()?;
        let (before, from) = group.split_at_checked(first)?;
        let mut in_turn = from.iter().chain(before);
        if let Some(found) = in_turn.find_map(|(_, row)| group_of(row)) {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line with a number of `bits` bits that ends in `mark`.
    fn line(bits: usize, mark: u8) -> String {
        let digits = "0".repeat(bits / 4 - 3);
        format!(
            "20231001000000 2 6 100 {} 2 8{digits}{mark:02x}\n",
            bits - 1
        )
    }

    #[test]
    fn the_smallest_size_from_the_preferred_one_on_is_chosen() {
        let damaged = line(4096, 9).replace(" 8", " 7");
        let file = [
            line(2048, 1),
            line(4096, 2),
            damaged,
            line(3072, 3),
            line(3072, 4),
            line(4096, 5).replace(" 2 6 ", " 4 6 "),
        ]
        .concat();
        let modulus = |minimum, preferred, maximum, pick| {
            choose(file.as_bytes(), minimum, preferred, maximum, pick)
                .map(|group| (group.bits, *group.modulus.last().unwrap()))
        };
        assert_eq!(modulus(2048, 3000, 8192, 0), Some((3072, 3)));
        assert_eq!(modulus(2048, 3072, 8192, 5), Some((3072, 4)));
        for pick in 0..4 {
            assert_eq!(modulus(2048, 8000, 8192, pick), Some((4096, 2)));
        }
        assert_eq!(modulus(2048, 8000, 3500, 0), Some((3072, 3)));
        assert_eq!(modulus(2048, 1024, 8192, 7), Some((2048, 1)));
        assert_eq!(modulus(1024, 1024, 2047, 0), None);
        assert_eq!(modulus(5000, 6000, 8192, 0), None);
        // If all lines of the best size are damaged, the next size is chosen.
        let file = line(4096, 9).replace(" 8", " 7") + &line(3072, 3);
        let chosen = choose(file.as_bytes(), 2048, 4096, 8192, 1);
        assert_eq!(chosen.map(|group| group.bits), Some(3072));
    }

    #[test]
    fn only_tested_safe_primes_are_read() {
        let modulus = format!("C{}", "0".repeat(510) + "B");
        let line = |kind: &str, tests: &str, size: &str| {
            format!("20231001000000 {kind} {tests} 100 {size} 2 {modulus}\n")
        };
        let file = [
            "# Time Type Tests Tries Size Generator Modulus\n".to_owned(),
            line("2", "6", "2047"),
            line("4", "6", "2047"),
            line("2", "0", "2047"),
            line("2", "7", "2047"),
            line("2", "6", "2048"),
            "20231001000000 2 6 100 2047 2\n".to_owned(),
            "20231001000000 2 6 100 2047 2 XYZ\n".to_owned(),
        ]
        .concat();
        let groups = parse(file.as_bytes());
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].bits, 2048);
        assert_eq!(groups[0].generator, [2]);
    }

    #[test]
    fn rows_are_written_as_they_were_read() {
        for text in [
            "20220714110357 2 6 100 2047 2 E98F",
            "20220714110357 4 2 203280221 2046 0 C0FFEE",
            "20220714110357 2 6 100 2047 b E98F",
        ] {
            assert_eq!(ModuliRow::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "# comment",
            "!20220714110357 2 6 100 2047 2 E98F",
            "20220714110357 2 6 100 2047 2",
            "20220714110357 6 6 100 2047 2 E98F",
            "20220714110357 2 -6 100 2047 2 E98F",
            "20220714110357 2 6 100 99999999999 2 E98F",
        ] {
            assert_eq!(ModuliRow::parse(text), None, "{text}");
        }
        assert_eq!(time_column(1_657_796_637), "20220714110357");
    }

    #[test]
    fn the_machines_file_is_read() {
        let Ok(file) = std::fs::read("/etc/ssh/moduli") else {
            eprintln!("skipped: no /etc/ssh/moduli");
            return;
        };
        let groups = parse(&file);
        assert!(groups.len() > 20);
        assert!(groups.iter().all(|group| group.bits >= 2047));
        for (pick, preferred) in (0..).zip([2048, 3072, 4096, 8192, 3000, 5000]) {
            let chosen = choose(&file, 2047, preferred, 8192, pick).unwrap();
            assert!(chosen.bits >= preferred - 1 && groups.contains(&chosen));
        }
    }
}
