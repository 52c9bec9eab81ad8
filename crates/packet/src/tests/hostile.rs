//! What a peer, or someone between us, may send to hurt. Each test is named after the rule that
//! it guards (hostile.md §2).

use std::prelude::v1::*;

use super::{
    FIRST, Rng, craft, encrypted_suites, ends, keys, open_all, sample_suites, seal, suites,
};
use crate::{MAX_PACKET_BYTES, PacketError, Splitter};

/// What becomes of `wire`, and of as much behind it as the largest packet has.
fn outcome(splitter: &mut Splitter, wire: &[u8]) -> Result<usize, PacketError> {
    splitter.handle_bytes(wire);
    let opened = open_all(splitter)?.len();
    splitter.handle_bytes(&vec![0; MAX_PACKET_BYTES + 128]);
    open_all(splitter).map(|more| opened + more.len())
}

fn framed(claimed: u32, padding: u8, rest: &[u8]) -> Vec<u8> {
    [&claimed.to_be_bytes()[..], &[padding], rest].concat()
}

/// The error that a claim leads to, where the length is not hidden.
fn claim(suite: super::Suite, claimed: u32) -> PacketError {
    let (seal_keys, open_keys) = keys(suite, 0);
    let wire = craft(&seal_keys, FIRST, &framed(claimed, 4, &[0; 27]));
    let mut splitter = Splitter::with_keys_state(Default::default(), open_keys);
    outcome(&mut splitter, &wire).unwrap_err()
}

#[test]
fn packet_length_out_of_range_is_refused() {
    for suite in suites() {
        let hidden = keys(suite, 0).1.hides_unauthenticated_length();
        for length_bytes in [
            0,
            1,
            4,
            5,
            MAX_PACKET_BYTES as u32 + 1,
            0x7fff_ffff,
            0x8000_0000,
        ] {
            let expected = if hidden {
                PacketError::IntegrityFailed
            } else {
                PacketError::LengthOutOfRange { length_bytes }
            };
            assert_eq!(claim(suite, length_bytes), expected, "{suite:?}");
        }
    }
}

#[test]
fn packet_length_that_wraps_is_refused() {
    for suite in suites() {
        let hidden = keys(suite, 0).1.hides_unauthenticated_length();
        for back in 0..70 {
            let length_bytes = u32::MAX - back;
            let expected = if hidden {
                PacketError::IntegrityFailed
            } else {
                PacketError::LengthOutOfRange { length_bytes }
            };
            assert_eq!(claim(suite, length_bytes), expected, "{suite:?}");
        }
    }
}

#[test]
fn packet_length_is_checked_as_soon_as_it_is_there() {
    for suite in sample_suites() {
        let (seal_keys, open_keys) = keys(suite, 0);
        if open_keys.hides_unauthenticated_length() {
            continue;
        }
        let wire = craft(&seal_keys, FIRST, &framed(u32::MAX, 4, &[0; 27]));
        let mut splitter = Splitter::with_keys_state(Default::default(), open_keys);
        splitter.handle_bytes(&wire[..3]);
        let before = splitter.receive_buffer().capacity();
        assert!(splitter.next().unwrap().is_none());
        splitter.handle_bytes(&wire[3..4]);
        let length_bytes = u32::MAX;
        assert_eq!(
            splitter.next().unwrap_err(),
            PacketError::LengthOutOfRange { length_bytes }
        );
        assert_eq!(
            splitter.receive_buffer().capacity(),
            before,
            "nothing was reserved by it"
        );
    }
}

#[test]
fn packet_that_is_not_whole_blocks_is_refused() {
    for suite in suites() {
        let hidden = keys(suite, 0).1.hides_unauthenticated_length();
        let expected = if hidden {
            PacketError::IntegrityFailed
        } else {
            PacketError::NotBlockAligned
        };
        for length in 17..24 {
            // 20 with its own 4 bytes is whole 8-byte blocks before NEWKEYS.
            if length == 20 && suite.is_none() {
                continue;
            }
            assert_eq!(claim(suite, length), expected, "{suite:?} {length}");
        }
    }
}

#[test]
fn empty_plaintext_in_an_aead_is_an_error() {
    for suite in encrypted_suites()
        .into_iter()
        .filter(|(_, mac)| mac.is_none())
    {
        let (seal_keys, open_keys) = keys(Some(suite), 0);
        let wire = craft(&seal_keys, FIRST, &[0, 0, 0, 0]);
        let mut splitter = Splitter::with_keys_state(Default::default(), open_keys);
        let error = outcome(&mut splitter, &wire).unwrap_err();
        assert_eq!(error, PacketError::LengthOutOfRange { length_bytes: 0 });
    }
}

