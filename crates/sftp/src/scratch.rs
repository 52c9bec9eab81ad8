//! Temporary directories for tests.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// An empty directory; dropping it removes it with its contents, also when the test fails.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// In memory, if this machine has /dev/shm.
    pub(crate) fn in_memory() -> Option<Self> {
        let memory = Path::new("/dev/shm");
        memory.is_dir().then(|| Self::within(memory))
    }

    fn within(folder: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fulmar-transfer-{}-{number}", std::process::id());
        let path = folder.join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("a folder for temporary files");
        Self(path)
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
