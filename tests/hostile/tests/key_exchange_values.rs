//! Invalid public values, groups, host keys and signatures.

use std::time::Duration;

use crypto::kex::{DhGroup, KexAlgorithm};
use hostile::adversary::{Adversary, HostKey, Offer, Reply};
use hostile::subject::{Memory, Subject};
use hostile::thread_time;
use keys::{KeySpec, PrivateKey, SignatureAlgorithm};
use proto::{Error, Event, Role, TransportConfig};
use wire::message::{KexGexGroup, KexGexInit, KexGexReply, KexGexRequest};
use wire::{Mpint, Put};

fn config(kex: &str) -> TransportConfig {
    TransportConfig {
        kex: vec![kex.into()],
        host_key_algorithms: [
            "ssh-ed25519",
            "ecdsa-sha2-nistp256",
            "rsa-sha2-512",
            "rsa-sha2-256",
        ]
        .map(String::from)
        .to_vec(),
        ..TransportConfig::default()
    }
}

/// A lying client whose server subject waits for its KEX_*_INIT.
fn client_before_init(kex: &str) -> Adversary<Memory> {
    let mut adversary = Adversary::new(Memory::server(config(kex)), Role::Client);
    adversary.hello();
    adversary.kexinit(&Offer::kex(kex));
    adversary.expect_kexinit();
    adversary
}

/// A lying server whose client subject waits for its KEX_*_REPLY.
fn server_before_reply(kex: &str, host_key: &str) -> Adversary<Memory> {
    let mut adversary = Adversary::new(Memory::client(config(kex)), Role::Server);
    adversary.hello();
    adversary.kexinit(&Offer {
        host_key: host_key.into(),
        ..Offer::kex(kex)
    });
    adversary.expect_kexinit();
    adversary
}

/// Sends `value` to the subject in each role; returns the errors that ended it.
fn both_roles_with(kex: &str, value: &[u8]) -> [Option<Error>; 2] {
    let mut client = client_before_init(kex);
    client.init_with(value);
    let mut server = server_before_reply(kex, "ssh-ed25519");
    server.reply(&Reply {
        public: Some(value.to_vec()),
        ..Reply::default()
    });
    assert!(
        !server
            .subject
            .saw(|event| matches!(event, Event::HostKey { .. }))
    );
    [client.subject.error, server.subject.error]
}

/// Encodings of points whose order divides 8, canonical or not (RFC 7748 §6.1).
fn low_order_points() -> Vec<[u8; 32]> {
    let hex = |text: &str| {
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).expect("hex");
        }
        bytes
    };
    let mut list: Vec<[u8; 32]> = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ]
    .map(hex)
    .to_vec();
    // The highest bit is ignored by X25519.
    for index in 0..list.len() {
        let mut point = list[index];
        point[31] |= 0x80;
        list.push(point);
    }
    list
}

#[test]
fn x25519_points_of_low_order_are_refused_on_both_sides() {
    for point in low_order_points() {
        for error in both_roles_with("curve25519-sha256", &point) {
            assert!(
                matches!(error, Some(Error::KeyExchange(_))),
                "{point:02x?}: {error:?}"
            );
        }
    }
}

#[test]
fn public_values_of_a_wrong_length_are_refused_on_both_sides() {
    for kex in [
        "curve25519-sha256",
        "ecdh-sha2-nistp256",
        "mlkem768x25519-sha256",
        "mlkem768nistp256-sha256",
        "sntrup761x25519-sha512",
    ] {
        for len in [
            0, 1, 31, 33, 64, 66, 1183, 1185, 1189, 1191, 1215, 1217, 4096, 100_000,
        ] {
            for error in both_roles_with(kex, &vec![4; len]) {
                assert!(
                    matches!(error, Some(Error::KeyExchange(_))),
                    "{kex} {len}: {error:?}"
                );
            }
        }
    }
}

