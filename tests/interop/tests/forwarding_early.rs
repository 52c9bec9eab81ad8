//! Data that follows the request for a channel: between two Fulmars it reaches the target before any
//! answer, and with OpenSSH at either end it waits for the answer and arrives all the same.
//!
//! A relay between client and server holds one direction back, so that no answer can arrive.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use interop::forwarded::{LIMIT, Session, connect, socks5};
use interop::peers::ours::Kind;
use interop::process::Background;
use interop::scratch::{Scratch, free_port, retry, until};
use interop::site::{HOST, Site, each};

/// To the server, and back.
const UP: usize = 0;
const DOWN: usize = 1;

/// Forwards connections to a server, and holds a direction back on request.
struct Gate {
    port: u16,
    ways: Arc<[Way; 2]>,
}

#[derive(Default)]
struct Way {
    is_held: AtomicBool,
    passed: AtomicU64,
}

impl Gate {
    fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let ways = Arc::new([Way::default(), Way::default()]);
        let shared = ways.clone();
        // It ends with the process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else {
                    continue;
                };
                for (way, from, to) in [(UP, &client, &far), (DOWN, &far, &client)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
                        continue;
                    };
                    let shared = shared.clone();
                    thread::spawn(move || carry(from, to, &shared[way]));
                }
            }
        });
        Self { port, ways }
    }

    /// Holds back what comes from now on.
    fn hold(&self, way: usize) {
        self.ways[way].is_held.store(true, Ordering::SeqCst);
    }

    fn release(&self) {
        for way in &*self.ways {
            way.is_held.store(false, Ordering::SeqCst);
        }
    }

    fn passed(&self, way: usize) -> u64 {
        self.ways[way].passed.load(Ordering::SeqCst)
    }

    /// Arguments that lead a client of the site through it.
    fn arguments(&self, site: &Site) -> [String; 6] {
        [
            "-p".into(),
            self.port.to_string(),
            "-o".into(),
            format!("HostKeyAlias=[127.0.0.1]:{}", site.running.daemon.port),
            "-o".into(),
            "HostKeyAlgorithms=ssh-ed25519".into(),
        ]
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, way: &Way) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        while way.is_held.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(2));
        }
        way.passed.fetch_add(count as u64, Ordering::SeqCst);
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

/// A connection of either kind.
trait Socket: Read + Write + Send {}
impl<S: Read + Write + Send> Socket for S {}

/// A way through a tunnel: the flags, who connects, the target, and the direction that answers take.
struct Form {
    name: &'static str,
    flags: [String; 2],
    connects: Box<dyn Fn() -> Box<dyn Socket>>,
    target: Box<dyn Fn() -> Box<dyn Socket>>,
    answers: usize,
    /// Sent before the data.
    first: Vec<u8>,
    /// Comes back before the target's data.
    greeting: usize,
}

