//! Forwarded datagrams: `-L udp/…`, `-R udp/…` and SOCKS 5 UDP ASSOCIATE between Fulmars, and what a
//! server without them answers.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use interop::account::is_root;
use interop::forwarded::{Does, LIMIT, Session, connect, target};
use interop::peers::ours::Kind;
use interop::process::{Background, COMMAND_LIMIT, Input, Outcome, installed, run};
use interop::report::skipped;
use interop::scratch::{free_port, until};
use interop::site::{HOST, Site};
use interop::terminal::Terminal;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Largest datagram of IPv4, bytes.
const LONGEST: usize = 65_507;

fn ours(extra: &str) -> Site {
    Site::new(Kind::Fulmar, Kind::Fulmar, extra)
}

/// A socket that sends each datagram back; returns its port.
fn echo(address: IpAddr) -> u16 {
    let socket = UdpSocket::bind((address, 0)).expect("a port");
    let port = socket.local_addr().expect("an address").port();
    thread::spawn(move || {
        let mut bytes = vec![0; 70_000];
        while let Ok((count, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..count], from);
        }
    });
    port
}

/// A socket that answers each datagram with the port it came from; returns its own.
fn reflector() -> u16 {
    let socket = UdpSocket::bind((LOOPBACK, 0)).expect("a port");
    let port = socket.local_addr().expect("an address").port();
    thread::spawn(move || {
        while let Ok((_, from)) = socket.recv_from(&mut [0; 16]) {
            let _ = socket.send_to(&from.port().to_be_bytes(), from);
        }
    });
    port
}

/// A free UDP port; those of TCP say nothing about it.
fn free_udp_port() -> u16 {
    let socket = UdpSocket::bind((LOOPBACK, 0)).expect("a port");
    socket.local_addr().expect("an address").port()
}

/// A socket with this peer.
fn peer_of(address: IpAddr, port: u16) -> UdpSocket {
    let any = match address {
        IpAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        IpAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any).expect("a socket");
    socket.connect((address, port)).expect("a peer");
    socket.set_read_timeout(Some(LIMIT)).expect("a limit");
    socket
}

/// Sends datagrams of many lengths and compares what comes back, one after the other.
fn exchange(socket: &UdpSocket, what: &str) {
    let mut back = vec![0; 70_000];
    for len in [5, 0, 1, 0, 1400, 16_384, 16_385, 32_768, LONGEST, 7] {
        let bytes: Vec<u8> = (0..len).map(|at| (at % 251).to_le_bytes()[0]).collect();
        socket.send(&bytes).expect("sending");
        let count = socket.recv(&mut back);
        let count = count.unwrap_or_else(|why| panic!("{what}, {len} bytes: {why}"));
        assert!(back[..count] == bytes, "{what}: {count} of {len} bytes");
    }
}

#[test]
fn datagrams_keep_their_bounds_in_both_directions_and_families() {
    let site = ours("");
    let (v4, v6) = (echo(LOOPBACK), echo(Ipv6Addr::LOCALHOST.into()));
    let (named, numbered, six, remote) = (
        free_udp_port(),
        free_udp_port(),
        free_udp_port(),
        free_udp_port(),
    );
    let specs = [
        // The name's first address may be the one where nobody listens.
        ("-L", format!("udp/{named}:localhost:{v4}")),
        ("-L", format!("udp/127.0.0.1:{numbered}:127.0.0.1:{v4}")),
        ("-L", format!("udp/[::1]:{six}:[::1]:{v6}")),
        ("-R", format!("udp/{remote}:localhost:{v4}")),
    ];
    let arguments: Vec<&str> = specs
        .iter()
        .flat_map(|(flag, spec)| [*flag, spec.as_str()])
        .collect();
    let mut session = Session::start(&site, &arguments);
    for (address, port) in [
        (LOOPBACK, named),
        (Ipv6Addr::LOCALHOST.into(), named),
        (LOOPBACK, numbered),
        (Ipv6Addr::LOCALHOST.into(), six),
        (LOOPBACK, remote),
    ] {
        exchange(&peer_of(address, port), &format!("[{address}]:{port}"));
    }
    session.echoes("still there\n");
    // Its flows do not keep the session open, and the ports are free again.
    session.ends();
    assert!(until(LIMIT, || {
        UdpSocket::bind((LOOPBACK, named)).is_ok() && UdpSocket::bind((LOOPBACK, remote)).is_ok()
    }));
}

