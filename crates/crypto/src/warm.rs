//! One-time initialisation, to be done before a sandbox is entered.
#![forbid(unsafe_code)]

use crate::{arch, awslc, random};

/// Performs all one-time initialisation that needs system calls: CPU detection, the kernel's
/// generator, and aws-lc's generator (used for ECDSA nonces and RSA blinding; its first use looks
/// for devices). Afterwards no function of this crate opens a file or makes a system call other
/// than `getrandom` and those of the allocator and its locks.
///
/// Tables of algorithms and curves need no system call and are built on first use, because most
/// connections use one key exchange and one kind of key.
pub fn warm_up() {
    let _: [u8; 1] = random::bytes();
    let _ = arch::detect();
    let _ = arch::has_fast_aes();
    awslc::seed_generator();
}
