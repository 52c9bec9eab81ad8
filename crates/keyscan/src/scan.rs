//! The loop: as many hosts at once as there are descriptors, each with its own time limit.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use proto::{OpeningBytes, TransportConfig};
use sys::epoll::{Epoll, EventFd, Events, Interest};
use sys::io::is_out_of_descriptors;
use sys::socket::{Family, Lookup, Lookups};

use crate::connection::{ScanConnection, ScanFailure, ScanStage, ScanStep};
use crate::host::{HostStep, ScannedHost};
use crate::key_types::KeyTypes;
use crate::options::KeyscanOptions;
use crate::pace::Pace;
use crate::source::{self, Input, ScanTarget};

/// Most connections at once: enough for a thousand hosts in a turn, and few enough for the tables of
/// neighbours and of connections in networks.
const MAX_CONNECTIONS: usize = 2048;
/// Descriptors that are left to name lookups and files.
const RESERVED_DESCRIPTORS: u64 = 160;
/// Pause after which more connections begin, milliseconds: those before are established by then, or
/// their server is far away.
const PACE_MS: u64 = 5;
/// Events of one wait.
const EVENTS: usize = 256;

const TOKEN_TARGETS: u64 = 0;
const TOKEN_LOOKUPS: u64 = 1;
const FIRST_SERIAL: u64 = 2;

/// Comment of our identification line. Rules of servers and of logs know a scanner by this name.
const VERSION_COMMENT: &str = "OpenSSH-keyscan";
/// Shortest RSA key that is printed, bits, as by ssh-keyscan.
const MIN_RSA_BITS: usize = 1024;

/// A connection with what the loop knows of it.
struct Watched {
    connection: ScanConnection,
    interest: Interest,
    stage: ScanStage,
    /// When the stage began, on the clock of `sys::time::monotonic_ms`.
    since: u64,
}

/// A connection that waits for a descriptor.
struct PendingConnection {
    host: u64,
    address: SocketAddr,
    types: KeyTypes,
}

/// A scan.
pub(crate) struct Scan<'a> {
    options: &'a KeyscanOptions,
    transport: TransportConfig,
    epoll: Epoll,
    wake: Arc<EventFd>,
    lookups: Lookups,
    hosts: HashMap<u64, ScannedHost>,
    connections: HashMap<u64, Watched>,
    wanted: VecDeque<PendingConnection>,
    /// Deadlines in order, with the connection; one that has changed has a later entry.
    deadlines: VecDeque<(u64, u64)>,
    /// Most connections at once.
    capacity: usize,
    pace: Pace,
    next_serial: u64,
    found_one: bool,
    /// A list could not be read to its end.
    failure: Option<String>,
}

impl<'a> Scan<'a> {
    /// Prepares a scan.
    ///
    /// # Errors
    /// The kernel's error of epoll or eventfd.
    pub(crate) fn new(options: &'a KeyscanOptions) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        let wake = Arc::new(EventFd::new()?);
        let lookups = Lookups::new()?;
        let capacity = capacity();
        epoll.add(&*wake, TOKEN_TARGETS, Interest::READABLE)?;
        epoll.add(lookups.as_fd(), TOKEN_LOOKUPS, Interest::READABLE)?;
        Ok(Self {
            options,
            transport: transport(),
            epoll,
            wake,
            lookups,
            hosts: HashMap::new(),
            connections: HashMap::new(),
            wanted: VecDeque::new(),
            deadlines: VecDeque::new(),
            capacity,
            pace: Pace::new(options.timeout_ms, capacity),
            next_serial: FIRST_SERIAL,
            found_one: false,
            failure: None,
        })
    }

    /// Scans the hosts of all inputs; true if a key was found.
    ///
    /// # Errors
    /// The kernel's error of waiting, or an input that cannot be read, after its hosts up to there
    /// are scanned.
    pub(crate) fn run(&mut self, inputs: Vec<Input>) -> io::Result<bool> {
        let targets = source::start(inputs, Arc::clone(&self.wake))?;
        let mut has_more = true;
        let mut events = Events::with_capacity(EVENTS);
        loop {
            has_more = has_more && self.take_targets(&targets);
            if !has_more && self.hosts.is_empty() {
                break;
            }
            self.connect_wanted()?;
            self.epoll.wait(&mut events, self.next_timeout())?;
            for event in events.iter() {
                match event.token {
                    TOKEN_TARGETS => drop(self.wake.drain()?),
                    TOKEN_LOOKUPS => self.take_answers(),
                    serial => self.turn(serial),
                }
            }
            self.expire();
        }
        match self.failure.take() {
            Some(message) => Err(io::Error::other(message)),
            None => Ok(self.found_one),
        }
    }

