//! Loading of shared libraries: dlopen, dlsym and dladdr. The caller knows the types of the
//! symbols.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// Reason why a library cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LibraryError {
    /// The path is not absolute: the loader's settings would decide which file is loaded.
    NotAbsolute,
    /// The loader's error message.
    Load(String),
    /// A required function of zlib's interface is missing.
    Missing(&'static str),
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAbsolute => f.write_str("not an absolute path"),
            Self::Load(text) => f.write_str(text),
            Self::Missing(function) => write!(f, "not a zlib: it has no {function}"),
        }
    }
}

impl std::error::Error for LibraryError {}

/// musl's loader always searches the program first.
#[cfg(not(target_env = "gnu"))]
const OWN_FIRST: libc::c_int = 0;
#[cfg(target_env = "gnu")]
const OWN_FIRST: libc::c_int = libc::RTLD_DEEPBIND;

/// A loaded library. It stays loaded until the process ends.
#[derive(Clone, Copy)]
pub(super) struct LibraryHandle(NonNull<c_void>);

impl LibraryHandle {
    /// Loads the library at `path`, which must be absolute. Its constructors run.
    pub(super) fn open(path: &Path) -> Result<Self, LibraryError> {
        if !path.is_absolute() {
            return Err(LibraryError::NotAbsolute);
        }
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| LibraryError::Load("a NUL byte in the path".to_owned()))?;
        // The library's own symbols have precedence: a process that also had another zlib crashed
        // in a library that found the wrong one.
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | OWN_FIRST;
        // SAFETY: a terminated string. The library's constructors may do anything; therefore this
        // runs in a process that holds nothing of value.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        let handle = NonNull::new(handle).ok_or_else(|| LibraryError::Load(loader_error()))?;
        Ok(Self(handle))
    }

    /// Address of `name` in the library or in one that it depends on.
    pub(super) fn symbol(self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle came from dlopen and is never closed.
        NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })
    }

    /// Like [`LibraryHandle::symbol`], for a required symbol.
    pub(super) fn need(self, name: &'static CStr) -> Result<NonNull<c_void>, LibraryError> {
        self.symbol(name)
            .ok_or(LibraryError::Missing(name.to_str().unwrap_or_default()))
    }
}

/// The file that holds the code at `address`.
pub(super) fn file_of(address: NonNull<c_void>) -> Option<PathBuf> {
    // SAFETY: all-zero is a valid Dl_info, which dladdr fills.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `found` lives through the call; the address is only looked up.
    if unsafe { libc::dladdr(address.as_ptr(), &raw mut found) } == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gave a terminated string that lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    let name = std::ffi::OsString::from_vec(name.to_bytes().to_vec());
    Some(PathBuf::from(name))
}

/// # Safety
/// `text` is null or points at a terminated string.
pub(super) unsafe fn text_at(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    Some(escape::escape_at_most(bytes, escape::Style::Line, 200))
}

/// Clears errno, so that a later error is the library's.
pub(super) fn clear_errno() {
    // SAFETY: the location is this thread's own.
    unsafe {
        *libc::__errno_location() = 0;
    }
}

/// The current errno, if it is set: libraries often give no other reason for a failure.
pub(super) fn system_error() -> Option<std::io::Error> {
    let error = std::io::Error::last_os_error();
    error
        .raw_os_error()
        .is_some_and(|number| number != 0)
        .then_some(error)
}

fn loader_error() -> String {
    // SAFETY: dlerror returns null or a string valid until the next call; it is copied at once.
    unsafe { text_at(libc::dlerror()) }.unwrap_or_else(|| "unknown loader error".to_owned())
}
