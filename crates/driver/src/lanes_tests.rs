//! Lanes with real packets: the bytes equal those of a serial sender regardless of who runs the
//! jobs, and nothing is opened after a packet that fails.

use std::collections::VecDeque;
use std::sync::Arc;

use crypto::cipher::{CipherAlgorithm, CipherKind};
use crypto::mac::MacAlgorithm;
use packet::{OpenKeys, PacketBuf, PacketError, SealKeys, SealedPacket, Sequencer, Splitter};
use sys::epoll::Epoll;

use super::lanes::{CryptoThreads, LaneTerms, Lanes};

type Suite = (CipherAlgorithm, Option<MacAlgorithm>);

const SUITES: [Suite; 6] = [
    (CipherAlgorithm::Aes128Gcm, None),
    (CipherAlgorithm::ChaCha20Poly1305, None),
    (CipherAlgorithm::Aes128Ctr, Some(MacAlgorithm::Umac64Etm)),
    (
        CipherAlgorithm::Aes256Ctr,
        Some(MacAlgorithm::HmacSha256Etm),
    ),
    (CipherAlgorithm::Aes256Ctr, Some(MacAlgorithm::HmacSha512)),
    (CipherAlgorithm::Aes192Ctr, Some(MacAlgorithm::Umac128)),
];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

fn keys((cipher, mac): Suite, epoch: usize) -> (Arc<SealKeys>, Arc<OpenKeys>) {
    let bytes = |len: usize, salt: usize| -> Vec<u8> {
        (0..len)
            .map(|at| (at * 31 + salt + epoch * 57).to_le_bytes()[0])
            .collect()
    };
    let iv_len = match cipher.kind() {
        CipherKind::Ctr => 16,
        _ => cipher.iv_len(),
    };
    let (key, iv) = (bytes(cipher.key_len(), 1), bytes(iv_len, 2));
    let mac_key = bytes(mac.map_or(0, MacAlgorithm::key_len), 3);
    (
        Arc::new(SealKeys::new(cipher, mac, &key, &iv, &mac_key).unwrap()),
        Arc::new(OpenKeys::new(cipher, mac, &key, &iv, &mac_key).unwrap()),
    )
}

/// The payloads to send; the keys change each `rekey_every` packets.
struct Script {
    payloads: Vec<Vec<u8>>,
    rekey_every: usize,
}

impl Script {
    fn new(seed: u64, count: usize, rekey_every: usize) -> Self {
        let mut random = Random(seed);
        let payloads = (0..count)
            .map(|_| {
                let bound = [3, 200, 9000, 33_000][random.below(4)];
                let (len, first) = (1 + random.below(bound), random.below(256));
                (0..len)
                    .map(|at| (at * 7 + first).to_le_bytes()[0])
                    .collect()
            })
            .collect();
        Self {
            payloads,
            rekey_every,
        }
    }

    /// The suite and number of the keys that begin with packet `index`.
    fn keys_at(&self, index: usize) -> Option<(Arc<SealKeys>, Arc<OpenKeys>)> {
        let epoch = index / self.rekey_every;
        (index.is_multiple_of(self.rekey_every)).then(|| keys(SUITES[epoch % SUITES.len()], epoch))
    }

    fn serial(&self) -> Vec<u8> {
        let mut sequencer = Sequencer::with_padding_seed([9; 32]);
        let mut wire = Vec::new();
        for (index, payload) in self.payloads.iter().enumerate() {
            if let Some((seal, _)) = self.keys_at(index) {
                sequencer.set_keys(seal, true);
            }
            let job = sequencer.stamp(PacketBuf::from_payload(payload)).unwrap();
            wire.extend_from_slice(job.run().wire());
        }
        wire
    }
}

/// Lanes with `workers` workers, which get every batch.
fn lanes(workers: usize) -> (Lanes, Epoll) {
    let epoll = Epoll::new().unwrap();
    let mut lanes = Lanes::new();
    lanes.set_terms(LaneTerms {
        cores: Some(workers + 1),
        bulk_bytes: 0,
        share_bytes: 1,
        ..LaneTerms::new(CryptoThreads::AtMost(workers + 1))
    });
    lanes.update_workers(&epoll, 1).unwrap();
    (lanes, epoll)
}

