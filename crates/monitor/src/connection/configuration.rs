//! The configuration of one connection: the one that the listener passes on, and the options that
//! apply after Match.
//!
//! Decoding the options makes about a hundred values. Without Match blocks they are the same for
//! every connection and user, and are made once.

use std::rc::Rc;

use config::ConfigError;
use config::server::{ConnectionSpec, ServerConfig, ServerOptions};

/// The configuration and its global options.
pub(crate) struct Configuration {
    loaded: ServerConfig,
    global: Rc<ServerOptions>,
}

impl Configuration {
    /// Decodes the bytes of [`ServerConfig::encode`].
    ///
    /// # Errors
    /// If the bytes are damaged or come from another build.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ConfigError> {
        Ok(Self::new(ServerConfig::decode(bytes)?))
    }

    /// Wraps a loaded configuration.
    pub(crate) fn new(loaded: ServerConfig) -> Self {
        let global = in_force(loaded.global());
        Self { loaded, global }
    }

    /// The options outside Match blocks.
    pub(crate) fn global(&self) -> &ServerOptions {
        &self.global
    }

    /// The options that apply to a connection, or to a user of it.
    pub(crate) fn for_connection(&self, spec: &ConnectionSpec) -> Rc<ServerOptions> {
        if self.loaded.has_conditions() {
            in_force(self.loaded.for_connection(spec))
        } else {
            Rc::clone(&self.global)
        }
    }

    /// True if the options may depend on the connection or the user.
    pub(crate) fn has_conditions(&self) -> bool {
        self.loaded.has_conditions()
    }

    /// As [`ServerConfig::asks_for_accounts`].
    pub(crate) fn asks_for_accounts(&self) -> bool {
        self.loaded.asks_for_accounts()
    }
}

fn in_force(mut options: ServerOptions) -> Rc<ServerOptions> {
    // Without privilege PAM can neither change credentials nor open a session.
    options.authentication.use_pam &= sys::process::is_root();
    Rc::new(options)
}
