//! The role that tests libraries for the server's listener before it accepts connections.

use std::ffi::OsString;
use std::path::PathBuf;

use sys::process::SelfExe;

use crate::{Accelerator, LibraryRequest};

/// Main function of the role [`PROBE_ROLE`](crate::PROBE_ROLE). `arguments`: `root` (each library
/// must belong to root) or `user`, then the libraries. Writes one line to standard output: `works `
/// and the library's description, or `fails ` and the reason. Returns the exit status: 0 if a
/// library works, else 1.
#[must_use]
pub fn probe_main(arguments: Vec<OsString>) -> i32 {
    let mut arguments = arguments.into_iter();
    let root_owned = arguments.next().is_some_and(|word| word == "root");
    let request = LibraryRequest {
        libraries: arguments.map(PathBuf::from).collect(),
        root_owned,
        lanes: 1,
        ..LibraryRequest::new(&[], true, compress::DEFAULT_LEVEL)
    };
    let opened = SelfExe::open()
        .map_err(|error| error.to_string())
        .and_then(|binary| Accelerator::open(&request, &binary));
    let (line, status) = match opened {
        Ok(accelerator) => (format!("works {}", accelerator.describe()), 0),
        Err(why) => (format!("fails {why}"), 1),
    };
    match sys::io::write_all(sys::io::stdout(), format!("{line}\n").as_bytes()) {
        Ok(()) => status,
        Err(_) => 1,
    }
}
