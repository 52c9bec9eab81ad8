//! What the escapes `~#`, `~I` and `~s` show of the connection.

use proto::channel::ChannelStatus;
use proto::{ChannelId, DirectionAlgorithms};

use super::ClientSession;
use crate::forward::SessionForwards;
use crate::report;
use crate::sharing::master::Master;
use crate::text::one_line;

/// Both directions' value, or the one that they share.
fn both(out: &DirectionAlgorithms, back: &DirectionAlgorithms, of: NameOf) -> String {
    match (of(out), of(back)) {
        (out, back) if out == back => out.to_owned(),
        (out, back) => format!("{back} in, {out} out"),
    }
}

type NameOf = fn(&DirectionAlgorithms) -> &'static str;

impl ClientSession<'_> {
    /// The lines of `~#`: number, name, type, state and bytes of each channel.
    pub(super) fn channel_lines(&mut self) -> Vec<String> {
        let names: Vec<(ChannelId, String)> = self
            .forwards
            .iter()
            .flat_map(SessionForwards::lines)
            .map(|(channel, label)| (channel, label.to_owned()))
            .collect();
        let line = |status: ChannelStatus<'_>| {
            let name = names.iter().find(|(channel, _)| *channel == status.channel);
            let name = match name {
                Some((_, name)) => name.as_str(),
                None if Some(status.channel) == self.channel => "client-session",
                None => "channel",
            };
            format!(
                "#{} {} ({}, {}, {} bytes sent, {} received)",
                status.channel.0,
                one_line(name),
                one_line(status.kind),
                if status.is_open {
                    "open"
                } else {
                    "opening or closing"
                },
                status.traffic.sent,
                status.traffic.received
            )
        };
        let connection = self.driver.connection();
        let own: Vec<String> = connection.channel_statuses().map(line).collect();
        let proxied = self.master.iter().flat_map(Master::proxied_channels);
        let proxied = proxied.map(|(channel, kind, is_open)| {
            let state = if is_open {
                "open"
            } else {
                "opening or closing"
            };
            format!("#{} mux-proxy ({}, {state})", channel.0, one_line(kind))
        });
        own.into_iter().chain(proxied).collect()
    }

    /// The lines of `~I`, in OpenSSH's form.
    pub(super) fn information(&mut self) -> Vec<String> {
        let (received, sent) = self.driver.wire_bytes();
        let seconds = self.driver.now().saturating_sub(self.begun_ms) / 1000;
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        let tcp = tcp_line(self.driver.socket());
        let connection = self.driver.connection();
        let mut lines = vec![format!(
            "versions {} -> {}",
            software(connection.our_version()),
            one_line(software(connection.peer_version().unwrap_or_default()))
        )];
        lines.extend(tcp);
        lines.push(format!(
            "duration {hours:02}:{minutes:02}:{:02}",
            seconds % 60
        ));
        if let Some(negotiated) = connection.negotiated() {
            let (out, back) = (&negotiated.client_to_server, &negotiated.server_to_client);
            lines.push(format!("kexalgorithm {}", negotiated.kex));
            lines.push(format!("hostkeyalgorithm {}", negotiated.host_key));
            lines.push(format!("cipher {}", both(out, back, |names| names.cipher)));
            lines.push(format!("mac {}", both(out, back, |names| names.mac)));
            let compression = both(out, back, |names| names.compression);
            lines.push(format!("compression {compression}"));
        }
        lines.push(format!("traffic {received} bytes in, {sent} bytes out"));
        lines.extend(report::compression_lines(connection));
        lines
    }

    /// The lines of `~s`: peer, algorithms, byte counts and compression.
    pub(super) fn status(&mut self) -> Vec<String> {
        let (received, sent) = self.driver.wire_bytes();
        let host = one_line(&self.peer.host);
        let mut lines = vec![format!("connected to {host} ({})", self.peer)];
        let connection = self.driver.connection();
        if let Some(negotiated) = connection.negotiated() {
            let (kex, host_key) = (negotiated.kex, negotiated.host_key);
            lines.push(format!("key exchange {kex}, host key {host_key}"));
            for (name, direction) in [
                ("outgoing", &negotiated.client_to_server),
                ("incoming", &negotiated.server_to_client),
            ] {
                lines.push(format!(
                    "{name}: cipher {}, MAC {}, compression {}",
                    direction.cipher, direction.mac, direction.compression
                ));
            }
        }
        lines.push(format!("{received} bytes received, {sent} sent"));
        lines.extend(report::compression_lines(connection));
        lines
    }
}

/// An identification line without the protocol's version.
fn software(version: &str) -> &str {
    version.strip_prefix("SSH-2.0-").unwrap_or(version)
}

/// Both addresses of a TCP connection.
fn tcp_line(socket: impl std::os::fd::AsFd) -> Option<String> {
    let peer = sys::socket::peer_address(&socket).ok()?;
    let own = sys::socket::local_address(&socket).ok()?;
    Some(format!("tcp {own} -> {peer}"))
}
