//! Connections that carry SFTP: in this process, or by children that are another `ssh` or a local
//! server.

mod bridge;
mod first;
mod in_process;

use std::time::Duration;

use transfer::connect::Children;
use transfer::engine::{EngineError, Exchange, LinkTimes, Transport};

pub(crate) use in_process::{Connections, Host, note_signals};

/// The connections of one copy, all of one kind.
#[derive(Debug)]
pub(crate) enum CopyLinks {
    /// In this process.
    Own(Connections),
    /// Children with pipes.
    Children(Children),
}

impl CopyLinks {
    /// A login is under way, and the first turn waits for it.
    pub(crate) fn logs_in(&self) -> bool {
        match self {
            Self::Own(connections) => connections.logs_in(),
            Self::Children(_) => false,
        }
    }

    /// The login of the first is over, whatever came of it.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn log_in(&mut self) -> std::io::Result<()> {
        match self {
            Self::Own(connections) => connections.log_in(),
            Self::Children(_) => Ok(()),
        }
    }

    /// Ends all of them in order.
    pub(crate) fn finish(&mut self) {
        match self {
            Self::Own(connections) => connections.finish(),
            Self::Children(children) => {
                children.finish();
            }
        }
    }
}

/// Lines are read from the terminal and written to it here, and both fail where those who connect
/// have made it non-blocking for what they write to it: it is the same open file.
pub(crate) fn let_terminals_block() {
    for stream in [sys::io::stdin(), sys::io::stdout(), sys::io::stderr()] {
        if sys::io::is_terminal(stream) {
            // What cannot be set stays as it was, which is blocking most of the time.
            let _ = sys::io::set_nonblocking(stream, false);
        }
    }
}

impl Transport for CopyLinks {
    fn links(&self) -> usize {
        match self {
            Self::Own(connections) => connections.links(),
            Self::Children(children) => children.links(),
        }
    }

    fn reads_on(&self, link: usize) -> bool {
        match self {
            Self::Own(connections) => connections.reads_on(link),
            // What a child talks to is not known.
            Self::Children(_) => false,
        }
    }

    fn is_fulmar(&self, link: usize) -> bool {
        match self {
            Self::Own(connections) => connections.is_fulmar(link),
            Self::Children(_) => false,
        }
    }

    fn turn(&mut self, exchange: &mut dyn Exchange, wait: Duration) -> Result<bool, EngineError> {
        match self {
            Self::Own(connections) => connections.turn(exchange, wait),
            Self::Children(children) => children.turn(exchange, wait),
        }
    }

    fn times(&self) -> Option<LinkTimes> {
        match self {
            Self::Own(connections) => connections.times(),
            Self::Children(children) => children.times(),
        }
    }
}
