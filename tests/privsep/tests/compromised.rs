//! Roles that were taken over: a real monitor hears everything that its auth and session
//! processes could say, and must end the session, sign nothing else and let nobody in.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hostile::liar::{Liar, Offer};
use hostile::victim::Memory;
use interop::account::{Guest, current_user, is_root};
use interop::report::{say, skipped};
use interop::scratch::Scratch;
use keys::{PrivateKey, SignatureAlgorithm};
use privsep::roles::{ConnectionNews, ROLE_AUTH, ROLE_SESSION};
use privsep::{
    AuthNone, AuthOther, AuthOutcome, AuthPassword, ChooseGroup, Group, HostkeysProof,
    HostkeysProve, KbdintRespond, KbdintStart, KeyAnswer, KeyQuery, KeyVerify, Log, LogLevel,
    MAX_FRAME_BYTES, MAX_SNAPSHOT_BYTES, MESSAGES, Message, Phase, PtyAllocate, PtyGranted,
    PtyRefused, PtyRelease, Secret, SessionGrant, SignExchangeHash, Signature, Snapshot, User,
    UserPolicy, permitted,
};
use privsep_tests::double::{Monitor, host_key, timed};
use privsep_tests::sshd::{UserKey, binary};
use wire::Put;

const KEX: &str = "curve25519-sha256";
const HASH: [u8; 32] = [7; 32];

/// The account that the monitors under test know, and its key.
struct Place {
    user: String,
    key: UserKey,
    authorized: PathBuf,
    _scratch: Scratch,
    _guest: Option<Guest>,
}

impl Place {
    fn new() -> Self {
        Self::with_options("")
    }

    fn with_options(options: &str) -> Self {
        let guest = is_root().then(|| Guest::new().expect("a guest"));
        let user = guest
            .as_ref()
            .map_or_else(current_user, |it| it.name.clone());
        let scratch = Scratch::new();
        let key = UserKey::new(41);
        let authorized = scratch.write("authorized_keys", format!("{options}{}\n", key.line));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        std::fs::set_permissions(&authorized, mode).expect("its mode");
        Self {
            user,
            key,
            authorized,
            _scratch: scratch,
            _guest: guest,
        }
    }

    fn monitor(&self, lines: &str) -> Monitor {
        self.monitor_with(Path::new(env!("CARGO_BIN_EXE_privsep-double")), lines)
    }

    fn monitor_with(&self, double: &Path, lines: &str) -> Monitor {
        let config = format!(
            "{lines}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nLoginGraceTime 60\n\
             LogLevel DEBUG1\n",
            self.authorized.display()
        );
        Monitor::start(double, &config)
    }

    fn user(&self) -> User {
        User {
            user: self.user.clone(),
            service: "ssh-connection".into(),
            client_version: "SSH-2.0-Double".into(),
        }
    }

    fn key_verify(&self) -> KeyVerify {
        signed(&self.key.private, &HASH, &self.user, "ssh-connection", None)
    }

    /// A monitor that has been brought to this phase.
    fn at(&self, phase: Phase) -> Monitor {
        let mut monitor = self.monitor("");
        self.bring(&mut monitor, phase);
        monitor
    }

    fn bring(&self, monitor: &mut Monitor, phase: Phase) {
        if phase == Phase::KeyExchange {
            return;
        }
        let _: Signature = monitor.ask(&exchange(&HASH));
        if phase == Phase::BeforeUser {
            return;
        }
        let _: UserPolicy = monitor.ask(&self.user());
        if phase == Phase::Authenticating {
            return;
        }
        let outcome: AuthOutcome = monitor.ask(&self.key_verify());
        assert_eq!(outcome, AuthOutcome::Success, "{}", monitor.log());
        if phase == Phase::Authenticated {
            return;
        }
        monitor.send(&snapshot());
        if phase == Phase::HandedOver {
            return;
        }
        monitor.end_role();
        monitor.expect_role(ROLE_SESSION);
        let grant: SessionGrant = monitor.expect();
        assert_eq!(
            (grant.user.as_str(), &grant.session_id[..]),
            (&*self.user, &HASH[..])
        );
        let handed: Snapshot = monitor.expect();
        assert_eq!(handed, snapshot());
    }
}

