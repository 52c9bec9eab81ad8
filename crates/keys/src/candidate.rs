//! The key that a user presents to log in (RFC 4252 §7): which algorithms, keys and authorities a
//! server accepts, and the verification of the signature. Whose key it is, the server decides.

use wire::names;
use wire::userauth::{HostbasedClaim, hostbased_signed_data, publickey_signed_data};

use crate::algorithm::{KeyType, SignatureAlgorithm};
use crate::error::VerifyError;
use crate::presented::PresentedKey;
use crate::signature::VerifyPolicy;

/// What a server accepts from users.
pub struct CandidateRules<'a> {
    /// Name of the list of permitted algorithms, for messages.
    pub list: &'a str,
    /// True for the names of algorithms that users may sign with.
    pub permits: &'a dyn Fn(&str) -> bool,
    /// Algorithms with which the authority of a certificate may sign.
    pub authorities: &'a [SignatureAlgorithm],
    /// Smallest RSA modulus, bits.
    pub min_rsa_bits: usize,
}

/// A key or certificate with the algorithm of its signature, after the checks of
/// [`CandidateKey::new`].
#[derive(Debug)]
pub struct CandidateKey {
    algorithm: SignatureAlgorithm,
    key: PresentedKey,
}

/// The parts of the signed data that the server knows itself: none of them is taken from the peer
/// unchecked.
#[derive(Debug)]
pub struct SignedFor<'a> {
    /// The session identifier.
    pub session_id: &'a [u8],
    /// The user name.
    pub user: &'a str,
    /// The service that follows the login.
    pub service: &'a str,
    /// The host key of a host-bound request (OpenSSH PROTOCOL §3.1), compared by the caller.
    pub hostbound: Option<&'a [u8]>,
}

/// The signed data of a host-based request, without its algorithm and key. The names of the client
/// are what the client says; the server decides what they are worth.
#[derive(Debug)]
pub struct HostbasedFor<'a> {
    /// The session identifier.
    pub session_id: &'a [u8],
    /// The user name on the server.
    pub user: &'a str,
    /// The service that follows the login.
    pub service: &'a str,
    /// The name of the client's host, as sent.
    pub client_host: &'a str,
    /// The user's name on the client's host, as sent.
    pub client_user: &'a str,
}

impl CandidateKey {
    /// Parses a request's algorithm and key blob and checks them.
    ///
    /// # Errors
    /// The reason for the log, with the keywords of sshd_config.
    pub fn new(algorithm: &str, blob: &[u8], rules: &CandidateRules<'_>) -> Result<Self, String> {
        if !(rules.permits)(algorithm) {
            return Err(format!(
                "signature algorithm {algorithm} not in {}",
                rules.list
            ));
        }
        let algorithm = SignatureAlgorithm::from_name(algorithm)
            .ok_or_else(|| format!("unknown signature algorithm {algorithm}"))?;
        let key = PresentedKey::from_blob_permitted(algorithm, blob, rules.authorities)
            .map_err(|error| format!("could not parse key: {error}"))?;
        let bits = key.key().bits();
        if key.key().key_type() == KeyType::Rsa && bits < rules.min_rsa_bits {
            return Err(format!(
                "refusing RSA key of {bits} bits, fewer than RequiredRSASize {}",
                rules.min_rsa_bits
            ));
        }
        Ok(Self { algorithm, key })
    }

    /// The key or certificate.
    #[must_use]
    pub fn key(&self) -> &PresentedKey {
        &self.key
    }

    /// The key or certificate, by value.
    #[must_use]
    pub fn into_key(self) -> PresentedKey {
        self.key
    }

    /// The algorithms of the proof that only old devices need, for warnings.
    #[must_use]
    pub fn old_algorithms(&self) -> Vec<&'static str> {
        self.key.old_algorithms(self.algorithm)
    }

    /// The line for ExposeAuthInfo after a login with this key by `publickey`.
    #[must_use]
    pub fn auth_info(&self) -> String {
        self.auth_info_of(names::METHOD_PUBLICKEY)
    }

    /// The line for ExposeAuthInfo after a login with this key by `method`.
    #[must_use]
    pub fn auth_info_of(&self, method: &str) -> String {
        format!(
            "{method} {} {}",
            self.key.blob_name(),
            crate::base64::encode(&self.key.blob())
        )
    }

    /// Verifies the signature of a request.
    ///
    /// # Errors
    /// [`VerifyError`].
    pub fn verify(
        &self,
        signed_for: &SignedFor<'_>,
        signature: &[u8],
        policy: &VerifyPolicy,
    ) -> Result<(), VerifyError> {
        let data = self.signed_data(signed_for);
        self.key.verify(self.algorithm, &data, signature, policy)
    }

    /// Verifies the signature of a host-based request, RFC 4252 §9.
    ///
    /// # Errors
    /// [`VerifyError`].
    pub fn verify_hostbased(
        &self,
        signed_for: &HostbasedFor<'_>,
        signature: &[u8],
        policy: &VerifyPolicy,
    ) -> Result<(), VerifyError> {
        let data = hostbased_signed_data(
            signed_for.session_id,
            signed_for.user.as_bytes(),
            signed_for.service.as_bytes(),
            &HostbasedClaim {
                algorithm: self.algorithm.name().as_bytes(),
                key: &self.key.blob(),
                host: signed_for.client_host.as_bytes(),
                user: signed_for.client_user.as_bytes(),
            },
        );
        self.key.verify(self.algorithm, &data, signature, policy)
    }

    /// The signed data: RFC 4252 §7, and OpenSSH PROTOCOL §3.1 for the host-bound form.
    #[must_use]
    pub fn signed_data(&self, signed_for: &SignedFor<'_>) -> Vec<u8> {
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
