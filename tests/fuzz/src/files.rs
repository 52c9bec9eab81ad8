//! Files: keys, certificates, known_hosts and lists of keys.

use keys::allowed_signers::signers;
use keys::authorized_keys::{parse, parse_principals};
use keys::known_hosts::{KnownHosts, edit, known_types, lookup};
use keys::sshsig::FileSignature;
use keys::time::CivilTime;
use keys::{
    Certificate, PresentedKey, PrivateKey, PublicKey, Signature, SignatureAlgorithm, VerifyPolicy,
    krl, private_file, public_file, sshsig,
};

/// The key that is looked up in files.
fn known_key() -> PrivateKey {
    PrivateKey::from_ed25519_seed(&[1; 32])
}

/// A private key file, read without a passphrase, and with a wrong one if that is cheap.
///
/// # Panics
/// If a key that was read cannot be used or written.
pub fn private_key_file(data: &[u8]) {
    let _ = private_file::is_private_key(data);
    let public = private_file::parse_public(data);
    let Ok(file) = private_file::parse(data, None) else {
        return;
    };
    let key = &file.key;
    if let Ok(public) = public {
        assert_eq!(&public, key.public(), "the two readers agree");
    }
    let written = private_file::write_openssh(key, "again", None).expect("a key is written");
    let again = private_file::parse(written.as_bytes(), None).expect("own file");
    assert_eq!(again.key.public(), key.public());
}

/// A public key, certificate or signature blob, and the same bytes as a file.
///
/// # Panics
/// If a blob changes by decoding and encoding.
pub fn key_blob(data: &[u8]) {
    if let Ok(key) = PublicKey::from_blob(data) {
        let blob = key.blob();
        assert_eq!(PublicKey::from_blob(&blob).as_ref(), Ok(&key));
        let _ = (key.bits(), key.to_line());
        for algorithm in SignatureAlgorithm::ALL {
            let signature = key.verify(*algorithm, b"text", data, &VerifyPolicy::default());
            assert!(signature.is_err(), "a key is no signature");
        }
        let line = key.to_line();
        let file = public_file::parse(line.as_bytes()).expect("own line");
        assert_eq!(file.key.blob(), blob);
    }
    if let Ok(certificate) = Certificate::from_blob(data) {
        assert_eq!(certificate.blob(), data);
        assert!(certificate.principals().len() <= data.len());
    }
    if let Ok(presented) = PresentedKey::from_blob(data) {
        let _ = presented.key();
        assert_eq!(
            PresentedKey::from_blob(&presented.blob()).map(|again| again.blob()),
            Ok(presented.blob())
        );
    }
    if let Ok(signature) = Signature::from_blob(data) {
        let _ = known_key().public().verify(
            signature.algorithm,
            b"text",
            data,
            &VerifyPolicy::default(),
        );
    }
    let _ = public_file::parse(data);
    let _ = public_file::parse_rfc4716(data);
    let _ = public_file::parse_pem(data);
}

/// A known_hosts file: searched and changed.
///
/// # Panics
/// If a change affects other lines.
pub fn known_hosts(data: &[u8]) {
    let file = KnownHosts::new("known_hosts", data);
    let raw: usize = file.lines().map(|line| line.raw.len()).sum();
    assert_eq!(raw, data.len(), "every byte belongs to a line");
    for entry in file.entries() {
        let _ = (
            entry.matches("host"),
            entry.is_hashed(),
            entry.has_patterns(),
            entry.key_blob(),
        );
    }
    let key = known_key();
    let presented = PresentedKey::from_blob(&key.public().blob()).expect("own blob");
    for name in ["host", "[host]:2222", "192.0.2.1", "*"] {
        let _ = lookup(std::slice::from_ref(&file), name, &presented);
        let _ = known_types(std::slice::from_ref(&file), name);
    }
    let line = edit::entry_line(&["host"], key.public(), false);
    let appended = edit::appended(data, &line);
    assert!(appended.starts_with(data));
    let _ = edit::without_host(&file, "host");
    let _ = edit::without_keys(&file, "host", &[key.public().blob()]);
    if data.len() < 4096 {
        let _ = edit::hashed(&file);
    }
}

