//! Password hashes: libcrypt's `crypt_r`, loaded on first use.
//!
//! Passwords are limited to [`MAX_PASSWORD_LEN`] bytes, because hashing time must not grow with a
//! peer's input. The time of a comparison does not depend on where the hashes differ.

use std::ffi::{CString, c_char, c_void};
use std::fmt;
use std::sync::OnceLock;

use zeroize::{Zeroize, Zeroizing};

use crate::dynlib::Library;
use crate::ffi::copy_c_str;

/// Longest password that is hashed, in bytes.
pub const MAX_PASSWORD_LEN: usize = 1024;

/// Size of the state buffer in bytes. `struct crypt_data` is 32 KiB in libxcrypt and 128 KiB in old
/// glibc.
const STATE_LEN: usize = 256 * 1024;

type CryptR = unsafe extern "C" fn(*const c_char, *const c_char, *mut c_void) -> *mut c_char;

/// Why a password could not be hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CryptError {
    /// libcrypt cannot be loaded; the text is the loader's message.
    NoLibrary(String),
    /// The password is too long or contains a NUL byte.
    BadPassword,
    /// libcrypt does not know the method or cannot use the setting.
    BadSetting,
}

impl fmt::Display for CryptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibrary(text) => {
                write!(f, "cannot load libcrypt.so.1 (install libcrypt1): {text}")
            }
            Self::BadPassword => f.write_str("password is too long or holds a NUL byte"),
            Self::BadSetting => f.write_str("unknown password hash method"),
        }
    }
}

impl std::error::Error for CryptError {}

struct Crypt {
    crypt_r: CryptR,
    _library: Library,
}

fn library() -> Result<&'static Crypt, CryptError> {
    static LIBRARY: OnceLock<Result<Crypt, String>> = OnceLock::new();
    let loaded = LIBRARY.get_or_init(|| {
        let library = Library::open(&[c"libcrypt.so.1", c"libcrypt.so.2"])?;
        let symbol = library.symbol(c"crypt_r")?;
        // SAFETY: crypt_r has this signature in every libcrypt (crypt(3)).
        let crypt_r = unsafe { std::mem::transmute::<*mut c_void, CryptR>(symbol.as_ptr()) };
        Ok(Crypt {
            crypt_r,
            _library: library,
        })
    });
    loaded
        .as_ref()
        .map_err(|text| CryptError::NoLibrary(text.clone()))
}

/// Loads libcrypt now, before a chroot or a sandbox.
///
/// # Errors
/// [`CryptError::NoLibrary`].
pub fn preload() -> Result<(), CryptError> {
    library().map(|_| ())
}

/// Hashes `password` with the method, cost and salt of `setting`, which may be a whole hash.
///
/// # Errors
/// [`CryptError`].
pub fn hash(password: &[u8], setting: &str) -> Result<Zeroizing<String>, CryptError> {
    if password.len() > MAX_PASSWORD_LEN {
        return Err(CryptError::BadPassword);
    }
    let crypt = library()?;
    let mut password = terminated(password).ok_or(CryptError::BadPassword)?;
    let setting = CString::new(setting).map_err(|_| CryptError::BadSetting)?;
    // Alignment of u64: the struct starts with integers in every libcrypt.
    let mut state = Zeroizing::new(vec![0_u64; STATE_LEN / 8]);
    // SAFETY: both strings are terminated, the state is zeroed and larger than any
    // known crypt_data.
    let result = unsafe {
        (crypt.crypt_r)(
            password.as_ptr().cast(),
            setting.as_ptr(),
            state.as_mut_ptr().cast(),
        )
    };
    password.zeroize();
    // SAFETY: null or a terminated string inside `state`, which lives.
    let text = unsafe { copy_c_str(result, 1024) }.ok_or(CryptError::BadSetting)?;
    // "*0" and "*1" are failures; libcrypt returns the one that differs from the setting.
    if text.is_empty() || text.first() == Some(&b'*') {
        return Err(CryptError::BadSetting);
    }
    match String::from_utf8(text) {
        Ok(text) => Ok(Zeroizing::new(text)),
        Err(_) => Err(CryptError::BadSetting),
    }
}

fn terminated(password: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    if password.contains(&0) {
        return None;
    }
    let mut copy = Zeroizing::new(Vec::with_capacity(password.len() + 1));
    copy.extend_from_slice(password);
    copy.push(0);
    Some(copy)
}

/// True if `password` matches the hash `stored`. Locked entries (`!…`, `*…`), empty entries and
/// unknown methods match no password; whether an empty hash means "no password" is the caller's
/// decision (`PermitEmptyPasswords`).
///
/// # Errors
/// [`CryptError::NoLibrary`] only; other failures return false.
pub fn verify(password: &[u8], stored: &str) -> Result<bool, CryptError> {
    if stored.is_empty() || stored.starts_with(['!', '*']) {
        return Ok(false);
    }
    match hash(password, stored) {
        Ok(computed) => Ok(equal(computed.as_bytes(), stored.as_bytes())),
        Err(error @ CryptError::NoLibrary(_)) => Err(error),
        Err(_) => Ok(false),
    }
}

/// Compares without stopping at the first difference.
fn equal(left: &[u8], right: &[u8]) -> bool {
    let mut differences = left.len() ^ right.len();
    for (left, right) in left.iter().zip(right) {
        differences |= std::hint::black_box(usize::from(left ^ right));
    }
    differences == 0
}

/// A setting to hash against if the account does not exist, so that the response time is the same:
/// the method and salt of the existing hash `like` (such as root's), else SHA-512 with its default
/// cost. No password matches it.
#[must_use]
pub fn decoy_setting(like: Option<&str>) -> String {
    if let Some(like) = like {
        // $id$[params$]salt$hash: everything except the hash.
        if let Some(end) = like
            .rfind('$')
            .filter(|end| *end > 3 && like.starts_with('$'))
        {
            return like.get(..=end).unwrap_or_default().to_owned();
        }
    }
    "$6$decoydecoydecoy$".to_owned()
}
