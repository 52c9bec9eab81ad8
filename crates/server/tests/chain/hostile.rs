//! Peers that have not logged in and mean no good; what protects from them is looked at from
//! outside.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use crate::Test;
use crate::fake_monitor::{Policy, Server, grant_for, send, start_role};
use crate::peer::{Marker, Place, text};

pub const TESTS: &[Test] = &[
    (
        "the_first_segment_is_version_and_kexinit",
        the_first_segment_is_version_and_kexinit,
    ),
    (
        "the_sandbox_is_closed_before_the_first_byte",
        the_sandbox_is_closed,
    ),
    ("odd_banners_end_the_process_and_nothing_else", odd_banners),
    (
        "channel_messages_before_a_login_run_nothing",
        messages_before_a_login,
    ),
    (
        "silent_clients_are_ended_at_login_grace_time",
        silent_clients,
    ),
    ("too_many_failures_are_told_and_end_it", too_many_failures),
    ("a_wrong_key_does_not_log_in", a_wrong_key_does_not_log_in),
    (
        "a_session_process_cannot_be_traced",
        a_session_process_cannot_be_traced,
    ),
    (
        "nothing_reads_the_connection_before_the_process_is_the_user",
        nothing_reads_the_connection_early,
    ),
    (
        "users_text_cannot_forge_log_lines",
        users_text_cannot_forge_log_lines,
    ),
];

fn policy() -> Policy {
    Policy::new("/", Vec::new())
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a timeout");
    stream
}

/// Reads until the server closes; its bytes.
fn drain(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut all);
    all
}

fn the_first_segment_is_version_and_kexinit() {
    let server = Server::start(policy());
    let mut stream = connect(&server);
    let mut first = vec![0; 65_536];
    let count = stream.read(&mut first).expect("bytes");
    let first = &first[..count];
    assert!(first.starts_with(b"SSH-2.0-Fulmar_"), "{}", text(first));
    let end = first
        .windows(2)
        .position(|pair| pair == b"\r\n")
        .expect("a line end")
        + 2;
    assert_eq!(first.get(end + 5), Some(&20), "SSH_MSG_KEXINIT comes along");
    let length = first.get(end..end + 4).expect("a length");
    let length = u32::from_be_bytes(length.try_into().expect("four bytes"));
    assert_eq!(first.len() - end - 4, length as usize, "and is whole");
}

fn the_sandbox_is_closed() {
    let server = Server::start(policy());
    let mut stream = connect(&server);
    let mut first = [0; 1];
    stream.read_exact(&mut first).expect("a byte");
    let pid = server
        .wait_for(0, |record| record.auth_pid.is_some())
        .auth_pid
        .expect("a pid");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    for line in ["Seccomp:\t2", "NoNewPrivs:\t1", "Threads:\t1"] {
        assert!(status.lines().any(|each| each == line), "{line}: {status}");
    }
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("its limits");
    let limit = |name: &str| {
        let line = limits
            .lines()
            .find(|line| line.starts_with(name))
            .expect("a limit")
            .to_owned();
        line.trim_start_matches(name)
            .split_whitespace()
            .next()
            .expect("a number")
            .to_owned()
    };
    assert_eq!(limit("Max file size"), "0");
    assert_eq!(limit("Max processes"), "0");
    let open: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("its descriptors")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert!(
        open.len() <= 5,
        "standard streams, network and monitor: {open:?}"
    );
}

fn odd_banners() {
    let server = Server::start(policy());
    let mut count = 0;
    for banner in odd_banner_lines() {
        let mut stream = connect(&server);
        let _ = stream.write_all(&banner);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        drain(&mut stream);
        let record = server.wait_for(count, |record| record.auth_exit.is_some());
        assert_eq!(
            record.auth_exit.as_deref(),
            Some("exit 0"),
            "{:?}: {record:?}",
            text(&banner)
        );
        assert!(record.session_exit.is_none());
        count += 1;
    }
    assert!(count >= 50);
}

