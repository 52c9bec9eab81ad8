//! Ports of `-R` whose client is lost: a new connection of the same user and key gets them back.
//! OpenSSH's server leaves such a port with the old connection until that ends.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv6Addr, TcpListener};
use std::process::{Command, Stdio};

use interop::account::is_root;
use interop::fixture;
use interop::forwarded::{Does, LIMIT, target, through};
use interop::peers::ours::{Kind, couples};
use interop::process::{Background, Input, Outcome, installed, wait};
use interop::report::skipped;
use interop::scratch::{free_port, until};
use interop::site::{HOST, Site, finish};

const LINES: &str = "LogLevel VERBOSE\nExitOnForwardFailure yes\n";

/// A site for each client with our server.
fn each_client(test: impl Fn(Site)) {
    for (client, server) in couples() {
        if server == Kind::Fulmar {
            test(Site::new(client, server, "LogLevel VERBOSE\n"));
        }
    }
}

/// A client that forwards this port to an echo, and does nothing else.
fn forwards(site: &Site, extra: &str, port: u16) -> Background {
    let spec = format!("{port}:127.0.0.1:{}", target(Does::Echo));
    let mut command = site.ssh(&format!("{extra}{LINES}"));
    command
        .args(["-N", "-R", &spec, HOST])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let client = Background::start(&mut command).expect("a client");
    assert_eq!(through(port, b"first"), b"first");
    client
}

/// What becomes of a client that asks for a port: it runs a command if it gets it.
fn asks(site: &Site, extra: &str, port: u16) -> Outcome {
    let spec = format!("{port}:127.0.0.1:{}", target(Does::Echo));
    let command = format!("exit 7 # {port}");
    let mut client = site.ssh(&format!(
        "{extra}LogLevel DEBUG1\nExitOnForwardFailure yes\n"
    ));
    finish(client.args(["-R", &spec, HOST, &command]), Input::Nothing)
}

fn is_refused(outcome: &Outcome, port: u16) -> bool {
    let said = format!("remote port forwarding failed for listen port {port}");
    outcome.status == 255 && outcome.stderr.text().contains(&said)
}

fn signal(client: &Background, name: &str) {
    let mut command = Command::new("kill");
    let outcome = finish(
        command.args([name, &client.0.id().to_string()]),
        Input::Nothing,
    );
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
}

/// The client was refused the port.
fn assert_refused(site: &Site, outcome: &Outcome, port: u16) {
    let log = site.running.daemon.log();
    assert!(is_refused(outcome, port), "{} {log}", outcome.summary());
}

/// The client has got the port, and has run its command.
fn assert_got(site: &Site, outcome: &Outcome) {
    let log = site.running.daemon.log();
    assert_eq!(outcome.status, 7, "{} {log}", outcome.summary());
}

#[test]
fn a_frozen_client_loses_its_port_to_the_same_key() {
    each_client(|site| {
        let port = free_port();
        let mut old = forwards(&site, "", port);
        signal(&old, "-STOP");
        let outcome = asks(&site, "", port);
        assert_got(&site, &outcome);
        let text = format!("port {port} taken back from an earlier connection of the same key");
        let said = outcome.stderr.text();
        assert!(said.contains(&format!("debug1: Remote: {text}")), "{said}");
        // Each process has its own way to the log.
        let log = || site.running.daemon.log();
        for line in [text.as_str(), "has not answered for 3 s"] {
            assert!(until(LIMIT, || log().contains(line)), "{line}: {}", log());
        }
        // Its connection has ended, which it finds when it lives again.
        signal(&old, "-CONT");
        let status = wait(&mut old.0, LIMIT).expect("the old client ends");
        assert_eq!(status.code(), Some(255));
    });
}

#[test]
fn a_living_client_keeps_its_port() {
    each_client(|site| {
        let port = free_port();
        let _old = forwards(&site, "", port);
        let outcome = asks(&site, "", port);
        assert_refused(&site, &outcome, port);
        assert_eq!(through(port, b"still"), b"still");
    });
}

