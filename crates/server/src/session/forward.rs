//! `direct-tcpip` channels (RFC 4254 §7.2), which `ssh -W` and `-J` use. Connections are made as
//! the user; each name is resolved in its own short-lived thread.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use driver::Driver;
use proto::{ChannelId, Stream};
use sys::epoll::EventFd;
use sys::socket::{ConnectFrom, Connecting};
use wire::message::open_failure;
use wire::{DecodeError, Reader};

use super::token::Token;

/// Most concurrent name lookups; each costs a thread.
const MAX_LOOKUPS: usize = 16;
/// Time limit for lookup and connection together, in milliseconds: until the channel is answered,
/// nothing else is read from the client.
const CONNECT_MS: u64 = 15_000;
/// Stack of a resolver thread, in bytes: NSS modules are its only deep callees.
const LOOKUP_STACK_BYTES: usize = 512 * 1024;

/// The target of a `direct-tcpip` channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ForwardTarget {
    pub(super) host: String,
    pub(super) port: u16,
}

impl ForwardTarget {
    /// Decodes the channel type's fields: target host and port, originator's address and port.
    pub(super) fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(fields);
        let host = std::str::from_utf8(reader.string_max(1024)?)
            .map_err(|_| DecodeError::Malformed("host name is not text"))?
            .to_owned();
        let port =
            u16::try_from(reader.u32()?).map_err(|_| DecodeError::Malformed("port above 65535"))?;
        let _originator = reader.string_max(1024)?;
        let _originator_port = reader.u32()?;
        reader.finish()?;
        Ok(Self { host, port })
    }
}

enum ForwardStage {
    /// The host name is being looked up.
    Resolving,
    /// A connection attempt is in progress; `others` are tried if it fails.
    Connecting {
        socket: OwnedFd,
        others: Vec<SocketAddr>,
    },
    /// The driver moves bytes; this copy serves to close one direction.
    Open {
        socket: OwnedFd,
        source_ended: bool,
        sink_ended: bool,
    },
}

/// A `direct-tcpip` channel and its outgoing connection.
pub(super) struct TcpChannel {
    id: ChannelId,
    serial: u64,
    /// TCPKeepAlive applies to the outgoing connection too.
    keep_alive: bool,
    stage: ForwardStage,
}

/// Whether a channel continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The channel continues.
    Lives,
    /// The channel was refused; its entry must be removed.
    Gone,
}

impl TcpChannel {
    /// Starts the lookup or the connection. Returns `None` if the channel was refused.
    pub(super) fn open(
        id: ChannelId,
        serial: u64,
        target: &ForwardTarget,
        keep_alive: bool,
        resolver: &mut Resolver,
        driver: &mut Driver,
    ) -> io::Result<Option<Self>> {
        let mut channel = Self {
            id,
            serial,
            keep_alive,
            stage: ForwardStage::Resolving,
        };
        let give_up = Token::GiveUp(serial).number();
        driver.set_timer(give_up, Some(driver.now().saturating_add(CONNECT_MS)));
        if let Some(address) = sys::socket::resolve::literal(&target.host, target.port) {
            if channel.connect(vec![address], driver)? == Fate::Lives {
                return Ok(Some(channel));
            }
            driver.set_timer(give_up, None);
            return Ok(None);
        }
        if resolver.look_up(serial, target.clone(), driver)? {
            return Ok(Some(channel));
        }
        driver.set_timer(give_up, None);
        let _ = driver.connection().reject_channel(
            id,
            open_failure::RESOURCE_SHORTAGE,
            "too many lookups",
        );
        Ok(None)
    }

    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    /// Handles the lookup's result; `addresses` is empty if the lookup failed.
    pub(super) fn resolved(
        &mut self,
        addresses: Vec<SocketAddr>,
        driver: &mut Driver,
    ) -> io::Result<Fate> {
        match self.stage {
            ForwardStage::Resolving => self.connect(addresses, driver),
            ForwardStage::Connecting { .. } | ForwardStage::Open { .. } => Ok(Fate::Lives),
        }
    }

