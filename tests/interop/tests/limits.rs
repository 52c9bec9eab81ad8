//! Limits on connections before the login, and that an honest login still succeeds.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;

use interop::fixture;
use interop::peers::openssh;
use interop::peers::ours::Kind;
use interop::process::{COMMAND_LIMIT, Input, installed};
use interop::report::skipped;
use interop::scratch::{Scratch, until};
use interop::site::{HOST, Site, each};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// A server with the default limits, and `extra`.
fn with_defaults(client: Kind, server: Kind, extra: &str) -> Site {
    let scratch = Scratch::new();
    let config: String = openssh::server_config(server, &scratch)
        .lines()
        .filter(|line| !line.starts_with("MaxStartups") && !line.starts_with("PerSource"))
        .map(|line| format!("{line}\n"))
        .collect();
    let config = format!("{extra}{config}");
    let running =
        openssh::start_with(server, scratch, &config).unwrap_or_else(|why| panic!("{why}"));
    Site { client, running }
}

/// A connection from one of loopback's many addresses.
fn knock(port: u16, from: [u8; 4]) -> TcpStream {
    let local = SocketAddr::from((Ipv4Addr::from(from), 0));
    let remote = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &local).expect("an address of loopback");
    connect(&socket, &remote).expect("a connection");
    TcpStream::from(socket)
}

/// True if the server greets this connection; otherwise it closes it.
fn is_greeted(stream: &TcpStream) -> bool {
    stream
        .set_read_timeout(Some(COMMAND_LIMIT))
        .expect("a limit");
    let mut start = [0; 8];
    let mut stream = stream;
    match stream.read_exact(&mut start) {
        Ok(()) => &start == b"SSH-2.0-",
        Err(error) => {
            assert!(
                error.kind() != ErrorKind::WouldBlock,
                "neither greeted nor refused"
            );
            false
        }
    }
}

const HERE: [u8; 4] = [127, 0, 0, 1];
const THERE: [u8; 4] = [127, 0, 0, 2];

#[test]
fn no_more_may_be_on_their_way_in_than_configured() {
    each(|client, server| {
        let site = with_defaults(client, server, "MaxStartups 3:100:3\n");
        let port = site.running.daemon.port;
        let waiting: Vec<TcpStream> = (0..3).map(|_| knock(port, HERE)).collect();
        assert!(waiting.iter().all(is_greeted));
        assert!(!is_greeted(&knock(port, HERE)), "a fourth was let in");
        assert_eq!(site.run("echo in").status, 255);
        drop(waiting);
        let again = || site.run("echo in").stdout.text() == "in\n";
        assert!(until(COMMAND_LIMIT, again), "{}", site.running.daemon.log());
    });
}

#[test]
fn one_address_may_not_take_all_the_places() {
    each(|client, server| {
        let site = with_defaults(client, server, "PerSourceMaxStartups 2\nMaxStartups 50\n");
        let port = site.running.daemon.port;
        let waiting: Vec<TcpStream> = (0..2).map(|_| knock(port, THERE)).collect();
        assert!(waiting.iter().all(is_greeted));
        assert!(
            !is_greeted(&knock(port, THERE)),
            "a third of one address was let in"
        );
        assert_eq!(site.run("echo in").stdout.text(), "in\n");
    });
}

#[test]
fn who_fails_again_and_again_is_kept_waiting() {
    each(|client, server| {
        if server != Kind::Fulmar {
            // Debian 12's OpenSSH has no penalties.
            return;
        }
        // Two failures are sufficient if the second comes within the penalty of the first.
        let penalties = "PerSourcePenalties authfail:8s min:12s max:14s\n";
        let site = with_defaults(client, server, penalties);
        let stranger = "IdentityFile none\nPubkeyAuthentication no\n";
        let fail = || {
            site.run_with(
                stranger,
                &["-b", "127.0.0.2", HOST, "echo in"],
                Input::Nothing,
            )
        };
        let refused = || !is_greeted(&knock(site.running.daemon.port, THERE));
        let punished = until(COMMAND_LIMIT, || {
            assert_eq!(fail().stdout.length, 0);
            refused()
        });
        assert!(
            punished,
            "ten failures and more, and no penalty: {}",
            site.running.daemon.log()
        );
        // Other sources get no penalty, and the source is accepted again afterwards.
        assert_eq!(site.run("echo in").stdout.text(), "in\n");
        assert!(
            until(COMMAND_LIMIT, || !refused()),
            "a penalty without an end"
        );
        let honest = site.run_with("", &["-b", "127.0.0.2", HOST, "echo in"], Input::Nothing);
        assert_eq!(honest.stdout.text(), "in\n", "{}", honest.summary());
    });
}

#[test]
fn an_honest_login_gets_in_while_silent_ones_knock() {
    each(|client, server| {
        if server != Kind::Fulmar {
            // OpenSSH drops random connections, honest or not.
            return;
        }
        let site = with_defaults(client, server, "");
        let port = site.running.daemon.port;
        let silent: Vec<TcpStream> = (0..150).map(|_| knock(port, THERE)).collect();
        let refused = silent.iter().filter(|stream| !is_greeted(stream)).count();
        assert!(
            refused >= 40,
            "only {refused} of 150 silent connections were refused"
        );
        for round in 0..20 {
            let outcome = site.run("echo in");
            assert_eq!(
                outcome.stdout.text(),
                "in\n",
                "login {round}: {}",
                outcome.summary()
            );
        }
        drop(silent);
    });
}

#[test]
fn an_audit_finds_no_failure() {
    let python = fixture::target_folder().join("peers-venv/bin/python");
    if !python.exists() || installed("ssh").is_none() {
        return skipped("ssh-audit", &"run .ci/peers to install it");
    }
    let server = Kind::tested();
    let scratch = Scratch::new();
    let key = fixture::file("host_ed25519");
    let config = format!(
        "ListenAddress 127.0.0.1\nPidFile none\nHostKey {}\n",
        key.display()
    );
    let running =
        openssh::start_with(server, scratch, &config).unwrap_or_else(|why| panic!("{why}"));
    let mut command = Command::new(python);
    command.args(["-m", "ssh_audit", "--no-colors", "--skip-rate-test", "-p"]);
    command
        .arg(running.daemon.port.to_string())
        .arg("127.0.0.1");
    let report = interop::site::finish(&mut command, Input::Nothing)
        .stdout
        .text();
    assert!(
        report.contains("(kex)") && report.contains("(enc)"),
        "no report: {report}"
    );
    let failures: Vec<&str> = report
        .lines()
        .filter(|line| line.contains("[fail]"))
        .collect();
    if server == Kind::OpenSsh {
        // Debian 12's defaults have some: the search finds them.
        assert!(!failures.is_empty(), "{report}");
    } else {
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}
