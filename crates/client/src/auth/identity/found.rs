//! What the files of keys hold, before the keys are put in order.

use std::path::PathBuf;

use keys::{PresentedKey, PublicKey};

use super::FileBytes;

/// A key of an identity file, with its public half.
pub(super) struct FileKey {
    pub(super) public: PublicKey,
    pub(super) path: PathBuf,
    pub(super) explicit: bool,
    /// The private key file; without it the key must be in the agent.
    pub(super) private: Option<FileBytes>,
}

/// A certificate and its file.
pub(super) struct FoundCertificate {
    pub(super) certificate: PresentedKey,
    pub(super) path: PathBuf,
    /// True if it was named as an identity file (`-i`, `IdentityFile`).
    pub(super) is_identity: bool,
}
