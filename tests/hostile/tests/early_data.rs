//! Lies about data that follows CHANNEL_OPEN (docs/PROTOCOL.md, early-data), in memory.

use hostile::adversary::{Adversary, Offer};
use hostile::subject::{Memory, Subject};
use proto::{ChannelId, Event, Role, Stream, TransportConfig};
use wire::message::{
    ChannelClose, ChannelData, ChannelEof, ChannelExtendedData, ChannelOpen,
    ChannelOpenConfirmation, ChannelRequest, ChannelWindowAdjust, Encode, ExtInfo,
};
use wire::{Put, Rest, names};

/// Says that a recipient's number is the sender's.
const EARLY: u32 = 1 << 31;
const EARLY_BYTES: usize = 32 * 1024;

/// A server that announces early data of this size, and has let its subject in.
fn server(announced: &[u8]) -> Adversary<Memory> {
    let memory = Memory::client(TransportConfig::default());
    let mut adversary = Adversary::new(memory, Role::Server);
    adversary.exchange(&Offer::default());
    let mut extensions = Vec::new();
    extensions.put_string(names::EXT_EARLY_DATA.as_bytes());
    extensions.put_string(announced);
    adversary.say(&ExtInfo {
        count: 1,
        extensions: Rest(&extensions),
    });
    adversary.log_in_subject();
    adversary
}

fn say_data(adversary: &mut Adversary<Memory>, number: u32, data: &[u8]) -> bool {
    adversary.say(&ChannelData {
        recipient_channel: number,
        data,
    })
}

/// The data that the owner has got on a channel.
fn received(adversary: &Adversary<Memory>, id: u32) -> Vec<u8> {
    let mut all = Vec::new();
    for event in &adversary.subject.events {
        if let Event::ChannelData { channel, data, .. } = event
            && *channel == ChannelId(id)
        {
            all.extend_from_slice(data);
        }
    }
    all
}

fn goes_on(adversary: &mut Adversary<Memory>) {
    assert!(
        !adversary.subject.has_ended(),
        "{}",
        adversary.subject.verdict()
    );
}

#[test]
fn data_for_numbers_that_nobody_opened_reaches_nobody() {
    let mut adversary = Adversary::client();
    let theirs = adversary.open_session(5);
    // The subject's number of that channel is no number of the adversary's.
    for number in [theirs, 4] {
        say_data(&mut adversary, EARLY | number, b"stray");
        adversary.say(&ChannelEof {
            recipient_channel: EARLY | number,
        });
    }
    goes_on(&mut adversary);
    assert!(received(&adversary, theirs).is_empty());
    assert!(
        !adversary
            .subject
            .saw(|event| matches!(event, Event::ChannelEof(_)))
    );
    // Its own number reaches it, also after the confirmation.
    say_data(&mut adversary, EARLY | 5, b"own");
    say_data(&mut adversary, theirs, b" and by the other number");
    assert_eq!(received(&adversary, theirs), b"own and by the other number");
    for number in [6, EARLY - 1] {
        let mut adversary = Adversary::client();
        adversary.open_session(5);
        say_data(&mut adversary, EARLY | number, b"stray");
        adversary.ends_with("does not exist");
    }
}

#[test]
fn a_channel_that_the_subject_opened_is_not_reached_by_the_peers_number() {
    let mut adversary = server(b"32768");
    adversary
        .subject
        .command(|client| client.open_channel("session", b"").map(drop));
    adversary.confirm_session(3, 32_768);
    adversary.open("forwarded-tcpip", 4, 1 << 20, 32_768);
    say_data(&mut adversary, EARLY | 3, b"stray");
    goes_on(&mut adversary);
    assert!(received(&adversary, 0).is_empty());
}

#[test]
fn a_flood_before_the_answer_ends_the_connection_and_is_never_kept() {
    let mut adversary = Adversary::client();
    adversary.subject.ignores_channels = true;
    adversary.open("direct-tcpip", 9, 1 << 20, 32_768);
    say_data(&mut adversary, EARLY | 9, &vec![0; EARLY_BYTES]);
    goes_on(&mut adversary);
    say_data(&mut adversary, EARLY | 9, b"1");
    adversary.ends_with("more early data than announced");

    // The same in messages of one byte and of none.
    let mut adversary = Adversary::client();
    adversary.subject.ignores_channels = true;
    adversary.open("direct-tcpip", 9, 1 << 20, 32_768);
    for _ in 0..1000 {
        say_data(&mut adversary, EARLY | 9, b"");
        say_data(&mut adversary, EARLY | 9, b"x");
    }
    goes_on(&mut adversary);
    adversary
        .subject
        .command(|server| server.accept_channel(ChannelId(0)));
    assert_eq!(received(&adversary, 0), [b'x'; 1000]);
}

#[test]
fn data_after_a_refusal_is_dropped_however_much_it_is() {
    let mut adversary = Adversary::client();
    adversary.subject.refuses_channels = true;
    for number in 0..100 {
        adversary.open("direct-tcpip", number, 1 << 20, 32_768);
        adversary.expect(92);
        for _ in 0..3 {
            say_data(&mut adversary, EARLY | number, &vec![0; EARLY_BYTES]);
        }
        adversary.say(&ChannelEof {
            recipient_channel: EARLY | number,
        });
    }
    goes_on(&mut adversary);
    assert_eq!(adversary.subject.connection.channel_count(), 0);
    adversary.subject.refuses_channels = false;
    let channel = adversary.open_session(0);
    assert!(received(&adversary, channel).is_empty());
}

