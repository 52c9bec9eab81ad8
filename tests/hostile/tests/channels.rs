//! Lies after login: channels, windows, requests and global requests, in memory.

use hostile::liar::{Liar, Offer};
use hostile::victim::{Memory, PASSWORD, Victim};
use proto::channel::Request;
use proto::{ChannelId, Event, Role, Stream, TransportConfig};
use wire::message::{
    ChannelClose, ChannelData, ChannelEof, ChannelExtendedData, ChannelFailure,
    ChannelOpenConfirmation, ChannelOpenFailure, ChannelRequest, ChannelSuccess,
    ChannelWindowAdjust, Encode, GlobalRequest, RequestFailure, RequestSuccess, UserauthSuccess,
};
use wire::{Put, Rest};

fn client() -> Liar<Memory> {
    let mut liar = Liar::new(Memory::server(TransportConfig::default()), Role::Client);
    liar.exchange(&Offer::default());
    liar.service();
    liar.login_password(b"user", PASSWORD);
    liar
}

fn server() -> Liar<Memory> {
    let mut liar = Liar::new(Memory::client(TransportConfig::default()), Role::Server);
    liar.exchange(&Offer::default());
    liar.accept_service();
    liar.victim
        .command(|client| client.auth_password(b"user", PASSWORD));
    liar.expect(50);
    liar.say(&UserauthSuccess {});
    liar
}

/// The server still does its work for this peer.
fn still_serves(liar: &mut Liar<Memory>) {
    assert!(!liar.victim.has_ended(), "{}", liar.victim.verdict());
    liar.rest();
    let channel = liar.open_session(77);
    liar.request(channel, "shell", true, b"");
    liar.expect(99);
}

#[test]
fn a_window_that_grows_past_its_type_ends_the_connection() {
    let mut liar = client();
    let channel = liar.open_session(0);
    for _ in 0..2 {
        liar.say(&ChannelWindowAdjust {
            recipient_channel: channel,
            bytes: u32::MAX,
        });
    }
    liar.ends_with("window grows past");
}

#[test]
fn a_maximum_packet_of_nothing_is_refused_on_both_sides() {
    let mut liar = client();
    liar.open("session", 3, 1 << 20, 0);
    let refusal = liar.expect(92);
    assert_eq!(
        ChannelOpenFailure::decode(&refusal)
            .expect("a refusal")
            .recipient_channel,
        3
    );
    assert_eq!(liar.victim.connection.channel_count(), 0);
    still_serves(&mut liar);

    let mut liar = server();
    liar.victim
        .command(|client| client.open_channel("session", b"").map(drop));
    liar.expect(90);
    liar.say(&ChannelOpenConfirmation {
        recipient_channel: 0,
        sender_channel: 0,
        window: 1 << 20,
        max_packet: 0,
        fields: Rest(b""),
    });
    liar.ends_with("maximum packet size of 0");
}

#[test]
fn a_window_of_nothing_is_waited_for_and_not_polled() {
    let mut liar = client();
    liar.open("session", 0, 0, 32_768);
    liar.expect(91);
    let id = ChannelId(0);
    assert_eq!(liar.victim.connection.channel_send_space(id), 0);
    let sent = liar
        .victim
        .connection
        .channel_send_slice(id, Stream::Data, b"data");
    assert!(!matches!(sent, Ok(1..)), "{sent:?}");
    assert!(liar.rest().is_empty());
    liar.say(&ChannelWindowAdjust {
        recipient_channel: 0,
        bytes: 1,
    });
    assert!(
        liar.victim
            .saw(|event| matches!(event, Event::ChannelWritable(_)))
    );
    assert_eq!(liar.victim.connection.channel_send_space(id), 1);
}

#[test]
fn data_beyond_the_window_or_the_maximum_packet_ends_the_connection() {
    let mut liar = client();
    let channel = liar.open_session(0);
    liar.say(&ChannelData {
        recipient_channel: channel,
        data: &vec![0; 64 * 1024 + 1],
    });
    liar.ends_with("longer than the maximum packet");

    // The owner in memory consumes nothing, so no window adjust is sent.
    let mut liar = client();
    let channel = liar.open_session(0);
    let data = vec![0; 32 * 1024];
    let mut sent = 0;
    while sent < 1000
        && liar.say(&ChannelData {
            recipient_channel: channel,
            data: &data,
        })
    {
        sent += 1;
    }
    assert_eq!(sent * data.len(), 2 << 20, "one window and no more");
    liar.ends_with("beyond the window");
}

