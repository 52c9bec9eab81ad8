//! Reads, writes and operations on descriptors: non-blocking reads into spare capacity, vectored
//! reads and writes, pipes, `poll`.
//!
//! Every call retries if a signal interrupts it. [`crate::epoll`] waits for many descriptors;
//! [`crate::file`] opens files.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};
use rustix::fs::OFlags;

use crate::ffi::{check, retry};

/// Largest number of slices per `readv` or `writev` (Linux `UIO_MAXIOV`).
pub const IOV_MAX: usize = 1024;

/// Reads at most `buffer.len()` bytes; 0 is end of file.
///
/// # Errors
/// `WouldBlock` on an empty non-blocking descriptor, else the kernel's error.
pub fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let fd = fd.as_fd();
    retry(|| rustix::io::read(fd, &mut *buffer))
}

/// Reads into the spare capacity of `buffer` and extends it by the bytes read; 0 is end of file.
/// Never reallocates: reserve capacity before the call.
///
/// # Errors
/// `InvalidInput` if there is no spare capacity, `WouldBlock` on an empty non-blocking descriptor,
/// else the kernel's error.
pub fn read_into(fd: impl AsFd, buffer: &mut BytesMut) -> io::Result<usize> {
    read_at_most(fd, buffer, usize::MAX)
}

/// As [`read_into`], limited to `most` bytes.
///
/// # Errors
/// As [`read_into`]; `InvalidInput` also if `most` is 0.
pub fn read_at_most(fd: impl AsFd, buffer: &mut BytesMut, most: usize) -> io::Result<usize> {
    let fd = fd.as_fd();
    let spare = buffer.spare_capacity_mut();
    let spare = match most.min(spare.len()) {
        0 => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "no spare capacity to read into",
            ));
        }
        room => &mut spare[..room],
    };
    let count = retry(|| rustix::io::read(fd, &mut *spare).map(|(filled, _)| filled.len()))?;
    // SAFETY: the kernel has just initialised `count` bytes of the spare capacity.
    unsafe { buffer.advance_mut(count) };
    Ok(count)
}

/// Writes as many of `bytes` as the descriptor accepts and returns their number.
///
/// # Errors
/// `WouldBlock` on a full non-blocking descriptor, else the kernel's error.
pub fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let fd = fd.as_fd();
    retry(|| rustix::io::write(fd, bytes))
}

