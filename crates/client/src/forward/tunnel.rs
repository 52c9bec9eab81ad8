//! The tunnel of a session: `Tunnel` and `TunnelDevice`, with the flag `-w`. The user opens the
//! device of this machine himself: as root, or one that the administrator has made for him.

use std::os::fd::OwnedFd;

use config::client::{ClientOptions, Tunnel};
use driver::Driver;
use driver::forward::{Forwards, TunnelRequest};
use proto::{ChannelId, Connection};
use sys::tun::TunKind;

use crate::connect::plain_reason;
use crate::error::ClientError;
use crate::log::{debug1, error};
use crate::text::one_line;

/// The number by which OpenSSH's messages show any device.
const SHOWN_ANY: u32 = 0x7fff_ffff;
/// The text of a tunnel that this machine cannot open.
const NOT_REQUESTED: &str = "Could not request tunnel forwarding.";

/// A tunnel whose device is open.
pub(super) struct SessionTunnel {
    request: TunnelRequest,
    /// Until the channel is requested.
    device: Option<OwnedFd>,
    interface: String,
    channel: Option<ChannelId>,
    is_confirmed: bool,
}

impl SessionTunnel {
    /// Opens the device if the options ask for one.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if it cannot be opened and `ExitOnForwardFailure` is set.
    pub(super) fn prepare(
        options: &ClientOptions,
        connection: &Connection,
    ) -> Result<Option<Self>, ClientError> {
        let forwarding = &options.forwarding;
        let (kind, mode) = match forwarding.tunnel {
            Tunnel::No => return Ok(None),
            Tunnel::PointToPoint => (TunKind::PointToPoint, 1),
            Tunnel::Ethernet => (TunKind::Ethernet, 2),
        };
        let unit = forwarding.tunnel_device.local.map(u32::from);
        debug1!(
            "Requesting tun unit {} in mode {mode}",
            unit.unwrap_or(SHOWN_ANY)
        );
        let request = TunnelRequest {
            kind,
            unit: forwarding.tunnel_device.remote.map(u32::from),
            with_segments: kind == TunKind::PointToPoint && connection.tun_segments_supported(),
        };
        match sys::tun::open_unit(kind, unit, request.with_segments) {
            Ok((device, interface)) => {
                debug1!("Tunnel forwarding using interface {}", one_line(&interface));
                Ok(Some(Self {
                    request,
                    device: Some(device),
                    interface,
                    channel: None,
                    is_confirmed: false,
                }))
            }
            Err(reason) => {
                debug1!("/dev/net/tun: {}", plain_reason(&reason));
                error!("Tunnel device open failed.");
                if forwarding.exit_on_forward_failure {
                    return Err(ClientError::Refused(NOT_REQUESTED.to_owned()));
                }
                error!("{NOT_REQUESTED}");
                Ok(None)
            }
        }
    }

    /// Name of this machine's interface.
    pub(super) fn interface(&self) -> &str {
        &self.interface
    }

    /// True until the server has answered.
    pub(super) fn awaits_answer(&self) -> bool {
        !self.is_confirmed
    }

    pub(super) fn is_on(&self, channel: ChannelId) -> bool {
        self.channel == Some(channel)
    }

    /// Requests the channel.
    pub(super) fn request(
        &mut self,
        forwards: &mut Forwards,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        if let Some(device) = self.device.take() {
            let opened = forwards.open_tunnel(&self.request, device, driver);
            let failed = |error| ClientError::Refused(format!("{NOT_REQUESTED} {error}"));
            self.channel = Some(opened.map_err(failed)?);
        }
        Ok(())
    }

    /// The server has confirmed the channel.
    pub(super) fn confirmed(&mut self, channel: ChannelId) {
        debug1!("tunnel forward established, id={}", channel.0);
        self.is_confirmed = true;
    }
}
