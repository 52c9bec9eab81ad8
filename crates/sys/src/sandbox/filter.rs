//! The system calls that a process may make before authentication. Any other call kills the whole
//! process, at once and without a handler.
//!
//! A call is on the list if the version exchange, key exchange or authentication needs it, or libc
//! needs it internally (memory, locks, signals, exit). No listed call opens, creates, executes or
//! names a file.
//!
//! The program is a binary search over the call numbers: when it is installed, the kernel runs it
//! once for every call number, and a linear list cost more than the rest of the sandbox setup.

use std::io;
use std::mem::offset_of;

use super::bpf::{BpfProgram, Label, Offset};
use super::calls::{ARCH, CLONE_FLAGS, COMMON_HERE, Call, FCNTL, LOWER_HALF, MMAP, SEES_MMAP};
use crate::process;

/// The action for a forbidden call that is to fail as if the kernel did not know it.
pub(super) const UNKNOWN: u32 = libc::ENOSYS.cast_unsigned() | libc::SECCOMP_RET_ERRNO;

/// Calls that every sandbox allows with any arguments.
const COMMON: &[Call] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_close,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls that this sandbox also allows with any arguments.
const ALLOWED: &[Call] = &[libc::SYS_shutdown];

/// Builds and installs the filter for all threads of this process. no_new_privs must be set.
pub(super) fn install() -> io::Result<()> {
    program()?.install()
}

fn program() -> io::Result<BpfProgram> {
    let mut calls = CallList::new(libc::SECCOMP_RET_KILL_PROCESS, ALLOWED)?;
    calls.without_exec()?;
    let (allow, other) = (calls.allow, calls.other);
    let option = &[libc::TCP_QUICKACK];
    let option = one_of(&mut calls.program, 2, option, allow, other)?;
    let option = one_of(&mut calls.program, 1, &[libc::IPPROTO_TCP], option, other)?;
    calls.checked(libc::SYS_setsockopt, option)?;
    calls.with_one_of(FCNTL, 1, STATUS_FLAGS)?;
    calls.without_address()?;
    calls.finish()
}

/// The fcntl commands that read a descriptor's flags and set its status flags.
pub(super) const STATUS_FLAGS: &[i32] = &[libc::F_GETFL, libc::F_GETFD, libc::F_SETFL];

/// A filter under construction: which calls are allowed, and with which arguments. It is built from
/// its end.
pub(super) struct CallList {
    program: BpfProgram,
    calls: Vec<(u32, Label)>,
    /// Allows the call.
    allow: Label,
    /// The action for every other call.
    other: Label,
    /// Ends the process: for calls of another architecture.
    kill: Label,
}

impl CallList {
    /// Allows the common calls and those of `allowed` with any arguments; `other` is the action for
    /// every call that is not allowed.
    pub(super) fn new(other: u32, allowed: &[Call]) -> io::Result<Self> {
        let mut program = BpfProgram::default();
        let kill = program.end(libc::SECCOMP_RET_KILL_PROCESS);
        let other = program.end(other);
        let allow = program.end(libc::SECCOMP_RET_ALLOW);
        let mut list = Self {
            program,
            calls: Vec::with_capacity(128),
            allow,
            other,
            kill,
        };
        for number in COMMON
            .iter()
            .chain(COMMON_HERE.iter().copied().flatten())
            .chain(allowed)
        {
            list.checked(*number, allow)?;
        }
        Ok(list)
    }

    /// Decides about a call at `check`, which may look at its arguments.
    pub(super) fn checked(&mut self, number: Call, check: Label) -> io::Result<()> {
        let number = u32::try_from(number).map_err(io::Error::other)?;
        self.calls.push((number, check));
        Ok(())
    }

    /// Allows a call with any arguments.
    pub(super) fn any(&mut self, number: Call) -> io::Result<()> {
        self.checked(number, self.allow)
    }

