//! `EnableHwCompression` for a user who has logged in: the library is loaded by a process of that
//! user's.

use accelerator::{Accelerator, Request};
use config::hardware::{Tried, in_use_line, warning_line};
use config::server::ServerOptions;
use privsep::SessionGrant;
use sys::process::{Credentials, SelfExe};

use crate::log::Logger;

/// What the options come to; of software, why is in the log, if it is not what they ask for.
pub(super) fn open(
    options: &ServerOptions,
    grant: &SessionGrant,
    binary: Option<&SelfExe>,
    log: &Logger<'_>,
) -> Tried<Accelerator> {
    let Some(wish) = options.hardware() else {
        return Tried::Software(String::new());
    };
    let mut request = Request::new(wish.libraries, wish.verify, wish.level);
    // A server of a user's own serves that user alone.
    request.root_owned = grant.change_user;
    // Works before a change of root and of user as well as behind.
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
