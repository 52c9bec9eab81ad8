//! The SSH sessions to which a connection is bound (OpenSSH PROTOCOL.agent §1), in the order of the
//! hops from this machine.

use agent::request::{MAX_SESSION_IDENTIFIER_BYTES, SessionBind};
use keys::{KeyError, PresentedKey, Signature, VerifyPolicy};

/// Largest number of bindings of a connection, as in OpenSSH.
const MAX_BINDINGS: usize = 16;
/// Smallest modulus of a host key. The SSH client decides whether it trusts the host.
const MIN_RSA_BITS: usize = 1024;

/// One hop.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) host: PresentedKey,
    pub(crate) session_identifier: Vec<u8>,
    /// Requests come from this host; else they log in there.
    pub(crate) is_forwarding: bool,
}

/// The hops of a connection.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    hops: Vec<Binding>,
    is_attempted: bool,
}

/// Why a binding is refused.
#[derive(Debug)]
pub(crate) enum BindError {
    HostKey(KeyError),
    Signature,
    LongIdentifier,
    AfterLogin,
    OtherKey,
    TooMany,
}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::HostKey(error) => write!(f, "its host key: {error}"),
            Self::Signature => f.write_str("the host key has not signed the session identifier"),
            Self::LongIdentifier => f.write_str("its session identifier is too long"),
            Self::AfterLogin => f.write_str("the connection is already bound for a login"),
            Self::OtherKey => f.write_str("its session is bound to another host key"),
            Self::TooMany => write!(f, "more than {MAX_BINDINGS} bindings"),
        }
    }
}

impl Bindings {
    pub(crate) fn hops(&self) -> &[Binding] {
        &self.hops
    }

    /// A request to bind has arrived, whether or not it is valid.
    pub(crate) fn attempted(&mut self) {
        self.is_attempted = true;
    }

    /// True if requests may come from another machine: the connection is bound, or an attempt has
    /// failed.
    pub(crate) fn is_remote(&self) -> bool {
        self.is_attempted
    }

    /// True if an attempt to bind has failed and none has succeeded: nothing is known about the
    /// path, so that a restricted key must not be used.
    pub(crate) fn has_failed(&self) -> bool {
        self.is_attempted && self.hops.is_empty()
    }

    /// Verifies a binding and records it.
    pub(crate) fn bind(&mut self, request: &SessionBind<'_>) -> Result<(), BindError> {
        self.attempted();
        if request.session_identifier.len() > MAX_SESSION_IDENTIFIER_BYTES {
            return Err(BindError::LongIdentifier);
        }
        let host = PresentedKey::from_blob(request.host_key).map_err(BindError::HostKey)?;
        verify(&host, request)?;
        for hop in &self.hops {
            if !hop.is_forwarding {
                return Err(BindError::AfterLogin);
            }
            if hop.session_identifier == request.session_identifier {
                return match hop.host == host {
                    true => Ok(()),
                    false => Err(BindError::OtherKey),
                };
            }
        }
        if self.hops.len() >= MAX_BINDINGS {
            return Err(BindError::TooMany);
        }
        self.hops.push(Binding {
            host,
            session_identifier: request.session_identifier.to_vec(),
            is_forwarding: request.is_forwarding,
        });
        Ok(())
    }
}

fn verify(host: &PresentedKey, request: &SessionBind<'_>) -> Result<(), BindError> {
    let policy = VerifyPolicy::of_host(MIN_RSA_BITS);
    let bad = |_| BindError::Signature;
    let algorithm = Signature::from_blob(request.signature)
        .map_err(bad)?
        .algorithm;
    let (identifier, signature) = (request.session_identifier, request.signature);
    host.key()
        .verify(algorithm, identifier, signature, &policy)
        .map_err(bad)
}
