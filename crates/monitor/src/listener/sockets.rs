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

/// Opens the sockets that `connection` names. A socket of `open` that is named again moves to the result unchanged, with the
/// connections that wait in it. One of `open` that is not named again, or only after an address that includes its own, is closed
/// if a new address cannot be bound beside it, as `127.0.0.1:22` beside `0.0.0.0:22`: OpenSSH closes all of them first.
///
/// # Errors
/// If no socket can be opened: one line for each reason. `open` then has the addresses that it had; of those whose socket was
/// closed the text names the ones that could not be opened again, and the others are logged.
pub(crate) fn open(
    connection: &ConnectionOptions,
    open: &mut Vec<Socket>,
    log: &Log,
) -> Result<Vec<Socket>, String> {
    let mut sockets: Vec<Socket> = Vec::new();
    let mut closed: Vec<WantedAddress> = Vec::new();
    let mut failures = Vec::new();
    for wanted in wanted(connection, log) {
        if wanted.address.port() != 0 && sockets.iter().any(|socket| wanted.is_of(socket)) {
            continue;
        }
        let kept = open
            .iter()
            .position(|socket| !socket.inherited && wanted.is_of(socket));
        if let Some(at) = kept {
            sockets.push(open.swap_remove(at));
            continue;
        }
        let mut bound = wanted.bind();
        let is_in_use = |error: &std::io::Error| error.kind() == std::io::ErrorKind::AddrInUse;
        if bound.as_ref().is_err_and(is_in_use) {
            let in_the_way = open
                .extract_if(.., |socket| !socket.inherited && wanted.overlaps(socket))
                .map(WantedAddress::address_of)
                .collect::<Vec<_>>();
            if !in_the_way.is_empty() {
                closed.extend(in_the_way);
                bound = wanted.bind();
            }
        }
        match bound {
            Ok(socket) => {
                if connection.use_mptcp && !sys::socket::is_multipath(&socket.fd) {
                    log.debug("no Multipath TCP in this kernel; listening by TCP");
                }
                log.info(&listening(&socket));
                sockets.push(socket);
            }
            Err(error) => failures.push(wanted.failure(&error)),
        }
    }
    if sockets.is_empty() {
        failures.push("Cannot bind any address.".to_owned());
        for before in closed {
            match before.bind() {
                Ok(socket) => {
                    log.info(&listening(&socket));
                    open.push(socket);
                }
                Err(error) => failures.push(before.failure(&error)),
            }
        }
        return Err(failures.join("\n"));
    }
    for failure in failures {
        log.error(&failure);
    }
    Ok(sockets)
}

/// An address to listen at.
struct WantedAddress {
    address: SocketAddr,
    rdomain: Option<String>,
    multipath: bool,
}

impl WantedAddress {
    /// The address of a socket that is closed by this.
    fn address_of(socket: Socket) -> Self {
        Self {
            address: socket.address,
            multipath: sys::socket::is_multipath(&socket.fd),
            rdomain: socket.rdomain,
        }
    }

    fn is_of(&self, socket: &Socket) -> bool {
        socket.address == self.address && socket.rdomain == self.rdomain
    }

    /// True if the kernel refuses one of the two while the other listens. IPv6 sockets are for IPv6 only.
    fn overlaps(&self, socket: &Socket) -> bool {
        let (one, other) = (self.address, socket.address);
        let is_wide = |address: SocketAddr| address.ip().is_unspecified();
        one.port() == other.port()
            && one.is_ipv4() == other.is_ipv4()
            && (one.ip() == other.ip() || is_wide(one) || is_wide(other))
            && (self.rdomain == socket.rdomain
                || self.rdomain.is_none()
                || socket.rdomain.is_none())
    }

    fn bind(&self) -> std::io::Result<Socket> {
        let form = ListenForm {
            reuse: true,
            v6only: true,
            multipath: self.multipath,
            device: self.rdomain.as_deref(),
        };
        let fd = sys::socket::listen_as(self.address, BACKLOG, form)?;
        let _ = sys::socket::set_fastopen_queue(&fd, FAST_OPEN_QUEUE);
        Ok(Socket {
            address: sys::socket::local_address(&fd).unwrap_or(self.address),
            rdomain: self.rdomain.clone(),
            fd,
            inherited: false,
        })
    }

    fn failure(&self, error: &std::io::Error) -> String {
        format!(
            "Bind to port {} on {} failed: {error}.",
            self.address.port(),
            self.address.ip()
        )
    }
}

fn listening(socket: &Socket) -> String {
    let rdomain = socket.rdomain.as_ref();
    format!(
        "Server listening on {} port {}{}.",
        socket.address.ip(),
        socket.address.port(),
        rdomain
            .map(|name| format!(" rdomain {name}"))
            .unwrap_or_default()
    )
}

