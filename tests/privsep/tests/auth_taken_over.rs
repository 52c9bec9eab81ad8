//! A compromised auth process: the monitor ends the session, signs nothing else and permits no
//! login.

use interop::account::is_root;
use interop::report::{say, skipped};
use keys::SignatureAlgorithm;
use privsep::roles::ConnectionNews;
use privsep::{
    AuthNone, AuthOther, AuthOutcome, AuthPassword, ChooseGroup, Group, GssExchange, GssOutcome,
    GssapiKeyex, KeyAnswer, KeyQuery, KeyVerify, Log, LogLevel, LoginPhase, MAX_FRAME_BYTES,
    MAX_SNAPSHOT_BYTES, Message, PtyAllocate, Secret, SignExchangeHash, Signature, Snapshot, User,
    UserPolicy,
};
use privsep_tests::double::{host_key, timed};
use privsep_tests::place::{HASH, KEX, Place, exchange, gss_exchange, signed, snapshot};
use privsep_tests::sshd::UserKey;

const DOUBLE: &str = env!("CARGO_BIN_EXE_privsep-double");

#[test]
fn bytes_that_are_no_frame_end_the_session() {
    let place = Place::new(DOUBLE);
    let header = |length: usize, number: u8| {
        let mut bytes = u32::try_from(length).unwrap().to_be_bytes().to_vec();
        bytes.push(number);
        bytes
    };
    let password = AuthPassword {
        password: Secret::new(b"secret".to_vec()),
    }
    .encode_frame();
    let mut long_body = password.clone();
    long_body.push(0);
    long_body[3] += 1;
    let mut wrong_string = password.clone();
    wrong_string[5] = 0x7f;
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a length of zero", header(0, AuthPassword::NUMBER)),
        (
            "a frame of 1 MiB and one byte",
            header(MAX_FRAME_BYTES + 1, AuthPassword::NUMBER),
        ),
        (
            "a snapshot of 4 MiB and one byte",
            header(MAX_SNAPSHOT_BYTES + 1, Snapshot::NUMBER),
        ),
        ("a frame of 4 GiB", vec![0xff; 5]),
        ("bytes behind the last field", long_body),
        ("a string longer than its frame", wrong_string),
        (
            "no body where there is one",
            privsep::frame::frame(AuthPassword::NUMBER, &[]),
        ),
        (
            "noise",
            (0..4096_u32)
                .map(|n| (n * 197 % 251) as u8 | 0x80)
                .collect(),
        ),
    ];
    for (what, bytes) in cases {
        let mut monitor = place.at(LoginPhase::Authenticating);
        monitor.send_bytes(&bytes);
        monitor.ends_for_a_broken_rule(what);
    }
}

#[test]
fn a_frame_that_never_becomes_whole_ends_with_the_role() {
    let place = Place::new(DOUBLE);
    let mut monitor = place.at(LoginPhase::Authenticating);
    let mut begin = u32::try_from(MAX_FRAME_BYTES)
        .unwrap()
        .to_be_bytes()
        .to_vec();
    begin.push(AuthPassword::NUMBER);
    begin.extend(vec![0; MAX_FRAME_BYTES - 100]);
    monitor.send_bytes(&begin);
    monitor.end_role();
    monitor.wait_for_end();
    assert_eq!(monitor.frames_seen, 2, "{}", monitor.log());
}

#[test]
fn before_the_login_the_host_key_signs_one_hash_of_the_negotiated_length() {
    let place = Place::new(DOUBLE);
    let wrong: Vec<(&str, SignExchangeHash)> = vec![
        ("no hash", exchange(&[])),
        ("a byte less", exchange(&HASH[..31])),
        ("a byte more", exchange(&[7; 33])),
        ("another method's length", exchange(&[7; 64])),
        ("a user's request to sign", exchange(&[7; 300])),
        (
            "a method that is not configured",
            SignExchangeHash {
                kex_algorithm: "diffie-hellman-group1-sha1".into(),
                hash: vec![7; 20],
                ..exchange(&HASH)
            },
        ),
        (
            "no method",
            SignExchangeHash {
                kex_algorithm: String::new(),
                ..exchange(&HASH)
            },
        ),
        (
            "a key that there is not",
            SignExchangeHash {
                key_index: 1,
                ..exchange(&HASH)
            },
        ),
        (
            "the last key number",
            SignExchangeHash {
                key_index: u32::MAX,
                ..exchange(&HASH)
            },
        ),
        (
            "an algorithm that was not offered",
            SignExchangeHash {
                host_key_algorithm: "ssh-ed25519-cert-v01@openssh.com".into(),
                ..exchange(&HASH)
            },
        ),
    ];
    for (what, request) in wrong {
        let mut monitor = place.at(LoginPhase::KeyExchange);
        monitor.send(&request);
        monitor.ends_for_a_broken_rule(what);
        assert_eq!(monitor.frames_seen, 0, "{what}");
    }
    let mut monitor = place.at(LoginPhase::KeyExchange);
    let signature: Signature = monitor.ask(&exchange(&HASH));
    let policy = keys::VerifyPolicy {
        min_rsa_bits: 2048,
        require_user_presence: false,
        require_user_verification: false,
    };
    let public = host_key().public().clone();
    let verified = keys::PresentedKey::Plain(public).verify(
        SignatureAlgorithm::Ed25519,
        &HASH,
        &signature.blob,
        &policy,
    );
    assert!(verified.is_ok(), "{verified:?}");
    monitor.send(&exchange(&[8; 32]));
    monitor.ends_for_a_broken_rule("a second exchange before the login");
    assert_eq!(monitor.frames_seen, 1);
}

