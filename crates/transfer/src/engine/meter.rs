//! Where the time of a copy goes: what the line of progress says that it waits for.
//!
//! The engine's thread counts for itself only how long it waits for connections. The rest of its
//! time it was at work, ready without a processor, both of which the kernel counts, or held up in a
//! system call: on a thread that does nothing else, by a disk. So neither a file's bytes nor a
//! packet's cost a look at a clock; the kernel is asked ten times a second. Where it does not tell
//! for how long a thread was ready ([`sys::thread::ReadyTime`]), that counts as the disk's.
//!
//! Connections have threads of their own, which tell what they wait for ([`LinkTimes`]).

use std::ops::Sub;
use std::time::{Duration, Instant};

use sys::thread::{ReadyTime, processor_time};

use crate::report::Times;

/// How often the time is shared out.
const SPAN: Duration = Duration::from_millis(100);

/// Which local files a work moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// It reads them.
    Source,
    /// It writes them.
    Target,
    /// None: from server to server.
    Neither,
}

/// Where the time of connections went so far: the mean of all. What is left is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkTimes {
    /// At work.
    pub work: Duration,
    /// Waiting for the network to take more.
    pub network: Duration,
    /// Waiting for the peer to take more.
    pub peer: Duration,
    /// Waiting for what does not tell which of these two it was.
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

/// What the engine waits for when it waits for its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// That it may go on, at the rate that was asked for.
    Asked,
    /// Answers, with as much in flight as may be.
    Full,
    /// Answers, or room for more.
    Answers,
}

/// What was counted in a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Span {
    wall: Duration,
    /// Of the engine's thread.
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
            // A child: what it waits for is its own matter.
            times.network_or_peer = far;
            return times;
        };
        times.cpu = cpu.max(links.work.min(self.wall));
        times.network = links.network;
        times.peer = links.peer;
        times.network_or_peer = links.network_or_peer;
        // Only while nobody has anything to do here, it is the other side that does.
        let known = links.work + links.network + links.peer + links.network_or_peer;
        let idle = far.min(self.wall.saturating_sub(known));
        let full = idle.min(self.full);
        times.peer += full;
        times.network_or_peer += idle - full;
        times
    }
}

/// Counts for one work. See the module's head.
#[derive(Debug)]
pub(crate) struct Meter {
    disk: Disk,
    ready: ReadyTime,
    begun: Instant,
    /// Totals at the beginning of the span.
    processor_before: Duration,
    ready_before: Option<Duration>,
    links_before: Option<LinkTimes>,
    span: Span,
}

impl Meter {
    /// Begins; to be used on this thread only.
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

    /// The engine has waited for so long.
    pub(crate) fn waited(&mut self, why: Waits, time: Duration) {
        let total = match why {
            Waits::Asked => &mut self.span.asked,
            Waits::Full => &mut self.span.full,
            Waits::Answers => &mut self.span.answers,
        };
        *total += time;
    }

    /// A span is over.
    pub(crate) fn is_due(&self) -> bool {
        self.begun.elapsed() >= SPAN
    }

    /// Where the time of the span went; `links` is what connections tell now. The next begins.
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
        // A thread that had no processor waited for no disk.
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
