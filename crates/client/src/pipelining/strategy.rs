//! What a login sends before the server's answers, and how it is tried again.
//!
//! Servers differ (table in docs/login.md): all accept a signed request after the SERVICE_REQUEST,
//! and a CHANNEL_OPEN after a login request that succeeds. Servers based on Go's library silently
//! drop a request on an unconfirmed channel, asyncssh closes the connection because of it, and
//! dropbear closes it if a CHANNEL_OPEN follows a login that fails.

use config::client::{ClientOptions, PipelineLogin};

use proto::{Pipelining, Quirks};

use super::{PipelineDepth, ServerProfile};
use crate::error::ClientError;

/// Most keys tried in one flight. Each key that the server refuses counts against its MaxAuthTries.
pub const MAX_CANDIDATES: usize = 3;

/// The caution of one attempt to log in; each failure that pipelining may have caused adds some.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Caution {
    /// Everything that the server is known to accept is sent early.
    None,
    /// As `None`, without the guessed key exchange packet.
    NoGuess,
    /// Each step waits for the server's answer.
    StepByStep,
}

/// What follows an attempt that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Pipelined messages did not cause the failure.
    NotNeeded,
    /// Pipelined messages may be the cause, and nothing happened that must not happen twice: another
    /// connection with this caution may succeed.
    Safe(Caution),
    /// Pipelined messages may be the cause, but a command may have run: nothing is tried again, and
    /// the next login is careful.
    Forbidden,
}

/// An attempt that failed.
#[derive(Debug)]
pub struct Failure {
    /// The cause.
    pub error: ClientError,
    /// Whether to try again.
    pub retry: RetryPolicy,
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self {
            error,
            retry: RetryPolicy::NotNeeded,
        }
    }
}

/// What one attempt to log in sends before the server's answers.
#[derive(Debug, Clone)]
pub struct LoginStrategy {
    caution: Caution,
    is_step_by_step: bool,
    wish: PipelineLogin,
    /// The local command must run before the remote command that may need it.
    runs_local_command: bool,
    profile: Option<ServerProfile>,
}

impl LoginStrategy {
    /// The strategy of one attempt, with the cached profile of the server.
    #[must_use]
    pub fn new(options: &ClientOptions, caution: Caution, profile: Option<ServerProfile>) -> Self {
        let is_careful = profile.as_ref().is_some_and(|profile| profile.careful);
        Self {
            caution,
            is_step_by_step: caution == Caution::StepByStep
                || is_careful
                || options.authentication.pipeline_login == PipelineLogin::No,
            wish: options.authentication.pipeline_login,
            runs_local_command: options.session.local_command.is_some(),
            profile,
        }
    }

    /// True if each step of the login waits for the server's answer.
    #[must_use]
    pub fn is_step_by_step(&self) -> bool {
        self.is_step_by_step
    }

    /// True if the next login at this server must be step by step.
    #[must_use]
    pub fn is_careful(&self) -> bool {
        let profile = self.profile.as_ref();
        self.caution == Caution::StepByStep || profile.is_some_and(|profile| profile.careful)
    }

    /// The profile from which the first key exchange packet may be guessed (RFC 4253 §7), also where
    /// `PipelineLogin` is `no`.
    #[must_use]
    pub fn guess(&self) -> Option<&ServerProfile> {
        self.profile
            .as_ref()
            .filter(|_| self.caution == Caution::None)
    }

    /// The profile of the server.
    #[must_use]
    pub fn profile(&self) -> Option<&ServerProfile> {
        self.profile.as_ref()
    }

    /// Forgets the profile if the server has another version line: it is of another server, or of
    /// another version of this one.
    pub fn meet(&mut self, version: &str) {
        self.profile.take_if(|profile| profile.version != version);
    }

    /// Replaces the profile by that of the user, who is known now, if the server still has its
    /// `version`.
    pub fn adopt(&mut self, profile: &ServerProfile, version: &str) {
        if profile.version == version {
            self.is_step_by_step |= profile.careful;
            self.profile = Some(profile.clone());
        }
    }

    /// True if the server of the profile accepts data on an unconfirmed channel and this attempt
    /// may send some: the server is Fulmar.
    #[must_use]
    pub fn expects_fulmar(&self) -> bool {
        let version = self.profile.as_ref().map(|profile| &profile.version);
        !self.is_step_by_step && version.is_some_and(|version| Quirks::of(version).is_fulmar)
    }

    /// How much of a session may be sent with the login. `known_key`: the last login succeeded with
    /// this key alone.
    #[must_use]
    pub fn depth(&self, server: Pipelining, known_key: bool) -> PipelineDepth {
        let depth = match (self.wish, server, known_key) {
            (PipelineLogin::No, _, _) => PipelineDepth::Nothing,
            (PipelineLogin::Yes, _, _)
            | (PipelineLogin::Auto, Pipelining::InOrder, _)
            | (PipelineLogin::Auto, Pipelining::AfterLogin, true) => PipelineDepth::Whole,
            (PipelineLogin::Auto, Pipelining::Unknown, true) => PipelineDepth::Open,
            (PipelineLogin::Auto, _, false) => PipelineDepth::Nothing,
        };
        if self.runs_local_command {
            depth.min(PipelineDepth::Open)
        } else {
            depth
        }
    }

    /// True if the requests on the session's channel may follow its CHANNEL_OPEN at once, after the
    /// login.
    #[must_use]
    pub fn starts_at_once(&self, version: &str) -> bool {
        !self.is_step_by_step
            && match self.wish {
                PipelineLogin::No => false,
                PipelineLogin::Yes => true,
                PipelineLogin::Auto => Quirks::of(version).pipelining != Pipelining::Unknown,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(server: Pipelining, wish: PipelineLogin, known_key: bool) -> PipelineDepth {
        let strategy = LoginStrategy {
            caution: Caution::None,
            is_step_by_step: false,
            wish,
            runs_local_command: false,
            profile: None,
        };
        let with_command = LoginStrategy {
            runs_local_command: true,
            ..strategy.clone()
        };
        let depth = strategy.depth(server, known_key);
        assert_eq!(
            with_command.depth(server, known_key),
            depth.min(PipelineDepth::Open)
        );
        depth
    }

    #[test]
    fn a_session_goes_ahead_where_the_server_is_known_to_take_it() {
        use PipelineLogin::{Auto, No, Yes};
        for server in [
            Pipelining::InOrder,
            Pipelining::AfterLogin,
            Pipelining::Unknown,
        ] {
            for known in [true, false] {
                assert_eq!(depth(server, No, known), PipelineDepth::Nothing);
                assert_eq!(depth(server, Yes, known), PipelineDepth::Whole);
            }
        }
        assert_eq!(
            depth(Pipelining::InOrder, Auto, false),
            PipelineDepth::Whole
        );
        assert_eq!(
            depth(Pipelining::AfterLogin, Auto, true),
            PipelineDepth::Whole
        );
        assert_eq!(
            depth(Pipelining::AfterLogin, Auto, false),
            PipelineDepth::Nothing
        );
        assert_eq!(depth(Pipelining::Unknown, Auto, true), PipelineDepth::Open);
        assert_eq!(
            depth(Pipelining::Unknown, Auto, false),
            PipelineDepth::Nothing
        );
    }
}
