//! The socket and the connection before a login: one thread with `poll`, without epoll or the
//! driver, so that the sandbox can permit few system calls.
//!
//! All queued bytes leave in one write, for example version line with KEXINIT, or KEX_*_REPLY with
//! NEWKEYS and EXT_INFO. Nothing is read while the socket does not accept the queued bytes.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use proto::{Connection, Event, Millis, ServerHostKey, TransportConfig, TransportOutput};

use sys::memory::REST;

use super::end::AuthEnd;

/// Size of a read, in bytes. No client has a reason to send more at once before a login.
const READ_BYTES: usize = 16 * 1024;

/// Time limit for writing a DISCONNECT, in milliseconds.
const GOODBYE_MS: u64 = 1000;

/// The socket and the protocol state.
pub(super) struct AuthLink {
    socket: OwnedFd,
    connection: Connection,
    /// Sealed bytes not yet written to the socket.
    unsent: Vec<u8>,
    /// Monotonic milliseconds at which the login must be complete.
    grace_ends: Option<Millis>,
    /// True after [`REST`] without input.
    rests: bool,
}

impl AuthLink {
    /// Queues version line and KEXINIT; they leave with the first [`exchange`](Self::exchange).
    pub(super) fn new(
        socket: OwnedFd,
        config: TransportConfig,
        host_keys: Vec<ServerHostKey>,
    ) -> Result<Self, AuthEnd> {
        sys::io::set_nonblocking(&socket, true)?;
        let connection = Connection::server(config, host_keys, sys::time::monotonic_ms())?;
        Ok(Self {
            socket,
            connection,
            unsent: Vec::new(),
            grace_ends: None,
            rests: false,
        })
    }

    /// Sets LoginGraceTime in seconds; 0 means no limit. The monitor enforces the same limit; this
    /// one applies if the monitor itself blocks, so it ends one second later.
    pub(super) fn with_grace(mut self, seconds: u32) -> Self {
        let grace_ms = (u64::from(seconds) + 1) * 1000;
        self.grace_ends = (seconds > 0).then(|| sys::time::monotonic_ms().saturating_add(grace_ms));
        self
    }

    /// If `greeted`, discards the queued version line and KEXINIT, which the listener has sent.
    pub(super) fn greeted(mut self, greeted: bool) -> Self {
        if greeted {
            self.collect_output();
            self.unsent.clear();
        }
        self
    }

    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    pub(super) fn into_connection(self) -> Connection {
        self.connection
    }

    /// Returns the next event from bytes already read.
    pub(super) fn next_event(&mut self) -> Result<Option<Event>, AuthEnd> {
        if let Some(event) = self.connection.poll_event() {
            return Ok(Some(event));
        }
        // An answer may have released packets queued after its request.
        self.connection.process(sys::time::monotonic_ms())?;
        Ok(self.connection.poll_event())
    }

    /// Writes queued bytes, waits for input or a deadline, and handles either.
    pub(super) fn exchange(&mut self) -> Result<(), AuthEnd> {
        self.collect_output();
        self.write_some()?;
        let now = sys::time::monotonic_ms();
        if self.grace_ends.is_some_and(|end| end <= now) {
            return Err(AuthEnd::GraceExceeded);
        }
        let deadline = [self.grace_ends, self.connection.poll_deadline()]
            .into_iter()
            .flatten()
            .min();
        let timeout = deadline.map(|at| Duration::from_millis(at.saturating_sub(now)));
        let blocked = !self.unsent.is_empty();
        let rest = !self.rests && timeout.is_none_or(|timeout| timeout > REST);
        let mut wait = [sys::io::PollFd::new(self.socket.as_fd(), !blocked, blocked)];
        let ready = sys::io::poll(&mut wait, if rest { Some(REST) } else { timeout })?;
        let [wait] = wait;
        if rest && ready == 0 {
            sys::memory::rest();
        }
        self.rests = ready == 0;
        if ready > 0 && !blocked && wait.is_readable() {
            self.read_some()?;
        }
        let now = sys::time::monotonic_ms();
        if self.connection.poll_deadline().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now)?;
        }
        Ok(())
    }

    /// Writes all queued bytes, waiting until the grace time ends.
    pub(super) fn flush(&mut self) -> Result<(), AuthEnd> {
        self.collect_output();
        loop {
            self.write_some()?;
            if self.unsent.is_empty() {
                return Ok(());
            }
            let now = sys::time::monotonic_ms();
            let left = self
                .grace_ends
                .map(|end| Duration::from_millis(end.saturating_sub(now)));
            if !sys::io::wait_writable(&self.socket, left)? {
                return Err(AuthEnd::GraceExceeded);
            }
        }
    }

    /// Sends a DISCONNECT with the reason, if there is one. Waits at most `GOODBYE_MS` for a peer
    /// that has broken the rules.
    pub(super) fn say_goodbye(&mut self, end: &AuthEnd) {
        let Some((reason, words)) = end.disconnect() else {
            return;
        };
        match end {
            AuthEnd::Proto(error) => self.connection.fail(error),
            _ => self.connection.disconnect(reason, words),
        }
        let latest = sys::time::monotonic_ms().saturating_add(GOODBYE_MS);
        self.grace_ends = Some(self.grace_ends.map_or(latest, |end| end.min(latest)));
        let _ = self.flush();
        // With unread bytes, a close becomes a reset, which may overtake the DISCONNECT.
        let _ = sys::socket::shutdown(&self.socket, sys::socket::ShutdownDirection::Write);
    }

    fn collect_output(&mut self) {
        while let Some(output) = self.connection.poll_output() {
            match output {
                TransportOutput::Raw(bytes) => self.unsent.extend_from_slice(&bytes),
                TransportOutput::Seal(job) => {
                    let sealed = job.run();
                    self.unsent.extend_from_slice(sealed.wire());
                    self.connection.recycle(sealed.into_buf());
                }
            }
        }
    }

    fn write_some(&mut self) -> Result<(), AuthEnd> {
        while !self.unsent.is_empty() {
            match sys::io::write(&self.socket, &self.unsent) {
                Ok(0) => return Err(AuthEnd::Closed),
                Ok(count) => drop(self.unsent.drain(..count.min(self.unsent.len()))),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read_some(&mut self) -> Result<(), AuthEnd> {
        let buffer = self.connection.receive_buffer();
        if buffer.capacity() - buffer.len() < READ_BYTES {
            buffer.reserve(READ_BYTES);
        }
        match sys::io::read_into(&self.socket, buffer) {
            Ok(0) => Err(AuthEnd::Closed),
            Ok(_) => {
                // The kernel clears this option with each delayed acknowledgement; without it, a
                // client without TCP_NODELAY stalls 40 ms on each flight.
                let _ = sys::socket::set_quickack(&self.socket, true);
                self.connection.process(sys::time::monotonic_ms())?;
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
