//! [`SealKeys`] and [`OpenKeys`]: one epoch's cipher and MAC of one direction, and the framing that
//! they require (RFC 4253 §6; OpenSSH's PROTOCOL §1.6 for AES-GCM, §1.7 for encrypt-then-MAC;
//! PROTOCOL.chacha20poly1305).
//!
//! Keys are immutable and `Sync`: a packet's position is in its [`Stamp`], so one `Arc` serves
//! every job of the epoch. Packets under CBC depend on the one before ([`Keys::chains`]); the serial
//! steps, [`Sequencer`](crate::Sequencer) and [`Splitter`](crate::Splitter), seal and open them.

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;

use crypto::cipher::{ChaChaPolyKey, ChainBlock, CipherAlgorithm, CipherKind, CtrKey, GcmKey};
use crypto::mac::{MacAlgorithm, MacKey};
use crypto::{IntegrityFailed, KeyLengthError};

use crate::cbc_mac::CbcMac;
use crate::ctr_mac::{CtrMac, RawPacket};
use crate::position::Stamp;
use crate::{LENGTH_BYTES, MIN_PADDING_BYTES, PADDING_LENGTH_BYTES};

/// Minimum `packet_length` that OpenSSH's `ssh -O proxy` reads (`packet.c`,
/// `ssh_packet_read_poll2_mux`). A shorter packet, as REQUEST_FAILURE, is padded; OpenSSH takes the
/// padding for fields that it does not know.
const MIN_SHARED_PACKET_LENGTH: usize = 5;

/// Minimum alignment of packets in bytes, without a cipher of larger blocks (RFC 4253 §6).
const MIN_BLOCK_BYTES: usize = 8;

/// Size of an AES block in bytes, the unit of CTR positions.
const AES_BLOCK_BYTES: usize = 16;

/// Number of bytes under one AES key after which new keys are due: half of the 2³² blocks of RFC
/// 4344 §3.2.
const AES_REKEY_BYTES: u64 = 1 << 35;

/// Number of bytes under one key of a cipher with blocks of 8 bytes after which new keys are due, as
/// in OpenSSH (`packet.c`): blocks repeat by chance after 32 GiB.
const SMALL_BLOCK_REKEY_BYTES: u64 = 1 << 30;

/// Keys that seal one direction's packets of one epoch.
pub type SealKeys = Keys<Sealing>;

/// Keys that open one direction's packets of one epoch.
pub type OpenKeys = Keys<Opening>;

/// Purpose of [`SealKeys`].
#[derive(Debug)]
pub enum Sealing {}

/// Purpose of [`OpenKeys`].
#[derive(Debug)]
pub enum Opening {}

/// One direction's keys of one epoch. The type parameter prevents opening with sealing keys and the
/// reverse.
pub struct Keys<Purpose> {
    suite: Suite,
    /// What the suite requires, computed once: it is needed several times for each packet.
    framing: Framing,
    purpose: PhantomData<Purpose>,
}

impl<Purpose> Keys<Purpose> {
    /// Sets up `cipher`, and `mac` for a cipher without a tag (`mac` and `mac_key` are ignored for
    /// an AEAD).
    ///
    /// # Errors
    /// If a key or IV has the wrong length for its algorithm, or the cipher needs a MAC and `mac`
    /// is `None`.
    pub fn new(
        cipher: CipherAlgorithm,
        mac: Option<MacAlgorithm>,
        key: &[u8],
        iv: &[u8],
        mac_key: &[u8],
    ) -> Result<Self, KeyLengthError> {
        let suite = match cipher.kind() {
            CipherKind::Gcm => Suite::Gcm(GcmKey::new(cipher, key, iv)?),
            CipherKind::ChaChaPoly => Suite::ChaChaPoly(ChaChaPolyKey::new(key)?),
            CipherKind::Ctr => {
                let mac = MacKey::new(mac.ok_or(KeyLengthError)?, mac_key)?;
                let cipher = CtrKey::new(cipher, key, iv)?;
                Suite::CtrMac(Box::new(CtrMac::new(cipher, mac)))
            }
            CipherKind::Cbc => {
                let mac = MacKey::new(mac.ok_or(KeyLengthError)?, mac_key)?;
                let keys = CbcMac::new(cipher, key, iv, mac)?;
                Suite::CbcMac(Box::new(keys))
            }
        };
        Ok(Self::of(suite))
    }

