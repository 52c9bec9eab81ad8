//! Listeners of the peer at a caller's request (RFC 4254 §7.1, OpenSSH's PROTOCOL §2.4): the requests,
//! their answers, and the channels that the peer opens for accepted connections. A channel of a
//! listener that no caller has is the role's to refuse. Channels to the client's agent
//! (OpenSSH's PROTOCOL.agent §1) are accepted like those of a listener, without a request of their own.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use driver::forward::Listening;
use proto::ChannelId;
use wire::message::open_failure;
use wire::{Reader, names};

use super::{Core, Opened};
use crate::{Error, Exit};

/// Most connections of a listener that no caller has accepted yet; further ones are refused.
const MAX_BACKLOG: usize = 64;
/// Longest address in a message, bytes.
const MAX_ADDRESS_BYTES: usize = 1024;

/// The connection thread's half of a listener.
struct PeerListener {
    serial: u64,
    /// As it was requested; port 0 is replaced by the peer's choice.
    listening: Listening,
    backlog: Arc<Backlog>,
}

/// A request whose answer is to come.
enum Unanswered {
    Listen(Listening, SyncSender<Result<Listened, Error>>),
    Cancel,
}

/// All listeners of a connection.
#[derive(Default)]
pub(super) struct Listeners {
    remotes: Vec<PeerListener>,
    unanswered: VecDeque<Unanswered>,
    next_serial: u64,
    /// Where channels to the agent go, while a caller accepts them.
    agents: Option<Arc<Backlog>>,
}

/// A listener that the peer has agreed to.
pub(crate) struct Listened {
    pub(crate) serial: u64,
    pub(crate) listening: Listening,
    pub(crate) backlog: Arc<Backlog>,
}

/// Channels to the agent, and what binds a connection to an agent to this connection.
pub(crate) struct AgentChannels {
    pub(crate) backlog: Arc<Backlog>,
    pub(crate) host_key: Vec<u8>,
    pub(crate) session_identifier: Vec<u8>,
    pub(crate) host_signature: Vec<u8>,
}

/// A channel of a listener and the address of who connected, if the peer named one.
pub(crate) type Accepted = (Opened, Option<SocketAddr>);

#[derive(Default)]
struct BacklogState {
    accepted: VecDeque<Accepted>,
    failure: Option<Error>,
}

/// The accepted connections of a listener that no caller has taken yet.
#[derive(Default)]
pub(crate) struct Backlog {
    waiting: Mutex<BacklogState>,
    changed: Condvar,
}

