//! RFC 4251 §5: a length-checked cursor that decodes untrusted bytes, and an encoder.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::MAX_MPINT_BITS;

/// Error of decoding untrusted bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The message ended before the field did.
    Truncated,
    /// Bytes follow the last field.
    TrailingBytes,
    /// The first byte is not this message's number.
    WrongMessage {
        /// The required number.
        expected: u8,
        /// The number found.
        got: u8,
    },
    /// A field is longer than its limit.
    TooLong {
        /// The limit in bytes.
        limit_bytes: usize,
    },
    /// A field's content violates a rule; the text names the violation.
    Malformed(&'static str),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("message ends in the middle of a field"),
            Self::TrailingBytes => f.write_str("bytes follow the last field"),
            Self::WrongMessage { expected, got } => {
                write!(f, "message number {got} where {expected} belongs")
            }
            Self::TooLong { limit_bytes } => write!(f, "field longer than {limit_bytes} bytes"),
            Self::Malformed(rule) => f.write_str(rule),
        }
    }
}

impl core::error::Error for DecodeError {}

/// A cursor over untrusted bytes. Each method consumes one field or fails, and never reads past the
/// end, panics or allocates.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The unconsumed bytes.
    #[must_use]
    pub fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns true if all bytes are consumed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Consumes the next `len` bytes, without a length prefix.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self
            .rest
            .split_at_checked(len)
            .ok_or(DecodeError::Truncated)?;
        self.rest = tail;
        Ok(head)
    }

    /// Consumes the next `N` bytes, without a length prefix.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(DecodeError::Truncated)?;
        self.rest = tail;
        Ok(*head)
    }

    /// Consumes a `byte`.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    /// Consumes a `boolean`: any non-zero value is true.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.u8()? != 0)
    }

    /// Consumes a `uint32`.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Consumes a `uint64`.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Consumes a `string`: a four-byte length and as many bytes.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    pub fn string(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = usize::try_from(self.u32()?).map_err(|_| DecodeError::Truncated)?;
        self.bytes(len)
    }

    /// Consumes a `string` of at most `limit_bytes`.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`], [`DecodeError::Truncated`].
    pub fn string_max(&mut self, limit_bytes: usize) -> Result<&'a [u8], DecodeError> {
        let value = self.string()?;
        if value.len() > limit_bytes {
            return Err(DecodeError::TooLong { limit_bytes });
        }
        Ok(value)
    }

    /// Consumes a `string` that must be UTF-8.
    ///
    /// # Errors
    /// [`DecodeError::Malformed`], [`DecodeError::Truncated`].
    pub fn utf8(&mut self) -> Result<&'a str, DecodeError> {
        core::str::from_utf8(self.string()?)
            .map_err(|_| DecodeError::Malformed("text is not UTF-8"))
    }

    /// Consumes an `mpint`, which must not be negative.
    ///
    /// # Errors
    /// [`DecodeError::Malformed`], [`DecodeError::Truncated`]; [`DecodeError::TooLong`] if the
    /// field is longer than [`MAX_MPINT_BITS`] and a sign byte.
    pub fn mpint(&mut self) -> Result<Mpint<'a>, DecodeError> {
        Mpint::from_content(self.string()?)
    }

    /// Consumes a `name-list`.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn name_list(&mut self) -> Result<NameList<'a>, DecodeError> {
        NameList::from_field(self.string()?)
    }

    /// Consumes and returns all remaining bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.rest)
    }

    /// Checks that the message is fully consumed.
    ///
    /// # Errors
    /// [`DecodeError::TrailingBytes`] if a byte remains.
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::TrailingBytes)
        }
    }
}

/// A non-negative `mpint`: its magnitude, big-endian, without leading zero bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mpint<'a>(&'a [u8]);

impl<'a> Mpint<'a> {
    /// Creates an `mpint` from an unsigned big-endian magnitude; drops leading zero bytes.
    #[must_use]
    pub fn from_magnitude(mut bytes: &'a [u8]) -> Self {
        while let [0, rest @ ..] = bytes {
            bytes = rest;
        }
        Self(bytes)
    }

    /// Reads the content of an `mpint`'s string, which may have leading zeros.
    ///
    /// # Errors
    /// [`DecodeError`] for a negative number, or one of more than 16384 bits.
    pub fn from_content(field: &'a [u8]) -> Result<Self, DecodeError> {
        if field.first().is_some_and(|first| first & 0x80 != 0) {
            return Err(DecodeError::Malformed("negative mpint"));
        }
        let value = Self::from_magnitude(field);
        // RFC 4251 §5 asks only the writer to avoid more leading zeros than the sign byte, so the
        // reader accepts them within the length limit.
        if field.len() > MAX_MPINT_BITS / 8 + 1 {
            return Err(DecodeError::TooLong {
                limit_bytes: MAX_MPINT_BITS / 8 + 1,
            });
        }
        Ok(value)
    }