/// Sends the script through the lane, pushing, helping and waiting at random.
fn sealed(script: &Script, workers: usize, seed: u64) -> Vec<u8> {
    let (mut lanes, _epoll) = lanes(workers);
    let mut random = Random(seed);
    let mut sequencer = Sequencer::with_padding_seed([9; 32]);
    let mut out: VecDeque<SealedPacket> = VecDeque::new();
    let mut next = 0;
    while next < script.payloads.len() || lanes.unsealed_bytes() > 0 {
        for _ in 0..random.below(20) {
            let Some(payload) = script.payloads.get(next).filter(|_| lanes.takes_seal()) else {
                break;
            };
            if let Some((seal, _)) = script.keys_at(next) {
                // Without a pause: batches in the lane have their own keys.
                sequencer.set_keys(seal, true);
            }
            lanes.push_seal(sequencer.stamp(PacketBuf::from_payload(payload)).unwrap());
            next += 1;
        }
        lanes.seal(&mut out).unwrap();
        match random.below(8) {
            0 => lanes.wait_sealed(),
            1 => {
                lanes.help();
            }
            2 => std::thread::yield_now(),
            _ => {}
        }
    }
    let report = lanes.report();
    assert!(report.workers <= workers);
    assert!(report.sealed.by_workers == 0 || report.workers > 0);
    out.iter()
        .flat_map(|packet| packet.wire().to_vec())
        .collect()
}

#[test]
fn the_wire_is_that_of_a_serial_sender_with_new_keys_at_any_packet() {
    for rekey_every in [1, 2, 3, 7, 50, 1000] {
        let script = Script::new(rekey_every as u64, 300, rekey_every);
        let wanted = script.serial();
        for (workers, seed) in [(0, 1), (1, 2), (1, 3), (3, 4), (3, 5)] {
            assert!(
                sealed(&script, workers, seed) == wanted,
                "{workers} workers, keys every {rekey_every}"
            );
        }
    }
}

/// Output of the open lane for a stream: payloads, then perhaps an error.
fn opened(
    script: &Script,
    wire: &[u8],
    workers: usize,
    seed: u64,
) -> (Vec<Vec<u8>>, Option<PacketError>) {
    let (mut lanes, _epoll) = lanes(workers);
    let mut random = Random(seed);
    let mut splitter = Splitter::new();
    splitter.handle_bytes(wire);
    let (mut split, mut payloads) = (0, Vec::new());
    let mut broken = false;
    loop {
        for _ in 0..random.below(20) {
            if !lanes.takes_open() || broken {
                break;
            }
            // The connection learns of new keys by dispatching a packet; here the script knows
            // them.
            if let Some((_, open)) = script.keys_at(split) {
                splitter.set_keys(open, true);
            }
            match splitter.next() {
                Ok(Some(job)) => {
                    split += 1;
                    lanes.push_open(job);
                }
                Ok(None) | Err(_) => broken = true,
            }
        }
        lanes.open().unwrap();
        if random.below(4) == 0 {
            lanes.help();
        }
        while let Some(opened) = lanes.next_opened() {
            match opened {
                Ok(packet) => payloads.push(packet.into_payload().to_vec()),
                Err(error) => {
                    // Give a wrong result time to appear.
                    while lanes.help() {}
                    lanes.open().unwrap();
                    assert!(lanes.next_opened().is_none(), "opened after a failure");
                    return (payloads, Some(error));
                }
            }
        }
        if broken && lanes.is_open_empty() {
            return (payloads, None);
        }
    }
}

#[test]
fn what_is_opened_by_workers_comes_in_order_through_new_keys() {
    for rekey_every in [1, 5, 1000] {
        let script = Script::new(77 + rekey_every as u64, 200, rekey_every);
        let wire = script.serial();
        for (workers, seed) in [(0, 1), (1, 2), (3, 3)] {
            let (payloads, error) = opened(&script, &wire, workers, seed);
            assert_eq!(error, None);
            assert!(payloads == script.payloads, "{workers} workers");
        }
    }
}

