//! Loads the host keys and their certificates. A private key file must not be readable by others.
//! Where the private half is not there, a public key suffices if HostKeyAgent names an agent.
//! Each key lists the algorithm names that it serves.

use std::io;
use std::path::Path;

use config::server::{AGENT_VARIABLE, AlgorithmOptions, DEFAULT_HOST_KEYS, ServerOptions};
use keys::{CertificateKind, KeyType, PresentedKey, SignatureAlgorithm};
use privsep::{HostKey, Secret};
use sys::file::FollowLinks;

use crate::log::Log;

/// Host keys that every monitor receives.
#[derive(Debug)]
pub(crate) struct HostKeys {
    /// Keys and certificates in the order of HostKey and HostCertificate.
    pub(crate) offered: Vec<HostKey>,
    /// Private key files, by [`HostKey::index`]; empty for a key that the agent holds.
    pub(crate) files: Vec<Secret>,
    /// Path of the socket of HostKeyAgent.
    pub(crate) agent: Option<String>,
}

/// Loads the keys and certificates that `options` name. A file that cannot be used is logged and
/// skipped.
///
/// # Errors
/// If no key can be used, without GSSAPIKeyExchange.
pub(crate) fn load(options: &ServerOptions, log: &Log) -> Result<HostKeys, String> {
    let mut loaded = HostKeys {
        offered: Vec::new(),
        files: Vec::new(),
        agent: agent_socket(options, log),
    };
    let mut public = Vec::new();
    let mut named = options.host_keys.files.clone();
    if named.is_empty() {
        named.extend(DEFAULT_HOST_KEYS.iter().map(|&path| path.to_owned()));
    }
    for path in &named {
        let found = load_key(Path::new(path), options, log).or_else(|error| {
            let held = loaded.agent.as_ref().and_then(|_| public_half(path));
            held.map(|key| (key, Secret::new(Vec::new()))).ok_or(error)
        });
        let found = found.and_then(|(key, file)| {
            has_enough_bits(&key, &options.algorithms)?;
            Ok((key, file))
        });
        match found {
            Ok((key, file)) => {
                let index = u32::try_from(loaded.files.len()).unwrap_or(u32::MAX);
                let algorithms = permitted(key.key_type().algorithms(), &options.algorithms);
                if file.expose().is_empty() {
                    log.debug(&format!("will rely on agent for hostkey {path}"));
                }
                log.debug(&format!(
                    "private host key #{index}: {} {}",
                    key.key_type().name(),
                    keys::fingerprint::sha256(&key.blob())
                ));
                loaded.offered.push(HostKey {
                    index,
                    blob: key.blob(),
                    algorithms,
                });
                loaded.files.push(file);
                public.push(key);
            }
            // A missing default file is not an error.
            Err(LoadError::Io(error))
                if error.kind() == io::ErrorKind::NotFound
                    && DEFAULT_HOST_KEYS.contains(&path.as_str()) =>
            {
                log.debug(&format!("Unable to load host key \"{path}\": {error}"));
            }
            Err(error) => log.error(&format!("Unable to load host key \"{path}\": {error}")),
        }
    }
    for path in &options.host_keys.certificates {
        match load_certificate(path, &public) {
            Ok((index, certificate)) => loaded.offered.push(HostKey {
                index,
                algorithms: permitted(
                    certificate.key().key_type().certificate_algorithms(),
                    &options.algorithms,
                ),
                blob: certificate.blob().to_vec(),
            }),
            Err(error) => log.error(&format!(
                "Could not load host certificate \"{path}\": {error}"
            )),
        }
    }
    loaded.offered.retain(|key| !key.algorithms.is_empty());
    // A key exchange by GSS-API needs none.
    if loaded.offered.is_empty() && !options.authentication.gssapi_key_exchange {
        return Err("no hostkeys available -- exiting.".to_owned());
    }
    Ok(loaded)
}

