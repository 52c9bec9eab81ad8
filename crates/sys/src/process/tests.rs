use super::*;
use crate::io::{pipe, read_to_end};
use crate::pty::Pty;
use crate::signals::Signal;
use std::os::fd::{AsRawFd, OwnedFd};

/// Runs a shell command with captured output; returns the exit status and the output.
fn shell(script: &str, prepare: impl FnOnce(&mut ChildCommand)) -> (ExitStatus, String) {
    let mut command = ChildCommand::new("/bin/sh");
    command.args(["sh", "-c", script]);
    command.env("PATH", "/usr/bin:/bin");
    let (reader, writer) = pipe().unwrap();
    command.fd(crate::io::null().unwrap(), 0);
    command.fd_shared(&writer, 1).fd(writer, 2);
    prepare(&mut command);
    let mut child = command.spawn().unwrap();
    drop(command);
    let output = read_to_end(&reader, 1 << 20).unwrap();
    let status = child.wait().unwrap();
    (status, String::from_utf8(output).unwrap())
}

fn output_of(script: &str, prepare: impl FnOnce(&mut ChildCommand)) -> String {
    let (status, output) = shell(script, prepare);
    assert!(status.is_success(), "{status:?}: {output}");
    output
}

#[test]
fn arguments_and_environment_are_exactly_those_given() {
    let mut command = ChildCommand::new("/usr/bin/env");
    let (reader, writer) = pipe().unwrap();
    command.arg("-a-name-").fd(writer, 1);
    command
        .env("A", "1")
        .env("AB", "2")
        .env("A", "3")
        .env("EMPTY", "");
    let mut child = command.spawn().unwrap();
    drop(command);
    let output = read_to_end(&reader, 4096).unwrap();
    assert_eq!(output, b"AB=2\nA=3\nEMPTY=\n");
    assert_eq!(child.wait().unwrap(), ExitStatus::Exited(0));
    assert_eq!(child.wait().unwrap(), ExitStatus::Exited(0));
    assert_eq!(
        output_of("echo $0 $PPID", |_| ()),
        format!("sh {}\n", pid())
    );
}

#[test]
fn a_child_has_its_own_oom_score_and_leaves_ours_alone() {
    const PATH: &str = "/proc/self/oom_score_adj";
    let before = std::fs::read_to_string(PATH).unwrap();
    let score = before.trim().parse::<i32>().unwrap().max(0) + 1;
    let script = format!("cat {PATH}");
    let shown = output_of(&script, |command| {
        command.oom_score(score);
    });
    assert_eq!(shown, format!("{score}\n"));
    assert_eq!(output_of(&script, |_| ()), before);
    assert_eq!(std::fs::read_to_string(PATH).unwrap(), before);
    if !is_root() {
        let mut command = ChildCommand::new("/bin/true");
        command.oom_score(-1000);
        assert_eq!(command.spawn().unwrap_err().step, SpawnStep::OomScore);
    }
}

#[test]
fn descriptors_may_swap_numbers_and_nothing_else_passes() {
    let (first_reader, first) = pipe().unwrap();
    let (second_reader, second) = pipe().unwrap();
    let leak = crate::io::dup(crate::io::null().unwrap()).unwrap();
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    let (a, b) = (first.as_raw_fd(), second.as_raw_fd());
    let script = format!(
        "printf first >&{b}; printf second >&{a}; exec {a}>&- {b}>&-; for f in /proc/self/fd/*; do \
         test -e $f && echo ${{f##*/}}; done; true"
    );
    let mut command = ChildCommand::new("/bin/bash");
    if !std::path::Path::new("/bin/bash").exists() {
        eprintln!("skipped: no bash for descriptors above 9");
        return;
    }
    let (reader, writer) = pipe().unwrap();
    command.args(["bash", "-c", &script]);
    command
        .fd(crate::io::null().unwrap(), 0)
        .fd(writer, 1)
        .fd_shared(crate::io::stderr(), 2);
    command.fd(first, b).fd(second, a);
    let mut child = command.spawn().unwrap();
    drop(command);
    let open = String::from_utf8(read_to_end(&reader, 4096).unwrap()).unwrap();
    assert!(child.wait().unwrap().is_success());
    assert_eq!(read_to_end(&first_reader, 64).unwrap(), b"first");
    assert_eq!(read_to_end(&second_reader, 64).unwrap(), b"second");
    assert_eq!(open, "0\n1\n2\n");
    assert!(leak.as_raw_fd() > 2);
}

