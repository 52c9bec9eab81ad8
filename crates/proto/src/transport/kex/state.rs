//! The states of a key exchange: one enum for both sides, in which each state has the data that its
//! next message needs.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crypto::hash::Digest;
use crypto::kex::{Initiator, KexAlgorithm};
use zeroize::Zeroizing;

use super::derive::{GroupSizes, RequestedGroup};
use super::negotiate::Agreement;
use crate::permits::ConnectionPhase;
use crate::transport::epoch_keys::EpochKeys;
use crate::{Error, GroupExchange, Millis};

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
    Running { terms: Box<KexTerms>, step: KexStep },
    /// Placeholder while one message is processed: an exchange is running. Remains only if an error
    /// ends the connection.
    Moving,
}

/// What both KEXINITs have settled.
pub(super) struct KexTerms {
    pub(super) agreement: Agreement,
    /// The first exchange of the connection.
    pub(super) first: bool,
    pub(super) strict_kex: bool,
    pub(super) peer_wants_ext_info: bool,
    pub(super) since: Millis,
    /// The peer's next packet is a wrong guess.
    pub(super) skip_next: bool,
    pub(super) client_init: Vec<u8>,
    pub(super) server_init: Vec<u8>,
    /// Client: the group exchange, once the server has chosen the group.
    pub(super) group_exchange: Option<GroupExchange>,
}

/// A client's key pair for a method that may not be negotiated yet. Used for one exchange only, and
/// wiped when dropped.
pub(super) struct Half {
    pub(super) kex: KexAlgorithm,
    pub(super) initiator: Initiator,
    pub(super) public: Vec<u8>,
}

impl Half {
    pub(super) fn new(kex: KexAlgorithm) -> Result<Box<Self>, Error> {
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
    Client(ClientStep),
    Server(ServerStep),
    /// Our NEWKEYS is sent: awaits the peer's.
    NewKeys {
        theirs: EpochKeys,
    },
}

pub(super) enum ClientStep {
    /// Awaits the group.
    Group,
    /// Awaits KEX_*_REPLY, after group exchange in that group.
    Reply {
        half: Box<Half>,
        group: Option<RequestedGroup>,
    },
    /// Awaits the owner's decision about the host key.
    Decision(KexOutcome),
    /// GSS-API: awaits a token of the owner or a message of the server.
    Gss(Box<GssClient>),
    /// GSS-API: awaits the owner's verification of the MIC.
    GssProof(Box<KexOutcome>),
}

pub(super) enum ServerStep {
    /// Awaits GEX_REQUEST.
    GexRequest,
    /// Awaits the owner's choice of a group.
    GroupChoice(GroupSizes),
    /// Awaits KEX_*_INIT, after group exchange in that group.
    Init(Option<RequestedGroup>),
    /// Awaits the host key's signature; `public` is our public value.
    Signature {
        outcome: KexOutcome,
        public: Vec<u8>,
    },
    /// Awaits KEXGSS_INIT.
    GssInit,
    /// GSS-API: awaits the owner's answer or the client's token.
    Gss(Box<GssServer>),
}

/// GSS-API: the client's state of an exchange.
pub(super) struct GssClient {
    pub(super) half: Box<Half>,
    /// The content of HOSTKEY.
    pub(super) host_key: Option<Vec<u8>>,
    /// Number of the server's tokens.
    pub(super) tokens: u32,
    pub(super) turn: ClientTurn,
}

/// Whose turn it is.
pub(super) enum ClientTurn {
    /// The owner's: our first token.
    First,
    /// The server's; true if our context is established.
    Server(bool),
    /// The owner's: the answer to a token.
    Answer,
}

impl GssClient {
    pub(super) fn new(half: Box<Half>) -> Box<Self> {
        Box::new(Self {
            half,
            host_key: None,
            tokens: 0,
            turn: ClientTurn::First,
        })
    }

    pub(super) fn waits_for_owner(&self) -> bool {
        !matches!(self.turn, ClientTurn::Server(_))
    }
}

/// GSS-API: the server's state of an exchange after INIT.
pub(super) struct GssServer {
    pub(super) public: Vec<u8>,
    pub(super) outcome: KexOutcome,
    /// Number of the client's tokens.
    pub(super) tokens: u32,
    pub(super) waits_for_owner: bool,
}

/// Results of an exchange.
pub(super) struct KexOutcome {
    pub(super) hash: Digest,
    pub(super) secret: Zeroizing<Vec<u8>>,
    pub(super) host_key: Vec<u8>,
    /// Client: the server's signature over `hash`.
    pub(super) host_signature: Vec<u8>,
}

impl Kex {
    /// Takes the state; an exchange is running until the next one is set.
    pub(super) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::Moving)
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    /// Returns true if messages above the transport must wait (RFC 4253 §7.1).
    pub(super) fn holds_output(&self) -> bool {
        !matches!(
            self,
            Self::Idle
                | Self::Running {
                    step: KexStep::NewKeys { .. },
                    ..
                }
        )
    }

    /// Returns true if the peer's NEWKEYS may arrive. After a guess it can follow the KEXINIT at
    /// once.
    pub(super) fn may_change_keys(&self) -> bool {
        matches!(
            self,
            Self::Running { .. } | Self::InitSent { guess: Some(_), .. }
        )
    }

    /// Restarts the time limit, because output has left: before that the peer could not answer the
    /// messages queued after it. On a slow line our KEXINIT may wait for minutes in the queue.
    pub(super) fn progressed(&mut self, now: Millis) {
        match self {
            Self::InitSent { since, .. } => *since = now,
            Self::Running { terms, .. } => terms.since = now,
            Self::Idle | Self::Moving => {}
        }
    }

    /// The time from which the peer's next message is awaited.
    pub(super) fn since(&self) -> Option<Millis> {
        match self {
            Self::InitSent { since, .. } => Some(*since),
            Self::Running { terms, .. } => Some(terms.since),
            Self::Idle | Self::Moving => None,
        }
    }

    /// Returns true while the owner owes an answer; no input is processed then.
    pub(super) fn waits_for_owner(&self) -> bool {
        let Self::Running { step, .. } = self else {
            return false;
        };
        match step {
            KexStep::Client(ClientStep::Gss(gss)) => gss.waits_for_owner(),
            KexStep::Server(ServerStep::Gss(gss)) => gss.waits_for_owner,
            _ => matches!(
                step,
                KexStep::Client(ClientStep::Decision(_) | ClientStep::GssProof(_))
                    | KexStep::Server(ServerStep::GroupChoice(_) | ServerStep::Signature { .. })
            ),
        }
    }

    /// The phase for permissions, if the exchange determines it; `first` before the end of the first
    /// one.
    pub(super) fn phase(&self, first: bool) -> Option<ConnectionPhase> {
        match self {
            Self::Running { terms, .. } if terms.first && terms.strict_kex => {
                Some(ConnectionPhase::StrictFirstKex)
            }
            _ if first => Some(ConnectionPhase::FirstKex),
            Self::Running { terms, .. } if terms.first => Some(ConnectionPhase::FirstKex),
            Self::Running { .. } => Some(ConnectionPhase::Rekey),
            Self::Idle | Self::InitSent { .. } | Self::Moving => None,
        }
    }
}
