use std::path::Path;

use super::*;
use crate::environment::MemoryFiles;
use crate::error::{ConfigError, Severity};
use crate::testing::FakeEnvironment;
use crate::types::{Compression, WarnWeakCrypto};

#[path = "expansion_tests.rs"]
mod expansion;
#[path = "file_tests.rs"]
mod files;
#[path = "printing_tests.rs"]
mod printing;

const USER: &str = "/home/local/.ssh/config";

fn config(files: MemoryFiles) -> ClientConfig {
    ClientConfig::standard(Path::new("/home/local"))
        .with_files(files)
        .with_aes_hardware(true)
}

fn with_text(text: &str) -> ClientConfig {
    config(MemoryFiles::default().with(USER, text))
}

fn resolve(text: &str, host: &str) -> ClientOptions {
    try_resolve(text, host, &CommandLine::new(), &FakeEnvironment::new()).unwrap()
}

fn try_resolve(
    text: &str,
    host: &str,
    command_line: &CommandLine,
    environment: &FakeEnvironment,
) -> Result<ClientOptions, ConfigError> {
    with_text(text).resolve(host, command_line, environment)
}

fn refusal(text: &str) -> String {
    try_resolve(text, "h", &CommandLine::new(), &FakeEnvironment::new())
        .unwrap_err()
        .to_string()
}

#[test]
fn defaults_without_any_file() {
    let options = resolve("", "Example.ORG");
    assert_eq!(options.hostname, "example.org");
    assert_eq!(options.host_argument, "Example.ORG");
    assert_eq!((options.user.as_str(), options.port), ("local", 22));
    assert_eq!(
        options.host_keys.strict_host_key_checking,
        StrictHostKeyChecking::Ask
    );
    assert_eq!(options.host_keys.update_host_keys, YesNoAsk::Yes);
    assert_eq!(
        options.user_keys.identity_agent,
        IdentityAgent::FromEnvironment
    );
    assert_eq!(options.connection.proxy, Proxy::Direct);
    assert_eq!(options.session.escape_char, EscapeChar::Byte(b'~'));
    assert_eq!(
        options.authentication.pubkey_authentication,
        PubkeyAuthentication::Yes
    );
    assert_eq!(
        options.host_keys.user_known_hosts_files,
        [
            "/home/local/.ssh/known_hosts",
            "/home/local/.ssh/known_hosts2"
        ]
    );
    assert_eq!(
        options.user_keys.identity_files[3].path,
        "/home/local/.ssh/id_ed25519"
    );
    assert!(
        options
            .user_keys
            .identity_files
            .iter()
            .all(|file| !file.explicit)
    );
    assert_eq!(options.algorithms.required_rsa_size, 2048);
    assert_eq!(
        options.algorithms.kex_algorithms[0],
        "mlkem768x25519-sha256"
    );
    assert_eq!(
        options.algorithms.host_key_algorithms.last().unwrap(),
        "ssh-mldsa44-ed25519"
    );
    assert!(!options.algorithms.host_key_algorithms_set);
    assert_eq!(
        options.authentication.preferred_authentications,
        [
            "gssapi-keyex",
            "gssapi-with-mic",
            "hostbased",
            "publickey",
            "keyboard-interactive",
            "password"
        ]
    );
    assert!(options.warnings.is_empty());
}

#[test]
fn the_level_of_compression_is_the_one_asked_for() {
    assert_eq!(resolve("", "h").compression.level, 6);
    for level in 1..=9 {
        let options = resolve(&format!("CompressionLevel {level}"), "h");
        assert_eq!(options.compression.level, level);
    }
}

#[test]
fn compression_is_off_zlib_or_zstd_and_nothing_else() {
    let methods = |line: &str| {
        let options = resolve(line, "h");
        (
            options.compression.method.is_on(),
            options.compression.method == Compression::Zstd,
        )
    };
    assert_eq!(methods(""), (false, false));
    assert_eq!(methods("Compression no"), (false, false));
    assert_eq!(methods("Compression yes"), (true, false));
    assert_eq!(methods("Compression Zstd"), (true, true));
    assert!(
        resolve("Compression zstd", "h")
            .dump()
            .contains("\ncompression zstd\n")
    );
    let files = MemoryFiles::default().with(USER, "Compression lz4\n");
    let refused = config(files).resolve("h", &CommandLine::new(), &FakeEnvironment::new());
    let said = refused.unwrap_err().to_string();
    assert!(
        said.contains("line 1: unsupported option \"lz4\"."),
        "{said}"
    );
}

