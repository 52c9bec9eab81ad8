//! Method `hostbased` (RFC 4252 §9): decides whether a user of another host may log in because that
//! host vouches for them with its host key.
//!
//! [`rhosts`] reads the lists of trusted hosts and users. Invariants: both the lists and the
//! known_hosts files must name the host; the user's files are read with the user's rights; nothing
//! that the client says about itself is believed before the host's key has been found and its
//! signature verified. The words of the log are OpenSSH's (auth2-hostbased.c, auth-rhosts.c).

mod rhosts;

use std::path::Path;

use config::server::ServerOptions;
use keys::CertificateKind;
use keys::candidate::CandidateKey;
use keys::certificate::CertificateRules;
use keys::known_hosts::{self, HostKeyStatus, KnownHosts};
use sys::file::FollowLinks;
use sys::process::AsUser;

use super::accounts::{Account, Peer};
use super::publickey::{self, RevokedKeys};
use crate::log::Log;

/// The system's lists of host keys: OpenSSH reads the second only if the first does not know the
/// host. The same holds for the user's.
const SYSTEM_KNOWN_HOSTS: [&str; 2] = ["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"];
/// The user's lists of host keys, below the home directory.
const USER_KNOWN_HOSTS: [&str; 2] = [".ssh/known_hosts", ".ssh/known_hosts2"];

/// The host and user that the client claims to come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim<'a> {
    /// Name of the client's host, without the final dot.
    pub(crate) host: &'a str,
    /// The user's name there.
    pub(crate) user: &'a str,
}

impl<'a> Claim<'a> {
    /// The claim of a request; a final dot of the host's name is dropped.
    pub(crate) fn new(host: &'a str, user: &'a str) -> Self {
        let host = host.strip_suffix('.').unwrap_or(host);
        Self { host, user }
    }

    /// The claim for log lines.
    pub(crate) fn described(&self) -> String {
        format!(
            "client user \"{}\", client host \"{}\"",
            shortened(self.user),
            shortened(self.host)
        )
    }
}

/// The first 100 bytes, as in OpenSSH's lines.
fn shortened(text: &str) -> &str {
    text.get(..text.floor_char_boundary(100))
        .unwrap_or_default()
}

/// The facts that decide whether a host may vouch for a user.
pub(crate) struct HostLookup<'a> {
    pub(crate) account: &'a Account,
    pub(crate) options: &'a ServerOptions,
    pub(crate) revoked: &'a RevokedKeys,
    pub(crate) peer: &'a Peer,
    /// Seconds since 1970.
    pub(crate) now: u64,
    pub(crate) log: &'a Log,
}

/// `HostbasedAcceptedAlgorithms`, for [`publickey::candidate`].
pub(crate) fn accepted(options: &ServerOptions) -> (&'static str, &[String]) {
    let accepted = &options.algorithms.hostbased_accepted_algorithms;
    ("HostbasedAcceptedAlgorithms", accepted)
}

