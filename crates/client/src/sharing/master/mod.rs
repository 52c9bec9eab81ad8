//! The master: the socket at `ControlPath`, the passengers that connect to it, and what they ask for
//! beside sessions. [`control`] is a passenger's socket, [`sessions`] the channels of passengers,
//! [`forwards`] the forwardings that they add and cancel, [`proxy`] those who speak the connection
//! protocol themselves, within the limits of [`conduct`], [`info`] the texts about the connection.
//!
//! The master belongs to a [`ClientSession`](crate::session::ClientSession), whose loop gives it each notice and
//! then [`Master::turn`].

mod conduct;
mod control;
mod forwards;
mod info;
mod proxy;
mod sessions;
mod typed;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use config::client::{ClientOptions, ControlPersist};
use config::types::Variable;
use driver::{Driver, DriverError, Notice};
use proto::{ChannelId, Event, Millis};
use sys::process::effective_uid;

use super::message::{MasterFacts, MasterReply, PassengerRequest, VERSION, Wish};
use super::socket::MasterSocket;
use crate::connect::plain_reason;
use crate::error::ClientError;
use crate::forward::SessionForwards;
use crate::log::{debug1, debug2, error};
use crate::plan::Plan;
use crate::terminal::escape::Command;
use crate::text::one_line;
use crate::x11::X11Plan;
use control::{Arrival, Control, PeekResult};
pub(crate) use info::{InfoText, PassengerStatus};
use proxy::ProxiedChannels;
use sessions::PassengerSession;

/// The upper byte of this module's tokens, below those of forwardings; the lower bits are a serial.
const KIND_SHIFT: u32 = 56;
const TOKEN_LISTENER: u64 = 0xe0 << KIND_SHIFT;
const TOKEN_CONTROL: u64 = 0xe1 << KIND_SHIFT;
const TOKEN_TYPED: u64 = 0xe2 << KIND_SHIFT;
const TOKEN_RETRY: u64 = 0xe3 << KIND_SHIFT;
const TOKEN_PERSIST: u64 = 0xe4 << KIND_SHIFT;
const TOKEN_PROBE: u64 = 0xe5 << KIND_SHIFT;
const TOKEN_RESUME: u64 = 0xe6 << KIND_SHIFT;
const TOKEN_PROXY: u64 = 0xe7 << KIND_SHIFT;
const TOKEN_KEYSTROKES: u64 = 0xe8 << KIND_SHIFT;
const SERIALS: u64 = (1 << KIND_SHIFT) - 1;

/// Maximum passengers accepted in one turn.
const MAX_ACCEPTS: usize = 64;
/// Maximum requests of one passenger in one turn: one that never pauses must not keep the others
/// waiting.
const MAX_REQUESTS: usize = 16;
/// Pause of the listener after an error that concerns the whole process, milliseconds.
const PAUSE_MS: Millis = 250;
/// A server that has been silent for this time is asked for a sign of life before a passenger hears
/// that the master is alive, milliseconds.
const SILENCE_MS: Millis = 5000;
/// First and longest pause before the sign of life is looked for again, milliseconds.
const PROBE_MS: (Millis, Millis) = (1, 16);

/// What the master shares, and how.
pub(crate) struct MasterSettings {
    host: String,
    asks: bool,
    persist: ControlPersist,
    /// `SendEnv`: passengers' variables that are passed on.
    send_env: Vec<String>,
    /// `SetEnv`: variables of every session.
    set_env: Vec<Variable>,
    agent: Option<PathBuf>,
    x11: Option<X11Plan>,
    /// `ObscureKeystrokeTiming` of the master holds for all sessions with a terminal, as in OpenSSH.
    obscure_keystrokes_ms: Option<u32>,
    /// The host's key has changed: no passenger gets a forwarding.
    is_distrusted: bool,
    /// Passengers may send messages ahead as the server's version permits: it has not failed at that.
    tells_server: bool,
}

