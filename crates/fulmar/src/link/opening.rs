//! Opens channels: local ones, from CHANNEL_OPEN to delivery to the caller, and those that the peer
//! requests.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use proto::channel::Request;
use proto::{ChannelId, Stream};

use super::{ChannelState, Core, Entry, Opened, Setup, Waiter};
use crate::{Error, Exit};

impl Core {
    pub(super) fn insert(
        &mut self,
        id: ChannelId,
        setup: Option<Setup>,
    ) -> (u64, Arc<ChannelState>) {
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

    /// Accepts the channel that the peer requested.
    pub(crate) fn accept(&mut self, id: ChannelId) -> Result<Opened, Error> {
        self.driver.connection().accept_channel(id)?;
        let (serial, state) = self.insert(id, None);
        let out = self.attach(id, Stream::Data)?;
        let err = self.attach(id, Stream::Stderr)?;
        Ok(Opened {
            id,
            serial,
            state,
            out,
            err: Some(err),
        })
    }

    /// The state of a channel that is open.
    pub(crate) fn state(&self, id: ChannelId) -> Option<&ChannelState> {
        self.entries.get(&id).map(|entry| &*entry.state)
    }

    pub(super) fn opened(&mut self, id: ChannelId) -> Result<(), Error> {
        let out = self.attach(id, Stream::Data)?;
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(());
        };
        let Some(setup) = &mut entry.setup else {
            return Ok(());
        };
        setup.out = Some(out);
        for (request, name) in std::mem::take(&mut setup.requests) {
            // RFC 4254 §6.4: a server may ignore a variable; that is no error.
            let want_reply = !matches!(request, Request::Env { .. });
            self.driver
                .connection()
                .channel_request(id, &request, want_reply)?;
            if want_reply {
                setup.unanswered += 1;
                entry.waiters.push_back(Waiter::Setup(name));
            }
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
        let Some(setup) = entry.setup.take_if(|setup| setup.unanswered == 0) else {
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
