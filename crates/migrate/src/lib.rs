//! What changes on a machine when Fulmar takes OpenSSH's place: the defaults that differ and matter
//! to the keys and configuration that are there, each with the lines that give OpenSSH's behaviour.
//!
//! Reads files only. `sshd -t` prints what concerns the server's configuration; `fulmar install
//! --replace-openssh` also looks into the users' files and writes the lines.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use config::{ConfigError, ServerArguments, ServerConfig, ServerOptions};
use wire::algorithms::{KNOWN_KEX, KNOWN_MACS, MACS, SERVER_KEX, is_old};

mod client;
mod machine;

pub use machine::Machine;

/// OpenSSH's configuration of the server.
pub const SSHD_CONFIG: &str = "/etc/ssh/sshd_config";
/// OpenSSH's configuration of the client, for the whole machine.
pub const SSH_CONFIG: &str = "/etc/ssh/ssh_config";
/// Follows the name of a program of OpenSSH whose place is taken.
pub const ASIDE: &str = ".openssh";
/// The PAM service of OpenSSH's server.
const PAM_SERVICE: &str = "/etc/pam.d/sshd";
/// OpenSSH's RequiredRSASize, and ours, bits.
const RSA_BITS: (usize, u32) = (1024, 2048);
/// OpenSSH's host keys, in its order, then the type that only Fulmar and newer versions have.
const HOST_KEYS: [&str; 4] = ["rsa", "ecdsa", "ed25519", "mldsa44_ed25519"];
/// The first version of OpenSSH whose server offers no finite-field exchange by default.
const WITHOUT_FINITE_FIELDS: u32 = 10;

/// A default that differs from OpenSSH's and matters on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consequence {
    /// Who or what is concerned, as a sentence without its stop.
    pub what: String,
    /// Configuration lines with which it is as with OpenSSH.
    pub lines: Vec<String>,
}

impl std::fmt::Display for Consequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}; as with OpenSSH by \"{}\"",
            self.what,
            self.lines.join("\", \"")
        )
    }
}

/// What `sshd -t` reports for a configuration of OpenSSH's: the machine's own files, without those
/// of its users. A check at each start must neither wait for their homes nor read them as root.
#[must_use]
pub fn of_configuration(options: &ServerOptions, machine: &Machine) -> Vec<Consequence> {
    of_server(options, machine, &[])
}

/// What changes for the server that reads [`SSHD_CONFIG`], its users' files included; nothing if
/// the machine has no such file.
///
/// # Errors
/// If the configuration is one that the server refuses.
pub fn server(machine: &Machine) -> Result<Vec<Consequence>, ConfigError> {
    let path = Path::new(SSHD_CONFIG);
    if !machine.has(path) {
        return Ok(Vec::new());
    }
    let config = ServerConfig::load(path, machine, &ServerArguments::default())?;
    Ok(of_server(&config.global(), machine, &machine.homes()))
}

/// What changes for the client that reads [`SSH_CONFIG`].
#[must_use]
pub fn client(machine: &Machine) -> Vec<Consequence> {
    client::consequences(machine, &machine.homes())
}

