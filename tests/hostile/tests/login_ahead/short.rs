//! Lists that are shortened so that the first flight fits into a SYN, and servers that would now
//! negotiate other algorithms.

use std::fs;

use hostile::adversary::{Adversary, Offer};
use hostile::place::{Script, client_at, client_through};
use hostile::subject::Tcp;
use interop::scratch::Scratch;

use super::learned::{serve_all, teach_with};
use super::{OPENSSH, ended, exchange_as, said};

const SHORT: [&str; 6] = [
    "-v",
    "-oTCPFastOpen=yes",
    "-caes128-gcm@openssh.com,aes256-ctr",
    "-oHostKeyAlias=adversary",
    "user@127.0.0.1",
    "the command",
];

/// As a server whose KEXINIT is `offer`, serves a client whose lists have one cipher.
fn meet_short(adversary: &mut Adversary<Tcp>, offer: &Offer, cipher: &str) {
    adversary.version = OPENSSH.into();
    adversary.hello();
    adversary.kexinit(offer);
    adversary.expect_kexinit();
    let lists = adversary.subjects_kexinit();
    assert!(lists.first_kex_packet_follows);
    assert_eq!(
        lists.kex.as_str(),
        "curve25519-sha256,ext-info-c,kex-strict-c-v00@openssh.com"
    );
    assert_eq!(lists.host_key.as_str(), "ssh-ed25519");
    assert_eq!(lists.cipher_c2s.as_str(), cipher);
    assert_eq!(lists.cipher_s2c.as_str(), cipher);
    assert_eq!(lists.mac_c2s.iter().count(), 1);
    assert_eq!(lists.compression_s2c.as_str(), "none");
}

/// With TCPFastOpen the lists are shortened to the algorithms of the last login.
#[test]
fn a_flight_that_is_to_fit_into_the_syn_has_short_lists() {
    let scratch = Scratch::new();
    teach_with(&scratch, OPENSSH, &SHORT);
    let outcome = client_at(&scratch, &SHORT, |adversary| {
        meet_short(adversary, &Offer::default(), "aes128-gcm@openssh.com");
        adversary.agree();
        adversary.newkeys();
        adversary.expect_newkeys();
        serve_all(adversary, 6);
    });
    ended(&outcome, 6);
    assert!(!said(&outcome).contains("trying again"));
}

/// A server that would now negotiate other algorithms, or has none of the short lists, gets the
/// full lists on another connection: a cache cannot select the weaker of two ciphers.
#[test]
fn short_lists_are_made_good_where_the_server_has_changed() {
    for (forged, ciphers) in [
        (None, "aes256-ctr"),
        (
            Some("aes256-ctr+hmac-sha2-256-etm@openssh.com"),
            "aes256-ctr,aes128-gcm@openssh.com",
        ),
    ] {
        let scratch = Scratch::new();
        teach_with(&scratch, OPENSSH, &SHORT);
        if let Some(suite) = forged {
            let path = scratch.join("login_cache");
            let honest = fs::read_to_string(&path).expect("the cache");
            assert!(honest.contains(" aes128-gcm@openssh.com "), "{honest}");
            let text = honest.replace("aes128-gcm@openssh.com", suite);
            fs::write(&path, text).expect("a forged cache");
        }
        let offer = Offer {
            cipher: ciphers.into(),
            ..Offer::default()
        };
        let first: Script<'_> = Box::new(|adversary| {
            let cipher = forged.map_or("aes128-gcm@openssh.com", |_| "aes256-ctr");
            meet_short(adversary, &offer, cipher);
            while adversary.next_payload().is_some() {}
        });
        let second: Script<'_> = Box::new(|adversary| {
            exchange_as(adversary, OPENSSH, &offer);
            let lists = adversary.subjects_kexinit();
            assert!(!lists.first_kex_packet_follows);
            assert_eq!(
                lists.cipher_c2s.as_str(),
                "aes128-gcm@openssh.com,aes256-ctr"
            );
            serve_all(adversary, 6);
        });
        let outcome = client_through(&scratch, &SHORT, vec![first, second]);
        ended(&outcome, 6);
    }
}
