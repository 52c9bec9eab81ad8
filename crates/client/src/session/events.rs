//! Handles the connection's events: data without a sink, requests, ends of streams, host keys.

use driver::{GssContexts, Notice};
use escape::LogLevel;
use proto::channel::Request;
use proto::{ChannelId, Event, Stream};
use wire::message::open_failure;

use super::{
    ClientSession, Ended, FAILURE, Next, PROOF_MS, TOKEN_LOCAL_END, TOKEN_PROOF, TOKEN_RENEWAL,
    TOKEN_SIGNALS, TOKEN_TERMINAL, What,
};
use crate::error::ClientError;
use crate::forward::{self, SessionForwards, open_reason};
use crate::kerberos::LOOK_MS;
use crate::log::{self, debug1, debug2, debug3, error, fatal, info, verbose};
use crate::pipelining::early::Asked;
use crate::sharing::master::Master;
use crate::text::one_line;

impl ClientSession<'_> {
    /// Not inlined: the loop that waits has none of its stack.
    #[inline(never)]
    pub(super) fn handle(&mut self, notice: Notice) -> Result<Next, ClientError> {
        let notice = match &mut self.forwards {
            Some(forwards) => match forwards.handle(notice, self.driver)? {
                Some(notice) => notice,
                None => return Ok(Next::Continue),
            },
            None => notice,
        };
        let notice = match (&mut self.master, &mut self.forwards) {
            (Some(master), Some(forwards)) => {
                match master.handle(notice, forwards, self.driver)? {
                    Some(notice) => notice,
                    None => return Ok(Next::Continue),
                }
            }
            _ => notice,
        };
        match notice {
            Notice::Event(event) => self.handle_event(event),
            Notice::Ready {
                token: TOKEN_SIGNALS,
                ..
            } => self.handle_signals(),
            Notice::Ready {
                token: TOKEN_TERMINAL,
                ..
            } => self.read_terminal(),
            Notice::Ready {
                token: TOKEN_LOCAL_END,
                ..
            } => {
                self.wake_local_end()?;
                Ok(Next::Continue)
            }
            Notice::Timer {
                token: TOKEN_RENEWAL,
            } => {
                self.look_for_renewal()?;
                Ok(Next::Continue)
            }
            Notice::EndpointEnded { .. } => {
                self.endpoint_ended()?;
                Ok(Next::Finish(0))
            }
            Notice::SourceEnded { channel, error, .. } => {
                if let Some(error) = error {
                    debug1!("reading standard input failed: {error}");
                }
                let connection = self.driver.connection();
                if connection.channel_is_open(channel)
                    || connection.channel_takes_early_data(channel)
                {
                    debug2!("channel {}: end of input", channel.0);
                    self.command(|connection| connection.channel_eof(channel))?;
                }
                Ok(Next::Continue)
            }
            Notice::SinkEnded {
                channel,
                stream,
                error,
            } => {
                if let Some(error) = error {
                    self.sink_failed(channel, stream, &error)?;
                }
                Ok(Next::Continue)
            }
            // After the channel is closed, its output may still be on its way to the local streams.
            Notice::AcceleratorFailed(why) => {
                info!(
                    "Warning: hardware compression failed: {why}; using software compression from here on."
                );
                Ok(Next::Continue)
            }
            Notice::AcceleratorDismissed(name) => {
                debug1!(
                    "compression: a second channel has data: internal engine instead of {}, which may mix the channels' histories",
                    one_line(&name)
                );
                Ok(Next::Continue)
            }
            Notice::PeerClosed if self.outcome.closed => {
                self.drop_forwards();
                Ok(Next::Continue)
            }
            Notice::PeerClosed => Err(self.ended(None)),
            _ => Ok(Next::Continue),
        }
    }

    pub(super) fn look_for_renewal_later(&mut self) {
        if self.follows_renewals {
            let at = self.driver.now() + LOOK_MS;
            self.driver.set_timer(TOKEN_RENEWAL, Some(at));
        }
    }

    /// Starts a rekey that delegates the user's credentials, if they were renewed.
    fn look_for_renewal(&mut self) -> Result<(), ClientError> {
        let is_free = !self.driver.connection().awaits_word();
        if is_free && self.driver.gss().is_some_and(GssContexts::renews) {
            debug1!("credentials updated - forcing rekey");
            let now = self.driver.now();
            self.command(|connection| connection.rekey(now))?;
        }
        self.look_for_renewal_later();
        Ok(())
    }

    /// The reader of the local output is gone: informs the command's side (`eow@openssh.com`).
    pub(super) fn sink_failed(
        &mut self,
        channel: ChannelId,
        stream: Stream,
        error: &std::io::Error,
    ) -> Result<(), ClientError> {
        debug1!("channel {}: writing {stream:?} failed: {error}", channel.0);
        let is_session = !matches!(self.plan.what, What::Forward(_));
        if !self.driver.connection().channel_is_open(channel) {
            return Ok(());
        }
        self.outcome.reader_left = true;
        if is_session && stream == Stream::Data {
            self.request(channel, &Request::Eow, false)?;
        } else if !is_session {
            self.command(|connection| connection.channel_close(channel))?;
        }
        Ok(())
    }

    pub(super) fn handle_event(&mut self, event: Event) -> Result<Next, ClientError> {
        match event {
            Event::ChannelOpened(channel) if Some(channel) == self.channel => {
                debug2!("channel {}: open confirmed", channel.0);
                self.confirmed(channel)?;
            }
            Event::ChannelUnheard(channel) if Some(channel) == self.channel => {
                self.reopen(channel)?;
            }
            Event::ChannelRefused {
                channel,
                reason,
                description,
            } => {
                info!(
                    "channel {}: open failed: {}: {}",
                    channel.0,
                    open_reason(reason),
                    one_line(&description)
                );
                self.outcome.refused = true;
                if matches!(self.plan.what, What::Forward(_)) {
                    error!("stdio forwarding failed");
                }
                return self.fail(channel);
            }
            Event::ChannelData { channel, data, .. } => {
                // The stream's sink is gone: its bytes are dropped and the window stays open.
                self.command(|connection| connection.channel_consumed(channel, data.len()))?;
            }
            Event::ChannelRequest {
                channel,
                request,
                want_reply,
            } => {
                self.channel_request(channel, request, want_reply)?;
            }
            Event::ChannelReply { channel, success } => return self.reply(channel, success),
            Event::ChannelEof(channel) => debug2!("channel {}: end of output", channel.0),
            Event::ChannelIdle { channel, limit_ms } if Some(channel) == self.channel => {
                verbose!("{}", proto::channel::idle_text(channel, limit_ms));
                return self.expire(channel);
            }
            Event::ChannelClosed(channel) if Some(channel) == self.channel => {
                debug2!("channel {}: closed", channel.0);
                self.channel_closed(channel);
            }
            Event::ChannelOpenRequest { channel, kind, .. } => {
                let special = [
                    ("agent", forward::agent::is_agent(&kind)),
                    ("X11", forward::x11::is_x11(&kind)),
                ];
                match special.into_iter().find(|(_, is_it)| *is_it) {
                    Some((what, _)) => error!(
                        "Warning: ssh server tried {what} forwarding.\n\
                         Warning: this is probably a break-in attempt by a malicious server."
                    ),
                    None => info!(
                        "WARNING: the server asked for a channel of type {}: refused",
                        one_line(&kind)
                    ),
                }
                let reason = open_failure::ADMINISTRATIVELY_PROHIBITED;
                self.command(|connection| {
                    connection.reject_channel(channel, reason, "not asked for")
                })?;
            }
            Event::KeysChanged { negotiated, .. } => {
                crate::report::note_keys(&negotiated, false);
            }
            Event::HostKeysAnnounced(keys) => self.host_keys_announced(&keys),
            Event::TooManyHostKeysAnnounced => self.host_keys.too_many(),
            Event::HostKeysProof(proofs) => self.host_keys_proven(proofs),
            Event::DebugMessage {
                always_display,
                text,
            } => {
                if always_display {
                    info!("Remote: {}", one_line(&text));
                } else {
                    debug1!("Remote: {}", one_line(&text));
                }
            }
            Event::GlobalRequestRefused(name) => {
                debug1!("client_input_global_request: {} refused", one_line(&name));
            }
            other => debug3!("event: {other:?}"),
        }
        Ok(Next::Continue)
    }

    pub(super) fn channel_request(
        &mut self,
        channel: ChannelId,
        request: Request,
        want_reply: bool,
    ) -> Result<(), ClientError> {
        let mut known = Some(channel) == self.channel;
        match request {
            Request::ExitStatus { status } if known => {
                debug1!("channel {}: exit-status {status}", channel.0);
                self.outcome.ended = Some(Ended::Status(status));
            }
            // The command ended because the local reader is gone: nothing to report.
            Request::ExitSignal { name, .. }
                if known && name == "PIPE" && self.outcome.reader_left =>
            {
                self.outcome.ended = Some(Ended::Signal);
            }
            Request::ExitSignal {
                name,
                core_dumped,
                message,
                ..
            } if known => {
                let core = if core_dumped { " (core dumped)" } else { "" };
                let message = one_line(&message);
                let colon = if message.is_empty() { "" } else { ": " };
                // The exit status and the message of the remote shell are all that OpenSSH shows; a
                // program with many hosts tells the cause.
                let level = match log::has_reader() {
                    true => LogLevel::Info,
                    false => LogLevel::Verbose,
                };
                log::write(
                    level,
                    format_args!(
                        "The command was ended by signal {}{core}{colon}{message}",
                        one_line(&name)
                    ),
                );
                self.outcome.ended = Some(Ended::Signal);
            }
            Request::Eow if known => {
                debug2!("channel {}: the command reads no more", channel.0);
                self.stop_input(channel);
            }
            other => {
                debug2!("channel {}: unexpected request {other:?}", channel.0);
                known = false;
            }
        }
        if want_reply {
            self.command(|connection| connection.channel_reply(channel, known))?;
        }
        Ok(())
    }

    pub(super) fn reply(&mut self, channel: ChannelId, success: bool) -> Result<Next, ClientError> {
        let asked = self.startup.asked.pop_front();
        debug3!("channel {}: {asked:?}: {success}", channel.0);
        match asked {
            Some(Asked::Pty) if !success => {
                fatal!("PTY allocation request failed on channel {}", channel.0);
                self.terminal.leave_raw_mode();
                self.plan.pty = None;
                // As in OpenSSH: what wants a terminal is not left to run without one.
                return self.fail(channel);
            }
            Some(Asked::X11) if !success => {
                error!("X11 forwarding request failed on channel {}", channel.0);
                if let Some(forwards) = &mut self.forwards {
                    forwards.x11_refused();
                }
            }
            Some(Asked::Start) if success => self.outcome.started = true,
            Some(Asked::Start) => {
                self.terminal.leave_raw_mode();
                fatal!(
                    "{} request failed on channel {}",
                    self.plan.what.request_name(),
                    channel.0
                );
                return self.fail(channel);
            }
            _ => {}
        }
        Ok(Next::Continue)
    }

    /// The session cannot be. A master's passengers go on without it.
    fn fail(&mut self, channel: ChannelId) -> Result<Next, ClientError> {
        let has_passengers = self.master.as_ref().is_some_and(Master::has_passengers);
        match has_passengers && Some(channel) == self.channel {
            true => self.end_own(channel).map(|()| Next::Continue),
            false => Ok(Next::Finish(FAILURE)),
        }
    }

    /// Ends the session's channel at once, because it is unused for too long. Forwarded connections
    /// go on.
    fn expire(&mut self, channel: ChannelId) -> Result<Next, ClientError> {
        if self.local.is_some() {
            return Ok(Next::Finish(FAILURE));
        }
        self.end_own(channel).map(|()| Next::Continue)
    }

    /// Ends the session's channel; what else uses the connection goes on.
    fn end_own(&mut self, channel: ChannelId) -> Result<(), ClientError> {
        drop(self.driver.detach_sink(channel, Stream::Data));
        drop(self.driver.detach_sink(channel, Stream::Stderr));
        if self.driver.connection().channel_is_open(channel) {
            self.command(|connection| connection.channel_eof(channel))?;
            self.command(|connection| connection.channel_close(channel))?;
        }
        self.channel_closed(channel);
        Ok(())
    }

    pub(super) fn channel_closed(&mut self, channel: ChannelId) {
        self.outcome.closed = true;
        self.stop_input(channel);
        let forwards = self.forwards.as_ref();
        let master = self.master.as_ref();
        if forwards.is_some_and(SessionForwards::has_connections)
            || master.is_some_and(Master::has_passengers)
        {
            // The session waits for them, and the user may interrupt it or type elsewhere.
            self.terminal.leave_raw_mode();
        }
    }

    pub(super) fn stop_input(&mut self, channel: ChannelId) {
        drop(self.driver.detach_source(channel, Stream::Data));
        self.terminal.stop(self.driver);
    }

    // ---- host key rotation ----------------------------------------------------------------

    fn host_keys_announced(&mut self, keys: &[Vec<u8>]) {
        let is_raw = self.terminal.is_raw();
        self.host_keys
            .announced(keys, is_raw, self.driver, self.interaction);
    }

    fn host_keys_proven(&mut self, proofs: Option<Vec<Vec<u8>>>) {
        let is_raw = self.terminal.is_raw();
        self.host_keys
            .proven(proofs, is_raw, self.driver, self.interaction);
    }

    /// Waits after the session until new host keys are proven, if a proof was requested; a signal,
    /// the connection's end or the time limit ends the wait.
    pub(super) fn await_proof(&mut self) {
        if !self.host_keys.awaits_proof() {
            return;
        }
        debug2!("waiting for the proof of new host keys");
        let limit = self.driver.now() + PROOF_MS;
        self.driver.set_timer(TOKEN_PROOF, Some(limit));
        while self.host_keys.awaits_proof() {
            match self.driver.next() {
                Ok(Notice::Event(Event::HostKeysProof(proofs))) => self.host_keys_proven(proofs),
                Ok(
                    Notice::PeerClosed
                    | Notice::Timer { token: TOKEN_PROOF }
                    | Notice::Ready {
                        token: TOKEN_SIGNALS,
                        ..
                    },
                )
                | Err(_) => break,
                Ok(_) => {}
            }
        }
        self.driver.set_timer(TOKEN_PROOF, None);
    }
}