    /// Allows a call if the lower half of argument `at` is one of `values`.
    pub(super) fn with_one_of(&mut self, call: Call, at: usize, values: &[i32]) -> io::Result<()> {
        let (allow, other) = (self.allow, self.other);
        let check = one_of(&mut self.program, at, values, allow, other)?;
        self.checked(call, check)
    }

    /// Sockets of these families, and those by which the kernel reports devices.
    pub(super) fn sockets(&mut self, families: &[i32]) -> io::Result<()> {
        let (allow, other) = (self.allow, self.other);
        let reports = &[libc::NETLINK_KOBJECT_UEVENT];
        let check = one_of(&mut self.program, 2, reports, allow, other)?;
        let check = one_of(&mut self.program, 0, &[libc::AF_NETLINK], check, other)?;
        let check = one_of(&mut self.program, 0, families, allow, check)?;
        self.checked(libc::SYS_socket, check)
    }

    /// Allows a call unless the lower half of argument `at` is one of `values`.
    pub(super) fn without_one_of(
        &mut self,
        call: Call,
        at: usize,
        values: &[i32],
    ) -> io::Result<()> {
        let (allow, other) = (self.allow, self.other);
        let check = one_of(&mut self.program, at, values, other, allow)?;
        self.checked(call, check)
    }

    /// Memory, none of which may become executable. Where a filter does not see mmap's arguments, the kernel
    /// refuses memory that is writable and executable, or writable first and executable later, and the process
    /// must have no open file that it could map.
    pub(super) fn without_exec(&mut self) -> io::Result<()> {
        self.program
            .if_bits(word(libc::PROT_EXEC), self.other, self.allow)?;
        let check = self.program.load(low_half(2));
        self.checked(libc::SYS_mprotect, check)?;
        if SEES_MMAP {
            self.checked(MMAP, check)
        } else {
            self.program.refuse_exec_gain();
            self.any(MMAP)
        }
    }

    /// Threads, but no processes. A filter cannot read the flags of clone3; the C library uses clone if
    /// clone3 is missing.
    pub(super) fn only_threads(&mut self) -> io::Result<()> {
        self.program
            .if_bits(word(libc::CLONE_THREAD), self.allow, self.other)?;
        let check = self.program.load(low_half(CLONE_FLAGS));
        self.checked(libc::SYS_clone, check)
    }

    /// Signals to this process only, for abort(3).
    pub(super) fn own_signals(&mut self) -> io::Result<()> {
        self.with_one_of(libc::SYS_tgkill, 0, &[process::pid()])
    }

    /// send(2), which is sendto without an address; an address could reach other peers.
    pub(super) fn without_address(&mut self) -> io::Result<()> {
        let mut check = self.allow;
        for half in [whole(4), whole(4) + size_of::<u32>()] {
            self.program.if_equal(0, check, self.other)?;
            check = self.program.load(half);
        }
        self.checked(libc::SYS_sendto, check)
    }

    /// Allows of socketcall(2) those calls that are allowed with any arguments under their own numbers.
    #[cfg(target_arch = "s390x")]
    fn socketcalls(&mut self) -> io::Result<()> {
        let is_allowed = |call: Call| {
            let allowed = (u32::try_from(call).ok(), self.allow);
            self.calls
                .iter()
                .any(|(n, label)| (Some(*n), *label) == allowed)
        };
        let numbers: Vec<i32> = super::calls::SOCKETCALLS
            .iter()
            .filter(|(_, call)| is_allowed(*call))
            .map(|(number, _)| *number)
            .collect();
        self.with_one_of(libc::SYS_socketcall, 0, &numbers)
    }

    /// Prepends the search for the call's number.
    pub(super) fn finish(mut self) -> io::Result<BpfProgram> {
        #[cfg(target_arch = "s390x")]
        self.socketcalls()?;
        self.calls.sort_unstable_by_key(|(number, _)| *number);
        search(&mut self.program, &self.calls, self.other)?;
        let number = self.program.load(offset_of!(libc::seccomp_data, nr));
        self.program.if_equal(ARCH, number, self.kill)?;
        self.program.load(offset_of!(libc::seccomp_data, arch));
        Ok(self.program)
    }
}

