//! Passengers in proxy mode (OpenSSH's PROTOCOL.mux §9): each speaks the connection protocol over its
//! socket, and its messages are passed on to the server with numbers of channels that are unique on
//! the connection. The server's messages go back with the passenger's own numbers.
//!
//! Only messages of channels that the passenger has, CHANNEL_OPEN, and requests to listen are passed
//! on: OpenSSH's master passes on all others too. A passenger's channels and listeners end with it.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;

use driver::forward::Listening;
use driver::{Driver, Notice};
use proto::{ChannelId, Event};
use wire::message::{
    ChannelClose, ChannelData, ChannelEof, ChannelOpen, ChannelOpenConfirmation,
    ChannelOpenFailure, Disconnect, Encode, GlobalRequest, RequestFailure, RequestSuccess,
    open_failure,
};
use wire::{Put, Reader, names};

use super::conduct::{ProxiedConduct, check_fields};
use super::{Master, TOKEN_CONTROL, TOKEN_PROXY};
use crate::error::ClientError;
use crate::forward::{ForeignListener, ForeignOpen, SessionForwards};
use crate::log::{debug1, debug2, error};
use crate::text::one_line;

/// Pause before a passenger is read again while much waits for the server, milliseconds.
const PAUSE_MS: u64 = 1;
/// Maximum messages of one passenger in one turn: one that never pauses must not keep the others
/// waiting.
const MAX_MESSAGES: usize = 256;
/// Maximum requests to listen that the server has not answered, of all passengers.
const MAX_REQUESTS: usize = 1024;
/// Most bytes that wait until a passenger has confirmed a channel of the server.
const MAX_HELD_BYTES: usize = 256 << 10;

/// A channel of a passenger.
struct ProxiedChannel {
    /// The passenger; `None` once it is gone.
    passenger: Option<u64>,
    /// The passenger's number; `None` until it has confirmed a channel of the server.
    down: Option<u32>,
    /// The server's number; `None` until it has confirmed a channel of the passenger.
    up: Option<u32>,
    is_close_sent: bool,
    is_close_received: bool,
    /// Messages of the server for a channel that the passenger has not confirmed.
    held: Vec<Vec<u8>>,
    /// The type, for lists.
    kind: String,
    conduct: ProxiedConduct,
}

/// A request to listen, or to listen no more.
struct ListenRequest {
    passenger: u64,
    listening: Listening,
    is_cancel: bool,
    wants_reply: bool,
}

/// The channels of all passengers in proxy mode.
#[derive(Default)]
pub(super) struct ProxiedChannels {
    channels: BTreeMap<ChannelId, ProxiedChannel>,
    by_up: BTreeMap<u32, ChannelId>,
    /// Requests that the server has not answered, in order.
    requests: VecDeque<ListenRequest>,
    /// Passengers that are gone, whose listeners are to end.
    gone: Vec<u64>,
}

/// Writes `number` over the number after the message's type.
fn renumbered(payload: &[u8], number: u32) -> Vec<u8> {
    let mut message = payload.to_vec();
    if let Some(place) = message.get_mut(1..5) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    message
}

fn number_of(payload: &[u8]) -> Option<u32> {
    Reader::new(payload.get(1..)?).u32().ok()
}

impl ProxiedChannels {
    fn insert(&mut self, id: ChannelId, channel: ProxiedChannel) {
        if let Some(up) = channel.up {
            self.by_up.insert(up, id);
        }
        self.channels.insert(id, channel);
    }

    fn remove(&mut self, id: ChannelId, driver: &mut Driver) {
        if let Some(channel) = self.channels.remove(&id) {
            if let Some(up) = channel.up
                && self.by_up.get(&up) == Some(&id)
            {
                self.by_up.remove(&up);
            }
            driver.connection().release_proxied(id);
        }
    }

    /// The passenger's channel with this number of the server's.
    fn find(&mut self, serial: u64, up: u32) -> Option<(ChannelId, &mut ProxiedChannel)> {
        let id = *self.by_up.get(&up)?;
        let channel = self.channels.get_mut(&id)?;
        (channel.passenger == Some(serial)).then_some((id, channel))
    }

