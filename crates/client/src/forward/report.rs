//! Messages about forwarded connections, in OpenSSH's words.

use driver::forward::{ForwardReport, ForwardTarget};
use proto::ChannelId;
use wire::message::open_failure;

use super::SessionForwards;
use super::remote::shown;
use super::tunnel::SessionTunnel;
use super::udp::UNSUPPORTED;
use crate::connect::plain_reason;
use crate::error::ClientError;
use crate::log::{debug1, error, info, verbose};
use crate::text::one_line;

impl SessionForwards {
    /// Writes what has happened since the last call.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the tunnel failed and `ExitOnForwardFailure` is set.
    pub(super) fn report(&mut self) -> Result<(), ClientError> {
        while let Some(report) = self.forwards.next_report() {
            match report {
                ForwardReport::OpenRefused {
                    channel,
                    reason,
                    description,
                    label,
                    origin,
                } => {
                    // The target of a dynamic forwarding is the connection's.
                    let target = label.strip_prefix("dynamic").unwrap_or_default();
                    let which = origin.and_then(|origin| self.name(origin));
                    let which = which.map(|name| format!(" ({name}{})", one_line(target)));
                    info!(
                        "channel {}: open failed: {}: {}{}",
                        channel.0,
                        open_reason(reason),
                        one_line(&description),
                        which.unwrap_or_default()
                    );
                    self.tunnel_refused(channel)?;
                }
                ForwardReport::TunnelOpened(channel) => {
                    if let Some(tunnel) = &mut self.tunnel {
                        tunnel.confirmed(channel);
                    }
                }
                ForwardReport::ConnectFailed {
                    target,
                    why,
                    origin,
                } => {
                    let place = match &target {
                        ForwardTarget::Tcp { host, port } => {
                            format!("{} port {port}", one_line(host))
                        }
                        ForwardTarget::Unix(_) | ForwardTarget::Udp { .. } => shown(&target),
                    };
                    let which = origin.and_then(|origin| self.name(origin));
                    let which = which.map(|name| format!(" ({name})")).unwrap_or_default();
                    error!("connect_to {place}: failed: {}{which}", one_line(&why));
                }
                ForwardReport::AgentFailed { why } => {
                    debug1!("connecting to the agent: {}", one_line(&why));
                }
                ForwardReport::FirstPacketRefused(reason) => {
                    debug1!("{reason}");
                    info!("X11 connection rejected because of wrong authentication.");
                }
                ForwardReport::TargetForbidden(target) => {
                    error!(
                        "PermitRemoteOpen forbids a connection to {}",
                        shown(&target)
                    );
                }
                ForwardReport::AcceptFailed(reason) => {
                    error!("accept: {}; trying again", plain_reason(&reason));
                }
                ForwardReport::Idle(channel, limit_ms) => {
                    verbose!("{}", proto::channel::idle_text(channel, limit_ms));
                }
                ForwardReport::UdpUnsupported => {
                    error!("SOCKS: cannot forward datagrams: {UNSUPPORTED}.");
                }
                ForwardReport::NoChannel(reason) => {
                    error!("a connection could not be forwarded: {reason}");
                }
            }
        }
        Ok(())
    }

    fn tunnel_refused(&mut self, channel: ChannelId) -> Result<(), ClientError> {
        let is_tunnel = |tunnel: &mut SessionTunnel| tunnel.is_on(channel);
        if self.tunnel.take_if(is_tunnel).is_some() {
            let text = "Tunnel forwarding failed";
            if self.remotes.must_succeed() {
                return Err(ClientError::Refused(text.to_owned()));
            }
            error!("{text}");
        }
        Ok(())
    }
}

/// The name of a reason in CHANNEL_OPEN_FAILURE.
pub(crate) fn open_reason(reason: u32) -> String {
    match reason {
        open_failure::ADMINISTRATIVELY_PROHIBITED => "administratively prohibited".into(),
        open_failure::CONNECT_FAILED => "connect failed".into(),
        open_failure::UNKNOWN_CHANNEL_TYPE => "unknown channel type".into(),
        open_failure::RESOURCE_SHORTAGE => "resource shortage".into(),
        other => format!("reason {other}"),
    }
}
