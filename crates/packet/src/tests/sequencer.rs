//! Framing (RFC 4253 §6): padding, alignment, minimum size; and the sequencer's counters.

use std::prelude::v1::*;

use super::{Suite, ends, keys, sample_suites, seal, suites};
use crate::{PacketBuf, SealKeys, Sequencer, StampError};

/// Length, padding length and padding for a packet with `suite`'s framing, computed without
/// sealing.
fn measure(suite: Suite, payload: usize, conceal: usize) -> (usize, usize) {
    let framing = keys(suite, 0).0.framing();
    let padding = framing.padding_length(payload, conceal);
    (
        framing.packet_length(payload, padding),
        usize::from(padding),
    )
}

#[test]
fn padding_is_the_least_that_aligns() {
    for suite in suites() {
        let (block, counted) = match suite {
            None => (8, 4),
            Some((cipher, Some(mac))) if !mac.is_etm() => (cipher.block_len(), 4),
            Some((cipher, _)) => (cipher.block_len(), 0),
        };
        for payload in 1..200 {
            let (length, padding) = measure(suite, payload, 0);
            assert_eq!(length, 1 + payload + padding);
            assert_eq!((counted + length) % block, 0, "{suite:?} {payload}");
            assert!((4..4 + block).contains(&padding));
            assert!(4 + length >= 12 && (counted == 0 || 4 + length >= 16.max(block)));
        }
    }
}

#[test]
fn a_concealed_length_shows_in_steps() {
    for suite in suites() {
        let lengths: Vec<_> = (1..50)
            .map(|payload| measure(suite, payload, 64).0)
            .collect();
        assert!(
            lengths.iter().all(|&length| length == lengths[0]),
            "{suite:?}"
        );
        assert!(measure(suite, 64, 64).0 > lengths[0]);
        for payload in 1..400 {
            let (length, padding) = measure(suite, payload, 128);
            assert!(padding <= 131 && keys(suite, 0).0.framing().is_aligned(length));
        }
    }
    let (mut sequencer, mut splitter) = ends(sample_suites()[1]);
    let mut buf = PacketBuf::from_payload(b"password");
    buf.conceal_length(64);
    let sealed = sequencer.stamp(buf).unwrap().run();
    assert_eq!(sealed.wire().len(), 4 + 64 + 16);
    splitter.handle_bytes(sealed.wire());
    assert_eq!(
        splitter.next().unwrap().unwrap().run().unwrap().payload(),
        b"password"
    );
    // A recycled buffer does not keep the request of `conceal_length`.
    let mut buf = sealed.into_buf();
    buf.clear();
    buf.extend(b"x");
    assert_eq!(
        sequencer.stamp(buf).unwrap().run().wire().len(),
        4 + 16 + 16
    );
}

#[test]
fn without_keys_the_packet_is_in_the_clear() {
    let wire = seal(&mut Sequencer::with_padding_seed([0; 32]), b"\x14hello");
    assert_eq!(wire[..11], *b"\x00\x00\x00\x0c\x05\x14hello");
    assert_eq!(wire.len(), 16);
}

#[test]
fn padding_is_random_unless_seeded() {
    let padding = |mut sequencer: Sequencer| -> Vec<u8> {
        (0..64)
            .flat_map(|_| seal(&mut sequencer, &[1])[6..16].to_vec())
            .collect()
    };
    let one = padding(Sequencer::new());
    assert_ne!(one, padding(Sequencer::new()));
    assert_ne!(one[..320], one[320..]);
    let seeded = padding(Sequencer::with_padding_seed([5; 32]));
    assert_eq!(seeded, padding(Sequencer::with_padding_seed([5; 32])));
    assert_ne!(seeded, padding(Sequencer::with_padding_seed([6; 32])));
}

#[test]
fn counts_begin_anew_with_new_keys() {
    let (mut sequencer, _) = ends(None);
    seal(&mut sequencer, &[1; 7]);
    seal(&mut sequencer, &[1; 7]);
    assert_eq!(
        (
            sequencer.position().sequence,
            sequencer.position().packets,
            sequencer.position().bytes
        ),
        (2, 2, 32)
    );
    sequencer.set_keys(SealKeys::none().into(), false);
    assert_eq!(
        (
            sequencer.position().sequence,
            sequencer.position().packets,
            sequencer.position().bytes
        ),
        (2, 0, 0)
    );
    seal(&mut sequencer, &[1; 7]);
    sequencer.set_keys(SealKeys::none().into(), true);
    assert_eq!(sequencer.position().sequence, 0);
}

#[test]
fn a_refused_payload_takes_no_number() {
    let mut sequencer = Sequencer::new();
    let empty = sequencer.stamp(PacketBuf::with_capacity(10)).unwrap_err();
    assert_eq!(empty, StampError::EmptyPayload);
    let long = sequencer
        .stamp(PacketBuf::from_payload(&vec![0; 300 << 10]))
        .unwrap_err();
    assert_eq!(long, StampError::PayloadTooLong);
    assert_eq!(
        (sequencer.position().sequence, sequencer.position().bytes),
        (0, 0)
    );
}

#[test]
fn keys_of_wrong_length_are_refused() {
    use crypto::cipher::CipherAlgorithm as Cipher;
    use crypto::mac::MacAlgorithm as Mac;
    let mac = Some(Mac::HmacSha256);
    for (cipher, mac, key, iv, mac_key) in [
        (Cipher::Aes128Gcm, None, 15, 12, 0),
        (Cipher::Aes128Gcm, None, 16, 16, 0),
        (Cipher::Aes256Gcm, None, 16, 12, 0),
        (Cipher::ChaCha20Poly1305, None, 32, 0, 0),
        (Cipher::Aes256Ctr, mac, 31, 16, 32),
        (Cipher::Aes256Ctr, mac, 32, 12, 32),
        (Cipher::Aes256Ctr, mac, 32, 16, 20),
        (Cipher::Aes256Ctr, None, 32, 16, 0),
    ] {
        let made = SealKeys::new(cipher, mac, &vec![0; key], &vec![0; iv], &vec![0; mac_key]);
        assert!(made.is_err(), "{cipher:?} {key} {iv} {mac_key}");
    }
}
