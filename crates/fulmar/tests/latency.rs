//! The latency of a keystroke during a download at full rate.

mod common;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use common::{Fixture, MIB};

const KEYSTROKES: usize = 300;

/// Most bytes before a keystroke's echo: the first window, and as much again for a path that seemed
/// longer than it was. A queue in the sender's socket would be megabytes more.
const IN_FRONT: u64 = 4 * MIB as u64;

fn at<T: Copy + Ord>(values: &mut [T], per_mille: usize) -> T {
    values.sort_unstable();
    values[(values.len() - 1) * per_mille / 1000]
}

#[test]
fn a_keystroke_is_not_behind_megabytes_of_bulk() {
    let fixture = Fixture::start();
    let session = fixture.login();
    let bulk = session.exec("stream").unwrap();
    let mut echo = session.exec("cat").unwrap();
    let (came, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let (mut times, mut bytes) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bulk = bulk;
            let mut room = vec![0; 256 * 1024];
            while !done.load(Relaxed) {
                let count = bulk.read(&mut room).unwrap() as u64;
                came.fetch_add(count, Relaxed);
            }
        });
        while came.load(Relaxed) < 32 * MIB as u64 {
            std::thread::yield_now();
        }
        for _ in 0..KEYSTROKES {
            let (before, start) = (came.load(Relaxed), Instant::now());
            echo.write_all(b"k").unwrap();
            echo.read_exact(&mut [0]).unwrap();
            times.push(start.elapsed());
            bytes.push(came.load(Relaxed) - before);
            // Keeps the keystrokes out of step with the bulk data.
            std::thread::sleep(Duration::from_millis(1));
        }
        done.store(true, Relaxed);
    });
    // Printed for the reader; a busy machine must not fail the test.
    eprintln!(
        "echo beside {} MiB of bulk: median {:?}, 99 % {:?}, worst {:?}; \
         bytes in front: median {}, 99 % {}",
        came.load(Relaxed) >> 20,
        at(&mut times, 500),
        at(&mut times, 990),
        at(&mut times, 1000),
        at(&mut bytes, 500),
        at(&mut bytes, 990),
    );
    let median = at(&mut bytes, 500);
    assert!(median < IN_FRONT, "{median} bytes before an echo");
}
