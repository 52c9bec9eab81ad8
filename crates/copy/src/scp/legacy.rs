//! The old protocol (`-O`): we start `scp` at the other side, or were started by it.

use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use transfer::connect::{Watched, settle, spawn};
use transfer::scp::{Conversation, OldError, Patterns, Terms};

use super::operand::os;
use super::options::{LegacyRole, ScpOptions};
use super::{Fatal, STATUS_FAILED, role_flag};
use crate::console::Show;
use crate::{Console, RemoteHost};

/// Bytes read ahead.
const BUFFER_BYTES: usize = 256 << 10;
/// How long the connection may take to end when there is nothing more to say.
const PATIENCE: Duration = Duration::from_secs(5);

fn terms(options: &ScpOptions, is_remote: bool) -> Terms {
    Terms {
        preserve: options.copy.preserve,
        recursive: options.copy.recursive,
        target_is_directory: options.target_is_directory,
        is_remote,
        patterns: None,
        limit_bytes: options.copy.limit_bytes,
    }
}

/// `-f` and `-t`: the other side talks to us over our standard streams.
pub(super) fn serve(options: &ScpOptions, role: LegacyRole) -> i32 {
    let mut console = Console::new("scp: ", Show::Nothing, false);
    let streams = sys::io::dup(sys::io::stdin()).and_then(|input| {
        Ok((
            File::from(input),
            File::from(sys::io::dup(sys::io::stdout())?),
        ))
    });
    let Ok((input, mut output)) = streams else {
        return STATUS_FAILED;
    };
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let mut talk = Conversation::new(&mut input, &mut output, terms(options, true), &mut console);
    let paths: Vec<&Path> = options.operands.iter().map(Path::new).collect();
    let result = match (role, paths.as_slice()) {
        (LegacyRole::Source, paths) => talk.begin_sending().and_then(|_| talk.send(paths)),
        (LegacyRole::Sink, [target]) => talk.receive(target),
        (LegacyRole::Sink, _) => Err(OldError::Protocol("ambiguous target".to_owned())),
    };
    match result {
        Ok(()) if talk.failures() == 0 => 0,
        _ => STATUS_FAILED,
    }
}

/// The command for the other side.
fn command_line(options: &ScpOptions, role: LegacyRole, directory: bool, path: &[u8]) -> OsString {
    let mut words = OsString::from("scp");
    for (given, flag) in [
        (options.way.verbose > 0, " -v"),
        (options.copy.recursive, " -r"),
        (options.copy.preserve, " -p"),
        (directory, " -d"),
    ] {
        if given {
            words.push(flag);
        }
    }
    words.push(" ");
    words.push(role_flag(role));
    words.push(" ");
    if path.first() == Some(&b'-') {
        words.push("-- ");
    }
    words.push(os(path));
    words
}

