//! [`SealJob`]: a stamped packet that waits for encryption and MAC. [`SealedPacket`]: its bytes on
//! the wire.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crypto::cipher::ChainBlock;

use crate::buf::PacketBuf;
use crate::ctr_mac::{MAX_TOGETHER, RawPacket};
use crate::keys::SealKeys;
use crate::position::Stamp;

/// A framed and stamped packet with its epoch's keys. Jobs can run on any thread and in any order.
#[derive(Debug)]
#[must_use = "its sequence number is used up: the connection breaks if the packet is not sent"]
pub struct SealJob {
    buf: PacketBuf,
    keys: Arc<SealKeys>,
    stamp: Stamp,
}

impl SealJob {
    pub(crate) fn new(buf: PacketBuf, keys: Arc<SealKeys>, stamp: Stamp) -> Self {
        Self { buf, keys, stamp }
    }

    /// Seals a packet under keys that chain, which is not left to [`Self::run`]. Returns the block
    /// that the next packet is chained to.
    pub(crate) fn seal_chained(&mut self, chain: Option<&ChainBlock>) -> Option<ChainBlock> {
        let (keys, mut raw) = self.parts();
        keys.seal_chained(chain, &mut raw)
    }

    /// The packet's sequence number.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        self.stamp.sequence
    }

    /// Length of the packet without its MAC, in bytes.
    #[must_use]
    pub fn packet_bytes(&self) -> usize {
        if self.keys.chains() {
            self.buf.len() - self.keys.framing().tag_bytes
        } else {
            self.buf.len()
        }
    }

    /// Returns true if [`seal_batch`](crate::seal_batch) is faster than single runs for jobs with
    /// these keys. Batches of 16 packets of equal length are fastest.
    #[must_use]
    pub fn gains_by_many(&self) -> bool {
        self.keys.gains_by_many()
    }

    /// Encrypts in place and appends the MAC or tag.
    pub fn run(mut self) -> SealedPacket {
        if !self.keys.chains() {
            let (keys, mut raw) = self.parts();
            keys.seal(&mut raw);
        }
        SealedPacket { buf: self.buf }
    }

    /// Runs all of `jobs` in groups with the same keys; see [`seal_batch`](crate::seal_batch).
    pub(crate) fn run_all(jobs: &mut Vec<Self>, sealed: &mut Vec<SealedPacket>) {
        let epochs = jobs
            .chunk_by_mut(|a, b| Arc::ptr_eq(&a.keys, &b.keys))
            .filter(|epoch| epoch.first().is_some_and(|job| !job.keys.chains()));
        for group in epochs.flat_map(|epoch| epoch.chunks_mut(MAX_TOGETHER)) {
            let mut raws = core::array::from_fn::<_, MAX_TOGETHER, _>(|_| RawPacket::empty());
            let mut keys_of_all = None;
            let count = group.len();
            for (place, job) in raws.iter_mut().zip(group) {
                let (keys, raw) = job.parts();
                *place = raw;
                keys_of_all = Some(keys);
            }
            if let (Some(keys), Some(raws)) = (keys_of_all, raws.get_mut(..count)) {
                keys.seal_many(raws);
            }
        }
        sealed.extend(jobs.drain(..).map(|job| SealedPacket { buf: job.buf }));
    }

    /// Returns the keys and the packet, to which space for the MAC has been appended.
    fn parts(&mut self) -> (&SealKeys, RawPacket<'_>) {
        let packet_bytes = self.buf.len();
        self.buf.append_stale(self.keys.framing().tag_bytes);
        let (packet, tag) = self.buf.payload_mut().split_at_mut(packet_bytes);
        let raw = RawPacket {
            stamp: self.stamp,
            packet,
            tag,
        };
        (&self.keys, raw)
    }
}

/// An encrypted and authenticated packet.
pub struct SealedPacket {
    buf: PacketBuf,
}

impl SealedPacket {
    /// The complete packet, to be written to the socket.
    #[must_use]
    pub fn wire(&self) -> &[u8] {
        self.buf.payload()
    }

    /// Returns the buffer, so that [`BufPool::give`](crate::BufPool::give) can recycle it once the
    /// packet is written.
    #[must_use]
    pub fn into_buf(self) -> PacketBuf {
        self.buf
    }
}

impl fmt::Debug for SealedPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SealedPacket({} bytes)", self.buf.len())
    }
}