/// Passengers who wait for a sign of life.
struct Probe {
    /// Bytes received when it was asked for.
    received: u64,
    pause_ms: Millis,
    waiting: Vec<(u64, u32)>,
}

/// The owner of a shared connection.
pub(crate) struct Master {
    settings: MasterSettings,
    socket: Option<MasterSocket>,
    next_serial: u64,
    controls: BTreeMap<u64, Control>,
    sessions: BTreeMap<ChannelId, PassengerSession>,
    /// Requests to listen that the server has not answered, with the passenger and the request's
    /// number.
    unanswered: Vec<(u64, u32, u64)>,
    probe: Option<Probe>,
    /// Bytes received, and when they were last found to have grown, by [`sys::time::boot_ms`]: in a machine that slept
    /// the other end may have gone meanwhile.
    heard: (u64, Millis),
    /// The end of the time for which a persisting master waits for passengers.
    idle_until: Option<Millis>,
    is_quitting: bool,
    /// Escapes of passengers whose text the session makes.
    escapes: Vec<(u64, Command)>,
    /// Texts that passengers have asked for, with their requests' numbers.
    texts: Vec<(u64, u32, InfoText)>,
    proxied: ProxiedChannels,
}

impl std::fmt::Debug for Master {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Master")
            .field("passengers", &self.controls.len())
            .field("sessions", &self.sessions.len())
            .finish_non_exhaustive()
    }
}

/// A command that does not fit the state of its channel.
fn misuse(error: proto::Error) -> ClientError {
    ClientError::Refused(DriverError::Proto(error).to_string())
}

impl Master {
    /// Listens at `ControlPath`, if this process is to be a master; `None` if it is not, or if the
    /// path is taken, which is logged.
    pub(crate) fn listen(
        options: &ClientOptions,
        plan: &Plan,
        tells_server: bool,
    ) -> Result<Option<Self>, ClientError> {
        let connection = &options.connection;
        let Some(path) = connection.control_path.as_deref() else {
            return Ok(None);
        };
        if !connection.control_master.listens() {
            return Ok(None);
        }
        debug1!("setting up multiplex master socket");
        let socket = MasterSocket::listen(path)?;
        Ok(socket.map(|socket| Self {
            settings: MasterSettings {
                host: options.hostname.clone(),
                asks: connection.control_master.asks(),
                persist: connection.control_persist,
                send_env: options.session.send_env.clone(),
                set_env: options.session.set_env.clone(),
                agent: plan.agent.clone(),
                x11: plan.x11.clone(),
                obscure_keystrokes_ms: options.session.obscure_keystrokes_ms,
                is_distrusted: plan.is_distrusted,
                tells_server,
            },
            socket: Some(socket),
            next_serial: 0,
            controls: BTreeMap::new(),
            sessions: BTreeMap::new(),
            unanswered: Vec::new(),
            probe: None,
            heard: (0, 0),
            idle_until: None,
            is_quitting: false,
            escapes: Vec::new(),
            texts: Vec::new(),
            proxied: ProxiedChannels::default(),
        }))
    }

