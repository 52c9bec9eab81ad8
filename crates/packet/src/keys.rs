//! [`SealKeys`] and [`OpenKeys`]: one epoch's cipher and MAC of one direction, and the framing
//! that follows from them (RFC 4253 §6; OpenSSH's PROTOCOL §1.6 for AES-GCM, §1.7 for
//! encrypt-then-MAC; PROTOCOL.chacha20poly1305).
//!
//! Immutable and `Sync`: where a packet stands comes with its [`Stamp`], so one `Arc` serves
//! every job of the epoch.

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;

use crypto::cipher::{ChaChaPolyKey, CipherAlgorithm, CipherKind, CtrKey, GcmKey};
use crypto::mac::{MacAlgorithm, MacKey};
use crypto::{IntegrityFailed, KeyLengthError};

use crate::ctr_mac::{CtrMac, Piece};
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

    pub(crate) fn gains_by_many(&self) -> bool {
        matches!(&self.0, Suite::CtrMac(keys) if keys.gains_by_many())
    }
}

/// The algorithms' kind only.
impl<Purpose> fmt::Debug for Keys<Purpose> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.name())
    }
}

impl Keys<Sealing> {
    /// Encrypts a packet in place and writes its MAC or tag.
    pub(crate) fn seal(&self, piece: &mut Piece<'_>) {
        match &self.0 {
            Suite::None => {}
            Suite::CtrMac(keys) => keys.seal(piece),
            Suite::Gcm(cipher) => {
                let Piece { stamp, packet, tag } = piece;
                if let Some((length, body)) = packet.split_first_chunk_mut::<LENGTH_BYTES>() {
                    tag.copy_from_slice(&cipher.seal(stamp.invocation, *length, body));
                }
            }
            Suite::ChaChaPoly(cipher) => {
                let tag = cipher.seal(piece.stamp.sequence, piece.packet);
                piece.tag.copy_from_slice(&tag);
            }
        }
    }

    /// As [`Self::seal`] for each of at most [`MAX_TOGETHER`](crate::ctr_mac::MAX_TOGETHER)
    /// packets.
    pub(crate) fn seal_many(&self, pieces: &mut [Piece<'_>]) {
        match &self.0 {
            Suite::CtrMac(keys) => keys.seal_many(pieces),
            _ => pieces.iter_mut().for_each(|piece| self.seal(piece)),
        }
    }
}

impl Keys<Opening> {
    /// Whether `packet_length` is part of the ciphertext: a bad one is then as likely a
    /// changed one, and fails as a wrong MAC does.
    pub(crate) fn encrypts_length(&self) -> bool {
        match &self.0 {
            Suite::None | Suite::Gcm(_) => false,
            Suite::CtrMac(keys) => !keys.encrypts_first(),
            Suite::ChaChaPoly(_) => true,
        }
    }

    /// `packet_length` of the packet that begins with `start`, which is left as it came; `None`
    /// while `start` is too short.
    pub(crate) fn length(&self, stamp: Stamp, start: &[u8]) -> Option<u32> {
        let field = *start.first_chunk::<LENGTH_BYTES>()?;
        match &self.0 {
            Suite::CtrMac(keys) if !keys.encrypts_first() => {
                let mut block = *start.first_chunk::<AES_BLOCK_BYTES>()?;
                keys.apply_to_start(stamp, &mut block);
                let [a, b, c, d, ..] = block;
                Some(u32::from_be_bytes([a, b, c, d]))
            }
            Suite::ChaChaPoly(cipher) => Some(cipher.length(stamp.sequence, field)),
            Suite::None | Suite::CtrMac(_) | Suite::Gcm(_) => Some(u32::from_be_bytes(field)),
        }
    }

    /// Verifies and decrypts a packet in place. On failure its content is meaningless and must
    /// be dropped. On success the length field may still be encrypted.
    pub(crate) fn open(&self, piece: &mut Piece<'_>) -> Result<(), IntegrityFailed> {
        match &self.0 {
            Suite::None => Ok(()),
            Suite::CtrMac(keys) => keys.open(piece),
            Suite::Gcm(cipher) => {
                let tag = (&*piece.tag).try_into().map_err(|_| IntegrityFailed)?;
                let (length, body) = piece
                    .packet
                    .split_first_chunk_mut::<LENGTH_BYTES>()
                    .ok_or(IntegrityFailed)?;
                cipher.open(piece.stamp.invocation, *length, body, tag)
            }
            Suite::ChaChaPoly(cipher) => {
                let tag = (&*piece.tag).try_into().map_err(|_| IntegrityFailed)?;
                cipher.open(piece.stamp.sequence, piece.packet, tag)
            }
        }
    }

    /// As [`Self::open`] for at most [`MAX_TOGETHER`](crate::ctr_mac::MAX_TOGETHER) packets, up
    /// to the first that fails; returns how many that is. What follows must be dropped too.
    pub(crate) fn open_many(&self, pieces: &mut [Piece<'_>]) -> usize {
        match &self.0 {
            Suite::CtrMac(keys) => keys.open_many(pieces),
            _ => {
                let wrong = pieces
                    .iter_mut()
                    .position(|piece| self.open(piece).is_err());
                wrong.unwrap_or(pieces.len())
            }
        }
    }
}

/// A cipher, with its MAC where it needs one, as they work on a packet.
enum Suite {
    None,
    CtrMac(Box<CtrMac>),
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
                let mac = MacKey::new(mac.ok_or(KeyLengthError)?, mac_key)?;
                let cipher = CtrKey::new(cipher, key, iv)?;
                Ok(Self::CtrMac(Box::new(CtrMac::new(cipher, mac))))
            }
        }
    }

    fn framing(&self) -> Framing {
        let (block_bytes, length_in_blocks, tag_bytes, counts_blocks) = match self {
            Self::None => (MIN_BLOCK_BYTES, true, 0, false),
            Self::CtrMac(keys) => (
                AES_BLOCK_BYTES,
                !keys.encrypts_first(),
                keys.tag_bytes(),
                true,
            ),
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
            Self::CtrMac(_) | Self::Gcm(_) => AES_REKEY_BYTES,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::CtrMac(keys) if keys.encrypts_first() => "ctr, encrypt-then-MAC",
            Self::CtrMac(_) => "ctr, encrypt-and-MAC",
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
