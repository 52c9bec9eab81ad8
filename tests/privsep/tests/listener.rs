//! The listener's operation: its program replaced on disk, the service manager, reloads, refused
//! sources.

#[path = "listener/upgrades.rs"]
mod upgrades;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use interop::process::{descendants, installed};
use interop::report::skipped;
use interop::scratch::{Scratch, is_listening, until};
use privsep_tests::facts::Facts;
use privsep_tests::sshd::{Config, LIMIT, Sshd, UserKey, binary, finish, guest_with, possible};
use sys::signals::Signal;

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).expect("a pid");
    let process = sys::process::PidFd::open(pid).expect("a process");
    process.signal(signal).expect("a signal to it");
}

/// A process that is killed at the end of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        for pid in descendants(self.0.id()) {
            if let Ok(process) = sys::process::PidFd::open(i32::try_from(pid).unwrap_or(0)) {
                let _ = process.signal(Signal::KILL);
            }
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A session that runs `cat`.
struct Cat(Killed);

impl Cat {
    fn start(mut ssh: Command) -> Self {
        let child = ssh
            .args(["127.0.0.1", "exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("ssh");
        let mut cat = Self(Killed(child));
        cat.still_works();
        cat
    }

    fn still_works(&mut self) {
        let child = &mut self.0.0;
        let stdin = child.stdin.as_mut().expect("its input");
        stdin.write_all(b"echo\n").expect("a line");
        let mut back = [0; 5];
        let stdout = child.stdout.as_mut().expect("its output");
        stdout.read_exact(&mut back).expect("the line back");
        assert_eq!(&back, b"echo\n");
    }
}

/// As OpenSSH's listener whose place was taken starts it.
#[test]
fn a_child_of_init_without_a_terminal_is_in_the_background_already() {
    if !possible("a child of init") || installed("setsid").is_none() {
        return;
    }
    let scratch = Scratch::new();
    let pid_file = scratch.join("pid");
    let host_key = interop::fixture::file("host_ed25519");
    let lines = format!("PidFile {}\n", pid_file.display());
    let config = scratch.write("sshd_config", Config::new(&lines).text(&host_key));
    let port = interop::scratch::free_port().to_string();
    let script = "setsid \"$@\" & while [ ! -s \"$0\" ] && kill -0 $!; do sleep 0.1; done; echo $!; cat \"$0\"";
    let mut command = Command::new("unshare");
    command
        .args([
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            script,
        ])
        .arg(&pid_file)
        .arg(binary())
        .args(["sshd", "-e", "-p", &port, "-f"])
        .arg(config);
    let outcome = finish(&mut command);
    let text = outcome.stdout.text();
    let pids: Vec<&str> = text.lines().collect();
    assert!(
        pids.len() == 2 && pids[0] == pids[1],
        "{}",
        outcome.summary()
    );
}

#[test]
fn a_server_in_the_background_has_the_name_by_which_it_was_started() {
    if !possible("a server in the background") {
        return;
    }
    let scratch = Scratch::new();
    let pid_file = scratch.join("pid");
    let host_key = interop::fixture::file("host_ed25519");
    let lines = format!("PidFile {}\n", pid_file.display());
    let config = scratch.write("sshd_config", Config::new(&lines).text(&host_key));
    let link = scratch.join("sshd");
    std::os::unix::fs::symlink(binary(), &link).expect("a link");
    let port = interop::scratch::free_port().to_string();
    let mut command = Command::new(link);
    command.args(["-p", &port, "-E"]).arg(scratch.join("log"));
    let outcome = finish(command.arg("-f").arg(config));
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    let pid = fs::read_to_string(pid_file).expect("its process ID");
    let name = fs::read_to_string(format!("/proc/{}/comm", pid.trim()));
    signal(pid.trim().parse().expect("a number"), Signal::TERM);
    assert_eq!(name.expect("its name"), "sshd\n");
}

#[test]
fn the_service_manager_hears_readiness_reload_and_end() {
    if !possible("sd_notify") {
        return;
    }
    let manager = Scratch::new();
    let path = manager.join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(LIMIT)).expect("a limit");
    let key = UserKey::new(12);
    let guest = guest_with("", &key);
    let mut server = Sshd::start_with(Config::default(), |_, _| {
        let mut command = Command::new(binary());
        command.env("NOTIFY_SOCKET", &path);
        command
    });
    let next = || {
        let mut buffer = [0; 1024];
        let count = socket.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    let pid = server.daemon.pid();
    let ready = next();
    assert!(ready.starts_with("READY=1\n"), "{ready}");
    assert!(ready.contains(&format!("MAINPID={pid}\n")), "{ready}");
    assert!(
        ready.contains(&format!(":{}", server.daemon.port)),
        "{ready}"
    );
    server.hang_up();
    let reloading = next();
    assert!(
        reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
        "{reloading}"
    );
    assert!(next().starts_with("READY=1\n"));
    server.rewrite_raw("NoSuchKeyword yes\n");
    server.hang_up();
    assert!(next().starts_with("RELOADING=1\n"));
    assert!(
        next().starts_with("READY=1\n"),
        "it goes on with the old one"
    );
    server.lets_in(&guest.name, &key);
    // Too few descriptors for the processes of a new configuration, enough to read it.
    server.rewrite(Config::new("MetricsFile /dev/null"));
    server.hang_up();
    assert!(next().starts_with("RELOADING=1\n"));
    assert!(next().starts_with("READY=1\n"));
    server.leaves_nothing_behind();
    let can_limit = installed("prlimit").is_some();
    for free in [3, 2, 1].into_iter().filter(|_| can_limit) {
        let limit = limit_of_descriptors(pid, free);
        server.hang_up();
        assert!(next().starts_with("RELOADING=1\n"), "{free}");
        assert!(next().starts_with("READY=1\n"), "{free}");
        drop(limit);
    }
    if can_limit {
        server.logs("stays in use: Too many open files");
    }
    server.lets_in(&guest.name, &key);
    // The roles do not get the variables of the service manager.
    let mut cat = Cat::start(server.ssh(&guest.name, &[&key]));
    for facts in server.processes() {
        let told = facts
            .environment
            .iter()
            .any(|entry| entry.starts_with("NOTIFY_"));
        assert!(!told, "{facts:?}");
    }
    signal(pid, Signal::TERM);
    assert!(next().starts_with("STOPPING=1\n"));
    assert!(server.daemon.ends_within(LIMIT));
    cat.still_works();
}

/// Lets a process open this number of further descriptors, until the value is dropped.
fn limit_of_descriptors(pid: u32, free: u64) -> impl Drop {
    struct Limited(u32);
    impl Drop for Limited {
        fn drop(&mut self) {
            limit(self.0, 1024);
        }
    }
    fn limit(pid: u32, most: u64) {
        let mut command = Command::new("prlimit");
        command.args(["--pid", &pid.to_string(), &format!("--nofile={most}:")]);
        let outcome = finish(&mut command);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
    }
    let open = Facts::of(pid).expect("its descriptors").descriptors;
    let unused = (0_u32..).filter(|number| !open.contains_key(number));
    let most = unused.zip(0..=free).last().expect("a number").0;
    limit(pid, u64::from(most));
    Limited(pid)
}

#[test]
fn sockets_of_the_service_manager_are_served_and_kept_over_a_reload() {
    if !possible("socket activation") || installed("sh").is_none() {
        return;
    }
    let key = UserKey::new(13);
    let guest = guest_with("", &key);
    let scratch = Scratch::new();
    let activated = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a socket");
    let port = activated.local_addr().expect("its address").port();
    let host = interop::fixture::file("host_ed25519");
    let text = |lines: &str| Config::new(lines).text(&host);
    // A port of the file would not be opened: it is taken.
    let config = scratch.write("sshd_config", text(&format!("Port {port}")));
    let known_hosts = format!(
        "[127.0.0.1]:{port} {}",
        interop::fixture::text("host_ed25519.pub")
    );
    let known_hosts = scratch.write("known_hosts", known_hosts);
    let log = scratch.join("log");
    let file = fs::File::create(&log).expect("a log");
    // LISTEN_PID is the process that is executed, as systemd sets it.
    let script = format!(
        "export LISTEN_PID=$$ LISTEN_FDS=1; exec {} sshd -D -e -f {}",
        binary().display(),
        config.display()
    );
    let mut command = sys::process::ChildCommand::new("/bin/sh");
    command
        .args(["sh", "-c", &script])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .fd(sys::io::null().expect("/dev/null"), 0)
        .fd(sys::io::null().expect("/dev/null"), 1)
        .fd(file.into(), 2)
        .fd(sys::io::dup(&activated).expect("a copy"), 3)
        .new_session();
    let child = command.spawn().expect("fulmar sshd");
    drop(command);
    let server = Activated(child);
    let log_of = || fs::read_to_string(&log).unwrap_or_default();
    let login = || {
        let mut command = Command::new("ssh");
        command.args([
            "-F",
            "none",
            "-p",
            &port.to_string(),
            "-l",
            &guest.name,
            "-i",
        ]);
        command.arg(key.write(&scratch, "key"));
        for option in ["IdentitiesOnly=yes", "IdentityAgent=none", "BatchMode=yes"] {
            command.args(["-o", option]);
        }
        command
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", known_hosts.display()));
        command.args([
            "127.0.0.1",
            "echo in; echo ${LISTEN_PID:-none} ${LISTEN_FDS:-none}",
        ]);
        let outcome = privsep_tests::sshd::finish(&mut command);
        assert_eq!(
            outcome.stdout.text(),
            "in\nnone none\n",
            "{}\n{}",
            outcome.summary(),
            log_of()
        );
    };
    login();
    // Port names another one now; the manager's sockets are still served.
    let other = interop::scratch::free_port();
    fs::write(&config, text(&format!("Port {other}"))).expect("the configuration");
    signal(u32::try_from(server.0.pid()).expect("a pid"), Signal::HUP);
    assert!(until(LIMIT, || log_of().contains("Received SIGHUP")));
    login();
    assert!(!is_listening(other), "{}", log_of());
    // The socket belongs to the manager: it waits for the next server.
    drop(server);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
}

struct Activated(sys::process::Child);

impl Drop for Activated {
    fn drop(&mut self) {
        let _ = self.0.signal(Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn a_reload_is_for_connections_that_come_after_it() {
    if !possible("connections over a reload") {
        return;
    }
    let key = UserKey::new(14);
    let guest = guest_with("", &key);
    let server = Sshd::start(Config::default());
    let mut cat = Cat::start(server.ssh(&guest.name, &[&key]));
    server.rewrite(Config::new(&format!("DenyUsers {}", guest.name)));
    server.hang_up();
    server.logs("Received SIGHUP");
    server.keeps_out(&guest.name, &key);
    cat.still_works();
    // A file with a valid line and an invalid one changes nothing.
    server.rewrite(Config::new("MaxAuthTries 1\nNoSuchKeyword yes"));
    server.hang_up();
    server.logs("the old configuration stays in use");
    server.keeps_out(&guest.name, &key);
    // Nor does a file whose host keys do not exist.
    server.rewrite_raw("HostKey /nonexistent/key\nListenAddress 127.0.0.1\n");
    server.hang_up();
    server.logs("no hostkeys available");
    server.rewrite(Config::default());
    server.hang_up();
    let again = until(LIMIT, || {
        server.run_command(&guest.name, &key, "echo in").status == 0
    });
    assert!(again, "{}", server.daemon.log());
    cat.still_works();
}

#[test]
fn penalties_of_the_defaults_hit_their_source_and_an_honest_login_gets_in() {
    if !possible("penalties") {
        return;
    }
    let key = UserKey::new(15);
    let guest = guest_with("", &key);
    // The first line wins: the default, not the tests' usual "no".
    let server = Sshd::start(Config::new("PerSourcePenalties yes\nLogLevel INFO"));
    let stranger = UserKey::new(98);
    let (here, there) = ("127.0.0.1", "127.0.0.2");
    let attempt =
        |from: &str, key: &UserKey| server.run_with(&guest.name, &[key], &["-b", from], "echo in");
    // One mistake has no effect.
    assert_eq!(attempt(there, &stranger).status, 255);
    assert_eq!(attempt(there, &key).stdout.text(), "in\n");
    let mut failures = 0;
    let punished = until(Duration::from_secs(60), || {
        let outcome = attempt(here, &stranger);
        assert_eq!(outcome.status, 255);
        let refused = !outcome.stderr.text().contains("Permission denied");
        failures += usize::from(!refused);
        refused
    });
    assert!(punished, "{failures} failures: {}", server.daemon.log());
    // 5 s for each, refused above 15 s, less the time that passes meanwhile.
    assert!((3..30).contains(&failures), "{failures}");
    server.logs("activating penalty");
    // Refused without a process, with a message.
    let mut stream = TcpStream::connect(("127.0.0.1", server.daemon.port)).expect("a connection");
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    assert_eq!(said, "Not allowed at this time\r\n");
    let own = stream.local_addr().expect("its address").port();
    let port = server.daemon.port;
    server.logs(&format!(
        "drop connection #0 from [127.0.0.1]:{own} on [127.0.0.1]:{port} penalty: failed authentication"
    ));
    let refused = attempt(here, &key);
    assert_eq!(refused.status, 255, "the right key does not help");
    assert_eq!(
        attempt(there, &key).stdout.text(),
        "in\n",
        "{}",
        server.daemon.log()
    );
    server.leaves_nothing_behind();
}

#[test]
fn a_fault_of_our_own_is_not_the_clients() {
    if !possible("a sandbox that cannot close") {
        return;
    }
    let key = UserKey::new(16);
    let guest = guest_with("", &key);
    // A separate /run, so that the empty directory is invalid for this server only.
    let script = "mount -t tmpfs none /run && exec \"$0\" \"$@\"";
    let separate = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]);
        command
    };
    if finish(&mut separate("mount -t tmpfs none /run")).status != 0 {
        skipped("a sandbox that cannot close", &"no mount namespaces");
        return;
    }
    let config = Config::new("PerSourcePenalties noauth:60s min:1s\nLogLevel VERBOSE");
    let server = Sshd::start_with(config, |_, _| {
        let mut command = separate(script);
        command.arg(binary());
        command
    });
    server.lets_in(&guest.name, &key);
    let run = format!("/proc/{}/root/run/fulmar-empty", server.daemon.pid());
    let stranger = Path::new(&run).join("stranger");
    fs::write(&stranger, "").expect("a file in the empty directory");
    let outcome = server.run_command(&guest.name, &key, "echo in");
    assert_eq!(outcome.status, 255, "{}", outcome.summary());
    server.logs("the sandbox cannot be set up");
    server.leaves_nothing_behind();
    fs::remove_file(&stranger).expect("it is away again");
    server.lets_in(&guest.name, &key);
    assert!(!server.daemon.log().contains("penalty"));
    // The same silence is penalised if the client causes it.
    drop(TcpStream::connect(("127.0.0.1", server.daemon.port)));
    server.logs("activating penalty");
    assert_eq!(server.run_command(&guest.name, &key, "echo in").status, 255);
}

#[test]
fn a_client_that_crashes_its_process_is_penalised() {
    if !possible("penalties for crashes") {
        return;
    }
    let server = Sshd::start(Config::new("PerSourcePenalties yes"));
    let _stream = server.begun_connection();
    let auth = server
        .processes()
        .into_iter()
        .find(|facts: &Facts| facts.command_line == "fulmar sshd-auth")
        .expect("the auth process");
    // Like the sandbox: the kernel kills it for a forbidden call.
    signal(auth.pid, Signal::SYS);
    server.logs("caused crash");
    let mut stream = TcpStream::connect(("127.0.0.1", server.daemon.port)).expect("a connection");
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    assert_eq!(said, "Not allowed at this time\r\n");
}

#[test]
fn a_shortage_of_descriptors_ends_nothing() {
    if !possible("a shortage of descriptors") || installed("prlimit").is_none() {
        return;
    }
    let key = UserKey::new(16);
    let guest = guest_with("", &key);
    let server = Sshd::start(Config::default());
    server.lets_in(&guest.name, &key);
    server.leaves_nothing_behind();
    let pid = server.daemon.pid().to_string();
    let limit = |most: u32| {
        let outcome = privsep_tests::sshd::finish(Command::new("prlimit").args([
            "--pid",
            &pid,
            &format!("--nofile={most}:"),
        ]));
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
    };
    // Below the number of open descriptors: no further one can be opened.
    limit(3);
    server.hang_up();
    server.logs("the old configuration stays in use");
    let waiting = TcpStream::connect(("127.0.0.1", server.daemon.port)).expect("a connection");
    server.logs("accept: ");
    limit(1024);
    // Waiting clients are served.
    let mut waiting = waiting;
    waiting.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut begin = [0; 8];
    waiting.read_exact(&mut begin).expect("a version line");
    assert_eq!(&begin, b"SSH-2.0-");
    server.hang_up();
    server.lets_in(&guest.name, &key);
}

#[test]
fn one_connection_on_standard_input_is_served_by_the_same_chain() {
    if !possible("sshd -i") {
        return;
    }
    let key = UserKey::new(17);
    let guest = guest_with("", &key);
    let server = Sshd::start(Config::default());
    let config = server.daemon.scratch().join("sshd_config");
    let log = server.daemon.scratch().join("inetd.log");
    let carry = format!(
        "ProxyCommand={} sshd -i -E {} -f {}",
        binary().display(),
        log.display(),
        config.display()
    );
    let mut command = server.ssh(&guest.name, &[&key]);
    command.args([
        "-o",
        &carry,
        "127.0.0.1",
        "id -un; tail -c 5 /proc/$PPID/cmdline",
    ]);
    let outcome = privsep_tests::sshd::finish(&mut command);
    assert!(
        outcome
            .stdout
            .text()
            .starts_with(&format!("{}\n", guest.name)),
        "{}\n{}",
        outcome.summary(),
        fs::read_to_string(&log).unwrap_or_default()
    );
    assert!(
        !server.daemon.log().contains("Accepted"),
        "the listener had no part in it"
    );
}
