//! The command line of `sftp`.

use std::ffi::OsString;

use transfer::options::Options as CopyOptions;

use super::command::CopyFlags;
use crate::copy::flags::{Flags, walk};
use crate::copy::{Way, units};

/// How it is used.
/// The usage text.
pub const USAGE: &str = "\
usage: sftp [-46AaCfNpqrv] [-B buffer_size] [-b batchfile] [-c cipher]
          [-D sftp_server_command] [-F ssh_config] [-i identity_file]
          [-J destination] [-l limit] [-o ssh_option] [-P port]
          [-R num_requests] [-S program] [-s subsystem | sftp_server]
          destination
";

/// The command line, understood.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    pub(super) copy: CopyOptions,
    pub(super) way: Way,
    /// What each get and put does.
    pub(super) flags: CopyFlags,
    /// `-b`
    pub(super) batch: Option<OsString>,
    pub(super) quiet: bool,
    pub(super) verbose: u8,
    /// `-N`: as if nothing were quiet.
    pub(super) not_quiet: bool,
    pub(super) operands: Vec<OsString>,
}

impl Options {
    /// Reads the arguments.
    ///
    /// # Errors
    /// What is wrong with them; empty for the usage alone.
    pub(super) fn parse(args: Vec<OsString>) -> Result<Self, String> {
        let mut options = Self::default();
        walk(&mut options, args)?;
        Ok(options)
    }

    fn pass(&mut self, argument: impl Into<OsString>) {
        self.way.options.push(argument.into());
    }
}

impl Flags for Options {
    const PLAIN: &'static [u8] = b"1246afhNpqrvCA";
    const VALUED: &'static [u8] = b"BbcDFiJloPRSsX";

    fn operand(&mut self, operand: OsString) {
        self.operands.push(operand);
    }

    fn plain(&mut self, flag: u8) -> Result<(), String> {
        match flag {
            b'4' => self.pass("-4"),
            b'6' => self.pass("-6"),
            b'C' => self.pass("-C"),
            b'A' => {
                return Err(
                    "-A is not supported yet: agent forwarding belongs to a later version of \
                     Fulmar. Leave the flag out to log in without it."
                        .to_owned(),
                );
            }
            b'a' => self.flags.resume = true,
            b'f' => self.flags.sync = true,
            b'p' => self.flags.preserve = true,
            b'r' => self.flags.recursive = true,
            b'N' => self.not_quiet = true,
            b'q' => {
                self.quiet = true;
                self.way.quiet = true;
            }
            b'v' => {
                self.verbose = self.verbose.saturating_add(1);
                self.way.verbose = true;
                self.pass("-v");
            }
            b'1' => return Err("SSH protocol v.1 is no longer supported".to_owned()),
            b'h' => return Err(String::new()),
            _ => {}
        }
        Ok(())
    }

    fn valued(&mut self, flag: u8, value: OsString) -> Result<(), String> {
        let text = value.to_string_lossy().into_owned();
        match flag {
            b'b' if self.batch.is_some() => return Err("Batch file already specified.".to_owned()),
            b'b' => {
                self.pass("-oBatchMode=yes");
                self.batch = Some(value);
            }
            b'D' => self.way.direct = Some(value),
            b'S' => self.way.program = Some(value.into()),
            b's' => self.way.subsystem = Some(value),
            b'P' => {
                self.pass("-oPort");
                if let Some(last) = self.way.options.last_mut() {
                    last.push("=");
                    last.push(value);
                }
            }
            b'l' => self.copy.limit_bytes = units::kilobits(&text)?,
            b'B' => {
                text.parse::<u32>()
                    .ok()
                    .filter(|bytes| *bytes > 0)
                    .ok_or_else(|| format!("Invalid buffer size \"{text}\""))?;
            }
            b'R' => {
                text.parse::<u32>()
                    .ok()
                    .filter(|count| *count > 0)
                    .ok_or_else(|| format!("Invalid number of requests \"{text}\""))?;
            }
            b'X' => {}
            flag => {
                self.pass(format!("-{}", char::from(flag)));
                self.pass(value);
            }
        }
        Ok(())
    }
}
