//! One client: its unfinished request, and its answers in the order of its requests.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use agent::message::MAX_MESSAGE_BYTES;
use sys::epoll::Interest;
use zeroize::Zeroize;

use crate::bindings::Bindings;

/// Largest number of requests without an answer; then the agent stops reading.
const MAX_UNANSWERED: usize = 128;
/// Bytes of unread answers above which the agent stops reading.
const MAX_UNREAD_BYTES: usize = 512 * 1024;

/// A connection.
pub(crate) struct ClientConnection {
    pub(crate) socket: OwnedFd,
    pub(crate) bindings: Bindings,
    /// The events that the event loop waits for.
    pub(crate) interest: Interest,
    /// Received bytes that were not handled yet.
    input: Vec<u8>,
    /// Handled bytes at the start of `input`.
    handled: usize,
    /// Answers from number `first_answer` on; `None` while one is being made.
    answers: VecDeque<Option<Vec<u8>>>,
    first_answer: u64,
    output: Vec<u8>,
    written: usize,
    /// Signatures that threads make for this client.
    pub(crate) in_work: usize,
    /// Questions to the user that this client has caused.
    pub(crate) in_question: usize,
    /// True while a whole request waits for the client's next turn.
    pub(crate) is_queued: bool,
    has_ended: bool,
}

/// The length of a request is not permitted, so that its end is unknown.
pub(crate) struct BadLength;

impl ClientConnection {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            bindings: Bindings::default(),
            interest: Interest::READABLE,
            input: Vec::new(),
            handled: 0,
            answers: VecDeque::new(),
            first_answer: 0,
            output: Vec::new(),
            written: 0,
            in_work: 0,
            in_question: 0,
            is_queued: false,
            has_ended: false,
        }
    }

    /// Reads once, by way of `buffer`, which is wiped. Returns false if there is nothing to read now.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        match sys::io::read(&self.socket, buffer) {
            Ok(0) => {
                self.has_ended = true;
                Ok(true)
            }
            Ok(count) => {
                let received = buffer.get_mut(..count).unwrap_or_default();
                self.grow(received.len());
                self.input.extend_from_slice(received);
                received.zeroize();
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes room in `input` without leaving requests in freed memory.
    fn grow(&mut self, bytes: usize) {
        if self.handled > 0 {
            self.input.copy_within(self.handled.., 0);
            let rest = self.input.len() - self.handled;
            if let Some(handled) = self.input.get_mut(rest..) {
                handled.zeroize();
            }
            self.input.truncate(rest);
            self.handled = 0;
        }
        if self.input.capacity() - self.input.len() < bytes {
            let mut wider = Vec::with_capacity((self.input.len() + bytes).next_power_of_two());
            wider.extend_from_slice(&self.input);
            self.input.zeroize();
            self.input = wider;
        }
    }

    /// Bytes of memory that unfinished requests take.
    pub(crate) fn input_bytes(&self) -> usize {
        self.input.capacity()
    }

    /// Takes the next whole request, if there is one and the client may have it handled now: the
    /// number of its answer and its place in [`Self::request`].
    pub(crate) fn next_request(&mut self) -> Result<Option<u64>, BadLength> {
        if !self.may_go_on() || self.whole_request()?.is_none() {
            return Ok(None);
        }
        let number = self.first_answer + u64::try_from(self.answers.len()).unwrap_or(0);
        self.answers.push_back(None);
        Ok(Some(number))
    }

    /// The length of the next request if all of it has arrived.
    fn whole_request(&self) -> Result<Option<usize>, BadLength> {
        let rest = self.input.get(self.handled..).unwrap_or_default();
        let Some((length, body)) = rest.split_first_chunk() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*length))
            .ok()
            .filter(|length| (1..=MAX_MESSAGE_BYTES).contains(length))
            .ok_or(BadLength)?;
        Ok((body.len() >= length).then_some(length))
    }

    /// True if a whole request waits and may be handled now.
    pub(crate) fn is_runnable(&self) -> bool {
        self.may_go_on() && matches!(self.whole_request(), Ok(Some(_)) | Err(BadLength))
    }

    /// The request that [`Self::next_request`] took, without its length, and the bindings.
    pub(crate) fn request(&mut self) -> (&mut Bindings, &[u8]) {
        let length = self.whole_request().ok().flatten().unwrap_or(0);
        let start = self.handled + 4;
        let body = self.input.get(start..start + length).unwrap_or_default();
        (&mut self.bindings, body)
    }

    /// Forgets the request that was taken.
    pub(crate) fn request_is_handled(&mut self) {
        let length = self.whole_request().ok().flatten().unwrap_or(0);
        let end = self.handled + 4 + length;
        if let Some(request) = self.input.get_mut(self.handled..end) {
            request.zeroize();
        }
        self.handled = end;
        if self.handled >= self.input.len() {
            self.handled = 0;
            self.input.clear();
            // A client that waits keeps no buffer.
            if self.input.capacity() > 0 && self.answers.len() <= 1 {
                self.input = Vec::new();
            }
        }
    }

    /// Sets an answer.
    pub(crate) fn answer(&mut self, number: u64, answer: Vec<u8>) {
        let index = number.checked_sub(self.first_answer);
        let slot = index.and_then(|index| self.answers.get_mut(usize::try_from(index).ok()?));
        if let Some(slot) = slot {
            *slot = Some(answer);
        }
        while let Some(Some(ready)) = self.answers.front_mut() {
            if self.output.is_empty() {
                self.output = std::mem::take(ready);
            } else {
                self.output.extend_from_slice(ready);
            }
            self.answers.pop_front();
            self.first_answer += 1;
        }
    }

    /// Writes answers as far as the client takes them.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        while let Some(rest) = self
            .output
            .get(self.written..)
            .filter(|rest| !rest.is_empty())
        {
            match sys::socket::send_now(&self.socket, rest) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.output = Vec::new();
        self.written = 0;
        Ok(())
    }

    fn may_go_on(&self) -> bool {
        self.answers.len() < MAX_UNANSWERED && self.unread() < MAX_UNREAD_BYTES
    }

    fn unread(&self) -> usize {
        self.output.len() - self.written
    }

    /// The events to wait for. Nothing is read while a whole request waits.
    pub(crate) fn wanted(&self) -> Interest {
        let reads = !self.has_ended && self.may_go_on() && matches!(self.whole_request(), Ok(None));
        Interest::when(reads, self.unread() > 0)
    }

    /// True if the client sends no more, and all its answers are written.
    pub(crate) fn is_done(&self) -> bool {
        self.has_ended && self.answers.is_empty() && self.unread() == 0 && !self.is_runnable()
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.input.zeroize();
    }
}
