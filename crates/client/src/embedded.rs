//! The login of a program that embeds the client: no configuration file, no terminal, no messages;
//! the caller chooses each method and gets every reason as a value.
//!
//! The key exchange, the check of the host key and the authentication are those of `ssh`
//! ([`crate::login`], [`crate::auth`]). The first request of the login leaves with NEWKEYS and
//! SERVICE_REQUEST, without waiting for the server's answers to them, as docs/login.md describes; one that carries a
//! secret waits for SERVICE_ACCEPT.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use config::client::{ClientConfig, ClientOptions, CommandLine, PipelineLogin};
use config::environment::{Environment, LocalUser};
use driver::Driver;
use keys::{PresentedKey, PrivateKey, known_hosts};
use wire::names;

use crate::auth::identity::Keys;
use crate::auth::{Attempted, Early};
use crate::error::{ClientError, Peer};
use crate::host_key::HostKeyJudge;
use crate::interaction::{Interaction, Nobody};
use crate::log;
use crate::login::{self, LoginOpening, LoginRecords, Precaution, Secured};
use crate::pipelining::{
    Caution, ChannelStart, Failure, LoginStrategy, ProfileCache, ProfileStore, RetryPolicy,
};

/// A method and its secret; [`Interaction`] supplies passwords and answers.
#[derive(Debug)]
pub enum Credentials<'a> {
    /// Method `none`.
    None,
    /// A key, presented as itself or by its certificate.
    Key(&'a PrivateKey, PresentedKey),
    /// A key in a security key, presented as itself or by its certificate. The interaction is asked for
    /// a PIN if the token wants one.
    SecurityKey(&'a PrivateKey, PresentedKey, TokenReach<'a>),
    /// The keys of the agent at this socket.
    Agent(PathBuf),
    /// A password, for which the interaction is asked once.
    Password,
    /// The server's questions, which the interaction answers.
    KeyboardInteractive,
}

/// How security keys are reached.
#[derive(Debug, Clone, Copy)]
pub struct TokenReach<'a> {
    /// An installed program of this suite, of which a confined process reaches the token.
    pub program: &'a Path,
    /// A library with the functions of OpenSSH's sk-api.h; `None` for CTAP over USB.
    pub library: Option<&'a Path>,
}

impl TokenReach<'_> {
    fn provider(&self) -> Result<fido::Provider, String> {
        let name = match self.library {
            Some(library) => library.to_str().ok_or("the library's path is not UTF-8")?,
            None => fido::INTERNAL,
        };
        let provider = fido::Provider::new(name).map_err(|reason| format!("{name}: {reason}"))?;
        Ok(provider.by_program(self.program))
    }
}

/// The settings of a login that do not depend on the user.
#[derive(Debug)]
pub struct LoginSettings {
    /// The first flight and the key exchange.
    pub opening: LoginOpening,
    /// The caution of this attempt to log in.
    pub caution: Caution,
    /// False to wait for each of the server's answers, for servers that break otherwise.
    pub pipelines: bool,
    /// Where the profiles of servers are kept; `None` to keep none.
    pub profiles: Option<ProfileStore>,
}

/// A connection whose host key was accepted, before or during the login.
#[derive(Debug)]
pub struct Login {
    secured: Secured,
    options: ClientOptions,
    records: LoginRecords,
    profiles: Option<ProfileStore>,
    /// The host's name in known_hosts.
    host: String,
    /// True after the first method: what was sent early with it may still be answered.
    attempted: bool,
    /// True if another method than the last one contributed to the login.
    partly: bool,
}

impl Login {
    /// Exchanges versions and keys over `link` and has `judge` check the host key.
    ///
    /// # Errors
    /// [`ClientError`], and whether another attempt with more caution may succeed.
    pub fn begin(
        link: OwnedFd,
        peer: Peer,
        settings: LoginSettings,
        judge: &mut dyn HostKeyJudge,
    ) -> Result<Self, Failure> {
        let LoginSettings {
            opening,
            caution,
            pipelines,
            profiles,
        } = settings;
        let mut options = plain_options()?;
        // The process that reaches security keys is a role of the binary of this suite, which a caller names.
        options.user_keys.security_key_provider = None;
        if !pipelines {
            options.authentication.pipeline_login = PipelineLogin::No;
        }
        peer.host.clone_into(&mut options.hostname);
        options.port = peer.port;
        options.algorithms.required_rsa_size =
            u32::try_from(opening.transport.min_rsa_bits).unwrap_or(u32::MAX);
        let host = known_hosts::host_name(&peer.host, peer.port);
        // The user is not known yet: the key exchange can be guessed from any user's login.
        let profile = profiles
            .as_ref()
            .and_then(|store| ProfileCache::of_host(store, &host));
        let mut strategy = LoginStrategy::new(&options, caution, profile);
        let secured = log::silently(|| {
            let greeted = opening.send((link, None), peer, strategy.guess())?;
            greeted.secure(&mut strategy, judge, &mut Nobody, &mut |_| {})
        })?;
        Ok(Self {
            secured,
            options,
            records: LoginRecords {
                cache: None,
                strategy,
            },
            profiles,
            host,
            attempted: false,
            partly: false,
        })
    }

