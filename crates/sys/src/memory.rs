//! Returns unused memory to the system while a process waits.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Idle time after which a process returns memory. A login does not wait that long; it would only
/// have to allocate the memory again.
pub const REST: std::time::Duration = std::time::Duration::from_secs(1);

/// Keeps the heap of this process in one mapping, whatever the number of threads, so that
/// [`lock_heap`] reaches all of it. Call it before threads start. musl has no such setting.
pub fn use_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_MAX, 0);
    }
}

/// Keeps the heap, as far as it reaches now, out of swap; call it again when it may have grown.
/// Untouched pages take no memory. `start` is the
/// result of [`heap_start`].
///
/// # Errors
/// The kernel's error; `OutOfMemory` if the `MEMLOCK` limit is too low; `Unsupported` with musl, whose
/// heap is not one mapping.
pub fn lock_heap(start: usize) -> std::io::Result<()> {
    if cfg!(not(target_env = "gnu")) {
        return Err(std::io::ErrorKind::Unsupported.into());
    }
    let page = rustix::param::page_size();
    let start = start & !(page - 1);
    let Some(length) = heap_end().checked_sub(start).filter(|length| *length > 0) else {
        return Ok(());
    };
    // SAFETY: locks pages of the heap, whose contents do not change.
    let done = unsafe {
        libc::mlock2(
            std::ptr::without_provenance(start),
            length,
            libc::MLOCK_ONFAULT,
        )
    };
    crate::ffi::check(done).map(|_| ())
}

/// The first address of the heap; its end if /proc does not say.
#[must_use]
pub fn heap_start() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines()
        .find(|line| line.ends_with("[heap]"))
        .and_then(|line| usize::from_str_radix(line.split('-').next()?, 16).ok())
        .unwrap_or_else(heap_end)
}

/// The first address after the heap.
#[must_use]
pub fn heap_end() -> usize {
    // SAFETY: an increment of 0 changes nothing.
    unsafe { libc::sbrk(0) }.addr()
}

/// The mappings of this program's code and of the constants before it.
#[derive(Debug, Clone, Copy)]
pub struct CodePages {
    start: usize,
    bytes: usize,
}

impl CodePages {
    /// Finds the mappings; empty if /proc does not say.
    #[must_use]
    pub fn find() -> Self {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let inside = (Self::find as fn() -> Self) as usize;
        let (start, end) = code_in(&maps, inside).unwrap_or((0, 0));
        Self {
            start,
            bytes: end - start,
        }
    }

    /// Takes them out of this process's memory, for a program that waits long: what runs again
    /// is found in the system's cache of files.
    #[inline]
    pub fn give_back(self) {
        if self.bytes == 0 {
            return;
        }
        // SAFETY: private mappings of a file that are never written: the pages are read again from
        // the file when they are used.
        unsafe {
            libc::madvise(
                std::ptr::without_provenance_mut(self.start),
                self.bytes,
                libc::MADV_DONTNEED,
            );
        }
    }
}

impl CodePages {
    /// [`give_back`](Self::give_back), then waits until `fd` is readable, at most for `timeout`; a signal
    /// may end the wait, too. Nothing runs between both, so that no more of the code is in memory during the
    /// wait than the kernel reads with this function, usually 64 KiB.
    #[inline(never)]
    pub fn wait_without(self, fd: BorrowedFd<'_>, timeout: Option<Duration>) {
        let limit_ms = timeout.map_or(-1, |limit| {
            i32::try_from(limit.as_millis()).unwrap_or(i32::MAX)
        });
        let mut waiting = libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        self.give_back();
        // SAFETY: one entry, of this frame.
        unsafe { libc::poll(&raw mut waiting, 1, limit_ms) };
    }
}

/// The range of the code around `inside`, by the lines of proc_pid_maps(5), with the file's start if it is
/// mapped right before: constants, which nobody writes. Those that the loader relocates come after the
/// code and must stay.
fn code_in(maps: &str, inside: usize) -> Option<(usize, usize)> {
    let mut constants = None;
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        if rest.starts_with("r-xp") && (start..end).contains(&inside) {
            let before = constants.filter(|(_, constants_end)| *constants_end == start);
            return Some((before.map_or(start, |(first, _)| first), end));
        }
        constants = rest.starts_with("r--p 00000000 ").then_some((start, end));
    }
    None
}

/// Returns freed heap memory ([`trim`]) and unused stack ([`trim_stack`]).
pub fn rest() {
    trim();
    trim_stack();
}

