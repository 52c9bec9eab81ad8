//! [`SealJob`]: a stamped packet that waits for encryption and MAC, and [`SealedPacket`], what
//! goes to the socket.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::buf::PacketBuf;
use crate::ctr_mac::{MAX_TOGETHER, Piece};
use crate::keys::SealKeys;
use crate::position::Stamp;

/// A framed and stamped packet with its epoch's keys. Runs anywhere, in any order, once.
#[derive(Debug)]
#[must_use = "its sequence number is taken: a packet that is not sent breaks the connection"]
pub struct SealJob {
    buf: PacketBuf,
    keys: Arc<SealKeys>,
    stamp: Stamp,
}

impl SealJob {
    pub(crate) fn new(buf: PacketBuf, keys: Arc<SealKeys>, stamp: Stamp) -> Self {
        Self { buf, keys, stamp }
    }

    /// The packet's sequence number.
    #[must_use]
    pub fn sequence(&self) -> u32 {
        self.stamp.sequence
    }

    /// Length of the packet without its MAC, in bytes: what a batch is measured by.
    #[must_use]
    pub fn packet_bytes(&self) -> usize {
        self.buf.len()
    }

    /// Whether many jobs like this one are done faster together than one by one; 16 of equal
    /// length are best.
    #[must_use]
    pub fn gains_by_many(&self) -> bool {
        self.keys.gains_by_many()
    }

    /// Encrypts in place and appends the MAC or tag.
    pub fn run(mut self) -> SealedPacket {
        let (keys, mut piece) = self.parts();
        keys.seal(&mut piece);
        SealedPacket { buf: self.buf }
    }

    /// Runs all of `jobs`, those with the same keys together; see
    /// [`seal_batch`](crate::seal_batch).
    pub(crate) fn run_all(jobs: &mut Vec<Self>, sealed: &mut Vec<SealedPacket>) {
        let epochs = jobs.chunk_by_mut(|a, b| Arc::ptr_eq(&a.keys, &b.keys));
        for group in epochs.flat_map(|epoch| epoch.chunks_mut(MAX_TOGETHER)) {
            let mut pieces = core::array::from_fn::<_, MAX_TOGETHER, _>(|_| Piece::none());
            let mut keys_of_all = None;
            let count = group.len();
            for (place, job) in pieces.iter_mut().zip(group) {
                let (keys, piece) = job.parts();
                *place = piece;
                keys_of_all = Some(keys);
            }
            if let (Some(keys), Some(pieces)) = (keys_of_all, pieces.get_mut(..count)) {
                keys.seal_many(pieces);
            }
        }
        sealed.extend(jobs.drain(..).map(|job| SealedPacket { buf: job.buf }));
    }

    /// The keys, and the packet with room for its MAC.
    fn parts(&mut self) -> (&SealKeys, Piece<'_>) {
        let packet_bytes = self.buf.len();
        self.buf.append_stale(self.keys.framing().tag_bytes);
        let (packet, tag) = self.buf.payload_mut().split_at_mut(packet_bytes);
        let piece = Piece {
            stamp: self.stamp,
            packet,
            tag,
        };
        (&self.keys, piece)
    }
}

/// A packet as it stands on the wire.
pub struct SealedPacket {
    buf: PacketBuf,
}

impl SealedPacket {
    /// The bytes for the socket.
    #[must_use]
    pub fn wire(&self) -> &[u8] {
        self.buf.payload()
    }

    /// The buffer, for [`BufPool::give`](crate::BufPool::give) once it is written.
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
