//! The reader: reads for the listener, which reads nothing itself, the PROXY headers of load
//! balancers ([`proxy_header`]), and answers requests for metrics with the text that the listener has
//! made ([`metrics_request`]). A process for each of the two, in the sandbox of the auth process, for
//! as long as the listener keeps its socket open.
//!
//! The listener sends a descriptor with each message. Invariants: nothing is read before the sandbox is
//! closed; no byte after a header is taken; what an answer says is checked by the listener like
//! any foreign text; a descriptor is closed as soon as its answer is known.

mod metrics_request;
mod proxy_header;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use privsep::{AnswerRequest, FrameSplitter, HeaderRead, Message, ReadHeader, roles};
use sys::io::PollFd;
use sys::process::Credentials;
use sys::sandbox::{Confinement, SandboxPolicy};

use metrics_request::RequestErrand;
use proxy_header::{Client, ProxyHeader};

/// Most connections at once. The listener lets at most 900 wait for headers.
const MAX_ERRANDS: usize = 960;
/// Limit on open descriptors.
const OPEN_FILES: u64 = 1000;

/// Runs the role `sshd-reader`; returns its exit status, one of [`privsep::roles::exit`].
#[must_use]
pub fn reader_main(arguments: &[OsString]) -> i32 {
    let started = sys::io::inherited(roles::READER_SOCKET_FD)
        .map_err(|error| error.to_string())
        .and_then(|socket| {
            close_sandbox(arguments, OPEN_FILES, false)?;
            Ok(socket)
        });
    let socket = match started {
        Ok(socket) => socket,
        Err(error) => {
            eprintln!("{}: {error}", roles::ROLE_READER);
            return roles::exit::NOT_STARTED;
        }
    };
    match serve(&socket, MAX_ERRANDS) {
        Ok(()) => roles::exit::DONE,
        Err(_) => roles::exit::FAILED,
    }
}

/// Closes the sandbox of the auth process, for a role with the arguments of a reader. `may_write`:
/// open files may grow.
pub(crate) fn close_sandbox(
    arguments: &[OsString],
    max_open_files: u64,
    may_write: bool,
) -> Result<(), String> {
    let number = |argument: &OsString| -> Result<u32, String> {
        let text = argument.to_str().ok_or("bad arguments")?;
        text.parse().map_err(|_| "bad arguments".to_owned())
    };
    let confinement = match arguments {
        [directory, uid, gid] => {
            let (uid, gid) = (number(uid)?, number(gid)?);
            Confinement::EmptyRoot {
                directory: PathBuf::from(directory),
                user: Credentials {
                    uid,
                    gid,
                    groups: vec![gid],
                },
            }
        }
        [] => Confinement::Landlock,
        _ => return Err("bad arguments".to_owned()),
    };
    let policy = SandboxPolicy {
        confinement,
        max_open_files,
        may_write,
    };
    sys::sandbox::preauth(&policy).map_err(|error| error.to_string())
}

/// A connection and what is to be done with it.
enum Errand {
    Header(HeaderErrand),
    Request(RequestErrand),
}

impl Errand {
    fn network(&self) -> &OwnedFd {
        match self {
            Self::Header(errand) => &errand.network,
            Self::Request(errand) => errand.network(),
        }
    }

    fn poll_fd(&self) -> PollFd<'_> {
        let writes = matches!(self, Self::Request(errand) if errand.is_answered());
        PollFd::new(self.network().as_fd(), !writes, writes)
    }

    /// Monotonic milliseconds after which the connection is closed; those of load balancers are
    /// closed by the listener.
    fn deadline_ms(&self) -> Option<u64> {
        match self {
            Self::Header(_) => None,
            Self::Request(errand) => Some(errand.deadline_ms()),
        }
    }

    /// Reads and writes what is possible now.
    fn advance(&mut self) -> ErrandProgress {
        match self {
            Self::Header(errand) => match errand.answer() {
                Some(answer) => ErrandProgress::Answer(answer),
                None => ErrandProgress::Waits,
            },
            Self::Request(errand) => match errand.advance() {
                true => ErrandProgress::Done,
                false => ErrandProgress::Waits,
            },
        }
    }

    /// Ends a connection for which there is no room. The listener lets so few wait for headers that
    /// there is room for each.
    fn refuse(self) {
        match self {
            Self::Header(_) => {}
            Self::Request(errand) => errand.refuse(),
        }
    }
}

/// How far an errand is.
enum ErrandProgress {
    Waits,
    /// It is done, and this is for the listener.
    Answer(HeaderRead),
    Done,
}

/// A connection whose header has not arrived as a whole.
struct HeaderErrand {
    token: u64,
    network: OwnedFd,
    header: ProxyHeader,
}

