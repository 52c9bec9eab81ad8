//! The child's work between clone and exec.
//!
//! All code here runs while the parent is suspended, often in the parent's own memory: no
//! allocation, no locks, no libc function that keeps state. Ids are changed by raw system calls,
//! because glibc's wrappers signal the threads of the parent.

use std::ffi::{c_char, c_int, c_void};

use super::limits::{RawLimits, RawResource, getrlimit};

// armv7 has two of each; the first are for ids of 16 bits.
#[cfg(not(target_arch = "arm"))]
use libc::{SYS_setgroups, SYS_setresgid, SYS_setresuid};
#[cfg(target_arch = "arm")]
use libc::{
    SYS_setgroups32 as SYS_setgroups, SYS_setresgid32 as SYS_setresgid,
    SYS_setresuid32 as SYS_setresuid,
};

/// Step at which a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum SpawnStep {
    /// Preparation in the parent, or clone itself.
    Clone = 1,
    /// Creating a session or process group.
    Session = 2,
    /// Placing descriptors.
    Descriptors = 3,
    /// Setting the controlling terminal.
    Terminal = 4,
    /// Setting resource limits.
    Limits = 5,
    /// Changing the user.
    Credentials = 6,
    /// Entering the working directory.
    Directory = 7,
    /// Setting no_new_privs.
    NoNewPrivs = 8,
    /// Setting the death signal, or the parent had already died.
    DeathSignal = 9,
    /// Executing the program.
    Exec = 10,
    /// Setting the OOM score.
    OomScore = 11,
}

