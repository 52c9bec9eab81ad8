//! Account lookups through libc, which loads the NSS modules that `/etc/nsswitch.conf` names.

#[cfg(target_env = "gnu")]
use std::ffi::CString;
use std::ffi::{OsString, c_char};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::{Group, User};
use crate::ffi::{c_string, copy_c_str};
use crate::{Gid, Uid};

/// Initial buffer size in bytes; it doubles up to the limit if a module needs more.
const FIRST_BUFFER: usize = 4 * 1024;
/// Buffer limit in bytes, enough for a group with a hundred thousand members.
const MAX_BUFFER: usize = 4 * 1024 * 1024;
/// Longest field that is copied, in bytes.
const MAX_FIELD: usize = 64 * 1024;
/// Limit on the groups of one user (Linux `NGROUPS_MAX`).
const MAX_GROUPS: usize = 65_536;
/// Limit on the members of one group that are copied.
const MAX_MEMBERS: usize = 1 << 20;

/// Calls a `get…_r` function with growing buffers. `call` returns the error code and the entry, if
/// found.
fn with_buffer<T>(
    mut call: impl FnMut(&mut [c_char]) -> (i32, Option<T>),
) -> io::Result<Option<T>> {
    let mut len = FIRST_BUFFER;
    crate::signals::mark_altered_by_others();
    loop {
        let mut buffer: Vec<c_char> = vec![0; len];
        let (code, found) = call(&mut buffer);
        for byte in &mut buffer {
            // The buffer may hold a password hash; a volatile write is not optimised away.
            // SAFETY: a plain write through a valid reference.
            unsafe { std::ptr::write_volatile(byte, 0) };
        }
        match code {
            0 => return Ok(found),
            libc::ERANGE if len < MAX_BUFFER => len *= 2,
            libc::EINTR => {}
            // By getpwnam(3) these codes may mean "not found" too.
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            code => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

// glibc's; the crate libc does not declare it.
#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn innetgr(
        group: *const c_char,
        host: *const c_char,
        user: *const c_char,
        domain: *const c_char,
    ) -> i32;
}

/// Nobody is in a netgroup: musl has none. Only the server asks, which no build with musl has.
#[cfg(not(target_env = "gnu"))]
pub(super) fn is_in_netgroup(_group: &str, _host: Option<&str>, _user: Option<&str>) -> bool {
    false
}

/// innetgr(3); a text with a NUL is in no netgroup.
#[cfg(target_env = "gnu")]
pub(super) fn is_in_netgroup(group: &str, host: Option<&str>, user: Option<&str>) -> bool {
    let (Ok(group), Ok(host), Ok(user)) = (
        c_string(group),
        host.map(c_string).transpose(),
        user.map(c_string).transpose(),
    ) else {
        return false;
    };
    let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |it| it.as_ptr());
    crate::signals::mark_altered_by_others();
    // SAFETY: each pointer is null or a terminated string that lives through the call.
    unsafe {
        innetgr(
            group.as_ptr(),
            pointer(&host),
            pointer(&user),
            std::ptr::null(),
        ) == 1
    }
}