fn of_server(options: &ServerOptions, machine: &Machine, homes: &[PathBuf]) -> Vec<Consequence> {
    [
        ecdsa_host_key(options, machine, homes),
        small_rsa_keys(options, machine, homes),
        exchanges(options, machine),
        macs(&options.algorithms.macs),
        pam_service(options, machine),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn host_key(kind: &str) -> String {
    format!("/etc/ssh/ssh_host_{kind}_key")
}

/// The ECDSA key, which OpenSSH offers where no HostKey line is.
fn ecdsa_host_key(
    options: &ServerOptions,
    machine: &Machine,
    homes: &[PathBuf],
) -> Option<Consequence> {
    let path = host_key("ecdsa");
    let is_default = options.host_keys.files == config::server::DEFAULT_HOST_KEYS;
    if !is_default || !machine.has(&path) {
        return None;
    }
    let public = |kind: &str| machine.host_key(&host_key(kind));
    let others: Vec<_> = HOST_KEYS
        .into_iter()
        .filter(|kind| *kind != "ecdsa")
        .filter_map(public)
        .collect();
    let knows_only_this = |home: &&PathBuf| {
        let known = machine.known_hosts(home);
        public("ecdsa").is_some_and(|key| known.contains(&key))
            && !others.iter().any(|key| known.contains(key))
    };
    let users = homes.iter().filter(knows_only_this).count();
    let whose = match users {
        0 => "clients may know this host only by its ECDSA key".to_owned(),
        1 => "1 user's known_hosts here, and clients elsewhere, may hold only its ECDSA key"
            .to_owned(),
        users => format!(
            "{users} users' known_hosts here, and clients elsewhere, may hold only its ECDSA key"
        ),
    };
    let present = HOST_KEYS
        .into_iter()
        .map(host_key)
        .filter(|path| machine.has(path));
    Some(Consequence {
        what: format!("{whose}: {path} is not offered by default"),
        lines: present.map(|path| format!("HostKey {path}")).collect(),
    })
}

/// RSA keys shorter than our limit: the host's, those of users, and those that cannot be seen.
fn small_rsa_keys(
    options: &ServerOptions,
    machine: &Machine,
    homes: &[PathBuf],
) -> Option<Consequence> {
    let (theirs, ours) = RSA_BITS;
    if options.algorithms.required_rsa_size != ours {
        return None;
    }
    let mut whose = Vec::new();
    let named = &options.host_keys.files;
    let is_small = |path: &&String| machine.host_key(path).is_some_and(|key| is_small_rsa(&key));
    whose.extend(named.iter().filter(is_small).cloned());
    let files = &options.user_keys.authorized_keys_files;
    let has_small = |home: &&PathBuf| {
        machine
            .authorized_keys(home, files)
            .iter()
            .any(is_small_rsa)
    };
    match homes.iter().filter(has_small).count() {
        0 => {}
        1 => whose.push("keys in 1 user's authorized_keys".to_owned()),
        users => whose.push(format!("keys in {users} users' authorized_keys")),
    }
    if options.user_keys.authorized_keys_command.is_some() {
        whose.push("keys that AuthorizedKeysCommand may print".to_owned());
    }
    (!whose.is_empty()).then(|| Consequence {
        what: format!(
            "RSA keys of less than {ours} bits do not log in by default: {}",
            whose.join(", ")
        ),
        lines: vec![format!("RequiredRSASize {theirs}")],
    })
}

fn is_small_rsa(key: &keys::PublicKey) -> bool {
    let (theirs, ours) = RSA_BITS;
    key.key_type() == keys::KeyType::Rsa && (theirs..ours as usize).contains(&key.bits())
}

/// The key exchanges that OpenSSH's server offers and ours does not.
fn exchanges(options: &ServerOptions, machine: &Machine) -> Option<Consequence> {
    if options.algorithms.kex_algorithms != SERVER_KEX {
        return None;
    }
    let finite_fields = machine
        .openssh_version()
        .is_some_and(|version| version < WITHOUT_FINITE_FIELDS);
    let missing: Vec<&str> = KNOWN_KEX
        .iter()
        .copied()
        .filter(|name| !is_old(name))
        .filter(|name| {
            name.starts_with("ecdh-") || finite_fields && name.starts_with("diffie-hellman-")
        })
        .collect();
    let kinds = if finite_fields {
        "NIST curves or finite fields"
    } else {
        "NIST curves"
    };
    Some(Consequence {
        what: format!("clients whose key exchanges use {kinds} only cannot connect by default"),
        lines: vec![format!("KexAlgorithms +{}", missing.join(","))],
    })
}

/// The MACs that OpenSSH offers and this suite does not by default.
fn macs(effective: &[String]) -> Option<Consequence> {
    (effective == MACS).then(|| Consequence {
        what: "peers whose only MAC is hmac-sha1 cannot connect by default".to_owned(),
        lines: vec![macs_line()],
    })
}

fn macs_line() -> String {
    let missing: Vec<&str> = KNOWN_MACS
        .iter()
        .copied()
        .filter(|name| !MACS.contains(name) && !is_old(name))
        .collect();
    format!("MACs +{}", missing.join(","))
}

/// The PAM service whose rules OpenSSH applies.
fn pam_service(options: &ServerOptions, machine: &Machine) -> Option<Consequence> {
    let settings = &options.authentication;
    let differs = settings.use_pam && settings.pam_service_name != "sshd";
    (differs && machine.has(PAM_SERVICE)).then(|| Consequence {
        what: format!(
            "the rules of {PAM_SERVICE} do not apply: the PAM service is {:?}",
            settings.pam_service_name
        ),
        lines: vec!["PAMServiceName sshd".to_owned()],
    })
}

#[cfg(test)]
mod tests;
