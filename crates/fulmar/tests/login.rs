//! Host keys and logins, the library's client against its server.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Fixture, PASSWORD, Scratch};
use fulmar::client::{
    Auth, AuthProof, Config, FixedKey, KnownHosts, PresentedHostKey, Prompts, Session,
};
use fulmar::keys::certificate::CertificateFields;
use fulmar::keys::{CertificateKind, KeySpec, PrivateKey, SignatureAlgorithm};
use fulmar::{Error, Exit, Fault, HostKeyProblem};
use zeroize::Zeroizing;

fn key() -> PrivateKey {
    PrivateKey::generate(KeySpec::Ed25519).unwrap()
}

fn connect(fixture: &Fixture, config: Config) -> Result<Session, Error> {
    Session::connect("127.0.0.1", fixture.port, config)
}

#[test]
fn another_host_key_than_the_fixed_one_is_refused() {
    let fixture = Fixture::start();
    let wrong = Config::new(FixedKey(key().public().clone()));
    let error = connect(&fixture, wrong).unwrap_err();
    assert!(matches!(
        error,
        Error::HostKey(HostKeyProblem::NotExpected { .. })
    ));
    assert_eq!(error.fault(), Fault::Policy);
}

#[test]
fn a_closure_is_asked_with_the_key_and_its_no_counts() {
    let fixture = Fixture::start();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let port = fixture.port;
    let expected = fixture.host_key.clone();
    let policy = move |presented: &PresentedHostKey<'_>| {
        count.fetch_add(1, Ordering::SeqCst);
        assert_eq!((presented.host, presented.port), ("127.0.0.1", port));
        assert_eq!(*presented.key.key(), expected);
        false
    };
    assert!(connect(&fixture, Config::new(policy)).is_err());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn known_hosts_takes_a_new_host_once_and_never_a_changed_one() {
    let scratch = Scratch::new("known-hosts");
    let fixture = Fixture::start();
    let path = scratch.path("known_hosts");
    let strict = || Config::new(KnownHosts::new([&path]));
    let accepting = || Config::new(KnownHosts::new([&path]).accept_new());

    let unknown = connect(&fixture, strict()).unwrap_err();
    assert!(matches!(
        unknown,
        Error::HostKey(HostKeyProblem::Unknown { .. })
    ));
    assert!(!path.exists());

    connect(&fixture, accepting()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let name = format!("[127.0.0.1]:{}", fixture.port);
    assert_eq!(text, format!("{name} {}\n", fixture.host_key.to_line()));
    connect(&fixture, strict()).unwrap();

    let other = key().public().to_line();
    std::fs::write(&path, format!("{name} {other}\n")).unwrap();
    for config in [strict(), accepting()] {
        match connect(&fixture, config).unwrap_err() {
            Error::HostKey(HostKeyProblem::Changed { known_at, .. }) => {
                assert!(known_at.ends_with("known_hosts:1"), "{known_at}");
            }
            other => panic!("{other:?}"),
        }
    }

    // A key of another type on record does not make the host a new one.
    let rsa = PrivateKey::generate(KeySpec::Rsa { bits: 2048 }).unwrap();
    let other = rsa.public().to_line();
    std::fs::write(&path, format!("{name} {other}\n")).unwrap();
    assert!(matches!(
        connect(&fixture, accepting()),
        Err(Error::HostKey(HostKeyProblem::Changed { .. }))
    ));

    let ours = fixture.host_key.to_line();
    std::fs::write(&path, format!("{name} {ours}\n@revoked * {ours}\n")).unwrap();
    assert!(matches!(
        connect(&fixture, accepting()),
        Err(Error::HostKey(HostKeyProblem::Revoked { .. }))
    ));
}

#[test]
fn a_wrong_password_is_refused_and_the_right_one_then_works() {
    let fixture = Fixture::start();
    let mut session = fixture.connect();
    let refused = session
        .authenticate("mia", Auth::Password("wrong"))
        .unwrap_err();
    match &refused {
        Error::AuthRefused {
            methods,
            partial_success: false,
        } => assert_eq!(methods, &["publickey", "password"]),
        other => panic!("{other:?}"),
    }
    assert!(matches!(session.exec("echo no"), Err(Error::Misuse(_))));
    assert_eq!(
        session
            .authenticate("mia", Auth::Password(PASSWORD))
            .unwrap(),
        AuthProof::Proven
    );
    assert_eq!(session.run("echo yes").unwrap().stdout, b"yes\n");
    assert!(matches!(
        session.authenticate("mia", Auth::Password(PASSWORD)),
        Err(Error::Misuse(_))
    ));
}

#[test]
fn tries_are_counted_across_methods_and_users() {
    let fixture = Fixture::with(|config| config.max_auth_tries = 3);
    let mut session = fixture.connect();
    let stranger = key();
    let tries: [(&str, Auth<'_>); 2] = [
        ("mia", Auth::Password("wrong")),
        ("tom", Auth::Key(&stranger)),
    ];
    for (user, auth) in tries {
        assert!(matches!(
            session.authenticate(user, auth),
            Err(Error::AuthRefused { .. })
        ));
    }
    let last = session.authenticate("mia", Auth::Password("wrong"));
    assert!(
        matches!(
            last,
            Err(Error::Protocol(fulmar::proto::Error::Disconnected {
                reason: 14,
                ..
            }))
        ),
        "{last:?}"
    );
    // A call after the connection broke returns the error at once.
    assert!(
        session
            .authenticate("mia", Auth::Password(PASSWORD))
            .is_err()
    );
}

#[test]
fn keys_log_in_and_only_with_their_own_secret() {
    let fixture = Fixture::start();
    let mut session = fixture.connect();
    let stranger = key();
    assert!(session.authenticate("mia", Auth::Key(&stranger)).is_err());
    assert_eq!(
        session
            .authenticate("mia", Auth::Key(&fixture.user_key))
            .unwrap(),
        AuthProof::Proven
    );
}

#[test]
fn a_certificate_is_refused_by_an_authenticator_that_knows_only_keys() {
    let fixture = Fixture::start();
    let fields = CertificateFields {
        key: fixture.user_key.public().clone(),
        serial: 1,
        kind: CertificateKind::User,
        key_id: "mia".into(),
        principals: vec!["mia".into()],
        valid_after: 0,
        valid_before: u64::MAX,
        critical_options: Vec::new(),
        extensions: Vec::new(),
    };
    let certificate = fields.sign(&key(), SignatureAlgorithm::Ed25519).unwrap();
    let mut session = fixture.connect();
    assert!(matches!(
        session.authenticate("mia", Auth::Certificate(&fixture.user_key, &certificate)),
        Err(Error::AuthRefused { .. })
    ));
}

#[test]
fn a_first_factor_counts_for_its_own_user_alone() {
    let fixture = Fixture::start();
    // The authenticator is not even asked about a password alone.
    let mut session = fixture.connect();
    match session.authenticate("tom", Auth::Password(PASSWORD)) {
        Err(Error::AuthRefused { methods, .. }) => assert_eq!(methods, ["publickey"]),
        other => panic!("{other:?}"),
    }
    let partial = session.authenticate("tom", Auth::Key(&fixture.user_key));
    match partial {
        Err(Error::AuthRefused {
            methods,
            partial_success: true,
        }) => assert_eq!(methods, ["password"]),
        other => panic!("{other:?}"),
    }
    // After an attempt with another name, the first factor no longer counts.
    assert!(session.authenticate("kim", Auth::Password("x")).is_err());
    assert!(
        session
            .authenticate("tom", Auth::Password(PASSWORD))
            .is_err()
    );
    assert!(
        session
            .authenticate("tom", Auth::Key(&fixture.user_key))
            .is_err()
    );
    session
        .authenticate("tom", Auth::Password(PASSWORD))
        .unwrap();
}

#[test]
fn questions_are_asked_and_answered_in_order() {
    let fixture = Fixture::start();
    let answers = |colour: &'static str| {
        move |prompts: &Prompts<'_>| {
            assert_eq!(prompts.name, "Two questions");
            let echoes: Vec<bool> = prompts.prompts.iter().map(|each| each.echo).collect();
            assert_eq!(echoes, [true, false]);
            vec![
                Zeroizing::new(colour.to_owned()),
                Zeroizing::new("sesame".to_owned()),
            ]
        }
    };
    let mut session = fixture.connect();
    assert!(
        session
            .authenticate("kim", Auth::KeyboardInteractive(&mut answers("red")))
            .is_err()
    );
    assert_eq!(
        session
            .authenticate("kim", Auth::KeyboardInteractive(&mut answers("blue")))
            .unwrap(),
        AuthProof::Proven
    );
}

