//! Receive windows over a long path, in virtual time: how soon it is filled, and the memory of all
//! channels together.

use std::collections::VecDeque;

use proto::{ChannelId, Event, Millis, Stream, TransportConfig};
use sim::{Pair, Side};
use wire::message::open_failure;

const MIB: u64 = 1 << 20;
const DELAY_MS: Millis = 25;
const ROUND_TRIP_MS: Millis = 2 * DELAY_MS;

/// Which side sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// The rate of the sender's TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The whole bandwidth of the path from the start.
    Hot,
    /// Ten segments in the first round trip, then 2.89 times as much in each (BBR's start).
    Slow,
}

/// Wire bytes in transit, each piece with its arrival time.
type Road = VecDeque<(Millis, Vec<u8>)>;

/// One channel over a path of 50 ms.
struct Path {
    pair: Pair,
    id: ChannelId,
    way: Way,
    /// Bytes per millisecond.
    rate: u64,
    start: Start,
    since: Millis,
    forth: Road,
    back: Road,
    /// Bytes that the path would carry and that are not sent yet.
    credit: u64,
    received: u64,
    /// Milliseconds in which the path had capacity but the window was full.
    bound_ms: u64,
}

fn arrivals(road: &mut Road, now: Millis) -> Vec<u8> {
    let mut bytes = Vec::new();
    while road.front().is_some_and(|(at, _)| *at <= now) {
        bytes.extend(road.pop_front().expect("a front").1);
    }
    bytes
}

fn depart(side: &mut Side, road: &mut Road, at: Millis) -> u64 {
    side.transmit();
    let bytes = Vec::from(std::mem::take(&mut side.wire));
    let count = bytes.len() as u64;
    if count > 0 {
        road.push_back((at, bytes));
    }
    count
}

impl Path {
    fn new(config: &TransportConfig, way: Way, mib_per_second: u64, start: Start) -> Self {
        let mut pair = Pair::new(config.clone(), config.clone());
        pair.login(usize::MAX).expect("login");
        let id = pair.open_session().expect("a session");
        Self {
            since: pair.now,
            pair,
            id,
            way,
            rate: mib_per_second * MIB / 1000,
            start,
            forth: Road::new(),
            back: Road::new(),
            credit: 0,
            received: 0,
            bound_ms: 0,
        }
    }

    /// Bytes that the sender's TCP sends in this millisecond.
    fn allowance(&self) -> u64 {
        if self.start == Start::Hot {
            return self.rate;
        }
        let mut per_round = 14_600_u64;
        for _ in 0..(self.pair.now - self.since) / ROUND_TRIP_MS {
            per_round = (per_round.saturating_mul(289) / 100).min(self.rate * ROUND_TRIP_MS);
        }
        per_round / ROUND_TRIP_MS
    }

    /// The values that the kernel would report to the receiver.
    fn hint(&mut self) {
        let (now, way) = (self.pair.now, self.way);
        let receiver = match way {
            Way::Up => &mut self.pair.server,
            Way::Down => &mut self.pair.client,
        };
        receiver
            .connection
            .handle_round_trip(u32::try_from(ROUND_TRIP_MS * 1000).expect("short"), now);
    }

    /// One millisecond. The sender always has data, the sink consumes everything at once.
    fn tick(&mut self) {
        self.pair.now += 1;
        let now = self.pair.now;
        let allowance = self.allowance();
        self.credit = (self.credit + allowance).min(4 * allowance);
        let (sender, receiver) = match self.way {
            Way::Up => (&mut self.pair.client, &mut self.pair.server),
            Way::Down => (&mut self.pair.server, &mut self.pair.client),
        };
        let come = arrivals(&mut self.forth, now);
        receiver.receive(&come, now).expect("data");
        for event in receiver.events.drain(..) {
            if let Event::ChannelData { channel, data, .. } = event {
                self.received += data.len() as u64;
                receiver
                    .connection
                    .channel_consumed(channel, data.len())
                    .expect("consumed");
            }
        }
        depart(receiver, &mut self.back, now + DELAY_MS);
        let come = arrivals(&mut self.back, now);
        sender.receive(&come, now).expect("adjusts");
        sender.events.clear();
        loop {
            let space = sender.connection.channel_send_space(self.id);
            if space == 0 {
                self.bound_ms += u64::from(self.credit > 0);
                break;
            }
            if self.credit < space as u64 && space == sender.connection.channel_max_data(self.id) {
                break;
            }
            let mut buf = sender.connection.take_buffer(space);
            buf.extend(&vec![7; space]);
            sender
                .connection
                .channel_send(self.id, Stream::Data, buf)
                .expect("space");
            let sent = depart(sender, &mut self.forth, now + DELAY_MS);
            self.credit = self.credit.saturating_sub(sent);
        }
    }

    /// Bytes that arrive in one round trip.
    fn round_trip(&mut self) -> u64 {
        let before = self.received;
        for _ in 0..ROUND_TRIP_MS {
            self.tick();
        }
        self.received - before
    }

    /// Milliseconds until `bytes` have arrived.
    fn carry(&mut self, bytes: u64) -> u64 {
        let start = self.pair.now;
        while self.received < bytes {
            self.tick();
        }
        self.pair.now - start
    }
}

