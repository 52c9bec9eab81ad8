//! The monitor's end of the RPC: one request at a time, with a deadline. Each request is checked
//! against the permits before its body is read.
//!
//! Invariants: a request that the phase does not permit ends the connection ([`RpcEnd::Violation`])
//! at its header, before its body is buffered; log lines are bounded in length and rate; no wait
//! exceeds the deadline.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use privsep::LogLevel;
use privsep::{
    Frame, FrameError, FrameSplitter, Log as LogMessage, LoginPhase, Message, ToMonitor, permitted,
};
use zeroize::{Zeroize, Zeroizing};

use sys::memory::REST;

use super::rate::Rate;
use crate::log::Log;

/// Why the channel to the unprivileged process has ended.
#[derive(Debug)]
pub(crate) enum RpcEnd {
    /// The process closed its end.
    Closed,
    /// The deadline has passed.
    Deadline,
    /// The process broke a rule; the text names it.
    Violation(String),
    /// The socket failed.
    Io(io::Error),
}

impl std::fmt::Display for RpcEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("connection to the unprivileged process closed"),
            Self::Deadline => f.write_str("deadline passed"),
            Self::Violation(what) => write!(f, "unprivileged process broke a rule: {what}"),
            Self::Io(error) => write!(f, "connection to the unprivileged process: {error}"),
        }
    }
}

impl std::error::Error for RpcEnd {}

impl From<io::Error> for RpcEnd {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

/// Rate limit of log lines: burst, and milliseconds until one more is permitted.
const LOG_BURST: u64 = 200;
const LOG_REFILL_MS: u64 = 50;
/// Most deferred log lines; a process that behaves sends at most two.
const MAX_LAST_WORDS: usize = 4;

/// The socket to an unprivileged process, with the phase that decides which requests are permitted.
pub(crate) struct RpcChannel<'log> {
    socket: OwnedFd,
    splitter: FrameSplitter,
    phase: LoginPhase,
    /// Monotonic milliseconds.
    deadline_ms: Option<u64>,
    /// A request that was put back by [`RpcChannel::set_aside`].
    set_aside: Option<Frame>,
    /// Replies that are sent together with the next one, or before the next wait.
    held: Zeroizing<Vec<u8>>,
    log: &'log Log,
    /// Suffix of each log line from the process.
    log_suffix: &'static str,
    log_rate: Rate,
    /// Deferred log lines: the user's name is inserted between the line and the second text.
    last_words: Vec<(LogMessage, String)>,
    /// No request has arrived for [`REST`], and memory was returned.
    rests: bool,
}

impl<'log> RpcChannel<'log> {
    pub(crate) fn new(
        socket: OwnedFd,
        phase: LoginPhase,
        log: &'log Log,
        log_suffix: &'static str,
    ) -> io::Result<Self> {
        sys::io::set_nonblocking(&socket, true)?;
        Ok(Self {
            socket,
            splitter: FrameSplitter::new(),
            phase,
            deadline_ms: None,
            set_aside: None,
            held: Zeroizing::default(),
            log,
            log_suffix,
            log_rate: Rate::new(LOG_BURST, LOG_REFILL_MS, sys::time::monotonic_ms()),
            last_words: Vec::new(),
            rests: false,
        })
    }

    /// Sets the time, in monotonic milliseconds, after which a wait fails with
    /// [`RpcEnd::Deadline`]; `None` for no limit.
    pub(crate) fn set_deadline_ms(&mut self, at_ms: Option<u64>) {
        self.deadline_ms = at_ms;
    }

    #[cfg(test)]
    pub(crate) fn phase(&self) -> LoginPhase {
        self.phase
    }

    pub(crate) fn set_phase(&mut self, phase: LoginPhase) {
        self.phase = phase;
    }

    /// Puts a request back; the next [`request`](Self::request) returns it.
    pub(crate) fn set_aside(&mut self, frame: Frame) {
        self.set_aside = Some(frame);
    }

    /// Waits for the next request other than a log line.
    pub(crate) fn request(&mut self) -> Result<ToMonitor, RpcEnd> {
        let frame = self.frame()?;
        decode(&frame)
    }

    /// As [`request`](Self::request), but without decoding.
    pub(crate) fn frame(&mut self) -> Result<Frame, RpcEnd> {
        loop {
            if let Some(frame) = self.poll_frame()? {
                return Ok(frame);
            }
            self.wait()?;
        }
    }

