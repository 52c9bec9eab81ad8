//! What the passing of time does to a connection: its deadlines, and requests for signs of life
//! ([`super::alive`] says why and when).

use wire::message::Ignore;

use super::alive::Taken;
use super::{Auth, Connection, ConnectionStage};
use crate::{Error, Millis};

/// Data of one filler message, bytes; every implementation accepts a packet of this size.
const FILLER_BYTES: usize = 32_000;

impl Connection {
    /// The clock reached [`Connection::poll_deadline`]. True when the connection is idle and has
    /// freed the memory of its bulk data, which the allocator may keep.
    ///
    /// # Errors
    /// [`Error::TimedOut`].
    pub fn handle_timeout(&mut self, now: Millis) -> Result<bool, Error> {
        self.transport.now = now;
        let freed = self.transport.handle_timeout()?;
        let bytes = self.unfinished_bytes();
        let there = bytes.unwrap_or_default();
        if self.stage == ConnectionStage::Connected
            && self.alive.is_due(&self.transport.config, there, now)?
        {
            self.globals.send_keepalive(&mut self.transport)?;
        }
        if let Some(bytes) = bytes
            && self.alive.doubts(bytes, now)?
        {
            self.globals.send_keepalive(&mut self.transport)?;
        }
        if let Some(bytes) = self.unfinished_login_bytes() {
            self.alive.doubts_in_login(bytes, now)?;
        }
        let idle = self.channels.check_idle(now);
        self.transport.events.extend(idle);
        if self.asks_at().is_some_and(|at| at <= now) {
            self.ask_whether_taken(now)?;
        }
        Ok(freed)
    }

    /// The time at which [`Connection::handle_timeout`] must be called.
    #[must_use]
    pub fn poll_deadline(&self) -> Option<Millis> {
        let alive = match self.stage {
            ConnectionStage::Connected => self.alive.deadline(&self.transport.config),
            _ => None,
        };
        let doubts = self.unfinished_bytes().map(|_| self.alive.doubts_at());
        let in_login = self.unfinished_login_bytes();
        let login_doubts = in_login.map(|_| self.alive.login_doubts_at());
        [
            self.transport.deadline(),
            alive,
            doubts,
            login_doubts,
            self.asks_at(),
            self.channels.idle_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Records received data, which may be the answer to the last request.
    pub(super) fn note_answer(&mut self) {
        if !self.globals.awaits_answer() {
            self.taken.answered(self.transport.now);
        }
    }

    /// Client: the time of the next request whether the server has processed the sent packets.
    fn asks_at(&self) -> Option<Millis> {
        let asks = matches!(self.auth, Auth::Client(_))
            && self.may_ask()
            && self.transport.versions.peer_quirks().answers_keepalives;
        self.taken.deadline().filter(|_| asks)
    }

    fn ask_whether_taken(&mut self, now: Millis) -> Result<(), Error> {
        match &mut self.taken {
            // Unsent output may complete the server's packet by itself.
            Taken::Unsure { since: at } | Taken::Asked { at, .. }
                if self.transport.outbound.has_output() =>
            {
                *at = now;
            }
            Taken::Unsure { .. } => {
                self.globals.send_keepalive(&mut self.transport)?;
                self.taken = Taken::Asked { at: now, left: 0 };
            }
            // Something arrived, or the network may be interrupted.
            Taken::Asked { at, .. } => *at = now,
            Taken::Sure | Taken::Filled => {}
        }
        Ok(())
    }

    /// Client: true if the server was asked and is silent. If its kernel has acknowledged all sent
    /// bytes, it may wait for the end of a packet with a damaged length; the caller then calls
    /// [`Connection::fill_packet`].
    #[must_use]
    pub fn doubts_silence(&self, now: Millis) -> bool {
        let Taken::Asked { at, .. } = self.taken else {
            return false;
        };
        self.alive.is_silent_since(at)
            && self.unfinished_bytes().is_none()
            && !self.transport.outbound.has_output()
            && self.asks_at().is_some_and(|due| due <= now)
    }

    /// Sends as many bytes as the largest packet has; compression does not shorten them.
    ///
    /// # Errors
    /// [`Error`] of sending.
    pub fn fill_packet(&mut self) -> Result<(), Error> {
        self.taken = Taken::Filled;
        let mut data = alloc::vec![0; FILLER_BYTES];
        for _ in 0..=wire::MAX_PACKET_BYTES / FILLER_BYTES {
            crypto::random::fill(&mut data);
            self.transport.send_message(&Ignore { data: &data })?;
        }
        Ok(())
    }

    /// True if a request to the peer is permitted now.
    fn may_ask(&self) -> bool {
        self.stage == ConnectionStage::Connected && !self.transport.is_exchanging()
    }

    /// Received bytes of an unfinished packet, if a request to the peer is permitted now.
    pub(super) fn unfinished_bytes(&self) -> Option<usize> {
        let bytes = self.transport.inbound.unfinished_bytes();
        bytes.filter(|_| self.may_ask())
    }

    /// Client: received bytes of an unfinished packet between the first keys and the end of the login.
    fn unfinished_login_bytes(&self) -> Option<usize> {
        let is_login = matches!(
            self.stage,
            ConnectionStage::Service | ConnectionStage::Userauth
        );
        let bytes = self.transport.inbound.unfinished_bytes();
        bytes.filter(|_| is_login && matches!(self.auth, Auth::Client(_)))
    }
}
