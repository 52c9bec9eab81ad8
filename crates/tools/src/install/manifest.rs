//! What was installed: one line a file, hash and path, so that removal takes away only what
//! nobody has changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crypto::hash::HashAlgorithm;

use super::Settings;

/// Largest manifest that is read, bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Paths of the installed system (not below `--root`) with their hashes.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    entries: Vec<(String, PathBuf)>,
}

/// Hash of a file's content, or of the target of a link.
fn hash(path: &Path) -> io::Result<String> {
    let bytes = if fs::symlink_metadata(path)?.is_symlink() {
        fs::read_link(path)?.into_os_string().into_encoded_bytes()
    } else {
        fs::read(path)?
    };
    let digest = HashAlgorithm::Sha256.digest(&bytes);
    Ok(digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

impl Manifest {
    /// Reads a manifest; one that is not there is empty.
    pub(super) fn load(path: &Path) -> io::Result<Self> {
        let text = match sys::file::read_bounded(path, MAX_BYTES, sys::file::Links::Refuse) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let entries = text
            .lines()
            .filter_map(|line| line.split_once("  "))
            .map(|(hash, path)| (hash.to_string(), PathBuf::from(path)))
            .collect();
        Ok(Self { entries })
    }

    pub(super) fn store(&self, path: &Path) -> io::Result<()> {
        let mut text = String::new();
        for (hash, file) in &self.entries {
            text.push_str(&format!("{hash}  {}\n", file.display()));
        }
        sys::file::replace(path, text.as_bytes(), 0o644)
    }

    pub(super) fn add(&mut self, file: &Path, settings: &Settings) -> io::Result<()> {
        self.entries
            .push((hash(&settings.below_root(file))?, file.to_path_buf()));
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().map(|(_, path)| path.as_path())
    }

    /// The file is as it was installed.
    pub(super) fn is_unchanged(&self, file: &Path, settings: &Settings) -> io::Result<bool> {
        match self.entries.iter().find(|(_, path)| path == file) {
            Some((known, _)) => Ok(*known == hash(&settings.below_root(file))?),
            None => Ok(false),
        }
    }
}
