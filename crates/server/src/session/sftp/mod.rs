//! internal-sftp: the file server of `transfer` as the endpoint of a channel, in this process.
//!
//! Where every file system is this machine's own it works in the connection's thread ([`here`]):
//! bytes are sealed and written in the core's cache in which they were read and opened. Where one
//! is mounted that others answer for (NFS, FUSE), and may leave unanswered, it works in a thread of
//! its own ([`worker`]), which meets the connection's ([`beside`]) at a [`Desk`].

mod beside;
mod desk;
mod here;
mod mounts;
mod worker;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use config::tokens::{Purpose, Tokens};
use driver::{Endpoint, Line, Progress};
use privsep::LogLevel;
use proto::{Error, Stream};
use sys::fs::Place;
use sys::sandbox::files::{self, Wall};
use transfer::serve::{self, Level, Log, Options, Serve, Wanted};

use super::command::Files;
use super::context::Context;
use crate::log::Logger;

use beside::Beside;
pub(super) use desk::Desk;
use here::Here;
use worker::Make;

/// Exit status of a server that could not serve, as OpenSSH's.
const STATUS_FAILED: u8 = 255;

/// A server at work on a channel.
pub(super) struct SftpEndpoint {
    way: Way,
    status: u8,
    /// Bytes that came for nobody.
    unused: usize,
}

/// Which thread works with the files.
enum Way {
    /// None yet: the rc file runs first. The channel's window bounds what is kept, in one piece: packets
    /// of a byte each would cost many times their length.
    Later {
        data: Vec<u8>,
        has_ended: bool,
    },
    Here(Here),
    Beside(Beside),
}

impl SftpEndpoint {
    /// A server that keeps what the client sends until it [begins](Self::begin).
    pub(super) fn later() -> Self {
        Self {
            way: Way::Later {
                data: Vec::new(),
                has_ended: false,
            },
            status: 0,
            unused: 0,
        }
    }

    /// Becomes the server that the arguments of `internal-sftp` ask for, and takes what has come.
    ///
    /// # Errors
    /// What to say to the client: the arguments are bad, or SftpRoot cannot be used.
    pub(super) fn begin(&mut self, files: &Files, context: &Context<'_>) -> Result<(), String> {
        let way = Self::way(&files.arguments, files.is_forced, context)?;
        if let Way::Later { data, has_ended } = std::mem::replace(&mut self.way, way) {
            if !data.is_empty() {
                self.receive(Stream::Data, Bytes::from(data));
            }
            if has_ended {
                self.end();
            }
        }
        Ok(())
    }

    fn way(arguments: &[String], is_forced: bool, context: &Context<'_>) -> Result<Way, String> {
        let options = match Options::parse(arguments) {
            Ok(Wanted::Serve(options)) => *options,
            Ok(Wanted::ListRequests | Wanted::Usage) => {
                return Err("internal-sftp: -h and -Q are for the command line".to_owned());
            }
            Err(error) => return Err(format!("internal-sftp: {error}")),
        };
        let log = Lines {
            logger: context.lasting_log,
            level: options.level,
        };
        if let Some(mask) = options.umask {
            context.set_umask(mask);
        }
        // Asked before the wall stands: behind it nothing can be known.
        let all_local = mounts::are_all_local();
        let grant = &context.grant;
        let permits = options.permits();
        let lines = Box::new(log.clone());
        let make: Make = match context.options.sftp_root.as_deref() {
            Some(template) => {
                let place = confine(template, &options, context)?;
                let mut serve = Serve::new(place, permits, serve::max_handles(), lines);
                serve.learn_own_names();
                // Threads that are started from here on stand behind it too.
                wall(&serve, is_forced, options.read_only, context)?;
                Box::new(move || Ok(serve))
            }
            None => {
                let start = options.start(&grant.user, &grant.home);
                // In a changed root homes are seldom there; OpenSSH is silent about them.
                let is_home = start == grant.home && grant.chroot.is_some();
                let level = if is_home { Level::Debug1 } else { Level::Error };
                Box::new(move || {
                    let place = begin(&start, level, &*lines)?;
                    Ok(Serve::new(place, permits, serve::max_handles(), lines))
                })
            }
        };
        let session = format!(
            "for local user {} from [{}]",
            grant.user, grant.remote_address
        );
        log.line(Level::Info, &format!("session opened {session}"));
        Ok(if all_local {
            Way::Here(Here::new(make()?, log, session))
        } else {
            let started = Desk::new().and_then(|desk| {
                let desk = Arc::new(desk);
                worker::start(make, Arc::clone(&desk), log, session)?;
                Ok(desk)
            });
            let desk = started.map_err(|error| format!("internal-sftp: no thread: {error}"))?;
            Way::Beside(Beside::new(desk))
        })
    }

