//! Movement of files over SFTP and the old scp protocol.
//!
//! [`engine`] holds the protocol's running: requests and answers over one or more connections,
//! as state machines that are fed and asked. [`put`] and [`get`] are what it does: a list of
//! files and trees, up or down. [`source`] and [`sink`] are the local ends, [`plan`] which files
//! there are and what they may be called, [`remote`] single requests for those who wait for the
//! answer, [`connect`] the way to a server through a child that is `ssh`. What a copy
//! does, a [`report::Report`] hears. [`serve`] is the server's side: it carries out what an SFTP
//! client asks.
//!
//! Invariants: the other side holds a prefix of our bytes or nothing, whatever fails; names from
//! a server never lead out of the target; memory is bounded, whatever the tree.
#![forbid(unsafe_code)]

pub mod connect;
pub mod engine;
pub mod get;
pub mod options;
pub mod part;
pub mod plan;
pub mod put;
pub mod relay;
pub mod remote;
pub mod report;
mod room;
pub mod scp;
#[cfg(test)]
mod scratch;
pub mod serve;
pub mod sink;
pub mod source;
mod step;
pub mod text;
pub mod verify;
mod watch;
