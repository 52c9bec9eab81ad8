//! Memory of the data path, counted by the allocator: no allocation per packet in steady state, and
//! a bound on the memory that a peer can pin.
//!
//! One test function, because live bytes are counted for the whole process.

#[path = "../../../tests/counting_allocator.rs"]
#[allow(dead_code, reason = "each program uses a part of it")]
mod counting_allocator;

use counting_allocator::{CALLS, LIVE_BYTES};

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crypto::cipher::{CIPHERS, CipherAlgorithm};
use crypto::mac::{MACS, MacAlgorithm};
use packet::{
    BufPool, OpenJob, OpenKeys, OpenedPacket, PacketBuf, PacketError, SealJob, SealKeys,
    SealedPacket, Sequencer, Splitter, open_batch, seal_batch,
};

type Opened = Result<OpenedPacket, PacketError>;

fn ends(cipher: CipherAlgorithm, mac: Option<MacAlgorithm>) -> (Sequencer, Splitter) {
    let key = vec![1; cipher.key_len()];
    let iv = vec![2; cipher.iv_len()];
    let mac_key = vec![3; mac.map_or(0, MacAlgorithm::key_len)];
    let (mut sequencer, mut splitter) = (Sequencer::new(), Splitter::new());
    let seal = SealKeys::new(cipher, mac, &key, &iv, &mac_key).unwrap();
    let open = OpenKeys::new(cipher, mac, &key, &iv, &mac_key).unwrap();
    sequencer.set_keys(Arc::new(seal), true);
    splitter.set_keys(Arc::new(open), true);
    (sequencer, splitter)
}

/// Sends `packets` of 32 KiB through both ends and returns the number of allocations.
fn bulk(
    (sequencer, splitter): (&mut Sequencer, &mut Splitter),
    pool: &mut BufPool,
    packets: usize,
) -> usize {
    let before = CALLS.get();
    let mut received = 0;
    for number in 0..packets {
        let mut buf = pool.take(32 * 1024);
        buf.fill_with(32 * 1024, |space| {
            space[0] = 94;
            Ok::<_, ()>(space.len())
        })
        .unwrap();
        buf.prepend(&[94, 0, 0, 0, 0, 0, 0, 0x80, 0]);
        let sealed = sequencer.stamp(buf).unwrap().run();
        // A socket's read ends anywhere.
        let (head, tail) = sealed.wire().split_at(number * 613 % 30_000);
        splitter.receive_buffer().extend_from_slice(head);
        while let Some(job) = splitter.next().unwrap() {
            received += job.run().unwrap().into_payload().len();
        }
        splitter.receive_buffer().extend_from_slice(tail);
        pool.give(sealed.into_buf());
    }
    while let Some(job) = splitter.next().unwrap() {
        received += job.run().unwrap().into_payload().len();
    }
    assert_eq!(received, packets * (32 * 1024 + 9));
    CALLS.get() - before
}

fn no_allocation_per_packet_in_steady_state() {
    for cipher in CIPHERS {
        let macs: Vec<_> = match cipher.algorithm.needs_mac() {
            true => MACS.iter().map(|mac| Some(mac.algorithm)).collect(),
            false => vec![None],
        };
        for mac in macs {
            let (mut sequencer, mut splitter) = ends(cipher.algorithm, mac);
            let mut pool = BufPool::new(4);
            bulk((&mut sequencer, &mut splitter), &mut pool, 40);
            let calls = bulk((&mut sequencer, &mut splitter), &mut pool, 200);
            assert_eq!(calls, 0, "{} {:?}", cipher.name, mac);
        }
    }
}

/// Like `bulk`, in batches with reused vectors.
fn bulk_in_batches(
    (sequencer, splitter): (&mut Sequencer, &mut Splitter),
    pool: &mut BufPool,
    (jobs, sealed): (&mut Vec<SealJob>, &mut Vec<SealedPacket>),
    (open_jobs, opened): (&mut Vec<OpenJob>, &mut Vec<Opened>),
    batches: usize,
) -> usize {
    let before = CALLS.get();
    let mut received = 0;
    for _ in 0..batches {
        for _ in 0..16 {
            let mut buf = pool.take(32 * 1024);
            buf.fill_with(32 * 1024, |space| {
                space[0] = 94;
                Ok::<_, ()>(space.len())
            })
            .unwrap();
            jobs.push(sequencer.stamp(buf).unwrap());
        }
        seal_batch(jobs, sealed);
        for packet in sealed.drain(..) {
            splitter.receive_buffer().extend_from_slice(packet.wire());
            pool.give(packet.into_buf());
            while let Some(job) = splitter.next().unwrap() {
                open_jobs.push(job);
            }
        }
        open_batch(open_jobs, opened);
        for packet in opened.drain(..) {
            received += packet.unwrap().into_payload().len();
        }
    }
    assert_eq!(received, batches * 16 * 32 * 1024);
    CALLS.get() - before
}

