//! The server's part on a connection's thread: the login, then the channels for the handler.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use driver::Notice;
use proto::channel::Request;
use proto::{ChannelId, Event};
use wire::message::{open_failure, reason};
use wire::names;

use super::auth::{Login, LoginState, Step};
use super::channel::Channel;
use super::forwarding::{Forwarding, is_direct};
use super::handler::Start;
use super::shared::{LoginSlot, Shared};
use super::signing;
use crate::link::{ChannelCore, Core, Handle, Happening, Opened, Role};
use crate::{Error, Exit, Pty};

/// Timer of the login's time limit.
const TOKEN_GRACE: u64 = 1;
/// Most environment variables of one channel; more are refused.
const MAX_ENV: usize = 64;
/// Longest name and value of an environment variable together, bytes.
const MAX_ENV_BYTES: usize = 4096;
/// Most requests for proofs of host keys on one connection, since each costs signatures.
const MAX_PROOFS: u32 = 4;

/// An accepted channel before the request that starts it.
struct Waiting {
    opened: Opened,
    pty: Option<Pty>,
    env: Vec<(String, String)>,
}

pub(super) struct ServerRole {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    state: LoginState,
    login: Option<Arc<Login>>,
    /// Released when the login is complete.
    slot: Option<LoginSlot>,
    waiting: BTreeMap<ChannelId, Waiting>,
    greeted: bool,
    forwarding: Forwarding,
    no_more_sessions: bool,
    proofs: u32,
}

impl ServerRole {
    pub(super) fn new(
        shared: Arc<Shared>,
        handle: Handle,
        peer: Option<SocketAddr>,
        slot: Option<LoginSlot>,
    ) -> Self {
        Self {
            shared,
            handle: Arc::new(handle),
            state: LoginState::new(peer),
            login: None,
            slot,
            waiting: BTreeMap::new(),
            greeted: false,
            forwarding: Forwarding::new(),
            no_more_sessions: false,
            proofs: 0,
        }
    }

    fn logged_in(&mut self, core: &mut Core, login: Arc<Login>) -> Result<(), Error> {
        core.driver.set_timer(TOKEN_GRACE, None);
        self.slot = None;
        self.login = Some(login);
        let keys: Vec<Vec<u8>> = self
            .shared
            .config
            .host_keys
            .iter()
            .map(|key| key.public().blob())
            .collect();
        Ok(core.driver.connection().announce_host_keys(&keys)?)
    }

    fn open(
        &mut self,
        core: &mut Core,
        channel: ChannelId,
        kind: String,
        fields: Vec<u8>,
    ) -> Result<(), Error> {
        let is_session = kind == names::CHANNEL_SESSION;
        let shared = Arc::clone(&self.shared);
        if let Some(login) = self.login.as_ref().filter(|_| is_direct(&kind)) {
            let handler = &*shared.handler;
            if !handler.accepts_channel(login, &kind, &fields) {
                let asked = (kind.as_str(), fields.as_slice());
                let driver = &mut core.driver;
                return self
                    .forwarding
                    .open(channel, asked, (handler, login), driver);
            }
        }
        let refusal = match &self.login {
            None => Some((open_failure::ADMINISTRATIVELY_PROHIBITED, "not permitted")),
            Some(_) if is_session && self.no_more_sessions => {
                Some((open_failure::ADMINISTRATIVELY_PROHIBITED, "not permitted"))
            }
            Some(login) if !is_session => {
                let accepted = self.shared.handler.accepts_channel(login, &kind, &fields);
                let words = "this server does not serve channels of this type";
                (!accepted).then_some((open_failure::UNKNOWN_CHANNEL_TYPE, words))
            }
            Some(_) => None,
        };
        if let Some((reason, words)) = refusal {
            return Ok(core
                .driver
                .connection()
                .reject_channel(channel, reason, words)?);
        }
        let waiting = Waiting {
            opened: core.accept(channel)?,
            pty: None,
            env: Vec::new(),
        };
        if is_session {
            self.waiting.insert(channel, waiting);
        } else {
            self.hand_over(waiting, Start::Channel { kind, fields });
        }
        Ok(())
    }

    /// Grants or refuses a request; true when it was granted.
    fn request(&mut self, core: &mut Core, channel: ChannelId, request: Request) -> bool {
        match request {
            Request::Pty {
                term,
                columns,
                rows,
                modes,
                ..
            } => self.pty(channel, &term, columns, rows, modes),
            Request::Env { name, value } => self.env(channel, name, value),
            Request::WindowChange { columns, rows, .. } => {
                happen(core, channel, Happening::WindowChange { columns, rows })
            }
            Request::Signal { name } => happen(core, channel, Happening::Signal(name)),
            Request::Break { ms } => happen(core, channel, Happening::Break(ms)),
            Request::Eow => true,
            _ => false,
        }
    }

    fn pty(
        &mut self,
        channel: ChannelId,
        term: &[u8],
        columns: u32,
        rows: u32,
        modes: Vec<u8>,
    ) -> bool {
        let (Some(login), Some(waiting)) = (&self.login, self.waiting.get_mut(&channel)) else {
            return false;
        };
        let pty = Pty {
            term: String::from_utf8_lossy(term).into_owned(),
            columns,
            rows,
            modes,
        };
        let granted = waiting.pty.is_none() && self.shared.handler.accepts_pty(login, &pty);
        if granted {
            waiting.pty = Some(pty);
        }
        granted
    }

