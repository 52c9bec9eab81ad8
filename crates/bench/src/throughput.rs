//! `throughput`: bytes through a command, by cipher, direction and way; and `rekey`, the same by
//! how often keys change.

use super::figures::{BenchEntry, BenchGroup, Emit, EntryKind, Per, Unit};
use super::options::{Algorithms, BenchDirection, BenchRow, BenchSettings, BenchTransport};
use super::rounds::{Bench, Ends, Miss, Sample};
use super::transfer::{self, Chain, Transfer, TransferFiles};
use crate::harness::{Harness, ServerHost, Wishes};

/// Default number of rounds.
pub(super) const ROUNDS: usize = 7;
/// `RekeyLimit` of the `rekey` row; none: the client's own default.
const REKEY_LIMITS: [Option<&str>; 3] = [None, Some("16M"), Some("1M")];

/// Measures every cipher in every direction and way that was asked for.
pub(super) fn measure(bench: &Bench, emit: &mut Emit<'_>) -> Result<(), String> {
    let mut stand = ThroughputStand::new(bench)?;
    for way in &bench.settings.ways {
        for algorithms in &bench.settings.algorithms {
            for direction in &bench.settings.directions {
                emit(stand.measure(*way, algorithms, *direction));
            }
        }
    }
    Ok(())
}

/// Labs and files for transfers between processes of this machine.
struct ThroughputStand<'a> {
    bench: &'a Bench,
    harnesses: Vec<Result<Harness, String>>,
    here: ServerHost,
    files: TransferFiles,
}

impl<'a> ThroughputStand<'a> {
    fn new(bench: &'a Bench) -> Result<Self, String> {
        let here = ServerHost::here();
        let files = TransferFiles::new().map_err(|error| error.to_string())?;
        if bench
            .settings
            .ways
            .iter()
            .any(|way| matches!(way, BenchTransport::File | BenchTransport::Null))
        {
            let bytes = bench.settings.bytes();
            files.fill(bytes).map_err(|error| error.to_string())?;
        }
        Ok(Self {
            bench,
            harnesses: bench.harnesses(&bench.servers, ""),
            here,
            files,
        })
    }

    fn measure(
        &mut self,
        way: BenchTransport,
        algorithms: &Algorithms,
        direction: BenchDirection,
    ) -> BenchGroup {
        let mut chains: Vec<Option<Ends>> = Vec::new();
        let mut entries = Vec::new();
        for (chain, entry) in self.bench.chains() {
            chains.push(Some(chain));
            entries.push(entry);
        }
        chains.push(None);
        entries.push(BenchEntry::new("plain TCP", EntryKind::Limit));
        let settings = &self.bench.settings;
        let group = BenchGroup {
            row: BenchRow::Throughput.name(),
            title: format!("{}, {}, {}", way.name(), algorithms.name, direction.name()),
            unit: Unit::MibPerSecond,
            per: Per::Gib,
            entries,
            notes: vec![way_in_words(way, direction, settings)],
        };
        let bench = self.bench;
        bench.alternate(group, settings.rounds(ROUNDS), |index| {
            let chain = chains.get(index).copied().flatten();
            self.once(way, direction, chain, &algorithms.wishes)
        })
    }

    /// One transfer; without `ends` over plain TCP.
    fn once(
        &mut self,
        way: BenchTransport,
        direction: BenchDirection,
        ends: Option<Ends>,
        wishes: &Wishes,
    ) -> Result<Sample, Miss> {
        let transfer = Transfer {
            way,
            direction,
            bytes: self.bench.settings.bytes(),
            files: &self.files,
        };
        let mut chain = match ends {
            None => Chain::Plain {
                server: &self.bench.servers,
            },
            Some(ends) => {
                let (Some(suite), Some(harness)) = (
                    self.bench.suites.get(ends.client),
                    self.harnesses.get_mut(ends.server),
                ) else {
                    return Err("no such suite".into());
                };
                Chain::Ssh {
                    harness: harness.as_mut().map_err(|why| why.clone())?,
                    suite,
                    wishes,
                }
            }
        };
        transfer::run(&transfer, &mut chain, &self.here).map(|(sample, _)| sample)
    }
}

