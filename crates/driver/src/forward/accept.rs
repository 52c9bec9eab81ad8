//! Listeners: accepting connections, their SOCKS requests, and the channels that they open.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use proto::{ChannelId, Error, Stream};
use wire::message::open_failure;
use wire::names;

use super::{
    ForwardListener, ForwardReport, ForwardStage, ForwardTarget, ForwardToken, Forwarded, Forwards,
    Listening, ListeningSockets, MAX_ACCEPTS, OpeningSocket, Opens, PAUSE_MS, SOCKS_MS,
    SOCKS_PEEK_BYTES, Socks, SocksOutcome, SocksStep,
};
use crate::{Driver, SocketPair};

impl Forwards {
    /// Accepts connections from now on. Returns the number by which [`Forwards::cancel`] knows the
    /// listener.
    ///
    /// # Errors
    /// Those of epoll.
    pub fn listen(
        &mut self,
        sockets: ListeningSockets,
        opens: Opens,
        driver: &mut Driver,
    ) -> io::Result<u64> {
        if let Opens::Direct(ForwardTarget::Udp { .. }) | Opens::Forwarded(Listening::Udp { .. }) =
            &opens
        {
            return self.listen_udp(sockets, opens, driver);
        }
        let serial = self.new_number();
        let token = ForwardToken::Accept(serial).number();
        if let Err(error) = sockets.watch(token, !self.is_waiting, driver) {
            sockets.close(driver);
            return Err(error);
        }
        self.listeners
            .insert(serial, ForwardListener { sockets, opens });
        Ok(serial)
    }

    /// Closes a listener; its connections go on, flows of datagrams end. False if there is none of
    /// this number.
    pub fn cancel(&mut self, serial: u64, driver: &mut Driver) -> bool {
        if self.cancel_udp(serial, driver) {
            return true;
        }
        let listener = self.listeners.remove(&serial);
        let found = listener.is_some();
        if let Some(listener) = listener {
            listener.sockets.close(driver);
        }
        found
    }

    /// Closes all listeners. Unix sockets are removed.
    pub fn cancel_all(&mut self, driver: &mut Driver) {
        for (_, listener) in std::mem::take(&mut self.listeners) {
            listener.sockets.close(driver);
        }
        self.cancel_all_udp(driver);
    }

