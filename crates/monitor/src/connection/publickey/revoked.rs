//! RevokedKeys: lists of keys that are refused. Each list is parsed once, and again when its file
//! changes.
//!
//! Invariants: a key counts as revoked if any of the files names it, or if any of them cannot be
//! read and parsed completely; a parsed list is used only while its file's device, inode, size and
//! times are unchanged. The limit on a list's size is [`keys::krl::MAX_FILE_BYTES`].

use std::cell::RefCell;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use keys::PresentedKey;
use keys::krl::{KrlError, RevocationList};
use sys::file::FollowLinks;

use crate::log::Log;

/// Device number of /dev/null: major 1, minor 3 (Linux, Documentation/admin-guide/devices.txt).
const NULL_DEVICE: u64 = 0x0103;

/// The revocation lists of one connection, which all its keys are checked against.
#[derive(Debug, Default)]
pub(crate) struct RevokedKeys {
    parsed: RefCell<Vec<Parsed>>,
}

/// A list and the state of its file when it was read.
#[derive(Debug)]
struct Parsed {
    path: String,
    state: FileState,
    list: Result<RevocationList, String>,
}

/// The properties of a file that change when it is replaced or written to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// Time of the inode's last change, which no user can set.
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

/// True if the path leads to the null device, under any name.
fn is_null_device(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| {
        metadata.file_type().is_char_device() && metadata.rdev() == NULL_DEVICE
    })
}

impl RevokedKeys {
    /// Returns true if a file of `paths` names the plain key, the certificate or its authority, or
    /// if a file cannot be read; the reason is logged.
    pub(crate) fn contains(&self, paths: &[String], key: &PresentedKey, log: &Log) -> bool {
        paths.iter().any(|path| {
            let revoked = self.ask(path, log, |list| list.is_revoked(key));
            match &revoked {
                Ok(false) => {}
                Ok(true) => log.error(&format!(
                    "Authentication key {} revoked by file {path}",
                    keys::fingerprint::sha256(&key.key().blob())
                )),
                Err(reason) => log.error(&format!(
                    "RevokedKeys {path}: {reason}; all keys are refused until this is fixed"
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
        // The null device counts as an empty list.
        if is_null_device(path) {
            return Ok(question(&RevocationList::default()));
        }
        let text = |error: io::Error| error.to_string();
        let (file, metadata) =
            sys::file::open_regular_known(path, FollowLinks::Follow).map_err(text)?;
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
            // A read error may be temporary, so it is not kept for the next key.
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