#[test]
fn the_first_value_wins_from_command_line_to_system_file() {
    let files = MemoryFiles::default()
        .with(USER, "Port 2\nUser file\nIdentityFile ~/two\n")
        .with(
            SYSTEM_FILE,
            "Port 3\nConnectionAttempts 9\nIdentityFile /three\n",
        );
    let mut line = CommandLine::new();
    line.set("User", "typed user");
    line.option("Port=1");
    line.set("IdentityFile", "/one #%%\"");
    let options = config(files)
        .resolve("h", &line, &FakeEnvironment::new())
        .unwrap();
    assert_eq!(
        (
            options.port,
            options.user.as_str(),
            options.connection.connection_attempts
        ),
        (1, "typed user", 9)
    );
    let paths: Vec<_> = options
        .user_keys
        .identity_files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(paths, ["/one #%\"", "/home/local/two", "/three"]);
    assert!(
        options
            .user_keys
            .identity_files
            .iter()
            .all(|file| file.explicit)
    );
}

#[test]
fn match_exec_runs_in_order_and_only_when_it_can_matter() {
    let env = FakeEnvironment::new();
    let text = "Match user nobody exec \"true never\"\n User never\n\
        Match exec \"true %h %r\"\n User first\n\
        Match exec \"false x\"\n Port 9\n\
        Match !exec \"false y\" host h\n Port 8\n\
        Match user first exec \"true z\"\n ConnectionAttempts 3\n";
    let options = try_resolve(text, "h", &CommandLine::new(), &env).unwrap();
    assert_eq!(
        (
            options.user.as_str(),
            options.port,
            options.connection.connection_attempts
        ),
        ("first", 8, 3)
    );
    assert_eq!(
        *env.commands.borrow(),
        ["true h local", "false x", "false y", "true z"]
    );
    let error = try_resolve("Match exec nonsense\n", "h", &CommandLine::new(), &env).unwrap_err();
    assert!(error.to_string().contains("no such command"), "{error}");
}

#[test]
fn names_that_a_shell_would_act_on_never_reach_a_command() {
    let env = FakeEnvironment::new();
    let none = CommandLine::new();
    for host in [
        "-oProxyCommand=x",
        "a;b",
        "`id`",
        "a b",
        "x\ny",
        "$(x)",
        "a\0b",
        "",
    ] {
        assert!(try_resolve("", host, &none, &env).is_err(), "{host:?}");
    }
    for user in [
        "-x", "a;b", "`id`", "a\nb", "a\0b", "a\\", "${x}", "a\\b", "a$b", "a$", "$a",
    ] {
        let mut line = CommandLine::new();
        line.set("User", user);
        let error = try_resolve("Match exec \"true %r\"\nPort 3\n", "h", &line, &env).unwrap_err();
        assert!(
            error.to_string().contains("invalid characters")
                || error.to_string().contains("control"),
            "{error}"
        );
    }
    assert!(env.commands.borrow().is_empty());
    // A file of the user may name odd users; they still do not reach a shell.
    for text in [
        "User a;b\nMatch exec \"true %r\"\n",
        "User `x`\nProxyCommand nc %h %r\n",
        "HostName a;b\nProxyCommand nc %h\n",
        "HostKeyAlias $(x)\nProxyCommand nc %k\n",
        "User a;b\nRemoteCommand echo %r\n",
        "HostName \"x\u{1b}[2J\"\n",
        "User \"a\u{7}b\"\n",
    ] {
        assert!(try_resolve(text, "h", &none, &env).is_err(), "{text:?}");
    }
    assert!(env.commands.borrow().is_empty());
    for user in ["a;b", "a$b", "pc$", "DOMAIN\\\\bob", "-x", "a\\'b"] {
        let options = resolve(&format!("User {user}\n"), "h");
        assert_eq!(options.user, user.replace("\\\\", "\\").replace("\\'", "'"));
    }
    // Where a shell reads a name of a file, a backslash inside stays.
    let text = "User DOMAIN\\\\bob\nProxyCommand nc %r\n";
    assert_eq!(
        resolve(text, "h").connection.proxy,
        Proxy::Command("nc DOMAIN\\bob".into())
    );
}

