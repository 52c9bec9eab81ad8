//! SSH-2 for programs: connect to an SSH server, or be one.
//!
//! * [`client`]: connect, check the host key, log in, run commands. Start with
//!   [`client::Session`].
//! * [`server`]: accept logins to your program. Start with [`server::Server`].
//! * [`sftp`]: copy files to and from a server. Start with [`sftp::Sftp`].
//! * [`proto`]: the protocol alone, as state machines without sockets, threads or a clock, for
//!   programs with their own event loop.
//! * [`keys`]: key files, certificates, fingerprints, `known_hosts`, `authorized_keys`, signatures over
//!   files ([`keys::sshsig`]). The example `certify` makes a certificate.
//! * `agent` (feature `client`): a client of SSH agents (the example `sign_file`), and a server for an
//!   agent of your own (`agent::SigningAgent`, the example `own_agent`).
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
//! # Event loops and async runtimes
//!
//! The library needs no runtime and blocks no thread but the caller's. From tokio, either call it
//! on a blocking thread (`tokio::task::spawn_blocking`) for each connection or command, or keep the
//! data of channels in your loop: `Channel::try_read` and `Channel::try_write` never wait, and
//! `Channel::read_readiness` and `Channel::write_readiness` are descriptors for tokio's `AsyncFd`,
//! `mio` or `poll`:
//!
//! ```no_run
//! # #[cfg(feature = "client")]
//! # mod example {
//! # struct AsyncFd<T>(T);
//! # struct Guard;
//! # impl Guard { fn clear_ready(&mut self) {} }
//! # impl<T> AsyncFd<T> {
//! #     fn new(fd: T) -> std::io::Result<Self> { Ok(Self(fd)) }
//! #     async fn readable(&self) -> std::io::Result<Guard> { Ok(Guard) }
//! # }
//! // use tokio::io::unix::AsyncFd;
//! async fn read(channel: &fulmar::client::Channel, buf: &mut [u8]) -> std::io::Result<usize> {
//!     let fd = AsyncFd::new(channel.read_readiness()?)?;
//!     loop {
//!         let mut ready = fd.readable().await?;
//!         match channel.try_read(buf) {
//!             Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => ready.clear_ready(),
//!             result => return result,
//!         }
//!     }
//! }
//! # }
//! ```
//!
//! Connecting, logging in and opening channels block: use a blocking thread for them.
//!
//! # Features
//!
//! `client`, `server` and `sftp` are on by default; each compiles alone, and `sftp` turns `client`
//! on. Without any of them the crate consists of [`proto`] and [`keys`].
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
#[cfg(feature = "sftp")]
pub mod sftp;

#[cfg(feature = "client")]
pub use ::agent;
pub use ::keys;
pub use ::proto;
#[cfg(any(feature = "client", feature = "server"))]
pub use driver::CryptoThreads;

pub use error::{Error, Fault, HostKeyProblem};
#[cfg(any(feature = "client", feature = "server"))]
pub use link::MAX_BUFFERED_BYTES;
#[cfg(any(feature = "client", feature = "server"))]
pub use pty::{Exit, Pty};
