//! Messages sent before the server's answers: what is sent, to which servers, and what follows if
//! the connection ends because of it. docs/login.md shows the flights.
//!
//! [`LoginStrategy`] decides, from the options, the server's version and its cached
//! [`ServerProfile`]; [`RetryPolicy`] is the outcome of an attempt that failed. [`early`] sends the
//! session's channel. The requests of the login are sent by [`crate::auth`], the guessed key
//! exchange packet by [`crate::login`].

pub mod early;
pub mod profile;
mod strategy;

pub use early::{ChannelStart, EarlyChannel, PipelineDepth};
pub use profile::{ProfileCache, ProfileStore, ServerProfile};
pub use strategy::{Caution, Failure, LoginStrategy, MAX_CANDIDATES, RetryPolicy};