fn exchange(hash: &[u8]) -> SignExchangeHash {
    SignExchangeHash {
        kex_algorithm: KEX.into(),
        host_key_algorithm: "ssh-ed25519".into(),
        key_index: 0,
        hash: hash.to_vec(),
    }
}

fn snapshot() -> Snapshot {
    Snapshot {
        bytes: vec![3; 5000].into(),
    }
}

/// A publickey request as a client would sign it (RFC 4252 §7).
fn signed(
    key: &PrivateKey,
    session_id: &[u8],
    user: &str,
    service: &str,
    hostbound: Option<&[u8]>,
) -> KeyVerify {
    let blob = key.public().blob();
    let mut data = Vec::new();
    data.put_string(session_id);
    data.put_u8(50);
    data.put_string(user.as_bytes());
    data.put_string(service.as_bytes());
    data.put_string(match hostbound {
        None => b"publickey",
        Some(_) => b"publickey-hostbound-v00@openssh.com",
    });
    data.put_bool(true);
    data.put_string(b"ssh-ed25519");
    data.put_string(&blob);
    if let Some(host_key) = hostbound {
        data.put_string(host_key);
    }
    KeyVerify {
        algorithm: "ssh-ed25519".into(),
        key: blob,
        signature: key
            .sign(SignatureAlgorithm::Ed25519, &data)
            .expect("a signature"),
        hostbound: hostbound.map(<[u8]>::to_vec),
    }
}

/// A well-formed frame of every message that there is, and of numbers that are none.
fn every_frame(place: &Place) -> Vec<(u8, Vec<u8>)> {
    let mut frames = vec![
        exchange(&HASH).encode_frame(),
        ChooseGroup {
            min_bits: 2048,
            preferred_bits: 3072,
            max_bits: 8192,
        }
        .encode_frame(),
        place.user().encode_frame(),
        AuthNone {}.encode_frame(),
        AuthOther {
            method: "hostbased".into(),
        }
        .encode_frame(),
        AuthPassword {
            password: Secret::new(b"x".to_vec()),
        }
        .encode_frame(),
        KbdintStart {
            devices: String::new(),
        }
        .encode_frame(),
        KbdintRespond { responses: vec![] }.encode_frame(),
        KeyQuery {
            algorithm: "ssh-ed25519".into(),
            key: place.key.private.public().blob(),
        }
        .encode_frame(),
        place.key_verify().encode_frame(),
        snapshot().encode_frame(),
        HostkeysProve {
            keys: vec![(0, "ssh-ed25519".into())],
        }
        .encode_frame(),
        PtyAllocate {}.encode_frame(),
        PtyRelease {
            tty: "/dev/pts/0".into(),
        }
        .encode_frame(),
        // What the monitor itself says, said to it.
        AuthOutcome::Success.encode_frame(),
        Signature { blob: vec![1] }.encode_frame(),
    ];
    let known: Vec<u8> = frames.iter().map(|frame| frame[4]).collect();
    let others = MESSAGES
        .iter()
        .map(|info| info.number)
        .chain([0, 13, 23, 63, 128, 255]);
    for number in others.filter(|number| !known.contains(number) && *number != Log::NUMBER) {
        frames.push(privsep::frame::frame(number, &[]));
    }
    frames.into_iter().map(|frame| (frame[4], frame)).collect()
}

