//! Connections that were greeted and whose clients have not said anything: a descriptor each, and
//! no process. They count as start-ups, and their LoginGraceTime passes, as if there were one.
//!
//! Nothing is read here: the kernel says that something has come, or that the client has left.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use sys::epoll::Interest;

use super::{Accepted, Listener};
use crate::listener::block::NetBlock;
use crate::listener::penalties::Offence;

/// See the module's head.
pub(super) struct Greeted {
    accepted: Accepted,
    /// Monotonic milliseconds after which it is ended.
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

/// The token of the oldest of a source.
pub(super) fn oldest(greeted: &HashMap<u64, Greeted>, source: NetBlock) -> Option<u64> {
    let of_source = |each: &(&u64, &Greeted)| each.1.accepted.source == source;
    greeted
        .iter()
        .filter(of_source)
        .map(|(token, _)| *token)
        .min()
}

impl Listener<'_> {
    /// Greets a connection that has just come. It gets its processes at once where its client was
    /// quicker, or is to hear something else.
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
        // Where the kernel cannot tell, a process finds out.
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

    /// A client that was greeted has said something, or has left.
    pub(super) fn hear_client(&mut self, token: u64, now_ms: u64) {
        let Some(Greeted { accepted, .. }) = self.greeted.remove(&token) else {
            return;
        };
        // Whoever has it next waits for it by other means.
        let _ = self.epoll.remove(&accepted.network);
        // What came with a SYN (TCP Fast Open) is not counted before the handshake is over.
        let nothing = matches!(sys::io::bytes_available(&accepted.network), Ok(0));
        if nothing && sys::socket::peer_has_ended(&accepted.network).unwrap_or(false) {
            return self.closed(&accepted, now_ms);
        }
        self.serve(token, accepted, now_ms);
    }

    /// Starts the processes of all that were greeted.
    pub(super) fn serve_greeted(&mut self) {
        let now_ms = sys::time::monotonic_ms();
        for (token, Greeted { accepted, .. }) in core::mem::take(&mut self.greeted) {
            let _ = self.epoll.remove(&accepted.network);
            self.serve(token, accepted, now_ms);
        }
    }

    /// Ends those whose LoginGraceTime is over.
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

    /// The end of a connection without a word of its client: the log and the penalties are those of
    /// one that had a process.
    fn leave(&mut self, accepted: &Accepted, offence: Offence, now_ms: u64) {
        let peer = text(accepted.peer);
        let local = sys::socket::local_address(&accepted.network).map(text);
        let local = local.unwrap_or_else(|_| "UNKNOWN".to_owned());
        self.log
            .verbose(&format!("Connection from {peer} on {local} rdomain \"\""));
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
        self.startups.leave(accepted.source);
        self.penalise(accepted.peer.ip(), accepted.source, offence, now_ms);
    }
}

/// As log lines have it.
pub(super) fn text(address: SocketAddr) -> String {
    format!("{} port {}", address.ip(), address.port())
}
