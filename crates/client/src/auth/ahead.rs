//! What a login sends ahead of the server's answers: requests signed by keys that need nobody, and
//! behind them the session's channel. That saves up to four round trips.
//!
//! Servers differ in what they take (docs/login.md has the table): all take a signed request
//! behind the SERVICE_REQUEST, and a CHANNEL_OPEN behind a request that succeeds. A request on a
//! channel that is not confirmed is dropped in silence by servers on Go's library, and ends the
//! connection with asyncssh; a channel behind a request that fails ends it with dropbear.

use config::client::{ClientOptions, PipelineLogin};

use super::Authenticator;
use super::identity::Identity;
use crate::error::ClientError;
use crate::log::debug1;
use crate::login_cache::Learnt;
use crate::session::{EarlyChannel, Plan, Reach, send_early};

/// Keys that are tried at once. Each that the server does not want counts against its MaxAuthTries.
const MAX_CANDIDATES: usize = 3;

/// What is known of a server's ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    /// Takes everything in order, and passes over what follows a login that fails.
    ReadsOn,
    /// The same, but ends the connection where a login fails with a channel behind it.
    ReadsOnAfterLogin,
    /// Takes a CHANNEL_OPEN behind a login that succeeds.
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

/// How much of a session may follow a login; `known_key`: the login worked with this key, alone,
/// the last time.
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

/// What may follow where the connection ends before the login does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WayBack {
    /// It did not end because of what went ahead.
    None,
    /// It may have, and nothing was started.
    Open,
    /// It may have, and a command may have run.
    Barred,
}

/// What goes ahead of the answers.
#[derive(Debug)]
pub struct Ahead<'c> {
    /// The session that the login is for.
    pub plan: &'c Plan,
    /// What earlier logins taught about the server as it is.
    pub learnt: Option<&'c Learnt>,
    /// What the session's local end says first, if it says that already.
    pub data: &'c [u8],
}

impl Authenticator<'_> {
    /// Sends what may go ahead; the answers are taken by [`Authenticator::run`].
    pub(super) fn send_ahead(&mut self, ahead: &Ahead<'_>) -> Result<(), ClientError> {
        if !self.starts_with_a_key() {
            return Ok(());
        }
        let version = self.driver.connection().peer_version().unwrap_or_default();
        let server = Server::from_version(version);
        // A request behind the one that succeeds would already be taken for compressed.
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
        while self.flying.len() < most
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
                self.set_aside(identity);
                continue;
            }
            if self.send_signed(&mut identity)? {
                ends_with_known = is_known;
                self.flying.push_back(identity);
                self.ahead_requests += 1;
            }
        }
        if self.flying.is_empty() {
            return Ok(());
        }
        let mut reach = reach(server, self.options.pipeline_login, ends_with_known);
        if self.without_secrets || self.driver.connection().will_compress() {
            reach = Reach::Nothing;
        } else if self.options.local_command.is_some() {
            // It runs before what it may have to prepare.
            reach = reach.min(Reach::Open);
        }
        let early = send_early(self.driver.connection(), ahead.plan, reach, ahead.data);
        self.early = early.map_err(|error| self.lost(driver::DriverError::Proto(error)))?;
        debug1!(
            "Sent ahead of the answers: {} signed requests{}",
            self.flying.len(),
            match &self.early {
                None => "",
                Some(early) if early.reach() == Reach::Whole => ", a session and what it runs",
                Some(_) => ", a session",
            }
        );
        Ok(())
    }

    /// Whether a connection that ends now may be tried again with more care: something is on its
    /// way whose answer has not come, and nothing that must not happen twice can have happened.
    ///
    /// `answered` is false where the connection broke: only the server's own word, protected as
    /// all its packets are, proves that the login had not succeeded. A command that may run is
    /// never sent again on the word of somebody who can cut a line.
    pub(super) fn way_back(&self, answered: bool) -> WayBack {
        let reach = self.early.as_ref().map(EarlyChannel::reach);
        let started = reach == Some(Reach::Whole);
        // One signed request behind the service's is what every server takes: its word is final.
        let usual = self.ahead_requests == 1 && self.early.is_none() && !self.early_refused;
        match (self.flying.is_empty(), self.early_refused) {
            (true, true) => WayBack::Open,
            (true, false) => WayBack::None,
            (false, _) if usual && answered => WayBack::None,
            (false, _) if started && !answered => WayBack::Barred,
            (false, _) => WayBack::Open,
        }
    }
}

impl Identity {
    /// Fingerprint of what is shown to the server.
    pub(super) fn fingerprint(&self) -> String {
        keys::fingerprint::sha256(self.blob())
    }
}

/// Whether what runs on the session may follow its CHANNEL_OPEN, once the user is logged in.
#[must_use]
pub fn reads_on(options: &ClientOptions, version: &str) -> bool {
    match options.pipeline_login {
        PipelineLogin::No => false,
        PipelineLogin::Yes => true,
        PipelineLogin::Auto => Server::from_version(version) != Server::Unknown,
    }
}

/// Whether a server of this version line is one of ours, and takes data on a channel that is not
/// confirmed.
#[must_use]
pub fn is_fulmar(version: &str) -> bool {
    let software = version.strip_prefix("SSH-2.0-");
    software.is_some_and(|software| software.starts_with(proto::SOFTWARE_NAME))
}

/// Whether anything is to be sent ahead at all.
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
