//! Connections that the server makes for its client, and listeners (RFC 4254 §7, OpenSSH's PROTOCOL
//! §2.4): [`Handler::permits`] decides, [`driver::forward`] carries out.

use driver::forward::{
    ForwardSettings, ForwardTarget, Forwards, Gateway, Listening, ListeningSockets, Opens,
};
use driver::{Driver, Notice};
use proto::ChannelId;
use sys::socket::Family;
use wire::message::open_failure;
use wire::{Put, names};

use super::auth::Login;
use super::handler::{Forward, Handler};
use crate::Error;

/// Most listeners of one client.
const MAX_LISTENERS: usize = 256;
/// Permissions that the file of a listening socket does not have: it is the server's user's only.
const UNIX_MASK: u32 = 0o177;

impl From<&ForwardTarget> for Forward {
    fn from(target: &ForwardTarget) -> Self {
        match target.clone() {
            ForwardTarget::Tcp { host, port } => Self::ConnectTcp { host, port },
            ForwardTarget::Unix(path) => Self::ConnectUnix(path),
            ForwardTarget::Udp { host, port } => Self::ConnectUdp { host, port },
        }
    }
}

impl From<&Listening> for Forward {
    fn from(listening: &Listening) -> Self {
        match listening.clone() {
            Listening::Tcp { address, port } => Self::ListenTcp { address, port },
            Listening::Unix(path) => Self::ListenUnix(path),
            Listening::Udp { address, port } => Self::ListenUdp { address, port },
        }
    }
}

/// True for channels that lead to a target.
pub(super) fn is_direct(kind: &str) -> bool {
    matches!(
        kind,
        names::CHANNEL_DIRECT_TCPIP | names::CHANNEL_DIRECT_STREAMLOCAL | names::CHANNEL_DIRECT_UDP
    )
}

/// All forwardings of a connection.
pub(super) struct Forwarding {
    forwards: Forwards,
    /// What the client requested, and the listener's number.
    listeners: Vec<(Listening, u64)>,
}

impl Forwarding {
    pub(super) fn new() -> Self {
        Self {
            forwards: Forwards::new(ForwardSettings {
                keep_alive: true,
                family: Family::Any,
                // No request for SOCKS comes from a client.
                permits: Box::new(|_| false),
            }),
            listeners: Vec::new(),
        }
    }

    pub(super) fn handle(&mut self, notice: Notice, driver: &mut Driver) -> Option<Notice> {
        let other = self.forwards.handle(notice, driver);
        // The client gets the reason of a failure; this side has no log.
        while self.forwards.next_report().is_some() {}
        other
    }

    /// Answers a request to connect, now or when the connection is made.
    pub(super) fn open(
        &mut self,
        channel: ChannelId,
        (kind, fields): (&str, &[u8]),
        (handler, login): (&dyn Handler, &Login),
        driver: &mut Driver,
    ) -> Result<(), Error> {
        let target = ForwardTarget::decode_first(kind, fields).ok();
        let permitted = target.filter(|(target, _)| handler.permits(login, &Forward::from(target)));
        match permitted {
            Some((ForwardTarget::Udp { host, port }, records)) => {
                let forwards = &mut self.forwards;
                forwards.connect_udp(channel, (host, port), records, None, driver);
            }
            Some((target, _)) => self.forwards.connect(channel, target, None, driver),
            None => driver.connection().reject_channel(
                channel,
                open_failure::ADMINISTRATIVELY_PROHIBITED,
                "not permitted",
            )?,
        }
        Ok(())
    }

    /// Carries out a request to listen or to stop listening. Returns the fields of the answer; `None`
    /// refuses.
    pub(super) fn request(
        &mut self,
        (name, fields): (&str, &[u8]),
        (handler, login): (&dyn Handler, &Login),
        driver: &mut Driver,
    ) -> Option<Vec<u8>> {
        let listening = Listening::decode_request(name, fields).ok()?;
        let is_cancel = matches!(
            name,
            names::GLOBAL_CANCEL_TCPIP_FORWARD
                | names::GLOBAL_CANCEL_STREAMLOCAL_FORWARD
                | names::GLOBAL_CANCEL_UDP_FORWARD
        );
        if is_cancel {
            let at = self
                .listeners
                .iter()
                .position(|(own, _)| *own == listening)?;
            let (_, number) = self.listeners.swap_remove(at);
            return self.forwards.cancel(number, driver).then(Vec::new);
        }
        let has_room = self.listeners.len() < MAX_LISTENERS;
        if !has_room || !handler.permits(login, &Forward::from(&listening)) {
            return None;
        }
        self.listen(listening, driver)
    }

    fn listen(&mut self, mut listening: Listening, driver: &mut Driver) -> Option<Vec<u8>> {
        let mut answer = Vec::new();
        let (gateway, family) = (Gateway::AsRequested, Family::Any);
        let is_udp = matches!(listening, Listening::Udp { .. });
        let sockets = match &mut listening {
            Listening::Tcp { address, port } | Listening::Udp { address, port } => {
                let requested = Some(address.as_str());
                let place = (*port, is_udp);
                let sockets =
                    ListeningSockets::on_port(requested, place, gateway, family, |_, _| {}).ok()?;
                if *port == 0 {
                    *port = sockets.port;
                    answer.put_u32(u32::from(sockets.port));
                }
                sockets
            }
            Listening::Unix(path) => ListeningSockets::unix(path, UNIX_MASK, false).ok()?,
        };
        let opens = Opens::Forwarded(listening.clone());
        let number = self.forwards.listen(sockets, opens, driver).ok()?;
        self.listeners.push((listening, number));
        Some(answer)
    }

    /// Ends all listeners.
    pub(super) fn close(&mut self, driver: &mut Driver) {
        self.listeners.clear();
        self.forwards.cancel_all(driver);
    }
}
