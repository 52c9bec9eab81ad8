//! `EnableHwCompression`: the library is loaded and tried before the connection is made, so that
//! `require` can refuse before anything is said to anybody.

use accelerator::{Accelerator, Request};
use config::client::ClientOptions;
use config::hardware::{Tried, in_use_line, warning_line};
use sys::process::SelfExe;

use crate::error::ClientError;
use crate::log::{debug1, info};

/// The library that the options ask for; none where they ask for none, or get none and go on
/// without, which is said.
///
/// # Errors
/// [`ClientError::Refused`] with the reason, where one is required.
pub(crate) fn open(options: &ClientOptions) -> Result<Option<Accelerator>, ClientError> {
    let Some(wish) = options.hardware() else {
        return Ok(None);
    };
    let request = Request {
        // With -f the connection goes on in a process that does not exist yet.
        ends_with_starter: !options.fork_after_authentication,
        ..Request::new(wish.libraries, wish.verify, wish.level)
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
