//! The protocols between systemd and a daemon: sd_notify(3) and socket activation
//! (sd_listen_fds(3)), without a library.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{SendFlags, SocketAddrUnix};

/// Largest number of sockets that are accepted from the service manager.
const MAX_SOCKETS: i32 = 64;
/// The first descriptor that the service manager passes.
const FIRST_SOCKET: i32 = 3;

/// State of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonState {
    /// Started, or finished reloading.
    Ready,
    /// Reading its configuration again.
    Reloading,
    /// Shutting down.
    Stopping,
}

/// Reports the state and a status line to the service manager. Does nothing if `NOTIFY_SOCKET` is
/// unset.
///
/// # Errors
/// If there is a service manager and the report cannot be sent.
pub fn notify(state: DaemonState, status: &str) -> io::Result<()> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(path) => notify_at(path.as_bytes(), state, status),
        None => Ok(()),
    }
}

fn notify_at(path: &[u8], state: DaemonState, status: &str) -> io::Result<()> {
    let address = match path.split_first() {
        Some((b'@', name)) => SocketAddrUnix::new_abstract_name(name)?,
        Some((b'/', _)) => SocketAddrUnix::new(path)?,
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let socket = crate::socket::unix_datagram()?;
    let text = message(state, status);
    rustix::net::sendto(&socket, text.as_bytes(), SendFlags::NOSIGNAL, &address)?;
    Ok(())
}

fn message(state: DaemonState, status: &str) -> String {
    let status = escape::one_line(status);
    let pid = std::process::id();
    match state {
        DaemonState::Ready => format!("READY=1\nMAINPID={pid}\nSTATUS={status}\n"),
        DaemonState::Reloading => {
            let now = crate::time::monotonic_us();
            format!("RELOADING=1\nMONOTONIC_USEC={now}\nSTATUS={status}\n")
        }
        DaemonState::Stopping => format!("STOPPING=1\nSTATUS={status}\n"),
    }
}

/// Takes the sockets that the service manager opened for this process; a second call returns none.
/// `LISTEN_PID` must name this process. A program that the started process executes (same pid)
/// receives them too; children never do.
///
/// # Errors
/// If `LISTEN_FDS` is out of range or a descriptor is not open.
pub fn listen_fds() -> io::Result<Vec<OwnedFd>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let number = |name: &str| {
        let value = std::env::var(name).ok()?;
        value.parse::<i32>().ok()
    };
    let ours = number("LISTEN_PID") == i32::try_from(std::process::id()).ok();
    if !ours || TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS").unwrap_or(0);
    if !(0..=MAX_SOCKETS).contains(&count) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "LISTEN_FDS is out of range",
        ));
    }
    (FIRST_SOCKET..FIRST_SOCKET + count)
        .map(crate::io::inherited)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn the_manager_hears_the_state() {
        let path = std::env::temp_dir().join(format!("fulmar-sys-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let manager = UnixDatagram::bind(&path).unwrap();
        notify_at(
            path.as_os_str().as_bytes(),
            DaemonState::Ready,
            "on port 22\nX=1",
        )
        .unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut buffer = [0; 256];
        let count = manager.recv(&mut buffer).unwrap();
        let text = std::str::from_utf8(&buffer[..count]).unwrap();
        assert!(text.starts_with("READY=1\nMAINPID="));
        assert!(text.ends_with("STATUS=on port 22\\012X=1\n"));
        assert!(message(DaemonState::Reloading, "").contains("MONOTONIC_USEC="));
        assert!(notify_at(b"relative", DaemonState::Stopping, "").is_err());
    }

    #[test]
    fn no_sockets_without_a_manager() {
        if std::env::var_os("LISTEN_PID").is_none() {
            assert!(listen_fds().unwrap().is_empty());
        }
    }
}
