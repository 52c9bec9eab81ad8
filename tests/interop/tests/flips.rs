//! Connections on which one bit is flipped in transit, at a random byte and in either direction:
//! each ends soon, and its copy is complete or reported as failed. A damaged length waits for bytes
//! that nobody sends, and the MAC of a packet that never ends is not checked.
//!
//! With `INTEROP_ALL=1` (or `cargo xtask interop --all`) a thousand connections run, else sixty;
//! `INTEROP_FLIPS` sets the number, and `INTEROP_SEED` repeats a run.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use interop::matrix::noise;
use interop::peers::ours::{self, Kind};
use interop::process::{Input, Outcome, installed, run};
use interop::report::{Failures, is_whole_run, say, skipped};
use interop::scratch::Scratch;
use interop::site::{HOST, Site};

const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";
/// Time limit of a connection: its login, and four times ten seconds.
const LIMIT: Duration = Duration::from_secs(90);
/// Connections that take this time are counted.
const LONG: Duration = Duration::from_secs(60);
/// Number of simultaneous connections; they mostly wait.
const AT_ONCE: usize = 12;
const CONTENT_BYTES: usize = 100_000;
/// Approximate number of bytes after the content.
const SHORT_BYTES: u64 = 1500;

/// The byte and direction of the change: each direction counts its bytes.
#[derive(Default)]
struct Flip {
    to_server: bool,
    at: u64,
    bit: u8,
    passed: [AtomicU64; 2],
}

/// Forwards one connection to a server and changes a bit of it; returns the port.
fn relay(server: u16, flip: Arc<Flip>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("its number").port();
    thread::spawn(move || {
        let Ok((client, _)) = listener.accept() else {
            return;
        };
        let Ok(far) = TcpStream::connect(("127.0.0.1", server)) else {
            return;
        };
        for (to_server, from, to) in [(true, &client, &far), (false, &far, &client)] {
            let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
                return;
            };
            let flip = flip.clone();
            thread::spawn(move || carry(from, to, to_server, &flip));
        }
    });
    port
}