    /// Sends the server CLOSE, once.
    fn close(&mut self, id: ChannelId, driver: &mut Driver) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        if let Some(up) = channel.up
            && !channel.is_close_sent
        {
            channel.is_close_sent = true;
            let close = ChannelClose {
                recipient_channel: up,
            };
            let _ = driver.connection().send_proxied(id, &close.encode());
            if channel.is_close_received {
                self.remove(id, driver);
            }
        }
    }

    /// Sends the server the refusal of its channel.
    fn refuse(&mut self, id: ChannelId, up: u32, driver: &mut Driver) {
        let failure = ChannelOpenFailure {
            recipient_channel: up,
            reason: open_failure::ADMINISTRATIVELY_PROHIBITED,
            description: b"not asked for",
            language: b"",
        };
        let _ = driver.connection().send_proxied(id, &failure.encode());
        self.remove(id, driver);
    }

    /// The passenger is gone: its channels end.
    pub(super) fn leave(&mut self, serial: u64, driver: &mut Driver) {
        driver.set_timer(TOKEN_PROXY + serial, None);
        let its = self.channels.iter_mut();
        let its = its.filter(|(_, channel)| channel.passenger == Some(serial));
        let ids: Vec<(ChannelId, Option<u32>, bool)> = its
            .map(|(id, channel)| {
                channel.passenger = None;
                channel.held = Vec::new();
                (*id, channel.up, channel.down.is_some())
            })
            .collect();
        for (id, up, is_confirmed) in ids {
            match up {
                Some(up) if !is_confirmed => self.refuse(id, up, driver),
                _ => self.close(id, driver),
            }
        }
        self.gone.push(serial);
    }

    /// Number and type of each channel.
    pub(super) fn listed(&self) -> impl Iterator<Item = (ChannelId, &str, bool)> {
        let channels = self.channels.iter();
        channels.map(|(id, channel)| {
            let is_open = channel.up.is_some() && channel.down.is_some();
            (*id, channel.kind.as_str(), is_open)
        })
    }
}

impl Master {
    // ---- from the passenger ---------------------------------------------------------------

    /// Passes on what a passenger has sent, as far as the connection takes it.
    pub(super) fn proxy_ready(
        &mut self,
        serial: u64,
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let token = TOKEN_CONTROL + serial;
        for _ in 0..MAX_MESSAGES {
            let Some(control) = self.controls.get_mut(&serial) else {
                return Ok(());
            };
            if !driver.connection().takes_proxied() {
                let is_blocked = control.is_blocked();
                let _ = driver.watch(control.as_fd(), token, false, is_blocked);
                driver.set_timer(TOKEN_PROXY + serial, Some(driver.now() + PAUSE_MS));
                return Ok(());
            }
            match control.next_proxied() {
                Ok(Some(payload)) => {
                    if let Err(how) = self.pass_up(serial, &payload, forwards, driver)? {
                        error!("passenger {serial}: {}", one_line(&how));
                        self.leave(serial, driver);
                        return Ok(());
                    }
                }
                Ok(None) => {
                    let is_blocked = control.is_blocked();
                    let _ = driver.watch(control.as_fd(), token, true, is_blocked);
                    return Ok(());
                }
                Err(reason) => {
                    if reason.kind() == std::io::ErrorKind::InvalidData {
                        error!("passenger {serial}: {reason}");
                    }
                    self.leave(serial, driver);
                    return Ok(());
                }
            }
        }
        // Bytes that have been read already make no socket readable.
        driver.set_timer(TOKEN_PROXY + serial, Some(driver.now()));
        Ok(())
    }

