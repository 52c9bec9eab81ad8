//! Files on the server, over SFTP version 3 (draft-ietf-secsh-filexfer-02).
//!
//! [`Sftp::open`] starts the subsystem `sftp` on a channel of a [`Session`]. [`Sftp::upload`] and
//! [`Sftp::download`] copy files and directory trees with many requests in flight, as the programs
//! `scp` and `sftp` do; the other methods send one request and wait for its answer. All calls block;
//! for copies at the same time, open one [`Sftp`] for each thread.
//!
//! After any failure the target of a copied file holds a prefix of the source or nothing. Names
//! that a server lists never lead out of the target directory.
//!
//! Paths at the server are bytes: a relative one begins in the user's home directory.
//!
//! ```no_run
//! use fulmar::client::{Auth, Config, Session};
//! use fulmar::sftp::{CopyOptions, Sftp};
//!
//! # fn main() -> Result<(), fulmar::Error> {
//! let mut session = Session::connect("example.org", 22, Config::default())?;
//! session.authenticate("mia", Auth::Agent)?;
//! let mut sftp = Sftp::open(&session)?;
//! sftp.upload("report.pdf", "inbox/report.pdf", CopyOptions::default(), |progress| {
//!     println!("{} of {:?} bytes", progress.bytes, progress.total_bytes);
//! })?;
//! # Ok(())
//! # }
//! ```

mod report;
mod transport;

use std::fmt;
use std::path::PathBuf;

use transfer::engine::{Engine, EngineError};
use transfer::remote::{Remote, RemoteError};
use transfer::{get, put};

use crate::Error;
use crate::client::Session;
use report::Reporter;
use transport::ChannelTransport;

/// Constants for [`Attributes::permissions`] and [`Attributes::is`].
pub use ::sftp::attributes::mode;
pub use ::sftp::{Attributes, ExactTimes, Owner, Times, Timestamp};
pub use report::Progress;
pub use transfer::options::{Options as CopyOptions, Resume};
pub use transfer::remote::Entry;

/// An SFTP connection over one channel. Dropping it closes the channel.
pub struct Sftp {
    remote: Remote<ChannelTransport>,
}

impl fmt::Debug for Sftp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sftp")
    }
}

impl Sftp {
    /// Starts the subsystem `sftp` and exchanges versions.
    ///
    /// # Errors
    /// [`Error::RequestRefused`] if the server has no such subsystem; [`Error::Sftp`] if the
    /// server does not speak SFTP version 3; otherwise as [`Session::subsystem`].
    pub fn open(session: &Session) -> Result<Self, Error> {
        let channel = session.subsystem("sftp")?;
        let mut sftp = Self {
            remote: Remote::unmet(ChannelTransport::new(channel)),
        };
        let met = sftp.remote.meet();
        met.map_err(|error| sftp.failed(RemoteError::Engine(error)))?;
        Ok(sftp)
    }

