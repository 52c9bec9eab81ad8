//! Signals: numbers and names (RFC 4254 §6.10), dispositions, signalfd.
//!
//! The event loops read signals from a [`SignalFd`]. Only four handlers exist: one restores a raw
//! terminal ([`crate::terminal`]), one sets a flag ([`note`]), one also passes the signal on to another
//! process ([`pass_on`]), one counts interrupts ([`count_interrupts`]).

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::ffi::check;
use crate::{Pid, Uid};

/// A signal number of this machine.
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
    /// Request to terminate.
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
    /// BSD's status request; here the number of SIGUSR1, to which `INFO@openssh.com` maps.
    INFO = SIGUSR1;
}

/// The thirteen signal names of RFC 4254 §6.10.
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
    /// Converts a number between 1 and 64; `None` for others.
    #[must_use]
    pub fn from_raw(number: i32) -> Option<Self> {
        (1..=64).contains(&number).then_some(Self(number))
    }

    /// The signal's number.
    #[must_use]
    pub const fn as_raw(self) -> i32 {
        self.0
    }

    /// The signal's name on the wire, without `SIG`; `None` if RFC 4254 has no name for it.
    #[must_use]
    pub fn ssh_name(self) -> Option<&'static str> {
        let mut names = SSH_NAMES.iter();
        names
            .find(|(_, signal)| *signal == self)
            .map(|(name, _)| *name)
    }

    /// Converts a name on the wire; `None` for names outside RFC 4254.
    #[must_use]
    pub fn from_ssh_name(name: &str) -> Option<Self> {
        let mut names = SSH_NAMES.iter();
        names
            .find(|(known, _)| *known == name)
            .map(|(_, signal)| *signal)
    }
}

/// Ignores `signal` from now on (every role ignores SIGPIPE).
///
/// # Errors
/// `EINVAL` for KILL and STOP.
pub fn ignore(signal: Signal) -> io::Result<()> {
    set_disposition(signal, libc::SIG_IGN)
}

/// Resets `signal` to its default action.
///
/// # Errors
/// `EINVAL` for KILL and STOP.
pub fn restore_default(signal: Signal) -> io::Result<()> {
    set_disposition(signal, libc::SIG_DFL)
}

/// True if `signal` is ignored (as by nohup(1)).
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

/// Signals whose action this process has changed since its start: bit 0 is signal 1.
static ALTERED: AtomicU64 = AtomicU64::new(0);
/// True if a parent process or a library may have changed the action of any signal.
static ALTERED_BY_OTHERS: AtomicBool = AtomicBool::new(true);

/// Records that this process was started by a [`ChildCommand`](crate::process::ChildCommand), with the
/// default action for every signal. Programs that it starts then need only the signals reset that
/// it has changed itself.
pub fn began_with_defaults() {
    // Rust's runtime, if there is one, ignores SIGPIPE.
    mark_altered(libc::SIGPIPE);
    ALTERED_BY_OTHERS.store(false, Ordering::Relaxed);
}

/// Reads the current actions of all signals once, so that not all signals need a reset in each
/// program that this process starts. For processes that start many programs.
pub fn look_at_actions() {
    for number in 1..=64 {
        let mut action = [0_u64; 4];
        // SAFETY: only queries, into a live local of the kernel's layout (handler, flags, restorer,
        // mask); a raw system call, because libc reserves two signals for itself.
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
            mark_altered(number);
        }
    }
    began_with_defaults();
}

/// Records that foreign code runs in this process from here on, which may change the action of any
/// signal.
pub(crate) fn mark_altered_by_others() {
    ALTERED_BY_OTHERS.store(true, Ordering::Relaxed);
}

/// Records that this process changes the action of signal `number`.
pub(crate) fn mark_altered(number: i32) {
    ALTERED.fetch_or(1 << (number - 1).clamp(0, 63), Ordering::Relaxed);
}

/// Signals that may not have the default action: bit 0 is signal 1.
pub(crate) fn altered() -> u64 {
    if ALTERED_BY_OTHERS.load(Ordering::Relaxed) {
        u64::MAX
    } else {
        ALTERED.load(Ordering::Relaxed)
    }
}

/// Set by a signal for which [`note`] was called.
static NOTED: AtomicBool = AtomicBool::new(false);

/// The flag belongs to the whole process, so tests that set or read it run one at a time.
#[cfg(test)]
pub(crate) static NOTED_TEST_LOCK: std::sync::Mutex<()> = std::sync::Mutex::new(());

extern "C" fn take_note(_: libc::c_int) {
    NOTED.store(true, Ordering::Relaxed);
}

/// Makes `signal` only set the flag that [`noted`] returns, for programs that clean up before they
/// exit. Interrupted system calls are restarted, and executed programs have the default action
/// again.
///
/// # Errors
/// `EINVAL` for KILL and STOP.
pub fn note(signal: Signal) -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int) = take_note;
    set_disposition(signal, handler as libc::sighandler_t)
}

/// True if a signal for which [`note`] was called has arrived since the start.
#[must_use]
pub fn noted() -> bool {
    NOTED.load(Ordering::Relaxed)
}

/// The process that [`pass_on_to`] names; 0 for none.
static RECIPIENT: AtomicI32 = AtomicI32::new(0);

extern "C" fn pass(number: libc::c_int) {
    NOTED.store(true, Ordering::Relaxed);
    let pid = RECIPIENT.load(Ordering::Relaxed);
    if pid > 0 {
        // SAFETY: kill(2) is permitted in a handler; errno is this thread's and is put back.
        unsafe {
            let errno = *libc::__errno_location();
            libc::kill(pid, number);
            *libc::__errno_location() = errno;
        }
    }
}

