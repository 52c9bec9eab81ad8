//! What a `shell`, `exec` or `subsystem` request (RFC 4254 §6.5) comes to: always the user's
//! login shell, given the command as one string, unless the plain shell is asked for.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use config::server::Subsystem;

/// What the client asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// `shell`.
    Shell,
    /// `exec` with its command.
    Exec(Vec<u8>),
    /// `subsystem` with its name.
    Subsystem(Vec<u8>),
}

/// What is run for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Launch {
    /// Path of the program.
    pub program: PathBuf,
    /// Its arguments; the first argument is the name that the program is told.
    pub argv: Vec<Vec<u8>>,
    /// Command of the client, when another one is forced on it.
    pub original_command: Option<Vec<u8>>,
    /// The user's login shell, to type at.
    pub is_login_shell: bool,
    /// A subsystem: ~/.ssh/rc is not run before it.
    pub is_subsystem: bool,
    /// A command is forced: signals from the client are refused.
    pub is_forced: bool,
}

/// What is done for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// A program runs.
    Run(Launch),
    /// This process serves files.
    InternalSftp {
        /// Behind the name.
        arguments: Vec<String>,
        /// Nothing else can be asked for on this connection.
        is_forced: bool,
    },
}

/// Why nothing can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No subsystem has this name.
    UnknownSubsystem,
    /// A command with a NUL byte cannot be handed to a shell.
    NulByte,
}

impl Refusal {
    /// For the log.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::UnknownSubsystem => "no such subsystem",
            Self::NulByte => "the command contains a NUL byte",
        }
    }
}

/// Decides what is run.
///
/// # Errors
/// [`Refusal`].
pub(super) fn plan(
    wanted: &Wanted,
    shell: &str,
    forced: Option<&str>,
    subsystems: &[Subsystem],
) -> Result<Plan, Refusal> {
    let (asked, is_subsystem) = match wanted {
        Wanted::Shell => (None, false),
        Wanted::Exec(command) => (Some(command.clone()), false),
        Wanted::Subsystem(name) => {
            let found = subsystems
                .iter()
                .find(|each| each.name.as_bytes() == name.as_slice());
            let found = found.ok_or(Refusal::UnknownSubsystem)?;
            (Some(found.command.clone().into_bytes()), true)
        }
    };
    if asked.as_ref().is_some_and(|command| command.contains(&0)) {
        return Err(Refusal::NulByte);
    }
    let (command, original_command) = match forced {
        Some(forced) => (Some(forced.as_bytes().to_vec()), asked),
        None => (asked, None),
    };
    // An explicit empty command is a login shell to OpenSSH as well.
    let command = command.filter(|command| !command.is_empty());
    // A program of that name that the user asks for is the user's.
    let internal = command
        .as_deref()
        .filter(|command| is_internal_sftp(command) && (is_subsystem || forced.is_some()));
    if let Some(command) = internal {
        let mut words = super::sftp::words(&String::from_utf8_lossy(command));
        words.remove(0);
        return Ok(Plan::InternalSftp {
            arguments: words,
            is_forced: forced.is_some(),
        });
    }
    let name = base_name(shell);
    let argv = match &command {
        Some(command) => vec![name, b"-c".to_vec(), command.clone()],
        None => {
            let mut login = b"-".to_vec();
            login.extend(name);
            vec![login]
        }
    };
    Ok(Plan::Run(Launch {
        program: PathBuf::from(shell),
        argv,
        original_command,
        is_login_shell: command.is_none(),
        is_subsystem,
        is_forced: forced.is_some(),
    }))
}

/// What runs instead of anything else when the password has expired.
pub(super) fn change_password() -> Plan {
    Plan::Run(Launch {
        program: PathBuf::from("/usr/bin/passwd"),
        argv: vec![b"passwd".to_vec()],
        original_command: None,
        is_login_shell: false,
        is_subsystem: false,
        is_forced: true,
    })
}

fn is_internal_sftp(command: &[u8]) -> bool {
    command.split(u8::is_ascii_whitespace).next() == Some(b"internal-sftp")
}

fn base_name(path: &str) -> Vec<u8> {
    let name = std::path::Path::new(path).file_name();
    name.unwrap_or(OsStr::new("sh")).as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subsystems() -> Vec<Subsystem> {
        let entry = |name: &str, command: &str| Subsystem {
            name: name.into(),
            command: command.into(),
        };
        vec![
            entry("sftp", "/usr/lib/openssh/sftp-server -l INFO"),
            entry("own", "internal-sftp"),
        ]
    }

    fn run(plan: Result<Plan, Refusal>) -> Launch {
        match plan {
            Ok(Plan::Run(launch)) => launch,
            other => panic!("{other:?}"),
        }
    }

    fn argv(launch: &Launch) -> Vec<&str> {
        launch
            .argv
            .iter()
            .map(|word| std::str::from_utf8(word).unwrap())
            .collect()
    }

    #[test]
    fn a_shell_is_a_login_shell_and_a_command_goes_through_the_shell() {
        let shell = run(plan(&Wanted::Shell, "/bin/bash", None, &[]));
        assert_eq!(argv(&shell), ["-bash"]);
        assert!(shell.is_login_shell && !shell.is_forced);
        let exec = run(plan(
            &Wanted::Exec(b"ls -l".to_vec()),
            "/bin/bash",
            None,
            &[],
        ));
        assert_eq!(argv(&exec), ["bash", "-c", "ls -l"]);
        assert!(!exec.is_login_shell);
    }

    #[test]
    fn what_is_forced_runs_whatever_the_client_asks_for() {
        for (wanted, original) in [
            (Wanted::Shell, None),
            (Wanted::Exec(b"rm -rf /".to_vec()), Some("rm -rf /")),
            (
                Wanted::Subsystem(b"sftp".to_vec()),
                Some("/usr/lib/openssh/sftp-server -l INFO"),
            ),
        ] {
            let launch = run(plan(&wanted, "/bin/sh", Some("date"), &subsystems()));
            assert_eq!(argv(&launch), ["sh", "-c", "date"]);
            assert_eq!(
                launch.original_command.as_deref(),
                original.map(str::as_bytes)
            );
            assert!(launch.is_forced);
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let plan = |wanted: Wanted, forced| plan(&wanted, "/bin/sh", forced, &subsystems());
        assert_eq!(
            plan(Wanted::Subsystem(b"nope".to_vec()), None),
            Err(Refusal::UnknownSubsystem)
        );
        assert_eq!(
            plan(Wanted::Exec(b"a\0b".to_vec()), None),
            Err(Refusal::NulByte)
        );
    }

    #[test]
    fn internal_sftp_is_this_process_unless_a_user_asks_for_it_as_a_command() {
        let plan = |wanted: Wanted, forced| plan(&wanted, "/bin/sh", forced, &subsystems());
        let internal = |arguments: &[&str], is_forced| {
            let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
            Ok(Plan::InternalSftp {
                arguments,
                is_forced,
            })
        };
        let subsystem = Wanted::Subsystem(b"own".to_vec());
        assert_eq!(plan(subsystem.clone(), None), internal(&[], false));
        assert_eq!(
            plan(Wanted::Shell, Some("internal-sftp -R -d \"/a b\"")),
            internal(&["-R", "-d", "/a b"], true)
        );
        let asked = run(plan(Wanted::Exec(b"internal-sftp".to_vec()), None));
        assert_eq!(argv(&asked), ["sh", "-c", "internal-sftp"]);
        let other = run(plan(subsystem, Some("internal-sftpd")));
        assert_eq!(argv(&other), ["sh", "-c", "internal-sftpd"]);
    }
}