#[test]
fn only_requests_data_and_eof_may_be_addressed_early() {
    let messages: [fn(u32) -> Vec<u8>; 3] = [
        |recipient_channel| ChannelClose { recipient_channel }.encode(),
        |recipient_channel| {
            ChannelWindowAdjust {
                recipient_channel,
                bytes: 1,
            }
            .encode()
        },
        |recipient_channel| {
            ChannelExtendedData {
                recipient_channel,
                code: 1,
                data: b"x",
            }
            .encode()
        },
    ];
    for message in messages {
        let mut adversary = Adversary::client();
        adversary.subject.ignores_channels = true;
        adversary.open("direct-tcpip", 1, 1 << 20, 32_768);
        adversary.send(&message(EARLY | 1));
        adversary.ends_with("channel that does not exist");
    }
    // By the subject's number, which the adversary cannot know yet, data is no early data.
    let mut adversary = Adversary::client();
    adversary.subject.ignores_channels = true;
    adversary.open("direct-tcpip", 1, 1 << 20, 32_768);
    say_data(&mut adversary, 0, b"x");
    adversary.ends_with("not confirmed");
}

/// A request to a server before it has accepted the channel.
fn say_request(adversary: &mut Adversary<Memory>, command: &[u8]) {
    let mut fields = Vec::new();
    fields.put_string(command);
    adversary.say(&ChannelRequest {
        recipient_channel: EARLY | 1,
        name: b"exec",
        want_reply: true,
        fields: Rest(&fields),
    });
}

#[test]
fn early_requests_are_few_short_and_before_the_data() {
    let asks = || {
        let mut adversary = Adversary::client();
        adversary.subject.ignores_channels = true;
        adversary.open("session", 1, 1 << 20, 32_768);
        adversary
    };
    let mut many = asks();
    for _ in 0..512 {
        say_request(&mut many, b"x");
    }
    goes_on(&mut many);
    // The owner hears of none before it has accepted the channel.
    let heard = |event: &Event| matches!(event, Event::ChannelRequest { .. });
    assert!(!many.subject.saw(heard));
    say_request(&mut many, b"x");
    many.ends_with("more early requests than permitted");

    let mut long = asks();
    say_request(&mut long, &vec![b'x'; EARLY_BYTES]);
    long.ends_with("more early requests than permitted");

    let mut late = asks();
    say_data(&mut late, EARLY | 1, b"x");
    say_request(&mut late, b"x");
    late.ends_with("an early request after early data");

    // Of a refused channel they have no effect.
    let mut refused = Adversary::client();
    refused.subject.refuses_channels = true;
    refused.open("session", 1, 1 << 20, 32_768);
    refused.expect(92);
    say_request(&mut refused, b"x");
    goes_on(&mut refused);
    assert!(!refused.subject.saw(heard));
}

#[test]
fn early_data_after_early_eof_ends_the_connection() {
    let mut adversary = Adversary::client();
    adversary.subject.ignores_channels = true;
    adversary.open("direct-tcpip", 1, 1 << 20, 32_768);
    for _ in 0..2 {
        adversary.say(&ChannelEof {
            recipient_channel: EARLY | 1,
        });
    }
    goes_on(&mut adversary);
    say_data(&mut adversary, EARLY | 1, b"x");
    adversary.ends_with("data after EOF");
}

#[test]
fn a_number_that_is_used_twice_names_the_newer_channel() {
    let mut adversary = Adversary::client();
    adversary.subject.ignores_channels = true;
    adversary.open("direct-tcpip", 1, 1 << 20, 32_768);
    say_data(&mut adversary, EARLY | 1, b"first");
    adversary.open("direct-tcpip", 1, 1 << 20, 32_768);
    say_data(&mut adversary, EARLY | 1, b"second");
    let subject = &mut adversary.subject;
    subject.command(|server| server.reject_channel(ChannelId(0), 1, "no"));
    say_data(&mut adversary, EARLY | 1, b" again");
    let subject = &mut adversary.subject;
    subject.command(|server| server.accept_channel(ChannelId(1)));
    goes_on(&mut adversary);
    assert_eq!(received(&adversary, 1), b"second again");
}

#[test]
fn a_servers_announcement_is_bounded_and_not_believed() {
    for (announced, sent) in [
        (&b"32768"[..], EARLY_BYTES),
        (b"4294967295", EARLY_BYTES),
        (b"100", 100),
        (b"0", 0),
        (b"4294967296", 0),
        (b"-1", 0),
        (b"", 0),
        (b"\xff", 0),
    ] {
        let mut adversary = server(announced);
        let client = &mut adversary.subject.connection;
        let id = client.open_channel_with_data("direct-tcpip", b"").unwrap();
        assert_eq!(client.channel_takes_early_data(id), sent > 0);
        let data = vec![0; 2 * EARLY_BYTES];
        let taken = client.channel_send_slice(id, Stream::Data, &data).unwrap();
        assert_eq!(taken, sent);
    }
    // A first window that is smaller than the announced bytes is a lie.
    let mut adversary = server(b"32768");
    adversary.subject.command(|client| {
        let id = client.open_channel_with_data("direct-tcpip", b"")?;
        client
            .channel_send_slice(id, Stream::Data, &[0; 1001])
            .map(drop)
    });
    let open = adversary.expect(90);
    let number = ChannelOpen::decode(&open).unwrap().sender_channel;
    adversary.expect(94);
    adversary.say(&ChannelOpenConfirmation {
        recipient_channel: number,
        sender_channel: 0,
        window: 1000,
        max_packet: 32_768,
        fields: Rest(b""),
    });
    adversary.ends_with("first window smaller");
}
