//! [`SealKeys`] and [`OpenKeys`]: one epoch's cipher and MAC of one direction, and the framing
//! that follows from them (RFC 4253 §6; OpenSSH's PROTOCOL §1.6 for AES-GCM, §1.7 for
//! encrypt-then-MAC; PROTOCOL.chacha20poly1305).
//!
//! Immutable and `Sync`: where a packet stands comes with its [`Stamp`], so one `Arc` serves
//! every job of the epoch.

use core::fmt;
use core::marker::PhantomData;

use crypto::cipher::{ChaChaPolyKey, CipherAlgorithm, CipherKind, CtrKey, GcmKey};
use crypto::mac::{MacAlgorithm, MacKey};
use crypto::{IntegrityFailed, KeyLengthError};

use crate::position::Stamp;
use crate::{LENGTH_BYTES, MIN_PADDING_BYTES, PADDING_LENGTH_BYTES};

/// RFC 4253 §6: packets are multiples of 8 bytes where no cipher says more.
const MIN_BLOCK_BYTES: usize = 8;

/// AES block, the unit of CTR positions.
const AES_BLOCK_BYTES: usize = 16;

/// Bytes under one AES key after which new keys are due: half of RFC 4344 §3.2's 2³² blocks.
const AES_REKEY_BYTES: u64 = 1 << 35;

/// Keys by which one direction's packets of one epoch are sealed.
pub type SealKeys = Keys<Sealing>;

/// Keys by which one direction's packets of one epoch are opened.
pub type OpenKeys = Keys<Opening>;

/// What [`SealKeys`] are for.
#[derive(Debug)]
pub enum Sealing {}

/// What [`OpenKeys`] are for.
#[derive(Debug)]
pub enum Opening {}

/// One direction's keys of one epoch, with what they are for: keys that seal open nothing.
pub struct Keys<Purpose>(Suite, PhantomData<Purpose>);

impl<Purpose> Keys<Purpose> {
    /// Sets up `cipher`, and `mac` where the cipher has no tag of its own (`mac` and `mac_key`
    /// are then ignored).
    ///
    /// # Errors
    /// If a length does not fit its algorithm, or the cipher needs a MAC and has none.
    pub fn new(
        cipher: CipherAlgorithm,
        mac: Option<MacAlgorithm>,
        key: &[u8],
        iv: &[u8],
        mac_key: &[u8],
    ) -> Result<Self, KeyLengthError> {
        let suite = Suite::new(cipher, mac, key, iv, mac_key)?;
        Ok(Self(suite, PhantomData))
    }

    /// Before the first NEWKEYS: no cipher, no MAC.
    #[must_use]
    pub fn none() -> Self {
        Self(Suite::None, PhantomData)
    }

    pub(crate) fn framing(&self) -> Framing {
        self.0.framing()
    }

    pub(crate) fn rekey_bytes(&self) -> u64 {
        self.0.rekey_bytes()
    }
}

/// The algorithms' kind only.
impl<Purpose> fmt::Debug for Keys<Purpose> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.name())
    }
}

impl Keys<Sealing> {
    /// Encrypts `packet` (`packet_length` to padding) in place and writes its MAC or tag.
    pub(crate) fn seal(&self, stamp: Stamp, packet: &mut [u8], tag: &mut [u8]) {
        match &self.0 {
            Suite::None => {}
            Suite::EncryptAndMac { cipher, mac } => {
                tag.copy_from_slice(&mac.compute(stamp.sequence, packet));
                cipher.apply(stamp.block, packet);
            }
            Suite::EncryptThenMac { cipher, mac } => {
                if let Some((_, body)) = packet.split_first_chunk_mut::<LENGTH_BYTES>() {
                    cipher.apply(stamp.block, body);
                }
                tag.copy_from_slice(&mac.compute(stamp.sequence, packet));
            }
            Suite::Gcm(cipher) => {
                if let Some((length, body)) = packet.split_first_chunk_mut::<LENGTH_BYTES>() {
                    tag.copy_from_slice(&cipher.seal(stamp.invocation, *length, body));
                }
            }
            Suite::ChaChaPoly(cipher) => {
                tag.copy_from_slice(&cipher.seal(stamp.sequence, packet));
            }
        }
    }
}

