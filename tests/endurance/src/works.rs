//! The kinds of work. Each ends by itself, checks what it did and panics with the reason if it is wrong.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use interop::forwarded::{self, connect, through};
use interop::process::{Background, COMMAND_LIMIT, Input, digest};
use interop::random::Random;
use interop::scratch::{Scratch, free_port, until};
use interop::site::{HOST, finish};

use crate::place::Place;

/// A kind of work.
#[derive(Debug)]
pub(crate) struct WorkKind {
    /// The name for the report.
    pub(crate) name: &'static str,
    /// How often, in parts of the sum of all weights.
    pub(crate) weight: usize,
    pub(crate) work: fn(&Place, &mut Random),
}

/// All kinds.
pub(crate) const KINDS: &[WorkKind] = &[
    kind("logins with a command", 30, login),
    kind("logins with a key of the agent", 8, agent_login),
    kind("logins that are refused", 6, refused),
    kind("sessions that wait", 4, long_session),
    kind("sessions with many exchanges of keys", 4, rekeys),
    kind("connections through -L", 5, local),
    kind("connections through -R", 5, remote),
    kind("connections through -D", 5, dynamic),
    kind("connections through -W", 5, stdio),
    kind("copies by scp", 6, scp),
    kind("copies by sftp", 4, sftp),
    kind("sessions of the master", 10, passenger),
    kind("masters that come and go", 3, new_master),
    kind("clients that are killed", 4, killed),
    kind("reloads", 1, reload),
];

const fn kind(name: &'static str, weight: usize, work: fn(&Place, &mut Random)) -> WorkKind {
    WorkKind { name, weight, work }
}

/// Bytes that no compression and no repetition hides.
fn bytes(random: &mut Random, most: usize) -> Vec<u8> {
    let length = 1 + random.below(most);
    random.bytes(length)
}

fn login(place: &Place, random: &mut Random) {
    let number = random.below(1_000_000).to_string();
    let status = random.below(3);
    let script = format!("echo {number}; exit {status}");
    let outcome = finish(place.ssh().args([HOST, &script]), Input::Nothing);
    assert_eq!(
        usize::try_from(outcome.status),
        Ok(status),
        "{}",
        outcome.summary()
    );
    assert_eq!(outcome.stdout.text(), format!("{number}\n"));
}

fn agent_login(place: &Place, _random: &mut Random) {
    let socket = format!("IdentityAgent={}", place.agent_socket().display());
    // The client has the public key alone: the agent must sign.
    let mut command = place.ssh_by(&place.key().with_extension("pub"));
    command.args(["-o", &socket, HOST, "echo in"]);
    place
        .succeeds(&mut command, b"")
        .assert_in("a key of the agent");
}

fn refused(place: &Place, _random: &mut Random) {
    let folder = Scratch::new();
    let key = folder.join("stranger");
    let mut keygen = place.keygen();
    keygen
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key);
    place.succeeds(&mut keygen, b"");
    let mut command = place.ssh_by(&key);
    command.args([HOST, "echo in"]);
    let outcome = finish(&mut command, Input::Nothing);
    assert_eq!(outcome.status, 255, "{}", outcome.summary());
    assert!(
        outcome.stderr.text().contains("Permission denied"),
        "{}",
        outcome.summary()
    );
}

