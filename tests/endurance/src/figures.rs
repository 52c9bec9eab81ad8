//! What the processes that stay take, and whether it grows.

use std::fmt;
use std::fs;

use crate::place::Place;

/// Growth of memory that is no leak: caches fill, and the heap's pieces lie apart.
const MEMORY_PARTS: u64 = 10;
/// The same for small processes, KiB.
const MEMORY_KIB: u64 = 1024;
/// Descriptors and processes that may be there in addition: one connection that ends late.
const SPARE: u64 = 2;

/// The figures of one program with its children.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Figures {
    /// Private memory, KiB.
    pub(crate) private_kib: u64,
    /// Open descriptors.
    pub(crate) descriptors: u64,
    /// Processes.
    pub(crate) processes: u64,
    /// Threads.
    pub(crate) threads: u64,
}

impl Figures {
    fn of(processes: &[u32]) -> Result<Self, String> {
        let mut sum = Self::default();
        for pid in processes {
            let path = format!("/proc/{pid}/smaps_rollup");
            let rollup = match fs::read_to_string(&path) {
                Ok(rollup) => rollup,
                // It has ended since it was found.
                Err(_) if !fs::exists(format!("/proc/{pid}")).unwrap_or(true) => continue,
                Err(error) => return Err(format!("{path}: {error}")),
            };
            sum.private_kib += private_kib(&rollup);
            sum.descriptors += entries(&format!("/proc/{pid}/fd"));
            sum.threads += entries(&format!("/proc/{pid}/task"));
            sum.processes += 1;
        }
        Ok(sum)
    }

    /// The values that have grown beyond what is usual, in words.
    fn grown_since(&self, first: &Self) -> Vec<String> {
        let memory = first.private_kib + first.private_kib / MEMORY_PARTS + MEMORY_KIB;
        let values = [
            ("private KiB", first.private_kib, self.private_kib, memory),
            (
                "descriptors",
                first.descriptors,
                self.descriptors,
                first.descriptors + SPARE,
            ),
            (
                "processes",
                first.processes,
                self.processes,
                first.processes + SPARE,
            ),
            (
                "threads",
                first.threads,
                self.threads,
                first.threads + SPARE,
            ),
        ];
        values
            .into_iter()
            .filter(|(_, _, now, most)| now > most)
            .map(|(name, then, now, _)| format!("{name} {then} to {now}"))
            .collect()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            private_kib,
            descriptors,
            processes,
            threads,
        } = self;
        write!(
            f,
            "{private_kib} KiB, {descriptors} descriptors, {processes} processes, {threads} threads"
        )
    }
}

/// The figures of all programs at one time.
#[derive(Debug, Clone)]
pub(crate) struct Mark(Vec<(&'static str, Figures)>);

impl Mark {
    /// Measures them.
    ///
    /// # Errors
    /// A process that is there and cannot be measured.
    pub(crate) fn of(place: &Place) -> Result<Self, String> {
        let programs = place.processes().into_iter();
        let measured = programs.map(|(name, processes)| Ok((name, Figures::of(&processes)?)));
        measured.collect::<Result<_, String>>().map(Self)
    }

    /// The values that have grown, in words.
    pub(crate) fn grown_since(&self, first: &Self) -> Vec<String> {
        let pairs = self.0.iter().zip(&first.0);
        pairs
            .flat_map(|((name, now), (_, then))| {
                let grown = now.grown_since(then).into_iter();
                grown.map(move |value| format!("{name}: {value}"))
            })
            .collect()
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, figures)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "; " };
            write!(f, "{comma}{name} {figures}")?;
        }
        Ok(())
    }
}

fn entries(folder: &str) -> u64 {
    fs::read_dir(folder).map_or(0, |entries| u64::try_from(entries.count()).unwrap_or(0))
}

/// The private memory in a text of proc_pid_smaps_rollup(5), KiB.
fn private_kib(rollup: &str) -> u64 {
    let lines = rollup.lines().filter_map(|line| {
        let rest = line
            .strip_prefix("Private_Clean:")
            .or_else(|| line.strip_prefix("Private_Dirty:"))?;
        rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    });
    lines.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_is_clean_and_dirty() {
        let text =
            "5500-7ff [rollup]\nRss:  900 kB\nPrivate_Clean:   12 kB\nPrivate_Dirty:  300 kB\n";
        assert_eq!(private_kib(text), 312);
    }

    #[test]
    fn growth_beyond_the_usual_is_told() {
        let first = Figures {
            private_kib: 10_000,
            descriptors: 20,
            processes: 4,
            threads: 4,
        };
        let mut later = first.clone();
        later.private_kib = 12_024;
        later.descriptors = 22;
        assert_eq!(later.grown_since(&first), Vec::<String>::new());
        later.private_kib = 12_025;
        later.processes = 7;
        assert_eq!(
            later.grown_since(&first),
            ["private KiB 10000 to 12025", "processes 4 to 7"]
        );
    }
}