fn carry(mut from: TcpStream, mut to: TcpStream, to_server: bool, flip: &Flip) {
    let mut chunk = [0; 4096];
    let passed = &flip.passed[usize::from(to_server)];
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        let before = passed.fetch_add(count as u64, Ordering::SeqCst);
        let at = flip.at.checked_sub(before).filter(|at| *at < count as u64);
        if let Some(at) = at.filter(|_| flip.to_server == to_server && flip.bit < 8) {
            chunk[usize::try_from(at).unwrap()] ^= 1 << flip.bit;
        }
        if to.write_all(&chunk[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Read);
    let _ = to.shutdown(Shutdown::Write);
}

/// The use of the connection.
#[derive(Clone, Copy, Debug)]
enum How {
    ScpUp,
    ScpDown,
    SftpUp,
    SftpDown,
    SshUp,
    SshDown,
}

const HOW: [How; 6] = [
    How::ScpUp,
    How::ScpDown,
    How::SftpUp,
    How::SftpDown,
    How::SshUp,
    How::SshDown,
];

struct Place {
    site: Site,
    name: &'static str,
}

impl Place {
    fn config(&self, port: u16) -> PathBuf {
        self.site.config(&format!(
            "Host *\nPort {port}\nHostKeyAlias [127.0.0.1]:{}\nHostKeyAlgorithms ssh-ed25519\n",
            self.site.running.daemon.port
        ))
    }

    /// One copy over a relay; returns its result, and true if all of it arrived.
    fn copy(&self, how: How, flip: &Arc<Flip>) -> (std::io::Result<Outcome>, bool) {
        let scratch = Scratch::new();
        let content = noise(CONTENT_BYTES);
        let (from, to) = (scratch.write("from", &content), scratch.join("to"));
        let port = relay(self.site.running.daemon.port, flip.clone());
        let config = self.config(port);
        let program = |name: &str| {
            let mut command = Command::new(ours::binary());
            command.arg(name).arg("-F").arg(&config);
            command
        };
        let there = |path: &Path| format!("{HOST}:{}", path.display());
        let line = |verb: &str| format!("{verb} {} {}\n", from.display(), to.display());
        let sftp = || {
            let mut command = program("sftp");
            command.args(["-q", "-b", "-", HOST]);
            command
        };
        let outcome = match how {
            How::ScpUp => {
                let mut command = program("scp");
                run(command.arg(&from).arg(there(&to)), Input::Nothing, LIMIT)
            }
            How::ScpDown => {
                let mut command = program("scp");
                run(command.arg(there(&from)).arg(&to), Input::Nothing, LIMIT)
            }
            How::SftpUp => run(&mut sftp(), Input::Bytes(line("put").as_bytes()), LIMIT),
            How::SftpDown => run(&mut sftp(), Input::Bytes(line("get").as_bytes()), LIMIT),
            How::SshUp => {
                let mut command = program("ssh");
                command.args([HOST, &format!("cat > {}", to.display())]);
                run(&mut command, Input::Bytes(&content), LIMIT)
            }
            How::SshDown => {
                let mut command = program("ssh");
                command.args([HOST, &format!("cat {}", from.display())]);
                let outcome = run(&mut command, Input::Nothing, LIMIT);
                if let Ok(outcome) = &outcome {
                    let whole = outcome.stdout.length == content.len() as u64;
                    fs::write(&to, if whole { &content[..] } else { b"" }).unwrap();
                }
                outcome
            }
        };
        let whole = fs::read(&to).is_ok_and(|there| there == content);
        (outcome, whole)
    }
}

/// The servers that can be had, ours first.
fn places() -> Vec<Place> {
    // Intended failures cause no penalties, and a stalled login ends.
    let terms = "MaxStartups 100\nLoginGraceTime 30\n";
    let internal = format!("{terms}PerSourcePenalties no\nSubsystem sftp internal-sftp\n");
    let mut places = vec![Place {
        site: Site::new(Kind::Fulmar, Kind::Fulmar, &internal),
        name: "ours",
    }];
    if installed("sshd").is_some() && Path::new(SFTP_SERVER).exists() {
        let subsystem = format!("{terms}Subsystem sftp {SFTP_SERVER}\n");
        places.push(Place {
            site: Site::new(Kind::Fulmar, Kind::OpenSsh, &subsystem),
            name: "OpenSSH's",
        });
    } else {
        skipped("openssh's SFTP server", &"not installed");
    }
    places
}

fn seed() -> u64 {
    let given = std::env::var("INTEROP_SEED").ok();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = u64::from(now.expect("a time").subsec_nanos());
    given
        .and_then(|text| text.parse().ok())
        .unwrap_or(now)
        .max(1)
}

#[test]
fn a_bit_that_is_changed_anywhere_ends_the_connection_soon() {
    let places = places();
    let given = std::env::var("INTEROP_FLIPS").ok();
    let usual = if is_whole_run() { 1000 } else { 60 };
    let rounds = given.and_then(|text| text.parse().ok()).unwrap_or(usual);
    let seed = seed();
    say(&format!("INTEROP_SEED={seed}, {rounds} bits"));
    // Number of bytes in each direction.
    let mut passed = Vec::new();
    for place in &places {
        for how in HOW {
            let flip = Arc::new(Flip {
                bit: 8,
                ..Flip::default()
            });
            let (outcome, whole) = place.copy(how, &flip);
            let outcome = outcome.expect("a copy that nobody changes");
            assert!(outcome.status == 0 && whole, "{}", outcome.summary());
            let count = |way: usize| flip.passed[way].load(Ordering::SeqCst);
            passed.push((place, how, [count(0), count(1)]));
        }
    }
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Failures::new());
    let longest = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let round = next.fetch_add(1, Ordering::SeqCst);
                    if round >= rounds {
                        return;
                    }
                    let mut state = seed ^ (round as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                    let mut below = |limit: u64| {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        (state >> 20) % limit
                    };
                    let (place, how, counts) = &passed[round % passed.len()];
                    let to_server = below(2) == 1;
                    // Where packets are short there are more lengths: mostly at the end.
                    let count = counts[usize::from(to_server)];
                    let least = match below(3) {
                        0 => 0,
                        _ => count.saturating_sub(SHORT_BYTES),
                    };
                    let flip = Arc::new(Flip {
                        to_server,
                        at: least + below(count - least),
                        bit: u8::try_from(below(8)).unwrap(),
                        ..Flip::default()
                    });
                    let (outcome, whole) = place.copy(*how, &flip);
                    let what = format!(
                        "{how:?}, server {}, to server {to_server}, byte {} of {}, bit {}",
                        place.name,
                        flip.at,
                        counts[usize::from(to_server)],
                        flip.bit
                    );
                    let took = outcome.as_ref().map_or(LIMIT, |outcome| outcome.took);
                    let said = outcome.as_ref().map(Outcome::summary);
                    let said = said.unwrap_or_else(|error| error.to_string());
                    longest
                        .lock()
                        .unwrap()
                        .push((took, format!("{what}: {said}")));
                    let mut failures = failures.lock().unwrap();
                    match outcome {
                        Err(error) => failures.check(false, || format!("{what}: {error}")),
                        Ok(outcome) => failures.check(outcome.status != 0 || whole, || {
                            format!("{what}: {}", outcome.summary())
                        }),
                    }
                }
            });
        }
    });
    let mut longest = longest.into_inner().unwrap();
    longest.sort();
    let waited = longest.iter().filter(|(took, _)| *took >= LONG).count();
    say(&format!("{waited} took {LONG:?} and more; the longest:"));
    for (took, what) in longest.iter().rev().take(10) {
        say(&format!("{took:.1?} {what}"));
    }
    failures.into_inner().unwrap().settle();
}
