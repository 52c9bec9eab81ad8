//! Resource usage of processes, CPU time and memory, by `wait4` and `getrusage`.

use std::io;
use std::time::Duration;

use super::wait::ExitStatus;
use crate::Pid;
use crate::ffi::check;

/// CPU time of a process and the children it has waited for, and their peak memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user space.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Largest resident set of any of these processes, in bytes. A process starts with the resident
    /// set of the process that started it.
    pub peak_bytes: u64,
}

impl Usage {
    /// User and system time.
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
            // The kernel reports KiB.
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

/// Waits for `child` and returns its exit status and the usage of it and of its descendants that
/// were waited for. Closes the child's pipes first if the caller has not taken them.
///
/// # Errors
/// `ECHILD` if the child was already waited for; `InvalidData` for an unknown exit status.
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
    let status = ExitStatus::from_raw(status).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "child process has an unknown exit status",
        )
    })?;
    Ok((status, Usage::from_raw(&raw)))
}

/// Usage of all threads of this process so far, without children.
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
    fn usage_of_a_child_includes_its_own_children() {
        // Two children that each count, one after the other; the shell itself does next to nothing.
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
