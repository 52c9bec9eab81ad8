//! Signing and verifying with each kind of key; invalid keys and signatures.

use super::*;
use crate::awslc::bn::{Bn, BnContext};
use crate::awslc::ec::EcKey;
use crate::test_support::{Noise, hex};
use crate::{BadKey, BadSignature, SignError};

const ECDSA: [(KeyKind, SignatureScheme); 3] = [
    (KeyKind::EcdsaP256, SignatureScheme::EcdsaP256Sha256),
    (KeyKind::EcdsaP384, SignatureScheme::EcdsaP384Sha384),
    (KeyKind::EcdsaP521, SignatureScheme::EcdsaP521Sha512),
];

const ALL_SCHEMES: [SignatureScheme; 7] = [
    SignatureScheme::Ed25519,
    SignatureScheme::EcdsaP256Sha256,
    SignatureScheme::EcdsaP384Sha384,
    SignatureScheme::EcdsaP521Sha512,
    SignatureScheme::RsaPkcs1Sha256,
    SignatureScheme::RsaPkcs1Sha512,
    SignatureScheme::MlDsa44Ed25519,
];

/// One RSA key for all tests: making it takes a tenth of a second.
fn rsa_key() -> &'static PrivateKey {
    static KEY: std::sync::OnceLock<PrivateKey> = std::sync::OnceLock::new();
    KEY.get_or_init(|| PrivateKey::generate(KeyKind::Rsa, 2048).expect("generates"))
}

fn key_of(kind: KeyKind) -> PrivateKey {
    match kind {
        KeyKind::Rsa => rsa_key().clone(),
        other => PrivateKey::generate(other, 0).expect("generates"),
    }
}

#[test]
fn every_scheme_verifies_its_own_signature_and_no_other() {
    let mut noise = Noise::new(5);
    for scheme in ALL_SCHEMES {
        let key = key_of(scheme.key_kind());
        for len in [0, 1, 100, 5000] {
            let message = noise.bytes(len);
            let signature = key.sign(scheme, &message).expect("signs");
            assert_eq!(key.public().verify(scheme, &message, &signature), Ok(()));
            let mut other = message.clone();
            other.push(0);
            assert!(key.public().verify(scheme, &other, &signature).is_err());
            for _ in 0..8 {
                let mut bad = signature.clone();
                bad[noise.below(signature.len())] ^= 1 << noise.below(8);
                assert!(key.public().verify(scheme, &message, &bad).is_err());
            }
        }
        let stranger = match scheme.key_kind() {
            KeyKind::Rsa => continue,
            kind => key_of(kind),
        };
        let signature = key.sign(scheme, b"m").expect("signs");
        assert!(stranger.public().verify(scheme, b"m", &signature).is_err());
    }
}

#[test]
fn a_scheme_of_another_kind_is_refused() {
    for kind in [
        KeyKind::Ed25519,
        KeyKind::EcdsaP256,
        KeyKind::EcdsaP521,
        KeyKind::Rsa,
        KeyKind::MlDsa44Ed25519,
    ] {
        let key = key_of(kind);
        for scheme in ALL_SCHEMES
            .into_iter()
            .filter(|scheme| scheme.key_kind() != kind)
        {
            assert_eq!(key.sign(scheme, b"m"), Err(SignError::WrongScheme));
            assert_eq!(
                key.public().verify(scheme, b"m", &[0; 64]),
                Err(BadSignature)
            );
        }
    }
    let key = rsa_key();
    let signature = key
        .sign(SignatureScheme::RsaPkcs1Sha256, b"m")
        .expect("signs");
    let verified = key
        .public()
        .verify(SignatureScheme::RsaPkcs1Sha512, b"m", &signature);
    assert_eq!(verified, Err(BadSignature));
}

#[test]
fn signatures_of_any_other_length_are_refused() {
    for scheme in ALL_SCHEMES {
        let key = key_of(scheme.key_kind());
        let signature = key.sign(scheme, b"m").expect("signs");
        for len in [
            0,
            1,
            63,
            65,
            signature.len() - 1,
            signature.len() + 1,
            100_000,
        ] {
            if len == signature.len() {
                continue;
            }
            let mut bad = signature.clone();
            bad.resize(len, 0);
            assert!(
                key.public().verify(scheme, b"m", &bad).is_err(),
                "{scheme:?} {len}"
            );
        }
    }
}

