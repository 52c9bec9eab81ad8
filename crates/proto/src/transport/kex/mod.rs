//! Key exchange as a state machine: RFC 4253 §7–8, RFC 4419, RFC 5656, RFC 8731 and the hybrids.
//! Hashes and key derivation are in `derive`, negotiation in `negotiate`, and the switch of keys in
//! `newkeys`.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crypto::hash::Digest;
use crypto::kex::{DhGroup, DhPolicy, Initiator, KexAlgorithm, KexFamily, Primality, SharedSecret};
use wire::message::{
    Encode, KexDhInit, KexDhReply, KexEcdhInit, KexEcdhReply, KexGexGroup, KexGexInit, KexGexReply,
    KexGexRequest, KexInit, NewKeys,
};
use wire::{Mpint, NameList};
use zeroize::Zeroizing;

use super::{Dispatch, Transport};
use crate::permits::ConnectionPhase;
use crate::{Error, Event, Millis, Role};

mod derive;
mod host_key;
mod negotiate;
mod newkeys;
mod rekey;
mod short;

pub(crate) use derive::EpochKeys;
use derive::{PublicValues, Transcript, encode_secret, exchange_hash};
pub(super) use negotiate::PeerLists;
pub(crate) use negotiate::{Agreement, DirectionSuite};

/// State of the current key exchange.
pub(super) enum Kex {
    /// No exchange is running.
    Idle,
    /// Our KEXINIT is sent, the peer's has not arrived. A client that guessed the method has sent
    /// its first packet, too.
    InitSent {
        ours: Vec<u8>,
        guess: Option<Box<Half>>,
        since: Millis,
    },
    /// Both KEXINITs are known.
    Running(Box<Running>),
    /// Placeholder while one message is processed: an exchange is running. Remains only if an error
    /// ends the connection.
    Moving,
}

/// A running exchange with negotiated algorithms.
pub(super) struct Running {
    pub(super) agreement: Agreement,
    pub(super) first: bool,
    pub(super) strict_kex: bool,
    pub(super) peer_wants_ext_info: bool,
    pub(super) newkeys_sent: bool,
    pub(super) since: Millis,
    pub(super) step: KexStep,
    skip_next: bool,
    client_init: Vec<u8>,
    server_init: Vec<u8>,
}

/// A client's key pair for a method that may not be negotiated yet. Used for one exchange only, and
/// wiped when dropped.
pub(super) struct Half {
    kex: KexAlgorithm,
    initiator: Initiator,
    public: Vec<u8>,
}

impl Half {
    fn new(kex: KexAlgorithm) -> Result<Box<Self>, Error> {
        let (initiator, public) = Initiator::new(kex)?;
        Ok(Box::new(Self {
            kex,
            initiator,
            public,
        }))
    }
}

/// The next step of a running exchange.
pub(super) enum KexStep {
    /// Client: awaits KEX_*_REPLY.
    ClientReply {
        initiator: Initiator,
        public: Vec<u8>,
    },
    /// Client: awaits the group.
    ClientGroup,
    /// Client: awaits the reply in the group.
    ClientGexReply {
        initiator: Initiator,
        public: Vec<u8>,
        group: DhGroup,
    },
    /// Client: awaits the owner's decision about the host key.
    ClientDecision { outcome: KexOutcome },
    /// Server: awaits KEX_*_INIT.
    ServerInit,
    /// Server: awaits GEX_REQUEST.
    ServerGexRequest,
    /// Server: awaits the owner's choice of a group.
    ServerGroupChoice { request: (u32, u32, u32) },
    /// Server: awaits GEX_INIT.
    ServerGexInit {
        request: (u32, u32, u32),
        group: DhGroup,
    },
    /// Server: awaits the host key's signature.
    ServerSignature {
        outcome: KexOutcome,
        reply: KexReply,
    },
    /// Awaits the peer's NEWKEYS.
    NewKeys { theirs: EpochKeys },
}

/// Results of an exchange.
pub(super) struct KexOutcome {
    pub(super) hash: Digest,
    pub(super) secret: Zeroizing<Vec<u8>>,
    pub(super) host_key: Vec<u8>,
}

