//! Login, data, rekey and hand-over between two connections in memory.

use proto::channel::Request;
use proto::{ChannelId, Connection, Event, ServerHostKey, Stream, TransportConfig};
use sim::{Pair, Side};
use wire::algorithms::KNOWN_KEX;

fn config() -> TransportConfig {
    TransportConfig::default()
}

fn open_channel(pair: &mut Pair) -> ChannelId {
    let id = pair.client.connection.open_channel("session", b"").unwrap();
    pair.settle(usize::MAX).unwrap();
    let asked = pair
        .server
        .events
        .iter()
        .find_map(|event| match event {
            Event::ChannelOpenRequest { channel, .. } => Some(*channel),
            _ => None,
        })
        .expect("server saw the open");
    pair.server.connection.accept_channel(asked).unwrap();
    pair.settle(usize::MAX).unwrap();
    assert!(pair.client.connection.channel_is_open(id));
    id
}

/// Sends `data` from one side and returns the data that the other side consumed.
fn pump(pair: &mut Pair, id: ChannelId, data: &[u8], up: bool, piece: usize) -> Vec<u8> {
    let mut sent = 0;
    let mut got = Vec::new();
    while got.len() < data.len() {
        let from = if up {
            &mut pair.client
        } else {
            &mut pair.server
        };
        sent += from
            .connection
            .channel_send_slice(id, Stream::Data, &data[sent..])
            .unwrap();
        pair.settle(piece).unwrap();
        let to = if up {
            &mut pair.server
        } else {
            &mut pair.client
        };
        let before = got.len();
        drain(to, id, &mut got);
        pair.settle(piece).unwrap();
        assert!(
            sent < data.len() || got.len() > before,
            "no progress at {}",
            got.len()
        );
    }
    got
}

fn drain(side: &mut Side, id: ChannelId, got: &mut Vec<u8>) {
    for event in std::mem::take(&mut side.events) {
        if let Event::ChannelData { data, .. } = event {
            got.extend_from_slice(&data);
            side.connection.channel_consumed(id, data.len()).unwrap();
        }
    }
}

fn noise(len: usize) -> Vec<u8> {
    sim::noise(len, 0x9e37_79b9_7f4a_7c15)
}

#[test]
fn login_byte_by_byte_and_in_one_piece() {
    for piece in [1, 7, 4096, usize::MAX] {
        let mut pair = Pair::new(config(), config());
        pair.login(piece).unwrap();
        assert!(pair.client.connection.is_authenticated());
        assert!(pair.server.connection.is_authenticated());
        let negotiated = pair.client.connection.negotiated().unwrap();
        assert!(negotiated.strict_kex);
        assert_eq!(Some(negotiated), pair.server.connection.negotiated());
        assert_eq!(
            pair.client.connection.session_id(),
            pair.server.connection.session_id()
        );
    }
}

#[test]
fn every_kex_cipher_mac_and_compression_carries_data() {
    // The group exchange needs a file of primes.
    let kexes: Vec<_> = KNOWN_KEX
        .iter()
        .filter(|name| !name.contains("group-exchange"))
        .collect();
    let ciphers = [
        "aes128-gcm@openssh.com",
        "aes256-gcm@openssh.com",
        "chacha20-poly1305@openssh.com",
    ];
    let macs = [
        "umac-64@openssh.com",
        "umac-128@openssh.com",
        "umac-64-etm@openssh.com",
        "umac-128-etm@openssh.com",
        "hmac-sha2-256",
        "hmac-sha2-512",
        "hmac-sha2-256-etm@openssh.com",
        "hmac-sha2-512-etm@openssh.com",
        "hmac-sha1",
        "hmac-sha1-etm@openssh.com",
    ];
    let mut suites: Vec<(String, String)> = ciphers
        .iter()
        .map(|cipher| (cipher.to_string(), "hmac-sha2-256".to_string()))
        .collect();
    for cipher in ["aes128-ctr", "aes192-ctr", "aes256-ctr"] {
        suites.extend(macs.iter().map(|mac| (cipher.to_string(), mac.to_string())));
    }
    let data = noise(100_000);
    for (index, (cipher, mac)) in suites.iter().enumerate() {
        for compression in ["none", "zlib@openssh.com", "zstd2@fulmar.invalid"] {
            let mut one = config();
            one.kex = vec![(*kexes[index % kexes.len()]).into()];
            one.ciphers = vec![cipher.clone()];
            one.macs = vec![mac.clone()];
            one.compression = vec![compression.into()];
            let mut pair = Pair::new(one.clone(), one);
            pair.login(usize::MAX).unwrap();
            let id = open_channel(&mut pair);
            assert!(
                pump(&mut pair, id, &data, true, 1000) == data,
                "{cipher} {mac} up"
            );
            assert!(
                pump(&mut pair, id, &data, false, 70_000) == data,
                "{cipher} {mac} down"
            );
        }
    }
}

