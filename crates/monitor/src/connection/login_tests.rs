use keys::Permission;
use std::os::fd::OwnedFd;

use privsep::{
    AuthNone, AuthOther, AuthPassword, Frame, FrameSplitter, HostKey, KeyAnswer, KeyQuery,
    KeyVerify, Message, Secret, UserPolicy,
};

use super::super::accounts::Account;
use super::*;
use crate::test_support::{TempDir, config, own_ids};

/// The replies that the auth process would have received, and how the login ended.
struct Served {
    replies: Vec<Frame>,
    proof: Option<Authenticated>,
    end: Option<NotLoggedIn>,
    user: Option<LoginUser>,
    log: Vec<String>,
}

impl Served {
    /// The replies that are outcomes.
    fn outcomes(&self) -> Vec<AuthOutcome> {
        self.replies
            .iter()
            .filter_map(|frame| frame.decode().ok())
            .collect()
    }
}

fn addresses() -> Addresses {
    Addresses {
        remote: "192.0.2.7".parse().unwrap(),
        remote_port: 4000,
        local: "192.0.2.1".parse().unwrap(),
        local_port: 22,
        rdomain: String::new(),
        host: "192.0.2.7".into(),
    }
}

fn host_key() -> keys::PrivateKey {
    keys::PrivateKey::from_ed25519_seed(&[3; 32])
}

fn session_hash() -> Vec<u8> {
    vec![5; 32]
}

/// Serves requests that are all sent before the first reply is read.
fn serve(text: &str, phase: LoginPhase, frames: &[Vec<u8>]) -> Served {
    let config = Configuration::new(config(text));
    let addresses = addresses();
    let log = Log::to_memory(LogLevel::Debug3);
    let (ours, theirs) = sys::socket::stream_pair().unwrap();
    for frame in frames {
        sys::io::write_all(&theirs, frame).unwrap();
    }
    sys::socket::shutdown(&theirs, sys::socket::ShutdownDirection::Write).unwrap();
    let file = keys::private_file::write_openssh(&host_key(), "", None).unwrap();
    let signer = Signer::new(
        vec![HostKey {
            index: 0,
            blob: host_key().public().blob(),
            algorithms: vec!["ssh-ed25519".into()],
        }],
        vec![Secret::new(file.as_bytes().to_vec())],
        None,
        "internal".to_owned(),
        vec!["curve25519-sha256".into()],
        0,
    );
    let executable = sys::process::SelfExe::open().unwrap();
    let mut login = AuthService {
        channel: RpcChannel::new(ours, phase, &log, "").unwrap(),
        signer,
        config: &config,
        addresses: &addresses,
        delay_secret: &[1; 32],
        log: &log,
        user: None,
        revoked: Default::default(),
        ahead: EarlySession::never(),
        kerberos: Kerberos::new(&executable, None),
        gss: None,
        attempts: AttemptCounts::default(),
    };
    let (proof, end) = match login.run() {
        Ok(proof) => (Some(proof), None),
        Err(end) => (None, Some(end)),
    };
    let AuthService { channel, user, .. } = login;
    drop(channel);
    Served {
        replies: read_all(&theirs),
        proof,
        end,
        user,
        log: log.lines(),
    }
}

fn read_all(socket: &OwnedFd) -> Vec<Frame> {
    let mut splitter = FrameSplitter::new();
    let mut frames = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match sys::io::read(socket, &mut chunk) {
            Ok(0) | Err(_) => return frames,
            Ok(count) => splitter.feed(&chunk[..count]),
        }
        while let Some(frame) = splitter.next_frame().unwrap() {
            frames.push(frame);
        }
    }
}

fn sign() -> Vec<u8> {
    SignExchangeHash {
        kex_algorithm: "curve25519-sha256".into(),
        host_key_algorithm: "ssh-ed25519".into(),
        key_index: 0,
        hash: session_hash(),
        expects_login: false,
    }
    .encode_frame()
}

fn user(name: &str) -> Vec<u8> {
    User {
        user: name.into(),
        service: "ssh-connection".into(),
        client_version: "SSH-2.0-test".into(),
    }
    .encode_frame()
}