    /// Where it meets the thread that works with files, if one does.
    pub(super) fn desk(&self) -> Option<&Arc<Desk>> {
        match &self.way {
            Way::Later { .. } | Way::Here(_) => None,
            Way::Beside(beside) => Some(beside.desk()),
        }
    }

    /// How it ended: an exit status.
    pub(super) fn status(&self) -> u8 {
        self.status
    }

    /// The client has closed the channel: what it asked for is done, and nothing answered.
    pub(super) fn desert(&mut self) {
        match &mut self.way {
            Way::Later { .. } => {}
            Way::Here(here) => here.desert(),
            Way::Beside(beside) => beside.desert(),
        }
    }
}

/// Where relative paths begin; the root where there is no such directory, as for a shell.
fn begin(start: &str, level: Level, log: &dyn Log) -> Result<Place, String> {
    Place::everywhere(start.as_bytes()).or_else(|error| {
        log.line(level, &format!("chdir to \"{start}\" failed: {error}"));
        Place::everywhere(b"/").map_err(|error| format!("internal-sftp: /: {error}"))
    })
}

/// A place that is not left: SftpRoot.
fn confine(template: &str, options: &Options, context: &Context<'_>) -> Result<Place, String> {
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
    // The home, where it is within the root; else the root.
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
    // Who could rename a directory above the root, or lay a link, could choose another root. A
    // server of an ordinary user has nobody to keep out but others than that user and root.
    let owner = if grant.change_user { 0 } else { grant.uid };
    sys::file::secure_root(Path::new(&root), owner).map_err(|why| {
        failed(format!(
            "bad ownership or modes for directory \"{root}\": {why}"
        ))
    })?;
    Place::confined(root.as_bytes(), start.as_bytes())
        .map_err(|error| failed(format!("{root}: {error}")))
}

/// The second wall: where nothing else can be started on this connection, the kernel forbids
/// every file outside.
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

/// What a wall that is not whole lacks, for the log.
fn lacks(wall: Wall) -> Option<&'static str> {
    match wall {
        Wall::Whole => None,
        Wall::Partial => Some(
            "SftpRoot: the kernel's Landlock is too old to forbid everything that is asked of it; \
             for the rest openat2 alone confines",
        ),
        Wall::None => Some("SftpRoot: the kernel has no Landlock; openat2 alone confines"),
    }
}

/// The words of a command, with quotes and backslashes as a shell reads them.
pub(super) fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = command.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, letter) if letter.is_ascii_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

impl Endpoint for SftpEndpoint {
    fn receive(&mut self, stream: Stream, data: Bytes) {
        match (&mut self.way, stream) {
            (Way::Later { data: kept, .. }, Stream::Data) => kept.extend_from_slice(&data),
            (Way::Here(here), Stream::Data) => self.unused += here.receive(data),
            (Way::Beside(beside), Stream::Data) => beside.receive(data),
            // Extended data mean nothing to a server of files.
            (_, Stream::Stderr) => self.unused += data.len(),
        }
    }

    fn end(&mut self) {
        match &mut self.way {
            Way::Later { has_ended, .. } => *has_ended = true,
            Way::Here(here) => here.end(),
            Way::Beside(beside) => beside.end(),
        }
    }

    fn work(&mut self, line: &mut Line<'_>) -> Result<Progress, Error> {
        line.consumed(std::mem::take(&mut self.unused))?;
        let (progress, status) = match &mut self.way {
            Way::Later { .. } => return Ok(Progress::Waiting),
            Way::Here(here) => here.work(line)?,
            Way::Beside(beside) => beside.work(line)?,
        };
        self.status = status.unwrap_or(self.status);
        Ok(progress)
    }
}

/// Lines for the administrator, by way of the monitor.
#[derive(Clone)]
struct Lines {
    logger: Logger<'static>,
    level: Level,
}

impl Log for Lines {
    fn wants(&self, level: Level) -> bool {
        level <= self.level
    }

    fn line(&self, level: Level, text: &str) {
        if self.wants(level) {
            let level = match level {
                Level::Quiet | Level::Fatal | Level::Error => LogLevel::Error,
                Level::Info => LogLevel::Info,
                Level::Verbose => LogLevel::Verbose,
                Level::Debug1 => LogLevel::Debug1,
                Level::Debug2 => LogLevel::Debug2,
                Level::Debug3 => LogLevel::Debug3,
            };
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

    #[test]
    fn a_command_is_cut_into_words_as_a_shell_cuts_it() {
        for (command, expected) in [
            ("internal-sftp", &["internal-sftp"][..]),
            (" a  -l\tINFO ", &["a", "-l", "INFO"]),
            (
                r#"a -d "x y" 'p "q' z\ w"#,
                &["a", "-d", "x y", "p \"q", "z w"],
            ),
            (r#"a "" b"#, &["a", "", "b"]),
            (r#"a "b\"c"#, &["a", "b\"c"]),
        ] {
            assert_eq!(words(command), expected);
        }
    }
}
