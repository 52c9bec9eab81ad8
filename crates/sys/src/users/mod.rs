//! Accounts of the machine: users, groups, shadow entries, password hashes.
//!
//! `/etc/passwd` and `/etc/group` are read directly if `/etc/nsswitch.conf` permits (20 µs instead
//! of 300); otherwise NSS is used, which loads modules into this process, so only roles that may do
//! that should look up users. Names come from peers; the caller checks their form, and no name is
//! used in a path.

pub mod crypt;
pub mod files;
pub mod shadow;

mod nss;

#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use crate::process::Credentials;
use crate::{Gid, Uid};

pub use shadow::{PasswordState, Shadow};

/// Longest user or group name that is looked up, in bytes.
pub const MAX_NAME_LEN: usize = 256;

/// An account, as passwd(5) describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// Password field: `x` for accounts with a shadow entry.
    pub password_field: String,
    /// User id.
    pub uid: Uid,
    /// Primary group.
    pub gid: Gid,
    /// Full name and other comment fields.
    pub gecos: String,
    /// Home directory.
    pub home: PathBuf,
    /// Login shell; never empty (`/bin/sh` replaces an empty field).
    pub shell: PathBuf,
}

impl User {
    /// The user's ids for a process.
    ///
    /// # Errors
    /// If the groups cannot be looked up.
    pub fn credentials(&self) -> io::Result<Credentials> {
        Ok(Credentials {
            uid: self.uid,
            gid: self.gid,
            groups: groups_of(self)?,
        })
    }
}

/// A group, as group(5) describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Group name.
    pub name: String,
    /// Group id.
    pub gid: Gid,
    /// Names of its members, without the users whose primary group it is.
    pub members: Vec<String>,
}

fn is_plausible(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME_LEN
        && !name
            .bytes()
            .any(|byte| matches!(byte, 0 | b':' | b'\n' | b'/' | b','))
}

/// Returns the account with this name; `None` if there is none.
///
/// # Errors
/// If the databases cannot be read, which does not mean "no such user".
pub fn by_name(name: &str) -> io::Result<Option<User>> {
    if !is_plausible(name) {
        return Ok(None);
    }
    let sources = files::Sources::of("passwd");
    if sources.files_first {
        let found = files::find_user_named(files::PASSWD, name)?;
        if found.is_some() || sources.files_decide {
            return Ok(found);
        }
    }
    nss::user_by_name(name)
}

/// Returns the first account with this id; `None` if there is none.
///
/// # Errors
/// As [`by_name`].
pub fn by_uid(uid: Uid) -> io::Result<Option<User>> {
    let sources = files::Sources::of("passwd");
    if sources.files_first {
        let found = files::find_user(files::PASSWD, |user| user.uid == uid)?;
        if found.is_some() || sources.files_decide {
            return Ok(found);
        }
    }
    nss::user_by_uid(uid)
}

/// Returns all groups of a user without duplicates, the primary group first.
///
/// # Errors
/// As [`by_name`].
pub fn groups_of(user: &User) -> io::Result<Vec<Gid>> {
    if files::Sources::groups_from_files() {
        return files::groups_of(files::GROUP, user);
    }
    nss::groups_of(&user.name, user.gid)
}

/// True if the netgroup contains the host or the user, whichever is given.
#[must_use]
pub fn is_in_netgroup(group: &str, host: Option<&str>, user: Option<&str>) -> bool {
    nss::is_in_netgroup(group, host, user)
}

/// Returns the group with this name; `None` if there is none.
///
/// # Errors
/// As [`by_name`].
pub fn group_by_name(name: &str) -> io::Result<Option<Group>> {
    if !is_plausible(name) {
        return Ok(None);
    }
    group(|group| group.name == name, || nss::group_by_name(name))
}

/// Returns the first group with this id; `None` if there is none.
///
/// # Errors
/// As [`by_name`].
pub fn group_by_gid(gid: Gid) -> io::Result<Option<Group>> {
    group(|group| group.gid == gid, || nss::group_by_gid(gid))
}

fn group(
    wanted: impl Fn(&Group) -> bool,
    ask_nss: impl FnOnce() -> io::Result<Option<Group>>,
) -> io::Result<Option<Group>> {
    let sources = files::Sources::of("group");
    if sources.files_first {
        let found = files::find_group(files::GROUP, wanted)?;
        if found.is_some() || sources.files_decide {
            return Ok(found);
        }
    }
    ask_nss()
}

/// As [`groups_of`], with the names of the groups (for `AllowGroups` and `Match Group`); groups
/// without a name are omitted from the names.
///
/// # Errors
/// As [`by_name`].
pub fn groups_and_names_of(user: &User) -> io::Result<(Vec<Gid>, Vec<String>)> {
    let gids = groups_of(user)?;
    let sources = files::Sources::of("group");
    let mut names = if sources.files_first {
        files::names_of_groups(files::GROUP, &gids)?
    } else {
        vec![None; gids.len()]
    };
    if !sources.files_decide {
        for (gid, name) in gids.iter().zip(&mut names) {
            if name.is_none() {
                *name = nss::group_by_gid(*gid)?.map(|group| group.name);
            }
        }
    }
    Ok((gids, names.into_iter().flatten().collect()))
}

/// Returns only the names of [`groups_and_names_of`].
///
/// # Errors
/// As [`by_name`].
pub fn group_names_of(user: &User) -> io::Result<Vec<String>> {
    Ok(groups_and_names_of(user)?.1)
}
