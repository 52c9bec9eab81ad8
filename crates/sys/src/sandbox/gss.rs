//! The sandboxes of the processes that load the GSS-API library ([`crate::gss`]).
//!
//! The acceptor reads tokens of clients who have not logged in: it has no socket, writes no file and
//! reads only what libraries and Kerberos' configuration are. The other one works for a user: it
//! reaches the network (the KDC, names) and the user's credential cache. A forbidden call fails as if
//! the kernel did not know it (ENOSYS).

use std::io;
use std::path::PathBuf;

use landlock::{ABI, AccessFs};

use super::bpf::BpfProgram;
use super::calls::{Call, DATAGRAMS_HERE, LOCKS_HERE};
use super::files::Wall;
use super::filter::{CallList, UNKNOWN};
use super::provider::{self, CODE, DESCRIPTOR, Net, READ, library_calls, own_alone, wall_with};
use super::token::{LOCKS, more};
use crate::process::{self, Limit, Resource};

/// What Kerberos and its plugins read besides the caller's paths.
const CONFIGURATION: &[&str] = &["/etc", "/usr", "/run", "/var/lib/sss", "/proc/self"];
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];
/// Limit on open descriptors.
const MAX_OPEN_FILES: u64 = 256;

/// Many datagrams at once, for the C library's resolver.
const RESOLVER: &[Call] = &[libc::SYS_sendmmsg, libc::SYS_recvmmsg];
/// The kernel's keyrings, which hold a user's credential caches.
const KEYRINGS: &[Call] = &[libc::SYS_keyctl, libc::SYS_add_key, libc::SYS_request_key];

/// Puts this process, which must have one thread, into the sandbox of an acceptor that may read
/// `configuration` besides the usual places. Returns how far the kernel restricts access to files.
///
/// # Errors
/// The kernel's error; then end the process.
pub fn gss_acceptor(configuration: &[PathBuf]) -> io::Result<Wall> {
    process::set_limit(Resource::FileSize, Limit::both(0))?;
    confine(configuration, &[], Net::Denied, acceptor_program()?)
}

/// Puts this process, which must have one thread, into the sandbox of one that works for its user:
/// it may read `read` and read and write `write`.
///
/// # Errors
/// The kernel's error; then end the process.
pub fn gss_user(read: &[PathBuf], write: &[PathBuf]) -> io::Result<Wall> {
    confine(read, write, Net::Permitted, user_program()?)
}

/// Puts this process, which must have one thread, into the sandbox of one that checks a password at a KDC: that of
/// a user's process that may read `read`, without a file to write and without keyrings, since it may have inherited
/// root's.
///
/// # Errors
/// The kernel's error; then end the process.
pub fn gss_password(read: &[PathBuf]) -> io::Result<Wall> {
    confine(read, &[], Net::Permitted, network_program(&[])?)
}

fn confine(read: &[PathBuf], write: &[PathBuf], net: Net, filter: BpfProgram) -> io::Result<Wall> {
    provider::begin(MAX_OPEN_FILES)?;
    let reads = AccessFs::from_read(ABI::V5) & !AccessFs::Execute;
    let device = reads | AccessFs::WriteFile;
    let store =
        reads | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg | AccessFs::RemoveFile;
    let named = |paths: &'static [&str], rights| {
        paths.iter().map(move |path| (PathBuf::from(path), rights))
    };
    let own = |paths: &[PathBuf], rights| -> Vec<_> {
        paths.iter().map(|path| (path.clone(), rights)).collect()
    };
    let rules = named(CODE, reads)
        .chain(named(READ, reads))
        .chain(named(CONFIGURATION, reads))
        .chain(named(DEVICES, device))
        .chain(own(read, reads))
        .chain(own(write, store));
    let wall = wall_with(rules, net)?;
    provider::finish(filter)?;
    Ok(wall)
}

fn acceptor_program() -> io::Result<BpfProgram> {
    let calls = CallList::new(UNKNOWN, &library_calls())?;
    finish(calls)
}

fn user_program() -> io::Result<BpfProgram> {
    network_program(KEYRINGS)
}

/// The calls of one that reaches tokens, the resolver's and `also`.
fn network_program(also: &[Call]) -> io::Result<BpfProgram> {
    let own = [RESOLVER, also, &DATAGRAMS_HERE.concat()].concat();
    let mut calls = CallList::new(UNKNOWN, &[library_calls(), more(), own].concat())?;
    calls.sockets(&[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6])?;
    calls.any(libc::SYS_connect)?;
    finish(calls)
}

fn finish(mut calls: CallList) -> io::Result<BpfProgram> {
    own_alone(&mut calls, &[DESCRIPTOR, LOCKS, LOCKS_HERE].concat())?;
    calls.finish()
}

#[cfg(test)]
mod tests {
    use super::super::filter::{allows, word};
    use super::super::provider::FORBIDDEN;
    use super::*;

    #[test]
    fn an_acceptor_has_no_socket_and_neither_starts_anything() {
        let (acceptor, user) = (acceptor_program().unwrap(), user_program().unwrap());
        for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6] {
            let arguments = [u64::from(word(family)), 1, 0, 0, 0, 0];
            assert!(!allows(&acceptor, UNKNOWN, libc::SYS_socket, arguments));
            assert!(allows(&user, UNKNOWN, libc::SYS_socket, arguments));
        }
        for number in [libc::SYS_connect, libc::SYS_unlinkat, libc::SYS_keyctl] {
            assert!(!allows(&acceptor, UNKNOWN, number, [0; 6]), "{number}");
            assert!(allows(&user, UNKNOWN, number, [0; 6]), "{number}");
        }
        let password = network_program(&[]).unwrap();
        for number in KEYRINGS {
            assert!(!allows(&password, UNKNOWN, *number, [0; 6]), "{number}");
        }
        for program in [&acceptor, &user, &password] {
            for number in FORBIDDEN {
                assert!(!allows(program, UNKNOWN, number, [0; 6]), "{number}");
            }
        }
    }
}
