//! Pipelined packets of a client, by the sequence numbers with which they leave. A server that
//! cannot process one answers UNIMPLEMENTED with its number (RFC 4253 §11.4).
//!
//! A packet gets its number at the Stamp point, which is late if output is compressed or held back
//! for a key exchange; so the packet's kind is queued with it and recorded there. The server
//! answers in order: the answer to one packet settles all packets that left before it.

use alloc::collections::VecDeque;

/// Maximum number of recorded packets; further ones are not recorded.
const MAX_NOTED: usize = 1100;

/// Kind of a pipelined packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PipelinedPacket {
    /// USERAUTH_REQUEST.
    Login,
    /// CHANNEL_OPEN.
    Open,
    /// CHANNEL_REQUEST.
    Request {
        /// True if a reply was requested.
        want_reply: bool,
    },
    /// Messages without a reply.
    Other,
}

/// Pipelined packets that are not settled, in order.
#[derive(Debug, Default)]
pub(crate) struct SentAhead(VecDeque<(u32, PipelinedPacket)>);

impl SentAhead {
    /// Records a packet that leaves with this number.
    pub(super) fn note(&mut self, sequence: u32, kind: PipelinedPacket) {
        if self.0.len() < MAX_NOTED {
            self.0.push_back((sequence, kind));
        }
    }

    /// Removes and returns the packet that the server did not implement. Strict key exchange resets
    /// the numbers at NEWKEYS: of two packets with the same number the older one is meant, since
    /// answers arrive in order.
    pub(crate) fn take(&mut self, sequence: u32) -> Option<PipelinedPacket> {
        let place = self.0.iter().position(|(sent, _)| *sent == sequence)?;
        self.0.remove(place).map(|(_, kind)| kind)
    }

    /// Settles the oldest packet of this kind, which the server has answered, and all before it.
    pub(crate) fn settle(&mut self, kind: PipelinedPacket) {
        if let Some(place) = self.0.iter().position(|(_, sent)| *sent == kind) {
            self.0.drain(..=place);
        }
    }

    /// Settles all packets: no answer can follow.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{PipelinedPacket, SentAhead};

    #[test]
    fn an_answer_settles_what_left_before() {
        let mut sent = SentAhead::default();
        let all = [
            PipelinedPacket::Login,
            PipelinedPacket::Login,
            PipelinedPacket::Open,
            PipelinedPacket::Request { want_reply: false },
            PipelinedPacket::Request { want_reply: true },
            PipelinedPacket::Other,
        ];
        for (sequence, kind) in (3..).zip(all) {
            sent.note(sequence, kind);
        }
        sent.settle(PipelinedPacket::Login);
        assert_eq!(sent.take(3), None);
        assert_eq!(sent.take(4), Some(PipelinedPacket::Login));
        assert_eq!(sent.take(4), None);
        sent.settle(PipelinedPacket::Request { want_reply: true });
        for sequence in 0..=7 {
            assert_eq!(sent.take(sequence), None, "{sequence}");
        }
        assert_eq!(sent.take(8), Some(PipelinedPacket::Other));
    }

    #[test]
    fn of_two_packets_with_one_number_the_older_is_meant() {
        let mut sent = SentAhead::default();
        sent.note(5, PipelinedPacket::Login);
        sent.note(5, PipelinedPacket::Open);
        assert_eq!(sent.take(5), Some(PipelinedPacket::Login));
        assert_eq!(sent.take(5), Some(PipelinedPacket::Open));
    }
}
