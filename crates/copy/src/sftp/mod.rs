//! `sftp`: files of a server by commands, typed or from a batch file.

mod command;
mod files;
mod line;
mod listing;
mod options;
mod perform;
mod words;

pub use options::USAGE;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;

use sys::signals::Signal;
use transfer::remote::RemoteError;

use crate::scp::operand::{self, Operand};
use crate::{BadLine, Connector, Console, RemoteHost};
use command::SftpCommand;
use line::Typed;
use options::SftpOptions;
use perform::{CommandFailure, Sftp};

/// Exit status when a command of a batch failed, and when the connection did, a flag has a bad value
/// or there is no batch file.
const STATUS_FAILED: i32 = 1;
const STATUS_FATAL: i32 = 255;

/// Longest line of a batch file, bytes.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Runs the program on its arguments, without its own name; gives its exit status.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    let _ = sys::signals::ignore(Signal::PIPE);
    let options = match SftpOptions::parse(args) {
        Ok(options) => options,
        Err(BadLine::Value(why)) => {
            eprintln!("{why}");
            return STATUS_FATAL;
        }
        Err(BadLine::Usage(why)) => {
            if !why.is_empty() {
                eprintln!("{why}");
            }
            eprint!("{}", options::USAGE);
            return STATUS_FAILED;
        }
    };
    // A closed descriptor 0, 1 or 2 would be taken by a connection's socket.
    if sys::io::ensure_stdio().is_err() {
        return STATUS_FATAL;
    }
    crate::note_signals();
    match perform(&options) {
        Ok(status) => status,
        Err((line, status)) => {
            eprintln!("{line}");
            status
        }
    }
}

/// Where to, and which file or directory there.
fn destination(options: &SftpOptions) -> Result<(RemoteHost, Option<Vec<u8>>), String> {
    let Some(word) = options.operands.first() else {
        return match options.way.direct {
            Some(_) => Ok((RemoteHost::default(), None)),
            None => Err(String::new()),
        };
    };
    if options.way.direct.is_some() {
        return Ok((RemoteHost::default(), Some(word.as_bytes().to_vec())));
    }
    // A path there, and one here.
    if options.operands.len() > 2 {
        return Err(String::new());
    }
    if let Some(parsed) = operand::uri(word, &["sftp://"]) {
        let (server, path) = parsed?;
        return Ok((server, Some(path).filter(|path| path != b".")));
    }
    match Operand::parse(word)? {
        Operand::Remote { server, path } => {
            let named = !word.as_bytes().ends_with(b":");
            Ok((server, Some(path).filter(|_| named)))
        }
        // No colon: all of it is the host.
        Operand::Local(_) => {
            let mut with_colon = word.clone();
            with_colon.push(":");
            match Operand::parse(&with_colon)? {
                Operand::Remote { server, .. } => Ok((server, None)),
                Operand::Local(_) => Err(format!(
                    "{}: no host",
                    transfer::text::name(word.as_bytes())
                )),
            }
        }
    }
}

/// The lines to carry out.
enum CommandLines {
    Batch(Box<dyn BufRead>),
    Typed(Box<Typed>),
}

fn perform(options: &SftpOptions) -> Result<i32, (String, i32)> {
    let failed = |line: String| (line, STATUS_FAILED);
    let (server, path) = destination(options).map_err(|why| match why.is_empty() {
        true => failed(options::USAGE.trim_end().to_owned()),
        false => failed(why),
    })?;
    let interactive = options.batch.is_none() && std::io::stdin().is_terminal();
    let lines = match &options.batch {
        Some(name) if name != "-" => {
            let file = File::open(name).map_err(|error| {
                let shown = transfer::text::name(name.as_bytes());
                let line = format!("{} ({shown}).", transfer::text::reason(&error));
                (line, STATUS_FATAL)
            })?;
            CommandLines::Batch(Box::new(BufReader::new(file)))
        }
        _ if interactive => CommandLines::Typed(Box::default()),
        _ => CommandLines::Batch(Box::new(BufReader::new(std::io::stdin()))),
    };
    let batch = options.batch.is_some();
    let quiet = (options.way.quiet || batch) && !options.not_quiet;
    let way = Connector {
        interactive,
        ..options.way.clone()
    };
    let mut remote = way.connect(&server, 1).map_err(|why| (why, STATUS_FATAL))?;
    // The first question leaves with the greeting, where the server takes it.
    let start = match remote.realpath(b".") {
        Err(RemoteError::Engine(error)) => Err(error),
        start => remote.meet().map(|()| start),
    }
    .map_err(|error| (error.to_string(), STATUS_FATAL))?;
    if interactive {
        sys::signals::count_interrupts().map_err(|error| failed(error.to_string()))?;
    }
    if !quiet {
        match &options.way.direct {
            Some(direct) => eprintln!("Attached to {}.", direct.to_string_lossy()),
            None => eprintln!("Connected to {}.", transfer::text::one_line(&server.host)),
        }
    }
    let progress = !quiet && !batch;
    let mut console = Console::new("", Console::for_output(progress), false);
    console.limit_to(options.copy.limit_bytes);
    let start = start.map_err(|error| (format!("Need cwd: {error}"), STATUS_FATAL))?;
    let mut sftp = Sftp::new(remote, start, options, console, quiet, progress);
    let result = match path {
        Some(path) => begin_at(&mut sftp, options, &path),
        None => Ok(true),
    };
    let result = match result {
        Ok(true) => carry_out(&mut sftp, lines, batch),
        Ok(false) => Ok(0),
        Err(failure) => Err(failure),
    };
    match result {
        Ok(status) => {
            sftp.hang_up();
            Ok(status)
        }
        Err(CommandFailure::Said) => Ok(STATUS_FAILED),
        Err(CommandFailure::Line(line)) => Err((line, STATUS_FAILED)),
        Err(CommandFailure::Lost(line)) => Err((line, STATUS_FATAL)),
    }
}

