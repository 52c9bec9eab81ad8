//! A listening process and everything below it: started, watched until it listens, ended, and
//! asked what it cost.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::ServerHost;

/// How long a server may take to listen.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long the processes of connections may outlive their client.
const END_LIMIT: Duration = Duration::from_secs(5);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(2);

/// What a server has cost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    /// CPU time since it listened, with all below it.
    pub(crate) cpu: Duration,
    /// The most memory that one of its processes has had, bytes.
    pub(crate) peak_bytes: u64,
}

/// A listener at work.
#[derive(Debug)]
pub(super) struct BenchServer {
    child: Option<Child>,
    pid: u32,
    /// CPU time that it had used when it listened.
    start_up: Duration,
    /// Processes that it had below it then.
    children_at_start: usize,
}

impl BenchServer {
    /// Starts `command` at `place` and waits until it listens on `port`.
    pub(super) fn start(place: &ServerHost, command: Command, port: u16) -> io::Result<Self> {
        let child = place.spawn(command)?;
        let pid = child.id();
        let mut server = Self {
            child: Some(child),
            pid,
            start_up: Duration::ZERO,
            children_at_start: 0,
        };
        server.wait_until_it_listens((place.address(), port).into())?;
        server.start_up = own_cpu_time(pid);
        server.children_at_start = Tree::of(pid).below().len();
        Ok(server)
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    fn wait_until_it_listens(&mut self, address: SocketAddr) -> io::Result<()> {
        let end = Instant::now() + START_LIMIT;
        loop {
            if listens(self.pid, address) {
                return Ok(());
            }
            let ended = match &mut self.child {
                Some(child) => child.try_wait()?.is_some(),
                None => true,
            };
            if ended || Instant::now() > end {
                return Err(io::Error::other("the server did not start"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Ends it once no more processes are below it than when it listened; gives the CPU time that
    /// it and they have used since then, and the most memory that one of them has had.
    pub(super) fn finish(mut self) -> io::Result<Cost> {
        let end = Instant::now() + END_LIMIT;
        while Tree::of(self.pid).below().len() > self.children_at_start && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
        let Some(mut child) = self.child.take() else {
            return Ok(Cost::default());
        };
        child.kill()?;
        let (_, usage) = sys::process::wait_usage(child)?;
        Ok(Cost {
            cpu: usage.total().saturating_sub(self.start_up),
            peak_bytes: usage.peak_bytes,
        })
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// CPU time that the main thread of `pid` has used, to the nanosecond where the kernel counts so;
/// zero where it does not.
fn own_cpu_time(pid: u32) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Whether something listens on `address` in the network of `pid`. The kernel is asked, not the
/// server: a connection would cost it CPU time that is measured.
fn listens(pid: u32, address: SocketAddr) -> bool {
    let told = match address {
        SocketAddr::V4(address) => sys::socket::is_listening_in(pid, address).ok(),
        SocketAddr::V6(_) => None,
    };
    told.unwrap_or_else(|| TcpStream::connect(address).is_ok())
}

/// Whether this is a process of our server that waits for a connection to come (PreauthSpares).
fn waits(pid: u32) -> bool {
    let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    title.starts_with(b"sshd-session: [waiting]")
}

/// A process and all below it, as they are now, without those that wait for connections to come.
#[derive(Debug)]
pub(crate) struct Tree {
    pids: Vec<u32>,
}

impl Tree {
    /// The tree whose root is `pid`.
    pub(crate) fn of(pid: u32) -> Self {
        let all = processes();
        let mut pids = vec![pid];
        let mut looked = 0;
        while let Some(parent) = pids.get(looked).copied() {
            looked += 1;
            pids.extend(
                all.iter()
                    .filter(|(_, of)| *of == parent)
                    .map(|(child, _)| *child)
                    .filter(|child| !waits(*child)),
            );
        }
        Self { pids }
    }

    /// All but the root.
    pub(crate) fn below(&self) -> &[u32] {
        self.pids.get(1..).unwrap_or_default()
    }
}

/// Every process with its parent. One that ends meanwhile is left out.
fn processes() -> Vec<(u32, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // Behind the name, which may hold anything: state, parent.
            let (_, behind) = stat.rsplit_once(')')?;
            let parent = behind.split_ascii_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_holds_children_of_children() {
        let mut child = Command::new("sh")
            .args(["-c", "sh -c 'read line; :'; :"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let tree = loop {
            let tree = Tree::of(child.id());
            if tree.below().len() == 1 {
                break tree;
            }
            std::thread::yield_now();
        };
        assert_eq!(tree.pids.first(), Some(&child.id()));
        child.stdin.take();
        child.wait().unwrap();
        assert!(Tree::of(child.id()).below().is_empty());
    }
}
