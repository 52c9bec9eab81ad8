//! The system calls that a process may make before authentication. Any other call kills the whole
//! process, at once and without a handler.
//!
//! A call is on the list if the version exchange, key exchange or authentication needs it, or libc
//! needs it internally (memory, locks, signals, exit). No listed call opens, creates, executes or
//! names a file.
//!
//! The program is a binary search over the call numbers: when it is installed, the kernel runs it
//! once for every call number, and a linear list cost more than the rest of the sandbox setup.

use std::io;
use std::mem::offset_of;

use super::bpf::{BpfProgram, Label, Offset};

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e; // AUDIT_ARCH_X86_64
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7; // AUDIT_ARCH_AARCH64

/// Allowed with any arguments.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_shutdown,
    libc::SYS_close,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
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
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls that only x86-64 has; aarch64 has only their successors.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[i64] = &[libc::SYS_poll, libc::SYS_time];
#[cfg(target_arch = "aarch64")]
const ALLOWED_HERE: &[i64] = &[];

/// Builds and installs the filter for all threads of this process. no_new_privs must be set.
pub(super) fn install() -> io::Result<()> {
    program()?.install()
}

/// Builds the program, from its end.
fn program() -> io::Result<BpfProgram> {
    let mut program = BpfProgram::default();
    let kill = program.end(libc::SECCOMP_RET_KILL_PROCESS);
    let allow = program.end(libc::SECCOMP_RET_ALLOW);
    let mut calls: Vec<(u32, Label)> = Vec::with_capacity(64);
    for number in ALLOWED.iter().chain(ALLOWED_HERE) {
        calls.push((call(*number)?, allow));
    }
    // No memory may become executable.
    let no_exec = {
        program.if_bits(small(libc::PROT_EXEC), kill, allow)?;
        program.load(low_half(2))
    };
    for number in [libc::SYS_mmap, libc::SYS_mprotect] {
        calls.push((call(number)?, no_exec));
    }
    let option = one_of(&mut program, 2, &[libc::TCP_QUICKACK], allow, kill)?;
    let option = one_of(&mut program, 1, &[libc::IPPROTO_TCP], option, kill)?;
    calls.push((call(libc::SYS_setsockopt)?, option));
    let commands = [libc::F_GETFL, libc::F_GETFD, libc::F_SETFL];
    let commands = one_of(&mut program, 1, &commands, allow, kill)?;
    calls.push((call(libc::SYS_fcntl)?, commands));
    // send(2) is sendto without an address; an address could reach other peers.
    let mut no_address = allow;
    for half in [low_half(4), low_half(4) + 4] {
        program.if_equal(0, no_address, kill)?;
        no_address = program.load(half);
    }
    calls.push((call(libc::SYS_sendto)?, no_address));
    begin(program, calls, kill, kill)
}

/// Prepends the dispatch to a program that has its actions: calls of another architecture go to
/// `foreign`, the `calls` to their labels, and all others to `other`.
pub(super) fn begin(
    mut program: BpfProgram,
    mut calls: Vec<(u32, Label)>,
    other: Label,
    foreign: Label,
) -> io::Result<BpfProgram> {
    calls.sort_unstable_by_key(|(number, _)| *number);
    search(&mut program, &calls, other)?;
    let number = program.load(offset_of!(libc::seccomp_data, nr));
    program.if_equal(ARCH, number, foreign)?;
    program.load(offset_of!(libc::seccomp_data, arch));
    Ok(program)
}

/// Jumps from a loaded call number to the call's label, or to `other`.
fn search(program: &mut BpfProgram, calls: &[(u32, Label)], other: Label) -> io::Result<Label> {
    match calls {
        [] => Ok(other),
        [(number, label)] => program.if_equal(*number, *label, other),
        _ => {
            let (low, high) = calls.split_at(calls.len() / 2);
            let first = high.first().map_or(0, |(number, _)| *number);
            let high = search(program, high, other)?;
            let low = search(program, low, other)?;
            program.if_at_least(first, high, low)
        }
    }
}

