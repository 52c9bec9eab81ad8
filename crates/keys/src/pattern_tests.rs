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
        match_list(b"a.example.com", list, Case::Sensitive),
        ListMatch::Yes
    );
    assert_eq!(
        match_list(b"bad.example.com", list, Case::Sensitive),
        ListMatch::Negated
    );
    assert_eq!(match_list(b"x", list, Case::Sensitive), ListMatch::No);
    assert_eq!(match_list(b"x", b"!y", Case::Sensitive), ListMatch::No);
    assert_eq!(match_list(b"", b"", Case::Sensitive), ListMatch::No);
    assert_eq!(match_list(b"", b"a,", Case::Sensitive), ListMatch::No);
    assert_eq!(match_list(b"A", b"b,a", Case::Ignored), ListMatch::Yes);
}

#[test]
fn patterns_of_many_stars_take_linear_time() {
    // Counts calls instead of time: each comparison of a byte is one call.
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

/// Reference implementation: dynamic programming over all positions.
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
                matches(&subject, &pattern),
                slow(&subject, &pattern),
                "{subject:?} {pattern:?}"
            );
        }
    }
}

#[test]
fn wildcards_do_not_multiply() {
    // An exponential matcher would not finish this one.
    let subject = "a".repeat(4096);
    let pattern = format!("{}b", "*a".repeat(2047));
    assert!(!matches(subject.as_bytes(), pattern.as_bytes()));
    assert!(matches(subject.as_bytes(), "*a".repeat(2048).as_bytes()));
}
