//! Both halves of each method against each other, and invalid values from the peer.

use super::*;
use crate::BadGroup;
use crate::awslc::kem;
use crate::test_support::hex;

/// Methods that need no group from another source.
fn with_own_parameters() -> impl Iterator<Item = &'static KexSpec> {
    KEXES
        .iter()
        .filter(|spec| spec.family != KexFamily::DhGroupExchange)
}

#[test]
fn rows_stand_in_the_order_of_the_variants_and_names_are_unique() {
    for (i, spec) in KEXES.iter().enumerate() {
        assert_eq!(spec.algorithm as usize, i);
        assert_eq!(KexAlgorithm::from_name(spec.name), Some(spec.algorithm));
    }
    // Markers in KEXINIT are not methods.
    for name in ["ext-info-c", "kex-strict-s-v00@openssh.com", ""] {
        assert_eq!(KexAlgorithm::from_name(name), None);
    }
}

#[test]
fn both_halves_agree() {
    for spec in with_own_parameters() {
        let (half, init) = Initiator::new(spec.algorithm).expect("starts");
        let (reply, ours) = respond(spec.algorithm, &init).expect("answers");
        let theirs = half.finish(&reply).expect("ends");
        assert_eq!(ours.bytes(), theirs.bytes(), "{}", spec.name);
        assert_eq!(ours.encoding(), spec.encoding);
        assert_eq!(theirs.encoding(), spec.encoding);
        assert!(ours.bytes().iter().any(|b| *b != 0));
        // Fresh values each time.
        let (_, again) = Initiator::new(spec.algorithm).expect("starts");
        assert_ne!(init, again);
    }
}

#[test]
fn values_have_the_lengths_of_their_methods() {
    for (name, init_len, reply_len, secret_len) in [
        ("mlkem768x25519-sha256", 1184 + 32, 1088 + 32, 32),
        ("mlkem768nistp256-sha256", 1184 + 65, 1088 + 65, 32),
        ("sntrup761x25519-sha512", 1158 + 32, 1039 + 32, 64),
        ("curve25519-sha256", 32, 32, 32),
        ("ecdh-sha2-nistp256", 65, 65, 32),
        ("ecdh-sha2-nistp384", 97, 97, 48),
        ("ecdh-sha2-nistp521", 133, 133, 66),
    ] {
        let algorithm = KexAlgorithm::from_name(name).expect("known");
        let (_, init) = Initiator::new(algorithm).expect("starts");
        let (reply, secret) = respond(algorithm, &init).expect("answers");
        assert_eq!(
            (init.len(), reply.len(), secret.bytes().len()),
            (init_len, reply_len, secret_len),
            "{name}"
        );
    }
}

#[test]
fn wrong_lengths_are_refused_on_both_sides() {
    for spec in with_own_parameters().filter(|spec| spec.family != KexFamily::Dh) {
        let (_, init) = Initiator::new(spec.algorithm).expect("starts");
        let (reply, _) = respond(spec.algorithm, &init).expect("answers");
        for len in [0, 1, 31, 33, 64, init.len() - 1, init.len() + 1, 5000] {
            if len == init.len() {
                continue;
            }
            let value = vec![4; len];
            let refused = respond(spec.algorithm, &value).expect_err("refused");
            assert_eq!(refused, KexError::WrongLength, "{} {len}", spec.name);
        }
        for len in [0, 1, 31, 33, 64, reply.len() - 1, reply.len() + 1, 5000] {
            if len == reply.len() {
                continue;
            }
            let (half, _) = Initiator::new(spec.algorithm).expect("starts");
            let refused = half.finish(&vec![4; len]).expect_err("refused");
            assert_eq!(refused, KexError::WrongLength, "{} {len}", spec.name);
        }
    }
}

/// Every X25519 value that leads to an all-zero secret, canonical or not.
fn low_order_points() -> Vec<[u8; 32]> {
    [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        // The top bit is ignored (RFC 7748 §5).
        "0000000000000000000000000000000000000000000000000000000000000080",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    ]
    .map(|point| hex(point).try_into().expect("32 bytes"))
    .to_vec()
}

