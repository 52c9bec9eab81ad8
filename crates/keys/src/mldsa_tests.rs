//! Keys of ML-DSA-44 with Ed25519 in each form, beside what OpenSSH 10.6 writes (testdata/README).

use crypto::hash::HashAlgorithm;
use crypto::sign::{
    MLDSA44_ED25519_PUBLIC_BYTES, MLDSA44_ED25519_SEED_BYTES, MLDSA44_ED25519_SIGNATURE_BYTES,
};
use wire::{Put, Reader};
use zeroize::Zeroizing;

use crate::certificate::{CertificateFields, CertificateRules};
use crate::krl::RevocationList;
use crate::private_file::{
    self, FileCipher, HeldKey, OpensshProtection, PrivateFileError, write_openssh,
    write_openssh_with,
};
use crate::sshsig::{FileSignature, SshsigError};
use crate::test_support::{Damage, Folder, have_ssh_keygen, survives_damage};
use crate::{
    CertificateKind, KeyError, KeySpec, KeyType, PresentedKey, PrivateKey, PublicKey,
    SignatureAlgorithm, VerifyError, VerifyPolicy, fingerprint, public_file, sshfp, sshsig,
};

const NAME: &[u8] = b"ssh-mldsa44-ed25519";
const ALGORITHM: SignatureAlgorithm = SignatureAlgorithm::MlDsa44Ed25519;

macro_rules! theirs {
    ($name:literal) => {
        include_bytes!(concat!("../testdata/mldsa44_ed25519/", $name))
    };
}

fn generate() -> PrivateKey {
    PrivateKey::generate(KeySpec::MlDsa44Ed25519).unwrap()
}

fn their_key() -> PrivateKey {
    private_file::parse(theirs!("key"), None).unwrap().key
}

fn verify(key: &PublicKey, message: &[u8], blob: &[u8]) -> Result<(), VerifyError> {
    key.verify(ALGORITHM, message, blob, &VerifyPolicy::default())
}

#[test]
fn files_of_openssh_are_read() {
    let file = private_file::parse(theirs!("key"), None).unwrap();
    assert_eq!(
        (file.comment.as_str(), file.encrypted),
        ("a comment", false)
    );
    let public = public_file::parse(theirs!("key.pub")).unwrap();
    assert_eq!(public.key, PresentedKey::from(file.key.public().clone()));
    assert_eq!(file.key.key_type(), KeyType::MlDsa44Ed25519);
    assert_eq!(file.key.public().bits(), 512);
    let opened = private_file::parse(theirs!("encrypted"), Some(b"secret")).unwrap();
    assert_eq!(opened.key.public(), file.key.public());
    assert_eq!(
        private_file::parse(theirs!("encrypted"), Some(b"wrong")).unwrap_err(),
        PrivateFileError::WrongPassphrase
    );
    assert_eq!(
        &private_file::parse_public(theirs!("encrypted")).unwrap(),
        file.key.public()
    );
}

#[test]
fn a_signature_of_openssh_verifies() {
    let signature = FileSignature::from_armored(theirs!("message.sig")).unwrap();
    assert_eq!(signature.key, their_key().public().clone().into());
    let verify = |message: &[u8]| signature.verify(b"file", &signature.hash.digest(message));
    assert_eq!(verify(b"a message"), Ok(()));
    assert_eq!(
        verify(b"another"),
        Err(SshsigError::Signature(VerifyError::BadSignature))
    );
}

