//! Many logins, in sequence, at once, idle and silent: none fails, and no resources are leaked.
//!
//! Prints measurements, which depend on the machine.

use std::fs;
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use interop::account::Guest;
use interop::fixture;
use interop::load::{Account, Session, percentiles};
use interop::peers::ours::Kind;
use interop::peers::{Running, openssh};
use interop::process::{COMMAND_LIMIT, descendants};
use interop::report::say;
use interop::scratch::until;

const SEQUENTIAL: usize = 2000;
const AT_ONCE: usize = 200;
const IDLE: usize = 300;
const SILENT: usize = 150;

/// A server with sufficient limits, and the user: a temporary one if possible, so that each login
/// uses the whole privilege separation.
fn server() -> (Running, Account, Option<Guest>) {
    let guest = Guest::new().ok();
    let mut extra = String::from("MaxStartups 1000\n");
    if let Some(guest) = &guest {
        guest.write(
            ".ssh/authorized_keys",
            fixture::text("user_ed25519.pub"),
            0o600,
        );
        extra.push_str("AuthorizedKeysFile .ssh/authorized_keys\n");
    }
    let running = openssh::start(Kind::tested(), &extra).unwrap_or_else(|why| panic!("{why}"));
    let user = guest
        .as_ref()
        .map_or(running.user.clone(), |guest| guest.name.clone());
    let account = Account::new(running.daemon.port, &user);
    (running, account, guest)
}

/// The listener's descriptors and private memory in KiB. Shared memory becomes private when the
/// other processes end.
fn holdings(pid: u32) -> (usize, u64) {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    (fds, memory_kib(pid, "Anonymous:").unwrap_or(0))
}

fn pss_kib(pid: u32) -> Option<u64> {
    memory_kib(pid, "Pss:")
}

fn memory_kib(pid: u32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Memory of the server's processes below the listener, without the users' commands.
fn pss_below(listener: u32) -> (u64, usize) {
    let own = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| {
            name.starts_with("sshd")
                || name.starts_with("fulmar")
                || name.chars().all(|c| c.is_ascii_digit() || c == '\n')
        })
    };
    let pids: Vec<u32> = descendants(listener).into_iter().filter(own).collect();
    (
        pids.iter().filter_map(|pid| pss_kib(*pid)).sum(),
        pids.len(),
    )
}

/// After everything: no process, no descriptor and no memory more than before.
fn assert_clean(running: &Running, before: (usize, u64)) {
    let listener = running.daemon.pid();
    running.daemon.comes_to_rest();
    let same = until(COMMAND_LIMIT, || {
        let now = holdings(listener);
        now.0 <= before.0 && now.1 <= before.1 + 1024
    });
    let after = holdings(listener);
    assert!(
        same,
        "descriptors: {} before, {} after; KiB: {} before, {} after",
        before.0, after.0, before.1, after.1
    );
}

fn one_login(account: &Account) -> Result<Duration, String> {
    let session = Session::start(account, "echo in; exit 3")?;
    match session.finish(account)? {
        (3, output, took) if output == b"in\n" => Ok(took),
        (status, output, _) => Err(format!("status {status}, {output:?}")),
    }
}

#[test]
fn a_server_bears_many_logins() {
    let (running, account, _guest) = server();
    let listener = running.daemon.pid();
    for _ in 0..20 {
        one_login(&account).unwrap_or_else(|why| panic!("{why}: {}", running.daemon.log()));
    }
    running.daemon.comes_to_rest();
    let before = holdings(listener);
    say(&format!(
        "load: the listener alone: {} descriptors, {} KiB of its own",
        before.0, before.1
    ));

    sequential(&account);
    assert_clean(&running, before);
    at_once(&account);
    assert_clean(&running, before);
    idle(&running, &account);
    assert_clean(&running, before);
    silent(&running, &account);
    assert_clean(&running, before);
    let after = holdings(listener);
    say(&format!(
        "load: the listener at the end: {} descriptors, {} KiB of its own",
        after.0, after.1
    ));
}

fn sequential(account: &Account) {
    let started = Instant::now();
    let times: Result<Vec<Duration>, String> =
        (0..SEQUENTIAL).map(|_| one_login(account)).collect();
    let times = times.unwrap_or_else(|why| panic!("a login failed: {why}"));
    let rate = SEQUENTIAL as f64 / started.elapsed().as_secs_f64();
    let (median, high) = percentiles(times);
    say(&format!(
        "load: {SEQUENTIAL} logins one after the other: {rate:.0}/s, median {:.2} ms, p99 {:.2} ms",
        median.as_secs_f64() * 1e3,
        high.as_secs_f64() * 1e3
    ));
}

fn at_once(account: &Account) {
    let barrier = Barrier::new(AT_ONCE);
    let started = Instant::now();
    let results: Vec<Result<Duration, String>> = thread::scope(|scope| {
        let logins: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    one_login(account)
                })
            })
            .collect();
        logins
            .into_iter()
            .map(|login| login.join().unwrap_or(Err("panicked".into())))
            .collect()
    });
    let all = started.elapsed().as_secs_f64();
    let failed: Vec<&String> = results
        .iter()
        .filter_map(|result| result.as_ref().err())
        .collect();
    assert!(
        failed.is_empty(),
        "{} of {AT_ONCE} failed: {:?}",
        failed.len(),
        failed.first()
    );
    let (median, high) = percentiles(results.into_iter().flatten().collect());
    say(&format!(
        "load: {AT_ONCE} logins at once: {:.0}/s, median {:.0} ms, p99 {:.0} ms",
        AT_ONCE as f64 / all,
        median.as_secs_f64() * 1e3,
        high.as_secs_f64() * 1e3
    ));
}

fn idle(running: &Running, account: &Account) {
    let started = Instant::now();
    let sessions: Vec<Session> = (0..IDLE)
        .map(|number| {
            let mut session = Session::start(account, "echo ready; exec cat")
                .unwrap_or_else(|why| panic!("session {number}: {why}"));
            session
                .wait_for_output(account)
                .unwrap_or_else(|why| panic!("session {number}: {why}"));
            session
        })
        .collect();
    let took = started.elapsed().as_secs_f64();
    let (pss, processes) = pss_below(running.daemon.pid());
    say(&format!(
        "load: {IDLE} idle sessions (begun in {took:.1} s): {processes} processes, PSS {} KiB each session",
        pss / IDLE as u64
    ));
    one_login(account).unwrap_or_else(|why| panic!("beside idle sessions: {why}"));
    drop(sessions);
}

fn silent(running: &Running, account: &Account) {
    let port = running.daemon.port;
    let silent: Vec<TcpStream> = (0..SILENT)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).expect("a connection"))
        .collect();
    for stream in &silent {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a limit");
        let mut start = [0; 4];
        std::io::Read::read_exact(&mut &*stream, &mut start).expect("a greeting");
        assert_eq!(&start, b"SSH-");
    }
    let (pss, processes) = pss_below(running.daemon.pid());
    say(&format!(
        "load: {SILENT} silent connections: {processes} processes, PSS {} KiB each",
        pss / SILENT as u64
    ));
    for _ in 0..20 {
        one_login(account).unwrap_or_else(|why| panic!("beside silent connections: {why}"));
    }
    drop(silent);
}
