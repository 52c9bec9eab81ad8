//! How a payload leaves: as what was made of it, or as it is, behind what was made.

/// How a payload leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a stored payload is still to be put behind what was made"]
pub enum Form {
    /// As what was made.
    Compressed,
    /// As it is, behind what was made.
    Stored,
}

impl Form {
    /// Appends what is still missing in `out` behind what was made of `payload`.
    pub fn complete(self, payload: &[u8], out: &mut Vec<u8>) {
        if self == Self::Stored {
            out.extend_from_slice(payload);
        }
    }

    /// What stands for the payload of which `made` was made.
    #[must_use]
    pub fn encoded(self, made: &[u8]) -> Encoded<'_> {
        match self {
            Self::Compressed => Encoded::Deflated(made),
            Self::Stored => Encoded::Stored { header: made },
        }
    }

    /// Bytes that leave for a payload of `payload` bytes, of which `made` bytes were made.
    pub(crate) fn whole_bytes(self, made: usize, payload: usize) -> usize {
        match self {
            Self::Compressed => made,
            Self::Stored => made + payload,
        }
    }
}

/// What stands for a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoded<'a> {
    /// The payload itself, behind these bytes.
    Stored {
        /// The beginning of a stored block.
        header: &'a [u8],
    },
    /// These bytes.
    Deflated(&'a [u8]),
}
