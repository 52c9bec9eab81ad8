//! Connection sharing with passengers that others wrote, and what passengers get from their master's
//! configuration and from a pool of connections.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use interop::fixture::target_folder;
use interop::forwarded::{Does, target, through, through_unix, unix_target};
use interop::peers::ours::Kind;
use interop::process::{Background, Input};
use interop::report::skipped;
use interop::scratch::{Scratch, free_port, until};
use interop::shared::{
    LIMIT, Shared, assert_has, assert_is, each, each_with, ours, packet, read_packet,
};
use interop::site::{HOST, finish, program};
use interop::terminal::Terminal;

/// The program with Rust's crates; `None` if it was not built.
fn rust_crates() -> Option<Command> {
    let path = target_folder().join("peers-mux/debug/mux");
    if !path.is_file() {
        skipped(
            "the crates openssh and openssh-mux-client",
            &"run .ci/peers to build the program",
        );
        return None;
    }
    Some(Command::new(path))
}

#[test]
fn the_crate_openssh_mux_client_is_a_passenger() {
    let Some(mut command) = rust_crates() else {
        return;
    };
    let shared = ours("Subsystem echo /bin/cat\n");
    let mut master = shared.start("");
    let path = shared.path().display().to_string();
    let ports = [target(Does::Count), free_port(), free_port()].map(|port| port.to_string());
    command.args(["client", &path]).args(ports);
    let seen = finish(&mut command, Input::Nothing);
    let wanted = format!(
        "alive {}\nlocal 5\nlocal closed, again: false\nremote 5\nremote closed, again: false\n\
         status Some(7)\nkilled None\nsubsystem Some(0)\nstopped, still there: false\n",
        master.0.id()
    );
    assert_is(&seen, 0, &wanted);
    // It has no session and takes no passengers.
    assert!(interop::process::wait(&mut master.0, LIMIT).is_ok());
    let shared = ours("");
    let mut master = shared.start("");
    let path = shared.path().display().to_string();
    let mut command = rust_crates().expect("the program");
    let seen = finish(command.args(["exit", &path]), Input::Nothing);
    assert_is(&seen, 0, "asked to exit\n");
    assert!(interop::process::wait(&mut master.0, LIMIT).is_ok());
}

#[test]
fn the_crate_openssh_starts_our_master() {
    let Some(mut command) = rust_crates() else {
        return;
    };
    let shared = ours("");
    let folder = Scratch::new();
    let wrapper = shared.site.wrapper();
    std::os::unix::fs::symlink(wrapper, folder.join("ssh")).expect("a link");
    let paths = std::env::var("PATH").unwrap_or_default();
    command
        .args(["openssh", HOST])
        .arg(shared.site.config(""))
        .env("PATH", format!("{}:{paths}", folder.path().display()))
        .env("HOME", folder.path())
        .current_dir(folder.path());
    let seen = finish(&mut command, Input::Nothing);
    let wanted = "output \"a  b\\n\"\nstatus Some(5) \"no\\n\"\nbytes 3145728\nsuccess true\n\
                  missing false\nclosed\n";
    assert_is(&seen, 0, wanted);
    let log = shared.site.running.daemon.log();
    assert_eq!(log.matches("Accepted publickey").count(), 1, "{log}");
}

