//! The agent protocol (draft-ietf-sshm-ssh-agent): its messages, and a blocking client over any
//! stream.
//!
//! The caller opens the stream (usually a Unix socket). The length of an answer is checked before
//! its buffer is allocated, and an answer of a type that does not match the request is an error.
//! Keys are opaque blobs here; `keys` interprets them.
#![forbid(unsafe_code)]

mod client;
mod error;
pub mod message;

#[cfg(test)]
mod tests;

pub use client::AgentClient;
pub use error::AgentError;
pub use message::{Identity, SignFlags};
