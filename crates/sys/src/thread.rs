//! CPU time of the calling thread, and time that it was ready to run without a CPU. The rest of the
//! time in which the thread did not wait deliberately it was blocked in a system call, most likely
//! by a disk.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Scheduler statistics of a thread (CONFIG_SCHED_INFO): nanoseconds on a CPU, nanoseconds ready,
/// number of time slices.
const SCHEDULER: &str = "/proc/thread-self/schedstat";

/// CPU time that the calling thread has used.
#[must_use]
pub fn processor_time() -> Duration {
    Duration::from_micros(crate::time::thread_cpu_us())
}

/// Reads how long a thread has been ready to run without a CPU.
#[derive(Debug)]
pub struct ReadyTime(Option<File>);

impl ReadyTime {
    /// For the calling thread; other threads may read it later.
    #[must_use]
    pub fn of_this_thread() -> Self {
        Self(File::open(SCHEDULER).ok())
    }

    /// The time so far; `None` if the kernel does not report it.
    #[must_use]
    pub fn total(&self) -> Option<Duration> {
        let mut text = [0; 64];
        let count = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        ready(text.get(..count)?)
    }
}

fn ready(text: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(text).ok()?;
    let nanoseconds = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time_and_sleep_does_not() {
        let before = processor_time();
        while processor_time() < before + Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        let asleep = processor_time();
        std::thread::sleep(Duration::from_millis(300));
        assert!(processor_time() - asleep < Duration::from_millis(200));
    }

    #[test]
    fn the_second_figure_is_the_time_without_a_processor() {
        assert_eq!(ready(b"5 1500 7\n"), Some(Duration::from_nanos(1500)));
        for bad in [&b"5"[..], b"", b"1 x 2", b"\xff \xff"] {
            assert_eq!(ready(bad), None);
        }
        // Not every kernel reports it.
        let clock = ReadyTime::of_this_thread();
        if let Some(first) = clock.total() {
            assert!(clock.total() >= Some(first));
        }
    }
}
