//! SSH for programs: log in to a server, or be one.
//!
//! * [`client`]: connect, check the host key, log in, run commands. [`client::Session`].
//! * [`server`]: let others log in to your program. [`server::Server`].
//! * [`proto`]: the protocol alone, as state machines without sockets, threads or a clock, for
//!   those who have an event loop of their own.
//! * [`keys`]: key files, certificates, fingerprints, `known_hosts`, `authorized_keys`.
//!
//! Client and server block, as `std::net` does, and impose no runtime. Each connection has one
//! thread of its own that moves bytes, answers key exchanges and keeps the connection alive;
//! while bulk data flows and cores are idle, others may help it to encrypt ([`CryptoThreads`]).
//! Any number of your threads may use any number of its channels. What you read from a channel
//! has come within the window that was granted, and writing **waits** while the peer's window
//! is closed: nothing queues without end on either side ([`MAX_BUFFERED_BYTES`] for each
//! channel and direction; more only for a reader who was fast over a long path).
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
//! `client` and `server` are on by default. `sftp` is empty so far; the file transfer protocol
//! comes with the programs that copy files.
//!
//! # What the embedding program owes
//!
//! Rust programs ignore SIGPIPE from their start, and this library counts on it. A program
//! whose `main` is not Rust's must ignore that signal itself.
#![forbid(unsafe_code)]

/// The README's example compiles.
#[cfg(all(doctest, feature = "client"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod error;
// Each side leaves some of what both share unused.
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
