//! User and group ids of this process: dropping to a user permanently, with verification, and
//! acting as a user temporarily (to open the user's files).

use std::io;

use crate::ffi::check;
use crate::{Gid, Uid};

/// A user's ids as a process carries them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// User id.
    pub uid: Uid,
    /// Id of the primary group.
    pub gid: Gid,
    /// Complete list of supplementary groups.
    pub groups: Vec<Gid>,
}

/// Effective user id of this process.
#[must_use]
pub fn effective_uid() -> Uid {
    rustix::process::geteuid().as_raw()
}

/// True if the effective user is root.
#[must_use]
pub fn is_root() -> bool {
    effective_uid() == 0
}

/// Effective ids and supplementary groups of this process.
///
/// # Errors
/// The kernel's error.
pub fn own_credentials() -> io::Result<Credentials> {
    let groups = rustix::process::getgroups()?;
    Ok(Credentials {
        uid: effective_uid(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups
            .into_iter()
            .map(rustix::process::Gid::as_raw)
            .collect(),
    })
}

/// Real ids and supplementary groups of this process: those of the user who started it, even if the
/// program is set-user-ID.
///
/// # Errors
/// The kernel's error.
pub fn real_credentials() -> io::Result<Credentials> {
    Ok(Credentials {
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        ..own_credentials()?
    })
}

/// True if this process has other rights than the user who started it: a set-user-ID or set-group-ID
/// program.
#[must_use]
pub fn is_elevated() -> bool {
    rustix::process::getuid() != rustix::process::geteuid()
        || rustix::process::getgid() != rustix::process::getegid()
}

/// Gives up the group of a set-group-ID program for good, in all threads. False, and nothing has
/// changed, if the process also has another user's rights.
///
/// # Errors
/// If the kernel refuses, or the group could be had again.
pub fn give_up_group() -> io::Result<bool> {
    let before = ids()?;
    let [user, ..] = before.uids;
    let [group, ..] = before.gids;
    if before.uids != [user; 3] {
        return Ok(false);
    }
    // SAFETY: three numbers; glibc applies it to every thread.
    check(unsafe { libc::setresgid(group, group, group) })?;
    match ids()?.gids == [group; 3] {
        true => Ok(true),
        false => Err(io::Error::other("the group is still there")),
    }
}

fn set_groups(groups: &[Gid]) -> io::Result<()> {
    // SAFETY: pointer and count describe a live slice that is only read.
    check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    Ok(())
}

/// Changes to `user` permanently, in all threads: supplementary groups, then real, effective and
/// saved group, then user; and verifies that the change cannot be undone. A process without
/// privilege may only "change" to its own user.
///
/// If a step fails half-way or privileges can be regained, the process aborts (SIGABRT), because it
/// must not continue with mixed privileges.
///
/// # Errors
/// `PermissionDenied` if the process is not root and not already `user`; nothing has changed then.
pub fn become_user(user: &Credentials) -> io::Result<()> {
    if !is_root() {
        let ids = ids()?;
        if ids.uids == [user.uid; 3] && ids.gids == [user.gid; 3] {
            return Ok(());
        }
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "only root can become another user",
        ));
    }
    let changed = set_groups(&user.groups)
        // SAFETY: three numbers; glibc applies it to every thread.
        .and_then(|()| check(unsafe { libc::setresgid(user.gid, user.gid, user.gid) }))
        // SAFETY: as above.
        .and_then(|_| check(unsafe { libc::setresuid(user.uid, user.uid, user.uid) }));
    if changed.is_err() || !is_irreversible(user) {
        std::process::abort();
    }
    Ok(())
}

struct Ids {
    uids: [Uid; 3],
    gids: [Gid; 3],
}

fn ids() -> io::Result<Ids> {
    let mut uids = [0; 3];
    let mut gids = [0; 3];
    let [real, effective, saved] = &mut uids;
    // SAFETY: three pointers to live integers.
    check(unsafe { libc::getresuid(real, effective, saved) })?;
    let [real, effective, saved] = &mut gids;
    // SAFETY: three pointers to live integers.
    check(unsafe { libc::getresgid(real, effective, saved) })?;
    Ok(Ids { uids, gids })
}

