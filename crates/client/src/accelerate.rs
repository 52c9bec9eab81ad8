//! `EnableHwCompression`: the library is loaded and tested before the connection is made, so that
//! `require` can fail before any byte is sent.

use accelerator::{Accelerator, LibraryRequest};
use config::client::{ClientOptions, ControlPersist};
use config::hardware::{Tried, in_use_line, warning_line};
use sys::process::SelfExe;

use crate::error::ClientError;
use crate::log::{debug1, info};

/// Opens the library that the options request. `None` if they request none, or if none can be used
/// and the options permit software compression; the latter is logged.
///
/// # Errors
/// [`ClientError::Refused`] with the reason if the options require a library.
pub(crate) fn open(options: &ClientOptions) -> Result<Option<Accelerator>, ClientError> {
    let Some(wish) = options.compression.hardware() else {
        return Ok(None);
    };
    let request = LibraryRequest {
        // With -f and as a persisting master the connection continues in a process that is forked
        // later.
        ends_with_starter: !options.session.fork_after_authentication
            && options.connection.control_persist == ControlPersist::No,
        ..LibraryRequest::new(wish.libraries, wish.verify, wish.level)
    };
    let opened = SelfExe::open()
        .map_err(|error| error.to_string())
        .and_then(|binary| Accelerator::open(&request, &binary));
    match wish.settle(opened) {
        Tried::InUse(accelerator) => {
            debug1!("{}", in_use_line(&accelerator.describe()));
            Ok(Some(accelerator))
        }
        Tried::Refused(why) => Err(ClientError::Refused(why)),
        Tried::Software(why) => {
            info!("{}", warning_line("", &why, "using software compression."));
            Ok(None)
        }
    }
}
