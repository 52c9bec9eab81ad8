//! A run: cases by number on all cores, their differences that are not in the list, reported as
//! they are found, and a summary.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::list::{Listed, Why};

/// Number of cases from which unused lines of the list are reported.
const LONG: u64 = 1000;

/// The parsed command line.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The seed of all cases.
    pub(crate) seed: u64,
    /// Number of cases.
    pub(crate) rounds: u64,
    /// Only this case, with all details.
    pub(crate) case: Option<u64>,
    /// Root directory of a system with a newer OpenSSH.
    pub(crate) chroot: Option<PathBuf>,
}

impl Run {
    /// True if one case is selected.
    pub(crate) fn is_single(&self) -> bool {
        self.case.is_some()
    }
}

/// One way in which a case differs.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// The kind of case.
    pub(crate) form: &'static str,
    /// How it differs.
    pub(crate) how: String,
    /// The smallest case on one line, in the format of the list.
    pub(crate) case: String,
    /// The smallest case and its results, in several lines.
    pub(crate) shown: String,
}

/// A kind of cases.
pub(crate) trait Suite: Sized + Sync {
    /// Its name on the command line.
    const NAME: &'static str;
    /// The known differences.
    const LISTED: &'static [Listed];

    /// Parallel cases per core.
    const AT_ONCE: usize = 1;

    /// Prepares the comparison.
    ///
    /// # Errors
    /// One line that names the missing part.
    fn new(run: &Run) -> Result<Self, String>;

    /// Names of the compared peers, the newest first.
    fn peers(&self) -> Vec<String>;

    /// Runs one case.
    fn try_case(&self, run: &Run, number: u64) -> Vec<Finding>;

    /// True if a table gives the reason of a difference.
    fn follows(&self, _finding: &Finding) -> Option<Why> {
        None
    }
}

/// Runs a suite; returns the number of unlisted differences.
pub(crate) fn run<S: Suite>(run: &Run) -> usize {
    let suite = match S::new(run) {
        Ok(suite) => suite,
        Err(why) => {
            interop::report::skipped(&format!("differ {}", S::NAME), &why);
            return 0;
        }
    };
    let numbers = run.case.map_or(0..run.rounds, |case| case..case + 1);
    let tally = Mutex::new(Tally::default());
    let next = AtomicU64::new(numbers.start);
    let workers = thread::available_parallelism().map_or(2, usize::from) * S::AT_ONCE;
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        break;
                    }
                    for finding in suite.try_case(run, number) {
                        let mut tally = tally.lock().expect("the tally");
                        tally.add(&suite, run, number, finding);
                    }
                }
            });
        }
    });
    let tally = tally.into_inner().expect("the tally");
    tally.tell(&suite, numbers.end - numbers.start)
}

/// The summary of a run.
#[derive(Default)]
struct Tally {
    /// Lines of the list, with the number of their uses.
    met: BTreeMap<usize, usize>,
    by_table: usize,
    /// Unlisted smallest cases, with their number.
    new: BTreeMap<(&'static str, String, String), usize>,
}

impl Tally {
    fn add<S: Suite>(&mut self, suite: &S, run: &Run, number: u64, finding: Finding) {
        let newest = suite.peers().first().cloned().unwrap_or_default();
        let fits = |listed: &Listed| {
            listed.fits(finding.form, &finding.how, &finding.case)
                && !matches!(listed.why, Why::Since(version) if is_older(version, &newest))
        };
        let why = match S::LISTED.iter().position(fits) {
            Some(index) => {
                *self.met.entry(index).or_default() += 1;
                S::LISTED.get(index).map(|listed| listed.why)
            }
            None => suite.follows(&finding).inspect(|_| self.by_table += 1),
        };
        if let Some(why) = why {
            if run.is_single() {
                println!(
                    "{} {}, {why:?}:\n{}",
                    finding.form, finding.how, finding.shown
                );
            }
            return;
        }
        let key = (finding.form, finding.how.clone(), finding.case.clone());
        let times = self.new.entry(key).or_default();
        *times += 1;
        if *times == 1 {
            println!(
                "cargo xtask differ {} --seed {} --case {number}: {}: ours {}\n{}",
                S::NAME,
                run.seed,
                finding.form,
                finding.how,
                finding.shown
            );
        }
    }

    /// Prints the summary; returns the number of unlisted smallest cases.
    fn tell<S: Suite>(&self, suite: &S, cases: u64) -> usize {
        let listed: usize = self.met.values().sum();
        println!(
            "differ {}: {cases} cases with {}: {} unlisted differences, {listed} listed and {} that follow from a table",
            S::NAME,
            suite.peers().join(", "),
            self.new.len(),
            self.by_table,
        );
        for ((form, how, case), times) in &self.new {
            println!("{times} times: {form}: {how}: {case:?}");
        }
        let newest = suite.peers().first().cloned().unwrap_or_default();
        for (index, listed) in S::LISTED.iter().enumerate() {
            let count = self.met.get(&index).copied().unwrap_or_default();
            match listed.why {
                Why::Since(version) if is_older(version, &newest) => {}
                _ if count == 0 && cases >= LONG => println!("listed and not seen: {listed:?}"),
                _ => {}
            }
        }
        self.new.len()
    }
}

/// True if this version is not later than the peer's.
fn is_older(version: &str, peer: &str) -> bool {
    let numbers = |text: &str| -> Vec<u32> {
        let version = text.rsplit(' ').next().unwrap_or_default();
        version
            .split('.')
            .filter_map(|part| part.parse().ok())
            .collect()
    };
    numbers(version) <= numbers(peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert!(is_older("9.2", "OpenSSH 10.6"));
        assert!(is_older("10.6", "OpenSSH 10.6"));
        assert!(!is_older("10.6", "OpenSSH 9.2"));
    }
}
