//! Value types that typed options of client and server share.

pub use escape::LogLevel;

use crate::units;
use crate::value::{Value, Values};

words! {
    /// Address families that may be used.
    AddressFamily {
        /// IPv4 and IPv6.
        Any = "any",
        /// IPv4 only.
        Inet = "inet",
        /// IPv6 only.
        Inet6 = "inet6",
    } default Any
}

words! {
    /// `EnableHwCompression`: compression by an external library, which may use an accelerator.
    HwCompression {
        /// Never.
        No = "no",
        /// If a library can be used; otherwise in software, with a warning.
        Yes = "yes",
        /// Always; a connection that would be compressed in software is refused.
        Require = "require",
    } default No
}

words! {
    /// syslog(3) facilities.
    SyslogFacility {
        /// System daemons.
        Daemon = "DAEMON",
        /// User programs.
        User = "USER",
        /// Security messages.
        Auth = "AUTH",
        /// Private security messages.
        AuthPriv = "AUTHPRIV",
        /// Local use 0.
        Local0 = "LOCAL0",
        /// Local use 1.
        Local1 = "LOCAL1",
        /// Local use 2.
        Local2 = "LOCAL2",
        /// Local use 3.
        Local3 = "LOCAL3",
        /// Local use 4.
        Local4 = "LOCAL4",
        /// Local use 5.
        Local5 = "LOCAL5",
        /// Local use 6.
        Local6 = "LOCAL6",
        /// Local use 7.
        Local7 = "LOCAL7",
    } default Auth
}

words! {
    /// The hash of fingerprints that are shown or logged.
    FingerprintHash {
        /// Colon-separated MD5.
        Md5 = "MD5",
        /// Base64 SHA-256.
        Sha256 = "SHA256",
    } default Sha256
}

/// When keys are exchanged again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RekeyLimit {
    /// Limit in either direction, bytes; 0 means the cipher's own limit.
    pub bytes: u64,
    /// Limit in seconds; 0 means no limit by time.
    pub seconds: u32,
}

impl RekeyLimit {
    /// Sets a time that no line has given to `none`.
    pub(crate) fn fill(values: &mut Values, row: usize) {
        let mut words = values.take_words(row);
        if words.len() == 1 {
            words.push("0".to_owned());
        }
        values.put(row, Value::Words(words));
    }

    pub(crate) fn from_words(words: &[String]) -> RekeyLimit {
        RekeyLimit {
            bytes: number_at(words, 0).unwrap_or(0),
            seconds: number_at(words, 1)
                .and_then(|s| u32::try_from(s).ok())
                .unwrap_or(0),
        }
    }
}

/// Type-of-service bytes for interactive and bulk sessions; `None` keeps the system's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpQos {
    /// For sessions with a terminal.
    pub interactive: Option<u8>,
    /// For sessions without a terminal.
    pub bulk: Option<u8>,
}

impl IpQos {
    pub(crate) fn from_words(words: &[String]) -> IpQos {
        let at = |i: usize| {
            let value = units::parse_ipqos(words.get(i)?)?;
            u8::try_from(value).ok()
        };
        IpQos {
            interactive: at(0),
            bulk: at(1),
        }
    }
}

/// A variable with its value, from `SetEnv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name, without `=`.
    pub name: String,
    /// Value, possibly empty.
    pub value: String,
}

pub(crate) fn variables(words: &[String]) -> Vec<Variable> {
    words
        .iter()
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| Variable {
            name: name.to_owned(),
            value: value.to_owned(),
        })
        .collect()
}

/// The paths of `HwCompressionLibrary`; empty for `none`.
pub(crate) fn libraries(words: &[String]) -> Vec<String> {
    words
        .iter()
        .filter(|word| *word != "none")
        .cloned()
        .collect()
}

/// The number of `CryptoThreads`; `None` for `auto`.
pub(crate) fn thread_count(words: &[String]) -> Option<usize> {
    words.first()?.parse().ok()
}

pub(crate) fn number_at(words: &[String], index: usize) -> Option<u64> {
    words.get(index)?.parse().ok()
}
