//! Programs for classic BPF, which seccomp(2) runs: the subset that [`filter`](super::filter)
//! needs.
//!
//! Jumps go forward, so a program is built from its end: the target of a jump is written before the
//! jump. A conditional jump reaches 255 instructions, and farther ones by an unconditional jump.

use std::io;

use crate::process;

/// Byte offset into the input of a program (`struct seccomp_data`).
pub(super) type Offset = usize;

/// An instruction that was already written, by its index from the end of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// The kernel's limit on instructions (`BPF_MAXINSNS`).
const MAX_INSTRUCTIONS: usize = 4096;

/// A program under construction; its last instruction is stored first.
#[derive(Default)]
pub(super) struct BpfProgram {
    backwards: Vec<libc::sock_filter>,
    /// The kernel must refuse this process memory that becomes executable, before it runs the program.
    refuses_exec_gain: bool,
}

impl BpfProgram {
    fn push(&mut self, code: u32, jumps: (u8, u8), k: u32) -> Label {
        let code = u16::try_from(code).unwrap_or(u16::MAX);
        let (jt, jf) = jumps;
        self.backwards.push(libc::sock_filter { code, jt, jf, k });
        Label(self.backwards.len() - 1)
    }

    /// Number of instructions that a jump, written next, must skip to reach `to`.
    fn distance(&self, to: Label) -> io::Result<u8> {
        let between = self.backwards.len().checked_sub(to.0 + 1);
        between
            .and_then(|count| u8::try_from(count).ok())
            .ok_or_else(|| io::Error::other("system call filter: a jump is too long"))
    }

    /// A label within the reach of the next jump from which the program continues at `to`: `to` itself
    /// if it is near, else an unconditional jump, whose distance has 32 bits.
    fn within_reach(&mut self, to: Label) -> Label {
        /// Leaves room for the other label of the same jump.
        const NEAR: usize = 250;
        let between = self.backwards.len().saturating_sub(to.0 + 1);
        match u32::try_from(between) {
            Ok(distance) if between > NEAR => {
                self.push(libc::BPF_JMP | libc::BPF_JA, (0, 0), distance)
            }
            _ => to,
        }
    }

    fn jump(&mut self, test: u32, k: u32, yes: Label, no: Label) -> io::Result<Label> {
        let (yes, no) = (self.within_reach(yes), self.within_reach(no));
        let jumps = (self.distance(yes)?, self.distance(no)?);
        Ok(self.push(libc::BPF_JMP | test | libc::BPF_K, jumps, k))
    }

    /// Appends a return with the given action.
    pub(super) fn end(&mut self, verdict: u32) -> Label {
        self.push(libc::BPF_RET | libc::BPF_K, (0, 0), verdict)
    }

    /// Loads 32 bits and continues with the instruction written before.
    pub(super) fn load(&mut self, from: Offset) -> Label {
        let from = u32::try_from(from).unwrap_or(u32::MAX);
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), from)
    }

    /// Jumps to `yes` if the loaded value equals `value`, else to `no`.
    pub(super) fn if_equal(&mut self, value: u32, yes: Label, no: Label) -> io::Result<Label> {
        self.jump(libc::BPF_JEQ, value, yes, no)
    }

    /// Jumps to `yes` if the loaded value is at least `value`, else to `no`.
    pub(super) fn if_at_least(&mut self, value: u32, yes: Label, no: Label) -> io::Result<Label> {
        self.jump(libc::BPF_JGE, value, yes, no)
    }

    /// Jumps to `yes` if the loaded value has any of `bits`, else to `no`.
    pub(super) fn if_bits(&mut self, bits: u32, yes: Label, no: Label) -> io::Result<Label> {
        self.jump(libc::BPF_JSET, bits, yes, no)
    }

    /// Has [`install`](Self::install) forbid this process to gain executable memory
    /// ([`process::refuse_exec_gain`]): the program cannot.
    pub(super) fn refuse_exec_gain(&mut self) {
        self.refuses_exec_gain = true;
    }

    /// Installs the program for all threads of this process.
    pub(super) fn install(self) -> io::Result<()> {
        if self.refuses_exec_gain {
            process::refuse_exec_gain()?;
        }
        match self.set(libc::SECCOMP_FILTER_FLAG_TSYNC)? {
            0 => Ok(()),
            // The result is the number of a thread that has a filter of its own.
            _ => Err(io::Error::other(
                "system call filter: a thread has another filter",
            )),
        }
    }

    /// Calls seccomp(2) with `flags` and returns its result.
    pub(super) fn set(mut self, flags: libc::c_ulong) -> io::Result<libc::c_long> {
        self.backwards.reverse();
        let length = u16::try_from(self.backwards.len())
            .ok()
            .filter(|length| usize::from(*length) <= MAX_INSTRUCTIONS)
            .ok_or_else(|| io::Error::other("system call filter: too long"))?;
        let program = libc::sock_fprog {
            len: length,
            filter: self.backwards.as_mut_ptr(),
        };
        // SAFETY: the program points to `length` instructions, which the kernel copies and checks.
        crate::ffi::check_long(unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        })
    }

    /// True after [`refuse_exec_gain`](Self::refuse_exec_gain).
    #[cfg(test)]
    pub(super) fn must_refuse_exec_gain(&self) -> bool {
        self.refuses_exec_gain
    }

    /// Interprets the program for a call's `seccomp_data` and returns its action.
    #[cfg(test)]
    pub(super) fn run(&self, data: &[u8]) -> u32 {
        let word = |at: u32| {
            let at = usize::try_from(at).unwrap();
            u32::from_ne_bytes(data[at..at + 4].try_into().unwrap())
        };
        let mut loaded = 0;
        let mut at = self.backwards.len();
        loop {
            at -= 1;
            let each = &self.backwards[at];
            let code = u32::from(each.code);
            let jump = |yes: bool| usize::from(if yes { each.jt } else { each.jf });
            match code & 0x07 {
                libc::BPF_LD => loaded = word(each.k),
                libc::BPF_RET => return each.k,
                libc::BPF_JMP if code & 0xf0 == libc::BPF_JA => {
                    at -= usize::try_from(each.k).unwrap();
                }
                _ => {
                    at -= jump(match code & 0xf0 {
                        libc::BPF_JEQ => loaded == each.k,
                        libc::BPF_JGE => loaded >= each.k,
                        libc::BPF_JSET => loaded & each.k != 0,
                        other => panic!("test {other:#x}"),
                    });
                }
            }
        }
    }
}