fn none() -> Vec<u8> {
    AuthNone {}.encode_frame()
}

fn password(text: &[u8]) -> Vec<u8> {
    AuthPassword {
        password: Secret::new(text.to_vec()),
    }
    .encode_frame()
}

fn client_key(seed: u8) -> keys::PrivateKey {
    keys::PrivateKey::from_ed25519_seed(&[seed; 32])
}

fn query(seed: u8) -> Vec<u8> {
    KeyQuery {
        algorithm: "ssh-ed25519".into(),
        key: client_key(seed).public().blob(),
    }
    .encode_frame()
}

/// A signed request as a client makes it.
fn signed(name: &str, seed: u8) -> Vec<u8> {
    use wire::Put;
    let key = client_key(seed);
    let mut data = Vec::new();
    data.put_string(&session_hash());
    data.put_u8(50);
    for field in [name.as_bytes(), b"ssh-connection", b"publickey"] {
        data.put_string(field);
    }
    data.put_bool(true);
    data.put_string(b"ssh-ed25519");
    data.put_string(&key.public().blob());
    KeyVerify {
        algorithm: "ssh-ed25519".into(),
        key: key.public().blob(),
        signature: key.sign(keys::SignatureAlgorithm::Ed25519, &data).unwrap(),
        hostbound: None,
    }
    .encode_frame()
}

/// The account of this process's user, which exists on every machine and may log in without
/// privilege.
fn own() -> Account {
    let _ids = own_ids();
    let uid = sys::process::effective_uid();
    let user = sys::users::by_uid(uid).unwrap().unwrap();
    super::super::accounts::look_up(&user.name, true, &Log::to_memory(LogLevel::Info)).unwrap()
}

/// This process's user, and a configuration under which the first key logs in.
fn with_own_key() -> (Account, TempDir, String) {
    let (directory, text) = with_keys(&line(1), "");
    (own(), directory, text)
}

/// Serves `requests` of this user after the key exchange.
fn serve_requests(text: &str, user_name: &str, requests: &[Vec<u8>]) -> Served {
    let mut frames = vec![sign(), user(user_name)];
    frames.extend_from_slice(requests);
    serve(text, LoginPhase::KeyExchange, &frames)
}

/// A configuration under which these keys log in; the directory must live as long.
fn with_keys(lines: &str, more: &str) -> (TempDir, String) {
    with_keys_in(TempDir::new(), lines, more)
}

fn with_keys_in(directory: TempDir, lines: &str, more: &str) -> (TempDir, String) {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.path().join("keys");
    std::fs::write(&path, lines).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let text = format!(
        "AuthorizedKeysFile {}\nPermitRootLogin yes\nUsePAM no\n{more}",
        path.display()
    );
    (directory, text)
}

fn line(seed: u8) -> String {
    client_key(seed).public().to_line()
}

#[test]
fn a_key_logs_its_user_in() {
    let (own, _directory, text) = with_own_key();
    let served = serve_requests(&text, &own.name, &[none(), query(1), signed(&own.name, 1)]);
    let proof = served.proof.unwrap_or_else(|| panic!("{:?}", served.log));
    assert_eq!(proof.user(), own.name);
    assert_eq!(proof.methods(), ["publickey"]);
    assert!(
        served.log.iter().any(|line| line.starts_with(&format!(
            "Accepted publickey for {} from 192.0.2.7 port 4000 ssh2: ED25519 SHA256:",
            own.name
        ))),
        "{:?}",
        served.log
    );
}

#[test]
fn a_signature_made_for_another_user_or_an_unlisted_key_is_refused() {
    let (own, _directory, text) = with_own_key();
    for request in [signed("somebody", 1), signed(&own.name, 2)] {
        let served = serve_requests(&text, &own.name, &[request]);
        assert!(served.proof.is_none());
        assert!(matches!(served.outcomes()[0], AuthOutcome::Failure { .. }));
    }
}

