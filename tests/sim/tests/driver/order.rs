//! The owner's events, their order, and the state at each.

use std::io::Read;
use std::os::fd::OwnedFd;

use driver::Notice;
use proto::channel::Request;
use proto::{ChannelId, Event, Stream, TransportConfig};

use crate::joined::{joined, settle};

fn pipe() -> (std::fs::File, OwnedFd) {
    let (reader, writer) = sys::io::pipe().unwrap();
    (std::fs::File::from(reader), writer)
}

/// More packets in one read than one pass handles: none may wait until the peer sends again.
#[test]
fn a_burst_of_small_packets_is_delivered_without_another_word_of_the_peer() {
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 1);
    let id = ids[0];
    let (mut reader, writer) = pipe();
    server.driver.attach_sink(id, Stream::Data, writer).unwrap();
    let connection = client.driver.connection();
    let mut sent = Vec::new();
    for index in 0..3000_u32 {
        let byte = index.to_le_bytes()[0];
        assert_eq!(
            connection
                .channel_send_slice(id, Stream::Data, &[byte])
                .unwrap(),
            1
        );
        sent.push(byte);
    }
    connection.channel_eof(id).unwrap();
    client.driver.flush().unwrap();
    loop {
        match server.next() {
            Notice::SinkEnded { error: None, .. } => break,
            Notice::Event(Event::ChannelEof(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    let mut got = Vec::new();
    reader.read_to_end(&mut got).unwrap();
    assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
}

#[test]
fn the_end_of_the_socket_is_told_behind_everything_that_came_before_it() {
    let (mut client, mut server, _) = joined(&TransportConfig::default(), 0);
    let connection = client.driver.connection();
    for _ in 0..3 {
        connection.open_channel("session", b"").unwrap();
    }
    client.driver.flush().unwrap();
    drop(client);
    let mut told = Vec::new();
    loop {
        match server.next() {
            Notice::Event(Event::ChannelOpenRequest { channel, .. }) => {
                told.push(channel.0);
                server.driver.connection().accept_channel(channel).unwrap();
            }
            Notice::PeerClosed => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, [0, 1, 2]);
}

/// A channel's number is free after its owner has got the final event, not earlier.
#[test]
fn a_channel_exists_until_its_owner_has_heard_of_its_end() {
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 1);
    let id = ids[0];
    let connection = client.driver.connection();
    connection
        .channel_request(id, &Request::Shell, true)
        .unwrap();
    connection.channel_close(id).unwrap();
    client.driver.flush().unwrap();
    let Notice::Event(Event::ChannelRequest { channel, .. }) = server.next() else {
        panic!("the request comes first");
    };
    let connection = server.driver.connection();
    connection.channel_reply(channel, true).unwrap();
    let other = connection.open_channel("session", b"").unwrap();
    assert_ne!(other, channel, "the end of this channel is not told yet");
    let mut rest = Vec::new();
    for notice in server.step() {
        match notice {
            Notice::Event(Event::ChannelEof(id)) => rest.push(("eof", id)),
            Notice::Event(Event::ChannelClosed(id)) => rest.push(("closed", id)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(rest, [("eof", id), ("closed", id)]);
    assert_eq!(other, ChannelId(1));
}

/// `ssh host yes | head -1`: the reader is gone while a whole window of data waits for it.
#[test]
fn a_sink_that_fails_is_told_and_its_data_gives_the_window_back() {
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 1);
    let id = ids[0];
    let (reader, writer) = pipe();
    server.driver.attach_sink(id, Stream::Data, writer).unwrap();
    let zero = OwnedFd::from(std::fs::File::open("/dev/zero").unwrap());
    client.driver.attach_source(id, Stream::Data, zero).unwrap();
    settle(&mut client, &mut server);
    assert_eq!(client.driver.connection().channel_send_space(id), 0);
    drop(reader);
    let mut failed = false;
    let mut dropped = 0;
    while dropped < 16 << 20 {
        client.step();
        let before = dropped;
        let notices = server.step();
        let any = !notices.is_empty();
        for notice in notices {
            match notice {
                Notice::SinkEnded { error, .. } => {
                    let error = error.expect("the reader is gone");
                    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
                    assert!(!failed, "told twice");
                    failed = true;
                }
                Notice::Event(Event::ChannelData { data, .. }) => {
                    dropped += data.len();
                    server
                        .driver
                        .connection()
                        .channel_consumed(id, data.len())
                        .unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(
            any || dropped > before || client.driver.connection().channel_send_space(id) > 0,
            "the peer waits for a window that never opens, behind {dropped} bytes"
        );
    }
    assert!(failed);
}

/// The same if the owner removes the sink.
#[test]
fn a_sink_that_is_taken_away_gives_the_window_back() {
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 1);
    let id = ids[0];
    let (_reader, writer) = pipe();
    server.driver.attach_sink(id, Stream::Data, writer).unwrap();
    let zero = OwnedFd::from(std::fs::File::open("/dev/zero").unwrap());
    client.driver.attach_source(id, Stream::Data, zero).unwrap();
    settle(&mut client, &mut server);
    drop(server.driver.detach_sink(id, Stream::Data));
    server.step();
    client.step();
    let notices = server.step();
    assert!(
        notices
            .iter()
            .any(|notice| matches!(notice, Notice::Event(Event::ChannelData { .. }))),
        "no data behind the sink that is gone: {notices:?}"
    );
}

/// A transport that accepts no more data (ProxyCommand closed its input) ends the connection, even
/// if its output stays open and silent.
#[test]
fn a_peer_that_takes_nothing_more_is_gone_once_its_last_words_are_read() {
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 1);
    client
        .driver
        .connection()
        .channel_request(ids[0], &Request::Shell, false)
        .unwrap();
    client.driver.flush().unwrap();
    let socket = client.driver.socket().try_clone_to_owned().unwrap();
    rustix::net::shutdown(&socket, rustix::net::Shutdown::Read).unwrap();
    server.driver.connection().send_keepalive().unwrap();
    assert!(matches!(
        server.next(),
        Notice::Event(Event::ChannelRequest { .. })
    ));
    assert!(matches!(server.next(), Notice::PeerClosed));
}
