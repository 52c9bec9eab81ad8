//! The forms of a packet: how the device's descriptor passes it, and how a channel carries it.
//!
//! A channel of segments carries TCP segments larger than any packet, which the sender's kernel has
//! not cut yet. Of such a packet only the segment size is sent. The receiver finds everything else
//! that its kernel must know in the packet's own headers, and drops a packet in which it cannot:
//! the peer chooses no field of the kernel's header freely.

use sys::tun::HEADER_LEN;

/// Bytes of virtio's header, which precedes packets of a device for [`PacketForm::Segments`].
pub const DEVICE_HEADER_BYTES: usize = HEADER_LEN;

/// Address families in layer 3 packets, which are OpenBSD's numbers.
const FAMILY_V4: [u8; 4] = 2_u32.to_be_bytes();
const FAMILY_V6: [u8; 4] = 24_u32.to_be_bytes();
/// Smallest segment size that is passed to the kernel, bytes: the least that Linux makes itself
/// (`TCP_MIN_GSO_SIZE`). Smaller ones would make thousands of packets of one.
const MIN_SEGMENT_BYTES: u16 = 8;

/// Fields of `struct virtio_net_hdr`, in the machine's byte order.
const NEEDS_CHECKSUM: u8 = 1;
const SEGMENTS_NONE: u8 = 0;
const SEGMENTS_TCP4: u8 = 1;
const SEGMENTS_TCP6: u8 = 4;

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP_CHECKSUM_OFFSET: usize = 6;
const IP6_HEADER_BYTES: usize = 40;
const TCP_CHECKSUM_OFFSET: u16 = 16;

/// How a channel carries the packets of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketForm {
    /// OpenSSH's layer 3: each message is an address family and an IP packet.
    Layer3,
    /// OpenSSH's layer 2: each message is an Ethernet frame.
    Layer2,
    /// Fulmar's: records of a segment size, 0 for a whole packet, and an IP packet.
    Segments,
}

impl PacketForm {
    /// True if each message of the channel is one packet; false if its data is [`super::Records`].
    #[must_use]
    pub fn is_message(self) -> bool {
        self != Self::Segments
    }

    /// True if the device's packets are preceded by virtio's header.
    #[must_use]
    pub fn has_device_header(self) -> bool {
        self == Self::Segments
    }

    /// The channel's form of what was read from the device: a prefix, and the packet. `None` drops
    /// the packet. A checksum that the kernel has left open is computed in place.
    #[must_use]
    pub fn to_channel(self, read: &mut [u8]) -> Option<(Prefix, &[u8])> {
        match self {
            Self::Layer2 => (!read.is_empty()).then_some((Prefix::NONE, read)),
            Self::Layer3 => {
                let family = match read.first()? >> 4 {
                    6 => FAMILY_V6,
                    _ => FAMILY_V4,
                };
                Some((Prefix::of(family), read))
            }
            Self::Segments => {
                let (header, packet) = read.split_first_chunk_mut::<HEADER_LEN>()?;
                let segment = take_header(*header, packet)?;
                let [high, low] = segment.to_be_bytes();
                let packet: &[u8] = packet;
                (!packet.is_empty()).then_some((Prefix::of([high, low]), packet))
            }
        }
    }

    /// The device's form of what a message or record holds: virtio's header if the device has it,
    /// and the packet. `None` drops the packet.
    #[must_use]
    pub fn to_device(self, received: &[u8]) -> Option<(Option<[u8; HEADER_LEN]>, &[u8])> {
        let (header, packet) = match self {
            Self::Layer2 => (None, received),
            Self::Layer3 => (None, received.split_first_chunk::<4>()?.1),
            Self::Segments => {
                let (segment, packet) = received.split_first_chunk::<2>()?;
                let header = match u16::from_be_bytes(*segment) {
                    0 => [0; HEADER_LEN],
                    segment => make_header(segment, packet)?,
                };
                (Some(header), packet)
            }
        };
        (!packet.is_empty()).then_some((header, packet))
    }
}

/// The bytes before a packet in a message or record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    bytes: [u8; 4],
    len: usize,
}

impl Prefix {
    const NONE: Self = Self {
        bytes: [0; 4],
        len: 0,
    };

