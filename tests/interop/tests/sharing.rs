//! Connection sharing: OpenSSH's ssh as passenger of our master, ours of OpenSSH's, and ours of ours.

#[path = "sharing/proxy_mode.rs"]
mod proxy_mode;

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use interop::account::{Guest, is_root};
use interop::forwarded::{Does, target, through};
use interop::peers::ours::Kind;
use interop::process::{Background, Input};
use interop::report::{is_whole_run, skipped};
use interop::scratch::{free_port, until};
use interop::shared::{
    LIMIT, Shared, assert_has, assert_is, each, greet, has_title, ours, packet, session_request,
};
use interop::site::{HOST, finish};
use interop::terminal::Terminal;

/// Rounds of a whole run (`INTEROP_ALL=1`), or of any other.
fn whole_or(all: u64, few: u64) -> u64 {
    match is_whole_run() {
        true => all,
        false => few,
    }
}

#[test]
fn sessions_of_all_kinds_run_on_the_masters_connection() {
    each(|shared| {
        let master = shared.start("");
        let here = shared.ride(&[HOST, "echo $SSH_CONNECTION"], Input::Nothing);
        let again = shared.ride(&[HOST, "echo $SSH_CONNECTION"], Input::Nothing);
        assert!(here.stdout.length > 10);
        assert_eq!(here.stdout.text(), again.stdout.text(), "one connection");
        let both = shared.ride(&[HOST, "echo out; echo err >&2; exit 7"], Input::Nothing);
        assert_is(&both, 7, "out\n");
        assert_eq!(both.stderr.text(), "err\n");
        let signal = shared.ride(&[HOST, "kill -9 $$"], Input::Nothing);
        assert_is(&signal, 255, "");
        let bytes = interop::matrix::noise(3 << 20);
        let back = shared.ride(&[HOST, "cat"], Input::Bytes(&bytes));
        assert_eq!((back.status, back.stdout.length), (0, 3 << 20));
        let file = shared.folder.write("file", &bytes);
        let back = shared.ride(&[HOST, "wc -c"], Input::File(&file));
        assert_is(&back, 0, "3145728\n");
        let closed = shared.ride(&["-n", HOST, "cat; echo end"], Input::Bytes(b"input"));
        assert_is(&closed, 0, "end\n");
        let shell = shared.ride(&["-T", HOST], Input::Bytes(b"echo in; exit 3\n"));
        assert_eq!(shell.status, 3);
        assert!(shell.stdout.text().contains("in\n"));
        let mut command = shared.command();
        command.env("SHARED_A", "a").env("OTHER", "b");
        let command = command.args([HOST, "echo \"$SHARED_A$OTHER\""]);
        let said = finish(command, Input::Nothing).stdout.text();
        // Our server accepts the variable only if its configuration says so.
        assert!(["a\n", "\n"].contains(&said.as_str()), "{said}");
        let words = shared.ride(&["-s", HOST, "echo"], Input::Bytes(b"words"));
        assert_is(&words, 0, "words");
        shared.ends(master);
    });
}

#[test]
fn terminals_have_size_escapes_and_their_own_modes_afterwards() {
    each(|shared| {
        let master = shared.start("");
        let mut command = shared.command();
        command.env("TERM", "vt220");
        command.args(["-tt", HOST, "PS1='<ready>' ENV= /bin/sh -i"]);
        let mut terminal = Terminal::new(&command, 93, 41);
        terminal.expect("<ready>");
        terminal.type_text("stty size; echo on $TERM\n");
        terminal.expect("41 93\r\n");
        terminal.expect("on vt220\r\n");
        terminal.type_text("trap 'echo; echo now $(stty size)' WINCH; echo s''et\n");
        terminal.expect("set\r\n");
        terminal.resize(120, 50);
        terminal.type_until("\n", "now 50 120");
        terminal.type_text("~\u{1a}");
        terminal.expect("escape not available to multiplexed sessions");
        terminal.type_text("~?");
        terminal.expect("terminate session");
        terminal.type_text("exit 5\n");
        assert_eq!(terminal.end(), 5);
        let mut other = Terminal::new(&command, 80, 24);
        other.expect("<ready>");
        other.type_text("\n~.");
        assert_eq!(other.end(), 255);
        // Only that session has ended.
        assert_eq!(shared.ask("check", &[]).status, 0);
        shared.ends(master);
    });
}

