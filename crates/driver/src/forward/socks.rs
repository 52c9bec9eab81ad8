//! The server's side of SOCKS 4, 4a (<https://www.openssh.com/txt/socks4a.protocol>) and 5 (RFC 1928)
//! without authentication, with the commands CONNECT and UDP ASSOCIATE, as far as a forwarding needs it.
//!
//! [`Socks`] has no socket: it takes bytes as they arrive, in pieces of any size, and never takes a
//! byte that follows the request. [`SocksDatagram`] reads what precedes each datagram of an association.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::ForwardTarget;

/// Maximum length of the user and of the name in SOCKS 4, bytes without the final NUL. A longer one
/// is refused.
const MAX_TEXT_BYTES: usize = 255;

const CONNECT: u8 = 1;
const UDP_ASSOCIATE: u8 = 3;
/// Types of address in SOCKS 5.
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
/// Replies of SOCKS 5 (RFC 1928 §6).
const GENERAL_FAILURE: u8 = 1;
const NOT_ALLOWED: u8 = 2;
const REFUSED: u8 = 5;
const COMMAND_NOT_SUPPORTED: u8 = 7;
const ADDRESS_NOT_SUPPORTED: u8 = 8;

/// The outcome of a request, as its reply reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocksOutcome {
    /// The connection is established.
    Connected,
    /// A rule forbids the target.
    Forbidden,
    /// The target could not be reached.
    Unreachable,
    /// The command cannot be carried out here.
    Unsupported,
}

/// What follows from the bytes taken so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocksStep {
    /// More bytes are needed; first send these, if any.
    More(Vec<u8>),
    /// The request is complete.
    Connect(ForwardTarget),
    /// The request for an association of datagrams is complete. The client sends them from this
    /// port; 0 if it does not know yet. [`Socks::associated`] or [`Socks::reply`] answers.
    Associate(u16),
    /// The request is refused: send these bytes, if any, and close.
    Refuse(Vec<u8>),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SocksPhase {
    #[default]
    Version,
    Four,
    FiveMethods,
    FiveRequest,
    Done,
}

/// A request that is being read.
#[derive(Debug, Default)]
pub struct Socks {
    phase: SocksPhase,
    /// Bytes of the message that is not complete; bounded by the longest message.
    bytes: Vec<u8>,
    version: u8,
}

impl Socks {
    /// Takes bytes from the front of `input`; returns how many, and what follows. Call it again with
    /// the others after [`SocksStep::More`], if any are left.
    pub fn take(&mut self, input: &[u8]) -> (usize, SocksStep) {
        for (index, byte) in input.iter().enumerate() {
            self.bytes.push(*byte);
            match self.step() {
                SocksStep::More(answer) if answer.is_empty() => {}
                step => return (index + 1, step),
            }
        }
        (input.len(), SocksStep::More(Vec::new()))
    }

    /// Looks at the message after each byte: its end depends on its content, and a request has at
    /// most some hundred bytes.
    fn step(&mut self) -> SocksStep {
        match self.phase {
            SocksPhase::Version => match self.bytes.as_slice() {
                [version @ (4 | 5)] => {
                    self.version = *version;
                    self.phase = match version {
                        4 => SocksPhase::Four,
                        _ => SocksPhase::FiveMethods,
                    };
                    SocksStep::More(Vec::new())
                }
                _ => self.refuse(Vec::new()),
            },
            SocksPhase::Four => self.four(),
            SocksPhase::FiveMethods => self.methods(),
            SocksPhase::FiveRequest => self.five(),
            SocksPhase::Done => SocksStep::Refuse(Vec::new()),
        }
    }

    fn refuse(&mut self, reply: Vec<u8>) -> SocksStep {
        self.phase = SocksPhase::Done;
        SocksStep::Refuse(reply)
    }

    fn connect(&mut self, host: String, port: u16) -> SocksStep {
        self.phase = SocksPhase::Done;
        SocksStep::Connect(ForwardTarget::Tcp { host, port })
    }

