//! Copies whose connection is cut at a random byte, continued and compared: uploads and downloads
//! with scp, sftp and the old protocol, with OpenSSH's server and ours in turn; and copies whose
//! network stalls.
//!
//! With `INTEROP_ALL=1` (or `cargo xtask interop --all`) each of the six is cut a hundred times,
//! else twelve; `INTEROP_SEED` repeats a run.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use interop::matrix::noise;
use interop::peers::ours::{self, Kind};
use interop::process::{Input, Outcome, installed};
use interop::report::{Failures, is_whole_run, say, skipped};
use interop::scratch::Scratch;
use interop::site::{HOST, Site, finish};

const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";
/// Limit on the bytes of a login before the first byte of a file.
const LOGIN_BYTES: u64 = 2_000;

/// Pseudo-random numbers (xorshift): the same ones from the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len)
            .map(|_| u8::try_from(self.below(256)).unwrap())
            .collect()
    }
}

/// Forwards connections to a server; after a number of bytes over all of them each ends or stalls.
struct Relay {
    port: u16,
    left: Arc<AtomicU64>,
    stalls: Arc<AtomicBool>,
}

impl Relay {
    fn to(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let left = Arc::new(AtomicU64::new(u64::MAX));
        let stalls = Arc::new(AtomicBool::new(false));
        let shared = (left.clone(), stalls.clone());
        // It ends with the process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                for (from, to) in [(&client, &far), (&far, &client)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
                        continue;
                    };
                    let (left, stalls) = shared.clone();
                    thread::spawn(move || carry(from, to, &left, &stalls));
                }
            }
        });
        Self { port, left, stalls }
    }

    /// Connections end after this number of further bytes.
    fn cut_behind(&self, bytes: u64) {
        self.left.store(bytes, Ordering::SeqCst);
    }

    /// After this number of further bytes nothing is forwarded, and everything stays open.
    fn stall_behind(&self, bytes: u64) {
        self.stalls.store(true, Ordering::SeqCst);
        self.cut_behind(bytes);
    }

    /// Ends stalled connections.
    fn never_cut(&self) {
        self.cut_behind(u64::MAX);
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, left: &AtomicU64, stalls: &AtomicBool) {
    let mut chunk = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut chunk) {
        let count = u64::try_from(count).unwrap();
        let mut passes = 0;
        let _ = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            passes = count.min(left);
            (left < u64::MAX).then(|| left - passes)
        });
        let passes = usize::try_from(passes).unwrap();
        if passes > 0 && to.write_all(&chunk[..passes]).is_err() {
            break;
        }
        if left.load(Ordering::SeqCst) == 0 {
            // Nothing is read either: sent data fill the buffers.
            while stalls.load(Ordering::SeqCst) && left.load(Ordering::SeqCst) == 0 {
                thread::sleep(Duration::from_millis(10));
            }
            break;
        }
    }
    // Nothing is forwarded in the other direction either.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// A way to copy.
#[derive(Clone, Copy, Debug)]
enum How {
    Scp,
    Sftp,
    Old,
}

/// A server that is reached through a relay.
struct Place {
    site: Site,
    relay: Relay,
    config: PathBuf,
}

impl Place {
    fn new(server: Kind, subsystem: &str) -> Self {
        let site = Site::new(Kind::Fulmar, server, subsystem);
        let port = site.running.daemon.port;
        let relay = Relay::to(port);
        let lines = format!(
            "Host *\nPort {}\nHostKeyAlias [127.0.0.1]:{port}\nHostKeyAlgorithms ssh-ed25519\n",
            relay.port
        );
        let config = site.config(&lines);
        Self {
            site,
            relay,
            config,
        }
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(ours::binary());
        command.arg(name).arg("-F").arg(&self.config);
        command
    }

    fn copy(&self, how: How, up: bool, resumes: bool, from: &Path, to: &Path) -> Outcome {
        // sftp's own messages are sufficient.
        let quiet: &[&str] = match how {
            How::Sftp => &["-q"],
            How::Scp | How::Old => &[],
        };
        self.copy_with(quiet, how, up, resumes, from, to)
    }

