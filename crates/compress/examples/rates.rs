//! Speed and ratio compared with zlib: `rates FILE [LEVEL]…`, by default levels 1, 6 and 9.
//!
//! Each round compresses the file once with zlib at level 6 (that of python3, with a partial flush
//! for each 32 KiB as in OpenSSH) and once at each level with this crate, in CPU seconds of one
//! thread, so that other load affects all alike. The output is medians over the rounds, and the
//! median of the quotients. Environment: `ROUNDS` (5), `RUNS` (payloads per run; singly by
//! default), `ADAPTIVE` (store incompressible payloads), `ZLIB_LEVEL` (6), `OUT` (a file for the
//! stream, which zlib then inflates and compares).

use compress::PacketCompressor;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use compress::{CompressionSettings, Compressor, Decompressor, Encoded, MAX_INFLATED_BYTES};

const PAYLOAD_BYTES: usize = 32 * 1024;

/// Answers each line on its input with CPU seconds of compressing and inflating, and bytes.
const ZLIB: &str = r#"
import sys, time, zlib
if len(sys.argv) > 3:
    ours = zlib.decompressobj().decompress(open(sys.argv[3], "rb").read())
    sys.exit(ours != open(sys.argv[1], "rb").read())
data = open(sys.argv[1], "rb").read()
pieces = [data[at:at + 32768] for at in range(0, len(data), 32768)]
for _ in sys.stdin:
    stream = zlib.compressobj(int(sys.argv[2]))
    begun = time.thread_time()
    packets = [stream.compress(piece) + stream.flush(zlib.Z_PARTIAL_FLUSH) for piece in pieces]
    sent = time.thread_time() - begun
    stream = zlib.decompressobj()
    begun = time.thread_time()
    for packet in packets:
        stream.decompress(packet)
    print(sent, time.thread_time() - begun, sum(map(len, packets)), flush=True)
"#;

/// Result of one pass.
#[derive(Clone, Copy)]
struct Pass {
    sent: f64,
    received: f64,
    bytes: usize,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a file");
    let mut levels: Vec<u8> = args.map(|level| level.parse().expect("a level")).collect();
    if levels.is_empty() {
        levels = vec![1, 6, 9];
    }
    let data = std::fs::read(&path).expect("readable");
    let zlib_level = std::env::var("ZLIB_LEVEL").unwrap_or_else(|_| "6".into());
    let mut child = Command::new("python3")
        .args(["-c", ZLIB, &path, &zlib_level])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut asked = child.stdin.take().expect("a pipe");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut theirs = Vec::new();
    let mut ours = vec![Vec::new(); levels.len()];
    for _ in 0..number("ROUNDS").unwrap_or(5) {
        asked.write_all(b"\n").expect("python3");
        let line = said.next().expect("an answer").expect("an answer");
        let mut words = line.split(' ');
        let mut word = || words.next().expect("three numbers");
        theirs.push(Pass {
            sent: word().parse().expect("seconds"),
            received: word().parse().expect("seconds"),
            bytes: word().parse().expect("bytes"),
        });
        for (passes, level) in ours.iter_mut().zip(&levels) {
            passes.push(pass(&data, *level));
        }
    }
    drop(asked);
    child.wait().expect("python3");
    let size = data.len() as f64;
    let show = |name: &str, passes: &[Pass]| {
        let mb = size / 1e6;
        let speed = mb / median(passes.iter().map(|pass| pass.sent));
        let inflate = mb / median(passes.iter().map(|pass| pass.received));
        let ratio = size / passes[0].bytes as f64;
        let smaller = theirs[0].bytes as f64 / passes[0].bytes as f64;
        let pairs = || passes.iter().zip(&theirs);
        let times = median(pairs().map(|(ours, theirs)| theirs.sent / ours.sent));
        let times_back = median(pairs().map(|(ours, theirs)| theirs.received / ours.received));
        println!(
            "{name:>7}: ratio {ratio:.4} ({smaller:.4}), {speed:6.1} MB/s ({times:.2}), \
             inflate {inflate:.0} ({times_back:.2})"
        );
    };
    println!("{path}");
    show(&format!("zlib {zlib_level}"), &theirs);
    for (passes, level) in ours.iter().zip(&levels) {
        show(&format!("level {level}"), passes);
    }
}

fn number(name: &str) -> Option<usize> {
    std::env::var(name).ok()?.parse().ok()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn pass(data: &[u8], level: u8) -> Pass {
    let adaptive = std::env::var_os("ADAPTIVE").is_some();
    let mut sender = Compressor::new(CompressionSettings { level, adaptive });
    let payloads: Vec<&[u8]> = data.chunks(PAYLOAD_BYTES).collect();
    // Touches the memory first, so that page faults are not measured.
    let mut stream = vec![1; data.len() + data.len() / 8 + 4096];
    stream.clear();
    let mut ends = Vec::with_capacity(payloads.len());
    let begun = cpu();
    if let Some(size) = number("RUNS") {
        for group in payloads.chunks(size) {
            let job = sender.begin_run(0, group.iter().copied());
            let mut payloads = group.iter();
            let done = job.run(|piece| {
                let payload = payloads.next().copied().unwrap_or_default();
                match piece {
                    Encoded::Stored { header } => {
                        stream.extend_from_slice(header);
                        stream.extend_from_slice(payload);
                    }
                    Encoded::Deflated(bytes) => stream.extend_from_slice(bytes),
                }
                ends.push(stream.len());
            });
            sender.finish_run(&done.expect("an encoder without defects"));
        }
    } else {
        for payload in &payloads {
            let result = sender.compress(payload, &mut stream);
            result.expect("an encoder without defects");
            ends.push(stream.len());
        }
    }
    let sent = cpu() - begun;
    if let Ok(out) = std::env::var("OUT") {
        std::fs::write(&out, &stream).expect("writable");
        let path = std::env::args().nth(1).expect("a file");
        let status = Command::new("python3")
            .args(["-c", ZLIB, &path, "", &out])
            .status();
        assert!(status.expect("python3").success(), "zlib reads other bytes");
    }
    let mut receiver = Decompressor::new();
    let mut out = Vec::with_capacity(2 * PAYLOAD_BYTES);
    let mut start = 0;
    let begun = cpu();
    for (end, payload) in ends.into_iter().zip(&payloads) {
        out.clear();
        let result = receiver.decompress(&stream[start..end], &mut out, MAX_INFLATED_BYTES);
        result.expect("a stream without faults");
        assert!(out == *payload, "the bytes have changed");
        start = end;
    }
    Pass {
        sent,
        received: cpu() - begun,
        bytes: stream.len(),
    }
}

/// CPU seconds of this thread.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    let worked = stat.split(' ').next().expect("a number");
    worked.parse::<f64>().expect("a number") / 1e9
}