    /// No cipher and no MAC, as before the first NEWKEYS.
    #[must_use]
    pub fn none() -> Self {
        Self::of(Suite::None)
    }

    /// No cipher and no MAC, and packets without padding: a connection that a master shares in proxy
    /// mode (OpenSSH's PROTOCOL.mux §9).
    #[must_use]
    pub fn shared() -> Self {
        Self::of(Suite::Shared)
    }

    fn of(suite: Suite) -> Self {
        Self {
            framing: suite.framing(),
            suite,
            purpose: PhantomData,
        }
    }

    pub(crate) fn framing(&self) -> Framing {
        self.framing
    }

    pub(crate) fn rekey_bytes(&self) -> u64 {
        self.suite.rekey_bytes()
    }

    /// Returns true if packets have to be sealed and opened in order: by the serial steps, not by jobs.
    pub(crate) fn chains(&self) -> bool {
        matches!(&self.suite, Suite::CbcMac(_))
    }

    pub(crate) fn gains_by_many(&self) -> bool {
        matches!(&self.suite, Suite::CtrMac(keys) if keys.gains_by_many())
    }
}

/// Shows only the kind of the algorithms.
impl<Purpose> fmt::Debug for Keys<Purpose> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.suite.name())
    }
}

impl Keys<Sealing> {
    /// Encrypts a packet in place and writes its MAC or tag.
    pub(crate) fn seal(&self, raw: &mut RawPacket<'_>) {
        match &self.suite {
            Suite::None | Suite::Shared => {}
            Suite::CtrMac(keys) => keys.seal(raw),
            Suite::CbcMac(keys) => keys.seal(None, raw),
            Suite::Gcm(cipher) => {
                let RawPacket { stamp, packet, tag } = raw;
                if let Some((length, body)) = packet.split_first_chunk_mut::<LENGTH_BYTES>() {
                    tag.copy_from_slice(&cipher.seal(stamp.invocation, *length, body));
                }
            }
            Suite::ChaChaPoly(cipher) => {
                let tag = cipher.seal(raw.stamp.sequence, raw.packet);
                raw.tag.copy_from_slice(&tag);
            }
        }
    }

    /// Like [`Self::seal`], for a packet that is chained to `chain` ([`CbcMac`]). Returns the block that the next
    /// one is chained to; does nothing and returns `None` for ciphers without chaining.
    pub(crate) fn seal_chained(
        &self,
        chain: Option<&ChainBlock>,
        raw: &mut RawPacket<'_>,
    ) -> Option<ChainBlock> {
        let Suite::CbcMac(keys) = &self.suite else {
            return None;
        };
        keys.seal(chain, raw);
        Some(keys.last_block(raw.packet))
    }

    /// Like [`Self::seal`], for at most [`MAX_TOGETHER`](crate::ctr_mac::MAX_TOGETHER) packets.
    pub(crate) fn seal_many(&self, raws: &mut [RawPacket<'_>]) {
        match &self.suite {
            Suite::CtrMac(keys) => keys.seal_many(raws),
            _ => raws.iter_mut().for_each(|raw| self.seal(raw)),
        }
    }
}

impl Keys<Opening> {
    /// Returns true if `packet_length` is encrypted. A bad length may then be the result of
    /// tampering, and reports the same error as a wrong MAC.
    pub(crate) fn encrypts_length(&self) -> bool {
        match &self.suite {
            Suite::None | Suite::Shared | Suite::Gcm(_) => false,
            Suite::CtrMac(keys) => !keys.encrypts_first(),
            Suite::CbcMac(keys) => !keys.encrypts_first(),
            Suite::ChaChaPoly(_) => true,
        }
    }

