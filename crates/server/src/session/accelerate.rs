//! `EnableHwCompression` for a user who has logged in: a process of that user loads the compression
//! library.

use accelerator::{Accelerator, LibraryRequest};
use config::hardware::{Tried, in_use_line, warning_line};
use config::server::CompressionOptions;
use privsep::SessionGrant;
use sys::process::{Credentials, SelfExe};

use crate::log::Logger;

/// Opens the configured compression library. If software compression is used instead of a
/// configured library, logs the reason.
pub(super) fn open(
    compression: &CompressionOptions,
    grant: &SessionGrant,
    binary: Option<&SelfExe>,
    log: &Logger<'_>,
) -> Tried<Accelerator> {
    let Some(wish) = compression.hardware() else {
        return Tried::Software(String::new());
    };
    let mut request = LibraryRequest::new(wish.libraries, wish.verify, wish.level);
    // A server started by an ordinary user serves only that user, and the library need not be
    // root's.
    request.root_owned = grant.change_user;
    // The ids are needed only if this process is still root; after the change of user the library's
    // process inherits them.
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
    let tried = wish.settle(opened);
    match &tried {
        Tried::InUse(accelerator) => log.debug(&in_use_line(&accelerator.describe())),
        Tried::Refused(_) => {}
        Tried::Software(why) => {
            let whom = format!(" for user {}", grant.user);
            log.info(&warning_line(&whom, why, "using software compression"));
        }
    }
    tried
}
