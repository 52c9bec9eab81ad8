//! Windows in virtual time.

use alloc::vec::Vec;

use super::*;
use crate::Millis;

const MIB: u64 = 1024 * 1024;
const PACKET: usize = 32_768;

/// A connection's windows, path and clock.
struct Bench {
    memory: Memory,
    path: RoundTripEstimate,
    now: Millis,
    is_typing: bool,
}

impl Bench {
    fn new(total: u64) -> Self {
        Self {
            memory: Memory::new(total),
            path: RoundTripEstimate::default(),
            now: 1_000,
            is_typing: false,
        }
    }

    fn open(&mut self, piles_up: bool) -> Option<ReceiveWindow> {
        let size = self.memory.first_window()?;
        let max_data = MAX_DATA_BYTES;
        Some(ReceiveWindow::new(
            size,
            max_data,
            piles_up,
            self.now,
            &mut self.memory,
        ))
    }

    /// Receives one packet and consumes it at once; returns the granted bytes.
    fn pass(&mut self, window: &mut ReceiveWindow) -> u64 {
        window.take(PACKET, self.now, &mut self.path).unwrap();
        self.consume(window, PACKET)
    }

    fn consume(&mut self, window: &mut ReceiveWindow, len: usize) -> u64 {
        u64::from(
            window
                .consume(len, self.now, &self.path, self.is_typing, &mut self.memory)
                .unwrap_or(0),
        )
    }

    /// Streams `bytes` per millisecond for `ms` as far as the window allows; returns the bytes that
    /// passed.
    fn stream(&mut self, window: &mut ReceiveWindow, bytes: u64, ms: Millis) -> u64 {
        let mut passed = 0;
        let mut left = 0;
        for _ in 0..ms {
            self.now += 1;
            left = (left + bytes).min(2 * bytes);
            while left >= PACKET as u64 && window.is_open_for(PACKET) {
                self.pass(window);
                left -= PACKET as u64;
                passed += PACKET as u64;
            }
        }
        passed
    }
}

#[test]
fn a_window_is_granted_again_once_per_quarter_and_never_beyond_what_came() {
    let mut bench = Bench::new(256 * MIB);
    let mut window = bench.open(false).unwrap();
    let quarter = FIRST_WINDOW_BYTES as usize / 4;
    let grants: Vec<u64> = (0..quarter / PACKET)
        .map(|_| {
            // Slow enough to earn no more than the first window.
            bench.now += 50;
            bench.pass(&mut window)
        })
        .filter(|grant| *grant > 0)
        .collect();
    assert_eq!(grants, [quarter as u64]);
    assert_eq!(bench.consume(&mut window, 1 << 20), 0);
    assert_eq!(window.size_and_queued(), (u64::from(FIRST_WINDOW_BYTES), 0));
}

#[test]
fn data_beyond_the_window_or_the_maximum_packet_is_refused() {
    let mut bench = Bench::new(256 * MIB);
    let mut window = bench.open(false).unwrap();
    let mut take = |len| window.take(len, 1_000, &mut bench.path);
    assert!(take(32_769).is_err());
    for _ in 0..64 {
        take(32_768).unwrap();
    }
    assert!(take(1).is_err());
}

#[test]
fn an_adjust_that_overflows_is_refused() {
    let mut window = SendWindow::new(u32::MAX, 1);
    assert!(window.adjust(1).is_err());
    assert!(!SendWindow::new(0, 1).adjust(0).unwrap());
    assert!(SendWindow::new(0, 1).adjust(9).unwrap());
}

