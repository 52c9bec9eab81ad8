use super::*;
use crate::sshsig::FileSignature;
use crate::test_support::survives_damage;
use crate::{EcCurve, KeySpec, PrivateKey, PublicKey, SignatureAlgorithm, VerifyPolicy};

const MESSAGE: &[u8] = b"\xff\xfethe message";
const APPLICATION: &[u8] = b"example.org";
const ORIGIN: &str = "https://example.org";
const ALGORITHM: SignatureAlgorithm = SignatureAlgorithm::WebauthnSkEcdsaP256;

/// The parts of a signature; the token signs what they say.
struct Parts {
    client_data: String,
    origin: String,
    flags: u8,
    extensions: &'static [u8],
}

impl Parts {
    fn good() -> Self {
        let challenge = base64::encode_url(MESSAGE);
        Self {
            client_data: format!(
                "{{\"type\":\"webauthn.get\",\"challenge\":\"{challenge}\",\"origin\":\"{ORIGIN}\",\"crossOrigin\":false}}"
            ),
            origin: ORIGIN.to_owned(),
            flags: 1,
            extensions: b"",
        }
    }
}

fn key() -> (PrivateKey, PublicKey) {
    let secret = PrivateKey::generate(KeySpec::Ecdsa(EcCurve::P256)).unwrap();
    let PublicKey::Ecdsa { point, .. } = secret.public().clone() else {
        unreachable!();
    };
    let application = APPLICATION.to_vec();
    (secret, PublicKey::SkEcdsaP256 { point, application })
}

fn sign(secret: &PrivateKey, parts: &Parts) -> Vec<u8> {
    let mut signed = HashAlgorithm::Sha256.digest(APPLICATION).to_vec();
    signed.put_u8(parts.flags);
    signed.put_u32(9);
    signed.extend_from_slice(parts.extensions);
    signed.extend_from_slice(&HashAlgorithm::Sha256.digest(parts.client_data.as_bytes()));
    let plain = secret.sign(SignatureAlgorithm::EcdsaP256, &signed).unwrap();
    let mut reader = Reader::new(&plain);
    reader.string().unwrap();
    let mut out = super::super::blob(ALGORITHM, reader.string().unwrap());
    out.put_u8(parts.flags);
    out.put_u32(9);
    out.put_string(parts.origin.as_bytes());
    out.put_string(parts.client_data.as_bytes());
    out.put_string(parts.extensions);
    out
}

fn verdict(change: impl Fn(&mut Parts)) -> Result<(), VerifyError> {
    let (secret, public) = key();
    let mut parts = Parts::good();
    change(&mut parts);
    public.verify(
        ALGORITHM,
        MESSAGE,
        &sign(&secret, &parts),
        &VerifyPolicy::default(),
    )
}

#[test]
fn the_signature_of_openssh_verifies_and_no_other_file_has_it() {
    let armored = include_bytes!("../../testdata/webauthn/message.sig");
    let key = include_bytes!("../../testdata/webauthn/key.pub");
    let file = FileSignature::from_armored(armored).unwrap();
    assert_eq!(file.key, crate::public_file::parse(key).unwrap().key);
    let digest = |text: &[u8]| file.hash.digest(text).to_vec();
    let good = digest(b"This is a test, this is only a test");
    assert_eq!(file.verify(b"unittest", &good), Ok(()));
    assert!(file.verify(b"unittest", &digest(b"another")).is_err());
    assert!(file.verify(b"git", &good).is_err());
}

#[test]
fn client_data_must_speak_of_the_message_and_the_origin() {
    assert_eq!(verdict(|_| {}), Ok(()));
    // What follows the origin is not read.
    assert_eq!(
        verdict(|parts| {
            let end = parts.client_data.find(",\"crossOrigin").unwrap();
            parts.client_data.truncate(end);
        }),
        Ok(())
    );
    let replaced = |from: &'static str, to: &'static str| {
        verdict(|parts| {
            assert!(parts.client_data.contains(from));
            parts.client_data = parts.client_data.replacen(from, to, 1);
        })
    };
    for (from, to) in [
        ("webauthn.get", "webauthn.create"),
        ("{\"type", "{ \"type"),
        ("\"challenge\":\"", "\"challenge\":\"A"),
        ("\",\"origin", "=\",\"origin"),
        ("__", "//"),
        ("https://", "http://"),
        ("example.org\"", "example.org.evil\""),
        ("\"type\":\"webauthn.get\",", ""),
    ] {
        assert_eq!(
            replaced(from, to),
            Err(VerifyError::BadSignature),
            "{from} {to}"
        );
    }
    for origin in ["https://example.or", "", "https://example.org\0"] {
        let named = verdict(|parts| parts.origin = origin.to_owned());
        assert_eq!(named, Err(VerifyError::BadSignature), "{origin:?}");
    }
    // The origin could hold the rest of the object.
    let quoted = verdict(|parts| {
        parts.origin = format!("{ORIGIN}\",\"crossOrigin\":\"x");
        parts.client_data = parts.client_data.replace("false", "\"x\"");
    });
    assert_eq!(quoted, Err(VerifyError::BadSignature));
}

#[test]
fn flags_and_extensions_agree() {
    for (flags, extensions, expected) in [
        (0x01, &b""[..], Ok(())),
        (0x05, b"", Ok(())),
        (0x81, b"\xa0", Ok(())),
        (0x81, b"", Err(VerifyError::BadSignature)),
        (0x01, b"\xa0", Err(VerifyError::BadSignature)),
        (0x41, b"", Err(VerifyError::BadSignature)),
        (0x04, b"", Err(VerifyError::NoUserPresence)),
    ] {
        let found = verdict(|parts| {
            parts.flags = flags;
            parts.extensions = extensions;
        });
        assert_eq!(found, expected, "{flags:#x} {extensions:x?}");
    }
}

/// Flags, counter, origin, client data and extensions are signed, and the name is part of the
/// agreement.
#[test]
fn no_changed_byte_is_accepted() {
    let (secret, public) = key();
    let blob = sign(&secret, &Parts::good());
    let policy = VerifyPolicy::default();
    public.verify(ALGORITHM, MESSAGE, &blob, &policy).unwrap();
    survives_damage(&blob, 2000, |bytes| {
        if bytes.len() == blob.len() && bytes != blob {
            assert!(public.verify(ALGORITHM, MESSAGE, bytes, &policy).is_err());
        }
    });
    let mut longer = blob.clone();
    longer.push(0);
    assert!(public.verify(ALGORITHM, MESSAGE, &longer, &policy).is_err());
    let plain = SignatureAlgorithm::SkEcdsaP256;
    let by_another_name = public.verify(plain, MESSAGE, &blob, &policy);
    assert_eq!(by_another_name, Err(VerifyError::WrongAlgorithm));
}

/// No key of a file or of an agent signs so.
#[test]
fn software_makes_no_such_signature() {
    let (secret, _) = key();
    assert!(secret.sign(ALGORITHM, MESSAGE).is_err());
    assert!(
        !crate::KeyType::SkEcdsaP256
            .algorithms()
            .contains(&ALGORITHM)
    );
}
