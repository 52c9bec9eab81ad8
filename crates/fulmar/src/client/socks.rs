//! Requests of SOCKS clients, such as browsers.

use std::fmt;
use std::io::{self, Read, Write};

use driver::forward::{ForwardTarget, Socks, SocksOutcome, SocksStep};
use wire::message::open_failure;

use crate::Error;

/// A request to connect that a SOCKS client has sent (SOCKS 4, 4a, and 5 by RFC 1928, without
/// authentication). `S` is the stream to the client: a `TcpStream` that the program has accepted, or
/// the [`Channel`](super::Channel) of a [`RemoteListener`](super::RemoteListener).
///
/// Answer it with [`SocksRequest::grant`] or [`SocksRequest::refuse`]; without an answer the stream is
/// closed.
///
/// ```no_run
/// # fn serve(session: &fulmar::client::Session, stream: std::net::TcpStream) -> Result<(), fulmar::Error> {
/// use fulmar::client::SocksRequest;
///
/// let request = SocksRequest::read(stream)?;
/// match session.connect_tcp(request.host(), request.port()) {
///     Ok(channel) => {
///         let stream = request.grant()?;
///         // Copy between `stream` and `channel`, both ways.
///     }
///     Err(error) => request.refuse(&error)?,
/// }
/// # Ok(())
/// # }
/// ```
pub struct SocksRequest<S> {
    stream: S,
    socks: Socks,
    host: String,
    port: u16,
}

impl<S: Read + Write> SocksRequest<S> {
    /// Reads a request, at most some hundred bytes, and nothing that follows it. Waits for it without
    /// limit: set the stream's read timeout first.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the client asks for something else than a connection, or
    /// does not speak SOCKS; the client has its refusal. [`io::ErrorKind::UnexpectedEof`] if the stream ends
    /// before the request does; otherwise the stream's error.
    pub fn read(mut stream: S) -> io::Result<Self> {
        let mut socks = Socks::default();
        loop {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            match socks.take(&byte).1 {
                SocksStep::More(answer) => stream.write_all(&answer)?,
                SocksStep::Connect(ForwardTarget::Tcp { host, port }) => {
                    return Ok(Self {
                        stream,
                        socks,
                        host,
                        port,
                    });
                }
                SocksStep::Refuse(answer) => {
                    stream.write_all(&answer)?;
                    break;
                }
                SocksStep::Associate(_) => {
                    stream.write_all(&socks.reply(SocksOutcome::Unsupported))?;
                    break;
                }
                // A request to connect names a port.
                SocksStep::Connect(_) => break,
            }
        }
        let text = "not a SOCKS request to connect";
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    }

    /// The name or IP address to connect to, as the client sent it, at most 255 bytes.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port to connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reports to the client that it is connected, and returns the stream, whose next bytes are the
    /// connection's.
    ///
    /// # Errors
    /// The stream's.
    pub fn grant(mut self) -> io::Result<S> {
        let reply = self.socks.reply(SocksOutcome::Connected);
        self.stream.write_all(&reply)?;
        Ok(self.stream)
    }

    /// Reports to the client that it is not connected: for SOCKS 5 as forbidden if the server has
    /// prohibited the channel, otherwise as refused.
    ///
    /// # Errors
    /// The stream's.
    pub fn refuse(mut self, error: &Error) -> io::Result<()> {
        let outcome = match error {
            Error::ChannelRefused {
                reason: open_failure::ADMINISTRATIVELY_PROHIBITED,
                ..
            } => SocksOutcome::Forbidden,
            _ => SocksOutcome::Unreachable,
        };
        let reply = self.socks.reply(outcome);
        self.stream.write_all(&reply)
    }
}

impl<S> fmt::Debug for SocksRequest<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocksRequest")
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}
