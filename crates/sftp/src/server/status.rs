//! Errors as STATUS: OpenSSH's codes (errno_to_portable), with the reason as text.

use std::borrow::Cow;
use std::io;

use crate::Code;

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) code: Code,
    text: Option<Cow<'static, str>>,
}

impl Failed {
    /// A code with its own text.
    pub(super) fn code(code: Code) -> Self {
        Self { code, text: None }
    }

    /// A code with another text.
    pub(super) fn new(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            text: Some(text.into()),
        }
    }

    /// The error for an invalid handle.
    pub(super) fn bad_handle() -> Self {
        Self::new(Code::FAILURE, "no such handle")
    }

    /// The text for the user.
    pub(super) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or(self.code.text())
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        let Some(errno) = error.raw_os_error() else {
            return Self::new(Code::FAILURE, error.to_string());
        };
        let code = code_of(errno);
        if matches!(code, Code::NO_SUCH_FILE | Code::PERMISSION_DENIED) && is_plain(errno) {
            return Self::code(code);
        }
        Self::new(code, escape::system_words(&error.to_string()).into_owned())
    }
}

/// errno(3) numbers that are equal on all Linux architectures.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const ENOENT: i32 = 2;
    pub(super) const EBADF: i32 = 9;
    pub(super) const EACCES: i32 = 13;
    pub(super) const EFAULT: i32 = 14;
    pub(super) const ENOTDIR: i32 = 20;
    pub(super) const EINVAL: i32 = 22;
    pub(super) const ENAMETOOLONG: i32 = 36;
    pub(super) const ENOSYS: i32 = 38;
    pub(super) const ELOOP: i32 = 40;
}

fn code_of(number: i32) -> Code {
    match number {
        errno::ENOENT | errno::ENOTDIR | errno::EBADF | errno::ELOOP => Code::NO_SUCH_FILE,
        errno::EPERM | errno::EACCES | errno::EFAULT => Code::PERMISSION_DENIED,
        errno::ENAMETOOLONG | errno::EINVAL => Code::BAD_MESSAGE,
        errno::ENOSYS => Code::OP_UNSUPPORTED,
        _ => Code::FAILURE,
    }
}

/// True if the text of the code says the same.
fn is_plain(number: i32) -> bool {
    matches!(number, errno::ENOENT | errno::EACCES)
}
