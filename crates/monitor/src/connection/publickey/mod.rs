//! Method `publickey` (RFC 4252 §7): decides whether a key may log in to an account.
//!
//! Keys are looked up in [`files`] and [`command`]; `keys::candidate` parses and verifies. Invariants: the
//! permissions of a login are those of the key that signed, determined when it signed; an unknown
//! user's key takes the same path with the rights of nobody, and the caller discards the result;
//! the signed data is built here and never taken from the peer.

mod command;
mod files;
mod refusal;
mod revoked;
mod trust;

use std::net::IpAddr;

use config::server::{AlgorithmOptions, LoggingOptions, ServerOptions};
use keys::authorized_keys::{KeyOptions, RefusedLine};
use keys::candidate::{CandidateKey, CandidateRules};
use keys::{SignatureAlgorithm, VerifyPolicy};

use super::accounts::{Account, Peer};
use crate::log::Log;
use refusal::{KeyLimit, Refusal};

pub(crate) use revoked::RevokedKeys;

/// Most lines of one file whose refusals are logged for one question about a key: a user's file may
/// list a key many thousand times.
const MAX_REFUSALS: usize = 8;

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

/// Parses a request's algorithm and key blob and checks them against the configuration: the list
/// `accepted` of `keyword`, whose exact names are permitted (one ECDSA curve does not permit another).
pub(crate) fn candidate(
    algorithm: &str,
    blob: &[u8],
    (keyword, accepted): (&'static str, &[String]),
    options: &ServerOptions,
) -> Result<CandidateKey, String> {
    let rules = CandidateRules {
        list: keyword,
        permits: &|algorithm| accepted.iter().any(|name| name == algorithm),
        authorities: &authority_algorithms(&options.algorithms),
        min_rsa_bits: required_rsa_bits(&options.algorithms),
    };
    CandidateKey::new(algorithm, blob, &rules)
}

/// `PubkeyAcceptedAlgorithms`, for [`candidate`].
pub(crate) fn accepted(options: &ServerOptions) -> (&'static str, &[String]) {
    let accepted = &options.algorithms.pubkey_accepted_algorithms;
    ("PubkeyAcceptedAlgorithms", accepted)
}

/// Describes the key for log lines, in OpenSSH's wording.
pub(crate) fn describe(candidate: &CandidateKey, options: &ServerOptions) -> String {
    let print = |blob: &[u8]| keys::fingerprint::of_blob(blob, hash_of(&options.logging));
    let key = candidate.key().key();
    let plain = format!("{} {}", key.key_type().label(), print(&key.blob()));
    match candidate.key().certificate() {
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

/// The user presence and verification that `grants` and the options require of a signature.
pub(crate) fn verify_policy(grants: &KeyOptions, options: &ServerOptions) -> VerifyPolicy {
    let demand = options.user_keys.pubkey_auth_options;
    VerifyPolicy {
        min_rsa_bits: required_rsa_bits(&options.algorithms),
        require_user_presence: !grants.no_touch_required || demand.touch_required,
        require_user_verification: grants.verify_required || demand.verify_required,
    }
}

impl Lookup<'_> {
    /// Returns the key's permissions if it may log in to the account.
    pub(crate) fn authorize(&self, candidate: &CandidateKey) -> Option<KeyOptions> {
        let paths = &self.options.user_keys.revoked_keys;
        if self.revoked.contains(paths, candidate.key(), self.log) {
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
        let mut refusals = 0;
        for line in lines.filter_map(|line| self.readable(line, place)) {
            if !line.matches(candidate.key()) {
                continue;
            }
            let place = format!("{place}:{}", line.line);
            match self.granted_by_line(&line.options, candidate) {
                Ok(grants) => {
                    self.log_accepted(candidate, &format!("found at {place}"), false);
                    return Some(grants);
                }
                Err(refusal) if refusals < MAX_REFUSALS => {
                    refusals += 1;
                    self.log_refusal(&refusal, &place, candidate);
                }
                Err(_) => {}
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
        let what = match candidate.key().certificate() {
            None => format!("key {}", describe(candidate, self.options)),
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
    ) -> Result<KeyOptions, Refusal> {
        self.check_limits(line)
            .map_err(|limit| Refusal::by_options(limit, "Refused by key options"))?;
        let Some(certificate) = candidate.key().certificate() else {
            return Ok(line.clone());
        };
        let own = [self.account.name.as_str()];
        let listed: Option<Vec<&str>> = line
            .principals
            .as_ref()
            .map(|names| names.iter().map(String::as_str).collect());
        let names_none = |listed: &Vec<&str>| {
            let principals = certificate.principals().iter();
            !principals
                .into_iter()
                .any(|name| listed.contains(&name.as_str()))
        };
        if listed.as_ref().is_some_and(names_none) {
            return Err(Refusal::of_certificate(trust::NO_PRINCIPAL));
        }
        let grants = self.check_certificate(certificate, listed.as_deref().unwrap_or(&own))?;
        line.merge(&grants)
            .map_err(|error| Refusal::of_certificate(error.to_string()))
    }

    /// Checks expiry, `from` and source addresses for this peer.
    fn check_limits(&self, grants: &KeyOptions) -> Result<(), KeyLimit> {
        if grants.valid_before.is_some_and(|end| self.now >= end) {
            return Err(KeyLimit::Expired);
        }
        let host = self
            .options
            .connection
            .use_dns
            .then_some(self.peer.host.as_str());
        if let Some(from) = &grants.from
            && !from.permits(self.address, host.or(Some(&self.peer.address)))
        {
            return Err(KeyLimit::Host(from.as_str().to_owned()));
        }
        if let Some(list) = &grants.source_address
            && !list.contains(self.address)
        {
            return Err(KeyLimit::SourceAddress);
        }
        Ok(())
    }
}

/// CASignatureAlgorithms.
pub(super) fn authority_algorithms(algorithms: &AlgorithmOptions) -> Vec<SignatureAlgorithm> {
    let names = algorithms.ca_signature_algorithms.iter();
    names
        .filter_map(|name| SignatureAlgorithm::from_name(name))
        .collect()
}

pub(super) fn required_rsa_bits(algorithms: &AlgorithmOptions) -> usize {
    usize::try_from(algorithms.required_rsa_size).unwrap_or(usize::MAX)
}

pub(super) fn hash_of(logging: &LoggingOptions) -> crypto::hash::HashAlgorithm {
    logging.fingerprint_hash.algorithm()
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
