//! Connection sharing: passengers that flood their master or break the protocol towards its server.
//! None of them may hold up the others or end their sessions.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use interop::process::{Background, Input};
use interop::scratch::until;
use interop::shared::{LIMIT, Shared, assert_is, greet, ours, packet};
use interop::site::HOST;

/// A session that repeats lines.
struct Repeater {
    passenger: Background,
    output: BufReader<std::process::ChildStdout>,
}

impl Repeater {
    fn start(shared: &Shared) -> Self {
        let mut command = shared.command();
        command
            .args([HOST, "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut passenger = Background::start(&mut command).expect("ssh");
        let output = BufReader::new(passenger.0.stdout.take().expect("its output"));
        let mut repeater = Self { passenger, output };
        repeater.repeats("first");
        repeater
    }

    fn repeats(&mut self, word: &str) {
        let input = self.passenger.0.stdin.as_mut().expect("its input");
        writeln!(input, "{word}").expect("a pipe");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("its output");
        assert_eq!(line.trim(), word);
    }
}

/// The socket of a passenger in proxy mode.
fn proxy(shared: &Shared) -> UnixStream {
    let mut stream = greet(&shared.path());
    let request = packet(&[b"\x10\0\0\x0f\0\0\0\x01"]);
    stream.write_all(&request).expect("the master");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer[4..], b"\x80\0\0\x0f\0\0\0\x01");
    stream
}

/// Writes `message` again and again, and reads every answer, while a session is used and another one
/// starts.
fn floods(shared: &Shared, stream: &UnixStream, message: &[u8]) {
    let mut repeater = Repeater::start(shared);
    let is_over = AtomicBool::new(false);
    let many = message.repeat(65_536 / message.len());
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = stream;
            let mut bytes = vec![0; 65_536];
            while stream.read(&mut bytes).is_ok_and(|count| count > 0) {}
        });
        scope.spawn(|| {
            let mut stream = stream;
            // It ends early if the reader is too slow for the answers.
            while !is_over.load(Ordering::Relaxed) {
                if stream.write_all(&many).is_err() {
                    break;
                }
            }
            let _ = stream.shutdown(Shutdown::Both);
        });
        for number in 0..20 {
            repeater.repeats(&format!("word {number}"));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_passenger_that_never_pauses_holds_up_no_session() {
    let shared = ours("");
    let master = shared.start("");
    let alive = packet(&[b"\x10\0\0\x04\0\0\0\0"]);
    floods(&shared, &greet(&shared.path()), &alive);
    let status = packet(&[b"\x20\0\0\x01\0\0\0\0\0\0\0\x0aconnection"]);
    floods(&shared, &greet(&shared.path()), &status);
    // SSH_MSG_IGNORE, which goes nowhere, and a request that is answered.
    let ignored = packet(&[&[0, 2, 0, 0, 0, 0]]);
    floods(&shared, &proxy(&shared), &ignored);
    let unknown = packet(&[b"\0\x50\0\0\0\x01x\x01"]);
    floods(&shared, &proxy(&shared), &unknown);
    shared.ends(master);
}

#[test]
fn a_passenger_that_reads_nothing_holds_up_no_session() {
    let shared = ours("");
    let master = shared.start("");
    let mut repeater = Repeater::start(&shared);
    // One whose output nobody takes.
    let mut silent = shared.command();
    silent
        .args([HOST, "cat /dev/zero"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let silent = Background::start(&mut silent).expect("ssh");
    // One that asks and does not listen: its socket is closed.
    let mut deaf = greet(&shared.path());
    let status = packet(&[b"\x20\0\0\x01\0\0\0\0\0\0\0\x0aconnection"]);
    let many = status.repeat(1000);
    assert!(until(LIMIT, || deaf.write_all(&many).is_err()));
    for number in 0..20 {
        repeater.repeats(&format!("word {number}"));
    }
    drop(silent);
    let rides = shared.ride(&[HOST, "echo on"], Input::Nothing);
    assert_is(&rides, 0, "on\n");
    shared.ends(master);
}

/// A message of proxy mode.
fn proxied(words: &[&[u8]]) -> Vec<u8> {
    packet(&[&[&[0][..]], words].concat())
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
}

/// Opens a session's channel; returns the server's number and the most data that it takes in a
/// message.
fn open_channel(stream: &mut UnixStream) -> ([u8; 4], u32) {
    let open = b"\x5a\0\0\0\x07session\0\0\0\x07\0\0\x10\0\0\0\x10\0";
    stream.write_all(&proxied(&[open])).expect("the master");
    let mut head = [0; 4];
    stream.read_exact(&mut head).expect("a message");
    let mut message = vec![0; usize::try_from(number(&head)).expect("a length")];
    stream.read_exact(&mut message).expect("a message");
    assert_eq!(message[1..6], *b"\x5b\0\0\0\x07", "{message:?}");
    (
        message[6..10].try_into().expect("a number"),
        number(&message[14..18]),
    )
}

#[test]
fn a_passenger_in_proxy_mode_cannot_make_the_server_end_the_connection() {
    let shared = ours("");
    let master = shared.start("");
    let mut repeater = Repeater::start(&shared);
    let four = |value: u32| value.to_be_bytes();
    type Messages = Box<dyn Fn([u8; 4], u32) -> Vec<u8>>;
    let ways: [(&str, Messages); 11] = [
        (
            "data that is cut off",
            Box::new(|to, _| proxied(&[&[94], &to, b"\0\0\0\x09x"])),
        ),
        (
            "data after EOF",
            Box::new(|to, _| {
                let data = proxied(&[&[94], &to, b"\0\0\0\x01x"]);
                [proxied(&[&[96], &to]), data].concat()
            }),
        ),
        (
            "more data than a message may have",
            Box::new(move |to, most| {
                let size = usize::try_from(most).expect("a size") + 1;
                proxied(&[&[94], &to, &four(most + 1), &vec![0; size]])
            }),
        ),
        (
            "a window that is too large",
            Box::new(move |to, _| proxied(&[&[93], &to, &four(u32::MAX)]).repeat(2)),
        ),
        (
            "an answer to no request",
            Box::new(|to, _| proxied(&[&[99], &to])),
        ),
        (
            "a request that is cut off",
            Box::new(|to, _| proxied(&[&[98], &to, b"\0\0\0\x04exec\x01\0\0\0\x09x"])),
        ),
        (
            "a request without a name",
            Box::new(|to, _| proxied(&[&[98], &to, b"\0\0\0\x04ex"])),
        ),
        (
            "a command with NUL",
            Box::new(|to, _| proxied(&[&[98], &to, b"\0\0\0\x04exec\x01\0\0\0\x02x\0"])),
        ),
        (
            "a second terminal",
            Box::new(|to, _| {
                let request = proxied(&[&[98], &to, b"\0\0\0\x07pty-req\x01", &[0; 24]]);
                request.repeat(2)
            }),
        ),
        (
            "a channel with a field too many",
            Box::new(|_, _| {
                let limits = b"\0\0\0\x08\0\x10\0\0\0\0\x80\0";
                proxied(&[b"\x5a\0\0\0\x07session", limits, b"x"])
            }),
        ),
        (
            "DISCONNECT",
            Box::new(|_, _| proxied(&[&[1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]])),
        ),
    ];
    for (name, messages) in ways {
        let mut stream = proxy(&shared);
        let (to, most) = open_channel(&mut stream);
        let _ = stream.write_all(&messages(to, most));
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        let is_end = match read {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        };
        assert!(is_end, "{name}: the passenger stays");
        repeater.repeats(name);
    }
    shared.ends(master);
}

#[test]
fn a_request_that_fits_into_no_packet_ends_its_passenger_alone() {
    const LONGEST: usize = 256 << 10;
    let shared = ours("");
    // Compression makes random bytes longer.
    let master = shared.start("Compression yes\n");
    let mut repeater = Repeater::start(&shared);
    let four = |value: usize| u32::try_from(value).expect("a length").to_be_bytes();
    let filled = |before: &[u8], after: &[u8]| {
        let length = LONGEST - before.len() - 4 - after.len();
        let noise = interop::matrix::noise(length)
            .iter()
            .map(|byte| byte | 1)
            .collect::<Vec<u8>>();
        packet(&[before, &four(length), &noise, after])
    };
    let listen = filled(
        b"\x10\0\0\x06\0\0\0\x01\0\0\0\x02",
        b"\0\0\0\0\0\0\0\x01b\0\0\0\x16",
    );
    // Its number, a reserved text, four flags and the escape character.
    let session = |has_terminal: u8| {
        let flags = [[0, 0, 0, has_terminal], [0; 4], [0; 4], [0; 4]].concat();
        [b"\x10\0\0\x02", &[0; 8][..], &flags, &[0xff; 4]].concat()
    };
    let terminal = filled(&session(1), b"\0\0\0\x04true");
    let command = filled(&[session(0), four(0).to_vec()].concat(), b"");
    let null = fs::File::open("/dev/null").expect("a file");
    for (name, request, descriptors) in [
        ("listen", listen, 0),
        ("terminal", terminal, 3),
        ("command", command, 3),
    ] {
        let mut stream = greet(&shared.path());
        let _ = stream.write_all(&request);
        for _ in 0..descriptors {
            let _ = sys::socket::send_with_fds(&stream, &[0], &[null.as_fd()]);
        }
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        repeater.repeats(name);
    }
    let rides = shared.ride(&[HOST, "echo on"], Input::Nothing);
    assert_is(&rides, 0, "on\n");
    shared.ends(master);
}