#[test]
fn ed25519_matches_rfc_8032() {
    let seed = hex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7");
    let key = PrivateKey::ed25519_from_seed(&seed.clone().try_into().expect("32 bytes"));
    let public = hex("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025");
    assert_eq!(
        key.public().ed25519_bytes().map(|b| b.to_vec()),
        Some(public.clone())
    );
    assert_eq!(key.ed25519_seed().map(|s| s.to_vec()), Some(seed));
    let signature = key
        .sign(SignatureScheme::Ed25519, &[0xaf, 0x82])
        .expect("signs");
    let expected = hex(
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac\
         18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    );
    assert_eq!(signature, expected);
    let public = PublicKey::ed25519(&public).expect("32 bytes");
    assert_eq!(
        public.verify(SignatureScheme::Ed25519, &[0xaf, 0x82], &expected),
        Ok(())
    );
}

#[test]
fn ed25519_refuses_s_not_below_the_order() {
    let key = key_of(KeyKind::Ed25519);
    let mut signature = key.sign(SignatureScheme::Ed25519, b"m").expect("signs");
    // L, little-endian; S + L is the same scalar modulo L and must still be rejected.
    let order = hex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    let mut carry = 0u16;
    for (s, l) in signature[32..].iter_mut().zip(order) {
        let sum = u16::from(*s) + u16::from(l) + carry;
        *s = sum.to_le_bytes()[0];
        carry = sum >> 8;
    }
    assert_eq!(carry, 0);
    let verified = key
        .public()
        .verify(SignatureScheme::Ed25519, b"m", &signature);
    assert_eq!(verified, Err(BadSignature));
}

#[test]
fn ed25519_keys_of_any_other_length_are_refused() {
    for len in [0, 1, 31, 33, 64, 10_000] {
        assert_eq!(PublicKey::ed25519(&vec![1; len]), Err(BadKey::WrongLength));
    }
}

#[test]
fn ecdsa_points_that_are_none_are_refused() {
    for (kind, _) in ECDSA {
        let key = key_of(kind);
        let good = key.public().ecdsa_point().expect("a point").to_vec();
        assert_eq!(PublicKey::ecdsa(kind, &good).as_ref(), Ok(key.public()));
        for len in [0, 1, 33, good.len() - 1, good.len() + 1] {
            let mut bad = good.clone();
            bad.resize(len, 0);
            assert_eq!(PublicKey::ecdsa(kind, &bad), Err(BadKey::WrongLength));
        }
        for (at, bits) in [(0, 6), (1, 1), (good.len() - 1, 1)] {
            let mut bad = good.clone();
            bad[at] ^= bits;
            assert_eq!(PublicKey::ecdsa(kind, &bad), Err(BadKey::Invalid));
        }
        assert_eq!(
            PublicKey::ecdsa(kind, &vec![0; good.len()]),
            Err(BadKey::Invalid)
        );
        assert_eq!(PublicKey::ecdsa(KeyKind::Rsa, &good), Err(BadKey::Invalid));
        // A point of another curve.
        for (other, _) in ECDSA.into_iter().filter(|(other, _)| *other != kind) {
            assert!(PublicKey::ecdsa(other, &good).is_err());
        }
    }
}

#[test]
fn ecdsa_signatures_out_of_range_are_refused() {
    for (kind, scheme) in ECDSA {
        let key = key_of(kind);
        let signature = key.sign(scheme, b"m").expect("signs");
        let len = signature.len() / 2;
        let (r, s) = signature.split_at(len);
        let curve = kind.curve().expect("a curve");
        let order = EcKey::generate(curve).expect("generates").order();
        let order = [&vec![0; len - order.len()][..], &order].concat();
        for (r, s) in [
            (vec![0; len], s.to_vec()),
            (r.to_vec(), vec![0; len]),
            (vec![0; len], vec![0; len]),
            (order.clone(), s.to_vec()),
            (r.to_vec(), order),
            (vec![0xff; len], vec![0xff; len]),
        ] {
            let bad = [r, s].concat();
            assert_eq!(key.public().verify(scheme, b"m", &bad), Err(BadSignature));
        }
    }
}

