//! Rules for both roles: requests in the wrong phase, damaged requests, invalid snapshots.

use hostile::adversary::{Adversary, Offer};
use hostile::subject::Memory;
use interop::process::descendants;
use interop::report::say;
use interop::scratch::Scratch;
use privsep::roles::{ConnectionNews, ROLE_AUTH, ROLE_SESSION};
use privsep::{
    AuthOutcome, Log, LogLevel, LoginPhase, Message, SignExchangeHash, Signature, Snapshot,
    UserPolicy, permitted,
};
use privsep_tests::double::Monitor;
use privsep_tests::facts::Facts;
use privsep_tests::place::{HASH, Noise, Place, damaged, every_frame, exchange, signed, snapshot};
use privsep_tests::sshd::{UserKey, binary};

const DOUBLE: &str = env!("CARGO_BIN_EXE_privsep-double");

#[test]
fn every_request_out_of_its_phase_ends_the_session() {
    let place = Place::new(DOUBLE);
    let mut tried = 0;
    for phase in [
        LoginPhase::KeyExchange,
        LoginPhase::BeforeUser,
        LoginPhase::Authenticating,
        LoginPhase::Authenticated,
        LoginPhase::HandedOver,
        LoginPhase::Session,
    ] {
        for (number, frame) in every_frame(&place) {
            if permitted(phase, number) {
                continue;
            }
            let mut monitor = place.at(phase);
            monitor.send_bytes(&frame);
            monitor.ends_for_a_broken_rule(&format!("message {number} in {phase:?}"));
            let before_login = matches!(
                phase,
                LoginPhase::KeyExchange | LoginPhase::BeforeUser | LoginPhase::Authenticating
            );
            let news = monitor.news();
            let wanted = if before_login {
                ConnectionNews::Crashed
            } else {
                ConnectionNews::Authenticated
            };
            assert_eq!(news, [wanted.byte()], "message {number} in {phase:?}");
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
    say(&format!(
        "{tried} requests out of their phase each ended the session"
    ));
}

#[test]
fn nothing_follows_the_snapshot() {
    let place = Place::new(DOUBLE);
    for frame in [
        snapshot().encode_frame(),
        exchange(&HASH).encode_frame(),
        Log {
            level: LogLevel::Info,
            is_forced: false,
            text: "more".into(),
            tail: None,
        }
        .encode_frame(),
    ] {
        let mut monitor = place.at(LoginPhase::HandedOver);
        monitor.send_bytes(&frame);
        monitor.ends_for_a_broken_rule("a message behind the snapshot");
    }
    // Success without a snapshot starts no session.
    let mut monitor = place.at(LoginPhase::Authenticated);
    monitor.end_role();
    monitor.wait_for_end();
    assert!(monitor.next_frame().is_none());
}

/// The session processes of a monitor.
fn sessions_of(monitor: &Monitor) -> Vec<Facts> {
    let name = format!("fulmar {ROLE_SESSION}");
    descendants(monitor.pid())
        .into_iter()
        .filter_map(Facts::of)
        .filter(|facts| facts.command_line == name)
        .collect()
}

#[test]
fn a_session_process_ahead_of_its_login_is_told_nothing_and_ends_without_one() {
    let place = Place::new(DOUBLE);
    let expects = SignExchangeHash {
        expects_login: true,
        ..exchange(&HASH)
    };
    let stranger = UserKey::new(42).private;
    let wrong = signed(&stranger, &HASH, &place.user, "ssh-connection", None);
    for (what, first) in [
        ("a guess", expects.clone()),
        ("a signature", exchange(&HASH)),
    ] {
        let mut monitor = place.monitor("");
        let _: Signature = monitor.ask(&first);
        let _: UserPolicy = monitor.ask(&place.user());
        let ahead = usize::from(first.expects_login);
        let there = Monitor::eventually(|| sessions_of(&monitor).len() == ahead);
        assert!(there, "{what}: {:#?}", sessions_of(&monitor));
        for _ in 0..2 {
            let outcome: AuthOutcome = monitor.ask(&wrong);
            assert!(matches!(outcome, AuthOutcome::Failure { .. }), "{what}");
            // A process that has just been executed opens its libraries.
            let one = Monitor::eventually(
                || matches!(&sessions_of(&monitor)[..], [session] if session.descriptors.len() == 6),
            );
            let all = sessions_of(&monitor);
            assert!(
                one,
                "{what}: not one session process: {all:#?} {}",
                monitor.log()
            );
        }
        let pid = sessions_of(&monitor)[0].pid;
        monitor.end_role();
        monitor.wait_for_end();
        // It would have reported its start and its messages.
        assert!(monitor.next_frame().is_none(), "{what}");
        assert!(Monitor::eventually(|| Facts::of(pid).is_none()), "{what}");
    }
    // The session inherits the variables that a PAM module sets.
    let mut monitor = place.monitor("UsePAM yes");
    let _: Signature = monitor.ask(&expects);
    let _: UserPolicy = monitor.ask(&place.user());
    assert!(sessions_of(&monitor).is_empty());
}

#[test]
fn a_role_hears_the_end_of_its_monitor() {
    let place = Place::new(DOUBLE);
    for phase in [LoginPhase::Authenticating, LoginPhase::Session] {
        let mut monitor = place.at(phase);
        monitor.kill();
        assert!(monitor.next_frame().is_none());
    }
}

#[test]
fn the_monitor_executes_the_role_with_its_descriptors_and_nothing_else() {
    let place = Place::new(DOUBLE);
    let mut monitor = place.at(LoginPhase::BeforeUser);
    let facts = privsep_tests::facts::Facts::of(monitor.role_pid()).expect("the role");
    assert_eq!(facts.command_line, format!("fulmar {ROLE_AUTH}"));
    assert!(facts.environment.is_empty(), "{:?}", facts.environment);
    let kinds: Vec<&str> = (0..6).map(|number| facts.kind(number)).collect();
    assert_eq!(&kinds[..2], ["/dev/null", "/dev/null"]);
    assert_eq!(&kinds[3..5], ["socket", "socket"]);
    assert!(kinds[5].starts_with("/memfd:sshd-auth"), "{kinds:?}");
    assert_eq!(facts.descriptors.len(), 6, "{:?}", facts.descriptors);

    place_session(&place, &mut monitor);
    let facts = privsep_tests::facts::Facts::of(monitor.role_pid()).expect("the role");
    assert_eq!(facts.command_line, format!("fulmar {ROLE_SESSION}"));
    let names: Vec<&str> = facts
        .environment
        .iter()
        .filter_map(|entry| entry.split('=').next())
        .filter(|name| *name != "TZ")
        .collect();
    assert_eq!(names, ["PATH"]);
    assert_eq!(facts.descriptors.len(), 6, "{:?}", facts.descriptors);
}

fn place_session(place: &Place, monitor: &mut Monitor) {
    let _: UserPolicy = monitor.ask(&place.user());
    let outcome: AuthOutcome = monitor.ask(&place.key_verify());
    assert_eq!(outcome, AuthOutcome::Success);
    monitor.send(&snapshot());
    monitor.end_role();
    monitor.expect_role(ROLE_SESSION);
}

#[test]
fn damaged_requests_crash_no_monitor_and_sign_nothing_more() {
    let place = Place::new(DOUBLE);
    let mut noise = Noise(2026);
    let frames = every_frame(&place);
    for round in 0..60 {
        let phases = [
            LoginPhase::KeyExchange,
            LoginPhase::BeforeUser,
            LoginPhase::Authenticating,
            LoginPhase::Authenticated,
            LoginPhase::Session,
        ];
        let phase = phases[round % phases.len()];
        let mut monitor = place.monitor("MaxAuthTries 1000");
        place.bring(&mut monitor, phase);
        let fitting: Vec<&Vec<u8>> = frames
            .iter()
            .filter(|(number, _)| permitted(phase, *number))
            .map(|(_, frame)| frame)
            .collect();
        for _ in 0..20 {
            let frame = fitting[noise.below(fitting.len())];
            monitor.send_bytes(&damaged(&mut noise, frame));
        }
        monitor.end_role();
        monitor.wait_until_over();
        let log = monitor.log();
        assert!(!log.contains("panicked"), "{round}: {log}");
        assert!(!log.contains("RUST_BACKTRACE"), "{round}: {log}");
    }
}

#[test]
fn a_snapshot_that_is_none_starts_no_session() {
    let place = Place::new(DOUBLE);
    let folder = Scratch::new();
    let double = folder.join("double");
    std::fs::copy(DOUBLE, &double).expect("a copy");
    std::os::unix::fs::symlink(binary(), folder.join("real-session")).expect("a link");
    let mut noise = Noise(7);
    let mut snapshots: Vec<Vec<u8>> = vec![Vec::new(), vec![0], vec![0xff; 5000]];
    snapshots.push(vec![0; 3 << 20]);
    for length in [10, 100, 1000, 10_000] {
        snapshots.push((0..length).map(|_| noise.byte()).collect());
    }
    for bytes in snapshots {
        let what = format!("{} bytes", bytes.len());
        let mut monitor = place.monitor_with(&double, "");
        place.bring(&mut monitor, LoginPhase::Authenticated);
        monitor.send(&Snapshot {
            bytes: bytes.into(),
        });
        monitor.end_role();
        monitor.wait_until_over();
        let log = monitor.log();
        assert!(log.contains("cannot start the session"), "{what}: {log}");
        assert!(!log.contains("panicked"), "{what}: {log}");
    }
}

#[test]
fn a_snapshot_frame_that_is_cut_short_inside_starts_no_session() {
    let place = Place::new(DOUBLE);
    let folder = Scratch::new();
    let double = folder.join("double");
    std::fs::copy(DOUBLE, &double).expect("a copy");
    std::os::unix::fs::symlink(binary(), folder.join("real-session")).expect("a link");
    // The monitor forwards the frame unchanged: the session checks its content.
    for body in [&b""[..], b"\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x09short"] {
        let mut monitor = place.monitor_with(&double, "");
        place.bring(&mut monitor, LoginPhase::Authenticated);
        monitor.send_bytes(&privsep::frame::frame(Snapshot::NUMBER, body));
        monitor.end_role();
        monitor.wait_until_over();
        let log = monitor.log();
        assert!(log.contains("cannot start the session"), "{body:?}: {log}");
    }
}

/// The snapshot of a login in memory, and its session identifier.
fn snapshot_of_another_login() -> (Vec<u8>, Vec<u8>) {
    let server = Memory::server(proto::TransportConfig::default());
    let mut client = Adversary::new(server, proto::Role::Client);
    client.exchange(&Offer::default());
    client.service();
    client.login_password(b"somebody", hostile::subject::PASSWORD);
    let id = client.session_id.clone().expect("a session");
    let blank = proto::Connection::server(proto::TransportConfig::default(), Vec::new(), 0);
    let blank = blank.or_else(|_| proto::Connection::client(proto::TransportConfig::default(), 0));
    let connection = std::mem::replace(
        &mut client.subject.connection,
        blank.expect("another connection"),
    );
    (connection.snapshot().expect("a snapshot").to_vec(), id)
}

#[test]
fn a_snapshot_of_another_login_starts_no_session() {
    let place = Place::new(DOUBLE);
    let folder = Scratch::new();
    let double = folder.join("double");
    std::fs::copy(DOUBLE, &double).expect("a copy");
    std::os::unix::fs::symlink(binary(), folder.join("real-session")).expect("a link");
    let (bytes, id) = snapshot_of_another_login();
    let begin = |hash: &[u8]| {
        let mut monitor = place.monitor_with(&double, "");
        let _: Signature = monitor.ask(&exchange(hash));
        let _: UserPolicy = monitor.ask(&place.user());
        let request = signed(
            &place.key.private,
            hash,
            &place.user,
            "ssh-connection",
            None,
        );
        let outcome: AuthOutcome = monitor.ask(&request);
        assert_eq!(outcome, AuthOutcome::Success);
        monitor.send(&Snapshot {
            bytes: bytes.clone().into(),
        });
        monitor.end_role();
        monitor.leave_session();
        monitor.log()
    };
    let log = begin(&[1; 32]);
    assert!(
        log.contains("the connection is not the one that logged in"),
        "{log}"
    );
    // The session starts only with the identifier that the monitor has signed.
    assert_eq!(id.len(), 32);
    let log = begin(&id);
    assert!(!log.contains("cannot start the session"), "{log}");
}
