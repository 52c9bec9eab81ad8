//! The figures as tables or as JSON.

use std::time::Duration;

use super::algorithms::{AlgorithmRow, MANY, PACKET_BYTES};
use super::operations::OperationRow;
use super::packets::{PAYLOAD_BYTES, PacketRow};
use super::{cpu_features, kernels};
use crate::json::Json;
use crate::table::Table;

/// All that was measured.
pub(super) struct Report {
    pub(super) first_random: Duration,
    pub(super) warm_up: Duration,
    pub(super) algorithms: Vec<AlgorithmRow>,
    pub(super) packets: Vec<PacketRow>,
    pub(super) operations: Vec<OperationRow>,
}

impl Report {
    pub(super) fn is_empty(&self) -> bool {
        self.algorithms.is_empty() && self.packets.is_empty() && self.operations.is_empty()
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("CPU:      {}\nkernels:  {}\n", cpu_features(), kernels());
        text += &format!(
            "first random byte {:.3} ms, start of the cryptographic library {:.3} ms\n",
            milliseconds(self.first_random),
            milliseconds(self.warm_up)
        );
        if !self.algorithms.is_empty() {
            text += "\n";
            text += &algorithm_table(&self.algorithms).render();
            text += &format!(
                "* in use. Packets of {} KiB, one core; HMACs of {MANY} packets at once.\n",
                PACKET_BYTES / 1024
            );
        }
        if !self.packets.is_empty() {
            let mut table = Table::new(&["packets of 32 KiB, one core", "seal GB/s", "open GB/s"]);
            for row in &self.packets {
                table.row(vec![
                    row.name.clone(),
                    gigabytes(row.seal),
                    gigabytes(row.open),
                ]);
            }
            text += "\n";
            text += &table.render();
        }
        if !self.operations.is_empty() {
            let mut table = Table::new(&["operation", "per second", "microseconds"]);
            for row in &self.operations {
                table.row(vec![
                    row.name.clone(),
                    format!("{:.0}", row.per_second),
                    format!("{:.1}", 1e6 / row.per_second),
                ]);
            }
            text += "\n";
            text += &table.render();
        }
        text
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
            ("operations", list(&self.operations, operation_json)),
        ])
    }
}

fn algorithm_table(rows: &[AlgorithmRow]) -> Table {
    let mut table = Table::new(&["algorithm", "kernel", "", "GB/s", "portable = 1.0"]);
    let mut before = "";
    for row in rows {
        let name = if row.name == before { "" } else { row.name };
        before = row.name;
        table.row(vec![
            name.to_string(),
            row.kernel.to_string(),
            if row.in_use { "*" } else { "" }.to_string(),
            gigabytes(row.bytes_per_second),
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

fn operation_json(row: &OperationRow) -> Json {
    Json::object(vec![
        ("name", Json::text(&row.name)),
        ("per_second", Json::Number(row.per_second)),
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
