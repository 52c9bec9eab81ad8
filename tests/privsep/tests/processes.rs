//! The processes of live connections, from the kernel's data: users, groups, capabilities, sandbox,
//! limits, root directory, descriptors, environment.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use interop::account::{Guest, uid_of};
use interop::process::installed;
use interop::scratch::until;
use privsep_tests::facts::{Facts, tcp_sockets};
use privsep_tests::sshd::{
    Config, LIMIT, Sshd, UserKey, authorize, binary, finish, guest_with, possible,
};
use sys::signals::Signal;

const SECRET: &str = "hunter2-of-the-administrator";

/// A client that is logged in and runs `cat`; ended when dropped.
struct LoggedIn {
    child: Child,
}

impl LoggedIn {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .args(["127.0.0.1", "echo ready; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("ssh");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("its output");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        let mut client = Self { child };
        // `cat` runs, and its execution has completed.
        client.still_works();
        client
    }

    /// Checks that its data come back.
    fn still_works(&mut self) {
        let stdin = self.child.stdin.as_mut().expect("its input");
        stdin.write_all(b"echo\n").expect("a line");
        let mut back = [0; 5];
        let stdout = self.child.stdout.as_mut().expect("its output");
        stdout.read_exact(&mut back).expect("the line back");
        assert_eq!(&back, b"echo\n");
    }

    fn ends(&mut self) -> bool {
        until(LIMIT, || matches!(self.child.try_wait(), Ok(Some(_))))
    }
}

impl Drop for LoggedIn {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection whose client is silent after its version line, with its waiting processes.
fn silent(server: &Sshd) -> TcpStream {
    server.begun_connection()
}

/// The processes of one connection before its login and of one after it.
struct Live {
    listener: Facts,
    monitor_before: Facts,
    auth: Facts,
    monitor_after: Facts,
    session: Facts,
    command: Facts,
}

fn parent(facts: &Facts) -> u32 {
    u32::try_from(facts.number("PPid")).expect("a pid")
}

fn child_of(all: &[Facts], pid: u32) -> Facts {
    let mut found = all.iter().filter(|facts| parent(facts) == pid);
    let only = found.next().expect("a child").clone();
    assert!(found.next().is_none(), "{pid} has two children: {all:#?}");
    only
}

impl Live {
    fn look(server: &Sshd) -> Self {
        let all = server.processes();
        let listener = Facts::of(server.daemon.pid()).expect("the listener");
        let monitors: Vec<&Facts> = all
            .iter()
            .filter(|facts| parent(facts) == listener.pid)
            .collect();
        let [one, other] = monitors[..] else {
            panic!("not two connections: {all:#?}");
        };
        let is_before =
            |monitor: &Facts| child_of(&all, monitor.pid).command_line == "fulmar sshd-auth";
        let (before, after) = if is_before(one) {
            (one, other)
        } else {
            (other, one)
        };
        let session = child_of(&all, after.pid);
        let live = Self {
            auth: child_of(&all, before.pid),
            command: child_of(&all, session.pid),
            monitor_before: before.clone(),
            monitor_after: after.clone(),
            session,
            listener,
        };
        assert_eq!(all.len(), 5, "no process besides: {all:#?}");
        live
    }

