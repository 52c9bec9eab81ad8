//! Reads ssh_config and resolves it for one host, as ssh(1) does.
//!
//! [`ClientConfig`] names the files; [`ClientConfig::resolve`] reads the command line, then the
//! files, and returns [`ClientOptions`]. Lines are carried out in order, because Host and Match
//! depend on earlier settings; `Match final` and `CanonicalizeHostname` cause a second pass.

mod build;
mod canonical;
mod knowledge;
mod matching;
mod methods;
pub(crate) mod options;
mod pass;
mod resolve;
pub(crate) mod table;
pub(crate) mod types;

use std::path::{Path, PathBuf};

pub use options::{
    ControlMaster, ForwardAgent, IdentityAgent, IdentityFile, PipelineLogin, Proxy,
    PubkeyAuthentication, RequestTty, SessionType, StrictHostKeyChecking, Tunnel,
};
pub use table::{
    AlgorithmOptions, AuthenticationOptions, CLIENT_TABLE, ClientOptions, CompressionOptions,
    ConnectionOptions, ForwardingOptions, HostKeyOptions, LimitOptions, LoggingOptions,
    SessionOptions, UserKeyOptions,
};

pub use crate::types::EscapeChar;
pub use types::{AddKeysToAgent, ControlPersist, JumpHost, NameOrVariable, TunnelDevice, YesNoAsk};

use crate::environment::{Files, SystemFiles};

/// The system-wide configuration file.
pub const SYSTEM_FILE: &str = "/etc/ssh/ssh_config";

/// A configuration file and how to treat it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigSource {
    pub(crate) path: PathBuf,
    /// True for a file of the user: relative includes start at ~/.ssh and `~` is expanded.
    pub(crate) of_user: bool,
    /// Refuse the file if others could have written it.
    pub(crate) check_owner: bool,
    /// Fail if it does not exist.
    pub(crate) required: bool,
}

/// The configuration files, and how to read them.
pub struct ClientConfig {
    pub(crate) sources: Vec<ConfigSource>,
    pub(crate) files: Box<dyn Files + Send + Sync>,
    /// Home directory, for relative includes of the user's file.
    pub(crate) home: PathBuf,
    /// True if the CPU has AES instructions (decides which cipher comes first by default).
    pub(crate) aes_hardware: bool,
}

impl ClientConfig {
    /// Reads the user's file and the system's.
    pub fn standard(home: &Path) -> ClientConfig {
        let mut config = ClientConfig::none(home);
        config.sources = vec![
            ConfigSource {
                path: home.join(".ssh/config"),
                of_user: true,
                check_owner: true,
                required: false,
            },
            ConfigSource {
                path: PathBuf::from(SYSTEM_FILE),
                of_user: false,
                check_owner: false,
                required: false,
            },
        ];
        config
    }

    /// Reads only the system's file, for a program that serves others with the system's rights.
    pub fn system() -> ClientConfig {
        let mut config = ClientConfig::none(Path::new("/"));
        config.sources.push(ConfigSource {
            path: PathBuf::from(SYSTEM_FILE),
            of_user: false,
            check_owner: false,
            required: false,
        });
        config
    }

    /// Reads only the file given with `-F`, which must exist; `none` reads no file.
    pub fn from_file(file: &Path, home: &Path) -> ClientConfig {
        let mut config = ClientConfig::none(home);
        if file != Path::new("none") {
            config.sources.push(ConfigSource {
                path: file.to_owned(),
                of_user: true,
                check_owner: false,
                required: true,
            });
        }
        config
    }

    /// Reads no files: only the command line and the defaults count.
    pub fn none(home: &Path) -> ClientConfig {
        ClientConfig {
            sources: Vec::new(),
            files: Box::new(SystemFiles::default()),
            home: home.to_owned(),
            aes_hardware: false,
        }
    }

    /// Reads files through `files`. Set the user's id in [`SystemFiles`] to have the owner of the
    /// user's file checked; the default does not check it.
    pub fn with_files(mut self, files: impl Files + Send + Sync + 'static) -> ClientConfig {
        self.files = Box::new(files);
        self
    }

    /// Sets whether the CPU has AES instructions.
    pub fn with_aes_hardware(mut self, aes_hardware: bool) -> ClientConfig {
        self.aes_hardware = aes_hardware;
        self
    }
}

/// The settings of the command line, in order; they come before those of any file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    pub(crate) settings: Vec<CommandLineSetting>,
    /// The remote command, its words joined with blanks (`Match command`, `Match sessiontype`).
    pub command: Option<String>,
    /// Standard input and output are forwarded to a host and port by the server (`-W`): the
    /// defaults of ExitOnForwardFailure and ClearAllForwardings are then yes.
    pub forwards_stdio: bool,
    /// True if the options are only printed (`-G`): file names of keys that cannot be expanded are
    /// then no error.
    pub only_prints: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandLineSetting {
    /// A line in the form of `-o`.
    Line(String),
    /// A keyword with arguments that need no splitting.
    Words(String, Vec<String>),
}

impl CommandLine {
    /// A command line without settings.
    pub fn new() -> CommandLine {
        CommandLine::default()
    }

    /// Adds an `-o` argument: `Keyword=value` or `Keyword value`.
    pub fn option(&mut self, text: impl Into<String>) {
        self.settings.push(CommandLineSetting::Line(text.into()));
    }

    /// Adds the setting of a flag: a keyword and one argument, which is taken literally, without
    /// quoting (`-p` is `set("Port", …)`, `-l` and `user@` are `set("User", …)`, `-i` is
    /// `set("IdentityFile", …)`).
    pub fn set(&mut self, keyword: &str, argument: impl Into<String>) {
        self.set_words(keyword, vec![argument.into()]);
    }

    /// As [`CommandLine::set`], with several arguments (`-L` is `set_words("LocalForward", …)`).
    pub fn set_words(&mut self, keyword: &str, arguments: Vec<String>) {
        self.settings
            .push(CommandLineSetting::Words(keyword.to_owned(), arguments));
    }
}

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod tests;
