//! Key exchange as a state machine: RFC 4253 §7–8, RFC 4419, RFC 4462 §2, RFC 5656, RFC 8731, RFC 8732 and the hybrids.
//!
//! [`Exchange`] owns everything that begins with a KEXINIT: what we offer, the running exchange, its
//! results, and when the next one is due. `state` has the states, `negotiate` the KEXINITs, `client`
//! and `server` the messages of the methods, `gss` those of GSS-API, `derive` hashes and keys, `newkeys` the switch of keys
//! and `rekey` the limits.
//!
//! Each message takes the state and sets the next one. In between, and after an error, it is
//! `Moving`: a message that is sent meanwhile cannot start a second exchange.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use crypto::kex::{KexAlgorithm, KexFamily};
use packet::PacketBuf;
use wire::NameList;
use wire::message::{Encode, KexInit, NewKeys};

use super::inbound::Inbound;
use super::outbound::Outbound;
use super::version::VersionExchange;
use crate::config::Offer;
use crate::permits::ConnectionPhase;
use crate::{Error, Event, Millis, Role, ServerHostKey, TransportConfig};

mod client;
mod derive;
mod gss;
mod host_key;
mod negotiate;
mod newkeys;
mod rekey;
mod server;
mod short;
mod state;

use derive::Transcript;
pub(crate) use negotiate::{Agreement, PeerLists};
use rekey::RekeyLimits;
use state::{Half, Kex, KexStep, KexTerms, ServerStep};

/// Results of the first key exchange that hold for the whole connection; `agreement` is the last
/// one.
#[derive(Clone)]
pub(crate) struct TransportSession {
    /// Session identifier: the exchange hash H of the first exchange.
    pub(crate) id: Vec<u8>,
    /// The server's key, proven in the first exchange and required in each later one; empty after a first
    /// exchange by GSS-API.
    pub(crate) host_key: Vec<u8>,
    /// Client: the server's signature over `id`; empty on a server.
    pub(crate) host_signature: Vec<u8>,
    pub(crate) strict_kex: bool,
    pub(crate) peer_wants_ext_info: bool,
    pub(crate) agreement: Agreement,
}

impl TransportSession {
    /// True if the first exchange was by GSS-API.
    pub(crate) fn is_by_gss(&self) -> bool {
        self.host_key.is_empty()
    }
}

/// What the KEXINITs of the first exchange revealed, for the owner.
#[derive(Default)]
pub(crate) struct FirstInits {
    /// Client: key exchange methods and host key types of the server's KEXINIT.
    pub(crate) peer_lists: Option<PeerLists>,
    /// Client: whether our guess was right; `None` without one, or before the server's KEXINIT.
    pub(crate) guess_was_right: Option<bool>,
    /// Client: our KEXINIT is a short one.
    pub(crate) offers_short: bool,
    /// Server: the client's KEXINIT announced a guessed packet.
    pub(crate) peer_guessed: bool,
}

/// An [`Exchange`] with the rest of the transport, for as long as one message or command takes.
pub(super) struct Exchanging<'a> {
    pub(super) exchange: &'a mut Exchange,
    pub(super) role: Role,
    pub(super) config: &'a TransportConfig,
    pub(super) versions: &'a VersionExchange,
    pub(super) authenticated: bool,
    pub(super) now: Millis,
    pub(super) inbound: &'a mut Inbound,
    pub(super) outbound: &'a mut Outbound,
    pub(super) events: &'a mut VecDeque<Event>,
}

pub(crate) struct Exchange {
    offer: Offer,
    host_keys: Vec<ServerHostKey>,
    /// Cookie of the next KEXINIT instead of a random one.
    cookie: Option<[u8; 16]>,
    limits: RekeyLimits,
    state: Kex,
    /// Client: key pair created in advance for the next exchange.
    prepared: Option<Box<Half>>,
    /// Client: the server's last KEXINIT named the negotiated algorithms first.
    server_names_it_first: bool,
    first_inits: FirstInits,
    session: Option<TransportSession>,
    completed_at: Millis,
}

