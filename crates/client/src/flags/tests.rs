//! Command lines, good and bad.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::*;

fn flags(line: &str) -> Result<Flags, FlagError> {
    parse(line.split_whitespace().map(OsString::from).collect())
}

fn keyword(flags: &Flags, name: &str) -> Option<String> {
    flags.settings.iter().find_map(|setting| match setting {
        Setting::Keyword(keyword, value) if *keyword == name => Some(value.clone()),
        _ => None,
    })
}

fn refusal(line: &str) -> String {
    match flags(line) {
        Err(error) => error.to_string(),
        Ok(flags) => panic!("{line:?} was taken: {flags:?}"),
    }
}

#[test]
fn a_tunnel_names_one_device_or_two() {
    let flags = flags("-w 3:any -w any:4 host").unwrap();
    assert_eq!(keyword(&flags, "TunnelDevice").as_deref(), Some("any:4"));
    assert_eq!(keyword(&flags, "Tunnel").as_deref(), Some("point-to-point"));
    for bad in ["x", "1:", "-1", "65536", "1:2:3"] {
        let said = refusal(&format!("-w {bad} host"));
        assert!(said.contains(&format!("Bad tun device '{bad}'")), "{said}");
    }
}

#[test]
fn clusters_and_values_are_read_as_getopt_reads_them() {
    let flags = flags("-TCp2222 -oUser=ann -o Port=7 -vvv host -l bob uname -a").unwrap();
    assert_eq!(keyword(&flags, "Port").as_deref(), Some("2222"));
    assert_eq!(keyword(&flags, "Compression").as_deref(), Some("yes"));
    assert_eq!(keyword(&flags, "RequestTTY").as_deref(), Some("no"));
    assert_eq!(keyword(&flags, "User").as_deref(), Some("bob"));
    assert!(flags.settings.contains(&Setting::Line("User=ann".into())));
    assert!(flags.settings.contains(&Setting::Line("Port=7".into())));
    assert_eq!(flags.level, Some(LogLevel::Debug3));
    assert_eq!(flags.command.as_deref(), Some(&b"uname -a"[..]));
    assert_eq!(flags.destination.unwrap().host, "host");
}

#[test]
fn flags_end_at_the_command_and_at_a_double_dash() {
    let one = flags("host -- -x -y").unwrap();
    assert_eq!(one.command.as_deref(), Some(&b"-x -y"[..]));
    let two = flags("-- host -v").unwrap();
    assert_eq!(two.command.as_deref(), Some(&b"-v"[..]));
    assert_eq!(two.level, None);
    let three = flags("host cmd -v").unwrap();
    assert_eq!(three.command.as_deref(), Some(&b"cmd -v"[..]));
}

#[test]
fn a_command_keeps_its_bytes() {
    let args = vec![
        OsString::from("host"),
        OsString::from_vec(b"echo \xff".to_vec()),
    ];
    assert_eq!(parse(args).unwrap().command.unwrap(), b"echo \xff");
}

#[test]
fn tt_forces_a_terminal() {
    assert_eq!(
        keyword(&flags("-t h").unwrap(), "RequestTTY").as_deref(),
        Some("yes")
    );
    assert_eq!(
        keyword(&flags("-tt h").unwrap(), "RequestTTY").as_deref(),
        Some("force")
    );
    assert_eq!(
        keyword(&flags("-t -t h").unwrap(), "RequestTTY").as_deref(),
        Some("force")
    );
}

#[test]
fn the_last_of_two_flags_counts_and_outweighs_options() {
    for (line, name, value) in [
        ("-4 -6 h", "AddressFamily", "inet6"),
        ("-6 -4 h", "AddressFamily", "inet"),
        ("-oAddressFamily=inet -6 h", "AddressFamily", "inet6"),
        ("-t -T h", "RequestTTY", "no"),
        ("-T -t h", "RequestTTY", "yes"),
        ("-T -t -t h", "RequestTTY", "force"),
        // As in OpenSSH, a third one asks as the first.
        ("-ttt h", "RequestTTY", "yes"),
        ("-tt -T -t h", "RequestTTY", "yes"),
        ("-b a -b b h", "BindAddress", "b"),
        ("-g h", "GatewayPorts", "yes"),
        // These two count only if nothing else has set them.
        ("-l a -l b h", "User", "a"),
        ("-l a b@h", "User", "a"),
        ("a@h -l b", "User", "a"),
        ("ssh://h:23 -p 24", "Port", "23"),
        ("-p 24 ssh://h:23", "Port", "24"),
        ("-p 1 -p 2 h", "Port", "1"),
        ("-p 1 -p x h", "Port", "1"),
        ("-l a -l a;b h", "User", "a"),
    ] {
        let flags = flags(line).unwrap();
        assert_eq!(keyword(&flags, name).as_deref(), Some(value), "{line}");
    }
    let first = &flags("-oAddressFamily=inet -6 h").unwrap().settings[0];
    assert_eq!(*first, Setting::Keyword("AddressFamily", "inet6".into()));
}

