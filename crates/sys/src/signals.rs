//! Signals: numbers and names (RFC 4254 §6.10), dispositions, signals as a
//! descriptor.
//!
//! No handler of ours does work: the loops read [`SignalFd`]. Of the two handlers that
//! exist one restores a raw terminal ([`crate::terminal`]), the other sets a flag ([`note`]).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::ffi::check;
use crate::{Pid, Uid};

/// A signal of this machine, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal(i32);

macro_rules! named {
    ($($(#[$doc:meta])* $name:ident = $number:ident;)*) => {
        impl Signal {
            $($(#[$doc])* pub const $name: Self = Self(libc::$number);)*
        }
    };
}

named! {
    /// Hang-up; reload for daemons.
    HUP = SIGHUP;
    /// Interrupt from the keyboard.
    INT = SIGINT;
    /// Quit from the keyboard.
    QUIT = SIGQUIT;
    /// Illegal instruction.
    ILL = SIGILL;
    /// abort(3).
    ABRT = SIGABRT;
    /// Bus error.
    BUS = SIGBUS;
    /// Floating-point error.
    FPE = SIGFPE;
    /// Kill, cannot be caught.
    KILL = SIGKILL;
    /// First user-defined signal.
    USR1 = SIGUSR1;
    /// Invalid memory.
    SEGV = SIGSEGV;
    /// Second user-defined signal.
    USR2 = SIGUSR2;
    /// Write to a pipe without reader.
    PIPE = SIGPIPE;
    /// alarm(2).
    ALRM = SIGALRM;
    /// Please end.
    TERM = SIGTERM;
    /// A child changed state.
    CHLD = SIGCHLD;
    /// Continue when stopped.
    CONT = SIGCONT;
    /// Stop, cannot be caught.
    STOP = SIGSTOP;
    /// Stop from the keyboard.
    TSTP = SIGTSTP;
    /// Background read from the terminal.
    TTIN = SIGTTIN;
    /// Background write to the terminal.
    TTOU = SIGTTOU;
    /// File size limit exceeded.
    XFSZ = SIGXFSZ;
    /// The window size changed.
    WINCH = SIGWINCH;
    /// A forbidden system call.
    SYS = SIGSYS;
    /// BSD's status request; here the number of SIGUSR1, which `INFO@openssh.com` maps to.
    INFO = SIGUSR1;
}

/// RFC 4254 §6.10: the thirteen names that the protocol knows.
const SSH_NAMES: [(&str, Signal); 13] = [
    ("ABRT", Signal::ABRT),
    ("ALRM", Signal::ALRM),
    ("FPE", Signal::FPE),
    ("HUP", Signal::HUP),
    ("ILL", Signal::ILL),
    ("INT", Signal::INT),
    ("KILL", Signal::KILL),
    ("PIPE", Signal::PIPE),
    ("QUIT", Signal::QUIT),
    ("SEGV", Signal::SEGV),
    ("TERM", Signal::TERM),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
];

impl Signal {
    /// The signal of a number between 1 and 64; `None` for others.
    #[must_use]
    pub fn from_raw(number: i32) -> Option<Self> {
        (1..=64).contains(&number).then_some(Self(number))
    }

    /// Its number.
    #[must_use]
    pub const fn as_raw(self) -> i32 {
        self.0
    }

    /// Its name on the wire, without `SIG`; `None` for a signal RFC 4254 has no name for.
    #[must_use]
    pub fn ssh_name(self) -> Option<&'static str> {
        let mut names = SSH_NAMES.iter();
        names
            .find(|(_, signal)| *signal == self)
            .map(|(name, _)| *name)
    }

    /// The signal of a name on the wire; `None` for names outside RFC 4254.
    #[must_use]
    pub fn from_ssh_name(name: &str) -> Option<Self> {
        let mut names = SSH_NAMES.iter();
        names
            .find(|(known, _)| *known == name)
            .map(|(_, signal)| *signal)
    }
}

/// Ignores `signal` from now on (SIGPIPE, in every role).
///
/// # Errors
/// `EINVAL` for KILL and STOP.
pub fn ignore(signal: Signal) -> io::Result<()> {
    set_disposition(signal, libc::SIG_IGN)
}

/// Gives `signal` its default action again.
///
/// # Errors
/// `EINVAL` for KILL and STOP.
pub fn restore_default(signal: Signal) -> io::Result<()> {
    set_disposition(signal, libc::SIG_DFL)
}

/// Whether `signal` is being ignored (as by nohup(1)).
///
/// # Errors
/// The kernel's error.
pub fn is_ignored(signal: Signal) -> io::Result<bool> {
    // SAFETY: sigaction is a plain C struct: all zeroes is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only queries, into a live local.
    check(unsafe { libc::sigaction(signal.0, std::ptr::null(), &raw mut action) })?;
    Ok(action.sa_sigaction == libc::SIG_IGN)
}

/// Signals to which we gave an action since the start: bit 0 is signal 1.
static ALTERED: AtomicU64 = AtomicU64::new(0);
/// Others may have given actions to signals: whoever started this process, or a library.
static ALTERED_BY_OTHERS: AtomicBool = AtomicBool::new(true);

/// This process was started by a [`Command`](crate::process::Command), with the default action for
/// every signal: what it starts itself needs no more than what it changes taken back.
pub fn began_with_defaults() {
    // Rust's own entry ignores it, where there is one.
    alters(libc::SIGPIPE);
    ALTERED_BY_OTHERS.store(false, Ordering::Relaxed);
}

/// Looks which actions this process has, once, so that each program that it starts need not have
/// all of them set. For one that starts many.
pub fn look_at_actions() {
    for number in 1..=64 {
        let mut action = [0_u64; 4];
        // SAFETY: only queries, into a live local of the kernel's size (handler, flags, restorer,
        // mask); by raw call, because libc keeps two signals to itself.
        let asked = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                number,
                std::ptr::null::<u64>(),
                action.as_mut_ptr(),
                size_of::<u64>(),
            )
        };
        if asked < 0 || action.first() != Some(&0) {
            alters(number);
        }
    }
    began_with_defaults();
}

/// Code of others runs in this process from here on, and may do with signals what it likes.
pub(crate) fn others_may_alter() {
    ALTERED_BY_OTHERS.store(true, Ordering::Relaxed);
}

/// Signal `number` has an action of ours.
pub(crate) fn alters(number: i32) {
    ALTERED.fetch_or(1 << (number - 1).clamp(0, 63), Ordering::Relaxed);
}

/// The signals that may have another action than the default one: bit 0 is signal 1.
pub(crate) fn altered() -> u64 {
    if ALTERED_BY_OTHERS.load(Ordering::Relaxed) {
        u64::MAX
    } else {
        ALTERED.load(Ordering::Relaxed)
    }
}

/// Whether a signal of [`note`] has come.
static NOTED: AtomicBool = AtomicBool::new(false);

/// What was noted is the whole process's: tests that note, and those that look, take turns.
#[cfg(test)]
pub(crate) static NOTES: std::sync::Mutex<()> = std::sync::Mutex::new(());

extern "C" fn take_note(_: libc::c_int) {
    NOTED.store(true, Ordering::Relaxed);
}

/// From now on `signal` only sets what [`noted`] tells: for programs that clear up before they
/// end. System calls go on, and programs that are executed have the default action again.
///
/// # Errors
/// `EINVAL` for KILL and STOP.
pub fn note(signal: Signal) -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int) = take_note;
    set_disposition(signal, handler as libc::sighandler_t)
}