#[test]
fn a_query_for_a_listed_key_followed_by_another_keys_signature_is_refused() {
    let (own, _directory, text) = with_own_key();
    let served = serve_requests(&text, &own.name, &[query(1), signed(&own.name, 2)]);
    let answer: KeyAnswer = served.replies[2].decode().unwrap();
    assert!(answer.acceptable);
    assert!(served.proof.is_none());
}

#[test]
fn two_factors_keep_what_the_first_restricted() {
    let own = own();
    let lines = format!("command=\"date\",no-pty {}\n{}\n", line(1), line(2));
    let (_directory, text) = with_keys(&lines, "AuthenticationMethods publickey,publickey");
    let served = serve_requests(
        &text,
        &own.name,
        &[
            signed(&own.name, 1),
            // The same key again is no second factor.
            signed(&own.name, 1),
            signed(&own.name, 2),
        ],
    );
    let outcomes = served.outcomes();
    assert!(matches!(&outcomes[0], AuthOutcome::Partial { methods } if methods == &["publickey"]));
    assert!(matches!(outcomes[1], AuthOutcome::Failure { .. }));
    assert_eq!(outcomes[2], AuthOutcome::Success);
    let grants = served.user.unwrap().grants.unwrap();
    assert_eq!(grants.force_command.as_deref(), Some("date"));
    assert!(!grants.permissions.permits(Permission::Pty));
}

#[test]
fn failures_are_counted_and_the_first_none_is_not() {
    let own = own();
    let (_directory, text) = with_keys("", "MaxAuthTries 3\nPubkeyAuthOptions max-pk-ok:0\n");
    let served = serve_requests(
        &text,
        &own.name,
        &[
            none(),
            query(1),
            AuthOther {
                method: "hostbased\n".into(),
            }
            .encode_frame(),
            none(),
            none(),
        ],
    );
    assert!(matches!(served.end, Some(NotLoggedIn::TooMany)));
    let outcomes = served.outcomes();
    assert_eq!(outcomes.len(), 3, "{outcomes:?}");
    assert_eq!(outcomes[2], AuthOutcome::TooManyFailures);
    assert!(served.log.iter().all(|line| !line.contains('\n')));
    assert!(
        served
            .log
            .iter()
            .any(|line| line.contains("maximum authentication attempts exceeded"))
    );
}

/// True if `none` as the first request of `name` is answered before the databases are read.
fn is_answered_unasked(text: &str, name: &str) -> bool {
    let served = serve_requests(text, name, &[none()]);
    let outcomes = served.outcomes();
    assert!(
        matches!(&outcomes[..], [AuthOutcome::Failure { methods }] if methods == &["publickey"]),
        "{outcomes:?}"
    );
    let user = served.user.unwrap();
    assert_eq!((user.tries.failures, user.tries.attempted), (0, false));
    user.is_unasked()
}

#[test]
fn a_first_none_is_answered_before_the_user_is_looked_up() {
    let own = own();
    let (_directory, text) = with_keys(&line(1), "PasswordAuthentication no");
    for name in [&own.name, "no-such-user-here"] {
        assert!(is_answered_unasked(&text, name));
        // The options depend on the account, which has been looked up already.
        for criteria in ["Group wheel", "Invalid-User"] {
            let text = format!("{text}\nMatch {criteria}\nMaxAuthTries 3\n");
            assert!(!is_answered_unasked(&text, name), "{criteria}");
        }
    }
}

#[test]
fn a_probe_is_no_attempt_and_no_failure_for_the_log() {
    let own = own();
    let (_directory, text) = with_keys_in(TempDir::alone(), &line(1), "");
    let served = serve_requests(&text, "no-such-user-here", &[none(), query(1)]);
    let lines: Vec<&String> = served
        .log
        .iter()
        .filter(|line| line.contains("no-such-user-here"))
        .collect();
    // A key of a user who may not log in is not logged either, as in OpenSSH.
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("Invalid user no-such-user-here from"));
    // A second `none` is an attempt like any other.
    let served = serve_requests(&text, &own.name, &[none(), none()]);
    let user = served.user.unwrap();
    assert_eq!((user.tries.failures, user.is_unasked()), (1, false));
}

