//! Compression of payloads of 32 KiB, as `-C` does it, by kinds of data and levels; by zstd, as
//! `Compression zstd` does it; and by the libraries that `EnableHwCompression` would use.

use std::sync::Arc;
use std::time::Instant;

use accelerator::{Accelerator, LibraryRequest};
use compress::{
    CompressionSettings, Compressor, Decompressor, Encoded, MAX_INFLATED_BYTES, PacketCompressor,
    ZstdCompressor,
};
use sys::process::SelfExe;

use super::select::Selection;
use crate::corpus::Data;

/// Bytes of each kind.
const BYTES: u64 = 8 << 20;
const PAYLOAD_BYTES: usize = 32 * 1024;
const LEVELS: [u8; 4] = [1, 3, 6, 9];
/// Runs among which the best one counts.
const RUNS: usize = 3;

/// Payloads in a run, as a session gives them to a library.
const RUN_PAYLOADS: usize = 8;

/// Results of the compression engines.
#[derive(Default)]
pub(super) struct Compression {
    /// Each engine in a line: what it is, and what it does or why it does nothing.
    pub(super) engines: Vec<String>,
    pub(super) rows: Vec<CompressionRow>,
}

/// One kind of data at one level.
pub(super) struct CompressionRow {
    pub(super) name: String,
    /// `internal`, `zstd`, or the library's file.
    pub(super) engine: String,
    /// Raw by compressed.
    pub(super) ratio: f64,
    /// Raw bytes for each second of CPU; by the clock where another process compresses.
    pub(super) deflate: f64,
    /// The same by the clock; none for a library, which does not inflate.
    pub(super) inflate: Option<f64>,
}

const INTERNAL: &str = "internal";
const ZSTD: &str = "zstd";

impl CompressionRow {
    /// What [`CompressionRow::deflate`] is a rate of.
    pub(super) fn deflate_by(&self) -> &'static str {
        if [INTERNAL, ZSTD].contains(&self.engine.as_str()) {
            "deflate_bytes_per_cpu_second"
        } else {
            "deflate_bytes_per_second"
        }
    }
}

/// Measures our own engine, and `libraries`.
pub(super) fn measure(selection: &Selection, libraries: &[String]) -> Compression {
    let mut compression = Compression {
        engines: Vec::new(),
        rows: rows(selection),
    };
    if compression.rows.is_empty() {
        return compression;
    }
    let used =
        format!("{INTERNAL} (packet mode): in use unless EnableHwCompression says otherwise");
    compression.engines.push(used);
    compression.engines.push(format!(
        "{ZSTD} {}: in use where both ends are Fulmar's and say Compression zstd",
        compress::zstd_version()
    ));
    for path in libraries {
        let opened = SelfExe::open()
            .map_err(|error| error.to_string())
            .and_then(|own| {
                Accelerator::open(
                    &LibraryRequest::new(std::slice::from_ref(path), true, 6),
                    &own,
                )
            });
        match opened {
            Ok(library) => {
                compression
                    .engines
                    .push(format!("library {}", library.describe()));
                compression.rows.extend(library_rows(library, selection));
            }
            Err(why) => compression.engines.push(format!("library {why}: not used")),
        }
    }
    compression
}

fn library_rows(library: Accelerator, selection: &Selection) -> Vec<CompressionRow> {
    let file = library.path().file_name().unwrap_or_default();
    let file = file.to_string_lossy().into_owned();
    let library = Arc::new(library);
    let mut rows = Vec::new();
    for data in Data::ALL {
        let name = format!("compress {} level 6 by {file}", data.name());
        let mut bytes = Vec::new();
        if !selection.wants_any(&[&name, "zlib@openssh.com", "deflate"])
            || data.write(BYTES, &mut bytes).is_err()
        {
            continue;
        }
        rows.extend(library_row((name, file.clone()), &library, &bytes));
    }
    rows
}