/// As [`note`], and the signal goes on to the process of [`pass_on_to`]: for a process that ends, and
/// cleans up, when that one has ended.
///
/// # Errors
/// `EINVAL` for KILL and STOP.
pub fn pass_on(signal: Signal) -> io::Result<()> {
    let handler: extern "C" fn(libc::c_int) = pass;
    set_disposition(signal, handler as libc::sighandler_t)
}

/// Names the process that signals go on to: a child that was not waited for, so that the number is
/// its own. Look at [`noted`] afterwards: a signal may have come before.
pub fn pass_on_to(pid: Option<Pid>) {
    RECIPIENT.store(pid.unwrap_or(0), Ordering::Relaxed);
}

/// Says whether a thread's questions are to end.
type EndsQuestions = Box<dyn Fn() -> bool>;

thread_local! {
    static ENDS_QUESTIONS: RefCell<Option<EndsQuestions>> = const { RefCell::new(None) };
}

/// Runs `work`, in which questions to the user ([`crate::terminal`]) end as by a noted signal when
/// `ends` says so: for one of many threads of a program.
pub fn with_questions_until<T>(ends: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    struct RestoreLimit;
    impl Drop for RestoreLimit {
        fn drop(&mut self) {
            ENDS_QUESTIONS.set(None);
        }
    }
    ENDS_QUESTIONS.set(Some(Box::new(ends)));
    let _restore = RestoreLimit;
    work()
}

/// True if a question of this thread is to end without an answer.
pub(crate) fn question_ends() -> bool {
    noted() || ENDS_QUESTIONS.with_borrow(|ends| ends.as_ref().is_some_and(|ends| ends()))
}

/// Number of SIGINTs since [`count_interrupts`] or [`forget_interrupts`].
static INTERRUPTS: AtomicU32 = AtomicU32::new(0);

extern "C" fn take_interrupt(_: libc::c_int) {
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
}

/// Makes SIGINT only increment the counter that [`interrupts`] returns, for programs in which it
/// ends the current operation but not the program.
///
/// # Errors
/// The kernel's error.
pub fn count_interrupts() -> io::Result<()> {
    forget_interrupts();
    let handler: extern "C" fn(libc::c_int) = take_interrupt;
    set_disposition(Signal::INT, handler as libc::sighandler_t)
}

/// Number of SIGINTs since the last [`forget_interrupts`].
#[must_use]
pub fn interrupts() -> u32 {
    INTERRUPTS.load(Ordering::Relaxed)
}

/// Resets the counter of [`interrupts`].
pub fn forget_interrupts() {
    INTERRUPTS.store(0, Ordering::Relaxed);
}

fn set_disposition(signal: Signal, handler: libc::sighandler_t) -> io::Result<()> {
    mark_altered(signal.0);
    // SAFETY: sigaction is a plain C struct: all zeroes is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler is SIG_IGN, SIG_DFL, `take_note`, `pass` or `take_interrupt`, which only
    // change an atomic, and call kill(2), in signal context.
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

/// Signals blocked in this thread until the guard is dropped, which restores the previous mask.
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

/// Blocks `signals` in this thread, and in those started from it later, permanently.
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

/// A received signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalInfo {
    /// The signal.
    pub signal: Signal,
    /// Process id of the sender (0: the kernel); for CHLD, of the child.
    pub pid: Pid,
    /// User id of the sender.
    pub uid: Uid,
}

/// A descriptor for signals (signalfd(2)): they are blocked in this thread and in threads started
/// later, and read from the descriptor. Several signals of one kind may be merged: after a CHLD,
/// reap all exited children.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl SignalFd {
    /// Blocks `signals` and opens the descriptor (close-on-exec, non-blocking). Call it before
    /// other threads start, because they would receive the signals.
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

    /// Returns the next pending signal; `None` if there is none.
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

/// Sends `signal` to one process. Prefer [`crate::process::Child::signal`], which cannot reach an
/// unrelated process that reuses the number.
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
/// `InvalidInput` for a group below 2 (0 would be the own group, 1 every process), `ESRCH`,
/// `EPERM`.
pub fn send_group(group: Pid, signal: Signal) -> io::Result<()> {
    if group < 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: as for kill; a negative number addresses the group.
    check(unsafe { libc::kill(-group, signal.0) })?;
    Ok(())
}

/// Ends or stops this process by `signal` with its default action, so that the parent sees the
/// signal, not an exit status. Returns if the signal only stopped the process and it was continued,
/// or if the default action is to ignore the signal.
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
        // Directed at this thread: a process-wide signal might reach a test thread that does not
        // block it.
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
        let _turn = NOTED_TEST_LOCK.lock().unwrap();
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
    fn a_signal_is_passed_on_to_the_process_that_is_named() {
        use std::os::unix::process::ExitStatusExt;
        let _turn = NOTED_TEST_LOCK.lock().unwrap();
        let sleeper = std::process::Command::new("sleep").arg("1000").spawn();
        let mut sleeper = sleeper.unwrap();
        pass_on(Signal::USR1).unwrap();
        pass_on_to(Some(Pid::try_from(sleeper.id()).unwrap()));
        // SAFETY: sends a signal that has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        pass_on_to(None);
        assert_eq!(sleeper.wait().unwrap().signal(), Some(libc::SIGUSR1));
        assert!(noted());
        NOTED.store(false, Ordering::Relaxed);
        restore_default(Signal::USR1).unwrap();
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
