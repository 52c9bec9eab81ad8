//! The agent protocol (draft-ietf-sshm-ssh-agent): its messages, and a blocking client over
//! any stream.
//!
//! The stream (a Unix socket, mostly) is opened by the caller. Every answer is bounded before
//! it is read, and an answer of another type than the request calls for is an error. Keys
//! are opaque blobs here; what they are is in `keys`.
#![forbid(unsafe_code)]

mod client;
mod error;
pub mod message;

#[cfg(test)]
mod tests;

pub use client::AgentClient;
pub use error::AgentError;
pub use message::{Identity, SignFlags};
