//! Ends of forwarded connections, and the fields of the channel types that name them: RFC 4254 §7.2
//! and OpenSSH's PROTOCOL §2.4.

use std::ffi::OsStr;
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use wire::{DecodeError, Put, Reader, names};

/// Longest host name or address in a message, bytes.
const MAX_HOST_BYTES: usize = 1024;
/// Longest path in a message, bytes; a socket's path has at most 107.
const MAX_PATH_BYTES: usize = 4096;
/// Maximum bytes of datagrams in a request for a channel: they are held while the target's name is
/// looked up, and no window bounds them.
const MAX_FIRST_BYTES: usize = 32 * 1024;

/// Where a forwarded connection leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForwardTarget {
    /// A host and port.
    Tcp {
        /// Name or address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
    /// A host and port for datagrams.
    Udp {
        /// Name or address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
}

/// A place that listens for connections, as it is named in messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listening {
    /// An address and port. The address is the one that was requested: `localhost`, an address, or
    /// empty for all.
    Tcp {
        /// The requested address.
        address: String,
        /// The port that listens.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
    /// An address and port for datagrams; the address as for TCP.
    Udp {
        /// The requested address.
        address: String,
        /// The port that receives.
        port: u16,
    },
}

/// Formats the target for messages, as OpenSSH does: `host:port`, or the path. That of datagrams is
/// `udp/host:port`.
impl fmt::Display for ForwardTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
            Self::Udp { host, port } => write!(f, "udp/{host}:{port}"),
        }
    }
}

fn text(bytes: &[u8]) -> Result<String, DecodeError> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(DecodeError::Malformed("host name is not text")),
    }
}

fn path(bytes: &[u8]) -> Result<PathBuf, DecodeError> {
    if bytes.contains(&0) {
        return Err(DecodeError::Malformed("path with NUL"));
    }
    Ok(OsStr::from_bytes(bytes).into())
}

fn port(number: u32) -> Result<u16, DecodeError> {
    u16::try_from(number).map_err(|_| DecodeError::Malformed("port above 65535"))
}

fn address_and_port(reader: &mut Reader<'_>) -> Result<(String, u16), DecodeError> {
    let host = text(reader.string_max(MAX_HOST_BYTES)?)?;
    Ok((host, port(reader.u32()?)?))
}

/// Reads the originator, whose content nothing depends on.
fn skip_originator(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let _ = reader.string_max(MAX_HOST_BYTES)?;
    let _ = reader.u32()?;
    Ok(())
}

/// Reads the records of datagrams that follow the other fields.
fn first_records<'f>(reader: &mut Reader<'f>) -> Result<&'f [u8], DecodeError> {
    let records = reader.rest();
    match records.len() <= MAX_FIRST_BYTES {
        true => Ok(records),
        false => Err(DecodeError::Malformed("too many datagrams in the request")),
    }
}

/// The originator of a connection without an IP address is given as OpenSSH gives it.
pub(super) fn put_originator(out: &mut Vec<u8>, originator: Option<SocketAddr>) {
    match originator {
        Some(address) => {
            out.put_string(address.ip().to_string().as_bytes());
            out.put_u32(u32::from(address.port()));
        }
        None => {
            out.put_string(b"127.0.0.1");
            out.put_u32(65535);
        }
    }
}

impl ForwardTarget {
    /// Type and fields of the CHANNEL_OPEN by which a client asks the server to connect.
    #[must_use]
    pub fn open_request(&self, originator: Option<SocketAddr>) -> (&'static str, Vec<u8>) {
        let mut out = Vec::new();
        match self {
            Self::Tcp { host, port } | Self::Udp { host, port } => {
                out.put_string(host.as_bytes());
                out.put_u32(u32::from(*port));
                put_originator(&mut out, originator);
                let is_udp = matches!(self, Self::Udp { .. });
                let kind = match is_udp {
                    true => names::CHANNEL_DIRECT_UDP,
                    false => names::CHANNEL_DIRECT_TCPIP,
                };
                (kind, out)
            }
            Self::Unix(path) => {
                out.put_string(path.clone().into_os_string().into_vec().as_slice());
                // Reserved.
                out.put_string(b"");
                out.put_u32(0);
                (names::CHANNEL_DIRECT_STREAMLOCAL, out)
            }
        }
    }

    /// Decodes the fields of `direct-tcpip`, `direct-streamlocal@openssh.com` or `direct-udp`.
    ///
    /// # Errors
    /// [`DecodeError`], also for a host that is not UTF-8 or holds a NUL, and for another type.
    pub fn decode(kind: &str, fields: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_first(kind, fields).map(|(target, _)| target)
    }

