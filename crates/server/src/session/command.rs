//! Decides what a `shell`, `exec` or `subsystem` request (RFC 4254 §6.5) runs: the user's shell
//! with the command as one string, the login shell if no command is given, or this process's SFTP
//! server.
//!
//! Invariant: a forced command, even an empty one, never becomes a login shell, and `internal-sftp`
//! as a forced command serves only the `subsystem` request.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use config::server::{Subsystem, is_internal_sftp};

/// Longest name of a subsystem in a line of the log, in bytes, as in OpenSSH.
const MAX_LOGGED_BYTES: usize = 100;

/// The client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// `shell`.
    Shell,
    /// `exec` with its command.
    Exec(Vec<u8>),
    /// `subsystem` with its name.
    Subsystem(Vec<u8>),
}

impl Wanted {
    /// The channel's type for ChannelTimeout.
    pub(super) fn channel_label(&self) -> String {
        match self {
            Self::Shell => "session:shell".to_owned(),
            Self::Exec(_) => "session:command".to_owned(),
            Self::Subsystem(name) => {
                format!("session:subsystem:{}", String::from_utf8_lossy(name))
            }
        }
    }
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Launch {
    /// Path of the program.
    pub program: PathBuf,
    /// The arguments; the first is the program's name (`argv[0]`).
    pub argv: Vec<Vec<u8>>,
    /// The client's command if another one is forced.
    pub original_command: Option<Vec<u8>>,
    /// True for the user's login shell.
    pub is_login_shell: bool,
    /// True for a subsystem, before which ~/.ssh/rc does not run.
    pub is_subsystem: bool,
    /// True for a forced command, to which the client may send no signals.
    pub is_forced: bool,
}

/// The action for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommandPlan {
    /// A program runs.
    Run(Launch),
    /// This process serves files.
    InternalSftp(InternalSftp),
    /// `internal-sftp` is forced and the client requested a shell or a command: it gets the message
    /// that only SFTP is served, as in session.c of OpenSSH.
    OnlySftp {
        /// The client's command.
        original_command: Option<Vec<u8>>,
    },
}

/// `internal-sftp` with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InternalSftp {
    /// The words after `internal-sftp`.
    pub arguments: Vec<String>,
    /// True if `internal-sftp` is forced, so that this connection can run nothing else.
    pub is_forced: bool,
    /// Command of the configured subsystem if `internal-sftp` is forced instead of it.
    pub original_command: Option<Vec<u8>>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandRefusal {
    /// No subsystem has this name.
    UnknownSubsystem,
    /// A command with a NUL byte cannot be passed to a shell.
    NulByte,
}

impl CommandRefusal {
    /// The line of the log about what `user` wanted.
    pub(super) fn line(self, wanted: &Wanted, user: &str) -> String {
        match (self, wanted) {
            (Self::UnknownSubsystem, Wanted::Subsystem(name)) => {
                let name = escape::escape_at_most(name, escape::Style::Ascii, MAX_LOGGED_BYTES);
                format!("subsystem request for {name} by user {user} failed, subsystem not found")
            }
            (Self::UnknownSubsystem, _) => "request refused: no such subsystem".to_owned(),
            (Self::NulByte, _) => "request refused: the command contains a NUL byte".to_owned(),
        }
    }
}

