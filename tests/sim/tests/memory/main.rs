//! The memory that a peer can make us use by not reading or by sending tiny packets, counted by the
//! allocator.
//!
//! One test function, because the counts are the process's.

#[path = "../../../counting_allocator.rs"]
#[allow(dead_code, reason = "each program uses a part of it")]
mod counting_allocator;

use counting_allocator::live;

use std::os::fd::OwnedFd;

use proto::{Stream, TransportConfig};

#[path = "../driver/joined.rs"]
#[allow(dead_code)]
mod joined;

use joined::{joined, settle};

/// A window of single bytes to a program that does not read.
fn crumbs(compression: &str) -> usize {
    let config = TransportConfig {
        compression: vec![compression.into()],
        ..TransportConfig::default()
    };
    let (mut client, mut server, ids) = joined(&config, 1);
    let (_reader, writer) = sys::io::pipe().unwrap();
    server
        .driver
        .attach_sink(ids[0], Stream::Data, writer)
        .unwrap();
    settle(&mut client, &mut server);
    let before = live();
    let mut sent = 0;
    while sent < 200_000 {
        let connection = client.driver.connection();
        while connection.channel_send_space(ids[0]) > 0 && sent % 1000 != 999 {
            sent += connection
                .channel_send_slice(ids[0], Stream::Data, b"x")
                .unwrap();
        }
        sent += connection
            .channel_send_slice(ids[0], Stream::Data, b"x")
            .unwrap();
        client.step();
        server.step();
    }
    settle(&mut client, &mut server);
    live().saturating_sub(before)
}

/// An endless source towards a peer that does not read its socket.
fn unread() -> usize {
    let (mut client, server, ids) = joined(&TransportConfig::default(), 1);
    let before = live();
    let zero = OwnedFd::from(std::fs::File::open("/dev/zero").unwrap());
    client
        .driver
        .attach_source(ids[0], Stream::Data, zero)
        .unwrap();
    for _ in 0..200 {
        client.step();
    }
    // Our requests and a due key exchange do not add to it without limit either.
    let now = client.driver.now();
    client.driver.connection().rekey(now).unwrap();
    for _ in 0..200 {
        client.step();
    }
    drop(server);
    live().saturating_sub(before)
}

/// Ten channels at once, each with a full window of data that nobody reads.
fn windows() -> usize {
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 10);
    let mut readers = Vec::new();
    for id in &ids {
        let (reader, writer) = sys::io::pipe().unwrap();
        readers.push(reader);
        server
            .driver
            .attach_sink(*id, Stream::Data, writer)
            .unwrap();
        let zero = OwnedFd::from(std::fs::File::open("/dev/zero").unwrap());
        client
            .driver
            .attach_source(*id, Stream::Data, zero)
            .unwrap();
    }
    let before = live();
    settle(&mut client, &mut server);
    live().saturating_sub(before)
}

#[test]
fn memory_is_bounded_by_windows_and_queues() {
    let used = unread();
    assert!(
        used < 4 << 20,
        "{used} bytes towards a peer that does not read"
    );
    let used = windows();
    // 2 MiB each, the slabs in which they arrived, and the sender's own queue.
    assert!(used < 36 << 20, "{used} bytes for ten windows");
    for compression in ["none", "zlib@openssh.com", "zstd2@fulmar.invalid"] {
        let used = crumbs(compression);
        assert!(
            used < 5 << 20,
            "{used} bytes for 200,000 of data, {compression}"
        );
    }
}
