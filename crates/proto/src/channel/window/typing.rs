//! Notices that a user types while bulk data is transferred. For a moment a short queue is then
//! worth more than speed: each keystroke's echo waits for the data that is outstanding.

use crate::Millis;

/// Longest data of one keystroke, bytes: a key that sends an escape sequence. The shortest request
/// of SFTP or rsync is longer.
const MOST_KEY_BYTES: usize = 16;
/// Time for which a keystroke counts, milliseconds.
const LASTS_MS: Millis = 1_000;

/// Time of the last keystroke.
#[derive(Debug, Default)]
pub(crate) struct Typing {
    last: Option<Millis>,
}

impl Typing {
    /// Returns true if a client's message of `len` data bytes may be a keystroke.
    pub(crate) fn is_key(len: usize) -> bool {
        (1..=MOST_KEY_BYTES).contains(&len)
    }

    /// Records a keystroke.
    pub(crate) fn key(&mut self, now: Millis) {
        self.last = Some(now);
    }

    /// Returns true if the last keystroke was a moment ago.
    pub(crate) fn is_active(&self, now: Millis) -> bool {
        self.active_until(now).is_some()
    }

    /// Time from which the last keystroke counts no more; `None` if that has passed.
    pub(crate) fn active_until(&self, now: Millis) -> Option<Millis> {
        let end = self.last?.saturating_add(LASTS_MS);
        (now < end).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keystroke_is_short_and_counts_for_a_second() {
        assert!(Typing::is_key(1) && Typing::is_key(16));
        assert!(!Typing::is_key(0) && !Typing::is_key(17));
        let mut typing = Typing::default();
        assert!(!typing.is_active(0));
        typing.key(5_000);
        assert!(typing.is_active(5_999));
        assert!(!typing.is_active(6_000));
    }
}
