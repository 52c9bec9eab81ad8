//! Results: groups of entries that are compared with each other.

use super::stats;

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    MibPerSecond,
    Milliseconds,
    Microseconds,
    Seconds,
    Kib,
    PerSecond,
    RoundTrips,
}

impl Unit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MibPerSecond => "MiB/s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "µs",
            Self::Seconds => "s",
            Self::Kib => "KiB",
            Self::PerSecond => "/s",
            Self::RoundTrips => "round trips",
        }
    }

    /// Returns true if a higher figure is better.
    pub(super) fn more_is_better(self) -> bool {
        matches!(self, Self::MibPerSecond | Self::PerSecond)
    }
}

/// The unit of work that CPU time is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Per {
    Gib,
    Login,
    Connection,
    RoundTrip,
    Copy,
}

impl Per {
    /// The unit of a CPU figure, and its number per second.
    pub(super) fn unit(self) -> (&'static str, f64) {
        match self {
            Self::Gib => ("CPU s/GiB", 1.0),
            Self::Login => ("CPU ms/login", 1e3),
            Self::Connection => ("CPU ms each", 1e3),
            Self::RoundTrip => ("CPU µs/round trip", 1e6),
            Self::Copy => ("CPU s", 1.0),
        }
    }
}

/// The programs of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// Fulmar at both ends.
    Ours,
    /// Fulmar at one end.
    Mixed,
    /// A peer at both ends.
    Peer,
    /// The same work without SSH.
    Limit,
}

/// CPU seconds of one run, of each end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Cpu {
    pub(super) client: f64,
    pub(super) server: f64,
}

impl Cpu {
    /// CPU seconds of a client alone.
    pub(super) fn of_client(seconds: f64) -> Self {
        Self {
            client: seconds,
            server: 0.0,
        }
    }
}

/// Why an entry has no figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Miss {
    /// The program is not installed, or this program does not know it.
    Absent(String),
    /// The run failed.
    Failed(String),
}

impl Miss {
    pub(super) fn why(&self) -> &str {
        match self {
            Self::Absent(why) | Self::Failed(why) => why,
        }
    }
}

impl From<String> for Miss {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<&str> for Miss {
    fn from(why: &str) -> Self {
        Self::Failed(why.into())
    }
}

impl From<std::io::Error> for Miss {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The figures of one entry.
#[derive(Debug, Clone)]
pub(super) struct BenchEntry {
    pub(super) label: String,
    pub(super) part: EntryKind,
    /// One figure per round, in the group's unit.
    pub(super) values: Vec<f64>,
    /// CPU seconds per unit of work, one pair per round; empty if they are not counted.
    pub(super) cpu: Vec<Cpu>,
    /// Further columns, each with its heading and its text.
    pub(super) more: Vec<(String, String)>,
    /// Why there are no figures.
    pub(super) missing: Option<Miss>,
}

impl BenchEntry {
    pub(super) fn new(label: impl Into<String>, part: EntryKind) -> Self {
        Self {
            label: label.into(),
            part,
            values: Vec::new(),
            cpu: Vec::new(),
            more: Vec::new(),
            missing: None,
        }
    }

    pub(super) fn median(&self) -> Option<f64> {
        let median = stats::median(&self.values);
        median.is_finite().then_some(median)
    }

    /// Medians of the CPU seconds.
    pub(super) fn cpu_median(&self) -> Option<Cpu> {
        let of =
            |end: fn(&Cpu) -> f64| stats::median(&self.cpu.iter().map(end).collect::<Vec<_>>());
        (!self.cpu.is_empty()).then(|| Cpu {
            client: of(|cpu| cpu.client),
            server: of(|cpu| cpu.server),
        })
    }
}

/// Entries that were measured by turns and are compared with each other.
#[derive(Debug, Clone)]
pub(super) struct BenchGroup {
    /// The row of the command line: `throughput`.
    pub(super) row: &'static str,
    /// What distinguishes it: `pipes, aes128-gcm@openssh.com, up`.
    pub(super) title: String,
    pub(super) unit: Unit,
    pub(super) per: Per,
    pub(super) entries: Vec<BenchEntry>,
    /// Sentences below the table.
    pub(super) notes: Vec<String>,
}

impl BenchGroup {
    /// The entry's speed as a multiple of the first measured entry of `part`; above 1 is better in
    /// any unit.
    pub(super) fn ratio(&self, entry: &BenchEntry, part: EntryKind) -> Option<f64> {
        let other = self
            .entries
            .iter()
            .filter(|other| other.part == part)
            .find_map(BenchEntry::median)?;
        let own = entry.median()?;
        let ratio = if self.unit.more_is_better() {
            own / other
        } else {
            other / own
        };
        ratio.is_finite().then_some(ratio)
    }

