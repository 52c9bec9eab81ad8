//! The unprivileged side of the server: [`auth`] speaks to a client that has not logged in,
//! inside a sandbox; [`session`] serves one that has, as its user.
//!
//! Both are programs of their own, executed by the monitor with the descriptors that
//! `privsep::roles` lists, and both ask it over `privsep`'s RPC ([`rpc`]) for whatever needs a
//! secret or a privilege. What they may ask when is `privsep::permits`; whether it is granted
//! is `monitor`'s. The protocol itself is `proto`'s.
//!
//! Invariants: the auth process reads no byte of the network before its sandbox is closed and
//! opens no packet after the login succeeded; the session process reads no byte that the auth
//! process wrote before it has become the user for good; who the user is, what is forced and
//! what is forbidden comes from the monitor alone.
#![forbid(unsafe_code)]

// What is printed is nothing to panic about.
#[macro_use]
extern crate sys;

mod auth;
mod log;
mod rpc;
mod session;
mod transport;

pub use auth::{auth_main, greeting};
pub use session::session_main;
