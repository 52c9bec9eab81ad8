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
        values.override_with(&matched);
        if matched.at(row).is_some() {
            // A Match block replaces subsystems by name and leaves the others.
            let mut subsystems = matched.words(row).to_vec();
            subsystems.extend(inherited);
            values.put(row, Value::Words(subsystems));
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

impl ServerOptions {
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
mod tests;