/// True if this process has exactly the ids of `user` and, unless that is root, cannot change to
/// another user.
fn is_irreversible(user: &Credentials) -> bool {
    let Ok(ids) = ids() else { return false };
    if ids.uids != [user.uid; 3] || ids.gids != [user.gid; 3] {
        return false;
    }
    let Ok(now) = own_credentials() else {
        return false;
    };
    let mut have = now.groups;
    let mut want = user.groups.clone();
    have.sort_unstable();
    have.dedup();
    want.sort_unstable();
    want.dedup();
    // The kernel may list the primary group among the supplementary groups.
    if have
        .iter()
        .any(|gid| *gid != user.gid && !want.contains(gid))
    {
        return false;
    }
    if user.uid == 0 {
        return true;
    }
    // SAFETY: these calls must fail; if one succeeds, the caller aborts.
    unsafe {
        let uid_regained = libc::setuid(0) == 0
            || libc::seteuid(0) == 0
            || libc::setresuid(libc::uid_t::MAX, libc::uid_t::MAX, 0) == 0;
        let gid_regained = user.gid != 0 && (libc::setgid(0) == 0 || libc::setegid(0) == 0);
        let groups_regained = libc::setgroups(0, std::ptr::null()) == 0;
        !uid_regained && !gid_regained && !groups_regained
    }
}

/// Acts as a user (effective ids and supplementary groups) until dropped, so that the kernel checks
/// the user's permissions when files are opened. Real and saved ids do not change, so this is not a
/// sandbox. All threads of the process change.
///
/// If restoring the ids fails, the process aborts (SIGABRT).
#[derive(Debug)]
pub struct AsUser {
    before: Option<Credentials>,
}

impl AsUser {
    /// Starts to act as `user`. Without privilege it succeeds only for the current user and changes
    /// nothing.
    ///
    /// # Errors
    /// `PermissionDenied` for another user without privilege, else the kernel's error.
    pub fn enter(user: &Credentials) -> io::Result<Self> {
        let before = own_credentials()?;
        if before.uid != 0 {
            if before.uid == user.uid {
                return Ok(Self { before: None });
            }
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "only root can act as another user",
            ));
        }
        let guard = Self {
            before: Some(before),
        };
        set_groups(&user.groups)?;
        // SAFETY: one number; on failure the guard restores the ids.
        check(unsafe { libc::setegid(user.gid) })?;
        // SAFETY: as above.
        check(unsafe { libc::seteuid(user.uid) })?;
        Ok(guard)
    }
}

impl Drop for AsUser {
    fn drop(&mut self) {
        let Some(before) = &self.before else { return };
        // SAFETY: numbers only; the saved user id is still root.
        let back = check(unsafe { libc::seteuid(before.uid) })
            // SAFETY: as above.
            .and_then(|_| check(unsafe { libc::setegid(before.gid) }))
            .and_then(|_| set_groups(&before.groups));
        if back.is_err() {
            std::process::abort();
        }
    }
}

/// Sets a user's supplementary groups in this process, without changing user or primary group,
/// until dropped: PAM modules that grant groups (pam_group) add them to the process's groups.
///
/// If restoring the groups fails, the process aborts (SIGABRT).
#[derive(Debug)]
pub struct WithGroups {
    before: Vec<Gid>,
}

impl WithGroups {
    /// Replaces the supplementary groups of this process with `groups`.
    ///
    /// # Errors
    /// The kernel's error: `PermissionDenied` without privilege.
    pub fn enter(groups: &[Gid]) -> io::Result<Self> {
        let before = own_credentials()?.groups;
        set_groups(groups)?;
        Ok(Self { before })
    }

    /// The current supplementary groups of this process.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn now(&self) -> io::Result<Vec<Gid>> {
        Ok(own_credentials()?.groups)
    }
}

impl Drop for WithGroups {
    fn drop(&mut self) {
        if set_groups(&self.before).is_err() {
            std::process::abort();
        }
    }
}
