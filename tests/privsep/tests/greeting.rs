//! The listener's greeting, before a connection has a process: a silent connection needs no
//! process, counts and is penalised like any other, and the connection continues with the
//! configuration of its greeting.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;

use interop::process::Outcome;
use interop::scratch::until;
use privsep_tests::sshd::{Config, LIMIT, Sshd, UserKey, finish, guest_with, possible};

/// The log line when the listener starts to load; it accepts nobody until it has loaded.
const LOADS: &str = "Received SIGHUP";

/// The rest of version line and KEXINIT, after the first 8 bytes.
fn rest_of_greeting(stream: &mut TcpStream) {
    let mut byte = [0];
    while byte != *b"\n" {
        stream.read_exact(&mut byte).expect("the version line");
    }
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("a packet");
    let mut packet = vec![0; usize::try_from(u32::from_be_bytes(length)).expect("a length")];
    stream.read_exact(&mut packet).expect("all of it");
    assert_eq!(packet.get(1), Some(&20), "KEXINIT");
}

/// Checks that the server ends the connection, whatever it sends before.
fn ends(stream: &mut TcpStream) -> bool {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

#[test]
fn silence_has_no_process_and_speaking_has() {
    if !possible("connections that say nothing") {
        return;
    }
    let key = UserKey::new(41);
    let guest = guest_with("", &key);
    let server = Sshd::start(Config::new("LogLevel VERBOSE"));
    let mut held: Vec<TcpStream> = (0..20).map(|_| server.silent_connection()).collect();
    held.iter_mut().for_each(rest_of_greeting);
    assert_eq!(server.processes().len(), 0, "{:#?}", server.processes());
    server.lets_in(&guest.name, &key);
    server.leaves_nothing_behind();
    // A client that sends data has its two processes and an answer.
    let mut one = held.pop().expect("one of them");
    one.write_all(b"no SSH at all\r\n").expect("it listens");
    assert!(ends(&mut one));
    server.logs("client sent invalid protocol identifier \"no SSH at all\"");
    server.leaves_nothing_behind();
    let begun = server.begun_connection();
    assert_eq!(server.processes().len(), 2, "{:#?}", server.processes());
    drop((held, begun));
    server.leaves_nothing_behind();
    server.logs("Connection closed by 127.0.0.1 port");
    server.lets_in(&guest.name, &key);
}

#[test]
fn silence_ends_with_the_grace_time_and_has_its_penalty() {
    if !possible("the grace time of connections that say nothing") {
        return;
    }
    let server = Sshd::start(Config::new(
        "LoginGraceTime 1\nPerSourcePenalties grace-exceeded:90s min:1s\nLogLevel VERBOSE",
    ));
    let mut silent = server.silent_connection();
    rest_of_greeting(&mut silent);
    assert!(ends(&mut silent));
    server.logs("Connection from 127.0.0.1 port");
    server.logs("Timeout before authentication for 127.0.0.1 port");
    server.logs("activating penalty of 90 seconds for exceeded LoginGraceTime");
    let mut said = String::new();
    let mut next = TcpStream::connect(("127.0.0.1", server.daemon.port)).expect("a connection");
    let _ = next.read_to_string(&mut said);
    assert_eq!(said, "Not allowed at this time\r\n");
}

#[test]
fn silence_counts_towards_max_startups() {
    if !possible("MaxStartups and connections that say nothing") {
        return;
    }
    let server = Sshd::start(Config::new("MaxStartups 2"));
    let held = [server.silent_connection(), server.silent_connection()];
    let refused = || {
        let mut next = TcpStream::connect(("127.0.0.1", server.daemon.port)).expect("a connection");
        let mut begin = [0; 8];
        next.read_exact(&mut begin).expect("the first bytes");
        begin == *b"Exceeded"
    };
    assert!(refused());
    drop(held);
    assert!(until(LIMIT, || !refused()), "{}", server.daemon.log());
}

/// Forwards a client's bytes to the server after `start`; until then the client is silent and
/// receives.
fn hold_back(server_port: u16) -> (u16, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    let (greeted, is_greeted) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    std::thread::spawn(move || {
        let (client, _) = listener.accept().expect("the client");
        let mut server = TcpStream::connect(("127.0.0.1", server_port)).expect("the server");
        let mut first = [0; 4096];
        let count = server.read(&mut first).expect("the greeting");
        (&client).write_all(&first[..count]).expect("it listens");
        let (mut back, mut to_client) = (server.try_clone().expect("a clone"), client.try_clone());
        std::thread::spawn(move || std::io::copy(&mut back, to_client.as_mut().expect("a clone")));
        let _ = greeted.send(());
        let _ = may_go_on.recv();
        let _ = std::io::copy(&mut &client, &mut server);
        // The client has left: the server must notice it.
        let _ = server.shutdown(Shutdown::Write);
    });
    (port, is_greeted, go_on)
}

/// A login whose client was greeted by a server with `old` and sends data after the server has
/// loaded `new`.
fn login_over_a_reload(server: &Sshd, user: &str, key: &UserKey, new: &str) -> Outcome {
    let (port, is_greeted, go_on) = hold_back(server.daemon.port);
    std::thread::scope(|scope| {
        let login = scope.spawn(|| {
            let mut command = server.ssh_by(port, user, &[key]);
            finish(command.args(["127.0.0.1", "echo in"]))
        });
        is_greeted.recv_timeout(LIMIT).expect("a greeting");
        server.rewrite(Config::new(new));
        let loads = server.daemon.log().matches(LOADS).count();
        server.hang_up();
        let loaded = until(LIMIT, || server.daemon.log().matches(LOADS).count() > loads);
        assert!(loaded, "{}", server.daemon.log());
        let _ = go_on.send(());
        login.join().expect("a login")
    })
}

/// The greeting determines the accepted users and methods, not the client's first message.
#[test]
fn a_client_greeted_before_a_reload_is_judged_by_what_held_then() {
    if !possible("who is let in over a reload") {
        return;
    }
    let key = UserKey::new(43);
    let guest = guest_with("", &key);
    let denied = format!("DenyUsers {}", guest.name);
    let open = "";
    let server = Sshd::start(Config::new(open));
    let waited = login_over_a_reload(&server, &guest.name, &key, &denied);
    let log = || server.daemon.log();
    assert_eq!(
        waited.stdout.text(),
        "in\n",
        "{}\n{}",
        waited.summary(),
        log()
    );
    server.keeps_out(&guest.name, &key);
    let waited = login_over_a_reload(&server, &guest.name, &key, open);
    assert_eq!(waited.status, 255, "{}\n{}", waited.summary(), log());
    assert!(
        waited.stderr.text().contains("Permission denied"),
        "{}",
        waited.summary()
    );
    server.lets_in(&guest.name, &key);
    server.leaves_nothing_behind();
}

#[test]
fn what_was_said_before_a_reload_holds_behind_it() {
    if !possible("a reload between greeting and answer") {
        return;
    }
    let key = UserKey::new(42);
    let guest = guest_with("", &key);
    for spares in ["PreauthSpares 0", "PreauthSpares 1"] {
        let server = Sshd::start(Config::new(spares));
        let new = format!("{spares}\nCiphers aes128-ctr\nKexAlgorithms ecdh-sha2-nistp256");
        let waits = login_over_a_reload(&server, &guest.name, &key, &new);
        // Both sides hash the listener's lists: with other lists the signature would be wrong.
        assert_eq!(
            waits.stdout.text(),
            "in\n",
            "{}\n{}",
            waits.summary(),
            server.daemon.log()
        );
        server.lets_in(&guest.name, &key);
    }
}
