//! One connection of the program `ssh`, from its first byte to its last: connect, exchange keys, log
//! in, serve the session, close.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use accelerator::Accelerator;
use config::client::{ClientOptions, ControlPersist, YesNoAsk};
use config::tokens::Purpose;
use driver::DriverError;
use proto::Connection;
use proto::channel::ChannelTimeouts;

use crate::auth::identity::Keys;
use crate::auth::{Early, LoggedIn};
use crate::children;
use crate::connect::proxy::ProxyErrors;
use crate::distrust;
use crate::error::{ClientError, Peer};
use crate::flags::Flags;
use crate::forward::SessionForwards;
use crate::host_key::HostKeyChecker;
use crate::interaction::Interaction;
use crate::kerberos;
use crate::log::{debug1, error};
use crate::login::{self, LoginOpening, LoginRecords, Secured};
use crate::pipelining::{
    Caution, ChannelStart, EarlyChannel, Failure, PipelineDepth, ProfileCache, RetryPolicy,
};
use crate::plan::{Plan, What};
use crate::session::{AnyLocalEnd, ClientSession, LocalEnd, StdioFlags, Streams};
use crate::sharing::master::Master;
use crate::sharing::passenger::KeptPlace;
use crate::sharing::persist::{self, Leave};
use crate::text::one_line;
use crate::{connect, local, report};

/// The descriptor to read from and, if it differs, the one to write to.
type Link = (OwnedFd, Option<OwnedFd>);

/// One attempt to connect and to carry out the plan.
#[derive(Clone, Copy)]
pub(crate) struct OneConnection<'a> {
    pub(crate) flags: &'a Flags,
    pub(crate) options: &'a ClientOptions,
    pub(crate) plan: &'a Plan,
    pub(crate) accelerator: Option<&'a Arc<Accelerator>>,
    pub(crate) caution: Caution,
    /// True if the process has this connection alone.
    pub(crate) is_alone: bool,
    /// Time limit of each answer of the login, milliseconds; `None` for no limit.
    pub(crate) step_timeout_ms: Option<u64>,
    /// False to store no profile of the server, except that it needs care.
    pub(crate) stores_profile: bool,
    /// A master that has the forwardings of this process.
    pub(crate) kept: Option<&'a KeptPlace>,
}

/// What the attempt knows about the server before it connects.
struct Known {
    checker: HostKeyChecker,
    records: LoginRecords,
}

/// What a session is made of.
struct SessionParts {
    plan: Plan,
    streams: Streams,
    stdio: Option<StdioFlags>,
    forwards: Option<SessionForwards>,
    /// To be done when the server has answered the requests of `forwards`.
    leave: Option<Leave>,
    /// The program leaves its caller, now or later.
    leaves: bool,
    master: Option<Master>,
    early: Option<EarlyChannel>,
    at_once: bool,
}

