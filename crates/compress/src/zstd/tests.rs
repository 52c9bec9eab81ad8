use crate::PacketCompressor;
use zstd_safe::zstd_sys::ZSTD_EndDirective::{self, ZSTD_e_end, ZSTD_e_flush};
use zstd_safe::{CCtx, CParameter, DCtx, InBuffer, OutBuffer};

use super::frame::{BLOCKS, FRAME, STORED};
use super::*;
use crate::error::InflateError;
use crate::{CompressionSettings, Decompressor, MAX_INFLATED_BYTES, Origin};

const LIMIT: usize = MAX_INFLATED_BYTES;

fn noise(len: usize) -> Vec<u8> {
    noise_of(0, len)
}

fn noise_of(seed: u32, len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32 ^ seed.wrapping_mul(0x85eb_ca6b);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[2]
    };
    (0..len).map(|_| next()).collect()
}

fn text(len: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for number in 0_u32.. {
        if text.len() >= len {
            break;
        }
        let line = format!(
            "what was said {} is said again\n",
            number.wrapping_mul(7919)
        );
        text.extend_from_slice(line.as_bytes());
    }
    text.truncate(len);
    text
}

fn settings(level: u8, adaptive: bool) -> CompressionSettings {
    CompressionSettings { level, adaptive }
}

fn plain(level: u8) -> ZstdCompressor {
    ZstdCompressor::new(settings(level, false))
}

fn packet(compressor: &mut ZstdCompressor, payload: &[u8]) -> Vec<u8> {
    let mut out = b"x".to_vec();
    compressor.compress(payload, &mut out).unwrap();
    // After the first byte: a block for each 128 KiB, and the beginning of a frame.
    assert!(out.len() <= 2 + payload.len() + 6 + 9, "{}", out.len());
    assert_eq!(out[0], b'x');
    out.split_off(1)
}

fn back(decompressor: &mut Decompressor, packet: &[u8]) -> Result<Vec<u8>, InflateError> {
    let mut out = b"y".to_vec();
    let result = decompressor.decompress(packet, &mut out, LIMIT);
    assert_eq!(out[0], b'y');
    assert!(out.len() <= 1 + LIMIT && out.capacity() < 4 * LIMIT);
    match result {
        Ok(()) => Ok(out.split_off(1)),
        Err(error) => {
            assert_eq!(out.len(), 1, "nothing is left of what failed");
            Err(error)
        }
    }
}

fn payloads() -> Vec<Vec<u8>> {
    let mut all = vec![vec![20], vec![0; 32 * 1024], noise(32 * 1024)];
    for len in [1, 2, 100, 1000, 1023, 1024, 4096, 32 * 1024, 256 * 1024] {
        all.push(text(len));
    }
    for (seed, len) in (1..).zip([1, 100, 1023, 32 * 1024, 256 * 1024, 2000, 32 * 1024]) {
        all.push(noise_of(seed, len));
    }
    all
}

#[test]
fn every_payload_comes_back_with_its_own_packet() {
    for level in 1..=9 {
        for adaptive in [false, true] {
            let mut compressor = ZstdCompressor::new(settings(level, adaptive));
            let mut decompressor = Decompressor::zstd();
            for round in 0..3 {
                for payload in payloads() {
                    let packet = packet(&mut compressor, &payload);
                    let plain = back(&mut decompressor, &packet).unwrap();
                    assert!(plain == payload, "round {round}, {}", payload.len());
                }
                // NEWKEYS of one direction, and of the other.
                compressor.reset();
                decompressor.reset();
            }
            let (report, totals) = (compressor.report(), decompressor.totals());
            assert_eq!(report.totals.raw_bytes, totals.raw_bytes);
            assert_eq!(report.totals.compressed_bytes, totals.compressed_bytes);
            assert!(totals.compressed_bytes < totals.raw_bytes * 7 / 10);
            assert_eq!(report.levels, Some((level, level)));
            // Payloads shorter than a block's header with content are always stored.
            let short = 3 * payloads().iter().filter(|each| each.len() < 16).count() as u64;
            assert_eq!(report.stored > short, adaptive, "{report:?}");
        }
    }
}

