//! What processes cost, CPU time and memory, by `wait4` and `getrusage`.

use std::io;
use std::time::Duration;

use super::wait::ExitStatus;
use crate::Pid;
use crate::ffi::check;

/// CPU time that a process and the children it waited for have used, and their memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// In user space.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
    /// The most memory that one of them has had at once, bytes. A process begins with what the
    /// one had that started it.
    pub peak_bytes: u64,
}

impl Usage {
    /// Both together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.user + self.system
    }

    fn from_raw(raw: &libc::rusage) -> Self {
        let length = |time: libc::timeval| {
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            let micros = u64::try_from(time.tv_usec).unwrap_or(0);
            Duration::from_secs(seconds) + Duration::from_micros(micros)
        };
        Self {
            user: length(raw.ru_utime),
            system: length(raw.ru_stime),
            // The kernel counts KiB.
            peak_bytes: u64::try_from(raw.ru_maxrss)
                .unwrap_or(0)
                .saturating_mul(1024),
        }
    }
}

fn empty() -> libc::rusage {
    // SAFETY: rusage is a plain C struct of integers: all zeroes is valid.
    unsafe { std::mem::zeroed() }
}

/// Waits for `child` and gives how it ended, with what it and everything below it that was
/// waited for has cost. Its pipes that nobody took are closed first.
///
/// # Errors
/// `ECHILD` for one that was waited for already; `InvalidData` for an end that has no name.
pub fn wait_usage(mut child: std::process::Child) -> io::Result<(ExitStatus, Usage)> {
    let pid = Pid::try_from(child.id()).map_err(|_| io::ErrorKind::InvalidInput)?;
    drop((child.stdin.take(), child.stdout.take(), child.stderr.take()));
    let mut raw = empty();
    let mut status = 0;
    loop {
        // SAFETY: both pointers are to live locals of the right types.
        match check(unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut raw) }) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    let status = ExitStatus::from_raw(status)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a child's end has no name"))?;
    Ok((status, Usage::from_raw(&raw)))
}

/// What this process has used so far, all threads, without its children.
///
/// # Errors
/// The kernel's error.
pub fn own_usage() -> io::Result<Usage> {
    let mut raw = empty();
    // SAFETY: the pointer is to a live local.
    check(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut raw) })?;
    Ok(Usage::from_raw(&raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_told_with_what_its_own_children_cost() {
        // Two children in turn that each count; the shell itself does next to nothing.
        let work = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
        let child = std::process::Command::new("/bin/sh")
            .args(["-c", &format!("sh -c '{work}'; sh -c '{work}'; exit 3")])
            .spawn()
            .unwrap();
        let (status, both) = wait_usage(child).unwrap();
        assert_eq!(status, ExitStatus::Exited(3));
        let child = std::process::Command::new("/bin/sh")
            .args(["-c", "exit 0"])
            .spawn()
            .unwrap();
        let (_, none) = wait_usage(child).unwrap();
        assert!(both.user > none.user, "{both:?} {none:?}");
        assert!(both.peak_bytes > 100_000, "{both:?}");
        let mut waited = std::process::Command::new("/bin/sh")
            .args(["-c", "exit 0"])
            .spawn()
            .unwrap();
        waited.wait().unwrap();
        let error = wait_usage(waited).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ECHILD));
    }

    #[test]
    fn own_usage_grows() {
        let before = own_usage().unwrap();
        let mut sum = 0_u64;
        while own_usage().unwrap().total() == before.total() {
            for value in 0..100_000_u64 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(value));
            }
        }
        assert!(own_usage().unwrap().total() > before.total());
    }
}
