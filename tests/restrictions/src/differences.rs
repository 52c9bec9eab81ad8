//! Known differences of our outcomes from the table, with reasons, and the comparison.

use crate::row::{Outcomes, Row};

/// Our outcomes that differ from the table. A difference of `login` or `start` covers every other
/// probe of its rows.
#[derive(Debug)]
pub struct Difference {
    /// Parts of names of rows; empty for any row.
    pub rows: &'static [&'static str],
    /// The probe; empty for any.
    pub probe: &'static str,
    /// Our outcome; empty for any.
    pub ours: &'static str,
    /// Why.
    pub why: &'static str,
}

const STRICTER: &str = "on purpose, and stricter";

/// All of them. Each must occur in at least one row.
pub const DIFFERENCES: &[Difference] = &[
    // OpenSSH 9.2 forgets tunnels here, later versions do not.
    row(
        &[
            "PermitTunnel yes; DisableForwarding",
            "PermitTunnel yes, by restrict",
        ],
        "tunnel",
        "no",
        STRICTER,
    ),
    // No extension permits tunnels, so a certificate without any permits none.
    row(
        &["certificate: clear, with PermitTunnel yes"],
        "tunnel",
        "no",
        STRICTER,
    ),
    // Nothing in it could be used.
    row(&["session required pam_deny.so"], "login", "cut", STRICTER),
    // A certificate without names is valid for everybody; OpenSSH accepts it through
    // authorized_keys.
    row(&[", no names"], "login", "no", STRICTER),
    // OpenSSH grants the login and then closes the connection: the same for the holder of the key.
    row(
        &["PermitRootLogin forced-commands-only"],
        "login",
        "no",
        STRICTER,
    ),
    row(
        &["holds \"{user}\\r"],
        "login",
        "yes",
        "a carriage return ends a line in AuthorizedPrincipalsFile as in every other file of keys",
    ),
    row(
        &["two subsystems"],
        "start",
        "-",
        "the first subsystem of a name counts, as in OpenSSH 10.6; 9.2 refuses the file",
    ),
];

const fn row(
    rows: &'static [&'static str],
    probe: &'static str,
    ours: &'static str,
    why: &'static str,
) -> Difference {
    Difference {
        rows,
        probe,
        ours,
        why,
    }
}

/// The result of one probe of one row.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As the table has it.
    Same,
    /// As this difference has it.
    Listed(usize),
    /// Neither.
    Unlisted,
}

/// Compares our server's outcome of one probe with the table and the list.
#[must_use]
pub fn judge(row: &Row, ours: &Outcomes, probe: &str) -> Verdict {
    if of(&row.expected, probe) == of(ours, probe) {
        return Verdict::Same;
    }
    let names = |difference: &Difference| {
        difference.rows.is_empty() || difference.rows.iter().any(|part| row.name.contains(part))
    };
    let decides = |deciding: &str| {
        let is = of(ours, deciding);
        if of(&row.expected, deciding) == is {
            return None;
        }
        let fits = |difference: &Difference| {
            (difference.probe.is_empty() || difference.probe == deciding)
                && (difference.ours.is_empty() || difference.ours == is)
                && names(difference)
        };
        DIFFERENCES.iter().position(fits)
    };
    ["start", "login", probe]
        .into_iter()
        .find_map(decides)
        .map_or(Verdict::Unlisted, Verdict::Listed)
}

/// The outcome of a probe; `-` if it was not made.
#[must_use]
pub fn of<'a>(outcomes: &'a Outcomes, probe: &str) -> &'a str {
    outcomes.get(probe).map_or("-", String::as_str)
}
