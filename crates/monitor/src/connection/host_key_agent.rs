//! Signatures by the agent of HostKeyAgent, which holds host keys in the monitor's place.
//!
//! Each signature has a connection of its own, so that an agent may be started again between two
//! exchanges. An agent that does not answer ends this connection only: each monitor serves one.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use agent::{AgentClient, AgentError};
use keys::{PublicKey, Signature, SignatureAlgorithm};
use sys::socket::Connecting;

/// Limit on the time of the whole exchange with the agent: a token may wait for a touch.
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
    sign_within(AGENT_LIMIT, socket, key, algorithm, message)
}

fn sign_within(
    limit: Duration,
    socket: &Path,
    key: &PublicKey,
    algorithm: SignatureAlgorithm,
    message: &[u8],
) -> Result<Vec<u8>, AgentError> {
    let deadline = Instant::now() + limit;
    let stream = connect(socket, deadline)?;
    let signature = AgentClient::new(AgentStream { stream, deadline }).sign_with(
        &key.blob(),
        message,
        algorithm,
    )?;
    match Signature::from_blob(&signature) {
        Ok(parsed) if parsed.algorithm == algorithm => Ok(signature),
        _ => Err(io::Error::other("the signature is of another algorithm").into()),
    }
}

/// A connection whose reads and writes end at a deadline, however often the agent sends something.
struct AgentStream {
    stream: UnixStream,
    deadline: Instant,
}

impl AgentStream {
    /// The time that is left; never zero, which would mean no limit.
    fn left(&self) -> io::Result<Duration> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

impl Read for AgentStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for AgentStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Connects to the agent.
///
/// # Errors
/// The kernel's error; `TimedOut` if the agent accepts no connection before `deadline`.
fn connect(socket: &Path, deadline: Instant) -> io::Result<UnixStream> {
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
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use keys::PrivateKey;

    use super::*;

    /// An answer of 100,000 bytes, one in 20 ms.
    #[test]
    fn an_agent_that_answers_byte_by_byte_does_not_prolong_the_wait() {
        let path = std::env::temp_dir().join(format!("fulmar-slow-agent-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut answer = vec![0; 100_000];
            answer[..4].copy_from_slice(&99_996_u32.to_be_bytes());
            for byte in answer {
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let key = PrivateKey::from_ed25519_seed(&[1; 32]);
        let begun = Instant::now();
        let limit = Duration::from_millis(500);
        let algorithm = SignatureAlgorithm::Ed25519;
        let signed = sign_within(limit, &path, key.public(), algorithm, b"hash");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(signed, Err(AgentError::Io(_))), "{signed:?}");
        // The whole answer would take 2,000 s.
        assert!(begun.elapsed() < Duration::from_secs(200));
    }
}
