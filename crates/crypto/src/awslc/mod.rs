//! The calls into aws-lc: each file wraps one part of it in a safe interface.
//!
//! Only this module and [`crate::arch`] hold `unsafe`. Every owned C object is a
//! type here that frees it on drop; secrets are wiped by aws-lc's own free
//! functions (`BN_clear_free`, `RSA_free`, `EC_KEY_free` cleanse their memory).

pub(crate) mod aead;
pub(crate) mod aes;
pub(crate) mod bn;
pub(crate) mod chacha;
pub(crate) mod des;
pub(crate) mod digest;
pub(crate) mod ec;
pub(crate) mod kem;
pub(crate) mod rsa;
pub(crate) mod x25519;

/// A call into aws-lc failed. The detail stays in its error queue, which is
/// emptied: it would say no more than "out of memory" or "bad input".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed;

/// Lets aws-lc's generator take its seed now. Its first use looks for devices and maps memory,
/// which a sandbox may forbid later.
pub(crate) fn seed_generator() {
    let mut byte = 0_u8;
    // SAFETY: one byte of room. A failure shows again, with a meaning, where a value is drawn.
    let _ = unsafe { aws_lc_sys::RAND_bytes(&raw mut byte, 1) };
}

/// Turns aws-lc's 1 for success into a `Result`.
fn check(result: core::ffi::c_int) -> Result<(), Failed> {
    if result == 1 {
        return Ok(());
    }
    // SAFETY: no arguments; clears this thread's error queue.
    unsafe { aws_lc_sys::ERR_clear_error() };
    Err(Failed)
}

/// Turns a null pointer into an error.
fn non_null<T>(pointer: *mut T) -> Result<core::ptr::NonNull<T>, Failed> {
    match core::ptr::NonNull::new(pointer) {
        Some(pointer) => Ok(pointer),
        None => {
            // SAFETY: no arguments; clears this thread's error queue.
            unsafe { aws_lc_sys::ERR_clear_error() };
            Err(Failed)
        }
    }
}
