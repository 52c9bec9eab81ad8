//! The messages that may arrive before the first NEWKEYS, and their order: against both roles, in
//! memory.

use std::time::Duration;

use hostile::adversary::{Adversary, Offer};
use hostile::subject::{Memory, Subject};
use hostile::thread_time;
use proto::{Error, Role, TransportConfig};
use wire::message::{Encode, ExtInfo, KexInit, NewKeys, Ping, UserauthSuccess};
use wire::{NameList, Put, Rest};

fn against(subject: Role) -> Adversary<Memory> {
    let config = TransportConfig::default();
    match subject {
        Role::Server => Adversary::new(Memory::server(config), Role::Client),
        Role::Client => Adversary::new(Memory::client(config), Role::Server),
    }
}

const BOTH: [Role; 2] = [Role::Server, Role::Client];

/// Well-formed messages that are not permitted in a key exchange, by number.
fn strangers() -> Vec<Vec<u8>> {
    let string = |number: u8, text: &[u8]| {
        let mut payload = vec![number];
        payload.put_string(text);
        payload
    };
    let mut failure = string(51, b"password");
    failure.push(0);
    let mut banner = string(53, b"hello");
    banner.put_string(b"");
    let mut debug = vec![4, 1];
    debug.put_string(b"text");
    debug.put_string(b"");
    let mut global = string(80, b"keepalive@openssh.com");
    global.push(1);
    let mut open = string(90, b"session");
    for number in [0, 1 << 20, 32_768] {
        open.put_u32(number);
    }
    let mut request = vec![98, 0, 0, 0, 0];
    request.put_string(b"exec");
    request.push(1);
    request.put_string(b"touch /tmp/never");
    vec![
        string(2, b"ignored"),
        vec![3, 0, 0, 0, 0],
        debug,
        string(5, b"ssh-userauth"),
        string(6, b"ssh-userauth"),
        vec![7, 0, 0, 0, 0],
        hostile::adversary::userauth(b"root", "none", b""),
        failure,
        vec![52],
        banner,
        global,
        open,
        request,
        string(192, b"ping"),
        string(200, b"unknown"),
        Offer::default().payload(Role::Client),
    ]
}

/// Brings the adversary to one of three stages of a first exchange: after both KEXINITs, after the
/// public values of both, and after its own NEWKEYS, with the subject's received or not.
fn brought_to(place: usize, subject: Role, offer: &Offer) -> Adversary<Memory> {
    let mut adversary = against(subject);
    adversary.hello();
    adversary.kexinit(offer);
    adversary.expect_kexinit();
    if place >= 1 {
        adversary.agree();
    }
    adversary
}

#[test]
fn no_kind_of_message_but_the_exchanges_own_is_taken_before_newkeys_under_strict_exchange() {
    assert!(strangers().len() >= 13);
    for subject in BOTH {
        for place in 0..2 {
            for payload in strangers() {
                let mut adversary = brought_to(place, subject, &Offer::default());
                assert!(adversary.strict);
                adversary.send(&payload);
                let number = payload.first().copied().unwrap_or_default();
                assert!(
                    adversary.ends(),
                    "{subject:?} at {place} goes on after message {number}"
                );
                assert!(adversary.subject.asked.is_empty());
            }
        }
    }
}

#[test]
fn a_message_before_kexinit_ends_a_strict_exchange() {
    for subject in BOTH {
        for payload in strangers() {
            let mut adversary = against(subject);
            adversary.hello();
            adversary.send(&payload);
            adversary.kexinit(&Offer::default());
            assert!(adversary.ends(), "{subject:?}: {payload:?}");
        }
    }
}

#[test]
fn service_login_and_channels_are_not_served_before_newkeys_of_a_lax_exchange() {
    for subject in BOTH {
        for place in 0..2 {
            for payload in strangers() {
                let number = payload.first().copied().unwrap_or_default();
                // RFC 4253 §11 permits these messages there.
                if (2..=4).contains(&number) {
                    continue;
                }
                let mut adversary = brought_to(place, subject, &Offer::lax());
                assert!(!adversary.strict);
                adversary.send(&payload);
                assert!(adversary.ends(), "{subject:?} at {place}, message {number}");
            }
        }
    }
}

