//! The stable name of a user's forwarded agents: a symbolic link beside their sockets, which leads to
//! the newest one that is served (AgentSocketLink).
//!
//! A program that outlives the login that started it, such as a terminal multiplexer, keeps the path
//! of that login's socket; under the link it reaches the agent of the newest login that has one. The
//! name ends with that of the host, because home directories may be shared by hosts. A link leads
//! only to a socket of the same user in the same directory.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use super::{SOCKET_LETTERS, host_letters, random_letters};

/// The kind of agent in the names of the sockets that the link may lead to.
pub const PROGRAM: &str = "sshd";
/// Where the kernel lists the sockets that programs listen on (proc_net(5)).
const LISTENING: &str = "/proc/net/unix";
/// Limit on that list, in bytes.
const MAX_LIST_BYTES: u64 = 16 << 20;
/// Flag of a socket that listens (`__SO_ACCEPTCON`).
const ACCEPTS: u32 = 1 << 16;
/// Times that the link is set again because another login has changed what is newest.
const MAX_ROUNDS: u32 = 8;

/// The link in the directory of a user's sockets.
#[must_use]
pub fn path_in(folder: &Path) -> PathBuf {
    folder.join(format!("current.{}", sys::socket::host_name()))
}

/// Makes the link in `folder` lead to the newest socket of the user `uid` that a server of this host
/// listens on; removes it if there is none. `but` is the socket that is about to go. To be called
/// after a socket was made and when one goes.
///
/// # Errors
/// Those of the file system, `AlreadyExists` if something that is no link has the name.
pub fn follow_newest(folder: &Path, uid: u32, but: Option<&Path>) -> io::Result<()> {
    let link = path_in(folder);
    // Two logins that begin or end at once would otherwise undo each other's change.
    for _ in 0..MAX_ROUNDS {
        let wanted = newest(folder, uid, but)?;
        if target(&link)? == wanted {
            break;
        }
        match &wanted {
            Some(name) => replace(folder, &link, name)?,
            None => fs::remove_file(&link)?,
        }
    }
    Ok(())
}

/// What the link leads to; `None` if there is none.
fn target(link: &Path) -> io::Result<Option<PathBuf>> {
    match fs::read_link(link) {
        Ok(target) => Ok(Some(target)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            Err(io::ErrorKind::AlreadyExists.into())
        }
        Err(error) => Err(error),
    }
}

/// Replaces the link in one step, so that it always leads somewhere.
fn replace(folder: &Path, link: &Path, name: &Path) -> io::Result<()> {
    let fresh = folder.join(format!(".current.{}", random_letters(SOCKET_LETTERS)));
    symlink(name, &fresh)?;
    fs::rename(&fresh, link).inspect_err(|_| drop(fs::remove_file(&fresh)))
}

/// Name of the newest socket that is listened on.
fn newest(folder: &Path, uid: u32, but: Option<&Path>) -> io::Result<Option<PathBuf>> {
    let prefix = format!("s.{}.{PROGRAM}.", host_letters());
    let listening = listening_below(folder)?;
    let mut found = None;
    for entry in fs::read_dir(folder)?.flatten() {
        let path = entry.path();
        let is_server = entry.file_name().as_bytes().starts_with(prefix.as_bytes());
        if !is_server || but == Some(&*path) || !listening.contains(&path) {
            continue;
        }
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        if !metadata.file_type().is_socket() || metadata.uid() != uid {
            continue;
        }
        let made = (
            metadata.mtime(),
            metadata.mtime_nsec(),
            PathBuf::from(entry.file_name()),
        );
        if found.as_ref().is_none_or(|other| *other < made) {
            found = Some(made);
        }
    }
    Ok(found.map(|(_, _, name)| name))
}

/// The sockets in the directory that somebody listens on. The kernel's list needs no connection,
/// which another login's client would see.
fn listening_below(folder: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut paths = listening(LISTENING)?;
    paths.retain(|path| path.parent() == Some(folder));
    Ok(paths)
}

/// Paths of the Unix sockets that somebody listens on, by the kernel's list `/proc/net/unix`, or that of another
/// process's network namespace, `/proc/PID/net/unix`.
///
/// # Errors
/// Those of the file system; `InvalidData` if the list is longer than 16 MiB.
pub fn listening(list: impl AsRef<Path>) -> io::Result<BTreeSet<PathBuf>> {
    let list = sys::file::read_bounded(list, MAX_LIST_BYTES, sys::file::FollowLinks::Follow)?;
    let lines = list.split(|byte| *byte == b'\n');
    Ok(lines
        .filter_map(listening_path)
        .map(PathBuf::from)
        .collect())
}

