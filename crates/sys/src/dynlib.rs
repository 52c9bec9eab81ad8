//! Shared libraries that a process loads with `dlopen` when it needs them (libpam, libcrypt) and
//! keeps until it ends.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

/// A loaded shared library. It is never closed: PAM modules and libcrypt keep
/// state (atexit handlers, thread-local data) that does not survive unloading.
pub(crate) struct Library(NonNull<c_void>);

// SAFETY: a dlopen handle may be used from any thread.
unsafe impl Send for Library {}
// SAFETY: dlsym on one handle from several threads is allowed by POSIX.
unsafe impl Sync for Library {}

impl Library {
    /// Loads the first of `names` that exists; the error is the loader's message.
    pub(crate) fn open(names: &[&CStr]) -> Result<Self, String> {
        let mut reason = String::new();
        crate::signals::mark_altered_by_others();
        for name in names {
            // SAFETY: `name` is a terminated string; RTLD_NOW resolves at once so
            // no lazy binding fails later; the constructors run are those of a
            // system library that the administrator installed.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
            if let Some(handle) = NonNull::new(handle) {
                return Ok(Self(handle));
            }
            reason = last_error();
        }
        Err(reason)
    }

    /// Loads the library at `path`, whose symbols no other library sees; the error is the loader's
    /// message.
    pub(crate) fn open_local(path: &CStr) -> Result<Self, String> {
        crate::signals::mark_altered_by_others();
        // SAFETY: `path` is a terminated string; the constructors that run are those of a library
        // that the user named, in a process that is confined for it.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(Self).ok_or_else(last_error)
    }

    /// Returns the address of `name`, or the loader's message if the library has no such symbol.
    pub(crate) fn symbol(&self, name: &CStr) -> Result<NonNull<c_void>, String> {
        // SAFETY: the handle came from dlopen and was never closed.
        let address = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
        NonNull::new(address).ok_or_else(last_error)
    }
}

fn last_error() -> String {
    if cfg!(target_feature = "crt-static") {
        return "this build is static and loads no libraries".to_owned();
    }
    // SAFETY: dlerror returns null or a string valid until the next dl call of
    // this thread; it is copied at once.
    let text = unsafe { crate::ffi::copy_c_str(libc::dlerror(), 512) };
    text.map_or_else(
        || "unknown loader error".to_owned(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}
