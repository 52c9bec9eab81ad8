//! The helper process: it does what the agent itself cannot do in its sandbox. It starts askpass
//! programs and the helpers that reach tokens (`token`), and removes the agent's socket when the
//! agent ends, however it ends.
//!
//! It is forked before the agent holds keys, and it ends when the agent's end of their socket is
//! closed. Each question runs on a thread of its own, so that none waits for another.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use agent::socket::AgentSocket;
use sys::signals::Signal;
use sys::terminal::askpass;

use crate::workers::AnswerPlace;

/// Longest question, bytes.
const MAX_QUESTION_BYTES: usize = 32 * 1024;
/// Bytes of a place and the kind before the question.
const PLACE_BYTES: usize = 17;
/// Longest answer, bytes: the kind, a place and a path or reason.
const MAX_ANSWER_BYTES: usize = 8192;

/// What the helper is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HelperTaskKind {
    /// Asks the user whether a key may be used; the answer is a decision.
    Confirm,
    /// Starts the helper for a library; the answer has its canonical path and its socket.
    StartToken,
    /// Finds a library's canonical path.
    ResolveToken,
}

impl HelperTaskKind {
    const ALL: [Self; 3] = [Self::Confirm, Self::StartToken, Self::ResolveToken];

    fn number(self) -> u8 {
        match self {
            Self::Confirm => b'?',
            Self::StartToken => b'+',
            Self::ResolveToken => b'=',
        }
    }
}

/// The helper's answer.
pub(crate) struct HelperAnswer {
    pub(crate) place: AnswerPlace,
    /// True if the user said yes, or it was done.
    pub(crate) is_yes: bool,
    /// The library's canonical path, or why it was not started.
    pub(crate) text: String,
    /// The socket of the token's helper.
    pub(crate) socket: Option<OwnedFd>,
}

/// The agent's end.
pub(crate) struct Helper {
    socket: OwnedFd,
}

/// What the helper keeps of the agent.
pub(crate) struct HelperTask {
    /// The socket to remove at the end.
    pub(crate) socket: Option<AgentSocket>,
    /// Patterns of the canonical paths of libraries that may be loaded.
    pub(crate) allowed_providers: String,
}

impl Helper {
    /// Forks the helper. The descriptor `listener` is closed there, so that nobody connects to a
    /// socket without an agent.
    pub(crate) fn start(task: HelperTask, listener: OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = sys::socket::seqpacket_pair()?;
        if sys::process::fork()?.is_some() {
            drop(theirs);
            sys::io::set_nonblocking(&ours, true)?;
            return Ok((Self { socket: ours }, listener));
        }
        drop((ours, listener));
        serve(theirs, &task.allowed_providers);
        if let Some(socket) = task.socket {
            socket.remove();
        }
        std::process::exit(0)
    }

    /// Readable when a question is answered or the helper has gone.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Asks a question: of the user, or about the library with this path.
    pub(crate) fn ask(
        &self,
        place: AnswerPlace,
        kind: HelperTaskKind,
        question: &str,
    ) -> io::Result<()> {
        let mut message = Vec::with_capacity(PLACE_BYTES + question.len());
        message.push(kind.number());
        message.extend_from_slice(&place.connection.to_be_bytes());
        message.extend_from_slice(&place.request.to_be_bytes());
        message.extend_from_slice(question.as_bytes());
        if message.len() > MAX_QUESTION_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sys::socket::local::send_with_fds(&self.socket, &message, &[]).map(|_| ())
    }

