//! Match blocks and what they are matched with.

use super::*;

#[test]
fn match_criteria() {
    for (criteria, expected) in [
        ("All", true),
        ("User ann", true),
        ("user a*,!ann", false),
        ("User=ann", true),
        ("Group staff", true),
        ("Group wheel,!staff,*", false),
        ("Host *.EXAMPLE", true),
        ("Address 192.0.2.0/24", true),
        ("Address 192.0.2.*,!192.0.2.7", false),
        ("LocalAddress 10.0.0.1", true),
        ("LocalPort 22", true),
        ("LocalPort 23", false),
        ("User ann Address 198.51.100.0/24", false),
        ("Invalid-User", false),
        ("Version *", true),
        ("Version Fulmar_*", true),
        ("Version SSH-2.0-*", false),
    ] {
        let config = load(&format!("Match {criteria}\nPermitTTY no\n"));
        assert_eq!(
            !config.for_connection(&ann()).session.permit_tty,
            expected,
            "{criteria}"
        );
        let of_account = criteria.starts_with("Group") || criteria == "Invalid-User";
        assert_eq!(config.asks_for_accounts(), of_account, "{criteria}");
    }
    let mut nobody = ann();
    nobody.user_exists = false;
    let config = load(
        "Match Invalid-User\nRefuseConnection no\nMaxAuthTries 1\nMatch Group *\nMaxAuthTries 2\n",
    );
    assert_eq!(
        config.for_connection(&nobody).authentication.max_auth_tries,
        1
    );
    assert_eq!(
        config.for_connection(&ann()).authentication.max_auth_tries,
        2
    );
    for bad in [
        "User",
        "Frob x",
        "All User x",
        "Address 10.0.0.1/8",
        "LocalPort x",
        "LocalPort 1,2",
        "RDomain",
        "#",
    ] {
        assert!(try_load(&format!("Match {bad}\n")).is_err(), "{bad}");
    }
}

#[test]
fn a_routing_domain_is_matched_and_listened_in() {
    let config = load("MaxAuthTries 3\nMatch RDomain vrf*,!vrf2\nMaxAuthTries 2\n");
    let tries = |rdomain: Option<&str>| {
        let spec = ConnectionSpec {
            rdomain: rdomain.map(str::to_owned),
            ..ann()
        };
        config.for_connection(&spec).authentication.max_auth_tries
    };
    assert_eq!(tries(Some("vrf1")), 2);
    for other in [None, Some(""), Some("vrf2"), Some("eth0")] {
        assert_eq!(tries(other), 3, "{other:?}");
    }
    let config = load("Port 2200\nListenAddress 127.0.0.1 rdomain vrf1\nListenAddress ::1\n");
    let text = config.global().dump();
    assert!(
        text.contains("ListenAddress 127.0.0.1:2200 rdomain vrf1\n"),
        "{text}"
    );
    assert!(text.contains("ListenAddress [::1]:2200\n"), "{text}");
}

#[test]
fn keywords_that_no_match_block_may_hold() {
    for line in [
        "Port 22",
        "WarnWeakCrypto no",
        "UsePAM yes",
        "HostKey /x",
        "Ciphers aes128-ctr",
        "PermitUserEnvironment yes",
        "StrictModes no",
    ] {
        let text = refusal(&format!("Match User *\n{line}\n"));
        assert!(
            text.contains("line 2: Directive '")
                && text.contains("not allowed within a Match block"),
            "{text}"
        );
    }
    // The same inside an included file.
    let files = MemoryFiles::default()
        .with("/etc/ssh/sshd_config", "Match User *\nInclude x.conf\n")
        .with("/etc/ssh/x.conf", "Match all\nPort 22\n");
    assert!(load_with(files, &ServerArguments::default()).is_err());
}

/// Files end their blocks with it, for the files that are read after them.
#[test]
fn match_all_ends_a_block() {
    let text = "MaxStartups 3\nMatch User ann\nPermitTTY no\nMatch all\nMaxStartups 4\n\
                Port 2222\nPermitUserEnvironment yes\nPermitTTY yes\n";
    let config = load(text);
    let global = config.global();
    assert_eq!(global.limits.max_startups.start, 3);
    assert!(global.session.permit_user_environment.permits("LD_PRELOAD"));
    assert!(!config.for_connection(&ann()).session.permit_tty);
    let files = MemoryFiles::default()
        .with("/etc/ssh/sshd_config", "Match all\nInclude x.conf\n")
        .with("/etc/ssh/x.conf", "PermitUserEnvironment yes\n");
    let config = load_with(files, &ServerArguments::default()).unwrap();
    assert!(
        config
            .global()
            .session
            .permit_user_environment
            .permits("LANG")
    );
}

