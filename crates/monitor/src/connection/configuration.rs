//! The configuration as one connection meets it: what was handed down, and what holds for it.
//!
//! Options are a hundred values made from their encoded form. Without Match blocks they are the
//! same for every connection and user, and made once.

use std::rc::Rc;

use config::ConfigError;
use config::server::{ConnectionSpec, ServerConfig, ServerOptions};

/// See the module's head.
pub(crate) struct Configuration {
    loaded: ServerConfig,
    global: Rc<ServerOptions>,
}

impl Configuration {
    /// Reads what [`ServerConfig::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are damaged or come from another build.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ConfigError> {
        Ok(Self::new(ServerConfig::decode(bytes)?))
    }

    /// Of a configuration that was loaded.
    pub(crate) fn new(loaded: ServerConfig) -> Self {
        let global = in_force(loaded.global());
        Self { loaded, global }
    }

    /// What holds before anything is known of a connection.
    pub(crate) fn global(&self) -> &ServerOptions {
        &self.global
    }

    /// What holds for a connection, or for a user of it.
    pub(crate) fn for_connection(&self, spec: &ConnectionSpec) -> Rc<ServerOptions> {
        if self.loaded.has_conditions() {
            in_force(self.loaded.for_connection(spec))
        } else {
            Rc::clone(&self.global)
        }
    }

    /// Whether what holds may depend on the connection or the user.
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
    options.use_pam &= sys::process::is_root();
    Rc::new(options)
}