#[test]
fn points_off_the_curve_are_refused_on_both_sides() {
    for (kex, len) in [
        ("ecdh-sha2-nistp256", 65),
        ("ecdh-sha2-nistp384", 97),
        ("ecdh-sha2-nistp521", 133),
    ] {
        let mut point = vec![1; len];
        for first in [4, 2, 0] {
            point[0] = first;
            for error in both_roles_with(kex, &point) {
                assert!(
                    matches!(error, Some(Error::KeyExchange(_))),
                    "{kex} {first}: {error:?}"
                );
            }
        }
    }
}

#[test]
fn dh_values_outside_the_group_are_refused_on_both_sides() {
    let kex = "diffie-hellman-group14-sha256";
    let group = DhGroup::fixed(KexAlgorithm::DhGroup14Sha256).expect("group 14");
    let p = group.p();
    let mut p_minus_1 = p.clone();
    *p_minus_1.last_mut().expect("a byte") -= 1;
    let mut p_and_more = p.clone();
    p_and_more.push(0);
    for value in [vec![], vec![1], p_minus_1, p, p_and_more] {
        for error in both_roles_with(kex, &value) {
            assert!(
                matches!(error, Some(Error::KeyExchange(_))),
                "{value:02x?}: {error:?}"
            );
        }
    }
}

const GEX: &str = "diffie-hellman-group-exchange-sha256";

/// A lying server that answers the request for a group with this group.
fn with_group(p: &[u8], g: &[u8]) -> Adversary<Memory> {
    let mut adversary = server_before_reply(GEX, "ssh-ed25519");
    adversary.expect(34);
    adversary.say(&KexGexGroup {
        p: Mpint::from_magnitude(p),
        g: Mpint::from_magnitude(g),
    });
    adversary
}

#[test]
fn groups_from_a_server_that_are_too_small_too_large_or_composite_are_refused() {
    let group = DhGroup::fixed(KexAlgorithm::DhGroup14Sha256).expect("group 14");
    let mut composite = group.p();
    composite[100] ^= 0x10;
    let mut even = group.p();
    *even.last_mut().expect("a byte") ^= 1;
    let small = vec![0xff; 64];
    let huge = vec![0xff; 1025];
    for (p, g) in [
        (&small, vec![2]),
        (&huge, vec![2]),
        (&composite, vec![2]),
        (&even, vec![2]),
        (&group.p(), vec![0]),
        (&group.p(), vec![1]),
        (&group.p(), group.p()),
        (&Vec::new(), vec![2]),
    ] {
        let mut adversary = with_group(p, &g);
        adversary.ends_with("not safe or not of the requested size");
        assert!(adversary.rest().is_empty(), "no KEX_DH_GEX_INIT follows");
    }
    // The honest value is accepted, so the lie was the reason for the refusal.
    let mut adversary = with_group(&group.p(), &group.g());
    adversary.expect(32);
}

#[test]
fn values_outside_a_group_that_was_exchanged_are_refused_on_both_sides() {
    let group = DhGroup::fixed(KexAlgorithm::DhGroup14Sha256).expect("group 14");
    for value in [vec![], vec![1], group.p()] {
        let mut adversary = with_group(&group.p(), &group.g());
        adversary.expect(32);
        adversary.say(&KexGexReply {
            host_key: b"key",
            public: Mpint::from_magnitude(&value),
            signature: b"signature",
        });
        assert!(matches!(
            adversary.subject.error,
            Some(Error::KeyExchange(_))
        ));

        let mut adversary = client_before_init(GEX);
        adversary.say(&KexGexRequest {
            min: 2048,
            preferred: 2048,
            max: 8192,
        });
        adversary.expect(31);
        adversary.say(&KexGexInit {
            public: Mpint::from_magnitude(&value),
        });
        assert!(matches!(
            adversary.subject.error,
            Some(Error::KeyExchange(_))
        ));
    }
}

