//! The types of options that only ssh_config has; [`table`](super::table) has the options.

use crate::client::types::JumpHost;

choices! {
    /// `StrictHostKeyChecking`.
    StrictHostKeyChecking {
        /// Unknown and changed keys are refused.
        Yes = "true" | "yes",
        /// Unknown keys are added, changed ones are let through with restrictions.
        No = "false" | "no" | "off",
        /// The user is asked about unknown keys; changed ones are refused.
        #[default]
        Ask = "ask",
        /// Unknown keys are added, changed ones refused.
        AcceptNew = "accept-new",
    }
}

choices! {
    /// `RequestTTY`.
    RequestTty {
        /// If standard input is a terminal (`-t`).
        Yes = "true" | "yes",
        /// Never (`-T`).
        No = "false" | "no",
        /// Always (`-tt`).
        Force = "force",
        /// If standard input is a terminal and there is no command.
        #[default]
        Auto = "auto",
    }
}

choices! {
    /// `Tunnel`.
    Tunnel {
        /// None.
        #[default]
        No = "false" | "no",
        /// Devices of IP packets.
        PointToPoint = "point-to-point" | "yes" | "true",
        /// Devices of Ethernet frames.
        Ethernet = "ethernet",
    }
}

choices! {
    /// `ControlMaster`: whether this process shares its connection, and whether it uses another's.
    ControlMaster {
        /// Uses a master that listens at `ControlPath`.
        #[default]
        No = "false" | "no",
        /// Is a master.
        Yes = "true" | "yes",
        /// Uses a master, or else is one.
        Auto = "auto",
        /// Is a master that asks its user before it shares.
        Ask = "ask",
        /// Uses a master, or else is one that asks.
        AutoAsk = "autoask",
    }
}

impl ControlMaster {
    /// True if this process may listen at `ControlPath`.
    #[must_use]
    pub fn listens(self) -> bool {
        self != ControlMaster::No
    }

    /// True if a master that listens already is used.
    #[must_use]
    pub fn uses_master(self) -> bool {
        !matches!(self, ControlMaster::Yes | ControlMaster::Ask)
    }

    /// True if the user is asked before the connection is shared.
    #[must_use]
    pub fn asks(self) -> bool {
        matches!(self, ControlMaster::Ask | ControlMaster::AutoAsk)
    }
}

choices! {
    /// `SessionType`.
    SessionType {
        /// No session (`-N`).
        None = "none",
        /// The command names a subsystem (`-s`).
        Subsystem = "subsystem",
        /// Shell or command.
        #[default]
        Default = "default",
    }
}

choices! {
    /// `PubkeyAuthentication`.
    PubkeyAuthentication {
        /// On; signatures are bound to the host key if the server supports that.
        Yes = "true" | "yes",
        /// Off.
        #[default]
        No = "false" | "no",
        /// On; signatures are never bound to the host key.
        Unbound = "unbound",
        /// On, treated as `Yes`.
        HostBound = "host-bound",
    }
}

choices! {
    /// `PipelineLogin`: the messages that are sent before the server's answers.
    PipelineLogin {
        /// Those that the server is known to accept.
        #[default]
        Auto = "auto",
        /// All.
        Yes = "true" | "yes",
        /// None.
        No = "false" | "no",
    }
}

choices! {
    /// `CanonicalizeHostname`.
    Canonicalize {
        /// Unless a proxy resolves the name.
        Yes = "true" | "yes",
        /// Never.
        #[default]
        No = "false" | "no",
        /// With a proxy, too.
        Always = "always",
    }
}

/// A private key file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFile {
    /// Expanded path.
    pub path: String,
    /// True if the user or a configuration named it, false for a default.
    pub explicit: bool,
}

/// The agent to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IdentityAgent {
    /// The agent at the socket that SSH_AUTH_SOCK names, if it is set.
    #[default]
    FromEnvironment,
    /// No agent.
    None,
    /// The agent at this socket.
    Socket(String),
}

/// The agent that remote programs may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForwardAgent {
    /// None.
    #[default]
    No,
    /// That of `IdentityAgent`.
    Yes,
    /// The agent at this socket.
    Socket(String),
}

/// How to connect to the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Proxy {
    /// Directly, by TCP.
    #[default]
    Direct,
    /// Through this command in the user's shell, with tokens expanded.
    Command(String),
    /// Through other hosts, in the order of connection.
    Jump(Vec<JumpHost>),
}
