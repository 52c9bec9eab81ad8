//! A listener of OpenSSH before 9.8 whose name was taken (`fulmar install --replace-openssh`) and that still runs: for each
//! connection it executes its name with `-R` (sshd.c, `rexec_flag`), and must find the program of its own version there.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// OpenSSH's last argument then.
const FLAG: &str = "-R";

/// The program that such a listener means.
fn meant(program: &OsStr, arguments: &[OsString]) -> Option<PathBuf> {
    let is_meant = arguments.last().is_some_and(|last| last == FLAG);
    if !is_meant || !Path::new(program).is_absolute() {
        return None;
    }
    let mut aside = program.to_owned();
    aside.push(migrate::ASIDE);
    Some(PathBuf::from(aside))
}

/// Becomes OpenSSH's program, with the descriptors of the connection, if its listener has started this one. Returns only if that
/// is not so, or with the error.
pub(super) fn become_openssh(arguments: &[OsString]) -> Option<std::io::Error> {
    let program = std::env::args_os().next()?;
    let aside = meant(&program, arguments).filter(|aside| aside.is_file())?;
    Some(Command::new(aside).arg0(program).args(arguments).exec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_listener_of_openssh_by_its_path_means_its_own_program() {
        let meant = |program: &str, arguments: &[&str]| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            meant(OsStr::new(program), &arguments)
        };
        let aside = Some(PathBuf::from("/usr/sbin/sshd.openssh"));
        assert_eq!(meant("/usr/sbin/sshd", &["-D", "-R"]), aside);
        assert_eq!(meant("/usr/sbin/sshd", &["-R", "-D"]), None);
        assert_eq!(meant("/usr/sbin/sshd", &[]), None);
        assert_eq!(meant("sshd", &["-R"]), None);
    }
}
