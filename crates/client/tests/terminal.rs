//! The user's side: the client on its own pseudo-terminal, with input typed by the test.

mod support;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use driver::Driver;
use proto::channel::Request;
use proto::{Event, Stream};
use sys::process::{Child, ChildCommand, ExitStatus};
use sys::pty::Pty;
use sys::terminal::{WindowSize, attributes, encode_modes, set_window_size};

use support::{Scratch, Scripted, client_program, next_event, next_request, serve_session};

/// Time limit for output that must arrive; far above the usual time.
const PATIENCE: Duration = Duration::from_secs(60);

struct Screen {
    /// Where the client's files are, if the screen owns the place.
    scratch: Option<Scratch>,
    pty: Pty,
    child: Child,
    seen: Vec<u8>,
}

impl Screen {
    /// The client with a terminal of 100 columns and 40 rows.
    fn start(scratch: &Scratch, port: u16, arguments: &[&str]) -> Self {
        let pty = Pty::open().unwrap();
        let size = WindowSize {
            columns: 100,
            rows: 40,
            width_px: 0,
            height_px: 0,
        };
        set_window_size(&pty.slave, size).unwrap();
        let program = client_program();
        let known = scratch.path("known_hosts");
        let known = format!("-oUserKnownHostsFile={}", known.display());
        let port = port.to_string();
        let mut command = ChildCommand::new(&program);
        command
            .args(["ssh", "-F", "none", "-oStrictHostKeyChecking=accept-new"])
            .args([known.as_str(), "-oGlobalKnownHostsFile=none"])
            .args(["-oIdentityAgent=none", "-p", &port])
            .args(arguments)
            .args(["127.0.0.1"])
            .env("TERM", "vt220")
            .env("HOME", &scratch.0)
            .new_session()
            .fd_shared(&pty.slave, 0)
            .fd_shared(&pty.slave, 1)
            .fd_shared(&pty.slave, 2)
            .controlling_terminal(0);
        let child = command.spawn().unwrap();
        Self {
            scratch: None,
            pty,
            child,
            seen: Vec::new(),
        }
    }

    /// Ends the connection with the escape sequence.
    fn leaves(mut self) {
        self.type_in("\r~.");
        self.expect("Connection to 127.0.0.1 closed.");
        assert_eq!(self.end(), 255);
    }

    /// Reads until `text` was shown and returns the text before it.
    fn expect(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self
                .seen
                .windows(text.len())
                .position(|part| part == text.as_bytes());
            if let Some(at) = found {
                let before = String::from_utf8_lossy(&self.seen[..at]).into_owned();
                self.seen.drain(..at + text.len());
                return before;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let ready = sys::io::wait_readable(self.pty.master.as_fd(), Some(left)).unwrap();
            assert!(
                ready,
                "{text:?} did not come; seen: {}",
                String::from_utf8_lossy(&self.seen)
            );
            let mut buffer = [0_u8; 4096];
            let count = sys::io::read(&self.pty.master, &mut buffer).unwrap_or(0);
            self.seen.extend_from_slice(&buffer[..count]);
        }
    }

    fn type_in(&self, text: &str) {
        sys::io::write_all(&self.pty.master, text.as_bytes()).unwrap();
    }

    /// Whether the terminal echoes: ECHO (opcode 53) in its encoded modes.
    fn echoes(&self) -> bool {
        let modes = encode_modes(&attributes(&self.pty.slave).unwrap());
        modes.chunks_exact(5).any(|mode| mode == [53, 0, 0, 0, 1])
    }

    fn end(mut self) -> u8 {
        match self.child.wait().unwrap() {
            ExitStatus::Exited(code) => code,
            other => panic!("{other:?}"),
        }
    }
}

/// A client at the prompt of a [`parrot`].
fn at_the_shell() -> (Scripted, std::sync::mpsc::Receiver<Request>, Screen) {
    let scratch = Scratch::new();
    let (server, requests) = parrot();
    let mut screen = Screen::start(&scratch, server.port, &[]);
    screen.expect("ready\r\n");
    screen.scratch = Some(scratch);
    (server, requests, screen)
}

/// A server that lets everybody in and accepts each channel; `serve` gets the other events.
fn accepting(mut serve: impl FnMut(&mut Driver, Event) + Send + 'static) -> Scripted {
    Scripted::start(move |driver| {
        next_request(driver).unwrap();
        driver.connection().auth_success().unwrap();
        while let Some(event) = next_event(driver) {
            match event {
                Event::ChannelOpenRequest { channel, .. } => {
                    driver.connection().accept_channel(channel).unwrap();
                }
                event => serve(driver, event),
            }
        }
    })
}

