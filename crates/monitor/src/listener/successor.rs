//! An upgrade in place (SIGHUP): where another program has taken the path of the one that runs, the listener becomes that
//! one, as OpenSSH's does. It keeps its process id and its sockets; sessions, and logins in progress, keep the program that they
//! have begun with. What the listener alone knows begins anew: penalties, the places of MaxStartups that are taken, and the
//! metrics. A connection whose PROXY header has not come is closed.
//!
//! The new program must be Fulmar (`-V`), and first checks the configuration (`-t`). If it does not accept it, or cannot be
//! executed, the old one goes on.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use sys::process::{Child, ChildCommand, ExitStatus, SelfExe};
use sys::signals::Signal;

use super::sockets::Socket;

/// Environment variable for the new program: the process id, then for each socket `FD:INHERITED:RDOMAIN`, where INHERITED is
/// 1 for a socket of the service manager and RDOMAIN may be empty.
const SOCKETS: &str = "FULMAR_SSHD_SOCKETS";
/// The directory in which the server was started: relative paths of its command line are there.
const DIRECTORY: &str = "FULMAR_SSHD_DIRECTORY";
/// Longest check of the new program and of the configuration by it; no connection is accepted meanwhile.
const CHECK_LIMIT: Duration = Duration::from_secs(10);
/// What `sshd -V` of Fulmar begins with.
const VERSION_BEGIN: &str = "Fulmar_";
/// Most text of a failed check that is logged, bytes.
const MAX_SAID: usize = 4096;

/// What the program before this one, in the same process, has left.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) sockets: Vec<Socket>,
    pub(crate) directory: PathBuf,
}

impl Handover {
    /// `None` if this process was started as a server, and not by [`Successor::become_it`].
    ///
    /// # Errors
    /// If the variables name something else than open sockets.
    pub(crate) fn from_environment() -> io::Result<Option<Self>> {
        let Ok(text) = std::env::var(SOCKETS) else {
            return Ok(None);
        };
        let mut words = text.split(' ');
        // A child of such a server has the variable, too.
        if words.next() != Some(sys::process::pid().to_string().as_str()) {
            return Ok(None);
        }
        let sockets = words.map(socket_of).collect::<io::Result<Vec<_>>>()?;
        let directory = std::env::var_os(DIRECTORY).unwrap_or_else(|| "/".into());
        Ok(Some(Self {
            sockets,
            directory: directory.into(),
        }))
    }
}

fn socket_of(word: &str) -> io::Result<Socket> {
    let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("{SOCKETS}: {word}"));
    let mut fields = word.splitn(3, ':');
    let mut field = || fields.next().ok_or_else(bad);
    let (number, inherited, rdomain) = (field()?, field()?, field()?);
    let fd = sys::io::inherited(number.parse().map_err(|_| bad())?)?;
    Ok(Socket {
        address: sys::socket::local_address(&fd)?,
        rdomain: (!rdomain.is_empty()).then(|| rdomain.to_owned()),
        fd,
        inherited: inherited == "1",
    })
}

fn word_of(socket: &Socket) -> String {
    let rdomain = socket.rdomain.as_deref().unwrap_or_default();
    let number = socket.fd.as_raw_fd();
    format!("{number}:{}:{rdomain}", u8::from(socket.inherited))
}

/// Where this program was when it started, and how.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    program: PathBuf,
    /// The absolute path by which it was started, often a link, if that led to the program.
    name: Option<PathBuf>,
    /// All words of its command line, the name first.
    words: Vec<OsString>,
    directory: PathBuf,
}

