//! The sandbox before authentication: for each restriction a child that violates it, and for each
//! permitted operation a child that performs it.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use sys::process::{self, Credentials, ExitStatus};
use sys::sandbox::{Confinement, DEFAULT_OPEN_FILES, SandboxPolicy, preauth};
use sys::signals::Signal;

use crate::{run, start, stranger, was_killed_by};

pub const TESTS: &[(&str, fn())] = &[
    ("what_login_needs_works_in_the_cage", what_login_needs_works),
    ("each_forbidden_call_kills", each_forbidden_call_kills),
    ("the_kernel_confirms_the_cage", the_kernel_confirms_the_cage),
    (
        "a_cage_that_cannot_close_is_an_error",
        a_cage_that_cannot_close,
    ),
    ("landlock_alone_keeps_files_out", landlock_alone),
];

/// Scenarios that must end with SIGSYS.
const FORBIDDEN: &[&str] = &[
    "open",
    "stat",
    "socket",
    "connect",
    "bind",
    "exec",
    "exec-fd",
    "fork",
    "spawn",
    "thread",
    "kill",
    "ptrace",
    "mmap-exec",
    "mprotect-exec",
    "setsockopt",
    "send-to-address",
    "chdir",
    "unlink",
    "setuid",
    "prctl",
    "dup",
    "memfd",
    "prlimit",
    "io-uring",
    "bpf",
    "unshare",
    "ioctl",
    "socketpair",
    "pidfd",
    "process-vm",
    "keyctl",
    "other-abi",
    "mount",
    "fcntl-lock",
    "epoll",
];

fn users() -> Vec<(&'static str, Option<Credentials>)> {
    if process::is_root() {
        vec![("root", None), ("user", Some(stranger()))]
    } else {
        eprintln!("skipped: the cage of a server started as root needs root");
        vec![("user", None)]
    }
}

fn what_login_needs_works() {
    for (who, user) in users() {
        let (status, output) = run("cage-allowed", user);
        assert_eq!(status, ExitStatus::Exited(0), "{who}: {output}");
        assert_eq!(output, "inside\ndone\n", "{who}");
    }
}

fn each_forbidden_call_kills() {
    for (who, user) in users() {
        for forbidden in FORBIDDEN {
            let (status, output) = run(&format!("cage-{forbidden}"), user.clone());
            // int 0x80 does not exist on every kernel; then it faults.
            let killed = was_killed_by(status, Signal::SYS)
                || (*forbidden == "other-abi" && was_killed_by(status, Signal::SEGV));
            assert!(killed, "{who}: {forbidden}: {status:?} {output}");
            assert_eq!(output, "inside\n", "{who}: {forbidden}");
        }
        // A file that was opened before: the limit on file sizes kills its writer.
        let (status, output) = run("cage-file-write", user.clone());
        assert!(
            was_killed_by(status, Signal::XFSZ),
            "{who}: {status:?} {output}"
        );
    }
}

fn the_kernel_confirms_the_cage() {
    for (who, user) in users() {
        let mut child = start("cage-wait", user, |_| ());
        let mut line = [0; 7];
        let mut filled = 0;
        while filled < line.len() {
            let count = sys::io::read(&child.output, &mut line[filled..]).unwrap();
            assert!(count > 0, "{who}: the child ended early");
            filled += count;
        }
        let pid = child.child.pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let words = line.unwrap_or_default().split_whitespace();
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(field("Seccomp:"), "2", "{who}");
        assert_eq!(field("NoNewPrivs:"), "1", "{who}");
        assert_eq!(field("Threads:"), "1", "{who}");
        if process::is_root() {
            assert_eq!(field("CapEff:"), "0000000000000000", "{who}");
            assert_eq!(field("CapPrm:"), "0000000000000000", "{who}");
            assert_eq!(field("Uid:"), "54321 54321 54321 54321", "{who}");
            assert_eq!(field("Gid:"), "54322 54322 54322 54322", "{who}");
            assert_eq!(field("Groups:"), "54322", "{who}");
            // Not dumpable: its files in /proc belong to root.
            use std::os::unix::fs::MetadataExt;
            let owner = std::fs::metadata(format!("/proc/{pid}/status"))
                .unwrap()
                .uid();
            assert_eq!(owner, 0, "{who}");
            let root = std::fs::read_link(format!("/proc/{pid}/root")).unwrap();
            assert_eq!(root != std::path::Path::new("/"), who == "root");
        }
        if let Ok(limits) = std::fs::read_to_string(format!("/proc/{pid}/limits")) {
            for (name, value) in [
                ("Max processes", "0"),
                ("Max file size", "0"),
                ("Max core file size", "0"),
                ("Max open files", "16"),
            ] {
                let line = limits
                    .lines()
                    .find_map(|line| line.strip_prefix(name))
                    .unwrap();
                let words: Vec<&str> = line.split_whitespace().collect();
                assert_eq!(words[..2], [value, value], "{who}: {name}");
            }
        }
        drop(child.input.take());
        assert_eq!(child.finish().0, ExitStatus::Exited(0), "{who}");
    }
}

