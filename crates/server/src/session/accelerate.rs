//! `EnableHwCompression` for a user who has logged in: the library is loaded by a process of that
//! user's.

use accelerator::{Accelerator, Request};
use config::server::ServerOptions;
use config::types::HwCompression;
use privsep::SessionGrant;
use sys::process::{Credentials, SelfExe};

use crate::log::Logger;

/// What the options come to.
#[derive(Debug)]
pub(super) enum Acceleration {
    /// Nothing is asked for, or can be had and need not be.
    Software,
    /// The library in use.
    Hardware(Accelerator),
    /// It is required and cannot be had, for this reason.
    Refused(String),
}

/// Loads what the options name. Works before a change of root and of user as well as behind.
pub(super) fn open(
    options: &ServerOptions,
    grant: &SessionGrant,
    binary: Option<&SelfExe>,
    log: &Logger<'_>,
) -> Acceleration {
    if !options.compression || options.hw_compression == HwCompression::No {
        return Acceleration::Software;
    }
    let mut request = Request::new(
        &options.hw_compression_libraries,
        options.hw_compression_verify,
        options.compression_level,
    );
    // A server of a user's own serves that user alone.
    request.root_owned = grant.change_user;
    if grant.change_user && sys::process::is_root() && grant.uid != 0 {
        request.user = Some(Credentials {
            uid: grant.uid,
            gid: grant.gid,
            groups: grant.groups.clone(),
        });
    }
    let opened = binary
        .ok_or_else(|| "our own program cannot be executed".to_owned())
        .and_then(|binary| Accelerator::open(&request, binary));
    match opened {
        Ok(accelerator) => {
            log.debug(&format!(
                "compression: hardware library {}",
                accelerator.describe()
            ));
            Acceleration::Hardware(accelerator)
        }
        Err(why) if options.hw_compression == HwCompression::Require => {
            Acceleration::Refused(format!("EnableHwCompression require: {why}"))
        }
        Err(why) => {
            log.info(&format!(
                "Warning: EnableHwCompression for user {}: {why}; using software compression",
                grant.user
            ));
            Acceleration::Software
        }
    }
}
