//! `scp`, `sftp` and `copy-id`, and what they share: the way to a server, what is shown while a copy
//! runs, and what it comes to.
#![forbid(unsafe_code)]

// The macros that print without panicking.
#[macro_use]
extern crate sys;

pub(crate) mod connector;
pub(crate) mod console;
pub mod copy_id;
pub mod host_copy;
pub mod json;
mod link;
pub mod scp;
pub mod sftp;
pub(crate) mod units;

pub(crate) use connector::{AnyRemote, Connector, RemoteHost, auto_connections};
pub(crate) use console::Console;
pub(crate) use link::{CopyLinks, note_signals};

/// Why a command line is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadLine {
    /// The usage text says it, after these words if there are any.
    Usage(String),
    /// The value of a flag, for which OpenSSH ends with its status for fatal errors, 255.
    Value(String),
}

impl BadLine {
    /// What a flag said of its value.
    pub(crate) fn of(flag: &'static str, why: String) -> Self {
        match flag {
            _ if why.is_empty() => Self::Usage(why),
            // OpenSSH's other way for this one; those that OpenSSH does not have.
            "l" | "n" | "limit" => Self::Usage(why),
            _ => Self::Value(why),
        }
    }
}

impl From<flags::Error> for BadLine {
    fn from(error: flags::Error) -> Self {
        Self::Usage(error.to_string())
    }
}
