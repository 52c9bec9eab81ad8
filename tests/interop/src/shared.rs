//! A server, a master and its passengers: the base of the tests of connection sharing.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::peers::ours::Kind;
use crate::process::{Background, Input, Outcome, processes};
use crate::report::skipped;
use crate::scratch::{Scratch, until};
use crate::site::{HOST, Site, askpass, finish};

/// The longest wait for what happens soon.
pub const LIMIT: Duration = Duration::from_secs(20);

/// A server, the socket of a master, and a client of either kind for each end of it.
#[derive(Debug)]
pub struct Shared {
    /// The server, and the master's client.
    pub site: Site,
    /// The folder of the socket.
    pub folder: Scratch,
    /// The passengers' client.
    pub passenger: Kind,
}

/// The kinds of master, passenger and server.
const SIDES: [(Kind, Kind, Kind); 3] = [
    (Kind::Fulmar, Kind::Fulmar, Kind::Fulmar),
    (Kind::Fulmar, Kind::OpenSsh, Kind::OpenSsh),
    (Kind::OpenSsh, Kind::Fulmar, Kind::Fulmar),
];

/// Runs a test with each pair that is installed.
pub fn each(test: impl Fn(&Shared)) {
    each_with("Subsystem echo /bin/cat\n", test);
}

/// The same with `extra` in the servers' configuration.
pub fn each_with(extra: &str, test: impl Fn(&Shared)) {
    for (master, passenger, server) in SIDES {
        match [master.ssh(), passenger.ssh(), server.sshd()] {
            [Ok(_), Ok(_), Ok(_)] => {
                eprintln!("{} with {}", master.name(), passenger.name());
                test(&Shared::new(master, passenger, server, extra));
            }
            _ => skipped("openssh", &"it is not installed"),
        }
    }
}

/// Both sides ours, and the server with `extra` in its configuration.
#[must_use]
pub fn ours(extra: &str) -> Shared {
    Shared::new(Kind::Fulmar, Kind::Fulmar, Kind::Fulmar, extra)
}

impl Shared {
    /// A server of this kind with `extra` in its configuration.
    #[must_use]
    pub fn new(master: Kind, passenger: Kind, server: Kind, extra: &str) -> Self {
        Self {
            site: Site::new(master, server, extra),
            folder: Scratch::new(),
            passenger,
        }
    }

    /// The place of the socket.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.join("s")
    }

    /// The sockets in its folder, those of a pool included.
    ///
    /// # Panics
    /// If the folder cannot be read.
    #[must_use]
    pub fn sockets(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).expect("the folder");
        entries
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
            .map(|entry| entry.path())
            .collect()
    }

    fn lines(&self, more: &str) -> String {
        format!(
            "ControlPath {}\nSendEnv SHARED_*\n{more}",
            self.path().display()
        )
    }

    /// The master's client.
    #[must_use]
    pub fn master(&self, more: &str) -> Command {
        self.site.ssh(&self.lines(more))
    }

    /// A master without a session of its own, which listens.
    ///
    /// # Panics
    /// If it does not.
    #[must_use]
    pub fn start(&self, more: &str) -> Background {
        let mut command = self.master(more);
        command.args(["-M", "-N", HOST]);
        self.begin(command)
    }

    /// Starts a master that asks before it shares (ControlMaster ask), and gets this answer to its first
    /// four questions.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start_asking(&self, answer: &str) -> Background {
        let mut command = self.master("");
        command
            .env("SSH_ASKPASS", askpass(&self.folder, &[answer; 4]))
            .env("DISPLAY", ":9")
            .args(["-M", "-M", "-N", HOST]);
        self.begin(command)
    }

    fn begin(&self, mut command: Command) -> Background {
        let master = Background::start(command.stdin(Stdio::null())).expect("ssh");
        assert!(until(LIMIT, || self.path().exists()), "no socket");
        master
    }

    /// A passenger, without arguments.
    ///
    /// # Panics
    /// If its client is not installed.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = self.passenger.ssh().expect("ssh");
        command.arg("-F").arg(self.site.config(&self.lines("")));
        command
    }

    /// Runs a passenger.
    #[must_use]
    pub fn ride(&self, arguments: &[&str], input: Input<'_>) -> Outcome {
        finish(self.command().args(arguments), input)
    }

    /// Asks the master with `-O`.
    #[must_use]
    pub fn ask(&self, word: &str, more: &[&str]) -> Outcome {
        let arguments = [&["-O", word], more, &[HOST]].concat();
        self.ride(&arguments, Input::Nothing)
    }

    /// Ends the master.
    ///
    /// # Panics
    /// If it does not end.
    pub fn ends(&self, mut master: Background) {
        assert_eq!(self.ask("exit", &[]).status, 0);
        let ended = crate::process::wait(&mut master.0, LIMIT);
        assert!(ended.is_ok(), "the master goes on");
        assert!(!self.path().exists());
    }
}

/// Asserts the command's exit status, and what it has written.
///
/// # Panics
/// If they are others.
pub fn assert_is(outcome: &Outcome, status: i32, text: &str) {
    assert_eq!(
        (outcome.status, outcome.stdout.text().as_str()),
        (status, text),
        "{}",
        outcome.summary()
    );
}

/// Asserts that standard error contains `text`.
///
/// # Panics
/// If it does not.
pub fn assert_has(outcome: &Outcome, text: &str) {
    let said = outcome.stderr.text();
    assert!(said.contains(text), "{text:?} is not in {said:?}");
}

/// The process that has this text in its title.
#[must_use]
pub fn has_title(text: &str) -> Option<u32> {
    processes().find(|pid| {
        let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&title).contains(text)
    })
}

/// A connection to a master of ours after the first messages.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn greet(path: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).expect("the master");
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(b"\0\0\0\x08\0\0\0\x01\0\0\0\x04").unwrap();
    let hello = read_packet(&mut stream);
    let expected =
        b"\0\0\0\x01\0\0\0\x04\0\0\0\x04info\0\0\0\x010\0\0\0\x1dserver-version@fulmar.invalid";
    let (before, version) = hello.split_at(expected.len());
    assert_eq!(before, expected);
    assert!(version[4..].starts_with(b"SSH-2.0-"), "{version:?}");
    stream
}

/// The next message, without its length.
///
/// # Panics
/// If none comes.
pub fn read_packet(stream: &mut UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("a message");
    let length = usize::try_from(u32::from_be_bytes(length)).expect("a length");
    let mut message = vec![0; length];
    stream.read_exact(&mut message).expect("a message");
    message
}

/// A message with its length in front.
///
/// # Panics
/// If it is too long for one.
#[must_use]
pub fn packet(words: &[&[u8]]) -> Vec<u8> {
    let body = words.concat();
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
}

/// A request for a session with a command.
///
/// # Panics
/// If the command is too long for one.
#[must_use]
pub fn session_request(command: &str) -> Vec<u8> {
    let long = |text: &str| {
        [
            &u32::try_from(text.len()).unwrap().to_be_bytes()[..],
            text.as_bytes(),
        ]
        .concat()
    };
    packet(&[
        b"\x10\0\0\x02\0\0\0\0",
        &long(""),
        &[0; 16],
        &[0xff; 4],
        &long("term"),
        &long(command),
    ])
}
