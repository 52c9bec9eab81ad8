//! Starting programs: a builder, and a clone that shares the parent's memory until exec (no page
//! tables are copied, however large the parent is).
//!
//! A child that changes its user gets its own memory, so that nothing that runs as the new user
//! shares memory with the parent, even for the moment before exec. The child inherits only the
//! descriptors that are passed explicitly. All signals have their default action and none is
//! blocked. The environment is empty unless variables are added.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::child::{ChildPlan, ChildReport, FdMove, Ids, Image, SpawnStep, child_entry, run};
use super::credentials::{Credentials, is_root, own_credentials};
use super::limits::{Limit, RawLimits, RawResource, Resource};
use super::wait::{Child, PidFd};
use crate::ffi::{c_string, check};
use crate::signals::{Blocked, Signal};

/// Why a program did not start.
#[derive(Debug)]
pub struct SpawnError {
    /// Step that failed.
    pub step: SpawnStep,
    /// The kernel's error.
    pub error: io::Error,
}

impl SpawnError {
    fn new(step: SpawnStep, error: io::Error) -> Self {
        Self { step, error }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.step {
            SpawnStep::Clone => "cannot create a process",
            SpawnStep::Session => "cannot create a session",
            SpawnStep::Descriptors => "cannot pass descriptors",
            SpawnStep::Terminal => "cannot take the terminal",
            SpawnStep::Limits => "cannot set limits",
            SpawnStep::Credentials => "cannot change the user",
            SpawnStep::Directory => "cannot enter the directory",
            SpawnStep::NoNewPrivs => "cannot forbid new privileges",
            SpawnStep::DeathSignal => "cannot set the death signal",
            SpawnStep::Exec => "cannot execute",
            SpawnStep::OomScore => "cannot set the OOM score",
        };
        write!(f, "{what}: {}", self.error)
    }
}

impl std::error::Error for SpawnError {}

impl From<SpawnError> for io::Error {
    fn from(error: SpawnError) -> Self {
        Self::new(error.error.kind(), error.to_string())
    }
}

/// The program file of this process, opened once at start: roles are executed through it, so that
/// an upgrade on disk does not affect running processes.
#[derive(Debug)]
pub struct SelfExe(OwnedFd);

impl SelfExe {
    /// Opens the running program. Needs /proc; call it before any chroot.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open() -> io::Result<Self> {
        Self::at(Path::new("/proc/self/exe"))
    }

    /// Opens the program at another path, or at the one where this one was.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn at(path: &Path) -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// True if both are the same file.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn is_same(&self, other: &Self) -> io::Result<bool> {
        let id = |file: &Self| -> io::Result<_> {
            let data = rustix::fs::fstat(&file.0)?;
            Ok((data.st_dev, data.st_ino))
        };
        Ok(id(self)? == id(other)?)
    }

    /// A path of the file for this process alone, whatever has its name meanwhile. Needs /proc.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// Wraps a descriptor that a parent opened and passed on.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Creates a command that executes this program; the caller sets all arguments.
    ///
    /// # Errors
    /// The kernel's error if the descriptor cannot be duplicated.
    pub fn command(&self) -> io::Result<ChildCommand> {
        Ok(ChildCommand::with_program(SpawnProgram::Fd(
            crate::io::dup(&self.0)?,
        )))
    }
}

impl AsFd for SelfExe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[derive(Debug)]
enum SpawnProgram {
    Path(CString),
    Fd(OwnedFd),
}

/// A program to start. Errors of the builder methods (such as NUL bytes in strings) are stored and
/// reported by [`ChildCommand::spawn`].
#[derive(Debug)]
pub struct ChildCommand {
    program: SpawnProgram,
    argv: Vec<CString>,
    envp: Vec<CString>,
    fds: Vec<(OwnedFd, c_int)>,
    new_session: bool,
    new_group: bool,
    terminal: c_int,
    limits: Vec<RawLimit>,
    credentials: Option<Credentials>,
    umask: Option<libc::mode_t>,
    directory: Option<CString>,
    directory_or_root: bool,
    no_new_privs: bool,
    death_signal: Option<Signal>,
    oom_score: Option<CString>,
    bad: Option<io::Error>,
}

