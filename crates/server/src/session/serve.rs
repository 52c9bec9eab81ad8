//! The session process's loop: passes the driver's notices to the channels that they concern.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use driver::{Driver, DriverError, Notice};
use keys::SignatureAlgorithm;
use privsep::{
    ChooseGroup, Group, HostkeysProof, HostkeysProve, SignExchangeHash, Signature, TrafficReport,
    roles,
};
use proto::channel::{ChannelTimeouts, Request, idle_text};
use proto::{ChannelId, Event};
use sys::signals::{Signal, SignalFd};
use wire::message::{open_failure, reason};
use wire::names;

use super::SessionError;
use super::channel::{Orphan, SessionChannel};
use super::context::Context;
use super::forward::Forwarding;
use super::token::Token;
use super::x11::X11Request;
use crate::recorder::RecordingEnded;
use crate::transport;

/// Time limit for sending a DISCONNECT.
pub(super) const GOODBYE: Duration = Duration::from_millis(500);
/// Time limit, from the connection's end, for the SFTP threads to end.
const FILES_WAIT: Duration = Duration::from_secs(2);
/// The part of `FILES_WAIT` in which requests that arrived before the connection's end are
/// completed.
const LAST_REQUESTS_WAIT: Duration = Duration::from_secs(1);
/// Time between two reports of traffic; the monitor accepts no more than two a minute.
const REPORT_MS: u64 = 60_000;
/// Most notices handled before the first answer is written, of packets that arrived with the login.
const MAX_AHEAD: usize = 64;

/// State of the session process's loop.
pub(super) struct Serve<'a> {
    driver: Box<Driver>,
    context: Box<Context<'a>>,
    /// The sessions; other channels are forwardings.
    channels: BTreeMap<ChannelId, Box<SessionChannel>>,
    forwarding: Forwarding,
    orphans: Vec<Orphan>,
    no_more_sessions: bool,
    /// The timer of UnusedConnectionTimeout runs: no channel is open.
    is_unused: bool,
    /// Signals that end this process, if it must clean up.
    signals: Option<SignalFd>,
    /// The value of IPQoS that is set, and the count of changes of channels that it reflects.
    quality: (Option<bool>, u64),
}

impl<'a> Serve<'a> {
    pub(super) fn new(driver: Box<Driver>, context: Box<Context<'a>>) -> Self {
        Self {
            driver,
            channels: BTreeMap::new(),
            forwarding: Forwarding::new(&context.options),
            context,
            orphans: Vec::new(),
            no_more_sessions: false,
            is_unused: false,
            signals: None,
            quality: (None, 0),
        }
    }

    /// Serves until the connection ends, then ends all channels.
    pub(super) fn run(mut self) -> Result<(), SessionError> {
        self.driver.watch(
            self.context.rpc.as_fd(),
            Token::Monitor.number(),
            true,
            false,
        )?;
        let rest_ms = u64::try_from(sys::memory::REST.as_millis()).unwrap_or(u64::MAX);
        let rest_at = self.driver.now().saturating_add(rest_ms);
        self.driver.set_timer(Token::Rest.number(), Some(rest_at));
        self.set_timeouts();
        self.watch_traffic();
        self.announce_host_keys();
        let ended = self.serve();
        // A failed write of the DISCONNECT is ignored.
        match &ended {
            // For its own errors the driver has sent a DISCONNECT; this error may come from the
            // session.
            Err(SessionError::Proto(error)) => {
                self.driver.connection().fail(error);
                let _ = self.driver.flush_within(GOODBYE);
            }
            Err(SessionError::Local(error)) if RecordingEnded::is_cause_of(error) => {
                let connection = self.driver.connection();
                connection.disconnect(reason::BY_APPLICATION, &error.to_string());
                let _ = self.driver.flush_within(GOODBYE);
            }
            _ => {}
        }
        let report = self.driver.lane_report();
        self.context.log.debug(&format!("crypto threads: {report}"));
        self.tell_compression();
        self.hang_up();
        let (received, sent) = self.driver.wire_bytes();
        self.context.log.verbose(&format!(
            "Transferred: sent {sent}, received {received} bytes"
        ));
        self.report_traffic();
        ended
    }

