//! What lies between load and target: a client and its server with one forwarding, two plain relays
//! in a chain, or nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use agent::socket::link::listening;

use super::socks::socks_request;
use crate::figures::Cpu;
use crate::harness::{Directory, Harness, ServerHost, Suite, SuiteKind};
use crate::rounds::Miss;
use crate::words::{StderrReader, Watch, kill};

/// Time limit for an entry to accept connections.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// How a client forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForwardForm {
    /// `-L port:target`
    Local,
    /// `-L path:target`
    Unix,
    /// `-D port`
    Dynamic,
    /// `-R port:target`
    Remote,
}

/// Where a load connects.
#[derive(Debug, Clone)]
pub(super) enum TunnelEntry {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// A SOCKS server, and the target that it is asked for.
    Socks(SocketAddr, SocketAddr),
}

impl TunnelEntry {
    /// Connects from `host`'s network.
    pub(super) fn connect(&self, host: &ServerHost) -> io::Result<File> {
        let socket: OwnedFd = match self {
            Self::Unix(path) => UnixStream::connect(path)?.into(),
            Self::Tcp(address) | Self::Socks(address, _) => {
                let address = *address;
                let stream = host.run(move || std::net::TcpStream::connect(address))??;
                stream.set_nodelay(true)?;
                stream.into()
            }
        };
        let mut socket = File::from(socket);
        if let Self::Socks(_, target) = self {
            socket.write_all(&[5, 1, 0])?;
            socket.read_exact(&mut [0; 2])?;
            socket.write_all(&socks_request(*target))?;
            let mut reply = [0; 10];
            socket.read_exact(&mut reply)?;
            if reply.get(1) != Some(&0) {
                return Err(io::Error::other("the SOCKS server refused"));
            }
        }
        Ok(socket)
    }
}

/// A tunnel at work.
pub(super) struct Tunnel {
    pub(super) entry: TunnelEntry,
    /// The process at the load's end first (with [`ForwardForm::Remote`], at the target's end).
    processes: Vec<Child>,
    /// Kills a tunnel that is stuck.
    watch: Option<Watch>,
    words: Option<StderrReader>,
    /// Holds a Unix socket.
    _directory: Option<Directory>,
}

impl Tunnel {
    /// Nothing between load and target.
    pub(super) fn none(target: SocketAddr) -> Self {
        Self {
            entry: TunnelEntry::Tcp(target),
            processes: Vec::new(),
            watch: None,
            words: None,
            _directory: None,
        }
    }

    /// Two plain relays, one at each end.
    pub(super) fn relays(
        near: &ServerHost,
        far: &ServerHost,
        target: SocketAddr,
    ) -> Result<Self, Miss> {
        let mut tunnel = Self::none(target);
        for host in [far, near] {
            let address = free_address(host)?;
            let TunnelEntry::Tcp(next) = tunnel.entry else {
                return Err("no such relay".into());
            };
            let mut relay = Command::new(std::env::current_exe()?);
            relay
                .args(["bench", "hop", &address.to_string(), &next.to_string()])
                .stdin(Stdio::piped());
            let mut child = host.spawn(relay)?;
            wait_until(&mut child, |pid| listens(pid, address))?;
            tunnel.processes.insert(0, child);
            tunnel.entry = TunnelEntry::Tcp(address);
        }
        Ok(tunnel)
    }

    /// The client of `suite` with the forwarding `form`, without a session, or beside `cat`.
    pub(super) fn ssh(
        (suite, harness): (&Suite, &mut Harness),
        (near, far): (&ServerHost, &ServerHost),
        (form, with_command): (ForwardForm, bool),
        target: SocketAddr,
    ) -> Result<Self, Miss> {
        if suite.kind == SuiteKind::Dropbear
            && matches!(form, ForwardForm::Unix | ForwardForm::Dynamic)
        {
            return Err(Miss::Absent("dbclient cannot forward this way".into()));
        }
        harness.serve()?;
        let server = harness.server_pid().ok_or("no server")?;
        let (entry, option, directory) = forwarding(form, (near, far), target)?;
        let listens_at = entry.clone();
        let is_ready = move |pid| match &listens_at {
            // The path is there before anybody listens on it.
            TunnelEntry::Unix(path) => {
                listening(format!("/proc/{pid}/net/unix")).is_ok_and(|paths| paths.contains(path))
            }
            TunnelEntry::Tcp(address) | TunnelEntry::Socks(address, _) => {
                let is_remote = form == ForwardForm::Remote;
                listens(if is_remote { server } else { pid }, *address)
            }
        };
        let (client, options) = ((suite, harness), (&option[..], with_command));
        let mut tunnel = Self::client(client, near, options, (entry, is_ready))?;
        tunnel._directory = directory;
        Ok(tunnel)
    }

