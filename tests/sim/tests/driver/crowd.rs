//! Many channels at once, each with a socket at either end: random data, random stalls of readers,
//! random ends, under rekeys. Every byte arrives in order, no channel waits for another one's reader,
//! and what a stalled reader leaves is bounded by its window.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use driver::forward::{ForwardSettings, ForwardTarget, Forwards, Gateway, ListeningSockets, Opens};
use driver::{Notice, SocketPair};
use proto::{ChannelId, Event, TransportConfig};
use sys::socket::Family;

use crate::joined::{End, joined};

const CHANNELS: usize = 24;
const ROUNDS: usize = 400;
/// Most bytes that one direction of a channel holds: the window, and the buffers of two sockets.
const MOST_HELD: usize = (2 << 20) + (2 << 20);
/// Rounds after which a direction without a stall has moved something.
const MOST_ROUNDS_STILL: usize = 40;

/// xorshift64*.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(high).unwrap() % limit
    }
}

/// The byte at this offset of a direction.
fn byte(direction: usize, offset: usize) -> u8 {
    u8::try_from((offset * 7 + direction * 31 + offset / 251) % 256).unwrap()
}

/// One direction of a channel, from the socket that the test writes to the one that it reads.
#[derive(Default)]
struct Direction {
    written: usize,
    read: usize,
    ended: bool,
    saw_end: bool,
    /// Rounds left of its reader's stall.
    stall: usize,
    still: usize,
}

