//! Remote forwardings: requests to the server to listen, its answers, and the channels that it
//! opens for accepted connections. A channel for a listener that was not requested is refused.

use std::collections::VecDeque;

use config::forward::{ForwardListen, ForwardSpec, ForwardTo};
use driver::Driver;
use driver::forward::{ForwardTarget, Forwards, Listening};
use proto::ChannelId;
use wire::message::open_failure;
use wire::{Reader, names};

use super::{ForeignOpen, SessionForwards, target};
use crate::error::ClientError;
use crate::log::{debug1, error, info};
use crate::text::one_line;

/// True for the types of channels of remote listeners.
pub(super) fn is_forwarded(kind: &str) -> bool {
    matches!(
        kind,
        names::CHANNEL_FORWARDED_TCPIP
            | names::CHANNEL_FORWARDED_STREAMLOCAL
            | names::CHANNEL_FORWARDED_UDP
    )
}

/// A channel that the server has opened for a listener.
pub(super) struct RemoteChannel {
    channel: ChannelId,
    /// None if its data names the target.
    to: Option<ForwardTarget>,
    /// The listener's number.
    number: u64,
    /// Datagrams that came with the request.
    records: Vec<u8>,
}

/// One requested listener.
struct Remote {
    /// As it was requested; port 0 is replaced by the server's choice.
    listening: Listening,
    spec: ForwardSpec,
    /// Its number, by which its connections are counted.
    number: u64,
    /// The number of its request, which no other one ever has.
    request_number: u64,
    /// The server listens.
    is_active: bool,
    /// The server has answered.
    is_answered: bool,
}

impl Remote {
    fn new(spec: &ForwardSpec, (number, request_number): (u64, u64)) -> Self {
        Self {
            listening: listening(&spec.listen),
            spec: spec.clone(),
            number,
            request_number,
            is_active: false,
            is_answered: false,
        }
    }

    /// The port at which the server listens, if it chose it.
    fn chosen_port(&self) -> Option<u16> {
        match (&self.spec.listen, &self.listening) {
            (ForwardListen::Tcp { port: 0, .. }, Listening::Tcp { port, .. }) => Some(*port),
            _ => None,
        }
    }

    /// Asks the server to listen.
    fn request(&self, driver: &mut Driver) -> Result<(), ClientError> {
        debug1!(
            "Remote connections from {} forwarded to local address {}",
            self.place(),
            one_line(&self.goal())
        );
        send(&self.listening, false, driver)
    }

    /// Port or path, for messages.
    fn place(&self) -> String {
        match &self.listening {
            Listening::Tcp { port, .. } => format!("listen port {port}"),
            Listening::Unix(path) => format!("listen path {}", one_line(&path.to_string_lossy())),
            Listening::Udp { port, .. } => format!("listen port udp/{port}"),
        }
    }

    /// The target, for messages, in OpenSSH's words.
    fn goal(&self) -> String {
        match &self.spec.to {
            ForwardTo::Tcp { host, port } => format!("{host}:{port}"),
            ForwardTo::Unix(path) => path.clone(),
            ForwardTo::Udp { host, port } => format!("udp/{host}:{port}"),
            ForwardTo::Socks => "socks:0".to_owned(),
        }
    }
}

/// The listener as it is named in messages.
fn listening(listen: &ForwardListen) -> Listening {
    match listen {
        ForwardListen::Unix(path) => Listening::Unix(path.into()),
        ForwardListen::Tcp { address, port } => Listening::Tcp {
            address: requested(address.as_deref()),
            port: *port,
        },
        ForwardListen::Udp { address, port } => Listening::Udp {
            address: requested(address.as_deref()),
            port: *port,
        },
    }
}

/// RFC 4254 §7.1: an empty address is all addresses.
fn requested(address: Option<&str>) -> String {
    match address {
        None => "localhost".to_owned(),
        Some("*") => String::new(),
        Some(address) => address.to_owned(),
    }
}

