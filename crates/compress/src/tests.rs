//! Round trips, streams of stock zlib, and malicious input from a peer.

use crate::PacketCompressor;
use crate::{CompressionSettings, Compressor, Decompressor, InflateError, MAX_INFLATED_BYTES};

/// xorshift64*: bytes that do not compress, the same in each run.
fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    seed |= 1;
    (0..len)
        .map(|_| {
            seed ^= seed >> 12;
            seed ^= seed << 25;
            seed ^= seed >> 27;
            seed.wrapping_mul(0x2545_F491_4F6C_DD1D).to_be_bytes()[0]
        })
        .collect()
}

fn text(len: usize) -> Vec<u8> {
    b"the quick brown fox jumps over the lazy dog, then over SSH_MSG_CHANNEL_DATA; "
        .iter()
        .copied()
        .cycle()
        .take(len)
        .collect()
}

fn payloads() -> Vec<Vec<u8>> {
    let mut all = vec![
        vec![20],
        text(5),
        noise(1, 3),
        text(32 * 1024),
        vec![0; 32 * 1024],
    ];
    for len in [
        2,
        63,
        64,
        65,
        1000,
        4095,
        4096,
        4097,
        32 * 1024,
        100_000,
        256 * 1024,
    ] {
        all.push(noise(len, len as u64));
        all.push(text(len));
    }
    all
}

fn deflate(compressor: &mut Compressor, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    compressor.compress(payload, &mut out).unwrap();
    out
}

fn inflate(decompressor: &mut Decompressor, input: &[u8]) -> Result<Vec<u8>, InflateError> {
    let mut out = Vec::new();
    decompressor.decompress(input, &mut out, MAX_INFLATED_BYTES)?;
    Ok(out)
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
        .collect()
}

#[test]
fn both_halves_are_send() {
    fn send<T: Send>() {}
    send::<Compressor>();
    send::<Decompressor>();
}

#[test]
fn each_packet_inflates_at_once_and_history_passes_on() {
    for level in 1..=9 {
        let (mut sender, mut receiver) = (Compressor::with_level(level), Decompressor::new());
        for payload in payloads() {
            let packet = deflate(&mut sender, &payload);
            assert_eq!(
                inflate(&mut receiver, &packet).unwrap(),
                payload,
                "level {level}"
            );
        }
        assert_eq!(sender.report().totals, receiver.totals());
        assert_eq!(sender.report().totals.packets, payloads().len() as u64);
        assert_eq!(
            sender.report().totals.raw_bytes,
            payloads().iter().map(Vec::len).sum::<usize>() as u64
        );
    }
    let mut sender = Compressor::with_level(6);
    let first = deflate(&mut sender, &noise(8000, 7));
    let second = deflate(&mut sender, &noise(8000, 7));
    assert!(
        first.len() > 7900 && second.len() < 200,
        "the second refers to the first"
    );
}

#[test]
fn a_stored_payload_is_where_it_came_and_history_for_the_next() {
    let mut compressor = Compressor::new(CompressionSettings::default());
    let mut decompressor = Decompressor::new();
    let (mut stored, mut inflated) = (0, 0);
    // Lengths on both sides of a match's reach; the last payload repeats the one before.
    let lengths = [700, 5000, 32 * 1024, 40_000, 65_535].into_iter().cycle();
    for (round, len) in (1..40_u64).zip(lengths.skip(1)) {
        let fresh = noise(len, round);
        for payload in [fresh.clone(), text(600), fresh] {
            let packet = deflate(&mut compressor, &payload);
            match decompressor.stored(&packet, MAX_INFLATED_BYTES) {
                Some(place) => {
                    assert_eq!(packet[place], payload[..]);
                    stored += 1;
                }
                None => {
                    assert_eq!(inflate(&mut decompressor, &packet).unwrap(), payload);
                    inflated += 1;
                }
            }
        }
    }
    assert!(stored >= 20 && inflated >= 40, "{stored} and {inflated}");
    let totals = decompressor.totals();
    assert_eq!(totals, compressor.report().totals);
}