fn shows(outcome: &Outcome, text: &str) {
    let summary = outcome.summary();
    assert!(outcome.stderr.text().contains(text), "{text:?}: {summary}");
}

#[test]
fn a_server_without_datagrams_is_refused_by_name() {
    if installed("sshd").is_none() {
        return skipped("datagrams with OpenSSH's server", &"not installed");
    }
    let site = Site::new(Kind::Fulmar, Kind::OpenSsh, "");
    let said = |text: &str| format!("Cannot forward udp/{text}: this server does not offer UDP");
    for flag in ["-L", "-R"] {
        let spec = ["udp/9053:localhost:53", "udp/[::1]:9053:localhost:53"];
        let shown = ["9053 to [localhost]:53", "[::1]:9053 to [localhost]:53"];
        for (spec, shown) in spec.into_iter().zip(shown) {
            let outcome = site.run_with("", &[flag, spec, HOST, "echo ran"], Input::Nothing);
            assert_eq!(outcome.stdout.text(), "ran\n", "{}", outcome.summary());
            shows(&outcome, &said(shown));
            let must = "ExitOnForwardFailure yes\n";
            let outcome = site.run_with(must, &[flag, spec, HOST, "echo ran"], Input::Nothing);
            assert_eq!(outcome.status, 255, "{}", outcome.summary());
            assert_eq!(outcome.stdout.text(), "", "{}", outcome.summary());
            shows(&outcome, &said(shown));
        }
    }
    let port = free_port();
    let session = Session::start(&site, &["-D", &port.to_string()]);
    let mut stream = connect(port);
    stream.write_all(&associate(0)).expect("a request");
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).expect("a refusal");
    assert_eq!(reply, [5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0]);
    session.ends();
}

#[test]
fn a_port_where_nobody_listens_is_not_fatal() {
    let site = ours("");
    let (local, closed) = (free_udp_port(), free_udp_port());
    let spec = format!("udp/{local}:127.0.0.1:{closed}");
    let session = Session::start(&site, &["-L", &spec]);
    let socket = peer_of(LOOPBACK, local);
    for _ in 0..5 {
        socket.send(b"early").expect("sending");
    }
    let late = UdpSocket::bind((LOOPBACK, closed)).expect("the port");
    late.set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a limit");
    let mut from = BTreeSet::new();
    // The first of them may have been refused.
    assert!(until(LIMIT, || {
        socket.send(b"late").expect("sending");
        let received = late.recv_from(&mut [0; 16]);
        received.is_ok_and(|(_, address)| from.insert(address))
    }));
    let address = *from.first().expect("an address");
    late.send_to(b"answer", address).expect("sending");
    let mut answer = [0; 16];
    assert_eq!(socket.recv(&mut answer).expect("an answer"), 6);
    session.ends();
}

