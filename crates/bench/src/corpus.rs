//! Data of several kinds for measuring compression: the same in every run on a machine.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// Most files that are looked at for the mixed kind.
const MAX_FILES: usize = 20_000;
/// Most bytes taken of one file, so that no single one decides.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What the file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    /// Files of this system: programs, libraries, texts, pages that are compressed already.
    Mixed,
    /// Words by their frequency, the same on every machine.
    Text,
    Zeros,
    Random,
}

impl Data {
    pub(crate) const ALL: [Self; 4] = [Self::Mixed, Self::Text, Self::Zeros, Self::Random];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Text => "text",
            Self::Zeros => "zeros",
            Self::Random => "random",
        }
    }

    pub(crate) fn write(self, bytes: u64, to: impl Write) -> io::Result<()> {
        let mut to = io::BufWriter::new(to);
        match self {
            Self::Mixed => mixed(bytes, &mut to)?,
            Self::Text => text(bytes, &mut to)?,
            Self::Zeros => {
                io::copy(&mut io::repeat(0).take(bytes), &mut to)?;
            }
            Self::Random => {
                let mut random = Random::new();
                let mut left = bytes;
                while left > 0 {
                    let block = random.next().to_le_bytes();
                    let len = usize::try_from(left).map_or(block.len(), |left| left.min(8));
                    to.write_all(block.get(..len).unwrap_or(&block))?;
                    left = left.saturating_sub(8);
                }
            }
        }
        to.flush()
    }
}

/// A generator whose numbers are the same in every run.
struct Random(u64);

impl Random {
    fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end).unwrap_or(0)
    }
}

/// Files of this system one after another, in an order that is the same in every run on it; the
/// generated words for what is missing.
fn mixed(bytes: u64, to: &mut impl Write) -> io::Result<()> {
    let mut found = Vec::new();
    for directory in ["/usr/bin", "/usr/include", "/usr/lib", "/usr/share"] {
        let mut here = Vec::new();
        walk(directory.into(), &mut here);
        found.extend(here);
    }
    let mut random = Random::new();
    for index in (1..found.len()).rev() {
        found.swap(index, random.below(index + 1));
    }
    let mut left = bytes;
    for path in found {
        if left == 0 {
            return Ok(());
        }
        if let Ok(file) = File::open(path) {
            left -= io::copy(&mut file.take(left.min(MAX_FILE_BYTES)), to)?;
        }
    }
    text(left, to)
}

fn walk(directory: PathBuf, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        if found.len() >= MAX_FILES {
            return;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(entry.path(), found),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
}

/// Words of two to four syllables; the n-th is about n times as rare as the first.
fn text(bytes: u64, to: &mut impl Write) -> io::Result<()> {
    const VOCABULARY: usize = 20_000;
    const SYLLABLES: [&str; 24] = [
        "ba", "con", "de", "el", "fra", "gi", "ho", "in", "ju", "ka", "lo", "men", "na", "or",
        "per", "qui", "re", "st", "tu", "un", "ver", "wa", "xe", "yl",
    ];
    let mut random = Random::new();
    let words: Vec<String> = (0..VOCABULARY)
        .map(|_| {
            (0..2 + random.below(3))
                .filter_map(|_| SYLLABLES.get(random.below(SYLLABLES.len())))
                .copied()
                .collect()
        })
        .collect();
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    while left > 0 {
        // A uniform number to the power of a uniform number: near enough to Zipf's law.
        let limit = 1 + random.below(VOCABULARY);
        let word = words.get(random.below(limit)).map_or("", String::as_str);
        let end = if random.below(12) == 0 { ".\n" } else { " " };
        for part in [word, end] {
            let part = part.as_bytes();
            let part = part.get(..left.min(part.len())).unwrap_or(part);
            to.write_all(part)?;
            left -= part.len();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_length_asked_for_and_is_the_same_again() {
        for data in Data::ALL {
            let made = [(); 2].map(|()| {
                let mut bytes = Vec::new();
                data.write(100_003, &mut bytes).unwrap();
                bytes
            });
            assert_eq!(made[0].len(), 100_003, "{data:?}");
            assert!(made[0] == made[1], "{data:?}");
        }
    }
}
