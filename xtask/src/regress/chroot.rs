//! Debian in a folder, with OpenSSH's regression suite.

use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Suite;

/// What the tests want. The last three are wanted by the Makefile, by a network of its own, and by
/// tests of terminals.
const PACKAGES: &str = "openssh-tests,openssh-server,openssh-client,openssh-sftp-server,xauth,\
                        putty-tools,dropbear-bin,sudo,make,iproute2,tmux";

/// The user who runs the tests, by the way of Debian's own: with sudo, and with a password that the
/// tests of passwords find in a file.
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
for name in ssh sshd scp sftp sftp-server ssh-keygen; do ln -s fulmar $name; done
";

/// The root of a suite's chroot, made if it is missing or was not finished; `mirror` is asked for
/// Debian's packages, or what apt on this machine asks.
pub(super) fn ready(suite: &Suite, folder: &Path, mirror: Option<&str>) -> Result<PathBuf> {
    let root = folder.join(suite.name);
    // The link is made last, and says by what the chroot was made.
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

/// What is installed, as Debian numbers it.
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

/// Whether the programs in it start.
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

/// The mirror that this machine's apt takes Debian's own packages from.
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
