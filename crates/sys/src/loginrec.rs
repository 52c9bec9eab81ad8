//! Login records in the formats of utmp(5): utmp (current logins), wtmp (past logins), btmp (failed
//! attempts), lastlog (last login of each user).
//!
//! Other programs use the same files, so records are written under the fcntl lock that libc takes.
//! Missing files are not created, because their absence disables the records.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::{Pid, Uid};

const LINE_LEN: usize = 32;
const NAME_LEN: usize = 32;
const HOST_LEN: usize = 256;
const ID_LEN: usize = 4;

/// Field offsets of `struct utmp`. On x86-64, riscv64 and ppc64le the times are 32 bits wide
/// (`__WORDSIZE_TIME64_COMPAT32` of bits/wordsize.h), as they are on armv7; on aarch64 and s390x they have 64 bits.
#[cfg(not(any(target_arch = "aarch64", target_arch = "s390x")))]
mod layout {
    pub const SESSION: usize = 336;
    pub const SECONDS: usize = 340;
    pub const MICROS: usize = 344;
    pub const ADDRESS: usize = 348;
    pub const RECORD_LEN: usize = 384;
    pub const WORD: usize = 4;
    pub const LASTLOG_TIME_LEN: usize = 4;
}
#[cfg(any(target_arch = "aarch64", target_arch = "s390x"))]
mod layout {
    pub const SESSION: usize = 336;
    pub const SECONDS: usize = 344;
    pub const MICROS: usize = 352;
    pub const ADDRESS: usize = 360;
    pub const RECORD_LEN: usize = 400;
    pub const WORD: usize = 8;
    pub const LASTLOG_TIME_LEN: usize = 8;
}

const TYPE: usize = 0;
const PID: usize = 4;
const LINE: usize = 8;
const ID: usize = 40;
const NAME: usize = 44;
const HOST: usize = 76;
const LASTLOG_LEN: usize = layout::LASTLOG_TIME_LEN + LINE_LEN + HOST_LEN;

const USER_PROCESS: i16 = 7;
const DEAD_PROCESS: i16 = 8;
const LOGIN_PROCESS: i16 = 6;

/// Limit on the utmp records that are searched for a terminal's slot.
const MAX_SLOTS: u64 = 65_536;
/// Attempts to take a lock that another process holds, and the pause between them in milliseconds.
const LOCK_TRIES: u32 = 25;
const LOCK_PAUSE_MS: u64 = 20;

/// Paths of the record files; tests use other ones.
#[derive(Debug, Clone)]
pub struct RecordFiles {
    /// Current logins.
    pub utmp: PathBuf,
    /// Past logins and logouts.
    pub wtmp: PathBuf,
    /// Failed attempts.
    pub btmp: PathBuf,
    /// Last login of each user.
    pub lastlog: PathBuf,
}

impl Default for RecordFiles {
    fn default() -> Self {
        Self {
            utmp: "/var/run/utmp".into(),
            wtmp: "/var/log/wtmp".into(),
            btmp: "/var/log/btmp".into(),
            lastlog: "/var/log/lastlog".into(),
        }
    }
}

/// A login on a terminal.
#[derive(Debug, Clone)]
pub struct LoginRecord<'a> {
    /// User name.
    pub user: &'a str,
    /// User id.
    pub uid: Uid,
    /// Terminal device without `/dev/` (`pts/3`).
    pub line: &'a str,
    /// Name or address of the peer as text.
    pub host: &'a str,
    /// Address of the peer.
    pub address: Option<IpAddr>,
    /// Process of the record (the session's).
    pub pid: Pid,
    /// Time in seconds and microseconds since 1970.
    pub time: (u64, u32),
}

/// Time and origin of a user's last login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastLogin {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Terminal device without `/dev/`.
    pub line: String,
    /// Name or address of the peer; empty for a local login.
    pub host: String,
}

