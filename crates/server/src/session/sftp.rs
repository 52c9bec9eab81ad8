//! internal-sftp: the file server of `transfer` as the endpoint of a channel, in this process.

use std::path::Path;

use bytes::Bytes;
use config::tokens::{Purpose, Tokens};
use driver::{Endpoint, Line, Progress};
use packet::PacketBuf;
use privsep::LogLevel;
use proto::{Error, Stream};
use sys::fs::Place;
use sys::sandbox::files::{self, Wall};
use transfer::serve::{self, Buffers, Level, Log, Options, Serve, Wanted, Work};

use super::context::Context;
use crate::log::Logger;

/// Exit status of a server that could not serve, as OpenSSH's.
const STATUS_FAILED: u8 = 255;

/// A server at work on a channel.
pub(super) struct SftpEndpoint {
    /// None when it is over.
    serve: Option<Serve>,
    /// What the administrator is told at the end.
    log: Lines,
    session: String,
    status: u8,
    /// Bytes that came for nobody.
    unused: usize,
    /// The client takes no answers any more.
    is_deserted: bool,
}

impl SftpEndpoint {
    /// Makes the server that `arguments` (behind `internal-sftp`) ask for; gives what to say to
    /// the client otherwise.
    pub(super) fn start(
        arguments: &[String],
        is_forced: bool,
        context: &Context<'_>,
    ) -> Result<Self, String> {
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
        let grant = &context.grant;
        let confined = context.options.sftp_root.as_deref();
        let place = match confined {
            Some(template) => confine(template, &options, context)?,
            None => begin(&options.start(&grant.user, &grant.home), &log)?,
        };
        let mut serve = Serve::new(
            place,
            options.permits(),
            serve::max_handles(),
            Box::new(log.clone()),
        );
        if confined.is_some() {
            serve.learn_own_names();
            wall(&serve, is_forced, options.read_only, context)?;
        }
        let session = format!(
            "for local user {} from [{}]",
            grant.user, grant.remote_address
        );
        log.line(Level::Info, &format!("session opened {session}"));
        Ok(Self {
            serve: Some(serve),
            log,
            session,
            status: 0,
            unused: 0,
            is_deserted: false,
        })
    }

    /// How it ended: an exit status.
    pub(super) fn status(&self) -> u8 {
        self.status
    }

    /// The client has closed the channel: what it asked for is done, and nothing answered.
    pub(super) fn desert(&mut self) {
        self.is_deserted = true;
    }

    /// The client has gone: what it left open is closed.
    fn finish(&mut self) {
        if self.serve.take().is_some() {
            let line = format!("session closed {}", self.session);
            self.log.line(Level::Info, &line);
        }
    }
}

impl Drop for SftpEndpoint {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Where relative paths begin; the root where there is no such directory, as for a shell.
fn begin(start: &str, log: &Lines) -> Result<Place, String> {
    Place::everywhere(start.as_bytes()).or_else(|error| {
        log.line(
            Level::Error,
            &format!("chdir to \"{start}\" failed: {error}"),
        );
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
        context
            .log
            .verbose("SftpRoot without ForceCommand internal-sftp: commands are not confined");
        return Ok(());
    }
    if context.is_walled.replace(true) {
        return Ok(());
    }
    match files::only_below(serve.place().directory(), read_only) {
        Ok(Wall::Whole | Wall::Partial) => Ok(()),
        Ok(Wall::None) => {
            context
                .log
                .info("SftpRoot: the kernel has no Landlock; openat2 alone confines");
            Ok(())
        }
        Err(error) => {
            context.log.error(&format!("SftpRoot: Landlock: {error}"));
            Err("internal-sftp: the server's SftpRoot cannot be used".to_owned())
        }
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
        match (&mut self.serve, stream) {
            (Some(serve), Stream::Data) => serve.receive(data),
            // Extended data mean nothing to a server of files.
            _ => self.unused += data.len(),
        }
    }

    fn end(&mut self) {
        if let Some(serve) = &mut self.serve {
            serve.end_input();
        }
    }

    fn work(&mut self, line: &mut Line<'_>) -> Result<Progress, Error> {
        line.consumed(std::mem::take(&mut self.unused))?;
        let Some(serve) = &mut self.serve else {
            return Ok(Progress::Ended);
        };
        loop {
            if self.is_deserted {
                serve.end_answers();
                while let Some(buf) = serve.outbox().next(usize::MAX, &mut Packets(line)) {
                    line.recycle(buf);
                }
            }
            // First what waits: a window that has opened makes room for answers.
            send(serve, line)?;
            let work = match serve.work(&mut Packets(line)) {
                Ok(work) => work,
                Err(error) => {
                    self.log.line(Level::Error, &error.to_string());
                    self.status = STATUS_FAILED;
                    self.finish();
                    return Ok(Progress::Ended);
                }
            };
            line.consumed(serve.take_consumed())?;
            if self.is_deserted {
                match work {
                    // A copy goes on slice by slice: other channels have their turn.
                    Work::Busy => return Ok(Progress::Busy),
                    Work::Waiting => continue,
                    Work::Ended => {}
                }
            }
            let waits = !serve.outbox().is_empty();
            let sent = send(serve, line)?;
            match work {
                Work::Ended => {
                    self.finish();
                    return Ok(Progress::Ended);
                }
                Work::Busy if sent => return Ok(Progress::Busy),
                // Answers had filled the room that requests need; they are gone.
                Work::Waiting if waits && sent => {}
                Work::Busy | Work::Waiting => return Ok(Progress::Waiting),
            }
        }
    }
}

/// Sends what the window takes; true when nothing is left.
fn send(serve: &mut Serve, line: &mut Line<'_>) -> Result<bool, Error> {
    while !serve.outbox().is_empty() {
        let space = line.space();
        if space == 0 {
            return Ok(false);
        }
        match serve.outbox().next(space, &mut Packets(line)) {
            Some(buf) => line.send(buf)?,
            None => return Ok(true),
        }
    }
    Ok(true)
}

/// Buffers of the connection.
struct Packets<'l, 'd>(&'l mut Line<'d>);

impl Buffers for Packets<'_, '_> {
    fn take(&mut self, capacity: usize) -> PacketBuf {
        self.0.take_buffer(capacity)
    }

    fn max_bytes(&self) -> usize {
        self.0.max_data()
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