/// Writes all of `bytes`; waits if a non-blocking descriptor is full.
///
/// # Errors
/// The kernel's error; `WriteZero` if a write accepts no bytes.
pub fn write_all(fd: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    let fd = fd.as_fd();
    while !bytes.is_empty() {
        match write(fd, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait_writable(fd, None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Vectored read; slices past [`IOV_MAX`] are left for the next call.
///
/// # Errors
/// As [`read`].
pub fn readv(fd: impl AsFd, slices: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let fd = fd.as_fd();
    let count = slices.len().min(IOV_MAX);
    let (slices, _) = slices.split_at_mut(count);
    retry(|| rustix::io::readv(fd, slices))
}

/// Vectored write; slices past [`IOV_MAX`] are left for the next call.
///
/// # Errors
/// As [`write()`].
pub fn writev(fd: impl AsFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    let fd = fd.as_fd();
    let slices = slices.get(..IOV_MAX).unwrap_or(slices);
    retry(|| rustix::io::writev(fd, slices))
}

/// Reads from `fd` until its end, at most `max_len` bytes. The descriptor must be blocking.
///
/// # Errors
/// `InvalidData` if more than `max_len` bytes follow, else the kernel's error.
pub fn read_to_end(fd: impl AsFd, max_len: usize) -> io::Result<Vec<u8>> {
    let fd = fd.as_fd();
    let mut out = Vec::new();
    let mut chunk = [0_u8; 2048];
    loop {
        let count = read(fd, &mut chunk)?;
        if count == 0 {
            return Ok(out);
        }
        if out.len() + count > max_len {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "more bytes than allowed",
            ));
        }
        out.extend_from_slice(chunk.get(..count).unwrap_or_default());
    }
}

/// Sets or clears `O_NONBLOCK`. The flag belongs to the open file description, which other
/// processes (a shell, a terminal) may share: restore it after use.
///
/// # Errors
/// The kernel's error.
pub fn set_nonblocking(fd: impl AsFd, nonblocking: bool) -> io::Result<()> {
    let fd = fd.as_fd();
    let flags = rustix::fs::fcntl_getfl(fd)?;
    let mut wanted = flags;
    wanted.set(OFlags::NONBLOCK, nonblocking);
    if wanted != flags {
        rustix::fs::fcntl_setfl(fd, wanted)?;
    }
    Ok(())
}

/// True if `O_NONBLOCK` is set.
///
/// # Errors
/// The kernel's error.
pub fn is_nonblocking(fd: impl AsFd) -> io::Result<bool> {
    Ok(rustix::fs::fcntl_getfl(fd.as_fd())?.contains(OFlags::NONBLOCK))
}

/// True for the error of a call that needs a new descriptor when this process or the system has the
/// most that it may have.
#[must_use]
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Opens the file of a pipe's or terminal's descriptor once more, in the same direction:
/// close-on-exec, and with flags of its own, so that `O_NONBLOCK` does not reach those who share the
/// first. `None` for other files, for the reading end of a pipe with a name, and where the kernel
/// permits no second opening.
#[must_use]
pub fn reopen(fd: impl AsFd) -> Option<OwnedFd> {
    /// Device number of the terminals that depend on who opens them (`/dev/tty`, `/dev/ptmx`).
    const RELATIVE: u32 = 5;
    let fd = fd.as_fd();
    let stat = rustix::fs::fstat(fd).ok()?;
    let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
    let is_device = rustix::fs::major(stat.st_rdev) != RELATIVE && is_terminal(fd);
    if !kind.is_fifo() && !is_device {
        return None;
    }
    let direction = rustix::fs::fcntl_getfl(fd).ok()? & OFlags::RWMODE;
    // A pipe with a name (fifo(7)) that is opened after its last writer has gone waits for the next
    // one: its end is never reported.
    if kind.is_fifo() && direction == OFlags::RDONLY && !has_pipefs(fd) {
        return None;
    }
    // A master without a terminal must not get this one.
    let flags = direction | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()
}

/// True for a pipe that pipe(2) has made.
fn has_pipefs(fd: BorrowedFd<'_>) -> bool {
    const PIPEFS_MAGIC: i128 = 0x5049_5045;
    rustix::fs::fstatfs(fd).is_ok_and(|found| i128::from(found.f_type) == PIPEFS_MAGIC)
}

/// Duplicates a descriptor, close-on-exec, to a number above 2.
///
/// # Errors
/// The kernel's error.
pub fn dup(fd: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 3)?)
}

/// Creates a pipe `(reader, writer)`, both close-on-exec and blocking.
///
/// # Errors
/// The kernel's error.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// Requests a pipe buffer of `bytes`; returns the size that the kernel set.
///
/// # Errors
/// The kernel's error (`EPERM` above the system's limit for users).
pub fn set_pipe_size(fd: impl AsFd, bytes: usize) -> io::Result<usize> {
    Ok(rustix::pipe::fcntl_setpipe_size(fd.as_fd(), bytes)?)
}

/// Number of bytes that are ready to be read (`FIONREAD`).
///
/// # Errors
/// The kernel's error.
pub fn bytes_available(fd: impl AsFd) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(fd.as_fd())?)
}

/// True if the descriptor is a terminal.
#[must_use]
pub fn is_terminal(fd: impl AsFd) -> bool {
    rustix::termios::isatty(fd.as_fd())
}

/// True if the descriptor is a pipe or a socket, for which poll and epoll always work.
#[must_use]
pub fn is_pipe_or_socket(fd: impl AsFd) -> bool {
    rustix::fs::fstat(fd.as_fd()).is_ok_and(|stat| {
        let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
        kind.is_fifo() || kind.is_socket()
    })
}

/// True if the descriptor is `/dev/null`, which never has data to read.
#[must_use]
pub fn is_null(fd: impl AsFd) -> bool {
    /// Linux's device number of `/dev/null` (Documentation/admin-guide/devices.txt).
    const NULL: (u32, u32) = (1, 3);
    rustix::fs::fstat(fd.as_fd()).is_ok_and(|stat| {
        let device = (
            rustix::fs::major(stat.st_rdev),
            rustix::fs::minor(stat.st_rdev),
        );
        rustix::fs::FileType::from_raw_mode(stat.st_mode).is_char_device() && device == NULL
    })
}

/// The process's standard input.
#[must_use]
pub fn stdin() -> BorrowedFd<'static> {
    rustix::stdio::stdin()
}

