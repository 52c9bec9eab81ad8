//! Encoder and decoder compared with zlib-rs: every level, every flush, data of every kind.

use zlib_rs::{Deflate, DeflateFlush, Inflate, InflateFlush, Status};

use super::{Carry, EncodeOutcome, Engine, Gaps, PacketDecoder, PayloadSource, Window, store};
use crate::error::InflateError;
use crate::provider::Flush;

const LIMIT: usize = 1 << 20;

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Bytes of one of several kinds.
pub(crate) fn data(kind: usize, len: usize, random: &mut Random) -> Vec<u8> {
    let words: Vec<Vec<u8>> = (0..200)
        .map(|_| {
            (0..2 + random.below(7))
                .map(|_| b'a' + random.below(20) as u8)
                .collect()
        })
        .collect();
    let mut out = Vec::with_capacity(len + 300);
    while out.len() < len {
        match kind % 8 {
            0 => out.push(random.next() as u8),
            1 => out.push(0),
            2 => {
                let at = random.below(words.len());
                let at = random.below(at + 1);
                out.extend_from_slice(&words[at]);
                out.push(b' ');
            }
            3 => out.push(b'0' + random.below(4) as u8),
            // Alternating runs and noise.
            4 => {
                let byte = random.next() as u8;
                let run = random.below(600);
                out.extend(std::iter::repeat_n(byte, run));
                out.extend((0..random.below(30)).map(|_| random.next() as u8));
            }
            // Copies of earlier parts, from random positions.
            5 => {
                if out.len() < 50 || random.below(4) == 0 {
                    out.extend((0..20).map(|_| random.next() as u8));
                } else {
                    let from = random.below(out.len());
                    let count = random.below(400).min(out.len() - from);
                    out.extend_from_within(from..from + count);
                }
            }
            // Records with fields that change little.
            6 => {
                let number = (out.len() / 16) as u32;
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(&(number / 7).to_be_bytes());
                out.extend_from_slice(b"\0\0\x01\x02");
                out.extend_from_slice(&[random.below(3) as u8; 4]);
            }
            // Short periods.
            _ => {
                let period = 2 + random.below(9);
                let unit: Vec<u8> = (0..period).map(|_| random.next() as u8).collect();
                let times = random.below(80);
                out.extend(unit.repeat(times));
            }
        }
    }
    out.truncate(len);
    out
}

fn payloads(seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    let lengths = [
        1,
        2,
        3,
        4,
        5,
        9,
        60,
        257,
        258,
        259,
        1000,
        1023,
        1024,
        5000,
        32 * 1024,
        33_000,
        65_535,
        65_536,
        100_000,
    ];
    let mut all: Vec<_> = lengths
        .iter()
        .enumerate()
        .map(|(index, len)| data(index + seed as usize, *len, &mut random))
        .collect();
    for kind in 0..8 {
        all.push(data(kind, 32 * 1024, &mut random));
        all.push(data(kind, random.below(3000) + 1, &mut random));
    }
    all
}

/// A serial sender, without the stream header.
struct Sender {
    engine: Engine,
    window: Window,
    carry: Carry,
}

impl Sender {
    fn new() -> Self {
        Self {
            engine: Engine::new(),
            window: Window::default(),
            carry: Carry::default(),
        }
    }

    fn send(&mut self, payload: &[u8], level: u8, flush: Flush) -> Vec<u8> {
        let cut = self.window.make_room(payload.len());
        self.engine.shift(cut);
        let start = self.window.len();
        self.window.push(payload);
        let mut out = Vec::new();
        let source = PayloadSource {
            window: &self.window,
            gaps: &Gaps::default(),
        };
        let piece = self
            .engine
            .encode(source, start, level, flush, &mut self.carry, &mut out)
            .unwrap();
        if piece == EncodeOutcome::Stored {
            assert!(out.is_empty());
            store(payload, &mut self.carry, &mut out).complete(payload, &mut out);
        }
        out
    }
}

/// zlib-rs reads `packet` whole and gives exactly `payload`.
fn oracle_takes(oracle: &mut Inflate, packet: &[u8], payload: &[u8]) {
    let mut out = vec![0; payload.len() + 300];
    let (before_in, before_out) = (oracle.total_in(), oracle.total_out());
    let status = oracle
        .decompress(packet, &mut out, InflateFlush::SyncFlush)
        .unwrap();
    assert_eq!(status, Status::Ok);
    assert_eq!(oracle.total_in() - before_in, packet.len() as u64);
    let made = (oracle.total_out() - before_out) as usize;
    assert!(out[..made] == *payload, "{made} of {} bytes", payload.len());
}

