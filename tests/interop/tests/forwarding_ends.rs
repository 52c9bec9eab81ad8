//! How forwarded connections end: half-closed, closed with data under way, and reset, at either end.
//! Each pair of programs is compared with the same pair with OpenSSH in Fulmar's place.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;

use interop::forwarded::{LIMIT, connect};
use interop::peers::dropbear::Dropbear;
use interop::peers::ours::Kind;
use interop::peers::python::AsyncsshServer;
use interop::peers::tunnel::{Forwarder, Tunnel, with_client, with_server, with_suites};
use interop::peers::{Running, openssh};
use interop::report::skipped;
use interop::scratch::free_port;

const MIB: usize = 1 << 20;
/// More than all buffers between two ends hold.
const ENDLESS: usize = 256 * MIB;

/// The two ends of a forwarded connection: who connects, and the target.
struct Ends {
    from: TcpStream,
    to: TcpStream,
}

/// Reads to the end: the bytes, and how they end.
fn rest(mut stream: &TcpStream) -> (usize, &'static str) {
    let (mut total, mut bytes) = (0, vec![0; 1 << 16]);
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return (total, "end"),
            Ok(count) => total += count,
            Err(error) => {
                return (
                    total,
                    match error.kind() {
                        ErrorKind::ConnectionReset => "reset",
                        ErrorKind::WouldBlock => "nothing more comes",
                        _ => "another error",
                    },
                );
            }
        }
    }
}

fn send(mut stream: &TcpStream, length: usize) {
    stream
        .write_all(&vec![b'x'; length])
        .expect("a connection that accepts bytes");
}

fn half_close(stream: &TcpStream) {
    stream.shutdown(Shutdown::Write).expect("half-close");
}

fn reset(stream: TcpStream) {
    sys::socket::reset_on_close(&stream).expect("an option");
    drop(stream);
}