#[test]
fn jump_hosts() {
    let options = resolve("ProxyJump ann@gate:2222,[::1]:33,%r@last\nUser bob\n", "h");
    let Proxy::Jump(hops) = options.connection.proxy else {
        panic!("no jump")
    };
    let shown: Vec<_> = hops
        .iter()
        .map(|h| (h.user.as_deref(), h.host.as_str(), h.port))
        .collect();
    assert_eq!(
        shown,
        [
            (Some("ann"), "gate", Some(2222)),
            (None, "::1", Some(33)),
            (Some("bob"), "last", None)
        ]
    );
    // `ProxyJump none` disables later jumps only.
    for (text, proxy) in [
        (
            "ProxyJump none\nProxyCommand x\n",
            Proxy::Command("x".into()),
        ),
        ("ProxyJump none\nProxyJump x\n", Proxy::Direct),
        (
            "ProxyJump NONE\nProxyJump x\nProxyCommand y\n",
            Proxy::Command("y".into()),
        ),
        ("ProxyCommand none\nProxyJump x\n", Proxy::Direct),
        ("ProxyCommand none\nProxyCommand x\n", Proxy::Direct),
        ("ProxyCommand x\nProxyJump y\n", Proxy::Command("x".into())),
    ] {
        assert_eq!(resolve(text, "h").connection.proxy, proxy, "{text}");
    }
    // Tokens stay in the dump, as with OpenSSH, also those that no connection could expand.
    let mut prints = CommandLine::new();
    prints.only_prints = true;
    for hops in [
        "%r@%h:22",
        "a,%z@last",
        "h%",
        "user;with;semicolon@host;with;semicolon",
    ] {
        let text = format!("ProxyJump {hops}\n");
        let printed = try_resolve(&text, "h", &prints, &FakeEnvironment::new()).unwrap();
        assert!(
            printed.dump().contains(&format!("\nproxyjump {hops}\n")),
            "{hops}"
        );
    }
    // An address is a host of its own when it takes the place of a token.
    let hop = |text: &str, host: &str| match resolve(text, host).connection.proxy {
        Proxy::Jump(hops) => hops.iter().map(JumpHost::to_string).collect(),
        _ => Vec::new(),
    };
    assert_eq!(hop("ProxyJump u@%h:22\n", "::1"), ["u@[::1]:22"]);
    assert!(refusal("ProxyJump %z\n").contains("ProxyJump"));
    assert_eq!(hop("User \"a,b\"\nProxyJump %r@h\n", "h"), ["a,b@h"]);
    assert!(refusal("User \"a$b\"\nProxyJump %r@h\n").contains("ProxyJump"));
    // The process of the last hop gets the others as a list: a name may not make it another one.
    for text in [
        "User \"a,evil\"\nProxyJump %r@h,i\n",
        "User \"a#b\"\nProxyJump %r@h,i\n",
        "ProxyJump ssh://a%2Cevil@h,i\n",
        "ProxyJump ssh://a%23b@h,i\n",
    ] {
        assert!(refusal(text).contains("ProxyJump"), "{text}");
    }
    assert_eq!(hop("ProxyJump g,ssh://a%2Cb@h\n", "h"), ["g", "a,b@h"]);
    assert!(
        resolve("ProxyJump ssh://u@a:22,ssh://v@[b]\n", "h")
            .dump()
            .contains("\nproxyjump ssh://u@a:22,v@b\n")
    );
    for bad in [
        "`x`", "a@-b", "-a", "h:99999", "a b", "x,,y", "x\u{1b}", "::1", "a$b@h", "u;v@h", "h;i,j",
    ] {
        assert!(
            refusal(&format!("ProxyJump \"{bad}\"\n")).contains("ProxyJump"),
            "{bad}"
        );
    }
    // Those of a command line are refused where they are only printed, too.
    for bad in ["u;v@h", "h;i,j", "`x`", "a$b@h"] {
        let mut line = CommandLine::new();
        line.only_prints = true;
        line.set("ProxyJump", bad);
        let refused = try_resolve("", "h", &line, &FakeEnvironment::new());
        assert!(
            refused.is_err_and(|error| error.to_string().contains("ProxyJump")),
            "{bad}"
        );
    }
}

#[test]
fn what_only_enables_gives_no_warning() {
    let options = resolve("LogVerbose client/*:* none\nLogVerbose kex.c:*:1\n", "h");
    assert_eq!(options.logging.log_verbose, ["client/*:*", "none"]);
    assert!(options.warnings.is_empty());
    let quiet = "AddKeysToAgent yes\nForwardAgent yes\nControlMaster no\nControlPath none\nForwardX11 yes\nTunnel no\nControlPersist no\n";
    assert!(resolve(quiet, "h").warnings.is_empty());
}