/// Returns freed heap memory to the system, wherever it lies in the heap: the C library by itself
/// does so only at the heap's end, where one small allocation can prevent it. Scans the whole heap,
/// so call it only when idle. musl returns memory when it is freed.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer, and touches only what the allocator holds as free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns the pages of the calling thread's stack below the current frame, which earlier, deeper
/// calls used and may have left secrets in.
#[inline(never)]
pub fn trim_stack() {
    /// Limit on the bytes returned per call on the main thread. The kernel keeps the same distance
    /// below that stack free of other mappings (`stack_guard_gap`).
    const MAX_TRIM_BYTES: usize = 1 << 20;
    let here = 0_u8;
    let page = rustix::param::page_size();
    let top = (&raw const here).addr() & !(page - 1);
    // The page below may hold frames of this function.
    let Some(end) = top.checked_sub(page) else {
        return;
    };
    let is_main = rustix::thread::gettid() == rustix::process::getpid();
    let start = match is_main {
        true => end.checked_sub(MAX_TRIM_BYTES),
        false => thread_stack_start().map(|start| start.next_multiple_of(page)),
    };
    let Some(start) = start.filter(|start| *start < end) else {
        return;
    };
    // SAFETY: stack below the stack pointer and the red zone, which is dead until a call writes
    // it anew, or on the main thread no mapping at all, which is an error without consequence.
    unsafe {
        libc::madvise(
            std::ptr::without_provenance_mut(start),
            end - start,
            libc::MADV_DONTNEED,
        );
    }
}

/// The lowest address of the calling thread's stack; `None` if the C library does not know it.
fn thread_stack_start() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::uninit();
    let (mut start, mut length) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are initialized by the first call and freed by the last, and the other
    // two are places of this function.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let known =
            libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut length);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (known == 0).then(|| start.addr())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    /// Resident KiB of the mapping that holds `address`.
    fn resident_kib(address: usize) -> u64 {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut holds = false;
        for line in maps.lines() {
            let range = line.split(' ').next().unwrap().split_once('-');
            let bounds = range.and_then(|(start, end)| {
                let number = |text| usize::from_str_radix(text, 16).ok();
                Some(number(start)?..number(end)?)
            });
            if let Some(bounds) = bounds {
                holds = bounds.contains(&address);
            } else if let Some(size) = line.strip_prefix("Rss:").filter(|_| holds) {
                return size.trim().trim_end_matches(" kB").parse().unwrap();
            }
        }
        panic!("no mapping");
    }

    #[inline(never)]
    fn use_stack() -> u8 {
        let bytes = [1_u8; 256 << 10];
        let bytes = std::hint::black_box(&bytes);
        bytes.iter().fold(0, |sum, byte| sum ^ byte)
    }

    #[test]
    fn the_used_stack_of_a_thread_is_given_back() {
        let builder = std::thread::Builder::new().stack_size(1 << 20);
        let measured = builder.spawn(|| {
            let here = 0_u8;
            let here = (&raw const here).addr();
            std::hint::black_box(use_stack());
            let before = resident_kib(here);
            trim_stack();
            (before, resident_kib(here))
        });
        let (before, after) = measured.unwrap().join().unwrap();
        assert!(before >= 256 && after < 128, "{before} {after}");
    }

    #[test]
    fn constants_before_the_code_go_with_it_and_relocated_ones_stay() {
        let constants = "1000-3000 r--p 00000000 08:01 7 /x\n";
        let rest = "3000-9000 r-xp 00002000 08:01 7 /x\n9000-a000 r--p 00008000 08:01 7 /x\n";
        let code = |maps: &str| code_in(maps, 0x3010);
        assert_eq!(code(&format!("{constants}{rest}")), Some((0x1000, 0x9000)));
        assert_eq!(code(rest), Some((0x3000, 0x9000)));
        let apart = "1000-2000 r--p 00000000 08:01 7 /x\n";
        assert_eq!(code(&format!("{apart}{rest}")), Some((0x3000, 0x9000)));
        let written = "1000-3000 rw-p 00000000 08:01 7 /x\n";
        assert_eq!(code(&format!("{written}{rest}")), Some((0x3000, 0x9000)));
        assert_eq!(code_in(rest, 0x9010), None);
    }

    #[test]
    fn code_that_was_given_back_runs_again() {
        let code = CodePages::find();
        assert!(code.bytes > 0);
        code.give_back();
        assert_eq!(CodePages::find().bytes, code.bytes);
    }

    #[test]
    fn a_wait_without_code_ends_when_there_is_something_or_in_time() {
        let code = CodePages::find();
        let (ours, theirs) = crate::io::pipe().unwrap();
        code.wait_without(ours.as_fd(), Some(Duration::from_millis(1)));
        crate::io::write_all(&theirs, b"x").unwrap();
        code.wait_without(ours.as_fd(), None);
        let mut byte = [0];
        assert_eq!(crate::io::read(&ours, &mut byte).unwrap(), 1);
        drop(theirs);
        code.wait_without(ours.as_fd(), None);
    }
}
