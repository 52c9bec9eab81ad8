//! SSH-2 for programs: connect to an SSH server, or be one.
//!
//! * [`client`]: connect, check the host key, log in, run commands. Start with
//!   [`client::Session`].
//! * [`server`]: accept logins to your program. Start with [`server::Server`].
//! * [`proto`]: the protocol alone, as state machines without sockets, threads or a clock, for
//!   programs with their own event loop.
//! * [`keys`]: key files, certificates, fingerprints, `known_hosts`, `authorized_keys`.
//!
//! Client and server calls block, as those of `std::net` do; no async runtime is needed. Each
//! connection has one thread that moves bytes, exchanges keys and sends keepalives; during bulk
//! transfers, if cores are idle, more threads may help it to encrypt ([`CryptoThreads`]). Any
//! number of your threads may use any number of its channels at once. Writing **waits** while the
//! peer's window is closed, and the peer may send only as much as the window that was granted to
//! it: each channel buffers at most [`MAX_BUFFERED_BYTES`] in each direction (more only for a fast
//! reader on a path of large bandwidth-delay product).
//!
//! ```no_run
//! use fulmar::client::{Auth, Config, Session};
//!
//! # fn main() -> Result<(), fulmar::Error> {
//! let mut session = Session::connect("example.org", 22, Config::default())?;
//! session.authenticate("mia", Auth::Agent)?;
//! let output = session.run("uname -a")?;
//! println!("{}", String::from_utf8_lossy(&output.stdout));
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! `client` and `server` are on by default. `sftp` is empty so far.
//!
//! # Requirements on the embedding program
//!
//! The Rust runtime ignores SIGPIPE, and this library relies on that. A program whose `main` is not
//! Rust's must ignore that signal itself.
#![forbid(unsafe_code)]

/// Compiles the README's example.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod error;
// With one feature alone, parts of the shared modules are unused.
#[cfg(any(feature = "client", feature = "server"))]
#[cfg_attr(
    not(all(feature = "client", feature = "server")),
    allow(dead_code, unused_imports)
)]
mod link;
#[cfg(any(feature = "client", feature = "server"))]
#[cfg_attr(not(feature = "client"), allow(dead_code))]
mod pty;

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod server;

pub use ::keys;
pub use ::proto;
#[cfg(any(feature = "client", feature = "server"))]
pub use driver::CryptoThreads;

pub use error::{Error, Fault, HostKeyProblem};
#[cfg(any(feature = "client", feature = "server"))]
pub use link::MAX_BUFFERED_BYTES;
#[cfg(any(feature = "client", feature = "server"))]
pub use pty::{Exit, Pty};
