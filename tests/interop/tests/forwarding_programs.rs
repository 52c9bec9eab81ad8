//! Programs that use forwarded connections: editors, autossh, rsync, git, clients of databases, of
//! container services and of SOCKS. `INTEROP_OURS=openssh` runs them with OpenSSH alone.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use interop::account::current_user;
use interop::fixture;
use interop::forwarded::{
    Does, GREETING, LIMIT, connect, page, serve_page, socks5, target, through,
};
use interop::peers::openssh;
use interop::peers::ours::Kind;
use interop::peers::tunnel::{Tunnel, with_suites};
use interop::process::{
    Background, COMMAND_LIMIT, Input, command_line, descendants, installed, kill, run, wait,
};
use interop::report::skipped;
use interop::scratch::{Scratch, free_port, until};
use interop::site::{HOST, Site, each, finish};

/// Visual Studio Code's pattern: a shell without terminal reads commands from its standard input, while
/// connections go through its SOCKS port.
#[test]
fn a_shell_reads_commands_while_its_socks_port_serves() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let port = free_port();
        let mut command = site.ssh("");
        command
            .args([
                "-T",
                "-D",
                &port.to_string(),
                "-o",
                "ConnectTimeout=15",
                HOST,
                "bash",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut client = Background::start(&mut command).expect("a client");
        let mut input = client.0.stdin.take().expect("its input");
        let mut output = BufReader::new(client.0.stdout.take().expect("its output"));
        let mut ask = |line: &str| {
            writeln!(input, "{line}").expect("a shell");
            let mut answer = String::new();
            output.read_line(&mut answer).expect("an answer");
            answer
        };
        let greet = target(Does::Greet);
        for round in 0..5 {
            assert_eq!(
                ask(&format!("echo listeningOn==$(({round} + 40))==")),
                format!("listeningOn=={}==\n", round + 40)
            );
            let mut stream = connect(port);
            stream.write_all(&socks5(1, greet)).expect("a request");
            let mut reply = [0; 12 + GREETING.len()];
            stream
                .read_exact(&mut reply)
                .expect("a reply and the greeting");
            assert_eq!(&reply[12..], GREETING);
        }
        // An installation script comes as one long document.
        let script = "x".repeat(300_000);
        assert_eq!(
            ask(&format!("cat <<'END' | wc -c\n{script}\nEND")),
            "300001\n"
        );
        assert_eq!(ask("exec 3<&0; echo done"), "done\n");
        drop(input);
        let status = wait(&mut client.0, COMMAND_LIMIT).expect("the client ends");
        assert!(status.success(), "{status}");
    });
}

/// The greeting of a MySQL server, protocol 10.
fn mysql_greeting() -> Vec<u8> {
    let mut body = b"\x0a8.0.36\0".to_vec();
    body.extend(7_u32.to_le_bytes());
    body.extend(b"saltsalt\0\xff\xff\xff\x02\0\xff\xdf\x15");
    body.extend([0; 10]);
    body.extend(b"twelve bytes\0caching_sha2_password\0");
    let length = u32::try_from(body.len())
        .expect("a short packet")
        .to_le_bytes();
    [&length[..3], &[0], &body].concat()
}

/// The target speaks first, in two pieces, cut at each byte; the first connection is the first channel
/// of the whole session.
#[test]
fn a_database_speaks_first() {
    with_suites(|client, running| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let to = listener.local_addr().expect("an address").port();
        let ports = [free_port(), free_port()];
        let specs = ports.map(|port| format!("{port}:127.0.0.1:{to}"));
        let tunnel = Tunnel::start(client, running, &[("-L", &specs[0]), ("-R", &specs[1])])?;
        let greeting = mysql_greeting();
        for port in ports {
            for cut in 1..greeting.len() {
                let mut user = connect(port);
                let (mut database, _) = listener.accept().expect("a connection");
                database.set_read_timeout(Some(LIMIT)).expect("a limit");
                let (first, rest) = greeting.split_at(cut);
                for part in [first, rest] {
                    database.write_all(part).expect("a connection");
                    let mut got = vec![0; part.len()];
                    let read = user.read_exact(&mut got);
                    read.unwrap_or_else(|why| panic!("{cut}: {why}: {}", tunnel.log()));
                    assert_eq!(got, part);
                }
                user.write_all(b"login").expect("a connection");
                let mut login = [0; 5];
                database.read_exact(&mut login).expect("the login");
                database
                    .write_all(b"\x07\0\0\x02\0\0\0\x02\0\0\0")
                    .expect("OK");
                user.read_exact(&mut [0; 11]).expect("OK");
            }
        }
        Ok(())
    });
}

