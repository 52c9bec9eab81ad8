//! What a server says of a file that another copy writes to: it is asked again for a while, where
//! nothing else can be written, and nothing is done to a file that another copy has taken over.

use std::time::Instant;

use sftp::Claim;

use super::{Job, Stage};
use crate::claim::{AGAIN, PATIENCE};

/// What is known of another copy.
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// When it was heard of first, and when the server is to be asked again.
    since: Option<Instant>,
    again_at: Option<Instant>,
    /// The server knows claims: one may have written between two of our requests, and has ended.
    pub(super) may_come: bool,
    /// It has taken the file over.
    pub(super) has_taken: bool,
}

impl Busy {
    /// It is not asked again yet.
    pub(super) fn waits(&self) -> bool {
        self.again_at.is_some_and(|at| at > Instant::now())
    }
}

impl Job {
    /// What the first OPEN claims.
    pub(super) fn claim(&self) -> Claim {
        match self.parts.len() {
            1 => Claim::Alone,
            _ => Claim::First,
        }
    }

    /// When the server is to be asked again.
    pub(in crate::put) fn again_at(&self) -> Option<Instant> {
        self.busy.again_at
    }

    /// The target was not opened because another copy writes to it: begins anew a little later,
    /// unless it has waited long enough. Nothing was written.
    pub(super) fn waits_for_another(&mut self) -> bool {
        let now = Instant::now();
        let since = *self.busy.since.get_or_insert(now);
        if self.temporary || self.error.is_some() || now.duration_since(since) > PATIENCE {
            return false;
        }
        self.busy.again_at = Some(now + AGAIN);
        if let Some(first) = self.parts.first_mut() {
            first.asked = false;
        }
        (self.there, self.cuts_on_open, self.next) = (None, false, 0);
        self.stage = Stage::Begin;
        self.wake_first();
        true
    }
}
