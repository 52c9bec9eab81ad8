//! Stream sockets with a path or an abstract name (unix(7)): listening, connecting, and the removal
//! of a left-over socket.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};

use super::{Connecting, unmapped};

fn unix_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        flags,
        None,
    )?)
}

/// Mode bits of a file that concern permissions.
const PERMISSIONS: u32 = 0o777;

/// Creates a listening socket at `path`: close-on-exec, non-blocking. The file gets the mode
/// 0777 less `mask`, whatever the process's umask is, and never has a wider one.
///
/// # Errors
/// The kernel's error: `AddrInUse` if the path exists, `InvalidInput` or `ENAMETOOLONG` for a path
/// of more than 107 bytes.
pub fn listen_unix(path: &Path, backlog: i32, mask: u32) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let fd = unix_socket()?;
    let mode = PERMISSIONS & !mask;
    // The file gets the mode of the socket less the umask, which is not changed, because other
    // threads make files.
    rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode))?;
    rustix::net::bind(&fd, &address)?;
    let listening = widen(path, mode).and_then(|()| Ok(rustix::net::listen(&fd, backlog)?));
    if let Err(error) = listening {
        let _ = unlink_own_socket(path);
        return Err(error);
    }
    Ok(fd)
}

/// Gives the new socket at `path` the bits of `mode` that the umask took away.
fn widen(path: &Path, mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&file)?;
    if found.st_mode & PERMISSIONS == mode {
        return Ok(());
    }
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    if !is_socket || found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(
            "another file has taken the socket's place",
        ));
    }
    // A descriptor of a path takes no other call before fchmodat2 (Linux 6.6).
    let open_file = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::chmod(open_file, Mode::from_raw_mode(mode))?)
}

/// Connects to the socket at `path`: close-on-exec, non-blocking.
///
/// # Errors
/// The kernel's error; `WouldBlock` if the listener's queue is full.
pub fn connect_unix(path: &Path) -> io::Result<Connecting> {
    let address = SocketAddrUnix::new(path)?;
    let fd = unix_socket()?;
    match rustix::net::connect(&fd, &address) {
        Ok(()) => Ok(Connecting::Done(fd)),
        Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::INTR) => {
            Ok(Connecting::InProgress(fd))
        }
        Err(error) => Err(error.into()),
    }
}

/// True if nobody listens at the socket `path`, or if the file is no socket; false if that is
/// unknown. Who listens there sees a connection that ends at once.
#[must_use]
pub fn is_abandoned(path: &Path) -> bool {
    match connect_unix(path) {
        Ok(_) => false,
        Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
    }
}

/// Listens on a name that is no path (unix(7), "abstract"), which ends with the socket:
/// close-on-exec, non-blocking.
///
/// # Errors
/// The kernel's error: `AddrInUse` if the name is taken.
pub fn listen_abstract(name: &[u8], backlog: i32) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new_abstract_name(name)?;
    let fd = unix_socket()?;
    rustix::net::bind(&fd, &address)?;
    rustix::net::listen(&fd, backlog)?;
    Ok(fd)
}

/// Connects to a listener of [`listen_abstract`]: close-on-exec, non-blocking.
///
/// # Errors
/// The kernel's error: `ConnectionRefused` without a listener, `WouldBlock` if its queue is full.
pub fn connect_abstract(name: &[u8]) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new_abstract_name(name)?;
    let fd = unix_socket()?;
    rustix::net::connect(&fd, &address)?;
    Ok(fd)
}

