//! One-time initialisation, done before a sandbox closes.
#![forbid(unsafe_code)]

use crate::kex::{self, Initiator, KexAlgorithm};
use crate::sign::{KeyKind, PrivateKey, SignatureScheme};
use crate::{arch, random};

/// Does all one-time initialisation: CPU detection, the kernel's generator and
/// aws-lc's own (ECDSA nonces, RSA blinding), and the static tables of the
/// curves. After it no call of this crate opens a file or needs a system call
/// beyond `getrandom` and memory allocation. Takes about a millisecond.
pub fn warm_up() {
    let _: [u8; 1] = random::bytes();
    let _ = arch::detect();
    let _ = arch::has_fast_aes();
    for kind in [
        KeyKind::Ed25519,
        KeyKind::EcdsaP256,
        KeyKind::EcdsaP384,
        KeyKind::EcdsaP521,
    ] {
        // Failures show again, with a meaning, where the result is used.
        let Ok(key) = PrivateKey::generate(kind, 0) else {
            continue;
        };
        let scheme = match kind {
            KeyKind::EcdsaP256 => SignatureScheme::EcdsaP256Sha256,
            KeyKind::EcdsaP384 => SignatureScheme::EcdsaP384Sha384,
            KeyKind::EcdsaP521 => SignatureScheme::EcdsaP521Sha512,
            KeyKind::Ed25519 | KeyKind::Rsa => SignatureScheme::Ed25519,
        };
        let _ = key.sign(scheme, b"warm-up");
    }
    for algorithm in [
        KexAlgorithm::MlKem768X25519Sha256,
        KexAlgorithm::Sntrup761X25519Sha512,
    ] {
        if let Ok((half, public)) = Initiator::new(algorithm)
            && let Ok((reply, _)) = kex::respond(algorithm, &public)
        {
            let _ = half.finish(&reply);
        }
    }
}
