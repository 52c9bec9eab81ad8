//! Published vectors of CBC, triple DES and PBKDF2.

use super::*;
use crate::test_support::hex;

#[test]
fn aes_cbc_matches_sp800_38a() {
    let plain = "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51";
    let iv = hex("000102030405060708090a0b0c0d0e0f");
    let cases = [
        (
            "2b7e151628aed2a6abf7158809cf4f3c",
            "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2",
        ),
        (
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d",
        ),
    ];
    for (key, cipher) in cases {
        let mut data = hex(plain);
        assert_eq!(aes_cbc_encrypt(&hex(key), &iv, &mut data), Ok(()));
        assert_eq!(data, hex(cipher));
        assert_eq!(aes_cbc_decrypt(&hex(key), &iv, &mut data), Ok(()));
        assert_eq!(data, hex(plain));
    }
}

#[test]
fn triple_des_decrypts_the_blocks_of_sp800_67_and_chains_them() {
    let key = hex("0123456789abcdef23456789abcdef01456789abcdef0123");
    let cipher = hex("a826fd8ce53b855fcce21c8112256fe668d5c05dd9b6b900");
    let blocks = b"The qufck brown fox jump";
    let mut data = cipher.clone();
    assert_eq!(des_ede3_cbc_decrypt(&key, &[0; 8], &mut data), Ok(()));
    let unchained: Vec<u8> = data
        .iter()
        .zip([0; 8].iter().chain(&cipher))
        .map(|(plain, before)| plain ^ before)
        .collect();
    assert_eq!(unchained, blocks);
}

#[test]
fn pbkdf2_matches_rfc_6070() {
    for (iterations, expected) in [
        (1, "0c60c80f961f0e71f3a9b524af6012062fe037a6"),
        (2, "ea6c014dc72d6f8ccd1ed92ace1d41f0d8de8957"),
        (4096, "4b007901b765489abead49d926f721d065a429c1"),
    ] {
        let mut out = [0; 20];
        let result = pbkdf2_hmac(
            HashAlgorithm::Sha1,
            b"password",
            b"salt",
            iterations,
            &mut out,
        );
        assert_eq!(result, Ok(()));
        assert_eq!(out.to_vec(), hex(expected));
    }
}

#[test]
fn wrong_lengths_and_counts_are_refused() {
    let wrong = Err(LegacyError::WrongLength);
    assert_eq!(aes_cbc_decrypt(&[0; 15], &[0; 16], &mut [0; 16]), wrong);
    assert_eq!(aes_cbc_decrypt(&[0; 16], &[0; 8], &mut [0; 16]), wrong);
    assert_eq!(aes_cbc_decrypt(&[0; 16], &[0; 16], &mut [0; 17]), wrong);
    assert_eq!(aes_cbc_encrypt(&[0; 16], &[], &mut [0; 16]), wrong);
    assert_eq!(des_ede3_cbc_decrypt(&[0; 16], &[0; 8], &mut [0; 8]), wrong);
    assert_eq!(des_ede3_cbc_decrypt(&[0; 24], &[0; 7], &mut [0; 8]), wrong);
    assert_eq!(des_ede3_cbc_decrypt(&[0; 24], &[0; 8], &mut [0; 9]), wrong);
    let pbkdf2 = |count, len: usize| {
        pbkdf2_hmac(HashAlgorithm::Sha256, b"p", b"s", count, &mut vec![0; len])
    };
    assert_eq!(pbkdf2(0, 16), Err(LegacyError::BadCount));
    assert_eq!(pbkdf2(u32::MAX, 16), Err(LegacyError::BadCount));
    assert_eq!(pbkdf2(1, 0), wrong);
    assert_eq!(pbkdf2(1, 1 << 20), wrong);
}
