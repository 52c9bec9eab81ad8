//! Connections of load balancers (ProxyProtocolFrom) until their PROXY headers have arrived. A
//! reader reads the headers ([`reader`]): this process reads no byte of a connection. After
//! its header a connection is admitted as one of the client that the header names.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use sys::epoll::Interest;

use super::{Listener, READER_TOKEN};
use crate::listener::metrics::RefusalReason;
use crate::listener::reader::{self, HeaderAnswer, ReaderProcess};
use crate::listener::startups::{StartupRefusal, StartupRules};

/// Most connections that wait for their header, fewer than a reader can have open. MaxStartups may
/// set a lower limit.
const MAX_WAITING: usize = 900;
/// Answers of the reader that are taken before the listener looks at anything else.
const ANSWERS_AT_ONCE: u32 = 64;

/// The reader and the connections whose headers it reads.
#[derive(Debug, Default)]
pub(super) struct Proxied {
    /// Started with the first connection of a load balancer.
    reader: Option<ReaderProcess>,
    waiting: HashMap<u64, AwaitedHeader>,
}

/// A connection whose header has not arrived.
#[derive(Debug)]
struct AwaitedHeader {
    network: OwnedFd,
    balancer: SocketAddr,
    /// Monotonic milliseconds.
    accepted_ms: u64,
}

impl AwaitedHeader {
    fn deadline_ms(&self) -> u64 {
        let limit_ms = u64::try_from(reader::HEADER_LIMIT.as_millis()).unwrap_or(u64::MAX);
        self.accepted_ms.saturating_add(limit_ms)
    }
}

impl Proxied {
    /// True if no connection waits for its header.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Monotonic milliseconds at which the next connection has waited too long.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.waiting.values().map(AwaitedHeader::deadline_ms).min()
    }
}

impl Listener<'_> {
    /// True if a connection from `address` must begin with a PROXY header.
    pub(super) fn is_balancer(&self, address: IpAddr) -> bool {
        reader::is_balancer(&self.options.connection, address)
    }

    /// Lets the reader read the header of a new connection.
    pub(super) fn await_header(&mut self, network: OwnedFd, balancer: SocketAddr, now_ms: u64) {
        let full = StartupRules::of(&self.options.limits).full;
        if self.proxied.waiting.len() >= full.min(MAX_WAITING) {
            return self.refuse(&network, balancer, StartupRefusal::MaxStartups, now_ms);
        }
        let token = self.next_token;
        self.next_token += 1;
        if let Err(error) = self.ask_reader(token, &network) {
            self.log
                .error(&format!("reading the PROXY header of {balancer}: {error}"));
            return;
        }
        let waiting = AwaitedHeader {
            network,
            balancer,
            accepted_ms: now_ms,
        };
        self.proxied.waiting.insert(token, waiting);
    }

    /// Asks the reader, which is started first if there is none or it has ended.
    fn ask_reader(&mut self, token: u64, network: &OwnedFd) -> io::Result<()> {
        if let Some(reader) = &self.proxied.reader {
            match reader.ask(token, network) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                Err(_) => self.lose_reader(),
            }
        }
        let reader = self.launch.start_reader()?;
        reader.ask(token, network)?;
        self.epoll
            .add(reader.socket(), READER_TOKEN, Interest::READABLE)?;
        self.proxied.reader = Some(reader);
        Ok(())
    }

    /// Closes all connections that waited for the reader, which has ended.
    fn lose_reader(&mut self) {
        if let Some(reader) = self.proxied.reader.take() {
            let _ = self.epoll.remove(reader.socket());
            self.log.error(reader::READER_ENDED);
        }
        for (_, waiting) in core::mem::take(&mut self.proxied.waiting) {
            self.close_without_header(&waiting, reader::READER_ENDED);
        }
    }

    /// Reads the reader's answers.
    pub(super) fn hear_reader(&mut self, now_ms: u64) {
        // The loop comes back for the rest: a reader that never stops writing must not hold it.
        for _ in 0..ANSWERS_AT_ONCE {
            let Some(reader) = &self.proxied.reader else {
                return;
            };
            match reader.answer() {
                Ok(Some(header)) => self.take_header(header, now_ms),
                Ok(None) => return,
                Err(_) => self.lose_reader(),
            }
        }
    }

    fn take_header(&mut self, header: HeaderAnswer, now_ms: u64) {
        // The connection may have been closed meanwhile.
        let Some(waiting) = self.proxied.waiting.remove(&header.token) else {
            return;
        };
        match header.client {
            Ok(client) => {
                let peer = client.unwrap_or(waiting.balancer);
                self.admit(waiting.network, peer, client.is_some(), now_ms);
            }
            Err(why) => self.close_without_header(&waiting, &why),
        }
    }

    fn close_without_header(&mut self, waiting: &AwaitedHeader, why: &str) {
        self.measured.counters.refused(RefusalReason::ProxyHeader);
        self.log.info(&reader::refusal(waiting.balancer, why));
        // The reader may have the connection, too.
        let both = sys::socket::ShutdownDirection::Both;
        let _ = sys::socket::shutdown(&waiting.network, both);
    }

    /// Closes the connections whose header is late.
    pub(super) fn end_without_header(&mut self, now_ms: u64) {
        let is_late = |waiting: &AwaitedHeader| waiting.deadline_ms() <= now_ms;
        let late = self.proxied.waiting.extract_if(|_, each| is_late(each));
        for (_, waiting) in late.collect::<Vec<_>>() {
            self.close_without_header(&waiting, reader::TOO_LATE);
        }
    }
}