    /// Version, command, port, address, user, NUL; with an address 0.0.0.x a name and NUL follow (4a).
    fn four(&mut self) -> SocksStep {
        let [_, command, p0, p1, a, b, c, d, texts @ ..] = self.bytes.as_slice() else {
            return SocksStep::More(Vec::new());
        };
        if *command != CONNECT {
            return self.refuse(four_reply(false));
        }
        let port = u16::from_be_bytes([*p0, *p1]);
        let address = Ipv4Addr::new(*a, *b, *c, *d);
        let has_name = [*a, *b, *c] == [0; 3] && *d != 0;
        let mut parts = texts.split(|byte| *byte == 0);
        let user = parts.next().unwrap_or_default();
        let name = parts.next();
        if user.len() > MAX_TEXT_BYTES || name.is_some_and(|name| name.len() > MAX_TEXT_BYTES) {
            return self.refuse(four_reply(false));
        }
        match (name, parts.next()) {
            (Some(_), _) if !has_name => self.connect(address.to_string(), port),
            (Some(name), Some(_)) => match host_text(name) {
                Some(host) => self.connect(host, port),
                None => self.refuse(four_reply(false)),
            },
            _ => SocksStep::More(Vec::new()),
        }
    }

    /// Version, count, methods.
    fn methods(&mut self) -> SocksStep {
        let [_, count, methods @ ..] = self.bytes.as_slice() else {
            return SocksStep::More(Vec::new());
        };
        if methods.len() < usize::from(*count) {
            return SocksStep::More(Vec::new());
        }
        if !methods.contains(&0) {
            // No acceptable method.
            return self.refuse(vec![5, 0xff]);
        }
        self.phase = SocksPhase::FiveRequest;
        self.bytes.clear();
        SocksStep::More(vec![5, 0])
    }

    /// Version, command, reserved, type of address, address, port.
    fn five(&mut self) -> SocksStep {
        let [version, command, _, kind, rest @ ..] = self.bytes.as_slice() else {
            return SocksStep::More(Vec::new());
        };
        if *version != 5 {
            return self.refuse(five_reply(GENERAL_FAILURE));
        }
        let (host, port, _) = match socks_address(*kind, rest) {
            AddressStep::Whole(host, port, used) => (host, port, used),
            AddressStep::More => return SocksStep::More(Vec::new()),
            AddressStep::Unknown => return self.refuse(five_reply(ADDRESS_NOT_SUPPORTED)),
        };
        match (*command, host) {
            (UDP_ASSOCIATE, _) => {
                self.phase = SocksPhase::Done;
                SocksStep::Associate(port)
            }
            (CONNECT, Some(host)) => self.connect(host, port),
            (CONNECT, None) => self.refuse(five_reply(GENERAL_FAILURE)),
            _ => self.refuse(five_reply(COMMAND_NOT_SUPPORTED)),
        }
    }

    /// The reply to a complete request.
    #[must_use]
    pub fn reply(&self, outcome: SocksOutcome) -> Vec<u8> {
        if self.version == 4 {
            return four_reply(outcome == SocksOutcome::Connected);
        }
        five_reply(match outcome {
            SocksOutcome::Connected => 0,
            SocksOutcome::Forbidden => NOT_ALLOWED,
            SocksOutcome::Unreachable => REFUSED,
            SocksOutcome::Unsupported => COMMAND_NOT_SUPPORTED,
        })
    }

    /// The reply that tells the client where to send the datagrams of its association.
    #[must_use]
    pub fn associated(&self, to: SocketAddr) -> Vec<u8> {
        let mut reply = vec![5, 0, 0];
        match to.ip() {
            IpAddr::V4(v4) => {
                reply.push(IPV4);
                reply.extend(v4.octets());
            }
            IpAddr::V6(v6) => {
                reply.push(IPV6);
                reply.extend(v6.octets());
            }
        }
        reply.extend(to.port().to_be_bytes());
        reply
    }
}

/// The header of a datagram of an association (RFC 1928 §7), and its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocksDatagram {
    /// Name or address of the target.
    pub host: String,
    /// The target's port.
    pub port: u16,
    /// Length of the header, bytes; the datagram follows. The target's answers get the same header.
    pub head_bytes: usize,
}

impl SocksDatagram {
    /// Reads the header; `None` if it is malformed, or the datagram is a fragment of another one.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let [0, 0, 0, kind, rest @ ..] = bytes else {
            return None;
        };
        match socks_address(*kind, rest) {
            AddressStep::Whole(Some(host), port, used) if port != 0 => Some(Self {
                host,
                port,
                head_bytes: 4 + used,
            }),
            _ => None,
        }
    }
}

/// An address and port of SOCKS 5.
enum AddressStep {
    /// The name or address (`None` for one that is no text), the port, and the number of bytes.
    Whole(Option<String>, u16, usize),
    More,
    /// The type of address is not known.
    Unknown,
}