#[derive(Debug)]
enum LoadError {
    Io(io::Error),
    Refused(String),
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

fn load_key(
    path: &Path,
    options: &ServerOptions,
    log: &Log,
) -> Result<(keys::PublicKey, Secret), LoadError> {
    let file = sys::file::open_regular(path, FollowLinks::Follow).map_err(LoadError::Io)?;
    if let Some(mode) = sys::file::too_open_for_a_key(&file).map_err(LoadError::Io)? {
        return Err(LoadError::Refused(format!(
            "Permissions 0{mode:o} are too open: the key is ignored until only its owner may read it"
        )));
    }
    let limit = keys::private_file::MAX_FILE_BYTES;
    let bytes = sys::file::read_file_bounded(&file, limit).map_err(LoadError::Io)?;
    let bytes = Secret::new(bytes);
    let parsed = keys::private_file::parse(bytes.expose(), None)
        .map_err(|error| LoadError::Refused(error.to_string()))?;
    if let Some(parts) = parsed.key.security_key() {
        let provider = &options.host_keys.security_key_provider;
        fido::Provider::new(provider).map_err(|reason| {
            LoadError::Refused(format!(
                "the key is in a security key, and SecurityKeyProvider {provider} cannot be used: {reason}"
            ))
        })?;
        if parts.flags & fido::USER_PRESENCE != 0 {
            let path = path.display();
            log.debug(&format!("host key {path} requires user presence, ignoring"));
        }
    }
    Ok((parsed.key.public().clone(), bytes))
}

/// Refuses an RSA key that is smaller than RequiredRSASize.
fn has_enough_bits(key: &keys::PublicKey, algorithms: &AlgorithmOptions) -> Result<(), LoadError> {
    let (bits, least) = (key.bits(), algorithms.required_rsa_size);
    let is_small = u32::try_from(bits).is_ok_and(|bits| bits < least);
    if key.key_type() == KeyType::Rsa && is_small {
        return Err(LoadError::Refused(format!(
            "Invalid key length: the RSA key has {bits} bits; RequiredRSASize is {least}"
        )));
    }
    Ok(())
}

/// The socket of HostKeyAgent. Whether the agent answers shows when it is to sign: it may start
/// after this server.
fn agent_socket(options: &ServerOptions, log: &Log) -> Option<String> {
    let named = options.host_keys.agent.clone()?;
    if named != AGENT_VARIABLE {
        return Some(named);
    }
    let socket = std::env::var(AGENT_VARIABLE).ok();
    let socket = socket.filter(|socket| !socket.is_empty());
    if socket.is_none() {
        log.error(&format!(
            "Could not connect to agent \"{AGENT_VARIABLE}\": the variable is not set"
        ));
    }
    socket
}

/// The public key in the file `path`, or in `path.pub` beside a private key that is not there.
fn public_half(path: &str) -> Option<keys::PublicKey> {
    [path.to_owned(), format!("{path}.pub")]
        .iter()
        .find_map(|name| {
            let limit = keys::private_file::MAX_FILE_BYTES;
            let bytes = sys::file::read_bounded(name, limit, FollowLinks::Follow).ok()?;
            match keys::public_file::parse(&bytes).ok()?.key {
                PresentedKey::Plain(key) => Some(key),
                PresentedKey::Certificate(_) => None,
            }
        })
}

fn load_certificate(
    path: &str,
    public: &[keys::PublicKey],
) -> Result<(u32, keys::Certificate), String> {
    let bytes = sys::file::read_bounded(
        path,
        keys::private_file::MAX_FILE_BYTES,
        FollowLinks::Follow,
    )
    .map_err(|error| error.to_string())?;
    let parsed = keys::public_file::parse(&bytes).map_err(|error| error.to_string())?;
    let PresentedKey::Certificate(certificate) = parsed.key else {
        return Err("not a certificate".to_owned());
    };
    if certificate.kind() != CertificateKind::Host {
        return Err("not a host certificate".to_owned());
    }
    let index = public
        .iter()
        .position(|key| key == certificate.key())
        .and_then(|at| u32::try_from(at).ok())
        .ok_or("No matching private key for certificate")?;
    Ok((index, *certificate))
}

/// The names in `served` that HostKeyAlgorithms permits, in the configured order.
fn permitted(served: &[SignatureAlgorithm], algorithms: &AlgorithmOptions) -> Vec<String> {
    algorithms
        .host_key_algorithms
        .iter()
        .filter(|name| served.iter().any(|algorithm| algorithm.name() == **name))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use privsep::LogLevel;

    use super::*;
    use crate::test_support::{TempDir, options};

    fn write_key(directory: &TempDir, name: &str, mode: u32) -> String {
        let key = keys::PrivateKey::from_ed25519_seed(&[7; 32]);
        let text = keys::private_file::write_openssh(&key, "host", None).unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, &*text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_key_that_others_can_read_is_left_out() {
        let directory = TempDir::new();
        let log = Log::to_memory(LogLevel::Info);
        let open = write_key(&directory, "open", 0o644);
        let none = load(&options(&format!("HostKey {open}")), &log);
        assert_eq!(none.unwrap_err(), "no hostkeys available -- exiting.");
        assert!(log.lines()[0].contains("0644"), "{:?}", log.lines());

        let closed = write_key(&directory, "closed", 0o600);
        let text = format!("HostKey {open}\nHostKey {closed}");
        let loaded = load(&options(&text), &log).unwrap();
        assert_eq!(loaded.files.len(), 1);
        assert_eq!(loaded.offered[0].algorithms, ["ssh-ed25519"]);
    }

    #[test]
    fn a_public_half_serves_only_with_an_agent() {
        let directory = TempDir::new();
        let log = Log::to_memory(LogLevel::Info);
        let key = keys::PrivateKey::from_ed25519_seed(&[7; 32]);
        let path = directory.path().join("key");
        let public = directory.path().join("key.pub");
        std::fs::write(&public, key.public().to_line()).unwrap();
        // The file itself, and the private one that is missing beside it.
        for named in [&public, &path] {
            let text = format!("HostKey {}", named.display());
            assert!(load(&options(&text), &log).is_err());
            let text = format!("{text}\nHostKeyAgent /nonexistent");
            let loaded = load(&options(&text), &log).unwrap();
            assert!(loaded.files[0].expose().is_empty());
            assert_eq!(loaded.offered[0].blob, key.public().blob());
            assert_eq!(loaded.agent.as_deref(), Some("/nonexistent"));
        }
    }

    #[test]
    fn a_security_key_is_offered_if_its_provider_can_be_found() {
        let directory = TempDir::new();
        let log = Log::to_memory(LogLevel::Debug1);
        let public = keys::PublicKey::SkEd25519 {
            point: [9; 32],
            application: b"ssh:".to_vec(),
        };
        let key = keys::PrivateKey::of_security_key(public, fido::USER_PRESENCE, b"handle");
        let text = keys::private_file::write_openssh(&key.unwrap(), "host", None).unwrap();
        let path = directory.path().join("sk");
        std::fs::write(&path, &*text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let text = format!("HostKey {}", path.display());
        let loaded = load(&options(&text), &log).unwrap();
        assert_eq!(loaded.offered[0].algorithms, ["sk-ssh-ed25519@openssh.com"]);
        assert!(
            log.lines()
                .iter()
                .any(|line| line.contains("requires user presence"))
        );
        let missing = format!("{text}\nSecurityKeyProvider /nonexistent.so");
        assert!(load(&options(&missing), &log).is_err());
        let lines = log.lines();
        assert!(
            lines
                .iter()
                .any(|line| line.contains("/nonexistent.so cannot be used")),
            "{lines:?}"
        );
    }

    #[test]
    fn a_key_whose_algorithms_are_not_permitted_serves_nothing() {
        let directory = TempDir::new();
        let log = Log::to_memory(LogLevel::Info);
        let path = write_key(&directory, "key", 0o600);
        let text = format!("HostKey {path}\nHostKeyAlgorithms rsa-sha2-512");
        assert!(load(&options(&text), &log).is_err());
    }
}
