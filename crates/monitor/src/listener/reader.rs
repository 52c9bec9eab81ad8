//! The process that reads the PROXY headers of load balancers (ProxyProtocolFrom) and the requests for
//! metrics (MetricsListen) for the listener: its start, the questions to it and its answers. What a
//! header or a request looks like is known to `server::reader` alone. The listener has a process for
//! each of the two.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use config::server::ConnectionOptions;
use privsep::{FrameSplitter, HeaderRead, Message, ReadHeader, roles};
use sys::process::{Child, SelfExe};

use super::confinement::Confinement;

/// Time limit for a header, from the acceptance of its connection. A load balancer sends it with its
/// first packet, which may be lost twice.
pub(super) const HEADER_LIMIT: Duration = Duration::from_secs(5);
/// Why a connection is closed whose header has not arrived within [`HEADER_LIMIT`].
pub(super) const TOO_LATE: &str = "no header within 5 seconds";
/// Why a connection is closed whose reader has gone.
pub(super) const READER_ENDED: &str = "the process that reads PROXY headers has ended";
/// Longest answer in bytes.
const MAX_ANSWER_BYTES: usize = 1024;

/// True if a connection from `address` must begin with a PROXY header.
pub(super) fn is_balancer(connection: &ConnectionOptions, address: IpAddr) -> bool {
    connection.proxy_protocol_from.contains(address)
}

/// The log line about a connection that is closed for its header.
pub(super) fn refusal(balancer: SocketAddr, why: &str) -> String {
    format!(
        "Connection from load balancer {} port {} closed: PROXY header: {why}",
        balancer.ip(),
        balancer.port()
    )
}

/// A client in the form of [`privsep::MonitorConnection::client`].
pub(super) fn client_field(client: SocketAddr) -> (String, u16) {
    (client.ip().to_string(), client.port())
}

/// A running reader. It ends when this value is dropped.
#[derive(Debug)]
pub(super) struct ReaderProcess {
    socket: OwnedFd,
    /// The listener's loop reaps the process like any other child.
    _process: Child,
}

/// An answer of the reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HeaderAnswer {
    /// The connection's number, as it was asked.
    pub(super) token: u64,
    /// The client that the header names, if it names one; or why the connection must be closed.
    pub(super) client: Result<Option<SocketAddr>, String>,
}

impl ReaderProcess {
    /// Starts the process.
    ///
    /// # Errors
    /// Why it could not be started.
    pub(super) fn start(
        executable: &SelfExe,
        confinement: Option<&Confinement>,
        oom_score: Option<i32>,
    ) -> io::Result<Self> {
        let (socket, theirs) = sys::socket::seqpacket_pair()?;
        sys::io::set_nonblocking(&socket, true)?;
        let mut command = executable.command()?;
        command
            .args(["fulmar", roles::ROLE_READER])
            .without_stdio()
            .fd(sys::io::null()?, 2)
            .fd(theirs, roles::READER_SOCKET_FD)
            .new_session();
        if let Some(Confinement { chroot, ids }) = confinement {
            let (uid, gid) = ids;
            command
                .arg(chroot)
                .arg(uid.to_string())
                .arg(gid.to_string());
        }
        if let Some(score) = oom_score {
            command.oom_score(score);
        }
        Ok(Self {
            socket,
            _process: command.spawn()?,
        })
    }

    /// The socket, readable when there is an answer.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Asks for the header with which `network` begins, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if too many questions are unanswered; any other error if the process has ended.
    pub(super) fn ask(&self, token: u64, network: &OwnedFd) -> io::Result<()> {
        self.pass(&ReadHeader { token }, network)
    }

    /// Passes a connection with its errand to the process, without waiting.
    ///
    /// # Errors
    /// As [`ReaderProcess::ask`].
    pub(super) fn pass(&self, errand: &impl Message, network: &OwnedFd) -> io::Result<()> {
        let frame = errand.encode_frame();
        sys::socket::send_with_fds(&self.socket, &frame, &[network.as_fd()])?;
        Ok(())
    }

    /// The next answer; `None` if there is none yet.
    ///
    /// # Errors
    /// If the process has ended, or has written something else.
    pub(super) fn answer(&self) -> io::Result<Option<HeaderAnswer>> {
        let mut bytes = [0; MAX_ANSWER_BYTES];
        // Descriptors are not expected: they are closed, and the answer is an error.
        let received = match sys::socket::recv_with_fds(&self.socket, &mut bytes, 0) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        if received.len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        read_answer(bytes.get(..received.len).unwrap_or_default()).map(Some)
    }
}

fn read_answer(bytes: &[u8]) -> io::Result<HeaderAnswer> {
    let mut splitter = FrameSplitter::new();
    splitter.feed(bytes);
    let frame = splitter.next_frame().map_err(io::Error::other)?;
    let frame = frame.ok_or(io::ErrorKind::InvalidData)?;
    let HeaderRead {
        token,
        client,
        failure,
    } = frame.decode().map_err(io::Error::other)?;
    let client = match (failure, client) {
        (Some(why), _) => Err(why),
        (None, None) => Ok(None),
        (None, Some((address, port))) => {
            let address = address.parse().map_err(io::Error::other)?;
            Ok(Some(sys::socket::unmapped(SocketAddr::new(address, port))))
        }
    };
    Ok(HeaderAnswer { token, client })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(client: Option<(&str, u16)>, failure: Option<&str>) -> io::Result<HeaderAnswer> {
        let answer = HeaderRead {
            token: 9,
            client: client.map(|(address, port)| (address.to_owned(), port)),
            failure: failure.map(str::to_owned),
        };
        read_answer(&answer.encode_frame())
    }

    #[test]
    fn answers_are_addresses_or_reasons() {
        let named = said(Some(("::ffff:192.0.2.7", 4000)), None).unwrap();
        let expected = "192.0.2.7:4000".parse().unwrap();
        assert_eq!((named.token, named.client), (9, Ok(Some(expected))));
        assert_eq!(said(None, None).unwrap().client, Ok(None));
        // A reason counts, whatever the other field has.
        let refused = said(Some(("192.0.2.7", 1)), Some("why")).unwrap();
        assert_eq!(refused.client, Err("why".to_owned()));
        assert!(said(Some(("example.org", 1)), None).is_err());
        assert!(read_answer(b"").is_err());
        assert!(read_answer(&[0, 0, 0, 1, 98]).is_err());
    }

    #[test]
    fn balancers_are_those_of_the_list() {
        let is_balancer = |text: &str, address: &str| {
            let options = crate::test_support::options(text);
            is_balancer(&options.connection, address.parse().unwrap())
        };
        let list = "ProxyProtocolFrom 192.0.2.0/28,2001:db8::1";
        assert!(is_balancer(list, "192.0.2.15"));
        assert!(is_balancer(list, "::ffff:192.0.2.15"));
        assert!(is_balancer(list, "2001:db8::1"));
        assert!(!is_balancer(list, "192.0.2.16"));
        assert!(!is_balancer("", "192.0.2.15"));
        assert!(!is_balancer("ProxyProtocolFrom none", "192.0.2.15"));
    }
}
