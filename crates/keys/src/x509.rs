//! Public keys in the structures of X.509 (RFC 5280) and of PKCS #11 tokens: only the key is read;
//! names, validity and signatures of a certificate mean nothing to SSH.

use crate::der::{CONTEXT_0, DerReader, NULL, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, oid};
use crate::public_key::{EcCurve, PublicKey, check_point, check_rsa};

const BIT_STRING_POINT: u8 = 4;

/// The public key of an X.509 certificate in DER; `None` if it is malformed, or its key is of a type
/// or size that SSH does not have.
#[must_use]
pub fn public_key_of_certificate(der: &[u8]) -> Option<PublicKey> {
    let mut outer = DerReader::new(der);
    let mut certificate = outer.sequence().ok()?;
    let mut fields = certificate.sequence().ok()?;
    fields.optional(CONTEXT_0).ok()?;
    // Serial number, then signature algorithm, issuer, validity, subject.
    fields.element(crate::der::INTEGER).ok()?;
    for _ in 0..4 {
        fields.element(SEQUENCE).ok()?;
    }
    let mut info = fields.sequence().ok()?;
    let mut algorithm = info.sequence().ok()?;
    let name = algorithm.element(OBJECT_IDENTIFIER).ok()?;
    let key = info.bit_string().ok()?;
    match name {
        oid::RSA_ENCRYPTION => {
            algorithm.optional(NULL).ok()?;
            let mut key = DerReader::new(key);
            let mut numbers = key.sequence().ok()?;
            let (modulus, exponent) = (numbers.integer().ok()?, numbers.integer().ok()?);
            rsa(exponent, modulus)
        }
        oid::EC_PUBLIC_KEY => {
            let curve = curve_of(algorithm.element(OBJECT_IDENTIFIER).ok()?)?;
            check_point(curve, key).ok()?;
            Some(PublicKey::Ecdsa {
                curve,
                point: key.to_vec(),
            })
        }
        oid::ED25519 => Some(PublicKey::Ed25519 {
            point: key.try_into().ok()?,
        }),
        _ => None,
    }
}

/// An RSA key of big-endian numbers, as CKA_PUBLIC_EXPONENT and CKA_MODULUS hold them.
#[must_use]
pub fn rsa(exponent: &[u8], modulus: &[u8]) -> Option<PublicKey> {
    let exponent = wire::Mpint::from_magnitude(exponent).magnitude().to_vec();
    let modulus = wire::Mpint::from_magnitude(modulus).magnitude().to_vec();
    check_rsa(&exponent, &modulus).ok()?;
    Some(PublicKey::Rsa { exponent, modulus })
}

/// An elliptic curve key as CKA_EC_PARAMS (an object identifier in DER) and CKA_EC_POINT (an octet
/// string in DER; some libraries omit the DER) hold it.
#[must_use]
pub fn elliptic(parameters: &[u8], point: &[u8]) -> Option<PublicKey> {
    let curve = curve_of(DerReader::new(parameters).element(OBJECT_IDENTIFIER).ok()?)?;
    let point = octets(point, curve.point_bytes())?;
    let is_uncompressed = point.first() == Some(&BIT_STRING_POINT);
    check_point(curve, point)
        .ok()
        .filter(|()| is_uncompressed)?;
    Some(PublicKey::Ecdsa {
        curve,
        point: point.to_vec(),
    })
}

/// An Ed25519 key as CKA_EC_PARAMS (the object identifier, or the name `edwards25519`) and
/// CKA_EC_POINT hold it.
#[must_use]
pub fn edwards(parameters: &[u8], point: &[u8]) -> Option<PublicKey> {
    /// `edwards25519`, a printable string in DER.
    const NAME: &[u8] = b"\x13\x0cedwards25519";
    let name = DerReader::new(parameters).element(OBJECT_IDENTIFIER);
    if name != Ok(oid::ED25519) && parameters != NAME {
        return None;
    }
    Some(PublicKey::Ed25519 {
        point: octets(point, 32)?.try_into().ok()?,
    })
}

