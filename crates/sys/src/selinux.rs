//! SELinux contexts of a login, by libselinux, which is loaded only where SELinux is on: in which
//! context the user's programs start, and which one the terminal gets. On other systems nothing is
//! loaded or changed.
//!
//! The contexts are those that OpenSSH chooses (openbsd-compat/port-linux.c of OpenSSH).

use std::ffi::{CString, c_char, c_int, c_ushort, c_void};
use std::fmt;
use std::io;
use std::path::Path;
use std::ptr::null_mut;

use crate::dynlib::Library;
use crate::ffi::{c_string, copy_c_str};

/// Exists where a policy is loaded.
const SWITCH: &str = "/sys/fs/selinux/enforce";
/// The context in which this thread executes its next program (proc_pid_attr(5)); programs that its
/// children execute have it, too.
const NEXT: &str = "/proc/thread-self/attr/exec";
/// Limit on a context, bytes.
const MAX_CONTEXT_BYTES: usize = 4096;

type GetSeuser = unsafe extern "C" fn(*const c_char, *mut *mut c_char, *mut *mut c_char) -> c_int;
type DefaultContext =
    unsafe extern "C" fn(*const c_char, *const c_char, *const c_char, *mut *mut c_char) -> c_int;
type FileContext = unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> c_int;
type SetFileContext = unsafe extern "C" fn(*const c_char, *const c_char) -> c_int;
type ClassOf = unsafe extern "C" fn(*const c_char) -> c_ushort;
type Relabel =
    unsafe extern "C" fn(*const c_char, *const c_char, c_ushort, *mut *mut c_char) -> c_int;
type Enforces = unsafe extern "C" fn() -> c_int;
type Free = unsafe extern "C" fn(*mut c_char);

/// Why a context was not found or not set.
#[derive(Debug)]
pub struct SelinuxError {
    text: String,
    /// True if the policy is enforced, so that a login without its context must not go on.
    pub is_enforced: bool,
}

impl fmt::Display for SelinuxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.is_enforced {
            true => "enforcing",
            false => "permissive",
        };
        write!(f, "{} (in {mode} mode)", self.text)
    }
}

impl std::error::Error for SelinuxError {}

/// libselinux on a system where SELinux is on.
pub struct Selinux {
    get_seuser: GetSeuser,
    default_context: DefaultContext,
    file_context: FileContext,
    set_file_context: SetFileContext,
    class_of: ClassOf,
    relabel: Relabel,
    enforces: Enforces,
    free: Free,
    _library: Library,
}

impl fmt::Debug for Selinux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selinux").finish_non_exhaustive()
    }
}

/// A string that the library has allocated.
struct Owned(*mut c_char, Free);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: null or a string of the library, freed once.
        unsafe { (self.1)(self.0) };
    }
}

impl Owned {
    fn text(&self) -> Option<CString> {
        // SAFETY: null or a terminated string that lives until the drop.
        let bytes = unsafe { copy_c_str(self.0, MAX_CONTEXT_BYTES) }?;
        CString::new(bytes).ok()
    }
}