/// The addresses of all ListenAddress lines, in their order; a name that does not resolve is logged.
fn wanted(connection: &ConnectionOptions, log: &Log) -> Vec<WantedAddress> {
    let mut all = Vec::new();
    for listen in &connection.listen_addresses {
        let found = addresses(listen, connection.address_family).unwrap_or_else(|failure| {
            log.error(&failure);
            Vec::new()
        });
        all.extend(found.into_iter().map(|address| WantedAddress {
            address,
            rdomain: listen.rdomain.clone(),
            multipath: connection.use_mptcp,
        }));
    }
    all
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

    fn addresses_of(sockets: &[Socket]) -> Vec<String> {
        let mut all: Vec<String> = sockets.iter().map(|one| one.address.to_string()).collect();
        all.sort();
        all
    }

    fn descriptor_of(sockets: &[Socket], address: &str) -> i32 {
        let found = sockets
            .iter()
            .find(|one| one.address.to_string() == address);
        std::os::fd::AsRawFd::as_raw_fd(&found.expect(address).fd)
    }

    /// Opens what the first lines name, then what the second name.
    fn reopened(first: &[&str], second: &[&str]) -> Vec<String> {
        let log = Log::to_memory(LogLevel::Info);
        let port = free_port();
        let with_port = |text: &&str| text.replace("PORT", &port.to_string());
        let lines = |all: &[&str]| -> String {
            let line = |each: &&str| format!("ListenAddress {}\n", with_port(each));
            all.iter().map(line).collect()
        };
        let mut held = open(&options(&lines(first)).connection, &mut Vec::new(), &log).unwrap();
        let opened = open(&options(&lines(second)).connection, &mut held, &log).unwrap();
        let port = format!(":{port}");
        let all = addresses_of(&opened).into_iter();
        all.map(|each| each.replace(&port, ":PORT")).collect()
    }

    /// Free at all addresses at once.
    fn free_port() -> u16 {
        let any = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        any.local_addr().unwrap().port()
    }

    #[test]
    fn a_port_gets_a_narrower_address_or_a_wider_one() {
        let (wide, narrow) = ("0.0.0.0:PORT", "127.0.0.1:PORT");
        assert_eq!(reopened(&[wide], &[narrow]), [narrow]);
        assert_eq!(reopened(&[narrow], &[wide]), [wide]);
        assert_eq!(
            reopened(&[wide], &[narrow, "127.0.0.2:PORT"]),
            [narrow, "127.0.0.2:PORT"]
        );
        // Of two that exclude each other the first counts, as at a start.
        assert_eq!(reopened(&[narrow], &[wide, narrow]), [wide]);
        assert_eq!(reopened(&[wide], &[narrow, wide]), [narrow]);
        assert_eq!(reopened(&[narrow], &[narrow, wide]), [narrow]);
    }

    #[test]
    fn an_address_that_stays_keeps_its_socket_beside_one_that_goes() {
        let log = Log::to_memory(LogLevel::Info);
        let port = free_port();
        let (first, second) = (format!("127.0.0.1:{port}"), format!("127.0.0.2:{port}"));
        let text = |others: &str| format!("ListenAddress {first}\n{others}");
        let two = options(&text(&format!("ListenAddress {second}")));
        let mut held = open(&two.connection, &mut Vec::new(), &log).unwrap();
        let before = descriptor_of(&held, &first);
        let wider = options(&text(&format!("ListenAddress 0.0.0.0:{port}")));
        let opened = open(&wider.connection, &mut held, &log).unwrap();
        // The wide one fails, as at a start with this configuration.
        assert_eq!(addresses_of(&opened), [first.as_str()]);
        assert_eq!(descriptor_of(&opened, &first), before);
    }

    #[test]
    fn what_was_closed_in_vain_is_opened_again() {
        let log = Log::to_memory(LogLevel::Info);
        let port = free_port();
        let text = |address: &str| format!("ListenAddress {address}:{port}");
        let ours = "127.0.0.1";
        let mut held = open(&options(&text(ours)).connection, &mut Vec::new(), &log).unwrap();
        // Another program's address is in the way, too.
        let _taken = std::net::TcpListener::bind(("127.0.0.2", port)).unwrap();
        let wide = options(&text("0.0.0.0"));
        let error = open(&wide.connection, &mut held, &log).unwrap_err();
        assert!(error.ends_with("Cannot bind any address."), "{error}");
        assert_eq!(addresses_of(&held), [format!("{ours}:{port}")]);
        let line = format!("Server listening on {ours} port {port}.");
        let lines = log.lines();
        assert_eq!(
            lines.iter().filter(|each| each.contains(&line)).count(),
            2,
            "{lines:?}"
        );
        assert!(std::net::TcpStream::connect((ours, port)).is_ok());
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
