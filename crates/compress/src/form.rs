//! The encoding of a payload: compressed, or stored after a header.

/// The form in which a payload is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a stored payload must still be appended to the output"]
pub enum Form {
    /// Compressed: the output is complete.
    Compressed,
    /// Stored: the payload follows the output.
    Stored,
}

impl Form {
    /// Completes `out`: appends `payload` if it is stored.
    pub fn complete(self, payload: &[u8], out: &mut Vec<u8>) {
        if self == Self::Stored {
            out.extend_from_slice(payload);
        }
    }

    /// The encoding of a payload for which the bytes `made` were written.
    #[must_use]
    pub fn encoded(self, made: &[u8]) -> Encoded<'_> {
        match self {
            Self::Compressed => Encoded::Deflated(made),
            Self::Stored => Encoded::Stored { header: made },
        }
    }

    /// Number of bytes sent for a payload of `payload` bytes for which `made` bytes were written.
    pub(crate) fn whole_bytes(self, made: usize, payload: usize) -> usize {
        match self {
            Self::Compressed => made,
            Self::Stored => made + payload,
        }
    }
}

/// The encoding of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoded<'a> {
    /// The payload itself, preceded by a header.
    Stored {
        /// Header of a stored block.
        header: &'a [u8],
    },
    /// Deflated bytes.
    Deflated(&'a [u8]),
}