    /// Copies a local file, or with [`CopyOptions::recursive`] a directory, to the server. `to` is
    /// the path of the copy itself, not of the directory to put it in. `progress` is called each
    /// time bytes of a file have reached the server.
    ///
    /// # Errors
    /// [`Error::Copy`] if a file or directory failed; the others are copied. Otherwise why the
    /// connection ended.
    pub fn upload(
        &mut self,
        from: impl Into<PathBuf>,
        to: impl AsRef<[u8]>,
        options: CopyOptions,
        progress: impl FnMut(&Progress<'_>),
    ) -> Result<(), Error> {
        let item = put::Item {
            from: from.into(),
            to: to.as_ref().to_vec(),
            fresh: false,
        };
        let mut reporter = Reporter::new(progress);
        let mut work = put::Put::new(options, vec![item], 1, &mut reporter);
        let run = self.engine().run(&mut work);
        let failures = work.failures();
        self.copied(run, failures, reporter.into_first_failure())
    }

    /// Copies a file, or with [`CopyOptions::recursive`] a directory, from the server. `to` is the
    /// path of the copy itself, not of the directory to put it in. `progress` is called each time
    /// bytes of a file have been written.
    ///
    /// # Errors
    /// As [`Sftp::upload`].
    pub fn download(
        &mut self,
        from: impl AsRef<[u8]>,
        to: impl Into<PathBuf>,
        options: CopyOptions,
        progress: impl FnMut(&Progress<'_>),
    ) -> Result<(), Error> {
        let item = get::Item {
            from: from.as_ref().to_vec(),
            to: to.into(),
            attributes: None,
        };
        let mut reporter = Reporter::new(progress);
        let mut work = get::Get::new(options, vec![item], 1, &mut reporter);
        let run = self.engine().run(&mut work);
        let failures = work.failures();
        self.copied(run, failures, reporter.into_first_failure())
    }

    /// The entries of a directory, without `.` and `..`, in the server's order; at most a million.
    /// Names that are not a single path component are left out.
    ///
    /// # Errors
    /// [`Error::Sftp`] if the server refuses; otherwise why the connection ended.
    pub fn list(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<Entry>, Error> {
        self.ask(|remote| remote.list(path.as_ref(), false, &mut |_| {}))
    }

    /// The attributes of a file (STAT); a symbolic link is followed.
    ///
    /// ```no_run
    /// # fn show(sftp: &mut fulmar::sftp::Sftp) -> Result<(), fulmar::Error> {
    /// use fulmar::sftp::mode;
    ///
    /// let attributes = sftp.stat("inbox")?;
    /// assert!(attributes.is(mode::DIRECTORY));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Sftp::list`].
    pub fn stat(&mut self, path: impl AsRef<[u8]>) -> Result<Attributes, Error> {
        self.ask(|remote| remote.stat(path.as_ref()))
    }

    /// The attributes of a file or symbolic link itself (LSTAT).
    ///
    /// # Errors
    /// As [`Sftp::list`].
    pub fn lstat(&mut self, path: impl AsRef<[u8]>) -> Result<Attributes, Error> {
        self.ask(|remote| remote.lstat(path.as_ref()))
    }

    /// The absolute path for `path` (REALPATH), without symbolic links as far as the server resolves
    /// them.
    ///
    /// # Errors
    /// As [`Sftp::list`].
    pub fn realpath(&mut self, path: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
        self.ask(|remote| remote.realpath(path.as_ref()))
    }

    /// Makes a directory with these permission bits (such as `0o755`), less the server's umask.
    ///
    /// # Errors
    /// As [`Sftp::list`].
    pub fn mkdir(&mut self, path: impl AsRef<[u8]>, mode: u32) -> Result<(), Error> {
        self.ask(|remote| remote.mkdir(path.as_ref(), mode))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`Sftp::list`].
    pub fn rmdir(&mut self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        self.ask(|remote| remote.rmdir(path.as_ref()))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// As [`Sftp::list`].
    pub fn remove(&mut self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        self.ask(|remote| remote.remove(path.as_ref()))
    }

    /// Renames a file. An existing target is replaced if the server supports
    /// posix-rename@openssh.com (OpenSSH PROTOCOL §4.3); without it the server may refuse.
    ///
    /// # Errors
    /// As [`Sftp::list`].
    pub fn rename(&mut self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<(), Error> {
        self.ask(|remote| remote.rename(from.as_ref(), to.as_ref(), false))
    }

    fn engine(&mut self) -> &mut Engine<ChannelTransport> {
        self.remote.engine()
    }

    fn ask<T>(
        &mut self,
        question: impl FnOnce(&mut Remote<ChannelTransport>) -> Result<T, RemoteError>,
    ) -> Result<T, Error> {
        question(&mut self.remote).map_err(|error| self.failed(error))
    }

    fn copied(
        &mut self,
        run: Result<(), EngineError>,
        failures: usize,
        first: Option<String>,
    ) -> Result<(), Error> {
        run.map_err(|error| self.failed(RemoteError::Engine(error)))?;
        match failures {
            0 => Ok(()),
            failures => Err(Error::Copy {
                failures,
                first: first.unwrap_or_default(),
            }),
        }
    }

    fn failed(&mut self, error: RemoteError) -> Error {
        let connection = self.engine().transport().take_failure();
        match error {
            RemoteError::Engine(EngineError::Closed) => connection.unwrap_or(Error::ChannelClosed),
            RemoteError::Engine(EngineError::Io(error)) => error.into(),
            RemoteError::Status { code, text } => Error::Sftp {
                code: Some(code.0),
                text,
            },
            error => Error::Sftp {
                code: None,
                text: error.to_string(),
            },
        }
    }
}