#[test]
fn replies_do_not_tell_whether_the_user_exists() {
    let own = own();
    let (_directory, text) = with_keys_in(TempDir::alone(), &line(1), "");
    let ask = |name: &str| {
        serve_requests(
            &text,
            name,
            &[none(), query(2), password(b"wrong"), signed(name, 2)],
        )
    };
    let known = ask(&own.name);
    let unknown = ask("no-such-user-here");
    // A key that is listed for others does not let in a user who does not exist.
    let listed = serve_requests(
        &text,
        "no-such-user-here",
        &[signed("no-such-user-here", 1)],
    );
    assert!(listed.proof.is_none());
    assert_eq!(known.replies, unknown.replies);
    assert!(known.replies.len() >= 6);
    let policy: UserPolicy = known.replies[1].decode().unwrap();
    assert!(policy.methods.contains(&"publickey".to_owned()));
    // The same files were opened for both.
    let opened = |served: &Served| {
        served
            .log
            .iter()
            .filter(|line| line.contains("trying public key file"))
            .count()
    };
    assert_eq!(opened(&known), opened(&unknown));
    assert!(
        unknown
            .log
            .iter()
            .any(|line| line.starts_with("Invalid user"))
    );
}

#[test]
fn root_is_refused_without_a_word_of_why() {
    if !sys::process::is_root() {
        // Without privilege, root is another user, who is not served.
        return;
    }
    let (_directory, text) = with_keys(&line(1), "");
    let text = text.replace("PermitRootLogin yes", "PermitRootLogin no");
    let served = serve_requests(&text, "root", &[signed("root", 1)]);
    assert!(served.proof.is_none());
    assert!(matches!(served.outcomes()[0], AuthOutcome::Failure { .. }));
    assert!(
        served
            .log
            .iter()
            .any(|line| line == "ROOT LOGIN REFUSED FROM 192.0.2.7 port 4000"),
        "{:?}",
        served.log
    );
}

#[test]
fn what_the_phase_does_not_permit_ends_the_session() {
    let own = own();
    for frames in [
        // A second exchange before the login.
        vec![sign(), sign()],
        // The user named before the first exchange, twice, or in another service.
        vec![user(&own.name)],
        vec![sign(), user(&own.name), user(&own.name)],
        // Attempts before a user was named; a snapshot before success.
        vec![sign(), none()],
        vec![
            sign(),
            user(&own.name),
            privsep::frame::frame(privsep::Snapshot::NUMBER, &[0; 4]),
        ],
        vec![sign(), user(&own.name), vec![0, 0, 0, 1, 21]],
        vec![
            sign(),
            User {
                user: own.name.clone(),
                service: "ssh-userauth".into(),
                client_version: String::new(),
            }
            .encode_frame(),
        ],
    ] {
        let served = serve("UsePAM no", LoginPhase::KeyExchange, &frames);
        assert!(
            matches!(served.end, Some(NotLoggedIn::End(RpcEnd::Violation(_)))),
            "{:?}",
            served.end
        );
    }
}

#[test]
fn a_host_bound_signature_must_name_the_host_key_of_the_connection() {
    use wire::Put;
    let (own, _directory, text) = with_own_key();
    for (named, allowed) in [
        (host_key().public().blob(), true),
        (client_key(7).public().blob(), false),
    ] {
        let key = client_key(1);
        let mut data = Vec::new();
        data.put_string(&session_hash());
        data.put_u8(50);
        let method = b"publickey-hostbound-v00@openssh.com";
        for field in [own.name.as_bytes(), b"ssh-connection", method] {
            data.put_string(field);
        }
        data.put_bool(true);
        data.put_string(b"ssh-ed25519");
        data.put_string(&key.public().blob());
        data.put_string(&named);
        let request = KeyVerify {
            algorithm: "ssh-ed25519".into(),
            key: key.public().blob(),
            signature: key.sign(keys::SignatureAlgorithm::Ed25519, &data).unwrap(),
            hostbound: Some(named),
        };
        let served = serve_requests(&text, &own.name, &[request.encode_frame()]);
        assert_eq!(served.proof.is_some(), allowed, "{:?}", served.log);
    }
}