#[test]
fn what_debian_sets_by_default_is_silent_at_the_default_level() {
    let text = "Include /etc/ssh/ssh_config.d/*.conf\nHost *\n    SendEnv LANG LC_*\n    HashKnownHosts yes\n    \
        GSSAPIAuthentication yes\n";
    let options = config(MemoryFiles::default().with(SYSTEM_FILE, text))
        .resolve("h", &CommandLine::new(), &FakeEnvironment::new())
        .unwrap();
    assert!(
        options
            .warnings
            .iter()
            .all(|warning| warning.severity == Severity::Debug)
    );
    assert_eq!(options.session.send_env, ["LANG", "LC_*"]);
    assert!(options.host_keys.hash_known_hosts);
}

#[test]
fn what_restricts_and_is_not_carried_out_is_refused() {
    for text in ["not today", "none"] {
        let said = refusal(&format!("RefuseConnection \"{text}\"\n"));
        assert!(
            said.contains(&format!("line 1: RefuseConnection: {text}")),
            "{said}"
        );
    }
    assert!(
        !resolve("Host x\nRefuseConnection no\n", "h")
            .hostname
            .is_empty()
    );
}

#[test]
fn commands_that_wait_for_facts_of_the_connection() {
    let text = "KnownHostsCommand /bin/kh %H %t\nLocalCommand echo %T %h\nRevokedHostKeys ~/revoked-%h /krl\n";
    let options = resolve(text, "h");
    assert_eq!(
        options.host_keys.known_hosts_command.as_deref(),
        Some("/bin/kh %H %t")
    );
    assert_eq!(
        options.host_keys.revoked_host_keys,
        ["/home/local/revoked-h", "/krl"]
    );
    assert_eq!(options.session.local_command, None);
    let allowed = resolve(
        &format!("{text}PermitLocalCommand yes\nProxyUseFdpass yes\n"),
        "h",
    );
    assert_eq!(allowed.session.local_command.as_deref(), Some("echo %T %h"));
    assert!(allowed.connection.proxy_use_fdpass && allowed.warnings.is_empty());
    let expanded = allowed
        .tokens
        .expand("echo %T %h", crate::tokens::Purpose::Shell);
    assert_eq!(expanded.unwrap(), "echo NONE h");
    for none in ["", "RevokedHostKeys none\n", "RevokedHostKeys NONE\n"] {
        assert!(
            resolve(none, "h").host_keys.revoked_host_keys.is_empty(),
            "{none}"
        );
    }
}

#[test]
fn unknown_keywords() {
    assert!(
        refusal("Port 1\nFrob x\n")
            .starts_with(&format!("{USER}: line 2: Bad configuration option: frob"))
    );
    assert_eq!(resolve("IgnoreUnknown fr*\nFrob x\nPort 5\n", "h").port, 5);
    assert!(refusal("IgnoreUnknown fr*\nGrob x\n").contains("grob"));
    let mut line = CommandLine::new();
    line.option("frob=1");
    let error = try_resolve("bad bad\n", "h", &line, &FakeEnvironment::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "command-line: line 0: Bad configuration option: frob"
    );
}

#[test]
fn a_bad_line_is_bad_in_a_block_that_does_not_apply() {
    assert!(refusal("Host other\nPort x\n").contains("line 2: Bad port 'x'."));
}

