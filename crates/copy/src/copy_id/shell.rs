//! Logins with `ssh`: which keys are there already, and the command that appends the others.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use super::options::CopyIdOptions;
use super::source::{KeySource, NewKey};
use super::{CopyIdError, Installed, say};

/// Exit status of `ssh` when there was no login, or the connection ended.
const STATUS_NO_LOGIN: i32 = 255;

/// The line that the command prints first: a shell runs it.
const STARTED: &str = "fulmar-copy-id";

/// Appends the keys of standard input, two lines each: the key in base64 and its line of
/// authorized_keys. Prints `+` for a key that it adds, `=` for one that an active line holds. As
/// ssh-copy-id's command, it knows where OpenWrt and Haiku keep the file, ends a last line without
/// newline, and restores the SELinux context. It has neither apostrophes nor line ends, so that any
/// login shell passes it on.
const INSTALL: &str = r##"cd; umask 077; F="TARGET"; [ -f /etc/openwrt_release ] && { [ "$LOGNAME" = root ] || [ "`id -u`" = 0 ]; } && F=/etc/dropbear/authorized_keys; [ "`uname -s`" = Haiku ] && F=config/settings/ssh/authorized_keys; D=`dirname "$F"`; echo STARTED; mkdir -p "$D" && { [ -z "`tail -c 1 "$F" 2>/dev/null`" ] || echo >>"$F"; } && while IFS= read -r b && IFS= read -r k; do if grep -v "^[ 	]*#" "$F" 2>/dev/null | grep -F -e "$b" >/dev/null; then echo =; else printf "%s\n" "$k" >>"$F" || exit 1; echo +; fi; done || exit 1; if type restorecon >/dev/null 2>&1; then restorecon -F "$D" "$F"; fi"##;

/// A word in apostrophes for a POSIX shell.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The remote command, for a file at `target`.
fn command(target: &str) -> String {
    let target = target.chars().fold(String::new(), |mut out, letter| {
        if matches!(letter, '\\' | '"' | '$' | '`') {
            out.push('\\');
        }
        out.push(letter);
        out
    });
    let script = INSTALL
        .replace("STARTED", STARTED)
        .replace("TARGET", &target);
    format!("exec sh -c {}", quoted(&script))
}

/// `ssh` without agent and X11 forwarding, with `first` before the flags of the command line.
fn ssh(options: &CopyIdOptions, first: &[&str]) -> Result<Command, CopyIdError> {
    let program = std::env::current_exe().map_err(|error| failed("this program", &error))?;
    let mut command = Command::new(program);
    command.args(["ssh", "-a", "-x"]).args(first);
    if let Some(port) = &options.port {
        command.arg("-p").arg(port);
    }
    for (flag, value) in &options.settings {
        command.arg(format!("-{flag}")).arg(value);
    }
    command.arg("--").arg(&options.host);
    Ok(command)
}

fn failed(what: &str, error: &io::Error) -> CopyIdError {
    CopyIdError::new(format!("ERROR: {what}: {}", transfer::text::reason(error)))
}

fn trace(options: &CopyIdOptions, command: &Command) {
    if options.trace {
        let words = command.get_args().map(|word| word.to_string_lossy());
        say(&format!("+ {}", words.collect::<Vec<_>>().join(" ")));
    }
}

