//! Wildcard patterns and comma-separated lists of them (ssh_config(5), PATTERNS): `*` matches any
//! bytes, `?` one byte, `!` negates a pattern.
//!
//! The matcher remembers only the last `*`, so its work is at most pattern length times text
//! length, and linear for the patterns that take backtracking matchers exponential time.
//! [`crate::address`] has lists that also contain addresses and networks; `config` applies both to
//! its keywords.

/// Whether upper and lower case differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// `A` and `a` differ (user and group names).
    Sensitive,
    /// `A` and `a` are equal (host names).
    Ignored,
}

/// True if `pattern` matches the whole of `text`.
#[must_use]
pub fn matches(text: &[u8], pattern: &[u8]) -> bool {
    matches_with(text, pattern, |left, right| left == right)
}

/// As [`matches()`], ignoring ASCII case, as for host names.
#[must_use]
pub fn matches_ignoring_case(text: &[u8], pattern: &[u8]) -> bool {
    matches_with(text, pattern, |left, right| {
        left.eq_ignore_ascii_case(&right)
    })
}

fn matches_with(text: &[u8], pattern: &[u8], same: impl Fn(u8, u8) -> bool) -> bool {
    let (mut at, mut in_pattern) = (0, 0);
    // Position to continue from after a mismatch: after the last star, one byte of text later.
    let mut star: Option<(usize, usize)> = None;
    loop {
        match (text.get(at), pattern.get(in_pattern)) {
            (_, Some(b'*')) => {
                in_pattern += 1;
                star = Some((in_pattern, at));
                continue;
            }
            (Some(byte), Some(wanted)) if *wanted == b'?' || same(*byte, *wanted) => {
                at += 1;
                in_pattern += 1;
                continue;
            }
            (None, None) => return true,
            (None, Some(_)) => return false,
            _ => {}
        }
        let Some((after_star, start)) = star else {
            return false;
        };
        // A star at the end matches the rest.
        if after_star == pattern.len() {
            return true;
        }
        at = start + 1;
        in_pattern = after_star;
        star = Some((after_star, at));
    }
}

/// Result of matching a text against a list of patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListMatch {
    /// No pattern matches.
    No,
    /// A plain pattern matches and no negated one does.
    Yes,
    /// A negated pattern matches, which overrides all other matches.
    Negated,
}

impl ListMatch {
    /// True only for [`ListMatch::Yes`].
    #[must_use]
    pub fn is_yes(self) -> bool {
        self == Self::Yes
    }
}

/// True if `pattern` matches the whole of `text`, with or without regard to case.
#[must_use]
pub fn matches_case(text: &[u8], pattern: &[u8], case: Case) -> bool {
    match case {
        Case::Sensitive => matches(text, pattern),
        Case::Ignored => matches_ignoring_case(text, pattern),
    }
}

/// Matches `text` against the comma-separated patterns of `list`. A list of negated patterns only
/// matches nothing, and a comma at the end is ignored.
#[must_use]
pub fn match_list(text: &[u8], list: &[u8], case: Case) -> ListMatch {
    let list = list.strip_suffix(b",").unwrap_or(list);
    if list.is_empty() {
        return ListMatch::No;
    }
    let mut found = ListMatch::No;
    for entry in list.split(|byte| *byte == b',') {
        match entry.strip_prefix(b"!") {
            Some(negated) if matches_case(text, negated, case) => return ListMatch::Negated,
            None if matches_case(text, entry, case) => found = ListMatch::Yes,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
