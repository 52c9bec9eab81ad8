//! Pipelined login: requests signed by keys that need no user, and after them the session's
//! channel, are sent before the server's answers. That saves up to four round trips.
//!
//! Servers differ (table in docs/login.md): all accept a signed request after the SERVICE_REQUEST,
//! and a CHANNEL_OPEN after a login request that succeeds. Servers based on Go's library silently
//! drop a request on an unconfirmed channel, asyncssh closes the connection because of it, and
//! dropbear closes it if a CHANNEL_OPEN follows a login that fails.

use config::client::{ClientOptions, PipelineLogin};

use super::Authenticator;
use super::identity::Identity;
use crate::error::ClientError;
use crate::log::debug1;
use crate::login_cache::Learnt;
use crate::session::{EarlyChannel, Plan, Reach, send_early};

/// Most keys tried in one flight. Each key that the server refuses counts against its MaxAuthTries.
const MAX_CANDIDATES: usize = 3;

/// How a server treats pipelined messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    /// Processes everything in order, and ignores what follows a failed login.
    ReadsOn,
    /// As `ReadsOn`, but closes the connection if a channel follows a failed login.
    ReadsOnAfterLogin,
    /// Accepts a CHANNEL_OPEN after a login that succeeds; more is not known.
    Unknown,
}

impl Server {
    fn from_version(line: &str) -> Self {
        let software = line
            .strip_prefix("SSH-2.0-")
            .or_else(|| line.strip_prefix("SSH-1.99-"))
            .unwrap_or_default();
        if software.starts_with("OpenSSH_") || software.starts_with(proto::SOFTWARE_NAME) {
            Self::ReadsOn
        } else if software.starts_with("dropbear_") {
            Self::ReadsOnAfterLogin
        } else {
            Self::Unknown
        }
    }
}

/// How much of a session may be sent with the login. `known_key`: the last login succeeded with
/// this key alone.
fn reach(server: Server, wish: PipelineLogin, known_key: bool) -> Reach {
    match (wish, server, known_key) {
        (PipelineLogin::No, _, _) => Reach::Nothing,
        (PipelineLogin::Yes, _, _)
        | (PipelineLogin::Auto, Server::ReadsOn, _)
        | (PipelineLogin::Auto, Server::ReadsOnAfterLogin, true) => Reach::Whole,
        (PipelineLogin::Auto, Server::Unknown, true) => Reach::Open,
        (PipelineLogin::Auto, _, false) => Reach::Nothing,
    }
}

/// Whether a login whose connection ended may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryPolicy {
    /// The end was not caused by pipelined messages.
    NotNeeded,
    /// Pipelined messages may be the cause, and no command has run.
    Safe,
    /// Pipelined messages may be the cause, but a command may have run.
    Forbidden,
}

/// What a pipelined login may send before the answers.
#[derive(Debug)]
pub struct Ahead<'c> {
    /// The plan of the session after the login.
    pub plan: &'c Plan,
    /// The cached profile of the server, if its version is the same.
    pub learnt: Option<&'c Learnt>,
    /// The first bytes of the session's local end; empty if they are not known yet.
    pub data: &'c [u8],
}

