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
    // A user name that contains an @ is split at the last one.
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
        address::match_host_and_address("h", "192.0.2.7", "192.0.2.7/40,*"),
        ListMatch::Negated
    );
}

#[test]
fn networks_of_users_may_be_written_short() {
    assert!(match_user("ann", "10.1.2.3", "10.1.2.3", "ann@10.0.0/8"));
    assert!(match_user("ann", "127.0.0.1", "127.0.0.1", "*@127.1"));
    assert!(!match_user("ann", "11.1.2.3", "11.1.2.3", "ann@10.0.0/8"));
    assert!(!match_user(
        "ann",
        "10.1.2.3",
        "10.1.2.3",
        "ann@::ffff:10.1.2.3"
    ));
}
