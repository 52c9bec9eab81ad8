//! Wildcard patterns and comma-separated lists of them (ssh_config(5), PATTERNS): `*` for any
//! bytes, `?` for one, `!` before a pattern for "but not".
//!
//! The matcher remembers only the last `*`, so its work is bounded by pattern times text and
//! is linear for the patterns that made backtracking matchers explode.

/// Whether the whole of `text` matches `pattern`.
#[must_use]
pub fn matches(text: &[u8], pattern: &[u8]) -> bool {
    matches_with(text, pattern, |left, right| left == right)
}

/// The same without regard to ASCII case, as host names are compared.
#[must_use]
pub fn matches_ignoring_case(text: &[u8], pattern: &[u8]) -> bool {
    matches_with(text, pattern, |left, right| {
        left.eq_ignore_ascii_case(&right)
    })
}

fn matches_with(text: &[u8], pattern: &[u8], same: impl Fn(u8, u8) -> bool) -> bool {
    let (mut at, mut in_pattern) = (0, 0);
    // Where to go on after a mismatch: behind the last star, one byte of text later.
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
        // A star at the end takes all that is left.
        if after_star == pattern.len() {
            return true;
        }
        at = start + 1;
        in_pattern = after_star;
        star = Some((after_star, at));
    }
}

/// How a list of patterns judges a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListMatch {
    /// A plain pattern matches and no negated one does.
    Matched,
    /// Nothing matches.
    Unmatched,
    /// A negated pattern matches: refused whatever else matches.
    Negated,
}

/// Judges `text` by the comma-separated patterns of `list`. A list of negated patterns alone
/// matches nothing.
#[must_use]
pub fn match_list(text: &[u8], list: &[u8], ignore_case: bool) -> ListMatch {
    match_items(list.split(|byte| *byte == b','), |pattern| {
        if ignore_case {
            matches_ignoring_case(text, pattern)
        } else {
            matches(text, pattern)
        }
    })
}

/// Judges by any test that each pattern is given to, without its `!`.
pub(crate) fn match_items<'p>(
    patterns: impl Iterator<Item = &'p [u8]>,
    mut test: impl FnMut(&[u8]) -> bool,
) -> ListMatch {
    let mut result = ListMatch::Unmatched;
    for pattern in patterns {
        if let Some(negated) = pattern.strip_prefix(b"!") {
            if test(negated) {
                return ListMatch::Negated;
            }
        } else if !pattern.is_empty() && test(pattern) {
            result = ListMatch::Matched;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_as_the_manual_says() {
        for (text, pattern, expected) in [
            ("", "", true),
            ("", "*", true),
            ("a", "", false),
            ("abc", "a?c", true),
            ("abc", "a?", false),
            ("abc", "*c", true),
            ("abcbc", "a*bc", true),
            ("abcbd", "a*bc", false),
            ("host.example.com", "*.example.com", true),
            ("example.com", "*.example.com", false),
            ("abc", "a**c", true),
            ("ab", "a?*b", false),
        ] {
            assert_eq!(
                matches(text.as_bytes(), pattern.as_bytes()),
                expected,
                "{text} {pattern}"
            );
        }
        assert!(matches_ignoring_case(b"HOST", b"h?st"));
        assert!(!matches(b"HOST", b"h?st"));
    }

    #[test]
    fn a_negated_pattern_wins_wherever_it_stands() {
        let list = b"*.example.com,!bad.example.com";
        assert_eq!(
            match_list(b"a.example.com", list, false),
            ListMatch::Matched
        );
        assert_eq!(
            match_list(b"bad.example.com", list, false),
            ListMatch::Negated
        );
        assert_eq!(match_list(b"x", list, false), ListMatch::Unmatched);
        assert_eq!(match_list(b"x", b"!y", false), ListMatch::Unmatched);
        assert_eq!(match_list(b"", b"", false), ListMatch::Unmatched);
    }

    #[test]
    fn patterns_of_many_stars_take_linear_time() {
        // Counted, not timed: each comparison of a byte is one call.
        let text = vec![b'a'; 4096];
        let mut pattern = b"*a".repeat(1000);
        pattern.push(b'b');
        let steps = std::cell::Cell::new(0_usize);
        let matched = matches_with(&text, &pattern, |left, right| {
            steps.set(steps.get() + 1);
            left == right
        });
        assert!(!matched);
        assert!(steps.get() < 4 * text.len(), "{} steps", steps.get());
    }
}
