//! Version exchange, RFC 4253 §4.2.
//!
//! A server accepts nothing before the client's identification line; a client accepts up to
//! [`MAX_LINES_BEFORE`] other lines first. An identification line has at most 255 bytes including
//! CR LF.

use alloc::string::String;

use bytes::BytesMut;

use crate::quirks::Quirks;
use crate::{Error, Role};

/// Maximum lines that a server may send before its identification line.
const MAX_LINES_BEFORE: usize = 1024;
/// Maximum length of such a line, bytes.
const MAX_LINE_BYTES: usize = 8 * 1024;
/// Maximum length of an identification line, bytes, including CR LF.
const MAX_VERSION_BYTES: usize = 255;

/// Result of reading the next line.
pub(super) enum VersionLine {
    /// No complete line yet.
    Incomplete,
    /// A line before the identification line.
    Before(String),
    /// The peer's identification line, without CR LF.
    Version(String),
}

/// Identification lines of both sides, without CR LF.
pub(crate) struct VersionExchange {
    ours: String,
    /// `None` before it has arrived.
    peer: Option<String>,
    preamble: PreambleLines,
}

impl VersionExchange {
    /// Our line ends with `comment`, if there is one, and names OpenSSH first if `names_openssh`.
    pub(super) fn new(names_openssh: bool, comment: &str) -> Self {
        let mut ours = String::from("SSH-2.0-");
        if names_openssh {
            ours.push_str(crate::OPENSSH_NAME);
            ours.push(' ');
        }
        ours.push_str(crate::SOFTWARE_NAME);
        ours.push_str(env!("CARGO_PKG_VERSION"));
        if !comment.is_empty() {
            ours.push(' ');
            ours.push_str(comment);
        }
        Self {
            ours,
            peer: None,
            preamble: PreambleLines::default(),
        }
    }

    /// Continues from a snapshot, after both lines.
    pub(crate) fn resumed(ours: String, peer: String) -> Self {
        Self {
            ours,
            peer: Some(peer),
            preamble: PreambleLines::default(),
        }
    }

    pub(crate) fn ours(&self) -> &str {
        &self.ours
    }

    pub(crate) fn peer(&self) -> Option<&str> {
        self.peer.as_deref()
    }

    /// The peer's quirks; the default before its line has arrived.
    pub(crate) fn peer_quirks(&self) -> Quirks {
        Quirks::of(self.peer().unwrap_or_default())
    }

    /// Takes the next line from `buffer`, up to the peer's identification line.
    ///
    /// # Errors
    /// [`Error::NotSsh`], and [`Error::PeerMisbehaved`] past the limits.
    pub(super) fn handle(
        &mut self,
        buffer: &mut BytesMut,
        role: Role,
    ) -> Result<VersionLine, Error> {
        let line = self.preamble.next(buffer, role)?;
        if let VersionLine::Version(peer) = &line {
            self.peer = Some(peer.clone());
        }
        Ok(line)
    }
}

/// Counts the lines before the identification line.
#[derive(Debug, Default)]
struct PreambleLines {
    before: usize,
}

impl PreambleLines {
    /// Takes one line from `buffer`.
    ///
    /// # Errors
    /// [`Error::NotSsh`], and [`Error::PeerMisbehaved`] past the limits.
    fn next(&mut self, buffer: &mut BytesMut, role: Role) -> Result<VersionLine, Error> {
        let Some(end) = buffer.iter().position(|byte| *byte == b'\n') else {
            let limit = match role {
                Role::Client => MAX_LINE_BYTES,
                Role::Server => MAX_VERSION_BYTES,
            };
            if buffer.len() > limit {
                return Err(Error::PeerMisbehaved("version line too long"));
            }
            // A client that does not begin like SSH is refused at once.
            if role == Role::Server && !could_be_ssh(buffer) {
                return Err(Error::NotSsh(printable(buffer)));
            }
            return Ok(VersionLine::Incomplete);
        };
        let raw = buffer.split_to(end + 1);
        let line = trim(&raw);
        if line.starts_with(b"SSH-") {
            if raw.len() > MAX_VERSION_BYTES {
                return Err(Error::PeerMisbehaved("version line too long"));
            }
            return check(line).map(VersionLine::Version);
        }
        if role == Role::Server {
            return Err(Error::NotSsh(printable(line)));
        }
        self.before += 1;
        if self.before > MAX_LINES_BEFORE || raw.len() > MAX_LINE_BYTES {
            return Err(Error::PeerMisbehaved(
                "too much text before the version line",
            ));
        }
        Ok(VersionLine::Before(printable(line)))
    }
}

fn trim(raw: &[u8]) -> &[u8] {
    let line = raw.strip_suffix(b"\n").unwrap_or(raw);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn could_be_ssh(start: &[u8]) -> bool {
    let prefix = b"SSH-";
    let len = start.len().min(prefix.len());
    start.get(..len) == prefix.get(..len)
}

fn check(line: &[u8]) -> Result<String, Error> {
    let text = core::str::from_utf8(line).map_err(|_| Error::NotSsh(printable(line)))?;
    // RFC 4253 §4.2: printable US-ASCII; NUL and control characters indicate an attack.
    if !text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) {
        return Err(Error::NotSsh(printable(line)));
    }
    if text.starts_with("SSH-2.0-") || text.starts_with("SSH-1.99-") {
        Ok(String::from(text))
    } else {
        Err(Error::NotSsh(String::from(text)))
    }
}

/// At most 255 characters, escaped for a terminal.
fn printable(bytes: &[u8]) -> String {
    escape::escape_at_most(bytes, escape::Style::Ascii, 255)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(input: &[u8], role: Role) -> Result<VersionLine, Error> {
        PreambleLines::default().next(&mut BytesMut::from(input), role)
    }

    #[test]
    fn a_server_takes_nothing_before_the_version_line() {
        assert!(matches!(
            first(b"GET / HTTP/1.1\r\n", Role::Server),
            Err(Error::NotSsh(_))
        ));
        assert!(matches!(
            first(b"GET ", Role::Server),
            Err(Error::NotSsh(_))
        ));
        assert!(matches!(
            first(b"SS", Role::Server),
            Ok(VersionLine::Incomplete)
        ));
    }

    #[test]
    fn a_client_takes_a_bounded_number_of_lines_before_it() {
        let mut lines = PreambleLines::default();
        for _ in 0..MAX_LINES_BEFORE {
            let line = lines.next(&mut BytesMut::from(&b"hello\r\n"[..]), Role::Client);
            assert!(matches!(line, Ok(VersionLine::Before(text)) if text == "hello"));
        }
        assert!(
            lines
                .next(&mut BytesMut::from(&b"x\n"[..]), Role::Client)
                .is_err()
        );
    }

    #[test]
    fn odd_version_lines() {
        let long = [b"SSH-2.0-".as_slice(), &[b'a'; 300], b"\r\n"].concat();
        for role in [Role::Client, Role::Server] {
            assert!(matches!(
                first(b"SSH-2.0-x\r\n", role),
                Ok(VersionLine::Version(_))
            ));
            assert!(matches!(
                first(b"SSH-2.0-x\n", role),
                Ok(VersionLine::Version(_))
            ));
            assert!(matches!(
                first(b"SSH-1.99-x\n", role),
                Ok(VersionLine::Version(_))
            ));
            assert!(first(b"SSH-1.5-x\n", role).is_err());
            assert!(first(b"SSH-2.0-a\0b\n", role).is_err());
            assert!(first(b"SSH-2.0-\xff\n", role).is_err());
            assert!(first(&long, role).is_err());
        }
    }
}
