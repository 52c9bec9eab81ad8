//! Real peers on this machine against Fulmar's client and server.
//!
//! [`peers`] has one file per foreign program, each as a [`peers::Client`], a [`peers::Server`] or
//! both, and our own in the same form. [`matrix`] logs in with every algorithm that two of them
//! share; the files under `tests/` use the same guards ([`process`], [`scratch`], [`account`]) for
//! everything else that a session can do. Servers listen on loopback only, with their own keys, and
//! end with the test, failed or not.
//!
//! `INTEROP_OURS=openssh` replaces Fulmar by OpenSSH: a failure is then a defect of these tests or
//! of the peer. `FULMAR_BIN` names the binary to test; by default the release build is made and
//! used. With `INTEROP_ALL=1` copies and round trips are tested at full length ([`report::is_whole_run`]).
#![forbid(unsafe_code)]

pub mod account;
pub mod agent;
pub mod audit_trail;
pub mod covering;
pub mod fixture;
pub mod forwarded;
pub mod json;
pub mod load;
pub mod matrix;
pub mod mounted;
pub mod offers;
pub mod peers;
pub mod process;
pub mod random;
pub mod realm;
pub mod report;
pub mod scratch;
pub mod shared;
pub mod site;
pub mod slow_folder;
pub mod soft_token;
pub mod suite;
pub mod syslog;
pub mod terminal;
