//! Quirks of other implementations, by their version line (RFC 4253 §4.2): one row of a table
//! for each. A peer that no row names gets the behaviour that every implementation accepts.

/// How an implementation differs from what the RFCs let a peer rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quirks {
    /// It is Fulmar, and knows Fulmar's extensions (docs/PROTOCOL.md).
    pub is_fulmar: bool,
    /// It knows OpenSSH's extensions that nobody announces: `eow@openssh.com` and
    /// `no-more-sessions@openssh.com`.
    pub knows_openssh_extensions: bool,
    /// As a server it accepts `first_kex_packet_follows` in a rekey. Some others end the
    /// connection, because they take the guess for wrong.
    pub accepts_rekey_guess: bool,
    /// It answers each keepalive request. Some others do not, and some end the connection.
    pub answers_keepalives: bool,
    /// As a sender it reads input for as long as its window is open, and moves all of that input for
    /// each packet once the input exceeds 16 MiB.
    pub accumulates_input: bool,
    /// As a client of files it sends the path of a new symbolic link before the link's target, as the
    /// draft says, unless the server's version line names OpenSSH (PROTOCOL §4.1).
    pub links_by_draft: bool,
    /// As a server it fails a group exchange whose preferred size exceeds 4096 bits.
    pub knows_small_groups_only: bool,
    /// How it treats messages that a client sends before the answers to earlier ones.
    pub pipelining: Pipelining,
}

/// How a server treats pipelined messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pipelining {
    /// It processes everything in order, and ignores what follows a failed login.
    InOrder,
    /// As `InOrder`, but it closes the connection if a channel follows a failed login.
    AfterLogin,
    /// It accepts a CHANNEL_OPEN after a login that succeeds; more is not known.
    #[default]
    Unknown,
}

/// The quirks of an implementation and version.
struct QuirksRow {
    /// Start of the version line, after `SSH-2.0-` or `SSH-1.99-`.
    software: &'static str,
    quirks: Quirks,
    /// The first version that accumulates input.
    accumulates_from: Option<(u32, u32)>,
}

/// Nothing is known but [`Quirks::links_by_draft`].
const LINKS_BY_DRAFT: Quirks = Quirks {
    is_fulmar: false,
    knows_openssh_extensions: false,
    accepts_rekey_guess: false,
    answers_keepalives: false,
    accumulates_input: false,
    links_by_draft: true,
    knows_small_groups_only: false,
    pipelining: Pipelining::Unknown,
};

const OPENSSH: Quirks = Quirks {
    is_fulmar: false,
    knows_openssh_extensions: true,
    accepts_rekey_guess: true,
    answers_keepalives: true,
    accumulates_input: false,
    links_by_draft: false,
    knows_small_groups_only: false,
    pipelining: Pipelining::InOrder,
};

const TABLE: [QuirksRow; 8] = [
    QuirksRow {
        software: crate::SOFTWARE_NAME,
        quirks: Quirks {
            is_fulmar: true,
            ..OPENSSH
        },
        accumulates_from: None,
    },
    QuirksRow {
        software: "OpenSSH_",
        quirks: OPENSSH,
        // `CHAN_INPUT_MAX` of its channels.c.
        accumulates_from: Some((8, 9)),
    },
    QuirksRow {
        software: "dropbear_",
        quirks: Quirks {
            is_fulmar: false,
            knows_openssh_extensions: false,
            accepts_rekey_guess: true,
            answers_keepalives: false,
            accumulates_input: false,
            links_by_draft: false,
            knows_small_groups_only: false,
            pipelining: Pipelining::AfterLogin,
        },
        accumulates_from: None,
    },
    QuirksRow {
        software: "AsyncSSH_",
        quirks: LINKS_BY_DRAFT,
        accumulates_from: None,
    },
    QuirksRow {
        software: "libssh_",
        quirks: LINKS_BY_DRAFT,
        accumulates_from: None,
    },
    QuirksRow {
        software: "ssh2js",
        quirks: LINKS_BY_DRAFT,
        accumulates_from: None,
    },
    QuirksRow {
        software: "WinSCP_release_",
        quirks: LINKS_BY_DRAFT,
        accumulates_from: None,
    },
    // As OpenSSH knows it (`SSH_BUG_DHGEX_LARGE` of its compat.c).
    QuirksRow {
        software: "Cisco-1.",
        quirks: Quirks {
            links_by_draft: false,
            knows_small_groups_only: true,
            ..LINKS_BY_DRAFT
        },
        accumulates_from: None,
    },
];

impl Quirks {
    /// The quirks of the peer that sent this version line.
    #[must_use]
    pub fn of(line: &str) -> Self {
        let software = line
            .strip_prefix("SSH-2.0-")
            .or_else(|| line.strip_prefix("SSH-1.99-"))
            .unwrap_or_default();
        // A Fulmar that names OpenSSH first says so in the comment.
        let software = match software.split_once(' ') {
            Some((crate::OPENSSH_NAME, comment)) if comment.starts_with(crate::SOFTWARE_NAME) => {
                comment
            }
            _ => software,
        };
        let row = TABLE
            .iter()
            .find_map(|row| Some((row, software.strip_prefix(row.software)?)));
        let Some((row, rest)) = row else {
            return Self::default();
        };
        Self {
            accumulates_input: row
                .accumulates_from
                .is_some_and(|first| is_at_least(rest, first)),
            ..row.quirks
        }
    }
}