    fn copy_with(
        &self,
        options: &[&str],
        how: How,
        up: bool,
        resumes: bool,
        from: &Path,
        to: &Path,
    ) -> Outcome {
        let (here, there) = match up {
            true => (from, to),
            false => (to, from),
        };
        if matches!(how, How::Sftp) {
            let verb = match (resumes, up) {
                (true, true) => "reput",
                (true, false) => "reget",
                (false, true) => "put",
                (false, false) => "get",
            };
            let line = format!("{verb} {} {}\n", from.display(), to.display());
            let mut command = self.program("sftp");
            command.args(options).args(["-b", "-", HOST]);
            return finish(&mut command, Input::Bytes(line.as_bytes()));
        }
        let there = format!("{HOST}:{}", there.display());
        let here = here.display().to_string();
        let (from, to) = match up {
            true => (&here, &there),
            false => (&there, &here),
        };
        let mut command = self.program("scp");
        command.args(options);
        if matches!(how, How::Old) {
            command.arg("-O");
        } else if resumes {
            command.arg("-Z");
        }
        finish(command.args([from, to]), Input::Nothing)
    }

    /// One interrupted copy and its continuation.
    fn cut(&self, how: How, up: bool, chance: &mut Chance) -> Result<(), String> {
        let scratch = Scratch::new();
        let len = 1 + chance.below(300_000);
        let content = chance.bytes(len);
        let from = scratch.write("from", &content);
        let to = scratch.join("to");
        let at = LOGIN_BYTES + chance.below(len + 8_000);
        self.relay.cut_behind(at);
        let outcome = self.copy(how, up, false, &from, &to);
        self.relay.never_cut();
        let told = |what: &str| format!("cut at {at} of {len}: {what}; {}", outcome.summary());
        // The server writes its data, and ends when it detects the lost connection.
        self.site.running.daemon.comes_to_rest();
        let read = || fs::read(&to).unwrap_or_default();
        let last = read();
        if !content.starts_with(&last) {
            return Err(told("what is there is no beginning"));
        }
        let whole = last.len() == content.len();
        match outcome.status {
            0 if !whole => return Err(told("exit status 0")),
            0 => return Ok(()),
            _ if outcome.stderr.length == 0 => return Err(told("nothing was said")),
            // sftp continues only shorter files.
            _ if whole && matches!(how, How::Sftp) => return Ok(()),
            _ => {}
        }
        let again = self.copy(how, up, true, &from, &to);
        if again.status != 0 || read() != content {
            return Err(told(&format!("and again: {}", again.summary())));
        }
        Ok(())
    }
}

/// A copy whose network stalls, and its final messages.
fn stall(place: &Place, how: How, up: bool) {
    const OPTIONS: [&str; 2] = ["-oServerAliveInterval=1", "-oServerAliveCountMax=2"];
    let scratch = Scratch::new();
    let content = noise(4 << 20);
    let from = scratch.write("from", &content);
    let to = scratch.join("to");
    place.relay.stall_behind(1 << 20);
    let outcome = place.copy_with(&OPTIONS, how, up, false, &from, &to);
    place.relay.never_cut();
    place.site.running.daemon.comes_to_rest();
    let what = format!("{how:?}, up {up}: {}", outcome.summary());
    assert!(outcome.status > 0, "{what}");
    let said = outcome.stderr.text();
    assert!(said.contains("not responding"), "{what}");
    // There is none if no data had arrived.
    let part = fs::read(&to).unwrap_or_default();
    assert!(part.len() < content.len(), "{what}");
    assert!(content.starts_with(&part), "{what}");
}

#[test]
fn a_network_that_stands_still_ends_a_copy_and_is_told() {
    let servers = servers();
    thread::scope(|scope| {
        let ways = [How::Scp, How::Sftp, How::Old].map(|how| [(how, true), (how, false)]);
        for (index, (how, up)) in ways.into_iter().flatten().enumerate() {
            if matches!(how, How::Old) && installed("scp").is_none() {
                skipped("the old protocol", &"no scp is installed");
                continue;
            }
            // All of them wait for the same seconds, each on its own connection.
            let (server, subsystem) = &servers[index / 2 % servers.len()];
            scope.spawn(move || stall(&Place::new(*server, subsystem), how, up));
        }
    });
}

