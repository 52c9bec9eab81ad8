//! Method `gssapi-with-mic` (RFC 4462 §3) with the user's Kerberos tickets, in a process of the crate
//! `gssapi`, which loads the library.
//!
//! Many systems set GSSAPIAuthentication for everybody. Where no credential cache can be, the method
//! is passed over, and a login is as fast as without it.

use std::path::Path;

use gssapi::{ContextStep, GssFailure, KerberosInitiator};

use super::{Answer, Authenticator};
use crate::error::ClientError;
use crate::log::debug1;
use crate::text::one_line;

/// Kerberos' configuration, unless KRB5_CONFIG names another.
const CONFIGURATION: [&str; 2] = ["/etc/krb5.conf", "/etc/krb5.conf.d"];
/// Variables that name a credential cache, a configuration or a key to get tickets with.
const VARIABLES: [&str; 3] = ["KRB5CCNAME", "KRB5_CONFIG", "KRB5_CLIENT_KTNAME"];

/// True if the user may have tickets: a variable or the configuration says where, or there is a cache
/// at the usual place.
fn may_have_tickets() -> bool {
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let usual = format!("/tmp/krb5cc_{}", sys::process::effective_uid());
    VARIABLES.iter().any(is_set)
        || Path::new(&usual).exists()
        || CONFIGURATION
            .iter()
            .any(|path| names_cache(Path::new(path)))
}

/// True if the file, or a file of the directory, names a cache.
fn names_cache(path: &Path) -> bool {
    if let Ok(entries) = std::fs::read_dir(path) {
        return entries
            .flatten()
            .any(|entry| entry.path().is_file() && names_cache(&entry.path()));
    }
    std::fs::read(path).is_ok_and(|text| {
        let lines = text.split(|byte| *byte == b'\n');
        lines
            .map(<[u8]>::trim_ascii_start)
            .any(|line| line.starts_with(b"default_ccache_name") || line.starts_with(b"include"))
    })
}

impl Authenticator<'_> {
    pub(super) fn may_try_gssapi(&self) -> bool {
        self.options.authentication.gssapi_authentication
            && !self.tries.gssapi
            && may_have_tickets()
    }

    /// Tries the method, once for each connection.
    pub(super) fn gssapi(&mut self) -> Result<Option<Answer>, ClientError> {
        self.tries.gssapi = true;
        let service = format!("host@{}", self.options.hostname);
        // Nothing is delegated to a host whose key is not the recorded one.
        let delegates =
            self.options.authentication.gssapi_delegate_credentials && !self.without_secrets;
        let begun = KerberosInitiator::begin(&service, delegates);
        let (context, first) = match begun {
            Ok(begun) => begun,
            Err(failure) => {
                debug_lines(&failure);
                return Ok(None);
            }
        };
        self.await_service()?;
        let user = self.options.user.as_bytes();
        let sent = self.driver.connection().auth_gssapi(user);
        self.sent(sent)?;
        let mut step = first;
        loop {
            match self.answer()? {
                Answer::GssapiResponse => {}
                // The server's words follow its error token; the library knows more of them.
                Answer::GssapiToken {
                    token,
                    is_error: true,
                } => {
                    if let Err(failure) = context.step(token) {
                        debug_lines(&failure);
                    }
                    continue;
                }
                Answer::GssapiToken { token, .. } => match context.step(token) {
                    Ok(next) => step = next,
                    Err(failure) => return self.give_up(&failure),
                },
                answer => return Ok(Some(answer)),
            }
            if let Some(given_up) = self.take_turn(&context, &step)? {
                return Ok(given_up);
            }
        }
    }

    /// Sends the token of a step, or the proof if the context is established; returns the end of the
    /// method if there is neither.
    fn take_turn(
        &mut self,
        context: &KerberosInitiator,
        step: &ContextStep,
    ) -> Result<Option<Option<Answer>>, ClientError> {
        if !step.token.is_empty() {
            let sent = self.driver.connection().auth_gssapi_token(&step.token);
            self.sent(sent)?;
            return Ok(None);
        }
        let user = self.options.user.as_bytes();
        let data = self.driver.connection().gssapi_signed_data(user);
        let data = data.map_err(|error| self.lost(driver::DriverError::Proto(error)))?;
        match context.mic(data) {
            Ok(mic) => {
                let sent = self.driver.connection().auth_gssapi_mic(&mic);
                self.sent(sent)?;
                Ok(None)
            }
            Err(failure) => self.give_up(&failure).map(Some),
        }
    }

    /// Ends the method without an answer of the server; the next method follows.
    fn give_up(&mut self, failure: &GssFailure) -> Result<Option<Answer>, ClientError> {
        debug_lines(failure);
        let sent = self.driver.connection().auth_gssapi_give_up(&failure.token);
        self.sent(sent)?;
        Ok(None)
    }
}

fn debug_lines(failure: &GssFailure) {
    for line in failure.reason.lines() {
        debug1!("{}", one_line(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_without_a_place_of_caches_names_none() {
        let folder = std::env::temp_dir().join(format!("krb5-{}", sys::process::pid()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("krb5.conf");
        for (text, names) in [
            ("[libdefaults]\n default_realm = X\n", false),
            ("# default_ccache_name = FILE:/x\n", false),
            ("[libdefaults]\n\tdefault_ccache_name = KCM:\n", true),
            ("includedir /etc/krb5.conf.d/\n", true),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(names_cache(&file), names, "{text}");
            assert_eq!(names_cache(&folder), names, "{text}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(!names_cache(&file));
    }
}
