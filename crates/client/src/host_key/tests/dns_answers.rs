//! Host keys for which the DNS vouches (VerifyHostKeyDNS), and what comes before it.

use super::*;

/// An answer of the DNS with the fingerprint of a key.
fn answer(key: &PrivateKey, is_secure: bool) -> dns::SshfpAnswer {
    let digest = HashAlgorithm::Sha256.digest(&key.public().blob());
    dns::SshfpAnswer {
        fingerprints: vec![dns::message::Fingerprint {
            algorithm: 4,
            hash: 2,
            digest: digest.to_vec(),
        }],
        is_secure,
    }
}

#[test]
fn only_a_validated_fingerprint_replaces_the_question() {
    let scratch = Scratch::new("dns");
    let matching = "Matching host key fingerprint found in DNS.\n";
    let none = "No matching host key fingerprint found in DNS.\n";
    let cases = [
        (YesNoAsk::Yes, answer(&key(1), true), None),
        (YesNoAsk::Yes, answer(&key(1), false), Some(matching)),
        (YesNoAsk::Ask, answer(&key(1), true), Some(matching)),
        (YesNoAsk::Yes, answer(&key(2), true), Some(none)),
    ];
    for (wanted, answer, said) in cases {
        let case = format!("{wanted:?} {answer:?}");
        let mut checker = scratch.checker("h", &[]);
        checker.dns = Some((wanted, DnsLookup::ended(Ok(answer))));
        let mut person = Script {
            answers: vec!["no"],
            ..Script::default()
        };
        let verdict = judge(&mut checker, &key(1), &mut person);
        match said {
            None => {
                assert_eq!((verdict, &*person.told), (Verdict::Accept, ""), "{case}");
            }
            Some(said) => {
                assert_eq!(verdict, Verdict::Refuse, "{case}");
                assert!(
                    person.told.contains(&format!("\n{said}")),
                    "{case}: {}",
                    person.told
                );
            }
        }
    }
    assert_eq!(scratch.read(), "");
    // Another key than the recorded one stays refused, and a revoked one too.
    scratch.file("known_hosts", &line("h", &key(3)));
    let mut checker = scratch.checker("h", &[]);
    checker.dns = Some((YesNoAsk::Ask, DnsLookup::ended(Ok(answer(&key(1), true)))));
    let verdict = judge(&mut checker, &key(1), &mut Script::default());
    assert_eq!(verdict, Verdict::Refuse);
    let list = scratch.file("revoked", &key(1).public().to_line());
    let option = format!("RevokedHostKeys={}", list.display());
    let mut checker = scratch.checker("h", &[&option]);
    checker.dns = Some((YesNoAsk::Yes, DnsLookup::ended(Ok(answer(&key(1), true)))));
    let verdict = judge(&mut checker, &key(1), &mut Script::default());
    assert_eq!(verdict, Verdict::Refuse);
}

/// As in OpenSSH, where only UpdateHostKeys is off by default then.
#[test]
fn further_keys_of_a_host_that_the_dns_vouches_for_are_stored_where_that_is_set() {
    let scratch = Scratch::new("dns-update");
    for (more, is_on) in [(&[][..], false), (&["UpdateHostKeys=yes"], true)] {
        let more = [&["VerifyHostKeyDNS=yes"], more].concat();
        let options = scratch.options("127.0.0.1", &more);
        let wanted = options.host_keys.update_host_keys;
        assert_eq!(wanted == YesNoAsk::Yes, is_on);
        let mut checker = HostKeyChecker::new(&options);
        let lookup = DnsLookup::ended(Ok(answer(&key(1), true)));
        checker.dns = Some((YesNoAsk::Yes, lookup));
        let verdict = judge(&mut checker, &key(1), &mut Script::default());
        assert_eq!(verdict, Verdict::Accept);
        let blobs = [1, 2].map(|seed| key(seed).public().blob());
        let plan = checker.plan(&blobs, wanted);
        assert_eq!(plan.map(|plan| plan.new.len()), is_on.then_some(2));
    }
}

#[test]
fn the_dns_does_not_vouch_for_a_revoked_key() {
    let scratch = Scratch::new("dns-revoked");
    let checker = |host: &str, more: &[&str], vouched: &PrivateKey| {
        let mut checker = scratch.checker(host, more);
        let lookup = DnsLookup::ended(Ok(answer(vouched, true)));
        checker.dns = Some((YesNoAsk::Yes, lookup));
        checker
    };
    let judged = |host: &str, more: &[&str]| {
        let person = &mut Script::default();
        let verdict = judge(&mut checker(host, more, &key(1)), &key(1), person);
        (verdict, person.told.contains("REVOKED HOST KEY"))
    };
    let revokes = |key: &PrivateKey| line("@revoked h", key);
    // Another key in the file, or another revoked one, leaves the decision to the DNS.
    scratch.file("known_hosts", &(line("h", &key(3)) + &revokes(&key(2))));
    assert_eq!(judged("h", &[]), (Verdict::Accept, false));
    scratch.file("known_hosts", &(line("h", &key(1)) + &revokes(&key(1))));
    let refused = (Verdict::Refuse, true);
    assert_eq!(judged("h", &[]), refused);
    assert_eq!(judged("h", &["StrictHostKeyChecking=no"]), refused);
    assert_eq!(judged("h", &["Port=2222"]), refused);
    assert_eq!(judged("other", &[]), (Verdict::Accept, false));
    scratch.file("known_hosts", "");
    let command = format!("KnownHostsCommand=/bin/echo {}", revokes(&key(1)).trim());
    assert_eq!(judged("h", &[&command]), refused);
    // The authority of a certificate.
    let authority = key(9);
    let certificate = certificate(&["h"], &authority, Vec::new());
    let vouched = certificate.key().clone();
    let lookup = || {
        let digest = HashAlgorithm::Sha256.digest(&vouched.blob());
        let mut answer = answer(&key(1), true);
        answer.fingerprints[0].digest = digest.to_vec();
        Some((YesNoAsk::Yes, DnsLookup::ended(Ok(answer))))
    };
    for (text, verdict) in [
        (String::new(), Verdict::Accept),
        (revokes(&authority), Verdict::Refuse),
    ] {
        scratch.file("known_hosts", &text);
        let mut checker = scratch.checker("h", &[]);
        checker.dns = lookup();
        assert_eq!(judge_certificate(&mut checker, &certificate), verdict);
    }
}
