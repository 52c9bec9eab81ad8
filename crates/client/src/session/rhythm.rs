//! When typed input leaves (`ObscureKeystrokeTiming`, ssh_config(5)).
//!
//! The time from one key to the next tells whoever watches the network much of what is typed.
//! While somebody types, a packet leaves at each of a row of moments and at no other: with what
//! was typed since the last one, or else a ping (`ping@openssh.com`) of a keystroke's size, to
//! be answered by something of an echo's size. Pings go on for a random time behind the last
//! key. What must not happen is that both leave at one moment, or a key between two: it would
//! show which packets are keys (CVE-2024-39894).
//!
//! Input that is more than a few keys (a paste) hides nothing and is not held up. Only time is
//! decided here, in milliseconds of the driver's clock; `input` reads and sends.

use proto::Millis;

/// Input longer than this was not typed, bytes.
const MAX_TYPED_BYTES: usize = 64;
/// Pings go on at least so long after the last key, milliseconds, as with OpenSSH.
const LEAST_AFTER_MS: Millis = 1024;
/// And at most so much longer.
const MORE_AFTER_MS: u64 = 2048;

/// What a ping says, so that it is as long as the CHANNEL_DATA of one byte.
pub(super) const PING_DATA: &[u8] = b"ping!";

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beat {
    /// Nobody types.
    Rest,
    /// What was typed leaves.
    Keys,
    /// A ping leaves.
    Ping,
    /// Nothing leaves before [`Rhythm::deadline`].
    Wait,
}

/// The row of moments.
#[derive(Debug)]
pub(super) struct Rhythm {
    interval_ms: Millis,
    /// A number below its argument, at random.
    random: fn(u64) -> u64,
    typing: Option<Typing>,
    pings: u64,
}

/// Somebody types, or did a moment ago.
#[derive(Debug)]
struct Typing {
    /// The next moment.
    next: Millis,
    /// From here on no ping leaves any more.
    until: Millis,
}

impl Rhythm {
    /// Moments about `interval_ms` apart.
    pub(super) fn new(interval_ms: u32, random: fn(u64) -> u64) -> Self {
        Self {
            interval_ms: Millis::from(interval_ms),
            random,
            typing: None,
            pings: 0,
        }
    }

    /// Decides; `waiting_bytes` were typed and have not left.
    pub(super) fn beat(&mut self, now: Millis, waiting_bytes: usize) -> Beat {
        if waiting_bytes > MAX_TYPED_BYTES {
            self.typing = None;
            return Beat::Keys;
        }
        let until = match &self.typing {
            Some(typing) if now < typing.next => return Beat::Wait,
            _ if waiting_bytes > 0 => now + LEAST_AFTER_MS + (self.random)(MORE_AFTER_MS),
            Some(typing) if now < typing.until => typing.until,
            _ => {
                self.typing = None;
                return Beat::Rest;
            }
        };
        let next = now + self.interval();
        self.typing = Some(Typing { next, until });
        if waiting_bytes > 0 {
            Beat::Keys
        } else {
            Beat::Ping
        }
    }

    /// A tenth more or less, so that the row has no beat of its own to be recognised by.
    fn interval(&self) -> Millis {
        let tenth = self.interval_ms / 10;
        self.interval_ms - tenth + (self.random)(2 * tenth + 1)
    }

    pub(super) fn is_resting(&self) -> bool {
        self.typing.is_none()
    }

    pub(super) fn count_ping(&mut self, sent: bool) {
        self.pings += u64::from(sent);
    }

    /// Pings that have left, for the log.
    pub(super) fn pings(&self) -> u64 {
        self.pings
    }

    /// When [`Rhythm::beat`] is to be asked next.
    pub(super) fn deadline(&self) -> Option<Millis> {
        self.typing.as_ref().map(|typing| typing.next)
    }
}

