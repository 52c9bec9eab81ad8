//! X25519 (RFC 7748) and Ed25519 (RFC 8032): functions on plain bytes.

use super::{AwsLcFailed, check, ffi};

/// The public value of a private one.
pub(crate) fn x25519_public(private: &[u8; 32]) -> [u8; 32] {
    let mut public = [0; 32];
    // SAFETY: both pointers are valid for 32 bytes.
    unsafe { ffi::X25519_public_from_private(public.as_mut_ptr(), private.as_ptr()) };
    public
}

/// The shared secret; fails when it is all zero (RFC 7748 §6.1).
pub(crate) fn x25519(
    private: &[u8; 32],
    peer: &[u8; 32],
    out: &mut [u8; 32],
) -> Result<(), AwsLcFailed> {
    // SAFETY: all three pointers are valid for 32 bytes.
    check(unsafe { ffi::X25519(out.as_mut_ptr(), private.as_ptr(), peer.as_ptr()) })
}

/// Expands a seed to (public key, private key as seed ‖ public key).
pub(crate) fn ed25519_from_seed(seed: &[u8; 32], private: &mut [u8; 64]) -> [u8; 32] {
    let mut public = [0; 32];
    // SAFETY: the pointers are valid for 32, 64 and 32 bytes.
    unsafe {
        ffi::ED25519_keypair_from_seed(public.as_mut_ptr(), private.as_mut_ptr(), seed.as_ptr());
    }
    public
}

/// Signs with seed ‖ public key.
pub(crate) fn ed25519_sign(private: &[u8; 64], message: &[u8]) -> Result<[u8; 64], AwsLcFailed> {
    let mut signature = [0; 64];
    // SAFETY: `message` is valid for its length, the others for 64 bytes.
    check(unsafe {
        ffi::ED25519_sign(
            signature.as_mut_ptr(),
            message.as_ptr(),
            message.len(),
            private.as_ptr(),
        )
    })?;
    Ok(signature)
}

/// Verifies; S ≥ L is refused by the library.
pub(crate) fn ed25519_verify(
    public: &[u8; 32],
    message: &[u8],
    signature: &[u8; 64],
) -> Result<(), AwsLcFailed> {
    // SAFETY: `message` is valid for its length, the others for 64 and 32 bytes.
    check(unsafe {
        ffi::ED25519_verify(
            message.as_ptr(),
            message.len(),
            signature.as_ptr(),
            public.as_ptr(),
        )
    })
}
