//! Several tokens at once.

use super::*;

#[test]
fn the_token_that_knows_the_key_signs() {
    let (first, second) = (SoftToken::new(1, false), SoftToken::new(2, false));
    let made = attached(&[&second])
        .enroll(&access(None), &wanted(KeyType::SkEd25519, USER_PRESENCE))
        .unwrap();
    let key = made.private_key().unwrap();
    let mut both = attached(&[&first, &second]);
    let touched = second.touches.load(Ordering::Relaxed);
    signs(&mut both, &key, None, &VerifyPolicy::default()).unwrap();
    assert_eq!(second.touches.load(Ordering::Relaxed), touched + 1);
    assert_eq!(first.touches.load(Ordering::Relaxed), 0);
    // One may be named.
    let new = wanted(KeyType::SkEd25519, USER_PRESENCE);
    let named = TokenAccess {
        pin: None,
        device: Some("0"),
    };
    assert!(both.enroll(&named, &new).is_ok());
    let gone = attached(&[]).enroll(&access(None), &new).unwrap_err();
    assert_eq!(gone, FidoError::DeviceNotFound);
    // Neither knows it any more.
    second.keys.lock().unwrap().clear();
    let error = signs(&mut both, &key, None, &VerifyPolicy::default()).unwrap_err();
    assert_eq!(error, FidoError::DeviceNotFound);
}

/// Tokens of CTAP 2.1, of CTAP 2.0 with and without a PIN, and of U2F.
fn various() -> [Arc<SoftToken>; 4] {
    [
        SoftToken::new(2, false),
        SoftToken::new(1, true),
        SoftToken::new(1, false),
        SoftToken::of_u2f(),
    ]
}

#[test]
fn the_token_that_is_touched_makes_the_key() {
    for touched in 0..4 {
        let tokens = various();
        for (number, token) in tokens.iter().enumerate() {
            token.is_alone.store(number != touched, Ordering::Relaxed);
        }
        // A token that serves another program is asked again.
        tokens[touched].busy.store(1, Ordering::Relaxed);
        let mut attached = attached(&tokens.each_ref());
        let new = wanted(KeyType::SkEcdsaP256, USER_PRESENCE);
        let made = attached.enroll(&access(None), &new).unwrap();
        for (number, token) in tokens.iter().enumerate() {
            let made = token.keys.lock().unwrap().len();
            // A token of U2F makes one for the choice, too.
            let expected = match number == touched {
                true if token.is_u2f => 2,
                is_touched => usize::from(is_touched),
            };
            assert_eq!(made, expected, "{touched} {number}");
            let waited = !token.is_u2f && number != touched;
            // The end of a wait may come after the key.
            while waited && token.cancelled.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
        }
        // Nobody need choose again: one of them knows the key.
        let key = made.private_key().unwrap();
        signs(&mut attached, &key, None, &VerifyPolicy::default()).unwrap();
    }
}

#[test]
fn a_token_that_hides_a_key_from_strangers_is_chosen_by_touch() {
    let (first, second) = (SoftToken::new(2, true), SoftToken::new(2, true));
    let pin = access(Some(PIN));
    let made = attached(&[&second])
        .enroll(
            &pin,
            &wanted(KeyType::SkEd25519, USER_PRESENCE | USER_VERIFICATION),
        )
        .unwrap();
    first.is_alone.store(true, Ordering::Relaxed);
    let u2f = SoftToken::of_u2f();
    let mut several = attached(&[&first, &u2f, &second]);
    let key = made.private_key().unwrap();
    let policy = VerifyPolicy {
        require_user_verification: true,
        ..VerifyPolicy::default()
    };
    signs(&mut several, &key, Some(PIN), &policy).unwrap();
    // The PIN goes to the chosen token alone.
    assert_eq!(first.pins.load(Ordering::Relaxed), 0);
    assert_eq!(second.pins.load(Ordering::Relaxed), 2);
    assert_eq!(u2f.touches.load(Ordering::Relaxed), 0);
}
