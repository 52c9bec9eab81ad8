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
