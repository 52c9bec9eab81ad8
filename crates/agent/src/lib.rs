//! The agent protocol (RFC 9987): its messages in both directions, a blocking
//! client over any stream, a blocking server for an agent of the caller's own ([`serve`]), and the
//! places of agents' sockets ([`socket`]).
//!
//! The caller opens the stream (usually a Unix socket). The length of a message is checked before
//! its buffer is allocated, and an answer of a type that does not match the request is an error.
//! A listed key is an opaque blob here, which `keys` interprets; only a key to add is parsed. The
//! agent that holds keys is `agentd`.
#![forbid(unsafe_code)]

pub mod answer;
mod client;
pub mod constraint;
mod error;
pub mod message;
pub mod request;
mod serve;
pub mod socket;

#[cfg(test)]
mod request_tests;
#[cfg(test)]
mod tests;

pub use client::AgentClient;
pub use constraint::Constraints;
pub use error::AgentError;
pub use message::{Identity, SignFlags};
pub use request::{AddRequest, AgentRequest};
pub use serve::{SigningAgent, serve};
