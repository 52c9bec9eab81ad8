//! Tries libraries for the first that works: one after the other as long as each answers promptly,
//! and all the others at once as soon as one does not answer within [`PATIENCE`]. Any number of
//! hanging libraries thus take as long as one.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use crate::process::{Accelerator, Starting};

/// Waiting time for one library before the others are started too. A working library loads and
/// passes its self-test in a tenth of it.
const PATIENCE: Duration = Duration::from_millis(300);

/// Result of each started library, in the order of the configuration; `None` while it runs.
type Outcomes<T> = [Option<Result<T, String>>];

/// Returns the first of `libraries` that works, or the reason of each. `begin` is called on this
/// thread: the kernel may end a process with the thread that started it.
pub(crate) fn first_that_works(
    libraries: &[PathBuf],
    begin: impl Fn(&Path) -> Result<Starting, String>,
) -> Result<Accelerator, Vec<String>> {
    if let [only] = libraries {
        let tried = begin(only).and_then(Starting::finish);
        return tried.map_err(|why| vec![why]);
    }
    let mut outcomes: Vec<Option<Result<Accelerator, String>>> = Vec::new();
    let mut cancellers = Vec::new();
    let mut all_at_once = false;
    // The scope ends only after its threads: the caller may change its user next, which affects
    // each thread separately.
    std::thread::scope(|scope| {
        let (sender, heard) = mpsc::channel();
        loop {
            match next(&outcomes, libraries, all_at_once) {
                TrialStep::Begin(library) => {
                    let index = outcomes.len();
                    outcomes.push(match begin(library) {
                        Err(why) => Some(Err(why)),
                        Ok(starting) => {
                            cancellers.push((index, starting.canceller()));
                            let sender = sender.clone();
                            scope.spawn(move || sender.send((index, starting.finish())));
                            None
                        }
                    });
                }
                TrialStep::Wait => {
                    let outcome = if all_at_once || outcomes.len() == libraries.len() {
                        heard.recv().ok()
                    } else {
                        heard.recv_timeout(PATIENCE).ok()
                    };
                    match outcome {
                        Some((index, outcome)) => {
                            if let Some(place) = outcomes.get_mut(index) {
                                *place = Some(outcome);
                            }
                        }
                        None => all_at_once = true,
                    }
                }
                TrialStep::Settled(chosen) => {
                    let others = cancellers
                        .iter()
                        .filter(|(index, _)| Some(*index) != chosen);
                    others.for_each(|(_, canceller)| canceller.cancel());
                    break;
                }
            }
        }
    });
    // All libraries before the chosen one have failed.
    let mut reasons = Vec::new();
    for outcome in outcomes.into_iter().flatten() {
        match outcome {
            Ok(accelerator) => return Ok(accelerator),
            Err(why) => reasons.push(why),
        }
    }
    Err(reasons)
}

#[derive(Debug, PartialEq, Eq)]
enum TrialStep<'a> {
    Begin(&'a Path),
    Wait,
    /// The choice is final: this library, or none.
    Settled(Option<usize>),
}

/// Returns the next step. A library is chosen only after all that precede it have failed.
fn next<'a, T>(
    outcomes: &Outcomes<T>,
    libraries: &'a [PathBuf],
    all_at_once: bool,
) -> TrialStep<'a> {
    let has_failed = |outcome: &Option<_>| matches!(outcome, Some(Err(_)));
    let left = libraries.get(outcomes.len());
    let standing = outcomes.iter().position(|outcome| !has_failed(outcome));
    match (standing, left) {
        (Some(index), _) if outcomes.get(index).is_some_and(Option::is_some) => {
            TrialStep::Settled(Some(index))
        }
        (Some(_), Some(library)) if all_at_once => TrialStep::Begin(library),
        (Some(_), _) => TrialStep::Wait,
        (None, Some(library)) => TrialStep::Begin(library),
        (None, None) => TrialStep::Settled(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_works_is_waited_for_and_no_later_one_is_taken_before() {
        let libraries: Vec<PathBuf> = ["/a", "/b", "/c"].map(PathBuf::from).into();
        let failed = || Some(Err::<u8, _>("no".to_owned()));
        let works = || Some(Ok::<u8, String>(1));
        let begin = |name: &'static str| TrialStep::Begin(Path::new(name));
        for (outcomes, all_at_once, expected) in [
            (vec![], false, begin("/a")),
            (vec![None], false, TrialStep::Wait),
            (vec![None], true, begin("/b")),
            (vec![None, None], true, begin("/c")),
            (vec![None, None, None], true, TrialStep::Wait),
            (vec![failed()], false, begin("/b")),
            (vec![works()], false, TrialStep::Settled(Some(0))),
            (vec![None, works(), None], true, TrialStep::Wait),
            (
                vec![failed(), works(), None],
                true,
                TrialStep::Settled(Some(1)),
            ),
            (vec![failed(), None, works()], true, TrialStep::Wait),
            (
                vec![failed(), failed(), failed()],
                false,
                TrialStep::Settled(None),
            ),
        ] {
            assert_eq!(next(&outcomes, &libraries, all_at_once), expected);
        }
        assert_eq!(next::<u8>(&[], &[], false), TrialStep::Settled(None));
    }
}
