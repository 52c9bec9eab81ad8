//! `ChannelTimeout` of both files: how long channels may be unused, by type.

use wire::names;

use crate::pattern;
use crate::units;

/// The type that limits all channels together; no pattern matches it.
const GLOBAL: &str = "global";

/// Types of channels whose names in the configuration are others than in the protocol.
const NAMES: [(&str, &str); 7] = [
    (names::CHANNEL_AGENT, "agent-connection"),
    (names::CHANNEL_AGENT_OPENSSH, "agent-connection"),
    (names::CHANNEL_DIRECT_UDP, "direct-udp"),
    (names::CHANNEL_FORWARDED_UDP, "forwarded-udp"),
    (names::CHANNEL_TUN, "tun-connection"),
    (names::CHANNEL_TUN_SEGMENTS, "tun-connection"),
    (names::CHANNEL_X11, "x11-connection"),
];

/// Types of channels that carry datagrams, as the configuration names them. They have a limit of their own
/// if the configuration has none: nothing else says that a flow of datagrams has ended.
const FLOWS: [&str; 2] = ["direct-udp", "forwarded-udp"];
/// That limit, milliseconds.
const FLOW_LIMIT_MS: u64 = 60_000;

/// Limits of the time for which channels may be unused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelTimeouts {
    /// In the order of the line.
    rules: Vec<TimeoutRule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TimeoutRule {
    /// A pattern of types, or [`GLOBAL`].
    kind: String,
    /// Milliseconds; 0 for none.
    limit_ms: u64,
    /// The limit as the file spells it, which the dump shows.
    written: String,
}

impl ChannelTimeouts {
    /// Adds one `type=interval`; false if the word is not of the form.
    pub(crate) fn add(&mut self, word: &str) -> bool {
        let Some((kind, time)) = word.split_once('=').filter(|(kind, _)| !kind.is_empty()) else {
            return false;
        };
        let Some(limit_ms) = units::parse_channel_time(time) else {
            return false;
        };
        self.rules.push(TimeoutRule {
            kind: kind.to_owned(),
            limit_ms,
            written: time.to_owned(),
        });
        true
    }

    /// The words, as the file spells them; `none` if there are none.
    pub(crate) fn words(&self) -> Vec<String> {
        if self.rules.is_empty() {
            return vec!["none".to_owned()];
        }
        let words = self
            .rules
            .iter()
            .map(|rule| format!("{}={}", rule.kind, rule.written));
        words.collect()
    }

    /// The limit of all channels together, milliseconds; 0 for none. As in OpenSSH, the last of
    /// several counts.
    pub fn global_ms(&self) -> u64 {
        let mut globals = self.rules.iter().rev().filter(|rule| rule.kind == GLOBAL);
        globals.next().map_or(0, |rule| rule.limit_ms)
    }

    /// The limit of a channel of this type, milliseconds: that of the first pattern that matches,
    /// otherwise the type's own; 0 for none. The type is that of the protocol.
    pub fn limit_ms(&self, kind: &str) -> u64 {
        let named = NAMES.iter().find(|(own, _)| *own == kind);
        let kind = named.map_or(kind, |(_, name)| *name);
        let mut rules = self.rules.iter().filter(|rule| rule.kind != GLOBAL);
        let rule = rules.find(|rule| pattern::matches(kind, &rule.kind));
        let own_ms = match FLOWS.contains(&kind) {
            true => FLOW_LIMIT_MS,
            false => 0,
        };
        rule.map_or(own_ms, |rule| rule.limit_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeouts(line: &str) -> ChannelTimeouts {
        let mut timeouts = ChannelTimeouts::default();
        for word in line.split(' ').filter(|word| *word != "none") {
            assert!(timeouts.add(word), "{word}");
        }
        timeouts
    }

    /// As OpenSSH 10.6 does.
    #[test]
    fn the_first_pattern_that_matches_decides() {
        let limit = |line: &str, kind: &str| timeouts(line).limit_ms(kind);
        assert_eq!(
            limit("session:c*=2 session:command=1", "session:command"),
            2000
        );
        assert_eq!(
            limit("session:command=1 session:c*=2", "session:command"),
            1000
        );
        assert_eq!(limit("*=1 session:command=0", "session:command"), 1000);
        assert_eq!(limit("session:command=0 *=1", "session:command"), 0);
        assert_eq!(limit("session=1", "session:command"), 0);
        assert_eq!(limit("SESSION=1", "session"), 0);
        assert_eq!(limit("session,x=1", "session"), 0);
        assert_eq!(limit("!session=1", "session"), 0);
        assert_eq!(limit("global*=1", "global"), 1000);
        assert_eq!(limit("x11-connection=1", "x11"), 1000);
        assert_eq!(limit("x11=1", "x11"), 0);
    }

    /// Also of the names that only newer peers use.
    #[test]
    fn each_type_of_agents_and_tunnels_has_the_limit_of_its_name() {
        let both = timeouts("agent-connection=1 tun-connection=2");
        for kind in ["auth-agent@openssh.com", "agent-connect"] {
            assert_eq!(both.limit_ms(kind), 1000, "{kind}");
        }
        for kind in ["tun@openssh.com", "tun-segments@fulmar.invalid"] {
            assert_eq!(both.limit_ms(kind), 2000, "{kind}");
        }
    }

    #[test]
    fn the_last_global_counts_and_no_pattern_matches_it() {
        let both = timeouts("global=1 global=2.5 *=4");
        assert_eq!((both.global_ms(), both.limit_ms("x11")), (2500, 4000));
        assert_eq!(timeouts("*=4").global_ms(), 0);
    }

    #[test]
    fn flows_of_datagrams_have_a_limit_unless_the_configuration_names_another() {
        for kind in ["direct-udp@fulmar.invalid", "forwarded-udp@fulmar.invalid"] {
            let limit = |line| timeouts(line).limit_ms(kind);
            assert_eq!(limit("none"), 60_000);
            assert_eq!(limit("session=1 direct-tcpip=2"), 60_000);
            assert_eq!(limit("*-udp=5m"), 300_000);
            assert_eq!(limit("*-udp=0"), 0);
            assert_eq!(limit("*=4"), 4000);
        }
    }
}