    /// The magnitude, big-endian; empty for zero.
    #[must_use]
    pub fn magnitude(&self) -> &'a [u8] {
        self.0
    }

    /// Number of significant bits.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.0.first().map_or(0, |first| {
            self.0.len() * 8 - usize::try_from(first.leading_zeros()).unwrap_or(0)
        })
    }
}

/// A `name-list`: ASCII names separated by commas, in order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NameList<'a>(&'a str);

impl<'a> NameList<'a> {
    /// Parses a comma-separated list.
    ///
    /// # Errors
    /// [`DecodeError::Malformed`] if `text` has a byte outside printable ASCII, or a space.
    pub fn new(text: &'a str) -> Result<Self, DecodeError> {
        Self::from_field(text.as_bytes())
    }

    fn from_field(field: &'a [u8]) -> Result<Self, DecodeError> {
        if !field.iter().all(|byte| (0x21..=0x7e).contains(byte)) {
            return Err(DecodeError::Malformed(
                "name-list holds a byte outside printable ASCII",
            ));
        }
        let text = core::str::from_utf8(field)
            .map_err(|_| DecodeError::Malformed("name-list is not ASCII"))?;
        Ok(Self(text))
    }

    /// The names in order; skips empty names (`a,,b`).
    pub fn iter(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.0.split(',').filter(|name| !name.is_empty())
    }

    /// The first non-empty name.
    #[must_use]
    pub fn first(&self) -> Option<&'a str> {
        self.iter().next()
    }

    /// Returns true if `name` is in the list.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|each| each == name)
    }

    /// The list as encoded, separated by commas.
    #[must_use]
    pub fn as_str(&self) -> &'a str {
        self.0
    }
}

/// All bytes up to the end of the message, for fields whose layout depends on an earlier field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rest<'a>(pub &'a [u8]);

/// Appends RFC 4251 §5 types to a buffer.
pub trait Put {
    /// Appends a `byte`.
    fn put_u8(&mut self, value: u8);
    /// Appends a `boolean`.
    fn put_bool(&mut self, value: bool);
    /// Appends a `uint32`.
    fn put_u32(&mut self, value: u32);
    /// Appends a `uint64`.
    fn put_u64(&mut self, value: u64);
    /// Appends a `string`.
    fn put_string(&mut self, value: &[u8]);
    /// Appends an `mpint` with an unsigned big-endian magnitude.
    fn put_mpint(&mut self, magnitude: &[u8]);
    /// Appends a `name-list`.
    fn put_names<'n>(&mut self, names: impl IntoIterator<Item = &'n str>);
}

/// The length of an outgoing field as `uint32`. The packet layer limits messages to far less; a
/// longer slice is a bug.
fn length_of(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("own field under 4 GiB")
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_bool(&mut self, value: bool) {
        self.push(u8::from(value));
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_string(&mut self, value: &[u8]) {
        self.put_u32(length_of(value));
        self.extend_from_slice(value);
    }

    fn put_mpint(&mut self, magnitude: &[u8]) {
        let value = Mpint::from_magnitude(magnitude).magnitude();
        let sign = value.first().is_some_and(|first| first & 0x80 != 0);
        self.put_u32(length_of(value) + u32::from(sign));
        if sign {
            self.push(0);
        }
        self.extend_from_slice(value);
    }

    fn put_names<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        let mut text = String::new();
        for name in names {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(name);
        }
        self.put_string(text.as_bytes());
    }
}

/// A field of a message, with its encoding.
pub trait Field<'a>: Sized {
    /// Consumes the field from the cursor.
    ///
    /// # Errors
    /// [`DecodeError`].
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError>;
    /// Appends the field to `out`.
    fn write(&self, out: &mut Vec<u8>);
}

macro_rules! plain_field {
    ($($type:ty, $read:ident, $put:ident;)*) => {$(
        impl<'a> Field<'a> for $type {
            fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                reader.$read()
            }
            fn write(&self, out: &mut Vec<u8>) {
                out.$put(*self);
            }
        }
    )*};
}

plain_field! {
    u8, u8, put_u8;
    bool, bool, put_bool;
    u32, u32, put_u32;
    u64, u64, put_u64;
    &'a [u8], string, put_string;
}

impl<'a> Field<'a> for &'a str {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.utf8()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self.as_bytes());
    }
}

impl<'a> Field<'a> for Mpint<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.mpint()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_mpint(self.0);
    }
}

impl<'a> Field<'a> for NameList<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.name_list()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self.0.as_bytes());
    }
}

impl<'a> Field<'a> for Rest<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Rest(reader.rest()))
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}

impl<'a, const N: usize> Field<'a> for [u8; N] {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        reader.array()
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}
