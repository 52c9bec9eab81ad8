//! Starting programs: a builder, and a clone that shares the parent's memory until
//! exec (no page tables are copied, whatever the size of the parent).
//!
//! A child that changes its user gets memory of its own, so that nothing of the
//! new user's runs in ours, even for the moment before exec. Descriptors: those
//! named, everything else is closed by exec. Signals: all default, none blocked.
//! The environment is empty unless filled.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::child::{FdMove, Ids, Image, Plan, Report, child_entry, run};
use super::credentials::{Credentials, is_root, own_credentials};
use super::limits::{Limit, Resource};
use super::wait::{Child, PidFd};
use crate::ffi::{c_string, check};
use crate::signals::{Blocked, Signal};

/// The step of a start that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Preparing in the parent, or clone itself.
    Clone = 1,
    /// A new session or process group.
    Session = 2,
    /// Placing descriptors.
    Descriptors = 3,
    /// Making the terminal the controlling one.
    Terminal = 4,
    /// Setting resource limits.
    Limits = 5,
    /// Changing the user.
    Credentials = 6,
    /// Entering the working directory.
    Directory = 7,
    /// Setting no_new_privs.
    NoNewPrivs = 8,
    /// Setting the death signal, or the parent was gone.
    DeathSignal = 9,
    /// Executing the program.
    Exec = 10,
    /// Setting the score for the day when memory runs out.
    OomScore = 11,
}

impl Step {
    fn from_raw(raw: u32) -> Self {
        match raw {
            2 => Self::Session,
            3 => Self::Descriptors,
            4 => Self::Terminal,
            5 => Self::Limits,
            6 => Self::Credentials,
            7 => Self::Directory,
            8 => Self::NoNewPrivs,
            9 => Self::DeathSignal,
            10 => Self::Exec,
            11 => Self::OomScore,
            _ => Self::Clone,
        }
    }
}

/// Why a program did not start.
#[derive(Debug)]
pub struct SpawnError {
    /// What was being done.
    pub step: Step,
    /// What the kernel said.
    pub error: io::Error,
}

impl SpawnError {
    fn new(step: Step, error: io::Error) -> Self {
        Self { step, error }
    }
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.step {
            Step::Clone => "cannot create a process",
            Step::Session => "cannot create a session",
            Step::Descriptors => "cannot pass descriptors",
            Step::Terminal => "cannot take the terminal",
            Step::Limits => "cannot set limits",
            Step::Credentials => "cannot change the user",
            Step::Directory => "cannot enter the directory",
            Step::NoNewPrivs => "cannot forbid new privileges",
            Step::DeathSignal => "cannot set the death signal",
            Step::Exec => "cannot execute",
            Step::OomScore => "cannot set the OOM score",
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

/// Our own program file, opened once at start: roles are executed through it, so
/// that an upgrade on disk changes nothing for what is under way.
#[derive(Debug)]
pub struct SelfExe(OwnedFd);

impl SelfExe {
    /// Opens the running program. Needs /proc; call it before any chroot.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open() -> io::Result<Self> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(
            "/proc/self/exe",
            flags,
            Mode::empty(),
        )?))
    }

    /// Takes over the descriptor that a parent opened and handed down.
    #[must_use]
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// A command that executes this program; the caller sets all arguments.
    ///
    /// # Errors
    /// The kernel's error on duplicating the descriptor.
    pub fn command(&self) -> io::Result<Command> {
        Ok(Command::with_program(Program::Fd(crate::io::dup(&self.0)?)))
    }
}

impl AsFd for SelfExe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[derive(Debug)]
enum Program {
    Path(CString),
    Fd(OwnedFd),
}

/// A program to start. Errors in strings (NUL bytes) are kept and reported by
/// [`Command::spawn`].
#[derive(Debug)]
pub struct Command {
    program: Program,
    argv: Vec<CString>,
    envp: Vec<CString>,
    fds: Vec<(OwnedFd, c_int)>,
    new_session: bool,
    new_group: bool,
    terminal: c_int,
    limits: Vec<(u32, libc::rlimit)>,
    credentials: Option<Credentials>,
    umask: Option<libc::mode_t>,
    directory: Option<CString>,
    directory_or_root: bool,
    no_new_privs: bool,
    death_signal: Option<Signal>,
    oom_score: Option<CString>,
    bad: Option<io::Error>,
}

