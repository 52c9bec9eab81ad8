//! The helper process: it starts askpass programs, which the agent itself cannot do in its sandbox,
//! and removes the agent's socket when the agent ends, however it ends.
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
/// Bytes of a place before the question.
const PLACE_BYTES: usize = 16;

/// The agent's end.
pub(crate) struct Helper {
    socket: OwnedFd,
}

/// What the helper keeps of the agent.
pub(crate) struct HelperTask {
    /// The socket to remove at the end.
    pub(crate) socket: Option<AgentSocket>,
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
        serve(theirs);
        if let Some(socket) = task.socket {
            socket.remove();
        }
        std::process::exit(0)
    }

    /// Readable when a question is answered or the helper has gone.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Asks a question.
    pub(crate) fn ask(&self, place: AnswerPlace, question: &str) -> io::Result<()> {
        let mut message = Vec::with_capacity(PLACE_BYTES + question.len());
        message.extend_from_slice(&place.connection.to_be_bytes());
        message.extend_from_slice(&place.request.to_be_bytes());
        message.extend_from_slice(question.as_bytes());
        if message.len() > MAX_QUESTION_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sys::socket::local::send_with_fds(&self.socket, &message, &[]).map(|_| ())
    }

    /// The next answer: true for yes. `None` if there is none now.
    ///
    /// # Errors
    /// `UnexpectedEof` if the helper has gone.
    pub(crate) fn answer(&self) -> io::Result<Option<(AnswerPlace, bool)>> {
        let mut message = [0; PLACE_BYTES + 1];
        match sys::io::read(&self.socket, &mut message) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(read_place(&message).map(|(place, rest)| (place, rest == [1]))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lets the helper remove the socket, and waits until it has.
    pub(crate) fn finish(self) {
        let _ = sys::socket::shutdown(&self.socket, sys::socket::ShutdownDirection::Write);
        let _ = sys::io::set_nonblocking(&self.socket, false);
        let mut rest = [0; PLACE_BYTES + 1];
        while matches!(sys::io::read(&self.socket, &mut rest), Ok(1..)) {}
    }
}

fn read_place(message: &[u8]) -> Option<(AnswerPlace, &[u8])> {
    let (connection, rest) = message.split_first_chunk()?;
    let (request, rest) = rest.split_first_chunk()?;
    let place = AnswerPlace {
        connection: u64::from_be_bytes(*connection),
        request: u64::from_be_bytes(*request),
    };
    Some((place, rest))
}

/// Answers questions until the agent has gone.
fn serve(socket: OwnedFd) {
    // The terminal's signals are for the agent, whose end the helper waits for.
    let _ = sys::signals::block(&[Signal::INT, Signal::HUP, Signal::TERM, Signal::QUIT]);
    let socket = Arc::new(socket);
    let mut message = vec![0; MAX_QUESTION_BYTES];
    sys::memory::CodePages::find().give_back();
    loop {
        let length = match sys::io::read(&*socket, &mut message) {
            Ok(0) | Err(_) => return,
            Ok(length) => length,
        };
        let Some((place, question)) = message.get(..length).and_then(read_place) else {
            return;
        };
        let question = String::from_utf8_lossy(question).into_owned();
        let answers = Arc::clone(&socket);
        let asking = std::thread::Builder::new()
            .spawn(move || answer(&answers, place, askpass::confirms(&question)));
        if asking.is_err() {
            answer(&socket, place, false);
        }
    }
}

fn answer(socket: &OwnedFd, place: AnswerPlace, is_yes: bool) {
    let mut message = Vec::with_capacity(PLACE_BYTES + 1);
    message.extend_from_slice(&place.connection.to_be_bytes());
    message.extend_from_slice(&place.request.to_be_bytes());
    message.push(u8::from(is_yes));
    let _ = sys::socket::local::send_with_fds(socket, &message, &[]);
}
