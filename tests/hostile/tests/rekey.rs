//! Key exchanges after the first one, floods during them, and compression, in memory.

use compress::PacketCompressor;
use hostile::adversary::{Adversary, Offer};
use hostile::subject::{Memory, PASSWORD, Subject};
use proto::{ChannelId, Error, Event, Role, Stream, TransportConfig};
use wire::Put;
use wire::message::{ChannelData, Encode, Ping};

const ZSTD: &str = "zstd2@fulmar.invalid";

/// A lying client that has logged in.
fn client_with(config: TransportConfig, offer: &Offer) -> Adversary<Memory> {
    let mut adversary = Adversary::new(Memory::server(config), Role::Client);
    adversary.exchange(offer);
    adversary.service();
    adversary.login_password(b"user", PASSWORD);
    if offer.compression.starts_with("zlib") {
        adversary.start_compression();
    }
    if offer.compression == ZSTD {
        adversary.start_zstd();
    }
    adversary
}

fn client() -> Adversary<Memory> {
    client_with(TransportConfig::default(), &Offer::default())
}

#[test]
fn the_session_identifier_stays_when_a_rekey_has_a_longer_hash() {
    for mut adversary in [client(), Adversary::server()] {
        let first = adversary
            .subject
            .connection
            .session_id()
            .expect("a session")
            .to_vec();
        assert_eq!(first.len(), 32);
        adversary.exchange(&Offer::kex("sntrup761x25519-sha512"));
        assert_eq!(adversary.exchange_hash().len(), 64);
        assert_eq!(adversary.subject.connection.session_id(), Some(&first[..]));
        // Keys of both directions were derived from the first identifier: packets open.
        adversary.say(&Ping { data: b"alive" });
        adversary.expect(193);
    }
}

#[test]
fn a_host_key_that_changes_at_a_rekey_ends_the_connection() {
    let mut adversary = Adversary::server();
    adversary.rekey_with_another_host_key();
    assert_eq!(
        adversary.subject.error,
        Some(Error::PeerMisbehaved("the host key changed at a rekey"))
    );
}

#[test]
fn nothing_but_the_exchange_is_taken_between_the_peers_kexinit_and_its_newkeys() {
    let mut global = vec![80];
    global.put_string(b"keepalive@openssh.com");
    global.push(0);
    for payload in [
        Ping { data: b"ping" }.encode(),
        global,
        ChannelData {
            recipient_channel: 0,
            data: b"data",
        }
        .encode(),
        hostile::adversary::userauth(b"user", "none", b""),
        vec![7, 0, 0, 0, 0],
        vec![5],
        vec![200],
    ] {
        for mut adversary in [client(), Adversary::server()] {
            adversary.kexinit(&Offer::default());
            adversary.expect_kexinit();
            adversary.send(&payload);
            assert!(adversary.ends(), "{:?}", payload.first());
        }
    }
}

#[test]
fn pings_while_our_kexinit_is_on_its_way_are_answered_later_and_within_a_bound() {
    let mut adversary = client();
    adversary.subject.command(|server| server.rekey(0));
    let data = vec![b'p'; 16 * 1024];
    let mut sent = 0;
    while sent < 10_000 && adversary.say(&Ping { data: &data }) {
        sent += 1;
    }
    assert!(
        sent * data.len() <= 2 << 20,
        "{sent} pings of 16 KiB are remembered"
    );
    assert!(adversary.ends());
}

#[test]
fn a_peer_that_never_finishes_a_rekey_gets_no_data_and_is_given_up() {
    let mut adversary = client();
    let channel = adversary.open_session(0);
    assert_eq!(channel, 0);
    let id = ChannelId(0);
    assert!(adversary.subject.connection.channel_send_space(id) > 0);
    adversary.subject.command(|server| server.rekey(0));
    adversary.expect_kexinit();
    // Some data are queued until the keys are ready, and none are sent.
    let mut queued = 0;
    while queued < 8 << 20 {
        let sent = adversary
            .subject
            .connection
            .channel_send_slice(id, Stream::Data, &[0; 32_768]);
        match sent {
            Ok(0) | Err(_) => break,
            Ok(len) => queued += len,
        }
    }
    assert!(queued <= 1 << 20, "{queued} bytes are held back");
    assert_eq!(adversary.subject.connection.channel_send_space(id), 0);
    assert!(
        adversary.next_payload().is_none(),
        "data left before NEWKEYS"
    );
    assert_gives_up(&mut adversary);
}

