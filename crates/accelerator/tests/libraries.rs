//! Real libraries with zlib's functions, each behind the process that loads it: their runs of every
//! level make one stream with what our own engine puts between. The test's own binary is executed
//! as the role. `.ci/zlibs` builds what distributions do not have.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use accelerator::{Accelerator, Request};
use compress::provider::{Flush, Provider, Run, RunEncoder, Verifier};
use compress::{Compressor, Decompressor, Encoded, MAX_INFLATED_BYTES, Settings};
use sys::process::SelfExe;

/// What most packets of bulk hold, bytes.
const PAYLOAD_BYTES: usize = 32 * 1024;

fn main() {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if arguments
        .first()
        .is_some_and(|first| first == accelerator::ROLE)
    {
        arguments.remove(0);
        std::process::exit(accelerator::main(arguments));
    }
    let filter = arguments
        .iter()
        .find_map(|it| it.to_str().filter(|it| !it.starts_with('-')));
    for (name, candidates) in libraries() {
        if filter.is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        let Some(path) = candidates.iter().find(|path| path.exists()) else {
            eprintln!("skipped: {name} (run .ci/zlibs to build it)");
            continue;
        };
        library(name, path);
        println!("test {name} ... ok");
    }
}

/// Names, and where each may be.
fn libraries() -> Vec<(&'static str, Vec<PathBuf>)> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        PathBuf::from,
    );
    let built = |name: &str| {
        let path = target.join("zlibs").join(name);
        vec![path.canonicalize().unwrap_or(path)]
    };
    let debian = ["x86_64", "aarch64"]
        .map(|arch| PathBuf::from(format!("/usr/lib/{arch}-linux-gnu/libz.so.1")));
    vec![
        ("zlib", debian.to_vec()),
        ("zlib-ng", built("libz-ng.so")),
        ("zlib-rs", built("libz-rs.so")),
        ("isal", built("libz-isal.so")),
    ]
}

fn library(name: &str, path: &Path) {
    let request = Request {
        libraries: vec![path.to_owned()],
        lanes: 2,
        // The machine may have other things to do.
        start_limit: Duration::from_secs(60),
        run_limit: Duration::from_secs(60),
        ..Request::new(&[], true, 6)
    };
    let accelerator = Accelerator::open(&request, &SelfExe::open().unwrap());
    let accelerator = Arc::new(accelerator.unwrap_or_else(|why| panic!("{name}: {why}")));
    let described = accelerator.describe();
    println!("{described}");
    assert!(described.contains("self-test ok"), "{described}");
    assert_eq!(accelerator.path(), path, "{described}");
    let data = data();
    for level in 1..=9 {
        let begun = Instant::now();
        let bytes = stream(name, &accelerator, level, &data);
        let ratio = data.len() * 100 / bytes;
        let ms = begun.elapsed().as_millis();
        println!(
            "{name} level {level}: {}.{:02}, {ms} ms",
            ratio / 100,
            ratio % 100
        );
        // All levels of all of them compress text.
        assert!(bytes < data.len() * 3 / 4, "{name} {level}: {bytes}");
    }
    small_payloads(&accelerator);
    // Both lanes at once, levels mixed.
    std::thread::scope(|scope| {
        for level in [1, 6, 9] {
            let (accelerator, data) = (&accelerator, &data);
            scope.spawn(move || stream(name, accelerator, level, &data[..300_000]));
        }
    });
}

/// Half a MiB: words, what does not compress, zeros, words.
fn data() -> Vec<u8> {
    const WORDS: &[&str] = &["packet", "channel", "window", "of", "the", "a", "\n", "key"];
    let mut state = 1_u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        usize::try_from(state >> 16).unwrap()
    };
    let mut data = Vec::new();
    while data.len() < 300_000 {
        data.extend_from_slice(WORDS[next() % WORDS.len()].as_bytes());
        data.extend_from_slice(format!(" {} ", next() % 1000).as_bytes());
    }
    data.extend((0..100_000).map(|_| next().to_le_bytes()[0]));
    data.resize(data.len() + 100_000, 0);
    let again = data[..40_000].to_vec();
    data.extend(again);
    data
}

/// Sends `data` in runs of the library's, with packets of our own engine between, and inflates it;
/// how many bytes it took.
fn stream(name: &str, accelerator: &Arc<Accelerator>, level: u8, data: &[u8]) -> usize {
    let settings = Settings {
        level,
        adaptive: false,
    };
    let mut compressor = Compressor::new(settings);
    compressor.set_provider(Arc::<Accelerator>::clone(accelerator));
    let mut decompressor = Decompressor::new();
    let (mut bytes, mut payloads, mut plain) = (0, 0, Vec::new());
    let mut inflate = |packet: &[u8]| {
        bytes += packet.len();
        let inflated = decompressor.decompress(packet, &mut plain, MAX_INFLATED_BYTES);
        inflated.unwrap_or_else(|why| panic!("{name} {level}: {why}"));
    };
    let mut sent = Vec::new();
    for (number, chunk) in data.chunks(8 * PAYLOAD_BYTES).enumerate() {
        let pieces: Vec<&[u8]> = chunk.chunks(PAYLOAD_BYTES).collect();
        let job = compressor.begin_run(pieces.iter().copied());
        let mut index = 0;
        let done = job.run(|encoded| {
            match encoded {
                Encoded::Deflated(packet) => {
                    assert!(packet.len() <= pieces[index].len() + 15 + 2);
                    inflate(packet);
                }
                Encoded::Stored { header } => inflate(&[header, pieces[index]].concat()),
            }
            index += 1;
        });
        compressor.finish_run(&done.unwrap());
        payloads += pieces.len();
        sent.extend_from_slice(chunk);
        // A keystroke or two, which leave bits to what follows.
        for key in 0..number % 3 {
            let payload = [94, 0, 0, 0, 0, u8::try_from(key).unwrap()];
            let mut packet = Vec::new();
            compressor.compress(&payload, &mut packet).unwrap();
            inflate(&packet);
            sent.extend_from_slice(&payload);
        }
    }
    let failure = compressor.take_failure();
    assert_eq!(failure, None, "{name} {level}");
    assert_eq!(compressor.report().hardware, payloads as u64, "{name}");
    assert!(plain == sent, "{name} {level}: other bytes");
    bytes
}

/// Runs of payloads from one byte on, without and with history.
fn small_payloads(accelerator: &Arc<Accelerator>) {
    let data = data();
    let mut encoder = accelerator.encoder().unwrap();
    let mut verifier = Verifier::new();
    for history_bytes in [0, 1, 1000, 32_768] {
        for size in [1, 2, 7, 31, 64, 100, 1000] {
            let ends: Vec<usize> = (1..=8).map(|n| history_bytes + n * size).collect();
            let run = Run {
                window: &data[..ends[7]],
                history_bytes,
                ends: &ends,
                level: 6,
                flush: Flush::Sync,
            };
            let (mut out, mut made) = (Vec::new(), Vec::new());
            RunEncoder::encode_run(&mut *encoder, &run, &mut out, &mut made).unwrap();
            verifier.verify(&run, &out, &made).unwrap();
        }
    }
}
