//! Fulmar's binary, and the switch that replaces it by OpenSSH.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::fixture::target_folder;
use crate::process::installed;

/// The two suites with `ssh` and `sshd` of the same flags and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Fulmar.
    Fulmar,
    /// The installed OpenSSH.
    OpenSsh,
}

impl Kind {
    /// The tested suite: Fulmar, unless the environment selects OpenSSH.
    #[must_use]
    pub fn tested() -> Self {
        match std::env::var("INTEROP_OURS").as_deref() {
            Ok("openssh") => Self::OpenSsh,
            _ => Self::Fulmar,
        }
    }

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fulmar => "fulmar",
            Self::OpenSsh => "openssh",
        }
    }

    /// Its client, without arguments.
    ///
    /// # Errors
    /// If it is not installed.
    pub fn ssh(self) -> Result<Command, String> {
        self.program("ssh")
    }

    /// Its server, without arguments.
    ///
    /// # Errors
    /// If it is not installed.
    pub fn sshd(self) -> Result<Command, String> {
        self.program("sshd")
    }

    fn program(self, name: &str) -> Result<Command, String> {
        match self {
            Self::Fulmar => {
                let mut command = Command::new(binary());
                command.arg(name);
                Ok(command)
            }
            // With its absolute path, which sshd needs to execute itself again.
            Self::OpenSsh => installed(name)
                .map(Command::new)
                .ok_or_else(|| format!("{name} is not installed")),
        }
    }
}

/// Installed pairs of client and server with at least one of Fulmar's.
#[must_use]
pub fn couples() -> Vec<(Kind, Kind)> {
    use Kind::{Fulmar, OpenSsh};
    if Kind::tested() == OpenSsh {
        return vec![(OpenSsh, OpenSsh)];
    }
    [(Fulmar, Fulmar), (OpenSsh, Fulmar), (Fulmar, OpenSsh)]
        .into_iter()
        .filter(|(client, server)| {
            let (client, server) = (client.ssh(), server.sshd());
            for missing in [client.as_ref().err(), server.as_ref().err()]
                .into_iter()
                .flatten()
            {
                crate::report::skipped("openssh", missing);
            }
            client.is_ok() && server.is_ok()
        })
        .collect()
}

/// Fulmar's binary: the one that `FULMAR_BIN` names, else the release build, which is made if
/// necessary.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        crate::process::hear_signals();
        built("release", "release")
    })
}

/// The same, else the development build.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn development_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| built("dev", "debug"))
}

/// The build of a profile, which cargo writes to `folder`.
fn built(profile: &str, folder: &str) -> PathBuf {
    if let Some(path) = std::env::var_os("FULMAR_BIN") {
        return PathBuf::from(path).canonicalize().expect("FULMAR_BIN");
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "-p", "cli", "--profile", profile])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "cargo build -p cli --profile {profile}"
    );
    let path = target_folder().join(folder).join("fulmar");
    path.canonicalize().expect("the binary that was built")
}