#[test]
fn ecdsa_halves_are_trimmed_and_padded() {
    let kind = KeyKind::EcdsaP256;
    let mut fixed = vec![0u8; 64];
    fixed[3] = 9;
    fixed[32] = 0x80;
    let signature = EcdsaSignature::from_fixed(kind, &fixed).expect("length fits");
    assert_eq!((signature.r.len(), signature.s.len()), (29, 32));
    assert_eq!(signature.to_fixed(kind), Ok(fixed));
    assert_eq!(
        EcdsaSignature::from_fixed(kind, &[0; 63]),
        Err(BadSignature)
    );
    assert_eq!(
        EcdsaSignature::from_fixed(KeyKind::Ed25519, &[0; 64]),
        Err(BadSignature)
    );
    assert_eq!(
        EcdsaSignature::fixed_of(kind, &[1; 33], &[1]),
        Err(BadSignature)
    );
    // Leading zeros are not part of the number; a megabyte of them is harmless.
    let zeros = vec![0; 1 << 20];
    assert_eq!(
        EcdsaSignature::fixed_of(kind, &zeros, &[0, 1]).map(|f| f.len()),
        Ok(64)
    );
}

#[test]
fn ecdsa_keys_come_back_from_their_parts() {
    for (kind, scheme) in ECDSA {
        let key = key_of(kind);
        let scalar = key.ecdsa_scalar().expect("a scalar");
        let point = key.public().ecdsa_point().expect("a point").to_vec();
        let again = PrivateKey::ecdsa_from_parts(kind, &scalar, &point).expect("fits");
        let signature = again.sign(scheme, b"m").expect("signs");
        assert_eq!(key.public().verify(scheme, b"m", &signature), Ok(()));
        let padded = [&[0; 5][..], &scalar].concat();
        assert!(PrivateKey::ecdsa_from_parts(kind, &padded, &point).is_ok());

        let other = key_of(kind);
        let stranger = other.public().ecdsa_point().expect("a point");
        let refused = PrivateKey::ecdsa_from_parts(kind, &scalar, stranger);
        assert_eq!(refused.err(), Some(BadKey::Inconsistent));
        let order = EcKey::generate(kind.curve().expect("a curve"))
            .expect("generates")
            .order();
        for bad in [&[][..], &[0], &order, &vec![0xff; scalar.len()]] {
            assert!(PrivateKey::ecdsa_from_parts(kind, bad, &point).is_err());
        }
        let long = PrivateKey::ecdsa_from_parts(kind, &vec![1; 1000], &point);
        assert_eq!(long.err(), Some(BadKey::WrongLength));
    }
}

/// The nonce of a signature, which the private key recovers:
/// k = (z + r·d) / s mod n.
fn nonce_of(key: &PrivateKey, scheme: SignatureScheme, message: &[u8]) -> Vec<u8> {
    let curve = scheme.key_kind().curve().expect("a curve");
    let order = EcKey::generate(curve).expect("generates").order();
    let n = Bn::from_bytes(&order).expect("memory");
    let signature = key.sign(scheme, message).expect("signs");
    let (r, s) = signature.split_at(curve.coordinate_len());
    let (r, s) = (
        Bn::from_bytes(r).expect("memory"),
        Bn::from_bytes(s).expect("memory"),
    );
    let d = Bn::from_bytes(&key.ecdsa_scalar().expect("a scalar")).expect("memory");
    let z = Bn::from_bytes(&scheme.hash().digest(message)).expect("memory");
    let context = &mut BnContext::new().expect("memory");
    let inverse = s
        .power(&n.minus_word(2).expect("n > 2"), &n, context)
        .expect("memory");
    let rd = r.times(&d, context).expect("memory");
    let sum = rd
        .plus(&z)
        .expect("memory")
        .modulo(&n, context)
        .expect("memory");
    let k = sum
        .times(&inverse, context)
        .expect("memory")
        .modulo(&n, context)
        .expect("memory");
    k.to_padded_bytes(curve.coordinate_len())
        .expect("below n")
        .to_vec()
}

