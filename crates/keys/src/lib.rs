//! Keys in files and on the wire: key blobs, signatures, certificates, key files, known_hosts,
//! authorized_keys, file signatures and allowed signers, revocation lists and the moduli file.
//!
//! Most functions convert between bytes and values; only functions named `load`,
//! [`krl::RevocationList::read`] and [`known_hosts::edit::append`] access files. The input of every
//! format is foreign, so no code here indexes it, unwraps or allocates by a stated count. `crypto`
//! has the cryptography, `agent` the agent protocol; `monitor` decides who may log in.
#![forbid(unsafe_code)]

pub mod address;
pub mod algorithm;
pub mod allowed_signers;
pub mod authorized_keys;
pub mod base64;
pub mod candidate;
pub mod certificate;
mod der;
mod error;
pub mod fingerprint;
mod key_options;
pub mod known_hosts;
pub mod krl;
mod lines;
pub mod moduli;
pub mod pattern;
mod pem;
mod presented;
pub mod private_file;
mod private_key;
pub mod public_file;
mod public_key;
mod rfc4716;
mod signature;
pub mod sshfp;
pub mod sshsig;
pub mod time;
pub mod x509;

#[cfg(test)]
mod mldsa_tests;
#[cfg(test)]
mod test_support;

pub use algorithm::{KeyType, SignatureAlgorithm};
pub use certificate::{Certificate, CertificateKind};
pub use error::{KeyError, VerifyError};
pub use presented::PresentedKey;
pub use private_key::{GenerateError, KeySpec, PrivateKey, SecurityKeyParts};
pub use public_key::{EcCurve, PublicKey};
pub use signature::{SecurityKeySignature, Signature, VerifyPolicy};
pub use wire::permissions::{Permission, Permissions, PermitTarget};

/// Longest key blob or certificate that is parsed, in bytes. A 16384-bit RSA key takes about 2 KiB;
/// a certificate with the longest lists is well below this.
pub const MAX_BLOB_BYTES: usize = 64 * 1024;

/// Smallest RSA modulus in bits that is accepted unless a policy sets another.
pub const DEFAULT_MIN_RSA_BITS: usize = 2048;