fn forms(scratch: &Scratch) -> Vec<Form> {
    let listener = Arc::new(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port"));
    listener.set_nonblocking(true).expect("an option");
    let to = listener.local_addr().expect("an address").port();
    let path = scratch.join("target");
    let unix = Arc::new(UnixListener::bind(&path).expect("a socket"));
    unix.set_nonblocking(true).expect("an option");
    let tcp_target = || -> Box<dyn Fn() -> Box<dyn Socket>> {
        let listener = listener.clone();
        Box::new(move || {
            let (stream, _) = retry(LIMIT, || listener.accept()).expect("a connection");
            stream.set_nonblocking(false).expect("an option");
            stream.set_read_timeout(Some(LIMIT)).expect("a limit");
            Box::new(stream)
        })
    };
    let unix_target = || -> Box<dyn Fn() -> Box<dyn Socket>> {
        let unix = unix.clone();
        Box::new(move || {
            let (stream, _) = retry(LIMIT, || unix.accept()).expect("a connection");
            stream.set_nonblocking(false).expect("an option");
            stream.set_read_timeout(Some(LIMIT)).expect("a limit");
            Box::new(stream)
        })
    };
    let mut forms = Vec::new();
    for (name, flag, answers) in [("-L", "-L", DOWN), ("-R", "-R", UP)] {
        let port = free_port();
        forms.push(Form {
            name,
            flags: [flag.into(), format!("{port}:127.0.0.1:{to}")],
            connects: Box::new(move || Box::new(connect(port))),
            target: tcp_target(),
            answers,
            first: Vec::new(),
            greeting: 0,
        });
        let entry = scratch.join(&format!("entry{flag}"));
        forms.push(Form {
            name,
            flags: [
                flag.into(),
                format!("{}:{}", entry.display(), path.display()),
            ],
            connects: Box::new(move || {
                let stream = retry(LIMIT, || UnixStream::connect(&entry)).expect("a socket");
                stream.set_read_timeout(Some(LIMIT)).expect("a limit");
                Box::new(stream)
            }),
            target: unix_target(),
            answers,
            first: Vec::new(),
            greeting: 0,
        });
    }
    let port = free_port();
    forms.push(Form {
        name: "-D with data behind the request",
        flags: ["-D".into(), port.to_string()],
        connects: Box::new(move || Box::new(connect(port))),
        target: tcp_target(),
        answers: DOWN,
        first: socks5(1, to),
        greeting: 12,
    });
    forms
}

#[test]
fn data_reaches_the_target_before_any_answer_between_two_of_ours() {
    each(|client, server| {
        let are_ours = client == Kind::Fulmar && server == Kind::Fulmar;
        let site = Site::new(client, server, "");
        let gate = Gate::to(site.running.daemon.port);
        let scratch = Scratch::new();
        let forms = forms(&scratch);
        let mut arguments = gate.arguments(&site).to_vec();
        arguments.extend(forms.iter().flat_map(|form| form.flags.clone()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut session = Session::start(&site, &arguments);
        for form in &forms {
            session.echoes("all requests are answered\n");
            if are_ours {
                gate.hold(form.answers);
            }
            let mut entry = (form.connects)();
            entry.write_all(&form.first).expect("a connection");
            entry.write_all(b"question").expect("a connection");
            let mut target = (form.target)();
            let mut came = [0; 8];
            target.read_exact(&mut came).expect(form.name);
            assert_eq!(&came, b"question", "{}", form.name);
            gate.release();
            target.write_all(b"answer").expect("a connection");
            let mut back = vec![0; form.greeting + 6];
            entry.read_exact(&mut back).expect(form.name);
            assert_eq!(&back[form.greeting..], b"answer", "{}", form.name);
        }
        session.ends();
    });
}

#[test]
fn the_input_of_w_is_sent_while_the_server_still_connects() {
    if Kind::tested() == Kind::OpenSsh {
        return;
    }
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let gate = Gate::to(site.running.daemon.port);
    // A target whose queue is full: it answers no connection until one is accepted.
    let listener = sys::socket::listen((Ipv4Addr::LOCALHOST, 0).into(), 0, true, false);
    let listener = listener.expect("a target");
    let address = sys::socket::local_address(&listener).expect("an address");
    let _queued = TcpStream::connect(address).expect("a place in the queue");
    // A pipelined login sends the request for the channel ahead, without data.
    let mut command = site.ssh("PipelineLogin no\n");
    command
        .args(gate.arguments(&site))
        .args(["-W", &address.to_string(), HOST])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut client = Background::start(&mut command).expect("a client");
    let mut input = client.0.stdin.take().expect("its input");
    input.write_all(&[b'x'; 20_000]).expect("an input");
    // A login sends less.
    let sent = until(LIMIT, || gate.passed(UP) > 20_000);
    assert!(sent, "{} bytes were sent", gate.passed(UP));
    // Nothing is lost when the target answers.
    let listener = TcpListener::from(listener);
    drop(listener.accept().expect("the one that waited"));
    let (mut target, _) = retry(LIMIT, || listener.accept()).expect("the forwarded one");
    target.set_nonblocking(false).expect("an option");
    target.set_read_timeout(Some(LIMIT)).expect("a limit");
    drop(input);
    let mut came = Vec::new();
    target.read_to_end(&mut came).expect("its data");
    assert!(came == [b'x'; 20_000], "{}", came.len());
    target.write_all(b"answer").expect("a connection");
    drop(target);
    let mut back = String::new();
    let mut output = client.0.stdout.take().expect("its output");
    output.read_to_string(&mut back).expect("an answer");
    assert_eq!(back, "answer");
}

#[test]
fn a_command_on_a_shared_connection_leaves_with_the_request_for_its_session() {
    for server in [Kind::Fulmar, Kind::OpenSsh] {
        if server.sshd().is_err() {
            continue;
        }
        let site = Site::new(Kind::Fulmar, server, "");
        let gate = Gate::to(site.running.daemon.port);
        let folder = Scratch::new();
        let path = folder.join("s");
        let lines = format!("ControlPath {}\n", path.display());
        let mut master = site.ssh(&lines);
        master.args(gate.arguments(&site)).args(["-M", "-N", HOST]);
        let master = Background::start(master.stdin(Stdio::null())).expect("ssh");
        assert!(until(LIMIT, || path.exists()), "no master");
        // No answer of the server arrives any more.
        gate.hold(DOWN);
        let marker = folder.join("marker");
        let mut rides = site.ssh(&lines);
        rides.args([HOST, &format!("cat; touch {}", marker.display())]);
        let mut rides = Background::start(rides.stdin(Stdio::null())).expect("ssh");
        let is_early = until(Duration::from_secs(4), || marker.exists());
        assert_eq!(is_early, server == Kind::Fulmar, "{}", server.name());
        gate.release();
        let ended = interop::process::wait(&mut rides.0, LIMIT).expect("its end");
        assert!(ended.success() && marker.exists(), "{}", server.name());
        drop(master);
    }
}
