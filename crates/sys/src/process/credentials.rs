//! Which user a process is: dropping to a user for good, verified, and acting as a
//! user for a while (opening their files).

use std::io;

use crate::ffi::check;
use crate::{Gid, Uid};

/// A user's ids as a process carries them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub uid: Uid,
    /// The primary group.
    pub gid: Gid,
    /// Supplementary groups, complete: nothing of the caller's own stays.
    pub groups: Vec<Gid>,
}

/// Our effective user.
#[must_use]
pub fn effective_uid() -> Uid {
    rustix::process::geteuid().as_raw()
}

/// Whether we may change users.
#[must_use]
pub fn is_root() -> bool {
    effective_uid() == 0
}

/// What this process is now (effective ids, supplementary groups).
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

fn set_groups(groups: &[Gid]) -> io::Result<()> {
    // SAFETY: pointer and count describe a live slice that is only read.
    check(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    Ok(())
}

/// Becomes `user` for good: supplementary groups, then real, effective and saved
/// group, then user, in all threads; and verifies that nothing leads back. An
/// ordinary process may only "become" what it is.
///
/// When a step fails half-way or the way back is open, the process ends with
/// SIGABRT: to go on with mixed privileges is never right.
///
/// # Errors
/// `PermissionDenied` when we are not root and not already `user`; nothing has
/// changed then.
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

/// Whether this process is exactly `user` and, unless that is root, can become
/// nobody else.
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
    // The kernel may list the primary group among the others.
    if have
        .iter()
        .any(|gid| *gid != user.gid && !want.contains(gid))
    {
        return false;
    }
    if user.uid == 0 {
        return true;
    }
    // SAFETY: these calls must fail; one that succeeds makes the caller abort.
    unsafe {
        let uid_regained = libc::setuid(0) == 0
            || libc::seteuid(0) == 0
            || libc::setresuid(libc::uid_t::MAX, libc::uid_t::MAX, 0) == 0;
        let gid_regained = user.gid != 0 && (libc::setgid(0) == 0 || libc::setegid(0) == 0);
        let groups_regained = libc::setgroups(0, std::ptr::null()) == 0;
        !uid_regained && !gid_regained && !groups_regained
    }
}

/// Acts as a user (effective ids and supplementary groups) until dropped: for
/// opening files that only the user may name, with the kernel checking. Real and
/// saved ids stay, so this is no sandbox. All threads of the process change.
///
/// If the way back fails, the process ends with SIGABRT.
#[derive(Debug)]
pub struct AsUser {
    before: Option<Credentials>,
}

impl AsUser {
    /// Starts to act as `user`. Without privilege it works only for ourselves and
    /// changes nothing.
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
        // SAFETY: one number; on failure the guard goes back.
        check(unsafe { libc::setegid(user.gid) })?;
        // SAFETY: as above.
        check(unsafe { libc::seteuid(user.uid) })?;
        Ok(guard)
    }
}

impl Drop for AsUser {
    fn drop(&mut self) {
        let Some(before) = &self.before else { return };
        // SAFETY: numbers only; the saved user is still root.
        let back = check(unsafe { libc::seteuid(before.uid) })
            // SAFETY: as above.
            .and_then(|_| check(unsafe { libc::setegid(before.gid) }))
            .and_then(|_| set_groups(&before.groups));
        if back.is_err() {
            std::process::abort();
        }
    }
}

/// Has a user's supplementary groups in this process, and nothing else of the user's, until
/// dropped: modules that hand out groups (pam_group) add theirs to what they find here.
///
/// If the way back fails, the process ends with SIGABRT.
#[derive(Debug)]
pub struct WithGroups {
    before: Vec<Gid>,
}

impl WithGroups {
    /// Takes on `groups` in place of our own.
    ///
    /// # Errors
    /// The kernel's error: `PermissionDenied` without privilege.
    pub fn enter(groups: &[Gid]) -> io::Result<Self> {
        let before = own_credentials()?.groups;
        set_groups(groups)?;
        Ok(Self { before })
    }

    /// What they are by now, whoever changed them.
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
