//! Method `publickey` (RFC 4252 §7): decides whether a key may log in to an account, and verifies
//! the signature.
//!
//! Keys are looked up in [`files`] and [`command`]; key formats are in `keys`. Invariants: the
//! permissions of a login are those of the key that signed, determined when it signed; an unknown
//! user's key takes the same path with the rights of nobody, and the caller discards the result;
//! the signed data is built here and never taken from the peer.

mod command;
mod files;
mod revoked;
mod trust;

use std::net::IpAddr;

use config::server::{AlgorithmOptions, LoggingOptions, ServerOptions};
use keys::authorized_keys::{KeyOptions, RefusedLine};
use keys::{KeyType, PresentedKey, SignatureAlgorithm, VerifyPolicy};
use wire::names;
use wire::userauth::publickey_signed_data;

use super::accounts::{Account, Peer};
use crate::log::Log;

pub(crate) use revoked::RevokedKeys;

/// The facts that decide whether a key may log in.
pub(crate) struct Lookup<'a> {
    pub(crate) account: &'a Account,
    /// False for a user who does not exist or may not log in: files are read as for others, but no
    /// command is run for a name without an account.
    pub(crate) valid: bool,
    pub(crate) options: &'a ServerOptions,
    /// The lists of RevokedKeys that were read for earlier keys.
    pub(crate) revoked: &'a RevokedKeys,
    pub(crate) peer: &'a Peer,
    pub(crate) address: IpAddr,
    /// Seconds since 1970.
    pub(crate) now: u64,
    pub(crate) log: &'a Log,
}

/// A key or certificate that the client presented, with its algorithm, after the checks of
/// [`CandidateKey::new`].
#[derive(Debug)]
pub(crate) struct CandidateKey {
    algorithm: SignatureAlgorithm,
    key: PresentedKey,
}

/// The parts of the signed data that this server knows itself.
pub(crate) struct SignedFor<'a> {
    pub(crate) session_id: &'a [u8],
    pub(crate) user: &'a str,
    pub(crate) service: &'a str,
    /// The host key of a host-bound request, already compared by the caller.
    pub(crate) hostbound: Option<&'a [u8]>,
}

impl CandidateKey {
    /// Parses a request's algorithm and key blob and checks them against the configuration. The
    /// exact name must be permitted: one ECDSA curve does not permit another.
    pub(crate) fn new(
        algorithm: &str,
        blob: &[u8],
        options: &ServerOptions,
    ) -> Result<Self, String> {
        let permitted = options
            .algorithms
            .pubkey_accepted_algorithms
            .iter()
            .any(|name| name == algorithm);
        if !permitted {
            return Err(format!(
                "signature algorithm {algorithm} not in PubkeyAcceptedAlgorithms"
            ));
        }
        let algorithm = SignatureAlgorithm::from_name(algorithm)
            .ok_or_else(|| format!("unknown signature algorithm {algorithm}"))?;
        let authorities = authority_algorithms(&options.algorithms);
        let key = PresentedKey::from_blob_permitted(algorithm, blob, &authorities)
            .map_err(|error| format!("could not parse key: {error}"))?;
        let least = required_rsa_bits(&options.algorithms);
        if key.key().key_type() == KeyType::Rsa && key.key().bits() < least {
            return Err(format!(
                "refusing RSA key of {} bits, fewer than RequiredRSASize {least}",
                key.key().bits()
            ));
        }
        Ok(Self { algorithm, key })
    }

    /// Describes the key for log lines, in OpenSSH's wording.
    pub(crate) fn describe(&self, options: &ServerOptions) -> String {
        let print = |blob: &[u8]| keys::fingerprint::of_blob(blob, hash_of(&options.logging));
        let key = self.key.key();
        let plain = format!("{} {}", key.key_type().label(), print(&key.blob()));
        match self.key.certificate() {
            None => plain,
            Some(certificate) => format!(
                "{}-CERT {} ID {} (serial {}) CA {} {}",
                key.key_type().label(),
                print(&key.blob()),
                String::from_utf8_lossy(certificate.key_id()),
                certificate.serial(),
                certificate.authority().key_type().label(),
                print(&certificate.authority().blob()),
            ),
        }
    }

    /// The line for ExposeAuthInfo.
    pub(crate) fn auth_info(&self) -> String {
        format!(
            "{} {} {}",
            names::METHOD_PUBLICKEY,
            self.key.blob_name(),
            keys::base64::encode(&self.key.blob())
        )
    }

    /// The blob of the plain key: a certificate counts as its key.
    pub(crate) fn key_blob(&self) -> Vec<u8> {
        self.key.key().blob()
    }

    /// Verifies the signature of a request, with the user presence and verification that `grants`
    /// and the options require.
    pub(crate) fn verify(
        &self,
        signed_for: &SignedFor<'_>,
        signature: &[u8],
        grants: &KeyOptions,
        options: &ServerOptions,
    ) -> Result<(), keys::VerifyError> {
        let demand = options.user_keys.pubkey_auth_options;
        let policy = VerifyPolicy {
            min_rsa_bits: required_rsa_bits(&options.algorithms),
            require_user_presence: !grants.no_touch_required || demand.touch_required,
            require_user_verification: grants.verify_required || demand.verify_required,
        };
        self.key.verify(
            self.algorithm,
            &self.signed_data(signed_for),
            signature,
            &policy,
        )
    }

    /// Builds the signed data: RFC 4252 §7, and OpenSSH PROTOCOL §3.1 for the host-bound form.
    fn signed_data(&self, signed_for: &SignedFor<'_>) -> Vec<u8> {
        publickey_signed_data(
            signed_for.session_id,
            signed_for.user.as_bytes(),
            signed_for.service.as_bytes(),
            self.algorithm.name().as_bytes(),
            &self.key.blob(),
            signed_for.hostbound,
        )
    }
}