    /// Returns the next request other than a log line, if one has arrived.
    pub(crate) fn poll_frame(&mut self) -> Result<Option<Frame>, RpcEnd> {
        loop {
            let frame = match self.set_aside.take() {
                Some(frame) => frame,
                None => match self.read_frame()? {
                    Some(frame) => frame,
                    None => return Ok(None),
                },
            };
            if !permitted(self.phase, frame.number) {
                return Err(self.violation(frame.number));
            }
            if frame.number != LogMessage::NUMBER {
                return Ok(Some(frame));
            }
            self.write_log(&frame)?;
        }
    }

    /// Sends a reply.
    pub(crate) fn send<M: Message>(&mut self, message: &M) -> Result<(), RpcEnd> {
        let frame = Zeroizing::new(message.encode_frame());
        self.send_bytes(&frame)
    }

    /// Holds a reply back until the next reply or the next wait, so that a process that expects
    /// both is woken once.
    pub(crate) fn send_with_next<M: Message>(&mut self, message: &M) {
        let mut frame = Zeroizing::new(message.encode_frame());
        self.held.append(&mut frame);
    }

    /// Sends encoded bytes after any replies held back.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), RpcEnd> {
        if self.held.is_empty() {
            return self.write(bytes);
        }
        let mut all = core::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        self.write(&all)
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), RpcEnd> {
        while !bytes.is_empty() {
            match sys::io::write(&self.socket, bytes) {
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !sys::io::wait_writable(&self.socket, self.time_left()?)? {
                        return Err(RpcEnd::Deadline);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Sends a reply; the descriptors accompany its first byte.
    pub(crate) fn send_with_fds<M: Message>(
        &mut self,
        message: &M,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), RpcEnd> {
        self.send_bytes(&[])?;
        let frame = message.encode_frame();
        loop {
            match sys::socket::send_with_fds(&self.socket, &frame, descriptors) {
                Ok(count) => return self.send_bytes(frame.get(count..).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !sys::io::wait_writable(&self.socket, self.time_left()?)? {
                        return Err(RpcEnd::Deadline);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn violation(&self, number: u8) -> RpcEnd {
        let name = privsep::message::info(number).map_or("unknown message", |info| info.name);
        RpcEnd::Violation(format!(
            "{name} ({number}) is not permitted in phase {:?}",
            self.phase
        ))
    }

    fn write_log(&mut self, frame: &Frame) -> Result<(), RpcEnd> {
        let mut line: LogMessage = frame
            .decode()
            .map_err(|error| RpcEnd::Violation(error.to_string()))?;
        if !self.log_rate.take(1, sys::time::monotonic_ms()) {
            return Ok(());
        }
        match line.tail.take() {
            None => {
                let (level, is_forced) = (line.level, line.is_forced);
                self.log
                    .relay(level, is_forced, &line.text, self.log_suffix);
            }
            Some(tail) if self.last_words.len() < MAX_LAST_WORDS => {
                // Truncated now to the length that is written: a frame may hold megabytes.
                line.text = privsep::log_text(&line.text);
                self.last_words.push((line, privsep::log_text(&tail)));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Logs a line with the suffix of the process's lines.
    #[track_caller]
    pub(crate) fn log_for(&self, level: LogLevel, text: &str) {
        self.log.marked(level, text, self.log_suffix);
    }

    /// Logs the deferred lines with `who` inserted in each.
    pub(crate) fn write_last_words(&mut self, who: &str) {
        for (line, tail) in core::mem::take(&mut self.last_words) {
            let text = format!("{}{who}{tail}", line.text);
            self.log
                .relay(line.level, line.is_forced, &text, self.log_suffix);
        }
    }

    /// Never inlined: its buffer would otherwise stay on the stack during every wait of a session.
    #[inline(never)]
    fn read_frame(&mut self) -> Result<Option<Frame>, RpcEnd> {
        let mut chunk = [0_u8; 4096];
        loop {
            let phase = self.phase;
            match self
                .splitter
                .next_permitted(|number| permitted(phase, number))
            {
                Ok(Some(frame)) => return Ok(Some(frame)),
                Ok(None) => {}
                Err(FrameError::NotPermitted(number)) => return Err(self.violation(number)),
                Err(error) => return Err(RpcEnd::Violation(error.to_string())),
            }
            match sys::io::read(&self.socket, &mut chunk[..]) {
                Ok(0) => return Err(RpcEnd::Closed),
                Ok(count) => {
                    // Zeroes only the bytes read: zeroing the whole buffer takes longer than most
                    // requests.
                    let came = chunk.get_mut(..count).unwrap_or_default();
                    self.splitter.feed(came);
                    came.zeroize();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The time until the deadline; `None` without one.
    ///
    /// # Errors
    /// [`RpcEnd::Deadline`] if it has passed.
    pub(crate) fn time_left(&self) -> Result<Option<Duration>, RpcEnd> {
        let Some(at_ms) = self.deadline_ms else {
            return Ok(None);
        };
        let left_ms = at_ms.saturating_sub(sys::time::monotonic_ms());
        if left_ms == 0 {
            return Err(RpcEnd::Deadline);
        }
        Ok(Some(Duration::from_millis(left_ms)))
    }

    fn wait(&mut self) -> Result<(), RpcEnd> {
        self.send_bytes(&[])?;
        let left = self.time_left()?;
        if !self.rests && left.is_none_or(|left| left > REST) {
            if sys::io::wait_readable(&self.socket, Some(REST))? {
                return Ok(());
            }
            // A session may last for days with few requests, and a client may send nothing at all.
            sys::memory::rest();
            self.rests = true;
        }
        if sys::io::wait_readable(&self.socket, self.time_left()?)? {
            self.rests = false;
            Ok(())
        } else {
            Err(RpcEnd::Deadline)
        }
    }
}

/// Decodes the request in a frame.
pub(crate) fn decode(frame: &Frame) -> Result<ToMonitor, RpcEnd> {
    ToMonitor::decode(frame).map_err(|error| RpcEnd::Violation(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use privsep::{AuthNone, AuthPassword, MESSAGES, Secret};

    use super::*;

    fn pair(log: &Log, phase: LoginPhase) -> (RpcChannel<'_>, OwnedFd) {
        let (ours, theirs) = sys::socket::stream_pair().unwrap();
        (
            RpcChannel::new(ours, phase, log, " [preauth]").unwrap(),
            theirs,
        )
    }

    #[test]
    fn every_request_that_is_not_permitted_ends_the_session() {
        let log = Log::to_memory(LogLevel::Debug3);
        for phase in LoginPhase::ALL {
            for number in 0..=255 {
                let (mut channel, peer) = pair(&log, phase);
                // No body: the permit must decide before the content is read.
                sys::io::write_all(&peer, &privsep::frame::frame(number, &[])).unwrap();
                let got = channel.poll_frame();
                if permitted(phase, number) && number != LogMessage::NUMBER {
                    assert_eq!(got.unwrap().unwrap().number, number);
                } else {
                    assert!(
                        matches!(got, Err(RpcEnd::Violation(_))),
                        "{phase:?} {number}"
                    );
                }
            }
        }
        assert!(MESSAGES.len() > 20);
    }

    #[test]
    fn a_request_that_is_not_permitted_is_refused_by_its_header_alone() {
        let log = Log::to_memory(LogLevel::Debug3);
        for phase in LoginPhase::ALL {
            for number in 0..=255 {
                let (mut channel, peer) = pair(&log, phase);
                // The header states a mebibyte, and no body follows.
                let mut header = vec![0, 0x10, 0, 0, number];
                sys::io::write_all(&peer, &header).unwrap();
                let got = channel.poll_frame();
                if permitted(phase, number) {
                    assert!(matches!(got, Ok(None)), "{phase:?} {number}");
                } else {
                    assert!(
                        matches!(got, Err(RpcEnd::Violation(_))),
                        "{phase:?} {number}"
                    );
                }
                // A bad length does not take precedence: the error names the message.
                header.splice(..4, [0xff; 4]);
                let (mut channel, peer) = pair(&log, phase);
                sys::io::write_all(&peer, &header).unwrap();
                let Err(RpcEnd::Violation(why)) = channel.poll_frame() else {
                    panic!("{phase:?} {number}: a frame without end is waited for");
                };
                assert_eq!(
                    why.contains("is not permitted in phase"),
                    !permitted(phase, number),
                    "{why}"
                );
            }
        }
    }

    #[test]
    fn a_phase_is_asked_before_the_frame_that_came_with_the_one_before() {
        let log = Log::to_memory(LogLevel::Debug3);
        let (mut channel, peer) = pair(&log, LoginPhase::Authenticating);
        // Two frames in one write: the phase after the first request applies to the second.
        let first = AuthNone {}.encode_frame();
        sys::io::write_all(
            &peer,
            &[&first[..], &[0, 0x10, 0, 0, AuthNone::NUMBER]].concat(),
        )
        .unwrap();
        channel.request().unwrap();
        channel.set_phase(LoginPhase::Session);
        assert!(matches!(channel.poll_frame(), Err(RpcEnd::Violation(_))));
    }

    #[test]
    fn lines_that_wait_are_bounded_by_bytes() {
        let log = Log::to_memory(LogLevel::Info);
        let (mut channel, peer) = pair(&log, LoginPhase::Authenticating);
        let line = LogMessage {
            level: LogLevel::Info,
            is_forced: false,
            text: "a".repeat(400_000),
            tail: Some("b".repeat(400_000)),
        };
        let frame = line.encode_frame();
        let writer = std::thread::spawn(move || sys::io::write_all(&peer, &frame).map(|()| peer));
        while channel.last_words.is_empty() {
            assert!(channel.poll_frame().unwrap().is_none());
        }
        writer.join().unwrap().unwrap();
        let (line, tail) = &channel.last_words[0];
        for text in [&line.text, tail] {
            assert!(text.capacity() < 4 * privsep::MAX_LOG_TEXT_BYTES);
        }
        channel.write_last_words("who");
        assert!(log.lines()[0].starts_with("aaa"));
    }

    #[test]
    fn log_lines_pass_by_with_their_suffix_and_at_a_bounded_rate() {
        let log = Log::to_memory(LogLevel::Info);
        let (mut channel, peer) = pair(&log, LoginPhase::Authenticating);
        let line = LogMessage {
            level: LogLevel::Info,
            is_forced: false,
            text: "x\ny".into(),
            tail: None,
        }
        .encode_frame();
        for _ in 0..1000 {
            sys::io::write_all(&peer, &line).unwrap();
            assert!(channel.poll_frame().unwrap().is_none());
        }
        sys::io::write_all(&peer, &AuthNone {}.encode_frame()).unwrap();
        assert_eq!(channel.request().unwrap(), ToMonitor::AuthNone(AuthNone {}));
        let lines = log.lines();
        assert_eq!(lines[0], "x\\012y [preauth]");
        assert!(lines.len() < 900, "{}", lines.len());
    }

    #[test]
    fn bytes_that_are_no_frame_are_a_violation_and_the_end_is_the_end() {
        let log = Log::to_memory(LogLevel::Info);
        let (mut channel, peer) = pair(&log, LoginPhase::Authenticating);
        sys::io::write_all(&peer, &[0xff; 5]).unwrap();
        assert!(matches!(channel.frame(), Err(RpcEnd::Violation(_))));
        let (mut channel, peer) = pair(&log, LoginPhase::Authenticating);
        drop(peer);
        assert!(matches!(channel.frame(), Err(RpcEnd::Closed)));
    }

    #[test]
    fn a_passed_deadline_ends_the_wait() {
        let log = Log::to_memory(LogLevel::Info);
        let (mut channel, _peer) = pair(&log, LoginPhase::Authenticating);
        channel.set_deadline_ms(Some(sys::time::monotonic_ms()));
        assert!(matches!(channel.frame(), Err(RpcEnd::Deadline)));
    }

    #[test]
    fn a_reply_that_was_held_leaves_with_the_next_or_before_a_wait() {
        let log = Log::to_memory(LogLevel::Info);
        let (mut channel, peer) = pair(&log, LoginPhase::Authenticating);
        let waiting = || sys::io::bytes_available(peer.as_fd()).unwrap();
        channel.send_with_next(&AuthNone {});
        assert_eq!(waiting(), 0);
        channel.send(&AuthNone {}).unwrap();
        let frame = AuthNone {}.encode_frame();
        let mut both = vec![0; frame.len() * 2 + 1];
        assert_eq!(sys::io::read(&peer, &mut both).unwrap(), frame.len() * 2);
        assert_eq!(both[..frame.len() * 2], [&frame[..], &frame].concat());
        channel.send_with_next(&AuthNone {});
        channel.set_deadline_ms(Some(sys::time::monotonic_ms()));
        assert!(matches!(channel.frame(), Err(RpcEnd::Deadline)));
        assert_eq!(usize::try_from(waiting()).unwrap(), frame.len());
    }

    #[test]
    fn a_frame_put_aside_comes_again_and_is_asked_against_the_phase_again() {
        let log = Log::to_memory(LogLevel::Info);
        let (mut channel, peer) = pair(&log, LoginPhase::Authenticating);
        let request = AuthPassword {
            password: Secret::new(b"x".to_vec()),
        };
        sys::io::write_all(&peer, &request.encode_frame()).unwrap();
        let frame = channel.frame().unwrap();
        channel.set_aside(frame);
        channel.set_phase(LoginPhase::Authenticated);
        assert!(matches!(channel.frame(), Err(RpcEnd::Violation(_))));
    }
}