fn way_in_words(
    way: BenchTransport,
    direction: BenchDirection,
    settings: &BenchSettings,
) -> String {
    let mib = settings.mib();
    let command = match (way, direction) {
        (BenchTransport::Pipes, BenchDirection::Up) => {
            format!("head -c {mib}M /dev/zero | ssh host 'cat >/dev/null'")
        }
        (BenchTransport::Pipes, BenchDirection::Down) => {
            format!("ssh host 'head -c {mib}M /dev/zero' | cat >/dev/null")
        }
        (BenchTransport::Own, BenchDirection::Up) => {
            format!("{mib} MiB: source of ours | ssh host 'sink of ours'")
        }
        (BenchTransport::Own, BenchDirection::Down) => {
            format!("{mib} MiB: ssh host 'source of ours' | sink of ours")
        }
        (BenchTransport::File, BenchDirection::Up) => {
            format!("ssh host 'cat >FILE' <FILE of {mib} MiB")
        }
        (BenchTransport::File, BenchDirection::Down) => {
            format!("ssh host 'cat FILE of {mib} MiB' >FILE")
        }
        (BenchTransport::Null, BenchDirection::Up) => {
            format!("ssh host 'cat >/dev/null' <FILE of {mib} MiB")
        }
        (BenchTransport::Null, BenchDirection::Down) => {
            format!("ssh host 'cat FILE of {mib} MiB' >/dev/null")
        }
    };
    match way {
        BenchTransport::Own => {
            format!("{command}; the bytes are checked; CPU without source and sink")
        }
        BenchTransport::File => format!("{command}; the bytes are checked"),
        BenchTransport::Pipes | BenchTransport::Null => command,
    }
}

/// Measures what it costs to change keys often, each chain against itself.
pub(super) fn measure_rekeys(bench: &Bench, emit: &mut Emit<'_>) -> Result<(), String> {
    let mut stand = ThroughputStand::new(bench)?;
    for direction in bench.settings.directions.clone() {
        let mut runs: Vec<(Ends, Wishes)> = Vec::new();
        let mut entries = Vec::new();
        for (chain, entry) in bench.chains() {
            for limit in REKEY_LIMITS {
                let option = limit.map(|limit| format!("RekeyLimit={limit}"));
                runs.push((
                    chain,
                    Wishes {
                        options: option.into_iter().collect(),
                        ..Wishes::default()
                    },
                ));
                let part = match limit {
                    None => entry.part,
                    Some(_) => EntryKind::Mixed,
                };
                let limit = limit.unwrap_or("default");
                entries.push(BenchEntry::new(format!("{}, {limit}", entry.label), part));
            }
        }
        let group = BenchGroup {
            row: BenchRow::Rekey.name(),
            title: direction.name().into(),
            unit: Unit::MibPerSecond,
            per: Per::Gib,
            entries,
            notes: vec![way_in_words(
                BenchTransport::Pipes,
                direction,
                &bench.settings,
            )],
        };
        let mut group = bench.alternate(group, bench.settings.rounds(ROUNDS), |index| {
            let (chain, wishes) = runs.get(index).ok_or("no such chain")?;
            stand.once(BenchTransport::Pipes, direction, Some(*chain), wishes)
        });
        compare_with_default(&mut group);
        emit(group);
    }
    Ok(())
}

/// Adds to each entry what it keeps of its chain's default.
fn compare_with_default(group: &mut BenchGroup) {
    let medians: Vec<Option<f64>> = group.entries.iter().map(BenchEntry::median).collect();
    for (index, entry) in group.entries.iter_mut().enumerate() {
        let first = index - index % REKEY_LIMITS.len();
        let share = match (entry.median(), medians.get(first).copied().flatten()) {
            (Some(own), Some(default)) => format!("{:.0} %", 100.0 * own / default),
            _ => String::new(),
        };
        entry.more.push(("of its default".into(), share));
    }
}