impl Backlog {
    fn lock(&self) -> MutexGuard<'_, BacklogState> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_full(&self) -> bool {
        self.lock().accepted.len() >= MAX_BACKLOG
    }

    fn push(&self, accepted: Accepted) {
        self.lock().accepted.push_back(accepted);
        self.changed.notify_one();
    }

    fn fail(&self, error: &Error) {
        self.lock().failure = Some(error.clone());
        self.changed.notify_all();
    }

    /// Waits for the next connection, at most for `timeout`.
    pub(crate) fn take(&self, timeout: Option<Duration>) -> Result<Accepted, Error> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut waiting = self.lock();
        loop {
            if let Some(accepted) = waiting.accepted.pop_front() {
                return Ok(accepted);
            }
            if let Some(failure) = &waiting.failure {
                return Err(failure.clone());
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            waiting = match left {
                Some(Duration::ZERO) => {
                    return Err(Error::TimedOut("waiting for a connection"));
                }
                Some(left) => {
                    let waited = self.changed.wait_timeout(waiting, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.changed.wait(waiting);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}

impl Listeners {
    /// Where a channel of this type goes.
    fn backlog(&self, kind: &str, fields: &[u8]) -> Option<Arc<Backlog>> {
        if matches!(kind, names::CHANNEL_AGENT | names::CHANNEL_AGENT_OPENSSH) {
            return self.agents.clone();
        }
        let listening = Listening::decode(kind, fields).ok()?;
        let mut remotes = self.remotes.iter();
        let remote = remotes.find(|remote| remote.listening == listening)?;
        Some(Arc::clone(&remote.backlog))
    }

    /// Reports the end of the connection to all callers.
    pub(super) fn fail(self, error: &Error) {
        let remotes = self.remotes.iter().map(|remote| &remote.backlog);
        for backlog in remotes.chain(&self.agents) {
            backlog.fail(error);
        }
        for unanswered in self.unanswered {
            if let Unanswered::Listen(_, done) = unanswered {
                let _ = done.try_send(Err(error.clone()));
            }
        }
    }
}

impl Core {
    /// Asks the peer to listen.
    pub(super) fn listen(
        &mut self,
        listening: Listening,
        done: SyncSender<Result<Listened, Error>>,
    ) {
        let (name, fields) = listening.listen_request(false);
        match self.driver.connection().global_request(name, &fields) {
            Ok(()) => {
                let unanswered = Unanswered::Listen(listening, done);
                self.listeners.unanswered.push_back(unanswered);
            }
            Err(error) => {
                let _ = done.try_send(Err(error.into()));
            }
        }
    }

    /// Asks the peer to stop listening, and closes the connections that no caller has taken.
    pub(super) fn unlisten(&mut self, serial: u64) -> Result<(), Error> {
        let remotes = &mut self.listeners.remotes;
        let Some(at) = remotes.iter().position(|remote| remote.serial == serial) else {
            return Ok(());
        };
        let remote = remotes.swap_remove(at);
        let (name, fields) = remote.listening.listen_request(true);
        // A peer that has left 4,096 requests unanswered is not asked; its channels are refused.
        let asked = self.driver.connection().global_request(name, &fields);
        if asked.is_ok() {
            self.listeners.unanswered.push_back(Unanswered::Cancel);
        }
        self.close_waiting(&remote.backlog)
    }

    /// Closes the channels that no caller has taken.
    fn close_waiting(&mut self, backlog: &Backlog) -> Result<(), Error> {
        let left = std::mem::take(&mut backlog.lock().accepted);
        for (opened, _) in left {
            let id = opened.id;
            drop(opened);
            if let Some(entry) = self.entries.get_mut(&id) {
                let unread = entry.state.abandon();
                entry.released = Some(Exit::Unknown);
                self.driver.connection().channel_consumed(id, unread)?;
            }
            self.finish(id)?;
        }
        Ok(())
    }

    /// Accepts channels to the agent from now on.
    pub(super) fn accept_agents(&mut self) -> Result<AgentChannels, Error> {
        if self.listeners.agents.is_some() {
            return Err(Error::Misuse(
                "connections to the agent are accepted already",
            ));
        }
        let connection = self.driver.connection();
        let bytes = |field: Option<&[u8]>| field.unwrap_or_default().to_vec();
        let channels = AgentChannels {
            backlog: Arc::default(),
            host_key: bytes(connection.host_key()),
            session_identifier: bytes(connection.session_id()),
            host_signature: bytes(connection.host_signature()),
        };
        self.listeners.agents = Some(Arc::clone(&channels.backlog));
        Ok(channels)
    }

    /// Refuses channels to the agent again, and closes those that no caller has taken.
    pub(super) fn refuse_agents(&mut self) -> Result<(), Error> {
        match self.listeners.agents.take() {
            Some(backlog) => self.close_waiting(&backlog),
            None => Ok(()),
        }
    }

    /// The peer has answered the oldest request; `None` refuses it.
    pub(super) fn listen_answered(&mut self, fields: Option<&[u8]>) {
        let listeners = &mut self.listeners;
        let Some(Unanswered::Listen(mut listening, done)) = listeners.unanswered.pop_front() else {
            return;
        };
        let is_granted = match (&mut listening, fields) {
            (Listening::Tcp { port, .. } | Listening::Udp { port, .. }, Some(fields))
                if *port == 0 =>
            {
                let chosen = Reader::new(fields).u32().unwrap_or_default();
                *port = u16::try_from(chosen).unwrap_or_default();
                *port != 0
            }
            (_, fields) => fields.is_some(),
        };
        if !is_granted {
            let name = match listening {
                Listening::Tcp { .. } => names::GLOBAL_TCPIP_FORWARD,
                Listening::Unix(_) => names::GLOBAL_STREAMLOCAL_FORWARD,
                Listening::Udp { .. } => names::GLOBAL_UDP_FORWARD,
            };
            let _ = done.try_send(Err(Error::RequestRefused(name)));
            return;
        }
        listeners.next_serial += 1;
        let serial = listeners.next_serial;
        let backlog = Arc::new(Backlog::default());
        listeners.remotes.push(PeerListener {
            serial,
            listening: listening.clone(),
            backlog: Arc::clone(&backlog),
        });
        let _ = done.try_send(Ok(Listened {
            serial,
            listening,
            backlog,
        }));
    }

    /// Accepts a channel of a caller's listener, or to its agent; false if it is none.
    pub(super) fn accept_forwarded(
        &mut self,
        channel: ChannelId,
        kind: &str,
        fields: &[u8],
    ) -> Result<bool, Error> {
        let Some(backlog) = self.listeners.backlog(kind, fields) else {
            return Ok(false);
        };
        if backlog.is_full() {
            let (reason, text) = (open_failure::RESOURCE_SHORTAGE, "too many connections wait");
            let connection = self.driver.connection();
            connection.reject_channel(channel, reason, text)?;
        } else {
            let opened = self.accept_stream(channel)?;
            backlog.push((opened, originator(kind, fields)));
        }
        Ok(true)
    }
}

/// The address of who connected (RFC 4254 §7.2), if the peer gave an IP address.
fn originator(kind: &str, fields: &[u8]) -> Option<SocketAddr> {
    if kind != names::CHANNEL_FORWARDED_TCPIP {
        return None;
    }
    let mut reader = Reader::new(fields);
    let _listener = reader.string_max(MAX_ADDRESS_BYTES).ok()?;
    let _port = reader.u32().ok()?;
    let address = reader.string_max(MAX_ADDRESS_BYTES).ok()?;
    let address: IpAddr = std::str::from_utf8(address).ok()?.parse().ok()?;
    let port = u16::try_from(reader.u32().ok()?).ok()?;
    Some(SocketAddr::new(address, port))
}
