//! Sends what a [`LoginStrategy`] permits before the server's answers: a request signed by a key that needs no user and
//! after it the session's channel, or questions about keys. That saves up to four round trips.

use std::collections::VecDeque;

use super::Authenticator;
use super::identity::Identity;
use crate::children;
use crate::error::ClientError;
use crate::log::debug1;
use crate::pipelining::{
    Caution, ChannelStart, EarlyChannel, LoginStrategy, MAX_CANDIDATES, PipelineDepth, RetryPolicy,
};
use keys::SignatureAlgorithm;
use proto::Pipelining;

/// What a login may send before the answers.
#[derive(Debug)]
pub struct Early<'c> {
    /// Decides how much.
    pub strategy: &'c LoginStrategy,
    /// The first channel after the login, if there is one.
    pub start: Option<&'c ChannelStart>,
    /// The first bytes of the session's local end; empty if they are not known yet.
    pub data: &'c [u8],
}

/// A request with a key that has no answer yet.
#[derive(Debug)]
pub(super) struct SentKey {
    pub(super) identity: Identity,
    /// Of its signature.
    pub(super) algorithm: SignatureAlgorithm,
    /// The server is asked whether it accepts the key; nothing is signed.
    pub(super) is_query: bool,
}

/// The requests that were sent before the server's answers.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// Number of keys of the login at its beginning.
    candidates: usize,
    /// Requests without an answer, in the order sent.
    pub(super) keys: VecDeque<SentKey>,
    /// Keys that the server has said it accepts, in the order of trial.
    pub(super) accepted: VecDeque<Identity>,
    /// Fingerprint of the key of the last login at this server.
    known: Option<String>,
    /// Number of requests sent without an answer to an earlier one.
    requests: usize,
    /// The channel opened after them.
    pub(super) channel: Option<EarlyChannel>,
    /// A channel was opened, though it may be discarded.
    has_opened: bool,
    /// True after a login with an early channel failed, until the server's next answer shows that
    /// the connection continues.
    pub(super) is_refused: bool,
    /// The server's signature algorithms from the cached profile, until the server names them.
    pub(super) expected_algorithms: Option<Vec<String>>,
}

impl Flight {
    /// Nothing is sent yet, of this number of keys.
    pub(super) fn with(candidates: usize) -> Self {
        Self {
            candidates,
            ..Self::default()
        }
    }

    /// True while a key is under way: a request without an answer, or a key that is to sign.
    pub(super) fn is_under_way(&self) -> bool {
        !self.keys.is_empty() || !self.accepted.is_empty()
    }
}

