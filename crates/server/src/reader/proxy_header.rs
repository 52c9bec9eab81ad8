//! The header of the PROXY protocol, versions 1 and 2 (HAProxy's proxy-protocol.txt): with it a load
//! balancer tells the address of the client for which it has opened a connection.
//!
//! Invariants: no byte after the header is taken; at most [`MAX_V2_BYTES`] are kept; a header
//! that is not understood as a whole is an error. Only the source's address is used. Extensions of
//! version 2 (TLVs) are skipped.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The first bytes of a header of version 2.
const V2_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The first bytes of a header of version 1.
const V1_SIGNATURE: &[u8] = b"PROXY ";
/// Bytes of a header of version 2 up to the length of its rest, included.
const V2_FIXED_BYTES: usize = 16;
/// Longest header of version 1, its CRLF included.
const MAX_V1_BYTES: usize = 107;
/// Longest header of version 2 with its extensions: what fits into any TCP segment.
const MAX_V2_BYTES: usize = 536;

/// Whom a whole header names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// A client by TCP.
    At(SocketAddr),
    /// The load balancer itself (`LOCAL`), or one that it does not tell (`UNKNOWN`, `UNSPEC`).
    Unnamed,
}

/// A header that arrives in parts.
#[derive(Debug, Default)]
pub(super) struct ProxyHeader {
    bytes: Vec<u8>,
}

impl ProxyHeader {
    /// Takes the part of `offered`, received bytes, that belongs to the header. Returns the number
    /// of bytes taken, at least one of a nonempty `offered`, and the client once the header is
    /// whole; nothing may be offered after that.
    ///
    /// # Errors
    /// Why this is no header.
    pub(super) fn take(&mut self, offered: &[u8]) -> Result<(usize, Option<Client>), &'static str> {
        let mut taken = 0;
        while let Some(rest) = offered.get(taken..).filter(|rest| !rest.is_empty()) {
            let part = rest.get(..self.next_part(rest)?).unwrap_or(rest);
            self.bytes.extend_from_slice(part);
            taken += part.len();
            if let Some(client) = self.client()? {
                return Ok((taken, Some(client)));
            }
        }
        Ok((taken, None))
    }

    /// True if no byte has been taken.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Number of bytes of `rest`, at least one, that belong to the header for certain.
    fn next_part(&self, rest: &[u8]) -> Result<usize, &'static str> {
        let have = self.bytes.len();
        // No header is shorter than the signature of version 2.
        if have < V2_SIGNATURE.len() {
            return Ok(rest.len().min(V2_SIGNATURE.len() - have));
        }
        if self.bytes.starts_with(V1_SIGNATURE) {
            let line_end = rest.iter().position(|byte| *byte == b'\n');
            let part = line_end.map_or(rest.len(), |at| at + 1);
            if have + part > MAX_V1_BYTES {
                return Err("the line is longer than 107 bytes");
            }
            return Ok(part);
        }
        let whole = self.v2_length().unwrap_or(V2_FIXED_BYTES);
        if whole > MAX_V2_BYTES {
            return Err("the header is longer than 536 bytes");
        }
        Ok(rest.len().min(whole.saturating_sub(have).max(1)))
    }

    /// Length of the whole header of version 2, once it is known.
    fn v2_length(&self) -> Option<usize> {
        let length = self.bytes.get(14..V2_FIXED_BYTES)?.first_chunk::<2>()?;
        Some(V2_FIXED_BYTES + usize::from(u16::from_be_bytes(*length)))
    }

    /// The client, if the header is whole.
    fn client(&self) -> Result<Option<Client>, &'static str> {
        let begins = |signature: &[u8]| {
            let common = self.bytes.len().min(signature.len());
            self.bytes.get(..common) == signature.get(..common)
        };
        if begins(V1_SIGNATURE) {
            if self.bytes.last() == Some(&b'\n') {
                return v1_client(&self.bytes).map(Some);
            }
            return Ok(None);
        }
        if !begins(V2_SIGNATURE) {
            return Err("no PROXY header");
        }
        match self.v2_length() {
            Some(whole) if self.bytes.len() >= whole => v2_client(&self.bytes).map(Some),
            _ => Ok(None),
        }
    }
}

