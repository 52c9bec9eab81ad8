//! The sandbox of a process that runs a third-party library: the process computes on shared memory
//! and needs only to load code and use a device.
//!
//! The process can read the files that programs need to start and that describe the hardware. It
//! can execute nothing, write no file, open no socket, and neither start nor reach other processes.
//! Unlike before authentication, a forbidden call does not kill but fails as if the kernel did not
//! know it (ENOSYS): such libraries probe their environment when they start, and work without the
//! calls that fail.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::bpf::BpfProgram;
use super::files::Wall;
use super::filter::{begin, call, low_half, one_of, small};
use crate::process::{self, Limit, Resource};

/// Paths that may be read and loaded as code: libraries with their dependencies, and the loader's
/// cache.
pub(super) const CODE: &[&str] = &["/lib", "/lib64", "/usr", "/opt", "/etc/ld.so.cache"];
/// Paths that may be read: the kernel's description of the hardware.
pub(super) const READ: &[&str] = &[
    "/sys",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/device-tree",
    "/proc/self/auxv",
    "/proc/self/maps",
];
/// Devices that may be opened for writing and used with any ioctl: compression engines (IBM's
/// GenWQE, QAT by VFIO or its own driver) and devices that any program may use.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/urandom",
    "/dev/genwqe0_card",
    "/dev/vfio",
    "/dev/qat_adf_ctl",
    "/dev/qat_dev_processes",
    "/dev/usdm_drv",
    "/dev/hugepages",
];

/// Limit on open descriptors.
const MAX_OPEN_FILES: u64 = 256;

/// Calls that are allowed with any arguments: memory, files within the rules above, the open
/// device, locks of threads, clocks, and the process's socket and memory.
pub(super) const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_dup,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_futex,
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_getrusage,
    libc::SYS_getcpu,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls that only x86-64 has; aarch64 has only their successors.
#[cfg(target_arch = "x86_64")]
pub(super) const ALLOWED_HERE: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_wait,
    libc::SYS_time,
    libc::SYS_arch_prctl,
];
#[cfg(target_arch = "aarch64")]
pub(super) const ALLOWED_HERE: &[i64] = &[];

/// Allowed fcntl commands; commands that send signals to other processes, and leases and locks, are
/// not among them.
pub(super) const DESCRIPTOR: &[i32] = &[
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_DUPFD_CLOEXEC,
];
/// Forbidden ioctl requests: they send signals to a chosen process.
pub(super) const SIGNALS: &[i32] = &[
    0x8901, // FIOSETOWN
    0x8902, // SIOCSPGRP
    0x5452, // FIOASYNC
];

/// Puts this process, which must have one thread, into the sandbox; `libraries` are the libraries
/// that it will load. Returns how far the kernel restricts access to files; calls are filtered on
/// every kernel.
///
/// # Errors
/// The kernel's error; then end the process.
pub fn provider(libraries: &[impl AsRef<Path>]) -> io::Result<Wall> {
    process::disable_core_dumps()?;
    process::set_no_new_privs()?;
    process::set_dumpable(false)?;
    for (resource, value) in [
        (Resource::FileSize, 0),
        (Resource::Core, 0),
        (Resource::OpenFiles, MAX_OPEN_FILES),
    ] {
        let ceiling = process::limit(resource)?.hard;
        process::set_limit(resource, Limit::both(value.min(ceiling)))?;
    }
    let wall = files(libraries)?;
    program()?.install().map_err(|error| {
        let text = format!("this kernel does not restrict system calls (seccomp): {error}");
        io::Error::new(error.kind(), text)
    })?;
    Ok(wall)
}

fn files(libraries: &[impl AsRef<Path>]) -> io::Result<Wall> {
    let code = AccessFs::from_read(ABI::V5) & !AccessFs::Execute;
    let device = code | AccessFs::WriteFile | AccessFs::IoctlDev;
    let named = |paths: &'static [&str]| paths.iter().map(Path::new);
    let own: Vec<PathBuf> = libraries
        .iter()
        .flat_map(|path| with_neighbours(path.as_ref()))
        .collect();
    let rules = named(CODE)
        .chain(named(READ))
        .chain(own.iter().map(PathBuf::as_path))
        .map(|path| (path, code))
        .chain(named(DEVICES).map(|path| (path, device)));
    let mut set = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))
        .and_then(|set| set.handle_access(AccessNet::from_all(ABI::V4)))
        .and_then(|set| set.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    for (path, rights) in rules {
        // Missing paths need no rule.
        let Ok(opened) = PathFd::new(path) else {
            continue;
        };
        let rights = if path.is_dir() {
            rights
        } else {
            rights & AccessFs::from_file(ABI::V5)
        };
        set = set
            .add_rule(PathBeneath::new(opened, rights))
            .map_err(io::Error::other)?;
    }
    let restricted = set.restrict_self().map_err(io::Error::other)?;
    Ok(match restricted.ruleset {
        RulesetStatus::FullyEnforced => Wall::Whole,
        RulesetStatus::PartiallyEnforced => Wall::Partial,
        RulesetStatus::NotEnforced => Wall::None,
    })
}