/// A number below `bound` from the kernel.
pub(super) fn random(bound: u64) -> u64 {
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

    /// What leaves when one key is typed at each of `keys` (milliseconds): `k` or `p`, and when.
    fn leaves(rhythm: &mut Rhythm, keys: &[Millis]) -> Vec<(Millis, char)> {
        let mut out = Vec::new();
        let mut waiting = 0;
        for now in 0..10_000 {
            waiting += keys.iter().filter(|at| **at == now).count();
            // Asked at any time, not only when it said.
            match rhythm.beat(now, waiting) {
                Beat::Keys => {
                    waiting = 0;
                    out.push((now, 'k'));
                }
                Beat::Ping => out.push((now, 'p')),
                Beat::Rest | Beat::Wait => {}
            }
        }
        assert_eq!(waiting, 0, "all keys have left");
        assert!(rhythm.is_resting() && rhythm.deadline().is_none());
        out
    }

    fn times(row: &[(Millis, char)]) -> Vec<Millis> {
        row.iter().map(|(at, _)| *at).collect()
    }

    #[test]
    fn when_keys_are_pressed_does_not_show_in_when_packets_leave() {
        let slow = leaves(&mut Rhythm::new(20, least), &[100, 200, 300, 400, 500]);
        let fast = leaves(&mut Rhythm::new(20, least), &[100, 133, 134, 191, 499]);
        // Both sent their last key at the same moment of the row.
        assert_eq!(times(&slow), times(&fast));
        // And each moment has one packet.
        for pair in times(&fast).windows(2) {
            assert_eq!(pair[1] - pair[0], 18);
        }
    }

    #[test]
    fn a_key_waits_for_the_next_moment_and_the_first_one_for_none() {
        let row = leaves(&mut Rhythm::new(20, most), &[100, 101]);
        assert_eq!(row[..3], [(100, 'k'), (122, 'k'), (144, 'p')]);
    }

    #[test]
    fn keys_of_one_interval_leave_together() {
        let row = leaves(&mut Rhythm::new(80, least), &[100, 110, 120, 130]);
        let keys: Vec<_> = row.iter().filter(|(_, what)| *what == 'k').collect();
        assert_eq!(keys, [&(100, 'k'), &(172, 'k')]);
    }

    #[test]
    fn pings_go_on_for_one_to_three_seconds_after_the_last_key() {
        for (random, end) in [
            (least as fn(u64) -> u64, 1024),
            (most as fn(u64) -> u64, 3071),
        ] {
            let row = leaves(&mut Rhythm::new(20, random), &[1000, 2000]);
            let key = row.iter().rev().find(|(_, what)| *what == 'k').unwrap().0;
            let last = row.last().unwrap();
            assert_eq!(last.1, 'p');
            assert!(last.0 < key + end && last.0 + 25 > key + end, "{last:?}");
        }
    }

    #[test]
    fn a_paste_is_not_held_up_and_ends_the_row() {
        let mut rhythm = Rhythm::new(20, least);
        assert_eq!(rhythm.beat(0, 1), Beat::Keys);
        assert_eq!(rhythm.beat(1, 2), Beat::Wait);
        assert_eq!(rhythm.beat(2, 500), Beat::Keys);
        assert_eq!(rhythm.beat(3, 0), Beat::Rest);
        assert_eq!(rhythm.beat(3, 500), Beat::Keys);
        assert!(rhythm.is_resting());
    }

    #[test]
    fn moments_that_were_missed_are_not_made_up_for() {
        let mut rhythm = Rhythm::new(20, least);
        assert_eq!(rhythm.beat(0, 1), Beat::Keys);
        assert_eq!(rhythm.beat(900, 0), Beat::Ping);
        assert_eq!(rhythm.beat(901, 0), Beat::Wait);
        assert_eq!(rhythm.deadline(), Some(918));
    }

    #[test]
    fn the_shortest_interval_still_moves_on() {
        let row = leaves(&mut Rhythm::new(1, most), &[0]);
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
