//! The plan of a session, made from options, flags and the local environment.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use config::client::{EscapeChar, RequestTty, SessionOptions, SessionType};
use config::pattern;
use config::types::Variable;
use driver::forward::ForwardTarget;

use crate::log::debug3;
use crate::terminal::Size;
use crate::x11::X11Plan;

/// Longest command, bytes: an SSH packet takes 256 KiB (OpenSSH's limit too), and the request's other
/// fields and the padding need a few hundred.
const MAX_COMMAND_BYTES: usize = wire::MAX_PACKET_BYTES - 1024;

/// The purpose of the channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The user's login shell.
    Shell,
    /// A command.
    Exec(Vec<u8>),
    /// A subsystem by name.
    Subsystem(Vec<u8>),
    /// No channel (`-N`).
    Nothing,
    /// Standard input and output forwarded to a port or socket that the server connects to (`-W`).
    Forward(ForwardTarget),
}

impl What {
    /// The channel's type for ChannelTimeout.
    pub(crate) fn channel_label(&self) -> String {
        match self {
            Self::Shell | Self::Nothing => "session:shell".to_owned(),
            Self::Exec(_) => "session:command".to_owned(),
            Self::Subsystem(name) => {
                format!("session:subsystem:{}", String::from_utf8_lossy(name))
            }
            Self::Forward(_) => "stdio-forward".to_owned(),
        }
    }

    /// In a few words, for lists.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Shell => "shell".to_owned(),
            Self::Nothing => "no session".to_owned(),
            Self::Exec(command) => format!("command {}", String::from_utf8_lossy(command)),
            Self::Subsystem(name) => format!("subsystem {}", String::from_utf8_lossy(name)),
            Self::Forward(target) => format!("stream to {target}"),
        }
    }

    /// True if the server runs something for it, whose exit status is this program's.
    pub(crate) fn is_session(&self) -> bool {
        matches!(self, Self::Shell | Self::Exec(_) | Self::Subsystem(_))
    }

    /// Name of the channel request that starts it.
    pub(crate) fn request_name(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            Self::Subsystem(_) => "subsystem",
            _ => "shell",
        }
    }
}

/// The pty to request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PtyPlan {
    /// `TERM`.
    pub term: Vec<u8>,
    /// Encoded modes of the local terminal, RFC 4254 §8.
    pub modes: Vec<u8>,
    /// Its size; `None` for that of the terminal on standard input when the pty is requested.
    pub size: Option<Size>,
}

/// What a session does.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What runs.
    pub what: What,
    /// The pty, if one is requested.
    pub pty: Option<PtyPlan>,
    /// Environment variables to send to the server.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Socket of the agent that remote programs may use.
    pub agent: Option<PathBuf>,
    /// The X server that remote programs may use.
    pub x11: Option<X11Plan>,
    /// True if standard input is not read.
    pub stdin_null: bool,
    /// True if this process is the channel's local end, not its standard streams:
    /// [`LocalEnd`](crate::session::LocalEnd).
    pub ends_here: bool,
    /// True if that local end sends nothing.
    pub sends_nothing: bool,
    /// True if further sessions may use the connection.
    pub is_shared: bool,
    /// The escape character, for a session with a terminal.
    pub escape: Option<u8>,
    /// True if the escape `~C` opens a command line.
    pub command_line: bool,
    /// True if that command line may run local commands.
    pub local_commands: bool,
    /// True if the host's key has changed and was let through: nothing is forwarded.
    pub is_distrusted: bool,
    /// Interval between the send times of typed input, milliseconds, give or take a tenth; `None`
    /// sends at once.
    pub obscure_keystrokes_ms: Option<u32>,
}

impl Plan {
    /// A plan for a command without terminal, environment or escapes.
    #[must_use]
    pub fn exec(command: impl Into<Vec<u8>>) -> Self {
        Self {
            what: What::Exec(command.into()),
            pty: None,
            environment: Vec::new(),
            agent: None,
            x11: None,
            stdin_null: false,
            ends_here: false,
            sends_nothing: false,
            is_shared: false,
            escape: None,
            command_line: false,
            local_commands: false,
            is_distrusted: false,
            obscure_keystrokes_ms: None,
        }
    }

