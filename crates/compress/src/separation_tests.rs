//! The packets of one channel reveal nothing about the bytes of another.
//!
//! The tests simulate an attacker: one channel carries a secret, another carries guesses, and the
//! lengths of all packets are visible ("Crossing the Streams", arXiv 2609.07709). They must find
//! the leak if all channels share one history, to prove that they can.

use std::path::Path;
use std::sync::{Arc, Mutex};

use zlib_rs::{Deflate, DeflateFlush, Inflate, InflateFlush, Status};

use crate::deflate::tests::{Random, data};
use crate::deflate::{Carry, EncodeOutcome, Engine};
use crate::history::Histories;
use crate::provider::{
    Flush, Library, LibraryEncoder, Provider, Run, RunEncoder, RunError, RunOutput,
};
use crate::run::Engines;
use crate::{
    CompressionSettings, Compressor, Decompressor, Encoded, MAX_INFLATED_BYTES, Origin,
    PacketCompressor, ZstdCompressor,
};

const SECRETS: Origin = Origin::Channel(1);
const GUESSES: Origin = Origin::Channel(2);

/// An encoder of payloads to packets of one stream.
trait Sender {
    fn send(&mut self, origin: Origin, payload: &[u8]) -> Vec<u8>;

    /// The level adapts to the link.
    fn set_level(&mut self, _: u8) {}
}

struct Serial<C>(C);

impl<C: PacketCompressor> Sender for Serial<C> {
    fn send(&mut self, origin: Origin, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let form = self.0.compress_around(origin, payload, &mut out).unwrap();
        form.complete(payload, &mut out);
        out
    }

    fn set_level(&mut self, level: u8) {
        self.0.set_level(level);
    }
}

/// Data go by runs, of one payload each.
struct Runs(Compressor);

impl Sender for Runs {
    fn send(&mut self, origin: Origin, payload: &[u8]) -> Vec<u8> {
        let Origin::Channel(channel) = origin else {
            let mut out = Vec::new();
            let form = self.0.compress_around(origin, payload, &mut out).unwrap();
            form.complete(payload, &mut out);
            return out;
        };
        let job = self.0.begin_run(channel, std::iter::once(payload));
        let mut packet = Vec::new();
        let done = job.run(|encoded| match encoded {
            Encoded::Stored { header } => packet = [header, payload].concat(),
            Encoded::Deflated(bytes) => packet = bytes.to_vec(),
        });
        self.0.finish_run(&done.unwrap());
        packet
    }

    fn set_level(&mut self, level: u8) {
        self.0.set_level(level);
    }
}

/// All channels in one history: the built-in engine before separation, with any of the senders.
struct Joined<S>(S);

impl<S: Sender> Sender for Joined<S> {
    fn send(&mut self, _: Origin, payload: &[u8]) -> Vec<u8> {
        self.0.send(Origin::Channel(0), payload)
    }
}

/// A stock zlib stream with a partial flush after each packet, as OpenSSH up to 10.5 makes it.
struct Stock(Deflate);

impl Sender for Stock {
    fn send(&mut self, _: Origin, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0; payload.len() + 64];
        let before = self.0.total_out();
        let flush = DeflateFlush::PartialFlush;
        self.0.compress(payload, &mut out, flush).unwrap();
        out.truncate(usize::try_from(self.0.total_out() - before).unwrap());
        out
    }
}

fn settings(level: u8, adaptive: bool) -> CompressionSettings {
    CompressionSettings { level, adaptive }
}

fn serial(level: u8) -> Box<dyn Sender> {
    Box::new(Serial(Compressor::new(settings(level, false))))
}

fn stock() -> Box<dyn Sender> {
    Box::new(Stock(Deflate::new(6, true, 15)))
}

/// The first messages of a connection.
type Make = Box<dyn Fn() -> Box<dyn Sender>>;