#[test]
fn extended_data_of_unknown_types_is_dropped_and_its_window_given_back() {
    let mut liar = client();
    let channel = liar.open_session(0);
    let data = vec![0; 32 * 1024];
    // Data of three windows: without window adjusts the connection would end.
    for code in (0..200).filter(|code| *code != 1) {
        assert!(liar.say(&ChannelExtendedData {
            recipient_channel: channel,
            code,
            data: &data,
        }));
    }
    let adjusted = |payload: &Vec<u8>| payload.first() == Some(&93);
    assert!(liar.rest().iter().any(adjusted));
    assert!(
        !liar
            .victim
            .saw(|event| matches!(event, Event::ChannelData { .. }))
    );
    still_serves(&mut liar);
}

#[test]
fn extended_data_counts_against_the_window() {
    let mut liar = client();
    let channel = liar.open_session(0);
    let data = vec![0; 32 * 1024];
    let mut sent = 0;
    while sent < 1000
        && liar.say(&ChannelExtendedData {
            recipient_channel: channel,
            code: 1,
            data: &data,
        })
    {
        sent += 1;
    }
    assert_eq!(sent * data.len(), 2 << 20);
    liar.ends_with("beyond the window");
}

#[test]
fn data_of_no_bytes_does_nothing() {
    for mut liar in [client()] {
        let channel = liar.open_session(0);
        for _ in 0..10_000 {
            liar.say(&ChannelData {
                recipient_channel: channel,
                data: b"",
            });
        }
        assert!(
            !liar
                .victim
                .saw(|event| matches!(event, Event::ChannelData { .. }))
        );
        still_serves(&mut liar);
    }
}

fn channel_messages(channel: u32) -> Vec<Vec<u8>> {
    vec![
        ChannelWindowAdjust {
            recipient_channel: channel,
            bytes: 1,
        }
        .encode(),
        ChannelData {
            recipient_channel: channel,
            data: b"x",
        }
        .encode(),
        ChannelExtendedData {
            recipient_channel: channel,
            code: 1,
            data: b"x",
        }
        .encode(),
        ChannelEof {
            recipient_channel: channel,
        }
        .encode(),
        ChannelClose {
            recipient_channel: channel,
        }
        .encode(),
        ChannelRequest {
            recipient_channel: channel,
            name: b"exit-status",
            want_reply: false,
            fields: Rest(&[0; 4]),
        }
        .encode(),
        ChannelSuccess {
            recipient_channel: channel,
        }
        .encode(),
        ChannelFailure {
            recipient_channel: channel,
        }
        .encode(),
    ]
}

#[test]
fn a_channel_that_is_not_confirmed_takes_no_message() {
    for payload in channel_messages(0) {
        let mut liar = server();
        liar.victim
            .command(|client| client.open_channel("session", b"").map(drop));
        liar.expect(90);
        liar.send(&payload);
        liar.ends_with("not confirmed");
    }
}

#[test]
fn a_channel_that_does_not_exist_takes_no_message() {
    for number in [0, 1, 77, u32::MAX] {
        for payload in channel_messages(number) {
            for mut liar in [client(), server()] {
                liar.send(&payload);
                liar.ends_with("does not exist");
            }
        }
    }
}

#[test]
fn an_open_that_waits_for_its_answer_takes_no_data_and_holds_up_no_other_channel() {
    let waiting = || {
        let mut liar = client();
        liar.victim.ignores_channels = true;
        liar.open("session", 0, 1 << 20, 32_768);
        assert!(liar.victim.error.is_none());
        liar
    };
    let mut liar = waiting();
    liar.say(&ChannelData {
        recipient_channel: 0,
        data: b"x",
    });
    liar.ends_with("not confirmed");
    assert!(
        !liar
            .victim
            .saw(|event| matches!(event, Event::ChannelData { .. }))
    );
    let mut liar = waiting();
    liar.victim.ignores_channels = false;
    still_serves(&mut liar);
}