impl Exchange {
    /// No exchange runs until [`Exchanging::start`]. A client has no `host_keys`. With the `session`
    /// of a snapshot, later exchanges are rekeys.
    ///
    /// # Errors
    /// [`Error::Misuse`] for unknown algorithm names, or on a server without a host key.
    pub(super) fn new(
        role: Role,
        config: &TransportConfig,
        host_keys: Vec<ServerHostKey>,
        session: Option<TransportSession>,
        now: Millis,
    ) -> Result<Self, Error> {
        Ok(Self {
            offer: Offer::new(config, (role == Role::Server).then_some(&host_keys[..]))?,
            host_keys,
            cookie: config.opening.cookie,
            limits: RekeyLimits::new(config),
            state: Kex::Idle,
            prepared: None,
            server_names_it_first: false,
            first_inits: FirstInits::default(),
            session,
            completed_at: now,
        })
    }

    // ---- getters --------------------------------------------------------------------------

    /// Results that hold for the whole connection; `None` before the first exchange is complete.
    pub(crate) fn session(&self) -> Option<&TransportSession> {
        self.session.as_ref()
    }

    pub(crate) fn first_inits(&self) -> &FirstInits {
        &self.first_inits
    }

    pub(super) fn is_idle(&self) -> bool {
        self.state.is_idle()
    }

    /// Returns true if messages above the transport must wait.
    pub(super) fn holds_output(&self) -> bool {
        self.state.holds_output()
    }

    /// Returns true if the peer's NEWKEYS may arrive.
    pub(super) fn may_change_keys(&self) -> bool {
        self.state.may_change_keys()
    }

    /// Returns true while the owner owes an answer; no input is processed then.
    pub(super) fn waits_for_owner(&self) -> bool {
        self.state.waits_for_owner()
    }

    /// The phase for permissions, if the exchange determines it.
    pub(super) fn phase(&self) -> Option<ConnectionPhase> {
        self.state.phase(self.session.is_none())
    }

    /// Records that output has left, which restarts the time limit.
    pub(super) fn progressed(&mut self, now: Millis) {
        self.state.progressed(now);
    }

    pub(super) fn has_spare(&self) -> bool {
        self.prepared.is_some()
    }

    pub(super) fn shed(&mut self) {
        self.prepared = None;
    }

    // ---- when the next one is due ---------------------------------------------------------

    /// Returns true if a limit is reached and no exchange is running.
    pub(super) fn is_due(&self, outbound: &Outbound, inbound: &Inbound) -> bool {
        self.state.is_idle() && self.limits.are_reached(outbound, inbound)
    }

    /// Client: creates our key pair for the next exchange in advance, if a limit of ours is near.
    pub(super) fn prepare(
        &mut self,
        role: Role,
        outbound: &Outbound,
        inbound: &Inbound,
    ) -> Result<(), Error> {
        let is_near = self
            .limits
            .are_near(!self.state.is_idle(), outbound, inbound);
        if self.prepared.is_some() || role == Role::Server || !is_near {
            return Ok(());
        }
        let kex = self.session.as_ref().map(|session| session.agreement.kex);
        if let Some(kex) = kex.filter(|kex| kex.family() != KexFamily::DhGroupExchange) {
            self.prepared = Some(Half::new(kex)?);
        }
        Ok(())
    }

    /// Bytes that may be sent before the limit; 0 while keys change.
    pub(super) fn bytes_left(&self, outbound: &Outbound) -> u64 {
        match self.state {
            Kex::Idle => self.limits.bytes_left(outbound),
            _ => 0,
        }
    }

    /// Returns true if the new keys of an exchange that the peer has not completed have reached the limit
    /// already: the next exchange cannot start yet, so bulk data waits. A peer that is far away would
    /// otherwise get a window of data under each pair of keys, whatever the limit.
    pub(super) fn is_spent(&self, outbound: &Outbound) -> bool {
        !self.state.is_idle()
            && !self.state.holds_output()
            && self.session.is_some()
            && self.limits.are_spent(outbound)
    }