    /// The client of `suite` with these options, without a session, or beside `cat`. It is at work
    /// when `is_ready`, which gets its process id.
    pub(super) fn client(
        (suite, harness): (&Suite, &mut Harness),
        near: &ServerHost,
        (option, with_command): (&[String], bool),
        (entry, is_ready): (TunnelEntry, impl Fn(u32) -> bool),
    ) -> Result<Self, Miss> {
        harness.serve()?;
        let mut options = Vec::new();
        if !with_command {
            options.push("-N");
        }
        if suite.kind != SuiteKind::Dropbear {
            options.push("-oExitOnForwardFailure=yes");
        }
        options.extend(option.iter().map(String::as_str));
        let command = if with_command { "cat" } else { "" };
        let mut client = harness.client(suite, &options, command);
        client
            .stdin(Stdio::piped())
            .stdout(match with_command {
                true => Stdio::piped(),
                false => Stdio::null(),
            })
            .stderr(Stdio::piped());
        let mut child = near.spawn(client)?;
        let words = child.stderr.take().map(StderrReader::listen);
        let ready = wait_until(&mut child, is_ready);
        let tunnel = Self {
            entry,
            watch: Some(Watch::start(child.id())),
            processes: vec![child],
            words,
            _directory: None,
        };
        match ready {
            Ok(()) => Ok(tunnel),
            Err(miss) => {
                let (_, words) = tunnel.end()?;
                harness.stop()?;
                Err(Miss::Failed(words.unwrap_or(miss.why().to_owned())))
            }
        }
    }

    /// Standard input and output of the client's command, once.
    pub(super) fn session(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        let client = self.processes.first_mut()?;
        // An input is of use only with the output of a command.
        let output = client.stdout.take()?;
        Some((client.stdin.take()?, output))
    }

    /// The client's process, or the relay at the load's end.
    pub(super) fn pid(&self) -> Option<u32> {
        self.processes.first().map(Child::id)
    }

    /// Ends the processes. Returns their CPU seconds, and the client's last words.
    pub(super) fn end(mut self) -> Result<(Cpu, Option<String>), Miss> {
        let mut used = [0.0; 2];
        for (child, used) in self.processes.drain(..).zip(&mut used) {
            if self.watch.is_some() {
                kill(child.id());
            }
            // Relays end with their standard input, which this closes.
            let (_, usage) = sys::process::wait_usage(child)?;
            *used = usage.total().as_secs_f64();
        }
        if self.watch.take().is_some_and(Watch::stop) {
            return Err("stuck".into());
        }
        let words = self.words.take().map(|words| words.all().complaint(""));
        let words = words.filter(|words| !words.is_empty());
        let [client, server] = used;
        Ok((Cpu { client, server }, words))
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        for child in &mut self.processes {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// TunnelEntry and options of a forwarding, and the directory of its socket.
fn forwarding(
    form: ForwardForm,
    (near, far): (&ServerHost, &ServerHost),
    target: SocketAddr,
) -> Result<(TunnelEntry, [String; 2], Option<Directory>), Miss> {
    let address = free_address(if form == ForwardForm::Remote {
        far
    } else {
        near
    })?;
    let (entry, option, directory) = match form {
        ForwardForm::Local => (TunnelEntry::Tcp(address), "-L", None),
        ForwardForm::Remote => (TunnelEntry::Tcp(address), "-R", None),
        ForwardForm::Dynamic => {
            let options = ["-D".to_owned(), address.to_string()];
            return Ok((TunnelEntry::Socks(address, target), options, None));
        }
        ForwardForm::Unix => {
            let directory = Directory::new(&std::env::temp_dir())?;
            let path = directory.path().join("socket");
            (TunnelEntry::Unix(path), "-L", Some(directory))
        }
    };
    let from = match &entry {
        TunnelEntry::Unix(path) => path.display().to_string(),
        TunnelEntry::Tcp(address) | TunnelEntry::Socks(address, _) => address.to_string(),
    };
    Ok((
        entry,
        [option.to_owned(), format!("{from}:{target}")],
        directory,
    ))
}

pub(super) fn free_address(host: &ServerHost) -> io::Result<SocketAddr> {
    let port = host.run(sys::socket::free_port)??;
    Ok(SocketAddr::new(host.address(), port))
}

pub(super) fn listens(pid: u32, address: SocketAddr) -> bool {
    match address {
        SocketAddr::V4(address) => sys::socket::is_listening_in(pid, address).unwrap_or(false),
        SocketAddr::V6(_) => false,
    }
}

/// Waits until `is_ready`, which gets the child's process id.
fn wait_until(child: &mut Child, is_ready: impl Fn(u32) -> bool) -> Result<(), Miss> {
    let begun = Instant::now();
    while !is_ready(child.id()) {
        if let Some(status) = child.try_wait()? {
            return Err(Miss::Failed(status.to_string()));
        }
        if begun.elapsed() > START_LIMIT {
            return Err("nothing listens at the entry".into());
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