fn a_cage_that_cannot_close() {
    for scenario in [
        "cage-fails-threads",
        "cage-fails-directory",
        "cage-fails-root-user",
    ] {
        let (status, output) = run(scenario, None);
        assert_eq!(status, ExitStatus::Exited(0), "{scenario}: {output}");
    }
}

fn landlock_alone() {
    for (who, user) in users() {
        let (status, output) = run("cage-landlock", user);
        assert_eq!(status, ExitStatus::Exited(0), "{who}: {output}");
    }
}

/// Without the list of system calls: what Landlock denies by itself.
fn only_landlock() {
    let path = std::env::temp_dir().join(format!("fulmar-sys-open-{}", process::pid()));
    let mut file = sys::file::create_new(&path, 0o600).unwrap();
    std::fs::remove_file(&path).unwrap();
    sys::sandbox::deny_files().unwrap();
    let denied = |result: std::io::Result<()>| {
        assert_eq!(
            result.unwrap_err().kind(),
            std::io::ErrorKind::PermissionDenied
        );
    };
    denied(std::fs::read("/etc/passwd").map(drop));
    denied(std::fs::read_dir("/").map(drop));
    denied(std::fs::write(&path, "x"));
    denied(std::fs::create_dir(&path));
    let mut command = process::ChildCommand::new("/bin/true");
    denied(
        command
            .arg("true")
            .spawn()
            .map(drop)
            .map_err(std::io::Error::from),
    );
    std::io::Write::write_all(&mut file, b"still open").unwrap();
    assert!(process::no_new_privs().unwrap());
}