/// A well-sealed packet of 32 bytes (28 behind the length where that counts) whose padding
/// length is a lie.
fn padding_outcome(suite: super::Suite, padding: u8) -> Result<usize, PacketError> {
    let (seal_keys, open_keys) = keys(suite, 0);
    let body = match suite {
        None => 28,
        _ if open_keys.hides_unauthenticated_length() => 28,
        _ => 32,
    };
    let plain = framed(body, padding, &vec![0x55; body as usize - 1]);
    let mut splitter = Splitter::with_keys_state(Default::default(), open_keys);
    splitter.handle_bytes(&craft(&seal_keys, FIRST, &plain));
    open_all(&mut splitter).map(|packets| packets[0].payload().len())
}

#[test]
fn padding_longer_than_the_packet_is_refused() {
    for suite in suites() {
        for padding in [32, 33, 40, 128, 254, 255] {
            let error = padding_outcome(suite, padding).unwrap_err();
            assert_eq!(error, PacketError::PaddingOutOfRange, "{suite:?} {padding}");
        }
    }
}

#[test]
fn padding_of_less_than_four_bytes_is_refused() {
    for suite in suites() {
        for padding in 0..4 {
            let error = padding_outcome(suite, padding).unwrap_err();
            assert_eq!(error, PacketError::PaddingOutOfRange, "{suite:?}");
        }
        assert!(padding_outcome(suite, 4).unwrap() >= 23);
    }
}

#[test]
fn packet_of_padding_alone_is_refused() {
    for suite in suites() {
        let outcomes: Vec<_> = (26..=31)
            .map(|padding| padding_outcome(suite, padding))
            .collect();
        let full = if outcomes[1] == Err(PacketError::EmptyPayload) {
            27
        } else {
            31
        };
        assert_eq!(
            padding_outcome(suite, full),
            Err(PacketError::EmptyPayload),
            "{suite:?}"
        );
        assert_eq!(padding_outcome(suite, full - 1), Ok(1));
        assert_eq!(
            padding_outcome(suite, full + 1),
            Err(PacketError::PaddingOutOfRange)
        );
    }
}

#[test]
fn a_changed_bit_anywhere_is_rejected() {
    for suite in encrypted_suites() {
        let (mut sequencer, _) = ends(Some(suite));
        let wire = seal(&mut sequencer, b"\x5eand some data of a channel");
        for at in 0..wire.len() {
            for bit in 0..8 {
                let mut changed = wire.clone();
                changed[at] ^= 1 << bit;
                let (_, mut splitter) = ends(Some(suite));
                splitter.handle_bytes(&changed);
                let result = open_all(&mut splitter).and_then(|opened| {
                    // The length changed to a longer packet: its end decides.
                    assert!(opened.is_empty() && at < 4, "{suite:?} byte {at}");
                    outcome(&mut splitter, &[])
                });
                assert!(result.is_err(), "{suite:?} byte {at} bit {bit}");
            }
        }
    }
}

#[test]
fn replayed_dropped_and_swapped_packets_are_rejected() {
    for suite in encrypted_suites() {
        let (mut sequencer, _) = ends(Some(suite));
        let packets: Vec<_> = (0..3u8)
            .map(|number| seal(&mut sequencer, &[number; 20]))
            .collect();
        for (order, good) in [(&[0, 0][..], 1), (&[1], 0), (&[0, 2], 1), (&[0, 1, 1], 2)] {
            let (_, mut splitter) = ends(Some(suite));
            for &at in order {
                splitter.handle_bytes(&packets[at]);
            }
            splitter.handle_bytes(&vec![0; MAX_PACKET_BYTES + 128]);
            for _ in 0..good {
                assert!(splitter.next().unwrap().unwrap().run().is_ok());
            }
            let next = splitter.next().and_then(|job| job.unwrap().run());
            assert!(next.is_err(), "{suite:?} {order:?}");
        }
    }
}

#[test]
fn a_cut_or_foreign_tag_is_rejected() {
    for suite in encrypted_suites() {
        let (seal_keys, open_keys) = keys(Some(suite), 0);
        let (foreign_keys, _) = keys(Some(suite), 1);
        let body: u32 = if open_keys.hides_unauthenticated_length() {
            28
        } else {
            32
        };
        let plain = framed(body, 4, &vec![1; body as usize - 1]);
        let tag_bytes = seal_keys.framing().tag_bytes;
        let mut wire = craft(&seal_keys, FIRST, &plain);
        let foreign = craft(&foreign_keys, FIRST, &plain);
        let packet_bytes = wire.len() - tag_bytes;
        wire[packet_bytes..].copy_from_slice(&foreign[packet_bytes..]);
        let mut splitter = Splitter::with_keys_state(Default::default(), open_keys);
        splitter.handle_bytes(&wire);
        assert_eq!(
            open_all(&mut splitter).unwrap_err(),
            PacketError::IntegrityFailed
        );
    }
}

