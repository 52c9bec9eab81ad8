//! A bulk transfer in its steady state allocates nothing per packet, on one thread or on several,
//! counted by the allocator.
//!
//! One test function, because the counts are the process's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use driver::{CryptoThreads, LaneReport, LaneTerms, Notice};
use proto::{ChannelId, Stream, TransportConfig};

#[path = "../driver/joined.rs"]
#[allow(dead_code)]
mod joined;

use joined::{End, halves};

static CALLS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is the system allocator's own, with the caller's arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise on `layout` is ours to the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of one packet's data between two Fulmars, and the least number that is counted.
const PACKET_BYTES: u64 = 32 * 1024;
/// Until windows and buffers have the size that they need.
const WARM_UP_BYTES: u64 = 96 << 20;
const COUNTED_BYTES: u64 = 128 << 20;

const LOOK: u64 = 1;
const LOOK_MS: u64 = 20;

/// Works until `done` is true for the number of received bytes; it is called from time to time.
fn run(end: &mut End, mut done: impl FnMut(u64) -> bool) {
    loop {
        let at = end.driver.now() + LOOK_MS;
        end.driver.set_timer(LOOK, Some(at));
        while !matches!(end.next(), Notice::Timer { token: LOOK }) {}
        if done(end.driver.wire_bytes().0) {
            return;
        }
    }
}

/// Allocations of both ends while [`COUNTED_BYTES`] go from `/dev/zero` to `/dev/null`, and the
/// threads that sealed and opened.
fn calls(config: &TransportConfig, terms: LaneTerms) -> (usize, LaneReport, LaneReport) {
    let (client, server, ids) = halves(config, 1);
    let id: ChannelId = ids[0];
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut client = client.end();
            client.driver.set_lane_terms(terms);
            let zero = std::fs::File::open("/dev/zero").unwrap();
            client
                .driver
                .attach_source(id, Stream::Data, OwnedFd::from(zero))
                .unwrap();
            run(&mut client, |_| over.load(Relaxed));
            client.driver.lane_report()
        });
        let mut server = server.end();
        server.driver.set_lane_terms(terms);
        let null = std::fs::File::create("/dev/null").unwrap();
        server
            .driver
            .attach_sink(id, Stream::Data, OwnedFd::from(null))
            .unwrap();
        run(&mut server, |received| received >= WARM_UP_BYTES);
        let before = CALLS.load(Relaxed);
        run(&mut server, |received| {
            received >= WARM_UP_BYTES + COUNTED_BYTES
        });
        let calls = CALLS.load(Relaxed) - before;
        over.store(true, Relaxed);
        (calls, client.join().unwrap(), server.driver.lane_report())
    })
}

#[test]
fn a_steady_transfer_allocates_nothing_for_a_packet() {
    let alone = LaneTerms::new(CryptoThreads::AtMost(1));
    let many = LaneTerms {
        cores: Some(8),
        ..LaneTerms::new(CryptoThreads::AtMost(8))
    };
    for (cipher, mac) in [
        ("aes128-gcm@openssh.com", "hmac-sha2-256"),
        ("aes128-ctr", "hmac-sha2-256-etm@openssh.com"),
    ] {
        let config = TransportConfig {
            ciphers: vec![cipher.into()],
            macs: vec![mac.into()],
            ..TransportConfig::default()
        };
        for (terms, workers) in [(alone, false), (many, true)] {
            let (calls, sealer, opener) = calls(&config, terms);
            for report in [sealer, opener] {
                assert_eq!(report.workers > 1, workers, "{report}");
            }
            // Window adjusts are messages, and the pool grows when more packets than before are in
            // transit.
            let packets = usize::try_from(COUNTED_BYTES / PACKET_BYTES).unwrap();
            assert!(
                calls < packets / 10,
                "{cipher} {mac}: {calls} allocations for {packets} packets, {sealer}"
            );
            println!("{cipher} {mac}, {workers}: {calls} allocations for {packets} packets");
        }
    }
}
