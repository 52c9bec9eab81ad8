//! File systems that a test mounts.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system that is mounted until this is dropped, also after a failed test.
#[derive(Debug)]
pub struct Mounted(PathBuf);

impl Mounted {
    /// Runs `mount` with these arguments and `folder`.
    ///
    /// # Errors
    /// The error of `mount`.
    pub fn at(folder: &Path, mount: &mut Command) -> Result<Self, String> {
        let output = mount.arg(folder).output();
        let output = output.map_err(|error| format!("mount: {error}"))?;
        match output.status.success() {
            true => Ok(Self(folder.to_owned())),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
