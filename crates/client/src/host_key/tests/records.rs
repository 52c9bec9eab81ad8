//! What the records of a host say about a key that is not simply theirs: names without a port, keys of other
//! types, a command that fails.

use super::*;

/// The records of the name without its port count where the name with it has none, and nothing is written;
/// another key there is no change.
#[test]
fn another_port_falls_back_to_the_name_alone() {
    let scratch = Scratch::new("bare");
    let authority = key(9);
    let certified = certificate(&["h"], &authority, Vec::new());
    let new = ["Port=2222", "StrictHostKeyChecking=accept-new"];
    let alias = [&new[..], &["HostKeyAlias=a"]].concat();
    let (plain, other) = (line("h", &key(1)), line("h", &key(2)));
    let revoked = format!("@revoked {plain}");
    let of_authority = format!("@cert-authority {}", line("h*", &authority));
    for (text, more, verdict, is_written) in [
        (&plain, &new[..], Verdict::Accept, false),
        (&other, &new, Verdict::Accept, true),
        (&plain, &alias, Verdict::Accept, true),
        (&revoked, &new, Verdict::Refuse, false),
        (
            &format!("{plain}{}", line("[h]:2222", &key(2))),
            &new,
            Verdict::Refuse,
            false,
        ),
    ] {
        scratch.file("known_hosts", text);
        let mut checker = scratch.checker("h", more);
        let judged = judge(&mut checker, &key(1), &mut Script::default());
        assert_eq!(judged, verdict, "{text}");
        assert_eq!(scratch.read() != *text, is_written, "{text}");
    }
    scratch.file("known_hosts", &of_authority);
    let judged = judge_certificate(&mut scratch.checker("h", &new), &certified);
    assert_eq!((judged, scratch.read()), (Verdict::Accept, of_authority));
}

/// Whoever has no key of the known type could show one of another type.
#[test]
fn a_known_host_with_a_key_of_another_type_is_no_new_host() {
    let ecdsa = PrivateKey::generate(keys::KeySpec::Ecdsa(keys::EcCurve::P256)).unwrap();
    let scratch = Scratch::new("othertype");
    scratch.file("known_hosts", &line("h", &ecdsa));
    for (strict, verdict) in [
        ("accept-new", Verdict::Refuse),
        ("ask", Verdict::Refuse),
        ("no", Verdict::AcceptWithoutSecrets),
    ] {
        let more = format!("StrictHostKeyChecking={strict}");
        let mut person = Script {
            answers: vec!["yes"],
            ..Script::default()
        };
        let mut checker = scratch.checker("h", &[&more]);
        assert_eq!(
            judge(&mut checker, &key(1), &mut person),
            verdict,
            "{strict}"
        );
        assert!(person.told.contains("Offending ECDSA key in"));
        assert_eq!(scratch.read(), line("h", &ecdsa));
    }
    // No server can show a key of a type that is not supported.
    let dsa = "h ssh-dss AAAAB3NzaC1kc3MAAAABAQ==\n";
    scratch.file("known_hosts", dsa);
    let more = ["StrictHostKeyChecking=accept-new"];
    let judged = judge(
        &mut scratch.checker("h", &more),
        &key(1),
        &mut Script::default(),
    );
    assert_eq!(judged, Verdict::Accept);
}

/// CVE-2025-26465: a lookup that fails must end in a question or a refusal.
#[test]
fn a_known_hosts_command_that_fails_refuses_also_known_keys() {
    let scratch = Scratch::new("command");
    // What a command that fails would have said is not known, whatever else is.
    scratch.file("known_hosts", &line("h", &key(1)));
    let failed = &["StrictHostKeyChecking=no", "KnownHostsCommand=/bin/false"];
    let absent = &["KnownHostsCommand=/nonexistent"];
    for (more, verdict) in [(&failed[..], Verdict::Refuse), (absent, Verdict::Accept)] {
        let mut checker = scratch.checker("h", more);
        let judged = judge(&mut checker, &key(1), &mut Script::default());
        assert_eq!(judged, verdict, "{more:?}");
        assert_eq!(checker.has_command_failed(), verdict == Verdict::Refuse);
    }
}
