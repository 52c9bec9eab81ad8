//! Lies after login: channels, windows, requests and global requests, in memory.

use hostile::adversary::{Adversary, Offer};
use hostile::subject::{Memory, PASSWORD, Subject};
use proto::channel::Request;
use proto::{ChannelId, Event, Role, Stream, TransportConfig};
use wire::message::{
    ChannelClose, ChannelData, ChannelEof, ChannelExtendedData, ChannelFailure,
    ChannelOpenConfirmation, ChannelOpenFailure, ChannelRequest, ChannelSuccess,
    ChannelWindowAdjust, Encode, GlobalRequest, RequestFailure, RequestSuccess,
};
use wire::{Put, Rest};

/// The server still does its work for this peer.
fn still_serves(adversary: &mut Adversary<Memory>) {
    assert!(
        !adversary.subject.has_ended(),
        "{}",
        adversary.subject.verdict()
    );
    adversary.rest();
    let channel = adversary.open_session(77);
    adversary.request(channel, "shell", true, b"");
    adversary.expect(99);
}

#[test]
fn a_window_that_grows_past_its_type_ends_the_connection() {
    let mut adversary = Adversary::client();
    let channel = adversary.open_session(0);
    for _ in 0..2 {
        adversary.say(&ChannelWindowAdjust {
            recipient_channel: channel,
            bytes: u32::MAX,
        });
    }
    adversary.ends_with("window grows past");
}

#[test]
fn a_maximum_packet_of_nothing_is_refused_on_both_sides() {
    let mut adversary = Adversary::client();
    adversary.open("session", 3, 1 << 20, 0);
    let refusal = adversary.expect(92);
    assert_eq!(
        ChannelOpenFailure::decode(&refusal)
            .expect("a refusal")
            .recipient_channel,
        3
    );
    assert_eq!(adversary.subject.connection.channel_count(), 0);
    still_serves(&mut adversary);

    let mut adversary = Adversary::server();
    adversary
        .subject
        .command(|client| client.open_channel("session", b"").map(drop));
    adversary.confirm_session(0, 0);
    adversary.ends_with("maximum packet size of 0");
}

#[test]
fn a_window_of_nothing_is_waited_for_and_not_polled() {
    let mut adversary = Adversary::client();
    adversary.open("session", 0, 0, 32_768);
    adversary.expect(91);
    let id = ChannelId(0);
    assert_eq!(adversary.subject.connection.channel_send_space(id), 0);
    let sent = adversary
        .subject
        .connection
        .channel_send_slice(id, Stream::Data, b"data");
    assert!(!matches!(sent, Ok(1..)), "{sent:?}");
    assert!(adversary.rest().is_empty());
    adversary.say(&ChannelWindowAdjust {
        recipient_channel: 0,
        bytes: 1,
    });
    assert!(
        adversary
            .subject
            .saw(|event| matches!(event, Event::ChannelWritable(_)))
    );
    assert_eq!(adversary.subject.connection.channel_send_space(id), 1);
}

#[test]
fn data_beyond_the_window_or_the_maximum_packet_ends_the_connection() {
    let mut adversary = Adversary::client();
    let channel = adversary.open_session(0);
    adversary.say(&ChannelData {
        recipient_channel: channel,
        data: &vec![0; 64 * 1024 + 1],
    });
    adversary.ends_with("longer than the maximum packet");

    // The owner in memory consumes nothing, so no window adjust is sent.
    let mut adversary = Adversary::client();
    let channel = adversary.open_session(0);
    let data = vec![0; 32 * 1024];
    let mut sent = 0;
    while sent < 1000
        && adversary.say(&ChannelData {
            recipient_channel: channel,
            data: &data,
        })
    {
        sent += 1;
    }
    assert_eq!(sent * data.len(), 2 << 20, "one window and no more");
    adversary.ends_with("beyond the window");
}

