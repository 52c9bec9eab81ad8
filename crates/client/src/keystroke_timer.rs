//! Decides when typed input leaves (`ObscureKeystrokeTiming`, ssh_config(5)).
//!
//! The times between keystrokes reveal much of the typed text to an observer of the network. While
//! the user types, a packet leaves at each of a series of send times and at no other time: the
//! input typed since the last one, or else a ping (`ping@openssh.com`) of a keystroke's size, whose
//! answer has an echo's size. Pings continue for a random time after the last keystroke. Two
//! packets at one send time, or a keystroke between two, would show which packets are keystrokes
//! (CVE-2024-39894).
//!
//! Longer input (a paste) has no timing to hide and is not delayed. This module decides about time,
//! in milliseconds of the driver's clock, and sends the pings; `input` reads and sends what is typed,
//! and for passengers of a shared connection `sharing::master::typed`, each with a series of its own.

use driver::Driver;
use proto::{Error, Millis};

use crate::log::{debug2, debug3};

/// Most bytes of typed input; longer input is taken for a paste.
const MAX_TYPED_BYTES: usize = 64;
/// Shortest time for which pings continue after the last keystroke, milliseconds, as in OpenSSH.
const MIN_PINGS_MS: Millis = 1024;
/// Most random time added to [`MIN_PINGS_MS`], milliseconds.
const EXTRA_PINGS_MS: u64 = 2048;

/// Payload that makes a ping as long as the CHANNEL_DATA of one byte.
const PING_DATA: &[u8] = b"ping!";

/// The action due now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeystrokeAction {
    /// The user is not typing.
    Rest,
    /// The waiting input leaves.
    Keys,
    /// A ping leaves.
    Ping,
    /// Nothing leaves before [`KeystrokeTimer::deadline`].
    Wait,
}

/// The series of send times.
#[derive(Debug)]
pub(crate) struct KeystrokeTimer {
    interval_ms: Millis,
    /// Returns a random number below its argument.
    random: fn(u64) -> u64,
    typing: Option<Typing>,
    pings: u64,
}

/// State while the user types, and for some seconds after.
#[derive(Debug)]
struct Typing {
    /// The next send time.
    next: Millis,
    /// No ping leaves from this time on.
    until: Millis,
}

impl KeystrokeTimer {
    /// Hides the timing of keystrokes, if the server answers pings.
    pub(crate) fn start(interval_ms: u32, driver: &mut Driver) -> Option<Self> {
        if !driver.connection().ping_supported() {
            debug2!("keystroke timing is not hidden: the server does not know ping@openssh.com");
            return None;
        }
        debug2!("keystroke timing is hidden: a packet each {interval_ms} ms while typing");
        Some(Self::new(interval_ms, random))
    }

    /// Returns false while waiting input may not leave. At a due time without input it sends a
    /// ping. The driver's timer `token` says when to call this again.
    pub(crate) fn run(
        &mut self,
        waiting_bytes: usize,
        token: u64,
        driver: &mut Driver,
    ) -> Result<bool, Error> {
        if waiting_bytes == 0 && self.typing.is_none() {
            return Ok(true);
        }
        let action = self.next_action(driver.now(), waiting_bytes);
        match action {
            KeystrokeAction::Ping => {
                self.pings += u64::from(driver.connection().send_ping(PING_DATA)?);
            }
            KeystrokeAction::Rest => {
                debug3!("keystroke timing: at rest after {} pings", self.pings);
            }
            KeystrokeAction::Keys | KeystrokeAction::Wait => {}
        }
        driver.set_timer(token, self.deadline());
        Ok(action != KeystrokeAction::Wait)
    }

    /// Send times that are about `interval_ms` apart.
    fn new(interval_ms: u32, random: fn(u64) -> u64) -> Self {
        Self {
            interval_ms: Millis::from(interval_ms),
            random,
            typing: None,
            pings: 0,
        }
    }

    /// Decides what leaves at `now`; `waiting_bytes` were typed and have not left.
    fn next_action(&mut self, now: Millis, waiting_bytes: usize) -> KeystrokeAction {
        if waiting_bytes > MAX_TYPED_BYTES {
            self.typing = None;
            return KeystrokeAction::Keys;
        }
        let until = match &self.typing {
            Some(typing) if now < typing.next => return KeystrokeAction::Wait,
            _ if waiting_bytes > 0 => now + MIN_PINGS_MS + (self.random)(EXTRA_PINGS_MS),
            Some(typing) if now < typing.until => typing.until,
            _ => {
                self.typing = None;
                return KeystrokeAction::Rest;
            }
        };
        let next = now + self.interval();
        self.typing = Some(Typing { next, until });
        if waiting_bytes > 0 {
            KeystrokeAction::Keys
        } else {
            KeystrokeAction::Ping
        }
    }

    /// The interval varied by up to a tenth, so that the series has no period to recognise it by.
    fn interval(&self) -> Millis {
        let tenth = self.interval_ms / 10;
        self.interval_ms - tenth + (self.random)(2 * tenth + 1)
    }

