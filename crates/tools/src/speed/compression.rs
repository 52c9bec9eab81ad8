//! Compression of payloads of 32 KiB, as `-C` does it, by kinds of data and levels.

use std::time::Instant;

use compress::{Compressor, Decompressor, MAX_INFLATED_BYTES};

use super::select::Selection;
use crate::corpus::Data;

/// Bytes of each kind.
const BYTES: u64 = 8 << 20;
const PAYLOAD_BYTES: usize = 32 * 1024;
const LEVELS: [u8; 4] = [1, 3, 6, 9];
/// Runs among which the best one counts.
const RUNS: usize = 3;

/// One kind of data at one level.
pub(super) struct CompressionRow {
    pub(super) name: String,
    /// Raw by compressed.
    pub(super) ratio: f64,
    /// Raw bytes for each second of CPU.
    pub(super) deflate: f64,
    /// The same by the clock.
    pub(super) inflate: f64,
}

pub(super) fn rows(selection: &Selection) -> Vec<CompressionRow> {
    let mut rows = Vec::new();
    for data in Data::ALL {
        let mut bytes = Vec::new();
        for level in LEVELS {
            let name = format!("compress {} level {level}", data.name());
            if !selection.wants_any(&[&name, "zlib@openssh.com", "deflate"]) {
                continue;
            }
            if bytes.is_empty() && data.write(BYTES, &mut bytes).is_err() {
                // Memory takes all that is written to it.
                continue;
            }
            rows.extend(row(name, level, &bytes));
        }
    }
    rows
}

/// `None` would be a defect of the codec.
fn row(name: String, level: u8, bytes: &[u8]) -> Option<CompressionRow> {
    let (mut deflate, mut inflate, mut ratio) = (0.0_f64, 0.0_f64, 0.0);
    for _ in 0..RUNS {
        let mut sender = Compressor::with_level(level);
        let mut packets = Vec::new();
        for payload in bytes.chunks(PAYLOAD_BYTES) {
            let mut packet = Vec::with_capacity(payload.len() + 64);
            sender.compress(payload, &mut packet).ok()?;
            packets.push(packet);
        }
        let report = sender.report();
        let seconds = precise(report.cpu_ns) / 1e9;
        deflate = deflate.max(precise(report.totals.raw_bytes) / seconds);
        ratio = precise(report.totals.raw_bytes) / precise(report.totals.compressed_bytes);
        let mut receiver = Decompressor::new();
        let mut out = Vec::with_capacity(2 * PAYLOAD_BYTES);
        let begun = Instant::now();
        for packet in &packets {
            out.clear();
            receiver
                .decompress(packet, &mut out, MAX_INFLATED_BYTES)
                .ok()?;
        }
        inflate = inflate.max(precise(report.totals.raw_bytes) / begun.elapsed().as_secs_f64());
    }
    Some(CompressionRow {
        name,
        ratio,
        deflate,
        inflate,
    })
}

/// Counts are far below 2^52.
#[allow(clippy::cast_precision_loss)]
fn precise(count: u64) -> f64 {
    count as f64
}
