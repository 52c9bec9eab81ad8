//! Sockets that receive datagrams of local peers, and the flows that begin with them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use proto::Millis;
use sys::socket::datagram::{self, DatagramPeer, MAX_DATAGRAM_BYTES};
use wire::Put;

use super::association::Association;
use super::{FlowKey, NamedTarget, UdpStage};
use crate::Driver;
use crate::forward::{
    ForwardReport, ForwardTarget, ForwardToken, Forwards, ListeningSockets, Opens, SocksDatagram,
};
use crate::packets::{DatagramEnd, DatagramPort, MAX_READ_BYTES, MAX_READS};

/// Maximum flows of one listener or association. The one that was used longest ago ends for a new
/// one.
const MAX_FLOWS: usize = 256;
/// Longest datagram that the request for a channel carries, bytes: every peer takes 32 KiB.
const MAX_OPENING_BYTES: usize = 16 * 1024;
/// Maximum bytes of such datagrams in all requests that are not answered. They wait neither for a
/// window nor for a key exchange, and the connection ends with 1 MiB of such messages.
const MAX_UNANSWERED_BYTES: u64 = 256 * 1024;
/// Time after a refusal in which no further flow to the same target is requested, milliseconds.
const REFUSED_MS: Millis = 1_000;
/// Maximum targets whose refusal is remembered.
const MAX_REFUSED: usize = 64;

/// A bound socket of each address.
pub(super) struct UdpListener {
    pub(super) sockets: Vec<Arc<OwnedFd>>,
    opens: Opens,
    /// The forwarding that counts its flows.
    pub(super) origin: u64,
    pub(super) flows: usize,
    /// Until when flows to these targets are not requested.
    refused: BTreeMap<NamedTarget, Millis>,
    /// The client of SOCKS that it serves.
    pub(super) association: Option<Association>,
}

impl UdpListener {
    pub(super) fn new(
        sockets: Vec<OwnedFd>,
        opens: Opens,
        origin: u64,
        association: Option<Association>,
    ) -> Self {
        Self {
            sockets: sockets.into_iter().map(Arc::new).collect(),
            opens,
            origin,
            flows: 0,
            refused: BTreeMap::new(),
            association,
        }
    }

    pub(super) fn note_refused(&mut self, target: NamedTarget, now: Millis) {
        if self.refused.len() >= MAX_REFUSED {
            self.refused.clear();
        }
        self.refused.insert(target, now.saturating_add(REFUSED_MS));
    }

    fn is_refused(&self, target: &NamedTarget, now: Millis) -> bool {
        self.refused.get(target).is_some_and(|until| now < *until)
    }
}

/// A received datagram.
#[derive(Clone, Copy)]
struct Received<'d> {
    socket: &'d Arc<OwnedFd>,
    peer: DatagramPeer,
    bytes: &'d [u8],
}

impl Forwards {
    /// Receives datagrams from now on; [`Forwards::cancel`] knows the listener by this number.
    pub(in crate::forward) fn listen_udp(
        &mut self,
        sockets: ListeningSockets,
        opens: Opens,
        driver: &mut Driver,
    ) -> io::Result<u64> {
        let serial = self.new_number();
        let listener = UdpListener::new(sockets.sockets, opens, serial, None);
        self.watch_udp(serial, listener, driver)?;
        Ok(serial)
    }

    /// Receives the datagrams of an association; `origin` counts its flows.
    pub(super) fn listen_association(
        &mut self,
        serial: u64,
        socket: OwnedFd,
        (association, origin): (Association, u64),
        driver: &mut Driver,
    ) {
        let listener = UdpListener::new(vec![socket], Opens::Socks, origin, Some(association));
        // Without it, the client gets no datagrams.
        let _ = self.watch_udp(serial, listener, driver);
    }

    fn watch_udp(
        &mut self,
        serial: u64,
        listener: UdpListener,
        driver: &mut Driver,
    ) -> io::Result<()> {
        let token = ForwardToken::UdpReady(serial).number();
        let mut sockets = listener.sockets.iter();
        let watched =
            sockets.try_for_each(|socket| driver.watch(socket.as_fd(), token, true, false));
        self.udp.listeners.insert(serial, listener);
        if watched.is_err() {
            self.cancel_udp(serial, driver);
        }
        watched
    }

