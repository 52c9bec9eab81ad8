//! A copy to or from one of many hosts of one program, by the machine of `scp`: the caller makes the
//! connection, reports the errors and may give the host up.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use client::flags::SessionRequest;
use client::session::AnyLocalEnd;

use crate::link::Host;
use crate::scp;
use crate::{Console, RemoteHost};

/// Makes a connection and serves it to its end.
pub type Connect = Arc<dyn Fn(SessionRequest, &mut AnyLocalEnd) + Send + Sync>;

/// Which way files go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostCopyWay {
    /// Local files to a path of the host.
    Put,
    /// Files of the host, which may be patterns, to a local path.
    Get,
}

/// A copy to or from one host.
pub struct HostCopy {
    /// The host, in the form of ssh's command line without user and port.
    pub host: String,
    /// The user, if one was named.
    pub user: Option<String>,
    /// Flags of `ssh` for the connection.
    pub flags: Vec<(&'static str, OsString)>,
    /// Which way.
    pub way: HostCopyWay,
    /// What to copy, at least one.
    pub sources: Vec<OsString>,
    /// Where to. With several sources a directory.
    pub target: OsString,
    /// Copy directories with their contents.
    pub recursive: bool,
    /// Keep times and modes.
    pub preserve: bool,
    /// Makes the connection and serves it to its end: `client::session_with`. It is called on a
    /// thread of its own.
    pub connect: Connect,
    /// True when the host is to be given up; asked several times a second.
    pub is_given_up: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// What a copy came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostCopied {
    /// Files that were copied whole.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Errors, escaped for a terminal; at most 100.
    pub errors: Vec<String>,
    /// True if anything failed. Why a connection failed is not among `errors`: the caller made it.
    pub has_failed: bool,
    /// True if the connection ended before the copy, so that the rest was not tried.
    pub has_lost_connection: bool,
}

impl HostCopy {
    /// Copies, and returns when everything is done or nothing more can be done.
    #[must_use]
    pub fn run(self) -> HostCopied {
        let mut console = Console::keeping();
        let fatal = scp::copy_of_host(self, &mut console);
        let has_failed = fatal.is_some() || console.failed() > 0;
        let has_lost_connection = matches!(&fatal, Some((_, true)));
        if let Some((line, _)) = fatal.filter(|(line, _)| !line.is_empty()) {
            console.last_error(&line);
        }
        let (bytes, files) = console.copied();
        HostCopied {
            files,
            bytes,
            errors: console.take_errors(),
            has_failed,
            has_lost_connection,
        }
    }

    /// The host as scp takes it.
    pub(crate) fn remote(&self) -> RemoteHost {
        RemoteHost {
            user: self.user.clone(),
            host: self.host.clone(),
            port: None,
        }
    }

    /// The connection as scp takes it.
    pub(crate) fn link(&self) -> Host {
        Host {
            connect: Arc::clone(&self.connect),
            is_given_up: Arc::clone(&self.is_given_up),
        }
    }

    /// The local path of the target.
    pub(crate) fn local_target(&self) -> &Path {
        Path::new(&self.target)
    }
}
