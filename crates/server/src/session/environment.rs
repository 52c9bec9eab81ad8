//! Builds the environment of a user's command in the order of sshd(8): variables from the client
//! have the lowest precedence, the server's variables about the connection the highest.

use std::collections::BTreeMap;

use config::pattern::matches;
use config::server::{ServerOptions, USER_PATH, UserEnvironment};
use privsep::SessionGrant;

/// Limit on a file of variables, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 256 * 1024;
/// Most variables that the client may send for one channel, as in OpenSSH.
const MAX_CLIENT_VARIABLES: usize = 128;
/// Limit on name and value together of a client's variable, in bytes: the kernel's for one string of 32
/// pages of 4 KiB, without `=` and the NUL (execve(2)).
const MAX_VARIABLE_BYTES: usize = 128 * 1024 - 2;
/// Limit on all of a client's variables for one channel, in bytes. The kernel's own is usually smaller; the
/// command then does not start.
const MAX_CLIENT_BYTES: usize = 4 << 20;

/// Most lines of ~/.ssh/environment that the user reads about: they fit into an empty pipe or terminal.
const MAX_BAD_LINES: usize = 20;

/// Default PATH of root (Debian's).
const ROOT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a client's variable is not taken; the command runs without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IgnoredVariable {
    /// AcceptEnv does not name it, or no process can have it.
    Disallowed,
    /// AcceptEnv names it.
    TooMany,
    /// AcceptEnv names it.
    TooLong,
}

impl IgnoredVariable {
    /// The reason, in OpenSSH's words where it has some.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Disallowed => "disallowed name",
            Self::TooMany => "too many env vars",
            Self::TooLong => "too long for a process",
        }
    }
}

/// Variables by name; the last one set wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Environment(BTreeMap<Vec<u8>, Vec<u8>>);

impl Environment {
    /// Sets a variable; ignores one that no process can have (empty name, `=` in the name, NUL).
    pub(super) fn set(&mut self, name: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        let (name, value) = (name.into(), value.into());
        if !name.is_empty() && !name.contains(&b'=') && !name.contains(&0) && !value.contains(&0) {
            self.0.insert(name, value);
        }
    }

    /// The value of a variable.
    pub(super) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// The variables, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// Sets a variable from the client (RFC 4254 §6.4) if AcceptEnv permits it and the limits are
    /// kept.
    pub(super) fn accept(
        &mut self,
        patterns: &[String],
        name: &[u8],
        value: &[u8],
    ) -> Result<(), IgnoredVariable> {
        let Ok(text) = std::str::from_utf8(name) else {
            return Err(IgnoredVariable::Disallowed);
        };
        // Each entry is one plain pattern, as in OpenSSH's sshd: a comma or `!` in it has no
        // special meaning.
        let wanted = patterns.iter().any(|pattern| matches(text, pattern));
        if !wanted || name.contains(&0) || value.contains(&0) {
            return Err(IgnoredVariable::Disallowed);
        }
        if self.0.len() >= MAX_CLIENT_VARIABLES {
            return Err(IgnoredVariable::TooMany);
        }
        let (own, others) = (name.len() + value.len(), self.bytes());
        if own > MAX_VARIABLE_BYTES || own + others > MAX_CLIENT_BYTES {
            return Err(IgnoredVariable::TooLong);
        }
        self.set(name, value);
        Ok(())
    }

    /// The bytes of all names and values.
    fn bytes(&self) -> usize {
        self.iter()
            .map(|(name, value)| name.len() + value.len())
            .sum()
    }
}

/// The parts of an environment that depend on the channel.
pub(super) struct ChannelFacts<'a> {
    /// The client's variables that AcceptEnv permits.
    pub client: &'a Environment,
    /// Terminal type and path of the slave.
    pub tty: Option<(&'a [u8], &'a str)>,
    /// The client's command if another one is forced.
    pub original_command: Option<&'a [u8]>,
    /// File of ExposeAuthInfo.
    pub auth_info_path: Option<&'a str>,
    /// Socket for the client's agent.
    pub agent_socket: Option<&'a [u8]>,
    /// The display of the client's X server.
    pub display: Option<&'a str>,
    /// Network interfaces of the client's tunnels, with commas between them.
    pub tunnels: String,
}

/// Contents of files that add to the environment.
#[derive(Default)]
pub(super) struct EnvironmentFiles {
    /// /etc/environment; `None` if PAM reads it.
    pub system: Option<Vec<u8>>,
    /// ~/.ssh/environment, if PermitUserEnvironment permits it.
    pub user: Option<Vec<u8>>,
    /// TZ of the server.
    pub time_zone: Option<Vec<u8>>,
}

