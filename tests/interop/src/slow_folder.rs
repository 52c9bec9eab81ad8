//! A directory whose files are slow: each read and each write of a piece is delayed. It is a
//! separate file system (FUSE), served by a thread of the test; this needs root and `/dev/fuse`.
//!
//! Supports the part of the protocol that plain copies use: looking up, creating, reading, writing
//! and truncating files of one directory. Layouts are those of `linux/fuse.h`, version 7.31.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sys::io::PollFd;

use crate::account::is_root;
use crate::mounted::Mounted;
use crate::scratch::Scratch;

const DEVICE: &str = "/dev/fuse";
/// Limit on the data of one write, bytes.
const MAX_WRITE: u32 = 128 << 10;
/// Lengths of the headers of requests and answers, bytes.
const REQUEST_HEAD: usize = 40;
const ANSWER_HEAD: usize = 16;
/// The directory's node number; files have the following ones.
const ROOT: u64 = 1;
/// Reads and writes are forwarded as they are called, without a cache; a file is closed without a
/// request, otherwise a process with an open file could not end while the directory hangs.
const DIRECT_IO: u32 = 1;
const NO_FLUSH: u32 = 1 << 5;

mod opcode {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const SETATTR: u32 = 4;
    pub(super) const OPEN: u32 = 14;
    pub(super) const READ: u32 = 15;
    pub(super) const WRITE: u32 = 16;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const INIT: u32 = 26;
    pub(super) const CREATE: u32 = 35;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const BATCH_FORGET: u32 = 42;
}

const NO_ENTRY: i32 = 2;
const NO_SUCH_CALL: i32 = 38;
/// The flag of SETATTR for the size.
const SETS_SIZE: u32 = 1 << 3;

/// The behaviour of a slow directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manners {
    /// It answers with a delay.
    Slow,
    /// It does not read requests. Only the end of the process ends its request.
    Deaf,
    /// It reads requests and does not answer. The kernel holds even a killed process.
    Dumb,
}

/// A mounted slow directory; unmounted when this is dropped.
#[derive(Debug)]
pub struct SlowFolder {
    mounted: Mounted,
    asked: Arc<Asked>,
}

/// The behaviour of the serving thread.
#[derive(Debug)]
struct Asked {
    /// Locked while a request is handled.
    manners: Mutex<Manners>,
    /// Locked for a moment before each request, and by a thread that waits to change the behaviour:
    /// otherwise the serving thread would lock again before a waiter wakes up.
    gate: Mutex<()>,
}

impl SlowFolder {
    /// Mounts one on a new directory in `scratch`, with these files; delays each read and write by
    /// `delay`.
    ///
    /// # Errors
    /// One line saying why there can be none.
    pub fn mount(
        scratch: &Scratch,
        files: &[(&str, Vec<u8>)],
        delay: Duration,
    ) -> Result<Self, String> {
        if !is_root() {
            return Err("needs root".into());
        }
        let device = OpenOptions::new().read(true).write(true).open(DEVICE);
        let device = device.map_err(|error| format!("{DEVICE}: {error}"))?;
        let path = scratch.join("slow");
        std::fs::create_dir_all(&path).map_err(|error| error.to_string())?;
        let copy = device.try_clone().map_err(|error| error.to_string())?;
        let options = "fd=0,rootmode=40000,user_id=0,group_id=0,allow_other";
        let mut mount = Command::new("mount");
        mount.args(["-i", "-t", "fuse", "-o", options, "slow"]);
        let mounted = Mounted::at(&path, mount.stdin(Stdio::from(copy)))?;
        let mut answers = Answers {
            device,
            delay,
            files: files
                .iter()
                .map(|(name, bytes)| ((*name).to_owned(), bytes.clone()))
                .collect(),
            since: SystemTime::now(),
            kept: Vec::new(),
        };
        let asked = Arc::new(Asked {
            manners: Mutex::new(Manners::Slow),
            gate: Mutex::new(()),
        });
        let theirs = Arc::clone(&asked);
        // It ends after the unmount.
        thread::spawn(move || while answers.turn(&theirs).is_some() {});
        Ok(Self { mounted, asked })
    }

    /// Changes the behaviour. Earlier requests have been answered by then, or are not answered
    /// until it is [`Manners::Slow`] again.
    pub fn behave(&self, manners: Manners) {
        let _gate = locked(&self.asked.gate);
        *locked(&self.asked.manners) = manners;
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.mounted.path()
    }
}

impl Drop for SlowFolder {
    fn drop(&mut self) {
        self.behave(Manners::Slow);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Concatenates integers.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn u32s(mut self, values: &[u32]) -> Self {
        for value in values {
            self.0.extend(value.to_ne_bytes());
        }
        self
    }

    fn u64s(mut self, values: &[u64]) -> Self {
        for value in values {
            self.0.extend(value.to_ne_bytes());
        }
        self
    }

    fn more(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }
}

struct Answers {
    device: File,
    delay: Duration,
    files: Vec<(String, Vec<u8>)>,
    since: SystemTime,
    /// Requests that were read and not answered.
    kept: Vec<Vec<u8>>,
}

impl Answers {
    /// Handles one request, if there is one; `None` after the end.
    fn turn(&mut self, asked: &Asked) -> Option<()> {
        drop(locked(&asked.gate));
        let now = locked(&asked.manners);
        if *now == Manners::Slow {
            for request in std::mem::take(&mut self.kept) {
                self.answer_one(&request)?;
            }
        }
        if *now == Manners::Deaf {
            drop(now);
            thread::sleep(Duration::from_millis(10));
            return Some(());
        }
        let mut fds = [PollFd::new(self.device.as_fd(), true, false)];
        if sys::io::poll(&mut fds, Some(Duration::from_millis(10))).ok()? == 0 {
            return Some(());
        }
        let mut request = vec![0; 1 << 20];
        let count = self.device.read(&mut request).ok()?;
        request.truncate(count);
        if *now == Manners::Dumb {
            self.kept.push(request);
            return Some(());
        }
        self.answer_one(&request)
    }

