//! Pre-forked processes (PreauthSpares): started while the listener is idle, used once, ended by a
//! reload, and replaced if they have ended.

use std::io::Read;
use std::net::TcpStream;
use std::path::Path;

use interop::scratch::until;
use privsep_tests::facts::Facts;
use privsep_tests::sshd::{Config, LIMIT, Sshd, UserKey, guest_with, possible};
use sys::signals::Signal;

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).expect("a pid");
    if let Ok(process) = sys::process::PidFd::open(pid) {
        let _ = process.signal(signal);
    }
}

fn parent(facts: &Facts) -> u32 {
    u32::try_from(facts.number("PPid")).expect("a pid")
}

/// A waiting monitor and its auth process.
struct Pair {
    monitor: Facts,
    auth: Facts,
}

/// The complete waiting pairs.
fn waiting(server: &Sshd) -> Vec<Pair> {
    let all = server.processes();
    let sandboxed = |facts: &&Facts| facts.number("Seccomp") == 2;
    all.iter()
        .filter(|facts| facts.command_line == "sshd-session: [waiting]")
        .filter_map(|monitor| {
            let auth = all
                .iter()
                .filter(sandboxed)
                .find(|each| parent(each) == monitor.pid)?;
            Some(Pair {
                monitor: monitor.clone(),
                auth: auth.clone(),
            })
        })
        .collect()
}

/// The pairs, once `count` of them wait and no other process is left.
fn settled(server: &Sshd, count: usize) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let there = until(LIMIT, || {
        pairs = waiting(server);
        pairs.len() == count && server.processes().len() == 2 * count
    });
    assert!(
        there,
        "not {count} pairs: {:#?}\n{}",
        server.processes(),
        server.daemon.log()
    );
    pairs
}

fn monitors(pairs: &[Pair]) -> Vec<u32> {
    pairs.iter().map(|pair| pair.monitor.pid).collect()
}

fn lives(pid: u32) -> bool {
    Facts::of(pid).is_some_and(|facts| facts.status("State")[0] != "Z")
}

fn first_bytes(server: &Sshd) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.daemon.port)).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut begin = [0; 8];
    stream.read_exact(&mut begin).expect("the first bytes");
    (stream, String::from_utf8_lossy(&begin).into_owned())
}

#[test]
fn waiting_processes_are_caged_serve_one_connection_and_are_replaced() {
    if !possible("processes that wait for connections") {
        return;
    }
    let key = UserKey::new(31);
    let guest = guest_with("", &key);
    // Options for this address only reach a process that was started before.
    let server = Sshd::start(Config {
        first: "PreauthSpares 2",
        blocks: "Match Address 127.0.0.1\n  RekeyLimit 1G\n",
    });
    let before = settled(&server, 2);
    for Pair { monitor, auth } in &before {
        assert_eq!(auth.capabilities("CapEff"), 0, "{auth:#?}");
        assert_eq!(auth.number("NoNewPrivs"), 1);
        assert_ne!(auth.root, Path::new("/"));
        // Standard streams and the RPC; the monitor also has its message pipe and the program.
        let numbers: Vec<u32> = auth.descriptors.keys().copied().collect();
        assert_eq!(numbers, [0, 1, 2, 4], "{auth:#?}");
        assert!(monitor.descriptors.len() <= 7, "{monitor:#?}");
    }
    let descriptors = || {
        let listener = Facts::of(server.daemon.pid()).expect("the listener");
        listener.descriptors.len()
    };
    let open = descriptors();

    let (silent, begin) = first_bytes(&server);
    assert_eq!(begin, "SSH-2.0-");
    // One of them serves the connection, and another replaces it.
    assert!(until(LIMIT, || waiting(&server).len() == 2));
    let now = monitors(&waiting(&server));
    let used: Vec<u32> = monitors(&before)
        .into_iter()
        .filter(|pid| !now.contains(pid))
        .collect();
    assert_eq!(
        used.len(),
        1,
        "{before:?} {now:?}",
        before = monitors(&before)
    );
    assert!(used.iter().all(|pid| lives(*pid)));
    drop(silent);
    settled(&server, 2);
    assert!(used.iter().all(|pid| !lives(*pid)));

    // More logins than waiting processes.
    for _ in 0..5 {
        server.lets_in(&guest.name, &key);
    }
    server.keeps_out(&guest.name, &UserKey::new(99));
    settled(&server, 2);
    // The listener counts a process until it has noticed its end.
    let back = until(LIMIT, || descriptors() == open);
    assert!(back, "{open} descriptors, then {}", descriptors());
}

#[test]
fn what_waits_ends_with_a_reload_and_with_the_listener() {
    if !possible("processes that wait, over a reload") {
        return;
    }
    let key = UserKey::new(32);
    let guest = guest_with("", &key);
    let first = "PreauthSpares 1";
    let server = Sshd::start(Config::new(first));
    let old = monitors(&settled(&server, 1));
    server.rewrite(Config::new(&format!("{first}\nDenyUsers {}", guest.name)));
    server.hang_up();
    server.logs("Received SIGHUP");
    let gone = until(LIMIT, || !old.iter().any(|pid| lives(*pid)));
    assert!(gone, "{:#?}", server.processes());
    let new = settled(&server, 1);
    // It has the new configuration, and so do processes that are started while none waits.
    server.keeps_out(&guest.name, &key);
    server.keeps_out(&guest.name, &key);

    // A killed listener notifies nobody.
    let all: Vec<u32> = settled(&server, 1)
        .iter()
        .flat_map(|pair| [pair.monitor.pid, pair.auth.pid])
        .collect();
    assert!(!all.contains(&new[0].monitor.pid));
    signal(server.daemon.pid(), Signal::KILL);
    assert!(until(LIMIT, || !all.iter().any(|pid| lives(*pid))));
}

#[test]
fn a_process_that_died_waiting_costs_its_connection_nothing() {
    if !possible("processes that die waiting") {
        return;
    }
    let key = UserKey::new(33);
    let guest = guest_with("", &key);
    let server = Sshd::start(Config::new("PreauthSpares 2"));
    let pairs = settled(&server, 2);
    // The auth process of one pair, and the monitor of the other.
    signal(pairs[0].auth.pid, Signal::KILL);
    signal(pairs[1].monitor.pid, Signal::KILL);
    assert!(until(LIMIT, || {
        !lives(pairs[0].auth.pid) && !lives(pairs[1].monitor.pid) && !lives(pairs[1].auth.pid)
    }));
    for _ in 0..3 {
        server.lets_in(&guest.name, &key);
    }
    assert!(
        !server.daemon.log().contains("panic"),
        "{}",
        server.daemon.log()
    );
}

#[test]
fn max_startups_counts_what_was_started_ahead() {
    if !possible("processes that wait, and MaxStartups") {
        return;
    }
    let server = Sshd::start(Config::new("PreauthSpares 5\nMaxStartups 2"));
    settled(&server, 2);
    let (one, begin) = first_bytes(&server);
    assert_eq!(begin, "SSH-2.0-");
    let (two, begin) = first_bytes(&server);
    assert_eq!(begin, "SSH-2.0-");
    let (_three, begin) = first_bytes(&server);
    assert_eq!(begin, "Exceeded");
    drop((one, two));
    settled(&server, 2);
}
