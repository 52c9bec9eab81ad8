//! A real `fulmar sshd-monitor` whose auth and session processes a test controls.
//!
//! The monitor starts `privsep-double` (`src/bin/double.rs`) as its roles. It forwards the RPC over
//! the network socket that every role inherits: the test has the other end of this connection,
//! plays the running role, and reads the monitor's frames.
//!
//! Frames on that socket: `u8` kind ‖ `u32` length ‖ bytes.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config::environment::SystemFiles;
use config::{ServerArguments, ServerConfig};
use interop::scratch::Scratch;
use keys::PrivateKey;
use privsep::{
    Frame, FrameSplitter, HostKey, Message, MonitorSecrets, MonitorStart, Secret, roles,
};
use sys::process::{Child, ChildCommand, ExitStatus};
use sys::signals::Signal;

use crate::sshd::{LIMIT, binary};

/// Largest frame between a test and its double, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// From the test to the double.
#[derive(Debug, PartialEq, Eq)]
pub enum Down {
    /// Raw bytes for the monitor.
    Write(Vec<u8>),
    /// The same with descriptors.
    WriteWithDescriptors {
        /// Number of descriptors.
        count: u8,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The role ends.
    End,
}

/// From the double to the test.
#[derive(Debug, PartialEq, Eq)]
pub enum Up {
    /// The monitor has started a role.
    Started {
        /// Its name.
        role: String,
        /// Its process.
        pid: u32,
    },
    /// Bytes of the monitor.
    Bytes {
        /// Number of descriptors that arrived with them.
        descriptors: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The monitor has closed its end.
    Ended,
}

fn write_frame(socket: impl AsFd, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut frame = vec![kind];
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(bytes);
    sys::io::write_all(socket, &frame)
}

fn read_exact(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<()> {
    let socket = socket.as_fd();
    let mut filled = 0;
    while filled < buffer.len() {
        let count = sys::io::read(socket, buffer.get_mut(filled..).unwrap_or_default())?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        filled += count;
    }
    Ok(())
}

fn read_frame(socket: impl AsFd) -> io::Result<(u8, Vec<u8>)> {
    let socket = socket.as_fd();
    let mut header = [0; 5];
    read_exact(socket, &mut header)?;
    let [kind, length @ ..] = header;
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
    if length > MAX_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length];
    read_exact(socket, &mut bytes)?;
    Ok((kind, bytes))
}

/// The double's reading half.
///
/// # Errors
/// If the test has ended.
pub fn read_down(socket: impl AsFd) -> io::Result<Down> {
    let (kind, bytes) = read_frame(socket)?;
    match (kind, bytes.split_first()) {
        (b'W', _) => Ok(Down::Write(bytes)),
        (b'F', Some((count, rest))) => Ok(Down::WriteWithDescriptors {
            count: *count,
            bytes: rest.to_vec(),
        }),
        (b'X', _) => Ok(Down::End),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The double's writing half.
///
/// # Errors
/// If the test has ended.
pub fn write_up(socket: impl AsFd, up: &Up) -> io::Result<()> {
    match up {
        Up::Started { role, pid } => write_frame(socket, b'S', format!("{pid} {role}").as_bytes()),
        Up::Bytes { descriptors, bytes } => {
            let mut body = descriptors.to_be_bytes().to_vec();
            body.extend_from_slice(bytes);
            write_frame(socket, b'R', &body)
        }
        Up::Ended => write_frame(socket, b'E', &[]),
    }
}

fn read_up(socket: impl AsFd) -> io::Result<Up> {
    let (kind, bytes) = read_frame(socket)?;
    match (kind, bytes.split_first_chunk::<4>()) {
        (b'S', _) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let (pid, role) = text.split_once(' ').ok_or(io::ErrorKind::InvalidData)?;
            Ok(Up::Started {
                role: role.to_owned(),
                pid: pid.parse().map_err(io::Error::other)?,
            })
        }
        (b'R', Some((count, rest))) => Ok(Up::Bytes {
            descriptors: u32::from_be_bytes(*count),
            bytes: rest.to_vec(),
        }),
        (b'E', _) => Ok(Up::Ended),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The host key of the monitors under test.
#[must_use]
pub fn host_key() -> PrivateKey {
    PrivateKey::from_ed25519_seed(&[99; 32])
}

/// A real monitor that a test controls. It is killed with its running role when this value is
/// dropped.
pub struct Monitor {
    child: Child,
    network: TcpStream,
    splitter: FrameSplitter,
    frames: VecDeque<Frame>,
    /// Frames of the monitor so far.
    pub frames_seen: usize,
    /// Number of descriptors that it has sent.
    pub descriptors: u32,
    role: Option<(String, u32)>,
    ended: bool,
    news: OwnedFd,
    log: PathBuf,
    _scratch: Scratch,
}

impl Monitor {
    /// Starts a monitor with this sshd_config; its roles are `double`.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(double: &Path, config: &str) -> Self {
        let scratch = Scratch::new();
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let network =
            TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let (theirs, _) = listener.accept().expect("the other end");
        network.set_read_timeout(Some(LIMIT)).expect("a time limit");
        network.set_nodelay(true).expect("no delay");
        let log = scratch.join("monitor.log");
        let file = File::create(&log).expect("a log");
        let (news, news_writer) = sys::io::pipe().expect("a pipe");
        sys::io::set_nonblocking(&news, true).expect("a pipe that does not wait");
        let (keys, start) = (secrets(), start_record(config));
        let program = File::open(double).expect("the double");
        let mut command = ChildCommand::new(binary());
        command
            .args(["fulmar", roles::ROLE_MONITOR])
            .env("PATH", "/usr/bin:/bin")
            .fd(sys::io::null().expect("/dev/null"), 0)
            .fd(sys::io::null().expect("/dev/null"), 1)
            .fd(file.into(), 2)
            .fd(theirs.into(), roles::NETWORK_FD)
            .fd(news_writer, roles::MONITOR_NEWS_FD)
            .fd(start, roles::MONITOR_CONFIG_FD)
            .fd(keys, roles::MONITOR_KEYS_FD)
            .fd(program.into(), roles::MONITOR_BINARY_FD)
            .new_session();
        let child = command.spawn().expect("a monitor");
        drop(command);
        let mut monitor = Self {
            child,
            network,
            splitter: FrameSplitter::new(),
            frames: VecDeque::new(),
            frames_seen: 0,
            descriptors: 0,
            role: None,
            ended: false,
            news,
            log,
            _scratch: scratch,
        };
        monitor.expect_role(roles::ROLE_AUTH);
        monitor
    }

    /// Process id of the monitor.
    #[must_use]
    pub fn pid(&self) -> u32 {
        u32::try_from(self.child.pid()).expect("a pid")
    }

    /// Process ID of the running role.
    ///
    /// # Panics
    /// If none was started.
    #[must_use]
    pub fn role_pid(&self) -> u32 {
        self.role.as_ref().expect("a role").1
    }

    /// The monitor's log.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Sends raw bytes on the RPC.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        // If the double has ended, nobody receives this; later calls detect it.
        let _ = write_frame(&self.network, b'W', bytes);
    }

    /// Sends a message.
    pub fn send<M: Message>(&mut self, message: &M) {
        self.send_bytes(&message.encode_frame());
    }

    /// Sends bytes with descriptors.
    pub fn send_with_descriptors(&mut self, bytes: &[u8], count: u8) {
        let body = [&[count], bytes].concat();
        let _ = write_frame(&self.network, b'F', &body);
    }

    /// Kills the running role.
    ///
    /// # Panics
    /// If none runs.
    pub fn kill_role(&mut self) {
        let pid = i32::try_from(self.role_pid()).expect("a pid");
        let role = sys::process::PidFd::open(pid).expect("the role");
        role.signal(Signal::KILL).expect("a signal to it");
        self.role = None;
    }

    /// Ends the role.
    pub fn end_role(&mut self) {
        let _ = write_frame(&self.network, b'X', &[]);
        self.role = None;
    }

    fn hear(&mut self) -> bool {
        match read_up(&self.network) {
            Ok(Up::Started { role, pid }) => {
                self.role = Some((role, pid));
                self.ended = false;
                self.splitter = FrameSplitter::new();
            }
            Ok(Up::Bytes { descriptors, bytes }) => {
                self.descriptors += descriptors;
                self.splitter.feed(&bytes);
                while let Some(frame) = self.splitter.next_frame().expect("frames of the monitor") {
                    self.frames_seen += 1;
                    self.frames.push_back(frame);
                }
            }
            Ok(Up::Ended) => self.ended = true,
            Err(_) => return false,
        }
        true
    }

    /// Waits until the monitor has started this role.
    ///
    /// # Panics
    /// If it does not.
    pub fn expect_role(&mut self, name: &str) {
        while self.role.as_ref().is_none_or(|(role, _)| role != name) {
            assert!(self.hear(), "no {name}: {}", self.log());
        }
    }

    /// The monitor's next frame; `None` if it has closed its end.
    pub fn next_frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            if self.ended || !self.hear() {
                return None;
            }
        }
    }