    /// Maximum channel data that may wait for the end of an exchange, bytes; none during the first.
    pub(super) fn most_held_bulk(&self) -> usize {
        match self.session {
            None if self.state.holds_output() => 0,
            _ => self.limits.most_held_bulk(),
        }
    }

    /// Time at which an exchange is due or, if one is running, has taken too long. The owner's login
    /// or connect timeout limits the first exchange.
    pub(super) fn deadline(&self, authenticated: bool) -> Option<Millis> {
        self.session.as_ref()?;
        match self.state {
            Kex::Idle if authenticated => self.limits.next_at(self.completed_at),
            _ => self.state.since().map(rekey::ends_at),
        }
    }
}

impl Exchanging<'_> {
    // ---- KEXINIT --------------------------------------------------------------------------

    /// Starts an exchange: sends our KEXINIT.
    pub(super) fn start(&mut self) -> Result<(), Error> {
        let guess = match self.guessed_method() {
            Some(kex) => Some(self.take_half(kex)?),
            None => None,
        };
        let cookie = self.exchange.cookie.take();
        if let Some(session) = &self.exchange.session {
            let by_gss = session.is_by_gss();
            self.exchange.offer.narrow_for_rekeys(self.role, by_gss);
        }
        let before = self
            .exchange
            .session
            .as_ref()
            .map(|session| &session.agreement);
        let ours = negotiate::proposal(
            &self.exchange.offer,
            self.role,
            before,
            guess.is_some(),
            cookie,
        );
        let ours = match &guess {
            Some(guess) if before.is_none() => self.fitting(ours, guess.public.len()),
            _ => ours,
        };
        // Not a buffer for bulk data, which the connection would keep.
        let buf = PacketBuf::from_payload(&ours);
        self.outbound.send(buf, None, None, false)?;
        if let Some(guess) = &guess {
            self.send_init(guess)?;
        }
        self.exchange.state = Kex::InitSent {
            ours,
            guess,
            since: self.now,
        };
        Ok(())
    }

    /// The method that the server is expected to agree to, if we guess. The guess in a rekey is the
    /// method in use, provided that the server preferred it in the last exchange and is known to
    /// support guesses.
    fn guessed_method(&self) -> Option<KexAlgorithm> {
        if self.role == Role::Server {
            return None;
        }
        let kex = match &self.exchange.session {
            None if self.config.guess.first_packet_follows => {
                self.exchange.offer.kex.first().copied()
            }
            None => None,
            Some(session) => (self.exchange.server_names_it_first
                && self.versions.peer_quirks().accepts_rekey_guess)
                .then_some(session.agreement.kex),
        };
        kex.filter(|kex| kex.family() != KexFamily::DhGroupExchange && !kex.is_gss())
    }

    /// Our key pair for an exchange: the one created in advance, if it matches, or a new one.
    fn take_half(&mut self, kex: KexAlgorithm) -> Result<Box<Half>, Error> {
        match self.exchange.prepared.take().filter(|half| half.kex == kex) {
            Some(half) => Ok(half),
            None => Half::new(kex),
        }
    }

    /// Processes a message of the key exchange, numbers 20 to 49; returns true if the connection's
    /// first exchange is complete.
    pub(super) fn handle(&mut self, sequence: u32, payload: &[u8]) -> Result<bool, Error> {
        let number = payload.first().copied().unwrap_or_default();
        if number == KexInit::NUMBER {
            return self.handle_kexinit(sequence, payload).map(|()| false);
        }
        let Kex::Running { mut terms, step } = self.exchange.state.take() else {
            return Err(Error::NotPermitted { message: number });
        };
        if number == NewKeys::NUMBER {
            return self.handle_newkeys(&terms, step);
        }
        if core::mem::take(&mut terms.skip_next) {
            self.exchange.state = Kex::Running { terms, step };
            return Ok(false);
        }
        match step {
            KexStep::Client(step) => self.handle_as_client(terms, step, payload),
            KexStep::Server(step) => self.handle_as_server(terms, step, payload),
            KexStep::NewKeys { .. } => Err(Error::NotPermitted { message: number }),
        }
        .map(|()| false)
    }

    fn handle_kexinit(&mut self, sequence: u32, payload: &[u8]) -> Result<(), Error> {
        if matches!(self.exchange.state, Kex::Running { .. }) {
            return Err(Error::PeerMisbehaved("KEXINIT during a key exchange"));
        }
        if self.exchange.state.is_idle() {
            if !self.authenticated && self.exchange.session.is_some() {
                return Err(Error::PeerMisbehaved("rekey before login"));
            }
            self.start()?;
        }
        let Kex::InitSent { ours, guess, since } = self.exchange.state.take() else {
            return Err(Error::Bug("own KEXINIT missing"));
        };
        let first = self.exchange.session.is_none();
        let theirs = KexInit::decode(payload)?;
        if first && self.role == Role::Client {
            let owned = |list: NameList<'_>| list.iter().map(String::from).collect();
            self.exchange.first_inits.peer_lists = Some(PeerLists {
                kex: owned(theirs.kex),
                host_key: owned(theirs.host_key),
            });
        }
        let (agreement, markers) = negotiate::agree(
            &self.exchange.offer,
            self.role,
            &KexInit::decode(&ours)?,
            &theirs,
        )?;
        // Both names count: a server ignores the guessed packet if either differs.
        if first {
            self.check_short(&agreement, &theirs)?;
            self.exchange.first_inits.guess_was_right = guess.as_ref().map(|_| markers.same_first);
            self.exchange.first_inits.peer_guessed = theirs.first_kex_packet_follows;
        }
        self.exchange.server_names_it_first = markers.server_names_it_first;
        let guess = guess.filter(|guess| markers.same_first && guess.kex == agreement.kex);
        // Both first KEXINITs must promise strict KEX; then the peer's KEXINIT must be its first
        // message (Terrapin: a prefix cut from the stream would show here).
        let strict_kex = match &self.exchange.session {
            Some(session) => session.strict_kex,
            None => markers.strict_kex,
        };
        if first && strict_kex && sequence != 0 {
            return Err(Error::PeerMisbehaved(
                "a message before KEXINIT under strict key exchange",
            ));
        }
        let (client_init, server_init) = match self.role {
            Role::Client => (ours, payload.to_vec()),
            Role::Server => (payload.to_vec(), ours),
        };
        let step = match self.role {
            Role::Client => KexStep::Client(self.begin_as_client(&agreement, guess)?),
            Role::Server => KexStep::Server(match agreement.kex.family() {
                _ if agreement.kex.is_gss() => ServerStep::GssInit,
                KexFamily::DhGroupExchange => ServerStep::GexRequest,
                _ => ServerStep::Init(None),
            }),
        };
        let terms = Box::new(KexTerms {
            agreement,
            first,
            strict_kex,
            peer_wants_ext_info: markers.ext_info,
            since,
            skip_next: markers.wrong_guess_follows,
            client_init,
            server_init,
            group_exchange: None,
        });
        self.exchange.state = Kex::Running { terms, step };
        Ok(())
    }

    /// Inputs of the exchange hash from before the exchange of public values.
    fn transcript<'a>(&'a self, terms: &'a KexTerms, host_key: &'a [u8]) -> Transcript<'a> {
        let peer = self.versions.peer().unwrap_or_default().as_bytes();
        let own = self.versions.ours().as_bytes();
        let (client_version, server_version) = match self.role {
            Role::Client => (own, peer),
            Role::Server => (peer, own),
        };
        Transcript {
            client_version,
            server_version,
            client_init: &terms.client_init,
            server_init: &terms.server_init,
            host_key,
        }
    }
}
