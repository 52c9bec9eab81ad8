//! Authenticated ciphers for OpenSSH's private key files (PROTOCOL.key): the packet ciphers without
//! a length field before the data. A key may encrypt only one message.
//!
//! [`crate::cipher`] has the ciphers for packets.
#![forbid(unsafe_code)]

use zeroize::Zeroizing;

use crate::awslc::aead::GcmContext;
use crate::awslc::chacha;
use crate::{IntegrityFailed, KeyLengthError, constant_time};

/// Encrypts `data` in place with AES-GCM (key of 16 or 32 bytes, nonce of 12 bytes) and returns the
/// tag.
///
/// # Errors
/// If the key or the nonce has a wrong length.
pub fn gcm_seal(key: &[u8], nonce: &[u8], data: &mut [u8]) -> Result<[u8; 16], KeyLengthError> {
    let nonce = nonce.try_into().map_err(|_| KeyLengthError)?;
    GcmContext::new(key)
        .and_then(|context| context.seal(nonce, &[], data))
        .map_err(|_| KeyLengthError)
}

/// Verifies the tag and decrypts `data` in place; the inverse of [`gcm_seal`].
///
/// # Errors
/// If the tag does not match or a length is wrong; the content of `data` is then undefined and must
/// not be used.
pub fn gcm_open(
    key: &[u8],
    nonce: &[u8],
    data: &mut [u8],
    tag: &[u8; 16],
) -> Result<(), IntegrityFailed> {
    let nonce = nonce.try_into().map_err(|_| IntegrityFailed)?;
    GcmContext::new(key)
        .and_then(|context| context.open(nonce, &[], data, tag))
        .map_err(|_| IntegrityFailed)
}

/// Encrypts `data` in place with chacha20-poly1305@openssh.com and returns the tag. Of the 64-byte
/// key the second half, which is for packet lengths, is not used.
///
/// # Errors
/// If the key has a wrong length.
pub fn chacha_poly_seal(key: &[u8], data: &mut [u8]) -> Result<[u8; 16], KeyLengthError> {
    let key = content_key(key).ok_or(KeyLengthError)?;
    chacha::chacha20(key, &NONCE, 1, data);
    Ok(chacha::poly1305(&one_time_key(key), data))
}

/// Verifies the tag and decrypts `data` in place; the inverse of
/// [`chacha_poly_seal`].
///
/// # Errors
/// If the tag does not match or the key has a wrong length; `data` is then unchanged.
pub fn chacha_poly_open(
    key: &[u8],
    data: &mut [u8],
    tag: &[u8; 16],
) -> Result<(), IntegrityFailed> {
    let key = content_key(key).ok_or(IntegrityFailed)?;
    let expected = chacha::poly1305(&one_time_key(key), data);
    if !constant_time::eq(&expected, tag) {
        return Err(IntegrityFailed);
    }
    chacha::chacha20(key, &NONCE, 1, data);
    Ok(())
}

/// A file uses sequence number 0.
const NONCE: [u8; 12] = [0; 12];

/// The Poly1305 key: the first 32 bytes of key-stream block 0.
fn one_time_key(key: &[u8; 32]) -> Zeroizing<[u8; 32]> {
    let mut one_time = Zeroizing::new([0; 32]);
    chacha::chacha20(key, &NONCE, 0, &mut *one_time);
    one_time
}

fn content_key(key: &[u8]) -> Option<&[u8; 32]> {
    match key.as_chunks() {
        ([content, _length], []) => Some(content),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::hex;

    #[test]
    fn poly1305_computes_rfc_8439_section_2_5_2() {
        let key: [u8; 32] = hex("85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b")
            .try_into()
            .unwrap();
        let tag = chacha::poly1305(&key, b"Cryptographic Forum Research Group");
        assert_eq!(tag.to_vec(), hex("a8061dc1305136c6c22b8baf0c0127a9"));
    }

    #[test]
    fn what_is_sealed_opens_and_nothing_else_does() {
        let key = [7; 64];
        for len in [0, 1, 16, 200] {
            let plain = vec![3; len];
            let mut data = plain.clone();
            let tag = chacha_poly_seal(&key, &mut data).unwrap();
            let mut forged = data.clone();
            assert!(chacha_poly_open(&key, &mut forged, &[0; 16]).is_err());
            assert_eq!(forged, data);
            chacha_poly_open(&key, &mut data, &tag).unwrap();
            assert_eq!(data, plain);

            let tag = gcm_seal(&key[..32], &key[..12], &mut data).unwrap();
            let mut forged = data.clone();
            assert!(gcm_open(&key[..32], &[0; 12], &mut forged, &tag).is_err());
            gcm_open(&key[..32], &key[..12], &mut data, &tag).unwrap();
            assert_eq!(data, plain);
        }
        assert!(chacha_poly_seal(&[0; 32], &mut []).is_err());
        assert!(gcm_seal(&[0; 24], &[0; 12], &mut []).is_err());
        assert!(gcm_seal(&[0; 32], &[0; 16], &mut []).is_err());
    }
}