#[test]
fn before_the_login_a_mic_is_made_for_a_configured_method_and_its_hash_alone() {
    let place = Place::new(DOUBLE);
    let with_method = |name: &str| GssExchange {
        kex_algorithm: name.into(),
        ..gss_exchange(&HASH)
    };
    let option = "GSSAPIKeyExchange yes";
    let wrong: Vec<(&str, &str, GssExchange)> = vec![
        ("the option is off", "", gss_exchange(&HASH)),
        (
            "a method that is not listed",
            "GSSAPIKeyExchange yes\nGSSAPIKexAlgorithms gss-nistp256-sha256-",
            gss_exchange(&HASH),
        ),
        ("no hash", option, gss_exchange(&[])),
        ("a byte less", option, gss_exchange(&HASH[..31])),
        ("another method's length", option, gss_exchange(&[7; 64])),
        ("a text", option, gss_exchange(&[7; 300])),
        ("no method", option, with_method("")),
        ("a method with a host key", option, with_method(KEX)),
        (
            "a method without its mechanism",
            option,
            with_method("gss-curve25519-sha256-"),
        ),
    ];
    for (what, lines, request) in wrong {
        let mut monitor = place.monitor(lines);
        monitor.send(&request);
        monitor.ends_for_a_broken_rule(what);
        assert_eq!(monitor.frames_seen, 0, "{what}");
    }
    // The host key signs nothing for these methods.
    let mut monitor = place.monitor(option);
    monitor.send(&SignExchangeHash {
        kex_algorithm: gss_exchange(&HASH).kex_algorithm,
        ..exchange(&HASH)
    });
    monitor.ends_for_a_broken_rule("a signature for a method by GSS-API");
    // Here no acceptor starts: the answer is a refusal, which settles nothing.
    let mut monitor = place.monitor(option);
    let refused: GssOutcome = monitor.ask(&gss_exchange(&HASH));
    assert_eq!(refused, GssOutcome::Refused { token: Vec::new() });
    monitor.send(&place.user());
    monitor.ends_for_a_broken_rule("a user before a key exchange");
    let mut monitor = place.monitor(option);
    let _: GssOutcome = monitor.ask(&gss_exchange(&HASH));
    monitor.send(&gss_exchange(&HASH));
    monitor.ends_for_a_broken_rule("a second acceptor before the login");
    // Without such an exchange there is no context that could prove a user.
    let mut monitor = place.monitor("GSSAPIKeyExchange yes\nGSSAPIAuthentication yes");
    place.bring(&mut monitor, LoginPhase::Authenticating);
    let outcome: AuthOutcome = monitor.ask(&GssapiKeyex { mic: vec![4; 28] });
    let AuthOutcome::Failure { methods } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(!methods.contains(&"gssapi-keyex".to_owned()), "{methods:?}");
}