    /// Sets the timer of the next report of traffic, if anybody asks for metrics.
    fn watch_traffic(&mut self) {
        if self.context.options.logging.has_metrics() {
            let at = self.driver.now().saturating_add(REPORT_MS);
            self.driver.set_timer(Token::Report.number(), Some(at));
        }
    }

    /// Tells the monitor what this session has done so far, if anybody asks for metrics.
    fn report_traffic(&mut self) {
        if !self.context.options.logging.has_metrics() {
            return;
        }
        let (received, sent) = self.driver.wire_bytes();
        let opened = self.driver.connection().opened_channels();
        let count = |name: &str| {
            let found = opened.iter().find(|(kind, _)| **kind == *name);
            found.map_or(0, |(_, count)| *count)
        };
        let channels = roles::COUNTED_CHANNELS.map(count).to_vec();
        // A monitor that has gone needs no report.
        let _ = self.context.rpc.send(&TrafficReport {
            received,
            sent,
            channels,
        });
    }

    /// ChannelTimeout and UnusedConnectionTimeout.
    fn set_timeouts(&mut self) {
        let timeouts = self.context.options.limits.channel_timeouts.clone();
        let global_ms = timeouts.global_ms();
        let timeouts = ChannelTimeouts {
            limit_ms: Box::new(move |kind| timeouts.limit_ms(kind)),
            global_ms,
        };
        self.driver.connection().set_channel_timeouts(timeouts);
        self.watch_unused();
    }

    /// Sets IPQoS if the open channels ask for another value.
    fn update_quality(&mut self) {
        let connection = self.driver.connection();
        let changes = connection.channel_changes();
        let (set, seen) = self.quality;
        if changes == seen {
            return;
        }
        let channels = &self.channels;
        let has_terminal = |channel| {
            let session = channels.get(&channel);
            session.is_some_and(|session| session.has_terminal())
        };
        let wanted = driver::is_interactive(connection, has_terminal);
        if let Some(interactive) = wanted.filter(|_| wanted != set) {
            self.context.set_quality(interactive);
        }
        self.quality = (wanted.or(set), changes);
    }

    /// Sets or clears the timer of UnusedConnectionTimeout.
    fn watch_unused(&mut self) {
        let Some(seconds) = self.context.options.limits.unused_connection_timeout_s else {
            return;
        };
        let is_unused = self.driver.connection().channel_count() == 0;
        if is_unused != self.is_unused {
            self.is_unused = is_unused;
            let at = self.driver.now().saturating_add(u64::from(seconds) * 1000);
            let token = Token::Unused.number();
            self.driver.set_timer(token, is_unused.then_some(at));
        }
    }

    /// Logs the totals of compression in both directions.
    fn tell_compression(&mut self) {
        let connection = self.driver.connection();
        let (report, totals) = (connection.compress_report(), connection.inflate_totals());
        let log = self.context.log;
        if let Some(report) = report {
            log.debug(&report.totals.line("outgoing"));
            log.debug(&report.line());
        }
        if let Some(totals) = totals {
            log.debug(&totals.line("incoming"));
        }
    }

    fn serve(&mut self) -> Result<(), SessionError> {
        let lost = |error| match error {
            DriverError::Io(error) if RecordingEnded::is_cause_of(&error) => {
                SessionError::Local(error)
            }
            DriverError::Io(error) => SessionError::Network(error),
            DriverError::Proto(error) => error.into(),
        };
        // A client may have pipelined its channel and command; the answers leave in one flight.
        for _ in 0..MAX_AHEAD {
            match self.driver.next_received().map_err(lost)? {
                Some(notice) => self.handle(notice)?,
                None => break,
            }
        }
        loop {
            let notice = self.driver.next().map_err(lost)?;
            self.handle(notice)?;
        }
    }

    fn handle(&mut self, notice: Notice) -> Result<(), SessionError> {
        self.pass_on(notice)?;
        self.update_quality();
        self.watch_unused();
        Ok(())
    }