    fn of<const LEN: usize>(prefix: [u8; LEN]) -> Self {
        let mut bytes = [0; 4];
        for (to, from) in bytes.iter_mut().zip(prefix) {
            *to = from;
        }
        Self { bytes, len: LEN }
    }

    /// The bytes, at most four.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

fn field(header: &[u8], at: usize) -> Option<u16> {
    let bytes = header.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_ne_bytes(*bytes))
}

/// Evaluates the kernel's header of a packet; returns the segment size.
fn take_header(header: [u8; HEADER_LEN], packet: &mut [u8]) -> Option<u16> {
    let [flags, kind, ..] = header;
    match kind {
        SEGMENTS_TCP4 | SEGMENTS_TCP6 => field(&header, 4).filter(|size| *size > 0),
        SEGMENTS_NONE => {
            if flags & NEEDS_CHECKSUM != 0 {
                let start = usize::from(field(&header, 6)?);
                let offset = usize::from(field(&header, 8)?);
                finish_checksum(packet.get_mut(start..)?, offset)?;
            }
            Some(0)
        }
        _ => None,
    }
}

/// Replaces the sum over the pseudo-header at `offset` by the checksum of `data` (RFC 1071).
fn finish_checksum(data: &mut [u8], offset: usize) -> Option<()> {
    let sum = !sum(data);
    let place = data.get_mut(offset..)?.first_chunk_mut::<2>()?;
    // In UDP, 0 means no checksum (RFC 768).
    *place = match sum {
        0 if offset == PROTOCOL_UDP_CHECKSUM_OFFSET => [0xff, 0xff],
        sum => sum.to_be_bytes(),
    };
    Some(())
}

/// The sum of RFC 1071 in ones' complement.
fn sum(data: &[u8]) -> u16 {
    let (words, rest) = data.as_chunks::<4>();
    let mut sum: u64 = words
        .iter()
        .map(|word| u64::from(u32::from_be_bytes(*word)))
        .sum();
    let mut last = [0; 4];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    sum += u64::from(u32::from_be_bytes(last));
    while sum > u64::from(u16::MAX) {
        sum = (sum >> 16) + (sum & u64::from(u16::MAX));
    }
    u16::try_from(sum).unwrap_or_default()
}

/// The header with which the kernel cuts the TCP segment in `packet`; `None` if it is not a single
/// TCP segment without fragments and, in IPv6, without extension headers.
fn make_header(segment: u16, packet: &[u8]) -> Option<[u8; HEADER_LEN]> {
    let (kind, ip_bytes) = match packet.first()? >> 4 {
        4 => (SEGMENTS_TCP4, ip4_header_bytes(packet)?),
        6 => (SEGMENTS_TCP6, ip6_header_bytes(packet)?),
        _ => return None,
    };
    let tcp = packet.get(ip_bytes..)?;
    let tcp_bytes = usize::from(tcp.get(12)? >> 4) * 4;
    if tcp_bytes < 20 || tcp.len() <= tcp_bytes || segment < MIN_SEGMENT_BYTES {
        return None;
    }
    let start = u16::try_from(ip_bytes).ok()?;
    let headers = u16::try_from(ip_bytes + tcp_bytes).ok()?;
    let mut header = [0; HEADER_LEN];
    let [flags, of_kind, fields @ ..] = &mut header;
    *flags = NEEDS_CHECKSUM;
    *of_kind = kind;
    let values = [headers, segment, start, TCP_CHECKSUM_OFFSET];
    for (place, value) in fields.chunks_exact_mut(2).zip(values) {
        place.copy_from_slice(&value.to_ne_bytes());
    }
    Some(header)
}

fn ip4_header_bytes(packet: &[u8]) -> Option<usize> {
    let header = packet.first_chunk::<20>()?;
    let bytes = usize::from(header[0] & 0xf) * 4;
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // More fragments, or not the first one.
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let fits = bytes >= 20 && total == packet.len();
    (fits && !is_fragment && header[9] == PROTOCOL_TCP).then_some(bytes)
}

fn ip6_header_bytes(packet: &[u8]) -> Option<usize> {
    let header = packet.first_chunk::<IP6_HEADER_BYTES>()?;
    let payload = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let fits = payload + IP6_HEADER_BYTES == packet.len();
    (fits && header[6] == PROTOCOL_TCP).then_some(IP6_HEADER_BYTES)
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
