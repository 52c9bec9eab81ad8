//! Forwarded connections beside others that stand still, in every direction at once, and without
//! descriptors.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use interop::forwarded::{Does, LIMIT, Session, connect, target, through};
use interop::peers::ours::Kind;
use interop::process::{Background, COMMAND_LIMIT, installed};
use interop::report::skipped;
use interop::scratch::free_port;
use interop::site::{HOST, Site, each};

/// Bytes of a stream: more than the windows and buffers between two ends.
const BULK: usize = 12 << 20;
/// Time after which a connection to a target counts as not answered.
const SILENCE: Duration = Duration::from_millis(300);
/// Pause of a reader that is slow.
const PAUSE: Duration = Duration::from_millis(10);
/// Time for which the CPU time of a program is measured.
const MEASURED: Duration = Duration::from_secs(1);
/// Clock ticks of /proc/PID/stat in a second.
const TICKS: u64 = 100;

/// The byte at this place of a stream.
fn byte(at: usize) -> u8 {
    u8::try_from((at * 7 + at / 251) % 256).expect("a byte")
}

/// Writes a stream and its end while it reads what comes back.
fn both_ways(port: u16) {
    let mut stream = connect(port);
    let mut writer = stream.try_clone().expect("a descriptor");
    let writing = thread::spawn(move || {
        let bytes: Vec<u8> = (0..BULK).map(byte).collect();
        writer.write_all(&bytes).expect("a connection");
        writer.shutdown(Shutdown::Write).expect("half-close");
    });
    let mut back = Vec::new();
    stream.read_to_end(&mut back).expect("what was sent");
    writing.join().expect("a writer");
    assert_eq!(back.len(), BULK);
    let wrong = back
        .iter()
        .enumerate()
        .find(|(at, found)| **found != byte(*at));
    assert_eq!(wrong, None);
}

/// Writes until nothing more is accepted, and reads nothing.
fn stuck(port: u16) -> TcpStream {
    let mut stream = connect(port);
    stream.set_nonblocking(true).expect("an option");
    let bytes = vec![0; 64 << 10];
    let mut idle = 0;
    while idle < 100 {
        match stream.write(&bytes) {
            Ok(count) => {
                assert!(count > 0, "the forwarded connection takes nothing");
                idle = 0;
            }
            Err(_) => {
                idle += 1;
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
    stream
}

/// A loop that waits for one channel's reader, or that reads while it cannot write, ends in a deadlock.
#[test]
fn bulk_in_every_direction_at_once_arrives_beside_a_reader_that_stands_still() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let (local, remote) = (free_port(), free_port());
        let echo = target(Does::Echo);
        let mut session = Session::start(
            &site,
            &[
                "-L",
                &format!("{local}:127.0.0.1:{echo}"),
                "-R",
                &format!("{remote}:127.0.0.1:{echo}"),
                "-o",
                "RekeyLimit=4M",
            ],
        );
        let _stuck = [stuck(local), stuck(remote)];
        thread::scope(|scope| {
            let ports = [local, remote, local, remote];
            let streams = ports.map(|port| scope.spawn(move || both_ways(port)));
            for number in 0..10 {
                session.echoes(&format!("line {number}\n"));
                assert_eq!(through([local, remote][number % 2], b"small"), b"small");
            }
            for stream in streams {
                stream.join().expect("a stream");
            }
        });
        session.echoes("the last line\n");
    });
}

/// A listener whose queue is full: the system drops the packets of further connections.
struct SilentTarget {
    port: u16,
    _listener: OwnedFd,
    _queued: Vec<TcpStream>,
}

impl SilentTarget {
    fn new() -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = sys::socket::listen(any, 0, true, false).expect("a listener");
        let address = sys::socket::local_address(&listener).expect("its address");
        let mut queued = Vec::new();
        loop {
            match TcpStream::connect_timeout(&address, SILENCE) {
                Ok(stream) => queued.push(stream),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::TimedOut);
                    break;
                }
            }
            assert!(queued.len() < 64, "the system answers for a full queue");
        }
        Self {
            port: address.port(),
            _listener: listener,
            _queued: queued,
        }
    }
}