#[test]
fn canonical_host_names() {
    let env = FakeEnvironment::new()
        .name("web.corp.example", "web.corp.example")
        .name("db.corp.example", "db7.rack.example");
    let text = "CanonicalizeHostname yes\nCanonicalDomains lab.example corp.example\n\
        CanonicalizePermittedCNAMEs *.corp.example:*.rack.example\n\
        Host *.corp.example\n User corp\nMatch canonical host *.rack.example\n User rack\n";
    let line = CommandLine::new();
    let resolve = |text: &str, host: &str| try_resolve(text, host, &line, &env);
    let web = resolve(text, "WEB").unwrap();
    assert_eq!(
        (web.hostname.as_str(), web.user.as_str()),
        ("web.corp.example", "corp")
    );
    assert_eq!(web.host_argument, "WEB");
    let db = resolve(text, "db").unwrap();
    assert_eq!(
        (db.hostname.as_str(), db.user.as_str()),
        ("db7.rack.example", "rack")
    );
    assert_eq!(resolve(text, "nowhere").unwrap().hostname, "nowhere");
    assert_eq!(resolve(text, "nowhere.").unwrap().hostname, "nowhere.");
    assert_eq!(
        resolve(text, "web.corp.example.").unwrap().hostname,
        "web.corp.example"
    );
    let rules = "CanonicalizePermittedCNAMEs *.corp.example:*.rack.example\n";
    let follows = |text: &str, host: &str| resolve(text, host).unwrap().hostname;
    assert_eq!(follows(rules, "db.corp.example"), "db7.rack.example");
    assert_eq!(follows(rules, "nowhere"), "nowhere");
    let proxied = format!("ProxyCommand nc %h %p\n{rules}");
    assert_eq!(follows(&proxied, "db.corp.example"), "db.corp.example");
    assert_eq!(resolve(text, "a.b.c").unwrap().hostname, "a.b.c");
    assert_eq!(resolve(text, "192.0.2.1").unwrap().hostname, "192.0.2.1");
    assert!(
        resolve(
            &format!("{text}Host *\nCanonicalizeFallbackLocal no\n"),
            "nowhere"
        )
        .is_err()
    );
    let proxied = format!("ProxyCommand nc %h %p\n{text}");
    assert_eq!(resolve(&proxied, "web").unwrap().hostname, "web");
    let always = proxied.replace("Hostname yes", "Hostname always");
    assert_eq!(
        resolve(&always, "web").unwrap().hostname,
        "web.corp.example"
    );
}

#[test]
fn match_criteria() {
    let env = FakeEnvironment::new().address("10.1.2.3");
    let mut line = CommandLine::new();
    line.command = Some("ls -l".to_owned());
    line.set("Tag", "work");
    for (criteria, expected) in [
        ("all", true),
        ("!all", false),
        ("host h", true),
        ("host=h", true),
        ("host H", true),
        ("host !h,*", false),
        ("!host h", false),
        ("host x,h user local", true),
        ("originalhost h localuser local", true),
        ("localnetwork 10.0.0.0/8", true),
        ("localnetwork 192.0.2.0/24,10.1.2.3", true),
        ("localnetwork 192.0.2.0/24", false),
        ("tagged work", true),
        ("tagged play", false),
        ("sessiontype exec", true),
        ("sessiontype shell", false),
        ("command \"ls *\"", true),
        ("command \"\"", false),
        ("version Fulmar_*", true),
        ("version OpenSSH_*", false),
        ("canonical", false),
        ("!canonical all", true),
    ] {
        let text = format!("Match {criteria}\nPort 5\n");
        let options = try_resolve(&text, "h", &line, &env).unwrap();
        assert_eq!(options.port == 5, expected, "{criteria}");
    }
    for bad in [
        "frob x",
        "host",
        "all host x",
        "host x user y all",
        "localnetwork 10.0.0.1/8",
        "user \"\"",
        "canonical=",
        "final=x",
        "#",
    ] {
        let text = format!("Match {bad}\n");
        assert!(try_resolve(&text, "h", &line, &env).is_err(), "{bad}");
    }
}

#[test]
fn update_host_keys_asks_in_a_login_shell_only() {
    let env = FakeEnvironment::new();
    for (more, command, expected) in [
        ("", None, YesNoAsk::Ask),
        ("LogLevel INFO\nRemoteCommand none\n", None, YesNoAsk::Ask),
        ("LogLevel ERROR\n", None, YesNoAsk::No),
        ("RequestTTY no\n", None, YesNoAsk::No),
        ("RemoteCommand true\n", None, YesNoAsk::No),
        ("", Some("true"), YesNoAsk::No),
    ] {
        let mut line = CommandLine::new();
        line.command = command.map(str::to_owned);
        let text = format!("UpdateHostKeys ask\n{more}");
        let options = try_resolve(&text, "h", &line, &env).unwrap();
        assert_eq!(
            options.host_keys.update_host_keys, expected,
            "{more}{command:?}"
        );
    }
}

#[test]
fn send_env_takes_away() {
    assert_eq!(
        resolve("SendEnv A B LC_*\nSendEnv -A C -L*\n", "h")
            .session
            .send_env,
        ["B", "C"]
    );
}

