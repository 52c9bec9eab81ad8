//! Sockets that accept connections to forward, and the rules by which a requested address becomes
//! the addresses that are bound (OpenSSH's `channel_fwd_bind_addr`).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use sys::socket::{Family, SocketFile};

/// Length of the queue of connections that are not accepted yet.
const BACKLOG: i32 = 1024;

/// `GatewayPorts`, and who applies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gateway {
    /// Client, `no`: all addresses only if the user names them.
    Client,
    /// Client, `yes`: all addresses unless the user names others.
    OpenClient,
    /// Server, `no`: loopback addresses only.
    Loopback,
    /// Server, `yes`: all addresses, except that the client may name a loopback address.
    Everywhere,
    /// Server, `clientspecified`.
    AsRequested,
}

/// Which addresses are bound.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Bind {
    Loopback,
    Everywhere,
    Named(String),
}

impl Gateway {
    /// True if both requested addresses mean the same listener.
    #[must_use]
    pub fn is_same(self, one: Option<&str>, other: Option<&str>) -> bool {
        self.bind(one) == self.bind(other)
    }

    /// A name for the addresses of a requested one: the same for all requests that mean the same.
    #[must_use]
    pub fn place(self, requested: Option<&str>) -> String {
        match self.bind(requested) {
            Bind::Loopback => "localhost".to_owned(),
            Bind::Everywhere => "*".to_owned(),
            Bind::Named(address) => address,
        }
    }

    /// The addresses for a requested one; `None` if none was named.
    fn bind(self, requested: Option<&str>) -> Bind {
        let Some(address) = requested else {
            return match self {
                Self::OpenClient => Bind::Everywhere,
                _ => Bind::Loopback,
            };
        };
        let is_local = matches!(address, "127.0.0.1" | "::1");
        match self {
            Self::Loopback if is_local => Bind::Named(address.to_owned()),
            Self::Loopback => Bind::Loopback,
            Self::Everywhere => Bind::Everywhere,
            _ if matches!(address, "" | "*") => Bind::Everywhere,
            // Both families.
            _ if address == "localhost" => Bind::Loopback,
            _ => Bind::Named(address.to_owned()),
        }
    }
}

/// Listening sockets of one forwarding.
#[derive(Debug)]
pub struct ListeningSockets {
    pub(super) sockets: Vec<OwnedFd>,
    /// The port; 0 for a Unix socket.
    pub port: u16,
    /// A Unix socket's file, to remove it at the end.
    file: Option<SocketFile>,
}

