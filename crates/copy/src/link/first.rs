//! The engine's first packets: INIT, and the requests after it for a server that is expected to
//! process messages in order before it has answered them.
//!
//! Written while the connection is being made, they leave with the login if the server turns out to
//! be Fulmar, and otherwise when the channel is open. Another server than was expected gets only
//! INIT; the rest waits for the server's first message.

use std::collections::VecDeque;

use packet::PacketBuf;

#[derive(Debug)]
enum FirstState {
    /// Nothing is written. Before the channel is open, the engine may write only if `expected`.
    Unwritten { expected: bool },
    /// The packet waits for the channel.
    Written(PacketBuf),
    /// These packets wait for the server's first message.
    Held(VecDeque<PacketBuf>),
    /// All packets may leave.
    Sent,
}

/// The order of the first packets. Each method returns the packets that may leave now.
#[derive(Debug)]
pub(super) struct FirstPackets {
    state: FirstState,
    /// The channel is open.
    begun: bool,
    /// The server processes messages in order before it has answered them.
    reads_on: bool,
}

impl FirstPackets {
    pub(super) fn new() -> Self {
        Self {
            state: FirstState::Unwritten { expected: false },
            begun: false,
            reads_on: false,
        }
    }

    /// The server is expected to be Fulmar; returns true if nothing is written yet.
    pub(super) fn expect(&mut self) -> bool {
        let is_unwritten = matches!(self.state, FirstState::Unwritten { .. });
        if is_unwritten {
            self.state = FirstState::Unwritten { expected: true };
        }
        is_unwritten
    }

    /// Returns true if the first packet may leave with the login.
    pub(super) fn is_expected(&self) -> bool {
        matches!(
            self.state,
            FirstState::Unwritten { expected: true } | FirstState::Written(_)
        )
    }

    /// Returns true if the engine may write the first packet before the channel is open.
    pub(super) fn takes_early(&self) -> bool {
        !self.begun && matches!(self.state, FirstState::Unwritten { expected: true })
    }

    /// Returns true if further packets must wait.
    pub(super) fn holds(&self) -> bool {
        matches!(self.state, FirstState::Written(_) | FirstState::Held(_))
    }

    pub(super) fn is_sent(&self) -> bool {
        matches!(self.state, FirstState::Sent)
    }

    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Payload of a first packet that waits for the channel.
    pub(super) fn early(&self) -> Vec<u8> {
        match &self.state {
            FirstState::Written(first) => first.payload().to_vec(),
            FirstState::Unwritten { .. } | FirstState::Held(_) | FirstState::Sent => Vec::new(),
        }
    }

    /// The channel is open. `heard`: the first packet left with the login.
    pub(super) fn begin(&mut self, heard: bool, reads_on: bool) -> Vec<PacketBuf> {
        (self.begun, self.reads_on) = (true, reads_on);
        match std::mem::replace(&mut self.state, FirstState::Sent) {
            FirstState::Written(_) if heard => Vec::new(),
            FirstState::Written(first) => self.split(first),
            other => {
                self.state = other;
                Vec::new()
            }
        }
    }

    /// Adds a packet of the engine.
    pub(super) fn add(&mut self, buf: PacketBuf) -> Vec<PacketBuf> {
        match &mut self.state {
            FirstState::Unwritten { .. } if !self.begun => {
                self.state = FirstState::Written(buf);
                Vec::new()
            }
            FirstState::Unwritten { .. } => self.split(buf),
            FirstState::Held(held) => {
                held.push_back(buf);
                Vec::new()
            }
            FirstState::Written(_) | FirstState::Sent => vec![buf],
        }
    }

    /// The channel is open, and this packet is the first for it.
    fn split(&mut self, buf: PacketBuf) -> Vec<PacketBuf> {
        let init = message_len(buf.payload());
        match buf.payload().split_at_checked(init) {
            Some((init, rest)) if !self.reads_on && !rest.is_empty() => {
                let [init, rest] = [init, rest].map(PacketBuf::from_payload);
                self.state = FirstState::Held(VecDeque::from([rest]));
                vec![init]
            }
            _ => {
                self.state = FirstState::Sent;
                vec![buf]
            }
        }
    }

    /// The server has sent its first message.
    pub(super) fn hear(&mut self) -> Vec<PacketBuf> {
        match &mut self.state {
            FirstState::Held(held) => {
                let held = std::mem::take(held);
                self.state = FirstState::Sent;
                held.into()
            }
            _ => Vec::new(),
        }
    }
}

/// Length of the first SFTP message with its length field, bytes.
fn message_len(bytes: &[u8]) -> usize {
    let len = bytes
        .first_chunk()
        .map_or(0, |len| u32::from_be_bytes(*len));
    usize::try_from(len).map_or(usize::MAX, |len| len.saturating_add(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// INIT and two words after it, as the engine writes them for a server that reads on.
    const INIT: &[u8] = &[0, 0, 0, 5, 1, 0, 0, 0, 3];
    const MORE: &[u8] = b"more";

    fn bytes(packets: &[PacketBuf]) -> Vec<u8> {
        packets
            .iter()
            .flat_map(|buf| buf.payload().to_vec())
            .collect()
    }

    fn adds(first: &mut FirstPackets, payload: &[u8]) -> Vec<u8> {
        bytes(&first.add(PacketBuf::from_payload(payload)))
    }

    /// With a first packet that was written before the channel was open.
    fn written() -> FirstPackets {
        let mut first = FirstPackets::new();
        assert_eq!(first.early(), b"");
        assert!(!first.takes_early());
        assert!(first.expect());
        assert!(first.takes_early());
        assert_eq!(adds(&mut first, &[INIT, MORE].concat()), b"");
        assert_eq!(first.early(), [INIT, MORE].concat());
        // It may be asked for again, by another connection.
        assert_eq!(first.early(), [INIT, MORE].concat());
        assert!(first.holds() && first.is_expected() && !first.expect());
        first
    }

    #[test]
    fn what_left_with_the_login_is_not_sent_again() {
        let mut first = written();
        assert_eq!(bytes(&first.begin(true, true)), b"");
        assert!(first.is_sent());
        assert_eq!(adds(&mut first, b"next"), b"next");
    }

    #[test]
    fn what_did_not_reach_the_channel_is_sent_first() {
        let mut first = written();
        assert_eq!(bytes(&first.begin(false, true)), [INIT, MORE].concat());
        assert_eq!(adds(&mut first, b"next"), b"next");
    }

    #[test]
    fn another_server_than_was_expected_gets_only_init_before_its_first_message() {
        let mut first = written();
        assert_eq!(bytes(&first.begin(false, false)), INIT);
        assert!(first.holds() && !first.is_expected());
        // A buffer that was given out before.
        assert_eq!(adds(&mut first, b"next"), b"");
        assert_eq!(bytes(&first.hear()), [MORE, b"next"].concat());
        assert_eq!(adds(&mut first, b"last"), b"last");
    }

    /// The channel was open before the engine had written anything.
    #[test]
    fn a_first_packet_that_is_late_goes_the_same_way() {
        for (reads_on, at_once) in [(true, [INIT, MORE].concat()), (false, INIT.to_vec())] {
            let mut first = FirstPackets::new();
            first.expect();
            assert_eq!(bytes(&first.begin(false, reads_on)), b"");
            assert!(!first.takes_early() && !first.holds());
            assert_eq!(adds(&mut first, &[INIT, MORE].concat()), at_once);
            let later = bytes(&first.hear());
            assert_eq!([at_once, later].concat(), [INIT, MORE].concat());
        }
    }
}
