//! Opens channels: local ones, from CHANNEL_OPEN to delivery to the caller, and those that the peer
//! requests.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use proto::channel::Request;
use proto::{ChannelId, Connection, Stream};

use super::{ChannelOpening, ChannelState, Core, EarlyOpen, Entry, Opened, Setup, Waiter};
use crate::{Error, Exit};

/// RFC 4254 §6.4: a server may ignore a variable; that is no error.
fn wants_reply(request: &Request) -> bool {
    !matches!(request, Request::Env { .. })
}

fn send_requests(
    connection: &mut Connection,
    id: ChannelId,
    opening: &ChannelOpening,
) -> Result<(), proto::Error> {
    for (request, _) in &opening.requests {
        connection.channel_request(id, request, wants_reply(request))?;
    }
    Ok(())
}

impl Entry {
    /// Expects the answers to the requests of the setup.
    fn await_replies(&mut self) {
        let Some(setup) = &mut self.setup else { return };
        let requests = setup.opening.requests.iter();
        let asked = requests.filter(|(request, _)| wants_reply(request));
        self.waiters = asked.map(|(_, name)| Waiter::Setup(name)).collect();
        setup.unanswered = self.waiters.len();
    }
}

impl Core {
    /// Opens a channel for a caller. The requests of the first one follow at once if the server
    /// accepts that: its number is known only for the first channel.
    pub(super) fn open(
        &mut self,
        opening: ChannelOpening,
        early: Option<EarlyOpen>,
        done: SyncSender<Result<Opened, Error>>,
    ) -> Result<(), Error> {
        let at_once = self.starts_at_once && self.next_serial == 0 && !opening.requests.is_empty();
        let connection = self.driver.connection();
        let opened = match early {
            Some(early) => Ok(early),
            None => {
                let (kind, fields) = (&opening.kind, &opening.fields);
                let id = match at_once {
                    true => connection.open_channel_early(kind, fields),
                    false => connection.open_channel(kind, fields),
                };
                id.map(|id| EarlyOpen {
                    id,
                    with_requests: at_once,
                })
            }
        };
        let EarlyOpen { id, with_requests } = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let _ = done.try_send(Err(error.into()));
                return Ok(());
            }
        };
        if early.is_none() && at_once {
            send_requests(connection, id, &opening)?;
        }
        let setup = Setup {
            opening,
            sent_early: with_requests,
            out: None,
            unanswered: 0,
            refused: None,
            done,
        };
        self.insert(id, Some(setup));
        if with_requests && let Some(entry) = self.entries.get_mut(&id) {
            entry.await_replies();
        }
        Ok(())
    }

    /// The server ignored an early CHANNEL_OPEN: opens the channel again.
    pub(super) fn reopen(&mut self, id: ChannelId) -> Result<(), Error> {
        if self.driver.connection().has_channel(id) {
            // The event is about an earlier channel with this number.
            return Ok(());
        }
        match self.entries.remove(&id).and_then(|entry| entry.setup) {
            Some(setup) => self.open(setup.opening, None, setup.done),
            None => Ok(()),
        }
    }

    fn insert(&mut self, id: ChannelId, setup: Option<Setup>) -> (u64, Arc<ChannelState>) {
        self.next_serial += 1;
        let state = Arc::new(ChannelState::default());
        self.entries.insert(
            id,
            Entry {
                serial: self.next_serial,
                state: Arc::clone(&state),
                setup,
                waiters: VecDeque::new(),
                sources: 0,
                released: None,
                close_sent: false,
            },
        );
        (self.next_serial, state)
    }

    /// Makes a stream whose bytes are sent on the channel.
    fn attach(&mut self, id: ChannelId, stream: Stream) -> Result<UnixStream, Error> {
        let (caller, ours) = UnixStream::pair()?;
        self.driver.attach_source(id, stream, OwnedFd::from(ours))?;
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.sources += 1;
        }
        Ok(caller)
    }

    /// Accepts the channel that the peer requested, with a stream for stderr.
    pub(crate) fn accept(&mut self, id: ChannelId) -> Result<Opened, Error> {
        let mut opened = self.accept_stream(id)?;
        opened.err = Some(self.attach(id, Stream::Stderr)?);
        Ok(opened)
    }

    /// Accepts the channel that the peer requested.
    pub(super) fn accept_stream(&mut self, id: ChannelId) -> Result<Opened, Error> {
        self.driver.connection().accept_channel(id)?;
        let (serial, state) = self.insert(id, None);
        let out = self.attach(id, Stream::Data)?;
        Ok(Opened {
            id,
            serial,
            state,
            out,
            err: None,
        })
    }

    /// The state of a channel that is open.
    pub(crate) fn state(&self, id: ChannelId) -> Option<&ChannelState> {
        self.entries.get(&id).map(|entry| &*entry.state)
    }

    pub(super) fn opened(&mut self, id: ChannelId) -> Result<(), Error> {
        let out = self.attach(id, Stream::Data)?;
        let connection = self.driver.connection();
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(());
        };
        let Some(setup) = &mut entry.setup else {
            return Ok(());
        };
        setup.out = Some(out);
        if !(setup.sent_early && connection.channel_heard_early(id)) {
            send_requests(connection, id, &setup.opening)?;
            entry.await_replies();
        }
        self.hand_out(id)
    }

    pub(super) fn replied(&mut self, id: ChannelId, success: bool) -> Result<(), Error> {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(());
        };
        match entry.waiters.pop_front() {
            Some(Waiter::Caller(done)) => {
                let _ = done.try_send(Ok(success));
                Ok(())
            }
            Some(Waiter::Setup(name)) => {
                if let Some(setup) = &mut entry.setup {
                    setup.unanswered = setup.unanswered.saturating_sub(1);
                    if !success {
                        setup.refused.get_or_insert(name);
                    }
                }
                self.hand_out(id)
            }
            None => Ok(()),
        }
    }

    /// Passes a channel to its caller after all its setup requests are answered.
    fn hand_out(&mut self, id: ChannelId) -> Result<(), Error> {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(());
        };
        let is_ready = |setup: &mut Setup| setup.unanswered == 0 && setup.out.is_some();
        let Some(setup) = entry.setup.take_if(is_ready) else {
            return Ok(());
        };
        let taken = match (setup.refused, setup.out) {
            (None, Some(out)) => setup
                .done
                .try_send(Ok(Opened {
                    id,
                    serial: entry.serial,
                    state: Arc::clone(&entry.state),
                    out,
                    err: None,
                }))
                .is_ok(),
            (refused, _) => {
                let error = Error::RequestRefused(refused.unwrap_or("the channel"));
                let _ = setup.done.try_send(Err(error));
                false
            }
        };
        if !taken {
            entry.state.abandon();
            entry.released = Some(Exit::Unknown);
        }
        self.finish(id)
    }
}
