//! Pipelined messages of a client: the guess of the key exchange, and a channel after a login
//! request.

use keys::{KeySpec, PrivateKey, SignatureAlgorithm};
use proto::channel::Request;
use proto::{
    AuthMethod, ChannelId, Connection, Error, Event, KexGuess, ShortOffer, Stream, TransportConfig,
    TransportOutput,
};
use sim::{PASSWORD, Pair};

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

fn config(kex: &[&str], host_keys: &[&str], guess: bool) -> TransportConfig {
    TransportConfig {
        kex: names(kex),
        host_key_algorithms: names(host_keys),
        guess: KexGuess {
            first_packet_follows: guess,
            short: None,
        },
        ..TransportConfig::default()
    }
}

const BOTH: [&str; 2] = ["curve25519-sha256", "mlkem768x25519-sha256"];
const TURNED: [&str; 2] = ["mlkem768x25519-sha256", "curve25519-sha256"];

/// The guess is right if both first names are the same, and in both cases the exchange succeeds, in
/// pieces of any size.
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

/// Sends a signed request of a new key without waiting for anything.
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

/// A successful login, followed by the channel and its request in one piece.
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

/// A pair whose client has sent a session with a subsystem after its login request, and then
/// `more`.
fn subsystem_with(server: TransportConfig, data: &[&[u8]]) -> (Pair, ChannelId) {
    let mut pair = Pair::new(TransportConfig::default(), server);
    pair.settle(usize::MAX).unwrap();
    sign(&mut pair);
    let client = &mut pair.client.connection;
    let id = client.open_channel_early("session", b"").unwrap();
    let sftp = Request::Subsystem {
        name: b"sftp".to_vec(),
    };
    client.channel_request(id, &sftp, true).unwrap();
    for piece in data {
        client.channel_send_early(id, piece).unwrap();
    }
    (pair, id)
}

/// Delivers the client's output in pieces of this size to a server that accepts the login; returns
/// the channel data, which arrived after the request.
fn let_in(pair: &mut Pair, piece: usize) -> Vec<u8> {
    pair.client.transmit();
    let bytes: Vec<u8> = pair.client.wire.drain(..).collect();
    let (mut started, mut data) = (false, Vec::new());
    for part in bytes.chunks(piece).chain([&b""[..]; 4]) {
        pair.server.receive(part, 0).unwrap();
        while let Some(event) = pair.server.events.pop_front() {
            let server = &mut pair.server.connection;
            match event {
                Event::AuthRequest(_) => server.auth_success().unwrap(),
                Event::ChannelOpenRequest { channel, .. } => {
                    server.accept_channel(channel).unwrap();
                }
                Event::ChannelRequest {
                    channel,
                    request: Request::Subsystem { name },
                    want_reply: true,
                } => {
                    assert_eq!(name, b"sftp");
                    server.channel_reply(channel, true).unwrap();
                    started = true;
                }
                Event::ChannelData { data: more, .. } => {
                    assert!(started, "data before what they are for");
                    data.extend_from_slice(&more);
                }
                _ => {}
            }
        }
    }
    data
}

/// A channel's data are sent with the login, in pieces of any size, and are deducted from the
/// window when it is known.
#[test]
fn data_behind_a_login_reach_what_runs_on_the_channel() {
    const ALL: usize = 32 << 10;
    let small = || TransportConfig {
        // Enough for the least window.
        window_memory_bytes: 128 << 10,
        ..TransportConfig::default()
    };
    let window = |data: &[&[u8]], piece| {
        let (mut pair, id) = subsystem_with(small(), data);
        assert_eq!(let_in(&mut pair, piece), data.concat());
        pair.settle(usize::MAX).unwrap();
        let client = &mut pair.client.connection;
        assert!(client.channel_heard_early(id));
        assert!(client.channel_send_early(id, b"late").is_err());
        let sent = client
            .channel_send_slice(id, Stream::Data, &[7; 1 << 20])
            .unwrap();
        pair.settle(usize::MAX).unwrap();
        sent
    };
    let whole = window(&[], usize::MAX);
    assert!(whole < 1 << 20, "{whole}");
    assert_eq!(window(&[b"first"], 1), whole - 5);
    let half = vec![3; ALL / 2];
    assert_eq!(window(&[&half, &half], 1000), whole - ALL);
}

