//! Builds typed [`ServerOptions`] from values by keyword, and checks between keywords.

use crate::address::ListenEntry;
use crate::algorithms::Side;
use crate::codec;
use crate::error::{ConfigError, MISTYPED};
use crate::server::options::ListenAddress;
use crate::server::table::{Row, SERVER_TABLE, ServerOptions};
use crate::types::{AddressFamily, Subsystem};
use crate::value::{Value, Values};

/// The value of HostKeyAgent that selects the socket of the variable of this name.
pub const AGENT_VARIABLE: &str = "SSH_AUTH_SOCK";

/// Host keys that are used if the file names none. The listener skips those that do not exist.
pub const DEFAULT_HOST_KEYS: &[&str] = &[
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_mldsa44_ed25519_key",
];

/// Adds defaults, resolves algorithm lists and converts each value to its type. The values come from
/// lines of a file, which are read as their row's type.
pub(crate) fn build(values: Values, aes_hardware: bool) -> ServerOptions {
    build_from(values, aes_hardware, true).0
}

/// As [`build`], of values that were decoded. Without `keeps_source` the options can only be read.
///
/// # Errors
/// [`ConfigError::Damaged`] if a value is of another type than its keyword.
pub(crate) fn build_decoded(
    values: Values,
    aes_hardware: bool,
    keeps_source: bool,
) -> Result<ServerOptions, ConfigError> {
    match build_from(values, aes_hardware, keeps_source) {
        (options, None) => Ok(options),
        (_, Some(_)) => Err(MISTYPED),
    }
}

/// The options, and a keyword whose value is of another type. `keeps_source` keeps an encoded copy
/// of the values, whose strings move into the options.
fn build_from(
    mut values: Values,
    aes_hardware: bool,
    keeps_source: bool,
) -> (ServerOptions, Option<Row>) {
    fill(&mut values, aes_hardware);
    let source = match keeps_source {
        true => codec::encoded_options(&values, aes_hardware),
        false => Vec::new(),
    };
    let listen_addresses = listen_addresses(&values);
    let (mut options, mut mistyped) = ServerOptions::of(|row| values.take(row.index()));
    for files in [
        &mut options.host_keys.files,
        &mut options.host_keys.certificates,
    ] {
        if matches!(&files[..], [only] if only.eq_ignore_ascii_case("none")) {
            files.clear();
        }
    }
    match listen_addresses {
        Some(addresses) => options.connection.listen_addresses = addresses,
        None => mistyped = Some(Row::ListenAddress),
    }
    options.source = source;
    (options, mistyped)
}

/// Refuses combinations of keywords with which no connection could be served.
pub(crate) fn check(options: &ServerOptions) -> Result<(), ConfigError> {
    let refuse = |text: &str| Err(ConfigError::Refused(text.to_owned()));
    if options.user_keys.authorized_keys_command.is_some()
        && options.user_keys.authorized_keys_command_user.is_none()
    {
        return refuse("AuthorizedKeysCommand set without AuthorizedKeysCommandUser");
    }
    if options.user_keys.authorized_principals_command.is_some()
        && options
            .user_keys
            .authorized_principals_command_user
            .is_none()
    {
        return refuse("AuthorizedPrincipalsCommand set without AuthorizedPrincipalsCommandUser");
    }
    for (list, row) in [
        (&options.algorithms.kex_algorithms, Row::KexAlgorithms),
        (&options.algorithms.ciphers, Row::Ciphers),
        (&options.algorithms.macs, Row::MACs),
        (
            &options.algorithms.host_key_algorithms,
            Row::HostKeyAlgorithms,
        ),
    ] {
        if list.is_empty() {
            return Err(ConfigError::Refused(format!(
                "{} leaves no algorithm",
                row.name()
            )));
        }
    }
    let enabled = |method: &str| match method.split(':').next().unwrap_or_default() {
        "publickey" => options.authentication.pubkey_authentication,
        "hostbased" => options.authentication.hostbased_authentication,
        "gssapi-with-mic" => options.authentication.gssapi_authentication,
        "gssapi-keyex" => {
            options.authentication.gssapi_authentication
                && options.authentication.gssapi_key_exchange
        }
        "password" => options.authentication.password_authentication,
        "keyboard-interactive" => options.authentication.kbd_interactive_authentication,
        // A chain with `none` is never complete, which can be intended: nobody logs in, except
        // users for whom a Match block names other methods.
        "none" => true,
        _ => false,
    };
    let chains = &options.authentication.authentication_methods;
    if !chains.is_empty() && !chains.iter().any(|chain| chain.iter().all(|m| enabled(m))) {
        return refuse(
            "AuthenticationMethods cannot be satisfied by enabled authentication methods",
        );
    }
    Ok(())
}

fn fill(values: &mut Values, aes_hardware: bool) {
    let row = Row::Subsystem.index();
    if let Some(Value::Subsystems(all)) = values.at(row) {
        // The first entry of a name counts; those of a Match block come before the others.
        let mut first: Vec<Subsystem> = Vec::new();
        for entry in all {
            if !first.iter().any(|have| have.name == entry.name) {
                first.push(entry.clone());
            }
        }
        values.put(row, Value::Subsystems(first));
    }
    values.complete(SERVER_TABLE, Side::Server, aes_hardware);
    if values.at(Row::HostKey.index()).is_none() {
        let defaults = DEFAULT_HOST_KEYS
            .iter()
            .map(|key| (*key).to_owned())
            .collect();
        values.put(Row::HostKey.index(), Value::Words(defaults));
    }
}

/// `Port` and `ListenAddress` together; `None` if a value is of another type.
fn listen_addresses(values: &Values) -> Option<Vec<ListenAddress>> {
    let ports: Vec<u16> = values.get(Row::Port.index())?;
    let row = Row::ListenAddress.index();
    let mut entries: Vec<ListenEntry> = match values.at(row) {
        Some(_) => values.get(row)?,
        None => Vec::new(),
    };
    if entries.is_empty() {
        let hosts = wildcard_hosts(values.get(Row::AddressFamily.index()));
        entries.extend(hosts.map(|host| ListenEntry {
            host: host.to_owned(),
            port: None,
            rdomain: None,
        }));
    }
    let mut out = Vec::new();
    for ListenEntry {
        host,
        port,
        rdomain,
    } in entries
    {
        let ports = port.as_ref().map_or(&ports[..], std::slice::from_ref);
        out.extend(ports.iter().map(|port| ListenAddress {
            host: Some(host.clone()),
            port: *port,
            rdomain: rdomain.clone(),
        }));
    }
    Some(out)
}

fn wildcard_hosts(family: Option<AddressFamily>) -> impl Iterator<Item = &'static str> {
    let six = (family != Some(AddressFamily::Inet)).then_some("::");
    let four = (family != Some(AddressFamily::Inet6)).then_some("0.0.0.0");
    six.into_iter().chain(four)
}
