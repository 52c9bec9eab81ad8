//! Tests of the packet bridge with one thread; tests/bridge_model.rs has those with two.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use packet::PacketBuf;

use crate::packet_bridge::{BridgeCommand, BridgeEnd, BridgeLimits, PacketBridge, WorkerInput};
use crate::thread_waker::ThreadWaker;

fn bridge() -> PacketBridge {
    let limits = BridgeLimits {
        outgoing_bytes: 2500,
        low_bytes: 1000,
        spare_buffers: 2,
        spare_at_rest: 1,
    };
    PacketBridge::new(limits, Arc::default()).unwrap()
}

fn is_notified(bridge: &PacketBridge) -> bool {
    let is_notified = bridge.waker().drain().unwrap();
    bridge.look();
    is_notified
}

#[test]
fn a_notification_before_the_wait_is_heard_and_only_once() {
    let waker = ThreadWaker::default();
    let wait = |limit| waker.wait_at_most(limit).0;
    assert!(!wait(Duration::ZERO));
    waker.notify();
    waker.notify();
    assert!(wait(Duration::ZERO));
    assert!(!wait(Duration::ZERO));
    std::thread::scope(|scope| {
        scope.spawn(|| waker.notify());
        assert!(wait(Duration::from_secs(60)));
    });
}

/// Also if the connection has never exchanged anything.
#[test]
fn data_from_before_an_abort_arrives_with_it() {
    let bridge = Arc::new(bridge());
    let mut end = BridgeEnd::new(Arc::clone(&bridge));
    end.receive(Bytes::from_static(b"mkdir"));
    end.abort();
    let mut arrived = Vec::new();
    let next = bridge.next(&WorkerInput::default(), &mut arrived);
    assert_eq!(next.command, BridgeCommand::Finish);
    assert_eq!(arrived, [&b"mkdir"[..]]);
    // A later, weaker command does not replace a stronger one.
    bridge.command_worker(BridgeCommand::Abandon);
    end.abort();
    let next = bridge.next(&next, &mut arrived);
    assert_eq!(next.command, BridgeCommand::Abandon);
}

#[test]
fn the_worker_sends_no_more_than_the_limit() {
    let bridge = bridge();
    assert!(bridge.room().is_none(), "the channel is not open");
    bridge.set_exchanged(1000, 0);
    let mut count = 0;
    while let Some((mut buf, max)) = bridge.room() {
        assert_eq!(max, 1000);
        buf.extend(&[7; 1000]);
        bridge.send(buf);
        count += 1;
    }
    assert_eq!(count, 3);
    assert!(is_notified(&bridge));
    // Together with the results of a turn there is one notification.
    bridge.hand_over(
        &mut VecDeque::from([PacketBuf::with_capacity(1)]),
        1 << 20,
        true,
    );
    assert!(is_notified(&bridge));
    assert!(!is_notified(&bridge));
}

#[test]
fn consumed_bytes_are_told_in_parts_of_the_window_or_before_a_sleep() {
    for (window, before_sleep, at_once) in [
        (0, 16 << 10, 256 << 10),
        (2 << 20, 16 << 10, 256 << 10),
        (4 << 20, 32 << 10, 512 << 10),
        (1 << 30, 1 << 20, 1 << 20),
    ] {
        let bridge = bridge();
        bridge.set_exchanged(1000, window);
        bridge.consumed(before_sleep - 1);
        bridge.rest();
        assert!(!is_notified(&bridge), "{window}");
        bridge.consumed(1);
        bridge.rest();
        assert!(is_notified(&bridge), "{window}");
        bridge.set_exchanged(1000, window);
        bridge.consumed(at_once - 1);
        assert!(!is_notified(&bridge), "{window}");
        bridge.consumed(1);
        assert!(is_notified(&bridge), "{window}");
    }
    let bridge = bridge();
    bridge.consumed(256 << 10);
    bridge.consumed(256 << 10);
    assert!(bridge.waker().drain().unwrap());
    bridge.consumed(256 << 10);
    assert!(!bridge.waker().drain().unwrap(), "notified already");
}
