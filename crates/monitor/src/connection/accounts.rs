//! Decides which accounts may log in: AllowUsers and related lists, the shell, locks and expiry.
//! The decision does no I/O; the functions at the end look the account up.

use config::pattern::{match_user, matches};
use config::server::{AuthenticationOptions, PermitRootLogin, ServerOptions};

use sys::users::{PasswordState, Shadow};

use crate::log::Log;

use super::chains::ChainMethod;

/// A user's entries in the system's databases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) home: String,
    /// Never empty.
    pub(crate) shell: String,
    /// Supplementary groups, the primary one included.
    pub(crate) groups: Vec<u32>,
    /// Filled only if the configuration needs group names.
    pub(crate) group_names: Vec<String>,
    /// The shadow entry, if this process may read it.
    pub(crate) shadow: Option<Shadow>,
}

/// The client, for lists of users and log lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The peer's host name with UseDNS, else its address.
    pub(crate) host: String,
    pub(crate) address: String,
    pub(crate) port: u16,
    /// The routing domain of the connection, or empty.
    pub(crate) rdomain: String,
    /// Address and port of both ends in the format of SSH_CONNECTION.
    pub(crate) connection: String,
}

/// State of the shell's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShellFile {
    Missing,
    NotExecutable,
    Fine,
}

/// Why an account may not log in. The text is for the log only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denial(pub(crate) String);

impl Account {
    /// Checks whether the account may log in from `peer` at all.
    pub(crate) fn verdict(
        &self,
        options: &ServerOptions,
        peer: &Peer,
        shell: ShellFile,
        today: i64,
    ) -> Result<(), Denial> {
        if !options.authentication.use_pam {
            self.check_locks(today)?;
        }
        if options.session.chroot_directory.is_none() {
            let state = match shell {
                ShellFile::Fine => None,
                ShellFile::Missing => Some("does not exist"),
                ShellFile::NotExecutable => Some("is not executable"),
            };
            if let Some(state) = state {
                return Err(Denial(format!(
                    "User {} not allowed because shell {} {state}",
                    self.name, self.shell
                )));
            }
        }
        self.check_lists(options, peer)
    }

    fn check_locks(&self, today: i64) -> Result<(), Denial> {
        let Some(shadow) = &self.shadow else {
            return Ok(());
        };
        // Debian locks an account with `!`; `*` only means that no password matches.
        if shadow.hash.starts_with('!') {
            return Err(Denial(format!(
                "User {} not allowed because account is locked",
                self.name
            )));
        }
        match shadow.state(today) {
            PasswordState::AccountExpired => {
                Err(Denial(format!("Account {} has expired", self.name)))
            }
            // An old password only affects a login by password (admit::check_account). As in
            // OpenSSH (auth_shadow_pwexpired of auth-shadow.c), a key stays valid.
            PasswordState::Valid
            | PasswordState::ExpiresIn { .. }
            | PasswordState::MustChange
            | PasswordState::PasswordInactive => Ok(()),
        }
    }

    fn check_lists(&self, options: &ServerOptions, peer: &Peer) -> Result<(), Denial> {
        let from = if options.connection.use_dns {
            &peer.host
        } else {
            &peer.address
        };
        let denied = |why: &str| {
            Err(Denial(format!(
                "User {} from {} not allowed because {why}",
                self.name, from
            )))
        };
        let is_meant = |pattern: &String| match_user(&self.name, from, &peer.address, pattern);
        if options.authentication.deny_users.iter().any(is_meant) {
            return denied("listed in DenyUsers");
        }
        if !options.authentication.allow_users.is_empty()
            && !options.authentication.allow_users.iter().any(is_meant)
        {
            return denied("not listed in AllowUsers");
        }
        if options.authentication.deny_groups.is_empty()
            && options.authentication.allow_groups.is_empty()
        {
            return Ok(());
        }
        if self.group_names.is_empty() {
            return denied("not in any group");
        }
        // Each entry is one plain pattern, as in OpenSSH's sshd: a comma or `!` in it has no
        // special meaning.
        let in_list = |patterns: &[String]| {
            patterns
                .iter()
                .any(|pattern| self.group_names.iter().any(|name| matches(name, pattern)))
        };
        if !options.authentication.deny_groups.is_empty()
            && in_list(&options.authentication.deny_groups)
        {
            return denied("a group is listed in DenyGroups");
        }
        if !options.authentication.allow_groups.is_empty()
            && !in_list(&options.authentication.allow_groups)
        {
            return denied("none of user's groups are listed in AllowGroups");
        }
        Ok(())
    }

