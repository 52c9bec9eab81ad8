//! Hardening that a process applies to itself: dumpable, no_new_privs, death signal, umask, locked
//! memory, descriptors.

use std::ffi::CString;
use std::io;

use crate::Pid;
use crate::ffi::{check, check_long};
use crate::process::limits::{Limit, Resource, set_limit};
use crate::signals::Signal;

/// Id of this process.
#[must_use]
pub fn pid() -> Pid {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Id of the parent process; 0 if it is in another PID namespace.
#[must_use]
pub fn parent_pid() -> Pid {
    rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get())
}

fn prctl(option: i32, value: libc::c_ulong) -> io::Result<i32> {
    // SAFETY: the options used here take a number and no pointer.
    check(unsafe { libc::prctl(option, value, 0, 0, 0) })
}

/// Allows or forbids core dumps and tracing by other processes of the same user
/// (`PR_SET_DUMPABLE`). Exec resets it, so each role calls this first.
///
/// # Errors
/// The kernel's error.
pub fn set_dumpable(dumpable: bool) -> io::Result<()> {
    prctl(libc::PR_SET_DUMPABLE, libc::c_ulong::from(dumpable))?;
    Ok(())
}

/// True if core dumps and tracing are allowed.
///
/// # Errors
/// The kernel's error.
pub fn is_dumpable() -> io::Result<bool> {
    Ok(prctl(libc::PR_GET_DUMPABLE, 0)? == 1)
}

/// Forbids that an exec gains privileges (setuid files, file capabilities), for this process and
/// its children.
///
/// # Errors
/// The kernel's error.
pub fn set_no_new_privs() -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    Ok(())
}

/// Gives up all capabilities of this thread for good, if it may gain none by an exec: a process of root
/// keeps only root's files. Without capabilities it changes nothing.
///
/// # Errors
/// The kernel's error.
pub fn drop_capabilities() -> io::Result<()> {
    let none = rustix::thread::CapabilitySets {
        effective: rustix::thread::CapabilitySet::empty(),
        permitted: rustix::thread::CapabilitySet::empty(),
        inheritable: rustix::thread::CapabilitySet::empty(),
    };
    // The ambient set follows the permitted one.
    Ok(rustix::thread::set_capabilities(None, none)?)
}

/// True if [`set_no_new_privs`] is in effect.
///
/// # Errors
/// The kernel's error.
pub fn no_new_privs() -> io::Result<bool> {
    Ok(prctl(libc::PR_GET_NO_NEW_PRIVS, 0)? == 1)
}

/// Forbids this process for good to gain executable memory (`PR_SET_MDWE`): memory that is writable and
/// executable at once, or that becomes executable after it was mapped without that right. A file or a memory
/// descriptor that is open can still be mapped as code.
///
/// # Errors
/// `Unsupported` before Linux 6.3, else the kernel's error.
pub fn refuse_exec_gain() -> io::Result<()> {
    let wanted = libc::c_ulong::from(libc::PR_MDWE_REFUSE_EXEC_GAIN);
    // Fails as well if a service manager has set it with another flag; what counts is what is in effect.
    let _ = prctl(libc::PR_SET_MDWE, wanted);
    match prctl(libc::PR_GET_MDWE, 0).map(i32::cast_unsigned) {
        Ok(flags) if flags & libc::PR_MDWE_REFUSE_EXEC_GAIN != 0 => Ok(()),
        Ok(_) => Err(io::Error::other("memory can become executable")),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this machine needs Linux 6.3, which refuses executable memory (PR_SET_MDWE)",
        )),
        Err(error) => Err(error),
    }
}

/// Sets the signal that this process receives when its parent dies (`None`: no signal). A change of
/// user clears it, so set it afterwards.
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

/// Sets the thread's name in `ps` and `top`; cut to 15 bytes.
///
/// # Errors
/// `InvalidInput` if `name` contains a NUL byte.
pub fn set_name(name: &str) -> io::Result<()> {
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(rustix::thread::set_name(&name)?)
}

/// Sets the file mode creation mask and returns the previous one.
pub fn set_umask(mask: u32) -> u32 {
    let mask = rustix::fs::Mode::from_raw_mode(mask & 0o777);
    rustix::process::umask(mask).as_raw_mode()
}

/// Returns the file mode creation mask without changing it; 0o077 if /proc is not available.
#[must_use]
pub fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok())
        .unwrap_or(0o077)
}

/// Sets the OOM score adjustment, from -1000 (the kernel never kills this process for lack of
/// memory) to 1000; children inherit it. Returns the previous value, for use with children.
///
/// # Errors
/// `PermissionDenied` if the value is lowered without privilege.
pub fn set_oom_score(score: i32) -> io::Result<i32> {
    const PATH: &str = "/proc/self/oom_score_adj";
    let before = std::fs::read_to_string(PATH)?.trim().parse().unwrap_or(0);
    std::fs::write(PATH, score.clamp(-1000, 1000).to_string())?;
    Ok(before)
}

/// Disables core files of this process, by limit and by the dumpable flag.
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

/// Closes all descriptors from `first` (at least 3) on. Call it only at the start of a role, before
/// anything owns descriptors.
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

/// The descriptors from `first` on, as /proc lists them.
fn open_from(first: u32) -> io::Result<Vec<i32>> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse::<i32>().ok());
        open.extend(number.filter(|number| u32::try_from(*number).is_ok_and(|n| n >= first)));
    }
    Ok(open)
}

/// Closes the descriptors above 2 that this process has got from its parent: those that are not
/// close-on-exec, which all of its own are.
///
/// # Errors
/// The kernel's error.
pub fn close_inherited() -> io::Result<()> {
    for number in open_from(3)? {
        // SAFETY: only reads the flags of a number, or fails where there is none.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        if flags >= 0 && flags & libc::FD_CLOEXEC == 0 {
            // SAFETY: a descriptor without the flag is not of this process's making, so nothing
            // here owns it.
            unsafe { libc::close(number) };
        }
    }
    Ok(())
}

/// Before Linux 5.9: closes the numbers listed in /proc.
fn close_each_from(first: u32) -> io::Result<()> {
    for number in open_from(first)? {
        // SAFETY: as above; closing a number that is already closed (the directory itself) only
        // fails with EBADF.
        unsafe { libc::close(number) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_gone_for_good() {
        // Each thread has its own.
        let status = std::thread::spawn(|| {
            drop_capabilities().expect("fewer rights");
            std::fs::read_to_string("/proc/thread-self/status").expect("its status")
        });
        let status = status.join().expect("an end");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            let line = status.lines().find(|line| line.starts_with(set));
            let value = line.and_then(|line| line.split_whitespace().nth(1));
            assert_eq!(value, Some("0000000000000000"), "{set}");
        }
    }
}