    fn pass_on(&mut self, notice: Notice) -> Result<(), SessionError> {
        let (forwarding, driver) = (&mut self.forwarding, &mut *self.driver);
        let Some(notice) = forwarding.handle(notice, driver, &self.context) else {
            return Ok(());
        };
        match notice {
            Notice::Event(event) => self.event(event),
            Notice::Ready { token, .. } | Notice::Timer { token } => self.ready(token),
            Notice::SourceEnded { channel, .. } => {
                if let Some(session) = self.channels.get_mut(&channel) {
                    session.source_ended(&mut self.driver, &self.context)?;
                }
                Ok(())
            }
            Notice::SinkEnded { channel, error, .. } => {
                if let Some(session) = self.channels.get_mut(&channel) {
                    session.sink_ended(error.is_some(), &mut self.driver, &self.context);
                }
                Ok(())
            }
            Notice::EndpointEnded { channel } => {
                if let Some(session) = self.channels.get_mut(&channel) {
                    session.endpoint_ended(&mut self.driver, &self.context)?;
                }
                Ok(())
            }
            Notice::AcceleratorFailed(why) => {
                self.context.log.info(&format!(
                    "Warning: hardware compression for user {} failed: {why}; using software compression from here on",
                    self.context.grant.user
                ));
                Ok(())
            }
            Notice::AcceleratorDismissed(name) => {
                self.context.log.debug(&format!(
                    "compression: a second channel has data: internal engine instead of {name}, which may mix the channels' histories"
                ));
                Ok(())
            }
            Notice::PeerClosed => Err(SessionError::PeerClosed),
        }
    }

    fn event(&mut self, event: Event) -> Result<(), SessionError> {
        match event {
            Event::ChannelOpenRequest {
                channel,
                kind,
                fields,
            } => self.open(channel, &kind, &fields),
            Event::ChannelRequest {
                channel,
                request: Request::AgentForwarding { standard },
                want_reply,
            } => self.forward_agent(channel, standard, want_reply),
            Event::ChannelRequest {
                channel,
                request:
                    Request::X11 {
                        single_connection,
                        protocol,
                        cookie,
                        screen,
                    },
                want_reply,
            } => {
                let request = X11Request {
                    single_connection,
                    protocol,
                    cookie,
                    screen,
                };
                self.forward_x11(channel, &request, want_reply);
                Ok(())
            }
            Event::ChannelRequest {
                channel,
                request,
                want_reply,
            } => {
                match self.channels.get_mut(&channel) {
                    Some(session) => {
                        session.request(request, want_reply, &mut self.driver, &self.context)?;
                    }
                    None if want_reply => {
                        let _ = self.driver.connection().channel_reply(channel, false);
                    }
                    None => {}
                }
                Ok(())
            }
            // Data without a consumer: before a command, or after the end of its input.
            Event::ChannelData { channel, data, .. } => {
                let _ = self
                    .driver
                    .connection()
                    .channel_consumed(channel, data.len());
                Ok(())
            }
            Event::ChannelWritable(channel) => {
                if let Some(session) = self.channels.get_mut(&channel) {
                    session.advance(&mut self.driver, &self.context)?;
                }
                Ok(())
            }
            Event::ChannelPeerClosed(channel) => {
                if let Some(session) = self.channels.get_mut(&channel) {
                    session.peer_closed(&mut self.driver, &self.context)?;
                }
                Ok(())
            }
            Event::ChannelIdle { channel, limit_ms } => {
                self.context.log.verbose(&idle_text(channel, limit_ms));
                if let Some(session) = self.channels.get_mut(&channel) {
                    session.expire(&mut self.driver, &self.context);
                }
                Ok(())
            }
            Event::ChannelClosed(channel) => {
                self.forget(channel);
                Ok(())
            }
            Event::SignExchangeHash {
                kex,
                algorithm,
                key,
                hash,
            } => self.sign(kex, algorithm, &key, hash.as_ref()),
            Event::ChooseGroup {
                min,
                preferred,
                max,
            } => self.choose_group(min, preferred, max),
            Event::GssAccept { kex, hash, token } => {
                let (rpc, connection) = (&self.context.rpc, self.driver.connection());
                transport::accept_token(rpc, connection, kex, hash.as_ref(), token)
            }
            Event::HostKeysProve { keys } => self.prove_host_keys(&keys),
            Event::NoMoreSessions => {
                self.no_more_sessions = true;
                Ok(())
            }
            Event::KeysChanged { negotiated, .. } => {
                let cipher = negotiated.server_to_client.cipher;
                self.context
                    .log
                    .debug(&format!("rekeyed: {} {cipher}", negotiated.kex));
                Ok(())
            }
            Event::DebugMessage { text, .. } => {
                self.context.log.debug2(&format!("client says: {text}"));
                Ok(())
            }
            Event::GlobalRequest {
                name,
                fields,
                want_reply,
            } => {
                let (forwarding, driver) = (&mut self.forwarding, &mut *self.driver);
                forwarding.request(name, &fields, want_reply, driver, &self.context);
                Ok(())
            }
            Event::GlobalRequestRefused(name) => {
                self.context
                    .log
                    .debug(&format!("global request refused: {name}"));
                Ok(())
            }
            // The other events occur only in clients or before the login.
            _ => Ok(()),
        }
    }

