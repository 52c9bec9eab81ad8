//! `EnableHwCompression`: a library is tried at start by an unprivileged process, so that
//! `require` is refused before anybody logs in. Nothing of it is loaded here.

use std::time::Duration;

use config::server::ServerOptions;
use config::types::HwCompression;
use privsep::LogLevel;
use sys::process::{Credentials, SelfExe};
use sys::signals::Signal;

use super::launch::Confinement;
use crate::log::Log;

/// First argument of the process that tries (`accelerator::PROBE_ROLE`).
const ROLE: &str = "compress-probe";
/// How long all libraries may take: two seconds each, and sixteen can be named.
const LIMIT: Duration = Duration::from_secs(40);
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
    if !options.compression || options.hw_compression == HwCompression::No {
        return Ok(());
    }
    match run(options, confinement) {
        Ok(line) => {
            log.line(level, &format!("compression: hardware library {line}"));
            Ok(())
        }
        Err(why) if options.hw_compression == HwCompression::Require => {
            Err(format!("EnableHwCompression require: {why}"))
        }
        Err(why) => {
            log.line(
                LogLevel::Info,
                &format!("Warning: EnableHwCompression: {why}; sessions use software compression"),
            );
            Ok(())
        }
    }
}

fn run(options: &ServerOptions, confinement: Option<&Confinement>) -> Result<String, String> {
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
        .args(&options.hw_compression_libraries)
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
        let _ = child.signal(Signal::KILL);
    }
    let status = child.wait().map_err(failed)?;
    let text = sys::io::read_to_end(&answer, ANSWER_BYTES).map_err(failed)?;
    let line = String::from_utf8_lossy(&text);
    let line = line.lines().next().unwrap_or_default().to_owned();
    match (ended, status.is_success(), line.is_empty()) {
        (false, ..) => Err("no answer from the process that tries it".to_owned()),
        (true, true, false) => Ok(line),
        (true, false, false) => Err(line),
        (true, _, true) => Err("the process that tries it has failed".to_owned()),
    }
}
