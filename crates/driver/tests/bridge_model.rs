//! The packet bridge under a model checker: every interleaving of the connection's thread and the
//! worker, within loom's bound on preemptions.
//!
//! The unchanged sources are included over loom's primitives instead of the standard library's, and
//! over a channel that sends as many packets as the test permits. A lost wake-up is found as a
//! deadlock.

// loom, the model checker, has no atomics of 64 bits for machines with 32-bit words.
#![cfg(target_pointer_width = "64")]
// The model does not use everything that the library does.
#![allow(dead_code)]

mod sync {
    pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};

    /// A counter that the connection's loop waits for.
    #[derive(Debug)]
    pub(crate) struct EventFd {
        is_set: Mutex<bool>,
        condition: Condvar,
    }

    impl EventFd {
        pub(crate) fn new() -> std::io::Result<Self> {
            Ok(Self {
                is_set: Mutex::new(false),
                condition: Condvar::new(),
            })
        }

        pub(crate) fn signal(&self) -> std::io::Result<()> {
            *self.is_set.lock().unwrap() = true;
            self.condition.notify_one();
            Ok(())
        }

        pub(crate) fn wait(&self) {
            let mut is_set = self.is_set.lock().unwrap();
            while !*is_set {
                is_set = self.condition.wait(is_set).unwrap();
            }
            *is_set = false;
        }
    }
}

mod channel_handler {
    use std::collections::VecDeque;
    use std::marker::PhantomData;

    use packet::PacketBuf;
    use proto::Error;

    /// A channel that sends `space` packets in a turn.
    pub(crate) struct ChannelIo<'d> {
        pub(crate) space: usize,
        pub(crate) sent: Vec<u8>,
        pub(crate) consumed: usize,
        pub(crate) connection: PhantomData<&'d ()>,
    }

    impl ChannelIo<'_> {
        pub(crate) fn max_data(&self) -> usize {
            1
        }

        pub(crate) fn window(&self) -> usize {
            0
        }

        pub(crate) fn take_buffer(&mut self, capacity: usize) -> PacketBuf {
            PacketBuf::with_capacity(capacity)
        }

        pub(crate) fn recycle(&mut self, _: PacketBuf) {}

        pub(crate) fn consumed(&mut self, bytes: usize) -> Result<(), Error> {
            self.consumed += bytes;
            Ok(())
        }

        pub(crate) fn send_queued(
            &mut self,
            queue: &mut VecDeque<PacketBuf>,
        ) -> Result<usize, Error> {
            let count = queue.len().min(self.space);
            for buf in queue.drain(..count) {
                self.sent.extend_from_slice(buf.payload());
            }
            Ok(count)
        }
    }
}

#[path = "../src/packet_bridge.rs"]
mod packet_bridge;
#[path = "../src/thread_waker.rs"]
mod thread_waker;

use std::collections::VecDeque;
use std::marker::PhantomData;

use bytes::Bytes;
use channel_handler::ChannelIo;
use loom::thread;
use packet::PacketBuf;
use packet_bridge::{
    BridgeCommand, BridgeEnd, BridgeLimits, BridgeProgress, PacketBridge, WorkerInput,
};
use sync::Arc;
use thread_waker::ThreadWaker;

fn checked(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(body);
}

fn bridge(outgoing_bytes: usize) -> (Arc<PacketBridge>, Arc<ThreadWaker>) {
    let limits = BridgeLimits {
        outgoing_bytes,
        low_bytes: outgoing_bytes - 1,
        spare_buffers: 1,
        spare_at_rest: 0,
    };
    let waker = Arc::new(ThreadWaker::default());
    let bridge = PacketBridge::new(limits, Arc::clone(&waker)).unwrap();
    (Arc::new(bridge), waker)
}

fn line() -> ChannelIo<'static> {
    ChannelIo {
        space: 1,
        sent: Vec::new(),
        consumed: 0,
        connection: PhantomData,
    }
}

fn packet(byte: u8) -> PacketBuf {
    let mut buf = PacketBuf::with_capacity(1);
    buf.extend(&[byte]);
    buf
}

/// The connection's loop: works when it is notified or when there is space again, until `is_over`.
fn connect(
    end: &mut BridgeEnd,
    bridge: &PacketBridge,
    line: &mut ChannelIo<'_>,
    is_over: impl Fn(BridgeProgress, &[u8]) -> bool,
) {
    loop {
        let progress = end.work(line).unwrap();
        if is_over(progress, &line.sent) {
            return;
        }
        if !progress.has_more && !progress.is_blocked {
            bridge.waker().wait();
        }
    }
}