    /// As [`ForwardTarget::decode`], with the records that follow the fields of `direct-udp`.
    ///
    /// # Errors
    /// As [`ForwardTarget::decode`].
    pub fn decode_first<'f>(kind: &str, fields: &'f [u8]) -> Result<(Self, &'f [u8]), DecodeError> {
        let mut reader = Reader::new(fields);
        let target = match kind {
            names::CHANNEL_DIRECT_TCPIP => {
                let (host, port) = address_and_port(&mut reader)?;
                Self::Tcp { host, port }
            }
            names::CHANNEL_DIRECT_UDP => {
                let (host, port) = address_and_port(&mut reader)?;
                Self::Udp { host, port }
            }
            names::CHANNEL_DIRECT_STREAMLOCAL => {
                Self::Unix(path(reader.string_max(MAX_PATH_BYTES)?)?)
            }
            _ => return Err(DecodeError::Malformed("not a channel to a target")),
        };
        skip_originator(&mut reader)?;
        let records = match target {
            Self::Udp { .. } => first_records(&mut reader)?,
            _ => &[],
        };
        reader.finish()?;
        Ok((target, records))
    }
}

impl Listening {
    /// Type and fields of the CHANNEL_OPEN by which a server passes on an accepted connection.
    #[must_use]
    pub fn open_request(&self, originator: Option<SocketAddr>) -> (&'static str, Vec<u8>) {
        let mut out = Vec::new();
        match self {
            Self::Tcp { address, port } | Self::Udp { address, port } => {
                out.put_string(address.as_bytes());
                out.put_u32(u32::from(*port));
                put_originator(&mut out, originator);
                let kind = match self.is_udp() {
                    true => names::CHANNEL_FORWARDED_UDP,
                    false => names::CHANNEL_FORWARDED_TCPIP,
                };
                (kind, out)
            }
            Self::Unix(path) => {
                out.put_string(path.as_os_str().as_bytes());
                out.put_string(b"");
                (names::CHANNEL_FORWARDED_STREAMLOCAL, out)
            }
        }
    }

    fn is_udp(&self) -> bool {
        matches!(self, Self::Udp { .. })
    }

    /// Decodes the fields of `forwarded-tcpip`, `forwarded-streamlocal@openssh.com` or
    /// `forwarded-udp`.
    ///
    /// # Errors
    /// As [`ForwardTarget::decode`].
    pub fn decode(kind: &str, fields: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_first(kind, fields).map(|(listening, _)| listening)
    }

