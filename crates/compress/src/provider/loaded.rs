//! A library of others by the interface that it has.

use std::path::Path;
use std::sync::Arc;

use super::RunEncoder;
use super::library::Library;
use super::loader::{Handle, LibraryError, file_of};
#[cfg(feature = "qatzip")]
use super::qatzip::QatZip;

/// A loaded library that compresses.
#[derive(Debug, Clone)]
pub enum Loaded {
    /// zlib's interface.
    Zlib(Arc<Library>),
    /// QATzip's.
    #[cfg(feature = "qatzip")]
    QatZip(Arc<QatZip>),
}

impl Loaded {
    /// Loads the library at `path`, which must be absolute. Its constructors run.
    ///
    /// # Errors
    /// [`LibraryError`].
    pub fn load(path: &Path) -> Result<Self, LibraryError> {
        let handle = Handle::open(path)?;
        if !is_qatzip(handle, path) {
            return Ok(Self::Zlib(Arc::new(Library::of(handle, path)?)));
        }
        Self::qatzip(handle, path)
    }

    #[cfg(feature = "qatzip")]
    fn qatzip(handle: Handle, path: &Path) -> Result<Self, LibraryError> {
        Ok(Self::QatZip(Arc::new(QatZip::of(handle, path)?)))
    }

    #[cfg(not(feature = "qatzip"))]
    fn qatzip(_: Handle, _: &Path) -> Result<Self, LibraryError> {
        Err(LibraryError::NotBuiltForQatZip)
    }

    /// The file that its code lies in, by the loader's word: not always the one that was asked for.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Zlib(library) => library.path(),
            #[cfg(feature = "qatzip")]
            Self::QatZip(library) => library.path(),
        }
    }

    /// What is known of its version, with whose word that is; empty where nothing is.
    #[must_use]
    pub fn version(&self) -> String {
        match self {
            Self::Zlib(library) => library
                .version()
                .map_or_else(String::new, |version| format!("zlibVersion {version}")),
            #[cfg(feature = "qatzip")]
            Self::QatZip(library) => library
                .version()
                .map_or_else(|| "QATzip".to_owned(), |it| format!("QATzip {it}")),
        }
    }

    /// Functions that it does not have and we can do without.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        match self {
            Self::Zlib(library) => library.missing(),
            #[cfg(feature = "qatzip")]
            Self::QatZip(library) => library.missing(),
        }
    }

    /// An encoder for one thread.
    #[must_use]
    pub fn encoder(&self) -> Box<dyn RunEncoder> {
        match self {
            Self::Zlib(library) => Box::new(library.encoder()),
            #[cfg(feature = "qatzip")]
            Self::QatZip(library) => Box::new(library.encoder()),
        }
    }
}

/// QATzip depends on a zlib, whose functions are found through it, and there are zlibs that depend
/// on QATzip: what lies in the library itself decides.
fn is_qatzip(handle: Handle, path: &Path) -> bool {
    match (handle.symbol(c"qzCompress"), handle.symbol(c"deflate")) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(here), Some(_)) => file_of(here).as_deref() == Some(path),
    }
}