/// True if this key alone logs in.
pub(super) fn logs_in(
    options: &CopyIdOptions,
    source: &KeySource,
    key: &NewKey,
) -> Result<bool, CopyIdError> {
    let alone = PublicFile::new(key)?;
    let identity = source.private.clone().unwrap_or(alone.path());
    let identity = identity.to_string_lossy();
    let first = [
        "-i",
        &identity,
        "-oControlPath=none",
        "-oLogLevel=INFO",
        "-oPreferredAuthentications=publickey",
        "-oIdentitiesOnly=yes",
    ];
    let mut login = ssh(options, &first)?;
    login.arg("exit").stdin(Stdio::null());
    trace(options, &login);
    let output = login.output().map_err(|error| failed("ssh", &error))?;
    // Any other status is that of the command: the server has let the user in.
    if output.status.code() != Some(STATUS_NO_LOGIN) {
        return Ok(true);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("Permission denied") {
        return Ok(false);
    }
    let lines: Vec<String> = said
        .lines()
        .map(|line| format!("ERROR: {}", line.trim_end()))
        .collect();
    Err(CopyIdError::apart(format!("{}\n", lines.join("\n"))))
}

/// Appends the keys by a command; `None` if no shell has run it.
pub(super) fn install(
    options: &CopyIdOptions,
    keys: &[NewKey],
) -> Result<Option<Installed>, CopyIdError> {
    let mut login = ssh(options, &[])?;
    login.arg(command(&options.target.to_string_lossy()));
    trace(options, &login);
    let mut child = login
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed("ssh", &error))?;
    if let Some(mut input) = child.stdin.take() {
        let lines: String = keys
            .iter()
            .map(|key| format!("{}\n{}\n", key.blob, key.line))
            .collect();
        // What does not read it says so by its end.
        let _ = input.write_all(lines.as_bytes());
    }
    let output = child
        .wait_with_output()
        .map_err(|error| failed("ssh", &error))?;
    judge(
        output.status,
        &String::from_utf8_lossy(&output.stdout),
        keys.len(),
    )
}

fn judge(status: ExitStatus, said: &str, keys: usize) -> Result<Option<Installed>, CopyIdError> {
    let mut lines = said.lines().skip_while(|line| *line != STARTED);
    let started = lines.next().is_some();
    let mut installed = Installed::default();
    for line in lines {
        match line {
            "+" => installed.added += 1,
            "=" => installed.present += 1,
            _ => {}
        }
    }
    match status.code() {
        Some(STATUS_NO_LOGIN) => Err(CopyIdError::new("ERROR: the keys were not installed")),
        _ if !started => Ok(None),
        Some(0) if installed.added + installed.present == keys => Ok(Some(installed)),
        _ => Err(CopyIdError::new(format!(
            "ERROR: {} of {keys} key(s) were added before the server's command failed",
            installed.added
        ))),
    }
}

/// A file with one public key, for `ssh -i`, which has the agent sign with it.
struct PublicFile(PathBuf);

impl PublicFile {
    fn new(key: &NewKey) -> Result<Self, CopyIdError> {
        let digits: String = key
            .blob
            .bytes()
            .rev()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let name = format!("ssh-copy-id-{}-{digits}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let file = Self(folder);
        let shown = file.0.display().to_string();
        let made = DirBuilder::new().mode(0o700).create(&file.0);
        made.map_err(|error| failed(&shown, &error))?;
        fs::write(file.path(), format!("{}\n", key.line))
            .map_err(|error| failed(&shown, &error))?;
        Ok(file)
    }

    fn path(&self) -> PathBuf {
        self.0.join("key.pub")
    }
}

impl Drop for PublicFile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn the_command_survives_any_shell() {
        let command = command("it's \"$HOME\\`x`");
        assert!(!command.contains('\n'));
        assert!(
            command.contains(r#"F="it'\''s \"\$HOME\\\`x\`";"#),
            "{command}"
        );
        assert_eq!(INSTALL.matches('\'').count(), 0);
    }

    #[test]
    fn what_the_command_says_is_counted() {
        let judged = |status: i32, said: &str| judge(ExitStatus::from_raw(status << 8), said, 2);
        let text = format!("noise\n+\n{STARTED}\n+\n=\n");
        let counted = judged(0, &text).unwrap().unwrap();
        assert_eq!(
            counted,
            Installed {
                added: 1,
                present: 1
            }
        );
        assert_eq!(judged(0, "").unwrap(), None);
        assert_eq!(judged(1, "This account is not available\n").unwrap(), None);
        // Neither a lost connection nor a full disk passes for success.
        assert!(judged(255, &text).is_err());
        assert!(judged(1, &text).is_err());
        assert!(judged(0, &format!("{STARTED}\n+\n")).is_err());
    }
}