/// Whether one of the signals of [`note`] has come since the start.
#[must_use]
pub fn noted() -> bool {
    NOTED.load(Ordering::Relaxed)
}

/// How often SIGINT has come since [`count_interrupts`] or [`forget_interrupts`].
static INTERRUPTS: AtomicU32 = AtomicU32::new(0);

extern "C" fn take_interrupt(_: libc::c_int) {
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
}

/// From now on SIGINT only counts in [`interrupts`]: for programs in which it ends what they are
/// at, and not them.
///
/// # Errors
/// The kernel's error.
pub fn count_interrupts() -> io::Result<()> {
    forget_interrupts();
    let handler: extern "C" fn(libc::c_int) = take_interrupt;
    set_disposition(Signal::INT, handler as libc::sighandler_t)
}

/// How often SIGINT has come since the last [`forget_interrupts`].
#[must_use]
pub fn interrupts() -> u32 {
    INTERRUPTS.load(Ordering::Relaxed)
}

/// The next SIGINT is the first again.
pub fn forget_interrupts() {
    INTERRUPTS.store(0, Ordering::Relaxed);
}

fn set_disposition(signal: Signal, handler: libc::sighandler_t) -> io::Result<()> {
    alters(signal.0);
    // SAFETY: sigaction is a plain C struct: all zeroes is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler is SIG_IGN, SIG_DFL, `take_note` or `take_interrupt`, which change an
    // atomic and do nothing else in signal context.
    check(unsafe { libc::sigaction(signal.0, &raw const action, std::ptr::null_mut()) })?;
    Ok(())
}

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    // SAFETY: sigset_t is a plain C struct, initialised by sigemptyset.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live local; numbers out of range are refused.
    unsafe {
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, signal.0);
        }
    }
    set
}

