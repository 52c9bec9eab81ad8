//! `--verify`: both ends' content is compared.

use std::path::PathBuf;

use transfer::verify::{Compare, Pair};

use super::operand::os;
use super::{Fatal, lost};
use crate::{AnyRemote, Console};

/// Where the results' second names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultSide {
    /// At the server.
    To,
    /// Here.
    From,
}

/// Compares what was copied well.
pub(super) fn perform(
    remote: &mut AnyRemote,
    console: &mut Console,
    side: ResultSide,
) -> Result<(), Fatal> {
    let pairs = console.good().map(|result| {
        let (local, remote) = match side {
            ResultSide::To => (&result.from, &result.to),
            ResultSide::From => (&result.to, &result.from),
        };
        Pair {
            local: PathBuf::from(os(local)),
            remote: remote.clone(),
        }
    });
    let mut work = Compare::new(pairs.collect());
    let run = remote.engine().run(&mut work);
    for failure in work.failures() {
        console.error(failure);
    }
    run.map_err(|error| lost(&error))?;
    if work.failures().is_empty() {
        console.verified(work.how());
    }
    Ok(())
}
