//! The moduli file of Diffie-Hellman group exchange (moduli(5), RFC 4419 §3): reading it and
//! choosing a group. The exchange itself is in `proto`; the fallback group in `crypto`.

use wire::Mpint;

use crate::lines::lines;

/// Type 2 in the second column: p = 2q + 1 with q prime.
const TYPE_SAFE_PRIME: &str = "2";
/// Bits of the third column: the candidate has been tested by a probabilistic test.
const TESTS_PROBABILISTIC: u32 = 0x04 | 0x08 | 0x10;
/// Bit of the third column: known to be composite.
const TESTED_COMPOSITE: u32 = 0x01;
/// RFC 8270 §3 asks for 2048 bits; a file with smaller groups is read, they are not chosen
/// unless the caller's minimum allows.
const MAX_BITS: usize = 16_384;

/// A group of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Size of the modulus in bits.
    pub bits: usize,
    /// The generator, big-endian.
    pub generator: Vec<u8>,
    /// The modulus, big-endian without leading zeros.
    pub modulus: Vec<u8>,
}

/// Reads the groups of a moduli file that are safe primes and have been tested. Other lines
/// are passed over.
#[must_use]
pub fn parse(file: &[u8]) -> Vec<Group> {
    lines(file)
        .filter_map(|line| parse_line(core::str::from_utf8(line.text?).ok()?))
        .collect()
}

/// `time type tests tries size generator modulus`
fn parse_line(text: &str) -> Option<Group> {
    let mut fields = text.split_ascii_whitespace();
    let _time = fields.next().filter(|time| !time.starts_with('#'))?;
    if fields.next()? != TYPE_SAFE_PRIME {
        return None;
    }
    let tests: u32 = fields.next()?.parse().ok()?;
    if tests & TESTED_COMPOSITE != 0 || tests & TESTS_PROBABILISTIC == 0 {
        return None;
    }
    let _tries: u32 = fields.next()?.parse().ok()?;
    let size: usize = fields.next()?.parse().ok()?;
    let generator = hex(fields.next()?)?;
    let modulus = hex(fields.next()?)?;
    let modulus = Mpint::from_magnitude(&modulus);
    // The column holds the bits less one, by the habit of its first generator; a line whose
    // number does not fit its modulus is damaged.
    if modulus.bits() != size.checked_add(1)? || modulus.bits() > MAX_BITS {
        return None;
    }
    if Mpint::from_magnitude(&generator).bits() < 2 || generator.len() > 8 {
        return None;
    }
    Some(Group {
        bits: modulus.bits(),
        generator,
        modulus: modulus.magnitude().to_vec(),
    })
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
    padded
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// Chooses a group for a client that asks for `preferred` bits within `minimum..=maximum`:
/// the smallest size that is at least the preferred one, else the largest below it; among
/// groups of one size, the one that the random number `pick` falls on.
#[must_use]
pub fn choose(
    groups: &[Group],
    minimum: usize,
    preferred: usize,
    maximum: usize,
    pick: u64,
) -> Option<&Group> {
    let fits = |group: &&Group| (minimum..=maximum).contains(&group.bits);
    let best = groups
        .iter()
        .filter(fits)
        .map(|group| group.bits)
        .reduce(|best, bits| {
            let better = if best < preferred {
                bits > best
            } else {
                bits >= preferred && bits < best
            };
            if better { bits } else { best }
        })?;
    let candidates: Vec<&Group> = groups.iter().filter(|group| group.bits == best).collect();
    let count = u64::try_from(candidates.len()).ok()?;
    let index = usize::try_from(pick.checked_rem(count)?).ok()?;
    candidates.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(bits: usize, mark: u8) -> Group {
        Group {
            bits,
            generator: vec![2],
            modulus: vec![mark],
        }
    }

    #[test]
    fn the_smallest_size_from_the_preferred_one_on_is_chosen() {
        let groups = [
            group(2048, 1),
            group(4096, 2),
            group(3072, 3),
            group(3072, 4),
        ];
        let modulus = |minimum, preferred, maximum, pick| {
            choose(&groups, minimum, preferred, maximum, pick).map(|group| group.modulus[0])
        };
        assert_eq!(modulus(2048, 3000, 8192, 0), Some(3));
        assert_eq!(modulus(2048, 3000, 8192, 5), Some(4));
        assert_eq!(modulus(2048, 8000, 8192, 0), Some(2));
        assert_eq!(modulus(2048, 8000, 3500, 0), Some(3));
        assert_eq!(modulus(1024, 1024, 2047, 0), None);
        assert_eq!(modulus(5000, 6000, 8192, 0), None);
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
    fn the_machines_file_is_read() {
        let Ok(file) = std::fs::read("/etc/ssh/moduli") else {
            eprintln!("skipped: no /etc/ssh/moduli");
            return;
        };
        let groups = parse(&file);
        assert!(groups.len() > 20);
        assert!(groups.iter().all(|group| group.bits >= 2047));
    }
}