#[test]
fn sockets_are_forwarded_and_ports_of_the_servers_choice_are_cancelled() {
    each(|shared| {
        let master = shared.start("");
        let folder = Scratch::new();
        let count = unix_target(&folder, Does::Count);
        let there = count.display();
        let (local, remote) = (folder.join("local"), folder.join("remote"));
        let l = format!("{}:{there}", local.display());
        let r = format!("{}:{there}", remote.display());
        let added = shared.ask("forward", &["-L", &l, "-R", &r]);
        assert_eq!(added.status, 0, "{}", added.summary());
        assert_eq!(through_unix(&local, b"four"), b"4\n");
        assert_eq!(through_unix(&remote, b"seven77"), b"7\n");
        let cancelled = shared.ask("cancel", &["-L", &l, "-R", &r]);
        assert_eq!(cancelled.status, 0, "{}", cancelled.summary());
        let refuses = |path: &Path| std::os::unix::net::UnixStream::connect(path).is_err();
        assert!(until(LIMIT, || refuses(&local) && refuses(&remote)));
        // OpenSSH 9.2 joins no socket, neither as passenger nor as master.
        if [shared.passenger, shared.site.client] == [Kind::Fulmar; 2] {
            let stream = shared.ride(&["-W", &there.to_string(), HOST], Input::Bytes(b"123"));
            assert_is(&stream, 0, "3\n");
        }
        let zero = format!("0:{there}");
        let chosen = shared.ask("forward", &["-R", &zero]);
        let port = chosen.port();
        assert_eq!(through(port, b"12345"), b"5\n");
        let cancelled = shared.ask("cancel", &["-R", &format!("{port}:{there}")]);
        // The master may know it by the port 0 that was asked for.
        let again = shared.ask("cancel", &["-R", &zero]);
        let refuses = || std::net::TcpStream::connect(("127.0.0.1", port)).is_err();
        assert!(
            shared.site.client == Kind::OpenSsh || until(LIMIT, refuses),
            "{}\n{}",
            cancelled.summary(),
            again.summary()
        );
        shared.ends(master);
    });
}

#[test]
fn a_terminal_that_the_server_refuses_costs_only_the_terminal() {
    each_with("PermitTTY no\n", |shared| {
        let master = shared.start("");
        let outcome = shared.ride(&["-tt", HOST, "echo ran; exit 4"], Input::Nothing);
        assert_eq!(outcome.status, 4, "{}", outcome.summary());
        outcome.assert_shows("ran");
        let said = outcome.stderr.text();
        assert!(said.contains("PTY allocation request failed"), "{said}");
        assert_eq!(shared.ask("check", &[]).status, 0);
        shared.ends(master);
    });
}

#[test]
fn keystrokes_of_passengers_are_hidden_as_the_master_is_told() {
    for passenger in [Kind::Fulmar, Kind::OpenSsh] {
        if passenger.ssh().is_err() {
            skipped("openssh", &"it is not installed");
            continue;
        }
        for (value, escape) in [("yes", "~"), ("yes", "none"), ("no", "~")] {
            let shared = Shared::new(Kind::Fulmar, passenger, Kind::Fulmar, "");
            let log = shared.folder.join("log");
            let lines = format!("LogLevel DEBUG3\nObscureKeystrokeTiming {value}\n");
            let mut command = shared.master(&lines);
            command.arg("-E").arg(&log).args(["-M", "-N", HOST]);
            let master = Background::start(command.stdin(Stdio::null())).expect("ssh");
            assert!(until(LIMIT, || shared.path().exists()), "no socket");
            let mut command = shared.command();
            command.args(["-tt", "-e", escape, HOST, "PS1='<ready>' ENV= /bin/sh -i"]);
            let mut terminal = Terminal::new(&command, 80, 24);
            terminal.expect("<ready>");
            terminal.type_text("echo typ''ed\n");
            terminal.expect_somewhere("typed\r\n");
            let says = |text: &str| fs::read_to_string(&log).unwrap_or_default().contains(text);
            let rest = "keystroke timing: at rest after ";
            match value {
                "yes" => assert!(until(LIMIT, || says(rest)), "{passenger:?} {escape}"),
                _ => assert!(!says("keystroke timing")),
            }
            assert!(!says("at rest after 0 pings"));
            // A paste, and what is typed before the end.
            terminal.type_text(&format!("echo {}; exit 6\n", "x".repeat(200)));
            assert_eq!(terminal.end(), 6);
            shared.ends(master);
        }
    }
}

