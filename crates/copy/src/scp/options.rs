//! The command line of `scp`.

use std::ffi::OsString;

use flags::CommandLine;
use transfer::options::{Options as CopyOptions, Resume};

use crate::{BadLine, Connector, units};

/// The usage text.
pub const USAGE: &str = "\
usage: scp [-346ABCdOpqRrsTvZ] [-c cipher] [-D sftp_server_path] [-F ssh_config]
           [-i identity_file] [-J destination] [-l limit] [-M server]
           [-n connections] [-o ssh_option] [-P port] [-S program]
           [-X sftp_option] [--atomic] [--json] [--limit rate] [--sparse]
           [--verify] source ... target

  -Z              continue partial files, skip complete ones
  -n connections  copy over several connections
  --atomic        replace a target only when its copy is complete
  --json          report in JSON on standard output
  --limit rate    limit in bytes per second, such as 500k or 20M
  --sparse        write zeros as holes
  --verify        compare both sides afterwards
";

/// Role of the old protocol that the other side started us in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LegacyRole {
    /// `-f`: sends.
    Source,
    /// `-t`: receives.
    Sink,
}

/// The command line, understood.
#[derive(Debug, Clone, Default)]
pub(super) struct ScpOptions {
    pub(super) copy: CopyOptions,
    pub(super) way: Connector,
    pub(super) role: Option<LegacyRole>,
    /// `-d`: the target must be a directory.
    pub(super) target_is_directory: bool,
    /// `-O`
    pub(super) old_protocol: bool,
    /// `-R`: remote to remote without us between.
    pub(super) remote_to_remote: bool,
    /// `-T`: names from the old protocol's other side are not compared with what was asked for.
    pub(super) unchecked_names: bool,
    pub(super) json: bool,
    /// `-P`
    pub(super) port: Option<String>,
    /// `-n`
    pub(super) connections: usize,
    pub(super) operands: Vec<OsString>,
}

impl ScpOptions {
    /// Reads the arguments.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn parse(args: Vec<OsString>) -> Result<Self, BadLine> {
        let mut options = Self {
            connections: 1,
            ..Self::default()
        };
        options.copy.follow_links = true;
        let line = CommandLine::new(flags::SCP, args);
        options.operands = line.read_all(|flag, value| {
            let taken = options.flag(flag, value);
            taken.map_err(|why| BadLine::of(flag, why))
        })?;
        Ok(options)
    }

    /// The first of the flags given that the old protocol, if asked for, cannot carry out.
    pub(super) fn not_with_old_protocol(&self) -> Option<&'static str> {
        let flags = [
            (self.copy.atomic, "--atomic"),
            (self.copy.sparse, "--sparse"),
            (self.copy.verify, "--verify"),
            (self.copy.resume != Resume::Never, "-Z"),
            (self.connections > 1, "-n"),
        ];
        let given = flags.into_iter().find(|(given, _)| *given);
        given.filter(|_| self.old_protocol).map(|(_, flag)| flag)
    }

    fn flag(&mut self, flag: &'static str, value: OsString) -> Result<(), String> {
        if self.way.flag(flag, &value)? {
            return Ok(());
        }
        match flag {
            // The default: remote to remote through us.
            "3" | "7" | "8" => {}
            "B" => self.way.set("BatchMode=yes"),
            "T" => self.unchecked_names = true,
            "d" => self.target_is_directory = true,
            "f" => self.role = Some(LegacyRole::Source),
            "t" => self.role = Some(LegacyRole::Sink),
            "O" => self.old_protocol = true,
            "s" => self.old_protocol = false,
            "p" => self.copy.preserve = true,
            "R" => self.remote_to_remote = true,
            "r" => self.copy.recursive = true,
            "Z" => self.copy.resume = Resume::Proven,
            "atomic" => self.copy.atomic = true,
            "json" => self.json = true,
            "sparse" => self.copy.sparse = true,
            "verify" => self.copy.verify = true,
            "help" => return Err(String::new()),
            _ => self.valued(flag, value)?,
        }
        Ok(())
    }

    fn valued(&mut self, flag: &'static str, value: OsString) -> Result<(), String> {
        let text = value.to_string_lossy().into_owned();
        match flag {
            "M" => self.way.subsystem = Some(value),
            "P" => {
                config::units::parse_port(&text).ok_or_else(|| format!("bad port \"{text}\""))?;
                self.port = Some(text);
                self.way.pass("p", value);
            }
            "limit" => self.copy.limit_bytes = units::rate(&text)?,
            "l" => self.copy.limit_bytes = units::kilobits(&text)?,
            "n" if text == "auto" => self.connections = crate::auto_connections(),
            "n" => {
                self.connections = text
                    .parse()
                    .ok()
                    .filter(|count| (1..=64).contains(count))
                    .ok_or_else(|| {
                        format!("-n: bad number of connections \"{text}\": write 1 to 64 or auto")
                    })?;
            }
            other => return Err(flags::Error::Unknown(other.to_owned()).to_string()),
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
