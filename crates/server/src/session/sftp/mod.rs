//! internal-sftp: `sftp`'s server as the endpoint of a channel, in this process.
//!
//! If every mounted file system is local, the server works in the connection's thread ([`inline`]),
//! so that data stays in one core's cache. If a file system is mounted whose server or process may
//! not answer (NFS, FUSE), it works in its own thread ([`worker`]), connected to the connection's
//! thread ([`threaded`]) by a [`PacketBridge`](driver::PacketBridge).

mod inline;
mod mounts;
mod threaded;
mod worker;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use config::tokens::{Purpose, Tokens};
use driver::{ChannelHandler, ChannelIo, HandlerProgress};
use privsep::LogLevel;
use proto::{Error, Stream};
use sftp::server::{self as serve, Log, Options, Serve, Wanted};
use sys::fs::PathRoot;
use sys::sandbox::files::{self, Wall};

use super::command::InternalSftp;
use super::context::Context;
use crate::log::Logger;

use inline::InlineBackend;
use threaded::ThreadedBackend;
use worker::Make;
pub(super) use worker::SftpThread;

/// Exit status after an error, as in OpenSSH.
const STATUS_FAILED: u8 = 255;

/// The SFTP server of a channel.
pub(super) struct SftpHandler {
    way: SftpBackend,
    status: u8,
    /// Bytes received that the server does not take.
    unused: usize,
}

/// The thread that works with the files.
enum SftpBackend {
    /// No server yet, because the rc file runs first. Received data is bounded by the channel's
    /// window and kept in one buffer: one-byte packets would cost many times their length.
    Deferred {
        data: Vec<u8>,
        has_ended: bool,
    },
    Inline(InlineBackend),
    Threaded(ThreadedBackend),
}

impl SftpHandler {
    /// An endpoint that keeps received data until [`begin`](Self::begin).
    pub(super) fn later() -> Self {
        Self {
            way: SftpBackend::Deferred {
                data: Vec::new(),
                has_ended: false,
            },
            status: 0,
            unused: 0,
        }
    }

    /// Starts the server according to the arguments of `internal-sftp` and passes on the data kept
    /// so far.
    ///
    /// # Errors
    /// The message for the client: the arguments are invalid, or SftpRoot cannot be used.
    pub(super) fn begin(
        &mut self,
        files: &InternalSftp,
        context: &Context<'_>,
    ) -> Result<(), String> {
        let way = Self::way(&files.arguments, files.is_forced, context)?;
        if let SftpBackend::Deferred { data, has_ended } = std::mem::replace(&mut self.way, way) {
            if !data.is_empty() {
                self.receive(Stream::Data, Bytes::from(data));
            }
            if has_ended {
                self.end();
            }
        }
        Ok(())
    }

    fn way(
        arguments: &[String],
        is_forced: bool,
        context: &Context<'_>,
    ) -> Result<SftpBackend, String> {
        let options = match Options::parse(arguments) {
            Ok(Wanted::Serve(options)) => *options,
            Ok(Wanted::ListRequests | Wanted::Usage) => {
                return Err("internal-sftp: -h and -Q are for the command line".to_owned());
            }
            Err(error) => return Err(format!("internal-sftp: {error}")),
        };
        let log = SftpLog {
            logger: context.lasting_log,
            level: options.level,
        };
        if let Some(mask) = options.umask {
            context.set_umask(mask);
        }
        // Checked before Landlock applies, after which /proc cannot be read.
        let all_local = mounts::are_all_local();
        let grant = &context.grant;
        let permits = options.permits();
        let lines = Box::new(log.clone());
        let links_by_draft = context.links_by_draft;
        let make_serve = move |place, permits, lines| {
            let mut serve = Serve::new(place, permits, serve::max_handles(), lines);
            if links_by_draft {
                serve.take_links_by_draft();
            }
            serve
        };
        let make: Make = match context.options.session.sftp_root.as_deref() {
            Some(template) => {
                let place = confine(template, &options, context)?;
                let mut serve = make_serve(place, permits, lines);
                serve.learn_own_names();
                // Landlock also applies to threads started later.
                wall(&serve, is_forced, options.read_only, context)?;
                Box::new(move || Ok(serve))
            }
            None => {
                let start = options.start(&grant.user, &grant.home);
                // In a chroot homes rarely exist; OpenSSH does not report them either.
                let is_home = start == grant.home && grant.chroot.is_some();
                let level = if is_home {
                    LogLevel::Debug1
                } else {
                    LogLevel::Error
                };
                Box::new(move || {
                    let place = begin(&start, level, &*lines)?;
                    Ok(make_serve(place, permits, lines))
                })
            }
        };
        let session = format!(
            "for local user {} from [{}]",
            grant.user, grant.remote_address
        );
        log.line(LogLevel::Info, &format!("session opened {session}"));
        Ok(if all_local {
            SftpBackend::Inline(InlineBackend::new(make()?, log, session))
        } else {
            let thread = worker::start(make, log, session)
                .map_err(|error| format!("internal-sftp: cannot start a thread: {error}"))?;
            SftpBackend::Threaded(ThreadedBackend::new(thread))
        })
    }

    /// The SFTP thread, if there is one.
    pub(super) fn thread(&self) -> Option<&Arc<SftpThread>> {
        match &self.way {
            SftpBackend::Deferred { .. } | SftpBackend::Inline(_) => None,
            SftpBackend::Threaded(threaded) => Some(threaded.thread()),
        }
    }

    /// The exit status after the server's end.
    pub(super) fn status(&self) -> u8 {
        self.status
    }