impl Keys<Opening> {
    /// Whether `packet_length` is part of the ciphertext: a bad one is then as likely a
    /// changed one, and fails as a wrong MAC does.
    pub(crate) fn encrypts_length(&self) -> bool {
        matches!(self.0, Suite::EncryptAndMac { .. } | Suite::ChaChaPoly(_))
    }

    /// `packet_length` of the packet that begins with `start`, which is left as it came; `None`
    /// while `start` is too short.
    pub(crate) fn length(&self, stamp: Stamp, start: &[u8]) -> Option<u32> {
        let field = *start.first_chunk::<LENGTH_BYTES>()?;
        match &self.0 {
            Suite::None | Suite::EncryptThenMac { .. } | Suite::Gcm(_) => {
                Some(u32::from_be_bytes(field))
            }
            Suite::EncryptAndMac { cipher, .. } => {
                let mut block = *start.first_chunk::<AES_BLOCK_BYTES>()?;
                cipher.apply(stamp.block, &mut block);
                let [a, b, c, d, ..] = block;
                Some(u32::from_be_bytes([a, b, c, d]))
            }
            Suite::ChaChaPoly(cipher) => Some(cipher.length(stamp.sequence, field)),
        }
    }

    /// Verifies and decrypts `packet` (`packet_length` to padding) in place. On failure its
    /// content is meaningless and must be dropped. On success the length field may still be
    /// encrypted.
    pub(crate) fn open(
        &self,
        stamp: Stamp,
        packet: &mut [u8],
        tag: &[u8],
    ) -> Result<(), IntegrityFailed> {
        match &self.0 {
            Suite::None => Ok(()),
            Suite::EncryptAndMac { cipher, mac } => {
                cipher.apply(stamp.block, packet);
                mac.verify(stamp.sequence, packet, tag)
            }
            Suite::EncryptThenMac { cipher, mac } => {
                mac.verify(stamp.sequence, packet, tag)?;
                let (_, body) = packet
                    .split_first_chunk_mut::<LENGTH_BYTES>()
                    .ok_or(IntegrityFailed)?;
                cipher.apply(stamp.block, body);
                Ok(())
            }
            Suite::Gcm(cipher) => {
                let tag = tag.try_into().map_err(|_| IntegrityFailed)?;
                let (length, body) = packet
                    .split_first_chunk_mut::<LENGTH_BYTES>()
                    .ok_or(IntegrityFailed)?;
                cipher.open(stamp.invocation, *length, body, tag)
            }
            Suite::ChaChaPoly(cipher) => {
                let tag = tag.try_into().map_err(|_| IntegrityFailed)?;
                cipher.open(stamp.sequence, packet, tag)
            }
        }
    }
}

/// A cipher, with its MAC where it needs one, as they work on a packet.
enum Suite {
    None,
    EncryptAndMac { cipher: CtrKey, mac: MacKey },
    EncryptThenMac { cipher: CtrKey, mac: MacKey },
    Gcm(GcmKey),
    ChaChaPoly(ChaChaPolyKey),
}

impl Suite {
    fn new(
        cipher: CipherAlgorithm,
        mac: Option<MacAlgorithm>,
        key: &[u8],
        iv: &[u8],
        mac_key: &[u8],
    ) -> Result<Self, KeyLengthError> {
        match cipher.kind() {
            CipherKind::Gcm => GcmKey::new(cipher, key, iv).map(Self::Gcm),
            CipherKind::ChaChaPoly => ChaChaPolyKey::new(key).map(Self::ChaChaPoly),
            CipherKind::Ctr => {
                let algorithm = mac.ok_or(KeyLengthError)?;
                let cipher = CtrKey::new(cipher, key, iv)?;
                let mac = MacKey::new(algorithm, mac_key)?;
                Ok(if algorithm.is_etm() {
                    Self::EncryptThenMac { cipher, mac }
                } else {
                    Self::EncryptAndMac { cipher, mac }
                })
            }
        }
    }

