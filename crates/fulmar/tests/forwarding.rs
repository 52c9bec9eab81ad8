//! Connections through the server and listeners of the server: the library's client with OpenSSH's
//! sshd and with the library's server, and OpenSSH's client with that.

mod common;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use common::{Fixture, MIB, PASSWORD, PATIENCE, Scratch, Sshd, ssh, ssh_command};
use fulmar::Error;
use fulmar::client::{Auth, Channel, Session, SocksRequest};
use fulmar::server::Forward;
use wire::message::open_failure;

/// A port that nobody listens on.
fn closed_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Greets each connection, and then sends back what arrives; returns the port.
fn greeter() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.write_all(b"hello ");
                let (mut from, mut to) = (&stream, &stream);
                let _ = io::copy(&mut from, &mut to);
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
    port
}

/// Sends bytes and the end of the stream, and returns all that comes back.
fn exchange(channel: &Channel, bytes: &[u8]) -> Vec<u8> {
    channel.set_read_timeout(Some(PATIENCE));
    let mut back = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut to = channel;
            to.write_all(bytes).unwrap();
            channel.send_eof();
        });
        let mut from = channel;
        from.read_to_end(&mut back).unwrap();
    });
    back
}

/// The same of who connects to a listener of the server.
fn send(mut stream: impl Read + Write, end: impl Fn(), bytes: &[u8]) -> Vec<u8> {
    stream.write_all(bytes).unwrap();
    end();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    back
}

/// Returns the connection's bytes to it.
fn echo(channel: &Channel) {
    let (mut from, mut to) = (channel, channel);
    io::copy(&mut from, &mut to).unwrap();
    channel.send_eof();
}

fn connects(session: &Session, scratch: &Scratch) {
    let bytes = vec![b'b'; 3 * MIB];
    let all = [b"hello ", &bytes[..]].concat();
    let channel = session.connect_tcp("localhost", greeter()).unwrap();
    assert!(exchange(&channel, &bytes) == all);
    let path = scratch.path("target");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let (mut from, mut to) = (&stream, &stream);
        io::copy(&mut from, &mut to).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    });
    let channel = session.connect_unix(&path).unwrap();
    assert!(exchange(&channel, &bytes) == bytes);
    for refused in [
        session.connect_tcp("127.0.0.1", closed_port()),
        session.connect_unix(scratch.path("nothing")),
    ] {
        let reason = open_failure::CONNECT_FAILED;
        assert!(
            matches!(&refused, Err(Error::ChannelRefused { reason: given, .. }) if *given == reason),
            "{refused:?}"
        );
    }
}

fn listens(session: &Session, scratch: &Scratch) {
    let listener = session.listen_tcp("127.0.0.1", 0).unwrap();
    listener.set_accept_timeout(Some(PATIENCE));
    let port = listener.port().unwrap();
    let taken = session.listen_tcp("127.0.0.1", port);
    assert!(
        matches!(taken, Err(Error::RequestRefused("tcpip-forward"))),
        "{taken:?}"
    );
    let bytes = vec![b'l'; MIB];
    std::thread::scope(|scope| {
        let user = scope.spawn(|| {
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let address = stream.local_addr().unwrap();
            let end = || stream.shutdown(Shutdown::Write).unwrap();
            (address, send(&stream, end, &bytes))
        });
        let (channel, from) = listener.accept().unwrap();
        echo(&channel);
        drop(channel);
        let (address, back) = user.join().unwrap();
        assert!(back == bytes);
        assert_eq!(from, Some(address));
    });
    let path = scratch.path("listener");
    let unix = session.listen_unix(&path).unwrap();
    assert_eq!(unix.port(), None);
    std::thread::scope(|scope| {
        let user = scope.spawn(|| {
            let stream = UnixStream::connect(&path).unwrap();
            let end = || stream.shutdown(Shutdown::Write).unwrap();
            send(&stream, end, &bytes)
        });
        let (channel, from) = unix.accept().unwrap();
        assert_eq!(from, None);
        echo(&channel);
        drop(channel);
        assert!(user.join().unwrap() == bytes);
    });
    // A connection that nobody accepts is closed with its listener, and the port is free again.
    let mut waiting = TcpStream::connect(("127.0.0.1", port)).unwrap();
    waiting.set_read_timeout(Some(PATIENCE)).unwrap();
    drop(listener);
    let end = waiting.read(&mut [0]).map_err(|error| error.kind());
    assert!(
        matches!(end, Ok(0) | Err(io::ErrorKind::ConnectionReset)),
        "{end:?}"
    );
    let again = session.listen_tcp("127.0.0.1", port).unwrap();
    again.set_accept_timeout(Some(std::time::Duration::from_millis(1)));
    assert!(matches!(again.accept(), Err(Error::TimedOut(_))));
}

