//! An idle connection uses no processor time.

use std::os::fd::{AsFd, OwnedFd};

use driver::{Driver, Notice};
use proto::{ChannelId, Stream, TransportConfig};
use rustix::time::{ClockId, clock_gettime};

use crate::joined::{End, joined, settle};

const IDLE_MS: u64 = 200;
const IDLE: u64 = 7;

fn cpu_us() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}

/// Microseconds of this thread's time that the driver uses during an interval without events.
fn idle_us(driver: &mut Driver) -> i64 {
    let at = driver.now() + IDLE_MS;
    driver.set_timer(IDLE, Some(at));
    let before = cpu_us();
    match driver.next().expect("a connection at work") {
        Notice::Timer { token: IDLE } => cpu_us() - before,
        other => panic!("nothing should happen: {other:?}"),
    }
}

fn assert_idle(end: &mut End, what: &str) {
    let used = idle_us(&mut end.driver);
    assert!(used < 5000, "{what}: {used} us of {IDLE_MS} ms");
}

fn zero() -> OwnedFd {
    OwnedFd::from(std::fs::File::open("/dev/zero").unwrap())
}

/// A sink that accepts nothing more, with an endless source.
fn stuffed() -> (End, End, ChannelId, OwnedFd) {
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 1);
    let id = ids[0];
    let (reader, writer) = sys::io::pipe().unwrap();
    server.driver.attach_sink(id, Stream::Data, writer).unwrap();
    client
        .driver
        .attach_source(id, Stream::Data, zero())
        .unwrap();
    settle(&mut client, &mut server);
    (client, server, id, reader)
}

#[test]
fn nothing_attached() {
    let (mut client, mut server, _) = joined(&TransportConfig::default(), 1);
    settle(&mut client, &mut server);
    assert_idle(&mut client, "client");
    assert_idle(&mut server, "server");
}

#[test]
fn a_stopped_sink_and_a_source_that_is_always_ready() {
    let (mut client, mut server, _, _reader) = stuffed();
    assert_idle(&mut client, "a file as source behind a closed window");
    assert_idle(&mut server, "a full pipe as sink");
}

#[test]
fn a_source_that_hung_up_behind_a_closed_window() {
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 1);
    let (reader, writer) = sys::io::pipe().unwrap();
    let (_kept, sink) = sys::io::pipe().unwrap();
    server
        .driver
        .attach_sink(ids[0], Stream::Data, sink)
        .unwrap();
    client
        .driver
        .attach_source(ids[0], Stream::Data, reader)
        .unwrap();
    sys::io::set_nonblocking(&writer, true).unwrap();
    let data = vec![1; 1 << 16];
    loop {
        settle(&mut client, &mut server);
        if sys::io::write(&writer, &data).is_err() {
            break;
        }
    }
    drop(writer);
    assert_idle(&mut client, "EPOLLHUP on a source that must wait");
}

#[test]
fn a_sink_whose_reader_left_with_nothing_to_write() {
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 1);
    let (reader, writer) = sys::io::pipe().unwrap();
    server
        .driver
        .attach_sink(ids[0], Stream::Data, writer)
        .unwrap();
    settle(&mut client, &mut server);
    drop(reader);
    assert_idle(&mut server, "EPOLLERR on a sink without data");
}

#[test]
fn a_peer_that_shut_its_side_down() {
    let (client, mut server, _) = joined(&TransportConfig::default(), 1);
    let socket = client.driver.socket().try_clone_to_owned().unwrap();
    rustix::net::shutdown(&socket, rustix::net::Shutdown::Write).unwrap();
    assert!(matches!(server.next(), Notice::PeerClosed));
    assert_idle(&mut server, "EPOLLRDHUP");
    rustix::net::shutdown(&socket, rustix::net::Shutdown::Read).unwrap();
    assert_idle(&mut server, "EPOLLHUP");
}

/// The owner has not answered, the receive buffer is full, and the peer hangs up.
#[test]
fn a_peer_that_hung_up_while_nothing_may_be_read() {
    let (mut client, mut server, _) = joined(&TransportConfig::default(), 0);
    let connection = client.driver.connection();
    connection.open_channel("session", b"").unwrap();
    for _ in 0..60 {
        connection.send_ignore(&[0; 32_768]).unwrap();
    }
    let notices = server.step();
    assert!(notices.is_empty());
    for _ in 0..20 {
        client.step();
        server.step();
    }
    drop(client);
    server.step();
    assert_idle(&mut server, "a peer that is gone behind what waits");
}

#[test]
fn a_watched_descriptor_without_interest_that_hung_up() {
    let (mut client, _server, _) = joined(&TransportConfig::default(), 0);
    let (reader, writer) = sys::io::pipe().unwrap();
    client
        .driver
        .watch(reader.as_fd(), 1, false, false)
        .unwrap();
    drop(writer);
    assert_idle(&mut client, "EPOLLHUP on a watched pipe");
    client.driver.watch(reader.as_fd(), 1, true, false).unwrap();
    assert!(matches!(
        client.next(),
        Notice::Ready {
            token: 1,
            readable: true,
            ..
        }
    ));
    client.driver.unwatch(reader.as_fd());
    assert_idle(&mut client, "behind unwatch");
}