#[test]
fn room_for_several_messages_is_whole_ones_as_long_as_the_window_is_open() {
    let mut window = SendWindow::new(100_000, 32_768);
    assert_eq!(window.room(0, usize::MAX), 0);
    assert_eq!(window.room(1, usize::MAX), window.space(usize::MAX));
    assert_eq!(window.room(32_769, usize::MAX), 65_536);
    assert_eq!(window.room(500_000, usize::MAX), 100_000);
    window.charge(90_000).unwrap();
    assert_eq!(window.room(1, usize::MAX), 10_000);
    window.charge(10_000).unwrap();
    assert_eq!(window.room(500_000, usize::MAX), 0);
    let window = SendWindow::new(1 << 20, 65_536);
    assert_eq!(window.space(61_440), 61_440);
    assert_eq!(window.max_data(61_440), 61_440);
    assert_eq!(window.room(65_537, 61_440), 2 * 61_440);
    assert_eq!(window.max_data(usize::MAX), 65_536);
}

#[test]
fn new_channels_share_what_is_left_down_to_a_least() {
    let mut bench = Bench::new(256 * MIB);
    let mut sizes = Vec::new();
    let mut windows = Vec::new();
    while let Some(window) = bench.open(false) {
        sizes.push(u64::from(window.first()));
        windows.push(window);
    }
    assert_eq!(sizes.first(), Some(&(2 * MIB)));
    assert_eq!(sizes.last(), Some(&u64::from(CROWD_WINDOW_BYTES)));
    assert!(sizes.is_sorted_by(|one, next| one >= next), "{sizes:?}");
    let all: u64 = sizes.iter().sum();
    assert!(all <= 256 * MIB && all > 255 * MIB, "{all}");
    assert!(sizes.len() > 4_600, "{}", sizes.len());

    // A removed window makes room for another.
    windows.pop().unwrap().release(&mut bench.memory);
    assert!(bench.open(false).is_some() && bench.open(false).is_none());
    for window in windows {
        window.release(&mut bench.memory);
    }
    assert!(bench.memory.left() >= 255 * MIB);
}

#[test]
fn a_small_budget_gives_small_windows_and_a_smaller_one_none() {
    assert_eq!(Memory::new(4 * MIB).first_window(), Some(512 * 1024));
    assert_eq!(Memory::new(64 * 1024).first_window(), Some(64 * 1024));
    assert_eq!(Memory::new(64 * 1024 - 1).first_window(), None);
}

#[test]
fn a_budget_has_room_for_one_channel_for_each_smallest_window() {
    for total in [
        64 * 1024,
        100_000,
        192 * 1024,
        MIB,
        8 * MIB,
        100 * MIB,
        256 * MIB,
        1024 * MIB,
    ] {
        let mut bench = Bench::new(total);
        let windows: Vec<ReceiveWindow> = core::iter::from_fn(|| bench.open(false)).collect();
        let count = u64::try_from(windows.len()).unwrap();
        assert!(
            count >= total / u64::from(LEAST_WINDOW_BYTES),
            "{total}: {count}"
        );
        // The first channel has room for data that precedes its confirmation.
        assert!(windows[0].first() >= LEAST_WINDOW_BYTES, "{total}");
    }
}

#[test]
fn a_window_among_two_thousand_idle_ones_grows_with_use() {
    let mut bench = Bench::new(256 * MIB);
    bench.path.hint(50_000);
    let idle: Vec<ReceiveWindow> = core::iter::repeat_with(|| bench.open(false).unwrap())
        .take(2_000)
        .collect();
    let mut busy = bench.open(false).unwrap();
    assert!(busy.first() < 64 * 1024);
    bench.stream(&mut busy, MIB / 10, 2_000);
    let (size, _) = busy.size_and_queued();
    assert!(size > 4 * MIB, "{size}");
    drop(idle);
}

#[test]
fn a_window_settles_at_twice_what_a_round_trip_takes() {
    let mut bench = Bench::new(256 * MIB);
    bench.path.hint(50_000);
    let mut window = bench.open(false).unwrap();
    // 400 MiB/s and 50 ms: 20 MiB in flight.
    let bytes = 400 * MIB / 1000;
    bench.stream(&mut window, bytes, 1_000);
    let (size, _) = window.size_and_queued();
    assert!((39 * MIB..44 * MIB).contains(&size), "{size}");
}

