//! Packets that a client sends ahead of the server's answers, by the sequence numbers with which
//! they leave: a server that cannot take one says UNIMPLEMENTED and its number (RFC 4253 §11.4).
//!
//! A packet gets its number at the Stamp point, which is late where output is held back for a key
//! exchange or is compressed; so its kind travels with it, and is noted there. The server answers
//! in order: an answer to one packet settles all that left before it.

use alloc::collections::VecDeque;

/// Packets that are remembered. What an owner sends beyond is a packet too many.
const MAX_NOTED: usize = 1100;

/// What a packet sent ahead was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// USERAUTH_REQUEST.
    Login,
    /// CHANNEL_OPEN.
    Open,
    /// CHANNEL_REQUEST.
    Request {
        /// An answer was asked for.
        want_reply: bool,
    },
    /// What is never answered.
    Other,
}

/// What left ahead and is not settled, in order.
#[derive(Debug, Default)]
pub(crate) struct SentAhead(VecDeque<(u32, Ahead)>);

impl SentAhead {
    /// The packet leaves with this number.
    pub(super) fn note(&mut self, sequence: u32, kind: Ahead) {
        if self.0.len() < MAX_NOTED {
            self.0.push_back((sequence, kind));
        }
    }

    /// The server did not take the packet with this number. Numbers begin anew with strict key
    /// exchange's NEWKEYS: of two the older one is meant, since answers come in order.
    pub(crate) fn take(&mut self, sequence: u32) -> Option<Ahead> {
        let place = self.0.iter().position(|(sent, _)| *sent == sequence)?;
        self.0.remove(place).map(|(_, kind)| kind)
    }

    /// The server has answered the oldest packet of this kind: it has dealt with those before.
    pub(crate) fn settle(&mut self, kind: Ahead) {
        if let Some(place) = self.0.iter().position(|(_, sent)| *sent == kind) {
            self.0.drain(..=place);
        }
    }

    /// Nothing of it can be answered any more.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{Ahead, SentAhead};

    #[test]
    fn an_answer_settles_what_left_before() {
        let mut sent = SentAhead::default();
        let all = [
            Ahead::Login,
            Ahead::Login,
            Ahead::Open,
            Ahead::Request { want_reply: false },
            Ahead::Request { want_reply: true },
            Ahead::Other,
        ];
        for (sequence, kind) in (3..).zip(all) {
            sent.note(sequence, kind);
        }
        sent.settle(Ahead::Login);
        assert_eq!(sent.take(3), None);
        assert_eq!(sent.take(4), Some(Ahead::Login));
        assert_eq!(sent.take(4), None);
        sent.settle(Ahead::Request { want_reply: true });
        for sequence in 0..=7 {
            assert_eq!(sent.take(sequence), None, "{sequence}");
        }
        assert_eq!(sent.take(8), Some(Ahead::Other));
    }

    #[test]
    fn of_two_packets_with_one_number_the_older_is_meant() {
        let mut sent = SentAhead::default();
        sent.note(5, Ahead::Login);
        sent.note(5, Ahead::Open);
        assert_eq!(sent.take(5), Some(Ahead::Login));
        assert_eq!(sent.take(5), Some(Ahead::Open));
    }
}