#[test]
fn another_key_does_not_get_it_and_another_program_keeps_its_own() {
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "LogLevel DEBUG1\n");
    let port = free_port();
    let old = forwards(&site, "", port);
    signal(&old, "-STOP");
    let key = fixture::file("user_ecdsa256");
    let other = format!("IdentityFile {}\n", key.display());
    let outcome = asks(&site, &other, port);
    assert_refused(&site, &outcome, port);
    // A port that something else holds is nobody's to give.
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).expect("a port of both families");
    let taken = listener.local_addr().expect("an address").port();
    let outcome = asks(&site, "", taken);
    assert!(is_refused(&outcome, taken), "{}", outcome.summary());
    // The same key of course.
    assert_eq!(asks(&site, "", port).status, 7);
}

#[test]
fn what_a_key_may_not_have_it_does_not_take_back() {
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "LogLevel DEBUG1\n");
    let port = free_port();
    let old = forwards(&site, "", port);
    signal(&old, "-STOP");
    let file = site.running.daemon.scratch().join("authorized_keys");
    let keys = std::fs::read_to_string(&file).expect("the server's keys");
    let lines = |options: &str| -> String {
        let lines = keys.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| format!("{options} {line}\n")).collect()
    };
    for options in [
        "restrict".to_owned(),
        "no-port-forwarding".to_owned(),
        format!("permitlisten=\"localhost:{}\"", port ^ 1),
    ] {
        std::fs::write(&file, lines(&options)).expect("the server's keys");
        let outcome = asks(&site, "", port);
        assert!(
            is_refused(&outcome, port),
            "{options}: {}",
            outcome.summary()
        );
    }
    std::fs::write(&file, lines(&format!("permitlisten=\"{port}\""))).expect("the server's keys");
    let outcome = asks(&site, "", port);
    assert_got(&site, &outcome);
}

#[test]
fn a_frozen_client_with_a_session_loses_its_ports_and_not_its_session() {
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "LogLevel VERBOSE\n");
    let ports = [free_port(), free_port()];
    let echo = target(Does::Echo);
    let mut command = site.ssh(LINES);
    for port in ports {
        command.args(["-R", &format!("{port}:127.0.0.1:{echo}")]);
    }
    command
        .args([HOST, "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut old = Background::start(&mut command).expect("a client");
    assert_eq!(through(ports[1], b"first"), b"first");
    signal(&old, "-STOP");
    for port in ports {
        let outcome = asks(&site, "", port);
        assert_got(&site, &outcome);
    }
    signal(&old, "-CONT");
    let (mut input, output) = (old.0.stdin.take(), old.0.stdout.take());
    let mut line = String::new();
    let input = input.as_mut().expect("its input");
    input.write_all(b"still here\n").expect("a session");
    let mut output = BufReader::new(output.expect("its output"));
    output.read_line(&mut line).expect("the echo");
    assert_eq!(line, "still here\n");
    // Afterwards it lives, and has no port: others are as free as any.
    assert_eq!(asks(&site, "", ports[0]).status, 7);
}

/// The network drops everything to and from the old client's address.
#[test]
fn a_client_whose_network_is_gone_loses_its_port() {
    if !is_root() || installed("ip").is_none() {
        return skipped("a network that drops", &"needs root and ip");
    }
    let thread = std::thread::spawn(|| {
        let ip = |arguments: &[&str]| {
            let done = Command::new("ip").args(arguments).status();
            assert!(done.is_ok_and(|done| done.success()), "ip {arguments:?}");
        };
        if let Err(why) = sys::namespace::unshare_network() {
            return skipped("a network that drops", &why);
        }
        ip(&["link", "set", "lo", "up"]);
        ip(&["address", "add", "192.0.2.2/32", "dev", "lo"]);
        let site = Site::new(Kind::Fulmar, Kind::Fulmar, "LogLevel VERBOSE\n");
        let port = free_port();
        let _old = forwards(&site, "BindAddress 192.0.2.2\n", port);
        ip(&["address", "del", "192.0.2.2/32", "dev", "lo"]);
        let outcome = asks(&site, "", port);
        assert_got(&site, &outcome);
        let closed = || {
            let log = site.running.daemon.log();
            log.contains("client not responding; a new connection of the same key")
        };
        assert!(until(LIMIT, closed), "{}", site.running.daemon.log());
    });
    thread.join().expect("the test");
}
