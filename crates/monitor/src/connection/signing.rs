//! The private host keys, in files or in HostKeyAgent, and the only two things signed with them: an exchange hash of the
//! negotiated length, and a `hostkeys-prove-00@openssh.com` blob that is built here. A key exchange by GSS-API has a MIC
//! instead of a signature, which the same rules permit (`gss_exchange` has it made).
//!
//! Invariants: no other bytes are signed; the session identifier is the first hash and never
//! changes; after the login, signatures and groups are limited in rate.

use std::path::Path;
use std::time::Duration;

use keys::{PresentedKey, PrivateKey, SignatureAlgorithm};
use privsep::{HostKey, HostkeysProve, Secret, SignExchangeHash};
use wire::Put;

use super::host_key_agent;
use super::rate::Rate;

/// Rate limit of rekey signatures after the login: burst, and milliseconds until one more. A peer
/// may set RekeyLimit to a megabyte and cause a thousand rekeys a second, which must work. A
/// compromised session process gets no more than this either.
const REKEY_BURST: u64 = 256;
const REKEY_REFILL_MS: u64 = 1;

/// The same for groups. Each costs a read of the moduli file; the computation with a group takes
/// both sides longer.
const GROUP_BURST: u64 = 64;
const GROUP_REFILL_MS: u64 = 20;

/// The same for key exchanges by GSS-API, each of which starts a process.
const GSS_BURST: u64 = 64;
const GSS_REFILL_MS: u64 = 20;

/// The same for proofs of host keys, which a client requests once.
const PROOF_BURST: u64 = 256;
const PROOF_REFILL_MS: u64 = 5;

/// Why nothing was signed. `Rate` makes the caller wait and ask again; the others end the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SigningRefusal {
    /// The request violates the rules, for example by an algorithm that was not offered.
    Violation(&'static str),
    /// Too many requests: the next may come after this many milliseconds.
    Rate(u64),
    /// A host key cannot be used, because of a defect or a damaged file.
    Key(String),
}

/// Host keys of one connection, and the state that decides what may be signed.
pub(crate) struct Signer {
    host_keys: Vec<HostKey>,
    files: Vec<Secret>,
    /// Socket of the agent that holds the keys whose file is empty.
    agent: Option<String>,
    /// SecurityKeyProvider, for keys whose file has no secret.
    security_key_provider: String,
    loaded: Vec<Option<PrivateKey>>,
    kex_algorithms: Vec<String>,
    session_id: Option<Vec<u8>>,
    /// The blob of the host key that signed the first exchange.
    first_host_key: Option<Vec<u8>>,
    /// The exported name of the principal of a first exchange by GSS-API.
    principal: Option<Vec<u8>>,
    /// True if a key exchange by GSS-API was begun before the login.
    gss_begun: bool,
    /// True if a Diffie-Hellman group was given out since the last signed hash.
    group_given: bool,
    groups: Rate,
    rekeys: Rate,
    gss: Rate,
    proofs: Rate,
}

impl Signer {
    /// Takes the keys that the listener loaded; each is parsed at its first use. `agent` is the
    /// socket of HostKeyAgent, which holds the keys whose file is empty; `security_key_provider` reaches
    /// the keys in security keys.
    pub(crate) fn new(
        host_keys: Vec<HostKey>,
        files: Vec<Secret>,
        agent: Option<String>,
        security_key_provider: String,
        kex_algorithms: Vec<String>,
        now_ms: u64,
    ) -> Self {
        let loaded = files.iter().map(|_| None).collect();
        Self {
            host_keys,
            files,
            agent,
            security_key_provider,
            loaded,
            kex_algorithms,
            session_id: None,
            first_host_key: None,
            principal: None,
            gss_begun: false,
            group_given: false,
            groups: Rate::new(GROUP_BURST, GROUP_REFILL_MS, now_ms),
            rekeys: Rate::new(REKEY_BURST, REKEY_REFILL_MS, now_ms),
            gss: Rate::new(GSS_BURST, GSS_REFILL_MS, now_ms),
            proofs: Rate::new(PROOF_BURST, PROOF_REFILL_MS, now_ms),
        }
    }

    /// The host keys and certificates that are offered.
    pub(crate) fn host_keys(&self) -> &[HostKey] {
        &self.host_keys
    }

    /// The session identifier; `None` before the first hash was signed.
    pub(crate) fn session_id(&self) -> Option<&[u8]> {
        self.session_id.as_deref()
    }

    /// The host key of the first exchange, which a host-bound signature must name.
    pub(crate) fn first_host_key(&self) -> Option<&[u8]> {
        self.first_host_key.as_deref()
    }

