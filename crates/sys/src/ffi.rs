//! Conversions between C conventions and `std`: return codes, C strings and sizes.

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;

/// Turns a `-1`-and-errno return into a `Result`.
pub(crate) fn check(ret: c_int) -> io::Result<c_int> {
    if ret < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(ret)
    }
}

/// Turns a `-1`-and-errno return of a raw `syscall` into a `Result`.
pub(crate) fn check_long(ret: libc::c_long) -> io::Result<libc::c_long> {
    if ret < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(ret)
    }
}

/// A number of C whose width is the machine's choice (`long`), with 64 bits.
pub(crate) fn wide(number: impl Into<i64>) -> i64 {
    number.into()
}

/// `size_of::<T>()` as a `socklen_t`; the types used with it are all small.
pub(crate) fn socklen_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).unwrap_or(libc::socklen_t::MAX)
}

/// Converts to a C string; `InvalidInput` if `bytes` contains a NUL.
pub(crate) fn c_string(bytes: impl Into<Vec<u8>>) -> io::Result<CString> {
    CString::new(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "NUL byte inside a string"))
}

/// Copies at most `max` bytes of a C string; `None` when the pointer is null.
///
/// # Safety
/// `text` is null or points at a NUL-terminated string that lives through the call.
pub(crate) unsafe fn copy_c_str(text: *const c_char, max: usize) -> Option<Vec<u8>> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, and terminated by the caller's promise.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    Some(bytes.get(..max).unwrap_or(bytes).to_vec())
}

/// Repeats `call` while a signal interrupts it.
pub(crate) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}