    /// Passes one message on to the server; the inner error says how the passenger breaks the
    /// protocol.
    fn pass_up(
        &mut self,
        serial: u64,
        payload: &[u8],
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) -> Result<Result<(), String>, ClientError> {
        let number = payload.first().copied().unwrap_or_default();
        debug2!("passenger {serial}: message {number}");
        match number {
            ChannelOpen::NUMBER => return Ok(self.open_proxied(serial, payload, driver)),
            ChannelOpenConfirmation::NUMBER => {
                return Ok(self.proxied_confirmed(serial, payload, driver));
            }
            GlobalRequest::NUMBER => {
                return self.proxied_request(serial, payload, forwards, driver);
            }
            Disconnect::NUMBER => return Ok(Err("DISCONNECT".into())),
            ChannelOpenFailure::NUMBER..=100 => {}
            // As OpenSSH's `ssh`, which drops everything but the connection protocol.
            _ => return Ok(Ok(())),
        }
        let Some(up) = number_of(payload) else {
            return Ok(Err(format!("message {number} is cut off")));
        };
        let Some((id, channel)) = self.proxied.find(serial, up) else {
            debug1!("passenger {serial}: message {number} on a channel that has ended");
            return Ok(Ok(()));
        };
        if channel.is_close_sent
            || (channel.down.is_none() != (number == ChannelOpenFailure::NUMBER))
        {
            return Ok(Err(format!("message {number} out of place")));
        }
        if let Err(how) = channel.conduct.send(payload) {
            return Ok(Err(how));
        }
        let sent = driver.connection().send_proxied(id, payload);
        sent.map_err(super::misuse)?;
        match number {
            ChannelOpenFailure::NUMBER => self.proxied.remove(id, driver),
            ChannelClose::NUMBER => {
                channel.is_close_sent = true;
                if channel.is_close_received {
                    self.proxied.remove(id, driver);
                }
            }
            _ => {}
        }
        Ok(Ok(()))
    }

    fn open_proxied(
        &mut self,
        serial: u64,
        payload: &[u8],
        driver: &mut Driver,
    ) -> Result<(), String> {
        let cut_off = |_| "CHANNEL_OPEN is cut off".to_owned();
        let mut reader = Reader::new(payload.get(1..).unwrap_or_default());
        let kind = reader.string().map_err(cut_off)?;
        let down = reader.u32().map_err(cut_off)?;
        let used = 1 + 4 + kind.len() + 4;
        let rest = payload.get(used..).unwrap_or_default();
        check_fields(kind, rest.get(8..).ok_or("CHANNEL_OPEN is cut off")?)?;
        let granted = Reader::new(rest).u32().unwrap_or_default();
        match driver.connection().open_proxied(kind, rest) {
            Ok(id) => {
                let channel = ProxiedChannel {
                    passenger: Some(serial),
                    down: Some(down),
                    up: None,
                    is_close_sent: false,
                    is_close_received: false,
                    held: Vec::new(),
                    kind: String::from_utf8_lossy(kind).into_owned(),
                    conduct: ProxiedConduct::granting(granted),
                };
                self.proxied.insert(id, channel);
            }
            Err(reason) => {
                debug1!("passenger {serial}: {reason}");
                let failure = ChannelOpenFailure {
                    recipient_channel: down,
                    reason: open_failure::RESOURCE_SHORTAGE,
                    description: reason.to_string().as_bytes(),
                    language: b"",
                }
                .encode();
                self.pass_down(serial, &[&failure], driver);
            }
        }
        Ok(())
    }

    /// The passenger has confirmed a channel of the server.
    fn proxied_confirmed(
        &mut self,
        serial: u64,
        payload: &[u8],
        driver: &mut Driver,
    ) -> Result<(), String> {
        let cut_off = |_| "CHANNEL_OPEN_CONFIRMATION is cut off".to_owned();
        let confirmation = ChannelOpenConfirmation::decode(payload).map_err(cut_off)?;
        let (up, down) = (confirmation.recipient_channel, confirmation.sender_channel);
        let Some((id, channel)) = self.proxied.find(serial, up) else {
            return Ok(());
        };
        if channel.down.is_some() {
            return Err("CHANNEL_OPEN_CONFIRMATION out of place".into());
        }
        channel.down = Some(down);
        channel.conduct.grant(confirmation.window);
        let held = std::mem::take(&mut channel.held);
        let mut message = payload.to_vec();
        if let Some(place) = message.get_mut(5..9) {
            place.copy_from_slice(&id.0.to_be_bytes());
        }
        let sent = driver.connection().send_proxied(id, &message);
        sent.map_err(|reason| reason.to_string())?;
        for message in held {
            self.pass_down(serial, &[&renumbered(&message, down)], driver);
        }
        Ok(())
    }

