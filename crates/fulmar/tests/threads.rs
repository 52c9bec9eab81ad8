//! Worker threads for bulk data: they start if they are permitted, and end with the transfer.
//!
//! A single test function, because it counts the process's threads by name.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Fixture, MIB, PATIENCE, write_pattern};
use fulmar::CryptoThreads;

const BULK: usize = 64 * MIB;

/// Worker threads of this process, which encrypt and decrypt packets.
fn workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.trim_end() == "crypto")
        .count()
}

/// A thread that has just ended may be counted for a moment with its successor: a number above the
/// limit must be seen this often in a row.
const TIMES: usize = 50;

/// The most workers during an upload that arrives complete; numbers above `allowed` count only if
/// they persist.
fn most_workers(threads: CryptoThreads, allowed: usize) -> usize {
    let fixture = Fixture::with(|config| config.crypto_threads = threads);
    let mut config = fixture.config();
    config.crypto_threads = threads;
    let session = fixture.login_with(config);
    let channel = session.exec("sha256").unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let counter = scope.spawn(|| {
            let (mut most, mut above) = (0, 0);
            while !over.load(Ordering::Relaxed) {
                let now = workers();
                above = if now > allowed { above + 1 } else { 0 };
                if above == 0 || above > TIMES {
                    most = now.max(most);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            most
        });
        let sent = write_pattern(&channel, BULK).unwrap();
        let output = channel.output(4096).unwrap();
        over.store(true, Ordering::Relaxed);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text, format!("{sent} {BULK}"));
        counter.join().unwrap()
    })
}

#[test]
fn workers_come_where_they_are_asked_for_and_go_with_their_connection() {
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(most_workers(CryptoThreads::AtMost(1), usize::MAX), 0);
    // For each side, one worker for each core except the connection's own.
    let allowed = 2 * (cores - 1).min(3);
    let most = most_workers(CryptoThreads::AtMost(4), allowed);
    assert_eq!(most > 0, cores > 1, "{most} workers on {cores} cores");
    assert!(most <= allowed, "{most} workers on {cores} cores");
    let since = Instant::now();
    while workers() > 0 {
        assert!(
            since.elapsed() < PATIENCE,
            "workers outlive their connections"
        );
        std::thread::yield_now();
    }
}
