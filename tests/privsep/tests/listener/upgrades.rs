//! The program is replaced on disk while the listener runs; and addresses, which a reload and a new program change alike.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use interop::process::descendants;
use interop::report::skipped;
use interop::scratch::{Scratch, is_listening, until};
use privsep_tests::sshd::{Config, LIMIT, Sshd, UserKey, binary, finish, guest_with, possible};

use super::Cat;

#[test]
fn the_program_on_disk_may_be_replaced_under_a_running_server() {
    if !possible("a program that is replaced") {
        return;
    }
    let key = UserKey::new(11);
    let guest = guest_with("", &key);
    let server = server_of_a_copy(Config::default());
    let mut before = Cat::start(server.ssh(&guest.name, &[&key]));
    let program = server.daemon.scratch().join("fulmar");
    // This one would permit no login.
    install(&server, |path| {
        fs::write(path, "#!/bin/sh\nexit 99\n").expect("another")
    });
    server.lets_in(&guest.name, &key);
    let outcome = server.run_with(&guest.name, &[&key], &["-tt"], "tty");
    assert!(
        outcome.stdout.text().contains("/dev/pts/"),
        "{}",
        outcome.summary()
    );
    fs::remove_file(&program).expect("no program at all");
    server.lets_in(&guest.name, &key);
    // Also after a reload.
    server.hang_up();
    server.logs("Received SIGHUP");
    server.lets_in(&guest.name, &key);
    before.still_works();
    // All roles run the file from which the listener was started.
    for facts in server.processes() {
        let exe = fs::read_link(format!("/proc/{}/exe", facts.pid)).expect("its program");
        let exe = exe.display().to_string();
        assert!(
            facts.command_line.starts_with("cat") || exe.ends_with("fulmar (deleted)"),
            "{exe}: {facts:?}"
        );
    }
}

/// A server whose program is a copy of its own.
fn server_of_a_copy(config: Config<'_>) -> Sshd {
    Sshd::start_with(config, |scratch, _| copied(scratch))
}

fn copied(scratch: &Scratch) -> Command {
    let copy = scratch.join("fulmar");
    copy_program(&copy);
    Command::new(copy)
}

/// A copy made by this process could not be run while a child that another test starts has
/// inherited the descriptor that wrote it.
fn copy_program(to: &Path) {
    let copied = Command::new("cp").arg(binary()).arg(to).status();
    assert!(copied.expect("cp").success());
}

/// Like an upgrade: another file with the same name.
fn install(server: &Sshd, write: impl FnOnce(&Path)) {
    let fresh = server.daemon.scratch().join("fulmar.new");
    write(&fresh);
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).expect("its mode");
    fs::rename(&fresh, server.daemon.scratch().join("fulmar")).expect("in its place");
}

fn program_of(pid: u32) -> String {
    let link = fs::read_link(format!("/proc/{pid}/exe"));
    link.map(|path| path.display().to_string())
        .unwrap_or_default()
}

#[test]
fn on_sighup_the_new_program_goes_on_and_nothing_is_lost() {
    if !possible("a program that is replaced") {
        return;
    }
    let key = UserKey::new(11);
    let guest = guest_with("", &key);
    // The directory in which it starts is gone when it needs it again.
    let gone = Scratch::new();
    let config = Config::new("MetricsFile /dev/null\nMaxStartups 100\n");
    let server = Sshd::start_with(config, |scratch, _| {
        let mut command = copied(scratch);
        command.current_dir(gone.path());
        command
    });
    drop(gone);
    let pid = server.daemon.pid();
    let mut before = Cat::start(server.ssh(&guest.name, &[&key]));
    let old: Vec<u32> = descendants(pid);
    // Logins in progress: one that has only been greeted, and one that has a process.
    let connect = || TcpStream::connect(("127.0.0.1", server.daemon.port)).expect("a connection");
    let mut greeted = connect();
    let mut begun = connect();
    for client in [&mut greeted, &mut begun] {
        let mut byte = [0];
        while byte != *b"\n" {
            client.read_exact(&mut byte).expect("the server's version");
        }
    }
    begun.write_all(b"SSH-2.0-test\r\n").expect("our version");
    for _ in 0..3 {
        install(&server, copy_program);
        server.hang_up();
        let has_begun = || {
            let program = program_of(pid);
            program.ends_with("/fulmar") && is_listening(server.daemon.port)
        };
        // Connections meanwhile wait in the same sockets.
        server.lets_in(&guest.name, &key);
        assert!(
            until(LIMIT, has_begun),
            "{}: {}",
            program_of(pid),
            server.daemon.log()
        );
        server.lets_in(&guest.name, &key);
        // The name in ps, by which service managers and scripts know it.
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).expect("its name");
        assert_eq!(name, "fulmar\n");
    }
    before.still_works();
    for old in old {
        assert!(program_of(old).ends_with("(deleted)") || program_of(old).ends_with("cat"));
    }
    greeted.write_all(b"SSH-2.0-test\r\n").expect("our version");
    for mut client in [greeted, begun] {
        let mut packet = [0; 64];
        client.read_exact(&mut packet).expect("a key exchange");
    }
    let mut after = Cat::start(server.ssh(&guest.name, &[&key]));
    let programs: Vec<String> = descendants(pid).into_iter().map(program_of).collect();
    assert!(
        programs.iter().any(|program| program.ends_with("/fulmar")),
        "{programs:?}"
    );
    after.still_works();
    drop((before, after));
    server.leaves_nothing_behind();
}