    /// Refuses the channel after `CONNECT_MS`.
    pub(super) fn give_up(&mut self, driver: &mut Driver) -> io::Result<Fate> {
        match &self.stage {
            ForwardStage::Open { .. } => return Ok(Fate::Lives),
            ForwardStage::Connecting { socket, .. } => driver.unwatch(socket.as_fd()),
            ForwardStage::Resolving => {}
        }
        self.stage = ForwardStage::Resolving;
        let _ = driver.connection().reject_channel(
            self.id,
            open_failure::CONNECT_FAILED,
            "Connection timed out",
        );
        Ok(Fate::Gone)
    }

    /// Connects to the first address that permits an attempt; refuses the channel if none does.
    fn connect(&mut self, addresses: Vec<SocketAddr>, driver: &mut Driver) -> io::Result<Fate> {
        let mut rest = addresses.into_iter();
        while let Some(address) = rest.next() {
            match sys::socket::connect_start(address, &ConnectFrom::default()) {
                Ok(Connecting::Done(socket)) => return self.connected(socket, driver),
                Ok(Connecting::InProgress(socket)) => {
                    driver.watch(
                        socket.as_fd(),
                        Token::Connect(self.serial).number(),
                        false,
                        true,
                    )?;
                    self.stage = ForwardStage::Connecting {
                        socket,
                        others: rest.collect(),
                    };
                    return Ok(Fate::Lives);
                }
                Err(_) => {}
            }
        }
        let _ = driver.connection().reject_channel(
            self.id,
            open_failure::CONNECT_FAILED,
            "Connection refused",
        );
        Ok(Fate::Gone)
    }

    /// Handles the result of the connection attempt.
    pub(super) fn connect_ready(&mut self, driver: &mut Driver) -> io::Result<Fate> {
        match std::mem::replace(&mut self.stage, ForwardStage::Resolving) {
            ForwardStage::Connecting { socket, others } => {
                driver.unwatch(socket.as_fd());
                match sys::socket::connect_finish(&socket) {
                    Ok(()) => self.connected(socket, driver),
                    Err(_) => self.connect(others, driver),
                }
            }
            other => {
                self.stage = other;
                Ok(Fate::Lives)
            }
        }
    }

    fn connected(&mut self, socket: OwnedFd, driver: &mut Driver) -> io::Result<Fate> {
        if driver.connection().accept_channel(self.id).is_err() {
            return Ok(Fate::Gone);
        }
        if self.keep_alive {
            let _ = sys::socket::set_keepalive(&socket, true);
        }
        driver.attach_source(self.id, Stream::Data, sys::io::dup(&socket)?)?;
        driver.attach_sink(self.id, Stream::Data, sys::io::dup(&socket)?)?;
        driver.set_timer(Token::GiveUp(self.serial).number(), None);
        self.stage = ForwardStage::Open {
            socket,
            source_ended: false,
            sink_ended: false,
        };
        Ok(Fate::Lives)
    }

    /// The target has sent EOF.
    pub(super) fn source_ended(&mut self, driver: &mut Driver) {
        if let ForwardStage::Open { source_ended, .. } = &mut self.stage {
            *source_ended = true;
            let _ = driver.connection().channel_eof(self.id);
        }
        self.close_if_done(driver);
    }

    /// The client has sent EOF, or the target no longer accepts data (`failed`).
    pub(super) fn sink_ended(&mut self, failed: bool, driver: &mut Driver) {
        if let ForwardStage::Open {
            socket,
            source_ended,
            sink_ended,
        } = &mut self.stage
        {
            *sink_ended = true;
            let _ = sys::socket::shutdown(&*socket, sys::socket::ShutdownDirection::Write);
            if failed {
                // A reset connection sends no more data either.
                *source_ended = true;
                drop(driver.detach_source(self.id, Stream::Data));
            }
        }
        self.close_if_done(driver);
    }

