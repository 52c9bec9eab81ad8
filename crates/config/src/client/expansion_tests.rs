//! Tokens, tildes and variables in values.

use super::*;

#[test]
fn tokens_are_expanded_where_the_manual_allows_them() {
    let text = "HostName %h.example\nUser ann\nPort 7\nHostKeyAlias alias\n\
        IdentityFile ~/.ssh/%r@%h:%p-%n-%k-%u-%i-%L-%l-%d-%%\n\
        IdentityFile ${KEYS}/%h\nCertificateFile ~/c-%n\nUserKnownHostsFile ~/k_%h\n\
        IdentityAgent ~/a-%i\nProxyCommand nc -q %h %p %r\nRemoteCommand run %n\nVersionAddendum %u\n";
    let env = FakeEnvironment::new().variable("KEYS", "/keys");
    let options = try_resolve(text, "box", &CommandLine::new(), &env).unwrap();
    assert_eq!(options.hostname, "box.example");
    assert_eq!(
        options.user_keys.identity_files[0].path,
        "/home/local/.ssh/ann@box.example:7-box-alias-local-1000-box-box.example-/home/local-%"
    );
    assert_eq!(
        options.user_keys.identity_files[1].path,
        "/keys/box.example"
    );
    assert_eq!(options.user_keys.certificate_files, ["/home/local/c-box"]);
    assert_eq!(
        options.host_keys.user_known_hosts_files,
        ["/home/local/k_box.example"]
    );
    assert_eq!(
        options.user_keys.identity_agent,
        IdentityAgent::Socket("/home/local/a-1000".into())
    );
    assert_eq!(
        options.connection.proxy,
        Proxy::Command("nc -q box.example 7 ann".into())
    );
    assert_eq!(options.session.remote_command.as_deref(), Some("run box"));
    assert_eq!(
        options.connection.version_addendum.as_deref(),
        Some("local")
    );
    assert_eq!(options.host_keys.update_host_keys, YesNoAsk::No);
    for bad in [
        "HostName %p\n",
        "IdentityFile %z\n",
        "ProxyCommand %u\n",
        "UserKnownHostsFile ${NOT_SET}\n",
    ] {
        assert!(
            try_resolve(bad, "box", &CommandLine::new(), &env).is_err(),
            "{bad}"
        );
    }
}

#[test]
fn tokens_and_variables_of_user_are_replaced() {
    let env = FakeEnvironment::new()
        .variable("NAME", "ann%h")
        .variable("BAD", "a;b");
    let user = |text: &str, line: &CommandLine| {
        try_resolve(text, "host", line, &env).map(|options| (options.user.clone(), options.dump()))
    };
    let from_file = |text: &str| user(text, &CommandLine::new());
    let (name, dump) = from_file("User %u-%n%%\n").unwrap();
    assert_eq!(name, "local-host%");
    assert!(dump.contains("\nuser local-host%\n"), "{dump}");
    assert_eq!(from_file("User ${NAME}\n").unwrap().0, "ann%h");
    // A name without tokens and variables stays as written; an expanded name is checked.
    assert_eq!(from_file("User a$b;c\n").unwrap().0, "a$b;c");
    for bad in ["${BAD}", "a;b%%", "a\\b%%", "%r", "%C", "a%", "${UNSET}"] {
        assert!(from_file(&format!("User {bad}\n")).is_err(), "{bad}");
    }
    let mut option = CommandLine::new();
    option.option("User=%u");
    assert_eq!(user("", &option).unwrap().0, "local");
    let mut odd = CommandLine::new();
    odd.option("User=a\\$b");
    assert_eq!(
        user("", &odd).unwrap_err().to_string(),
        "remote username contains invalid characters"
    );
    // In a flag, tokens and variables have no meaning.
    let mut flag = CommandLine::new();
    flag.set("User", "a%h");
    assert_eq!(user("User b\nHost host\n", &flag).unwrap().0, "a%h");
    assert_eq!(user("Match final\nPort 2\n", &flag).unwrap().0, "a%h");
    // In later keywords `%r` is the expanded name.
    let options = try_resolve("User %h\nSetEnv A=%r\n", "host", &CommandLine::new(), &env);
    assert_eq!(options.unwrap().session.set_env[0].value, "host");
}

#[test]
fn tokens_and_variables_in_the_values_of_set_env_are_replaced() {
    let env = FakeEnvironment::new().variable("WHERE", "here;");
    let resolved = |text: &str| try_resolve(text, "h", &CommandLine::new(), &env);
    let options = resolved("SetEnv A=%h-%%-$B B%h=${WHERE}=x\n").unwrap();
    let set: Vec<String> = options
        .session
        .set_env
        .iter()
        .map(|set| format!("{}={}", set.name, set.value))
        .collect();
    assert_eq!(set, ["A=h-%-$B", "B%h=here;=x"]);
    assert!(options.dump().contains("\nsetenv A=h-%-$B\n"));
    for bad in ["A=%q", "A=%T", "A=${UNSET}"] {
        assert!(resolved(&format!("SetEnv {bad}\n")).is_err(), "{bad}");
    }
}

#[test]
fn the_dump_shows_what_tokens_stand_for() {
    let dump = resolve("RevokedHostKeys ~/%n\nVersionAddendum a%n\n", "host").dump();
    assert!(
        dump.contains("\nrevokedhostkeys /home/local/host\n"),
        "{dump}"
    );
    assert!(dump.contains("\nversionaddendum ahost\n"), "{dump}");
}

/// As `ssh -G` of OpenSSH 10.6: `Host` and `Match` of the first pass see the address as it is typed, what follows sees
/// its usual form.
#[test]
fn an_address_is_used_in_its_usual_form() {
    let text = "Host alias\nHostName %h.1\nHost 127\nHostName %h.1\n\
                Match host 127.0.0.1\nUser first\nMatch host 127.1\nUser typed\n\
                Host *\nControlPath /tmp/%h-%n-%k\n";
    for (host, hostname, user) in [
        ("127.1", "127.0.0.1", "typed"),
        ("127", "127.0.0.1", "typed"),
        ("127.0.0.1", "127.0.0.1", "first"),
        ("0:0::1", "::1", "local"),
        ("alias", "alias.1", "local"),
    ] {
        let options = resolve(text, host);
        assert_eq!((&*options.hostname, &*options.user), (hostname, user));
        assert_eq!(options.host_argument, host);
        let path = format!("/tmp/{hostname}-{host}-{host}");
        assert_eq!(options.connection.control_path.as_deref(), Some(&*path));
    }
    let text = "Match final host 127.0.0.1\nUser last\nMatch final host 127.1\nUser typed\n";
    assert_eq!(resolve(text, "127.1").user, "last");
    let text = "ProxyCommand x %h\nHostKeyAlias 127.1\n";
    let options = resolve(text, "0x7f.1");
    assert_eq!(options.hostname, "127.0.0.1");
    assert_eq!(options.host_keys.host_key_alias.as_deref(), Some("127.1"));
    assert_eq!(resolve("AddressFamily inet6\n", "127.1").hostname, "127.1");
}
