//! Bulk data to a client whose user types, in virtual time. The clients are not Fulmar's: their
//! windows keep their size, and they grant them as they like.

use std::collections::VecDeque;

use hostile::adversary::{Adversary, Offer};
use hostile::subject::{Memory, PASSWORD, Subject};
use proto::{ChannelId, Millis, Role, Stream, TransportConfig};
use wire::message::{ChannelData, ChannelWindowAdjust};

const KIB: u64 = 1024;
const WINDOW_BYTES: u64 = 2048 * KIB;
/// Bytes that a client consumes in a millisecond.
const SPEED: u64 = 40 * KIB;
/// Upper bound for what is outstanding on a short path, bytes: 160 KiB, 1000 bytes for each of 20
/// microseconds, and the rest of a packet.
const BOUND_BYTES: u64 = 160 * KIB + 20_000 + 32 * KIB;

/// How a client grants window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grants {
    /// As soon as it has consumed more than this many bytes; OpenSSH's client waits for 96 KiB.
    After(u64),
    /// Not at all.
    Never,
}

/// A client's channel.
struct Receiver {
    id: u32,
    /// Data on its way to the client, with its arrival times.
    arriving: VecDeque<(Millis, u64)>,
    arrived: u64,
    consumed: u64,
    /// Consumed and not granted.
    ungranted: u64,
    /// Bytes sent to the client and not granted back when the grants reach the server.
    outstanding: u64,
}

/// A server with bulk data for each channel, and a client at the end of a path.
struct Stand {
    adversary: Adversary<Memory>,
    receivers: Vec<Receiver>,
    grants: Grants,
    delay_ms: Millis,
    /// Grants on their way to the server: arrival time, channel, bytes.
    granting: VecDeque<(Millis, usize, u32)>,
    next_key: Option<Millis>,
    turns: u64,
}

impl Stand {
    /// `delay_ms` is the path's after a proxy: the kernel of the server sees 20 microseconds.
    fn new(channels: u32, grants: Grants, delay_ms: Millis) -> Self {
        let mut adversary =
            Adversary::new(Memory::server(TransportConfig::default()), Role::Client);
        adversary.subject.forgets = true;
        adversary.exchange(&Offer::default());
        adversary.service();
        adversary.login_password(b"user", PASSWORD);
        let receivers = (0..channels)
            .map(|number| {
                let window = u32::try_from(WINDOW_BYTES).expect("small");
                adversary.open("session", number, window, 32 * 1024);
                adversary.expect(91);
                Receiver {
                    id: number,
                    arriving: VecDeque::new(),
                    arrived: 0,
                    consumed: 0,
                    ungranted: 0,
                    outstanding: 0,
                }
            })
            .collect();
        adversary.subject.connection.handle_shortest_round_trip(20);
        Self {
            adversary,
            receivers,
            grants,
            delay_ms,
            granting: VecDeque::new(),
            next_key: None,
            turns: 0,
        }
    }

    fn now(&self) -> Millis {
        self.adversary.subject.now
    }

    /// One turn of the server's loop: it fills the windows.
    fn serve(&mut self) {
        self.turns += 1;
        let now = self.now();
        self.adversary.subject.wait_until(now);
        for receiver in &self.receivers {
            let id = ChannelId(receiver.id);
            loop {
                let server = &mut self.adversary.subject.connection;
                let room = server.channel_bulk_room(id);
                let len = room.min(server.channel_max_data(id));
                if len == 0 {
                    break;
                }
                let data = vec![7; len];
                self.adversary.subject.command(|server| {
                    server.channel_send_slice(id, Stream::Data, &data)?;
                    Ok(())
                });
            }
        }
        while let Some(payload) = self.adversary.next_payload() {
            if let Ok(message) = ChannelData::decode(&payload) {
                let index = usize::try_from(message.recipient_channel).expect("an index");
                let len = message.data.len() as u64;
                let receiver = &mut self.receivers[index];
                receiver.outstanding += len;
                receiver.arriving.push_back((now + self.delay_ms, len));
            }
        }
    }

    /// One millisecond. The server runs only if something arrives or its deadline has come.
    fn tick(&mut self) {
        self.adversary.subject.now += 1;
        let now = self.now();
        let share = SPEED / self.receivers.len() as u64;
        for (index, receiver) in self.receivers.iter_mut().enumerate() {
            while receiver.arriving.front().is_some_and(|(at, _)| *at <= now) {
                receiver.arrived += receiver.arriving.pop_front().expect("a front").1;
            }
            let part = share.min(receiver.arrived - receiver.consumed);
            receiver.consumed += part;
            receiver.ungranted += part;
            if matches!(self.grants, Grants::After(bytes) if receiver.ungranted > bytes) {
                let bytes = u32::try_from(receiver.ungranted).expect("a window");
                receiver.ungranted = 0;
                self.granting.push_back((now + self.delay_ms, index, bytes));
            }
        }
        let mut is_woken = self.turns == 0;
        while self.granting.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, index, bytes) = self.granting.pop_front().expect("a front");
            self.receivers[index].outstanding -= u64::from(bytes);
            self.grant(index, bytes);
            is_woken = true;
        }
        if self.next_key.is_some_and(|at| at <= now) {
            self.adversary.say(&ChannelData {
                recipient_channel: 0,
                data: b"k",
            });
            self.next_key = Some(now + 20);
            is_woken = true;
        }
        let server = &self.adversary.subject.connection;
        let held = self.receivers.iter();
        let held = held.filter_map(|each| server.channel_bulk_deadline(ChannelId(each.id)));
        let deadline = held.chain(server.poll_deadline()).min();
        if is_woken || deadline.is_some_and(|deadline| deadline <= now) {
            self.serve();
        }
    }

    fn grant(&mut self, index: usize, bytes: u32) {
        let recipient_channel = self.receivers[index].id;
        self.adversary.say(&ChannelWindowAdjust {
            recipient_channel,
            bytes,
        });
    }

    fn consumed(&self) -> u64 {
        self.receivers.iter().map(|each| each.consumed).sum()
    }

    /// Bytes that all channels consume in `ms` milliseconds.
    fn run(&mut self, ms: Millis) -> u64 {
        let before = self.consumed();
        for _ in 0..ms {
            self.tick();
        }
        self.consumed() - before
    }

    fn types(&mut self) {
        self.next_key = Some(self.now() + 1);
    }

    /// Largest number of outstanding bytes of a channel in the next 100 milliseconds.
    fn most_outstanding(&mut self) -> u64 {
        (0..100)
            .map(|_| {
                self.tick();
                let each = self.receivers.iter().map(|each| each.outstanding);
                each.max().unwrap_or_default()
            })
            .max()
            .unwrap_or_default()
    }
}

