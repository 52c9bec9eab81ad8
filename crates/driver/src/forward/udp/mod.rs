//! Forwarded datagrams (docs/PROTOCOL.md, `direct-udp` and `forwarded-udp`). A flow, which is what a
//! local peer and one target exchange, has a channel of its own: it is opened, permitted, counted
//! and closed like a forwarded connection.
//!
//! [`listening`] has the side that receives from local peers, [`association`] that of SOCKS; the
//! other side is here. A flow ends with its channel, which either side closes after some time
//! without data (`ChannelTimeout`, with a default for these types). Flows do not keep a session
//! open: nothing says when a datagram is the last.

mod association;
mod listening;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use proto::channel::ChannelTraffic;
use proto::{ChannelId, Event, Millis};
use sys::socket::datagram::DatagramPeer;
use wire::message::open_failure;

use super::{ForwardReport, ForwardTarget, Forwards, words};
use crate::packets::{DatagramEnd, DatagramPort, DatagramTarget};
use crate::{Driver, Notice};
use listening::UdpListener;

/// All flows of a connection, and the sockets that receive from local peers.
#[derive(Default)]
pub(super) struct UdpForwards {
    listeners: BTreeMap<u64, UdpListener>,
    flows: BTreeMap<u64, UdpFlow>,
    channels: BTreeMap<ChannelId, u64>,
    keys: BTreeMap<FlowKey, u64>,
    /// Counts datagrams of local peers, for the order in which flows were used.
    used: u64,
    /// One datagram.
    scratch: Vec<u8>,
}

/// What distinguishes the flows of local peers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct FlowKey {
    listener: u64,
    peer: DatagramPeer,
    /// The target that a datagram of SOCKS names.
    target: NamedTarget,
}

/// Host and port; `None` if the listener has one target.
type NamedTarget = Option<(String, u16)>;

struct UdpFlow {
    channel: ChannelId,
    stage: UdpStage,
    /// On the side of the local peer, until the flow ends.
    key: Option<FlowKey>,
    /// Value of [`UdpForwards::used`] at its last datagram.
    last_used: u64,
    /// Bytes of the datagrams that the request for the channel carried.
    first: ChannelTraffic,
    /// Its name for the user.
    label: String,
    /// The number of the forwarding that it belongs to.
    origin: Option<u64>,
}

enum UdpStage {
    /// The target's name is looked up; the records came with the request.
    Lookup(ForwardTarget, Vec<u8>),
    /// The peer has not answered our request.
    Opening(Box<DatagramPort>),
    Open,
    /// The channel is closed as soon as it can be.
    Ending,
}

impl UdpForwards {
    /// Bytes of datagrams in the requests for channels that are not answered.
    fn unanswered_bytes(&self) -> u64 {
        let flows = self.flows.values();
        // One that ends may not have been answered either.
        let open =
            flows.filter(|flow| matches!(flow.stage, UdpStage::Opening(_) | UdpStage::Ending));
        open.map(|flow| flow.first.sent).sum()
    }
}

impl Forwards {
    /// Exchanges datagrams between a channel that the peer opened and `target`, first those in
    /// `records`. The flow belongs to the forwarding `origin`, if that is counted.
    pub fn connect_udp(
        &mut self,
        channel: ChannelId,
        (host, port): (String, u16),
        records: &[u8],
        origin: Option<u64>,
        driver: &mut Driver,
    ) {
        let count = self.entries.len() + self.udp.flows.len();
        if count >= driver.connection().max_channels() {
            let (reason, text) = (open_failure::RESOURCE_SHORTAGE, "too many connections");
            let _ = driver.connection().reject_channel(channel, reason, text);
            return;
        }
        let (family, literal) = (self.settings.family, sys::socket::literal(&host, port));
        let target = ForwardTarget::Udp {
            host: host.clone(),
            port,
        };
        let label = format!("datagrams to {target}");
        let stage = UdpStage::Lookup(target, records.to_vec());
        let serial = self.insert_flow(channel, stage, None, (label, origin));
        if let Some(flow) = self.udp.flows.get_mut(&serial) {
            flow.first.received = u64::try_from(records.len()).unwrap_or_default();
        }
        if port == 0 {
            let why = "port 0 receives nothing".to_owned();
            return self.udp_looked_up(serial, Err(why), driver);
        }
        if let Some(address) = literal {
            return self.udp_looked_up(serial, Ok(vec![address]), driver);
        }
        let token = super::ForwardToken::Resolver.number();
        let name = ((host, family), port);
        match self.resolver.look_up(serial, name, token, driver) {
            Ok(None) => self.limit(serial, super::CONNECT_MS, driver),
            Ok(Some(addresses)) => self.udp_looked_up(serial, Ok(addresses), driver),
            Err(error) => self.udp_looked_up(serial, Err(words(&error)), driver),
        }
    }

