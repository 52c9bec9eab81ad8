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
/// Time between two checks that the socket of MetricsListen is open and its file in place.
const CHECK_INTERVAL_MS: u64 = 5_000;

/// MetricsListen of the configuration in force, whether its socket is open or not.
///
/// Of two servers that start at the same moment with one path, both may find the socket of a server that
/// has ended, and one may remove the new socket of the other. [`MetricsListener::check`] finds that, and
/// whatever else has removed the file, such as a cleaner of temporary files.
#[derive(Debug)]
pub(super) struct MetricsListener {
    /// The value of MetricsListen.
    place: String,
    socket: Option<MetricsSocket>,
    /// Why the socket could not be opened, as it was logged.
    failure: Option<String>,
    /// Monotonic milliseconds of the next check; `None` if there is nothing to check.
    check_due_ms: Option<u64>,
}

impl MetricsListener {
    /// What a (new) configuration asks for: `old`, if it is at the same place.
    pub(super) fn of(
        logging: &LoggingOptions,
        old: Option<Self>,
        now_ms: u64,
        log: &Log,
    ) -> Option<Self> {
        let place = &logging.metrics_listen;
        if place.is_empty() {
            return None;
        }
        let same = old.filter(|old| old.place == *place);
        let mut listener = same.unwrap_or_else(|| Self {
            place: place.clone(),
            socket: None,
            failure: None,
            check_due_ms: None,
        });
        // A reload tells again what is wrong.
        listener.failure = None;
        listener.check(now_ms, log);
        Some(listener)
    }

    /// The socket, if it is open.
    pub(super) fn socket(&self) -> Option<&MetricsSocket> {
        self.socket.as_ref()
    }

    /// Monotonic milliseconds of the next [`MetricsListener::check`]; `None` if none is needed.
    pub(super) fn check_due_ms(&self) -> Option<u64> {
        self.check_due_ms
    }

    /// True if somebody can connect: the socket is open, and its file is in place.
    fn is_reachable(&self) -> bool {
        self.socket
            .as_ref()
            .is_some_and(MetricsSocket::is_reachable)
    }

    /// Opens the socket if nobody can connect; returns true if it is a new one. A failure is logged, the
    /// same one once: logins matter more than metrics.
    pub(super) fn check(&mut self, now_ms: u64, log: &Log) -> bool {
        let place = &self.place;
        let mut is_new = false;
        if !self.is_reachable() {
            if self.socket.take().is_some() {
                log.info(&format!(
                    "MetricsListen {place}: the socket's file has gone"
                ));
            }
            match MetricsSocket::open(place) {
                Ok(socket) => {
                    self.socket = Some(socket);
                    is_new = true;
                    if self.failure.take().is_some() {
                        log.info(&format!("MetricsListen {place}: listening"));
                    }
                }
                Err(error) => {
                    let why = error.to_string();
                    if self.failure.as_ref() != Some(&why) {
                        log.error(&format!("MetricsListen {place}: {why}"));
                    }
                    self.failure = Some(why);
                }
            }
        }
        // Nobody can take the place of a socket with an address.
        let is_safe = |socket: &MetricsSocket| socket.file.is_none();
        let needs_check = !self.socket.as_ref().is_some_and(is_safe);
        self.check_due_ms = needs_check.then(|| now_ms.saturating_add(CHECK_INTERVAL_MS));
        is_new
    }
}

/// The open socket of MetricsListen. Its file is removed when it is dropped.
#[derive(Debug)]
pub(super) struct MetricsSocket {
    fd: OwnedFd,
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
                let (fd, file) = listen_at(Path::new(place))?;
                (fd, Some(file))
            }
        };
        Ok(Self { fd, file })
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
/// listens stays, as does a file that is no socket, or somebody else's.
fn listen_at(path: &Path) -> io::Result<(OwnedFd, SocketFile)> {
    // The socket gets its path when it listens already, so that no other server takes it for one
    // that is abandoned, and its file is known before another server can replace it.
    let number = u32::from_be_bytes(crypto::random::bytes());
    let name = format!(".{number:08x}");
    // No longer than the name itself, which may be as long as an address permits; three digits at least.
    let own_bytes = path.file_name().map_or(0, |own| own.len());
    let first_path =
        path.with_file_name(name.get(..own_bytes.clamp(4, name.len())).unwrap_or(&name));
    let fd = sys::socket::listen_unix(&first_path, BACKLOG, SOCKET_MASK)?;
    let file = std::fs::symlink_metadata(&first_path).map(|found| SocketFile::new(path, &found));
    let linked = link_socket(&first_path, path);
    let _ = std::fs::remove_file(&first_path);
    linked.and(file).map(|file| (fd, file))
}

