//! Reads ssh_config and sshd_config, as ssh_config(5) and sshd_config(5) describe them: tables of
//! keywords, lexer, Host and Match, Include, defaults, and the typed options that the rest of the
//! suite uses.
//!
//! Invariants: each keyword is described once, in its table ([`client::CLIENT_TABLE`],
//! [`server::SERVER_TABLE`]); no file can cause a panic, an endless loop or unbounded memory; files
//! are read through [`Files`] and all else outside through [`Environment`], so that this crate can
//! be tested in memory. The crates that read the typed options carry them out; key files and
//! known_hosts are in `keys`.

#![forbid(unsafe_code)]
// The macro that sorts the fields of options by topic recurses once for each field.
#![recursion_limit = "256"]

#[macro_use]
mod macros;

pub mod address;
pub mod algorithms;
mod channel_timeouts;
pub mod client;
mod codec;
pub mod destination;
pub mod environment;
pub mod error;
mod forms;
pub mod forward;
pub mod glob;
pub mod hardware;
pub mod include;
pub mod lexer;
pub mod log_verbose;
pub mod pattern;
mod penalties;
pub mod permit;
mod printing;
mod reader;
pub mod server;
pub mod tokens;
pub mod types;
pub mod units;
pub mod value;

#[cfg(test)]
mod fuzz_tests;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod policies_tests;
#[cfg(test)]
mod testing;

pub use channel_timeouts::ChannelTimeouts;
pub use client::{ClientConfig, ClientOptions};
pub use environment::{Environment, Files, LocalUser, SystemFiles};
pub use error::{ConfigError, Place, Severity, Warning};
pub use server::{ConnectionSpec, ServerArguments, ServerConfig, ServerOptions};

/// Fulmar's version for `Match version` of both files.
pub(crate) const VERSION: &str = concat!("Fulmar_", env!("CARGO_PKG_VERSION"));
