//! The figures as text, as JSON or as a page.

use std::time::Duration;

use super::algorithms::{AlgorithmRow, MANY, PACKET_BYTES};
use super::compression::{Compression, CompressionRow};
use super::packets::{PAYLOAD_BYTES, PacketRow};
use super::public_key::{OperationKind, PublicKeyRow};
use super::{cpu_features, kernels};
use crate::html::{self, SpeedBar, SpeedPart};
use crate::table::Table;
use copy::json::Json;

const SIGNATURE_NOTE: &str =
    "sign includes the hash and the verification of the signature; openssl measures neither.\n";
const EXCHANGE_NOTE: &str = "keygen: a client's first message; respond: the server's whole work; agree: the client's last step, which openssl measures.\n\
     Diffie-Hellman: our exponents have 512 bits, openssl's 225 to 400.\n";

/// All that was measured.
pub(super) struct SpeedReport {
    pub(super) first_random: Duration,
    pub(super) warm_up: Duration,
    pub(super) algorithms: Vec<AlgorithmRow>,
    pub(super) packets: Vec<PacketRow>,
    pub(super) public_key: Vec<PublicKeyRow>,
    /// Who `openssl speed` is, if it was asked.
    pub(super) openssl: Option<String>,
    pub(super) compression: Compression,
}

impl SpeedReport {
    pub(super) fn is_empty(&self) -> bool {
        self.algorithms.is_empty()
            && self.packets.is_empty()
            && self.public_key.is_empty()
            && self.compression.rows.is_empty()
    }

