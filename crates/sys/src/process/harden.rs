//! Switches that a role sets on itself: dumpable, no_new_privs, death signal,
//! umask, locked memory, descriptors.

use std::ffi::CString;
use std::io;

use crate::Pid;
use crate::ffi::{check, check_long};
use crate::process::limits::{Limit, Resource, set_limit};
use crate::signals::Signal;

/// Our process id.
#[must_use]
pub fn pid() -> Pid {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Our parent's process id (0 when it lives in another namespace).
#[must_use]
pub fn parent_pid() -> Pid {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get())
}

fn prctl(option: i32, value: libc::c_ulong) -> io::Result<i32> {
    // SAFETY: the options used here take a number and no pointer.
    check(unsafe { libc::prctl(option, value, 0, 0, 0) })
}

/// Allows or forbids core dumps and tracing by other processes of our user
/// (`PR_SET_DUMPABLE`). Exec sets it again: each role calls it first.
///
/// # Errors
/// The kernel's error.
pub fn set_dumpable(dumpable: bool) -> io::Result<()> {
    prctl(libc::PR_SET_DUMPABLE, libc::c_ulong::from(dumpable))?;
    Ok(())
}

/// Whether core dumps and tracing are allowed.
///
/// # Errors
/// The kernel's error.
pub fn is_dumpable() -> io::Result<bool> {
    Ok(prctl(libc::PR_GET_DUMPABLE, 0)? == 1)
}

/// No exec from here on gains privileges (setuid files, file capabilities).
///
/// # Errors
/// The kernel's error.
pub fn set_no_new_privs() -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    Ok(())
}

/// Whether [`set_no_new_privs`] holds.
///
/// # Errors
/// The kernel's error.
pub fn no_new_privs() -> io::Result<bool> {
    Ok(prctl(libc::PR_GET_NO_NEW_PRIVS, 0)? == 1)
}

/// The signal we get when our parent dies (`None`: none). A change of user clears
/// it: set it after.
///
/// # Errors
/// The kernel's error.
pub fn set_parent_death_signal(signal: Option<Signal>) -> io::Result<()> {
    let number = signal.map_or(0, Signal::as_raw);
    prctl(
        libc::PR_SET_PDEATHSIG,
        libc::c_ulong::try_from(number).unwrap_or(0),
    )?;
    Ok(())
}

/// The thread's short name in `ps` and `top`, at most 15 bytes (longer is cut).
///
/// # Errors
/// `InvalidInput` for a NUL byte inside.
pub fn set_name(name: &str) -> io::Result<()> {
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(rustix::thread::set_name(&name)?)
}

/// Sets the file mode creation mask and returns the one before.
pub fn set_umask(mask: u32) -> u32 {
    let mask = rustix::fs::Mode::from_raw_mode(mask & 0o777);
    rustix::process::umask(mask).as_raw_mode()
}

/// How gladly the kernel ends this process when memory runs out: -1000 (never) to
/// 1000; children inherit it. Returns the value before, for giving it to sessions.
///
/// # Errors
/// `PermissionDenied` for going below the present value without privilege.
pub fn set_oom_score(score: i32) -> io::Result<i32> {
    const PATH: &str = "/proc/self/oom_score_adj";
    let before = std::fs::read_to_string(PATH)?.trim().parse().unwrap_or(0);
    std::fs::write(PATH, score.clamp(-1000, 1000).to_string())?;
    Ok(before)
}

/// No core file from this process, ever: neither by limit nor by the dumpable flag.
///
/// # Errors
/// The kernel's error.
pub fn disable_core_dumps() -> io::Result<()> {
    set_limit(Resource::Core, Limit { soft: 0, hard: 0 })?;
    set_dumpable(false)
}

/// Keeps all memory of this process out of swap. Needs a large enough `MEMLOCK` limit.
///
/// # Errors
/// The kernel's error.
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: mlockall changes no memory contents.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) })?;
    Ok(())
}

/// Closes every descriptor from `first` on. Only for the start of a role, before
/// anything that owns descriptors exists.
///
/// # Errors
/// The kernel's error.
pub fn close_from(first: u32) -> io::Result<()> {
    let first = first.max(3);
    // SAFETY: close_range takes three numbers. Owners of the closed descriptors
    // must not exist, which the caller ensures by calling at the role's start.
    match check_long(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) }) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => close_each_from(first),
        Err(error) => Err(error),
    }
}

/// Before Linux 5.9: the numbers are in /proc.
fn close_each_from(first: u32) -> io::Result<()> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<i32>().ok());
        open.extend(number.filter(|number| u32::try_from(*number).is_ok_and(|n| n >= first)));
    }
    for number in open {
        // SAFETY: as above; a number that is closed already (the directory itself)
        // only gives EBADF.
        unsafe { libc::close(number) };
    }
    Ok(())
}