    /// Returns `packet_length` of the packet that begins with `start`, without changing `start`;
    /// `None` if `start` is too short. `chain` is what the packet is chained to ([`CbcMac`]).
    pub(crate) fn length(
        &self,
        stamp: Stamp,
        chain: Option<&ChainBlock>,
        start: &[u8],
    ) -> Option<u32> {
        let field = *start.first_chunk::<LENGTH_BYTES>()?;
        match &self.suite {
            Suite::CtrMac(keys) if !keys.encrypts_first() => {
                let mut block = *start.first_chunk::<AES_BLOCK_BYTES>()?;
                keys.apply_to_start(stamp, &mut block);
                let [a, b, c, d, ..] = block;
                Some(u32::from_be_bytes([a, b, c, d]))
            }
            Suite::CbcMac(keys) if !keys.encrypts_first() => keys.length(chain, start),
            Suite::ChaChaPoly(cipher) => Some(cipher.length(stamp.sequence, field)),
            Suite::None | Suite::Shared | Suite::CtrMac(_) | Suite::CbcMac(_) | Suite::Gcm(_) => {
                Some(u32::from_be_bytes(field))
            }
        }
    }

    /// Verifies and decrypts a packet in place. On failure its content is undefined and must be
    /// dropped. On success the length field may still be encrypted.
    pub(crate) fn open(&self, raw: &mut RawPacket<'_>) -> Result<(), IntegrityFailed> {
        match &self.suite {
            Suite::None | Suite::Shared => Ok(()),
            Suite::CtrMac(keys) => keys.open(raw),
            Suite::CbcMac(keys) => keys.open(None, raw),
            Suite::Gcm(cipher) => {
                let tag = (&*raw.tag).try_into().map_err(|_| IntegrityFailed)?;
                let (length, body) = raw
                    .packet
                    .split_first_chunk_mut::<LENGTH_BYTES>()
                    .ok_or(IntegrityFailed)?;
                cipher.open(raw.stamp.invocation, *length, body, tag)
            }
            Suite::ChaChaPoly(cipher) => {
                let tag = (&*raw.tag).try_into().map_err(|_| IntegrityFailed)?;
                cipher.open(raw.stamp.sequence, raw.packet, tag)
            }
        }
    }

    /// Like [`Self::open`], for a packet that is chained to `chain` ([`CbcMac`]). Returns the block that the next
    /// one is chained to; does nothing and returns `None` for ciphers without chaining.
    pub(crate) fn open_chained(
        &self,
        chain: Option<&ChainBlock>,
        raw: &mut RawPacket<'_>,
    ) -> Result<Option<ChainBlock>, IntegrityFailed> {
        let Suite::CbcMac(keys) = &self.suite else {
            return Ok(None);
        };
        let next = keys.last_block(raw.packet);
        keys.open(chain, raw)?;
        Ok(Some(next))
    }

    /// Like [`Self::open`], for at most [`MAX_TOGETHER`](crate::ctr_mac::MAX_TOGETHER) packets, up
    /// to the first that fails. Returns the number that succeeded; the rest must be dropped.
    pub(crate) fn open_many(&self, raws: &mut [RawPacket<'_>]) -> usize {
        match &self.suite {
            Suite::CtrMac(keys) => keys.open_many(raws),
            _ => {
                let wrong = raws.iter_mut().position(|raw| self.open(raw).is_err());
                wrong.unwrap_or(raws.len())
            }
        }
    }
}

/// A cipher with its MAC, if it needs one.
enum Suite {
    None,
    Shared,
    CtrMac(Box<CtrMac>),
    CbcMac(Box<CbcMac>),
    Gcm(GcmKey),
    ChaChaPoly(ChaChaPolyKey),
}

impl Suite {
    fn framing(&self) -> Framing {
        let (block_bytes, length_in_blocks, tag_bytes, counts_blocks) = match self {
            Self::None => (MIN_BLOCK_BYTES, true, 0, false),
            Self::Shared => (1, true, 0, false),
            Self::CtrMac(keys) => (
                AES_BLOCK_BYTES,
                !keys.encrypts_first(),
                keys.tag_bytes(),
                true,
            ),
            Self::CbcMac(keys) => (
                keys.block_bytes(),
                !keys.encrypts_first(),
                keys.tag_bytes(),
                false,
            ),
            Self::Gcm(_) => (AES_BLOCK_BYTES, false, 16, false),
            Self::ChaChaPoly(_) => (MIN_BLOCK_BYTES, false, 16, false),
        };
        Framing {
            block_bytes,
            length_in_blocks,
            tag_bytes,
            counts_blocks,
            min_padding: match self {
                Self::Shared => 0,
                _ => MIN_PADDING_BYTES,
            },
        }
    }

