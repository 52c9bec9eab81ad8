//! Key exchanges and signatures.

use super::select::Selection;
use super::time::rate;

/// One operation and how many of it a second holds.
pub(super) struct OperationRow {
    pub(super) name: String,
    pub(super) per_second: f64,
}

pub(super) fn rows(selection: &Selection) -> Vec<OperationRow> {
    let mut rows = Vec::new();
    for (name, alias) in [
        ("mlkem768x25519-sha256", ""),
        ("sntrup761x25519-sha512", ""),
        ("curve25519-sha256", "ecdhx25519"),
        ("ecdh-sha2-nistp256", ""),
    ] {
        let Some(method) = crypto::kex::KexAlgorithm::from_name(name) else {
            continue;
        };
        if !selection.wants_any(&[name, alias]) {
            continue;
        }
        let per_second = rate(1.0, || {
            let Ok((initiator, public)) = crypto::kex::Initiator::new(method) else {
                return;
            };
            if let Ok((reply, _)) = crypto::kex::respond(method, &public) {
                let _ = initiator.finish(&reply);
            }
        });
        rows.push(OperationRow {
            name: format!("{name} (both sides)"),
            per_second,
        });
    }
    use crypto::sign::{KeyKind, PrivateKey, SignatureScheme};
    let kinds = [
        ("ed25519", KeyKind::Ed25519, SignatureScheme::Ed25519, 0),
        (
            "ecdsa-nistp256",
            KeyKind::EcdsaP256,
            SignatureScheme::EcdsaP256Sha256,
            0,
        ),
        (
            "rsa-2048",
            KeyKind::Rsa,
            SignatureScheme::RsaPkcs1Sha512,
            2048,
        ),
    ];
    for (name, kind, scheme, bits) in kinds {
        if !selection.wants(name) {
            continue;
        }
        let Ok(key) = PrivateKey::generate(kind, bits) else {
            continue;
        };
        let Ok(signature) = key.sign(scheme, b"message") else {
            continue;
        };
        let sign = rate(1.0, || {
            let _ = key.sign(scheme, b"message");
        });
        let verify = rate(1.0, || {
            let _ = key.public().verify(scheme, b"message", &signature);
        });
        rows.push(OperationRow {
            name: format!("{name} sign"),
            per_second: sign,
        });
        rows.push(OperationRow {
            name: format!("{name} verify"),
            per_second: verify,
        });
    }
    rows
}