#[test]
fn a_new_program_that_does_not_accept_the_configuration_takes_no_place() {
    if !possible("a program that is replaced") {
        return;
    }
    let key = UserKey::new(12);
    let guest = guest_with("", &key);
    let server = server_of_a_copy(Config::default());
    let pid = server.daemon.pid();
    let refused = "the new one cannot take over; the old one stays";
    let times = || server.daemon.log().matches(refused).count();
    install(&server, |path| {
        let copied = Command::new("cp").arg("/bin/false").arg(path).status();
        assert!(copied.expect("cp").success());
    });
    server.hang_up();
    assert!(until(LIMIT, || times() == 1), "{}", server.daemon.log());
    server.lets_in(&guest.name, &key);
    // A text of which the kernel knows no interpreter.
    install(&server, |path| fs::write(path, "nothing").expect("another"));
    server.hang_up();
    assert!(until(LIMIT, || times() == 2), "{}", server.daemon.log());
    server.lets_in(&guest.name, &key);
    install(&server, |path| {
        fs::write(path, "#!/bin/sh\n").expect("a script")
    });
    server.hang_up();
    server.logs("cannot execute: it is a script");
    // One that accepts everything and serves nobody.
    install(&server, |path| {
        let copied = Command::new("cp").arg("/bin/true").arg(path).status();
        assert!(copied.expect("cp").success());
    });
    server.hang_up();
    server.logs("the old one stays: it is not Fulmar: -V says \"\"");
    server.lets_in(&guest.name, &key);
    server.rewrite(Config::new("Nonsense yes\n"));
    install(&server, copy_program);
    server.hang_up();
    assert!(until(LIMIT, || times() == 5), "{}", server.daemon.log());
    server.lets_in(&guest.name, &key);
    assert!(program_of(pid).ends_with("(deleted)"));
    server.rewrite(Config::default());
    server.hang_up();
    assert!(until(LIMIT, || program_of(pid).ends_with("/fulmar")));
    server.lets_in(&guest.name, &key);
}

/// Linux's number of SIGPIPE is 13.
const PIPE_BIT: u64 = 1 << 12;

fn mask_of(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.strip_prefix(':')).expect(name);
    u64::from_str_radix(number.trim(), 16).expect("a mask")
}

/// The check executes the file itself, the exchange needs /proc.
#[test]
fn a_new_program_that_cannot_be_executed_after_its_check_changes_nothing() {
    if !possible("a program that is replaced") {
        return;
    }
    let separate = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]);
        command
    };
    if finish(&mut separate("umount -l /proc && mount -t proc proc /proc")).status != 0 {
        skipped("a server without /proc", &"no mount namespaces");
        return;
    }
    let key = UserKey::new(12);
    let guest = guest_with("", &key);
    let files = Scratch::new();
    let (pid_file, metrics) = (files.join("pid"), files.join("metrics"));
    let lines = format!(
        "PidFile {}\nMetricsFile {}\n",
        pid_file.display(),
        metrics.display()
    );
    let server = Sshd::start_with(Config::new(&lines), |scratch, _| {
        let copy = scratch.join("fulmar");
        copy_program(&copy);
        let mut command = separate("exec \"$0\" \"$@\"");
        command.arg(copy);
        command
    });
    let pid = server.daemon.pid();
    let inside = |words: &[&str]| {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &pid.to_string()]);
        let outcome = finish(command.args(words));
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
    };
    let masks = || ["SigIgn", "SigBlk", "SigCgt"].map(|name| mask_of(pid, name));
    let before = masks();
    assert_ne!(before[0] & PIPE_BIT, 0);
    install(&server, copy_program);
    inside(&["umount", "-l", "/proc"]);
    server.hang_up();
    server.logs("the old configuration stays in use: /");
    inside(&["mount", "-t", "proc", "proc", "/proc"]);
    assert_eq!(masks(), before);
    assert!(until(LIMIT, || pid_file.exists() && metrics.exists()));
    server.lets_in(&guest.name, &key);
}