#[test]
fn a_local_peer_needs_no_more_than_the_first_window() {
    let mut bench = Bench::new(256 * MIB);
    bench.path.hint(80);
    let mut window = bench.open(false).unwrap();
    bench.stream(&mut window, 400 * MIB / 1000, 1_000);
    assert_eq!(window.size_and_queued().0, 2 * MIB);
}

#[test]
fn an_idle_window_shrinks_by_withholding() {
    let mut bench = Bench::new(256 * MIB);
    bench.path.hint(50_000);
    let mut window = bench.open(false).unwrap();
    bench.stream(&mut window, 400 * MIB / 1000, 1_000);
    let left = bench.memory.left();
    bench.now += 60_000;
    // A trickle, as from a typist: nothing is granted until little is left open.
    let mut granted = 0;
    let mut came = 0;
    while window.size_and_queued().0 > 2 * MIB || window.open_bytes() > 2 * MIB {
        bench.now += 10;
        granted += bench.pass(&mut window);
        came += PACKET as u64;
        assert!(came < 100 * MIB, "{:?}", window.size_and_queued());
    }
    assert_eq!(granted, 0);
    assert!(bench.memory.left() > left + 35 * MIB);
}

#[test]
fn a_sink_that_stops_bounds_what_is_kept() {
    let mut bench = Bench::new(16 * MIB);
    bench.path.hint(50_000);
    let mut window = bench.open(false).unwrap();
    bench.stream(&mut window, 400 * MIB / 1000, 2_000);
    let mut kept = 0;
    while window.is_open_for(PACKET) {
        window.take(PACKET, bench.now, &mut bench.path).unwrap();
        kept += PACKET as u64;
    }
    // Three quarters of the budget are available to growing windows.
    assert!((8 * MIB..=12 * MIB).contains(&kept), "{kept}");
}

#[test]
fn no_order_of_events_lends_more_than_there_is() {
    let total = 24 * MIB;
    let mut bench = Bench::new(total);
    let mut windows: Vec<ReceiveWindow> = Vec::new();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..200_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let pick = usize::try_from(random >> 40).unwrap();
        let count = windows.len().max(1);
        bench.now += u64::from(random.is_multiple_of(3));
        match (random >> 8) % 64 {
            0 => windows.extend(bench.open(random.is_multiple_of(2))),
            1 if !windows.is_empty() => {
                windows.swap_remove(pick % count).release(&mut bench.memory)
            }
            2 => bench.path.hint(u32::try_from(random >> 45).unwrap()),
            3..40 => {
                if let Some(window) = windows.get_mut(pick % count)
                    && window.is_open_for(PACKET)
                {
                    window.take(PACKET, bench.now, &mut bench.path).unwrap();
                }
            }
            _ => {
                if let Some(window) = windows.get_mut(pick % count) {
                    window.consume(2 * PACKET, bench.now, &bench.path, false, &mut bench.memory);
                }
            }
        }
        let granted: u64 = windows.iter().map(ReceiveWindow::granted_bytes).sum();
        assert!(granted <= total - bench.memory.left() && granted <= total);
    }
    for window in windows {
        window.release(&mut bench.memory);
    }
    assert_eq!(bench.memory.left(), total);
}

#[test]
fn a_sender_that_piles_up_gets_15_mib_while_the_sink_lags() {
    let mut bench = Bench::new(256 * MIB);
    bench.path.hint(50_000);
    let mut window = bench.open(true).unwrap();
    // The sink consumes everything, but always a mebibyte late.
    for _ in 0..32 {
        window.take(PACKET, bench.now, &mut bench.path).unwrap();
    }
    bench.stream(&mut window, 800 * MIB / 1000, 1_000);
    assert!(window.granted_bytes() <= 15 * MIB);
    assert!(window.granted_bytes() > 10 * MIB);
    // It has caught up: more may be in flight, but no more may queue at the sender.
    bench.consume(&mut window, 32 * PACKET);
    bench.stream(&mut window, 800 * MIB / 1000, 1_000);
    let (size, _) = window.size_and_queued();
    assert!((53 * MIB..57 * MIB).contains(&size), "{size}");
}