/// A request whose answer is to come.
#[derive(Clone, Copy)]
enum Unanswered {
    /// To listen, for the forwarding with this index.
    Listen(usize),
    /// To listen, while the session runs: a refusal does not end it.
    ListenLater(usize),
    /// To listen no more.
    Cancel,
    /// A request for a passenger in proxy mode.
    Foreign,
}

/// What the server says to a request to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RemoteAnswer {
    /// Nothing yet.
    Awaited,
    /// It listens.
    Listens {
        /// The port, if the server chose it.
        chosen: Option<u16>,
    },
    /// It does not listen at this place.
    Refused(String),
}

/// All remote forwardings of a session.
pub(super) struct Remotes {
    remotes: Vec<Remote>,
    next_request: u64,
    /// The requests without an answer, in order.
    unanswered: VecDeque<Unanswered>,
    must_succeed: bool,
    /// A listener is there before the server's answer, which may not come: OpenSSH's master keeps the
    /// answers to requests in proxy mode to itself.
    presumes: bool,
}

impl Remotes {
    pub(super) fn new(must_succeed: bool) -> Self {
        Self {
            remotes: Vec::new(),
            next_request: 0,
            unanswered: VecDeque::new(),
            must_succeed,
            presumes: false,
        }
    }

    pub(super) fn presume(&mut self) {
        self.presumes = true;
    }

    /// Adds a forwarding, which is to be requested before any other that is added.
    pub(super) fn add(&mut self, spec: &ForwardSpec, forwards: &mut Forwards) {
        let index = self.push(spec, forwards);
        self.unanswered.push_back(Unanswered::Listen(index));
    }

    fn push(&mut self, spec: &ForwardSpec, forwards: &mut Forwards) -> usize {
        let request = self.next_request;
        self.next_request += 1;
        // A master that runs for months adds and cancels without end: the place and the number of one
        // that has ended are used again.
        let is_over = |each: &Remote| each.is_answered && !each.is_active;
        if let Some(index) = self.remotes.iter().position(is_over)
            && let Some(place) = self.remotes.get_mut(index)
        {
            *place = Remote::new(spec, (place.number, request));
            forwards.count(place.number);
            return index;
        }
        let number = forwards.new_number();
        forwards.count(number);
        self.remotes.push(Remote::new(spec, (number, request)));
        self.remotes.len() - 1
    }

    /// The forwardings with their flag and number.
    pub(super) fn listed(&self) -> impl Iterator<Item = (&'static str, &ForwardSpec, u64)> {
        let remotes = self.remotes.iter();
        remotes.map(|remote| ("-R", &remote.spec, remote.number))
    }

    /// True if the server does not listen any more for the forwarding with this number.
    pub(super) fn has_ended(&self, number: u64) -> bool {
        let mut remotes = self.remotes.iter();
        remotes.any(|remote| remote.number == number && remote.is_answered && !remote.is_active)
    }

    pub(super) fn must_succeed(&self) -> bool {
        self.must_succeed
    }

    pub(super) fn awaits_answers(&self) -> bool {
        !self.presumes && !self.unanswered.is_empty()
    }

    /// Requests all of them.
    pub(super) fn request(&self, driver: &mut Driver) -> Result<(), ClientError> {
        let mut remotes = self.remotes.iter();
        remotes.try_for_each(|remote| remote.request(driver))
    }

    /// Adds and requests a forwarding while the session runs; returns the number of its request.
    pub(super) fn add_later(
        &mut self,
        spec: &ForwardSpec,
        forwards: &mut Forwards,
        driver: &mut Driver,
    ) -> Result<u64, ClientError> {
        // After the requests of the beginning, whose indices are in their order.
        let index = self.push(spec, forwards);
        self.unanswered.push_back(Unanswered::ListenLater(index));
        let Some(remote) = self.remotes.get(index) else {
            return Err(ClientError::Refused("no such forwarding".to_owned()));
        };
        remote.request(driver)?;
        Ok(remote.request_number)
    }