/// The server's public value, by the message that contains it.
pub(super) enum KexReply {
    Ecdh(Vec<u8>),
    Dh(Vec<u8>),
    Gex(Vec<u8>),
}

impl Kex {
    /// Returns true if messages above the transport must wait (RFC 4253 §7.1).
    pub(super) fn holds_output(&self) -> bool {
        match self {
            Self::Idle => false,
            Self::InitSent { .. } | Self::Moving => true,
            Self::Running(running) => !running.newkeys_sent,
        }
    }

    /// Returns true if the peer's NEWKEYS may arrive. After a guess it can follow the KEXINIT at
    /// once.
    pub(super) fn may_change_keys(&self) -> bool {
        matches!(
            self,
            Self::Running(_) | Self::InitSent { guess: Some(_), .. }
        )
    }

    /// Restarts the time limit, because output has left: before that the peer could not answer the
    /// messages queued after it. On a slow line our KEXINIT may wait for minutes in the queue.
    pub(super) fn progressed(&mut self, now: Millis) {
        match self {
            Self::InitSent { since, .. } => *since = now,
            Self::Running(running) => running.since = now,
            Self::Idle | Self::Moving => {}
        }
    }

    /// Returns true while the owner owes an answer; no input is processed then.
    pub(super) fn waits_for_owner(&self) -> bool {
        matches!(self, Self::Running(running) if matches!(
            running.step,
            KexStep::ClientDecision { .. } | KexStep::ServerGroupChoice { .. } | KexStep::ServerSignature { .. }
        ))
    }

    /// The phase for permissions, if the exchange determines it.
    pub(super) fn phase(&self, first: bool) -> Option<ConnectionPhase> {
        match self {
            Self::Running(running) if running.first && running.strict_kex => {
                Some(ConnectionPhase::StrictFirstKex)
            }
            _ if first => Some(ConnectionPhase::FirstKex),
            Self::Running(running) if running.first => Some(ConnectionPhase::FirstKex),
            Self::Running(_) => Some(ConnectionPhase::Rekey),
            Self::Idle | Self::InitSent { .. } | Self::Moving => None,
        }
    }
}

impl Transport {
    /// Starts an exchange: sends our KEXINIT.
    pub(super) fn start_exchange(&mut self) -> Result<(), Error> {
        let guess = self.guess()?;
        // For the first exchange, which is the first to take it.
        let cookie = self.config.cookie.take();
        let before = self.session.as_ref().map(|session| &session.agreement);
        let ours = negotiate::proposal(&self.offer, self.role, before, guess.is_some(), cookie);
        let ours = match &guess {
            Some(guess) if before.is_none() => self.fitting(ours, guess.public.len()),
            _ => ours,
        };
        let mut buf = self.take_buffer(ours.len());
        buf.extend(&ours);
        let guessed = guess
            .as_ref()
            .map(|guess| (guess.kex.family(), guess.public.clone()));
        // The state changes first: whatever `send` starts must see that an exchange is running.
        self.kex = Kex::InitSent {
            ours,
            guess,
            since: self.now,
        };
        self.send(buf)?;
        match guessed {
            Some((family, public)) => self.send_client_init(family, &public),
            None => Ok(()),
        }
    }

    /// Returns our key pair of the method that the server is expected to agree to, if we guess.
    fn guess(&mut self) -> Result<Option<Box<Half>>, Error> {
        match self.guessed_method() {
            Some(kex) => self.take_half(kex).map(Some),
            None => Ok(None),
        }
    }

    /// The guess in a rekey is the method in use, provided that the server preferred it in the last
    /// exchange and is known to support guesses.
    fn guessed_method(&self) -> Option<KexAlgorithm> {
        if self.role == Role::Server {
            return None;
        }
        let kex = match &self.session {
            None if self.config.guess => self.offer.kex.first().copied(),
            None => None,
            Some(session) => (self.server_names_it_first && self.peer_quirks().accepts_rekey_guess)
                .then_some(session.agreement.kex),
        };
        kex.filter(|kex| kex.family() != KexFamily::DhGroupExchange)
    }