#[test]
fn a_window_that_binds_is_seen_where_the_kernel_knows_nothing() {
    // A proxy's far side is 200 ms away; the socket ends nearby.
    let mut bench = Bench::new(256 * MIB);
    bench.path.hint(300);
    let mut window = bench.open(false).unwrap();
    let mut sent_to = 2 * MIB;
    let mut came = 0;
    let mut due: Vec<(Millis, u64)> = Vec::new();
    let end = bench.now + 4_000;
    while bench.now < end {
        bench.now += 1;
        // Data granted 200 ms ago arrives now, at no more than 400 MiB/s.
        due.retain(|(at, edge)| {
            let arrived = *at <= bench.now;
            if arrived {
                sent_to = *edge;
            }
            !arrived
        });
        for _ in 0..(400 * MIB / 1000 / PACKET as u64) {
            if came + PACKET as u64 <= sent_to {
                came += PACKET as u64;
                bench.pass(&mut window);
                let edge = came + window.open_bytes();
                due.push((bench.now + 200, edge));
            }
        }
    }
    let (size, _) = window.size_and_queued();
    assert!(size > 100 * MIB, "{size}");
}

/// Bytes outstanding at most while a sender of `speed` bytes per millisecond uses a path of
/// `round_trip_us`, and a user types or not.
fn outstanding(speed: u64, round_trip_us: u32, is_typing: bool) -> u64 {
    let mut bench = Bench::new(256 * MIB);
    bench.path.hint(round_trip_us);
    let mut window = bench.open(false).unwrap();
    bench.stream(&mut window, speed, 2_000);
    bench.is_typing = is_typing;
    bench.stream(&mut window, speed, 1_000);
    window.granted_bytes()
}

#[test]
fn little_is_outstanding_while_a_user_types() {
    let near = outstanding(MIB, 100, true);
    assert!((128 * 1024..=256 * 1024).contains(&near), "{near}");
    assert!(outstanding(MIB, 100, false) > MIB);
    // 512 MiB/s over 50 ms: about one and a half times what is in flight.
    let far = outstanding(MIB / 2, 50_000, true);
    assert!((28 * MIB..38 * MIB).contains(&far), "{far}");
    assert!(outstanding(MIB / 2, 50_000, false) > 38 * MIB);
}

#[test]
fn a_window_is_bounded_by_typing_only_where_the_path_is_known() {
    let mut bench = Bench::new(256 * MIB);
    let mut window = bench.open(false).unwrap();
    bench.is_typing = true;
    bench.stream(&mut window, MIB, 1_000);
    assert!(window.granted_bytes() > MIB);
    // A proxy's far side is 200 ms away; the socket ends nearby.
    bench.path.hint(300);
    (0..4).for_each(|_| bench.path.stalled(200));
    bench.stream(&mut window, MIB, 1_000);
    assert!(
        window.granted_bytes() > 100 * MIB,
        "{}",
        window.granted_bytes()
    );
}

#[test]
fn what_has_ended_counts_only_what_is_queued() {
    let mut bench = Bench::new(256 * MIB);
    let mut window = bench.open(false).unwrap();
    window.take(PACKET, bench.now, &mut bench.path).unwrap();
    window.end(&mut bench.memory);
    assert_eq!(bench.memory.left(), 256 * MIB - PACKET as u64);
    // Late data within the window is ignored, and nothing is granted for it.
    window.take(PACKET, bench.now, &mut bench.path).unwrap();
    assert_eq!(bench.consume(&mut window, PACKET), 0);
    assert_eq!(bench.memory.left(), 256 * MIB);
}

#[test]
fn grants_stay_far_below_the_limit_of_their_type() {
    let mut bench = Bench::new(u64::MAX);
    bench.path.hint(4_000_000);
    let mut window = bench.open(false).unwrap();
    for _ in 0..100 {
        bench.stream(&mut window, 2_000 * MIB / 1000, 50);
        assert!(window.granted_bytes() <= 1 << 30);
    }
    assert!(window.granted_bytes() > 1 << 29);
}
