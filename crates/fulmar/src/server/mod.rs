//! An SSH server inside a program.
//!
//! A [`Server`] has host keys, an [`Authenticator`] that decides who may log in, and a [`Handler`]
//! that serves commands, shells and subsystems as streams of bytes. The library verifies the
//! signature of a login by key, so that the authenticator decides about keys only; before the login
//! nothing but the authenticator sees data of the client.
//!
//! Forwarding is off: [`Handler::permits`] decides about each connection and listener that a client
//! asks for.
//!
//! Handlers run in the program itself, as its user: the library never changes user ids or starts
//! processes. For logins to a machine use the program `fulmar sshd`.
//!
//! ```no_run
//! use std::io::{Read, Write};
//! use std::net::TcpListener;
//! use fulmar::keys::{KeySpec, PrivateKey, PublicKey};
//! use fulmar::server::{Attempt, Authenticator, Channel, Config, Decision, Login, Server, Start};
//!
//! struct OneKey(PublicKey);
//!
//! impl Authenticator for OneKey {
//!     fn public_key(&self, attempt: &Attempt<'_>, key: &PublicKey) -> Decision {
//!         (attempt.user == "mia" && *key == self.0).into()
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mias_key = PrivateKey::generate(KeySpec::Ed25519)?.public().clone();
//! let host_key = PrivateKey::generate(KeySpec::Ed25519)?;
//! let greet = |login: &Login, start: &Start, channel: &mut Channel| {
//!     match writeln!(channel, "hello {}, you asked for {start:?}", login.user) {
//!         Ok(()) => 0,
//!         Err(_) => 1,
//!     }
//! };
//! let server = Server::new(Config::new(vec![host_key]), OneKey(mias_key), greet)?;
//! server.serve(TcpListener::bind("127.0.0.1:2222")?)?;
//! # Ok(())
//! # }
//! ```

mod auth;
mod channel;
mod config;
mod connection;
mod forwarding;
mod handler;
mod listener;
mod shared;
mod signing;

pub use auth::{Attempt, Authenticator, Decision, Dialogue, Login, Method};
pub use channel::{Channel, StderrWriter};
pub use config::Config;
pub use handler::{Forward, Handler, Start};
pub use listener::{Server, Stopper};

/// An event on a channel other than data.
pub use crate::link::Happening;
