//! The lists of trusted hosts and users: /etc/hosts.equiv, /etc/ssh/shosts.equiv, ~/.shosts and
//! ~/.rhosts (sshd(8), FILES).
//!
//! A line is a host, or a host and a user; without a user, the user's own name. `-` before either
//! refuses, `+` before either means nothing, and `+` alone is passed over, as in OpenSSH. `@` begins
//! the name of a netgroup.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use config::server::IgnoreRhosts;
use sys::file::FollowLinks;

use super::HostLookup;

/// Lists of the administrator, which do not count for root.
const SYSTEM_FILES: [&str; 2] = ["/etc/hosts.equiv", "/etc/ssh/shosts.equiv"];
/// The list that counts with `IgnoreRhosts shosts-only`.
const SHOSTS: &str = ".shosts";
/// Lists of the user, below the home directory.
const USER_FILES: [&str; 2] = [SHOSTS, ".rhosts"];
/// Limit on a list, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Longest line, in bytes; OpenSSH reads as much at once.
const MAX_LINE_BYTES: usize = 1023;

/// True if only root or the user `uid` could have written the file.
pub(super) fn is_safe(metadata: &Metadata, uid: u32) -> bool {
    (metadata.uid() == 0 || metadata.uid() == uid) && metadata.mode() & 0o022 == 0
}

/// The user of another host who asks to log in.
#[derive(Debug, Clone, Copy)]
struct Guest<'a> {
    host: &'a str,
    address: &'a str,
    /// The name on the client's host.
    user: &'a str,
    /// The name here, which a line without a user means.
    own_name: &'a str,
}

/// The verdict of a list about a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Silent,
    Accepts,
    Refuses,
}

impl HostLookup<'_> {
    /// True if a list lets `user` of the host with this name and address in as the account.
    pub(super) fn is_trusted(&self, host: &str, address: &str, user: &str) -> bool {
        let guest = Guest {
            host,
            address,
            user,
            own_name: &self.account.name,
        };
        if self.account.uid == 0 {
            self.log.debug("root user, ignoring system hosts files");
        } else {
            for path in SYSTEM_FILES {
                let list = sys::file::read_bounded(path, MAX_FILE_BYTES, FollowLinks::Follow);
                if self.accepts(list, path, guest) {
                    self.log
                        .debug(&format!("Accepted for {host} [{address}] by {path}."));
                    return true;
                }
            }
        }
        self.home_is_safe()
            && USER_FILES
                .into_iter()
                .any(|name| self.user_file(name, guest))
    }

    fn home_is_safe(&self) -> bool {
        let home = &self.account.home;
        let name = super::shortened(&self.account.name);
        let refused = |why: &str| {
            self.log
                .info(&format!("Rhosts authentication refused for {name}: {why}"));
            false
        };
        match std::fs::metadata(home) {
            Err(_) => refused(&format!("no home directory {home}")),
            Ok(metadata)
                if self.options.user_keys.strict_modes && !is_safe(&metadata, self.account.uid) =>
            {
                refused("bad ownership or modes for home directory.")
            }
            Ok(_) => true,
        }
    }

    /// Reads a list of the user with the user's rights; true if it lets the guest in.
    fn user_file(&self, name: &str, guest: Guest<'_>) -> bool {
        let ignored = match self.options.authentication.ignore_rhosts {
            IgnoreRhosts::Yes => true,
            IgnoreRhosts::No => false,
            IgnoreRhosts::ShostsOnly => name != SHOSTS,
        };
        let path = Path::new(&self.account.home).join(name);
        let place = path.display().to_string();
        let Some(as_user) = self.as_user() else {
            return false;
        };
        let (file, metadata) = match sys::file::open_regular_known(&path, FollowLinks::Follow) {
            Ok(opened) => opened,
            Err(error) => return self.accepts(Err(error), &place, guest),
        };
        if self.options.user_keys.strict_modes && !is_safe(&metadata, self.account.uid) {
            let name = super::shortened(&self.account.name);
            self.log.info(&format!(
                "Rhosts authentication refused for {name}: bad modes for {place}"
            ));
            return false;
        }
        if ignored {
            self.log
                .debug(&format!("Server has been configured to ignore {name}."));
            return false;
        }
        let list = sys::file::read_file_bounded(&file, MAX_FILE_BYTES);
        drop(as_user);
        let accepted = self.accepts(list, &place, guest);
        if accepted {
            let Guest {
                host,
                address,
                user,
                own_name,
            } = guest;
            self.log.debug(&format!(
                "Accepted host {host} ip {address} client_user {user} server_user {own_name} by {name}"
            ));
        }
        accepted
    }

    fn accepts(&self, list: io::Result<Vec<u8>>, place: &str, guest: Guest<'_>) -> bool {
        let list = match list {
            Ok(list) => list,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.log.info(&format!("{place}: {error}"));
                }
                return false;
            }
        };
        let word = judge(&list, guest, sys::users::is_in_netgroup);
        if word == Word::Refuses {
            self.log
                .debug(&format!("Matched negative entry in {place}."));
        }
        word == Word::Accepts
    }
}