#[test]
fn every_request_out_of_its_phase_ends_the_session() {
    let place = Place::new();
    let mut tried = 0;
    for phase in [
        Phase::KeyExchange,
        Phase::BeforeUser,
        Phase::Authenticating,
        Phase::Authenticated,
        Phase::HandedOver,
        Phase::Session,
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
                Phase::KeyExchange | Phase::BeforeUser | Phase::Authenticating
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
fn bytes_that_are_no_frame_end_the_session() {
    let place = Place::new();
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
        let mut monitor = place.at(Phase::Authenticating);
        monitor.send_bytes(&bytes);
        monitor.ends_for_a_broken_rule(what);
    }
}

#[test]
fn a_frame_that_never_becomes_whole_ends_with_the_role() {
    let place = Place::new();
    let mut monitor = place.at(Phase::Authenticating);
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
    let place = Place::new();
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
        let mut monitor = place.at(Phase::KeyExchange);
        monitor.send(&request);
        monitor.ends_for_a_broken_rule(what);
        assert_eq!(monitor.frames_seen, 0, "{what}");
    }
    let mut monitor = place.at(Phase::KeyExchange);
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
fn a_signature_made_for_anything_else_lets_nobody_in() {
    let place = Place::new();
    let key = &place.key.private;
    let stranger = UserKey::new(42).private;
    let host = host_key().public().blob();
    let honest = place.key_verify();
    let of_stranger = signed(&stranger, &HASH, &place.user, "ssh-connection", None);
    let cases: Vec<(&str, KeyVerify)> = vec![
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
    ];
    let mut monitor = place.monitor("MaxAuthTries 100");
    place.bring(&mut monitor, Phase::Authenticating);
    // A query for the listed key succeeds, and is worth nothing.
    let answer: KeyAnswer = monitor.ask(&KeyQuery {
        algorithm: "ssh-ed25519".into(),
        key: key.public().blob(),
    });
    assert!(answer.acceptable);
    for (what, request) in cases {
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
    let place = Place::new();
    for frame in [
        snapshot().encode_frame(),
        AuthOutcome::Success.encode_frame(),
        PtyAllocate {}.encode_frame(),
    ] {
        let mut monitor = place.at(Phase::Authenticating);
        let outcome: AuthOutcome = monitor.ask(&AuthNone {});
        assert!(matches!(outcome, AuthOutcome::Failure { .. }));
        monitor.send_bytes(&frame);
        monitor.ends_for_a_broken_rule("success that was not reached");
    }
    // Everything that a login needs, at once, the proof left out.
    let mut monitor = place.at(Phase::KeyExchange);
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
    let place = Place::new();
    let mut monitor = place.at(Phase::Authenticating);
    monitor.send(&User {
        user: "root".into(),
        ..place.user()
    });
    monitor.ends_for_a_broken_rule("a second user");
    let mut monitor = place.at(Phase::BeforeUser);
    monitor.send(&User {
        service: "ssh-userauth".into(),
        ..place.user()
    });
    monitor.ends_for_a_broken_rule("another service");
}

#[test]
fn attempts_are_counted_where_the_role_cannot_reach() {
    let place = Place::new();
    let mut monitor = place.monitor("MaxAuthTries 3");
    place.bring(&mut monitor, Phase::Authenticating);
    let attempt = AuthOther {
        method: "hostbased".into(),
    };
    for _ in 0..2 {
        let outcome: AuthOutcome = monitor.ask(&attempt);
        assert!(matches!(outcome, AuthOutcome::Failure { .. }));
    }
    let outcome: AuthOutcome = monitor.ask(&attempt);
    assert_eq!(outcome, AuthOutcome::TooManyFailures);
    // The one that would succeed comes too late.
    monitor.send(&place.key_verify());
    assert!(monitor.next_frame().is_none(), "{}", monitor.log());
    monitor.end_role();
    monitor.wait_for_end();
    assert_eq!(
        monitor.news(),
        [ConnectionNews::AuthenticationFailed.byte()]
    );

    // Queries that are answered yes count as no failure; they end all the same.
    let mut monitor = place.at(Phase::Authenticating);
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
    let place = Place::new();
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
    let place = Place::new();
    let mut monitor = place.at(Phase::KeyExchange);
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
            text,
        });
    }
    for _ in 0..5000 {
        monitor.send(&Log {
            level: LogLevel::Fatal,
            text: "flood".into(),
        });
    }
    let _: Signature = monitor.ask(&exchange(&HASH));
    let log = monitor.log();
    for line in log.lines() {
        let begins = line.starts_with("Accepted");
        assert!(!begins || line.ends_with("[preauth]"), "forged: {line:?}");
        assert!(line.len() < 1200, "{} bytes", line.len());
        assert!(line.chars().all(|c| !c.is_control()), "{line:?}");
    }
    let flood = log.lines().filter(|line| line.contains("flood")).count();
    assert!(
        (10..1000).contains(&flood),
        "{flood} of 5000 lines were written"
    );
}

#[test]
fn names_of_methods_forge_no_words_in_the_log() {
    let place = Place::new();
    let mut monitor = place.at(Phase::Authenticating);
    let _: AuthOutcome = monitor.ask(&AuthOther {
        method: "password for root from 192.0.2.1 port 22 ssh2".into(),
    });
    let log = monitor.log();
    assert!(!log.contains("for root from 192.0.2.1"), "{log}");
}