fn odd_banner_lines() -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = [
        "",
        "\r\n",
        "\n",
        "SSH",
        "SSH-",
        "SSH-1.5-x\r\n",
        "SSH-1.99-x\r\n",
        "SSH-2.0\r\n",
        "SSH-2.0-\r\n",
        "SSH-2.0-\n",
        "SSH-3.0-x\r\n",
        "ssh-2.0-x\r\n",
        " SSH-2.0-x\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "SSH-2.0-x\0y\r\n",
        "SSH-2.0-\u{1b}[2J\r\n",
        "SSH-2.0-x\r",
        "SSH-2.0-PuTTY_Release_0.5\r\n",
        "SSH-2.0-FTCWF_1.0\r\n",
        "SSH-2.0-%s%n%d\r\n",
        "EHLO x\r\n",
        "\u{16}\u{3}\u{1}\0\0",
        "SSH-2.0-OpenSSH_9.9",
        "junk\r\nSSH-2.0-x\r\n",
        "SSH-2.0-x y z\r\n",
        "SSH-2.0--\r\n",
        "SSH-2.0-é\r\n",
    ]
    .iter()
    .map(|line| line.as_bytes().to_vec())
    .collect();
    for length in [250, 253, 254, 255, 256, 300, 8191, 8192, 8193, 100_000] {
        lines.push([b"SSH-2.0-".to_vec(), vec![b'A'; length], b"\r\n".to_vec()].concat());
        lines.push(vec![b'A'; length]);
    }
    for number in 0..10_u8 {
        let garbage = [number.wrapping_mul(37), 0xff, number, 0, 0x80];
        lines.push([b"SSH-2.0-x\r\n".to_vec(), garbage.repeat(100)].concat());
    }
    lines
}

/// An unencrypted packet around `payload` (RFC 4253 §6).
fn packet(payload: &[u8]) -> Vec<u8> {
    let padding = 8 - (payload.len() + 5) % 8 + 8;
    let length = u32::try_from(1 + payload.len() + padding).expect("a small packet");
    let mut out = length.to_be_bytes().to_vec();
    out.push(u8::try_from(padding).expect("a small padding"));
    out.extend_from_slice(payload);
    out.resize(out.len() + padding, 0);
    out
}

fn messages_before_a_login() {
    let server = Server::start(policy());
    let marker = Marker::new("preauth");
    let command = format!("touch {}", marker.path.display());
    let mut exec = vec![98, 0, 0, 0, 0, 0, 0, 0, 4];
    exec.extend_from_slice(b"exec\x01");
    exec.extend_from_slice(&u32::try_from(command.len()).expect("short").to_be_bytes());
    exec.extend_from_slice(command.as_bytes());
    let mut open = vec![90, 0, 0, 0, 7];
    open.extend_from_slice(b"session");
    open.extend_from_slice(&[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 128, 0]);
    let requests: [&[u8]; 9] = [
        &open,
        &exec,
        &[52],
        &[80, 0, 0, 0, 1, b'x', 1],
        &[5],
        &[6],
        &[21],
        &[31],
        &[192],
    ];
    for (index, request) in requests.iter().enumerate() {
        let mut stream = connect(&server);
        let mut bytes = b"SSH-2.0-x\r\n".to_vec();
        bytes.extend(packet(request));
        bytes.extend(packet(&open));
        bytes.extend(packet(&exec));
        stream.write_all(&bytes).expect("it takes them");
        drain(&mut stream);
        let record = server.wait_for(index, |record| record.auth_exit.is_some());
        assert_eq!(record.auth_exit.as_deref(), Some("exit 0"), "{record:?}");
        assert!(record.session_exit.is_none());
    }
    assert!(!marker.path.exists());
}

fn silent_clients() {
    let mut policy = policy();
    policy.grace_seconds = 1;
    let server = Server::start(policy);
    // All reach the end of their time together.
    let mut streams: Vec<TcpStream> = (0..10).map(|_| connect(&server)).collect();
    for stream in &mut streams {
        assert!(drain(stream).starts_with(b"SSH-2.0-"));
    }
    for index in 0..10 {
        let record = server.wait_for(index, |record| record.auth_exit.is_some());
        assert_eq!(record.auth_exit.as_deref(), Some("exit 0"), "{record:?}");
        assert!(
            record
                .log
                .iter()
                .any(|line| line.contains("Timeout before authentication")),
            "{record:?}"
        );
    }
}

