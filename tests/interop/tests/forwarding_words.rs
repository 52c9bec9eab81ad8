//! What the client says about its forwardings: in one line which one failed and why, and with `-v` at
//! the end what each has carried. With servers of both suites.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use interop::forwarded::{Does, LIMIT, connect, socks5, target, through};
use interop::peers::ours::Kind;
use interop::process::{Background, COMMAND_LIMIT, Input, wait};
use interop::scratch::{Scratch, free_port, until};
use interop::site::{HOST, Site, each};

/// A client with its messages in a file.
struct Talker {
    client: Background,
    scratch: Scratch,
}

impl Talker {
    fn start(site: &Site, level: &str, arguments: &[&str]) -> Self {
        let scratch = Scratch::new();
        let log = File::create(scratch.join("log")).expect("a file");
        let mut command = site.ssh(&format!("LogLevel {level}\n"));
        command
            .args(arguments)
            .args([HOST, "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log);
        let client = Background::start(&mut command).expect("a client");
        Self { client, scratch }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.scratch.join("log")).expect("messages")
    }

    /// Waits for a line that has all of these.
    fn says(&self, words: &[&str]) {
        let found = || {
            let log = self.log();
            log.lines()
                .any(|line| words.iter().all(|word| line.contains(word)))
        };
        assert!(until(LIMIT, found), "no {words:?} in:\n{}", self.log());
    }

    fn end(&mut self) {
        drop(self.client.0.stdin.take());
        wait(&mut self.client.0, COMMAND_LIMIT).expect("the client ends");
    }
}

fn ends(mut stream: TcpStream) {
    // With an end, or with a reset because its bytes were lost.
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_forwarding_that_fails_says_which_and_why_in_one_line() {
    each(|client, server| {
        if client != Kind::Fulmar {
            return;
        }
        let site = Site::new(client, server, "");
        let (local, dynamic, remote) = (free_port(), free_port(), free_port());
        // Nobody listens there.
        let dead = free_port();
        let talker = Talker::start(
            &site,
            "INFO",
            &[
                "-L",
                &format!("{local}:127.0.0.1:{dead}"),
                "-D",
                &dynamic.to_string(),
                "-R",
                &format!("{remote}:127.0.0.1:{dead}"),
            ],
        );
        let mut stream = connect(local);
        let _ = stream.write_all(b"lost");
        ends(stream);
        let name = format!("(-L {local} to [127.0.0.1]:{dead})");
        talker.says(&["open failed: connect failed: Connection refused", &name]);
        let mut stream = connect(dynamic);
        stream.write_all(&socks5(1, dead)).expect("a connection");
        ends(stream);
        let name = format!("(-D {dynamic} to 127.0.0.1:{dead})");
        talker.says(&["open failed: connect failed: Connection refused", &name]);
        ends(connect(remote));
        let name = format!("(-R {remote} to [127.0.0.1]:{dead})");
        let place = format!("connect_to 127.0.0.1 port {dead}: failed: Connection refused");
        talker.says(&[&place, &name]);
        assert_eq!(talker.log().lines().count(), 3, "{}", talker.log());
    });
}

#[test]
fn a_channel_that_the_server_refuses_is_reported_from_level_info_on() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let dead = format!("127.0.0.1:{}", free_port());
        for (level, is_told) in [("ERROR", false), ("INFO", true)] {
            let level = format!("LogLevel {level}\n");
            let outcome = site.run_with(&level, &["-W", &dead, HOST], Input::Nothing);
            let said = outcome.stderr.text();
            assert_eq!(outcome.status, 255, "{said}");
            assert!(said.contains("stdio forwarding failed"), "{said}");
            assert_eq!(said.contains(": open failed: "), is_told, "{said}");
        }
    });
}

#[test]
fn a_verbose_client_says_at_the_end_what_each_forwarding_has_carried() {
    each(|client, server| {
        if client != Kind::Fulmar {
            return;
        }
        let site = Site::new(client, server, "");
        let (local, remote) = (free_port(), free_port());
        let echo = target(Does::Echo);
        let mut talker = Talker::start(
            &site,
            "DEBUG1",
            &[
                "-L",
                &format!("{local}:127.0.0.1:{echo}"),
                "-R",
                &format!("{remote}:127.0.0.1:{echo}"),
            ],
        );
        let open = [connect(local), connect(local)].map(|mut stream| {
            stream.write_all(b"12345").expect("a connection");
            stream.read_exact(&mut [0; 5]).expect("an echo");
            stream
        });
        assert_eq!(through(local, &[7; 1000]).len(), 1000);
        drop(open);
        let greeting = through(remote, b"123");
        assert_eq!(greeting, b"123");
        talker.end();
        let carried = "3 connections, at most 3 at a time, 1010 bytes sent, 1010 received";
        talker.says(&[&format!(
            "forwarding -L {local} to [127.0.0.1]:{echo}: {carried}"
        )]);
        let carried = "1 connections, at most 1 at a time, 3 bytes sent, 3 received";
        talker.says(&[&format!(
            "forwarding -R {remote} to [127.0.0.1]:{echo}: {carried}"
        )]);
    });
}
