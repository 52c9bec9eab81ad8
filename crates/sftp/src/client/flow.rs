//! Limits the number of bytes covered by unanswered READ and WRITE requests.
//!
//! Too few bytes do not fill a long path. Too many cost time if they queue at the server: OpenSSH
//! carries out READs as fast as they arrive and keeps the unsent data in buffers that it enlarges
//! in small steps, copying and clearing the whole content each time. From such a server, no more is
//! requested than arrived recently in a round trip, plus a margin that lets its TCP accelerate.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Initial limit of the bytes in flight, and the maximum that it grows to for servers without a
/// growing queue.
const FIRST_BYTES: u64 = 16 << 20;
const MOST_BYTES: u64 = 64 << 20;
/// Margin beyond the bytes that arrive in a round trip, for servers with a growing queue, bytes.
/// The rate may grow by this much per round trip; the cost of OpenSSH's buffer grows with the
/// square of the margin.
const MARGIN_BYTES: u64 = 4 << 20;
/// Maximum number of bytes in flight for such a server.
const MOST_FOLLOWING_BYTES: u64 = 256 << 20;
/// Number of sampling intervals per round trip.
const PARTS: u32 = 8;
/// Minimum sampling interval.
const LEAST_PART: Duration = Duration::from_millis(1);
/// Minimum time for which a measured rate counts: TCP pauses now and then (BBR: for 200 ms).
const COUNTS: Duration = Duration::from_secs(1);

/// Flow control of one connection, as the module's documentation describes.
#[derive(Debug)]
pub(super) struct Flow {
    bytes: u64,
    limit: u64,
    was_full: bool,
    arrivals: Option<Arrivals>,
    /// Minimum time measured from a request to its answer.
    round_trip: Option<Duration>,
}

impl Default for Flow {
    fn default() -> Self {
        Self {
            bytes: 0,
            limit: FIRST_BYTES,
            was_full: false,
            arrivals: None,
            round_trip: None,
        }
    }
}

impl Flow {
    /// Selects the limit for a server whose answers to READs queue up.
    pub(super) fn piles_up(&mut self) {
        self.arrivals.get_or_insert_default();
    }

    /// Number of bytes covered by unanswered requests.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records the time from sending a request to its answer.
    pub(super) fn took(&mut self, time: Duration) {
        self.round_trip = Some(self.round_trip.map_or(time, |least| least.min(time)));
    }

    /// Records that a request for `len` bytes is sent.
    pub(super) fn goes(&mut self, len: u32) {
        self.bytes += u64::from(len);
    }

    /// True if the bytes in flight have reached the limit for ordinary servers. For a server with a
    /// growing queue, its own limit always binds and says nothing about waiting.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.limit
    }

    /// Returns true if another WRITE may be sent.
    pub(super) fn takes_write(&mut self) -> bool {
        let takes = !self.is_full();
        self.was_full |= !takes;
        takes
    }

    /// Returns true if another READ may be sent.
    pub(super) fn takes_read(&mut self) -> bool {
        match &self.arrivals {
            Some(arrivals) => {
                let most = arrivals.high().saturating_add(MARGIN_BYTES);
                self.bytes < most.min(MOST_FOLLOWING_BYTES)
            }
            None => self.takes_write(),
        }
    }

    /// Records that a request for `len` bytes was answered; `now` is called only if the time
    /// matters.
    pub(super) fn answered(&mut self, len: u32, now: impl FnOnce() -> Instant) {
        let len = u64::from(len);
        self.bytes = self.bytes.saturating_sub(len);
        if self.was_full && self.limit < MOST_BYTES {
            // The limit doubles per round trip as long as it binds.
            self.limit += len;
            self.was_full = self.bytes >= self.limit;
        }
        if let (Some(arrivals), Some(round_trip)) = (&mut self.arrivals, self.round_trip) {
            arrivals.count(len, round_trip, now());
        }
    }

    /// Forgets all unanswered requests.
    pub(super) fn forget(&mut self) {
        self.bytes = 0;
    }
}

/// Number and times of received bytes.
#[derive(Debug, Default)]
struct Arrivals {
    all: u64,
    /// Total bytes received at sampled times of the last round trip, oldest first; the first sample
    /// is the last one before that round trip.
    marks: VecDeque<(Instant, u64)>,
    /// Maximum number of bytes received in a round trip, in the current period of [`COUNTS`] and in
    /// the one before.
    highs: [u64; 2],
    since: Option<Instant>,
}

impl Arrivals {
    fn count(&mut self, len: u64, round_trip: Duration, now: Instant) {
        self.all += len;
        let is_before = |at: &Instant| now.saturating_duration_since(*at) >= round_trip;
        while let Some((next, _)) = self.marks.get(1)
            && is_before(next)
        {
            self.marks.pop_front();
        }
        if let Some((at, before)) = self.marks.front() {
            let came = self.all.saturating_sub(*before);
            let elapsed = now.saturating_duration_since(*at);
            self.note(in_round_trip(came, elapsed, round_trip), now);
        }
        let part = (round_trip / PARTS).max(LEAST_PART);
        let last = self.marks.back();
        if last.is_none_or(|(at, _)| now.saturating_duration_since(*at) >= part) {
            self.marks.push_back((now, self.all));
        }
    }