    fn close_if_done(&self, driver: &mut Driver) {
        if let ForwardStage::Open {
            source_ended: true,
            sink_ended: true,
            ..
        } = self.stage
        {
            let _ = driver.connection().channel_close(self.id);
        }
    }

    /// Drops the outgoing connection of a closed channel.
    pub(super) fn hang_up(self, driver: &mut Driver) {
        driver.set_timer(Token::GiveUp(self.serial).number(), None);
        if let ForwardStage::Connecting { socket, .. } = &self.stage {
            driver.unwatch(socket.as_fd());
        }
        drop(driver.detach_source(self.id, Stream::Data));
        drop(driver.detach_sink(self.id, Stream::Data));
    }
}

/// Resolves names without blocking the connection.
#[derive(Default)]
pub(super) struct Resolver {
    started: Option<ForwardAnswers>,
    under_way: usize,
}

struct ForwardAnswers {
    wake: Arc<EventFd>,
    sender: mpsc::Sender<(u64, Vec<SocketAddr>)>,
    receiver: mpsc::Receiver<(u64, Vec<SocketAddr>)>,
}

impl Resolver {
    /// Starts a lookup; returns false if `MAX_LOOKUPS` are in progress.
    fn look_up(
        &mut self,
        serial: u64,
        target: ForwardTarget,
        driver: &mut Driver,
    ) -> io::Result<bool> {
        if self.under_way >= MAX_LOOKUPS {
            return Ok(false);
        }
        if self.started.is_none() {
            let (sender, receiver) = mpsc::channel();
            let wake = Arc::new(EventFd::new()?);
            driver.watch(wake.as_fd(), Token::Resolver.number(), true, false)?;
            self.started = Some(ForwardAnswers {
                wake,
                sender,
                receiver,
            });
        }
        let Some(answers) = &self.started else {
            return Ok(false);
        };
        let (wake, sender) = (Arc::clone(&answers.wake), answers.sender.clone());
        thread::Builder::new()
            .name("resolver".into())
            .stack_size(LOOKUP_STACK_BYTES)
            .spawn(move || {
                let family = sys::socket::Family::Any;
                let found = sys::socket::resolve(&target.host, target.port, family, false);
                let addresses = found.map(|found| found.addresses).unwrap_or_default();
                // A failed send means that the process is ending.
                let _ = sender.send((serial, addresses));
                let _ = wake.signal();
            })?;
        self.under_way += 1;
        Ok(true)
    }

    /// Returns a finished lookup: the channel's serial and the addresses.
    pub(super) fn next_answer(&mut self) -> Option<(u64, Vec<SocketAddr>)> {
        let answers = self.started.as_ref()?;
        let _ = answers.wake.drain();
        let answer = answers.receiver.try_recv().ok()?;
        self.under_way = self.under_way.saturating_sub(1);
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use wire::Put;

    use super::*;

    fn fields(host: &[u8], port: u32) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_string(host);
        out.put_u32(port);
        out.put_string(b"127.0.0.1");
        out.put_u32(40_000);
        out
    }

    #[test]
    fn a_target_is_a_host_and_a_port_and_nothing_else() {
        let target = ForwardTarget::decode(&fields(b"db", 5432)).unwrap();
        assert_eq!(
            target,
            ForwardTarget {
                host: "db".into(),
                port: 5432
            }
        );
        assert!(ForwardTarget::decode(&fields(b"db", 65_536)).is_err());
        assert!(ForwardTarget::decode(&fields(b"\xff", 1)).is_err());
        let mut more = fields(b"db", 1);
        more.push(0);
        assert!(ForwardTarget::decode(&more).is_err());
        assert!(ForwardTarget::decode(&[]).is_err());
    }
}
