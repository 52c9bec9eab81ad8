//! The list of system calls that a process before authentication may make. Anything
//! else kills the whole process, at once and without a handler.
//!
//! Calls are here because the version exchange, key exchange and authentication
//! need them, or libc does behind their back (memory, locks, signals, exit). None
//! opens, creates, executes or names anything.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

#[cfg(target_arch = "x86_64")]
pub(super) const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
pub(super) const ARCH: TargetArch = TargetArch::aarch64;

/// Allowed whatever the arguments are.
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

/// What only x86-64 still has; aarch64 has the successors alone.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[i64] = &[libc::SYS_poll, libc::SYS_time];
#[cfg(target_arch = "aarch64")]
const ALLOWED_HERE: &[i64] = &[];

/// Builds and installs the filter for all threads of this process.
pub(super) fn install() -> io::Result<()> {
    let program = program().map_err(io::Error::other)?;
    seccompiler::apply_filter_all_threads(&program).map_err(io::Error::other)
}

fn program() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for number in ALLOWED.iter().chain(ALLOWED_HERE) {
        rules.insert(*number, Vec::new());
    }
    let no_exec = SeccompCmpOp::MaskedEq(number(libc::PROT_EXEC));
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        // Memory never becomes code.
        rules.insert(call, vec![rule(&[(2, no_exec.clone(), 0)])?]);
    }
    let eq = || SeccompCmpOp::Eq;
    rules.insert(
        libc::SYS_setsockopt,
        vec![
            rule(&[
                (1, eq(), number(libc::IPPROTO_TCP)),
                (2, eq(), number(libc::TCP_QUICKACK)),
            ])?,
            rule(&[
                (1, eq(), number(libc::IPPROTO_TCP)),
                (2, eq(), number(libc::TCP_NODELAY)),
            ])?,
        ],
    );
    let mut looks = Vec::new();
    for command in [libc::F_GETFL, libc::F_GETFD, libc::F_SETFL] {
        looks.push(rule(&[(1, eq(), number(command))])?);
    }
    rules.insert(libc::SYS_fcntl, looks);
    // send(2) is sendto without an address; with one it would reach elsewhere.
    let no_address = SeccompCondition::new(4, SeccompCmpArgLen::Qword, eq(), 0)?;
    rules.insert(libc::SYS_sendto, vec![SeccompRule::new(vec![no_address])?]);
    SeccompFilter::new(
        rules,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        ARCH,
    )?
    .try_into()
}

/// A small non-negative constant of libc's.
pub(super) fn number(value: i32) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// All conditions must hold; arguments are 32 bits wide.
pub(super) fn rule(
    conditions: &[(u8, SeccompCmpOp, u64)],
) -> Result<SeccompRule, seccompiler::BackendError> {
    let mut all = Vec::with_capacity(conditions.len());
    for (argument, operator, value) in conditions {
        all.push(SeccompCondition::new(
            *argument,
            SeccompCmpArgLen::Dword,
            operator.clone(),
            *value,
        )?);
    }
    SeccompRule::new(all)
}
