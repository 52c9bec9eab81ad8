//! Connections that have received the early banner and whose clients have sent nothing yet. Each
//! costs one descriptor and no process. They count for MaxStartups, and LoginGraceTime applies to
//! them.
//!
//! This module reads no byte from a connection: epoll reports that data has arrived or that the
//! client has left.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use privsep::roles::ConnectionNews;
use sys::epoll::Interest;

use super::{Accepted, Listener};
use crate::listener::block::NetBlock;
use crate::listener::penalties::Offence;

/// A connection that has received the early banner and has no process yet.
pub(super) struct Greeted {
    accepted: Accepted,
    /// Monotonic milliseconds after which the connection is closed; `None` without LoginGraceTime.
    deadline_ms: Option<u64>,
}

impl Greeted {
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.deadline_ms
    }

    pub(super) fn address(&self) -> IpAddr {
        self.accepted.peer.ip()
    }
}

/// Returns the token of the oldest connection from `source`.
pub(super) fn oldest(greeted: &HashMap<u64, Greeted>, source: NetBlock) -> Option<u64> {
    let of_source = |each: &(&u64, &Greeted)| each.1.accepted.source == source;
    greeted
        .iter()
        .filter(of_source)
        .map(|(token, _)| *token)
        .min()
}

impl Listener<'_> {
    /// Sends the early banner to a new connection. The monitor starts at once if there is no banner
    /// for this client, or if the client has already sent data.
    pub(super) fn begin(&mut self, token: u64, mut accepted: Accepted) {
        let now_ms = accepted.at_ms;
        let greeting = self.launch.greeting();
        let Some(greeting) = greeting.filter(|one| one.is_for(&accepted.network, accepted.peer))
        else {
            return self.serve(token, accepted, now_ms);
        };
        accepted.greeted = greeting.say(&accepted.network);
        if accepted.greeted.is_none() {
            return self.closed(&accepted, now_ms);
        }
        // If the kernel cannot report the number of bytes, a monitor is started, which reads.
        let has_spoken = !matches!(sys::io::bytes_available(&accepted.network), Ok(0));
        let waits = !has_spoken
            && self
                .epoll
                .add(&accepted.network, token, Interest::READABLE)
                .is_ok();
        if !waits {
            return self.serve(token, accepted, now_ms);
        }
        let deadline_ms = self.grace_ends_ms(now_ms);
        let greeted = Greeted {
            accepted,
            deadline_ms,
        };
        self.greeted.insert(token, greeted);
    }

    /// Handles an event of a connection that has received the banner: the client has sent data or
    /// has left.
    pub(super) fn hear_client(&mut self, token: u64, now_ms: u64) {
        let Some(Greeted { accepted, .. }) = self.greeted.remove(&token) else {
            return;
        };
        // The connection's next owner does not use this epoll instance.
        let _ = self.epoll.remove(&accepted.network);
        // Data that arrived with a SYN (TCP Fast Open) is not counted until the handshake is
        // complete.
        let nothing = matches!(sys::io::bytes_available(&accepted.network), Ok(0));
        if nothing && sys::socket::peer_has_ended(&accepted.network).unwrap_or(false) {
            return self.closed(&accepted, now_ms);
        }
        self.serve(token, accepted, now_ms);
    }

    /// Starts a monitor for every connection that has received the banner.
    pub(super) fn serve_greeted(&mut self) {
        let now_ms = sys::time::monotonic_ms();
        for (token, Greeted { accepted, .. }) in core::mem::take(&mut self.greeted) {
            let _ = self.epoll.remove(&accepted.network);
            self.serve(token, accepted, now_ms);
        }
    }

    /// Closes the connections whose LoginGraceTime has passed.
    pub(super) fn end_silent(&mut self, now_ms: u64) {
        let is_late = |greeted: &Greeted| greeted.deadline_ms.is_some_and(|at| at <= now_ms);
        let late = self.greeted.extract_if(|_, greeted| is_late(greeted));
        for (_, Greeted { accepted, .. }) in late.collect::<Vec<_>>() {
            self.leave(&accepted, Offence::GraceExceeded, now_ms);
        }
    }

    fn closed(&mut self, accepted: &Accepted, now_ms: u64) {
        self.leave(accepted, Offence::NoAuth, now_ms);
    }

    /// Accounts for a connection that ended before its client sent anything: it gets the same log
    /// lines and penalties as a connection with a process.
    fn leave(&mut self, accepted: &Accepted, offence: Offence, now_ms: u64) {
        let peer = text(accepted.peer);
        let local = sys::socket::local_address(&accepted.network).map(text);
        let local = local.unwrap_or_else(|_| "UNKNOWN".to_owned());
        let rdomain = sys::socket::bound_device(&accepted.network).unwrap_or_default();
        self.log.verbose(&format!(
            "Connection from {peer} on {local} rdomain \"{rdomain}\""
        ));
        match offence {
            Offence::GraceExceeded => self
                .log
                .fatal(&format!("Timeout before authentication for {peer}")),
            _ => {
                self.log
                    .error("kex_exchange_identification: Connection closed by remote host");
                self.log.info(&format!("Connection closed by {peer}"));
            }
        }
        self.measured.counters.ended(match offence {
            Offence::GraceExceeded => ConnectionNews::GraceExceeded,
            _ => ConnectionNews::NoAttempt,
        });
        self.startups.leave(accepted.source);
        self.penalise(accepted.peer.ip(), accepted.source, offence, now_ms);
    }
}

/// `ADDRESS port PORT`, the form of log lines.
pub(super) fn text(address: SocketAddr) -> String {
    format!("{} port {}", address.ip(), address.port())
}