#[test]
fn forwardings_come_and_go_and_outlast_their_passengers() {
    each(|shared| {
        let master = shared.start("");
        let count = target(Does::Count);
        let (local, remote) = (free_port(), free_port());
        let l = format!("{local}:127.0.0.1:{count}");
        let r = format!("{remote}:127.0.0.1:{count}");
        let added = shared.ride(&["-L", &l, "-R", &r, HOST, "true"], Input::Nothing);
        assert_is(&added, 0, "");
        assert_eq!(through(local, b"four"), b"4\n");
        assert_eq!(through(remote, b"seven77"), b"7\n");
        // A second request changes nothing.
        assert_eq!(shared.ask("forward", &["-L", &l, "-R", &r]).status, 0);
        assert_eq!(shared.ask("cancel", &["-L", &l, "-R", &r]).status, 0);
        let is_free = |port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
        assert!(until(LIMIT, || is_free(local) && is_free(remote)));
        let again = shared.ask("cancel", &["-L", &l]);
        assert_has(&again, "port not forwarded");
        let chosen = shared.ask("forward", &["-R", &format!("0:127.0.0.1:{count}")]);
        let port = chosen.port();
        assert_eq!(through(port, b"12345"), b"5\n");
        let dynamic = free_port().to_string();
        assert_eq!(shared.ask("forward", &["-D", &dynamic]).status, 0);
        assert!(!is_free(dynamic.parse().expect("a port")));
        assert_eq!(shared.ask("cancel", &["-D", &dynamic]).status, 0);
        // A port that is taken.
        let guard = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let taken = guard.local_addr().expect("its number").port();
        let failed = shared.ask(
            "forward",
            &["-L", &format!("127.0.0.1:{taken}:127.0.0.1:{count}")],
        );
        assert_eq!(failed.status, 255);
        assert_has(&failed, "Port forwarding failed");
        drop(guard);
        let stream = shared.ride(
            &["-W", &format!("127.0.0.1:{count}"), HOST],
            Input::Bytes(b"123456"),
        );
        assert_is(&stream, 0, "6\n");
        let nobody = format!("127.0.0.1:{}", free_port());
        let refused = shared.ride(&["-W", &nobody, HOST], Input::Nothing);
        assert_eq!(refused.status, 255);
        shared.ends(master);
    });
}

#[test]
fn masters_are_asked_and_told() {
    each(|shared| {
        let missing = shared.ask("check", &[]);
        assert_eq!(missing.status, 255);
        assert_has(&missing, "No such file or directory");
        let mut master = shared.start("");
        let check = shared.ask("check", &[]);
        let said = format!("Master running (pid={})\r\n", master.0.id());
        assert_eq!((check.status, check.stderr.text()), (0, said));
        let mut long = Background::start(shared.command().args([HOST, "sleep 2; exit 4"])).unwrap();
        thread::sleep(Duration::from_millis(700));
        let stop = shared.ask("stop", &[]);
        assert_eq!(stop.status, 0);
        assert_eq!(stop.stderr.text(), "Stop listening request sent.\r\n");
        assert!(!shared.path().exists());
        // The session goes on; the master, which has no other, ends with it.
        let ended = interop::process::wait(&mut long.0, LIMIT).expect("its end");
        assert_eq!(ended.code(), Some(4));
        assert!(interop::process::wait(&mut master.0, LIMIT).is_ok());
    });
}

