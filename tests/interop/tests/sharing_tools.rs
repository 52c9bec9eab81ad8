//! Connection sharing as VS Code and Lima use it: the commands that these programs run, with our client as
//! master, passenger and both.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::process::{Command, Stdio};

use interop::forwarded::{
    Does, LIMIT, connect, exchange, socks5, target, through, through_unix, unix_target,
};
use interop::process::{Background, Input, wait};
use interop::scratch::{free_port, until};
use interop::shared::{Shared, assert_has, assert_is, each};
use interop::site::{HOST, finish};

/// The number of logins so far.
fn logins(shared: &Shared) -> usize {
    let log = shared.site.running.daemon.log();
    log.matches("Accepted publickey").count()
}

/// A window of VS Code with its extension "Remote - SSH": a shell without a terminal, which gets a script
/// and goes on, and a SOCKS port for connections to the server that the script starts.
struct Window {
    client: Background,
    output: BufReader<std::process::ChildStdout>,
    port: u16,
}

impl Window {
    fn open(mut command: Command) -> Self {
        let port = free_port();
        command
            .args(["-o", "ControlMaster=auto", "-o", "ControlPersist=60"])
            .args(["-T", "-D", &port.to_string(), "-o", "ConnectTimeout=15"])
            .args([HOST, "bash"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut client = Background::start(&mut command).expect("ssh");
        let output = client.0.stdout.take().expect("its output");
        let mut window = Self {
            client,
            output: BufReader::new(output),
            port,
        };
        window.says("echo listening\n", "listening\n");
        window
    }

    /// The shell answers the line with this one.
    fn says(&mut self, line: &str, answer: &str) {
        let input = self.client.0.stdin.as_mut().expect("its input");
        input.write_all(line.as_bytes()).expect("a shell");
        let mut read = String::new();
        self.output.read_line(&mut read).expect("an answer");
        assert_eq!(read, answer);
    }

    /// A connection to a server there that counts bytes.
    fn reaches(&self, server: u16) {
        let mut stream = connect(self.port);
        stream.write_all(&socks5(1, server)).expect("a request");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer[..4], [5, 0, 5, 0]);
        let counted = exchange(stream, b"12345", |stream| {
            stream.shutdown(Shutdown::Write).expect("half-close");
        });
        assert_eq!(counted, b"5\n");
    }
}

#[test]
fn windows_of_vs_code_share_a_login_and_outlast_each_other() {
    each(|shared| {
        let server = target(Does::Count);
        let first = Window::open(shared.master(""));
        first.reaches(server);
        let mut second = Window::open(shared.command());
        second.reaches(server);
        first.reaches(server);
        assert_eq!(logins(shared), 1);
        // A window that is closed kills its client.
        let Window { mut client, .. } = first;
        client.signal("TERM");
        assert!(wait(&mut client.0, LIMIT).is_ok());
        second.says("echo still here\n", "still here\n");
        second.reaches(server);
        let third = Window::open(shared.command());
        third.reaches(server);
        assert_eq!(logins(shared), 1);
        for mut window in [second, third] {
            drop(window.client.0.stdin.take());
            let ended = wait(&mut window.client.0, LIMIT).expect("its end");
            assert_eq!(ended.code(), Some(0));
        }
        assert_eq!(shared.ask("exit", &[]).status, 0);
        assert!(until(LIMIT, || !shared.path().exists()));
    });
}

/// `command` with the options that Lima gives for the server, before any others.
fn lima(mut command: Command, shared: &Shared) -> Command {
    let running = &shared.site.running;
    for option in [
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "NoHostAuthenticationForLocalhost=yes",
        "PreferredAuthentications=publickey",
        "Compression=no",
        "BatchMode=yes",
        "IdentitiesOnly=yes",
        "GSSAPIAuthentication=no",
        "Ciphers=^aes128-gcm@openssh.com,aes256-gcm@openssh.com",
        &format!("User={}", running.user),
        "ControlMaster=auto",
        &format!("ControlPath=\"{}\"", shared.path().display()),
        "ControlPersist=yes",
    ] {
        command.args(["-o", option]);
    }
    command
}

#[test]
fn lima_runs_scripts_and_forwards_with_its_master() {
    each(|shared| {
        let port = shared.site.running.daemon.port.to_string();
        let place = ["-p", &port, "127.0.0.1"];
        // The first step of a start: a script on standard input, by the client that becomes the master.
        let mut begin = lima(shared.master(""), shared);
        let script = b"#!/bin/bash\nset -eu\necho ready\n";
        let ready = finish(
            begin.args(place).args(["--", "/bin/bash"]),
            Input::Bytes(script),
        );
        assert_is(&ready, 0, "ready\n");
        assert!(shared.path().exists());
        let count = target(Does::Count);
        let socket = unix_target(&shared.folder, Does::Count);
        let forwarded = free_port();
        let [local, remote] = ["local.sock", "remote.sock"].map(|name| shared.folder.join(name));
        let forwards = [
            ["-L", &format!("127.0.0.1:{forwarded}:127.0.0.1:{count}")],
            ["-L", &format!("{}:{}", local.display(), socket.display())],
            ["-R", &format!("{}:{}", remote.display(), socket.display())],
        ];
        let ask = |verb: &str, forward: &[&str; 2]| {
            let mut command = lima(shared.command(), shared);
            command.args(["-T", "-O", verb]).args(forward);
            finish(
                command.args(["-N", "-f"]).args(place).arg("--"),
                Input::Nothing,
            )
        };
        for forward in &forwards {
            let added = ask("forward", forward);
            assert_eq!(added.status, 0, "{}", added.summary());
        }
        assert_eq!(through(forwarded, b"four"), b"4\n");
        assert_eq!(through_unix(&local, b"12345"), b"5\n");
        assert_eq!(through_unix(&remote, b"seven77"), b"7\n");
        let mut shell = lima(shared.command(), shared);
        shell.args(place).args(["--", "cd /; pwd; exit 3"]);
        assert_is(&finish(&mut shell, Input::Nothing), 3, "/\n");
        for forward in &forwards {
            let cancelled = ask("cancel", forward);
            assert_eq!(cancelled.status, 0, "{}", cancelled.summary());
        }
        let refuses = || std::net::TcpStream::connect(("127.0.0.1", forwarded)).is_err();
        assert!(until(LIMIT, refuses));
        assert_eq!(logins(shared), 1);
        let mut end = lima(shared.command(), shared);
        let asked = finish(end.args(["-O", "exit"]).args(place), Input::Nothing);
        assert_eq!(asked.status, 0, "{}", asked.summary());
        assert_has(&asked, "Exit request sent.");
        assert!(until(LIMIT, || !shared.path().exists()));
    });
}
