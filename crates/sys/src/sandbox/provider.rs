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
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::bpf::BpfProgram;
use super::calls::{Call, FCNTL, FIOASYNC, FSTATAT, LIBRARY_HERE, MMAP, TIMERS_HERE};
use super::files::Wall;
use super::filter::{CallList, UNKNOWN};
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

/// What security keys need, besides the HID devices: USB for libraries that do without the kernel's
/// driver, and devices that any program may use.
const SECURITY_KEY_DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/urandom",
    "/dev/random",
    "/dev/bus/usb",
];
/// What libraries for security keys read: device properties and the settings of OpenSSL.
const SECURITY_KEY_READ: &[&str] = &["/run/udev", "/etc/ssl/openssl.cnf"];
/// Calls on the sockets that report devices.
const SECURITY_KEY_CALLS: &[Call] = &[
    libc::SYS_bind,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_pipe2,
];

/// Limit on open descriptors.
const MAX_OPEN_FILES: u64 = 256;

/// Calls that are allowed with any arguments, in addition to those of every sandbox: memory, files within the rules above, the open
/// device, locks of threads, clocks, and the process's socket and memory.
const ALLOWED: &[Call] = &[
    libc::SYS_pread64,
    libc::SYS_sendto,
    libc::SYS_lseek,
    libc::SYS_openat,
    FSTATAT,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_dup,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    MMAP,
    libc::SYS_mprotect,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_clock_getres,
    libc::SYS_rt_sigaction,
    libc::SYS_getppid,
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
];

/// Allowed fcntl commands; commands that send signals to other processes, and leases and locks, are
/// not among them.
pub(super) const DESCRIPTOR: &[i32] = &[
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_DUPFD_CLOEXEC,
];
/// Forbidden ioctl requests: they send signals to a chosen process, or put input into the terminal of
/// standard error, which a shell would execute.
pub(super) const REACHES_OTHERS: &[i32] = &[
    0x8901, // FIOSETOWN
    0x8902, // SIOCSPGRP
    FIOASYNC, 0x5412, // TIOCSTI
    0x541c, // TIOCLINUX
];

/// Puts this process, which must have one thread, into the sandbox; `libraries` are the libraries
/// that it will load. Returns how far the kernel restricts access to files; calls are filtered on
/// every kernel.
///
/// # Errors
/// The kernel's error; then end the process.
pub fn provider(libraries: &[impl AsRef<Path>]) -> io::Result<Wall> {
    let devices: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
    confine(libraries, &devices, &[], program()?)
}

/// Puts this process, which must have one thread, into the sandbox of a process that reaches security
/// keys (FIDO), with the provider's library if it loads one. The devices are those that are attached
/// now: HID devices with a raw interface, and USB. A process of root, which signs with a host key,
/// keeps no capability: root owns the devices.
///
/// # Errors
/// The kernel's error; then end the process.
pub fn security_key(library: Option<&Path>) -> io::Result<Wall> {
    let mut devices: Vec<PathBuf> = SECURITY_KEY_DEVICES.iter().map(PathBuf::from).collect();
    if let Ok(entries) = std::fs::read_dir("/dev") {
        let is_hid = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().as_bytes();
            name.starts_with(b"hidraw")
        };
        devices.extend(entries.flatten().map(|entry| entry.path()).filter(is_hid));
    }
    let libraries: Vec<&Path> = library.into_iter().collect();
    let filter = security_key_program()?;
    process::drop_capabilities()?;
    confine(&libraries, &devices, SECURITY_KEY_READ, filter)
}

fn confine(
    libraries: &[impl AsRef<Path>],
    devices: &[PathBuf],
    read: &[&str],
    filter: BpfProgram,
) -> io::Result<Wall> {
    process::set_limit(Resource::FileSize, Limit::both(0))?;
    begin(MAX_OPEN_FILES)?;
    let wall = files(libraries, devices, read)?;
    finish(filter)?;
    Ok(wall)
}

/// The first step into the sandbox of a process that loads a foreign library: no core dump, no new
/// privileges, no other process of the user may read its memory, and at most `max_open_files` open
/// descriptors.
pub(super) fn begin(max_open_files: u64) -> io::Result<()> {
    process::disable_core_dumps()?;
    process::set_no_new_privs()?;
    process::set_dumpable(false)?;
    for (resource, value) in [(Resource::Core, 0), (Resource::OpenFiles, max_open_files)] {
        let ceiling = process::limit(resource)?.hard;
        process::set_limit(resource, Limit::both(value.min(ceiling)))?;
    }
    Ok(())
}

/// The last step: the filter of system calls.
pub(super) fn finish(filter: BpfProgram) -> io::Result<()> {
    filter.install().map_err(|error| {
        let text = format!("this kernel does not restrict system calls (seccomp): {error}");
        io::Error::new(error.kind(), text)
    })
}

fn files(libraries: &[impl AsRef<Path>], devices: &[PathBuf], read: &[&str]) -> io::Result<Wall> {
    let code = AccessFs::from_read(ABI::V5) & !AccessFs::Execute;
    let device = code | AccessFs::WriteFile | AccessFs::IoctlDev;
    let named = |paths: &'static [&str]| paths.iter().map(Path::new);
    let own: Vec<PathBuf> = libraries
        .iter()
        .flat_map(|path| with_neighbours(path.as_ref()))
        .collect();
    let rules = named(CODE)
        .chain(named(READ))
        .chain(read.iter().map(Path::new))
        .chain(own.iter().map(PathBuf::as_path))
        .map(|path| (path, code))
        .chain(devices.iter().map(|path| (path.as_path(), device)));
    wall(rules)
}

