//! Notices of the driver that concern forwarded connections.

use std::io;
use std::os::fd::AsFd;

use bytes::Bytes;
use proto::channel::Request;
use proto::{ChannelId, Connection, Event, Stream};

use super::{
    ForwardReport, ForwardStage, ForwardToken, Forwarded, Forwards, OpeningSocket, SocksOutcome,
    SocksStep,
};
use crate::{Driver, Notice};

/// Bytes that are read and dropped at a time.
const DISCARD_BYTES: usize = 16 << 10;

impl Forwards {
    /// Handles a notice of a forwarded connection or listener; returns any other one.
    pub fn handle(&mut self, notice: Notice, driver: &mut Driver) -> Option<Notice> {
        let notice = self.handle_udp(notice, driver)?;
        match notice {
            Notice::Ready { token, .. } | Notice::Timer { token } => {
                match ForwardToken::of(token) {
                    Some(token) => self.token(token, driver),
                    None => return Some(notice),
                }
            }
            Notice::SourceEnded { channel, .. }
            | Notice::SinkEnded { channel, .. }
            | Notice::EndpointEnded { channel }
                if !self.channels.contains_key(&channel) =>
            {
                return Some(notice);
            }
            Notice::SourceEnded { channel, error, .. } => {
                self.source_ended(channel, error, driver);
            }
            Notice::SinkEnded { channel, error, .. } => {
                self.sink_ended(channel, error.as_ref(), driver);
            }
            Notice::EndpointEnded { channel } => self.port_ended(channel, driver),
            Notice::Event(event) => return self.event(event, driver).map(Notice::Event),
            other => return Some(other),
        }
        None
    }

    fn token(&mut self, token: ForwardToken, driver: &mut Driver) {
        match token {
            ForwardToken::Connect(serial) => self.dial_event(serial, true, driver),
            ForwardToken::NextAttempt(serial) => self.dial_event(serial, false, driver),
            ForwardToken::GiveUp(serial) => self.gave_up(serial, driver),
            ForwardToken::Resolver => {
                while let Some((serial, found)) = self.resolver.next_answer(driver.now()) {
                    match self.owns_flow(serial) {
                        true => self.udp_looked_up(serial, found, driver),
                        false => self.looked_up(serial, found, driver),
                    }
                }
            }
            ForwardToken::Accept(serial) => self.accept(serial, driver),
            ForwardToken::Resume => {
                self.is_waiting = false;
                self.watch_listeners(true, driver);
            }
            ForwardToken::Socks(serial) => self.read_socks(serial, driver),
            ForwardToken::Discard(serial) => self.discard(serial, driver),
            ForwardToken::Bind(serial) => self.read_bind_answer(serial, driver),
            ForwardToken::UdpReady(serial) => self.udp_ready(serial, driver),
            ForwardToken::UdpControl(serial) => self.control_ready(serial, driver),
        }
    }

    fn serial(&self, channel: ChannelId) -> Option<u64> {
        self.channels.get(&channel).copied()
    }

    fn event(&mut self, event: Event, driver: &mut Driver) -> Option<Event> {
        let Some(channel) = event.channel() else {
            return Some(event);
        };
        let Some(serial) = self.serial(channel) else {
            return Some(event);
        };
        match event {
            Event::ChannelOpened(_) => self.opened(serial, driver),
            Event::ChannelRefused {
                reason,
                description,
                ..
            } => self.refused(serial, reason, description, driver),
            // Forwarded connections have no standard error.
            Event::ChannelData { stream, data, .. } if stream != Stream::Data => {
                let _ = driver.connection().channel_consumed(channel, data.len());
            }
            Event::ChannelData { data, .. } => self.data(serial, channel, data, driver),
            Event::ChannelEof(_) => self.peer_sent_eof(serial, driver),
            Event::ChannelPeerClosed(_) => self.peer_closed(serial, channel, driver),
            Event::ChannelIdle { limit_ms, .. } => {
                let report = ForwardReport::Idle(channel, limit_ms);
                self.reports.push_back(report);
                self.end_both(serial, driver);
            }
            Event::ChannelClosed(_) => self.remove(serial, driver),
            Event::ChannelRequest {
                request: Request::Reset,
                want_reply: false,
                ..
            } => self.peer_reset(serial, channel, driver),
            Event::ChannelRequest {
                want_reply: true, ..
            } => {
                let _ = driver.connection().channel_reply(channel, false);
            }
            _ => {}
        }
        None
    }

