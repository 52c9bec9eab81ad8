//! Data that follows CHANNEL_OPEN before the peer's answer (docs/PROTOCOL.md, early-data).

use std::collections::{BTreeMap, VecDeque};

use proto::{ChannelId, Connection, Event, ServerHostKey, Stream, TransportConfig};
use sim::{Pair, Side, noise};

/// Bytes that each side announces.
const EARLY_BYTES: usize = 32 * 1024;

fn logged_in(config: &TransportConfig) -> Pair {
    let mut pair = Pair::new(config.clone(), config.clone());
    pair.login(usize::MAX).unwrap();
    pair.client.events.clear();
    pair.server.events.clear();
    pair
}

fn send(side: &mut Side, id: ChannelId, data: &[u8]) -> usize {
    let connection = &mut side.connection;
    connection
        .channel_send_slice(id, Stream::Data, data)
        .unwrap()
}

/// One flight in each direction; the owners do nothing.
fn flight(pair: &mut Pair) {
    pair.client.transmit();
    pair.server.transmit();
    let up: Vec<u8> = pair.client.wire.drain(..).collect();
    let down: Vec<u8> = pair.server.wire.drain(..).collect();
    pair.server.receive(&up, pair.now).unwrap();
    pair.client.receive(&down, pair.now).unwrap();
}

fn open(side: &mut Side) -> ChannelId {
    let connection = &mut side.connection;
    connection
        .open_channel_with_data("direct-tcpip", b"")
        .unwrap()
}

fn request(side: &mut Side) -> ChannelId {
    match side.events.pop_front() {
        Some(Event::ChannelOpenRequest { channel, .. }) => channel,
        other => panic!("{other:?}"),
    }
}

