//! Threads that help with bulk: they come where they are asked for, and go with it.
//!
//! One test function, because it counts the process's threads by their name.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Fixture, MIB, PATIENCE, write_pattern};
use fulmar::CryptoThreads;

const BULK: usize = 64 * MIB;

/// Threads of this process that seal and open packets for a connection's own.
fn workers() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.trim_end() == "crypto")
        .count()
}

/// One that has just ended may be counted for a moment beside the one that follows it: more than
/// there may be must be seen so often in a row.
const TIMES: usize = 50;

/// The most workers while bulk goes up, whole; more than `allowed` only where they stay.
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
    // One of each side for each core but its own.
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