    /// The answer to the request with this number; refused if another one has its place since.
    pub(super) fn answer(&self, request: u64) -> RemoteAnswer {
        let mut remotes = self.remotes.iter();
        match remotes.find(|remote| remote.request_number == request) {
            Some(remote) if !remote.is_answered => RemoteAnswer::Awaited,
            Some(remote) if remote.is_active => RemoteAnswer::Listens {
                chosen: remote.chosen_port(),
            },
            remote => RemoteAnswer::Refused(remote.map(Remote::place).unwrap_or_default()),
        }
    }

    /// The number of the request for a forwarding that is equal in all, and is requested or active.
    pub(super) fn equal(&self, spec: &ForwardSpec) -> Option<u64> {
        let is_equal =
            |remote: &&Remote| remote.spec == *spec && (remote.is_active || !remote.is_answered);
        let equal = self.remotes.iter().find(is_equal);
        equal.map(|remote| remote.request_number)
    }

    /// Asks the server to listen no more for a forwarding that is equal in all; false if there is
    /// none.
    pub(super) fn cancel_equal(
        &mut self,
        spec: &ForwardSpec,
        driver: &mut Driver,
    ) -> Result<bool, ClientError> {
        let mut remotes = self.remotes.iter_mut();
        let found = remotes.find(|remote| remote.is_active && remote.spec == *spec);
        found.map_or(Ok(false), |remote| {
            cancel_one(remote, &mut self.unanswered, driver)
        })
    }

    /// Asks the server to listen no more at `listen`; false if it does not listen there.
    pub(super) fn cancel(
        &mut self,
        listen: &ForwardListen,
        driver: &mut Driver,
    ) -> Result<bool, ClientError> {
        let wanted = listening(listen);
        let mut remotes = self.remotes.iter_mut();
        let Some(remote) = remotes.find(|each| each.is_active && each.listening == wanted) else {
            return Ok(false);
        };
        cancel_one(remote, &mut self.unanswered, driver)
    }

    /// Sends a request for a passenger in proxy mode.
    pub(super) fn request_foreign(
        &mut self,
        listening: &Listening,
        is_cancel: bool,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        send(listening, is_cancel, driver)?;
        self.unanswered.push_back(Unanswered::Foreign);
        Ok(())
    }

    /// The server has answered the oldest request; `None` refuses it. Returns the answer if the
    /// request was a passenger's.
    pub(super) fn answered(
        &mut self,
        fields: Option<Vec<u8>>,
    ) -> Result<Option<Option<Vec<u8>>>, ClientError> {
        let next = self.unanswered.pop_front();
        if matches!(next, Some(Unanswered::Foreign)) {
            return Ok(Some(fields));
        }
        self.own_answered(next, fields.as_deref()).map(|()| None)
    }

    fn own_answered(
        &mut self,
        next: Option<Unanswered>,
        fields: Option<&[u8]>,
    ) -> Result<(), ClientError> {
        let (index, must_succeed) = match next {
            Some(Unanswered::Listen(index)) => (index, self.must_succeed),
            Some(Unanswered::ListenLater(index)) => (index, false),
            Some(Unanswered::Cancel | Unanswered::Foreign) | None => return Ok(()),
        };
        let Some(remote) = self.remotes.get_mut(index) else {
            return Ok(());
        };
        remote.is_active = fields.is_some();
        remote.is_answered = true;
        let goal = one_line(&remote.goal());
        if let (
            Some(fields),
            Listening::Tcp { port: port @ 0, .. } | Listening::Udp { port: port @ 0, .. },
        ) = (fields, &mut remote.listening)
        {
            let told = Reader::new(fields).u32().unwrap_or_default();
            match u16::try_from(told) {
                Ok(chosen @ 1..) => {
                    *port = chosen;
                    info!("Allocated port {chosen} for remote forward to {goal}");
                }
                _ => {
                    error!("Invalid allocated port {told} for remote forward to {goal}");
                    remote.is_active = false;
                }
            }
        }
        let place = remote.place();
        if remote.is_active {
            debug1!("remote forward success for: {place}, connect {goal}");
            return Ok(());
        }
        if must_succeed {
            return Err(ClientError::Refused(format!(
                "Error: remote port forwarding failed for {place}"
            )));
        }
        info!("Warning: remote port forwarding failed for {place}");
        Ok(())
    }

