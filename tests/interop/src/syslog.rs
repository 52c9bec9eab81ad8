//! A log daemon for one server: its `/dev/log`, and its lines in the format of a log file.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::peers::Running;
use crate::peers::openssh::{in_mount_namespace, start_logging};
use crate::peers::ours::Kind;
use crate::scratch::Scratch;

/// The name of this machine in each line.
const MACHINE: &str = "box";

/// Gives the program after `--` a private `/dev` with this `log`, and replaced files of the
/// machine.
const SCRIPT: &str = r#"
set -e
mount -t tmpfs dev "$1"
for name in null zero full random urandom tty; do
    : >"$1/$name"
    mount --bind "/dev/$name" "$1/$name"
done
mkdir "$1/pts" "$1/shm"
mount --bind /dev/pts "$1/pts"
ln -s pts/ptmx "$1/ptmx"
ln -s "$2" "$1/log"
mount --rbind "$1" /dev
shift 2
while [ "$1" != -- ]; do
    mount --bind "$1" "$2"
    shift 2
done
shift
exec "$@"
"#;

/// The lines that a server and its processes have sent to the log.
#[derive(Debug)]
pub struct Syslog {
    lines: Arc<Mutex<Vec<String>>>,
}

impl Syslog {
    /// Receives messages at `path` until the process ends.
    fn listen(path: &Path) -> Result<Self, String> {
        let socket = UnixDatagram::bind(path).map_err(|error| error.to_string())?;
        // Users log, too.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))
            .map_err(|error| error.to_string())?;
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let taken = Arc::clone(&lines);
        thread::spawn(move || {
            let mut datagram = vec![0; 1 << 16];
            while let Ok(length) = socket.recv(&mut datagram) {
                let text = String::from_utf8_lossy(datagram.get(..length).unwrap_or_default());
                let mut lines = taken.lock().unwrap_or_else(PoisonError::into_inner);
                lines.push(line_of(&text));
            }
        });
        Ok(Self { lines })
    }

    /// The received messages, one line each, as rsyslog writes them.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.lock();
        lines.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// `<PRIORITY>Mmm dd hh:mm:ss TAG: TEXT` as a line of a file.
fn line_of(message: &str) -> String {
    let text = message.split_once('>').map_or(message, |(_, text)| text);
    let (time, rest) = text.split_at_checked(16).unwrap_or(("", text));
    format!("{time}{MACHINE} {}", rest.trim_end_matches(['\0', '\n']))
}

/// Starts a server of this kind with exactly `config`, which logs to the returned log. `places`
/// replace files or directories of the machine for it, each `(theirs, its own)`.
///
/// # Errors
/// When it does not start; without mount namespaces, too.
pub fn start(
    kind: Kind,
    scratch: Scratch,
    config: &str,
    places: &[(&Path, &Path)],
) -> Result<(Running, Syslog), String> {
    let devices = scratch.join("dev");
    std::fs::create_dir(&devices).map_err(|error| error.to_string())?;
    let socket: PathBuf = scratch.join("log");
    let syslog = Syslog::listen(&socket)?;
    let command = in_mount_namespace(kind, SCRIPT, &[&devices, &socket], places)?;
    let running = start_logging(command, kind, scratch, config, false)?;
    Ok((running, syslog))
}