    /// Permits one group of the moduli file per exchange, if a method that needs one is configured.
    /// `rekey` is true after the login.
    pub(crate) fn allow_group(&mut self, rekey: bool, now_ms: u64) -> Result<(), SigningRefusal> {
        let needed = self.kex_algorithms.iter().any(|name| {
            crypto::kex::KexAlgorithm::from_name(name)
                .is_some_and(|kex| kex.family() == crypto::kex::KexFamily::DhGroupExchange)
        });
        if !needed {
            return Err(SigningRefusal::Violation(
                "group exchange is not configured",
            ));
        }
        if self.group_given {
            return Err(SigningRefusal::Violation("a second group for one exchange"));
        }
        if rekey && !self.groups.take(1, now_ms) {
            return Err(SigningRefusal::Rate(GROUP_REFILL_MS));
        }
        self.group_given = true;
        Ok(())
    }

    /// True if the first exchange was by GSS-API.
    pub(crate) fn is_by_gss(&self) -> bool {
        self.principal.is_some()
    }

    /// Permits to begin a key exchange by GSS-API with this method and hash. After the login (`rekey`) only if the
    /// first exchange was one, too.
    pub(crate) fn allow_gss(
        &mut self,
        kex: &str,
        hash: &[u8],
        rekey: bool,
        now_ms: u64,
    ) -> Result<(), SigningRefusal> {
        self.check_hash(kex, hash)?;
        if !wire::algorithms::is_gss_kex(kex) {
            return Err(SigningRefusal::Violation(
                "a MIC for a method that is not by GSS-API",
            ));
        }
        // Before the login one exchange is allowed, even if no acceptor starts for it.
        if !rekey && core::mem::replace(&mut self.gss_begun, true) {
            return Err(SigningRefusal::Violation(
                "a second key exchange by GSS-API before the login",
            ));
        }
        if rekey && !self.is_by_gss() {
            return Err(SigningRefusal::Violation(
                "a key exchange by GSS-API after another one",
            ));
        }
        if rekey && !self.gss.take(1, now_ms) {
            return Err(SigningRefusal::Rate(GSS_REFILL_MS));
        }
        Ok(())
    }

    /// Decides whether a MIC may be made for the principal with this exported name: in a rekey it is that of the first
    /// exchange, so that nobody can pass a context with somebody else's client off as a rekey.
    pub(crate) fn permits_principal(&self, principal: &[u8]) -> bool {
        match (&self.session_id, &self.principal) {
            (None, _) => true,
            (Some(_), first) => first.as_deref() == Some(principal),
        }
    }

    /// A MIC was made of this exchange hash; the first one is the session identifier.
    pub(crate) fn note_gss(&mut self, hash: &[u8], principal: &[u8]) {
        if self.session_id.is_none() {
            self.session_id = Some(hash.to_vec());
            self.principal = Some(principal.to_vec());
        }
    }

    fn check_hash(&self, kex: &str, hash: &[u8]) -> Result<(), SigningRefusal> {
        if !self.kex_algorithms.iter().any(|name| name == kex) {
            return Err(SigningRefusal::Violation(
                "key exchange method is not configured",
            ));
        }
        if exchange_hash_bytes(kex) != Some(hash.len()) {
            return Err(SigningRefusal::Violation(
                "exchange hash has a wrong length",
            ));
        }
        Ok(())
    }

    /// Signs an exchange hash. `rekey` is true after the login.
    pub(crate) fn sign_exchange_hash(
        &mut self,
        request: &SignExchangeHash,
        rekey: bool,
        now_ms: u64,
    ) -> Result<Vec<u8>, SigningRefusal> {
        self.check_hash(&request.kex_algorithm, &request.hash)?;
        if wire::algorithms::is_gss_kex(&request.kex_algorithm) {
            return Err(SigningRefusal::Violation(
                "a signature for a method by GSS-API",
            ));
        }
        let offered = self.host_keys.iter().find(|key| {
            key.index == request.key_index && key.algorithms.contains(&request.host_key_algorithm)
        });
        let Some(blob) = offered.map(|key| key.blob.clone()) else {
            return Err(SigningRefusal::Violation(
                "host key algorithm was not offered",
            ));
        };
        if rekey && !self.rekeys.take(1, now_ms) {
            return Err(SigningRefusal::Rate(REKEY_REFILL_MS));
        }
        let signature = self.sign(
            request.key_index,
            &request.host_key_algorithm,
            &request.hash,
        )?;
        self.group_given = false;
        if self.session_id.is_none() {
            self.session_id = Some(request.hash.clone());
            self.first_host_key = Some(blob);
        }
        Ok(signature)
    }

