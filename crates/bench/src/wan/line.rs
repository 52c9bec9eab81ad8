//! A long path between two TUN devices: every packet waits for earlier packets at the given rate
//! and then for half a round-trip time; it is dropped if the queue is full.
//!
//! Segments stay as large as the kernel hands them over, so that the line costs little CPU time;
//! a rate counts their bytes.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sys::tun::{MAX_PACKET_LEN, Tun};

/// Minimum queue length in bytes before packets are dropped.
const MIN_QUEUE_BYTES: u64 = 1 << 20;
/// Limit on packets read from one device before due packets are written.
const BURST: usize = 64;
/// Number of buffers kept for reuse, about 130 MB.
const KEPT_BUFFERS: usize = 2000;

/// Delay and rate of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Path {
    /// Round-trip time.
    pub(super) rtt: Duration,
    /// Bits per second in each direction; 0 for no limit.
    pub(super) bits_per_second: u64,
}

impl Path {
    /// How long a packet of `bytes` keeps the line busy.
    fn duration_of(&self, bytes: u64) -> Duration {
        match self.bits_per_second {
            0 => Duration::ZERO,
            rate => {
                let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(rate);
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        }
    }

    /// Bytes that may wait for the rate: those of one round-trip time.
    fn queue_bytes(&self) -> u64 {
        let nanos = self.rtt.as_nanos() * u128::from(self.bits_per_second) / 8;
        u64::try_from(nanos / 1_000_000_000)
            .unwrap_or(u64::MAX)
            .max(MIN_QUEUE_BYTES)
    }
}

/// One direction: when the line is free for the next packet.
#[derive(Debug, Default)]
struct LineDirection {
    free_at: Option<Instant>,
}

impl LineDirection {
    /// Arrival time of a packet of `bytes` that is sent `now`; `None` if it is dropped.
    fn due(&mut self, path: &Path, now: Instant, bytes: u64) -> Option<Instant> {
        let free = self.free_at.map_or(now, |free| free.max(now));
        if free - now > path.duration_of(path.queue_bytes()) {
            return None;
        }
        let sent = free + path.duration_of(bytes);
        self.free_at = Some(sent);
        Some(sent + path.rtt / 2)
    }
}

/// A running line; dropping it ends the line.
#[derive(Debug)]
pub(super) struct DelayLine {
    path: Arc<Mutex<Path>>,
    /// Closing it ends the thread.
    stop: Option<OwnedFd>,
    thread: Option<std::thread::JoinHandle<io::Result<()>>>,
}

impl DelayLine {
    /// Joins two devices.
    pub(super) fn start(one: Tun, other: Tun, path: Path) -> io::Result<Self> {
        for tun in [&one, &other] {
            sys::io::set_nonblocking(tun, true)?;
        }
        let (stopped, stop) = sys::io::pipe()?;
        let path = Arc::new(Mutex::new(path));
        let shared = Arc::clone(&path);
        let thread = std::thread::Builder::new()
            .name("line".into())
            .spawn(move || {
                // A line does not wait for the ends' CPU; where that is refused it does.
                let _ = sys::process::set_nice(-20);
                carry(&[one, other], &stopped, &shared)
            })?;
        Ok(Self {
            path,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Changes the path for later packets.
    pub(super) fn set(&self, path: Path) {
        *self.path.lock().unwrap_or_else(PoisonError::into_inner) = path;
    }
}

impl Drop for DelayLine {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A packet on its way.
struct Packet {
    due: Instant,
    len: usize,
    buffer: Vec<u8>,
}

/// Carries packets between the devices until `stop` hangs up.
fn carry(tuns: &[Tun; 2], stop: &OwnedFd, path: &Mutex<Path>) -> io::Result<()> {
    let mut directions = [LineDirection::default(), LineDirection::default()];
    let mut under_way: [VecDeque<Packet>; 2] = [VecDeque::new(), VecDeque::new()];
    let mut spare: Vec<Vec<u8>> = Vec::new();
    loop {
        let now = Instant::now();
        let next = under_way
            .iter()
            .filter_map(|queue| queue.front().map(|packet| packet.due))
            .min();
        let mut fds = [
            sys::io::PollFd::new(tuns[0].as_fd(), true, false),
            sys::io::PollFd::new(tuns[1].as_fd(), true, false),
            sys::io::PollFd::new(stop.as_fd(), true, false),
        ];
        sys::io::poll(&mut fds, next.map(|due| due.saturating_duration_since(now)))?;
        let [one, other, stop] = fds;
        if stop.is_readable() {
            return Ok(());
        }
        let path = *path.lock().unwrap_or_else(PoisonError::into_inner);
        let readable = [one.is_readable(), other.is_readable()];
        for (index, queue) in under_way.iter_mut().enumerate() {
            let (Some(from), Some(to)) = (tuns.get(index), tuns.get(1 - index)) else {
                continue;
            };
            if readable.get(index) == Some(&true)
                && let Some(direction) = directions.get_mut(index)
            {
                take(from, direction, &path, queue, &mut spare)?;
            }
            deliver(to, queue, &mut spare)?;
        }
    }
}

/// Reads waiting packets from a device, up to a limit, so that the other direction is served too.
fn take(
    from: &Tun,
    direction: &mut LineDirection,
    path: &Path,
    queue: &mut VecDeque<Packet>,
    spare: &mut Vec<Vec<u8>>,
) -> io::Result<()> {
    for _ in 0..BURST {
        let mut buffer = spare.pop().unwrap_or_else(|| vec![0; MAX_PACKET_LEN]);
        let len = match sys::io::read(from, &mut buffer) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                spare.push(buffer);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let bytes = u64::try_from(len).unwrap_or(u64::MAX);
        match direction.due(path, Instant::now(), bytes) {
            Some(due) => join(queue, Packet { due, len, buffer }),
            None => spare.push(buffer),
        }
    }
    Ok(())
}

/// Puts a packet where its time is: what left before the path became shorter may arrive later, and
/// does not hold it up.
fn join(queue: &mut VecDeque<Packet>, packet: Packet) {
    let later = |other: &&Packet| other.due > packet.due;
    let overtaken = queue.iter().rev().take_while(later).count();
    queue.insert(queue.len() - overtaken, packet);
}

/// Writes the packets that are due.
fn deliver(to: &Tun, queue: &mut VecDeque<Packet>, spare: &mut Vec<Vec<u8>>) -> io::Result<()> {
    let now = Instant::now();
    while queue.front().is_some_and(|packet| packet.due <= now) {
        let Some(packet) = queue.pop_front() else {
            return Ok(());
        };
        let bytes = packet.buffer.get(..packet.len).unwrap_or_default();
        match sys::io::write(to, bytes) {
            // A full device loses the packet, as a real line does.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.raw_os_error().is_some_and(is_refusal) => {}
            Err(error) => return Err(error),
        }
        if spare.len() < KEPT_BUFFERS {
            spare.push(packet.buffer);
        }
    }
    Ok(())
}

/// Whether the kernel refused one packet rather than the device: EINVAL for one that it finds
/// malformed, ENOBUFS and ENOMEM for want of room.
fn is_refusal(code: i32) -> bool {
    const ENOMEM: i32 = 12;
    const EINVAL: i32 = 22;
    const ENOBUFS: i32 = 105;
    [ENOMEM, EINVAL, ENOBUFS].contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_wait_for_the_delay_and_for_those_before_them() {
        // 8 Mbit/s: a byte is a microsecond.
        let path = Path {
            rtt: Duration::from_millis(10),
            bits_per_second: 8_000_000,
        };
        let mut direction = LineDirection::default();
        let start = Instant::now();
        let mut due = |after_us: u64, bytes| {
            let at = start + Duration::from_micros(after_us);
            direction.due(&path, at, bytes).map(|due| due - start)
        };
        assert_eq!(due(0, 1000), Some(Duration::from_micros(6000)));
        assert_eq!(due(0, 1000), Some(Duration::from_micros(7000)));
        // The line is free again: only the delay is left.
        assert_eq!(due(9000, 1000), Some(Duration::from_micros(15_000)));
        // More than the queue holds.
        assert_eq!(
            due(9000, MIN_QUEUE_BYTES),
            Some(Duration::from_micros(15_000 + MIN_QUEUE_BYTES))
        );
        assert_eq!(due(9000, 1), None);
        assert!(due(12_000, 1).is_some());
    }

    #[test]
    fn what_is_sent_over_a_shorter_path_overtakes() {
        let now = Instant::now();
        let mut queue = VecDeque::new();
        for (due_ms, len) in [(100, 1), (100, 2), (25, 3), (25, 4), (200, 5)] {
            let due = now + Duration::from_millis(due_ms);
            let buffer = Vec::new();
            join(&mut queue, Packet { due, len, buffer });
        }
        let order: Vec<usize> = queue.iter().map(|packet| packet.len).collect();
        assert_eq!(order, [3, 4, 1, 2, 5]);
    }

    #[test]
    fn without_a_rate_only_the_delay_counts() {
        let path = Path {
            rtt: Duration::from_millis(10),
            bits_per_second: 0,
        };
        let mut direction = LineDirection::default();
        let now = Instant::now();
        for _ in 0..1000 {
            let due = direction.due(&path, now, 65_536).unwrap();
            assert_eq!(due - now, Duration::from_millis(5));
        }
    }
}
