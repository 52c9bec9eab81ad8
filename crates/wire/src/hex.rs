//! Hexadecimal digits, in which files and other programs write bytes.

use alloc::vec::Vec;

/// Decodes pairs of digits of either case; `None` for an odd number of digits or another character.
#[must_use]
pub fn decode(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let pairs = digits.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(value(*high)? << 4 | value(*low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_digits_are_bytes_and_nothing_else_is() {
        assert_eq!(decode("00fFa1"), Some([0, 255, 0xa1].to_vec()));
        assert_eq!(decode(""), Some(Vec::new()));
        for text in ["0", "0g", "+1", " 1", "0x", "é"] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }
}