/// # Safety
/// `text` is null or a terminated string.
unsafe fn string(text: *const c_char) -> String {
    // SAFETY: by the caller's promise.
    let bytes = unsafe { copy_c_str(text, MAX_FIELD) }.unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// # Safety
/// `entry` was filled by a successful `getpw…_r` whose buffer still lives.
unsafe fn user(entry: &libc::passwd) -> User {
    // SAFETY: all fields are null or terminated strings in the caller's buffer.
    unsafe {
        let path = |text| {
            PathBuf::from(OsString::from_vec(
                copy_c_str(text, MAX_FIELD).unwrap_or_default(),
            ))
        };
        let shell = path(entry.pw_shell);
        User {
            name: string(entry.pw_name),
            password_field: string(entry.pw_passwd),
            uid: entry.pw_uid,
            gid: entry.pw_gid,
            gecos: string(entry.pw_gecos),
            home: path(entry.pw_dir),
            shell: if shell.as_os_str().is_empty() {
                PathBuf::from("/bin/sh")
            } else {
                shell
            },
        }
    }
}

/// Structures that libc fills, initially zeroed.
///
/// # Safety
/// All bits zero must be a valid value.
pub(super) unsafe trait NssEntry {}
// SAFETY: pointers and integers.
unsafe impl NssEntry for libc::passwd {}
// SAFETY: pointers and integers.
unsafe impl NssEntry for libc::group {}
// SAFETY: pointers and integers.
unsafe impl NssEntry for libc::spwd {}

/// Looks up an entry and copies it.
///
/// # Safety
/// `call` is a `get…_r` function with its key: it fills the entry from the buffer of the given
/// length, and points the last argument to the entry if it found one. `copy` requires no more than
/// that.
pub(super) unsafe fn lookup<E: NssEntry, T>(
    call: impl Fn(*mut E, *mut c_char, usize, *mut *mut E) -> i32,
    copy: unsafe fn(&E) -> T,
) -> io::Result<Option<T>> {
    with_buffer(|buffer| {
        // SAFETY: as `NssEntry` promises.
        let mut entry: E = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        let code = call(
            &raw mut entry,
            buffer.as_mut_ptr(),
            buffer.len(),
            &raw mut found,
        );
        // SAFETY: filled by the call when `found` is not null; the buffer lives.
        let copied = (!found.is_null()).then(|| unsafe { copy(&entry) });
        (code, copied)
    })
}

pub(super) fn user_by_name(name: &str) -> io::Result<Option<User>> {
    let name = c_string(name)?;
    // SAFETY: getpwnam_r is such a function, `name` is terminated, `lookup` passes live locals.
    unsafe {
        lookup(
            |entry, buffer, len, found| libc::getpwnam_r(name.as_ptr(), entry, buffer, len, found),
            user,
        )
    }
}

pub(super) fn user_by_uid(uid: Uid) -> io::Result<Option<User>> {
    // SAFETY: as above, with a number.
    unsafe {
        lookup(
            |entry, buffer, len, found| libc::getpwuid_r(uid, entry, buffer, len, found),
            user,
        )
    }
}

/// # Safety
/// `entry` was filled by a successful `getgr…_r` whose buffer still lives.
unsafe fn group(entry: &libc::group) -> Group {
    let mut members = Vec::new();
    // SAFETY: gr_mem is null or a null-terminated vector of terminated strings.
    unsafe {
        let mut next = entry.gr_mem;
        while !next.is_null() && !(*next).is_null() && members.len() < MAX_MEMBERS {
            members.push(string(*next));
            next = next.add(1);
        }
        Group {
            name: string(entry.gr_name),
            gid: entry.gr_gid,
            members,
        }
    }
}

pub(super) fn group_by_name(name: &str) -> io::Result<Option<Group>> {
    let name = c_string(name)?;
    // SAFETY: getgrnam_r is such a function, `name` is terminated, `lookup` passes live locals.
    unsafe {
        lookup(
            |entry, buffer, len, found| libc::getgrnam_r(name.as_ptr(), entry, buffer, len, found),
            group,
        )
    }
}

pub(super) fn group_by_gid(gid: Gid) -> io::Result<Option<Group>> {
    // SAFETY: as above, with a number.
    unsafe {
        lookup(
            |entry, buffer, len, found| libc::getgrgid_r(gid, entry, buffer, len, found),
            group,
        )
    }
}

pub(super) fn groups_of(name: &str, primary: Gid) -> io::Result<Vec<Gid>> {
    let name = c_string(name)?;
    let mut room = 64_usize;
    crate::signals::mark_altered_by_others();
    loop {
        let mut gids: Vec<Gid> = vec![0; room];
        let mut count = i32::try_from(room).unwrap_or(i32::MAX);
        // SAFETY: the list has room for `count` entries.
        let done = unsafe {
            libc::getgrouplist(name.as_ptr(), primary, gids.as_mut_ptr(), &raw mut count)
        };
        let reported = usize::try_from(count).unwrap_or(0);
        if done >= 0 {
            gids.truncate(reported);
            let mut once = vec![primary];
            for gid in gids {
                if !once.contains(&gid) {
                    once.push(gid);
                }
            }
            return Ok(once);
        }
        if room >= MAX_GROUPS {
            return Err(io::Error::other("user is in too many groups"));
        }
        room = reported.max(room * 2).min(MAX_GROUPS);
    }
}