/// Starts the other side and talks to it.
fn talk(
    options: &ScpOptions,
    console: &mut Console,
    (server, words): (&RemoteHost, &OsString),
    terms: Terms,
    go: impl FnOnce(&mut Conversation<'_>) -> Result<(), OldError>,
) -> Result<(), Fatal> {
    let mut command = options
        .way
        .command(server, false, words)
        .map_err(Fatal::new)?;
    let (mut child, input, output) =
        spawn(&mut command).map_err(|error| Fatal::new(transfer::text::reason(&error)))?;
    let ends = Watched::new(output).and_then(|output| Ok((output, Watched::new(input)?)));
    let (output, mut sent) = ends.map_err(|error| Fatal::new(transfer::text::reason(&error)))?;
    let mut received = BufReader::with_capacity(BUFFER_BYTES, output);
    let mut conversation = Conversation::new(&mut received, &mut sent, terms, console);
    let result = go(&mut conversation);
    let failures = conversation.failures();
    drop(sent);
    drop(received);
    let patience = match result {
        Err(OldError::Interrupted) => Some(Duration::ZERO),
        Err(_) => Some(PATIENCE),
        Ok(()) => None,
    };
    let status = settle(&mut child, patience);
    match result {
        Ok(()) if failures == 0 => match status {
            Some(status) if status.success() => Ok(()),
            _ if sys::signals::noted() => Err(Fatal::new(OldError::Interrupted.to_string())),
            _ => Err(Fatal::new("the other side's scp failed")),
        },
        // It was said; the exit status says it, too.
        Ok(()) | Err(OldError::Over) => Err(Fatal::new("")),
        Err(error) => Err(Fatal::new(error.to_string())),
    }
}

/// Sends local files.
pub(super) fn put(
    options: &ScpOptions,
    console: &mut Console,
    sources: &[&OsString],
    (server, path): (&RemoteHost, &[u8]),
    into_directory: bool,
) -> Result<(), Fatal> {
    let words = command_line(options, LegacyRole::Sink, into_directory, path);
    let paths: Vec<&Path> = sources.iter().map(Path::new).collect();
    talk(
        options,
        console,
        (server, &words),
        terms(options, false),
        |talk| match talk.begin_sending()? {
            true => talk.send(&paths),
            false => Ok(()),
        },
    )
}

/// Receives what a path comes to there.
pub(super) fn get(
    options: &ScpOptions,
    console: &mut Console,
    (server, path): (&RemoteHost, &[u8]),
    target: &Path,
) -> Result<(), Fatal> {
    let words = command_line(options, LegacyRole::Source, false, path);
    let mut terms = terms(options, false);
    if !options.unchecked_names {
        terms.patterns = Some(Patterns::of(path, options.copy.recursive));
    }
    talk(options, console, (server, &words), terms, |talk| {
        talk.receive(target)
    })
}

/// Lets two servers talk to each other through us. Neither end is ours, so what the source sends
/// is judged by the other server's `scp` alone.
pub(super) fn between(
    options: &ScpOptions,
    (from, source): (&RemoteHost, &[u8]),
    (to, target): (&RemoteHost, &[u8]),
    into_directory: bool,
) -> Result<(), Fatal> {
    let failed = |error: std::io::Error| Fatal::new(transfer::text::reason(&error));
    let words = command_line(options, LegacyRole::Source, false, source);
    let mut command = options
        .way
        .command(from, false, &words)
        .map_err(Fatal::new)?;
    let words = command_line(options, LegacyRole::Sink, into_directory, target);
    let mut other = options.way.command(to, false, &words).map_err(Fatal::new)?;
    let (mut sender, input, output) = spawn(&mut command).map_err(failed)?;
    let receiver = other.stdin(output).stdout(input).spawn();
    // Drops the command's copies of the pipes: each side sees the other's end of file only when no
    // other process has the pipe open.
    other.stdin(Stdio::null()).stdout(Stdio::null());
    let received = match receiver {
        Ok(mut receiver) => Ok(settle(&mut receiver, None)),
        Err(error) => Err(failed(error)),
    };
    let sent = settle(&mut sender, received.is_err().then_some(PATIENCE));
    if sys::signals::noted() {
        return Err(Fatal::new(OldError::Interrupted.to_string()));
    }
    let good = [received?, sent];
    if good
        .iter()
        .all(|status| status.is_some_and(|status| status.success()))
    {
        return Ok(());
    }
    let name = transfer::text::name;
    Err(Fatal::new(format!(
        "{}:{}: the copy to {}:{} failed",
        transfer::text::one_line(&from.host),
        name(source),
        transfer::text::one_line(&to.host),
        name(target)
    )))
}

/// One source failed: the others still follow, and the exit status says that one failed.
///
/// # Errors
/// The same failure if a signal ends the program.
pub(super) fn go_on(console: &mut Console, fatal: Fatal) -> Result<(), Fatal> {
    if sys::signals::noted() {
        return Err(fatal);
    }
    match fatal.line.is_empty() {
        true => console.count_failure(),
        false => console.error(&fatal.line),
    }
    Ok(())
}
