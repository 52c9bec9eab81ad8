//! Many channels in one stream, decoded by another inflate implementation: every distance
//! translated from a channel's window to the stream must refer to the right bytes.

use crate::PacketCompressor;
use zlib_rs::{Inflate, InflateFlush, Status};

use crate::deflate::tests::{Random, data};
use crate::run::{RunDone, RunJob};
use crate::{CompressionSettings, Compressor, Encoded, Origin, ZstdCompressor};

/// Payloads of a run that is not finished yet: the index of its first packet, and the run.
struct Pending {
    first: usize,
    job: RunJob,
}

/// A stream whose packets are made in any order and read in the order of the stream.
struct Stream {
    compressor: Compressor,
    /// Payloads since the last reset, and their packets if they have been encoded.
    sent: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pending: Vec<Pending>,
}

impl Stream {
    fn new(settings: CompressionSettings) -> Self {
        Self {
            compressor: Compressor::new(settings),
            sent: Vec::new(),
            pending: Vec::new(),
        }
    }

    fn serial(&mut self, origin: Origin, payload: Vec<u8>) {
        let mut out = Vec::new();
        let form = self
            .compressor
            .compress_around(origin, &payload, &mut out)
            .unwrap();
        form.complete(&payload, &mut out);
        self.sent.push((payload, Some(out)));
    }

    fn begin_run(&mut self, channel: u64, payloads: Vec<Vec<u8>>) {
        let job = self
            .compressor
            .begin_run(channel, payloads.iter().map(Vec::as_slice));
        let first = self.sent.len();
        self.pending.push(Pending { first, job });
        self.sent
            .extend(payloads.into_iter().map(|payload| (payload, None)));
    }

    /// Makes the packets of the run at `index` of those that are pending.
    fn make(&mut self, index: usize) -> RunDone {
        let Pending { first, job } = self.pending.swap_remove(index);
        let mut places = self.sent[first..].iter_mut();
        job.run(|encoded| {
            let (payload, packet) = places.next().unwrap();
            *packet = Some(match encoded {
                Encoded::Stored { header } => [header, &payload[..]].concat(),
                Encoded::Deflated(bytes) => bytes.to_vec(),
            });
        })
        .unwrap()
    }

    /// Encodes the remaining runs in random order.
    fn make_all(&mut self, random: &mut Random) {
        while !self.pending.is_empty() {
            let done = self.make(random.below(self.pending.len()));
            self.compressor.finish_run(&done);
        }
    }

    /// Reads all packets since the last reset as one stream.
    fn check(&mut self, name: &str) {
        let mut oracle = Inflate::new(true, 15);
        let mut plain = Vec::new();
        for (index, (payload, packet)) in self.sent.drain(..).enumerate() {
            plain.clear();
            plain.resize(payload.len() + 64, 0);
            let before = oracle.total_out();
            let status = oracle.decompress(&packet.unwrap(), &mut plain, InflateFlush::SyncFlush);
            assert_eq!(status, Ok(Status::Ok), "{name}, payload {index}");
            let came = usize::try_from(oracle.total_out() - before).unwrap();
            assert!(plain[..came] == payload[..], "{name}, payload {index}");
        }
    }
}

/// Text that all channels draw from, so that each repeats itself at every distance.
fn pool(random: &mut Random) -> Vec<Vec<u8>> {
    let mut pool: Vec<_> = (0..8).map(|kind| data(kind, 70_000, random)).collect();
    pool.push(vec![b'x'; 70_000]);
    pool
}

fn payload(pool: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    // As many sizes of each order of magnitude, up to 64 KiB.
    let most = 1 << (1 + random.below(16));
    let len = 1 + random.below(most);
    let from = &pool[random.below(pool.len())];
    let start = random.below(from.len() - len);
    from[start..start + len].to_vec()
}

