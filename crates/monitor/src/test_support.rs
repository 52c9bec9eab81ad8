//! Helpers for the tests of several modules: options from text, an account, a temporary directory.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use config::environment::MemoryFiles;
use config::server::{ServerArguments, ServerConfig, ServerOptions};

use crate::connection::Account;

/// Parses a configuration.
pub(crate) fn config(text: &str) -> ServerConfig {
    ServerConfig::parse(
        "test",
        text.as_bytes(),
        &MemoryFiles::default(),
        &ServerArguments::default(),
    )
    .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The global options of a configuration text.
pub(crate) fn options(text: &str) -> ServerOptions {
    config(text).global()
}

/// An ordinary user.
pub(crate) fn account() -> Account {
    Account {
        name: "ada".into(),
        uid: 1000,
        gid: 1000,
        home: "/home/ada".into(),
        shell: "/bin/sh".into(),
        groups: vec![1000, 50],
        group_names: vec!["ada".into(), "staff".into()],
        shadow: None,
    }
}

/// Held exclusively by a test that acts as another user, because that changes the ids of all
/// threads.
static IDS: RwLock<()> = RwLock::new(());

/// While this is held, no test acts as another user. A [`TempDir`] holds the same lock: do not hold
/// both.
pub(crate) fn own_ids() -> RwLockReadGuard<'static, ()> {
    IDS.read().unwrap_or_else(PoisonError::into_inner)
}

enum Ids {
    Shared {
        _guard: RwLockReadGuard<'static, ()>,
    },
    Alone {
        _guard: RwLockWriteGuard<'static, ()>,
    },
}

/// A directory that only this user can write to, deleted on drop. One for each test.
pub(crate) struct TempDir {
    path: PathBuf,
    _ids: Ids,
}

impl TempDir {
    pub(crate) fn new() -> Self {
        Self::make(Ids::Shared { _guard: own_ids() })
    }

    /// For a test that acts as another user.
    pub(crate) fn alone() -> Self {
        let guard = IDS.write().unwrap_or_else(PoisonError::into_inner);
        Self::make(Ids::Alone { _guard: guard })
    }

    fn make(ids: Ids) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fulmar-monitor-{}-{number}", std::process::id());
        // Not below /tmp, which everybody may write to: StrictModes would refuse it.
        let base = std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from);
        let path = base.join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        Self { path, _ids: ids }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