    fn all(&self) -> [&Facts; 6] {
        [
            &self.listener,
            &self.monitor_before,
            &self.auth,
            &self.monitor_after,
            &self.session,
            &self.command,
        ]
    }
}

fn variables(facts: &Facts) -> BTreeSet<&str> {
    facts
        .environment
        .iter()
        .filter_map(|entry| entry.split('=').next())
        .filter(|name| *name != "TZ")
        .collect()
}

/// Before the login two processes have the connection, after it only the session process.
fn check_connection(live: &Live, server: &Sshd) {
    let (listening, connected) = tcp_sockets(server.daemon.port);
    let own = |facts: &Facts| -> Vec<u64> {
        let sockets = facts.sockets();
        let listens = sockets.iter().any(|inode| listening.contains(inode));
        assert_eq!(listens, facts.pid == live.listener.pid, "{facts:#?}");
        let found = sockets
            .into_iter()
            .filter(|inode| connected.contains(inode));
        found.collect()
    };
    for facts in [&live.listener, &live.monitor_after] {
        // The process that passed it on may have it for a moment longer.
        let mut held = Vec::new();
        let settled = until(LIMIT, || {
            held = own(&Facts::of(facts.pid).expect("it runs"));
            held.is_empty()
        });
        assert!(settled, "{held:?}: {facts:#?}");
    }
    let before = own(&live.monitor_before);
    assert_eq!(before.len(), 1);
    assert_eq!(own(&live.auth), before);
    let after = own(&live.session);
    assert_eq!(after.len(), 1);
    assert_ne!(after, before);
    assert!(own(&live.command).is_empty());
}

fn check_descriptors(live: &Live, server: &Sshd, log: &str) {
    check_connection(live, server);
    for facts in live.all() {
        assert_eq!(
            facts.kind(0),
            if facts.pid == live.command.pid {
                "pipe"
            } else {
                "/dev/null"
            }
        );
    }
    // Standard error is the log in the processes that write it, and in no others.
    for facts in [&live.listener, &live.monitor_before, &live.monitor_after] {
        assert_eq!(facts.kind(2), log, "{facts:#?}");
    }
    for facts in [&live.auth, &live.session] {
        assert_eq!((facts.kind(1), facts.kind(2)), ("/dev/null", "/dev/null"));
    }
    // The listener inherits open descriptors of the user who runs the tests, and passes none on.
    let ours = Facts::of(std::process::id())
        .expect("ourselves")
        .descriptors;
    let exact = |facts: &Facts, wanted: &[&str]| {
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        // A process that has just started another may still have the descriptors that it passed on.
        let mut kinds = Vec::new();
        let settled = until(LIMIT, || {
            let now = Facts::of(facts.pid).expect("it runs");
            let own = now.kinds_above_stderr().into_iter().filter(|(number, _)| {
                facts.pid != live.listener.pid || now.descriptors.get(number) != ours.get(number)
            });
            kinds = own.map(|(_, kind)| kind.to_owned()).collect();
            kinds.sort_unstable();
            kinds == wanted
        });
        assert!(settled, "{kinds:?} instead of {wanted:?}: {facts:#?}");
    };
    let program = binary().to_str().expect("a path");
    let pidfd = "anon_inode:[pidfd]";
    // The start record for the next connections and the pipe for messages about the current one.
    exact(
        &live.listener,
        &[
            "socket",
            "anon_inode:[eventpoll]",
            "anon_inode:[signalfd]",
            program,
            "/memfd:sshd-monitor (deleted)",
            "pipe",
            pidfd,
        ],
    );
    exact(
        &live.monitor_before,
        &["socket", "socket", "pipe", program, pidfd],
    );
    exact(&live.auth, &["socket", "socket"]);
    exact(&live.monitor_after, &["socket", program, pidfd]);
    let session: Vec<&str> = live
        .session
        .kinds_above_stderr()
        .into_iter()
        .map(|(_, kind)| kind)
        .filter(|kind| !["pipe", "socket", pidfd].contains(kind))
        .collect();
    assert!(
        session
            .iter()
            .all(|kind| ["anon_inode:[eventpoll]", "anon_inode:[timerfd]"].contains(kind)),
        "{:#?}",
        live.session
    );
    assert_eq!(live.session.sockets().len(), 2, "network and monitor");
    assert_eq!(live.command.descriptors.len(), 3, "{:#?}", live.command);
}

fn check_cage(auth: &Facts) {
    assert_eq!(auth.number("Seccomp"), 2, "{auth:#?}");
    assert_eq!(auth.number("NoNewPrivs"), 1);
    for (name, value) in [
        ("Max processes", "0"),
        ("Max file size", "0"),
        ("Max core file size", "0"),
        ("Max open files", "16"),
    ] {
        assert_eq!(
            auth.limit(name),
            (value.to_owned(), value.to_owned()),
            "{name}"
        );
    }
}

fn check_common(live: &Live) {
    for facts in live.all() {
        assert_eq!(facts.number("Threads"), 1, "{facts:#?}");
        assert!(!facts.command_line.contains(SECRET));
        if facts.pid != live.listener.pid {
            let known = facts.environment.iter().any(|entry| entry.contains(SECRET));
            assert!(!known, "{facts:#?}");
        }
    }
    let of_monitor = BTreeSet::from(["PATH", "LANG"]);
    assert_eq!(variables(&live.monitor_before), of_monitor);
    assert_eq!(variables(&live.monitor_after), of_monitor);
    assert_eq!(variables(&live.auth), BTreeSet::new());
    assert_eq!(variables(&live.session), BTreeSet::from(["PATH"]));
    let names = variables(&live.command);
    for name in [
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "PATH",
        "SSH_CLIENT",
        "SSH_CONNECTION",
    ] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    for name in &names {
        let usual = [
            "HOME", "USER", "LOGNAME", "SHELL", "PATH", "MAIL", "LANG", "PWD", "_", "OLDPWD",
            "SHLVL",
        ];
        assert!(
            usual.contains(name) || name.starts_with("SSH_") || name.starts_with("LC_"),
            "{name}: {names:?}"
        );
    }
    // Not dumpable: only root can inspect processes that have keys.
    for facts in &live.all()[..5] {
        assert_eq!(facts.owner, 0, "{facts:#?}");
    }
    check_cage(&live.auth);
    for facts in [
        &live.monitor_before,
        &live.monitor_after,
        &live.session,
        &live.command,
    ] {
        // sudo and the like must work for users.
        assert_eq!(facts.number("NoNewPrivs"), 0, "{facts:#?}");
        assert_eq!(facts.number("Seccomp"), 0);
    }
}

fn groups_of(user: &str) -> Vec<u32> {
    let outcome = finish(Command::new("id").args(["-G", user]));
    let text = outcome.stdout.text();
    let mut groups: Vec<u32> = text
        .split_whitespace()
        .map(|id| id.parse().unwrap())
        .collect();
    groups.sort_unstable();
    groups
}

/// A user with a key of this number; `None` where the test is not possible.
fn user(test: &str, number: u8) -> Option<(UserKey, Guest)> {
    possible(test).then(|| {
        let key = UserKey::new(number);
        let guest = guest_with("", &key);
        (key, guest)
    })
}

/// A client of this user that is logged in, a connection beside that says nothing, and the processes of
/// both.
fn one_logged_in(server: &Sshd, guest: &Guest, key: &UserKey) -> (LoggedIn, TcpStream, Live) {
    let client = LoggedIn::start(server.ssh(&guest.name, &[key]));
    let held = silent(server);
    let live = Live::look(server);
    (client, held, live)
}

/// Waits for the end of one connection, and checks that the other works.
fn assert_other_works(held: &mut TcpStream, client: &mut LoggedIn) {
    let mut rest = Vec::new();
    let _ = held.read_to_end(&mut rest);
    client.still_works();
}

#[test]
fn each_process_of_a_root_server_has_what_it_needs_and_no_more() {
    let Some((key, guest)) = user("processes of a server started as root", 1) else {
        return;
    };
    let more = finish(Command::new("usermod").args(["-a", "-G", "games", &guest.name]));
    assert_eq!(more.status, 0, "{}", more.summary());
    let server = Sshd::start_with(Config::default(), |_, _| {
        let mut command = Command::new(binary());
        command
            .env("FULMAR_TEST_SECRET", SECRET)
            .env("LANG", "C.UTF-8");
        command
    });
    let (mut client, _held, live) = one_logged_in(&server, &guest, &key);
    let log = server.daemon.scratch().join("server.log");
    check_common(&live);
    check_descriptors(&live, &server, log.to_str().expect("a path"));

    for facts in [&live.listener, &live.monitor_before, &live.monitor_after] {
        assert_eq!((facts.uid(), facts.gid()), (0, 0));
        assert_eq!(facts.root.to_str(), Some("/"));
    }
    let (auth, uid) = (&live.auth, uid_of(&guest.name).expect("a uid"));
    let sandboxed = uid_of("sshd").or(uid_of("nobody")).expect("a user for it");
    assert_eq!(auth.uid(), sandboxed);
    assert_ne!(auth.gid(), 0);
    assert_eq!(auth.groups(), [auth.gid()]);
    for facts in [auth, &live.session, &live.command] {
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(facts.capabilities(set), 0, "{set}: {facts:#?}");
        }
    }
    assert_ne!(auth.root.to_str(), Some("/"));
    let inside = std::fs::read_dir(&auth.root).expect("its root").count();
    assert_eq!(inside, 0, "{}", auth.root.display());

