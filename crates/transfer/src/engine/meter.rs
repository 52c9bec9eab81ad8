//! Measures where the time of a copy goes, for the progress line.
//!
//! The engine's thread measures only how long it waits for connections. The rest of its time it was
//! running or waiting for a processor, both of which the kernel counts, or blocked in a system
//! call: for a thread that does nothing else, by a disk. Neither the bytes of a file nor a packet
//! thus costs a clock call; the kernel is asked ten times a second. If the kernel does not report
//! the time a thread waited for a processor ([`sys::thread::ReadyTime`]), that time counts as the
//! disk's.
//!
//! Connections have threads of their own, which report their waiting times ([`LinkTimes`]).

use std::ops::Sub;
use std::time::{Duration, Instant};

use sys::thread::{ReadyTime, processor_time};

use crate::report::Times;

/// Length of a measured span.
const SPAN: Duration = Duration::from_millis(100);

/// The local files that a work reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// The work reads local files.
    Source,
    /// The work writes local files.
    Target,
    /// None: the work copies from server to server.
    Neither,
}

/// Where the time of connections went so far: the mean of all connections. The rest is idle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkTimes {
    /// Running.
    pub work: Duration,
    /// Waiting until the network accepts more data.
    pub network: Duration,
    /// Waiting until the peer accepts more data.
    pub peer: Duration,
    /// Waiting, for the network or the peer.
    pub network_or_peer: Duration,
}

impl Sub for LinkTimes {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            work: self.work.saturating_sub(before.work),
            network: self.network.saturating_sub(before.network),
            peer: self.peer.saturating_sub(before.peer),
            network_or_peer: self.network_or_peer.saturating_sub(before.network_or_peer),
        }
    }
}

/// The reason why the engine waits for its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// The rate limit that the user set.
    Asked,
    /// Answers, with the maximum number of bytes in flight.
    Full,
    /// Answers, or permission to send more.
    Answers,
}

/// The times measured in a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Span {
    wall: Duration,
    /// Running time of the engine's thread.
    processor: Duration,
    ready: Duration,
    asked: Duration,
    full: Duration,
    answers: Duration,
    links: Option<LinkTimes>,
}

impl Span {
    fn times(&self, disk: Disk) -> Times {
        let far = self.full + self.answers;
        let busy = self.wall.saturating_sub(self.asked + far);
        let cpu = (self.processor + self.ready).min(busy);
        let held_up = busy - cpu;
        let mut times = Times {
            asked: self.asked,
            cpu,
            ..Times::default()
        };
        match disk {
            Disk::Source => times.source = held_up,
            Disk::Target => times.target = held_up,
            Disk::Neither => {}
        }
        let Some(links) = self.links else {
            // A child process: its waiting times are unknown.
            times.network_or_peer = far;
            return times;
        };
        times.cpu = cpu.max(links.work.min(self.wall));
        times.network = links.network;
        times.peer = links.peer;
        times.network_or_peer = links.network_or_peer;
        // Only while both the engine and the connections are idle is the other side the cause.
        let known = links.work + links.network + links.peer + links.network_or_peer;
        let idle = far.min(self.wall.saturating_sub(known));
        let full = idle.min(self.full);
        times.peer += full;
        times.network_or_peer += idle - full;
        times
    }
}

/// Measures the times of one work, as the module's documentation describes.
#[derive(Debug)]
pub(crate) struct Meter {
    disk: Disk,
    ready: ReadyTime,
    begun: Instant,
    /// Totals at the start of the span.
    processor_before: Duration,
    ready_before: Option<Duration>,
    links_before: Option<LinkTimes>,
    span: Span,
}

impl Meter {
    /// Starts measuring; use only on this thread.
    pub(crate) fn begin(disk: Disk, links: Option<LinkTimes>) -> Self {
        let ready = ReadyTime::of_this_thread();
        Self {
            disk,
            begun: Instant::now(),
            processor_before: processor_time(),
            ready_before: ready.total(),
            ready,
            links_before: links,
            span: Span::default(),
        }
    }