    /// The client has closed the channel: received requests are completed, and no answer is sent.
    pub(super) fn abort(&mut self) {
        match &mut self.way {
            SftpBackend::Deferred { .. } => {}
            SftpBackend::Inline(inline) => inline.abort(),
            SftpBackend::Threaded(threaded) => threaded.abort(),
        }
    }
}

/// Opens the start directory for relative paths, or `/` if it does not exist, as for a shell.
fn begin(start: &str, level: LogLevel, log: &dyn Log) -> Result<PathRoot, String> {
    PathRoot::everywhere(start.as_bytes()).or_else(|error| {
        log.line(level, &format!("chdir to \"{start}\" failed: {error}"));
        PathRoot::everywhere(b"/").map_err(|error| format!("internal-sftp: /: {error}"))
    })
}

/// Opens SftpRoot, which no path can leave.
fn confine(template: &str, options: &Options, context: &Context<'_>) -> Result<PathRoot, String> {
    let grant = &context.grant;
    let root = Tokens::new()
        .with('h', &grant.home)
        .with('u', &grant.user)
        .with('U', grant.uid.to_string())
        .expand(template, Purpose::Path);
    let failed = |why: String| {
        context.log.error(&format!("SftpRoot: {why}"));
        "internal-sftp: the server's SftpRoot cannot be used".to_owned()
    };
    let root = root.map_err(|error| failed(error.to_string()))?;
    // The home directory relative to the root, or the root if it is outside.
    let home = Path::new(&grant.home).strip_prefix(&root);
    let home = home.map_or_else(
        |_| "/".to_owned(),
        |inside| format!("/{}", inside.to_string_lossy()),
    );
    let start = options.start(&grant.user, &home);
    let start = if start.starts_with('/') {
        start
    } else {
        format!("/{start}")
    };
    // Whoever can rename a directory above the root, or create a link there, could choose another
    // root. In a server started by an ordinary user, that user is trusted as root is.
    let owner = if grant.change_user { 0 } else { grant.uid };
    sys::file::secure_root(Path::new(&root), owner).map_err(|why| {
        failed(format!(
            "bad ownership or modes for directory \"{root}\": {why}"
        ))
    })?;
    PathRoot::confined(root.as_bytes(), start.as_bytes())
        .map_err(|error| failed(format!("{root}: {error}")))
}

/// Adds Landlock as a second barrier: if the command is forced, so that no other program can start
/// on this connection, the kernel forbids every file outside the root.
fn wall(
    serve: &Serve,
    is_forced: bool,
    read_only: bool,
    context: &Context<'_>,
) -> Result<(), String> {
    if !is_forced {
        return Ok(());
    }
    if context.is_walled.replace(true) {
        return Ok(());
    }
    match files::only_below(serve.place().directory(), read_only) {
        Ok(wall) => {
            if let Some(line) = lacks(wall) {
                context.log.info(line);
            }
            Ok(())
        }
        Err(error) => {
            context.log.error(&format!("SftpRoot: Landlock: {error}"));
            Err("internal-sftp: the server's SftpRoot cannot be used".to_owned())
        }
    }
}

/// The log line about what Landlock does not cover.
fn lacks(wall: Wall) -> Option<&'static str> {
    match wall {
        Wall::Whole => None,
        Wall::Partial => Some(
            "SftpRoot: the kernel's Landlock is too old to forbid everything; for the rest openat2 alone confines",
        ),
        Wall::None => Some("SftpRoot: the kernel has no Landlock; openat2 alone confines"),
    }
}

impl ChannelHandler for SftpHandler {
    fn receive(&mut self, stream: Stream, data: Bytes) {
        match (&mut self.way, stream) {
            (SftpBackend::Deferred { data: kept, .. }, Stream::Data) => {
                kept.extend_from_slice(&data)
            }
            (SftpBackend::Inline(inline), Stream::Data) => self.unused += inline.receive(data),
            (SftpBackend::Threaded(threaded), Stream::Data) => threaded.receive(data),
            // SFTP has no extended data.
            (_, Stream::Stderr) => self.unused += data.len(),
        }
    }

    fn end(&mut self) {
        match &mut self.way {
            SftpBackend::Deferred { has_ended, .. } => *has_ended = true,
            SftpBackend::Inline(inline) => inline.end(),
            SftpBackend::Threaded(threaded) => threaded.end(),
        }
    }

    fn work(&mut self, line: &mut ChannelIo<'_>) -> Result<HandlerProgress, Error> {
        line.consumed(std::mem::take(&mut self.unused))?;
        let (progress, status) = match &mut self.way {
            SftpBackend::Deferred { .. } => return Ok(HandlerProgress::Waiting),
            SftpBackend::Inline(inline) => inline.work(line)?,
            SftpBackend::Threaded(threaded) => threaded.work(line)?,
        };
        self.status = status.unwrap_or(self.status);
        Ok(progress)
    }
}

/// Log lines for the administrator, sent through the monitor.
#[derive(Clone)]
struct SftpLog {
    logger: Logger<'static>,
    level: LogLevel,
}

impl Log for SftpLog {
    fn wants(&self, level: LogLevel) -> bool {
        level <= self.level
    }

    fn line(&self, level: LogLevel, text: &str) {
        if self.wants(level) {
            self.logger.line(level, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_that_is_not_whole_is_told_of() {
        assert_eq!(lacks(Wall::Whole), None);
        let said = [Wall::Partial, Wall::None].map(|wall| lacks(wall).unwrap());
        assert!(said[0].contains("Landlock is too old") && said[1].contains("no Landlock"));
        assert!(
            said.iter()
                .all(|line| line.ends_with("openat2 alone confines"))
        );
    }
}