#[test]
fn those_that_are_quiet_say_that_a_connection_was_lost() {
    for (server, subsystem) in servers() {
        let place = Place::new(server, &subsystem);
        for (how, up) in [How::Scp, How::Sftp]
            .map(|how| [(how, true), (how, false)])
            .concat()
        {
            let scratch = Scratch::new();
            let from = scratch.write("from", noise(4 << 20));
            let to = scratch.join("to");
            place.relay.cut_behind(1 << 20);
            let outcome = place.copy_with(&["-q"], how, up, false, &from, &to);
            place.relay.never_cut();
            let said = outcome.stderr.text();
            let what = format!("{how:?}, up {up}: {}", outcome.summary());
            assert!(outcome.status > 0, "{what}");
            // As with OpenSSH, whose ssh shows this line at each level.
            let causes = ["closed by remote host", "Connection reset", "Broken pipe"];
            assert!(causes.iter().any(|cause| said.contains(cause)), "{what}");
        }
    }
}

/// Whatever arrives last: either a file is reported as copied and the status is 0, or neither.
#[test]
fn a_small_file_is_good_where_the_status_says_so() {
    for (server, subsystem) in servers() {
        let place = Place::new(server, &subsystem);
        for up in [true, false] {
            let scratch = Scratch::new();
            let content = noise(100);
            let from = scratch.write("from", &content);
            let to = scratch.join("to");
            let copy = || place.copy_with(&["--json"], How::Scp, up, false, &from, &to);
            let most = u64::MAX - 1;
            place.relay.cut_behind(most);
            let whole = copy();
            place.site.running.daemon.comes_to_rest();
            let passed = most - place.relay.left.load(Ordering::SeqCst);
            assert_eq!(whole.status, 0, "{}", whole.summary());
            // Cuts at every byte of the file's content and after it.
            let mut goods = [0, 0];
            for at in (passed.saturating_sub(700)..passed).step_by(23) {
                let _ = fs::remove_file(&to);
                place.relay.cut_behind(at);
                let outcome = copy();
                place.relay.never_cut();
                place.site.running.daemon.comes_to_rest();
                let is_whole = fs::read(&to).is_ok_and(|there| there == content);
                let said = outcome.stdout.text();
                let results = said.split("\"results\":").nth(1).unwrap_or_default();
                let is_good = results.contains("\"ok\":true");
                let what = format!("up {up}, cut {} before the end: {said}", passed - at);
                assert_eq!(is_good, outcome.status == 0, "{what} {}", outcome.summary());
                assert!(is_whole || !is_good, "{what} {}", outcome.summary());
                goods[usize::from(is_good)] += 1;
            }
            say(&format!(
                "up {up}: {} failed and {} good",
                goods[0], goods[1]
            ));
        }
    }
}

/// The available servers, ours first.
fn servers() -> Vec<(Kind, String)> {
    let mut servers = vec![(Kind::Fulmar, "Subsystem sftp internal-sftp\n".to_owned())];
    if installed("sshd").is_some() && Path::new(SFTP_SERVER).exists() {
        servers.push((Kind::OpenSsh, format!("Subsystem sftp {SFTP_SERVER}\n")));
    } else {
        skipped("openssh's SFTP server", &"not installed");
    }
    servers
}

fn seed() -> u64 {
    let given = std::env::var("INTEROP_SEED").ok();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time");
    let seed = given.and_then(|text| text.parse().ok());
    // Zeros must arrive as zeros.
    seed.unwrap_or(u64::from(now.subsec_nanos()) << 20 | now.as_secs() & 0xf_ffff)
        .max(1)
}

#[test]
fn what_is_cut_anywhere_is_a_beginning_and_goes_on() {
    let places: Vec<Place> = servers()
        .iter()
        .map(|(server, subsystem)| Place::new(*server, subsystem))
        .collect();
    let rounds = if is_whole_run() { 100 } else { 12 };
    let seed = seed();
    say(&format!("INTEROP_SEED={seed}, {rounds} cuts of each kind"));
    let mut chance = Chance(seed);
    let mut failures = Failures::new();
    for how in [How::Scp, How::Sftp, How::Old] {
        if matches!(how, How::Old) && installed("scp").is_none() {
            skipped("the old protocol", &"no scp is installed");
            continue;
        }
        for up in [true, false] {
            for round in 0..rounds {
                let place = &places[round % places.len()];
                let result = place.cut(how, up, &mut chance);
                failures.check(result.is_ok(), || {
                    let way = if up { "up" } else { "down" };
                    let why = result.unwrap_err();
                    let server = round % places.len();
                    format!("{how:?} {way}, round {round}, server {server}: {why}")
                });
            }
        }
    }
    failures.settle();
}
