//! Parses the command line of `sshd`, whose flags equal OpenSSH's. Opens no file.

use std::ffi::OsString;
use std::path::PathBuf;

use config::ConnectionSpec;
use flags::{CommandLine, Word};

/// The operation that the command line selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerMode {
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
    pub(crate) mode: ListenerMode,
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
            mode: ListenerMode::Serve,
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
        let mut line = CommandLine::new(flags::SSHD, arguments);
        while let Some(word) = line.next()? {
            match word {
                Word::Flag(flag, value) => {
                    let value = value
                        .into_string()
                        .map_err(|_| format!("argument of -{flag} is not UTF-8"))?;
                    args.flag(flag, value)?;
                }
                Word::Operand(operand) => {
                    let operand = escape::one_line(operand.as_encoded_bytes());
                    return Err(format!("Extra argument {operand}."));
                }
            }
        }
        Ok(args)
    }

    fn flag(&mut self, flag: &str, value: String) -> Result<(), String> {
        match flag {
            "4" => self.overrides.push("AddressFamily=inet".to_owned()),
            "6" => self.overrides.push("AddressFamily=inet6".to_owned()),
            "C" => {
                let added = match &mut self.connection {
                    Some(connection) => connection.add(&value),
                    None => ConnectionSpec::parse(&value).map(|new| self.connection = Some(new)),
                };
                added.map_err(|error| error.to_string())?;
            }
            "c" => self.overrides.push(format!("HostCertificate={value}")),
            "D" => self.foreground = true,
            "d" => {
                self.foreground = true;
                self.log_to_stderr = true;
                self.debug = (self.debug + 1).min(3);
            }
            "E" => self.log_file = Some(PathBuf::from(value)),
            "e" => self.log_to_stderr = true,
            "f" => self.config_file = Some(PathBuf::from(value)),
            "G" => self.mode = ListenerMode::Print,
            "g" if config::units::parse_seconds(&value).is_none() => {
                return Err("Invalid login grace time.".to_owned());
            }
            "g" => self.overrides.push(format!("LoginGraceTime={value}")),
            "h" => self.overrides.push(format!("HostKey={value}")),
            "i" => {
                self.mode = ListenerMode::Inetd;
                self.foreground = true;
            }
            // As in OpenSSH, such an option ends sshd with 1, and one with a bad value with 255.
            "o" => {
                config::server::check_option(&value)?;
                self.overrides.push(value);
            }
            "p" => match value.parse::<u16>() {
                Ok(port) if port > 0 => self.ports.push(port),
                _ => return Err("Bad port number.".to_owned()),
            },
            "q" => self.quiet = true,
            "T" => self.mode = ListenerMode::Dump,
            "t" => self.mode = ListenerMode::Test,
            "V" => self.mode = ListenerMode::Version,
            // A connection always gets a process of its own (`-r`); the others have no effect, in
            // OpenSSH 10.6 either.
            "b" | "k" | "Q" | "r" | "u" => {}
            other => return Err(flags::Error::Unknown(other.to_owned()).to_string()),
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
    fn each_flag_of_the_table_is_known() {
        for flag in flags::SSHD {
            let parsed = parse(&[&format!("-{}", flag.name), "user=1"]);
            let is_unknown = |why: &String| why.starts_with("unknown option");
            assert!(!parsed.as_ref().is_err_and(is_unknown), "{parsed:?}");
        }
    }

    #[test]
    fn flags_cluster_and_take_values_with_or_without_a_space() {
        let args = parse(&["-DdderQp", "2222", "-f/etc/x", "-oUsePAM=no", "-h", "key"]).unwrap();
        assert_eq!(args.mode, ListenerMode::Serve);
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
        assert_eq!(args.mode, ListenerMode::Dump);
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
            &["-o", "Foo=1"],
            &["-o", "Port"],
            &["-g", "x"],
        ] {
            assert!(parse(words).is_err(), "{words:?}");
        }
        // Bad values are found with the file's.
        assert!(parse(&["-o", "Port=x"]).is_ok());
    }
}