impl HeaderErrand {
    /// Reads what has arrived. Returns the client once the header is whole.
    ///
    /// # Errors
    /// Why the connection has no header.
    fn advance(&mut self) -> Result<Option<Client>, String> {
        loop {
            let mut room = [0; 600];
            let count = match sys::socket::peek(&self.network, &mut room) {
                Ok(0) if self.header.is_empty() => return Err("closed without a header".into()),
                Ok(0) => return Err("closed within the header".into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.to_string()),
            };
            let offered = room.get(..count).unwrap_or_default();
            let (taken, client) = self.header.take(offered)?;
            // These bytes are there: the read neither blocks nor returns fewer.
            let read = sys::io::read(&self.network, room.get_mut(..taken).unwrap_or_default());
            if read.map_err(|error| error.to_string())? != taken {
                return Err("the connection has another reader".into());
            }
            if client.is_some() {
                return Ok(client);
            }
        }
    }

    /// The answer, once it is known.
    fn answer(&mut self) -> Option<HeaderRead> {
        let (client, failure) = match self.advance() {
            Ok(None) => return None,
            Ok(Some(Client::Unnamed)) => (None, None),
            Ok(Some(Client::At(client))) => (Some((client.ip().to_string(), client.port())), None),
            Err(why) => (None, Some(why)),
        };
        Some(HeaderRead {
            token: self.token,
            client,
            failure,
        })
    }
}

/// Serves until the listener closes its end, `most` connections at once.
fn serve(socket: &OwnedFd, most: usize) -> io::Result<()> {
    let mut errands: Vec<Errand> = Vec::new();
    loop {
        let mut fds = vec![PollFd::new(socket.as_fd(), true, false)];
        fds.extend(errands.iter().map(Errand::poll_fd));
        let next_ms = errands.iter().filter_map(Errand::deadline_ms).min();
        let now_ms = sys::time::monotonic_ms();
        let timeout = next_ms.map(|at| Duration::from_millis(at.saturating_sub(now_ms)));
        sys::io::poll(&mut fds, timeout)?;
        let is_ready = |fd: &PollFd<'_>| fd.is_readable() || fd.is_writable();
        let ready: Vec<bool> = fds.iter().map(is_ready).collect();
        drop(fds);
        let (is_asked, ready) = ready.split_first().unwrap_or((&false, &[]));
        let (mut ready, now_ms) = (ready.iter(), sys::time::monotonic_ms());
        let mut answers = Vec::new();
        errands.retain_mut(|errand| {
            let is_ready = ready.next().copied().unwrap_or(false);
            match is_ready.then(|| errand.advance()) {
                Some(ErrandProgress::Answer(answer)) => answers.push(answer),
                Some(ErrandProgress::Done) => {}
                None | Some(ErrandProgress::Waits) => {
                    return errand.deadline_ms().is_none_or(|at| at > now_ms);
                }
            }
            false
        });
        if *is_asked {
            let Some(mut errand) = next_errand(socket)? else {
                return Ok(());
            };
            // Most headers have arrived by now.
            match errand.advance() {
                ErrandProgress::Answer(answer) => answers.push(answer),
                ErrandProgress::Done => {}
                ErrandProgress::Waits if errands.len() < most => errands.push(errand),
                ErrandProgress::Waits => errand.refuse(),
            }
        }
        for answer in answers {
            sys::io::write_all(socket, &answer.encode_frame())?;
        }
    }
}

