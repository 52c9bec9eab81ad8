//! Ports of `-R` whose client is lost: a new connection of the same user and key gets them back.
//! OpenSSH's server leaves such a port with the old connection until that ends.

use std::net::{Ipv6Addr, TcpListener};
use std::process::{Command, Stdio};

use interop::account::{Guest, is_root};
use interop::fixture;
use interop::forwarded::{Does, LIMIT, Session, target, through};
use interop::peers::ours::{Kind, couples};
use interop::peers::tunnel::{Forwarder, Tunnel};
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
    let client = starts(site, extra, &[""], port);
    assert_eq!(through(port, b"first"), b"first");
    client
}

/// A client that asks for this port at each of these addresses, which end with a colon, apart.
fn starts(site: &Site, extra: &str, addresses: &[&str], port: u16) -> Background {
    let echo = target(Does::Echo);
    let mut command = site.ssh(&format!("{extra}{LINES}"));
    for address in addresses {
        command.args(["-R", &format!("{address}{port}:127.0.0.1:{echo}")]);
    }
    command
        .args(["-N", HOST])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    Background::start(&mut command).expect("a client")
}

/// What becomes of a client that asks for a port: it runs a command if it gets it.
fn asks(site: &Site, extra: &str, port: u16) -> Outcome {
    asks_at(site, extra, "", port)
}

fn asks_at(site: &Site, extra: &str, address: &str, port: u16) -> Outcome {
    let spec = format!("{address}{port}:127.0.0.1:{}", target(Does::Echo));
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
        old.signal("STOP");
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
        old.signal("CONT");
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
    old.signal("STOP");
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
    old.signal("STOP");
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
    let specs = ports.map(|port| format!("{port}:127.0.0.1:{echo}"));
    let mut old = Session::start(&site, &["-R", &specs[0], "-R", &specs[1]]);
    assert_eq!(through(ports[1], b"first"), b"first");
    old.client.signal("STOP");
    for port in ports {
        let outcome = asks(&site, "", port);
        assert_got(&site, &outcome);
    }
    old.client.signal("CONT");
    old.echoes("still here\n");
    // Afterwards it lives, and has no port: others are as free as any.
    assert_eq!(asks(&site, "", ports[0]).status, 7);
}

/// Each listener has a rendezvous of its own.
#[test]
fn one_port_at_two_addresses_apart_is_taken_back_at_both() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return skipped("two addresses", &"no IPv6");
    }
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "LogLevel VERBOSE\n");
    let addresses = ["127.0.0.1:", "[::1]:"];
    let port = free_port();
    // A connection without a session would end with the first.
    let frozen = || {
        let echo = target(Does::Echo);
        let specs = addresses.map(|address| format!("{address}{port}:127.0.0.1:{echo}"));
        let old = Session::start(&site, &["-R", &specs[0], "-R", &specs[1]]);
        old.client.signal("STOP");
        old
    };
    let old = frozen();
    // The one that was requested last as well.
    for address in ["[::1]:", "127.0.0.1:"] {
        let outcome = asks_at(&site, "", address, port);
        assert_eq!(
            outcome.status,
            7,
            "{address} {} {}",
            outcome.summary(),
            site.running.daemon.log()
        );
    }
    drop(old);
    // And both by one connection.
    let _old = frozen();
    let _new = starts(&site, "", &addresses, port);
    let log = || site.running.daemon.log();
    let count = || log().matches("taken back from").count();
    assert!(until(LIMIT, || count() == 4), "{}", log());
}

/// The names of the same port of two users differ, and the kernel tells who asks.
#[test]
fn another_user_with_the_same_key_does_not_get_it() {
    let guest = match Guest::new() {
        Ok(guest) => guest,
        Err(why) => return skipped("another user's port", &why),
    };
    let key = fixture::text("user_ed25519.pub");
    guest.write(".ssh/authorized_keys", &key, 0o600);
    let site = Site::with_match(
        Kind::Fulmar,
        Kind::Fulmar,
        "LogLevel VERBOSE\n",
        &format!(
            "Match User {}\nAuthorizedKeysFile {}/.ssh/authorized_keys\n",
            guest.name,
            guest.home().display()
        ),
    );
    let theirs = format!("User {}\n", guest.name);
    for (first, second) in [("", theirs.as_str()), (&theirs, "")] {
        let port = free_port();
        let old = forwards(&site, first, port);
        old.signal("STOP");
        let outcome = asks(&site, second, port);
        assert!(
            is_refused(&outcome, port),
            "{} {}",
            outcome.summary(),
            site.running.daemon.log()
        );
        assert_eq!(asks(&site, first, port).status, 7);
    }
}

/// Go's client can ask without wanting a reply, and takes it back while the old client is asked.
#[test]
fn a_request_that_is_cancelled_while_it_waits_gets_nothing() {
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "LogLevel VERBOSE\n");
    let port = free_port();
    let old = forwards(&site, "", port);
    old.signal("STOP");
    let number = port.to_string();
    let cancelled = [("-C", number.as_str())];
    let mut tunnel = match Tunnel::start(Forwarder::Go, &site.running, &cancelled) {
        Ok(tunnel) => tunnel,
        Err(why) => return skipped("a cancelled request", &why),
    };
    let is_answered = || tunnel.log().contains("cancelled true <nil>");
    assert!(until(LIMIT, is_answered), "{}", tunnel.log());
    let log = || site.running.daemon.log();
    let is_given = || log().contains("has not answered for 3 s");
    assert!(until(LIMIT, is_given), "{}", log());
    // It lives, and would keep the port.
    assert_eq!(asks(&site, "", port).status, 7, "{}", log());
    assert!(tunnel.is_running() && !log().contains("taken back"));
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
