//! Both ends of forwarded connections: targets, and those who connect to them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::thread;
use std::time::Duration;

use crate::process::{Background, COMMAND_LIMIT};
use crate::scratch::{Scratch, retry};
use crate::site::{HOST, Site};

/// The line of [`Does::Greet`].
pub const GREETING: &[u8] = b"greeting\n";
/// Time limit of a step on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(20);

/// What a target does with each connection.
#[derive(Clone, Copy, Debug)]
pub enum Does {
    /// Sends back what arrives, up to its end.
    Echo,
    /// Sends a line first, then echoes.
    Greet,
    /// Reads to the end, then sends the number of bytes.
    Count,
    /// Sends one byte and resets the connection.
    Reset,
    /// Sends 1 MiB and its end at once, and reads the rest slowly afterwards.
    SendFirst,
}

fn serve<S: Read + Write + std::os::fd::AsFd>(mut stream: S, does: Does, end: impl Fn(&S)) {
    let mut bytes = vec![0; 64 << 10];
    match does {
        Does::Echo | Does::Greet => {
            if matches!(does, Does::Greet) {
                let _ = stream.write_all(GREETING);
            }
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                if stream.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
        }
        Does::Count => {
            let mut total = 0;
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                total += count;
            }
            let _ = stream.write_all(format!("{total}\n").as_bytes());
        }
        Does::Reset => {
            let _ = stream.write_all(b"x");
            let _ = stream.read(&mut bytes[..1]);
            let _ = sys::socket::reset_on_close(&stream);
        }
        Does::SendFirst => {
            let _ = stream.write_all(&vec![b's'; 1 << 20]);
            end(&stream);
            let mut total = 0;
            while let Ok(count @ 1..) = stream.read(&mut bytes[..4096]) {
                total += count;
                thread::yield_now();
            }
            TOTAL.store(total, std::sync::atomic::Ordering::SeqCst);
        }
    }
}

/// Bytes that [`Does::SendFirst`] has read.
pub static TOTAL: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// A TCP target; returns its port.
///
/// # Panics
/// If there is no port.
#[must_use]
pub fn target(does: Does) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                serve(stream, does, |stream| {
                    let _ = stream.shutdown(Shutdown::Write);
                });
            });
        }
    });
    port
}

/// A target with a path.
///
/// # Panics
/// If the socket cannot be made.
#[must_use]
pub fn unix_target(scratch: &Scratch, does: Does) -> PathBuf {
    let path = scratch.join("target.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream, does, |_| {}));
        }
    });
    path
}

/// A client with forwardings whose session echoes lines.
#[derive(Debug)]
pub struct Session {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The client.
    pub client: Background,
}

impl Session {
    /// Starts it with these arguments, and waits until it is logged in.
    ///
    /// # Panics
    /// If it does not log in.
    #[must_use]
    pub fn start(site: &Site, arguments: &[&str]) -> Self {
        Self::with(site, "", arguments)
    }

    /// The same with `extra` configuration.
    ///
    /// # Panics
    /// If it does not log in.
    #[must_use]
    pub fn with(site: &Site, extra: &str, arguments: &[&str]) -> Self {
        let mut command = site.ssh(&format!("{extra}ExitOnForwardFailure yes\n"));
        command
            .args(arguments)
            .args([HOST, "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut client = Background::start(&mut command).expect("a client");
        let input = client.0.stdin.take().expect("its input");
        let output = BufReader::new(client.0.stdout.take().expect("its output"));
        let mut session = Self {
            input,
            output,
            client,
        };
        session.echoes("ready\n");
        session
    }

    /// Sends a line, and waits until the session returns it.
    ///
    /// # Panics
    /// If it does not.
    pub fn echoes(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).expect("a session");
        let mut got = String::new();
        self.output.read_line(&mut got).expect("its echo");
        assert_eq!(got, line);
    }

    /// Ends the session's input; the client ends with its last connection.
    ///
    /// # Panics
    /// If it does not end.
    pub fn ends(self) {
        let Self {
            input, mut client, ..
        } = self;
        drop(input);
        crate::process::wait(&mut client.0, COMMAND_LIMIT).expect("the client ends");
    }
}

/// Connects to a forwarded port.
///
/// # Panics
/// If nobody listens there.
#[must_use]
pub fn connect(port: u16) -> TcpStream {
    let stream = retry(LIMIT, || TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
    let stream = stream.expect("a forwarded port");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream
}

/// Sends bytes and the end of input, and returns everything that comes back.
///
/// # Panics
/// If the connection breaks.
pub fn exchange<S: Read + Write>(mut stream: S, bytes: &[u8], end: impl Fn(&S)) -> Vec<u8> {
    stream.write_all(bytes).expect("a connection");
    end(&stream);
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("an answer");
    back
}

/// [`exchange`] through a forwarded port.
///
/// # Panics
/// If the connection breaks.
#[must_use]
pub fn through(port: u16, bytes: &[u8]) -> Vec<u8> {
    exchange(connect(port), bytes, |stream| {
        stream.shutdown(Shutdown::Write).expect("half-close");
    })
}

/// [`exchange`] through a forwarded socket.
///
/// # Panics
/// If the connection breaks.
#[must_use]
pub fn through_unix(path: &std::path::Path, bytes: &[u8]) -> Vec<u8> {
    let stream = retry(LIMIT, || UnixStream::connect(path)).expect("a forwarded socket");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    exchange(stream, bytes, |stream| {
        stream.shutdown(Shutdown::Write).expect("half-close");
    })
}

/// A server of one page, `page`; returns its port.
///
/// # Panics
/// If there is no port.
#[must_use]
pub fn page() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || listener.incoming().flatten().for_each(serve_page));
    port
}

/// Answers a request for a page.
pub fn serve_page(mut stream: impl Read + Write) {
    let _ = stream.read(&mut [0; 1024]);
    let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\npage\n");
}

/// A SOCKS 5 request for a port of 127.0.0.1, with the greeting.
#[must_use]
pub fn socks5(command: u8, port: u16) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    vec![5, 1, 0, 5, command, 0, 1, 127, 0, 0, 1, high, low]
}
