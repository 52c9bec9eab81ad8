//! The request of a configuration for a library, with its limits.

use std::path::PathBuf;
use std::time::Duration;

use compress::provider::SELF_TEST_LIMIT;
use sys::process::Credentials;

use crate::lane::RUN_LIMIT;

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
