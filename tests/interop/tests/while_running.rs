//! What changes while a session runs: the escapes `~C`, `~&`, `~#` and `~I`, limits of unused channels
//! and connections, and the report at the end. Both suites are asked the same where both have it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use interop::forwarded::{Does, LIMIT, Session, connect, target};
use interop::peers::ours::{Kind, couples};
use interop::process::Input;
use interop::scratch::{free_port, until};
use interop::site::{HOST, Site, each, each_with_terminals};
use interop::terminal::Terminal;

const COMMAND_LINE: &str = "EnableEscapeCommandline yes\nPermitLocalCommand yes\n";

fn echoes(stream: &mut TcpStream) {
    stream.write_all(b"there and back").expect("a connection");
    let mut back = [0; 14];
    stream.read_exact(&mut back).expect("the echo");
    assert_eq!(&back, b"there and back");
}

/// [`each`] for tests that mostly wait.
fn each_at_once(test: impl Fn(Kind, Kind) + Sync) {
    thread::scope(|scope| {
        for (client, server) in couples() {
            let test = &test;
            scope.spawn(move || test(client, server));
        }
    });
}

fn is_closed(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn shell(site: &Site, extra: &str, arguments: &[&str]) -> Terminal {
    let mut command = site.ssh(&format!("{extra}LogLevel INFO\n"));
    command
        .env("TERM", "vt220")
        .env("SHELL", "/bin/sh")
        .args(arguments)
        .args(["-tt", HOST, "PS1='<ready>' ENV= /bin/sh -i"]);
    let mut terminal = Terminal::new(&command, 80, 24);
    terminal.expect("<ready>");
    terminal
}

/// Types a line of the escape `~C`, and waits for its effect.
fn command_line(terminal: &mut Terminal, line: &str, answer: &str) {
    terminal.type_text("\r");
    terminal.expect("<ready>");
    terminal.type_text("~C");
    terminal.expect("ssh> ");
    terminal.type_text(&format!("{line}\r"));
    terminal.expect(&format!("{line}\r\n"));
    if !answer.is_empty() {
        terminal.expect(answer);
    }
}

/// The port of an echo, a free port, and the argument of `-L` that forwards the second to the first.
fn to_echo() -> (u16, u16, String) {
    let (echo, local) = (target(Does::Echo), free_port());
    (echo, local, format!("{local}:127.0.0.1:{echo}"))
}

/// Ends the shell.
fn leaves(mut terminal: Terminal) {
    terminal.type_text("exit 5\r");
    assert_eq!(terminal.end(), 5);
}

#[test]
fn forwardings_are_added_and_cancelled_and_their_connections_stay() {
    each_with_terminals(|client, server| {
        let site = Site::new(client, server, "");
        let echo = target(Does::Echo);
        let (local, remote, dynamic) = (free_port(), free_port(), free_port());
        let mut terminal = shell(&site, COMMAND_LINE, &[]);
        let done = "Forwarding port.";
        command_line(&mut terminal, &format!("-L {local}:127.0.0.1:{echo}"), done);
        command_line(
            &mut terminal,
            &format!("-R {remote}:127.0.0.1:{echo}"),
            done,
        );
        command_line(&mut terminal, &format!("-D {dynamic}"), done);
        let mut streams = [connect(local), connect(remote)];
        streams.iter_mut().for_each(echoes);
        drop(connect(dynamic));
        let cancelled = "Canceled forwarding.";
        let unknown = "Unknown port forwarding.";
        // Each flag cancels its own kind only.
        command_line(&mut terminal, &format!("-KD {local}"), unknown);
        command_line(&mut terminal, &format!("-KL {dynamic}"), unknown);
        command_line(&mut terminal, &format!("-KL {local}"), cancelled);
        command_line(&mut terminal, &format!("-KL {local}"), unknown);
        command_line(&mut terminal, &format!("-KR {remote}"), cancelled);
        command_line(&mut terminal, &format!("-KR {remote}"), unknown);
        command_line(&mut terminal, &format!("-KD {dynamic}"), cancelled);
        streams.iter_mut().for_each(echoes);
        for port in [local, remote, dynamic] {
            assert!(until(LIMIT, || is_closed(port)), "{port} still listens");
        }
        drop(streams);
        leaves(terminal);
    });
}

#[test]
fn the_command_line_answers_as_openssh_s_does() {
    each_with_terminals(|client, server| {
        let site = Site::new(client, server, "");
        let mut terminal = shell(&site, COMMAND_LINE, &[]);
        for (line, answer) in [
            ("?", "Commands:"),
            (
                "-h",
                "      !args                                  Execute local command",
            ),
            ("x", "Invalid command."),
            ("-K", "Invalid command."),
            ("-L nothing", "Bad local forwarding specification."),
            ("-D 1:2:3:4:5", "Bad local forwarding specification."),
            ("-R nothing", "Bad remote forwarding specification."),
            ("-KR nothing", "Bad forwarding close specification."),
            ("-KL 1", "Unknown port forwarding."),
        ] {
            command_line(&mut terminal, line, answer);
        }
        command_line(&mut terminal, "!echo l''ocal >&2", "local");
        // OpenSSH's client has replaced its standard output by /dev/null: its local commands have none.
        if client == Kind::Fulmar {
            command_line(&mut terminal, "!echo out''put", "output");
        }
        // An empty line leaves it.
        command_line(&mut terminal, "", "");
        terminal.type_text("echo b''ack\r");
        terminal.expect("back\r\n");
        leaves(terminal);
        let mut terminal = shell(&site, "", &[]);
        terminal.type_text("\r");
        terminal.expect("<ready>");
        terminal.type_text("~C");
        terminal.expect("commandline disabled");
        terminal.type_text("exit 6\r");
        assert_eq!(terminal.end(), 6);
    });
}

#[test]
fn a_port_that_is_taken_is_said_and_the_session_goes_on() {
    each_with_terminals(|client, server| {
        let site = Site::new(client, server, "");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let taken = listener.local_addr().expect("an address").port();
        let mut terminal = shell(&site, COMMAND_LINE, &[]);
        let line = format!("-L 127.0.0.1:{taken}:127.0.0.1:1");
        command_line(&mut terminal, &line, "cannot listen to port: ");
        terminal.expect("Port forwarding failed.");
        leaves(terminal);
    });
}

#[test]
fn the_session_goes_on_while_a_line_is_typed() {
    each_with_terminals(|client, server| {
        if client != Kind::Fulmar {
            // OpenSSH's client reads the line and does nothing else.
            return;
        }
        let site = Site::new(client, server, "");
        let (_, local, spec) = to_echo();
        let mut terminal = shell(&site, COMMAND_LINE, &["-L", &spec]);
        let mut stream = connect(local);
        echoes(&mut stream);
        terminal.type_text("(sleep 1; echo m''eanwhile) &\r");
        terminal.expect("<ready>");
        terminal.type_text("~C");
        terminal.expect("ssh> ");
        echoes(&mut stream);
        terminal.expect("meanwhile");
        // An interrupt cancels the line and nothing else.
        terminal.type_text("-KL\u{3}");
        terminal.type_until("echo b''ack\r", "back\r\n");
        echoes(&mut stream);
        drop(stream);
        leaves(terminal);
    });
}

#[test]
fn the_background_keeps_connections_and_ends_with_the_last() {
    each_with_terminals(|client, server| {
        let site = Site::new(client, server, "");
        let (echo, local) = (target(Does::Echo), free_port());
        let ssh = site.wrapper();
        let script = format!(
            "{} -o LogLevel=INFO -L {local}:127.0.0.1:{echo} -tt {HOST} \"PS1='<ready>' ENV= /bin/sh -i\"; echo status $?; cat",
            ssh.display()
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env("TERM", "vt220");
        let mut terminal = Terminal::new(&command, 80, 24);
        terminal.expect("<ready>");
        let mut stream = connect(local);
        echoes(&mut stream);
        terminal.type_text("\r");
        terminal.expect("<ready>");
        terminal.type_text("~&");
        // The program and its other half in the background write in any order.
        terminal.expect_somewhere("~& [backgrounded]");
        terminal.expect_somewhere("status 0\r\n");
        assert!(until(LIMIT, || is_closed(local)), "it still listens");
        echoes(&mut stream);
        drop(stream);
        terminal.expect("Connection to 127.0.0.1 closed.");
        // The terminal is as it was: its end-of-file character ends the script.
        terminal.type_text("\u{4}");
        assert_eq!(terminal.end(), 0);
    });
}

#[test]
fn channels_and_the_connection_are_shown() {
    each_with_terminals(|client, server| {
        let site = Site::new(client, server, "");
        let (echo, local, spec) = to_echo();
        let mut terminal = shell(&site, "", &["-L", &spec]);
        let mut stream = connect(local);
        echoes(&mut stream);
        terminal.type_text("\r");
        terminal.expect("<ready>");
        terminal.type_text("~#");
        terminal.expect("~#\r\nThe following connections are open:\r\n  #");
        terminal.expect(" client-session (");
        if client == Kind::Fulmar {
            terminal.expect("session:command, open, ");
            terminal.expect(&format!(
                " local to 127.0.0.1:{echo} (direct-tcpip, open, 14 bytes sent, 14 received)\r\n"
            ));
            terminal.type_text("~I");
            terminal.expect("~I\r\nConnection information for ");
            for line in [
                "versions Fulmar_",
                "tcp 127.0.0.1:",
                "duration 00:",
                "kexalgorithm ",
            ] {
                terminal.expect(&format!("  {line}"));
            }
            terminal.expect("  traffic ");
        }
        drop(stream);
        leaves(terminal);
    });
}

#[test]
fn the_type_of_service_follows_the_open_channels() {
    each_with_terminals(|client, server| {
        if client != Kind::Fulmar {
            return;
        }
        let site = Site::new(client, server, "");
        let (_, local, spec) = to_echo();
        let lines = "LogLevel DEBUG1\nIPQoS ef cs1\n";
        let mut terminal = shell(&site, lines, &["-L", &spec]);
        terminal.expect_somewhere("type of service set to 0xb8");
        let mut stream = connect(local);
        echoes(&mut stream);
        terminal.expect("type of service set to 0x20");
        drop(stream);
        terminal.expect("type of service set to 0xb8");
        leaves(terminal);
    });
}

#[test]
fn unused_channels_are_closed_with_255_and_busy_ones_are_not() {
    const IDLE: &str = "sleep 20; exit 3";
    const BUSY: &str = "for i in 1 2 3 4 5; do echo $i; sleep 0.5; done; exit 3";
    each_at_once(|client, server| {
        let mut runs = vec![
            ("session:command=1", "", IDLE, 255),
            ("session:*=1", "", IDLE, 255),
            ("session:command=2 *=60", "", BUSY, 3),
            ("session:shell=1", "", "sleep 2; exit 3", 3),
        ];
        // Those that 9.2 does not have.
        let newer = [
            "session=1",
            "global=1",
            "session:command=0.5s",
            "x=9 sess*=1",
        ];
        if server == Kind::Fulmar {
            runs.extend(newer.map(|limit| (limit, "", IDLE, 255)));
        }
        if client == Kind::Fulmar {
            runs.extend(newer.map(|limit| ("", limit, IDLE, 255)));
            runs.push(("", "global=2", BUSY, 3));
        }
        thread::scope(|scope| {
            for (there, here, command, status) in runs {
                scope.spawn(move || {
                    let line = |limit: &str| match limit {
                        "" => String::new(),
                        limit => format!("ChannelTimeout {limit}\n"),
                    };
                    let site = Site::new(client, server, &line(there));
                    let lines = format!("LogLevel VERBOSE\n{}", line(here));
                    let outcome = site.run_with(&lines, &[HOST, command], Input::Nothing);
                    let what = format!("{there:?} {here:?}: {}", outcome.summary());
                    assert_eq!(outcome.status, status, "{what}");
                    let is_told = outcome.stderr.text().contains(" seconds of inactivity");
                    assert_eq!(is_told, !here.is_empty() && status == 255, "{what}");
                });
            }
        });
    });
}

#[test]
fn an_unused_forwarded_connection_ends_alone() {
    each_at_once(|client, server| {
        for by_server in [true, false] {
            if client != Kind::Fulmar && !by_server {
                // OpenSSH 9.2's client does not have ChannelTimeout.
                continue;
            }
            let line = "ChannelTimeout direct-tcpip=1\n";
            let (there, here) = match by_server {
                true => (line, ""),
                false => ("", line),
            };
            let site = Site::new(client, server, there);
            let (echo, local) = (target(Does::Echo), free_port());
            let spec = format!("{local}:127.0.0.1:{echo}");
            let mut session = Session::with(&site, here, &["-L", &spec]);
            let mut stream = connect(local);
            echoes(&mut stream);
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).expect("the end");
            assert!(rest.is_empty());
            // The session and the listener are still there.
            let mut again = connect(local);
            echoes(&mut again);
            drop(again);
            session.echoes("still here\n");
        }
    });
}

#[test]
fn a_connection_without_channels_ends_after_its_limit() {
    each_at_once(|client, server| {
        let site = Site::new(client, server, "UnusedConnectionTimeout 1\n");
        thread::scope(|scope| {
            // A channel of any age keeps it.
            scope.spawn(|| {
                let outcome = site.run("sleep 2; exit 3");
                assert_eq!(outcome.status, 3, "{}", outcome.summary());
            });
            let outcome = site.run_with("", &["-N", HOST], Input::Nothing);
            assert_eq!(outcome.status, 255, "{}", outcome.summary());
        });
    });
}

#[test]
fn the_report_at_the_end_has_a_line_for_each_forwarding() {
    each(|client, server| {
        if client != Kind::Fulmar {
            return;
        }
        let site = Site::new(client, server, "");
        let (echo, local, remote) = (target(Does::Echo), free_port(), free_port());
        let specs = [local, remote].map(|port| format!("{port}:127.0.0.1:{echo}"));
        let file = site.running.daemon.scratch().join("client.log");
        let log = file.to_str().expect("a path");
        let arguments = ["-L", &specs[0], "-R", &specs[1], "-E", log];
        let session = Session::with(&site, "LogLevel DEBUG1\n", &arguments);
        // All three at once, so that the peak does not depend on how soon the others end.
        let mut streams = [local, local, local, remote].map(connect);
        streams.iter_mut().for_each(echoes);
        drop(streams);
        session.ends();
        let log = std::fs::read_to_string(&file).expect("its log");
        for line in [
            format!(
                "forwarding -L {local} to [127.0.0.1]:{echo}: 3 connections, at most 3 at a time, 42 bytes sent, 42 received"
            ),
            format!(
                "forwarding -R {remote} to [127.0.0.1]:{echo}: 1 connections, at most 1 at a time, 14 bytes sent, 14 received"
            ),
        ] {
            assert!(log.contains(&line), "{line}: {log}");
        }
        assert!(log.contains("Transferred: sent ") && log.contains("Bytes per second: sent "));
    });
}