#[test]
fn a_method_with_a_story_for_a_name_is_unknown() {
    assert_eq!(log_name("hostbased".into()), "hostbased");
    assert_eq!(log_name("gssapi-with-mic".into()), "gssapi-with-mic");
    for odd in [
        "",
        "password for root from 192.0.2.1",
        "a,b",
        "a\nb",
        "\u{e9}",
    ] {
        assert_eq!(log_name(odd.into()), "unknown", "{odd:?}");
    }
    assert_eq!(log_name("a".repeat(65)), "unknown");
}

/// What each of these queries was answered, and how the login ended. `with_keys_in` makes the
/// directory, in which key 1 is listed.
fn asked_for_keys(more: &str, name: &str, queries: &[Vec<u8>]) -> (Vec<bool>, Served) {
    let (_directory, text) = with_keys_in(TempDir::alone(), &line(1), more);
    let served = serve_requests(&text, name, queries);
    let answers = served.replies.iter().map(Frame::decode::<KeyAnswer>);
    let answers: Vec<KeyAnswer> = answers.filter_map(Result::ok).collect();
    let told = answers.iter().map(|answer| answer.acceptable).collect();
    let cut_off = answers.last().is_some_and(|last| last.too_many_failures);
    assert_eq!(cut_off, matches!(served.end, Some(NotLoggedIn::TooMany)));
    (told, served)
}

#[test]
fn the_first_refused_questions_for_keys_are_no_failures() {
    let own = own();
    let lines = "PubkeyAuthOptions max-pk-ok:2\nMaxAuthTries 3\n";
    let refused = |count: u8| (2..2 + count).map(query);
    // Questions for the listed key never count.
    let mut queries: Vec<Vec<u8>> = (0..5).map(|_| query(1)).collect();
    queries.extend(refused(4));
    queries.push(signed(&own.name, 1));
    let (told, served) = asked_for_keys(lines, &own.name, &queries);
    assert_eq!(told, [[true; 5].as_slice(), &[false; 4]].concat());
    assert!(served.proof.is_some());
    // Users who do not exist are answered alike.
    for name in [&own.name, "no-such-user-here"] {
        let queries: Vec<Vec<u8>> = refused(9).collect();
        let (told, served) = asked_for_keys(lines, name, &queries);
        assert_eq!((told, served.proof.is_none()), (vec![false; 5], true));
        let user = served.user.unwrap();
        assert_eq!((user.tries.failures, user.tries.attempted), (3, true));
    }
}

#[test]
fn questions_for_keys_that_cannot_log_in_are_failures_at_once() {
    let own = own();
    for more in [
        "PubkeyAuthentication no\n",
        "PubkeyAcceptedAlgorithms rsa-sha2-256\n",
        "PubkeyAuthOptions max-pk-ok:0\n",
    ] {
        let queries: Vec<Vec<u8>> = (2..9).map(query).collect();
        let lines = format!("MaxAuthTries 3\n{more}");
        let (told, _served) = asked_for_keys(&lines, &own.name, &queries);
        assert_eq!(told, [false; 3], "{more}");
    }
    // The first of two factors is spent.
    let mut requests = vec![signed(&own.name, 1)];
    requests.extend((0..5).map(|_| query(1)));
    let lines = "MaxAuthTries 3\nAuthenticationMethods publickey,publickey\n";
    let (told, _served) = asked_for_keys(lines, &own.name, &requests);
    assert_eq!(told, [false; 3]);
}

/// Log-reading tools parse these lines from the end: a name must not push the address off.
#[test]
fn a_long_name_leaves_the_address_in_its_line() {
    let name = format!("x from 203.0.113.9 port 22 ssh2 {}", "\u{e9}".repeat(490));
    let frames = [sign(), user(&name), password(b"wrong")];
    let served = serve("UsePAM no\n", LoginPhase::KeyExchange, &frames);
    let failed = served
        .log
        .iter()
        .find(|line| line.contains("Failed password"));
    let failed = failed.unwrap_or_else(|| panic!("{:?}", served.log));
    assert!(
        failed.contains(" from 192.0.2.7 port 4000 ssh2"),
        "{failed}"
    );
}
