//! Scenarios that change the whole process: users, titles, death signals, sockets from a service
//! manager, terminals.

use std::os::fd::AsFd;

use sys::process::{self, AsUser, Credentials, ExitStatus, SelfExe, WithGroups, become_user};
use sys::pty::Pty;
use sys::signals::Signal;
use sys::terminal;

use crate::{Running, run, start, stranger, was_killed_by};

pub const TESTS: &[(&str, fn())] = &[
    ("a_dropped_user_stays_dropped", || succeeds("become", None)),
    ("an_ordinary_user_becomes_nobody_else", || {
        if process::is_root() {
            succeeds("become-ordinary", Some(stranger()));
        } else {
            succeeds("become-ordinary", None);
        }
    }),
    ("a_group_that_was_given_up_stays_so", || {
        succeeds("give-up-group", None)
    }),
    ("acting_as_a_user_ends_with_the_guard", || {
        succeeds("as-user", None)
    }),
    ("the_title_is_shown", || succeeds("title", None)),
    ("the_memory_is_private_once_undumpable", || {
        succeeds("dumpable", None)
    }),
    ("descriptors_from_a_number_on_are_closed", || {
        succeeds("close-from", None)
    }),
    ("closed_standard_streams_are_filled", || {
        succeeds("stdio", None)
    }),
    (
        "freed_memory_below_a_small_allocation_goes_back_to_the_system",
        || succeeds("trim-heap", None),
    ),
    (
        "a_stack_that_calls_have_left_goes_back_to_the_system",
        || succeeds("trim-stack", None),
    ),
    ("no_memory_becomes_executable", || {
        succeeds("exec-gain", None)
    }),
    ("a_manager_hands_sockets_to_its_process_only", || {
        succeeds("listen-fds", None)
    }),
    ("children_are_reaped_whoever_started_them", || {
        succeeds("reap", None)
    }),
    ("exec_replaces_the_process_in_place", exec_in_place),
    ("the_death_of_the_parent_is_told", death_signal),
    ("a_fatal_signal_restores_the_terminal", fatal_signal),
    ("a_signal_during_a_prompt_restores_the_echo", prompt_signal),
    ("no_child_is_left_behind", no_child_is_left),
];

fn succeeds(scenario: &str, user: Option<Credentials>) {
    let (status, output) = run(scenario, user);
    assert_eq!(status, ExitStatus::Exited(0), "{scenario}: {output}");
}

/// Orphans of the scenarios are adopted by this process; each exits by itself.
fn no_child_is_left() {
    use rustix::process::{WaitOptions, wait};
    while wait(WaitOptions::empty()).is_ok() {}
    assert_eq!(process::reap_any().unwrap(), None);
}

/// Reads until the received bytes end with `wanted`.
fn read_until(fd: impl AsFd, wanted: &[u8]) -> Vec<u8> {
    let fd = fd.as_fd();
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(wanted) {
        assert_eq!(sys::io::read(fd, &mut byte).unwrap(), 1, "{text:?}");
        text.extend_from_slice(&byte);
    }
    text
}

fn exec_in_place() {
    let running = start("exec", None, |_| ());
    let pid = running.child.pid();
    let (status, output) = running.finish();
    assert_eq!(status, ExitStatus::Exited(7));
    assert_eq!(output, format!("{pid}\n"));
}

fn death_signal() {
    // The child starts a grandchild that holds the pipe open until it receives the child's death
    // signal: the end of the pipe is the proof.
    let (status, output) = run("parent-dies", None);
    assert_eq!(status, ExitStatus::Exited(0));
    assert_eq!(output, "started\n");
}

fn fatal_signal() {
    let Pty { master, slave, .. } = Pty::open().unwrap();
    let before = terminal::attributes(&slave).unwrap();
    let Running {
        mut child, output, ..
    } = start("raw", None, |command| {
        command.fd_shared(&slave, 9);
    });
    read_until(&output, b"raw\n");
    let during = terminal::attributes(&slave).unwrap();
    assert_ne!(during.local_modes, before.local_modes);
    child.signal(Signal::TERM).unwrap();
    assert!(was_killed_by(child.wait().unwrap(), Signal::TERM));
    let after = terminal::attributes(&slave).unwrap();
    assert_eq!(after.local_modes, before.local_modes);
    assert_eq!(after.output_modes, before.output_modes);
    drop(master);
}

