//! Base64 (RFC 4648 §4) without tables or branches that depend on the data, because it encodes and
//! decodes private keys.

use zeroize::Zeroizing;

/// Encodes with padding.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            if place <= chunk.len() {
                out.push(char::from(symbol((group >> (18 - 6 * place)) & 0x3f)));
            } else {
                out.push('=');
            }
        }
    }
    out
}

/// Encodes without padding, the form of fingerprints.
#[must_use]
pub fn encode_unpadded(bytes: &[u8]) -> String {
    let mut text = encode(bytes);
    text.truncate(text.trim_end_matches('=').len());
    text
}

/// Encodes without padding in the alphabet for URLs (RFC 4648 §5).
#[must_use]
pub fn encode_url(bytes: &[u8]) -> String {
    encode_unpadded(bytes).replace('+', "-").replace('/', "_")
}

/// Encodes with padding in lines of `width` characters (at least 4), each ended by a newline.
#[must_use]
pub fn encode_lines(bytes: &[u8], width: usize) -> Zeroizing<String> {
    let text = Zeroizing::new(encode(bytes));
    let width = width.max(4);
    let mut out = Zeroizing::new(String::with_capacity(text.len() + text.len() / width + 2));
    for (index, character) in text.chars().enumerate() {
        if index > 0 && index % width == 0 {
            out.push('\n');
        }
        out.push(character);
    }
    out.push('\n');
    out
}

/// Decodes; skips spaces, tabs and line ends between characters. `None` if another byte occurs, the
/// padding is wrong or missing, or unused bits are set.
#[must_use]
pub fn decode(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut out = Zeroizing::new(Vec::with_capacity(text.len() / 4 * 3 + 3));
    let mut group = 0_u32;
    let mut filled = 0_u8;
    let mut padding = 0_u8;
    for byte in text {
        if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            continue;
        }
        if *byte == b'=' {
            padding += 1;
            if padding > 2 {
                return None;
            }
            continue;
        }
        if padding > 0 {
            return None;
        }
        group = group << 6 | value(*byte)?;
        filled += 1;
        if filled == 4 {
            let [_, first, second, third] = group.to_be_bytes();
            out.extend_from_slice(&[first, second, third]);
            group = 0;
            filled = 0;
        }
    }
    match (filled, padding) {
        (0, 0) => {}
        (2, 2) if group & 0xf == 0 => {
            let [_, _, _, first] = (group >> 4).to_be_bytes();
            out.push(first);
        }
        (3, 1) if group & 0x3 == 0 => {
            let [_, _, first, second] = (group >> 2).to_be_bytes();
            out.extend_from_slice(&[first, second]);
        }
        _ => return None,
    }
    Some(out)
}

/// Character of a six-bit number, computed without a table.
fn symbol(value: u32) -> u8 {
    // Each step adds the distance between two ranges of the alphabet if `value` is beyond the end
    // of the first; `past` is then all ones, else zero.
    let value = value.cast_signed();
    let past = |end: i32| (end - value) >> 31;
    let code = value + 65 + (past(25) & 6) - (past(51) & 75) - (past(61) & 15) + (past(62) & 3);
    let [_, _, _, low] = code.to_be_bytes();
    low
}

/// Six-bit number of a character; `None` outside the alphabet.
fn value(byte: u8) -> Option<u32> {
    let code = i32::from(byte);
    // Each term is all ones if `code` lies strictly between its bounds, else zero.
    let within = |low: i32, high: i32| ((low - code) & (code - high)) >> 8;
    let mut number = -1;
    number += within(64, 91) & (code - 64);
    number += within(96, 123) & (code - 70);
    number += within(47, 58) & (code + 5);
    number += within(42, 44) & 63;
    number += within(46, 48) & 64;
    u32::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rfc_4648_vectors_hold_both_ways() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(
                decode(coded.as_bytes()).unwrap().as_slice(),
                plain.as_bytes()
            );
        }
        assert_eq!(encode_unpadded(b"f"), "Zg");
        assert_eq!(*encode_lines(b"foobar", 4), "Zm9v\nYmFy\n");
    }

    #[test]
    fn every_byte_value_survives() {
        let all: Vec<u8> = (0..=255).collect();
        let text = encode(&all);
        assert!("AZaz09+/".chars().all(|each| text.contains(each)));
        assert_eq!(decode(text.as_bytes()).unwrap().as_slice(), all.as_slice());
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for bad in [
            "Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "=Zg=", "Zm9v!", "Zm9-", "Zm\09v",
        ] {
            assert!(decode(bad.as_bytes()).is_none(), "{bad:?}");
        }
        assert_eq!(decode(b"Zm\n9v \r\n").unwrap().as_slice(), b"foo");
    }
}
