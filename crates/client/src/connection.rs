//! One connection of the program `ssh`, from its first byte to its last: connect, exchange keys, log
//! in, serve the session, close.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use accelerator::Accelerator;
use config::client::ClientOptions;
use config::tokens::Purpose;
use driver::DriverError;

use crate::auth::identity::Keys;
use crate::auth::{Early, LoggedIn};
use crate::error::{ClientError, Peer};
use crate::flags::Flags;
use crate::host_key::HostKeyChecker;
use crate::interaction::Interaction;
use crate::log::{debug1, error};
use crate::login::{self, LoginOpening, Secured};
use crate::pipelining::{
    Caution, Failure, LoginStrategy, PipelineDepth, ProfileCache, RetryPolicy,
};
use crate::plan::{Plan, What};
use crate::session::{AnyLocalEnd, LocalEnd, Session, StdioFlags, Streams};
use crate::{connect, local, report};

/// The descriptor to read from and, if it differs, the one to write to.
type Link = (OwnedFd, Option<OwnedFd>);

/// One attempt to connect and to carry out the plan.
pub(crate) struct OneConnection<'a> {
    pub(crate) flags: &'a Flags,
    pub(crate) options: &'a ClientOptions,
    pub(crate) plan: &'a Plan,
    pub(crate) accelerator: Option<&'a Arc<Accelerator>>,
    pub(crate) caution: Caution,
}

/// What the attempt knows about the server before it connects.
struct Records {
    checker: HostKeyChecker,
    cache: Option<ProfileCache>,
    strategy: LoginStrategy,
}

