//! The work of one host when a command is run.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use std::ffi::OsString;

use client::flags::SessionRequest;
use client::session::AnyLocalEnd;
use client::{ClientError, SessionTerms, log};

use crate::ask::{HostInteraction, Questions};
use crate::crew::HostWork;
use crate::hosts::Host;
use crate::outcome::{self, HostOutcome, STATUS_FAILED};
use crate::output::{HostOutput, RunOutput, locked};
use crate::session::{CommandEnd, Control};
use crate::spool::Spool;

/// Settings of every connection: nothing is forwarded, and nothing runs but the command.
const ALWAYS: [&str; 5] = [
    "PermitLocalCommand=no",
    "ClearAllForwardings=yes",
    "RemoteCommand=none",
    "RequestTTY=no",
    "SessionType=default",
];
/// Settings that the command line may replace: hosts are many enough to keep all cores busy.
const DEFAULTS: [&str; 1] = ["CryptoThreads=1"];
/// Most hosts that the login cache learns about. It keeps 256 servers, and a longer list would replace
/// all of them each time.
const MAX_CACHED: usize = 128;

/// The parts of the work that are the same for all hosts.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) hosts: Arc<[Host]>,
    pub(crate) output: Arc<RunOutput>,
    pub(crate) questions: Arc<Questions>,
    /// Flags of the command line for `ssh`.
    pub(crate) ssh: Vec<(&'static str, OsString)>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) at_once: usize,
}

impl Common {
    /// The flags of `ssh` for a host.
    pub(crate) fn flags(&self, host: &Host) -> Vec<(&'static str, OsString)> {
        let mut flags = vec![("x", OsString::new())];
        // The first value counts: that of the host's own name before that of all hosts.
        flags.extend(host.port.map(|port| ("p", port.to_string().into())));
        flags.extend(ALWAYS.map(|line| ("o", line.into())));
        flags.extend(self.ssh.iter().cloned());
        flags.extend(DEFAULTS.map(|line| ("o", line.into())));
        flags
    }

    fn terms(&self) -> SessionTerms {
        let limit = self.timeout.map(|timeout| timeout.as_millis());
        SessionTerms {
            step_timeout_ms: limit.map(|limit| u64::try_from(limit).unwrap_or(u64::MAX)),
            stores_profiles: self.hosts.len() <= MAX_CACHED,
            sharers: u64::try_from(self.at_once.min(self.hosts.len())).unwrap_or(u64::MAX),
        }
    }

    /// The output of a host whose work begins.
    pub(crate) fn output(&self, host: usize, control: &Control) -> HostOutput {
        let name = self.hosts.get(host).map_or("", |host| host.name.as_str());
        HostOutput::new(
            Arc::clone(&self.output),
            host,
            name,
            Arc::clone(&control.waker),
        )
    }

    /// Serves a connection to a host to its end.
    pub(crate) fn connect(
        &self,
        request: SessionRequest,
        local: &mut AnyLocalEnd,
        output: &Arc<Mutex<HostOutput>>,
        control: &Arc<Control>,
    ) -> Result<i32, ClientError> {
        let questions = Arc::clone(&self.questions);
        let mut interaction =
            HostInteraction::new(questions, Arc::clone(output), Arc::clone(control));
        let messages = Arc::clone(output);
        let of_reader = Arc::clone(control);
        let reader = move |line: &str| {
            // What follows from the end is no news of the host.
            if !of_reader.is_abandoned() {
                locked(&messages).message(line);
            }
        };
        let result = control.processes.noted_during(|| {
            log::read_by(Box::new(reader), || {
                client::session_with(request, self.terms(), local, &mut interaction)
            })
        });
        interaction.flush();
        result
    }
}

/// True if an error means that the system has no room (descriptors, for example); a later attempt may
/// succeed.
pub(crate) fn has_no_room(error: &ClientError) -> bool {
    match error {
        ClientError::System { error, .. } => sys::io::is_out_of_descriptors(error),
        ClientError::Connect { reason, .. } | ClientError::Resolve { reason, .. } => {
            reason.starts_with("Too many open files")
        }
        _ => false,
    }
}

/// Runs a command.
pub(crate) struct RunCommand {
    pub(crate) common: Common,
    pub(crate) command: OsString,
    pub(crate) input: Option<Arc<Spool>>,
}

impl RunCommand {
    /// The session's result, and whether the command may have run.
    fn session(
        &self,
        host: &Host,
        control: &Arc<Control>,
        output: &Arc<Mutex<HostOutput>>,
    ) -> (Result<i32, ClientError>, bool) {
        let request = SessionRequest {
            flags: self.common.flags(host),
            host: host.destination.clone(),
            command: self.command.clone(),
        };
        let mut end = CommandEnd {
            control: Arc::clone(control),
            output: Arc::clone(output),
            input: self.input.clone(),
            has_begun: Arc::new(AtomicBool::new(false)),
            may_have_run: false,
        };
        let result = self
            .common
            .connect(request, end.as_local_end(), output, control);
        (result, end.may_have_run)
    }
}

/// The outcome of a session.
fn outcome_of(result: &Result<i32, ClientError>, output: &HostOutput) -> HostOutcome {
    if let Some(failure) = output.failure() {
        return HostOutcome::failed(failure);
    }
    match result {
        Ok(STATUS_FAILED) => {
            let said = output.last_message().filter(|message| {
                ["The command was ended by", "channel "]
                    .iter()
                    .any(|start| message.starts_with(start))
                    || message.contains("request failed on channel")
            });
            said.map_or(HostOutcome::exit(STATUS_FAILED), HostOutcome::failed)
        }
        Ok(status) => HostOutcome::exit(*status),
        Err(error) => HostOutcome::failed(outcome::cause(error)),
    }
}

impl HostWork for RunCommand {
    fn output(&self, host: usize, control: &Control) -> HostOutput {
        self.common.output(host, control)
    }

    fn work(
        &self,
        host: usize,
        control: &Arc<Control>,
        output: &Arc<Mutex<HostOutput>>,
        is_last: bool,
    ) -> Result<HostOutcome, ()> {
        let Some(of_host) = self.common.hosts.get(host) else {
            return Ok(HostOutcome::failed("no host"));
        };
        // A command does not run whose output cannot be kept.
        let unkept = {
            let mut output = locked(output);
            output.open(&of_host.name);
            output.failure().map(str::to_owned)
        };
        let (result, may_have_run) = match unkept {
            Some(why) => (Err(ClientError::Refused(why)), false),
            None => self.session(of_host, control, output),
        };
        if let Err(error) = &result
            && has_no_room(error)
            && !may_have_run
            && !is_last
        {
            return Err(());
        }
        let mut output = locked(output);
        if let Err(error) = &result
            && !control.is_abandoned()
        {
            let text = error.to_string();
            if !text.is_empty() {
                output.message(&text);
            }
        }
        Ok(outcome_of(&result, &output))
    }

    fn end(&self) {
        self.common.questions.end();
    }
}