    /// The next frame, which must be this message.
    ///
    /// # Panics
    /// If it is another, or none arrives.
    pub fn expect<M: Message>(&mut self) -> M {
        let frame = self
            .next_frame()
            .unwrap_or_else(|| panic!("no {}: {}", M::NAME, self.log()));
        frame
            .decode()
            .unwrap_or_else(|error| panic!("{} expected, {error}: {}", M::NAME, self.log()))
    }

    /// Sends a request and returns the answer.
    ///
    /// # Panics
    /// As [`expect`](Self::expect).
    pub fn ask<Q: Message, A: Message>(&mut self, request: &Q) -> A {
        self.send(request);
        self.expect()
    }

    /// Waits until the monitor has ended; without killing it.
    ///
    /// # Panics
    /// If it does not end.
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let ended = sys::io::wait_readable(self.child.pidfd(), Some(LIMIT)).expect("a pidfd");
        assert!(ended, "the monitor does not end: {}", self.log());
        self.child.wait().expect("its status")
    }

    /// Waits until the monitor has ended; a session that it still starts ends too.
    ///
    /// # Panics
    /// If it does not end, or ends by a signal or a panic.
    pub fn wait_until_over(&mut self) {
        while self.hear() {
            if self.role.is_some() {
                self.end_role();
            }
        }
        self.assert_own_end();
    }

