//! What a monitor reports to the listener for the metrics (MetricsListen, MetricsFile): attempts to
//! log in, and what the session has done.
//!
//! Invariants: a report is one write that never waits, and is lost if the listener does not keep up;
//! only monitors have the pipe, so that a session process can claim traffic of its own session and
//! nothing else, and no more than a fast network carries.

use std::cell::RefCell;
use std::os::fd::OwnedFd;

use privsep::{AttemptsReport, Message, SessionReport, TrafficReport, roles};

use super::chains::ChainMethod;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    /// The user has logged in.
    Accepted,
    /// Another method must follow.
    Partial,
    /// It failed.
    Failed,
}

impl AttemptOutcome {
    /// All outcomes, in the order of their declaration.
    pub(crate) const ALL: [Self; 3] = [Self::Accepted, Self::Partial, Self::Failed];
}

/// Number of pairs of a method and an outcome.
pub(crate) const ATTEMPT_COUNTS: usize = ChainMethod::ALL.len() * AttemptOutcome::ALL.len();

/// Attempts of one connection: for each method, those of each outcome.
#[derive(Debug, Default)]
pub(crate) struct AttemptCounts(RefCell<[u32; ATTEMPT_COUNTS]>);

impl AttemptCounts {
    /// Counts an attempt.
    pub(crate) fn count(&self, method: ChainMethod, outcome: AttemptOutcome) {
        let pairs = ChainMethod::ALL.into_iter().flat_map(|method| {
            let outcomes = AttemptOutcome::ALL.into_iter();
            outcomes.map(move |outcome| (method, outcome))
        });
        let mut counts = self.0.borrow_mut();
        let counted = counts.iter_mut().zip(pairs);
        for (count, _) in counted.filter(|(_, pair)| *pair == (method, outcome)) {
            *count = count.saturating_add(1);
        }
    }

    /// The report, unless nothing was tried.
    pub(crate) fn report(&self) -> Option<AttemptsReport> {
        let counts = self.0.borrow();
        counts
            .iter()
            .any(|count| *count > 0)
            .then(|| AttemptsReport {
                counts: counts.to_vec(),
            })
    }
}

/// The pipe to the listener; none without metrics.
#[derive(Debug, Default)]
pub(crate) struct Reports(Option<OwnedFd>);

impl Reports {
    /// The pipe that the listener has passed on, if it has.
    pub(crate) fn inherited(is_passed: bool) -> std::io::Result<Self> {
        let pipe = is_passed.then(|| sys::io::inherited(roles::MONITOR_REPORTS_FD));
        Ok(Self(pipe.transpose()?))
    }

    /// Sends a report, if somebody wants it.
    pub(crate) fn send(&self, report: &impl Message) {
        if let Some(pipe) = &self.0 {
            let frame = report.encode_frame();
            if frame.len() <= roles::MAX_REPORT_BYTES {
                // A full pipe, or a listener that has ended: nothing waits for metrics.
                let _ = sys::io::write(pipe, &frame);
            }
        }
    }
}

/// Bytes that a session may claim at once, and for each millisecond since its last report: 200
/// Gbit/s in each direction.
const PLAUSIBLE_BYTES: u64 = 1 << 30;
const PLAUSIBLE_BYTES_PER_MS: u64 = 25_000_000;
/// Fewest bytes on the wire for each channel that a session may claim.
const BYTES_PER_CHANNEL: u64 = 16;
/// Channels that may be counted before their bytes are: a request that came with the login counts at once,
/// the answer when it has been written.
const CHANNELS_ON_THE_WAY: u64 = 64;

/// The traffic of a session as far as it was reported.
#[derive(Debug)]
pub(crate) struct SessionTraffic {
    told: TrafficReport,
    rekeys: u32,
    told_ms: u64,
}

