//! Fingerprints of key blobs, as text and as a picture for comparison by eye.

use crypto::hash::HashAlgorithm;

use crate::base64;

/// Returns `SHA256:` and the digest of the blob in unpadded base64.
#[must_use]
pub fn sha256(blob: &[u8]) -> String {
    of_blob(blob, HashAlgorithm::Sha256)
}

/// Returns the fingerprint in the format of `ssh-keygen -l`: `MD5:` with colon-separated
/// hexadecimal, or the algorithm's name with unpadded base64.
#[must_use]
pub fn of_blob(blob: &[u8], algorithm: HashAlgorithm) -> String {
    let digest = algorithm.digest(blob);
    if algorithm == HashAlgorithm::Md5 {
        let hex: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("MD5:{}", hex.join(":"))
    } else {
        format!("{}:{}", name(algorithm), base64::encode_unpadded(&digest))
    }
}

/// Encodes the SHA-1 digest of the blob as pronounceable words (Huima, "The Bubble Babble Binary
/// Data Encoding", 2000), in the format of `ssh-keygen -B`.
#[must_use]
pub fn bubblebabble(blob: &[u8]) -> String {
    bubblebabble_of(&HashAlgorithm::Sha1.digest(blob))
}

fn bubblebabble_of(bytes: &[u8]) -> String {
    let letter = |alphabet: &[u8], at: u32| {
        let at = usize::try_from(at).unwrap_or(0);
        char::from(alphabet.get(at % alphabet.len()).copied().unwrap_or(b'x'))
    };
    let vowel = |at| letter(b"aeiouy", at);
    let consonant = |at| letter(b"bcdfghklmnprstvzx", at);
    let mut out = String::from("x");
    // Running checksum, below 36.
    let mut sum = 1_u32;
    let mut pairs = bytes.chunks_exact(2);
    for pair in pairs.by_ref() {
        let [one, two] = pair else { continue };
        let (one, two) = (u32::from(*one), u32::from(*two));
        out.push(vowel(((one >> 6) + sum) % 6));
        out.push(consonant(one >> 2 & 15));
        out.push(vowel(((one & 3) + sum / 6) % 6));
        out.push(consonant(two >> 4));
        out.push('-');
        out.push(consonant(two & 15));
        sum = (sum * 5 + one * 7 + two) % 36;
    }
    match pairs.remainder() {
        [last] => {
            let last = u32::from(*last);
            out.push(vowel(((last >> 6) + sum) % 6));
            out.push(consonant(last >> 2 & 15));
            out.push(vowel(((last & 3) + sum / 6) % 6));
        }
        _ => {
            out.push(vowel(sum % 6));
            out.push(consonant(16));
            out.push(vowel(sum / 6));
        }
    }
    out.push('x');
    out
}

/// Prefix of a fingerprint with this algorithm.
#[must_use]
pub fn name(algorithm: HashAlgorithm) -> &'static str {
    match algorithm {
        HashAlgorithm::Md5 => "MD5",
        HashAlgorithm::Sha1 => "SHA1",
        HashAlgorithm::Sha256 => "SHA256",
        HashAlgorithm::Sha384 => "SHA384",
        HashAlgorithm::Sha512 => "SHA512",
    }
}

/// Looks up a hash algorithm by name (case-insensitive).
#[must_use]
pub fn algorithm_from_name(name: &str) -> Option<HashAlgorithm> {
    [
        HashAlgorithm::Md5,
        HashAlgorithm::Sha1,
        HashAlgorithm::Sha256,
        HashAlgorithm::Sha384,
        HashAlgorithm::Sha512,
    ]
    .into_iter()
    .find(|algorithm| self::name(*algorithm).eq_ignore_ascii_case(name))
}

const WIDTH: usize = 17;
const HEIGHT: usize = 9;
/// Symbol of a field by its number of visits; the last two symbols mark the start and the end.
const SYMBOLS: &[u8; 17] = b" .o+=*BOX@%&#/^SE";
const START: usize = SYMBOLS.len() - 2;
const END: usize = SYMBOLS.len() - 1;

/// Draws the drunken bishop's walk for the blob's digest ("The drunken bishop", Loss, Limmer and
/// von Gernler, 2009), framed, with `[label bits]` above and the hash below. Lines are separated by
/// newlines.
#[must_use]
pub fn randomart(blob: &[u8], algorithm: HashAlgorithm, label: &str, bits: usize) -> String {
    let mut board = [[0_usize; WIDTH]; HEIGHT];
    let (mut row, mut column) = (HEIGHT / 2, WIDTH / 2);
    for byte in algorithm.digest(blob).iter() {
        for step in 0..4 {
            let pair = byte >> (2 * step);
            column = step_within(column, pair & 1 != 0, WIDTH);
            row = step_within(row, pair & 2 != 0, HEIGHT);
            if let Some(visits) = board.get_mut(row).and_then(|line| line.get_mut(column)) {
                *visits = (*visits + 1).min(START - 1);
            }
        }
    }
    if let Some(field) = board
        .get_mut(HEIGHT / 2)
        .and_then(|line| line.get_mut(WIDTH / 2))
    {
        *field = START;
    }
    if let Some(field) = board.get_mut(row).and_then(|line| line.get_mut(column)) {
        *field = END;
    }

    let mut title = format!("[{label} {bits}]");
    if title.len() > WIDTH {
        title = format!("[{label}]");
        // OpenSSH cuts a title as long as the frame, without a dash on either side, at its end.
        title.truncate(WIDTH - 1);
    }
    let mut art = frame(&title);
    for line in board {
        art.push_str("\n|");
        for visits in line {
            art.push(SYMBOLS.get(visits).map_or(' ', |byte| char::from(*byte)));
        }
        art.push('|');
    }
    art.push('\n');
    art.push_str(&frame(&format!("[{}]", name(algorithm))));
    art
}

fn step_within(at: usize, forward: bool, size: usize) -> usize {
    if forward {
        (at + 1).min(size - 1)
    } else {
        at.saturating_sub(1)
    }
}

/// A border with a word in the middle; an odd dash goes to the right.
fn frame(word: &str) -> String {
    let dashes = WIDTH.saturating_sub(word.len());
    let left = dashes / 2;
    format!("+{}{word}{}+", "-".repeat(left), "-".repeat(dashes - left))
}

#[cfg(test)]
mod tests;
