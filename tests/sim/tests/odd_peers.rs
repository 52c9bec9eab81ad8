//! Unusual but valid peers, and the resources that they may use.

use hostile::liar::{Liar, Offer};
use hostile::victim::{Memory, PASSWORD, Victim};
use proto::{ChannelId, Event, Role, Stream, TransportConfig};
use wire::message::{ServiceRequest, Unimplemented, UserauthFailure};

fn client_with(config: TransportConfig) -> Liar<Memory> {
    let mut liar = Liar::new(Memory::server(config), Role::Client);
    liar.exchange(&Offer::default());
    liar.service();
    liar
}

fn logged_in_with(config: TransportConfig) -> Liar<Memory> {
    let mut liar = client_with(config);
    liar.login_password(b"user", PASSWORD);
    liar
}

/// paramiko requests `ssh-userauth` before each login attempt.
#[test]
fn a_client_may_ask_for_authentication_before_each_attempt() {
    let mut liar = client_with(TransportConfig::default());
    let answer = liar.ask(b"user", "none", b"");
    assert!(UserauthFailure::decode(&answer).is_ok());
    assert!(liar.say(&ServiceRequest {
        service: b"ssh-userauth"
    }));
    liar.expect(6);
    liar.login_password(b"user", PASSWORD);
    // But not after a login, and not without limit.
    assert!(!liar.victim.has_ended());
    liar.say(&ServiceRequest {
        service: b"ssh-userauth",
    });
    assert!(liar.ends());

    let mut liar = client_with(TransportConfig::default());
    let asked = (0..100_000)
        .take_while(|_| {
            liar.say(&ServiceRequest {
                service: b"ssh-userauth",
            })
        })
        .count();
    assert!(asked < 5000, "{asked} requests for the same service");
}

#[test]
fn a_maximum_packet_beyond_all_packets_is_not_taken_at_its_word() {
    let mut liar = logged_in_with(TransportConfig::default());
    liar.open("session", 0, u32::MAX, u32::MAX);
    liar.expect(91);
    let id = ChannelId(0);
    let space = liar.victim.connection.channel_send_space(id);
    assert!(
        (32 * 1024..=wire::MAX_PACKET_BYTES - 4096).contains(&space),
        "{space} bytes in one message"
    );
    assert_eq!(liar.victim.connection.channel_max_data(id), space);
    let data = vec![1; space];
    liar.victim.command(|server| {
        let sent = server.channel_send_slice(id, Stream::Data, &data)?;
        assert_eq!(sent, data.len());
        Ok(())
    });
    assert_eq!(liar.expect(94).len(), 9 + space);
}

/// Some servers answer global requests with UNIMPLEMENTED; this is a sign of life too.
#[test]
fn a_peer_that_answers_signs_of_life_by_unimplemented_is_alive() {
    let config = TransportConfig {
        alive_interval_ms: Some(1000),
        alive_count_max: 3,
        ..TransportConfig::default()
    };
    let mut liar = logged_in_with(config);
    for round in 1..=300 {
        liar.victim.wait_until(round * 1000);
        liar.expect(80);
        assert!(
            liar.say(&Unimplemented { sequence: 0 }),
            "{}",
            liar.victim.verdict()
        );
    }
    assert!(!liar.victim.has_ended());
}

/// RFC 4253 §11.1 has a language tag at the end; some peers leave it out, and the reason is still
/// read.
#[test]
fn a_goodbye_without_language_tag_is_understood() {
    let mut liar = logged_in_with(TransportConfig::default());
    let mut bye = vec![1, 0, 0, 0, 11];
    bye.extend_from_slice(&[0, 0, 0, 3]);
    bye.extend_from_slice(b"bye");
    liar.send(&bye);
    assert!(
        matches!(
            &liar.victim.error,
            Some(proto::Error::Disconnected { reason: 11, description }) if description == "bye"
        ),
        "{:?}",
        liar.victim.error
    );
}

/// A stopped sink stores a compressed byte itself, not the buffer into which it was inflated.
#[test]
fn inflated_data_that_waits_takes_its_own_size() {
    let config = TransportConfig {
        compression: vec!["zlib@openssh.com".into()],
        ..TransportConfig::default()
    };
    let offer = Offer {
        compression: "zlib@openssh.com".into(),
        ..Offer::default()
    };
    let mut liar = Liar::new(Memory::server(config), Role::Client);
    liar.exchange(&offer);
    liar.service();
    liar.login_password(b"user", PASSWORD);
    liar.start_compression();
    let channel = liar.open_session(0);
    let mut message = vec![94];
    message.extend_from_slice(&channel.to_be_bytes());
    message.extend_from_slice(&[0, 0, 0, 1, b'x']);
    liar.send(&message);
    let data = liar
        .victim
        .events
        .iter()
        .find_map(|event| match event {
            Event::ChannelData { data, .. } => Some(data.clone()),
            _ => None,
        })
        .expect("data");
    drop(std::mem::take(&mut liar.victim.events));
    let owned = data.try_into_mut().expect("nobody else holds these bytes");
    assert!(owned.capacity() <= 64, "{} bytes kept", owned.capacity());
}
