use super::*;

fn signer() -> Signer {
    with_methods(&["curve25519-sha256", "ecdh-sha2-nistp384"])
}

fn with_methods(kex: &[&str]) -> Signer {
    let key = PrivateKey::from_ed25519_seed(&[3; 32]);
    let file = keys::private_file::write_openssh(&key, "", None).unwrap();
    Signer::new(
        vec![HostKey {
            index: 0,
            blob: key.public().blob(),
            algorithms: vec!["ssh-ed25519".into()],
        }],
        vec![Secret::new(file.as_bytes().to_vec())],
        None,
        "internal".to_owned(),
        kex.iter().map(|&name| name.to_owned()).collect(),
        0,
    )
}

fn request(kex: &str, length: usize) -> SignExchangeHash {
    SignExchangeHash {
        kex_algorithm: kex.into(),
        host_key_algorithm: "ssh-ed25519".into(),
        key_index: 0,
        hash: vec![5; length],
        expects_login: false,
    }
}

#[test]
fn only_a_hash_of_the_negotiated_length_is_signed() {
    let mut signer = signer();
    for (kex, length) in [
        ("curve25519-sha256", 0),
        ("curve25519-sha256", 31),
        ("curve25519-sha256", 48),
        ("curve25519-sha256", 1000),
        ("ecdh-sha2-nistp384", 32),
        // Not configured, not known.
        ("ecdh-sha2-nistp256", 32),
        ("none", 32),
    ] {
        assert!(
            matches!(
                signer.sign_exchange_hash(&request(kex, length), false, 0),
                Err(SigningRefusal::Violation(_))
            ),
            "{kex} {length}"
        );
    }
    assert_eq!(signer.session_id(), None);
    let signature = signer
        .sign_exchange_hash(&request("curve25519-sha256", 32), false, 0)
        .unwrap();
    let key = PrivateKey::from_ed25519_seed(&[3; 32]);
    let verified = key.public().verify(
        SignatureAlgorithm::Ed25519,
        &[5; 32],
        &signature,
        &keys::VerifyPolicy::default(),
    );
    assert_eq!(verified, Ok(()));
}

#[test]
fn a_rekey_with_a_longer_hash_does_not_change_the_session_identifier() {
    let mut signer = signer();
    signer
        .sign_exchange_hash(&request("curve25519-sha256", 32), false, 0)
        .unwrap();
    signer
        .sign_exchange_hash(&request("ecdh-sha2-nistp384", 48), true, 0)
        .unwrap();
    assert_eq!(signer.session_id(), Some(&[5; 32][..]));
    let key = PrivateKey::from_ed25519_seed(&[3; 32]);
    assert_eq!(
        signer.first_host_key(),
        Some(key.public().blob().as_slice())
    );
}

#[test]
fn keys_and_algorithms_that_were_not_offered_sign_nothing() {
    let mut signer = signer();
    for (index, algorithm) in [(1, "ssh-ed25519"), (0, "rsa-sha2-512"), (0, "")] {
        let mut request = request("curve25519-sha256", 32);
        request.key_index = index;
        request.host_key_algorithm = algorithm.into();
        assert!(signer.sign_exchange_hash(&request, false, 0).is_err());
    }
}

#[test]
fn rekeys_after_the_login_come_at_a_bounded_rate() {
    let mut signer = signer();
    let request = request("curve25519-sha256", 32);
    let mut signed = 0;
    while signer.sign_exchange_hash(&request, true, 0).is_ok() {
        signed += 1;
        assert!(signed < 1000);
    }
    assert_eq!(
        signer.sign_exchange_hash(&request, true, 0),
        Err(SigningRefusal::Rate(REKEY_REFILL_MS))
    );
    assert!(
        signer
            .sign_exchange_hash(&request, true, REKEY_REFILL_MS)
            .is_ok()
    );
}

#[test]
fn proofs_are_over_our_own_blob_and_bounded() {
    let mut signer = signer();
    let ask = |count: usize| HostkeysProve {
        keys: vec![(0, "ssh-ed25519".into()); count],
    };
    assert!(signer.prove(&ask(1), 0).is_err(), "no session yet");
    signer
        .sign_exchange_hash(&request("curve25519-sha256", 32), false, 0)
        .unwrap();
    let signatures = signer.prove(&ask(1), 0).unwrap();
    let key = PrivateKey::from_ed25519_seed(&[3; 32]);
    let mut expected = Vec::new();
    expected.put_string(b"hostkeys-prove-00@openssh.com");
    expected.put_string(&[5; 32]);
    expected.put_string(&key.public().blob());
    let verified = key.public().verify(
        SignatureAlgorithm::Ed25519,
        &expected,
        &signatures[0],
        &keys::VerifyPolicy::default(),
    );
    assert_eq!(verified, Ok(()));
    // One request cannot ask for more than the rate gives.
    assert_eq!(
        signer.prove(&ask(100_000), 0).unwrap(),
        Vec::<Vec<u8>>::new()
    );
    let stranger = HostkeysProve {
        keys: vec![(5, "ssh-ed25519".into())],
    };
    assert!(signer.prove(&stranger, 0).is_err());
}