    fn answer_one(&mut self, request: &[u8]) -> Option<()> {
        let (code, unique) = (u32_at(request, 4)?, u64_at(request, 8)?);
        let node = u64_at(request, 16)?;
        let body = request.get(REQUEST_HEAD..)?;
        let silent = [opcode::FORGET, opcode::BATCH_FORGET, opcode::INTERRUPT];
        if silent.contains(&code) {
            return Some(());
        }
        let (error, answer) = match self.answer(code, node, body) {
            Ok(fields) => (0, fields.0),
            Err(error) => (-error, Vec::new()),
        };
        let len = u32::try_from(ANSWER_HEAD + answer.len()).ok()?;
        let message = Fields::default()
            .u32s(&[len, error.cast_unsigned()])
            .u64s(&[unique])
            .more(&answer);
        // An interrupted request needs no answer.
        let _ = self.device.write(&message.0);
        Some(())
    }

    fn answer(&mut self, code: u32, node: u64, body: &[u8]) -> Result<Fields, i32> {
        match code {
            opcode::INIT => Ok(init()),
            opcode::LOOKUP => {
                let name = text(body);
                let there = self.files.iter().position(|(each, _)| *each == name);
                Ok(self.entry(there.ok_or(NO_ENTRY)?))
            }
            opcode::CREATE => {
                // Flags, mode, umask and flags come before the name.
                let name = text(body.get(16..).ok_or(NO_ENTRY)?);
                self.files.push((name, Vec::new()));
                let opened = opened();
                Ok(self.entry(self.files.len() - 1).more(&opened.0))
            }
            opcode::GETATTR => Ok(self.attributes(node)),
            opcode::SETATTR => {
                let sets = u32_at(body, 0).unwrap_or_default();
                if sets & SETS_SIZE != 0 {
                    let len = usize_of(u64_at(body, 16).unwrap_or_default());
                    self.file(node)?.resize(len, 0);
                }
                Ok(self.attributes(node))
            }
            opcode::OPEN => Ok(opened()),
            opcode::READ => {
                thread::sleep(self.delay);
                let (at, len) = (u64_at(body, 8), u32_at(body, 16));
                let at = usize_of(at.ok_or(NO_ENTRY)?);
                let len = usize_of(u64::from(len.ok_or(NO_ENTRY)?));
                let file = self.file(node)?;
                let rest = file.get(at.min(file.len())..).unwrap_or_default();
                Ok(Fields(
                    rest.get(..len.min(rest.len())).unwrap_or_default().to_vec(),
                ))
            }
            opcode::WRITE => {
                thread::sleep(self.delay);
                let at = usize_of(u64_at(body, 8).ok_or(NO_ENTRY)?);
                let data = body.get(40..).ok_or(NO_ENTRY)?;
                let file = self.file(node)?;
                file.resize(file.len().max(at + data.len()), 0);
                file[at..at + data.len()].copy_from_slice(data);
                let len = u32::try_from(data.len()).map_err(|_| NO_ENTRY)?;
                Ok(Fields::default().u32s(&[len, 0]))
            }
            opcode::RELEASE => Ok(Fields::default()),
            _ => Err(NO_SUCH_CALL),
        }
    }

    fn file(&mut self, node: u64) -> Result<&mut Vec<u8>, i32> {
        let index = usize_of(node.saturating_sub(ROOT + 1));
        self.files
            .get_mut(index)
            .map(|(_, bytes)| bytes)
            .ok_or(NO_ENTRY)
    }

    fn entry(&self, index: usize) -> Fields {
        let node = ROOT + 1 + u64::try_from(index).unwrap_or_default();
        // Generation, and validity of name and attributes: none.
        Fields::default()
            .u64s(&[node, 0, 0, 0])
            .u32s(&[0, 0])
            .more(&self.attribute_fields(node).0)
    }

    fn attributes(&self, node: u64) -> Fields {
        Fields::default()
            .u64s(&[0])
            .u32s(&[0, 0])
            .more(&self.attribute_fields(node).0)
    }

    fn attribute_fields(&self, node: u64) -> Fields {
        let index = usize_of(node.saturating_sub(ROOT + 1));
        let file = (node > ROOT).then(|| self.files.get(index)).flatten();
        let size = file.map_or(0, |(_, bytes)| {
            u64::try_from(bytes.len()).unwrap_or_default()
        });
        let mode = if node == ROOT { 0o040_755 } else { 0o100_644 };
        let since = self.since.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = since.as_secs();
        Fields::default()
            .u64s(&[node, size, size.div_ceil(512), seconds, seconds, seconds])
            // Nanoseconds of three times, mode, links, owner and group, device, block size, flags.
            .u32s(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])
    }
}

fn text(bytes: &[u8]) -> String {
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

fn init() -> Fields {
    Fields::default()
        // Version, limit on read-ahead, flags, requests in the background, limit on writes.
        .u32s(&[7, 31, 0, 0, 12 | 9 << 16, MAX_WRITE])
        // Granularity of times, limit on pages and alignment, and unused fields.
        .u32s(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

fn opened() -> Fields {
    Fields::default()
        .u64s(&[0])
        .u32s(&[DIRECT_IO | NO_FLUSH, 0])
}