    /// True if PermitRootLogin permits this user to log in by this method; `forced` is true if a
    /// key forces a command.
    pub(crate) fn root_may(
        &self,
        authentication: &AuthenticationOptions,
        method: ChainMethod,
        forced: bool,
    ) -> bool {
        if self.uid != 0 {
            return true;
        }
        match authentication.permit_root_login {
            PermitRootLogin::Yes => true,
            PermitRootLogin::ProhibitPassword => {
                matches!(
                    method,
                    ChainMethod::Publickey
                        | ChainMethod::Hostbased
                        | ChainMethod::GssapiWithMic
                        | ChainMethod::GssapiKeyex
                )
            }
            PermitRootLogin::ForcedCommandsOnly => method == ChainMethod::Publickey && forced,
            PermitRootLogin::No => false,
        }
    }
}

/// True for a name that may be looked up and expanded into a path: 1 to 256 bytes, neither `.` nor
/// `..`, no leading `-`, no `/` and no control character.
pub(crate) fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 256
        && !matches!(name, "." | "..")
        && !name.starts_with('-')
        && !name.chars().any(|c| c == '/' || c.is_control())
}

/// A name that no account and no principal has, looked up instead of an unsuitable name.
pub(crate) const NO_ONE: &str = "no such user";

/// The name to look up in databases and pass to PAM: `name`, or one that no account has if `name`
/// is unsuitable.
pub(crate) fn known_name(name: &str) -> &str {
    if is_plain_name(name) { name } else { NO_ONE }
}

/// Looks the account up, with the names of its groups if `with_group_names`. The same databases are
/// read whether or not the account exists.
pub(crate) fn look_up(name: &str, with_group_names: bool, log: &Log) -> Option<Account> {
    let asked = known_name(name);
    let found = sys::users::by_name(asked).unwrap_or_else(|error| {
        log.error(&format!("looking up user {name}: {error}"));
        None
    });
    let shadow = if sys::process::is_root() {
        sys::users::shadow::by_name(asked).unwrap_or_else(|error| {
            log.error(&format!("reading the password of {name}: {error}"));
            None
        })
    } else {
        None
    };
    let exists = found.is_some();
    let user = found.unwrap_or_else(decoy);
    // Without group names, DenyGroups would let in users whom it must refuse.
    let groups = if with_group_names {
        sys::users::groups_and_names_of(&user)
    } else {
        sys::users::groups_of(&user).map(|groups| (groups, Vec::new()))
    };
    let (groups, group_names) = match groups {
        Ok(groups) => groups,
        Err(error) => {
            if exists {
                log.error(&format!("looking up the groups of {name}: {error}"));
                return None;
            }
            Default::default()
        }
    };
    exists.then(|| Account {
        uid: user.uid,
        gid: user.gid,
        home: user.home.to_str().unwrap_or("/").to_owned(),
        shell: user.shell.to_str().unwrap_or("/bin/sh").to_owned(),
        groups,
        group_names,
        shadow,
        name: user.name,
    })
}

/// Stand-in for a user who does not exist, so that the same work is done for both.
fn decoy() -> sys::users::User {
    sys::users::User {
        name: NO_ONE.to_owned(),
        password_field: String::new(),
        uid: NOBODY,
        gid: NOBODY,
        gecos: String::new(),
        home: "/nonexistent".into(),
        shell: "/bin/sh".into(),
    }
}

/// Uid and gid of nobody.
pub(crate) const NOBODY: u32 = 65_534;

impl Account {
    /// Stand-in for a user who does not exist: nobody, with a home directory that does not exist.
    pub(crate) fn decoy() -> Self {
        let user = decoy();
        Self {
            name: user.name,
            uid: user.uid,
            gid: user.gid,
            home: "/nonexistent".to_owned(),
            shell: "/bin/sh".to_owned(),
            groups: vec![NOBODY],
            group_names: Vec::new(),
            shadow: None,
        }
    }

    /// The ids for the account's processes and file accesses.
    pub(crate) fn credentials(&self) -> sys::process::Credentials {
        sys::process::Credentials {
            uid: self.uid,
            gid: self.gid,
            groups: self.groups.clone(),
        }
    }
}

/// Returns the state of the shell's file.
pub(crate) fn shell_file(shell: &str) -> ShellFile {
    use std::os::unix::fs::PermissionsExt;
    match std::fs::metadata(shell) {
        Err(_) => ShellFile::Missing,
        Ok(file) if file.is_file() && file.permissions().mode() & 0o111 != 0 => ShellFile::Fine,
        Ok(_) => ShellFile::NotExecutable,
    }
}

#[cfg(test)]
#[path = "accounts_tests.rs"]
mod tests;