#[test]
fn a_certificate_of_openssh_is_accepted() {
    let file = public_file::parse(theirs!("key-cert.pub")).unwrap();
    let PresentedKey::Certificate(certificate) = &file.key else {
        panic!("not a certificate");
    };
    assert_eq!(file.key.blob_name(), "ssh-mldsa44-ed25519-cert");
    assert_eq!(certificate.key(), their_key().public());
    assert_eq!(certificate.signature_algorithm(), ALGORITHM);
    let check = |algorithms: &[SignatureAlgorithm]| {
        certificate.check(&CertificateRules {
            kind: CertificateKind::User,
            names: &["alice"],
            now: 1_700_000_000,
            authority_algorithms: algorithms,
            min_rsa_bits: 2048,
        })
    };
    assert!(check(SignatureAlgorithm::ALL).is_ok());
    assert!(check(&[SignatureAlgorithm::Ed25519]).is_err());
    // The two halves of an authority's signature count as one.
    let mut blob = certificate.blob().to_vec();
    for at in [1, 64, 65, 2000] {
        let at = blob.len() - at;
        blob[at] ^= 1;
        assert!(PresentedKey::from_blob(&blob).is_err());
        blob[at] ^= 1;
    }
    assert!(PresentedKey::from_blob(&blob).is_ok());
}

#[test]
fn private_files_are_read_back_and_hold_both_seeds() {
    let key = generate();
    for cipher in FileCipher::all() {
        let protection = OpensshProtection { cipher, rounds: 1 };
        let text = write_openssh_with(&key, "c", Some(b"secret"), &protection).unwrap();
        let file = private_file::parse(text.as_bytes(), Some(b"secret")).unwrap();
        assert_eq!(file.key.public(), key.public());
    }
    let plain = write_openssh(&key, "c", None).unwrap();
    assert_eq!(
        plain.len(),
        write_openssh(&their_key(), "c", None).unwrap().len()
    );
    assert_eq!(
        private_file::write_pkcs8(&key, None).unwrap_err(),
        PrivateFileError::NotInThisFormat
    );
    assert_eq!(
        private_file::write_pem(&key, None).unwrap_err(),
        PrivateFileError::NotInThisFormat
    );
    assert_eq!(public_file::to_pkcs8(key.public()), None);
    survives_damage(plain.as_bytes(), 200, |damaged| {
        let _ = private_file::parse(damaged, None);
    });
}

/// The fields of a private key as an agent gets them.
fn held(public: &[u8], secret: &[u8]) -> Result<HeldKey, PrivateFileError> {
    let mut out = Vec::new();
    out.put_string(NAME);
    out.put_string(public);
    out.put_string(secret);
    HeldKey::read(&mut Reader::new(&out))
}

#[test]
fn agents_get_the_key_and_its_certificate() {
    let key = their_key();
    let certificate = public_file::parse(theirs!("key-cert.pub")).unwrap().key;
    for certificate in [None, certificate.certificate().cloned()] {
        let given = HeldKey {
            key: key.clone(),
            certificate,
        };
        let mut out = Zeroizing::new(Vec::new());
        given.write(&mut out).unwrap();
        // After the certificate the seeds alone, without the public key.
        assert!(
            given.certificate.is_none() || out.len() == 4 + 24 + 4 + given.blob().len() + 4 + 64
        );
        let read = HeldKey::read(&mut Reader::new(&out)).unwrap();
        assert_eq!(
            (read.key.public(), read.blob()),
            (key.public(), given.blob())
        );
    }
    let fitting = [0; MLDSA44_ED25519_SEED_BYTES];
    let other = [0; MLDSA44_ED25519_PUBLIC_BYTES];
    assert_eq!(
        held(&other, &fitting).unwrap_err(),
        KeyError::Invalid("its public and private parts do not match").into()
    );
    for len in [0, 32, 63, 65, 2624] {
        assert!(held(&other, &vec![0; len]).is_err(), "{len}");
    }
}

#[test]
fn keys_and_signatures_of_other_lengths_are_refused() {
    let blob = |len| {
        let mut blob = Vec::new();
        blob.put_string(NAME);
        blob.put_string(&vec![1; len]);
        blob
    };
    assert!(PublicKey::from_blob(&blob(MLDSA44_ED25519_PUBLIC_BYTES)).is_ok());
    for len in [0, 32, 1312, 1343, 1345, 40_000] {
        assert!(PublicKey::from_blob(&blob(len)).is_err(), "{len}");
    }
    let key = generate();
    for len in [0, 64, 2420, 2483, 2485, 40_000] {
        assert_eq!(
            verify(key.public(), b"m", &blob(len)),
            Err(VerifyError::BadSignature)
        );
    }
}