#[test]
fn a_persisting_master_leaves_its_caller_alone_and_ends_in_time() {
    let shared = ours("");
    let command = |extra: &str| {
        let mut command = shared.master(&format!("ControlMaster auto\n{extra}"));
        command.args([HOST, "cat; exit 6"]);
        command
    };
    // The outputs end although the master goes on: otherwise this would wait for it.
    let begin = Instant::now();
    let first = finish(&mut command("ControlPersist 2\n"), Input::Bytes(b"words"));
    assert_is(&first, 6, "words");
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "waited for the master"
    );
    let title = format!("ssh: {} [mux]", shared.path().display());
    let pid = has_title(&title).expect("the master in the list of processes");
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        let to = fs::read_link(entry.path()).unwrap_or_default();
        let to = to.display().to_string();
        assert!(
            ["/dev/null", "socket:", "anon_inode:"]
                .iter()
                .any(|kind| to.starts_with(kind)),
            "{to}"
        );
    }
    let second = finish(&mut command("ControlPersist 2\n"), Input::Bytes(b"more"));
    assert_is(&second, 6, "more");
    assert_eq!(has_title(&title), Some(pid));
    // Two seconds after its last session.
    assert!(until(LIMIT, || has_title(&title).is_none()), "it stays");
    assert!(!shared.path().exists());
    // Without a limit it stays until `-O exit`.
    let third = finish(&mut command("ControlPersist yes\n"), Input::Bytes(b"x"));
    assert_is(&third, 6, "x");
    assert_eq!(shared.ask("exit", &[]).status, 0);
    assert!(until(LIMIT, || has_title(&title).is_none()));
}

#[test]
fn a_persisting_master_outlives_its_terminal_and_openssh_rides_with_it() {
    if Kind::OpenSsh.ssh().is_err() {
        return skipped("openssh", &"it is not installed");
    }
    let shared = Shared::new(Kind::Fulmar, Kind::OpenSsh, Kind::Fulmar, "");
    let mut command = shared.master("ControlMaster auto\nControlPersist yes\n");
    command.args(["-t", HOST, "tty; exit 3"]);
    let mut terminal = Terminal::new(&command, 80, 24);
    terminal.expect("/dev/pts/");
    assert_eq!(terminal.end(), 3);
    drop(terminal);
    let rides = shared.ride(&[HOST, "echo still"], Input::Nothing);
    assert_is(&rides, 0, "still\n");
    assert_eq!(shared.ask("exit", &[]).status, 0);
    assert!(until(LIMIT, || !shared.path().exists()));
}

#[test]
fn pipes_and_terminals_of_passengers_stay_blocking() {
    let shared = ours("");
    let mut master = shared.start("");
    let (reader, writer) = sys::io::pipe().expect("a pipe");
    let mut command = shared.command();
    command
        .args([HOST, "cat; sleep 30"])
        .stdin(Stdio::from(reader.try_clone().unwrap()))
        .stdout(Stdio::from(writer.try_clone().unwrap()))
        .stderr(Stdio::null());
    let mut passenger = Background::start(&mut command).expect("ssh");
    (&fs::File::from(writer.try_clone().unwrap()))
        .write_all(b"1")
        .unwrap();
    thread::sleep(Duration::from_millis(800));
    for end in [&reader, &writer] {
        assert!(
            !sys::io::is_nonblocking(end).unwrap(),
            "while the session runs"
        );
    }
    // Nobody restores anything here.
    master.0.kill().expect("kill");
    let ended = interop::process::wait(&mut passenger.0, LIMIT).expect("the passenger's end");
    assert_eq!(ended.code(), Some(255));
    for end in [&reader, &writer] {
        assert!(
            !sys::io::is_nonblocking(end).unwrap(),
            "after the master's end"
        );
    }
}