/// Decides what a request runs.
///
/// # Errors
/// [`CommandRefusal`].
pub(super) fn plan(
    wanted: &Wanted,
    shell: &str,
    forced: Option<&str>,
    subsystems: &[Subsystem],
) -> Result<CommandPlan, CommandRefusal> {
    let (asked, is_subsystem) = match wanted {
        Wanted::Shell => (None, false),
        Wanted::Exec(command) => (Some(command.clone()), false),
        Wanted::Subsystem(name) => {
            let found = subsystems
                .iter()
                .find(|each| each.name.as_bytes() == name.as_slice());
            let found = found.ok_or(CommandRefusal::UnknownSubsystem)?;
            (Some(found.command.clone().into_bytes()), true)
        }
    };
    if asked.as_ref().is_some_and(|command| command.contains(&0)) {
        return Err(CommandRefusal::NulByte);
    }
    let is_forced = forced.is_some();
    let (command, original_command) = match forced {
        // Even an empty forced command: `sh -c ""` does nothing and is no login shell.
        Some(forced) => (Some(forced.as_bytes().to_vec()), asked),
        // An empty command of the client means a login shell.
        None => (asked.filter(|command| !command.is_empty()), None),
    };
    // Requested as a command, `internal-sftp` means a program of that name.
    let internal = command
        .as_deref()
        .filter(|command| is_internal_sftp(command) && (is_subsystem || is_forced));
    if let Some(command) = internal {
        if !is_subsystem {
            return Ok(CommandPlan::OnlySftp { original_command });
        }
        let mut arguments = words(&String::from_utf8_lossy(command));
        arguments.remove(0);
        return Ok(CommandPlan::InternalSftp(InternalSftp {
            arguments,
            is_forced,
            original_command,
        }));
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
    Ok(CommandPlan::Run(Launch {
        program: PathBuf::from(shell),
        argv,
        original_command,
        is_login_shell: command.is_none(),
        is_subsystem,
        is_forced,
    }))
}

/// The command that runs instead of any other if the password has expired.
pub(super) fn change_password() -> CommandPlan {
    CommandPlan::Run(Launch {
        program: PathBuf::from("/usr/bin/passwd"),
        argv: vec![b"passwd".to_vec()],
        original_command: None,
        is_login_shell: false,
        is_subsystem: false,
        is_forced: true,
    })
}

fn base_name(path: &str) -> Vec<u8> {
    let name = std::path::Path::new(path).file_name();
    name.unwrap_or(OsStr::new("sh")).as_bytes().to_vec()
}

/// Splits a command into words, with quotes and backslashes as in a shell.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = command.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, letter) if letter.is_ascii_whitespace() => words.extend(word.take()),
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
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

    fn run(plan: Result<CommandPlan, CommandRefusal>) -> Launch {
        match plan {
            Ok(CommandPlan::Run(launch)) => launch,
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
    fn an_empty_forced_command_is_no_login_shell() {
        for wanted in [
            Wanted::Shell,
            Wanted::Exec(b"id".to_vec()),
            Wanted::Exec(Vec::new()),
            Wanted::Subsystem(b"sftp".to_vec()),
            Wanted::Subsystem(b"own".to_vec()),
        ] {
            let launch = run(plan(&wanted, "/bin/bash", Some(""), &subsystems()));
            assert_eq!(argv(&launch), ["bash", "-c", ""], "{wanted:?}");
            assert!(launch.is_forced && !launch.is_login_shell, "{wanted:?}");
        }
    }

    #[test]
    fn forced_internal_sftp_serves_the_subsystem_request_alone() {
        for (wanted, original) in [
            (Wanted::Shell, None),
            (Wanted::Exec(Vec::new()), Some("")),
            (
                Wanted::Exec(b"internal-sftp".to_vec()),
                Some("internal-sftp"),
            ),
            (
                Wanted::Exec(b"/usr/lib/openssh/sftp-server".to_vec()),
                Some("/usr/lib/openssh/sftp-server"),
            ),
        ] {
            assert_eq!(
                plan(&wanted, "/bin/sh", Some("internal-sftp -R"), &subsystems()),
                Ok(CommandPlan::OnlySftp {
                    original_command: original.map(|command| command.as_bytes().to_vec())
                }),
                "{wanted:?}"
            );
        }
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        let plan = |wanted: Wanted, forced| plan(&wanted, "/bin/sh", forced, &subsystems());
        assert_eq!(
            plan(Wanted::Subsystem(b"nope".to_vec()), None),
            Err(CommandRefusal::UnknownSubsystem)
        );
        assert_eq!(
            plan(Wanted::Exec(b"a\0b".to_vec()), None),
            Err(CommandRefusal::NulByte)
        );
    }

    #[test]
    fn internal_sftp_is_this_process_unless_a_user_asks_for_it_as_a_command() {
        let plan = |wanted: Wanted, forced| plan(&wanted, "/bin/sh", forced, &subsystems());
        let internal = |arguments: &[&str], original: Option<&str>| {
            let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
            Ok(CommandPlan::InternalSftp(InternalSftp {
                arguments,
                is_forced: original.is_some(),
                original_command: original.map(|command| command.as_bytes().to_vec()),
            }))
        };
        let subsystem = Wanted::Subsystem(b"own".to_vec());
        assert_eq!(plan(subsystem.clone(), None), internal(&[], None));
        for (name, original) in [
            ("own", "internal-sftp"),
            ("sftp", "/usr/lib/openssh/sftp-server -l INFO"),
        ] {
            assert_eq!(
                plan(
                    Wanted::Subsystem(name.into()),
                    Some("internal-sftp -R -d \"/a b\"")
                ),
                internal(&["-R", "-d", "/a b"], Some(original))
            );
        }
        let asked = run(plan(Wanted::Exec(b"internal-sftp".to_vec()), None));
        assert_eq!(argv(&asked), ["sh", "-c", "internal-sftp"]);
        let other = run(plan(subsystem, Some("internal-sftpd")));
        assert_eq!(argv(&other), ["sh", "-c", "internal-sftpd"]);
    }

    #[test]
    fn a_command_is_cut_into_words_as_a_shell_cuts_it() {
        for (command, expected) in [
            ("internal-sftp", &["internal-sftp"][..]),
            (" a  -l\tINFO ", &["a", "-l", "INFO"]),
            (
                r#"a -d "x y" 'p "q' z\ w"#,
                &["a", "-d", "x y", "p \"q", "z w"],
            ),
            (r#"a "" b"#, &["a", "", "b"]),
            (r#"a "b\"c"#, &["a", "b\"c"]),
        ] {
            assert_eq!(words(command), expected);
        }
    }
}
