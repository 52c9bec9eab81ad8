//! The SSH protocol as state machines without I/O (RFC 4250–4254, 4256, 4419, 5656, 8308, 8731 and
//! OpenSSH's extensions).
//!
//! A [`Connection`] accepts bytes, opened packets, time and commands, and returns packets to seal
//! or open, events and deadlines. It has no clock, socket, file or thread: time is a parameter in
//! milliseconds since any origin, and the caller runs the packet jobs, on its own or on other
//! threads, as long as it returns the results in order.
//!
//! There are four kinds of methods: getters, `handle_*` (input), commands, and `poll_*` (output,
//! jobs and events). The modules follow the RFCs: [`transport`](self) (4253), userauth (4252,
//! 4256), channel (4254). `permits` decides which messages may arrive now, and `snapshot` passes a
//! live connection from the process that authenticated the user to the process that serves the
//! user.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

pub mod channel;
mod config;
mod connection;
mod error;
mod event;
mod limits;
mod permits;
mod quirks;
mod request;
mod snapshot;
mod transport;
mod userauth;

pub use compress::{
    CompressionReport as CompressReport, CompressionSettings as DeflateSettings, InflateError,
    Totals as CompressTotals, zstd_level,
};
pub use config::{KexGuess, OpeningBytes, Role, ServerHostKey, ShortOffer, TransportConfig};
pub use connection::{CompressJob, Compressed, Connection, TransportOutput};
pub use error::Error;
pub use event::{
    AuthMethod, AuthProof, AuthRequest, ChannelId, DirectionAlgorithms, Event, GroupExchange,
    Negotiated, Prompt, Stream,
};
pub use quirks::{Pipelining, Quirks};

/// Milliseconds of a monotonic clock with any origin.
pub type Millis = u64;

/// Software name that follows `SSH-2.0-` in our identification line. A peer that sends it is a
/// Fulmar and may get larger packets.
pub const SOFTWARE_NAME: &str = "Fulmar_";

/// What our identification line names first if the configuration says so: the version of OpenSSH whose
/// behaviour and extensions ours are.
pub const OPENSSH_NAME: &str = "OpenSSH_10.6";