#[test]
fn sizes_asked_for_by_a_client_must_make_sense() {
    for (min, preferred, max) in [
        (8192, 4096, 2048),
        (0, 0, 0),
        (512, 1024, 1024),
        (4096, 2048, 8192),
        (2048, 8192, 4096),
        (u32::MAX, u32::MAX, u32::MAX),
    ] {
        let mut adversary = client_before_init(GEX);
        adversary.say(&KexGexRequest {
            min,
            preferred,
            max,
        });
        assert!(adversary.ends(), "{min} {preferred} {max}");
    }
}

fn string(text: &mut Vec<u8>, part: &[u8]) {
    text.put_string(part);
}

fn ed25519_blob(point: &[u8]) -> Vec<u8> {
    let mut blob = Vec::new();
    string(&mut blob, b"ssh-ed25519");
    string(&mut blob, point);
    blob
}

fn rsa_blob(modulus: &[u8]) -> Vec<u8> {
    let mut blob = Vec::new();
    string(&mut blob, b"ssh-rsa");
    blob.put_mpint(&[1, 0, 1]);
    blob.put_mpint(modulus);
    blob
}

fn signature_blob(algorithm: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut blob = Vec::new();
    string(&mut blob, algorithm);
    string(&mut blob, bytes);
    blob
}

/// Shows this host key to a client in an otherwise honest exchange.
fn with_host_key(
    algorithm: &str,
    host_key: Vec<u8>,
    signature: Option<Vec<u8>>,
) -> Adversary<Memory> {
    let mut adversary = server_before_reply("curve25519-sha256", algorithm);
    adversary.reply(&Reply {
        host_key: Some(host_key),
        signature,
        public: None,
    });
    adversary
}

fn refused(adversary: &mut Adversary<Memory>, what: &str) {
    refused_with(adversary, Error::HostKeySignature, what);
}

fn refused_with(adversary: &mut Adversary<Memory>, error: Error, what: &str) {
    assert_eq!(adversary.subject.error, Some(error), "{what}");
    assert!(
        !adversary
            .subject
            .saw(|event| matches!(event, Event::HostKey { .. })),
        "{what}: the owner is asked about a key that is not proven"
    );
}

#[test]
fn ed25519_host_keys_of_a_wrong_length_are_refused() {
    for len in [0, 1, 31, 33, 64, 60_000] {
        let mut adversary = with_host_key("ssh-ed25519", ed25519_blob(&vec![1; len]), None);
        refused(&mut adversary, &format!("{len} bytes"));
    }
}

#[test]
fn ed25519_signatures_of_a_wrong_length_are_refused() {
    for len in [0, 63, 65, 128] {
        let honest = PrivateKey::from_ed25519_seed(&[9; 32]).public().blob();
        let signature = signature_blob(b"ssh-ed25519", &vec![1; len]);
        let mut adversary = with_host_key("ssh-ed25519", honest, Some(signature));
        refused(&mut adversary, &format!("{len} bytes"));
    }
}

#[test]
fn an_ecdsa_host_key_off_its_curve_is_refused() {
    for point in [
        vec![4; 65],
        vec![0],
        vec![],
        vec![2; 33],
        [vec![4], vec![0; 64]].concat(),
    ] {
        let mut blob = Vec::new();
        string(&mut blob, b"ecdsa-sha2-nistp256");
        string(&mut blob, b"nistp256");
        string(&mut blob, &point);
        let mut inner = Vec::new();
        inner.put_mpint(&[1]);
        inner.put_mpint(&[1]);
        let signature = signature_blob(b"ecdsa-sha2-nistp256", &inner);
        let mut adversary = with_host_key("ecdsa-sha2-nistp256", blob, Some(signature));
        refused(&mut adversary, &format!("{point:02x?}"));
    }
}