    fn framing(&self) -> Framing {
        let (block_bytes, length_in_blocks, tag_bytes, counts_blocks) = match self {
            Self::None => (MIN_BLOCK_BYTES, true, 0, false),
            Self::EncryptAndMac { mac, .. } => {
                (AES_BLOCK_BYTES, true, mac.algorithm().tag_len(), true)
            }
            Self::EncryptThenMac { mac, .. } => {
                (AES_BLOCK_BYTES, false, mac.algorithm().tag_len(), true)
            }
            Self::Gcm(_) => (AES_BLOCK_BYTES, false, 16, false),
            Self::ChaChaPoly(_) => (MIN_BLOCK_BYTES, false, 16, false),
        };
        Framing {
            block_bytes,
            length_in_blocks,
            tag_bytes,
            counts_blocks,
        }
    }

    fn rekey_bytes(&self) -> u64 {
        match self {
            // ChaCha20 is no block cipher with a birthday bound; its packets are counted.
            Self::None | Self::ChaChaPoly(_) => u64::MAX,
            Self::EncryptAndMac { .. } | Self::EncryptThenMac { .. } | Self::Gcm(_) => {
                AES_REKEY_BYTES
            }
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::EncryptAndMac { .. } => "ctr, encrypt-and-MAC",
            Self::EncryptThenMac { .. } => "ctr, encrypt-then-MAC",
            Self::Gcm(_) => "gcm",
            Self::ChaChaPoly(_) => "chacha20-poly1305",
        }
    }
}

/// How packets are measured under a set of keys. Lengths are in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Framing {
    /// What a packet is a multiple of.
    block_bytes: usize,
    /// Whether `packet_length` itself counts for that; not where it stays outside encryption.
    length_in_blocks: bool,
    /// MAC or tag behind the packet.
    pub(crate) tag_bytes: usize,
    /// Whether the position in the key stream matters.
    counts_blocks: bool,
}

impl Framing {
    /// Bytes before the payload that count for alignment.
    fn aligned_header(self) -> usize {
        PADDING_LENGTH_BYTES
            + if self.length_in_blocks {
                LENGTH_BYTES
            } else {
                0
            }
    }

    /// RFC 4253 §6: at least 4 bytes of padding, as few as alignment allows; with `conceal`
    /// (RFC 4253 §6 lets padding hide lengths) as few as that multiple allows.
    pub(crate) fn padding_length(self, payload: usize, conceal: usize) -> u8 {
        let multiple = if conceal > self.block_bytes {
            conceal.next_multiple_of(self.block_bytes).min(128)
        } else {
            self.block_bytes
        };
        let least = self
            .aligned_header()
            .saturating_add(payload)
            .saturating_add(MIN_PADDING_BYTES);
        let missing = (multiple - least % multiple) % multiple;
        // At most 4 + 127.
        u8::try_from(MIN_PADDING_BYTES + missing).unwrap_or(u8::MAX)
    }

    /// `packet_length` for a payload with this padding.
    pub(crate) fn packet_length(self, payload: usize, padding: u8) -> usize {
        payload.saturating_add(PADDING_LENGTH_BYTES + usize::from(padding))
    }

    /// Whether a received `packet_length` is whole blocks.
    pub(crate) fn is_aligned(self, packet_length: usize) -> bool {
        let counted = self.aligned_header() - PADDING_LENGTH_BYTES + packet_length;
        counted.is_multiple_of(self.block_bytes)
    }

    /// Blocks of key stream that a packet takes.
    pub(crate) fn blocks(self, packet_length: usize) -> u64 {
        if !self.counts_blocks {
            return 0;
        }
        let encrypted = self.aligned_header() - PADDING_LENGTH_BYTES + packet_length;
        (encrypted / AES_BLOCK_BYTES) as u64
    }
}
