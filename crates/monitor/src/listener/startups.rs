//! MaxStartups and PerSourceMaxStartups: limits on the number of connections in which nobody has
//! logged in yet. No I/O; randomness is a parameter.

use std::collections::HashMap;

use config::server::LimitOptions;

use super::block::NetBlock;

/// MaxStartups `start:rate:full` and PerSourceMaxStartups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StartupRules {
    /// Number of connections from which new ones are refused at random.
    pub(crate) begin: usize,
    /// The probability of a refusal at `begin`, in percent.
    pub(crate) rate: u32,
    /// Number of connections from which every new one is refused.
    pub(crate) full: usize,
    /// Most connections at once from one source; `None` for no limit.
    pub(crate) per_source: Option<usize>,
}

/// The connections that have not logged in yet.
#[derive(Debug, Default)]
pub(crate) struct Startups {
    total: usize,
    by_source: HashMap<NetBlock, usize>,
}

/// The decision about a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartupVerdict {
    /// The connection is admitted.
    Admit,
    /// The connection is admitted after the oldest connection of this source has been ended.
    Displace(NetBlock),
    /// The connection is refused.
    Refuse(StartupRefusal),
}

/// Why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartupRefusal {
    /// MaxStartups.
    MaxStartups,
    /// PerSourceMaxStartups.
    PerSource,
}

impl StartupRules {
    /// The rules of these options.
    pub(crate) fn of(limits: &LimitOptions) -> Self {
        let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            begin: count(limits.max_startups.start),
            rate: limits.max_startups.rate,
            full: count(limits.max_startups.full),
            per_source: limits.per_source_max_startups.map(count),
        }
    }

    /// The probability, in percent, that the next connection is refused while `startups` are open.
    pub(crate) fn refusal_percent(&self, startups: usize) -> u32 {
        if startups < self.begin {
            return 0;
        }
        if startups >= self.full || self.rate >= 100 {
            return 100;
        }
        let span = u64::try_from(self.full - self.begin).unwrap_or(u64::MAX);
        let above = u64::try_from(startups - self.begin).unwrap_or(u64::MAX);
        let rise = u64::from(100 - self.rate).saturating_mul(above) / span.max(1);
        self.rate.saturating_add(u32::try_from(rise).unwrap_or(100))
    }
}

impl Startups {
    /// Decides about one more connection from `source`; `draw` is a random number below 100.
    ///
    /// OpenSSH refuses any newcomer at random, so that one source with many silent connections
    /// shuts out everybody. Here only sources that hold at least an equal share of the slots are
    /// refused at random. If no slot is left, a newcomer takes the oldest slot of the source that
    /// holds most, provided that its own source, the newcomer included, holds fewer than that one.
    /// For a single source, or many that hold one slot each, the result is as configured.
    pub(crate) fn verdict(
        &self,
        rules: &StartupRules,
        source: NetBlock,
        draw: u32,
    ) -> StartupVerdict {
        let held = self.by_source.get(&source).copied().unwrap_or(0);
        if rules.per_source.is_some_and(|most| held >= most) {
            return StartupVerdict::Refuse(StartupRefusal::PerSource);
        }
        if self.total >= rules.full {
            return match self.by_source.iter().max_by_key(|(_, count)| **count) {
                Some((largest, count)) if held + 1 < *count => StartupVerdict::Displace(*largest),
                _ => StartupVerdict::Refuse(StartupRefusal::MaxStartups),
            };
        }
        let sources = self.by_source.len() + usize::from(held == 0);
        let holds_its_share = held.saturating_mul(sources) >= self.total;
        if holds_its_share && draw < rules.refusal_percent(self.total) {
            return StartupVerdict::Refuse(StartupRefusal::MaxStartups);
        }
        StartupVerdict::Admit
    }

    /// Counts a connection.
    pub(crate) fn enter(&mut self, source: NetBlock) {
        self.total += 1;
        *self.by_source.entry(source).or_insert(0) += 1;
    }

