//! `scp`: copies files from and to servers, over SFTP or (`-O`) by the old protocol.

mod down;
mod legacy;
pub(crate) mod operand;
mod options;
mod remote_to_remote;
mod up;
mod verify;

pub use options::USAGE;

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use sys::signals::Signal;
use transfer::glob::{self, Match};
use transfer::plan::base_name;
use transfer::remote::RemoteError;
use transfer::text;

use crate::host_copy::{HostCopy, HostCopyWay};
use crate::{AnyRemote, BadLine, Console, CopyLinks, RemoteHost};
use operand::Operand;
use options::{LegacyRole, ScpOptions};

/// Exit status when anything failed, and when the connection did or a flag has a bad value.
const STATUS_FAILED: i32 = 1;
const STATUS_FATAL: i32 = 255;

/// Why the program ends at once.
#[derive(Debug)]
struct Fatal {
    line: String,
    status: i32,
}

impl Fatal {
    fn new(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            status: STATUS_FAILED,
        }
    }

    fn connection(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            status: STATUS_FATAL,
        }
    }
}

/// Runs the program on its arguments, without its own name; gives its exit status.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    let _ = sys::signals::ignore(Signal::PIPE);
    let options = match ScpOptions::parse(args) {
        Ok(options) => options,
        Err(BadLine::Value(why)) => {
            eprintln!("scp: {why}");
            return STATUS_FATAL;
        }
        Err(BadLine::Usage(why)) => {
            if !why.is_empty() {
                eprintln!("scp: {why}");
            }
            eprint!("{}", options::USAGE);
            return STATUS_FAILED;
        }
    };
    if let Some(role) = options.role {
        return legacy::serve(&options, role);
    }
    if options.operands.len() < 2 {
        eprint!("{}", options::USAGE);
        return STATUS_FAILED;
    }
    // A closed descriptor 0, 1 or 2 would be taken by a connection's socket.
    if sys::io::ensure_stdio().is_err() {
        return STATUS_FATAL;
    }
    crate::note_signals();
    let show = Console::for_output(!options.way.quiet);
    let mut console = Console::new("scp: ", show, options.json);
    console.limit_to(options.copy.limit_bytes);
    if options.copy.verify {
        console.remember();
    }
    let status = match perform(&options, &mut console) {
        Ok(()) if console.failed() == 0 => 0,
        Ok(()) => STATUS_FAILED,
        Err(fatal) => {
            if !fatal.line.is_empty() {
                console.last_error(&fatal.line);
            }
            fatal.status
        }
    };
    console.finish();
    status
}

fn perform(options: &ScpOptions, console: &mut Console) -> Result<(), Fatal> {
    let places: Result<Vec<Operand>, String> = options
        .operands
        .iter()
        .map(|word| Operand::parse(word))
        .collect();
    let mut places = places.map_err(Fatal::new)?;
    if let Some(flag) = options.not_with_old_protocol() {
        return Err(Fatal::new(format!(
            "{flag} needs SFTP, and -O selects the old protocol: leave one of them out"
        )));
    }
    let target = places.pop().unwrap_or(Operand::Local(".".into()));
    let into_directory = options.target_is_directory || places.len() > 1;
    match target {
        Operand::Remote { server, path } => {
            up::perform(options, console, &places, (&server, &path), into_directory)
        }
        Operand::Local(target) => {
            let target = Path::new(&target);
            if into_directory {
                must_be_directory(target)?;
            }
            down::perform(options, console, &places, target)
        }
    }
}

/// Copies to or from one of many hosts. If the copy ended at once, returns the line about why, empty
/// where it has been said, and whether the connection is the cause.
pub(crate) fn copy_of_host(copy: HostCopy, console: &mut Console) -> Option<(String, bool)> {
    let server = copy.remote();
    let mut options = ScpOptions {
        connections: 1,
        ..ScpOptions::default()
    };
    options.copy.follow_links = true;
    options.copy.recursive = copy.recursive;
    options.copy.preserve = copy.preserve;
    options.way.host = Some(copy.link());
    options.way.pass_all(copy.flags.clone());
    let is_several = copy.sources.len() > 1;
    let done = match copy.way {
        HostCopyWay::Put => {
            let sources: Vec<Operand> = copy.sources.iter().cloned().map(Operand::Local).collect();
            let target = match copy.target.as_encoded_bytes() {
                b"" => b".",
                target => target,
            };
            up::perform(&options, console, &sources, (&server, target), is_several)
        }
        HostCopyWay::Get => {
            let remote = |path: &OsString| Operand::Remote {
                server: server.clone(),
                path: path.as_encoded_bytes().to_vec(),
            };
            let sources: Vec<Operand> = copy.sources.iter().map(remote).collect();
            down::perform(&options, console, &sources, copy.local_target())
        }
    };
    done.err().map(|fatal| {
        let is_connection = fatal.status == STATUS_FATAL && !fatal.line.is_empty();
        (fatal.line, is_connection)
    })
}

fn must_be_directory(path: &Path) -> Result<(), Fatal> {
    let shown = transfer::plan::shown(path);
    match std::fs::metadata(path) {
        Ok(there) if there.is_dir() => Ok(()),
        Ok(_) => Err(Fatal::new(format!("{shown}: Not a directory"))),
        Err(error) => Err(Fatal::new(format!("{shown}: {}", text::reason(&error)))),
    }
}

