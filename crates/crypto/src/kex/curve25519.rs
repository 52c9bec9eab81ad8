//! X25519 (RFC 7748, RFC 8731).
#![forbid(unsafe_code)]

use zeroize::Zeroizing;

use crate::awslc::x25519;
use crate::{KexError, random};

/// Length of a public value and of a secret in bytes.
pub(super) const LEN: usize = 32;

/// A private value.
pub(super) struct Private {
    scalar: Zeroizing<[u8; LEN]>,
    public: [u8; LEN],
}

impl Private {
    pub(super) fn generate() -> Self {
        let scalar = Zeroizing::new(random::bytes());
        let public = x25519::x25519_public(&scalar);
        Self { scalar, public }
    }

    pub(super) fn public(&self) -> &[u8; LEN] {
        &self.public
    }

    /// Returns the shared secret; rejects a peer's value that makes it zero.
    pub(super) fn agree(&self, peer: &[u8]) -> Result<Zeroizing<[u8; LEN]>, KexError> {
        let peer = peer.try_into().map_err(|_| KexError::WrongLength)?;
        let mut secret = Zeroizing::new([0; LEN]);
        x25519::x25519(&self.scalar, peer, &mut secret)
            .map_err(|_| KexError::InvalidPublicValue)?;
        Ok(secret)
    }
}
