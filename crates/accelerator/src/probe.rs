//! A trial for who asks from outside: the listener, before it serves anybody.

use std::ffi::OsString;
use std::path::PathBuf;

use sys::process::SelfExe;

use crate::{Accelerator, Request};

/// The program of the role [`PROBE_ROLE`](crate::PROBE_ROLE): `arguments` are `root` (nobody else
/// may own a library) or `user`, then libraries. One line on standard output: `works ` and what is
/// in use, or `fails ` and why nothing is. Returns the exit status, 0 for the former.
#[must_use]
pub fn probe_main(arguments: Vec<OsString>) -> i32 {
    let mut arguments = arguments.into_iter();
    let root_owned = arguments.next().is_some_and(|word| word == "root");
    let request = Request {
        libraries: arguments.map(PathBuf::from).collect(),
        root_owned,
        lanes: 1,
        ..Request::new(&[], true, compress::DEFAULT_LEVEL)
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