/// A file of authorized keys, and the same bytes as a list of principals.
///
/// # Panics
/// If a line number is beyond the input.
pub fn authorized_keys(data: &[u8]) {
    let clock = |_: CivilTime| Some(1_700_000_000);
    let lines = data.split(|byte| *byte == b'\n').count();
    assert!(parse(data, &clock).count() <= lines);
    assert!(parse_principals(data, &clock).count() <= lines);
    let key = known_key();
    let presented = PresentedKey::from_blob(&key.public().blob()).expect("own blob");
    for line in parse(data, &clock).flatten() {
        let _ = line.matches(&presented);
        let merged = line.options.merge(&line.options);
        assert!(merged.is_err() || merged.as_ref() == Ok(&line.options));
    }
}

/// A file of allowed signers, for any principal and for one.
///
/// # Panics
/// If a line number is beyond the input, or one principal has a line that the whole file lacks.
pub fn allowed_signers(data: &[u8]) {
    let clock = |_: CivilTime| Some(1_700_000_000);
    let lines = data.split(|byte| *byte == b'\n').count();
    let all: Vec<_> = signers(data, None, &clock).collect();
    assert!(all.len() <= lines);
    for found in signers(data, Some(b"mia@example.org"), &clock) {
        assert!(all.contains(&found), "{found:?}");
    }
    let key = known_key();
    let presented = PresentedKey::from_blob(&key.public().blob()).expect("own blob");
    for signer in all.into_iter().flatten() {
        assert!((1..=lines).contains(&signer.line));
        for principal in [None, Some("mia@example.org")] {
            let permitted = signer.permits(&presented, principal, Some(b"git"), 1_700_000_000);
            let is_other = signer.authority || signer.key != presented;
            assert!(!is_other || permitted == Ok(None), "{permitted:?}");
        }
    }
}

/// A file with an armored signature (sshsig). One that is read is written, and read again, as the same.
///
/// # Panics
/// If it changes by writing and reading, or verifies as a signature of the known key.
pub fn file_signature(data: &[u8]) {
    let Ok(signature) = FileSignature::from_armored(data) else {
        return;
    };
    let again = FileSignature::from_armored(signature.to_armored().as_bytes());
    let again = again.expect("own file");
    assert_eq!(again.key.blob(), signature.key.blob());
    assert_eq!(
        (&again.namespace, &again.signature),
        (&signature.namespace, &signature.signature)
    );
    // Nobody has signed this digest.
    assert!(signature.verify(&signature.namespace, &[0; 64]).is_err());
}

pub(crate) fn signers_seeds() -> Vec<Vec<u8>> {
    let key = known_key().public().to_line();
    let text = format!(
        "# people\n\nmia@example.org {key}\n*@example.org,!eve@example.org namespaces=\"git,file\" {key} note\n\
         \"a b\" cert-authority,valid-after=\"20240101\",valid-before=\"20991231Z\" {key}\nbad\n"
    );
    vec![text.into_bytes()]
}

pub(crate) fn signature_seeds() -> Vec<Vec<u8>> {
    let key = known_key();
    let hash = sshsig::hash_from_name(b"sha512").expect("a hash");
    let message = sshsig::message(b"git", hash, &[1; 64]);
    let signature = key.sign(SignatureAlgorithm::Ed25519, &message);
    let signature = FileSignature {
        key: PresentedKey::from_blob(&key.public().blob()).expect("own blob"),
        namespace: b"git".to_vec(),
        hash,
        signature: signature.expect("a signature"),
    };
    vec![signature.to_armored().into_bytes()]
}

/// A key revocation list, binary or plain.
pub fn revocation_list(data: &[u8]) {
    if let Ok(list) = krl::RevocationList::parse(data) {
        let key = known_key();
        let presented = PresentedKey::from_blob(&key.public().blob()).expect("own blob");
        let _ = (
            list.is_revoked(&presented),
            list.is_key_revoked(key.public()),
        );
    }
}
