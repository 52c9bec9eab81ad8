//! The local side of a connection: the user and the machine for the configuration, commands in the
//! user's shell, and the change to the background.

use std::cell::OnceCell;
use std::fs;
use std::net::{IpAddr, Ipv6Addr};

use config::environment::{Environment, LocalUser};
use sys::process::ChildCommand;
use sys::users::User;

use crate::children;
use crate::error::ClientError;
use crate::log::{debug1, debug2};
use crate::text::one_line;

/// The shell that runs configured commands: `$SHELL`, else `/bin/sh`.
#[must_use]
pub fn shell() -> std::ffi::OsString {
    std::env::var_os("SHELL")
        .filter(|shell| !shell.is_empty())
        .unwrap_or_else(|| "/bin/sh".into())
}

/// `-f`: the parent process ends with 0 here. As with OpenSSH, the standard streams are `/dev/null`
/// afterwards, so that a program that reads this one's output sees its end; only with `-v` does
/// standard error stay open, for the messages.
pub(crate) fn go_to_background() -> Result<(), ClientError> {
    debug1!("forking to background");
    let system = ClientError::system("fork to the background");
    sys::process::daemonize().map_err(system)?;
    if crate::log::debugs_on_stderr() {
        return Ok(());
    }
    let null = sys::io::null().and_then(|null| sys::io::replace_stdio(null, 2));
    null.map_err(ClientError::system("/dev/null"))
}

/// Runs `line` in the user's shell with this process's standard streams and waits; true for exit
/// status 0.
///
/// # Errors
/// The error text if the shell does not start.
pub fn run_in_shell(line: &str) -> Result<bool, String> {
    let shell = shell();
    let mut command = ChildCommand::new(&shell);
    command
        .arg(&shell)
        .arg("-c")
        .arg(line)
        .inherit_env()
        .inherit_stdio();
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let status = child.wait().map_err(|error| error.to_string())?;
    Ok(status.is_success())
}

/// This machine and this user. The account is looked up once, at the first use.
#[derive(Debug, Default)]
pub struct Here {
    user: OnceCell<Option<User>>,
}

impl Here {
    /// The account of the user who runs the program.
    #[must_use]
    pub fn account(&self) -> Option<&User> {
        self.user
            .get_or_init(|| {
                sys::users::by_uid(sys::process::effective_uid())
                    .ok()
                    .flatten()
            })
            .as_ref()
    }
}

impl Environment for Here {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn local_user(&self) -> LocalUser {
        let uid = sys::process::effective_uid();
        match self.account() {
            Some(user) => LocalUser {
                name: user.name.clone(),
                uid,
                home: user.home.to_string_lossy().into_owned(),
            },
            None => LocalUser {
                name: String::new(),
                uid,
                home: "/".into(),
            },
        }
    }

    fn local_hostname(&self) -> String {
        sys::socket::host_name()
    }

    fn home_of(&self, user: &str) -> Option<String> {
        let user = sys::users::by_name(user).ok()??;
        Some(user.home.to_string_lossy().into_owned())
    }

    fn run_shell(&self, command: &str) -> Result<bool, String> {
        debug1!("Executing command: {}", one_line(command));
        let shell = shell();
        let null = || sys::io::null().map_err(|error| error.to_string());
        let mut spawn = ChildCommand::new(&shell);
        spawn.arg(&shell).arg("-c").arg(command).inherit_env();
        spawn
            .fd(null()?, 0)
            .fd(null()?, 1)
            .fd_shared(sys::io::stderr(), 2);
        let mut child = children::spawn(&mut spawn).map_err(|error| error.to_string())?;
        let status = child.wait().map_err(|error| error.to_string())?;
        children::go_on().map_err(|error| error.to_string())?;
        debug2!("command returned {status}");
        Ok(status.is_success())
    }

    fn local_addresses(&self) -> Vec<IpAddr> {
        let trie = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
        let v6 = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
        let mut found = local_v4(&trie);
        found.extend(local_v6(&v6));
        found
    }

    fn canonical_name(&self, name: &str) -> Option<String> {
        let resolved = sys::socket::resolve(name, 0, sys::socket::Family::Any, true).ok()?;
        Some(resolved.canonical_name.unwrap_or_else(|| name.to_owned()))
    }
}

/// The addresses marked as this machine's own in the kernel's routing trie.
fn local_v4(trie: &str) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut last = None;
    for line in trie.lines() {
        let line = line.trim();
        if let Some((_, address)) = line.split_once("-- ") {
            last = address.trim().parse::<IpAddr>().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = last
            && !found.contains(&address)
        {
            found.push(address);
        }
    }
    found
}

/// The addresses of /proc/net/if_inet6: 32 hexadecimal digits in front of each line.
fn local_v6(text: &str) -> Vec<IpAddr> {
    text.lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| word.len() == 32)
        .filter_map(|word| u128::from_str_radix(word, 16).ok())
        .map(|bits| IpAddr::V6(Ipv6Addr::from(bits)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_read_from_the_kernels_tables() {
        let trie = "Local:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.0\n        /24 link UNICAST\n     \
                    |-- 10.0.0.7\n        /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n";
        assert_eq!(local_v4(trie), ["10.0.0.7".parse::<IpAddr>().unwrap()]);
        let v6 = "fe80000000000000000000000000002a 02 40 20 80     eth0\nbad line\n";
        assert_eq!(local_v6(v6), ["fe80::2a".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn a_shell_commands_status_decides() {
        let here = Here::default();
        assert_eq!(here.run_shell("exit 0"), Ok(true));
        assert_eq!(here.run_shell("exit 3"), Ok(false));
        assert!(!here.local_user().home.is_empty());
    }
}
