//! GSSAPIRenewalForcesRekey: whether the user's credentials were renewed since the server got them.
//!
//! Invariants: a file that has not changed is not read; a cache that is no file is looked at by a process, at most once
//! in [`PROCESS_MS`]; only later tickets of the same principal are a renewal.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gssapi::{CachedCredential, GssFailure};

/// Pause between two looks, milliseconds; that of the distributions' OpenSSH.
pub(crate) const LOOK_MS: u64 = 10_000;
/// Pause between two processes that look at a cache that is no file, and after one that failed, milliseconds.
const PROCESS_MS: u64 = 300_000;
/// Longest wait for a process that looks at a cache. The session waits with it.
const LOOK_WAIT: Duration = Duration::from_secs(3);
/// Tickets that end later by no more than this are the same ones, seconds: the library tells the rest of their life.
const SAME_END_S: u64 = 10;

/// What changes in a file when a new cache is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileMark {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl FileMark {
    fn of(path: &Path) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        Some(Self {
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
        })
    }
}

/// The credentials that the server has, and where newer ones would be.
#[derive(Debug)]
pub(super) struct RenewalWatch {
    identity: Option<String>,
    delegated: CachedCredential,
    /// The cache, if it is a file.
    file: Option<PathBuf>,
    mark: Option<FileMark>,
    /// Monotonic milliseconds before which no process looks.
    not_before_ms: u64,
}

impl RenewalWatch {
    /// Watches for credentials newer than `delegated`, of the principal `identity` or the default one.
    pub(super) fn new(delegated: CachedCredential, identity: Option<String>, now_ms: u64) -> Self {
        // Another principal's cache may be another one of a collection.
        let file = file_of(&delegated.cache).filter(|_| identity.is_none());
        let mark = file.as_deref().and_then(FileMark::of);
        let not_before_ms = if file.is_some() {
            0
        } else {
            now_ms + PROCESS_MS
        };
        Self {
            identity,
            delegated,
            file,
            mark,
            not_before_ms,
        }
    }

    /// The credentials that the cache has now, if they are newer.
    pub(super) fn renewed(&mut self, now_ms: u64) -> Result<Option<CachedCredential>, GssFailure> {
        if now_ms < self.not_before_ms || !self.may_have_changed(now_ms) {
            return Ok(None);
        }
        let found = gssapi::inquire(self.identity.clone(), LOOK_WAIT);
        if found.is_err() {
            self.pause(now_ms);
        }
        Ok(Some(found?).filter(|found| is_newer(&self.delegated, found)))
    }

    /// No process looks for a while.
    pub(super) fn pause(&mut self, now_ms: u64) {
        self.not_before_ms = now_ms + PROCESS_MS;
        // What failed is tried again even if the file stays as it is.
        self.mark = None;
    }

    /// The server gets these.
    pub(super) fn delegates(&mut self, credential: CachedCredential) {
        self.delegated = credential;
    }

    fn may_have_changed(&mut self, now_ms: u64) -> bool {
        let Some(path) = &self.file else {
            self.not_before_ms = now_ms + PROCESS_MS;
            return true;
        };
        let mark = FileMark::of(path);
        let has_changed = mark.is_some() && mark != self.mark;
        self.mark = mark;
        has_changed
    }
}

/// The file with the cache of this name.
fn file_of(cache: &str) -> Option<PathBuf> {
    let path = cache.strip_prefix("FILE:").unwrap_or(cache);
    path.starts_with('/').then(|| PathBuf::from(path))
}

fn is_newer(delegated: &CachedCredential, found: &CachedCredential) -> bool {
    found.name == delegated.name && found.end_s > delegated.end_s.saturating_add(SAME_END_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(name: &str, end_s: u64, cache: &str) -> CachedCredential {
        CachedCredential {
            name: name.into(),
            end_s,
            cache: cache.into(),
        }
    }

    #[test]
    fn only_later_tickets_of_the_same_principal_are_a_renewal() {
        let delegated = credential("ada", 1000, "");
        for (name, end_s, expected) in [
            ("ada", 1011, true),
            ("ada", 1010, false),
            ("ada", 900, false),
            ("bob", 5000, false),
        ] {
            let found = credential(name, end_s, "");
            assert_eq!(is_newer(&delegated, &found), expected, "{name} {end_s}");
        }
    }

    #[test]
    fn a_file_is_read_when_it_has_changed_and_another_cache_at_times() {
        let path = std::env::temp_dir().join(format!("renewal-{}", sys::process::pid()));
        std::fs::write(&path, "old").unwrap();
        let name = format!("FILE:{}", path.display());
        let mut watch = RenewalWatch::new(credential("ada", 1, &name), None, 0);
        assert!(!watch.may_have_changed(0) && !watch.may_have_changed(PROCESS_MS));
        std::fs::write(&path, "newer").unwrap();
        assert!(watch.may_have_changed(1) && !watch.may_have_changed(1));
        // kdestroy is no renewal, kinit after it is one.
        std::fs::remove_file(&path).unwrap();
        assert!(!watch.may_have_changed(2));
        std::fs::write(&path, "again").unwrap();
        assert!(watch.may_have_changed(3) && !watch.may_have_changed(3));
        watch.pause(3);
        assert_eq!(watch.renewed(4), Ok(None));
        assert!(watch.may_have_changed(PROCESS_MS + 3));
        std::fs::remove_file(&path).unwrap();
        for other in ["KCM:1000", "KEYRING:persistent:0:0", "DIR:/x", ""] {
            let mut watch = RenewalWatch::new(credential("ada", 1, other), None, 7);
            assert_eq!(watch.renewed(PROCESS_MS + 6), Ok(None), "{other}");
            assert!(watch.may_have_changed(PROCESS_MS + 7));
            assert_eq!(watch.not_before_ms, 2 * PROCESS_MS + 7, "{other}");
        }
        let named = RenewalWatch::new(credential("ada", 1, &name), Some("ada".into()), 7);
        assert_eq!(named.file, None);
    }
}