#[test]
fn forwardings_of_a_full_connection_are_made_once() {
    let shared = ours("MaxSessions 1\nMaxStartups 100\n");
    let lines = "ControlMaster auto\nControlPersist 1\nControlConnections 2\n";
    let count = target(Does::Count);
    let start = |arguments: &[&str]| {
        let mut command = shared.master(lines);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("ssh")
    };
    let ends = |child: std::process::Child| {
        let output = child.wait_with_output().expect("its end");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    let logins = || {
        let log = shared.site.running.daemon.log();
        log.matches("Accepted publickey").count()
    };
    let lasts = |name: &str| {
        format!(
            "touch {0}; while [ -e {0} ]; do sleep 0.1; done",
            shared.folder.join(name).display()
        )
    };
    let begun = |name: &str| assert!(until(LIMIT, || shared.folder.join(name).exists()), "{name}");
    let finish_one = |name: &str| fs::remove_file(shared.folder.join(name)).expect("the mark");
    let first = start(&[HOST, &lasts("first")]);
    begun("first");
    let (p, q) = (free_port(), free_port());
    let spec = |port: u16| format!("{port}:127.0.0.1:{count}");
    let second = start(&["-L", &spec(p), HOST, &lasts("second")]);
    begun("second");
    assert_eq!(through(p, b"four"), b"4\n");
    // Both are full: its session has a connection of its own.
    let third = start(&[
        "-o",
        "ExitOnForwardFailure=yes",
        "-L",
        &spec(q),
        HOST,
        &lasts("third"),
    ]);
    begun("third");
    assert_eq!(through(q, b"seven77"), b"7\n");
    assert_eq!(logins(), 3);
    // The connection that has the forwardings stays as long as the sessions that asked for them, on
    // whatever connection these are.
    finish_one("first");
    assert_eq!(ends(first), (Some(0), String::new()));
    finish_one("second");
    assert_eq!(ends(second), (Some(0), String::new()));
    thread::sleep(Duration::from_millis(2500));
    assert_eq!(through(q, b"still"), b"5\n");
    finish_one("third");
    assert_eq!(ends(third), (Some(0), String::new()));
    assert!(
        until(LIMIT, || shared.sockets().is_empty()),
        "a master stays"
    );
}

#[test]
fn a_copy_uses_the_connection_of_a_pool_that_has_room() {
    let shared = ours("MaxSessions 1\nSubsystem sftp internal-sftp\n");
    let pool = |persist: u32| {
        format!("ControlMaster auto\nControlPersist {persist}\nControlConnections 2\n")
    };
    let lines = pool(60);
    let mark = shared.folder.join("mark");
    let order = format!(
        "touch {0}; while [ -e {0} ]; do sleep 0.1; done",
        mark.display()
    );
    let mut first = shared.master(&lines);
    let first = first.args([HOST, &order]).stdin(Stdio::null()).spawn();
    let mut first = Background(first.expect("ssh"));
    assert!(until(LIMIT, || mark.exists()));
    let next = finish(
        shared.master(&lines).args([HOST, "echo next"]),
        Input::Nothing,
    );
    assert_is(&next, 0, "next\n");
    let file = shared.folder.write("file", "words");
    let to = shared.folder.join("copied");
    let mut copy = program(&shared.site, "scp");
    copy.arg("-o")
        .arg(format!("ControlPath={}", shared.path().display()))
        .args(["-o", "ControlConnections=2"])
        .arg(&file)
        .arg(format!("{HOST}:{}", to.display()));
    let copied = finish(&mut copy, Input::Nothing);
    assert_eq!(copied.status, 0, "{}", copied.summary());
    assert_eq!(fs::read_to_string(&to).expect("the file"), "words");
    let log = shared.site.running.daemon.log();
    assert_eq!(log.matches("Accepted publickey").count(), 2, "{log}");
    fs::remove_file(&mark).expect("the mark");
    assert!(interop::process::wait(&mut first.0, LIMIT).is_ok());
    let mut exit = shared.master(&lines);
    let exit = finish(exit.args(["-O", "exit", HOST]), Input::Nothing);
    assert_has(&exit, "Exit request sent.");
    assert!(
        until(LIMIT, || shared.sockets().is_empty()),
        "a master stays"
    );
}

#[test]
fn a_pool_leaves_the_master_of_another_host_alone() {
    let shared = ours("MaxSessions 1\n");
    // `ControlPath %n` makes this name for a host `s.1`.
    let other = shared.folder.join("s.1").display().to_string();
    let where_it_runs = "echo $SSH_CONNECTION";
    let at_other = |words: &[&str]| {
        let mut command = shared.master("ControlMaster auto\nControlPersist 60\n");
        finish(command.args(["-S", &other]).args(words), Input::Nothing)
    };
    let elsewhere = at_other(&[HOST, where_it_runs]);
    assert_eq!(elsewhere.status, 0, "{}", elsewhere.summary());
    let lines = "ControlMaster auto\nControlPersist 60\nControlConnections 2\n";
    let mark = shared.folder.join("mark");
    let order = format!(
        "touch {0}; while [ -e {0} ]; do sleep 0.1; done",
        mark.display()
    );
    let mut full = shared.master(lines);
    let full = full.args([HOST, &order]).stdin(Stdio::null()).spawn();
    let mut full = Background(full.expect("ssh"));
    assert!(until(LIMIT, || mark.exists()));
    let next = finish(
        shared.master(lines).args([HOST, where_it_runs]),
        Input::Nothing,
    );
    assert_eq!(next.status, 0, "{}", next.summary());
    assert_ne!(next.stdout.text(), elsewhere.stdout.text());
    fs::remove_file(&mark).expect("the mark");
    assert!(interop::process::wait(&mut full.0, LIMIT).is_ok());
    // The path alone says which pool.
    let exit = finish(
        shared.master("").args(["-O", "exit", "dummy"]),
        Input::Nothing,
    );
    assert_has(&exit, "Exit request sent.");
    let only_other = || shared.sockets() == [Path::new(&other)];
    assert!(until(LIMIT, only_other), "{:?}", shared.sockets());
    assert_has(&at_other(&["-O", "exit", HOST]), "Exit request sent.");
}

/// The first name fits into a socket's address, and the next ones do not.
#[test]
fn a_pool_whose_names_are_too_long_has_one_connection() {
    let shared = ours("MaxSessions 1\n");
    let folder = shared.folder.path().display().to_string();
    let path = format!("{folder}/{}", "s".repeat(100 - folder.len() - 1));
    let lines = "ControlMaster auto\nControlPersist 60\nControlConnections 3\n";
    let at = |words: &[&str]| {
        let mut command = shared.master(lines);
        command.args(["-S", &path]).args(words);
        command
    };
    let mark = shared.folder.join("mark");
    let order = format!(
        "touch {0}; while [ -e {0} ]; do sleep 0.1; done",
        mark.display()
    );
    let full = at(&[HOST, &order]).stdin(Stdio::null()).spawn();
    let mut full = Background(full.expect("ssh"));
    assert!(until(LIMIT, || mark.exists()));
    let next = finish(&mut at(&[HOST, "echo next"]), Input::Nothing);
    assert_is(&next, 0, "next\n");
    fs::remove_file(&mark).expect("the mark");
    assert!(interop::process::wait(&mut full.0, LIMIT).is_ok());
    let exit = finish(&mut at(&["-O", "exit", HOST]), Input::Nothing);
    assert_has(&exit, "Exit request sent.");
}

#[test]
fn a_copy_with_several_connections_logs_in_beside_the_master() {
    let shared = ours("Subsystem sftp internal-sftp\n");
    let master = shared.start("");
    let from = shared.folder.write("from", interop::matrix::noise(9 << 20));
    let path = format!("ControlPath={}", shared.path().display());
    let logins = || {
        let log = shared.site.running.daemon.log();
        log.matches("Accepted publickey").count()
    };
    for (flags, logs_in) in [
        (&[][..], false),
        (&["-n", "1"], false),
        (&["-n", "2"], true),
    ] {
        let before = logins();
        let to = shared.folder.join("to");
        let _ = fs::remove_file(&to);
        let mut copy = program(&shared.site, "scp");
        copy.args(["-q", "-o", &path]).args(flags);
        copy.arg(format!("{HOST}:{}", from.display())).arg(&to);
        let copied = finish(&mut copy, Input::Nothing);
        assert_eq!(copied.status, 0, "{flags:?}: {}", copied.summary());
        assert!(fs::read(&to).unwrap() == fs::read(&from).unwrap());
        assert_eq!(logins() > before, logs_in, "{flags:?}");
    }
    shared.ends(master);
}

/// True if the installed OpenSSH's `ssh` asks masters for texts, as since 10.3.
fn asks_for_texts() -> bool {
    let Ok(mut ssh) = Kind::OpenSsh.ssh() else {
        return false;
    };
    let asked = finish(
        ssh.args(["-S", "/nowhere/s", "-O", "channels", "nobody"]),
        Input::Nothing,
    );
    !asked.stderr.text().contains("Invalid multiplex command")
}

#[test]
fn texts_of_the_connection_pass_between_openssh_and_ours() {
    if !asks_for_texts() {
        return skipped(
            "-O conninfo and -O channels of OpenSSH",
            &"none since 10.3 is installed",
        );
    }
    each(|shared| {
        let master = shared.start("");
        let port = shared.site.running.daemon.port;
        let info = shared.ask("conninfo", &[]);
        assert_eq!(info.status, 0, "{}", info.summary());
        let text = info.stdout.text();
        for word in [&format!("127.0.0.1:{port}"), "kexalgorithm", "cipher"] {
            assert!(text.contains(word), "{word:?} is not in {text:?}");
        }
        let mut long = Background::start(
            shared
                .command()
                .args([HOST, "sleep 60"])
                .stdin(Stdio::null()),
        )
        .unwrap();
        let listed = || {
            let channels = shared.ask("channels", &[]);
            channels.status == 0 && channels.stdout.text().contains("session")
        };
        assert!(until(LIMIT, listed), "the session is not listed");
        let _ = long.0.kill();
        let _ = long.0.wait();
        shared.ends(master);
    });
}

/// Anonymous memory of a process, KiB.
fn memory_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let (_, rest) = status.split_once("RssAnon:").expect("its memory");
    let number = rest.split_whitespace().next().expect("a number");
    number.parse().expect("a number")
}