#[test]
fn a_target_that_never_answers_stops_none_of_a_hundred_connections() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let silent = SilentTarget::new();
        let (waits, echo, socks) = (free_port(), free_port(), free_port());
        let mut session = Session::start(
            &site,
            &[
                "-L",
                &format!("{waits}:127.0.0.1:{}", silent.port),
                "-L",
                &format!("{echo}:127.0.0.1:{}", target(Does::Echo)),
                "-D",
                &socks.to_string(),
            ],
        );
        let mut live: Vec<TcpStream> = (0..100).map(|_| connect(echo)).collect();
        let _waiting: Vec<TcpStream> = (0..10).map(|_| connect(waits)).collect();
        let mut asking = connect(socks);
        let request = interop::forwarded::socks5(1, silent.port);
        asking.write_all(&request).expect("a request");
        for round in 0..5 {
            for stream in &mut live {
                stream.write_all(&[round]).expect("a connection");
                let mut back = [0];
                stream.read_exact(&mut back).expect("an echo");
                assert_eq!(back, [round]);
            }
            session.echoes(&format!("line {round}\n"));
        }
    });
}

/// A target that sends [`BULK`] bytes to each connection and ends it.
fn source() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let bytes: Vec<u8> = (0..BULK).map(byte).collect();
                let _ = stream.write_all(&bytes);
            });
        }
    });
    port
}

/// As a display does that is drawn in the background: the window opens again for small pieces, and in full
/// when its reader is fast.
#[test]
fn a_reader_that_was_slow_gets_the_rest_when_it_is_fast() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let (local, remote) = (free_port(), free_port());
        let to = source();
        let session = Session::start(
            &site,
            &[
                "-L",
                &format!("{local}:127.0.0.1:{to}"),
                "-R",
                &format!("{remote}:127.0.0.1:{to}"),
            ],
        );
        for port in [local, remote] {
            let mut stream = connect(port);
            let mut came = Vec::new();
            while came.len() < 100 {
                let mut one = [0];
                stream.read_exact(&mut one).expect("a byte");
                came.extend(one);
                thread::sleep(PAUSE);
            }
            stream.read_to_end(&mut came).expect("the rest");
            assert_eq!(came.len(), BULK);
            let wrong = came
                .iter()
                .enumerate()
                .find(|(at, found)| **found != byte(*at));
            assert_eq!(wrong, None);
        }
        session.ends();
    });
}

/// CPU time of a process so far, clock ticks.
fn ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let (_, rest) = stat.rsplit_once(')').expect("its name");
    // utime and stime, proc_pid_stat(5).
    let fields = rest.split_ascii_whitespace().skip(11).take(2);
    fields
        .map(|ticks| ticks.parse::<u64>().expect("ticks"))
        .sum()
}

/// What waits stays in the queue of the listener and is served later.
#[test]
fn without_descriptors_a_listener_pauses_says_so_once_and_goes_on() {
    let Some(prlimit) = installed("prlimit") else {
        return skipped("a limit of descriptors", &"prlimit is not installed");
    };
    each(|client, server| {
        // OpenSSH's client says it for each connection.
        if client != Kind::Fulmar {
            return;
        }
        let site = Site::new(client, server, "");
        let port = free_port();
        let plain = site.ssh("LogLevel ERROR\n");
        let mut command = Command::new(&prlimit);
        command
            .args(["--nofile=48:48", "--"])
            .arg(plain.get_program())
            .args(plain.get_args())
            .args([
                "-N",
                "-L",
                &format!("{port}:127.0.0.1:{}", target(Does::Echo)),
            ])
            .arg(HOST)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let mut running = Background::start(&mut command).expect("a client");
        let messages = BufReader::new(running.0.stderr.take().expect("its messages"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in messages.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let streams: Vec<TcpStream> = (0..80).map(|_| connect(port)).collect();
        for mut stream in &streams {
            stream.write_all(b"x").expect("a connection that waits");
        }
        let said = lines.recv_timeout(COMMAND_LIMIT).expect("a message");
        assert!(
            said.starts_with("accept: ") && said.ends_with("; trying again"),
            "{said}"
        );
        let pid = running.0.id();
        let before = ticks(pid);
        thread::sleep(MEASURED);
        let used = ticks(pid) - before;
        assert!(used < TICKS / 2, "{used} ticks of CPU time in a second");
        assert_eq!(lines.try_recv().ok(), None);
        for mut stream in streams {
            stream.set_read_timeout(Some(LIMIT)).expect("a limit");
            let mut back = [0];
            stream.read_exact(&mut back).expect("an echo in the end");
            assert_eq!(&back, b"x");
        }
    });
}