impl SessionTraffic {
    /// Nothing so far.
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            told: TrafficReport {
                received: 0,
                sent: 0,
                channels: vec![0; roles::COUNTED_CHANNELS.len()],
            },
            rekeys: 0,
            told_ms: now_ms,
        }
    }

    /// Counts a key exchange, whose hash this process has signed.
    pub(crate) fn rekeyed(&mut self) {
        self.rekeys = self.rekeys.saturating_add(1);
    }

    /// Takes what the session process claims; returns its growth since the last one.
    ///
    /// # Errors
    /// The reason why it cannot be true: numbers that have become smaller, or that no session can have.
    pub(crate) fn advance(
        &mut self,
        claim: TrafficReport,
        now_ms: u64,
    ) -> Result<SessionReport, &'static str> {
        const SHRUNK: &str = "traffic that has become less";
        let plausible = now_ms
            .saturating_sub(self.told_ms)
            .saturating_mul(PLAUSIBLE_BYTES_PER_MS)
            .saturating_add(PLAUSIBLE_BYTES);
        let told = &self.told;
        let received = claim.received.checked_sub(told.received).ok_or(SHRUNK)?;
        let sent = claim.sent.checked_sub(told.sent).ok_or(SHRUNK)?;
        if claim.channels.len() != told.channels.len() {
            return Err("channels of unknown types");
        }
        let pairs = claim.channels.iter().zip(&told.channels);
        let channels: Option<Vec<u64>> = pairs.map(|(now, then)| now.checked_sub(*then)).collect();
        let channels = channels.ok_or(SHRUNK)?;
        let opened = channels
            .iter()
            .fold(0, |sum: u64, count| sum.saturating_add(*count));
        let most =
            (received.saturating_add(sent) / BYTES_PER_CHANNEL).saturating_add(CHANNELS_ON_THE_WAY);
        if received > plausible || sent > plausible || opened > most {
            return Err("more traffic than there can be");
        }
        self.told = claim;
        self.told_ms = now_ms;
        Ok(SessionReport {
            received,
            sent,
            rekeys: core::mem::take(&mut self.rekeys),
            channels,
        })
    }

    /// The part that was not reported, if there is any, of a session process that has ended.
    pub(crate) fn rest(&mut self) -> Option<SessionReport> {
        (self.rekeys > 0).then(|| SessionReport {
            received: 0,
            sent: 0,
            rekeys: core::mem::take(&mut self.rekeys),
            channels: vec![0; roles::COUNTED_CHANNELS.len()],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(received: u64, sent: u64, sessions: u64) -> TrafficReport {
        let mut channels = vec![0; roles::COUNTED_CHANNELS.len()];
        channels[0] = sessions;
        TrafficReport {
            received,
            sent,
            channels,
        }
    }

    #[test]
    fn what_is_new_is_reported_once() {
        let mut traffic = SessionTraffic::new(0);
        traffic.rekeyed();
        let first = traffic.advance(claim(1000, 2000, 1), 10).unwrap();
        assert_eq!((first.received, first.sent, first.rekeys), (1000, 2000, 1));
        assert_eq!(first.channels[0], 1);
        let second = traffic.advance(claim(1500, 2000, 3), 20).unwrap();
        assert_eq!((second.received, second.sent, second.rekeys), (500, 0, 0));
        assert_eq!(second.channels[0], 2);
        assert_eq!(traffic.rest(), None);
        traffic.rekeyed();
        assert_eq!(traffic.rest().unwrap().rekeys, 1);
    }

    #[test]
    fn a_session_claims_no_more_than_it_can_have_had() {
        let mut traffic = SessionTraffic::new(0);
        traffic.advance(claim(1000, 1000, 1), 0).unwrap();
        let mut is_refused = |claim| traffic.advance(claim, 1).is_err();
        assert!(is_refused(claim(999, 1000, 1)));
        assert!(is_refused(claim(1000, 1000, 0)));
        assert!(is_refused(claim(u64::MAX, 1000, 1)));
        assert!(is_refused(claim(1000, (1 << 30) + 25_002_000, 1)));
        assert!(is_refused(claim(1160, 1000, 76)));
        let mut short = claim(1000, 1000, 1);
        short.channels.pop();
        assert!(is_refused(short));
        assert!(!is_refused(claim(1160, 1000, 11)));
    }

    #[test]
    fn attempts_are_counted_by_method_and_outcome() {
        let counts = AttemptCounts::default();
        assert_eq!(counts.report(), None);
        counts.count(ChainMethod::Publickey, AttemptOutcome::Failed);
        counts.count(ChainMethod::Publickey, AttemptOutcome::Failed);
        counts.count(ChainMethod::GssapiWithMic, AttemptOutcome::Accepted);
        let report = counts.report().unwrap();
        let counted: Vec<_> = report
            .counts
            .iter()
            .enumerate()
            .filter(|(_, n)| **n > 0)
            .collect();
        assert_eq!(counted, [(5, &2), (15, &1)]);
    }
}
