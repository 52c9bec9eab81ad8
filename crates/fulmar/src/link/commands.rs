//! Carries out the callers' commands, and closes the channels that callers have dropped.

use proto::ChannelId;
use proto::channel::Request;

use super::{CLOSE_GRACE, Command, Core, Entry, MAX_TOLD, TOKEN_CLOSE, Waiter};
use crate::Error;

impl Core {
    pub(super) fn take_commands(&mut self) -> Result<(), Error> {
        self.wake.drain()?;
        while let Ok(command) = self.commands.try_recv() {
            self.take_command(command)?;
        }
        self.grant()
    }

    /// Grants window for the bytes that callers have read.
    fn grant(&mut self) -> Result<(), Error> {
        for (id, entry) in &self.entries {
            let bytes = entry.state.take_unreported();
            if bytes > 0 {
                self.driver.connection().channel_consumed(*id, bytes)?;
            }
        }
        Ok(())
    }

    fn take_command(&mut self, command: Command) -> Result<(), Error> {
        match command {
            Command::Open {
                opening,
                early,
                done,
            } => self.open(opening, early, done)?,
            Command::Ask {
                id,
                serial,
                request,
                done,
            } => match self.entry(id, serial) {
                Some(entry) => {
                    entry.waiters.push_back(Waiter::Caller(done));
                    self.driver
                        .connection()
                        .channel_request(id, &request, true)?;
                }
                None => {
                    let _ = done.try_send(Err(Error::ChannelClosed));
                }
            },
            Command::Tell {
                id,
                serial,
                request,
                done,
            } => {
                let outcome = self.tell(id, serial, &request)?;
                let _ = done.try_send(outcome);
            }
            Command::Release { id, serial, exit } => {
                let Some(entry) = self.entry(id, serial) else {
                    return Ok(());
                };
                entry.released = Some(exit);
                let unread = entry.state.abandon();
                self.driver.connection().channel_consumed(id, unread)?;
                self.finish(id)?;
            }
            Command::Listen { listening, done } => self.listen(listening, done),
            Command::Unlisten { serial } => self.unlisten(serial)?,
            Command::AcceptAgents { done } => {
                let _ = done.try_send(self.accept_agents());
            }
            Command::RefuseAgents => self.refuse_agents()?,
            Command::Rekey => {
                let now = self.driver.now();
                self.driver.connection().rekey(now)?;
            }
            Command::Close => {
                self.closing = true;
                let grace = u64::try_from(CLOSE_GRACE.as_millis()).unwrap_or(u64::MAX);
                let at = self.driver.now().saturating_add(grace);
                self.driver.set_timer(TOKEN_CLOSE, Some(at));
            }
        }
        Ok(())
    }

    /// The channel with this id and serial number, unless its CHANNEL_CLOSE has been sent.
    fn entry(&mut self, id: ChannelId, serial: u64) -> Option<&mut Entry> {
        self.entries
            .get_mut(&id)
            .filter(|entry| entry.serial == serial && !entry.close_sent)
    }

    /// Sends a request without `want reply`. The caller does not wait for an answer, so
    /// [`MAX_TOLD`] limits the requests that queue.
    fn tell(
        &mut self,
        id: ChannelId,
        serial: u64,
        request: &Request,
    ) -> Result<Result<(), Error>, Error> {
        if self.entry(id, serial).is_none() {
            return Ok(Err(Error::ChannelClosed));
        }
        let connection = self.driver.connection();
        if !connection.has_output() {
            self.told = 0;
        }
        if self.told >= MAX_TOLD {
            return Ok(Err(Error::TimedOut("the peer reads no more requests")));
        }
        self.told += 1;
        connection.channel_request(id, request, false)?;
        Ok(Ok(()))
    }

    pub(super) fn source_ended(&mut self, id: ChannelId) -> Result<(), Error> {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(());
        };
        entry.sources = entry.sources.saturating_sub(1);
        if entry.sources == 0 {
            self.driver.connection().channel_eof(id)?;
        }
        self.finish(id)
    }

    /// Closes a channel that its caller has dropped, after all its written bytes are queued.
    pub(super) fn finish(&mut self, id: ChannelId) -> Result<(), Error> {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(());
        };
        let Some(exit) = entry.released.as_ref().filter(|_| entry.sources == 0) else {
            return Ok(());
        };
        if std::mem::replace(&mut entry.close_sent, true) {
            return Ok(());
        }
        let connection = self.driver.connection();
        if let Some(request) = exit.to_request() {
            connection.channel_request(id, &request, false)?;
        }
        connection.channel_close(id)?;
        Ok(())
    }
}
