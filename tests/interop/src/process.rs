//! Foreign programs with a time limit, and servers that end with their guard.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crypto::hash::{HashAlgorithm, Hasher};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::scratch::{Scratch, is_listening, until};

/// Restores the default action of signals that a caller in the background ignores, for all programs
/// that are started later: programs inherit ignored signals, and some tests send one.
pub fn hear_signals() {
    use sys::signals::{Signal, restore_default};
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        restore_default(signal).expect("a signal's action");
    }
}

/// The program and the arguments of a command with spaces between them: what a shell splits into the same
/// words, if none of them has a character that it would act on.
#[must_use]
pub fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

/// As [`command_line`], with each word between single quotes.
#[must_use]
pub fn quoted_command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    words.join(" ")
}

/// Time limit of one command on a busy machine, so that a hang is a failure.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// Bytes of output that are stored for comparison; of the rest only length and digest are known.
const KEPT_OUTPUT: usize = 1 << 20;

/// One output of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// The first MiB of it.
    pub head: Vec<u8>,
    /// Length of all of it in bytes.
    pub length: u64,
    /// SHA-256 of all of it, in hex.
    pub sha256: String,
}

impl Stream {
    fn read(mut from: impl Read) -> Self {
        let mut stream = Self::default();
        let mut hasher = Hasher::new(HashAlgorithm::Sha256);
        let mut chunk = vec![0; 1 << 16];
        while let Ok(count) = from.read(&mut chunk) {
            if count == 0 {
                break;
            }
            let bytes = &chunk[..count];
            hasher.update(bytes);
            stream.length += count as u64;
            let room = KEPT_OUTPUT - stream.head.len();
            stream.head.extend_from_slice(&bytes[..count.min(room)]);
        }
        stream.sha256 = hex(hasher.finish().as_ref());
        stream
    }

    /// The stored part as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.head).into_owned()
    }
}

/// SHA-256 in hex, as in [`Stream::sha256`].
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    Stream::read(bytes).sha256
}

/// How a program ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Exit status; minus the signal's number when a signal ended it.
    pub status: i32,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
    /// Time from start to exit.
    pub took: Duration,
}

impl Outcome {
    /// # Panics
    /// If standard output lacks `text`.
    pub fn assert_shows(&self, text: &str) {
        assert!(self.stdout.text().contains(text), "{}", self.summary());
    }

    /// # Panics
    /// If standard output is not the word of the login tests, `in`.
    pub fn assert_in(&self, what: &str) {
        assert_eq!(self.stdout.text(), "in\n", "{what}: {}", self.summary());
    }

    /// The port that the program printed, as `-O forward -R 0:…` does.
    ///
    /// # Panics
    /// If standard output is anything else.
    #[must_use]
    pub fn port(&self) -> u16 {
        let text = self.stdout.text();
        let port = text.trim().parse::<u16>();
        port.unwrap_or_else(|_| panic!("{}", self.summary()))
    }

    /// One line for a report of failures.
    #[must_use]
    pub fn summary(&self) -> String {
        let shorten = |stream: &Stream| {
            let text = stream.text();
            let start = text.char_indices().rev().nth(399).map_or(0, |(at, _)| at);
            format!("{:?}", &text[start..])
        };
        format!(
            "status {}, {} bytes out {}, err {}",
            self.status,
            self.stdout.length,
            shorten(&self.stdout),
            shorten(&self.stderr)
        )
    }
}

/// Where a program's standard input comes from.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Nothing: `/dev/null`.
    Nothing,
    /// These bytes.
    Bytes(&'a [u8]),
    /// This file.
    File(&'a Path),
}

/// Runs `command` to its end, or kills it and its process group at `limit`.
///
/// # Errors
/// If the program cannot be started or exceeds `limit`.
pub fn run(command: &mut Command, input: Input<'_>, limit: Duration) -> io::Result<Outcome> {
    let started = Instant::now();
    command.stdin(match input {
        Input::Nothing => Stdio::null(),
        Input::Bytes(_) => Stdio::piped(),
        Input::File(path) => Stdio::from(File::open(path)?),
    });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| named(command, &error))?;
    let feed = child.stdin.take();
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (ended, stdout, stderr) = thread::scope(|scope| {
        let out = scope.spawn(|| out.map(Stream::read).unwrap_or_default());
        let err = scope.spawn(|| err.map(Stream::read).unwrap_or_default());
        if let (Some(mut pipe), Input::Bytes(bytes)) = (feed, input) {
            scope.spawn(move || {
                let _ = pipe.write_all(bytes);
            });
        }
        let ended = wait(&mut child, limit);
        // Readers end only after every process with the pipe has ended.
        if ended.is_err()
            || !until(Duration::from_secs(5), || {
                out.is_finished() && err.is_finished()
            })
        {
            kill_group(&child);
        }
        (
            ended,
            out.join().unwrap_or_default(),
            err.join().unwrap_or_default(),
        )
    });
    let outcome = Outcome {
        status: ended.as_ref().map_or(-1, |status| status_number(*status)),
        stdout,
        stderr,
        took: started.elapsed(),
    };
    match ended {
        Ok(_) => Ok(outcome),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!(
                "{error} ({:?}); {}",
                command.get_program(),
                outcome.summary()
            ),
        )),
    }
}