    fn find(&self, listening: &Listening) -> Option<&Remote> {
        let mut remotes = self.remotes.iter();
        remotes.find(|remote| {
            let is_there = remote.is_active || (self.presumes && !remote.is_answered);
            is_there && remote.listening == *listening
        })
    }
}

impl SessionForwards {
    /// The server opens a channel for a connection that it has accepted.
    pub(super) fn opened_by_server(
        &mut self,
        channel: ChannelId,
        kind: &str,
        fields: &[u8],
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let Ok((listening, records)) = Listening::decode_first(kind, fields) else {
            error!("WARNING: the server sent an invalid request of type {kind}: refused");
            refuse(channel, driver);
            return Ok(());
        };
        if let Some(passenger) = self.foreign.owner(&listening) {
            self.foreign.opened.push(ForeignOpen {
                passenger,
                channel,
                kind: kind.to_owned(),
                fields: fields.to_vec(),
            });
            return self.report();
        }
        match self.remotes.find(&listening) {
            Some(remote) => {
                let opened = RemoteChannel {
                    channel,
                    to: target(&remote.spec.to),
                    number: remote.number,
                    records: records.to_vec(),
                };
                match &mut self.opened_before_start {
                    Some(waiting) => waiting.push(opened),
                    None => self.connect(opened, driver),
                }
            }
            None => {
                match &listening {
                    Listening::Tcp { port, .. } | Listening::Udp { port, .. } => {
                        error!(
                            "WARNING: Server requests forwarding for unknown listen_port {port}"
                        );
                    }
                    Listening::Unix(path) => error!(
                        "WARNING: Server requests forwarding for unknown path {}",
                        one_line(&path.to_string_lossy())
                    ),
                }
                refuse(channel, driver);
            }
        }
        self.report()
    }

    /// Connects a channel of the server's listener to its target; without one, to what its data asks
    /// for.
    pub(super) fn connect(&mut self, opened: RemoteChannel, driver: &mut Driver) {
        let RemoteChannel {
            channel,
            to,
            number,
            records,
        } = opened;
        let origin = Some(number);
        if let Some(target) = &to {
            debug1!("channel {}: connecting to {}", channel.0, shown(target));
        }
        let forwards = &mut self.forwards;
        match to {
            Some(ForwardTarget::Udp { host, port }) => {
                forwards.connect_udp(channel, (host, port), &records, origin, driver);
            }
            Some(target) => forwards.connect(channel, target, origin, driver),
            None => forwards.serve_socks(channel, origin, driver),
        }
    }
}

/// Asks the server to listen no more for an active forwarding.
fn cancel_one(
    remote: &mut Remote,
    unanswered: &mut VecDeque<Unanswered>,
    driver: &mut Driver,
) -> Result<bool, ClientError> {
    remote.is_active = false;
    send(&remote.listening, true, driver)?;
    unanswered.push_back(Unanswered::Cancel);
    Ok(true)
}

/// Sends a request to listen, or to listen no more.
fn send(listening: &Listening, cancel: bool, driver: &mut Driver) -> Result<(), ClientError> {
    let (name, fields) = listening.listen_request(cancel);
    let sent = driver.connection().global_request(name, &fields);
    sent.map_err(|error| {
        ClientError::Refused(format!("Could not request remote forwarding: {error}"))
    })
}

pub(super) fn refuse(channel: ChannelId, driver: &mut Driver) {
    let reason = open_failure::ADMINISTRATIVELY_PROHIBITED;
    let _ = driver
        .connection()
        .reject_channel(channel, reason, "not asked for");
}

/// A target for messages; the peer may have named it.
pub(super) fn shown(target: &ForwardTarget) -> String {
    one_line(&target.to_string())
}

