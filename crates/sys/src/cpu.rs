//! CPU cores: how many this process may use, and how idle they have been.

/// Number of cores that this process may use, by its affinity mask (sched_setaffinity(2)) and by
/// the CPU quota of its control groups; at least 1. Reads several files, so do not call it at every
/// login.
#[must_use]
pub fn available() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Idle time of all cores of the affinity mask since boot, summed, in microseconds and in steps of
/// the kernel's tick (10 ms). `None` if /proc is not readable.
#[must_use]
pub fn idle_us() -> Option<u64> {
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let ticks = idle_ticks(&text, |core| allowed.is_set(core))?;
    let per_second = rustix::param::clock_ticks_per_second();
    Some(ticks.saturating_mul(1_000_000) / per_second.max(1))
}

/// Adds up the columns `idle` and `iowait` (proc_stat(5)) of the allowed cores; `None` if there is
/// no such core.
fn idle_ticks(text: &str, is_allowed: impl Fn(usize) -> bool) -> Option<u64> {
    let mut total = None;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("cpu") else {
            break;
        };
        let mut words = rest.split_ascii_whitespace();
        // The first line, without a number, is the sum of all cores.
        let numbered = rest.starts_with(|first: char| first.is_ascii_digit());
        let Some(core) = words.next().filter(|_| numbered) else {
            continue;
        };
        if core.parse().is_ok_and(&is_allowed) {
            let idle: u64 = words
                .skip(3)
                .take(2)
                .filter_map(|word| word.parse::<u64>().ok())
                .sum();
            total = Some(total.unwrap_or(0) + idle);
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 0 100 1000 60 0 0 0 0 0\n\
        cpu0 50 0 50 700 20 1 2 3 0 0\n\
        cpu1 50 0 50 300 40 1 2 3 0 0\n\
        intr 12345 0 9\n\
        cpu9 1 1 1 1 1\n";

    #[test]
    fn idle_time_is_that_of_the_cores_that_are_allowed() {
        assert_eq!(idle_ticks(STAT, |_| true), Some(1060));
        assert_eq!(idle_ticks(STAT, |core| core == 1), Some(340));
        assert_eq!(idle_ticks(STAT, |core| core == 9), None);
        assert_eq!(idle_ticks("", |_| true), None);
    }

    #[test]
    fn there_is_a_core_and_its_idle_time_does_not_shrink() {
        assert!(available() >= 1);
        if let Some(before) = idle_us() {
            assert!(idle_us() >= Some(before));
        }
    }
}
