//! What the filters of system calls know of the machine: its audit architecture, where an argument's lower
//! half lies, and the calls whose name, number or arguments are not the same everywhere.
//!
//! aarch64 and riscv64 have only the latest of several calls for the same purpose; the other machines
//! have the earlier ones too, and their C libraries make those. armv7, with words of 32 bits, has calls of its own
//! for 64-bit offsets, 32-bit user ids and 64-bit times (numbers 403 to 423, the same on all such machines). On
//! s390x glibc makes the calls on sockets through socketcall(2), unless it was built for Linux 4.3 or later.

/// A call's number in this machine's table.
pub(super) type Call = libc::c_long;

/// The value of `seccomp_data.arch` for this machine's calls (`AUDIT_ARCH_*` of linux/audit.h). armv7's
/// kernels filter calls only where the OABI, a second table, is left out.
#[cfg(target_arch = "x86_64")]
pub(super) const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const ARCH: u32 = 0xc000_00b7;
#[cfg(target_arch = "arm")]
pub(super) const ARCH: u32 = 0x4000_0028;
#[cfg(target_arch = "riscv64")]
pub(super) const ARCH: u32 = 0xc000_00f3;
#[cfg(target_arch = "powerpc64")]
pub(super) const ARCH: u32 = 0xc000_0015;
#[cfg(target_arch = "s390x")]
pub(super) const ARCH: u32 = 0x8000_0016;

/// Offset of the lower 32 bits of a 64-bit argument. The kernel extends the arguments of a machine with
/// 32-bit words with zeroes.
pub(super) const LOWER_HALF: usize = if cfg!(target_endian = "little") { 0 } else { 4 };

/// The argument of clone(2) that holds the flags: on s390x the new stack comes first.
pub(super) const CLONE_FLAGS: usize = if cfg!(target_arch = "s390x") { 1 } else { 0 };

/// True if a filter sees the arguments of mmap(2). On s390x the call has one argument, a pointer to the six.
pub(super) const SEES_MMAP: bool = !cfg!(target_arch = "s390x");

/// The ioctl request by which a descriptor sends signals.
pub(super) const FIOASYNC: i32 = if cfg!(target_arch = "powerpc64") {
    0x8004_667d_u32.cast_signed()
} else {
    0x5452
};

/// The calls for which this machine has another name.
#[cfg(not(target_arch = "arm"))]
mod names {
    #[cfg(test)]
    pub(in super::super) use libc::SYS_setuid as SETUID;
    pub(in super::super) use libc::{
        SYS_fcntl as FCNTL, SYS_mmap as MMAP, SYS_newfstatat as FSTATAT,
    };

    #[cfg(not(target_arch = "powerpc64"))]
    pub(in super::super) use libc::SYS_fadvise64 as FADVISE;
    /// `__NR_fadvise64` of asm/unistd.h, which libc does not name there.
    #[cfg(target_arch = "powerpc64")]
    pub(in super::super) const FADVISE: super::Call = 233;
}
#[cfg(target_arch = "arm")]
mod names {
    #[cfg(test)]
    pub(in super::super) use libc::SYS_setuid32 as SETUID;
    pub(in super::super) use libc::{
        SYS_arm_fadvise64_64 as FADVISE, SYS_fcntl64 as FCNTL, SYS_fstatat64 as FSTATAT,
        SYS_mmap2 as MMAP,
    };
}
pub(super) use names::*;

/// The earlier ones of several calls for the same purpose.
#[cfg(not(any(target_arch = "aarch64", target_arch = "riscv64")))]
mod earlier {
    use libc::*;

    use super::Call;

    pub(super) const COMMON: &[Call] = &[SYS_poll];
    pub(super) const EPOLL: &[Call] = &[SYS_epoll_wait];
    pub(super) const LIBRARY: &[Call] = &[SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink];
    pub(super) const MORE: &[Call] = &[
        SYS_unlink,
        SYS_mkdir,
        SYS_rmdir,
        SYS_rename,
        SYS_getdents,
        SYS_dup2,
        SYS_pipe,
        SYS_eventfd,
    ];
}
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
mod earlier {
    use super::Call;

    pub(super) const COMMON: &[Call] = &[];
    pub(super) const EPOLL: &[Call] = &[];
    pub(super) const LIBRARY: &[Call] = &[];
    pub(super) const MORE: &[Call] = &[];
}

/// The calls of a machine with 32-bit words for 64-bit offsets and times and for 32-bit user ids.
#[cfg(target_arch = "arm")]
mod wide {
    use libc::*;

    use super::Call;

    // asm/unistd.h; libc does not name them.
    const CLOCK_GETTIME64: Call = 403;
    const CLOCK_GETRES_TIME64: Call = 406;
    const CLOCK_NANOSLEEP_TIME64: Call = 407;
    const TIMERFD_SETTIME64: Call = 411;
    const PSELECT6_TIME64: Call = 413;
    const PPOLL_TIME64: Call = 414;
    const RECVMMSG_TIME64: Call = 417;
    const FUTEX_TIME64: Call = 422;