    /// Records that the engine waited for `time`.
    pub(crate) fn waited(&mut self, why: Waits, time: Duration) {
        let total = match why {
            Waits::Asked => &mut self.span.asked,
            Waits::Full => &mut self.span.full,
            Waits::Answers => &mut self.span.answers,
        };
        *total += time;
    }

    /// True if the span is over.
    pub(crate) fn is_due(&self) -> bool {
        self.begun.elapsed() >= SPAN
    }

    /// Ends the span and returns where its time went; `links` has the connections' current totals.
    pub(crate) fn take(&mut self, links: Option<LinkTimes>) -> Times {
        let (now, processor, ready) = (Instant::now(), processor_time(), self.ready.total());
        let mut span = std::mem::take(&mut self.span);
        span.wall = now.duration_since(self.begun);
        span.processor = processor.saturating_sub(self.processor_before);
        span.ready = match (ready, self.ready_before) {
            (Some(ready), Some(before)) => ready.saturating_sub(before),
            _ => Duration::ZERO,
        };
        span.links = match (links, self.links_before) {
            (Some(links), Some(before)) => Some(links - before),
            _ => None,
        };
        self.begun = now;
        (self.processor_before, self.ready_before) = (processor, ready);
        self.links_before = links;
        span.times(self.disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Limit;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn links(work: u64, network: u64, peer: u64) -> Option<LinkTimes> {
        Some(LinkTimes {
            work: ms(work),
            network: ms(network),
            peer: ms(peer),
            network_or_peer: Duration::ZERO,
        })
    }

    #[test]
    fn what_is_neither_work_nor_a_wait_is_the_disk_s() {
        let span = Span {
            wall: ms(100),
            processor: ms(5),
            ready: ms(10),
            answers: ms(5),
            links: links(10, 0, 0),
            ..Span::default()
        };
        let times = span.times(Disk::Source);
        assert_eq!((times.source, times.target), (ms(80), ms(0)));
        assert_eq!(times.limit(), Limit::Source);
        assert_eq!(span.times(Disk::Target).limit(), Limit::Target);
        assert_eq!(times.network_or_peer, ms(5));
        // A thread that waited for a processor did not wait for a disk.
        let starved = Span {
            ready: ms(85),
            ..span
        };
        assert_eq!(starved.times(Disk::Source).limit(), Limit::Cpu);
    }

    #[test]
    fn what_connections_tell_counts_before_what_the_engine_waits_for() {
        let waits = |full, answers, links| Span {
            wall: ms(100),
            processor: ms(10),
            full: ms(full),
            answers: ms(answers),
            links,
            ..Span::default()
        };
        let limit = |span: Span| span.times(Disk::Source).limit();
        assert_eq!(limit(waits(0, 90, links(95, 0, 0))), Limit::Cpu);
        assert_eq!(limit(waits(0, 90, links(5, 90, 0))), Limit::Network);
        assert_eq!(limit(waits(0, 90, links(5, 0, 90))), Limit::Peer);
        assert_eq!(limit(waits(0, 90, links(5, 0, 0))), Limit::NetworkOrPeer);
        assert_eq!(limit(waits(90, 0, links(5, 0, 0))), Limit::Peer);
        assert_eq!(limit(waits(90, 0, None)), Limit::NetworkOrPeer);
        let asked = Span {
            asked: ms(90),
            ..waits(0, 0, links(5, 0, 0))
        };
        assert_eq!(limit(asked), Limit::Asked);
        assert_eq!(Times::default().limit(), Limit::Unknown);
    }

    #[test]
    fn spans_follow_each_other() {
        let mut meter = Meter::begin(Disk::Source, links(0, 0, 0));
        let begun = meter.begun;
        std::thread::sleep(ms(20));
        let slept = meter.take(links(1, 2, 3));
        assert!(slept.source > Duration::ZERO && meter.begun > begun);
        assert_eq!((slept.network, slept.peer), (ms(2), ms(3)));
        meter.waited(Waits::Asked, ms(7));
        let next = meter.take(links(1, 2, 5));
        assert_eq!((next.network, next.peer, next.asked), (ms(0), ms(2), ms(7)));
        assert_eq!(meter.span, Span::default());
    }
}