impl OneConnection<'_> {
    /// Runs connections, each more careful than the one before, until one serves the session or fails in a
    /// way that a further attempt cannot mend; returns the program's exit code.
    pub(crate) fn run_with_retries(
        mut self,
        mut local: Option<&mut AnyLocalEnd>,
        interaction: &mut dyn Interaction,
    ) -> Result<i32, ClientError> {
        let mut before = None;
        loop {
            let Failure { error, retry } = match self.run(local.as_deref_mut(), interaction) {
                Ok(code) => return Ok(code),
                Err(failure) => failure,
            };
            // The server cannot be reached any more: the earlier attempt's error explains why.
            let is_unreachable = matches!(
                error,
                ClientError::Connect { .. } | ClientError::Resolve { .. }
            );
            let RetryPolicy::Safe(more) = retry else {
                return Err(before.filter(|_| is_unreachable).unwrap_or(error));
            };
            debug1!("{}", one_line(&error.to_string().replace('\n', "; ")));
            debug1!("Pipelined messages may be the cause: trying again more carefully");
            self.caution = more;
            before = Some(error);
        }
    }

    /// Connects, logs in and serves the session; returns the exit code.
    #[inline(never)]
    fn run(
        &self,
        mut local: Option<&mut AnyLocalEnd>,
        prompter: &mut dyn Interaction,
    ) -> Result<i32, Failure> {
        let (dialed, mut known) = self.dial(local.as_deref_mut())?;
        let (link, peer, mut proxy) = login::split(dialed);
        let outcome = self.serve(link, peer, &mut known, local, prompter);
        if let Some(child) = &mut proxy {
            connect::proxy::stop(child);
        }
        outcome
    }

    /// Connects. This and the other steps up to the login are not inlined, so that a session that
    /// waits has none of their stack.
    #[inline(never)]
    fn dial(
        &self,
        local: Option<&mut AnyLocalEnd>,
    ) -> Result<(connect::Link, Box<Known>), Failure> {
        let options = self.options;
        // Reading the records overlaps with connecting.
        let errors = match self.persists() {
            true => ProxyErrors::Dropped,
            false => ProxyErrors::Shown,
        };
        let dialing = connect::begin(options, self.flags.config_file.as_deref(), errors)?;
        let mut cache = ProfileCache::open(options);
        if !self.stores_profile {
            cache = cache.map(ProfileCache::learning_care_only);
        }
        let known = Box::new(Known {
            checker: HostKeyChecker::new(options),
            records: LoginRecords::new(options, self.caution, cache),
        });
        if known.records.strategy.expects_fulmar()
            && let Some(local) = local
        {
            local.expects_fulmar();
        }
        Ok((dialing.finish()?, known))
    }

    #[inline(never)]
    fn serve(
        &self,
        link: Link,
        peer: Peer,
        known: &mut Known,
        mut local: Option<&mut AnyLocalEnd>,
        prompter: &mut dyn Interaction,
    ) -> Result<i32, Failure> {
        let local_end = local.as_deref_mut();
        let (secured, keys) = self.secure(link, peer, known, local_end, prompter)?;
        if !secured.without_secrets {
            return self.serve_user(secured, keys, known, local, prompter);
        }
        let (options, plan) = distrust::restrict(self.options, self.plan)?;
        let restricted = OneConnection {
            options: &options,
            plan: &plan,
            ..*self
        };
        restricted.serve_user(secured, keys, known, local, prompter)
    }

    /// Logs in and serves the session.
    #[inline(never)]
    fn serve_user(
        &self,
        mut secured: Box<Secured>,
        keys: Keys,
        known: &mut Known,
        mut local: Option<&mut AnyLocalEnd>,
        prompter: &mut dyn Interaction,
    ) -> Result<i32, Failure> {
        let local_end = local.as_deref_mut();
        let logged_in = self.log_in(&mut secured, keys, &mut known.records, local_end, prompter)?;
        connect::set_quality(
            secured.driver.socket(),
            self.options.connection.ip_qos,
            self.begins_interactive(),
        );
        self.hold_session(secured, logged_in, known, local, prompter)
    }

    /// True if this process is to be a master that goes to the background.
    fn persists(&self) -> bool {
        self.plan.is_shared && self.options.connection.control_persist != ControlPersist::No
    }

    /// True if the session begins with the interactive value of `IPQoS`, as with OpenSSH: no channel
    /// without a terminal is to be opened.
    fn begins_interactive(&self) -> bool {
        self.plan.pty.is_some() || self.plan.what == What::Nothing
    }

    /// Exchanges keys and checks the host key.
    #[inline(never)]
    fn secure(
        &self,
        link: Link,
        peer: Peer,
        known: &mut Known,
        mut local: Option<&mut AnyLocalEnd>,
        prompter: &mut dyn Interaction,
    ) -> Result<(Box<Secured>, Keys), Failure> {
        let Known { checker, records } = known;
        let strategy = &mut records.strategy;
        let mut opening = LoginOpening::from_options(self.options, &peer, checker)?;
        opening.alone_in_process = self.is_alone;
        opening.trims_stack = !self.is_alone;
        opening.transport.saves_memory = !self.is_alone;
        let greeted = opening.send(link, peer, strategy.guess())?;
        // Finding keys overlaps with the server's answer.
        let keys = Keys::find(self.options);
        let may_send_data = !strategy.is_step_by_step();
        let mut on_version = |version: &str| {
            if may_send_data
                && proto::Quirks::of(version).is_fulmar
                && let Some(local) = local.as_deref_mut()
            {
                local.expects_fulmar();
            }
        };
        let secured = greeted.secure(strategy, checker, prompter, &mut on_version)?;
        let told = self.options.algorithms.warn_weak_crypto;
        if told.warns_of_old_algorithms() {
            checker.warn_of_old_authority();
        }
        Ok((Box::new(secured), keys))
    }

    /// Authenticates the user, and sends early what the strategy permits.
    #[inline(never)]
    fn log_in(
        &self,
        secured: &mut Secured,
        keys: Keys,
        records: &mut LoginRecords,
        local: Option<&mut AnyLocalEnd>,
        prompter: &mut dyn Interaction,
    ) -> Result<LoggedIn, Failure> {
        let strategy = &records.strategy;
        let is_early = !strategy.is_step_by_step();
        // A command may rely on the forwardings, and does not run if they fail.
        let waits = local.is_none()
            && (SessionForwards::are_wanted(self.options, self.plan) || self.persists());
        let start = ChannelStart::of(self.plan).filter(|_| !waits);
        let data = local.filter(|_| is_early).map(LocalEnd::early);
        let early = is_early.then_some(Early {
            strategy,
            start: start.as_ref(),
            data: data.as_deref().unwrap_or_default(),
        });
        debug1!(
            "Authenticating to {}:{} as '{}'",
            one_line(&self.options.hostname),
            self.options.port,
            one_line(&self.options.user)
        );
        let outcome = secured
            .authenticator(self.options, prompter, keys)
            .answering_within(self.step_timeout_ms)
            .run(early.as_ref());
        if let Err(failure) = &outcome
            && failure.retry == RetryPolicy::Forbidden
        {
            records.be_careful(secured);
        }
        outcome
    }

    /// The session's forwardings, if it has any or may get some; listeners only if `are_wanted`.
    #[inline(never)]
    fn forwards(
        &self,
        are_wanted: bool,
        connection: &Connection,
    ) -> Result<Option<SessionForwards>, ClientError> {
        let (options, plan) = (self.options, self.plan);
        let none = || SessionForwards::without_listeners(options);
        let mut forwards = match are_wanted || plan.command_line {
            true => Some(SessionForwards::prepare(options, connection)?),
            false => plan.is_shared.then(none),
        };
        if let Some(agent) = plan.agent.clone() {
            forwards = Some(forwards.unwrap_or_else(none).with_agent(agent));
        }
        if let Some(x11) = plan.x11.clone() {
            forwards = Some(forwards.unwrap_or_else(none).with_x11(x11));
        }
        Ok(forwards)
    }

    /// Serves the session. Its preparation and its making have functions of their own, so that one that waits
    /// has little stack.
    #[inline(never)]
    fn hold_session(
        &self,
        mut secured: Box<Secured>,
        logged_in: LoggedIn,
        known: &mut Known,
        local: Option<&mut AnyLocalEnd>,
        prompter: &mut dyn Interaction,
    ) -> Result<i32, Failure> {
        let options = self.options;
        children::go_on()?;
        let is_program = local.is_some();
        let LoggedIn { key, early, .. } = logged_in;
        let mut parts = self.prepare(&mut secured, key, known, is_program)?;
        parts.early = early;
        let (stdio, leaves) = (parts.stdio.take(), parts.leaves);
        // The process ends next and the system frees everything at once, so destructors are
        // skipped. They run where a proxy or a compression helper waits for its descriptor to
        // close.
        let ends_with_process =
            !is_program && secured.peer.address.is_some() && self.accelerator.is_none();
        let mut session = self.session(&mut secured, parts, &mut known.checker, local, prompter);
        // One of thousands may wait for long: without what its login needed.
        if !self.is_alone {
            sys::memory::trim_stack();
        }
        let outcome = session.run();
        let unconfirmed = session.unconfirmed();
        drop(session);
        drop(stdio);
        debug1!("crypto threads: {}", secured.driver.lane_report());
        report::tell_compression(&mut secured.driver);
        match outcome {
            Err(error @ (ClientError::Lost { .. } | ClientError::Ended { .. })) => {
                // The local command and the change to the background happen at most once.
                let repeatable = options.session.local_command.is_none() && !leaves;
                let retry = retry_policy(&error, unconfirmed, repeatable);
                if retry == RetryPolicy::Forbidden {
                    known.records.be_careful(&mut secured);
                }
                Err(Failure { error, retry })
            }
            outcome => {
                login::disconnect(&mut secured.driver);
                if ends_with_process {
                    core::mem::forget(secured);
                }
                outcome.map_err(Failure::from)
            }
        }
    }

    /// What precedes the session: forwardings, the master, the local command, the change to the background,
    /// and the record of the login with `key`. `is_program`: a program is the session's local end.
    #[inline(never)]
    fn prepare(
        &self,
        secured: &mut Secured,
        key: Option<String>,
        Known { checker, records }: &mut Known,
        is_program: bool,
    ) -> Result<Box<SessionParts>, Failure> {
        let options = self.options;
        // A program that is the session's local end leaves no terminal.
        let leaves = options.session.fork_after_authentication
            && !is_program
            && !matches!(self.plan.what, What::Forward(_));
        let are_wanted = !is_program && SessionForwards::are_wanted(options, self.plan);
        let forwards = self.forwards(are_wanted, secured.driver.connection())?;
        let mut master = match self.plan.is_shared {
            true => Master::listen(options, self.plan, !records.strategy.is_step_by_step())?,
            false => None,
        };
        let interface = forwards
            .as_ref()
            .and_then(SessionForwards::tunnel_interface);
        local_command(options, interface)?;
        let mut leave = match (&master, self.persists()) {
            (Some(_), true) if self.plan.what != What::Nothing => Some(Leave::Master {
                options: Box::new(options.clone()),
                plan: Box::new(self.plan.clone()),
                kept: self.kept.cloned(),
            }),
            (Some(_), true) => Some(Leave::Background),
            _ => leaves.then_some(Leave::Background),
        };
        let plan = match &leave {
            Some(Leave::Master { .. }) => persist::plan_of_master(self.plan),
            _ => self.plan.clone(),
        };
        let leaves = leave.is_some();
        let (stdio, streams) = match is_program {
            true => (None, Streams::default()),
            false => {
                let streams = Streams::standard(&plan).map_err(ClientError::system("dup"))?;
                (Some(StdioFlags::remember(&streams)), streams)
            }
        };
        let is_early = |forwards: &SessionForwards| !forwards.defers_background();
        if forwards.as_ref().is_none_or(is_early)
            && let Some(leave) = leave.take()
        {
            leave.go(master.as_mut(), &mut secured.driver)?;
        }
        records.logged_in(secured, key);
        checker.forget_files();
        let connection = secured.driver.connection();
        if let (Some(accelerator), Some(compressor)) = (self.accelerator, connection.compressor()) {
            compressor.set_provider(Arc::<Accelerator>::clone(accelerator));
        }
        report::announce_compression(&options.compression, connection);
        set_channel_timeouts(&options.limits.channel_timeouts, connection);
        let version = connection.peer_version().unwrap_or_default().to_owned();
        let at_once = !are_wanted && records.strategy.starts_at_once(&version);
        Ok(Box::new(SessionParts {
            plan,
            streams,
            stdio,
            forwards,
            leave,
            leaves,
            master,
            early: None,
            at_once,
        }))
    }

    /// The session.
    #[inline(never)]
    fn session<'c>(
        &self,
        secured: &'c mut Secured,
        parts: Box<SessionParts>,
        checker: &'c mut HostKeyChecker,
        local: Option<&'c mut AnyLocalEnd>,
        prompter: &'c mut dyn Interaction,
    ) -> Box<ClientSession<'c>> {
        let options = self.options;
        let peer = secured.peer.clone();
        // After a key exchange by GSS-API no host key is known that could vouch for others.
        let rotation = match secured.driver.connection().is_by_gss() {
            true => YesNoAsk::No,
            false => options.host_keys.update_host_keys,
        };
        let SessionParts {
            plan,
            streams,
            forwards,
            leave,
            master,
            early,
            at_once,
            ..
        } = *parts;
        let mut session = ClientSession::new(&mut secured.driver, plan, streams, peer, prompter)
            .with_local_end(local)
            .with_forwards(forwards, leave)
            .with_master(master)
            .with_quality(options.connection.ip_qos, self.begins_interactive())
            .with_early(early)
            .following_renewals(kerberos::follows_renewals(options))
            .starting_at_once(at_once);
        session.rotate_host_keys(checker, rotation);
        Box::new(session)
    }
}