#[test]
fn destinations_in_all_forms() {
    let parse = |word: &str| Destination::parse(word).unwrap();
    let d = parse("ann@example.org");
    assert_eq!(
        (d.user.as_deref(), d.host.as_str(), d.port),
        (Some("ann"), "example.org", None)
    );
    let d = parse("a@b@example.org");
    assert_eq!(d.user.as_deref(), Some("a@b"));
    let d = parse("ssh://ann@example.org:2222");
    assert_eq!(
        (d.user.as_deref(), d.host.as_str(), d.port),
        (Some("ann"), "example.org", Some(2222))
    );
    let d = parse("ssh://[fe80::1]:7/");
    assert_eq!((d.host.as_str(), d.port), ("fe80::1", Some(7)));
    // Only a lower-case scheme makes a URI.
    assert_eq!(parse("SSH://h").host, "SSH://h");
    assert_eq!(parse("fe80::1").host, "fe80::1");
    let d = parse("ssh://a%40b@h");
    assert_eq!(d.user.as_deref(), Some("a@b"));
    for bad in [
        "",
        "@h",
        "u@",
        "ssh://",
        "ssh://h:0",
        "ssh://h:x",
        "ssh://h/path",
        "ssh://h%00x",
        "ssh://ho%41st",
        "ssh://[fe80::1%25eth0]:7",
    ] {
        assert!(Destination::parse(bad).is_err(), "{bad}");
    }
}

/// CVE-2023-51385, CVE-2025-61984, CVE-2026-35386, CVE-2026-106583: names that a shell would run.
#[test]
fn names_with_shell_or_control_characters_are_refused() {
    for host in [
        "`id`",
        "$(id)",
        "a;b",
        "-oProxyCommand=x",
        "a\nb",
        "a b",
        "x\"y",
        "a|b",
        "a\x1b[2J",
        "a,b",
    ] {
        assert!(Destination::parse(host).is_err(), "{host:?}");
        assert!(
            Destination::parse(&format!("u@{host}")).is_err(),
            "{host:?}"
        );
    }
    for user in [
        "`id`",
        "$(id)",
        "a;b",
        "-l",
        "a\nb",
        "a -x",
        "x\"y",
        "a\\",
        "a$b",
        "a\0b",
        "${IFS}",
        "pc$",
        "DOMAIN\\ann",
    ] {
        assert!(
            Destination::parse(&format!("{user}@host")).is_err(),
            "{user:?}"
        );
        // In a URI, parameters follow a semicolon; they are ignored.
        let uri = format!("ssh://{user}@host");
        assert!(
            user.contains(';') || Destination::parse(&uri).is_err(),
            "{uri:?}"
        );
        assert!(destination::check_user(user).is_err());
    }
    for user in ["ann", "ann@corp", "Ann Lee", "äöü", "a.b-c_d"] {
        assert!(destination::check_user(user).is_ok(), "{user:?}");
    }
    let error = Destination::parse("a\x1b[2J").unwrap_err().to_string();
    assert!(!error.contains('\x1b'));
}

#[test]
fn jumps_are_checked_on_the_command_line() {
    for (line, said) in [
        ("-J ::1 h", "Invalid -J argument"),
        ("-J a,::1 h", "Invalid -J argument"),
        ("-J a,,b h", "Invalid -J argument"),
        ("-J a$b@c h", "Invalid -J argument"),
        ("-J a\\b@c h", "Invalid -J argument"),
        ("-J -x h", "Invalid -J argument"),
        ("-J a -J b h", "Only a single -J option"),
        ("-oproxyjump=a -J b h", "Only a single -J option"),
        (
            "-oProxyCommand=x -J b h",
            "Cannot specify -J with ProxyCommand",
        ),
        (
            "-oproxycommand=none -J b h",
            "Cannot specify -J with ProxyCommand",
        ),
    ] {
        assert!(refusal(line).contains(said), "{line}: {}", refusal(line));
    }
    for line in [
        "-J [::1]:22,b h",
        "-J none h",
        "-J a#$b h",
        "-J b -oProxyCommand=x h",
    ] {
        assert!(flags(line).is_ok(), "{line}");
    }
}

#[test]
fn flags_that_ask_for_nothing_are_taken() {
    assert!(flags("-a -x -k -S none host").is_ok());
}