/// Requests whose signatures were made for something else.
fn bad_signatures(place: &Place) -> Vec<(&'static str, KeyVerify)> {
    let key = &place.key.private;
    let stranger = UserKey::new(42).private;
    let host = host_key().public().blob();
    let honest = place.key_verify();
    let of_stranger = signed(&stranger, &HASH, &place.user, "ssh-connection", None);
    vec![
        (
            "another user",
            signed(key, &HASH, "root", "ssh-connection", None),
        ),
        (
            "another session",
            signed(key, &[8; 32], &place.user, "ssh-connection", None),
        ),
        (
            "another service",
            signed(key, &HASH, &place.user, "ssh-other", None),
        ),
        (
            "another host key, signed",
            signed(
                key,
                &HASH,
                &place.user,
                "ssh-connection",
                Some(b"other host"),
            ),
        ),
        (
            "another host key, said only",
            KeyVerify {
                hostbound: Some(b"other host".to_vec()),
                ..honest.clone()
            },
        ),
        (
            "a host-bound request that was signed as a plain one",
            KeyVerify {
                hostbound: Some(host.clone()),
                ..honest.clone()
            },
        ),
        ("a stranger's key", of_stranger.clone()),
        (
            "a stranger's signature under the listed key",
            KeyVerify {
                signature: of_stranger.signature.clone(),
                ..honest.clone()
            },
        ),
        (
            "the host's own key",
            signed(&host_key(), &HASH, &place.user, "ssh-connection", None),
        ),
        (
            "no signature",
            KeyVerify {
                signature: vec![],
                ..honest.clone()
            },
        ),
        (
            "another algorithm's name",
            KeyVerify {
                algorithm: "rsa-sha2-512".into(),
                ..honest.clone()
            },
        ),
        (
            "a key of no bytes",
            KeyVerify {
                key: vec![],
                ..honest.clone()
            },
        ),
        (
            "a key that is a path",
            KeyVerify {
                key: place.authorized.display().to_string().into_bytes(),
                ..honest.clone()
            },
        ),
    ]
}

#[test]
fn a_signature_made_for_anything_else_lets_nobody_in() {
    let place = Place::new(DOUBLE);
    let key = &place.key.private;
    let host = host_key().public().blob();
    let mut monitor = place.monitor("MaxAuthTries 100");
    place.bring(&mut monitor, LoginPhase::Authenticating);
    // A query for the listed key succeeds, without effect.
    let answer: KeyAnswer = monitor.ask(&KeyQuery {
        algorithm: "ssh-ed25519".into(),
        key: key.public().blob(),
    });
    assert!(answer.acceptable);
    for (what, request) in bad_signatures(&place) {
        let outcome: AuthOutcome = monitor.ask(&request);
        assert!(
            matches!(outcome, AuthOutcome::Failure { .. }),
            "{what}: {outcome:?}"
        );
    }
    let bound = signed(key, &HASH, &place.user, "ssh-connection", Some(&host));
    let outcome: AuthOutcome = monitor.ask(&bound);
    assert_eq!(outcome, AuthOutcome::Success);
}

#[test]
fn success_cannot_be_said_only_reached() {
    let place = Place::new(DOUBLE);
    for frame in [
        snapshot().encode_frame(),
        AuthOutcome::Success.encode_frame(),
        PtyAllocate {}.encode_frame(),
    ] {
        let mut monitor = place.at(LoginPhase::Authenticating);
        let outcome: AuthOutcome = monitor.ask(&AuthNone {});
        assert!(matches!(outcome, AuthOutcome::Failure { .. }));
        monitor.send_bytes(&frame);
        monitor.ends_for_a_broken_rule("success that was not reached");
    }
    // All messages of a login at once, without the proof.
    let mut monitor = place.at(LoginPhase::KeyExchange);
    let mut all = exchange(&HASH).encode_frame();
    all.extend(place.user().encode_frame());
    all.extend(snapshot().encode_frame());
    monitor.send_bytes(&all);
    while let Some(frame) = monitor.next_frame() {
        assert!([Signature::NUMBER, UserPolicy::NUMBER].contains(&frame.number));
    }
    monitor.ends_for_a_broken_rule("a login without a proof");
}

#[test]
fn the_user_is_named_once_and_for_one_service() {
    let place = Place::new(DOUBLE);
    let mut monitor = place.at(LoginPhase::Authenticating);
    monitor.send(&User {
        user: "root".into(),
        ..place.user()
    });
    monitor.ends_for_a_broken_rule("a second user");
    let mut monitor = place.at(LoginPhase::BeforeUser);
    monitor.send(&User {
        service: "ssh-userauth".into(),
        ..place.user()
    });
    monitor.ends_for_a_broken_rule("another service");
}