#[test]
fn low_order_x25519_points_are_refused_in_every_method() {
    for spec in KEXES.iter().filter(|spec| spec.name.contains("25519")) {
        let (_, init) = Initiator::new(spec.algorithm).expect("starts");
        let (reply, _) = respond(spec.algorithm, &init).expect("answers");
        for point in low_order_points() {
            let forged = [&init[..init.len() - 32], &point].concat();
            let refused = respond(spec.algorithm, &forged).expect_err("refused");
            assert_eq!(refused, KexError::InvalidPublicValue, "{}", spec.name);
            let (half, _) = Initiator::new(spec.algorithm).expect("starts");
            let forged = [&reply[..reply.len() - 32], &point].concat();
            let refused = half.finish(&forged).expect_err("refused");
            assert_eq!(refused, KexError::InvalidPublicValue, "{}", spec.name);
        }
    }
}

#[test]
fn points_off_the_curve_are_refused() {
    for spec in KEXES.iter().filter(|spec| spec.name.contains("nistp")) {
        let (_, init) = Initiator::new(spec.algorithm).expect("starts");
        let (reply, _) = respond(spec.algorithm, &init).expect("answers");
        // A hybrid's point follows the KEM's part.
        let point_len = match spec.family {
            KexFamily::Hybrid => Curve::P256.point_len(),
            _ => init.len(),
        };
        let (init_kem, good) = init.split_at(init.len() - point_len);
        let (reply_kem, _) = reply.split_at(reply.len() - point_len);
        let good = good.to_vec();
        let mut forged = Vec::new();
        let mut off_curve = good.clone();
        *off_curve.last_mut().expect("not empty") ^= 1;
        forged.push(off_curve);
        // Infinity, compressed and hybrid tags at full length, all ones.
        for tag in [0, 2, 3, 6, 7] {
            let mut value = good.clone();
            value[0] = tag;
            forged.push(value);
        }
        let mut ones = vec![0xff; good.len()];
        ones[0] = 4;
        forged.push(ones);
        let mut zeros = vec![0; good.len()];
        zeros[0] = 4;
        forged.push(zeros);
        for value in forged {
            let refused = respond(spec.algorithm, &[init_kem, &value].concat());
            let refused = refused.expect_err("refused");
            assert_eq!(refused, KexError::InvalidPublicValue, "{}", spec.name);
            let (half, _) = Initiator::new(spec.algorithm).expect("starts");
            let refused = half.finish(&[reply_kem, &value].concat());
            let refused = refused.expect_err("refused");
            assert_eq!(refused, KexError::InvalidPublicValue, "{}", spec.name);
        }
    }
}

#[test]
fn an_ml_kem_key_out_of_range_is_refused() {
    for spec in KEXES.iter().filter(|spec| spec.name.starts_with("mlkem")) {
        let (_, init) = Initiator::new(spec.algorithm).expect("starts");
        // A coefficient of 4095 is not below q = 3329 (FIPS 203 §7.2).
        for at in [0, 600, 1148] {
            let mut forged = init.clone();
            forged[at..at + 3].fill(0xff);
            let refused = respond(spec.algorithm, &forged).expect_err("refused");
            assert_eq!(refused, KexError::InvalidPublicValue);
        }
    }
}

#[test]
fn a_forged_kem_ciphertext_gives_another_secret() {
    let (key, public) = kem::DecapsulationKey::generate().expect("generates");
    let public = public.try_into().expect("length");
    let (ciphertext, secret) = kem::encapsulate(&public).expect("encapsulates");
    let mut ciphertext: [u8; kem::CIPHERTEXT_LEN] = ciphertext.try_into().expect("length");
    assert_eq!(*key.decapsulate(&ciphertext).expect("opens"), *secret);
    ciphertext[5] ^= 1;
    assert_ne!(
        *key.decapsulate(&ciphertext).expect("implicit rejection"),
        *secret
    );

    for name in [
        "mlkem768x25519-sha256",
        "mlkem768nistp256-sha256",
        "sntrup761x25519-sha512",
    ] {
        let algorithm = KexAlgorithm::from_name(name).expect("known");
        let (half, init) = Initiator::new(algorithm).expect("starts");
        let (mut reply, secret) = respond(algorithm, &init).expect("answers");
        reply[7] ^= 1;
        let other = half.finish(&reply).expect("no oracle");
        assert_ne!(other.bytes(), secret.bytes());
    }
}