/// A shell that greets, repeats what is typed in brackets, and ends with status 4 on `q`.
fn parrot() -> (Scripted, std::sync::mpsc::Receiver<Request>) {
    let (requests, received_requests) = std::sync::mpsc::channel();
    let server = accepting(move |driver, event| {
        let connection = driver.connection();
        match event {
            Event::ChannelRequest {
                channel,
                request,
                want_reply,
            } => {
                if want_reply {
                    connection.channel_reply(channel, true).unwrap();
                }
                if request == Request::Shell {
                    let greeting = b"ready\r\n";
                    connection
                        .channel_send_slice(channel, Stream::Data, greeting)
                        .unwrap();
                }
                // A test that has seen enough no longer listens.
                let _ = requests.send(request);
            }
            Event::ChannelData { channel, data, .. } => {
                connection.channel_consumed(channel, data.len()).unwrap();
                let text = format!("[{}]", String::from_utf8_lossy(&data).escape_debug());
                connection
                    .channel_send_slice(channel, Stream::Data, text.as_bytes())
                    .unwrap();
                if data.ends_with(b"q") {
                    let status = Request::ExitStatus { status: 4 };
                    connection.channel_request(channel, &status, false).unwrap();
                    connection.channel_close(channel).unwrap();
                }
            }
            _ => {}
        }
    });
    (server, received_requests)
}