#[test]
fn what_is_no_living_master_is_passed_over() {
    let shared = ours("");
    let auto = |name: &str, path: &Path| {
        let lines = format!("ControlPath {}\nControlMaster auto\n", path.display());
        let outcome = finish(
            shared.site.ssh(&lines).args([HOST, "echo ran; exit 2"]),
            Input::Nothing,
        );
        assert_eq!(outcome.status, 2, "{name}: {}", outcome.summary());
        assert_eq!(outcome.stdout.text(), "ran\n", "{name}");
        outcome
    };
    // A socket that nobody listens at is replaced.
    let stale = shared.folder.join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    assert_eq!(auto("stale", &stale).stderr.length, 0);
    assert!(!stale.exists(), "the master's own name is gone with it");
    // A process that does not answer costs a second.
    let silent = shared.folder.join("silent");
    let listener = UnixListener::bind(&silent).unwrap();
    let begin = Instant::now();
    assert_has(&auto("silent", &silent), "does not answer");
    assert!(begin.elapsed() < Duration::from_secs(4));
    drop(listener);
    // One that hangs up, one of another version, and one that speaks of too much.
    for (name, answer) in [
        ("hangs-up", &b""[..]),
        ("version", b"\0\0\0\x08\0\0\0\x01\0\0\0\x03"),
        ("long", b"\xff\xff\xff\xff\0\0\0\x01"),
        ("noise", b"\0\0\0\x02ab"),
    ] {
        let path = shared.folder.join(name);
        let listener = UnixListener::bind(&path).unwrap();
        let speaker = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.write_all(answer);
            listener
        });
        assert!(auto(name, &path).stderr.length > 0, "{name}");
        drop(speaker.join());
    }
    // A file that is no socket stays.
    let file = shared.folder.write("file", "words");
    assert_has(
        &auto("file", &file),
        "already exists, disabling multiplexing",
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "words");
    let long = shared.folder.join(&"x".repeat(120));
    let lines = format!("ControlPath {}\n", long.display());
    let outcome = finish(shared.site.ssh(&lines).args([HOST, "true"]), Input::Nothing);
    assert_eq!(outcome.status, 255);
    assert_has(&outcome, "ControlPath too long");
}

#[test]
fn a_stopped_master_costs_one_login_and_no_command_runs_twice() {
    let shared = ours("");
    let master = shared.start("");
    let log = shared.folder.join("log");
    let pid = rustix::process::Pid::from_child(&master.0);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let command = format!("echo ran >> {}", log.display());
    let begin = Instant::now();
    let outcome = shared.ride(&[HOST, &command], Input::Nothing);
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    assert!(begin.elapsed() < Duration::from_secs(4));
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(fs::read_to_string(&log).unwrap(), "ran\n");
    shared.ends(master);
}

#[test]
fn a_full_server_gives_the_next_passenger_a_connection_of_its_own() {
    each(|shared| {
        // The server's limit, not the master's.
        let full = Shared::new(
            shared.site.client,
            shared.passenger,
            Kind::Fulmar,
            "MaxSessions 1\n",
        );
        let master = full.start("");
        let mut long =
            Background::start(full.command().args([HOST, "sleep 3"]).stdin(Stdio::null())).unwrap();
        thread::sleep(Duration::from_millis(900));
        let outcome = full.ride(&[HOST, "echo ran"], Input::Nothing);
        assert_is(&outcome, 0, "ran\n");
        assert_has(&outcome, "Session open refused by peer");
        assert!(interop::process::wait(&mut long.0, LIMIT).is_ok());
        full.ends(master);
    });
}

#[test]
fn a_pool_takes_more_sessions_than_one_connection_may_have() {
    for server in [Kind::Fulmar, Kind::OpenSsh] {
        if server.sshd().is_err() {
            continue;
        }
        let shared = Shared::new(Kind::Fulmar, Kind::Fulmar, server, "MaxSessions 2\n");
        let lines = "ControlMaster auto\nControlPersist 60\nControlConnections 3\n";
        let order = "echo $SSH_CONNECTION; sleep 6";
        let mut outputs = Vec::new();
        let mut all: Vec<_> = (0..5)
            .map(|number| {
                let output = shared.folder.join(&format!("out.{number}"));
                let mut command = shared.master(lines);
                command.args([HOST, order]).stdin(Stdio::null());
                command.stdout(fs::File::create(&output).unwrap());
                let child = command.spawn().expect("ssh");
                let begun = until(LIMIT, || fs::metadata(&output).unwrap().len() > 0);
                assert!(begun, "{number}");
                outputs.push(output);
                child
            })
            .collect();
        let used: Vec<String> = outputs
            .iter()
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        let count = |line: &String| used.iter().filter(|each| *each == line).count();
        let mut counts: Vec<usize> = used.iter().map(count).collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 2, 2, 2, 2], "{}", server.name());
        for child in &mut all {
            assert!(child.wait().expect("its end").success());
        }
        let mut exit = shared.master(lines);
        let exit = finish(exit.args(["-O", "exit", HOST]), Input::Nothing);
        assert_eq!(exit.status, 0, "{}", exit.summary());
        assert!(
            until(LIMIT, || shared.sockets().is_empty()),
            "a master stays"
        );
    }
}