#[test]
fn extended_data_of_unknown_types_is_dropped_and_its_window_given_back() {
    let mut adversary = Adversary::client();
    let channel = adversary.open_session(0);
    let data = vec![0; 32 * 1024];
    // Data of three windows: without window adjusts the connection would end.
    for code in (0..200).filter(|code| *code != 1) {
        assert!(adversary.say(&ChannelExtendedData {
            recipient_channel: channel,
            code,
            data: &data,
        }));
    }
    let adjusted = |payload: &Vec<u8>| payload.first() == Some(&93);
    assert!(adversary.rest().iter().any(adjusted));
    assert!(
        !adversary
            .subject
            .saw(|event| matches!(event, Event::ChannelData { .. }))
    );
    still_serves(&mut adversary);
}

#[test]
fn extended_data_counts_against_the_window() {
    let mut adversary = Adversary::client();
    let channel = adversary.open_session(0);
    let data = vec![0; 32 * 1024];
    let mut sent = 0;
    while sent < 1000
        && adversary.say(&ChannelExtendedData {
            recipient_channel: channel,
            code: 1,
            data: &data,
        })
    {
        sent += 1;
    }
    assert_eq!(sent * data.len(), 2 << 20);
    adversary.ends_with("beyond the window");
}

#[test]
fn data_of_no_bytes_does_nothing() {
    for mut adversary in [Adversary::client()] {
        let channel = adversary.open_session(0);
        for _ in 0..10_000 {
            adversary.say(&ChannelData {
                recipient_channel: channel,
                data: b"",
            });
        }
        assert!(
            !adversary
                .subject
                .saw(|event| matches!(event, Event::ChannelData { .. }))
        );
        still_serves(&mut adversary);
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
        let mut adversary = Adversary::server();
        adversary
            .subject
            .command(|client| client.open_channel("session", b"").map(drop));
        adversary.expect(90);
        adversary.send(&payload);
        adversary.ends_with("not confirmed");
    }
}

/// As paramiko sends them, whose threads close a channel and use it at the same time.
#[test]
fn messages_for_an_earlier_channel_of_the_number_have_no_effect() {
    for payload in channel_messages(0) {
        let mut adversary = Adversary::server();
        let open = |adversary: &mut Adversary<Memory>| {
            adversary
                .subject
                .command(|client| client.open_channel("session", b"").map(drop));
            adversary.expect(90);
        };
        open(&mut adversary);
        adversary.say(&ChannelOpenFailure {
            recipient_channel: 0,
            reason: 1,
            description: b"",
            language: b"",
        });
        open(&mut adversary);
        adversary.send(&payload);
        assert!(
            !adversary.subject.has_ended(),
            "{}",
            adversary.subject.verdict()
        );
    }
    for payload in channel_messages(0) {
        let mut adversary = Adversary::client();
        adversary.subject.refuses_channels = true;
        adversary.open("direct-tcpip", 0, 1 << 20, 32_768);
        adversary.expect(92);
        adversary.subject.refuses_channels = false;
        adversary.subject.ignores_channels = true;
        adversary.open("direct-tcpip", 1, 1 << 20, 32_768);
        adversary.send(&payload);
        assert!(
            !adversary.subject.has_ended(),
            "{}",
            adversary.subject.verdict()
        );
        let heard = |event: &Event| {
            matches!(
                event,
                Event::ChannelData { .. }
                    | Event::ChannelEof(_)
                    | Event::ChannelClosed(_)
                    | Event::ChannelRequest { .. }
            )
        };
        assert!(!adversary.subject.saw(heard));
    }
}

#[test]
fn a_channel_that_does_not_exist_takes_no_message() {
    for number in [0, 1, 77, u32::MAX] {
        for payload in channel_messages(number) {
            for mut adversary in [Adversary::client(), Adversary::server()] {
                adversary.send(&payload);
                adversary.ends_with("does not exist");
            }
        }
    }
}

#[test]
fn an_open_that_waits_for_its_answer_takes_no_data_and_holds_up_no_other_channel() {
    let waiting = || {
        let mut adversary = Adversary::client();
        adversary.subject.ignores_channels = true;
        adversary.open("session", 0, 1 << 20, 32_768);
        assert!(adversary.subject.error.is_none());
        adversary
    };
    let mut adversary = waiting();
    adversary.say(&ChannelData {
        recipient_channel: 0,
        data: b"x",
    });
    adversary.ends_with("not confirmed");
    assert!(
        !adversary
            .subject
            .saw(|event| matches!(event, Event::ChannelData { .. }))
    );
    let mut adversary = waiting();
    adversary.subject.ignores_channels = false;
    still_serves(&mut adversary);
}

