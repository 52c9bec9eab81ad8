//! The two ends of the traffic: the target to which a tunnel leads, and the loads that connect to
//! its entry.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sys::epoll::{Epoll, EventFd, Events, Interest};
use sys::socket::ShutdownDirection;

use super::tunnel::TunnelEntry;
use crate::harness::ServerHost;
use crate::stats;

/// Bytes of a read and a write of bulk data.
pub(super) const BULK_BYTES: usize = 256 << 10;
/// The byte by which a target that has read everything says so.
const DONE: u8 = b'!';
/// Time without any progress after which connections count as failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Queue of connections that the target has not accepted.
const BACKLOG: i32 = 4096;

const STOP: u64 = 0;
const LISTENER: u64 = 1;
const FIRST_CONNECTION: u64 = 2;

/// What a target does with each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// Reads to the end, then answers with one byte.
    Sink,
    /// Writes this number of bytes.
    Source(u64),
    /// Returns each byte.
    Echo,
}

/// A listener and its connections; dropping it ends them.
pub(super) struct LoadTarget {
    pub(super) address: SocketAddr,
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl LoadTarget {
    pub(super) fn start(host: &ServerHost, service: Service) -> io::Result<Self> {
        Self::start_at(host, host.address(), service)
    }

    /// At this address of `host`.
    pub(super) fn start_at(
        host: &ServerHost,
        address: IpAddr,
        service: Service,
    ) -> io::Result<Self> {
        let any = SocketAddr::new(address, 0);
        let listener = host.run(move || sys::socket::listen(any, BACKLOG, true, false))??;
        let address = sys::socket::local_address(&listener)?;
        let stop = Arc::new(EventFd::new()?);
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("target".into())
            .spawn(move || serve(&listener, &stopped, service))?;
        Ok(Self {
            address,
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for LoadTarget {
    fn drop(&mut self) {
        if self.stop.signal().is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn serve(listener: &OwnedFd, stop: &EventFd, service: Service) -> io::Result<()> {
    let epoll = Epoll::new()?;
    epoll.add(stop, STOP, Interest::READABLE)?;
    epoll.add(listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(64);
    let mut echoed: BTreeMap<u64, OwnedFd> = BTreeMap::new();
    let mut next = FIRST_CONNECTION;
    loop {
        epoll.wait(&mut events, None)?;
        for event in events.iter() {
            match event.token {
                STOP => return Ok(()),
                LISTENER => {
                    while let Some(socket) = accepted(listener)? {
                        sys::socket::set_nodelay(&socket, true)?;
                        if service == Service::Echo {
                            epoll.add(&socket, next, Interest::READABLE)?;
                            echoed.insert(next, socket);
                            next += 1;
                        } else {
                            sys::io::set_nonblocking(&socket, false)?;
                            thread::spawn(move || bulk(File::from(socket), service));
                        }
                    }
                }
                token => {
                    if !echoed.get(&token).is_some_and(echo) {
                        echoed.remove(&token);
                    }
                }
            }
        }
    }
}

/// The next connection; `None` if there is none now. An error, as of a program without descriptors,
/// ends the target, which the loads see.
fn accepted(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    match sys::socket::accept(listener) {
        Ok((socket, _)) => Ok(Some(socket)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted => Ok(None),
            _ => Err(error),
        },
    }
}

/// Returns what has arrived; false if the connection has ended.
fn echo(socket: &OwnedFd) -> bool {
    let mut bytes = [0; 4096];
    match sys::io::read(socket, &mut bytes) {
        Ok(0) => false,
        Ok(count) => {
            let came = bytes.get(..count).unwrap_or_default();
            // The loads wait for each byte: the socket has space.
            matches!(sys::io::write(socket, came), Ok(written) if written == count)
        }
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// One connection of bulk data. If it fails, the load reports it.
fn bulk(mut socket: File, service: Service) -> io::Result<()> {
    match service {
        Service::Source(bytes) => write_bytes(&mut socket, bytes, &AtomicU64::new(0)),
        Service::Sink | Service::Echo => {
            read_to_end(&mut socket)?;
            socket.write_all(&[DONE])
        }
    }
}

fn write_bytes(mut to: impl Write, bytes: u64, written: &AtomicU64) -> io::Result<()> {
    let block = vec![0x5a; BULK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let count = usize::try_from(left).map_or(BULK_BYTES, |left| left.min(BULK_BYTES));
        to.write_all(block.get(..count).unwrap_or_default())?;
        left -= count as u64;
        written.fetch_add(count as u64, Relaxed);
    }
    Ok(())
}

fn read_to_end(mut from: impl Read) -> io::Result<u64> {
    let mut buffer = vec![0; BULK_BYTES];
    let mut total = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => total += count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Sends `bytes` to a [`Service::Sink`], which must read all of them; returns the seconds.
pub(super) fn up(
    (entry, near): (&TunnelEntry, &ServerHost),
    bytes: u64,
    written: &AtomicU64,
) -> io::Result<f64> {
    let begun = Instant::now();
    let mut socket = entry.connect(near)?;
    write_bytes(&mut socket, bytes, written)?;
    sys::socket::shutdown(&socket, ShutdownDirection::Write)?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    match answer[..] {
        [DONE] => Ok(begun.elapsed().as_secs_f64()),
        _ => Err(io::Error::other("the target did not receive everything")),
    }
}

/// Receives `bytes` from a [`Service::Source`]; returns the seconds.
pub(super) fn down((entry, near): (&TunnelEntry, &ServerHost), bytes: u64) -> io::Result<f64> {
    let begun = Instant::now();
    let came = read_to_end(entry.connect(near)?)?;
    match came == bytes {
        true => Ok(begun.elapsed().as_secs_f64()),
        false => Err(io::Error::other(format!("{came} of {bytes} bytes arrived"))),
    }
}

/// Sends `bytes` through `streams` connections at once. Returns the seconds until the last one has
/// ended, and Jain's index of the bytes that each has sent when the first one ends: 1 if all are
/// equal, 1/n if one has sent everything.
pub(super) fn streams(
    at: (&TunnelEntry, &ServerHost),
    streams: usize,
    bytes: u64,
) -> io::Result<(f64, f64)> {
    let counts: Vec<AtomicU64> = (0..streams).map(|_| AtomicU64::new(0)).collect();
    let each = bytes / (streams as u64).max(1);
    let begun = Instant::now();
    let first_end = std::sync::OnceLock::new();
    thread::scope(|scope| {
        let threads: Vec<_> = counts
            .iter()
            .map(|count| {
                scope.spawn(|| {
                    let done = up(at, each, count);
                    first_end.get_or_init(|| {
                        let sent = counts.iter().map(|count| count.load(Relaxed));
                        sent.collect::<Vec<u64>>()
                    });
                    done
                })
            })
            .collect();
        for thread in threads {
            let ended = thread.join();
            ended.map_err(|_| io::Error::other("a stream panicked"))??;
        }
        Ok::<(), io::Error>(())
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let sent = first_end.into_inner().unwrap_or_default();
    Ok((seconds, jain(&sent)))
}

fn jain(values: &[u64]) -> f64 {
    #[allow(clippy::cast_precision_loss)]
    let values: Vec<f64> = values.iter().map(|value| *value as f64).collect();
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    #[allow(clippy::cast_precision_loss)]
    let count = values.len() as f64;
    sum * sum / (count * squares)
}

/// Sends one byte to a [`Service::Echo`] and waits for it, `trips` times after a tenth of them that
/// is not counted; returns the microseconds of each.
pub(super) fn ping(
    (entry, near): (&TunnelEntry, &ServerHost),
    trips: usize,
) -> io::Result<Vec<f64>> {
    let mut socket = entry.connect(near)?;
    let mut times = Vec::with_capacity(trips);
    for trip in 0..trips + trips / 10 {
        let begun = Instant::now();
        exchange(&mut socket, trip)?;
        if trip >= trips / 10 {
            times.push(begun.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(times)
}

fn exchange(socket: &mut File, number: usize) -> io::Result<()> {
    let [sent, ..] = number.to_le_bytes();
    socket.write_all(&[sent])?;
    let mut came = [0];
    socket.read_exact(&mut came)?;
    match came == [sent] {
        true => Ok(()),
        false => Err(io::Error::other("another byte came back")),
    }
}

/// Milliseconds from the connection to the first byte of a [`Service::Echo`], the median of `times`
/// connections, one after another.
pub(super) fn first_byte(
    (entry, near): (&TunnelEntry, &ServerHost),
    times: usize,
) -> io::Result<f64> {
    let mut each = Vec::new();
    for number in 0..times {
        let begun = Instant::now();
        let mut socket = entry.connect(near)?;
        exchange(&mut socket, number)?;
        let elapsed = begun.elapsed();
        each.push(elapsed.as_secs_f64() * 1e3);
        drop(socket);
        // The end of this connection must not delay the next one (Nagle's algorithm at a peer).
        thread::sleep(elapsed * 2);
    }
    Ok(stats::median(&each))
}

/// Opens `count` connections to a [`Service::Echo`]; one byte has travelled through each.
pub(super) fn open(
    (entry, near): (&TunnelEntry, &ServerHost),
    count: usize,
) -> io::Result<Vec<File>> {
    (0..count)
        .map(|number| {
            let mut socket = entry.connect(near)?;
            let failed = |error| io::Error::other(format!("connection {number}: {error}"));
            exchange(&mut socket, number).map_err(failed)?;
            Ok(socket)
        })
        .collect()
}

/// Makes `total` connections to a [`Service::Echo`], `at_once` at a time: each sends a byte, waits
/// for it and closes. Returns the seconds and the number of connections that failed.
pub(super) fn connections(
    (entry, near): (&TunnelEntry, &ServerHost),
    at_once: usize,
    total: usize,
) -> io::Result<(f64, usize)> {
    let epoll = Epoll::new()?;
    let mut events = Events::with_capacity(64);
    let mut open: BTreeMap<u64, File> = BTreeMap::new();
    let (mut started, mut failed) = (0_u64, 0_usize);
    let begun = Instant::now();
    loop {
        while open.len() < at_once && started < total as u64 {
            match begin(entry, near, started) {
                Ok(socket) => {
                    epoll.add(&socket, started, Interest::READABLE)?;
                    open.insert(started, socket);
                }
                Err(_) => failed += 1,
            }
            started += 1;
        }
        if open.is_empty() {
            return Ok((begun.elapsed().as_secs_f64(), failed));
        }
        if epoll.wait(&mut events, Some(PATIENCE))? == 0 {
            failed += open.len();
            open.clear();
        }
        for event in events.iter() {
            let Some(mut socket) = open.remove(&event.token) else {
                continue;
            };
            let mut came = [0];
            let sent = sent_by(event.token);
            if !matches!(socket.read(&mut came), Ok(1)) || came != [sent] {
                failed += 1;
            }
        }
    }
}

fn sent_by(number: u64) -> u8 {
    let [byte, ..] = number.to_le_bytes();
    byte
}

fn begin(entry: &TunnelEntry, near: &ServerHost, number: u64) -> io::Result<File> {
    let mut socket = entry.connect(near)?;
    socket.write_all(&[sent_by(number)])?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_one_for_equal_shares() {
        assert!((jain(&[7, 7, 7]) - 1.0).abs() < 1e-9);
        assert!((jain(&[9, 0, 0]) - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn loads_and_targets_agree_without_a_tunnel() {
        let here = ServerHost::here();
        let at = |target: &LoadTarget| TunnelEntry::Tcp(target.address);
        let sink = LoadTarget::start(&here, Service::Sink).unwrap();
        let sent = AtomicU64::new(0);
        up((&at(&sink), &here), 3_000_000, &sent).unwrap();
        assert_eq!(sent.into_inner(), 3_000_000);
        let (_, fairness) = streams((&at(&sink), &here), 4, 1 << 20).unwrap();
        assert!(fairness > 0.0 && fairness <= 1.0);
        let source = LoadTarget::start(&here, Service::Source(1 << 20)).unwrap();
        down((&at(&source), &here), 1 << 20).unwrap();
        assert!(down((&at(&source), &here), 1).is_err());
        let echo = LoadTarget::start(&here, Service::Echo).unwrap();
        assert_eq!(ping((&at(&echo), &here), 20).unwrap().len(), 20);
        let (_, failed) = connections((&at(&echo), &here), 8, 100).unwrap();
        assert_eq!(failed, 0);
        let gone = at(&echo);
        drop(echo);
        let (_, failed) = connections((&gone, &here), 8, 100).unwrap();
        assert_eq!(failed, 100);
    }
}
