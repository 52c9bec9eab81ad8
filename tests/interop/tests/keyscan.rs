//! `fulmar keyscan` beside the installed ssh-keyscan, at servers of others and at ours, and with
//! hosts that answer slowly, wrongly or not at all.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use interop::fixture;
use interop::peers::dropbear::Dropbear;
use interop::peers::ours::{Kind, binary};
use interop::peers::{Running, Server, openssh};
use interop::process::{Background, COMMAND_LIMIT, Input, Outcome, installed, run};
use interop::report::skipped;
use interop::suite::Algorithms;

const TYPES: &str = "rsa,ecdsa,ed25519,ecdsa-sk,ed25519-sk";

fn ours() -> Command {
    let mut command = Command::new(binary());
    command.arg("keyscan");
    command
}

fn scan(mut command: Command, port: u16, arguments: &[&str], input: &str) -> Outcome {
    command.arg("-p").arg(port.to_string()).args(arguments);
    run(&mut command, Input::Bytes(input.as_bytes()), COMMAND_LIMIT).expect("a scanner")
}

/// The lines of both streams: OpenSSH's comments are in one or the other, by its version.
fn lines(outcome: &Outcome) -> Vec<String> {
    let all = outcome.stdout.text() + &outcome.stderr.text();
    let mut lines: Vec<String> = all
        .lines()
        .map(|line| line.trim_end_matches('\r').to_owned())
        .collect();
    lines.sort();
    lines
}

/// The servers that are installed.
fn servers() -> Vec<(String, Running)> {
    let mut servers = Vec::new();
    let certificates: String = ["ed25519", "rsa"]
        .map(|name| {
            let certificate = fixture::file(&format!("host_{name}-cert.pub"));
            format!("HostCertificate {}\n", certificate.display())
        })
        .concat();
    for kind in [Kind::OpenSsh, Kind::Fulmar] {
        match openssh::start(kind, &certificates) {
            Ok(running) => servers.push((kind.name().to_owned(), running)),
            Err(why) => skipped(kind.name(), &why),
        }
    }
    match Dropbear.start(&Algorithms::default(), None) {
        Ok(running) => servers.push(("dropbear".to_owned(), running)),
        Err(why) => skipped("dropbear", &why),
    }
    servers
}

#[test]
fn what_is_printed_is_what_ssh_keyscan_prints() {
    let Some(theirs) = installed("ssh-keyscan") else {
        return skipped("keyscan", &"no ssh-keyscan on this machine");
    };
    let list = "# a comment\n\n 127.0.0.1 \n127.0.0.1 a,B # text\nno.such.invalid,127.0.0.1 X\n\
                127.0.0.1,nobody n  m\n";
    let cases: &[(&[&str], &str)] = &[
        (&["-t", TYPES, "127.0.0.1"], ""),
        (&["-t", "ed25519,rsa", "-D", "127.0.0.1 One,two"], ""),
        (&["-t", "ed25519,rsa", "-c", "127.0.0.1"], ""),
        (&["-t", "ed25519", "-c", "-D", "127.0.0.1"], ""),
        (
            &[
                "-t",
                "ed25519",
                "127.1",
                "127.0.0.1/32",
                "127.0.0.1/30",
                "127.0.0.1/x",
            ],
            "",
        ),
        (&["-4", "-t", "ecdsa", "::1", "127.0.0.1 Name"], ""),
        (&["-t", "ED25519", "-f", "-"], list),
        (
            &["-t", "ssh-ed25519", "-f", "-", "127.0.0.1 after,the list"],
            list,
        ),
        (&["-t", "ecdsa-sk", "127.0.0.1"], ""),
    ];
    // dropbear takes five connections at once, and ssh-keyscan makes one for each type.
    let few: &[(&[&str], &str)] = &[
        (&["-t", "rsa", "127.0.0.1"], ""),
        (&["-t", "ecdsa", "127.0.0.1"], ""),
        (&["-t", "ed25519", "127.0.0.1"], ""),
    ];
    for (name, server) in servers() {
        let port = server.daemon.port;
        for (arguments, input) in if name == "dropbear" { few } else { cases } {
            let expected = scan(Command::new(&theirs), port, arguments, input);
            let found = scan(ours(), port, arguments, input);
            let what = format!("{name}: {arguments:?}");
            assert_eq!(lines(&found), lines(&expected), "{what}");
            assert_eq!(found.status, expected.status, "{what}: {}", found.summary());
        }
    }
}