#[test]
fn little_is_outstanding_to_a_near_client_at_no_cost() {
    for channels in [1, 3] {
        let mut stand = Stand::new(channels, Grants::After(96 * KIB), 0);
        let before = stand.run(300);
        assert!(stand.most_outstanding() > WINDOW_BYTES - 128 * KIB);
        stand.types();
        stand.run(100 * u64::from(channels));
        assert!(stand.most_outstanding() <= BOUND_BYTES, "{channels}");
        let beside = stand.run(300);
        assert!(
            beside >= before * 97 / 100,
            "{channels}: {beside} of {before}"
        );
        stand.next_key = None;
        stand.run(1000);
        assert!(stand.most_outstanding() > WINDOW_BYTES - 128 * KIB);
    }
}

#[test]
fn a_transfer_that_a_keystroke_starts_has_no_bound_until_its_speed_is_known() {
    let mut stand = Stand::new(1, Grants::After(96 * KIB), 0);
    stand.types();
    stand.run(1);
    assert_eq!(stand.receivers[0].outstanding, WINDOW_BYTES);
    stand.run(500);
    assert!(stand.most_outstanding() <= BOUND_BYTES);
}

#[test]
fn a_client_that_grants_late_waits_once() {
    for late in [209, 512, 1024] {
        let mut stand = Stand::new(1, Grants::After(late * KIB), 0);
        // Such a client seems to grant early if a small grant came first.
        stand.receivers[0].outstanding = 1;
        stand.granting.push_back((1, 0, 1));
        let before = stand.run(300);
        stand.types();
        let first = stand.run(300);
        assert!(first >= before * 2 / 3, "{late}: {first} of {before}");
        let beside = stand.run(2000);
        assert!(
            beside >= before * 2000 / 300 * 97 / 100,
            "{late}: {beside} of {before}"
        );
    }
}

#[test]
fn a_client_that_stops_granting_gets_its_whole_window() {
    let mut stand = Stand::new(1, Grants::After(96 * KIB), 0);
    stand.run(300);
    stand.types();
    stand.run(200);
    assert!(stand.receivers[0].outstanding <= BOUND_BYTES);
    stand.grants = Grants::Never;
    stand.granting.clear();
    let turns = stand.turns;
    stand.run(100);
    assert_eq!(stand.receivers[0].outstanding, WINDOW_BYTES);
    // And the server does not run in circles.
    assert!(stand.turns - turns < 20, "{}", stand.turns - turns);
}

#[test]
fn a_client_that_stops_granting_and_typing_gets_its_whole_window() {
    let mut stand = Stand::new(1, Grants::After(96 * KIB), 0);
    stand.run(300);
    stand.types();
    stand.run(200);
    stand.next_key = None;
    stand.grants = Grants::Never;
    stand.granting.clear();
    let turns = stand.turns;
    stand.run(2000);
    assert_eq!(stand.receivers[0].outstanding, WINDOW_BYTES);
    assert!(stand.turns - turns < 20, "{}", stand.turns - turns);
}

/// The kernel sees a proxy that takes everything at once; the client is far away.
#[test]
fn a_long_path_after_a_proxy_keeps_its_speed() {
    for delay_ms in [10, 25, 100] {
        let mut stand = Stand::new(1, Grants::After(96 * KIB), delay_ms);
        stand.run(1000);
        let before = stand.run(2000);
        stand.types();
        stand.run(500);
        let beside = stand.run(2000);
        assert!(
            beside >= before * 9 / 10,
            "{delay_ms} ms: {beside} of {before}"
        );
    }
}

#[test]
fn a_rekey_beside_keys_loses_nothing() {
    for pause_ms in [0, 10, 200] {
        let mut stand = Stand::new(1, Grants::After(96 * KIB), 0);
        let before = stand.run(300);
        stand.types();
        stand.run(100);
        // The client's side of the exchange takes a while, in which it can grant nothing.
        stand.adversary.kexinit(&Offer::default());
        for _ in 0..pause_ms {
            stand.adversary.subject.now += 1;
            let now = stand.now();
            stand.adversary.subject.wait_until(now);
        }
        stand.adversary.expect_kexinit();
        stand.adversary.agree();
        stand.adversary.newkeys();
        stand.adversary.expect_newkeys();
        stand.next_key = Some(stand.now() + 1);
        stand.run(100);
        let beside = stand.run(300);
        assert!(!stand.adversary.subject.has_ended());
        assert!(
            beside >= before * 97 / 100,
            "{pause_ms} ms: {beside} of {before}"
        );
    }
}
