//! The algorithms and keys of one direction between two NEWKEYS.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crypto::cipher::CipherAlgorithm;
use crypto::mac::MacAlgorithm;
use packet::Keys;
use zeroize::Zeroizing;

use crate::Error;
use crate::config::Compression;

/// Algorithms of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectionSuite {
    pub(crate) cipher: CipherAlgorithm,
    /// `None` if the cipher authenticates by itself.
    pub(crate) mac: Option<MacAlgorithm>,
    pub(crate) compression: Compression,
}

/// Raw keys of one direction. Kept for a snapshot, wiped when dropped.
#[derive(Clone)]
pub(crate) struct EpochKeys {
    pub(crate) suite: DirectionSuite,
    pub(crate) key: Zeroizing<Vec<u8>>,
    pub(crate) iv: Zeroizing<Vec<u8>>,
    pub(crate) mac_key: Zeroizing<Vec<u8>>,
}

impl EpochKeys {
    /// The negotiated compression of a direction with these keys; none before the first ones.
    pub(crate) fn compression(keys: Option<&Self>) -> Compression {
        keys.map_or(Compression::None, |keys| keys.suite.compression)
    }

    /// Sets up the keys for sealing or opening.
    pub(crate) fn set_up<Purpose>(&self) -> Result<Arc<Keys<Purpose>>, Error> {
        let suite = self.suite;
        let keys = Keys::new(suite.cipher, suite.mac, &self.key, &self.iv, &self.mac_key);
        keys.map(Arc::new)
            .map_err(|_| Error::Bug("derived key has the wrong length"))
    }
}
