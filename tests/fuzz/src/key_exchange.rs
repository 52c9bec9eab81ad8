//! Values of a key exchange as a peer chooses them, at the lengths that reach the arithmetic.

use crypto::kex::{Initiator, KexAlgorithm, respond};

const SNTRUP: KexAlgorithm = KexAlgorithm::Sntrup761X25519Sha512;
/// Length of an X25519 value, bytes (RFC 8731 §3).
const X25519_BYTES: usize = 32;
/// Length of a client's value: an sntrup761 public key, then X25519's.
const INIT_BYTES: usize = 1158 + X25519_BYTES;
/// Length of the ciphertext in a server's value, which X25519's follows.
const CIPHERTEXT_BYTES: usize = 1039;
const REPLY_BYTES: usize = CIPHERTEXT_BYTES + X25519_BYTES;

/// A client's sntrup761x25519 value from `data`, then a server's reply with bits flipped by `data`.
/// Both are also tried at their exact length, which random input would not have.
///
/// # Panics
/// If a value of another length is accepted, an honest reply does not lead to the same secret, or a
/// changed ciphertext does.
pub fn sntrup_exchange(data: &[u8]) {
    let taken = respond(SNTRUP, data);
    assert!(
        taken.is_err() || data.len() == INIT_BYTES,
        "only one length"
    );
    if let Ok((reply, secret)) = respond(SNTRUP, &repeated(data, INIT_BYTES)) {
        assert_eq!(reply.len(), REPLY_BYTES);
        assert_eq!(secret.bytes().len(), 64);
    }

    let (client, init) = Initiator::new(SNTRUP).expect("a key");
    let (honest, expected) = respond(SNTRUP, &init).expect("an honest value");
    let flips = repeated(data, REPLY_BYTES);
    let reply: Vec<u8> = honest.iter().zip(&flips).map(|(a, b)| a ^ b).collect();
    let untouched = flips.iter().all(|bits| *bits == 0);
    let ciphertext_changed = flips.iter().take(CIPHERTEXT_BYTES).any(|bits| *bits != 0);
    match client.finish(&reply) {
        Ok(secret) if untouched => assert_eq!(secret.bytes(), expected.bytes()),
        Ok(secret) => {
            let equal = secret.bytes() == expected.bytes();
            assert!(
                !(ciphertext_changed && equal),
                "a changed ciphertext counts"
            );
        }
        Err(error) => assert!(!untouched, "an honest reply: {error:?}"),
    }
}

/// `data` repeated to `length` bytes; zeros if it is empty.
fn repeated(data: &[u8], length: usize) -> Vec<u8> {
    let bytes = data.iter().copied().cycle().take(length);
    let mut bytes: Vec<u8> = bytes.collect();
    bytes.resize(length, 0);
    bytes
}

/// Seeds: values of both lengths with the edges of the encoding, and flips that reach each part.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        Vec::new(),
        vec![0],
        vec![0xff; INIT_BYTES],
        vec![0xff; REPLY_BYTES],
        vec![0x80; INIT_BYTES],
    ];
    for flipped in [
        0,
        500,
        CIPHERTEXT_BYTES - 1,
        CIPHERTEXT_BYTES,
        REPLY_BYTES - 1,
    ] {
        let mut flips = vec![0; REPLY_BYTES];
        if let Some(byte) = flips.get_mut(flipped) {
            *byte = 1;
        }
        seeds.push(flips);
    }
    // A pattern without a short period.
    let mixed = (0..INIT_BYTES).map(|at| (at * at / 7 + at).to_le_bytes()[0]);
    seeds.push(mixed.collect());
    seeds
}
