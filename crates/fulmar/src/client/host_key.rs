//! Host key policies, which decide whether a server is trusted.
//!
//! Before a policy is called, the server has proved that it holds the key, and a certificate's own
//! signature has been verified. The policy decides whether the key belongs to the host. A later key
//! exchange must use the same key, or the connection ends.

use std::io;
use std::path::PathBuf;

use ::client::Interaction;
use ::client::host_key::{Finding, HostKeyJudge, HostKeyRules, Verdict, assess};
use keys::known_hosts::{self, KnownTypes, Location};
use keys::{PresentedKey, PublicKey};

use crate::HostKeyProblem;

/// The system's known_hosts file.
const SYSTEM_FILE: &str = "/etc/ssh/ssh_known_hosts";

/// A server's key, with the host and port that the client connected to.
#[derive(Debug)]
#[non_exhaustive]
pub struct PresentedHostKey<'a> {
    /// The host as given to [`Session::connect`](super::Session::connect).
    pub host: &'a str,
    /// The port.
    pub port: u16,
    /// The key or certificate.
    pub key: &'a PresentedKey,
    /// True if the session's host key algorithms include one for plain keys of this type. If false,
    /// the plain key inside a certificate must not be accepted for the host.
    pub plain_key_permitted: bool,
    /// Smallest RSA modulus that the session accepts, bits.
    pub min_rsa_bits: usize,
    rules: &'a HostKeyRules,
}

impl PresentedHostKey<'_> {
    /// Fingerprint `SHA256:…` of the plain key, for people to compare.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        keys::fingerprint::sha256(&self.key.key().blob())
    }
}

/// Decides whether a server's key is the host's.
pub trait HostKeyPolicy: Send {
    /// Decides whether the key is the host's; `Ok` accepts it.
    ///
    /// # Errors
    /// Why the key is refused; the connection then ends.
    fn judge(&mut self, presented: &PresentedHostKey<'_>) -> Result<(), HostKeyProblem>;

    /// The types of the host's recorded keys: the client prefers them in the key exchange, so that
    /// the server shows a key that can be recognised. The default is none.
    fn known_types(&self, host: &str, port: u16) -> KnownTypes {
        let _ = (host, port);
        KnownTypes::default()
    }
}

/// A closure that returns true to accept a key.
impl<F: FnMut(&PresentedHostKey<'_>) -> bool + Send> HostKeyPolicy for F {
    fn judge(&mut self, presented: &PresentedHostKey<'_>) -> Result<(), HostKeyProblem> {
        if self(presented) {
            Ok(())
        } else {
            Err(HostKeyProblem::NotExpected {
                fingerprint: presented.fingerprint(),
            })
        }
    }
}

/// Accepts exactly this key.
#[derive(Debug, Clone)]
pub struct FixedKey(pub PublicKey);

impl HostKeyPolicy for FixedKey {
    fn judge(&mut self, presented: &PresentedHostKey<'_>) -> Result<(), HostKeyProblem> {
        if *presented.key.key() == self.0 {
            Ok(())
        } else {
            Err(HostKeyProblem::NotExpected {
                fingerprint: presented.fingerprint(),
            })
        }
    }

    fn known_types(&self, _host: &str, _port: u16) -> KnownTypes {
        KnownTypes {
            plain: vec![self.0.key_type()],
            authority: false,
        }
    }
}

/// Accepts any key: an attacker on the network can read and change everything. For tests.
#[derive(Debug, Clone, Copy)]
pub struct AcceptAny;

impl HostKeyPolicy for AcceptAny {
    fn judge(&mut self, _presented: &PresentedHostKey<'_>) -> Result<(), HostKeyProblem> {
        Ok(())
    }
}

/// Accepts the keys in `known_hosts` files, with hashed names, `@cert-authority` and `@revoked`
/// lines.
#[derive(Debug, Clone)]
pub struct KnownHosts {
    paths: Vec<PathBuf>,
    accepts_new: bool,
}

impl KnownHosts {
    /// Uses these files, in this order; a file that does not exist counts as empty.
    #[must_use]
    pub fn new(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            paths: paths.into_iter().map(Into::into).collect(),
            accepts_new: false,
        }
    }

    /// Uses `~/.ssh/known_hosts`, then `/etc/ssh/ssh_known_hosts`.
    ///
    /// # Errors
    /// [`HostKeyProblem::Record`] if the home directory is unknown or not an absolute path.
    pub fn of_user() -> Result<Self, HostKeyProblem> {
        let home = std::env::home_dir()
            .filter(|home| home.is_absolute())
            .ok_or_else(|| HostKeyProblem::Record("HOME is not set".into()))?;
        Ok(Self::new([
            home.join(".ssh/known_hosts"),
            PathBuf::from(SYSTEM_FILE),
        ]))
    }

    /// Uses `/etc/ssh/ssh_known_hosts` only.
    #[must_use]
    pub fn of_system() -> Self {
        Self::new([SYSTEM_FILE])
    }

    /// Also accepts a host without a recorded key, and appends its key to the first file. A host
    /// whose key has changed is still refused.
    #[must_use]
    pub fn accept_new(mut self) -> Self {
        self.accepts_new = true;
        self
    }

    fn load(&self) -> io::Result<Vec<known_hosts::KnownHosts>> {
        let mut files = Vec::new();
        for path in &self.paths {
            match known_hosts::KnownHosts::load(path) {
                Ok(file) => files.push(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(io::Error::new(
                        error.kind(),
                        format!("{}: {error}", path.display()),
                    ));
                }
            }
        }
        Ok(files)
    }

