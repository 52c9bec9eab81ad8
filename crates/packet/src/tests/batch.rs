//! A batch has the same results as its jobs run singly, for any mixture of suites, up to the first
//! failure.

use alloc::sync::Arc;
use std::prelude::v1::*;

use super::{Rng, Suite, ends, keys, sample_suites, suites};
use crate::{
    OpenJob, OpenedPacket, PacketBuf, PacketError, SealJob, Sequencer, Splitter, open_batch,
    seal_batch,
};

/// The suites with a MAC that is computed over many packets at once, and one suite of each other
/// kind.
fn mixed_suites() -> Vec<Suite> {
    let hmac = suites().into_iter().filter(|suite| {
        suite.is_some_and(|(_, mac)| mac.is_some_and(|mac| mac.name().starts_with("hmac-")))
    });
    hmac.chain(sample_suites()).collect()
}

fn payload(rng: &mut Rng) -> Vec<u8> {
    let bound = [8, 300, 5000, 40_000][rng.below(4)];
    let len = 1 + rng.below(bound);
    rng.bytes(len)
}

/// Both ends with the same changes of keys, and the payloads sent.
struct Direction {
    sequencer: Sequencer,
    splitter: Splitter,
    payloads: Vec<Vec<u8>>,
}

impl Direction {
    fn new() -> Self {
        let (sequencer, splitter) = ends(None);
        Self {
            sequencer,
            splitter,
            payloads: Vec::new(),
        }
    }

    /// Jobs of `counts.len()` epochs with the numbers of packets in `counts`.
    fn jobs(&mut self, rng: &mut Rng, counts: &[usize], mut epochs: Vec<Suite>) -> Vec<SealJob> {
        let mut jobs = Vec::new();
        for (epoch, count) in counts.iter().enumerate() {
            rng.shuffle(&mut epochs);
            let (seal, _) = keys(epochs[0], epoch as u8);
            self.sequencer.set_keys(seal, rng.below(2) == 0);
            for _ in 0..*count {
                let payload = payload(rng);
                jobs.push(
                    self.sequencer
                        .stamp(PacketBuf::from_payload(&payload))
                        .unwrap(),
                );
                self.payloads.push(payload);
            }
        }
        jobs
    }
}

fn wire(sealed: Vec<crate::SealedPacket>) -> Vec<Vec<u8>> {
    sealed.iter().map(|packet| packet.wire().to_vec()).collect()
}

#[test]
fn a_sealed_batch_has_the_bytes_of_each_job_alone() {
    for round in 0..super::rounds(60) {
        let mut rng = Rng(100 + round);
        let counts: Vec<_> = (0..1 + rng.below(4)).map(|_| rng.below(45)).collect();
        let serial: Vec<_> = {
            let jobs = Direction::new().jobs(&mut Rng(round + 1), &counts, mixed_suites());
            jobs.into_iter().map(SealJob::run).collect()
        };
        let mut jobs = Direction::new().jobs(&mut Rng(round + 1), &counts, mixed_suites());
        let mut sealed = Vec::new();
        seal_batch(&mut jobs, &mut sealed);
        assert!(jobs.is_empty());
        assert!(wire(sealed) == wire(serial), "round {round}");
    }
}

/// The jobs that open a direction under a sequence of suites.
fn received(rng: &mut Rng, epochs: &[(Suite, usize)]) -> (Vec<OpenJob>, Vec<Vec<u8>>) {
    let mut both = Direction::new();
    let mut jobs = Vec::new();
    for (epoch, (suite, count)) in epochs.iter().enumerate() {
        let (seal, open) = keys(*suite, epoch as u8);
        both.sequencer.set_keys(seal, false);
        both.splitter.set_keys(open, false);
        for _ in 0..*count {
            let payload = payload(rng);
            let job = both
                .sequencer
                .stamp(PacketBuf::from_payload(&payload))
                .unwrap();
            both.splitter.handle_bytes(job.run().wire());
            jobs.push(both.splitter.next().unwrap().unwrap());
            both.payloads.push(payload);
        }
    }
    (jobs, both.payloads)
}

fn outcome(opened: &Result<OpenedPacket, PacketError>) -> Result<(u32, Vec<u8>), PacketError> {
    match opened {
        Ok(packet) => Ok((packet.sequence(), packet.payload().to_vec())),
        Err(error) => Err(*error),
    }
}