/// Reads a whole line of version 1.
fn v1_client(line: &[u8]) -> Result<Client, &'static str> {
    const BAD: &str = "bad PROXY line";
    let line = line.strip_suffix(b"\r\n").ok_or(BAD)?;
    let line = core::str::from_utf8(line).map_err(|_| BAD)?;
    let mut words = line.split(' ').skip(1);
    let is_v6 = match words.next() {
        // The rest of such a line has no meaning.
        Some("UNKNOWN") => return Ok(Client::Unnamed),
        Some("TCP4") => false,
        Some("TCP6") => true,
        _ => return Err(BAD),
    };
    let mut address = || -> Option<IpAddr> {
        let address: IpAddr = words.next()?.parse().ok()?;
        (address.is_ipv6() == is_v6).then_some(address)
    };
    let (source, _destination) = (address().ok_or(BAD)?, address().ok_or(BAD)?);
    let mut port = || -> Option<u16> {
        let word = words.next()?;
        let is_plain = word.bytes().all(|byte| byte.is_ascii_digit());
        (is_plain && (word == "0" || !word.starts_with('0')))
            .then(|| word.parse().ok())
            .flatten()
    };
    let (source_port, _destination_port) = (port().ok_or(BAD)?, port().ok_or(BAD)?);
    if words.next().is_some() {
        return Err(BAD);
    }
    Ok(Client::At(SocketAddr::new(source, source_port)))
}