#[test]
fn what_follows_a_refused_open_is_passed_over_and_reaches_no_other_channel() {
    let mut adversary = Adversary::client();
    adversary.subject.refuses_channels = true;
    adversary.open("session", 0, 1 << 20, 32_768);
    adversary.request(0, "exec", true, &[0, 0, 0, 1, b'x']);
    assert!(adversary.subject.error.is_none());
    assert!(
        !adversary
            .subject
            .saw(|event| matches!(event, Event::ChannelRequest { .. }))
    );
    adversary.subject.refuses_channels = false;
    still_serves(&mut adversary);
}

#[test]
fn answers_to_opens_that_were_not_sent_end_the_connection() {
    for mut adversary in [Adversary::client(), Adversary::server()] {
        adversary.say(&ChannelOpenConfirmation {
            recipient_channel: 0,
            sender_channel: 0,
            window: 1,
            max_packet: 1,
            fields: Rest(b""),
        });
        adversary.ends_with("not opened");
    }
    for mut adversary in [Adversary::client(), Adversary::server()] {
        adversary.say(&ChannelOpenFailure {
            recipient_channel: u32::MAX,
            reason: 1,
            description: b"",
            language: b"",
        });
        adversary.ends_with("not opened");
    }
}

#[test]
fn a_channel_is_confirmed_once() {
    let mut adversary = Adversary::server();
    adversary
        .subject
        .command(|client| client.open_channel("session", b"").map(drop));
    adversary.expect(90);
    let confirmation = ChannelOpenConfirmation {
        recipient_channel: 0,
        sender_channel: 0,
        window: 1 << 20,
        max_packet: 32_768,
        fields: Rest(b""),
    };
    adversary.say(&confirmation);
    assert!(adversary.subject.error.is_none());
    adversary.say(&confirmation);
    assert!(adversary.ends());
}

/// paramiko sends what one of its threads has begun after another's CLOSE.
#[test]
fn what_comes_behind_close_has_no_effect() {
    for payload in channel_messages(0) {
        let mut adversary = Adversary::client();
        let channel = adversary.open_session(0);
        assert_eq!(channel, 0);
        adversary.say(&ChannelClose {
            recipient_channel: channel,
        });
        adversary.expect(97);
        let before = adversary.subject.events.len();
        adversary.send(&payload);
        assert!(adversary.subject.error.is_none(), "{:?}", payload.first());
        assert_eq!(adversary.subject.events.len(), before);
        still_serves(&mut adversary);
    }
}

#[test]
fn data_behind_eof_is_refused() {
    let mut adversary = Adversary::client();
    let channel = adversary.open_session(0);
    adversary.say(&ChannelEof {
        recipient_channel: channel,
    });
    adversary.say(&ChannelData {
        recipient_channel: channel,
        data: b"x",
    });
    assert!(adversary.ends());
}

#[test]
fn answers_to_requests_that_were_not_sent_block_nothing() {
    let mut adversary = Adversary::client();
    let channel = adversary.open_session(0);
    for _ in 0..5_000 {
        adversary.say(&RequestSuccess {
            fields: Rest(b"anything"),
        });
        adversary.say(&RequestFailure {});
        adversary.say(&ChannelSuccess {
            recipient_channel: channel,
        });
        adversary.say(&ChannelFailure {
            recipient_channel: channel,
        });
    }
    assert!(
        !adversary
            .subject
            .saw(|event| matches!(event, Event::ChannelReply { .. }))
    );
    still_serves(&mut adversary);
}