impl RecordFiles {
    /// Records a login in utmp, wtmp and lastlog, as far as these files exist. A failure with one
    /// file does not prevent the records in the others.
    ///
    /// # Errors
    /// The first failure, after all files were tried. The caller should let the login go on.
    pub fn login(&self, login: &LoginRecord<'_>) -> io::Result<()> {
        let record = record(USER_PROCESS, login);
        let first = update_utmp(&self.utmp, &record);
        let second = append(&self.wtmp, &record);
        let third = write_lastlog(&self.lastlog, login);
        first.and(second).and(third)
    }

    /// Records the end of a session in utmp and wtmp.
    ///
    /// # Errors
    /// As [`RecordFiles::login`].
    pub fn logout(&self, line: &str, pid: Pid, time: (u64, u32)) -> io::Result<()> {
        let gone = LoginRecord {
            user: "",
            uid: 0,
            line,
            host: "",
            address: None,
            pid,
            time,
        };
        let record = record(DEAD_PROCESS, &gone);
        let first = update_utmp(&self.utmp, &record);
        first.and(append(&self.wtmp, &record))
    }

    /// Records a failed attempt in btmp, unless the file is accessible to others: users type
    /// passwords where names belong.
    ///
    /// # Errors
    /// As [`RecordFiles::login`]; `PermissionDenied` if the file is accessible to others.
    pub fn failure(&self, attempt: &LoginRecord<'_>) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt;
        let Some(file) = open(&self.btmp, OFlags::WRONLY | OFlags::APPEND)? else {
            return Ok(());
        };
        let metadata = file.metadata()?;
        if metadata.mode() & 0o007 != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "everybody can read btmp (chmod o= it)",
            ));
        }
        append(&self.btmp, &record(LOGIN_PROCESS, attempt))
    }

    /// The user's last login; `None` if there was none or lastlog does not exist.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn last_login(&self, uid: Uid) -> io::Result<Option<LastLogin>> {
        let Some(file) = open(&self.lastlog, OFlags::RDONLY)? else {
            return Ok(None);
        };
        let mut entry = [0_u8; LASTLOG_LEN];
        match file.read_exact_at(&mut entry, lastlog_offset(uid)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let (time, rest) = entry.split_at(layout::LASTLOG_TIME_LEN);
        let (line, host) = rest.split_at(LINE_LEN);
        let seconds = read_word(time);
        Ok((seconds != 0).then(|| LastLogin {
            seconds,
            line: c_text(line),
            host: c_text(host),
        }))
    }
}

fn record(kind: i16, login: &LoginRecord<'_>) -> [u8; layout::RECORD_LEN] {
    let mut out = [0_u8; layout::RECORD_LEN];
    put(&mut out, TYPE, &kind.to_ne_bytes(), 2);
    put(&mut out, PID, &login.pid.to_ne_bytes(), 4);
    put(&mut out, LINE, login.line.as_bytes(), LINE_LEN);
    put(&mut out, ID, id_of(login.line).as_bytes(), ID_LEN);
    put(&mut out, NAME, login.user.as_bytes(), NAME_LEN);
    put(&mut out, HOST, login.host.as_bytes(), HOST_LEN);
    put_word(&mut out, layout::SESSION, 0);
    put_word(&mut out, layout::SECONDS, login.time.0);
    put_word(&mut out, layout::MICROS, u64::from(login.time.1));
    match login.address {
        Some(IpAddr::V4(v4)) => put(&mut out, layout::ADDRESS, &v4.octets(), 4),
        Some(IpAddr::V6(v6)) => put(&mut out, layout::ADDRESS, &v6.octets(), 16),
        None => {}
    }
    out
}

/// Value of `ut_id`: by convention the last four characters of the terminal's name, without `tty`.
fn id_of(line: &str) -> &str {
    let line = line.strip_prefix("tty").unwrap_or(line);
    let start = line.len().saturating_sub(ID_LEN);
    line.get(start..).unwrap_or_default()
}

fn put(out: &mut [u8], offset: usize, bytes: &[u8], max: usize) {
    let bytes = bytes.get(..max).unwrap_or(bytes);
    if let Some(target) = out.get_mut(offset..offset + bytes.len()) {
        target.copy_from_slice(bytes);
    }
}

