//! The open files and directories of a client. The slot of a handle is reused, but not its serial
//! number, so a stale handle is invalid.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::Code;
use crate::message::open_flag;
use crate::message::request::Open;
use sys::fs::{Directory, How, PathRoot};

use super::status::Failed;
use super::{Log, LogLevel, shown};
use crate::watch::{Targets, Watch};

/// An open file.
pub(super) struct File {
    pub(super) path: Vec<u8>,
    /// Shared with jobs.
    pub(super) fd: Arc<OwnedFd>,
    /// Number of bytes read.
    pub(super) read: u64,
    /// Number of bytes written.
    pub(super) written: u64,
    /// Offset of the first byte that could not be written, with the error. Writes after it are
    /// refused until it is written: a full disk must not leave a file of full length with holes.
    pub(super) failed: Option<(u64, Failed)>,
    /// Set for a client that claims to be the only writer.
    pub(super) watch: Option<Watch>,
}

/// An open directory.
pub(super) struct OpenDirectory {
    pub(super) path: Vec<u8>,
    pub(super) entries: Directory,
    /// A name that did not fit in the last answer.
    pub(super) left: Option<Vec<u8>>,
}

enum Opened {
    File(File),
    Directory(OpenDirectory),
}

struct Slot {
    serial: u32,
    open: Option<Opened>,
}

/// All handles of a client.
pub(super) struct Handles {
    slots: Vec<Slot>,
    free: Vec<usize>,
    max: usize,
    /// Files of which the client claims to be the only writer.
    targets: Targets,
}

impl Handles {
    pub(super) fn new(max: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            max,
            targets: Targets::default(),
        }
    }

    /// Number of open handles.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Maximum number of open handles.
    pub(super) fn max(&self) -> usize {
        self.max
    }

    fn has_room(&self) -> Result<(), Failed> {
        if self.len() < self.max {
            Ok(())
        } else {
            Err(Failed::new(Code::FAILURE, "too many open handles"))
        }
    }

    fn insert(&mut self, open: Opened) -> [u8; 8] {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                serial: 0,
                open: None,
            });
            self.slots.len() - 1
        });
        let mut handle = [0; 8];
        if let Some(slot) = self.slots.get_mut(index) {
            slot.serial = slot.serial.wrapping_add(1);
            slot.open = Some(open);
            let (number, serial) = handle.split_at_mut(4);
            number.copy_from_slice(&u32::try_from(index).unwrap_or(u32::MAX).to_be_bytes());
            serial.copy_from_slice(&slot.serial.to_be_bytes());
        }
        handle
    }

    fn index(&self, handle: &[u8]) -> Option<usize> {
        let (number, serial) = handle.split_first_chunk::<4>()?;
        let serial = u32::from_be_bytes(<[u8; 4]>::try_from(serial).ok()?);
        let index = usize::try_from(u32::from_be_bytes(*number)).ok()?;
        let slot = self.slots.get(index)?;
        (slot.serial == serial && slot.open.is_some()).then_some(index)
    }

    fn find(&mut self, handle: &[u8]) -> Result<&mut Opened, Failed> {
        let index = self.index(handle);
        let slot = index.and_then(|index| self.slots.get_mut(index));
        slot.and_then(|slot| slot.open.as_mut())
            .ok_or_else(Failed::bad_handle)
    }

    /// Returns the open file of a handle.
    pub(super) fn file(&mut self, handle: &[u8]) -> Result<&mut File, Failed> {
        match self.find(handle)? {
            Opened::File(file) => Ok(file),
            Opened::Directory(_) => Err(Failed::new(Code::FAILURE, "is a directory")),
        }
    }

    /// Returns the open directory of a handle.
    pub(super) fn directory(&mut self, handle: &[u8]) -> Result<&mut OpenDirectory, Failed> {
        match self.find(handle)? {
            Opened::Directory(directory) => Ok(directory),
            Opened::File(_) => Err(Failed::new(Code::FAILURE, "not a directory")),
        }
    }

    /// OPEN; returns the handle.
    pub(super) fn open(
        &mut self,
        place: &PathRoot,
        request: &Open<'_>,
        log: &dyn Log,
    ) -> Result<[u8; 8], Failed> {
        let mode = request.attributes.permissions.unwrap_or(0o666) & 0o7777;
        let fd = open(place, request.path, request.flags, mode, log, || {
            self.has_room()
        })?;
        let watched = request.attributes.sole_writer && request.flags & open_flag::WRITE != 0;
        let watch = watched.then(|| Watch::of(&fd)).transpose()?;
        if let Some(watch) = &watch {
            self.targets.add(watch);
        }
        Ok(self.insert(Opened::File(File {
            path: request.path.to_vec(),
            fd: Arc::new(fd),
            read: 0,
            written: 0,
            failed: None,
            watch,
        })))
    }

    /// Notes that this client has written the file without a handle.
    pub(super) fn wrote(&self, watch: &Watch) {
        self.targets.wrote(watch);
    }

    /// OPENDIR; returns the handle.
    pub(super) fn open_directory(
        &mut self,
        place: &PathRoot,
        path: &[u8],
    ) -> Result<[u8; 8], Failed> {
        self.has_room()?;
        let entries = place.open_directory(path)?;
        Ok(self.insert(Opened::Directory(OpenDirectory {
            path: path.to_vec(),
            entries,
            left: None,
        })))
    }

    /// CLOSE.
    pub(super) fn close(&mut self, handle: &[u8], log: &dyn Log) -> Result<(), Failed> {
        let index = self.index(handle).ok_or_else(Failed::bad_handle)?;
        if let Some(slot) = self.slots.get_mut(index) {
            let open = slot.open.take();
            self.free.push(index);
            if let Some(mut open) = open {
                log_close("", &open, log);
                open.check()?;
            }
        }
        Ok(())
    }

    /// Closes all handles when the client is gone.
    pub(super) fn close_all(&mut self, log: &dyn Log) {
        for slot in self.slots.drain(..) {
            if let Some(open) = slot.open {
                log_close("forced ", &open, log);
            }
        }
        self.free.clear();
    }
}