#[test]
fn rekeys_in_the_middle_of_bulk_data_in_both_directions() {
    for compression in ["none", "zlib@openssh.com", "zstd2@fulmar.invalid"] {
        let mut one = config();
        one.rekey_bytes = Some(300_000);
        one.compression = vec![compression.into()];
        let mut pair = Pair::new(one.clone(), one);
        pair.login(usize::MAX).unwrap();
        let id = open_channel(&mut pair);
        let data = noise(6 << 20);
        assert!(pump(&mut pair, id, &data, true, 100_000) == data);
        assert!(pump(&mut pair, id, &data, false, 33_333) == data);
    }
}

#[test]
fn a_rekey_at_every_packet_index_loses_nothing() {
    for index in 0..40 {
        let mut pair = Pair::new(config(), config());
        pair.login(usize::MAX).unwrap();
        let id = open_channel(&mut pair);
        let mut got = Vec::new();
        let mut expected = Vec::new();
        for packet in 0..40_u8 {
            if usize::from(packet) == index {
                let side = if index % 2 == 0 {
                    &mut pair.client
                } else {
                    &mut pair.server
                };
                side.connection.rekey(0).unwrap();
            }
            let data = [packet; 100];
            expected.extend_from_slice(&data);
            let mut rest = &data[..];
            while !rest.is_empty() {
                let sent = pair
                    .client
                    .connection
                    .channel_send_slice(id, Stream::Data, rest)
                    .unwrap();
                rest = &rest[sent..];
                if sent == 0 {
                    pair.settle(usize::MAX).unwrap();
                }
            }
        }
        pair.settle(977).unwrap();
        drain(&mut pair.server, id, &mut got);
        assert_eq!(got, expected);
    }
}

#[test]
fn both_sides_rekey_at_once() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    let id = open_channel(&mut pair);
    for _ in 0..5 {
        pair.client.connection.rekey(0).unwrap();
        pair.server.connection.rekey(0).unwrap();
        pair.settle(100).unwrap();
        let data = noise(50_000);
        assert!(pump(&mut pair, id, &data, true, 5000) == data);
    }
}

#[test]
fn a_snapshot_right_after_login_goes_on_with_pipelined_requests() {
    for compression in ["none", "zlib@openssh.com", "zstd2@fulmar.invalid"] {
        let mut one = config();
        one.compression = vec![compression.into()];
        let mut pair = Pair::new(one.clone(), one.clone());
        pair.login(3).unwrap();
        let _ = pair.client.connection.open_channel("session", b"").unwrap();
        pair.client.transmit();
        // Half of the client's next packet has been read by the first process.
        let early: Vec<u8> = pair.client.wire.drain(..10).collect();
        pair.server
            .connection
            .receive_buffer()
            .extend_from_slice(&early);
        let keys = vec![ServerHostKey {
            algorithms: vec!["ssh-ed25519".into()],
            blob: pair.host_key_blob(),
        }];
        let fresh = Connection::server(one.clone(), keys.clone(), 0).unwrap();
        let old = std::mem::replace(&mut pair.server.connection, fresh);
        let snapshot = old.snapshot().unwrap();
        pair.server.connection = Connection::resume(&snapshot, one, keys, 5).unwrap();
        pair.settle(usize::MAX).unwrap();
        assert!(
            pair.server
                .events
                .iter()
                .any(|event| matches!(event, Event::ChannelOpenRequest { .. }))
        );
        pair.server.connection.accept_channel(ChannelId(0)).unwrap();
        pair.server.connection.rekey(5).unwrap();
        pair.settle(usize::MAX).unwrap();
        let data = noise(300_000);
        assert!(pump(&mut pair, ChannelId(0), &data, true, 9999) == data);
        for end in 0..snapshot.len().min(400) {
            assert!(Connection::resume(&snapshot[..end], config(), vec![], 0).is_err());
        }
    }
}