#[test]
fn a_shell_gets_the_terminal_and_gives_it_back() {
    let (server, requests, mut screen) = at_the_shell();
    match requests.recv().unwrap() {
        Request::Pty {
            term,
            columns,
            rows,
            modes,
            ..
        } => {
            assert_eq!((term.as_slice(), columns, rows), (&b"vt220"[..], 100, 40));
            // The modes are restored: with echo.
            assert!(modes.chunks_exact(5).any(|mode| mode == [53, 0, 0, 0, 1]));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(requests.recv().unwrap(), Request::Shell);
    assert!(!screen.echoes());
    screen.type_in("\x03");
    screen.expect("[\\u{3}]");
    let size = WindowSize {
        columns: 132,
        rows: 50,
        width_px: 0,
        height_px: 0,
    };
    set_window_size(&screen.pty.slave, size).unwrap();
    match requests.recv().unwrap() {
        Request::WindowChange { columns, rows, .. } => assert_eq!((columns, rows), (132, 50)),
        other => panic!("{other:?}"),
    }
    screen.type_in("q");
    screen.expect("[q]");
    closes(screen, 4);
    server.finish();
}

/// The client says that the connection has ended, restores the terminal and ends with this status.
fn closes(mut screen: Screen, status: u8) {
    screen.expect("Connection to 127.0.0.1 closed.\r\n");
    assert!(screen.echoes());
    assert_eq!(screen.end(), status);
}

#[test]
fn escapes_act_at_the_start_of_a_line_only() {
    let (server, requests, mut screen) = at_the_shell();
    screen.type_in("a~?");
    screen.expect("[a~?]");
    screen.type_in("\r~?");
    screen.expect("Supported escape sequences:\r\n");
    screen.type_in("~~");
    screen.expect("[~]");
    screen.type_in("\r~#");
    screen.expect(
        "The following connections are open:\r\n  #0 client-session (session:shell, open, ",
    );
    screen.type_in("~R~B");
    screen.expect("~B\r\n");
    let broke = requests
        .iter()
        .find(|request| matches!(request, Request::Break { .. }));
    assert_eq!(broke, Some(Request::Break { ms: 1000 }));
    screen.type_in("~.");
    closes(screen, 255);
    server.finish();
}

#[test]
fn another_escape_character_or_none_leaves_the_tilde_alone() {
    for (escape, typed, shown) in [
        ("^]", "\x1d?", "Supported escape sequences"),
        ("none", "~?", "[~?]"),
    ] {
        let scratch = Scratch::new();
        let (server, _requests) = parrot();
        let mut screen = Screen::start(&scratch, server.port, &["-e", escape]);
        screen.expect("ready\r\n");
        screen.type_in(typed);
        screen.expect(shown);
        screen.type_in("q");
        screen.expect("[q]");
        assert_eq!(screen.end(), 4);
        server.finish();
    }
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let (server, _requests, mut screen) = at_the_shell();
    assert!(!screen.echoes());
    screen.child.signal(sys::signals::Signal::TERM).unwrap();
    assert_eq!(screen.child.wait().unwrap(), ExitStatus::Exited(255));
    assert!(screen.echoes());
    server.finish();
}

#[test]
fn a_password_is_asked_on_the_terminal_without_echo() {
    let scratch = Scratch::new();
    let server = Scripted::start(|driver| {
        while let Some(request) = next_request(driver) {
            match request.method {
                proto::AuthMethod::Password { password, .. } if &password[..] == b"sesame" => {
                    driver.connection().auth_success().unwrap();
                    return serve_session(driver, |driver, channel, _| {
                        driver.connection().channel_close(channel).unwrap();
                    });
                }
                _ => driver
                    .connection()
                    .auth_failure(&["password"], false)
                    .unwrap(),
            }
        }
    });
    let mut screen = Screen::start(&scratch, server.port, &["-l", "ann"]);
    screen.expect("ann@127.0.0.1's password: ");
    assert!(!screen.echoes());
    screen.type_in("wrong\n");
    screen.expect("Permission denied, please try again.");
    screen.expect("ann@127.0.0.1's password: ");
    screen.type_in("sesame\n");
    assert_eq!(screen.end(), 255);
    server.finish();
}

/// A shell that reports, for each piece of input, the piece and the number of bytes received from
/// the client so far, and repeats it in brackets; it first reports that number at its start.
fn measuring_parrot() -> (Scripted, std::sync::mpsc::Receiver<(Vec<u8>, u64)>) {
    let (measures, received_measures) = std::sync::mpsc::channel();
    let server = accepting(move |driver, event| {
        let received = driver.wire_bytes().0;
        let connection = driver.connection();
        match event {
            Event::ChannelRequest {
                channel,
                request,
                want_reply: true,
            } => {
                if request == Request::Shell {
                    let _ = measures.send((Vec::new(), received));
                }
                connection.channel_reply(channel, true).unwrap();
            }
            Event::ChannelData { channel, data, .. } => {
                let _ = measures.send((data.to_vec(), received));
                let text = format!("[{}]", String::from_utf8_lossy(&data));
                connection.channel_consumed(channel, data.len()).unwrap();
                connection
                    .channel_send_slice(channel, Stream::Data, text.as_bytes())
                    .unwrap();
            }
            _ => {}
        }
    });
    (server, received_measures)
}

/// A client whose keystrokes all have the same size on the wire.
fn typist(scratch: &Scratch, server: &Scripted, obscured: &str) -> Screen {
    let option = format!("-oObscureKeystrokeTiming={obscured}");
    let options = ["-vvv", "-caes128-gcm@openssh.com", &option];
    Screen::start(scratch, server.port, &options)
}

/// Size of one keystroke on the wire: a length, a block, a tag.
const KEY_BYTES: u64 = 4 + 16 + 16;

#[test]
fn keys_are_followed_by_pings_that_look_like_them() {
    let (server, measures) = measuring_parrot();
    let scratch = Scratch::new();
    let mut screen = typist(&scratch, &server, "interval:10");
    screen.expect("keystroke timing is hidden");
    screen.expect("Start): true");
    let (_, before) = measures.recv().unwrap();
    // There are fewer pings if the machine delays the client, but not every time. The echo may
    // arrive when the client is at rest already.
    let mut pings = 0;
    for keys in 1..=20 {
        screen.type_in("a");
        assert_eq!(measures.recv().unwrap().0, b"a");
        screen.expect("keystroke timing: at rest after ");
        let all: u64 = screen.expect(" pings").parse().unwrap();
        let new = all - pings;
        pings = all;
        if new > 10 {
            break;
        }
        assert!(keys < 20, "{new} pings in more than a second");
    }
    screen.type_in("b");
    let (key, after) = measures.recv().unwrap();
    assert_eq!(key, b"b");
    // Pings after the last key may have arrived with it.
    assert!(after - before >= (pings + 2) * KEY_BYTES);
    assert_eq!((after - before) % KEY_BYTES, 0);
    screen.leaves();
    server.finish();
}

#[test]
fn everything_that_is_typed_arrives_in_order_whatever_its_rhythm() {
    let (server, measures) = measuring_parrot();
    let scratch = Scratch::new();
    let options = ["-vvv", "-o", "ObscureKeystrokeTiming=interval:5"];
    let mut screen = Screen::start(&scratch, server.port, &options);
    screen.expect("Start): true");
    let mut typed = String::new();
    for number in 0..40 {
        // A few keys at a time, and sometimes a paste.
        let piece = match number % 10 {
            9 => "pasted ".repeat(50),
            _ => format!("{number},"),
        };
        screen.type_in(&piece);
        typed.push_str(&piece);
    }
    let mut arrived = Vec::new();
    while arrived.len() < typed.len() {
        arrived.extend(measures.recv().unwrap().0);
    }
    assert_eq!(String::from_utf8(arrived).unwrap(), typed);
    screen.leaves();
    server.finish();
}

#[test]
fn keys_leave_at_once_and_alone_where_their_timing_is_not_hidden() {
    let (server, measures) = measuring_parrot();
    let scratch = Scratch::new();
    let mut screen = typist(&scratch, &server, "no");
    let log = screen.expect("Start): true");
    assert!(!log.contains("keystroke timing"), "{log}");
    let (_, mut before) = measures.recv().unwrap();
    for key in ["a", "b", "c", "d"] {
        screen.type_in(key);
        let (data, received) = measures.recv().unwrap();
        assert_eq!(data, key.as_bytes());
        assert_eq!(received - before, KEY_BYTES);
        before = received;
        let log = screen.expect(&format!("[{key}]"));
        assert!(!log.contains("keystroke timing"), "{log}");
    }
    screen.leaves();
    server.finish();
}