#[test]
fn an_answer_of_the_wrong_kind_to_hostkeys_prove_is_refused() {
    let mut adversary = Adversary::server();
    adversary
        .subject
        .command(|client| client.prove_host_keys(&[b"key".to_vec()]));
    adversary.expect(80);
    adversary.say(&RequestSuccess {
        fields: Rest(&[0xff; 8]),
    });
    assert!(adversary.ends());
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
    let mut adversary = Adversary::client();
    let channel = adversary.open_session(0);
    adversary.request(channel, "pty-req", true, &modes(800));
    adversary.expect(99);
    still_serves(&mut adversary);
    let mut adversary = Adversary::client();
    let channel = adversary.open_session(0);
    adversary.request(channel, "pty-req", true, &modes(5_000));
    // A request that nobody knows, which servers refuse: the connection goes on without a terminal.
    assert!(adversary.subject.saw(|event| matches!(
        event,
        Event::ChannelRequest { request: Request::Unknown { name, .. }, .. } if name == "pty-req"
    )));
    still_serves(&mut adversary);
}

#[test]
fn a_window_change_of_any_size_is_only_a_number() {
    let mut adversary = Adversary::client();
    let channel = adversary.open_session(0);
    for size in [0, 1, u32::MAX] {
        let mut fields = Vec::new();
        for _ in 0..4 {
            fields.put_u32(size);
        }
        adversary.request(channel, "window-change", false, &fields);
        assert!(adversary.subject.saw(|event| matches!(
            event,
            Event::ChannelRequest { request: Request::WindowChange { columns, .. }, .. }
                if *columns == size
        )));
    }
    still_serves(&mut adversary);
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
        let mut adversary = Adversary::client();
        let channel = adversary.open_session(0);
        adversary.request(channel, name, true, fields);
        assert!(adversary.ends(), "{name} {fields:?}");
    }
    let mut adversary = Adversary::client();
    let channel = adversary.open_session(0);
    adversary.request(channel, &"n".repeat(257), true, b"");
    assert!(adversary.ends());
}

#[test]
fn channels_have_a_limit() {
    let config = TransportConfig {
        max_channels: 10,
        ..TransportConfig::default()
    };
    let mut adversary = Adversary::new(Memory::server(config), Role::Client);
    adversary.exchange(&Offer::default());
    adversary.service();
    adversary.login_password(b"user", PASSWORD);
    for number in 0..50 {
        adversary.open("session", number, 1 << 20, 32_768);
    }
    assert_eq!(adversary.subject.connection.channel_count(), 10);
    let answers = adversary.rest();
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
    let mut adversary = Adversary::client();
    for index in 0..5_000 {
        adversary.say(&GlobalRequest {
            name: format!("request-{index}@example.com").as_bytes(),
            want_reply: true,
            fields: Rest(b""),
        });
    }
    let refusals = adversary
        .rest()
        .iter()
        .filter(|each| each.first() == Some(&82))
        .count();
    assert_eq!(refusals, 5_000, "each gets its answer, in order");
    still_serves(&mut adversary);
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
    let mut adversary = Adversary::server();
    for _ in 0..10 {
        adversary.say(&GlobalRequest {
            name: b"hostkeys-00@openssh.com",
            want_reply: false,
            fields: Rest(&announce(3)),
        });
    }
    let seen = |event: &&Event| matches!(event, Event::HostKeysAnnounced(_));
    assert_eq!(adversary.subject.events.iter().filter(seen).count(), 1);
    for count in [65, 3000] {
        let mut adversary = Adversary::server();
        adversary.say(&GlobalRequest {
            name: b"hostkeys-00@openssh.com",
            want_reply: false,
            fields: Rest(&announce(count)),
        });
        assert!(
            !adversary
                .subject
                .saw(|event| matches!(event, Event::HostKeysAnnounced(_)))
        );
        assert!(
            adversary
                .subject
                .saw(|event| matches!(event, Event::TooManyHostKeysAnnounced)),
            "{count}"
        );
        still_serves(&mut adversary);
    }
}

#[test]
fn one_question_for_proofs_holds_a_bounded_number_of_keys_and_is_asked_one_by_one() {
    let mut fields = Vec::new();
    for _ in 0..65 {
        fields.put_string(b"key");
    }
    let mut adversary = Adversary::client();
    adversary.say(&GlobalRequest {
        name: b"hostkeys-prove-00@openssh.com",
        want_reply: true,
        fields: Rest(&fields),
    });
    adversary.ends_with("too many host keys");
}