/// Jumps from a loaded call number to the call's label, or to `other`.
fn search(program: &mut BpfProgram, calls: &[(u32, Label)], other: Label) -> io::Result<Label> {
    match calls {
        [] => Ok(other),
        [(number, label)] => program.if_equal(*number, *label, other),
        _ => {
            let (low, high) = calls.split_at(calls.len() / 2);
            let first = high.first().map_or(0, |(number, _)| *number);
            let high = search(program, high, other)?;
            let low = search(program, low, other)?;
            program.if_at_least(first, high, low)
        }
    }
}

/// Loads the lower 32 bits of an argument and jumps to `yes` if they equal one of `values`, else to
/// `no`.
fn one_of(
    program: &mut BpfProgram,
    argument: usize,
    values: &[i32],
    yes: Label,
    no: Label,
) -> io::Result<Label> {
    let mut otherwise = no;
    for value in values {
        otherwise = program.if_equal(word(*value), yes, otherwise)?;
    }
    Ok(program.load(low_half(argument)))
}

/// Offset of an argument, of 64 bits.
fn whole(argument: usize) -> Offset {
    offset_of!(libc::seccomp_data, args) + argument * size_of::<u64>()
}

/// Offset of the lower 32 bits of an argument.
fn low_half(argument: usize) -> Offset {
    whole(argument) + LOWER_HALF
}

/// The bits of a constant of libc.
pub(super) fn word(value: i32) -> u32 {
    value.cast_unsigned()
}

/// Runs a filter on a call.
#[cfg(test)]
fn run(program: &BpfProgram, arch: u32, number: Call, arguments: [u64; 6]) -> u32 {
    let mut data = Vec::new();
    data.extend(u32::try_from(number).unwrap().to_ne_bytes());
    data.extend(arch.to_ne_bytes());
    data.extend(0_u64.to_ne_bytes());
    data.extend(arguments.into_iter().flat_map(u64::to_ne_bytes));
    program.run(&data)
}

/// True if a filter allows the call; false if its action is `other`.
#[cfg(test)]
pub(super) fn allows(program: &BpfProgram, other: u32, number: Call, arguments: [u64; 6]) -> bool {
    match run(program, ARCH, number, arguments) {
        libc::SECCOMP_RET_ALLOW => true,
        verdict => {
            assert_eq!(verdict, other, "{number}");
            false
        }
    }
}