/// The library and, if its directory belongs to root and is not writable by others, the libraries
/// in the same directory, on which it may depend. Never the directory itself, which may be a user's
/// home.
pub(super) fn with_neighbours(library: &Path) -> Vec<PathBuf> {
    let mut paths = vec![library.to_owned()];
    let folder = library.parent().unwrap_or(library);
    let is_trusted = std::fs::metadata(folder)
        .is_ok_and(|info| info.is_dir() && info.uid() == 0 && info.mode() & 0o022 == 0);
    if is_trusted && let Ok(entries) = std::fs::read_dir(folder) {
        let beside = entries.flatten().map(|entry| entry.path());
        paths.extend(beside.filter(|path| is_library(path) && path.is_file()));
    }
    paths
}

/// True for names such as `libx.so` and `libx.so.1.2`.
fn is_library(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    name.ends_with(b".so") || name.windows(4).any(|part| part == b".so.")
}

fn program() -> io::Result<BpfProgram> {
    let mut program = BpfProgram::default();
    let kill = program.end(libc::SECCOMP_RET_KILL_PROCESS);
    let unknown = small(libc::ENOSYS) | libc::SECCOMP_RET_ERRNO;
    let unknown = program.end(unknown);
    let allow = program.end(libc::SECCOMP_RET_ALLOW);
    let mut calls = Vec::with_capacity(128);
    for number in ALLOWED.iter().chain(ALLOWED_HERE) {
        calls.push((call(*number)?, allow));
    }
    // Allows threads but no processes. A filter cannot read the flags of clone3; the C library uses
    // clone if clone3 is missing.
    program.if_bits(small(libc::CLONE_THREAD), allow, unknown)?;
    let threads = program.load(low_half(0));
    calls.push((call(libc::SYS_clone)?, threads));
    // For abort(3): signals to this process only.
    let own = one_of(&mut program, 0, &[process::pid()], allow, unknown)?;
    calls.push((call(libc::SYS_tgkill)?, own));
    // Limits of this process only.
    let own = one_of(&mut program, 0, &[0], allow, unknown)?;
    calls.push((call(libc::SYS_prlimit64)?, own));
    // Affinity of the calling thread only.
    let own = one_of(&mut program, 0, &[0], allow, unknown)?;
    calls.push((call(libc::SYS_sched_setaffinity)?, own));
    let descriptor = one_of(&mut program, 1, DESCRIPTOR, allow, unknown)?;
    calls.push((call(libc::SYS_fcntl)?, descriptor));
    let device = one_of(&mut program, 1, SIGNALS, unknown, allow)?;
    calls.push((call(libc::SYS_ioctl)?, device));
    let control = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];
    let control = one_of(&mut program, 0, &control, allow, unknown)?;
    calls.push((call(libc::SYS_prctl)?, control));
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
    fn nobody_else_gets_signals_or_other_processors() {
        let second = |value: i32| [3, u64::from(small(value)), 0, 0, 0, 0];
        for command in DESCRIPTOR {
            assert!(allows(libc::SYS_fcntl, second(*command)), "{command}");
        }
        for command in [libc::F_SETOWN, 10, 15, libc::F_SETLEASE, libc::F_NOTIFY] {
            assert!(!allows(libc::SYS_fcntl, second(command)), "{command}");
        }
        for request in SIGNALS {
            assert!(!allows(libc::SYS_ioctl, second(*request)), "{request:#x}");
        }
        assert!(allows(libc::SYS_ioctl, second(0x5401)));
        assert!(allows(libc::SYS_ioctl, [3, 0xc0de_0001, 0, 0, 0, 0]));
        assert!(allows(libc::SYS_sched_setaffinity, [0; 6]));
        assert!(!allows(libc::SYS_sched_setaffinity, [1, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn a_library_in_a_home_brings_nothing_along() {
        // Owned by the test's user or writable by others: not root's alone.
        let library = std::env::temp_dir().join("libx.so");
        assert_eq!(with_neighbours(&library), [library]);
        for (name, expected) in [
            ("libx.so", true),
            ("libx.so.1.2", true),
            (".source", false),
            ("notes.txt", false),
        ] {
            assert_eq!(is_library(Path::new(name)), expected, "{name}");
        }
    }
}