#[test]
fn through_a_stock_sshd() {
    let Some(sshd) = Sshd::find("sshd-forwarding") else {
        return;
    };
    let session = sshd.connect();
    connects(&session, &sshd.scratch);
    listens(&session, &sshd.scratch);
    assert_eq!(session.run("echo on").unwrap().stdout, b"on\n");
}

#[test]
fn through_a_server_of_the_library() {
    let fixture = Fixture::forwarding(|_| true);
    let scratch = Scratch::new("own-forwarding");
    let session = fixture.login();
    connects(&session, &scratch);
    listens(&session, &scratch);
    assert_eq!(session.run("echo on").unwrap().stdout, b"on\n");
    let kept = session.listen_unix(scratch.path("kept")).unwrap();
    assert!(scratch.path("kept").exists());
    drop(session);
    drop(kept);
    // The server removes the files of its listeners.
    let end = std::time::Instant::now() + PATIENCE;
    while scratch.path("kept").exists() {
        assert!(std::time::Instant::now() < end);
        std::thread::yield_now();
    }
}

#[test]
fn a_server_forwards_what_its_handler_permits_and_nothing_by_default() {
    let port = greeter();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let fixture = Fixture::forwarding(move |forward| {
        seen.lock().unwrap().push(forward.clone());
        matches!(forward, Forward::ConnectTcp { host, .. } if host == "127.0.0.1")
    });
    let session = fixture.login();
    let channel = session.connect_tcp("127.0.0.1", port).unwrap();
    assert_eq!(exchange(&channel, b"mia"), b"hello mia");
    let prohibited = |outcome: Result<Channel, Error>| {
        let reason = open_failure::ADMINISTRATIVELY_PROHIBITED;
        assert!(
            matches!(&outcome, Err(Error::ChannelRefused { reason: given, .. }) if *given == reason),
            "{outcome:?}"
        );
    };
    prohibited(session.connect_tcp("localhost", port));
    prohibited(session.connect_unix("/run/x"));
    for outcome in [session.listen_tcp("", 0), session.listen_unix("/run/y")] {
        assert!(
            matches!(outcome, Err(Error::RequestRefused(_))),
            "{outcome:?}"
        );
    }
    let tcp = |host: &str| Forward::ConnectTcp {
        host: host.into(),
        port,
    };
    let path = |text: &str| Path::new(text).to_owned();
    assert_eq!(
        *asked.lock().unwrap(),
        [
            tcp("127.0.0.1"),
            tcp("localhost"),
            Forward::ConnectUnix(path("/run/x")),
            Forward::ListenTcp {
                address: String::new(),
                port: 0
            },
            Forward::ListenUnix(path("/run/y")),
        ]
    );
    let closed = Fixture::start();
    let session = closed.login();
    prohibited(session.connect_tcp("127.0.0.1", port));
    assert!(session.listen_tcp("localhost", 0).is_err());
}

#[test]
fn datagrams_pass_through_a_server_that_permits_them() {
    let target = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = target.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut bytes = vec![0; 70_000];
        while let Ok((count, from)) = target.recv_from(&mut bytes) {
            let _ = target.send_to(&bytes[..count], from);
        }
    });
    let fixture = Fixture::forwarding(
        |forward| matches!(forward, Forward::ConnectUdp { host, .. } if host != "forbidden"),
    );
    let session = fixture.login();
    let flow = session.connect_udp("localhost", port).unwrap();
    flow.set_read_timeout(Some(PATIENCE));
    let mut buffer = vec![0; 70_000];
    for length in [5, 0, 1, 40_000, 65_507, 3] {
        let bytes: Vec<u8> = (0..length).map(|at: u32| at.to_le_bytes()[0]).collect();
        flow.send(&bytes).unwrap();
        let count = flow.recv(&mut buffer).unwrap();
        assert!(buffer[..count] == bytes, "{length}");
    }
    // The rest of a datagram that is longer than the buffer is lost.
    flow.send(b"long").unwrap();
    flow.send(b"next").unwrap();
    assert_eq!(flow.recv(&mut buffer[..2]).unwrap(), 2);
    assert_eq!(flow.recv(&mut buffer).unwrap(), 4);
    assert_eq!(&buffer[..4], b"next");
    let long = flow.send(&[0; 65_528]).map_err(|error| error.kind());
    assert_eq!(long, Err(io::ErrorKind::InvalidInput));
    let refused = session.connect_udp("forbidden", port).map(|_| ());
    assert!(matches!(refused, Err(Error::ChannelRefused { .. })));
    let other = Fixture::forwarding(|forward| matches!(forward, Forward::ConnectTcp { .. }));
    let session = other.login();
    let refused = session.connect_udp("localhost", port).map(|_| ());
    assert!(matches!(refused, Err(Error::ChannelRefused { .. })));
}

