//! The record of one channel: how far it is opened and closed, its two windows, and the requests
//! that await an answer.

use alloc::boxed::Box;

use compress::Origin;
use packet::PacketBuf;
use wire::message::{ChannelData, ChannelExtendedData, EXTENDED_DATA_STDERR, Encode};

use super::held_data::{EARLY_ADDRESS, HeldData};
use super::usage::Usage;
use super::window::{Outstanding, ReceiveWindow, SendWindow};
use crate::{Error, Stream};

/// Maximum unanswered requests of ours with `want_reply` on one channel.
const MAX_OPEN_REQUESTS: u32 = 1024;
/// Maximum requests of the peer that the owner has not answered, on one channel.
const MAX_OWED_REPLIES: u32 = 1024;

/// State of one direction of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Open,
    /// No more data; requests may still follow.
    Eof,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChannelState {
    /// Requested by us; the peer has not answered.
    Opening,
    /// As `Opening`, and the peer takes data before its answer.
    OpeningWithData,
    /// Requested by the peer; the owner has not answered.
    Asked,
    Open,
    /// Closed or refused, and the owner has not taken the event yet. Commands have no effect, and
    /// the number is not reused, so that no late command can reach another channel.
    Finished,
}

pub(super) struct ChannelRecord {
    state: ChannelState,
    remote: u32,
    /// Serial number of the channel on this connection. Unlike the channel's number on the wire it
    /// is never reused, so that compression does not mistake one channel for another.
    serial: u64,
    /// Our number had an earlier channel.
    is_reused: bool,
    pub(super) receive: ReceiveWindow,
    pub(super) send: SendWindow,
    pub(super) outstanding: Outstanding,
    pub(super) usage: Usage,
    sending: Half,
    receiving: Half,
    open_requests: u32,
    owed_replies: u32,
    /// The owner answers the peer's CLOSE itself.
    holds_close: bool,
    /// What the peer sent before our answer.
    held: Option<Box<HeldData>>,
}

/// What the peer's CLOSE requires.
pub(super) struct PeerClose {
    /// No EOF preceded it.
    pub(super) ends_data: bool,
    /// We have not sent CLOSE.
    pub(super) must_answer: bool,
    /// The owner answers it.
    pub(super) is_held: bool,
}

impl ChannelRecord {
    fn new(
        state: ChannelState,
        kind: &str,
        remote: u32,
        receive: ReceiveWindow,
        send: SendWindow,
    ) -> Self {
        Self {
            state,
            remote,
            serial: 0,
            is_reused: false,
            receive,
            send,
            outstanding: Outstanding::default(),
            usage: Usage::new(kind),
            sending: Half::Open,
            receiving: Half::Open,
            open_requests: 0,
            owed_replies: 0,
            holds_close: false,
            held: None,
        }
    }

    /// A channel that we request. The peer's number of it is 0 until the peer confirms it.
    /// `early_bytes` may be sent before, by our number.
    pub(super) fn ours(kind: &str, receive: ReceiveWindow, early_bytes: u32) -> Self {
        let (state, send) = match early_bytes {
            0 => (ChannelState::Opening, SendWindow::new(0, 0)),
            bytes => (ChannelState::OpeningWithData, SendWindow::new(bytes, bytes)),
        };
        Self::new(state, kind, 0, receive, send)
    }

    /// A channel that the peer requests under its number `remote`.
    pub(super) fn theirs(
        kind: &str,
        remote: u32,
        receive: ReceiveWindow,
        send: SendWindow,
    ) -> Self {
        let state = ChannelState::Asked;
        Self::new(state, kind, remote, receive, send)
    }

    /// The channel has got our number `own`, which an earlier one had if it `is_reused`.
    pub(super) fn insert(&mut self, own: u32, serial: u64, is_reused: bool) {
        (self.serial, self.is_reused) = (serial, is_reused);
        if self.state == ChannelState::OpeningWithData {
            self.remote = EARLY_ADDRESS | own;
        }
    }

    /// The peer's number of the channel.
    pub(super) fn remote(&self) -> u32 {
        self.remote
    }

    // ---- opening --------------------------------------------------------------------------

    pub(super) fn is_opening(&self) -> bool {
        matches!(
            self.state,
            ChannelState::Opening | ChannelState::OpeningWithData
        )
    }