/// podman's pattern: a Unix socket here leads to the one of a service there.
#[test]
fn a_service_with_a_unix_socket_answers_http() {
    let Some(curl) = installed("curl") else {
        return skipped("HTTP through a Unix socket", &"curl is not installed");
    };
    each(|client, server| {
        let site = Site::new(client, server, "");
        let scratch = Scratch::new();
        let (here, there) = (scratch.join("here.sock"), scratch.join("podman.sock"));
        let listener = UnixListener::bind(&there).expect("a socket");
        thread::spawn(move || listener.incoming().flatten().for_each(serve_page));
        let spec = format!("{}:{}", here.display(), there.display());
        let mut command = site.ssh("ExitOnForwardFailure yes\n");
        command.args(["-N", "-L", &spec, HOST]).stdin(Stdio::null());
        let _client = Background::start(&mut command).expect("a client");
        assert!(until(LIMIT, || here.exists()));
        let mut command = Command::new(&curl);
        command.args(["-sS", "--unix-socket"]).arg(&here).args([
            "http://d/v4.0.0/libpod/_ping",
            "http://d/v4.0.0/libpod/info",
        ]);
        let outcome = run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("curl");
        assert_eq!(
            outcome.stdout.text(),
            "page\npage\n",
            "{}",
            outcome.summary()
        );
    });
}

#[test]
fn chromium_loads_a_page_through_socks() {
    let Some(chromium) = installed("chromium") else {
        return skipped("a browser's SOCKS", &"chromium is not installed");
    };
    each(|client, server| {
        let site = Site::new(client, server, "");
        let port = free_port();
        let mut command = site.ssh("ExitOnForwardFailure yes\n");
        command
            .args(["-N", "-D", &port.to_string(), HOST])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let _client = Background::start(&mut command).expect("a client");
        drop(connect(port));
        let profile = Scratch::new();
        let mut command = Command::new(&chromium);
        command
            .env("HOME", profile.path())
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .arg("--disable-background-networking")
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("--proxy-server=socks5://127.0.0.1:{port}"))
            // Without it, loopback names go past the proxy.
            .arg("--proxy-bypass-list=<-loopback>")
            .arg(format!("http://localhost:{}/", page()));
        let outcome = finish(&mut command, Input::Nothing);
        assert!(
            outcome.stdout.text().contains("page"),
            "{}",
            outcome.summary()
        );
    });
}

#[test]
fn autossh_starts_the_client_again_and_its_own_check_passes() {
    let Some(autossh) = installed("autossh") else {
        return skipped("autossh", &"not installed");
    };
    each(|client, server| {
        let site = Site::new(client, server, "");
        let scratch = Scratch::new();
        let (port, echo) = (free_port(), target(Does::Echo));
        let log = scratch.join("log");
        let mut command = Command::new(&autossh);
        command
            .env("AUTOSSH_PATH", site.wrapper())
            .envs([
                ("AUTOSSH_GATETIME", "0"),
                ("AUTOSSH_POLL", "1"),
                ("AUTOSSH_LOGLEVEL", "7"),
            ])
            .env("AUTOSSH_LOGFILE", &log)
            // Without an echo service of its own, both ends would need the same port of this machine.
            .args(["-M", &format!("{}:{echo}", free_port())])
            .args(["-N", "-L", &format!("{port}:127.0.0.1:{echo}"), HOST])
            .stdin(Stdio::null());
        let running = Background::start(&mut command).expect("autossh");
        assert_eq!(through(port, b"first"), b"first");
        let killed = descendants(running.0.id());
        killed.iter().copied().for_each(kill);
        let is_gone = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
        assert!(until(LIMIT, || killed.iter().all(is_gone)));
        assert_eq!(through(port, b"second"), b"second");
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        assert!(
            until(LIMIT, || said().contains("connection ok")),
            "{}",
            said()
        );
    });
}

/// A shell command that starts the client through a jump host, for programs that start one.
fn through_a_jump(target: &Site, jump: &Site) -> String {
    let lines = format!(
        "Host jump\nHostName 127.0.0.1\nPort {}\nUser {}\nUserKnownHostsFile {}\nHost *\n",
        jump.running.daemon.port,
        jump.running.user,
        jump.running.known_hosts.display()
    );
    let mut command = target.ssh(&lines);
    command.args(["-J", "jump"]);
    command_line(&command)
}

