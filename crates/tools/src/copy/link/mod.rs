//! Connections that carry SFTP: in this process, or by children that are another `ssh` or a local
//! server.

mod mailbox;
mod own;

use std::time::Duration;

use transfer::connect::Children;
use transfer::engine::{EngineError, Exchange, LinkTimes, Transport};

pub(crate) use own::{Connections, note_signals};

/// The connections of one copy, all of one kind.
#[derive(Debug)]
pub(crate) enum Links {
    /// In this process.
    Own(Connections),
    /// Children with pipes.
    Children(Children),
}

impl Links {
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

impl Transport for Links {
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