#[test]
fn extension_information_before_newkeys_is_refused() {
    for subject in BOTH {
        for offer in [Offer::default(), Offer::lax()] {
            let mut adversary = brought_to(1, subject, &offer);
            let mut pairs = Vec::new();
            pairs.put_string(b"server-sig-algs");
            pairs.put_string(b"ssh-rsa");
            adversary.say(&ExtInfo {
                count: 1,
                extensions: Rest(&pairs),
            });
            assert!(adversary.ends());
            assert!(matches!(
                adversary.subject.error,
                Some(Error::NotPermitted { message: 7 })
            ));
            assert!(adversary.subject.connection.server_sig_algs().is_none());
        }
    }
}

#[test]
fn newkeys_before_the_exchange_is_complete_is_refused() {
    for subject in BOTH {
        for offer in [Offer::default(), Offer::lax()] {
            let mut adversary = brought_to(0, subject, &offer);
            adversary.say(&NewKeys {});
            adversary.ends_with("");
            assert!(adversary.subject.connection.negotiated().is_none());
        }
    }
}

#[test]
fn sequence_numbers_begin_at_zero_after_newkeys_under_strict_exchange_and_only_then() {
    // chacha20-poly1305 takes the sequence number as its nonce: a wrong one opens nothing.
    for subject in BOTH {
        for (promised, resets) in [(true, true), (true, false), (false, false), (false, true)] {
            let mut adversary = against(subject);
            let offer = Offer {
                cipher: "chacha20-poly1305@openssh.com".into(),
                strict: promised,
                ..Offer::default()
            };
            adversary.hello();
            adversary.kexinit(&offer);
            adversary.expect_kexinit();
            assert_eq!(adversary.strict, promised);
            adversary.agree();
            adversary.strict = resets;
            adversary.newkeys();
            adversary.send(&[2, 0, 0, 0, 0]);
            assert_eq!(
                adversary.subject.error.is_none(),
                promised == resets,
                "{subject:?}: promised {promised}, resets {resets}: {}",
                adversary.subject.verdict()
            );
            if promised != resets {
                assert_eq!(adversary.subject.error, Some(Error::IntegrityFailed));
            }
        }
    }
}

#[test]
fn both_directions_reset_their_sequence_numbers() {
    for subject in BOTH {
        let mut adversary = against(subject);
        adversary.exchange(&Offer {
            cipher: "chacha20-poly1305@openssh.com".into(),
            ..Offer::default()
        });
        match subject {
            Role::Server => adversary.service(),
            Role::Client => adversary.accept_service(),
        }
        assert!(adversary.subject.error.is_none());
        let negotiated = adversary.subject.connection.negotiated().expect("keys");
        assert!(negotiated.strict_kex);
    }
}

#[test]
fn a_second_kexinit_ends_the_exchange() {
    for subject in BOTH {
        for offer in [Offer::default(), Offer::lax()] {
            for place in 0..2 {
                let mut adversary = brought_to(place, subject, &offer);
                adversary.kexinit(&offer);
                adversary.ends_with("KEXINIT during a key exchange");
            }
        }
    }
}

#[test]
fn one_connection_gets_one_key_exchange_before_it_has_logged_in() {
    for subject in BOTH {
        let mut adversary = against(subject);
        adversary.exchange(&Offer::default());
        adversary.kexinit(&Offer::default());
        adversary.ends_with("rekey before login");
    }
}

#[test]
fn an_init_or_reply_twice_is_refused() {
    let mut adversary = brought_to(0, Role::Server, &Offer::default());
    adversary.init();
    adversary.finish();
    adversary.init_with(&[9; 32]);
    assert!(adversary.ends());
    let mut adversary = brought_to(1, Role::Client, &Offer::default());
    let mut reply = vec![31];
    for _ in 0..3 {
        reply.put_string(b"again");
    }
    adversary.send(&reply);
    assert!(adversary.ends());
}