impl ChildCommand {
    /// Creates a command by path (`PATH` is not searched). Argument 0 must be added with
    /// [`ChildCommand::arg`] too.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        match c_string(path.as_ref().as_os_str().as_bytes()) {
            Ok(path) => Self::with_program(SpawnProgram::Path(path)),
            Err(error) => {
                let mut command = Self::with_program(SpawnProgram::Path(CString::default()));
                command.bad = Some(error);
                command
            }
        }
    }

    fn with_program(program: SpawnProgram) -> Self {
        Self {
            program,
            argv: Vec::new(),
            envp: Vec::new(),
            fds: Vec::new(),
            new_session: false,
            new_group: false,
            terminal: -1,
            limits: Vec::new(),
            credentials: None,
            umask: None,
            directory: None,
            directory_or_root: false,
            no_new_privs: false,
            death_signal: None,
            oom_score: None,
            bad: None,
        }
    }

    fn keep(&mut self, text: impl Into<Vec<u8>>) -> Option<CString> {
        match c_string(text) {
            Ok(text) => Some(text),
            Err(error) => {
                self.bad.get_or_insert(error);
                None
            }
        }
    }

    /// Adds an argument; the first one is argument 0 (`-bash` for a login shell).
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        if let Some(argument) = self.keep(argument.as_ref().as_bytes()) {
            self.argv.push(argument);
        }
        self
    }

    /// Adds several arguments.
    pub fn args<S: AsRef<OsStr>>(&mut self, arguments: impl IntoIterator<Item = S>) -> &mut Self {
        for argument in arguments {
            self.arg(argument);
        }
        self
    }

    /// Sets an environment variable; a later value of the same name replaces an earlier one.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        let name = name.as_ref().as_bytes();
        if name.is_empty() || name.contains(&b'=') {
            self.bad.get_or_insert(io::Error::new(
                io::ErrorKind::InvalidInput,
                "bad name of an environment variable",
            ));
            return self;
        }
        let mut entry = name.to_vec();
        entry.push(b'=');
        self.envp.retain(|old| !old.as_bytes().starts_with(&entry));
        entry.extend_from_slice(value.as_ref().as_bytes());
        if let Some(entry) = self.keep(entry) {
            self.envp.push(entry);
        }
        self
    }

    /// Adds the environment of this process.
    pub fn inherit_env(&mut self) -> &mut Self {
        for (name, value) in std::env::vars_os() {
            if !name.is_empty() {
                self.env(name, value);
            }
        }
        self
    }

    /// Adds those variables of this process's environment that `names` has. A name that ends in `*` means
    /// all names that begin so.
    pub fn inherit_env_of(&mut self, names: &[&str]) -> &mut Self {
        let is_passed = |name: &OsStr| {
            names.iter().any(|known| match known.strip_suffix('*') {
                Some(start) => name.as_bytes().starts_with(start.as_bytes()),
                None => name == *known,
            })
        };
        for (name, value) in std::env::vars_os().filter(|(name, _)| is_passed(name)) {
            self.env(name, value);
        }
        self
    }

    /// Passes `source` to the child as descriptor `target` (at least 0). The child has no other
    /// descriptors open, so pass 0, 1 and 2 too.
    pub fn fd(&mut self, source: OwnedFd, target: c_int) -> &mut Self {
        if target < 0 || self.fds.iter().any(|(_, used)| *used == target) {
            self.bad.get_or_insert(io::Error::new(
                io::ErrorKind::InvalidInput,
                "bad or repeated descriptor number for a child",
            ));
            return self;
        }
        self.fds.push((source, target));
        self
    }

    /// As [`ChildCommand::fd`], but passes a duplicate of `source`.
    pub fn fd_shared(&mut self, source: impl AsFd, target: c_int) -> &mut Self {
        match crate::io::dup(source) {
            Ok(copy) => {
                self.fd(copy, target);
            }
            Err(error) => {
                self.bad.get_or_insert(error);
            }
        }
        self
    }

    /// Sets the child's standard input and output to /dev/null.
    pub fn without_stdio(&mut self) -> &mut Self {
        match crate::io::null() {
            Ok(null) => self.fd_shared(&null, 0).fd(null, 1),
            Err(error) => {
                self.bad.get_or_insert(error);
                self
            }
        }
    }

    /// Passes descriptors 0, 1 and 2 of this process to the child.
    pub fn inherit_stdio(&mut self) -> &mut Self {
        self.fd_shared(crate::io::stdin(), 0)
            .fd_shared(crate::io::stdout(), 1)
            .fd_shared(crate::io::stderr(), 2)
    }

    /// Starts the child in a new session and process group, which it leads.
    pub fn new_session(&mut self) -> &mut Self {
        self.new_session = true;
        self
    }

    /// Starts the child as the leader of a new process group.
    pub fn new_group(&mut self) -> &mut Self {
        self.new_group = true;
        self
    }

    /// Makes the terminal at the child's descriptor `target` its controlling terminal; requires
    /// [`ChildCommand::new_session`].
    pub fn controlling_terminal(&mut self, target: c_int) -> &mut Self {
        self.terminal = target;
        self
    }

    /// Sets a resource limit of the child.
    pub fn limit(&mut self, resource: Resource, limit: Limit) -> &mut Self {
        self.limits.push(raw_limit(resource, limit));
        self
    }

    /// Runs the child as `user`, permanently and verified. A process without privilege may only
    /// name its own user.
    pub fn credentials(&mut self, user: Credentials) -> &mut Self {
        self.credentials = Some(user);
        self
    }

    /// Sets the child's file mode creation mask.
    pub fn umask(&mut self, mask: u32) -> &mut Self {
        self.umask = Some(mask & 0o777);
        self
    }

    /// Sets the child's working directory, entered as the child's user; failure is an error.
    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.directory = self.keep(directory.as_ref().as_os_str().as_bytes());
        self.directory_or_root = false;
        self
    }

    /// Sets the child's working directory, or `/` if it cannot be entered (a login without a home
    /// directory).
    pub fn current_dir_or_root(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.current_dir(directory);
        self.directory_or_root = true;
        self
    }

    /// Forbids the child and its descendants to gain privileges.
    pub fn no_new_privs(&mut self) -> &mut Self {
        self.no_new_privs = true;
        self
    }

    /// Sets the child's OOM score adjustment (see [`set_oom_score`](super::set_oom_score)), for
    /// parents that must not pass on their own protection.
    pub fn oom_score(&mut self, score: i32) -> &mut Self {
        self.oom_score = self.keep(score.clamp(-1000, 1000).to_string());
        self
    }

    /// Sets the signal that the child receives when the *thread* that started it dies.
    pub fn death_signal(&mut self, signal: Signal) -> &mut Self {
        self.death_signal = Some(signal);
        self
    }

    /// Starts the program. Returns once exec has succeeded or a step has failed.
    ///
    /// # Errors
    /// [`SpawnError`] with the step and the kernel's error.
    pub fn spawn(&mut self) -> Result<Child, SpawnError> {
        let ids = self.checked_credentials()?;
        let mut vectors = ExecVectors::new(self);
        let stack = ChildStack::new(ids.is_none())
            .map_err(|error| SpawnError::new(SpawnStep::Clone, error))?;
        let plan = self.plan(&mut vectors, ids.as_ref(), stack.report());
        // No signal handler of the parent may run in the child.
        let blocked = Blocked::all().map_err(|error| SpawnError::new(SpawnStep::Clone, error))?;
        let mut flags = libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        if ids.is_none() {
            flags |= libc::CLONE_VM;
        }
        let mut pidfd: c_int = -1;
        // SAFETY: the stack is a separate block; the child runs only `child_entry` on the plan,
        // which lives until the child has executed or exited (CLONE_VFORK suspends this thread
        // until then), and every signal is blocked. Without CLONE_SIGHAND and CLONE_FILES the child
        // has its own tables.
        let cloned = check(unsafe {
            libc::clone(
                child_entry,
                stack.top(),
                flags,
                (&raw const plan).cast_mut().cast::<c_void>(),
                &raw mut pidfd,
            )
        });
        drop(blocked);
        let pid = cloned.map_err(|error| SpawnError::new(SpawnStep::Clone, error))?;
        // SAFETY: CLONE_PIDFD stored a new descriptor that nobody else owns.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let mut child = Child::new(pid, PidFd::from_owned(pidfd));
        match stack.failure() {
            None => Ok(child),
            Some(failure) => {
                // The child has exited or is about to: reap it.
                let _ = child.wait();
                Err(failure)
            }
        }
    }

    /// Replaces this process by the program. Returns only on failure, with signal handlers reset
    /// and descriptors moved, so the caller must exit.
    pub fn exec(&mut self) -> SpawnError {
        let ids = match self.checked_credentials() {
            Ok(ids) => ids,
            Err(error) => return error,
        };
        let mut vectors = ExecVectors::new(self);
        let mut report = ChildReport { step: 0, errno: 0 };
        let mut plan = self.plan(&mut vectors, ids.as_ref(), &raw mut report);
        plan.parent = 0;
        // SAFETY: the plan and all it points at live through the call.
        let step = unsafe { run(&plan) };
        SpawnError::new(step, io::Error::from_raw_os_error(report.errno))
    }

    /// Checks the requested credentials; `None` if nothing changes.
    fn checked_credentials(&mut self) -> Result<Option<Credentials>, SpawnError> {
        if let Some(error) = self.bad.take() {
            return Err(SpawnError::new(SpawnStep::Clone, error));
        }
        let Some(wanted) = self.credentials.clone() else {
            return Ok(None);
        };
        if is_root() {
            return Ok(Some(wanted));
        }
        let own = own_credentials().map_err(|e| SpawnError::new(SpawnStep::Credentials, e))?;
        if own.uid == wanted.uid && own.gid == wanted.gid {
            return Ok(None);
        }
        let error = io::Error::from_raw_os_error(libc::EPERM);
        Err(SpawnError::new(SpawnStep::Credentials, error))
    }

    fn plan(
        &self,
        vectors: &mut ExecVectors,
        ids: Option<&Credentials>,
        report: *mut ChildReport,
    ) -> ChildPlan {
        ChildPlan {
            image: match &self.program {
                SpawnProgram::Path(path) => Image::Path(path.as_ptr()),
                SpawnProgram::Fd(_) => Image::Fd,
            },
            argv: vectors.argv.as_ptr(),
            envp: vectors.envp.as_ptr(),
            moves: vectors.moves.as_mut_ptr(),
            move_count: vectors.moves.len(),
            new_session: self.new_session,
            new_group: self.new_group && !self.new_session,
            terminal: self.terminal,
            limits: vectors.limits.as_ptr(),
            limit_count: vectors.limits.len(),
            ids: ids.map(|ids| Ids {
                uid: ids.uid,
                gid: ids.gid,
                groups: ids.groups.as_ptr(),
                group_count: ids.groups.len(),
            }),
            umask: self.umask,
            directory: self
                .directory
                .as_ref()
                .map_or(std::ptr::null(), |directory| directory.as_ptr()),
            directory_or_root: self.directory_or_root,
            no_new_privs: self.no_new_privs,
            death_signal: self.death_signal.map_or(0, Signal::as_raw),
            oom_score: self
                .oom_score
                .as_ref()
                .map_or(std::ptr::null(), |score| score.as_ptr()),
            parent: if self.death_signal.is_some() {
                super::harden::pid()
            } else {
                0
            },
            signals: crate::signals::altered(),
            report,
        }
    }
}

