//! Connects to a host: resolves the name, races the addresses, or runs a proxy.
//!
//! The socket has `TCP_NODELAY` before its first byte: without it a login waits twice for the
//! peer's delayed acknowledgement. [`crate::login`] speaks SSH over the stream.

pub mod eyeballs;
pub mod proxy;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use config::client::{ClientOptions, ConnectionOptions, Proxy};
use config::types::{AddressFamily, IpQos, TcpKeepAlive};
use sys::process::Child;
use sys::socket::{ConnectFrom, Family};

use crate::error::{ClientError, Peer};
use crate::jumps;
use crate::log::debug1;
use proxy::ProxyErrors;

/// A connected stream to the server, before the first byte.
#[derive(Debug)]
pub struct Link {
    /// The descriptor to read from, and to write to if `write` is `None`.
    pub read: OwnedFd,
    /// The descriptor to write to, if it differs.
    pub write: Option<OwnedFd>,
    /// The server.
    pub peer: Peer,
    /// The proxy process that carries the stream.
    pub proxy: Option<Child>,
}

/// A connection in progress. The caller can prepare other things before [`Dialing::finish`].
#[derive(Debug)]
pub struct Dialing<'c> {
    options: &'c ClientOptions,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Through a proxy: connected already.
    Done(Link),
    Racing {
        addresses: Vec<SocketAddr>,
        from: ConnectFrom,
        race: eyeballs::Race,
    },
}

/// Starts to connect as the options say. `config_file` is passed on to a jump (`-F`); `errors` is
/// where a proxy's standard error goes.
///
/// # Errors
/// [`ClientError`].
pub fn begin<'c>(
    options: &'c ClientOptions,
    config_file: Option<&str>,
    errors: ProxyErrors,
) -> Result<Dialing<'c>, ClientError> {
    let peer = Peer {
        host: options.hostname.clone(),
        port: options.port,
        address: None,
    };
    if options.connection.proxy != Proxy::Direct {
        jumps::check_depth(jumps::depth(), options)?;
    }
    let stage = match &options.connection.proxy {
        Proxy::Direct => {
            let addresses = resolve(options)?;
            let from = source(&options.connection, &addresses)?;
            let race = eyeballs::Race::start(&addresses, &from, timeout(&options.connection));
            Stage::Racing {
                addresses,
                from,
                race,
            }
        }
        Proxy::Command(line) if options.connection.proxy_use_fdpass => {
            let (socket, child) = proxy::fdpass(line, timeout(&options.connection))?
                .ok_or_else(|| ClientError::TimedOut(peer.clone()))?;
            prepare(&socket, &options.connection);
            Stage::Done(Link {
                read: socket,
                write: None,
                peer,
                proxy: Some(child),
            })
        }
        Proxy::Command(line) => Stage::Done(through(proxy::command(line, errors)?, peer)),
        Proxy::Jump(hops) => {
            let proxied = proxy::jump(hops, options, config_file, errors)?;
            Stage::Done(through(proxied, peer))
        }
    };
    Ok(Dialing { options, stage })
}

impl Dialing<'_> {
    /// Waits until the connection is established.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn finish(self) -> Result<Link, ClientError> {
        match self.stage {
            Stage::Done(link) => Ok(link),
            Stage::Racing {
                addresses,
                from,
                race,
            } => direct(self.options, &addresses, &from, race),
        }
    }
}

fn through(proxied: proxy::Proxied, peer: Peer) -> Link {
    Link {
        read: proxied.read,
        write: Some(proxied.write),
        peer,
        proxy: Some(proxied.child),
    }
}

fn timeout(connection: &ConnectionOptions) -> Option<Duration> {
    connection
        .connect_timeout_s
        .map(|seconds| Duration::from_secs(u64::from(seconds)))
}

fn direct(
    options: &ClientOptions,
    addresses: &[SocketAddr],
    from: &ConnectFrom,
    first: eyeballs::Race,
) -> Result<Link, ClientError> {
    let attempts = options.connection.connection_attempts.max(1);
    let mut race = Some(first);
    let mut reason = String::from("no address");
    for attempt in 1..=attempts {
        if attempt > 1 {
            debug1!("Trying again ({attempt} of {attempts})...");
            std::thread::sleep(Duration::from_secs(1));
        }
        let race = race.take().unwrap_or_else(|| {
            eyeballs::Race::start(addresses, from, timeout(&options.connection))
        });
        match race.run() {
            Ok(won) => {
                debug1!("Connection established.");
                if options.connection.use_mptcp && !sys::socket::is_multipath(&won.socket) {
                    debug1!("no Multipath TCP in this kernel; connected by TCP");
                }
                prepare(&won.socket, &options.connection);
                return Ok(Link {
                    read: won.socket,
                    write: None,
                    peer: Peer {
                        host: options.hostname.clone(),
                        port: options.port,
                        address: Some(won.address),
                    },
                    proxy: None,
                });
            }
            Err(eyeballs::AllFailed(failures)) => {
                if let Some((_, error)) = failures.last() {
                    reason = plain_reason(error);
                }
            }
        }
    }
    Err(ClientError::Connect {
        host: options.hostname.clone(),
        port: options.port,
        reason,
    })
}

