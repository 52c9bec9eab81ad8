//! `/etc/passwd`, `/etc/group` and `/etc/nsswitch.conf`, read directly.
//!
//! The files belong to the administrator, but a malformed line must not hide the
//! others or end the process: it is skipped. Lines that NIS compatibility uses
//! (`+`, `-`) are never accounts here.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{Group, User};
use crate::Gid;

/// Where the accounts are.
pub const PASSWD: &str = "/etc/passwd";
/// Where the groups are.
pub const GROUP: &str = "/etc/group";
const NSSWITCH: &str = "/etc/nsswitch.conf";

/// The most groups of one user that are kept (Linux `NGROUPS_MAX`).
const MAX_GROUPS: usize = 65_536;
/// The longest line that counts, bytes; longer ones are skipped whole.
const MAX_LINE_LEN: usize = 1 << 20;

/// The file, as this process has read it.
enum Switch {
    Text(String),
    Missing,
    Unreadable,
}

/// The text of nsswitch.conf(5), read once: a login asks five times, and each process that
/// asks serves one login.
fn nsswitch() -> &'static Switch {
    static SWITCH: OnceLock<Switch> = OnceLock::new();
    SWITCH.get_or_init(|| match std::fs::read_to_string(NSSWITCH) {
        Ok(text) => Switch::Text(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Switch::Missing,
        Err(_) => Switch::Unreadable,
    })
}

/// What nsswitch.conf(5) says about one database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    /// The file is asked first, and what it has is the answer.
    pub files_first: bool,
    /// The file is the only source: what it has not does not exist.
    pub files_decide: bool,
}

impl Sources {
    /// Reads the line of `database`. A missing file or line means files only.
    #[must_use]
    pub fn of(database: &str) -> Self {
        match nsswitch() {
            Switch::Text(text) => Self::parse(text, database).unwrap_or(Self::FILES),
            Switch::Missing => Self::FILES,
            Switch::Unreadable => Self::NSS,
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

    /// The line of `database` in the text of an nsswitch.conf; `None` without one.
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

    /// Whether the group file alone says who is in which group. Beside it, systemd's
    /// source is tolerated when this machine has none of the records it reads.
    #[must_use]
    pub(super) fn groups_from_files() -> bool {
        let text = match nsswitch() {
            Switch::Text(text) => text,
            Switch::Missing => return true,
            Switch::Unreadable => return false,
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

/// Whether systemd knows memberships of its own: user records in a userdb
/// directory, or systemd-homed.
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

/// The sources and actions of a database, an action in brackets as one word.
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

/// The first account of that name in a passwd(5) file.
///
/// # Errors
/// When the file cannot be read.
pub fn find_user_named(path: impl AsRef<Path>, name: &str) -> io::Result<Option<User>> {
    find_line(path.as_ref(), |line| {
        is_of(line, name).then(|| parse_user(line)).flatten()
    })
}

/// Whether a line of such a file is that name's. It is asked before anything is taken apart: a
/// login meets a hundred lines of others.
pub(super) fn is_of(line: &[u8], name: &str) -> bool {
    let rest = line.strip_prefix(name.as_bytes());
    rest.is_some_and(|rest| rest.first() == Some(&b':'))
}

/// The first account of a passwd(5) file that `wanted` accepts.
///
/// # Errors
/// When the file cannot be read.
pub fn find_user(
    path: impl AsRef<Path>,
    wanted: impl Fn(&User) -> bool,
) -> io::Result<Option<User>> {
    find_line(path.as_ref(), |line| parse_user(line).filter(&wanted))
}

/// The first group of a group(5) file that `wanted` accepts.
///
/// # Errors
/// When the file cannot be read.
pub fn find_group(
    path: impl AsRef<Path>,
    wanted: impl Fn(&Group) -> bool,
) -> io::Result<Option<Group>> {
    find_line(path.as_ref(), |line| parse_group(line).filter(&wanted))
}

/// The groups that name the user as a member, after the primary one.
///
/// # Errors
/// When the file cannot be read.
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

/// The names of groups, in the order of `gids`; none for one that the file does not have. The
/// first group with an id is the one that is meant.
///
/// # Errors
/// When the file cannot be read.
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

/// Applies `parse` to each line until it gives something. Lines over the limit are
/// skipped whole: the rest of one is never taken for a line of its own.
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
    // u32::MAX means "no change" to the kernel's calls: never an id.
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

/// One line of passwd(5); `None` when it is not an account.
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

/// One line of group(5); `None` when it is not a group.
#[must_use]
pub fn parse_group(line: &[u8]) -> Option<Group> {
    let group = GroupLine::of(line)?;
    Some(Group {
        name: text(group.name),
        gid: group.gid,
        members: group.members().map(text).collect(),
    })
}

/// A line of group(5) where it lies.
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