/// All encoders without the leak, by name.
fn separate() -> Vec<(String, Make)> {
    let mut all: Vec<(String, Make)> = Vec::new();
    for level in 1..=9 {
        all.push((format!("level {level}"), Box::new(move || serial(level))));
    }
    for level in [1, 6, 9] {
        all.push((
            format!("level {level}, runs"),
            Box::new(move || Box::new(Runs(Compressor::new(settings(level, false))))),
        ));
        all.push((
            format!("level {level}, adaptive"),
            Box::new(move || Box::new(Serial(Compressor::new(settings(level, true))))),
        ));
        all.push((
            format!("level {level}, adaptive, zstd"),
            Box::new(move || Box::new(Serial(ZstdCompressor::new(settings(level, true))))),
        ));
    }
    all.push((
        "level 6, adaptive, runs".to_owned(),
        Box::new(|| Box::new(Runs(Compressor::new(settings(6, true))))),
    ));
    if let Some(library) = installed() {
        all.push((
            "an installed zlib".to_owned(),
            Box::new(move || {
                let mut compressor = Compressor::new(settings(6, true));
                compressor.set_provider(Arc::new(Installed {
                    library: Arc::clone(&library),
                    seen: Arc::default(),
                }));
                Box::new(Runs(compressor))
            }),
        ));
    }
    all
}

fn installed() -> Option<Arc<Library>> {
    [
        "/usr/lib/x86_64-linux-gnu/libz.so.1",
        "/usr/lib/aarch64-linux-gnu/libz.so.1",
        "/lib/x86_64-linux-gnu/libz.so.1",
    ]
    .iter()
    .find_map(|path| Library::load(Path::new(path)).ok().map(Arc::new))
}

/// A library on this machine; `seen` records all of its input.
struct Installed {
    library: Arc<Library>,
    seen: Arc<Mutex<Vec<u8>>>,
}

