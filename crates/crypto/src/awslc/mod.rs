//! Calls into aws-lc; each file wraps a part of it in a safe interface.
//!
//! Only this module and [`crate::arch`] contain `unsafe`. Every owned C object is a type that frees
//! it on drop; aws-lc's free functions wipe secrets (`BN_clear_free`, `RSA_free` and `EC_KEY_free`
//! cleanse their memory).

pub(crate) mod aead;
pub(crate) mod aes;
pub(crate) mod bn;
pub(crate) mod chacha;
pub(crate) mod des;
pub(crate) mod digest;
pub(crate) mod ec;
mod ffi;
pub(crate) mod kem;
pub(crate) mod mldsa;
pub(crate) mod rsa;
pub(crate) mod x25519;

/// A call into aws-lc failed. The library's error queue is emptied; it would report no more than
/// "out of memory" or "bad input".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AwsLcFailed;

/// Seeds aws-lc's generator. Its first use looks for devices and maps memory, which a sandbox may
/// forbid later.
pub(crate) fn seed_generator() {
    let mut byte = 0_u8;
    // SAFETY: one byte of room. A failure shows again, with a meaning, where a value is drawn.
    let _ = unsafe { ffi::RAND_bytes(&raw mut byte, 1) };
}

/// Converts aws-lc's return value, 1 for success, to a `Result`.
fn check(result: core::ffi::c_int) -> Result<(), AwsLcFailed> {
    if result == 1 {
        return Ok(());
    }
    // SAFETY: no arguments; clears this thread's error queue.
    unsafe { ffi::ERR_clear_error() };
    Err(AwsLcFailed)
}

/// Converts a null pointer to an error.
fn non_null<T>(pointer: *mut T) -> Result<core::ptr::NonNull<T>, AwsLcFailed> {
    match core::ptr::NonNull::new(pointer) {
        Some(pointer) => Ok(pointer),
        None => {
            // SAFETY: no arguments; clears this thread's error queue.
            unsafe { ffi::ERR_clear_error() };
            Err(AwsLcFailed)
        }
    }
}
