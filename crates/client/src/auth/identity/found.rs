//! What the files of keys hold, before the keys are put in order.

use std::path::PathBuf;

use keys::private_file;
use keys::{PresentedKey, PublicKey};

use super::FileBytes;
use crate::log::error;
use crate::text::one_line;

/// The file of a private key, as it was read. Its faults are shown when the key is to sign: an agent may
/// hold it, another key may log in, or the server may refuse it.
#[derive(Clone)]
pub(super) enum PrivateFile {
    /// Its bytes, wiped when dropped.
    Read(FileBytes),
    /// Others can read it; its permissions.
    TooOpen(u32),
    /// It cannot be read, and its `.pub` file gives the public half; the reason.
    Unreadable(String),
}

impl PrivateFile {
    /// The bytes of a file that may sign.
    pub(super) fn bytes(&self) -> Option<&FileBytes> {
        match self {
            Self::Read(bytes) => Some(bytes),
            Self::TooOpen(_) | Self::Unreadable(_) => None,
        }
    }

    /// Tells the user why a file may not sign.
    pub(super) fn complain(&self, path: &str) {
        let path = one_line(path);
        let reason = match self {
            Self::Read(_) => return,
            Self::TooOpen(mode) => {
                let warning = private_file::unprotected_warning(&path, *mode);
                warning.lines().for_each(|line| error!("{line}"));
                "bad permissions"
            }
            Self::Unreadable(reason) => reason,
        };
        error!("Load key \"{path}\": {reason}");
    }
}

/// A key of an identity file, with its public half.
pub(super) struct FileKey {
    pub(super) public: PublicKey,
    pub(super) path: PathBuf,
    pub(super) explicit: bool,
    /// The private key file; without it the key must be in the agent.
    pub(super) private: Option<PrivateFile>,
}

/// A certificate and its file.
pub(super) struct FoundCertificate {
    pub(super) certificate: PresentedKey,
    pub(super) path: PathBuf,
    /// True if it was named as an identity file (`-i`, `IdentityFile`).
    pub(super) is_identity: bool,
}