/// Connects; a failure ends the program, as the way has said why.
fn connect(options: &ScpOptions, server: &RemoteHost) -> Result<AnyRemote, Fatal> {
    let mut remote = options
        .way
        .connect(server, options.connections)
        .map_err(Fatal::connection)?;
    if options.copy.preserve {
        remote
            .ask_exact_times()
            .map_err(|error| Fatal::connection(error.to_string()))?;
    }
    Ok(remote)
}

/// Ends a connection.
fn hang_up(mut remote: AnyRemote) {
    crate::connector::finish(&mut remote, CopyLinks::finish);
}

/// Replaces the `~` of a pattern by the server's path of the home, escaped, because a home is not a
/// pattern; the rest of the pattern is unchanged.
fn prepared_pattern(remote: &mut AnyRemote, pattern: &[u8]) -> Result<Vec<u8>, Fatal> {
    let end = pattern.iter().position(|byte| *byte == b'/');
    let (user, rest) = pattern.split_at(end.unwrap_or(pattern.len()));
    if !matches!(user, [b'~', _, ..]) {
        return prepared(remote, pattern);
    }
    let home = prepared(remote, user)?;
    Ok(below_home(&home, rest))
}

/// What a file that was found is called here: what was asked for, where only the server knows what
/// that is called.
fn local_name<'n>(asked: &'n [u8], found: &'n [u8]) -> &'n [u8] {
    let end = asked.iter().rposition(|byte| *byte != b'/');
    match asked.get(..end.map_or(0, |end| end + 1)) {
        Some([b'~', user @ ..]) if !user.is_empty() && !user.contains(&b'/') => user,
        _ => base_name(found),
    }
}

fn below_home(home: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut pattern = glob::escaped(home);
    pattern.extend_from_slice(rest);
    pattern
}

/// The server's form of a path with `~`.
fn prepared(remote: &mut AnyRemote, path: &[u8]) -> Result<Vec<u8>, Fatal> {
    let home = match path {
        b"" | b"~" => return Ok(b".".to_vec()),
        [b'~', b'/', rest @ ..] => rest,
        [b'~', ..] => {
            return match remote.expand(path) {
                Ok(path) => Ok(path),
                Err(RemoteError::Unsupported(_)) => Err(Fatal::connection(
                    "server expand-path extension is required for ~user paths in SFTP mode",
                )),
                // The connection, which may not have come about: that is nothing of the path's.
                Err(RemoteError::Engine(error)) => Err(lost(&error)),
                Err(error) => Err(Fatal::connection(format!("{}: {error}", text::name(path)))),
            };
        }
        _ => return Ok(path.to_vec()),
    };
    let begin = home.iter().position(|byte| *byte != b'/');
    Ok(begin
        .and_then(|begin| home.get(begin..))
        .unwrap_or(b".")
        .to_vec())
}

/// What a source's pattern comes to: where nothing fits it, what is there by that very name.
fn found(
    remote: &mut AnyRemote,
    console: &mut Console,
    pattern: &[u8],
) -> Result<Vec<Match>, Fatal> {
    let mut suspects = Vec::new();
    let mut expand = |pattern: &[u8]| {
        glob::expand(remote, pattern, &mut |name| suspects.push(text::name(name)))
            .map_err(|error| lost(&error))
    };
    let mut found = expand(pattern)?;
    if found.is_empty() && glob::is_pattern(pattern) {
        found = expand(&glob::escaped(&glob::unescaped(pattern)))?;
    }
    for name in suspects {
        console.error(&format!(
            "Server sent suspect path \"{name}\" during readdir"
        ));
    }
    Ok(found)
}

fn lost(error: &transfer::engine::EngineError) -> Fatal {
    Fatal::connection(error.to_string())
}

/// Local to local: `cp` does it.
fn copy_here(options: &ScpOptions, from: &OsString, to: &Path, console: &mut Console) {
    let mut command = Command::new("cp");
    if options.copy.recursive {
        command.arg("-r");
    }
    if options.copy.preserve {
        command.arg("-p");
    }
    command.arg("--").arg(from).arg(to);
    match status_of(&mut command) {
        Ok(true) => {}
        // cp has said why.
        Ok(false) => console.count_failure(),
        Err(error) => console.error(&format!("cp: {}", text::reason(&error))),
    }
}

/// Runs a program to its end, or until a signal ends ours; whether it succeeded.
fn status_of(command: &mut Command) -> std::io::Result<bool> {
    let mut child = command.spawn()?;
    let status = transfer::connect::settle(&mut child, None);
    Ok(status.is_some_and(|status| status.success()))
}

/// The role's own name on a command line of the old protocol.
fn role_flag(role: LegacyRole) -> &'static str {
    match role {
        LegacyRole::Source => "-f",
        LegacyRole::Sink => "-t",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_server_does_not_choose_what_a_home_is_called_here() {
        let name = super::local_name;
        for asked in [b"~bob".as_slice(), b"~bob/", b"~bob//"] {
            assert_eq!(name(asked, b"/home/.ssh"), b"bob");
        }
        assert_eq!(name(b"~..", b"/home/x"), b"..");
        assert_eq!(name(b"~bob/*", b"/home/bob/x"), b"x");
        assert_eq!(name(b"~", b"."), b".");
        assert_eq!(name(b"a/b", b"a/b"), b"b");
    }

    #[test]
    fn a_home_is_no_pattern() {
        assert_eq!(super::below_home(b"/h/*", b"/a*"), b"/h/\\*/a*");
        assert_eq!(super::below_home(b"/h/*", b""), b"/h/\\*");
    }
}