    fn ready(&mut self, token: u64) -> Result<(), SessionError> {
        match Token::from_number(token) {
            Some(Token::Monitor) => Err(SessionError::MonitorGone),
            Some(Token::Child(serial)) => self.child_ready(serial),
            Some(Token::Drain(serial)) => {
                if let Some(session) = session_of(&mut self.channels, serial) {
                    session.timer(&mut self.driver, &self.context)?;
                }
                Ok(())
            }
            Some(Token::Files(serial)) => {
                if let Some(session) = session_of(&mut self.channels, serial) {
                    session.files_ready(&mut self.driver);
                }
                Ok(())
            }
            Some(Token::Unused) => Err(SessionError::Unused),
            Some(Token::Signal) => {
                let signals = self.signals.as_ref();
                match signals.map(SignalFd::read).transpose()?.flatten() {
                    Some(info) => Err(SessionError::Signalled(info.signal)),
                    None => Ok(()),
                }
            }
            Some(Token::Rendezvous(listener)) => {
                let (forwarding, driver) = (&mut self.forwarding, &mut *self.driver);
                forwarding.port_wanted(listener, driver, &self.context);
                Ok(())
            }
            Some(Token::Probe) => {
                let (forwarding, driver) = (&mut self.forwarding, &mut *self.driver);
                // A client that lives after all learns that it has lost its port. Its commands would
                // end with the connection; they are worth more.
                if forwarding.look(driver, &self.context) && self.channels.is_empty() {
                    return Err(SessionError::PortTaken);
                }
                Ok(())
            }
            Some(Token::Claim) => {
                let (forwarding, driver) = (&mut self.forwarding, &mut *self.driver);
                forwarding.claim_decided(driver, &self.context);
                Ok(())
            }
            Some(Token::Report) => {
                self.report_traffic();
                self.watch_traffic();
                Ok(())
            }
            Some(Token::Rest) => {
                // Frees memory that only the login needed.
                self.driver.connection().free_unused();
                sys::memory::rest();
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn child_ready(&mut self, serial: u64) -> Result<(), SessionError> {
        if let Some(session) = session_of(&mut self.channels, serial) {
            session.child_ready(&mut self.driver, &self.context)?;
        }
        let driver = &mut self.driver;
        self.orphans.retain_mut(|orphan| {
            let ended = orphan.serial == serial && !matches!(orphan.child.try_wait(), Ok(None));
            if ended {
                driver.unwatch(orphan.child.pidfd().as_fd());
            }
            !ended
        });
        Ok(())
    }

    fn open(&mut self, channel: ChannelId, kind: &str, fields: &[u8]) -> Result<(), SessionError> {
        match kind {
            names::CHANNEL_SESSION => self.open_session(channel, fields),
            names::CHANNEL_DIRECT_TCPIP
            | names::CHANNEL_DIRECT_STREAMLOCAL
            | names::CHANNEL_DIRECT_UDP => {
                let (forwarding, driver) = (&mut self.forwarding, &mut *self.driver);
                forwarding.open(channel, kind, fields, driver, &self.context);
                Ok(())
            }
            names::CHANNEL_TUN | names::CHANNEL_TUN_SEGMENTS => {
                let (forwarding, driver) = (&mut self.forwarding, &mut *self.driver);
                forwarding.open_tunnel(channel, kind, fields, driver, &self.context);
                Ok(())
            }
            _ => {
                self.context
                    .log
                    .debug(&format!("channel of type {kind} refused"));
                self.reject(
                    channel,
                    open_failure::UNKNOWN_CHANNEL_TYPE,
                    "unsupported channel type",
                );
                Ok(())
            }
        }
    }

    /// Answers the request of a session to use the client's agent.
    fn forward_agent(
        &mut self,
        channel: ChannelId,
        standard: bool,
        want_reply: bool,
    ) -> Result<(), SessionError> {
        let (forwarding, driver) = (&mut self.forwarding, &mut *self.driver);
        let is_granted = self.channels.contains_key(&channel)
            && forwarding.listen_for_agent(standard, driver, &self.context);
        if want_reply {
            let _ = driver.connection().channel_reply(channel, is_granted);
        }
        if is_granted && self.signals.is_none() {
            // The socket's file does not outlive this process.
            let signals = SignalFd::new(&[Signal::TERM, Signal::HUP, Signal::INT])?;
            driver.watch(signals.as_fd(), Token::Signal.number(), true, false)?;
            self.signals = Some(signals);
        }
        Ok(())
    }

    /// Answers the request of a session to use the client's X server.
    fn forward_x11(&mut self, channel: ChannelId, request: &X11Request, want_reply: bool) {
        let (forwarding, driver) = (&mut self.forwarding, &mut *self.driver);
        let session = self.channels.get_mut(&channel);
        let mut is_granted = false;
        if let Some(session) = session.filter(|session| session.takes_x11())
            && let Some(display) = forwarding.listen_for_x11(request, driver, &self.context)
        {
            session.set_x11(display);
            is_granted = true;
        }
        if want_reply {
            let _ = driver.connection().channel_reply(channel, is_granted);
        }
    }

    fn reject(&mut self, channel: ChannelId, code: u32, words: &str) {
        let _ = self
            .driver
            .connection()
            .reject_channel(channel, code, words);
    }

    fn open_session(&mut self, channel: ChannelId, fields: &[u8]) -> Result<(), SessionError> {
        if self.no_more_sessions {
            // As in OpenSSH: an attacker who has taken over the client must not get a shell.
            let words =
                "Possible attack: attempt to open a session after additional sessions disabled";
            self.driver
                .connection()
                .disconnect(reason::PROTOCOL_ERROR, words);
            let _ = self.driver.flush();
            return Err(SessionError::SessionAfterLast);
        }
        let sessions = self.channels.len();
        let limit = usize::try_from(self.context.options.limits.max_sessions).unwrap_or(usize::MAX);
        // A command that outlives its channel counts, else closing the channel would bypass the
        // limit.
        if sessions + self.orphans.len() >= limit || !fields.is_empty() {
            self.context
                .log
                .info("no more sessions: MaxSessions reached");
            self.reject(channel, open_failure::CONNECT_FAILED, "open failed");
            return Ok(());
        }
        if self.driver.connection().accept_channel(channel).is_ok() {
            let _ = self.driver.connection().channel_hold_close(channel);
            let session = Box::new(SessionChannel::new(channel));
            self.channels.insert(channel, session);
        }
        Ok(())
    }

    /// Removes a channel whose number may be used again.
    fn forget(&mut self, channel: ChannelId) {
        if let Some(session) = self.channels.remove(&channel) {
            if let Some(listener) = session.x11_listener() {
                self.forwarding.close_display(listener, &mut self.driver);
            }
            self.orphans
                .extend(session.hang_up(&mut self.driver, &self.context));
        }
    }

    fn choose_group(
        &mut self,
        min_bits: u32,
        preferred_bits: u32,
        max_bits: u32,
    ) -> Result<(), SessionError> {
        let answer: Group = self.context.rpc.ask(&ChooseGroup {
            min_bits,
            preferred_bits,
            max_bits,
        })?;
        let group = transport::group(&answer, &self.context.log);
        self.driver.connection().provide_group(group)?;
        Ok(())
    }

    fn sign(
        &mut self,
        kex_algorithm: &str,
        algorithm: &str,
        key: &[u8],
        hash: &[u8],
    ) -> Result<(), SessionError> {
        let key_index = transport::key_index(&self.context.grant.host_keys, key).ok_or(
            proto::Error::Bug("exchange with a host key that we do not have"),
        )?;
        self.context.rpc.send(&SignExchangeHash {
            kex_algorithm: kex_algorithm.to_owned(),
            host_key_algorithm: algorithm.to_owned(),
            key_index,
            hash: hash.to_vec(),
            expects_login: false,
        })?;
        // The driver works while the monitor signs.
        self.driver.work_on();
        let signature: Signature = self.context.rpc.expect()?;
        self.driver
            .connection()
            .provide_host_signature(&signature.blob)?;
        Ok(())
    }

    /// Sends hostkeys-00@openssh.com with the plain host keys, from which the client can learn new
    /// ones.
    fn announce_host_keys(&mut self) {
        let keys: Vec<Vec<u8>> = self
            .context
            .grant
            .host_keys
            .iter()
            .filter(|key| {
                !key.algorithms.iter().any(|name| {
                    SignatureAlgorithm::from_name(name)
                        .is_some_and(SignatureAlgorithm::is_certificate)
                })
            })
            .map(|key| key.blob.clone())
            .collect();
        if !keys.is_empty() {
            let _ = self.driver.connection().announce_host_keys(&keys);
        }
    }

    fn prove_host_keys(&mut self, keys: &[Vec<u8>]) -> Result<(), SessionError> {
        let ours = &self.context.grant.host_keys;
        let wanted: Option<Vec<(u32, String)>> = keys
            .iter()
            .map(|blob| {
                let key = ours.iter().find(|key| key.blob == *blob)?;
                Some((key.index, key.algorithms.first()?.clone()))
            })
            .collect();
        let signatures = match wanted {
            // No keys, no proofs: an empty success, as in OpenSSH.
            Some(keys) if keys.is_empty() => Vec::new(),
            Some(keys) => {
                self.context
                    .rpc
                    .ask::<_, HostkeysProof>(&HostkeysProve { keys })?
                    .signatures
            }
            None => Vec::new(),
        };
        // Too many requests, or an unknown key: the request is refused as a whole.
        let whole = signatures.len() == keys.len();
        self.driver
            .connection()
            .provide_host_key_proofs(whole.then_some(&signatures[..]))?;
        Ok(())
    }

    /// Ends all channels and releases every terminal, which hangs up on its programs. A command that
    /// goes on has init as its parent. SFTP threads get `FILES_WAIT` to close their files.
    fn hang_up(&mut self) {
        self.forwarding.close(&mut self.driver);
        let files: Vec<_> = self
            .channels
            .values()
            .filter_map(|each| each.files())
            .collect();
        let begun = Instant::now();
        if !files.is_empty() {
            for channel in self.channels.values() {
                channel.abort_files(&mut self.driver);
            }
            // Requests that arrived before the end are completed within `LAST_REQUESTS_WAIT`.
            let done = begun + LAST_REQUESTS_WAIT;
            files.iter().for_each(|thread| _ = thread.ends_before(done));
        }
        files.iter().for_each(|thread| thread.abandon());
        for (_, session) in std::mem::take(&mut self.channels) {
            self.orphans
                .extend(session.hang_up(&mut self.driver, &self.context));
        }
        for orphan in &mut self.orphans {
            let _ = orphan.child.try_wait();
        }
        let deadline = begun + FILES_WAIT;
        let hang = files.iter().filter(|thread| !thread.ends_before(deadline));
        let hang = hang.count();
        if hang > 0 {
            self.context.log.info(&format!(
                "internal-sftp: a file system does not answer; {hang} of {} SFTP channels abandoned",
                files.len()
            ));
        }
    }
}

fn session_of(
    channels: &mut BTreeMap<ChannelId, Box<SessionChannel>>,
    serial: u64,
) -> Option<&mut SessionChannel> {
    let mut sessions = channels.values_mut();
    let found = sessions.find(|session| session.owns(serial));
    found.map(Box::as_mut)
}