/// True if a writer is stopped by an error before it has written everything.
fn is_stopped(mut stream: &TcpStream) -> bool {
    let bytes = vec![0; 1 << 16];
    let mut written = 0;
    while written < ENDLESS {
        match stream.write(&bytes) {
            Ok(count) => written += count,
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
    false
}

/// What happens at the ends, as text to compare; the first end acts.
type Scenario = fn(TcpStream, TcpStream) -> String;

const ENDS: [(&str, Scenario); 5] = [
    ("half-close, then an answer", |acts, other| {
        send(&acts, 3 * MIB / 2);
        half_close(&acts);
        let received = rest(&other);
        for _ in 0..20 {
            send(&other, 1 << 16);
        }
        drop(other);
        format!("{received:?} {:?}", rest(&acts))
    }),
    ("close with data under way", |acts, other| {
        send(&acts, MIB);
        drop(acts);
        format!("{:?}", rest(&other))
    }),
    ("close without data", |acts, other| {
        drop(acts);
        format!("{:?}", rest(&other))
    }),
    ("both send and half-close at once", |acts, other| {
        let end = |stream: &TcpStream| {
            send(stream, 3 * MIB);
            half_close(stream);
        };
        thread::scope(|scope| {
            scope.spawn(|| end(&acts));
            scope.spawn(|| end(&other));
            let one = scope.spawn(|| rest(&acts));
            let two = rest(&other);
            format!("{:?} {two:?}", one.join().expect("a reader"))
        })
    }),
    ("reset", |acts, other| {
        send(&acts, 1);
        (&other).read_exact(&mut [0]).expect("a byte");
        reset(acts);
        format!("{:?}", rest(&other).0)
    }),
];

/// The same for a writer whose reader has gone.
const STOPS: [(&str, Scenario); 3] = [
    ("reset while the other end sends", |acts, other| {
        send(&other, 1);
        (&acts).read_exact(&mut [0]).expect("a byte");
        reset(acts);
        format!("stopped: {}", is_stopped(&other))
    }),
    ("close while the other end sends", |acts, other| {
        send(&other, 1);
        (&acts).read_exact(&mut [0]).expect("a byte");
        drop(acts);
        format!("stopped: {}", is_stopped(&other))
    }),
    ("reset of an end that reads nothing", |acts, mut other| {
        other.set_nonblocking(true).expect("an option");
        let bytes = vec![0; 1 << 16];
        let mut idle = 0;
        while idle < 20 {
            match other.write(&bytes) {
                Ok(1..) => idle = 0,
                Ok(0) => panic!("a connection that takes nothing"),
                Err(_) => {
                    idle += 1;
                    thread::sleep(std::time::Duration::from_millis(5));
                }
            }
        }
        other.set_nonblocking(false).expect("an option");
        reset(acts);
        format!("stopped: {}", is_stopped(&other))
    }),
];

/// Resets, of which OpenSSH makes ends.
const RESETS: [(&str, Scenario); 2] = [
    ("reset", |acts, other| {
        send(&acts, 1);
        (&other).read_exact(&mut [0]).expect("a byte");
        reset(acts);
        format!("{:?}", rest(&other))
    }),
    (
        "answer and close before everything is read",
        |acts, other| {
            send(&other, 1000);
            while acts.peek(&mut [0; 1000]).expect("bytes") < 1000 {
                thread::yield_now();
            }
            send(&acts, 5);
            drop(acts);
            format!("{:?}", rest(&other))
        },
    ),
];

/// What the ends see through a pair of programs, in both directions.
fn all(
    scenarios: &[(&str, Scenario)],
    client: Forwarder,
    running: &Running,
) -> Result<Vec<String>, String> {
    let (local, remote) = (free_port(), free_port());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let to = listener.local_addr().expect("an address").port();
    let flags = [("-L", local), ("-R", remote)]
        .map(|(flag, port)| (flag, port, format!("{port}:127.0.0.1:{to}")));
    let specs = flags
        .each_ref()
        .map(|(flag, _, spec)| (*flag, spec.as_str()));
    let mut tunnel = Tunnel::start(client, running, &specs)?;
    let mut seen = Vec::new();
    for (flag, port, _) in &flags {
        for (name, scenario) in scenarios {
            for is_target in [false, true] {
                let ends = {
                    let from = connect(*port);
                    let (to, _) = listener.accept().expect("a connection");
                    for option in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
                        option(&from, Some(LIMIT)).expect("a limit");
                        option(&to, Some(LIMIT)).expect("a limit");
                    }
                    Ends { from, to }
                };
                let (who, outcome) = match is_target {
                    false => ("who connects", scenario(ends.from, ends.to)),
                    true => ("the target", scenario(ends.to, ends.from)),
                };
                seen.push(format!("{flag}, {name} of {who}: {outcome}"));
            }
        }
    }
    assert!(tunnel.is_running(), "{}", tunnel.log());
    Ok(seen)
}

/// A test that compares each pair with the first.
fn alike(
    scenarios: Vec<(&'static str, Scenario)>,
) -> impl FnMut(Forwarder, &Running) -> Result<(), String> {
    let mut standard: Option<Vec<String>> = None;
    move |client, running| {
        let seen = all(&scenarios, client, running)?;
        let standard = standard.get_or_insert_with(|| seen.clone());
        let differ: Vec<String> = standard
            .iter()
            .zip(&seen)
            .filter(|(wanted, seen)| wanted != seen)
            .map(|(wanted, seen)| format!("{seen}, and with OpenSSH {wanted}"))
            .collect();
        assert!(differ.is_empty(), "{}", differ.join("\n"));
        Ok(())
    }
}

#[test]
fn as_with_openssh() {
    with_suites(alike([&ENDS[..], &STOPS].concat()));
}

#[test]
fn as_with_openssh_and_asyncssh() {
    with_client(Forwarder::Asyncssh, alike([&ENDS[..], &STOPS].concat()));
    with_server(&AsyncsshServer, alike([&ENDS[..], &STOPS].concat()));
}

#[test]
fn as_with_openssh_and_go() {
    with_client(Forwarder::Go, alike([&ENDS[..], &STOPS].concat()));
}

#[test]
fn a_reset_stays_one_between_two_of_ours() {
    if Kind::tested() == Kind::OpenSsh {
        return skipped("resets", &"OpenSSH makes ends of them");
    }
    let running = openssh::start(Kind::tested(), "").expect("a server");
    let seen = all(&RESETS, Forwarder::Suite(Kind::tested()), &running).expect("a client");
    assert_eq!(seen.len(), 8);
    for line in seen {
        assert!(
            line.ends_with(r#": (0, "reset")"#) || line.ends_with(r#": (5, "reset")"#),
            "{line}"
        );
    }
}

// PuTTY 0.78 reads on for a socket that is gone. dropbear 2022.83 does not, but leaves the channel open, so
// that the writer waits for ever.

#[test]
fn as_with_openssh_and_plink() {
    with_client(Forwarder::Plink, alike(ENDS.to_vec()));
}

#[test]
fn as_with_openssh_and_dropbear() {
    with_client(Forwarder::Dbclient, alike(ENDS.to_vec()));
    with_server(&Dropbear, alike(ENDS.to_vec()));
}