    fn rekey_bytes(&self) -> u64 {
        match self {
            // ChaCha20 has no birthday bound on blocks; only its packets are counted.
            Self::None | Self::Shared | Self::ChaChaPoly(_) => u64::MAX,
            Self::CbcMac(keys) if keys.block_bytes() < AES_BLOCK_BYTES => SMALL_BLOCK_REKEY_BYTES,
            Self::CtrMac(_) | Self::CbcMac(_) | Self::Gcm(_) => AES_REKEY_BYTES,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Shared => "none, without padding",
            Self::CtrMac(keys) if keys.encrypts_first() => "ctr, encrypt-then-MAC",
            Self::CtrMac(_) => "ctr, encrypt-and-MAC",
            Self::CbcMac(keys) if keys.encrypts_first() => "cbc, encrypt-then-MAC",
            Self::CbcMac(_) => "cbc, encrypt-and-MAC",
            Self::Gcm(_) => "gcm",
            Self::ChaChaPoly(_) => "chacha20-poly1305",
        }
    }
}

/// Alignment and overhead of packets under a set of keys. Lengths are in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Framing {
    /// The packet length is a multiple of this.
    block_bytes: usize,
    /// Whether alignment counts the `packet_length` field; false where the field is not encrypted
    /// with the packet.
    length_in_blocks: bool,
    /// Length of the MAC or tag after the packet.
    pub(crate) tag_bytes: usize,
    /// Whether [`Stamp::block`] has to be counted (CTR).
    counts_blocks: bool,
    /// Minimum padding.
    min_padding: usize,
}

impl Framing {
    /// Number of header bytes before the payload that count for alignment.
    fn aligned_header(self) -> usize {
        PADDING_LENGTH_BYTES
            + if self.length_in_blocks {
                LENGTH_BYTES
            } else {
                0
            }
    }

    /// Returns the padding length: at least 4 bytes (RFC 4253 §6), and as few as alignment to the
    /// block size, or to the larger multiple `conceal`, allows. Without a minimum there is none
    /// beyond what [`MIN_SHARED_PACKET_LENGTH`] asks for.
    pub(crate) fn padding_length(self, payload: usize, conceal: usize) -> u8 {
        if self.min_padding == 0 {
            let missing = MIN_SHARED_PACKET_LENGTH.saturating_sub(PADDING_LENGTH_BYTES + payload);
            return u8::try_from(missing).unwrap_or_default();
        }
        let multiple = if conceal > self.block_bytes {
            conceal.next_multiple_of(self.block_bytes).min(128)
        } else {
            self.block_bytes
        };
        let least = self
            .aligned_header()
            .saturating_add(payload)
            .saturating_add(self.min_padding);
        let missing = (multiple - least % multiple) % multiple;
        // The sum is at most 4 + 127.
        u8::try_from(self.min_padding + missing).unwrap_or(u8::MAX)
    }

    /// Returns `packet_length` for a payload with this padding.
    pub(crate) fn packet_length(self, payload: usize, padding: u8) -> usize {
        payload.saturating_add(PADDING_LENGTH_BYTES + usize::from(padding))
    }

    /// Minimum padding, bytes.
    pub(crate) fn min_padding(self) -> usize {
        self.min_padding
    }

    /// Minimum `packet_length`: padding length, message number, minimum padding.
    pub(crate) fn min_packet_length(self) -> usize {
        PADDING_LENGTH_BYTES + 1 + self.min_padding
    }

    /// Returns true if a received `packet_length` gives whole blocks.
    pub(crate) fn is_aligned(self, packet_length: usize) -> bool {
        let counted = self.aligned_header() - PADDING_LENGTH_BYTES + packet_length;
        counted.is_multiple_of(self.block_bytes)
    }

    /// Number of key-stream blocks that a packet uses.
    pub(crate) fn blocks(self, packet_length: usize) -> u64 {
        if !self.counts_blocks {
            return 0;
        }
        let encrypted = self.aligned_header() - PADDING_LENGTH_BYTES + packet_length;
        (encrypted / AES_BLOCK_BYTES) as u64
    }
}
