//! The sandbox of the process that serves clients before they are authenticated.
//!
//! Its steps, in this order: no core dumps or tracing, no new privileges, an empty root directory
//! and an unprivileged user (if started as root) or a Landlock domain that allows nothing (if
//! started by an ordinary user), death signal from the parent, resource limits, and last the list
//! of allowed system calls: any other call kills the process. Each step is verified; if a step
//! fails, the caller must end the process.
//!
//! Before it enters the sandbox, the caller must have drawn random bytes, read its configuration,
//! opened its sockets and read the time zone: afterwards a single `open` is fatal. `stderr` must
//! not be a file: `FSIZE 0` kills its writer.

mod bpf;
mod calls;
pub mod files;
mod filter;
mod gss;
mod key_agent;
#[cfg(test)]
mod older;
mod provider;
mod token;

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::process::{self, Credentials, Limit, Resource};
use crate::signals::Signal;
use crate::users;

pub use gss::{gss_acceptor, gss_password, gss_user};
pub use key_agent::key_agent;
pub use provider::{provider, security_key};
pub use token::token;

/// How the process is denied access to files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confinement {
    /// For a process started as root: the root directory becomes `directory` (empty, owned by root,
    /// not writable by others), and the process changes to `user`.
    EmptyRoot {
        /// The directory, usually below /run. It is made if it is missing.
        directory: PathBuf,
        /// A user without rights of its own, in no group but its primary group.
        user: Credentials,
    },
    /// For a process started by an ordinary user: Landlock denies all access to files.
    Landlock,
}

/// The parameters of [`preauth`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxPolicy {
    /// How access to files is denied.
    pub confinement: Confinement,
    /// `RLIMIT_NOFILE`: must exceed the number of open descriptors and of those passed to `poll`.
    pub max_open_files: u64,
    /// Open files may grow. If false, `RLIMIT_FSIZE` is 0.
    pub may_write: bool,
}

/// Enough for the connection, the monitor's socket and the standard three, with some reserve.
pub const DEFAULT_OPEN_FILES: u64 = 16;

/// A step of [`preauth`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxStep {
    /// Checking that the process has one thread; other threads would not be restricted.
    SingleThread,
    /// Forbidding core dumps and tracing.
    Dumpable,
    /// Forbidding new privileges.
    NoNewPrivs,
    /// Entering the empty root directory.
    Root,
    /// Changing to the unprivileged user.
    User,
    /// Entering the Landlock domain.
    Landlock,
    /// Setting the death signal.
    DeathSignal,
    /// Setting the resource limits.
    Limits,
    /// Installing the list of system calls.
    Seccomp,
}

/// Why the process could not enter the sandbox. The process must end.
#[derive(Debug)]
pub struct SandboxError {
    /// The step that failed.
    pub step: SandboxStep,
    /// The reason.
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
            SandboxStep::Landlock => "cannot deny access to files (Landlock)",
            SandboxStep::DeathSignal => "cannot set the death signal",
            SandboxStep::Limits => "cannot set resource limits",
            SandboxStep::Seccomp => "cannot restrict system calls (seccomp)",
        };
        write!(f, "sandbox: {step}: {}", self.error)
    }
}

impl std::error::Error for SandboxError {}

trait AtStep<T> {
    fn at(self, step: SandboxStep) -> Result<T, SandboxError>;
}

impl<T> AtStep<T> for io::Result<T> {
    fn at(self, step: SandboxStep) -> Result<T, SandboxError> {
        self.map_err(|error| SandboxError { step, error })
    }
}

/// Puts this process into the sandbox, irrevocably.
///
/// # Errors
/// [`SandboxError`]: earlier steps remain in effect, so end the process.
pub fn preauth(policy: &SandboxPolicy) -> Result<(), SandboxError> {
    let parent = process::parent_pid();
    check_single_thread().at(SandboxStep::SingleThread)?;
    // On first use rustix looks up the auxiliary vector, with system calls that are forbidden
    // later.
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
    // The change of user has cleared the death signal, and the parent may have died meanwhile.
    process::set_parent_death_signal(Some(Signal::KILL)).at(SandboxStep::DeathSignal)?;
    if process::parent_pid() != parent {
        return Err(invalid("the parent has gone")).at(SandboxStep::DeathSignal);
    }
    // The change of user may have changed this flag.
    process::set_dumpable(false).at(SandboxStep::Dumpable)?;
    if process::is_dumpable().at(SandboxStep::Dumpable)? {
        return Err(invalid("still dumpable")).at(SandboxStep::Dumpable);
    }
    set_limits(policy).at(SandboxStep::Limits)?;
    filter::install().at(SandboxStep::Seccomp)
}

/// Credentials of the unprivileged user: `fulmar`, `sshd` or `nobody`, the first that exists and is
/// not root, with its primary group only.
///
/// # Errors
/// `NotFound` if none of the users exists.
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

fn check_single_thread() -> io::Result<()> {
    // Leaving a thread group without other threads does nothing; with other threads it is an error.
    // Listing /proc takes fifty times as long.
    // SAFETY: a number.
    if crate::ffi::check(unsafe { libc::unshare(libc::CLONE_THREAD) }).is_ok() {
        return Ok(());
    }
    // There are other threads, or a container forbids the call.
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads == 1 {
        Ok(())
    } else {
        Err(io::Error::other(format!("{threads} threads")))
    }
}

/// Checks the directory through its descriptor, and enters it through the same descriptor. Makes it if it is missing: it may
/// have been removed since the server has started.
fn enter_empty_root(directory: &Path) -> io::Result<()> {
    let fd = match crate::file::open_directory(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Another process may make it at the same time, and what it is, is checked below.
            let _ = rustix::fs::mkdir(directory, rustix::fs::Mode::from_raw_mode(0o755));
            crate::file::open_directory(directory)?
        }
        opened => opened?,
    };
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

/// True if an open directory has no entries. Avoids the C library's directory stream, which
/// allocates 32 KiB at every login.
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

/// Enters a Landlock domain without rules: this thread, and processes and threads that it starts,
/// can no longer open, create, remove or execute files; open files stay usable. The rights of
/// Landlock's first version are required; newer rights (network, signals and abstract sockets
/// outside the domain) are denied if the kernel supports them. Sets no_new_privs.
///
/// # Errors
/// `Unsupported` if the kernel has no Landlock, else the kernel's error.
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

fn set_limits(policy: &SandboxPolicy) -> io::Result<()> {
    let limits = [
        (Resource::Processes, 0),
        (Resource::Core, 0),
        (Resource::OpenFiles, policy.max_open_files),
    ];
    let file_size = (!policy.may_write).then_some((Resource::FileSize, 0));
    for (resource, value) in limits.into_iter().chain(file_size) {
        process::set_limit(resource, Limit::both(value))?;
        if process::limit(resource)? != Limit::both(value) {
            return Err(io::Error::other("limit is not in effect"));
        }
    }
    Ok(())
}
