//! One-time initialisation, done before a sandbox closes.
#![forbid(unsafe_code)]

use crate::kex::{self, Initiator, KexAlgorithm};
use crate::sign::{KeyKind, PrivateKey, SignatureScheme};
use crate::{arch, random};

/// Does all one-time initialisation: CPU detection, the kernel's generator, and
/// aws-lc's own (which ECDSA nonces and RSA blinding draw from, and which asks
/// the system on its first use). After it no call of this crate opens a file or
/// needs a system call beyond `getrandom` and those of the allocator. Takes
/// about 0.3 ms of CPU; the curves' tables, which need no system call, are left
/// to their first use.
pub fn warm_up() {
    let _: [u8; 1] = random::bytes();
    let _ = arch::detect();
    let _ = arch::has_fast_aes();
    // Failures show again, with a meaning, where the result is used.
    if let Ok(key) = PrivateKey::generate(KeyKind::EcdsaP256, 0) {
        let _ = key.sign(SignatureScheme::EcdsaP256Sha256, b"warm-up");
    }
    let algorithm = KexAlgorithm::MlKem768X25519Sha256;
    if let Ok((half, public)) = Initiator::new(algorithm)
        && let Ok((reply, _)) = kex::respond(algorithm, &public)
    {
        let _ = half.finish(&reply);
    }
}
