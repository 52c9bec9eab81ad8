//! Pseudo-terminals: allocation, change of owner, release.
//!
//! If the kernel supports it, the slave is opened through the master and not by name, so that
//! another mount of /dev/pts cannot be substituted.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;

use crate::{Gid, Uid};

/// A pseudo-terminal. Both ends are close-on-exec; neither becomes a controlling terminal by this.
#[derive(Debug)]
pub struct Pty {
    /// The server's end.
    pub master: OwnedFd,
    /// The end for the user's programs.
    pub slave: OwnedFd,
    /// Path of the slave device (`/dev/pts/3`).
    pub name: PathBuf,
}

impl Pty {
    /// Allocates a pseudo-terminal.
    ///
    /// # Errors
    /// The kernel's error (`ENOSPC` if all are in use).
    pub fn open() -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = rustix::pty::openpt(flags)?;
        rustix::pty::grantpt(&master)?;
        rustix::pty::unlockpt(&master)?;
        let name = rustix::pty::ptsname(&master, Vec::new())?;
        let name = PathBuf::from(OsString::from_vec(name.into_bytes()));
        let slave = match rustix::pty::ioctl_tiocgptpeer(&master, flags) {
            Ok(slave) => slave,
            Err(_) => {
                let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                rustix::fs::open(&name, flags, Mode::empty())?
            }
        };
        Ok(Self {
            master,
            slave,
            name,
        })
    }

    /// Path of the slave without `/dev/`, as utmp records it (`pts/3`).
    #[must_use]
    pub fn line(&self) -> String {
        let name = self.name.strip_prefix("/dev/").unwrap_or(&self.name);
        name.to_string_lossy().into_owned()
    }

    /// Makes `uid` the owner of the slave, with group `tty_group` and mode 0620 (so that write(1)
    /// works) or, without a group, with unchanged group and mode 0600.
    ///
    /// # Errors
    /// The kernel's error; without privilege it fails only for other users.
    pub fn give_to(&self, uid: Uid, tty_group: Option<Gid>) -> io::Result<()> {
        set_owner(&self.slave, uid, tty_group)
    }

    /// Returns the slave to root with mode 0600, before its name is reused.
    ///
    /// # Errors
    /// The kernel's error; without privilege it does nothing.
    pub fn release(&self) -> io::Result<()> {
        if !crate::process::is_root() {
            return Ok(());
        }
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::fchmod(&self.slave, mode)?;
        let root = rustix::fs::Uid::ROOT;
        Ok(rustix::fs::fchown(
            &self.slave,
            Some(root),
            Some(rustix::fs::Gid::ROOT),
        )?)
    }
}

/// As [`Pty::give_to`], for a slave without its master.
///
/// # Errors
/// As [`Pty::give_to`].
pub fn set_owner(slave: impl AsFd, uid: Uid, tty_group: Option<Gid>) -> io::Result<()> {
    let slave = slave.as_fd();
    let stat = rustix::fs::fstat(slave)?;
    let mode = if tty_group.is_some() { 0o620 } else { 0o600 };
    let gid = tty_group.unwrap_or(stat.st_gid);
    if stat.st_uid != uid || stat.st_gid != gid {
        let owner = rustix::fs::Uid::from_raw(uid);
        let changed = rustix::fs::fchown(slave, Some(owner), Some(rustix::fs::Gid::from_raw(gid)));
        match changed {
            // The slave already belongs to the user, who may not change its group.
            Err(rustix::io::Errno::PERM) if stat.st_uid == uid => {}
            other => other?,
        }
    }
    if stat.st_mode & 0o777 != mode {
        rustix::fs::fchmod(slave, Mode::from_raw_mode(mode))?;
    }
    Ok(())
}

/// Id of the group `tty`, if the machine has it.
#[must_use]
pub fn tty_group() -> Option<Gid> {
    crate::users::group_by_name("tty")
        .ok()
        .flatten()
        .map(|group| group.gid)
}

/// Returns a slave to root by path, when its descriptor is already closed. Ignores paths outside
/// `/dev/pts/` and missing files.
///
/// # Errors
/// The kernel's error.
pub fn release_by_name(name: &Path) -> io::Result<()> {
    if !crate::process::is_root() || name.parent() != Some(Path::new("/dev/pts")) {
        return Ok(());
    }
    match std::fs::symlink_metadata(name) {
        Ok(metadata) if metadata.uid() != 0 && !metadata.file_type().is_symlink() => {
            std::os::unix::fs::lchown(name, Some(0), Some(0))?;
            std::fs::set_permissions(name, Permissions::from_mode(0o600))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_slave_writes_the_master_reads() {
        let pty = Pty::open().unwrap();
        assert!(pty.line().starts_with("pts/"));
        assert!(crate::io::is_terminal(&pty.slave));
        crate::io::write_all(&pty.slave, b"x\n").unwrap();
        // The kernel may deliver it in pieces.
        let mut buffer = [0; 3];
        for byte in buffer.chunks_mut(1) {
            assert_eq!(crate::io::read(&pty.master, byte).unwrap(), 1);
        }
        assert_eq!(&buffer, b"x\r\n");
        assert_eq!(crate::io::bytes_available(&pty.master).unwrap(), 0);
        for fd in [&pty.master, &pty.slave] {
            let flags = rustix::io::fcntl_getfd(fd).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
    }

    #[test]
    fn the_slave_belongs_to_its_user_and_goes_back() {
        let pty = Pty::open().unwrap();
        if !crate::process::is_root() {
            eprintln!("skipped: giving a terminal away needs root");
            return;
        }
        pty.give_to(12_345, Some(5)).unwrap();
        let stat = rustix::fs::fstat(&pty.slave).unwrap();
        assert_eq!((stat.st_uid, stat.st_gid), (12_345, 5));
        assert_eq!(stat.st_mode & 0o777, 0o620);
        pty.release().unwrap();
        let stat = rustix::fs::fstat(&pty.slave).unwrap();
        assert_eq!((stat.st_uid, stat.st_gid), (0, 0));
        assert_eq!(stat.st_mode & 0o777, 0o600);
        pty.give_to(12_345, None).unwrap();
        release_by_name(&pty.name).unwrap();
        assert_eq!(rustix::fs::fstat(&pty.slave).unwrap().st_uid, 0);
        release_by_name(Path::new("/dev/pts/no-such")).unwrap();
    }
}