    /// Starts hosts while there is room; false after the last one.
    fn take_targets(&mut self, targets: &Receiver<Result<ScanTarget, String>>) -> bool {
        while self.hosts.len() < self.capacity && self.wanted.len() < self.capacity {
            match targets.try_recv() {
                Ok(Ok(target)) => {
                    let serial = self.new_serial();
                    self.hosts.insert(serial, ScannedHost::new(target));
                    self.go_on(serial);
                }
                Ok(Err(message)) => self.failure = Some(message),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
        true
    }

    fn new_serial(&mut self) -> u64 {
        let serial = self.next_serial;
        self.next_serial += 1;
        serial
    }

    /// Does what a host needs next.
    fn go_on(&mut self, serial: u64) {
        let (port, family) = (self.options.port, self.options.family);
        while let Some(host) = self.hosts.get_mut(&serial) {
            match host.next() {
                HostStep::Connect(address) => {
                    let (host, types) = (serial, self.options.types);
                    return self.wanted.push_back(PendingConnection {
                        host,
                        address,
                        types,
                    });
                }
                HostStep::LookUp(name) => match literal(&name, port, family) {
                    Some(address) => host.looked_up(Ok(vec![address])),
                    None => {
                        let (serial, host) = (serial, name);
                        return self.lookups.start(Lookup {
                            serial,
                            host,
                            port,
                            family,
                        });
                    }
                },
                HostStep::Complete => return self.complete(serial),
            }
        }
    }

    fn complete(&mut self, serial: u64) {
        if let Some(host) = self.hosts.remove(&serial) {
            self.found_one |= host.print(self.options);
        }
    }

    fn take_answers(&mut self) {
        while let Some((serial, found)) = self.lookups.next_answer() {
            if let Some(host) = self.hosts.get_mut(&serial) {
                host.looked_up(found);
            }
            self.go_on(serial);
        }
    }

    /// Opens connections while there are descriptors and the servers keep up.
    fn connect_wanted(&mut self) -> io::Result<()> {
        let room = self.pace.room(sys::time::monotonic_ms());
        let room = room.min(self.capacity.saturating_sub(self.connections.len()));
        for _ in 0..room {
            let Some(wanted) = self.wanted.pop_front() else {
                break;
            };
            match ScanConnection::start(wanted.host, wanted.address, wanted.types) {
                Ok(connection) => self.watch(connection)?,
                // Lookups or another process have taken descriptors.
                Err(error) if is_out_of_descriptors(&error) && !self.connections.is_empty() => {
                    self.capacity = self.connections.len();
                    self.wanted.push_front(wanted);
                    break;
                }
                Err(error) => {
                    if let Some(host) = self.hosts.get_mut(&wanted.host) {
                        host.unreachable(&error);
                    }
                    self.rest(wanted.host);
                }
            }
        }
        Ok(())
    }

    fn watch(&mut self, connection: ScanConnection) -> io::Result<()> {
        let serial = self.new_serial();
        let (interest, stage) = (connection.interest(), connection.stage());
        self.epoll.add(connection.socket(), serial, interest)?;
        let since = sys::time::monotonic_ms();
        let deadline = since + self.options.timeout_ms;
        self.deadlines.push_back((deadline, serial));
        let watched = Watched {
            connection,
            interest,
            stage,
            since,
        };
        self.connections.insert(serial, watched);
        Ok(())
    }

    /// Lets a connection go on.
    fn turn(&mut self, serial: u64) {
        let Some(watched) = self.connections.get_mut(&serial) else {
            return;
        };
        let types = watched.connection.types;
        let step = watched.connection.turn(|| TransportConfig {
            host_key_algorithms: types.algorithms(self.options.certificates),
            ..self.transport.clone()
        });
        match step {
            ScanStep::Waits => {}
            ScanStep::Key(key) => return self.end(serial, Ok(key)),
            ScanStep::Failed(failure) => return self.end(serial, Err(failure)),
        }
        let interest = watched.connection.interest();
        if interest != watched.interest {
            watched.interest = interest;
            let socket = watched.connection.socket();
            if let Err(error) = self.epoll.modify(socket, serial, interest) {
                return self.end(serial, Err(ScanFailure::Read(error)));
            }
        }
        let stage = watched.connection.stage();
        if stage != watched.stage {
            let now = sys::time::monotonic_ms();
            match watched.stage {
                ScanStage::Connecting => self.pace.established(serial, now),
                _ => self.pace.answered(now.saturating_sub(watched.since)),
            }
            (watched.stage, watched.since) = (stage, now);
            let deadline = now + self.options.timeout_ms;
            self.deadlines.push_back((deadline, serial));
        }
    }

    /// Closes a connection and goes on with its host.
    fn end(&mut self, serial: u64, result: Result<keys::PresentedKey, ScanFailure>) {
        let Some(watched) = self.connections.remove(&serial) else {
            return;
        };
        let connection = watched.connection;
        if connection.banner().is_some() {
            let now = sys::time::monotonic_ms();
            self.pace.answered(now.saturating_sub(watched.since));
        }
        self.pace.ended(serial, result.is_ok());
        let (serial, address) = (connection.host, connection.address);
        let Some(host) = self.hosts.get_mut(&serial) else {
            return;
        };
        for position in host.ended(&connection, result, self.options) {
            let types = KeyTypes::only(position);
            self.wanted.push_back(PendingConnection {
                host: serial,
                address,
                types,
            });
        }
        self.rest(serial);
    }

    /// Goes on with a host that has no connection left.
    fn rest(&mut self, serial: u64) {
        match self.hosts.get(&serial) {
            Some(host) if !host.rests() => {}
            Some(host) if host.is_greeted() => self.complete(serial),
            _ => self.go_on(serial),
        }
    }

    fn next_timeout(&self) -> Option<Duration> {
        let (deadline, _) = self.deadlines.front()?;
        let left = deadline.saturating_sub(sys::time::monotonic_ms());
        let has_room = !self.wanted.is_empty() && self.connections.len() < self.capacity;
        let left = if has_room { left.min(PACE_MS) } else { left };
        Some(Duration::from_millis(left))
    }

    /// Ends connections whose time is over.
    fn expire(&mut self) {
        let now = sys::time::monotonic_ms();
        while let Some((deadline, serial)) = self.deadlines.front().copied()
            && deadline <= now
        {
            self.deadlines.pop_front();
            let begun = deadline - self.options.timeout_ms;
            let watched = self.connections.get(&serial);
            if watched.is_some_and(|watched| watched.since == begun) {
                self.end(serial, Err(ScanFailure::TimedOut));
            }
        }
    }
}

/// An address that needs no lookup and is of the family.
fn literal(name: &str, port: u16, family: Family) -> Option<SocketAddr> {
    let address = sys::socket::literal(name, port)?;
    let fits = match family {
        Family::Any => true,
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6(),
    };
    fits.then_some(address)
}

/// Most connections at once with this process's limit of descriptors.
fn capacity() -> usize {
    let limit = sys::process::limit(sys::process::Resource::OpenFiles);
    let soft = limit.map_or(256, |limit| limit.soft);
    let free = soft.saturating_sub(RESERVED_DESCRIPTORS).max(8);
    usize::try_from(free).map_or(MAX_CONNECTIONS, |free| free.min(MAX_CONNECTIONS))
}

/// The algorithms of a key exchange that ends before keys are used: every one, cheap ones first.
fn transport() -> TransportConfig {
    let mut kex = wire::algorithms::KNOWN_KEX.to_vec();
    kex.sort_by_key(|name| {
        (
            wire::algorithms::is_post_quantum(name),
            !name.starts_with("curve"),
        )
    });
    let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    TransportConfig {
        kex: strings(&kex),
        // A certificate is printed, not trusted.
        ca_signature_algorithms: strings(wire::algorithms::KNOWN_CA_SIGNATURES),
        macs: strings(wire::algorithms::KNOWN_MACS),
        min_rsa_bits: MIN_RSA_BITS,
        opening: OpeningBytes {
            comment: VERSION_COMMENT.to_owned(),
            ..OpeningBytes::default()
        },
        ..TransportConfig::default()
    }
}