#[test]
fn what_is_not_one_stored_block_is_decompressed() {
    let payload = noise(1000, 7);
    let length = 1000_u16.to_le_bytes();
    let inverted = (!1000_u16).to_le_bytes();
    let packet = |kind: u8, length: [u8; 2], inverted: [u8; 2], payload: &[u8]| {
        [&[kind], &length[..], &inverted[..], payload].concat()
    };
    let good = packet(0, length, inverted, &payload);
    let begun = || {
        let mut decompressor = Decompressor::new();
        assert_eq!(decompressor.stored(&good, MAX_INFLATED_BYTES), None);
        let first = [&[0x78, 0x9c][..], &good].concat();
        assert_eq!(inflate(&mut decompressor, &first).unwrap(), payload);
        decompressor
    };
    assert_eq!(begun().stored(&good, 1000), Some(5..1005));
    for (bad, limit_bytes) in [
        (good.clone(), 999),
        (packet(1, length, inverted, &payload), 1000),
        (packet(2, length, inverted, &payload), 1000),
        (packet(0, length, length, &payload), 1000),
        (packet(0, length, inverted, &payload[1..]), 1000),
        ([&good[..], &[0]].concat(), 1000),
        (packet(0, [0; 2], [0xff; 2], &[]), 1000),
        (good[..4].to_vec(), 1000),
    ] {
        assert_eq!(begun().stored(&bad, limit_bytes), None, "{:?}", &bad[..4]);
    }
}

#[test]
fn what_stands_in_the_output_stays() {
    let (mut sender, mut receiver) = (Compressor::with_level(6), Decompressor::new());
    let mut packet = b"head".to_vec();
    sender.compress(b"payload", &mut packet).unwrap();
    assert_eq!(&packet[..4], b"head");
    let mut out = b"before".to_vec();
    receiver.decompress(&packet[4..], &mut out, 7).unwrap();
    assert_eq!(out, b"beforepayload");
    assert!(
        receiver
            .decompress(b"\xff\xff\xff\xff", &mut out, 7)
            .is_err()
    );
    assert_eq!(out, b"beforepayload");
}

#[test]
fn streams_of_stock_zlib_inflate() {
    // zlib 1.2.13, level 6: the same three payloads with partial and with sync flushes.
    let streams = [
        [
            "789c8a638000d68cd49c9c7c8000",
            "8a83f2b8c13c85c4f4c4cc3c8000",
            "8a4b4c4a1e45a368140d200208",
        ],
        [
            "789c8a638000d68cd49c9c7c00000000ffff",
            "8a83f2b8c13c85c4f4c4cc3c00000000ffff",
            "8a4b4c4a1e45a368140d2002000000ffff",
        ],
    ];
    let payloads = [
        b"\x5e\0\0\0\0\0\0\0\x05hello".to_vec(),
        b"\x5e\0\0\0\0\0\0\0\x0bhello again".to_vec(),
        [b"\x5e".to_vec(), b"abc".repeat(300)].concat(),
    ];
    for stream in streams {
        let mut receiver = Decompressor::new();
        for (packet, payload) in stream.iter().zip(&payloads) {
            assert_eq!(&inflate(&mut receiver, &unhex(packet)).unwrap(), payload);
        }
    }
}

#[test]
fn a_stream_begins_with_its_header_and_never_again_before_a_reset() {
    let mut sender = Compressor::with_level(6);
    assert_eq!(deflate(&mut sender, b"one")[..2], [0x78, 0x9c]);
    assert_ne!(deflate(&mut sender, b"two")[..2], [0x78, 0x9c]);
    sender.reset();
    assert_eq!(deflate(&mut sender, b"three")[..2], [0x78, 0x9c]);
}

