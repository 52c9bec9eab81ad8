use super::message::{Response, query, response};
use super::resolver::Resolver;
use super::*;

use keys::{KeySpec, PrivateKey};

const NAME: &str = "a.example";
const ID: u16 = 0x1234;

/// The head of an answer with these flags and numbers of records, and the question.
fn head(flags: u16, answers: u16, name: &str) -> Vec<u8> {
    let mut out = query(ID, name, true).expect("a query");
    out.truncate(out.len() - 11);
    out[2..4].copy_from_slice(&flags.to_be_bytes());
    out[6..8].copy_from_slice(&answers.to_be_bytes());
    out[10..12].copy_from_slice(&[0, 0]);
    out
}

fn record(name: &[u8], kind: u16, data: &[u8]) -> Vec<u8> {
    let mut out = name.to_vec();
    out.extend(kind.to_be_bytes());
    out.extend([0, 1, 0, 0, 0, 60]);
    out.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
    out.extend(data);
    out
}

/// A pointer to the question's name.
const ASKED: [u8; 2] = [0xc0, 12];

fn found(message: &[u8]) -> Option<(Vec<Fingerprint>, bool)> {
    match response(message, ID, NAME)? {
        Response::Records {
            fingerprints,
            is_authentic,
        } => Some((fingerprints, is_authentic)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn records_of_the_name_and_of_its_alias_are_read() {
    let sshfp = [4, 2, 0xaa, 0xbb];
    let mut message = head(0x81a0, 3, NAME);
    message.extend(record(&ASKED, 44, &sshfp));
    message.extend(record(&ASKED, 46, b"a signature"));
    message.extend(record(b"\x01b\x07example\0", 44, &[1, 1, 1]));
    let (fingerprints, is_authentic) = found(&message).unwrap();
    let expected = Fingerprint {
        algorithm: 4,
        hash: 2,
        digest: vec![0xaa, 0xbb],
    };
    assert_eq!(fingerprints, std::slice::from_ref(&expected));
    assert!(is_authentic);
    let mut message = head(0x8180, 2, NAME);
    message.extend(record(&ASKED, 5, b"\x01B\x07example\0"));
    message.extend(record(b"\x01b\x07Example\0", 44, &sshfp));
    assert_eq!(found(&message), Some((vec![expected], false)));
}

#[test]
fn the_last_of_many_records_counts() {
    let (ours, other) = ([4, 2, 0xaa], [1, 1, 1]);
    let many = 5000;
    let mut message = head(0x81a0, many + 1, NAME);
    for _ in 0..many {
        message.extend(record(&[0], 46, &[]));
    }
    message.extend(record(&ASKED, 44, &ours));
    assert!(message.len() <= usize::from(u16::MAX));
    let digests = |message: &[u8]| {
        let (found, _) = found(message).unwrap();
        found
            .into_iter()
            .map(|found| found.digest)
            .collect::<Vec<_>>()
    };
    assert_eq!(digests(&message), [vec![0xaa]]);
    let mut message = head(0x81a0, 301, NAME);
    for _ in 0..300 {
        message.extend(record(&ASKED, 44, &other));
    }
    message.extend(record(&ASKED, 44, &ours));
    let found = digests(&message);
    assert_eq!((found.len(), found.last()), (301, Some(&vec![0xaa])));
    // An answer with fewer records than it says is none.
    message.truncate(message.len() - 1);
    assert_eq!(response(&message, ID, NAME), None);
}

#[test]
fn a_name_that_is_no_text_does_not_void_the_answer() {
    let mut message = head(0x81a0, 2, NAME);
    message.extend(record(b"\x02\xff\xfe\0", 44, &[4, 2, 1]));
    message.extend(record(&ASKED, 44, &[4, 2, 2]));
    let (found, _) = found(&message).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].digest, [2]);
}

#[test]
fn what_is_no_answer_to_the_query_is_passed_over() {
    let mut good = head(0x8180, 1, NAME);
    good.extend(record(&ASKED, 44, &[4, 2, 1]));
    assert!(found(&good).is_some());
    assert_eq!(response(&good, ID + 1, NAME), None);
    assert_eq!(response(&good, ID, "b.example"), None);
    assert_eq!(response(&head(0x0180, 0, NAME), ID, NAME), None);
    for end in 0..good.len() {
        assert_eq!(response(&good[..end], ID, NAME), None, "{end}");
    }
    assert_eq!(
        response(&head(0x8183, 0, NAME), ID, NAME),
        Some(Response::NoName)
    );
    assert_eq!(
        response(&head(0x8182, 0, NAME), ID, NAME),
        Some(Response::Failed(2))
    );
    assert_eq!(
        response(&head(0x8380, 0, NAME), ID, NAME),
        Some(Response::Truncated)
    );
}

#[test]
fn names_that_point_forwards_or_in_circles_end() {
    let place = u8::try_from(head(0x8180, 1, NAME).len()).unwrap();
    for pointer in [[0xc0, place], [0xc0, place + 2], [0xff, 0xff]] {
        let mut message = head(0x8180, 1, NAME);
        message.extend(record(&pointer, 44, &[4, 2, 1]));
        assert_eq!(response(&message, ID, NAME), None, "{pointer:?}");
    }
}

#[test]
fn names_that_no_host_has_are_not_asked_for() {
    let long = "x".repeat(64);
    for name in ["", ".", "a..b", &long, &"a.".repeat(130)] {
        assert_eq!(query(1, name, true), None, "{name}");
    }
    assert_eq!(query(1, "a.b", true), query(1, "a.b.", true));
}

#[test]
fn resolv_conf_names_the_servers_and_whether_they_are_trusted() {
    let of = |text: &str| format!("{:?}", Resolver::parse(text));
    assert!(of("").contains("127.0.0.1:53"));
    let text = "# x\nnameserver 192.0.2.1\nnameserver ::1\nnameserver x\nnameserver 192.0.2.2\n\
                nameserver 192.0.2.3\noptions ndots:2 timeout:99 attempts:0\n";
    let parsed = of(text);
    assert!(
        parsed.contains("[192.0.2.1:53, [::1]:53, 192.0.2.2:53]"),
        "{parsed}"
    );
    assert!(
        parsed.contains("timeout_s: 30, attempts: 1, trusts_ad: false"),
        "{parsed}"
    );
    assert!(
        of("nameserver 127.53\nnameserver 192.0.2.1#x\n").contains("[127.0.0.53:53, 192.0.2.1:53]")
    );
    // The C library takes no line that begins with a blank.
    for text in [" nameserver 192.0.2.1\n", "\tnameserver 192.0.2.1\n"] {
        assert!(of(text).contains("[127.0.0.1:53]"), "{text:?}");
    }
    for text in [
        " options trust-ad",
        "\toptions trust-ad",
        "optionstrust-ad",
        "options\u{b}trust-ad",
    ] {
        assert!(of(text).contains("trusts_ad: false"), "{text:?}");
    }
    assert!(of("options\ttrust-ad").contains("trusts_ad: true"));
    assert!(of("options edns0 trust-ad use-vc").contains("trusts_ad: true, by_tcp: true"));
}

#[test]
fn records_of_other_keys_say_nothing_about_one_that_can_have_none() {
    let key = PrivateKey::generate(KeySpec::MlDsa44Ed25519).unwrap();
    let answer = SshfpAnswer {
        fingerprints: vec![Fingerprint {
            algorithm: 4,
            hash: 2,
            digest: vec![0; 32],
        }],
        is_secure: true,
    };
    assert_eq!(compare(&answer, key.public()), DnsFinding::Nothing);
}

#[test]
fn a_key_is_compared_with_the_records_of_its_algorithm() {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let key = key.public();
    let record = |algorithm, hash: u8, digest: &[u8]| Fingerprint {
        algorithm,
        hash,
        digest: digest.to_vec(),
    };
    let sha1 = HashAlgorithm::Sha1.digest(&key.blob());
    let sha256 = HashAlgorithm::Sha256.digest(&key.blob());
    let says = |fingerprints: Vec<Fingerprint>, is_secure| {
        compare(
            &SshfpAnswer {
                fingerprints,
                is_secure,
            },
            key,
        )
    };
    let matches = |is_secure| DnsFinding::Matches { is_secure };
    assert_eq!(says(vec![record(4, 2, &sha256)], true), matches(true));
    assert_eq!(says(vec![record(4, 1, &sha1)], false), matches(false));
    assert_eq!(
        says(vec![record(1, 2, &[0; 32]), record(4, 2, &sha256)], true),
        matches(true)
    );
    assert_eq!(says(Vec::new(), true), DnsFinding::Nothing);
    // Hashes that are not known say nothing.
    for unknown in [vec![record(4, 3, &[0; 48])], vec![record(1, 9, &sha256)]] {
        assert_eq!(says(unknown, true), DnsFinding::Nothing);
    }
    for bad in [
        vec![record(4, 2, &[0; 32])],
        vec![record(1, 2, &sha256)],
        vec![record(4, 9, &sha256), record(1, 2, &[0; 32])],
        vec![record(4, 2, &sha256[..31])],
        // A hash that does not fit beside one that does.
        vec![record(4, 2, &sha256), record(4, 1, &[0; 20])],
    ] {
        assert_eq!(says(bad, true), DnsFinding::Differs);
    }
}

#[test]
fn addresses_are_not_asked_for() {
    for host in ["127.0.0.1", "127.1", "::1", "0::1", "fe80::1%lo"] {
        assert!(DnsLookup::start(host, None).answer.is_none(), "{host}");
    }
}

#[test]
fn the_answer_is_not_waited_for_beyond_the_limit() {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let (sender, receiver) = channel();
    let begun = Instant::now();
    let limit = Duration::from_millis(50);
    let mut lookup = DnsLookup {
        answer: Some(receiver),
        deadline: Some(begun + limit),
    };
    // Nobody answers while the sender exists.
    assert_eq!(lookup.compare(key.public()), DnsFinding::Nothing);
    assert!(begun.elapsed() >= limit);
    drop(sender);
}