impl Direction {
    fn write(&mut self, number: usize, socket: &mut UnixStream, len: usize) {
        let bytes: Vec<u8> = (0..len).map(|at| byte(number, self.written + at)).collect();
        match socket.write(&bytes) {
            Ok(count) => self.written += count,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }

    fn end(&mut self, socket: &UnixStream) {
        self.ended = true;
        socket.shutdown(Shutdown::Write).unwrap();
    }

    /// Reads at most `len` bytes; returns true if there was something.
    fn read(&mut self, number: usize, socket: &mut UnixStream, len: usize) -> bool {
        let mut bytes = vec![0; len];
        match socket.read(&mut bytes) {
            Ok(0) => {
                self.saw_end = true;
                assert!(self.ended && self.read == self.written, "an early end");
                false
            }
            Ok(count) => {
                for (at, found) in bytes.iter().take(count).enumerate() {
                    assert_eq!(
                        *found,
                        byte(number, self.read + at),
                        "at {}",
                        self.read + at
                    );
                }
                self.read += count;
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                false
            }
        }
    }

    fn held(&self) -> usize {
        self.written - self.read
    }
}

/// Joins a new socket to the channel; returns its other end.
fn attach(end: &mut End, channel: ChannelId) -> UnixStream {
    let (near, far) = UnixStream::pair().unwrap();
    far.set_nonblocking(true).unwrap();
    let near = SocketPair::new(OwnedFd::from(near)).unwrap();
    end.driver.attach_socket(channel, near).unwrap();
    far
}

/// Sends the ends of sources on.
fn step(end: &mut End) {
    for notice in end.step() {
        if let Notice::SourceEnded { channel, error, .. } = notice {
            assert!(error.is_none());
            end.driver.connection().channel_eof(channel).unwrap();
        }
    }
}

fn crowd(seed: u64) {
    let mut chance = Chance(seed);
    let config = TransportConfig {
        rekey_bytes: Some(4 << 20),
        ..TransportConfig::default()
    };
    let (mut client, mut server, ids) = joined(&config, CHANNELS);
    let mut sockets: Vec<[UnixStream; 2]> = Vec::new();
    for id in &ids {
        sockets.push([attach(&mut client, *id), attach(&mut server, *id)]);
    }
    let mut directions: Vec<Direction> = Vec::new();
    directions.resize_with(2 * CHANNELS, Direction::default);
    for round in 0.. {
        let ends = round >= ROUNDS;
        for (number, direction) in directions.iter_mut().enumerate() {
            let [near, far] = &mut sockets[number / 2];
            let (writer, reader) = match number % 2 {
                0 => (near, far),
                _ => (far, near),
            };
            if !direction.ended {
                let len = [1, 100, 5_000, 200_000][chance.below(4)];
                direction.write(number, writer, chance.below(len + 1));
                if ends || chance.below(2 * ROUNDS) == 0 {
                    direction.end(writer);
                }
            }
            direction.stall = match direction.stall {
                _ if ends => 0,
                0 if chance.below(60) == 0 => chance.below(150),
                stall => stall.saturating_sub(1),
            };
            assert!(
                direction.held() <= MOST_HELD,
                "{number}: {}",
                direction.held()
            );
            if direction.stall > 0 || direction.saw_end {
                direction.still = 0;
                continue;
            }
            let len = [1, 3_000, 300_000][chance.below(3)];
            let len = if ends { 1 << 20 } else { len };
            direction.still = match direction.read(number, reader, len) {
                false if direction.held() > 0 => direction.still + 1,
                _ => 0,
            };
            assert!(
                direction.still < MOST_ROUNDS_STILL,
                "direction {number} stands still in round {round} of seed {seed}"
            );
        }
        step(&mut client);
        step(&mut server);
        if directions.iter().all(|direction| direction.saw_end) {
            break;
        }
        assert!(round < 2 * ROUNDS, "seed {seed} does not come to an end");
    }
}

#[test]
fn channels_that_stall_at_random_lose_nothing_and_hold_nobody_up() {
    for seed in 1..4 {
        crowd(seed);
    }
}

/// A reader that takes a byte now and then, and everything later: its window opens again.
#[test]
fn a_reader_that_was_slow_becomes_as_fast_as_any() {
    let (mut client, mut server, ids) = joined(&TransportConfig::default(), 1);
    let mut near = attach(&mut client, ids[0]);
    let mut far = attach(&mut server, ids[0]);
    let mut direction = Direction::default();
    let mut writes = |direction: &mut Direction| direction.write(0, &mut near, 300_000);
    for _ in 0..300 {
        writes(&mut direction);
        step(&mut client);
        step(&mut server);
        direction.read(0, &mut far, 1);
    }
    let (before, held) = (direction.read, direction.held());
    assert!(
        before <= 300 && held > 1 << 20,
        "{before} read, {held} held"
    );
    for _ in 0..300 {
        writes(&mut direction);
        step(&mut client);
        step(&mut server);
        while direction.read(0, &mut far, 1 << 20) {}
    }
    let more = direction.read - before - held;
    assert!(more > 8 << 20, "{more} bytes");
}

/// Both sockets of a listener get their turns: a flood of one does not keep the other waiting.
#[test]
fn a_flood_on_one_address_of_a_listener_leaves_the_other_its_turns() {
    let sockets = ListeningSockets::on_port(
        Some("localhost"),
        (0, false),
        Gateway::Client,
        Family::Any,
        |_, _| {},
    );
    let sockets = sockets.unwrap();
    let port = sockets.port;
    let flood: Vec<_> = (0..70)
        .map_while(|_| std::net::TcpStream::connect(("::1", port)).ok())
        .collect();
    let last = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (mut client, mut server, _) = joined(&TransportConfig::default(), 0);
    let mut forwards = Forwards::new(ForwardSettings {
        keep_alive: false,
        family: Family::Any,
        permits: Box::new(|_| false),
    });
    let target = ForwardTarget::Tcp {
        host: "target".into(),
        port: 1,
    };
    let opens = Opens::Direct(target);
    forwards.listen(sockets, opens, &mut client.driver).unwrap();
    let mut originators = Vec::new();
    while originators.len() <= flood.len() {
        for notice in client.step() {
            assert!(forwards.handle(notice, &mut client.driver).is_none());
        }
        for notice in server.step() {
            if let Notice::Event(Event::ChannelOpenRequest { fields, .. }) = notice {
                originators.push(fields);
            }
        }
    }
    let own = last.local_addr().unwrap().port().to_be_bytes();
    let is_last = |fields: &Vec<u8>| fields.ends_with(&own);
    let at = originators.iter().position(is_last).unwrap();
    assert!(at < 64, "connection {at}");
}
