//! A kernel whose Landlock is older than this machine's, for tests: a supervisor answers the question
//! for its version (seccomp_unotify(2)), and all else goes to the kernel that is there.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc;

use super::bpf::BpfProgram;
use crate::ffi::wide;
use crate::process;

/// `LANDLOCK_CREATE_RULESET_VERSION`, the third argument of landlock_create_ruleset(2).
const VERSION: u32 = 1;
/// Offsets in `struct seccomp_data`: the call, and the lower half of its third argument.
const CALL: usize = 0;
const FLAGS: usize = if cfg!(target_endian = "little") {
    32
} else {
    36
};
/// linux/seccomp.h: `_IOWR('!', 0, struct seccomp_notif)`, and of 1 the answer.
const RECEIVE: libc::Ioctl = 0xC050_2100_u32 as libc::Ioctl;
const SEND: libc::Ioctl = 0xC018_2101_u32 as libc::Ioctl;

/// Runs `work` in a thread of its own, where Landlock has this version or the question for it fails with
/// that errno.
pub(super) fn landlock<T: Send>(version: Result<i64, i32>, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let thread = scope.spawn(move || {
            process::set_no_new_privs().unwrap();
            tell.send(listener().unwrap()).unwrap();
            work()
        });
        let listener = told.recv().unwrap();
        while is_asked(&listener) {
            answer(&listener, version);
        }
        thread.join().unwrap()
    })
}

fn listener() -> io::Result<OwnedFd> {
    let mut program = BpfProgram::default();
    let allow = program.end(libc::SECCOMP_RET_ALLOW);
    let ask = program.end(libc::SECCOMP_RET_USER_NOTIF);
    program.if_equal(VERSION, ask, allow)?;
    let flags = program.load(FLAGS);
    let call = u32::try_from(libc::SYS_landlock_create_ruleset).unwrap();
    program.if_equal(call, flags, allow)?;
    program.load(CALL);
    let fd = program.set(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
    // SAFETY: the kernel has just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(wide(fd)).unwrap()) })
}

/// Waits for a question; false when the thread has ended.
fn is_asked(listener: &OwnedFd) -> bool {
    let mut poll = libc::pollfd {
        fd: listener.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry, and it is ours.
    let count = unsafe { libc::poll(&raw mut poll, 1, -1) };
    assert!(count == 1 || io::Error::last_os_error().kind() == io::ErrorKind::Interrupted);
    count < 1 || poll.revents & libc::POLLIN != 0
}

fn answer(listener: &OwnedFd, version: Result<i64, i32>) {
    // SAFETY: both are numbers only.
    let (mut asked, mut answer): (libc::seccomp_notif, libc::seccomp_notif_resp) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: the kernel writes a question of this form.
    let received = unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut asked) };
    if received < 0 {
        // A signal.
        return;
    }
    answer.id = asked.id;
    match version {
        Ok(version) => answer.val = version,
        Err(errno) => answer.error = -errno,
    }
    // SAFETY: the kernel reads an answer of this form.
    let sent = unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw mut answer) };
    assert_eq!(sent, 0, "{}", io::Error::last_os_error());
}