    fn note(&mut self, speed: u64, now: Instant) {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= COUNTS {
            self.since = Some(now);
            self.highs = [0, self.highs[0]];
        }
        self.highs[0] = self.highs[0].max(speed);
    }

    fn high(&self) -> u64 {
        self.highs[0].max(self.highs[1])
    }
}

/// Scales `came` bytes in a time longer than a round trip to one round trip; returns `came` for a
/// shorter time.
fn in_round_trip(came: u64, elapsed: Duration, round_trip: Duration) -> u64 {
    if elapsed <= round_trip {
        return came;
    }
    let scaled = u128::from(came) * round_trip.as_nanos() / elapsed.as_nanos().max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u32 = 255 << 10;
    const ROUND_TRIP: Duration = Duration::from_millis(50);

    /// Simulates a server at the end of a path whose TCP carries a number of bytes per millisecond;
    /// requested data queues there until it is sent.
    struct Far {
        flow: Flow,
        now: Instant,
        /// Arrival times at the server of requests in flight.
        asked: VecDeque<Instant>,
        /// Arrival times at the client of answers in flight.
        comes: VecDeque<Instant>,
        credit: u64,
        piled: usize,
        passed: u64,
    }

    impl Far {
        fn new() -> Self {
            let mut flow = Flow::default();
            flow.piles_up();
            flow.took(ROUND_TRIP * 3);
            flow.took(ROUND_TRIP);
            Self {
                flow,
                now: Instant::now(),
                asked: VecDeque::new(),
                comes: VecDeque::new(),
                credit: 0,
                piled: 0,
                passed: 0,
            }
        }

        /// Advances by a millisecond; returns the number of bytes queued at the server.
        fn tick(&mut self, speed: u64) -> u64 {
            self.now += Duration::from_millis(1);
            while self.comes.front().is_some_and(|at| *at <= self.now) {
                self.comes.pop_front();
                self.flow.answered(BLOCK, || self.now);
                self.passed += u64::from(BLOCK);
            }
            while self.flow.takes_read() {
                self.flow.goes(BLOCK);
                self.asked.push_back(self.now + ROUND_TRIP / 2);
            }
            while self.asked.front().is_some_and(|at| *at <= self.now) {
                self.asked.pop_front();
                self.piled += 1;
            }
            self.credit += speed;
            while self.credit >= u64::from(BLOCK) && self.piled > 0 {
                self.credit -= u64::from(BLOCK);
                self.piled -= 1;
                self.comes.push_back(self.now + ROUND_TRIP / 2);
            }
            // Unused capacity is lost.
            self.credit = self.credit.min(u64::from(BLOCK));
            self.piled as u64 * u64::from(BLOCK)
        }
    }

    /// A TCP whose rate doubles in each round trip up to a limit: it is never starved for long, and
    /// little data queues at the server.
    #[test]
    fn a_server_that_piles_up_is_asked_for_what_its_path_takes() {
        let mut far = Far::new();
        let limit = 600 << 10;
        let mut most = 0;
        let mut speed = 4 << 10;
        for ms in 1..=1_000_u64 {
            if ms % 50 == 0 {
                speed = (speed * 2).min(limit);
            }
            most = most.max(far.tick(speed));
        }
        assert!(most <= MARGIN_BYTES + (2 << 20), "{most} bytes wait");
        let passed = far.passed;
        for _ in 0..500 {
            far.tick(limit);
        }
        // In the end the transfer uses the whole capacity of the path.
        assert!((far.passed - passed) * 100 > 500 * limit * 95);
        // When the capacity of the path drops, no more data queues than was requested.
        for _ in 0..4_000 {
            most = far.tick(limit / 10);
        }
        assert!(most <= MARGIN_BYTES + (2 << 20), "{most} bytes wait");
    }

    #[test]
    fn others_may_be_asked_for_twice_as_much_in_each_round_trip() {
        const MIB: u32 = 1 << 20;
        let mut flow = Flow::default();
        let ask = |flow: &mut Flow| {
            while flow.takes_read() {
                flow.goes(MIB);
            }
        };
        ask(&mut flow);
        for limit in [FIRST_BYTES, 2 * FIRST_BYTES, MOST_BYTES, MOST_BYTES] {
            assert_eq!(flow.bytes(), limit);
            for _ in 0..limit / u64::from(MIB) {
                flow.answered(MIB, Instant::now);
                ask(&mut flow);
            }
        }
    }

    /// Before the first answer no round trip is known: only the margin is requested.
    #[test]
    fn before_anything_is_known_a_little_may_go() {
        let mut flow = Flow::default();
        flow.piles_up();
        while flow.takes_read() {
            flow.goes(BLOCK);
        }
        let little = MARGIN_BYTES..MARGIN_BYTES + u64::from(BLOCK);
        assert!(little.contains(&flow.bytes()), "{}", flow.bytes());
        flow.answered(BLOCK, Instant::now);
        assert!(flow.takes_read() && flow.takes_write());
        flow.forget();
        assert_eq!(flow.bytes(), 0);
    }
}
