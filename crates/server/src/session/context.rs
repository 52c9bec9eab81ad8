//! What all channels of a session share: the monitor, the log, what was granted, and the files
//! that do not change from command to command.

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use config::server::{ServerOptions, UserEnvironment};
use privsep::SessionGrant;

use super::environment::{self, Files};
use super::text;
use crate::log::Logger;
use crate::rpc::Rpc;

/// Shared by all channels.
pub(super) struct Context<'a> {
    pub(super) rpc: &'a Rpc,
    pub(super) log: Logger<'a>,
    pub(super) grant: SessionGrant,
    pub(super) options: Box<ServerOptions>,
    /// The client is OpenSSH or one of ours, and knows OpenSSH's channel requests.
    pub(super) knows_eow: bool,
    /// /etc/nologin as it was before a chroot.
    pub(super) nologin: Option<Vec<u8>>,
    pub(super) time_zone: Option<Vec<u8>>,
    pub(super) auth_info: Option<AuthInfoFile>,
    /// The network socket, for IPQoS.
    pub(super) network: OwnedFd,
    pub(super) next_serial: Cell<u64>,
    /// The log, for what lives in the driver's care.
    pub(super) lasting_log: Logger<'static>,
    /// The umask before internal-sftp set its own, for commands.
    pub(super) umask: Cell<Option<u32>>,
    /// The kernel forbids this process every file but those below SftpRoot.
    pub(super) is_walled: Cell<bool>,
}

impl Context<'_> {
    /// A number that no child and no connection of this process had before.
    pub(super) fn serial(&self) -> u64 {
        let serial = self.next_serial.get();
        self.next_serial.set(serial + 1);
        serial
    }

    /// `USER from ADDRESS port PORT`, for log lines.
    pub(super) fn whose(&self) -> String {
        let grant = &self.grant;
        format!(
            "{} from {} port {}",
            grant.user, grant.remote_address, grant.remote_port
        )
    }

    /// Sets this process's umask; commands get the one that was there.
    pub(super) fn set_umask(&self, mask: u32) {
        let before = sys::process::set_umask(mask);
        if self.umask.get().is_none() {
            self.umask.set(Some(before));
        }
    }

    /// IPQoS for what the last command makes of the connection. A socket that is not IP's has none.
    pub(super) fn set_quality(&self, interactive: bool) {
        let quality = self.options.ip_qos;
        if let Some(tos) = if interactive {
            quality.interactive
        } else {
            quality.bulk
        } {
            let _ = sys::socket::set_tos(&self.network, tos);
        }
    }

    /// Files that add to a command's environment, as they are now.
    pub(super) fn environment_files(&self) -> Files {
        let wanted = self.options.permit_user_environment != UserEnvironment::No;
        let read = |path: &Path| text::read_file(path, environment::MAX_FILE_BYTES);
        Files {
            system: if self.options.use_pam {
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

    /// The text that a user sees instead of a command, if the machine takes no logins now.
    pub(super) fn nologin(&self) -> Option<Vec<u8>> {
        self.nologin
            .clone()
            .or_else(|| text::nologin(self.grant.uid))
    }
}

/// The file of ExposeAuthInfo: how the user authenticated. It goes away with the session.
pub(super) struct AuthInfoFile {
    path: PathBuf,
}

impl AuthInfoFile {
    /// Writes it, readable by the user alone.
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

    /// Its path, for SSH_USER_AUTH.
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