    /// Adds a note that compares a figure of Fulmar with its goal, if there is one: `what` it is, the
    /// figure, and the goal, which is a lower limit if `at_least`.
    pub(super) fn judge(&mut self, what: &str, figure: Option<f64>, at_least: bool, goal: f64) {
        let Some(figure) = figure else { return };
        let (is_met, limit) = match at_least {
            true => (figure >= goal, "at least"),
            false => (figure <= goal, "at most"),
        };
        let verdict = if is_met { "met" } else { "missed" };
        self.notes.push(format!(
            "{what}: {figure:.2} (goal: {limit} {goal}): {verdict}"
        ));
    }

    /// The median of the first entry of Fulmar with itself.
    pub(super) fn ours(&self) -> Option<f64> {
        let ours = self.entries.iter();
        ours.filter(|entry| entry.part == EntryKind::Ours)
            .find_map(BenchEntry::median)
    }

    /// Returns true if no entry was run.
    pub(super) fn is_empty(&self) -> bool {
        self.entries
            .iter()
            .all(|entry| entry.values.is_empty() && entry.missing.is_none())
    }

    /// Returns true if an entry of Fulmar failed, which the exit status reports.
    pub(super) fn failed(&self) -> bool {
        self.entries.iter().any(|entry| match entry.missing {
            Some(Miss::Failed(_)) => entry.part == EntryKind::Ours,
            Some(Miss::Absent(_)) | None => false,
        })
    }
}

/// Receives each group as soon as it is measured.
pub(super) type Emit<'a> = dyn FnMut(BenchGroup) + 'a;

/// All results of one run of the program.
#[derive(Debug, Clone, Default)]
pub(super) struct BenchReport {
    /// Facts about the machine and the programs: name and value.
    pub(super) about: Vec<(String, String)>,
    pub(super) groups: Vec<BenchGroup>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(part: EntryKind, values: &[f64]) -> BenchEntry {
        BenchEntry {
            values: values.to_vec(),
            ..BenchEntry::new("x", part)
        }
    }

    fn group(unit: Unit) -> BenchGroup {
        BenchGroup {
            row: "throughput",
            title: String::new(),
            unit,
            per: Per::Gib,
            entries: vec![
                entry(EntryKind::Ours, &[10.0, 20.0, 30.0]),
                entry(EntryKind::Peer, &[]),
                entry(EntryKind::Peer, &[5.0]),
            ],
            notes: Vec::new(),
        }
    }

    #[test]
    fn ratios_tell_how_much_better_whatever_the_unit() {
        for (unit, wanted) in [(Unit::MibPerSecond, 4.0), (Unit::Milliseconds, 0.25)] {
            let group = group(unit);
            let ratio = group.ratio(&group.entries[0], EntryKind::Peer).unwrap();
            assert!((ratio - wanted).abs() < 1e-9);
            assert_eq!(group.ratio(&group.entries[0], EntryKind::Limit), None);
            assert_eq!(group.ratio(&group.entries[1], EntryKind::Peer), None);
        }
    }

    #[test]
    fn goals_are_met_or_missed() {
        let mut group = group(Unit::Seconds);
        let ours = group.ours();
        assert_eq!(ours, Some(20.0));
        group.judge("time", ours, false, 20.0);
        group.judge("ratio", Some(0.9), true, 0.97);
        group.judge("nothing", None, true, 1.0);
        assert_eq!(
            group.notes,
            [
                "time: 20.00 (goal: at most 20): met",
                "ratio: 0.90 (goal: at least 0.97): missed"
            ]
        );
    }

    #[test]
    fn only_what_is_missing_of_ours_is_a_failure() {
        let mut group = group(Unit::Kib);
        group.entries[1].missing = Some("broken".into());
        group.entries[0].missing = Some(Miss::Absent("not there yet".into()));
        assert!(!group.failed());
        group.entries[0].missing = Some("broken".into());
        assert!(group.failed());
    }
}
