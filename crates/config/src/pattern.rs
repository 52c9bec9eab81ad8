//! Wildcard patterns and pattern-lists of ssh_config(5) PATTERNS, shared with `authorized_keys` and
//! `known_hosts`.
//!
//! `*` stands for any run of bytes and `?` for one. Matching never backs up past the last `*`, so the
//! cost is bounded by the subject's length times the longest piece between two `*`, whatever the pattern.
//! Addresses and CIDR blocks are in [`crate::address`].

use crate::address;

/// What a pattern-list says about a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListMatch {
    /// No pattern matched.
    No,
    /// A pattern matched, and no negated one.
    Yes,
    /// A negated pattern (`!pattern`) matched.
    Negated,
}

impl ListMatch {
    /// True only for [`ListMatch::Yes`].
    pub fn is_yes(self) -> bool {
        self == ListMatch::Yes
    }
}

/// Whether letters of different case are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// `A` and `a` differ (user and group names).
    Sensitive,
    /// `A` and `a` are the same (host names).
    Ignored,
}

/// Does `subject` match the one `pattern`? Case counts.
pub fn matches(subject: &str, pattern: &str) -> bool {
    glob(subject.as_bytes(), pattern.as_bytes(), Case::Sensitive)
}

/// Does `subject` match the one `pattern`, with `case` as asked?
pub fn matches_case(subject: &str, pattern: &str, case: Case) -> bool {
    glob(subject.as_bytes(), pattern.as_bytes(), case)
}

/// Evaluates a comma-separated pattern-list; a matching `!pattern` outweighs everything else.
pub fn match_list(subject: &str, list: &str, case: Case) -> ListMatch {
    let mut found = ListMatch::No;
    for entry in list.split(',') {
        match entry.strip_prefix('!') {
            Some(negated) => {
                if matches_case(subject, negated, case) {
                    return ListMatch::Negated;
                }
            }
            None => {
                if found == ListMatch::No && matches_case(subject, entry, case) {
                    found = ListMatch::Yes;
                }
            }
        }
    }
    found
}

/// Evaluates a pattern-list against a host name, which compares without case.
pub fn match_hostname(host: &str, list: &str) -> ListMatch {
    match_list(host, list, Case::Ignored)
}

/// Evaluates a list of host patterns and CIDR blocks against a peer's name and address, as
/// `from=` and the host part of `AllowUsers` do. A malformed block makes the list match nothing.
pub fn match_host_and_address(host: &str, ip: &str, list: &str) -> ListMatch {
    let by_address = match address::match_list(Some(ip), list) {
        Ok(result) => result,
        Err(_) => return ListMatch::Negated,
    };
    if by_address == ListMatch::Negated {
        return ListMatch::Negated;
    }
    match match_hostname(host, list) {
        ListMatch::Negated => ListMatch::Negated,
        ListMatch::Yes => ListMatch::Yes,
        ListMatch::No => by_address,
    }
}

/// Evaluates one `AllowUsers` pattern, `USER` or `USER@HOST` (the last `@` divides them).
pub fn match_user(user: &str, host: &str, ip: &str, pattern: &str) -> bool {
    match pattern.rsplit_once('@') {
        None => matches(user, pattern),
        Some((user_pattern, host_pattern)) => {
            matches(user, user_pattern) && match_host_and_address(host, ip, host_pattern).is_yes()
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

/// Greedy matching: each piece between stars is placed at its first possible spot, which is enough.
fn glob(subject: &[u8], pattern: &[u8], case: Case) -> bool {
    let mut pieces = pattern.split(|&b| b == b'*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = strip_piece(subject, first, case) else {
        return false;
    };
    let Some(mut piece) = pieces.next() else {
        return rest.is_empty();
    };
    // `piece` stands after a star; it is the last one only when the iterator has no more.
    for following in pieces {
        match find_piece(rest, piece, case) {
            Some(after) => rest = after,
            None => return false,
        }
        piece = following;
    }
    match rest.len().checked_sub(piece.len()) {
        Some(at) => rest
            .get(at..)
            .is_some_and(|tail| piece_equal(tail, piece, case)),
        None => false,
    }
}

fn strip_piece<'a>(subject: &'a [u8], piece: &[u8], case: Case) -> Option<&'a [u8]> {
    let (head, tail) = subject.split_at_checked(piece.len())?;
    piece_equal(head, piece, case).then_some(tail)
}

fn find_piece<'a>(subject: &'a [u8], piece: &[u8], case: Case) -> Option<&'a [u8]> {
    if piece.is_empty() {
        return Some(subject);
    }
    let at = subject
        .windows(piece.len())
        .position(|window| piece_equal(window, piece, case))?;
    subject.get(at.checked_add(piece.len())?..)
}

fn piece_equal(bytes: &[u8], piece: &[u8], case: Case) -> bool {
    bytes.len() == piece.len()
        && bytes.iter().zip(piece).all(|(b, p)| {
            *p == b'?'
                || match case {
                    Case::Sensitive => b == p,
                    Case::Ignored => b.eq_ignore_ascii_case(p),
                }
        })
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