fn no_allocation_per_batch_in_steady_state() {
    for mac in MACS {
        let (mut sequencer, mut splitter) = ends(CipherAlgorithm::Aes128Ctr, Some(mac.algorithm));
        let mut pool = BufPool::new(16);
        let (mut jobs, mut sealed) = (Vec::new(), Vec::new());
        let (mut open_jobs, mut opened) = (Vec::new(), Vec::new());
        let mut bulk = |batches| {
            bulk_in_batches(
                (&mut sequencer, &mut splitter),
                &mut pool,
                (&mut jobs, &mut sealed),
                (&mut open_jobs, &mut opened),
                batches,
            )
        };
        bulk(6);
        assert_eq!(bulk(20), 0, "{}", mac.name);
    }
}

/// A stopped reader keeps payloads of a size that the peer chose, between data that is not kept.
/// The pinned memory must not grow with the traffic.
fn kept_payloads_pin_a_bounded_number_of_slabs() {
    let (mut sequencer, mut splitter) = ends(CipherAlgorithm::Aes128Gcm, None);
    let before = LIVE_BYTES.load(Relaxed);
    let mut kept = Vec::new();
    let mut most = 0;
    let filler = vec![2; 200 * 1024];
    for _ in 0..400 {
        for (payload, keep) in [(&[94, 1][..], true), (&filler, false)] {
            let buf = packet::PacketBuf::from_payload(payload);
            let sealed = sequencer.stamp(buf).unwrap().run();
            splitter.handle_bytes(sealed.wire());
            while let Some(job) = splitter.next().unwrap() {
                let payload = job.run().unwrap().into_payload();
                if keep {
                    kept.push(payload);
                }
            }
        }
        most = most.max(LIVE_BYTES.load(Relaxed) - before);
    }
    assert_eq!(kept.len(), 400);
    assert!(most < 6 << 20, "80 MiB of traffic pinned {most} bytes");
    assert!(kept.iter().all(|payload| **payload == [94, 1]));
    // When the reader continues, payloads are not copied any more.
    drop(kept);
    let mut pool = BufPool::new(4);
    bulk((&mut sequencer, &mut splitter), &mut pool, 40);
    assert_eq!(bulk((&mut sequencer, &mut splitter), &mut pool, 200), 0);
}

/// After bulk data a connection keeps only the memory that keystrokes need.
fn shedding_leaves_little_and_bulk_data_can_follow() {
    let before = LIVE_BYTES.load(Relaxed);
    let (mut sequencer, mut splitter) = ends(CipherAlgorithm::Aes128Gcm, None);
    let mut pool = BufPool::new(32).with_bulk_payload(65 * 1024);
    assert!(!splitter.has_spare() && !pool.has_spare());
    for _ in 0..3 {
        let buffers: Vec<_> = (0..32).map(|_| pool.take(32 * 1024)).collect();
        buffers.into_iter().for_each(|buf| pool.give(buf));
        bulk((&mut sequencer, &mut splitter), &mut pool, 40);
        assert!(splitter.has_spare() && pool.has_spare());
        assert!(LIVE_BYTES.load(Relaxed) - before > 2 << 20);
        splitter.shed();
        pool.shed();
        assert!(!splitter.has_spare() && !pool.has_spare());
        let left = LIVE_BYTES.load(Relaxed) - before;
        assert!(left < 150 << 10, "{left} bytes left");
    }
    // Small packets alone leave nothing to free.
    for _ in 0..500 {
        let sealed = sequencer.stamp(PacketBuf::from_payload(&[94; 40])).unwrap();
        splitter.handle_bytes(sealed.run().wire());
        splitter.next().unwrap().unwrap().run().unwrap();
    }
    assert!(!splitter.has_spare());
}

/// Shedding must keep counting the slabs that payloads pin, because their number is bounded.
fn shedding_frees_no_slab_that_is_pinned_and_forgets_none() {
    let (mut sequencer, mut splitter) = ends(CipherAlgorithm::Aes128Gcm, None);
    let before = LIVE_BYTES.load(Relaxed);
    let filler = vec![2; 200 * 1024];
    let mut kept = Vec::new();
    for _ in 0..100 {
        for payload in [&[94, 1][..], &filler, &filler] {
            let buf = PacketBuf::from_payload(payload);
            splitter.handle_bytes(sequencer.stamp(buf).unwrap().run().wire());
            while let Some(job) = splitter.next().unwrap() {
                let payload = job.run().unwrap().into_payload();
                if payload.len() == 2 {
                    kept.push(payload);
                }
            }
        }
        splitter.shed();
        let most = LIVE_BYTES.load(Relaxed) - before;
        assert!(most < 6 << 20, "{most} bytes are pinned");
    }
    assert!(kept.iter().all(|payload| **payload == [94, 1]));
    drop(kept);
    splitter.shed();
    let left = LIVE_BYTES.load(Relaxed) - before;
    assert!(left < 300 << 10, "{left} bytes left");
}

#[test]
fn memory_of_the_data_path() {
    no_allocation_per_packet_in_steady_state();
    no_allocation_per_batch_in_steady_state();
    kept_payloads_pin_a_bounded_number_of_slabs();
    shedding_leaves_little_and_bulk_data_can_follow();
    shedding_frees_no_slab_that_is_pinned_and_forgets_none();
}
