//! Recorded terminals (RecordTerminals): makes the file and starts the recorder, which writes it. The
//! monitor itself reads and writes nothing of a terminal.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use privsep::roles;
use sys::process::{Child, ExitStatus, SelfExe};

use super::accounts::Account;
use super::has_ended;
use crate::log::Log;

/// Mode of a recording.
const FILE_MODE: u32 = 0o600;
/// Time limit for the recorders of a connection to write the rest of the output.
pub(super) const LAST_WRITE_WAIT: Duration = Duration::from_secs(10);
/// Bytes that must be free for a new recording.
const RESERVED_BYTES: u64 = 4096;
/// Most recordings of one process that begin in the same second: more than it grants terminals.
const MAX_SAME_NAMES: u32 = 256;

/// The recorder of a granted terminal. It ends when the session process has closed its pipe.
#[derive(Debug)]
pub(super) struct Recorder {
    process: Child,
    path: PathBuf,
}

impl Recorder {
    /// Makes a file in `directory` for a terminal of `account` and starts its recorder. Returns the pipe
    /// for the session process, too. `confinement` is an empty directory, and uid and gid of the
    /// recorder; `None` on a server that was not started as root.
    ///
    /// # Errors
    /// Why the terminal cannot be recorded; then it must not be granted.
    pub(super) fn start(
        directory: &Path,
        confinement: Option<&(String, (u32, u32))>,
        executable: &SelfExe,
        account: &Account,
    ) -> Result<(Self, OwnedFd), String> {
        let Some((chroot, (uid, gid))) = confinement else {
            return Err("needs a server that was started as root".to_owned());
        };
        if *uid == account.uid {
            return Err("the user is the one whom recorders run as".to_owned());
        }
        let directory = &checked_directory(directory)?;
        let (path, file) = make_file(directory, &account.name)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        let kept = path.clone();
        let start = || -> io::Result<(Self, OwnedFd)> {
            let (reader, pipe) = sys::io::pipe()?;
            sys::io::set_nonblocking(&pipe, true)?;
            // A smaller pipe makes the session wait more often.
            let _ = sys::io::set_pipe_size(&pipe, roles::RECORDER_PIPE_BYTES);
            let mut command = executable.command()?;
            command
                .args(["fulmar", roles::ROLE_RECORDER, chroot])
                .arg(uid.to_string())
                .arg(gid.to_string())
                .without_stdio()
                .fd(sys::io::null()?, 2)
                .fd(reader, roles::RECORDER_PIPE_FD)
                .fd(file.into(), roles::RECORDER_FILE_FD)
                .new_session();
            let process = command.spawn()?;
            Ok((Self { process, path }, pipe))
        };
        start().map_err(|error| {
            let _ = std::fs::remove_file(&kept);
            format!("{}: {error}", directory.display())
        })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the recorder has ended; then logs why the recording is not complete, if it is not.
    pub(super) fn has_finished(&mut self, log: &Log) -> bool {
        let is_over = has_ended(&mut self.process, Duration::ZERO);
        if is_over {
            self.finish(log, Instant::now());
        }
        is_over
    }

    /// Waits until all is written, after the session process has closed the pipe, or until `deadline`, and
    /// logs why the recording is not complete, if it is not.
    pub(super) fn finish(&mut self, log: &Log, deadline: Instant) {
        let no_space = u8::try_from(roles::exit::NO_SPACE)
            .ok()
            .map(ExitStatus::Exited);
        let left = deadline.saturating_duration_since(Instant::now());
        let why = if !has_ended(&mut self.process, left) {
            // It ends with this process.
            "its disk does not answer".to_owned()
        } else {
            match self.process.wait() {
                Ok(status) if status.is_success() => return,
                Ok(status) if Some(status) == no_space => "no space left on its disk".to_owned(),
                Ok(status) => format!("its recorder ended: {status}"),
                Err(error) => error.to_string(),
            }
        };
        let path = self.path.display();
        log.error(&format!("{path}: the recording is not complete: {why}"));
    }
}

/// The directory without symbolic links, if only root can reach the recordings there.
pub(crate) fn checked_directory(directory: &Path) -> Result<PathBuf, String> {
    let shown = directory.display();
    let real = std::fs::canonicalize(directory).map_err(|error| format!("{shown}: {error}"))?;
    let directory = real.as_path();
    sys::file::secure_root(directory, 0).map_err(|error| format!("{shown}: {error}"))?;
    let metadata = std::fs::metadata(directory).map_err(|error| format!("{shown}: {error}"))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(format!("{shown}: must be for root only (chmod 700)"));
    }
    Ok(real)
}

/// Makes a new file `USER-TIME-PID-NUMBER.cast`.
fn make_file(directory: &Path, user: &str) -> io::Result<(PathBuf, File)> {
    let (seconds, _) = sys::time::realtime();
    let begin = name_begin(user, seconds, sys::process::pid());
    for number in 0..MAX_SAME_NAMES {
        let path = directory.join(format!("{begin}-{number}.cast"));
        match sys::file::create_log(&path, FILE_MODE, RESERVED_BYTES) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// `USER-TIME-PID`, with `_` for every letter of the user's name that could be more than a letter to a
/// shell, and the time as `20261126T141203Z`.
fn name_begin(user: &str, seconds: u64, pid: sys::Pid) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._".contains(letter);
    let plain = |letter| if is_plain(letter) { letter } else { '_' };
    let user: String = user.chars().map(plain).collect();
    let time = sys::time::to_rfc3339(seconds, 0);
    let time = time
        .split('.')
        .next()
        .unwrap_or_default()
        .replace(['-', ':'], "");
    format!("{user}-{time}Z-{pid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_of_a_user_leaves_the_directory_or_means_more_to_a_shell() {
        let seconds = 1_795_701_600;
        assert_eq!(name_begin("ada", seconds, 7), "ada-20261126T140000Z-7");
        assert_eq!(
            name_begin("-x/../\n$y", seconds, 7),
            "_x_..___y-20261126T140000Z-7"
        );
    }
}