/// Another zstd implementation decodes these frames to the same plaintext.
#[test]
fn the_frames_are_what_zstd_itself_reads() {
    for level in [1, 3, 6, 9] {
        let mut compressor = plain(level);
        let (mut all, mut stream) = (Vec::new(), Vec::new());
        for payload in payloads() {
            let packet = packet(&mut compressor, &payload);
            if payload.len() < 16 {
                assert_eq!(packet, [&[STORED], &payload[..]].concat());
                continue;
            }
            assert_eq!(packet[0], if all.is_empty() { FRAME } else { BLOCKS });
            stream.extend_from_slice(&packet[1..]);
            all.extend_from_slice(&payload);
        }
        let mut out: Vec<u8> = Vec::with_capacity(all.len() + 1);
        let mut input = InBuffer::around(&stream);
        let mut output = OutBuffer::around(&mut out);
        DCtx::create()
            .decompress_stream(&mut output, &mut input)
            .unwrap();
        assert!(out == all, "level {level}");
    }
}

#[test]
fn a_repeated_payload_refers_to_the_one_before() {
    let mut compressor = plain(6);
    let payload = noise(32 * 1024);
    let first = packet(&mut compressor, &payload);
    let second = packet(&mut compressor, &payload);
    assert!(first.len() > payload.len());
    assert!(second.len() < 100, "{}", second.len());
    // Not after a reset: the peer has no history.
    compressor.reset();
    let third = packet(&mut compressor, &payload);
    assert_eq!(third[0], FRAME);
    assert!(third.len() > payload.len());
}

#[test]
fn what_is_random_is_stored_and_costs_a_byte() {
    let mut compressor = ZstdCompressor::new(settings(6, true));
    let mut decompressor = Decompressor::zstd();
    let mut bytes = 0;
    for seed in 0..100 {
        let payload = noise_of(seed, 32 * 1024);
        let packet = packet(&mut compressor, &payload);
        bytes += packet.len() - payload.len();
        assert!(back(&mut decompressor, &packet).unwrap() == payload);
    }
    let report = compressor.report();
    assert!(report.stored >= 85, "{report:?}");
    assert!(bytes < 300, "{bytes}");
    // Data that does not look random is compressed all the same, with the earlier history.
    let line = text(32 * 1024);
    for _ in 0..2 {
        let packet = packet(&mut compressor, &line);
        assert_eq!(packet[0], BLOCKS);
        assert!(back(&mut decompressor, &packet).unwrap() == line);
    }
}

#[test]
fn a_level_that_changes_begins_a_frame_and_zero_stores() {
    let mut compressor = ZstdCompressor::new(settings(6, true));
    let mut decompressor = Decompressor::zstd();
    let payload = text(32 * 1024);
    let mut kinds = Vec::new();
    for level in [6, 6, 3, 3, 1, 0, 0, 1, 6, 9] {
        compressor.set_level(level);
        assert_eq!(compressor.level(), level.min(6));
        let packet = packet(&mut compressor, &payload);
        assert!(back(&mut decompressor, &packet).unwrap() == payload);
        kinds.push(packet[0]);
    }
    let expected = [
        FRAME, BLOCKS, FRAME, BLOCKS, FRAME, STORED, STORED, BLOCKS, FRAME, BLOCKS,
    ];
    assert_eq!(kinds, expected);
    assert_eq!(compressor.report().levels, Some((0, 6)));
    // Small payloads are compressed at any link speed, in the current frame.
    compressor.set_level(0);
    let small = packet(&mut compressor, &payload[..500]);
    assert_eq!(small[0], BLOCKS);
    assert!(back(&mut decompressor, &small).unwrap() == payload[..500]);
    let mut fresh = ZstdCompressor::new(settings(6, true));
    fresh.set_level(0);
    assert_eq!(packet(&mut fresh, &payload)[0], STORED);
    assert_eq!(packet(&mut fresh, &payload[..500])[0], FRAME);
    // A fixed level is always used.
    let mut fixed = plain(6);
    fixed.set_level(0);
    assert_eq!(fixed.level(), 6);
}

#[test]
fn memory_is_bounded_and_given_back() {
    for level in 1..=9 {
        let (mut compressor, mut decompressor) = (plain(level), Decompressor::zstd());
        assert!(!compressor.has_spare());
        let small = packet(&mut compressor, b"a keystroke");
        assert!(!compressor.has_spare(), "what is small stays");
        assert_eq!(back(&mut decompressor, &small).unwrap(), b"a keystroke");
        for _ in 0..80 {
            let packet = packet(&mut compressor, &text(32 * 1024));
            back(&mut decompressor, &packet).unwrap();
        }
        let (sends, receives) = (compressor.memory_bytes(), decompressor.memory_bytes());
        assert!(sends < MOST_SENDER_BYTES, "level {level}: {sends}");
        assert!(receives < 3 << 19, "{receives}");
        assert!(compressor.has_spare());
        compressor.shed();
        assert!(!compressor.has_spare());
        assert_eq!(compressor.memory_bytes(), 0);
        let next = packet(&mut compressor, b"another keystroke");
        assert_eq!(next[0], FRAME);
        assert_eq!(
            back(&mut decompressor, &next).unwrap(),
            b"another keystroke"
        );
    }
}

