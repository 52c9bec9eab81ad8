//! RevokedKeys: lists of keys that log nobody in, each parsed once and again when its file
//! changes.
//!
//! Invariants: a key counts as revoked when any of the files names it, and when any of them cannot
//! be read or understood whole; a list that was parsed is used only while device, inode, size and
//! times of its file are the same. The limit on a list's size is [`keys::krl::MAX_FILE_BYTES`].

use std::cell::RefCell;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use keys::PresentedKey;
use keys::krl::{KrlError, RevocationList};
use sys::file::Links;

use crate::log::Log;

/// The number of /dev/null: major 1, minor 3 (Linux, Documentation/admin-guide/devices.txt).
const NULL_DEVICE: u64 = 0x0103;

/// The lists of one connection, of which each offered key is asked.
#[derive(Debug, Default)]
pub(crate) struct RevokedKeys {
    parsed: RefCell<Vec<Parsed>>,
}

/// A list as its file was when it was read.
#[derive(Debug)]
struct Parsed {
    path: String,
    state: FileState,
    list: Result<RevocationList, String>,
}

/// What changes when a file is replaced or written to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// The same of the inode, which no user can set back.
    changed: (i64, i64),
}

impl FileState {
    fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Whether the path leads to the null device, whatever its name there.
fn is_null_device(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| {
        metadata.file_type().is_char_device() && metadata.rdev() == NULL_DEVICE
    })
}

impl RevokedKeys {
    /// True when a file of `paths` names the key, the key in its certificate, the certificate or
    /// its authority; true also when a file cannot be read, which is logged with the reason.
    pub(super) fn contains(&self, paths: &[String], key: &PresentedKey, log: &Log) -> bool {
        paths.iter().any(|path| {
            let revoked = self.ask(path, log, |list| list.is_revoked(key));
            match &revoked {
                Ok(false) => {}
                Ok(true) => log.error(&format!(
                    "Authentication key {} revoked by file {path}",
                    keys::fingerprint::sha256(&key.key().blob())
                )),
                Err(reason) => log.error(&format!(
                    "RevokedKeys {path}: {reason}; all keys are refused until this is mended"
                )),
            }
            revoked.unwrap_or(true)
        })
    }

    fn ask<T>(
        &self,
        path: &str,
        log: &Log,
        question: impl Fn(&RevocationList) -> T,
    ) -> Result<T, String> {
        // An empty list wherever one must be named.
        if is_null_device(path) {
            return Ok(question(&RevocationList::default()));
        }
        let text = |error: io::Error| error.to_string();
        let (file, metadata) = sys::file::open_regular_known(path, Links::Follow).map_err(text)?;
        let state = FileState::of(&metadata);
        let mut parsed = self.parsed.borrow_mut();
        let known = parsed.iter().position(|entry| entry.path == path);
        if let Some(at) = known
            && parsed.get(at).is_some_and(|entry| entry.state != state)
        {
            parsed.remove(at);
        }
        if !parsed.iter().any(|entry| entry.path == path) {
            log.debug(&format!("reading revocation list {path}"));
            let list = RevocationList::read(&file);
            // What the system could not read now it may be able to read for the next key.
            if let Err(KrlError::Io(error)) = list {
                return Err(text(error));
            }
            parsed.push(Parsed {
                path: path.to_owned(),
                state,
                list: list.map_err(|error| error.to_string()),
            });
        }
        match parsed.iter().find(|entry| entry.path == path) {
            Some(entry) => entry.list.as_ref().map(question).map_err(Clone::clone),
            None => Err("the list was not kept".to_owned()),
        }
    }
}
