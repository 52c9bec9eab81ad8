//! Channels that carry packets: tunnels (OpenSSH's PROTOCOL §2.3, and `tun-segments` of
//! docs/PROTOCOL.md).
//!
//! [`form`] translates between a device's packets and those on the channel, [`records`] finds the
//! packets in a channel that carries them as records, and [`port`] moves them. Nothing here decides
//! what is permitted, or opens devices.

mod datagrams;
mod form;
mod port;
mod records;

pub use datagrams::{DatagramEnd, DatagramPort, DatagramTarget};
pub(crate) use datagrams::{MAX_READ_BYTES, MAX_READS};
pub use form::{DEVICE_HEADER_BYTES, PacketForm};
pub use port::PacketPort;
pub use records::Records;
