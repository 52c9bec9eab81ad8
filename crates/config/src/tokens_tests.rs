use super::*;
use crate::testing::FakeEnvironment;

fn tokens() -> Tokens {
    Tokens::new()
        .with('h', "host")
        .with('r', "ann")
        .with('p', "22")
}

#[test]
fn tokens_are_replaced_once() {
    let expand = |t: &str| tokens().expand(t, Purpose::Plain);
    assert_eq!(expand("%r@%h:%p 100%%").unwrap(), "ann@host:22 100%");
    assert_eq!(expand("${HOME} $x").unwrap(), "${HOME} $x");
    assert_eq!(expand("%"), Err(ExpandError::UnknownToken(String::new())));
    assert_eq!(expand("%z"), Err(ExpandError::UnknownToken("z".into())));
    assert_eq!(expand("%é"), Err(ExpandError::UnknownToken("é".into())));
    let tricky = Tokens::new().with('h', "%r${HOME}");
    assert_eq!(tricky.expand("%h", Purpose::Plain).unwrap(), "%r${HOME}");
}

#[test]
fn variables_are_replaced_where_allowed() {
    let env = FakeEnvironment::new().variable("DIR", "/x%h");
    let expand = |t: &str| tokens().expand_with_variables(t, Purpose::Plain, &env);
    assert_eq!(expand("${DIR}/%h").unwrap(), "/x%h/host");
    assert_eq!(expand("a$b").unwrap(), "a$b");
    assert_eq!(expand("${NONE}"), Err(ExpandError::Variable("NONE".into())));
    assert_eq!(expand("${DIR"), Err(ExpandError::Variable("DIR".into())));
    assert_eq!(expand("${}"), Err(ExpandError::Variable(String::new())));
}

#[test]
fn tilde() {
    let env = FakeEnvironment::new();
    assert_eq!(
        expand_tilde("~/.ssh/id", &env).unwrap(),
        "/home/local/.ssh/id"
    );
    assert_eq!(expand_tilde("~", &env).unwrap(), "/home/local/");
    assert_eq!(expand_tilde("~bob", &env).unwrap(), "/home/bob/");
    assert_eq!(expand_tilde("~bob/x", &env).unwrap(), "/home/bob/x");
    assert!(expand_tilde("~nobody-here/x", &env).is_err());
    assert_eq!(expand_tilde("/~/x", &env).unwrap(), "/~/x");
}

#[test]
fn a_shell_never_sees_names_that_it_would_act_on() {
    for bad in [
        "`id`",
        "a;b",
        "$(x)",
        "a|b",
        "-oProxyCommand=x",
        "a\nb",
        "a b",
        "'x'",
        "x\u{1b}[2J",
    ] {
        let t = Tokens::new().with('h', bad);
        assert!(
            matches!(
                t.expand("nc %h", Purpose::Shell),
                Err(ExpandError::Unsafe { token: 'h', .. })
            ),
            "{bad:?}"
        );
        assert!(t.expand("nc %h", Purpose::Plain).is_ok());
    }
    let t = Tokens::new().with('r', "DOMAIN\\user");
    assert_eq!(t.expand("%r", Purpose::Shell).unwrap(), "DOMAIN\\user");
}

#[test]
fn names_of_the_command_line() {
    for good in ["host", "a.b-c", "::1", "fe80::1%eth0", "host_1"] {
        assert!(is_valid_host(good), "{good}");
    }
    for bad in ["-x", "a b", "a;b", "a\0b", "$(x)", "a\\b", "\u{9b}x", "a,b"] {
        assert!(!is_valid_host(bad), "{bad:?}");
    }
    for good in ["ann", "a.b", "john smith", "a-b", "x@y"] {
        assert!(is_valid_user(good), "{good}");
    }
    for bad in [
        "-x",
        "a -x",
        "a`b",
        "a;b",
        "a\\",
        "a\nb",
        "a\0",
        "${x}",
        "pc$",
        "$u",
        "DOMAIN\\user",
    ] {
        assert!(!is_valid_user(bad), "{bad:?}");
    }
}

#[test]
fn expansions_are_bounded() {
    let t = Tokens::new().with('h', "x".repeat(1000));
    assert_eq!(
        t.expand(&"%h".repeat(1000), Purpose::Plain),
        Err(ExpandError::TooLong)
    );
}

#[test]
fn a_user_name_never_climbs_out_of_a_path() {
    for bad in ["../root", "a/b", "..", ".", "", "x\0y", "/etc"] {
        let t = Tokens::new().with('u', bad).with('h', "/home/x/y");
        assert!(
            matches!(
                t.expand("/keys/%u", Purpose::Path),
                Err(ExpandError::NotAComponent(_))
            ),
            "{bad:?}"
        );
        assert_eq!(
            t.expand("%h/keys", Purpose::Path).unwrap(),
            "/home/x/y/keys"
        );
    }
    let t = Tokens::new().with('u', "ann..x");
    assert_eq!(t.expand("/keys/%u", Purpose::Path).unwrap(), "/keys/ann..x");
}