#[test]
fn match_and_include_are_refused_on_the_command_line() {
    for option in ["Match User nobody", "Match=all", "Include=/x", "include /x"] {
        let arguments = ServerArguments {
            options: vec![option.to_owned(), "MaxAuthTries=2".to_owned()],
            ..ServerArguments::default()
        };
        let files = MemoryFiles::default().with("/etc/ssh/sshd_config", "MaxSessions 1\n");
        let error = load_with(files, &arguments).unwrap_err().to_string();
        let sentence = "directive not supported as a command-line option";
        assert!(error.contains(sentence), "{option}: {error}");
    }
}

#[test]
fn accumulated_words_of_match_replace_global_ones() {
    let config = load(
        "AcceptEnv A\nAcceptEnv B\nAllowUsers x\nMatch User ann\nAcceptEnv C\nAcceptEnv D\nMatch all\nAcceptEnv E\n",
    );
    assert_eq!(config.global().session.accept_env, ["A", "B"]);
    assert_eq!(
        config.for_connection(&ann()).session.accept_env,
        ["C", "D", "E"]
    );
    assert_eq!(
        config.for_connection(&ann()).authentication.allow_users,
        ["x"]
    );
}

#[test]
fn connection_specifications() {
    let spec = ann();
    assert_eq!(spec.user.as_deref(), Some("ann"));
    assert_eq!(
        (spec.local_port, spec.host.as_str()),
        (Some(22), "h.example")
    );
    assert!(
        !ConnectionSpec::parse("user=x,invalid-user")
            .unwrap()
            .user_exists
    );
    assert_eq!(
        ConnectionSpec::parse("user=x,").unwrap(),
        ConnectionSpec::parse("user=x").unwrap()
    );
    for bad in ["user", "addr=x", "lport=0", "frob=x", "", ",", "user=x,,"] {
        assert!(ConnectionSpec::parse(bad).is_err(), "{bad}");
    }
}

/// A block that restricts applies to every peer that its list names, or the file is refused.
#[test]
fn match_address_applies_to_short_networks_and_refuses_what_matches_nobody() {
    let sessions = |criterion: &str, address: &str| {
        let config = load(&format!("{criterion}\nMaxSessions 3\n"));
        let spec = ConnectionSpec {
            address: address.parse().ok(),
            local_address: "127.0.0.1".parse().ok(),
            ..ConnectionSpec::default()
        };
        config.for_connection(&spec).limits.max_sessions
    };
    for (criterion, applies) in [
        ("Match Address 10.0.0/8", true),
        ("Match Address 012.0.0.0/8", true),
        ("Match Address 10.1.2.3", true),
        ("Match Address 10.66051", true),
        ("Match Address 10.*", true),
        ("Match LocalAddress 127.1", true),
        ("Match Address 10.2.0.0/16", false),
        // As in OpenSSH, a mapped entry is an IPv6 one.
        ("Match Address ::ffff:10.1.2.3", false),
        ("Match Address ::ffff:0:0/96", false),
    ] {
        for peer in ["10.1.2.3", "::ffff:10.1.2.3"] {
            let expected = if applies { 3 } else { 10 };
            assert_eq!(sessions(criterion, peer), expected, "{criterion} {peer}");
        }
    }
    for bad in [
        "Match Address 10.0.0.0/200",
        "Match Address 10.0.0.0/x",
        "Match LocalAddress 10.0.0.300",
        "Match Address localhost",
        "Match Address *.example.com",
        "Match LocalAddress host.example.com,!127.0.0.1",
        "Match Address 10.0.0.0/8,!host.example.com",
        "Match Address 10.0.0.0/8,192.168.0.x",
    ] {
        assert!(refusal(bad).contains("matches nobody"), "{bad}");
    }
    for bad in ["Match Address 10.0.0.1/8", "Match Address fe80::1%eth0"] {
        assert!(try_load(bad).is_err(), "{bad}");
    }
    for bad in ["AllowUsers u@10.0.0.0/x", "DenyUsers u@10.0.0.1/8"] {
        assert!(try_load(bad).is_err(), "{bad}");
    }
    // A name beside addresses matches nobody, as in OpenSSH, and a warning says so.
    for (criterion, applies) in [
        ("Match Address 192.168.0.0/16,host.example.com", false),
        ("Match LocalAddress localhost,127.0.0.1", true),
        ("Match Address 10.0.0.0/8,host.example.com", true),
    ] {
        let expected = if applies { 3 } else { 10 };
        assert_eq!(sessions(criterion, "10.1.2.3"), expected, "{criterion}");
        let config = load(&format!("{criterion}\nMaxSessions 3\n"));
        let [warning] = config.warnings() else {
            panic!("{criterion}: no warning")
        };
        let shown = warning.to_string();
        assert!(shown.contains("line 1: Match: \""), "{shown}");
        assert!(shown.contains("is a name"), "{shown}");
    }
}