/// A compressor at any level.
const MOST_SENDER_BYTES: usize = 7 << 20;

/// A peer that fills all contexts, begins frames anew and changes keys.
#[test]
fn a_receiver_holds_no_more_than_each_context_may() {
    let mut compressor = plain(1);
    let mut decompressor = Decompressor::zstd();
    // As many channels as contexts first, then more, which take them from each other.
    for (channels, rounds) in [(4, 50), (7, 10), (4, 50)] {
        for round in 0..rounds {
            for channel in 0..channels {
                let payload = noise_of(round * channels + channel, 32 * 1024);
                let mut packet = Vec::new();
                let origin = Origin::Channel(u64::from(channel));
                compressor
                    .compress_around(origin, &payload, &mut packet)
                    .unwrap()
                    .complete(&payload, &mut packet);
                assert!(back(&mut decompressor, &packet).unwrap() == payload);
            }
        }
        let held = decompressor.memory_bytes();
        assert!(held > 4 << 20, "all windows are full: {held}");
        assert!(held <= CONTEXTS * (3 << 19), "{held}");
        compressor.reset();
        decompressor.reset();
    }
}

#[test]
fn levels_are_zstds_own_in_order() {
    let levels: Vec<i32> = (1..=9).map(zstd_level).collect();
    assert!(levels.is_sorted(), "{levels:?}");
    assert_eq!((zstd_level(6), zstd_level(0)), (3, zstd_level(1)));
    assert_eq!(zstd_level(200), zstd_level(9));
    assert!(zstd_version().starts_with("1."));
}

// ---- what a peer may send ------------------------------------------------------------------

/// A frame of zstd's as `change` sets it up, flushed or ended.
fn frame(change: &[CParameter], payload: &[u8], end: ZSTD_EndDirective) -> Vec<u8> {
    let mut context = CCtx::create();
    let usual = [
        CParameter::WindowLog(u32::from(WINDOW_LOG)),
        CParameter::ContentSizeFlag(false),
    ];
    for parameter in usual.iter().chain(change) {
        context.set_parameter(*parameter).unwrap();
    }
    let mut out: Vec<u8> = Vec::with_capacity(zstd_safe::compress_bound(payload.len()) + 64);
    out.push(FRAME);
    let mut output = OutBuffer::around_pos(&mut out, 1);
    let mut input = InBuffer::around(payload);
    context
        .compress_stream2(&mut output, &mut input, end)
        .unwrap();
    out
}

fn inflate(packet: &[u8]) -> Result<Vec<u8>, InflateError> {
    back(&mut Decompressor::zstd(), packet)
}

/// The head of a block.
fn block(kind: u32, size: u32) -> [u8; 3] {
    let [a, b, c, _] = (kind << 1 | size << 3).to_le_bytes();
    [a, b, c]
}

fn begun(blocks: &[u8]) -> Vec<u8> {
    [&[FRAME, 0x28, 0xb5, 0x2f, 0xfd, 0, 0x50], blocks].concat()
}

/// A decompression bomb is detected before it is inflated.
#[test]
fn what_inflates_past_the_limit_ends_at_once() {
    let too_long = Err(InflateError::TooLong { limit_bytes: LIMIT });
    // 64 MiB of zeros in a few KiB, and one byte more than there may be.
    for size in [64 << 20, LIMIT + 1] {
        let bomb = frame(&[], &vec![0; size], ZSTD_e_flush);
        assert!(bomb.len() < 32 * 1024, "{}", bomb.len());
        assert_eq!(inflate(&bomb), too_long);
    }
    let just = frame(&[], &vec![0; LIMIT], ZSTD_e_flush);
    assert_eq!(inflate(&just).unwrap().len(), LIMIT);
    // Blocks that declare their size: one byte 128 Ki times, repeatedly.
    let one = [&block(1, 128 * 1024)[..], b"x"].concat();
    assert_eq!(inflate(&begun(&one.repeat(60_000))), too_long);
    assert_eq!(inflate(&begun(&one.repeat(2))).unwrap().len(), 256 * 1024);
    let stored = [&[STORED], &vec![7; LIMIT + 1][..]].concat();
    assert_eq!(inflate(&stored), too_long);
    assert_eq!(inflate(&stored[..=LIMIT]).unwrap().len(), LIMIT);
}

