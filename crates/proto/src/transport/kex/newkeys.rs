//! NEWKEYS, RFC 4253 §7.3: each one switches keys and compression of its own direction.

use alloc::boxed::Box;

use wire::message::NewKeys;

use super::derive::KeySource;
use super::state::{Kex, KexOutcome, KexStep, KexTerms};
use super::{Exchanging, TransportSession};
use crate::config::Compression;
use crate::transport::ext_info;
use crate::{Error, Event, Negotiated, Role};

impl Exchanging<'_> {
    /// Completes a verified exchange: derives keys, sends NEWKEYS and switches our direction.
    pub(super) fn finish(
        &mut self,
        terms: Box<KexTerms>,
        outcome: &KexOutcome,
    ) -> Result<(), Error> {
        let agreement = terms.agreement;
        let session = self
            .exchange
            .session
            .get_or_insert_with(|| TransportSession {
                id: outcome.hash.as_ref().to_vec(),
                host_key: outcome.host_key.clone(),
                host_signature: outcome.host_signature.clone(),
                strict_kex: terms.strict_kex,
                peer_wants_ext_info: terms.peer_wants_ext_info,
                agreement,
            });
        session.agreement = agreement;
        let source = KeySource {
            algorithm: agreement.kex.hash(),
            secret_encoded: &outcome.secret,
            hash: outcome.hash.as_ref(),
            session_id: &session.id,
        };
        let c2s = source.client_to_server(agreement.c2s);
        let s2c = source.server_to_client(agreement.s2c);
        let (ours, theirs) = match self.role {
            Role::Client => (c2s, s2c),
            Role::Server => (s2c, c2s),
        };
        self.outbound.send_kex(&NewKeys {})?;
        // Nothing is compressed before the user is logged in.
        let compression = match self.authenticated {
            true => ours.suite.compression,
            false => Compression::None,
        };
        self.outbound
            .switch_keys(ours, session.strict_kex, compression)?;
        if terms.first && session.peer_wants_ext_info {
            ext_info::send_ours(self.role, self.config, self.outbound)?;
        }
        self.exchange.state = Kex::Running {
            terms,
            step: KexStep::NewKeys { theirs },
        };
        self.outbound.release_held()
    }

    /// Handles the peer's NEWKEYS and switches its direction; returns true if the connection's first
    /// exchange is complete.
    pub(super) fn handle_newkeys(
        &mut self,
        terms: &KexTerms,
        step: KexStep,
    ) -> Result<bool, Error> {
        let KexStep::NewKeys { theirs } = step else {
            return Err(Error::PeerMisbehaved(
                "NEWKEYS before the key exchange was complete",
            ));
        };
        let strict_kex = self
            .exchange
            .session
            .as_ref()
            .ok_or(Error::Bug("keys without a session"))?
            .strict_kex;
        self.inbound
            .switch_keys(theirs, strict_kex, self.authenticated)?;
        self.exchange.state = Kex::Idle;
        self.exchange.completed_at = self.now;
        self.events.push_back(Event::KeysChanged {
            negotiated: Negotiated {
                group_exchange: terms.group_exchange,
                ..terms.agreement.public(strict_kex)
            },
            first: terms.first,
        });
        Ok(terms.first)
    }
}
