//! A pool of connections (`ControlConnections`): which of them a session takes, and copies with several
//! connections.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use interop::matrix::noise;
use interop::peers::ours::Kind;
use interop::process::{Background, Input, installed, wait};
use interop::report::skipped;
use interop::scratch::until;
use interop::shared::{LIMIT, Shared, ours};
use interop::site::{HOST, finish, program};

const POOL: &str = "ControlConnections 2\n";
/// Bytes at which a connection is known to carry a copy.
const MUCH: u64 = 2 << 20;

/// The sockets of both masters.
fn sockets(shared: &Shared) -> [String; 2] {
    let path = shared.path().display().to_string();
    let second = format!("{path}.1");
    [path, second]
}

/// Both masters, without sessions of their own.
fn masters(shared: &Shared) -> [Background; 2] {
    let first = shared.start("");
    let [_, socket] = sockets(shared);
    let mut command = shared.master("");
    command.args(["-S", &socket, "-M", "-N", HOST]);
    let second = Background::start(command.stdin(Stdio::null())).expect("ssh");
    assert!(until(LIMIT, || Path::new(&socket).exists()), "no socket");
    [first, second]
}

fn end(shared: &Shared, masters: [Background; 2]) {
    let mut exit = shared.master(POOL);
    let exit = finish(exit.args(["-O", "exit", HOST]), Input::Nothing);
    assert_eq!(exit.status, 0, "{}", exit.summary());
    for mut master in masters {
        assert!(wait(&mut master.0, LIMIT).is_ok(), "a master stays");
    }
}

/// The ports of the connection that a session gets.
fn connection(mut ssh: Command) -> String {
    let outcome = finish(ssh.args([HOST, "echo $SSH_CONNECTION"]), Input::Nothing);
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    outcome.stdout.text()
}

/// What the master at `socket` tells.
fn status(shared: &Shared, socket: &str) -> String {
    let mut ask = shared.master("");
    let words = ["-S", socket, "-O", "status", "--json", HOST];
    finish(ask.args(words), Input::Nothing).stdout.text()
}

/// The number `name` of the whole connection.
fn told(shared: &Shared, socket: &str, name: &str) -> u64 {
    let text = status(shared, socket);
    let value = text.split(&format!("\"{name}\":")).nth(1);
    let value = value.and_then(|rest| rest.split(',').next());
    let value = value.and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("{text}"))
}

fn begin(mut command: Command, words: &[&str]) -> Background {
    command
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Background::start(&mut command).expect("a program")
}

#[test]
fn a_session_takes_the_connection_that_carries_least() {
    for server in [Kind::Fulmar, Kind::OpenSsh] {
        if server.sshd().is_err() {
            skipped("sshd", &"not installed");
            continue;
        }
        let shared = Shared::new(Kind::Fulmar, Kind::Fulmar, server, "");
        let masters = masters(&shared);
        let [first, second] = sockets(&shared);
        let on = |socket: &str| {
            let mut ssh = shared.master("");
            ssh.args(["-S", socket]);
            connection(ssh)
        };
        let (one, two) = (on(&first), on(&second));
        assert_ne!(one, two);
        let chosen = || connection(shared.master(POOL));
        assert!(until(LIMIT, || chosen() == one), "both carry nothing");
        let begun = |number: u32| shared.folder.join(&format!("begun.{number}"));
        let idle: Vec<Background> = (0..2)
            .map(|number| {
                let order = format!("touch {}; sleep 600", begun(number).display());
                let session = begin(shared.master(""), &["-S", &second, HOST, &order]);
                assert!(until(LIMIT, || begun(number).exists()), "{number}");
                session
            })
            .collect();
        assert_eq!(chosen(), one, "sessions count");
        let order = "while head -c 4000000 /dev/zero; do sleep 0.1; done";
        let bulk = begin(shared.master(""), &[HOST, order]);
        assert!(until(LIMIT, || chosen() == two), "bytes count for more");
        // Forwardings are the first master's, and their session is too.
        let spec = format!("{0}:{0}", shared.folder.join("f").display());
        let mut forwards = shared.master(POOL);
        forwards.args(["-L", &spec]);
        assert_eq!(connection(forwards), one);
        drop(bulk);
        assert!(until(LIMIT, || chosen() == one), "the end of the bytes");
        drop(idle);
        let [_, stopped] = &masters;
        stopped.signal("STOP");
        assert_eq!(chosen(), one, "one that says nothing");
        stopped.signal("CONT");
        end(&shared, masters);
    }
}