    /// Our key pair for an exchange: the one created in advance, if it matches, or a new one.
    fn take_half(&mut self, kex: KexAlgorithm) -> Result<Box<Half>, Error> {
        match self.prepared.take().filter(|half| half.kex == kex) {
            Some(half) => Ok(half),
            None => Half::new(kex),
        }
    }

    /// Creates our key pair for the next exchange in advance, if a limit of ours is near.
    pub(crate) fn prepare_rekey(&mut self) -> Result<(), Error> {
        if self.prepared.is_some() || self.role == Role::Server || !self.rekey_is_near() {
            return Ok(());
        }
        let kex = self.session.as_ref().map(|session| session.agreement.kex);
        if let Some(kex) = kex.filter(|kex| kex.family() != KexFamily::DhGroupExchange) {
            self.prepared = Some(Half::new(kex)?);
        }
        Ok(())
    }

    fn send_client_init(&mut self, family: KexFamily, public: &[u8]) -> Result<(), Error> {
        match family {
            KexFamily::Dh => self.send_message(&KexDhInit {
                public: Mpint::from_magnitude(public),
            }),
            _ => self.send_message(&KexEcdhInit { public }),
        }
    }

    /// Processes a message of the key exchange, numbers 20 to 49.
    pub(super) fn handle_kex(&mut self, sequence: u32, payload: &[u8]) -> Result<Dispatch, Error> {
        let number = payload.first().copied().unwrap_or_default();
        if number == KexInit::NUMBER {
            return self
                .handle_kexinit(sequence, payload)
                .map(|()| Dispatch::Handled);
        }
        let Kex::Running(mut running) = core::mem::replace(&mut self.kex, Kex::Moving) else {
            return Err(Error::NotPermitted { message: number });
        };
        if number == NewKeys::NUMBER {
            return self.handle_newkeys(running);
        }
        if core::mem::take(&mut running.skip_next) {
            self.kex = Kex::Running(running);
            return Ok(Dispatch::Handled);
        }
        self.step(running, number, payload)
            .map(|()| Dispatch::Handled)
    }

