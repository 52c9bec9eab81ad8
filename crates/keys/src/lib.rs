//! Keys at rest and on the wire: key blobs, signatures, certificates, key files, known_hosts,
//! authorized_keys, signatures over files and who may make them, revocation lists and the moduli file.
//!
//! Bytes go in and values come out; the file system is touched only by functions named `load`.
//! Every format here is fed by foreign files or peers, so nothing indexes, unwraps or trusts a
//! count. The cryptography itself is in `crypto`, the agent protocol in `agent`, and who may
//! log in is decided by `monitor`.
#![forbid(unsafe_code)]

pub mod address;
pub mod algorithm;
pub mod allowed_signers;
pub mod authorized_keys;
pub mod base64;
pub mod certificate;
mod der;
mod error;
pub mod fingerprint;
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
mod signature;
pub mod sshsig;
pub mod time;

#[cfg(test)]
mod test_support;

pub use algorithm::{KeyType, SignatureAlgorithm};
pub use certificate::{Certificate, CertificateKind};
pub use error::{KeyError, VerifyError};
pub use presented::PresentedKey;
pub use private_key::{GenerateError, KeySpec, PrivateKey};
pub use public_key::{EcCurve, PublicKey};
pub use signature::{Signature, VerifyPolicy};

/// Longest key blob or certificate that is taken apart, in bytes. A 16384-bit RSA key takes
/// about 2 KiB; a certificate with its largest lists stays well under this.
pub const MAX_BLOB_BYTES: usize = 64 * 1024;

/// Smallest RSA modulus that is accepted unless a policy says otherwise, in bits.
pub const DEFAULT_MIN_RSA_BITS: usize = 2048;