/// Decides whether a session whose connection ended may be tried again. `unconfirmed`: how much of
/// it was sent without the channel's confirmation.
///
/// No command runs on an unconfirmed channel. That the channel was not confirmed is certain only if
/// the server itself disconnects, because an attacker cannot drop its packets unnoticed.
fn retry_policy(error: &ClientError, unconfirmed: PipelineDepth, repeatable: bool) -> RetryPolicy {
    let disconnected = matches!(
        error,
        ClientError::Lost {
            error: DriverError::Proto(proto::Error::Disconnected { .. }),
            ..
        }
    );
    match unconfirmed {
        PipelineDepth::Nothing => RetryPolicy::NotNeeded,
        depth if repeatable && (depth < PipelineDepth::Whole || disconnected) => {
            RetryPolicy::Safe(Caution::StepByStep)
        }
        _ => RetryPolicy::Forbidden,
    }
}

fn set_channel_timeouts(timeouts: &config::ChannelTimeouts, connection: &mut Connection) {
    let (global_ms, timeouts) = (timeouts.global_ms(), timeouts.clone());
    connection.set_channel_timeouts(ChannelTimeouts {
        limit_ms: Box::new(move |kind| timeouts.limit_ms(kind)),
        global_ms,
    });
}

/// Runs `LocalCommand`, if `PermitLocalCommand` allows it. `interface` is that of the tunnel.
fn local_command(options: &ClientOptions, interface: Option<&str>) -> Result<(), ClientError> {
    let Some(template) = &options.session.local_command else {
        return Ok(());
    };
    let command = options
        .tokens
        .clone()
        .with('T', interface.unwrap_or("NONE"))
        .expand(template, Purpose::Shell)
        .map_err(|reason| ClientError::Refused(format!("LocalCommand: {reason}")))?;
    debug1!("Executing local command: {}", one_line(&command));
    if let Err(reason) = local::run_in_shell(&command) {
        error!("LocalCommand did not start: {reason}");
    }
    Ok(())
}
