//! The client, which runs with the user's rights: the program `ssh`, and its parts for programs
//! that embed a client.
//!
//! [`connect`] opens a stream to the server, [`host_key`] checks the server's host key, [`login`]
//! exchanges versions and keys, [`auth`] authenticates the user, and [`session`] serves one channel
//! until it ends; [`terminal`] and [`prompt`] deal with the user. The crate `proto` implements the
//! protocol, `driver` moves the bytes, and `config` defines the keywords. All text from a peer is
//! escaped ([`text`]) before it is shown. [`embedded`] is the login of programs that embed the client.
#![forbid(unsafe_code)]

mod accelerate;
pub mod auth;
pub mod children;
pub mod connect;
mod connection;
mod distrust;
pub mod embedded;
pub mod error;
pub mod flags;
pub mod forward;
pub mod host_key;
pub mod interaction;
mod jumps;
mod kerberos;
mod keysign;
mod keystroke_timer;
pub mod local;
pub mod log;
pub mod login;
pub mod pipelining;
pub mod plan;
mod program;
pub mod prompt;
mod proxy_mode;
pub mod question_relay;
mod report;
pub mod session;
pub mod sharing;
mod stdio;
pub mod terminal;
pub mod text;
pub mod x11;

pub use auth::Attempted;
pub use error::{ClientError, Peer};
pub use flags::USAGE;
pub use interaction::{Interaction, Question, Round};
pub use keysign::keysign_main;
pub use program::{SessionTerms, VERSION, session_with, ssh_main, ssh_with};
