//! Asks the name servers of resolv.conf(5) for SSHFP records: by UDP, and by TCP if the answer does
//! not fit or the option `use-vc` is set.
//!
//! Whether an answer was validated is the server's word, so it counts only with the option `trust-ad`,
//! by which the administrator says that the server and the way to it can be trusted. A server on this
//! machine may forward what others say, as that of Docker's containers does (127.0.0.11). The names
//! of `search` are not appended, as in OpenSSH.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use super::SshfpAnswer;
use super::message::{self, Response};
use crate::log::debug3;

const FILE: &str = "/etc/resolv.conf";
/// Limit on resolv.conf, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// Most servers that are asked, as in the C library.
const MAX_SERVERS: usize = 3;
const PORT: u16 = 53;
/// Largest datagram: a server may send more than the query offers.
const DATAGRAM_BYTES: usize = 64 * 1024;

/// The name servers and how they are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolver {
    servers: Vec<SocketAddr>,
    /// For each attempt, seconds, 1 to 30.
    timeout_s: u64,
    /// Rounds through the servers, 1 to 5.
    attempts: u32,
    trusts_ad: bool,
    by_tcp: bool,
}

impl Resolver {
    /// The system's; without a file, or one without a server, the server of this machine.
    #[must_use]
    pub fn system() -> Self {
        let file = sys::file::read_bounded(
            Path::new(FILE),
            MAX_FILE_BYTES,
            sys::file::FollowLinks::Follow,
        );
        Self::parse(&String::from_utf8_lossy(&file.unwrap_or_default()))
    }

    /// Reads resolv.conf(5). Unknown lines and options are passed over. As in the C library, a line that begins with a
    /// blank is unknown, and the address of a server ends at a comment.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut out = Self {
            servers: Vec::new(),
            timeout_s: 5,
            attempts: 2,
            trusts_ad: false,
            by_tcp: false,
        };
        for line in text.lines() {
            let (keyword, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
            let mut words = rest.split_ascii_whitespace();
            match keyword {
                "nameserver" => {
                    let word = words.next().and_then(|word| word.split([';', '#']).next());
                    let server = word.and_then(server);
                    out.servers
                        .extend(server.filter(|_| out.servers.len() < MAX_SERVERS));
                }
                "options" => words.for_each(|option| out.apply(option)),
                _ => {}
            }
        }
        if out.servers.is_empty() {
            out.servers.push((Ipv4Addr::LOCALHOST, PORT).into());
        }
        out
    }

    fn apply(&mut self, option: &str) {
        match option.split_once(':') {
            Some(("timeout", value)) => {
                if let Ok(seconds) = value.parse::<u64>() {
                    self.timeout_s = seconds.clamp(1, 30);
                }
            }
            Some(("attempts", value)) => {
                if let Ok(attempts) = value.parse::<u32>() {
                    self.attempts = attempts.clamp(1, 5);
                }
            }
            Some(_) => {}
            None => {
                self.trusts_ad |= option == "trust-ad";
                self.by_tcp |= option == "use-vc";
            }
        }
    }

    /// Looks the SSHFP records of a name up. Waits at most the file's `timeout` for each server and
    /// attempt.
    ///
    /// # Errors
    /// The reason in words.
    pub fn look_up(&self, name: &str) -> Result<SshfpAnswer, String> {
        let mut reason = "no name server has answered".to_owned();
        for _ in 0..self.attempts {
            for server in &self.servers {
                match self.ask(*server, name) {
                    Ok(Response::Records {
                        fingerprints,
                        is_authentic,
                    }) => {
                        return Ok(SshfpAnswer {
                            fingerprints,
                            is_secure: is_authentic && self.trusts_ad,
                        });
                    }
                    Ok(Response::NoName) => return Err("name does not exist".to_owned()),
                    Ok(Response::Failed(code)) => {
                        reason = format!("the name server failed with code {code}");
                    }
                    Ok(Response::NotUnderstood) => {
                        reason = "the name server does not understand the query".to_owned();
                    }
                    Ok(Response::Truncated) => reason = "the answer was cut off".to_owned(),
                    Err(error) => {
                        debug3!("name server {server}: {error}");
                        if error.kind() == io::ErrorKind::InvalidInput {
                            return Err("not a name of the DNS".to_owned());
                        }
                    }
                }
            }
        }
        Err(reason)
    }

    /// Asks a server, and once more without EDNS if it does not understand that.
    fn ask(&self, server: SocketAddr, name: &str) -> io::Result<Response> {
        match self.ask_once(server, name, true)? {
            Response::NotUnderstood => self.ask_once(server, name, false),
            response => Ok(response),
        }
    }

    fn ask_once(&self, server: SocketAddr, name: &str, has_edns: bool) -> io::Result<Response> {
        let id = u16::from_be_bytes(crypto::random::bytes());
        let query = message::query(id, name, has_edns).ok_or(io::ErrorKind::InvalidInput)?;
        let query = Query {
            server,
            message: &query,
            id,
            name,
            limit: Duration::from_secs(self.timeout_s),
        };
        if !self.by_tcp {
            match by_udp(&query)? {
                Response::Truncated => {}
                response => return Ok(response),
            }
        }
        by_tcp(&query)
    }
}