/// A client whose command echoes, and its pipes.
fn echoing(place: &Place, flags: &[&str]) -> Background {
    let mut command = place.ssh();
    command
        .args(flags)
        .args([HOST, "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut client = Background::start(&mut command).expect("a client");
    echoes(&mut client, b"ready\n");
    client
}

fn echoes(client: &mut Background, bytes: &[u8]) {
    let input = client.0.stdin.as_mut().expect("its input");
    input.write_all(bytes).expect("a session that takes input");
    let mut back = vec![0; bytes.len()];
    let output = client.0.stdout.as_mut().expect("its output");
    output
        .read_exact(&mut back)
        .expect("a session that answers");
    assert_eq!(back, bytes);
}

fn ends(mut client: Background) {
    drop(client.0.stdin.take());
    let status = interop::process::wait(&mut client.0, COMMAND_LIMIT).expect("an end");
    assert!(status.success(), "{status}");
}

fn long_session(place: &Place, random: &mut Random) {
    let mut client = echoing(place, &[]);
    for _ in 0..2 + random.below(4) {
        std::thread::sleep(Duration::from_millis(500 + random.below(2500) as u64));
        echoes(&mut client, &bytes(random, 4096));
    }
    ends(client);
}

fn rekeys(place: &Place, random: &mut Random) {
    let data = bytes(random, 4 << 20);
    let mut command = place.ssh();
    command.args(["-o", "RekeyLimit=256K", HOST, "cat"]);
    let outcome = place.succeeds(&mut command, &data);
    assert_eq!(outcome.stdout.length, data.len() as u64);
    assert_eq!(outcome.stdout.sha256, digest(&data));
}

fn local(place: &Place, random: &mut Random) {
    let port = free_port();
    let forward = format!("{port}:127.0.0.1:{}", place.echo);
    let client = echoing(place, &["-o", "ExitOnForwardFailure=yes", "-L", &forward]);
    for _ in 0..1 + random.below(5) {
        let data = bytes(random, 1 << 20);
        assert!(through(port, &data) == data, "other bytes through -L");
    }
    ends(client);
}

fn remote(place: &Place, random: &mut Random) {
    let port = free_port();
    let forward = format!("{port}:127.0.0.1:{}", place.echo);
    let client = echoing(place, &["-o", "ExitOnForwardFailure=yes", "-R", &forward]);
    for _ in 0..1 + random.below(5) {
        let data = bytes(random, 1 << 20);
        assert!(through(port, &data) == data, "other bytes through -R");
    }
    ends(client);
}

fn dynamic(place: &Place, random: &mut Random) {
    let port = free_port();
    let client = echoing(
        place,
        &["-o", "ExitOnForwardFailure=yes", "-D", &port.to_string()],
    );
    for _ in 0..1 + random.below(3) {
        let data = bytes(random, 256 << 10);
        let mut stream: TcpStream = connect(port);
        let request = forwarded::socks5(1, place.echo);
        stream.write_all(&request).expect("a request");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer.get(..4), Some(&[5, 0, 5, 0][..]), "{answer:?}");
        let back = forwarded::exchange(stream, &data, |stream| {
            stream.shutdown(Shutdown::Write).expect("half-close");
        });
        assert!(back == data, "other bytes through -D");
    }
    ends(client);
}

fn stdio(place: &Place, random: &mut Random) {
    let data = bytes(random, 1 << 20);
    let target = format!("{}:{}", Ipv4Addr::LOCALHOST, place.echo);
    let outcome = place.succeeds(place.ssh().args(["-W", &target, HOST]), &data);
    assert_eq!(outcome.stdout.sha256, digest(&data));
}

/// Checks that a copy has the bytes of the file.
fn same(place: &Place, copy: &std::path::Path) {
    let (file, copy) = (std::fs::read(&place.file), std::fs::read(copy));
    assert!(
        file.expect("the file") == copy.expect("its copy"),
        "the copy differs"
    );
}

fn scp(place: &Place, random: &mut Random) {
    let folder = Scratch::new();
    let (there, back) = (folder.join("there"), folder.join("back"));
    let remote = format!("{HOST}:{}", there.display());
    let old = ["-q", "-O"];
    let flags = match random.chance(30) {
        true => &old[..],
        false => &old[..1],
    };
    let mut put = place.program("scp");
    place.succeeds(put.args(flags).arg(&place.file).arg(&remote), b"");
    same(place, &there);
    let mut get = place.program("scp");
    place.succeeds(get.args(flags).arg(&remote).arg(&back), b"");
    same(place, &back);
}

fn sftp(place: &Place, _random: &mut Random) {
    let folder = Scratch::new();
    let (there, back) = (folder.join("there"), folder.join("back"));
    let batch = format!(
        "put {} {there}\nls -l {there}\nget {there} {back}\nrm {there}\n",
        place.file.display(),
        there = there.display(),
        back = back.display()
    );
    place.succeeds(
        place.program("sftp").args(["-b", "-", HOST]),
        batch.as_bytes(),
    );
    same(place, &back);
    assert!(!there.exists(), "rm left the file");
}

fn passenger(place: &Place, random: &mut Random) {
    let data = bytes(random, 64 << 10);
    let socket = format!("ControlPath={}", place.master_socket().display());
    let mut command = place.ssh();
    // A master that is gone is a failure, and not a login instead.
    command.args(["-o", &socket, "-o", "ProxyCommand=false", HOST, "cat"]);
    let outcome = place.succeeds(&mut command, &data);
    assert_eq!(outcome.stdout.sha256, digest(&data));
}

fn new_master(place: &Place, random: &mut Random) {
    let folder = Scratch::new();
    let socket = folder.join("s");
    let path = format!("ControlPath={}", socket.display());
    let shared = |more: &[&str]| -> Command {
        let mut command = place.ssh();
        command.args(["-o", &path]).args(more);
        command
    };
    let persists = [
        "-o",
        "ControlMaster=auto",
        "-o",
        "ControlPersist=20",
        HOST,
        "true",
    ];
    place.succeeds(&mut shared(&persists), b"");
    for _ in 0..1 + random.below(4) {
        place.succeeds(
            &mut shared(&["-o", "ProxyCommand=false", HOST, "true"]),
            b"",
        );
    }
    place.succeeds(&mut shared(&["-O", "exit", HOST]), b"");
    let is_gone = until(COMMAND_LIMIT, || !socket.exists());
    assert!(is_gone, "the master's socket stays");
}

fn killed(place: &Place, random: &mut Random) {
    let mut command = place.ssh();
    command
        .args([HOST, "sleep 20"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let client = Background::start(&mut command).expect("a client");
    std::thread::sleep(Duration::from_millis(random.below(40) as u64));
    drop(client);
}

/// Reloads that the server's log names.
fn reloads(place: &Place) -> usize {
    let log = place.site.running.daemon.log();
    log.matches("Received SIGHUP").count()
}

fn reload(place: &Place, _random: &mut Random) {
    let before = reloads(place);
    place.reload();
    let is_done = until(COMMAND_LIMIT, || reloads(place) > before);
    assert!(is_done, "the log names no reload");
    let outcome = finish(place.ssh().args([HOST, "echo in"]), Input::Nothing);
    outcome.assert_in("a login after a reload");
}