    for facts in [&live.session, &live.command] {
        assert_eq!((facts.uid(), facts.gid()), (uid, uid_to_gid(&guest)));
        assert_eq!(facts.groups(), groups_of(&guest.name));
        assert_eq!(facts.root.to_str(), Some("/"));
    }
    assert_eq!(live.command.owner, uid);
    // What ps shows: the user, and nothing else about the connection.
    let title = |after: &str| format!("sshd-session: {after}");
    let of_user = |after: &str| title(&format!("{}{after}", guest.name));
    assert_eq!(live.monitor_before.command_line, title("[accepted]"));
    assert_eq!(live.monitor_after.command_line, of_user(" [postauth]"));
    assert_eq!(live.session.command_line, of_user("@notty"));
    for facts in [&live.monitor_before, &live.monitor_after, &live.session] {
        assert_eq!(facts.name, "sshd-session");
    }
    assert_eq!(live.auth.name, "sshd-auth");
    client.still_works();
    drop(client);
    drop(_held);
    server.leaves_nothing_behind();
}

/// Beside a cat that echoes its input.
#[test]
fn only_the_users_process_starts_threads_and_only_while_there_is_bulk() {
    if !possible("threads of a server started as root") {
        return;
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        eprintln!("skipped: threads on a machine with one core");
        return;
    }
    let key = UserKey::new(3);
    let guest = guest_with("", &key);
    let server = Sshd::start(Config::new("CryptoThreads 2"));
    let (mut client, _held, live) = one_logged_in(&server, &guest, &key);
    check_common(&live);
    let threads = |facts: &Facts| {
        let now = Facts::of(facts.pid).expect("it runs");
        now.number("Threads")
    };
    let mut stdin = client.child.stdin.take().expect("its input");
    let mut stdout = client.child.stdout.take().expect("its output");
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let feeder = scope.spawn(|| {
            let zeros = vec![0; 1 << 16];
            while !enough.load(Ordering::Relaxed) {
                stdin.write_all(&zeros).expect("bulk");
            }
            stdin
        });
        let drain = scope.spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        let started = until(LIMIT, || threads(&live.session) == 2);
        let others = [
            &live.listener,
            &live.monitor_before,
            &live.auth,
            &live.monitor_after,
        ];
        let alone = others.map(threads);
        enough.store(true, Ordering::Relaxed);
        let stdin = feeder.join().expect("the feeder");
        assert!(started, "no worker for bulk");
        assert_eq!(alone, [1; 4]);
        assert!(until(LIMIT, || threads(&live.session) == 1), "idle workers");
        drop(stdin);
        drain.join().expect("the drain").expect("its bytes");
    });
    drop(client);
    drop(_held);
    server.leaves_nothing_behind();
}