/// Loads the lower 32 bits of an argument and jumps to `yes` if they equal one of `values`, else to
/// `no`.
pub(super) fn one_of(
    program: &mut BpfProgram,
    argument: usize,
    values: &[i32],
    yes: Label,
    no: Label,
) -> io::Result<Label> {
    let mut otherwise = no;
    for value in values {
        otherwise = program.if_equal(small(*value), yes, otherwise)?;
    }
    Ok(program.load(low_half(argument)))
}

/// Offset of the lower 32 bits of an argument. Both architectures are little-endian.
pub(super) fn low_half(argument: usize) -> Offset {
    offset_of!(libc::seccomp_data, args) + argument * size_of::<u64>()
}

/// Converts a small, non-negative constant of libc.
pub(super) fn small(value: i32) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

pub(super) fn call(number: i64) -> io::Result<u32> {
    u32::try_from(number).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(arch: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(number.to_ne_bytes());
        data.extend(arch.to_ne_bytes());
        data.extend(0_u64.to_ne_bytes());
        data.extend(arguments.into_iter().flat_map(u64::to_ne_bytes));
        program().unwrap().run(&data)
    }

    fn allows(number: i64, arguments: [u64; 6]) -> bool {
        match verdict(ARCH, u32::try_from(number).unwrap(), arguments) {
            libc::SECCOMP_RET_ALLOW => true,
            libc::SECCOMP_RET_KILL_PROCESS => false,
            other => panic!("verdict {other:#x}"),
        }
    }

    #[test]
    fn what_the_list_names_is_allowed_and_nothing_else() {
        let by_argument = [
            libc::SYS_mmap,
            libc::SYS_mprotect,
            libc::SYS_setsockopt,
            libc::SYS_fcntl,
            libc::SYS_sendto,
        ];
        // With these arguments no call whose arguments are checked is allowed.
        let bad = [9, 9, 7, 9, 9, 9];
        for number in (0..1024).chain([0x4000_0000, 0x4000_0001, 0xffff_ffff]) {
            let listed = ALLOWED.iter().chain(ALLOWED_HERE).any(|n| *n == number);
            assert_eq!(allows(number, bad), listed, "{number}");
            let known = listed || by_argument.contains(&number);
            assert!(known || !allows(number, [0; 6]), "{number}");
        }
        assert_eq!(verdict(ARCH ^ 1, 0, [0; 6]), libc::SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    fn arguments_decide_where_they_must() {
        let at = |index: usize, value: u64| {
            let mut arguments = [0; 6];
            arguments[index] = value;
            arguments
        };
        for number in [libc::SYS_mmap, libc::SYS_mprotect] {
            assert!(allows(number, at(2, 3)));
            assert!(!allows(number, at(2, 4)) && !allows(number, at(2, 7)));
        }
        let (tcp, quick) = (u64::from(small(libc::IPPROTO_TCP)), 12);
        assert!(allows(libc::SYS_setsockopt, [3, tcp, quick, 0, 0, 0]));
        assert!(!allows(libc::SYS_setsockopt, [3, tcp, 1, 0, 0, 0]));
        assert!(!allows(libc::SYS_setsockopt, [3, tcp, 13, 0, 0, 0]));
        assert!(!allows(libc::SYS_setsockopt, [3, 1, 1, 0, 0, 0]));
        for (command, allowed) in [(1, true), (3, true), (4, true), (0, false), (2, false)] {
            assert_eq!(
                allows(libc::SYS_fcntl, at(1, command)),
                allowed,
                "{command}"
            );
        }
        assert!(allows(libc::SYS_sendto, [3, 1, 1, 0, 0, 16]));
        assert!(!allows(libc::SYS_sendto, at(4, 1)));
        assert!(!allows(libc::SYS_sendto, at(4, 1 << 32)));
    }
}