#[test]
fn descriptors_that_a_role_sends_are_not_kept() {
    if !is_root() {
        // The monitor is not dumpable: nobody but root may look.
        skipped("descriptors of the monitor", &"not root");
        return;
    }
    let place = Place::new();
    let mut monitor = place.monitor("MaxAuthTries 100");
    place.bring(&mut monitor, Phase::Authenticating);
    let _: AuthOutcome = monitor.ask(&AuthNone {});
    let before = monitor.open_descriptors();
    for _ in 0..20 {
        monitor.send_with_descriptors(&AuthNone {}.encode_frame(), 8);
        let _: AuthOutcome = monitor.expect();
    }
    assert!(monitor.open_descriptors() <= before);
}

#[test]
fn nothing_follows_the_snapshot() {
    let place = Place::new();
    for frame in [
        snapshot().encode_frame(),
        exchange(&HASH).encode_frame(),
        Log {
            level: LogLevel::Info,
            text: "more".into(),
        }
        .encode_frame(),
    ] {
        let mut monitor = place.at(Phase::HandedOver);
        monitor.send_bytes(&frame);
        monitor.ends_for_a_broken_rule("a message behind the snapshot");
    }
    // Success without a snapshot starts no session.
    let mut monitor = place.at(Phase::Authenticated);
    monitor.end_role();
    monitor.wait_for_end();
    assert!(monitor.next_frame().is_none());
}

#[test]
fn after_the_login_signatures_come_for_exchanges_and_proofs_at_a_bounded_rate() {
    let place = Place::new();
    for (what, request) in [
        ("a byte less", exchange(&HASH[..31])),
        ("a chosen text", exchange(&[7; 200])),
        (
            "a key that there is not",
            SignExchangeHash {
                key_index: 9,
                ..exchange(&HASH)
            },
        ),
    ] {
        let mut monitor = place.at(Phase::Session);
        monitor.send(&request);
        monitor.ends_for_a_broken_rule(what);
    }
    for (what, keys) in [
        (
            "a key that was not offered",
            vec![(7, "ssh-ed25519".to_owned())],
        ),
        (
            "an algorithm that was not offered",
            vec![(0, "rsa-sha2-512".to_owned())],
        ),
        (
            "a certificate",
            vec![(0, "ssh-ed25519-cert-v01@openssh.com".to_owned())],
        ),
    ] {
        let mut monitor = place.at(Phase::Session);
        monitor.send(&HostkeysProve { keys });
        monitor.ends_for_a_broken_rule(what);
    }

    let mut monitor = place.at(Phase::Session);
    let prove = HostkeysProve {
        keys: vec![(0, "ssh-ed25519".to_owned())],
    };
    let (proofs, took) = timed(|| {
        let answers = (0..2000).map(|_| monitor.ask::<_, HostkeysProof>(&prove));
        answers
            .filter(|answer| !answer.signatures.is_empty())
            .count()
    });
    let most = 256 + usize::try_from(took.as_millis() / 5).unwrap() + 1;
    assert!((1..=most).contains(&proofs), "{proofs} proofs in {took:?}");
    // One request for more keys than the rate gives gets nothing.
    let many = HostkeysProve {
        keys: vec![(0, "ssh-ed25519".to_owned()); 10_000],
    };
    let answer: HostkeysProof = monitor.ask(&many);
    assert!(answer.signatures.is_empty());

    // Exchanges above the rate wait: none is refused, and no more are signed.
    let mut monitor = place.at(Phase::Session);
    let (_, took) = timed(|| {
        for _ in 0..400 {
            let _: Signature = monitor.ask(&exchange(&[9; 32]));
        }
    });
    assert!(
        took.as_millis() >= (400 - 256 - 1) * 5,
        "400 exchanges in {took:?}"
    );
}