/// The subject ends the connection when the key exchange takes too long.
fn assert_gives_up(adversary: &mut Adversary<Memory>) {
    let deadline = adversary
        .subject
        .connection
        .poll_deadline()
        .expect("a limit");
    adversary.subject.wait_until(deadline);
    assert_eq!(
        adversary.subject.error,
        Some(Error::TimedOut("key exchange"))
    );
}

#[test]
fn a_peer_that_stops_in_the_middle_of_a_rekey_is_given_up() {
    for mut adversary in [client(), Adversary::server()] {
        adversary.kexinit(&Offer::default());
        adversary.expect_kexinit();
        assert_gives_up(&mut adversary);
    }
}

#[test]
fn a_peer_that_reads_nothing_is_not_answered_without_end() {
    // The owner's socket is full: it takes no output. The connection must stop reading requests
    // that want an answer.
    let mut adversary = client();
    let one = Ping {
        data: &[1; 16 * 1024],
    }
    .encode();
    let mut bytes = 0;
    for _ in 0..1000 {
        let packet = adversary.seal(&one);
        bytes += packet.len();
        adversary
            .subject
            .connection
            .receive_buffer()
            .extend_from_slice(&packet);
        adversary
            .subject
            .connection
            .process(0)
            .expect("honest pings");
        if !adversary.subject.connection.wants_input() {
            break;
        }
    }
    assert!(
        !adversary.subject.connection.wants_input(),
        "it reads on after {bytes} bytes"
    );
    assert!(bytes <= 3 << 20, "{bytes} bytes were taken in");
}

fn bomb(size: usize) -> Vec<u8> {
    let mut compressor = compress::Compressor::with_level(9);
    let mut out = Vec::new();
    let mut payload = vec![2];
    payload.put_string(&vec![0; size]);
    compressor.compress(&payload, &mut out).expect("deflated");
    out
}

#[test]
fn a_packet_that_inflates_past_the_limit_ends_the_connection() {
    let offer = Offer {
        compression: "zlib@openssh.com".into(),
        ..Offer::default()
    };
    for size in [257 * 1024 + 1, 1 << 20, 64 << 20] {
        let mut adversary = client_with(TransportConfig::default(), &offer);
        let small = bomb(size);
        assert!(small.len() < 256 * 1024, "{}", small.len());
        adversary.send_deflated_as_is(&small);
        assert!(adversary.ends());
        assert!(
            matches!(adversary.subject.error, Some(Error::Compression(_))),
            "{size}: {:?}",
            adversary.subject.error
        );
    }
    let mut adversary = client_with(TransportConfig::default(), &offer);
    adversary.send_deflated_as_is(&bomb(250 * 1024));
    assert!(adversary.subject.error.is_none());
}

#[test]
fn damaged_compression_ends_the_connection() {
    let offer = Offer {
        compression: "zlib@openssh.com".into(),
        ..Offer::default()
    };
    for payload in [
        &b"\xff\xff\xff\xff"[..],
        b"\x00",
        b"\x78\x9c",
        &[0x78; 4096],
    ] {
        let mut adversary = client_with(TransportConfig::default(), &offer);
        adversary.send_deflated_as_is(payload);
        assert!(adversary.ends());
    }
}

#[test]
fn nothing_is_inflated_before_login() {
    let mut adversary = Adversary::new(Memory::server(TransportConfig::default()), Role::Client);
    adversary.exchange(&Offer {
        compression: "zlib@openssh.com".into(),
        ..Offer::default()
    });
    // zlib's first byte is not a message number.
    adversary.send_deflated_as_is(&bomb(1 << 20));
    adversary.expect(3);
    assert!(adversary.subject.error.is_none());
}

/// A lying client that has logged in to a server with zstd.
fn client_by_zstd() -> Adversary<Memory> {
    let config = TransportConfig {
        kex: vec!["curve25519-sha256".into()],
        compression: vec!["none".into(), ZSTD.into()],
        ..TransportConfig::default()
    };
    let offer = Offer {
        compression: ZSTD.into(),
        ..Offer::default()
    };
    client_with(config, &offer)
}

fn by_zstd(payload: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    compress::ZstdCompressor::new(compress::CompressionSettings::default())
        .compress(payload, &mut packet)
        .expect("compressed");
    packet
}

/// SSH_MSG_IGNORE with some text, which compresses.
fn ignored(len: usize) -> Vec<u8> {
    let mut payload = vec![2];
    payload.put_string(&b"words and other words; ".repeat(len / 23 + 1)[..len]);
    payload
}

