//! Accounts of the machine: users, groups, shadow entries, password hashes.
//!
//! `/etc/passwd` and `/etc/group` are read directly when `/etc/nsswitch.conf` says
//! that they decide (20 µs instead of 300); else NSS is asked, which loads its
//! modules into this process: only where a role may do that. Names come from
//! peers; the caller checks their form, and no name here ever becomes a path.

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

/// The longest user or group name that is looked up, bytes.
pub const MAX_NAME_LEN: usize = 256;

/// An account, as passwd(5) describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// The password field: `x` for accounts with a shadow entry.
    pub password_field: String,
    /// User id.
    pub uid: Uid,
    /// Primary group.
    pub gid: Gid,
    /// Full name and the like.
    pub gecos: String,
    /// Home directory.
    pub home: PathBuf,
    /// Login shell; never empty (`/bin/sh` stands for an empty field).
    pub shell: PathBuf,
}

impl User {
    /// The ids a process of this user carries.
    ///
    /// # Errors
    /// When the groups cannot be looked up.
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
    /// Its name.
    pub name: String,
    /// Its id.
    pub gid: Gid,
    /// Names of its members (not those that have it as their primary group).
    pub members: Vec<String>,
}

fn is_plausible(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME_LEN
        && !name
            .bytes()
            .any(|byte| matches!(byte, 0 | b':' | b'\n' | b'/' | b','))
}

/// The account of that name; `None` when there is none.
///
/// # Errors
/// When the databases cannot be read: that is not "no such user".
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

/// The first account with that id; `None` when there is none.
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

/// All groups of a user, the primary one first, each once.
///
/// # Errors
/// As [`by_name`].
pub fn groups_of(user: &User) -> io::Result<Vec<Gid>> {
    if files::Sources::groups_from_files() {
        return files::groups_of(files::GROUP, user);
    }
    nss::groups_of(&user.name, user.gid)
}

/// The group of that name; `None` when there is none.
///
/// # Errors
/// As [`by_name`].
pub fn group_by_name(name: &str) -> io::Result<Option<Group>> {
    if !is_plausible(name) {
        return Ok(None);
    }
    group(|group| group.name == name, || nss::group_by_name(name))
}

/// The first group with that id; `None` when there is none.
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

/// All groups of a user as [`groups_of`], and their names (for `AllowGroups` and `Match Group`);
/// groups without a name are left out of the names.
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

/// The names of [`groups_and_names_of`] alone.
///
/// # Errors
/// As [`by_name`].
pub fn group_names_of(user: &User) -> io::Result<Vec<String>> {
    Ok(groups_and_names_of(user)?.1)
}
