//! Parses the command line of `sshd`, whose flags equal OpenSSH's. Opens no file.

use std::ffi::OsString;
use std::path::PathBuf;

use config::ConnectionSpec;
use lexopt::{Arg, Parser, ValueExt};

/// The operation that the command line selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Listen and serve.
    Serve,
    /// `-i`: serve the one connection on standard input.
    Inetd,
    /// `-t`: check configuration and keys.
    Test,
    /// `-T`: as `-t`, and print the effective configuration, with the Match blocks that apply to
    /// the connection of `-C`.
    Dump,
    /// `-G`: print the configuration without looking at keys.
    Print,
    /// `-V`.
    Version,
}

/// The parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) mode: Mode,
    /// `-C`; several are merged.
    pub(crate) connection: Option<ConnectionSpec>,
    /// `-f`.
    pub(crate) config_file: Option<PathBuf>,
    /// `-o` and the options that other flags set, as lines `Keyword=value` in the order given.
    pub(crate) overrides: Vec<String>,
    /// `-p`: replaces the ports of the configuration file.
    pub(crate) ports: Vec<u16>,
    /// `-D` or `-d`: stay in the foreground.
    pub(crate) foreground: bool,
    /// Number of `-d` flags, at most 3. Above 0, the server serves one connection and logs to
    /// standard error.
    pub(crate) debug: u8,
    /// `-e`.
    pub(crate) log_to_stderr: bool,
    /// `-E`.
    pub(crate) log_file: Option<PathBuf>,
    /// `-q`.
    pub(crate) quiet: bool,
}

/// The usage text.
pub const USAGE: &str = "\
usage: sshd [-46DdeGiqTtV] [-C connection_spec] [-c host_cert_file]
            [-E log_file] [-f config_file] [-g login_grace_time]
            [-h host_key_file] [-o option] [-p port] [-u len]
";

impl Args {
    /// Parses the arguments after the program's name.
    ///
    /// # Errors
    /// The error message for the user.
    pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Self, String> {
        let mut args = Self {
            mode: Mode::Serve,
            connection: None,
            config_file: None,
            overrides: Vec::new(),
            ports: Vec::new(),
            foreground: false,
            debug: 0,
            log_to_stderr: false,
            log_file: None,
            quiet: false,
        };
        let mut parser = Parser::from_args(arguments);
        while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
            match argument {
                Arg::Short(flag) => args.flag(flag, &mut parser)?,
                Arg::Value(value) => {
                    return Err(format!("Extra argument {}.", value.to_string_lossy()));
                }
                Arg::Long(name) => return Err(format!("unknown option -- {name}")),
            }
        }
        Ok(args)
    }

    fn flag(&mut self, flag: char, parser: &mut Parser) -> Result<(), String> {
        let text = |parser: &mut Parser| -> Result<String, String> {
            parser
                .value()
                .map_err(|_| format!("option requires an argument -- {flag}"))?
                .string()
                .map_err(|_| format!("argument of -{flag} is not UTF-8"))
        };
        match flag {
            '4' => self.overrides.push("AddressFamily=inet".to_owned()),
            '6' => self.overrides.push("AddressFamily=inet6".to_owned()),
            'C' => {
                let spec = text(parser)?;
                let added = match &mut self.connection {
                    Some(connection) => connection.add(&spec),
                    None => ConnectionSpec::parse(&spec).map(|new| self.connection = Some(new)),
                };
                added.map_err(|error| error.to_string())?;
            }
            'c' => {
                let file = text(parser)?;
                self.overrides.push(format!("HostCertificate={file}"));
            }
            'D' => self.foreground = true,
            'd' => {
                self.foreground = true;
                self.log_to_stderr = true;
                self.debug = (self.debug + 1).min(3);
            }
            'E' => self.log_file = Some(PathBuf::from(text(parser)?)),
            'e' => self.log_to_stderr = true,
            'f' => self.config_file = Some(PathBuf::from(text(parser)?)),
            'G' => self.mode = Mode::Print,
            'g' => {
                let seconds = text(parser)?;
                self.overrides.push(format!("LoginGraceTime={seconds}"));
            }
            'h' => {
                let file = text(parser)?;
                self.overrides.push(format!("HostKey={file}"));
            }
            'i' => {
                self.mode = Mode::Inetd;
                self.foreground = true;
            }
            'o' => {
                let line = text(parser)?;
                self.overrides.push(line);
            }
            'p' => {
                let port = text(parser)?;
                match port.parse::<u16>() {
                    Ok(port) if port > 0 => self.ports.push(port),
                    _ => return Err("Bad port number.".to_owned()),
                }
            }
            'q' => self.quiet = true,
            'T' => self.mode = Mode::Dump,
            't' => self.mode = Mode::Test,
            // `-r` has no effect: each connection always gets a new process. `-u`, `-b` and `-k`
            // are accepted and ignored.
            'r' => {}
            'u' | 'b' | 'k' => drop(text(parser)?),
            'V' => self.mode = Mode::Version,
            other => return Err(format!("unknown option -- {other}")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Args, String> {
        Args::parse(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn flags_cluster_and_take_values_with_or_without_a_space() {
        let args = parse(&["-Dddep", "2222", "-f/etc/x", "-oUsePAM=no", "-h", "key"]).unwrap();
        assert_eq!(args.mode, Mode::Serve);
        assert_eq!(args.debug, 2);
        assert!(args.foreground && args.log_to_stderr);
        assert_eq!(args.config_file, Some(PathBuf::from("/etc/x")));
        assert_eq!(args.overrides, ["UsePAM=no", "HostKey=key"]);
        assert_eq!(args.ports, [2222]);
    }

    #[test]
    fn a_test_connection_is_put_together_from_several_specs() {
        let args = parse(&[
            "-T",
            "-C",
            "user=ada,addr=192.0.2.1",
            "-Claddr=::1,lport=22,invalid-user",
        ])
        .unwrap();
        assert_eq!(args.mode, Mode::Dump);
        let connection = args.connection.unwrap();
        assert_eq!(connection.user.as_deref(), Some("ada"));
        assert_eq!(connection.local_port, Some(22));
        assert!(!connection.user_exists);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for words in [
            &["-Z"][..],
            &["-p"],
            &["-p", "0"],
            &["-p", "70000"],
            &["stray"],
            &["--long"],
            &["-C", "colour=red"],
            &["-C", "lport=x"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }
}
