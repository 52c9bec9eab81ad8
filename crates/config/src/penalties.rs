//! Rules for new connections: `MaxStartups`, and `PerSourcePenalties` with the table of its parts,
//! from which they are read, applied and printed.

use crate::units;

/// `MaxStartups`: new connections are refused with a rising probability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaxStartups {
    /// Number of unauthenticated connections below which none is refused.
    pub start: u32,
    /// Probability of refusal at `start`, per cent.
    pub rate: u32,
    /// Number of unauthenticated connections from which all are refused.
    pub full: u32,
}

/// The reaction to a new source when the table of penalties is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PenaltyOverflow {
    /// Forget an old entry.
    Permissive,
    /// Refuse every source that is not exempt.
    DenyAll,
}

/// `PerSourcePenalties`: times for which a source is locked out after an event, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerSourcePenalties {
    /// True if penalties are applied.
    pub enabled: bool,
    /// The connection's process crashed.
    pub crash_ms: u64,
    /// Authentication was tried and failed.
    pub auth_fail_ms: u64,
    /// A login for a user who does not exist.
    pub invalid_user_ms: u64,
    /// `RefuseConnection` ended it.
    pub refuse_connection_ms: u64,
    /// The connection ended without trying to authenticate.
    pub no_auth_ms: u64,
    /// `LoginGraceTime` ran out.
    pub grace_exceeded_ms: u64,
    /// Limit of the sum of penalties.
    pub max_ms: u64,
    /// A source is refused only if the sum of its penalties exceeds this.
    pub min_ms: u64,
    /// Most IPv4 sources remembered.
    pub max_sources4: u32,
    /// Most IPv6 sources remembered.
    pub max_sources6: u32,
    /// The reaction to a full IPv4 table.
    pub overflow: PenaltyOverflow,
    /// The reaction to a full IPv6 table.
    pub overflow6: PenaltyOverflow,
}

/// How a part is written.
#[derive(Clone, Copy)]
enum PenaltyForm {
    /// A time, kept in milliseconds.
    Time,
    /// A number of sources.
    Sources,
    /// The number of a [`PenaltyOverflow`].
    Overflow,
}

const PERMISSIVE: u64 = PenaltyOverflow::Permissive as u64;

/// The parts in the order of the dump: name, form and default. Without a value of its own,
/// `overflow6` is as `overflow`.
const PARTS: [(&str, PenaltyForm, u64); 12] = [
    ("crash", PenaltyForm::Time, 90_000),
    ("authfail", PenaltyForm::Time, 5_000),
    ("noauth", PenaltyForm::Time, 1_000),
    ("invaliduser", PenaltyForm::Time, 5_000),
    ("grace-exceeded", PenaltyForm::Time, 10_000),
    ("refuseconnection", PenaltyForm::Time, 10_000),
    ("max", PenaltyForm::Time, 600_000),
    ("min", PenaltyForm::Time, 15_000),
    ("max-sources4", PenaltyForm::Sources, 65_536),
    ("max-sources6", PenaltyForm::Sources, 65_536),
    ("overflow", PenaltyForm::Overflow, PERMISSIVE),
    ("overflow6", PenaltyForm::Overflow, PERMISSIVE),
];

/// The number that encodes `yes` and `no`, after those of [`PARTS`].
const ENABLED: u8 = 12;

/// Most sources that may be remembered.
const MOST_SOURCES: u32 = 10_000_000;

/// Reads `key:value` words; `yes` and `no` stand alone.
pub(crate) fn read(words: &[String]) -> Result<Vec<(u8, u64)>, String> {
    if let [word] = words {
        match word.to_ascii_lowercase().as_str() {
            "yes" => return Ok(vec![(ENABLED, 1)]),
            "no" => return Ok(vec![(ENABLED, 0)]),
            _ => {}
        }
    }
    if words.is_empty() {
        return Err("missing argument.".to_owned());
    }
    words.iter().map(|word| part(word)).collect()
}

