use super::*;
use crate::private_key::{KeySpec, PrivateKey};
use crate::public_key::EcCurve;

const NAMESPACE: &[u8] = b"file";

fn sign(key: &PrivateKey, hash: HashAlgorithm, digest: &[u8]) -> FileSignature {
    let algorithm = algorithm(key.key_type()).unwrap();
    let signature = key.sign(algorithm, &message(NAMESPACE, hash, digest));
    FileSignature {
        key: key.public().clone().into(),
        namespace: NAMESPACE.to_vec(),
        hash,
        signature: signature.unwrap(),
    }
}

#[test]
fn a_signature_is_read_back_and_verified() {
    for spec in [
        KeySpec::Ed25519,
        KeySpec::Ecdsa(EcCurve::P384),
        KeySpec::Rsa { bits: 2048 },
    ] {
        let key = PrivateKey::generate(spec).unwrap();
        for hash in [HashAlgorithm::Sha256, HashAlgorithm::Sha512] {
            let digest = hash.digest(b"content");
            let made = sign(&key, hash, &digest);
            let armored = made.to_armored();
            assert!(armored.lines().all(|line| line.len() <= LINE_WIDTH));
            let read = FileSignature::from_armored(armored.as_bytes()).unwrap();
            assert_eq!(read, made);
            assert_eq!(read.verify(NAMESPACE, &digest), Ok(()));
            assert_eq!(read.verify(b"other", &digest), Err(SshsigError::Namespace));
            assert_eq!(
                read.verify(NAMESPACE, &hash.digest(b"other")),
                Err(SshsigError::Signature(VerifyError::BadSignature))
            );
            // The signature verifies neither with another key nor with the other hash.
            let mut forged = read.clone();
            forged.key = PrivateKey::generate(spec).unwrap().public().clone().into();
            assert!(forged.verify(NAMESPACE, &digest).is_err());
            let mut relabelled = read;
            relabelled.hash = match hash {
                HashAlgorithm::Sha256 => HashAlgorithm::Sha512,
                _ => HashAlgorithm::Sha256,
            };
            assert!(relabelled.verify(NAMESPACE, &digest).is_err());
        }
    }
}

/// The namespace in the blob is not itself signed: the signed message contains it.
#[test]
fn a_namespace_cannot_be_rewritten() {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let digest = HashAlgorithm::Sha512.digest(b"content");
    let mut made = sign(&key, HashAlgorithm::Sha512, &digest);
    made.namespace = b"git".to_vec();
    assert!(made.verify(b"git", &digest).is_err());
}

#[test]
fn what_is_no_signature_says_why() {
    let key = PrivateKey::generate(KeySpec::Ed25519).unwrap();
    let digest = HashAlgorithm::Sha512.digest(b"content");
    let made = sign(&key, HashAlgorithm::Sha512, &digest);
    let good = made.to_armored();
    let read = |text: &str| FileSignature::from_armored(text.as_bytes()).unwrap_err();
    assert_eq!(read(&format!("\n{good}")), SshsigError::NoHeader);
    let cut = good.trim_end().strip_suffix('-').unwrap();
    assert_eq!(read(cut), SshsigError::NoFooter);
    assert_eq!(read(&good.replacen('U', "!", 1)), SshsigError::NoHeader);
    assert_eq!(
        read(&good.replacen("U1NI", "!1NI", 1)),
        SshsigError::NotBase64
    );
    assert_eq!(
        read(&good.replacen("U1NI", "V1NI", 1)),
        SshsigError::NoSignature
    );
    let followed = format!("{good}anything");
    assert_eq!(FileSignature::from_armored(followed.as_bytes()), Ok(made));

    let blob = |version: u32, hash: &[u8], behind: &[u8]| {
        let mut out = MAGIC.to_vec();
        out.put_u32(version);
        out.put_string(&key.public().blob());
        out.put_string(NAMESPACE);
        out.put_string(b"reserved");
        out.put_string(hash);
        out.put_string(b"signature");
        out.extend_from_slice(behind);
        FileSignature::from_blob(&out)
    };
    assert!(blob(1, b"sha512", b"").is_ok());
    assert_eq!(blob(2, b"sha512", b""), Err(SshsigError::Version(2)));
    assert_eq!(blob(1, b"sha1", b""), Err(SshsigError::Hash("sha1".into())));
    assert_eq!(
        blob(1, b"sha512", b"x"),
        Err(SshsigError::Malformed(DecodeError::TrailingBytes))
    );
    assert_eq!(
        FileSignature::from_blob(b"SSHSIG\0\0\0\x01\xff\xff\xff\xff"),
        Err(SshsigError::Malformed(DecodeError::Truncated))
    );
}
