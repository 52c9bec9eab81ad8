//! Serves an agent of the caller's own over a stream, one request at a time.

use std::io::{self, Read, Write};

use zeroize::Zeroizing;

use crate::answer;
use crate::message::{Identity, MAX_MESSAGE_BYTES};
use crate::request::{AgentRequest, SignRequest};

/// An agent: lists keys and signs with them.
///
/// ```no_run
/// use agent::{Identity, SigningAgent, serve};
/// use agent::request::SignRequest;
/// use keys::PrivateKey;
///
/// struct OneKey(PrivateKey);
///
/// impl SigningAgent for OneKey {
///     fn identities(&mut self) -> Vec<Identity> {
///         let blob = self.0.public().blob();
///         vec![Identity { blob, comment: "one key".into() }]
///     }
///
///     fn sign(&mut self, request: &SignRequest<'_>) -> Option<Vec<u8>> {
///         let is_known = request.blob == self.0.public().blob();
///         let algorithm = request.flags.algorithm(self.0.key_type());
///         is_known.then(|| self.0.sign(algorithm, request.data).ok())?
///     }
/// }
///
/// # fn main() -> std::io::Result<()> {
/// let listener = std::os::unix::net::UnixListener::bind("/run/user/1000/my-agent")?;
/// let mut agent = OneKey(PrivateKey::from_ed25519_seed(&[7; 32]));
/// for stream in listener.incoming() {
///     serve(stream?, &mut agent)?;
/// }
/// # Ok(())
/// # }
/// ```
pub trait SigningAgent {
    /// Lists the keys that this client may see.
    fn identities(&mut self) -> Vec<Identity>;

    /// Signs and returns a signature blob; `None` refuses.
    fn sign(&mut self, request: &SignRequest<'_>) -> Option<Vec<u8>>;

    /// Carries out any other request and returns true if it was done. Refuses everything unless
    /// overridden: an agent that ignores a constraint or a binding must not accept it.
    fn other(&mut self, request: AgentRequest<'_>) -> bool {
        let _ = request;
        false
    }
}

/// Answers the requests of one client until it closes the stream.
///
/// # Errors
/// Those of the stream; `InvalidData` for a request of 0 bytes or of more than
/// [`MAX_MESSAGE_BYTES`].
pub fn serve(mut stream: impl Read + Write, agent: &mut impl SigningAgent) -> io::Result<()> {
    let mut length = [0; 4];
    loop {
        match stream.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        let bytes = usize::try_from(u32::from_be_bytes(length))
            .ok()
            .filter(|bytes| (1..=MAX_MESSAGE_BYTES).contains(bytes))
            .ok_or(io::ErrorKind::InvalidData)?;
        let mut body = Zeroizing::new(vec![0; bytes]);
        stream.read_exact(&mut body)?;
        stream.write_all(&answer_to(&body, agent))?;
        stream.flush()?;
    }
}

fn answer_to(body: &[u8], agent: &mut impl SigningAgent) -> Vec<u8> {
    match AgentRequest::decode(body) {
        Ok(AgentRequest::ListIdentities) => {
            let list = agent.identities();
            answer::identities(
                list.iter()
                    .map(|identity| (identity.blob.as_slice(), identity.comment.as_str())),
            )
        }
        Ok(AgentRequest::Sign(request)) => match agent.sign(&request) {
            Some(blob) => answer::signature(&blob),
            None => answer::status(false),
        },
        Ok(other) => answer::status(agent.other(other)),
        Err(_) => answer::status(false),
    }
}
