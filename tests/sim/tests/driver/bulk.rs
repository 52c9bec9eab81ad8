//! Bulk data in both directions at once, over pipes and files, with rekeys.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::thread;

use driver::Notice;
use proto::channel::Request;
use proto::{Event, Stream, TransportConfig};

use crate::joined::{End, halves, noise};

/// A file without a name that holds `bytes`, or is empty.
fn file(bytes: &[u8]) -> std::fs::File {
    let memory = rustix::fs::memfd_create("bulk", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut file = std::fs::File::from(memory);
    file.write_all(bytes).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    file
}

/// Runs one end until its source and its sink have ended and the channel is closed. Says in
/// which order it heard of the ends.
fn run(mut end: End, closes: bool) -> Vec<&'static str> {
    let mut order = Vec::new();
    loop {
        match end.next() {
            Notice::SourceEnded {
                channel,
                error: None,
                ..
            } => {
                order.push("source");
                end.driver.connection().channel_eof(channel).unwrap();
            }
            Notice::SinkEnded { error: None, .. } => order.push("sink"),
            Notice::Event(Event::ChannelEof(_)) => order.push("eof"),
            Notice::Event(Event::ChannelRequest { .. }) => order.push("status"),
            Notice::Event(Event::ChannelClosed(_)) => order.push("closed"),
            Notice::Event(Event::ChannelWritable(_)) => {}
            Notice::PeerClosed => order.push("peer closed"),
            other => panic!("{other:?}"),
        }
        let both = order.contains(&"source") && order.contains(&"sink");
        if closes && both && !order.contains(&"asked") {
            order.push("asked");
            let connection = end.driver.connection();
            let id = proto::ChannelId(0);
            connection
                .channel_request(id, &Request::ExitStatus { status: 0 }, false)
                .unwrap();
            connection.channel_close(id).unwrap();
        }
        if both && order.contains(&"closed") {
            end.driver.flush().unwrap();
            return order;
        }
    }
}

fn both_ways(config: &TransportConfig, up: Vec<u8>, down: Vec<u8>) {
    let (client, server, ids) = halves(config, 1);
    let id = ids[0];
    // Up: file to file. Down: pipe to a pipe whose reader dawdles.
    let mut stored = file(b"");
    let (source, feeder) = sys::io::pipe().unwrap();
    let (reader, sink) = sys::io::pipe().unwrap();
    let into = OwnedFd::from(stored.try_clone().unwrap());
    let mut client = client.end();
    client
        .driver
        .attach_source(id, Stream::Data, OwnedFd::from(file(&up)))
        .unwrap();
    client.driver.attach_sink(id, Stream::Data, sink).unwrap();
    thread::scope(|scope| {
        let down = &down;
        scope.spawn(move || {
            let mut feeder = std::fs::File::from(feeder);
            for (index, piece) in down.chunks(50_001).enumerate() {
                let (head, tail) = piece.split_at(index % piece.len());
                feeder.write_all(head).unwrap();
                feeder.write_all(tail).unwrap();
            }
        });
        let slow = scope.spawn(move || {
            let mut reader = std::fs::File::from(reader);
            let mut got = Vec::new();
            let mut room = vec![0; 10_000];
            loop {
                let wanted = 1 + got.len() % room.len();
                match reader.read(&mut room[..wanted]).unwrap() {
                    0 => return got,
                    count => got.extend_from_slice(&room[..count]),
                }
            }
        });
        let server = scope.spawn(move || {
            let mut server = server.end();
            server.driver.attach_sink(id, Stream::Data, into).unwrap();
            server
                .driver
                .attach_source(id, Stream::Data, source)
                .unwrap();
            run(server, true)
        });
        let heard = run(client, false);
        let server = server.join().unwrap();
        assert!(slow.join().unwrap() == *down, "downwards");
        let at = |list: &[&str], what| list.iter().position(|each| *each == what);
        assert!(at(&heard, "eof") < at(&heard, "closed"), "{heard:?}");
        assert!(at(&heard, "status") < at(&heard, "closed"), "{heard:?}");
        assert!(at(&server, "eof") <= at(&server, "closed"), "{server:?}");
    });
    let mut got = Vec::new();
    std::io::Seek::rewind(&mut stored).unwrap();
    stored.read_to_end(&mut got).unwrap();
    assert!(got == up, "upwards: {} of {}", got.len(), up.len());
}

#[test]
fn both_directions_at_once() {
    both_ways(
        &TransportConfig::default(),
        noise(48 << 20, 1),
        noise(24 << 20, 2),
    );
}

#[test]
fn both_directions_at_once_with_a_rekey_every_mebibyte_on_both_sides() {
    let config = TransportConfig {
        rekey_bytes: Some(1 << 20),
        ..TransportConfig::default()
    };
    both_ways(&config, noise(24 << 20, 3), noise(16 << 20, 4));
}

#[test]
fn both_directions_at_once_with_compression_and_rekeys() {
    let config = TransportConfig {
        rekey_bytes: Some(1 << 20),
        compression: vec!["zlib@openssh.com".into()],
        ..TransportConfig::default()
    };
    both_ways(&config, vec![b'a'; 24 << 20], noise(6 << 20, 5));
}
