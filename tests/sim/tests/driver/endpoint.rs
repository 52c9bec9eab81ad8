//! Endpoints: channel data that the process itself produces and consumes, instead of descriptors.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use driver::{ChannelHandler, ChannelIo, HandlerProgress, Notice};
use proto::{Error, Event, Stream, TransportConfig};

use crate::joined::{End, joined, settle};
use sim::noise;

/// Echoes its input in small pieces, and ends with it.
#[derive(Default)]
struct Echo {
    held: VecDeque<Bytes>,
    ended: bool,
    worked: usize,
}

impl ChannelHandler for Echo {
    fn receive(&mut self, stream: Stream, data: Bytes) {
        assert_eq!(stream, Stream::Data);
        self.held.push_back(data);
    }

    fn end(&mut self) {
        self.ended = true;
    }

    fn work(&mut self, line: &mut ChannelIo<'_>) -> Result<HandlerProgress, Error> {
        self.worked += 1;
        while let Some(front) = self.held.front_mut() {
            let count = line.space().min(front.len()).min(10_000);
            if count == 0 {
                return Ok(HandlerProgress::Waiting);
            }
            let mut buf = line.take_buffer(count);
            buf.extend(&front.split_to(count));
            line.send(buf)?;
            line.consumed(count)?;
            if front.is_empty() {
                self.held.pop_front();
            }
        }
        Ok(if self.ended {
            HandlerProgress::Ended
        } else {
            HandlerProgress::Waiting
        })
    }
}

/// Sends bytes and stores the answers.
struct Asker {
    unsent: Bytes,
    got: Vec<u8>,
    wanted: usize,
}

impl ChannelHandler for Asker {
    fn receive(&mut self, _: Stream, data: Bytes) {
        self.got.extend_from_slice(&data);
    }

    fn end(&mut self) {}

    fn work(&mut self, line: &mut ChannelIo<'_>) -> Result<HandlerProgress, Error> {
        while self.unsent.has_remaining() {
            let count = line.space().min(self.unsent.len());
            if count == 0 {
                break;
            }
            let mut buf = line.take_buffer(count);
            buf.extend(&self.unsent.split_to(count));
            line.send(buf)?;
        }
        Ok(if self.got.len() == self.wanted {
            HandlerProgress::Ended
        } else {
            HandlerProgress::Waiting
        })
    }
}

fn ended(notices: &[Notice]) -> usize {
    notices
        .iter()
        .filter(|notice| matches!(notice, Notice::EndpointEnded { .. }))
        .count()
}

#[test]
fn what_an_endpoint_consumes_opens_the_window_again() {
    let config = TransportConfig::default();
    let (mut client, mut server, ids) = joined(&config, 1);
    let id = ids[0];
    // Data of several windows in one direction.
    let bytes = noise(20 << 20, 7);
    server.driver.attach_endpoint(id, Box::new(Echo::default()));
    let sent = send_all(&mut client, &mut server, &bytes);
    assert!(sent == bytes, "{} of {} bytes", sent.len(), bytes.len());
    client.driver.connection().channel_eof(id).unwrap();
    let (_, seen) = settle(&mut client, &mut server);
    assert_eq!(ended(&seen), 1);
    let echo = server.driver.endpoint::<Echo>(id).unwrap();
    assert!(echo.held.is_empty() && echo.worked > 10);
    assert!(server.driver.endpoint::<Asker>(id).is_none());
    assert!(server.driver.detach_endpoint(id).is_some());
    assert!(server.driver.detach_endpoint(id).is_none());
}

/// Sends directly from the client, and receives the answers.
fn send_all(client: &mut End, server: &mut End, bytes: &[u8]) -> Vec<u8> {
    let id = proto::ChannelId(0);
    let mut got = Vec::new();
    let mut sent = 0;
    let mut quiet = 0;
    while got.len() < bytes.len() && quiet < 100 {
        let connection = client.driver.connection();
        sent += connection
            .channel_send_slice(id, Stream::Data, &bytes[sent..])
            .unwrap();
        quiet += 1;
        for notice in client.step() {
            if let Notice::Event(Event::ChannelData { data, .. }) = notice {
                quiet = 0;
                got.extend_from_slice(&data);
                client
                    .driver
                    .connection()
                    .channel_consumed(id, data.len())
                    .unwrap();
            }
        }
        for notice in server.step() {
            assert!(
                !matches!(notice, Notice::Event(Event::ChannelData { .. })),
                "the endpoint's data"
            );
        }
    }
    got
}

