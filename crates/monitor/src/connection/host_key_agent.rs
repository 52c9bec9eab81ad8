//! Signatures by the agent of HostKeyAgent, which holds host keys in the monitor's place.
//!
//! Each signature has a connection of its own, so that an agent may be started again between two
//! exchanges. An agent that does not answer ends this connection only: each monitor serves one.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use agent::{AgentClient, AgentError};
use keys::{PublicKey, Signature, SignatureAlgorithm};
use sys::socket::Connecting;

/// Limit on the time in which the agent accepts the connection, and on that of each part of its
/// answer: a token may wait for a touch.
const AGENT_LIMIT: Duration = Duration::from_secs(30);
/// Pause before the next attempt, if too many monitors wait for the agent.
const CONNECT_PAUSE: Duration = Duration::from_millis(20);

/// Signs `message` with `key` and returns the signature blob.
///
/// # Errors
/// Those of the agent, and a signature of another algorithm.
pub(super) fn sign(
    socket: &Path,
    key: &PublicKey,
    algorithm: SignatureAlgorithm,
    message: &[u8],
) -> Result<Vec<u8>, AgentError> {
    let stream = connect(socket, AGENT_LIMIT)?;
    let signature = AgentClient::new(stream).sign_with(&key.blob(), message, algorithm)?;
    match Signature::from_blob(&signature) {
        Ok(parsed) if parsed.algorithm == algorithm => Ok(signature),
        _ => Err(io::Error::other("the signature is of another algorithm").into()),
    }
}

/// Connects to the agent; reads and writes have a limit of time.
///
/// # Errors
/// The kernel's error; `TimedOut` if the agent accepts no connection within `limit`.
fn connect(socket: &Path, limit: Duration) -> io::Result<UnixStream> {
    let deadline = Instant::now() + limit;
    let connected = loop {
        match sys::socket::connect_unix(socket) {
            Ok(Connecting::Done(connected) | Connecting::InProgress(connected)) => break connected,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) if Instant::now() >= deadline => return Err(io::ErrorKind::TimedOut.into()),
            Err(_) => std::thread::sleep(CONNECT_PAUSE),
        }
    };
    let stream = UnixStream::from(connected);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    Ok(stream)
}