impl SpawnStep {
    pub(super) fn from_raw(raw: u32) -> Self {
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

/// A descriptor for the child: the parent's number and the child's.
#[derive(Clone, Copy)]
pub(super) struct FdMove {
    pub source: c_int,
    pub target: c_int,
}

/// The program to execute.
#[derive(Clone, Copy)]
pub(super) enum Image {
    /// A terminated path.
    Path(*const c_char),
    /// A program file by descriptor: the source of the last move.
    Fd,
}

/// Ids that the child changes to.
#[derive(Clone, Copy)]
pub(super) struct Ids {
    pub uid: libc::uid_t,
    pub gid: libc::gid_t,
    pub groups: *const libc::gid_t,
    pub group_count: usize,
}

/// The child's instructions, prepared by the parent. The pointers are valid until the child
/// executes or exits.
pub(super) struct ChildPlan {
    pub image: Image,
    pub argv: *const *const c_char,
    pub envp: *const *const c_char,
    pub moves: *mut FdMove,
    pub move_count: usize,
    pub new_session: bool,
    pub new_group: bool,
    pub terminal: c_int,
    pub limits: *const (RawResource, RawLimits),
    pub limit_count: usize,
    pub ids: Option<Ids>,
    pub umask: Option<libc::mode_t>,
    pub directory: *const c_char,
    pub directory_or_root: bool,
    pub no_new_privs: bool,
    pub death_signal: c_int,
    /// Decimal number as a terminated string, or null.
    pub oom_score: *const c_char,
    /// Expected parent; 0 if this process itself executes.
    pub parent: libc::pid_t,
    /// Signals to reset to the default action: bit 0 is signal 1.
    pub signals: u64,
    pub report: *mut ChildReport,
}

/// The child's report of a failure to the parent.
#[repr(C)]
pub(super) struct ChildReport {
    pub step: u32,
    pub errno: c_int,
}

/// Entry point of the cloned child.
///
/// # Safety
/// `argument` points to a [`ChildPlan`] whose pointers are all valid.
pub(super) extern "C" fn child_entry(argument: *mut c_void) -> c_int {
    // SAFETY: spawn passes a live ChildPlan, which nothing else accesses: the parent is suspended
    // until exec or exit.
    unsafe {
        let plan = &*argument.cast::<ChildPlan>();
        let step = run(plan);
        (*plan.report).step = step as u32;
        libc::_exit(127)
    }
}

fn errno() -> c_int {
    // SAFETY: glibc's errno is thread-local and always valid.
    unsafe { *libc::__errno_location() }
}

/// Carries out the plan up to exec; returns only on failure, with the failed step, and stores errno
/// in the report.
///
/// # Safety
/// All pointers of the plan are valid.
pub(super) unsafe fn run(plan: &ChildPlan) -> SpawnStep {
    // SAFETY: by the caller's promise; each step makes system calls only.
    unsafe {
        let failed = prepare(plan);
        let step = match failed {
            Err(step) => step,
            Ok(()) => {
                execute(plan);
                SpawnStep::Exec
            }
        };
        (*plan.report).errno = errno();
        step
    }
}

unsafe fn prepare(plan: &ChildPlan) -> Result<(), SpawnStep> {
    // SAFETY: the pointers of the plan are valid by the caller's promise; every call below is a
    // system call that only reads its arguments.
    unsafe {
        reset_handlers(match plan.image {
            // A program file is this program, which sets no action for real-time signals.
            Image::Fd => plan.signals & STANDARD_SIGNALS,
            Image::Path(_) => plan.signals,
        });
        if plan.new_session && libc::setsid() < 0 {
            return Err(SpawnStep::Session);
        }
        if plan.new_group && libc::setpgid(0, 0) < 0 {
            return Err(SpawnStep::Session);
        }
        place_descriptors(plan)?;
        if plan.terminal >= 0 && libc::ioctl(plan.terminal, libc::TIOCSCTTY, 0) < 0 {
            return Err(SpawnStep::Terminal);
        }
        for index in 0..plan.limit_count {
            let (resource, limit) = &*plan.limits.add(index);
            let call = libc::syscall(
                libc::SYS_prlimit64,
                0,
                *resource,
                std::ptr::from_ref(limit),
                std::ptr::null_mut::<RawLimits>(),
            );
            if call < 0 {
                return Err(SpawnStep::Limits);
            }
        }
        if !plan.oom_score.is_null() {
            write_oom_score(plan.oom_score)?;
        }
        if let Some(ids) = &plan.ids {
            take_ids(ids)?;
        }
        if let Some(mask) = plan.umask {
            libc::umask(mask);
        }
        if !plan.directory.is_null() && libc::chdir(plan.directory) < 0 {
            let usable = plan.directory_or_root && libc::chdir(c"/".as_ptr()) == 0;
            if !usable {
                return Err(SpawnStep::Directory);
            }
        }
        if plan.no_new_privs && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 {
            return Err(SpawnStep::NoNewPrivs);
        }
        if plan.death_signal > 0 {
            if libc::prctl(libc::PR_SET_PDEATHSIG, plan.death_signal, 0, 0, 0) < 0 {
                return Err(SpawnStep::DeathSignal);
            }
            // If the parent has already died, the death signal would never arrive.
            if plan.parent != 0 && libc::getppid() != plan.parent {
                return Err(SpawnStep::DeathSignal);
            }
        }
        unblock_signals();
    }
    Ok(())
}

/// The signals below the real-time signals.
const STANDARD_SIGNALS: u64 = (1 << 31) - 1;

/// Sets the default action for each of `signals`: the parent's handlers and its ignored SIGPIPE
/// must not affect the new program.
unsafe fn reset_handlers(signals: u64) {
    let action = KernelAction([0; 4]);
    // A raw system call, because libc reserves 32 and 33 for itself, and a parent may have left
    // them ignored.
    // SAFETY: a live action in the kernel's layout; the table belongs to this child alone (no
    // CLONE_SIGHAND); KILL and STOP fail, as they should.
    unsafe {
        let mut left = signals;
        while left != 0 {
            let number = left.trailing_zeros() + 1;
            left &= left - 1;
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                &raw const action,
                std::ptr::null_mut::<KernelAction>(),
                size_of::<u64>(),
            );
        }
    }
}

/// The kernel's struct sigaction: handler, flags, restorer, mask. Zero is the
/// default action without flags on every architecture.
#[repr(C)]
struct KernelAction([u64; 4]);

unsafe fn unblock_signals() {
    // SAFETY: an empty mask in a live local.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Moves the sources to numbers above all targets, then to their targets, and marks all other
/// descriptors close-on-exec.
unsafe fn place_descriptors(plan: &ChildPlan) -> Result<(), SpawnStep> {
    // SAFETY: `moves` has `move_count` entries, sorted by target, and belongs to this child: the
    // parent does not read it after the clone.
    unsafe {
        let mut above: c_int = 3;
        for index in 0..plan.move_count {
            let target = (*plan.moves.add(index)).target;
            above = above.max(target + 1);
        }
        for index in 0..plan.move_count {
            let entry = &mut *plan.moves.add(index);
            if entry.source < above {
                entry.source = libc::fcntl(entry.source, libc::F_DUPFD_CLOEXEC, above);
                if entry.source < 0 {
                    return Err(SpawnStep::Descriptors);
                }
            }
        }
        for index in 0..plan.move_count {
            let entry = &*plan.moves.add(index);
            if entry.target >= 0 && libc::dup3(entry.source, entry.target, 0) < 0 {
                return Err(SpawnStep::Descriptors);
            }
        }
        // Descriptors between the targets.
        let mut first: c_int = 0;
        for index in 0..plan.move_count {
            let target = (*plan.moves.add(index)).target;
            if target < 0 {
                continue;
            }
            if target > first {
                close_on_exec(first, target - 1)?;
            }
            first = target + 1;
        }
        close_on_exec(first, c_int::MAX)
    }
}

unsafe fn close_on_exec(first: c_int, last: c_int) -> Result<(), SpawnStep> {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
    // SAFETY: three numbers.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, last, CLOSE_RANGE_CLOEXEC) };
    if done == 0 {
        return Ok(());
    }
    // Before Linux 5.11: one by one, up to the limit of open files, at most 2^20.
    // SAFETY: a live local, then numbers.
    unsafe {
        let mut limit: RawLimits = std::mem::zeroed();
        if getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) < 0 {
            return Err(SpawnStep::Descriptors);
        }
        let end = c_int::try_from(limit.rlim_cur).unwrap_or(1 << 20);
        for number in first..end.min(last.saturating_add(1)).min(1 << 20) {
            let flags = libc::fcntl(number, libc::F_GETFD);
            if flags >= 0 {
                libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC);
            }
        }
    }
    Ok(())
}