impl ListeningSockets {
    /// Listens on a TCP port, or receives datagrams on a UDP port if `is_udp` is true; port 0 lets the
    /// system choose one. At least one of the addresses must be free; `failed` gets each one that is
    /// not.
    ///
    /// # Errors
    /// The last address's error if none can be bound; the resolver's words for a name.
    pub fn on_port(
        requested: Option<&str>,
        (port, is_udp): (u16, bool),
        gateway: Gateway,
        family: Family,
        mut failed: impl FnMut(SocketAddr, &io::Error),
    ) -> io::Result<Self> {
        let make = |address| match is_udp {
            false => sys::socket::listen(address, BACKLOG, true, true),
            true => sys::socket::datagram::bind(address),
        };
        let both = |v4: Ipv4Addr, v6: Ipv6Addr| [(v4, 0).into(), (v6, 0).into()];
        let addresses: Vec<SocketAddr> = match gateway.bind(requested) {
            Bind::Loopback => {
                let [v4, v6] = both(Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
                vec![v6, v4]
            }
            Bind::Everywhere => both(Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED).to_vec(),
            Bind::Named(name) => match sys::socket::literal(&name, 0) {
                Some(address) => vec![address],
                // A link-local address is one of its interface, which stays.
                None => {
                    let found = sys::socket::resolve(&name, 0, family, false);
                    found
                        .map_err(|error| io::Error::other(error.to_string()))?
                        .addresses
                }
            },
        };
        let mut listening = Self {
            sockets: Vec::new(),
            port,
            file: None,
        };
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        let fits = |address: &SocketAddr| match family {
            Family::Any => true,
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
        };
        for mut address in addresses.into_iter().filter(fits) {
            address.set_port(listening.port);
            let bound = make(address).and_then(|socket| {
                let port = sys::socket::local_address(&socket)?.port();
                Ok((socket, port))
            });
            match bound {
                Ok((socket, port)) => {
                    // The other families get the same port.
                    listening.port = port;
                    listening.sockets.push(socket);
                }
                Err(error) => {
                    failed(address, &error);
                    last = error;
                }
            }
        }
        match listening.sockets.is_empty() {
            true => Err(last),
            false => Ok(listening),
        }
    }

    /// Listens on a Unix socket with the mode 0777 less `mask`. `unlink` first removes a socket of
    /// this user at the path.
    ///
    /// # Errors
    /// Those of bind(2).
    pub fn unix(path: &Path, mask: u32, unlink: bool) -> io::Result<Self> {
        if unlink {
            sys::socket::unlink_own_socket(path)?;
        }
        let socket = sys::socket::listen_unix(path, BACKLOG, mask)?;
        Ok(Self {
            sockets: vec![socket],
            port: 0,
            file: Some(SocketFile::at(path)?),
        })
    }

    /// Watches for connections under `token`, or ceases to.
    pub(super) fn watch(
        &self,
        token: u64,
        wanted: bool,
        driver: &mut crate::Driver,
    ) -> io::Result<()> {
        self.sockets
            .iter()
            .try_for_each(|socket| driver.watch(socket.as_fd(), token, wanted, false))
    }

    /// Closes the sockets, and removes a Unix socket that is still the one at its path.
    pub(super) fn close(self, driver: &mut crate::Driver) {
        for socket in &self.sockets {
            driver.unwatch(socket.as_fd());
        }
        self.discard();
    }

    /// Closes sockets that no driver watches, as `Forwards::cancel` does those of a listener.
    pub fn discard(self) {
        if let Some(file) = &self.file {
            file.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_bound_as_openssh_binds_them() {
        let named = |address: &str| Bind::Named(address.into());
        let cases = [
            (Gateway::Client, None, Bind::Loopback),
            (Gateway::Client, Some(""), Bind::Everywhere),
            (Gateway::Client, Some("*"), Bind::Everywhere),
            (Gateway::Client, Some("localhost"), Bind::Loopback),
            (Gateway::Client, Some("192.0.2.1"), named("192.0.2.1")),
            (Gateway::OpenClient, None, Bind::Everywhere),
            (Gateway::OpenClient, Some("127.0.0.1"), named("127.0.0.1")),
            (Gateway::OpenClient, Some("localhost"), Bind::Loopback),
            (Gateway::Loopback, Some("localhost"), Bind::Loopback),
            (Gateway::Loopback, Some(""), Bind::Loopback),
            (Gateway::Loopback, Some("192.0.2.1"), Bind::Loopback),
            (Gateway::Loopback, Some("::1"), named("::1")),
            (Gateway::Everywhere, Some("localhost"), Bind::Everywhere),
            (Gateway::Everywhere, Some("192.0.2.1"), Bind::Everywhere),
            (Gateway::AsRequested, Some(""), Bind::Everywhere),
            (Gateway::AsRequested, Some("localhost"), Bind::Loopback),
            (Gateway::AsRequested, Some("192.0.2.1"), named("192.0.2.1")),
        ];
        for (gateway, requested, bind) in cases {
            assert_eq!(gateway.bind(requested), bind, "{gateway:?} {requested:?}");
        }
    }

    #[test]
    fn both_families_get_the_port_that_the_system_chose() {
        let listening = ListeningSockets::on_port(
            Some("localhost"),
            (0, false),
            Gateway::Client,
            Family::Any,
            |_, _| {},
        )
        .unwrap();
        assert_ne!(listening.port, 0);
        for socket in &listening.sockets {
            let address = sys::socket::local_address(socket).unwrap();
            assert_eq!(address.port(), listening.port);
            assert!(address.ip().is_loopback());
        }
        let mut failures = 0;
        let again = ListeningSockets::on_port(
            Some("127.0.0.1"),
            (listening.port, false),
            Gateway::Client,
            Family::Any,
            |_, _| failures += 1,
        );
        assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(failures, 1);
    }
}
