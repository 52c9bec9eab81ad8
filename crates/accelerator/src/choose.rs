//! Which libraries are tried, and the conditions they must meet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use compress::provider::SELF_TEST_LIMIT;
use sys::file::InsecurePath;
use sys::process::{Credentials, SelfExe};

use crate::lane::RUN_LIMIT;
use crate::process::{Accelerator, Starting};
use crate::trials::first_that_works;

/// Maximum number of libraries that are tried; later ones in a configuration are ignored.
pub const MAX_LIBRARIES: usize = 16;

/// Maximum number of lanes of a connection, that is, of threads that compress at once.
const MOST_LANES: usize = 4;

/// The libraries to try and their limits, as the configuration sets them.
#[derive(Debug, Clone)]
pub struct LibraryRequest {
    /// Absolute paths in the order of trying; [`Accelerator::open`] fails if there are none.
    pub libraries: Vec<PathBuf>,
    /// If true, each library and all directories above it must belong to root and be writable by
    /// nobody else.
    pub root_owned: bool,
    /// If true, every run is inflated and compared before it is used.
    pub verify: bool,
    /// Compression level of the self-test, 1 to 9.
    pub level: u8,
    /// Number of lanes, that is, of threads that encode at once; clamped to 1 to 16.
    pub lanes: usize,
    /// User that the library's process runs as; `None` for the user of this process.
    pub user: Option<Credentials>,
    /// If true, the kernel kills the library's process when the thread that started it ends. Must
    /// be false for a program that forks into the background; then the library's process exits when
    /// its control socket closes.
    pub ends_with_starter: bool,
    /// Time limit for loading and self-test of one library together.
    pub start_limit: Duration,
    /// Time limit of one run.
    pub run_limit: Duration,
}

/// Checks that nobody but root can have created or changed the library.
///
/// # Errors
/// [`InsecurePath`]: the rule that the path breaks.
pub fn secure_library(path: &Path) -> Result<(), InsecurePath> {
    // Check the directories of the path as given, then the file that the path resolves to.
    sys::file::secure_chroot(path.parent().unwrap_or(path))?;
    let file = std::fs::File::open(path)?;
    sys::file::secure_path(&file, path, Path::new("/"), 0)
}

impl LibraryRequest {
    /// The request for a connection of this process, with the default limits.
    #[must_use]
    pub fn new(libraries: &[String], verify: bool, level: u8) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            libraries: libraries.iter().map(PathBuf::from).collect(),
            root_owned: false,
            verify,
            level,
            lanes: cores.min(MOST_LANES),
            user: None,
            ends_with_starter: true,
            start_limit: SELF_TEST_LIMIT,
            run_limit: RUN_LIMIT,
        }
    }
}

impl Accelerator {
    /// Loads the first library that works, in a process of its own, and tests it. Takes little
    /// longer than the start limit of one library: libraries that hang are tried concurrently.
    ///
    /// # Errors
    /// One line for the user: each path with the reason why it does not work.
    pub fn open(request: &LibraryRequest, binary: &SelfExe) -> Result<Self, String> {
        if request.libraries.is_empty() {
            return Err("HwCompressionLibrary names no library".to_owned());
        }
        let libraries = &request.libraries;
        let libraries = libraries.get(..MAX_LIBRARIES).unwrap_or(libraries);
        let begin = |path: &Path| begin(request, path, binary);
        first_that_works(libraries, begin).map_err(|reasons| {
            let told = libraries.iter().zip(reasons).map(|(path, why)| {
                // The dynamic loader's messages begin with the path.
                let shown = path.display().to_string();
                let why = why.strip_prefix(&format!("{shown}: ")).unwrap_or(&why);
                format!("{shown}: {why}")
            });
            told.collect::<Vec<String>>().join("; ")
        })
    }
}

fn begin(request: &LibraryRequest, path: &Path, binary: &SelfExe) -> Result<Starting, String> {
    if !path.is_absolute() {
        return Err("not an absolute path".to_owned());
    }
    if request.root_owned {
        secure_library(path).map_err(|error| match error {
            InsecurePath::Io(error) => error.to_string(),
            other => other.to_string(),
        })?;
    }
    Starting::new(request, path, binary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_others_could_have_put_there_is_none_of_roots() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("fulmar-library-{}.so", std::process::id()));
        std::fs::write(&path, b"").unwrap();
        assert!(secure_library(&path).is_err());
        std::fs::remove_file(&path).unwrap();
        assert!(secure_library(Path::new("/nonexistent.so")).is_err());
        let libc = [
            "/lib/x86_64-linux-gnu/libc.so.6",
            "/lib/aarch64-linux-gnu/libc.so.6",
        ];
        let libc = libc.iter().map(Path::new).find(|path| path.exists());
        secure_library(libc.unwrap()).unwrap();
    }
}