    /// What the machine is, and what its first random bytes cost.
    fn about(&self) -> [(&'static str, String); 3] {
        let start = format!(
            "{:.3} ms, start of the cryptographic library {:.3} ms",
            milliseconds(self.first_random),
            milliseconds(self.warm_up)
        );
        [
            ("CPU", cpu_features()),
            ("kernels", kernels()),
            ("first random byte", start),
        ]
    }

    /// The parts that were measured.
    fn parts(&self) -> Vec<SpeedPart> {
        let mut parts = Vec::new();
        if !self.algorithms.is_empty() {
            parts.push(SpeedPart {
                title: "Ciphers and MACs",
                reading: "Bytes per second on one core, by implementation (kernel); × is the multiple of portable \
                          code. Longer is better."
                    .to_owned(),
                line_at: None,
                bars: self.algorithms.iter().map(algorithm_bar).collect(),
                table: algorithm_table(&self.algorithms),
                note: format!(
                    "* in use. Packets of {} KiB, one core; HMACs of {MANY} packets at once. The kernels of \
                     an algorithm took turns; cycles are ticks of the time-stamp counter.\n",
                    PACKET_BYTES / 1024
                ),
            });
        }
        if !self.packets.is_empty() {
            parts.push(SpeedPart {
                title: "Packets",
                reading: "Payload bytes that one core encrypts and authenticates in a second. Longer is better."
                    .to_owned(),
                line_at: None,
                bars: self.packets.iter().map(packet_bar).collect(),
                table: packet_table(&self.packets),
                note: String::new(),
            });
        }
        let openssl = self.openssl.as_deref().unwrap_or("openssl");
        for kind in [OperationKind::Signature, OperationKind::Exchange] {
            let of_kind = |row: &&PublicKeyRow| row.kind == kind;
            let rows: Vec<_> = self.public_key.iter().filter(of_kind).collect();
            if rows.is_empty() {
                continue;
            }
            let (title, note) = match kind {
                OperationKind::Signature => ("Signatures", SIGNATURE_NOTE),
                OperationKind::Exchange => ("Key exchanges", EXCHANGE_NOTE),
            };
            let bars: Vec<SpeedBar> = rows.iter().flat_map(|row| public_key_bars(row)).collect();
            let times = || bars.iter().map(|bar| bar.value);
            let (least, most) = (
                times().fold(f64::INFINITY, f64::min),
                times().fold(0.0, f64::max),
            );
            parts.push(SpeedPart {
                title,
                reading: format!(
                    "Speed of one core as a multiple of that of {openssl}, which the line marks: from {least:.2}× \
                     to {most:.2}×. Longer is better."
                ),
                bars,
                line_at: Some(1.0),
                table: public_key_table(kind, &rows, openssl),
                note: note.to_owned(),
            });
        }
        if !self.compression.rows.is_empty() {
            let engines = self.compression.engines.iter();
            parts.push(SpeedPart {
                title: "Compression",
                reading: "Bytes of input that one core compresses in a second of its time. Longer is better."
                    .to_owned(),
                line_at: None,
                bars: self.compression.rows.iter().map(compression_bar).collect(),
                table: compression_table(&self.compression.rows),
                note: engines.map(|engine| format!("engine {engine}\n")).collect(),
            });
        }
        parts
    }

    pub(super) fn text(&self) -> String {
        let [(_, cpu), (_, kernels), (first_random, start)] = self.about();
        let mut text = format!("CPU:      {cpu}\nkernels:  {kernels}\n{first_random} {start}\n");
        for part in self.parts() {
            text.push('\n');
            text += &part.table.render();
            text += &part.note;
        }
        text
    }

    pub(super) fn html(&self) -> String {
        html::speed_page(&self.about(), &self.parts())
    }

    pub(super) fn json(&self) -> Json {
        Json::object(vec![
            ("cpu", Json::text(cpu_features())),
            ("kernels", Json::text(kernels())),
            (
                "first_random_ms",
                Json::Number(milliseconds(self.first_random)),
            ),
            ("warm_up_ms", Json::Number(milliseconds(self.warm_up))),
            ("algorithms", list(&self.algorithms, algorithm_json)),
            ("packets", list(&self.packets, packet_json)),
            (
                "openssl",
                Json::text(self.openssl.as_deref().unwrap_or_default()),
            ),
            (
                "operations",
                Json::List(self.public_key.iter().flat_map(operations_json).collect()),
            ),
            (
                "compression",
                list(&self.compression.rows, compression_json),
            ),
            (
                "compression_engines",
                Json::List(self.compression.engines.iter().map(Json::text).collect()),
            ),
        ])
    }
}

fn algorithm_bar(row: &AlgorithmRow) -> SpeedBar {
    SpeedBar {
        label: format!("{}, {}", row.name, row.kernel),
        value: row.bytes_per_second,
        shown: format!(
            "{} GB/s · {:.1}×",
            gigabytes(row.bytes_per_second),
            row.times_portable
        ),
        is_ours: row.in_use,
    }
}

fn packet_bar(row: &PacketRow) -> SpeedBar {
    SpeedBar {
        label: row.name.clone(),
        value: row.seal,
        shown: format!("{} GB/s sealed", gigabytes(row.seal)),
        is_ours: true,
    }
}

fn packet_table(rows: &[PacketRow]) -> Table {
    let mut table = Table::new(&["packets of 32 KiB, one core", "seal GB/s", "open GB/s"]);
    for row in rows {
        let (seal, open) = (gigabytes(row.seal), gigabytes(row.open));
        table.row(vec![row.name.clone(), seal, open]);
    }
    table
}

/// The first operation of ours as a multiple of `openssl speed`'s, if that was measured.
fn public_key_bars(row: &PublicKeyRow) -> Option<SpeedBar> {
    let theirs = row.openssl.as_ref()?;
    let mut pairs = row.ours.iter().zip(theirs).zip(row.kind.operations());
    let ((ours, theirs), operation) = pairs.find(|((_, theirs), _)| theirs.is_finite())?;
    let times = ours / theirs;
    Some(SpeedBar {
        label: format!("{}, {operation}", row.name),
        value: times,
        shown: format!("{times:.2}× openssl"),
        is_ours: true,
    })
}

fn compression_bar(row: &CompressionRow) -> SpeedBar {
    SpeedBar {
        label: row.name.clone(),
        value: row.deflate,
        shown: format!("{:.0} MB/s, ratio {:.2}", row.deflate / 1e6, row.ratio),
        is_ours: true,
    }
}

fn compression_table(rows: &[CompressionRow]) -> Table {
    let mut table = Table::new(&[
        "payloads of 32 KiB, one core",
        "ratio",
        "MB/s of CPU",
        "inflate MB/s",
    ]);
    for row in rows {
        let inflate = row.inflate;
        table.row(vec![
            row.name.clone(),
            format!("{:.3}", row.ratio),
            format!("{:.0}", row.deflate / 1e6),
            inflate.map_or_else(String::new, |inflate| format!("{:.0}", inflate / 1e6)),
        ]);
    }
    table
}

fn algorithm_table(rows: &[AlgorithmRow]) -> Table {
    let mut table = Table::new(&[
        "algorithm",
        "kernel",
        "",
        "GB/s",
        "cycles/B",
        "portable = 1.0",
    ]);
    let mut before = "";
    for row in rows {
        let name = if row.name == before { "" } else { row.name };
        before = row.name;
        table.row(vec![
            name.to_string(),
            row.kernel.to_string(),
            if row.in_use { "*" } else { "" }.to_string(),
            gigabytes(row.bytes_per_second),
            row.cycles_per_byte
                .map_or_else(String::new, |cycles| format!("{cycles:.3}")),
            format!("{:.1}", row.times_portable),
        ]);
    }
    table
}

fn algorithm_json(row: &AlgorithmRow) -> Json {
    Json::object(vec![
        ("name", Json::text(row.name)),
        ("kernel", Json::text(row.kernel)),
        ("packet_bytes", number(PACKET_BYTES)),
        ("bytes_per_second", Json::Number(row.bytes_per_second)),
        (
            "cycles_per_byte",
            Json::Number(row.cycles_per_byte.unwrap_or(f64::NAN)),
        ),
        ("times_portable", Json::Number(row.times_portable)),
        ("in_use", Json::Bool(row.in_use)),
    ])
}

fn packet_json(row: &PacketRow) -> Json {
    Json::object(vec![
        ("name", Json::text(&row.name)),
        ("payload_bytes", number(PAYLOAD_BYTES)),
        ("seal_bytes_per_second", Json::Number(row.seal)),
        ("open_bytes_per_second", Json::Number(row.open)),
    ])
}

/// A line for us, and one for each of the others with how many times as fast ours is.
fn public_key_table(kind: OperationKind, rows: &[&PublicKeyRow], openssl: &str) -> Table {
    let operations = kind.operations();
    let rates: Vec<String> = operations.iter().map(|each| format!("{each}/s")).collect();
    let times: Vec<String> = operations
        .iter()
        .map(|each| format!("ours, {each}"))
        .collect();
    let mut heading = vec![""];
    heading.extend(operations);
    heading.extend(rates.iter().chain(&times).map(String::as_str));
    let mut table = Table::new(&heading);
    for row in rows {
        let others = [(openssl, &row.openssl), ("portable", &row.portable)];
        table.row(public_key_cells(row.name.to_owned(), &row.ours, None));
        for (name, rates) in others {
            if let Some(rates) = rates {
                table.row(public_key_cells(
                    format!("  {name}"),
                    rates,
                    Some(&row.ours),
                ));
            }
        }
    }
    table
}

fn public_key_cells(name: String, rates: &[f64], ours: Option<&[f64]>) -> Vec<String> {
    let known = |rate: &f64, text: String| {
        if rate.is_finite() {
            text
        } else {
            String::new()
        }
    };
    let mut cells = vec![name];
    cells.extend(
        rates
            .iter()
            .map(|rate| known(rate, format!("{:.6}s", 1.0 / rate))),
    );
    cells.extend(rates.iter().map(|rate| known(rate, format!("{rate:.1}"))));
    for (ours, rate) in ours.into_iter().flatten().zip(rates) {
        cells.push(known(rate, format!("{:.2}x", ours / rate)));
    }
    cells
}

fn operations_json(row: &PublicKeyRow) -> Vec<Json> {
    let operations = row.kind.operations().iter().enumerate();
    let known = |rates: &Option<Vec<f64>>, at: usize| {
        let rate = rates.as_ref().and_then(|rates| rates.get(at));
        Json::Number(rate.copied().unwrap_or(f64::NAN))
    };
    operations
        .map(|(at, operation)| {
            Json::object(vec![
                ("name", Json::text(row.name)),
                ("operation", Json::text(*operation)),
                (
                    "per_second",
                    Json::Number(row.ours.get(at).copied().unwrap_or(f64::NAN)),
                ),
                ("openssl_per_second", known(&row.openssl, at)),
                ("portable_per_second", known(&row.portable, at)),
            ])
        })
        .collect()
}

fn compression_json(row: &CompressionRow) -> Json {
    Json::object(vec![
        ("name", Json::text(&row.name)),
        ("engine", Json::text(&row.engine)),
        ("ratio", Json::Number(row.ratio)),
        (row.deflate_by(), Json::Number(row.deflate)),
        (
            "inflate_bytes_per_second",
            Json::Number(row.inflate.unwrap_or(f64::NAN)),
        ),
    ])
}

fn list<T>(rows: &[T], json: impl Fn(&T) -> Json) -> Json {
    Json::List(rows.iter().map(json).collect())
}

#[allow(clippy::cast_precision_loss)]
fn number(count: usize) -> Json {
    Json::Number(count as f64)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn gigabytes(bytes_per_second: f64) -> String {
    format!("{:.2}", bytes_per_second / 1e9)
}
