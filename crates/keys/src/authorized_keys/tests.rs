use super::*;
use crate::certificate::{CertificateFields, CertificateKind};
use crate::test_support::survives_damage;
use crate::time::CivilTime;
use crate::{PrivateKey, SignatureAlgorithm};
use wire::permissions::{Permission, Permissions, PermitTarget};

fn utc(time: CivilTime) -> Option<i64> {
    time.utc_seconds()
}

fn key_line() -> String {
    PrivateKey::from_ed25519_seed(&[1; 32]).public().to_line()
}

fn parse_all(text: &str) -> Vec<Result<AuthorizedKey, RefusedLine>> {
    parse(text.as_bytes(), &utc).collect()
}

fn options(text: &str) -> Result<KeyOptions, LineError> {
    let line = format!("{text} {} a comment", key_line());
    let mut all = parse_all(&line);
    assert_eq!(all.len(), 1);
    all.remove(0)
        .map(|entry| entry.options)
        .map_err(|refused| refused.reason)
}

#[test]
fn an_empty_forced_command_is_one_and_merges_with_no_other() {
    let options = |text: &str| KeyOptions::parse(text, &|_| None).unwrap();
    let (empty, date) = (options("command=\"\""), options("command=\"date\""));
    assert_eq!(empty.force_command.as_deref(), Some(""));
    for (one, other) in [(&empty, &date), (&date, &empty)] {
        assert!(one.merge(other).is_err());
    }
    for merged in [
        empty.merge(&options("no-pty")),
        options("no-pty").merge(&empty),
    ] {
        assert_eq!(merged.unwrap().force_command.as_deref(), Some(""));
    }
}

#[test]
fn lines_without_options_permit_everything() {
    let text = format!("\n# comment\n  {} me@here\n\t{}\n", key_line(), key_line());
    let all = parse_all(&text);
    assert_eq!(all.len(), 2);
    let first = all[0].as_ref().unwrap();
    assert_eq!((first.line, first.comment.as_str()), (3, "me@here"));
    assert_eq!(first.options, KeyOptions::default());
    assert_eq!(first.options.permissions, Permissions::ALL);
    assert_eq!(all[1].as_ref().unwrap().line, 4);
}