/// Receives a connection from the listener; `None` at the end.
fn next_errand(socket: &OwnedFd) -> io::Result<Option<Errand>> {
    let mut bytes = vec![0; roles::MAX_READER_MESSAGE_BYTES];
    let mut received = sys::socket::recv_with_fds(socket, &mut bytes, 1)?;
    if received.len == 0 {
        return Ok(None);
    }
    let bad = || io::Error::other("no connection came with the message");
    let mut splitter = FrameSplitter::new();
    splitter.feed(bytes.get(..received.len).unwrap_or_default());
    let frame = splitter.next_frame().map_err(io::Error::other)?;
    let (frame, network) = frame.zip(received.fds.pop()).ok_or_else(bad)?;
    let errand = match frame.number {
        ReadHeader::NUMBER => {
            let ReadHeader { token } = frame.decode().map_err(io::Error::other)?;
            let header = ProxyHeader::default();
            Errand::Header(HeaderErrand {
                token,
                network,
                header,
            })
        }
        _ => {
            let AnswerRequest { text } = frame.decode().map_err(io::Error::other)?;
            let now_ms = sys::time::monotonic_ms();
            Errand::Request(RequestErrand::new(network, text, now_ms))
        }
    };
    Ok(Some(errand))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the listener has: its end of the socket, and the balancer's end of a connection.
    fn serving() -> (OwnedFd, OwnedFd, std::thread::JoinHandle<()>) {
        let (ours, theirs) = sys::socket::seqpacket_pair().unwrap();
        let (balancer, network) = sys::socket::stream_pair().unwrap();
        let frame = ReadHeader { token: 7 }.encode_frame();
        sys::socket::send_with_fds(&ours, &frame, &[network.as_fd()]).unwrap();
        let thread = std::thread::spawn(move || serve(&theirs, 2).unwrap());
        (ours, balancer, thread)
    }

    fn heard(socket: &OwnedFd) -> HeaderRead {
        let mut bytes = [0; 4096];
        let count = sys::io::read(socket, &mut bytes).unwrap();
        let mut splitter = FrameSplitter::new();
        splitter.feed(&bytes[..count]);
        splitter.next_frame().unwrap().unwrap().decode().unwrap()
    }

    #[test]
    fn a_header_by_single_bytes_is_answered_once_and_what_follows_stays() {
        let (ours, balancer, thread) = serving();
        for byte in b"PROXY TCP4 192.0.2.7 192.0.2.1 4000 22\r\n" {
            assert!(!sys::io::wait_readable(&ours, Some(std::time::Duration::ZERO)).unwrap());
            sys::io::write_all(&balancer, &[*byte]).unwrap();
        }
        let expected = HeaderRead {
            token: 7,
            client: Some(("192.0.2.7".into(), 4000)),
            failure: None,
        };
        assert_eq!(heard(&ours), expected);
        drop(ours);
        thread.join().unwrap();
    }

    #[test]
    fn a_request_for_metrics_is_answered_beside_a_header_that_waits() {
        let (ours, balancer, thread) = serving();
        let (client, network) = sys::socket::stream_pair().unwrap();
        let text = b"metrics 1\n".to_vec();
        let frame = AnswerRequest { text }.encode_frame();
        sys::socket::send_with_fds(&ours, &frame, &[network.as_fd()]).unwrap();
        drop(network);
        sys::io::write_all(&client, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let answer = sys::io::read_to_end(&client, 4096).unwrap();
        assert!(answer.ends_with(b"\r\n\r\nmetrics 1\n"));
        sys::io::write_all(&balancer, b"PROXY UNKNOWN\r\n").unwrap();
        assert_eq!(heard(&ours).failure, None);
        drop(ours);
        thread.join().unwrap();
    }

    #[test]
    fn a_request_without_room_is_refused_in_words() {
        // One of the two places waits for a header.
        let (ours, balancer, thread) = serving();
        let asked = |part: &[u8]| {
            let (client, network) = sys::socket::stream_pair().unwrap();
            sys::io::write_all(&client, part).unwrap();
            let text = b"metrics 1\n".to_vec();
            let frame = AnswerRequest { text }.encode_frame();
            sys::socket::send_with_fds(&ours, &frame, &[network.as_fd()]).unwrap();
            client
        };
        let answer = |client: &OwnedFd| {
            let answer = sys::io::read_to_end(client, 4096).unwrap();
            String::from_utf8(answer).unwrap()
        };
        let waiting = asked(b"GET /met");
        let refused = answer(&asked(b"GET /met"));
        assert!(
            refused.starts_with("HTTP/1.0 503 Service Unavailable\r\n"),
            "{refused:?}"
        );
        assert!(
            refused.ends_with(
                "\r\n\r\ntoo many requests for metrics at once; ask again in a few seconds\n"
            ),
            "{refused:?}"
        );
        // A request that is whole needs no place.
        let served = answer(&asked(b"GET /metrics HTTP/1.0\r\n\r\n"));
        assert!(served.ends_with("\r\n\r\nmetrics 1\n"), "{served:?}");
        sys::io::write_all(&waiting, b"rics HTTP/1.0\r\n\r\n").unwrap();
        let served = answer(&waiting);
        assert!(served.ends_with("\r\n\r\nmetrics 1\n"), "{served:?}");
        drop((ours, balancer));
        thread.join().unwrap();
    }

    #[test]
    fn ends_and_other_protocols_are_failures() {
        for (said, why) in [
            (&b""[..], "closed without a header"),
            (b"PROXY TCP4 192", "closed within the header"),
            (b"SSH-2.0-x\r\n", "no PROXY header"),
        ] {
            let (ours, balancer, thread) = serving();
            sys::io::write_all(&balancer, said).unwrap();
            drop(balancer);
            let answer = heard(&ours);
            assert_eq!(answer.client, None);
            assert_eq!(answer.failure.as_deref(), Some(why));
            drop(ours);
            thread.join().unwrap();
        }
    }
}
