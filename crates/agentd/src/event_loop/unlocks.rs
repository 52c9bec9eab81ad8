//! Attempts to unlock the agent. After a wrong passphrase all others wait for a delay, which grows.
//!
//! Clients on other machines have a queue, a count of failures and delays of their own: whatever they send, the
//! agent's user unlocks it as if they were not there.

use std::collections::VecDeque;

use zeroize::Zeroizing;

use crate::keyring::{Keyring, Unlocked};
use crate::workers::AnswerPlace;

/// Passphrases that wait for the delay of earlier ones, of all clients of a queue and of one.
const MAX_WAITING: usize = 64;
const MAX_WAITING_OF_ONE: usize = 4;
/// Delay after the first wrong passphrase in milliseconds; it grows by as much with each one.
const DELAY_MS: u64 = 100;
/// Wrong passphrases after which the delay no longer grows: ten seconds.
const MAX_FAILURES: u64 = 100;

/// All attempts.
#[derive(Default)]
pub(super) struct Unlocks {
    local: Attempts,
    remote: Attempts,
}

#[derive(Default)]
struct Attempts {
    waiting: VecDeque<(AnswerPlace, Zeroizing<Vec<u8>>)>,
    failures: u64,
    /// The wrong attempt whose answer waits for the end of its delay.
    failed: Option<AnswerPlace>,
    /// The time at which the delay ends, by [`sys::time::boot_ms`].
    at_ms: u64,
}

/// An attempt that is to be answered now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) place: AnswerPlace,
    pub(super) is_unlocked: bool,
    /// True if the passphrase was wrong.
    pub(super) is_wrong: bool,
}

impl Unlocks {
    /// Adds an attempt; false if too many wait.
    pub(super) fn add(
        &mut self,
        place: AnswerPlace,
        passphrase: Zeroizing<Vec<u8>>,
        is_remote: bool,
    ) -> bool {
        let attempts = match is_remote {
            true => &mut self.remote,
            false => &mut self.local,
        };
        let is_same = |(other, _): &&(AnswerPlace, _)| other.connection == place.connection;
        let of_one = attempts.waiting.iter().filter(is_same).count();
        let has_room = attempts.waiting.len() < MAX_WAITING && of_one < MAX_WAITING_OF_ONE;
        if has_room {
            attempts.waiting.push_back((place, passphrase));
        }
        has_room
    }

    /// Forgets the attempts of a client that has gone. The delay of a wrong one stays.
    pub(super) fn forget(&mut self, connection: u64) {
        for attempts in [&mut self.local, &mut self.remote] {
            attempts
                .waiting
                .retain(|(place, _)| place.connection != connection);
        }
    }

    /// When there is something to do, by [`sys::time::boot_ms`].
    pub(super) fn next_ms(&self) -> Option<u64> {
        let wants =
            |attempts: &&Attempts| attempts.failed.is_some() || !attempts.waiting.is_empty();
        let all = [&self.local, &self.remote];
        all.iter()
            .filter(|attempts| wants(attempts))
            .map(|attempts| attempts.at_ms)
            .min()
    }

    /// Tries the next passphrase whose time has come. `None` if nothing is to be done now.
    pub(super) fn next(&mut self, keyring: &mut Keyring, now_ms: u64) -> Option<Answered> {
        let local = self.local.next(keyring, now_ms);
        local.or_else(|| self.remote.next(keyring, now_ms))
    }
}

impl Attempts {
    fn next(&mut self, keyring: &mut Keyring, now_ms: u64) -> Option<Answered> {
        if now_ms < self.at_ms {
            return None;
        }
        let answered = |place, is_unlocked, is_wrong| {
            Some(Answered {
                place,
                is_unlocked,
                is_wrong,
            })
        };
        if let Some(place) = self.failed.take() {
            return answered(place, false, true);
        }
        let (place, passphrase) = self.waiting.pop_front()?;
        match keyring.unlock(&passphrase) {
            Unlocked::Yes => {
                self.failures = 0;
                answered(place, true, false)
            }
            Unlocked::NotTried => answered(place, false, false),
            Unlocked::Wrong => {
                self.failures = (self.failures + 1).min(MAX_FAILURES);
                self.failed = Some(place);
                self.at_ms = now_ms + DELAY_MS * self.failures;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(connection: u64, request: u64) -> AnswerPlace {
        AnswerPlace {
            connection,
            request,
        }
    }

    fn locked() -> Keyring {
        let mut keyring = Keyring::default();
        assert!(keyring.lock(b"right"));
        keyring
    }

    fn passphrase(text: &str) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(text.as_bytes().to_vec())
    }

    #[test]
    fn clients_elsewhere_delay_no_attempt_of_the_user() {
        let (mut unlocks, mut keyring) = (Unlocks::default(), locked());
        let mut now = 1000;
        for connection in 0..1000 {
            unlocks.add(place(connection, 0), passphrase("guess"), true);
            unlocks.next(&mut keyring, now);
        }
        // Their delay has grown to its end.
        for _ in 0..1000 {
            unlocks.add(place(1, 0), passphrase("guess"), true);
            unlocks.next(&mut keyring, now);
            now = unlocks.remote.at_ms;
        }
        assert_eq!(unlocks.remote.failures, MAX_FAILURES);
        assert!(unlocks.add(place(2000, 0), passphrase("wrong"), false));
        assert!(unlocks.add(place(2000, 1), passphrase("right"), false));
        let before = now;
        let mut answers = Vec::new();
        while answers.len() < 2 {
            if let Some(answered) = unlocks.next(&mut keyring, now)
                && answered.place.connection == 2000
            {
                answers.push((answered.place.request, answered.is_unlocked));
            }
            now += 10;
        }
        assert_eq!(answers, [(0, false), (1, true)]);
        assert!(now - before < 2 * DELAY_MS, "{}", now - before);
    }

    #[test]
    fn one_client_has_few_attempts_waiting_and_none_when_it_has_gone() {
        let (mut unlocks, mut keyring) = (Unlocks::default(), locked());
        let added = (0..10).filter(|request| {
            let wrong = passphrase("wrong");
            unlocks.add(place(1, *request), wrong, false)
        });
        assert_eq!(added.count(), MAX_WAITING_OF_ONE);
        assert!(unlocks.add(place(2, 0), passphrase("right"), false));
        assert_eq!(unlocks.next(&mut keyring, 0), None);
        unlocks.forget(1);
        // The delay of the attempt that was made stays.
        assert_eq!(unlocks.next(&mut keyring, DELAY_MS - 1), None);
        assert!(keyring.is_locked());
        let failed = unlocks.next(&mut keyring, DELAY_MS);
        assert!(failed.is_some_and(|failed| !failed.is_unlocked));
        let unlocked = unlocks.next(&mut keyring, DELAY_MS);
        assert!(unlocked.is_some_and(|unlocked| unlocked.is_unlocked));
        assert_eq!(unlocks.next_ms(), None);
    }
}
