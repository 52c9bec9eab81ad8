//! Metrics for a fleet's monitoring: where they are served (MetricsListen) and written
//! (MetricsFile). [`counters`] has the values and their texts.
//!
//! The listener accepts a connection and hands it to a reader with the text of that moment; it reads
//! no byte of a request and waits for nobody.

mod counters;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use config::server::LoggingOptions;
use sys::socket::SocketFile;

pub(super) use counters::{Counters, Gauges, MetricsForm, RefusalReason};

use crate::log::Log;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;
/// Bits that the mode of the socket's file lacks: who may enter its directory may connect.
const SOCKET_MASK: u32 = 0o111;
/// Mode of the file: a collector runs as a user of its own.
const FILE_MODE: u32 = 0o644;
/// Time between two writes of the file.
const FILE_INTERVAL_MS: u64 = 15_000;

/// The socket of MetricsListen. Its file is removed when it is dropped.
#[derive(Debug)]
pub(super) struct MetricsSocket {
    fd: OwnedFd,
    /// The value of MetricsListen.
    place: String,
    /// The file of a local socket.
    file: Option<SocketFile>,
}

impl MetricsSocket {
    /// Opens the socket at `place`, a path or an address.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn open(place: &str) -> io::Result<Self> {
        let (fd, file) = match place.parse::<SocketAddr>() {
            Ok(address) => (sys::socket::listen(address, BACKLOG, true, true)?, None),
            Err(_) => {
                let path = Path::new(place);
                (listen_at(path)?, Some(SocketFile::at(path)?))
            }
        };
        Ok(Self {
            fd,
            place: place.to_owned(),
            file,
        })
    }

    /// True unless a local socket's file has been removed or replaced.
    fn is_reachable(&self) -> bool {
        self.file.as_ref().is_none_or(SocketFile::is_in_place)
    }

    /// The socket, readable when somebody connects.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The next connection; `None` if there is none.
    ///
    /// # Errors
    /// No descriptor or memory is left: the socket stays readable.
    pub(super) fn accept(&self) -> io::Result<Option<OwnedFd>> {
        match sys::socket::accept_stream(&self.fd) {
            Ok((network, _)) => Ok(Some(network)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted => Ok(None),
                _ => Err(error),
            },
        }
    }
}

/// Listens at `path`. The socket of a server that has ended is replaced; one at which somebody
/// listens stays, as does a file that is no socket.
fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let listen = || sys::socket::listen_unix(path, BACKLOG, SOCKET_MASK);
    match listen() {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if !sys::socket::is_abandoned(path) {
                return Err(io::Error::other(
                    "another server may be listening there; each server needs a path of its own",
                ));
            }
            match sys::socket::unlink_own_socket(path)? {
                true => listen(),
                false => Err(error),
            }
        }
        listening => listening,
    }
}

impl Drop for MetricsSocket {
    fn drop(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|file| file.is_in_place()) {
            let _ = sys::socket::unlink_own_socket(file.path());
        }
    }
}

/// The file of MetricsFile. It is removed when it is dropped: a collector must not show values of a
/// server that has ended.
#[derive(Debug)]
pub(super) struct MetricsFile {
    path: PathBuf,
    /// Monotonic milliseconds of the next write.
    due_ms: u64,
    has_failed: bool,
}

impl MetricsFile {
    /// Monotonic milliseconds of the next write.
    pub(super) fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// Writes the file. Logs the first failure of several.
    pub(super) fn write(&mut self, text: &str, now_ms: u64, log: &Log) {
        self.due_ms = now_ms.saturating_add(FILE_INTERVAL_MS);
        let written = sys::file::replace_unsynced(&self.path, text.as_bytes(), FILE_MODE);
        if let Err(error) = &written
            && !self.has_failed
        {
            let path = self.path.display();
            log.error(&format!("MetricsFile {path}: {error}"));
        }
        self.has_failed = written.is_err();
    }
}

