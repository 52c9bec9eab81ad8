//! Security keys (FIDO): making keys in them, signing with them and listing the keys that they store.
//!
//! Nothing of this runs in a process that holds a connection or other keys. Each request starts a
//! process of its own ([`main`], a role of the one binary), in the sandbox of
//! `sys::sandbox::security_key`. That process loads the user's provider library (OpenSSH's sk-api.h,
//! version 10) or speaks CTAP 2 with tokens by itself, and performs one request. [`Provider`] names the
//! library and starts the process; a token that waits for a touch therefore delays only its request.
//!
//! Private key files and signatures of security keys are in `keys`, the agent's part is in `agentd`.

// Output macros that do not panic if writing fails.
#[macro_use]
extern crate sys;

pub mod ctap;
mod error;
mod library;
mod message;
mod process;
mod role;
mod tokens;

pub use error::FidoError;
pub use message::{Attestation, Credential, Enrollment, ResidentKey};
pub use process::{INTERNAL, Provider, RunningRequest};
pub use role::main;

/// First argument of the process that reaches security keys, and the name of links to it.
pub const ROLE: &str = "ssh-sk-helper";

/// The descriptor of the helper's socket to the program that asks.
const CONTROL_FD: i32 = 3;

/// Flag of a key: its token asks for a touch for each signature.
pub const USER_PRESENCE: u8 = 0x01;
/// Flag of a key: its token verifies its user (PIN or fingerprint) for each signature.
pub const USER_VERIFICATION: u8 = 0x04;
/// Flag of a request: a resident key with the same application and user may be replaced.
pub const FORCE: u8 = 0x10;
/// Flag of a key: the token stores it, so that it can be listed.
pub const RESIDENT: u8 = 0x20;

/// The prefix of FIDO applications that SSH uses.
pub const APPLICATION_PREFIX: &str = "ssh:";