impl HostLookup<'_> {
    /// True if the host with this key may vouch for the claimed user. The signature is not checked
    /// here.
    pub(crate) fn permits(&self, candidate: &CandidateKey, claim: &Claim<'_>) -> bool {
        let paths = &self.options.user_keys.revoked_keys;
        if self.revoked.contains(paths, candidate.key(), self.log) {
            return false;
        }
        let authentication = &self.options.authentication;
        let (host, address) = if authentication.hostbased_uses_name_from_packet_only {
            (claim.host, claim.host)
        } else {
            if !self.peer.host.eq_ignore_ascii_case(claim.host) {
                self.log.info(&format!(
                    "userauth_hostbased mismatch: client sends {}, but we resolve {} to {}",
                    claim.host, self.peer.address, self.peer.host
                ));
            }
            (self.peer.host.as_str(), self.peer.address.as_str())
        };
        if !self.is_trusted(host, address, claim.user) {
            self.log.debug(&format!(
                "no list of trusted hosts lets user \"{}\" of host \"{}\" [{}] in",
                shortened(claim.user),
                shortened(host),
                shortened(address)
            ));
            return false;
        }
        if let Err(reason) = self.check_certificate(candidate, host) {
            self.log.error(&reason);
            return false;
        }
        self.is_known(candidate, host, claim)
    }

    /// Checks a host certificate for `host`; a plain key passes.
    fn check_certificate(&self, candidate: &CandidateKey, host: &str) -> Result<(), String> {
        let Some(certificate) = candidate.key().certificate() else {
            return Ok(());
        };
        let checked = certificate.check(&CertificateRules {
            kind: CertificateKind::Host,
            names: &[host],
            now: self.now,
            authority_algorithms: &publickey::authority_algorithms(&self.options.algorithms),
            min_rsa_bits: publickey::required_rsa_bits(&self.options.algorithms),
        });
        checked.map(drop).map_err(|error| error.to_string())
    }

    /// True if the known_hosts files list the key, or the authority of the certificate, for `host`.
    fn is_known(&self, candidate: &CandidateKey, host: &str, claim: &Claim<'_>) -> bool {
        let name = known_hosts::host_name(host, known_hosts::DEFAULT_PORT);
        for (system, user) in SYSTEM_KNOWN_HOSTS.into_iter().zip(USER_KNOWN_HOSTS) {
            let files = [self.system_hosts(system), self.user_hosts(user)];
            match known_hosts::lookup(files.iter().flatten(), &name, candidate.key()) {
                HostKeyStatus::Found { at, .. } => {
                    self.log.debug(&format!(
                        "key for {host} found at {}:{}",
                        at.path.display(),
                        at.line
                    ));
                    self.log_accepted(candidate, host, claim);
                    return true;
                }
                HostKeyStatus::Revoked { .. } => {
                    self.log.error(&format!(
                        "WARNING: revoked key for {host} attempted authentication"
                    ));
                    return false;
                }
                HostKeyStatus::Changed { .. } => break,
                HostKeyStatus::OtherTypes { .. } | HostKeyStatus::Unknown => {}
            }
        }
        self.log.debug(&format!("key for host {host} not found"));
        false
    }

    fn log_accepted(&self, candidate: &CandidateKey, host: &str, claim: &Claim<'_>) {
        let hash = publickey::hash_of(&self.options.logging);
        let print = |key: &keys::PublicKey| keys::fingerprint::of_blob(&key.blob(), hash);
        let key = candidate.key().key();
        let what = match candidate.key().certificate() {
            None => format!("{} public key {}", key.key_type().label(), print(key)),
            Some(certificate) => format!(
                "certificate ID \"{}\" signed by {} CA {}",
                String::from_utf8_lossy(certificate.key_id()),
                certificate.authority().key_type().label(),
                print(certificate.authority())
            ),
        };
        let user = claim.user;
        self.log
            .verbose(&format!("Accepted {what} from {user}@{host}"));
    }

    /// A list of the administrator.
    fn system_hosts(&self, path: &str) -> Option<KnownHosts> {
        let most = known_hosts::MAX_FILE_BYTES;
        let text = sys::file::read_bounded(path, most, FollowLinks::Follow).ok()?;
        Some(KnownHosts::new(path, text))
    }

    /// A list of the user, unless IgnoreUserKnownHosts is set or others could have written it.
    fn user_hosts(&self, name: &str) -> Option<KnownHosts> {
        if self.options.authentication.ignore_user_known_hosts {
            return None;
        }
        let path = Path::new(&self.account.home).join(name);
        let _as_user = self.as_user()?;
        let (file, metadata) = sys::file::open_regular_known(&path, FollowLinks::Follow).ok()?;
        if self.options.user_keys.strict_modes && !rhosts::is_safe(&metadata, self.account.uid) {
            self.log.info(&format!(
                "Authentication refused for {}: bad owner or modes for {}",
                shortened(&self.account.name),
                path.display()
            ));
            return None;
        }
        let text = sys::file::read_file_bounded(&file, known_hosts::MAX_FILE_BYTES).ok()?;
        Some(KnownHosts::new(path, text))
    }

    /// Takes on the user's ids if this process is root. `None` if that fails: the user's files are
    /// not read then.
    fn as_user(&self) -> Option<Option<AsUser>> {
        let entered = sys::process::is_root()
            .then(|| AsUser::enter(&self.account.credentials()))
            .transpose();
        entered
            .inspect_err(|error| self.log.error(&format!("acting as the user: {error}")))
            .ok()
    }
}
