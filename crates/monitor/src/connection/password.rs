//! Method `password` without PAM (RFC 4252 §8). Every attempt computes one hash, whether or not the
//! user exists, may log in, or has a password.

use sys::users::{Shadow, crypt};

use crate::log::Log;

/// Longest password that is hashed, in bytes: hashing a megabyte would take seconds.
pub(crate) const MAX_PASSWORD_BYTES: usize = 1024;

/// The stored data that a password is compared with.
pub(crate) struct Stored<'a> {
    /// The user's shadow entry; `None` for a user without one.
    pub(crate) shadow: Option<&'a Shadow>,
    /// An entry whose method and cost are used for users without a hash: [`typical_entry`].
    pub(crate) like: Option<&'a Shadow>,
    /// PermitEmptyPasswords.
    pub(crate) permit_empty: bool,
}

/// True if `password` is the user's password and may be used.
pub(crate) fn check(stored: &Stored<'_>, password: &[u8], log: &Log) -> bool {
    if password.len() > MAX_PASSWORD_BYTES {
        return false;
    }
    let hash = stored.shadow.map(|shadow| shadow.hash.as_str());
    let usable = hash.filter(|hash| !hash.is_empty() && !hash.starts_with(['!', '*']));
    let decoy;
    let setting = match usable {
        Some(hash) => hash,
        None => {
            decoy = crypt::decoy_setting(stored.like.map(|shadow| shadow.hash.as_str()));
            &decoy
        }
    };
    let matched = match crypt::verify(password, setting) {
        Ok(matched) => matched,
        Err(error) => {
            log.error(&format!("passwords cannot be checked: {error}"));
            false
        }
    };
    match usable {
        Some(_) => matched && (stored.permit_empty || !password.is_empty()),
        None => hash == Some("") && password.is_empty() && stored.permit_empty,
    }
}

/// The first shadow entry with a real hash. Most users of a machine have the same hash method, and
/// the computation for an unknown user must take as long.
pub(crate) fn typical_entry() -> Option<Shadow> {
    const SHADOW: &str = "/etc/shadow";
    /// Largest file that is read, in bytes.
    const MAX_SHADOW_BYTES: u64 = 16 << 20;
    let file =
        sys::file::read_bounded(SHADOW, MAX_SHADOW_BYTES, sys::file::FollowLinks::Follow).ok()?;
    let file = zeroize::Zeroizing::new(file);
    first_hashed(&file)
}

fn first_hashed(file: &[u8]) -> Option<Shadow> {
    file.split(|byte| *byte == b'\n')
        .filter_map(|line| sys::users::shadow::parse(line))
        .map(|(_, shadow)| shadow)
        .find(|shadow| shadow.hash.starts_with('$'))
}

#[cfg(test)]
mod tests {
    use privsep::LogLevel;

    use super::*;

    fn shadow(hash: &str) -> Shadow {
        let line = format!("ada:{hash}:19000:0:99999:7:::");
        sys::users::shadow::parse(line.as_bytes()).unwrap().1
    }

    fn try_password(shadow: Option<&Shadow>, permit_empty: bool, password: &[u8]) -> bool {
        let stored = Stored {
            shadow,
            like: None,
            permit_empty,
        };
        check(&stored, password, &Log::to_memory(LogLevel::Info))
    }

    #[test]
    fn the_right_password_and_no_other() {
        let Ok(hash) = crypt::hash(b"correct horse", "$6$rounds=1000$saltsalt") else {
            // A machine without libcrypt has no passwords.
            return;
        };
        let ada = shadow(&hash);
        assert!(try_password(Some(&ada), false, b"correct horse"));
        assert!(!try_password(Some(&ada), false, b"correct horse "));
        assert!(!try_password(Some(&ada), true, b""));
        assert!(!try_password(Some(&ada), false, &vec![b'x'; 1 << 20]));
    }

    #[test]
    fn locked_and_missing_entries_match_nothing() {
        for hash in ["!", "*", "!!", "!$6$x$y", "x", "$6$", "garbage"] {
            let entry = shadow(hash);
            for password in [&b""[..], b"!", b"*", b"x", hash.as_bytes()] {
                assert!(!try_password(Some(&entry), true, password), "{hash}");
            }
        }
        for password in [&b""[..], b"x"] {
            assert!(!try_password(None, true, password));
        }
    }

    #[test]
    fn the_decoy_is_hashed_like_the_first_user_with_a_hash() {
        let file = b"root:*:19000:0:99999:7:::\n\
            daemon:!$6$locked$x:19000:0:99999:7:::\n\
            ada:$y$j9T$salt$hash:19000:0:99999:7:::\n\
            bob:$6$salt$hash:19000:0:99999:7:::\n";
        let found = first_hashed(file).unwrap();
        assert_eq!(found.hash.as_str(), "$y$j9T$salt$hash");
        assert_eq!(crypt::decoy_setting(Some(&found.hash)), "$y$j9T$salt$");
        assert_eq!(first_hashed(b"root:*:19000:0:99999:7:::\ngarbage"), None);
    }

    #[test]
    fn an_empty_password_needs_permission() {
        let open = shadow("");
        assert!(try_password(Some(&open), true, b""));
        assert!(!try_password(Some(&open), false, b""));
        assert!(!try_password(Some(&open), true, b"x"));
    }
}
