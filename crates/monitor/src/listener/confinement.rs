//! Where unprivileged processes run, and as whom.

use std::path::Path;

/// The directory that a package or the server makes for the auth process; home of the package's user.
const OWN_DIRECTORY: &str = "/run/fulmar-empty";

/// The auth process's chroot directory, and its uid and gid.
#[derive(Debug, Clone)]
pub(crate) struct Confinement {
    pub(crate) chroot: String,
    pub(crate) ids: (u32, u32),
}

impl Confinement {
    /// Finds the machine's empty directory and unprivileged user.
    ///
    /// # Errors
    /// The error message for the user.
    pub(crate) fn find() -> Result<Self, String> {
        // The user that a package makes has this home; another one of its name may be a person.
        let is_usable = |user: &sys::users::User| {
            user.uid != 0 && (user.name != "fulmar" || user.home == Path::new(OWN_DIRECTORY))
        };
        let user = ["fulmar", "sshd", "nobody"]
            .into_iter()
            .filter_map(|name| sys::users::by_name(name).ok().flatten())
            .find(is_usable)
            .ok_or("Privilege separation user sshd does not exist")?;
        Ok(Self {
            chroot: empty_directory()?,
            ids: (user.uid, user.gid),
        })
    }
}

/// Returns a directory that is empty and that only root can change.
fn empty_directory() -> Result<String, String> {
    const CANDIDATES: [&str; 3] = ["/run/sshd", "/var/empty", "/usr/share/empty.sshd"];
    if let Some(found) = CANDIDATES.into_iter().find(|path| is_empty_and_ours(path)) {
        return Ok(found.to_owned());
    }
    let created = std::fs::create_dir(OWN_DIRECTORY);
    if is_empty_and_ours(OWN_DIRECTORY) {
        return Ok(OWN_DIRECTORY.to_owned());
    }
    let why = created.err().map_or_else(
        || "it is not empty or not root's alone".to_owned(),
        |error| error.to_string(),
    );
    Err(format!(
        "Missing privilege separation directory: make {OWN_DIRECTORY} an empty directory of root ({why})"
    ))
}

fn is_empty_and_ours(path: &str) -> bool {
    use std::os::unix::fs::MetadataExt;
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return false;
    };
    found.is_dir()
        && found.uid() == 0
        && found.mode() & 0o022 == 0
        && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}
