//! What a security key sends: CBOR of CTAP 2, and report descriptors of HID devices.

/// Any bytes, as CBOR. A value that is read is written, and read again, as the same.
///
/// # Panics
/// Only for a defect.
pub fn ctap_cbor(data: &[u8]) {
    fido::ctap::read_anything(data);
    if let Some(written) = fido::ctap::round_trip(data) {
        assert_eq!(fido::ctap::round_trip(&written), Some(written));
    }
}

/// What a token can do; a COSE key; a report descriptor of FIDO.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut key = b"\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20".to_vec();
    key.extend_from_slice(&[1; 32]);
    key.extend_from_slice(b"\x22\x58\x20");
    key.extend_from_slice(&[2; 32]);
    vec![
        b"\xa4\x01\x81\x68FIDO_2_1\x02\x81\x6bcredProtect\x04\xa2\x62rk\xf5\x69clientPin\xf4\x06\x82\x02\x01"
            .to_vec(),
        key,
        b"\x06\xd0\xf1\x09\x01\xa1\x01".to_vec(),
    ]
}