#[test]
fn hashed_names_are_those_of_the_list() {
    for (name, server) in servers() {
        let arguments = ["-q", "-H", "-t", "ed25519", "127.0.0.1 one,Two"];
        let found = scan(ours(), server.daemon.port, &arguments, "");
        assert_eq!(found.stderr.text(), "", "{name}");
        let text = found.stdout.text();
        let known = keys::known_hosts::KnownHosts::new("", text.as_bytes());
        let names =
            ["one", "two"].map(|each| keys::known_hosts::host_name(each, server.daemon.port));
        let mut entries = known.entries();
        for each in &names {
            assert!(
                entries.next().is_some_and(|entry| entry.matches(each)),
                "{name}: {text}"
            );
        }
        assert!(entries.next().is_none(), "{name}: {text}");
    }
}

/// Listens at an address of loopback for a host that is not as it should be.
fn listen(last: u8, port: u16) -> TcpListener {
    TcpListener::bind((Ipv4Addr::new(127, 0, 0, last), port)).expect("an address of loopback")
}

/// Serves each connection with `serve` on a thread of its own, to the end of the test.
fn serve(listener: TcpListener, serve: fn(TcpStream)) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
}

fn drip(mut stream: TcpStream) {
    // One byte at a time, for as long as the scanner takes them.
    while stream.write_all(b"x").is_ok() {
        thread::sleep(std::time::Duration::from_millis(100));
    }
}

fn silent(mut stream: TcpStream) {
    let _ = stream.read_to_end(&mut Vec::new());
}

fn greeted_only(mut stream: TcpStream) {
    let _ = stream.write_all(b"SSH-2.0-OnlyGreets\r\n");
    silent(stream);
}

/// Without a reset, which may overtake what is said.
fn closes(stream: TcpStream) {
    let _ = stream.shutdown(std::net::Shutdown::Write);
    silent(stream);
}

fn leaves(mut stream: TcpStream) {
    let _ = stream.write_all(b"SSH-2.0-Leaves\r\n");
    closes(stream);
}

fn old(mut stream: TcpStream) {
    let _ = stream.write_all(b"SSH-1.5-old\n");
    silent(stream);
}

fn junk(mut stream: TcpStream) {
    let _ = stream.write_all(&[b'x'; 100_000]);
    silent(stream);
}

/// A server and, on the same port of other addresses, hosts that bring no key.
struct Crowd {
    server: Running,
    /// Accepts nothing: its queue is full.
    _full: (TcpListener, Vec<TcpStream>),
}

impl Crowd {
    fn new() -> Self {
        let server = openssh::start(Kind::Fulmar, "").unwrap_or_else(|why| panic!("{why}"));
        let port = server.daemon.port;
        for (last, behaviour) in [
            (2, silent as fn(TcpStream)),
            (3, drip),
            (4, closes),
            (5, greeted_only),
            (6, old),
            (7, junk),
            (10, leaves),
        ] {
            serve(listen(last, port), behaviour);
        }
        let full = listen(8, port);
        let address = full.local_addr().expect("its address");
        rustix::net::listen(&full, 0).expect("a short queue");
        let wait = std::time::Duration::from_millis(50);
        let waiting = (0..4)
            .flat_map(|_| TcpStream::connect_timeout(&address, wait))
            .collect();
        Self {
            server,
            _full: (full, waiting),
        }
    }

    /// The addresses of hosts without a key, one without a host, and the server last.
    fn arguments(&self, timeout: &str) -> Vec<String> {
        let flags = ["-T", timeout, "-t", "ed25519"].map(str::to_owned);
        let bad = (2..10).map(|last| format!("127.0.0.{last}"));
        let hosts = bad.chain(["127.0.0.1".to_owned()]);
        flags.into_iter().chain(hosts).collect()
    }
}

