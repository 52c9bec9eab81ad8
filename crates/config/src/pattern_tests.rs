use super::*;

#[test]
fn single_patterns() {
    for (subject, pattern, expected) in [
        ("", "", true),
        ("", "*", true),
        ("", "?", false),
        ("a", "", false),
        ("abc", "abc", true),
        ("abc", "a?c", true),
        ("abc", "a*", true),
        ("abc", "*c", true),
        ("abc", "*b*", true),
        ("abc", "a*b*c", true),
        ("abc", "a**c", true),
        ("abc", "a*d", false),
        ("aXbXc", "a*b?c", true),
        ("ab", "ab*ab", false),
        ("aab", "*ab", true),
        ("abab", "ab*ab", true),
        ("Abc", "abc", false),
    ] {
        assert_eq!(matches(subject, pattern), expected, "{subject} {pattern}");
    }
}

/// The reference: dynamic programming over all positions.
fn slow(subject: &[u8], pattern: &[u8]) -> bool {
    let mut row = vec![false; subject.len() + 1];
    row[0] = true;
    for &p in pattern {
        let mut next = vec![false; subject.len() + 1];
        if p == b'*' {
            let mut any = false;
            for (i, slot) in next.iter_mut().enumerate() {
                any |= row[i];
                *slot = any;
            }
        } else {
            for i in 0..subject.len() {
                next[i + 1] = row[i] && (p == b'?' || p == subject[i]);
            }
        }
        row = next;
    }
    row[subject.len()]
}

#[test]
fn agrees_with_the_slow_reference_on_all_short_inputs() {
    let subject_letters = [b'a', b'b'];
    let pattern_letters = [b'a', b'b', b'*', b'?'];
    let all = |letters: &[u8], max: usize| {
        let mut out = vec![Vec::new()];
        let mut from = 0;
        for _ in 0..max {
            let end = out.len();
            for i in from..end {
                for &l in letters {
                    let mut longer: Vec<u8> = out[i].clone();
                    longer.push(l);
                    out.push(longer);
                }
            }
            from = end;
        }
        out
    };
    for pattern in all(&pattern_letters, 5) {
        for subject in all(&subject_letters, 5) {
            assert_eq!(
                glob(&subject, &pattern, Case::Sensitive),
                slow(&subject, &pattern),
                "{subject:?} {pattern:?}"
            );
        }
    }
}

#[test]
fn wildcards_do_not_multiply() {
    // An exponential matcher would not come back from this one.
    let subject = "a".repeat(4096);
    let pattern = format!("{}b", "*a".repeat(2047));
    assert!(!matches(&subject, &pattern));
    assert!(matches(&subject, &"*a".repeat(2048)));
}

#[test]
fn lists_and_negation() {
    assert_eq!(match_list("a", "b,a", Case::Sensitive), ListMatch::Yes);
    assert_eq!(
        match_list("a", "b,!a,*", Case::Sensitive),
        ListMatch::Negated
    );
    assert_eq!(match_list("a", "*,!a", Case::Sensitive), ListMatch::Negated);
    assert_eq!(match_list("c", "!a,!b", Case::Sensitive), ListMatch::No);
    assert_eq!(match_list("c", "", Case::Sensitive), ListMatch::No);
    assert_eq!(match_hostname("HOST.example", "host.*"), ListMatch::Yes);
}

#[test]
fn users_at_hosts() {
    assert!(match_user("ann", "h.example", "192.0.2.7", "a*"));
    assert!(match_user(
        "ann",
        "h.example",
        "192.0.2.7",
        "ann@192.0.2.0/24"
    ));
    assert!(match_user("ann", "h.example", "192.0.2.7", "ann@*.example"));
    assert!(!match_user(
        "ann",
        "h.example",
        "192.0.2.7",
        "ann@198.51.100.0/24"
    ));
    assert!(!match_user("bob", "h.example", "192.0.2.7", "ann@*"));
    // A user name that contains an @ is divided at the last one.
    assert!(match_user("a@b", "h", "192.0.2.7", "a@b@*"));
}

#[test]
fn groups() {
    let groups = ["wheel".to_owned(), "users".to_owned()];
    assert_eq!(match_any(&groups, "users", Case::Sensitive), ListMatch::Yes);
    assert_eq!(
        match_any(&groups, "!wheel,*", Case::Sensitive),
        ListMatch::Negated
    );
    assert_eq!(match_any(&groups, "staff", Case::Sensitive), ListMatch::No);
}

#[test]
fn malformed_cidr_in_a_host_list_never_matches() {
    assert_eq!(
        match_host_and_address("h", "192.0.2.7", "192.0.2.7/40,*"),
        ListMatch::Negated
    );
}