/// Both signatures count: neither half verifies alone, or beside the other half of another message.
#[test]
fn half_a_signature_is_none() {
    let key = generate();
    let sign = |message: &[u8]| key.sign(ALGORITHM, message).unwrap();
    let (one, two) = (sign(b"one"), sign(b"two"));
    assert_eq!(
        one.len(),
        4 + NAME.len() + 4 + MLDSA44_ED25519_SIGNATURE_BYTES
    );
    assert_eq!(verify(key.public(), b"one", &one), Ok(()));
    let ed25519 = one.len() - 64;
    let mixed = [&one[..ed25519], &two[ed25519..]].concat();
    for message in [b"one", b"two"] {
        assert_eq!(
            verify(key.public(), message, &mixed),
            Err(VerifyError::BadSignature)
        );
    }
    let mut damage = Damage::new(3);
    for _ in 0..100 {
        let mut bad = one.clone();
        bad[4 + NAME.len() + 4 + damage.below(MLDSA44_ED25519_SIGNATURE_BYTES)] ^= 0x10;
        assert_eq!(
            verify(key.public(), b"one", &bad),
            Err(VerifyError::BadSignature)
        );
    }
    // A plain Ed25519 signature by the same half is of another algorithm.
    let as_ed25519 = PublicKey::Ed25519 { point: [0; 32] };
    assert_eq!(
        as_ed25519.verify(
            SignatureAlgorithm::Ed25519,
            b"one",
            &one,
            &VerifyPolicy::default()
        ),
        Err(VerifyError::WrongAlgorithm)
    );
    assert_ne!(sign(b"one"), one, "ML-DSA signatures are hedged");
}

#[test]
fn certificates_with_a_key_of_either_kind_on_each_side() {
    let (authority, host) = (generate(), generate());
    let ed25519 = crate::test_support::key(1);
    for (key, signer, algorithm) in [
        (&host, &authority, ALGORITHM),
        (&ed25519, &authority, ALGORITHM),
        (&host, &ed25519, SignatureAlgorithm::Ed25519),
    ] {
        let fields = CertificateFields {
            key: key.public().clone(),
            serial: 9,
            kind: CertificateKind::Host,
            key_id: "host".to_owned(),
            principals: vec!["host.example.org".to_owned()],
            valid_after: 0,
            valid_before: u64::MAX,
            critical_options: Vec::new(),
            extensions: Vec::new(),
        };
        let certificate = fields.sign(signer, algorithm).unwrap();
        let read = PresentedKey::from_blob(certificate.blob()).unwrap();
        assert_eq!(read.certificate(), Some(&certificate));
        let signature = key.sign(key.key_type().algorithms()[0], b"m").unwrap();
        let policy = VerifyPolicy::default();
        let of_certificate = key.key_type().certificate_algorithms()[0];
        assert_eq!(
            read.verify(of_certificate, b"m", &signature, &policy),
            Ok(())
        );
        let mut list = RevocationList::default();
        assert!(!list.is_revoked(&read));
        list.revoke_serials(Some(signer.public()), 9, 9);
        let list = RevocationList::parse(&list.to_bytes()).unwrap();
        assert!(list.is_revoked(&read));
        assert!(!list.is_revoked(&key.public().clone().into()));
    }
}

#[test]
fn revocation_lists_name_the_key_in_each_way() {
    let (key, other) = (generate(), generate());
    let ways: [fn(&mut RevocationList, &PublicKey); 3] = [
        RevocationList::revoke_key,
        RevocationList::revoke_key_by_sha1,
        RevocationList::revoke_key_by_sha256,
    ];
    for revoke in ways {
        let mut list = RevocationList::default();
        revoke(&mut list, key.public());
        let list = RevocationList::parse(&list.to_bytes()).unwrap();
        assert!(list.is_key_revoked(key.public()));
        assert!(!list.is_key_revoked(other.public()));
    }
}