#[test]
fn the_end_of_a_child_is_told_exactly() {
    assert_eq!(shell("exit 3", |_| ()).0, ExitStatus::Exited(3));
    assert_eq!(shell("exit 255", |_| ()).0, ExitStatus::Exited(255));
    let (status, _) = shell("kill -USR1 $$", |_| ());
    assert_eq!(
        status,
        ExitStatus::Signaled {
            signal: Signal::USR1,
            core_dumped: false
        }
    );
    assert_eq!(status.to_string(), "signal USR1");
    assert_eq!(ExitStatus::Exited(3).to_string(), "status 3");
}

#[test]
fn what_cannot_start_says_at_which_step() {
    let error = ChildCommand::new("/no/such/program")
        .arg("x")
        .spawn()
        .unwrap_err();
    assert_eq!(error.step, SpawnStep::Exec);
    assert_eq!(error.error.kind(), std::io::ErrorKind::NotFound);
    let error = ChildCommand::new("/bin/sh")
        .arg("sh")
        .current_dir("/no/such/directory")
        .spawn()
        .unwrap_err();
    assert_eq!(error.step, SpawnStep::Directory);
    assert!(error.to_string().contains("directory"));
    let error = ChildCommand::new("/bin/sh")
        .arg("sh")
        .fd(crate::io::null().unwrap(), 0)
        .new_session()
        .controlling_terminal(0)
        .spawn()
        .unwrap_err();
    assert_eq!(error.step, SpawnStep::Terminal);
    for command in [
        ChildCommand::new("/bin/\0sh").arg("x"),
        ChildCommand::new("/bin/sh").arg("a\0b"),
        ChildCommand::new("/bin/sh").env("a\0b", "c"),
        ChildCommand::new("/bin/sh").env("a=b", "c"),
        ChildCommand::new("/bin/sh").env("", "c"),
        ChildCommand::new("/bin/sh").fd(crate::io::null().unwrap(), -1),
    ] {
        let error = command.spawn().unwrap_err();
        assert_eq!(error.error.kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn signals_are_all_default_in_the_child() {
    // std ignores SIGPIPE in this process.
    assert!(crate::signals::is_ignored(Signal::PIPE).unwrap());
    let _blocked = crate::signals::Blocked::new(&[Signal::USR1]).unwrap();
    let output = output_of("grep -E 'SigIgn|SigBlk' /proc/self/status", |_| ());
    for line in output.lines() {
        assert!(line.ends_with("0000000000000000"), "{line}");
    }
    assert_eq!(output.lines().count(), 2);
}

#[test]
fn session_group_and_terminal() {
    let fields = |stat: &str| -> Vec<String> {
        let after_name = stat.rsplit(')').next().unwrap();
        after_name.split_whitespace().map(str::to_owned).collect()
    };
    let stat = output_of("exec cat /proc/self/stat", |command| {
        command.new_session();
    });
    let own = stat.split(' ').next().unwrap().to_owned();
    let after = fields(&stat);
    assert_eq!((&after[2], &after[3]), (&own, &own));
    let stat = output_of("exec cat /proc/self/stat", |command| {
        command.new_group();
    });
    let own = stat.split(' ').next().unwrap().to_owned();
    let after = fields(&stat);
    assert_eq!(after[2], own);
    assert_ne!(after[3], own);

    let Pty { master, slave, .. } = Pty::open().unwrap();
    let mut command = ChildCommand::new("/bin/sh");
    command.args(["sh", "-c", "echo through the terminal >/dev/tty"]);
    command
        .fd_shared(&slave, 0)
        .fd_shared(&slave, 1)
        .fd(slave, 2);
    command.new_session().controlling_terminal(0);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut text = Vec::new();
    let mut buffer = [0; 256];
    while let Ok(count) = crate::io::read(&master, &mut buffer) {
        if count == 0 {
            break;
        }
        text.extend_from_slice(&buffer[..count]);
    }
    assert_eq!(text, b"through the terminal\r\n");
    assert!(child.wait().unwrap().is_success());
}

#[test]
fn the_mask_of_new_files_is_known() {
    let path = std::env::temp_dir().join(format!("fulmar-umask-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let mut options = std::fs::File::options();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o777);
    let made = options.write(true).create_new(true).open(&path).unwrap();
    let mode = std::os::unix::fs::MetadataExt::mode(&made.metadata().unwrap());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(mode & 0o777, 0o777 & !umask());
}

#[test]
fn limits_umask_directory_and_privileges() {
    let output = output_of(
        "ulimit -n; umask; pwd; grep NoNewPrivs /proc/self/status",
        |command| {
            command
                .limit(Resource::OpenFiles, Limit { soft: 77, hard: 99 })
                .umask(0o027)
                .current_dir("/usr")
                .no_new_privs();
        },
    );
    assert_eq!(output, "77\n0027\n/usr\nNoNewPrivs:\t1\n");
    let output = output_of("pwd", |command| {
        command.current_dir_or_root("/no/such/home");
    });
    assert_eq!(output, "/\n");
}

#[test]
fn a_raised_limit_of_open_files_stays_in_this_process() {
    let before = output_of("ulimit -n", |_| ());
    raise_open_files().unwrap();
    raise_open_files().unwrap();
    let own = limit(Resource::OpenFiles).unwrap();
    assert_eq!(own.soft, own.hard);
    assert_eq!(output_of("ulimit -n", |_| ()), before);
}

#[test]
fn the_childs_user_is_changed_wholly_or_not_at_all() {
    let own = own_credentials().unwrap();
    if !is_root() {
        let mut command = ChildCommand::new("/bin/true");
        command.arg("true").credentials(own.clone());
        assert!(command.spawn().unwrap().wait().unwrap().is_success());
        let mut other = own;
        other.uid += 1;
        let error = ChildCommand::new("/bin/true")
            .arg("true")
            .credentials(other)
            .spawn()
            .unwrap_err();
        assert_eq!(error.step, SpawnStep::Credentials);
        eprintln!("skipped: changing users needs root");
        return;
    }
    let user = Credentials {
        uid: 12_345,
        gid: 12_346,
        groups: vec![12_346, 12_347],
    };
    let output = output_of(
        "grep -E '^(Uid|Gid|Groups|CapEff|CapPrm)' /proc/self/status",
        |command| {
            command.credentials(user);
        },
    );
    let lines: Vec<String> = output
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        lines,
        [
            "Uid: 12345 12345 12345 12345",
            "Gid: 12346 12346 12346 12346",
            "Groups: 12346 12347",
            "CapPrm: 0000000000000000",
            "CapEff: 0000000000000000",
        ]
    );
    assert_eq!(own_credentials().unwrap(), own);
}

fn sleeper(prepare: impl FnOnce(&mut ChildCommand)) -> (Child, OwnedFd) {
    // Waits for input that never arrives, but ends with this process.
    let (reader, writer) = pipe().unwrap();
    let mut command = ChildCommand::new("/bin/cat");
    command
        .arg("cat")
        .fd(reader, 0)
        .fd(crate::io::null().unwrap(), 1);
    prepare(&mut command);
    (command.spawn().unwrap(), writer)
}

#[test]
fn a_signal_reaches_the_child_and_only_while_it_is_ours() {
    let (mut child, _writer) = sleeper(|command| {
        command.new_group();
    });
    assert_eq!(child.try_wait().unwrap(), None);
    assert!(!crate::io::wait_readable(child.pidfd(), Some(std::time::Duration::ZERO)).unwrap());
    child.signal_group(Signal::TERM).unwrap();
    assert!(crate::io::wait_readable(child.pidfd(), None).unwrap());
    let ended = ExitStatus::Signaled {
        signal: Signal::TERM,
        core_dumped: false,
    };
    assert_eq!(child.try_wait().unwrap(), Some(ended));
    child.signal(Signal::KILL).unwrap();
    assert!(child.signal_group(Signal::KILL).is_err());
    let (mut child, _writer) = sleeper(|_| ());
    child.signal(Signal::KILL).unwrap();
    assert!(matches!(
        child.wait().unwrap(),
        ExitStatus::Signaled {
            signal: Signal::KILL,
            ..
        }
    ));
    assert!(PidFd::open(0).is_err());
    assert!(PidFd::open(-1).is_err());
}

#[test]
fn many_threads_may_start_children_at_once() {
    std::thread::scope(|scope| {
        for code in 0..8_u8 {
            scope.spawn(move || {
                for _ in 0..10 {
                    let (status, _) = shell(&format!("exit {code}"), |_| ());
                    assert_eq!(status, ExitStatus::Exited(code));
                }
            });
        }
    });
}

#[test]
fn limits_are_read_back() {
    let before = limit(Resource::Core).unwrap();
    assert!(before.soft <= before.hard);
    let lower = Limit {
        soft: 0,
        hard: before.hard,
    };
    set_limit(Resource::Core, lower).unwrap();
    assert_eq!(limit(Resource::Core).unwrap(), lower);
    set_limit(Resource::Core, before).unwrap();
    assert!(set_limit(Resource::Core, Limit { soft: 2, hard: 1 }).is_err());
}
