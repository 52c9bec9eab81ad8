//! The cryptography of the suite: hashes, ciphers, MACs, key exchanges and
//! signatures by their SSH names, and the CPU features that choose kernels.
//!
//! Nothing here knows a packet, a key file or an SSH blob: `packet` frames,
//! `keys` serialises, `proto` negotiates. The only I/O is the kernel's random
//! generator ([`random`]); call [`warm_up`] once before entering a sandbox, and
//! no later call opens a file.
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
mod warm;

pub use error::{
    BadGroup, BadKey, BadSignature, IntegrityFailed, KexError, KeyLengthError, LegacyError,
    SignError,
};
pub use warm::warm_up;

#[cfg(test)]
mod test_support;