    fn env(&mut self, channel: ChannelId, name: Vec<u8>, value: Vec<u8>) -> bool {
        let Some(waiting) = self.waiting.get_mut(&channel) else {
            return false;
        };
        if waiting.env.len() >= MAX_ENV || name.len() + value.len() > MAX_ENV_BYTES {
            return false;
        }
        match (String::from_utf8(name), String::from_utf8(value)) {
            (Ok(name), Ok(value)) => {
                waiting.env.push((name, value));
                true
            }
            _ => false,
        }
    }

    /// Passes a channel to the handler, after answering the client's request.
    fn start(
        &mut self,
        core: &mut Core,
        channel: ChannelId,
        start: Start,
        want_reply: bool,
    ) -> Result<(), Error> {
        let accepted = match &self.login {
            Some(login) => {
                self.waiting.contains_key(&channel) && self.shared.handler.accepts(login, &start)
            }
            None => false,
        };
        if want_reply {
            core.driver.connection().channel_reply(channel, accepted)?;
        }
        if let Some(waiting) = accepted.then(|| self.waiting.remove(&channel)).flatten() {
            self.hand_over(waiting, start);
        }
        Ok(())
    }

    /// Serves an accepted channel on a thread of its own.
    fn hand_over(&self, waiting: Waiting, start: Start) {
        let Some(login) = self.login.clone() else {
            return;
        };
        let channel = Channel::new(
            ChannelCore::new(waiting.opened, Arc::clone(&self.handle)),
            waiting.pty,
            waiting.env,
        );
        let shared = Arc::clone(&self.shared);
        // If the thread cannot be started, the channel is dropped, which closes it without a
        // status.
        let _ = std::thread::Builder::new()
            .name("fulmar-channel".into())
            .spawn(move || serve(&shared, &login, &start, channel));
    }
}

fn serve(shared: &Shared, login: &Login, start: &Start, mut channel: Channel) {
    let exit: Exit = shared.handler.serve(login, start, &mut channel);
    channel.set_exit(exit);
}

fn happen(core: &Core, channel: ChannelId, happening: Happening) -> bool {
    match core.state(channel) {
        Some(state) => {
            state.happen(happening);
            true
        }
        None => false,
    }
}

impl Role for ServerRole {
    fn begin(&mut self, core: &mut Core) {
        let grace = self.shared.config.login_grace.as_millis();
        let grace = u64::try_from(grace).unwrap_or(u64::MAX);
        let at = core.driver.now().saturating_add(grace);
        core.driver.set_timer(TOKEN_GRACE, Some(at));
    }

    fn event(&mut self, core: &mut Core, event: Event) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let connection = core.driver.connection();
        match event {
            Event::SignExchangeHash {
                algorithm,
                key,
                hash,
                ..
            } => signing::exchange(connection, &shared.config, algorithm, &key, hash.as_ref()),
            Event::ChooseGroup {
                min,
                preferred,
                max,
            } => signing::choose_group(connection, min, preferred, max),
            Event::AuthRequest(request) => {
                if let Some(banner) = shared.config.banner.as_deref().filter(|_| !self.greeted) {
                    connection.auth_banner(banner)?;
                    self.greeted = true;
                }
                let authenticator = &*shared.authenticator;
                let step = self
                    .state
                    .handle(connection, &shared.config, authenticator, request)?;
                match step {
                    Step::Continue => Ok(()),
                    Step::LoggedIn(login) => self.logged_in(core, login),
                    Step::CutOff => Err(proto::Error::PeerMisbehaved("failed to log in").into()),
                }
            }
            Event::ChannelOpenRequest {
                channel,
                kind,
                fields,
            } => self.open(core, channel, kind, fields),
            Event::ChannelRequest {
                channel,
                request,
                want_reply,
            } => {
                let start = match request {
                    Request::Exec { command } => Start::Exec(command),
                    Request::Shell => Start::Shell,
                    Request::Subsystem { name } => {
                        Start::Subsystem(String::from_utf8_lossy(&name).into_owned())
                    }
                    request => {
                        let granted = self.request(core, channel, request);
                        if want_reply {
                            core.driver.connection().channel_reply(channel, granted)?;
                        }
                        return Ok(());
                    }
                };
                self.start(core, channel, start, want_reply)
            }
            Event::HostKeysProve { keys } => {
                self.proofs = self.proofs.saturating_add(1);
                if self.proofs > MAX_PROOFS {
                    return Ok(connection.provide_host_key_proofs(None)?);
                }
                signing::prove(connection, &shared.config, &keys)
            }
            Event::GlobalRequest {
                name,
                fields,
                want_reply,
            } => {
                let asker = self
                    .login
                    .as_ref()
                    .map(|login| (&*shared.handler, &**login));
                let answer = asker.and_then(|asker| {
                    let driver = &mut core.driver;
                    self.forwarding.request((name, &fields), asker, driver)
                });
                if want_reply {
                    core.driver.connection().global_reply(answer.as_deref())?;
                }
                Ok(())
            }
            Event::NoMoreSessions => {
                self.no_more_sessions = true;
                Ok(())
            }
            Event::ChannelClosed(channel) => {
                self.waiting.remove(&channel);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn notice(&mut self, core: &mut Core, notice: Notice) -> Option<Notice> {
        self.forwarding.handle(notice, &mut core.driver)
    }

    fn end(&mut self, core: &mut Core) {
        self.forwarding.close(&mut core.driver);
    }

    fn timer(&mut self, core: &mut Core, token: u64) -> Result<(), Error> {
        if token == TOKEN_GRACE && self.login.is_none() {
            core.disconnect(reason::BY_APPLICATION, "login took too long");
            return Err(Error::TimedOut("the client's login"));
        }
        Ok(())
    }
}
