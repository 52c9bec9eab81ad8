use super::*;
use crate::test_support::survives_damage;
use crate::{KeySpec, PrivateKey};

const MESSAGE: &[u8] = b"the message";

fn keys() -> Vec<(PrivateKey, SignatureAlgorithm)> {
    let generate = |spec| PrivateKey::generate(spec).unwrap();
    let rsa = generate(KeySpec::Rsa { bits: 2048 });
    vec![
        (generate(KeySpec::Ed25519), SignatureAlgorithm::Ed25519),
        (
            generate(KeySpec::Ecdsa(EcCurve::P256)),
            SignatureAlgorithm::EcdsaP256,
        ),
        (
            generate(KeySpec::Ecdsa(EcCurve::P384)),
            SignatureAlgorithm::EcdsaP384,
        ),
        (
            generate(KeySpec::Ecdsa(EcCurve::P521)),
            SignatureAlgorithm::EcdsaP521,
        ),
        (rsa.clone(), SignatureAlgorithm::RsaSha256),
        (rsa, SignatureAlgorithm::RsaSha512),
    ]
}

#[test]
fn signatures_verify_under_their_own_algorithm_alone() {
    let policy = VerifyPolicy::default();
    for (key, algorithm) in keys() {
        let blob = key.sign(algorithm, MESSAGE).unwrap();
        key.public()
            .verify(algorithm, MESSAGE, &blob, &policy)
            .unwrap();
        assert!(
            key.public()
                .verify(algorithm, b"another", &blob, &policy)
                .is_err()
        );
        for other in SignatureAlgorithm::ALL {
            if other.plain() != algorithm {
                assert!(
                    key.public()
                        .verify(*other, MESSAGE, &blob, &policy)
                        .is_err(),
                    "{algorithm} as {other}"
                );
            }
        }
    }
}

/// Permitting one ECDSA curve must not admit the others: a signature is accepted only if the
/// negotiated name, the key and the name in the signature all agree.
#[test]
fn ecdsa_p521_admits_no_p256_signature() {
    let key = PrivateKey::generate(KeySpec::Ecdsa(EcCurve::P256)).unwrap();
    let blob = key.sign(SignatureAlgorithm::EcdsaP256, MESSAGE).unwrap();
    assert_eq!(
        key.public().verify(
            SignatureAlgorithm::EcdsaP521,
            MESSAGE,
            &blob,
            &VerifyPolicy::default()
        ),
        Err(VerifyError::WrongKeyType)
    );
}

#[test]
fn an_rsa_signature_by_sha256_is_not_one_by_sha512() {
    let key = PrivateKey::generate(KeySpec::Rsa { bits: 2048 }).unwrap();
    let blob = key.sign(SignatureAlgorithm::RsaSha256, MESSAGE).unwrap();
    assert_eq!(
        key.public().verify(
            SignatureAlgorithm::RsaSha512,
            MESSAGE,
            &blob,
            &VerifyPolicy::default()
        ),
        Err(VerifyError::WrongAlgorithm)
    );
}

#[test]
fn damaged_signatures_neither_verify_nor_panic() {
    for (key, algorithm) in keys() {
        let blob = key.sign(algorithm, MESSAGE).unwrap();
        survives_damage(&blob, 300, |bytes| {
            if bytes != blob {
                let verdict =
                    key.public()
                        .verify(algorithm, MESSAGE, bytes, &VerifyPolicy::default());
                // Leading zeros of RSA signatures and of mpints may be added or removed.
                if verdict.is_ok() {
                    assert!(bytes.len() != blob.len(), "{algorithm} {bytes:02x?}");
                }
            }
        });
        let mut longer = blob.clone();
        longer.push(0);
        assert!(
            key.public()
                .verify(algorithm, MESSAGE, &longer, &VerifyPolicy::default())
                .is_err()
        );
    }
}

#[test]
fn an_ed25519_signature_with_s_not_below_the_order_is_refused() {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let blob = key.sign(SignatureAlgorithm::Ed25519, MESSAGE).unwrap();
    // s + L, little-endian: the same equation in another encoding (RFC 8032 §5.1.7 rejects it).
    let order: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut forged = blob.clone();
    let start = forged.len() - 32;
    let mut carry = 0_u16;
    for (byte, add) in forged[start..].iter_mut().zip(order) {
        carry += u16::from(*byte) + u16::from(add);
        *byte = u8::try_from(carry & 0xff).unwrap();
        carry >>= 8;
    }
    assert_eq!(carry, 0);
    assert_ne!(forged, blob);
    assert_eq!(
        key.public().verify(
            SignatureAlgorithm::Ed25519,
            MESSAGE,
            &forged,
            &VerifyPolicy::default()
        ),
        Err(VerifyError::BadSignature)
    );
}

