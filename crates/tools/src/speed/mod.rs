//! `fulmar speed`: what this machine's kernels and primitives do, one row each.
//!
//! Packets of 32 KiB, one core, best of several short runs: a ceiling, not a transfer rate.
//! `fulmar bench` measures whole programs.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use crypto::cipher::{CIPHERS, CipherAlgorithm, CipherKind};
use crypto::mac::{MACS, MacAlgorithm};
use packet::{OpenKeys, PacketBuf, SealKeys, Sequencer, Splitter};

use crate::json::Json;
use crate::table::Table;

/// Payload of the packets that are measured, bytes.
const PAYLOAD_BYTES: usize = 32 * 1024;
/// Time given to one figure.
const SLICE: Duration = Duration::from_millis(120);

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
    let packets = packet_rows(&wanted);
    let operations = operation_rows(&wanted);
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

/// One cipher with its MAC: seal and open, bytes per second.
struct PacketRow {
    name: String,
    seal: f64,
    open: f64,
}

/// One operation and how many of it a second holds.
struct OperationRow {
    name: String,
    per_second: f64,
}

/// Repeats `work` (which does `units` at a time) for a slice of time; the best run counts.
fn rate(units: f64, mut work: impl FnMut()) -> f64 {
    work();
    let mut best = 0.0_f64;
    let end = Instant::now() + SLICE;
    while Instant::now() < end {
        let begun = Instant::now();
        let mut rounds = 0.0;
        while begun.elapsed() < SLICE / 12 {
            work();
            rounds += 1.0;
        }
        best = best.max(units * rounds / begun.elapsed().as_secs_f64());
    }
    best
}

fn packet_rows(wanted: &dyn Fn(&str) -> bool) -> Vec<PacketRow> {
    let mut rows = Vec::new();
    for spec in CIPHERS {
        let Some(cipher) = CipherAlgorithm::from_name(spec.name) else {
            continue;
        };
        let macs: Vec<Option<MacAlgorithm>> = match cipher.kind() {
            CipherKind::Ctr => MACS
                .iter()
                .map(|spec| MacAlgorithm::from_name(spec.name))
                .collect(),
            _ => vec![None],
        };
        for mac in macs {
            let name = match mac {
                Some(mac) => format!("{} {}", cipher.name(), mac.name()),
                None => cipher.name().to_string(),
            };
            if wanted(&name)
                && let Some(row) = packet_row(name, cipher, mac)
            {
                rows.push(row);
            }
        }
    }
    rows
}

fn packet_row(
    name: String,
    cipher: CipherAlgorithm,
    mac: Option<MacAlgorithm>,
) -> Option<PacketRow> {
    let key = vec![1; cipher.key_len()];
    let iv = vec![2; cipher.iv_len()];
    let mac_key = vec![3; mac.map_or(0, |mac| mac.key_len())];
    let seal_keys = SealKeys::new(cipher, mac, &key, &iv, &mac_key).ok()?;
    let open_keys = OpenKeys::new(cipher, mac, &key, &iv, &mac_key).ok()?;
    let mut sequencer = Sequencer::new();
    sequencer.set_keys(seal_keys.into(), true);
    let payload = vec![0x5a; PAYLOAD_BYTES];
    let mut buf = PacketBuf::with_capacity(PAYLOAD_BYTES);
    #[allow(clippy::cast_precision_loss)]
    let bytes = PAYLOAD_BYTES as f64;
    // The copy of the payload into the buffer stands for the read from a file.
    let seal = rate(bytes, || {
        buf.clear();
        buf.extend(&payload);
        let taken = std::mem::replace(&mut buf, PacketBuf::with_capacity(0));
        if let Ok(job) = sequencer.stamp(taken) {
            buf = job.run().into_buf();
        }
    });
    let wire = sealed_batch(cipher, mac, (&key, &iv, &mac_key), &payload)?;
    let keys = std::sync::Arc::new(open_keys);
    #[allow(clippy::cast_precision_loss)]
    let batch_bytes = (PAYLOAD_BYTES * BATCH) as f64;
    let mut splitter = Splitter::new();
    let open = rate(batch_bytes, || {
        splitter.set_keys(keys.clone(), true);
        splitter.handle_bytes(&wire);
        while let Ok(Some(job)) = splitter.next() {
            if job.run().is_err() {
                break;
            }
        }
    });
    Some(PacketRow { name, seal, open })
}

/// Packets that are opened in one round.
const BATCH: usize = 8;

fn sealed_batch(
    cipher: CipherAlgorithm,
    mac: Option<MacAlgorithm>,
    keys: (&[u8], &[u8], &[u8]),
    payload: &[u8],
) -> Option<Vec<u8>> {
    let mut sequencer = Sequencer::new();
    sequencer.set_keys(
        SealKeys::new(cipher, mac, keys.0, keys.1, keys.2)
            .ok()?
            .into(),
        true,
    );
    let mut wire = Vec::new();
    for _ in 0..BATCH {
        let sealed = sequencer
            .stamp(PacketBuf::from_payload(payload))
            .ok()?
            .run();
        wire.extend_from_slice(sealed.wire());
    }
    Some(wire)
}

fn operation_rows(wanted: &dyn Fn(&str) -> bool) -> Vec<OperationRow> {
    let mut rows = Vec::new();
    for name in [
        "mlkem768x25519-sha256",
        "sntrup761x25519-sha512",
        "curve25519-sha256",
        "ecdh-sha2-nistp256",
    ] {
        let Some(method) = crypto::kex::KexAlgorithm::from_name(name) else {
            continue;
        };
        if !wanted(name) {
            continue;
        }
        let per_second = rate(1.0, || {
            let Ok((initiator, public)) = crypto::kex::Initiator::new(method) else {
                return;
            };
            if let Ok((reply, _)) = crypto::kex::respond(method, &public) {
                let _ = initiator.finish(&reply);
            }
        });
        rows.push(OperationRow {
            name: format!("{name} (both sides)"),
            per_second,
        });
    }
    use crypto::sign::{KeyKind, PrivateKey, SignatureScheme};
    let kinds = [
        ("ed25519", KeyKind::Ed25519, SignatureScheme::Ed25519, 0),
        (
            "ecdsa-nistp256",
            KeyKind::EcdsaP256,
            SignatureScheme::EcdsaP256Sha256,
            0,
        ),
        (
            "rsa-2048",
            KeyKind::Rsa,
            SignatureScheme::RsaPkcs1Sha512,
            2048,
        ),
    ];
    for (name, kind, scheme, bits) in kinds {
        if !wanted(name) {
            continue;
        }
        let Ok(key) = PrivateKey::generate(kind, bits) else {
            continue;
        };
        let Ok(signature) = key.sign(scheme, b"message") else {
            continue;
        };
        let sign = rate(1.0, || {
            let _ = key.sign(scheme, b"message");
        });
        let verify = rate(1.0, || {
            let _ = key.public().verify(scheme, b"message", &signature);
        });
        rows.push(OperationRow {
            name: format!("{name} sign"),
            per_second: sign,
        });
        rows.push(OperationRow {
            name: format!("{name} verify"),
            per_second: verify,
        });
    }
    rows
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