impl Drop for MetricsFile {
    fn drop(&mut self) {
        if !sys::file::is_special(&self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The socket at which metrics are served after a (new) configuration: `old`, if it is at the same
/// place. A socket that cannot be opened is logged: logins matter more.
pub(super) fn socket_of(
    logging: &LoggingOptions,
    old: Option<MetricsSocket>,
    log: &Log,
) -> Option<MetricsSocket> {
    let place = &logging.metrics_listen;
    if place.is_empty() {
        return None;
    }
    if let Some(old) = old.filter(|old| old.place == *place && old.is_reachable()) {
        return Some(old);
    }
    match MetricsSocket::open(place) {
        Ok(socket) => Some(socket),
        Err(error) => {
            log.error(&format!("MetricsListen {place}: {error}"));
            None
        }
    }
}

/// The file to which metrics are written, from now on.
pub(super) fn file_of(
    logging: &LoggingOptions,
    old: Option<MetricsFile>,
    now_ms: u64,
) -> Option<MetricsFile> {
    let path = PathBuf::from(logging.metrics_file.as_ref()?);
    if let Some(old) = old.filter(|old| old.path == path) {
        return Some(old);
    }
    Some(MetricsFile {
        path,
        due_ms: now_ms,
        has_failed: false,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use privsep::LogLevel;

    use super::*;
    use crate::test_support::{TempDir, options};

    #[test]
    fn a_socket_stays_over_a_reload_and_its_file_goes_with_it() {
        let log = Log::to_memory(LogLevel::Info);
        let directory = TempDir::new();
        let path = directory.path().join("metrics");
        let logging = options(&format!("MetricsListen {}", path.display())).logging;
        let first = socket_of(&logging, None, &log).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&first.fd);
        let second = socket_of(&logging, Some(first), &log).unwrap();
        assert_eq!(std::os::fd::AsRawFd::as_raw_fd(&second.fd), number);
        assert!(second.accept().unwrap().is_none());
        let client = UnixStream::connect(&path).unwrap();
        assert!(second.accept().unwrap().is_some());
        drop((client, second));
        assert!(!path.exists());
        assert!(socket_of(&options("").logging, None, &log).is_none());
        assert_eq!(log.lines(), Vec::<String>::new());
    }

    #[test]
    fn only_the_socket_of_a_server_that_has_ended_is_replaced() {
        let log = Log::to_memory(LogLevel::Info);
        let directory = TempDir::new();
        let path = directory.path().join("metrics");
        let logging = options(&format!("MetricsListen {}", path.display())).logging;
        // Its file stays when it is closed, as that of a server that has been killed.
        let killed = UnixListener::bind(&path).unwrap();
        assert!(socket_of(&logging, None, &log).is_none());
        let said = format!(
            "error: MetricsListen {}: another server may be listening there; each server needs a path of its own",
            path.display()
        );
        assert_eq!(log.lines(), [said.as_str()]);
        drop(killed);
        let serving = socket_of(&logging, None, &log).unwrap();
        let client = UnixStream::connect(&path).unwrap();
        assert!(serving.accept().unwrap().is_some());
        // A second server neither takes it nor removes it.
        assert!(socket_of(&logging, None, &log).is_none());
        assert_eq!(log.lines(), [said.as_str(), &said]);
        // The question whether somebody listens was a connection.
        assert!(serving.accept().unwrap().is_some());
        drop(client);
        let client = UnixStream::connect(&path).unwrap();
        assert!(serving.accept().unwrap().is_some());
        drop(client);
    }

    #[test]
    fn what_is_no_socket_is_neither_removed_nor_fatal() {
        let log = Log::to_memory(LogLevel::Info);
        let directory = TempDir::new();
        let path = directory.path().join("file");
        std::fs::write(&path, "mine").unwrap();
        let logging = options(&format!("MetricsListen {}", path.display())).logging;
        assert!(socket_of(&logging, None, &log).is_none());
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        assert!(
            log.lines()[0].starts_with("error: MetricsListen /"),
            "{:?}",
            log.lines()
        );
    }

    #[test]
    fn the_file_is_written_at_its_time_and_failures_are_logged_once() {
        let log = Log::to_memory(LogLevel::Info);
        let directory = TempDir::new();
        let path = directory.path().join("sshd.prom");
        let logging = options(&format!("MetricsFile {}", path.display())).logging;
        let mut file = file_of(&logging, None, 1000).unwrap();
        assert_eq!(file.due_ms(), 1000);
        file.write("a 1\n", 1000, &log);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a 1\n");
        assert_eq!(file.due_ms(), 16_000);
        let mut file = file_of(&logging, Some(file), 2000).unwrap();
        assert_eq!(file.due_ms(), 16_000);
        let lost = directory.path().join("gone");
        file.path = lost.join("sshd.prom");
        file.write("a 2\n", 16_000, &log);
        file.write("a 3\n", 31_000, &log);
        assert_eq!(log.lines().len(), 1);
        std::fs::create_dir(&lost).unwrap();
        file.write("a 4\n", 46_000, &log);
        let written = file.path.clone();
        assert!(written.exists());
        drop(file);
        assert!(!written.exists());
    }
}
