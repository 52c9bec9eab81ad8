//! Resource limits (getrlimit(2)).

use std::io;
use std::sync::OnceLock;

use crate::ffi::check;

/// A resource that can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Size of a core file, bytes.
    Core,
    /// CPU time, seconds.
    Cpu,
    /// Size a file may grow to, bytes; exceeding it raises SIGXFSZ.
    FileSize,
    /// One more than the highest descriptor number.
    OpenFiles,
    /// Processes of the user (not counted for root).
    Processes,
    /// Address space, bytes.
    AddressSpace,
    /// Locked memory, bytes.
    LockedMemory,
    /// Stack of the main thread, bytes.
    Stack,
}

/// The type of a limit's number, which is the C library's choice.
#[cfg(target_env = "gnu")]
pub(super) type RawResource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
pub(super) type RawResource = libc::c_int;

#[cfg(not(target_env = "gnu"))]
pub(super) use libc::{getrlimit, rlimit as RawLimits, setrlimit};
/// A limit with 64 bits on every machine, as prlimit64(2) takes it.
#[cfg(target_env = "gnu")]
pub(super) use libc::{getrlimit64 as getrlimit, rlimit64 as RawLimits, setrlimit64 as setrlimit};

impl Resource {
    pub(super) fn as_raw(self) -> RawResource {
        match self {
            Self::Core => libc::RLIMIT_CORE,
            Self::Cpu => libc::RLIMIT_CPU,
            Self::FileSize => libc::RLIMIT_FSIZE,
            Self::OpenFiles => libc::RLIMIT_NOFILE,
            Self::Processes => libc::RLIMIT_NPROC,
            Self::AddressSpace => libc::RLIMIT_AS,
            Self::LockedMemory => libc::RLIMIT_MEMLOCK,
            Self::Stack => libc::RLIMIT_STACK,
        }
    }
}

/// A soft limit, which is enforced, and a hard limit, up to which a user may raise the soft one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The enforced limit.
    pub soft: u64,
    /// Upper bound for the soft limit.
    pub hard: u64,
}

impl Limit {
    /// The same value for both limits.
    #[must_use]
    pub const fn both(value: u64) -> Self {
        Self {
            soft: value,
            hard: value,
        }
    }
}

/// Returns the limits of this process.
///
/// # Errors
/// The kernel's error.
pub fn limit(resource: Resource) -> io::Result<Limit> {
    let mut raw = RawLimits {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to a live local.
    check(unsafe { getrlimit(resource.as_raw(), &raw mut raw) })?;
    Ok(Limit {
        soft: raw.rlim_cur,
        hard: raw.rlim_max,
    })
}

/// Sets limits for this process and those that it starts.
///
/// # Errors
/// `EPERM` if a hard limit is raised without privilege, `EINVAL` if soft exceeds hard.
pub fn set_limit(resource: Resource, limit: Limit) -> io::Result<()> {
    let raw = RawLimits {
        rlim_cur: limit.soft,
        rlim_max: limit.hard,
    };
    // SAFETY: the pointer is to a live local.
    check(unsafe { setrlimit(resource.as_raw(), &raw const raw) })?;
    Ok(())
}

/// The limit of open files before [`raise_open_files`].
static OWN_OPEN_FILES: OnceLock<Limit> = OnceLock::new();

/// Raises this process's soft limit of open files to the hard one, once. Programs that are started
/// afterwards get the limit that this process had: one that uses select(2) fails with descriptors
/// above 1023.
///
/// # Errors
/// The kernel's error.
pub fn raise_open_files() -> io::Result<()> {
    if OWN_OPEN_FILES.get().is_some() {
        return Ok(());
    }
    let own = limit(Resource::OpenFiles)?;
    set_limit(Resource::OpenFiles, Limit::both(own.hard))?;
    OWN_OPEN_FILES.get_or_init(|| own);
    Ok(())
}

/// The limit of open files that a started program gets, if this process has raised its own.
pub(super) fn open_files_of_programs() -> Option<Limit> {
    OWN_OPEN_FILES.get().copied()
}