/// Reads an address of this type, and the port after it.
fn socks_address(kind: u8, bytes: &[u8]) -> AddressStep {
    let len = match (kind, bytes) {
        (IPV4, _) => 4,
        (IPV6, _) => 16,
        (NAME, [len, ..]) => 1 + usize::from(*len),
        (NAME, []) => return AddressStep::More,
        _ => return AddressStep::Unknown,
    };
    let Some((address, [p0, p1, ..])) = bytes.split_at_checked(len) else {
        return AddressStep::More;
    };
    let host = match (address, <[u8; 16]>::try_from(address)) {
        ([a, b, c, d], _) if kind == IPV4 => Some(Ipv4Addr::new(*a, *b, *c, *d).to_string()),
        (_, Ok(bytes)) if kind == IPV6 => Some(Ipv6Addr::from(bytes).to_string()),
        ([_, name @ ..], _) => host_text(name),
        _ => None,
    };
    AddressStep::Whole(host, u16::from_be_bytes([*p0, *p1]), len + 2)
}

/// A host name or address as text; none if it is empty, not UTF-8, or holds a NUL.
fn host_text(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.is_empty() && !text.contains('\0')).then(|| text.to_owned())
}

fn four_reply(granted: bool) -> Vec<u8> {
    vec![0, if granted { 90 } else { 91 }, 0, 0, 0, 0, 0, 0]
}

