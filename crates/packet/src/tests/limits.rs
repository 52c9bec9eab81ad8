//! Bounds: nonces that never come again, keys that are replaced in time, memory that stays.

use std::prelude::v1::*;

use super::{ends, keys, open_all, sample_suites, seal, suites};
use crate::{MAX_PACKET_BYTES, PacketBuf, PacketError, Splitter, StampError};

#[test]
fn a_nonce_is_never_used_again() {
    for suite in suites() {
        let (mut sequencer, mut splitter) = ends(suite);
        sequencer.position.packets = (1 << 32) - 1;
        sequencer.position.sequence = 41;
        splitter.position = sequencer.position;
        splitter.handle_bytes(&seal(&mut sequencer, &[1]));
        assert_eq!(open_all(&mut splitter).unwrap().len(), 1);
        let before = sequencer.export();
        let refused = sequencer.stamp(PacketBuf::from_payload(&[1])).unwrap_err();
        assert_eq!(refused, StampError::SequenceExhausted);
        assert_eq!(sequencer.export(), before, "no number was taken");
        splitter.handle_bytes(&[0; 64]);
        assert_eq!(splitter.next().unwrap_err(), PacketError::SequenceExhausted);
        // New keys, new nonces.
        sequencer.set_keys(keys(suite, 1).0, false);
        assert!(sequencer.stamp(PacketBuf::from_payload(&[1])).is_ok());
    }
}

#[test]
fn new_keys_are_due_long_before() {
    for suite in suites() {
        let (mut sequencer, mut splitter) = ends(suite);
        assert!(!sequencer.must_rekey() && !splitter.must_rekey());
        sequencer.position.packets = (1 << 30) - 1;
        assert!(!sequencer.must_rekey());
        seal(&mut sequencer, &[1]);
        assert!(sequencer.must_rekey());
        splitter.position.packets = 1 << 30;
        assert!(splitter.must_rekey());
        sequencer.set_keys(keys(suite, 1).0, true);
        assert!(!sequencer.must_rekey());
    }
    // RFC 4344 §3.2: 2^32 blocks of 16 bytes are 64 GiB.
    let (mut gcm, _) = ends(sample_suites()[1]);
    gcm.position.bytes = 32 << 30;
    assert!(gcm.must_rekey());
    let (mut chacha, _) = ends(sample_suites()[2]);
    chacha.position.bytes = 1 << 40;
    assert!(!chacha.must_rekey());
}

#[test]
fn the_largest_packet_is_sent_and_taken_and_no_larger_one() {
    for suite in sample_suites() {
        let (mut sequencer, mut splitter) = ends(suite);
        let mut len = MAX_PACKET_BYTES;
        let wire = loop {
            match sequencer.stamp(PacketBuf::from_payload(&vec![8; len])) {
                Ok(job) => break job.run().wire().to_vec(),
                Err(error) => assert_eq!(error, StampError::PayloadTooLong),
            }
            len -= 1;
        };
        assert!(len > MAX_PACKET_BYTES - 32);
        splitter.handle_bytes(&wire);
        assert_eq!(open_all(&mut splitter).unwrap()[0].payload().len(), len);
    }
}

#[test]
fn the_receive_buffer_always_has_room_for_a_read() {
    let (mut sequencer, mut splitter) = ends(sample_suites()[1]);
    let mut kept = Vec::new();
    for round in 0..400usize {
        let buffer = splitter.receive_buffer();
        assert!(buffer.capacity() - buffer.len() >= 256 * 1024);
        buffer.extend_from_slice(&seal(&mut sequencer, &vec![1; 1 + (round * 7919) % 60_000]));
        for packet in open_all(&mut splitter).unwrap() {
            if round % 3 == 0 {
                kept.push(packet.into_payload());
            }
        }
    }
    assert!(
        kept.iter()
            .all(|payload| payload.iter().all(|&byte| byte == 1))
    );
}

#[test]
fn a_splitter_that_is_not_asked_says_when_it_is_full() {
    let mut splitter = Splitter::new();
    splitter.handle_bytes(&vec![0; MAX_PACKET_BYTES]);
    assert!(!splitter.is_full());
    splitter.handle_bytes(&vec![0; MAX_PACKET_BYTES]);
    assert!(splitter.is_full());
}