/// A resource's number and its limit.
type RawLimit = (RawResource, RawLimits);

fn raw_limit(resource: Resource, limit: Limit) -> RawLimit {
    let raw = RawLimits {
        rlim_cur: limit.soft,
        rlim_max: limit.hard,
    };
    (resource.as_raw(), raw)
}

/// The vectors that the child reads; they point into the [`ChildCommand`].
struct ExecVectors {
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    moves: Vec<FdMove>,
    limits: Vec<RawLimit>,
}

impl ExecVectors {
    fn new(command: &ChildCommand) -> Self {
        let vector = |strings: &[CString]| {
            let mut pointers: Vec<*const c_char> =
                strings.iter().map(|text| text.as_ptr()).collect();
            pointers.push(std::ptr::null());
            pointers
        };
        let mut moves: Vec<FdMove> = command
            .fds
            .iter()
            .map(|(source, target)| FdMove {
                source: source.as_raw_fd(),
                target: *target,
            })
            .collect();
        moves.sort_unstable_by_key(|entry| entry.target);
        // The program file is last and has no target: it is only moved above the targets.
        if let SpawnProgram::Fd(fd) = &command.program {
            moves.push(FdMove {
                source: fd.as_raw_fd(),
                target: -1,
            });
        }
        // The command's own limits come last and count.
        let own_open_files = super::limits::open_files_of_programs()
            .map(|limit| raw_limit(Resource::OpenFiles, limit))
            .into_iter();
        Self {
            argv: vector(&command.argv),
            envp: vector(&command.envp),
            moves,
            limits: own_open_files
                .chain(command.limits.iter().copied())
                .collect(),
        }
    }
}

