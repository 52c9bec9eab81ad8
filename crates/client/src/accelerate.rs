//! `EnableHwCompression`: the library is loaded and tried before the connection is made, so that
//! `require` can refuse before anything is said to anybody.

use accelerator::{Accelerator, Request};
use config::client::ClientOptions;
use config::types::HwCompression;
use sys::process::SelfExe;

use crate::error::ClientError;
use crate::log::{debug1, info};

/// The library that the options ask for; none where they ask for none, or get none and go on
/// without, which is said.
///
/// # Errors
/// [`ClientError::Refused`] with the reason, where one is required.
pub(crate) fn open(options: &ClientOptions) -> Result<Option<Accelerator>, ClientError> {
    if !options.compression || options.hw_compression == HwCompression::No {
        return Ok(None);
    }
    let request = Request::new(
        &options.hw_compression_libraries,
        options.hw_compression_verify,
        options.compression_level,
    );
    let opened = SelfExe::open()
        .map_err(|error| error.to_string())
        .and_then(|binary| Accelerator::open(&request, &binary));
    match opened {
        Ok(accelerator) => {
            debug1!("compression: hardware library {}", accelerator.describe());
            Ok(Some(accelerator))
        }
        Err(why) if options.hw_compression == HwCompression::Require => {
            let why = format!("EnableHwCompression require: {why}");
            Err(ClientError::Refused(why))
        }
        Err(why) => {
            info!("Warning: EnableHwCompression: {why}; using software compression.");
            Ok(None)
        }
    }
}