impl Authenticator<'_> {
    /// Sends everything that may be pipelined; [`Authenticator::run`] handles the answers.
    pub(super) fn send_ahead(&mut self, ahead: &Ahead<'_>) -> Result<(), ClientError> {
        if !self.starts_with_a_key() {
            return Ok(());
        }
        let version = self.driver.connection().peer_version().unwrap_or_default();
        let server = Server::from_version(version);
        // A request after the successful one would already be taken for compressed data.
        let most = match server {
            _ if self.driver.connection().will_compress() => 1,
            Server::Unknown => 1,
            Server::ReadsOn | Server::ReadsOnAfterLogin => MAX_CANDIDATES,
        };
        let known = ahead.learnt.and_then(|learnt| learnt.key.as_deref());
        let mut ends_with_known = false;
        self.expected_algorithms = ahead
            .learnt
            .and_then(|learnt| learnt.signature_algorithms.clone());
        while self.pipelined.len() < most
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
            if self.send_signed(&mut identity)? {
                ends_with_known = is_known;
                self.pipelined.push_back(identity);
                self.pipelined_requests += 1;
            }
        }
        if self.pipelined.is_empty() {
            return Ok(());
        }
        let mut reach = reach(server, self.options.pipeline_login, ends_with_known);
        if self.without_secrets || self.driver.connection().will_compress() {
            reach = Reach::Nothing;
        } else if self.options.local_command.is_some() {
            // The local command must run before the remote command that may need it.
            reach = reach.min(Reach::Open);
        }
        let early = send_early(self.driver.connection(), ahead.plan, reach, ahead.data);
        self.early = early.map_err(|error| self.lost(driver::DriverError::Proto(error)))?;
        debug1!(
            "Sent before the server's answers: {} signed requests{}",
            self.pipelined.len(),
            match &self.early {
                None => "",
                Some(early) if early.reach() == Reach::Whole => ", a session and its command",
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
        let reach = self.early.as_ref().map(EarlyChannel::reach);
        let started = reach == Some(Reach::Whole);
        // Every server accepts one signed request after the SERVICE_REQUEST: its answer is final.
        let usual = self.pipelined_requests == 1 && self.early.is_none() && !self.early_refused;
        match (self.pipelined.is_empty(), self.early_refused) {
            (true, true) => RetryPolicy::Safe,
            (true, false) => RetryPolicy::NotNeeded,
            (false, _) if usual && answered => RetryPolicy::NotNeeded,
            (false, _) if started && !answered => RetryPolicy::Forbidden,
            (false, _) => RetryPolicy::Safe,
        }
    }
}

impl Identity {
    /// Fingerprint of the key or certificate that is sent to the server.
    pub(super) fn fingerprint(&self) -> String {
        keys::fingerprint::sha256(self.blob())
    }
}

/// True if the requests on the session's channel may follow its CHANNEL_OPEN at once, after the
/// login.
#[must_use]
pub fn reads_on(options: &ClientOptions, version: &str) -> bool {
    match options.pipeline_login {
        PipelineLogin::No => false,
        PipelineLogin::Yes => true,
        PipelineLogin::Auto => Server::from_version(version) != Server::Unknown,
    }
}

/// True if the version line is Fulmar's: such a server accepts data on an unconfirmed channel.
#[must_use]
pub fn is_fulmar(version: &str) -> bool {
    let software = version.strip_prefix("SSH-2.0-");
    software.is_some_and(|software| software.starts_with(proto::SOFTWARE_NAME))
}

/// True if the options and the cached profile permit pipelining.
#[must_use]
pub fn is_wanted(options: &ClientOptions, learnt: Option<&Learnt>) -> bool {
    options.pipeline_login != PipelineLogin::No && !learnt.is_some_and(|learnt| learnt.careful)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_version_line() {
        for (line, server) in [
            ("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u7", Server::ReadsOn),
            ("SSH-2.0-Fulmar_0.1.0", Server::ReadsOn),
            ("SSH-2.0-dropbear_2022.83", Server::ReadsOnAfterLogin),
            ("SSH-2.0-Go", Server::Unknown),
            ("SSH-2.0-AsyncSSH_2.24.0", Server::Unknown),
            ("SSH-2.0-paramiko_3.0", Server::Unknown),
            ("SSH-2.0-NotOpenSSH_9", Server::Unknown),
            ("", Server::Unknown),
        ] {
            assert_eq!(Server::from_version(line), server, "{line}");
        }
    }

    #[test]
    fn a_session_goes_ahead_where_the_server_is_known_to_take_it() {
        use PipelineLogin::{Auto, No, Yes};
        for server in [Server::ReadsOn, Server::ReadsOnAfterLogin, Server::Unknown] {
            for known in [true, false] {
                assert_eq!(reach(server, No, known), Reach::Nothing);
                assert_eq!(reach(server, Yes, known), Reach::Whole);
            }
        }
        assert_eq!(reach(Server::ReadsOn, Auto, false), Reach::Whole);
        assert_eq!(reach(Server::ReadsOnAfterLogin, Auto, true), Reach::Whole);
        assert_eq!(
            reach(Server::ReadsOnAfterLogin, Auto, false),
            Reach::Nothing
        );
        assert_eq!(reach(Server::Unknown, Auto, true), Reach::Open);
        assert_eq!(reach(Server::Unknown, Auto, false), Reach::Nothing);
    }
}