#[test]
fn two_that_start_at_once_get_one_master_and_both_their_sessions() {
    let shared = ours("MaxStartups 100\n");
    for round in 0..whole_or(1000, 6) {
        let stale = shared.path();
        if round % 2 == 1 {
            drop(UnixListener::bind(&stale).unwrap());
        }
        let start = |number: u32| {
            let mut command = shared.master("ControlMaster auto\n");
            let order = format!("sleep 0.4; echo {number}");
            command.args([HOST, &order]);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            command.spawn().expect("ssh")
        };
        let all: Vec<_> = (0..4).map(|number| (number, start(number))).collect();
        for (number, child) in all {
            let output = child.wait_with_output().expect("its end");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(
                (output.status.code(), text),
                (Some(0), format!("{number}\n")),
                "{said}"
            );
        }
        assert!(until(LIMIT, || !stale.exists()), "round {round}");
    }
    let left: Vec<_> = fs::read_dir(shared.folder.path())
        .unwrap()
        .flatten()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_master_that_is_killed_runs_no_command_twice_and_loses_none_in_silence() {
    let shared = ours("MaxStartups 100\nMaxSessions 100\n");
    let log = |round: u64, number: usize| shared.folder.join(&format!("log.{round}.{number}"));
    let start = |round: u64| -> Vec<_> {
        let passenger = |number| {
            let log = log(round, number);
            let order = format!("echo ran >> {}; echo done", log.display());
            let mut command = shared.command();
            command.args([HOST, &order]);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            (log, command.spawn().expect("ssh"))
        };
        (0..8).map(passenger).collect()
    };
    // The time in which the master is killed.
    let master = shared.start("");
    let begun = Instant::now();
    let mut untouched = start(u64::MAX);
    for (_, child) in &mut untouched {
        assert!(child.wait().expect("its end").success());
    }
    let work = begun.elapsed();
    shared.ends(master);
    let (mut done, mut cut) = (0, 0);
    for round in 0..whole_or(100, 6) {
        let mut master = shared.start("");
        let all = start(round);
        let part = u32::try_from(round * 37 % 100).expect("a part");
        thread::sleep(work * part / 100);
        master.0.kill().expect("kill");
        let _ = master.0.wait();
        for (log, child) in all {
            let output = child.wait_with_output().expect("its end");
            let ran = fs::read_to_string(&log).unwrap_or_default().lines().count();
            match output.status.code() {
                Some(0) => {
                    assert_eq!((&output.stdout[..], ran), (&b"done\n"[..], 1));
                    done += 1;
                }
                code => {
                    assert_eq!(code, Some(255), "{output:?}");
                    assert!(ran <= 1, "a command ran {ran} times");
                    cut += 1;
                }
            }
        }
        let _ = fs::remove_file(shared.path());
    }
    eprintln!("{done} commands were done and {cut} were cut off");
    assert!(!is_whole_run() || (done > 0 && cut > 0), "{done} {cut}");
}

#[test]
fn passengers_that_break_the_protocol_are_refused_and_others_go_on() {
    let shared = ours("");
    let master = shared.start("");
    let path = shared.path();
    let marker = shared.folder.join("marker");
    let request = session_request(&format!("touch {}", marker.display()));
    let ends = |mut stream: UnixStream, what: &str| {
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        let is_end =
            read.is_ok() || read.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset);
        assert!(is_end, "{what}: the master still listens");
        String::from_utf8_lossy(&rest).into_owned()
    };
    // No first message, a wrong one, two of them.
    for first in [
        packet(&[b"\x10\0\0\x04\0\0\0\0"]),
        packet(&[b"\0\0\0\x01\0\0\0\x05"]),
        packet(&[b"\0\0\0\x01\0\0\0\x04"]).repeat(2),
        packet(&[b""]),
        b"\0\x04\0\x01".to_vec(),
        packet(&[b"\0\0"]),
    ] {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let _ = stream.write_all(&first);
        ends(stream, &format!("{first:?}"));
    }
    // Descriptors: none, two with one byte, many, and one with a request that takes none.
    let null = fs::File::open("/dev/null").unwrap();
    let null = null.as_fd();
    let mut stream = greet(&path);
    stream.write_all(&request).unwrap();
    stream.write_all(&[0; 3]).unwrap();
    assert!(ends(stream, "no descriptors").contains("did not receive file descriptors"));
    for count in [2, 8] {
        let mut stream = greet(&path);
        stream.write_all(&request).unwrap();
        sys::socket::send_with_fds(&stream, &[0], &vec![null; count]).unwrap();
        assert!(ends(stream, "many").contains("did not receive file descriptors"));
    }
    let stream = greet(&path);
    sys::socket::send_with_fds(&stream, &packet(&[b"\x10\0\0\x04\0\0\0\0"]), &[null]).unwrap();
    ends(stream, "an unexpected descriptor");
    // A session whose passenger leaves before the last descriptor does not begin.
    let mut stream = greet(&path);
    stream.write_all(&request).unwrap();
    sys::socket::send_with_fds(&stream, &[0], &[null]).unwrap();
    drop(stream);
    // Unknown requests are answered.
    let mut stream = greet(&path);
    stream
        .write_all(&packet(&[b"\x10\0\0\x10\0\0\0\x07"]))
        .unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer[4..], b"\x80\0\0\x03\0\0\0\x07");
    drop(stream);
    // Many that connect and say nothing.
    let idle: Vec<_> = (0..50)
        .map(|_| UnixStream::connect(&path).unwrap())
        .collect();
    let rides = shared.ride(&[HOST, "echo on"], Input::Nothing);
    assert_is(&rides, 0, "on\n");
    drop(idle);
    assert!(!marker.exists());
    shared.ends(master);
}

