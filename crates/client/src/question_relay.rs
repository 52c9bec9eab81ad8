//! Questions of jumps: a program with many connections asks them itself, so that the processes of its
//! jumps do not ask all at once.
//!
//! The program listens on an abstract Unix socket whose name the processes below it get in
//! [`VARIABLE`]. Each question is a connection: a byte for its kind, the text that leads to it, its
//! prompt, and the login that it belongs to; the answer is a byte for whether there is one, and the
//! answer. Texts have a length of four bytes before them. Both ends check that the other belongs to the same user. A process that cannot
//! reach the program asks itself.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use zeroize::Zeroizing;

use crate::interaction::Question;

/// The environment variable with the socket's name.
pub(crate) const VARIABLE: &str = "FULMAR_QUESTIONS";
/// Longest text of a question or an answer, bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// How long the other end may take to send its question or to take its answer.
const TRANSFER_LIMIT: Duration = Duration::from_secs(5);

/// Maximum questions that wait for their answer, each with a descriptor. Each jump asks one at a time.
const MAX_WAITING: usize = 1024;

/// The name at which this process listens.
static NAME: OnceLock<String> = OnceLock::new();

/// The name for the environment of a process that this one starts, if it relays questions.
pub(crate) fn name() -> Option<&'static str> {
    NAME.get().map(String::as_str)
}

/// Receives the questions of processes that this one starts from now on.
#[derive(Debug)]
pub struct QuestionRelay {
    listener: UnixListener,
}

/// A question of another process, which waits for the answer.
#[derive(Debug)]
pub struct RelayedQuestion {
    stream: UnixStream,
    /// Process that asks.
    pub process: u32,
    /// Lines for the user that lead to the question, escaped already.
    pub leading: String,
    /// The prompt, escaped already. A server may have put newlines into it.
    pub prompt: String,
    /// The login that it belongs to, `user@host:port` by the process's configuration and escaped already;
    /// empty if there is none. Prompts have no port.
    pub login: String,
    /// The kind of the question.
    pub question: Question,
}

impl QuestionRelay {
    /// Listens. A process has one relay.
    ///
    /// # Errors
    /// The system's.
    pub fn listen() -> io::Result<Self> {
        let random = crypto::random::bytes::<16>();
        let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("fulmar-questions-{random}");
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        NAME.set(name)
            .map_err(|_| io::Error::from(io::ErrorKind::AlreadyExists))?;
        Ok(Self { listener })
    }

    /// Receives questions on a thread of its own, which takes no signal that the caller has blocked. The
    /// socket's name is no secret: a connection of another user is accepted and dropped at once, also
    /// while a question is on the screen, so that none fills the queue in which jumps wait. The thread
    /// ends with the process.
    ///
    /// # Errors
    /// The system's, if there can be no thread.
    pub fn receive(self) -> io::Result<Receiver<RelayedQuestion>> {
        let (sender, questions) = sync_channel(MAX_WAITING);
        let work = move || {
            while let Ok(question) = self.next() {
                if sender.send(question).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("questions".to_owned())
            .spawn(work)?;
        Ok(questions)
    }

    /// Waits for the next question. One that is not well formed, or another user's, is dropped.
    ///
    /// # Errors
    /// The system's, if nothing can be received any more.
    fn next(&self) -> io::Result<RelayedQuestion> {
        loop {
            let (stream, _) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if sys::io::is_out_of_descriptors(&error) => {
                    std::thread::sleep(TRANSFER_LIMIT / 50);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if let Ok(question) = RelayedQuestion::read(stream) {
                return Ok(question);
            }
        }
    }
}

impl RelayedQuestion {
    fn read(mut stream: UnixStream) -> io::Result<Self> {
        let process = own_peer(&stream)?;
        stream.set_read_timeout(Some(TRANSFER_LIMIT))?;
        stream.set_write_timeout(Some(TRANSFER_LIMIT))?;
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        let question = match kind {
            [0] => Question::Secret,
            [1] => Question::Line,
            [2] => Question::Confirm,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let mut text = || {
            let bytes = read_text(&mut stream)?;
            Ok::<_, io::Error>(String::from_utf8_lossy(&bytes).into_owned())
        };
        let (leading, prompt, login) = (text()?, text()?, text()?);
        Ok(Self {
            stream,
            process,
            leading,
            prompt,
            login,
            question,
        })
    }

    /// Returns a function that says whether the process has given up.
    ///
    /// # Errors
    /// The system's, if there is no descriptor.
    pub fn is_given_up(&self) -> io::Result<impl Fn() -> bool + 'static> {
        let stream = self.stream.try_clone()?;
        Ok(move || sys::socket::peer_has_ended(&stream).unwrap_or(true))
    }

    /// Gives the answer; `None` if there is none.
    pub fn answer(mut self, answer: Option<&[u8]>) {
        // A process that has ended needs no answer.
        let _ = write_texts(
            &mut self.stream,
            u8::from(answer.is_some()),
            &[answer.unwrap_or_default()],
        );
    }
}

/// Asks the program above this process for `login`. `None` if there is none, and this process asks
/// itself.
pub(crate) fn ask(
    leading: &str,
    prompt: &str,
    login: &str,
    question: Question,
) -> Option<Option<Zeroizing<Vec<u8>>>> {
    let name = std::env::var(VARIABLE).ok()?;
    let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()?;
    own_peer(&stream).ok()?;
    let kind = match question {
        Question::Secret => 0,
        Question::Line => 1,
        Question::Confirm => 2,
    };
    let texts = [leading, prompt, login].map(str::as_bytes);
    write_texts(&mut stream, kind, &texts).ok()?;
    Some(read_answer(&mut stream).ok().flatten())
}

/// True if the program above this process asks its questions.
pub(crate) fn is_offered() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|name| !name.is_empty())
}

fn read_answer(stream: &mut UnixStream) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let mut has_answer = [0];
    stream.read_exact(&mut has_answer)?;
    let answer = read_text(stream)?;
    Ok((has_answer == [1]).then_some(answer))
}

