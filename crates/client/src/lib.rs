//! The unprivileged user side: `ssh`, and its pieces for programs that embed a client.
//!
//! [`connect`] gives a stream to the server, [`host_key`] judges who is there, [`login`] secures
//! the stream and [`auth`] logs in, [`session`] serves one channel until its end; [`terminal`]
//! and [`prompt`] are the person's side. The protocol is `proto`'s, the movement of bytes the
//! `driver`'s, what a keyword means `config`'s. Everything a peer says is escaped
//! ([`text`]) before a person sees it.
#![forbid(unsafe_code)]

mod accelerate;
pub mod auth;
pub mod connect;
pub mod error;
pub mod flags;
pub mod host_key;
pub mod interaction;
mod jumps;
pub mod local;
pub mod log;
pub mod login;
pub mod login_cache;
mod program;
pub mod prompt;
pub mod session;
pub mod terminal;
pub mod text;

pub use error::{ClientError, Peer};
pub use flags::USAGE;
pub use interaction::{Interaction, Question};
pub use program::{VERSION, ssh_main, ssh_with};
