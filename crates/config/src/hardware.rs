//! `EnableHwCompression` carried out: what the options ask for, and what follows from a library
//! that works or does not, in the words in which client, session and listener say it. How a
//! library is tried is not here but in `accelerator`, which the listener does not reach.

use crate::types::HwCompression;
use crate::{ClientOptions, ServerOptions};

/// What is asked for where anything is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardwareWish<'a> {
    /// Nothing is done without it.
    pub required: bool,
    /// Absolute paths, in the order of trying; none means the platform's.
    pub libraries: &'a [String],
    /// Inflate and compare each run before it is used.
    pub verify: bool,
    /// `CompressionLevel`.
    pub level: u8,
}

/// What came of trying.
#[derive(Debug)]
pub enum Tried<T> {
    /// This is used.
    InUse(T),
    /// Software is, for this reason.
    Software(String),
    /// Nothing is: the sentence for whoever asked.
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

    /// What follows from the library that works, or from the reasons why none does.
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

/// The options of both sides have the same fields for it.
macro_rules! wish_of {
    ($($options:ty),*) => {$(
        impl $options {
            /// What `EnableHwCompression` asks for; none where nothing is compressed or it asks for
            /// nothing.
            #[must_use]
            pub fn hardware(&self) -> Option<HardwareWish<'_>> {
                HardwareWish::new(
                    self.compression,
                    self.hw_compression,
                    &self.hw_compression_libraries,
                    self.hw_compression_verify,
                    self.compression_level,
                )
            }
        }
    )*};
}

wish_of!(ClientOptions, ServerOptions);

/// The line for a log about the library in use.
#[must_use]
pub fn in_use_line(description: &str) -> String {
    format!("compression: hardware library {description}")
}

/// The one warning where a library cannot be had: for whom (` for user alice`, or nothing), why, and
/// what is done instead.
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