    fn proxied_request(
        &mut self,
        serial: u64,
        payload: &[u8],
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) -> Result<Result<(), String>, ClientError> {
        let Ok(request) = GlobalRequest::decode(payload) else {
            return Ok(Err("GLOBAL_REQUEST is cut off".into()));
        };
        let name = std::str::from_utf8(request.name).unwrap_or_default();
        let known = match name {
            names::GLOBAL_TCPIP_FORWARD | names::GLOBAL_STREAMLOCAL_FORWARD => Some(false),
            names::GLOBAL_CANCEL_TCPIP_FORWARD | names::GLOBAL_CANCEL_STREAMLOCAL_FORWARD => {
                Some(true)
            }
            _ => None,
        };
        let listening = Listening::decode_request(name, request.fields.0);
        if let (Some(is_cancel), Ok(listening)) = (known, listening) {
            if self.proxied.requests.len() >= MAX_REQUESTS {
                return Ok(Err("too many requests to listen without an answer".into()));
            }
            if is_cancel && !forwards.has_foreign(serial, &listening) {
                if request.want_reply {
                    self.pass_down(serial, &[&RequestFailure {}.encode()], driver);
                }
                return Ok(Ok(()));
            }
            forwards.request_foreign(&listening, is_cancel, driver)?;
            self.proxied.requests.push_back(ListenRequest {
                passenger: serial,
                listening,
                is_cancel,
                wants_reply: request.want_reply,
            });
            return Ok(Ok(()));
        }
        // Signs of life are the master's; no-more-sessions would end sharing.
        debug1!("passenger {serial}: unsupported request {}", one_line(name));
        if request.want_reply {
            self.pass_down(serial, &[&RequestFailure {}.encode()], driver);
        }
        Ok(Ok(()))
    }

    // ---- from the server ------------------------------------------------------------------

    fn pass_down(&mut self, serial: u64, parts: &[&[u8]], driver: &mut Driver) {
        if let Some(control) = self.controls.get_mut(&serial) {
            control.pass(parts);
            self.flush(serial, driver);
        }
    }

    /// A message of the server on a passenger's channel.
    pub(super) fn proxied_notice(&mut self, notice: Notice, driver: &mut Driver) {
        let Notice::Event(Event::ChannelProxied {
            channel: id,
            payload,
        }) = notice
        else {
            return;
        };
        let Some(channel) = self.proxied.channels.get_mut(&id) else {
            return;
        };
        let number = payload.first().copied().unwrap_or_default();
        channel.conduct.received(&payload);
        let (passenger, down) = (channel.passenger, channel.down);
        match (passenger, down) {
            (Some(_), None) => {
                let held: usize = channel.held.iter().map(Vec::len).sum();
                if held.saturating_add(payload.len()) <= MAX_HELD_BYTES {
                    channel.held.push(payload.to_vec());
                } else {
                    error!("channel {}: more early data than announced", id.0);
                }
            }
            (Some(serial), Some(down)) => {
                let kind = payload.get(..1).unwrap_or_default();
                let rest = payload.get(5..).unwrap_or_default();
                self.pass_down(serial, &[kind, &down.to_be_bytes(), rest], driver);
            }
            (None, _) => {}
        }
        let Some(channel) = self.proxied.channels.get_mut(&id) else {
            return;
        };
        match number {
            ChannelOpenConfirmation::NUMBER if channel.up.is_none() => {
                if let Ok(confirmation) = ChannelOpenConfirmation::decode(&payload) {
                    let up = confirmation.sender_channel;
                    channel.up = Some(up);
                    let (window, max_packet) = (confirmation.window, confirmation.max_packet);
                    channel.conduct.opened(window, max_packet);
                    let is_gone = channel.passenger.is_none();
                    self.proxied.by_up.insert(up, id);
                    if is_gone {
                        self.proxied.close(id, driver);
                    }
                }
            }
            ChannelOpenFailure::NUMBER if channel.up.is_none() => self.proxied.remove(id, driver),
            ChannelClose::NUMBER => {
                channel.is_close_received = true;
                if channel.is_close_sent {
                    self.proxied.remove(id, driver);
                } else if channel.passenger.is_none() {
                    self.proxied.close(id, driver);
                }
            }
            _ => {}
        }
    }

