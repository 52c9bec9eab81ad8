//! The way to a helper that reaches the tokens of one library: requests go out, and replies come, as
//! the socket takes them, so that no token keeps the agent waiting.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use sys::epoll::Interest;
use token::message::{TokenReply, TokenRequest, whole_frame};
use zeroize::{Zeroize, Zeroizing};

use crate::requests::TokenAddition;
use crate::workers::AnswerPlace;

/// Bytes of requests that the helper has not read, above which no more are sent to it.
const MAX_UNREAD_BYTES: usize = 8 * 1024 * 1024;

/// Longest time until a library has told its keys, after which its process ends. A token of many keys
/// takes seconds; a library that waits for something that never comes would keep its place.
pub(crate) const ADDING_LIMIT_MS: u64 = 120_000;

/// What a reply is for.
pub(crate) enum TokenWait {
    /// The list of keys, which are added.
    Adding(AnswerPlace, Box<TokenAddition>),
    /// A signature, by the key with this blob.
    Signing(AnswerPlace, Vec<u8>),
}

impl TokenWait {
    pub(crate) fn place(&self) -> AnswerPlace {
        match self {
            Self::Adding(place, _) | Self::Signing(place, _) => *place,
        }
    }
}

/// The agent's end of a helper's socket.
pub(crate) struct TokenLink {
    socket: OwnedFd,
    /// The library's canonical path.
    pub(crate) provider: Arc<str>,
    pub(crate) interest: Interest,
    input: Vec<u8>,
    output: Zeroizing<Vec<u8>>,
    waiting: HashMap<u32, TokenWait>,
    next: u32,
    /// By when the library must have told its keys, by [`sys::time::boot_ms`].
    adding_until_ms: Option<u64>,
}

impl TokenLink {
    pub(crate) fn new(socket: OwnedFd, provider: &str) -> io::Result<Self> {
        sys::io::set_nonblocking(&socket, true)?;
        Ok(Self {
            socket,
            provider: provider.into(),
            interest: Interest::READABLE,
            input: Vec::new(),
            output: Zeroizing::default(),
            waiting: HashMap::new(),
            next: 0,
            adding_until_ms: None,
        })
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// When the time for the list of keys is over; `None` if no list is awaited.
    pub(crate) fn adding_until_ms(&self) -> Option<u64> {
        let is_adding = |wait: &TokenWait| matches!(wait, TokenWait::Adding(..));
        self.adding_until_ms
            .filter(|_| self.waiting.values().any(is_adding))
    }

    /// True if no request waits for a reply.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Sends a request, now or when the helper reads again.
    ///
    /// # Errors
    /// The purpose of the request, if the helper has too many unread ones.
    pub(crate) fn send(
        &mut self,
        request: &TokenRequest,
        wait: TokenWait,
    ) -> Result<(), TokenWait> {
        if self.output.len() > MAX_UNREAD_BYTES {
            return Err(wait);
        }
        self.next = self.next.wrapping_add(1);
        let frame = request.encode(self.next);
        let mut output = Zeroizing::new(Vec::with_capacity(self.output.len() + frame.len()));
        output.extend_from_slice(&self.output);
        output.extend_from_slice(&frame);
        self.output = output;
        if matches!(wait, TokenWait::Adding(..)) {
            self.adding_until_ms = Some(sys::time::boot_ms().saturating_add(ADDING_LIMIT_MS));
        }
        self.waiting.insert(self.next, wait);
        Ok(())
    }

    /// Writes what waits, as far as the helper reads.
    ///
    /// # Errors
    /// The helper has gone.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match sys::socket::send_now(&self.socket, &self.output) {
                Ok(count) => {
                    let rest = self.output.get(count..).unwrap_or_default();
                    self.output = Zeroizing::new(rest.to_vec());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What to wait for.
    pub(crate) fn wanted(&self) -> Interest {
        Interest::when(true, !self.output.is_empty())
    }

    /// Reads once, by way of `buffer`, and returns the replies that are whole.
    ///
    /// # Errors
    /// The helper has gone, or sends what is no reply.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
    ) -> io::Result<Vec<(TokenWait, TokenReply)>> {
        match sys::io::read(&self.socket, buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                let received = buffer.get_mut(..count).unwrap_or_default();
                self.input.extend_from_slice(received);
                received.zeroize();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        let mut replies = Vec::new();
        while let Some(body) = whole_frame(&self.input).map_err(io::Error::other)? {
            let length = body.len() + 4;
            let (number, reply) = TokenReply::decode(body).map_err(io::Error::other)?;
            let wait = self.waiting.remove(&number);
            replies.push((wait.ok_or(io::ErrorKind::InvalidData)?, reply));
            self.input.drain(..length);
        }
        Ok(replies)
    }

    /// Ends the link; the helper ends too. Returns the requests that get no reply.
    pub(crate) fn end(self) -> Vec<TokenWait> {
        self.waiting.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_list_of_keys_has_a_limit_of_time() {
        let (socket, theirs) = sys::socket::stream_pair().unwrap();
        let mut link = TokenLink::new(socket, "/usr/lib/x.so").unwrap();
        let place = AnswerPlace {
            connection: 16,
            request: 0,
        };
        let sign = TokenRequest::Login {
            token: 0,
            pin: None,
        };
        let signing = TokenWait::Signing(place, Vec::new());
        assert!(link.send(&sign, signing).is_ok());
        assert_eq!(link.adding_until_ms(), None);
        let addition = TokenAddition {
            provider: "/usr/lib/x.so".to_owned(),
            pin: Zeroizing::default(),
            constraints: agent::Constraints::default(),
        };
        let before = sys::time::boot_ms();
        let open = TokenRequest::Open { pin: None };
        let adding = TokenWait::Adding(place, Box::new(addition));
        assert!(link.send(&open, adding).is_ok());
        let until = link.adding_until_ms().unwrap();
        assert!(until >= before + ADDING_LIMIT_MS);
        // The library has told its keys.
        let reply = TokenReply::Opened(token::message::TokenList::default()).encode(2);
        sys::io::write_all(&theirs, &reply).unwrap();
        assert_eq!(link.receive(&mut [0; 256]).unwrap().len(), 1);
        assert_eq!(link.adding_until_ms(), None);
    }
}