#[test]
fn an_exchange_has_one_group_and_where_it_is_needed() {
    for rekey in [false, true] {
        assert!(matches!(
            signer().allow_group(rekey, 0),
            Err(SigningRefusal::Violation(_))
        ));
        let mut signer = with_methods(&["diffie-hellman-group-exchange-sha256"]);
        assert_eq!(signer.allow_group(rekey, 0), Ok(()));
        assert!(matches!(
            signer.allow_group(rekey, 0),
            Err(SigningRefusal::Violation(_))
        ));
    }
}

#[test]
fn groups_after_the_login_come_at_a_bounded_rate() {
    let method = "diffie-hellman-group-exchange-sha256";
    let mut signer = with_methods(&[method]);
    let request = request(method, 32);
    for _ in 0..GROUP_BURST {
        assert_eq!(signer.allow_group(true, 0), Ok(()));
        signer.sign_exchange_hash(&request, true, 0).unwrap();
    }
    let later = Err(SigningRefusal::Rate(GROUP_REFILL_MS));
    assert_eq!(signer.allow_group(true, 0), later);
    assert_eq!(signer.allow_group(true, GROUP_REFILL_MS - 1), later);
    // After the wait the group is permitted.
    assert_eq!(signer.allow_group(true, GROUP_REFILL_MS), Ok(()));
}

const GSS: &str = "gss-curve25519-sha256-toWM5Slw5Ew8Mqkay+al2g==";

#[test]
fn a_mic_is_permitted_like_a_signature_and_for_one_principal() {
    let mut signer = with_methods(&[GSS, "curve25519-sha256"]);
    for (kex, length) in [
        (GSS, 31),
        (GSS, 64),
        ("curve25519-sha256", 32),
        ("gss-nistp256-sha256-toWM5Slw5Ew8Mqkay+al2g==", 32),
    ] {
        let refused = signer.allow_gss(kex, &vec![5; length], false, 0);
        assert!(
            matches!(refused, Err(SigningRefusal::Violation(_))),
            "{kex}"
        );
    }
    // The host key signs nothing for such a method.
    let request = request(GSS, 32);
    assert!(signer.sign_exchange_hash(&request, false, 0).is_err());
    assert_eq!(signer.allow_gss(GSS, &[5; 32], false, 0), Ok(()));
    assert!(signer.allow_gss(GSS, &[5; 32], false, 0).is_err());
    assert!(signer.permits_principal(b"ada") && !signer.is_by_gss());
    signer.note_gss(&[5; 32], b"ada");
    assert!(signer.is_by_gss() && signer.first_host_key().is_none());
    // A rekey changes nothing, and is the same principal's.
    assert_eq!(signer.allow_gss(GSS, &[6; 32], true, 0), Ok(()));
    assert!(signer.permits_principal(b"ada") && !signer.permits_principal(b"eve"));
    signer.note_gss(&[6; 32], b"ada");
    assert_eq!(signer.session_id(), Some(&[5; 32][..]));
    let mut permitted = 1;
    while signer.allow_gss(GSS, &[6; 32], true, 0).is_ok() {
        permitted += 1;
    }
    assert_eq!(permitted, GSS_BURST);
    let refused = signer.allow_gss(GSS, &[6; 32], true, 0);
    assert_eq!(refused, Err(SigningRefusal::Rate(GSS_REFILL_MS)));
    assert_eq!(signer.allow_gss(GSS, &[6; 32], true, GSS_REFILL_MS), Ok(()));
}

#[test]
fn after_a_login_with_a_host_key_there_is_no_mic() {
    let mut signer = with_methods(&[GSS, "curve25519-sha256"]);
    let request = request("curve25519-sha256", 32);
    signer.sign_exchange_hash(&request, false, 0).unwrap();
    assert!(matches!(
        signer.allow_gss(GSS, &[6; 32], true, 0),
        Err(SigningRefusal::Violation(_))
    ));
    assert!(!signer.permits_principal(b"ada"));
}
