//! The user's Kerberos tickets, in processes of the crate `gssapi`: where they may be, for whom they are used, and the
//! contexts of key exchanges by GSS-API (RFC 4462 §2, RFC 8732).
//!
//! Invariants: credentials are delegated in the first exchange, and later only if they were renewed
//! (GSSAPIRenewalForcesRekey); the context of each exchange is established
//! with mutual authentication before its MIC counts; a process is awaited for a limited time and ends with its
//! exchange, that of the first one with the login.

mod renewal;

use std::path::Path;
use std::time::Duration;

use config::algorithms::gss_key_exchanges;
use config::client::ClientOptions;
use driver::GssContexts;
use gssapi::{ContextStep, GssFailure, InitiatorTerms, KerberosInitiator};

use crate::error::Peer;
use crate::log::debug1;
use crate::text::one_line;
pub(crate) use renewal::LOOK_MS;
use renewal::RenewalWatch;

/// Kerberos' configuration, unless KRB5_CONFIG names another.
const CONFIGURATION: [&str; 2] = ["/etc/krb5.conf", "/etc/krb5.conf.d"];
/// Variables that name a credential cache, a configuration or a key to get tickets with.
const VARIABLES: [&str; 3] = ["KRB5CCNAME", "KRB5_CONFIG", "KRB5_CLIENT_KTNAME"];
/// Longest wait for the first token of a rekey that delegates renewed credentials. The session waits with it;
/// the KDC that has renewed them answered a moment ago.
const RENEWAL_WAIT: Duration = Duration::from_secs(5);
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
    /// True if renewed credentials are delegated in a rekey.
    follows_renewals: bool,
    /// Since the login, if it does.
    watch: Option<RenewalWatch>,
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
                    follows_renewals: follows_renewals(options),
                    watch: None,
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

    /// Begins the context that delegates renewed credentials, if there are any.
    fn begin_renewal(&mut self, now_ms: u64) -> Result<bool, GssFailure> {
        let Some(watch) = &mut self.watch else {
            return Ok(false);
        };
        let Some(credential) = watch.renewed(now_ms)? else {
            return Ok(false);
        };
        let terms = InitiatorTerms {
            delegates: true,
            ..self.terms.clone()
        };
        // A rekey whose context fails would end the connection, so the context comes first.
        let begun = KerberosInitiator::begin(terms, Some(RENEWAL_WAIT));
        let (context, first) = begun.inspect_err(|_| watch.pause(now_ms))?;
        watch.delegates(credential);
        (self.first, self.rekey) = (Some(first), Some(context));
        self.is_rekey = true;
        Ok(true)
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

/// True if renewed credentials are to be delegated in rekeys, where key exchanges are by GSS-API.
pub(crate) fn follows_renewals(options: &ClientOptions) -> bool {
    let authentication = &options.authentication;
    authentication.gssapi_renewal_forces_rekey && authentication.gssapi_delegate_credentials
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
        let Some(context) = self.login.take().filter(|_| self.follows_renewals) else {
            return;
        };
        let identity = self.terms.identity.clone();
        match context.inquire(identity.clone()) {
            Ok(credential) => {
                let now_ms = sys::time::monotonic_ms();
                self.watch = Some(RenewalWatch::new(credential, identity, now_ms));
            }
            Err(failure) => debug_lines(&failure),
        }
    }

    fn renews(&mut self) -> bool {
        let begun = self.begin_renewal(sys::time::monotonic_ms());
        begun.unwrap_or_else(|failure| {
            debug_lines(&failure);
            false
        })
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
