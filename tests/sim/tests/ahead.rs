//! What a client says ahead of the server's answers: the guess of the key exchange, and a channel
//! behind a login.

use keys::{KeySpec, PrivateKey, SignatureAlgorithm};
use proto::channel::Request;
use proto::{AuthMethod, Error, Event, TransportConfig};
use sim::{PASSWORD, Pair};

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

fn config(kex: &[&str], host_keys: &[&str], guess: bool) -> TransportConfig {
    TransportConfig {
        kex: names(kex),
        host_key_algorithms: names(host_keys),
        guess,
        ..TransportConfig::default()
    }
}

const BOTH: [&str; 2] = ["curve25519-sha256", "mlkem768x25519-sha256"];
const TURNED: [&str; 2] = ["mlkem768x25519-sha256", "curve25519-sha256"];

/// The guess is right if both first names are the same, and either way the exchange ends well,
/// in pieces of any size.
#[test]
fn a_guess_right_or_wrong_leads_to_keys() {
    for (server, host_keys, right) in [
        (&BOTH, &["ssh-ed25519"][..], true),
        (&TURNED, &["ssh-ed25519"][..], false),
        (&BOTH, &["rsa-sha2-512", "ssh-ed25519"][..], false),
    ] {
        for piece in [1, 7, usize::MAX] {
            let client = config(&BOTH, host_keys, true);
            let mut pair = Pair::new(client, config(server, &["ssh-ed25519"], false));
            pair.settle(piece).unwrap();
            let connection = &pair.client.connection;
            assert_eq!(connection.guess_was_right(), Some(right), "{server:?}");
            assert_eq!(connection.negotiated().unwrap().kex, "curve25519-sha256");
            let lists = connection.peer_lists().unwrap();
            assert_eq!(lists.0.first().unwrap(), server[0]);
            pair.client
                .connection
                .auth_password(b"u", PASSWORD)
                .unwrap();
            pair.settle(piece).unwrap();
            assert!(pair.client.connection.is_authenticated());
        }
    }
}

#[test]
fn a_group_that_the_server_chooses_is_not_guessed() {
    let kex = ["diffie-hellman-group-exchange-sha256", "curve25519-sha256"];
    let client = config(&kex, &["ssh-ed25519"], true);
    let mut pair = Pair::new(client, config(&BOTH, &["ssh-ed25519"], false));
    pair.settle(usize::MAX).unwrap();
    assert_eq!(pair.client.connection.guess_was_right(), None);
    assert!(pair.client.connection.session_id().is_some());
}

/// Sends a signed request of a fresh key without waiting for anything.
fn sign(pair: &mut Pair) {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let blob = key.public().blob();
    let client = &mut pair.client.connection;
    let data = client
        .publickey_signed_data(b"u", "ssh-ed25519", &blob)
        .unwrap();
    let signature = key.sign(SignatureAlgorithm::Ed25519, &data).unwrap();
    client
        .auth_publickey(b"u", "ssh-ed25519", &blob, &signature)
        .unwrap();
}

#[test]
fn a_channel_goes_ahead_of_nothing_but_a_signed_request() {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    let refused = |pair: &mut Pair| {
        let early = pair.client.connection.open_channel_early("session", b"");
        assert!(matches!(early, Err(Error::Misuse(_))), "{early:?}");
        assert_eq!(pair.client.connection.channel_count(), 0);
    };
    refused(&mut pair);
    pair.settle(usize::MAX).unwrap();
    refused(&mut pair);
    pair.client.connection.auth_none(b"u").unwrap();
    refused(&mut pair);
    pair.settle(usize::MAX).unwrap();
    refused(&mut pair);
}

#[test]
fn nothing_goes_ahead_into_a_stream_that_will_be_compressed() {
    let zlib = || TransportConfig {
        compression: names(&["zlib@openssh.com"]),
        ..TransportConfig::default()
    };
    let mut pair = Pair::new(zlib(), zlib());
    pair.settle(usize::MAX).unwrap();
    assert!(pair.client.connection.will_compress());
    sign(&mut pair);
    let early = pair.client.connection.open_channel_early("session", b"");
    assert!(matches!(early, Err(Error::Misuse(_))));
}

/// A login that succeeds finds the channel and its request in one piece behind it.
#[test]
fn a_session_behind_a_login_that_succeeds_is_served() {
    let mut pair = Pair::new(TransportConfig::default(), TransportConfig::default());
    pair.settle(usize::MAX).unwrap();
    sign(&mut pair);
    let client = &mut pair.client.connection;
    let id = client.open_channel_early("session", b"").unwrap();
    let exec = Request::Exec {
        command: b"x".to_vec(),
    };
    client.channel_request(id, &exec, true).unwrap();
    client.channel_eof(id).unwrap();
    assert_eq!(client.early_channel(), Some(id));
    assert!(client.open_channel_early("session", b"").is_err());
    pair.client.transmit();
    let bytes: Vec<u8> = pair.client.wire.drain(..).collect();
    pair.server.receive(&bytes, 0).unwrap();
    let asked = pair.server.events.iter().any(|event| {
        matches!(event, Event::AuthRequest(request) if matches!(request.method, AuthMethod::Publickey { .. }))
    });
    assert!(asked, "{:?}", pair.server.events);
    pair.server.connection.auth_success().unwrap();
    pair.server.events.clear();
    pair.server.receive(b"", 0).unwrap();
    pair.server.connection.accept_channel(id).unwrap();
    pair.server.receive(b"", 0).unwrap();
    let exec = pair.server.events.iter().any(|event| {
        matches!(event, Event::ChannelRequest { request: Request::Exec { command }, want_reply: true, .. } if command == b"x")
    });
    assert!(exec, "{:?}", pair.server.events);
    pair.server.connection.channel_reply(id, true).unwrap();
    pair.settle(usize::MAX).unwrap();
    assert!(pair.client.connection.channel_heard_early(id));
    let answered = pair
        .client
        .events
        .iter()
        .any(|event| matches!(event, Event::ChannelReply { success: true, .. }));
    assert!(answered, "{:?}", pair.client.events);
}
