//! How many bytes READs and WRITEs may be about that have no answer yet.
//!
//! Too few do not fill a long path. Too many cost as well where they wait at the server: OpenSSH
//! carries READs out as fast as they come, and keeps what it cannot send in buffers that it makes
//! larger in small steps, of which each copies and clears all that is in them. So of such a server
//! no more is asked for than came of late in a round trip, and as much beside it as lets its TCP
//! go faster.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// In flight at the beginning, and the most that it grows to while nothing is said against it,
/// bytes.
const FIRST_BYTES: u64 = 16 << 20;
const MOST_BYTES: u64 = 64 << 20;
/// What is asked for beyond what comes in a round trip, of a server where it piles up, bytes. The
/// speed may grow by so much in a round trip; what OpenSSH's buffer costs grows with its square.
const AHEAD_BYTES: u64 = 4 << 20;
/// The most of such a server, bytes.
const MOST_FOLLOWING_BYTES: u64 = 256 << 20;
/// A round trip is looked at in so many parts.
const PARTS: u32 = 8;
/// The shortest part.
const LEAST_PART: Duration = Duration::from_millis(1);
/// How long a speed counts once it was reached: TCP pauses now and then (BBR: for 200 ms).
const COUNTS: Duration = Duration::from_secs(1);

/// The flow of one connection. See the module's head.
#[derive(Debug)]
pub(super) struct Flow {
    bytes: u64,
    limit: u64,
    was_full: bool,
    arrivals: Option<Arrivals>,
    /// The shortest time that an answer has taken.
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
    /// What READs bring piles up at the server.
    pub(super) fn piles_up(&mut self) {
        self.arrivals.get_or_insert_default();
    }

    /// Bytes without an answer.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// An answer came so long after its request had left.
    pub(super) fn took(&mut self, time: Duration) {
        self.round_trip = Some(self.round_trip.map_or(time, |least| least.min(time)));
    }

    /// A request about so many bytes is sent.
    pub(super) fn goes(&mut self, len: u32) {
        self.bytes += u64::from(len);
    }

    /// As much is in flight as may be of any server; where that follows what comes, it binds all
    /// the time and says nothing.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.limit
    }

    /// Another WRITE may go out.
    pub(super) fn takes_write(&mut self) -> bool {
        let takes = !self.is_full();
        self.was_full |= !takes;
        takes
    }

    /// Another READ may go out.
    pub(super) fn takes_read(&mut self) -> bool {
        match &self.arrivals {
            Some(arrivals) => {
                let most = arrivals.high().saturating_add(AHEAD_BYTES);
                self.bytes < most.min(MOST_FOLLOWING_BYTES)
            }
            None => self.takes_write(),
        }
    }

    /// A request about so many bytes was answered; the clock is asked only where it matters when.
    pub(super) fn answered(&mut self, len: u32, now: impl FnOnce() -> Instant) {
        let len = u64::from(len);
        self.bytes = self.bytes.saturating_sub(len);
        if self.was_full && self.limit < MOST_BYTES {
            // What is in flight doubles in a round trip while it is what binds.
            self.limit += len;
            self.was_full = self.bytes >= self.limit;
        }
        if let (Some(arrivals), Some(round_trip)) = (&mut self.arrivals, self.round_trip) {
            arrivals.count(len, round_trip, now());
        }
    }

    /// There will be no answers.
    pub(super) fn forget(&mut self) {
        self.bytes = 0;
    }
}

/// What came, and when.
#[derive(Debug, Default)]
struct Arrivals {
    all: u64,
    /// All that had come at some moments of the last round trip, oldest first; the first is the
    /// last one before it.
    marks: VecDeque<(Instant, u64)>,
    /// The most that came in a round trip, in this stretch of [`COUNTS`] and in the one before.
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

/// What comes in a round trip where so much came in a longer time; in a shorter one no more than
/// that is known.
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

    /// A server at the end of a path, whose TCP gives so many bytes a millisecond; what it is
    /// asked for waits there until they have left.
    struct Far {
        flow: Flow,
        now: Instant,
        /// When the requests that are on their way reach it.
        asked: VecDeque<Instant>,
        /// When the answers that are on their way reach us.
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

        /// A millisecond; gives how many bytes wait at the server.
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
            // What could not be used is gone.
            self.credit = self.credit.min(u64::from(BLOCK));
            self.piled as u64 * u64::from(BLOCK)
        }
    }

    /// A TCP whose speed doubles in each round trip, up to a limit: it is never held up for long,
    /// and little waits at the server.
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
        assert!(most <= AHEAD_BYTES + (2 << 20), "{most} bytes wait");
        let passed = far.passed;
        for _ in 0..500 {
            far.tick(limit);
        }
        // In the end it takes all that the path gives.
        assert!((far.passed - passed) * 100 > 500 * limit * 95);
        // A path that gives less leaves what was asked for, and no more.
        for _ in 0..4_000 {
            most = far.tick(limit / 10);
        }
        assert!(most <= AHEAD_BYTES + (2 << 20), "{most} bytes wait");
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

    /// Without an answer there is no round trip yet: what may be ahead may go.
    #[test]
    fn before_anything_is_known_a_little_may_go() {
        let mut flow = Flow::default();
        flow.piles_up();
        while flow.takes_read() {
            flow.goes(BLOCK);
        }
        let little = AHEAD_BYTES..AHEAD_BYTES + u64::from(BLOCK);
        assert!(little.contains(&flow.bytes()), "{}", flow.bytes());
        flow.answered(BLOCK, Instant::now);
        assert!(flow.takes_read() && flow.takes_write());
        flow.forget();
        assert_eq!(flow.bytes(), 0);
    }
}