    /// Time at which [`KeystrokeTimer::next_action`] must be called next.
    fn deadline(&self) -> Option<Millis> {
        self.typing.as_ref().map(|typing| typing.next)
    }
}

/// A random number below `bound`, from the kernel.
fn random(bound: u64) -> u64 {
    u64::from_ne_bytes(crypto::random::bytes()) % bound.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::message::{ChannelData, Encode, Ping};

    fn least(_: u64) -> u64 {
        0
    }

    fn most(bound: u64) -> u64 {
        bound - 1
    }

    /// The packets that leave when one key is typed at each of `keys` (milliseconds): `k` or `p`,
    /// with the time.
    fn leaves(keystroke_timer: &mut KeystrokeTimer, keys: &[Millis]) -> Vec<(Millis, char)> {
        let mut out = Vec::new();
        let mut waiting = 0;
        for now in 0..10_000 {
            waiting += keys.iter().filter(|at| **at == now).count();
            // Called at any time, not only at the deadline.
            match keystroke_timer.next_action(now, waiting) {
                KeystrokeAction::Keys => {
                    waiting = 0;
                    out.push((now, 'k'));
                }
                KeystrokeAction::Ping => out.push((now, 'p')),
                KeystrokeAction::Rest | KeystrokeAction::Wait => {}
            }
        }
        assert_eq!(waiting, 0, "all keys have left");
        assert!(keystroke_timer.typing.is_none() && keystroke_timer.deadline().is_none());
        out
    }

    fn times(row: &[(Millis, char)]) -> Vec<Millis> {
        row.iter().map(|(at, _)| *at).collect()
    }

    #[test]
    fn when_keys_are_pressed_does_not_show_in_when_packets_leave() {
        let slow = leaves(
            &mut KeystrokeTimer::new(20, least),
            &[100, 200, 300, 400, 500],
        );
        let fast = leaves(
            &mut KeystrokeTimer::new(20, least),
            &[100, 133, 134, 191, 499],
        );
        // Both sent their last key at the same moment of the row.
        assert_eq!(times(&slow), times(&fast));
        // And each moment has one packet.
        for pair in times(&fast).windows(2) {
            assert_eq!(pair[1] - pair[0], 18);
        }
    }

    #[test]
    fn a_key_waits_for_the_next_moment_and_the_first_one_for_none() {
        let row = leaves(&mut KeystrokeTimer::new(20, most), &[100, 101]);
        assert_eq!(row[..3], [(100, 'k'), (122, 'k'), (144, 'p')]);
    }

    #[test]
    fn keys_of_one_interval_leave_together() {
        let row = leaves(&mut KeystrokeTimer::new(80, least), &[100, 110, 120, 130]);
        let keys: Vec<_> = row.iter().filter(|(_, what)| *what == 'k').collect();
        assert_eq!(keys, [&(100, 'k'), &(172, 'k')]);
    }

    #[test]
    fn pings_go_on_for_one_to_three_seconds_after_the_last_key() {
        for (random, end) in [
            (least as fn(u64) -> u64, 1024),
            (most as fn(u64) -> u64, 3071),
        ] {
            let row = leaves(&mut KeystrokeTimer::new(20, random), &[1000, 2000]);
            let key = row.iter().rev().find(|(_, what)| *what == 'k').unwrap().0;
            let last = row.last().unwrap();
            assert_eq!(last.1, 'p');
            assert!(last.0 < key + end && last.0 + 25 > key + end, "{last:?}");
        }
    }

    #[test]
    fn a_paste_is_not_held_up_and_ends_the_row() {
        let mut keystroke_timer = KeystrokeTimer::new(20, least);
        assert_eq!(keystroke_timer.next_action(0, 1), KeystrokeAction::Keys);
        assert_eq!(keystroke_timer.next_action(1, 2), KeystrokeAction::Wait);
        assert_eq!(keystroke_timer.next_action(2, 500), KeystrokeAction::Keys);
        assert_eq!(keystroke_timer.next_action(3, 0), KeystrokeAction::Rest);
        assert_eq!(keystroke_timer.next_action(3, 500), KeystrokeAction::Keys);
        assert!(keystroke_timer.typing.is_none());
    }

    #[test]
    fn moments_that_were_missed_are_not_made_up_for() {
        let mut keystroke_timer = KeystrokeTimer::new(20, least);
        assert_eq!(keystroke_timer.next_action(0, 1), KeystrokeAction::Keys);
        assert_eq!(keystroke_timer.next_action(900, 0), KeystrokeAction::Ping);
        assert_eq!(keystroke_timer.next_action(901, 0), KeystrokeAction::Wait);
        assert_eq!(keystroke_timer.deadline(), Some(918));
    }

    #[test]
    fn the_shortest_interval_still_moves_on() {
        let row = leaves(&mut KeystrokeTimer::new(1, most), &[0]);
        assert!(times(&row).windows(2).all(|pair| pair[1] == pair[0] + 1));
    }

    #[test]
    fn a_ping_is_as_long_as_a_key() {
        let key = ChannelData {
            recipient_channel: 0,
            data: b"x",
        };
        let ping = Ping { data: PING_DATA };
        assert_eq!(ping.encode().len(), key.encode().len());
    }
}