    /// As [`Listening::decode`], with the records that follow the fields of `forwarded-udp`.
    ///
    /// # Errors
    /// As [`ForwardTarget::decode`].
    pub fn decode_first<'f>(kind: &str, fields: &'f [u8]) -> Result<(Self, &'f [u8]), DecodeError> {
        let mut reader = Reader::new(fields);
        let listening = match kind {
            names::CHANNEL_FORWARDED_TCPIP => {
                let (address, port) = address_and_port(&mut reader)?;
                skip_originator(&mut reader)?;
                Self::Tcp { address, port }
            }
            names::CHANNEL_FORWARDED_STREAMLOCAL => {
                let path = path(reader.string_max(MAX_PATH_BYTES)?)?;
                let _reserved = reader.string_max(MAX_PATH_BYTES)?;
                Self::Unix(path)
            }
            names::CHANNEL_FORWARDED_UDP => {
                let (address, port) = address_and_port(&mut reader)?;
                skip_originator(&mut reader)?;
                Self::Udp { address, port }
            }
            _ => return Err(DecodeError::Malformed("not a channel of a listener")),
        };
        let records = match listening.is_udp() {
            true => first_records(&mut reader)?,
            false => &[],
        };
        reader.finish()?;
        Ok((listening, records))
    }

    /// Name and fields of the global request to listen, or to stop listening if `cancel`.
    #[must_use]
    pub fn listen_request(&self, cancel: bool) -> (&'static str, Vec<u8>) {
        let mut out = Vec::new();
        match self {
            Self::Tcp { address, port } | Self::Udp { address, port } => {
                out.put_string(address.as_bytes());
                out.put_u32(u32::from(*port));
                let name = match (self.is_udp(), cancel) {
                    (false, false) => names::GLOBAL_TCPIP_FORWARD,
                    (false, true) => names::GLOBAL_CANCEL_TCPIP_FORWARD,
                    (true, false) => names::GLOBAL_UDP_FORWARD,
                    (true, true) => names::GLOBAL_CANCEL_UDP_FORWARD,
                };
                (name, out)
            }
            Self::Unix(path) => {
                out.put_string(path.as_os_str().as_bytes());
                let name = match cancel {
                    false => names::GLOBAL_STREAMLOCAL_FORWARD,
                    true => names::GLOBAL_CANCEL_STREAMLOCAL_FORWARD,
                };
                (name, out)
            }
        }
    }

    /// Decodes the fields of a global request to listen or to stop listening.
    ///
    /// # Errors
    /// As [`ForwardTarget::decode`].
    pub fn decode_request(name: &str, fields: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(fields);
        let listening = match name {
            names::GLOBAL_TCPIP_FORWARD | names::GLOBAL_CANCEL_TCPIP_FORWARD => {
                let (address, port) = address_and_port(&mut reader)?;
                Self::Tcp { address, port }
            }
            names::GLOBAL_UDP_FORWARD | names::GLOBAL_CANCEL_UDP_FORWARD => {
                let (address, port) = address_and_port(&mut reader)?;
                Self::Udp { address, port }
            }
            _ => Self::Unix(path(reader.string_max(MAX_PATH_BYTES)?)?),
        };
        reader.finish()?;
        Ok(listening)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_survive_encoding_and_nothing_else_is_accepted() {
        let originator = Some("192.0.2.1:40000".parse().unwrap());
        let tcp = ForwardTarget::Tcp {
            host: "db".into(),
            port: 5432,
        };
        for target in [tcp, ForwardTarget::Unix("/run/a b".into())] {
            let (kind, mut fields) = target.open_request(originator);
            assert_eq!(ForwardTarget::decode(kind, &fields), Ok(target));
            assert!(ForwardTarget::decode(kind, &fields[..fields.len() - 1]).is_err());
            fields.push(0);
            assert!(ForwardTarget::decode(kind, &fields).is_err());
            assert!(ForwardTarget::decode("session", &fields).is_err());
        }
        let tcp = Listening::Tcp {
            address: "localhost".into(),
            port: 8080,
        };
        for listening in [tcp, Listening::Unix("/run/s".into())] {
            let (kind, mut fields) = listening.open_request(None);
            assert_eq!(Listening::decode(kind, &fields), Ok(listening.clone()));
            fields.push(0);
            assert!(Listening::decode(kind, &fields).is_err());
            for cancel in [false, true] {
                let (name, fields) = listening.listen_request(cancel);
                let decoded = Listening::decode_request(name, &fields);
                assert_eq!(decoded, Ok(listening.clone()));
            }
        }
    }

    #[test]
    fn requests_for_datagrams_carry_records() {
        let target = ForwardTarget::Udp {
            host: "ns".into(),
            port: 53,
        };
        let listening = Listening::Udp {
            address: String::new(),
            port: 53,
        };
        for records in [&b""[..], &[0, 0, 0, 0], b"\0\0\0\x01x"] {
            let (kind, mut fields) = target.open_request(None);
            assert_eq!(kind, names::CHANNEL_DIRECT_UDP);
            assert!(ForwardTarget::decode(kind, &fields[..fields.len() - 1]).is_err());
            fields.extend(records);
            let decoded = ForwardTarget::decode_first(kind, &fields);
            assert_eq!(decoded, Ok((target.clone(), records)));
            let (kind, mut fields) = listening.open_request(None);
            assert_eq!(kind, names::CHANNEL_FORWARDED_UDP);
            fields.extend(records);
            let decoded = Listening::decode_first(kind, &fields);
            assert_eq!(decoded, Ok((listening.clone(), records)));
        }
        let (kind, mut fields) = target.open_request(None);
        fields.resize(fields.len() + MAX_FIRST_BYTES, 0);
        assert!(ForwardTarget::decode_first(kind, &fields).is_ok());
        fields.push(0);
        assert!(ForwardTarget::decode_first(kind, &fields).is_err());
        for (cancel, name) in [
            (false, names::GLOBAL_UDP_FORWARD),
            (true, names::GLOBAL_CANCEL_UDP_FORWARD),
        ] {
            let (used, mut fields) = listening.listen_request(cancel);
            assert_eq!(used, name);
            let decoded = Listening::decode_request(name, &fields);
            assert_eq!(decoded, Ok(listening.clone()));
            fields.push(0);
            assert!(Listening::decode_request(name, &fields).is_err());
        }
        assert_eq!(target.to_string(), "udp/ns:53");
    }

    #[test]
    fn hosts_are_text_and_ports_have_16_bits() {
        let fields = |host: &[u8], port: u32| {
            let mut out = Vec::new();
            out.put_string(host);
            out.put_u32(port);
            put_originator(&mut out, None);
            out
        };
        let decode = |fields: &[u8]| ForwardTarget::decode(names::CHANNEL_DIRECT_TCPIP, fields);
        assert!(decode(&fields(b"db", 65_535)).is_ok());
        assert!(decode(&fields(b"db", 65_536)).is_err());
        assert!(decode(&fields(b"\xff", 1)).is_err());
        assert!(decode(&fields(b"a\0b", 1)).is_err());
        assert!(decode(&[]).is_err());
    }
}
