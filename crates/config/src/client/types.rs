//! Types of values that only ssh_config has and that [`Value`](crate::value::Value) holds.

use std::fmt;

/// `ControlPersist`: how long a master stays after its last session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlPersist {
    /// It ends with the session of its own process.
    #[default]
    No,
    /// In the background until a user ends it.
    Forever,
    /// In the background until there has been no session for this time, seconds.
    Seconds(u32),
}

/// As `ControlPersist` spells it.
impl fmt::Display for ControlPersist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlPersist::No => f.write_str("no"),
            ControlPersist::Forever => f.write_str("yes"),
            ControlPersist::Seconds(seconds) => write!(f, "{seconds}"),
        }
    }
}

choices! {
    /// A choice of yes, no or ask.
    YesNoAsk {
        /// Yes.
        Yes = "true" | "yes",
        /// No.
        No = "false" | "no",
        /// Ask the user.
        #[default]
        Ask = "ask",
    }
}

/// `AddKeysToAgent`: whether and how a key of a file that was used is added to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddKeysToAgent {
    /// Whether it is added.
    pub adds: YesNoAsk,
    /// The agent asks the user before each use.
    pub confirm: bool,
    /// Seconds until the agent removes the key; `None` for the agent's default.
    pub lifetime_s: Option<u32>,
}

impl Default for AddKeysToAgent {
    fn default() -> AddKeysToAgent {
        AddKeysToAgent {
            adds: YesNoAsk::No,
            confirm: false,
            lifetime_s: None,
        }
    }
}

/// As the dump prints it: `true`, `false`, `ask`, `confirm`, seconds, or `confirm` and seconds.
impl fmt::Display for AddKeysToAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.confirm, self.lifetime_s) {
            (true, Some(seconds)) => write!(f, "confirm {seconds}"),
            (true, None) => f.write_str("confirm"),
            (false, Some(seconds)) => write!(f, "{seconds}"),
            (false, None) => f.write_str(self.adds.word()),
        }
    }
}

/// The tunnel devices of both sides (`TunnelDevice`, `-w`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelDevice {
    /// Number of this machine's device; `None` for any free one.
    pub local: Option<u16>,
    /// The same for the server's.
    pub remote: Option<u16>,
}

impl TunnelDevice {
    /// Reads `local[:remote]`, each a number or `any`; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<TunnelDevice> {
        let (local, remote) = text.split_once(':').unwrap_or((text, "any"));
        let device = |part: &str| match part {
            _ if part.eq_ignore_ascii_case("any") => Some(None),
            _ => part.parse().ok().map(Some),
        };
        Some(TunnelDevice {
            local: device(local)?,
            remote: device(remote)?,
        })
    }
}

/// As `TunnelDevice` and the dump spell it.
impl fmt::Display for TunnelDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |unit: Option<u16>| unit.map_or_else(|| "any".to_owned(), |n| n.to_string());
        write!(f, "{}:{}", word(self.local), word(self.remote))
    }
}

/// A rule of `CanonicalizePermittedCNAMEs`: names that match `source` may be aliases of names that match
/// `target`. Both are lists of patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CnameRule {
    pub(crate) source: String,
    pub(crate) target: String,
}

/// As the keyword spells it.
impl fmt::Display for CnameRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.source, self.target)
    }
}

/// A name, or the environment variable that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameOrVariable {
    /// The name itself.
    Name(String),
    /// The name of the variable, without `$`.
    Variable(String),
}

impl NameOrVariable {
    /// Reads a word: `$NAME` is a variable.
    pub(crate) fn new(word: &str) -> NameOrVariable {
        match word.strip_prefix('$').filter(|name| !name.is_empty()) {
            Some(name) => NameOrVariable::Variable(name.to_owned()),
            None => NameOrVariable::Name(word.to_owned()),
        }
    }
}

/// As the keyword spells it.
impl fmt::Display for NameOrVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameOrVariable::Name(name) => f.write_str(name),
            NameOrVariable::Variable(name) => write!(f, "${name}"),
        }
    }
}

/// The agent that `IdentityAgent` or `ForwardAgent` names, before expansion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentName {
    /// `none` of `IdentityAgent`, or `no` of `ForwardAgent`.
    None(&'static str),
    /// `SSH_AUTH_SOCK` of `IdentityAgent`, or `yes` of `ForwardAgent`.
    Usual(&'static str),
    /// The agent at a socket: the template of its path, with `~`, tokens and `${NAME}`, or the variable
    /// that holds the path.
    Socket(NameOrVariable),
}

/// As the keyword spells it.
impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentName::None(word) | AgentName::Usual(word) => f.write_str(word),
            AgentName::Socket(socket) => socket.fmt(f),
        }
    }
}

/// One hop of `ProxyJump`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JumpHost {
    /// User, if given.
    pub user: Option<String>,
    /// Host or address, without brackets.
    pub host: String,
    /// Port, if given.
    pub port: Option<u16>,
}

/// Formats the hop as `ProxyJump` and `-J` accept it: `[user@]host[:port]`, an address with colons
/// in brackets.
impl fmt::Display for JumpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        // OpenSSH prints addresses of both families in brackets.
        let is_number = self.host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if self.host.contains(':') || is_number {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// `ProxyJump` before expansion: users and hosts of the hops may have tokens. Without hops it is
/// `none`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JumpTemplates {
    /// In the order of connection.
    pub(crate) hops: Vec<JumpHost>,
    /// All hops but the last, as the file spells them; `None` of one hop.
    pub(crate) before_last: Option<String>,
}

/// As OpenSSH's dump, which formats the last hop and shows the others as they are written.
impl fmt::Display for JumpTemplates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(last) = self.hops.last() else {
            return f.write_str("none");
        };
        if let Some(before) = &self.before_last {
            write!(f, "{before},")?;
        }
        last.fmt(f)
    }
}
