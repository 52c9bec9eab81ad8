//! The sandbox of a process that holds private keys and signs with them for local clients.
//!
//! The process can accept connections on sockets that it has, read and write what is open, and start
//! threads. It can open or execute no file, make or connect no socket, and neither start, signal nor
//! trace other processes. A forbidden call fails as if the kernel did not know it (ENOSYS) and does
//! not kill: the keys would be lost.

use std::io;

use super::bpf::BpfProgram;
use super::calls::{Call, FCNTL, KEY_AGENT_HERE};
use super::filter::{CallList, STATUS_FLAGS, UNKNOWN};
use crate::process::{self, Limit, Resource};

/// Allowed with any arguments, in addition to the calls of every sandbox.
const ALLOWED: &[Call] = &[
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getcpu,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
];

/// Puts this process, which must have one thread, into the sandbox: no core dumps or tracing, no new
/// privileges, no files (if the kernel has Landlock; the list of calls denies them too) and the list
/// of calls. Returns true if Landlock is in effect.
///
/// # Errors
/// The kernel's error; then end the process.
pub fn key_agent() -> io::Result<bool> {
    // On first use rustix looks up the auxiliary vector, with system calls that are forbidden later.
    let _ = rustix::param::page_size();
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    harden()?;
    process::set_no_new_privs()?;
    let has_landlock = match super::deny_files() {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::Unsupported => false,
        // Kernels before Landlock, and those that were started without it.
        Err(_) if !is_landlock_known() => false,
        Err(error) => return Err(error),
    };
    program()?.install()?;
    Ok(has_landlock)
}

/// No core dumps, and no tracing by other processes of the user.
fn harden() -> io::Result<()> {
    process::set_limit(Resource::Core, Limit { soft: 0, hard: 0 })?;
    process::set_dumpable(false)?;
    match process::is_dumpable()? {
        false => Ok(()),
        true => Err(io::Error::other("still dumpable")),
    }
}

fn is_landlock_known() -> bool {
    // SAFETY: asks for the version, which takes no pointer.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            1_u32,
        )
    };
    version > 0
}

fn program() -> io::Result<BpfProgram> {
    let mut calls = CallList::new(UNKNOWN, &[ALLOWED, &KEY_AGENT_HERE.concat()].concat())?;
    calls.without_exec()?;
    calls.only_threads()?;
    calls.own_signals()?;
    calls.with_one_of(FCNTL, 1, STATUS_FLAGS)?;
    calls.with_one_of(libc::SYS_prctl, 0, &[libc::PR_SET_NAME, libc::PR_SET_VMA])?;
    calls.without_address()?;
    calls.finish()
}

#[cfg(test)]
mod tests {
    use super::super::calls::MMAP;
    use super::super::filter::{allows, clone_flags, word};
    use super::*;

    #[test]
    fn nothing_reaches_files_networks_or_processes() {
        let program = program().unwrap();
        let allows = |number, arguments| allows(&program, UNKNOWN, number, arguments);
        for number in [
            libc::SYS_openat,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_kill,
            libc::SYS_pidfd_send_signal,
            libc::SYS_clone3,
            libc::SYS_unlinkat,
            libc::SYS_memfd_create,
            libc::SYS_io_uring_setup,
            libc::SYS_sendmmsg,
        ] {
            assert!(!allows(number, [0; 6]), "{number}");
        }
        assert!(allows(libc::SYS_clone, clone_flags(libc::CLONE_THREAD)));
        assert!(!allows(libc::SYS_clone, clone_flags(libc::SIGCHLD)));
        let protection = |value: i32| [0, 4096, u64::from(word(value)), 0, 0, 0];
        assert!(allows(MMAP, protection(libc::PROT_READ)));
        assert!(!allows(libc::SYS_mprotect, protection(libc::PROT_EXEC)));
        assert!(allows(libc::SYS_sendto, [3, 1, 1, 0, 0, 0]));
        assert!(!allows(libc::SYS_sendto, [3, 1, 1, 0, 1 << 32, 0]));
    }
}