#[test]
fn a_new_program_serves_on_where_the_new_configuration_cannot() {
    if !possible("a program that is replaced") {
        return;
    }
    let key = UserKey::new(12);
    let guest = guest_with("", &key);
    let server = server_of_a_copy(Config::default());
    let pid = server.daemon.pid();
    let host_key = interop::fixture::file("host_ed25519");
    let text = Config::default().text(&host_key);
    // An address of no machine (RFC 5737).
    server.rewrite_raw(&text.replace("ListenAddress 127.0.0.1", "ListenAddress 192.0.2.77"));
    install(&server, copy_program);
    server.hang_up();
    server.logs("the old sockets stay in use: Bind to port ");
    assert!(program_of(pid).ends_with("/fulmar"), "{}", program_of(pid));
    server.lets_in(&guest.name, &key);
}

/// By a reload, and where a new program goes on.
#[test]
fn a_port_that_stays_gets_a_wider_address_and_a_narrower_one() {
    if !possible("addresses of one port") {
        return;
    }
    let key = UserKey::new(12);
    let guest = guest_with("", &key);
    let server = server_of_a_copy(Config::default());
    let (port, other) = (server.daemon.port, interop::scratch::free_port());
    let host_key = interop::fixture::file("host_ed25519");
    let text = Config::default().text(&host_key);
    let answers = |address: &str, port: u16| TcpStream::connect((address, port)).is_ok();
    for by_a_new_program in [false, true] {
        let go_on_with = |lines: &str| {
            server.rewrite_raw(&text.replace("ListenAddress 127.0.0.1", lines));
            if by_a_new_program {
                install(&server, copy_program);
            }
            server.hang_up();
        };
        go_on_with("ListenAddress 0.0.0.0");
        let is_wide = until(LIMIT, || answers("127.0.0.2", port));
        assert!(is_wide, "{by_a_new_program}: {}", server.daemon.log());
        server.lets_in(&guest.name, &key);
        go_on_with(&format!(
            "DenyUsers {}\nListenAddress 127.0.0.1\nListenAddress 127.0.0.1:{other}",
            guest.name
        ));
        let is_narrow = until(LIMIT, || !answers("127.0.0.2", port));
        assert!(is_narrow, "{by_a_new_program}: {}", server.daemon.log());
        let is_open = until(LIMIT, || {
            answers("127.0.0.1", port) && answers("127.0.0.1", other)
        });
        assert!(is_open, "{by_a_new_program}: {}", server.daemon.log());
        // With the rest of the configuration.
        server.keeps_out(&guest.name, &key);
    }
}

#[test]
fn a_new_program_leaves_no_file_of_the_old_configuration() {
    if !possible("a program that is replaced") {
        return;
    }
    let files = Scratch::new();
    let kinds = ["PidFile", "MetricsFile", "MetricsListen"];
    let path = |kind: &str, number: u8| files.join(&format!("{kind}-{number}"));
    let lines = |number: u8| -> String {
        let line = |kind: &&str| format!("{kind} {}\n", path(kind, number).display());
        kinds.iter().map(line).collect()
    };
    let server = server_of_a_copy(Config::new(&lines(1)));
    let all_exist = |number: u8| kinds.iter().all(|kind| path(kind, number).exists());
    assert!(until(LIMIT, || all_exist(1)), "{}", server.daemon.log());
    server.rewrite(Config::new(&lines(2)));
    install(&server, copy_program);
    server.hang_up();
    assert!(until(LIMIT, || all_exist(2)), "{}", server.daemon.log());
    for kind in kinds {
        assert!(!path(kind, 1).exists(), "{kind}");
    }
}

#[test]
fn the_link_that_a_server_was_started_by_leads_to_the_new_program() {
    if !possible("a program that is replaced") {
        return;
    }
    let key = UserKey::new(12);
    let guest = guest_with("", &key);
    let lead = |link: &Path, to: &str| {
        let fresh = link.with_extension("new");
        std::os::unix::fs::symlink(to, &fresh).expect("a link");
        fs::rename(&fresh, link).expect("in its place");
    };
    let server = Sshd::start_with(Config::default(), |scratch, _| {
        for version in ["1", "2"] {
            fs::create_dir(scratch.join(version)).expect("a directory");
            copy_program(&scratch.join(version).join("fulmar"));
        }
        let link = scratch.join("fulmar");
        lead(&link, "1/fulmar");
        Command::new(link)
    });
    let pid = server.daemon.pid();
    let link = server.daemon.scratch().join("fulmar");
    lead(&link, "2/fulmar");
    server.hang_up();
    let is_second = || program_of(pid).ends_with("/2/fulmar");
    assert!(until(LIMIT, is_second), "{}", program_of(pid));
    server.lets_in(&guest.name, &key);
    // The name of another program, as when OpenSSH has its place again.
    lead(&link, "/bin/true");
    server.hang_up();
    let reloads = || server.daemon.log().matches("Received SIGHUP").count();
    assert!(until(LIMIT, || reloads() == 2), "{}", server.daemon.log());
    server.lets_in(&guest.name, &key);
    assert!(is_second(), "{}", program_of(pid));
}