/// CPNI-957037: a length that is encrypted but not authenticated tells nothing, whether it was
/// bad itself or led to a bad MAC.
#[test]
fn a_hidden_length_shows_neither_in_the_moment_nor_in_the_error() {
    for suite in encrypted_suites() {
        let (mut sequencer, splitter) = ends(Some(suite));
        if !keys(Some(suite), 0).1.hides_unauthenticated_length() {
            continue;
        }
        drop(splitter);
        let wire = seal(&mut sequencer, &[3; 100]);
        let tag_bytes = keys(Some(suite), 0).1.framing().tag_bytes;
        let fails_at = 4 + MAX_PACKET_BYTES + tag_bytes;
        // Bits of the length: too long, aligned but wrong, not aligned; and one of the content.
        for (at, bit) in [
            (0, 7),
            (1, 1),
            (2, 0),
            (3, 4),
            (3, 5),
            (3, 0),
            (3, 2),
            (20, 0),
        ] {
            let mut stream = wire.clone();
            stream[at] ^= 1 << bit;
            stream.resize(fails_at + 50, 0xa5);
            let (_, mut splitter) = ends(Some(suite));
            let mut fed = 0;
            let error = loop {
                // 1000 bytes at a time, and singly around the point.
                let step = if fed + 1000 < fails_at { 1000 } else { 1 };
                splitter.handle_bytes(&stream[fed..fed + step]);
                fed += step;
                match splitter.next() {
                    Ok(Some(job)) => {
                        let offset = job.stream_offset();
                        assert_eq!(job.run().unwrap_err(), PacketError::IntegrityFailed);
                        splitter.fail_at(offset);
                    }
                    Ok(None) => {}
                    Err(error) => break error,
                }
            };
            assert_eq!(
                (fed, error),
                (fails_at, PacketError::IntegrityFailed),
                "{suite:?} {at}"
            );
        }
    }
}

#[test]
fn discarding_holds_no_bytes() {
    let suite = sample_suites()[4];
    let (_, mut splitter) = ends(suite);
    let noise = Rng(5).bytes(4096);
    for _ in 0..1000 {
        splitter.handle_bytes(&noise);
        if splitter.next().is_err() {
            return;
        }
        assert!(splitter.unread().len() <= MAX_PACKET_BYTES + 4096);
    }
    unreachable!("the discard never ends");
}

#[test]
fn a_length_that_is_authenticated_or_in_clear_fails_at_once() {
    for suite in suites() {
        let (_, mut splitter) = ends(suite);
        if keys(suite, 0).1.hides_unauthenticated_length() {
            continue;
        }
        splitter.fail_at(0);
        assert_eq!(splitter.next().unwrap_err(), PacketError::IntegrityFailed);
    }
}

#[test]
fn nothing_behind_a_failure_is_split() {
    for suite in sample_suites() {
        let (mut sequencer, mut splitter) = ends(suite);
        let good = seal(&mut sequencer, &[1; 40]);
        splitter.handle_bytes(&good);
        let job = splitter.next().unwrap().unwrap();
        splitter.handle_bytes(&seal(&mut sequencer, &[2; 40]));
        splitter.fail_at(job.stream_offset());
        for _ in 0..3 {
            assert!(!matches!(splitter.next(), Ok(Some(_))), "{suite:?}");
            splitter.handle_bytes(&[0; 1000]);
        }
    }
    // The first error is the one that is told.
    let mut splitter = Splitter::new();
    splitter.handle_bytes(&[0, 0, 0, 0, 0, 0]);
    let first = splitter.next().unwrap_err();
    splitter.fail_at(0);
    splitter.handle_bytes(&[0; 64]);
    assert_eq!(splitter.next().unwrap_err(), first);
}

#[test]
fn random_bytes_never_panic_and_open_nothing() {
    for suite in suites() {
        for seed in 1..200 {
            let mut rng = Rng(seed);
            let (_, mut splitter) = ends(suite);
            let len = rng.below(2000);
            splitter.handle_bytes(&rng.bytes(len));
            while let Ok(Some(job)) = splitter.next() {
                let opened = job.run();
                assert!(opened.is_err() || suite.is_none(), "{suite:?}");
                if opened.is_err() {
                    break;
                }
            }
        }
    }
}