    /// The peer sends nothing more. A SOCKS request or first packet that is not complete stays so: its
    /// channel ends, as the peer may wait for that.
    fn peer_sent_eof(&mut self, serial: u64, driver: &mut Driver) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        entry.peer_ended = true;
        let awaits_data = entry.first.is_some() || entry.socks.is_some();
        if awaits_data && matches!(entry.stage, ForwardStage::PeerAsks) {
            self.end_both(serial, driver);
        }
    }

    /// Data without a sink: a SOCKS request, what follows it, or bytes for a socket that accepts no
    /// more.
    fn data(&mut self, serial: u64, channel: ChannelId, data: Bytes, driver: &mut Driver) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        let mut rest = data;
        if entry.first.is_some() && matches!(entry.stage, ForwardStage::PeerAsks) {
            entry.held.extend_from_slice(&rest);
            return self.check_first(serial, driver);
        }
        if let (ForwardStage::PeerAsks, Some(socks)) = (&entry.stage, &mut entry.socks) {
            while !rest.is_empty() {
                let (taken, step) = socks.take(&rest);
                let connection = driver.connection();
                let _ = connection.channel_consumed(channel, taken);
                let _ = rest.split_to(taken.min(rest.len()));
                match step {
                    SocksStep::More(answer) => {
                        let _ = connection.channel_send_slice(channel, Stream::Data, &answer);
                    }
                    SocksStep::Refuse(reply) => {
                        let _ = connection.channel_send_slice(channel, Stream::Data, &reply);
                        let _ = connection.channel_consumed(channel, rest.len());
                        return self.end_both(serial, driver);
                    }
                    SocksStep::Associate(_) => {
                        // The listener is the server's, and so the socket would have to be.
                        let reply = socks.reply(SocksOutcome::Unsupported);
                        let _ = connection.channel_send_slice(channel, Stream::Data, &reply);
                        let _ = connection.channel_consumed(channel, rest.len());
                        return self.end_both(serial, driver);
                    }
                    SocksStep::Connect(target) if (self.settings.permits)(&target) => {
                        entry.label = format!("remote dynamic to {target}");
                        entry.held.extend_from_slice(&rest);
                        return self.dial(serial, target, driver);
                    }
                    SocksStep::Connect(target) => {
                        let reply = socks.reply(SocksOutcome::Forbidden);
                        let _ = connection.channel_send_slice(channel, Stream::Data, &reply);
                        let _ = connection.channel_consumed(channel, rest.len());
                        self.reports
                            .push_back(ForwardReport::TargetForbidden(target));
                        return self.end_both(serial, driver);
                    }
                }
            }
        } else if matches!(
            entry.stage,
            ForwardStage::Lookup(_) | ForwardStage::Dialing(..)
        ) {
            // Its part of the window opens again when the socket has accepted it.
            entry.held.extend_from_slice(&rest);
        } else {
            let _ = driver.connection().channel_consumed(channel, rest.len());
        }
    }

    fn source_ended(&mut self, channel: ChannelId, error: Option<io::Error>, driver: &mut Driver) {
        let Some(serial) = self.serial(channel) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        entry.is_reset |= error.is_some();
        if entry.is_reset {
            // A reset connection accepts nothing more either.
            return self.end_both(serial, driver);
        }
        match &mut entry.stage {
            ForwardStage::Joined { source_ended, .. }
            | ForwardStage::Opening(OpeningSocket { source_ended, .. }) => {
                *source_ended = true;
                let _ = driver.connection().channel_eof(channel);
            }
            _ => {}
        }
        self.close_if_done(serial, driver);
    }

    /// All data is written, or the socket accepts no more; what it sends is still read.
    fn sink_ended(&mut self, channel: ChannelId, error: Option<&io::Error>, driver: &mut Driver) {
        let Some(serial) = self.serial(channel) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        // The kernel reports a reset once, to a write or to a read. What the socket has received
        // before can still be read.
        entry.is_reset |= error.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionReset);
        if let ForwardStage::Joined {
            sink_ended,
            source_ended,
        } = &mut entry.stage
        {
            *sink_ended = true;
            if *source_ended && entry.is_reset {
                return self.end_both(serial, driver);
            }
        }
        self.close_if_done(serial, driver);
    }

    /// The connection of the peer was reset, and ours is reset as well.
    fn peer_reset(&mut self, serial: u64, channel: ChannelId, driver: &mut Driver) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        if let ForwardStage::Joined { .. } = entry.stage {
            driver.reset_socket(channel);
            if let Some(socket) = entry.discarded.take() {
                driver.unwatch(socket.as_fd());
            }
            self.end_both(serial, driver);
        }
    }

    /// The peer takes nothing more. What it sent is still written.
    fn peer_closed(&mut self, serial: u64, channel: ChannelId, driver: &mut Driver) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        match &mut entry.stage {
            ForwardStage::Joined {
                source_ended,
                sink_ended,
            } => {
                *source_ended = true;
                *sink_ended |= !driver.has_sink(channel, Stream::Data);
                let socket = driver.detach_source(channel, Stream::Data);
                if let Some(socket) = socket.filter(|_| !*sink_ended) {
                    let token = ForwardToken::Discard(serial).number();
                    // Without it the connection may last longer, but it ends.
                    let _ = driver.watch(socket.as_fd(), token, true, false);
                    entry.discarded = Some(socket);
                }
                self.close_if_done(serial, driver);
            }
            _ => {
                let _ = driver.connection().channel_close(channel);
                self.remove(serial, driver);
            }
        }
    }

    /// Reads and drops what a socket sends after the peer has closed the channel.
    fn discard(&mut self, serial: u64, driver: &mut Driver) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        let Some(socket) = &entry.discarded else {
            return;
        };
        let mut bytes = [0; DISCARD_BYTES];
        match sys::io::read(socket, &mut bytes) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => {
                driver.unwatch(socket.as_fd());
                entry.discarded = None;
            }
        }
    }

    pub(super) fn close_if_done(&self, serial: u64, driver: &mut Driver) {
        if let Some(entry) = self.entries.get(&serial)
            && let Some(channel) = entry.channel
            && let ForwardStage::Joined {
                source_ended: true,
                sink_ended: true,
            } = entry.stage
        {
            let connection = driver.connection();
            if entry.tells_reset(connection) {
                let _ = connection.channel_request(channel, &Request::Reset, false);
            }
            let _ = connection.channel_close(channel);
        }
    }

    /// Ends both directions at once.
    pub(super) fn end_both(&mut self, serial: u64, driver: &mut Driver) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        let ended = ForwardStage::Joined {
            source_ended: true,
            sink_ended: true,
        };
        let stage = std::mem::replace(&mut entry.stage, ended);
        let (channel, is_reset) = (entry.channel, entry.is_reset);
        self.release(serial, stage, driver);
        if let Some(channel) = channel {
            drop(driver.detach_source(channel, Stream::Data));
            drop(driver.detach_sink(channel, Stream::Data));
            let connection = driver.connection();
            // EOF would end the peer's connection in order.
            if !(is_reset && connection.reset_supported()) {
                let _ = connection.channel_eof(channel);
            }
        }
        self.close_if_done(serial, driver);
    }
}

impl Forwarded {
    /// Returns true if the peer must hear that the socket was reset.
    fn tells_reset(&self, connection: &Connection) -> bool {
        let is_open = |channel| connection.channel_is_open(channel);
        self.is_reset && self.channel.is_some_and(is_open) && connection.reset_supported()
    }
}