fn policy() -> SandboxPolicy {
    let confinement = if process::is_root() {
        let directory = std::env::temp_dir().join(format!("fulmar-sys-empty-{}", process::pid()));
        let _ = std::fs::remove_dir(&directory);
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(
            &directory,
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        Confinement::EmptyRoot {
            directory,
            user: stranger(),
        }
    } else {
        Confinement::Landlock
    };
    SandboxPolicy {
        confinement,
        max_open_files: DEFAULT_OPEN_FILES,
        may_write: false,
    }
}

fn enter() {
    let policy = policy();
    // Kept open by descriptor only: the directory can be removed and stays the root.
    preauth_and_remove(&policy);
    sys::io::write_all(sys::io::stdout(), b"inside\n").unwrap();
}

fn preauth_and_remove(policy: &SandboxPolicy) {
    // A child of the shell removes the directory after this process has entered it, because nothing
    // inside the sandbox can.
    if let Confinement::EmptyRoot { directory, .. } = &policy.confinement {
        let mut command = process::ChildCommand::new("/bin/sh");
        let script = "while read line; do :; done; rmdir \"$1\"";
        command.args(["sh", "-c", script, "sh"]);
        command.arg(directory);
        command.env("PATH", "/usr/bin:/bin");
        // Exits with this process, whose end of the pipe stays open until then.
        let (reader, writer) = sys::io::pipe().unwrap();
        command.fd(reader, 0);
        command.new_session();
        command.spawn().unwrap();
        std::mem::forget(writer);
    }
    if let Err(error) = preauth(policy) {
        eprintln!("{error}");
        std::process::exit(99);
    }
}

/// Runs the scenario `name`; false if this module has none of that name.
pub fn child(scenario: &str) -> bool {
    let Some(name) = scenario.strip_prefix("cage-") else {
        return false;
    };
    match name {
        "allowed" => allowed(),
        "landlock" => only_landlock(),
        "wait" => {
            enter();
            let mut byte = [0];
            assert_eq!(sys::io::read(sys::io::stdin(), &mut byte).unwrap(), 0);
        }
        "fails-threads" => fails_with_threads(),
        "fails-directory" => fails_with_directory(),
        "fails-root-user" => fails_with_root_user(),
        "file-write" => {
            let path = std::env::temp_dir().join(format!("fulmar-sys-open-{}", process::pid()));
            let file = sys::file::create_new(&path, 0o600).unwrap();
            std::fs::remove_file(&path).unwrap();
            enter();
            let _ = sys::io::write(&file, b"x");
        }
        name => {
            let listener =
                sys::socket::listen("127.0.0.1:0".parse().unwrap(), 1, true, false).unwrap();
            enter();
            forbidden(name, listener.as_raw_fd());
        }
    }
    std::process::exit(0);
}

fn allowed() {
    let (left, right) = sys::socket::stream_pair().unwrap();
    let tcp = sys::socket::listen("127.0.0.1:0".parse().unwrap(), 1, true, false).unwrap();
    enter();
    // Allocations, small and large, growing and shrinking.
    let mut blocks: Vec<Vec<u8>> = (1..200).map(|n| vec![7; n * 1000]).collect();
    blocks.truncate(50);
    let big = vec![1_u8; 40 << 20];
    assert_eq!(
        big.iter().map(|byte| u64::from(*byte)).sum::<u64>(),
        40 << 20
    );
    drop((big, blocks));
    // The connection and the monitor's socket.
    sys::io::writev(&left, &[IoSlice::new(b"ab"), IoSlice::new(b"cd")]).unwrap();
    let (mut first, mut second) = ([0; 3], [0; 3]);
    let mut into = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    assert_eq!(sys::io::readv(&right, &mut into).unwrap(), 4);
    sys::socket::send_with_fds(&left, b"take it", &[tcp.as_fd()]).unwrap();
    let mut buffer = [0; 64];
    let received = sys::socket::recv_with_fds(&right, &mut buffer, 1).unwrap();
    assert_eq!((received.len, received.fds.len()), (7, 1));
    drop(received);
    let mut stream = std::os::unix::net::UnixStream::from(left);
    std::io::Write::write_all(&mut stream, b"std").unwrap();
    assert_eq!(sys::io::read(&right, &mut buffer).unwrap(), 3);
    // Waiting.
    assert!(!sys::io::wait_readable(&right, Some(Duration::from_millis(1))).unwrap());
    assert!(!sys::io::wait_readable(&right, Some(Duration::ZERO)).unwrap());
    std::thread::sleep(Duration::from_millis(1));
    sys::socket::set_quickack(&tcp, true).unwrap();
    sys::io::set_nonblocking(&right, true).unwrap();
    // Clocks, randomness, identity.
    assert!(sys::time::monotonic_us() > 0 && sys::time::realtime_seconds() > 0);
    let mut random = [0_u8; 64];
    assert_eq!(
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()),
        Ok(64)
    );
    assert!(process::pid() > 0);
    // The limit on open files is enforced.
    let mut open = Vec::new();
    loop {
        sys::socket::send_with_fds(&stream, b"x", &[tcp.as_fd()]).unwrap();
        match sys::socket::recv_with_fds(&right, &mut buffer, 1) {
            Ok(received) => open.extend(received.fds),
            Err(_) => break,
        }
        assert!(open.len() <= 16);
    }
    assert!(!open.is_empty());
    drop(open);
    sys::socket::shutdown(&right, sys::socket::ShutdownDirection::Both).unwrap();
    sys::io::write_all(sys::io::stdout(), b"done\n").unwrap();
}

