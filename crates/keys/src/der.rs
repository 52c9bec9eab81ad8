//! The subset of DER (X.690) that key files use: sequences, integers, octet and bit strings, object
//! identifiers and context tags, with definite, minimal lengths only.

use zeroize::Zeroizing;

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const NULL: u8 = 0x05;
pub(crate) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
/// `[0]`, constructed.
pub(crate) const CONTEXT_0: u8 = 0xa0;
/// `[1]`, constructed.
pub(crate) const CONTEXT_1: u8 = 0xa1;

/// Object identifiers, as their content octets.
pub(crate) mod oid {
    pub(crate) const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
    pub(crate) const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
    pub(crate) const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    pub(crate) const P384: &[u8] = &[0x2b, 0x81, 4, 0, 0x22];
    pub(crate) const P521: &[u8] = &[0x2b, 0x81, 4, 0, 0x23];
    pub(crate) const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
    pub(crate) const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 0x0d];
    pub(crate) const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 0x0c];
    pub(crate) const HMAC_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 7];
    pub(crate) const HMAC_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 9];
    pub(crate) const HMAC_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 10];
    pub(crate) const HMAC_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 11];
    pub(crate) const AES128_CBC: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 2];
    pub(crate) const AES192_CBC: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 0x16];
    pub(crate) const AES256_CBC: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 0x2a];
    pub(crate) const DES_EDE3_CBC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 3, 7];
}

/// The bytes are not the expected DER.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadDer;

/// A reader of the elements of one level.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DerReader<'a> {
    rest: &'a [u8],
}

impl<'a> DerReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads the content of the next element, which must have this tag.
    pub(crate) fn element(&mut self, tag: u8) -> Result<&'a [u8], BadDer> {
        let (found, rest) = self.rest.split_first().ok_or(BadDer)?;
        if *found != tag {
            return Err(BadDer);
        }
        let (first, rest) = rest.split_first().ok_or(BadDer)?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81..=0x84 => {
                let (octets, rest) = rest
                    .split_at_checked(usize::from(first & 0x7f))
                    .ok_or(BadDer)?;
                let len = octets
                    .iter()
                    .fold(0_usize, |len, octet| len << 8 | usize::from(*octet));
                if octets.first() == Some(&0) || len < 0x80 {
                    return Err(BadDer);
                }
                (len, rest)
            }
            _ => return Err(BadDer),
        };
        let (content, rest) = rest.split_at_checked(len).ok_or(BadDer)?;
        self.rest = rest;
        Ok(content)
    }

    /// Reads the content of the next element if it has this tag.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>, BadDer> {
        if self.rest.first() == Some(&tag) {
            self.element(tag).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Reads the next element, a sequence; returns a reader of its elements.
    pub(crate) fn sequence(&mut self) -> Result<Self, BadDer> {
        self.element(SEQUENCE).map(Self::new)
    }

    /// Reads the next element, a non-negative integer; returns its magnitude without leading zeros.
    pub(crate) fn integer(&mut self) -> Result<&'a [u8], BadDer> {
        let content = self.element(INTEGER)?;
        match content {
            [] => Err(BadDer),
            [first, ..] if first & 0x80 != 0 => Err(BadDer),
            _ => Ok(wire::Mpint::from_magnitude(content).magnitude()),
        }
    }

    /// Reads the next element as an integer of at most 32 bits.
    pub(crate) fn small_integer(&mut self) -> Result<u32, BadDer> {
        let magnitude = self.integer()?;
        if magnitude.len() > 4 {
            return Err(BadDer);
        }
        Ok(magnitude
            .iter()
            .fold(0, |value, octet| value << 8 | u32::from(*octet)))
    }

    /// Reads the next element, a bit string of whole bytes.
    pub(crate) fn bit_string(&mut self) -> Result<&'a [u8], BadDer> {
        match self.element(BIT_STRING)? {
            [0, bytes @ ..] => Ok(bytes),
            _ => Err(BadDer),
        }
    }

    /// True if all elements were read.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that all elements of this level were read.
    pub(crate) fn finish(self) -> Result<(), BadDer> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(BadDer)
        }
    }
}

/// Encodes an element whose content is the concatenation of `parts`.
pub(crate) fn element(tag: u8, parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Zeroizing::new(Vec::with_capacity(len + 10));
    out.push(tag);
    match u8::try_from(len) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let octets = len.to_be_bytes();
            let zeros = octets.iter().take_while(|octet| **octet == 0).count();
            let significant = octets.get(zeros..).unwrap_or_default();
            out.push(0x80 | u8::try_from(significant.len()).unwrap_or(0));
            out.extend_from_slice(significant);
        }
    }
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}

/// Encodes a non-negative integer from its magnitude.
pub(crate) fn integer(magnitude: &[u8]) -> Zeroizing<Vec<u8>> {
    let magnitude = wire::Mpint::from_magnitude(magnitude).magnitude();
    match magnitude.first() {
        Some(first) if first & 0x80 == 0 => element(INTEGER, &[magnitude]),
        _ => element(INTEGER, &[&[0], magnitude]),
    }
}

/// Encodes a bit string of whole bytes.
pub(crate) fn bit_string(bytes: &[u8]) -> Zeroizing<Vec<u8>> {
    element(BIT_STRING, &[&[0], bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let long = vec![0x80; 300];
        let inner = integer(&long);
        let outer = element(SEQUENCE, &[&inner, &integer(&[]), &bit_string(b"x")]);
        let mut reader = DerReader::new(&outer);
        let mut fields = reader.sequence().unwrap();
        assert_eq!(fields.integer(), Ok(&long[..]));
        assert_eq!(fields.small_integer(), Ok(0));
        assert_eq!(fields.optional(NULL), Ok(None));
        assert_eq!(fields.bit_string(), Ok(&b"x"[..]));
        assert!(fields.is_empty() && fields.finish().is_ok() && reader.finish().is_ok());
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for bad in [
            &[SEQUENCE][..],
            &[SEQUENCE, 0x80, 0, 0],
            &[SEQUENCE, 0x81, 0x01, 0],
            &[SEQUENCE, 0x82, 0x00, 0x80],
            &[SEQUENCE, 0x84, 0xff, 0xff, 0xff, 0xff, 0],
            &[SEQUENCE, 0x85, 0, 0, 0, 0, 1, 0],
            &[SEQUENCE, 5, 0],
        ] {
            assert!(DerReader::new(bad).sequence().is_err(), "{bad:?}");
        }
        assert!(DerReader::new(&[INTEGER, 0]).integer().is_err());
        assert!(DerReader::new(&[INTEGER, 1, 0x80]).integer().is_err());
        assert!(
            DerReader::new(&[INTEGER, 5, 1, 0, 0, 0, 0])
                .small_integer()
                .is_err()
        );
    }
}
