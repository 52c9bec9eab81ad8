//! The cage of the process that talks to strangers before they are authenticated.
//!
//! In this order: no core dumps or tracing, no new privileges, an empty root
//! directory and a user without rights (started as root) or a Landlock domain that
//! allows nothing (started by an ordinary user), death with the parent, resource
//! limits, and last the list of allowed system calls: anything else kills the process. Each step is verified;
//! a step that fails is an error, and the caller ends the process.
//!
//! What the caller must have done before: drawn its first random bytes, read its
//! configuration, opened its sockets, asked for the time zone; from then on a single
//! `open` is fatal. `stderr` must not be a file: `FSIZE 0` kills its writer.

mod bpf;
pub mod files;
mod filter;
mod provider;

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::process::{self, Credentials, Limit, Resource};
use crate::signals::Signal;
use crate::users;

pub use provider::provider;

/// How the process is kept away from files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confinement {
    /// Started as root: the root directory becomes `directory` (empty, owned by root,
    /// writable by nobody else) and the process becomes `user`.
    EmptyRoot {
        /// The directory, usually below /run.
        directory: PathBuf,
        /// A user with no rights of its own and no supplementary groups.
        user: Credentials,
    },
    /// Started by an ordinary user: Landlock denies every access to files.
    Landlock,
}

/// The parameters of [`preauth`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// How files are kept out of reach.
    pub confinement: Confinement,
    /// `RLIMIT_NOFILE`: above what is open, and what `poll` is called with.
    pub max_open_files: u64,
}

/// Enough for the connection, the monitor's socket, the standard three, and some room.
pub const DEFAULT_OPEN_FILES: u64 = 16;

/// The step of [`preauth`] that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxStep {
    /// Other threads run: they would stay outside.
    SingleThread,
    /// Forbidding core dumps and tracing.
    Dumpable,
    /// Forbidding new privileges.
    NoNewPrivs,
    /// The empty root directory.
    Root,
    /// Becoming the user without rights.
    User,
    /// The Landlock domain.
    Landlock,
    /// Dying with the parent.
    DeathSignal,
    /// The resource limits.
    Limits,
    /// The list of system calls.
    Seccomp,
}

/// Why the cage could not be closed. The process must end.
#[derive(Debug)]
pub struct SandboxError {
    /// Which step.
    pub step: SandboxStep,
    /// Why.
    pub error: io::Error,
}

impl fmt::Display for SandboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match self.step {
            SandboxStep::SingleThread => "other threads are running",
            SandboxStep::Dumpable => "cannot forbid core dumps and tracing",
            SandboxStep::NoNewPrivs => "cannot forbid new privileges",
            SandboxStep::Root => "cannot enter the empty directory",
            SandboxStep::User => "cannot become the unprivileged user",
            SandboxStep::Landlock => "cannot shut out the file system (Landlock)",
            SandboxStep::DeathSignal => "cannot be made to die with the parent",
            SandboxStep::Limits => "cannot set resource limits",
            SandboxStep::Seccomp => "cannot restrict system calls (seccomp)",
        };
        write!(f, "sandbox: {step}: {}", self.error)
    }
}

impl std::error::Error for SandboxError {}

trait At<T> {
    fn at(self, step: SandboxStep) -> Result<T, SandboxError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, step: SandboxStep) -> Result<T, SandboxError> {
        self.map_err(|error| SandboxError { step, error })
    }
}

/// Closes the cage around this process, for good.
///
/// # Errors
/// [`SandboxError`]: some steps may have been taken. End the process.
pub fn preauth(policy: &SandboxPolicy) -> Result<(), SandboxError> {
    let parent = process::parent_pid();
    single_thread().at(SandboxStep::SingleThread)?;
    // rustix looks up what the kernel told the process at start on its first need of
    // it, by calls that are forbidden later.
    let _ = rustix::param::page_size();
    let _ = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    process::disable_core_dumps().at(SandboxStep::Dumpable)?;
    process::set_no_new_privs().at(SandboxStep::NoNewPrivs)?;
    match &policy.confinement {
        Confinement::EmptyRoot { directory, user } => {
            if user.uid == 0 || user.gid == 0 || user.groups.contains(&0) {
                return Err(invalid("root is no unprivileged user")).at(SandboxStep::User);
            }
            enter_empty_root(directory).at(SandboxStep::Root)?;
            process::become_user(user).at(SandboxStep::User)?;
        }
        Confinement::Landlock => {
            if process::is_root() {
                return Err(invalid("root needs the empty directory")).at(SandboxStep::Root);
            }
            deny_files().at(SandboxStep::Landlock)?;
        }
    }
    // The change of user has cleared it, and whoever was to hear of us may have gone meanwhile.
    process::set_parent_death_signal(Some(Signal::KILL)).at(SandboxStep::DeathSignal)?;
    if process::parent_pid() != parent {
        return Err(invalid("the parent has gone")).at(SandboxStep::DeathSignal);
    }
    // The change of user may have touched it, and the limits hold for what we are now.
    process::set_dumpable(false).at(SandboxStep::Dumpable)?;
    if process::is_dumpable().at(SandboxStep::Dumpable)? {
        return Err(invalid("still dumpable")).at(SandboxStep::Dumpable);
    }
    set_limits(policy.max_open_files).at(SandboxStep::Limits)?;
    filter::install().at(SandboxStep::Seccomp)
}