    /// Closes a listener or association with its flows; false if there is none of this number.
    pub(in crate::forward) fn cancel_udp(&mut self, serial: u64, driver: &mut Driver) -> bool {
        let Some(listener) = self.udp.listeners.remove(&serial) else {
            return false;
        };
        for socket in &listener.sockets {
            driver.unwatch(socket.as_fd());
        }
        if let Some(association) = listener.association {
            association.close(driver);
        }
        let keys = self.udp.keys.iter();
        let flows = keys.filter(|(key, _)| key.listener == serial);
        let flows: Vec<u64> = flows.map(|(_, flow)| *flow).collect();
        for flow in flows {
            self.end_flow(flow, driver);
        }
        true
    }

    /// Closes all listeners, associations and their flows.
    pub(in crate::forward) fn cancel_all_udp(&mut self, driver: &mut Driver) {
        let serials: Vec<u64> = self.udp.listeners.keys().copied().collect();
        for serial in serials {
            self.cancel_udp(serial, driver);
        }
    }

    /// Reads what waits, up to a limit for each socket; epoll reports the rest again.
    pub(in crate::forward) fn udp_ready(&mut self, serial: u64, driver: &mut Driver) {
        let Some(listener) = self.udp.listeners.get(&serial) else {
            return;
        };
        let sockets = listener.sockets.clone();
        let mut buffer = std::mem::take(&mut self.udp.scratch);
        buffer.resize(MAX_DATAGRAM_BYTES, 0);
        for socket in &sockets {
            let mut bytes = 0;
            for _ in 0..MAX_READS {
                // Errors of peers are not reported; others end with the shortage that caused them.
                let Ok((count, peer)) = datagram::recv_from(&**socket, &mut buffer) else {
                    break;
                };
                let received = Received {
                    socket,
                    peer,
                    bytes: buffer.get(..count).unwrap_or_default(),
                };
                self.received(serial, received, driver);
                bytes += count;
                if bytes >= MAX_READ_BYTES {
                    break;
                }
            }
        }
        self.udp.scratch = buffer;
    }

    /// Passes a datagram to its flow, which may begin with it.
    fn received(&mut self, serial: u64, received: Received<'_>, driver: &mut Driver) {
        let Some(listener) = self.udp.listeners.get_mut(&serial) else {
            return;
        };
        let mut named = None;
        let mut head_bytes = 0;
        if let Some(association) = &mut listener.association {
            let is_client = association.is_client(received.peer.address);
            let header = SocksDatagram::parse(received.bytes).filter(|_| is_client);
            let Some(header) = header else {
                return;
            };
            named = Some((header.host, header.port));
            head_bytes = header.head_bytes;
        }
        let (head, bytes) = received
            .bytes
            .split_at(head_bytes.min(received.bytes.len()));
        let key = FlowKey {
            listener: serial,
            peer: received.peer,
            target: named,
        };
        self.udp.used += 1;
        match self.udp.keys.get(&key).copied() {
            Some(flow) => self.push(flow, bytes, driver),
            None => self.open_flow(key, head, Received { bytes, ..received }, driver),
        }
    }

    fn push(&mut self, serial: u64, bytes: &[u8], driver: &mut Driver) {
        let Some(flow) = self.udp.flows.get_mut(&serial) else {
            return;
        };
        flow.last_used = self.udp.used;
        match &mut flow.stage {
            UdpStage::Opening(port) => port.push(bytes),
            UdpStage::Open => {
                if let Some(port) = driver.endpoint::<DatagramPort>(flow.channel) {
                    port.push(bytes);
                }
            }
            UdpStage::Lookup(..) | UdpStage::Ending => {}
        }
    }

