//! Text shown before the command: PAM's messages, the last login, the message of the day; or the
//! text of /etc/nologin instead of the command.

use std::path::{Path, PathBuf};

use config::server::SessionOptions;
use privsep::{LastLogin, SessionGrant};

/// Limit on a text file, in bytes.
const MAX_TEXT_BYTES: u64 = 64 * 1024;

/// The text before a login shell on a terminal, with CR LF line ends.
pub(super) fn greeting(
    grant: &SessionGrant,
    session: &SessionOptions,
    last: Option<&LastLogin>,
) -> Vec<u8> {
    if is_hushed(&grant.home) {
        return Vec::new();
    }
    let mut text = grant.login_messages.clone().into_bytes();
    if text.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
    if session.print_last_log
        && let Some(last) = last
    {
        text.extend(last_login_line(last).into_bytes());
    }
    if session.print_motd && !grant.pam_shows_motd {
        text.extend(read_text(Path::new("/etc/motd")).unwrap_or_default());
    }
    with_carriage_returns(&text)
}

/// The file that keeps users other than root from logging in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Nologin {
    pub(super) path: &'static str,
    /// The text for the user.
    pub(super) text: Vec<u8>,
}

/// /etc/nologin if the file exists; `None` for root.
pub(super) fn nologin(uid: u32) -> Option<Nologin> {
    if uid == 0 {
        return None;
    }
    let path = ["/var/run/nologin", "/etc/nologin"]
        .into_iter()
        .find(|path| Path::new(path).exists())?;
    let text = read_text(Path::new(path)).unwrap_or_default();
    Some(Nologin { path, text })
}

/// Reads a regular file of at most `MAX_TEXT_BYTES`; never blocks on a FIFO or device.
pub(super) fn read_text(path: &Path) -> Option<Vec<u8>> {
    read_file(path, MAX_TEXT_BYTES)
}

/// As [`read_text`], with the caller's limit.
pub(super) fn read_file(path: &Path, max_bytes: u64) -> Option<Vec<u8>> {
    sys::file::read_bounded(path, max_bytes, sys::file::FollowLinks::Follow).ok()
}

fn is_hushed(home: &str) -> bool {
    PathBuf::from(home).join(".hushlogin").exists()
}

fn last_login_line(last: &LastLogin) -> String {
    let time = sys::time::LocalTime::from_seconds(i64::try_from(last.time).unwrap_or(0)).to_ctime();
    if last.host.is_empty() {
        format!("Last login: {time}\n")
    } else {
        format!(
            "Last login: {time} from {}\n",
            privsep::log_text(&last.host)
        )
    }
}

/// Converts line ends to CR LF, as a terminal does.
pub(super) fn with_carriage_returns(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 16);
    let mut before = 0;
    for byte in text {
        if *byte == b'\n' && before != b'\r' {
            out.push(b'\r');
        }
        out.push(*byte);
        before = *byte;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_the_terminals() {
        assert_eq!(with_carriage_returns(b"a\nb\r\n\n"), b"a\r\nb\r\n\r\n");
    }

    #[test]
    fn the_last_login_names_time_and_host_and_no_escape() {
        let line = last_login_line(&LastLogin {
            time: 1_763_759_523,
            host: "h\u{1b}[2J".into(),
        });
        assert!(line.starts_with("Last login: "), "{line}");
        assert!(line.ends_with(" from h\\033[2J\n"), "{line}");
        let line = last_login_line(&LastLogin {
            time: 0,
            host: String::new(),
        });
        assert!(!line.contains("from"), "{line}");
    }

    #[test]
    fn root_logs_in_whatever_nologin_says() {
        assert_eq!(nologin(0), None);
    }
}
