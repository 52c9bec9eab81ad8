//! The first key of a process comes at once.
//!
//! aws-lc built with CPU-jitter entropy spends 28 ms of CPU on its first random
//! byte; the build turns that off, and this notices when it comes back. A file
//! of its own, because each test file is a process of its own.

use crypto::sign::{KeyKind, PrivateKey, SignatureScheme};
use rustix::time::{ClockId, clock_gettime};

fn cpu_microseconds() -> i64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

#[test]
fn the_first_key_and_signature_do_not_wait_for_jitter_entropy() {
    let start = cpu_microseconds();
    // The signature draws from aws-lc's own generator.
    let key = PrivateKey::generate(KeyKind::EcdsaP256, 0).expect("generates");
    let signature = key.sign(SignatureScheme::EcdsaP256Sha256, b"first");
    let spent = cpu_microseconds() - start;
    println!("first key and signature: {spent} us of CPU");
    assert!(signature.is_ok());
    let start = cpu_microseconds();
    crypto::warm_up();
    println!(
        "warm-up after that: {} us of CPU",
        cpu_microseconds() - start
    );
    // CPU time, not wall-clock time; about 300 us unoptimised, 13,000 us and
    // more with jitter entropy.
    assert!(spent < 8_000, "{spent} us");
}
