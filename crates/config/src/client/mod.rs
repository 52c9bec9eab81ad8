//! ssh_config: read and resolved for one host as ssh(1) does.
//!
//! [`ClientConfig`] names the files; [`ClientConfig::resolve`] reads them with the command line in front and gives
//! [`ClientOptions`]. Lines are carried out in order, because Host and Match depend on what was set before; where
//! the configuration asks for it (`Match final`, `CanonicalizeHostname`) a second pass follows.

mod build;
mod canonical;
mod matching;
pub(crate) mod options;
mod pass;
mod resolve;
pub(crate) mod table;

use std::path::{Path, PathBuf};

pub use options::{
    ClientOptions, EscapeChar, IdentityAgent, IdentityFile, JumpHost, PipelineLogin, Proxy,
    PubkeyAuthentication, RequestTty, SessionType, StrictHostKeyChecking, YesNoAsk,
};
pub use table::CLIENT_TABLE;

use crate::environment::{Files, SystemFiles};

/// The system-wide file.
pub const SYSTEM_FILE: &str = "/etc/ssh/ssh_config";

/// A configuration file and how it is treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// A file of the user: relative includes start at ~/.ssh and `~` is expanded.
    pub(crate) of_user: bool,
    /// Refuse the file when others could have written it.
    pub(crate) check_owner: bool,
    /// Fail when it does not exist.
    pub(crate) required: bool,
}

/// Which files are read, and through what.
pub struct ClientConfig {
    pub(crate) sources: Vec<Source>,
    pub(crate) files: Box<dyn Files + Send + Sync>,
    /// Home directory, for relative includes of the user's file.
    pub(crate) home: PathBuf,
    /// Whether the CPU has AES instructions (decides which cipher stands first by default).
    pub(crate) aes_hardware: bool,
}

impl ClientConfig {
    /// The user's file and the system's.
    pub fn standard(home: &Path) -> ClientConfig {
        let mut config = ClientConfig::none(home);
        config.sources = vec![
            Source {
                path: home.join(".ssh/config"),
                of_user: true,
                check_owner: true,
                required: false,
            },
            Source {
                path: PathBuf::from(SYSTEM_FILE),
                of_user: false,
                check_owner: false,
                required: false,
            },
        ];
        config
    }

    /// Only the file given with `-F`, which must exist; `none` reads no file.
    pub fn from_file(file: &Path, home: &Path) -> ClientConfig {
        let mut config = ClientConfig::none(home);
        if file != Path::new("none") {
            config.sources.push(Source {
                path: file.to_owned(),
                of_user: true,
                check_owner: false,
                required: true,
            });
        }
        config
    }

    /// No files: the command line and the defaults.
    pub fn none(home: &Path) -> ClientConfig {
        ClientConfig {
            sources: Vec::new(),
            files: Box::new(SystemFiles::default()),
            home: home.to_owned(),
            aes_hardware: false,
        }
    }

    /// Reads files through `files` instead of the plain file system. Give [`SystemFiles`] the user's id here to
    /// have the owner of the user's file checked.
    pub fn with_files(mut self, files: impl Files + Send + Sync + 'static) -> ClientConfig {
        self.files = Box::new(files);
        self
    }

    /// Says whether the CPU has AES instructions.
    pub fn with_aes_hardware(mut self, aes_hardware: bool) -> ClientConfig {
        self.aes_hardware = aes_hardware;
        self
    }
}

/// What the command line sets, in order; all of it stands before any file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine {
    pub(crate) settings: Vec<Setting>,
    /// The remote command, words joined with blanks (`Match command`, `Match sessiontype`).
    pub command: Option<String>,
    /// Standard input and output go to a host behind the server (`-W`): ExitOnForwardFailure and ClearAllForwardings
    /// are yes where nothing says otherwise.
    pub forwards_stdio: bool,
    /// The options are only printed (`-G`): file names of keys that cannot be expanded are then no error.
    pub only_prints: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// A line as `-o` takes it.
    Line(String),
    /// A keyword with arguments that need no splitting.
    Words(String, Vec<String>),
}

impl CommandLine {
    /// Nothing set.
    pub fn new() -> CommandLine {
        CommandLine::default()
    }

    /// Adds an `-o` argument: `Keyword=value` or `Keyword value`.
    pub fn option(&mut self, text: impl Into<String>) {
        self.settings.push(Setting::Line(text.into()));
    }

    /// Adds what a flag stands for: a keyword and one argument that is taken as it is, without quoting
    /// (`-p` is `set("Port", …)`, `-l` and `user@` are `set("User", …)`, `-i` is `set("IdentityFile", …)`).
    pub fn set(&mut self, keyword: &str, argument: impl Into<String>) {
        self.settings
            .push(Setting::Words(keyword.to_owned(), vec![argument.into()]));
    }
}

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod tests;
