//! The command line of `scp`.

use std::ffi::OsString;

use transfer::options::{Options as CopyOptions, Resume};

use crate::copy::flags::{Flags, walk};
use crate::copy::{Way, units};

/// How it is used.
/// The usage text.
pub const USAGE: &str = "\
usage: scp [-346BCdOpqRrsTvZ] [-c cipher] [-D sftp_server_path] [-F ssh_config]
           [-i identity_file] [-J destination] [-l limit] [-M server]
           [-n connections] [-o ssh_option] [-P port] [-S program]
           [-X sftp_option] [--atomic] [--json] [--limit rate] [--sparse]
           [--verify] source ... target

  -Z              go on with files that are there in part, pass over whole ones
  -n connections  copy over several connections
  --atomic        a target is replaced when its copy is complete
  --json          report in JSON on standard output
  --limit rate    at most so many bytes a second, as 500k or 20M
  --sparse        leave holes where there are zeros
  --verify        compare both sides afterwards
";

/// Role of the old protocol that the other side started us in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// `-f`: sends.
    Source,
    /// `-t`: receives.
    Sink,
}

/// The command line, understood.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    pub(super) copy: CopyOptions,
    pub(super) way: Way,
    pub(super) role: Option<Role>,
    /// `-d`: the target must be a directory.
    pub(super) target_is_directory: bool,
    /// `-O`
    pub(super) old_protocol: bool,
    /// `-R`: remote to remote without us between.
    pub(super) remote_to_remote: bool,
    /// `-T`: names from the old protocol's other side are not compared with what was asked for.
    pub(super) unchecked_names: bool,
    pub(super) quiet: bool,
    pub(super) verbose: u8,
    pub(super) json: bool,
    /// `-P`
    pub(super) port: Option<String>,
    /// `-n`
    pub(super) connections: usize,
    pub(super) operands: Vec<OsString>,
}

const LONG: &[(&str, bool)] = &[
    ("atomic", false),
    ("json", false),
    ("limit", true),
    ("sparse", false),
    ("verify", false),
    ("help", false),
];

impl Options {
    /// Reads the arguments.
    ///
    /// # Errors
    /// What is wrong with them; empty for the usage alone.
    pub(super) fn parse(args: Vec<OsString>) -> Result<Self, String> {
        let mut options = Self {
            connections: 1,
            ..Self::default()
        };
        options.copy.follow_links = true;
        walk(&mut options, args)?;
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

    fn pass(&mut self, argument: impl Into<OsString>) {
        self.way.options.push(argument.into());
    }
}

impl Flags for Options {
    const PLAIN: &'static [u8] = b"1234678ABCTdfOpqRrstvZ";
    const VALUED: &'static [u8] = b"DFJMPSXcilon";

    fn operand(&mut self, operand: OsString) {
        self.operands.push(operand);
    }

    fn long(
        &mut self,
        text: &[u8],
        args: &mut dyn Iterator<Item = OsString>,
    ) -> Result<bool, String> {
        let text = String::from_utf8_lossy(text).into_owned();
        let (name, mut value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text.as_str(), None),
        };
        let Some((name, takes)) = LONG.iter().find(|(long, _)| *long == name) else {
            return Err(format!(
                "unknown option -- {}",
                transfer::text::one_line(name)
            ));
        };
        if *takes && value.is_none() {
            value = args
                .next()
                .map(|value| value.to_string_lossy().into_owned());
        }
        match (*name, value) {
            ("limit", Some(value)) => self.copy.limit_bytes = units::rate(&value)?,
            ("limit", None) => return Err("option requires an argument -- limit".to_owned()),
            ("help", _) => return Err(String::new()),
            (name, Some(_)) => return Err(format!("--{name} takes no value")),
            ("atomic", None) => self.copy.atomic = true,
            ("json", None) => self.json = true,
            ("sparse", None) => self.copy.sparse = true,
            ("verify", None) => self.copy.verify = true,
            _ => {}
        }
        Ok(true)
    }

    fn plain(&mut self, flag: u8) -> Result<(), String> {
        match flag {
            b'1' => return Err("SSH protocol v.1 is no longer supported".to_owned()),
            // The default: remote to remote through us.
            b'2' | b'3' | b'7' | b'8' => {}
            b'4' => self.pass("-4"),
            b'6' => self.pass("-6"),
            b'A' => {
                return Err(
                    "-A is not supported yet: agent forwarding belongs to a later version of \
                     Fulmar. Leave the flag out to copy through this machine."
                        .to_owned(),
                );
            }
            b'B' => self.pass("-oBatchMode=yes"),
            b'C' => self.pass("-C"),
            b'T' => self.unchecked_names = true,
            b'd' => self.target_is_directory = true,
            b'f' => self.role = Some(Role::Source),
            b't' => self.role = Some(Role::Sink),
            b'O' => self.old_protocol = true,
            b's' => self.old_protocol = false,
            b'p' => self.copy.preserve = true,
            b'q' => {
                self.quiet = true;
                self.way.quiet = true;
            }
            b'R' => self.remote_to_remote = true,
            b'r' => self.copy.recursive = true,
            b'v' => {
                self.verbose = self.verbose.saturating_add(1);
                self.way.verbose = true;
                self.pass("-v");
            }
            b'Z' => self.copy.resume = Resume::Proven,
            _ => {}
        }
        Ok(())
    }

    fn valued(&mut self, flag: u8, value: OsString) -> Result<(), String> {
        let text = value.to_string_lossy().into_owned();
        match flag {
            b'D' => self.way.direct = Some(value),
            b'S' => self.way.program = Some(value.into()),
            b'M' => self.way.subsystem = Some(value),
            b'P' => {
                self.port = Some(text);
                self.pass("-p");
                self.pass(value);
            }
            b'l' => self.copy.limit_bytes = units::kilobits(&text)?,
            b'n' if text == "auto" => self.connections = crate::copy::auto_connections(),
            b'n' => {
                self.connections = text
                    .parse()
                    .ok()
                    .filter(|count| (1..=64).contains(count))
                    .ok_or_else(|| {
                        format!("-n: bad number of connections \"{text}\": write 1 to 64 or auto")
                    })?;
            }
            // Sizes and numbers of requests follow the connection here.
            b'X' => {}
            flag => {
                self.pass(format!("-{}", char::from(flag)));
                self.pass(value);
            }
        }
        Ok(())
    }
}