/// Membership in a netgroup, of a host or of a user.
type IsMember = fn(group: &str, host: Option<&str>, user: Option<&str>) -> bool;

/// The verdict of the first line that matches the guest.
fn judge(list: &[u8], guest: Guest<'_>, is_member: IsMember) -> Word {
    let lines = list.split(|byte| *byte == b'\n');
    let fitting = lines.filter(|line| line.len() <= MAX_LINE_BYTES);
    fitting
        .filter_map(|line| std::str::from_utf8(line).ok())
        .map(|line| judge_line(line, guest, is_member))
        .find(|word| *word != Word::Silent)
        .unwrap_or(Word::Silent)
}

fn judge_line(line: &str, guest: Guest<'_>, is_member: IsMember) -> Word {
    let mut words = line.split_ascii_whitespace();
    let (host, user) = match (words.next(), words.next(), words.next()) {
        (Some(host), user, None) if !host.starts_with('#') && !host.starts_with("NO_PLUS") => {
            (host, user.unwrap_or(guest.own_name))
        }
        _ => return Word::Silent,
    };
    let (host_refuses, host) = signed(host);
    let (user_refuses, user) = signed(user);
    if host.is_empty() || user.is_empty() {
        return Word::Silent;
    }
    let host_fits = match host.strip_prefix('@') {
        Some(group) => {
            is_member(group, Some(guest.host), None) || is_member(group, Some(guest.address), None)
        }
        None => host.eq_ignore_ascii_case(guest.host) || host == guest.address,
    };
    let user_fits = || match user.strip_prefix('@') {
        Some(group) => is_member(group, None, Some(guest.user)),
        None => user == guest.user,
    };
    match host_fits && user_fits() {
        false => Word::Silent,
        true if host_refuses || user_refuses => Word::Refuses,
        true => Word::Accepts,
    }
}

/// Splits off `-`, which refuses, or `+`, which means nothing.
fn signed(word: &str) -> (bool, &str) {
    match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word.strip_prefix('+').unwrap_or(word)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUEST: Guest<'_> = Guest {
        host: "a.example",
        address: "192.0.2.1",
        user: "ann",
        own_name: "ann",
    };

    fn says(list: &str, guest: Guest<'_>) -> Word {
        judge(list.as_bytes(), guest, |group, host, user| {
            (group == "hosts" && host == Some("a.example"))
                || (group == "people" && user == Some("ann"))
        })
    }

    #[test]
    fn a_line_without_a_user_means_the_same_name() {
        assert_eq!(says("a.example\n", GUEST), Word::Accepts);
        let other = Guest {
            user: "bob",
            ..GUEST
        };
        assert_eq!(says("a.example\n", other), Word::Silent);
        assert_eq!(says("a.example bob", other), Word::Accepts);
        assert_eq!(says("192.0.2.1 bob", other), Word::Accepts);
        assert_eq!(says("A.EXAMPLE ann", GUEST), Word::Accepts);
        assert_eq!(says("a.example ANN", GUEST), Word::Silent);
    }

    #[test]
    fn the_first_line_about_the_guest_decides() {
        for list in ["-a.example\na.example\n", "a.example -ann\na.example\n"] {
            assert_eq!(says(list, GUEST), Word::Refuses, "{list}");
        }
        assert_eq!(says("a.example\n-a.example\n", GUEST), Word::Accepts);
        assert_eq!(says("-b.example\na.example\n", GUEST), Word::Accepts);
    }

    #[test]
    fn wildcards_comments_and_garbage_let_nobody_in() {
        let long = format!("a.example ann{}", " ".repeat(MAX_LINE_BYTES));
        for list in [
            "+",
            "+ +",
            "a.example +",
            "+ ann",
            "#a.example",
            "  # a.example",
            "NO_PLUS",
            "",
            "a.example ann x",
            "-",
            "a.exampl",
            &long,
            "a.example\0",
        ] {
            assert_eq!(says(list, GUEST), Word::Silent, "{list:?}");
        }
        assert_eq!(says("+a.example +ann", GUEST), Word::Accepts);
    }

    #[test]
    fn netgroups_name_hosts_and_users() {
        assert_eq!(says("@hosts", GUEST), Word::Accepts);
        assert_eq!(says("@others", GUEST), Word::Silent);
        assert_eq!(says("a.example @people", GUEST), Word::Accepts);
        assert_eq!(says("-@hosts\na.example", GUEST), Word::Refuses);
        assert_eq!(says("a.example -@people\na.example", GUEST), Word::Refuses);
    }
}
