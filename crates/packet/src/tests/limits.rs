//! Limits: no nonce is reused, keys are replaced in time, memory is bounded.

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
        let before = sequencer.position();
        let refused = sequencer.stamp(PacketBuf::from_payload(&[1])).unwrap_err();
        assert_eq!(refused, StampError::SequenceExhausted);
        assert_eq!(sequencer.position(), before, "no number was taken");
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

/// Kept payloads are not copied up to the reserved amount, and are copied beyond it.
#[test]
fn a_reader_has_its_bytes_where_they_came_as_far_as_it_said() {
    const PACKET_BYTES: usize = 32 * 1024;
    let until_copied = |said: Option<usize>| {
        let (mut sequencer, mut splitter) = ends(sample_suites()[1]);
        if let Some(bytes) = said {
            splitter.keep(bytes);
        }
        let mut kept = Vec::new();
        loop {
            let (buffer, _) = splitter.receive_room();
            buffer.extend_from_slice(&seal(&mut sequencer, &vec![5; PACKET_BYTES]));
            let job = splitter.next().unwrap().unwrap();
            if job.copy_on_keep {
                return kept.len() * PACKET_BYTES;
            }
            kept.push(job.run().unwrap().into_payload());
            assert!(kept.len() < 2000, "it is never copied");
        }
    };
    let unsaid = until_copied(None);
    assert!((3 << 20..6 << 20).contains(&unsaid), "{unsaid}");
    assert_eq!(until_copied(Some(1 << 20)), unsaid);
    for said in [8 << 20, 20 << 20] {
        let kept = until_copied(Some(said));
        assert!((said..said + (4 << 20)).contains(&kept), "{said}: {kept}");
    }
}

/// A socket that always has more data than requested, and one whose reads end anywhere.
#[test]
fn slabs_end_where_bulk_packets_do() {
    const PACKETS: usize = 640;
    let received = |suite, anywhere: bool| {
        let (mut sequencer, mut splitter) = ends(suite);
        let packet = vec![7; 32 * 1024];
        let stream: Vec<u8> = (0..PACKETS)
            .flat_map(|_| seal(&mut sequencer, &packet))
            .collect();
        let (mut rest, mut opened, mut reads) = (&stream[..], 0, 0_usize);
        while !rest.is_empty() {
            let (buffer, most) = splitter.receive_room();
            assert!(most > 0 && most <= buffer.capacity() - buffer.len());
            let come = if anywhere {
                1 + reads * 7919 % 300_000
            } else {
                most
            };
            let (read, left) = rest.split_at(come.min(most).min(rest.len()));
            buffer.extend_from_slice(read);
            rest = left;
            reads += 1;
            opened += open_all(&mut splitter).unwrap().len();
        }
        assert_eq!(opened, PACKETS);
        (splitter.moved_bytes(), reads)
    };
    for suite in sample_suites() {
        let (moved, reads) = received(suite, false);
        assert!(moved < 2 * 32 * 1024, "{suite:?}: {moved} bytes moved");
        assert!(reads < 60, "{suite:?}: {reads} reads");
        // 20 MiB.
        let (moved, _) = received(suite, true);
        assert!(moved < 20 * 16 * 1024, "{suite:?}: {moved} bytes moved");
    }
}

#[test]
fn a_read_has_room_for_the_packet_under_way_whatever_came_before() {
    for suite in sample_suites() {
        let (mut sequencer, mut splitter) = ends(suite);
        let mut kept = Vec::new();
        let sizes = [4096, 262_000, 70_000, 1, 32_768, 150_000, 255_000, 5000, 9];
        for round in 0..300 {
            let payload =
                vec![3; sizes[round % sizes.len()] - round % 7 % sizes[round % sizes.len()]];
            let wire = seal(&mut sequencer, &payload);
            let mut rest = &wire[..];
            let mut reads = 0;
            while !rest.is_empty() {
                let (buffer, most) = splitter.receive_room();
                assert!(most <= buffer.capacity() - buffer.len());
                let (read, left) = rest.split_at(most.min(rest.len()));
                buffer.extend_from_slice(read);
                rest = left;
                reads += 1;
                for packet in open_all(&mut splitter).unwrap() {
                    assert_eq!(packet.payload(), payload);
                    if round % 5 == 0 {
                        kept.push(packet.into_payload());
                    }
                }
            }
            assert!(reads <= 3, "{reads} reads of a packet");
        }
    }
}

#[test]
fn a_splitter_that_is_not_asked_says_when_it_is_full() {
    let mut splitter = Splitter::new();
    splitter.handle_bytes(&vec![0; MAX_PACKET_BYTES]);
    assert!(!splitter.is_full());
    splitter.handle_bytes(&vec![0; MAX_PACKET_BYTES]);
    assert!(splitter.is_full());
}