#[test]
fn the_picture_has_the_title_of_openssh() {
    let key = their_key();
    let art = fingerprint::randomart(
        &key.public().blob(),
        HashAlgorithm::Sha256,
        key.key_type().label(),
        key.public().bits(),
    );
    assert!(art.starts_with("+[MLDSA44-ED25519-+\n"), "{art}");
    let presented = PresentedKey::from(key.public().clone());
    assert_eq!(
        sshfp::record("h", &presented, HashAlgorithm::Sha256, false),
        None
    );
}

/// What we write is read, and what we sign is verified, by an ssh-keygen that knows the type.
#[test]
fn ssh_keygen_takes_what_we_write() {
    if !have_ssh_keygen() {
        return;
    }
    let folder = Folder::new("mldsa");
    let key = generate();
    folder.write("key", write_openssh(&key, "c", None).unwrap().as_bytes());
    if !folder.keygen("-y -f key").status.success() {
        eprintln!("skipped: this machine's ssh-keygen does not know ssh-mldsa44-ed25519");
        return;
    }
    let public = key.public().to_line();
    let line = folder.keygen_ok("-y -f key");
    assert!(line.starts_with(&public), "{line}");
    let quick = OpensshProtection {
        rounds: 1,
        ..OpensshProtection::default()
    };
    let text = write_openssh_with(&key, "c", Some(b"secret"), &quick).unwrap();
    folder.write("encrypted", text.as_bytes());
    assert!(
        folder
            .keygen_ok("-y -P secret -f encrypted")
            .starts_with(&public)
    );

    // A certificate of ours by an authority of the type, which ssh-keygen verifies as it reads it.
    let authority = generate();
    let fields = CertificateFields {
        key: key.public().clone(),
        serial: 9,
        kind: CertificateKind::User,
        key_id: "an id".to_owned(),
        principals: vec!["alice".to_owned()],
        valid_after: 0,
        valid_before: u64::MAX,
        critical_options: Vec::new(),
        extensions: Vec::new(),
    };
    let certificate = PresentedKey::from(fields.sign(&authority, ALGORITHM).unwrap());
    folder.write(
        "cert.pub",
        public_file::to_line(&certificate, "c").as_bytes(),
    );
    let shown = folder.keygen_ok("-L -f cert.pub");
    assert!(shown.contains("MLDSA44-ED25519-CERT SHA256:"), "{shown}");
    assert!(shown.contains("(using ssh-mldsa44-ed25519)"), "{shown}");

    let hash = HashAlgorithm::Sha512;
    let signed = sshsig::message(b"file", hash, &hash.digest(b"a message"));
    let signature = FileSignature {
        key: key.public().clone().into(),
        namespace: b"file".to_vec(),
        hash,
        signature: key.sign(ALGORITHM, &signed).unwrap(),
    };
    folder.write("message.sig", signature.to_armored().as_bytes());
    folder.write("message", b"a message");
    folder.write("signers", format!("me {public}\n").as_bytes());
    let verify = "ssh-keygen -Y verify -f signers -I me -n file -s message.sig <message";
    let shell = |command: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", command]).current_dir(folder.root());
        shell.output().unwrap()
    };
    let output = shell(verify);
    assert!(output.status.success(), "{output:?}");
    folder.write("message", b"another message");
    assert!(!shell(verify).status.success());

    let mut list = RevocationList::default();
    list.revoke_key_by_sha256(key.public());
    list.revoke_serials(Some(authority.public()), 9, 9);
    folder.write("krl", &list.to_bytes());
    folder.write("key.pub", public.as_bytes());
    folder.write("other.pub", authority.public().to_line().as_bytes());
    assert!(!folder.keygen("-Q -f krl key.pub").status.success());
    assert!(!folder.keygen("-Q -f krl cert.pub").status.success());
    assert!(folder.keygen("-Q -f krl other.pub").status.success());
}
