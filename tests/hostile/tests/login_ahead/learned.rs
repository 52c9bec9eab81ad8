//! The cached server profile.

use super::*;

pub(super) const ALIAS: [&str; 4] = [
    "-v",
    "-oHostKeyAlias=adversary",
    "user@127.0.0.1",
    "the command",
];

/// One honest login, after which the client knows this server's preferred algorithms.
pub(super) fn teach(scratch: &Scratch, version: &str) {
    teach_with(scratch, version, &ALIAS);
}

pub(super) fn teach_with(scratch: &Scratch, version: &str, arguments: &[&str]) {
    let outcome = client_at(scratch, arguments, |adversary| {
        exchange_as(adversary, version, &Offer::default());
        assert!(!adversary.subjects_kexinit().first_kex_packet_follows);
        serve_all(adversary, 0);
    });
    ended(&outcome, 0);
    let text = fs::read_to_string(scratch.join("login_cache")).expect("the cache");
    assert!(text.contains(" curve25519-sha256 ssh-ed25519 "), "{text}");
}

pub(super) fn serve_all(adversary: &mut Adversary<Tcp>, status: u32) {
    take_all(adversary, 6);
    grant(adversary);
    serve_started(adversary, 0, status);
}

#[test]
fn what_a_server_named_first_is_guessed_the_next_time() {
    let scratch = Scratch::new();
    teach(&scratch, OPENSSH);
    let outcome = client_at(&scratch, &ALIAS, |adversary| {
        // The client has sent everything before the server sends anything.
        adversary.subject_version = adversary.read_line();
        adversary.expect_kexinit();
        let lists = adversary.subjects_kexinit();
        assert!(lists.first_kex_packet_follows);
        assert_eq!(lists.kex.first(), Some("curve25519-sha256"));
        assert_eq!(lists.host_key.first(), Some("ssh-ed25519"));
        let guessed = adversary.expect(30);
        adversary.version = OPENSSH.into();
        adversary.send_bytes(format!("{OPENSSH}\r\n").as_bytes());
        adversary.kexinit(&Offer::default());
        adversary.reply_to(&guessed, &Reply::default());
        adversary.newkeys();
        adversary.expect_newkeys();
        serve_all(adversary, 1);
    });
    ended(&outcome, 1);
}

/// Each of the two conditions alone makes the guess wrong (RFC 4253 §7.1).
#[test]
fn a_wrong_guess_is_passed_over_and_corrected() {
    for offer in [
        Offer::kex("ecdh-sha2-nistp256,curve25519-sha256"),
        Offer {
            host_key: "rsa-sha2-512,ssh-ed25519".into(),
            ..Offer::default()
        },
    ] {
        let scratch = Scratch::new();
        teach(&scratch, OPENSSH);
        let outcome = client_at(&scratch, &ALIAS, |adversary| {
            adversary.version = OPENSSH.into();
            adversary.hello();
            adversary.kexinit(&offer);
            adversary.expect_kexinit();
            assert!(adversary.subjects_kexinit().first_kex_packet_follows);
            adversary.expect(30);
            adversary.agree();
            adversary.newkeys();
            adversary.expect_newkeys();
            serve_all(adversary, 4);
        });
        ended(&outcome, 4);
        // A method that our order would not select is not guessed the next time; a host key of an
        // unknown type is not requested.
        let text = fs::read_to_string(scratch.join("login_cache")).expect("the cache");
        assert!(
            text.contains(" - ssh-ed25519 ") || text.contains(" curve25519-sha256 rsa-sha2-512 "),
            "{text}"
        );
    }
}

/// Like paramiko, which ends the connection, and asyncssh, which answers the guess although the
/// host key algorithm differs.
#[test]
fn a_server_that_cannot_take_a_wrong_guess_is_asked_again_without() {
    let offer = Offer {
        host_key: "rsa-sha2-512,ssh-ed25519".into(),
        ..Offer::default()
    };
    for answers in [false, true] {
        let scratch = Scratch::new();
        teach(&scratch, OPENSSH);
        let first: Script<'_> = Box::new(|adversary| {
            adversary.version = OPENSSH.into();
            adversary.hello();
            adversary.kexinit(&offer);
            adversary.expect_kexinit();
            if answers {
                adversary.agree();
                adversary.newkeys();
                while adversary.next_payload().is_some() {}
            }
        });
        let second: Script<'_> = Box::new(|adversary| {
            exchange_as(adversary, OPENSSH, &offer);
            assert!(!adversary.subjects_kexinit().first_kex_packet_follows);
            serve_all(adversary, 3);
        });
        let outcome = client_through(&scratch, &ALIAS, vec![first, second]);
        ended(&outcome, 3);
    }
}

