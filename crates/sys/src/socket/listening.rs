//! TCP listeners: free ports, and listening sockets as the kernel lists them.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddrV4};
use std::sync::atomic::{AtomicU32, Ordering};

use super::diagnosis;

/// Returns a TCP port without a listener. Each port is returned once per process and lies below the
/// range that the kernel assigns to outgoing connections and to listeners on port 0, so that
/// nothing else takes it before a server binds it.
///
/// Asks the kernel for its listeners. Opening a listener to test the port would not work: a child that
/// another thread forks at that moment keeps it open until it calls exec, so that the port would
/// seem to be in use and the intended server could not bind it.
///
/// # Errors
/// If no port in the range is free.
pub fn free_port() -> io::Result<u16> {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    (0..COUNT)
        .find_map(|_| {
            let turn = start.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
            let port = u16::try_from(FIRST + turn % COUNT).ok()?;
            (!is_listening(port)).then_some(port)
        })
        .ok_or_else(|| io::Error::other("no free port"))
}

/// True if a socket listens on `port` at any address of this thread's network namespace. Asks the
/// kernel instead of connecting: a server that counts connections does not see the check, and a
/// repeated connection attempt to a port of the ephemeral range could connect to itself.
#[must_use]
pub fn is_listening(port: u16) -> bool {
    match diagnosis::listeners(port) {
        Ok(found) => !found.is_empty(),
        Err(_) => is_in_table(port),
    }
}

/// The same by the kernel's tables of all connections.
fn is_in_table(port: u16) -> bool {
    let wanted = format!(":{port:04X}");
    ["tcp", "tcp6"].iter().any(|table| {
        fs::read_to_string(format!("/proc/thread-self/net/{table}"))
            .is_ok_and(|table| listeners(&table).any(|local| local.ends_with(&wanted)))
    })
}

/// True if a socket listens on this address in the network namespace of process `pid`.
///
/// # Errors
/// If the process's table cannot be read.
pub fn is_listening_in(pid: u32, address: SocketAddrV4) -> io::Result<bool> {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
    let theirs = namespace(&pid.to_string());
    if theirs.is_some()
        && theirs == namespace("thread-self")
        && let Ok(found) = diagnosis::listeners(address.port())
    {
        return Ok(found.contains(&IpAddr::V4(*address.ip())));
    }
    let table = fs::read_to_string(format!("/proc/{pid}/net/tcp"))?;
    Ok(has_listener(&table, address))
}

/// True if the text of `/proc/net/tcp` lists a listener on this address.
fn has_listener(table: &str, address: SocketAddrV4) -> bool {
    let octets = u32::from_ne_bytes(address.ip().octets());
    let wanted = format!("{octets:08X}:{:04X}", address.port());
    listeners(table).any(|local| local == wanted)
}

/// Local addresses of the listeners in the text of `/proc/net/tcp` or `tcp6`, in the notation of
/// these files.
fn listeners(table: &str) -> impl Iterator<Item = &str> {
    /// The code of state LISTEN.
    const LISTEN: &str = "0A";
    table.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let local = words.next()?;
        (words.nth(1) == Some(LISTEN)).then_some(local)
    })
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};
    use std::process::Command;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_listener_is_seen_in_the_kernels_table() {
        let table = "  sl  local_address rem_address   st\n\
                     0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000\n\
                     1: 0100007F:1F91 0100007F:D431 01 00000000:00000000 00:00000000\n";
        let at = |octets: [u8; 4], port| SocketAddrV4::new(octets.into(), port);
        assert!(has_listener(table, at([127, 0, 0, 1], 8080)));
        assert!(!has_listener(table, at([127, 0, 0, 1], 8081)));
        assert!(!has_listener(table, at([127, 0, 0, 2], 8080)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else {
            panic!("another family");
        };
        let listens = || is_listening_in(std::process::id(), address).unwrap();
        assert!(listens() && is_listening(address.port()) && is_in_table(address.port()));
        drop(listener);
        // A child that another test's thread forks keeps the descriptor until its exec.
        let is_gone = || {
            thread::sleep(Duration::from_millis(1));
            !listens()
        };
        assert!((0..10_000).any(|_| is_gone()));
    }

    #[test]
    fn a_port_is_given_once() {
        let port = || free_port().unwrap();
        let (one, other) = (port(), port());
        assert!(one != other && !is_listening(one) && !is_listening(other));
    }

    #[test]
    fn a_port_given_stays_free_while_other_threads_start_programs() {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        assert!(Command::new("true").status().unwrap().success());
                    }
                });
            }
            let taken = (0..500)
                .map(|_| free_port().unwrap())
                .find(|&port| is_listening(port));
            done.store(true, Ordering::Relaxed);
            assert_eq!(taken, None);
        });
    }
}
