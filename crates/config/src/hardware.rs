//! `EnableHwCompression`: the options' request, and the outcome of loading a library, with the
//! messages that client, session and listener log. `accelerator` loads and tests a library; the
//! listener does not link it.

use crate::types::HwCompression;
use crate::{client, server};

/// The request of the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardwareWish<'a> {
    /// True if a failure must end the connection.
    pub required: bool,
    /// Absolute paths, in the order of trial; if empty, the platform's libraries are tried.
    pub libraries: &'a [String],
    /// True to inflate and compare each compressed run before it is used.
    pub verify: bool,
    /// `CompressionLevel`, 1 to 9.
    pub level: u8,
}

/// The outcome of loading a library.
#[derive(Debug)]
pub enum Tried<T> {
    /// The library is used.
    InUse(T),
    /// Software compression is used; holds the reason.
    Software(String),
    /// The connection is refused; holds the text for the user.
    Refused(String),
}

impl<'a> HardwareWish<'a> {
    fn new(
        compression: bool,
        mode: HwCompression,
        libraries: &'a [String],
        verify: bool,
        level: u8,
    ) -> Option<Self> {
        (compression && mode != HwCompression::No).then_some(Self {
            required: mode == HwCompression::Require,
            libraries,
            verify,
            level,
        })
    }

    /// Decides what follows from a working library, or from the reasons why none works.
    pub fn settle<T>(&self, tried: Result<T, String>) -> Tried<T> {
        match tried {
            Ok(library) => Tried::InUse(library),
            Err(why) if self.required => {
                Tried::Refused(format!("EnableHwCompression require: {why}"))
            }
            Err(why) => Tried::Software(why),
        }
    }
}

/// The options of client and server have the same fields for it.
macro_rules! wish_of {
    ($($options:ty),*) => {$(
        impl $options {
            /// The request of `EnableHwCompression`; `None` if it is `no` or compression is off.
            #[must_use]
            pub fn hardware(&self) -> Option<HardwareWish<'_>> {
                HardwareWish::new(
                    self.method.is_on(),
                    self.hw,
                    &self.hw_libraries,
                    self.hw_verify,
                    self.level,
                )
            }
        }
    )*};
}

wish_of!(client::CompressionOptions, server::CompressionOptions);

/// The log line about the library in use.
#[must_use]
pub fn in_use_line(description: &str) -> String {
    format!("compression: hardware library {description}")
}

/// The warning if no library can be used: for whom (` for user alice`, or empty), why, and what is
/// done instead.
#[must_use]
pub fn warning_line(whom: &str, why: &str, instead: &str) -> String {
    format!("Warning: EnableHwCompression{whom}: {why}; {instead}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_is_refused_and_what_is_wanted_is_done_without() {
        let wish = |mode| HardwareWish::new(true, mode, &[], true, 6);
        assert_eq!(wish(HwCompression::No), None);
        assert_eq!(
            HardwareWish::new(false, HwCompression::Require, &[], true, 6),
            None
        );
        let why = || Err::<(), _>("/x: no".to_owned());
        let yes = wish(HwCompression::Yes).unwrap().settle(why());
        assert!(matches!(yes, Tried::Software(why) if why == "/x: no"));
        let require = wish(HwCompression::Require).unwrap();
        assert!(matches!(require.settle(why()), Tried::Refused(said)
            if said == "EnableHwCompression require: /x: no"));
        assert!(matches!(require.settle(Ok(())), Tried::InUse(())));
        assert_eq!(
            warning_line(" for user a", "/x: no", "using software compression"),
            "Warning: EnableHwCompression for user a: /x: no; using software compression"
        );
    }
}
