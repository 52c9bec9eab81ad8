//! MaxStartups at its default while silent connections of one address stand: logins from elsewhere get in.
//!
//! A refused login ("Exceeded MaxStartups") is tried again until LoginGraceTime is over, as people and programs do.
//! With `INTEROP_ALL=1` there are 1,000 connections at once; `INTEROP_OURS=openssh` only reports.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use interop::peers::openssh;
use interop::peers::ours::Kind;
use interop::process::{Input, installed, run};
use interop::report::{is_whole_run, say};
use interop::scratch::Scratch;
use interop::site::{HOST, Site};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

/// LoginGraceTime's default.
const GRACE: Duration = Duration::from_secs(120);
/// The address of all silent connections.
const SILENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

/// A connection from `source` that sends nothing.
fn silent(source: Ipv4Addr, port: u16) -> std::io::Result<TcpStream> {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&fd, &SocketAddrV4::new(source, 0))?;
    connect(&fd, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    Ok(TcpStream::from(fd))
}

/// True if the server has not closed it.
fn stands(mut stream: &TcpStream) -> bool {
    let mut buffer = [0; 4096];
    stream.set_nonblocking(true).expect("a flag");
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    }
}

/// How the logins went.
#[derive(Default)]
struct Tally {
    succeeded: AtomicUsize,
    attempts: AtomicUsize,
}

/// Logs in from an address of its own until it succeeds.
fn log_in(mut ssh: impl FnMut() -> Command, number: usize, end: Instant, tally: &Tally) {
    let [high, low] = u16::try_from(number).expect("few logins").to_be_bytes();
    let address = Ipv4Addr::new(127, 1, high, low.max(1));
    let mut pause_ms = 100 + u64::try_from(number % 200).unwrap_or(0);
    while Instant::now() < end {
        tally.attempts.fetch_add(1, Ordering::Relaxed);
        let mut command = ssh();
        command.args(["-b", &address.to_string(), HOST, "echo in"]);
        let outcome = run(&mut command, Input::Nothing, GRACE);
        if outcome.is_ok_and(|outcome| outcome.stdout.text() == "in\n") {
            tally.succeeded.fetch_add(1, Ordering::Relaxed);
            return;
        }
        thread::sleep(Duration::from_millis(pause_ms));
        pause_ms = (pause_ms * 3 / 2).min(2_000);
    }
}

#[test]
fn logins_get_in_while_silent_connections_of_one_address_stand() {
    let tested = Kind::tested();
    if tested == Kind::OpenSsh && installed("sshd").is_none() {
        return;
    }
    let (silents, logins) = if is_whole_run() {
        (500, 500)
    } else {
        (150, 20)
    };
    let scratch = Scratch::new();
    // The last line of this keyword counts for OpenSSH 9.2, the first one for ours.
    let mut lines = openssh::server_config(tested, &scratch).replace(
        "MaxStartups 1000\n",
        "MaxStartups 10:30:100\nLoginGraceTime 120\n",
    );
    if tested == Kind::Fulmar {
        lines = lines.replace("PreauthSpares 0\n", "PreauthSpares 1\n");
    }
    let running = openssh::start_with(tested, scratch, &lines).expect("a server");
    let site = Site {
        client: tested,
        running,
    };
    let config = site.config("");
    let ssh = || {
        let mut command = site.client.ssh().expect("a client");
        command.arg("-F").arg(&config);
        command
    };
    let port = site.running.daemon.port;
    let standing: Vec<TcpStream> = (0..silents)
        .map(|_| silent(SILENT, port).expect("a connection"))
        .collect();
    let started = Instant::now();
    let tally = Tally::default();
    thread::scope(|scope| {
        for number in 0..logins {
            let tally = &tally;
            let ssh = &ssh;
            scope.spawn(move || log_in(ssh, number + 1, started + GRACE, tally));
        }
    });
    let took = started.elapsed();
    let left = standing.iter().filter(|stream| stands(stream)).count();
    let (succeeded, attempts) = (tally.succeeded.into_inner(), tally.attempts.into_inner());
    let figure = format!(
        "{}: {succeeded} of {logins} logins in {:.1} s with {attempts} attempts beside {silents} silent connections of \
         another address, of which {left} stand at the end",
        tested.name(),
        took.as_secs_f64()
    );
    if tested == Kind::OpenSsh || is_whole_run() {
        say(&figure);
    }
    if tested == Kind::Fulmar {
        assert_eq!(succeeded, logins, "{figure}: {}", site.running.daemon.log());
    }
}