impl OneConnection<'_> {
    /// Connects, logs in and serves the session; returns the exit code.
    pub(crate) fn run(
        &self,
        mut local: Option<&mut AnyLocalEnd>,
        prompter: &mut dyn Interaction,
    ) -> Result<i32, Failure> {
        let options = self.options;
        // Reading the records overlaps with connecting.
        let dialing = connect::begin(options, self.flags.config_file.as_deref())?;
        let checker = HostKeyChecker::new(options);
        let cache = ProfileCache::open(options);
        let profile = cache.as_ref().and_then(ProfileCache::profile).cloned();
        let mut records = Records {
            checker,
            strategy: LoginStrategy::new(options, self.caution, profile),
            cache,
        };
        if records.strategy.expects_fulmar()
            && let Some(local) = local.as_deref_mut()
        {
            local.expects_fulmar();
        }
        let (link, peer, mut proxy) = login::split(dialing.finish()?);
        let outcome = self.serve(link, peer, &mut records, local, prompter);
        if let Some(child) = &mut proxy {
            connect::proxy::stop(child);
        }
        outcome
    }

    fn serve(
        &self,
        link: Link,
        peer: Peer,
        records: &mut Records,
        mut local: Option<&mut AnyLocalEnd>,
        prompter: &mut dyn Interaction,
    ) -> Result<i32, Failure> {
        let local_end = local.as_deref_mut();
        let (mut secured, keys) = self.secure(link, peer, records, local_end, prompter)?;
        let local_end = local.as_deref_mut();
        let logged_in = self.log_in(&mut secured, keys, records, local_end, prompter)?;
        connect::set_quality(
            secured.driver.socket(),
            self.options,
            self.plan.pty.is_some(),
        );
        local_command(self.options)?;
        self.hold_session(secured, logged_in, records, local, prompter)
    }

    /// Exchanges keys and checks the host key.
    fn secure(
        &self,
        link: Link,
        peer: Peer,
        records: &mut Records,
        mut local: Option<&mut AnyLocalEnd>,
        prompter: &mut dyn Interaction,
    ) -> Result<(Secured, Keys), Failure> {
        let Records {
            checker, strategy, ..
        } = records;
        let opening = LoginOpening::from_options(self.options, &peer, checker);
        let greeted = opening.send(link, peer, strategy.guess())?;
        // Finding keys overlaps with the server's answer.
        let keys = Keys::find(self.options);
        let mut on_version = |version: &str| {
            if strategy.may_send_data(version)
                && let Some(local) = local.as_deref_mut()
            {
                local.expects_fulmar();
            }
        };
        let step_by_step = strategy.is_step_by_step();
        let mut secured = greeted.secure(step_by_step, checker, prompter, &mut on_version)?;
        strategy.meet(version_of(&mut secured).as_deref().unwrap_or_default());
        Ok((secured, keys))
    }

    /// Authenticates the user, and sends early what the strategy permits.
    fn log_in(
        &self,
        secured: &mut Secured,
        keys: Keys,
        records: &mut Records,
        local: Option<&mut AnyLocalEnd>,
        prompter: &mut dyn Interaction,
    ) -> Result<LoggedIn, Failure> {
        let strategy = &records.strategy;
        let is_early = !strategy.is_step_by_step();
        let data = local.filter(|_| is_early).map(LocalEnd::early);
        let early = is_early.then_some(Early {
            strategy,
            plan: self.plan,
            data: data.as_deref().unwrap_or_default(),
        });
        let outcome = login::authenticate(secured, self.options, keys, early.as_ref(), prompter);
        if let Err(failure) = &outcome
            && failure.retry == RetryPolicy::Forbidden
            && let Some(cache) = &mut records.cache
        {
            // The command may have run and must not be sent again; the next login sends none early.
            cache.store(secured.profile(None, true));
        }
        outcome
    }

    fn hold_session(
        &self,
        mut secured: Secured,
        logged_in: LoggedIn,
        records: &mut Records,
        local: Option<&mut AnyLocalEnd>,
        prompter: &mut dyn Interaction,
    ) -> Result<i32, Failure> {
        let options = self.options;
        let (stdio, streams) = match &local {
            Some(_) => (None, Streams::default()),
            None => {
                let flags = StdioFlags::remember();
                let streams = Streams::standard().map_err(ClientError::system("dup"))?;
                (Some(flags), streams)
            }
        };
        // A program that is the session's local end leaves no terminal.
        let leaves = options.session.fork_after_authentication && local.is_none();
        if leaves && !matches!(self.plan.what, What::Forward { .. }) {
            go_to_background()?;
        }
        // Nothing is cached for a server whose changed host key was let through.
        if secured.without_secrets {
            records.cache = None;
        }
        if let Some(cache) = &mut records.cache {
            let careful = records.strategy.is_careful();
            cache.store(secured.profile(logged_in.key.clone(), careful));
        }
        let connection = secured.driver.connection();
        if let (Some(accelerator), Some(compressor)) = (self.accelerator, connection.compressor()) {
            compressor.set_provider(Arc::<Accelerator>::clone(accelerator));
        }
        report::announce_compression(options, connection);
        // The process ends next and the system frees everything at once, so destructors are
        // skipped. They run where a proxy or a compression helper waits for its descriptor to
        // close.
        let ends_with_process =
            local.is_none() && secured.peer.address.is_some() && self.accelerator.is_none();
        let version = version_of(&mut secured).unwrap_or_default();
        let peer = secured.peer.clone();
        let mut session = Session::new(
            &mut secured.driver,
            self.plan.clone(),
            streams,
            peer,
            prompter,
        )
        .with_local_end(local)
        .with_early(logged_in.early)
        .starting_at_once(records.strategy.starts_at_once(&version));
        session.rotate_host_keys(&mut records.checker, options.host_keys.update_host_keys);
        let outcome = session.run();
        let unconfirmed = session.unconfirmed();
        drop(session);
        drop(stdio);
        debug1!("crypto threads: {}", secured.driver.lane_report());
        report::tell_compression(&mut secured.driver);
        match outcome {
            Err(error @ (ClientError::Lost { .. } | ClientError::Closed(_))) => {
                // The local command and the change to the background happen at most once.
                let repeatable = options.session.local_command.is_none() && !leaves;
                let retry = retry_policy(&error, unconfirmed, repeatable);
                if retry == RetryPolicy::Forbidden
                    && let Some(cache) = &mut records.cache
                {
                    // The command may have run and must not be sent again; the next login sends
                    // none early.
                    cache.store(secured.profile(logged_in.key, true));
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
}

fn version_of(secured: &mut Secured) -> Option<String> {
    let connection = secured.driver.connection();
    connection.peer_version().map(str::to_owned)
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

/// Runs `LocalCommand`, if `PermitLocalCommand` allows it.
fn local_command(options: &ClientOptions) -> Result<(), ClientError> {
    let Some(template) = &options.session.local_command else {
        return Ok(());
    };
    // No tunnel device is ever opened.
    let command = options
        .tokens
        .clone()
        .with('T', "NONE")
        .expand(template, Purpose::Shell)
        .map_err(|reason| ClientError::Refused(format!("LocalCommand: {reason}")))?;
    debug1!(
        "Executing local command: {}",
        crate::text::one_line(&command)
    );
    if let Err(reason) = local::run_in_shell(&command) {
        error!("LocalCommand did not start: {reason}");
    }
    Ok(())
}

/// `-f`: the parent process ends with 0 here; standard error stays open for later errors.
fn go_to_background() -> Result<(), ClientError> {
    debug1!("forking to background");
    sys::process::daemonize().map_err(ClientError::system("fork to the background"))
}