/// The arguments of clone(2) with these flags: `clone(stack, flags, ...)` on s390x, `clone(flags, stack, ...)`
/// elsewhere. The stack's address has all the other bits.
#[cfg(test)]
pub(super) fn clone_flags(flags: i32) -> [u64; 6] {
    let flags = u64::from(word(flags));
    match cfg!(target_arch = "s390x") {
        true => [!flags, flags, 0, 0, 0, 0],
        false => [flags, !flags, 0, 0, 0, 0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(number: Call, arguments: [u64; 6]) -> bool {
        let kill = libc::SECCOMP_RET_KILL_PROCESS;
        super::allows(&program().unwrap(), kill, number, arguments)
    }

    #[test]
    fn what_the_list_names_is_allowed_and_nothing_else() {
        let by_argument = [
            MMAP,
            libc::SYS_mprotect,
            libc::SYS_setsockopt,
            FCNTL,
            libc::SYS_sendto,
        ];
        // With these arguments no call whose arguments are checked is allowed.
        let bad = [99, 9, 7, 9, 9, 9];
        let here = COMMON_HERE.concat();
        for number in (0..1024).chain([0x4000_0000, 0x4000_0001, 0x7fff_ffff]) {
            let mut listed = COMMON
                .iter()
                .chain(ALLOWED)
                .chain(&here)
                .any(|n| *n == number);
            listed |= !SEES_MMAP && number == MMAP;
            assert_eq!(allows(number, bad), listed, "{number}");
            let known = listed || by_argument.contains(&number);
            assert!(known || !allows(number, [0; 6]), "{number}");
        }
        let foreign = run(&program().unwrap(), ARCH ^ 1, 0, [0; 6]);
        assert_eq!(foreign, libc::SECCOMP_RET_KILL_PROCESS);
    }

    /// The kernel makes the number from the machine, the word size and the byte order, as a program file has them.
    #[test]
    fn the_architecture_is_that_of_this_program() {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        let mut header = [0; 20];
        file.read_exact_at(&mut header, 0).unwrap();
        assert_eq!(header[..4], *b"\x7fELF");
        let word = if header[4] == 2 { 0x8000_0000 } else { 0 };
        let order = if header[5] == 1 { 0x4000_0000 } else { 0 };
        let machine = u16::from_ne_bytes([header[18], header[19]]);
        assert_eq!(ARCH, word | order | u32::from(machine));
    }

    /// The numbers that a machine has twice, or that its C library cannot do without.
    #[test]
    fn the_calls_of_this_machine_are_on_the_list() {
        let here: &[Call] = match std::env::consts::ARCH {
            // poll, send, recv, sigreturn; clock_gettime64, clock_nanosleep_time64, ppoll_time64, futex_time64
            "arm" => &[168, 289, 291, 119, 403, 407, 414, 422],
            // poll, sigreturn
            "s390x" => &[168, 119],
            // poll, send, recv
            "powerpc64" => &[167, 334, 336],
            // poll
            "x86_64" => &[7],
            _ => &[],
        };
        for number in here {
            assert!(allows(*number, [0; 6]), "{number}");
        }
        assert_eq!(program().unwrap().must_refuse_exec_gain(), !SEES_MMAP);
    }

    /// socketcall(2) allows what the calls allow under their own numbers, and nothing that a filter must see.
    #[cfg(target_arch = "s390x")]
    #[test]
    fn socketcall_is_judged_by_its_number() {
        let allowed =
            (0..32).filter(|number| allows(libc::SYS_socketcall, [*number, 0, 0, 0, 0, 0]));
        // send, recv, recvfrom, shutdown, sendmsg, recvmsg; not socket, connect, sendto or setsockopt.
        assert_eq!(allowed.collect::<Vec<_>>(), [9, 10, 12, 13, 16, 17]);
        assert!(!allows(libc::SYS_socketcall, [9 << 32, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn arguments_decide_where_they_must() {
        let at = |index: usize, value: u64| {
            let mut arguments = [0; 6];
            arguments[index] = value;
            arguments
        };
        let protected = [libc::SYS_mprotect, MMAP];
        for number in &protected[..if SEES_MMAP { 2 } else { 1 }] {
            let number = *number;
            assert!(allows(number, at(2, 3)));
            assert!(!allows(number, at(2, 4)) && !allows(number, at(2, 7)));
        }
        let (tcp, quick) = (u64::from(word(libc::IPPROTO_TCP)), 12);
        assert!(allows(libc::SYS_setsockopt, [3, tcp, quick, 0, 0, 0]));
        assert!(!allows(libc::SYS_setsockopt, [3, tcp, 1, 0, 0, 0]));
        assert!(!allows(libc::SYS_setsockopt, [3, tcp, 13, 0, 0, 0]));
        assert!(!allows(libc::SYS_setsockopt, [3, 1, 1, 0, 0, 0]));
        for (command, allowed) in [(1, true), (3, true), (4, true), (0, false), (2, false)] {
            assert_eq!(allows(FCNTL, at(1, command)), allowed, "{command}");
        }
        assert!(allows(libc::SYS_sendto, [3, 1, 1, 0, 0, 16]));
        assert!(!allows(libc::SYS_sendto, at(4, 1)));
        assert!(!allows(libc::SYS_sendto, at(4, 1 << 32)));
    }
}
