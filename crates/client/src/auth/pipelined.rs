//! Sends what a [`LoginStrategy`] permits before the server's answers: requests signed by keys that
//! need no user, and after them the session's channel. That saves up to four round trips.

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

/// The requests that were sent before the server's answers.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// Keys of signed requests without an answer, in the order sent, each with the signature's algorithm.
    pub(super) keys: VecDeque<(Identity, SignatureAlgorithm)>,
    /// Number of signed requests sent.
    requests: usize,
    /// The channel opened after them.
    pub(super) channel: Option<EarlyChannel>,
    /// True after a login with an early channel failed, until the server's next answer shows that
    /// the connection continues.
    pub(super) is_refused: bool,
    /// The server's signature algorithms from the cached profile, until the server names them.
    pub(super) expected_algorithms: Option<Vec<String>>,
}

impl Authenticator<'_> {
    /// Sends everything that may be pipelined; [`Authenticator::run`] handles the answers.
    pub(super) fn send_early_requests(&mut self, early: &Early<'_>) -> Result<(), ClientError> {
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
        let profile = early.strategy.profile();
        let known = profile.and_then(|profile| profile.key.as_deref());
        let mut ends_with_known = false;
        self.flight.expected_algorithms =
            profile.and_then(|profile| profile.signature_algorithms.clone());
        while self.flight.keys.len() < most
            && !ends_with_known
            && let Some(mut identity) = self.identities.pop_front()
        {
            identity.prepare();
            let is_known = known == Some(identity.fingerprint().as_str());
            if is_known {
                identity.is_wanted();
            }
            if !identity.signs_alone() {
                self.identities.push_front(identity);
                break;
            }
            if self.choose_algorithm(&identity).is_none() {
                self.defer(identity);
                continue;
            }
            if let Some(algorithm) = self.send_signed(&mut identity)? {
                ends_with_known = is_known;
                self.flight.keys.push_back((identity, algorithm));
                self.flight.requests += 1;
            }
        }
        if self.flight.keys.is_empty() {
            return Ok(());
        }
        let mut depth = early.strategy.depth(server, ends_with_known);
        if self.without_secrets || self.driver.connection().will_compress() {
            depth = PipelineDepth::Nothing;
        }
        children::go_on()?;
        if let Some(start) = early.start.filter(|_| depth >= PipelineDepth::Open) {
            let sent = start.send_early(self.driver.connection(), depth, early.data);
            let sent = sent.map_err(|error| self.lost(driver::DriverError::Proto(error)));
            self.flight.channel = Some(sent?);
        }
        debug1!(
            "Sent before the server's answers: {} signed requests{}",
            self.flight.keys.len(),
            match &self.flight.channel {
                None => "",
                Some(early) if early.depth() == PipelineDepth::Whole =>
                    ", a session and its command",
                Some(_) => ", a session",
            }
        );
        Ok(())
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
        // Every server accepts one signed request after the SERVICE_REQUEST: its answer is final.
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