/// Stores an integer of the layout's width; larger values saturate.
fn put_word(out: &mut [u8], offset: usize, value: u64) {
    if layout::WORD == 4 {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        put(out, offset, &value.to_ne_bytes(), 4);
    } else {
        put(out, offset, &value.to_ne_bytes(), 8);
    }
}

fn read_word(bytes: &[u8]) -> i64 {
    match (<[u8; 4]>::try_from(bytes), <[u8; 8]>::try_from(bytes)) {
        // Read as unsigned, so that the 32-bit field lasts until 2106.
        (Ok(four), _) => i64::from(u32::from_ne_bytes(four)),
        (_, Ok(eight)) => i64::from_ne_bytes(eight),
        _ => 0,
    }
}

fn c_text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0);
    let text = field.get(..end.unwrap_or(field.len())).unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

fn lastlog_offset(uid: Uid) -> u64 {
    u64::from(uid) * LASTLOG_LEN as u64
}

/// Opens one of the files; `None` if it does not exist.
fn open(path: &Path, flags: OFlags) -> io::Result<Option<File>> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => {
            let file = File::from(fd);
            if !file.metadata()?.is_file() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            Ok(Some(file))
        }
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Takes the lock that libc's pututxline takes; it is released when the file closes.
fn lock(file: &File) -> io::Result<()> {
    for _ in 0..LOCK_TRIES {
        // SAFETY: flock is a plain C struct: all zeroes is valid and means the whole file.
        let mut range: libc::flock = unsafe { std::mem::zeroed() };
        range.l_type = libc::c_short::try_from(libc::F_WRLCK).unwrap_or(1);
        // SAFETY: an open descriptor and a live local.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const range) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => {}
            _ => return Err(error),
        }
        std::thread::sleep(std::time::Duration::from_millis(LOCK_PAUSE_MS));
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// Writes the record to the slot of its terminal, or to a new slot at the end.
fn update_utmp(path: &Path, record: &[u8; layout::RECORD_LEN]) -> io::Result<()> {
    let Some(file) = open(path, OFlags::RDWR)? else {
        return Ok(());
    };
    lock(&file)?;
    let len = layout::RECORD_LEN as u64;
    let slots = (file.metadata()?.len() / len).min(MAX_SLOTS);
    let mut slot = [0_u8; layout::RECORD_LEN];
    let mut index = 0;
    while index < slots {
        file.read_exact_at(&mut slot, index * len)?;
        let kind = slot
            .first_chunk::<2>()
            .map_or(0, |two| i16::from_ne_bytes(*two));
        // INIT, LOGIN, USER and DEAD records have terminals.
        if (5..=8).contains(&kind) && slot.get(ID..ID + ID_LEN) == record.get(ID..ID + ID_LEN) {
            break;
        }
        index += 1;
    }
    file.write_all_at(record, index * len)
}

/// Appends one record; truncates the file after a partial write, so that it holds only whole
/// records.
fn append(path: &Path, record: &[u8; layout::RECORD_LEN]) -> io::Result<()> {
    let Some(file) = open(path, OFlags::RDWR)? else {
        return Ok(());
    };
    lock(&file)?;
    let len = layout::RECORD_LEN as u64;
    let end = file.metadata()?.len() / len * len;
    let written = file.write_all_at(record, end);
    if written.is_err() {
        let _ = file.set_len(end);
    }
    written
}

fn write_lastlog(path: &Path, login: &LoginRecord<'_>) -> io::Result<()> {
    let Some(file) = open(path, OFlags::RDWR)? else {
        return Ok(());
    };
    let mut entry = [0_u8; LASTLOG_LEN];
    put_word(&mut entry, 0, login.time.0);
    let line = layout::LASTLOG_TIME_LEN;
    put(&mut entry, line, login.line.as_bytes(), LINE_LEN);
    put(&mut entry, line + LINE_LEN, login.host.as_bytes(), HOST_LEN);
    file.write_all_at(&entry, lastlog_offset(login.uid))
}

#[cfg(test)]
#[path = "loginrec_tests.rs"]
mod tests;
