//! Runs the entries of a group by turns: every round runs each entry once. The first round warms
//! caches and does not count.

use std::io::{self, IsTerminal, Write};

pub(super) use super::figures::Miss;
use super::figures::{BenchEntry, BenchGroup, Cpu, EntryKind};
use super::options::{BenchSettings, Pairing};
use crate::harness::{Harness, ServerHost, Suite, SuiteKind};

/// The result of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// In the group's unit.
    pub(super) value: f64,
    /// CPU seconds per unit of work.
    pub(super) cpu: Option<Cpu>,
}

/// The suites of the client and of the server, as indices into the list of suites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) client: usize,
    pub(super) server: usize,
}

/// The suites that compete. The first is ours.
#[derive(Debug)]
pub(super) struct Bench {
    pub(super) settings: BenchSettings,
    pub(super) suites: Vec<Suite>,
    /// Where servers start.
    pub(super) servers: ServerHost,
    /// Returns true if the measurement is to stop: results so far are shown, and started processes
    /// are ended.
    pub(super) interrupted: fn() -> bool,
}

impl Bench {
    /// The chains of the pairings asked for, each with its entry.
    pub(super) fn chains(&self) -> Vec<(Ends, BenchEntry)> {
        let peers = 1..self.suites.len();
        // A dropbear that the user did not name is only measured with itself.
        let named = |index: &usize| {
            let suite = self.suites.get(*index);
            suite.is_some_and(|suite| {
                suite.kind != SuiteKind::Dropbear || suite.name != suite.version
            })
        };
        let mixed = peers.clone().filter(named);
        let mut chains = Vec::new();
        for pairing in &self.settings.pairings {
            let ends: Vec<(usize, usize)> = match pairing {
                Pairing::OursOurs => vec![(0, 0)],
                Pairing::PeerPeer => peers.clone().map(|peer| (peer, peer)).collect(),
                Pairing::OursPeer => mixed.clone().map(|peer| (0, peer)).collect(),
                Pairing::PeerOurs => mixed.clone().map(|peer| (peer, 0)).collect(),
            };
            chains.extend(
                ends.into_iter()
                    .map(|(client, server)| Ends { client, server }),
            );
        }
        chains
            .into_iter()
            .map(|chain| (chain, self.entry(chain)))
            .collect()
    }

    /// The chains, and plain TCP after them.
    pub(super) fn chains_and_tcp(&self) -> (Vec<Option<Ends>>, Vec<BenchEntry>) {
        let chains = self.chains().into_iter();
        let (mut chains, mut entries): (Vec<_>, Vec<_>) =
            chains.map(|(chain, entry)| (Some(chain), entry)).unzip();
        chains.push(None);
        entries.push(BenchEntry::new("plain TCP", EntryKind::Limit));
        (chains, entries)
    }

    /// The suites of the chains' servers, each once with its entry, for measurements of single
    /// suites.
    pub(super) fn served(&self) -> Vec<(usize, BenchEntry)> {
        let mut servers: Vec<usize> = self.chains().iter().map(|(ends, _)| ends.server).collect();
        servers.sort_unstable();
        servers.dedup();
        let entry = |server: usize| {
            let name = self.suites.get(server).map(|suite| suite.name.as_str());
            let part = if server == 0 {
                EntryKind::Ours
            } else {
                EntryKind::Peer
            };
            (server, BenchEntry::new(name.unwrap_or("?"), part))
        };
        servers.into_iter().map(entry).collect()
    }

    fn entry(&self, chain: Ends) -> BenchEntry {
        let name = |index: usize| {
            self.suites
                .get(index)
                .map_or("?", |suite| suite.name.as_str())
        };
        let part = match (chain.client, chain.server) {
            (0, 0) => EntryKind::Ours,
            (0, _) | (_, 0) => EntryKind::Mixed,
            _ => EntryKind::Peer,
        };
        BenchEntry::new(
            format!("{} → {}", name(chain.client), name(chain.server)),
            part,
        )
    }

    /// A harness for a suite's server at `place`, with `lines` in its configuration; where it cannot
    /// be had, why.
    pub(super) fn harness(
        &self,
        suite: usize,
        place: &ServerHost,
        lines: &str,
    ) -> Result<Harness, String> {
        let suite = self.suites.get(suite).ok_or("no such suite")?;
        let harness = Harness::new(suite, place, lines).map_err(|error| error.to_string())?;
        for client in &self.suites {
            harness
                .admit(client)
                .map_err(|error| format!("{}: {error}", client.name))?;
        }
        Ok(harness)
    }

    /// A harness for each suite's server.
    pub(super) fn harnesses(
        &self,
        place: &ServerHost,
        lines: &str,
    ) -> Vec<Result<Harness, String>> {
        (0..self.suites.len())
            .map(|suite| self.harness(suite, place, lines))
            .collect()
    }

