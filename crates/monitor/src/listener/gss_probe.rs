//! Whether key exchanges by GSS-API can be offered: a client that may choose one fails where the server has no key.

use std::time::Duration;

use config::server::ServerConfig;
use gssapi::{AcceptorTerms, KerberosAcceptor, UserIds};
use sys::process::SelfExe;

use crate::log::Log;

/// Longest wait for the library, which may ask the DNS for this machine's name; no connection is accepted meanwhile.
const WAIT: Duration = Duration::from_secs(2);

/// Leaves GSSAPIKeyExchange out of the configuration if the keytab has no key, which a process of its own reads. It
/// stays if the library does not answer in time: a resolver that is down now may work later. `ids` are the
/// unprivileged ones.
pub(super) fn probe(config: &mut ServerConfig, ids: Option<(u32, u32)>, log: &Log) {
    let authentication = config.global().authentication;
    if !authentication.gssapi_key_exchange {
        return;
    }
    let terms = AcceptorTerms {
        ids: ids.map(|(uid, gid)| UserIds {
            uid,
            gid,
            groups: vec![gid],
        }),
        is_strict: authentication.gssapi_strict_acceptor_check,
        takes_delegated: false,
        is_mutual: true,
    };
    let executable = SelfExe::open().map_err(gssapi::GssFailure::from);
    match executable.and_then(|this| KerberosAcceptor::probe(&this, terms, WAIT)) {
        Ok(true) => {}
        Ok(false) => log.error(
            "GSSAPIKeyExchange: the library does not answer; whether the keytab has a key is not known",
        ),
        Err(failure) => {
            log.error(&format!(
                "GSSAPIKeyExchange: {failure}; key exchanges by GSSAPI are not offered"
            ));
            config.forgo_gss_exchanges();
        }
    }
}
