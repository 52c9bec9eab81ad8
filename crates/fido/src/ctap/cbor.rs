//! CBOR as CTAP 2 uses it (RFC 8949; CTAP 2.1 §8, "Message Encoding"): integers, strings, arrays, maps,
//! booleans and null. Lengths are definite; floating point numbers and tags do not occur.

/// Deepest nesting of arrays and maps that is read; CTAP 2.1 §8 permits four.
const MAX_DEPTH: usize = 8;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cbor {
    Unsigned(u64),
    /// The number -1 - n.
    Negative(u64),
    Bytes(Vec<u8>),
    Text(String),
    Array(Vec<Self>),
    /// In the order of the encoding, which a writer must choose as CTAP 2.1 §8 demands.
    Map(Vec<(Self, Self)>),
    Bool(bool),
    Null,
}

impl Cbor {
    /// An integer.
    pub(crate) fn int(value: i64) -> Self {
        match u64::try_from(value) {
            Ok(value) => Self::Unsigned(value),
            Err(_) => Self::Negative((-1 - value).unsigned_abs()),
        }
    }

    pub(crate) fn text(value: &str) -> Self {
        Self::Text(value.to_owned())
    }

    pub(crate) fn bytes(value: &[u8]) -> Self {
        Self::Bytes(value.to_vec())
    }

    /// A map with integers as keys.
    pub(crate) fn map(entries: impl IntoIterator<Item = (i64, Self)>) -> Self {
        let entries = entries.into_iter();
        Self::Map(
            entries
                .map(|(key, value)| (Self::int(key), value))
                .collect(),
        )
    }

    /// The value of an integer key.
    pub(crate) fn get(&self, key: i64) -> Option<&Self> {
        self.find(&Self::int(key))
    }

    /// The value of a text key.
    pub(crate) fn named(&self, key: &str) -> Option<&Self> {
        self.find(&Self::text(key))
    }

    fn find(&self, key: &Self) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries
                .iter()
                .find_map(|(name, value)| (name == key).then_some(value)),
            _ => None,
        }
    }

    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Self::Unsigned(value) => i64::try_from(*value).ok(),
            Self::Negative(value) => i64::try_from(*value).ok().map(|value| -1 - value),
            _ => None,
        }
    }

    pub(crate) fn as_array(&self) -> &[Self] {
        match self {
            Self::Array(values) => values,
            _ => &[],
        }
    }

    pub(crate) fn is_true(&self) -> bool {
        *self == Self::Bool(true)
    }

    /// Appends the encoding.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Unsigned(value) => head(out, 0, *value),
            Self::Negative(value) => head(out, 1, *value),
            Self::Bytes(bytes) => {
                head(out, 2, count(bytes.len()));
                out.extend_from_slice(bytes);
            }
            Self::Text(text) => {
                head(out, 3, count(text.len()));
                out.extend_from_slice(text.as_bytes());
            }
            Self::Array(values) => {
                head(out, 4, count(values.len()));
                for value in values {
                    value.write(out);
                }
            }
            Self::Map(entries) => {
                head(out, 5, count(entries.len()));
                for (key, value) in entries {
                    key.write(out);
                    value.write(out);
                }
            }
            Self::Bool(value) => out.push(0xf4 + u8::from(*value)),
            Self::Null => out.push(0xf6),
        }
    }

    /// The encoding.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// Reads one value and gives the bytes after it. `None` if it is malformed or of another kind.
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        read(bytes, MAX_DEPTH)
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn head(out: &mut Vec<u8>, major: u8, value: u64) {
    let major = major << 5;
    if let Ok(value) = u8::try_from(value) {
        match value {
            0..24 => out.push(major | value),
            _ => out.extend_from_slice(&[major | 24, value]),
        }
    } else if let Ok(value) = u16::try_from(value) {
        out.push(major | 25);
        out.extend_from_slice(&value.to_be_bytes());
    } else if let Ok(value) = u32::try_from(value) {
        out.push(major | 26);
        out.extend_from_slice(&value.to_be_bytes());
    } else {
        out.push(major | 27);
        out.extend_from_slice(&value.to_be_bytes());
    }
}