/// The file of a listening socket, told by device and number from another that has taken its path since.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    /// The file with this metadata, whose name is `path`.
    #[must_use]
    pub fn new(path: &Path, found: &fs::Metadata) -> Self {
        Self {
            path: path.to_owned(),
            device: found.dev(),
            inode: found.ino(),
        }
    }

    /// The file at `path`; a symbolic link is not followed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::new(path, &fs::symlink_metadata(path)?))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if it is still the file at its path.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode))
    }

    /// Removes it, if it is still the file at its path.
    pub fn remove(&self) {
        if self.is_in_place() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes `path` if it is a socket that this process's user owns. Returns true if it was removed;
/// false if there is nothing, something else, or somebody else's socket.
///
/// # Errors
/// The kernel's error.
pub fn unlink_own_socket(path: &Path) -> io::Result<bool> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let is_own = found.uid() == rustix::process::geteuid().as_raw();
    if !found.file_type().is_socket() || !is_own {
        return Ok(false);
    }
    fs::remove_file(path)?;
    Ok(true)
}

/// Accepts one connection of a stream listener of any family: close-on-exec, non-blocking. Returns
/// the peer's address if it is an IP address, with v4-mapped v6 addresses converted to v4.
///
/// # Errors
/// As [`accept`](super::accept).
pub fn accept_stream(listener: impl AsFd) -> io::Result<(OwnedFd, Option<std::net::SocketAddr>)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = listener.as_fd();
    let (fd, peer) = crate::ffi::retry(|| rustix::net::acceptfrom_with(listener, flags))?;
    let peer = peer.and_then(|peer| std::net::SocketAddr::try_from(peer).ok());
    Ok((fd, peer.map(unmapped)))
}

/// Copies received bytes into `buffer` without taking them from the socket; 0 at the end.
///
/// # Errors
/// `WouldBlock` without bytes, or the kernel's error.
pub fn peek(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let socket = socket.as_fd();
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let (count, _) = crate::ffi::retry(|| rustix::net::recv(socket, &mut *buffer, flags))?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn an_abstract_name_has_one_listener_and_ends_with_it() {
        let name = format!("fulmar-test-{}", std::process::id()).into_bytes();
        let refused = || connect_abstract(&name).unwrap_err().kind();
        assert_eq!(refused(), io::ErrorKind::ConnectionRefused);
        let listener = listen_abstract(&name, 1).unwrap();
        let taken = listen_abstract(&name, 1).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let client = connect_abstract(&name).unwrap();
        let (server, _) = accept_stream(&listener).unwrap();
        let own = rustix::process::geteuid().as_raw();
        for end in [&client, &server] {
            assert_eq!(crate::socket::peer_credentials(end).unwrap().uid, own);
        }
        drop(listener);
        assert_eq!(refused(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_listener_has_the_mode_of_its_mask_and_accepts_connections() {
        let folder = std::env::temp_dir().join(format!("fulmar-unix-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        let listener = listen_unix(&path, 8, 0o177).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // More than the umask permits.
        let wide = folder.join("wide");
        drop(listen_unix(&wide, 8, 0o001).unwrap());
        let mode = fs::metadata(&wide).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o776);
        assert_ne!(
            crate::process::umask() & 0o022,
            0,
            "the umask takes bits away"
        );
        let taken = listen_unix(&path, 8, 0o177).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let nobody = accept_stream(&listener).unwrap_err();
        assert_eq!(nobody.kind(), io::ErrorKind::WouldBlock);

        let Connecting::Done(client) = connect_unix(&path).unwrap() else {
            panic!("a local connection is established at once");
        };
        let (accepted, peer) = accept_stream(&listener).unwrap();
        assert_eq!(peer, None);
        let mut server = UnixStream::from(accepted);
        server.write_all(b"words").unwrap();
        let mut bytes = [0; 16];
        assert_eq!(peek(&client, &mut bytes).unwrap(), 5);
        assert_eq!(peek(&client, &mut bytes).unwrap(), 5);
        let mut client = UnixStream::from(client);
        assert_eq!(client.read(&mut bytes).unwrap(), 5);

        assert!(!is_abandoned(&path));
        drop(listener);
        assert!(is_abandoned(&path));
        assert!(unlink_own_socket(&path).unwrap());
        assert!(!unlink_own_socket(&path).unwrap());
        assert!(!is_abandoned(&path));
        fs::write(&path, "a file").unwrap();
        assert!(!unlink_own_socket(&path).unwrap());
        assert!(path.exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
