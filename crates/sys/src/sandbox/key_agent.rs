//! The sandbox of a process that holds private keys and signs with them for local clients.
//!
//! The process can accept connections on sockets that it has, read and write what is open, and start
//! threads. It can open or execute no file, make or connect no socket, and neither start, signal nor
//! trace other processes. A forbidden call fails as if the kernel did not know it (ENOSYS) and does
//! not kill: the keys would be lost.

use std::io;

use super::bpf::BpfProgram;
use super::filter::{begin, call, low_half, one_of, small};
use crate::process::{self, Limit, Resource};

/// Allowed with any arguments.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_accept4,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_close,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getcpu,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls that only x86-64 has; aarch64 has only their successors.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[i64] = &[libc::SYS_epoll_wait, libc::SYS_poll, libc::SYS_time];
#[cfg(target_arch = "aarch64")]
const ALLOWED_HERE: &[i64] = &[];

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
    let mut program = BpfProgram::default();
    let kill = program.end(libc::SECCOMP_RET_KILL_PROCESS);
    let unknown = program.end(small(libc::ENOSYS) | libc::SECCOMP_RET_ERRNO);
    let allow = program.end(libc::SECCOMP_RET_ALLOW);
    let mut calls = Vec::with_capacity(64);
    for number in ALLOWED.iter().chain(ALLOWED_HERE) {
        calls.push((call(*number)?, allow));
    }
    // No memory may become executable.
    let no_exec = {
        program.if_bits(small(libc::PROT_EXEC), unknown, allow)?;
        program.load(low_half(2))
    };
    for number in [libc::SYS_mmap, libc::SYS_mprotect] {
        calls.push((call(number)?, no_exec));
    }
    // Threads but no processes; the C library uses clone if clone3 is missing.
    program.if_bits(small(libc::CLONE_THREAD), allow, unknown)?;
    let threads = program.load(low_half(0));
    calls.push((call(libc::SYS_clone)?, threads));
    // For abort(3): signals to this process only.
    let own = one_of(&mut program, 0, &[process::pid()], allow, unknown)?;
    calls.push((call(libc::SYS_tgkill)?, own));
    let commands = [libc::F_GETFL, libc::F_GETFD, libc::F_SETFL];
    let commands = one_of(&mut program, 1, &commands, allow, unknown)?;
    calls.push((call(libc::SYS_fcntl)?, commands));
    let control = [libc::PR_SET_NAME, libc::PR_SET_VMA];
    let control = one_of(&mut program, 0, &control, allow, unknown)?;
    calls.push((call(libc::SYS_prctl)?, control));
    // send(2) is sendto without an address; an address could reach other peers.
    let mut no_address = allow;
    for half in [low_half(4), low_half(4) + 4] {
        program.if_equal(0, no_address, unknown)?;
        no_address = program.load(half);
    }
    calls.push((call(libc::SYS_sendto)?, no_address));
    begin(program, calls, unknown, kill)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(number: i64, arguments: [u64; 6]) -> bool {
        #[cfg(target_arch = "x86_64")]
        let arch = 0xc000_003e_u32;
        #[cfg(target_arch = "aarch64")]
        let arch = 0xc000_00b7_u32;
        let mut data = Vec::new();
        data.extend(u32::try_from(number).unwrap().to_ne_bytes());
        data.extend(arch.to_ne_bytes());
        data.extend(0_u64.to_ne_bytes());
        data.extend(arguments.into_iter().flat_map(u64::to_ne_bytes));
        program().unwrap().run(&data) == libc::SECCOMP_RET_ALLOW
    }

    #[test]
    fn nothing_reaches_files_networks_or_processes() {
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
        let flags = |value: i32| [u64::from(small(value)), 0, 0, 0, 0, 0];
        assert!(allows(libc::SYS_clone, flags(libc::CLONE_THREAD)));
        assert!(!allows(libc::SYS_clone, flags(libc::SIGCHLD)));
        let protection = |value: i32| [0, 4096, u64::from(small(value)), 0, 0, 0];
        assert!(allows(libc::SYS_mmap, protection(libc::PROT_READ)));
        assert!(!allows(libc::SYS_mprotect, protection(libc::PROT_EXEC)));
        assert!(allows(libc::SYS_sendto, [3, 1, 1, 0, 0, 0]));
        assert!(!allows(libc::SYS_sendto, [3, 1, 1, 0, 1 << 32, 0]));
    }
}