/// Gives the socket at `first_path` the name `path`, too, which a server that has ended may have left.
fn link_socket(first_path: &Path, path: &Path) -> io::Result<()> {
    let link = || std::fs::hard_link(first_path, path);
    let taken = || {
        io::Error::other(
            "another server may be listening there; each server needs a path of its own",
        )
    };
    match link() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // Another server may be here at the same moment: only the file that was looked at goes.
            let found = SocketFile::at(path)?;
            if !sys::socket::is_abandoned(path) {
                return Err(taken());
            }
            if found.is_in_place() && !sys::socket::unlink_own_socket(path)? {
                return Err(error);
            }
            link().map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => taken(),
                _ => error,
            })
        }
        linked => linked,
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

/// Why the file of MetricsFile cannot be written, as far as it can be seen beforehand.
pub(super) fn fault_of_file(logging: &LoggingOptions) -> Option<String> {
    let path = logging.metrics_file.as_deref()?;
    let is_directory = |path: &Path| std::fs::metadata(path).map(|found| found.is_dir());
    if is_directory(Path::new(path)).is_ok_and(|is| is) {
        return Some(format!("MetricsFile {path}: is a directory"));
    }
    let parent = Path::new(path).parent();
    let parent = parent.filter(|found| !found.as_os_str().is_empty())?;
    let shown = parent.display();
    match is_directory(parent) {
        Ok(true) => None,
        Ok(false) => Some(format!("MetricsFile {path}: {shown} is not a directory")),
        Err(error) => Some(format!("MetricsFile {path}: {shown}: {error}")),
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
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    use privsep::LogLevel;

    use super::*;
    use crate::test_support::{TempDir, options};

    /// A listener for MetricsListen with this path.
    fn listener_at(path: &Path, log: &Log) -> MetricsListener {
        let logging = options(&format!("MetricsListen {}", path.display())).logging;
        MetricsListener::of(&logging, None, 0, log).unwrap()
    }

    /// True if a client of `path` reaches the socket of `listener`.
    fn serves(listener: &MetricsListener, path: &Path) -> bool {
        let _client = UnixStream::connect(path).unwrap();
        listener.socket().unwrap().accept().unwrap().is_some()
    }

    #[test]
    fn a_socket_stays_over_a_reload_and_its_file_goes_with_it() {
        let log = Log::to_memory(LogLevel::Info);
        let directory = TempDir::new();
        let path = directory.path().join("metrics");
        let logging = options(&format!("MetricsListen {}", path.display())).logging;
        let number = |listener: &MetricsListener| listener.socket().unwrap().fd().as_raw_fd();
        let first = MetricsListener::of(&logging, None, 0, &log).unwrap();
        let before = number(&first);
        let second = MetricsListener::of(&logging, Some(first), 1, &log).unwrap();
        assert_eq!(number(&second), before);
        assert!(second.socket().unwrap().accept().unwrap().is_none());
        assert!(serves(&second, &path));
        drop(second);
        assert!(!path.exists());
        assert!(MetricsListener::of(&options("").logging, None, 2, &log).is_none());
        assert_eq!(log.lines(), Vec::<String>::new());
    }

    #[test]
    fn a_server_waits_for_the_place_that_another_one_has() {
        let log = Log::to_memory(LogLevel::Info);
        let directory = TempDir::new();
        let path = directory.path().join("metrics");
        // Its file stays when it is closed, as that of a server that has been killed.
        let other = UnixListener::bind(&path).unwrap();
        let mut waiting = listener_at(&path, &log);
        let place = format!("MetricsListen {}", path.display());
        let said = format!(
            "error: {place}: another server may be listening there; each server needs a path of its own"
        );
        assert!(waiting.socket().is_none());
        assert_eq!(log.lines(), [said.as_str()]);
        assert_eq!(waiting.check_due_ms(), Some(CHECK_INTERVAL_MS));
        // The same failure is no news; a reload tells it again.
        waiting.check(CHECK_INTERVAL_MS, &log);
        assert_eq!(log.lines().len(), 1);
        let logging = options(&place).logging;
        let mut waiting = MetricsListener::of(&logging, Some(waiting), 6_000, &log).unwrap();
        assert_eq!(log.lines(), [said.as_str(), &said]);
        drop(other);
        waiting.check(11_000, &log);
        assert!(serves(&waiting, &path));
        assert_eq!(log.lines()[2..], [format!("{place}: listening")]);
        // A further server neither takes it nor removes it.
        drop(listener_at(&path, &log));
        assert_eq!(log.lines()[3..], [said]);
        // The question whether somebody listens was a connection.
        assert!(waiting.socket().unwrap().accept().unwrap().is_some());
        assert!(serves(&waiting, &path));
    }

    #[test]
    fn a_server_whose_file_was_taken_notices_it_and_gets_it_back() {
        let log = Log::to_memory(LogLevel::Info);
        let directory = TempDir::new();
        let path = directory.path().join("metrics");
        let mut first = listener_at(&path, &log);
        // As if both had found the file of a server that has ended.
        std::fs::remove_file(&path).unwrap();
        let second = listener_at(&path, &log);
        assert!(!first.is_reachable() && second.is_reachable());
        assert!(!first.check(CHECK_INTERVAL_MS, &log));
        assert!(first.socket().is_none());
        let lines = log.lines();
        assert!(
            lines[0].ends_with(": the socket's file has gone"),
            "{lines:?}"
        );
        assert!(lines[1].contains("another server may be"), "{lines:?}");
        // The first one has not removed it.
        assert!(second.socket().unwrap().accept().unwrap().is_some());
        assert!(serves(&second, &path));
        drop(second);
        assert!(first.check(2 * CHECK_INTERVAL_MS, &log));
        assert!(serves(&first, &path));
    }

    #[test]
    fn of_servers_that_start_at_once_one_serves_in_the_end() {
        let directory = TempDir::new();
        let path = directory.path().join("metrics");
        for _ in 0..20 {
            drop(UnixListener::bind(&path).unwrap());
            let barrier = std::sync::Barrier::new(4);
            let start = || {
                let log = Log::to_memory(LogLevel::Info);
                barrier.wait();
                listener_at(&path, &log)
            };
            let mut all: Vec<MetricsListener> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
                let ends = threads.into_iter().map(|thread| thread.join().unwrap());
                ends.collect()
            });
            let log = Log::to_memory(LogLevel::Info);
            for listener in &mut all {
                listener.check(CHECK_INTERVAL_MS, &log);
            }
            let open: Vec<_> = all.iter().filter(|each| each.socket().is_some()).collect();
            assert_eq!(open.len(), 1, "{:?}", log.lines());
            assert!(open[0].is_reachable());
            drop(all);
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_free_address_is_opened_once_and_needs_no_check() {
        let log = Log::to_memory(LogLevel::Info);
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let place = format!("MetricsListen {}", other.local_addr().unwrap());
        let logging = options(&place).logging;
        let mut waiting = MetricsListener::of(&logging, None, 0, &log).unwrap();
        assert!(waiting.socket().is_none() && waiting.check_due_ms().is_some());
        drop(other);
        waiting.check(CHECK_INTERVAL_MS, &log);
        assert!(waiting.is_reachable(), "{:?}", log.lines());
        assert_eq!(waiting.check_due_ms(), None);
    }

    #[test]
    fn what_is_no_socket_is_neither_removed_nor_fatal() {
        let log = Log::to_memory(LogLevel::Info);
        let directory = TempDir::new();
        let path = directory.path().join("file");
        std::fs::write(&path, "mine").unwrap();
        assert!(listener_at(&path, &log).socket().is_none());
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
