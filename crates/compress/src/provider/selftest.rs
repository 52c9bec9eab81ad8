//! Self-test of an engine before use: its runs are inflated and compared.

use crate::PacketCompressor;
use std::time::{Duration, Instant};

use super::verify::Verifier;
use super::{Flush, HISTORY_BYTES, MAX_GROWTH_BYTES, Run, RunEncoder, RunError, RunOutput};
use crate::Compressor;

/// Time limit of the whole self-test. The caller must enforce it, because an engine that hangs does
/// not return.
pub const SELF_TEST_LIMIT: Duration = Duration::from_secs(2);

/// Size of a payload in the self-test, in bytes; that of most bulk packets.
const PAYLOAD_BYTES: usize = 32 * 1024;

/// Lets `encoder` encode text, the same text again after itself (its history must be used, or at
/// least cause no error), and incompressible data; verifies all output. Returns the time for 32 KiB
/// of text at `level`.
///
/// # Errors
/// [`RunError`]: that of the encoder, or the defect of its output.
pub fn self_test(encoder: &mut dyn RunEncoder, level: u8) -> Result<Duration, RunError> {
    let (text, noise) = (text(), noise());
    let (half, rest) = text.split_at(HISTORY_BYTES);
    let mut continued = half.to_vec();
    continued.extend_from_slice(rest);
    let mut unlike = rest.to_vec();
    unlike.extend_from_slice(&noise);
    let mut verifier = Verifier::new();
    let mut took = Duration::MAX;
    for (what, window, history_bytes, pieces) in [
        ("text", half, 0, 1),
        ("text after its history", &continued, HISTORY_BYTES, 4),
        ("random data", &unlike, HISTORY_BYTES, 2),
        ("text again", half, 0, 1),
    ] {
        let len = window.len() - history_bytes;
        let ends: Vec<usize> = (1..=pieces)
            .map(|piece| history_bytes + len * piece / pieces)
            .collect();
        let run = Run {
            window,
            history_bytes,
            ends: &ends,
            level,
            flush: Flush::Sync,
        };
        let begun = Instant::now();
        check(encoder, &run, &mut verifier)
            .map_err(|RunError(why)| RunError(format!("self-test, {what}: {why}")))?;
        if what.starts_with("text") && pieces == 1 {
            took = took.min(begun.elapsed());
        }
    }
    Ok(took)
}

/// Time of the built-in engine for the 32 KiB of text of [`self_test`].
#[must_use]
pub fn software_time(level: u8) -> Duration {
    let text = text();
    let half = text.get(..PAYLOAD_BYTES).unwrap_or_default();
    let once = || {
        let begun = Instant::now();
        let mut out = Vec::with_capacity(PAYLOAD_BYTES);
        let done = Compressor::with_level(level).compress(half, &mut out);
        done.map_or(Duration::MAX, |()| begun.elapsed())
    };
    once().min(once())
}

fn check(
    encoder: &mut dyn RunEncoder,
    run: &Run<'_>,
    verifier: &mut Verifier,
) -> Result<(), RunError> {
    let mut out = RunOutput::default();
    encoder.encode_run(run, &mut out)?;
    verifier.verify(run, &out.bytes, &out.ends)?;
    let most = run.window.len() - run.history_bytes + run.ends.len() * MAX_GROWTH_BYTES;
    if out.bytes.len() > most {
        return Err(RunError("its output is longer than a peer accepts".into()));
    }
    Ok(())
}

/// Twice [`PAYLOAD_BYTES`] of similar lines.
fn text() -> Vec<u8> {
    const WORDS: &[&str] = &[
        "compression",
        "channel",
        "window",
        "packet",
        "the",
        "of",
        "between",
        "two",
        "bytes",
        "history",
        "peer",
        "and",
        "flush",
        "boundary",
        "stream",
        "\n",
    ];
    let mut state = 0x9e37_79b9_u32;
    let mut out = Vec::with_capacity(2 * PAYLOAD_BYTES + 16);
    while out.len() < 2 * PAYLOAD_BYTES {
        let word = WORDS.get(next(&mut state) as usize % WORDS.len());
        out.extend_from_slice(word.copied().unwrap_or_default().as_bytes());
        out.push(b' ');
    }
    out.truncate(2 * PAYLOAD_BYTES);
    out
}

fn noise() -> Vec<u8> {
    let mut state = 0x2545_f491_u32;
    (0..PAYLOAD_BYTES)
        .map(|_| next(&mut state).to_le_bytes()[1])
        .collect()
}

/// xorshift (Marsaglia 2003): reproducible bytes without a pattern that an engine could find.
fn next(state: &mut u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    *state
}
