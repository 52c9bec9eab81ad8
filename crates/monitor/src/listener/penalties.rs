//! PerSourcePenalties: a source whose clients crashed a process, failed to authenticate or never
//! tried is refused for a while. No I/O; the caller passes the time. The tables are bounded.

use std::collections::HashMap;
use std::net::IpAddr;

use config::server::{PenaltyOverflow, PerSourcePenalties};

use super::block::NetBlock;

/// Why a source is penalised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offence {
    /// The unprivileged process crashed.
    Crash,
    /// Authentication was tried and failed.
    AuthFail,
    /// As [`Offence::AuthFail`], for a user who does not exist.
    InvalidUser,
    /// The client left without an attempt.
    NoAuth,
    /// LoginGraceTime passed.
    GraceExceeded,
    /// The configuration refuses the client (RefuseConnection).
    RefuseConnection,
}

impl Offence {
    /// All offences.
    pub(crate) const ALL: [Self; 6] = [
        Self::Crash,
        Self::AuthFail,
        Self::InvalidUser,
        Self::NoAuth,
        Self::GraceExceeded,
        Self::RefuseConnection,
    ];

    /// The name in PerSourcePenalties.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::AuthFail => "authfail",
            Self::InvalidUser => "invaliduser",
            Self::NoAuth => "noauth",
            Self::GraceExceeded => "grace-exceeded",
            Self::RefuseConnection => "refuseconnection",
        }
    }

    /// OpenSSH's wording, for which log-reading tools search.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Crash => "caused crash",
            Self::AuthFail => "failed authentication",
            Self::InvalidUser => "attempted authentication by invalid user",
            Self::NoAuth => "connections without attempting authentication",
            Self::GraceExceeded => "exceeded LoginGraceTime",
            Self::RefuseConnection => "connection prohibited by RefuseConnection",
        }
    }
}