#[test]
fn a_session_costs_its_master_eight_kibibytes() {
    const SESSIONS: u64 = 40;
    let shared = ours("MaxSessions 100\n");
    let master = shared.start("");
    let rides = shared.ride(&[HOST, "true"], Input::Nothing);
    assert_is(&rides, 0, "");
    let alone = memory_kib(master.0.id());
    let start = |_| {
        let mut command = shared.command();
        command.args([HOST, "cat"]).stdin(Stdio::piped());
        Background::start(&mut command).expect("ssh")
    };
    let all: Vec<Background> = (0..SESSIONS).map(start).collect();
    let told = || shared.ask("status", &[]).stdout.text();
    assert!(until(LIMIT, || told()
        .contains(&format!("sessions: {SESSIONS}\n"))));
    let more = memory_kib(master.0.id()).saturating_sub(alone);
    // The text of the status itself stays in the heap.
    assert!(
        more <= 8 * SESSIONS + 128,
        "{more} KiB for {SESSIONS} sessions"
    );
    drop(all);
    shared.ends(master);
}

/// The first message of SFTP: version 3.
const INIT: &[u8] = b"\0\0\0\x05\x01\0\0\0\x03";

/// What `sftp` says first on the connection of a master that has told this version of the server: the data
/// that it sends before any answer to them. With `more` that is expected to be more than INIT.
fn first_words(shared: &Shared, server: Option<&str>, more: bool) -> Vec<u8> {
    let listener = UnixListener::bind(shared.path()).expect("a socket");
    let mut command = program(&shared.site, "sftp");
    let option = format!("ControlPath={}", shared.path().display());
    command.args(["-o", &option, HOST]).stdin(Stdio::piped());
    let _sftp = Background::start(&mut command).expect("sftp");
    listener.set_nonblocking(true).expect("a listener");
    let mut passenger = None;
    let comes = until(LIMIT, || {
        passenger = listener.accept().ok();
        passenger.is_some()
    });
    assert!(comes, "no passenger");
    let (mut stream, _) = passenger.expect("a passenger");
    stream.set_nonblocking(false).expect("a stream");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    assert_eq!(read_packet(&mut stream)[..4], *b"\0\0\0\x01");
    let id = read_packet(&mut stream)[4..8].to_vec();
    let told = server.map_or_else(Vec::new, |server| {
        let name = packet(&[b"server-version@fulmar.invalid"]);
        [name, packet(&[server.as_bytes()])].concat()
    });
    let hello = packet(&[b"\0\0\0\x01\0\0\0\x04", &told]);
    let pid = std::process::id().to_be_bytes();
    let alive = packet(&[b"\x80\0\0\x05", &id, &pid]);
    stream.write_all(&[hello, alive].concat()).expect("sftp");
    let asked = read_packet(&mut stream);
    assert_eq!(asked[..4], *b"\x10\0\0\x0f", "not proxy mode");
    let mut answer = packet(&[b"\x80\0\0\x0f", &asked[4..8]]);
    let number = |message: &[u8], at: usize| message[at..at + 4].to_vec();
    let open = loop {
        stream.write_all(&answer).expect("sftp");
        answer.clear();
        let message = read_packet(&mut stream);
        if message[1] == 90 {
            break message;
        }
    };
    assert_eq!(open[2..13], *b"\0\0\0\x07session");
    let theirs = number(&open, 13);
    let confirmed = packet(&[b"\0\x5b", &theirs, b"\0\0\0\x09\0\x20\0\0\0\0\x80\0"]);
    stream.write_all(&confirmed).expect("sftp");
    let mut data = Vec::new();
    // Those who say more do so at once; of the others it shows in two seconds that they do not.
    let silence = Duration::from_secs(if more { 60 } else { 2 });
    stream.set_read_timeout(Some(silence)).expect("a limit");
    let mut head = [0; 4];
    while (!more || data.len() <= INIT.len()) && stream.read_exact(&mut head).is_ok() {
        let mut message = vec![0; u32::from_be_bytes(head) as usize];
        stream.read_exact(&mut message).expect("a message");
        match message[1] {
            // The request for the subsystem.
            98 => {
                let granted = packet(&[b"\0\x63", &theirs]);
                stream.write_all(&granted).expect("sftp");
            }
            94 => data.extend_from_slice(&message[10..]),
            _ => {}
        }
    }
    fs::remove_file(shared.path()).expect("its end");
    data
}

#[test]
fn copies_ask_more_at_once_where_the_master_names_a_server_that_is_known() {
    let shared = ours("");
    for unknown in [None, Some("SSH-2.0-unknown")] {
        assert_eq!(first_words(&shared, unknown, false), INIT, "{unknown:?}");
    }
    for known in ["SSH-2.0-OpenSSH_9.2p1", "SSH-2.0-Fulmar_0.1.0"] {
        let words = first_words(&shared, Some(known), true);
        assert!(
            words.starts_with(INIT) && words.len() > INIT.len(),
            "{words:?}"
        );
    }
}