/// The other end's process, if it is this user's.
fn own_peer(stream: &UnixStream) -> io::Result<u32> {
    let peer = sys::socket::peer_credentials(stream)?;
    if peer.uid != sys::process::effective_uid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(u32::try_from(peer.pid).unwrap_or_default())
}

fn write_texts(stream: &mut UnixStream, first: u8, texts: &[&[u8]]) -> io::Result<()> {
    let cut = |text: &'_ &[u8]| text.len().min(MAX_TEXT_BYTES);
    let room = texts.iter().map(|text| 4 + cut(text)).sum::<usize>();
    let mut message = Zeroizing::new(Vec::with_capacity(1 + room));
    message.push(first);
    for text in texts {
        let length = cut(text);
        message.extend_from_slice(&u32::try_from(length).unwrap_or_default().to_be_bytes());
        message.extend_from_slice(text.get(..length).unwrap_or_default());
    }
    stream.write_all(&message)
}

fn read_text(stream: &mut UnixStream) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > MAX_TEXT_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = Zeroizing::new(vec![0; length]);
    stream.read_exact(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_answered_and_nonsense_is_dropped() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let asking = std::thread::spawn(move || {
            let mut theirs = theirs;
            let texts = [&b"Denied.\n"[..], b"bob@jump's password: ", b"bob@jump:22"];
            write_texts(&mut theirs, 0, &texts).unwrap();
            read_answer(&mut theirs).unwrap()
        });
        let question = RelayedQuestion::read(ours).unwrap();
        assert_eq!(question.leading, "Denied.\n");
        assert_eq!(question.prompt, "bob@jump's password: ");
        assert_eq!(question.login, "bob@jump:22");
        assert_eq!(question.question, Question::Secret);
        assert_eq!(question.process, std::process::id());
        assert!(!question.is_given_up().unwrap()());
        question.answer(Some(b"secret"));
        assert_eq!(asking.join().unwrap().unwrap().as_slice(), b"secret");

        for nonsense in [
            &[3, 0, 0, 0, 0, 0, 0, 0, 0][..],
            &[0, 255, 255, 255, 255],
            &[0, 0],
            &[0, 0, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(nonsense).unwrap();
            drop(theirs);
            assert!(RelayedQuestion::read(ours).is_err(), "{nonsense:?}");
        }
    }

    /// More than the queue of the socket holds (net.core.somaxconn, 4,096 by default).
    #[test]
    fn connections_without_a_question_keep_none_waiting_while_one_is_on_the_screen() {
        fn connected() -> UnixStream {
            let name = SocketAddr::from_abstract_name(name().unwrap()).unwrap();
            UnixStream::connect_addr(&name).unwrap()
        }
        fn asked(prompt: &[u8]) -> UnixStream {
            let mut stream = connected();
            write_texts(&mut stream, 1, &[b"", prompt, b""]).unwrap();
            stream
        }
        let questions = QuestionRelay::listen().unwrap().receive().unwrap();
        let next = || questions.recv_timeout(Duration::from_secs(60)).unwrap();
        let _first = asked(b"first? ");
        let _on_screen = next();
        let others = std::thread::spawn(move || {
            for _ in 0..6000 {
                drop(connected());
            }
            asked(b"second? ")
        });
        assert_eq!(next().prompt, "second? ");
        drop(others.join().unwrap());
    }

    #[test]
    fn a_process_that_ends_has_given_up() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        write_texts(&mut theirs, 2, &[b"", b"yes? ", b""]).unwrap();
        let question = RelayedQuestion::read(ours).unwrap();
        let is_given_up = question.is_given_up().unwrap();
        assert!(!is_given_up());
        drop(theirs);
        assert!(is_given_up());
    }
}
