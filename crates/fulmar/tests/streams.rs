//! Data through channels, the library's client against its server: complete, bounded, and on
//! several channels at once.

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Fixture, MIB, PASSWORD, PATIENCE, digest, fill, offer, write_pattern};
use fulmar::client::{Auth, Config, Session};
use fulmar::{Error, Exit, Fault, MAX_BUFFERED_BYTES};

/// 100 MiB of data, bytes; keys are exchanged after each MiB.
const BULK: usize = 100 * MIB;

fn rekeying(fixture: &Fixture) -> Session {
    let mut config = fixture.config();
    config.transport.rekey_bytes = Some(MIB as u64);
    fixture.login_with(config)
}

#[test]
fn bulk_up_arrives_whole_with_new_keys_every_mebibyte() {
    let fixture = Fixture::start();
    let session = rekeying(&fixture);
    let channel = session.exec("sha256").unwrap();
    let sent = write_pattern(&channel, BULK).unwrap();
    let output = channel.output(4096).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, format!("{sent} {BULK}"));
    assert!(output.exit.is_success());
}

#[test]
fn bulk_down_arrives_whole_with_new_keys_every_mebibyte() {
    let fixture = Fixture::with(|config| config.transport.rekey_bytes = Some(MIB as u64));
    let session = fixture.login();
    let channel = session.exec(format!("pattern {BULK}")).unwrap();
    let (hash, total) = digest(&channel).unwrap();
    let mut told = String::new();
    channel.stderr().read_to_string(&mut told).unwrap();
    assert_eq!(total, BULK);
    assert_eq!(told, format!("{hash} {BULK}"));
    assert!(channel.wait().unwrap().is_success());
}

#[test]
fn both_directions_of_one_channel_and_many_channels_at_once() {
    let fixture = Fixture::start();
    let session = rekeying(&fixture);
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let session = &session;
            scope.spawn(move || {
                let channel = session.exec("cat").unwrap();
                let mut sent = vec![0; MIB + seed * 1000];
                fill(&mut sent, seed);
                let writer = channel.clone();
                let bytes = sent.clone();
                let writing = std::thread::spawn(move || {
                    (&writer).write_all(&bytes).unwrap();
                    writer.send_eof();
                });
                let mut back = Vec::new();
                (&channel).read_to_end(&mut back).unwrap();
                writing.join().unwrap();
                assert!(back == sent, "channel {seed} gave other bytes back");
                assert_eq!(channel.wait().unwrap(), Exit::Status(0));
            });
        }
    });
}

#[test]
fn channels_follow_each_other_on_reused_numbers() {
    let fixture = Fixture::start();
    let session = fixture.login();
    for round in 0..200 {
        let output = session.run(format!("echo {round}")).unwrap();
        assert_eq!(output.stdout, format!("{round}\n").into_bytes());
    }
    // Dropped unread, with data in flight: the next channel must not see any of it.
    for round in 0..20 {
        drop(session.exec("pattern 300000").unwrap());
        let output = session.run(format!("echo {round}")).unwrap();
        assert_eq!(output.stdout, format!("{round}\n").into_bytes());
    }
}

#[test]
fn the_servers_limit_on_channels_is_told_and_passes() {
    let fixture = Fixture::with(|config| config.transport.max_channels = 2);
    let session = fixture.login();
    let held = [session.exec("cat").unwrap(), session.exec("cat").unwrap()];
    let error = session.exec("cat").unwrap_err();
    assert!(matches!(error, Error::ChannelRefused { reason: 4, .. }));
    assert_eq!(error.fault(), Fault::Peer);
    for channel in held {
        assert!(channel.output(10).unwrap().exit.is_success());
    }
    // The server learns of their ends a moment later.
    let end = Instant::now() + PATIENCE;
    let again = loop {
        match session.run("echo again") {
            Err(Error::ChannelRefused { reason: 4, .. }) if Instant::now() < end => {}
            other => break other,
        }
    };
    assert_eq!(again.unwrap().stdout, b"again\n");
}