fn prompt_signal() {
    let Pty { master, slave, .. } = Pty::open().unwrap();
    let before = terminal::attributes(&slave).unwrap();
    let mut running = start("prompt", None, |command| {
        command
            .new_session()
            .fd_shared(&slave, 9)
            .controlling_terminal(9);
    });
    read_until(&master, b"Passphrase: ");
    // The interrupt key.
    sys::io::write_all(&master, b"half\x03").unwrap();
    assert!(was_killed_by(running.child.wait().unwrap(), Signal::INT));
    let after = terminal::attributes(&slave).unwrap();
    assert_eq!(after.local_modes, before.local_modes);
}

/// Runs the scenario `name`; false if there is none of that name.
pub fn child(scenario: &str) -> bool {
    match scenario {
        "become" => become_stranger(),
        "become-ordinary" => become_ordinary(),
        "give-up-group" => give_up_group(),
        "as-user" => as_user(),
        "title" => title(),
        "exec-gain" => exec_gain(),
        "dumpable" => dumpable(),
        "close-from" => close_from(),
        "stdio" => stdio(),
        "trim-heap" => trim_heap(),
        "trim-stack" => trim_stack(),
        "listen-fds" => listen_fds(),
        "reap" => reap(),
        "exec" => {
            let mut command = process::ChildCommand::new("/bin/sh");
            command
                .args(["sh", "-c", "echo $$; exit 7"])
                .inherit_stdio();
            panic!("{}", command.exec());
        }
        "parent-dies" => parent_dies(),
        "wait-for-signal" => {
            sys::io::write_all(sys::io::stdout(), b"started\n").unwrap();
            loop {
                std::thread::park();
            }
        }
        "raw" => {
            let tty = sys::io::inherited(9).unwrap();
            let _raw = terminal::RawMode::enter(&tty).unwrap();
            sys::io::write_all(sys::io::stdout(), b"raw\n").unwrap();
            let _ = sys::io::read(sys::io::stdin(), &mut [0]);
            loop {
                std::thread::park();
            }
        }
        "prompt" => {
            let answer = terminal::prompt_secret("Passphrase: ");
            panic!("answered: {}", answer.is_ok());
        }
        "inherited-sockets" => {
            let sockets = sys::systemd::listen_fds().unwrap();
            assert!(sockets.is_empty());
        }
        _ => return false,
    }
    true
}

/// Resident anonymous memory of this process, in bytes.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib: usize = line.unwrap().trim_end_matches("kB").trim().parse().unwrap();
    kib * 1024
}

/// Freed memory below a small allocation goes back to the system.
fn trim_heap() {
    // Small enough to come from the heap, each with a neighbour that stays.
    let (blocks, neighbours): (Vec<_>, Vec<_>) = (0..600)
        .map(|_| (vec![1_u8; 64 << 10], vec![1_u8; 4 << 10]))
        .unzip();
    drop(blocks);
    let kept = resident_bytes();
    sys::memory::trim();
    let left = resident_bytes();
    assert!(left + (16 << 20) < kept, "{left} of {kept} bytes left");
    assert_eq!(neighbours.len(), 600);
}

fn trim_stack() {
    #[inline(never)]
    fn deep(level: u8) -> u8 {
        let block = std::hint::black_box([level; 4096]);
        let below = level.checked_sub(1).map_or(0, deep);
        block
            .iter()
            .fold(below, |sum, byte| sum.wrapping_add(*byte))
    }
    let above = std::hint::black_box([7_u8; 20_000]);
    let sum = deep(150);
    let used = resident_bytes();
    sys::memory::trim_stack();
    let left = resident_bytes();
    assert!(left + 400_000 < used, "{left} of {used} bytes left");
    assert_eq!(deep(150), sum);
    assert!(above.iter().all(|byte| *byte == 7));
    // Another thread has a stack of its own.
    std::thread::spawn(sys::memory::trim_stack).join().unwrap();
}

fn become_stranger() {
    if !process::is_root() {
        eprintln!("skipped: changing users needs root");
        return;
    }
    become_user(&stranger()).unwrap();
    assert_eq!(process::own_credentials().unwrap(), stranger());
    // SAFETY: calls that must fail.
    unsafe {
        assert_ne!(libc::setuid(0), 0);
        assert_ne!(libc::setresuid(0, 0, 0), 0);
        assert_ne!(libc::setgid(0), 0);
        assert_ne!(libc::setgroups(0, std::ptr::null()), 0);
    }
    become_user(&stranger()).unwrap();
    assert!(
        become_user(&Credentials {
            uid: 1,
            gid: 1,
            groups: vec![]
        })
        .is_err()
    );
}

