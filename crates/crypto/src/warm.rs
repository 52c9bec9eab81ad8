//! One-time initialisation, done before a sandbox closes.
#![forbid(unsafe_code)]

use crate::{arch, awslc, random};

/// Does all one-time initialisation that asks the system for anything: CPU detection, the
/// kernel's generator, and aws-lc's own (which ECDSA nonces and RSA blinding draw from, and
/// which looks for devices on its first use). After it no call of this crate opens a file or
/// needs a system call beyond `getrandom` and those of the allocator and its locks.
///
/// Tables of algorithms and curves, which need no system call, are left to their first use:
/// most connections use one key exchange and one kind of key.
pub fn warm_up() {
    let _: [u8; 1] = random::bytes();
    let _ = arch::detect();
    let _ = arch::has_fast_aes();
    awslc::seed_generator();
}