#[test]
fn rsync_and_git_go_through_a_jump() {
    each(|client, server| {
        let (target, jump) = (Site::new(client, server, ""), Site::new(client, server, ""));
        let shell = through_a_jump(&target, &jump);
        let scratch = Scratch::new();
        let bytes = interop::matrix::noise(3 << 20);
        std::fs::create_dir(scratch.join("tree")).expect("a folder");
        scratch.write("tree/file", &bytes);
        let same = |path: &Path| std::fs::read(path).is_ok_and(|read| read == bytes);
        if let Some(rsync) = installed("rsync") {
            let there = format!("{HOST}:{}/", scratch.join("copy").display());
            let here = format!("{}/", scratch.join("back").display());
            let tree = format!("{}/", scratch.join("tree").display());
            for (from, to) in [(&tree, &there), (&there, &here)] {
                let mut command = Command::new(&rsync);
                command.args(["-a", "-e", &shell, from, to]);
                let outcome = finish(&mut command, Input::Nothing);
                assert_eq!(outcome.status, 0, "{}", outcome.summary());
            }
            assert!(same(&scratch.join("back/file")));
        } else {
            skipped("rsync through a jump", &"not installed");
        }
        let Some(git) = installed("git") else {
            return skipped("git through a jump", &"not installed");
        };
        let git = |folder: &str, arguments: &[&str]| {
            let mut command = Command::new(&git);
            command
                .current_dir(scratch.join(folder))
                .envs([
                    ("GIT_SSH_COMMAND", shell.as_str()),
                    ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ])
                .args(["-c", "user.name=mia", "-c", "user.email=mia@example.org"])
                .args(arguments);
            let outcome = finish(&mut command, Input::Nothing);
            assert_eq!(outcome.status, 0, "{arguments:?}: {}", outcome.summary());
        };
        git("tree", &["init", "-q"]);
        git("tree", &["add", "file"]);
        git("tree", &["commit", "-q", "-m", "one"]);
        let there = format!("{HOST}:{}", scratch.join("tree").display());
        git(".", &["clone", "-q", &there, "clone"]);
        assert!(same(&scratch.join("clone/file")));
    });
}

/// sshuttle's server: a network that only exists there, where an echo listens on port 7.
const FAR_NETWORK: &str = "import socket,threading
s = socket.socket(); s.bind(('198.51.100.1', 7)); s.listen()
def echo(c):
    while d := c.recv(65536):
        c.sendall(d)
    c.close()
while True:
    threading.Thread(target=echo, args=(s.accept()[0],), daemon=True).start()
";

/// sshuttle carries the connections of a whole network through the streams of one command.
#[test]
fn sshuttle_reaches_a_network_behind_the_server() {
    let missing = ["sshuttle", "iptables", "ip", "unshare", "python3"];
    if let Some(missing) = missing.into_iter().find(|name| installed(name).is_none()) {
        return skipped("sshuttle", &format!("no {missing}"));
    }
    let thread = thread::spawn(|| {
        if let Err(why) = sys::namespace::unshare_network() {
            return skipped("sshuttle", &why);
        }
        // A route, so that connections are made at all.
        let setup = "ip link set lo up && ip tuntap add mode tun name out && ip link set out up && \
                     ip address add 203.0.113.1/24 dev out && ip route add default dev out";
        let outcome = finish(Command::new("sh").args(["-c", setup]), Input::Nothing);
        if outcome.status != 0 {
            return skipped("sshuttle", &outcome.summary());
        }
        each(through_sshuttle);
    });
    thread.join().expect("the test");
}

fn through_sshuttle(client: Kind, server: Kind) {
    let scratch = Scratch::new();
    let config = scratch.write("sshd_config", openssh::server_config(server, &scratch));
    let sshd = server.sshd().unwrap_or_else(|why| panic!("{why}"));
    let words = command_line(&sshd);
    let echo = scratch.write("echo.py", FAR_NETWORK);
    let far = format!(
        "#!/bin/sh\nip link set lo up\nip address add 198.51.100.1/24 dev lo\n\
         python3 {} >/dev/null 2>&1 </dev/null &\ntrap 'kill $!' EXIT\n{} -i -f {}\n",
        echo.display(),
        words,
        config.display()
    );
    let far = scratch.write("far.sh", far);
    let known_hosts = scratch.write("known_hosts", fixture::known_hosts(HOST));
    let lines = format!(
        "ProxyCommand unshare -n sh {}\nUser {}\n{}",
        far.display(),
        current_user(),
        openssh::client_config(&known_hosts, "user_ed25519")
    );
    let ssh = client.ssh().unwrap_or_else(|why| panic!("{why}"));
    let words = command_line(&ssh);
    let shell = format!(
        "{} -F {}",
        words,
        scratch.write("ssh_config", lines).display()
    );
    let mut command = Command::new("sshuttle");
    command
        .args([
            "--method",
            "nat",
            "--no-latency-control",
            "-r",
            HOST,
            "-e",
            &shell,
        ])
        .arg("198.51.100.0/24")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let shuttle = Background::start(&mut command).expect("sshuttle");
    let far = SocketAddr::from(([198, 51, 100, 1], 7));
    let reach = || TcpStream::connect_timeout(&far, Duration::from_secs(1));
    let bytes = vec![b's'; 500_000];
    let came = until(LIMIT, || {
        let Ok(mut stream) = reach() else {
            return false;
        };
        let back = thread::scope(|scope| {
            let mut writer = stream.try_clone().expect("a descriptor");
            scope.spawn(|| {
                let _ = writer.write_all(&bytes);
                let _ = writer.shutdown(Shutdown::Write);
                drop(writer);
            });
            let mut back = Vec::new();
            let _ = stream.read_to_end(&mut back);
            back
        });
        back == bytes
    });
    assert!(came, "nothing came back");
    drop(shuttle);
}
