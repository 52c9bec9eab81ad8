//! Where unprivileged processes run, and as whom.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// The directory that a package or the server makes for the auth process; home of the package's user.
const OWN_DIRECTORY: &str = "/run/fulmar-empty";
/// Empty directories of other programs. That of OpenSSH's service is the last: systemd removes it when the service ends.
const OF_OTHERS: [&str; 3] = ["/var/empty", "/usr/share/empty.sshd", "/run/sshd"];

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
            chroot: empty_directory(OWN_DIRECTORY, OF_OTHERS)?,
            ids: (user.uid, user.gid),
        })
    }
}

/// Returns a directory that is empty and that only root can change: `own`, which is made if there is none, or else one of
/// `others`, which may be removed while this server runs; the sandbox then makes it again.
fn empty_directory(own: &str, others: [&str; 3]) -> Result<String, String> {
    let created = match is_empty_and_ours(own) {
        true => Ok(()),
        // Fails where the service manager gives this server a read-only system.
        false => std::fs::DirBuilder::new().mode(0o755).create(own),
    };
    let mut all = [own].into_iter().chain(others);
    if let Some(found) = all.find(|path| is_empty_and_ours(path)) {
        return Ok(found.to_owned());
    }
    let why = created.err().map_or_else(
        || "it is not empty or not root's alone".to_owned(),
        |error| error.to_string(),
    );
    Err(format!(
        "Missing privilege separation directory: make {own} an empty directory of root ({why})"
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::TempDir;

    #[test]
    fn our_own_directory_comes_first_and_openssh_s_last() {
        if !sys::process::is_root() {
            return;
        }
        let scratch = TempDir::new();
        let path = |name| scratch.path().join(name).display().to_string();
        let (own, openssh_s, missing) = (path("own"), path("sshd"), path("missing"));
        std::fs::create_dir(&openssh_s).unwrap();
        let find = || empty_directory(&own, [&missing, &missing, &openssh_s]);
        assert_eq!(find().as_ref(), Ok(&own));
        assert_eq!(find().as_ref(), Ok(&own));
        std::fs::write(Path::new(&own).join("stranger"), "").unwrap();
        assert_eq!(find().as_ref(), Ok(&openssh_s));
        std::fs::remove_dir(&openssh_s).unwrap();
        assert!(find().unwrap_err().contains(&own));
    }
}