    /// Returns true if the peer has not answered, and takes data before it does.
    pub(super) fn is_opening_with_data(&self) -> bool {
        self.state == ChannelState::OpeningWithData
    }

    /// Returns true if the owner has not answered the peer's request.
    pub(super) fn is_asked(&self) -> bool {
        self.state == ChannelState::Asked
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == ChannelState::Open
    }

    /// Records that the peer confirmed the channel under its number `remote`. Data that was sent
    /// before is charged to the window.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] if the window is smaller than that data.
    pub(super) fn confirm(&mut self, remote: u32, mut send: SendWindow) -> Result<(), Error> {
        let sent = usize::try_from(self.usage.traffic.sent).unwrap_or(usize::MAX);
        send.charge(sent).map_err(|_| {
            Error::PeerMisbehaved("first window smaller than the early data that it announced")
        })?;
        self.state = ChannelState::Open;
        self.remote = remote;
        self.send = send;
        Ok(())
    }

    /// Records our confirmation or refusal of the peer's channel; false if it has ended.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the peer does not wait for it.
    pub(super) fn answer_open(&mut self) -> Result<bool, Error> {
        match self.state {
            ChannelState::Finished => Ok(false),
            ChannelState::Asked => {
                self.state = ChannelState::Open;
                Ok(true)
            }
            _ => Err(Error::Misuse("the peer did not request this channel")),
        }
    }

    /// Records that the channel was closed or refused.
    pub(super) fn finish(&mut self) {
        self.state = ChannelState::Finished;
    }

    /// Returns true if a message of the peer on this channel has an effect: false after its CLOSE,
    /// and for one that is meant for an earlier channel of this number, since the peer cannot know
    /// yet that the number is another channel's. `early`: it names the peer's number.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] before its confirmation.
    pub(super) fn is_addressed(&self, early: bool) -> Result<bool, Error> {
        match self.state {
            ChannelState::Opening | ChannelState::OpeningWithData | ChannelState::Asked
                if self.is_reused && !early =>
            {
                Ok(false)
            }
            ChannelState::Open | ChannelState::Asked => Ok(self.receiving != Half::Closed),
            ChannelState::Opening | ChannelState::OpeningWithData => Err(Error::PeerMisbehaved(
                "message on a channel that is not confirmed",
            )),
            ChannelState::Finished => Ok(false),
        }
    }

    // ---- sending --------------------------------------------------------------------------

    /// Returns true if we have sent neither EOF nor CLOSE.
    pub(super) fn takes_data(&self) -> bool {
        self.sending == Half::Open
    }

    /// Returns true if data may be sent as far as the window allows.
    pub(super) fn sends_data(&self) -> bool {
        matches!(
            self.state,
            ChannelState::Open | ChannelState::OpeningWithData
        ) && self.takes_data()
    }

    /// Returns true if early data may be sent: the peer has not confirmed the channel.
    pub(super) fn sends_early(&self) -> bool {
        self.is_opening() && self.takes_data()
    }

    pub(super) fn has_sent_close(&self) -> bool {
        self.sending == Half::Closed
    }

    /// Returns true if commands have no effect any more.
    pub(super) fn ignores_commands(&self) -> bool {
        self.state == ChannelState::Finished || self.has_sent_close()
    }

    /// Charges the payload of `buf` to the window and writes the header of its message; returns the
    /// origin of the payload for compression.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the payload may not be sent now.
    pub(super) fn begin_data(
        &mut self,
        stream: Stream,
        buf: &mut PacketBuf,
    ) -> Result<Origin, Error> {
        if !self.sends_data() {
            return Err(Error::Misuse("data on a channel that cannot send it"));
        }
        if buf.len() > self.send.max_data(usize::MAX) {
            return Err(Error::Misuse("data longer than the peer's maximum packet"));
        }
        self.send.charge(buf.len())?;
        let len = u32::try_from(buf.len()).map_err(|_| Error::Misuse("data too long"))?;
        let [r0, r1, r2, r3] = self.remote.to_be_bytes();
        let [l0, l1, l2, l3] = len.to_be_bytes();
        match stream {
            Stream::Data => {
                buf.prepend(&[ChannelData::NUMBER, r0, r1, r2, r3, l0, l1, l2, l3]);
            }
            Stream::Stderr => {
                let [c0, c1, c2, c3] = EXTENDED_DATA_STDERR.to_be_bytes();
                let number = ChannelExtendedData::NUMBER;
                buf.prepend(&[number, r0, r1, r2, r3, c0, c1, c2, c3, l0, l1, l2, l3]);
            }
        }
        Ok(Origin::Channel(self.serial))
    }

