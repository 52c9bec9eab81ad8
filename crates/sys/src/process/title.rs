//! The process title that `ps` shows, written over the argument vector.
//!
//! It shows the administrator the role of a process and the user that it serves. It must hold no
//! secrets: every user can read it.

use std::ffi::c_char;
#[cfg(target_env = "gnu")]
use std::ffi::c_int;
use std::io;
use std::sync::Mutex;

/// The memory of the arguments: one contiguous, writable area.
struct ArgumentArea {
    start: *mut u8,
    len: usize,
}

// SAFETY: the area belongs to the process for its whole life; the mutex around it serialises
// writes.
unsafe impl Send for ArgumentArea {}

static AREA: Mutex<Option<ArgumentArea>> = Mutex::new(None);

// glibc calls the functions of this section with the arguments of main; musl calls them without, so
// that a process has no title there.
#[cfg(target_env = "gnu")]
#[used]
#[unsafe(link_section = ".init_array.00099")]
static REMEMBER: extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) = remember;

#[cfg(target_env = "gnu")]
extern "C" fn remember(count: c_int, arguments: *mut *mut c_char, _env: *mut *mut c_char) {
    let count = usize::try_from(count).unwrap_or(0);
    if arguments.is_null() || count == 0 {
        return;
    }
    // SAFETY: main's argument vector has `count` entries, each a terminated string in writable
    // memory; that they are contiguous, as the kernel lays them out, is checked entry by entry
    // before the area grows.
    unsafe {
        let start = (*arguments).cast::<u8>();
        if start.is_null() {
            return;
        }
        let mut len = 0;
        for index in 0..count {
            let entry = *arguments.add(index);
            if entry.cast::<u8>() != start.add(len) {
                break;
            }
            len += libc::strlen(entry) + 1;
        }
        if let Ok(mut area) = AREA.lock() {
            *area = Some(ArgumentArea { start, len });
        }
    }
}

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Adds the memory of the environment, which follows that of the arguments, to the area; the
/// environment moves to the heap.
fn take_environment(area: &mut ArgumentArea) {
    // SAFETY: the process has one thread, so nobody reads the environment meanwhile. Its entries
    // are terminated strings up to a null pointer; the memory of an entry joins the area only if it
    // follows, and no pointer of the environment leads there afterwards. The copies are never freed.
    unsafe {
        let mut entry = environ;
        let mut copies = Vec::new();
        let mut len = area.len;
        while !entry.is_null() && !(*entry).is_null() {
            if (*entry).cast::<u8>() == area.start.add(len) {
                len += libc::strlen(*entry) + 1;
            }
            let copy = libc::strdup(*entry);
            if copy.is_null() {
                return;
            }
            copies.push(copy);
            entry = entry.add(1);
        }
        copies.push(std::ptr::null_mut());
        environ = copies.leak().as_mut_ptr();
        area.len = len;
    }
}

/// Shows `title` instead of the arguments, cut to their length. Afterwards `std::env::args` returns
/// garbage: parse the arguments before. Call it while the process has one thread.
///
/// # Errors
/// `InvalidInput` if `title` contains a NUL byte; `Unsupported` if the arguments were not found.
pub fn set_title(title: &str) -> io::Result<()> {
    write_title(title, false)
}

/// The same, cut to the length of arguments and environment: `/proc/PID/environ` shows the rest of a
/// title that is longer than the arguments.
///
/// # Errors
/// As [`set_title`].
pub fn set_long_title(title: &str) -> io::Result<()> {
    write_title(title, true)
}

fn write_title(title: &str, may_be_long: bool) -> io::Result<()> {
    if title.bytes().any(|byte| byte == 0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut guard = AREA
        .lock()
        .map_err(|_| io::Error::from(io::ErrorKind::Other))?;
    let Some(area) = guard.as_mut().filter(|area| area.len > 1) else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    // The kernel shows what goes beyond the arguments if their last byte is not NUL.
    if may_be_long && title.len() >= area.len {
        take_environment(area);
    }
    let bytes = title.as_bytes();
    let bytes = bytes.get(..area.len - 1).unwrap_or(bytes);
    // SAFETY: the area is `len` writable bytes of this process; `bytes` is shorter, and the rest
    // becomes NUL, so every argument stays terminated.
    unsafe {
        std::ptr::write_bytes(area.start, 0, area.len);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), area.start, bytes.len());
    }
    Ok(())
}
