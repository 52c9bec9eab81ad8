//! Processes that go on in the middle of a run with the same memory and descriptors: moving to the
//! background, for `ssh -f`, and helpers.

use std::io;
use std::time::Duration;

use crate::Pid;
use crate::ffi::check;

/// Forks; the parent exits at once with status 0. The child returns as the leader of a new session
/// without a terminal, with standard input and output on `/dev/null`. Standard error does not
/// change.
///
/// # Errors
/// `Unsupported` if the process has other threads: they, and the locks that they hold, would be
/// lost in the child. Else the kernel's error, after which the parent goes on.
pub fn daemonize() -> io::Result<()> {
    background()?;
    leave_terminal(1)
}

/// Goes on in a child; the parent ends with 0. The child keeps the session and the standard streams.
///
/// # Errors
/// As [`daemonize`].
pub fn background() -> io::Result<()> {
    if fork()?.is_some() {
        // SAFETY: exits without running exit handlers, which the child will run.
        unsafe { libc::_exit(0) };
    }
    Ok(())
}

/// Makes this process, which must not lead a group, the leader of a new session without a terminal.
///
/// # Errors
/// The kernel's error.
pub fn new_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Forks; returns the child's id in the parent and `None` in the child, which goes on with a copy of
/// the memory and with all descriptors.
///
/// # Errors
/// `Unsupported` if the process has other threads: they, and the locks that they hold, would be lost
/// in the child. Else the kernel's error.
pub fn fork() -> io::Result<Option<Pid>> {
    // A thread that was joined stays in the list for a moment.
    let mut tries = 20;
    while std::fs::read_dir("/proc/self/task")?.count() != 1 && tries > 0 {
        std::thread::sleep(Duration::from_millis(1));
        tries -= 1;
    }
    if tries == 0 {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a process with threads cannot go to the background",
        ));
    }
    // SAFETY: there is one thread, so the child's memory is consistent.
    let child = check(unsafe { libc::fork() })?;
    Ok((child != 0).then_some(child))
}

/// True if this process is in the background already, by OpenSSH's rule: a child of init that leads a
/// session without a terminal.
#[must_use]
pub fn is_daemon() -> bool {
    super::parent_pid() == 1 && leads_session() && std::fs::File::open("/dev/tty").is_err()
}

/// The session's id is 0 if its leader is in another PID namespace, which rustix does not expect.
fn leads_session() -> bool {
    // SAFETY: takes a number and no pointer.
    let session = unsafe { libc::getsid(0) };
    session == super::pid()
}

/// Leads a new session without a terminal, with the standard streams up to `last` on `/dev/null`.
///
/// # Errors
/// The kernel's error.
pub fn leave_terminal(last: i32) -> io::Result<()> {
    let null = crate::io::null()?;
    rustix::process::setsid()?;
    (0..=last).try_for_each(|number| crate::io::replace_stdio(&null, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_stays() {
        // The test runner's own threads.
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || wait.recv().is_err());
        let error = daemonize().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        drop(go);
        assert!(thread.join().unwrap());
    }
}