#[test]
fn markers_are_never_chosen_as_key_exchange_method() {
    for subject in BOTH {
        for markers in [
            "ext-info-c,ext-info-s",
            "kex-strict-c-v00@openssh.com,kex-strict-s-v00@openssh.com",
            "ext-info-s",
            "kex-strict-s-v00@openssh.com",
            "ext-info-c",
            "kex-strict-c-v00@openssh.com",
        ] {
            let mut adversary = against(subject);
            adversary.hello();
            adversary.kexinit(&Offer {
                strict: false,
                ..Offer::kex(markers)
            });
            assert!(adversary.ends(), "{subject:?} takes {markers}");
            assert!(
                matches!(
                    adversary.subject.error,
                    Some(Error::NoCommonAlgorithm {
                        kind: "key exchange method",
                        ..
                    })
                ),
                "{}",
                adversary.subject.verdict()
            );
        }
    }
}

#[test]
fn a_guessed_packet_is_passed_over_exactly_when_the_guess_is_wrong() {
    // A guess is right if the first method and the first host key algorithm of both lists are
    // equal.
    let ours = TransportConfig::default();
    let first_kex = ours.kex.first().expect("a method").clone();
    let first_key = ours
        .host_key_algorithms
        .first()
        .expect("an algorithm")
        .clone();
    let wrong_kex = format!("curve25519-sha256,{first_kex}");
    let wrong_key = format!("rsa-sha2-512,{first_key}");
    for (kex, key, wrong) in [
        (&first_kex, &first_key, false),
        (&wrong_kex, &first_key, true),
        (&first_kex, &wrong_key, true),
        (&wrong_kex, &wrong_key, true),
    ] {
        let mut adversary = against(Role::Server);
        adversary.hello();
        adversary.kexinit(&Offer {
            kex: kex.clone(),
            host_key: key.clone(),
            guess_follows: true,
            ..Offer::default()
        });
        adversary.expect_kexinit();
        if wrong {
            // Garbage that would end an exchange if it were parsed.
            let mut guess = vec![30];
            guess.put_string(b"a guess");
            adversary.send(&guess);
            assert!(adversary.subject.error.is_none(), "{kex} {key}");
            adversary.init();
        } else {
            adversary.init();
        }
        adversary.finish();
        adversary.newkeys();
        adversary.expect_newkeys();
        adversary.service();
    }
}

/// A server that has announced a guess which is wrong.
fn announces_a_guess() -> Adversary<Memory> {
    let mut adversary = against(Role::Server);
    adversary.hello();
    adversary.kexinit(&Offer {
        guess_follows: true,
        ..Offer::default()
    });
    adversary.expect_kexinit();
    adversary
}

#[test]
fn only_one_packet_is_passed_over_for_a_wrong_guess() {
    let mut adversary = announces_a_guess();
    let mut guess = vec![30];
    guess.put_string(b"a guess");
    adversary.send(&guess);
    assert!(adversary.subject.error.is_none());
    adversary.send(&guess);
    assert!(adversary.ends());
}

#[test]
fn a_wrong_guess_cannot_hide_newkeys_or_another_message() {
    for payload in [vec![21], vec![2, 0, 0, 0, 0], vec![50]] {
        let mut adversary = announces_a_guess();
        adversary.send(&payload);
        assert!(adversary.ends(), "{payload:?}");
    }
}

fn kexinit_of(names: usize) -> Vec<u8> {
    let many: Vec<String> = (0..names).map(|index| format!("n{index:06}")).collect();
    let many = format!("{},curve25519-sha256", many.join(","));
    let list = |text| NameList::new(text).expect("a name-list");
    KexInit {
        cookie: [1; 16],
        kex: list(&many),
        host_key: list("ssh-ed25519"),
        cipher_c2s: list("aes128-gcm@openssh.com"),
        cipher_s2c: list("aes128-gcm@openssh.com"),
        mac_c2s: list("hmac-sha2-256"),
        mac_s2c: list("hmac-sha2-256"),
        compression_c2s: list("none"),
        compression_s2c: list("none"),
        language_c2s: NameList::default(),
        language_s2c: NameList::default(),
        first_kex_packet_follows: false,
        reserved: 0,
    }
    .encode()
}

