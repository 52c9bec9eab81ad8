//! The SSH protocol as state machines without I/O (RFC 4250–4254, 4256, 4419, 5656, 8308,
//! 8731 and OpenSSH's extensions).
//!
//! A [`Connection`] takes bytes, opened packets, time and commands, and gives packets to seal
//! or open, events and deadlines. It has no clock, socket, file or thread: time is a
//! parameter in milliseconds of any origin, and the caller runs the packet jobs, in place or
//! on other threads, as long as it hands the results back in order.
//!
//! Four kinds of methods, and no others: getters; `handle_*` (what came in); commands; and
//! `poll_*` (what is to be done). The rooms follow the RFCs: [`transport`](self) (4253),
//! userauth (4252, 4256), channel (4254); `permits` answers what may arrive now, and
//! `snapshot` hands a live connection from the process that authenticated it to the one that
//! serves it.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

pub mod channel;
mod config;
mod connection;
mod error;
mod event;
mod permits;
mod snapshot;
mod transport;
mod userauth;

pub use compress::{
    InflateError, Report as CompressReport, Settings as DeflateSettings, Totals as CompressTotals,
    zstd_level,
};
pub use config::{Role, ServerHostKey, ShortOffer, TransportConfig};
pub use connection::{CompressJob, Compressed, Connection, Output};
pub use error::Error;
pub use event::{
    AuthMethod, AuthProof, AuthRequest, ChannelId, Direction, Event, Negotiated, Prompt, Stream,
};

/// Milliseconds of a monotonic clock with any origin.
pub type Millis = u64;

/// What stands behind `SSH-2.0-` in our version line; a peer that sends it is one of ours and
/// may get larger packets.
pub const SOFTWARE_NAME: &str = "Fulmar_";