#[test]
fn an_opened_batch_is_what_each_job_alone_gives_up_to_the_first_failure() {
    let suites = mixed_suites();
    for round in 0..super::rounds(120) {
        let mut rng = Rng(500 + round);
        let epochs: Vec<_> = (0..1 + rng.below(4))
            .map(|_| (suites[rng.below(suites.len())], rng.below(45)))
            .collect();
        let (mut jobs, payloads) = received(&mut Rng(round + 1), &epochs);
        let (mut alone, _) = received(&mut Rng(round + 1), &epochs);
        // Up to three changed bits: in the body, in the padding or in the MAC.
        let changes = rng.below(4).min(jobs.len());
        for _ in 0..changes {
            let at = rng.below(jobs.len());
            let byte = rng.below(jobs[at].packet.len());
            let bit = 1 << rng.below(8);
            jobs[at].packet[byte] ^= bit;
            alone[at].packet[byte] ^= bit;
        }
        let mut expected = Vec::new();
        for job in alone {
            let result = outcome(&job.run());
            let failed = result.is_err();
            expected.push(result);
            if failed {
                break;
            }
        }
        let mut opened = Vec::new();
        open_batch(&mut jobs, &mut opened);
        assert!(jobs.is_empty());
        let results: Vec<_> = opened.iter().map(outcome).collect();
        assert!(results == expected, "round {round}: {epochs:?}");
        if changes == 0 {
            let opened: Vec<_> = results
                .into_iter()
                .map(|result| result.unwrap().1)
                .collect();
            assert!(opened == payloads, "round {round}");
        }
    }
}

/// Tests each position in a batch, with both orders of cipher and MAC.
#[test]
fn the_first_wrong_mac_of_a_batch_ends_it_wherever_it_stands() {
    let in_batches = |suite: &Suite| suite.is_some() && !keys(*suite, 0).1.chains();
    for suite in mixed_suites().into_iter().filter(in_batches) {
        for bad in 0..40 {
            let (mut jobs, payloads) = received(&mut Rng(7), &[(suite, 40)]);
            for (at, job) in jobs.iter_mut().enumerate() {
                if at == bad || (at > bad && at % 3 == 0) {
                    let last = job.packet.len() - 1;
                    job.packet[last] ^= 0x80;
                }
            }
            let mut opened = Vec::new();
            open_batch(&mut jobs, &mut opened);
            assert_eq!(opened.len(), bad + 1, "{suite:?}");
            let last = opened.pop().unwrap();
            assert_eq!(last.unwrap_err(), PacketError::IntegrityFailed);
            for (result, payload) in opened.iter().zip(&payloads) {
                assert_eq!(result.as_ref().unwrap().payload(), payload);
            }
        }
    }
}

#[test]
fn a_batch_ends_at_a_verified_packet_that_is_malformed() {
    for suite in [mixed_suites()[0], mixed_suites()[5]] {
        let (seal, open) = keys(suite, 0);
        let (mut jobs, _) = received(&mut Rng(8), &[(suite, 12)]);
        // Replaces packet 3 with an authentic one that contains only padding.
        let stamp = jobs[3].stamp;
        let mut plain = vec![27; 32];
        plain[..5].copy_from_slice(&[0, 0, 0, 28, 27]);
        jobs[3].packet = super::craft(&seal, stamp, &plain)[..].into();
        jobs[3].keys = Arc::clone(&open);
        let mut opened = Vec::new();
        open_batch(&mut jobs, &mut opened);
        assert_eq!(opened.len(), 4, "{suite:?}");
        assert_eq!(opened[3].as_ref().unwrap_err(), &PacketError::EmptyPayload);
        assert!(opened[..3].iter().all(Result::is_ok));
    }
}

#[test]
fn results_are_appended_to_what_is_there() {
    let suite = mixed_suites()[0];
    let mut both = Direction::new();
    let mut jobs = both.jobs(&mut Rng(9), &[3], vec![suite]);
    let mut sealed = Vec::new();
    seal_batch(&mut jobs, &mut sealed);
    jobs.extend(both.jobs(&mut Rng(10), &[2], vec![suite]));
    seal_batch(&mut jobs, &mut sealed);
    assert_eq!(sealed.len(), 5);
    let (mut jobs, _) = received(&mut Rng(9), &[(suite, 3)]);
    let mut opened = Vec::new();
    open_batch(&mut jobs, &mut opened);
    let (more, _) = received(&mut Rng(9), &[(suite, 2)]);
    jobs.extend(more);
    open_batch(&mut jobs, &mut opened);
    assert_eq!(opened.len(), 5);
    open_batch(&mut jobs, &mut opened);
    assert_eq!(opened.len(), 5);
}
