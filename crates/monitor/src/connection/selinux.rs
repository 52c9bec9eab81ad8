//! The SELinux context of a session: that of PAM's modules if they have chosen one, else the one that
//! the policy has for the user. The monitor finds it, because it may read the policy; the session process
//! sets it for the programs that it starts. Nothing happens where SELinux is off.

use std::path::Path;

use sys::selinux::{Selinux, SelinuxError};

use crate::log::Log;

/// The context of a session's programs, and the library that labels its terminals.
pub(crate) struct SessionContext {
    library: Selinux,
    context: String,
}

impl SessionContext {
    /// Finds the context of `user`; `None` where SELinux is off, or only watches and has no context for
    /// the user.
    ///
    /// # Errors
    /// If the policy is enforced and has no context for the user: nobody logs in without one.
    pub(crate) fn of(user: &str, log: &Log) -> Result<Option<Self>, String> {
        let found = Selinux::load().and_then(|library| match library {
            None => Ok(None),
            Some(library) => {
                let context = match sys::selinux::take_next_context() {
                    Some(context) => context,
                    None => library.context_of(user)?,
                };
                Ok(Some(Self { library, context }))
            }
        });
        match found {
            Ok(context) => Ok(context),
            Err(error) => unless_enforced(&error, log).map(|()| None),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.context
    }

    /// Labels a terminal of the session. As in OpenSSH, a failure does not end the session.
    pub(crate) fn label(&self, terminal: &Path, log: &Log) {
        if let Err(error) = self.library.relabel_terminal(terminal, &self.context) {
            log.error(&format!("terminal's security context: {error}"));
        }
    }
}

fn unless_enforced(error: &SelinuxError, log: &Log) -> Result<(), String> {
    if error.is_enforced {
        return Err(error.to_string());
    }
    log.error(&error.to_string());
    Ok(())
}