fn uid_to_gid(guest: &Guest) -> u32 {
    let outcome = finish(Command::new("id").args(["-g", &guest.name]));
    outcome.stdout.text().trim().parse().expect("a gid")
}

#[test]
fn each_process_of_an_ordinary_users_server_is_that_users_and_caged_alike() {
    let Some((key, guest)) = user("processes of a server started by an ordinary user", 2) else {
        return;
    };
    let uid = uid_of(&guest.name).expect("a uid");
    let server = Sshd::start_as(&guest, "");
    let (mut client, _held, live) = one_logged_in(&server, &guest, &key);
    let log = server.daemon.scratch().join("server.log");
    check_common(&live);
    check_descriptors(&live, &server, log.to_str().expect("a path"));
    for facts in live.all() {
        assert_eq!((facts.uid(), facts.gid()), (uid, uid_to_gid(&guest)));
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(facts.capabilities(set), 0, "{set}: {facts:#?}");
        }
        assert_eq!(facts.groups(), groups_of(&guest.name));
    }
    client.still_works();
    drop(client);
    // No other user is served, whatever the proof.
    let other = guest_with("", &key);
    server.keeps_out(&other.name, &key);
    server.keeps_out("root", &key);
    // A terminal without any privilege.
    let outcome = server.run_with(&guest.name, &[&key], &["-tt"], "tty; id -u");
    assert!(
        outcome.stdout.text().contains("/dev/pts/"),
        "{}",
        outcome.summary()
    );
}

