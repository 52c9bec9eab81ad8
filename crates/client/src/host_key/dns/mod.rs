//! VerifyHostKeyDNS: the fingerprints of host keys in the DNS (SSHFP, RFC 4255).
//!
//! [`message`] writes the query and reads the answer; [`resolver`] asks the servers of resolv.conf.
//! The lookup runs on its own thread from the moment the connection begins, and the host key's check
//! waits for it, until ConnectTimeout has passed since then. An answer counts as secure only if a resolver that is trusted says that it has
//! validated it (bit AD, RFC 4035 §3.2.3).

pub mod message;
pub mod resolver;

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crypto::hash::HashAlgorithm;
use keys::{PublicKey, sshfp};

use crate::log::{debug1, debug3, error, verbose};
use message::Fingerprint;

/// The answer to a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshfpAnswer {
    /// The records of the name.
    pub fingerprints: Vec<Fingerprint>,
    /// True if a trusted resolver has validated them.
    pub is_secure: bool,
}

/// A lookup that runs beside the connection.
#[derive(Debug)]
pub(super) struct DnsLookup {
    answer: Option<Receiver<Result<SshfpAnswer, String>>>,
    /// When nobody waits any longer; `None`: the resolver's own limits end the lookup.
    deadline: Option<Instant>,
}

/// What the DNS says about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DnsFinding {
    /// Nothing: there is no record, none can be of such a key, none is by a known hash, or it could not be asked
    /// for.
    Nothing,
    /// A record has the key's fingerprint, and none with the same algorithm and hash has another.
    Matches {
        /// True if the answer was validated.
        is_secure: bool,
    },
    /// There are records, and none is the key's.
    Differs,
}

impl DnsLookup {
    /// Starts to look a host up; an address has no records. `limit` is how long the answer is waited
    /// for.
    pub(super) fn start(host: &str, limit: Option<Duration>) -> Self {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let (address, _zone) = host.split_once('%').unwrap_or((host, ""));
        if keys::address::parse_address(address).is_some() {
            debug1!("skipped DNS lookup for numerical hostname");
            return Self {
                answer: None,
                deadline,
            };
        }
        let (sender, receiver) = channel();
        let host = host.to_owned();
        let begun = thread::Builder::new().name("sshfp".into()).spawn(move || {
            // A failed send means that nobody waits any more.
            let _ = sender.send(resolver::Resolver::system().look_up(&host));
        });
        if let Err(reason) = &begun {
            error!("DNS lookup: {reason}");
        }
        Self {
            answer: begun.is_ok().then_some(receiver),
            deadline,
        }
    }

    /// A lookup that has ended.
    #[cfg(test)]
    pub(super) fn ended(answer: Result<SshfpAnswer, String>) -> Self {
        let (sender, receiver) = channel();
        sender.send(answer).expect("a receiver");
        Self {
            answer: Some(receiver),
            deadline: None,
        }
    }

    /// Waits for the answer and compares it with the key.
    pub(super) fn compare(&mut self, key: &PublicKey) -> DnsFinding {
        let Some(receiver) = self.answer.take() else {
            return DnsFinding::Nothing;
        };
        let answer = match self.deadline {
            Some(deadline) => {
                receiver.recv_timeout(deadline.saturating_duration_since(Instant::now()))
            }
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match answer {
            Ok(Ok(answer)) => compare(&answer, key),
            Ok(Err(reason)) => {
                verbose!("DNS lookup error: {reason}");
                DnsFinding::Nothing
            }
            Err(RecvTimeoutError::Timeout) => {
                verbose!("DNS lookup error: no answer within ConnectTimeout");
                DnsFinding::Nothing
            }
            Err(RecvTimeoutError::Disconnected) => DnsFinding::Nothing,
        }
    }
}

fn compare(answer: &SshfpAnswer, key: &PublicKey) -> DnsFinding {
    let SshfpAnswer {
        fingerprints,
        is_secure,
    } = answer;
    let word = if *is_secure { "secure" } else { "insecure" };
    debug1!("found {} {word} fingerprints in DNS", fingerprints.len());
    if fingerprints.is_empty() {
        debug1!("no host key fingerprint found in DNS");
        return DnsFinding::Nothing;
    }
    let Some(own) = sshfp::algorithm(key.key_type()) else {
        verbose!(
            "no fingerprint in DNS can be of a key of type {}",
            key.key_type().label()
        );
        return DnsFinding::Nothing;
    };
    let (mut matched, mut failed) = (false, false);
    let mut is_comparable = false;
    for found in fingerprints {
        debug3!(
            "checking SSHFP type {} fptype {}",
            found.algorithm,
            found.hash
        );
        let hash = match found.hash {
            1 => HashAlgorithm::Sha1,
            2 => HashAlgorithm::Sha256,
            _ => continue,
        };
        is_comparable = true;
        let digest = hash.digest(&key.blob());
        if own != found.algorithm || found.digest.len() != digest.len() {
            continue;
        }
        match crypto::constant_time::eq(&found.digest, &digest) {
            true => matched = true,
            false => failed = true,
        }
    }
    if !is_comparable {
        verbose!("no fingerprint in DNS is by a known hash");
        return DnsFinding::Nothing;
    }
    if matched && !failed {
        debug1!("matching host key fingerprint found in DNS");
        return DnsFinding::Matches {
            is_secure: *is_secure,
        };
    }
    debug1!("mismatching host key fingerprint found in DNS");
    DnsFinding::Differs
}

#[cfg(test)]
mod tests;