#[test]
fn an_unused_flow_ends_and_their_number_is_bounded() {
    let site = ours("");
    let (local, short) = (free_udp_port(), free_udp_port());
    let port = reflector();
    let mut command = site.ssh("LogLevel DEBUG\n");
    command
        .args(["-L", &format!("udp/{local}:127.0.0.1:{port}")])
        .args([HOST, "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut client = Background::start(&mut command).expect("a client");
    let ports = |local: u16| {
        let socket = peer_of(LOOPBACK, local);
        socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .expect("a limit");
        let mut answer = [0; 2];
        // Until the client listens.
        assert!(until(LIMIT, || {
            let _ = socket.send(b"?");
            socket.recv(&mut answer).is_ok()
        }));
        (socket, u16::from_be_bytes(answer))
    };
    let flows: Vec<_> = (0..300).map(|_| ports(local)).collect();
    let seen: BTreeSet<u16> = flows.iter().map(|(_, port)| *port).collect();
    assert!(seen.len() > 256, "each has a socket of its own");
    // The first one's flow has ended for another; it gets a new one.
    let (first, _) = &flows[0];
    first.set_read_timeout(Some(LIMIT)).expect("a limit");
    first.send(b"?").expect("sending");
    first.recv(&mut [0; 2]).expect("an answer");
    drop(client.0.stdin.take());
    let mut log = String::new();
    let mut output = client.0.stderr.take().expect("its log");
    output.read_to_string(&mut log).expect("its log");
    let line = log.lines().find(|line| line.contains("forwarding -L udp/"));
    let line = line.unwrap_or_else(|| panic!("no report:\n{log}"));
    let words: Vec<&str> = line.split(' ').collect();
    let peak = words
        .iter()
        .position(|word| *word == "most")
        .expect("a peak");
    let peak: usize = words[peak + 1].parse().expect("a number");
    // A channel is counted until the server has closed it.
    assert!((256..300).contains(&peak), "{line}");

    let site = ours("ChannelTimeout *-udp=0.2\n");
    let spec = format!("udp/{short}:127.0.0.1:{port}");
    let session = Session::start(&site, &["-L", &spec]);
    let (socket, port) = ports(short);
    let mut answer = [0; 2];
    assert!(until(LIMIT, || {
        thread::sleep(Duration::from_millis(400));
        let _ = socket.send(b"?");
        socket.recv(&mut answer).is_ok() && u16::from_be_bytes(answer) != port
    }));
    session.ends();
}

/// A greeting of SOCKS 5 and UDP ASSOCIATE from this port of the client.
fn associate(port: u16) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    vec![5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, high, low]
}

/// Asks for an association; returns the connection that holds it, and its address.
fn associated(proxy: u16, port: u16) -> (TcpStream, SocketAddr) {
    let mut stream = connect(proxy);
    stream.write_all(&associate(port)).expect("a request");
    let mut reply = [0; 12];
    stream.read_exact(&mut reply).expect("an association");
    assert_eq!(reply[..6], [5, 0, 5, 0, 0, 1], "{reply:?}");
    let [a, b, c, d] = [reply[6], reply[7], reply[8], reply[9]];
    let port = u16::from_be_bytes([reply[10], reply[11]]);
    (stream, SocketAddr::from((Ipv4Addr::new(a, b, c, d), port)))
}

/// A datagram of an association for this port.
fn wrapped(port: u16, bytes: &[u8]) -> Vec<u8> {
    let head = [0, 0, 0, 1, 127, 0, 0, 1];
    [&head[..], &port.to_be_bytes(), bytes].concat()
}

#[test]
fn socks_carries_datagrams_of_its_client_alone_and_no_fragments() {
    let site = ours("");
    let proxy = free_port();
    let (one, two) = (echo(LOOPBACK), echo(LOOPBACK));
    let session = Session::start(&site, &["-D", &proxy.to_string()]);
    let socket = UdpSocket::bind((LOOPBACK, 0)).expect("a socket");
    socket.set_read_timeout(Some(LIMIT)).expect("a limit");
    let port = socket.local_addr().expect("an address").port();
    let mut back = vec![0; 70_000];
    for named in [port, 0] {
        let (control, relay) = associated(proxy, named);
        assert_eq!(relay.ip(), LOOPBACK);
        let stranger = UdpSocket::bind((LOOPBACK, 0)).expect("a socket");
        // A datagram without a SOCKS header does not fix the client's port.
        let sent = stranger.send_to(b"nonsense", relay);
        sent.expect("sending");
        stranger.set_nonblocking(true).expect("a mode");
        for (port, bytes) in [
            (one, &b"one"[..]),
            (two, b"two"),
            (one, b""),
            (two, &[7; 60_000]),
        ] {
            let sent = wrapped(port, bytes);
            socket.send_to(&sent, relay).expect("sending");
            let (count, from) = socket.recv_from(&mut back).expect("an answer");
            assert_eq!(from, relay);
            assert!(back[..count] == sent, "{port}");
            // None of these is answered: what comes next belongs to the next datagram.
            let mut fragment = sent.clone();
            fragment[2] = 1;
            socket.send_to(&fragment, relay).expect("sending");
            socket.send_to(&sent[..7], relay).expect("sending");
            stranger.send_to(&sent, relay).expect("sending");
        }
        let name = [b"\0\0\0\x03\x09localhost", &one.to_be_bytes()[..], b"name"].concat();
        socket.send_to(&name, relay).expect("sending");
        let count = socket.recv(&mut back).expect("an answer");
        assert!(back[..count] == name);
        let nothing = stranger.recv(&mut back).map_err(|why| why.kind());
        assert_eq!(nothing, Err(ErrorKind::WouldBlock));
        // The association ends with its connection.
        drop(control);
        assert!(until(LIMIT, || UdpSocket::bind(relay).is_ok()));
    }
    session.ends();
}

/// The interface of a link-local address is a part of it.
#[test]
fn socks_carries_datagrams_of_a_client_with_a_link_local_address() {
    if !is_root() || installed("ip").is_none() {
        return skipped("a link-local address", &"needs root and ip");
    }
    let thread = thread::spawn(|| {
        if let Err(why) = sys::namespace::unshare_network() {
            return skipped("a link-local address", &why);
        }
        for arguments in ["link set lo up", "address add fe80::1/64 dev lo"] {
            let done = Command::new("ip").args(arguments.split(' ')).status();
            assert!(done.is_ok_and(|done| done.success()), "ip {arguments}");
        }
        let site = ours("");
        let (port, proxies) = (echo(LOOPBACK), [free_port(), free_port()]);
        // At every address, and at that one alone.
        let specs = [
            format!("*:{}", proxies[0]),
            format!("[fe80::1%lo]:{}", proxies[1]),
        ];
        let session = Session::start(&site, &["-D", &specs[0], "-D", &specs[1]]);
        for proxy in proxies {
            let near = SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), proxy, 0, 1);
            let mut control = TcpStream::connect(near).expect("the proxy");
            control.write_all(&associate(0)).expect("a request");
            let mut reply = [0; 24];
            control.read_exact(&mut reply).expect("an association");
            assert_eq!(reply[..6], [5, 0, 5, 0, 0, 4], "{reply:?}");
            let [.., high, low] = reply;
            let mut relay = near;
            relay.set_port(u16::from_be_bytes([high, low]));
            let mut own = near;
            own.set_port(0);
            let socket = UdpSocket::bind(own).expect("a socket");
            socket.set_read_timeout(Some(LIMIT)).expect("a limit");
            let sent = wrapped(port, b"link");
            socket.send_to(&sent, relay).expect("sending");
            let mut back = [0; 64];
            let count = socket.recv(&mut back).expect("an answer");
            assert!(back[..count] == sent);
        }
        session.ends();
    });
    thread.join().expect("the test");
}