#[test]
fn the_user_cannot_look_into_the_process_that_serves_the_session() {
    if !possible("what a user sees of the session process") || installed("setpriv").is_none() {
        return;
    }
    let key = UserKey::new(3);
    let guest = guest_with("", &key);
    let server = Sshd::start(Config::default());
    let (mut client, _held, live) = one_logged_in(&server, &guest, &key);
    for facts in [
        &live.session,
        &live.monitor_after,
        &live.auth,
        &live.listener,
    ] {
        for file in ["environ", "mem", "fd/3", "maps", "auxv", "syscall"] {
            let path = format!("/proc/{}/{file}", facts.pid);
            let outcome = finish(
                guest
                    .command(&installed("head").expect("head"))
                    .args(["-c", "1", &path]),
            );
            assert!(
                outcome.status != 0 && outcome.stdout.length == 0,
                "{file} of {}: {}",
                facts.command_line,
                outcome.summary()
            );
        }
    }
    // The user can inspect his own command.
    let path = format!("/proc/{}/environ", live.command.pid);
    let outcome = finish(guest.command(&installed("cat").expect("cat")).arg(&path));
    assert!(
        outcome.stdout.text().contains("SSH_CONNECTION"),
        "{}",
        outcome.summary()
    );
    client.still_works();
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).expect("a pid");
    let process = sys::process::PidFd::open(pid).expect("a process");
    process.signal(Signal::KILL).expect("a signal to it");
}

fn is_gone(pid: u32) -> bool {
    until(LIMIT, || {
        match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat.contains(") Z "),
            Err(_) => true,
        }
    })
}

/// The listener lets the user in again, and nothing of that connection stays.
fn serves_and_ends(server: &Sshd, guest: &Guest, key: &UserKey) {
    server.lets_in(&guest.name, key);
    server.leaves_nothing_behind();
}

#[test]
fn no_role_outlives_its_monitor() {
    let Some((key, guest)) = user("roles without a monitor", 4) else {
        return;
    };
    // Without a limit on the login only its parent's death would end the auth process.
    let server = Sshd::start(Config::new("LoginGraceTime 0"));
    let (mut client, mut held, live) = one_logged_in(&server, &guest, &key);
    kill(live.monitor_before.pid);
    assert!(
        is_gone(live.auth.pid),
        "the auth process outlives its monitor"
    );
    assert_other_works(&mut held, &mut client);
    kill(live.monitor_after.pid);
    assert!(
        is_gone(live.session.pid),
        "the session outlives its monitor"
    );
    assert!(client.ends());
    // The listener continues.
    serves_and_ends(&server, &guest, &key);
}

#[test]
fn a_role_that_is_killed_ends_its_connection_and_no_other() {
    let Some((key, guest)) = user("roles that are killed", 5) else {
        return;
    };
    let server = Sshd::start(Config::default());
    let (mut client, mut held, live) = one_logged_in(&server, &guest, &key);
    kill(live.auth.pid);
    assert!(is_gone(live.monitor_before.pid));
    assert_other_works(&mut held, &mut client);
    kill(live.session.pid);
    assert!(client.ends());
    assert!(is_gone(live.monitor_after.pid));
    serves_and_ends(&server, &guest, &key);
}

#[test]
fn descriptors_and_processes_are_as_before_after_many_connections() {
    let Some((key, guest)) = user("descriptors after many connections", 6) else {
        return;
    };
    let server = Sshd::start(Config::default());
    serves_and_ends(&server, &guest, &key);
    let pid = server.daemon.pid();
    let before = Facts::of(pid).expect("the listener").descriptors.len();
    let stranger = UserKey::new(99);
    for _ in 0..5 {
        server.lets_in(&guest.name, &key);
        server.keeps_out(&guest.name, &stranger);
        drop(silent(&server));
        drop(TcpStream::connect(("127.0.0.1", server.daemon.port)));
    }
    server.leaves_nothing_behind();
    let after = || Facts::of(pid).expect("the listener").descriptors.len();
    assert!(
        until(LIMIT, || after() == before),
        "{before} then {}",
        after()
    );
    authorize(&guest, &[]);
    server.keeps_out(&guest.name, &key);
}