/// The process's standard output.
#[must_use]
pub fn stdout() -> BorrowedFd<'static> {
    rustix::stdio::stdout()
}

/// The process's standard error.
#[must_use]
pub fn stderr() -> BorrowedFd<'static> {
    rustix::stdio::stderr()
}

/// Opens `/dev/null` for reading and writing.
///
/// # Errors
/// The kernel's error.
pub fn null() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open(
        "/dev/null",
        flags,
        rustix::fs::Mode::empty(),
    )?)
}

/// Takes ownership of a descriptor that the parent process passed by number, and sets
/// close-on-exec. Call it once per number: a second owner would close a descriptor that it does not
/// own.
///
/// # Errors
/// `EBADF` if no such descriptor is open, `InvalidInput` for a negative number.
pub fn inherited(number: i32) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: only sets the one flag that a descriptor has, or fails where there is none.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: the descriptor is open, and by contract nothing else in this process owns it: the
    // parent passed it by exec under this number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Lets a program that this process executes have the descriptor, by the same number, or not.
///
/// # Errors
/// The kernel's error.
pub fn set_inheritable(fd: impl AsFd, yes: bool) -> io::Result<()> {
    let flags = match yes {
        true => rustix::io::FdFlags::empty(),
        false => rustix::io::FdFlags::CLOEXEC,
    };
    Ok(rustix::io::fcntl_setfd(fd.as_fd(), flags)?)
}

/// Duplicates `source` onto descriptor `target` (0, 1 or 2).
///
/// # Errors
/// `InvalidInput` for other targets, else the kernel's error.
pub fn replace_stdio(source: impl AsFd, target: i32) -> io::Result<()> {
    if !(0..=2).contains(&target) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: dup2 onto 0..=2 replaces a standard stream, which std never treats
    // as owned by anyone; `source` is open while borrowed.
    check(unsafe { libc::dup2(source.as_fd().as_raw_fd(), target) })?;
    Ok(())
}

/// Opens `/dev/null` on each of descriptors 0, 1, 2 that is closed, so that no later open gets one
/// of these numbers.
///
/// # Errors
/// The kernel's error.
pub fn ensure_stdio() -> io::Result<()> {
    for number in 0..=2 {
        // SAFETY: F_GETFD only inspects the descriptor table.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
            // SAFETY: the path is a terminated string; open takes the lowest free
            // number, which is `number` because all below it are open.
            check(unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) })?;
        }
    }
    Ok(())
}

/// A descriptor and the conditions to wait for in [`poll`].
pub struct PollFd<'fd> {
    inner: rustix::event::PollFd<'fd>,
}

impl<'fd> PollFd<'fd> {
    /// Waits for `fd` to become readable and/or writable (errors and hang-up always count).
    #[must_use]
    pub fn new(fd: BorrowedFd<'fd>, readable: bool, writable: bool) -> Self {
        use rustix::event::PollFlags;
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, readable);
        flags.set(PollFlags::OUT, writable);
        Self {
            inner: rustix::event::PollFd::from_borrowed_fd(fd, flags),
        }
    }

    /// Bytes, end of file or an error are ready to be read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        use rustix::event::PollFlags;
        self.inner
            .revents()
            .intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
    }

    /// A write would not block; it may fail.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        use rustix::event::PollFlags;
        self.inner
            .revents()
            .intersects(PollFlags::OUT | PollFlags::ERR | PollFlags::HUP)
    }

    /// The peer has closed its end or the descriptor has an error condition.
    #[must_use]
    pub fn is_hangup(&self) -> bool {
        use rustix::event::PollFlags;
        self.inner
            .revents()
            .intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
    }
}

/// Waits until one of `fds` is ready, at most for `timeout` (`None`: without limit); returns the
/// number of ready descriptors. Interruptions by signals do not shorten the timeout.
///
/// # Errors
/// The kernel's error.
pub fn poll(fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<usize> {
    let deadline = timeout.map(|length| Instant::now() + length);
    let mut inner: Vec<rustix::event::PollFd<'_>> = fds.iter().map(|fd| fd.inner.clone()).collect();
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.map(crate::time::timespec);
        match rustix::event::poll(&mut inner, left.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(count) => {
                for (fd, polled) in fds.iter_mut().zip(inner) {
                    fd.inner = polled;
                }
                return Ok(count);
            }
        }
    }
}