#[test]
fn sockets_of_other_users_are_not_used_and_others_are_not_served() {
    if !is_root() {
        return skipped("another user", &"the test needs root");
    }
    let Ok(other) = Guest::new() else {
        return skipped("another user", &"no account");
    };
    let shared = ours("");
    // A stranger's socket at the path would get this session's descriptors.
    let path = other.home().join("s");
    let listen = "$s=IO::Socket::UNIX->new(Local=>$ARGV[0],Listen=>5) or die; sleep 60";
    let mut command = other.command(Path::new("/usr/bin/perl"));
    command
        .args(["-MIO::Socket::UNIX", "-e", listen])
        .arg(&path);
    let stranger = Background::start(&mut command);
    if stranger.is_err() || !until(LIMIT, || path.exists()) {
        return skipped("another user", &"no perl");
    }
    let lines = format!("ControlPath {}\n", path.display());
    let outcome = finish(
        shared.site.ssh(&lines).args([HOST, "echo own"]),
        Input::Nothing,
    );
    assert_is(&outcome, 0, "own\n");
    assert_has(&outcome, "belongs to a process of user");
    // The master's socket is for its user alone, and a mode that others have changed does not help.
    let master = shared.start("");
    let mode = fs::metadata(shared.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for open in [shared.folder.path(), &shared.path()] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let connect = "$s=IO::Socket::UNIX->new(Peer=>$ARGV[0]) or die; $SIG{ALRM}=sub{exit 1}; \
                   alarm 5; print sysread($s,$b,12),qq(\\n)";
    let mut command = other.command(Path::new("/usr/bin/perl"));
    command.args(["-MIO::Socket::UNIX", "-e", connect]);
    let outcome = finish(command.arg(shared.path()), Input::Nothing);
    assert_ne!(
        outcome.stdout.text(),
        "12\n",
        "a stranger got the first message"
    );
    shared.ends(master);
}

#[test]
fn a_master_that_asks_shares_only_with_permission() {
    for (answer, status) in [("yes", 0), ("no", 0)] {
        let shared = ours("");
        let master = shared.start_asking(answer);
        let outcome = shared.ride(&[HOST, "echo ran"], Input::Nothing);
        // A passenger that is refused logs in by itself, as OpenSSH's does.
        assert_is(&outcome, status, "ran\n");
        let is_refused = outcome.stderr.text().contains("Permission denied");
        assert_eq!(is_refused, answer == "no", "{}", outcome.summary());
        let stop = shared.ask("stop", &[]);
        assert_eq!(stop.status == 0, answer == "yes", "{}", stop.summary());
        if answer == "no" {
            let proxy = shared.ride(&["-O", "proxy", HOST, "echo ran"], Input::Nothing);
            assert_is(&proxy, 255, "");
            assert_has(&proxy, "Permission denied");
        }
        drop(master);
    }
}

#[test]
fn programs_in_the_background_ride_too() {
    let shared = ours("");
    let master = shared.start("");
    let mark = shared.folder.join("mark");
    let order = format!("sleep 2; echo x > {}", mark.display());
    let mut leaves = shared.command();
    leaves.args(["-f", HOST, &order]);
    leaves
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    assert!(leaves.status().expect("ssh").success());
    assert!(!mark.exists(), "waited for the command");
    assert!(until(LIMIT, || mark.exists()));
    // -N runs nothing, and adds its forwardings.
    let count = target(Does::Count);
    let local = free_port();
    let mut none = shared.command();
    none.args(["-N", "-L", &format!("{local}:127.0.0.1:{count}"), HOST]);
    let mut none = Background::start(none.stdin(Stdio::null())).unwrap();
    assert!(until(LIMIT, || std::net::TcpStream::connect((
        "127.0.0.1",
        local
    ))
    .is_ok()));
    assert_eq!(through(local, b"abc"), b"3\n");
    assert!(none.0.try_wait().unwrap().is_none());
    shared.ends(master);
    let ended = interop::process::wait(&mut none.0, LIMIT).expect("its end");
    assert_eq!(ended.code(), Some(255));
}

#[test]
fn a_master_tells_of_its_connection_and_its_channels() {
    let shared = ours("");
    let master = shared.start("");
    let port = shared.site.running.daemon.port;
    let info = shared.ask("conninfo", &[]);
    let text = info.stdout.text();
    assert_eq!(info.status, 0, "{}", info.summary());
    assert!(text.starts_with("Connection information for "), "{text}");
    assert!(text.contains(&format!("-> 127.0.0.1:{port}\n")), "{text}");
    for word in [
        "  kexalgorithm ",
        "  cipher ",
        "  mac ",
        "  compression none",
    ] {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    let local = free_port();
    let forward = format!("{local}:127.0.0.1:1");
    let added = shared.ask("forward", &["-L", &forward]);
    assert_eq!(added.status, 0, "{}", added.summary());
    let mut long = Background::start(
        shared
            .command()
            .args([HOST, "sleep 4"])
            .stdin(Stdio::null()),
    )
    .unwrap();
    let has = |word: &str| shared.ask("channels", &[]).stdout.text().contains(word);
    assert!(until(LIMIT, || has("(session:command, open")));
    let status = shared.ask("status", &[]);
    let text = status.stdout.text();
    assert_eq!(status.status, 0, "{}", status.summary());
    for word in [
        "sessions: 1\n",
        &format!(": process {} of user ", long.0.id()),
        "command sleep 4",
        &format!("  -L {local} to [127.0.0.1]:1: 0 connections"),
        "round trip ",
    ] {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    let json = shared.ask("status", &["--json"]);
    let text = json.stdout.text();
    for word in [
        format!("\"pid\":{},", long.0.id()),
        "\"what\":\"command sleep 4\"".to_owned(),
        "\"accepts_sessions\":true".to_owned(),
    ] {
        assert!(text.contains(&word), "{word:?} is not in {text:?}");
    }
    assert!(interop::process::wait(&mut long.0, LIMIT).is_ok());
    let alone = shared.ask("check", &["--json"]);
    assert_eq!(alone.status, 255);
    assert_has(&alone, "--json: only with -O status.");
    shared.ends(master);
}

#[test]
fn an_openssh_master_has_no_word_for_the_status() {
    let shared = match Kind::OpenSsh.ssh() {
        Ok(_) => Shared::new(Kind::OpenSsh, Kind::Fulmar, Kind::Fulmar, ""),
        Err(reason) => return skipped("openssh", &reason),
    };
    let master = shared.start("");
    let status = shared.ask("status", &[]);
    assert_eq!(status.status, 0, "{}", status.summary());
    assert!(
        status.stdout.text().starts_with("Master running (pid="),
        "{}",
        status.summary()
    );
    assert_has(&status, "the master is not Fulmar's");
    let json = shared.ask("status", &["--json"]);
    assert_eq!(json.status, 255);
    shared.ends(master);
}