#[test]
fn p521_nonces_use_their_top_bits() {
    let key = key_of(KeyKind::EcdsaP521);
    let scheme = SignatureScheme::EcdsaP521Sha512;
    let rounds = 200u32;
    let mut ones = [0u32; 16];
    for i in 0..rounds {
        let nonce = nonce_of(&key, scheme, &i.to_be_bytes());
        // Bits 520 to 505, of which PuTTY's nonces had the top nine zero.
        let top =
            u32::from(nonce[0] & 1) << 15 | u32::from(nonce[1]) << 7 | u32::from(nonce[2]) >> 1;
        for (bit, count) in ones.iter_mut().enumerate() {
            *count += top >> bit & 1;
        }
    }
    // 200 fair coins fall outside 50..150 with a probability of about 10^-12.
    assert!(
        ones.iter().all(|count| (50..150).contains(count)),
        "{ones:?}"
    );
}

#[test]
fn ecdsa_nonces_differ_for_one_message() {
    let key = key_of(KeyKind::EcdsaP256);
    let scheme = SignatureScheme::EcdsaP256Sha256;
    let first = key.sign(scheme, b"m").expect("signs");
    assert_ne!(first[..32], key.sign(scheme, b"m").expect("signs")[..32]);
}

#[test]
fn rsa_keys_out_of_bounds_are_refused_without_arithmetic() {
    let n = rsa_key()
        .public()
        .rsa_modulus()
        .expect("a modulus")
        .to_vec();
    let e = [1, 0, 1];
    assert!(PublicKey::rsa(&e, &n).is_ok());
    assert!(PublicKey::rsa(&[0, 0, 1, 0, 1], &[vec![0; 9], n.clone()].concat()).is_ok());
    let out = Err(BadKey::OutOfBounds);
    let invalid = Err(BadKey::Invalid);
    // 100,000 bits, and a megabyte.
    assert_eq!(PublicKey::rsa(&e, &[0xff; 12_500]), out);
    assert_eq!(PublicKey::rsa(&e, &vec![0xff; 1 << 20]), out);
    assert_eq!(PublicKey::rsa(&e, &[0xff; 2049]), out);
    assert_eq!(PublicKey::rsa(&e, &[0x7f; 127]), out);
    assert_eq!(PublicKey::rsa(&e, &[]), out);
    // An exponent as long as the modulus makes a slow verification.
    assert_eq!(PublicKey::rsa(&[0xff; 9], &n), out);
    assert_eq!(PublicKey::rsa(&n, &n), out);
    for e in [&[][..], &[0], &[1], &[2], &[4]] {
        assert_eq!(PublicKey::rsa(e, &n), invalid);
    }
    let mut even = n;
    *even.last_mut().expect("not empty") ^= 1;
    assert_eq!(PublicKey::rsa(&e, &even), invalid);
    assert_eq!(
        PrivateKey::generate(KeyKind::Rsa, 512).err(),
        Some(BadKey::OutOfBounds)
    );
    assert_eq!(
        PrivateKey::generate(KeyKind::Rsa, 1 << 20).err(),
        Some(BadKey::OutOfBounds)
    );
}

#[test]
fn the_largest_rsa_key_verifies_in_bounded_work() {
    // Not a product of primes; verification works all the same.
    let n = [0xfb; 2048];
    let key = PublicKey::rsa(&[0xff; 8], &n).expect("within bounds");
    assert_eq!(key.bits(), 16384);
    let verified = key.verify(SignatureScheme::RsaPkcs1Sha512, b"m", &[0x11; 2048]);
    assert_eq!(verified, Err(BadSignature));
}

