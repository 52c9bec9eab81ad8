//! The suite's cryptography: hashes, ciphers, MACs, key exchanges and signatures by their SSH
//! names, and the CPU features that select kernels.
//!
//! This crate does not handle packets, key files or SSH blobs: `packet` frames, `keys` serialises,
//! `proto` negotiates. Its only I/O is the kernel's random generator ([`random`]). After one call
//! of [`warm_up`], no function opens a file, so that a sandbox may forbid it.
//!
//! `unsafe` is confined to [`arch`] (kernels) and the private `awslc` module
//! (calls into aws-lc); every other module forbids it.
#![deny(unsafe_code)]

pub mod arch;
#[allow(unsafe_code)]
mod awslc;
pub mod cipher;
pub mod constant_time;
mod error;
pub mod hash;
pub mod kex;
pub mod keyfile;
pub mod legacy;
pub mod mac;
pub mod prime;
pub mod random;
pub mod sign;
mod spec_table;
mod warm;

pub use error::{
    BadGroup, BadKey, BadSignature, IntegrityFailed, KexError, KeyLengthError, LegacyError,
    SignError,
};
pub use warm::warm_up;

#[cfg(test)]
mod test_support;
