//! Determines with our client which datagrams one login can have forwarded.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use interop::peers::ours::Kind;
use interop::process::{Background, COMMAND_LIMIT};

use crate::place::Place;
use crate::row::{Outcomes, Row};
use crate::services::{GREETING, Services};

/// Time between looks at the client's messages.
const LOOK: Duration = Duration::from_millis(20);

/// The outcomes of `udp` and `remote-udp`: which of two ports are available (`*`: for all addresses).
///
/// # Panics
/// If the client does not run.
#[must_use]
pub fn outcomes(row: &Row, place: &Place, services: &Services) -> Outcomes {
    let local = [free_port(), free_port()];
    let mut command = Kind::Fulmar.ssh().expect("our client");
    command.arg("-F").arg(place.here.join("ssh_config"));
    for which in [0, 1] {
        let spec = format!(
            "udp/{}:{}:{}",
            local[which], row.host, services.ports[which]
        );
        command.args(["-L", &spec]);
        // The first requests no address, the second all.
        let (bind, port) = (["", "0.0.0.0:"][which], place.listen[which]);
        let target = services.ports[which];
        command.args(["-R", &format!("udp/{bind}{port}:127.0.0.1:{target}")]);
    }
    command
        .args(["-v", "-N", "-o", "LogLevel=DEBUG", "alone"])
        .env("SSH_ASKPASS", place.here.join("askpass"))
        .env("SSH_ASKPASS_REQUIRE", "force");
    let mut command = place.client(command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut client = Background::start(&mut command).expect("our client");
    let log = BufReader::new(client.0.stderr.take().expect("its messages"));
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in log.lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let mut messages = Messages {
        lines,
        all: Vec::new(),
    };
    let remote = place.listen.map(|port| listens(&mut messages, port));
    let mut open = [false; 2];
    for (port, open) in local.into_iter().zip(&mut open) {
        *open = is_answered(&mut messages, port);
    }
    let udp = named(open.map(|is| is.then_some("")));
    [("udp", udp), ("remote-udp", named(remote))].into()
}

fn named(found: [Option<&str>; 2]) -> String {
    let found: Vec<String> = ["A", "B"]
        .into_iter()
        .zip(found)
        .filter_map(|(name, mark)| Some(format!("{name}{}", mark?)))
        .collect();
    match found.is_empty() {
        true => "none".into(),
        false => found.join(" "),
    }
}

/// The client's messages so far.
struct Messages {
    lines: Receiver<String>,
    all: Vec<String>,
}

impl Messages {
    fn count(&mut self, text: &str) -> usize {
        self.all.extend(self.lines.try_iter());
        self.all.iter().filter(|line| line.contains(text)).count()
    }
}

/// True as soon as `is` returns a value; its absence within the limit is a failure.
fn awaited<T>(what: &str, mut is: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = is() {
            return value;
        }
        assert!(start.elapsed() < COMMAND_LIMIT, "{what}");
        thread::sleep(LOOK);
    }
}

/// `Some` if the server receives on this port, with `*` for all addresses.
fn listens(messages: &mut Messages, port: u16) -> Option<&'static str> {
    let granted = format!("remote forward success for: listen port udp/{port},");
    let refused = format!("remote port forwarding failed for listen port udp/{port}");
    let is_granted = awaited("no answer to a request to listen", || {
        let is_granted = messages.count(&granted) > 0;
        (is_granted || messages.count(&refused) > 0).then_some(is_granted)
    });
    // A socket of one address leaves the port of another one free.
    let other = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 3), port));
    is_granted.then_some(if other.is_err() { "*" } else { "" })
}

/// True if the greeting comes, false if the server refuses the flow.
fn is_answered(messages: &mut Messages, port: u16) -> bool {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.connect((Ipv4Addr::LOCALHOST, port)).expect("a peer");
    socket.set_nonblocking(true).expect("a mode");
    let before = messages.count("open failed");
    awaited("neither an answer nor a refusal", || {
        // The client may not listen yet.
        let _ = socket.send(b"?");
        let mut answer = [0; 64];
        let answered = socket.recv(&mut answer);
        let is_greeted = answered.is_ok_and(|count| &answer[..count] == GREETING.as_bytes());
        let is_refused = messages.count("open failed") > before;
        (is_greeted || is_refused).then_some(is_greeted)
    })
}

fn free_port() -> u16 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    socket.local_addr().expect("its number").port()
}