impl Authenticator<'_> {
    /// Sends everything that may be pipelined; [`Authenticator::run`] handles the answers.
    ///
    /// A server counts each refused signature and ends the connection after a few (`MaxAuthTries`), and an agent may
    /// ask the user to confirm one. Only the first key is sent signed, and only if it is the single one or that of the
    /// last login. Otherwise the server is asked about the first keys at once, and the first that it accepts signs: an
    /// earlier key may have other rights than that of the last login.
    pub(super) fn send_early_requests(&mut self, early: &Early<'_>) -> Result<(), ClientError> {
        let profile = early.strategy.profile();
        self.flight.known = profile.and_then(|profile| profile.key.clone());
        self.flight.expected_algorithms =
            profile.and_then(|profile| profile.signature_algorithms.clone());
        if !self.starts_with_a_key() {
            return Ok(());
        }
        let version = self.driver.connection().peer_version().unwrap_or_default();
        let server = proto::Quirks::of(version).pipelining;
        // A request after the successful one would already be taken for compressed data.
        let most = match server {
            _ if self.driver.connection().will_compress() => 1,
            Pipelining::Unknown => 1,
            Pipelining::InOrder | Pipelining::AfterLogin => MAX_CANDIDATES,
        };
        self.send_keys(most)?;
        if let Some(last) = self.flight.keys.back().filter(|last| !last.is_query) {
            self.open_early(early, self.is_known(&last.identity))?;
        }
        self.note_early();
        Ok(())
    }

    /// True if a signature with this key is sent without a question to the server: it is the key of the last login, or
    /// the only key and no agent, which may ask the user, holds it.
    pub(super) fn signs_unasked(&self, identity: &Identity) -> bool {
        let is_single = self.flight.candidates == 1 && !identity.is_in_agent();
        (is_single || self.is_known(identity)) && identity.signs_alone()
    }

    /// True if the last login was with this key.
    fn is_known(&self, identity: &Identity) -> bool {
        let known = self.flight.known.as_ref();
        known.is_some_and(|known| *known == identity.fingerprint())
    }

    /// True if the last login was with one of the keys that go in the first flight.
    pub(super) fn knows_one_of_the_first(&self) -> bool {
        let mut first = self.identities.iter().take(MAX_CANDIDATES);
        first.any(|identity| self.is_known(identity))
    }

    /// Sends the first key signed, or questions about the first keys.
    fn send_keys(&mut self, most: usize) -> Result<(), ClientError> {
        while self.flight.keys.len() < most
            && let Some(mut identity) = self.identities.pop_front()
        {
            let Some(algorithm) = self.choose_algorithm(&identity) else {
                self.defer(identity);
                continue;
            };
            let is_first = self.flight.keys.is_empty();
            if is_first {
                identity.prepare();
            }
            if !is_first || !self.signs_unasked(&identity) {
                self.send_query(&identity, algorithm)?;
                self.has_sent(identity, algorithm, true);
            } else if let Some(algorithm) = self.send_signed(&mut identity)? {
                self.has_sent(identity, algorithm, false);
                break;
            }
        }
        Ok(())
    }

    /// A request with this key has been sent.
    fn has_sent(&mut self, identity: Identity, algorithm: SignatureAlgorithm, is_query: bool) {
        self.flight.keys.push_back(SentKey {
            identity,
            algorithm,
            is_query,
        });
        self.flight.requests += 1;
    }

    /// Opens the session's channel after a signed request, as deeply as the strategy permits.
    fn open_early(&mut self, early: &Early<'_>, known_key: bool) -> Result<(), ClientError> {
        let version = self.driver.connection().peer_version().unwrap_or_default();
        let server = proto::Quirks::of(version).pipelining;
        let mut depth = early.strategy.depth(server, known_key);
        if self.without_secrets || self.driver.connection().will_compress() {
            depth = PipelineDepth::Nothing;
        }
        children::go_on()?;
        if let Some(start) = early.start.filter(|_| depth >= PipelineDepth::Open) {
            let sent = start.send_early(self.driver.connection(), depth, early.data);
            let sent = sent.map_err(|error| self.lost(driver::DriverError::Proto(error)));
            self.flight.channel = Some(sent?);
            self.flight.has_opened = true;
        }
        Ok(())
    }

    fn note_early(&self) {
        let keys = &self.flight.keys;
        if keys.is_empty() {
            return;
        }
        let questions = keys.iter().filter(|sent| sent.is_query).count();
        debug1!(
            "Sent before the server's answers: {questions} questions about keys, {} signed requests{}",
            keys.len() - questions,
            match &self.flight.channel {
                None => "",
                Some(early) if early.depth() == PipelineDepth::Whole =>
                    ", a session and its command",
                Some(_) => ", a session",
            }
        );
    }

    /// Signs with the first key that the server accepts; false if there is no such key, or no signature. The session
    /// may follow at once.
    pub(super) fn sign_accepted(&mut self, early: Option<&Early<'_>>) -> Result<bool, ClientError> {
        let Some(mut identity) = self.flight.accepted.pop_front() else {
            return Ok(false);
        };
        identity.prepare();
        let Some(algorithm) = self.send_signed(&mut identity)? else {
            return Ok(false);
        };
        self.flight.requests = 0;
        self.has_sent(identity, algorithm, false);
        if let Some(early) = early.filter(|_| !self.flight.has_opened) {
            self.open_early(early, false)?;
            self.note_early();
        }
        Ok(true)
    }

    /// What follows the end of a connection by "Too many authentication failures": the same keys fail again, unless the
    /// server has accepted one.
    pub(super) fn retry_after_too_many(&self) -> RetryPolicy {
        match self.flight.accepted.is_empty() {
            true => RetryPolicy::NotNeeded,
            false => RetryPolicy::Safe(Caution::StepByStep),
        }
    }

    /// Decides whether a login whose connection ended may be tried again more carefully: only if a
    /// pipelined message is unanswered and nothing that must not happen twice can have happened.
    ///
    /// `answered` is false if the connection broke: only the server's own DISCONNECT, which is
    /// protected like all its packets, proves that the login had not succeeded. An attacker who can
    /// cut the connection must not be able to make a command run twice.
    pub(super) fn retry_policy(&self, answered: bool) -> RetryPolicy {
        let depth = self.flight.channel.as_ref().map(EarlyChannel::depth);
        let started = depth == Some(PipelineDepth::Whole);
        // Every server accepts one request after the SERVICE_REQUEST: its answer is final.
        let usual =
            self.flight.requests == 1 && self.flight.channel.is_none() && !self.flight.is_refused;
        match (self.flight.keys.is_empty(), self.flight.is_refused) {
            (true, true) => RetryPolicy::Safe(Caution::StepByStep),
            (true, false) => RetryPolicy::NotNeeded,
            (false, _) if usual && answered => RetryPolicy::NotNeeded,
            (false, _) if started && !answered => RetryPolicy::Forbidden,
            (false, _) => RetryPolicy::Safe(Caution::StepByStep),
        }
    }
}

impl Identity {
    /// Fingerprint of the key or certificate that is sent to the server.
    pub(super) fn fingerprint(&self) -> String {
        keys::fingerprint::sha256(self.blob())
    }
}
