//! What a passenger in proxy mode may send on one of its channels. A message that breaks RFC 4254
//! ends its passenger: a server would end the connection for it, and all sessions with it.

use proto::channel::Request;
use wire::message::{
    ChannelClose, ChannelData, ChannelEof, ChannelExtendedData, ChannelFailure, ChannelOpenFailure,
    ChannelRequest, ChannelSuccess, ChannelWindowAdjust, Encode,
};
use wire::{DecodeError, Reader, names};

/// A field of CHANNEL_OPEN.
#[derive(Debug, Clone, Copy)]
enum MessagePart {
    Text,
    Number,
}

/// Checks the fields that a type of channel has. OpenSSH's server ends the connection for fields that are
/// cut off, too many or texts with NUL.
///
/// # Errors
/// How they break the protocol.
pub(super) fn check_fields(kind: &[u8], fields: &[u8]) -> Result<(), String> {
    use MessagePart::{Number, Text};
    if kind.contains(&0) {
        return Err("a name with NUL".into());
    }
    let kind = str::from_utf8(kind).unwrap_or_default();
    let expected: &[MessagePart] = match kind {
        names::CHANNEL_SESSION => &[],
        names::CHANNEL_DIRECT_TCPIP => &[Text, Number, Text, Number],
        names::CHANNEL_DIRECT_STREAMLOCAL => &[Text, Text, Number],
        names::CHANNEL_TUN => &[Number, Number],
        _ => return Ok(()),
    };
    let malformed = |_: DecodeError| format!("the fields of {kind} are malformed");
    let mut reader = Reader::new(fields);
    for field in expected {
        match field {
            Text if reader.string().map_err(malformed)?.contains(&0) => {
                return Err(format!("{kind}: a text with NUL"));
            }
            Text => {}
            Number => drop(reader.u32().map_err(malformed)?),
        }
    }
    reader.finish().map_err(malformed)
}

/// True if the texts of a request are ones that OpenSSH's server does not end the connection for.
fn has_sound_texts(request: &Request) -> bool {
    let are = |texts: &[&[u8]]| !texts.iter().any(|text| text.contains(&0));
    match request {
        Request::Pty { term, modes, .. } => are(&[term]) && has_sound_modes(modes),
        Request::Env { name, value } => are(&[name, value]),
        Request::X11 {
            protocol, cookie, ..
        } => are(&[protocol, cookie]),
        Request::Exec { command } => are(&[command]),
        Request::Subsystem { name } => are(&[name]),
        Request::Signal { name } => are(&[name.as_bytes()]),
        _ => true,
    }
}

/// True unless the modes of a terminal (RFC 4254 section 8) are cut off.
fn has_sound_modes(modes: &[u8]) -> bool {
    let mut rest = modes;
    while let Some((opcode, after)) = rest.split_first() {
        match (opcode, after.get(4..)) {
            (1..160, Some(next)) => rest = next,
            (1..160, None) => return false,
            _ => return true,
        }
    }
    true
}

/// The state of a channel, as far as it limits what may be sent.
#[derive(Debug, Default)]
pub(super) struct ProxiedConduct {
    /// Bytes that the server takes now, and in one message.
    window: u64,
    max_packet: u32,
    /// Bytes that the passenger has permitted the server.
    granted: u64,
    has_ended: bool,
    has_terminal: bool,
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
                let failure = ChannelOpenFailure::decode(payload).map_err(malformed)?;
                if failure.description.contains(&0) {
                    return Err("a text with NUL".into());
                }
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
                let decoded = Request::decode(request.name, request.fields.0);
                let decoded = decoded.map_err(malformed)?;
                if request.name.contains(&0) || !has_sound_texts(&decoded) {
                    return Err(format!(
                        "message {number} has a text with NUL or modes that are cut off"
                    ));
                }
                let is_terminal = matches!(decoded, Request::Pty { .. });
                if is_terminal && std::mem::replace(&mut self.has_terminal, true) {
                    return Err("a second terminal".into());
                }
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
        assert!(conduct.send(&request(b"exec", b"\0\0\0\x02x\0")).is_err());
        assert!(conduct.send(&request(b"a\0", b"")).is_err());
        let pty = b"\0\0\0\0\0\0\0\x50\0\0\0\x18\0\0\0\0\0\0\0\0\0\0\0\x01";
        let cut_off = request(b"pty-req", &[&pty[..], b"\x03"].concat().leak()[..]);
        assert!(conduct.send(&cut_off).is_err());
        let whole = request(b"pty-req", &[&pty[..], b"\0"].concat().leak()[..]);
        assert_eq!(conduct.send(&whole), Ok(()));
        assert!(conduct.send(&whole).is_err(), "a second terminal");
        for cut in [&[94, 0, 0, 0, 0, 0, 0, 0, 9, 1][..], &[98, 0], &[97]] {
            assert!(conduct.send(cut).is_err(), "{cut:?}");
        }
    }

    #[test]
    fn channels_need_their_fields() {
        let direct = b"\0\0\0\x01h\0\0\0\x16\0\0\0\x01i\0\0\0\0";
        let check = |name: &str, fields: &[u8]| check_fields(name.as_bytes(), fields);
        assert_eq!(check("direct-tcpip", direct), Ok(()));
        assert!(check("direct-tcpip", &direct[..12]).is_err());
        assert!(check("direct-tcpip", &[&direct[..], b"x"].concat()).is_err());
        assert_eq!(check("session", b""), Ok(()));
        assert!(check("session", b"x").is_err());
        assert!(check("session\0", b"").is_err());
        let path = b"\0\0\0\x02/\0\0\0\0\0\0\0\0\0";
        assert!(check("direct-streamlocal@openssh.com", path).is_err());
        assert_eq!(check("a@example.org", b"x\0"), Ok(()));
    }
}
