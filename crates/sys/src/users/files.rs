//! `/etc/passwd`, `/etc/group` and `/etc/nsswitch.conf`, parsed directly.
//!
//! A malformed line must neither hide the other lines nor end the process: it is skipped. Lines for
//! NIS compatibility (`+`, `-`) are never accounts.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{Group, User};
use crate::Gid;

/// Path of the account database.
pub const PASSWD: &str = "/etc/passwd";
/// Path of the group database.
pub const GROUP: &str = "/etc/group";
const NSSWITCH: &str = "/etc/nsswitch.conf";

/// Limit on the groups of one user (Linux `NGROUPS_MAX`).
const MAX_GROUPS: usize = 65_536;
/// Longest line in bytes; longer lines are skipped entirely.
const MAX_LINE_LEN: usize = 1 << 20;

/// Content of nsswitch.conf as read by this process.
enum NssSwitch {
    Text(String),
    Missing,
    Unreadable,
}

/// Returns the content of nsswitch.conf(5), read once: a login looks it up five times, and each
/// process serves one login.
fn nsswitch() -> &'static NssSwitch {
    static SWITCH: OnceLock<NssSwitch> = OnceLock::new();
    SWITCH.get_or_init(|| match std::fs::read_to_string(NSSWITCH) {
        Ok(text) => NssSwitch::Text(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => NssSwitch::Missing,
        Err(_) => NssSwitch::Unreadable,
    })
}

/// Sources of one database by nsswitch.conf(5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    /// The file is the first source, and an entry found in it is final.
    pub files_first: bool,
    /// The file is the only source: an entry that it does not have does not exist.
    pub files_decide: bool,
}

impl Sources {
    /// Parses the line of `database`. A missing file or line means files only.
    #[must_use]
    pub fn of(database: &str) -> Self {
        match nsswitch() {
            NssSwitch::Text(text) => Self::parse(text, database).unwrap_or(Self::FILES),
            NssSwitch::Missing => Self::FILES,
            NssSwitch::Unreadable => Self::NSS,
        }
    }

    const FILES: Self = Self {
        files_first: true,
        files_decide: true,
    };
    const NSS: Self = Self {
        files_first: false,
        files_decide: false,
    };

    /// Parses the line of `database` in the text of an nsswitch.conf; `None` if it has no such
    /// line.
    #[must_use]
    pub fn parse(text: &str, database: &str) -> Option<Self> {
        let words = words_of(text, database)?;
        let files_first = words.first().is_some_and(|word| word == "files")
            && !words.get(1).is_some_and(|word| word.starts_with('['));
        Some(Self {
            files_first,
            files_decide: files_first && words.len() == 1,
        })
    }

    /// True if the group file is the only source of memberships. systemd's source may be listed
    /// besides it if this machine has none of the records that it reads.
    #[must_use]
    pub(super) fn groups_from_files() -> bool {
        let text = match nsswitch() {
            NssSwitch::Text(text) => text,
            NssSwitch::Missing => return true,
            NssSwitch::Unreadable => return false,
        };
        let words = words_of(text, "initgroups").or_else(|| words_of(text, "group"));
        let Some(words) = words else { return true };
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["files"] => true,
            ["files", "systemd"] => !has_systemd_records(),
            _ => false,
        }
    }
}

/// True if systemd has memberships of its own: user records in a userdb directory, or
/// systemd-homed.
fn has_systemd_records() -> bool {
    const DIRECTORIES: [&str; 4] = [
        "/etc/userdb",
        "/run/userdb",
        "/run/host/userdb",
        "/usr/lib/userdb",
    ];
    DIRECTORIES.iter().any(|path| Path::new(path).exists())
        || Path::new("/run/systemd/userdb/io.systemd.Home").exists()
}

/// The sources and actions of a database; an action in brackets is one word.
fn words_of(text: &str, database: &str) -> Option<Vec<String>> {
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let Some((name, rest)) = line.split_once(':') else {
            continue;
        };
        if name.trim() != database {
            continue;
        }
        let mut words: Vec<String> = Vec::new();
        let mut open_action = false;
        for word in rest.split_whitespace() {
            match words.last_mut() {
                Some(action) if open_action => action.push_str(word),
                _ => words.push(word.to_owned()),
            }
            open_action = words
                .last()
                .is_some_and(|last| last.starts_with('[') && !last.ends_with(']'));
        }
        return Some(words);
    }
    None
}

/// Returns the first account with this name in a passwd(5) file.
///
/// # Errors
/// If the file cannot be read.
pub fn find_user_named(path: impl AsRef<Path>, name: &str) -> io::Result<Option<User>> {
    find_line(path.as_ref(), |line| {
        has_name(line, name).then(|| parse_user(line)).flatten()
    })
}

/// True if the line's first field is `name`. Checked before the line is parsed, because a login
/// reads about a hundred lines of other users.
pub(super) fn has_name(line: &[u8], name: &str) -> bool {
    let rest = line.strip_prefix(name.as_bytes());
    rest.is_some_and(|rest| rest.first() == Some(&b':'))
}