#[test]
fn only_our_own_form_of_frame_is_taken() {
    use CParameter::{ChecksumFlag, ContentSizeFlag, WindowLog};
    let text = text(1000);
    let flushed = |change: &[CParameter]| frame(change, &text, ZSTD_e_flush);
    assert_eq!(inflate(&flushed(&[])).as_ref(), Ok(&text));
    assert_eq!(inflate(&flushed(&[WindowLog(10)])).as_ref(), Ok(&text));
    // A window that would have to be kept.
    for window in [21, 27] {
        let wide = flushed(&[WindowLog(window)]);
        assert_eq!(inflate(&wide), Err(InflateError::Corrupt), "{window}");
    }
    // A window in between, an eighth larger, is rejected too, and one of 2^31 bytes, which no encoder makes
    // where words have 32 bits.
    for field in [flushed(&[])[6] + 1, (31 - 10) << 3] {
        let mut wide = flushed(&[]);
        wide[6] = field;
        assert_eq!(inflate(&wide), Err(InflateError::Corrupt), "{field}");
    }
    let summed = flushed(&[ChecksumFlag(true)]);
    assert_eq!(inflate(&summed), Err(InflateError::Corrupt));
    for end in [&[][..], &[ChecksumFlag(true)], &[ContentSizeFlag(true)]] {
        let whole = frame(end, &text, ZSTD_e_end);
        let error = inflate(&whole).unwrap_err();
        assert!(
            matches!(error, InflateError::StreamEnded | InflateError::Corrupt),
            "{error:?}"
        );
    }
    assert_eq!(
        inflate(&frame(&[], &text, ZSTD_e_end)),
        Err(InflateError::StreamEnded)
    );
    // Each single bit of the descriptor: a dictionary's number, a checksum, a size, and the two
    // meaningless ones.
    for bit in 0..8 {
        let mut odd = flushed(&[]);
        odd[5] |= 1 << bit;
        assert_eq!(inflate(&odd), Err(InflateError::Corrupt), "bit {bit}");
    }
    // An unknown dictionary, by its number.
    let known = [
        &[FRAME, 0x28, 0xb5, 0x2f, 0xfd, 0x01, 0x50, 77],
        &block(0, 1)[..],
        b"x",
    ];
    assert_eq!(inflate(&known.concat()), Err(InflateError::Corrupt));
}

#[test]
fn what_is_no_packet_of_ours_ends_the_stream() {
    let corrupt = Err(InflateError::Corrupt);
    assert_eq!(inflate(b""), Err(InflateError::Empty));
    assert_eq!(inflate(&[STORED]), Err(InflateError::Empty));
    assert_eq!(inflate(&[FRAME]), corrupt);
    assert_eq!(inflate(&begun(b"")), Err(InflateError::Empty));
    assert_eq!(inflate(b"no zstd at all"), corrupt);
    // Blocks of a frame that has not begun, or was dropped by NEWKEYS.
    let raw = [&[BLOCKS], &block(0, 4)[..], b"text"].concat();
    assert_eq!(inflate(&raw), corrupt);
    let mut decompressor = Decompressor::zstd();
    let first = begun(&[&block(0, 1)[..], b"x"].concat());
    assert_eq!(back(&mut decompressor, &first).unwrap(), b"x");
    assert_eq!(back(&mut decompressor, &raw).unwrap(), b"text");
    decompressor.reset();
    assert_eq!(back(&mut decompressor, &raw), corrupt);
    for lead in 3..=255 {
        // A frame of the second, third and fourth context, with no blocks.
        let expected = match lead {
            6 | 10 | 14 => Err(InflateError::Empty),
            _ => corrupt.clone(),
        };
        let packet = [lead, 0x28, 0xb5, 0x2f, 0xfd, 0, 0x50];
        assert_eq!(inflate(&packet), expected, "{lead}");
    }
    // Skippable frames and zstd's legacy formats are rejected.
    for magic in [0x50, 0x5f] {
        let skipped = [FRAME, magic, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        assert_eq!(inflate(&skipped), corrupt);
    }
    for magic in 0x22..0x28 {
        let old = [FRAME, magic, 0xb5, 0x2f, 0xfd, 0, 0x50, 0, 0, 0];
        assert_eq!(inflate(&old), corrupt);
    }
    // They are rejected after a valid frame too, in place of a block.
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0];
    assert!(inflate(&[&first[..], &skipped].concat()).is_err());
}