    fn judge_new(
        &self,
        name: &str,
        key: &PublicKey,
        fingerprint: String,
    ) -> Result<(), HostKeyProblem> {
        if !self.accepts_new {
            return Err(HostKeyProblem::Unknown { fingerprint });
        }
        let Some(path) = self.paths.first() else {
            return Err(HostKeyProblem::Record("no file to write to".into()));
        };
        let line = known_hosts::edit::entry_line(&[name], key, false);
        known_hosts::edit::append(path, &line)
            .map_err(|error| HostKeyProblem::Record(format!("{}: {error}", path.display())))
    }
}

fn at(location: &Location) -> String {
    format!("{}:{}", location.path.display(), location.line)
}

fn changed(presented: &PresentedHostKey<'_>, known: &[known_hosts::KnownKey]) -> HostKeyProblem {
    let places: Vec<String> = known.iter().map(|known| at(&known.location)).collect();
    HostKeyProblem::Changed {
        fingerprint: presented.fingerprint(),
        known_at: places.join(", "),
    }
}

impl HostKeyPolicy for KnownHosts {
    fn judge(&mut self, presented: &PresentedHostKey<'_>) -> Result<(), HostKeyProblem> {
        let files = self
            .load()
            .map_err(|error| HostKeyProblem::Record(error.to_string()))?;
        let name = known_hosts::host_name(presented.host, presented.port);
        let principal = presented.host.to_ascii_lowercase();
        let lookup = |key: &PresentedKey| known_hosts::lookup(&files, &name, key);
        match assess(presented.key, &principal, presented.rules, lookup) {
            Finding::Authority { .. } | Finding::Known { .. } => Ok(()),
            Finding::Revoked { at: line } => Err(HostKeyProblem::Revoked { at: at(&line) }),
            Finding::BadCertificate(why) => Err(HostKeyProblem::BadCertificate(why)),
            Finding::NoAuthority => Err(HostKeyProblem::Unusable(
                "no known authority signed the certificate, and no plain key of its type is \
                 permitted"
                    .into(),
            )),
            // A known host with a key of another type is not a new host.
            Finding::Changed(known) | Finding::OtherTypes(known) => Err(changed(presented, &known)),
            Finding::Unknown => self.judge_new(&name, presented.key.key(), presented.fingerprint()),
        }
    }

    fn known_types(&self, host: &str, port: u16) -> KnownTypes {
        // `judge` reports a file that cannot be read.
        let files = self.load().unwrap_or_default();
        known_hosts::known_types(&files, &known_hosts::host_name(host, port))
    }
}

/// Has a policy judge the host key during the key exchange, and keeps its reason.
pub(super) struct Judge<'a> {
    pub(super) policy: &'a mut dyn HostKeyPolicy,
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) rules: HostKeyRules,
    pub(super) problem: Option<HostKeyProblem>,
}

impl Judge<'_> {
    fn judged(&mut self, algorithm: &str, blob: &[u8]) -> Result<(), HostKeyProblem> {
        let parsed = self.rules.parse(algorithm, blob);
        let key = parsed.map_err(|error| HostKeyProblem::Unusable(error.to_string()))?;
        self.policy.judge(&PresentedHostKey {
            host: self.host,
            port: self.port,
            key: &key,
            plain_key_permitted: self.rules.permits_plain(key.key().key_type()),
            min_rsa_bits: self.rules.min_rsa_bits,
            rules: &self.rules,
        })
    }
}

impl HostKeyJudge for Judge<'_> {
    fn judge(&mut self, algorithm: &str, blob: &[u8], _: &mut dyn Interaction) -> Verdict {
        match self.judged(algorithm, blob) {
            Ok(()) => Verdict::Accept,
            Err(problem) => {
                self.problem = Some(problem);
                Verdict::Refuse
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use keys::certificate::CertificateFields;
    use keys::{CertificateKind, PrivateKey, SignatureAlgorithm};

    use super::*;

    /// A host certificate of an unknown authority counts as its plain key only if a plain key is
    /// permitted.
    #[test]
    fn an_unknown_authority_leaves_the_plain_key_where_one_is_permitted() {
        let key = |seed| PrivateKey::from_ed25519_seed(&[seed; 32]);
        let fields = CertificateFields {
            key: key(1).public().clone(),
            kind: CertificateKind::Host,
            serial: 1,
            key_id: String::new(),
            principals: vec!["h".to_owned()],
            valid_after: 0,
            valid_before: u64::MAX,
            critical_options: Vec::new(),
            extensions: Vec::new(),
        };
        let certificate = fields.sign(&key(9), SignatureAlgorithm::Ed25519).unwrap();
        let presented: PresentedKey = certificate.into();
        let path = std::env::temp_dir().join(format!("fulmar-known-{}", std::process::id()));
        std::fs::write(&path, format!("h {}\n", key(1).public().to_line())).unwrap();
        for plain_key_permitted in [true, false] {
            let judged = KnownHosts::new([&path]).judge(&PresentedHostKey {
                host: "h",
                port: 22,
                key: &presented,
                plain_key_permitted,
                min_rsa_bits: 2048,
                rules: &HostKeyRules {
                    host_key_algorithms: match plain_key_permitted {
                        true => vec!["ssh-ed25519".to_owned()],
                        false => Vec::new(),
                    },
                    authority_algorithms: vec![SignatureAlgorithm::Ed25519],
                    min_rsa_bits: 2048,
                },
            });
            assert_eq!(judged.is_ok(), plain_key_permitted, "{judged:?}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
