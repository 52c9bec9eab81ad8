//! Debian in a directory, with OpenSSH's regression suite.

use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Suite;

/// Packages that the tests need. The Makefile, the network namespace and the tests of terminals
/// need make, iproute2 and tmux, agent-ptrace needs gdb, and sshfp-connect needs the last three.
const PACKAGES: &str = "openssh-tests,openssh-server,openssh-client,openssh-sftp-server,xauth,\
                        putty-tools,dropbear-bin,sudo,make,iproute2,tmux,softhsm2,openssl,gdb,\
                        unbound,ldnsutils,bind9-host";

/// The user who runs the tests, set up as by Debian: with sudo, and with a password that the tests
/// of passwords read from a file.
const SETUP: &str = "
set -eu
useradd --create-home --shell /bin/bash regress
echo 'regress ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/regress
password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
echo \"regress:$password\" | chpasswd
echo \"$password\" >/usr/lib/openssh/regress/password
echo \"$password\" >/usr/lib/openssh/regress/kbdintpw
mkdir -p /usr/lib/fulmar/bin
cd /usr/lib/fulmar/bin
: >fulmar
for name in ssh sshd scp sftp sftp-server ssh-keygen ssh-keyscan ssh-agent ssh-add; do ln -s fulmar $name; done
";

/// The root of a suite's chroot, created if it is missing or incomplete, with packages of Debian
/// from `mirror`, or from the mirror of this machine's apt.
pub(super) fn ready(suite: &Suite, folder: &Path, mirror: Option<&str>) -> Result<PathBuf> {
    let root = folder.join(suite.name);
    // The link is created last, and records the input of the chroot.
    let made = folder.join(format!("{}.made", suite.name));
    let recipe = format!("{PACKAGES}{SETUP}");
    let same = std::fs::read_to_string(&made).is_ok_and(|text| text == recipe);
    if same && works(&root) {
        return Ok(root);
    }
    let mirror = match mirror {
        Some(mirror) => mirror.to_owned(),
        None => of_apt()?,
    };
    eprintln!("{}: making its chroot from {mirror}", suite.name);
    for path in [&root, &made] {
        remove(path)?;
    }
    let log = folder.join(format!("{}.log", suite.name));
    let mut make = Command::new("mmdebstrap");
    make.args(["--mode=root", "--variant=minbase"])
        .arg("--aptopt=Acquire::Check-Valid-Until \"false\"")
        .arg(format!("--include={PACKAGES}"))
        .arg(suite.name)
        .args([&root, Path::new(&mirror)]);
    let mut user = Command::new("chroot");
    user.arg(&root).args(["sh", "-c", SETUP]);
    for mut step in [make, user] {
        let output = step
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(
                std::fs::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(&log)?,
            )
            .status()
            .map_err(|error| named(&step, &error))?;
        if !output.success() {
            return Err(Error::other(format!(
                "{} failed, see {}",
                step.get_program().display(),
                log.display()
            )));
        }
    }
    std::fs::write(&made, recipe)?;
    Ok(root)
}

/// The installed version of OpenSSH, in Debian's numbering.
pub(super) fn version(root: &Path) -> String {
    let output = Command::new("chroot")
        .arg(root)
        .args(["dpkg-query", "-W", "-f", "${Version}", "openssh-tests"])
        .output();
    output.map_or_else(
        |error| error.to_string(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// True if the programs in it start.
fn works(root: &Path) -> bool {
    Command::new("chroot")
        .arg(root)
        .args(["ssh", "-V"])
        .output()
        .is_ok_and(|output| output.status.success())
}

fn remove(path: &Path) -> Result<()> {
    let gone = if path.is_dir() {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    match gone {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The mirror of Debian's packages that this machine's apt uses.
fn of_apt() -> Result<String> {
    let mut list = Command::new("apt-get");
    list.args([
        "indextargets",
        "--format",
        "$(ORIGIN) $(COMPONENT) $(REPO_URI)",
    ])
    .arg("Created-By: Packages");
    let output = list.output().map_err(|error| named(&list, &error))?;
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.strip_prefix("Debian main "))
        .find(|address| !address.contains("security"))
        .map(str::to_owned)
        .ok_or_else(|| Error::other("apt names no mirror of Debian's: say --mirror URL"))
}

fn named(command: &Command, error: &Error) -> Error {
    Error::other(format!("{}: {error}", command.get_program().display()))
}
