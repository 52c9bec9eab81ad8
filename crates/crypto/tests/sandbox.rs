//! After `warm_up`, everything works in a process that cannot open a file.

use crypto::cipher::{CIPHERS, CbcKey, ChaChaPolyKey, CipherKind, CtrKey, GcmKey};
use crypto::kex::{Initiator, KEXES, KexFamily, respond};
use crypto::mac::{MACS, MacKey};
use crypto::sign::{KeyKind, PrivateKey, SignatureScheme};
use rustix::process::{Resource, Rlimit, setrlimit};

#[test]
fn nothing_needs_a_file_after_warming_up() {
    // The host key of a server is read before its sandbox closes.
    let rsa = PrivateKey::generate(KeyKind::Rsa, 2048).expect("generates");
    crypto::warm_up();
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Nofile, none).expect("lowering a limit is allowed");
    assert!(std::fs::File::open("/dev/null").is_err(), "the limit holds");

    for spec in KEXES {
        if spec.family == KexFamily::DhGroupExchange {
            continue;
        }
        let (half, init) = Initiator::new(spec.algorithm).expect("starts");
        let (reply, ours) = respond(spec.algorithm, &init).expect("answers");
        assert_eq!(ours.bytes(), half.finish(&reply).expect("ends").bytes());
    }
    for spec in CIPHERS {
        let (key, iv) = (vec![1; spec.key_len], vec![2; spec.iv_len]);
        let mut data = vec![3; 64];
        match spec.kind {
            CipherKind::Ctr => CtrKey::new(spec.algorithm, &key, &iv)
                .expect("lengths fit")
                .apply(0, &mut data),
            CipherKind::Cbc => CbcKey::new(spec.algorithm, &key)
                .expect("length fits")
                .encrypt(&[2; 16], &mut data),
            CipherKind::Gcm => {
                let key = GcmKey::new(spec.algorithm, &key, &iv).expect("lengths fit");
                let _tag = key.seal(0, [0; 4], &mut data);
            }
            CipherKind::ChaChaPoly => {
                let _tag = ChaChaPolyKey::new(&key)
                    .expect("length fits")
                    .seal(0, &mut data);
            }
        }
        assert_ne!(data, vec![3; 64]);
    }
    for spec in MACS {
        let key = MacKey::new(spec.algorithm, &vec![1; spec.key_len]).expect("length fits");
        let tag = key.compute(0, b"packet");
        assert_eq!(key.verify(0, b"packet", &tag), Ok(()));
    }
    let fresh = |kind| PrivateKey::generate(kind, 0).expect("generates");
    for (key, scheme) in [
        (fresh(KeyKind::Ed25519), SignatureScheme::Ed25519),
        (fresh(KeyKind::EcdsaP256), SignatureScheme::EcdsaP256Sha256),
        (fresh(KeyKind::EcdsaP384), SignatureScheme::EcdsaP384Sha384),
        (fresh(KeyKind::EcdsaP521), SignatureScheme::EcdsaP521Sha512),
        (rsa, SignatureScheme::RsaPkcs1Sha512),
    ] {
        let signature = key.sign(scheme, b"m").expect("signs");
        assert_eq!(key.public().verify(scheme, b"m", &signature), Ok(()));
    }
}