/// Builds the environment of one command.
pub(super) fn build(
    grant: &SessionGrant,
    options: &ServerOptions,
    files: &EnvironmentFiles,
    facts: &ChannelFacts<'_>,
) -> Environment {
    let mut out = facts.client.clone();
    out.set("USER", grant.user.as_str());
    out.set("LOGNAME", grant.user.as_str());
    out.set("HOME", grant.home.as_str());
    out.set("PATH", if grant.uid == 0 { ROOT_PATH } else { USER_PATH });
    out.set("SHELL", grant.shell.as_str());
    if !options.authentication.use_pam {
        out.set("MAIL", format!("/var/mail/{}", grant.user));
        for (name, value) in files.system.iter().flat_map(|file| system_lines(file)) {
            out.set(name, value);
        }
    }
    if let Some(zone) = &files.time_zone {
        out.set("TZ", zone.as_slice());
    }
    if let Some((term, _)) = facts.tty
        && !term.is_empty()
    {
        out.set("TERM", term);
    }
    for (name, value) in &grant.key_environment {
        out.set(name.as_str(), value.as_str());
    }
    if let Some(file) = &files.user {
        for (name, value) in user_lines(file, &options.session.permit_user_environment) {
            out.set(name, value);
        }
    }
    for (name, value) in &grant.pam_environment {
        // Only ExposeAuthInfo may set these variables.
        if !name.starts_with("SSH_AUTH_INFO") {
            out.set(name.as_str(), value.as_str());
        }
    }
    for variable in &options.session.set_env {
        out.set(variable.name.as_str(), variable.value.as_str());
    }
    connection_variables(&mut out, grant, facts);
    out
}

fn connection_variables(out: &mut Environment, grant: &SessionGrant, facts: &ChannelFacts<'_>) {
    let (remote, port) = (&grant.remote_address, grant.remote_port);
    let (local, local_port) = (&grant.local_address, grant.local_port);
    out.set("SSH_CLIENT", format!("{remote} {port} {local_port}"));
    out.set(
        "SSH_CONNECTION",
        format!("{remote} {port} {local} {local_port}"),
    );
    if let Some((_, path)) = facts.tty {
        out.set("SSH_TTY", path);
    }
    if let Some(path) = facts.auth_info_path {
        out.set("SSH_USER_AUTH", path);
    }
    if !facts.tunnels.is_empty() {
        out.set("SSH_TUNNEL", facts.tunnels.as_str());
    }
    if let Some(command) = facts.original_command {
        out.set("SSH_ORIGINAL_COMMAND", command);
    }
    if let Some(display) = facts.display {
        out.set("DISPLAY", display);
    }
    if let Some(path) = facts.agent_socket {
        out.set("SSH_AUTH_SOCK", path);
    }
}

fn lines(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    file.split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.starts_with(b"#"))
}

fn split_once(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = line.iter().position(|byte| *byte == b'=')?;
    Some((line.get(..at)?, line.get(at + 1..)?))
}

/// The lines of ~/.ssh/environment with their numbers, without comments and blank lines. As in OpenSSH
/// blanks are removed before a name only.
fn numbered_lines(file: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    file.split(|byte| *byte == b'\n')
        .map(move |line| {
            let start = line.iter().position(|byte| !is_blank(byte));
            start.and_then(|start| line.get(start..)).unwrap_or(b"")
        })
        .enumerate()
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"))
        .map(|(at, line)| (at + 1, line))
}

/// Parses ~/.ssh/environment: `NAME=value` lines with names that PermitUserEnvironment permits.
fn user_lines<'a>(
    file: &'a [u8],
    permitted: &'a UserEnvironment,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    numbered_lines(file)
        .filter_map(|(_, line)| split_once(line))
        .filter(|(name, _)| std::str::from_utf8(name).is_ok_and(|name| permitted.permits(name)))
}

/// What the user reads about the lines of ~/.ssh/environment, which is at `path`, that set no variable: at
/// most [`MAX_BAD_LINES`].
pub(super) fn complaints(file: &[u8], path: &str) -> String {
    let bad = numbered_lines(file).filter(|(_, line)| split_once(line).is_none());
    bad.take(MAX_BAD_LINES)
        .map(|(number, _)| format!("Bad line {number} in {path:.100}\n"))
        .collect()
}

/// Parses /etc/environment as pam_env(8) does: `[export ]NAME=value`, the value possibly quoted.
fn system_lines(file: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    lines(file).filter_map(|line| {
        let (name, value) = split_once(line.strip_prefix(b"export ").unwrap_or(line))?;
        let unquoted = [b"\"", b"'"]
            .into_iter()
            .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
        Some((name.trim_ascii(), unquoted.unwrap_or(value)))
    })
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