/// Answers each byte with a packet, in turns of as many packets as there is room for, until the end
/// of input.
fn serve(bridge: &PacketBridge) {
    let mut known = WorkerInput::default();
    let (mut arrived, mut answers) = (Vec::new(), VecDeque::new());
    loop {
        known = bridge.next(&known, &mut arrived);
        if known.command == BridgeCommand::Abandon {
            break;
        }
        let mut used = 0;
        let mut packets = VecDeque::new();
        for bytes in arrived.drain(..) {
            used += bytes.len();
            answers.extend(bytes.iter().copied());
        }
        while packets.len() < known.room
            && let Some(answer) = answers.pop_front()
        {
            packets.push_back(packet(answer));
        }
        bridge.hand_over(&mut packets, used, !answers.is_empty());
        if known.input_ended && answers.is_empty() {
            break;
        }
    }
    bridge.end_worker();
}

/// With room for two packets, the channel's window stops one of them.
#[test]
fn every_request_is_answered_with_room_for_one_answer_or_two() {
    for outgoing_bytes in [1, 2] {
        checked(move || {
            let (bridge, _) = bridge(outgoing_bytes);
            let worker = {
                let bridge = Arc::clone(&bridge);
                thread::spawn(move || serve(&bridge))
            };
            let (mut end, mut line) = (BridgeEnd::new(Arc::clone(&bridge)), line());
            end.receive(Bytes::from_static(b"ab"));
            let _ = end.work(&mut line).unwrap();
            end.receive(Bytes::from_static(b"c"));
            end.end_input();
            connect(&mut end, &bridge, &mut line, |progress, _| {
                progress.worker_ended && !progress.is_blocked
            });
            assert_eq!(line.sent, b"abc");
            assert_eq!(line.consumed, 3);
            worker.join().unwrap();
        });
    }
}

#[test]
fn a_command_reaches_a_worker_that_sleeps_or_works() {
    for command in [BridgeCommand::Finish, BridgeCommand::Abandon] {
        checked(move || {
            let (bridge, _) = bridge(1);
            let worker = {
                let bridge = Arc::clone(&bridge);
                thread::spawn(move || {
                    let (mut known, mut arrived) = (WorkerInput::default(), Vec::new());
                    while known.command == BridgeCommand::GoOn {
                        known = bridge.next(&known, &mut arrived);
                        bridge.hand_over(&mut VecDeque::new(), 0, false);
                    }
                    bridge.end_worker();
                    (known.command, arrived.concat())
                })
            };
            let mut end = BridgeEnd::new(Arc::clone(&bridge));
            let _ = end.work(&mut line()).unwrap();
            end.receive(Bytes::from_static(b"last"));
            if command == BridgeCommand::Finish {
                end.abort();
            } else {
                bridge.command_worker(command);
            }
            connect(&mut end, &bridge, &mut line(), |progress, _| {
                progress.worker_ended
            });
            let (obeyed, arrived) = worker.join().unwrap();
            assert_eq!(obeyed, command);
            if command == BridgeCommand::Finish {
                assert_eq!(arrived, b"last");
            }
        });
    }
}

/// Sends `bytes` as a copy does: one packet at a time, as long as there is room.
fn send_all(bridge: &PacketBridge, waker: &ThreadWaker, bytes: &[u8]) {
    for byte in bytes {
        loop {
            if let Some((mut buf, _)) = bridge.room() {
                buf.extend(&[*byte]);
                bridge.send(buf);
                break;
            }
            bridge.rest();
            waker.wait();
        }
    }
}

/// No notification but those of the packets themselves: none is left to a later one.
#[test]
fn every_packet_of_a_worker_that_waits_for_room_is_sent() {
    for (outgoing_bytes, bytes) in [(1, &b"ab"[..]), (2, b"abc")] {
        checked(move || {
            let (bridge, waker) = bridge(outgoing_bytes);
            let worker = {
                let bridge = Arc::clone(&bridge);
                thread::spawn(move || send_all(&bridge, &waker, bytes))
            };
            let (mut end, mut line) = (BridgeEnd::new(Arc::clone(&bridge)), line());
            connect(&mut end, &bridge, &mut line, |_, sent| sent == bytes);
            worker.join().unwrap();
        });
    }
}

#[test]
fn everything_is_sent_before_an_end_that_the_worker_commands() {
    checked(|| {
        let (bridge, waker) = bridge(1);
        let worker = {
            let bridge = Arc::clone(&bridge);
            thread::spawn(move || {
                send_all(&bridge, &waker, b"a");
                bridge.command_connection(BridgeCommand::Finish);
            })
        };
        let (mut end, mut line) = (BridgeEnd::new(Arc::clone(&bridge)), line());
        connect(&mut end, &bridge, &mut line, |progress, _| {
            progress.command == BridgeCommand::Finish && !progress.is_blocked
        });
        assert_eq!(line.sent, b"a");
        worker.join().unwrap();
    });
}
