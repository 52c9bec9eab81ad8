//! Bulk data in both directions at once, over pipes and files, with rekeys.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;

use driver::{CryptoThreads, DriverError, LaneTerms, Notice};
use proto::channel::Request;
use proto::{Error, Event, Stream, TransportConfig};

use crate::joined::{End, halves};
use sim::noise;

/// A file without a name that contains `bytes`, or is empty.
fn file(bytes: &[u8]) -> std::fs::File {
    let memory = rustix::fs::memfd_create("bulk", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut file = std::fs::File::from(memory);
    file.write_all(bytes).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    file
}

/// Runs one end until its source and its sink have ended and the channel is closed. Returns the
/// order of the ends.
fn run(end: &mut End, closes: bool) -> Vec<&'static str> {
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

/// Every batch goes to one of two workers.
fn workers() -> LaneTerms {
    LaneTerms {
        cores: Some(3),
        bulk_bytes: 0,
        share_bytes: 1,
        ..LaneTerms::new(CryptoThreads::AtMost(3))
    }
}

/// Returns the runs that were compressed in parallel.
fn both_ways(config: &TransportConfig, terms: LaneTerms, up: Vec<u8>, down: Vec<u8>) -> u64 {
    let (client, server, ids) = halves(config, 1);
    let id = ids[0];
    // Up: file to file. Down: pipe to a pipe with a slow reader.
    let mut stored = file(b"");
    let (source, feeder) = sys::io::pipe().unwrap();
    let (reader, sink) = sys::io::pipe().unwrap();
    let into = OwnedFd::from(stored.try_clone().unwrap());
    let mut client = client.end();
    client.driver.set_lane_terms(terms);
    client
        .driver
        .attach_source(id, Stream::Data, OwnedFd::from(file(&up)))
        .unwrap();
    client.driver.attach_sink(id, Stream::Data, sink).unwrap();
    let mut compressed = 0;
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
            server.driver.set_lane_terms(terms);
            server.driver.attach_sink(id, Stream::Data, into).unwrap();
            server
                .driver
                .attach_source(id, Stream::Data, source)
                .unwrap();
            (run(&mut server, true), server.driver.lane_report())
        });
        let heard = run(&mut client, false);
        // A key exchange may delay its CLOSE: it works until the server is gone.
        while !heard.contains(&"peer closed")
            && !matches!(client.driver.next(), Err(_) | Ok(Notice::PeerClosed))
        {}
        let (server, there) = server.join().unwrap();
        for report in [client.driver.lane_report(), there] {
            compressed += report.compressed.helped + report.compressed.by_workers;
            let given = report.sealed.helped + report.sealed.by_workers;
            let got = report.opened.helped + report.opened.by_workers;
            let wanted = terms.threads != CryptoThreads::AtMost(1);
            assert_eq!(
                (report.workers > 0, given > 0, got > 0),
                (wanted, wanted, wanted)
            );
        }
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
    compressed
}

const ALONE: CryptoThreads = CryptoThreads::AtMost(1);

#[test]
fn both_directions_at_once() {
    both_ways(
        &TransportConfig::default(),
        LaneTerms::new(ALONE),
        noise(48 << 20, 1),
        noise(24 << 20, 2),
    );
}

/// Packets with such a MAC are opened together, so reading continues first.
#[test]
fn both_directions_at_once_with_a_mac_that_gains_by_many() {
    let config = TransportConfig {
        ciphers: vec!["aes128-ctr".into()],
        macs: vec!["hmac-sha2-256-etm@openssh.com".into()],
        ..TransportConfig::default()
    };
    let terms = LaneTerms::new(ALONE);
    both_ways(&config, terms, noise(24 << 20, 11), noise(12 << 20, 12));
}

#[test]
fn both_directions_at_once_with_a_rekey_every_mebibyte_on_both_sides() {
    let config = TransportConfig {
        rekey_bytes: Some(1 << 20),
        ..TransportConfig::default()
    };
    let terms = LaneTerms::new(ALONE);
    both_ways(&config, terms, noise(24 << 20, 3), noise(16 << 20, 4));
}

#[test]
fn both_directions_at_once_with_compression_and_rekeys() {
    for compression in ["zlib@openssh.com", "zstd2@fulmar.invalid"] {
        let config = TransportConfig {
            rekey_bytes: Some(1 << 20),
            compression: vec![compression.into()],
            ..TransportConfig::default()
        };
        let terms = LaneTerms::new(ALONE);
        both_ways(&config, terms, vec![b'a'; 24 << 20], noise(6 << 20, 5));
    }
}

