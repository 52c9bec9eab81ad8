//! Which libraries are tried, and the conditions they must meet.

use std::path::Path;

use sys::file::InsecurePath;
use sys::process::SelfExe;

use crate::process::{Accelerator, Starting};
use crate::request::LibraryRequest;
use crate::trials::first_that_works;

/// Maximum number of libraries that are tried; later ones in a configuration are ignored.
pub const MAX_LIBRARIES: usize = 16;

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