#[test]
fn no_host_delays_another() {
    let crowd = Crowd::new();
    let mut command = ours();
    command
        .arg("-p")
        .arg(crowd.server.daemon.port.to_string())
        .args(crowd.arguments("600"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut scanner = Background::start(&mut command).expect("the scanner");
    let mut first = String::new();
    let out = scanner.0.stdout.take().expect("its output");
    BufReader::new(out).read_line(&mut first).expect("a line");
    assert!(first.contains("ssh-ed25519 "), "{first:?}");
    let status = scanner.0.try_wait().expect("its state");
    assert_eq!(status, None, "it does not wait for the others");
}

#[test]
fn every_host_has_a_time_limit() {
    let crowd = Crowd::new();
    // All but the last, which is the server.
    let arguments = crowd.arguments("1");
    let (_, bad) = arguments.split_last().expect("hosts");
    let bad: Vec<&str> = bad.iter().map(String::as_str).collect();
    let found = scan(ours(), crowd.server.daemon.port, &bad, "");
    assert_eq!(
        (found.status, found.stdout.length),
        (1, 0),
        "{}",
        found.summary()
    );
}

#[test]
fn a_host_without_a_key_says_why() {
    let crowd = Crowd::new();
    let port = crowd.server.daemon.port;
    // Each of these ends by itself.
    let arguments = [
        "-v",
        "-T",
        "600",
        "-t",
        "ed25519",
        "127.0.0.4",
        "127.0.0.6",
        "127.0.0.7",
        "127.0.0.10",
    ];
    let found = scan(ours(), port, &arguments, "");
    assert_eq!(
        (found.status, found.stdout.length),
        (1, 0),
        "{}",
        found.summary()
    );
    let said = found.stderr.text();
    for expected in [
        "127.0.0.4: Connection closed by remote host".to_owned(),
        "debug1: 127.0.0.6: the peer does not speak SSH-2: SSH-1.5-old".to_owned(),
        "debug1: 127.0.0.7: protocol error by the peer: version line too long".to_owned(),
        format!("# 127.0.0.10:{port} SSH-2.0-Leaves"),
        "debug1: 127.0.0.10: connection closed".to_owned(),
    ] {
        assert!(
            said.lines().any(|line| line == expected),
            "{expected}: {said}"
        );
    }
}

#[test]
fn another_address_of_a_host_answers_for_it() {
    let crowd = Crowd::new();
    let port = crowd.server.daemon.port;
    let host = "127.0.0.9,127.0.0.4,127.0.0.1 host";
    let found = scan(ours(), port, &["-T", "600", "-t", "ed25519", host], "");
    assert_eq!(found.status, 0, "{}", found.summary());
    let text = found.stdout.text();
    assert!(
        text.starts_with(&format!("[host]:{port} ssh-ed25519 ")),
        "{text}"
    );
    let said = found.stderr.text();
    assert!(
        said.contains(&format!("# 127.0.0.1:{port} SSH-2.0-")),
        "{said}"
    );
    // A silent one takes its time first.
    let found = scan(ours(), port, &["-T", "3", "127.0.0.2,127.0.0.4"], "");
    let said = found.stderr.text();
    assert_eq!(said, "127.0.0.4: Connection closed by remote host\n");
}

#[test]
fn lists_are_opened_before_anything_is_scanned() {
    let crowd = Crowd::new();
    let arguments = ["-f", "-", "-f", "/no/such/list"];
    let found = scan(ours(), crowd.server.daemon.port, &arguments, "127.0.0.1\n");
    assert_eq!((found.status, found.stdout.length), (255, 0));
    let said = found.stderr.text();
    assert_eq!(
        said,
        "ssh-keyscan: /no/such/list: No such file or directory\n"
    );
}

#[test]
fn few_descriptors_are_enough_for_many_hosts() {
    let server = openssh::start(
        Kind::Fulmar,
        "MaxStartups 1000\nPerSourceMaxStartups none\n",
    )
    .unwrap_or_else(|why| panic!("{why}"));
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 24; exec \"$@\"", "sh"]);
    command.arg(binary()).args(["keyscan", "-q"]);
    let names: Vec<String> = (0..60)
        .map(|number| format!("localhost n{number}\n"))
        .collect();
    let arguments = ["-4", "-t", "ed25519", "-f", "-"];
    let found = scan(command, server.daemon.port, &arguments, &names.concat());
    assert_eq!(found.status, 0, "{}", found.summary());
    assert_eq!(
        found.stdout.text().lines().count(),
        60,
        "{}",
        found.summary()
    );
}