/// What the kernel makes of a process that executes a set-group-ID program.
fn give_up_group() {
    if !process::is_root() {
        eprintln!("skipped: changing users needs root");
        return;
    }
    let Credentials { uid, gid, .. } = stranger();
    // SAFETY: system calls with numbers alone.
    unsafe {
        assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
        assert_eq!(libc::setresgid(gid, 0, 0), 0);
        // With another user's rights, the group stays.
        assert_eq!(libc::setresuid(uid, 0, 0), 0);
        assert!(process::is_elevated() && !process::give_up_group().unwrap());
        assert_eq!(libc::getegid(), 0);
        assert_eq!(libc::setresuid(uid, uid, uid), 0);
    }
    assert!(process::is_elevated());
    assert!(process::give_up_group().unwrap());
    assert!(!process::is_elevated());
    // SAFETY: calls that must fail.
    unsafe {
        assert_ne!(libc::setgid(0), 0);
        assert_ne!(libc::setresgid(0, 0, 0), 0);
    }
}

fn become_ordinary() {
    let own = process::own_credentials().unwrap();
    become_user(&own).unwrap();
    let mut other = own.clone();
    other.uid += 1;
    assert!(become_user(&other).is_err());
    assert!(AsUser::enter(&other).is_err());
    drop(AsUser::enter(&own).unwrap());
    assert_eq!(process::own_credentials().unwrap(), own);
}

fn as_user() {
    if !process::is_root() {
        eprintln!("skipped: acting as users needs root");
        return;
    }
    let path = std::env::temp_dir().join(format!("fulmar-sys-roots-{}", process::pid()));
    sys::file::write_private(&path, b"root's").unwrap();
    let before = process::own_credentials().unwrap();
    let guard = AsUser::enter(&stranger()).unwrap();
    assert_eq!(process::own_credentials().unwrap(), stranger());
    assert!(std::fs::read(&path).is_err());
    // Nested: only root may enter, and the effective user is not root now.
    assert!(
        AsUser::enter(&Credentials {
            uid: 7,
            gid: 7,
            groups: vec![]
        })
        .is_err()
    );
    assert!(WithGroups::enter(&[7]).is_err());
    drop(guard);
    assert_eq!(process::own_credentials().unwrap(), before);
    assert_eq!(std::fs::read(&path).unwrap(), b"root's");
    // Groups only, with a change by other code meanwhile.
    let guard = WithGroups::enter(&[7, 9]).unwrap();
    assert_eq!(guard.now().unwrap(), [7, 9]);
    // SAFETY: three numbers of a live array.
    assert_eq!(unsafe { libc::setgroups(3, [7, 9, 11].as_ptr()) }, 0);
    assert_eq!(guard.now().unwrap(), [7, 9, 11]);
    assert_eq!(process::effective_uid(), 0);
    drop(guard);
    assert_eq!(process::own_credentials().unwrap(), before);
    std::fs::remove_file(&path).unwrap();
}

fn title() {
    process::set_title("sshd: ann").unwrap();
    process::set_name("fulmar-test").unwrap();
    let shown = std::fs::read("/proc/self/cmdline").unwrap();
    let shown = String::from_utf8(shown).unwrap();
    assert_eq!(shown.trim_end_matches('\0'), "sshd: ann");
    assert_eq!(
        std::fs::read_to_string("/proc/self/comm").unwrap(),
        "fulmar-test\n"
    );
    process::set_title(&"x".repeat(10_000)).unwrap();
    assert!(process::set_title("a\0b").is_err());
    let before = process::set_oom_score(500).unwrap();
    assert_eq!(process::set_oom_score(501).unwrap(), 500);
    assert!(before <= 1000);
    // The environment after the arguments is unchanged.
    assert!(std::env::vars_os().all(|(name, _)| !name.is_empty()));
    let variables: Vec<_> = std::env::vars_os().collect();
    let long = "y".repeat(500);
    process::set_long_title(&long).unwrap();
    let shown = std::fs::read("/proc/self/cmdline").unwrap();
    let bytes = shown.iter().take_while(|byte| **byte == b'y').count();
    let arguments: usize = 8 + variables
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum::<usize>();
    assert!(
        bytes == long.len() || bytes >= arguments,
        "{bytes} of {arguments}"
    );
    assert_eq!(std::env::vars_os().collect::<Vec<_>>(), variables);
}

fn dumpable() {
    process::set_dumpable(true).unwrap();
    assert!(process::is_dumpable().unwrap());
    process::disable_core_dumps().unwrap();
    assert!(!process::is_dumpable().unwrap());
    assert_eq!(
        process::limit(process::Resource::Core).unwrap(),
        process::Limit::both(0)
    );
    assert!(!process::no_new_privs().unwrap());
    process::set_no_new_privs().unwrap();
    assert!(process::no_new_privs().unwrap());
}

