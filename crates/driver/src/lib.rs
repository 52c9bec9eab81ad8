//! Event loop that connects a [`proto::Connection`] to sockets, pipes and terminals.
//!
//! [`Driver`] owns the connection's socket and the descriptors attached to its channels. It moves
//! bytes in both directions with back-pressure and returns to its caller only with a [`Notice`]. A
//! channel whose bytes are produced and consumed in this process has an [`ChannelHandler`] instead
//! of descriptors. The loop runs on one thread; worker threads may seal and open bulk packets
//! ([`LaneTerms`]). This crate has no users, keys or programs.
#![forbid(unsafe_code)]

mod attachments;
mod channel_fd;
mod channel_handler;
mod chunk_queue;
#[cfg(test)]
mod controllers_tests;
mod driver;
mod error;
mod event_loop;
pub mod forward;
mod gss;
mod handlers;
mod lanes;
#[cfg(test)]
mod lanes_tests;
mod level_controller;
#[cfg(test)]
mod level_controller_tests;
mod link;
mod notice;
mod out_queue;
mod packet_bridge;
#[cfg(test)]
mod packet_bridge_tests;
pub mod packets;
mod pipe;
mod poller;
mod probe;
mod quality;
mod send_limits;
mod sink;
mod source;
mod stall_accounting;
mod sync;
mod thread_waker;
mod watch;

pub use channel_fd::SocketPair;
pub use channel_handler::{ChannelHandler, ChannelIo, HandlerProgress};
pub use chunk_queue::ChunkQueue;
pub use driver::Driver;
pub use error::DriverError;
pub use gss::GssContexts;
pub use lanes::{CryptoThreads, LaneReport, LaneTerms};
pub use notice::Notice;
pub use packet_bridge::{
    BridgeCommand, BridgeEnd, BridgeLimits, BridgeProgress, PacketBridge, WorkerInput,
};
pub use quality::is_interactive;
pub use source::Tap;
pub use stall_accounting::LoopTimes;
pub use thread_waker::ThreadWaker;
