//! The manifest of an installation: one line a file, hash and path, so that removal deletes only
//! unchanged files; and the directories that the installation made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crypto::hash::HashAlgorithm;

use super::InstallSettings;

/// Largest manifest that is read, bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Stands for the hash in the line of a directory.
const DIRECTORY: &str = "directory";

/// Paths of the installed system (not below `--root`), files with their hashes.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    entries: Vec<(String, PathBuf)>,
    /// Each after the directory that contains it.
    directories: Vec<PathBuf>,
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
        let text = match sys::file::read_bounded(path, MAX_BYTES, sys::file::FollowLinks::Refuse) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let mut manifest = Self::default();
        for (hash, path) in text.lines().filter_map(|line| line.split_once("  ")) {
            if hash == DIRECTORY {
                manifest.directories.push(path.into());
            } else {
                manifest.entries.push((hash.to_string(), path.into()));
            }
        }
        Ok(manifest)
    }

    pub(super) fn store(&self, path: &Path) -> io::Result<()> {
        let mut text = String::new();
        for (hash, file) in &self.entries {
            text.push_str(&format!("{hash}  {}\n", file.display()));
        }
        for directory in &self.directories {
            text.push_str(&format!("{DIRECTORY}  {}\n", directory.display()));
        }
        sys::file::replace(path, text.as_bytes(), 0o644)
    }

    pub(super) fn add(&mut self, file: &Path, settings: &InstallSettings) -> io::Result<()> {
        self.entries
            .push((hash(&settings.below_root(file))?, file.to_path_buf()));
        Ok(())
    }

    /// Keeps what an earlier installation knows of a file that stays as it is.
    pub(super) fn carry_over(&mut self, old: &Self, file: &Path) {
        let known = old.entries.iter().filter(|(_, path)| path == file);
        self.entries.extend(known.cloned());
    }

    /// Makes the directories of a file that are not there, and remembers them.
    pub(super) fn make_directories(
        &mut self,
        file: &Path,
        settings: &InstallSettings,
    ) -> io::Result<()> {
        let missing: Vec<&Path> = file
            .ancestors()
            .skip(1)
            .take_while(|directory| !settings.below_root(directory).exists())
            .collect();
        for directory in missing.into_iter().rev() {
            let place = settings.below_root(directory);
            fs::create_dir(&place).map_err(super::explain("make", &place))?;
            self.directories.push(directory.to_path_buf());
        }
        Ok(())
    }

    /// Takes over what an earlier installation knows and this one does not: a later removal is
    /// for both.
    pub(super) fn inherit(&mut self, old: Self, is_planned: impl Fn(&Path) -> bool) {
        for (hash, path) in old.entries {
            if !is_planned(&path) {
                self.entries.push((hash, path));
            }
        }
        let new = core::mem::replace(&mut self.directories, old.directories);
        self.directories.extend(new);
    }

    /// The directories that were made, inner ones first.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().rev().map(PathBuf::as_path)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().map(|(_, path)| path.as_path())
    }

    /// The file is as it was installed.
    pub(super) fn is_unchanged(&self, file: &Path, settings: &InstallSettings) -> io::Result<bool> {
        match self.entries.iter().find(|(_, path)| path == file) {
            Some((known, _)) => Ok(*known == hash(&settings.below_root(file))?),
            None => Ok(false),
        }
    }
}
