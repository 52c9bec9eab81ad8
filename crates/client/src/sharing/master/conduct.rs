//! What a passenger in proxy mode may send on one of its channels. A message that breaks RFC 4254
//! ends its passenger: a server would end the connection for it, and all sessions with it.

use proto::channel::Request;
use wire::DecodeError;
use wire::message::{
    ChannelClose, ChannelData, ChannelEof, ChannelExtendedData, ChannelFailure, ChannelOpenFailure,
    ChannelRequest, ChannelSuccess, ChannelWindowAdjust, Encode,
};

/// The state of a channel, as far as it limits what may be sent.
#[derive(Debug, Default)]
pub(super) struct ProxiedConduct {
    /// Bytes that the server takes now, and in one message.
    window: u64,
    max_packet: u32,
    /// Bytes that the passenger has permitted the server.
    granted: u64,
    has_ended: bool,
    /// Requests of the server without an answer.
    unanswered: u64,
}

impl ProxiedConduct {
    /// A channel whose passenger takes `granted` bytes.
    pub(super) fn granting(granted: u32) -> Self {
        Self {
            granted: u64::from(granted),
            ..Self::default()
        }
    }

    /// The passenger takes `bytes` on a channel of the server.
    pub(super) fn grant(&mut self, bytes: u32) {
        self.granted = u64::from(bytes);
    }

    /// The server takes `window` bytes, and at most `max_packet` in one message.
    pub(super) fn opened(&mut self, window: u32, max_packet: u32) {
        self.window = u64::from(window);
        self.max_packet = max_packet;
    }

    /// Notes a message of the server.
    pub(super) fn received(&mut self, payload: &[u8]) {
        match payload.first().copied().unwrap_or_default() {
            ChannelWindowAdjust::NUMBER => {
                let adjust = ChannelWindowAdjust::decode(payload);
                let bytes = adjust.map_or(0, |adjust| adjust.bytes);
                self.window = self.window.saturating_add(u64::from(bytes));
            }
            ChannelData::NUMBER => {
                let data = ChannelData::decode(payload);
                self.spend_grant(data.map_or(0, |data| data.data.len()));
            }
            ChannelExtendedData::NUMBER => {
                let data = ChannelExtendedData::decode(payload);
                self.spend_grant(data.map_or(0, |data| data.data.len()));
            }
            ChannelRequest::NUMBER => {
                let request = ChannelRequest::decode(payload);
                let wants = request.is_ok_and(|request| request.want_reply);
                self.unanswered = self.unanswered.saturating_add(u64::from(wants));
            }
            _ => {}
        }
    }

    fn spend_grant(&mut self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.granted = self.granted.saturating_sub(bytes);
    }

    /// Checks and notes a message of the passenger.
    ///
    /// # Errors
    /// How it breaks the protocol.
    pub(super) fn send(&mut self, payload: &[u8]) -> Result<(), String> {
        let number = payload.first().copied().unwrap_or_default();
        let malformed = |_: DecodeError| format!("message {number} is malformed");
        match number {
            ChannelOpenFailure::NUMBER => {
                ChannelOpenFailure::decode(payload).map_err(malformed)?;
            }
            ChannelWindowAdjust::NUMBER => {
                let adjust = ChannelWindowAdjust::decode(payload).map_err(malformed)?;
                self.granted = self.granted.saturating_add(u64::from(adjust.bytes));
                if self.granted > u64::from(u32::MAX) {
                    return Err("WINDOW_ADJUST beyond the largest window".into());
                }
            }
            ChannelData::NUMBER => {
                let data = ChannelData::decode(payload).map_err(malformed)?;
                self.spend(data.data.len())?;
            }
            ChannelExtendedData::NUMBER => {
                let data = ChannelExtendedData::decode(payload).map_err(malformed)?;
                self.spend(data.data.len())?;
            }
            ChannelEof::NUMBER => {
                ChannelEof::decode(payload).map_err(malformed)?;
                if std::mem::replace(&mut self.has_ended, true) {
                    return Err("EOF twice".into());
                }
            }
            ChannelClose::NUMBER => {
                ChannelClose::decode(payload).map_err(malformed)?;
            }
            ChannelRequest::NUMBER => {
                let request = ChannelRequest::decode(payload).map_err(malformed)?;
                Request::decode(request.name, request.fields.0).map_err(malformed)?;
            }
            ChannelSuccess::NUMBER => {
                ChannelSuccess::decode(payload).map_err(malformed)?;
                self.answer()?;
            }
            ChannelFailure::NUMBER => {
                ChannelFailure::decode(payload).map_err(malformed)?;
                self.answer()?;
            }
            _ => {}
        }
        Ok(())
    }

