//! Safe functions for the system calls that `std` does not cover or not well enough (Linux; x86-64,
//! aarch64, armv7, riscv64, ppc64le and s390x). With glibc all of it works; with musl what the client programs need.
//!
//! Invariants: descriptors are created close-on-exec; this crate parses no protocol of a peer;
//! lengths from outside are limited; each `unsafe` block states why it is sound. Of SSH this crate
//! knows only RFC 4254 §8 (terminal modes) and §6.10 (signal names).

#![warn(missing_docs)]

#[cfg(not(all(
    target_os = "linux",
    any(target_env = "gnu", target_env = "musl"),
    any(
        target_arch = "aarch64",
        all(target_arch = "arm", target_endian = "little"),
        target_arch = "riscv64",
        target_arch = "s390x",
        target_arch = "x86_64",
        all(target_arch = "powerpc64", target_endian = "little")
    )
)))]
compile_error!(
    "Fulmar is for Linux with glibc or musl, on x86-64, aarch64, armv7, riscv64, ppc64le and s390x"
);

pub mod audit;
pub mod cpu;
pub mod cryptoki;
pub mod epoll;
pub mod file;
pub mod fs;
pub mod gss;
pub mod io;
pub mod loginrec;
pub mod memfd;
pub mod memory;
pub mod namespace;
pub mod pam;
pub mod print;
pub mod process;
pub mod pty;
pub mod sandbox;
pub mod selinux;
pub mod shared;
pub mod signals;
pub mod socket;
pub mod syslog;
pub mod systemd;
pub mod terminal;
pub mod thread;
pub mod time;
pub mod tun;
pub mod users;

mod dynlib;
mod ffi;

/// A user id (`uid_t`).
pub type Uid = u32;
/// A group id (`gid_t`).
pub type Gid = u32;
/// A process id; always positive in this crate.
pub type Pid = i32;