/// Most bytes between writer and reader: the buffers of each side, and the kernel's buffers of the
/// connection.
const ON_THE_WAY: u64 = 2 * MAX_BUFFERED_BYTES as u64 + 8 * MIB as u64;

#[test]
fn a_client_that_writes_waits_when_the_server_reads_nothing() {
    let fixture = Fixture::start();
    let session = fixture.login();
    let channel = session.exec("hold").unwrap();
    channel
        .set_write_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let taken = offer(&channel);
    assert!(taken < ON_THE_WAY, "{taken} bytes of 64 MiB were accepted");
    // It does not stop the rest of the connection.
    assert_eq!(session.run("echo alive").unwrap().stdout, b"alive\n");
}

#[test]
fn a_server_that_writes_waits_when_the_client_reads_nothing() {
    let fixture = Fixture::start();
    let session = fixture.login();
    let channel = session.exec("flood").unwrap();
    let taken = loop {
        match fixture.commands.flooded.lock().unwrap().take() {
            Some(taken) => break taken,
            None => std::thread::yield_now(),
        }
    };
    assert!(taken < ON_THE_WAY, "{taken} bytes of 64 MiB were accepted");
    assert_eq!(session.run("echo alive").unwrap().stdout, b"alive\n");
    // All that was accepted arrives.
    let (_, total) = digest(&channel).unwrap();
    assert_eq!(total as u64, taken);
    assert_eq!(channel.wait().unwrap(), Exit::Status(0));
}

#[test]
fn output_takes_both_streams_and_stops_at_its_limit() {
    let fixture = Fixture::start();
    let session = fixture.login();
    let output = session.run("both").unwrap();
    assert_eq!(output.stdout, vec![b'o'; 3 * MIB]);
    assert_eq!(output.stderr, vec![b'e'; 3 * MIB]);

    let channel = session.exec("both").unwrap();
    assert!(matches!(
        channel.output(MIB),
        Err(Error::TooMuchOutput { limit_bytes: MIB })
    ));

    let channel = session.exec("both").unwrap();
    channel.discard_stderr();
    let (_, total) = digest(&channel).unwrap();
    assert_eq!(total, 3 * MIB);
    let mut nothing = Vec::new();
    channel.stderr().read_to_end(&mut nothing).unwrap();
    assert!(nothing.len() <= 3 * MIB);
}

#[test]
fn what_was_written_before_everything_is_dropped_still_leaves() {
    let fixture = Fixture::start();
    let session = fixture.login();
    let held = session.exec("hold").unwrap();
    (&held).write_all(&[1; 1000]).unwrap();
    drop(held);
    drop(session);
    while fixture.commands.held.lock().unwrap().is_none() {
        std::thread::yield_now();
    }
    let end = fixture.commands.held.lock().unwrap().take();
    assert_eq!(end.as_deref(), Some("end"));
}

