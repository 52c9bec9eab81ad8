//! The system log: datagrams to `/dev/log`, through a descriptor that can be opened before a chroot
//! and passed on.
//!
//! The caller escapes text of peers; as a last safeguard this module escapes control characters
//! too, so that one message stays one line.

use escape::LogLevel;
use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{SendFlags, SocketAddrUnix};

use crate::ffi::retry;
use crate::time::LocalTime;

const DEV_LOG: &str = "/dev/log";
/// Longest message in bytes; receivers cut at 1 to 8 KiB.
const MAX_MESSAGE_LEN: usize = 4096;

/// Source of a message (RFC 3164 §4.1.1), with the values of syslog.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Facility {
    /// User programs.
    User = 1,
    /// Daemons.
    Daemon = 3,
    /// Authentication.
    Auth = 4,
    /// Authentication, private.
    AuthPriv = 10,
    /// Local use 0.
    Local0 = 16,
    /// Local use 1.
    Local1 = 17,
    /// Local use 2.
    Local2 = 18,
    /// Local use 3.
    Local3 = 19,
    /// Local use 4.
    Local4 = 20,
    /// Local use 5.
    Local5 = 21,
    /// Local use 6.
    Local6 = 22,
    /// Local use 7.
    Local7 = 23,
}

impl Facility {
    /// The facility of a `SyslogFacility` name (case-insensitive).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let known = [
            ("USER", Self::User),
            ("DAEMON", Self::Daemon),
            ("AUTH", Self::Auth),
            ("AUTHPRIV", Self::AuthPriv),
            ("LOCAL0", Self::Local0),
            ("LOCAL1", Self::Local1),
            ("LOCAL2", Self::Local2),
            ("LOCAL3", Self::Local3),
            ("LOCAL4", Self::Local4),
            ("LOCAL5", Self::Local5),
            ("LOCAL6", Self::Local6),
            ("LOCAL7", Self::Local7),
        ];
        let mut known = known.into_iter();
        known
            .find(|(text, _)| text.eq_ignore_ascii_case(name))
            .map(|(_, facility)| facility)
    }
}

/// Severity of a line in the system log (RFC 3164 §4.1.1), as OpenSSH maps its levels.
fn severity(level: LogLevel) -> u8 {
    match level {
        LogLevel::Quiet | LogLevel::Fatal => 2,
        LogLevel::Error => 3,
        LogLevel::Info | LogLevel::Verbose => 6,
        LogLevel::Debug1 | LogLevel::Debug2 | LogLevel::Debug3 => 7,
    }
}

/// Makes lines that libraries, such as PAM modules, write by syslog(3) begin with `sshd[pid]`, by
/// which log readers recognise them, and not with the process title. The libraries choose facility
/// and level.
pub fn name_this_program() {
    // SAFETY: the name is static, as openlog requires; the socket is opened with the first line.
    unsafe { libc::openlog(c"sshd".as_ptr(), libc::LOG_PID, libc::LOG_AUTH) };
}

/// A connection to the system log.
#[derive(Debug)]
pub struct Syslog {
    socket: Option<OwnedFd>,
    facility: Facility,
    tag: String,
}

impl Syslog {
    /// Connects to `/dev/log`. Without a log daemon this does not fail: each write tries to connect
    /// again.
    #[must_use]
    pub fn open(tag: &str, facility: Facility) -> Self {
        let mut log = Self {
            socket: None,
            facility,
            tag: escape::escape(tag, escape::Style::Ascii),
        };
        log.connect();
        // The zone file must be read before a chroot.
        let _ = LocalTime::from_seconds(0);
        log
    }

    /// Uses a socket that was opened elsewhere.
    #[must_use]
    pub fn from_fd(socket: OwnedFd, tag: &str, facility: Facility) -> Self {
        Self {
            socket: Some(socket),
            facility,
            tag: escape::escape(tag, escape::Style::Ascii),
        }
    }

    /// The socket, for passing it to a child.
    #[must_use]
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(OwnedFd::as_fd)
    }

    fn connect(&mut self) {
        self.socket = connect_to(DEV_LOG).ok();
    }

    /// Logs one message. Never blocks: the message is lost if the log does not accept it.
    ///
    /// # Errors
    /// The error that lost the message.
    pub fn write(&mut self, level: LogLevel, message: &str) -> io::Result<()> {
        let (now, _) = crate::time::realtime();
        let now = LocalTime::from_seconds(i64::try_from(now).unwrap_or(0));
        let text = render(self.facility, level, &now, &self.tag, message);
        for attempt in 0..2 {
            if self.socket.is_none() {
                self.connect();
            }
            let Some(socket) = &self.socket else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match retry(|| rustix::net::send(socket, text.as_bytes(), flags)) {
                Ok(_) => return Ok(()),
                // A log daemon that was restarted has a new socket.
                Err(error) if attempt == 0 && error.kind() != io::ErrorKind::WouldBlock => {
                    self.socket = None;
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::NotConnected.into())
    }
}

fn connect_to(path: &str) -> io::Result<OwnedFd> {
    let socket = crate::socket::unix_datagram()?;
    // Above the standard three descriptors, which a role may replace.
    let socket = if socket.as_raw_fd() < 3 {
        crate::io::dup(socket)?
    } else {
        socket
    };
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn render(
    facility: Facility,
    level: LogLevel,
    now: &LocalTime,
    tag: &str,
    message: &str,
) -> String {
    let priority = u32::from(facility as u8) * 8 + u32::from(severity(level));
    let pid = std::process::id();
    let mut text = format!("<{priority}>{} {tag}[{pid}]: ", now.to_syslog());
    let message = escape::escape_at_most(message, escape::Style::Ascii, MAX_MESSAGE_LEN);
    let _ = write!(text, "{message}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_with_priority_and_tag() {
        let now = LocalTime::from_seconds(0);
        let text = render(
            Facility::AuthPriv,
            LogLevel::Info,
            &now,
            "sshd",
            "user a\nAccepted \x1b[31m",
        );
        assert!(text.starts_with("<86>"));
        assert!(text.contains(&format!(" sshd[{}]: ", std::process::id())));
        assert!(text.ends_with("user a\\012Accepted \\033[31m"));
        let long = "ü".repeat(MAX_MESSAGE_LEN);
        let text = render(Facility::Auth, LogLevel::Error, &now, "t", &long);
        assert!(text.len() < MAX_MESSAGE_LEN + 100);
    }

    #[test]
    fn messages_go_through_a_socket_from_outside() {
        let (ours, theirs) = crate::socket::seqpacket_pair().unwrap();
        let mut log = Syslog::from_fd(ours, "te\nst", Facility::Daemon);
        log.write(LogLevel::Error, "hello").unwrap();
        let mut buffer = [0; 256];
        let count = crate::io::read(&theirs, &mut buffer).unwrap();
        let text = std::str::from_utf8(&buffer[..count]).unwrap();
        assert!(
            text.starts_with("<27>") && text.contains("te\\012st["),
            "{text}"
        );
        assert!(log.socket().is_some());
    }

    #[test]
    fn facilities_have_their_names() {
        assert_eq!(Facility::from_name("auth"), Some(Facility::Auth));
        assert_eq!(Facility::from_name("LOCAL7"), Some(Facility::Local7));
        assert_eq!(Facility::from_name("LOCAL8"), None);
    }
}
