//! Several sources on one connection.

use std::os::fd::OwnedFd;

use proto::{Stream, TransportConfig};

use crate::joined::{joined, settle};

/// A channel that always has data must not block the others.
#[test]
fn sources_that_are_always_ready_share_the_connection() {
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 3);
    let open = |path| {
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path);
        OwnedFd::from(file.unwrap())
    };
    let mut counts = Vec::new();
    for id in &ids {
        client
            .driver
            .attach_source(*id, Stream::Data, open("/dev/zero"))
            .unwrap();
        let (reader, writer) = sys::io::pipe().unwrap();
        sys::io::set_nonblocking(&reader, true).unwrap();
        server
            .driver
            .attach_sink(*id, Stream::Data, writer)
            .unwrap();
        counts.push((reader, 0_usize));
    }
    let mut room = vec![0; 1 << 20];
    for _ in 0..200 {
        client.step();
        server.step();
        for (reader, count) in &mut counts {
            while let Ok(more) = sys::io::read(&*reader, &mut room) {
                *count += more;
            }
        }
    }
    let counts: Vec<usize> = counts.iter().map(|(_, count)| *count).collect();
    let most = counts.iter().max().unwrap();
    let least = counts.iter().min().unwrap();
    assert!(least * 2 > *most, "shares of {counts:?} bytes");
}

/// Bulk data that fill the queue whenever it has room must not prevent a source from being read.
#[test]
fn a_keystroke_gets_its_turn_beside_bulk_that_never_pauses() {
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 2);
    let zero = OwnedFd::from(std::fs::File::open("/dev/zero").unwrap());
    client
        .driver
        .attach_source(ids[0], Stream::Data, zero)
        .unwrap();
    let (keys, typed) = sys::io::pipe().unwrap();
    client
        .driver
        .attach_source(ids[1], Stream::Data, keys)
        .unwrap();
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
    server
        .driver
        .attach_sink(ids[0], Stream::Data, OwnedFd::from(null.unwrap()))
        .unwrap();
    let (shown, screen) = sys::io::pipe().unwrap();
    sys::io::set_nonblocking(&shown, true).unwrap();
    server
        .driver
        .attach_sink(ids[1], Stream::Data, screen)
        .unwrap();
    for _ in 0..20 {
        client.step();
        server.step();
    }
    for key in b"keys" {
        sys::io::write(&typed, &[*key]).unwrap();
        let (_, before) = client.driver.wire_bytes();
        let mut room = [0; 8];
        while sys::io::read(&shown, &mut room).is_err() {
            client.step();
            server.step();
            let (_, sent) = client.driver.wire_bytes();
            // The queue and the sealed packets; nothing else may precede.
            assert!(
                sent - before < 4 << 20,
                "{} bytes went first",
                sent - before
            );
        }
        assert_eq!(room[0], *key);
    }
}

/// Bulk data that fill the window whenever the peer opens it must not prevent the other stream of
/// its channel from being read.
#[test]
fn a_word_on_stderr_gets_its_turn_behind_a_window_that_bulk_fills() {
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 1);
    let zero = OwnedFd::from(std::fs::File::open("/dev/zero").unwrap());
    let (errors, said) = sys::io::pipe().unwrap();
    let (bulk, output) = sys::io::pipe().unwrap();
    let (shown, screen) = sys::io::pipe().unwrap();
    for fd in [&bulk, &shown] {
        sys::io::set_nonblocking(fd, true).unwrap();
    }
    for (stream, fd) in [(Stream::Data, zero), (Stream::Stderr, errors)] {
        server.driver.attach_source(ids[0], stream, fd).unwrap();
    }
    for (stream, fd) in [(Stream::Data, output), (Stream::Stderr, screen)] {
        client.driver.attach_sink(ids[0], stream, fd).unwrap();
    }
    let mut room = vec![0; 1 << 20];
    for word in b"words" {
        settle(&mut client, &mut server);
        sys::io::write(&said, &[*word]).unwrap();
        server.step();
        let mut went_first = 0;
        while sys::io::read(&shown, &mut room).is_err() {
            while let Ok(more) = sys::io::read(&bulk, &mut room) {
                went_first += more;
            }
            client.step();
            server.step();
            // Data of a window of 2 MiB are in transit, and more when it opens by a quarter.
            assert!(went_first < 8 << 20, "{went_first} bytes went first");
        }
        assert_eq!(room[0], *word);
    }
}
