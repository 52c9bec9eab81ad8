//! Messages of a login that the client sends before the server's answers.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Fixture, PATIENCE, Scratch};
use fulmar::client::{Auth, AuthProof, Config, LoginCache, Session};

const KEXINIT: u8 = 20;
const NEWKEYS: u8 = 21;
const KEX_ECDH_INIT: u8 = 30;

/// What the relay does with the server's bytes once the client has sent NEWKEYS.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Forward,
    /// Forwards them when the test says so.
    Hold,
    /// Ends the client's connection when the test says so.
    Cut,
}

/// A relay between client and server, which reads the packets that are not encrypted.
struct Relay {
    port: u16,
    /// Numbers of the client's messages up to NEWKEYS, by connection.
    messages: Arc<Mutex<Vec<Vec<u8>>>>,
    then: Arc<Mutex<Then>>,
    go: Sender<()>,
}

impl Relay {
    fn start(server: u16) -> Self {
        Self::to(&Arc::new(Mutex::new(server)))
    }

    /// A relay to the port that `server` has when a client connects.
    fn to(server: &Arc<Mutex<u16>>) -> Self {
        let server = Arc::clone(server);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (go, wait) = channel();
        let relay = Self {
            port: listener.local_addr().unwrap().port(),
            messages: Arc::default(),
            then: Arc::new(Mutex::new(Then::Forward)),
            go,
        };
        let (messages, then) = (Arc::clone(&relay.messages), Arc::clone(&relay.then));
        let wait = Arc::new(Mutex::new(wait));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                messages.lock().unwrap().push(Vec::new());
                let then = *then.lock().unwrap();
                let server = *server.lock().unwrap();
                carry(client.unwrap(), server, &messages, then, &wait);
            }
        });
        relay
    }

    fn first_flight(&self, connection: usize) -> Vec<u8> {
        self.messages.lock().unwrap()[connection].clone()
    }

    fn connect(&self, config: Config) -> Session {
        Session::connect("127.0.0.1", self.port, config).unwrap()
    }
}