/// Exit status as a number; minus the signal's number when a signal ended the program.
#[must_use]
pub fn status_number(status: ExitStatus) -> i32 {
    status
        .code()
        .or_else(|| status.signal().map(|signal| -signal))
        .unwrap_or(-1)
}

/// Waits for `child`; kills it at `limit`.
///
/// # Errors
/// `TimedOut` if it had to be killed.
pub fn wait(child: &mut Child, limit: Duration) -> io::Result<ExitStatus> {
    let pid = pid_of(child)?;
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => {
                kill_group(child);
                let _ = child.kill();
                let _ = child.wait();
                let text = format!("still running after {} s", limit.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Ok(_) => return child.wait(),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("a child without a process id"))
}

fn kill_group(child: &Child) {
    if let Ok(pid) = pid_of(child) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

fn named(command: &Command, error: &io::Error) -> io::Error {
    let text = format!("{}: {error}", command.get_program().display());
    io::Error::new(error.kind(), text)
}

/// A server that is killed with all its processes when this is dropped.
#[derive(Debug)]
pub struct Daemon {
    /// The port on 127.0.0.1.
    pub port: u16,
    child: Child,
    log: PathBuf,
    scratch: Scratch,
}

impl Daemon {
    /// Starts `command`, its output going to a log in `scratch`, and waits until it listens on
    /// `port`.
    ///
    /// # Errors
    /// If it ends or does not listen in time; the text contains its log.
    pub fn start(command: &mut Command, port: u16, scratch: Scratch) -> Result<Self, String> {
        let log = scratch.join("server.log");
        let file = File::create(&log).map_err(|error| error.to_string())?;
        let copy = file.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(copy).stderr(file);
        command.process_group(0);
        let child = command
            .spawn()
            .map_err(|error| named(command, &error).to_string())?;
        let mut daemon = Self {
            port,
            child,
            log,
            scratch,
        };
        let mut ended = false;
        let up = until(COMMAND_LIMIT, || {
            ended = matches!(daemon.child.try_wait(), Ok(Some(_)) | Err(_));
            ended || is_listening(port)
        });
        if up && !ended {
            return Ok(daemon);
        }
        let what = if ended {
            "ended at once"
        } else {
            "does not listen"
        };
        Err(format!(
            "the server {what}: {:?}: {}",
            command,
            daemon.log()
        ))
    }

    /// Its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Its files.
    #[must_use]
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Process id of the listener.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If the process cannot be signalled.
    pub fn signal(&self, signal: Signal) {
        let pid = pid_of(&self.child).expect("a process id");
        kill_process(pid, signal).expect("a signal to the server");
    }

    /// Waits until all processes of connections have ended, so that the log is complete.
    ///
    /// # Panics
    /// If one stays.
    pub fn comes_to_rest(&self) {
        let gone = until(COMMAND_LIMIT, || descendants(self.pid()).is_empty());
        let left = descendants(self.pid());
        assert!(gone, "processes {left:?} stay: {}", self.log());
    }

    /// Returns true if the listener ends within `limit`.
    pub fn ends_within(&mut self, limit: Duration) -> bool {
        until(limit, || {
            matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        for pid in descendants(self.child.id()) {
            kill(pid);
        }
        kill_group(&self.child);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that runs in the background and is killed when this is dropped.
#[derive(Debug)]
pub struct Background(pub Child);

impl Background {
    /// Starts it in a process group of its own.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.process_group(0);
        let child = command.spawn().map_err(|error| named(command, &error))?;
        Ok(Self(child))
    }

    /// Sends it a signal, by the name that kill(1) takes.
    ///
    /// # Panics
    /// If it has ended.
    pub fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let sent = kill.args([&format!("-{name}"), &self.0.id().to_string()]);
        assert!(sent.status().is_ok_and(|status| status.success()), "{name}");
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        kill_group(&self.0);
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All processes below `root` (not itself), children before grandchildren.
#[must_use]
pub fn descendants(root: u32) -> Vec<u32> {
    let pairs: Vec<(u32, u32)> = processes()
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(above) = found.get(next).copied() {
        found.extend(
            pairs
                .iter()
                .filter(|(_, up)| *up == above)
                .map(|(pid, _)| *pid),
        );
        next += 1;
    }
    found.remove(0);
    found
}

/// All process IDs.
pub fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The parent of a process.
#[must_use]
pub fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain any character.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Kills a process, if it still exists.
pub fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The program's path, if it is installed.
#[must_use]
pub fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Runs a tool that must succeed and returns its standard output.
///
/// # Errors
/// If it cannot be started or its status is not 0; the text contains its standard error.
pub fn tool<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments);
    let outcome = run(&mut command, Input::Nothing, COMMAND_LIMIT).map_err(|e| e.to_string())?;
    if outcome.status == 0 {
        Ok(outcome.stdout.text())
    } else {
        Err(format!("{command:?}: {}", outcome.summary()))
    }
}

/// Bytes in hex.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
