use agent::Constraints;
use agent::message::SignFlags;
use agent::request::SessionBind;
use keys::private_file::HeldKey;
use wire::Put;

use super::*;

fn agent_with(key: &PrivateKey) -> KeyAgent {
    let mut keyring = Keyring::default();
    let held = HeldKey {
        key: key.clone(),
        certificate: None,
    };
    let constraints = Constraints {
        confirm: true,
        ..Constraints::default()
    };
    let blob = held.blob();
    let holder = KeyHolder::Memory(Box::new(held));
    keyring.add(holder, blob, "mine".into(), constraints, None, 0);
    KeyAgent {
        keyring,
        log: AgentLog::foreground(),
        default_lifetime: None,
        fingerprint_hash: HashAlgorithm::Sha256,
        allows_remote_providers: false,
        websafe: Some("ssh:*".into()),
        has_grown: false,
    }
}

/// What a server lets sign for a login in the session with this identifier.
fn login_in(session_identifier: &[u8], blob: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    data.put_string(session_identifier);
    data.put_u8(50);
    for field in ["root", "ssh-connection", "publickey"] {
        data.put_string(field.as_bytes());
    }
    data.put_bool(true);
    data.put_string(b"ssh-ed25519");
    data.put_string(blob);
    data
}

#[test]
fn a_question_names_no_host_to_which_another_session_is_bound() {
    let (key, host) = ([1; 32], [2; 32]);
    let key = PrivateKey::from_ed25519_seed(&key);
    let host = PrivateKey::from_ed25519_seed(&host);
    let agent = agent_with(&key);
    let mut bindings = Bindings::default();
    let signature = host.sign(SignatureAlgorithm::Ed25519, b"bound").unwrap();
    let bind = SessionBind {
        host_key: &host.public().blob(),
        session_identifier: b"bound",
        signature: &signature,
        is_forwarding: false,
    };
    bindings.bind(&bind).unwrap();
    let blob = key.public().blob();
    let question = |session: &[u8]| {
        let request = SignRequest {
            blob: &blob,
            data: &login_in(session, &blob),
            flags: SignFlags::NONE,
        };
        match agent.sign(&bindings, &request) {
            Handling::Confirm(_, question) => question,
            _ => String::new(),
        }
    };
    let name = keys::fingerprint::of_blob(&host.public().blob(), HashAlgorithm::Sha256);
    assert!(question(b"bound").contains(&name));
    let other = question(b"another");
    assert!(other.contains("to an unknown host."), "{other}");
    assert!(!other.contains(&name), "{other}");
}

/// A client reads no list above 256 KiB: a key that would make it longer would hide all others.
#[test]
fn the_list_of_keys_stays_one_that_clients_read() {
    let mut agent = agent_with(&PrivateKey::from_ed25519_seed(&[1; 32]));
    let request = |seed: u8, comment_bytes: usize| AddRequest {
        key: HeldKey {
            key: PrivateKey::from_ed25519_seed(&[seed; 32]),
            certificate: None,
        },
        comment: "x".repeat(comment_bytes),
        constraints: Constraints::default(),
    };
    let bindings = Bindings::default();
    let listed = |agent: &KeyAgent| agent.list(&bindings).len() - 4;
    // What a key takes beside its comment, and what is left.
    let key_bytes = 8 + PrivateKey::from_ed25519_seed(&[2; 32])
        .public()
        .blob()
        .len();
    let left = agent::message::MAX_MESSAGE_BYTES - listed(&agent);
    let largest = left - key_bytes;
    assert!(agent.may_add(&bindings, &request(2, largest + 1)).is_err());
    assert_eq!(agent.may_add(&bindings, &request(2, largest)), Ok(()));
    agent.insert(request(2, largest));
    assert_eq!(listed(&agent), agent::message::MAX_MESSAGE_BYTES);
    assert!(agent.may_add(&bindings, &request(3, 0)).is_err());
    // The same key with a comment that is no longer.
    assert_eq!(agent.may_add(&bindings, &request(2, largest)), Ok(()));
    assert_eq!(agent.may_add(&bindings, &request(2, 1)), Ok(()));
}

/// OpenSSH's agent, too, limits the signatures of keys of the type XMSS only, which nobody builds it with
/// (`sshkey_enable_maxsign`, sshkey.c of 9.2), and refuses the constraint for others. So there is no
/// count that a signature which reaches nobody could use up.
#[test]
fn a_number_of_signatures_is_refused_for_every_key() {
    let key = PrivateKey::from_ed25519_seed(&[3; 32]);
    let agent = agent_with(&key);
    let added = |max_signatures| {
        let request = AddRequest {
            key: HeldKey {
                key: PrivateKey::from_ed25519_seed(&[4; 32]),
                certificate: None,
            },
            comment: "new".into(),
            constraints: Constraints {
                max_signatures,
                ..Constraints::default()
            },
        };
        agent.may_add(&Bindings::default(), &request)
    };
    assert_eq!(added(None), Ok(()));
    let refused = "a number of signatures can be limited for stateful keys only";
    assert_eq!(added(Some(1)), Err(refused.to_owned()));
}
