//! The user's Kerberos tickets, in processes of the crate `gssapi`: where they may be, for whom they are used, and the
//! contexts of key exchanges by GSS-API (RFC 4462 §2, RFC 8732).
//!
//! Invariants: credentials are delegated in the first exchange alone; the context of each exchange is established
//! with mutual authentication before its MIC counts; a process is awaited for a limited time and ends with its
//! exchange, that of the first one with the login.

use std::path::Path;
use std::time::Duration;

use config::algorithms::gss_key_exchanges;
use config::client::ClientOptions;
use driver::GssContexts;
use gssapi::{ContextStep, GssFailure, InitiatorTerms, KerberosInitiator};

use crate::error::Peer;
use crate::log::debug1;
use crate::text::one_line;

/// Kerberos' configuration, unless KRB5_CONFIG names another.
const CONFIGURATION: [&str; 2] = ["/etc/krb5.conf", "/etc/krb5.conf.d"];
/// Variables that name a credential cache, a configuration or a key to get tickets with.
const VARIABLES: [&str; 3] = ["KRB5CCNAME", "KRB5_CONFIG", "KRB5_CLIENT_KTNAME"];
/// Longest wait of a key exchange for the library, which may ask a KDC; ConnectTimeout may be shorter.
const EXCHANGE_WAIT: Duration = Duration::from_secs(30);

/// True if the user may have tickets: a variable or the configuration says where, or there is a cache
/// at the usual place.
pub(crate) fn may_have_tickets() -> bool {
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

/// What a context with the server is made of: GSSAPIServerIdentity, GSSAPITrustDns and GSSAPIClientIdentity.
pub(crate) fn terms(options: &ClientOptions, peer: &Peer, delegates: bool) -> InitiatorTerms {
    let authentication = &options.authentication;
    let by_dns = || {
        let address = peer.address.filter(|_| authentication.gssapi_trust_dns)?;
        sys::socket::reverse_confirmed(address.ip())
    };
    let identity = authentication.gssapi_server_identity.clone();
    let name = identity.or_else(by_dns);
    InitiatorTerms {
        service: format!("host@{}", name.as_ref().unwrap_or(&options.hostname)),
        delegates,
        identity: authentication.gssapi_client_identity.clone(),
    }
}

/// True if a key exchange by GSS-API is to be tried.
pub(crate) fn may_exchange_keys(options: &ClientOptions) -> bool {
    options.authentication.gssapi_key_exchange && may_have_tickets()
}

/// `-v`: the library's words.
pub(crate) fn debug_lines(failure: &GssFailure) {
    for line in failure.reason.lines() {
        debug1!("{}", one_line(line));
    }
}

/// The contexts of a connection's key exchanges.
#[derive(Debug)]
pub(crate) struct KerberosExchanges {
    terms: InitiatorTerms,
    /// The first token of the first exchange, until it is sent.
    first: Option<ContextStep>,
    /// The context of the first exchange, until the user is logged in.
    login: Option<KerberosInitiator>,
    /// The context of a rekey.
    rekey: Option<KerberosInitiator>,
    /// True if the running exchange is a rekey.
    is_rekey: bool,
}

impl KerberosExchanges {
    /// Begins a context with the server if the options ask for key exchanges; `None` if there is no ticket. As with
    /// the distributions' OpenSSH, the methods are offered only if a first token was made.
    pub(crate) fn begin(options: &ClientOptions, peer: &Peer) -> Option<Self> {
        if !may_exchange_keys(options) {
            return None;
        }
        let delegates = options.authentication.gssapi_delegate_credentials;
        let terms = terms(options, peer, delegates);
        let limit = options.connection.connect_timeout_s.map(u64::from);
        let wait = limit.map_or(EXCHANGE_WAIT, |limit| {
            EXCHANGE_WAIT.min(Duration::from_secs(limit))
        });
        match KerberosInitiator::begin(terms.clone(), Some(wait)) {
            Ok((context, first)) => {
                let names = options.algorithms.gssapi_kex_algorithms.join(",");
                debug1!(
                    "Offering GSSAPI proposal: {names} for {}",
                    one_line(&terms.service)
                );
                Some(Self {
                    terms,
                    first: Some(first),
                    login: Some(context),
                    rekey: None,
                    is_rekey: false,
                })
            }
            Err(failure) => {
                debug_lines(&failure);
                debug1!("no key exchange by GSSAPI is offered");
                None
            }
        }
    }

    /// The names of the methods to offer.
    pub(crate) fn names(options: &ClientOptions) -> Vec<String> {
        gss_key_exchanges(&options.algorithms.gssapi_kex_algorithms)
    }

    /// The service, `host@name`.
    pub(crate) fn service(&self) -> &str {
        &self.terms.service
    }

    fn context(&self) -> Result<&KerberosInitiator, String> {
        let context = match self.is_rekey {
            true => &self.rekey,
            false => &self.login,
        };
        context.as_ref().ok_or_else(no_context)
    }

    fn begin_rekey(&mut self) -> Result<ContextStep, String> {
        let terms = InitiatorTerms {
            delegates: false,
            ..self.terms.clone()
        };
        let begun = KerberosInitiator::begin(terms, Some(EXCHANGE_WAIT));
        let (context, first) = begun.map_err(in_one_line)?;
        self.rekey = Some(context);
        self.is_rekey = true;
        Ok(first)
    }
}

fn no_context() -> String {
    "there is no context".to_owned()
}

fn in_one_line(failure: GssFailure) -> String {
    failure.reason.replace('\n', "; ")
}

impl GssContexts for KerberosExchanges {
    fn token(&mut self, token: Vec<u8>) -> Result<(Vec<u8>, bool), String> {
        let step = match (token.is_empty(), self.first.take()) {
            (true, Some(first)) => first,
            (true, None) => self.begin_rekey()?,
            (false, _) => self.context()?.step(token).map_err(in_one_line)?,
        };
        Ok((step.token, step.is_complete))
    }

    fn verify(&mut self, token: Option<Vec<u8>>, hash: &[u8], mic: Vec<u8>) -> Result<(), String> {
        let context = self.context()?;
        if let Some(token) = token {
            let step = context.step(token).map_err(in_one_line)?;
            if !step.is_complete || !step.token.is_empty() {
                return Err("the server's last token does not complete the context".to_owned());
            }
        }
        context.verify(hash.to_vec(), mic).map_err(in_one_line)?;
        self.rekey = None;
        Ok(())
    }

    fn mic(&mut self, data: Vec<u8>) -> Result<Vec<u8>, String> {
        let context = self.login.as_ref().ok_or_else(no_context)?;
        context.mic(data).map_err(in_one_line)
    }

    fn logged_in(&mut self) {
        self.login = None;
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