#[test]
fn what_comes_behind_its_end_is_dropped_and_counted() {
    let config = TransportConfig::default();
    let (mut client, mut server, ids) = joined(&config, 1);
    let id = ids[0];
    let question = Bytes::from_static(b"ask");
    let asker = Asker {
        unsent: question.clone(),
        got: Vec::new(),
        wanted: 3,
    };
    client.driver.attach_endpoint(id, Box::new(asker));
    server.driver.attach_endpoint(id, Box::new(Echo::default()));
    let (seen, _) = settle(&mut client, &mut server);
    assert_eq!(ended(&seen), 1);
    assert_eq!(client.driver.endpoint::<Asker>(id).unwrap().got, b"ask");
    // More than a window, to an endpoint that has ended.
    drop(server.driver.detach_endpoint(id));
    let bytes = noise(16 << 20, 3);
    let mut sent = 0;
    for _ in 0..1000 {
        let connection = server.driver.connection();
        sent += connection
            .channel_send_slice(id, Stream::Data, &bytes[sent..])
            .unwrap();
        settle(&mut client, &mut server);
        if sent == bytes.len() {
            break;
        }
    }
    assert_eq!(sent, bytes.len());
    assert_eq!(client.driver.endpoint::<Asker>(id).unwrap().got, b"ask");
}

/// Stores its input until `use_now` is set.
struct Keeper {
    held: usize,
    most: usize,
    uses: usize,
}

impl ChannelHandler for Keeper {
    fn receive(&mut self, _: Stream, data: Bytes) {
        self.held += data.len();
    }

    fn end(&mut self) {}

    fn work(&mut self, line: &mut ChannelIo<'_>) -> Result<HandlerProgress, Error> {
        let uses = std::mem::take(&mut self.uses).min(self.held);
        self.held -= uses;
        line.consumed(uses)?;
        Ok(HandlerProgress::Waiting)
    }

    fn most_held(&self) -> usize {
        self.most
    }
}

/// Sends as much as the window and the socket accept.
fn press(client: &mut End, server: &mut End, bytes: &[u8], sent: &mut usize) {
    let id = proto::ChannelId(0);
    for _ in 0..100 {
        let connection = client.driver.connection();
        *sent += connection
            .channel_send_slice(id, Stream::Data, &bytes[*sent..])
            .unwrap();
        settle(client, server);
    }
}

#[test]
fn an_endpoint_that_is_full_holds_the_socket_back_and_not_for_good() {
    const MOST: usize = 256 << 10;
    let config = TransportConfig::default();
    let (mut client, mut server, ids) = joined(&config, 1);
    let id = ids[0];
    let keeper = Keeper {
        held: 0,
        most: MOST,
        uses: 0,
    };
    server.driver.attach_endpoint(id, Box::new(keeper));
    let bytes = noise(4 << 20, 11);
    let mut sent = 0;
    let begun = std::time::Instant::now();
    press(&mut client, &mut server, &bytes, &mut sent);
    let held = |server: &mut End| server.driver.endpoint::<Keeper>(id).unwrap().held;
    // A slab that was read at once may contain more than is wanted; the window has 2 MiB.
    let first = held(&mut server);
    assert!(first >= MOST, "{first}");
    if begun.elapsed() < std::time::Duration::from_millis(500) {
        assert!(first < MOST + (1 << 20), "{first}");
    }
    // Consumed bytes make room for the same number.
    server.driver.endpoint::<Keeper>(id).unwrap().uses = first;
    server.driver.wake_endpoint(id);
    press(&mut client, &mut server, &bytes, &mut sent);
    assert!(held(&mut server) >= MOST);
    // When it consumes nothing any more, the peer is read again: its window is the limit (2 MiB;
    // too little is consumed for an adjust).
    while first + held(&mut server) < 2 << 20 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        press(&mut client, &mut server, &bytes, &mut sent);
        assert!(begun.elapsed() < std::time::Duration::from_secs(60));
    }
}

/// It always consumes a little, so its limit is never exceeded; but a peer with an open request for
/// a sign of life is read.
#[test]
fn a_peer_behind_a_full_endpoint_is_not_taken_for_dead() {
    let config = TransportConfig {
        alive_interval_ms: Some(300),
        alive_count_max: 3,
        ..TransportConfig::default()
    };
    let (mut client, mut server, ids) = joined(&config, 1);
    let id = ids[0];
    let keeper = Keeper {
        held: 0,
        most: 256 << 10,
        uses: 0,
    };
    server.driver.attach_endpoint(id, Box::new(keeper));
    let bytes = noise(4 << 20, 13);
    let mut sent = 0;
    press(&mut client, &mut server, &bytes, &mut sent);
    let begun = std::time::Instant::now();
    while begun.elapsed() < std::time::Duration::from_millis(2_500) {
        server.driver.endpoint::<Keeper>(id).unwrap().uses = 1;
        server.driver.wake_endpoint(id);
        // Fails if the connection ends.
        server.step();
        client.step();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