#[test]
fn any_interleaving_is_read_by_another_inflate() {
    for round in 0..36 {
        let mut random = Random::new(1000 + round);
        let (level, adaptive) = (1 + (round % 9) as u8, round / 9 % 2 == 1);
        let name = format!("round {round}");
        let channels = [2, 3, 5, 12][random.below(4)];
        let pool = pool(&mut random);
        let mut stream = Stream::new(CompressionSettings { level, adaptive });
        for _ in 0..160 {
            let channel = random.below(channels) as u64;
            match random.below(100) {
                0..50 => stream.serial(Origin::Channel(channel), payload(&pool, &mut random)),
                50..75 => {
                    let count = 1 + random.below(8);
                    let payloads = (0..count).map(|_| payload(&pool, &mut random)).collect();
                    stream.begin_run(channel, payloads);
                }
                75..85 => {
                    let origin = [Origin::Other, Origin::Ping, Origin::Opening][random.below(3)];
                    let mut bytes = payload(&pool, &mut random);
                    bytes.truncate(400);
                    stream.serial(origin, bytes);
                }
                85..92 if !stream.pending.is_empty() => {
                    let index = random.below(stream.pending.len());
                    let done = stream.make(index);
                    stream.compressor.finish_run(&done);
                }
                92..95 => stream.compressor.shed(),
                95..98 => stream
                    .compressor
                    .set_level([6, 9, 1, 3, 0][random.below(5)]),
                98 => {
                    stream.make_all(&mut random);
                    stream.check(&name);
                    stream.compressor.reset();
                }
                _ => {}
            }
        }
        stream.make_all(&mut random);
        stream.check(&name);
    }
}

/// Repeats a channel's bytes after `own` bytes of that channel and `foreign` bytes of another;
/// returns the length of their second packet.
fn again(level: u8, by_run: bool, own: usize, foreign: usize) -> usize {
    let mut random = Random::new(5);
    let (secret, filler) = (data(0, 300, &mut random), data(0, own, &mut random));
    let mut stream = Stream::new(CompressionSettings {
        level,
        adaptive: false,
    });
    let half = secret.len() / 2;
    // The second half of the repeated bytes follows the foreign bytes.
    stream.serial(Origin::Channel(1), secret[..half].to_vec());
    stream.serial(Origin::Channel(2), data(0, foreign, &mut random));
    stream.serial(Origin::Channel(1), secret[half..].to_vec());
    stream.serial(Origin::Channel(1), filler);
    if by_run {
        stream.begin_run(1, vec![secret]);
        stream.make_all(&mut random);
    } else {
        stream.serial(Origin::Channel(1), secret);
    }
    let length = stream.sent.last().and_then(|(_, packet)| packet.as_ref());
    let length = length.map_or(0, Vec::len);
    stream.check(&format!("{own} own, {foreign} foreign, level {level}"));
    length
}

#[test]
fn a_match_reaches_over_a_gap_as_far_as_deflate_does_and_no_farther() {
    const MOST: usize = 32 * 1024;
    for level in 1..=9 {
        for by_run in [false, true] {
            for foreign in [1, 258, 3000, 20_000] {
                // 300 bytes of the channel and the other channel's bytes are between a byte and its
                // repetition.
                let farthest = MOST - 300 - foreign;
                let lengths = |own: usize| again(level, by_run, own, foreign);
                let near = lengths(farthest - 400);
                assert!(near < 60, "level {level}, {foreign} foreign: {near}");
                for own in farthest - 2..=farthest + 2 {
                    lengths(own);
                }
                for own in [farthest - 1, farthest + 150, farthest + foreign - 1] {
                    lengths(own);
                }
                // Out of reach: as long as for random bytes.
                let far = lengths(farthest + foreign + 300);
                assert!(far >= 300, "level {level}, {foreign} foreign: {far}");
            }
        }
    }
}

/// A step of a connection: a message, a run, freed memory, a new stream or another level.
enum Step {
    Send(Origin, Vec<u8>),
    Run(u64, Vec<Vec<u8>>),
    Shed,
    Reset,
    Level(u8),
}