#[test]
fn no_more_goes_ahead_than_every_server_of_ours_takes() {
    let (mut pair, id) = subsystem_with(TransportConfig::default(), &[&[1; 32 << 10]]);
    let client = &mut pair.client.connection;
    let misused = |result| matches!(result, Err(Error::Misuse(_)));
    assert!(misused(client.channel_send_early(id, b"x")));
    assert!(misused(client.channel_send_early(ChannelId(1), b"x")));
    // The ordinary function does not send to an unconfirmed channel either.
    let mut buf = client.take_buffer(1);
    buf.extend(b"x");
    assert!(misused(client.channel_send(id, Stream::Data, buf)));
    client.channel_eof(id).unwrap();
    assert!(misused(client.channel_send_early(id, b"")));
    assert_eq!(let_in(&mut pair, usize::MAX).len(), 32 << 10);
}

/// If the login fails, the pipelined data are discarded, and the next channel's window is complete.
#[test]
fn data_behind_a_login_that_fails_are_forgotten() {
    let (mut pair, id) = subsystem_with(TransportConfig::default(), &[&[1; 32 << 10]]);
    pair.settle(usize::MAX).unwrap();
    let client = &mut pair.client.connection;
    assert!(!client.is_authenticated());
    assert!(client.early_channel().is_none() && !client.channel_heard_early(id));
    assert!(client.channel_send_early(id, b"x").is_err());
    client.auth_password(b"u", PASSWORD).unwrap();
    pair.settle(usize::MAX).unwrap();
    assert!(pair.client.connection.is_authenticated());
    let id = pair.open_session().unwrap();
    assert!(!pair.client.connection.channel_heard_early(id));
}

// ---- a shortened first KEXINIT ------------------------------------------------------------------

/// Available bytes: for mlkem768x25519 those of a SYN over IPv6 at an MTU of 1500 bytes, for
/// curve25519 less than the lists of these tests need.
fn room(kex: &[&str]) -> usize {
    if kex == TURNED { 1400 } else { 320 }
}
const GCM: &str = "aes128-gcm@openssh.com";

/// A client that expects GCM, whatever it accepts.
fn short(kex: &[&str], understood: bool) -> TransportConfig {
    let mut client = TransportConfig::default();
    let all = client.kex.clone();
    client.kex = names(kex);
    client
        .kex
        .extend(all.into_iter().filter(|name| !kex.contains(&&**name)));
    TransportConfig {
        ciphers: names(&[GCM, "aes128-ctr", "chacha20-poly1305@openssh.com"]),
        guess: KexGuess {
            first_packet_follows: true,
            short: Some(ShortOffer {
                cipher: GCM.into(),
                mac: None,
                understood,
                flight_bytes: room(kex),
            }),
        },
        ..client
    }
}

/// A server that prefers these.
fn server(kex: &[&str], ciphers: &[&str]) -> TransportConfig {
    TransportConfig {
        ciphers: names(ciphers),
        ..config(kex, &["ssh-ed25519"], false)
    }
}

/// Bytes of a client's first flight.
fn first_flight(config: TransportConfig) -> usize {
    let mut connection = Connection::client(config, 0).unwrap();
    let mut bytes = 0;
    while let Some(output) = connection.poll_output() {
        bytes += match output {
            TransportOutput::Raw(line) => line.len(),
            TransportOutput::Seal(job) => job.run().wire().len(),
        };
    }
    bytes
}