#[test]
fn a_login_without_any_proof_says_so() {
    let fixture = Fixture::start();
    let mut session = fixture.connect();
    assert_eq!(
        session.authenticate("nobody", Auth::None).unwrap(),
        AuthProof::Nothing
    );
}

#[test]
fn a_login_that_takes_too_long_is_cut_off() {
    // On a busy machine the key exchange may take too long for the shorter timeouts.
    for grace_ms in [300, 3_000, 30_000] {
        let grace = std::time::Duration::from_millis(grace_ms);
        let fixture = Fixture::with(|config| config.login_grace = grace);
        let Ok(mut session) = connect(&fixture, fixture.config()) else {
            continue;
        };
        while fixture.server.connections() > 0 {
            std::thread::yield_now();
        }
        let late = session.authenticate("mia", Auth::Password(PASSWORD));
        assert!(late.is_err());
        return;
    }
    panic!("no key exchange within half a minute");
}

#[test]
fn the_banner_and_the_peer_are_shown() {
    let fixture = Fixture::with(|config| config.banner = Some("Keep out.\n".into()));
    let session = fixture.login();
    assert_eq!(session.banner(), "Keep out.\n");
    assert!(session.peer_version().starts_with("SSH-2.0-Fulmar_"));
    assert!(session.negotiated().is_some_and(|agreed| agreed.strict_kex));
    assert_eq!(session.host_key(), fixture.host_key.blob());
}