/// Returns the first account of a passwd(5) file that `wanted` accepts.
///
/// # Errors
/// If the file cannot be read.
pub fn find_user(
    path: impl AsRef<Path>,
    wanted: impl Fn(&User) -> bool,
) -> io::Result<Option<User>> {
    find_line(path.as_ref(), |line| parse_user(line).filter(&wanted))
}

/// Returns the first group of a group(5) file that `wanted` accepts.
///
/// # Errors
/// If the file cannot be read.
pub fn find_group(
    path: impl AsRef<Path>,
    wanted: impl Fn(&Group) -> bool,
) -> io::Result<Option<Group>> {
    find_line(path.as_ref(), |line| parse_group(line).filter(&wanted))
}

/// Returns the user's primary group and then the groups that list the user as a member, without
/// duplicates.
///
/// # Errors
/// If the file cannot be read.
pub fn groups_of(path: impl AsRef<Path>, user: &User) -> io::Result<Vec<Gid>> {
    let mut gids = vec![user.gid];
    find_line(path.as_ref(), |line| {
        if let Some(group) = GroupLine::of(line)
            && group.members().any(|name| name == user.name.as_bytes())
            && !gids.contains(&group.gid)
            && gids.len() < MAX_GROUPS
        {
            gids.push(group.gid);
        }
        None::<()>
    })?;
    Ok(gids)
}

/// Returns the names of groups, in the order of `gids`; `None` for an id that is not in the file.
/// Of several groups with one id the first counts.
///
/// # Errors
/// If the file cannot be read.
pub fn names_of_groups(path: impl AsRef<Path>, gids: &[Gid]) -> io::Result<Vec<Option<String>>> {
    let mut names = vec![None; gids.len()];
    find_line(path.as_ref(), |line| {
        let group = GroupLine::of(line)?;
        for (gid, name) in gids.iter().zip(&mut names) {
            if *gid == group.gid && name.is_none() {
                *name = Some(text(group.name));
            }
        }
        names.iter().all(Option::is_some).then_some(())
    })?;
    Ok(names)
}

/// Applies `parse` to each line until it returns a value. Lines over the limit are skipped
/// entirely: their rest is not parsed as another line.
pub(super) fn find_line<T>(
    path: &Path,
    mut parse: impl FnMut(&[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    let mut reader = BufReader::with_capacity(16 * 1024, File::open(path)?);
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let available = reader.fill_buf()?;
        if available.is_empty() {
            let last = (!too_long && !line.is_empty()).then_some(line);
            return Ok(last.and_then(|line| parse(&line)));
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let piece = available.get(..end.unwrap_or(available.len()));
        let piece = piece.unwrap_or_default();
        if line.len() + piece.len() > MAX_LINE_LEN {
            too_long = true;
            line.clear();
        } else if !too_long {
            line.extend_from_slice(piece);
        }
        let used = piece.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            if !too_long && let Some(found) = parse(&line) {
                return Ok(Some(found));
            }
            line.clear();
            too_long = false;
        }
    }
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).into_owned()
}

fn number(field: &[u8]) -> Option<u32> {
    let field = std::str::from_utf8(field).ok()?;
    // u32::MAX means "no change" in system calls and is not a valid id.
    let is_number = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
    let value = field.parse().ok().filter(|value| *value != u32::MAX);
    value.filter(|_| is_number)
}

fn is_name(field: &[u8]) -> bool {
    match field.first() {
        None | Some(b'+' | b'-' | b'#') => false,
        Some(_) => std::str::from_utf8(field).is_ok(),
    }
}

/// Parses a line of passwd(5); `None` if it is not an account.
#[must_use]
pub fn parse_user(line: &[u8]) -> Option<User> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
    let [name, password, uid, gid, gecos, home, shell] = fields[..] else {
        return None;
    };
    if !is_name(name) {
        return None;
    }
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(field.to_vec()));
    Some(User {
        name: text(name),
        password_field: text(password),
        uid: number(uid)?,
        gid: number(gid)?,
        gecos: text(gecos),
        home: path(home),
        shell: if shell.is_empty() {
            PathBuf::from("/bin/sh")
        } else {
            path(shell)
        },
    })
}

/// Parses a line of group(5); `None` if it is not a group.
#[must_use]
pub fn parse_group(line: &[u8]) -> Option<Group> {
    let group = GroupLine::of(line)?;
    Some(Group {
        name: text(group.name),
        gid: group.gid,
        members: group.members().map(text).collect(),
    })
}

/// A parsed line of group(5) that borrows its fields.
struct GroupLine<'a> {
    name: &'a [u8],
    gid: Gid,
    list: &'a [u8],
}

impl<'a> GroupLine<'a> {
    fn of(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b':');
        let (name, _password) = (fields.next()?, fields.next()?);
        let (gid, list) = (fields.next()?, fields.next()?);
        if fields.next().is_some() || !is_name(name) {
            return None;
        }
        Some(Self {
            name,
            gid: number(gid)?,
            list,
        })
    }

    fn members(&self) -> impl Iterator<Item = &'a [u8]> {
        let members = self.list.split(|byte| *byte == b',');
        members.filter(|name| !name.is_empty())
    }
}