#[test]
fn algorithms_that_are_passed_over_are_named_with_v() {
    let text = "HostKeyAlgorithms +ssh-dss\nCiphers -*cbc\nKexAlgorithms new,curve25519-sha256\n";
    let options = resolve(text, "h");
    assert_eq!(options.algorithms.kex_algorithms, ["curve25519-sha256"]);
    let said: Vec<&str> = options
        .warnings
        .iter()
        .map(|each| each.text.as_str())
        .collect();
    assert_eq!(
        said,
        [
            "HostKeyAlgorithms: ssh-dss left out of this suite; ignored",
            "KexAlgorithms: new not known to this version; ignored"
        ]
    );
    let mut severities = options.warnings.iter().map(|each| each.severity);
    assert!(severities.all(|severity| severity == Severity::Debug));
    assert!(refusal("KexAlgorithms new\n").contains("Bad SSH2 KexAlgorithms 'new'"));
    assert!(refusal("HostKeyAlgorithms ssh-dss\n").contains("Bad key types"));
}

#[test]
fn methods_that_are_not_carried_out_are_passed_over_and_named_with_v() {
    let options = resolve(
        "PreferredAuthentications gssapi-with-mic,publickey,hostbased,new\n",
        "h",
    );
    assert_eq!(
        options.authentication.preferred_authentications,
        ["gssapi-with-mic", "publickey", "hostbased"]
    );
    assert_eq!(options.warnings.len(), 1);
    assert_eq!(options.warnings[0].severity, Severity::Debug);
    assert!(options.warnings[0].text.contains("new not known"));
    let none = resolve("PreferredAuthentications new\n", "h");
    assert!(none.authentication.preferred_authentications.is_empty());
}

#[test]
fn weak_cryptography_is_warned_of_unless_that_is_turned_off() {
    for (text, warns, shown) in [
        ("", WarnWeakCrypto::Yes, "yes"),
        ("WarnWeakCrypto TRUE\n", WarnWeakCrypto::Yes, "yes"),
        ("WarnWeakCrypto no\n", WarnWeakCrypto::No, "no"),
        ("WarnWeakCrypto no-pq-kex\n", WarnWeakCrypto::NoPqKex, "no"),
    ] {
        let options = resolve(text, "h");
        assert_eq!(options.algorithms.warn_weak_crypto, warns, "{text}");
        let line = format!("\nwarnweakcrypto {shown}\n");
        assert!(options.dump().contains(&line), "{text}");
    }
    assert!(refusal("WarnWeakCrypto maybe\n").contains("unsupported option"));
    assert!(refusal("WarnWeakCrypto no yes\n").contains("extra arguments"));
}

#[test]
fn a_remote_command_stands_alone() {
    let mut line = CommandLine::new();
    line.command = Some("ls".to_owned());
    assert!(try_resolve("RemoteCommand top\n", "h", &line, &FakeEnvironment::new()).is_err());
    assert!(try_resolve("RemoteCommand none\n", "h", &line, &FakeEnvironment::new()).is_ok());
}

#[test]
fn keystrokes_are_obscured_unless_no_is_said() {
    for (text, ms) in [
        ("", Some(20)),
        ("ObscureKeystrokeTiming yes\n", Some(20)),
        ("ObscureKeystrokeTiming interval:80\n", Some(80)),
        ("ObscureKeystrokeTiming no\n", None),
    ] {
        let options = resolve(text, "h");
        assert_eq!(options.session.obscure_keystrokes_ms, ms, "{text}");
        assert!(options.warnings.is_empty(), "{:?}", options.warnings);
    }
    assert!(refusal("ObscureKeystrokeTiming interval:1001\n").contains("interval:1001"));
    let mut line = CommandLine::new();
    line.option("ObscureKeystrokeTiming=interval:5");
    let text = "ObscureKeystrokeTiming no\n";
    let options = try_resolve(text, "h", &line, &FakeEnvironment::new()).unwrap();
    assert_eq!(options.session.obscure_keystrokes_ms, Some(5));
}

#[test]
fn options_that_make_structure_do_not_stand_on_the_command_line() {
    for (option, keyword) in [
        ("Include=/x", "Include"),
        ("include /x", "Include"),
        ("Match=all", "Match"),
        ("HOST=h", "Host"),
    ] {
        let mut line = CommandLine::new();
        line.option(option);
        let error = try_resolve("", "h", &line, &FakeEnvironment::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{keyword} directive not supported as a command-line option")
        );
    }
}

