//! Several sources on one connection.

use std::os::fd::OwnedFd;

use proto::{Stream, TransportConfig};

use crate::joined::joined;

/// A channel that always has data must not keep the others silent.
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

/// Bulk that fills the queue whenever it has room must not keep a source from being looked at.
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
            // The queue, and what is sealed: nothing else may go first.
            assert!(
                sent - before < 4 << 20,
                "{} bytes went first",
                sent - before
            );
        }
        assert_eq!(room[0], *key);
    }
}