/// The address of a server, in the forms of inet_aton(3); an IPv6 address may name its interface after `%`, which only a
/// link-local address needs and which is not supported.
fn server(word: &str) -> Option<SocketAddr> {
    keys::address::parse_address(word).map(|ip| (ip, PORT).into())
}

/// A query to one server.
struct Query<'a> {
    server: SocketAddr,
    message: &'a [u8],
    /// The number of the query, which its response repeats.
    id: u16,
    /// The name that is asked about, which the response repeats.
    name: &'a str,
    /// Limit on the whole exchange.
    limit: Duration,
}

fn by_udp(query: &Query<'_>) -> io::Result<Response> {
    let any: IpAddr = match query.server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // A port of the kernel's choice, and only the server's answers: both make a forgery harder.
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(query.server)?;
    socket.send(query.message)?;
    let end = Instant::now() + query.limit;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let len = socket.recv(&mut buffer)?;
        let datagram = buffer.get(..len).unwrap_or_default();
        // Others may answer in the server's name: what is no answer is passed over until the time is up.
        if let Some(response) = message::response(datagram, query.id, query.name) {
            return Ok(response);
        }
    }
}

/// A message by TCP is preceded by its length (RFC 1035 §4.2.2).
fn by_tcp(query: &Query<'_>) -> io::Result<Response> {
    let end = Instant::now() + query.limit;
    let mut stream = TcpStream::connect_timeout(&query.server, query.limit)?;
    stream.set_write_timeout(Some(query.limit))?;
    let len = u16::try_from(query.message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut sent = len.to_be_bytes().to_vec();
    sent.extend_from_slice(query.message);
    stream.write_all(&sent)?;
    let mut len = [0; 2];
    read_until(end, &mut stream, &mut len)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(len))];
    read_until(end, &mut stream, &mut answer)?;
    match message::response(&answer, query.id, query.name) {
        Some(Response::Truncated) | None => Err(io::ErrorKind::InvalidData.into()),
        Some(response) => Ok(response),
    }
}

/// Fills the buffer. A server that sends byte by byte has until `end` altogether.
fn read_until(end: Instant, stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(rest @ [_, ..]) = buffer.get_mut(filled..) {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        filled += match stream.read(rest)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            len => len,
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_sends_byte_by_byte_does_not_prolong_the_wait() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = listener.local_addr().unwrap();
        let limit = Duration::from_millis(400);
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for _ in 0..100 {
                let _ = stream.write_all(&[0xff]);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let query = Query {
            server,
            message: &message::query(1, "a.example", true).unwrap(),
            id: 1,
            name: "a.example",
            limit,
        };
        let begun = Instant::now();
        assert!(by_tcp(&query).is_err());
        assert!(begun.elapsed() < 10 * limit, "{:?}", begun.elapsed());
    }

    /// As in OpenSSH: the size that the query offers binds the server only, and forged answers do not end the wait.
    #[test]
    fn a_large_answer_behind_many_others_is_read() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = socket.local_addr().unwrap();
        let records: u8 = 60;
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            let (len, from) = socket.recv_from(&mut buffer).unwrap();
            for _ in 0..40 {
                let _ = socket.send_to(b"no answer", from);
            }
            // Without the pseudo-record of EDNS.
            let mut answer = buffer[..len - 11].to_vec();
            answer[2] |= 0x80;
            (answer[7], answer[11]) = (records, 0);
            for _ in 0..records {
                answer.extend([0xc0, 12, 0, 44, 0, 1, 0, 0, 0, 60, 0, 34, 4, 2]);
                answer.extend([7; 32]);
            }
            assert!(answer.len() > usize::from(message::UDP_BYTES));
            let _ = socket.send_to(&answer, from);
        });
        let found = resolver(server).look_up("a.example").unwrap();
        assert_eq!(found.fingerprints.len(), usize::from(records));
    }

    /// A server that knows no EDNS: it answers with a header only, and otherwise as `answer` says.
    fn server_of_old(answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) -> SocketAddr {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            for _ in 0..2 {
                let (len, from) = socket.recv_from(&mut buffer).unwrap();
                let _ = socket.send_to(&answer(&buffer[..len]), from);
            }
        });
        address
    }

    fn resolver(server: SocketAddr) -> Resolver {
        Resolver {
            servers: vec![server],
            timeout_s: 30,
            attempts: 1,
            trusts_ad: false,
            by_tcp: false,
        }
    }

    #[test]
    fn a_server_without_edns_is_asked_without_it() {
        for (code, has_question) in [(1, false), (1, true), (4, false)] {
            let server = server_of_old(move |query| {
                let mut answer = query.to_vec();
                let has_edns = query[11] == 1;
                answer[2] |= 0x80;
                if has_edns {
                    answer[3] = code;
                    answer.truncate(query.len() - 11);
                    answer[11] = 0;
                }
                if has_edns && !has_question {
                    answer.truncate(12);
                    answer[5] = 0;
                }
                answer
            });
            let found = resolver(server).look_up("a.example");
            assert_eq!(
                found,
                Ok(SshfpAnswer {
                    fingerprints: Vec::new(),
                    is_secure: false
                }),
                "{code} {has_question}"
            );
        }
        let server = server_of_old(|query| {
            let mut answer = query[..12].to_vec();
            answer[2..6].copy_from_slice(&[0x81, 1, 0, 0]);
            answer
        });
        let found = resolver(server).look_up("a.example");
        assert!(found.unwrap_err().contains("does not understand"));
    }
}