    fn handle_kexinit(&mut self, sequence: u32, payload: &[u8]) -> Result<(), Error> {
        if matches!(self.kex, Kex::Running(_)) {
            return Err(Error::PeerMisbehaved("KEXINIT during a key exchange"));
        }
        if matches!(self.kex, Kex::Idle) {
            if !self.authenticated && self.session.is_some() {
                return Err(Error::PeerMisbehaved("rekey before login"));
            }
            self.start_exchange()?;
        }
        let Kex::InitSent { ours, guess, since } = core::mem::replace(&mut self.kex, Kex::Moving)
        else {
            return Err(Error::Bug("own KEXINIT missing"));
        };
        let first = self.session.is_none();
        let theirs = KexInit::decode(payload)?;
        if first && self.role == Role::Client {
            let owned = |list: NameList<'_>| list.iter().map(String::from).collect();
            self.peer_lists = Some(PeerLists {
                kex: owned(theirs.kex),
                host_key: owned(theirs.host_key),
            });
        }
        let (agreement, markers) =
            negotiate::agree(&self.offer, self.role, &KexInit::decode(&ours)?, &theirs)?;
        if first {
            self.check_short(&agreement, &theirs)?;
        }
        // Both names count: a server ignores the guessed packet if either differs.
        if first {
            self.guess_was_right = guess.as_ref().map(|_| markers.same_first);
            self.peer_guessed = theirs.first_kex_packet_follows;
        }
        self.server_names_it_first = markers.server_names_it_first;
        let guess = guess.filter(|guess| markers.same_first && guess.kex == agreement.kex);
        // Both first KEXINITs must promise strict KEX; then the peer's KEXINIT must be its first
        // message (Terrapin: a prefix cut from the stream would show here).
        let strict_kex = match &self.session {
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
        let running = Box::new(Running {
            agreement,
            first,
            strict_kex,
            peer_wants_ext_info: markers.ext_info,
            newkeys_sent: false,
            since,
            step: KexStep::ServerInit,
            skip_next: markers.wrong_guess_follows,
            client_init,
            server_init,
        });
        match self.role {
            Role::Client => self.begin_as_client(running, guess),
            Role::Server => {
                self.begin_as_server(running);
                Ok(())
            }
        }
    }

    fn begin_as_client(
        &mut self,
        mut running: Box<Running>,
        guess: Option<Box<Half>>,
    ) -> Result<(), Error> {
        if let Some(guess) = guess {
            let Half {
                initiator, public, ..
            } = *guess;
            running.step = KexStep::ClientReply { initiator, public };
            self.kex = Kex::Running(running);
            return Ok(());
        }
        let kex = running.agreement.kex;
        if kex.family() == KexFamily::DhGroupExchange {
            let (min, preferred, max) = self.config.group_exchange_bits;
            running.step = KexStep::ClientGroup;
            self.kex = Kex::Running(running);
            return self.send_message(&KexGexRequest {
                min,
                preferred,
                max,
            });
        }
        let Half {
            initiator, public, ..
        } = *self.take_half(kex)?;
        let sent = self.send_client_init(kex.family(), &public);
        running.step = KexStep::ClientReply { initiator, public };
        self.kex = Kex::Running(running);
        sent
    }

    fn begin_as_server(&mut self, mut running: Box<Running>) {
        running.step = match running.agreement.kex.family() {
            KexFamily::DhGroupExchange => KexStep::ServerGexRequest,
            _ => KexStep::ServerInit,
        };
        self.kex = Kex::Running(running);
    }

    /// Processes a message specific to the method.
    fn step(&mut self, mut running: Box<Running>, number: u8, payload: &[u8]) -> Result<(), Error> {
        let family = running.agreement.kex.family();
        let step = core::mem::replace(&mut running.step, KexStep::ServerInit);
        match (step, number, family) {
            (KexStep::ClientReply { initiator, public }, 31, KexFamily::Dh) => {
                let reply = KexDhReply::decode(payload)?;
                let secret = initiator.finish(reply.public.magnitude())?;
                let values = PublicValues::Mpints {
                    e: &public,
                    f: reply.public.magnitude(),
                };
                self.client_proven(running, reply.host_key, reply.signature, &values, &secret)
            }
            (KexStep::ClientReply { initiator, public }, 31, _) => {
                let reply = KexEcdhReply::decode(payload)?;
                let secret = initiator.finish(reply.public)?;
                let values = PublicValues::Strings {
                    client: &public,
                    server: reply.public,
                };
                self.client_proven(running, reply.host_key, reply.signature, &values, &secret)
            }
            (KexStep::ClientGroup, 31, _) => self.client_group(running, payload),
            (
                KexStep::ClientGexReply {
                    initiator,
                    public,
                    group,
                },
                33,
                _,
            ) => {
                let reply = KexGexReply::decode(payload)?;
                let secret = initiator.finish(reply.public.magnitude())?;
                let values = PublicValues::Group {
                    request: self.config.group_exchange_bits,
                    p: &group.p(),
                    g: &group.g(),
                    e: &public,
                    f: reply.public.magnitude(),
                };
                self.client_proven(running, reply.host_key, reply.signature, &values, &secret)
            }
            (KexStep::ServerInit, 30, KexFamily::Dh) => {
                let init = KexDhInit::decode(payload)?;
                let (public, secret) =
                    crypto::kex::respond(running.agreement.kex, init.public.magnitude())?;
                let values = PublicValues::Mpints {
                    e: init.public.magnitude(),
                    f: &public,
                };
                self.server_proof(running, &values, &secret, KexReply::Dh(public.clone()))
            }
            (KexStep::ServerInit, 30, _) => {
                let init = KexEcdhInit::decode(payload)?;
                let (public, secret) = crypto::kex::respond(running.agreement.kex, init.public)?;
                let values = PublicValues::Strings {
                    client: init.public,
                    server: &public,
                };
                self.server_proof(running, &values, &secret, KexReply::Ecdh(public.clone()))
            }
            (KexStep::ServerGexRequest, 34, _) => {
                let request = KexGexRequest::decode(payload)?;
                self.server_gex_request(running, (request.min, request.preferred, request.max))
            }
            (KexStep::ServerGexInit { request, group }, 32, _) => {
                let init = KexGexInit::decode(payload)?;
                let (public, secret) =
                    crypto::kex::respond_with_group(&group, init.public.magnitude())?;
                let values = PublicValues::Group {
                    request,
                    p: &group.p(),
                    g: &group.g(),
                    e: init.public.magnitude(),
                    f: &public,
                };
                self.server_proof(running, &values, &secret, KexReply::Gex(public.clone()))
            }
            _ => Err(Error::NotPermitted { message: number }),
        }
    }

    fn transcript<'a>(&'a self, running: &'a Running, host_key: &'a [u8]) -> Transcript<'a> {
        let peer = self.peer_version.as_deref().unwrap_or_default().as_bytes();
        let own = self.our_version.as_bytes();
        let (client_version, server_version) = match self.role {
            Role::Client => (own, peer),
            Role::Server => (peer, own),
        };
        Transcript {
            client_version,
            server_version,
            client_init: &running.client_init,
            server_init: &running.server_init,
            host_key,
        }
    }

    // ---- client ---------------------------------------------------------------------------

    fn client_group(&mut self, mut running: Box<Running>, payload: &[u8]) -> Result<(), Error> {
        let message = KexGexGroup::decode(payload)?;
        let (min, _, max) = self.config.group_exchange_bits;
        let group = DhGroup::new(
            message.p.magnitude(),
            message.g.magnitude(),
            &received_group_policy(min, max),
        )
        .map_err(|_| {
            Error::PeerMisbehaved("the server's group is not safe or not of the requested size")
        })?;
        let (initiator, public) = Initiator::with_group(&group)?;
        let sent = self.send_message(&KexGexInit {
            public: Mpint::from_magnitude(&public),
        });
        running.step = KexStep::ClientGexReply {
            initiator,
            public,
            group,
        };
        self.kex = Kex::Running(running);
        sent
    }

    /// Verifies the server's signature in its reply. Then the owner decides about the host key; in
    /// a rekey it must equal the accepted one.
    fn client_proven(
        &mut self,
        mut running: Box<Running>,
        key: &[u8],
        signature: &[u8],
        values: &PublicValues<'_>,
        secret: &SharedSecret,
    ) -> Result<(), Error> {
        let secret = encode_secret(secret);
        let agreement = running.agreement;
        let hash = exchange_hash(
            agreement.kex.hash(),
            &self.transcript(&running, key),
            values,
            &secret,
        );
        host_key::verify(
            agreement.host_key,
            key,
            hash.as_ref(),
            signature,
            &self.config.authorities(),
            self.config.min_rsa_bits,
        )?;
        let outcome = KexOutcome {
            hash,
            secret,
            host_key: key.to_vec(),
        };
        match &self.session {
            Some(session) if session.host_key == outcome.host_key => {
                self.finish_exchange(running, &outcome)
            }
            Some(_) => Err(Error::PeerMisbehaved("the host key changed at a rekey")),
            None => {
                self.events.push_back(Event::HostKey {
                    algorithm: agreement.host_key.name(),
                    key: outcome.host_key.clone(),
                });
                running.step = KexStep::ClientDecision { outcome };
                self.kex = Kex::Running(running);
                Ok(())
            }
        }
    }

    /// Continues after the owner has accepted the host key.
    pub(crate) fn accept_host_key(&mut self) -> Result<(), Error> {
        match core::mem::replace(&mut self.kex, Kex::Moving) {
            Kex::Running(mut running) if matches!(running.step, KexStep::ClientDecision { .. }) => {
                match core::mem::replace(&mut running.step, KexStep::ServerInit) {
                    KexStep::ClientDecision { outcome } => self.finish_exchange(running, &outcome),
                    _ => Err(Error::Bug("host key decision lost")),
                }
            }
            other => {
                self.kex = other;
                Err(Error::Misuse("no host key awaits a decision"))
            }
        }
    }

    // ---- server ---------------------------------------------------------------------------

    fn server_gex_request(
        &mut self,
        mut running: Box<Running>,
        request: (u32, u32, u32),
    ) -> Result<(), Error> {
        let (min, preferred, max) = request;
        if min > preferred || preferred > max || max < 2048 {
            return Err(Error::PeerMisbehaved(
                "group exchange sizes out of order or too small",
            ));
        }
        self.events.push_back(Event::ChooseGroup {
            min,
            preferred,
            max,
        });
        running.step = KexStep::ServerGroupChoice { request };
        self.kex = Kex::Running(running);
        Ok(())
    }

    /// Sends the owner's choice of a group; `None` ends the connection.
    pub(crate) fn provide_group(&mut self, group: Option<DhGroup>) -> Result<(), Error> {
        match core::mem::replace(&mut self.kex, Kex::Moving) {
            Kex::Running(mut running)
                if matches!(running.step, KexStep::ServerGroupChoice { .. }) =>
            {
                let KexStep::ServerGroupChoice { request } = running.step else {
                    return Err(Error::Bug("group request lost"));
                };
                let group = group.ok_or(Error::PeerMisbehaved("no group of the requested size"))?;
                let sent = self.send_message(&KexGexGroup {
                    p: Mpint::from_magnitude(&group.p()),
                    g: Mpint::from_magnitude(&group.g()),
                });
                running.step = KexStep::ServerGexInit { request, group };
                self.kex = Kex::Running(running);
                sent
            }
            other => {
                self.kex = other;
                Err(Error::Misuse("no group was requested"))
            }
        }
    }

    /// Computes the exchange hash from our public value and requests its signature.
    fn server_proof(
        &mut self,
        mut running: Box<Running>,
        values: &PublicValues<'_>,
        secret: &SharedSecret,
        reply: KexReply,
    ) -> Result<(), Error> {
        let agreement = running.agreement;
        let name = agreement.host_key.name();
        let key = self
            .host_keys
            .iter()
            .find(|key| key.algorithms.iter().any(|each| each == name))
            .map(|key| key.blob.clone())
            .ok_or(Error::Bug("negotiated a host key that does not exist"))?;
        let secret = encode_secret(secret);
        let hash = exchange_hash(
            agreement.kex.hash(),
            &self.transcript(&running, &key),
            values,
            &secret,
        );
        self.events.push_back(Event::SignExchangeHash {
            algorithm: name,
            kex: agreement.kex.name(),
            key: key.clone(),
            hash,
        });
        running.step = KexStep::ServerSignature {
            outcome: KexOutcome {
                hash,
                secret,
                host_key: key,
            },
            reply,
        };
        self.kex = Kex::Running(running);
        Ok(())
    }

    /// Sends the reply with the host key's signature over the exchange hash.
    pub(crate) fn provide_host_signature(&mut self, signature: &[u8]) -> Result<(), Error> {
        match core::mem::replace(&mut self.kex, Kex::Moving) {
            Kex::Running(mut running)
                if matches!(running.step, KexStep::ServerSignature { .. }) =>
            {
                let KexStep::ServerSignature { outcome, reply } =
                    core::mem::replace(&mut running.step, KexStep::ServerInit)
                else {
                    return Err(Error::Bug("signature request lost"));
                };
                let host_key = &outcome.host_key[..];
                match &reply {
                    KexReply::Ecdh(public) => {
                        self.send_message(&KexEcdhReply {
                            host_key,
                            public,
                            signature,
                        })?;
                    }
                    KexReply::Dh(public) => self.send_message(&KexDhReply {
                        host_key,
                        public: Mpint::from_magnitude(public),
                        signature,
                    })?,
                    KexReply::Gex(public) => self.send_message(&KexGexReply {
                        host_key,
                        public: Mpint::from_magnitude(public),
                        signature,
                    })?,
                }
                self.finish_exchange(running, &outcome)
            }
            other => {
                self.kex = other;
                Err(Error::Misuse("no signature was requested"))
            }
        }
    }
}

/// Policy for a group from a server. It is used with our secret, so it must be a safe prime of the
/// requested size.
fn received_group_policy(min_bits: u32, max_bits: u32) -> DhPolicy {
    let size = |bits| usize::try_from(bits).unwrap_or(usize::MAX);
    DhPolicy {
        min_bits: size(min_bits),
        max_bits: size(max_bits),
        primality: Primality::Safe,
    }
}