/// `None` when the library fails.
fn library_row(
    (name, engine): (String, String),
    library: &Arc<Accelerator>,
    bytes: &[u8],
) -> Option<CompressionRow> {
    let (mut deflate, mut ratio) = (0.0_f64, 0.0);
    for _ in 0..RUNS {
        let mut sender = Compressor::new(CompressionSettings {
            level: 6,
            adaptive: false,
        });
        sender.set_provider(Arc::<Accelerator>::clone(library));
        let begun = Instant::now();
        for run in bytes.chunks(PAYLOAD_BYTES * RUN_PAYLOADS) {
            let job = sender.begin_run(0, run.chunks(PAYLOAD_BYTES));
            let done = job.run(|piece| match piece {
                Encoded::Stored { header } => drop(std::hint::black_box(header)),
                Encoded::Deflated(bytes) => drop(std::hint::black_box(bytes)),
            });
            sender.finish_run(&done.ok()?);
        }
        let report = sender.report();
        if !sender.has_provider() {
            return None;
        }
        deflate = deflate.max(precise(report.totals.raw_bytes) / begun.elapsed().as_secs_f64());
        ratio = precise(report.totals.raw_bytes) / precise(report.totals.compressed_bytes);
    }
    Some(CompressionRow {
        name,
        engine,
        ratio,
        deflate,
        inflate: None,
    })
}

fn rows(selection: &Selection) -> Vec<CompressionRow> {
    let mut rows = Vec::new();
    for data in Data::ALL {
        let mut bytes = Vec::new();
        for level in LEVELS {
            let name = format!("compress {} level {level}", data.name());
            let by_zstd = format!("{name} by zstd");
            let zlib = selection.wants_any(&[&name, "zlib@openssh.com", "deflate"]);
            let zstd = selection.wants_any(&[&by_zstd, "zstd2@fulmar.invalid"]);
            if !zlib && !zstd {
                continue;
            }
            if bytes.is_empty() && data.write(BYTES, &mut bytes).is_err() {
                // Memory takes all that is written to it.
                continue;
            }
            if zlib {
                rows.extend(row(
                    (name, INTERNAL),
                    level,
                    &bytes,
                    Compressor::new,
                    Decompressor::new,
                ));
            }
            if zstd {
                rows.extend(row(
                    (by_zstd, ZSTD),
                    level,
                    &bytes,
                    ZstdCompressor::new,
                    Decompressor::zstd,
                ));
            }
        }
    }
    rows
}

/// `None` would be a defect of the codec.
fn row<C: PacketCompressor>(
    (name, engine): (String, &str),
    level: u8,
    bytes: &[u8],
    compressor: fn(CompressionSettings) -> C,
    decompressor: fn() -> Decompressor,
) -> Option<CompressionRow> {
    let (mut deflate, mut inflate, mut ratio) = (0.0_f64, 0.0_f64, 0.0);
    for _ in 0..RUNS {
        let mut codec = compressor(CompressionSettings {
            level,
            adaptive: false,
        });
        let mut packets = Vec::new();
        for payload in bytes.chunks(PAYLOAD_BYTES) {
            let mut packet = Vec::with_capacity(payload.len() + 64);
            codec.compress(payload, &mut packet).ok()?;
            packets.push(packet);
        }
        let report = codec.report();
        let seconds = precise(report.cpu_ns) / 1e9;
        deflate = deflate.max(precise(report.totals.raw_bytes) / seconds);
        ratio = precise(report.totals.raw_bytes) / precise(report.totals.compressed_bytes);
        let mut out = Vec::with_capacity(2 * PAYLOAD_BYTES);
        let mut decompressor = decompressor();
        let begun = Instant::now();
        for packet in &packets {
            out.clear();
            decompressor
                .decompress(packet, &mut out, MAX_INFLATED_BYTES)
                .ok()?;
        }
        inflate = inflate.max(precise(report.totals.raw_bytes) / begun.elapsed().as_secs_f64());
    }
    Some(CompressionRow {
        name,
        engine: engine.to_owned(),
        ratio,
        deflate,
        inflate: Some(inflate),
    })
}

/// Counts are far below 2^52.
#[allow(clippy::cast_precision_loss)]
fn precise(count: u64) -> f64 {
    count as f64
}