impl Lookup<'_> {
    /// Returns the key's permissions if it may log in to the account.
    pub(crate) fn authorize(&self, candidate: &CandidateKey) -> Option<KeyOptions> {
        let paths = &self.options.user_keys.revoked_keys;
        if self.revoked.contains(paths, &candidate.key, self.log) {
            return None;
        }
        // `none` in a list names no file in the home directory.
        let none = |template: &&String| template.eq_ignore_ascii_case("none");
        let templates = self.options.user_keys.authorized_keys_files.iter();
        for template in templates.filter(|template| !none(template)) {
            if let Some(grants) = self.in_keys_file(template, candidate) {
                return Some(grants);
            }
        }
        if let Some(grants) = self.trusted_certificate(candidate) {
            return Some(grants);
        }
        self.in_keys_command(candidate)
    }

    /// The line, unless it cannot be read, which is logged.
    fn readable<T>(&self, line: Result<T, RefusedLine>, place: &str) -> Option<T> {
        line.map_err(|refused| {
            self.log
                .debug(&format!("{place}:{}: {}", refused.line, refused.reason));
        })
        .ok()
    }

    /// Searches the lines of an authorized_keys file for the key.
    fn search(&self, text: &[u8], place: &str, candidate: &CandidateKey) -> Option<KeyOptions> {
        let lines = keys::authorized_keys::parse(text, &local_clock);
        for line in lines.filter_map(|line| self.readable(line, place)) {
            if !line.matches(&candidate.key) {
                continue;
            }
            let place = format!("{place}:{}", line.line);
            match self.granted_by_line(&line.options, candidate) {
                Ok(grants) => {
                    self.log_accepted(candidate, &format!("found at {place}"), false);
                    return Some(grants);
                }
                Err(reason) => self.log.verbose(&format!("{place}: {reason}")),
            }
        }
        None
    }

    /// Logs where a key or a certificate's authority was found, for a user who may log in. For an
    /// authority of TrustedUserCAKeys OpenSSH puts the type first.
    fn log_accepted(&self, candidate: &CandidateKey, place: &str, is_trusted: bool) {
        if !self.valid {
            return;
        }
        let print = |blob: &[u8]| keys::fingerprint::of_blob(blob, hash_of(&self.options.logging));
        let what = match candidate.key.certificate() {
            None => format!("key {}", candidate.describe(self.options)),
            Some(certificate) => {
                let authority = certificate.authority();
                let label = authority.key_type().label();
                let signer = match is_trusted {
                    true => format!("{label} CA"),
                    false => format!("CA {label}"),
                };
                format!(
                    "certificate ID \"{}\" (serial {}) signed by {signer} {}",
                    String::from_utf8_lossy(certificate.key_id()),
                    certificate.serial(),
                    print(&authority.blob()),
                )
            }
        };
        self.log.verbose(&format!("Accepted {what} {place}"));
    }

    fn granted_by_line(
        &self,
        line: &KeyOptions,
        candidate: &CandidateKey,
    ) -> Result<KeyOptions, String> {
        self.check_limits(line)?;
        let Some(certificate) = candidate.key.certificate() else {
            return Ok(line.clone());
        };
        let own = [self.account.name.as_str()];
        let listed: Option<Vec<&str>> = line
            .principals
            .as_ref()
            .map(|names| names.iter().map(String::as_str).collect());
        let grants = self.check_certificate(certificate, listed.as_deref().unwrap_or(&own))?;
        line.merge(&grants).map_err(|error| error.to_string())
    }

    /// Checks expiry, `from` and source addresses for this peer.
    fn check_limits(&self, grants: &KeyOptions) -> Result<(), String> {
        if grants.valid_before.is_some_and(|end| self.now >= end) {
            return Err("key has expired".to_owned());
        }
        let host = self
            .options
            .connection
            .use_dns
            .then_some(self.peer.host.as_str());
        if let Some(from) = &grants.from
            && !from.permits(self.address, host.or(Some(&self.peer.address)))
        {
            return Err(format!(
                "Authentication tried for {} with correct key but not from a permitted host \
                 (host={}, ip={}, required={}).",
                self.account.name,
                self.peer.host,
                self.peer.address,
                from.as_str()
            ));
        }
        if let Some(list) = &grants.source_address
            && !list.contains(self.address)
        {
            return Err(format!(
                "Authentication tried for {} with valid certificate but not from a permitted \
                 source address ({}).",
                self.account.name, self.peer.address
            ));
        }
        Ok(())
    }
}

/// CASignatureAlgorithms.
fn authority_algorithms(algorithms: &AlgorithmOptions) -> Vec<SignatureAlgorithm> {
    let names = algorithms.ca_signature_algorithms.iter();
    names
        .filter_map(|name| SignatureAlgorithm::from_name(name))
        .collect()
}

fn required_rsa_bits(algorithms: &AlgorithmOptions) -> usize {
    usize::try_from(algorithms.required_rsa_size).unwrap_or(usize::MAX)
}

fn hash_of(logging: &LoggingOptions) -> crypto::hash::HashAlgorithm {
    match logging.fingerprint_hash {
        config::types::FingerprintHash::Md5 => crypto::hash::HashAlgorithm::Md5,
        config::types::FingerprintHash::Sha256 => crypto::hash::HashAlgorithm::Sha256,
    }
}

fn local_clock(time: keys::time::CivilTime) -> Option<i64> {
    sys::time::local_to_seconds(
        time.year,
        time.month,
        time.day,
        (time.hour, time.minute, time.second),
    )
}

#[cfg(test)]
mod tests;