#[test]
fn new_keys_reset_their_own_direction() {
    let (mut sender, mut receiver) = (Compressor::with_level(6), Decompressor::new());
    let before = deflate(&mut sender, &text(500));
    assert_eq!(inflate(&mut receiver, &before).unwrap(), text(500));
    sender.reset();
    receiver.reset();
    let after = deflate(&mut sender, &text(500));
    assert_eq!(after, before, "no history is left");
    assert_eq!(inflate(&mut receiver, &after).unwrap(), text(500));
    assert_eq!(
        sender.report().totals.packets,
        2,
        "totals belong to the connection"
    );
}

#[test]
fn incompressible_data_grows_no_more_than_dropbear_takes() {
    for level in 1..=9 {
        let mut sender = Compressor::with_level(level);
        for seed in 0..8 {
            let payload = noise(32 * 1024, 1000 + seed);
            let packet = deflate(&mut sender, &payload);
            let growth = packet.len().saturating_sub(payload.len());
            assert!(growth <= 21, "level {level} grows by {growth}");
        }
    }
}

#[test]
fn zlib_bomb_ends_at_the_limit() {
    let bomb = deflate(&mut Compressor::with_level(9), &vec![0; 64 << 20]);
    assert!(bomb.len() < 256 * 1024, "fits one packet");
    let mut out = Vec::new();
    let error = Decompressor::new()
        .decompress(&bomb, &mut out, MAX_INFLATED_BYTES)
        .unwrap_err();
    assert_eq!(
        error,
        InflateError::TooLong {
            limit_bytes: MAX_INFLATED_BYTES
        }
    );
    assert!(out.is_empty() && out.capacity() <= 2 * MAX_INFLATED_BYTES);
}

#[test]
fn the_limit_is_exact() {
    for len in [1, 4095, 4096, 4097, 8192, MAX_INFLATED_BYTES] {
        let packet = deflate(&mut Compressor::with_level(6), &text(len));
        let mut out = Vec::new();
        Decompressor::new()
            .decompress(&packet, &mut out, len)
            .unwrap();
        assert_eq!(out.len(), len);
        assert_eq!(
            Decompressor::new().decompress(&packet, &mut Vec::new(), len - 1),
            Err(InflateError::TooLong {
                limit_bytes: len - 1
            })
        );
    }
}

#[test]
fn the_end_of_the_stream_is_an_error() {
    // Stock zlib's whole stream of "hello", BFINAL and Adler-32 included.
    let ended = unhex("789ccb48cdc9c90700062c0215");
    assert_eq!(
        inflate(&mut Decompressor::new(), &ended),
        Err(InflateError::StreamEnded)
    );
}

#[test]
fn a_packet_that_holds_nothing_is_an_error() {
    let mut sender = Compressor::with_level(6);
    assert_eq!(
        inflate(&mut Decompressor::new(), &[]),
        Err(InflateError::Empty)
    );
    assert_eq!(
        inflate(&mut Decompressor::new(), &[0x78, 0x9c]),
        Err(InflateError::Empty)
    );
    let nothing = deflate(&mut sender, &[]);
    assert_eq!(
        inflate(&mut Decompressor::new(), &nothing),
        Err(InflateError::Empty)
    );
    // 50,000 empty stored blocks: linear work, no output.
    let mut blocks = vec![0x78, 0x9c];
    blocks.extend([0, 0, 0, 0xff, 0xff].repeat(50_000));
    assert_eq!(
        inflate(&mut Decompressor::new(), &blocks),
        Err(InflateError::Empty)
    );
}