#[test]
fn a_listener_ends_with_its_connection() {
    let fixture = Fixture::forwarding(|_| true);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let cut = ours.try_clone().unwrap();
    let server = fixture.server.clone();
    let serving = std::thread::spawn(move || server.serve_connection(theirs, None));
    let mut session = Session::over(ours, "pair", 22, fixture.config()).unwrap();
    session
        .authenticate("mia", Auth::Password(PASSWORD))
        .unwrap();
    let listener = session.listen_tcp("localhost", 0).unwrap();
    let port = listener.port().unwrap();
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept().map(|_| ()));
        cut.shutdown(Shutdown::Both).unwrap();
        let outcome = accepting.join().unwrap();
        assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    });
    let _ = serving.join().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn socks_requests_of_each_version_are_answered() {
    let fixture = Fixture::forwarding(
        |forward| matches!(forward, Forward::ConnectTcp { host, .. } if host != "forbidden"),
    );
    let session = fixture.login();
    let (open, closed) = (greeter(), closed_port());
    let ask = |request: &[u8]| -> Vec<u8> {
        let (mut client, stream) = UnixStream::pair().unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(request).unwrap();
        if let Ok(request) = SocksRequest::read(stream) {
            match session.connect_tcp(request.host(), request.port()) {
                Ok(channel) => {
                    let mut stream = request.grant().unwrap();
                    // What follows the request is the connection's.
                    let mut sent = [0; 4];
                    stream.read_exact(&mut sent).unwrap();
                    stream.write_all(&exchange(&channel, &sent)).unwrap();
                }
                Err(error) => request.refuse(&error).unwrap(),
            }
        }
        let mut back = Vec::new();
        // A stream with unread bytes ends with a reset.
        let _ = client.read_to_end(&mut back);
        back
    };
    let five = |name: &[u8], port: u16| {
        let length = u8::try_from(name.len()).unwrap();
        [
            &[5, 1, 0, 5, 1, 0, 3, length],
            name,
            &port.to_be_bytes(),
            b"data",
        ]
        .concat()
    };
    let four = [
        &[4, 1],
        &open.to_be_bytes()[..],
        &[127, 0, 0, 1, 0],
        b"data",
    ]
    .concat();
    assert_eq!(
        ask(&four),
        [&[0, 90, 0, 0, 0, 0, 0, 0], &b"hello data"[..]].concat()
    );
    let reply = |code: u8| vec![5, 0, 5, code, 0, 1, 0, 0, 0, 0, 0, 0];
    let granted = [&reply(0)[..], b"hello data"].concat();
    assert_eq!(ask(&five(b"localhost", open)), granted);
    assert_eq!(ask(&five(b"forbidden", open)), reply(2));
    assert_eq!(ask(&five(b"127.0.0.1", closed)), reply(5));
    assert_eq!(ask(b"GET / HTTP/1.0\r\n\r\n"), b"");
    assert_eq!(ask(b"\x05\x01\x02"), [5, 0xff]);
}

#[test]
fn openssh_forwards_through_our_server() {
    let Some(program) = ssh() else { return };
    let scratch = Scratch::new("ssh-forwarding");
    let fixture = Fixture::forwarding(|_| true);
    let (local, remote, to) = (closed_port(), closed_port(), greeter());
    let mut child = ssh_command(program, &fixture, &scratch)
        .args([
            "-oExitOnForwardFailure=yes",
            "-L",
            &format!("{local}:127.0.0.1:{to}"),
        ])
        .args([
            "-R",
            &format!("{remote}:127.0.0.1:{to}"),
            "-R",
            &format!("{}:127.0.0.1:{to}", scratch.path("r").display()),
        ])
        .arg("cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"x").unwrap();
    // Its answer shows that everything listens.
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    for port in [local, remote] {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let end = || stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(send(&stream, end, b"mia"), b"hello mia");
    }
    let stream = UnixStream::connect(scratch.path("r")).unwrap();
    let end = || stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(send(&stream, end, b"kim"), b"hello kim");
    drop(input);
    assert!(child.wait().unwrap().success());
}