    fn answer(&mut self) -> Result<(), String> {
        let left = self.unanswered.checked_sub(1);
        self.unanswered = left.ok_or("an answer to no request")?;
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if self.has_ended {
            return Err("data after EOF".into());
        }
        if bytes > u64::from(self.max_packet) {
            return Err(format!("{bytes} bytes of data in one message"));
        }
        let left = self.window.checked_sub(bytes);
        self.window = left.ok_or("more data than the window permits")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wire::Rest;

    use super::*;

    fn data(bytes: &[u8]) -> Vec<u8> {
        ChannelData {
            recipient_channel: 0,
            data: bytes,
        }
        .encode()
    }

    fn adjust(bytes: u32) -> Vec<u8> {
        ChannelWindowAdjust {
            recipient_channel: 0,
            bytes,
        }
        .encode()
    }

    #[test]
    fn data_keeps_to_the_window_and_to_the_longest_message() {
        let mut conduct = ProxiedConduct::granting(10);
        assert!(conduct.send(&data(b"x")).is_err(), "before the window");
        conduct.opened(5, 4);
        assert!(conduct.send(&data(b"12345")).is_err(), "too long");
        assert_eq!(conduct.send(&data(b"1234")), Ok(()));
        assert!(conduct.send(&data(b"12")).is_err(), "beyond the window");
        conduct.received(&adjust(2));
        assert_eq!(conduct.send(&data(b"12")), Ok(()));
        let recipient_channel = 0;
        let eof = ChannelEof { recipient_channel }.encode();
        assert_eq!(conduct.send(&eof), Ok(()));
        assert!(conduct.send(&eof).is_err(), "EOF twice");
        assert!(conduct.send(&data(b"1")).is_err(), "after EOF");
    }

    #[test]
    fn a_window_does_not_grow_beyond_its_largest_size() {
        let mut conduct = ProxiedConduct::granting(u32::MAX);
        assert!(conduct.send(&adjust(3)).is_err());
        let mut conduct = ProxiedConduct::granting(u32::MAX);
        conduct.received(&data(b"123"));
        assert_eq!(conduct.send(&adjust(3)), Ok(()));
    }

    #[test]
    fn answers_need_requests_and_requests_need_their_fields() {
        let recipient_channel = 0;
        let answer = ChannelSuccess { recipient_channel }.encode();
        let mut conduct = ProxiedConduct::granting(1);
        assert!(conduct.send(&answer).is_err());
        let request = |name: &'static [u8], fields| {
            ChannelRequest {
                recipient_channel,
                name,
                want_reply: true,
                fields: Rest(fields),
            }
            .encode()
        };
        conduct.received(&request(b"keepalive@openssh.com", b""));
        assert_eq!(conduct.send(&answer), Ok(()));
        assert!(conduct.send(&answer).is_err());
        assert_eq!(conduct.send(&request(b"exec", b"\0\0\0\x01x")), Ok(()));
        assert!(conduct.send(&request(b"exec", b"\0\0\0\x09x")).is_err());
        assert_eq!(conduct.send(&request(b"a@example.org", b"x")), Ok(()));
        for cut in [&[94, 0, 0, 0, 0, 0, 0, 0, 9, 1][..], &[98, 0], &[97]] {
            assert!(conduct.send(cut).is_err(), "{cut:?}");
        }
    }
}