#[test]
fn no_common_algorithm_is_told_with_the_servers_list() {
    let fixture = Fixture::start();
    let mut config = fixture.config();
    config.transport.kex = vec!["diffie-hellman-group14-sha256".into()];
    match connect(&fixture, config).unwrap_err() {
        Error::Protocol(fulmar::proto::Error::NoCommonAlgorithm { theirs, .. }) => {
            assert!(theirs.iter().any(|name| name == "curve25519-sha256"));
        }
        other => panic!("{other:?}"),
    }
    let mut config = fixture.config();
    config.transport.ciphers = vec!["rot13".into()];
    let error = connect(&fixture, config).unwrap_err();
    assert_eq!(error.fault(), Fault::Caller);
}

#[test]
fn what_is_asked_for_reaches_the_handler() {
    let fixture = Fixture::start();
    let session = fixture.login();
    let pty = fulmar::Pty::new("xterm", 80, 24);
    let start = session.start().env("LANG", "C").pty(&pty);
    let output = start.exec("env").unwrap().output(4096).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(r#"("LANG", "C")"#), "{text}");
    assert!(text.contains("columns: 80"), "{text}");

    let output = session.subsystem("sftp").unwrap().output(4096).unwrap();
    assert_eq!(output.stdout, b"subsystem \"sftp\" for mia");
    assert_eq!(output.exit, Exit::Status(3));
    let output = session.shell(&pty).unwrap().output(4096).unwrap();
    assert_eq!(output.stdout, b"shell for mia");
    assert_eq!(session.run("nonsense").unwrap().exit, Exit::Status(127));
}

#[test]
fn a_server_without_a_key_or_with_bad_names_is_not_made() {
    use fulmar::server::{Authenticator, Channel, Login, Server, Start};
    struct Nobody;
    impl Authenticator for Nobody {}
    let handler = |_: &Login, _: &Start, _: &mut Channel| 0_u32;
    let config = fulmar::server::Config::new(Vec::new());
    assert!(matches!(
        Server::new(config, Nobody, handler),
        Err(Error::Misuse(_))
    ));
    let rsa = PrivateKey::generate(KeySpec::Rsa { bits: 2048 }).unwrap();
    let mut config = fulmar::server::Config::new(vec![key(), rsa]);
    config.transport.min_rsa_bits = 3072;
    assert!(matches!(
        Server::new(config, Nobody, handler),
        Err(Error::UnusableKey(why)) if why.contains("2048") && why.contains("3072")
    ));
    let mut config = fulmar::server::Config::new(vec![key()]);
    config.transport.macs = vec!["crc32".into()];
    assert!(Server::new(config, Nobody, handler).is_err());
}