#[test]
fn requests_replies_eof_and_close_come_in_order() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    let id = open_channel(&mut pair);
    let client = &mut pair.client.connection;
    client
        .channel_request(
            id,
            &Request::Exec {
                command: b"true".to_vec(),
            },
            true,
        )
        .unwrap();
    client.channel_eof(id).unwrap();
    pair.settle(1).unwrap();
    pair.server.connection.channel_reply(id, true).unwrap();
    let status = Request::ExitStatus { status: 7 };
    pair.server
        .connection
        .channel_request(id, &status, false)
        .unwrap();
    pair.server.connection.channel_eof(id).unwrap();
    pair.server.connection.channel_close(id).unwrap();
    pair.settle(1).unwrap();
    let seen: Vec<String> = pair
        .client
        .events
        .iter()
        .filter_map(|event| match event {
            Event::ChannelReply { success: true, .. } => Some("reply".to_string()),
            Event::ChannelRequest {
                request: Request::ExitStatus { status },
                ..
            } => Some(format!("status {status}")),
            Event::ChannelEof(_) => Some("eof".to_string()),
            Event::ChannelClosed(_) => Some("closed".to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(seen, ["reply", "status 7", "eof", "closed"]);
    assert_eq!(pair.client.connection.channel_count(), 0);
    assert_eq!(pair.server.connection.channel_count(), 0);
}

#[test]
fn a_writer_past_the_window_waits() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    let id = open_channel(&mut pair);
    let data = vec![7; 64 << 20];
    let mut sent = 0;
    loop {
        let more = pair
            .client
            .connection
            .channel_send_slice(id, Stream::Data, &data[sent..])
            .unwrap();
        sent += more;
        pair.settle(usize::MAX).unwrap();
        if more == 0 {
            break;
        }
    }
    // The sink has consumed nothing, so at most the first window can have been sent.
    assert_eq!(sent, 2 << 20);
}

#[test]
fn keepalives_are_answered_and_silence_ends_the_connection() {
    let mut one = config();
    one.alive_interval_ms = Some(1000);
    one.alive_count_max = 2;
    let mut pair = Pair::new(one, config());
    pair.login(usize::MAX).unwrap();
    for _ in 0..5 {
        pair.now += 1000;
        pair.client.connection.handle_timeout(pair.now).unwrap();
        pair.settle(usize::MAX).unwrap();
    }
    pair.now += 1000;
    pair.client.connection.handle_timeout(pair.now).unwrap();
    pair.now += 1000;
    pair.client.connection.handle_timeout(pair.now).unwrap();
    pair.now += 1000;
    assert!(pair.client.connection.handle_timeout(pair.now).is_err());
}

#[test]
fn a_server_that_holds_its_close_can_still_send_the_exit_status() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    let id = open_channel(&mut pair);
    pair.server.connection.channel_hold_close(id).unwrap();
    pair.client.connection.channel_close(id).unwrap();
    pair.settle(usize::MAX).unwrap();
    assert!(
        pair.server
            .events
            .iter()
            .any(|event| matches!(event, Event::ChannelPeerClosed(_)))
    );
    assert!(
        !pair
            .client
            .events
            .iter()
            .any(|event| matches!(event, Event::ChannelClosed(_)))
    );
    let status = Request::ExitStatus { status: 11 };
    pair.server
        .connection
        .channel_request(id, &status, false)
        .unwrap();
    pair.server.connection.channel_close(id).unwrap();
    pair.settle(usize::MAX).unwrap();
    let status_seen = |event: &Event| {
        matches!(
            event,
            Event::ChannelRequest {
                request: Request::ExitStatus { status: 11 },
                ..
            }
        )
    };
    assert!(pair.client.events.iter().any(status_seen));
    assert!(
        pair.client
            .events
            .iter()
            .any(|event| matches!(event, Event::ChannelClosed(_)))
    );
    assert!(
        pair.server
            .events
            .iter()
            .any(|event| matches!(event, Event::ChannelClosed(_)))
    );
}

#[test]
fn an_owner_that_takes_its_time_with_one_channel_does_not_hold_up_another() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    let busy = open_channel(&mut pair);
    pair.client
        .connection
        .open_channel("direct-tcpip", b"")
        .unwrap();
    pair.settle(usize::MAX).unwrap();
    // The second channel was requested and is not answered.
    let data = noise(100_000);
    assert!(pump(&mut pair, busy, &data, true, 5000) == data);
}

/// An observer counts the bytes of one request.
fn wire_of_password(password: &[u8]) -> usize {
    let mut pair = Pair::new(config(), config());
    pair.settle(usize::MAX).unwrap();
    let client = &mut pair.client.connection;
    client.auth_password(b"user", password).unwrap();
    pair.client.transmit();
    pair.client.wire.len()
}

#[test]
fn the_length_of_a_password_does_not_show_in_its_packet() {
    let lengths: std::collections::BTreeSet<usize> = (0..200)
        .step_by(3)
        .map(|len| wire_of_password(&vec![b'x'; len]))
        .collect();
    let lengths: Vec<usize> = lengths.into_iter().collect();
    assert!(lengths.len() <= 5, "{lengths:?}");
    for pair in lengths.windows(2) {
        assert!(pair[1] - pair[0] >= 64, "{lengths:?}");
    }
}

#[test]
fn a_snapshot_is_refused_when_something_would_be_lost() {
    let mut pair = Pair::new(config(), config());
    pair.login(usize::MAX).unwrap();
    pair.open_session().unwrap();
    let (_, server, _) = pair.into_parts();
    assert!(server.snapshot().is_err(), "a channel would be lost");
}
