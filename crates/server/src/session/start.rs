//! Start of the session process, in this order: the steps that need privileges, the irreversible
//! change to the user, and the resumption of the connection that the auth process handed over.

use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use accelerator::Accelerator;
use config::hardware::Tried;
use config::server::{ServerOptions, SessionOptions};
use driver::{CryptoThreads, Driver, LaneTerms};
use privsep::{SessionGrant, Snapshot, roles};
use proto::Connection;
use sys::process::{Credentials, SelfExe};
use wire::message::reason;

use super::context::{AuthInfoFile, Context};
use super::serve::{GOODBYE, Serve};
use super::{SessionError, Who, accelerate, chroot, text, title};
use crate::log::Logger;
use crate::rpc::Rpc;
use crate::transport;

/// Reads the inherited descriptors and the grant, becomes the user and resumes the connection.
/// Never inlined: see [`options`].
#[inline(never)]
pub(super) fn begin(
    rpc: &'static Rpc,
) -> Result<(Serve<'static>, Logger<'static>, Who), SessionError> {
    crate::log::only_by(rpc)?;
    // This process will hold the connection's keys, and the user's other processes must not read
    // its memory.
    sys::process::set_dumpable(false)?;
    let network = sys::io::inherited(roles::NETWORK_FD)?;
    // Needed to start the compression process; commands do not inherit it.
    let binary = sys::io::inherited(roles::SESSION_BINARY_FD)
        .ok()
        .map(SelfExe::from_fd);
    // The grant usually arrives later, so this costs no time.
    crypto::warm_up();
    let mut grant: SessionGrant = rpc.expect()?;
    crate::log::force(std::mem::take(&mut grant.log_verbose));
    let log = Logger::new(rpc, grant.log_level);
    let mut options = options(&std::mem::take(&mut grant.options))?;
    let time_zone = std::env::var_os("TZ").map(std::os::unix::ffi::OsStringExt::into_vec);

    let mut nologin = None;
    let mut acceleration = None;
    if let Some(context) = &grant.selinux_context {
        // Before the chroot, which may have no /proc.
        match sys::selinux::set_next_context(context) {
            Ok(()) => {}
            Err(error) if error.is_enforced => return Err(SessionError::Start(error.to_string())),
            Err(error) => log.error(&error.to_string()),
        }
    }
    if let Some(directory) = &grant.chroot {
        if !grant.change_user {
            let why = "ChrootDirectory needs a server that was started as root";
            return Err(SessionError::Start(why.to_owned()));
        }
        // Read before the chroot hides them: nologin, and the time zone for "Last login".
        nologin = text::nologin(grant.uid);
        let _ = sys::time::LocalTime::from_seconds(0);
        // Neither the library nor this program is accessible inside the chroot.
        acceleration = Some(accelerate::open(
            &options.compression,
            &grant,
            binary.as_ref(),
            &log,
        ));
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
    title::show(&grant.user, None);
    let quirks = driver.connection().peer_quirks();
    let links_by_draft =
        quirks.links_by_draft && !driver.connection().our_version().contains("OpenSSH");
    driver.trim_memory();
    if driver.connection().is_compressing() {
        let acceleration = acceleration.unwrap_or_else(|| {
            accelerate::open(&options.compression, &grant, binary.as_ref(), &log)
        });
        use_acceleration(acceleration, &mut driver)?;
    }
    if let Some(gap) = options.sftp_root_gap(grant.forced_command.as_deref()) {
        log.info(&format!("user {}: {gap}", grant.user));
    }
    let auth_info = auth_info(&grant, &options.session, log);
    let context = Box::new(Context {
        rpc,
        log,
        grant,
        options,
        knows_eow: quirks.knows_openssh_extensions,
        links_by_draft,
        nologin,
        time_zone,
        auth_info,
        network: for_options,
        next_serial: Cell::new(0),
        lasting_log: log,
        umask: Cell::new(None),
        agent_socket: OnceCell::new(),
        is_walled: Cell::new(false),
        tunnels: RefCell::new(Vec::new()),
        terminals: RefCell::new(Vec::new()),
    });
    Ok((Serve::new(driver, context), log, who))
}

/// Gives the connection the library that is in use; ends the connection if one that is required is not.
fn use_acceleration(
    acceleration: Tried<Accelerator>,
    driver: &mut Driver,
) -> Result<(), SessionError> {
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
    Ok(())
}

/// Decodes the options. Never inlined, as [`take_over`]: the temporary copies of a large value
/// would otherwise stay in a stack frame for the whole session.
#[inline(never)]
fn options(encoded: &[u8]) -> Result<Box<ServerOptions>, SessionError> {
    let options = ServerOptions::decode_to_read(encoded)
        .map_err(|error| SessionError::Start(format!("options: {error}")))?;
    Ok(Box::new(options))
}

/// Resumes the connection from the auth process's snapshot and attaches it to its socket.
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
    let threads = CryptoThreads::from_option(options.limits.crypto_threads);
    driver.set_lane_terms(LaneTerms {
        compress_threads: CryptoThreads::from_option(options.compression.threads),
        ..LaneTerms::new(threads)
    });
    Ok(driver)
}

/// Changes irreversibly to the user and verifies the change; an error ends the process.
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
    // Depending on fs.suid_dumpable, the change of user may have made the process dumpable again.
    sys::process::set_dumpable(false)?;
    Ok(())
}

fn auth_info(
    grant: &SessionGrant,
    session: &SessionOptions,
    log: Logger<'_>,
) -> Option<AuthInfoFile> {
    if !session.expose_auth_info {
        return None;
    }
    let file = AuthInfoFile::create(&grant.auth_info);
    file.inspect_err(|error| {
        log.error(&format!("cannot write the file of ExposeAuthInfo: {error}"))
    })
    .ok()
}