#[test]
fn an_idle_connection_is_gone_after_the_last_handle() {
    let fixture = Fixture::start();
    let session = fixture.login();
    let channel = session.exec("cat").unwrap();
    drop(session);
    // A channel keeps its connection open.
    (&channel).write_all(b"still here").unwrap();
    channel.send_eof();
    let mut back = String::new();
    (&channel).read_to_string(&mut back).unwrap();
    assert_eq!(back, "still here");
    drop(channel);
    while fixture.server.connections() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn rekeying_by_hand_disturbs_nobody() {
    let fixture = Fixture::start();
    let session = fixture.login();
    let channel = session.exec("cat").unwrap();
    for round in 0..20_u8 {
        session.rekey().unwrap();
        (&channel).write_all(&[round; 100]).unwrap();
        let mut back = [0; 100];
        (&channel).read_exact(&mut back).unwrap();
        assert_eq!(back, [round; 100]);
    }
}

#[test]
fn a_handler_that_panics_ends_its_channel_alone() {
    let fixture = Fixture::start();
    let session = fixture.login();
    let held = session.exec("cat").unwrap();
    assert_eq!(session.run("panic").unwrap().exit, Exit::Unknown);
    assert!(held.output(10).unwrap().exit.is_success());
}

/// A path to the server that can be blocked (all sockets stay open and nothing moves) or cut.
struct Way {
    port: u16,
    blocked: Arc<AtomicBool>,
    ends: Arc<std::sync::Mutex<Vec<TcpStream>>>,
}

fn carry(mut from: TcpStream, mut to: TcpStream, blocked: &AtomicBool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if !blocked.load(Ordering::SeqCst) && to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

impl Way {
    fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let way = Self {
            port: listener.local_addr().unwrap().port(),
            blocked: Arc::default(),
            ends: Arc::default(),
        };
        let (blocked, ends) = (Arc::clone(&way.blocked), Arc::clone(&way.ends));
        std::thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let server = TcpStream::connect(("127.0.0.1", target)).unwrap();
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let blocked = Arc::clone(&blocked);
                std::thread::spawn(move || carry(from, to, &blocked));
            }
            ends.lock().unwrap().extend([client, server]);
        });
        way
    }

    fn cut(&self) {
        for end in self.ends.lock().unwrap().drain(..) {
            // The forwarding threads may have closed the second end already.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    fn login(&self, fixture: &Fixture) -> Session {
        self.login_with(fixture.config())
    }

    fn login_with(&self, config: Config) -> Session {
        let mut session = Session::connect("127.0.0.1", self.port, config).unwrap();
        session
            .authenticate("mia", Auth::Password(PASSWORD))
            .unwrap();
        session
    }
}

#[test]
fn a_peer_that_falls_silent_is_an_error_for_everybody_who_waits() {
    let fixture = Fixture::start();
    let way = Way::to(fixture.port);
    let mut config = fixture.config();
    // Long enough for a live peer, even on a busy machine.
    config.transport.alive_interval_ms = Some(2000);
    config.transport.alive_count_max = 2;
    let session = way.login_with(config);
    let channel = session.exec("cat").unwrap();
    way.blocked.store(true, Ordering::SeqCst);
    let error = (&channel).read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(matches!(
        channel.wait(),
        Err(Error::Protocol(fulmar::proto::Error::TimedOut(_)))
    ));
    let error = session.exec("cat").unwrap_err();
    assert_eq!(error.fault(), Fault::Network);
}

#[test]
fn a_connection_that_is_cut_is_an_error_and_no_end_of_file() {
    let fixture = Fixture::start();
    let way = Way::to(fixture.port);
    let session = way.login(&fixture);
    let channel = session.exec("cat").unwrap();
    (&channel).write_all(b"x").unwrap();
    (&channel).read_exact(&mut [0]).unwrap();
    way.cut();
    channel.set_read_timeout(Some(PATIENCE));
    let error = (&channel).read(&mut [0; 10]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!((&channel).write_all(&[0; MIB]).is_err());
    // The server has noticed, too: its handler and its thread have ended.
    while fixture.server.connections() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn an_output_that_came_whole_before_the_cut_is_whole() {
    let fixture = Fixture::start();
    let way = Way::to(fixture.port);
    let session = way.login(&fixture);
    let channel = session.exec("pattern 100000").unwrap();
    assert!(channel.wait().unwrap().is_success());
    way.cut();
    assert!(session.exec("cat").is_err());
    assert_eq!(digest(&channel).unwrap().1, 100_000);
}

#[test]
fn more_connections_than_the_limit_are_closed_at_once() {
    let fixture = Fixture::with(|config| config.max_connections = 2);
    let held = [fixture.login(), fixture.login()];
    let refused = Session::connect("127.0.0.1", fixture.port, fixture.config());
    assert!(
        matches!(refused, Err(Error::Closed | Error::Io(_))),
        "{refused:?}"
    );
    drop(held);
    while fixture.server.connections() > 0 {
        std::thread::yield_now();
    }
    fixture.login();
}