#[test]
fn sharing_has_its_flags() {
    let sharing = flags("-MS /x/%h host").unwrap();
    assert_eq!(keyword(&sharing, "ControlMaster").as_deref(), Some("yes"));
    assert_eq!(keyword(&sharing, "ControlPath").as_deref(), Some("/x/%h"));
    let asks = flags("-MM host").unwrap();
    assert_eq!(keyword(&asks, "ControlMaster").as_deref(), Some("ask"));
    assert_eq!(asks.sharing, None);
    let check = flags("-O check host").unwrap();
    assert_eq!(check.sharing, Some(MasterCommand::Check));
    let proxy = flags("-O proxy host").unwrap();
    assert_eq!(proxy.sharing, Some(MasterCommand::Proxy));
    for (line, said) in [
        ("-O frob h", "Invalid multiplex command."),
        (
            "-O exit -O check h",
            "Multiplexing command already specified",
        ),
        ("-O exit -W a:1 h", "Cannot specify stdio forward with -O"),
        (
            "-W a:1 -O exit h",
            "Cannot specify multiplexing command with -W",
        ),
    ] {
        assert_eq!(refusal(line), said, "{line}");
    }
}

#[test]
fn stdio_forwarding_names_a_host_and_a_port() {
    let flags_w = flags("-W [::1]:22 jump").unwrap();
    assert_eq!(
        flags_w.stdio_forward,
        Some(ForwardTarget::Tcp {
            host: "::1".into(),
            port: 22
        })
    );
    assert_eq!(keyword(&flags_w, "SessionType").as_deref(), Some("none"));
    for bad in ["host", "host:", "host:0", ":22", "::1:22", "h:99999"] {
        assert!(flags(&format!("-W {bad} jump")).is_err(), "{bad}");
    }
    assert!(flags("-W a:1 jump cmd").is_err());
}

#[test]
fn forwardings_become_keywords_with_their_words() {
    let of = |line: &str| {
        let flags = flags(line).unwrap();
        let words = |setting: &Setting| match setting {
            Setting::Words(keyword, words) => Some((*keyword, words.join(" "))),
            _ => None,
        };
        flags.settings.iter().filter_map(words).collect::<Vec<_>>()
    };
    assert_eq!(
        of("-L 1:h:2 -R 0:[::1]:3 -R 4 -D [::1]:5 -L/a:/b host"),
        [
            ("LocalForward", "1 [h]:2".to_owned()),
            ("RemoteForward", "0 [::1]:3".to_owned()),
            ("RemoteForward", "4".to_owned()),
            ("DynamicForward", "[::1]:5".to_owned()),
            ("LocalForward", "/a /b".to_owned()),
        ]
    );
    for (line, name) in [
        ("-L 1:h", "local"),
        ("-R x", "remote"),
        ("-D 1:h:2", "dynamic"),
    ] {
        let said = refusal(&format!("{line} host"));
        assert!(
            said.contains(&format!("Bad {name} forwarding specification '")),
            "{said}"
        );
    }
    let socket = flags("-W /run/s host").unwrap().stdio_forward;
    assert_eq!(socket, Some(ForwardTarget::Unix("/run/s".into())));
}

#[test]
fn unknown_flags_and_missing_values_give_usage() {
    assert!(refusal("-z host").contains("unknown option -- z"));
    assert_eq!(flags("-Z host").unwrap().action, Action::ListKeys);
    assert_eq!(flags("-GZ host").unwrap().action, Action::PrintConfig);
    assert_eq!(flags("-ZG host").unwrap().action, Action::PrintConfig);
    assert!(refusal("-p").contains("requires an argument -- p"));
    assert!(refusal("").contains("usage: ssh"));
    assert!(refusal("-v").contains("usage: ssh"));
    assert!(refusal("-p 70000 h").contains("Bad port"));
    assert!(refusal("-s host").contains("subsystem"));
    assert!(refusal("-G -o SessionType=subsystem host").contains("subsystem"));
    assert!(refusal("-e ab host").contains("escape"));
}

#[test]
fn version_and_query_need_no_host() {
    assert_eq!(flags("-V").unwrap().action, Action::Version);
    assert_eq!(flags("-Q kex").unwrap().action, Action::Query("kex".into()));
}

#[test]
fn each_flag_of_the_table_is_known() {
    for flag in ::flags::SSH {
        let dashes = if flag.name.len() > 1 { "--" } else { "-" };
        let args = [
            format!("{dashes}{}", flag.name),
            "1".to_owned(),
            "h".to_owned(),
        ];
        let parsed = parse(args.map(OsString::from).to_vec());
        let is_unknown = |why: &FlagError| matches!(why, FlagError::Unreadable(_));
        assert!(!parsed.as_ref().is_err_and(is_unknown), "{parsed:?}");
    }
}
