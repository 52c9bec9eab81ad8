//! A temporary user of this machine, for tests that run as root.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::process::{Input, installed, processes, run};
use crate::scratch::{Scratch, until};

/// Prefix of all names, followed by the process ID of the test.
const PREFIX: &str = "flmr";

/// An account that is removed, with its home and its processes, when this is dropped.
#[derive(Debug)]
pub struct Guest {
    /// Login name.
    pub name: String,
    /// Its password, if it has one.
    pub password: Option<String>,
    home: Scratch,
}

impl Guest {
    /// An account with a locked password and an empty home.
    ///
    /// # Errors
    /// One line with the reason why there is none.
    pub fn new() -> Result<Self, String> {
        Self::with_shell("/bin/sh")
    }

    /// The same with another shell.
    ///
    /// # Errors
    /// One line with the reason why there is none.
    pub fn with_shell(shell: &str) -> Result<Self, String> {
        if !is_root() {
            return Err("needs root".into());
        }
        if installed("useradd").is_none() {
            return Err("needs useradd".into());
        }
        remove_left_over();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}x{number}", std::process::id());
        let home = Scratch::new();
        let folder = home.path().to_string_lossy().into_owned();
        // "*": no password matches, but the account is not locked, so keys are accepted.
        administer(&[
            "useradd", "-M", "-U", "-d", &folder, "-s", shell, "-p", "*", &name,
        ])?;
        let guest = Self {
            name,
            password: None,
            home,
        };
        let owner = format!("{0}:{0}", guest.name);
        administer(&["chown", &owner, &folder])?;
        fs::set_permissions(guest.home(), fs::Permissions::from_mode(0o700))
            .map_err(|error| error.to_string())?;
        Ok(guest)
    }

    /// Sets its password.
    ///
    /// # Errors
    /// The error of `chpasswd`.
    pub fn set_password(&mut self, password: &str) -> Result<(), String> {
        let line = format!("{}:{password}\n", self.name);
        let mut command = Command::new("chpasswd");
        let outcome = run(
            &mut command,
            Input::Bytes(line.as_bytes()),
            Duration::from_secs(60),
        )
        .map_err(|error| error.to_string())?;
        if outcome.status != 0 {
            return Err(outcome.summary());
        }
        self.password = Some(password.to_owned());
        Ok(())
    }

    /// Its home directory.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Writes a file below its home and creates the directories; all belong to the account.
    ///
    /// # Panics
    /// If that fails.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.home().join(name);
        let parent = path.parent().expect("a file below the home");
        fs::create_dir_all(parent).expect("its folder");
        fs::write(&path, contents).expect("the file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
        let owner = format!("{0}:{0}", self.name);
        let top = name.split('/').next().unwrap_or(name);
        let top = self.home().join(top).to_string_lossy().into_owned();
        administer(&["chown", "-R", &owner, &top]).expect("its owner");
        path
    }

    /// A command that runs `program` as this user, in its home.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args([
                "--reuid",
                &self.name,
                "--regid",
                &self.name,
                "--init-groups",
                "--",
            ])
            .arg(program)
            .env("HOME", self.home())
            .env("USER", &self.name)
            .env("LOGNAME", &self.name)
            .current_dir(self.home());
        command
    }

    /// Processes of this user.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let Some(uid) = uid_of(&self.name) else {
            return Vec::new();
        };
        processes()
            .filter(|pid| uid_of_process(*pid) == Some(uid))
            .collect()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// True if the tests run as root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The name of the user who runs the tests.
///
/// # Panics
/// If that user has no entry in the passwd file.
#[must_use]
pub fn current_user() -> String {
    let uid = rustix::process::geteuid().as_raw();
    passwd()
        .into_iter()
        .find_map(|(name, number)| (number == uid).then_some(name))
        .expect("a name for this user in /etc/passwd")
}

/// The id of a user.
#[must_use]
pub fn uid_of(name: &str) -> Option<u32> {
    passwd()
        .into_iter()
        .find_map(|(entry, uid)| (entry == name).then_some(uid))
}

/// The real user id of a process.
#[must_use]
pub fn uid_of_process(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn passwd() -> Vec<(String, u32)> {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            Some((name.to_owned(), fields.nth(1)?.parse().ok()?))
        })
        .collect()
}

/// Removes accounts whose test was killed before it could remove them.
fn remove_left_over() {
    for (name, _) in passwd() {
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let Some((pid, _)) = rest.split_once('x') else {
            continue;
        };
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            remove(&name);
        }
    }
}

fn remove(name: &str) {
    let Some(uid) = uid_of(name) else { return };
    for pid in processes().filter(|pid| uid_of_process(*pid) == Some(uid)) {
        crate::process::kill(pid);
    }
    let _ = administer(&["userdel", "-f", name]);
}

/// Runs an administrator's command; tries again while the account files are locked.
fn administer(command: &[&str]) -> Result<(), String> {
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let mut last = String::new();
    let done = until(Duration::from_secs(60), || {
        let mut command = Command::new(program);
        command.args(arguments);
        match run(&mut command, Input::Nothing, Duration::from_secs(60)) {
            Ok(outcome) if outcome.status == 0 => {
                last.clear();
                true
            }
            Ok(outcome) => {
                last = outcome.summary();
                // useradd and userdel: only 1, "cannot lock the file", is tried again.
                outcome.status != 1
            }
            Err(error) => {
                last = error.to_string();
                true
            }
        }
    });
    if done && last.is_empty() {
        Ok(())
    } else {
        Err(format!("{}: {last}", command.join(" ")))
    }
}