#[test]
fn the_oracle_reads_every_level_and_flush() {
    for level in 1..=9 {
        for flush in [Flush::Partial, Flush::Sync] {
            let mut sender = Sender::new();
            let mut oracle = Inflate::new(false, 15);
            for payload in payloads(u64::from(level)) {
                let packet = sender.send(&payload, level, flush);
                let growth = packet.len().saturating_sub(payload.len());
                let blocks = payload.len().div_ceil(65_535);
                assert!(growth <= 6 * blocks + 5, "{growth} at level {level}");
                oracle_takes(&mut oracle, &packet, &payload);
            }
        }
    }
}

#[test]
fn levels_and_flushes_change_from_payload_to_payload() {
    let mut random = Random::new(7);
    for seed in 0..6 {
        let mut sender = Sender::new();
        let mut oracle = Inflate::new(false, 15);
        let mut decoder = PacketDecoder::new();
        let mut header = vec![0x78, 0x9c];
        for payload in payloads(seed) {
            let level = 1 + random.below(9) as u8;
            let flush = if random.below(2) == 0 {
                Flush::Partial
            } else {
                Flush::Sync
            };
            if random.below(5) == 0 {
                sender.engine.change_window();
            }
            if random.below(9) == 0 {
                sender.engine = Engine::new();
            }
            let packet = sender.send(&payload, level, flush);
            oracle_takes(&mut oracle, &packet, &payload);
            header.extend_from_slice(&packet);
            let mut out = Vec::new();
            decoder.decode(&header, &mut out, LIMIT).unwrap();
            assert!(out == payload);
            assert!(!decoder.is_resumable());
            header.clear();
        }
    }
}

fn oracle_packet(oracle: &mut Deflate, payload: &[u8], flush: DeflateFlush) -> Vec<u8> {
    let mut out = vec![0; payload.len() * 2 + 1000];
    let before = oracle.total_out();
    oracle.compress(payload, &mut out, flush).unwrap();
    out.truncate((oracle.total_out() - before) as usize);
    out
}

#[test]
fn the_decoder_reads_what_the_oracle_writes() {
    for level in 0..=9 {
        for flush in [DeflateFlush::PartialFlush, DeflateFlush::SyncFlush] {
            let mut oracle = Deflate::new(level, true, 15);
            let mut decoder = PacketDecoder::new();
            for payload in payloads(level as u64 + 20) {
                let packet = oracle_packet(&mut oracle, &payload, flush);
                let mut out = b"kept".to_vec();
                decoder.decode(&packet, &mut out, LIMIT).unwrap();
                assert_eq!(&out[..4], b"kept");
                assert!(out[4..] == payload);
                assert!(!decoder.is_resumable(), "level {level} {flush:?}");
            }
        }
    }
}

