//! Packet buffers and their pool.

use std::collections::BTreeSet;
use std::io;
use std::prelude::v1::*;

use crate::{BufPool, HEADROOM, PacketBuf};

#[test]
fn headers_go_before_and_data_behind() {
    let mut buf = PacketBuf::from_payload(b"data");
    buf.prepend(b"head");
    buf.extend(b"tail");
    assert_eq!(buf.payload(), b"headdatatail");
    assert_eq!(buf.len(), 12);
    buf.payload_mut()[0] = b'H';
    buf.truncate(5);
    assert_eq!(buf.payload(), b"Headd");
    buf.truncate(50);
    assert_eq!(buf.len(), 5);
}

#[test]
fn a_header_longer_than_the_headroom_moves_the_payload() {
    for len in [HEADROOM - 1, HEADROOM, HEADROOM + 1, 1000] {
        let mut buf = PacketBuf::from_payload(b"payload");
        let header: Vec<u8> = (0..len).map(|at| at as u8).collect();
        buf.prepend(&header);
        buf.prepend(b"x");
        assert_eq!(buf.payload(), [b"x", &header[..], b"payload"].concat());
    }
}

#[test]
fn a_read_fills_as_much_as_it_says_and_no_more_than_asked() {
    let mut buf = PacketBuf::from_payload(b"head");
    let read = |count: usize| {
        move |space: &mut [u8]| -> io::Result<usize> {
            assert_eq!(space.len(), 8);
            space.fill(b'x');
            Ok(count)
        }
    };
    assert_eq!(buf.fill_with(8, read(3)).unwrap(), 3);
    assert_eq!(buf.payload(), b"headxxx");
    assert_eq!(buf.fill_with(8, read(99)).unwrap(), 8, "a lie is cut");
    assert_eq!(buf.len(), 15);
    let failed = buf.fill_with(8, |_| Err(io::Error::other("disk")));
    assert!(failed.is_err() && buf.len() == 15);
}

#[test]
fn a_cleared_buffer_has_its_headroom_again() {
    let mut buf = PacketBuf::from_payload(b"abc");
    buf.prepend(&[0; HEADROOM]);
    buf.clear();
    assert!(buf.is_empty());
    let before = buf.capacity();
    buf.extend(b"new");
    buf.prepend(&[1; HEADROOM]);
    assert_eq!(buf.len(), HEADROOM + 3);
    assert!(before >= 3);
}

#[test]
fn debug_shows_no_payload() {
    let shown = std::format!("{:?}", PacketBuf::from_payload(b"secret"));
    assert!(
        shown.contains("len: 6") && !shown.contains("115"),
        "{shown}"
    );
}

#[test]
fn the_pool_recycles_and_is_bounded() {
    let mut pool = BufPool::new(2);
    let pointer = |buf: &PacketBuf| buf.payload().as_ptr();
    let mut bulk = pool.take(32 * 1024);
    bulk.extend(b"bulk");
    bulk.prepend(b"123");
    let place = pointer(&bulk);
    pool.give(bulk);
    let small = pool.take(10);
    assert_ne!(
        pointer(&small),
        place,
        "control messages have their own size"
    );
    pool.give(small);
    let again = pool.take(20_000);
    assert!(again.is_empty() && again.capacity() >= 32 * 1024);
    assert_eq!(
        pointer(&again),
        place.wrapping_add(3),
        "the same memory, headroom restored"
    );
    // Sizes that are not kept are freed.
    pool.give(PacketBuf::with_capacity(1 << 20));
    assert!(pool.take(1 << 20).capacity() >= 1 << 20);
    let mut wide = BufPool::new(2).with_bulk_payload(200 * 1024);
    let buf = wide.take(150 * 1024);
    assert!(buf.capacity() >= 200 * 1024);
}

#[test]
fn the_pool_keeps_as_many_as_were_out_at_once_up_to_its_bound() {
    let take = |pool: &mut BufPool, count: usize| -> Vec<PacketBuf> {
        (0..count).map(|_| pool.take(33 * 1024)).collect()
    };
    let places = |bufs: &[PacketBuf]| -> BTreeSet<usize> {
        bufs.iter()
            .map(|buf| buf.payload().as_ptr() as usize)
            .collect()
    };
    let mut pool = BufPool::new(50);
    // Taking one buffer at a time keeps one.
    for _ in 0..10 {
        let buf = pool.take(33 * 1024);
        pool.give(PacketBuf::with_capacity(33 * 1024));
        pool.give(buf);
    }
    assert!(!pool.has_spare(), "kept more than were out at once");
    // A burst keeps its number of buffers, in whatever order they return.
    let mut bufs = take(&mut pool, 40);
    let first = places(&bufs);
    for round in 0..20 {
        let later = bufs.split_off(round * 7 % 40);
        bufs.into_iter().for_each(|buf| pool.give(buf));
        later.into_iter().for_each(|buf| pool.give(buf));
        bufs = take(&mut pool, 40);
        assert_eq!(places(&bufs), first, "round {round}");
    }
    // A larger burst keeps no more than the bound.
    bufs.extend(take(&mut pool, 40));
    let all = places(&bufs);
    bufs.into_iter().for_each(|buf| pool.give(buf));
    let held: Vec<_> = (0..80)
        .map(|_| PacketBuf::with_capacity(33 * 1024))
        .collect();
    let again = take(&mut pool, 80);
    assert_eq!(places(&again).intersection(&all).count(), 50);
    drop(held);
    // After `shed` next to nothing is left.
    again.into_iter().for_each(|buf| pool.give(buf));
    assert!(pool.has_spare());
    pool.shed();
    assert!(!pool.has_spare() && pool.has_any());
    pool.shed_all();
    assert!(!pool.has_any());
}