    /// Signs a proof for each requested key (OpenSSH PROTOCOL §2.5). The result is empty if the
    /// rate limit was exceeded.
    pub(crate) fn prove(
        &mut self,
        request: &HostkeysProve,
        now_ms: u64,
    ) -> Result<Vec<Vec<u8>>, SigningRefusal> {
        let Some(session_id) = self.session_id.clone() else {
            return Err(SigningRefusal::Violation(
                "proof asked for before a session exists",
            ));
        };
        let count = u64::try_from(request.keys.len()).unwrap_or(u64::MAX);
        if !self.proofs.take(count, now_ms) {
            return Ok(Vec::new());
        }
        let mut signatures = Vec::new();
        for (index, algorithm) in &request.keys {
            let Some(key) = self
                .host_keys
                .iter()
                .find(|key| key.index == *index && key.algorithms.contains(algorithm))
            else {
                return Err(SigningRefusal::Violation(
                    "proof asked for a key that was not offered",
                ));
            };
            if SignatureAlgorithm::from_name(algorithm).is_none_or(|name| name.is_certificate()) {
                return Err(SigningRefusal::Violation("proof asked for a certificate"));
            }
            let mut message = Vec::new();
            message.put_string(wire::names::GLOBAL_HOSTKEYS_PROVE.as_bytes());
            message.put_string(&session_id);
            message.put_string(&key.blob);
            signatures.push(self.sign(*index, algorithm, &message)?);
        }
        Ok(signatures)
    }

    fn sign(
        &mut self,
        index: u32,
        algorithm: &str,
        message: &[u8],
    ) -> Result<Vec<u8>, SigningRefusal> {
        let algorithm = SignatureAlgorithm::from_name(algorithm)
            .ok_or(SigningRefusal::Violation("unknown host key algorithm"))?;
        let missing = SigningRefusal::Violation("no such host key");
        let position = usize::try_from(index).map_err(|_| missing.clone())?;
        let file = self.files.get(position).ok_or_else(|| missing.clone())?;
        let slot = self.loaded.get_mut(position).ok_or(missing)?;
        if file.expose().is_empty() {
            return self.sign_by_agent(position, algorithm.plain(), message);
        }
        let key = match slot {
            Some(key) => key,
            None => {
                let parsed = keys::private_file::parse(file.expose(), None)
                    .map_err(|error| SigningRefusal::Key(error.to_string()))?;
                slot.insert(parsed.key)
            }
        };
        if !key.can_sign() {
            return sign_by_token(key, &self.security_key_provider, message)
                .map_err(|error| SigningRefusal::Key(format!("security key: {error}")));
        }
        key.sign(algorithm.plain(), message)
            .map_err(|error| SigningRefusal::Key(error.to_string()))
    }

    /// Signs with the key of this index that HostKeyAgent holds.
    fn sign_by_agent(
        &self,
        index: usize,
        algorithm: SignatureAlgorithm,
        message: &[u8],
    ) -> Result<Vec<u8>, SigningRefusal> {
        let key = self.host_keys.iter().find_map(|offered| {
            let is_key = usize::try_from(offered.index) == Ok(index);
            let presented = is_key.then(|| PresentedKey::from_blob(&offered.blob).ok());
            presented.flatten()
        });
        let (Some(key), Some(socket)) = (key, &self.agent) else {
            return Err(SigningRefusal::Key("no agent holds it".to_owned()));
        };
        host_key_agent::sign(Path::new(socket), key.key(), algorithm, message)
            .map_err(|error| SigningRefusal::Key(format!("HostKeyAgent {socket}: {error}")))
    }
}

/// Limit on the time of a signature by a security key: a token may insist on a touch.
const TOKEN_LIMIT: Duration = Duration::from_secs(30);

/// Signs with a key in a security key, without a touch even if the key's file demands one (OpenSSH's sshd
/// does so, too): a token that insists on it delays this connection alone. The token is reached by a
/// confined process that ends with the signature.
fn sign_by_token(key: &PrivateKey, provider: &str, message: &[u8]) -> Result<Vec<u8>, String> {
    let parts = key.security_key().ok_or("the file has no key")?;
    let flags = parts.flags & !fido::USER_PRESENCE;
    let untouched = PrivateKey::of_security_key(key.public().clone(), flags, parts.handle);
    let untouched = untouched.map_err(|error| error.to_string())?;
    fido::Provider::new(provider)
        .map_err(|reason| format!("provider {provider}: {reason}"))?
        .within(TOKEN_LIMIT)
        .sign(&untouched, message, None)
        .map_err(|error| error.to_string())
}

/// Length of the exchange hash of a key exchange method, in bytes.
pub(crate) fn exchange_hash_bytes(kex: &str) -> Option<usize> {
    crypto::kex::KexAlgorithm::from_name(kex).map(|kex| kex.hash().digest_len())
}

#[cfg(test)]
#[path = "signing_tests.rs"]
mod tests;