impl Command {
    /// A program by its path (not searched in `PATH`). Argument 0 must be given
    /// with [`Command::arg`] like the others.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        match c_string(path.as_ref().as_os_str().as_bytes()) {
            Ok(path) => Self::with_program(Program::Path(path)),
            Err(error) => {
                let mut command = Self::with_program(Program::Path(CString::default()));
                command.bad = Some(error);
                command
            }
        }
    }

    fn with_program(program: Program) -> Self {
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

    /// Sets a variable of the environment (a later one of the same name wins).
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

    /// Passes our own environment on, before what [`Command::env`] adds.
    pub fn inherit_env(&mut self) -> &mut Self {
        for (name, value) in std::env::vars_os() {
            if !name.is_empty() {
                self.env(name, value);
            }
        }
        self
    }

    /// Gives the child `source` under the number `target` (at least 0). Nothing
    /// that is not given is open in the child; give it 0, 1 and 2.
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

    /// As [`Command::fd`], keeping ours: the child gets a duplicate.
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

    /// Gives the child /dev/null as its standard input and output.
    pub fn without_stdio(&mut self) -> &mut Self {
        match crate::io::null() {
            Ok(null) => self.fd_shared(&null, 0).fd(null, 1),
            Err(error) => {
                self.bad.get_or_insert(error);
                self
            }
        }
    }

    /// Gives the child our own 0, 1 and 2.
    pub fn inherit_stdio(&mut self) -> &mut Self {
        self.fd_shared(crate::io::stdin(), 0)
            .fd_shared(crate::io::stdout(), 1)
            .fd_shared(crate::io::stderr(), 2)
    }

    /// Starts the child in a session of its own (it leads its process group too).
    pub fn new_session(&mut self) -> &mut Self {
        self.new_session = true;
        self
    }

    /// Starts the child as the leader of a process group of its own.
    pub fn new_group(&mut self) -> &mut Self {
        self.new_group = true;
        self
    }

    /// Makes the terminal at the child's descriptor `target` its controlling one
    /// (with [`Command::new_session`]).
    pub fn controlling_terminal(&mut self, target: c_int) -> &mut Self {
        self.terminal = target;
        self
    }

    /// Sets a resource limit.
    pub fn limit(&mut self, resource: Resource, limit: Limit) -> &mut Self {
        let raw = libc::rlimit {
            rlim_cur: limit.soft,
            rlim_max: limit.hard,
        };
        self.limits.push((resource.as_raw(), raw));
        self
    }

    /// Runs the child as a user, for good and verified. Without privilege only
    /// ourselves are allowed.
    pub fn credentials(&mut self, user: Credentials) -> &mut Self {
        self.credentials = Some(user);
        self
    }

    /// Sets the file mode creation mask.
    pub fn umask(&mut self, mask: u32) -> &mut Self {
        self.umask = Some(mask & 0o777);
        self
    }

    /// Enters a directory, as the child's user; failing is an error.
    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.directory = self.keep(directory.as_ref().as_os_str().as_bytes());
        self.directory_or_root = false;
        self
    }

    /// Enters a directory, or `/` when that fails (a login without a home).
    pub fn current_dir_or_root(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.current_dir(directory);
        self.directory_or_root = true;
        self
    }

    /// The child and its children cannot gain privileges.
    pub fn no_new_privs(&mut self) -> &mut Self {
        self.no_new_privs = true;
        self
    }

    /// How gladly the kernel ends the child when memory runs out (see
    /// [`set_oom_score`](super::set_oom_score)): what a protected parent does not pass on.
    pub fn oom_score(&mut self, score: i32) -> &mut Self {
        self.oom_score = self.keep(score.clamp(-1000, 1000).to_string());
        self
    }

    /// The signal the child gets when the *thread* that started it dies.
    pub fn death_signal(&mut self, signal: Signal) -> &mut Self {
        self.death_signal = Some(signal);
        self
    }

    /// Starts the program. Returns once it has been executed, or has failed to.
    ///
    /// # Errors
    /// [`SpawnError`]: the step and the kernel's error.
    pub fn spawn(&mut self) -> Result<Child, SpawnError> {
        let ids = self.checked_credentials()?;
        let mut parts = Parts::new(self);
        let stack =
            ChildStack::new(ids.is_none()).map_err(|error| SpawnError::new(Step::Clone, error))?;
        let plan = self.plan(&mut parts, ids.as_ref(), stack.report());
        // Nothing of ours may run in the child on a signal.
        let blocked = Blocked::all().map_err(|error| SpawnError::new(Step::Clone, error))?;
        let mut flags = libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        if ids.is_none() {
            flags |= libc::CLONE_VM;
        }
        let mut pidfd: c_int = -1;
        // SAFETY: the stack is a mapping of its own; the child runs only
        // `child_entry` on the plan, which lives until the child has executed or
        // ended (CLONE_VFORK suspends this thread so long), and every signal is
        // blocked. Without CLONE_SIGHAND and CLONE_FILES its tables are its own.
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
        let pid = cloned.map_err(|error| SpawnError::new(Step::Clone, error))?;
        // SAFETY: CLONE_PIDFD stored a new descriptor that nobody else owns.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let mut child = Child::new(pid, PidFd::from_owned(pidfd));
        match stack.failure() {
            None => Ok(child),
            Some(failure) => {
                // It has ended or is about to: collect it.
                let _ = child.wait();
                Err(failure)
            }
        }
    }

    /// Replaces this process by the program; returns only on failure, with
    /// signal handlers reset and descriptors moved: end the process then.
    pub fn exec(&mut self) -> SpawnError {
        let ids = match self.checked_credentials() {
            Ok(ids) => ids,
            Err(error) => return error,
        };
        let mut parts = Parts::new(self);
        let mut report = Report { step: 0, errno: 0 };
        let mut plan = self.plan(&mut parts, ids.as_ref(), &raw mut report);
        plan.parent = 0;
        // SAFETY: the plan and all it points at live through the call.
        let step = unsafe { run(&plan) };
        SpawnError::new(step, io::Error::from_raw_os_error(report.errno))
    }

    /// The credentials to take on: none when there is nothing to change.
    fn checked_credentials(&mut self) -> Result<Option<Credentials>, SpawnError> {
        if let Some(error) = self.bad.take() {
            return Err(SpawnError::new(Step::Clone, error));
        }
        let Some(wanted) = self.credentials.clone() else {
            return Ok(None);
        };
        if is_root() {
            return Ok(Some(wanted));
        }
        let own = own_credentials().map_err(|e| SpawnError::new(Step::Credentials, e))?;
        if own.uid == wanted.uid && own.gid == wanted.gid {
            return Ok(None);
        }
        let error = io::Error::from_raw_os_error(libc::EPERM);
        Err(SpawnError::new(Step::Credentials, error))
    }

    fn plan(&self, parts: &mut Parts, ids: Option<&Credentials>, report: *mut Report) -> Plan {
        Plan {
            image: match &self.program {
                Program::Path(path) => Image::Path(path.as_ptr()),
                Program::Fd(_) => Image::Fd,
            },
            argv: parts.argv.as_ptr(),
            envp: parts.envp.as_ptr(),
            moves: parts.moves.as_mut_ptr(),
            move_count: parts.moves.len(),
            new_session: self.new_session,
            new_group: self.new_group && !self.new_session,
            terminal: self.terminal,
            limits: self.limits.as_ptr(),
            limit_count: self.limits.len(),
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

/// The vectors that the child reads; they point into the [`Command`].
struct Parts {
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    moves: Vec<FdMove>,
}

impl Parts {
    fn new(command: &Command) -> Self {
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
        // The program file goes last and to no target: it only moves out of the way.
        if let Program::Fd(fd) = &command.program {
            moves.push(FdMove {
                source: fd.as_raw_fd(),
                target: -1,
            });
        }
        Self {
            argv: vector(&command.argv),
            envp: vector(&command.envp),
            moves,
        }
    }
}

/// The child's stack, with the report at its far end, in memory that both see: ours where the
/// child runs in all of ours, else a shared mapping, which costs the kernel a file.
struct ChildStack {
    memory: StackMemory,
    base: *mut c_void,
}

enum StackMemory {
    /// Freed with this.
    Ours {
        _block: Vec<MaybeUninit<u128>>,
    },
    Shared,
}

/// The child's frames are small; debug builds need more.
const STACK_LEN: usize = if cfg!(debug_assertions) { 64 } else { 16 } * 1024;

impl ChildStack {
    fn new(same_memory: bool) -> io::Result<Self> {
        let (memory, base) = if same_memory {
            // Aligned to 16 bytes, as the ABIs ask of a stack.
            let mut block: Vec<MaybeUninit<u128>> =
                Vec::with_capacity(STACK_LEN / size_of::<u128>());
            let base = block.as_mut_ptr().cast();
            (StackMemory::Ours { _block: block }, base)
        } else {
            (StackMemory::Shared, shared_mapping()?)
        };
        let report: *mut Report = base.cast();
        // SAFETY: the start of a live block that is larger, and more than aligned enough.
        unsafe { report.write(Report { step: 0, errno: 0 }) };
        Ok(Self { memory, base })
    }

    /// Its end, aligned enough for any stack.
    fn top(&self) -> *mut c_void {
        // SAFETY: one past the end of the memory.
        unsafe { self.base.byte_add(STACK_LEN) }
    }

    fn report(&self) -> *mut Report {
        self.base.cast()
    }

    fn failure(&self) -> Option<SpawnError> {
        // SAFETY: written when this was made, and the child no longer runs in it.
        let report = unsafe { self.report().read_volatile() };
        (report.step != 0).then(|| {
            let error = io::Error::from_raw_os_error(report.errno);
            SpawnError::new(Step::from_raw(report.step), error)
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
            // SAFETY: our own mapping, which nobody points into any more.
            unsafe { libc::munmap(self.base, STACK_LEN) };
        }
    }
}