#[test]
fn a_proof_names_the_session_of_the_first_exchange() {
    let place = Place::new();
    let mut monitor = place.at(Phase::Session);
    // A rekey does not change what proofs are bound to.
    let _: Signature = monitor.ask(&exchange(&[9; 32]));
    let proof: HostkeysProof = monitor.ask(&HostkeysProve {
        keys: vec![(0, "ssh-ed25519".to_owned())],
    });
    let public = host_key().public().clone();
    let verify = |session_id: &[u8]| {
        let mut data = Vec::new();
        data.put_string(b"hostkeys-prove-00@openssh.com");
        data.put_string(session_id);
        data.put_string(&public.blob());
        let policy = keys::VerifyPolicy {
            min_rsa_bits: 2048,
            require_user_presence: false,
            require_user_verification: false,
        };
        keys::PresentedKey::Plain(public.clone())
            .verify(
                SignatureAlgorithm::Ed25519,
                &data,
                &proof.signatures[0],
                &policy,
            )
            .is_ok()
    };
    assert!(verify(&HASH));
    assert!(!verify(&[9; 32]));
}

#[test]
fn terminals_are_bounded_in_number_and_come_back() {
    if !is_root() {
        skipped("terminals of the monitor", &"not root");
        return;
    }
    let place = Place::new();
    let uid = interop::account::uid_of(&place.user).expect("a uid");
    let mut monitor = place.at(Phase::Session);
    let mut granted = Vec::new();
    for _ in 0..200 {
        monitor.send(&PtyAllocate {});
        let frame = monitor.next_frame().expect("an answer");
        if frame.number == PtyRefused::NUMBER {
            continue;
        }
        let terminal: PtyGranted = frame.decode().expect("a terminal");
        let owner = std::fs::metadata(&terminal.tty).expect("a terminal").uid();
        assert_eq!(owner, uid);
        granted.push(terminal.tty);
    }
    assert!(
        (1..=64).contains(&granted.len()),
        "{} terminals",
        granted.len()
    );
    assert_eq!(monitor.descriptors as usize, 2 * granted.len());
    let held = monitor.open_descriptors();
    assert!(held < 64 + 20, "the monitor holds {held} descriptors");
    monitor.end_role();
    monitor.wait_for_end();
    for tty in &granted {
        // Gone, or root's again.
        let owner = std::fs::metadata(tty).map(|found| found.uid());
        assert!(
            owner.is_err() || owner.is_ok_and(|owner| owner == 0),
            "{tty}"
        );
    }
}

#[test]
fn terminals_come_at_a_bounded_rate() {
    if !is_root() {
        skipped("terminals of the monitor", &"not root");
        return;
    }
    let place = Place::new();
    let mut monitor = place.at(Phase::Session);
    let (granted, took) = timed(|| {
        let mut granted = 0_u128;
        for _ in 0..1000 {
            monitor.send(&PtyAllocate {});
            let frame = monitor.next_frame().expect("an answer");
            if let Ok(terminal) = frame.decode::<PtyGranted>() {
                granted += 1;
                monitor.send(&PtyRelease { tty: terminal.tty });
            }
        }
        granted
    });
    // Each writes records that stay on disk.
    let most = 128 + 1 + took.as_millis() / 50;
    assert!(
        granted >= 64 && granted <= most,
        "{granted} terminals in {took:?}"
    );
}

#[test]
fn a_terminal_of_somebody_else_cannot_be_given_back() {
    let place = Place::new();
    let theirs = sys::pty::Pty::open().expect("a terminal");
    if is_root() {
        theirs.give_to(12_345, None).expect("another owner");
    }
    let before = std::fs::metadata(&theirs.name).expect("a terminal").uid();
    for tty in [
        theirs.name.display().to_string(),
        "/etc/passwd".into(),
        "/dev/pts/../shm/x".into(),
        String::new(),
    ] {
        let mut monitor = place.at(Phase::Session);
        monitor.send(&PtyRelease { tty });
        monitor.ends_for_a_broken_rule("a terminal that was not granted");
    }
    let after = std::fs::metadata(&theirs.name).expect("a terminal").uid();
    assert_eq!(before, after);
}

#[test]
fn what_takes_terminals_away_holds_without_the_session() {
    for (options, lines) in [("no-pty ", ""), ("restrict ", ""), ("", "PermitTTY no")] {
        let place = Place::with_options(options);
        let mut monitor = place.monitor(lines);
        place.bring(&mut monitor, Phase::Session);
        monitor.send(&PtyAllocate {});
        monitor.ends_for_a_broken_rule(&format!("a terminal under {options}{lines}"));
    }
}

#[test]
fn a_session_that_reads_nothing_holds_nobody() {
    let place = Place::new();
    let mut monitor = place.at(Phase::Session);
    let prove = HostkeysProve { keys: Vec::new() }.encode_frame();
    // Answers that fill every buffer on the way, and nobody takes them.
    monitor.send_bytes(&prove.repeat(200_000));
    monitor.kill_role();
    monitor.wait_for_end();
}

