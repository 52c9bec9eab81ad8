//! From root to the user: what is done with privileges, the change of user, and the connection
//! taken over from the process that authenticated it. In this order.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use config::hardware::Tried;
use config::server::ServerOptions;
use driver::{CryptoThreads, Driver, LaneTerms};
use privsep::{SessionGrant, Snapshot, roles};
use proto::Connection;
use sys::process::{Credentials, SelfExe};
use wire::message::reason;

use super::context::{AuthInfoFile, Context};
use super::serve::{GOODBYE, Serve};
use super::{SessionError, Who, accelerate, chroot, text};
use crate::log::Logger;
use crate::rpc::Rpc;
use crate::transport;

/// Takes over what the monitor hands down. Never inlined: see [`options`].
#[inline(never)]
pub(super) fn begin(
    rpc: &'static Rpc,
) -> Result<(Serve<'static>, Logger<'static>, Who), SessionError> {
    crate::log::only_by(rpc)?;
    // Our memory will hold the connection's keys, and the user's other processes run beside us.
    sys::process::set_dumpable(false)?;
    let network = sys::io::inherited(roles::NETWORK_FD)?;
    // Held for subsystems that are part of it; nothing of it is inherited by a command.
    let binary = sys::io::inherited(roles::SESSION_BINARY_FD)
        .ok()
        .map(SelfExe::from_fd);
    // It is waited for, more often than not.
    crypto::warm_up();
    let mut grant: SessionGrant = rpc.expect()?;
    let log = Logger::new(rpc, grant.log_level);
    let mut options = options(&std::mem::take(&mut grant.options))?;
    let time_zone = std::env::var_os("TZ").map(std::os::unix::ffi::OsStringExt::into_vec);

    let mut nologin = None;
    let mut acceleration = None;
    if let Some(directory) = &grant.chroot {
        if !grant.change_user {
            let why = "ChrootDirectory needs a server that was started as root";
            return Err(SessionError::Start(why.to_owned()));
        }
        // What lies outside is read while it can be: nologin, and the zone of "Last login".
        nologin = text::nologin(grant.uid);
        let _ = sys::time::LocalTime::from_seconds(0);
        // Neither the library nor our own program can be reached from inside.
        acceleration = Some(accelerate::open(&options, &grant, binary.as_ref(), &log));
        chroot::enter(Path::new(directory))
            .map_err(|error| SessionError::Start(error.to_string()))?;
        log.verbose(&format!("Changed root directory to \"{directory}\""));
    }
    become_user(&grant)?;

    let snapshot: Snapshot = rpc.expect()?;
    let for_options = sys::io::dup(&network)?;
    let mut driver = take_over(network, &snapshot, &mut options, &grant)?;
    drop(snapshot);
    let who = Who {
        user: grant.user.clone(),
        peer: format!("{} port {}", grant.remote_address, grant.remote_port),
    };
    let _ = sys::process::set_title(&format!("fulmar: {}", grant.user));
    let knows_eow =
        driver.connection().is_fulmar_peer() || grant.client_version.contains("OpenSSH");
    driver.trim_memory();
    if driver.connection().is_compressing() {
        let acceleration = acceleration
            .unwrap_or_else(|| accelerate::open(&options, &grant, binary.as_ref(), &log));
        match acceleration {
            Tried::Software(_) => {}
            Tried::InUse(library) => {
                if let Some(compressor) = driver.connection().compressor() {
                    compressor.set_provider(Arc::new(library));
                }
            }
            Tried::Refused(why) => {
                let said = driver.connection();
                said.disconnect(reason::BY_APPLICATION, &why);
                let _ = driver.flush_within(GOODBYE);
                return Err(SessionError::Start(why));
            }
        }
    }
    if let Some(gap) = options.sftp_root_gap(grant.forced_command.as_deref()) {
        log.info(&format!("user {}: {gap}", grant.user));
    }
    let auth_info = auth_info(&grant, &options, log);
    let context = Box::new(Context {
        rpc,
        log,
        grant,
        options,
        knows_eow,
        nologin,
        time_zone,
        auth_info,
        network: for_options,
        next_serial: Cell::new(0),
        lasting_log: log,
        umask: Cell::new(None),
        is_walled: Cell::new(false),
    });
    Ok((Serve::new(driver, context), log, who))
}

/// What the configuration says. In a frame of its own, as [`take_over`]: the copies that a large
/// value leaves in the frame that makes it would lie in memory as long as the session.
#[inline(never)]
fn options(encoded: &[u8]) -> Result<Box<ServerOptions>, SessionError> {
    let options = ServerOptions::decode_to_read(encoded)
        .map_err(|error| SessionError::Start(format!("options: {error}")))?;
    Ok(Box::new(options))
}

/// The connection as the process before left it, joined to its socket.
#[inline(never)]
fn take_over(
    network: OwnedFd,
    snapshot: &Snapshot,
    options: &mut ServerOptions,
    grant: &SessionGrant,
) -> Result<Box<Driver>, SessionError> {
    let now = sys::time::monotonic_ms();
    let host_keys = transport::host_keys(&grant.host_keys);
    let connection =
        Connection::resume(&snapshot.bytes, transport::config(options), host_keys, now)?;
    if connection.session_id() != Some(&grant.session_id[..]) {
        return Err(SessionError::Start(
            "the connection is not the one that logged in".to_owned(),
        ));
    }
    let mut driver = Box::new(Driver::new(network, None, connection)?);
    let threads = CryptoThreads::from_option(options.crypto_threads);
    driver.set_lane_terms(LaneTerms {
        compress_threads: CryptoThreads::from_option(options.compression_threads),
        ..LaneTerms::new(threads)
    });
    Ok(driver)
}

/// Irreversible and verified, or the process ends.
fn become_user(grant: &SessionGrant) -> Result<(), SessionError> {
    if grant.change_user {
        let user = Credentials {
            uid: grant.uid,
            gid: grant.gid,
            groups: grant.groups.clone(),
        };
        sys::process::become_user(&user)?;
    } else if sys::process::effective_uid() != grant.uid {
        return Err(SessionError::Start(
            "this server serves only the user who started it".to_owned(),
        ));
    }
    // A change of user sets it again on some kernels' settings (fs.suid_dumpable).
    sys::process::set_dumpable(false)?;
    Ok(())
}

fn auth_info(
    grant: &SessionGrant,
    options: &ServerOptions,
    log: Logger<'_>,
) -> Option<AuthInfoFile> {
    if !options.expose_auth_info {
        return None;
    }
    let file = AuthInfoFile::create(&grant.auth_info);
    file.inspect_err(|error| {
        log.error(&format!("cannot write the file of ExposeAuthInfo: {error}"))
    })
    .ok()
}
