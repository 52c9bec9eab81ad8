//! A listener of OpenSSH before 9.8 whose name was taken (`fulmar install --replace-openssh`) and that still runs: for each
//! connection it executes its name with `-R` (sshd.c, `rexec_flag`), and must find the program of its own version there.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// OpenSSH's last argument then.
const FLAG: &str = "-R";

/// The program that such a listener means: beside the name by which it was started or, if that is a link to OpenSSH's name
/// (an sshd with a name of its own), beside the one that it leads to.
fn meant(program: &OsStr, arguments: &[OsString]) -> Option<PathBuf> {
    let is_meant = arguments.last().is_some_and(|last| last == FLAG);
    if !is_meant || !Path::new(program).is_absolute() {
        return None;
    }
    let aside = |path: PathBuf| {
        let mut aside = path.into_os_string();
        aside.push(migrate::ASIDE);
        PathBuf::from(aside)
    };
    sys::process::link_chain(program.into())
        .map(aside)
        .find(|aside| aside.is_file())
}

/// Becomes OpenSSH's program, with the descriptors of the connection, if its listener has started this one. Returns only if that
/// is not so, or with the error.
pub(super) fn become_openssh(arguments: &[OsString]) -> Option<std::io::Error> {
    let program = std::env::args_os().next()?;
    let aside = meant(&program, arguments)?;
    Some(Command::new(aside).arg0(program).args(arguments).exec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_a_listener_of_openssh_by_its_path_means_its_own_program() {
        let folder = std::env::temp_dir().join(format!("fulmar-rexec-{}", sys::process::pid()));
        std::fs::create_dir_all(&folder).unwrap();
        let place = |name: &str| folder.join(name);
        std::fs::write(place("sshd.openssh"), "").unwrap();
        symlink("/usr/bin/fulmar", place("sshd")).unwrap();
        // Two servers with names of their own, one by way of the other.
        symlink("sshd", place("sshd-admin")).unwrap();
        symlink(place("sshd-admin"), place("sshd-other")).unwrap();
        symlink("/usr/bin/fulmar", place("elsewhere")).unwrap();
        let meant = |program: &Path, arguments: &[&str]| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            meant(program.as_os_str(), &arguments)
        };
        let aside = Some(place("sshd.openssh"));
        for name in ["sshd", "sshd-admin", "sshd-other"] {
            assert_eq!(meant(&place(name), &["-D", "-R"]), aside, "{name}");
        }
        assert_eq!(meant(&place("sshd"), &["-R", "-D"]), None);
        assert_eq!(meant(&place("sshd"), &[]), None);
        assert_eq!(meant(&place("elsewhere"), &["-R"]), None);
        assert_eq!(meant(Path::new("sshd"), &["-R"]), None);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