fn part(word: &str) -> Result<(u8, u64), String> {
    let bad = || format!("unsupported keyword/value {word}");
    let (key, value) = word.split_once(':').ok_or_else(bad)?;
    let key = key.to_ascii_lowercase();
    let found = (0..).zip(PARTS).find(|(_, (name, ..))| *name == key);
    let (number, (_, form, _)) = found.ok_or_else(bad)?;
    let value = match form {
        PenaltyForm::Time => units::parse_milliseconds(value)
            .ok_or_else(|| format!("invalid {key} time in PerSourcePenalties."))?,
        PenaltyForm::Sources => match value.parse() {
            Ok(sources @ 0..=MOST_SOURCES) => u64::from(sources),
            _ => return Err(format!("invalid {key} in PerSourcePenalties.")),
        },
        PenaltyForm::Overflow => match value {
            "permissive" => PERMISSIVE,
            "deny-all" => PenaltyOverflow::DenyAll as u64,
            _ => return Err(bad()),
        },
    };
    Ok((number, value))
}

/// The value of each part; the first line that names it counts.
fn applied(parts: &[(u8, u64)]) -> [u64; 12] {
    let set = |wanted: u8| {
        parts
            .iter()
            .find(|(number, _)| *number == wanted)
            .map(|part| part.1)
    };
    let mut out = PARTS.map(|(_, _, default)| default);
    for (number, slot) in (0..).zip(&mut out) {
        *slot = set(number).unwrap_or(*slot);
    }
    let [.., overflow, overflow6] = &mut out;
    if set(ENABLED - 1).is_none() {
        *overflow6 = *overflow;
    }
    out
}

/// As in OpenSSH, naming a penalty enables them, before or after `no`.
fn is_enabled(parts: &[(u8, u64)]) -> bool {
    parts.first() != Some(&(ENABLED, 0)) || parts.iter().any(|(number, _)| *number != ENABLED)
}

/// The parts as `sshd -T` prints them.
pub(crate) fn show(parts: &[(u8, u64)]) -> String {
    if !is_enabled(parts) {
        return "no".to_owned();
    }
    let shown = |((name, form, _), value): ((&str, PenaltyForm, u64), u64)| match form {
        PenaltyForm::Time => format!("{name}:{}", units::format_milliseconds(value)),
        PenaltyForm::Sources => format!("{name}:{value}"),
        PenaltyForm::Overflow if value == PERMISSIVE => format!("{name}:permissive"),
        PenaltyForm::Overflow => format!("{name}:deny-all"),
    };
    let parts: Vec<String> = PARTS.into_iter().zip(applied(parts)).map(shown).collect();
    parts.join(" ")
}

fn overflow(number: u64) -> PenaltyOverflow {
    match number {
        PERMISSIVE => PenaltyOverflow::Permissive,
        _ => PenaltyOverflow::DenyAll,
    }
}

impl Default for PerSourcePenalties {
    fn default() -> PerSourcePenalties {
        PerSourcePenalties::new(&[])
    }
}

impl PerSourcePenalties {
    /// The penalties of the parts that were read.
    pub(crate) fn new(parts: &[(u8, u64)]) -> PerSourcePenalties {
        let [
            crash_ms,
            auth_fail_ms,
            no_auth_ms,
            invalid_user_ms,
            grace_exceeded_ms,
            rest @ ..,
        ] = applied(parts);
        let [
            refuse_connection_ms,
            max_ms,
            min_ms,
            sources4,
            sources6,
            overflow4,
            overflow6,
        ] = rest;
        PerSourcePenalties {
            enabled: is_enabled(parts),
            crash_ms,
            auth_fail_ms,
            invalid_user_ms,
            refuse_connection_ms,
            no_auth_ms,
            grace_exceeded_ms,
            max_ms,
            min_ms,
            max_sources4: u32::try_from(sources4).unwrap_or(MOST_SOURCES),
            max_sources6: u32::try_from(sources6).unwrap_or(MOST_SOURCES),
            overflow: overflow(overflow4),
            overflow6: overflow(overflow6),
        }
    }
}
