//! Which libraries are tried, and whose they must be.

use std::path::{Path, PathBuf};
use std::time::Duration;

use compress::provider::SELF_TEST_LIMIT;
use sys::file::InsecurePath;
use sys::process::{Credentials, SelfExe};

use crate::lane::RUN_LIMIT;
use crate::process::{Accelerator, Starting};
use crate::trials::first_that_works;

/// The most libraries that a configuration may name.
pub const MAX_LIBRARIES: usize = 16;

/// Lanes of a connection: as many threads compress at most.
const MOST_LANES: usize = 4;

/// What a configuration asks for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Absolute paths in the order of trying; none is an error of [`Accelerator::open`].
    pub libraries: Vec<PathBuf>,
    /// Each must belong to root, with every folder above it, and be writable by nobody else.
    pub root_owned: bool,
    /// Every run is inflated and compared before it is used.
    pub verify: bool,
    /// The effort of the self-test, 1 to 9.
    pub level: u8,
    /// Threads that encode at once.
    pub lanes: usize,
    /// Who loads it; none is who asks.
    pub user: Option<Credentials>,
    /// The process is killed when the thread that starts it ends, whatever the library does. Not
    /// for who goes to the background by a fork: then it ends by itself when it hears of the end.
    pub ends_with_starter: bool,
    /// How long loading and the self-test of a library may take together.
    pub start_limit: Duration,
    /// How long a run may take.
    pub run_limit: Duration,
}

/// Whether nobody but root can have put the library there.
///
/// # Errors
/// [`InsecurePath`]: what breaks the rule.
pub fn secure_library(path: &Path) -> Result<(), InsecurePath> {
    // The folders as named, and then what the name leads to.
    sys::file::secure_chroot(path.parent().unwrap_or(path))?;
    let file = std::fs::File::open(path)?;
    sys::file::secure_path(&file, path, Path::new("/"), 0)
}

impl Request {
    /// For a connection of this process.
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
    /// Loads the first library that works, in a process of its own, and tests it. It takes as long as
    /// one library may, or little more: those that hang do so side by side.
    ///
    /// # Errors
    /// Why none works, in one line for a user: each path with its reason.
    pub fn open(request: &Request, binary: &SelfExe) -> Result<Self, String> {
        if request.libraries.is_empty() {
            return Err("no library is named by HwCompressionLibrary".to_owned());
        }
        let libraries = &request.libraries;
        let libraries = libraries.get(..MAX_LIBRARIES).unwrap_or(libraries);
        let begin = |path: &Path| begin(request, path, binary);
        first_that_works(libraries, begin).map_err(|reasons| {
            let told = libraries.iter().zip(reasons).map(|(path, why)| {
                // The loader's own words begin with the path.
                let shown = path.display().to_string();
                let why = why.strip_prefix(&format!("{shown}: ")).unwrap_or(&why);
                format!("{shown}: {why}")
            });
            told.collect::<Vec<String>>().join("; ")
        })
    }
}

fn begin(request: &Request, path: &Path, binary: &SelfExe) -> Result<Starting, String> {
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