/// The octets of a string in DER, or `bytes` themselves if they have this length. SoftHSM wraps the
/// octets of Ed25519 keys; other libraries give a bit string, or nothing around them.
fn octets(bytes: &[u8], len: usize) -> Option<&[u8]> {
    let in_octets = DerReader::new(bytes).element(OCTET_STRING);
    let in_bits = || DerReader::new(bytes).bit_string();
    let inner = in_octets.or_else(|_| in_bits()).ok();
    let found = inner.filter(|inner| inner.len() == len);
    found.or((bytes.len() == len).then_some(bytes))
}

fn curve_of(identifier: &[u8]) -> Option<EcCurve> {
    match identifier {
        oid::P256 => Some(EcCurve::P256),
        oid::P384 => Some(EcCurve::P384),
        oid::P521 => Some(EcCurve::P521),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::der::{BIT_STRING, INTEGER, element};

    fn certificate(algorithm: &[&[u8]], key: &[u8]) -> Vec<u8> {
        let empty = element(SEQUENCE, &[]);
        let info = element(
            SEQUENCE,
            &[
                &element(SEQUENCE, algorithm),
                &element(BIT_STRING, &[&[0], key]),
            ],
        );
        let fields = element(
            SEQUENCE,
            &[
                &element(CONTEXT_0, &[&element(INTEGER, &[&[2]])]),
                // A negative serial number is wrong, and common.
                &element(INTEGER, &[&[0x80, 1]]),
                &empty,
                &empty,
                &empty,
                &empty,
                &info,
            ],
        );
        element(SEQUENCE, &[&fields, &empty, &element(BIT_STRING, &[&[0]])]).to_vec()
    }

    #[test]
    fn keys_of_certificates_are_found() {
        let name = element(OBJECT_IDENTIFIER, &[oid::ED25519]);
        let der = certificate(&[&name], &[7; 32]);
        let key = PublicKey::Ed25519 { point: [7; 32] };
        assert_eq!(public_key_of_certificate(&der), Some(key));
        for length in 0..der.len() {
            let cut = der.get(..length).unwrap();
            assert_eq!(public_key_of_certificate(cut), None, "{length}");
        }
        let curve = element(OBJECT_IDENTIFIER, &[oid::P256]);
        let name = element(OBJECT_IDENTIFIER, &[oid::EC_PUBLIC_KEY]);
        let point = [&[4][..], &[1; 64]].concat();
        let found = public_key_of_certificate(&certificate(&[&name, &curve], &point));
        assert_eq!(found, elliptic(&curve, &point));
        assert!(found.is_some());
        assert_eq!(
            public_key_of_certificate(&certificate(&[&name, &curve], &point[1..])),
            None
        );
    }

    #[test]
    fn points_come_with_and_without_der() {
        let curve = element(OBJECT_IDENTIFIER, &[oid::P384]);
        let point = [&[4][..], &[1; 96]].concat();
        let wrapped = element(OCTET_STRING, &[&point]);
        assert!(elliptic(&curve, &wrapped).is_some());
        assert_eq!(elliptic(&curve, &wrapped), elliptic(&curve, &point));
        assert_eq!(elliptic(&curve, &point[1..]), None);
        let edwards25519 = element(OBJECT_IDENTIFIER, &[oid::ED25519]);
        let wrapped = element(OCTET_STRING, &[&[9; 32]]);
        assert!(edwards(&edwards25519, &wrapped).is_some());
        assert_eq!(
            edwards(b"\x13\x0cedwards25519", &[9; 32]),
            edwards(&edwards25519, &wrapped)
        );
        assert_eq!(edwards(&curve, &[9; 32]), None);
        assert!(rsa(&[0, 1, 0, 1], &[&[0, 0x81][..], &[1; 255]].concat()).is_some());
    }
}