    /// Waits until the real session process was started, and disconnects like a client.
    ///
    /// # Panics
    /// As [`wait_until_over`](Self::wait_until_over).
    pub fn leave_session(&mut self) {
        let started = Self::eventually(|| self.log().contains("User child is on pid"));
        assert!(started, "{}", self.log());
        let _ = self.network.shutdown(Shutdown::Both);
        self.assert_own_end();
    }

    fn assert_own_end(&mut self) {
        let status = self.wait_for_end();
        let by_itself = matches!(status, ExitStatus::Exited(0 | 255));
        assert!(by_itself, "{status:?}: {}", self.log());
    }

    /// Asserts that the monitor ends the session because of a protocol violation, without another
    /// message, and that the violating role has ended.
    ///
    /// # Panics
    /// If it does not.
    pub fn ends_for_a_broken_rule(&mut self, what: &str) {
        let more = self.next_frame();
        assert!(
            more.is_none(),
            "{what} is answered: {more:?}\n{}",
            self.log()
        );
        self.wait_for_end();
        let log = self.log();
        assert!(log.contains("broke a rule"), "{what}: {log}");
        if let Some((_, pid)) = &self.role {
            let left = fs::read_to_string(format!("/proc/{pid}/stat"));
            // A zombie that init has not reaped yet has ended, too.
            let runs = left.is_ok_and(|stat| !stat.contains(") Z "));
            assert!(!runs, "{what}: the role still runs: {log}");
        }
    }

    /// The monitor's messages to the listener so far.
    #[must_use]
    pub fn news(&self) -> Vec<u8> {
        let mut bytes = [0; 16];
        let count = sys::io::read(&self.news, &mut bytes).unwrap_or(0);
        bytes.get(..count).unwrap_or_default().to_vec()
    }

    /// The monitor's open descriptors.
    ///
    /// # Panics
    /// If it has ended.
    #[must_use]
    pub fn open_descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid()))
            .expect("its descriptors")
            .count()
    }

    /// Kills the monitor with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.signal(Signal::KILL);
        let _ = self.child.wait();
    }

    /// Returns true if `happened` becomes true within the time limit.
    pub fn eventually(happened: impl FnMut() -> bool) -> bool {
        interop::scratch::until(LIMIT, happened)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = write_frame(&self.network, b'X', &[]);
        let _ = self.child.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Time that `work` takes.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    (work(), start.elapsed())
}

fn start_record(config: &str) -> OwnedFd {
    let config = ServerConfig::parse(
        "test",
        config.as_bytes(),
        &SystemFiles::default(),
        &ServerArguments::default(),
    )
    .unwrap_or_else(|error| panic!("{config}: {error}"));
    let start = MonitorStart {
        config: config.encode(),
        log_to_stderr: true,
        log_override: 0,
        host_keys: vec![HostKey {
            index: 0,
            blob: host_key().public().blob(),
            algorithms: vec!["ssh-ed25519".to_owned()],
        }],
        chroot: None,
        auth_ids: None,
        host_key_agent: None,
        reports: false,
    };
    sys::memfd::sealed("test", &start.encode_body()).expect("a memory file")
}

fn secrets() -> OwnedFd {
    let file = keys::private_file::write_openssh(&host_key(), "host", None).expect("a key file");
    let secrets = MonitorSecrets {
        accepted_ms: Some(sys::time::monotonic_ms()),
        greeted: None,
        client: None,
        delay_secret: Secret::new(vec![5; 32]),
        private_keys: vec![Secret::new(file.as_bytes().to_vec())],
    };
    let (reader, writer) = sys::io::pipe().expect("a pipe");
    sys::io::write_all(&writer, &secrets.encode_body()).expect("room for a key");
    reader
}
