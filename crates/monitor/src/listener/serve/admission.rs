//! New connections: MaxStartups, penalties, and the start of a monitor.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use privsep::MonitorConnection;
use sys::epoll::Interest;
use sys::signals::Signal;

use super::greeted;
use super::{
    ACCEPT_BATCH, ACCEPT_PAUSE_MS, Accepted, FIRST_SOCKET_TOKEN, GRACE_SLACK_MS, Listener, Pending,
};
use crate::listener::block::NetBlock;
use crate::listener::metrics::RefusalReason;
use crate::listener::penalties::Offence;
use crate::listener::reader;
use crate::listener::sockets;
use crate::listener::startups::{StartupRefusal, StartupRules, StartupVerdict};

impl Listener<'_> {
    pub(super) fn accept(&mut self, token: u64, now_ms: u64) {
        for _ in 0..ACCEPT_BATCH {
            let index = usize::try_from(token - FIRST_SOCKET_TOKEN).unwrap_or(usize::MAX);
            let Some(socket) = self.sockets.get(index) else {
                return;
            };
            match sys::socket::accept(&socket.fd) {
                Ok((network, peer)) if self.is_balancer(peer.ip()) => {
                    self.await_header(network, peer, now_ms);
                }
                Ok((network, peer)) => self.admit(network, peer, false, now_ms),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.accept_failures
                        .report("accept", &error, now_ms, self.log);
                    // Out of descriptors or memory: with level-triggered epoll the loop would spin.
                    self.forget_sockets();
                    self.paused_until_ms = Some(now_ms + ACCEPT_PAUSE_MS);
                    return;
                }
            }
            if self.only_one {
                self.forget_sockets();
                self.sockets.clear();
                return;
            }
        }
    }

    /// Begins to serve a client that MaxStartups and the penalties admit. `is_proxied`: a load
    /// balancer has named `peer`.
    pub(super) fn admit(
        &mut self,
        network: OwnedFd,
        peer: SocketAddr,
        is_proxied: bool,
        now_ms: u64,
    ) {
        let source = self.block_of(peer.ip());
        let rules = StartupRules::of(&self.options.limits);
        let draw = u32::from_be_bytes(crypto::random::bytes()) % 100;
        let verdict = self.startups.verdict(&rules, source, draw);
        if let StartupVerdict::Refuse(refusal) = verdict {
            self.refuse(&network, peer, refusal, now_ms);
            return;
        }
        self.leave_throttling(&rules, now_ms);
        if !self.is_exempt(peer.ip())
            && let Some(reason) =
                self.penalties
                    .refusal(&self.options.limits.per_source_penalties, source, now_ms)
        {
            self.measured.counters.refused(RefusalReason::Penalty);
            let which = self.dropped(&network, peer);
            self.log
                .info(&format!("drop connection {which} penalty: {reason}"));
            let _ = sys::io::write(&network, b"Not allowed at this time\r\n");
            return;
        }
        if let StartupVerdict::Displace(largest) = verdict {
            self.displace_oldest(largest);
        }
        sockets::prepare(&network, &self.options.connection);
        let token = self.next_token;
        self.next_token += 1;
        self.startups.enter(source);
        let accepted = Accepted {
            network,
            peer,
            is_proxied,
            source,
            at_ms: now_ms,
            greeted: None,
        };
        self.begin(token, accepted);
    }

    /// Hands a connection to a pre-forked monitor, or starts a monitor for it.
    pub(super) fn serve(&mut self, token: u64, accepted: Accepted, now_ms: u64) {
        let (address, source) = (accepted.peer.ip(), accepted.source);
        if let Err(error) = self.start(token, accepted, now_ms) {
            self.log
                .error(&format!("starting a process for {address}: {error}"));
            self.startups.leave(source);
        }
    }

    fn start(&mut self, token: u64, accepted: Accepted, now_ms: u64) -> io::Result<()> {
        let Accepted {
            network,
            peer,
            is_proxied,
            source,
            at_ms,
            greeted,
        } = accepted;
        let message = MonitorConnection {
            accepted_ms: at_ms,
            greeted: greeted.map(Vec::from),
            client: is_proxied.then(|| reader::client_field(peer)),
        };
        let (child, news) = match self.spares.give(&network, &message, now_ms) {
            Some(waited) => waited,
            None => self.launch.start(network, &message)?,
        };
        self.epoll.add(&news, token, Interest::READABLE)?;
        self.pending.insert(
            token,
            Pending {
                child,
                news,
                source,
                peer,
                accepted_ms: at_ms,
                deadline_ms: self.grace_ends_ms(at_ms).map(|at| at + GRACE_SLACK_MS),
                silent: false,
                told: false,
            },
        );
        Ok(())
    }

    /// The end of LoginGraceTime in monotonic milliseconds; `None` without a limit.
    pub(super) fn grace_ends_ms(&self, accepted_ms: u64) -> Option<u64> {
        let grace_ms = u64::from(self.options.limits.login_grace_time_s) * 1000;
        (grace_ms > 0).then(|| accepted_ms.saturating_add(grace_ms))
    }

    /// Ends the oldest connection of `source` in which nobody has logged in, because another source
    /// needs the slot. The source gets no penalty.
    fn displace_oldest(&mut self, source: NetBlock) {
        let say = |address: IpAddr| {
            let why = "to admit another source: past MaxStartups";
            self.log
                .verbose(&format!("drop connection from {address} {why}"));
        };
        let oldest = self
            .pending
            .iter_mut()
            .filter(|(_, pending)| pending.source == source && !pending.silent)
            .min_by_key(|(token, _)| **token);
        let silent = greeted::oldest(&self.greeted, source);
        let spoken = oldest.as_ref().map(|(token, _)| **token);
        if let Some(token) = silent.filter(|token| spoken.is_none_or(|spoken| *token < spoken)) {
            if let Some(greeted) = self.greeted.remove(&token) {
                say(greeted.address());
                self.startups.leave(source);
            }
            return;
        }
        let Some((_, pending)) = oldest else { return };
        say(pending.peer.ip());
        pending.told = true;
        pending.silent = true;
        let _ = self.epoll.remove(&pending.news);
        let _ = pending.child.signal(Signal::KILL);
        self.startups.leave(source);
    }

    /// A refused connection for the log: which one of those that have not logged in it would have
    /// been, and its ends.
    fn dropped(&self, network: &OwnedFd, peer: SocketAddr) -> String {
        let total = self.startups.total();
        let end = |address: SocketAddr| format!("[{}]:{}", address.ip(), address.port());
        let local = sys::socket::local_address(network).map_or("UNKNOWN".to_owned(), end);
        format!("#{total} from {} on {local}", end(peer))
    }

    pub(super) fn refuse(
        &mut self,
        network: &OwnedFd,
        peer: SocketAddr,
        refusal: StartupRefusal,
        now_ms: u64,
    ) {
        self.measured.counters.refused(refusal.into());
        let (since_ms, count) = self.throttled.unwrap_or((now_ms, 0));
        if count == 0 {
            self.log.info("beginning MaxStartups throttling");
        }
        self.throttled = Some((since_ms, count + 1));
        let which = self.dropped(network, peer);
        self.log.verbose(&format!(
            "drop connection {which} past {}",
            match refusal {
                StartupRefusal::MaxStartups => "MaxStartups",
                StartupRefusal::PerSource => "PerSourceMaxStartups",
            }
        ));
        let _ = sys::io::write(network, b"Exceeded MaxStartups\r\n");
    }

    fn leave_throttling(&mut self, rules: &StartupRules, now_ms: u64) {
        let calm = self.startups.total() < rules.begin;
        if let Some((since_ms, count)) = self.throttled.filter(|_| calm) {
            self.throttled = None;
            self.log.info(&format!(
                "exited MaxStartups throttling after {} seconds, {count} connections dropped",
                now_ms.saturating_sub(since_ms) / 1000
            ));
        }
    }

    fn block_of(&self, address: IpAddr) -> NetBlock {
        let (bits4, bits6) = self.options.limits.per_source_net_block_size;
        NetBlock::of(address, bits4, bits6)
    }

    /// True if this address gets no penalty. One of a load balancer would refuse all of its
    /// clients.
    fn is_exempt(&self, address: IpAddr) -> bool {
        let limits = &self.options.limits;
        self.is_balancer(address) || limits.per_source_penalty_exempt_list.contains(address)
    }

    pub(super) fn penalise(
        &mut self,
        address: IpAddr,
        source: NetBlock,
        offence: Offence,
        now_ms: u64,
    ) {
        if self.is_exempt(address) {
            return;
        }
        let rules = &self.options.limits.per_source_penalties;
        if let Some(length_ms) = self.penalties.penalise(rules, source, offence, now_ms) {
            self.measured.counters.penalised(offence);
            self.log.info(&format!(
                "{}: activating penalty of {} seconds for {}",
                source.address(),
                length_ms / 1000,
                offence.reason()
            ));
        }
    }
}