/// With 0.0.0.0:0 as the bound address, which only the server of the connection knows.
fn five_reply(code: u8) -> Vec<u8> {
    vec![5, code, 0, IPV4, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> SocksStep {
        SocksStep::Connect(ForwardTarget::Tcp {
            host: host.into(),
            port,
        })
    }

    /// Feeds the input in pieces of `size` bytes; returns all answers before the last step, the last
    /// step and the bytes that were not taken.
    fn feed(input: &[u8], size: usize) -> (Vec<u8>, SocksStep, Vec<u8>) {
        let mut socks = Socks::default();
        let mut answers = Vec::new();
        let mut at = 0;
        while at < input.len() {
            let piece = &input[at..(at + size).min(input.len())];
            let (taken, step) = socks.take(piece);
            at += taken;
            match step {
                SocksStep::More(answer) => answers.extend(answer),
                step => return (answers, step, input[at..].to_vec()),
            }
        }
        (answers, SocksStep::More(Vec::new()), Vec::new())
    }

    #[test]
    fn each_version_is_read_in_pieces_of_any_size_and_takes_nothing_that_follows() {
        let long = [b'n'; 255];
        let long_name = [b"\x05\x01\x00\x05\x01\x00\x03\xff", &long[..], b"\x00\x50"].concat();
        let cases: &[(&[u8], &[u8], SocksStep)] = &[
            (
                b"\x04\x01\x00\x50\x7f\x00\x00\x01user\x00",
                b"",
                tcp("127.0.0.1", 80),
            ),
            (
                b"\x04\x01\x00\x50\x00\x00\x00\x01\x00db.test\x00",
                b"",
                tcp("db.test", 80),
            ),
            (
                b"\x05\x02\x02\x00\x05\x01\x00\x03\x02db\x01\xbb",
                b"\x05\x00",
                tcp("db", 443),
            ),
            (
                b"\x05\x01\x00\x05\x01\x00\x01\x0a\x00\x00\x02\x00\x16",
                b"\x05\x00",
                tcp("10.0.0.2", 22),
            ),
            (
                b"\x05\x01\x00\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x16",
                b"\x05\x00",
                tcp("::1", 22),
            ),
            (&long_name, b"\x05\x00", tcp(&"n".repeat(255), 80)),
        ];
        for (input, answers, step) in cases {
            for size in 1..=input.len() {
                let with_data = [input, &b"data"[..]].concat();
                let (said, last, left) = feed(&with_data, size);
                assert_eq!((&said[..], &last), (*answers, step), "{input:?} in {size}");
                assert_eq!(left, b"data");
            }
        }
    }

    #[test]
    fn what_is_not_a_connect_without_authentication_is_refused_with_a_reply() {
        let cases: &[(&[u8], &[u8])] = &[
            // Not SOCKS at all.
            (b"GET / HTTP/1.0\r\n\r\n", b""),
            (b"\x00", b""),
            // BIND of SOCKS 4.
            (
                b"\x04\x02\x00\x50\x7f\x00\x00\x01\x00",
                &[0, 91, 0, 0, 0, 0, 0, 0],
            ),
            // No method but a password.
            (b"\x05\x01\x02", &[5, 0xff]),
            // BIND.
            (
                b"\x05\x01\x00\x05\x02\x00\x01\x0a\x00\x00\x02\x00\x16",
                &[5, 7, 0, 1, 0, 0, 0, 0, 0, 0],
            ),
            // An unknown type of address, a name of no bytes, a name with NUL.
            (
                b"\x05\x01\x00\x05\x01\x00\x09",
                &[5, 8, 0, 1, 0, 0, 0, 0, 0, 0],
            ),
            (
                b"\x05\x01\x00\x05\x01\x00\x03\x00\x00\x50",
                &[5, 1, 0, 1, 0, 0, 0, 0, 0, 0],
            ),
            (
                b"\x05\x01\x00\x05\x01\x00\x03\x01\x00\x00\x50",
                &[5, 1, 0, 1, 0, 0, 0, 0, 0, 0],
            ),
        ];
        for (input, reply) in cases {
            let (_, step, _) = feed(input, 1);
            assert_eq!(step, SocksStep::Refuse(reply.to_vec()), "{input:?}");
        }
    }

    #[test]
    fn an_association_is_answered_with_its_address() {
        for (request, port) in [
            (
                &b"\x05\x01\x00\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00"[..],
                0,
            ),
            (b"\x05\x01\x00\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x35", 53),
            (b"\x05\x01\x00\x05\x03\x00\x03\x00\x01\x00", 256),
        ] {
            let (_, step, left) = feed(&[request, b"more"].concat(), 1);
            assert_eq!(step, SocksStep::Associate(port));
            assert_eq!(left, b"more");
        }
        let socks = Socks::default();
        let v4 = socks.associated("127.0.0.1:258".parse().unwrap());
        assert_eq!(v4, [5, 0, 0, 1, 127, 0, 0, 1, 1, 2]);
        let v6 = socks.associated("[::1]:258".parse().unwrap());
        assert_eq!(v6, [&[5, 0, 0, 4][..], &[0; 15], &[1, 1, 2]].concat());
    }

    #[test]
    fn datagrams_name_their_target_and_fragments_are_refused() {
        type Parts = Option<(&'static str, u16, usize)>;
        let cases: &[(&[u8], Parts)] = &[
            (
                b"\0\0\0\x01\x7f\0\0\x01\0\x35data",
                Some(("127.0.0.1", 53, 10)),
            ),
            (b"\0\0\0\x01\x7f\0\0\x01\0\x35", Some(("127.0.0.1", 53, 10))),
            (b"\0\0\0\x03\x02ns\0\x35data", Some(("ns", 53, 9))),
            (b"\0\0\x01\x01\x7f\0\0\x01\0\x35data", None),
            (b"\0\0\x80\x01\x7f\0\0\x01\0\x35data", None),
            (b"\0\x01\0\x01\x7f\0\0\x01\0\x35data", None),
            (b"\0\0\0\x02\x7f\0\0\x01\0\x35data", None),
            (b"\0\0\0\x03\0\0\x35data", None),
            (b"\0\0\0\x03\x01\0\0\x35data", None),
            (b"\0\0\0\x01\x7f\0\0\x01\0\0data", None),
            (b"\0\0\0\x03\xffshort", None),
        ];
        for (bytes, found) in cases {
            let datagram = SocksDatagram::parse(bytes);
            let parts = datagram.as_ref();
            let parts = parts.map(|read| (read.host.as_str(), read.port, read.head_bytes));
            assert_eq!(parts, *found, "{bytes:?}");
        }
        let whole = [&b"\0\0\0\x04"[..], &[0; 15], b"\x01\0\x35"].concat();
        assert_eq!(SocksDatagram::parse(&whole).unwrap().host, "::1");
        for len in 0..whole.len() {
            assert_eq!(SocksDatagram::parse(&whole[..len]), None);
        }
    }

    #[test]
    fn a_user_or_name_without_end_is_refused_and_not_kept() {
        let mut input = b"\x04\x01\x00\x50\x00\x00\x00\x01".to_vec();
        input.extend([b'u'; 4096]);
        let (_, step, left) = feed(&input, 7);
        assert_eq!(step, SocksStep::Refuse(four_reply(false)));
        assert!(left.len() > 3000);
        let mut input = b"\x04\x01\x00\x50\x00\x00\x00\x01\x00".to_vec();
        input.extend([b'n'; 4096]);
        let (_, step, _) = feed(&input, 7);
        assert_eq!(step, SocksStep::Refuse(four_reply(false)));
    }
}