fn close_from() {
    let kept = sys::io::null().unwrap();
    let gone: Vec<i32> = (0..5)
        .map(|_| std::os::fd::IntoRawFd::into_raw_fd(sys::io::null().unwrap()))
        .collect();
    let first = u32::try_from(*gone.iter().min().unwrap()).unwrap();
    process::close_from(first).unwrap();
    for number in gone {
        assert!(sys::io::inherited(number).is_err());
    }
    sys::io::set_nonblocking(&kept, false).unwrap();
}

fn stdio() {
    // SAFETY: no object owns the standard streams.
    unsafe {
        libc::close(0);
        libc::close(2);
    }
    sys::io::ensure_stdio().unwrap();
    let opened = sys::io::null().unwrap();
    assert!(std::os::fd::AsRawFd::as_raw_fd(&opened) > 2);
    assert_eq!(sys::io::read(sys::io::stdin(), &mut [0]).unwrap(), 0);
}

fn listen_fds() {
    // Like a service manager: sockets from 3 on, the own pid in the environment.
    // SAFETY: this process has one thread.
    unsafe {
        std::env::set_var("LISTEN_PID", process::pid().to_string());
        std::env::set_var("LISTEN_FDS", "2");
    }
    let first = sys::io::null().unwrap();
    let second = sys::io::null().unwrap();
    // SAFETY: 3 and 4 are unowned, or belong to the two above.
    unsafe {
        libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&first), 3);
        libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&second), 4);
    }
    std::mem::forget((first, second));
    let sockets = sys::systemd::listen_fds().unwrap();
    assert_eq!(sockets.len(), 2);
    assert!(sys::systemd::listen_fds().unwrap().is_empty());
    // Another process with the same environment receives none.
    let mut command = SelfExe::open().unwrap().command().unwrap();
    command.args(["roles-child", "--scenario", "inherited-sockets"]);
    command.inherit_env().inherit_stdio();
    assert!(command.spawn().unwrap().wait().unwrap().is_success());
}

fn reap() {
    let children: Vec<_> = [1, 2, 3]
        .into_iter()
        .map(|code| {
            let mut command = process::ChildCommand::new("/bin/sh");
            command.args(["sh", "-c", &format!("exit {code}")]);
            command.inherit_stdio().spawn().unwrap()
        })
        .collect();
    for child in &children {
        sys::io::wait_readable(child.pidfd(), None).unwrap();
    }
    let mut seen = Vec::new();
    while let Some((pid, status)) = process::reap_any().unwrap() {
        assert!(children.iter().any(|child| child.pid() == pid));
        seen.push(status);
    }
    seen.sort_by_key(|status| format!("{status:?}"));
    assert_eq!(seen, [1, 2, 3].map(ExitStatus::Exited));
}

fn parent_dies() {
    let mut command = SelfExe::open().unwrap().command().unwrap();
    command.args(["roles-child", "--scenario", "wait-for-signal"]);
    let (reader, writer) = sys::io::pipe().unwrap();
    command
        .fd_shared(sys::io::stdin(), 0)
        .fd(writer, 1)
        .fd_shared(sys::io::stderr(), 2);
    // While it runs, the pipe to the test stays open.
    command.fd_shared(sys::io::stdout(), 5);
    command.death_signal(Signal::KILL).spawn().unwrap();
    drop(command);
    read_until(&reader, b"started\n");
    sys::io::write_all(sys::io::stdout(), b"started\n").unwrap();
}

/// The kernel's refusal, by itself: no filter of system calls is installed.
fn exec_gain() {
    const LEN: usize = 4096;
    let map = |protection: i32| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, at an address of the kernel's choice.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), LEN, protection, flags, -1, 0) };
        (page != libc::MAP_FAILED).then_some(page)
    };
    let protect = |page: *mut libc::c_void, protection: i32| {
        // SAFETY: a page of this function's own, which nothing reads or writes.
        unsafe { libc::mprotect(page, LEN, protection) == 0 }
    };
    let (read, write) = (libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE);
    let page = map(write).unwrap();
    assert!(
        protect(page, read | libc::PROT_EXEC),
        "this kernel permits it"
    );
    assert!(protect(page, write));
    if let Err(error) = process::refuse_exec_gain() {
        assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "{error}");
        eprintln!("skipped: {error}");
        return;
    }
    assert_eq!(map(write | libc::PROT_EXEC), None);
    for protection in [read, write] {
        let page = map(protection).unwrap();
        assert!(!protect(page, read | libc::PROT_EXEC));
        assert!(!protect(page, write | libc::PROT_EXEC));
    }
    assert!(!protect(page, read | libc::PROT_EXEC));
    // A second time, as after an exec.
    process::refuse_exec_gain().unwrap();
}