/// Signals blocked in this thread until the guard is dropped, which puts back the
/// mask from before.
#[derive(Debug)]
pub struct Blocked {
    previous: libc::sigset_t,
    // The mask belongs to the thread that set it.
    not_send: std::marker::PhantomData<*const ()>,
}

impl Blocked {
    /// Blocks `signals` in this thread.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(signals: &[Signal]) -> io::Result<Self> {
        Self::with_set(&set_of(signals))
    }

    /// Blocks every signal in this thread.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn all() -> io::Result<Self> {
        // SAFETY: sigset_t is a plain C struct, filled by sigfillset.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live local.
        unsafe { libc::sigfillset(&raw mut set) };
        Self::with_set(&set)
    }

    fn with_set(set: &libc::sigset_t) -> io::Result<Self> {
        // SAFETY: sigset_t is a plain C struct, overwritten by the call.
        let mut previous: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live sets.
        let code = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set, &raw mut previous) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
        Ok(Self {
            previous,
            not_send: std::marker::PhantomData,
        })
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the pointer is to the mask that this thread had before.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.previous,
                std::ptr::null_mut(),
            );
        }
    }
}

/// Blocks `signals` in this thread, and those started from it later, for good.
///
/// # Errors
/// The kernel's error.
pub fn block(signals: &[Signal]) -> io::Result<()> {
    std::mem::forget(Blocked::new(signals)?);
    Ok(())
}

/// Unblocks `signals` in this thread.
///
/// # Errors
/// The kernel's error.
pub fn unblock(signals: &[Signal]) -> io::Result<()> {
    let set = set_of(signals);
    // SAFETY: the pointer is to a live local.
    let code =
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(code))
    }
}

/// One signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalInfo {
    /// Which.
    pub signal: Signal,
    /// Who sent it (0: the kernel); for CHLD, the child.
    pub pid: Pid,
    /// As which user.
    pub uid: Uid,
}

/// Signals as a descriptor: blocked in this thread (and threads started later),
/// read when the loop gets to it. Several of one kind may be merged: after a CHLD,
/// reap all children that ended.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Blocks `signals` and opens the descriptor (close-on-exec, non-blocking).
    /// Call it before other threads start, or they take the signals.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(signals: &[Signal]) -> io::Result<Self> {
        block(signals)?;
        let set = set_of(signals);
        // SAFETY: the pointer is to a live set; -1 asks for a new descriptor.
        let fd = check(unsafe {
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        })?;
        // SAFETY: a new descriptor that nobody else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The next signal that waits; `None` when none does.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read(&self) -> io::Result<Option<SignalInfo>> {
        loop {
            // SAFETY: signalfd_siginfo is a plain C struct of integers.
            let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
            let size = size_of::<libc::signalfd_siginfo>();
            // SAFETY: pointer and size describe a live local.
            let count = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size) };
            if count < 0 {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                }
            }
            let number = i32::try_from(info.ssi_signo).unwrap_or(0);
            let Some(signal) = Signal::from_raw(number) else {
                return Ok(None);
            };
            return Ok(Some(SignalInfo {
                signal,
                pid: i32::try_from(info.ssi_pid).unwrap_or(0),
                uid: info.ssi_uid,
            }));
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends `signal` to one process. Prefer [`crate::process::Child::signal`], which
/// cannot hit a stranger that got the number later.
///
/// # Errors
/// `InvalidInput` for a pid below 1, `ESRCH`, `EPERM`.
pub fn send(pid: Pid, signal: Signal) -> io::Result<()> {
    if pid < 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: kill has no memory effects in this process.
    check(unsafe { libc::kill(pid, signal.0) })?;
    Ok(())
}

