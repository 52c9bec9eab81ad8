//! Types of values that both files share.

use std::fmt;

use crypto::hash::HashAlgorithm;

pub use escape::LogLevel;

choices! {
    /// Address families that may be used.
    AddressFamily {
        /// IPv4 and IPv6.
        #[default]
        Any = "any",
        /// IPv4 only.
        Inet = "inet",
        /// IPv6 only.
        Inet6 = "inet6",
    }
}

choices! {
    /// `Compression`.
    Compression {
        /// zlib may be used.
        Yes = "yes",
        /// None.
        #[default]
        No = "no",
        /// zstd is offered before the other methods.
        Zstd = "zstd",
    }
}

impl Compression {
    /// True if any method may be used.
    pub fn is_on(self) -> bool {
        self != Compression::No
    }
}

choices! {
    /// `EnableHwCompression`: compression by an external library, which may use an accelerator.
    HwCompression {
        /// Never.
        #[default]
        No = "no" | "false",
        /// If a library can be used; otherwise in software, with a warning.
        Yes = "yes" | "true",
        /// Always; a connection that would be compressed in software is refused.
        Require = "require",
    }
}

choices! {
    /// `TCPKeepAlive`.
    TcpKeepAlive {
        /// For the connection to the peer.
        Yes = "true" | "yes" | "transport",
        /// For forwarded connections, too.
        All = "all",
        /// Not at all.
        #[default]
        No = "false" | "no",
    }
}

choices! {
    /// `WarnWeakCrypto`: of which weak algorithms client and server warn.
    WarnWeakCrypto {
        /// All of them.
        #[default]
        Yes = "yes" | "true",
        /// All but a key exchange that is not post-quantum.
        NoPqKex = "no-pq-kex",
        /// None.
        No = "no" | "false",
    }
}

impl WarnWeakCrypto {
    /// True if they warn of a key exchange that is not post-quantum.
    #[must_use]
    pub fn warns_of_kex(self) -> bool {
        self == Self::Yes
    }

    /// True if they warn of algorithms that only old devices need.
    #[must_use]
    pub fn warns_of_old_algorithms(self) -> bool {
        self != Self::No
    }
}

choices! {
    /// syslog(3) facilities.
    SyslogFacility {
        /// System daemons.
        Daemon = "DAEMON",
        /// User programs.
        User = "USER",
        /// Security messages.
        #[default]
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
    }
}

choices! {
    /// The hash of fingerprints that are shown or logged.
    FingerprintHash {
        /// Colon-separated MD5.
        Md5 = "MD5",
        /// Base64, as the following.
        Sha1 = "SHA1",
        /// The default.
        #[default]
        Sha256 = "SHA256",
        /// Base64 SHA-384.
        Sha384 = "SHA384",
        /// Base64 SHA-512.
        Sha512 = "SHA512",
    }
}

impl FingerprintHash {
    /// The algorithm.
    #[must_use]
    pub fn algorithm(self) -> HashAlgorithm {
        match self {
            Self::Md5 => HashAlgorithm::Md5,
            Self::Sha1 => HashAlgorithm::Sha1,
            Self::Sha256 => HashAlgorithm::Sha256,
            Self::Sha384 => HashAlgorithm::Sha384,
            Self::Sha512 => HashAlgorithm::Sha512,
        }
    }
}

/// When keys are exchanged again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RekeyLimit {
    /// Limit in either direction, bytes; 0 means the cipher's own limit.
    pub bytes: u64,
    /// Limit in seconds; 0 means no limit by time.
    pub seconds: u32,
}

/// Type-of-service bytes for interactive and bulk sessions; `None` keeps the system's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpQos {
    /// For sessions with a terminal.
    pub interactive: Option<u8>,
    /// For sessions without a terminal.
    pub bulk: Option<u8>,
}

/// `EscapeChar`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EscapeChar {
    /// No escapes.
    #[default]
    None,
    /// This byte at the start of a line.
    Byte(u8),
}

/// `ObscureKeystrokeTiming`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keystrokes {
    /// Keystrokes are sent when they are typed.
    Off,
    /// They are sent at the default interval.
    Default,
    /// They are sent at this interval, milliseconds.
    Every(u32),
}

/// Default interval of `ObscureKeystrokeTiming`, milliseconds.
const KEYSTROKE_MS: u32 = 20;

impl Keystrokes {
    /// The interval in milliseconds; `None` if timing is not hidden.
    pub fn interval_ms(self) -> Option<u32> {
        match self {
            Keystrokes::Off => None,
            Keystrokes::Default => Some(KEYSTROKE_MS),
            Keystrokes::Every(ms) => Some(ms),
        }
    }
}

/// The place of an agent's socket: `AgentSocketPath` of sshd_config, and `-A` of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentPlace {
    /// `user:DIRECTORY`: the socket lies in the directory, whose template may have the tokens `%%`, `%h`,
    /// `%u` and `%U` and begins in the home directory if it is relative.
    User(String),
    /// `shared:/DIRECTORY`: the socket lies in a directory of its own below this one.
    Shared(String),
}

impl AgentPlace {
    /// Reads a place; `None` if it is of neither form.
    #[must_use]
    pub fn parse(text: &str) -> Option<AgentPlace> {
        match text.split_once(':')? {
            ("user", directory) => Some(AgentPlace::User(directory.to_owned())),
            ("shared", directory) if directory.starts_with('/') => {
                Some(AgentPlace::Shared(directory.to_owned()))
            }
            _ => None,
        }
    }
}

/// As the keyword spells it.
impl fmt::Display for AgentPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentPlace::User(directory) => write!(f, "user:{directory}"),
            AgentPlace::Shared(directory) => write!(f, "shared:{directory}"),
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

/// A subsystem and its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsystem {
    /// The name that the client requests.
    pub name: String,
    /// Command with its arguments as one string for the user's shell; `internal-sftp …` is the built-in one.
    pub command: String,
}

/// As the dump prints it: name, space, command.
impl fmt::Display for Subsystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.command)
    }
}

/// As `SetEnv` spells it.
impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}
