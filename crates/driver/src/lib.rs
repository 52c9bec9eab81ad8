//! Event loop that connects a [`proto::Connection`] to sockets, pipes and terminals.
//!
//! [`Driver`] owns the connection's socket and the descriptors attached to its channels. It moves
//! bytes in both directions with back-pressure and returns to its caller only with a [`Notice`]. A
//! channel whose bytes are produced and consumed in this process has an [`Endpoint`] instead of
//! descriptors. The loop runs on one thread; worker threads may seal and open bulk packets
//! ([`LaneTerms`]). This crate has no users, keys or programs.
#![forbid(unsafe_code)]

mod epoll;
mod pieces;

pub use epoll::{
    CryptoThreads, Driver, DriverError, Endpoint, LaneReport, LaneTerms, Line, LoopTimes, Notice,
    Progress,
};
pub use pieces::Pieces;
