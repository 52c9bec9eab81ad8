//! Tunnels (`-w`) between network namespaces, in all combinations of both suites. The server runs
//! in a namespace of its own, reached by pipes: nothing passes but through the tunnel.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use interop::account::current_user;
use interop::fixture;
use interop::peers::openssh;
use interop::peers::ours::Kind;
use interop::process::{Background, Input, Outcome, command_line};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::site::{HOST, each, finish};

const LIMIT: Duration = Duration::from_secs(20);
/// Echoes TCP and UDP on port 7 of its address.
const ECHO: &str = r#"
import socket, sys, threading
t = socket.socket(); t.bind((sys.argv[1], 7)); t.listen()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind((sys.argv[1], 7))
def datagrams():
    while True:
        u.sendto(*u.recvfrom(70000))
threading.Thread(target=datagrams, daemon=True).start()
print("ready", flush=True)
while True:
    c, _ = t.accept()
    while d := c.recv(65536):
        c.sendall(d)
    c.close()
"#;

/// A client whose server runs in another network namespace, with these lines of sshd_config.
fn client(kinds: (Kind, Kind), server_lines: &str, scratch: &Scratch) -> Command {
    let (client, server) = kinds;
    let lines = format!("{server_lines}{}", openssh::server_config(server, scratch));
    let config = scratch.write("sshd_config", lines);
    let sshd = server.sshd().unwrap_or_else(|why| panic!("{why}"));
    let words = command_line(&sshd);
    let known_hosts = scratch.write("known_hosts", fixture::known_hosts(HOST));
    let lines = format!(
        "ProxyCommand unshare -n {} -i -f {}\nUser {}\nExitOnForwardFailure yes\n{}",
        words,
        config.display(),
        current_user(),
        openssh::client_config(&known_hosts, "user_ed25519")
    );
    let mut command = client.ssh().unwrap_or_else(|why| panic!("{why}"));
    command.arg("-F").arg(scratch.write("ssh_config", lines));
    command
}

/// Runs `test` in a network namespace for each couple of client and server, if that is possible.
fn in_namespace(test: impl Fn(Kind, Kind) + Send + 'static) {
    let thread = std::thread::spawn(move || {
        let prepared = sys::namespace::unshare_network()
            .and_then(|()| sys::tun::open_unit(sys::tun::TunKind::PointToPoint, None, false));
        match prepared {
            Ok(_) => each(test),
            Err(why) => skipped("tunnels", &why),
        }
    });
    thread.join().expect("the test");
}

fn assert_says(outcome: &Outcome, text: &str) {
    assert!(
        outcome.stderr.text().contains(text),
        "{}",
        outcome.summary()
    );
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).status();
    assert!(
        done.is_ok_and(|status| status.success()),
        "ip {arguments:?}"
    );
}

/// Sends datagrams and a stream through the tunnel and compares what comes back.
fn exchange(address: &str, what: &str) {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    socket.connect((address, 7)).expect("a route");
    socket.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut came = vec![0; 70_000];
    for len in [1, 1400, 8000] {
        let sent: Vec<u8> = (0..len).map(|at: u32| at.to_be_bytes()[3]).collect();
        socket.send(&sent).expect("sending");
        let count = socket
            .recv(&mut came)
            .unwrap_or_else(|why| panic!("{what} {len}: {why}"));
        assert!(came[..count] == sent, "{what}: {len} bytes");
    }
    let mut stream = TcpStream::connect((address, 7)).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let sent: Vec<u8> = (0..4_u32 << 20)
        .map(|at| (at % 251).to_be_bytes()[3])
        .collect();
    let mut writer = stream.try_clone().expect("a clone");
    let copy = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&copy).expect("writing");
        writer.shutdown(std::net::Shutdown::Write).expect("an end");
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("reading");
    writing.join().expect("the writer");
    assert!(
        back == sent,
        "{what}: {} of {} bytes",
        back.len(),
        sent.len()
    );
}

#[test]
fn packets_and_frames_pass_in_both_directions() {
    in_namespace(|client_kind, server_kind| {
        for (mode, device) in [("point-to-point", "tun3"), ("ethernet", "tap3")] {
            let scratch = Scratch::new();
            let what = format!("{} to {}, {mode}", client_kind.name(), server_kind.name());
            let mut command = client((client_kind, server_kind), "PermitTunnel yes\n", &scratch);
            let script = scratch.write("echo.py", ECHO);
            let there = format!(
                "ip addr add 10.99.9.2/24 dev $SSH_TUNNEL && ip link set $SSH_TUNNEL up && \
                 exec python3 {} 10.99.9.2",
                script.display()
            );
            command.args(["-o", &format!("Tunnel={mode}"), "-w", "3", HOST, &there]);
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            let mut running = Background::start(&mut command).expect("a client");
            let output = running.0.stdout.take().expect("its output");
            let mut line = String::new();
            let _ = BufReader::new(output).read_line(&mut line);
            assert_eq!(line, "ready\n", "{what}");
            ip(&["addr", "add", "10.99.9.1/24", "dev", device]);
            ip(&["link", "set", device, "up"]);
            exchange("10.99.9.2", &what);
        }
    });
}

#[test]
fn a_tunnel_that_is_not_permitted_ends_a_client_that_needs_it() {
    in_namespace(|client_kind, server_kind| {
        for lines in ["PermitTunnel no\n", "PermitTunnel ethernet\n"] {
            let scratch = Scratch::new();
            let mut command = client((client_kind, server_kind), lines, &scratch);
            command.args(["-w", "any", HOST, "echo ran"]);
            let outcome = finish(&mut command, Input::Nothing);
            assert_eq!(outcome.status, 255, "{}", outcome.summary());
            assert_says(&outcome, "Tunnel forwarding failed");
            assert_eq!(outcome.stdout.text(), "", "{}", outcome.summary());
        }
    });
}

#[test]
fn a_device_that_cannot_be_opened_ends_a_client_that_needs_it() {
    in_namespace(|client_kind, server_kind| {
        let scratch = Scratch::new();
        let kind = sys::tun::TunKind::PointToPoint;
        let _taken = sys::tun::open_unit(kind, Some(4), false).expect("a device");
        let mut command = client((client_kind, server_kind), "PermitTunnel yes\n", &scratch);
        command.args(["-w", "4", HOST, "echo ran"]);
        let outcome = finish(&mut command, Input::Nothing);
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
        assert_says(&outcome, "Tunnel device open failed.");
        assert_says(&outcome, "Could not request tunnel forwarding.");
    });
}

#[test]
fn the_local_command_learns_the_interface() {
    in_namespace(|client_kind, server_kind| {
        let scratch = Scratch::new();
        for (flags, interface) in [(&["-w", "6"][..], "tun6"), (&[], "NONE")] {
            let mut command = client((client_kind, server_kind), "PermitTunnel yes\n", &scratch);
            command.args(flags);
            command.args(["-o", "PermitLocalCommand=yes", "-o", "LocalCommand=echo %T"]);
            command.args([HOST, "kill $PPID"]);
            let outcome = finish(&mut command, Input::Nothing);
            assert_eq!(outcome.stdout.text(), format!("{interface}\n"));
        }
    });
}