#[test]
fn a_stream_that_is_not_flushed_goes_on_resumably() {
    for (seed, before) in [
        (1, 0),
        (2, 1),
        (3, 2),
        (4, 3),
        (5, 4),
        (6, 5),
        (7, 6),
        (8, 7),
    ] {
        let mut oracle = Deflate::new(6, true, 15);
        let mut decoder = PacketDecoder::new();
        let mut random = Random::new(seed);
        let mut sent = Vec::new();
        let mut received = Vec::new();
        for _ in 0..before {
            let payload = data(2, 1 + random.below(2000), &mut random);
            let packet = oracle_packet(&mut oracle, &payload, DeflateFlush::PartialFlush);
            sent.extend_from_slice(&payload);
            decoder.decode(&packet, &mut received, LIMIT).unwrap();
        }
        // A packet cut anywhere.
        for _ in 0..5 {
            let payload = data(2, 20_000, &mut random);
            let packet = oracle_packet(&mut oracle, &payload, DeflateFlush::PartialFlush);
            sent.extend_from_slice(&payload);
            let cut = 1000 + random.below(packet.len() - 1000);
            let (first, second) = packet.split_at(cut);
            for piece in [first, second] {
                match decoder.decode(piece, &mut received, LIMIT) {
                    Ok(()) | Err(InflateError::Empty) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        assert!(decoder.is_resumable());
        assert!(sent == received, "seed {seed}");
    }
}

/// Bits of a static block, as PuTTY sends them.
#[derive(Default)]
struct StaticBits {
    bits: Vec<bool>,
}

impl StaticBits {
    fn low_first(&mut self, value: u32, count: u32) {
        self.bits.extend((0..count).map(|at| value >> at & 1 == 1));
    }

    fn literal(&mut self, byte: u8) {
        let (code, count) = match byte {
            0..=143 => (0x30 + u32::from(byte), 8),
            _ => (0x190 + u32::from(byte) - 144, 9),
        };
        self.bits
            .extend((0..count).rev().map(|at| code >> at & 1 == 1));
    }

    /// Whole bytes; the rest stays.
    fn take(&mut self) -> Vec<u8> {
        let whole = self.bits.len() / 8 * 8;
        let bytes = self.bits[..whole]
            .chunks(8)
            .map(|bits| {
                bits.iter()
                    .enumerate()
                    .map(|(at, bit)| u8::from(*bit) << at)
                    .sum()
            })
            .collect();
        self.bits.drain(..whole);
        bytes
    }
}

#[test]
fn a_static_block_left_open_is_carried_on() {
    let mut bits = StaticBits::default();
    let mut decoder = PacketDecoder::new();
    let mut first = vec![0x78, 0x9c];
    bits.low_first(0b010, 3);
    for round in 0..300_u32 {
        let payload: Vec<u8> = (0..1 + round % 23)
            .map(|at| (at * 37 + round) as u8)
            .collect();
        for byte in &payload {
            bits.literal(*byte);
        }
        // The end of the block, an empty one, and the beginning of the next.
        bits.low_first(0, 7);
        bits.low_first(0b010, 10);
        bits.low_first(0b010, 3);
        first.extend(bits.take());
        let mut out = Vec::new();
        decoder.decode(&first, &mut out, LIMIT).unwrap();
        assert_eq!(out, payload);
        assert!(!decoder.is_resumable());
        first.clear();
    }
}

#[test]
fn damaged_packets_are_refused_as_the_oracle_refuses_them() {
    let mut random = Random::new(99);
    let mut refused = 0;
    for round in 0..3000 {
        let len = 1 + random.below(3000);
        let payload = data(round, len, &mut random);
        let mut sender = Sender::new();
        let mut packet = vec![0x78, 0x9c];
        packet.extend(sender.send(&payload, 1 + (round % 9) as u8, Flush::Sync));
        let mut second = sender.send(&payload, 6, Flush::Partial);
        for _ in 0..1 + random.below(3) {
            let target = if random.below(2) == 0 {
                &mut packet
            } else {
                &mut second
            };
            let at = random.below(target.len());
            target[at] ^= 1 << random.below(8);
        }
        let mut decoder = PacketDecoder::new();
        let mut oracle = Inflate::new(true, 15);
        for piece in [packet, second] {
            let mut theirs = vec![0; 64 * 1024];
            let status = oracle.decompress(&piece, &mut theirs, InflateFlush::SyncFlush);
            let made = oracle.total_out();
            let mut ours = Vec::new();
            let result = decoder.decode(&piece, &mut ours, 48 * 1024);
            match (status, result) {
                (Ok(Status::Ok), Ok(())) => {
                    assert!(theirs.starts_with(&ours), "round {round}");
                }
                // Allowed differences: the end of a stream, an empty packet, the limit, and that
                // they may write output before they detect an error.
                (_, Err(_)) => {
                    refused += 1;
                    break;
                }
                (other, Ok(())) => {
                    panic!("round {round}: {other:?}, {made} bytes, and ours took it")
                }
            }
            if oracle.total_out() != ours.len() as u64 {
                break;
            }
        }
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn long_runs_and_far_matches_keep_their_bytes() {
    for kind in 0..8 {
        for level in [1, 3, 6, 8] {
            let mut random = Random::new(kind as u64);
            let mut sender = Sender::new();
            let mut decoder = PacketDecoder::new();
            let mut oracle = Inflate::new(true, 15);
            let mut lead = vec![0x78, 0x9c];
            // Past several moves of the window.
            for _ in 0..24 {
                let payload = data(kind, 31_000, &mut random);
                let mut packet = std::mem::take(&mut lead);
                packet.extend(sender.send(&payload, level, Flush::Sync));
                oracle_takes(&mut oracle, &packet, &payload);
                let mut out = Vec::new();
                decoder.decode(&packet, &mut out, LIMIT).unwrap();
                assert!(out == payload);
            }
        }
    }
}

/// Each part is the concatenation of the two before it (a Fibonacci word): no period, but
/// everything repeats.
fn fibonacci(len: usize) -> Vec<u8> {
    let (mut shorter, mut longer) = (b"a".to_vec(), b"ab".to_vec());
    while longer.len() < len {
        let next = [longer.as_slice(), &shorter].concat();
        shorter = std::mem::replace(&mut longer, next);
    }
    longer.truncate(len);
    longer
}

/// Hundreds of positions with the same beginning and end, each one byte longer than the last.
fn ladder(len: usize, random: &mut Random) -> Vec<u8> {
    let unit = data(0, 300, random);
    let mut out = Vec::with_capacity(len + 600);
    while out.len() < len {
        for cut in 4..260 {
            out.extend_from_slice(&unit[..cut]);
            out.push(random.next() as u8);
        }
    }
    out.truncate(len);
    out
}

#[test]
fn plans_keep_their_bytes_and_their_memory() {
    let mut random = Random::new(11);
    let mut hostile = vec![fibonacci(200_000), ladder(200_000, &mut random)];
    for period in [1, 2, 3, 7, 31, 255, 259, 4096, 32_767, 32_768, 32_769] {
        let unit = data(0, period, &mut random);
        hostile.push(unit.iter().copied().cycle().take(100_000).collect());
    }
    // Every place has matches of many lengths.
    hostile.push(data(3, 100_000, &mut random));
    hostile.push((0..100_000).map(|_| random.below(2) as u8).collect());
    for level in [8, 9] {
        for bytes in &hostile {
            let mut sender = Sender::new();
            let mut oracle = Inflate::new(false, 15);
            for payload in bytes.chunks(32 * 1024) {
                let packet = sender.send(payload, level, Flush::Sync);
                oracle_takes(&mut oracle, &packet, payload);
            }
            let packet = sender.send(bytes, level, Flush::Partial);
            oracle_takes(&mut oracle, &packet, bytes);
            assert!(sender.engine.has_spare());
            assert!(sender.engine.plan_bytes() <= 900 * 1024);
            sender.engine.shed();
            assert_eq!(sender.engine.plan_bytes(), 0);
        }
    }
}

#[test]
fn more_effort_makes_less_and_the_most_less_than_the_oracle_can() {
    for kind in [2, 3, 5, 6] {
        let mut random = Random::new(kind as u64 + 40);
        let payloads: Vec<Vec<u8>> = (0..8).map(|_| data(kind, 32 * 1024, &mut random)).collect();
        let made = |level| -> usize {
            let mut sender = Sender::new();
            let packets = payloads.iter();
            packets
                .map(|it| sender.send(it, level, Flush::Sync).len())
                .sum()
        };
        let mut oracle = Deflate::new(9, false, 15);
        let packets = payloads.iter();
        let theirs: usize = packets
            .map(|it| oracle_packet(&mut oracle, it, DeflateFlush::SyncFlush).len())
            .sum();
        let (quick, usual, much, most) = (made(1), made(6), made(8), made(9));
        assert!(most <= much && much < usual && usual < quick, "kind {kind}");
        // There are enough copies of copies that examining more of them pays.
        let part = if kind == 5 { 104 } else { 99 };
        assert!(most * 100 < theirs * part, "kind {kind}: {most}, {theirs}");
    }
}

#[test]
fn plans_go_on_where_other_levels_have_been() {
    let mut random = Random::new(5);
    let mut sender = Sender::new();
    let mut oracle = Inflate::new(false, 15);
    for round in 0..120 {
        let len = [300, 511, 512, 5000, 32 * 1024, 41_000][random.below(6)];
        let payload = data(round, len, &mut random);
        let level = [1, 6, 8, 9][random.below(4)];
        let packet = sender.send(&payload, level, Flush::Sync);
        oracle_takes(&mut oracle, &packet, &payload);
    }
}

/// The previous content of tables must not influence the next channel that gets them.
#[test]
fn tables_that_change_hands_are_as_new() {
    for level in 1..=9 {
        let mut random = Random::new(u64::from(level));
        let mut sender = Sender::new();
        assert!(sender.engine.is_clear());
        for kind in 0..8 {
            sender.send(&data(kind, 9000, &mut random), level, Flush::Sync);
        }
        assert!(!sender.engine.is_clear(), "level {level}");
        sender.engine.clear();
        assert!(sender.engine.is_clear(), "level {level}");
        // The remaining content has no influence.
        let mut fresh = Sender::new();
        sender.window.clear();
        for kind in 0..8 {
            let payload = data(kind, 30_000, &mut random);
            let packet = sender.send(&payload, level, Flush::Sync);
            assert!(
                packet == fresh.send(&payload, level, Flush::Sync),
                "level {level}"
            );
        }
    }
}
