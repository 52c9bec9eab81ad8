//! The command line of `sftp`.

use std::ffi::OsString;

use flags::CommandLine;
use transfer::options::Options as CopyOptions;

use super::command::CopyFlags;
use crate::{BadLine, Connector, units};

/// The usage text.
pub const USAGE: &str = "\
usage: sftp [-46AaCfNpqrv] [-B buffer_size] [-b batchfile] [-c cipher]
          [-D sftp_server_command] [-F ssh_config] [-i identity_file]
          [-J destination] [-l limit] [-o ssh_option] [-P port]
          [-R num_requests] [-S program] [-s subsystem | sftp_server]
          [-X sftp_option] destination
";

/// The command line, understood.
#[derive(Debug, Clone, Default)]
pub(super) struct SftpOptions {
    pub(super) copy: CopyOptions,
    pub(super) way: Connector,
    /// What each get and put does.
    pub(super) flags: CopyFlags,
    /// `-b`
    pub(super) batch: Option<OsString>,
    /// `-N`: as if nothing were quiet.
    pub(super) not_quiet: bool,
    pub(super) operands: Vec<OsString>,
}

impl SftpOptions {
    /// Reads the arguments.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn parse(args: Vec<OsString>) -> Result<Self, BadLine> {
        let mut options = Self::default();
        let line = CommandLine::new(flags::SFTP, args);
        options.operands = line.read_all(|flag, value| {
            let taken = options.flag(flag, value);
            taken.map_err(|why| BadLine::of(flag, why))
        })?;
        Ok(options)
    }

    fn flag(&mut self, flag: &'static str, value: OsString) -> Result<(), String> {
        if self.way.flag(flag, &value)? {
            return Ok(());
        }
        match flag {
            "a" => self.flags.resume = true,
            "f" => self.flags.sync = true,
            "p" => self.flags.preserve = true,
            "r" => self.flags.recursive = true,
            "N" => self.not_quiet = true,
            "h" => return Err(String::new()),
            _ => self.valued(flag, value)?,
        }
        Ok(())
    }

    fn valued(&mut self, flag: &'static str, value: OsString) -> Result<(), String> {
        let text = value.to_string_lossy().into_owned();
        match flag {
            "b" if self.batch.is_some() => return Err("Batch file already specified.".to_owned()),
            "b" => {
                self.way.set("BatchMode=yes");
                self.batch = Some(value);
            }
            "s" => self.way.subsystem = Some(value),
            "P" => {
                config::units::parse_port(&text).ok_or_else(|| format!("Bad port \"{text}\""))?;
                let mut line = OsString::from("Port=");
                line.push(value);
                self.way.set(line);
            }
            "l" => self.copy.limit_bytes = units::kilobits(&text)?,
            "B" | "R" => {
                let number = text.parse::<u32>().ok();
                if number.is_none_or(|number| number == 0) {
                    let what = if flag == "B" {
                        "buffer size"
                    } else {
                        "number of requests"
                    };
                    return Err(format!("Invalid {what} \"{text}\""));
                }
            }
            other => return Err(flags::Error::Unknown(other.to_owned()).to_string()),
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