#[test]
fn key_files_that_mean_nothing_stop_a_connection_but_no_dump() {
    for line in [
        "IdentityFile ${UNSET}/k",
        "IdentityFile %T",
        "IdentityFile ~nosuch/k",
        "CertificateFile k%",
    ] {
        let files = MemoryFiles::default().with(USER, line);
        let mut arguments = CommandLine::new();
        let resolved = config(files.clone()).resolve("h", &arguments, &FakeEnvironment::new());
        assert!(resolved.is_err(), "{line}");
        arguments.only_prints = true;
        let printed = config(files).resolve("h", &arguments, &FakeEnvironment::new());
        let dump = printed.unwrap().dump().to_ascii_lowercase();
        assert!(dump.contains(&line.to_ascii_lowercase()), "{line}: {dump}");
    }
}

#[test]
fn a_list_that_leaves_no_algorithm_is_refused() {
    for line in [
        "Ciphers -*",
        "MACs -*",
        "KexAlgorithms -*",
        "HostKeyAlgorithms -*",
    ] {
        assert!(refusal(line).contains("leaves no algorithm"), "{line}");
    }
    assert!(
        resolve("PubkeyAcceptedAlgorithms -*", "h")
            .algorithms
            .pubkey_accepted_algorithms
            .is_empty()
    );
    assert!(refusal("HostKeyAlgorithms *,!ssh-ed25519").contains("Bad key types"));
    for (bits, least) in [("0", 1024), ("5", 1024), ("3072", 3072), ("99999", 99999)] {
        let options = resolve(&format!("RequiredRSASize {bits}"), "h");
        assert_eq!(options.algorithms.required_rsa_size, least);
    }
    assert!(refusal("ConnectionAttempts 0").contains("Invalid number of ConnectionAttempts"));
}

#[test]
fn a_time_of_none_leaves_the_keyword_to_later_lines() {
    let options = resolve("ServerAliveInterval none\nServerAliveInterval 5\n", "h");
    assert_eq!(options.connection.server_alive_interval_s, 5);
    let options = resolve("ConnectTimeout none\nConnectTimeout 6\n", "h");
    assert_eq!(options.connection.connect_timeout_s, Some(6));
    assert_eq!(
        resolve("ServerAliveInterval none\n", "h")
            .connection
            .server_alive_interval_s,
        0
    );
    assert!(refusal("ConnectTimeout NONE\n").contains("invalid time value"));
}

#[test]
fn the_dump_is_that_of_openssh() {
    for (text, line) in [
        ("HostKeyAlias ALIAS", "hostkeyalias alias"),
        ("EscapeChar \\\\", "escapechar \\\\"),
        ("VersionAddendum None", "versionaddendum "),
        ("IPQoS lowdelay", "ipqos none none"),
        ("RekeyLimit 1K\nRekeyLimit 2K 30", "rekeylimit 1024 30"),
        ("CanonicalDomains _x", "canonicaldomains _x"),
        ("ProxyJump a#b", "proxyjump a"),
        ("ProxyJump u@1.2.3.4:5", "proxyjump u@[1.2.3.4]:5"),
        ("Tunnel yes\nClearAllForwardings yes", "tunnel false"),
        ("SetupTimeOut 90", "connecttimeout 90"),
        (
            "Match final\nCanonicalizeMaxDots 3",
            "canonicalizemaxdots 1",
        ),
        ("RevokedHostKeys ~", "revokedhostkeys /home/local/"),
    ] {
        let dump = resolve(text, "h").dump();
        assert!(dump.lines().any(|have| have == line), "{text}: {dump}");
    }
    assert_eq!(
        resolve("EscapeChar \\\\", "h").session.escape_char,
        EscapeChar::Byte(b'\\')
    );
}

#[test]
fn what_openssh_refuses_is_refused() {
    for line in ["Compression true", "ProxyJump \"a\"", "ProxyJump a'b'c"] {
        let env = FakeEnvironment::new();
        assert!(
            try_resolve(line, "h", &CommandLine::new(), &env).is_err(),
            "{line}"
        );
    }
}

#[test]
fn of_several_users_the_first_alone_is_looked_at() {
    let mut line = CommandLine::new();
    line.set("User", "ann");
    line.set("User", "a;b");
    let env = FakeEnvironment::new();
    assert_eq!(try_resolve("", "h", &line, &env).unwrap().user, "ann");
}

#[path = "feature_tests.rs"]
mod features;