    pub(super) const COMMON: &[Call] = &[
        CLOCK_GETTIME64,
        CLOCK_NANOSLEEP_TIME64,
        PPOLL_TIME64,
        FUTEX_TIME64,
    ];
    pub(super) const IDENTITY: &[Call] = &[SYS_getuid32, SYS_geteuid32];
    pub(super) const LIBRARY: &[Call] = &[
        SYS_getgid32,
        SYS_getegid32,
        SYS_stat64,
        SYS_lstat64,
        SYS_fstat64,
        SYS__llseek,
        CLOCK_GETRES_TIME64,
        PSELECT6_TIME64,
    ];
    pub(super) const TIMERS: &[Call] = &[TIMERFD_SETTIME64];
    pub(super) const MORE: &[Call] = &[
        SYS_ftruncate64,
        SYS_statfs64,
        SYS_fstatfs64,
        SYS_getgroups32,
        SYS_getresuid32,
        SYS_getresgid32,
        TIMERFD_SETTIME64,
    ];
    pub(super) const DATAGRAMS: &[Call] = &[RECVMMSG_TIME64];
}
#[cfg(not(target_arch = "arm"))]
mod wide {
    use super::Call;

    pub(super) const COMMON: &[Call] = &[];
    pub(super) const IDENTITY: &[Call] = &[];
    pub(super) const LIBRARY: &[Call] = &[];
    pub(super) const TIMERS: &[Call] = &[];
    pub(super) const MORE: &[Call] = &[];
    pub(super) const DATAGRAMS: &[Call] = &[];
}

/// Of every sandbox.
pub(super) const COMMON_HERE: &[&[Call]] = &[
    earlier::COMMON,
    wide::COMMON,
    &[
        #[cfg(any(target_arch = "x86_64", target_arch = "powerpc64"))]
        libc::SYS_time,
        // send and recv, which have no address.
        #[cfg(any(target_arch = "arm", target_arch = "powerpc64"))]
        libc::SYS_send,
        #[cfg(any(target_arch = "arm", target_arch = "powerpc64"))]
        libc::SYS_recv,
        // The return from a handler without SA_SIGINFO.
        #[cfg(any(target_arch = "arm", target_arch = "s390x"))]
        libc::SYS_sigreturn,
    ],
];

/// Of the process that holds private keys: waits, and questions for this process's user.
pub(super) const KEY_AGENT_HERE: &[&[Call]] = &[earlier::EPOLL, wide::IDENTITY];

/// Of a process that loads a foreign library: files, waits, clocks.
pub(super) const LIBRARY_HERE: &[&[Call]] = &[
    earlier::LIBRARY,
    earlier::EPOLL,
    wide::IDENTITY,
    wide::LIBRARY,
    &[
        #[cfg(not(any(target_arch = "aarch64", target_arch = "arm", target_arch = "riscv64")))]
        libc::SYS_select,
        #[cfg(any(target_arch = "arm", target_arch = "powerpc64"))]
        libc::SYS__newselect,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_arch_prctl,
    ],
];

/// Timers.
pub(super) const TIMERS_HERE: &[&[Call]] = &[wide::TIMERS];

/// Of a process that reaches tokens: changes of files, and timers.
pub(super) const MORE_HERE: &[&[Call]] = &[
    earlier::MORE,
    wide::MORE,
    &[
        #[cfg(not(any(target_arch = "x86_64", target_arch = "riscv64")))]
        libc::SYS_renameat,
    ],
];

/// Many datagrams at once.
pub(super) const DATAGRAMS_HERE: &[&[Call]] = &[wide::DATAGRAMS];

/// fcntl commands for locks: with 32-bit words those with 64-bit offsets have numbers of their own
/// (`F_GETLK64`, `F_SETLK64`, `F_SETLKW64`).
pub(super) const LOCKS_HERE: &[i32] = if cfg!(target_pointer_width = "32") {
    &[5, 6, 7, 12, 13, 14]
} else {
    &[libc::F_GETLK, libc::F_SETLK, libc::F_SETLKW]
};

/// The numbers of calls in socketcall(2) (linux/net.h) that a filter may allow without a look at their
/// arguments, which are in memory that it cannot read, with the same call under its own number. Never among them are
/// `socket`, `socketpair` and `sendto`, which the filters judge by their arguments.
#[cfg(target_arch = "s390x")]
pub(super) const SOCKETCALLS: &[(i32, Call)] = &[
    (2, libc::SYS_bind),
    (3, libc::SYS_connect),
    (4, libc::SYS_listen),
    (6, libc::SYS_getsockname),
    (7, libc::SYS_getpeername),
    (9, libc::SYS_sendmsg),   // send
    (10, libc::SYS_recvfrom), // recv
    (12, libc::SYS_recvfrom),
    (13, libc::SYS_shutdown),
    (14, libc::SYS_setsockopt),
    (15, libc::SYS_getsockopt),
    (16, libc::SYS_sendmsg),
    (17, libc::SYS_recvmsg),
    (18, libc::SYS_accept4),
    (19, libc::SYS_recvmmsg),
    (20, libc::SYS_sendmmsg),
];
