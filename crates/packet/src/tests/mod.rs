//! Tests of the whole data path. This file has the suites, a generator of random values, and both
//! ends of a connection.
#![allow(clippy::cast_possible_truncation)] // Test data is cut on purpose.

mod batch;
mod buf;
mod hostile;
mod limits;
mod order;
mod sequencer;
mod vectors;

use alloc::sync::Arc;
use alloc::vec::Vec;
use std::prelude::v1::*;

use crypto::cipher::{CIPHERS, CipherAlgorithm, CipherKind};
use crypto::mac::{MACS, MacAlgorithm};

use crate::ctr_mac::RawPacket;
use crate::position::Stamp;
use crate::{OpenKeys, OpenedPacket, PacketBuf, PacketError, SealKeys, Sequencer, Splitter};

/// A cipher with its MAC; `None` before the first NEWKEYS.
pub(super) type Suite = Option<(CipherAlgorithm, Option<MacAlgorithm>)>;

/// Every cipher with every MAC that it can use, and no cipher.
pub(super) fn suites() -> Vec<Suite> {
    let mut all = vec![None];
    all.extend(encrypted_suites().into_iter().map(Some));
    all
}

pub(super) fn encrypted_suites() -> Vec<(CipherAlgorithm, Option<MacAlgorithm>)> {
    let mut all = Vec::new();
    for cipher in CIPHERS {
        if cipher.algorithm.needs_mac() {
            all.extend(
                MACS.iter()
                    .map(|mac| (cipher.algorithm, Some(mac.algorithm))),
            );
        } else {
            all.push((cipher.algorithm, None));
        }
    }
    all
}

/// One suite for each kind of framing.
pub(super) fn sample_suites() -> Vec<Suite> {
    vec![
        None,
        Some((CipherAlgorithm::Aes128Gcm, None)),
        Some((CipherAlgorithm::ChaCha20Poly1305, None)),
        Some((CipherAlgorithm::Aes128Ctr, Some(MacAlgorithm::Umac64Etm))),
        Some((CipherAlgorithm::Aes256Ctr, Some(MacAlgorithm::HmacSha256))),
        Some((
            CipherAlgorithm::Aes128Cbc,
            Some(MacAlgorithm::HmacSha256Etm),
        )),
        Some((
            CipherAlgorithm::TripleDesCbc,
            Some(MacAlgorithm::HmacMd5Truncated),
        )),
    ]
}

/// The keys of both ends for `suite`; each `epoch` has different keys.
pub(super) fn keys(suite: Suite, epoch: u8) -> (Arc<SealKeys>, Arc<OpenKeys>) {
    let Some((cipher, mac)) = suite else {
        return (Arc::new(SealKeys::none()), Arc::new(OpenKeys::none()));
    };
    let bytes = |len: usize, salt: u8| -> Vec<u8> {
        (0..len)
            .map(|at| (at as u8).wrapping_mul(31) ^ salt ^ epoch.wrapping_mul(57))
            .collect()
    };
    let key = bytes(cipher.key_len(), 1);
    // A CTR IV of all ones: the carry crosses all 128 bits at once.
    let iv = match cipher.kind() {
        CipherKind::Ctr => vec![0xff; 16],
        _ => bytes(cipher.iv_len(), 2),
    };
    let mac_key = bytes(mac.map_or(0, MacAlgorithm::key_len), 3);
    (
        Arc::new(SealKeys::new(cipher, mac, &key, &iv, &mac_key).unwrap()),
        Arc::new(OpenKeys::new(cipher, mac, &key, &iv, &mac_key).unwrap()),
    )
}

pub(super) fn ends(suite: Suite) -> (Sequencer, Splitter) {
    let (seal, open) = keys(suite, 0);
    let (mut sequencer, mut splitter) = (Sequencer::with_padding_seed([7; 32]), Splitter::new());
    sequencer.set_keys(seal, false);
    splitter.set_keys(open, false);
    (sequencer, splitter)
}

/// The packet as a serial sender puts it on the wire.
pub(super) fn seal(sequencer: &mut Sequencer, payload: &[u8]) -> Vec<u8> {
    let job = sequencer.stamp(PacketBuf::from_payload(payload)).unwrap();
    job.run().wire().to_vec()
}

/// Opens all complete packets, in order.
pub(super) fn open_all(splitter: &mut Splitter) -> Result<Vec<OpenedPacket>, PacketError> {
    let mut opened = Vec::new();
    while let Some(job) = splitter.next()? {
        opened.push(job.run()?);
    }
    Ok(opened)
}

/// Seals arbitrary plaintext under `keys`, as a malicious peer that holds the keys can.
pub(super) fn craft(keys: &SealKeys, stamp: Stamp, plain: &[u8]) -> Vec<u8> {
    let mut packet = plain.to_vec();
    let mut tag = vec![0; keys.framing().tag_bytes];
    keys.seal(&mut RawPacket {
        stamp,
        packet: &mut packet,
        tag: &mut tag,
    });
    packet.extend(tag);
    packet
}

pub(super) const FIRST: Stamp = Stamp {
    sequence: 0,
    invocation: 0,
    block: 0,
};

/// xorshift64*.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 33) as usize) % bound
    }

    pub(super) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| (self.next() >> 56) as u8).collect()
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// Number of rounds of random input: `usual`, or fewer if `FULMAR_TEST_ROUNDS` limits it, because
/// an emulator is 20 times slower.
fn rounds(usual: u64) -> u64 {
    let most = std::env::var("FULMAR_TEST_ROUNDS").ok();
    usual.min(most.and_then(|most| most.parse().ok()).unwrap_or(usual))
}