/// The path of a line of the list, if the socket listens: number, references, protocol, flags, type,
/// state, inode, path.
fn listening_path(line: &[u8]) -> Option<std::ffi::OsString> {
    let mut rest = line;
    let mut field = || {
        let start = rest.iter().position(|byte| *byte != b' ')?;
        let (_, from) = rest.split_at_checked(start)?;
        let len = from.iter().position(|byte| *byte == b' ')?;
        let (found, behind) = from.split_at_checked(len)?;
        rest = behind;
        Some(found)
    };
    let (_number, _references, _protocol) = (field()?, field()?, field()?);
    let flags = std::str::from_utf8(field()?).ok()?;
    let flags = u32::from_str_radix(flags, 16).ok()?;
    let (_type, _state, _inode) = (field()?, field()?, field()?);
    // The rest, because a path may have blanks and may repeat the inode's digits.
    let path = rest.strip_prefix(b" ")?;
    let listens = flags & ACCEPTS != 0 && path.starts_with(b"/");
    listens.then(|| std::ffi::OsStr::from_bytes(path).to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("agent-link-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn socket(&self, name: &str) -> (PathBuf, UnixListener) {
            let name = format!("s.{}.sshd.{name}", host_letters());
            let listener = UnixListener::bind(self.0.join(&name)).unwrap();
            (name.into(), listener)
        }

        fn follow(&self, but: Option<&Path>) -> Option<PathBuf> {
            follow_newest(&self.0, sys::process::effective_uid(), but).unwrap();
            fs::read_link(path_in(&self.0)).ok()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_link_follows_the_newest_socket_that_is_served() {
        let folder = Folder::new("newest");
        assert_eq!(folder.follow(None), None);
        let (one, _one) = folder.socket("1.a");
        assert_eq!(folder.follow(None), Some(one.clone()));
        let (two, two_listens) = folder.socket("2.b");
        assert_eq!(folder.follow(None), Some(two.clone()));
        let leaving = folder.0.join(&two);
        assert_eq!(folder.follow(Some(&leaving)), Some(one.clone()));
        assert_eq!(folder.follow(None), Some(two));
        // A server that was killed leaves its socket.
        drop(two_listens);
        assert_eq!(folder.follow(None), Some(one.clone()));
        let leaving = folder.0.join(&one);
        assert_eq!(folder.follow(Some(&leaving)), None);
    }

    #[test]
    fn only_sockets_of_the_user_and_of_servers_are_followed() {
        let folder = Folder::new("others");
        let (_, _listener) = folder.socket("1.a");
        let other = sys::process::effective_uid() + 1;
        follow_newest(&folder.0, other, None).unwrap();
        assert!(fs::read_link(path_in(&folder.0)).is_err());
        let _local = UnixListener::bind(folder.0.join("s.abc.agent.1.x")).unwrap();
        let forced = format!("s.{}.sshd-forced.3.x", host_letters());
        let _forced = UnixListener::bind(folder.0.join(forced)).unwrap();
        fs::write(folder.0.join(format!("s.{}.sshd.2.x", host_letters())), "").unwrap();
        assert!(
            folder
                .follow(None)
                .is_some_and(|name| name.ends_with(format!("s.{}.sshd.1.a", host_letters())))
        );
        fs::remove_file(path_in(&folder.0)).unwrap();
        fs::write(path_in(&folder.0), "mine").unwrap();
        let refused = follow_newest(&folder.0, sys::process::effective_uid(), None);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(path_in(&folder.0)).unwrap(), "mine");
    }

    #[test]
    fn lines_of_the_kernels_list() {
        let path = |line: &str| listening_path(line.as_bytes());
        assert_eq!(
            path("0000000000000000: 00000002 00000000 00010000 0001 01 37613 /a b/s").unwrap(),
            "/a b/s"
        );
        assert_eq!(
            path("0000000000000000: 00000002 00000000 00010000 0001 01 37613 /a/s.37613.x")
                .unwrap(),
            "/a/s.37613.x"
        );
        for other in [
            "Num       RefCount Protocol Flags    Type St Inode Path",
            "0000000000000000: 00000003 00000000 00000000 0001 03 37613 /a",
            "0000000000000000: 00000002 00000000 00010000 0001 01 37613 @abstract",
            "0000000000000000: 00000002 00000000 00010000 0001 01 37613",
            "",
        ] {
            assert_eq!(path(other), None, "{other}");
        }
    }
}