/// Handles a path after the host: changes to a directory, where no local path follows; fetches what
/// the path comes to and ends.
fn begin_at(sftp: &mut Sftp, options: &SftpOptions, path: &[u8]) -> Result<bool, CommandFailure> {
    let to = options.operands.get(1).map(|word| word.as_bytes().to_vec());
    if to.is_none() && sftp.goes_to(path)? {
        return Ok(true);
    }
    let from = sftp.source(path)?;
    sftp.perform(SftpCommand::Get(options.flags, from, to))?;
    Ok(false)
}

fn read_line(lines: &mut dyn BufRead) -> std::io::Result<Option<Vec<u8>>> {
    use std::io::Read;
    let mut line = Vec::new();
    let max = u64::try_from(MAX_LINE_BYTES).unwrap_or(u64::MAX);
    if lines.take(max + 1).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() > MAX_LINE_BYTES {
        return Err(std::io::Error::other(format!(
            "a line is longer than {MAX_LINE_BYTES} bytes"
        )));
    }
    // A backslash does not escape the end of a line.
    line.pop_if(|last| *last == b'\n');
    Ok(Some(line))
}

/// Parses the prefixes of a command: returns the command, whether its failure counts, and whether it
/// is shown.
fn prefixes(mut line: &[u8]) -> (&[u8], bool, bool) {
    let (mut counts, mut shows) = (true, true);
    loop {
        line = line.trim_ascii_start();
        match line.split_first() {
            Some((b'-', rest)) => (line, counts) = (rest, false),
            Some((b'@', rest)) => (line, shows) = (rest, false),
            _ => return (line, counts, shows),
        }
    }
}

fn carry_out(sftp: &mut Sftp, mut lines: CommandLines, batch: bool) -> Result<i32, CommandFailure> {
    loop {
        let line = match &mut lines {
            CommandLines::Typed(typed) => typed.read(sftp),
            CommandLines::Batch(lines) => {
                read_line(lines).map_err(|error| CommandFailure::Line(error.to_string()))?
            }
        };
        let Some(line) = line else {
            if matches!(lines, CommandLines::Typed(_)) {
                println!();
            }
            return Ok(0);
        };
        let (command, counts, shows) = prefixes(&line);
        if matches!(lines, CommandLines::Batch(_)) && shows {
            let shown = transfer::text::name(line.trim_ascii_end());
            println!("sftp> {shown}");
        }
        sys::signals::forget_interrupts();
        let result = match command::parse(command) {
            Ok(None) => continue,
            Ok(Some(SftpCommand::Bye)) => return Ok(0),
            Ok(Some(command)) => sftp.perform(command),
            Err(why) => Err(CommandFailure::Line(why)),
        };
        let _ = std::io::stdout().flush();
        match result {
            Err(CommandFailure::Lost(line)) => return Err(CommandFailure::Lost(line)),
            _ if sys::signals::interrupts() > 0 => eprintln!("\rInterrupt  "),
            Ok(()) => {}
            Err(failure) => {
                if let CommandFailure::Line(line) = failure {
                    eprintln!("{line}");
                }
                if batch && counts {
                    sftp.hang_up();
                    return Ok(STATUS_FAILED);
                }
            }
        }
    }
}

/// A path as the system takes it.
fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_before_a_command_says_what_its_failure_means() {
        assert_eq!(prefixes(b" - rm x"), (b"rm x".as_slice(), false, true));
        assert_eq!(prefixes(b"@-ls"), (b"ls".as_slice(), false, false));
        assert_eq!(prefixes(b"ls -l"), (b"ls -l".as_slice(), true, true));
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let long = vec![b'a'; MAX_LINE_BYTES + 5];
        assert!(read_line(&mut long.as_slice()).is_err());
        let mut two = b"a\nb".as_slice();
        assert_eq!(read_line(&mut two).unwrap().unwrap(), b"a");
        assert_eq!(read_line(&mut two).unwrap().unwrap(), b"b");
        assert_eq!(read_line(&mut two).unwrap(), None);
    }
}