/// A forged signature after a right guess is not a misunderstanding.
#[test]
fn a_false_proof_of_the_host_key_is_not_tried_again() {
    let scratch = Scratch::new();
    teach(&scratch, OPENSSH);
    let outcome = client_at(&scratch, &ALIAS, |adversary| {
        adversary.version = OPENSSH.into();
        adversary.hello();
        adversary.kexinit(&Offer::default());
        adversary.expect_kexinit();
        let mut lie = Vec::new();
        lie.put_string(b"ssh-ed25519");
        lie.put_string(&[1; 64]);
        adversary.reply(&Reply {
            signature: Some(lie),
            ..Reply::default()
        });
        while adversary.next_payload().is_some() {}
    });
    ended(&outcome, 255);
    assert!(
        said(&outcome).contains("could not prove that it holds its host key"),
        "{}",
        said(&outcome)
    );
}

/// Whatever the file contains, only configured algorithms are offered, and a login to a server that
/// differs from it works as usual.
#[test]
fn a_stale_or_forged_cache_only_reorders_what_is_configured() {
    let scratch = Scratch::new();
    teach(&scratch, OPENSSH);
    let path = scratch.join("login_cache");
    let honest = fs::read_to_string(&path).expect("the cache");
    let forged = |from: &str, to: &str| {
        assert!(honest.contains(from), "{honest}");
        honest.replace(from, to)
    };
    for (text, guesses) in [
        (forged(" curve25519-sha256 ", " none "), false),
        (
            forged(" curve25519-sha256 ", " diffie-hellman-group1-sha1 "),
            false,
        ),
        (forged(" ssh-ed25519 ", " ssh-dss "), false),
        (forged(" SHA256:", " SHA256:x"), false),
        (
            forged(" curve25519-sha256 ", " diffie-hellman-group14-sha256 "),
            true,
        ),
        (forged("OpenSSH_9.9", "OpenSSH_1.0"), true),
        ("\0\0\0\n".repeat(1000), false),
        (honest.repeat(2), true),
        ("x".repeat(10 << 20), false),
        (String::new(), false),
    ] {
        fs::write(&path, &text).expect("a forged cache");
        let outcome = client_at(&scratch, &ALIAS, |adversary| {
            adversary.version = OPENSSH.into();
            adversary.hello();
            adversary.kexinit(&Offer::default());
            adversary.expect_kexinit();
            let lists = adversary.subjects_kexinit();
            assert_eq!(lists.first_kex_packet_follows, guesses, "{text:.200}");
            for bad in ["none", "diffie-hellman-group1-sha1", "ssh-dss"] {
                assert!(!lists.kex.contains(bad) && !lists.host_key.contains(bad));
            }
            let right = lists.kex.first() == Some("curve25519-sha256");
            if guesses && !right {
                adversary.expect(30);
            }
            adversary.agree();
            adversary.newkeys();
            adversary.expect_newkeys();
            serve_all(adversary, 0);
        });
        ended(&outcome, 0);
        let after = fs::read_to_string(&path).expect("the cache");
        assert!(
            after == honest || text.ends_with(&honest),
            "not mended: {text:.200}: {after:.400}"
        );
    }
}

#[test]
fn nothing_is_kept_where_it_is_not_wanted() {
    for no in ["-oLoginCache=no", "-oUserKnownHostsFile=/dev/null"] {
        let scratch = Scratch::new();
        let arguments = [
            no,
            "-oHostKeyAlias=adversary",
            "user@127.0.0.1",
            "the command",
        ];
        let outcome = client_at(&scratch, &arguments, |adversary| {
            exchange_as(adversary, OPENSSH, &Offer::default());
            serve_all(adversary, 0);
        });
        ended(&outcome, 0);
        if no.contains("LoginCache") {
            assert!(!scratch.join("login_cache").exists());
        }
        assert!(!std::path::Path::new("/dev/login_cache").exists());
    }
}
