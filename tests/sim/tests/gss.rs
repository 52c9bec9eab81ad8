//! Key exchanges by GSS-API between two connections in memory, with a toy mechanism.

use proto::{Error, Event, TransportConfig};
use sim::Pair;
use wire::algorithms::{GSS_KEX, KERBEROS_KEX_SUFFIX};

fn full(family: &str) -> String {
    format!("{family}{KERBEROS_KEX_SUFFIX}")
}

fn with_gss(names: &[&str]) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.kex.splice(..0, names.iter().map(|name| full(name)));
    config
}

fn kex_of(pair: &Pair) -> &'static str {
    let ours = pair.client.connection.negotiated().unwrap();
    assert_eq!(pair.server.connection.negotiated(), Some(ours.clone()));
    ours.kex
}

/// Sends some data up and down.
fn carries_data(pair: &mut Pair) {
    let id = pair.open_session().unwrap();
    for up in [true, false] {
        let side = if up {
            &mut pair.client
        } else {
            &mut pair.server
        };
        let data = b"some data";
        side.connection
            .channel_send_slice(id, proto::Stream::Data, data)
            .unwrap();
        pair.settle(usize::MAX).unwrap();
        let side = if up {
            &mut pair.server
        } else {
            &mut pair.client
        };
        let arrived = side.events.drain(..).any(
            |event| matches!(event, Event::ChannelData { data: got, .. } if got[..] == data[..]),
        );
        assert!(arrived);
    }
}

#[test]
fn each_method_logs_in_and_rekeys_whatever_the_number_of_tokens() {
    for family in GSS_KEX {
        for rounds in [0, 1, 5] {
            for ends_with_token in [true, false] {
                let mut pair = Pair::new(with_gss(&[family]), with_gss(GSS_KEX));
                pair.gss_rounds = rounds;
                pair.gss_ends_with_token = ends_with_token;
                pair.login(if rounds == 1 { 1 } else { usize::MAX })
                    .unwrap();
                assert_eq!(kex_of(&pair), full(family));
                assert!(pair.client.connection.is_by_gss() && pair.server.connection.is_by_gss());
                assert_eq!(pair.client.connection.host_key(), None);
                let first = pair.client.connection.session_id().unwrap().to_vec();
                assert_eq!(pair.server.connection.session_id(), Some(&first[..]));
                carries_data(&mut pair);
                for from_client in [true, false] {
                    let side = if from_client {
                        &mut pair.client
                    } else {
                        &mut pair.server
                    };
                    side.connection.rekey(0).unwrap();
                    pair.settle(usize::MAX).unwrap();
                    let changed =
                        |event: &Event| matches!(event, Event::KeysChanged { first: false, .. });
                    assert!(pair.client.events.iter().any(changed));
                    assert_eq!(kex_of(&pair), full(family));
                    pair.client.events.clear();
                    pair.server.events.clear();
                    carries_data(&mut pair);
                }
                assert_eq!(pair.client.connection.session_id(), Some(&first[..]));
            }
        }
    }
}

#[test]
fn a_server_without_a_host_key_has_these_methods_alone() {
    let mut pair = Pair::without_host_key(with_gss(GSS_KEX), with_gss(GSS_KEX));
    pair.login(usize::MAX).unwrap();
    let negotiated = pair.client.connection.negotiated().unwrap();
    assert_eq!(negotiated.host_key, "null");
    pair.client.connection.rekey(0).unwrap();
    pair.settle(usize::MAX).unwrap();
    assert_eq!(kex_of(&pair), full(GSS_KEX[0]));
    // A client without them finds nothing in common.
    let mut pair = Pair::without_host_key(with_gss(&[]), with_gss(GSS_KEX));
    assert!(matches!(
        pair.login(usize::MAX),
        Err(Error::NoCommonAlgorithm {
            kind: "key exchange method",
            ..
        })
    ));
}

#[test]
fn without_them_on_both_sides_the_host_key_is_what_it_was() {
    for (client, server) in [
        (with_gss(GSS_KEX), with_gss(&[])),
        (with_gss(&[]), with_gss(GSS_KEX)),
    ] {
        let mut pair = Pair::new(client, server);
        pair.login(usize::MAX).unwrap();
        assert!(!kex_of(&pair).starts_with("gss-"));
        assert!(!pair.client.connection.is_by_gss());
        assert_eq!(
            pair.client.connection.host_key(),
            Some(&pair.host_key_blob()[..])
        );
    }
}

#[test]
fn only_an_exchange_by_gss_has_data_for_its_login() {
    let mut pair = Pair::new(with_gss(GSS_KEX), with_gss(GSS_KEX));
    pair.settle(usize::MAX).unwrap();
    assert!(pair.client.connection.is_by_gss());
    let keyex = pair.client.connection.gssapi_keyex_signed_data(b"user");
    assert!(keyex.unwrap().ends_with(b"\0\0\0\x0cgssapi-keyex"));
    // After another exchange there is nothing to sign.
    let mut pair = Pair::new(with_gss(&[]), with_gss(&[]));
    pair.settle(usize::MAX).unwrap();
    assert!(
        pair.client
            .connection
            .gssapi_keyex_signed_data(b"user")
            .is_err()
    );
}

#[test]
fn a_resumed_connection_rekeys_by_gss_too() {
    for has_key in [true, false] {
        let (client, server) = (with_gss(GSS_KEX), with_gss(GSS_KEX));
        let mut pair = match has_key {
            true => Pair::new(client, server.clone()),
            false => Pair::without_host_key(client, server.clone()),
        };
        pair.login(usize::MAX).unwrap();
        let keys = match has_key {
            true => vec![proto::ServerHostKey {
                algorithms: vec!["ssh-ed25519".into()],
                blob: pair.host_key_blob(),
            }],
            false => Vec::new(),
        };
        let old = std::mem::replace(
            &mut pair.server.connection,
            proto::Connection::server(server.clone(), keys.clone(), 0).unwrap(),
        );
        let snapshot = old.snapshot().unwrap();
        pair.server.connection = proto::Connection::resume(&snapshot, server, keys, 0).unwrap();
        assert!(pair.server.connection.is_by_gss());
        pair.client.connection.rekey(0).unwrap();
        pair.settle(usize::MAX).unwrap();
        assert!(kex_of(&pair).starts_with("gss-"));
        carries_data(&mut pair);
    }
}