    /// The next answer. `None` if there is none now.
    ///
    /// # Errors
    /// `UnexpectedEof` if the helper has gone.
    pub(crate) fn answer(&self) -> io::Result<Option<HelperAnswer>> {
        let mut message = [0; MAX_ANSWER_BYTES];
        let mut received = match sys::socket::recv_with_fds(&self.socket, &mut message, 1) {
            Ok(received) if received.len == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let whole = message.get(..received.len).unwrap_or_default();
        Ok(read_place(whole).map(|(is_yes, place, text)| HelperAnswer {
            place,
            is_yes: is_yes == 1,
            text: String::from_utf8_lossy(text).into_owned(),
            socket: received.fds.pop(),
        }))
    }

    /// Lets the helper remove the socket, and waits until it has.
    pub(crate) fn finish(self) {
        let _ = sys::socket::shutdown(&self.socket, sys::socket::ShutdownDirection::Write);
        let _ = sys::io::set_nonblocking(&self.socket, false);
        let mut rest = [0; PLACE_BYTES];
        while matches!(sys::io::read(&self.socket, &mut rest), Ok(1..)) {}
    }
}

/// The kind or decision, the place, and the rest of a message.
fn read_place(message: &[u8]) -> Option<(u8, AnswerPlace, &[u8])> {
    let (first, rest) = message.split_first()?;
    let (connection, rest) = rest.split_first_chunk()?;
    let (request, rest) = rest.split_first_chunk()?;
    let place = AnswerPlace {
        connection: u64::from_be_bytes(*connection),
        request: u64::from_be_bytes(*request),
    };
    Some((*first, place, rest))
}

/// Answers questions until the agent has gone.
fn serve(socket: OwnedFd, allowed_providers: &str) {
    // The terminal's signals are for the agent, whose end the helper waits for.
    let _ = sys::signals::block(&[Signal::INT, Signal::HUP, Signal::TERM, Signal::QUIT]);
    let socket = Arc::new(socket);
    let allowed: Arc<str> = allowed_providers.into();
    let mut message = vec![0; MAX_QUESTION_BYTES];
    sys::memory::CodePages::find().give_back();
    loop {
        let length = match sys::io::read(&*socket, &mut message) {
            Ok(0) | Err(_) => return,
            Ok(length) => length,
        };
        let Some((kind, place, question)) = message.get(..length).and_then(read_place) else {
            return;
        };
        let question = String::from_utf8_lossy(question).into_owned();
        let (answers, allowed) = (Arc::clone(&socket), Arc::clone(&allowed));
        let kinds = HelperTaskKind::ALL;
        let kind = kinds.into_iter().find(|known| known.number() == kind);
        let asking = std::thread::Builder::new().spawn(move || match kind {
            Some(HelperTaskKind::Confirm) => {
                answer(&answers, place, askpass::confirms(&question), "", None);
            }
            Some(kind) => reach_token(&answers, place, kind, &question, &allowed),
            None => answer(&answers, place, false, "", None),
        });
        if asking.is_err() {
            answer(&socket, place, false, "cannot start a thread", None);
        }
    }
}

/// Resolves the path of a library, and starts its helper if that is wanted and permitted. Waits for the
/// helper's end, so that it leaves no process.
fn reach_token(
    socket: &OwnedFd,
    place: AnswerPlace,
    kind: HelperTaskKind,
    provider: &str,
    allowed: &str,
) {
    let path = match std::fs::canonicalize(provider) {
        Ok(path) => path,
        Err(error) => {
            let reason = error.to_string();
            return answer(socket, place, false, &escape::system_words(&reason), None);
        }
    };
    let Some(text) = path.to_str() else {
        return answer(socket, place, false, "its path is not text", None);
    };
    if kind == HelperTaskKind::ResolveToken {
        return answer(socket, place, true, text, None);
    }
    let patterns = allowed.split(',');
    if !is_permitted(text, patterns) {
        let reason = "the option -P does not permit its path";
        return answer(socket, place, false, reason, None);
    }
    match token::start(&path, false) {
        Ok((mut child, ours)) => {
            answer(socket, place, true, text, Some(ours));
            let _ = child.wait();
        }
        Err(error) => answer(socket, place, false, &error.to_string(), None),
    }
}

/// Whether one of the patterns permits the path and none with `!` denies it.
fn is_permitted<'a>(path: &str, patterns: impl Iterator<Item = &'a str>) -> bool {
    let mut is_permitted = false;
    for pattern in patterns {
        match pattern.strip_prefix('!') {
            Some(denied) if keys::pattern::matches(path.as_bytes(), denied.as_bytes()) => {
                return false;
            }
            Some(_) => {}
            None => is_permitted |= keys::pattern::matches(path.as_bytes(), pattern.as_bytes()),
        }
    }
    is_permitted
}

fn answer(socket: &OwnedFd, place: AnswerPlace, is_yes: bool, text: &str, token: Option<OwnedFd>) {
    let mut message = Vec::with_capacity(PLACE_BYTES + text.len());
    message.push(u8::from(is_yes));
    message.extend_from_slice(&place.connection.to_be_bytes());
    message.extend_from_slice(&place.request.to_be_bytes());
    let room = MAX_ANSWER_BYTES - PLACE_BYTES;
    message.extend_from_slice(
        text.as_bytes()
            .get(..room.min(text.len()))
            .unwrap_or_default(),
    );
    let sockets: Vec<BorrowedFd<'_>> = token.as_ref().map(AsFd::as_fd).into_iter().collect();
    let _ = sys::socket::local::send_with_fds(socket, &message, &sockets);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_permitted_by_its_canonical_path() {
        let allowed = |path, patterns: &str| is_permitted(path, patterns.split(','));
        let default = "/usr/lib*/*,/usr/local/lib*/*";
        assert!(allowed(
            "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
            default
        ));
        assert!(allowed("/usr/lib64/pkcs11/x.so", default));
        assert!(allowed("/usr/local/lib/x.so", default));
        assert!(!allowed("/tmp/usr/lib/x.so", default));
        assert!(!allowed("/home/mia/x.so", default));
        assert!(!allowed("/usr/lib/x.so", "/usr/lib/*,!/usr/lib/x.so"));
        assert!(!allowed("/usr/lib/x.so", ""));
    }
}
