//! `direct-tcpip` channels (RFC 4254 §7.2): what `ssh -W` and `-J` through this server need.
//! Connections are made as the user; names are resolved on a thread of their own, which exists
//! only while one is.

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

/// Names that are looked up at once: each costs a thread.
const MAX_LOOKUPS: usize = 16;
/// How long a name and a connection may take together, in milliseconds: nothing else is read
/// from the client while it waits for the answer to its channel.
const CONNECT_MS: u64 = 15_000;
/// Stack of a resolver thread, in bytes: NSS modules are its only deep callers.
const LOOKUP_STACK_BYTES: usize = 512 * 1024;

/// Where a client wants to be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
}

impl Target {
    /// Reads a channel's own fields: host and port to connect to, and the originator's.
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

enum Stage {
    /// Its name is looked up.
    Resolving,
    /// A connection to an address is under way; the others come if it fails.
    Connecting {
        socket: OwnedFd,
        others: Vec<SocketAddr>,
    },
    /// The driver moves bytes; this copy is there to end one direction.
    Open {
        socket: OwnedFd,
        source_ended: bool,
        sink_ended: bool,
    },
}

/// One channel and its outgoing connection.
pub(super) struct TcpChannel {
    id: ChannelId,
    serial: u64,
    /// TCPKeepAlive concerns this connection, too.
    keep_alive: bool,
    stage: Stage,
}

/// Whether a channel lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It does.
    Lives,
    /// The client was told; forget it.
    Gone,
}

impl TcpChannel {
    /// Begins to connect.
    pub(super) fn open(
        id: ChannelId,
        serial: u64,
        target: &Target,
        keep_alive: bool,
        resolver: &mut Resolver,
        driver: &mut Driver,
    ) -> io::Result<Option<Self>> {
        let mut channel = Self {
            id,
            serial,
            keep_alive,
            stage: Stage::Resolving,
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

    /// The name's addresses have come, or none.
    pub(super) fn resolved(
        &mut self,
        addresses: Vec<SocketAddr>,
        driver: &mut Driver,
    ) -> io::Result<Fate> {
        match self.stage {
            Stage::Resolving => self.connect(addresses, driver),
            Stage::Connecting { .. } | Stage::Open { .. } => Ok(Fate::Lives),
        }
    }

    /// It has taken too long.
    pub(super) fn give_up(&mut self, driver: &mut Driver) -> io::Result<Fate> {
        match &self.stage {
            Stage::Open { .. } => return Ok(Fate::Lives),
            Stage::Connecting { socket, .. } => driver.unwatch(socket.as_fd()),
            Stage::Resolving => {}
        }
        self.stage = Stage::Resolving;
        let _ = driver.connection().reject_channel(
            self.id,
            open_failure::CONNECT_FAILED,
            "Connection timed out",
        );
        Ok(Fate::Gone)
    }

    /// Starts with the first address that can be tried.
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
                    self.stage = Stage::Connecting {
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

    /// The connection under way has come to something.
    pub(super) fn connect_ready(&mut self, driver: &mut Driver) -> io::Result<Fate> {
        match std::mem::replace(&mut self.stage, Stage::Resolving) {
            Stage::Connecting { socket, others } => {
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
        self.stage = Stage::Open {
            socket,
            source_ended: false,
            sink_ended: false,
        };
        Ok(Fate::Lives)
    }

    /// The other side sends no more.
    pub(super) fn source_ended(&mut self, driver: &mut Driver) {
        if let Stage::Open { source_ended, .. } = &mut self.stage {
            *source_ended = true;
            let _ = driver.connection().channel_eof(self.id);
        }
        self.close_if_done(driver);
    }

    /// The client sends no more, or the other side takes no more.
    pub(super) fn sink_ended(&mut self, failed: bool, driver: &mut Driver) {
        if let Stage::Open {
            socket,
            source_ended,
            sink_ended,
        } = &mut self.stage
        {
            *sink_ended = true;
            let _ = sys::socket::shutdown(&*socket, sys::socket::Direction::Write);
            if failed {
                // A reset connection has no more to say either.
                *source_ended = true;
                drop(driver.detach_source(self.id, Stream::Data));
            }
        }
        self.close_if_done(driver);
    }

    fn close_if_done(&self, driver: &mut Driver) {
        if let Stage::Open {
            source_ended: true,
            sink_ended: true,
            ..
        } = self.stage
        {
            let _ = driver.connection().channel_close(self.id);
        }
    }

    /// The channel is gone: so is the connection.
    pub(super) fn hang_up(self, driver: &mut Driver) {
        driver.set_timer(Token::GiveUp(self.serial).number(), None);
        if let Stage::Connecting { socket, .. } = &self.stage {
            driver.unwatch(socket.as_fd());
        }
        drop(driver.detach_source(self.id, Stream::Data));
        drop(driver.detach_sink(self.id, Stream::Data));
    }
}

/// Looks names up without holding up the connection.
#[derive(Default)]
pub(super) struct Resolver {
    started: Option<Answers>,
    under_way: usize,
}

struct Answers {
    wake: Arc<EventFd>,
    sender: mpsc::Sender<(u64, Vec<SocketAddr>)>,
    receiver: mpsc::Receiver<(u64, Vec<SocketAddr>)>,
}

impl Resolver {
    /// Starts a lookup; false when too many are under way.
    fn look_up(&mut self, serial: u64, target: Target, driver: &mut Driver) -> io::Result<bool> {
        if self.under_way >= MAX_LOOKUPS {
            return Ok(false);
        }
        if self.started.is_none() {
            let (sender, receiver) = mpsc::channel();
            let wake = Arc::new(EventFd::new()?);
            driver.watch(wake.as_fd(), Token::Resolver.number(), true, false)?;
            self.started = Some(Answers {
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
                // When nobody waits any more, the process is on its way out.
                let _ = sender.send((serial, addresses));
                let _ = wake.signal();
            })?;
        self.under_way += 1;
        Ok(true)
    }

    /// A finished lookup: for which serial, and its addresses.
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
        let target = Target::decode(&fields(b"db", 5432)).unwrap();
        assert_eq!(
            target,
            Target {
                host: "db".into(),
                port: 5432
            }
        );
        assert!(Target::decode(&fields(b"db", 65_536)).is_err());
        assert!(Target::decode(&fields(b"\xff", 1)).is_err());
        let mut more = fields(b"db", 1);
        more.push(0);
        assert!(Target::decode(&more).is_err());
        assert!(Target::decode(&[]).is_err());
    }
}
