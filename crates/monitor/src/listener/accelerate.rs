//! `EnableHwCompression`: a library is tried at start, and when the configuration is read anew, by an
//! unprivileged process, so that `require` is refused before anybody logs in. Nothing of it is
//! loaded here.

use std::time::Duration;

use config::hardware::{HardwareWish, Tried, in_use_line, warning_line};
use config::server::ServerOptions;
use privsep::LogLevel;
use sys::process::{Credentials, SelfExe};
use sys::signals::Signal;

use super::launch::Confinement;
use crate::log::Log;

/// First argument of the process that tries (`accelerator::PROBE_ROLE`).
const ROLE: &str = "compress-probe";
/// How long all libraries may take: two seconds each, and sixteen can be named.
const LIMIT: Duration = Duration::from_secs(40);
/// How long it is waited for when it has been killed.
const KILLED_LIMIT: Duration = Duration::from_secs(1);
/// The longest answer, bytes.
const ANSWER_BYTES: usize = 8192;

/// Tries what `options` name and logs what comes of it, a library that works at `level`.
///
/// # Errors
/// The sentence for the administrator, where a library is required and none works.
pub(crate) fn probe(
    options: &ServerOptions,
    confinement: Option<&Confinement>,
    log: &Log,
    level: LogLevel,
) -> Result<(), String> {
    let Some(wish) = options.hardware() else {
        return Ok(());
    };
    match wish.settle(run(&wish, confinement)) {
        Tried::InUse(description) => log.line(level, &in_use_line(&description)),
        Tried::Refused(why) => return Err(why),
        Tried::Software(why) => {
            let line = warning_line("", &why, "sessions use software compression");
            log.line(LogLevel::Info, &line);
        }
    }
    Ok(())
}

/// The library's description, or why none works.
fn run(wish: &HardwareWish<'_>, confinement: Option<&Confinement>) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("cannot try it: {error}");
    let (answer, writer) = sys::io::pipe().map_err(failed)?;
    let own = SelfExe::open().map_err(failed)?;
    let mut command = own.command().map_err(failed)?;
    command
        .args(["fulmar", ROLE])
        .arg(if confinement.is_some() {
            "root"
        } else {
            "user"
        })
        .args(wish.libraries)
        .fd(sys::io::null().map_err(failed)?, 0)
        .fd(writer, 1)
        .fd(sys::io::null().map_err(failed)?, 2)
        .current_dir("/")
        .no_new_privs();
    if let Some(Confinement {
        ids: (uid, gid), ..
    }) = confinement
    {
        command.credentials(Credentials {
            uid: *uid,
            gid: *gid,
            groups: vec![*gid],
        });
    }
    let mut child = command.spawn().map_err(|error| failed(error.into()))?;
    // Our own end of its output would keep the answer open.
    drop(command);
    let ended = sys::io::wait_readable(child.pidfd(), Some(LIMIT)).map_err(failed)?;
    if !ended {
        // The library is loaded by a process of its own again, which ends with this one.
        let _ = child.signal(Signal::KILL);
        let _ = sys::io::wait_readable(child.pidfd(), Some(KILLED_LIMIT));
        let _ = child.try_wait();
        return Err("no answer from the process that tries it".to_owned());
    }
    let status = child.wait().map_err(failed)?;
    let text = sys::io::read_to_end(&answer, ANSWER_BYTES).map_err(failed)?;
    let line = String::from_utf8_lossy(&text);
    let line = line.lines().next().unwrap_or_default().to_owned();
    match (status.is_success(), line.is_empty()) {
        (true, false) => Ok(line),
        (false, false) => Err(line),
        (_, true) => Err("the process that tries it has failed".to_owned()),
    }
}
