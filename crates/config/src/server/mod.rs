//! Reads sshd_config as sshd(8) does, keeps it with its Match blocks, and evaluates it for each
//! connection.
//!
//! The listener loads a [`ServerConfig`] and passes it on (see `encode`); [`ServerOptions`] holds
//! the options of one connection. Within the global part, and within the Match blocks that a
//! connection meets, the first value of a keyword wins; a value from a Match block overrides a
//! global one.

pub(crate) mod build;
pub(crate) mod codec;
mod load;
pub(crate) mod matching;
pub(crate) mod options;
pub(crate) mod table;

use std::collections::BTreeSet;
use std::path::PathBuf;

pub use crate::penalties::{MaxStartups, PenaltyOverflow, PerSourcePenalties};
pub use crate::types::Subsystem;

pub use load::check_option;

pub use build::{AGENT_VARIABLE, DEFAULT_HOST_KEYS};
pub use options::{
    AgentSocketPath, AllowForwarding, ConnectionSpec, Gateway, IgnoreRhosts, ListenAddress,
    Patterns, PermitRootLogin, PermitTunnel, PubkeyAuthOptions, UserEnvironment,
};
pub use table::{
    AlgorithmOptions, AuthenticationOptions, CompressionOptions, ConnectionOptions,
    ForwardingOptions, HostKeyOptions, LimitOptions, LoggingOptions, SERVER_TABLE, ServerOptions,
    SessionOptions, UserKeyOptions,
};

use crate::error::Warning;
use crate::printing::{self, Letters};
use crate::server::matching::Criterion;
use crate::server::table::Row;
use crate::value::{Repeat, Value, Values};

/// PATH of an ordinary user's session and of the programs of AuthorizedKeysCommand and
/// AuthorizedPrincipalsCommand: Debian's.
pub const USER_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/games";

/// The settings of the server's command line.
#[derive(Clone, Debug, Default)]
pub struct ServerArguments {
    /// `-o` arguments, in order; they override the file.
    pub options: Vec<String>,
    /// `-p` arguments, in order; if there is one, `Port` in the file is ignored (sshd(8)).
    pub ports: Vec<u16>,
    /// The directory of relative file names; `None` leaves them unchanged.
    pub working_directory: Option<PathBuf>,
    /// True if the CPU has AES instructions (decides which cipher comes first by default).
    pub aes_hardware: bool,
}

/// A section of the file with the same conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    /// Conditions that must all be met; empty for the global part.
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
    /// The options before anything is known of a connection: the global part.
    pub fn global(&self) -> ServerOptions {
        build::build(
            self.merged(|section| section.conditions.is_empty()),
            self.aes_hardware,
        )
    }

    /// The options for a connection: the global part, overridden by the Match blocks that it meets.
    pub fn for_connection(&self, spec: &ConnectionSpec) -> ServerOptions {
        let mut values = self.merged(|section| section.conditions.is_empty());
        let matched = self.merged(|section| {
            !section.conditions.is_empty()
                && section.conditions.iter().flatten().all(|c| c.is_met(spec))
        });
        let row = Row::Subsystem.index();
        let inherited = values.at(row).cloned();
        values.override_with(SERVER_TABLE, &matched);
        if let (Some(inherited), Some(_)) = (inherited, matched.at(row)) {
            // A Match block replaces subsystems by name; the others remain.
            values.enter(row, Repeat::Add, inherited);
        }
        build::build(values, self.aes_hardware)
    }

    /// The options for a connection that meets exactly these conditions, those of one section, and
    /// no other Match block.
    fn where_conditions_are(&self, conditions: &[Vec<Criterion>]) -> ServerOptions {
        let mut values = self.merged(|section| section.conditions.is_empty());
        if !conditions.is_empty() {
            let matched = self.merged(|section| section.conditions == conditions);
            values.override_with(SERVER_TABLE, &matched);
        }
        build::build(values, self.aes_hardware)
    }

    /// True if the options of a connection depend on the user's account, not only on the user's
    /// name: a Match block names groups or users who do not exist. Lets the monitor answer before
    /// it looks up the account.
    pub fn asks_for_accounts(&self) -> bool {
        self.sections
            .iter()
            .flat_map(|section| section.conditions.iter().flatten())
            .any(|criterion| matches!(criterion, Criterion::Group(_) | Criterion::InvalidUser))
    }

    /// True if there are Match blocks, so that options depend on the connection or its user.
    pub fn has_conditions(&self) -> bool {
        self.sections
            .iter()
            .any(|section| !section.conditions.is_empty())
    }

    /// The directories of RecordTerminals, those of Match blocks included, each once and in the order of
    /// their names.
    pub fn recording_directories(&self) -> BTreeSet<String> {
        self.sections
            .iter()
            .map(|section| self.where_conditions_are(&section.conditions))
            .filter_map(|options| options.session.record_terminals)
            .collect()
    }

    /// Sets GSSAPIKeyExchange to its default, `no`.
    pub fn forgo_gss_exchanges(&mut self) {
        let row = Row::GSSAPIKeyExchange.index();
        for section in &mut self.sections {
            section.entries.retain(|(index, _)| *index != row);
        }
    }

    /// Warnings about settings that are accepted but not carried out, each with file and line.
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

/// True if `command` (of ForceCommand, a key's `command=` or Subsystem) is the built-in SFTP
/// server, `internal-sftp`, with or without arguments.
pub fn is_internal_sftp(command: &[u8]) -> bool {
    command.split(u8::is_ascii_whitespace).next() == Some(b"internal-sftp")
}

impl LoggingOptions {
    /// True if anybody asks for metrics (MetricsListen, MetricsFile).
    pub fn has_metrics(&self) -> bool {
        !self.metrics_listen.is_empty() || self.metrics_file.is_some()
    }
}

impl ServerOptions {
    /// Why SftpRoot does not confine a session with the forced command `forced`; `None` if it does,
    /// or if SftpRoot is not set.
    pub fn sftp_root_gap(&self, forced: Option<&str>) -> Option<&'static str> {
        self.session.sftp_root.as_ref()?;
        let is_internal = |command: &str| is_internal_sftp(command.as_bytes());
        match forced {
            Some(command) if is_internal(command) => None,
            Some(_) => Some("SftpRoot confines nothing: the forced command is not internal-sftp"),
            None if self
                .session
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
        let plain = printing::dump(SERVER_TABLE, &self.values(), Letters::Manual);
        let mut out = String::with_capacity(plain.len() + 256);
        for line in plain.lines() {
            // The one keyword that OpenSSH prints in other letters than its manual page's.
            let (written, line) = match line.strip_prefix("MACs ") {
                Some(list) => ("Macs ", list),
                None => ("", line),
            };
            out.push_str(written);
            out.push_str(line);
            out.push('\n');
            if line.starts_with("AddressFamily ") {
                for listen in &self.connection.listen_addresses {
                    out.push_str(&format!("ListenAddress {listen}\n"));
                }
            }
        }
        out
    }
}

impl std::fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host = self.host.as_deref().unwrap_or("*");
        if host.contains(':') {
            write!(f, "[{host}]:{}", self.port)?;
        } else {
            write!(f, "{host}:{}", self.port)?;
        }
        match &self.rdomain {
            Some(rdomain) => write!(f, " rdomain {rdomain}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod openssh_tests;
#[cfg(test)]
mod tests;
