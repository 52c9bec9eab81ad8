//! Real peers on this machine against our client and our server.
//!
//! [`peers`] has one file per foreign program, each as a [`peers::Client`], a [`peers::Server`] or
//! both, and our own in the same form. [`matrix`] logs in with every algorithm that two of them
//! share; the files under `tests/` use the same guards ([`process`], [`scratch`], [`account`]) for
//! everything else that a session can do. Servers listen on loopback only, with keys of their own,
//! and are gone when a test ends, failed or not.
//!
//! `INTEROP_OURS=openssh` puts OpenSSH in our place: what then fails is wrong in these tests or in
//! the peer. `FULMAR_BIN` names the binary to test; else the release build is made and taken.
//! `INTEROP_ALL=1` has copies tested at full length ([`report::is_whole_run`]).
#![forbid(unsafe_code)]

pub mod account;
pub mod covering;
pub mod fixture;
pub mod json;
pub mod load;
pub mod matrix;
pub mod mounted;
pub mod offers;
pub mod peers;
pub mod process;
pub mod report;
pub mod scratch;
pub mod site;
pub mod slow_folder;
pub mod suite;
pub mod syslog;
pub mod terminal;
