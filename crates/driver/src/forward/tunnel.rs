//! Tunnels: channels that carry the packets of a device (OpenSSH's PROTOCOL §2.3).
//!
//! The owner opens the device and decides who may have one.

use std::os::fd::OwnedFd;

use proto::{ChannelId, Error};
use sys::tun::TunKind;
use wire::{DecodeError, Put, Reader, names};

use super::{ForwardReport, ForwardStage, Forwards};
use crate::Driver;
use crate::packets::{PacketForm, PacketPort};

/// The number that asks for any free device.
const ANY_UNIT: u32 = 0x7fff_ffff;
const MODE_POINT_TO_POINT: u32 = 1;
const MODE_ETHERNET: u32 = 2;
/// Bytes of a string's length, which OpenSSH counts in its window for each packet.
const OPENSSH_OVERHEAD: usize = 4;

/// A tunnel as CHANNEL_OPEN requests it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelRequest {
    /// The kind of both devices.
    pub kind: TunKind,
    /// Number of the server's device; `None` for any.
    pub unit: Option<u32>,
    /// The channel carries large segments: both devices have virtio's header.
    pub with_segments: bool,
}

impl TunnelRequest {
    /// Type and fields of the CHANNEL_OPEN.
    #[must_use]
    pub fn open_request(&self) -> (&'static str, Vec<u8>) {
        let mut out = Vec::new();
        out.put_u32(match self.kind {
            TunKind::PointToPoint => MODE_POINT_TO_POINT,
            TunKind::Ethernet => MODE_ETHERNET,
        });
        out.put_u32(self.unit.unwrap_or(ANY_UNIT));
        let name = match self.with_segments {
            true => names::CHANNEL_TUN_SEGMENTS,
            false => names::CHANNEL_TUN,
        };
        (name, out)
    }

    /// Reads the fields of a CHANNEL_OPEN of `kind`, one of the types of tunnels.
    ///
    /// # Errors
    /// [`DecodeError`] for another type, unknown modes, and large segments of Ethernet.
    pub fn decode(kind: &str, fields: &[u8]) -> Result<Self, DecodeError> {
        let with_segments = match kind {
            names::CHANNEL_TUN => false,
            names::CHANNEL_TUN_SEGMENTS => true,
            _ => return Err(DecodeError::Malformed("no tunnel")),
        };
        let mut reader = Reader::new(fields);
        let kind = match reader.u32()? {
            MODE_POINT_TO_POINT => TunKind::PointToPoint,
            MODE_ETHERNET if !with_segments => TunKind::Ethernet,
            _ => return Err(DecodeError::Malformed("unsupported tunnel device mode")),
        };
        let unit = Some(reader.u32()?).filter(|unit| *unit != ANY_UNIT);
        reader.finish()?;
        Ok(Self {
            kind,
            unit,
            with_segments,
        })
    }

    fn port(&self, device: OwnedFd, driver: &mut Driver) -> Box<PacketPort> {
        let form = match (self.kind, self.with_segments) {
            (_, true) => PacketForm::Segments,
            (TunKind::PointToPoint, false) => PacketForm::Layer3,
            (TunKind::Ethernet, false) => PacketForm::Layer2,
        };
        let overhead = match driver.connection().peer_quirks().is_fulmar {
            true => 0,
            false => OPENSSH_OVERHEAD,
        };
        Box::new(PacketPort::new(device, form, overhead))
    }
}

impl Forwards {
    /// Client: requests a tunnel to the server for `device`. [`ForwardReport::TunnelOpened`] or
    /// [`ForwardReport::OpenRefused`] follows with the channel that is returned.
    ///
    /// # Errors
    /// Those of opening a channel.
    pub fn open_tunnel(
        &mut self,
        request: &TunnelRequest,
        device: OwnedFd,
        driver: &mut Driver,
    ) -> Result<ChannelId, Error> {
        let (kind, fields) = request.open_request();
        let channel = driver.connection().open_channel(kind, &fields)?;
        driver.connection().channel_hold_close(channel)?;
        let port = request.port(device, driver);
        self.insert(
            ForwardStage::OpeningPort(port),
            Some(channel),
            None,
            ("tun".into(), None),
        );
        Ok(channel)
    }

    /// Server: accepts the client's channel for `device`.
    pub fn accept_tunnel(
        &mut self,
        channel: ChannelId,
        request: &TunnelRequest,
        device: OwnedFd,
        driver: &mut Driver,
    ) {
        let Some(serial) = self.admit(channel, ("tun".into(), None), None, driver) else {
            return;
        };
        if driver.connection().accept_channel(channel).is_err() {
            return self.fail(serial, None, driver);
        }
        let port = request.port(device, driver);
        self.attach_port(serial, channel, port, driver);
    }

    /// The server has confirmed a tunnel.
    pub(super) fn tunnel_opened(
        &mut self,
        serial: u64,
        channel: ChannelId,
        port: Box<PacketPort>,
        driver: &mut Driver,
    ) {
        self.attach_port(serial, channel, port, driver);
        self.reports.push_back(ForwardReport::TunnelOpened(channel));
    }

    fn attach_port(
        &mut self,
        serial: u64,
        channel: ChannelId,
        port: Box<PacketPort>,
        driver: &mut Driver,
    ) {
        self.set_stage(serial, ForwardStage::Port);
        driver.attach_endpoint(channel, port);
    }

    /// The device is gone, or the peer sends nothing more: the channel ends.
    pub(super) fn port_ended(&self, channel: ChannelId, driver: &mut Driver) {
        let connection = driver.connection();
        let _ = connection.channel_eof(channel);
        let _ = connection.channel_close(channel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_written() {
        for kind in [TunKind::PointToPoint, TunKind::Ethernet] {
            for unit in [None, Some(0), Some(7)] {
                for with_segments in [false, true] {
                    let request = TunnelRequest {
                        kind,
                        unit,
                        with_segments,
                    };
                    let (name, fields) = request.open_request();
                    let read = TunnelRequest::decode(name, &fields).ok();
                    let is_known = !(with_segments && kind == TunKind::Ethernet);
                    assert_eq!(read, is_known.then_some(request));
                }
            }
        }
    }

    #[test]
    fn other_modes_and_lengths_are_refused() {
        let (name, fields) = TunnelRequest {
            kind: TunKind::PointToPoint,
            unit: None,
            with_segments: false,
        }
        .open_request();
        assert_eq!(fields, [0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff]);
        for mode in [0, 3, 255] {
            let mut fields = fields.clone();
            fields[3] = mode;
            assert!(TunnelRequest::decode(name, &fields).is_err());
        }
        for len in 0..fields.len() {
            assert!(TunnelRequest::decode(name, &fields[..len]).is_err());
        }
        assert!(TunnelRequest::decode(name, &[&fields[..], &[0]].concat()).is_err());
        assert!(TunnelRequest::decode("session", &fields).is_err());
    }
}