    /// The socket's path, while it listens.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.socket.as_ref().and_then(MasterSocket::path)
    }

    /// Accepts passengers from now on.
    pub(crate) fn start(&mut self, driver: &mut Driver) -> Result<(), ClientError> {
        // Each session has several descriptors.
        let _ = sys::process::raise_open_files();
        self.heard = (driver.wire_bytes().0, sys::time::boot_ms());
        self.watch_listener(true, driver)
    }

    fn watch_listener(&self, wanted: bool, driver: &mut Driver) -> Result<(), ClientError> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        match wanted {
            true => driver
                .watch(socket.as_fd(), TOKEN_LISTENER, true, false)
                .map_err(ClientError::system("listen")),
            false => {
                driver.unwatch(socket.as_fd());
                Ok(())
            }
        }
    }

    /// True while a passenger is connected or its session is open.
    pub(crate) fn has_passengers(&self) -> bool {
        !self.controls.is_empty() || !self.sessions.is_empty()
    }

    /// True if a passenger has asked for the end.
    pub(crate) fn is_quitting(&self) -> bool {
        self.is_quitting
    }

    /// True while further passengers may come.
    pub(crate) fn listens(&self) -> bool {
        self.socket.is_some()
    }

    /// True if a passenger's session on this channel has a terminal.
    pub(crate) fn has_terminal(&self, channel: ChannelId) -> bool {
        let session = self.sessions.get(&channel);
        session.is_some_and(PassengerSession::has_terminal)
    }

    /// Ends the master when nothing holds it: accepts no more passengers, and returns false if one
    /// was faster.
    pub(crate) fn may_end(&mut self, driver: &mut Driver) -> bool {
        if let Some(socket) = &self.socket {
            socket.remove_name();
            self.accept(driver);
            self.stop_listening(driver);
        }
        !self.has_passengers()
    }

    fn stop_listening(&mut self, driver: &mut Driver) {
        if let Some(socket) = self.socket.take() {
            driver.unwatch(socket.as_fd());
        }
    }

    /// Ends all passengers, and the socket's name.
    pub(crate) fn close(&mut self, driver: &mut Driver) {
        self.stop_listening(driver);
        self.texts.clear();
        let channels: Vec<ChannelId> = self.sessions.keys().copied().collect();
        for channel in channels {
            self.drop_session(channel, driver);
        }
        for control in std::mem::take(&mut self.controls).into_values() {
            driver.unwatch(control.as_fd());
        }
    }

    /// Leaves the socket to the other half of this process.
    pub(crate) fn abandon(&mut self) {
        if let Some(socket) = self.socket.take() {
            socket.abandon();
        }
    }

    /// Handles a notice of a passenger; returns any other one.
    pub(crate) fn handle(
        &mut self,
        notice: Notice,
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) -> Result<Option<Notice>, ClientError> {
        let token = match &notice {
            Notice::Ready { token, .. } | Notice::Timer { token } => *token,
            Notice::Event(Event::ChannelProxied { .. }) => {
                self.proxied_notice(notice, driver);
                return Ok(None);
            }
            Notice::Event(_) | Notice::SourceEnded { .. } | Notice::SinkEnded { .. } => {
                return self.session_notice(notice, forwards, driver);
            }
            _ => return Ok(Some(notice)),
        };
        let serial = token & SERIALS;
        match token - serial {
            TOKEN_LISTENER => self.accept(driver),
            TOKEN_CONTROL => self.control_ready(serial, forwards, driver)?,
            TOKEN_TYPED => self.read_typed(serial, driver)?,
            TOKEN_RETRY => self.send_typed(serial, driver)?,
            TOKEN_PERSIST => {
                debug1!("ControlPersist timeout expired");
                self.is_quitting = self.may_end(driver);
            }
            TOKEN_PROBE => self.look_for_life(driver),
            TOKEN_RESUME => self.watch_listener(true, driver)?,
            TOKEN_KEYSTROKES => self.offer_typed(serial, driver)?,
            TOKEN_PROXY => self.control_ready(serial, forwards, driver)?,
            _ => return Ok(Some(notice)),
        }
        Ok(None)
    }

    /// After each notice: answers that have become due, and the time of a persisting master.
    /// `is_busy`: forwarded connections are open.
    pub(crate) fn turn(
        &mut self,
        is_busy: bool,
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) {
        self.answer_remotes(forwards, driver);
        self.serve_proxies(forwards, driver);
        let received = driver.wire_bytes().0;
        if received != self.heard.0 {
            self.heard = (received, sys::time::boot_ms());
            self.look_for_life(driver);
        }
        let ControlPersist::Seconds(seconds) = self.settings.persist else {
            return;
        };
        let is_idle = self.socket.is_some() && !is_busy && !self.has_passengers();
        if is_idle == self.idle_until.is_some() {
            return;
        }
        let until = driver.now().saturating_add(Millis::from(seconds) * 1000);
        self.idle_until = is_idle.then_some(until);
        driver.set_timer(TOKEN_PERSIST, self.idle_until);
    }

    // ---- passengers -------------------------------------------------------------------------

    fn accept(&mut self, driver: &mut Driver) {
        for _ in 0..MAX_ACCEPTS {
            let Some(socket) = &self.socket else { return };
            match sys::socket::accept_stream(socket.as_fd()) {
                Ok((accepted, _)) => self.admit(accepted, driver),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    error!("accept: {}", plain_reason(&error));
                    let _ = self.watch_listener(false, driver);
                    driver.set_timer(TOKEN_RESUME, Some(driver.now() + PAUSE_MS));
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: std::os::fd::OwnedFd, driver: &mut Driver) {
        let uid = effective_uid();
        match sys::socket::peer_credentials(&socket) {
            Ok(peer) if peer.uid == 0 || peer.uid == uid => {}
            Ok(peer) => {
                error!(
                    "multiplex uid mismatch: peer euid {} != uid {uid}",
                    peer.uid
                );
                return;
            }
            Err(error) => {
                error!("SO_PEERCRED: {}", plain_reason(&error));
                return;
            }
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        let mut control = Control::new(socket);
        let server_version = driver.connection().peer_version();
        let server_version = server_version.filter(|_| self.settings.tells_server);
        control.answer(&MasterReply::Hello {
            version: VERSION,
            master: MasterFacts {
                has_info: true,
                server_version: server_version.map(str::to_owned),
            },
        });
        if driver
            .watch(control.as_fd(), TOKEN_CONTROL + serial, true, false)
            .is_ok()
        {
            self.controls.insert(serial, control);
            self.flush(serial, driver);
        }
    }

    fn control_ready(
        &mut self,
        serial: u64,
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        self.flush(serial, driver);
        for _ in 0..MAX_REQUESTS {
            let Some(control) = self.controls.get_mut(&serial) else {
                return Ok(());
            };
            if control.is_proxy() && !control.is_ending {
                return self.proxy_ready(serial, forwards, driver);
            }
            if control.is_paused || control.is_ending {
                match control.look() {
                    PeekResult::Nothing => {}
                    // Until the answer has been sent.
                    PeekResult::Bytes if control.is_blocked() => {
                        let token = TOKEN_CONTROL + serial;
                        let _ = driver.watch(control.as_fd(), token, false, true);
                    }
                    PeekResult::Bytes => driver.unwatch(control.as_fd()),
                    PeekResult::End => self.leave(serial, driver),
                }
                return Ok(());
            }
            match control.receive() {
                Arrival::Nothing => return Ok(()),
                Arrival::End => {
                    self.leave(serial, driver);
                    return Ok(());
                }
                Arrival::Broken(how) => {
                    error!("passenger {serial}: {}", one_line(&how));
                    self.leave(serial, driver);
                    return Ok(());
                }
                Arrival::NoDescriptors(id) => {
                    error!("passenger {serial}: failed to receive descriptors");
                    self.fail(serial, id, "did not receive file descriptors", driver);
                    self.leave(serial, driver);
                    return Ok(());
                }
                Arrival::Request(PassengerRequest::Hello(version), _) => {
                    if control.is_greeted || version != VERSION {
                        error!("passenger {serial}: HELLO with version {version}");
                        self.leave(serial, driver);
                        return Ok(());
                    }
                    control.is_greeted = true;
                }
                Arrival::Request(PassengerRequest::Wish(..), _) if !control.is_greeted => {
                    error!("passenger {serial}: expected HELLO");
                    self.leave(serial, driver);
                    return Ok(());
                }
                Arrival::Request(PassengerRequest::Wish(id, wish), fds) => {
                    self.wish((serial, id), wish, fds, forwards, driver)?;
                }
            }
        }
        // The socket is readable still if more has arrived.
        Ok(())
    }

    fn wish(
        &mut self,
        (serial, id): (u64, u32),
        wish: Wish,
        fds: Vec<std::os::fd::OwnedFd>,
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        debug2!("passenger {serial}: request {id}: {wish:?}");
        if self.settings.is_distrusted && wish.forwards() {
            error!("Port forwarding is disabled to avoid man-in-the-middle attacks.");
            self.fail(
                serial,
                id,
                "the host key has changed: nothing is forwarded",
                driver,
            );
            return Ok(());
        }
        match wish {
            Wish::Alive => self.alive(serial, id, driver),
            Wish::Session(wish) => {
                self.new_session((serial, id), wish, fds, forwards, driver)?;
            }
            Wish::StdioForward { host, port } => {
                self.new_stdio_forward((serial, id), host, port, fds, driver)?;
            }
            Wish::OpenForward(forward) => {
                self.open_forward((serial, id), &forward, forwards, driver)?;
            }
            Wish::CloseForward(forward) => {
                self.close_forward((serial, id), &forward, forwards, driver)?;
            }
            Wish::Terminate => {
                let question = format!("Terminate shared connection to {}? ", self.host());
                if self.is_permitted(serial, id, &question, driver) {
                    self.is_quitting = true;
                    self.answer(serial, &MasterReply::Ok(id), driver);
                }
            }
            Wish::StopListening => {
                let host = self.host();
                let question =
                    format!("Disable further multiplexing on shared connection to {host}? ");
                if self.is_permitted(serial, id, &question, driver) {
                    debug1!("passenger {serial}: stop listening");
                    self.stop_listening(driver);
                    self.answer(serial, &MasterReply::Ok(id), driver);
                }
            }
            Wish::Proxy => {
                let question = "Allow multiplex proxy connection?";
                if self.is_permitted(serial, id, question, driver) {
                    debug1!("passenger {serial}: proxy mode");
                    self.answer(serial, &MasterReply::Proxy(id), driver);
                    if let Some(control) = self.controls.get_mut(&serial) {
                        control.begin_proxy();
                    }
                }
            }
            Wish::Info(name) => match InfoText::named(&name) {
                Some(text) => self.texts.push((serial, id, text)),
                None => {
                    let text = "info request type not supported".to_owned();
                    self.answer(serial, &MasterReply::Info(id, false, text), driver);
                }
            },
            Wish::Unknown(number) => {
                error!("unsupported mux message 0x{number:08x}");
                self.fail(serial, id, "unsupported request", driver);
            }
        }
        Ok(())
    }

    /// The host's name for questions.
    fn host(&self) -> String {
        one_line(&self.settings.host)
    }

    /// Asks the user if the master is to ask; a refusal is answered.
    fn is_permitted(&mut self, serial: u64, id: u32, question: &str, driver: &mut Driver) -> bool {
        let is_permitted = !self.settings.asks || crate::prompt::permits(question);
        if !is_permitted {
            debug2!("passenger {serial}: refused by the user");
            let denied = MasterReply::Denied(id, "Permission denied".into());
            self.answer(serial, &denied, driver);
        }
        is_permitted
    }

    /// Answers that the master is alive, when the connection is known to be.
    fn alive(&mut self, serial: u64, id: u32, driver: &mut Driver) {
        let now = driver.now();
        let received = driver.wire_bytes().0;
        let silent_ms = sys::time::boot_ms().saturating_sub(self.heard.1);
        let is_fresh = received != self.heard.0 || silent_ms < SILENCE_MS;
        if is_fresh && self.probe.is_none() {
            let alive = MasterReply::Alive(id, std::process::id());
            self.answer(serial, &alive, driver);
            return;
        }
        // One question of each passenger waits.
        if let Some(control) = self.controls.get_mut(&serial) {
            control.is_paused = true;
        }
        if let Some(probe) = &mut self.probe {
            probe.waiting.push((serial, id));
            return;
        }
        let _ = driver.connection().send_keepalive();
        self.probe = Some(Probe {
            received,
            pause_ms: PROBE_MS.0,
            waiting: vec![(serial, id)],
        });
        driver.set_timer(TOKEN_PROBE, Some(now + PROBE_MS.0));
    }

    fn look_for_life(&mut self, driver: &mut Driver) {
        let Some(probe) = &mut self.probe else { return };
        // Those who have not waited any longer.
        let controls = &self.controls;
        probe
            .waiting
            .retain(|(serial, _)| controls.contains_key(serial));
        if probe.waiting.is_empty() {
            self.probe = None;
            driver.set_timer(TOKEN_PROBE, None);
            return;
        }
        let received = driver.wire_bytes().0;
        let now = driver.now();
        if received == probe.received {
            probe.pause_ms = (probe.pause_ms * 2).min(PROBE_MS.1);
            driver.set_timer(TOKEN_PROBE, Some(now + probe.pause_ms));
            return;
        }
        self.heard = (received, sys::time::boot_ms());
        driver.set_timer(TOKEN_PROBE, None);
        let waiting = self.probe.take().map(|probe| probe.waiting);
        for (serial, id) in waiting.unwrap_or_default() {
            let alive = MasterReply::Alive(id, std::process::id());
            self.answer(serial, &alive, driver);
            self.resume(serial, driver);
        }
    }

    // ---- answers ----------------------------------------------------------------------------

    fn answer(&mut self, serial: u64, reply: &MasterReply, driver: &mut Driver) {
        if let Some(control) = self.controls.get_mut(&serial) {
            control.answer(reply);
            self.flush(serial, driver);
        }
    }

    fn fail(&mut self, serial: u64, id: u32, reason: &str, driver: &mut Driver) {
        self.answer(serial, &MasterReply::Failed(id, reason.to_owned()), driver);
    }

    /// The answer to the request that the passenger waits for has been sent.
    fn resume(&mut self, serial: u64, driver: &mut Driver) {
        if let Some(control) = self.controls.get_mut(&serial) {
            control.is_paused = false;
            // Reads on if more has arrived meanwhile.
            let is_blocked = control.is_blocked();
            let _ = driver.watch(control.as_fd(), TOKEN_CONTROL + serial, true, is_blocked);
        }
    }

    /// Writes what waits, and watches the socket accordingly.
    fn flush(&mut self, serial: u64, driver: &mut Driver) {
        let Some(control) = self.controls.get_mut(&serial) else {
            return;
        };
        let was_blocked = control.is_blocked();
        if !control.flush() {
            return self.leave(serial, driver);
        }
        let is_blocked = control.is_blocked();
        if control.is_ending && !is_blocked {
            return self.leave(serial, driver);
        }
        if was_blocked || is_blocked {
            let token = TOKEN_CONTROL + serial;
            let _ = driver.watch(control.as_fd(), token, true, is_blocked);
        }
    }

    /// Closes the passenger's socket when its answers are written.
    fn end_control(&mut self, serial: u64, driver: &mut Driver) {
        if let Some(control) = self.controls.get_mut(&serial) {
            control.is_ending = true;
            self.flush(serial, driver);
        }
    }

    /// The passenger is gone, and its session with it.
    fn leave(&mut self, serial: u64, driver: &mut Driver) {
        if let Some(control) = self.controls.remove(&serial) {
            driver.unwatch(control.as_fd());
        }
        let its = |session: &PassengerSession| session.passenger() == Some(serial);
        let mut sessions = self.sessions.iter();
        if let Some(channel) = sessions.find_map(|(id, session)| its(session).then_some(*id)) {
            self.drop_session(channel, driver);
        }
        self.proxied.leave(serial, driver);
    }
}