/// The system's error text without `(os error N)`.
pub(crate) fn plain_reason(error: &std::io::Error) -> String {
    if error.kind() == std::io::ErrorKind::TimedOut {
        return "Connection timed out".to_owned();
    }
    escape::system_words(&error.to_string()).into_owned()
}

fn prepare(socket: &OwnedFd, connection: &ConnectionOptions) {
    // A descriptor from a proxy may not be a TCP socket; then these calls fail without harm.
    let _ = sys::socket::set_nodelay(socket.as_fd(), true);
    let _ = sys::socket::unpace_loopback(socket);
    if connection.tcp_keep_alive != TcpKeepAlive::No {
        let _ = sys::socket::set_keepalive(socket.as_fd(), true);
    }
}

/// Sets the type of service for the session that follows (`IPQoS`).
pub fn set_quality(socket: impl AsFd, ip_qos: IpQos, interactive: bool) {
    let quality = if interactive {
        ip_qos.interactive
    } else {
        ip_qos.bulk
    };
    if let Some(quality) = quality {
        // Not an IP socket (a proxy's pipe): nothing to set.
        if sys::socket::set_tos(socket, quality).is_ok() {
            debug1!("type of service set to 0x{quality:02x}");
        }
    }
}

/// AddressFamily, for the server's address and for forwardings.
pub(crate) fn family(connection: &ConnectionOptions) -> Family {
    match connection.address_family {
        AddressFamily::Any => Family::Any,
        AddressFamily::Inet => Family::V4,
        AddressFamily::Inet6 => Family::V6,
    }
}

fn resolve(options: &ClientOptions) -> Result<Vec<SocketAddr>, ClientError> {
    let host = options.hostname.as_str();
    let family = family(&options.connection);
    // A literal address needs neither the resolver nor the libraries that it loads.
    if let Some(address) = sys::socket::resolve::literal(host, options.port) {
        let fits = match family {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        };
        if fits {
            return Ok(vec![address]);
        }
    }
    let resolved = sys::socket::resolve(host, options.port, family, false).map_err(|error| {
        ClientError::Resolve {
            host: host.to_owned(),
            reason: error.to_string(),
        }
    })?;
    Ok(resolved.addresses)
}

fn source(
    connection: &ConnectionOptions,
    targets: &[SocketAddr],
) -> Result<ConnectFrom, ClientError> {
    let address = match &connection.bind_address {
        None => None,
        Some(text) => Some(bind_address(text, family(connection))?),
    };
    Ok(ConnectFrom {
        address,
        interface: connection.bind_interface.clone(),
        multipath: connection.use_mptcp,
        // With TCP Fast Open the connect call succeeds at once, so such an attempt would win every
        // race and no other attempt would follow.
        fast_open: connection.tcp_fast_open
            && targets.len() == 1
            && connection.connection_attempts <= 1,
    })
}

/// Number of bytes of the first flight that the SYN can carry; `None` without TCP Fast Open or
/// through a proxy. Systems send at most a segment of the path's MTU, less the longest TCP options,
/// and most paths have an MTU of 1500 bytes.
#[must_use]
pub fn syn_data_bytes(options: &ClientOptions, peer: &Peer) -> Option<usize> {
    /// TCP header and longest TCP options, bytes.
    const TCP_BYTES: usize = 20 + 40;
    let address = peer.address.filter(|_| options.connection.tcp_fast_open)?;
    let ip_bytes = if address.is_ipv4() { 20 } else { 40 };
    Some(1500 - ip_bytes - TCP_BYTES)
}

fn bind_address(text: &str, family: Family) -> Result<IpAddr, ClientError> {
    if let Some(address) = sys::socket::resolve::literal(text, 0) {
        return Ok(address.ip());
    }
    let refused = |reason: String| {
        ClientError::Refused(format!(
            "ssh: BindAddress {}: {reason}",
            crate::text::one_line(text)
        ))
    };
    let resolved =
        sys::socket::resolve(text, 0, family, false).map_err(|error| refused(error.to_string()))?;
    match resolved.addresses.first() {
        Some(address) => Ok(address.ip()),
        None => Err(refused("no address".into())),
    }
}