    /// Tries one method for a user, and opens `first` in the same flight if the server is known to
    /// accept that; [`LoggedIn::early`] has the channel then. After any outcome but
    /// [`Attempted::Success`] another method may be tried.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`] if an answer takes longer than `timeout_ms`; otherwise why the
    /// connection ended. With [`RetryPolicy::Forbidden`] a request of `first` may have been carried
    /// out.
    pub fn attempt(
        &mut self,
        user: &str,
        credentials: &Credentials<'_>,
        first: Option<&ChannelStart>,
        timeout_ms: Option<u64>,
        interaction: &mut dyn Interaction,
    ) -> Result<Attempted, Failure> {
        if user != self.options.user {
            user.clone_into(&mut self.options.user);
            self.remember_user();
        }
        let (method, keys) = match credentials {
            Credentials::None => (names::METHOD_NONE, Keys::default()),
            Credentials::Key(key, presented) => {
                (names::METHOD_PUBLICKEY, Keys::one(key, presented.clone()))
            }
            Credentials::SecurityKey(key, presented, reach) => match reach.provider() {
                Ok(provider) => {
                    let keys = Keys::of_security_key(key, presented.clone(), provider);
                    (names::METHOD_PUBLICKEY, keys)
                }
                Err(reason) => return Ok(Attempted::NotSent(Some(reason))),
            },
            Credentials::Agent(path) => match Keys::of_agent(path) {
                Ok(keys) => (names::METHOD_PUBLICKEY, keys),
                Err(reason) => return Ok(Attempted::NotSent(Some(reason))),
            },
            Credentials::Password => (names::METHOD_PASSWORD, Keys::default()),
            Credentials::KeyboardInteractive => {
                (names::METHOD_KEYBOARD_INTERACTIVE, Keys::default())
            }
        };
        let Self {
            secured,
            options,
            records,
            ..
        } = self;
        let is_first = !std::mem::replace(&mut self.attempted, true);
        let early = Early {
            strategy: &records.strategy,
            start: first,
            data: &[],
        };
        let early = Some(&early).filter(|_| is_first && !records.strategy.is_step_by_step());
        let outcome = log::silently(|| {
            let authenticator = secured.authenticator(options, interaction, keys);
            authenticator
                .answering_within(timeout_ms)
                .attempt(method, early)
        });
        match &outcome {
            Ok(Attempted::Success(logged_in)) => {
                let key = logged_in.key.clone().filter(|_| !self.partly);
                records.logged_in(secured, key);
            }
            Ok(Attempted::Refused {
                partial_success: true,
                ..
            }) => self.partly = true,
            // Nobody repeats this login without the caller: the next one is careful.
            Err(failure) if failure.retry != RetryPolicy::NotNeeded => {
                records.be_careful(secured);
            }
            _ => {}
        }
        outcome
    }

    /// Reads the profile of the user's own logins. Without one, no key is known.
    fn remember_user(&mut self) {
        let store = self.profiles.clone();
        let cache =
            store.and_then(|store| ProfileCache::of_user(store, &self.options.user, &self.host));
        if let Some(profile) = cache.as_ref().and_then(ProfileCache::profile) {
            let connection = self.secured.driver.connection();
            let version = connection.peer_version().unwrap_or_default();
            self.records.strategy.adopt(profile, version);
        }
        self.records.cache = cache;
    }

    /// True if requests may follow a CHANNEL_OPEN at once, after the login.
    pub fn starts_at_once(&mut self) -> bool {
        let connection = self.secured.driver.connection();
        let version = connection.peer_version().unwrap_or_default();
        self.records.strategy.starts_at_once(version)
    }

    /// The connection.
    pub fn driver(&mut self) -> &mut Driver {
        &mut self.secured.driver
    }

    /// Returns the connection after the login, and what to do if it ends before the first channel is
    /// confirmed.
    #[must_use]
    pub fn into_driver(mut self) -> (Driver, Option<Precaution>) {
        let precaution = self.records.precaution(&mut self.secured);
        (self.secured.driver, precaution)
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
