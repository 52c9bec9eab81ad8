//! A token of U2F (CTAP 1).

use super::*;

#[test]
fn a_token_of_u2f_makes_keys_of_p256_and_signs() {
    let token = SoftToken::of_u2f();
    let mut tokens = attached(&[&token]);
    let new = wanted(KeyType::SkEcdsaP256, USER_PRESENCE);
    let made = tokens.enroll(&access(None), &new).unwrap();
    assert_eq!(made.attestation.certificate.len(), 260);
    assert_eq!(made.attestation.signature, b"signature");
    // In the form of CTAP 2, as libfido2 gives it to OpenSSH.
    let data = Cbor::read(&made.attestation.authenticator_data).unwrap().0;
    let read = token::read_credential(data.as_bytes().unwrap()).unwrap();
    assert_eq!(read.handle, made.handle);
    assert_eq!(
        read.key,
        Some((KeyType::SkEcdsaP256, made.public_key.clone()))
    );
    let key = made.private_key().unwrap();
    signs(&mut tokens, &key, None, &VerifyPolicy::default()).unwrap();
    let parts = key.security_key().unwrap();
    let untouched = PrivateKey::of_security_key(key.public().clone(), 0, parts.handle).unwrap();
    let touches = token.touches.load(Ordering::Relaxed);
    let policy = VerifyPolicy {
        require_user_presence: false,
        ..VerifyPolicy::default()
    };
    signs(&mut tokens, &untouched, None, &policy).unwrap();
    assert_eq!(token.touches.load(Ordering::Relaxed), touches);
    // What such tokens lack.
    for (key_type, flags) in [
        (KeyType::SkEd25519, USER_PRESENCE),
        (KeyType::SkEcdsaP256, USER_PRESENCE | RESIDENT),
        (KeyType::SkEcdsaP256, USER_PRESENCE | USER_VERIFICATION),
    ] {
        let error = tokens
            .enroll(&access(Some(PIN)), &wanted(key_type, flags))
            .unwrap_err();
        assert_eq!(error, FidoError::Unsupported);
    }
    let listed = tokens.resident_keys(&access(Some(PIN))).unwrap_err();
    assert_eq!(listed, FidoError::Unsupported);
    token.keys.lock().unwrap().clear();
    let error = signs(&mut tokens, &key, None, &VerifyPolicy::default()).unwrap_err();
    assert_eq!(error, FidoError::DeviceNotFound);
}
