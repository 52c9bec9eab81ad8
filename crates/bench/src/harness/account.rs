//! The account that measured servers log in to: this user, but with an empty home and `/bin/sh`,
//! so that nobody's `.bashrc` is measured. It exists in mounts of the servers' own, where another
//! `/etc/passwd` is shown; that takes root.
//!
//! All of `/etc` is covered, not that file alone: where an account is added meanwhile the file is
//! replaced, and the kernel takes away what was mounted on it, everywhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Directory;

/// Where accounts are listed.
const PASSWD: &str = "/etc/passwd";
const ETC: &str = "/etc";

/// A home and a list of accounts that names it.
#[derive(Debug)]
pub(crate) struct Account {
    directory: Directory,
}

impl Account {
    /// Makes both for the user who runs this.
    pub(crate) fn new() -> io::Result<Self> {
        let directory = Directory::new(&std::env::temp_dir())?;
        let home = directory.path().join("home");
        fs::create_dir_all(home.join(".ssh"))?;
        for path in [home.clone(), home.join(".ssh")] {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        }
        let listed = fs::read_to_string(PASSWD)?;
        let shown = with_home(&listed, sys::process::effective_uid(), &home)
            .ok_or_else(|| io::Error::other(format!("{PASSWD} does not name this user")))?;
        let passwd = directory.path().join("passwd");
        fs::write(&passwd, shown)?;
        fs::set_permissions(passwd, std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        fs::create_dir(directory.path().join("layer"))?;
        Ok(Self { directory })
    }

    /// The home.
    pub(crate) fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// What [`Layer::enter`] needs, for the thread that is to see this account.
    pub(crate) fn layer(&self) -> Layer {
        let path = |name| self.directory.path().join(name);
        Layer {
            passwd: path("passwd"),
            memory: path("layer"),
            name_servers: None,
        }
    }
}

/// Where the mounts of a thread get their `/etc` from.
#[derive(Debug)]
pub(crate) struct Layer {
    passwd: PathBuf,
    memory: PathBuf,
    /// What `/etc/resolv.conf` holds instead.
    pub(super) name_servers: Option<String>,
}

impl Layer {
    /// Gives the calling thread mounts in which the account is the user's.
    pub(crate) fn enter(&self) -> io::Result<()> {
        sys::namespace::unshare_mounts()?;
        sys::namespace::mount_memory(&self.memory)?;
        let (upper, work) = (self.memory.join("upper"), self.memory.join("work"));
        fs::create_dir(&upper)?;
        fs::create_dir(&work)?;
        fs::set_permissions(&upper, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        fs::copy(&self.passwd, upper.join("passwd"))?;
        if let Some(name_servers) = &self.name_servers {
            fs::write(upper.join("resolv.conf"), name_servers)?;
            return sys::namespace::overlay(Path::new(ETC), &upper, &work);
        }
        sys::namespace::overlay(Path::new(ETC), &upper, &work)
            // Without overlays the file alone is better than nothing.
            .or_else(|_| sys::namespace::bind(&self.passwd, Path::new(PASSWD)))
    }
}

/// The list with another home and `/bin/sh` in every line of `uid`; none when it has no such line.
fn with_home(listed: &str, uid: u32, home: &Path) -> Option<String> {
    let mut found = false;
    let lines: Vec<String> = listed
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            match fields[..] {
                [name, password, id, gid, gecos, _, _] if id.parse() == Ok(uid) => {
                    found = true;
                    let home = home.display();
                    format!("{name}:{password}:{id}:{gid}:{gecos}:{home}:/bin/sh")
                }
                _ => line.to_string(),
            }
        })
        .collect();
    found.then(|| lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_account_gets_another_home_and_shell() {
        let listed = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/home/ann:/bin/zsh\n+\n";
        assert_eq!(
            with_home(listed, 1000, Path::new("/tmp/h")).unwrap(),
            "root:x:0:0:root:/root:/bin/bash\nann:x:1000:1000::/tmp/h:/bin/sh\n+\n"
        );
        assert_eq!(with_home(listed, 1001, Path::new("/tmp/h")), None);
    }
}
