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