struct Watched {
    encoder: LibraryEncoder,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Provider for Installed {
    fn name(&self) -> String {
        "an installed zlib".to_owned()
    }

    fn encoder(&self) -> Result<Box<dyn RunEncoder>, RunError> {
        Ok(Box::new(Watched {
            encoder: self.library.encoder(),
            seen: Arc::clone(&self.seen),
        }))
    }
}

impl RunEncoder for Watched {
    fn encode_run(&mut self, run: &Run<'_>, out: &mut RunOutput) -> Result<(), RunError> {
        self.seen.lock().unwrap().extend_from_slice(run.window);
        self.encoder.encode_run(run, out)
    }
}

/// A connection on which a secret and a guess are sent several times among other data; returns the
/// lengths of the secret's packets, and of all others.
fn lengths(sender: &mut dyn Sender, secret: &[u8], guess: &[u8]) -> (Vec<usize>, Vec<usize>) {
    let of = |name: &str, value: &[u8]| [name.as_bytes(), value, b"; path=/\r\n"].concat();
    let cookie = of("GET / HTTP/1.1\r\nCookie: session=", secret);
    let attempt = of("GET / HTTP/1.1\r\nCookie: session=", guess);
    let (mut theirs, mut others) = (Vec::new(), Vec::new());
    for (origin, payload) in [
        (Origin::Opening, &b"an open"[..]),
        (Origin::Opening, b"another open"),
        (GUESSES, b"an early guess"),
        (SECRETS, &cookie),
        (GUESSES, &attempt),
        (Origin::Other, b"\x5d\0\0\0\0\0\x20\0\0"),
        (Origin::Ping, b"\xc0\0\0\0\x05ping!"),
        (SECRETS, &cookie),
        (GUESSES, &attempt),
        (GUESSES, &attempt),
        (Origin::Other, &attempt),
    ] {
        let length = sender.send(origin, payload).len();
        if origin == SECRETS {
            theirs.push(length);
        } else {
            others.push(length);
        }
    }
    (theirs, others)
}

/// A value whose last byte is to be guessed.
fn value(last: u8) -> Vec<u8> {
    [&b"5f2a9c47d1e8"[..], &[last]].concat()
}

/// Returns true if the lengths of the guesses' packets depend on the secret, or those of the
/// secret's on the guess: all guesses of a byte, each with the secret itself and with others.
fn leaks(make: &dyn Fn() -> Box<dyn Sender>, step: usize) -> bool {
    (0..=255_u8).step_by(step).any(|guess| {
        let secrets = [guess, guess ^ 1, guess ^ 0x80, b'a', b'\n'];
        let mut seen = secrets.iter().map(|secret| {
            let guessed = value(guess);
            lengths(&mut *make(), &value(*secret), &guessed).1
        });
        let first = seen.next();
        let of_secret = |guess: u8| lengths(&mut *make(), &value(b'a'), &value(guess)).0;
        seen.any(|lengths| Some(lengths) != first) || of_secret(guess) != of_secret(b'a')
    })
}

#[test]
fn one_history_for_all_channels_leaks_a_byte() {
    assert!(leaks(&stock, 1));
    assert!(leaks(
        &|| Box::new(Joined(Serial(Compressor::with_level(6)))),
        1
    ));
    let zstd = || ZstdCompressor::new(settings(6, false));
    assert!(leaks(&|| Box::new(Joined(Serial(zstd()))), 1));
}

#[test]
fn no_guess_of_a_byte_shows_in_any_length() {
    for (name, make) in separate() {
        // zstd allocates megabytes for each connection.
        let step = if name.contains("zstd") { 5 } else { 1 };
        assert!(!leaks(&*make, step), "{name}");
    }
}

/// Welch's t of two samples.
#[allow(clippy::cast_precision_loss)]
fn t_of(one: &[usize], other: &[usize]) -> f64 {
    let moments = |sample: &[usize]| {
        let count = sample.len() as f64;
        let mean = sample.iter().sum::<usize>() as f64 / count;
        let squares = sample.iter().map(|each| (*each as f64 - mean).powi(2));
        (mean, squares.sum::<f64>() / (count - 1.0) / count)
    };
    let ((mean, error), (other_mean, other_error)) = (moments(one), moments(other));
    (mean - other_mean) / (error + other_error).sqrt()
}

/// Welch's t between the bytes sent for right and for wrong guesses on one connection: guesses of
/// 12 characters, right with probability 1/2.
fn t_over(sender: &mut dyn Sender, runs: usize) -> f64 {
    let mut random = Random::new(7);
    let token = |random: &mut Random| -> Vec<u8> {
        (0..12)
            .map(|_| b"abcdefghijklmnopqrstuvwxyz"[random.below(26)])
            .collect()
    };
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    sender.send(Origin::Opening, b"an open");
    sender.send(Origin::Opening, b"another open");
    for run in 0..runs {
        sender.set_level([6, 3, 6, 1][run / 100 % 4]);
        let secret = token(&mut random);
        let other = token(&mut random);
        let is_right = random.below(2) == 0;
        let guess = if is_right { &secret } else { &other };
        let mut bytes = sender
            .send(SECRETS, &[b"password=", &secret[..]].concat())
            .len();
        bytes += sender.send(Origin::Other, b"an adjust").len();
        bytes += sender
            .send(GUESSES, &[b"password=", &guess[..]].concat())
            .len();
        if is_right { &mut right } else { &mut wrong }.push(bytes);
    }
    t_of(&right, &wrong)
}

#[test]
fn ten_thousand_guesses_cannot_be_told_from_chance() {
    let leak = t_over(&mut *stock(), 10_000);
    assert!(leak.abs() > 100.0, "{leak}");
    let leak = t_over(&mut Joined(Serial(Compressor::with_level(6))), 10_000);
    assert!(leak.abs() > 100.0, "{leak}");
    for (name, make) in separate() {
        let t = t_over(&mut *make(), 10_000);
        assert!(t.abs() < 4.5, "{name}: {t}");
    }
}

/// Payloads of three channels and of no channel, similar enough that each would gain from the
/// others' history.
fn traffic(seed: u64, payloads: usize, bulk: bool) -> Vec<(Origin, Vec<u8>)> {
    let mut random = Random::new(seed);
    let common: Vec<Vec<u8>> = (2..8).map(|kind| data(kind, 40_000, &mut random)).collect();
    let mut all = vec![
        (Origin::Opening, b"an open".to_vec()),
        (Origin::Opening, b"another open".to_vec()),
    ];
    for _ in 0..payloads {
        let origin = match random.below(10) {
            0 => Origin::Other,
            1 => Origin::Ping,
            number => Origin::Channel(number as u64 % 3),
        };
        let most = if bulk && random.below(3) == 0 {
            33_000
        } else {
            600
        };
        let from = &common[random.below(common.len())];
        let len = 1 + random.below(most);
        let start = random.below(from.len() - len);
        all.push((origin, from[start..start + len].to_vec()));
    }
    all
}

/// Stronger than lengths: one channel's packets have the same bytes, whatever data of the same
/// lengths the other channels send.
#[test]
fn no_byte_of_another_channel_changes_a_packet() {
    for (name, make) in separate() {
        for seed in 0..3 {
            let bulk = seed > 0;
            let one = traffic(seed, if bulk { 60 } else { 200 }, bulk);
            let mut random = Random::new(99 + seed);
            let other: Vec<_> = one
                .iter()
                .map(|(origin, payload)| {
                    let payload = if *origin == GUESSES {
                        payload.clone()
                    } else {
                        data(random.below(8), payload.len(), &mut random)
                    };
                    (*origin, payload)
                })
                .collect();
            let (mut first, mut second) = (make(), make());
            for (index, (one, other)) in one.iter().zip(&other).enumerate() {
                let level = [6, 9, 1, 3, 0][index / 20 % 5];
                first.set_level(level);
                second.set_level(level);
                let packet = first.send(one.0, &one.1);
                let again = second.send(other.0, &other.1);
                if one.0 == GUESSES {
                    assert!(packet == again, "{name}, seed {seed}, payload {index}");
                }
            }
        }
    }
}

/// The same after a channel has ended: a later channel with its number is a different one.
#[test]
fn more_channels_than_are_remembered_stay_apart() {
    for zstd in [false, true] {
        let make = || -> Box<dyn Sender> {
            if zstd {
                Box::new(Serial(ZstdCompressor::new(settings(6, false))))
            } else {
                serial(6)
            }
        };
        let text = data(2, 400, &mut Random::new(3));
        let mut sender = make();
        let mut first = Vec::new();
        for channel in 0..40 {
            let packet = sender.send(Origin::Channel(channel % 20), &text);
            if channel < 20 {
                first.push(packet.len());
            } else {
                // Forgotten by now: nothing refers to forgotten bytes or to another channel's.
                assert!(
                    packet.len() + 9 >= first[1],
                    "{} for {}",
                    packet.len(),
                    first[1]
                );
            }
        }
    }
}

/// Table contents are hints, but hints affect the output: none of another channel's may remain.
#[test]
fn tables_are_emptied_before_another_channel_has_them() {
    let text = data(2, 9000, &mut Random::new(3));
    let mut histories = Histories::default();
    for channel in 0..3 {
        let (history, start) = histories.remember(channel, &text, true);
        let (engine, source, _) = history.parts();
        let (mut carry, mut out) = (Carry::default(), Vec::new());
        let made = engine
            .unwrap()
            .encode(source, start, 6, Flush::Sync, &mut carry, &mut out);
        assert_eq!(made.unwrap(), EncodeOutcome::Deflated);
    }
    let taken = histories.free_engine();
    assert!(taken.is_clear());
    // Those of runs are emptied before each.
    let engines = Engines::internal();
    let (history, start) = histories.remember(0, &text, true);
    let (engine, source, _) = history.parts();
    let (mut carry, mut out) = (Carry::default(), Vec::new());
    let mut used = std::mem::replace(engine.unwrap(), Engine::new());
    used.encode(source, start, 6, Flush::Sync, &mut carry, &mut out)
        .unwrap();
    assert!(!used.is_clear());
    engines.give_engine(used);
    assert!(engines.engine().is_clear());
}

/// Decodes packets with zlib-rs, as one stream, and with this crate.
struct Receiver {
    oracle: Inflate,
    ours: Decompressor,
}

impl Receiver {
    fn new() -> Self {
        Self {
            oracle: Inflate::new(true, 15),
            ours: Decompressor::new(),
        }
    }