#[test]
fn what_follows_a_refused_open_is_passed_over_and_reaches_no_other_channel() {
    let mut liar = client();
    liar.victim.refuses_channels = true;
    liar.open("session", 0, 1 << 20, 32_768);
    liar.request(0, "exec", true, &[0, 0, 0, 1, b'x']);
    assert!(liar.victim.error.is_none());
    assert!(
        !liar
            .victim
            .saw(|event| matches!(event, Event::ChannelRequest { .. }))
    );
    liar.victim.refuses_channels = false;
    still_serves(&mut liar);
}

#[test]
fn answers_to_opens_that_were_not_sent_end_the_connection() {
    for mut liar in [client(), server()] {
        liar.say(&ChannelOpenConfirmation {
            recipient_channel: 0,
            sender_channel: 0,
            window: 1,
            max_packet: 1,
            fields: Rest(b""),
        });
        liar.ends_with("not opened");
    }
    for mut liar in [client(), server()] {
        liar.say(&ChannelOpenFailure {
            recipient_channel: u32::MAX,
            reason: 1,
            description: b"",
            language: b"",
        });
        liar.ends_with("not opened");
    }
}

#[test]
fn a_channel_is_confirmed_once() {
    let mut liar = server();
    liar.victim
        .command(|client| client.open_channel("session", b"").map(drop));
    liar.expect(90);
    let confirmation = ChannelOpenConfirmation {
        recipient_channel: 0,
        sender_channel: 0,
        window: 1 << 20,
        max_packet: 32_768,
        fields: Rest(b""),
    };
    liar.say(&confirmation);
    assert!(liar.victim.error.is_none());
    liar.say(&confirmation);
    assert!(liar.ends());
}

#[test]
fn nothing_comes_behind_close() {
    for payload in channel_messages(0) {
        let mut liar = client();
        let channel = liar.open_session(0);
        assert_eq!(channel, 0);
        liar.say(&ChannelClose {
            recipient_channel: channel,
        });
        liar.expect(97);
        liar.send(&payload);
        assert!(liar.ends(), "{:?}", payload.first());
    }
}

#[test]
fn data_behind_eof_is_refused() {
    let mut liar = client();
    let channel = liar.open_session(0);
    liar.say(&ChannelEof {
        recipient_channel: channel,
    });
    liar.say(&ChannelData {
        recipient_channel: channel,
        data: b"x",
    });
    assert!(liar.ends());
}

#[test]
fn answers_to_requests_that_were_not_sent_block_nothing() {
    let mut liar = client();
    let channel = liar.open_session(0);
    for _ in 0..5_000 {
        liar.say(&RequestSuccess {
            fields: Rest(b"anything"),
        });
        liar.say(&RequestFailure {});
        liar.say(&ChannelSuccess {
            recipient_channel: channel,
        });
        liar.say(&ChannelFailure {
            recipient_channel: channel,
        });
    }
    assert!(
        !liar
            .victim
            .saw(|event| matches!(event, Event::ChannelReply { .. }))
    );
    still_serves(&mut liar);
}

#[test]
fn an_answer_of_the_wrong_kind_to_hostkeys_prove_is_refused() {
    let mut liar = server();
    liar.victim
        .command(|client| client.prove_host_keys(&[b"key".to_vec()]));
    liar.expect(80);
    liar.say(&RequestSuccess {
        fields: Rest(&[0xff; 8]),
    });
    assert!(liar.ends());
}

#[test]
fn a_terminal_with_thousands_of_modes_is_refused_and_many_pass_as_bytes() {
    let modes = |count: usize| {
        let mut modes = Vec::new();
        for index in 0..count {
            modes.put_u8(u8::try_from(1 + index % 159).unwrap_or(1));
            modes.put_u32(1);
        }
        modes.put_u8(0);
        let mut fields = Vec::new();
        fields.put_string(b"xterm");
        for size in [u32::MAX, u32::MAX, u32::MAX, 0] {
            fields.put_u32(size);
        }
        fields.put_string(&modes);
        fields
    };
    let mut liar = client();
    let channel = liar.open_session(0);
    liar.request(channel, "pty-req", true, &modes(800));
    liar.expect(99);
    still_serves(&mut liar);
    let mut liar = client();
    let channel = liar.open_session(0);
    liar.request(channel, "pty-req", true, &modes(5_000));
    assert!(liar.ends());
}

