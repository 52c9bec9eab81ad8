//! Cases of NIST's ACVP server.

use super::*;
use crate::hash::HashAlgorithm;
use crate::test_support::hex;

const CASES: &str = include_str!("../../testdata/mldsa44_acvp.txt");

unsafe extern "C" {
    #[link_name = "aws_lc_0_47_0_ml_dsa_44_verify_internal"]
    fn verify_internal(
        public: *const u8,
        signature: *const u8,
        signature_len: usize,
        message: *const u8,
        message_len: usize,
        prefix: *const u8,
        prefix_len: usize,
    ) -> core::ffi::c_int;
}

/// The fields of the lines that begin with this word, without the case's number.
fn cases(of: &str) -> Vec<Vec<&'static str>> {
    let lines = CASES
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let chosen = lines.filter(|fields| fields.first() == Some(&of));
    let cases: Vec<_> = chosen.map(|fields| fields[2..].to_vec()).collect();
    assert!(cases.len() >= 2, "{of}");
    cases
}

fn array<const N: usize>(digits: &str) -> [u8; N] {
    hex(digits).try_into().unwrap()
}

fn hash(bytes: &[u8]) -> Vec<u8> {
    HashAlgorithm::Sha256.digest(bytes).to_vec()
}

#[test]
fn keys_are_those_of_their_seeds() {
    for fields in cases("keygen") {
        let (private, public) = SigningKey::from_seed(&array(fields[0])).unwrap();
        assert_eq!(hash(&public), hex(fields[1]));
        assert_eq!(hash(&private.0[..]), hex(fields[2]));
    }
}

#[test]
fn signatures_are_those_of_their_randomness() {
    for fields in cases("sign") {
        let private = SigningKey(Box::new(Zeroizing::new(array(fields[0]))));
        let signature = private.sign_prefixed(&hex(fields[1]), &[], &array(fields[2]));
        assert_eq!(hash(&signature.unwrap()), hex(fields[3]));
    }
}

#[test]
fn bad_signatures_are_told_from_good_ones() {
    for fields in cases("verify") {
        let public: [u8; PUBLIC_LEN] = array(fields[1]);
        let message = hex(fields[2]);
        let signature: [u8; SIGNATURE_LEN] = array(fields[3]);
        // SAFETY: the message is valid for the length given with it; key and signature are arrays of
        // the lengths that the method has, and the prefix is empty.
        let verdict = unsafe {
            verify_internal(
                public.as_ptr(),
                signature.as_ptr(),
                signature.len(),
                message.as_ptr(),
                message.len(),
                message.as_ptr(),
                0,
            )
        };
        assert_eq!(verdict == 1, fields[0] == "true");
        // With a context before it the message is another one.
        assert!(verify(&public, &message, b"", &signature).is_err());
    }
}