/// The user for the cage: `fulmar`, `sshd` or `nobody`, whichever exists first, in
/// its own group only.
///
/// # Errors
/// `NotFound` when there is none.
pub fn unprivileged_user() -> io::Result<Credentials> {
    for name in ["fulmar", "sshd", "nobody"] {
        if let Some(user) = users::by_name(name)?
            && user.uid != 0
            && user.gid != 0
        {
            return Ok(Credentials {
                uid: user.uid,
                gid: user.gid,
                groups: vec![user.gid],
            });
        }
    }
    Err(io::Error::new(
        io::ErrorKind::NotFound,
        "no user for unauthenticated connections (add one: useradd -r fulmar)",
    ))
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn single_thread() -> io::Result<()> {
    // Leaving a thread group that has nobody else in it does nothing; with others in it, it is
    // an error. Listing /proc takes fifty times as long.
    // SAFETY: a number.
    if crate::ffi::check(unsafe { libc::unshare(libc::CLONE_THREAD) }).is_ok() {
        return Ok(());
    }
    // There are others, or a container forbids the call.
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads == 1 {
        Ok(())
    } else {
        Err(io::Error::other(format!("{threads} threads")))
    }
}

/// Judges the directory through its descriptor, and enters what was judged.
fn enter_empty_root(directory: &Path) -> io::Result<()> {
    let fd = crate::file::open_directory(directory)?;
    let file = std::fs::File::from(fd);
    let metadata = file.metadata()?;
    if metadata.uid() != 0 || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "directory must belong to root and be writable by nobody else",
        ));
    }
    if !is_empty(&file)? {
        return Err(invalid("directory is not empty"));
    }
    rustix::process::fchdir(&file)?;
    rustix::process::chroot(".")?;
    rustix::process::chdir("/")?;
    Ok(())
}

/// Whether an open directory has no entries. Without the stream of the C library, which takes 32 KiB
/// from the heap: each login pays for it.
fn is_empty(directory: &std::fs::File) -> io::Result<bool> {
    let mut room = [std::mem::MaybeUninit::uninit(); 512];
    let mut entries = rustix::fs::RawDir::new(directory, &mut room);
    while let Some(entry) = entries.next() {
        if ![&b"."[..], b".."].contains(&entry?.file_name().to_bytes()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Enters a Landlock domain without a single rule: no file can be opened, made,
/// removed or executed by this thread and what it starts; what is open stays usable.
/// The oldest set of rights is required, newer ones (network, signals and abstract
/// sockets across the border) are denied where the kernel knows them. Sets
/// no_new_privs.
///
/// # Errors
/// `Unsupported` where the kernel has no Landlock, else the kernel's error.
pub fn deny_files() -> io::Result<()> {
    use landlock::{
        ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
        RulesetStatus, Scope,
    };
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(|set| {
            set.set_compatibility(CompatLevel::BestEffort)
                .handle_access(AccessFs::from_all(ABI::V5))
        })
        .and_then(|set| set.handle_access(AccessNet::from_all(ABI::V4)))
        .and_then(|set| set.scope(Scope::from_all(ABI::V6)))
        .and_then(landlock::Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(io::Error::other)?;
    if restricted.ruleset == RulesetStatus::NotEnforced {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the kernel has no Landlock",
        ));
    }
    Ok(())
}

fn set_limits(max_open_files: u64) -> io::Result<()> {
    let limits = [
        (Resource::Processes, 0),
        (Resource::FileSize, 0),
        (Resource::Core, 0),
        (Resource::OpenFiles, max_open_files),
    ];
    for (resource, value) in limits {
        process::set_limit(resource, Limit::both(value))?;
        if process::limit(resource)? != Limit::both(value) {
            return Err(io::Error::other("limit did not hold"));
        }
    }
    Ok(())
}
