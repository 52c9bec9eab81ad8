//! Live connections: everything that a peer can send before and after login, and the snapshot
//! that one process of the server hands to the next.
//!
//! The first byte selects how far an honest exchange goes before the input starts: raw bytes from
//! the first one on, or packets, each after a length of two bytes.

use hostile::adversary::{Adversary, Offer};
use hostile::subject::{Memory, PASSWORD, Subject};
use keys::PrivateKey;
use proto::{Connection, Role, ServerHostKey, TransportConfig};

use crate::messages::pieces;

fn adversary(subject: Role) -> Adversary<Memory> {
    let config = TransportConfig {
        kex: ["curve25519-sha256", "diffie-hellman-group-exchange-sha256"]
            .map(String::from)
            .to_vec(),
        ..TransportConfig::default()
    };
    match subject {
        Role::Server => Adversary::new(Memory::server(config), Role::Client),
        Role::Client => Adversary::new(Memory::client(config), Role::Server),
    }
}

fn before_login(subject: Role, data: &[u8]) {
    let [stage, data @ ..] = data else { return };
    let mut adversary = adversary(subject);
    match stage % 5 {
        0 => {
            adversary.send_bytes(data);
            return;
        }
        1 => adversary.hello(),
        2 => {
            adversary.hello();
            adversary.kexinit(&Offer::kex("diffie-hellman-group-exchange-sha256"));
        }
        3 => adversary.exchange(&Offer::default()),
        _ => {
            adversary.exchange(&Offer::default());
            match subject {
                Role::Server => adversary.service(),
                Role::Client => {
                    adversary.accept_service();
                    adversary
                        .subject
                        .command(|client| client.auth_keyboard_interactive(b"user", ""));
                }
            }
        }
    }
    play(&mut adversary, data);
    assert!(
        !adversary.subject.connection.is_authenticated() || says_success(data),
        "let in"
    );
}

fn says_success(data: &[u8]) -> bool {
    // A server may accept a client, and a client that knows the password is accepted.
    pieces(data).any(|piece| {
        piece.first() == Some(&52) || piece.windows(PASSWORD.len()).any(|part| part == PASSWORD)
    })
}

fn play(adversary: &mut Adversary<Memory>, data: &[u8]) {
    for payload in pieces(data).filter(|payload| !payload.is_empty()) {
        if !adversary.send(payload) {
            break;
        }
        let _ = adversary.subject.collect();
    }
    if adversary.subject.has_ended() {
        assert!(adversary.subject.connection.is_closed() || adversary.subject.error.is_some());
        assert!(
            !matches!(adversary.subject.error, Some(proto::Error::Bug(_))),
            "{}",
            adversary.subject.verdict()
        );
    }
}

/// Sends arbitrary data to a server before its client has logged in.
///
/// # Panics
/// If the server accepts a login, or reports an internal error.
pub fn server_before_login(data: &[u8]) {
    before_login(Role::Server, data);
}

/// Sends arbitrary data to a client before it has logged in.
///
/// # Panics
/// As [`server_before_login`].
pub fn client_before_login(data: &[u8]) {
    before_login(Role::Client, data);
}

/// Sends arbitrary data to either side after the login.
///
/// # Panics
/// If it reports an internal error.
pub fn after_login(data: &[u8]) {
    let [side, data @ ..] = data else { return };
    let role = if side % 2 == 0 {
        Role::Server
    } else {
        Role::Client
    };
    let mut adversary = adversary(role);
    adversary.subject.forgets = true;
    adversary.subject.ignores_channels = side & 2 != 0;
    adversary.exchange(&Offer::default());
    match role {
        Role::Server => {
            adversary.service();
            adversary.login_password(b"user", PASSWORD);
            adversary.open("session", 0, 1 << 20, 32_768);
            let _ = adversary.rest();
        }
        Role::Client => {
            adversary.accept_service();
            adversary
                .subject
                .command(|client| client.auth_password(b"user", PASSWORD));
            adversary.expect(50);
            adversary.send(&[52]);
            adversary
                .subject
                .command(|client| client.open_channel("session", b"").map(drop));
            adversary
                .subject
                .command(|client| client.prove_host_keys(&[b"key".to_vec()]));
            adversary.rest();
        }
    }
    play(&mut adversary, data);
    // An owner that took its time.
    let connection = &mut adversary.subject.connection;
    let asked: Vec<_> = connection.channel_statuses().collect();
    let asked: Vec<_> = asked.iter().filter(|each| !each.is_open).collect();
    let ids: Vec<_> = asked.iter().map(|each| each.channel).collect();
    for id in ids {
        // Fails for a channel of the subject's own, and for one that has ended.
        let _ = connection.accept_channel(id);
    }
    while connection.poll_event().is_some() {}
}

/// The host keys of a server that resumes from a snapshot.
pub(crate) fn host_keys() -> Vec<ServerHostKey> {
    vec![ServerHostKey {
        algorithms: vec!["ssh-ed25519".into()],
        blob: PrivateKey::from_ed25519_seed(&[5; 32]).public().blob(),
    }]
}

/// The snapshot of a connection, from the least trusted process.
pub fn snapshot(data: &[u8]) {
    if let Ok(mut connection) = Connection::resume(data, TransportConfig::default(), host_keys(), 0)
    {
        let result = connection.process(0);
        while connection.poll_event().is_some() {}
        while connection.poll_output().is_some() {}
        drop(result);
    }
}