impl Origin {
    /// Of this process; to be called before the directory is changed.
    ///
    /// # Errors
    /// If the system does not tell where the program is.
    pub(crate) fn of_this(directory: PathBuf) -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let words: Vec<OsString> = std::env::args_os().collect();
        let name = words.first().map(PathBuf::from);
        let leads_here = |name: &Path| {
            name.is_absolute() && std::fs::canonicalize(name).is_ok_and(|target| target == program)
        };
        Ok(Self {
            name: name.filter(|name| leads_here(name)),
            program,
            words,
            directory,
        })
    }

    /// The paths at which a new program may be. The name that this one was started by comes first: an
    /// installation in a directory of its own moves the link there, and leaves the old program. It does not
    /// count while it leads to a program that is called otherwise, such as OpenSSH's.
    fn places(&self) -> impl Iterator<Item = &Path> {
        let called = self.program.file_name();
        let is_ours = |name: &&Path| {
            std::fs::canonicalize(name).is_ok_and(|target| target.file_name() == called)
        };
        let name = self.name.as_deref().filter(is_ours);
        name.into_iter().chain([self.program.as_path()])
    }

    /// The program that has taken the path, if another one has; `running` is the one that runs.
    ///
    /// # Errors
    /// Why it cannot take this one's place: the words of its check, or the kernel's error.
    pub(crate) fn successor(&self, running: &SelfExe) -> io::Result<Option<Successor>> {
        for path in self.places() {
            let program = match SelfExe::at(path) {
                Ok(program) => program,
                // It is being replaced, or was removed: the old one goes on.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if program.is_same(running)? {
                continue;
            }
            self.check(&program)?;
            return Ok(Some(Successor {
                origin: self.clone(),
                path: path.to_owned(),
                program,
            }));
        }
        Ok(None)
    }

    /// Asks the new program whether it is Fulmar, and lets it check the configuration. Another program could accept every
    /// configuration, and serve nobody.
    fn check(&self, program: &SelfExe) -> io::Result<()> {
        let end = Instant::now() + CHECK_LIMIT;
        let version = self.ask(program, "-V", end)?;
        if !version.starts_with(VERSION_BEGIN) {
            let version = version.lines().next().unwrap_or_default();
            return Err(io::Error::other(format!(
                "it is not Fulmar: -V says {version:?}"
            )));
        }
        self.ask(program, "-t", end).map(drop)
    }

    /// Runs the new program with one more argument, until `end` at most; returns what it has said if it succeeds.
    fn ask(&self, program: &SelfExe, argument: &str, end: Instant) -> io::Result<String> {
        let (reader, writer) = sys::io::pipe()?;
        let mut command: ChildCommand = program.command()?;
        command
            .args(&self.words)
            .arg(argument)
            .inherit_env()
            // It may have been removed since.
            .current_dir_or_root(&self.directory)
            .without_stdio()
            .fd(writer, 2);
        let mut child = command.spawn().map_err(|error| match error.error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::other("cannot execute: it is a script, or its loader is missing")
            }
            _ => error.into(),
        })?;
        drop(command);
        let (status, said) = outcome_of(&mut child, &reader, end)?;
        let said = String::from_utf8_lossy(&said);
        if status.is_success() {
            return Ok(said.into_owned());
        }
        Err(io::Error::other(format!("{status}: {}", said.trim_end())))
    }
}

/// How the check ended and what it has said. It is killed at `end`.
fn outcome_of(
    child: &mut Child,
    pipe: &OwnedFd,
    end: Instant,
) -> io::Result<(ExitStatus, Vec<u8>)> {
    // A program that has closed the pipe may go on.
    let said = read_until(pipe, end).and_then(|said| wait_until(child.pidfd(), end).map(|()| said));
    if said.is_err() {
        let _ = child.signal(Signal::KILL);
    }
    let status = child.wait()?;
    Ok((status, said?))
}

/// Waits until there is something to read.
fn wait_until(fd: impl AsFd, end: Instant) -> io::Result<()> {
    let left = end.saturating_duration_since(Instant::now());
    match sys::io::wait_readable(fd, Some(left))? {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "its check of the configuration takes too long",
        )),
    }
}

/// All that comes from the pipe until its end, but what is too much.
fn read_until(pipe: &OwnedFd, end: Instant) -> io::Result<Vec<u8>> {
    let (mut all, mut bytes) = (Vec::new(), [0; 1024]);
    loop {
        wait_until(pipe, end)?;
        let count = sys::io::read(pipe, &mut bytes)?;
        if count == 0 {
            return Ok(all);
        }
        let taken = count.min(MAX_SAID - all.len());
        all.extend_from_slice(bytes.get(..taken).unwrap_or_default());
    }
}

/// A program that has accepted the configuration and is about to take this one's place.
#[derive(Debug)]
pub(crate) struct Successor {
    origin: Origin,
    path: PathBuf,
    program: SelfExe,
}

impl Successor {
    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Becomes the program. Returns only if that is impossible, with everything as it was. Blocked signals stay blocked, so
    /// that none is lost before the new program reads them.
    pub(crate) fn become_it(&self, sockets: &[Socket]) -> io::Error {
        let inherit = |yes: bool| -> io::Result<()> {
            for socket in sockets {
                sys::io::set_inheritable(&socket.fd, yes)?;
            }
            Ok(())
        };
        if let Err(error) = inherit(true) {
            return error;
        }
        let mut words = vec![sys::process::pid().to_string()];
        words.extend(sockets.iter().map(word_of));
        let mut command = Command::new(self.program.path());
        if let Some((name, arguments)) = self.origin.words.split_first() {
            command.arg0(name).args(arguments);
        }
        command
            .env(SOCKETS, words.join(" "))
            .env(DIRECTORY, &self.origin.directory);
        let error = command.exec();
        // `exec` has set the default action, with which a client could end this process.
        let _ = sys::signals::ignore(Signal::PIPE);
        let _ = inherit(false);
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_closes_its_output_and_stays_is_ended() {
        let (reader, writer) = sys::io::pipe().unwrap();
        let mut command = ChildCommand::new("/bin/sh");
        command
            .args(["sh", "-c", "exec 2>&-; while :; do sleep 1; done"])
            .env("PATH", "/usr/bin:/bin")
            .without_stdio()
            .fd(writer, 2);
        let mut child = command.spawn().unwrap();
        drop(command);
        let end = Instant::now() + Duration::from_millis(300);
        let error = outcome_of(&mut child, &reader, end).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let killed = ExitStatus::Signaled {
            signal: Signal::KILL,
            core_dumped: false,
        };
        assert_eq!(child.wait().unwrap(), killed);
    }
}