/// With mlkem768x25519 the flight fits only in Fulmar's own form, with curve25519 in the usual one,
/// and in both cases the result is that of the full lists, markers included.
#[test]
fn a_short_kexinit_fits_and_leads_to_the_same() {
    for (kex, understood, fits) in [
        (TURNED, true, true),
        (TURNED, false, false),
        (BOTH, true, true),
        (BOTH, false, true),
    ] {
        let client = short(&kex, understood);
        let bytes = first_flight(client.clone());
        assert_eq!(bytes <= room(&kex), fits, "{kex:?}: {bytes} bytes");
        let mut plain = client.clone();
        plain.guess.short = None;
        assert!(first_flight(plain) > room(&kex));
        for piece in [1, usize::MAX] {
            let mut pair = Pair::new(client.clone(), server(&kex, &[GCM]));
            pair.login(piece).unwrap();
            let connection = &pair.client.connection;
            assert_eq!(connection.offers_short(), fits);
            assert!(connection.short_kexinit_understood());
            assert_eq!(connection.guess_was_right(), Some(true));
            // The server's markers were requested: strict key exchange, and its EXT_INFO.
            assert!(connection.server_sig_algs().is_some());
            let agreed = connection.negotiated().unwrap();
            assert!(agreed.strict_kex);
            assert_eq!(Some(&agreed), pair.server.connection.negotiated().as_ref());
            assert_eq!((agreed.kex, agreed.client_to_server.cipher), (kex[0], GCM));
            // The next exchange has the full lists.
            pair.client.connection.rekey(0).unwrap();
            pair.settle(piece).unwrap();
            assert_eq!(pair.client.connection.negotiated(), Some(agreed));
        }
    }
}

#[test]
fn a_cipher_that_needs_a_mac_names_it() {
    let mut client = short(&TURNED, true);
    client.ciphers = names(&["aes128-ctr", GCM]);
    client.guess.short = client.guess.short.map(|short| ShortOffer {
        cipher: "aes128-ctr".into(),
        mac: Some(client.macs[0].clone()),
        ..short
    });
    assert!(first_flight(client.clone()) <= room(&TURNED));
    let mut pair = Pair::new(client.clone(), server(&TURNED, &["aes128-ctr"]));
    pair.login(usize::MAX).unwrap();
    let agreed = pair.client.connection.negotiated().unwrap();
    assert_eq!(agreed.server_to_client.mac, client.macs[0]);
    assert!(pair.client.connection.offers_short());
}

/// If the full lists would negotiate other algorithms, better or not, the exchange ends before the
/// server's key is shown; also if nothing is in common.
#[test]
fn a_short_kexinit_cannot_lead_elsewhere_than_the_whole_lists() {
    for kex in [BOTH, TURNED] {
        let mut client = short(&kex, true);
        client.ciphers = names(&["aes256-gcm@openssh.com", GCM]);
        let better = server(&kex, &[GCM, "aes256-gcm@openssh.com"]);
        let mut pair = Pair::new(client.clone(), better);
        assert_eq!(pair.settle(usize::MAX).unwrap_err(), Error::ShortOffer);
        assert!(pair.client.connection.session_id().is_none());
        let mut pair = Pair::new(client, server(&kex, &["aes256-gcm@openssh.com"]));
        assert!(pair.settle(usize::MAX).is_err());
        assert!(pair.client.connection.session_id().is_none());
    }
}

/// Algorithms that are not configured are not offered, even if the cache names them.
#[test]
fn a_short_kexinit_holds_configured_names_only() {
    let whole = |config: &TransportConfig| {
        let connection = Connection::client(config.clone(), 0).unwrap();
        !connection.offers_short()
    };
    let mut client = short(&BOTH, true);
    assert!(!whole(&client));
    for (cipher, mac) in [
        ("3des-cbc", None),
        ("aes256-ctr", Some("hmac-sha2-256")),
        ("aes128-ctr", None),
        ("aes128-ctr", Some("hmac-md5")),
    ] {
        client.guess.short = Some(ShortOffer {
            cipher: cipher.into(),
            mac: mac.map(String::from),
            understood: true,
            flight_bytes: room(&BOTH),
        });
        assert!(whole(&client), "{cipher} {mac:?}");
    }
    // Lists are not shortened with compression, nor if they already fit.
    client = short(&BOTH, true);
    client.compression = names(&["zlib@openssh.com", "none"]);
    assert!(whole(&client));
    client = short(&BOTH, true);
    client.guess.short = client.guess.short.map(|short| ShortOffer {
        flight_bytes: 1 << 20,
        ..short
    });
    assert!(whole(&client));
}