/// p - 1, p and p + 1 of an odd p that does not end in ff.
fn around(p: &[u8]) -> [Vec<u8>; 3] {
    let (mut below, mut above) = (p.to_vec(), p.to_vec());
    *below.last_mut().expect("not empty") -= 1;
    for byte in above.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            break;
        }
    }
    [below, p.to_vec(), above]
}

#[test]
fn dh_values_outside_the_group_are_refused() {
    let algorithm = KexAlgorithm::DhGroup14Sha256;
    let group = DhGroup::fixed(algorithm).expect("fixed");
    let mut values = vec![
        vec![],
        vec![0],
        vec![1],
        vec![0; 300],
        vec![0xff; 256],
        vec![1; 257],
    ];
    values.extend(around(&group.p()));
    values.push([vec![0; 4], group.p()].concat());
    for value in values {
        let refused = respond(algorithm, &value).expect_err("refused");
        assert_eq!(refused, KexError::InvalidPublicValue);
        let (half, _) = Initiator::new(algorithm).expect("starts");
        assert_eq!(
            half.finish(&value).expect_err("refused"),
            KexError::InvalidPublicValue
        );
    }
    // A leading zero, as in an mpint, is not part of the value.
    let (half, init) = Initiator::new(algorithm).expect("starts");
    let (reply, ours) = respond(algorithm, &[vec![0], init].concat()).expect("answers");
    let theirs = half.finish(&[vec![0], reply].concat()).expect("ends");
    assert_eq!(ours.bytes(), theirs.bytes());
}

#[test]
fn the_fixed_groups_are_those_of_rfc_3526() {
    for (algorithm, bits) in [
        (KexAlgorithm::DhGroup14Sha256, 2048),
        (KexAlgorithm::DhGroup16Sha512, 4096),
        (KexAlgorithm::DhGroup18Sha512, 8192),
    ] {
        let group = DhGroup::fixed(algorithm).expect("fixed");
        assert_eq!(group.bits(), bits);
        assert_eq!(group.g(), [2]);
        let p = group.p();
        // Each prime begins and ends in 64 ones, with the digits of pi in between.
        assert_eq!(p[..16], hex("ffffffffffffffffc90fdaa22168c234"));
        assert_eq!(p[p.len() - 8..], [0xff; 8]);
    }
    let p = DhGroup::fixed(KexAlgorithm::DhGroup14Sha256)
        .expect("fixed")
        .p();
    assert_eq!(
        p[p.len() - 20..],
        hex("98fa051015728e5a8aacaa68ffffffffffffffff")
    );
    let safe = DhPolicy {
        primality: Primality::Safe,
        ..DhPolicy::default()
    };
    assert!(DhGroup::new(&p, &[2], &safe).is_ok(), "a safe prime");
    assert!(DhGroup::fixed(KexAlgorithm::Curve25519Sha256).is_err());
}

#[test]
fn groups_that_are_none_are_refused() {
    let policy = DhPolicy::default();
    let p = DhGroup::fixed(KexAlgorithm::DhGroup14Sha256)
        .expect("fixed")
        .p();
    let new = |p: &[u8], g: &[u8]| DhGroup::new(p, g, &policy).expect_err("refused");
    // Bounds, also with leading zeros, before any arithmetic.
    assert_eq!(new(&p[..64], &[2]), BadGroup::TooSmall);
    assert_eq!(
        new(&[vec![0; 300], p[..64].to_vec()].concat(), &[2]),
        BadGroup::TooSmall
    );
    assert_eq!(new(&[], &[2]), BadGroup::TooSmall);
    assert_eq!(new(&[0x7f; 1 << 20], &[2]), BadGroup::TooLarge);
    assert_eq!(new(&[0xff; 1025], &[2]), BadGroup::TooLarge);
    let mut even = p.clone();
    *even.last_mut().expect("not empty") &= 0xfe;
    assert_eq!(new(&even, &[2]), BadGroup::NotPrime);
    let mut composite = p.clone();
    composite[100] ^= 1;
    assert_eq!(new(&composite, &[2]), BadGroup::NotPrime);
    let [p_minus_1, p_itself, p_plus_1] = around(&p);
    for g in [
        &[][..],
        &[0],
        &[1],
        &p_minus_1,
        &p_itself,
        &p_plus_1,
        &[1; 4096],
    ] {
        assert_eq!(new(&p, g), BadGroup::BadGenerator);
    }
    let trusted = DhPolicy {
        primality: Primality::Trusted,
        ..policy
    };
    assert!(DhGroup::new(&composite, &[2], &trusted).is_ok());
    let small_any = DhPolicy {
        min_bits: 16,
        ..policy
    };
    let small = DhPolicy {
        primality: Primality::Safe,
        ..small_any
    };
    // 65537 = 2 * 32768 + 1 is prime, and not safe.
    assert!(DhGroup::new(&[1, 0, 1], &[3], &small_any).is_ok());
    assert_eq!(
        DhGroup::new(&[1, 0, 1], &[3], &small).expect_err("refused"),
        BadGroup::NotPrime
    );
}