#[test]
fn odd_blocks_end_the_stream() {
    let corrupt = Err(InflateError::Corrupt);
    // Reserved, and larger than blocks are.
    assert_eq!(inflate(&begun(&block(3, 1))), corrupt);
    for kind in 0..3 {
        let huge = [&block(kind, 128 * 1024 + 1)[..], &vec![1; 128 * 1024 + 1]].concat();
        assert_eq!(inflate(&begun(&huge)), corrupt, "{kind}");
    }
    // A block past the window of its own frame: 1 KiB, and 2 of data.
    let small = |blocks: &[u8]| [&[FRAME, 0x28, 0xb5, 0x2f, 0xfd, 0, 0], blocks].concat();
    for kind in 0..2 {
        let block = [
            &block(kind, 2048)[..],
            &vec![1; if kind == 0 { 2048 } else { 1 }],
        ]
        .concat();
        assert_eq!(inflate(&small(&block)), corrupt, "{kind}");
    }
    // Empty blocks, repeatedly: not a valid packet, and soon at its end.
    let nothing = block(0, 0).repeat(80_000);
    assert_eq!(inflate(&begun(&nothing)), Err(InflateError::Empty));
    // The last block of a frame, empty or not.
    let mut last = begun(&[&block(0, 4)[..], b"text"].concat());
    last[7] |= 1;
    assert_eq!(inflate(&last), Err(InflateError::StreamEnded));
    // A compressed block without anything in it.
    assert_eq!(inflate(&begun(&block(2, 0))), corrupt);
}

/// Frames that hold each kind of block: raw, repeated, compressed with and without sequences.
fn kinds_of_frames() -> Vec<Vec<u8>> {
    let mut mixed = noise(300);
    mixed.extend(text(600));
    [noise(300), vec![7; 3000], text(900), mixed]
        .iter()
        .map(|payload| packet(&mut plain(6), payload))
        .collect()
}

#[test]
fn a_packet_that_is_cut_anywhere_ends_the_stream() {
    for whole in kinds_of_frames() {
        inflate(&whole).unwrap();
        for cut in 0..whole.len() {
            let result = inflate(&whole[..cut]);
            assert!(result.is_err(), "{cut} of {}: {result:?}", whole.len());
        }
        // Remaining bytes are rejected too.
        for rest in [&[0][..], &[1, 2], &[0; 7]] {
            let longer = [&whole[..], rest].concat();
            assert!(inflate(&longer).is_err(), "{rest:?}");
        }
    }
    // The same after a complete packet.
    let mut compressor = plain(6);
    let first = packet(&mut compressor, &text(2000));
    let second = packet(&mut compressor, &[noise(200), text(300)].concat());
    for cut in 0..second.len() {
        let mut decompressor = Decompressor::zstd();
        back(&mut decompressor, &first).unwrap();
        assert!(back(&mut decompressor, &second[..cut]).is_err(), "{cut}");
    }
}

/// The output is bounded, also that of later packets.
#[test]
fn damaged_streams_never_run_on() {
    let behind = packet(&mut plain(6), &text(100));
    for whole in kinds_of_frames() {
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                let mut decompressor = Decompressor::zstd();
                if back(&mut decompressor, &damaged).is_ok() {
                    let _ = back(&mut decompressor, &[&[BLOCKS], &behind[7..]].concat());
                }
            }
        }
    }
}

/// A stream cannot refer to bytes before its own start: memory of an earlier stream is not
/// accessible.
#[test]
fn a_stream_does_not_see_the_one_before() {
    let secret = noise(4096);
    let mut compressor = plain(6);
    let first = packet(&mut compressor, &secret);
    let second = packet(&mut compressor, &secret);
    assert!(second.len() < 100);
    let mut decompressor = Decompressor::zstd();
    back(&mut decompressor, &first).unwrap();
    // After NEWKEYS, a frame of the peer that refers to bytes before it.
    decompressor.reset();
    let forged = [&[FRAME, 0x28, 0xb5, 0x2f, 0xfd, 0, 0x50], &second[1..]].concat();
    assert_eq!(back(&mut decompressor, &forged), Err(InflateError::Corrupt));
    // Nor without NEWKEYS: each frame begins without history.
    let mut decompressor = Decompressor::zstd();
    back(&mut decompressor, &first).unwrap();
    assert_eq!(back(&mut decompressor, &forged), Err(InflateError::Corrupt));
}
