//! Serves an agent of the caller's own over a stream, one request at a time.

use std::io::{self, Read, Write};

use zeroize::Zeroizing;

use crate::answer;
use crate::message::{Identity, MAX_MESSAGE_BYTES};
use crate::request::{Request, SignRequest};

/// An agent: lists keys and signs with them.
pub trait SigningAgent {
    /// Lists the keys that this client may see.
    fn identities(&mut self) -> Vec<Identity>;

    /// Signs and returns a signature blob; `None` refuses.
    fn sign(&mut self, request: &SignRequest<'_>) -> Option<Vec<u8>>;

    /// Carries out any other request and returns true if it was done. Refuses everything unless
    /// overridden: an agent that ignores a constraint or a binding must not accept it.
    fn other(&mut self, request: Request<'_>) -> bool {
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
    match Request::decode(body) {
        Ok(Request::ListIdentities) => {
            let list = agent.identities();
            answer::identities(
                list.iter()
                    .map(|identity| (identity.blob.as_slice(), identity.comment.as_str())),
            )
        }
        Ok(Request::Sign(request)) => match agent.sign(&request) {
            Some(blob) => answer::signature(&blob),
            None => answer::status(false),
        },
        Ok(other) => answer::status(agent.other(other)),
        Err(_) => answer::status(false),
    }
}