#[test]
fn damaged_streams_never_panic_and_the_first_error_stays() {
    let packet = deflate(&mut Compressor::with_level(6), &text(3000));
    for at in 0..packet.len() {
        for bit in 0..8 {
            let mut damaged = packet.clone();
            damaged[at] ^= 1 << bit;
            let mut receiver = Decompressor::new();
            let first = inflate(&mut receiver, &damaged);
            if let Err(error) = first {
                assert_eq!(inflate(&mut receiver, &packet), Err(error));
            }
        }
    }
    for seed in 0..2000 {
        let _ = inflate(&mut Decompressor::new(), &noise(200, seed));
    }
    // SSH has no preset dictionary (FDICT).
    assert_eq!(
        inflate(&mut Decompressor::new(), &[0x78, 0xbb, 0, 0, 0, 1, 2, 3]),
        Err(InflateError::Corrupt)
    );
}

// ---- runs and engines -------------------------------------------------------------------------

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::provider::{Provider, Run, RunEncoder, RunError, RunOutput};
use crate::{Encoded, RunJob};

/// The encodings of a run's payloads.
fn packets_of(job: RunJob, payloads: &[Vec<u8>]) -> (Vec<Vec<u8>>, crate::RunDone) {
    let mut packets = Vec::new();
    let done = job
        .run(|encoded| {
            packets.push(match encoded {
                Encoded::Stored { header } => [header, &payloads[packets.len()]].concat(),
                Encoded::Deflated(bytes) => bytes.to_vec(),
            });
        })
        .unwrap();
    (packets, done)
}

#[test]
fn runs_made_in_any_order_are_one_stream() {
    for adaptive in [true, false] {
        let all = payloads();
        let mut sender = Compressor::new(CompressionSettings { level: 6, adaptive });
        let mut receiver = Decompressor::new();
        // Small payloads in place between runs, so that bits are carried into them.
        let mut jobs = Vec::new();
        for (index, group) in all.chunks(4).enumerate() {
            if index % 3 == 2 {
                let packets: Vec<_> = group
                    .iter()
                    .map(|each| deflate(&mut sender, each))
                    .collect();
                jobs.push((None, group, packets));
            } else {
                let job = sender.begin_run(0, group.iter().map(Vec::as_slice));
                assert_eq!(job.bytes(), group.iter().map(Vec::len).sum::<usize>());
                jobs.push((Some(job), group, Vec::new()));
            }
        }
        for (job, group, packets) in jobs.iter_mut().rev() {
            if let Some(job) = job.take() {
                let (made, done) = packets_of(job, group);
                sender.finish_run(&done);
                *packets = made;
            }
        }
        for (_, group, packets) in jobs {
            assert_eq!(group.len(), packets.len());
            for (payload, packet) in group.iter().zip(packets) {
                assert_eq!(&inflate(&mut receiver, &packet).unwrap(), payload);
            }
        }
        assert_eq!(sender.report().totals, receiver.totals());
        let report = sender.report();
        assert_eq!(report.internal + report.stored, report.totals.packets);
    }
}

#[test]
fn runs_lose_nothing_against_one_stream() {
    let all: Vec<Vec<u8>> = (0..32).map(|at| text(30_000 + at)).collect();
    let mut serial = Compressor::with_level(6);
    let by_one: usize = all
        .iter()
        .map(|each| deflate(&mut serial, each).len())
        .sum();
    let mut sender = Compressor::with_level(6);
    let mut by_runs = 0;
    for group in all.chunks(4) {
        let job = sender.begin_run(0, group.iter().map(Vec::as_slice));
        let (packets, done) = packets_of(job, group);
        sender.finish_run(&done);
        by_runs += packets.iter().map(Vec::len).sum::<usize>();
    }
    assert!(
        by_runs <= by_one + by_one / 50,
        "{by_runs} against {by_one}"
    );
}

#[test]
fn what_does_not_compress_costs_little_and_is_stored() {
    let mut sender = Compressor::new(CompressionSettings::default());
    let mut receiver = Decompressor::new();
    for seed in 0..100 {
        let payload = noise(32 * 1024, seed);
        let packet = deflate(&mut sender, &payload);
        assert!(packet.len() <= payload.len() + 15);
        assert_eq!(inflate(&mut receiver, &packet).unwrap(), payload);
    }
    let report = sender.report();
    assert_eq!(report.stored, 100);
    assert_eq!(report.totals.packets, 100);
}

