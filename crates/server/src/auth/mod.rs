//! The auth process: version exchange, key exchange and user authentication (RFC 4253, 4252, 4256)
//! with a client that has not logged in, in a sandbox.
//!
//! The listener may have sent version line and KEXINIT already ([`early_banner`]).
//! [`start`] reads what the monitor passes on, closes the sandbox and, in a pre-forked process,
//! waits for the connection; [`link`] moves bytes between the socket and the connection; [`login`]
//! turns the connection's events into requests to the monitor and the answers into commands.
//! `monitor` decides who may log in.
//!
//! Invariants: nothing is read from the network before the sandbox is closed, while an answer of
//! the monitor is awaited, or after a login has succeeded. No state here records that a client is
//! logged in: success is a step of [`login`] that ends this process.

mod early_banner;
mod end;
mod link;
mod login;
mod start;

use privsep::{AuthStart, Snapshot, roles};

use crate::log::Logger;
use crate::rpc::Rpc;
pub use early_banner::greeting;

use end::AuthEnd;
use link::AuthLink;
use login::{LoginState, LoginStep};
use start::{AuthProcessStart, Begun};

/// Runs the role `sshd-auth`. Returns its exit status, one of [`privsep::roles::exit`].
#[must_use]
pub fn auth_main() -> i32 {
    let _ = sys::process::set_name(roles::ROLE_AUTH);
    let rpc = match sys::io::inherited(roles::RPC_FD) {
        Ok(socket) => Rpc::for_this_process(socket),
        Err(error) => {
            // The only message that cannot go to the monitor; the sandbox is still open.
            eprintln!(
                "{}: descriptor {}: {error}",
                roles::ROLE_AUTH,
                roles::RPC_FD
            );
            return roles::exit::NOT_STARTED;
        }
    };
    let mut start = match AuthProcessStart::read(rpc) {
        Ok(start) => start,
        Err(error) => {
            Logger::new(rpc, privsep::LogLevel::Fatal)
                .line(privsep::LogLevel::Fatal, &format!("cannot start: {error}"));
            return roles::exit::NOT_STARTED;
        }
    };
    crate::log::force(std::mem::take(&mut start.auth.log_verbose));
    let log = Logger::new(rpc, start.auth.log_level);
    if let Err(error) = start.close_sandbox() {
        log.line(
            privsep::LogLevel::Fatal,
            &format!("the sandbox cannot be set up: {error}"),
        );
        return roles::exit::NOT_STARTED;
    }
    let begun = match start.connection(rpc) {
        Ok(Some(begun)) => begun,
        Ok(None) => return roles::exit::DONE,
        Err(error) => {
            log.line(privsep::LogLevel::Fatal, &format!("cannot start: {error}"));
            return roles::exit::NOT_STARTED;
        }
    };
    match serve(begun, &start.auth, rpc, log) {
        Ok(()) => roles::exit::DONE,
        Err(failed) => {
            failed.end.log(&log, &failed.peer);
            failed.end.exit_status()
        }
    }
}

/// Why a connection ended before a login, and the peer's address for the log.
struct AuthFailed {
    end: AuthEnd,
    peer: String,
}

fn serve(begun: Begun, start: &AuthStart, rpc: &Rpc, log: Logger<'_>) -> Result<(), AuthFailed> {
    let connection = &begun.connection;
    let peer = format!(
        "{} port {}",
        connection.remote_address, connection.remote_port
    );
    let grace_seconds = connection.login_grace_seconds;
    let warned = (peer.clone(), begun.warns_of_weak);
    let mut login = LoginState::new(rpc, log, start, warned);
    let failed = |end| AuthFailed {
        end,
        peer: peer.clone(),
    };
    let greeted = connection.greeted.is_some();
    let mut link = match AuthLink::new(begun.network, begun.transport, begun.host_keys) {
        Ok(link) => link.with_grace(grace_seconds).greeted(greeted),
        Err(end) => return Err(failed(end)),
    };
    loop {
        match step(&mut link, &mut login) {
            Ok(LoginStep::Continue) => {}
            Ok(LoginStep::Succeeded) => break,
            Err(end) => {
                link.say_goodbye(&end);
                return Err(failed(end));
            }
        }
    }
    hand_over(link, rpc).map_err(failed)
}

/// Handles the next event, or exchanges bytes with the client.
fn step(link: &mut AuthLink, login: &mut LoginState<'_>) -> Result<LoginStep, AuthEnd> {
    match link.next_event()? {
        Some(event) => login.handle(link.connection(), event),
        None => {
            link.exchange()?;
            Ok(LoginStep::Continue)
        }
    }
}

/// Writes the queued packets, USERAUTH_SUCCESS last, and sends the connection's snapshot to the
/// monitor as the last act of this process. Packets that have already arrived stay unopened.
fn hand_over(mut link: AuthLink, rpc: &Rpc) -> Result<(), AuthEnd> {
    link.flush()?;
    let bytes = link.into_connection().snapshot()?;
    rpc.send(&Snapshot { bytes })?;
    // This tells the monitor that nothing follows before this process has ended.
    rpc.finish();
    Ok(())
}