    /// True if this is the number of a flow.
    pub(super) fn owns_flow(&self, serial: u64) -> bool {
        self.udp.flows.contains_key(&serial)
    }

    /// The target's addresses are known: makes the socket and answers the peer.
    pub(super) fn udp_looked_up(
        &mut self,
        serial: u64,
        found: Result<Vec<SocketAddr>, String>,
        driver: &mut Driver,
    ) {
        let Some(flow) = self.udp.flows.get_mut(&serial) else {
            return;
        };
        let (target, records) = match std::mem::replace(&mut flow.stage, UdpStage::Open) {
            UdpStage::Lookup(target, records) => (target, records),
            other => return flow.stage = other,
        };
        let (channel, origin) = (flow.channel, flow.origin);
        driver.set_timer(super::ForwardToken::GiveUp(serial).number(), None);
        let connected = found.and_then(|addresses| {
            DatagramTarget::connect(&addresses).map_err(|error| words(&error))
        });
        match connected {
            Ok(socket) => {
                if driver.connection().accept_channel(channel).is_err() {
                    return self.remove_flow(serial, driver);
                }
                let mut port = DatagramPort::new(DatagramEnd::Target(socket));
                port.receive_first(&records);
                driver.attach_endpoint(channel, Box::new(port));
            }
            Err(why) => {
                let reason = open_failure::CONNECT_FAILED;
                let _ = driver.connection().reject_channel(channel, reason, &why);
                self.reports.push_back(ForwardReport::ConnectFailed {
                    target,
                    why,
                    origin,
                });
                self.remove_flow(serial, driver);
            }
        }
    }

    fn insert_flow(
        &mut self,
        channel: ChannelId,
        stage: UdpStage,
        key: Option<FlowKey>,
        (label, origin): (String, Option<u64>),
    ) -> u64 {
        let serial = self.new_number();
        self.count_opened(origin);
        if let Some(key) = &key {
            self.udp.keys.insert(key.clone(), serial);
        }
        self.udp.channels.insert(channel, serial);
        let flow = UdpFlow {
            channel,
            stage,
            key,
            last_used: self.udp.used,
            first: ChannelTraffic::default(),
            label,
            origin,
        };
        self.udp.flows.insert(serial, flow);
        serial
    }