    /// A connection of `source` has logged in or ended.
    pub(crate) fn leave(&mut self, source: NetBlock) {
        self.total = self.total.saturating_sub(1);
        if let Some(count) = self.by_source.get_mut(&source) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.by_source.remove(&source);
            }
        }
    }

    /// Number of connections counted now.
    pub(crate) fn total(&self) -> usize {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::StartupVerdict::{Admit, Displace, Refuse};
    use super::*;

    const DEFAULT: StartupRules = StartupRules {
        begin: 10,
        rate: 30,
        full: 100,
        per_source: None,
    };

    fn source(last: u8) -> NetBlock {
        NetBlock::of(IpAddr::from([192, 0, 2, last]), 32, 128)
    }

    #[test]
    fn the_chance_is_nothing_then_the_rate_then_rises_to_certainty() {
        assert_eq!(DEFAULT.refusal_percent(0), 0);
        assert_eq!(DEFAULT.refusal_percent(9), 0);
        assert_eq!(DEFAULT.refusal_percent(10), 30);
        assert_eq!(DEFAULT.refusal_percent(55), 65);
        assert_eq!(DEFAULT.refusal_percent(99), 99);
        assert_eq!(DEFAULT.refusal_percent(100), 100);
        assert!((10..100).all(|n| DEFAULT.refusal_percent(n) <= DEFAULT.refusal_percent(n + 1)));
        let sudden = StartupRules {
            begin: 5,
            full: 5,
            ..DEFAULT
        };
        assert_eq!(sudden.refusal_percent(4), 0);
        assert_eq!(sudden.refusal_percent(5), 100);
    }

    fn filled(rows: &[(u8, usize)]) -> Startups {
        let mut startups = Startups::default();
        for (last, count) in rows {
            for _ in 0..*count {
                startups.enter(source(*last));
            }
        }
        startups
    }

    /// The verdict on a connection of a source, with this draw.
    fn drawn(startups: &Startups, rules: &StartupRules, last: u8, draw: u32) -> StartupVerdict {
        startups.verdict(rules, source(last), draw)
    }

    #[test]
    fn the_draw_decides_between_begin_and_full() {
        let mut startups = filled(&[(1, 10)]);
        assert_eq!(
            drawn(&startups, &DEFAULT, 1, 29),
            Refuse(StartupRefusal::MaxStartups)
        );
        assert_eq!(drawn(&startups, &DEFAULT, 1, 30), Admit);
        startups.leave(source(1));
        assert_eq!(drawn(&startups, &DEFAULT, 1, 0), Admit);
    }

    #[test]
    fn chance_falls_on_sources_that_hold_their_share() {
        let startups = filled(&[(1, 60), (2, 1)]);
        assert_eq!(drawn(&startups, &DEFAULT, 2, 0), Admit);
        assert_eq!(drawn(&startups, &DEFAULT, 3, 0), Admit);
        assert_eq!(
            drawn(&startups, &DEFAULT, 1, 0),
            Refuse(StartupRefusal::MaxStartups)
        );
    }

    #[test]
    fn when_no_place_is_left_the_largest_source_gives_one_to_a_smaller() {
        let startups = filled(&[(1, 98), (2, 2)]);
        assert_eq!(drawn(&startups, &DEFAULT, 3, 99), Displace(source(1)));
        assert_eq!(
            drawn(&startups, &DEFAULT, 1, 99),
            Refuse(StartupRefusal::MaxStartups)
        );
        // Many sources with one slot each: no source holds more than another.
        let rows: Vec<(u8, usize)> = (0..100).map(|last| (last, 1)).collect();
        assert_eq!(
            drawn(&filled(&rows), &DEFAULT, 200, 99),
            Refuse(StartupRefusal::MaxStartups)
        );
    }

    #[test]
    fn one_source_cannot_take_what_others_need() {
        let rules = StartupRules {
            per_source: Some(2),
            ..DEFAULT
        };
        let mut startups = filled(&[(1, 2)]);
        assert_eq!(
            drawn(&startups, &rules, 1, 99),
            Refuse(StartupRefusal::PerSource)
        );
        assert_eq!(drawn(&startups, &rules, 2, 99), Admit);
        startups.leave(source(1));
        assert_eq!(drawn(&startups, &rules, 1, 99), Admit);
        startups.leave(source(1));
        assert!(startups.by_source.is_empty());
        assert_eq!(startups.total(), 0);
    }
}