#[test]
fn attempts_are_counted_where_the_role_cannot_reach() {
    let place = Place::new(DOUBLE);
    let mut monitor = place.monitor("MaxAuthTries 3");
    place.bring(&mut monitor, LoginPhase::Authenticating);
    let attempt = AuthOther {
        method: "hostbased".into(),
    };
    for _ in 0..2 {
        let outcome: AuthOutcome = monitor.ask(&attempt);
        assert!(matches!(outcome, AuthOutcome::Failure { .. }));
    }
    let outcome: AuthOutcome = monitor.ask(&attempt);
    assert_eq!(outcome, AuthOutcome::TooManyFailures);
    // The successful one comes too late.
    monitor.send(&place.key_verify());
    assert!(monitor.next_frame().is_none(), "{}", monitor.log());
    monitor.end_role();
    monitor.wait_for_end();
    assert_eq!(
        monitor.news(),
        [ConnectionNews::AuthenticationFailed.byte()]
    );

    // Successful queries do not count as failures, but are limited too.
    let mut monitor = place.at(LoginPhase::Authenticating);
    let query = KeyQuery {
        algorithm: "ssh-ed25519".into(),
        key: place.key.private.public().blob(),
    };
    let mut answered = 0;
    loop {
        monitor.send(&query);
        match monitor.next_frame() {
            Some(frame) if frame.number == KeyAnswer::NUMBER => answered += 1,
            _ => break,
        }
        assert!(answered < 5000, "queries go on for ever");
    }
    say(&format!(
        "a monitor answers {answered} queries of one connection"
    ));
}

#[test]
fn groups_for_an_exchange_are_handed_out_once() {
    let place = Place::new(DOUBLE);
    let request = ChooseGroup {
        min_bits: 2048,
        preferred_bits: 3072,
        max_bits: 8192,
    };
    let mut monitor = place.monitor("KexAlgorithms +diffie-hellman-group-exchange-sha256");
    let group: Group = monitor.ask(&request);
    assert!(group.p.len() >= 256);
    monitor.send(&request);
    monitor.ends_for_a_broken_rule("a second group");
    let mut monitor = place.monitor("");
    monitor.send(&request);
    monitor.ends_for_a_broken_rule("a group where no method needs one");
}

#[test]
fn lines_of_the_log_keep_their_mark_and_their_rate() {
    let place = Place::new(DOUBLE);
    let mut monitor = place.at(LoginPhase::KeyExchange);
    let forged = "Accepted publickey for root from 192.0.2.1 port 22 ssh2";
    for text in [
        forged.to_owned(),
        format!("{forged}{}", " ".repeat(2000)),
        format!("{forged}{}", "\u{e9}".repeat(2000)),
        format!("x\n{forged}"),
        format!("x\r\n{forged}\u{1b}[2J"),
    ] {
        monitor.send(&Log {
            level: LogLevel::Info,
            is_forced: false,
            text,
            tail: None,
        });
    }
    let (_, took) = timed(|| {
        for _ in 0..5000 {
            monitor.send(&Log {
                level: LogLevel::Fatal,
                is_forced: false,
                text: "flood".into(),
                tail: None,
            });
        }
        let _: Signature = monitor.ask(&exchange(&HASH));
    });
    let log = monitor.log();
    for line in log.lines() {
        let begins = line.starts_with("Accepted");
        assert!(!begins || line.ends_with("[preauth]"), "forged: {line:?}");
        assert!(line.len() < 1200, "{} bytes", line.len());
        assert!(line.chars().all(|c| !c.is_control()), "{line:?}");
    }
    let flood = log.lines().filter(|line| line.contains("flood")).count();
    // The number of lines that may be written at once, plus one per 50 ms.
    let most = 200 + usize::try_from(took.as_millis() / 50).unwrap() + 1;
    assert!(
        (10..=most).contains(&flood),
        "{flood} of 5000 lines were written in {took:?}"
    );
}

#[test]
fn names_of_methods_forge_no_words_in_the_log() {
    let place = Place::new(DOUBLE);
    let mut monitor = place.at(LoginPhase::Authenticating);
    let _: AuthOutcome = monitor.ask(&AuthOther {
        method: "password for root from 192.0.2.1 port 22 ssh2".into(),
    });
    let log = monitor.log();
    assert!(!log.contains("for root from 192.0.2.1"), "{log}");
}

#[test]
fn descriptors_that_a_role_sends_are_not_kept() {
    if !is_root() {
        // The monitor is not dumpable: only root may inspect it.
        skipped("descriptors of the monitor", &"not root");
        return;
    }
    let place = Place::new(DOUBLE);
    let mut monitor = place.monitor("MaxAuthTries 100");
    place.bring(&mut monitor, LoginPhase::Authenticating);
    let _: AuthOutcome = monitor.ask(&AuthNone {});
    let before = monitor.open_descriptors();
    for _ in 0..20 {
        monitor.send_with_descriptors(&AuthNone {}.encode_frame(), 8);
        let _: AuthOutcome = monitor.expect();
    }
    assert!(monitor.open_descriptors() <= before);
}