#[test]
fn group_exchange_agrees_and_needs_its_group() {
    let p = DhGroup::fixed(KexAlgorithm::DhGroup14Sha256)
        .expect("fixed")
        .p();
    let policy = DhPolicy {
        primality: Primality::Prime,
        ..DhPolicy::default()
    };
    let group = DhGroup::new(&p, &[2], &policy).expect("a good group");
    let (half, init) = Initiator::with_group(&group).expect("starts");
    let (reply, ours) = respond_with_group(&group, &init).expect("answers");
    assert_eq!(ours.bytes(), half.finish(&reply).expect("ends").bytes());
    assert_eq!(ours.encoding(), SecretEncoding::Mpint);

    let algorithm = KexAlgorithm::DhGroupExchangeSha256;
    assert_eq!(
        Initiator::new(algorithm).expect_err("no group"),
        KexError::Misuse
    );
    assert_eq!(
        respond(algorithm, &init).expect_err("no group"),
        KexError::Misuse
    );
}

#[test]
fn x25519_matches_rfc_7748() {
    let scalar = hex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4");
    let point = hex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
    let mut out = [0; 32];
    let result = crate::awslc::x25519::x25519(
        &scalar.try_into().expect("32 bytes"),
        &point.try_into().expect("32 bytes"),
        &mut out,
    );
    assert!(result.is_ok());
    assert_eq!(
        out.to_vec(),
        hex("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552")
    );
}

#[test]
fn secrets_do_not_show_in_debug_output() {
    let algorithm = KexAlgorithm::Curve25519Sha256;
    let (half, init) = Initiator::new(algorithm).expect("starts");
    let (_, secret) = respond(algorithm, &init).expect("answers");
    assert_eq!(format!("{secret:?}"), "SharedSecret(Mpint, ..)");
    assert_eq!(format!("{half:?}"), "Initiator(..)");
}

#[test]
fn the_primality_test_is_right_for_small_numbers_and_pseudoprimes() {
    use crate::awslc::bn::{Bn, BnContext};
    let context = &mut BnContext::new().expect("memory");
    let mut is_prime = |n: u64| {
        let n = Bn::from_u64(n).expect("memory");
        n.is_prime(24, context).expect("memory")
    };
    for n in 5..2000u64 {
        let prime = (2..n)
            .take_while(|d| d * d <= n)
            .all(|d| !n.is_multiple_of(d));
        assert_eq!(is_prime(n), prime, "{n}");
    }
    // Carmichael numbers, a strong pseudoprime to bases 2 to 7, prime squares.
    for n in [561, 825_265, 3_215_031_751, 65537 * 65537, 1_194_649] {
        assert!(!is_prime(n), "{n}");
    }
    for n in [65537, 4_294_967_291, 18_446_744_073_709_551_557] {
        assert!(is_prime(n), "{n}");
    }
}

#[test]
fn safe_primes_are_told_from_others() {
    let policy = DhPolicy {
        min_bits: 16,
        max_bits: 64,
        primality: Primality::Safe,
    };
    let is_safe = |p: u32| DhGroup::new(&p.to_be_bytes(), &[2], &policy).is_ok();
    let is_prime = |n: u32| {
        (2..n)
            .take_while(|d| d * d <= n)
            .all(|d| !n.is_multiple_of(d))
    };
    for p in (65_537..66_500u32).step_by(2) {
        assert_eq!(is_safe(p), is_prime(p) && is_prime(p / 2), "{p}");
    }
}