#[test]
fn both_directions_at_once_with_workers() {
    for (cipher, mac) in [
        ("aes128-gcm@openssh.com", "hmac-sha2-256"),
        ("chacha20-poly1305@openssh.com", "hmac-sha2-256"),
        ("aes256-ctr", "hmac-sha2-256-etm@openssh.com"),
        ("aes128-ctr", "umac-128@openssh.com"),
    ] {
        let config = TransportConfig {
            ciphers: vec![cipher.into()],
            macs: vec![mac.into()],
            ..TransportConfig::default()
        };
        both_ways(&config, workers(), noise(20 << 20, 6), noise(10 << 20, 7));
    }
}

/// During bulk transfers: packets in a lane keep the keys with which they arrived.
#[test]
fn both_directions_at_once_with_workers_and_a_rekey_every_mebibyte_on_both_sides() {
    for compression in ["none", "zlib@openssh.com", "zstd2@fulmar.invalid"] {
        let config = TransportConfig {
            rekey_bytes: Some(1 << 20),
            compression: vec![compression.into()],
            ..TransportConfig::default()
        };
        both_ways(&config, workers(), noise(12 << 20, 8), noise(8 << 20, 9));
    }
}

/// Bytes that compress to about one half.
fn halved(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = noise(len, seed);
    for byte in &mut bytes {
        *byte = b'a' + (*byte & 15);
    }
    bytes
}

/// Runs are compressed in parallel, and each stream ends with its keys.
#[test]
fn runs_compressed_by_workers_with_a_rekey_every_mebibyte_on_both_sides() {
    for rekey_bytes in [Some(1 << 20), None] {
        let config = TransportConfig {
            rekey_bytes,
            compression: vec!["zlib@openssh.com".into()],
            ..TransportConfig::default()
        };
        let compressed = both_ways(
            &config,
            workers(),
            halved(12 << 20, 21),
            halved(6 << 20, 22),
        );
        assert!(compressed > 10, "{compressed} runs");
    }
}

/// Forwards bytes and changes one of them.
fn damage(from: UnixStream, mut to: UnixStream, at: usize) {
    let (mut from, mut room) = (from, vec![0; 100_000]);
    let mut passed = 0;
    loop {
        let count = match from.read(&mut room) {
            Ok(count) if count > 0 => count,
            _ => return,
        };
        let bytes = &mut room[..count];
        if let Some(byte) = at.checked_sub(passed).and_then(|at| bytes.get_mut(at)) {
            *byte ^= 1;
        }
        passed += count;
        if to.write_all(bytes).is_err() {
            return;
        }
    }
}

/// Data before the damage are delivered, later data are not.
#[test]
fn a_byte_that_changes_on_the_way_ends_the_connection_behind_what_was_good() {
    for terms in [LaneTerms::new(ALONE), workers()] {
        let (client, server, ids) = halves(&TransportConfig::default(), 1);
        let (mut client, client_far) = client.apart();
        let (mut server, server_far) = server.apart();
        for end in [&mut client, &mut server] {
            end.driver.set_lane_terms(terms);
        }
        let sent = noise(8 << 20, 10);
        let source = OwnedFd::from(file(&sent));
        client
            .driver
            .attach_source(ids[0], Stream::Data, source)
            .unwrap();
        let mut stored = file(b"");
        let sink = OwnedFd::from(stored.try_clone().unwrap());
        server
            .driver
            .attach_sink(ids[0], Stream::Data, sink)
            .unwrap();
        thread::scope(|scope| {
            let up = [&client_far, &server_far].map(|end| end.try_clone().unwrap());
            let down = [&server_far, &client_far].map(|end| end.try_clone().unwrap());
            scope.spawn(move || {
                let [from, to] = up;
                damage(from, to, 5_000_000);
            });
            scope.spawn(move || {
                let [from, to] = down;
                damage(from, to, usize::MAX);
            });
            scope.spawn(move || {
                // Ends when the server hangs up.
                while !matches!(client.driver.next(), Err(_) | Ok(Notice::PeerClosed)) {}
            });
            let error = loop {
                match server.driver.next() {
                    Err(error) => break error,
                    Ok(Notice::Event(Event::ChannelEof(_)) | Notice::PeerClosed) => {
                        panic!("the damage went unseen")
                    }
                    Ok(_) => {}
                }
            };
            assert!(
                matches!(error, DriverError::Proto(Error::IntegrityFailed)),
                "{error:?}"
            );
            drop(server);
            for end in [&client_far, &server_far] {
                end.shutdown(std::net::Shutdown::Both).unwrap();
            }
        });
        let mut got = Vec::new();
        std::io::Seek::rewind(&mut stored).unwrap();
        stored.read_to_end(&mut got).unwrap();
        assert!(sent.starts_with(&got), "{} bytes", got.len());
        assert!((4_000_000..5_000_000).contains(&got.len()), "{}", got.len());
    }
}