    fn takes(&mut self, packet: &[u8], payload: &[u8]) {
        let mut plain = vec![0; payload.len() + 64];
        let before = self.oracle.total_out();
        let status = self
            .oracle
            .decompress(packet, &mut plain, InflateFlush::SyncFlush);
        assert_eq!(status, Ok(Status::Ok));
        plain.truncate(usize::try_from(self.oracle.total_out() - before).unwrap());
        assert!(plain == payload);
        plain.clear();
        self.ours
            .decompress(packet, &mut plain, MAX_INFLATED_BYTES)
            .unwrap();
        assert!(plain == payload);
        assert!(!self.ours.is_resumable());
    }
}

#[test]
fn every_inflate_reads_what_several_channels_send() {
    for level in 1..=9 {
        for seed in 0..4 {
            let settings = settings(level, seed % 2 == 1);
            let (mut serial, mut runs) = (
                Serial(Compressor::new(settings)),
                Runs(Compressor::new(settings)),
            );
            let mut receivers = [Receiver::new(), Receiver::new()];
            let all = traffic(seed + 10, 120, seed > 0);
            for (index, (origin, payload)) in all.iter().enumerate() {
                if index % 50 == 49 {
                    serial.0.shed();
                    runs.0.shed();
                }
                if index == 80 {
                    serial.0.reset();
                    runs.0.reset();
                    receivers = [Receiver::new(), Receiver::new()];
                }
                let mixed = index % 3 == 0 && origin.is_data();
                receivers[0].takes(&serial.send(*origin, payload), payload);
                let packet = if mixed {
                    runs.send(*origin, payload)
                } else {
                    let mut out = Vec::new();
                    let form = runs.0.compress_around(*origin, payload, &mut out).unwrap();
                    form.complete(payload, &mut out);
                    out
                };
                receivers[1].takes(&packet, payload);
            }
        }
    }
}

#[test]
fn zstd_reads_what_several_channels_send() {
    let mut sender = Serial(ZstdCompressor::new(settings(6, true)));
    let mut receiver = Decompressor::zstd();
    for (index, (origin, payload)) in traffic(5, 300, true).into_iter().enumerate() {
        // More channels than there are contexts.
        let origin = match origin {
            Origin::Channel(number) => Origin::Channel(number + 3 * (index as u64 / 30 % 3)),
            other => other,
        };
        let packet = sender.send(origin, &payload);
        let mut plain = Vec::new();
        receiver
            .decompress(&packet, &mut plain, MAX_INFLATED_BYTES)
            .unwrap();
        assert!(plain == payload);
    }
}

/// Matches may span other channels' data, also in the middle of a source.
#[test]
fn bulk_beside_a_shell_is_as_small_as_bulk_alone() {
    let mut random = Random::new(4);
    let bulk = data(2, 3_000_000, &mut random);
    for by_runs in [false, true] {
        let size = |beside: bool| {
            let mut random = Random::new(8);
            let compressor = Compressor::new(settings(6, true));
            let mut sender: Box<dyn Sender> = if by_runs {
                Box::new(Runs(compressor))
            } else {
                Box::new(Serial(compressor))
            };
            let mut receiver = Receiver::new();
            let mut bytes = 0;
            for payload in bulk.chunks(32 * 1024) {
                let packet = sender.send(GUESSES, payload);
                receiver.takes(&packet, payload);
                bytes += packet.len();
                if beside {
                    let echo = data(2, 12 + random.below(30), &mut random);
                    receiver.takes(&sender.send(SECRETS, &echo), &echo);
                    receiver.takes(&sender.send(Origin::Other, b"an adjust"), b"an adjust");
                }
            }
            bytes
        };
        let (alone, beside) = (size(false), size(true));
        assert!(
            beside <= alone + alone / 100,
            "{beside} beside, {alone} alone"
        );
    }
}

#[test]
fn a_library_sees_one_channel_alone_and_none_once_there_are_two() {
    let Some(library) = installed() else {
        return;
    };
    let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
    let mut compressor = Compressor::new(settings(6, false));
    compressor.set_provider(Arc::new(Installed {
        library,
        seen: Arc::clone(&seen),
    }));
    let mut runs = Runs(compressor);
    let mut receiver = Receiver::new();
    let text = data(2, 20_000, &mut Random::new(3));
    for (origin, payload) in [
        (Origin::Opening, &b"OPEN"[..]),
        (GUESSES, &text[..]),
        (Origin::Other, b"ADJUST"),
        (GUESSES, &text),
        (GUESSES, &text),
        (Origin::Opening, b"OPEN"),
        (GUESSES, &text),
    ] {
        receiver.takes(&runs.send(origin, payload), payload);
    }
    assert_eq!(runs.0.report().hardware, 4);
    assert_eq!(runs.0.dismissed(), None);
    // Three times with nothing before it, once after the payload before.
    let given = seen.lock().unwrap().len();
    assert_eq!(given, 5 * text.len());
    for (origin, payload) in [(SECRETS, b"SECRET"), (GUESSES, b"GUESS!")] {
        receiver.takes(&runs.send(origin, payload), payload);
    }
    assert_eq!(
        seen.lock().unwrap().len(),
        given,
        "it is given nothing more"
    );
    assert_eq!(runs.0.report().hardware, 4);
    assert_eq!(runs.0.dismissed().as_deref(), Some("an installed zlib"));
    assert!(runs.0.engine().starts_with("internal (several channels"));
    assert!(runs.0.take_failure().is_none());
    // Nor is another one that comes later.
    let another = installed().unwrap();
    runs.0.set_provider(Arc::new(Installed {
        library: another,
        seen,
    }));
    assert!(!runs.0.has_provider());
}
