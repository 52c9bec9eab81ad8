//! NEWKEYS, RFC 4253 §7.3: each one switches keys and compression of its own direction.

use alloc::boxed::Box;

use wire::message::NewKeys;

use super::derive::KeySource;
use super::{Kex, KexOutcome, KexStep, Running};
use crate::transport::{Dispatch, Transport, TransportSession};
use crate::{Error, Event, Role};

impl Transport {
    /// Completes a verified exchange: derives keys, sends NEWKEYS and switches our direction.
    pub(in crate::transport) fn finish_exchange(
        &mut self,
        mut running: Box<Running>,
        outcome: &KexOutcome,
    ) -> Result<(), Error> {
        let first = self.session.is_none();
        let session = match self.session.take() {
            Some(mut session) => {
                session.agreement = running.agreement;
                session
            }
            None => TransportSession {
                id: outcome.hash.as_ref().to_vec(),
                host_key: outcome.host_key.clone(),
                strict_kex: running.strict_kex,
                peer_wants_ext_info: running.peer_wants_ext_info,
                agreement: running.agreement,
            },
        };
        let source = KeySource {
            algorithm: running.agreement.kex.hash(),
            secret_encoded: &outcome.secret,
            hash: outcome.hash.as_ref(),
            session_id: &session.id,
        };
        let c2s = source.client_to_server(running.agreement.c2s);
        let s2c = source.server_to_client(running.agreement.s2c);
        let strict = session.strict_kex;
        self.session = Some(session);
        let (ours, theirs) = match self.role {
            Role::Client => (c2s, s2c),
            Role::Server => (s2c, c2s),
        };
        self.send_message(&NewKeys {})?;
        self.switch_keys(ours.seal()?, strict, ours.suite.compression);
        *self.our_keys_slot() = Some(ours);
        self.set_compressing();
        running.step = KexStep::NewKeys { theirs };
        running.newkeys_sent = true;
        self.kex = Kex::Running(running);
        if first {
            self.send_ext_info()?;
        }
        self.release_held()
    }

    /// Handles the peer's NEWKEYS and switches its direction.
    pub(in crate::transport) fn handle_newkeys(
        &mut self,
        running: Box<Running>,
    ) -> Result<Dispatch, Error> {
        let KexStep::NewKeys { theirs } = running.step else {
            return Err(Error::PeerMisbehaved(
                "NEWKEYS before the key exchange was complete",
            ));
        };
        if self.outstanding > 0 {
            // A later packet was opened with the old keys, because this one is longer than any
            // valid NEWKEYS.
            return Err(Error::PeerMisbehaved("NEWKEYS is too long"));
        }
        let session = self
            .session
            .as_ref()
            .ok_or(Error::Bug("keys without a session"))?;
        let strict = session.strict_kex;
        let negotiated = session.agreement.public(strict);
        self.splitter.set_keys(theirs.open()?, strict);
        *self.peer_keys_slot() = Some(theirs);
        self.restart_in_stream();
        self.kex = Kex::Idle;
        self.last_exchange = self.now;
        self.events.push_back(Event::KeysChanged {
            negotiated,
            first: running.first,
        });
        if running.first {
            Ok(Dispatch::FirstKeys)
        } else {
            Ok(Dispatch::Handled)
        }
    }
}
