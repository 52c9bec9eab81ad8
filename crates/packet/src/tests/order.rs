//! Order: jobs may run in any order on any thread, bytes may arrive in any pieces, keys may change
//! at any packet, and the transcript is always that of a serial sender and receiver.

use std::prelude::v1::*;
use std::thread;

use super::{Rng, Suite, ends, keys, open_all, sample_suites, seal, suites};
use crate::{PacketBuf, SealedPacket, Sequencer, Splitter};

fn payloads(rng: &mut Rng, count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|_| {
            let len = match rng.below(4) {
                0 => 1 + rng.below(8),
                1 => 1 + rng.below(300),
                2 => 1 + rng.below(5000),
                _ => 1 + rng.below(40_000),
            };
            rng.bytes(len)
        })
        .collect()
}

fn serial(suite: Suite, payloads: &[Vec<u8>]) -> Vec<u8> {
    let (mut sequencer, _) = ends(suite);
    payloads
        .iter()
        .flat_map(|payload| seal(&mut sequencer, payload))
        .collect()
}

#[test]
fn everything_that_crosses_threads_is_send() {
    fn send<T: Send>() {}
    fn send_sync<T: Send + Sync>() {}
    send::<crate::SealJob>();
    send::<SealedPacket>();
    send::<crate::OpenJob>();
    send::<crate::OpenedPacket>();
    send::<Sequencer>();
    send::<Splitter>();
    send_sync::<crate::SealKeys>();
    send_sync::<crate::OpenKeys>();
}

#[test]
fn seal_jobs_in_any_order_give_the_serial_bytes() {
    for suite in suites() {
        let mut rng = Rng(11);
        let payloads = payloads(&mut rng, 24);
        let expected = serial(suite, &payloads);
        for _ in 0..3 {
            let (mut sequencer, _) = ends(suite);
            let mut jobs: Vec<_> = payloads
                .iter()
                .map(|payload| sequencer.stamp(PacketBuf::from_payload(payload)).unwrap())
                .enumerate()
                .collect();
            rng.shuffle(&mut jobs);
            let mut sealed: Vec<_> = jobs.into_iter().map(|(at, job)| (at, job.run())).collect();
            sealed.sort_by_key(|(at, _)| *at);
            let wire: Vec<u8> = sealed
                .iter()
                .flat_map(|(_, packet)| packet.wire().to_vec())
                .collect();
            assert!(wire == expected, "{suite:?}");
        }
    }
}

#[test]
fn open_jobs_in_any_order_give_the_payloads() {
    for suite in suites() {
        let mut rng = Rng(12);
        let payloads = payloads(&mut rng, 24);
        let (_, mut splitter) = ends(suite);
        splitter.handle_bytes(&serial(suite, &payloads));
        let mut jobs = Vec::new();
        while let Some(job) = splitter.next().unwrap() {
            jobs.push(job);
        }
        assert_eq!(jobs.len(), payloads.len());
        rng.shuffle(&mut jobs);
        for job in jobs {
            let sequence = job.sequence();
            let packet = job.run().unwrap();
            assert_eq!(packet.sequence(), sequence);
            assert_eq!(packet.payload(), payloads[sequence as usize]);
            assert_eq!(packet.into_payload(), payloads[sequence as usize]);
        }
    }
}

#[test]
fn jobs_on_threads_give_the_serial_bytes_and_payloads() {
    for suite in sample_suites() {
        let mut rng = Rng(13);
        let payloads = payloads(&mut rng, 40);
        let (mut sequencer, mut splitter) = ends(suite);
        let jobs: Vec<_> = payloads
            .iter()
            .map(|payload| sequencer.stamp(PacketBuf::from_payload(payload)).unwrap())
            .collect();
        let wire = on_four_threads(jobs, |job| job.run().wire().to_vec()).concat();
        assert!(wire == serial(suite, &payloads), "{suite:?}");
        splitter.handle_bytes(&wire);
        let mut jobs = Vec::new();
        while let Some(job) = splitter.next().unwrap() {
            jobs.push(job);
        }
        let opened = on_four_threads(jobs, |job| job.run().unwrap().into_payload().to_vec());
        assert!(opened == payloads, "{suite:?}");
    }
}