/// Sets the child's OOM score. The parent's score does not change, although the child runs in the
/// parent's memory (vfork).
///
/// # Safety
/// `score` is a terminated string.
unsafe fn write_oom_score(score: *const c_char) -> Result<(), SpawnStep> {
    // SAFETY: terminated strings; the descriptor was opened here and is closed here.
    unsafe {
        let file = libc::open(
            c"/proc/self/oom_score_adj".as_ptr(),
            libc::O_WRONLY | libc::O_CLOEXEC,
        );
        if file < 0 {
            return Err(SpawnStep::OomScore);
        }
        let written = libc::write(file, score.cast(), libc::strlen(score));
        let number = errno();
        libc::close(file);
        if written < 0 {
            *libc::__errno_location() = number;
            return Err(SpawnStep::OomScore);
        }
    }
    Ok(())
}

/// Changes the ids and verifies that they cannot be regained.
unsafe fn take_ids(ids: &Ids) -> Result<(), SpawnStep> {
    let same = libc::uid_t::MAX;
    // SAFETY: numbers, and a list of groups that the parent keeps.
    unsafe {
        if libc::syscall(SYS_setgroups, ids.group_count, ids.groups) < 0
            || libc::syscall(SYS_setresgid, ids.gid, ids.gid, ids.gid) < 0
            || libc::syscall(SYS_setresuid, ids.uid, ids.uid, ids.uid) < 0
        {
            return Err(SpawnStep::Credentials);
        }
        let (mut real, mut effective, mut saved) = (same, same, same);
        if libc::getresuid(&raw mut real, &raw mut effective, &raw mut saved) < 0
            || [real, effective, saved] != [ids.uid; 3]
            || libc::getresgid(&raw mut real, &raw mut effective, &raw mut saved) < 0
            || [real, effective, saved] != [ids.gid; 3]
        {
            return Err(SpawnStep::Credentials);
        }
        if ids.uid != 0 {
            let regained = libc::syscall(SYS_setresuid, same, 0, same) == 0
                || libc::syscall(SYS_setresuid, 0, 0, 0) == 0
                || libc::syscall(SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) == 0
                || (ids.gid != 0 && libc::syscall(SYS_setresgid, same, 0, same) == 0);
            if regained {
                return Err(SpawnStep::Credentials);
            }
        }
    }
    Ok(())
}

unsafe fn execute(plan: &ChildPlan) {
    // SAFETY: terminated vectors of terminated strings, which the parent keeps alive.
    unsafe {
        match plan.image {
            Image::Path(path) => {
                libc::execve(path, plan.argv, plan.envp);
            }
            Image::Fd => {
                // The program file is the source of the last move: see `ExecVectors::new`.
                let file = (*plan.moves.add(plan.move_count - 1)).source;
                libc::syscall(
                    libc::SYS_execveat,
                    file,
                    c"".as_ptr(),
                    plan.argv,
                    plan.envp,
                    libc::AT_EMPTY_PATH,
                );
            }
        }
    }
}
