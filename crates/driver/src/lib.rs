//! Joins a [`proto::Connection`] to sockets, pipes and terminals.
//!
//! [`Driver`] owns the connection's socket and the descriptors that are attached to its
//! channels, moves bytes between them in both directions with back-pressure, and returns to its
//! caller only for what concerns the caller: [`Notice`]. Where a channel's bytes are made and used
//! in this process, an [`Endpoint`] takes the place of descriptors. One thread, beside which
//! workers may seal and open bulk ([`LaneTerms`]). It knows nothing of users, keys or programs.
#![forbid(unsafe_code)]

mod epoll;
mod pieces;

pub use epoll::{
    CryptoThreads, Driver, DriverError, Endpoint, LaneReport, LaneTerms, Line, LoopTimes, Notice,
    Progress,
};
pub use pieces::Pieces;
