//! `fulmar speed`: what this machine's kernels and primitives do, one row each.
//!
//! Packets of 32 KiB, one core, best of several short runs: a ceiling, not a transfer rate.
//! `fulmar bench` measures whole programs.

mod operations;
mod packets;
mod time;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use crate::json::Json;
use crate::table::Table;
use operations::OperationRow;
use packets::PacketRow;

const USAGE: &str = "usage: fulmar speed [--json] [name ...]\n\
     A name is part of an algorithm's name: fulmar speed aes128 umac\n";

/// Runs the program; gives its exit status: 0, or 2 for arguments that it does not know.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    // The first random byte of a process is measured before anything else can draw one.
    let begun = Instant::now();
    let _: [u8; 1] = crypto::random::bytes();
    let first_random = begun.elapsed();
    let begun = Instant::now();
    crypto::warm_up();
    let warm_up = begun.elapsed();

    let mut json = false;
    let mut names = Vec::new();
    for arg in args {
        match arg.to_str() {
            Some("--json") => json = true,
            Some("-h" | "--help") => {
                print!("{USAGE}");
                return 0;
            }
            Some(name) if !name.starts_with('-') => names.push(name.to_string()),
            _ => {
                eprint!("fulmar speed: unknown argument {arg:?}\n{USAGE}");
                return 2;
            }
        }
    }
    let wanted =
        |name: &str| names.is_empty() || names.iter().any(|part| name.contains(part.as_str()));
    let packets = packets::rows(&wanted);
    let operations = operations::rows(&wanted);
    if packets.is_empty() && operations.is_empty() {
        eprintln!(
            "fulmar speed: no algorithm is named like {}",
            names.join(" or ")
        );
        return 2;
    }
    if json {
        println!(
            "{}",
            as_json(&packets, &operations, first_random, warm_up).render()
        );
    } else {
        print_tables(&packets, &operations, first_random, warm_up);
    }
    0
}

/// What the CPU offers, as one line.
pub(crate) fn cpu_features() -> String {
    crypto::arch::describe()
        .into_iter()
        .filter(|(_, present)| *present)
        .map(|(name, _)| name)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Which kernel serves which primitive, as one line.
pub(crate) fn kernels() -> String {
    crypto::arch::kernels()
        .into_iter()
        .map(|(primitive, kernel)| format!("{primitive}: {kernel}"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn print_tables(
    packets: &[PacketRow],
    operations: &[OperationRow],
    first_random: Duration,
    warm_up: Duration,
) {
    println!("CPU:      {}", cpu_features());
    println!("kernels:  {}", kernels());
    println!(
        "first random byte {:.3} ms, start of the cryptographic library {:.3} ms\n",
        first_random.as_secs_f64() * 1e3,
        warm_up.as_secs_f64() * 1e3
    );
    if !packets.is_empty() {
        let mut table = Table::new(&["packets of 32 KiB, one core", "seal GB/s", "open GB/s"]);
        for row in packets {
            table.row(vec![
                row.name.clone(),
                format!("{:.2}", row.seal / 1e9),
                format!("{:.2}", row.open / 1e9),
            ]);
        }
        println!("{}", table.render());
    }
    if !operations.is_empty() {
        let mut table = Table::new(&["operation", "per second", "microseconds"]);
        for row in operations {
            table.row(vec![
                row.name.clone(),
                format!("{:.0}", row.per_second),
                format!("{:.1}", 1e6 / row.per_second),
            ]);
        }
        print!("{}", table.render());
    }
}

fn as_json(
    packets: &[PacketRow],
    operations: &[OperationRow],
    first_random: Duration,
    warm_up: Duration,
) -> Json {
    Json::object(vec![
        ("cpu", Json::text(cpu_features())),
        ("kernels", Json::text(kernels())),
        (
            "first_random_ms",
            Json::Number(first_random.as_secs_f64() * 1e3),
        ),
        ("warm_up_ms", Json::Number(warm_up.as_secs_f64() * 1e3)),
        (
            "packets",
            Json::List(
                packets
                    .iter()
                    .map(|row| {
                        Json::object(vec![
                            ("name", Json::text(&row.name)),
                            ("payload_bytes", Json::Number(32768.0)),
                            ("seal_bytes_per_second", Json::Number(row.seal)),
                            ("open_bytes_per_second", Json::Number(row.open)),
                        ])
                    })
                    .collect(),
            ),
        ),
        (
            "operations",
            Json::List(
                operations
                    .iter()
                    .map(|row| {
                        Json::object(vec![
                            ("name", Json::text(&row.name)),
                            ("per_second", Json::Number(row.per_second)),
                        ])
                    })
                    .collect(),
            ),
        ),
    ])
}
