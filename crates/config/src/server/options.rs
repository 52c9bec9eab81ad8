//! The types of options that only sshd_config has; [`table`](super::table) has the options.

use std::fmt;
use std::net::IpAddr;

use crate::types::AgentPlace;

choices! {
    /// `PermitRootLogin`.
    PermitRootLogin {
        /// Not with a password or keyboard-interactive.
        ProhibitPassword = "prohibit-password" | "without-password",
        /// Only with a public key that forces a command.
        ForcedCommandsOnly = "forced-commands-only",
        /// Permitted, as for any user.
        Yes = "yes",
        /// Not at all.
        #[default]
        No = "no",
    }
}

choices! {
    /// `IgnoreRhosts`.
    IgnoreRhosts {
        /// Neither ~/.shosts nor ~/.rhosts is read.
        #[default]
        Yes = "yes",
        /// Both are read.
        No = "no",
        /// Only ~/.shosts is read.
        ShostsOnly = "shosts-only",
    }
}

choices! {
    /// `AllowTcpForwarding`, `AllowStreamLocalForwarding`.
    AllowForwarding {
        /// In both directions.
        Yes = "yes" | "all",
        /// Not at all.
        #[default]
        No = "no",
        /// Only connections that the client requests.
        Local = "local",
        /// Only listening for the client.
        Remote = "remote",
    }
}

choices! {
    /// `GatewayPorts`.
    Gateway {
        /// Listeners for the client accept connections on all addresses.
        Yes = "yes",
        /// They accept connections of this machine only.
        #[default]
        No = "no",
        /// The client chooses.
        ClientSpecified = "clientspecified",
    }
}

choices! {
    /// `PermitTunnel`.
    PermitTunnel {
        /// Devices of both kinds.
        Yes = "yes",
        /// None.
        #[default]
        No = "no",
        /// Devices of IP packets.
        PointToPoint = "point-to-point",
        /// Devices of Ethernet frames.
        Ethernet = "ethernet",
    }
}

impl AllowForwarding {
    /// True if the client may request connections (`direct-tcpip`).
    pub fn is_local(self) -> bool {
        matches!(self, AllowForwarding::Yes | AllowForwarding::Local)
    }

    /// True if the client may request to listen (`tcpip-forward`).
    pub fn is_remote(self) -> bool {
        matches!(self, AllowForwarding::Yes | AllowForwarding::Remote)
    }
}

/// `PermitUserEnvironment`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UserEnvironment {
    /// No variable of the user's files is used.
    #[default]
    No,
    /// All variables are used.
    Yes,
    /// Variables whose names match this pattern-list are used.
    Matching(String),
}

impl UserEnvironment {
    /// True if a variable of this name may be used from the user's files.
    pub fn permits(&self, name: &str) -> bool {
        match self {
            UserEnvironment::No => false,
            UserEnvironment::Yes => true,
            UserEnvironment::Matching(list) => {
                crate::pattern::match_list(name, list, crate::pattern::Case::Sensitive).is_yes()
            }
        }
    }
}

/// As `PermitUserEnvironment` spells it.
impl fmt::Display for UserEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UserEnvironment::No => "no",
            UserEnvironment::Yes => "yes",
            UserEnvironment::Matching(list) => list,
        })
    }
}

/// `AgentSocketPath`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AgentSocketPath {
    /// Not set: the usual places.
    #[default]
    Usual,
    /// `none`: no agent is forwarded.
    None,
    /// This place.
    At(AgentPlace),
}

/// As the keyword spells it; empty for the usual places.
impl fmt::Display for AgentSocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentSocketPath::Usual => Ok(()),
            AgentSocketPath::None => f.write_str("none"),
            AgentSocketPath::At(place) => place.fmt(f),
        }
    }
}

/// An address on which the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// Host name or address; `None` for every local address of the permitted families.
    pub host: Option<String>,
    /// Port; 0 uses any free one (only from the command line).
    pub port: u16,
    /// Routing domain: the name of a VRF device (or of an interface), which alone is served.
    pub rdomain: Option<String>,
}

/// `PubkeyAuthOptions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PubkeyAuthOptions {
    /// Security keys must attest user presence whatever the key line says.
    pub touch_required: bool,
    /// Security keys must attest user verification.
    pub verify_required: bool,
    /// `max-pk-ok`, if it is given: see [`free_queries`](Self::free_queries).
    pub(crate) max_pk_ok: Option<u32>,
}

/// OpenSSH's default of `max-pk-ok`.
const DEFAULT_MAX_PK_OK: u32 = 6;

impl PubkeyAuthOptions {
    /// Number of queries about keys (RFC 4252 §7, a request without a signature) that are refused
    /// without counting as a failed attempt; each further refusal counts. 6 without `max-pk-ok`.
    pub fn free_queries(self) -> u32 {
        self.max_pk_ok.unwrap_or(DEFAULT_MAX_PK_OK)
    }
}

/// As the dump prints it: the words that are set; `none` if no requirement is.
impl fmt::Display for PubkeyAuthOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_no_requirement = !(self.touch_required || self.verify_required);
        let words = [
            has_no_requirement.then(|| "none".to_owned()),
            self.touch_required.then(|| "touch-required".to_owned()),
            self.verify_required.then(|| "verify-required".to_owned()),
            self.max_pk_ok.map(|count| format!("max-pk-ok:{count}")),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        f.write_str(&words.join(" "))
    }
}

/// Patterns, in the order of the file.
pub type Patterns = Vec<String>;

/// The facts of a connection against which Match blocks are evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSpec {
    /// The requested user name; `None` before it is known.
    pub user: Option<String>,
    /// True if the account exists; `Match Invalid-User` is met if it does not.
    pub user_exists: bool,
    /// Names of the user's primary and supplementary groups.
    pub groups: Vec<String>,
    /// The peer's host name if `UseDNS` found one, otherwise its address.
    pub host: String,
    /// The peer's address.
    pub address: Option<IpAddr>,
    /// The local address of this connection.
    pub local_address: Option<IpAddr>,
    /// The local port of this connection.
    pub local_port: Option<u16>,
    /// The routing domain of the connection; empty for the default one, `None` if it is unknown.
    pub rdomain: Option<String>,
}