/// As is_selinux_enabled(3): a container sees the policy of its host read-only, or has no configuration.
fn is_on() -> bool {
    let is_writable = rustix::fs::statvfs("/sys/fs/selinux")
        .is_ok_and(|found| !found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    is_writable && Path::new("/etc/selinux/config").exists()
}

impl Selinux {
    /// Loads the library if SELinux is on, else returns `None`.
    ///
    /// # Errors
    /// If SELinux is on and the library cannot be used.
    pub fn load() -> Result<Option<Self>, SelinuxError> {
        if !is_on() {
            return Ok(None);
        }
        let Ok(switch) = std::fs::read(SWITCH) else {
            return Ok(None);
        };
        Self::functions().map(Some).map_err(|text| SelinuxError {
            text,
            is_enforced: switch.first() == Some(&b'1'),
        })
    }

    fn functions() -> Result<Self, String> {
        let library = Library::open(&[c"libselinux.so.1"])?;
        macro_rules! function {
            ($name:literal as $function:ty) => {{
                let symbol = library.symbol($name)?;
                // SAFETY: selinux/selinux.h declares the function so; the type is that of the field
                // that stores it.
                unsafe { std::mem::transmute::<*mut c_void, $function>(symbol.as_ptr()) }
            }};
        }
        Ok(Self {
            get_seuser: function!(c"getseuserbyname" as GetSeuser),
            default_context: function!(c"get_default_context_with_level" as DefaultContext),
            file_context: function!(c"getfilecon" as FileContext),
            set_file_context: function!(c"setfilecon" as SetFileContext),
            class_of: function!(c"string_to_security_class" as ClassOf),
            relabel: function!(c"security_compute_relabel" as Relabel),
            enforces: function!(c"security_getenforce" as Enforces),
            free: function!(c"freecon" as Free),
            _library: library,
        })
    }

    fn error(&self, text: String) -> SelinuxError {
        // SAFETY: takes no arguments.
        let enforces = unsafe { (self.enforces)() };
        SelinuxError {
            text,
            is_enforced: enforces != 0,
        }
    }

    fn owned(&self) -> Owned {
        Owned(null_mut(), self.free)
    }

    /// The context in which programs of the user start after a login through this process.
    ///
    /// # Errors
    /// If the policy has none for the user.
    pub fn context_of(&self, user: &str) -> Result<String, SelinuxError> {
        let failed = |_| self.error(format!("no security context for {user}"));
        let name = c_string(user).map_err(failed)?;
        let (mut seuser, mut level, mut context) = (self.owned(), self.owned(), self.owned());
        // SAFETY: terminated strings, and places for strings of the library.
        let done = unsafe {
            let found = (self.get_seuser)(name.as_ptr(), &raw mut seuser.0, &raw mut level.0);
            if found == 0 {
                (self.default_context)(seuser.0, level.0, std::ptr::null(), &raw mut context.0)
            } else {
                found
            }
        };
        let text = context.text().filter(|_| done == 0);
        text.and_then(|text| text.into_string().ok())
            .ok_or_else(|| failed(io::Error::last_os_error()))
    }

    /// Gives a terminal the context that the policy has for terminals of programs that run in
    /// `context`.
    ///
    /// # Errors
    /// If the policy has none, or it cannot be set.
    pub fn relabel_terminal(&self, path: &Path, context: &str) -> Result<(), SelinuxError> {
        let failed = |what: &str| self.error(format!("{}: {what}", path.display()));
        let name = c_string(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()))
            .map_err(|_| failed("a NUL byte in the path"))?;
        let context = c_string(context).map_err(|_| failed("a NUL byte in the context"))?;
        let (mut old, mut new) = (self.owned(), self.owned());
        // SAFETY: terminated strings, and places for strings of the library; each is used only after
        // the call that has filled it succeeded.
        unsafe {
            if (self.file_context)(name.as_ptr(), &raw mut old.0) < 0 {
                return Err(failed("getfilecon failed"));
            }
            let class = (self.class_of)(c"chr_file".as_ptr());
            if class == 0 {
                return Err(failed("the policy has no class chr_file"));
            }
            if (self.relabel)(context.as_ptr(), old.0, class, &raw mut new.0) != 0 {
                return Err(failed("security_compute_relabel failed"));
            }
            if (self.set_file_context)(name.as_ptr(), new.0) != 0 {
                return Err(failed("setfilecon failed"));
            }
        }
        Ok(())
    }
}

/// Takes the context that a PAM module has set for the next program of this thread, if there is one,
/// and clears it.
#[must_use]
pub fn take_next_context() -> Option<String> {
    if !is_on() {
        return None;
    }
    let bytes = std::fs::read(NEXT).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let text = text.trim_end_matches(['\0', '\n']).to_owned();
    if text.is_empty() {
        return None;
    }
    // A write of no bytes does not reach the kernel's attribute; a NUL clears it.
    std::fs::write(NEXT, b"\0").ok()?;
    Some(text)
}

/// Lets the programs that this thread and its children execute from now on start in `context`.
///
/// # Errors
/// The kernel's error, if the policy forbids it.
pub fn set_next_context(context: &str) -> Result<(), SelinuxError> {
    std::fs::write(NEXT, context.as_bytes()).map_err(|error| SelinuxError {
        text: format!("setting the security context {context}: {error}"),
        is_enforced: std::fs::read(SWITCH).is_ok_and(|switch| switch.first() == Some(&b'1')),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_selinux_nothing_is_loaded() {
        if Path::new(SWITCH).exists() {
            eprintln!("skipped: SELinux is on");
            return;
        }
        assert!(Selinux::load().unwrap().is_none());
        assert_eq!(take_next_context(), None);
    }
}
