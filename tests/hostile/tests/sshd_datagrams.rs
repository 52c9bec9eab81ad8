//! A lying client against the real `fulmar sshd`: datagrams (docs/PROTOCOL.md, `direct-udp`).

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hostile::adversary::Adversary;
use hostile::place::Server;
use hostile::subject::Tcp;
use wire::message::{ChannelData, ChannelOpen, ChannelOpenConfirmation};
use wire::{Put, Rest};

const LIMIT: Duration = Duration::from_secs(20);
/// Length of the longest record, bytes.
const LONGEST: u32 = 65_527;

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.set_read_timeout(Some(LIMIT)).expect("a limit");
    socket
}

/// Opens a channel to this socket; `records` are in the request. Returns the server's number.
fn open(adversary: &mut Adversary<Tcp>, to: &UdpSocket, number: u32, records: &[u8]) -> u32 {
    let mut fields = Vec::new();
    fields.put_string(b"127.0.0.1");
    fields.put_u32(u32::from(to.local_addr().expect("an address").port()));
    fields.put_string(b"127.0.0.1");
    fields.put_u32(1);
    fields.extend_from_slice(records);
    adversary.say(&ChannelOpen {
        kind: b"direct-udp@fulmar.invalid",
        sender_channel: number,
        window: 1 << 20,
        max_packet: 32_768,
        fields: Rest(&fields),
    });
    let payload = adversary.expect(91);
    let confirmation = ChannelOpenConfirmation::decode(&payload).expect("a confirmation");
    confirmation.sender_channel
}

fn data(adversary: &mut Adversary<Tcp>, channel: u32, bytes: &[u8]) -> bool {
    adversary.say(&ChannelData {
        recipient_channel: channel,
        data: bytes,
    })
}

fn record(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_string(bytes);
    out
}

fn received(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = vec![0; 70_000];
    let count = socket.recv(&mut bytes).expect("a datagram");
    bytes.truncate(count);
    bytes
}

#[test]
fn records_are_datagrams_wherever_messages_end() {
    let server = Server::start(&[]);
    let mut adversary = server.logged_in();
    let socket = socket();
    let first = [record(b"with the request"), record(b"")].concat();
    let channel = open(&mut adversary, &socket, 0, &first);
    assert_eq!(received(&socket), b"with the request");
    assert_eq!(received(&socket), b"");
    for byte in [record(b"byte by byte"), record(b"")].concat() {
        data(&mut adversary, channel, &[byte]);
    }
    assert_eq!(received(&socket), b"byte by byte");
    assert_eq!(received(&socket), b"");
    let together = [record(b"a"), record(&[7; 9000]), record(b"c")].concat();
    data(&mut adversary, channel, &together);
    for wanted in [&b"a"[..], &[7; 9000], b"c"] {
        assert_eq!(received(&socket), wanted);
    }
    // Longer than IPv4 takes: dropped, and what follows is not.
    let long = record(&vec![1; 65_520]);
    for part in [long, record(b"after")].concat().chunks(30_000) {
        data(&mut adversary, channel, part);
    }
    assert_eq!(received(&socket), b"after");
    assert_eq!(adversary.run_on(9, b"echo alive"), b"alive\n");
}

#[test]
fn a_record_longer_than_a_datagram_closes_its_channel_alone() {
    let server = Server::start(&[]);
    let mut adversary = server.logged_in();
    let socket = socket();
    let good = open(&mut adversary, &socket, 0, b"");
    for (number, length) in (1..).zip([LONGEST + 1, 1 << 20, u32::MAX]) {
        let bad = [&length.to_be_bytes()[..], b"bytes"].concat();
        // In data, and in the request.
        let channel = open(&mut adversary, &socket, 2 * number, b"");
        data(&mut adversary, channel, &bad);
        adversary.expect(97);
        open(&mut adversary, &socket, 2 * number + 1, &bad);
        adversary.expect(97);
    }
    data(&mut adversary, good, &record(b"good"));
    assert_eq!(received(&socket), b"good");
    assert_eq!(adversary.run_on(99, b"echo alive"), b"alive\n");
}

#[test]
fn a_flood_of_either_side_costs_bounded_memory_and_blocks_nobody() {
    let server = Server::start(&[]);
    let mut adversary = server.logged_in();
    let socket = socket();
    let channel = open(&mut adversary, &socket, 0, &record(b"hello"));
    assert_eq!(socket.recv_from(&mut [0; 8]).expect("a datagram").0, 5);
    // 250,000 empty datagrams from the client, whose window they fit into.
    let empty = vec![0; 4 * 8_000];
    for _ in 0..32 {
        data(&mut adversary, channel, &empty);
    }
    // The target answers more than the client's window takes, and the client reads nothing.
    let asked = open(&mut adversary, &socket, 1, b"");
    let from = reaches(&mut adversary, asked, &socket, b"marker");
    for _ in 0..400 {
        let _ = socket.send_to(&[9; 60_000], from);
    }
    assert_eq!(adversary.run_on(9, b"echo alive"), b"alive\n");
    server.stays_small();
    assert_eq!(reaches(&mut adversary, asked, &socket, b"still"), from);
}

/// Sends a datagram until it arrives, since the flood may have filled the socket's buffer; returns
/// where it comes from.
fn reaches(
    adversary: &mut Adversary<Tcp>,
    channel: u32,
    socket: &UdpSocket,
    text: &[u8],
) -> SocketAddr {
    let start = Instant::now();
    let mut buffer = [0; 16];
    let pause = Some(Duration::from_millis(100));
    socket.set_read_timeout(pause).expect("a limit");
    loop {
        assert!(start.elapsed() < LIMIT, "nothing arrives");
        data(adversary, channel, &record(text));
        while let Ok((count, from)) = socket.recv_from(&mut buffer) {
            if &buffer[..count] == text {
                return from;
            }
        }
    }
}
