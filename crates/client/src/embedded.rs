//! The login of a program that embeds the client: no configuration file, no terminal, no messages;
//! the caller chooses each method and gets every reason as a value.
//!
//! The key exchange, the check of the host key and the authentication are those of `ssh`
//! ([`crate::login`], [`crate::auth`]). The first request of the login leaves with NEWKEYS and
//! SERVICE_REQUEST, without waiting for the server's answers to them, as docs/login.md describes; one that carries a
//! secret waits for SERVICE_ACCEPT.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use config::client::{ClientConfig, ClientOptions, CommandLine};
use config::environment::{Environment, LocalUser};
use driver::Driver;
use keys::{PresentedKey, PrivateKey};
use wire::names;

use crate::auth::identity::Keys;
use crate::auth::{Attempted, Authenticator};
use crate::error::{ClientError, Peer};
use crate::host_key::HostKeyJudge;
use crate::interaction::{Interaction, Nobody};
use crate::log;
use crate::login::{self, LoginOpening, Secured};

/// A method and its secret; [`Interaction`] supplies passwords and answers.
#[derive(Debug)]
pub enum Credentials<'a> {
    /// Method `none`.
    None,
    /// A key, presented as itself or by its certificate.
    Key(&'a PrivateKey, PresentedKey),
    /// The keys of the agent at this socket.
    Agent(PathBuf),
    /// A password, for which the interaction is asked once.
    Password,
    /// The server's questions, which the interaction answers.
    KeyboardInteractive,
}

/// A connection whose host key was accepted, before or during the login.
#[derive(Debug)]
pub struct Login {
    secured: Secured,
    options: ClientOptions,
}

impl Login {
    /// Exchanges versions and keys over `link` and has `judge` check the host key. With `careful`,
    /// it also waits for SERVICE_ACCEPT: for servers that break when messages are pipelined.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn begin(
        link: OwnedFd,
        peer: Peer,
        opening: LoginOpening,
        careful: bool,
        judge: &mut dyn HostKeyJudge,
    ) -> Result<Self, ClientError> {
        let mut options = plain_options()?;
        peer.host.clone_into(&mut options.hostname);
        options.port = peer.port;
        options.algorithms.required_rsa_size =
            u32::try_from(opening.transport.min_rsa_bits).unwrap_or(u32::MAX);
        let secured = log::silently(|| {
            let greeted = opening.send((link, None), peer, None)?;
            let secured = greeted.secure(careful, judge, &mut Nobody, &mut |_| {});
            secured.map_err(|failure| failure.error)
        })?;
        Ok(Self { secured, options })
    }

    /// Tries one method for a user. After any outcome but [`Attempted::Success`] another may be
    /// tried.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`] if an answer takes longer than `timeout_ms`; otherwise why the
    /// connection ended.
    pub fn attempt(
        &mut self,
        user: &str,
        credentials: &Credentials<'_>,
        timeout_ms: Option<u64>,
        interaction: &mut dyn Interaction,
    ) -> Result<Attempted, ClientError> {
        user.clone_into(&mut self.options.user);
        let (method, keys) = match credentials {
            Credentials::None => (names::METHOD_NONE, Keys::default()),
            Credentials::Key(key, presented) => {
                (names::METHOD_PUBLICKEY, Keys::one(key, presented.clone()))
            }
            Credentials::Agent(path) => match Keys::of_agent(path) {
                Ok(keys) => (names::METHOD_PUBLICKEY, keys),
                Err(reason) => return Ok(Attempted::NotSent(Some(reason))),
            },
            Credentials::Password => (names::METHOD_PASSWORD, Keys::default()),
            Credentials::KeyboardInteractive => {
                (names::METHOD_KEYBOARD_INTERACTIVE, Keys::default())
            }
        };
        log::silently(|| {
            let secured = &mut self.secured;
            let (driver, peer) = (&mut secured.driver, &secured.peer);
            Authenticator::new(driver, &self.options, peer, interaction, keys)
                .without_secrets(secured.without_secrets)
                .answering_within(timeout_ms)
                .attempt(method)
        })
    }

    /// The connection.
    pub fn driver(&mut self) -> &mut Driver {
        &mut self.secured.driver
    }

    /// Returns the connection after the login.
    #[must_use]
    pub fn into_driver(self) -> Driver {
        self.secured.driver
    }

    /// Sends DISCONNECT.
    pub fn disconnect(&mut self) {
        login::disconnect(&mut self.secured.driver);
    }
}

/// The defaults of the options, without any file.
fn plain_options() -> Result<ClientOptions, ClientError> {
    let mut line = CommandLine::new();
    line.set("BatchMode", "no");
    ClientConfig::none(Path::new("/"))
        .resolve("localhost", &line, &Nowhere)
        .map_err(|reason| ClientError::Refused(reason.to_string()))
}

/// An environment without variables, users and names: no option of [`plain_options`] needs one.
struct Nowhere;

impl Environment for Nowhere {
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    fn local_user(&self) -> LocalUser {
        LocalUser {
            name: String::new(),
            uid: 0,
            home: "/".to_owned(),
        }
    }

    fn local_hostname(&self) -> String {
        String::new()
    }

    fn home_of(&self, _user: &str) -> Option<String> {
        None
    }

    fn run_shell(&self, _command: &str) -> Result<bool, String> {
        Err("an embedded client runs no commands".to_owned())
    }

    fn local_addresses(&self) -> Vec<std::net::IpAddr> {
        Vec::new()
    }

    fn canonical_name(&self, _name: &str) -> Option<String> {
        None
    }
}