    /// Handles a notice of a flow or its sockets; returns any other one.
    pub(super) fn handle_udp(&mut self, notice: Notice, driver: &mut Driver) -> Option<Notice> {
        let channel = match &notice {
            Notice::EndpointEnded { channel } => Some(*channel),
            Notice::Event(event) => event.channel(),
            _ => None,
        };
        let flow = channel.and_then(|channel| Some((channel, *self.udp.channels.get(&channel)?)));
        let Some((channel, serial)) = flow else {
            return Some(notice);
        };
        match notice {
            Notice::EndpointEnded { .. } | Notice::Event(Event::ChannelIdle { .. }) => {
                self.end_flow(serial, driver);
            }
            Notice::Event(Event::ChannelOpened(_)) => self.flow_opened(serial, driver),
            Notice::Event(Event::ChannelRefused {
                reason,
                description,
                ..
            }) => {
                self.flow_refused(serial, driver.now());
                let flow = self.udp.flows.get(&serial);
                self.reports.push_back(ForwardReport::OpenRefused {
                    channel,
                    reason,
                    description,
                    label: flow.map(|flow| flow.label.clone()).unwrap_or_default(),
                    origin: flow.and_then(|flow| flow.origin),
                });
                self.remove_flow(serial, driver);
            }
            Notice::Event(Event::ChannelData { data, .. }) => {
                let _ = driver.connection().channel_consumed(channel, data.len());
            }
            Notice::Event(Event::ChannelClosed(_)) => self.remove_flow(serial, driver),
            Notice::Event(Event::ChannelRequest {
                want_reply: true, ..
            }) => {
                let _ = driver.connection().channel_reply(channel, false);
            }
            _ => {}
        }
        None
    }

    fn flow_opened(&mut self, serial: u64, driver: &mut Driver) {
        let Some(flow) = self.udp.flows.get_mut(&serial) else {
            return;
        };
        match std::mem::replace(&mut flow.stage, UdpStage::Open) {
            UdpStage::Opening(port) => driver.attach_endpoint(flow.channel, port),
            UdpStage::Ending => self.end_flow(serial, driver),
            other => flow.stage = other,
        }
    }

    /// New flows to the target of a refused one are not requested for a while.
    fn flow_refused(&mut self, serial: u64, now: Millis) {
        let key = self
            .udp
            .flows
            .get(&serial)
            .and_then(|flow| flow.key.as_ref());
        if let Some(key) = key
            && let Some(listener) = self.udp.listeners.get_mut(&key.listener)
        {
            listener.note_refused(key.target.clone(), now);
        }
    }

    /// Closes the channel of a flow; further datagrams of its peer begin another one.
    fn end_flow(&mut self, serial: u64, driver: &mut Driver) {
        self.forget_key(serial);
        if let Some(flow) = self.udp.flows.get_mut(&serial) {
            flow.stage = UdpStage::Ending;
            drop(driver.detach_endpoint(flow.channel));
            // Without effect before the peer's answer; it is closed then.
            let _ = driver.connection().channel_eof(flow.channel);
            let _ = driver.connection().channel_close(flow.channel);
        }
    }

    fn forget_key(&mut self, serial: u64) {
        let flow = self.udp.flows.get_mut(&serial);
        if let Some(key) = flow.and_then(|flow| flow.key.take()) {
            self.udp.keys.remove(&key);
            if let Some(listener) = self.udp.listeners.get_mut(&key.listener) {
                listener.flows = listener.flows.saturating_sub(1);
            }
        }
    }

    /// Forgets a flow whose channel is closed or refused.
    fn remove_flow(&mut self, serial: u64, driver: &mut Driver) {
        driver.set_timer(super::ForwardToken::GiveUp(serial).number(), None);
        self.forget_key(serial);
        self.resolver.cancel(serial);
        if let Some(flow) = self.udp.flows.remove(&serial) {
            self.udp.channels.remove(&flow.channel);
            drop(driver.detach_endpoint(flow.channel));
            self.count_closed(flow.origin, Some(flow.channel), driver);
            self.count_first(flow.origin, flow.first);
        }
    }

    /// Number and description of each flow's channel.
    pub(super) fn udp_lines(&self) -> impl Iterator<Item = (ChannelId, &str)> {
        let flows = self.udp.flows.values();
        flows.map(|flow| (flow.channel, flow.label.as_str()))
    }

    /// Forwarding, channel and the bytes in the request of each open flow.
    pub(super) fn udp_open(
        &self,
    ) -> impl Iterator<Item = (Option<u64>, ChannelId, ChannelTraffic)> {
        let flows = self.udp.flows.values();
        flows.map(|flow| (flow.origin, flow.channel, flow.first))
    }
}