/// Compares the version at the start of `text`, such as `9.2p1` or `for_Windows_9.5`. True for what
/// is no version: it is probably newer than those that are known.
fn is_at_least(text: &str, first: (u32, u32)) -> bool {
    let text = text.strip_prefix("for_Windows_").unwrap_or(text);
    let (major, rest) = number(text);
    let (minor, _) = number(rest.strip_prefix('.').unwrap_or_default());
    match (major, minor) {
        (Some(major), Some(minor)) => (major, minor) >= first,
        (Some(major), None) => major > first.0,
        (None, _) => true,
    }
}

/// Splits `text` into the number at its start and the rest.
fn number(text: &str) -> (Option<u32>, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    (number.parse().ok(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quirks_of(software: &str) -> Quirks {
        Quirks::of(&alloc::format!("SSH-2.0-{software}"))
    }

    #[test]
    fn openssh_accumulates_input_from_8_9_on() {
        for (software, accumulates) in [
            ("OpenSSH_8.8p1 Debian-1", false),
            ("OpenSSH_8.9p1 Ubuntu-3", true),
            ("OpenSSH_9.2p1 Debian-2+deb12u7", true),
            ("OpenSSH_10.5", true),
            ("OpenSSH_for_Windows_8.1", false),
            ("OpenSSH_for_Windows_9.5", true),
            ("OpenSSH_7", false),
            ("OpenSSH_", true),
            ("dropbear_2022.83", false),
            ("Fulmar_0.1.0", false),
        ] {
            assert_eq!(
                quirks_of(software).accumulates_input,
                accumulates,
                "{software}"
            );
        }
    }

    #[test]
    fn a_server_is_known_by_its_version_line() {
        for (line, pipelining) in [
            (
                "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u7",
                Pipelining::InOrder,
            ),
            ("SSH-1.99-OpenSSH_9.2", Pipelining::InOrder),
            ("SSH-2.0-Fulmar_0.1.0", Pipelining::InOrder),
            ("SSH-2.0-libssh_0.10.6", Pipelining::Unknown),
            ("SSH-2.0-dropbear_2022.83", Pipelining::AfterLogin),
            ("SSH-2.0-Go", Pipelining::Unknown),
            ("SSH-2.0-AsyncSSH_2.24.0", Pipelining::Unknown),
            ("SSH-2.0-paramiko_3.0", Pipelining::Unknown),
            ("SSH-2.0-NotOpenSSH_9", Pipelining::Unknown),
            ("OpenSSH_9", Pipelining::Unknown),
            ("", Pipelining::Unknown),
        ] {
            assert_eq!(Quirks::of(line).pipelining, pipelining, "{line}");
        }
    }

    #[test]
    fn fulmar_is_known_where_it_names_openssh_first() {
        let is_fulmar = |software: &str| quirks_of(software).is_fulmar;
        assert!(is_fulmar(&alloc::format!(
            "{} Fulmar_0.1.0",
            crate::OPENSSH_NAME
        )));
        assert!(is_fulmar(&alloc::format!(
            "{} Fulmar_0.1.0 of mine",
            crate::OPENSSH_NAME
        )));
        assert!(!is_fulmar(crate::OPENSSH_NAME));
        assert!(!is_fulmar("OpenSSH_9.2p1 Fulmar_0.1.0"));
        assert!(!is_fulmar(&alloc::format!(
            "{} no Fulmar_0.1.0",
            crate::OPENSSH_NAME
        )));
    }

    #[test]
    fn clients_that_send_links_in_the_order_of_the_draft() {
        for (software, by_draft) in [
            ("AsyncSSH_2.24.0", true),
            ("libssh_0.10.6", true),
            ("libssh2_1.10.0", false),
            ("ssh2js1.17.0node", true),
            ("WinSCP_release_6.5.3", true),
            ("paramiko_5.1.0", false),
            ("OpenSSH_9.2p1", false),
            ("Fulmar_0.1.0", false),
        ] {
            assert_eq!(quirks_of(software).links_by_draft, by_draft, "{software}");
        }
    }

    #[test]
    fn servers_that_know_small_groups_only() {
        for (software, small) in [
            ("Cisco-1.25", true),
            ("Cisco-2.0", false),
            ("OpenSSH_9.2p1", false),
        ] {
            let quirks = quirks_of(software);
            assert_eq!(quirks.knows_small_groups_only, small, "{software}");
            assert!(!quirks.links_by_draft, "{software}");
        }
    }

    #[test]
    fn an_unknown_peer_is_relied_on_for_nothing() {
        let unknown = Quirks::of("SSH-2.0-libssh_0.11");
        assert!(!unknown.is_fulmar && !unknown.knows_openssh_extensions);
        assert!(!unknown.accepts_rekey_guess && !unknown.answers_keepalives);
    }
}
