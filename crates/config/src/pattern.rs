//! Patterns of both configurations (ssh_config(5) PATTERNS), for users, groups and hosts.
//! [`keys::pattern`] and [`keys::address`] do the matching.

use keys::{address, pattern};

pub use keys::pattern::{Case, ListMatch};

/// True if `subject` matches the single `pattern`. Case-sensitive.
pub fn matches(subject: &str, pattern: &str) -> bool {
    pattern::matches(subject.as_bytes(), pattern.as_bytes())
}

/// Evaluates a comma-separated pattern-list; a matching `!pattern` overrides all others.
pub fn match_list(subject: &str, list: &str, case: Case) -> ListMatch {
    pattern::match_list(subject.as_bytes(), list.as_bytes(), case)
}

/// Evaluates a pattern-list against a host name, ignoring case.
pub fn match_hostname(host: &str, list: &str) -> ListMatch {
    match_list(host, list, Case::Ignored)
}

/// Evaluates one `AllowUsers` pattern, `USER` or `USER@HOST` (split at the last `@`).
pub fn match_user(user: &str, host: &str, ip: &str, pattern: &str) -> bool {
    match pattern.rsplit_once('@') {
        None => matches(user, pattern),
        Some((user_pattern, host_pattern)) => {
            matches(user, user_pattern)
                && address::match_host_and_address(host, ip, host_pattern).is_yes()
        }
    }
}

/// Evaluates a pattern-list against several names (a user's groups): a negated match of any of them
/// refuses, otherwise one match suffices.
pub fn match_any(subjects: &[String], list: &str, case: Case) -> ListMatch {
    let mut found = ListMatch::No;
    for subject in subjects {
        match match_list(subject, list, case) {
            ListMatch::Negated => return ListMatch::Negated,
            ListMatch::Yes => found = ListMatch::Yes,
            ListMatch::No => {}
        }
    }
    found
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