fn argument(short: u8, rest: &[u8]) -> Option<(u64, &[u8])> {
    match short {
        0..24 => Some((u64::from(short), rest)),
        24 => rest
            .split_first()
            .map(|(value, rest)| (u64::from(*value), rest)),
        25 => rest
            .split_first_chunk()
            .map(|(value, rest)| (u64::from(u16::from_be_bytes(*value)), rest)),
        26 => rest
            .split_first_chunk()
            .map(|(value, rest)| (u64::from(u32::from_be_bytes(*value)), rest)),
        27 => rest
            .split_first_chunk()
            .map(|(value, rest)| (u64::from_be_bytes(*value), rest)),
        _ => None,
    }
}

fn read(bytes: &[u8], depth: usize) -> Option<(Cbor, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (major, short) = (first >> 5, first & 0x1f);
    if major == 7 {
        let value = match short {
            20 => Cbor::Bool(false),
            21 => Cbor::Bool(true),
            22 => Cbor::Null,
            _ => return None,
        };
        return Some((value, rest));
    }
    let (value, rest) = argument(short, rest)?;
    let length = usize::try_from(value);
    match major {
        0 => Some((Cbor::Unsigned(value), rest)),
        1 => Some((Cbor::Negative(value), rest)),
        2 => {
            let (bytes, rest) = rest.split_at_checked(length.ok()?)?;
            Some((Cbor::Bytes(bytes.to_vec()), rest))
        }
        3 => {
            let (bytes, rest) = rest.split_at_checked(length.ok()?)?;
            let text = core::str::from_utf8(bytes).ok()?;
            Some((Cbor::Text(text.to_owned()), rest))
        }
        4 | 5 => {
            let depth = depth.checked_sub(1)?;
            read_many(major == 5, value, rest, depth)
        }
        _ => None,
    }
}

/// Reads the elements of an array or a map. Nothing is allocated by the count, which may lie.
fn read_many(is_map: bool, count: u64, mut rest: &[u8], depth: usize) -> Option<(Cbor, &[u8])> {
    let (mut values, mut entries) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (value, after) = read(rest, depth)?;
        rest = after;
        if is_map {
            let (second, after) = read(rest, depth)?;
            rest = after;
            entries.push((value, second));
        } else {
            values.push(value);
        }
    }
    Some(match is_map {
        true => (Cbor::Map(entries), rest),
        false => (Cbor::Array(values), rest),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8949, Appendix A.
    #[test]
    fn the_examples_of_the_standard_are_read_and_written() {
        for (value, bytes) in [
            (Cbor::int(23), &[0x17][..]),
            (Cbor::int(24), &[0x18, 0x18]),
            (Cbor::int(1000), &[0x19, 0x03, 0xe8]),
            (Cbor::int(1_000_000), &[0x1a, 0x00, 0x0f, 0x42, 0x40]),
            (
                Cbor::int(1_000_000_000_000),
                &[0x1b, 0, 0, 0, 0xe8, 0xd4, 0xa5, 0x10, 0],
            ),
            (Cbor::int(-1), &[0x20]),
            (Cbor::int(-1000), &[0x39, 0x03, 0xe7]),
            (Cbor::bytes(&[1, 2]), &[0x42, 1, 2]),
            (Cbor::text("IETF"), &[0x64, 0x49, 0x45, 0x54, 0x46]),
            (Cbor::Bool(true), &[0xf5]),
            (Cbor::Null, &[0xf6]),
            (
                Cbor::map([(1, Cbor::int(2)), (3, Cbor::int(4))]),
                &[0xa2, 1, 2, 3, 4],
            ),
            (
                Cbor::Array(vec![Cbor::int(1), Cbor::Array(vec![])]),
                &[0x82, 1, 0x80],
            ),
        ] {
            assert_eq!(value.encode(), bytes);
            assert_eq!(Cbor::read(bytes), Some((value, &[][..])));
            assert_eq!(Cbor::read(bytes.get(..bytes.len() - 1).unwrap()), None);
        }
    }

    #[test]
    fn a_lie_about_a_length_costs_nothing() {
        // Counts of 2^64 - 1 and 2^32 - 1, an indefinite length, a float, a tag, deep nesting.
        for bytes in [
            &[0x9b, 255, 255, 255, 255, 255, 255, 255, 255][..],
            &[0x5b, 255, 255, 255, 255, 255, 255, 255, 255, 1],
            &[0xba, 255, 255, 255, 255, 0, 0],
            &[0x9f, 0xff],
            &[0xf9, 0, 0],
            &[0xc0, 0],
            &[0x81; 64],
        ] {
            assert_eq!(Cbor::read(bytes), None, "{bytes:x?}");
        }
    }
}
