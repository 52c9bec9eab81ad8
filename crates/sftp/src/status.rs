//! Results of requests: SSH_FX_* (draft §7).

/// SSH_FX_*; numbers that the draft does not define are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u32);

impl Code {
    /// SSH_FX_OK
    pub const OK: Self = Self(0);
    /// SSH_FX_EOF
    pub const EOF: Self = Self(1);
    /// SSH_FX_NO_SUCH_FILE
    pub const NO_SUCH_FILE: Self = Self(2);
    /// SSH_FX_PERMISSION_DENIED
    pub const PERMISSION_DENIED: Self = Self(3);
    /// SSH_FX_FAILURE
    pub const FAILURE: Self = Self(4);
    /// SSH_FX_BAD_MESSAGE
    pub const BAD_MESSAGE: Self = Self(5);
    /// SSH_FX_NO_CONNECTION
    pub const NO_CONNECTION: Self = Self(6);
    /// SSH_FX_CONNECTION_LOST
    pub const CONNECTION_LOST: Self = Self(7);
    /// SSH_FX_OP_UNSUPPORTED
    pub const OP_UNSUPPORTED: Self = Self(8);

    /// OpenSSH's text for the code (fx2txt).
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::OK => "Success",
            Self::EOF => "End of file",
            Self::NO_SUCH_FILE => "No such file",
            Self::PERMISSION_DENIED => "Permission denied",
            Self::FAILURE => "Failure",
            Self::BAD_MESSAGE => "Bad message",
            Self::NO_CONNECTION => "No connection",
            Self::CONNECTION_LOST => "Connection lost",
            Self::OP_UNSUPPORTED => "Operation unsupported",
            _ => "Unknown status",
        }
    }

    /// Returns true for SSH_FX_OK.
    #[must_use]
    pub fn is_ok(self) -> bool {
        self == Self::OK
    }
}