/// Waits until `fd` is readable; false if `timeout` expires first.
///
/// # Errors
/// The kernel's error.
pub fn wait_readable(fd: impl AsFd, timeout: Option<Duration>) -> io::Result<bool> {
    let mut fds = [PollFd::new(fd.as_fd(), true, false)];
    Ok(poll(&mut fds, timeout)? > 0)
}

/// Waits until `fd` is writable; false if `timeout` expires first.
///
/// # Errors
/// The kernel's error.
pub fn wait_writable(fd: impl AsFd, timeout: Option<Duration>) -> io::Result<bool> {
    let mut fds = [PollFd::new(fd.as_fd(), false, true)];
    Ok(poll(&mut fds, timeout)? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_are_opened_once_more_and_the_reading_ends_of_named_ones_are_not() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        use std::fs::OpenOptions;
        let (reader, writer) = pipe().unwrap();
        let again = reopen(&reader).unwrap();
        assert!(is_nonblocking(&again).unwrap());
        assert!(!is_nonblocking(&reader).unwrap());
        assert!(reopen(&writer).is_some());
        let path = std::env::temp_dir().join(format!("fulmar-reopen-{}", std::process::id()));
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let both = OpenOptions::new().read(true).write(true).open(&path);
        let reader = OpenOptions::new().read(true).open(&path).unwrap();
        let writer = OpenOptions::new().write(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        drop(both);
        assert!(reopen(&reader).is_none());
        assert!(reopen(&writer).is_some());
    }

    #[test]
    fn read_into_extends_by_what_came_and_never_grows() {
        let (reader, writer) = pipe().unwrap();
        write_all(&writer, b"hello world").unwrap();
        let mut buffer = BytesMut::with_capacity(5);
        let capacity = buffer.capacity();
        let count = read_into(&reader, &mut buffer).unwrap();
        assert_eq!(count, capacity.min(11));
        assert_eq!(&buffer[..], &b"hello world"[..count]);
        assert_eq!(buffer.capacity(), capacity);
        if buffer.len() == capacity {
            let error = read_into(&reader, &mut buffer).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn read_at_most_leaves_the_rest() {
        let (reader, writer) = pipe().unwrap();
        write_all(&writer, b"hello world").unwrap();
        let mut buffer = BytesMut::with_capacity(64);
        assert_eq!(read_at_most(&reader, &mut buffer, 5).unwrap(), 5);
        assert_eq!(read_at_most(&reader, &mut buffer, 100).unwrap(), 6);
        assert_eq!(&buffer[..], b"hello world");
        let error = read_at_most(&reader, &mut buffer, 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn empty_nonblocking_pipe_would_block_and_closed_one_ends() {
        let (reader, writer) = pipe().unwrap();
        set_nonblocking(&reader, true).unwrap();
        assert!(is_nonblocking(&reader).unwrap());
        let mut buffer = BytesMut::with_capacity(64);
        let error = read_into(&reader, &mut buffer).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(!wait_readable(&reader, Some(Duration::ZERO)).unwrap());
        drop(writer);
        assert!(wait_readable(&reader, None).unwrap());
        assert_eq!(read_into(&reader, &mut buffer).unwrap(), 0);
    }

    #[test]
    fn writev_takes_at_most_iov_max_slices() {
        let (reader, writer) = pipe().unwrap();
        let slices: Vec<IoSlice<'_>> = (0..IOV_MAX + 10).map(|_| IoSlice::new(b"x")).collect();
        assert_eq!(writev(&writer, &slices).unwrap(), IOV_MAX);
        let mut first = [0_u8; 1000];
        let mut second = [0_u8; 1000];
        let mut into = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(readv(&reader, &mut into).unwrap(), IOV_MAX);
        assert_eq!(second[23], b'x');
        assert_eq!(second[24], 0);
    }

    #[test]
    fn read_to_end_refuses_more_than_its_limit() {
        let (reader, writer) = pipe().unwrap();
        write_all(&writer, b"12345").unwrap();
        drop(writer);
        assert!(read_to_end(&reader, 4).is_err());
    }

    #[test]
    fn inherited_refuses_a_closed_number() {
        assert!(inherited(-1).is_err());
        assert!(inherited(99_999).is_err());
    }

    #[test]
    fn dup_is_close_on_exec() {
        let copy = dup(null().unwrap()).unwrap();
        let flags = rustix::io::fcntl_getfd(&copy).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }
}
