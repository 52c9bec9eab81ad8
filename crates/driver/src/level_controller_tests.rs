//! Levels on simulated lines: window by window, and packet by packet.

use std::collections::{BTreeMap, VecDeque};

use super::level_controller::{Activity, ByteTotals, LevelController};

/// Speed of each level, bytes a second, and its compression ratio.
fn speed(level: u8) -> (f64, f64) {
    match level {
        0 => (1200e6, 1.0),
        1 => (150e6, 2.2),
        2..=3 => (110e6, 2.26),
        4..=6 => (75e6, 2.33),
        _ => (20e6, 2.36),
    }
}

/// A sender whose packets pass through a line, window by window.
struct Sender {
    level_controller: LevelController,
    now_us: f64,
    bytes: f64,
    seed: u64,
    /// Relative variation of a window's speed.
    noise: f64,
    /// The level after each window.
    levels: Vec<u8>,
}

impl Sender {
    fn new(asked: u8) -> Self {
        Self {
            level_controller: LevelController::new(asked, 0, ByteTotals::default()),
            now_us: 0.0,
            bytes: 0.0,
            seed: 7,
            noise: 0.0,
            levels: Vec::new(),
        }
    }

    #[allow(clippy::cast_precision_loss)] // 53 bits.
    fn chance(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Runs `windows` windows over a line of `line` bytes a second, from a source of `source` bytes
    /// a second, with `cores` that compress.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Counts.
    fn send(&mut self, windows: usize, line: f64, source: f64, cores: f64) {
        for _ in 0..windows {
            let level = self.level_controller.level();
            let (engine, ratio) = speed(level);
            let engine = if level == 0 { engine } else { engine * cores };
            let swing = 1.0 + self.noise * (2.0 * self.chance() - 1.0);
            let able = engine * swing;
            let rate = able.min(line * ratio).min(source);
            // Ten steps a window, some of them spent waiting.
            let wall = 25_000_f64.max(1.2e6 * 1e6 / rate);
            for _ in 0..10 {
                self.level_controller
                    .resume(self.now_us as u64, self.through());
                let work = wall / 10.0 * rate / able;
                self.level_controller
                    .does(Activity::Wait, (self.now_us + work) as u64);
                self.now_us += wall / 10.0;
                self.bytes += rate * wall / 10e6;
            }
            self.level_controller
                .resume(self.now_us as u64, self.through());
            self.level_controller
                .does(Activity::Wait, self.now_us as u64);
            self.levels.push(self.level_controller.level());
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A count.
    fn through(&self) -> ByteTotals {
        ByteTotals {
            raw: self.bytes as u64,
            ..ByteTotals::default()
        }
    }

    fn share(&self, from: usize, level: u8) -> usize {
        let behind = &self.levels[from..];
        100 * behind.iter().filter(|each| **each == level).count() / behind.len()
    }
}

const ENDLESS: f64 = 1e12;

#[test]
fn a_slow_line_gets_the_level_asked_for() {
    for asked in [1, 3, 6, 9] {
        for line in [30e3, 1e6, 5e6] {
            let mut sender = Sender::new(asked);
            sender.noise = 0.1;
            sender.send(200, line, ENDLESS, 1.0);
            assert_eq!(sender.share(0, asked), 100, "level {asked}, {line} bytes/s");
        }
    }
}

#[test]
fn a_fast_line_is_not_kept_waiting() {
    let mut sender = Sender::new(6);
    sender.send(8, 2000e6, ENDLESS, 1.0);
    assert_eq!(sender.levels[..3], [3, 1, 0], "step by step, and soon");
    sender.noise = 0.2;
    sender.send(300, 2000e6, ENDLESS, 1.0);
    assert!(sender.share(3, 0) >= 95, "{}", sender.share(3, 0));
}

#[test]
fn between_them_is_the_level_that_brings_most() {
    // 60 MB/s: stored 60, level 1 132, level 3 110 with time left for nothing.
    let mut sender = Sender::new(6);
    sender.send(400, 60e6, ENDLESS, 1.0);
    let (first, third) = (sender.share(20, 1), sender.share(20, 3));
    assert!(first + third >= 90, "{first} and {third}");
    assert!(sender.share(20, 0) <= 6, "{}", sender.share(20, 0));
    // Varying rates cause more trials but must not change the result.
    sender.noise = 0.15;
    let from = sender.levels.len();
    sender.send(400, 60e6, ENDLESS, 1.0);
    let lost = sender.share(from, 0) + sender.share(from, 6);
    assert!(lost <= 20, "{lost}");
}

#[test]
fn a_line_that_fills_brings_the_level_back() {
    let mut sender = Sender::new(9);
    sender.send(50, 2000e6, ENDLESS, 1.0);
    assert_eq!(sender.level_controller.level(), 0);
    sender.send(150, 3e6, ENDLESS, 1.0);
    assert_eq!(sender.level_controller.level(), 9);
}

#[test]
fn a_source_that_is_slow_leaves_the_time_for_more() {
    let mut sender = Sender::new(6);
    sender.send(50, 2000e6, ENDLESS, 1.0);
    sender.send(150, 2000e6, 20e6, 1.0);
    assert_eq!(sender.level_controller.level(), 6);
}

#[test]
fn more_cores_raise_it() {
    let mut sender = Sender::new(6);
    sender.send(100, 60e6, ENDLESS, 1.0);
    assert_ne!(sender.level_controller.level(), 6);
    sender.send(200, 60e6, ENDLESS, 8.0);
    assert_eq!(sender.level_controller.level(), 6);
}

#[test]
fn turns_of_little_data_lower_the_level_of_a_slow_processor() {
    // 50 kB a turn, as tar fills a pipe, at 2 MB/s.
    let mut controller = LevelController::new(9, 0, ByteTotals::default());
    let mut through = ByteTotals::default();
    let mut has_tried = false;
    for turn in 1..200 {
        controller.resume(turn * 25_000, through);
        has_tried |= controller.level() < 9;
        through.raw += 50_000;
        through.compressed += 20_000;
        through.sent += 20_000;
    }
    assert!(has_tried);
}

#[test]
fn little_traffic_decides_nothing() {
    let mut controller = LevelController::new(6, 0, ByteTotals::default());
    let mut through = ByteTotals::default();
    for now_ms in 1..10_000 {
        assert!(!controller.resume(now_ms * 1000, through));
        through.raw += 50;
        through.compressed += 50;
        through.sent += 80;
        assert!(!controller.runs_dry(now_ms * 1000 + 900, through, || Some(0)));
        controller.does(Activity::Wait, now_ms * 1000 + 900);
    }
    assert_eq!(controller.level(), 6);
}

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
/// Maximum bytes of one read of the source.
const QUEUE: f64 = 512.0 * KIB;
const PACKET: f64 = 32.0 * KIB;
const SEGMENT: f64 = 1448.0;

/// A socket and the line: written bytes leave at the line's speed and are acknowledged a round trip
/// later.
struct Line {
    speed: f64,
    round_trip_us: f64,
    free_us: f64,
    /// Times of acknowledgements, and their bytes.
    under_way: VecDeque<(f64, f64)>,
    under_way_bytes: f64,
    acknowledged: f64,
}

impl Line {
    fn new(speed: f64, round_trip_us: f64) -> Self {
        Self {
            speed,
            round_trip_us,
            free_us: 0.0,
            under_way: VecDeque::new(),
            under_way_bytes: 0.0,
            acknowledged: 0.0,
        }
    }

    /// Bytes that may be in flight: a window that grows with each acknowledgement up to what fills
    /// the line, plus some unsent bytes.
    fn room(&self) -> f64 {
        let window = 10.0 * SEGMENT + self.acknowledged;
        128.0 * KIB + window.min(self.speed * self.round_trip_us / 1e6)
    }

    fn acknowledge(&mut self, now_us: f64) {
        while let Some((_, bytes)) = self.under_way.pop_front_if(|(at, _)| *at <= now_us) {
            self.under_way_bytes -= bytes;
            self.acknowledged += bytes;
        }
    }

    fn write(&mut self, now_us: f64, bytes: f64) {
        let mut left = bytes;
        while left > 0.0 {
            let segment = left.min(SEGMENT);
            self.free_us = self.free_us.max(now_us) + segment * 1e6 / self.speed;
            let at = self.free_us + self.round_trip_us;
            self.under_way.push_back((at, segment));
            left -= segment;
        }
        self.under_way_bytes += bytes;
    }

    /// Time at which half of the socket's buffer is free.
    fn free_again_us(&self) -> f64 {
        let mut left = self.under_way_bytes;
        let mut when = 0.0;
        for (at, bytes) in &self.under_way {
            if left <= self.room() / 2.0 {
                break;
            }
            left -= bytes;
            when = *at;
        }
        when
    }
}

/// A sender of packets that works like [`SocketLink`](super::link::SocketLink).
struct Packets {
    level_controller: LevelController,
    now_us: f64,
    line: Line,
    /// By level: bytes a second and compression ratio.
    data: fn(u8) -> (f64, f64),
    raw: f64,
    compressed: f64,
    sent: f64,
    /// Bytes before compression, by level.
    at_level: BTreeMap<u8, f64>,
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Counts.
impl Packets {
    /// An open session without anything to send for a while.
    fn new(asked: u8, line: Line, data: fn(u8) -> (f64, f64)) -> Self {
        let mut packets = Self {
            level_controller: LevelController::new(asked, 0, ByteTotals::default()),
            now_us: 0.0,
            line,
            data,
            raw: 0.0,
            compressed: 0.0,
            sent: 0.0,
            at_level: BTreeMap::new(),
        };
        for _ in 0..10 {
            packets.now_us += 20_000.0;
            packets.send(200.0);
        }
        packets.now_us += 20_000.0;
        packets
    }

    fn now(&self) -> u64 {
        self.now_us as u64
    }

    fn through(&self) -> ByteTotals {
        ByteTotals {
            raw: self.raw as u64,
            compressed: self.compressed as u64,
            sent: self.sent as u64,
        }
    }

    fn send(&mut self, bytes: f64) {
        let mut left = bytes;
        while left > 0.0 {
            let queued = left.min(QUEUE);
            left -= queued;
            self.pump(queued);
            self.now_us += 30.0;
        }
    }

    fn pump(&mut self, mut queued: f64) {
        self.level_controller.resume(self.now(), self.through());
        while queued > 0.0 {
            let most = if self.level_controller.may_run_dry() {
                64.0
            } else {
                256.0
            } * KIB;
            let mut batch = 0.0;
            while queued > 0.0 && batch < most {
                let raw = queued.min(PACKET);
                queued -= raw;
                batch += self.compress(raw);
            }
            self.line.acknowledge(self.now_us);
            while self.line.under_way_bytes >= self.line.room() {
                self.level_controller.is_full(self.now());
                self.now_us = self.line.free_again_us();
                self.line.acknowledge(self.now_us);
                self.level_controller.resume(self.now(), self.through());
            }
            let (now, through) = (self.now(), self.through());
            let under_way = self.line.under_way_bytes as u64;
            self.level_controller
                .runs_dry(now, through, || Some(under_way));
            self.line.write(self.now_us, batch);
            self.sent += batch;
        }
        self.level_controller.does(Activity::Wait, self.now());
    }

    fn compress(&mut self, raw: f64) -> f64 {
        let level = self.level_controller.level();
        let (speed, ratio) = (self.data)(level);
        self.now_us += raw * 1e6 / speed;
        self.raw += raw;
        self.compressed += raw / ratio;
        *self.at_level.entry(level).or_default() += raw;
        raw / ratio
    }

    fn at(&self, level: u8) -> f64 {
        self.at_level.get(&level).copied().unwrap_or_default()
    }
}

fn mixed(level: u8) -> (f64, f64) {
    match level {
        0 => (4000e6, 1.0),
        _ => speed(level),
    }
}

fn zeros(level: u8) -> (f64, f64) {
    match level {
        0 => (4000e6, 1.0),
        _ => (2500e6, 600.0),
    }
}

#[test]
fn bulk_does_not_wait_for_a_fast_line_to_be_known() {
    for (speed, round_trip_us) in [(2000e6, 30.0), (1000e6, 100.0), (400e6, 300.0)] {
        let mut packets = Packets::new(6, Line::new(speed, round_trip_us), mixed);
        packets.send(64.0 * MIB);
        assert_eq!(packets.level_controller.level(), 0);
        let compressed = packets.raw - packets.at(0);
        let said = &packets.at_level;
        assert!(packets.at(6) <= 512.0 * KIB, "{said:?}");
        assert!(compressed <= 1.5 * MIB, "{said:?}");
    }
}

#[test]
fn a_slow_line_that_has_only_begun_to_fill_does_not_look_fast() {
    for asked in [1, 3, 6, 9] {
        for speed in [30e3, 1e6, 5e6] {
            for round_trip_us in [300.0, 20_000.0, 150_000.0] {
                let mut packets = Packets::new(asked, Line::new(speed, round_trip_us), mixed);
                packets.send(8.0 * MIB);
                let lower = packets.raw - packets.at(asked);
                // A long line accepts ever more at its start: one trial of a lower level is
                // acceptable.
                let most = if round_trip_us > 100e3 {
                    1.25 * MIB
                } else {
                    0.0
                };
                assert!(lower <= most, "{speed} bytes/s, {:?}", packets.at_level);
            }
        }
    }
}

#[test]
fn bursts_that_a_slow_line_has_room_for_are_compressed() {
    for (speed, round_trip_us) in [(5e6, 50_000.0), (5e6, 300.0), (1e6, 200_000.0)] {
        let mut packets = Packets::new(6, Line::new(speed, round_trip_us), mixed);
        for _ in 0..100 {
            packets.send(400.0 * KIB);
            packets.now_us += 300_000.0;
        }
        assert_eq!(packets.at_level.len(), 1, "{:?}", packets.at_level);
    }
}

#[test]
fn a_line_that_changes_is_followed() {
    let mut packets = Packets::new(6, Line::new(2000e6, 50.0), mixed);
    packets.send(64.0 * MIB);
    assert_eq!(packets.level_controller.level(), 0);
    packets.line.speed = 1e6;
    let (raw, full) = (packets.raw, packets.at(6));
    packets.send(32.0 * MIB);
    assert_eq!(packets.level_controller.level(), 6);
    let lower = packets.raw - raw - (packets.at(6) - full);
    assert!(lower <= 2.0 * MIB, "{lower}");
    packets.line.speed = 2000e6;
    let (raw, stored) = (packets.raw, packets.at(0));
    packets.send(32.0 * MIB);
    assert_eq!(packets.level_controller.level(), 0);
    let higher = packets.raw - raw - (packets.at(0) - stored);
    assert!(higher <= 2.0 * MIB, "{higher}");
}

#[test]
fn a_command_that_is_not_there_yet_is_no_slow_line() {
    for started_us in [5e3, 50e3, 500e3] {
        for first in [0.5, 1.0, 2.0] {
            let mut packets = Packets::new(6, Line::new(2000e6, 50.0), mixed);
            // The peer's window, which reopens when the command reads.
            packets.send(first * MIB);
            packets.now_us += started_us;
            packets.send(62.0 * MIB);
            let compressed = packets.raw - packets.at(0);
            assert!(compressed <= 1.5 * MIB, "{:?}", packets.at_level);
        }
    }
}

#[test]
fn what_is_known_to_be_slower_is_rarely_tried() {
    // With storing, this side has nearly all of its time left.
    let mut packets = Packets::new(6, Line::new(500e6, 50.0), mixed);
    packets.send(1024.0 * MIB);
    let compressed = packets.raw - packets.at(0);
    assert!(compressed <= 3.0 * MIB, "{:?}", packets.at_level);
}

#[test]
fn what_shrinks_to_nearly_nothing_is_not_stored_for_a_slow_line() {
    let mut packets = Packets::new(6, Line::new(10e6, 300.0), zeros);
    packets.send(1024.0 * MIB);
    assert!(packets.at(0) <= 0.0, "{:?}", packets.at_level);
}