#[allow(clippy::too_many_lines)]
fn forbidden(name: &str, tcp: i32) {
    use std::ptr::null;
    let path = c"/etc/passwd".as_ptr();
    let none = null::<u8>();
    // SAFETY: the kernel refuses each call before it has an effect; the test checks that the
    // refusal kills this process. All pointers are valid or null.
    unsafe {
        match name {
            "open" => {
                libc::open(path, libc::O_RDONLY);
            }
            "stat" => {
                let mut stat: libc::stat = std::mem::zeroed();
                libc::stat(path, &raw mut stat);
            }
            "socket" => {
                libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
            }
            "socketpair" => {
                let mut pair = [0; 2];
                libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr());
            }
            "connect" => {
                libc::connect(tcp, none.cast(), 0);
            }
            "bind" => {
                libc::bind(tcp, none.cast(), 0);
            }
            "exec" => {
                let argv = [path, null()];
                libc::execve(c"/bin/true".as_ptr(), argv.as_ptr(), [null()].as_ptr());
            }
            "exec-fd" => {
                libc::syscall(
                    libc::SYS_execveat,
                    0,
                    c"".as_ptr(),
                    none,
                    none,
                    libc::AT_EMPTY_PATH,
                );
            }
            "fork" => {
                libc::fork();
            }
            "spawn" => {
                let _ = process::ChildCommand::new("/bin/true").arg("true").spawn();
            }
            "thread" => {
                let _ = std::thread::Builder::new().spawn(|| ());
            }
            "kill" => {
                libc::kill(libc::getpid(), 0);
            }
            "ptrace" => {
                libc::ptrace(libc::PTRACE_TRACEME, 0, none, none);
            }
            "mmap-exec" => {
                let prot = libc::PROT_READ | libc::PROT_EXEC;
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                libc::mmap(std::ptr::null_mut(), 4096, prot, flags, -1, 0);
            }
            "mprotect-exec" => {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let page = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, flags, -1, 0);
                libc::mprotect(page, 4096, libc::PROT_EXEC);
            }
            "setsockopt" => {
                let on = 1;
                let len = libc::socklen_t::try_from(size_of::<i32>()).unwrap();
                let on: *const i32 = &raw const on;
                libc::setsockopt(tcp, libc::SOL_SOCKET, libc::SO_REUSEADDR, on.cast(), len);
            }
            "send-to-address" => {
                let address: libc::sockaddr_in = std::mem::zeroed();
                let len = libc::socklen_t::try_from(size_of::<libc::sockaddr_in>()).unwrap();
                let address: *const libc::sockaddr_in = &raw const address;
                libc::sendto(tcp, path.cast(), 1, 0, address.cast(), len);
            }
            "chdir" => {
                libc::chdir(c"/".as_ptr());
            }
            "unlink" => {
                libc::unlink(c"/no-such".as_ptr());
            }
            "setuid" => {
                libc::syscall(libc::SYS_setuid, 0);
            }
            "prctl" => {
                libc::prctl(libc::PR_GET_DUMPABLE);
            }
            "dup" => {
                libc::dup(0);
            }
            "memfd" => {
                libc::memfd_create(c"x".as_ptr(), 0);
            }
            "prlimit" => {
                let _ = process::limit(process::Resource::Core);
            }
            "io-uring" => {
                libc::syscall(libc::SYS_io_uring_setup, 1, none);
            }
            "bpf" => {
                libc::syscall(libc::SYS_bpf, 0, none, 0);
            }
            "unshare" => {
                libc::unshare(libc::CLONE_NEWUSER);
            }
            "ioctl" => {
                libc::isatty(0);
            }
            "pidfd" => {
                libc::syscall(libc::SYS_pidfd_open, 1, 0);
            }
            "process-vm" => {
                libc::process_vm_readv(1, null(), 0, null(), 0, 0);
            }
            "keyctl" => {
                libc::syscall(libc::SYS_keyctl, 0, 0, 0);
            }
            "mount" => {
                libc::mount(path, path, path, 0, none.cast());
            }
            "fcntl-lock" => {
                libc::fcntl(0, libc::F_DUPFD, 10);
            }
            "epoll" => {
                libc::epoll_create1(0);
            }
            "other-abi" => other_abi(),
            name => panic!("unknown forbidden call {name}"),
        }
    }
}

/// The same numbers mean other calls in the 32-bit table.
#[cfg(target_arch = "x86_64")]
fn other_abi() {
    // SAFETY: getpid of the 32-bit table: kills, or faults if there is no such table.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20_u64 => _, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn other_abi() {
    // SAFETY: a number that is in no table: kills.
    unsafe { libc::syscall(4000) };
}

fn fails_with_threads() {
    let (reader, writer) = sys::io::pipe().unwrap();
    let other = std::thread::spawn(move || {
        let _ = sys::io::read(&reader, &mut [0]);
    });
    let error = preauth(&policy()).unwrap_err();
    assert_eq!(error.step, sys::sandbox::SandboxStep::SingleThread);
    drop(writer);
    other.join().unwrap();
    cleanup();
}

fn cleanup() {
    let _ = std::fs::remove_dir(
        std::env::temp_dir().join(format!("fulmar-sys-empty-{}", process::pid())),
    );
}

fn fails_with_directory() {
    if !process::is_root() {
        return;
    }
    for directory in ["/no/such/directory", "/etc", "/tmp"] {
        let policy = SandboxPolicy {
            confinement: Confinement::EmptyRoot {
                directory: directory.into(),
                user: stranger(),
            },
            max_open_files: DEFAULT_OPEN_FILES,
            may_write: false,
        };
        let error = preauth(&policy).unwrap_err();
        assert_eq!(error.step, sys::sandbox::SandboxStep::Root, "{directory}");
    }
    let policy = SandboxPolicy {
        confinement: Confinement::Landlock,
        max_open_files: DEFAULT_OPEN_FILES,
        may_write: false,
    };
    assert!(preauth(&policy).is_err());
}

fn fails_with_root_user() {
    if !process::is_root() {
        return;
    }
    let mut policy = policy();
    if let Confinement::EmptyRoot { user, .. } = &mut policy.confinement {
        user.groups.push(0);
    }
    let error = preauth(&policy).unwrap_err();
    assert_eq!(error.step, sys::sandbox::SandboxStep::User);
    cleanup();
}
