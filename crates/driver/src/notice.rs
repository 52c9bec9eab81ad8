//! What the event loop returns to its caller.

use std::io;

use proto::{ChannelId, Event, Stream};

/// What [`Driver::next`](super::Driver::next) returns to its caller.
#[derive(Debug)]
pub enum Notice {
    /// An event of the connection. Channel data appears here only if the stream has neither a sink
    /// nor an endpoint.
    Event(Event),
    /// A descriptor given to [`Driver::watch`](super::Driver::watch) is ready.
    Ready {
        /// The token given to [`Driver::watch`](super::Driver::watch).
        token: u64,
        /// Reading will not block (or will return the error).
        readable: bool,
        /// Writing will not block.
        writable: bool,
    },
    /// A timer set by [`Driver::set_timer`](super::Driver::set_timer) expired.
    Timer {
        /// The token given to [`Driver::set_timer`](super::Driver::set_timer).
        token: u64,
    },
    /// A source ended or failed and is detached. No EOF has been sent for it.
    SourceEnded {
        /// The source's channel.
        channel: ChannelId,
        /// The source's stream.
        stream: Stream,
        /// Read error; `None` at the end of the file.
        error: Option<io::Error>,
    },
    /// A sink has written its last byte or failed; its descriptor is closed.
    SinkEnded {
        /// The sink's channel.
        channel: ChannelId,
        /// The sink's stream.
        stream: Stream,
        /// Write error; `None` at the end of the data.
        error: Option<io::Error>,
    },
    /// An endpoint is finished; it stays attached until
    /// [`Driver::detach_endpoint`](super::Driver::detach_endpoint).
    EndpointEnded {
        /// The endpoint's channel.
        channel: ChannelId,
    },
    /// The accelerator that compressed sent data failed, for this reason. No data is lost; the
    /// software compressor continues.
    AcceleratorFailed(String),
    /// The accelerator of this name no longer compresses, because a second channel has sent data.
    AcceleratorDismissed(String),
    /// The peer closed its side of the socket.
    PeerClosed,
}
