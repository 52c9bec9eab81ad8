//! `keystroke`: one byte to a session's `cat` and back while streams through `-L` of the same
//! connection go up at full speed.

use std::io::{self, Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::load::BULK_BYTES;
use super::{Loaded, Run, stats};
use crate::rounds::Miss;

/// Streams at once.
pub(super) const STREAMS: usize = 4;
/// Round trips of a round, fewer where they take longer than [`PATIENCE`].
const TRIPS: usize = 300;
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause between two round trips, a tenth of the pause of a fast typist.
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes that the streams carry before the first round trip, if `--size` is not less: windows and
/// buffers have grown by then.
const BEFORE_BYTES: u64 = 64 << 20;
/// Time limit for these bytes.
const START_LIMIT: Duration = Duration::from_secs(120);

/// The sentence below the table.
pub(super) fn note() -> String {
    format!(
        "{TRIPS} round trips a round, {} ms between two",
        PAUSE.as_millis()
    )
}

impl Run<'_> {
    /// Times the round trips through the session, beside the streams.
    pub(super) fn type_bytes(&self, session: (ChildStdin, ChildStdout)) -> Result<Loaded, Miss> {
        let (ends, moved) = (AtomicBool::new(false), AtomicU64::new(0));
        let (times, mib_per_second) = thread::scope(|scope| {
            let stream = || scope.spawn(|| self.stream(&ends, &moved));
            let streams: Vec<_> = std::iter::repeat_with(stream).take(STREAMS).collect();
            let typed = trips(session, &moved, BEFORE_BYTES.min(self.bytes));
            ends.store(true, Relaxed);
            for stream in streams {
                let ended = stream.join();
                ended.map_err(|_| io::Error::other("a stream panicked"))??;
            }
            typed
        })?;
        Ok(Loaded {
            value: stats::median(&times),
            works: 0.0,
            more: vec![
                ("99th of 100", stats::quantile(&times, 0.99), stats::median),
                ("slowest", stats::range(&times).1, |all| stats::range(all).1),
                ("streams MiB/s", mib_per_second, stats::median),
            ],
        })
    }

    /// Sends as fast as it can.
    fn stream(&self, ends: &AtomicBool, moved: &AtomicU64) -> io::Result<()> {
        let mut socket = self.entry.connect(self.near)?;
        let block = vec![0x5a; BULK_BYTES];
        while !ends.load(Relaxed) {
            socket.write_all(&block)?;
            moved.fetch_add(BULK_BYTES as u64, Relaxed);
        }
        Ok(())
    }
}

/// Milliseconds of each round trip, and the rate of the streams meanwhile, MiB/s.
fn trips(
    (mut stdin, mut stdout): (ChildStdin, ChildStdout),
    moved: &AtomicU64,
    before: u64,
) -> io::Result<(Vec<f64>, f64)> {
    let begun = Instant::now();
    while moved.load(Relaxed) < before {
        if begun.elapsed() > START_LIMIT {
            return Err(io::Error::other("the streams did not start"));
        }
        thread::sleep(PAUSE);
    }
    let mut times = Vec::with_capacity(TRIPS);
    let (begun, before) = (Instant::now(), moved.load(Relaxed));
    while times.len() < TRIPS && (times.is_empty() || begun.elapsed() < PATIENCE) {
        let [sent, ..] = times.len().to_le_bytes();
        let start = Instant::now();
        stdin.write_all(&[sent])?;
        let mut came = [0];
        stdout.read_exact(&mut came)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        if came != [sent] {
            return Err(io::Error::other("another byte came back"));
        }
        thread::sleep(PAUSE);
    }
    #[allow(clippy::cast_precision_loss)]
    let mib = (moved.load(Relaxed) - before) as f64 / f64::from(1 << 20);
    Ok((times, mib / begun.elapsed().as_secs_f64()))
}