#[test]
fn a_role_hears_the_end_of_its_monitor() {
    let place = Place::new();
    for phase in [Phase::Authenticating, Phase::Session] {
        let mut monitor = place.at(phase);
        monitor.kill();
        assert!(monitor.next_frame().is_none());
    }
}

#[test]
fn the_monitor_executes_the_role_with_its_descriptors_and_nothing_else() {
    let place = Place::new();
    let mut monitor = place.at(Phase::BeforeUser);
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

/// Numbers that look random and are the same in every run.
struct Noise(u64);

impl Noise {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound.max(1)
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("a byte")
    }
}

/// A frame of the same message with some of its body changed; the length fits again.
fn damaged(noise: &mut Noise, frame: &[u8]) -> Vec<u8> {
    let mut body = frame[5..].to_vec();
    for _ in 0..=noise.below(3) {
        let at = noise.below(body.len() + 1);
        match noise.below(4) {
            0 => body.truncate(at),
            1 => body.insert(at, noise.byte()),
            2 => {
                // A length that says too much.
                let end = (at + 4).min(body.len());
                body.splice(at..end, [0xff, 0xff, 0xff, noise.byte()]);
            }
            _ => {
                if let Some(byte) = body.get_mut(at) {
                    *byte = noise.byte();
                }
            }
        }
    }
    privsep::frame::frame(frame[4], &body)
}

#[test]
fn damaged_requests_crash_no_monitor_and_sign_nothing_more() {
    let place = Place::new();
    let mut noise = Noise(2026);
    let frames = every_frame(&place);
    for round in 0..60 {
        let phases = [
            Phase::KeyExchange,
            Phase::BeforeUser,
            Phase::Authenticating,
            Phase::Authenticated,
            Phase::Session,
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
    let place = Place::new();
    let folder = Scratch::new();
    let double = folder.join("double");
    std::fs::copy(env!("CARGO_BIN_EXE_privsep-double"), &double).expect("a copy");
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
        place.bring(&mut monitor, Phase::Authenticated);
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
    let place = Place::new();
    let folder = Scratch::new();
    let double = folder.join("double");
    std::fs::copy(env!("CARGO_BIN_EXE_privsep-double"), &double).expect("a copy");
    std::os::unix::fs::symlink(binary(), folder.join("real-session")).expect("a link");
    // The monitor hands the frame on as it came: what is in it is for the session to judge.
    for body in [&b""[..], b"\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x09short"] {
        let mut monitor = place.monitor_with(&double, "");
        place.bring(&mut monitor, Phase::Authenticated);
        monitor.send_bytes(&privsep::frame::frame(Snapshot::NUMBER, body));
        monitor.end_role();
        monitor.wait_until_over();
        let log = monitor.log();
        assert!(log.contains("cannot start the session"), "{body:?}: {log}");
    }
}

/// The snapshot of a login that took place in memory, and its session identifier.
fn snapshot_of_another_login() -> (Vec<u8>, Vec<u8>) {
    let server = Memory::server(proto::TransportConfig::default());
    let mut client = Liar::new(server, proto::Role::Client);
    client.exchange(&Offer::default());
    client.service();
    client.login_password(b"somebody", hostile::victim::PASSWORD);
    let id = client.session_id.clone().expect("a session");
    let blank = proto::Connection::server(proto::TransportConfig::default(), Vec::new(), 0);
    let blank = blank.or_else(|_| proto::Connection::client(proto::TransportConfig::default(), 0));
    let connection = std::mem::replace(
        &mut client.victim.connection,
        blank.expect("another connection"),
    );
    (connection.snapshot().expect("a snapshot").to_vec(), id)
}

#[test]
fn a_snapshot_of_another_login_starts_no_session() {
    let place = Place::new();
    let folder = Scratch::new();
    let double = folder.join("double");
    std::fs::copy(env!("CARGO_BIN_EXE_privsep-double"), &double).expect("a copy");
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
    // The identifier that the monitor signed for is what decides: with it the session begins.
    assert_eq!(id.len(), 32);
    let log = begin(&id);
    assert!(!log.contains("cannot start the session"), "{log}");
}