/// `-v` at the end counts flows as it counts connections.
#[test]
fn the_report_at_the_end_has_the_flows_of_each_forwarding_and_their_peak() {
    let site = ours("");
    let (local, remote, port) = (free_udp_port(), free_udp_port(), echo(LOOPBACK));
    let specs = [local, remote].map(|listen| format!("udp/{listen}:127.0.0.1:{port}"));
    let file = site.running.daemon.scratch().join("client.log");
    let log = file.to_str().expect("a path");
    let arguments = ["-L", &specs[0], "-R", &specs[1], "-E", log];
    let session = Session::with(&site, "LogLevel DEBUG1\n", &arguments);
    let peers = [local, local, local, remote].map(|port| peer_of(LOOPBACK, port));
    for peer in &peers {
        peer.send(b"seven b").expect("sending");
        assert_eq!(peer.recv(&mut [0; 16]).expect("the echo"), 7);
    }
    session.ends();
    let log = std::fs::read_to_string(&file).expect("its log");
    for (flag, port, flows) in [("-L", local, 3), ("-R", remote, 1)] {
        let start = format!("forwarding {flag} udp/{port} to ");
        let line = log.lines().find(|line| line.contains(&start));
        let line = line.unwrap_or_else(|| panic!("{start}: {log}"));
        let counts = format!(": {flows} flows, at most {flows} at a time, ");
        assert!(line.contains(&counts), "{line}");
        // Each datagram with its length.
        let bytes = flows * (7 + 4);
        let carried = format!("{bytes} bytes sent, {bytes} received");
        assert!(line.ends_with(&carried), "{line}");
    }
}

#[test]
fn a_bulk_forward_does_not_starve_datagrams() {
    let site = ours("");
    let (local, bulk) = (free_udp_port(), free_port());
    let (port, sink) = (echo(LOOPBACK), target(Does::Count));
    let specs = [
        format!("udp/{local}:127.0.0.1:{port}"),
        format!("{bulk}:127.0.0.1:{sink}"),
    ];
    let session = Session::start(&site, &["-L", &specs[0], "-L", &specs[1]]);
    let stream = connect(bulk);
    let mut writer = stream.try_clone().expect("a clone");
    let writing = thread::spawn(move || {
        let bytes = vec![3; 1 << 20];
        let mut total = 0_u64;
        while writer.write_all(&bytes).is_ok() {
            total += 1;
        }
        total
    });
    let socket = peer_of(LOOPBACK, local);
    let mut back = [0; 64];
    for number in 0..200_u8 {
        socket.send(&[number; 64]).expect("sending");
        let count = socket.recv(&mut back).expect("an answer beside bulk data");
        assert_eq!((count, back[0]), (64, number));
    }
    stream
        .shutdown(std::net::Shutdown::Both)
        .expect("the end of the bulk");
    assert!(writing.join().expect("the writer") > 0);
    session.ends();
}

