//! Connections through load balancers (ProxyProtocolFrom): whom the server takes for the client, who
//! must send a header and who must not, the process that reads it, and HAProxy as a real peer.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use interop::process::installed;
use interop::report::skipped;
use interop::scratch::{free_port, is_listening, until};
use privsep_tests::facts::Facts;
use privsep_tests::sshd::{
    Config, LIMIT, Sshd, UserKey, authorize, binary, finish, guest_with, possible,
};
use sys::signals::Signal;
use sys::socket::{ConnectFrom, Connecting};

/// The load balancer of these tests.
const BALANCER: [u8; 4] = [127, 0, 0, 5];
const FROM: &str = "ProxyProtocolFrom 127.0.0.5,127.0.0.6";

/// A connection to this port from the load balancer.
fn from_balancer(port: u16) -> TcpStream {
    let from = ConnectFrom {
        address: Some(BALANCER.into()),
        ..ConnectFrom::default()
    };
    let target = SocketAddr::from(([127, 0, 0, 1], port));
    let socket = match sys::socket::connect_start(target, &from).expect("a connection") {
        Connecting::Done(socket) => socket,
        Connecting::InProgress(socket) => {
            assert!(sys::io::wait_writable(&socket, Some(LIMIT)).expect("a wait"));
            sys::socket::connect_finish(&socket).expect("a connection");
            socket
        }
    };
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false).expect("a blocking socket");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream
}

fn v1(client: &str) -> Vec<u8> {
    let address: SocketAddr = client.parse().expect("an address");
    let family = if address.is_ipv4() { "TCP4" } else { "TCP6" };
    let own = if address.is_ipv4() {
        "127.0.0.1"
    } else {
        "::1"
    };
    let (ip, port) = (address.ip(), address.port());
    format!("PROXY {family} {ip} {own} {port} 22\r\n").into_bytes()
}

fn v2(client: &str) -> Vec<u8> {
    let address: SocketAddr = client.parse().expect("an address");
    let mut body = Vec::new();
    let family = match address {
        SocketAddr::V4(v4) => {
            body.extend_from_slice(&v4.ip().octets());
            body.extend_from_slice(&[127, 0, 0, 1]);
            0x11
        }
        SocketAddr::V6(v6) => {
            body.extend_from_slice(&v6.ip().octets());
            body.extend_from_slice(&[0; 16]);
            0x21
        }
    };
    body.extend_from_slice(&address.port().to_be_bytes());
    body.extend_from_slice(&22_u16.to_be_bytes());
    // An extension without meaning here: PP2_TYPE_NOOP.
    body.extend_from_slice(&[4, 0, 3, 0, 0, 0]);
    with_signature(0x21, family, &body)
}

fn with_signature(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len())
        .expect("a short body")
        .to_be_bytes();
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    [&signature[..], &[command, family], &length, body].concat()
}

/// What the server sends until it ends the connection.
fn all_of(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    if let Err(error) = stream.read_to_end(&mut said) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    String::from_utf8_lossy(&said).into_owned()
}

fn is_greeted(stream: &mut TcpStream) -> bool {
    let mut begin = [0; 8];
    stream.read_exact(&mut begin).is_ok() && &begin == b"SSH-2.0-"
}

#[test]
fn headers_in_any_parts_name_the_client() {
    if !possible("PROXY headers") {
        return;
    }
    let server = Sshd::start(Config::new(FROM));
    let headers = [
        (v1("192.0.2.1:4001"), "192.0.2.1 port 4001"),
        (v1("[2001:db8::1]:4002"), "2001:db8::1 port 4002"),
        (v2("192.0.2.3:4003"), "192.0.2.3 port 4003"),
        (v2("[2001:db8::4]:4004"), "2001:db8::4 port 4004"),
        (with_signature(0x20, 0, &[]), "127.0.0.5 port "),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.5 port "),
    ];
    for (header, client) in headers {
        for size in [1, 13, header.len()] {
            let mut stream = from_balancer(server.daemon.port);
            for part in header.chunks(size) {
                stream.write_all(part).expect("a part");
                std::thread::yield_now();
            }
            stream.write_all(b"SSH-2.0-tests\r\n").expect("a line");
            assert!(is_greeted(&mut stream), "{client}: {}", server.daemon.log());
            server.logs(&format!("Connection from {client}"));
        }
    }
}