#[test]
fn rsa_keys_come_back_from_their_parts_in_either_order() {
    let key = rsa_key();
    let parts = key.rsa_parts().expect("parts");
    let context = &mut BnContext::new().expect("memory");
    let p = Bn::from_bytes(&parts.p).expect("memory");
    let q = Bn::from_bytes(&parts.q).expect("memory");
    let inverse = |a: &Bn, m: &Bn, context: &mut BnContext| {
        let exponent = m.minus_word(2).expect("m > 2");
        let a = a.modulo(m, context).expect("memory");
        a.power(&exponent, m, context).expect("memory").to_bytes()
    };
    let orders = [
        (&parts.p, &parts.q, inverse(&q, &p, context)),
        (&parts.q, &parts.p, inverse(&p, &q, context)),
    ];
    for (p, q, iqmp) in orders {
        let again = PrivateKey::rsa_from_parts(&RsaParts {
            n: &parts.n,
            e: &parts.e,
            d: &parts.d,
            iqmp: &iqmp,
            p,
            q,
        })
        .expect("consistent");
        let kept = again.rsa_parts().expect("parts");
        assert_eq!(
            (&kept.p, &kept.q, &kept.iqmp),
            (p, q, &*iqmp),
            "the order is kept"
        );
        assert_eq!(again.public(), key.public());
        for scheme in [
            SignatureScheme::RsaPkcs1Sha256,
            SignatureScheme::RsaPkcs1Sha512,
        ] {
            let signature = again.sign(scheme, b"m").expect("signs");
            assert_eq!(Ok(signature), key.sign(scheme, b"m"));
        }
    }
    // One in 220 has a leading zero, which is left out; one in 2^64 has eight.
    assert!((120..=128).contains(&parts.dmp1().len()));
    assert_ne!(*parts.dmp1(), *parts.dmq1());
}

#[test]
fn rsa_parts_that_do_not_belong_together_are_refused() {
    let key = rsa_key();
    let parts = key.rsa_parts().expect("parts");
    let fields = [
        &parts.n,
        &parts.e,
        &parts.d,
        &parts.iqmp,
        &parts.p,
        &parts.q,
    ];
    let build = |[n, e, d, iqmp, p, q]: [&[u8]; 6]| {
        PrivateKey::rsa_from_parts(&RsaParts {
            n,
            e,
            d,
            iqmp,
            p,
            q,
        })
    };
    assert!(build(fields.map(|f| &f[..])).is_ok());
    for at in 0..6 {
        let mut changed: Vec<Vec<u8>> = fields.iter().map(|f| f.to_vec()).collect();
        *changed[at].last_mut().expect("not empty") ^= 2;
        let changed: [&[u8]; 6] = core::array::from_fn(|i| &changed[i][..]);
        assert!(build(changed).is_err(), "part {at} changed");
        for bad in [&[][..], &[0], &[1], &[0xff; 1 << 16]] {
            let mut replaced = fields.map(|f| &f[..]);
            replaced[at] = bad;
            assert!(build(replaced).is_err(), "part {at} replaced");
        }
    }
    // 1 · n is a factorisation too.
    let f = fields.map(|f| &f[..]);
    assert!(build([f[0], f[1], f[2], &[1], f[0], &[1]]).is_err());
    // The inverse for the other order of the primes is rejected.
    assert!(build([f[0], f[1], f[2], f[3], f[5], f[4]]).is_err());
}

#[test]
fn an_rsa_signature_may_lack_its_leading_zeros() {
    let key = rsa_key();
    let scheme = SignatureScheme::RsaPkcs1Sha256;
    // One in 256 signatures begins with a zero byte, and one in 65536 with two.
    let (message, signature) = (0u32..)
        .map(|i| i.to_be_bytes())
        .map(|message| (message, key.sign(scheme, &message).expect("signs")))
        .find(|(_, signature)| signature[0] == 0 && signature[1] != 0)
        .expect("an endless search");
    assert_eq!(key.public().verify(scheme, &message, &signature), Ok(()));
    assert_eq!(
        key.public().verify(scheme, &message, &signature[1..]),
        Ok(())
    );
    assert!(
        key.public()
            .verify(scheme, &message, &signature[2..])
            .is_err()
    );
    let longer = [&[0], &signature[..]].concat();
    assert!(key.public().verify(scheme, &message, &longer).is_err());
}

#[test]
fn private_keys_do_not_show_in_debug_output() {
    assert_eq!(
        format!("{:?}", key_of(KeyKind::Ed25519)),
        "PrivateKey(Ed25519, ..)"
    );
    assert_eq!(
        format!("{:?}", rsa_key().rsa_parts()),
        "Some(RsaPrivateParts(..))"
    );
}

#[test]
fn keys_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<PublicKey>();
    shared::<PrivateKey>();
}