/// Runs job `n` on thread `n % 4` and returns the results in order.
fn on_four_threads<J: Send, R: Send>(jobs: Vec<J>, run: impl Fn(J) -> R + Sync) -> Vec<R> {
    let mut lanes: [Vec<(usize, J)>; 4] = Default::default();
    for (at, job) in jobs.into_iter().enumerate() {
        lanes[at % 4].push((at, job));
    }
    let run = &run;
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let threads = lanes.map(|lane| {
            scope.spawn(move || {
                lane.into_iter()
                    .map(|(at, job)| (at, run(job)))
                    .collect::<Vec<_>>()
            })
        });
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[test]
fn delivery_byte_by_byte() {
    for suite in suites() {
        let payloads: Vec<Vec<u8>> = (1..80).map(|len| vec![len as u8; len]).collect();
        let (_, mut splitter) = ends(suite);
        let mut received = Vec::new();
        for byte in serial(suite, &payloads) {
            splitter.handle_bytes(&[byte]);
            received.extend(open_all(&mut splitter).unwrap());
        }
        assert_eq!(received.len(), payloads.len());
        for (packet, payload) in received.iter().zip(&payloads) {
            assert_eq!(packet.payload(), payload, "{suite:?}");
        }
        assert!(splitter.unread().is_empty());
    }
}

#[test]
fn delivery_cut_and_merged_anywhere() {
    for suite in sample_suites() {
        let mut rng = Rng(14);
        let payloads = payloads(&mut rng, 60);
        let wire = serial(suite, &payloads);
        for _ in 0..5 {
            let (_, mut splitter) = ends(suite);
            let (mut rest, mut received) = (&wire[..], Vec::new());
            while !rest.is_empty() {
                let bound = [3, 100, 5000, 200_000][rng.below(4)];
                let (piece, after) = rest.split_at((1 + rng.below(bound)).min(rest.len()));
                splitter.handle_bytes(piece);
                rest = after;
                if rng.below(3) > 0 {
                    received.extend(open_all(&mut splitter).unwrap());
                }
            }
            received.extend(open_all(&mut splitter).unwrap());
            let received: Vec<_> = received
                .into_iter()
                .map(|packet| packet.into_payload())
                .collect();
            assert!(received == payloads, "{suite:?}");
        }
    }
}

#[test]
fn every_payload_length_around_the_blocks() {
    for suite in suites() {
        let (mut sequencer, mut splitter) = ends(suite);
        for len in (1..=300).chain([32 * 1024 + 9, 256 * 1024 - 64]) {
            let payload = vec![len as u8; len];
            splitter.handle_bytes(&seal(&mut sequencer, &payload));
            let opened = open_all(&mut splitter).unwrap();
            assert_eq!(opened.len(), 1);
            assert_eq!(opened[0].payload(), payload, "{suite:?} {len}");
        }
        assert_eq!(splitter.position(), sequencer.position());
    }
}

/// A rekey from each suite to each other at each packet, strict or not; jobs of the old epoch run
/// after the key change, and bytes of the new epoch arrive before it.
#[test]
fn keys_change_at_any_packet() {
    let suites = sample_suites();
    for (at, &from) in suites.iter().enumerate() {
        for &to in &suites {
            let strict = at % 2 == 0;
            for change in 0..5 {
                let ((seal_1, open_1), (seal_2, open_2)) = (keys(from, 1), keys(to, 2));
                let (mut sequencer, mut splitter) =
                    (Sequencer::with_padding_seed([1; 32]), Splitter::new());
                sequencer.set_keys(seal_1, false);
                splitter.set_keys(open_1, false);
                let mut jobs = Vec::new();
                for number in 0..6usize {
                    if number == change {
                        sequencer.set_keys(seal_2.clone(), strict);
                        assert_eq!(
                            (sequencer.position().packets, sequencer.position().bytes),
                            (0, 0)
                        );
                    }
                    let buf = PacketBuf::from_payload(&vec![number as u8; 100 * number + 1]);
                    jobs.push(sequencer.stamp(buf).unwrap());
                }
                for job in jobs {
                    splitter.handle_bytes(job.run().wire());
                }
                let mut jobs = Vec::new();
                for number in 0..6 {
                    if number == change {
                        splitter.set_keys(open_2.clone(), strict);
                    }
                    jobs.push(splitter.next().unwrap().unwrap());
                }
                for (number, job) in jobs.into_iter().enumerate().rev() {
                    let opened = job.run().unwrap();
                    assert_eq!(opened.payload(), vec![number as u8; 100 * number + 1]);
                    let expected = if strict && number >= change {
                        number - change
                    } else {
                        number
                    };
                    assert_eq!(opened.sequence() as usize, expected);
                }
                assert_eq!(splitter.position(), sequencer.position());
            }
        }
    }
}

/// The splitter may have decrypted the next packet's length with the old keys before `set_keys`:
/// the new epoch must not be affected.
#[test]
fn a_length_read_with_former_keys_is_forgotten() {
    for to in suites() {
        let (seal_2, open_2) = keys(to, 2);
        let (mut sequencer, mut splitter) = (Sequencer::new(), Splitter::new());
        sequencer.set_keys(seal_2, false);
        let wire = seal(&mut sequencer, &[9; 50]);
        // The first bytes are a valid length if read without keys.
        splitter.handle_bytes(&[0, 0, 1, 4]);
        assert!(splitter.next().unwrap().is_none());
        splitter.set_keys(open_2, false);
        assert_eq!(splitter.unread(), [0, 0, 1, 4]);
        let mut fresh = Splitter::with_keys_state(splitter.position(), keys(to, 2).1);
        fresh.handle_bytes(&wire);
        assert_eq!(open_all(&mut fresh).unwrap()[0].payload(), [9; 50]);
    }
}

/// A connection is transferred to another process in the middle of a packet.
#[test]
fn export_and_import_go_on_with_unread_bytes() {
    for suite in suites() {
        for cut in [0, 1, 3, 4, 15, 16, 17, 40] {
            let (mut sequencer, mut splitter) = ends(suite);
            let mut wire = seal(&mut sequencer, &[1; 100]);
            let first = wire.len();
            wire.extend(seal(&mut sequencer, &[2; 33]));
            splitter.handle_bytes(&wire[..first + cut]);
            assert_eq!(open_all(&mut splitter).unwrap().len(), 1);
            assert_eq!(splitter.unread(), &wire[first..first + cut], "as they came");

            let (seal_keys, open_keys) = keys(suite, 0);
            let mut resumed = Splitter::with_keys_state(splitter.position(), open_keys);
            resumed.handle_bytes(splitter.unread());
            assert!(open_all(&mut resumed).unwrap().is_empty());
            resumed.handle_bytes(&wire[first + cut..]);
            let mut sender = Sequencer::import(sequencer.position(), seal_keys);
            resumed.handle_bytes(&seal(&mut sender, &[3; 7]));
            let opened = open_all(&mut resumed).unwrap();
            assert_eq!(opened[0].payload(), [2; 33]);
            assert_eq!(opened[1].payload(), [3; 7]);
            assert_eq!(opened[1].sequence(), 2);
        }
    }
}