#[test]
fn an_rsa_host_key_of_a_hundred_thousand_bits_costs_nothing() {
    let signature = signature_blob(b"rsa-sha2-512", &vec![1; 12_500]);
    let least = (0..5)
        .map(|_| {
            let mut adversary = server_before_reply("curve25519-sha256", "rsa-sha2-512");
            let start = thread_time();
            adversary.reply(&Reply {
                host_key: Some(rsa_blob(&vec![0xff; 12_500])),
                signature: Some(signature.clone()),
                public: None,
            });
            let took = thread_time() - start;
            refused(&mut adversary, "100,000 bits");
            took
        })
        .min()
        .unwrap_or_default();
    assert!(least < Duration::from_millis(50), "{least:?}");
}

#[test]
fn rsa_host_keys_below_the_required_size_are_refused() {
    let mut adversary = server_before_reply("curve25519-sha256", "rsa-sha2-512");
    adversary.host_key = HostKey {
        private: PrivateKey::generate(KeySpec::Rsa { bits: 1024 }).expect("a key"),
        algorithm: SignatureAlgorithm::RsaSha512,
    };
    adversary.reply(&Reply::default());
    let too_small = Error::HostKeyTooSmall {
        bits: 1024,
        minimum: 2048,
    };
    refused_with(&mut adversary, too_small, "1024 bits");
}

#[test]
fn a_signature_by_another_algorithm_than_the_negotiated_one_is_refused() {
    let rsa = || PrivateKey::generate(KeySpec::Rsa { bits: 2048 }).expect("a key");
    // The weaker hash of the same key.
    let mut adversary = server_before_reply("curve25519-sha256", "rsa-sha2-512");
    adversary.host_key = HostKey {
        private: rsa(),
        algorithm: SignatureAlgorithm::RsaSha256,
    };
    adversary.reply(&Reply::default());
    refused(&mut adversary, "rsa-sha2-256 for rsa-sha2-512");
    // A key of another type.
    let mut adversary = server_before_reply("curve25519-sha256", "rsa-sha2-512");
    adversary.reply(&Reply::default());
    refused(&mut adversary, "ed25519 for rsa");
    let mut adversary = server_before_reply("curve25519-sha256", "ssh-ed25519");
    adversary.host_key = HostKey {
        private: rsa(),
        algorithm: SignatureAlgorithm::RsaSha512,
    };
    adversary.reply(&Reply::default());
    refused(&mut adversary, "rsa for ed25519");
    // SHA-1's old name on honest bytes.
    let honest = PrivateKey::from_ed25519_seed(&[9; 32]).public().blob();
    let signature = signature_blob(b"ssh-rsa", &[1; 256]);
    let mut adversary = with_host_key("ssh-ed25519", honest, Some(signature));
    refused(&mut adversary, "ssh-rsa");
}

#[test]
fn a_signature_over_something_else_is_refused() {
    let key = PrivateKey::from_ed25519_seed(&[9; 32]);
    let over = key
        .sign(SignatureAlgorithm::Ed25519, b"something else")
        .expect("a signature");
    let mut adversary = with_host_key("ssh-ed25519", key.public().blob(), Some(over));
    refused(&mut adversary, "another text");
    let mut adversary = with_host_key("ssh-ed25519", key.public().blob(), Some(Vec::new()));
    refused(&mut adversary, "no signature");
    let mut adversary = with_host_key("ssh-ed25519", Vec::new(), None);
    refused(&mut adversary, "no key");
    // Another key than the one that signs.
    let other = PrivateKey::from_ed25519_seed(&[8; 32]);
    let mut adversary = with_host_key("ssh-ed25519", other.public().blob(), None);
    refused(&mut adversary, "another key");
}

#[test]
fn a_public_value_that_was_changed_on_the_way_shows_in_the_signature() {
    let mut adversary = server_before_reply("curve25519-sha256", "ssh-ed25519");
    adversary.reply(&Reply {
        public: Some(vec![9; 32]),
        ..Reply::default()
    });
    refused(&mut adversary, "changed public value");
    assert!(adversary.subject.has_ended());
}