#[test]
fn small_rsa_keys_are_refused_by_policy() {
    let key = PrivateKey::generate(KeySpec::Rsa { bits: 1024 }).unwrap();
    let blob = key.sign(SignatureAlgorithm::RsaSha512, MESSAGE).unwrap();
    let verify = |min_rsa_bits| {
        let policy = VerifyPolicy {
            min_rsa_bits,
            ..VerifyPolicy::default()
        };
        key.public()
            .verify(SignatureAlgorithm::RsaSha512, MESSAGE, &blob, &policy)
    };
    assert_eq!(
        verify(2048),
        Err(VerifyError::KeyTooSmall {
            bits: 1024,
            minimum: 2048
        })
    );
    assert_eq!(verify(1024), Ok(()));
}

/// A software key that signs like a security key.
fn security_key_signature(
    key: &PrivateKey,
    application: &[u8],
    flags: u8,
    counter: u32,
) -> (PublicKey, Vec<u8>, SignatureAlgorithm) {
    let fields = SecurityKeyFields {
        flags,
        counter,
        browser: None,
    };
    let signed = fields.signed(application, MESSAGE).unwrap();
    let (public, plain, algorithm) = match key.public() {
        PublicKey::Ed25519 { point } => (
            PublicKey::SkEd25519 {
                point: *point,
                application: application.to_vec(),
            },
            SignatureAlgorithm::Ed25519,
            SignatureAlgorithm::SkEd25519,
        ),
        PublicKey::Ecdsa { point, .. } => (
            PublicKey::SkEcdsaP256 {
                point: point.clone(),
                application: application.to_vec(),
            },
            SignatureAlgorithm::EcdsaP256,
            SignatureAlgorithm::SkEcdsaP256,
        ),
        _ => unreachable!(),
    };
    let inner = key.sign(plain, &signed).unwrap();
    let mut reader = Reader::new(&inner);
    reader.string().unwrap();
    let mut out = blob(algorithm, reader.string().unwrap());
    out.put_u8(flags);
    out.put_u32(counter);
    (public, out, algorithm)
}

#[test]
fn a_security_key_without_touch_is_refused_unless_the_policy_allows_it() {
    for spec in [KeySpec::Ed25519, KeySpec::Ecdsa(EcCurve::P256)] {
        let key = PrivateKey::generate(spec).unwrap();
        let verify = |flags, policy: VerifyPolicy| {
            let (public, blob, algorithm) = security_key_signature(&key, b"ssh:", flags, 9);
            public.verify(algorithm, MESSAGE, &blob, &policy)
        };
        let touch = VerifyPolicy::default();
        let no_touch = VerifyPolicy {
            require_user_presence: false,
            ..touch
        };
        let pin = VerifyPolicy {
            require_user_verification: true,
            ..touch
        };
        assert_eq!(verify(0, touch), Err(VerifyError::NoUserPresence));
        assert_eq!(verify(4, touch), Err(VerifyError::NoUserPresence));
        assert_eq!(verify(1, touch), Ok(()));
        assert_eq!(verify(0, no_touch), Ok(()));
        assert_eq!(verify(1, pin), Err(VerifyError::NoUserVerification));
        assert_eq!(verify(5, pin), Ok(()));
    }
}

#[test]
fn flags_counter_and_application_are_signed() {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let (public, blob, algorithm) = security_key_signature(&key, b"ssh:", 1, 9);
    let policy = VerifyPolicy::default();
    public.verify(algorithm, MESSAGE, &blob, &policy).unwrap();
    for at in [blob.len() - 5, blob.len() - 1] {
        let mut changed = blob.clone();
        changed[at] ^= 4;
        assert_eq!(
            public.verify(algorithm, MESSAGE, &changed, &policy),
            Err(VerifyError::BadSignature)
        );
    }
    let PublicKey::SkEd25519 { point, .. } = public else {
        unreachable!();
    };
    let elsewhere = PublicKey::SkEd25519 {
        point,
        application: b"ssh:other".to_vec(),
    };
    assert!(
        elsewhere
            .verify(algorithm, MESSAGE, &blob, &policy)
            .is_err()
    );
}

/// The name is checked before the rest is read, which may be anything.
#[test]
fn an_algorithm_that_was_not_agreed_on_is_refused_by_its_name() {
    let key = PrivateKey::from_ed25519_seed(&[1; 32]);
    let mut blob = Vec::new();
    blob.put_string(b"rsa-sha2-512");
    blob.extend_from_slice(&[0xff; 3]);
    assert!(matches!(
        Signature::from_blob(&blob),
        Err(VerifyError::Malformed(_))
    ));
    assert_eq!(
        Signature::from_blob_if(&blob, |named| named == SignatureAlgorithm::Ed25519),
        Err(VerifyError::WrongAlgorithm)
    );
    let verified = key.public().verify(
        SignatureAlgorithm::Ed25519,
        b"message",
        &blob,
        &VerifyPolicy::default(),
    );
    assert_eq!(verified, Err(VerifyError::WrongAlgorithm));
}