/// The least of several processor times of a subject for a KEXINIT with `names` names.
fn time_of(subject: Role, names: usize) -> Duration {
    let payload = kexinit_of(names);
    (0..7)
        .map(|_| {
            let mut adversary = against(subject);
            adversary.hello();
            let packet = adversary.seal(&payload);
            let start = thread_time();
            adversary.subject.deliver(&packet);
            let took = thread_time() - start;
            assert!(
                adversary.subject.error.is_none(),
                "{}",
                adversary.subject.verdict()
            );
            took
        })
        .min()
        .unwrap_or_default()
}

#[test]
fn lists_of_twenty_thousand_names_take_time_in_proportion() {
    for subject in BOTH {
        let (some, many) = (time_of(subject, 2_000), time_of(subject, 20_000));
        // Ten times the names: ten times the time if linear, a hundred if quadratic.
        assert!(
            many < some * 40 + Duration::from_millis(20),
            "{subject:?}: {some:?} for 2,000 names, {many:?} for 20,000"
        );
    }
}

#[test]
fn pings_before_login_are_refused() {
    for subject in BOTH {
        for exchanged in [false, true] {
            let mut adversary = against(subject);
            if exchanged {
                adversary.exchange(&Offer::default());
            } else {
                adversary.hello();
                adversary.kexinit(&Offer::lax());
            }
            adversary.say(&Ping { data: b"flood" });
            assert!(adversary.ends(), "{subject:?}");
            assert!(
                adversary
                    .rest()
                    .iter()
                    .all(|payload| payload.first() != Some(&193))
            );
        }
    }
}

#[test]
fn messages_without_effect_have_a_budget_before_login() {
    for subject in BOTH {
        for payload in [
            vec![2, 0, 0, 0, 0],
            vec![3, 0, 0, 0, 0],
            vec![7, 0, 0, 0, 0],
        ] {
            let mut adversary = against(subject);
            adversary.exchange(&Offer::default());
            let mut sent = 0;
            while sent < 100_000 && adversary.send(&payload) {
                sent += 1;
            }
            assert!(
                sent <= 1100,
                "{subject:?} takes {sent} messages of type {:?}",
                payload.first()
            );
        }
    }
}

#[test]
fn plain_zlib_is_not_offered_to_peers_that_have_not_logged_in() {
    for subject in BOTH {
        let mut adversary = against(subject);
        adversary.hello();
        adversary.kexinit(&Offer {
            compression: "zlib".into(),
            ..Offer::default()
        });
        adversary.expect_kexinit();
        assert!(
            !adversary
                .subjects_kexinit()
                .compression_c2s
                .contains("zlib")
        );
        assert!(adversary.ends());
    }
}

#[test]
fn success_of_a_login_that_was_not_asked_for_is_refused_in_every_phase() {
    for subject in BOTH {
        let mut adversary = against(subject);
        adversary.hello();
        adversary.say(&UserauthSuccess {});
        assert!(adversary.ends());

        let mut adversary = against(subject);
        adversary.exchange(&Offer::default());
        adversary.say(&UserauthSuccess {});
        assert!(adversary.ends());
        assert!(!adversary.subject.connection.is_authenticated());

        let mut adversary = against(subject);
        adversary.exchange(&Offer::default());
        match subject {
            Role::Server => adversary.service(),
            Role::Client => adversary.accept_service(),
        }
        adversary.say(&UserauthSuccess {});
        assert!(adversary.ends());
        assert!(!adversary.subject.connection.is_authenticated());
    }
}

#[test]
fn a_method_of_the_modp_groups_is_not_offered_by_default() {
    for subject in BOTH {
        let mut adversary = against(subject);
        adversary.hello();
        adversary.kexinit(&Offer::default());
        adversary.expect_kexinit();
        let offered = adversary.subjects_kexinit();
        assert!(
            offered
                .kex
                .iter()
                .all(|name| !name.starts_with("diffie-hellman"))
        );
    }
}