impl Offence {
    fn length_ms(self, rules: &PerSourcePenalties) -> u64 {
        match self {
            Self::Crash => rules.crash_ms,
            Self::AuthFail => rules.auth_fail_ms,
            Self::InvalidUser => rules.invalid_user_ms,
            Self::NoAuth => rules.no_auth_ms,
            Self::GraceExceeded => rules.grace_exceeded_ms,
            Self::RefuseConnection => rules.refuse_connection_ms,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct PenaltyEntry {
    ends_ms: u64,
    active: bool,
    offence: Offence,
}

/// The sources under penalty.
#[derive(Debug, Default)]
pub(crate) struct Penalties {
    v4: HashMap<NetBlock, PenaltyEntry>,
    v6: HashMap<NetBlock, PenaltyEntry>,
}

impl Penalties {
    /// Returns the reason why a connection from `source` is refused at `now_ms`, or `None`.
    pub(crate) fn refusal(
        &mut self,
        rules: &PerSourcePenalties,
        source: NetBlock,
        now_ms: u64,
    ) -> Option<&'static str> {
        if !rules.enabled {
            return None;
        }
        let (table, max, overflow) = self.table(rules, source.address());
        if table.len() > max && overflow == PenaltyOverflow::DenyAll {
            table.retain(|_, entry| entry.ends_ms > now_ms);
            if table.len() > max {
                return Some("too many sources under penalty");
            }
        }
        let entry = table.get(&source)?;
        if entry.ends_ms <= now_ms {
            table.remove(&source);
            return None;
        }
        entry.active.then(|| entry.offence.reason())
    }

    /// Adds the penalty of `offence`. Returns the length of the total penalty in milliseconds if
    /// the source is refused from now on and was not refused before.
    pub(crate) fn penalise(
        &mut self,
        rules: &PerSourcePenalties,
        source: NetBlock,
        offence: Offence,
        now_ms: u64,
    ) -> Option<u64> {
        let length_ms = offence.length_ms(rules);
        if !rules.enabled || length_ms == 0 {
            return None;
        }
        let (table, max, overflow) = self.table(rules, source.address());
        if !table.contains_key(&source) && table.len() >= max {
            make_room(table, max, overflow, now_ms);
        }
        let entry = table.entry(source).or_insert(PenaltyEntry {
            ends_ms: now_ms,
            active: false,
            offence,
        });
        if entry.ends_ms < now_ms {
            // The old penalty has expired; a new one starts.
            entry.ends_ms = now_ms;
            entry.active = false;
        }
        let latest_ms = now_ms.saturating_add(rules.max_ms);
        entry.ends_ms = entry.ends_ms.saturating_add(length_ms).min(latest_ms);
        entry.offence = offence;
        let total_ms = entry.ends_ms.saturating_sub(now_ms);
        if entry.active || total_ms <= rules.min_ms {
            return None;
        }
        entry.active = true;
        Some(total_ms)
    }

    fn table(
        &mut self,
        rules: &PerSourcePenalties,
        address: IpAddr,
    ) -> (&mut HashMap<NetBlock, PenaltyEntry>, usize, PenaltyOverflow) {
        match address {
            IpAddr::V4(_) => (&mut self.v4, most(rules.max_sources4), rules.overflow),
            IpAddr::V6(_) => (&mut self.v6, most(rules.max_sources6), rules.overflow6),
        }
    }
}

fn most(sources: u32) -> usize {
    usize::try_from(sources).unwrap_or(usize::MAX)
}

/// Removes expired entries. If the table is still full and the rule is `permissive`, removes the
/// entry that expires first. With `deny-all`, one entry above the bound makes
/// [`Penalties::refusal`] refuse every source.
fn make_room(
    table: &mut HashMap<NetBlock, PenaltyEntry>,
    max: usize,
    overflow: PenaltyOverflow,
    now_ms: u64,
) {
    table.retain(|_, entry| entry.ends_ms > now_ms);
    if table.len() < max {
        return;
    }
    if overflow == PenaltyOverflow::Permissive || table.len() > max {
        let soonest = table
            .iter()
            .min_by_key(|(_, entry)| entry.ends_ms)
            .map(|(block, _)| *block);
        if let Some(block) = soonest {
            table.remove(&block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> PerSourcePenalties {
        PerSourcePenalties {
            enabled: true,
            crash_ms: 90_000,
            auth_fail_ms: 5_000,
            invalid_user_ms: 5_000,
            no_auth_ms: 1_000,
            grace_exceeded_ms: 10_000,
            refuse_connection_ms: 10_000,
            max_ms: 600_000,
            min_ms: 15_000,
            max_sources4: 3,
            max_sources6: 3,
            overflow: PenaltyOverflow::Permissive,
            overflow6: PenaltyOverflow::DenyAll,
        }
    }

    fn v4(last: u8) -> NetBlock {
        NetBlock::of(IpAddr::from([192, 0, 2, last]), 32, 128)
    }

    fn v6(last: u16) -> NetBlock {
        NetBlock::of(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]), 32, 128)
    }

    #[test]
    fn small_penalties_are_remembered_and_add_up_to_a_refusal() {
        let mut table = Penalties::default();
        let rules = rules();
        for _ in 0..3 {
            // 5, 10 and 15 seconds: the minimum is not passed yet.
            assert_eq!(table.penalise(&rules, v4(1), Offence::AuthFail, 0), None);
            assert_eq!(table.refusal(&rules, v4(1), 0), None);
        }
        assert_eq!(
            table.penalise(&rules, v4(1), Offence::AuthFail, 0),
            Some(20_000)
        );
        assert_eq!(
            table.refusal(&rules, v4(1), 19_999),
            Some("failed authentication")
        );
        assert_eq!(table.refusal(&rules, v4(1), 20_000), None);
        assert_eq!(table.refusal(&rules, v4(2), 0), None);
    }

    #[test]
    fn an_honest_source_with_rare_mistakes_is_never_refused() {
        let mut table = Penalties::default();
        let rules = rules();
        for minute in 0..100 {
            let now_ms = minute * 60_000;
            assert_eq!(
                table.penalise(&rules, v4(1), Offence::AuthFail, now_ms),
                None
            );
            assert_eq!(table.refusal(&rules, v4(1), now_ms), None);
        }
    }

    #[test]
    fn penalties_grow_no_further_than_the_maximum() {
        let mut table = Penalties::default();
        let rules = rules();
        assert_eq!(
            table.penalise(&rules, v4(1), Offence::Crash, 0),
            Some(90_000)
        );
        for _ in 0..50 {
            assert_eq!(table.penalise(&rules, v4(1), Offence::Crash, 0), None);
        }
        assert!(table.refusal(&rules, v4(1), 599_999).is_some());
        assert!(table.refusal(&rules, v4(1), 600_000).is_none());
    }

    #[test]
    fn a_full_permissive_table_forgets_the_soonest_and_stays_bounded() {
        let mut table = Penalties::default();
        let rules = rules();
        for last in 0..200 {
            table.penalise(&rules, v4(last), Offence::Crash, u64::from(last));
        }
        assert_eq!(table.v4.len(), 3);
        assert!(table.refusal(&rules, v4(199), 300).is_some());
        assert!(table.refusal(&rules, v4(0), 300).is_none());
        assert!(table.refusal(&rules, v4(250), 300).is_none());
    }

    #[test]
    fn a_full_deny_all_table_refuses_everyone_until_entries_end() {
        let mut table = Penalties::default();
        let rules = rules();
        for last in 0..10 {
            table.penalise(&rules, v6(last), Offence::Crash, 0);
        }
        assert!(table.v6.len() <= 4);
        assert_eq!(
            table.refusal(&rules, v6(999), 0),
            Some("too many sources under penalty")
        );
        assert_eq!(table.refusal(&rules, v6(999), 90_000), None);
        // The other family has a table of its own.
        assert_eq!(table.refusal(&rules, v4(1), 0), None);
    }

    #[test]
    fn nothing_is_remembered_when_switched_off_or_zero() {
        let mut table = Penalties::default();
        let mut rules = rules();
        rules.no_auth_ms = 0;
        assert_eq!(table.penalise(&rules, v4(1), Offence::NoAuth, 0), None);
        rules.enabled = false;
        assert_eq!(table.penalise(&rules, v4(1), Offence::Crash, 0), None);
        assert!(table.v4.is_empty());
    }
}
