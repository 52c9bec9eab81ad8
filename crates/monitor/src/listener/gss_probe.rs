//! Whether key exchanges by GSS-API can be offered: a client that may choose one fails where the server has no key.

use config::server::ServerConfig;
use gssapi::{AcceptorTerms, KerberosAcceptor, UserIds};
use sys::process::SelfExe;

use crate::log::Log;

/// Leaves GSSAPIKeyExchange out of the configuration if no acceptor can be started, which reads the keytab in a process
/// of its own. `ids` are the unprivileged ones.
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
    if let Err(failure) = executable.and_then(|this| KerberosAcceptor::start(&this, terms)) {
        log.error(&format!(
            "GSSAPIKeyExchange: {failure}; key exchanges by GSSAPI are not offered"
        ));
        config.forgo_gss_exchanges();
    }
}