#[cfg(test)]
mod tests {
    use config::forward::ForwardKind;
    use wire::Put;

    use super::*;

    fn remotes(specs: &[&str], must_succeed: bool) -> Remotes {
        let mut remotes = Remotes::new(must_succeed);
        for (index, text) in specs.iter().enumerate() {
            let spec = ForwardSpec::parse(text, ForwardKind::Remote).unwrap();
            let request = u64::try_from(index).unwrap();
            remotes.remotes.push(Remote::new(&spec, (0, request)));
            remotes.unanswered.push_back(Unanswered::Listen(index));
        }
        remotes
    }

    fn tcp(address: &str, port: u16) -> Listening {
        Listening::Tcp {
            address: address.into(),
            port,
        }
    }

    #[test]
    fn a_listener_is_known_by_address_and_port_once_the_server_has_agreed() {
        let mut remotes = remotes(&["8080:a:1", "*:0:b:2", "10.0.0.1:9:c:3", "/s:/t"], false);
        assert!(remotes.find(&tcp("localhost", 8080)).is_none());
        let mut port = Vec::new();
        port.put_u32(40_000);
        for fields in [Some(&b""[..]), Some(&port), None, Some(b"")] {
            remotes.answered(fields.map(<[u8]>::to_vec)).unwrap();
        }
        assert!(!remotes.awaits_answers());
        assert!(remotes.find(&tcp("localhost", 8080)).is_some());
        assert!(remotes.find(&tcp("", 8080)).is_none());
        assert_eq!(remotes.find(&tcp("", 40_000)).unwrap().goal(), "b:2");
        assert!(remotes.find(&tcp("", 0)).is_none());
        assert!(remotes.find(&tcp("10.0.0.1", 9)).is_none());
        assert!(remotes.find(&Listening::Unix("/s".into())).is_some());
        assert!(remotes.find(&Listening::Unix("/x".into())).is_none());
        // An answer that nobody waits for changes nothing.
        remotes.answered(None).unwrap();
    }

    #[test]
    fn the_place_of_one_that_has_ended_is_used_again_and_no_answer_reaches_another_request() {
        let mut forwards = Forwards::new(driver::forward::ForwardSettings {
            keep_alive: false,
            family: sys::socket::Family::Any,
            permits: Box::new(|_| false),
        });
        let mut remotes = Remotes::new(false);
        let spec = |text: &str| ForwardSpec::parse(text, ForwardKind::Remote).unwrap();
        let mut add = |remotes: &mut Remotes, text: &str| {
            remotes.add(&spec(text), &mut forwards);
            remotes.equal(&spec(text)).unwrap()
        };
        let first = add(&mut remotes, "8080:a:1");
        remotes.answered(None).unwrap();
        let refused = |answer| matches!(answer, RemoteAnswer::Refused(_));
        assert!(refused(remotes.answer(first)));
        // Whoever asked for the first one may not have read its answer yet.
        let second = add(&mut remotes, "8081:a:1");
        assert_eq!(remotes.remotes.len(), 1);
        assert_eq!(remotes.answer(second), RemoteAnswer::Awaited);
        remotes.answered(Some(Vec::new())).unwrap();
        let listens = RemoteAnswer::Listens { chosen: None };
        assert_eq!(remotes.answer(second), listens);
        assert!(refused(remotes.answer(first)));
        // One that listens keeps its place.
        add(&mut remotes, "8082:a:1");
        assert_eq!(remotes.remotes.len(), 2);
    }

    #[test]
    fn a_refusal_ends_the_session_only_if_the_user_wants_it() {
        assert!(remotes(&["8080:a:1"], false).answered(None).is_ok());
        let error = remotes(&["8080:a:1"], true).answered(None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Error: remote port forwarding failed for listen port 8080"
        );
        for fields in [&[][..], &[0, 0, 0, 0], &[0, 1, 0, 0]] {
            assert!(
                remotes(&["0:a:1"], true)
                    .answered(Some(fields.to_vec()))
                    .is_err()
            );
        }
    }
}