#[test]
fn what_is_no_packet_of_ours_by_zstd_ends_the_connection_and_says_why() {
    let whole = by_zstd(&ignored(400));
    assert!(whole.len() < 80, "{}", whole.len());
    let mut forged: Vec<Vec<u8>> = (1..whole.len()).map(|cut| whole[..cut].to_vec()).collect();
    // The first byte selects the form, and then starts a frame: its magic number, descriptor and
    // window, and the first block.
    let with = |at: usize, byte: u8| {
        let mut packet = whole.clone();
        packet[at] = byte;
        packet
    };
    let skipped = [&[2, 0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], b"text"].concat();
    forged.extend([
        // An unknown kind; blocks without a frame; the frame's last block.
        with(0, 3),
        with(0, 1),
        with(7, whole[7] | 1),
        // With a checksum, a dictionary's number, a size; with a window of 2 MiB.
        with(5, 4),
        with(5, 1),
        with(5, 0x20),
        with(6, 0x58),
        skipped,
        b"no zstd at all".to_vec(),
        // Uncompressed payloads: an empty one, and one that is too long.
        vec![0],
        by_zstd(&ignored(257 * 1024)),
        by_zstd(&ignored(16 << 20)),
    ]);
    for (index, packet) in forged.iter().enumerate() {
        let mut adversary = client_by_zstd();
        adversary.send_deflated_as_is(packet);
        assert!(adversary.ends(), "{index}");
        let reason = adversary.goodbye.as_ref().map(|(reason, _)| *reason);
        let error = &adversary.subject.error;
        assert!(
            matches!(error, Some(Error::Compression(_))),
            "{index}: {error:?}"
        );
        assert_eq!(reason, Some(6), "{index}: COMPRESSION_ERROR");
    }
    let mut adversary = client_by_zstd();
    adversary.send_deflated_as_is(&by_zstd(&ignored(250 * 1024)));
    assert!(adversary.subject.error.is_none());
}

#[test]
fn any_damage_to_zstd_is_survived_or_ends_the_connection() {
    let whole = by_zstd(&ignored(300));
    for at in 0..whole.len() {
        let mut adversary = client_by_zstd();
        let mut packet = whole.clone();
        packet[at] ^= 1 << (at % 8);
        adversary.send_deflated_as_is(&packet);
        if adversary.subject.error.is_none() {
            adversary.say(&Ping { data: b"alive" });
        }
    }
}

/// A new stream starts after NEWKEYS: a packet that continues the old one is invalid.
#[test]
fn a_stream_of_zstd_ends_with_its_keys() {
    let mut adversary = client_by_zstd();
    adversary.say(&Ping { data: b"alive" });
    adversary.expect(193);
    let offer = Offer {
        compression: ZSTD.into(),
        ..Offer::default()
    };
    adversary.exchange(&offer);
    // Blocks of the frame that began with the first keys.
    let mut compressor = compress::ZstdCompressor::new(compress::CompressionSettings::default());
    let mut packet = Vec::new();
    for _ in 0..2 {
        packet.clear();
        compressor
            .compress(&ignored(300), &mut packet)
            .expect("compressed");
    }
    assert_eq!(packet[0], 1, "it goes on with its frame");
    adversary.send_deflated_as_is(&packet);
    assert!(adversary.ends());
    assert!(matches!(
        adversary.subject.error,
        Some(Error::Compression(_))
    ));
}

#[test]
fn zstd_is_not_offered_to_who_did_not_ask_for_it() {
    let mut adversary = Adversary::new(Memory::server(TransportConfig::default()), Role::Client);
    adversary.hello();
    adversary.kexinit(&Offer {
        compression: ZSTD.into(),
        ..Offer::default()
    });
    adversary.expect_kexinit();
    let offered = adversary.subjects_kexinit();
    for list in [&offered.compression_c2s, &offered.compression_s2c] {
        assert!(list.contains("zlib@openssh.com") && !list.contains(ZSTD));
    }
    assert!(adversary.ends());
}

#[test]
fn a_rekey_keeps_strictness_and_needs_no_markers() {
    let mut adversary = client();
    adversary.exchange(&Offer {
        strict: false,
        ..Offer::default()
    });
    adversary.say(&Ping { data: b"alive" });
    adversary.expect(193);
    assert!(
        adversary
            .subject
            .connection
            .negotiated()
            .expect("keys")
            .strict_kex
    );
    let again = |event: &Event| matches!(event, Event::KeysChanged { first: false, .. });
    assert!(adversary.subject.saw(again));
}

#[test]
fn strictness_cannot_be_promised_late() {
    let mut adversary = client_with(TransportConfig::default(), &Offer::lax());
    adversary.exchange(&Offer::default());
    assert!(
        !adversary
            .subject
            .connection
            .negotiated()
            .expect("keys")
            .strict_kex
    );
    adversary.say(&Ping { data: b"alive" });
    adversary.expect(193);
    assert!(!adversary.subject.has_ended());
}
