//! Copies files over SFTP and the legacy scp protocol.
//!
//! [`engine`] exchanges requests and answers over one or more connections; it consists of state
//! machines without I/O toward the server. [`put`] and [`get`] upload and download a list of files
//! and directory trees; [`relay`] copies between two servers. [`source`] and [`sink`] read and
//! write local files, [`plan`] handles names and the work in progress, [`remote`] sends single
//! requests and waits for the answer, [`connect`] reaches a server through an `ssh` child process.
//! Copies report their progress to a [`report::Report`]. The SFTP server is in the crate `sftp`.
//!
//! Invariants: after any failure the target holds a prefix of the source or nothing; names from a
//! server never lead out of the target; memory is bounded for every tree.
#![forbid(unsafe_code)]

pub mod connect;
pub mod engine;
mod file;
pub mod get;
pub mod glob;
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
#[path = "../../sftp/src/scratch.rs"]
mod scratch;
pub mod sink;
pub mod source;
mod step;
pub mod text;
pub mod verify;

pub(crate) use sftp::watch;
