//! Unusual but valid peers, and the resources that they may use.

use hostile::adversary::{Adversary, Offer};
use hostile::subject::{Memory, PASSWORD, Subject};
use proto::{ChannelId, Event, Role, Stream, TransportConfig};
use wire::message::{ServiceRequest, Unimplemented, UserauthFailure};

fn client_with(config: TransportConfig) -> Adversary<Memory> {
    let mut adversary = Adversary::new(Memory::server(config), Role::Client);
    adversary.exchange(&Offer::default());
    adversary.service();
    adversary
}

fn logged_in_with(config: TransportConfig) -> Adversary<Memory> {
    let mut adversary = client_with(config);
    adversary.login_password(b"user", PASSWORD);
    adversary
}

/// paramiko requests `ssh-userauth` before each login attempt.
#[test]
fn a_client_may_ask_for_authentication_before_each_attempt() {
    let mut adversary = client_with(TransportConfig::default());
    let answer = adversary.ask(b"user", "none", b"");
    assert!(UserauthFailure::decode(&answer).is_ok());
    assert!(adversary.say(&ServiceRequest {
        service: b"ssh-userauth"
    }));
    adversary.expect(6);
    adversary.login_password(b"user", PASSWORD);
    // But not after a login, and not without limit.
    assert!(!adversary.subject.has_ended());
    adversary.say(&ServiceRequest {
        service: b"ssh-userauth",
    });
    assert!(adversary.ends());

    let mut adversary = client_with(TransportConfig::default());
    let asked = (0..100_000)
        .take_while(|_| {
            adversary.say(&ServiceRequest {
                service: b"ssh-userauth",
            })
        })
        .count();
    assert!(asked < 5000, "{asked} requests for the same service");
}

#[test]
fn a_maximum_packet_beyond_all_packets_is_not_taken_at_its_word() {
    let mut adversary = logged_in_with(TransportConfig::default());
    adversary.open("session", 0, u32::MAX, u32::MAX);
    adversary.expect(91);
    let id = ChannelId(0);
    let space = adversary.subject.connection.channel_send_space(id);
    assert!(
        (32 * 1024..=wire::MAX_PACKET_BYTES - 4096).contains(&space),
        "{space} bytes in one message"
    );
    assert_eq!(adversary.subject.connection.channel_max_data(id), space);
    let data = vec![1; space];
    adversary.subject.command(|server| {
        let sent = server.channel_send_slice(id, Stream::Data, &data)?;
        assert_eq!(sent, data.len());
        Ok(())
    });
    assert_eq!(adversary.expect(94).len(), 9 + space);
}

/// Some servers answer global requests with UNIMPLEMENTED; this is a sign of life too.
#[test]
fn a_peer_that_answers_signs_of_life_by_unimplemented_is_alive() {
    let config = TransportConfig {
        alive_interval_ms: Some(1000),
        alive_count_max: 3,
        ..TransportConfig::default()
    };
    let mut adversary = logged_in_with(config);
    for round in 1..=300 {
        adversary.subject.wait_until(round * 1000);
        adversary.expect(80);
        assert!(
            adversary.say(&Unimplemented { sequence: 0 }),
            "{}",
            adversary.subject.verdict()
        );
    }
    assert!(!adversary.subject.has_ended());
}

/// RFC 4253 §11.1 has a language tag at the end; some peers leave it out, and the reason is still
/// read.
#[test]
fn a_goodbye_without_language_tag_is_understood() {
    let mut adversary = logged_in_with(TransportConfig::default());
    let mut bye = vec![1, 0, 0, 0, 11];
    bye.extend_from_slice(&[0, 0, 0, 3]);
    bye.extend_from_slice(b"bye");
    adversary.send(&bye);
    assert!(
        matches!(
            &adversary.subject.error,
            Some(proto::Error::Disconnected { reason: 11, description }) if description == "bye"
        ),
        "{:?}",
        adversary.subject.error
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
    let mut adversary = Adversary::new(Memory::server(config), Role::Client);
    adversary.exchange(&offer);
    adversary.service();
    adversary.login_password(b"user", PASSWORD);
    adversary.start_compression();
    let channel = adversary.open_session(0);
    let mut message = vec![94];
    message.extend_from_slice(&channel.to_be_bytes());
    message.extend_from_slice(&[0, 0, 0, 1, b'x']);
    adversary.send(&message);
    let data = adversary
        .subject
        .events
        .iter()
        .find_map(|event| match event {
            Event::ChannelData { data, .. } => Some(data.clone()),
            _ => None,
        })
        .expect("data");
    drop(std::mem::take(&mut adversary.subject.events));
    let owned = data.try_into_mut().expect("nobody else holds these bytes");
    assert!(owned.capacity() <= 64, "{} bytes kept", owned.capacity());
}