    /// Records our EOF; false if it must not be sent.
    pub(super) fn begin_eof(&mut self, early: bool) -> bool {
        let sends = self.sends_data() || (early && self.takes_data());
        if sends {
            self.sending = Half::Eof;
        }
        sends
    }

    /// Records our CLOSE; `None` if it must not be sent, otherwise whether the peer has sent its
    /// own.
    pub(super) fn begin_close(&mut self) -> Option<bool> {
        if !self.is_open() || self.has_sent_close() {
            return None;
        }
        self.sending = Half::Closed;
        Some(self.receiving == Half::Closed)
    }

    /// Records our request.
    ///
    /// # Errors
    /// [`Error::Misuse`] before the channel is confirmed, unless it is `early`, and with too many
    /// unanswered requests.
    pub(super) fn begin_request(&mut self, want_reply: bool, early: bool) -> Result<(), Error> {
        if !self.is_open() && !early {
            return Err(Error::Misuse("request on a channel that is not open"));
        }
        if want_reply {
            if self.open_requests >= MAX_OPEN_REQUESTS {
                return Err(Error::Misuse("too many requests without an answer"));
            }
            self.open_requests += 1;
        }
        Ok(())
    }

    /// Records the answer to our oldest request; false if none is unanswered.
    pub(super) fn settle_request(&mut self) -> bool {
        let rest = self.open_requests.checked_sub(1);
        self.open_requests = rest.unwrap_or_default();
        rest.is_some()
    }

    /// Records our reply to the peer's oldest request.
    ///
    /// # Errors
    /// [`Error::Misuse`] if none awaits a reply.
    pub(super) fn begin_reply(&mut self) -> Result<(), Error> {
        let rest = self.owed_replies.checked_sub(1);
        self.owed_replies = rest.ok_or(Error::Misuse("no reply is owed"))?;
        Ok(())
    }

    /// Leaves the answer to the peer's CLOSE to the owner.
    pub(super) fn hold_close(&mut self) {
        self.holds_close = true;
    }

    /// Records that nothing that we sent early has reached the peer.
    pub(super) fn forget_early(&mut self) {
        self.open_requests = 0;
        self.sending = Half::Open;
    }

    // ---- receiving ------------------------------------------------------------------------

    /// What the peer sent before our answer.
    pub(super) fn held(&mut self) -> &mut HeldData {
        self.held.get_or_insert_default()
    }

    pub(super) fn take_held(&mut self) -> Option<Box<HeldData>> {
        self.held.take()
    }

    /// Checks that the peer may send data now; `early` if it addressed the data by its own number.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] otherwise.
    pub(super) fn check_data(&self, early: bool) -> Result<(), Error> {
        if !(self.is_open() || (early && self.is_asked())) {
            return Err(Error::PeerMisbehaved(
                "data on a channel that is not confirmed",
            ));
        }
        if self.receiving != Half::Open {
            return Err(Error::PeerMisbehaved("data after EOF"));
        }
        Ok(())
    }

    /// Records the peer's EOF; false if it has sent one before.
    pub(super) fn receive_eof(&mut self) -> bool {
        let first = self.receiving == Half::Open;
        self.receiving = Half::Eof;
        first
    }

    /// Records the peer's CLOSE, and our answer unless the owner sends it.
    pub(super) fn receive_close(&mut self) -> PeerClose {
        let ends_data = self.receiving == Half::Open;
        self.receiving = Half::Closed;
        // If the owner has not answered the open yet, it gets both events in order.
        self.state = ChannelState::Open;
        let must_answer = !self.has_sent_close();
        let is_held = self.holds_close && must_answer;
        if !is_held {
            self.sending = Half::Closed;
        }
        PeerClose {
            ends_data,
            must_answer,
            is_held,
        }
    }

    /// Records that a reply to a request of the peer is owed.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] with too many of them.
    pub(super) fn owe_reply(&mut self) -> Result<(), Error> {
        if self.owed_replies >= MAX_OWED_REPLIES {
            return Err(Error::PeerMisbehaved("too many requests at once"));
        }
        self.owed_replies += 1;
        Ok(())
    }
}