#[test]
fn every_option_is_understood() {
    let all = options(concat!(
        r#"cert-authority,command="echo \"hi, there\" # not a comment",environment="A=1","#,
        r#"environment="B=x=y",environment="A=2",from="10.0.0.0/8,!10.1.1.1,*.example.com","#,
        r#"expiry-time="20300101Z",expiry-time="203001010000Z",principals="a,b","#,
        r#"permitopen="host:80",permitopen="[::1]:*",permitlisten="8080","#,
        r#"permitlisten="localhost:9",tunnel="3",No-PTY,no-user-rc,no-agent-forwarding,"#,
        r#"no-X11-forwarding,no-port-forwarding,no-touch-required,verify-required"#,
    ))
    .unwrap();
    assert!(all.certificate_authority);
    assert_eq!(
        all.force_command.as_deref(),
        Some(r#"echo "hi, there" # not a comment"#)
    );
    let environment = [("A", "1"), ("B", "x=y")];
    assert!(
        all.environment
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .eq(environment)
    );
    let from = all.from.unwrap();
    assert!(from.permits("10.2.3.4".parse().unwrap(), None));
    assert!(!from.permits("10.1.1.1".parse().unwrap(), Some("a.example.com")));
    assert_eq!(all.valid_before, Some(1_893_456_000));
    assert_eq!(all.principals.unwrap(), ["a", "b"]);
    let target = |host: &str, port| PermitTarget {
        is_udp: false,
        host: host.to_owned(),
        port,
    };
    assert_eq!(
        all.permit_open,
        [target("host", Some(80)), target("::1", None)]
    );
    assert_eq!(
        all.permit_listen,
        [target("*", Some(8080)), target("localhost", Some(9))]
    );
    assert_eq!(all.tunnel, Some(TunnelUnit::Unit(3)));
    assert_eq!(all.permissions, Permissions::NONE);
    assert!(all.no_touch_required && all.verify_required);
}

#[test]
fn an_option_with_a_value_that_it_does_not_take_is_named() {
    for (text, named) in [
        ("no-pty=\"x\"", "pty"),
        ("X11-Forwarding=\"x\"", "X11-forwarding"),
        ("no-touch-required=\"x\"", "touch-required"),
        ("verify-required=\"x\"", "verify-required"),
        ("cert-authority=\"x\"", "cert-authority"),
        ("restrict=\"x\"", "restrict"),
    ] {
        let why = options(text).unwrap_err().to_string();
        assert_eq!(why, format!("key option {named}: takes no value"));
    }
}

#[test]
fn targets_of_datagrams_are_named_apart() {
    let target = |is_udp, host: &str, port| PermitTarget {
        is_udp,
        host: host.to_owned(),
        port,
    };
    for (text, found) in [
        ("permitopen=\"udp/ns:53\"", target(true, "ns", Some(53))),
        ("permitopen=\"udp/[::1]:*\"", target(true, "::1", None)),
        // The form host/port of OpenSSH.
        ("permitopen=\"udp/53\"", target(false, "udp", Some(53))),
        ("permitlisten=\"udp/53\"", target(true, "*", Some(53))),
        (
            "permitlisten=\"udp/localhost:*\"",
            target(true, "localhost", None),
        ),
    ] {
        let read = options(text).unwrap();
        let all = [read.permit_open, read.permit_listen].concat();
        assert_eq!(all, [found], "{text}");
    }
    for text in [
        "permitopen=\"udp/\"",
        "permitopen=\"udp/ns:0\"",
        "permitlisten=\"udp/\"",
        "permitlisten=\"udp/a/5\"",
    ] {
        assert!(options(text).is_err(), "{text}");
    }
}

#[test]
fn restrict_takes_everything_and_later_options_give_back() {
    let restricted = options("restrict").unwrap();
    assert!(restricted.restricted);
    assert_eq!(restricted.permissions, Permissions::NONE);
    for each in Permission::ALL {
        let only = options(&format!("restrict,{},command=\"x\"", each.option())).unwrap();
        let others = options(&format!("no-{}", each.option().to_uppercase())).unwrap();
        for other in Permission::ALL {
            assert_eq!(only.permissions.permits(*other), other == each);
            assert_eq!(others.permissions.permits(*other), other != each);
        }
        let early = options(&format!("{},restrict", each.option())).unwrap();
        assert_eq!(early.permissions, Permissions::NONE);
    }
}

#[test]
fn an_unknown_or_malformed_option_refuses_its_line() {
    for bad in [
        "no-such-option",
        "comand=\"x\"",
        "command",
        "command=x",
        "command=\"x",
        "command=\"x\"y",
        "command=\"x\",command=\"y\"",
        "no-pty=\"x\"",
        "no-restrict",
        "no-cert-authority",
        "=\"x\"",
        "restrict,=\"x\"",
        "environment=\"A\"",
        "environment=\"A B=1\"",
        "environment=\"=1\"",
        "from=\"10.0.0.0/99\"",
        "expiry-time=\"tomorrow\"",
        "expiry-time=\"20301301\"",
        "permitopen=\"host\"",
        "permitopen=\"host:99999\"",
        "permitopen=\"host:\"",
        "permitopen=\"host:-80\"",
        "permitopen=\"host:ssh\"",
        "permitopen=\"host:0\"",
        "permitopen=\"*:0\"",
        "permitlisten=\"0\"",
        "permitlisten=\"*:0\"",
        "permitlisten=\"127.0.0.1:00\"",
        "permitopen=\"::1:80\"",
        "permitopen=\"[::1]80\"",
        "principals=\"a\"",
        "no-pty,principals=\"\"",
        "tunnel=\"x\"",
        "from=\"a\",from=\"b\"",
        "cert-authority,principals=\"a\",principals=\"b\"",
    ] {
        assert!(options(bad).is_err(), "{bad}");
    }
    assert_eq!(
        options("x\u{1b}[2J").unwrap_err(),
        LineError::UnknownOption("x\\033[2J".to_owned())
    );
}

/// Like OpenSSH.
#[test]
fn superfluous_commas_and_odd_targets_are_taken_as_in_openssh() {
    for text in ["restrict,", ",restrict", "restrict,,pty", ",,"] {
        let parsed = options(text).unwrap();
        assert_eq!(parsed.restricted, text.contains("restrict"), "{text}");
    }
    for (text, host, port) in [
        ("h/80", "h", Some(80)),
        ("h: 80", "h", Some(80)),
        ("h:+80", "h", Some(80)),
        (":80", "", Some(80)),
        ("[::1]/*", "::1", None),
    ] {
        let parsed = options(&format!("permitopen=\"{text}\"")).unwrap();
        let target = &parsed.permit_open[0];
        assert_eq!((target.host.as_str(), target.port), (host, port), "{text}");
    }
}

#[test]
fn lines_without_a_usable_key_are_refused() {
    for bad in [
        "ssh-ed25519",
        "ssh-ed25519 AAAA",
        "ssh-ed25519 !!!!",
        "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f",
        "no-pty",
        "no-pty ssh-dss AAAAB3NzaC1kc3M=",
        "\u{0}",
    ] {
        let all = parse_all(bad);
        assert!(all.len() == 1 && all[0].is_err(), "{bad}");
    }
    assert!(parse(b"\xff\xfe\n", &utc).all(|line| line.is_err()));
}

/// The rest of an over-long line must not be parsed as another entry without options.
#[test]
fn an_over_long_line_is_refused_whole() {
    let long = format!(
        "command=\"{}\" {} {}",
        "x".repeat(200_000),
        key_line(),
        "y".repeat(200_000)
    );
    let text = format!("{long} {}\n{} second\n", key_line(), key_line());
    let all = parse_all(&text);
    assert_eq!(all.len(), 2);
    assert_eq!(
        all[0],
        Err(RefusedLine {
            line: 1,
            reason: LineError::TooLong
        })
    );
    assert_eq!(all[1].as_ref().unwrap().comment, "second");
}

#[test]
fn mutated_authorized_keys_do_not_panic() {
    let text = format!(
        "{}\nrestrict,command=\"a\\\"b\",from=\"1.2.3.4\",permitopen=\"[::1]:5\" {}\n",
        key_line(),
        key_line()
    );
    survives_damage(text.as_bytes(), 5000, |bytes| {
        parse(bytes, &utc).for_each(drop);
        parse_principals(bytes, &utc).for_each(drop);
    });
}

#[test]
fn plain_lines_match_keys_and_authority_lines_certificates() {
    let (user, authority) = (
        PrivateKey::from_ed25519_seed(&[1; 32]),
        PrivateKey::from_ed25519_seed(&[2; 32]),
    );
    let fields = CertificateFields {
        key: user.public().clone(),
        serial: 0,
        kind: CertificateKind::User,
        key_id: String::new(),
        principals: vec!["me".to_owned()],
        valid_after: 0,
        valid_before: u64::MAX,
        critical_options: Vec::new(),
        extensions: Vec::new(),
    };
    let certificate: PresentedKey = fields
        .sign(&authority, SignatureAlgorithm::Ed25519)
        .unwrap()
        .into();
    let plain: PresentedKey = user.public().clone().into();
    let text = format!(
        "{}\ncert-authority {}\n{}\n",
        user.public().to_line(),
        authority.public().to_line(),
        authority.public().to_line()
    );
    let matching = |presented: &PresentedKey| -> Vec<usize> {
        parse_all(&text)
            .into_iter()
            .map(Result::unwrap)
            .filter(|entry| entry.matches(presented))
            .map(|entry| entry.line)
            .collect()
    };
    assert_eq!(matching(&plain), [1]);
    assert_eq!(matching(&certificate), [2]);
    assert_eq!(matching(&authority.public().clone().into()), [3]);
}

#[test]
fn principals_files_hold_names_with_options() {
    let text = "# comment\nalice\n\tno-pty,command=\"a b\" bob # said so\nbad option carol\n";
    let all: Vec<_> = parse_principals(text.as_bytes(), &utc).collect();
    assert_eq!(all.len(), 3);
    assert_eq!(all[0].as_ref().unwrap().principal, "alice");
    let bob = all[1].as_ref().unwrap();
    assert_eq!(
        (
            bob.principal.as_str(),
            bob.options.permissions.permits(Permission::Pty)
        ),
        ("bob", false)
    );
    assert_eq!(bob.options.force_command.as_deref(), Some("a b"));
    assert!(all[2].is_err());
}

#[test]
fn options_of_keys_do_not_belong_before_a_principal() {
    for (text, good) in [
        ("ops", true),
        ("no-pty,from=\"192.0.2.1\" ops", true),
        ("principals=\"x\" ops", false),
        ("cert-authority ops", false),
    ] {
        let line = parse_principals(text.as_bytes(), &utc).next();
        let line = line.unwrap().unwrap();
        assert_eq!(line.check_options().is_ok(), good, "{text}");
    }
}

/// The restrictions of a certificate and of the line that trusts its authority both apply.
#[test]
fn merging_keeps_the_restrictions_of_both() {
    let mut certificate = KeyOptions {
        restricted: false,
        force_command: Some("uptime".to_owned()),
        verify_required: true,
        no_touch_required: true,
        ..KeyOptions::nothing()
    };
    certificate.permissions.set(Permission::Pty, true);
    certificate
        .permissions
        .set(Permission::PortForwarding, true);
    let line = options("no-port-forwarding,permitopen=\"h:1\",expiry-time=\"20300101Z\"").unwrap();
    let both = line.merge(&certificate).unwrap();
    assert_eq!(both.force_command.as_deref(), Some("uptime"));
    for each in Permission::ALL {
        assert_eq!(both.permissions.permits(*each), *each == Permission::Pty);
    }
    assert!(both.verify_required && !both.no_touch_required);
    assert_eq!(
        (both.valid_before, both.permit_open.len()),
        (Some(1_893_456_000), 1)
    );
    let same = options("command=\"uptime\"").unwrap();
    assert!(same.merge(&certificate).is_ok());
    let other = options("command=\"sh\"").unwrap();
    assert_eq!(other.merge(&certificate), Err(MergeError));
    assert!(!both.restricted);
    let nothing = KeyOptions::nothing();
    assert!(KeyOptions::default().merge(&nothing).unwrap().restricted);
    let untouched = KeyOptions::default().merge(&KeyOptions::default()).unwrap();
    assert_eq!(untouched, KeyOptions::default());
}