    /// What the server has answered to requests of passengers, and the channels that it has opened for
    /// their listeners.
    pub(super) fn serve_proxies(&mut self, forwards: &mut SessionForwards, driver: &mut Driver) {
        while let Some(answer) = forwards.next_foreign_answer() {
            let Some(request) = self.proxied.requests.pop_front() else {
                return;
            };
            self.listen_answered(request, answer.as_deref(), forwards, driver);
        }
        for serial in std::mem::take(&mut self.proxied.gone) {
            for listening in forwards.end_foreign(serial) {
                if forwards.request_foreign(&listening, true, driver).is_ok() {
                    self.proxied.requests.push_back(ListenRequest {
                        passenger: serial,
                        listening,
                        is_cancel: true,
                        wants_reply: false,
                    });
                }
            }
        }
        for opened in forwards.take_foreign_opened() {
            self.opened_for_proxy(opened, driver);
        }
    }

    fn listen_answered(
        &mut self,
        request: ListenRequest,
        answer: Option<&[u8]>,
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) {
        let ListenRequest {
            passenger,
            mut listening,
            is_cancel,
            wants_reply,
        } = request;
        if let Some(fields) = answer {
            if let Listening::Tcp { port: port @ 0, .. } = &mut listening {
                let chosen = Reader::new(fields).u32().unwrap_or_default();
                *port = u16::try_from(chosen).unwrap_or_default();
            }
            match is_cancel {
                true => forwards.remove_foreign(passenger, &listening),
                false => forwards.add_foreign(ForeignListener {
                    passenger,
                    listening,
                }),
            }
            if !is_cancel && !self.controls.contains_key(&passenger) {
                self.proxied.gone.push(passenger);
            }
        }
        if !wants_reply {
            return;
        }
        match answer {
            Some(fields) => {
                self.pass_down(passenger, &[&[RequestSuccess::NUMBER], fields], driver);
            }
            None => self.pass_down(passenger, &[&RequestFailure {}.encode()], driver),
        }
    }

    /// Offers a channel of the server to the passenger whose listener it belongs to.
    fn opened_for_proxy(&mut self, opened: ForeignOpen, driver: &mut Driver) {
        let ForeignOpen {
            passenger,
            channel: id,
            kind,
            fields,
        } = opened;
        let Ok(handed) = driver.connection().hand_over_channel(id) else {
            return;
        };
        let mut held = Vec::new();
        if !handed.data.is_empty() {
            held.push(
                ChannelData {
                    recipient_channel: 0,
                    data: &handed.data,
                }
                .encode(),
            );
        }
        if handed.has_ended {
            let recipient_channel = 0;
            held.push(ChannelEof { recipient_channel }.encode());
        }
        let mut open = vec![ChannelOpen::NUMBER];
        open.put_string(kind.as_bytes());
        for number in [handed.remote, handed.window, handed.max_packet] {
            open.put_u32(number);
        }
        open.extend_from_slice(&fields);
        let mut conduct = ProxiedConduct::default();
        conduct.opened(handed.window, handed.max_packet);
        self.proxied.insert(
            id,
            ProxiedChannel {
                passenger: Some(passenger),
                down: None,
                up: Some(handed.remote),
                is_close_sent: false,
                is_close_received: false,
                held,
                kind,
                conduct,
            },
        );
        match self.controls.contains_key(&passenger) {
            true => self.pass_down(passenger, &[&open], driver),
            false => self.proxied.refuse(id, handed.remote, driver),
        }
    }
}