/// Defects of a run's bytes and ends.
type Wrong = fn(&mut Vec<u8>, &mut Vec<usize>) -> Result<(), RunError>;

/// An external engine that fails in one of several ways from its `after`th run.
struct Fake {
    wrong: Wrong,
    after: Arc<AtomicUsize>,
}

struct FakeEncoder {
    wrong: Wrong,
    left: Arc<AtomicUsize>,
}

impl Provider for Fake {
    fn name(&self) -> String {
        "fake".into()
    }

    fn encoder(&self) -> Result<Box<dyn RunEncoder>, RunError> {
        Ok(Box::new(FakeEncoder {
            wrong: self.wrong,
            left: Arc::clone(&self.after),
        }))
    }
}

impl RunEncoder for FakeEncoder {
    fn encode_run(&mut self, run: &Run<'_>, out: &mut RunOutput) -> Result<(), RunError> {
        let RunOutput { bytes: out, ends } = out;
        for payload in run.payloads() {
            let length = u16::try_from(payload.len()).unwrap();
            out.push(0);
            out.extend(length.to_le_bytes());
            out.extend((!length).to_le_bytes());
            out.extend_from_slice(payload);
            ends.push(out.len());
        }
        match self.left.load(Ordering::Relaxed).checked_sub(1) {
            None => (self.wrong)(out, ends),
            Some(left) => {
                self.left.store(left, Ordering::Relaxed);
                Ok(())
            }
        }
    }
}

#[test]
fn an_engine_that_fails_costs_a_run_and_nothing_else() {
    let ways: [Wrong; 5] = [
        |_, _| Err(RunError("device gone".into())),
        |_, ends| {
            ends.pop();
            Ok(())
        },
        |out, _| {
            out.push(0);
            Ok(())
        },
        |out, ends| {
            out.resize(1 << 20, 0);
            *ends.last_mut().unwrap() = out.len();
            Ok(())
        },
        |_, ends| {
            ends.reverse();
            Ok(())
        },
    ];
    for wrong in ways {
        let mut sender = Compressor::with_level(6);
        let after = Arc::new(AtomicUsize::new(2));
        sender.set_provider(Arc::new(Fake { wrong, after }));
        let mut receiver = Decompressor::new();
        for round in 0..5 {
            // A carry before each run.
            let small = deflate(&mut sender, b"a keystroke");
            assert_eq!(inflate(&mut receiver, &small).unwrap(), b"a keystroke");
            let group = [text(20_000 + round), noise(10_000, 5), text(300)];
            let job = sender.begin_run(0, group.iter().map(Vec::as_slice));
            let (packets, done) = packets_of(job, &group);
            sender.finish_run(&done);
            for (payload, packet) in group.iter().zip(packets) {
                assert_eq!(&inflate(&mut receiver, &packet).unwrap(), payload);
            }
            assert_eq!(sender.has_provider(), round < 2);
            assert_eq!(sender.take_failure().is_some(), round == 2);
        }
        assert_eq!(sender.report().hardware, 6);
    }
}

#[test]
fn packets_that_inflate_to_more_than_they_seemed_do_not_make_memory_grow() {
    let (mut sender, mut receiver) = (Compressor::with_level(6), Decompressor::new());
    let mut packet = Vec::new();
    for round in 0..400 {
        let payload = vec![
            0;
            if round % 2 == 0 {
                256 * 1024
            } else {
                1 + round * 37
            }
        ];
        packet.clear();
        sender.compress(&payload, &mut packet).unwrap();
        assert!(inflate(&mut receiver, &packet).unwrap() == payload);
        assert!(receiver.memory_bytes() < 700 * 1024, "round {round}");
    }
}
