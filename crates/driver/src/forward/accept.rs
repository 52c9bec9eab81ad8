//! Listeners: accepting connections, their SOCKS requests, and the channels that they open.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use proto::{ChannelId, Error};

use super::{
    ForwardListener, ForwardReport, ForwardStage, ForwardTarget, ForwardToken, Forwards,
    ListeningSockets, MAX_ACCEPTS, MAX_FORWARDED, Opens, PAUSE_MS, SOCKS_MS, SOCKS_PEEK_BYTES,
    Socks, SocksOutcome, SocksStep,
};
use crate::Driver;

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
        let serial = self.next_serial;
        self.next_serial += 1;
        let token = ForwardToken::Accept(serial).number();
        if let Err(error) = sockets.watch(token, !self.is_waiting, driver) {
            sockets.close(driver);
            return Err(error);
        }
        self.listeners
            .insert(serial, ForwardListener { sockets, opens });
        Ok(serial)
    }

    /// Closes a listener; its connections go on. False if there is none of this number.
    pub fn cancel(&mut self, serial: u64, driver: &mut Driver) -> bool {
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
    }

    /// Accepts what waits, up to a limit; epoll reports the rest again.
    pub(super) fn accept(&mut self, serial: u64, driver: &mut Driver) {
        let mut left = MAX_ACCEPTS;
        let mut at = 0;
        while left > 0 {
            let Some(listener) = self.listeners.get(&serial) else {
                return;
            };
            let Some(socket) = listener.sockets.sockets.get(at) else {
                return;
            };
            if self.entries.len() >= MAX_FORWARDED {
                let error = io::Error::other("too many forwarded connections");
                return self.pause(error, driver);
            }
            match sys::socket::accept_stream(socket) {
                Ok((socket, peer)) => {
                    left -= 1;
                    self.paused = false;
                    let opens = listener.opens.clone();
                    self.accepted(socket, peer, opens, driver);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => at += 1,
                // The connection was reset while it waited.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => left -= 1,
                Err(error) => return self.pause(error, driver),
            }
        }
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
        socket: OwnedFd,
        peer: Option<SocketAddr>,
        opens: Opens,
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
            Opens::Socks => {
                let socks = Some(Socks::new());
                let serial = self.next_serial;
                let token = ForwardToken::Socks(serial).number();
                if driver.watch(socket.as_fd(), token, true, false).is_ok() {
                    let stage = ForwardStage::Asking(socket, peer);
                    self.insert(stage, None, socks, "dynamic".into());
                    self.limit(serial, SOCKS_MS, driver);
                }
                return;
            }
        };
        match open(driver, kind, &fields) {
            Ok(channel) => {
                self.insert(ForwardStage::Opening(socket), Some(channel), None, label);
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
            let count = match sys::socket::peek(socket, &mut bytes) {
                Ok(count @ 1..) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => return self.remove(serial, driver),
            };
            let (taken, step) = socks.take(bytes.get(..count).unwrap_or_default());
            // The bytes of the request leave the socket; those of the connection stay in it.
            let _ = sys::io::read(socket, bytes.get_mut(..taken).unwrap_or_default());
            match step {
                SocksStep::More(answer) => {
                    // An empty socket has space for some bytes; a client that has closed is
                    // noticed by the next read.
                    let _ = sys::socket::send_now(socket, &answer);
                }
                SocksStep::Refuse(reply) => {
                    let _ = sys::socket::send_now(socket, &reply);
                    return self.remove(serial, driver);
                }
                SocksStep::Connect(target) => return self.open_asked(serial, target, driver),
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
        driver.unwatch(socket.as_fd());
        let (kind, fields) = target.open_request(peer);
        entry.label = format!("dynamic to {target}");
        match open(driver, kind, &fields) {
            Ok(channel) => {
                entry.channel = Some(channel);
                entry.stage = ForwardStage::Opening(socket);
                self.channels.insert(channel, serial);
            }
            Err(error) => {
                if let Some(socks) = &entry.socks {
                    let reply = socks.reply(SocksOutcome::Unreachable);
                    let _ = sys::socket::send_now(&socket, &reply);
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
                    let _ = sys::socket::send_now(&socket, &reply);
                }
                self.join(serial, socket, driver);
            }
            other => entry.stage = other,
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
        if let (ForwardStage::Opening(socket), Some(socks)) = (&entry.stage, &entry.socks) {
            let outcome = match reason {
                wire::message::open_failure::ADMINISTRATIVELY_PROHIBITED => SocksOutcome::Forbidden,
                _ => SocksOutcome::Unreachable,
            };
            let _ = sys::socket::send_now(socket, &socks.reply(outcome));
        }
        if let Some(channel) = entry.channel {
            self.reports.push_back(ForwardReport::OpenRefused {
                channel,
                reason,
                description,
            });
        }
        self.remove(serial, driver);
    }
}

fn open(driver: &mut Driver, kind: &str, fields: &[u8]) -> Result<ChannelId, Error> {
    let channel = driver.connection().open_channel(kind, fields)?;
    driver.connection().channel_hold_close(channel)?;
    Ok(channel)
}