    /// Makes the plan from the options. `command` is that of the command line.
    ///
    /// # Errors
    /// A sentence for the user if the options contradict each other.
    pub fn decide(
        session: &SessionOptions,
        command: Option<Vec<u8>>,
        forward: Option<ForwardTarget>,
    ) -> Result<Self, String> {
        let typed = command.is_some();
        let command = match (command, &session.remote_command) {
            (Some(_), Some(_)) => {
                return Err("Cannot execute command-line and remote command.".into());
            }
            (Some(command), None) => Some(command),
            (None, Some(command)) => Some(command.clone().into_bytes()),
            (None, None) => None,
        };
        debug3!("command typed: {typed}");
        if let Some(length) = command.as_ref().map(Vec::len)
            && length > MAX_COMMAND_BYTES
        {
            return Err(format!(
                "The command has {length} bytes, and SSH carries at most {MAX_COMMAND_BYTES} in one. \
                 Send it by standard input instead: ssh host sh < file"
            ));
        }
        let what = match (forward, session.session_type, command) {
            (Some(target), _, _) => What::Forward(target),
            (None, SessionType::None, _) => What::Nothing,
            (None, SessionType::Subsystem, Some(name)) => What::Subsystem(name),
            (None, SessionType::Subsystem, None) => {
                return Err(
                    "SessionType subsystem needs the subsystem's name as the command.".into(),
                );
            }
            (None, SessionType::Default, Some(command)) => What::Exec(command),
            (None, SessionType::Default, None) => What::Shell,
        };
        let pty = wants_pty(session, &what).then(|| PtyPlan {
            term: term(session),
            modes: crate::terminal::encoded_modes(),
            size: None,
        });
        let escape = match (session.escape_char, &pty) {
            (EscapeChar::Byte(byte), Some(_)) => Some(byte),
            _ => None,
        };
        Ok(Self {
            environment: match what {
                What::Forward(_) | What::Nothing => Vec::new(),
                _ => environment(session),
            },
            what,
            pty,
            agent: None,
            x11: None,
            stdin_null: session.stdin_null,
            ends_here: false,
            sends_nothing: false,
            is_shared: false,
            escape,
            command_line: escape.is_some() && session.enable_escape_commandline,
            local_commands: session.permit_local_command,
            is_distrusted: false,
            obscure_keystrokes_ms: session.obscure_keystrokes_ms,
        })
    }
}

fn wants_pty(session: &SessionOptions, what: &What) -> bool {
    if matches!(what, What::Forward(_) | What::Nothing) {
        return false;
    }
    let terminal = sys::io::is_terminal(sys::io::stdin()) && !session.stdin_null;
    match session.request_tty {
        RequestTty::Force => true,
        RequestTty::No => false,
        RequestTty::Yes => {
            if !terminal {
                crate::log::info!(
                    "Pseudo-terminal will not be allocated because stdin is not a terminal."
                );
            }
            terminal
        }
        RequestTty::Auto => {
            if *what == What::Shell && !terminal && !session.stdin_null {
                crate::log::info!(
                    "Pseudo-terminal will not be allocated because stdin is not a terminal."
                );
            }
            terminal && *what == What::Shell
        }
    }
}

/// The terminal type: `TERM` of `SetEnv`, else of this process.
pub(crate) fn term(session: &SessionOptions) -> Vec<u8> {
    let is_type = |set: &&Variable| set.name == "TERM" && !set.value.is_empty();
    let set = session.set_env.iter().find(is_type);
    match set {
        Some(set) => set.value.clone().into_bytes(),
        None => std::env::var_os("TERM").unwrap_or_default().into_vec(),
    }
}

/// Variables of this process that match `SendEnv`, then those of `SetEnv`, which take precedence.
#[must_use]
pub fn environment(session: &SessionOptions) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut variables: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    if !session.send_env.is_empty() {
        for (name, value) in std::env::vars_os() {
            let Some(text) = name.to_str() else { continue };
            let set = session.set_env.iter().any(|variable| variable.name == text);
            if !set
                && session
                    .send_env
                    .iter()
                    .any(|wanted| pattern::matches(text, wanted))
            {
                variables.push((name.as_bytes().to_vec(), value.as_bytes().to_vec()));
            }
        }
    }
    for variable in &session.set_env {
        variables.push((
            variable.name.clone().into_bytes(),
            variable.value.clone().into_bytes(),
        ));
    }
    variables
}
