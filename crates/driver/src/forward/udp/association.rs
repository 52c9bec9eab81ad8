//! Associations of SOCKS 5 (RFC 1928 §7, UDP ASSOCIATE): a client's datagrams, each with its target,
//! as long as the client keeps its TCP connection.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use crate::forward::{ForwardReport, ForwardStage, ForwardToken, Forwards, SocksOutcome};
use crate::{Driver, SocketPair};

/// Maximum associations of a connection; each has two sockets.
const MAX_ASSOCIATIONS: usize = 256;
/// Bytes that are read from a client's connection and dropped at a time.
const DROPPED_BYTES: usize = 512;

/// The client of an association.
pub(super) struct Association {
    control: SocketPair,
    /// The address of the client's TCP connection.
    client: IpAddr,
    /// The port that the client sends from: the one that it has named, or that of its first
    /// datagram.
    port: Option<u16>,
}

impl Association {
    /// True if this is the client's address. Datagrams of others are dropped.
    pub(super) fn is_client(&mut self, address: SocketAddr) -> bool {
        address.ip() == self.client && *self.port.get_or_insert(address.port()) == address.port()
    }

    pub(super) fn close(self, driver: &mut Driver) {
        driver.unwatch(self.control.read.as_fd());
    }
}

impl Forwards {
    /// A client of a local SOCKS listener has asked for an association; `port`: see
    /// [`super::super::SocksStep::Associate`].
    pub(in crate::forward) fn associate(&mut self, serial: u64, port: u16, driver: &mut Driver) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        let origin = entry.origin;
        let (control, peer) = match std::mem::replace(&mut entry.stage, ForwardStage::PeerAsks) {
            ForwardStage::Asking(socket, peer) => (socket, peer),
            other => return entry.stage = other,
        };
        let socks = entry.socks.take().unwrap_or_default();
        driver.unwatch(control.read.as_fd());
        self.remove(serial, driver);
        let associations = self.udp.listeners.values();
        let count = associations.filter(|each| each.association.is_some());
        let made = if !driver.connection().udp_forward_supported() {
            self.reports.push_back(ForwardReport::UdpUnsupported);
            Err(SocksOutcome::Unsupported)
        } else if count.count() >= MAX_ASSOCIATIONS {
            Err(SocksOutcome::Unreachable)
        } else {
            bind_beside(&control).map_err(|_| SocksOutcome::Unreachable)
        };
        let answer = |reply: &[u8]| _ = sys::socket::send_now(&control.write, reply);
        match (made, peer) {
            (Ok((socket, address)), Some(peer)) => {
                answer(&socks.associated(address));
                let association = Association {
                    control,
                    client: peer.ip(),
                    port: Some(port).filter(|port| *port != 0),
                };
                self.serve_association(socket, association, origin, driver);
            }
            (made, _) => {
                let outcome = made.err().unwrap_or(SocksOutcome::Unreachable);
                answer(&socks.reply(outcome));
            }
        }
    }

    fn serve_association(
        &mut self,
        socket: OwnedFd,
        association: Association,
        origin: Option<u64>,
        driver: &mut Driver,
    ) {
        let serial = self.new_number();
        let token = ForwardToken::UdpControl(serial).number();
        let control = association.control.read.as_fd();
        if driver.watch(control, token, true, false).is_err() {
            return;
        }
        let origin = origin.unwrap_or(serial);
        self.listen_association(serial, socket, (association, origin), driver);
    }

    /// The client's connection has ended, and the association with it, or has bytes that mean
    /// nothing.
    pub(in crate::forward) fn control_ready(&mut self, serial: u64, driver: &mut Driver) {
        let listener = self.udp.listeners.get(&serial);
        let Some(association) = listener.and_then(|listener| listener.association.as_ref()) else {
            return;
        };
        let mut bytes = [0; DROPPED_BYTES];
        match sys::io::read(&association.control.read, &mut bytes) {
            Ok(1..) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => _ = self.cancel_udp(serial, driver),
        }
    }
}

/// A socket on the address at which the client has connected, and its own address.
fn bind_beside(control: &SocketPair) -> io::Result<(OwnedFd, SocketAddr)> {
    let at = sys::socket::local_address(&control.read)?;
    let socket = sys::socket::datagram::bind(SocketAddr::new(at.ip(), 0))?;
    let address = sys::socket::local_address(&socket)?;
    Ok((socket, address))
}
