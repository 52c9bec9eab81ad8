//! Private directories and ports of a test, and waiting for conditions.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use sys::socket::is_listening;

/// Prefix of all scratch directories, followed by the process ID and a number.
const PREFIX: &str = "fulmar-interop-";

/// A directory that is removed with its contents when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A new directory (mode 0755, so that servers of other users can read below it).
    ///
    /// # Panics
    /// If the directory for temporary files is not writable.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        static SWEEP: Once = Once::new();
        SWEEP.call_once(remove_left_over);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a directory for temporary files");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        Self { path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of `name` in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file of mode 0600 in it and returns its path.
    ///
    /// # Panics
    /// When that fails.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, contents).expect("a file in the scratch directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
        path
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes directories, and ends servers whose files are in them, of a test that was killed before
/// it could do so.
fn remove_left_over() {
    for entry in fs::read_dir(std::env::temp_dir())
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((pid, _)) = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('-'))
        else {
            continue;
        };
        if pid.parse::<u32>().is_err() || Path::new("/proc").join(pid).exists() {
            continue;
        }
        let path = entry.path().to_string_lossy().into_owned();
        for process in crate::process::processes() {
            let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&line).contains(&format!("{path}/")) {
                crate::process::kill(process);
            }
        }
        let _ = fs::remove_dir_all(path);
    }
}

/// A loopback port for a server ([`sys::socket::free_port`]).
///
/// # Panics
/// If there is none.
#[must_use]
pub fn free_port() -> u16 {
    sys::socket::free_port().expect("a free port")
}

/// Shell functions for scripts that run a server and log in as the user `$GUEST`:
/// `start_server LOG COMMAND…` starts the server and returns when it listens, or ends the script with
/// status 94 after a minute; `as_guest COMMAND…` runs a command as the user, without an agent;
/// `end_with STATUS` stops the server and ends the script.
pub const SHELL_FUNCTIONS: &str = r#"
start_server() {
    log=$1
    shift
    "$@" 2>"$log" &
    server=$!
    tries=0
    until grep -q "Server listening" "$log"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || exit 94
        sleep 0.1
    done
}
as_guest() {
    setpriv --reuid="$GUEST" --regid="$GUEST" --clear-groups \
        env -u SSH_AUTH_SOCK HOME="$GUEST_HOME" "$@"
}
end_with() {
    kill $server
    wait $server
    exit $1
}
"#;

/// Calls `condition` until it is true; returns false after `limit`.
pub fn until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_micros(500);
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Runs `attempt` until it succeeds or `limit` is over, and returns its last result.
///
/// # Errors
/// The last error.
pub fn retry<T>(limit: Duration, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut last = attempt();
    until(limit, || {
        if last.is_err() {
            last = attempt();
        }
        last.is_ok()
    });
    last
}
