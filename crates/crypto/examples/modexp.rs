//! What a test for primality costs on each kernel.
//!
//! `cargo run --release -p crypto --example modexp`

use std::hint::black_box;
use std::time::Instant;

use crypto::arch::{Level, detect};
use crypto::prime::{PrimalityTests, SieveStarts};

/// Best of several runs, in milliseconds.
fn milliseconds(mut work: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..9 {
        let begun = Instant::now();
        work();
        best = best.min(begun.elapsed().as_secs_f64() * 1e3);
    }
    best
}

fn main() {
    for bits in [1024_usize, 2047, 3071, 4095] {
        let mut words: Vec<u64> = (0..bits.div_ceil(64))
            .map(|_| u64::from_le_bytes(crypto::random::bytes()))
            .collect();
        words[0] |= 1;
        // Levels without a kernel of their own repeat the one below.
        for level in Level::ALL {
            let features = detect().limited_to(*level);
            let tests = PrimalityTests::with_features(&features);
            let numbers = vec![words.as_slice(); tests.lanes()];
            let time = milliseconds(|| {
                black_box(tests.fermat(black_box(&numbers)));
            });
            let each = time / f64::from(u32::try_from(tests.lanes()).expect("few"));
            let starts = SieveStarts::with_features(&words, &features);
            let primes: Vec<u32> = (0..4096).map(|i| 0x8000_0005 + 6 * i).collect();
            let sieve = milliseconds(|| {
                starts.of(&primes, |_, first, second| {
                    black_box((first, second));
                });
            });
            println!(
                "{bits} bits, {}: {time:.3} ms, {each:.3} ms each; {:.1} ns for a prime's start",
                tests.kernel(),
                sieve * 1e6 / 4096.0
            );
        }
    }
}