#[test]
fn a_window_change_of_any_size_is_only_a_number() {
    let mut liar = client();
    let channel = liar.open_session(0);
    for size in [0, 1, u32::MAX] {
        let mut fields = Vec::new();
        for _ in 0..4 {
            fields.put_u32(size);
        }
        liar.request(channel, "window-change", false, &fields);
        assert!(liar.victim.saw(|event| matches!(
            event,
            Event::ChannelRequest { request: Request::WindowChange { columns, .. }, .. }
                if *columns == size
        )));
    }
    still_serves(&mut liar);
}

#[test]
fn requests_with_bytes_missing_or_left_over_end_the_connection() {
    for (name, fields) in [
        ("exec", &b""[..]),
        ("exec", b"\0\0\0\x05abc"),
        ("exec", b"\xff\xff\xff\xffabc"),
        ("shell", b"more"),
        ("pty-req", b"\0\0\0\x01x"),
        ("env", b"\0\0\0\x01x"),
        ("window-change", &[0; 15]),
        ("signal", b"\0\0\0\xff"),
        ("exit-status", &[0; 5]),
    ] {
        let mut liar = client();
        let channel = liar.open_session(0);
        liar.request(channel, name, true, fields);
        assert!(liar.ends(), "{name} {fields:?}");
    }
    let mut liar = client();
    let channel = liar.open_session(0);
    liar.request(channel, &"n".repeat(257), true, b"");
    assert!(liar.ends());
}

#[test]
fn channels_have_a_limit() {
    let config = TransportConfig {
        max_channels: 10,
        ..TransportConfig::default()
    };
    let mut liar = Liar::new(Memory::server(config), Role::Client);
    liar.exchange(&Offer::default());
    liar.service();
    liar.login_password(b"user", PASSWORD);
    for number in 0..50 {
        liar.open("session", number, 1 << 20, 32_768);
    }
    assert_eq!(liar.victim.connection.channel_count(), 10);
    let answers = liar.rest();
    let of = |number: u8| {
        answers
            .iter()
            .filter(|each| each.first() == Some(&number))
            .count()
    };
    assert_eq!((of(91), of(92)), (10, 40));
}

#[test]
fn requests_that_want_an_answer_wait_in_bounded_number() {
    // In memory the owner answers at once, so this counts those of a channel whose owner does not;
    // the connection itself refuses global requests of unknown name.
    let mut liar = client();
    for index in 0..5_000 {
        liar.say(&GlobalRequest {
            name: format!("request-{index}@example.com").as_bytes(),
            want_reply: true,
            fields: Rest(b""),
        });
    }
    let refusals = liar
        .rest()
        .iter()
        .filter(|each| each.first() == Some(&82))
        .count();
    assert_eq!(refusals, 5_000, "each gets its answer, in order");
    still_serves(&mut liar);
}

#[test]
fn host_keys_are_announced_once_and_in_bounded_number() {
    let announce = |count: usize| {
        let mut fields = Vec::new();
        for index in 0..count {
            fields.put_string(format!("key {index}").as_bytes());
        }
        fields
    };
    let mut liar = server();
    for _ in 0..10 {
        liar.say(&GlobalRequest {
            name: b"hostkeys-00@openssh.com",
            want_reply: false,
            fields: Rest(&announce(3)),
        });
    }
    let seen = |event: &&Event| matches!(event, Event::HostKeysAnnounced(_));
    assert_eq!(liar.victim.events.iter().filter(seen).count(), 1);
    for count in [65, 3000] {
        let mut liar = server();
        liar.say(&GlobalRequest {
            name: b"hostkeys-00@openssh.com",
            want_reply: false,
            fields: Rest(&announce(count)),
        });
        assert!(
            !liar
                .victim
                .saw(|event| matches!(event, Event::HostKeysAnnounced(_)))
        );
        assert!(
            liar.victim
                .saw(|event| matches!(event, Event::TooManyHostKeysAnnounced)),
            "{count}"
        );
        still_serves(&mut liar);
    }
}

#[test]
fn one_question_for_proofs_holds_a_bounded_number_of_keys_and_is_asked_one_by_one() {
    let mut fields = Vec::new();
    for _ in 0..65 {
        fields.put_string(b"key");
    }
    let mut liar = client();
    liar.say(&GlobalRequest {
        name: b"hostkeys-prove-00@openssh.com",
        want_reply: true,
        fields: Rest(&fields),
    });
    liar.ends_with("too many host keys");
}