#[test]
fn a_packet_that_fails_is_the_last_thing_seen() {
    // A stream under AES-GCM alone, and one that changes suites.
    for (rekey_every, damaged) in [(1000, 40), (1000, 0), (1000, 99), (20, 45)] {
        let script = Script::new(5, 100, rekey_every);
        let wire = script.serial();
        let end: usize = {
            let head = Script {
                payloads: script.payloads[..=damaged].to_vec(),
                rekey_every,
            };
            head.serial().len()
        };
        let mut wire = wire;
        // The last byte of the MAC or tag.
        wire[end - 1] ^= 1;
        for (workers, seed) in [(0, 1), (1, 2), (3, 3), (3, 4)] {
            let (payloads, error) = opened(&script, &wire, workers, seed);
            assert_eq!(error, Some(PacketError::IntegrityFailed));
            assert!(payloads == script.payloads[..damaged], "{workers} workers");
        }
    }
}

#[test]
fn workers_come_with_bulk_only_and_only_where_there_are_cores() {
    let epoll = Epoll::new().unwrap();
    let share = |cores: usize, threads: CryptoThreads, bulk_bytes: u64| {
        let mut lanes = Lanes::new();
        lanes.set_terms(LaneTerms {
            cores: Some(cores),
            bulk_bytes,
            share_bytes: 1,
            threads,
            compress_threads: threads,
        });
        let mut sequencer = Sequencer::with_padding_seed([9; 32]);
        let mut out = VecDeque::new();
        for _ in 0..20 {
            lanes.update_workers(&epoll, 7).unwrap();
            let buf = PacketBuf::from_payload(&[1; 1000]);
            lanes.push_seal(sequencer.stamp(buf).unwrap());
            lanes.seal(&mut out).unwrap();
            lanes.wait_sealed();
        }
        lanes.seal(&mut out).unwrap();
        assert_eq!(out.len(), 20);
        lanes.report().workers
    };
    assert_eq!(share(4, CryptoThreads::AtMost(1), 0), 0);
    assert_eq!(share(1, CryptoThreads::AtMost(8), 0), 0);
    assert_eq!(share(1, CryptoThreads::Auto, 0), 0);
    assert_eq!(share(4, CryptoThreads::AtMost(3), 1 << 20), 0, "no bulk");
    // Not before a trial period.
    assert_eq!(share(4, CryptoThreads::Auto, 0), 0);
    let workers = share(4, CryptoThreads::AtMost(3), 0);
    assert!((1..=2).contains(&workers), "{workers}");
}

/// The affinity mask is one core, so no other setting is needed.
#[test]
fn a_process_on_one_core_has_no_worker() {
    std::thread::spawn(|| {
        let first = sys::process::affinity().unwrap()[0];
        sys::process::set_affinity(&[first]).unwrap();
        let epoll = Epoll::new().unwrap();
        let mut lanes = Lanes::new();
        lanes.set_terms(LaneTerms {
            bulk_bytes: 0,
            share_bytes: 1,
            ..LaneTerms::new(CryptoThreads::AtMost(8))
        });
        let mut out = VecDeque::new();
        let mut sequencer = Sequencer::with_padding_seed([9; 32]);
        for _ in 0..20 {
            lanes.update_workers(&epoll, 1).unwrap();
            let buf = PacketBuf::from_payload(&[1; 100_000]);
            lanes.push_seal(sequencer.stamp(buf).unwrap());
            lanes.seal(&mut out).unwrap();
        }
        assert_eq!(out.len(), 20);
        assert_eq!(lanes.report().workers, 0);
        assert_eq!(lanes.report().sealed.in_place, 20);
    })
    .join()
    .unwrap();
}

#[test]
fn what_stands_in_a_lane_goes_on_without_workers_however_busy_the_owner_is() {
    let (mut lanes, _epoll) = lanes(1);
    let mut sequencer = Sequencer::with_padding_seed([9; 32]);
    sequencer.set_keys(keys(SUITES[0], 0).0, true);
    let mut out = VecDeque::new();
    // Existing workers run it.
    assert!(!lanes.help_alone());
    lanes.strand(
        sequencer
            .stamp(PacketBuf::from_payload(b"payload"))
            .unwrap(),
        &mut out,
    );
    lanes.seal(&mut out).unwrap();
    assert!(out.is_empty());
    assert!(lanes.help_alone());
    lanes.seal(&mut out).unwrap();
    assert_eq!(out.len(), 1);
    assert!(!lanes.help_alone());
}