#[test]
fn a_balancer_must_send_a_header_and_nobody_else_may() {
    if !possible("connections without PROXY headers") {
        return;
    }
    let server = Sshd::start(Config::new(FROM));
    let reason = |why: &str| {
        server.logs(&format!(": PROXY header: {why}"));
    };
    let said = |bytes: &[u8]| {
        let mut stream = from_balancer(server.daemon.port);
        stream.write_all(bytes).expect("some bytes");
        all_of(&mut stream)
    };
    assert_eq!(said(b"SSH-2.0-OpenSSH_10.6\r\n"), "");
    reason("no PROXY header");
    assert_eq!(said(&[b'x'; 4096]), "");
    assert_eq!(said(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2 and more\r\n"), "");
    reason("bad PROXY line");
    assert_eq!(said(&with_signature(0x21, 0x11, &[0; 600])), "");
    reason("the header is longer than 536 bytes");
    assert_eq!(said(&with_signature(0x21, 0x12, &[0; 12])), "");
    reason("the client has not come by TCP");
    drop(from_balancer(server.daemon.port));
    reason("closed without a header");
    // Half a header, and then nothing.
    let mut slow = from_balancer(server.daemon.port);
    slow.write_all(b"PROXY TCP4 192.0.2.1").expect("some bytes");
    assert_eq!(all_of(&mut slow), "");
    reason("no header within 5 seconds");
    // Nobody else is believed.
    let mut stranger = server.silent_connection();
    stranger.write_all(&v1("192.0.2.9:1")).expect("a header");
    all_of(&mut stranger);
    server.logs("client sent invalid protocol identifier");
    assert!(!server.daemon.log().contains("from 192.0.2.9"));
}

#[test]
fn penalties_meet_the_client_and_not_the_balancer() {
    if !possible("penalties behind a load balancer") {
        return;
    }
    let penalties = "PerSourcePenalties noauth:90s min:1s";
    let server = Sshd::start(Config::new(&format!("{FROM}\n{penalties}")));
    let begun = |header: &[u8]| {
        let mut stream = from_balancer(server.daemon.port);
        stream.write_all(header).expect("a header");
        stream
    };
    assert!(is_greeted(&mut begun(&v2("192.0.2.1:1"))));
    server.logs("192.0.2.1: activating penalty of 90 seconds");
    let refused = all_of(&mut begun(&v1("192.0.2.1:2")));
    assert_eq!(refused, "Not allowed at this time\r\n");
    assert!(is_greeted(&mut begun(&v1("192.0.2.2:2"))));
    // Checks of the load balancer's own.
    for _ in 0..3 {
        assert!(is_greeted(&mut begun(&with_signature(0x20, 0, &[]))));
    }
    let spoken = || {
        server
            .daemon
            .log()
            .matches("Connection closed by 127.0.0.5")
            .count()
            >= 3
    };
    assert!(until(LIMIT, spoken), "{}", server.daemon.log());
    assert!(!server.daemon.log().contains("127.0.0.5: activating"));
}

#[test]
fn a_balancers_reader_has_no_rights_and_may_be_replaced() {
    if !possible("the process that reads PROXY headers") {
        return;
    }
    let server = Sshd::start(Config::new(FROM));
    let mut waiting = from_balancer(server.daemon.port);
    let readers = || -> Vec<Facts> {
        let all = server.processes().into_iter();
        all.filter(|facts| facts.command_line.starts_with("fulmar sshd-reader"))
            .collect()
    };
    let caged = || readers().iter().any(|facts| facts.number("Seccomp") == 2);
    assert!(until(LIMIT, caged), "{}", server.daemon.log());
    let reader = readers().pop().expect("the reader");
    let user = sys::sandbox::unprivileged_user().expect("a user");
    assert_eq!(reader.uid(), user.uid);
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(reader.capabilities(set), 0, "{set}");
    }
    assert_eq!(reader.number("NoNewPrivs"), 1);
    assert_eq!(reader.owner, 0, "not dumpable");
    assert_ne!(reader.root, std::path::Path::new("/"));
    assert_eq!(reader.environment, Vec::<String>::new());
    // The three of /dev/null, the socket and the waiting connection.
    assert_eq!(reader.descriptors.len(), 5, "{reader:?}");
    let pid = i32::try_from(reader.pid).expect("a pid");
    let process = sys::process::PidFd::open(pid).expect("the reader");
    process.signal(Signal::KILL).expect("a signal to it");
    assert_eq!(all_of(&mut waiting), "");
    server.logs("the process that reads PROXY headers has ended");
    let mut next = from_balancer(server.daemon.port);
    next.write_all(&v1("192.0.2.1:1")).expect("a header");
    assert!(is_greeted(&mut next), "{}", server.daemon.log());
}

#[test]
fn one_connection_on_standard_input_has_its_header_read_too() {
    if !possible("sshd -i behind a load balancer") {
        return;
    }
    let server = Sshd::start(Config::new(FROM));
    let config = server.daemon.scratch().join("sshd_config");
    let begun = |header: &[u8]| -> (Child, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let mut stream = from_balancer(port);
        let (accepted, _) = listener.accept().expect("the connection");
        stream.write_all(header).expect("a header");
        let child = Command::new(binary())
            .args(["sshd", "-i", "-e", "-f"])
            .arg(&config)
            .stdin(Stdio::from(OwnedFd::from(accepted)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sshd -i");
        stream.write_all(b"no SSH\r\n").expect("a line");
        let said = all_of(&mut stream);
        (child, said)
    };
    let status_and_log = |child: Child| {
        let output = child.wait_with_output().expect("its end");
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), log)
    };
    let (child, said) = begun(&v2("192.0.2.7:4000"));
    assert!(said.starts_with("SSH-2.0-"), "{said:?}");
    let (_, log) = status_and_log(child);
    assert!(log.contains("Connection from 192.0.2.7 port 4000"), "{log}");
    let (child, said) = begun(b"");
    assert_eq!(said, "");
    let (status, log) = status_and_log(child);
    assert_eq!(status, Some(255));
    assert!(log.contains("PROXY header: no PROXY header"), "{log}");
}

/// HAProxy with these lines for its server; ended when dropped.
struct HaProxy {
    child: Child,
    port: u16,
}

impl HaProxy {
    fn start(server: &Sshd, program: &std::path::Path, how: &str) -> Self {
        let port = free_port();
        let text = format!(
            "defaults\n mode tcp\n timeout connect 60s\n timeout client 600s\n timeout server 600s\n\
             frontend f\n bind 127.0.0.1:{port}\n bind [::1]:{port}\n default_backend b\n\
             backend b\n server s 127.0.0.1:{} source 127.0.0.5 {how}\n",
            server.daemon.port
        );
        let config = server.daemon.scratch().write("haproxy.cfg", text);
        let child = Command::new(program)
            .args(["-db", "-f"])
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("haproxy");
        let haproxy = Self { child, port };
        assert!(until(LIMIT, || is_listening(port)), "haproxy listens");
        haproxy
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn behind_haproxy_logins_come_from_the_clients_address() {
    if !possible("HAProxy") {
        return;
    }
    let Some(program) = installed("haproxy") else {
        return skipped("HAProxy", &"not installed");
    };
    let key = UserKey::new(61);
    let guest = guest_with("from=\"127.0.0.9\"", &key);
    let only = "Match Address 127.0.0.9\nSetEnv MATCHED=yes";
    let config = Config {
        first: FROM,
        blocks: only,
    };
    let server = Sshd::start(config);
    for how in ["send-proxy", "send-proxy-v2"] {
        let haproxy = HaProxy::start(&server, &program, how);
        let run = |from: &[&str], to: &str| {
            let mut command = server.ssh_by(haproxy.port, &guest.name, &[&key]);
            command.args(from);
            finish(command.args([to, "echo $MATCHED $SSH_CONNECTION"]))
        };
        let outcome = run(&["-b", "127.0.0.9"], "127.0.0.1");
        let text = outcome.stdout.text();
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(
            words[..2],
            ["yes", "127.0.0.9"],
            "{how}: {}\n{}",
            outcome.summary(),
            server.daemon.log()
        );
        assert_eq!(words[3..], ["127.0.0.1", &server.daemon.port.to_string()]);
        // Another client of the same load balancer.
        assert_eq!(run(&["-b", "127.0.0.8"], "127.0.0.1").status, 255);
        server.logs("127.0.0.8 port ");
        authorize(&guest, &[("from=\"::1\"", &key)]);
        let outcome = run(&[], "::1");
        let text = outcome.stdout.text();
        assert!(
            text.starts_with("::1 "),
            "{how}: {}\n{}",
            outcome.summary(),
            server.daemon.log()
        );
        authorize(&guest, &[("from=\"127.0.0.9\"", &key)]);
    }
    // Health checks by the same protocol do no harm.
    let checked = HaProxy::start(&server, &program, "send-proxy-v2 check inter 100ms");
    let checks = || {
        server
            .daemon
            .log()
            .matches("Connection closed by 127.0.0.5")
            .count()
    };
    let before = checks();
    assert!(
        until(LIMIT, || checks() > before + 2),
        "{}",
        server.daemon.log()
    );
    let mut command = server.ssh_by(checked.port, &guest.name, &[&key]);
    let outcome = finish(command.args(["-b", "127.0.0.9", "127.0.0.1", "echo in"]));
    assert_eq!(outcome.stdout.text(), "in\n", "{}", server.daemon.log());
}
