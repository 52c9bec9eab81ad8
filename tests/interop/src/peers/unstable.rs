//! The OpenSSH of Debian unstable, in the directory where `cargo xtask regress --suite unstable` installs it.

use std::process::Command;

use crate::fixture::target_folder;

/// The multiarch name of this machine and its loader.
const MACHINE: (&str, &str) = if cfg!(target_arch = "aarch64") {
    ("aarch64-linux-gnu", "ld-linux-aarch64.so.1")
} else {
    ("x86_64-linux-gnu", "ld-linux-x86-64.so.2")
};

/// Its program of this name in `/usr/bin`, started by that system's loader with that system's libraries, so
/// that it needs no root and sees this machine's files. For programs that start no others.
///
/// # Errors
/// If it is not installed there.
pub fn program(name: &str) -> Result<Command, String> {
    let root = target_folder().join("regress/unstable");
    let (machine, loader) = MACHINE;
    let libraries = root.join("usr/lib").join(machine);
    let program = root.join("usr/bin").join(name);
    if !program.is_file() {
        let why = "cargo xtask regress --suite unstable installs it, as root";
        return Err(format!("no {}: {why}", program.display()));
    }
    let mut command = Command::new(libraries.join(loader));
    command.arg("--library-path").arg(libraries).arg(program);
    Ok(command)
}
