//! State shared by all channels of a session: the monitor, the log, the grant, and files that are
//! the same for every command.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use config::server::{ServerOptions, UserEnvironment};
use privsep::SessionGrant;

use super::environment::{self, EnvironmentFiles};
use super::text::{self, Nologin};
use super::title;
use crate::log::Logger;
use crate::rpc::Rpc;

/// State shared by all channels.
pub(super) struct Context<'a> {
    pub(super) rpc: &'a Rpc,
    pub(super) log: Logger<'a>,
    pub(super) grant: SessionGrant,
    pub(super) options: Box<ServerOptions>,
    /// True if the client is OpenSSH or Fulmar and knows `eow@openssh.com`.
    pub(super) knows_eow: bool,
    /// True if the client sends SYMLINK in the order of the draft (`proto::Quirks::links_by_draft`).
    pub(super) links_by_draft: bool,
    /// /etc/nologin, read before a chroot.
    pub(super) nologin: Option<Nologin>,
    pub(super) time_zone: Option<Vec<u8>>,
    pub(super) auth_info: Option<AuthInfoFile>,
    /// The network socket, for IPQoS.
    pub(super) network: OwnedFd,
    pub(super) next_serial: Cell<u64>,
    /// The log, for endpoints that the driver owns.
    pub(super) lasting_log: Logger<'static>,
    /// The original umask, for commands, if internal-sftp has changed it.
    pub(super) umask: Cell<Option<u32>>,
    /// Path of the socket for the client's agent, if there is one.
    pub(super) agent_socket: OnceCell<Vec<u8>>,
    /// True if Landlock confines this process to SftpRoot.
    pub(super) is_walled: Cell<bool>,
    /// Network interfaces of the client's tunnels, for SSH_TUNNEL.
    pub(super) tunnels: RefCell<Vec<String>>,
    /// Paths of the terminals of all channels.
    pub(super) terminals: RefCell<Vec<String>>,
}

impl Context<'_> {
    /// Returns a new serial, unique among the children and connections of this process.
    pub(super) fn serial(&self) -> u64 {
        let serial = self.next_serial.get();
        self.next_serial.set(serial + 1);
        serial
    }

    /// Shows in `ps` the terminals that the user has; to be called where that changes, and where a command begins without one.
    pub(super) fn show_terminals(&self) {
        title::show(&self.grant.user, Some(&self.terminals.borrow()));
    }

    /// `USER from ADDRESS port PORT`, for log lines.
    pub(super) fn whose(&self) -> String {
        format!("{} from {}", self.grant.user, self.peer())
    }

    /// `ADDRESS port PORT`, for log lines.
    pub(super) fn peer(&self) -> String {
        let grant = &self.grant;
        format!("{} port {}", grant.remote_address, grant.remote_port)
    }

    /// Sets this process's umask; commands still get the original one.
    pub(super) fn set_umask(&self, mask: u32) {
        let before = sys::process::set_umask(mask);
        if self.umask.get().is_none() {
            self.umask.set(Some(before));
        }
    }

    /// Sets the socket's type of service (IPQoS). Errors are ignored: a socket that is not IP has no
    /// such option.
    pub(super) fn set_quality(&self, interactive: bool) {
        let quality = self.options.connection.ip_qos;
        if let Some(tos) = if interactive {
            quality.interactive
        } else {
            quality.bulk
        } {
            let _ = sys::socket::set_tos(&self.network, tos);
        }
    }

    /// Reads the files that add to a command's environment.
    pub(super) fn environment_files(&self) -> EnvironmentFiles {
        let wanted = self.options.session.permit_user_environment != UserEnvironment::No;
        let read = |path: &Path| text::read_file(path, environment::MAX_FILE_BYTES);
        EnvironmentFiles {
            system: if self.options.authentication.use_pam {
                None
            } else {
                read(Path::new("/etc/environment"))
            },
            user: if wanted {
                read(&Path::new(&self.grant.home).join(".ssh/environment"))
            } else {
                None
            },
            time_zone: self.time_zone.clone(),
        }
    }

    /// The text of /etc/nologin, shown instead of running a command, if it applies to the user now,
    /// which is logged.
    pub(super) fn nologin(&self) -> Option<Vec<u8>> {
        let found = self
            .nologin
            .clone()
            .or_else(|| text::nologin(self.grant.uid))?;
        let (user, path) = (&self.grant.user, found.path);
        self.log
            .info(&format!("User {user} not allowed because {path} exists"));
        Some(found.text)
    }
}

/// The file of ExposeAuthInfo, which lists how the user authenticated. It is deleted on drop.
pub(super) struct AuthInfoFile {
    path: PathBuf,
}

impl AuthInfoFile {
    /// Creates the file with mode 0600.
    pub(super) fn create(text: &str) -> std::io::Result<Self> {
        let mut random = [0_u8; 10];
        crypto::random::fill(&mut random);
        let suffix: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = PathBuf::from(format!("/tmp/sshauth.{suffix}"));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        file.write_all(text.as_bytes())?;
        Ok(Self { path })
    }

    /// The path, for SSH_USER_AUTH.
    pub(super) fn path(&self) -> Option<&str> {
        self.path.to_str()
    }
}

impl Drop for AuthInfoFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_auth_info_file_is_the_users_alone_and_goes_away() {
        let file = AuthInfoFile::create("publickey ssh-ed25519 AAAA\n").unwrap();
        let path = file.path().unwrap().to_owned();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "publickey ssh-ed25519 AAAA\n"
        );
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        drop(file);
        assert!(!Path::new(&path).exists());
    }
}