/// Carries one connection; returns at once.
fn carry(
    client: TcpStream,
    server: u16,
    messages: &Arc<Mutex<Vec<Vec<u8>>>>,
    then: Then,
    wait: &Arc<Mutex<Receiver<()>>>,
) {
    let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
    let (messages, wait) = (Arc::clone(messages), Arc::clone(wait));
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let is_past_newkeys = Arc::new(AtomicBool::new(false));
    let is_held = Arc::clone(&is_past_newkeys);
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            text.extend_from_slice(&buffer[..count]);
            let numbers = numbers(&text);
            is_past_newkeys.store(numbers.contains(&NEWKEYS), Ordering::SeqCst);
            *messages.lock().unwrap().last_mut().unwrap() = numbers;
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
    std::thread::spawn(move || {
        let (mut from, mut to) = (server, client);
        let mut buffer = [0; 4096];
        let mut then = then;
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if then != Then::Forward && is_held.load(Ordering::SeqCst) {
                let _ = wait.lock().unwrap().recv_timeout(PATIENCE);
                if then == Then::Cut {
                    break;
                }
                then = Then::Forward;
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// The numbers of the plain messages after the version line, up to NEWKEYS.
fn numbers(text: &[u8]) -> Vec<u8> {
    let mut numbers = Vec::new();
    let Some(line) = text.iter().position(|byte| *byte == b'\n') else {
        return numbers;
    };
    let mut rest = &text[line + 1..];
    while let [a, b, c, d, _, number, ..] = *rest
        && !numbers.contains(&NEWKEYS)
    {
        numbers.push(number);
        let length = 4 + u32::from_be_bytes([a, b, c, d]) as usize;
        rest = rest.get(length..).unwrap_or_default();
    }
    numbers
}

fn wait_until(mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < PATIENCE, "it never happened");
        std::thread::yield_now();
    }
}

fn served(fixture: &Fixture) -> u32 {
    fixture.commands.served.load(Ordering::SeqCst)
}

fn with_cache(fixture: &Fixture, cache: &LoginCache) -> Config {
    let mut config = fixture.config();
    config.login_cache = Some(cache.clone());
    config
}

#[test]
fn the_second_login_guesses_the_key_exchange() {
    let fixture = Fixture::start();
    let scratch = Scratch::new("profiles");
    for cache in [
        LoginCache::in_memory(),
        LoginCache::at(scratch.path("profiles")),
    ] {
        let relay = Relay::start(fixture.port);
        for _ in 0..2 {
            let mut session = relay.connect(with_cache(&fixture, &cache));
            let key = Auth::Key(&fixture.user_key);
            assert_eq!(session.authenticate("mia", key).unwrap(), AuthProof::Proven);
            assert_eq!(session.run("echo yes").unwrap().stdout, b"yes\n");
        }
        // A KEXINIT without a guess waits for the server's.
        for connection in 0..2 {
            let flight = relay.first_flight(connection);
            assert_eq!(flight, [KEXINIT, KEX_ECDH_INIT, NEWKEYS], "{connection}");
        }
    }
    let text = std::fs::read_to_string(scratch.path("profiles")).unwrap();
    assert!(text.contains("mia@[127.0.0.1]:"), "{text}");
}

/// A server that sends nothing sees whether the client guesses.
#[test]
fn a_guess_leaves_before_the_servers_first_byte_and_only_with_a_profile() {
    let fixture = Fixture::start();
    let cache = LoginCache::in_memory();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let target = fixture.port;
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            if count.fetch_add(1, Ordering::SeqCst) == 0 {
                let messages = Arc::new(Mutex::new(vec![Vec::new()]));
                let wait = Arc::new(Mutex::new(channel().1));
                carry(client, target, &messages, Then::Forward, &wait);
                continue;
            }
            let mut text = Vec::new();
            let mut buffer = [0; 4096];
            while numbers(&text).len() < 2 {
                match client.read(&mut buffer) {
                    Ok(count @ 1..) => text.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            tell.send(numbers(&text)).unwrap();
        }
    });
    let connect = |config| Session::connect("127.0.0.1", port, config);
    let mut first = connect(with_cache(&fixture, &cache)).unwrap();
    first
        .authenticate("mia", Auth::Key(&fixture.user_key))
        .unwrap();
    assert!(connect(with_cache(&fixture, &cache)).is_err());
    assert_eq!(told.recv().unwrap(), [KEXINIT, KEX_ECDH_INIT]);
    let mut without = fixture.config();
    without.handshake_timeout = Duration::from_millis(200);
    assert!(connect(without).is_err());
    assert_eq!(told.recv().unwrap(), [KEXINIT]);
}

#[test]
fn a_command_runs_before_the_client_has_any_answer_to_its_login() {
    let fixture = Fixture::start();
    let relay = Relay::start(fixture.port);
    *relay.then.lock().unwrap() = Then::Hold;
    let mut session = relay.connect(fixture.config());
    let channel = std::thread::scope(|scope| {
        let started = scope.spawn(|| {
            let start = session.authenticate_and_start("mia", Auth::Key(&fixture.user_key));
            start.env("A", "b").exec("echo early")
        });
        wait_until(|| served(&fixture) == 1);
        relay.go.send(()).unwrap();
        started.join().unwrap().unwrap()
    });
    assert_eq!(channel.output(100).unwrap().stdout, b"early\n");
    assert_eq!(session.proof(), Some(AuthProof::Proven));
    assert_eq!(session.run("echo later").unwrap().stdout, b"later\n");
    assert_eq!(served(&fixture), 2);
}

#[test]
fn a_refused_login_starts_nothing_and_another_method_may_follow() {
    let fixture = Fixture::start();
    let strange = fulmar::keys::PrivateKey::generate(fulmar::keys::KeySpec::Ed25519).unwrap();
    let mut session = fixture.connect();
    let start = session.authenticate_and_start("mia", Auth::Key(&strange));
    let refused = start.exec("echo no").unwrap_err();
    assert!(matches!(refused, fulmar::Error::AuthRefused { .. }));
    let start = session.authenticate_and_start("mia", Auth::Password(common::PASSWORD));
    let channel = start.exec("echo yes").unwrap();
    assert_eq!(channel.output(100).unwrap().stdout, b"yes\n");
    assert_eq!(served(&fixture), 1);
}

#[test]
fn a_command_that_may_have_run_is_not_sent_again_and_the_next_login_is_careful() {
    let fixture = Fixture::start();
    let scratch = Scratch::new("careful");
    let cache = LoginCache::at(scratch.path("profiles"));
    let relay = Relay::start(fixture.port);
    *relay.then.lock().unwrap() = Then::Cut;
    let mut session = relay.connect(with_cache(&fixture, &cache));
    let error = std::thread::scope(|scope| {
        let started = scope.spawn(|| {
            let start = session.authenticate_and_start("mia", Auth::Key(&fixture.user_key));
            start.exec("echo once")
        });
        wait_until(|| served(&fixture) == 1);
        relay.go.send(()).unwrap();
        started.join().unwrap().unwrap_err()
    });
    assert!(matches!(error, fulmar::Error::Closed), "{error:?}");
    let text = std::fs::read_to_string(scratch.path("profiles")).unwrap();
    assert!(text.contains(" careful "), "{text}");

    *relay.then.lock().unwrap() = Then::Forward;
    let mut session = relay.connect(with_cache(&fixture, &cache));
    let start = session.authenticate_and_start("mia", Auth::Key(&fixture.user_key));
    let output = start.exec("echo twice").unwrap().output(100).unwrap();
    assert_eq!(output.stdout, b"twice\n");
    assert_eq!(served(&fixture), 2);
    assert_eq!(relay.messages.lock().unwrap().len(), 2);
}

/// The profile names the host key's type; it does not vouch for a key.
#[test]
fn a_changed_host_key_gets_no_signature_and_no_command() {
    let (first, second) = (Fixture::start(), Fixture::start());
    let cache = LoginCache::in_memory();
    let target = Arc::new(Mutex::new(first.port));
    let relay = Relay::to(&target);
    let mut session = relay.connect(with_cache(&first, &cache));
    let key = Auth::Key(&first.user_key);
    session.authenticate("mia", key).unwrap();
    *target.lock().unwrap() = second.port;
    let config = with_cache(&first, &cache);
    let error = Session::connect("127.0.0.1", relay.port, config).unwrap_err();
    assert!(matches!(error, fulmar::Error::HostKey(_)), "{error:?}");
    // The guess was right, and nothing but DISCONNECT followed it.
    let flight = relay.first_flight(1);
    assert_eq!(flight.get(..2), Some(&[KEXINIT, KEX_ECDH_INIT][..]));
    assert!(!flight.contains(&NEWKEYS), "{flight:?}");
    assert_eq!(served(&second), 0);
}
