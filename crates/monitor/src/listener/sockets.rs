//! The listening sockets, opened by ListenAddress or inherited from the service manager.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use config::server::{ConnectionOptions, ListenAddress};
use config::types::AddressFamily;
use config::types::TcpKeepAlive;
use sys::socket::{Family, ListenForm, resolve};

use crate::log::Log;

/// Length of the queue of connections to accept; the kernel caps it.
const BACKLOG: i32 = 1024;
/// Length of the queue of TCP Fast Open requests (RFC 7413); a kernel without Fast Open ignores it.
const FAST_OPEN_QUEUE: i32 = 64;

/// Sets a connection's socket options for all processes that serve it. Errors are ignored: with
/// `-i` the socket need not be TCP, and no decision depends on these options.
pub(crate) fn prepare(network: &OwnedFd, connection: &ConnectionOptions) {
    let _ = sys::socket::set_keepalive(network, connection.tcp_keep_alive != TcpKeepAlive::No);
    let _ = sys::socket::set_nodelay(network, true);
    // On loopback, pacing would start timers for the login's writes.
    let _ = sys::socket::unpace_loopback(network);
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) address: SocketAddr,
    /// The routing domain of `ListenAddress`.
    pub(crate) rdomain: Option<String>,
    pub(crate) fd: OwnedFd,
    /// Inherited from the service manager: a reload must not reopen it.
    pub(crate) inherited: bool,
}

/// Returns the sockets that the service manager opened.
///
/// # Errors
/// The sentence for the user.
pub(crate) fn inherited() -> Result<Vec<Socket>, String> {
    let descriptors = sys::systemd::listen_fds().map_err(|error| error.to_string())?;
    descriptors
        .into_iter()
        .map(|fd| {
            let address = sys::socket::local_address(&fd)
                .map_err(|error| format!("socket of the service manager: {error}"))?;
            sys::io::set_nonblocking(&fd, true).map_err(|error| error.to_string())?;
            Ok(Socket {
                address,
                rdomain: None,
                fd,
                inherited: true,
            })
        })
        .collect()
}

/// Opens the sockets that `options` name. Sockets in `open` that are named again are moved to the
/// result unchanged.
///
/// # Errors
/// If no socket can be opened: one line for each reason.
pub(crate) fn open(
    connection: &ConnectionOptions,
    open: &mut Vec<Socket>,
    log: &Log,
) -> Result<Vec<Socket>, String> {
    let mut sockets: Vec<Socket> = Vec::new();
    let mut failures = Vec::new();
    for listen in &connection.listen_addresses {
        let found = addresses(listen, connection.address_family).unwrap_or_else(|failure| {
            log.error(&failure);
            Vec::new()
        });
        for address in found {
            let is_same =
                |socket: &Socket| socket.address == address && socket.rdomain == listen.rdomain;
            if address.port() != 0 && sockets.iter().any(is_same) {
                continue;
            }
            let kept = open
                .iter()
                .position(|socket| !socket.inherited && is_same(socket));
            if let Some(at) = kept {
                sockets.push(open.swap_remove(at));
                continue;
            }
            let form = ListenForm {
                reuse: true,
                v6only: true,
                multipath: connection.use_mptcp,
                device: listen.rdomain.as_deref(),
            };
            match sys::socket::listen_as(address, BACKLOG, form) {
                Ok(fd) => {
                    if connection.use_mptcp && !sys::socket::is_multipath(&fd) {
                        log.debug("no Multipath TCP in this kernel; listening by TCP");
                    }
                    let _ = sys::socket::set_fastopen_queue(&fd, FAST_OPEN_QUEUE);
                    let address = sys::socket::local_address(&fd).unwrap_or(address);
                    let rdomain = listen.rdomain.as_ref();
                    log.info(&format!(
                        "Server listening on {} port {}{}.",
                        address.ip(),
                        address.port(),
                        rdomain
                            .map(|name| format!(" rdomain {name}"))
                            .unwrap_or_default()
                    ));
                    sockets.push(Socket {
                        address,
                        rdomain: rdomain.cloned(),
                        fd,
                        inherited: false,
                    });
                }
                Err(error) => {
                    let failure = format!(
                        "Bind to port {} on {} failed: {error}.",
                        address.port(),
                        address.ip()
                    );
                    failures.push(failure);
                }
            }
        }
    }
    if sockets.is_empty() {
        failures.push("Cannot bind any address.".to_owned());
        return Err(failures.join("\n"));
    }
    for failure in failures {
        log.error(&failure);
    }
    Ok(sockets)
}

/// Checks that each ListenAddress is an address or a name that resolves.
///
/// # Errors
/// OpenSSH's message about the first ListenAddress that is not. A server that skipped it would be
/// unreachable at that address.
pub(crate) fn check(connection: &ConnectionOptions) -> Result<(), String> {
    for listen in &connection.listen_addresses {
        addresses(listen, connection.address_family)?;
    }
    Ok(())
}

fn addresses(listen: &ListenAddress, family: AddressFamily) -> Result<Vec<SocketAddr>, String> {
    let v4 = family != AddressFamily::Inet6;
    let v6 = family != AddressFamily::Inet;
    let Some(host) = &listen.host else {
        let any4 = v4.then(|| SocketAddr::from(([0, 0, 0, 0], listen.port)));
        let any6 = v6.then(|| SocketAddr::from(([0_u16; 8], listen.port)));
        return Ok(any4.into_iter().chain(any6).collect());
    };
    let family = match family {
        AddressFamily::Any => Family::Any,
        AddressFamily::Inet => Family::V4,
        AddressFamily::Inet6 => Family::V6,
    };
    resolve(host, listen.port, family, false)
        .map(|found| found.addresses)
        .map_err(|error| format!("bad addr or host: {host} ({error})"))
}

#[cfg(test)]
mod tests {
    use privsep::LogLevel;

    use super::*;
    use crate::test_support::options;

    #[test]
    fn sockets_that_stay_configured_are_kept_over_a_reload() {
        let log = Log::to_memory(LogLevel::Info);
        let mut any_port = options("");
        any_port.connection.listen_addresses = vec![ListenAddress {
            host: Some("127.0.0.1".into()),
            port: 0,
            rdomain: None,
        }];
        let first = open(&any_port.connection, &mut Vec::new(), &log).unwrap();
        let port = first[0].address.port();
        assert_ne!(port, 0);
        let before = std::os::fd::AsRawFd::as_raw_fd(&first[0].fd);
        let text = format!("ListenAddress 127.0.0.1:{port}");
        let mut held = first;
        let second = open(&options(&text).connection, &mut held, &log).unwrap();
        assert_eq!(second.len(), 1);
        assert_eq!(std::os::fd::AsRawFd::as_raw_fd(&second[0].fd), before);
        assert!(held.is_empty());
    }

    #[test]
    fn an_address_that_is_taken_is_named_and_nothing_left_is_an_error() {
        let log = Log::to_memory(LogLevel::Info);
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let text = format!("ListenAddress {}", taken.local_addr().unwrap());
        let error = open(&options(&text).connection, &mut Vec::new(), &log).unwrap_err();
        assert!(error.starts_with("Bind to port ") && error.ends_with("Cannot bind any address."));
        // The caller reports the error; the log must not repeat it.
        assert!(log.lines().is_empty(), "{:?}", log.lines());
    }
}