    /// Accepts what waits, up to a limit for each socket; epoll reports the rest again.
    pub(super) fn accept(&mut self, serial: u64, driver: &mut Driver) {
        let count = match self.listeners.get(&serial) {
            Some(listener) => listener.sockets.sockets.len(),
            None => return,
        };
        for at in 0..count {
            for _ in 0..MAX_ACCEPTS.div_ceil(count) {
                match self.accept_one(serial, at, driver) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // The connection was reset while it waited.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => return self.pause(error, driver),
                }
            }
        }
    }

    /// Accepts a connection of the listener's socket number `at`.
    fn accept_one(&mut self, serial: u64, at: usize, driver: &mut Driver) -> io::Result<()> {
        let listener = self.listeners.get(&serial);
        let Some((listener, socket)) =
            listener.and_then(|listener| Some((listener, listener.sockets.sockets.get(at)?)))
        else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        // Further connections wait in the listener's queue.
        if self.entries.len() >= driver.connection().max_channels() {
            return Err(io::Error::other("too many forwarded connections"));
        }
        // Reserves the connection's second descriptor: without it, the connection must stay in the
        // queue.
        let reserved = sys::io::dup(socket)?;
        let (socket, peer) = sys::socket::accept_stream(socket)?;
        drop(reserved);
        let socket = SocketPair::new(socket)?;
        self.paused = false;
        let opens = listener.opens.clone();
        let is_last = opens
            == Opens::X11 {
                single_connection: true,
            };
        self.accepted((socket, peer), opens, serial, driver);
        if is_last {
            self.cancel(serial, driver);
        }
        Ok(())
    }

    /// Stops to accept for a while, because the process lacks something.
    fn pause(&mut self, error: io::Error, driver: &mut Driver) {
        if !self.paused {
            self.paused = true;
            self.reports.push_back(ForwardReport::AcceptFailed(error));
        }
        self.is_waiting = true;
        self.watch_listeners(false, driver);
        let at = driver.now().saturating_add(PAUSE_MS);
        driver.set_timer(ForwardToken::Resume.number(), Some(at));
    }

    pub(super) fn watch_listeners(&mut self, wanted: bool, driver: &mut Driver) {
        for (serial, listener) in &self.listeners {
            let token = ForwardToken::Accept(*serial).number();
            // Fails only without memory in the kernel; the next pause tries again.
            let _ = listener.sockets.watch(token, wanted, driver);
        }
    }

    fn accepted(
        &mut self,
        (socket, peer): (SocketPair, Option<SocketAddr>),
        opens: Opens,
        listener: u64,
        driver: &mut Driver,
    ) {
        let (kind, fields, label) = match opens {
            Opens::Direct(target) => {
                let (kind, fields) = target.open_request(peer);
                (kind, fields, format!("local to {target}"))
            }
            Opens::Forwarded(listening) => {
                let (kind, fields) = listening.open_request(peer);
                (kind, fields, "remote".to_owned())
            }
            Opens::X11 { .. } => {
                let mut fields = Vec::new();
                super::target::put_originator(&mut fields, peer);
                (names::CHANNEL_X11, fields, "x11".to_owned())
            }
            Opens::Agent { standard } => {
                let kind = match standard {
                    true => names::CHANNEL_AGENT,
                    false => names::CHANNEL_AGENT_OPENSSH,
                };
                (kind, Vec::new(), "agent".to_owned())
            }
            Opens::Socks => {
                let socks = Some(Socks::default());
                let serial = self.next_serial;
                let token = ForwardToken::Socks(serial).number();
                if driver
                    .watch(socket.read.as_fd(), token, true, false)
                    .is_ok()
                {
                    let stage = ForwardStage::Asking(socket, peer);
                    let label = ("dynamic".into(), Some(listener));
                    self.insert(stage, None, socks, label);
                    self.limit(serial, SOCKS_MS, driver);
                }
                return;
            }
        };
        match open(driver, kind, &fields) {
            Ok(channel) => {
                let stage = ForwardStage::Opening(opening(channel, socket, driver));
                self.insert(stage, Some(channel), None, (label, Some(listener)));
            }
            Err(error) => self.reports.push_back(ForwardReport::NoChannel(error)),
        }
    }

    /// Reads the SOCKS request of an accepted connection.
    pub(super) fn read_socks(&mut self, serial: u64, driver: &mut Driver) {
        let mut bytes = [0; SOCKS_PEEK_BYTES];
        loop {
            let Some(entry) = self.entries.get_mut(&serial) else {
                return;
            };
            let (ForwardStage::Asking(socket, _), Some(socks)) = (&entry.stage, &mut entry.socks)
            else {
                return;
            };
            let count = match sys::socket::peek(&socket.read, &mut bytes) {
                Ok(count @ 1..) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => return self.remove(serial, driver),
            };
            let (taken, step) = socks.take(bytes.get(..count).unwrap_or_default());
            // The bytes of the request leave the socket; those of the connection stay in it.
            let _ = sys::io::read(&socket.read, bytes.get_mut(..taken).unwrap_or_default());
            match step {
                SocksStep::More(answer) => {
                    // An empty socket has space for some bytes; a client that has closed is
                    // noticed by the next read.
                    let _ = sys::socket::send_now(&socket.write, &answer);
                }
                SocksStep::Refuse(reply) => {
                    let _ = sys::socket::send_now(&socket.write, &reply);
                    return self.remove(serial, driver);
                }
                SocksStep::Connect(target) => return self.open_asked(serial, target, driver),
                SocksStep::Associate(port) => return self.associate(serial, port, driver),
            }
        }
    }

    /// Opens the channel that a local SOCKS request asks for.
    fn open_asked(&mut self, serial: u64, target: ForwardTarget, driver: &mut Driver) {
        driver.set_timer(ForwardToken::GiveUp(serial).number(), None);
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        let (socket, peer) = match std::mem::replace(&mut entry.stage, ForwardStage::PeerAsks) {
            ForwardStage::Asking(socket, peer) => (socket, peer),
            other => return entry.stage = other,
        };
        driver.unwatch(socket.read.as_fd());
        let (kind, fields) = target.open_request(peer);
        entry.label = format!("dynamic to {target}");
        match open(driver, kind, &fields) {
            Ok(channel) => {
                entry.channel = Some(channel);
                entry.stage = ForwardStage::Opening(opening(channel, socket, driver));
                self.channels.insert(channel, serial);
            }
            Err(error) => {
                if let Some(socks) = &entry.socks {
                    let reply = socks.reply(SocksOutcome::Unreachable);
                    let _ = sys::socket::send_now(&socket.write, &reply);
                }
                self.reports.push_back(ForwardReport::NoChannel(error));
                self.remove(serial, driver);
            }
        }
    }

    /// The peer confirmed a channel of ours.
    pub(super) fn opened(&mut self, serial: u64, driver: &mut Driver) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        match std::mem::replace(&mut entry.stage, ForwardStage::PeerAsks) {
            ForwardStage::Opening(socket) => {
                if let Some(socks) = entry.socks.take() {
                    let reply = socks.reply(SocksOutcome::Connected);
                    let _ = sys::socket::send_now(&socket.write, &reply);
                }
                self.join_accepted(serial, socket, driver);
            }
            ForwardStage::OpeningPort(port) => {
                if let Some(channel) = entry.channel {
                    self.tunnel_opened(serial, channel, port, driver);
                }
            }
            // The connection has ended meanwhile.
            other => {
                entry.stage = other;
                self.close_if_done(serial, driver);
            }
        }
    }

    /// The peer refused a channel of ours; its number is free.
    pub(super) fn refused(
        &mut self,
        serial: u64,
        reason: u32,
        description: String,
        driver: &mut Driver,
    ) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        match (&entry.stage, &entry.socks) {
            (ForwardStage::Opening(socket), Some(socks)) => {
                let outcome = match reason {
                    open_failure::ADMINISTRATIVELY_PROHIBITED => SocksOutcome::Forbidden,
                    _ => SocksOutcome::Unreachable,
                };
                let _ = sys::socket::send_now(&socket.write, &socks.reply(outcome));
            }
            // Bytes that were read from it are lost. Had they stayed in the socket, as without early
            // data, the kernel would reset the connection.
            (ForwardStage::Opening(socket), None) if entry.has_sent(driver) => {
                let _ = sys::socket::reset_on_close(&socket.write);
            }
            _ => {}
        }
        if let Some(channel) = entry.channel {
            self.reports.push_back(ForwardReport::OpenRefused {
                channel,
                reason,
                description,
                label: entry.label.clone(),
                origin: entry.origin,
            });
        }
        self.remove(serial, driver);
    }
}

impl Forwarded {
    /// Returns true if data was sent to the peer.
    fn has_sent(&self, driver: &mut Driver) -> bool {
        let traffic = |channel| driver.connection().channel_traffic(channel);
        self.channel.map(traffic).is_some_and(|all| all.sent > 0)
    }
}

/// Sends the socket's data before the peer's answer, if the peer takes it.
fn opening(channel: ChannelId, socket: SocketPair, driver: &mut Driver) -> OpeningSocket {
    let SocketPair { read, write } = socket;
    if !driver.connection().channel_takes_early_data(channel) {
        return OpeningSocket {
            write,
            read: Some(read),
            source_ended: false,
        };
    }
    let attached = driver.attach_source(channel, Stream::Data, read);
    if attached.is_err() {
        // The kernel lacks memory: nothing can be read.
        let _ = driver.connection().channel_eof(channel);
    }
    OpeningSocket {
        write,
        read: None,
        source_ended: attached.is_err(),
    }
}

/// Opens the channel of a connection.
fn open(driver: &mut Driver, kind: &str, fields: &[u8]) -> Result<ChannelId, Error> {
    let channel = driver.connection().open_channel_with_data(kind, fields)?;
    driver.connection().channel_hold_close(channel)?;
    Ok(channel)
}