    /// Runs each entry of the group `rounds` times, after one round that does not count.
    /// Every second round runs in reverse order, so that no entry always follows the same one.
    /// `once` gets the index of the entry. An entry that fails is not run again.
    pub(super) fn alternate(
        &self,
        mut group: BenchGroup,
        rounds: usize,
        mut once: impl FnMut(usize) -> Result<Sample, Miss>,
    ) -> BenchGroup {
        for round in 0..=rounds {
            for turn in 0..group.entries.len() {
                let index = match round % 2 {
                    0 => turn,
                    _ => group.entries.len() - 1 - turn,
                };
                let Some(entry) = group.entries.get_mut(index) else {
                    continue;
                };
                if entry.missing.is_some() {
                    continue;
                }
                progress(&format!(
                    "{} {}: round {round} of {rounds}, {}",
                    group.row, group.title, entry.label
                ));
                if (self.interrupted)() {
                    progress("");
                    return group;
                }
                match once(index) {
                    // A signal from the keyboard also reaches the measured programs.
                    Err(_) if (self.interrupted)() => {}
                    Ok(sample) if round > 0 => {
                        entry.values.push(sample.value);
                        entry.cpu.extend(sample.cpu);
                    }
                    Ok(_) => {}
                    Err(why) => {
                        entry.values.clear();
                        entry.cpu.clear();
                        entry.missing = Some(why);
                    }
                }
            }
        }
        progress("");
        group
    }
}

/// Shows one line on a terminal in place of the previous one; an empty line removes it.
pub(super) fn progress(line: &str) {
    /// Longer lines would wrap and could not be removed.
    const MAX_CHARS: usize = 78;
    let mut stderr = io::stderr();
    if stderr.is_terminal() {
        let line: String = line.chars().take(MAX_CHARS).collect();
        // A terminal that is gone is no reason to stop measuring.
        let _ = write!(stderr, "\r\x1b[K{line}");
        let _ = stderr.flush();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::figures::{Per, Unit};

    fn bench(pairings: &[Pairing]) -> Bench {
        let named = |name: &str| {
            let mut suite = Suite::ours().unwrap();
            suite.name = name.into();
            suite
        };
        Bench {
            settings: BenchSettings {
                pairings: pairings.to_vec(),
                ..BenchSettings::default()
            },
            suites: vec![named("F"), named("a"), named("b")],
            servers: ServerHost::here(),
            interrupted: || false,
        }
    }

    #[test]
    fn every_peer_meets_ours_on_both_ends() {
        let labels: Vec<String> = bench(&Pairing::ALL)
            .chains()
            .into_iter()
            .map(|(_, entry)| entry.label)
            .collect();
        assert_eq!(
            labels,
            [
                "F → F", "a → a", "b → b", "F → a", "F → b", "a → F", "b → F"
            ]
        );
    }

    #[test]
    fn what_is_measured_of_a_suite_is_measured_of_those_asked_for() {
        for (pairings, expected) in [
            (&Pairing::ALL[..], &["F", "a", "b"][..]),
            (&[Pairing::OursOurs], &["F"]),
            (&[Pairing::PeerPeer, Pairing::OursPeer], &["a", "b"]),
        ] {
            let served = bench(pairings).served();
            let labels: Vec<&str> = served.iter().map(|(_, it)| it.label.as_str()).collect();
            assert_eq!(labels, expected);
        }
    }

    fn logins(bench: &Bench) -> BenchGroup {
        BenchGroup {
            row: "login",
            title: String::new(),
            unit: Unit::Milliseconds,
            per: Per::Login,
            entries: bench.chains().into_iter().map(|(_, entry)| entry).collect(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn rounds_alternate_and_a_failure_is_told_once() {
        let bench = bench(&[Pairing::OursOurs, Pairing::PeerPeer]);
        let group = logins(&bench);
        let mut order = Vec::new();
        let group = bench.alternate(group, 2, |index| {
            order.push(index);
            match (index, order.len()) {
                (1, 4..) => Err("gone".into()),
                _ => Ok(Sample {
                    value: 1.0,
                    cpu: None,
                }),
            }
        });
        assert_eq!(order, [0, 1, 2, 2, 1, 0, 0, 2]);
        assert_eq!(group.entries[0].values.len(), 2);
        assert!(group.entries[1].values.is_empty());
        assert_eq!(group.entries[1].missing, Some(Miss::Failed("gone".into())));
        assert!(!group.failed());
    }

    #[test]
    fn an_interrupt_keeps_what_was_measured() {
        thread_local!(static CAME: Cell<bool> = const { Cell::new(false) });
        let mut bench = bench(&[Pairing::OursOurs]);
        bench.interrupted = || CAME.get();
        let group = logins(&bench);
        let mut runs = 0;
        let group = bench.alternate(group, 5, |_| {
            runs += 1;
            if runs == 4 {
                CAME.set(true);
                return Err("killed".into());
            }
            Ok(Sample {
                value: 1.0,
                cpu: None,
            })
        });
        assert_eq!(runs, 4);
        assert_eq!(group.entries[0].values.len(), 2);
        assert_eq!(group.entries[0].missing, None);
    }
}