/// Reads a whole header of version 2.
fn v2_client(header: &[u8]) -> Result<Client, &'static str> {
    let (fixed, rest) = header
        .split_first_chunk::<V2_FIXED_BYTES>()
        .ok_or("bad PROXY header")?;
    let [.., command, family, _, _] = *fixed;
    match command {
        // A check of the load balancer's own.
        0x20 => return Ok(Client::Unnamed),
        0x21 => {}
        _ => return Err("unknown version or command"),
    }
    let truncated = "the addresses are cut off";
    let port =
        |at: usize| -> Option<u16> { Some(u16::from_be_bytes(*rest.get(at..)?.first_chunk()?)) };
    match family {
        0x00 => Ok(Client::Unnamed),
        // TCP over IPv4: two addresses of 4 bytes, two ports.
        0x11 => {
            let source = rest.get(..12).and_then(|rest| rest.first_chunk::<4>());
            let source = Ipv4Addr::from(*source.ok_or(truncated)?);
            let port = port(8).ok_or(truncated)?;
            Ok(Client::At(SocketAddr::new(source.into(), port)))
        }
        // TCP over IPv6: two addresses of 16 bytes, two ports.
        0x21 => {
            let source = rest.get(..36).and_then(|rest| rest.first_chunk::<16>());
            let source = Ipv6Addr::from(*source.ok_or(truncated)?);
            let port = port(32).ok_or(truncated)?;
            Ok(Client::At(SocketAddr::new(source.into(), port)))
        }
        _ => Err("the client has not come by TCP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&V2_SIGNATURE[..], &[command, family], &length, body].concat()
    }

    fn tcp4() -> Vec<u8> {
        v2(
            0x21,
            0x11,
            &[192, 0, 2, 7, 198, 51, 100, 1, 0xc0, 0x01, 0, 22],
        )
    }

    /// Reads a header and the client's first bytes in parts of `size` bytes.
    fn read(bytes: &[u8], size: usize) -> Result<Client, &'static str> {
        let stream = [bytes, b"SSH-2.0-x\r\n"].concat();
        let mut header = ProxyHeader::default();
        let mut at = 0;
        while at < stream.len() {
            let offered = &stream[at..stream.len().min(at + size)];
            let (taken, client) = header.take(offered)?;
            assert!(taken > 0 && taken <= offered.len());
            at += taken;
            if let Some(client) = client {
                assert_eq!(
                    at,
                    bytes.len(),
                    "a byte of the client was taken, or one is left"
                );
                return Ok(client);
            }
        }
        panic!("neither whole nor refused");
    }

    fn at(text: &str) -> Result<Client, &'static str> {
        Ok(Client::At(text.parse().unwrap()))
    }

    #[test]
    fn whole_headers_name_the_client_however_they_are_cut() {
        let mut tcp6 = vec![0; 36];
        tcp6[..16].copy_from_slice(&"2001:db8::7".parse::<Ipv6Addr>().unwrap().octets());
        tcp6[32..34].copy_from_slice(&50_000_u16.to_be_bytes());
        tcp6.extend_from_slice(&[4, 0, 3, 1, 2, 3]);
        let with_extensions = [&tcp4()[16..], &[0x20; 500][..]].concat();
        let cases = [
            (
                b"PROXY TCP4 192.0.2.7 198.51.100.1 49153 22\r\n".to_vec(),
                at("192.0.2.7:49153"),
            ),
            (
                b"PROXY TCP6 2001:db8::7 ::1 50000 22\r\n".to_vec(),
                at("[2001:db8::7]:50000"),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), Ok(Client::Unnamed)),
            (
                b"PROXY UNKNOWN ff:: ::1 x 9\r\n".to_vec(),
                Ok(Client::Unnamed),
            ),
            (tcp4(), at("192.0.2.7:49153")),
            (v2(0x21, 0x21, &tcp6), at("[2001:db8::7]:50000")),
            (v2(0x21, 0x11, &with_extensions), at("192.0.2.7:49153")),
            (v2(0x20, 0x00, &[]), Ok(Client::Unnamed)),
            (v2(0x20, 0x11, &tcp4()[16..]), Ok(Client::Unnamed)),
            (v2(0x21, 0x00, &[9; 520]), Ok(Client::Unnamed)),
        ];
        for (bytes, expected) in cases {
            for size in [1, 2, 5, 11, 12, 13, 15, 16, 17, 100, 10_000] {
                let text = String::from_utf8_lossy(&bytes);
                assert_eq!(read(&bytes, size), expected, "{text:?} by {size}");
            }
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let long = [&b"PROXY UNKNOWN "[..], &[b'x'; 93]].concat();
        let bad: [&[u8]; 22] = [
            b"SSH-2.0-OpenSSH_10.6\r\n",
            b"",
            b"\r\n\r\n\0\r\nQUIX\n",
            b"proxy TCP4 192.0.2.7 198.51.100.1 1 2\r\n",
            b"PROXY TCP4 192.0.2.7 198.51.100.1 1 2\n",
            b"PROXY TCP4 192.0.2.7 198.51.100.1 1\r\n",
            b"PROXY TCP4 192.0.2.7 198.51.100.1 1 2 3\r\n",
            b"PROXY TCP4  192.0.2.7 198.51.100.1 1 2\r\n",
            b"PROXY TCP4 ::1 198.51.100.1 1 2\r\n",
            b"PROXY TCP6 192.0.2.7 198.51.100.1 1 2\r\n",
            b"PROXY TCP4 192.0.2.7 198.51.100.1 01 2\r\n",
            b"PROXY TCP4 192.0.2.7 198.51.100.1 +1 2\r\n",
            b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 2\r\n",
            b"PROXY TCP4 192.0.2.777 198.51.100.1 1 2\r\n",
            b"PROXY UDP4 192.0.2.7 198.51.100.1 1 2\r\n",
            b"PROXY \xff\xff\xff\xff\xff\xff\xff\r\n",
            &long,
            &v2(0x22, 0x11, &[0; 12]),
            &v2(0x11, 0x11, &[0; 12]),
            &v2(0x21, 0x12, &[0; 12]),
            &v2(0x21, 0x31, &[0; 216]),
            &v2(0x21, 0x11, &[0; 11]),
        ];
        for bytes in bad {
            for size in [1, 7, 10_000] {
                let text = String::from_utf8_lossy(bytes);
                assert!(read(bytes, size).is_err(), "{text:?} by {size}");
            }
        }
        assert!(read(&v2(0x21, 0x11, &[0; 521]), 3).is_err());
        assert!(read(&v2(0x21, 0x21, &[0; 35]), 3).is_err());
        let claims_much = [&V2_SIGNATURE[..], &[0x21, 0x11, 0xff, 0xff]].concat();
        assert!(
            read(&claims_much, 1).is_err(),
            "refused before a byte of it is kept"
        );
    }
}