/// Sends `signal` to every process of the group `group`.
///
/// # Errors
/// `InvalidInput` for a group below 2 (0 is our own, 1 every process), `ESRCH`, `EPERM`.
pub fn send_group(group: Pid, signal: Signal) -> io::Result<()> {
    if group < 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: as for kill; a negative number addresses the group.
    check(unsafe { libc::kill(-group, signal.0) })?;
    Ok(())
}

/// Ends or stops this process by `signal` with its default action, so that our
/// parent sees the signal and not an exit code. Returns when the signal only
/// stopped us and we were continued, or its default is to be ignored.
///
/// # Errors
/// The kernel's error.
pub fn raise_default(signal: Signal) -> io::Result<()> {
    if !matches!(signal, Signal::KILL | Signal::STOP) {
        restore_default(signal)?;
    }
    unblock(&[signal])?;
    // SAFETY: raise has no memory effects; the action is the default one.
    check(unsafe { libc::raise(signal.0) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_names_map_both_ways() {
        for (name, signal) in SSH_NAMES {
            assert_eq!(Signal::from_ssh_name(name), Some(signal));
            assert_eq!(signal.ssh_name(), Some(name));
        }
        assert_eq!(Signal::from_ssh_name("SIGTERM"), None);
        assert_eq!(Signal::from_ssh_name("INFO@openssh.com"), None);
        assert_eq!(Signal::BUS.ssh_name(), None);
        assert_eq!(Signal::from_raw(0), None);
        assert_eq!(Signal::from_raw(65), None);
    }

    #[test]
    fn a_blocked_signal_arrives_at_the_descriptor() {
        // Directed at this thread: a process-wide one might find a test thread
        // that does not block it.
        let signals = SignalFd::new(&[Signal::USR2]).unwrap();
        assert_eq!(signals.read().unwrap(), None);
        // SAFETY: sends to the calling thread a signal that it blocks.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR2) };
        let info = signals.read().unwrap().unwrap();
        assert_eq!(info.signal, Signal::USR2);
        assert_eq!(info.pid, i32::try_from(std::process::id()).unwrap());
        assert_eq!(signals.read().unwrap(), None);
    }

    #[test]
    fn a_signal_may_be_noted_instead_of_ending_the_process() {
        let _turn = NOTES.lock().unwrap();
        assert!(!noted());
        note(Signal::USR1).unwrap();
        // SAFETY: sends a signal that has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        assert!(noted());
        NOTED.store(false, Ordering::Relaxed);
        restore_default(Signal::USR1).unwrap();
        assert!(note(Signal::STOP).is_err());
    }

    #[test]
    fn interrupts_are_counted_until_they_are_forgotten() {
        count_interrupts().unwrap();
        for count in 1..3 {
            // SAFETY: sends a signal that has a handler.
            unsafe { libc::raise(libc::SIGINT) };
            assert_eq!(interrupts(), count);
        }
        forget_interrupts();
        assert_eq!(interrupts(), 0);
        restore_default(Signal::INT).unwrap();
    }

    #[test]
    fn the_guard_puts_the_mask_back() {
        let is_blocked = || {
            // SAFETY: queries the mask into a live local.
            unsafe {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set);
                libc::sigismember(&raw const set, libc::SIGUSR1) == 1
            }
        };
        assert!(!is_blocked());
        let guard = Blocked::all().unwrap();
        assert!(is_blocked());
        drop(guard);
        assert!(!is_blocked());
    }

    #[test]
    fn nobody_can_address_everybody() {
        for pid in [-1, 0, i32::MIN] {
            assert!(send(pid, Signal::TERM).is_err());
        }
        for group in [-5, 0, 1] {
            assert!(send_group(group, Signal::TERM).is_err());
        }
        assert!(ignore(Signal::KILL).is_err());
    }
}
