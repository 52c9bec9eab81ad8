//! sshd_config: read as sshd(8) reads it, kept with its Match blocks, evaluated per connection.
//!
//! [`ServerConfig`] is what the listener loads and hands on (see `encode`); [`ServerOptions`] is what holds for
//! one connection. Within the global part and within the Match blocks that a connection meets, the first value
//! of a keyword wins; a value from a Match block outweighs a global one.

pub(crate) mod build;
mod codec;
mod load;
pub(crate) mod matching;
pub(crate) mod options;
pub(crate) mod table;

use std::path::PathBuf;

pub use build::DEFAULT_HOST_KEYS;
pub use options::{
    AllowForwarding, ConnectionSpec, ListenAddress, MaxStartups, Patterns, PenaltyOverflow,
    PerSourcePenalties, PermitRootLogin, PubkeyAuthOptions, ServerOptions, Subsystem,
    UserEnvironment,
};
pub use table::SERVER_TABLE;

use crate::error::Warning;
use crate::server::matching::Criterion;
use crate::server::table::Row;
use crate::value::{self, Value, Values};

/// What the command line of the server adds to its file.
#[derive(Clone, Debug, Default)]
pub struct ServerArguments {
    /// `-o` arguments, in order; they outweigh the file.
    pub options: Vec<String>,
    /// `-p` arguments, in order; with any of them `Port` in the file means nothing (sshd(8)).
    pub ports: Vec<u16>,
    /// Where relative file names start; none leaves them as they are.
    pub working_directory: Option<PathBuf>,
    /// Whether the CPU has AES instructions (decides which cipher stands first by default).
    pub aes_hardware: bool,
}

/// A stretch of the file under the same conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    /// Conditions that must all be met; none of them for the global part.
    pub(crate) conditions: Vec<Vec<Criterion>>,
    /// Values in the order of the file.
    pub(crate) entries: Vec<(usize, Value)>,
}

/// A loaded sshd_config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    pub(crate) sections: Vec<Section>,
    pub(crate) aes_hardware: bool,
    warnings: Vec<Warning>,
}

impl ServerConfig {
    /// What holds before anything is known of a connection: the global part.
    pub fn global(&self) -> ServerOptions {
        build::build(
            self.merged(|section| section.conditions.is_empty()),
            self.aes_hardware,
        )
    }

    /// What holds for a connection: the global part, outweighed by the Match blocks that it meets.
    pub fn for_connection(&self, spec: &ConnectionSpec) -> ServerOptions {
        let mut values = self.merged(|section| section.conditions.is_empty());
        let matched = self.merged(|section| {
            !section.conditions.is_empty()
                && section.conditions.iter().flatten().all(|c| c.is_met(spec))
        });
        let row = Row::Subsystem.index();
        let inherited = values.words(row).to_vec();
        values.override_with(SERVER_TABLE, &matched);
        if matched.at(row).is_some() {
            // A Match block replaces subsystems by name and leaves the others.
            let mut subsystems = matched.words(row).to_vec();
            subsystems.extend(inherited);
            values.put(row, Value::Words(subsystems));
        }
        build::build(values, self.aes_hardware)
    }

    /// What holds for a connection that meets exactly these conditions: those of one stretch of the
    /// file, and no other Match block's.
    fn where_conditions_are(&self, conditions: &[Vec<Criterion>]) -> ServerOptions {
        let mut values = self.merged(|section| section.conditions.is_empty());
        if !conditions.is_empty() {
            let matched = self.merged(|section| section.conditions == conditions);
            values.override_with(SERVER_TABLE, &matched);
        }
        build::build(values, self.aes_hardware)
    }

    /// Whether what holds for a connection depends on the user's account, not on the user's name alone: a Match
    /// block asks for a group or for users who do not exist. Lets the monitor answer before it looks the account up.
    pub fn asks_for_accounts(&self) -> bool {
        self.sections
            .iter()
            .flat_map(|section| section.conditions.iter().flatten())
            .any(|criterion| matches!(criterion, Criterion::Group(_) | Criterion::InvalidUser))
    }

    /// Whether anything depends on the connection or its user: there are Match blocks.
    pub fn has_conditions(&self) -> bool {
        self.sections
            .iter()
            .any(|section| !section.conditions.is_empty())
    }

    /// What was accepted but is not carried out, each with file and line.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn merged(&self, wanted: impl Fn(&Section) -> bool) -> Values {
        let mut values = Values::empty(SERVER_TABLE.len());
        for section in self.sections.iter().filter(|section| wanted(section)) {
            for (index, value) in &section.entries {
                if let Some(keyword) = SERVER_TABLE.get(*index) {
                    values.enter(*index, keyword.repeat, value.clone());
                }
            }
        }
        values
    }
}

/// Whether `command` (of ForceCommand, a key's `command=` or Subsystem) asks for sshd's own server
/// of files, `internal-sftp`, with or without arguments.
pub fn is_internal_sftp(command: &[u8]) -> bool {
    command.split(u8::is_ascii_whitespace).next() == Some(b"internal-sftp")
}

impl ServerOptions {
    /// Why SftpRoot does not confine a session in which `forced` is the forced command; `None`
    /// where it does, or where SftpRoot is not set.
    pub fn sftp_root_gap(&self, forced: Option<&str>) -> Option<&'static str> {
        self.sftp_root.as_ref()?;
        let is_internal = |command: &str| is_internal_sftp(command.as_bytes());
        match forced {
            Some(command) if is_internal(command) => None,
            Some(_) => Some("SftpRoot confines nothing: the forced command is not internal-sftp"),
            None if self
                .subsystems
                .iter()
                .any(|each| is_internal(&each.command)) =>
            {
                Some(
                    "SftpRoot confines the internal-sftp subsystem only: shells and commands reach \
                 every file; set \"ForceCommand internal-sftp\"",
                )
            }
            None => Some(
                "SftpRoot confines nothing: no Subsystem is internal-sftp and no command is \
                 forced; set \"ForceCommand internal-sftp\"",
            ),
        }
    }

    /// The options as `sshd -T` prints them.
    pub fn dump(&self) -> String {
        let plain = value::dump(SERVER_TABLE, &self.values());
        let mut out = String::with_capacity(plain.len() + 256);
        for line in plain.lines() {
            out.push_str(line);
            out.push('\n');
            if line.starts_with("addressfamily ") {
                for listen in &self.listen_addresses {
                    out.push_str(&format!("listenaddress {listen}\n"));
                }
            }
        }
        out.push_str("persourcepenalties ");
        out.push_str(&build::show_penalties(&self.per_source_penalties));
        out.push('\n');
        out
    }
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host = self.host.as_deref().unwrap_or("*");
        if host.contains(':') {
            write!(f, "[{host}]:{}", self.port)
        } else {
            write!(f, "{host}:{}", self.port)
        }
    }
}

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod openssh_tests;
#[cfg(test)]
mod tests;