/// The child's stack, with the report at its low end, in memory that both processes see: heap
/// memory if the child runs in the parent's memory, else a shared mapping, which costs the kernel a
/// file.
struct ChildStack {
    memory: StackMemory,
    base: *mut c_void,
}

enum StackMemory {
    /// Freed on drop.
    Ours {
        _block: Vec<MaybeUninit<u128>>,
    },
    Shared,
}

/// Size in bytes. The child's frames are small; debug builds need more.
const STACK_LEN: usize = if cfg!(debug_assertions) { 64 } else { 16 } * 1024;

impl ChildStack {
    fn new(same_memory: bool) -> io::Result<Self> {
        let (memory, base) = if same_memory {
            // Aligned to 16 bytes, as the ABIs require for a stack.
            let mut block: Vec<MaybeUninit<u128>> =
                Vec::with_capacity(STACK_LEN / size_of::<u128>());
            let base = block.as_mut_ptr().cast();
            (StackMemory::Ours { _block: block }, base)
        } else {
            (StackMemory::Shared, shared_mapping()?)
        };
        let report: *mut ChildReport = base.cast();
        // SAFETY: the start of a live block that is larger, and more than aligned enough.
        unsafe { report.write(ChildReport { step: 0, errno: 0 }) };
        Ok(Self { memory, base })
    }

    /// The end of the block, aligned for use as an initial stack pointer.
    fn top(&self) -> *mut c_void {
        // SAFETY: one past the end of the memory.
        unsafe { self.base.byte_add(STACK_LEN) }
    }

    fn report(&self) -> *mut ChildReport {
        self.base.cast()
    }

    fn failure(&self) -> Option<SpawnError> {
        // SAFETY: initialised by `new`, and the child no longer runs on this stack.
        let report = unsafe { self.report().read_volatile() };
        (report.step != 0).then(|| {
            let error = io::Error::from_raw_os_error(report.errno);
            SpawnError::new(SpawnStep::from_raw(report.step), error)
        })
    }
}

fn shared_mapping() -> io::Result<*mut c_void> {
    // SAFETY: a new anonymous mapping at an address of the kernel's choice.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            STACK_LEN,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(base)
}

impl Drop for ChildStack {
    fn drop(&mut self) {
        if matches!(self.memory, StackMemory::Shared) {
            // SAFETY: a mapping of this process, to which no pointer is left.
            unsafe { libc::munmap(self.base, STACK_LEN) };
        }
    }
}