#[test]
fn a_hot_path_is_full_within_four_round_trips() {
    for (mib_per_second, hinted) in [(100, true), (100, false), (800, true), (800, false)] {
        for way in [Way::Up, Way::Down] {
            let config = TransportConfig::default();
            let mut path = Path::new(&config, way, mib_per_second, Start::Hot);
            if hinted {
                path.hint();
            }
            let full = path.rate * ROUND_TRIP_MS;
            let rounds: Vec<u64> = (0..6).map(|_| path.round_trip()).collect();
            let first_full = rounds.iter().position(|each| *each >= full * 95 / 100);
            assert!(
                first_full.is_some_and(|at| at <= 4),
                "{mib_per_second} MiB/s, {way:?}, hint {hinted}: {rounds:?} of {full}"
            );
        }
    }
}

#[test]
fn a_sender_in_its_start_phase_is_never_bound_by_the_window() {
    for mib_per_second in [20, 100, 400, 800] {
        let config = TransportConfig::default();
        let mut path = Path::new(&config, Way::Down, mib_per_second, Start::Slow);
        path.hint();
        for _ in 0..40 {
            path.round_trip();
        }
        assert_eq!(path.bound_ms, 0, "{mib_per_second} MiB/s");
    }
}

#[test]
fn a_gibibyte_and_a_half_takes_nine_tenths_of_the_path() {
    let bytes = 1536 * MIB;
    let mut path = Path::new(&TransportConfig::default(), Way::Down, 100, Start::Hot);
    path.hint();
    let ms = path.carry(bytes);
    let ideal = bytes / path.rate;
    assert!(ms * 9 / 10 <= ideal, "{ms} ms, at best {ideal}");
}

/// Types a key; returns true if the client counts it.
fn type_key(path: &mut Path) -> bool {
    let client = &mut path.pair.client.connection;
    let sent = client.channel_send_slice(path.id, Stream::Data, b"x");
    assert_eq!(sent.expect("a key"), 1);
    client.is_typing()
}

/// Fills a path for ten seconds, in which a user types or not. Returns the bytes of a round trip at
/// its end, and the bytes that the sender may send on top of those in flight.
fn filled(types: bool) -> (u64, u64) {
    let mut path = Path::new(&TransportConfig::default(), Way::Down, 100, Start::Hot);
    path.hint();
    let mut per_round = 0;
    for _ in 0..200 {
        per_round = path.round_trip();
        let _ = types && type_key(&mut path);
    }
    assert_eq!(path.pair.client.connection.is_typing(), types);
    assert_eq!(path.pair.server.connection.is_typing(), types);
    let under_way = |path: &Path| path.forth.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let before: u64 = under_way(&path);
    path.rate *= 1000;
    path.tick();
    let after: u64 = under_way(&path);
    (per_round, after - before)
}

#[test]
fn beside_a_user_who_types_a_path_stays_full_and_less_is_outstanding() {
    let full = 100 * MIB / 1000 * ROUND_TRIP_MS;
    let (per_round, more) = filled(true);
    assert!(per_round >= full * 95 / 100, "{per_round} of {full}");
    let (_, usual) = filled(false);
    assert!(more * 2 <= usual, "{more}, otherwise {usual}, of {full}");
}

#[test]
fn a_key_that_starts_a_transfer_does_not_slow_it() {
    let mut path = Path::new(&TransportConfig::default(), Way::Down, 100, Start::Hot);
    assert!(!type_key(&mut path));
}

#[test]
fn a_small_budget_bounds_the_speed_and_nothing_else() {
    let config = TransportConfig {
        window_memory_bytes: 4 * MIB,
        ..TransportConfig::default()
    };
    let mut path = Path::new(&config, Way::Down, 100, Start::Hot);
    path.hint();
    for _ in 0..10 {
        path.round_trip();
    }
    // Three quarters of the budget per round trip, a quarter of that between two adjusts.
    let per_round = path.round_trip();
    assert!((2 * MIB..=3 * MIB).contains(&per_round), "{per_round}");
}

#[test]
fn all_channels_together_hold_no_more_than_the_budget_and_then_are_refused() {
    let budget = 8 * MIB;
    let config = TransportConfig {
        window_memory_bytes: budget,
        ..TransportConfig::default()
    };
    let mut pair = Pair::new(TransportConfig::default(), config);
    pair.login(usize::MAX).expect("login");
    let mut ids = Vec::new();
    let reason = loop {
        let id = pair
            .client
            .connection
            .open_channel("session", b"")
            .expect("the client's own budget is larger");
        pair.settle(usize::MAX).expect("asked");
        let refused = pair.client.events.drain(..).find_map(|event| match event {
            Event::ChannelRefused { reason, .. } => Some(reason),
            _ => None,
        });
        if let Some(reason) = refused {
            break reason;
        }
        pair.server.connection.accept_channel(id).expect("asked");
        pair.settle(usize::MAX).expect("opened");
        pair.server.events.clear();
        ids.push(id);
    };
    assert_eq!(reason, open_failure::RESOURCE_SHORTAGE);
    assert!(ids.len() > 8, "{}", ids.len());
    // Nobody consumes the data.
    let mut held = 0;
    for id in &ids {
        loop {
            let connection = &mut pair.client.connection;
            let sent = connection
                .channel_send_slice(*id, Stream::Data, &[7; 32_768])
                .expect("sent");
            held += sent as u64;
            pair.settle(usize::MAX).expect("taken in");
            if sent == 0 {
                break;
            }
        }
    }
    assert!(held <= budget && held > budget * 9 / 10, "{held}");
    // A closed channel makes room for another.
    let gone = ids.pop().expect("some");
    pair.client.connection.channel_close(gone).expect("open");
    pair.settle(usize::MAX).expect("closed");
    pair.server.events.clear();
    pair.client.events.clear();
    pair.open_session().expect("room for one");
    assert!(pair.client.connection.channel_count() > 1);
}