/// Steps of 12 channels; the data of all channels but the first depend on `others`.
fn steps(seed: u64, others: u64) -> Vec<Step> {
    let mut random = Random::new(seed);
    let pool = pool(&mut random);
    let mut others = Random::new(others);
    let mut bytes = |channel: u64, most: usize, random: &mut Random| {
        let mut own = payload(&pool, random);
        own.truncate(most);
        if channel == 0 {
            return own;
        }
        let mut other = data(others.below(8), own.len(), &mut others);
        other.truncate(own.len());
        other
    };
    let mut all: Vec<_> = (0..2)
        .map(|_| Step::Send(Origin::Opening, b"an open".to_vec()))
        .collect();
    for index in 0..250 {
        // Few channels for a while, then many: histories and tables are kept, then change hands.
        let channels = if index / 60 % 2 == 0 { 2 } else { 12 };
        let channel = random.below(channels) as u64;
        let most = if random.below(4) == 0 { 40_000 } else { 700 };
        all.push(match random.below(20) {
            0..12 => Step::Send(Origin::Channel(channel), bytes(channel, most, &mut random)),
            12..15 => {
                let count = 1 + random.below(8);
                let payloads = (0..count).map(|_| bytes(channel, most, &mut random));
                Step::Run(channel, payloads.collect())
            }
            15 => Step::Send(Origin::Other, bytes(1, 700, &mut random)),
            16 => Step::Send(Origin::Ping, bytes(1, 100, &mut random)),
            17 => Step::Shed,
            18 => Step::Reset,
            _ => Step::Level([6, 9, 1, 3, 0][random.below(5)]),
        });
    }
    all
}

/// The packets of the first channel, by zlib.
fn first_channel(settings: CompressionSettings, steps: &[Step]) -> Vec<Vec<u8>> {
    let mut compressor = Compressor::new(settings);
    let mut packets = Vec::new();
    for step in steps {
        match step {
            Step::Send(origin, payload) => {
                let mut out = Vec::new();
                let form = compressor
                    .compress_around(*origin, payload, &mut out)
                    .unwrap();
                form.complete(payload, &mut out);
                if *origin == Origin::Channel(0) {
                    packets.push(out);
                }
            }
            Step::Run(channel, payloads) => {
                let job = compressor.begin_run(*channel, payloads.iter().map(Vec::as_slice));
                let mut places = payloads.iter();
                let done = job.run(|encoded| {
                    let payload = places.next().unwrap();
                    if *channel == 0 {
                        packets.push(match encoded {
                            Encoded::Stored { header } => [header, &payload[..]].concat(),
                            Encoded::Deflated(bytes) => bytes.to_vec(),
                        });
                    }
                });
                compressor.finish_run(&done.unwrap());
            }
            Step::Shed => compressor.shed(),
            Step::Reset => compressor.reset(),
            Step::Level(level) => compressor.set_level(*level),
        }
    }
    packets
}

/// Like the packets by zlib, but by zstd, which has no runs.
fn first_channel_by_zstd(settings: CompressionSettings, steps: &[Step]) -> Vec<Vec<u8>> {
    let mut compressor = ZstdCompressor::new(settings);
    let mut packets = Vec::new();
    let mut send = |compressor: &mut ZstdCompressor, origin: Origin, payload: &[u8]| {
        let mut out = Vec::new();
        let form = compressor
            .compress_around(origin, payload, &mut out)
            .unwrap();
        form.complete(payload, &mut out);
        if origin == Origin::Channel(0) {
            packets.push(out);
        }
    };
    for step in steps {
        match step {
            Step::Send(origin, payload) => send(&mut compressor, *origin, payload),
            Step::Run(channel, payloads) => {
                for payload in payloads {
                    send(&mut compressor, Origin::Channel(*channel), payload);
                }
            }
            Step::Shed => compressor.shed(),
            Step::Reset => compressor.reset(),
            Step::Level(level) => compressor.set_level(*level),
        }
    }
    packets
}

/// The first channel's packets do not depend on the other channels' data of the same lengths: with
/// more channels than histories, runs and single payloads, freed memory and new streams in between.
#[test]
fn what_eleven_other_channels_send_changes_no_packet_of_the_first() {
    for seed in 0..18 {
        let settings = CompressionSettings {
            level: 1 + (seed % 9) as u8,
            adaptive: seed >= 9,
        };
        let (one, other) = (steps(seed, 7), steps(seed, 8));
        let packets = first_channel(settings, &one);
        assert!(packets.len() > 40);
        assert!(packets == first_channel(settings, &other), "seed {seed}");
        if seed % 3 == 0 {
            let packets = first_channel_by_zstd(settings, &one);
            let again = first_channel_by_zstd(settings, &other);
            assert!(packets == again, "zstd, seed {seed}");
        }
    }
}