#[test]
fn an_answer_comes_from_the_address_that_was_asked() {
    let site = ours("GatewayPorts clientspecified\n");
    let (local, remote) = (free_udp_port(), free_udp_port());
    let port = echo(LOOPBACK);
    let specs = [
        format!("udp/*:{local}:127.0.0.1:{port}"),
        format!("udp/*:{remote}:127.0.0.1:{port}"),
    ];
    let session = Session::start(&site, &["-L", &specs[0], "-R", &specs[1]]);
    for port in [local, remote] {
        for address in [LOOPBACK, Ipv4Addr::new(127, 0, 0, 2).into()] {
            // A connected socket accepts answers of its peer's address only.
            exchange(&peer_of(address, port), &format!("{address}:{port}"));
        }
    }
    session.ends();
}

#[test]
fn the_command_line_of_a_session_adds_lists_and_cancels_them() {
    let site = ours("");
    let (local, remote) = (free_udp_port(), free_udp_port());
    let port = echo(LOOPBACK);
    let mut command = site.ssh("LogLevel INFO\nEnableEscapeCommandline yes\n");
    command.args(["-tt", HOST, "echo rea''dy; exec cat"]);
    let mut terminal = Terminal::new(&command, 120, 40);
    terminal.expect("ready");
    terminal.type_text("\n");
    for (flag, local) in [("L", local), ("R", remote)] {
        terminal.type_text("~C");
        terminal.expect("ssh> ");
        terminal.type_text(&format!("-{flag} udp/{local}:127.0.0.1:{port}\n"));
        terminal.expect("Forwarding port.");
        let socket = peer_of(LOOPBACK, local);
        socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .expect("a limit");
        // A remote one listens when the server has read the request.
        assert!(until(LIMIT, || {
            socket.send(b"?").is_ok() && socket.recv(&mut [0; 8]).is_ok()
        }));
    }
    terminal.type_text("\n~#");
    terminal.expect(&format!(
        "local to udp/127.0.0.1:{port} (direct-udp@fulmar.invalid, open"
    ));
    for (flag, local) in [("L", local), ("R", remote)] {
        terminal.type_text("\n~C");
        terminal.expect("ssh> ");
        terminal.type_text(&format!("-K{flag}udp/{local}\n"));
        terminal.expect("Canceled forwarding.");
        assert!(until(LIMIT, || UdpSocket::bind((LOOPBACK, local)).is_ok()));
    }
    terminal.type_text("\n~.");
    terminal.end();
}

#[test]
fn a_resolver_and_its_client_work_through_both_directions() {
    let (Some(dnsmasq), Some(dig)) = (installed("dnsmasq"), installed("dig")) else {
        return skipped("names through forwarded datagrams", &"no dnsmasq or no dig");
    };
    let site = ours("");
    let (port, local, remote) = (free_udp_port(), free_udp_port(), free_udp_port());
    let scratch = site.running.daemon.scratch();
    let hosts = scratch.write(
        "hosts",
        "192.0.2.55 answer.test\n2001:db8::55 answer.test\n",
    );
    let mut command = Command::new(dnsmasq);
    command
        .args(["-d", "-C", "/dev/null", "--no-resolv", "--no-hosts"])
        .args(["--listen-address=127.0.0.1", "--bind-interfaces"])
        .arg(format!("--port={port}"))
        .arg(format!("--addn-hosts={}", hosts.display()))
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let _resolver = Background::start(&mut command).expect("a resolver");
    let specs = [
        format!("udp/{local}:localhost:{port}"),
        format!("udp/{remote}:localhost:{port}"),
    ];
    let session = Session::start(&site, &["-L", &specs[0], "-R", &specs[1]]);
    for port in [local, remote] {
        for (kind, address) in [("A", "192.0.2.55\n"), ("AAAA", "2001:db8::55\n")] {
            let mut command = Command::new(&dig);
            command
                .args(["-p", &port.to_string(), "@127.0.0.1", "+short", "+notcp"])
                .args(["+tries=10", "+time=2", "answer.test", kind]);
            let outcome = run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("dig");
            assert_eq!(outcome.stdout.text(), address, "{}", outcome.summary());
        }
    }
    session.ends();
}