/// Whether a process may use TCP ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Net {
    Denied,
    Permitted,
}

/// As [`wall_with`], without TCP ports.
pub(super) fn wall<P: AsRef<Path>>(
    rules: impl IntoIterator<Item = (P, BitFlags<AccessFs>)>,
) -> io::Result<Wall> {
    wall_with(rules, Net::Denied)
}

/// Denies this process all files, abstract sockets and signals to others, but for the rights at the
/// paths of `rules`, and TCP ports as `net` says. A path that is missing needs no rule.
pub(super) fn wall_with<P: AsRef<Path>>(
    rules: impl IntoIterator<Item = (P, BitFlags<AccessFs>)>,
    net: Net,
) -> io::Result<Wall> {
    let mut set = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))
        .and_then(|set| match net {
            Net::Denied => set.handle_access(AccessNet::from_all(ABI::V4)),
            Net::Permitted => Ok(set),
        })
        .and_then(|set| set.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    for (path, rights) in rules {
        let Ok(opened) = PathFd::new(&path) else {
            continue;
        };
        let rights = if path.as_ref().is_dir() {
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
    calls()?.finish()
}

/// The filter of a process that reaches security keys, which also learns of devices by netlink sockets
/// (libudev, libusb).
fn security_key_program() -> io::Result<BpfProgram> {
    let mut calls = calls()?;
    calls.sockets(&[])?;
    for number in [SECURITY_KEY_CALLS, &TIMERS_HERE.concat()].concat() {
        calls.any(number)?;
    }
    calls.finish()
}

/// The calls that a process with a foreign library may make with any arguments.
pub(super) fn library_calls() -> Vec<Call> {
    [ALLOWED, &LIBRARY_HERE.concat()].concat()
}

fn calls() -> io::Result<CallList> {
    let mut calls = CallList::new(UNKNOWN, &library_calls())?;
    own_alone(&mut calls, DESCRIPTOR)?;
    Ok(calls)
}

/// Adds the calls that a foreign library may make for its own process alone, by their arguments;
/// `descriptor` has the permitted commands of fcntl.
pub(super) fn own_alone(calls: &mut CallList, descriptor: &[i32]) -> io::Result<()> {
    calls.only_threads()?;
    calls.own_signals()?;
    // Limits of this process and affinity of the calling thread only.
    calls.with_one_of(libc::SYS_prlimit64, 0, &[0])?;
    calls.with_one_of(libc::SYS_sched_setaffinity, 0, &[0])?;
    calls.with_one_of(FCNTL, 1, descriptor)?;
    calls.without_one_of(libc::SYS_ioctl, 1, REACHES_OTHERS)?;
    let control = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_VMA];
    calls.with_one_of(libc::SYS_prctl, 0, &control)
}

/// Calls that no foreign library may make: they start, reach or signal other processes, change the user,
/// accept connections, or work past the filter.
#[cfg(test)]
pub(super) const FORBIDDEN: [Call; 11] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_clone3,
    libc::SYS_kill,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_pidfd_send_signal,
    libc::SYS_io_uring_setup,
    libc::SYS_listen,
    libc::SYS_accept4,
    super::calls::SETUID,
];

#[cfg(test)]
mod tests {
    use super::super::filter::{allows, word};
    use super::*;

    #[test]
    fn nobody_else_gets_signals_or_other_processors() {
        let program = program().unwrap();
        let allows = |number, arguments| allows(&program, UNKNOWN, number, arguments);
        let second = |value: i32| [3, u64::from(word(value)), 0, 0, 0, 0];
        for command in DESCRIPTOR {
            assert!(allows(FCNTL, second(*command)), "{command}");
        }
        for command in [libc::F_SETOWN, 10, 15, libc::F_SETLEASE, libc::F_NOTIFY] {
            assert!(!allows(FCNTL, second(command)), "{command}");
        }
        for request in REACHES_OTHERS {
            assert!(!allows(libc::SYS_ioctl, second(*request)), "{request:#x}");
        }
        assert!(allows(libc::SYS_ioctl, second(0x5401)));
        assert!(allows(libc::SYS_ioctl, [3, 0xc0de_0001, 0, 0, 0, 0]));
        for number in FORBIDDEN {
            assert!(!allows(number, [0; 6]), "{number}");
        }
        assert!(allows(libc::SYS_sched_setaffinity, [0; 6]));
        assert!(!allows(libc::SYS_sched_setaffinity, [1, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn a_socket_reports_devices_and_nothing_else() {
        let program = security_key_program().unwrap();
        let socket = |family: i32, protocol: i32| {
            let arguments = [
                u64::from(word(family)),
                3,
                u64::from(word(protocol)),
                0,
                0,
                0,
            ];
            allows(&program, UNKNOWN, libc::SYS_socket, arguments)
        };
        assert!(socket(libc::AF_NETLINK, libc::NETLINK_KOBJECT_UEVENT));
        for protocol in [
            libc::NETLINK_ROUTE,
            libc::NETLINK_USERSOCK,
            libc::NETLINK_GENERIC,
        ] {
            assert!(!socket(libc::AF_NETLINK, protocol), "{protocol}");
        }
        for family in [libc::AF_INET, libc::AF_UNIX, libc::AF_PACKET] {
            assert!(!socket(family, libc::NETLINK_KOBJECT_UEVENT), "{family}");
        }
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