impl Opened {
    /// Fails if another process wrote the file.
    fn check(&mut self) -> std::io::Result<()> {
        match self {
            Self::File(File {
                watch: Some(watch),
                fd,
                ..
            }) => watch.check(&**fd),
            Self::File(_) | Self::Directory(_) => Ok(()),
        }
    }
}

fn log_close(how: &str, open: &Opened, log: &dyn Log) {
    if !log.wants(LogLevel::Info) {
        return;
    }
    let line = match open {
        Opened::File(file) => format!(
            "{how}close \"{}\" bytes read {} written {}",
            shown(&file.path),
            file.read,
            file.written
        ),
        Opened::Directory(directory) => format!("{how}closedir \"{}\"", shown(&directory.path)),
    };
    log.line(LogLevel::Info, &line);
}

/// Opens a file with the flags of OPEN and logs it.
pub(super) fn open(
    place: &PathRoot,
    path: &[u8],
    flags: u32,
    mode: u32,
    log: &dyn Log,
    check: impl FnOnce() -> Result<(), Failed>,
) -> Result<OwnedFd, Failed> {
    let has = |flag: u32| flags & flag != 0;
    if log.wants(LogLevel::Info) {
        let line = format!(
            "open \"{}\" flags {} mode 0{mode:o}",
            shown(path),
            flag_names(flags)
        );
        log.line(LogLevel::Info, &line);
    }
    check()?;
    let how = How {
        read: has(open_flag::READ),
        write: has(open_flag::WRITE),
        append: has(open_flag::APPEND),
        create: has(open_flag::CREATE),
        truncate: has(open_flag::TRUNCATE),
        exclusive: has(open_flag::EXCLUSIVE) && has(open_flag::CREATE),
        no_follow: false,
    };
    Ok(place.open(path, how, mode)?)
}

fn flag_names(flags: u32) -> String {
    let known = [
        (open_flag::READ, "READ"),
        (open_flag::WRITE, "WRITE"),
        (open_flag::APPEND, "APPEND"),
        (open_flag::CREATE, "CREATE"),
        (open_flag::TRUNCATE, "TRUNCATE"),
        (open_flag::EXCLUSIVE, "EXCL"),
    ];
    let set = known.iter().filter(|(flag, _)| flags & flag != 0);
    let names: Vec<&str> = set.map(|(_, name)| *name).collect();
    names.join(",")
}