    fn open_flow(
        &mut self,
        key: FlowKey,
        head: &[u8],
        received: Received<'_>,
        driver: &mut Driver,
    ) {
        if !self.has_room(&key, driver) {
            return;
        }
        let Some(listener) = self.udp.listeners.get(&key.listener) else {
            return;
        };
        let originator = Some(received.peer.address);
        let (kind, mut fields, label) = match (&listener.opens, &key.target) {
            (Opens::Direct(target), _) => {
                let (kind, fields) = target.open_request(originator);
                (kind, fields, format!("local to {target}"))
            }
            (Opens::Forwarded(listening), _) => {
                let (kind, fields) = listening.open_request(originator);
                (kind, fields, "remote datagrams".to_owned())
            }
            (_, Some((host, port))) => {
                let (host, port) = (host.clone(), *port);
                let target = ForwardTarget::Udp { host, port };
                let (kind, fields) = target.open_request(originator);
                (kind, fields, format!("dynamic to {target}"))
            }
            _ => return,
        };
        let origin = listener.origin;
        let mut port = Box::new(DatagramPort::new(DatagramEnd::Peer {
            socket: Arc::clone(received.socket),
            peer: received.peer,
            head: head.to_vec(),
        }));
        let before = fields.len();
        match opens_with(received.bytes.len(), self.udp.unanswered_bytes()) {
            true => fields.put_string(received.bytes),
            false => port.push(received.bytes),
        }
        let first_bytes = u64::try_from(fields.len() - before).unwrap_or_default();
        match driver.connection().open_channel(kind, &fields) {
            Ok(channel) => {
                let (stage, listener) = (UdpStage::Opening(port), key.listener);
                let flow = self.insert_flow(channel, stage, Some(key), (label, Some(origin)));
                if let Some(flow) = self.udp.flows.get_mut(&flow) {
                    flow.first.sent = first_bytes;
                }
                if let Some(listener) = self.udp.listeners.get_mut(&listener) {
                    listener.flows += 1;
                }
            }
            Err(error) => {
                if let Some(listener) = self.udp.listeners.get_mut(&key.listener) {
                    listener.note_refused(key.target, driver.now());
                }
                self.reports.push_back(ForwardReport::NoChannel(error));
            }
        }
    }

    /// True if a flow may begin; the listener's flow that was used longest ago may end for it.
    fn has_room(&mut self, key: &FlowKey, driver: &mut Driver) -> bool {
        let Some(listener) = self.udp.listeners.get(&key.listener) else {
            return false;
        };
        if listener.is_refused(&key.target, driver.now()) {
            return false;
        }
        if listener.flows < MAX_FLOWS {
            return true;
        }
        let flows = self.udp.flows.iter();
        let open = flows.filter(|(_, flow)| {
            let own = flow.key.as_ref().map(|key| key.listener);
            own == Some(key.listener) && matches!(flow.stage, UdpStage::Open)
        });
        let oldest = open.min_by_key(|(_, flow)| flow.last_used);
        match oldest.map(|(serial, _)| *serial) {
            Some(serial) => {
                self.end_flow(serial, driver);
                true
            }
            // All of them wait for an answer.
            None => false,
        }
    }
}

/// True if the request for a channel carries a datagram of this length, while those that are not
/// answered carry `unanswered` bytes.
fn opens_with(len: usize, unanswered: u64) -> bool {
    let all = u64::try_from(len).map_or(u64::MAX, |len| unanswered.saturating_add(len));
    len <= MAX_OPENING_BYTES && all <= MAX_UNANSWERED_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_without_an_answer_carry_a_bounded_number_of_bytes() {
        assert!(opens_with(0, 0) && opens_with(MAX_OPENING_BYTES, 0));
        assert!(!opens_with(MAX_OPENING_BYTES + 1, 0));
        let mut unanswered = 0;
        let mut count = 0;
        while opens_with(MAX_OPENING_BYTES, unanswered) {
            unanswered += u64::try_from(MAX_OPENING_BYTES).unwrap();
            count += 1;
        }
        assert_eq!(count, 16);
        assert!(unanswered <= MAX_UNANSWERED_BYTES);
    }
}