#[test]
fn a_connection_that_sessions_pass_by_ends_in_its_time() {
    let shared = ours("");
    let first = shared.start("");
    let [_, socket] = sockets(&shared);
    let mut founder = shared.master("ControlMaster auto\nControlPersist 2\n");
    founder.args(["-S", &socket]);
    let two = connection(founder);
    let is_gone = || {
        assert_ne!(connection(shared.master(POOL)), two);
        !Path::new(&socket).exists()
    };
    assert!(until(LIMIT, is_gone), "the second stays");
    shared.ends(first);
}

#[test]
fn two_copies_take_two_connections() {
    let shared = ours("Subsystem sftp internal-sftp\n");
    let masters = masters(&shared);
    let wrapper = shared.site.wrapper();
    let from = shared.folder.join("from");
    let file = fs::File::create(&from).expect("a file");
    file.set_len(1 << 30).expect("a sparse file");
    let [first, _] = sockets(&shared);
    let path = format!("ControlPath={first}");
    let ours = || program(&shared.site, "scp");
    // OpenSSH's, with our client below it.
    let theirs = || {
        let mut command = Command::new(installed("scp").unwrap_or_default());
        command.arg("-S").arg(&wrapper);
        command
    };
    let makers: [(&str, &dyn Fn() -> Command); 2] = [("ours", &ours), ("scp", &theirs)];
    for (name, maker) in makers {
        if name == "scp" && installed("scp").is_none() {
            skipped("scp", &"not installed");
            continue;
        }
        let sent = || sockets(&shared).map(|socket| told(&shared, &socket, "sent"));
        let before = sent();
        let mut copies = Vec::new();
        for number in 1..=2 {
            let to = shared.folder.join(&format!("to.{name}.{number}"));
            let from = from.display().to_string();
            let to = format!("{HOST}:{}", to.display());
            // 10 MB a second.
            let words = ["-q", "-l", "80000", "-o", &path];
            let words = [&words[..], &["-o", "ControlConnections=2", &from, &to]].concat();
            copies.push(begin(maker(), &words));
            // The first copy may take either.
            let carry = || {
                let pairs = before.iter().zip(sent());
                pairs.filter(|(had, has)| *has > *had + MUCH).count() == number
            };
            assert!(until(LIMIT, carry), "{name} {number}");
        }
        drop(copies);
        let rests = || {
            let mut left = sockets(&shared).into_iter();
            left.all(|socket| status(&shared, &socket).contains("\"sessions\":[]"))
        };
        assert!(until(LIMIT, rests), "{name}");
    }
    end(&shared, masters);
}

#[test]
fn a_copy_with_several_connections_takes_those_of_the_pool() {
    let shared = ours("Subsystem sftp internal-sftp\n");
    let masters = masters(&shared);
    let from = shared.folder.write("from", noise(48 << 20));
    let [first, _] = sockets(&shared);
    let path = format!("ControlPath={first}");
    let logins = || {
        let log = shared.site.running.daemon.log();
        log.matches("Accepted publickey").count()
    };
    for (count, connections, logs_in) in [("2", "2", 0), ("3", "2", 1), ("2", "1", 2)] {
        let received = || sockets(&shared).map(|socket| told(&shared, &socket, "received"));
        let (before, had) = (logins(), received());
        let to = shared.folder.join("to");
        let _ = fs::remove_file(&to);
        let pool = format!("ControlConnections={connections}");
        let mut copy = program(&shared.site, "scp");
        copy.args(["-q", "-n", count, "-o", &path, "-o", &pool]);
        copy.arg(format!("{HOST}:{}", from.display())).arg(&to);
        let copied = finish(&mut copy, Input::Nothing);
        assert_eq!(copied.status, 0, "{count}: {}", copied.summary());
        assert!(fs::read(&to).unwrap() == fs::read(&from).unwrap());
        assert_eq!(logins() - before, logs_in, "{count} {connections}");
        for (had, has) in had.into_iter().zip(received()) {
            assert_eq!(has > had + MUCH, connections == "2", "{had} {has}");
        }
    }
    end(&shared, masters);
}
