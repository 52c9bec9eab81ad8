//! What the tests here share. Each is a program of one thread that executes itself again as the
//! process that loads a library.

use compress::PacketCompressor;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use accelerator::{Accelerator, LibraryRequest};
use compress::provider::{Flush, Run, RunEncoder, RunError, RunOutput, Verifier};
use compress::{
    CompressionReport, CompressionSettings, Compressor, Decompressor, Encoded, MAX_INFLATED_BYTES,
};
use sys::process::SelfExe;

/// What most packets of bulk hold, bytes.
pub const PAYLOAD_BYTES: usize = 32 * 1024;
/// What goes before most runs, bytes.
const HISTORY_BYTES: usize = 32 * 1024;

/// The program's arguments. First of all in `main`: as the role it does not come back.
pub fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if arguments
        .first()
        .is_some_and(|first| first == accelerator::ROLE)
    {
        arguments.remove(0);
        std::process::exit(accelerator::main(arguments));
    }
    arguments
}

/// Whether the test of this name is asked for.
pub fn is_asked_for(name: &str, arguments: &[OsString]) -> bool {
    let filter = arguments
        .iter()
        .find_map(|it| it.to_str().filter(|it| !it.starts_with('-')));
    filter.is_none_or(|filter| name.contains(filter))
}

/// The machine's own zlib.
pub fn zlib() -> PathBuf {
    let paths = ["x86_64", "aarch64"].map(|arch| format!("/usr/lib/{arch}-linux-gnu/libz.so.1"));
    let found = paths.iter().map(PathBuf::from).find(|path| path.exists());
    found.expect("install zlib1g")
}

pub fn request(libraries: &[&Path], lanes: usize) -> LibraryRequest {
    LibraryRequest {
        libraries: libraries.iter().map(|path| path.to_path_buf()).collect(),
        lanes,
        ..LibraryRequest::new(&[], true, 6)
    }
}

pub fn open(request: &LibraryRequest) -> Result<Accelerator, String> {
    Accelerator::open(request, &SelfExe::open().unwrap())
}

/// The ends of the payloads of a whole run, each of `size` bytes, after this much history.
pub fn ends(history_bytes: usize, size: usize) -> [usize; 8] {
    [1, 2, 3, 4, 5, 6, 7, 8].map(|count| history_bytes + count * size)
}

/// Encodes a run of `data` after other bytes, and verifies it; returns the length of the output.
pub fn encode(
    encoder: &mut dyn RunEncoder,
    data: &[u8],
    (history_bytes, size, level): (usize, usize, u8),
) -> Result<usize, RunError> {
    let ends = ends(history_bytes, size);
    let run = Run {
        window: &data[..ends[7]],
        history_bytes,
        ends: &ends,
        level,
        flush: Flush::Sync,
    };
    let mut output = RunOutput {
        bytes: b"before".to_vec(),
        ends: Vec::new(),
    };
    encoder.encode_run(&run, &mut output)?;
    let out = output.bytes;
    let made: Vec<usize> = output.ends.iter().map(|end| end - 6).collect();
    Verifier::new().verify(&run, &out[6..], &made).unwrap();
    Ok(out.len() - 6)
}

/// As [`encode`], of the size that bulk has: 288 KiB of `data` are needed.
#[allow(dead_code, reason = "one of the tests has no use for it")]
pub fn encode_bulk(encoder: &mut dyn RunEncoder, data: &[u8]) -> Result<usize, RunError> {
    encode(encoder, data, (HISTORY_BYTES, PAYLOAD_BYTES, 6))
}

/// The result of a stream.
#[allow(dead_code, reason = "each of the tests looks at something else")]
pub struct Sent {
    pub bytes: usize,
    pub payloads: u64,
    pub report: CompressionReport,
    pub failure: Option<RunError>,
}

/// Sends `data` in runs of the library's, with packets of our own engine between, and inflates it:
/// nothing else must come out.
pub fn stream(name: &str, accelerator: &Arc<Accelerator>, level: u8, data: &[u8]) -> Sent {
    let settings = CompressionSettings {
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
        let job = compressor.begin_run(0, pieces.iter().copied());
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
        payloads += pieces.len() as u64;
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
    assert!(plain == sent, "{name} {level}: other bytes");
    Sent {
        bytes,
        payloads,
        report: compressor.report(),
        failure: compressor.take_failure(),
    }
}

/// Half a MiB: words, what does not compress, zeros, words.
pub fn data() -> Vec<u8> {
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
