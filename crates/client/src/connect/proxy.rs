//! `ProxyCommand` and `ProxyJump`: a child process carries the bytes.
//!
//! A jump runs this program again with `-W`, without a shell, so no shell interprets a host name. A
//! configured command runs in the user's shell, as documented; `config` has refused token values
//! that a shell would interpret.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::time::Duration;

use config::client::{ClientOptions, JumpHost};
use sys::process::{Child, ChildCommand, SelfExe};
use sys::signals::Signal;

use crate::children;
use crate::error::ClientError;
use crate::jumps;
use crate::log::{self, debug1};
use crate::question_relay;

/// A running proxy and the pipes to its standard input and output.
#[derive(Debug)]
pub struct Proxied {
    /// Reads the proxy's output.
    pub read: OwnedFd,
    /// Writes the proxy's input.
    pub write: OwnedFd,
    /// The proxy process; [`stop`] ends it.
    pub child: Child,
}

/// Where a proxy's standard error goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyErrors {
    /// To that of this process.
    Shown,
    /// Nowhere, as with OpenSSH: a persisting master keeps its proxy, and a program that reads this
    /// process's standard error would wait for its end. With `-v` they are shown.
    Dropped,
}

/// Runs a configured command in the user's shell.
///
/// # Errors
/// [`ClientError::System`].
pub fn command(line: &str, errors: ProxyErrors) -> Result<Proxied, ClientError> {
    debug1!("Executing proxy command: {}", crate::text::one_line(line));
    let mut command = shell(line);
    start(&mut command, errors)
}

/// Runs a command that passes back a connected socket (`ProxyUseFdpass`). `None` if it has passed nothing
/// within `limit`; it is then ended.
///
/// # Errors
/// [`ClientError`] if the command fails or passes no socket.
pub fn fdpass(
    line: &str,
    limit: Option<Duration>,
) -> Result<Option<(OwnedFd, Child)>, ClientError> {
    debug1!(
        "Executing proxy dialer command: {}",
        crate::text::one_line(line)
    );
    let (ours, theirs) = sys::socket::stream_pair().map_err(ClientError::system("socketpair"))?;
    let mut command = shell(line);
    inherit_env(&mut command)
        .fd_shared(&theirs, 0)
        .fd(theirs, 1)
        .fd_shared(sys::io::stderr(), 2);
    let mut child = spawn(&mut command)?;
    drop(command);
    let has_passed = sys::io::wait_readable(&ours, limit).map_err(ClientError::system("poll"))?;
    if !has_passed {
        stop(&mut child);
        return Ok(None);
    }
    let mut byte = [0_u8; 1];
    let mut received = sys::socket::recv_with_fds(&ours, &mut byte, 1).map_err(
        ClientError::system("ProxyUseFdpass: receive the descriptor"),
    )?;
    match received.fds.pop() {
        Some(socket) => Ok(Some((socket, child))),
        None => Err(ClientError::Refused(
            "ssh: the proxy command passed no descriptor back (ProxyUseFdpass is set)".into(),
        )),
    }
}

/// Connects through `hops`, in order: runs this program for the last hop with the others as its
/// jumps.
///
/// # Errors
/// [`ClientError`].
pub fn jump(
    hops: &[JumpHost],
    options: &ClientOptions,
    config_file: Option<&str>,
    errors: ProxyErrors,
) -> Result<Proxied, ClientError> {
    let Some((last, before)) = hops.split_last() else {
        return Err(ClientError::Refused("ssh: ProxyJump names no host".into()));
    };
    let exe = SelfExe::open().map_err(ClientError::system("/proc/self/exe"))?;
    let mut command = exe
        .command()
        .map_err(ClientError::system("/proc/self/exe"))?;
    let arguments = jump_arguments(last, before, options, config_file);
    debug1!(
        "Setting up the jump: {}",
        crate::text::one_line(&arguments.join(" "))
    );
    command.args(arguments.iter().map(OsString::from));
    // A jump that a signal ends leaves no jump of its own. One that goes to the background, as a persisting master
    // or by `-f`, ends the process that has started it, and not the connection.
    let stays = errors == ProxyErrors::Shown && !options.session.fork_after_authentication;
    if jumps::depth() > 0 && stays {
        command.death_signal(Signal::HUP);
    }
    start(&mut command, errors)
}

/// The command line of the jump, argument 0 included.
fn jump_arguments(
    last: &JumpHost,
    before: &[JumpHost],
    options: &ClientOptions,
    config_file: Option<&str>,
) -> Vec<String> {
    let mut arguments = vec!["ssh".to_owned()];
    if let Some(user) = &last.user {
        arguments.extend(["-l".to_owned(), user.clone()]);
    }
    if let Some(port) = last.port {
        arguments.extend(["-p".to_owned(), port.to_string()]);
    }
    if !before.is_empty() {
        arguments.extend(["-J".to_owned(), jumps::hop_list(before)]);
    }
    if let Some(file) = config_file {
        arguments.extend(["-F".to_owned(), file.to_owned()]);
    }
    let level = log::level();
    if level >= escape::LogLevel::Debug1 {
        let count = match level {
            escape::LogLevel::Debug1 => "-v",
            escape::LogLevel::Debug2 => "-vv",
            _ => "-vvv",
        };
        arguments.push(count.to_owned());
    }
    let target = if options.hostname.contains(':') {
        format!("[{}]:{}", options.hostname, options.port)
    } else {
        format!("{}:{}", options.hostname, options.port)
    };
    arguments.extend(["-W".to_owned(), target, "--".to_owned(), last.host.clone()]);
    arguments
}

/// Runs `exec line` in the user's shell; `exec` replaces the shell by the command.
fn shell(line: &str) -> ChildCommand {
    let shell = crate::local::shell();
    let mut command = ChildCommand::new(&shell);
    command.arg(&shell).arg("-c").arg(format!("exec {line}"));
    command
}

fn start(command: &mut ChildCommand, errors: ProxyErrors) -> Result<Proxied, ClientError> {
    let (read, their_output) = sys::io::pipe().map_err(ClientError::system("pipe"))?;
    let (their_input, write) = sys::io::pipe().map_err(ClientError::system("pipe"))?;
    inherit_env(command).fd(their_input, 0).fd(their_output, 1);
    match errors {
        ProxyErrors::Dropped if !log::debugs_on_stderr() => command.fd(
            sys::io::null().map_err(ClientError::system("/dev/null"))?,
            2,
        ),
        _ => command.fd_shared(sys::io::stderr(), 2),
    };
    let child = spawn(command)?;
    Ok(Proxied { read, write, child })
}

/// Passes this process's environment, the proxy's depth and who asks its questions.
fn inherit_env(command: &mut ChildCommand) -> &mut ChildCommand {
    let depth = jumps::depth().saturating_add(1);
    command
        .inherit_env()
        .env(jumps::DEPTH_VARIABLE, depth.to_string());
    if let Some(name) = question_relay::name() {
        command.env(question_relay::VARIABLE, name);
    }
    command
}

fn spawn(command: &mut ChildCommand) -> Result<Child, ClientError> {
    children::spawn(command).map_err(|error| {
        ClientError::Refused(format!("ssh: the proxy command did not start: {error}"))
    })
}

/// Sends SIGHUP to a proxy that still runs.
pub fn stop(child: &mut Child) {
    if !matches!(child.try_wait(), Ok(Some(_))) {
        let _ = child.signal(Signal::HUP);
    }
}