fn too_many_failures() {
    let Some(place) = Place::new("failures") else {
        return;
    };
    let mut policy = place.policy();
    policy.key = vec![1, 2, 3];
    policy.max_failures = 1;
    let server = Server::start(policy);
    let out = place.run(&server, &[], &["true"], b"");
    assert_eq!(out.status.code(), Some(255));
    assert!(
        text(&out.stderr).contains("Too many authentication failures"),
        "{}",
        text(&out.stderr)
    );
}

fn a_wrong_key_does_not_log_in() {
    let Some(place) = Place::new("wrongkey") else {
        return;
    };
    let mut policy = place.policy();
    policy.key = vec![1, 2, 3];
    let server = Server::start(policy);
    let out = place.run(&server, &[], &["echo in"], b"");
    assert_eq!(out.status.code(), Some(255));
    assert!(
        text(&out.stderr).contains("Permission denied"),
        "{}",
        text(&out.stderr)
    );
    assert!(out.stdout.is_empty());
    let record = server.wait_for(0, |record| record.auth_exit.is_some());
    assert!(
        record
            .log
            .iter()
            .any(|line| line == "Connection closed by {}"),
        "{record:?}"
    );
}

fn a_session_process_cannot_be_traced() {
    let Some(place) = Place::new("traced") else {
        return;
    };
    let server = Server::start(place.policy());
    // A process that is not dumpable has root's files in /proc, which only root can open; the
    // command itself is an ordinary process again.
    let out = place.run(
        &server,
        &[],
        &["stat -c %u /proc/$PPID/mem /proc/self/mem; cat /proc/$PPID/status"],
        b"",
    );
    let said = text(&out.stdout);
    assert!(
        said.lines().any(|line| line.starts_with("Threads:\t1")),
        "{said}"
    );
    let own = sys::process::own_credentials()
        .expect("our ids")
        .uid
        .to_string();
    let owners: Vec<&str> = said.lines().take(2).collect();
    assert_eq!(owners, ["0", own.as_str()], "{said}");
}

fn users_text_cannot_forge_log_lines() {
    let server = Server::start(policy());
    let mut stream = connect(&server);
    stream
        .write_all(b"Nonsense\x1b[2J \x07Accepted\r\n")
        .expect("it takes them");
    drain(&mut stream);
    let record = server.wait_for(0, |record| record.auth_exit.is_some());
    thread::yield_now();
    for line in &record.log {
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    assert!(!record.log.is_empty());
}

/// The user id with which the process acts, while it lives.
fn acting_uid(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("Uid:"))?;
    line.split_ascii_whitespace().nth(2)?.parse().ok()
}

fn nothing_reads_the_connection_early() {
    const NOBODY: u32 = 65_534;
    if !sys::process::is_root() {
        println!("skipped: a change of user needs root");
        return;
    }
    let (network, client) = sys::socket::stream_pair().expect("a pair");
    let sent = [0x55; 1000];
    sys::io::write_all(&client, &sent).expect("bytes of the client");
    let unread = || sys::io::bytes_available(&network).expect("a count");
    let (mut child, rpc) = start_role(privsep::roles::ROLE_SESSION, &network);
    send(&rpc, &grant_for(policy(), Some(NOBODY)));
    // Root from its start on, then the user for good: every look in between finds all bytes.
    while acting_uid(child.pid()) != Some(NOBODY) {
        assert_eq!(unread(), 1000, "read while it was root");
        assert!(child.try_wait().expect("a status").is_none(), "it ended");
        thread::yield_now();
    }
    assert_eq!(unread(), 1000, "read while it was root");
    // What the least trusted process made is taken by the user alone; as it is no connection's,
    // nothing is read after it either.
    send(
        &rpc,
        &privsep::Snapshot {
            bytes: vec![7; 100].into(),
        },
    );
    child.wait().expect("a status");
    assert_eq!(unread(), 1000);
}