/// The data of the next event, which must be of this channel.
fn data(side: &mut Side, id: ChannelId) -> Vec<u8> {
    match side.events.pop_front() {
        Some(Event::ChannelData { channel, data, .. }) if channel == id => data.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Takes the events that a command has made.
fn take_events(side: &mut Side) {
    side.receive(b"", 0).unwrap();
}

/// The server opens a channel with data after the request, and the client accepts it.
fn server_greets(pair: &mut Pair) {
    let id = open(&mut pair.server);
    assert_eq!(send(&mut pair.server, id, b"hello"), 5);
    flight(pair);
    let theirs = request(&mut pair.client);
    pair.client.connection.accept_channel(theirs).unwrap();
    take_events(&mut pair.client);
    assert_eq!(data(&mut pair.client, theirs), b"hello");
}

#[test]
fn an_answer_to_early_data_arrives_after_one_round_trip_in_both_directions() {
    let mut pair = logged_in(&TransportConfig::default());
    let id = open(&mut pair.client);
    assert!(pair.client.connection.channel_takes_early_data(id));
    assert_eq!(send(&mut pair.client, id, b"question"), 8);
    pair.client.connection.channel_eof(id).unwrap();
    flight(&mut pair);
    let theirs = request(&mut pair.server);
    // The owner hears of the data only when it has accepted the channel.
    take_events(&mut pair.server);
    assert!(pair.server.events.is_empty());
    pair.server.connection.accept_channel(theirs).unwrap();
    take_events(&mut pair.server);
    assert_eq!(data(&mut pair.server, theirs), b"question");
    assert!(
        matches!(pair.server.events.pop_front(), Some(Event::ChannelEof(channel)) if channel == theirs)
    );
    assert_eq!(send(&mut pair.server, theirs, b"answer"), 6);
    flight(&mut pair);
    assert!(matches!(
        pair.client.events.pop_front(),
        Some(Event::ChannelOpened(_))
    ));
    assert_eq!(data(&mut pair.client, id), b"answer");

    // The server opens one, as for -R.
    server_greets(&mut pair);
}

#[test]
fn early_data_counts_against_the_first_window_and_no_more_is_sent_before_the_answer() {
    let mut pair = logged_in(&TransportConfig::default());
    let id = open(&mut pair.client);
    let bytes = noise(100_000, 7);
    assert_eq!(send(&mut pair.client, id, &bytes), EARLY_BYTES);
    assert!(pair.client.connection.channel_window_is_shut(id));
    flight(&mut pair);
    let theirs = request(&mut pair.server);
    let window = pair.server.connection.channel_window(theirs);
    pair.server.connection.accept_channel(theirs).unwrap();
    flight(&mut pair);
    take_events(&mut pair.server);
    assert_eq!(data(&mut pair.server, theirs), bytes[..EARLY_BYTES]);
    // The owner consumes nothing: exactly the rest of the window may follow.
    let more = vec![1; window];
    let mut sent = EARLY_BYTES;
    loop {
        let count = send(&mut pair.client, id, &more);
        if count == 0 {
            break;
        }
        sent += count;
        flight(&mut pair);
    }
    assert_eq!(sent, window);
}

#[test]
fn data_of_a_refused_channel_is_dropped_and_never_reaches_its_number_again() {
    let mut pair = logged_in(&TransportConfig::default());
    for round in 0..40_u8 {
        let first = open(&mut pair.client);
        send(&mut pair.client, first, &[round; 9]);
        flight(&mut pair);
        let theirs = request(&mut pair.server);
        let connection = &mut pair.server.connection;
        connection.reject_channel(theirs, 2, "no").unwrap();
        // More leaves before the refusal arrives.
        send(&mut pair.client, first, b"late");
        pair.client.connection.channel_eof(first).unwrap();
        flight(&mut pair);
        assert!(matches!(
            pair.client.events.pop_front(),
            Some(Event::ChannelRefused { .. })
        ));
        let second = open(&mut pair.client);
        assert_eq!(second, first);
        send(&mut pair.client, second, b"second");
        flight(&mut pair);
        let theirs = request(&mut pair.server);
        pair.server.connection.accept_channel(theirs).unwrap();
        flight(&mut pair);
        take_events(&mut pair.server);
        assert_eq!(data(&mut pair.server, theirs), b"second");
        for (side, id) in [(&mut pair.client, second), (&mut pair.server, theirs)] {
            side.connection.channel_close(id).unwrap();
        }
        pair.settle(usize::MAX).unwrap();
        pair.client.events.clear();
        pair.server.events.clear();
    }
    assert_eq!(pair.client.connection.channel_count(), 0);
    assert_eq!(pair.server.connection.channel_count(), 0);
}

#[test]
fn a_server_that_continues_from_a_snapshot_knows_what_the_client_announced() {
    let config = TransportConfig::default();
    let mut pair = logged_in(&config);
    let keys = vec![ServerHostKey {
        algorithms: vec!["ssh-ed25519".into()],
        blob: pair.host_key_blob(),
    }];
    let fresh = Connection::server(config.clone(), keys.clone(), 0).unwrap();
    let old = std::mem::replace(&mut pair.server.connection, fresh);
    let snapshot = old.snapshot().unwrap();
    pair.server.connection = Connection::resume(&snapshot, config, keys, 0).unwrap();
    assert!(pair.server.connection.reset_supported());
    server_greets(&mut pair);
}

/// What one side has opened: the bytes it has sent on each living channel, by its number.
#[derive(Default)]
struct Opener {
    sent: BTreeMap<ChannelId, Vec<u8>>,
    opened: u64,
}

/// What the other side has received: the bytes of each channel, by its number, and whether it has
/// answered.
#[derive(Default)]
struct Acceptor {
    asked: Vec<ChannelId>,
    received: BTreeMap<ChannelId, Vec<u8>>,
    complete: Vec<Vec<u8>>,
}

/// One side, both roles.
#[derive(Default)]
struct Player {
    opener: Opener,
    acceptor: Acceptor,
    finished: Vec<Vec<u8>>,
    refused: usize,
}

impl Player {
    fn act(&mut self, side: &mut Side, mut dice: impl FnMut(u64) -> u64) {
        if self.opener.sent.len() < 12 && dice(3) == 0 {
            let id = open(side);
            self.opener.opened += 1;
            self.opener.sent.insert(id, Vec::new());
        }
        for (id, sent) in &mut self.opener.sent {
            if dice(2) == 0 {
                // Bytes that no other channel sends.
                let seed = self.opener.opened * 1000 + u64::from(id.0) + 1;
                let bytes = noise(usize::try_from(dice(1500)).unwrap(), seed);
                let count = side
                    .connection
                    .channel_send_slice(*id, Stream::Data, &bytes)
                    .unwrap();
                sent.extend_from_slice(&bytes[..count]);
            }
        }
        if !self.acceptor.asked.is_empty() && dice(4) == 0 {
            let at = usize::try_from(dice(self.acceptor.asked.len() as u64)).unwrap();
            let id = self.acceptor.asked.swap_remove(at);
            match dice(3) {
                0 => side.connection.reject_channel(id, 2, "no").unwrap(),
                _ => {
                    side.connection.accept_channel(id).unwrap();
                    self.acceptor.received.insert(id, Vec::new());
                }
            }
        }
        let ends = |id: &&ChannelId| side.connection.channel_is_open(**id);
        let open: Vec<ChannelId> = self.opener.sent.keys().filter(ends).copied().collect();
        for id in open {
            if dice(4) == 0 {
                side.connection.channel_eof(id).unwrap();
                side.connection.channel_close(id).unwrap();
                self.finished
                    .extend(self.opener.sent.remove(&id).filter(|sent| !sent.is_empty()));
            }
        }
        if dice(20) == 0 {
            side.connection.rekey(0).unwrap();
        }
    }

    fn take(&mut self, side: &mut Side) {
        take_events(side);
        let mut rest = VecDeque::new();
        while let Some(event) = side.events.pop_front() {
            match event {
                // For the pair.
                Event::SignExchangeHash { .. } => rest.push_back(event),
                Event::ChannelOpenRequest { channel, .. } => self.acceptor.asked.push(channel),
                Event::ChannelData { channel, data, .. } => {
                    let received = self.acceptor.received.get_mut(&channel).unwrap();
                    received.extend_from_slice(&data);
                    side.connection
                        .channel_consumed(channel, data.len())
                        .unwrap();
                }
                Event::ChannelRefused { channel, .. } => {
                    self.opener.sent.remove(&channel).unwrap();
                    self.refused += 1;
                }
                Event::ChannelClosed(channel) => {
                    let received = self.acceptor.received.remove(&channel);
                    self.acceptor
                        .complete
                        .extend(received.filter(|bytes| !bytes.is_empty()));
                }
                _ => {}
            }
        }
        side.events = rest;
    }
}

#[test]
fn random_opens_from_both_sides_mix_nothing_up() {
    for compression in ["none", "zlib@openssh.com", "zstd2@fulmar.invalid"] {
        for seed in 1..=3_u64 {
            let config = TransportConfig {
                compression: vec![compression.into()],
                ..TransportConfig::default()
            };
            let mut pair = logged_in(&config);
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut dice = move |sides: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) % sides
            };
            let (mut client, mut server) = (Player::default(), Player::default());
            for _ in 0..500 {
                client.act(&mut pair.client, &mut dice);
                server.act(&mut pair.server, &mut dice);
                // Each direction delivers a random part of what is on the way.
                for way in 0..2 {
                    let (from, to) = match way {
                        0 => (&mut pair.client, &mut pair.server),
                        _ => (&mut pair.server, &mut pair.client),
                    };
                    from.transmit();
                    let count = usize::try_from(dice(20_000)).unwrap().min(from.wire.len());
                    let bytes: Vec<u8> = from.wire.drain(..count).collect();
                    to.receive(&bytes, 0).unwrap();
                    pair.answer_server().unwrap();
                }
                client.take(&mut pair.client);
                server.take(&mut pair.server);
            }
            for _ in 0..30 {
                pair.settle(usize::MAX).unwrap();
                client.take(&mut pair.client);
                server.take(&mut pair.server);
            }
            for (opener, acceptor) in [(&client, &server), (&server, &client)] {
                let (mut sent, mut received) =
                    (opener.finished.clone(), acceptor.acceptor.complete.clone());
                sent.sort();
                received.sort();
                assert!(sent == received, "{compression} {seed}");
                assert!(sent.len() > 20 && opener.refused > 5, "{}", sent.len());
            }
        }
    }
}
