//! Joins a [`proto::Connection`] to sockets, pipes and terminals.
//!
//! [`Driver`] owns the connection's socket and the descriptors that are attached to its
//! channels, moves bytes between them in both directions with back-pressure, and returns to its
//! caller only for what concerns the caller: [`Notice`]. One thread; the packet jobs run in
//! place. It knows nothing of users, keys or programs.
#![forbid(unsafe_code)]

mod epoll;

pub use epoll::{Driver, DriverError, Notice};
