//! Requests of forwardings: SOCKS, the fields of channels, and the requests to listen.

use std::fmt::Debug;

use driver::forward::{ForwardTarget, Listening, Socks, SocksDatagram, SocksStep};
use wire::names;

/// Longest record of a flow, bytes.
const MAX_DATAGRAM_BYTES: usize = 65_527;
/// Longest message of SOCKS that is kept, bytes: two texts of 255 with what surrounds them.
const MAX_SOCKS_BYTES: usize = 600;

/// A client's part of SOCKS; the pieces in which it arrives change nothing.
///
/// # Panics
/// Only for a defect.
pub fn socks_request(data: &[u8]) {
    let whole = socks(data, data.len());
    assert_eq!(whole, socks(data, 1));
    assert_eq!(whole, socks(data, 7));
}

/// Number of bytes that belong to SOCKS, and the steps that are not "more bytes" alone.
fn socks(data: &[u8], piece_bytes: usize) -> (usize, Vec<SocksStep>) {
    let mut socks = Socks::default();
    let mut steps = Vec::new();
    let mut total = 0;
    let mut since_answer = 0;
    for piece in data.chunks(piece_bytes.max(1)) {
        let mut rest = piece;
        while !rest.is_empty() {
            let (taken, step) = socks.take(rest);
            assert!(taken > 0, "a step takes something");
            rest = rest.get(taken..).expect("not more than there is");
            total += taken;
            since_answer += taken;
            assert!(since_answer <= MAX_SOCKS_BYTES, "a request is bounded");
            match step {
                SocksStep::More(answer) if answer.is_empty() => {}
                SocksStep::More(_) => {
                    since_answer = 0;
                    steps.push(step);
                }
                SocksStep::Connect(_) | SocksStep::Associate(_) | SocksStep::Refuse(_) => {
                    steps.push(step);
                    return (total, steps);
                }
            }
        }
    }
    (total, steps)
}

/// The first byte chooses a type, the others are its fields.
///
/// # Panics
/// Only for a defect.
pub fn forward_fields(data: &[u8]) {
    let Some((choice, fields)) = data.split_first() else {
        return;
    };
    match choice % 9 {
        0 => target(names::CHANNEL_DIRECT_TCPIP, fields),
        1 => target(names::CHANNEL_DIRECT_STREAMLOCAL, fields),
        2 => listening(names::CHANNEL_FORWARDED_TCPIP, fields),
        3 => listening(names::CHANNEL_FORWARDED_STREAMLOCAL, fields),
        4 => request(names::GLOBAL_TCPIP_FORWARD, fields),
        6 => target(names::CHANNEL_DIRECT_UDP, fields),
        7 => listening(names::CHANNEL_FORWARDED_UDP, fields),
        8 => request(names::GLOBAL_UDP_FORWARD, fields),
        _ => request(names::GLOBAL_STREAMLOCAL_FORWARD, fields),
    }
}

fn target(kind: &str, fields: &[u8]) {
    if let Ok(target) = ForwardTarget::decode(kind, fields) {
        let (again, fields) = target.open_request(None);
        assert_eq!(again, kind);
        same(&target, ForwardTarget::decode(kind, &fields));
    }
}

fn listening(kind: &str, fields: &[u8]) {
    if let Ok(listening) = Listening::decode(kind, fields) {
        let (again, fields) = listening.open_request(None);
        assert_eq!(again, kind);
        same(&listening, Listening::decode(kind, &fields));
    }
}

fn request(name: &str, fields: &[u8]) {
    if let Ok(listening) = Listening::decode_request(name, fields) {
        let (again, fields) = listening.listen_request(false);
        assert_eq!(again, name);
        same(&listening, Listening::decode_request(name, &fields));
    }
}

fn same<T: Debug + PartialEq, E: Debug>(value: &T, again: Result<T, E>) {
    assert_eq!(&again.expect("what was encoded"), value);
}

/// A datagram of an association of SOCKS, and records that came with a request for a channel: the same ones
/// wherever the messages end, none longer than a datagram.
///
/// # Panics
/// Only for a defect.
pub fn datagrams(data: &[u8]) {
    if let Some(datagram) = SocksDatagram::parse(data) {
        let (head, _) = data.split_at(datagram.head_bytes);
        // Neither what follows the header nor a fragment's number is part of it.
        assert_eq!(SocksDatagram::parse(head), Some(datagram));
        for at in 0..head.len() {
            assert_eq!(SocksDatagram::parse(&head[..at]), None);
        }
        let mut fragment = data.to_vec();
        fragment[2] = 1;
        assert_eq!(SocksDatagram::parse(&fragment), None);
    }
    let Ok((target, records)) = ForwardTarget::decode_first(names::CHANNEL_DIRECT_UDP, data) else {
        return;
    };
    let (_, fields) = target.open_request(None);
    let again = [&fields[..], records].concat();
    let again = ForwardTarget::decode_first(names::CHANNEL_DIRECT_UDP, &again);
    assert_eq!(again, Ok((target, records)));
    let whole = crate::packets::cut(MAX_DATAGRAM_BYTES, records, records.len().max(1));
    assert_eq!(whole, crate::packets::cut(MAX_DATAGRAM_BYTES, records, 3));
    assert!(
        whole
            .0
            .iter()
            .all(|record| record.len() <= MAX_DATAGRAM_BYTES)
    );
}

/// Datagrams of each type of address, a fragment, and requests for channels with records.
#[must_use]
pub fn datagram_seeds() -> Vec<Vec<u8>> {
    let (_, fields) = ForwardTarget::Udp {
        host: "localhost".into(),
        port: 53,
    }
    .open_request(None);
    vec![
        b"\0\0\0\x01\x7f\0\0\x01\0\x35data".to_vec(),
        b"\0\0\0\x03\x02ns\0\x35data".to_vec(),
        [&b"\0\0\0\x04"[..], &[0; 15], b"\x01\0\x35data"].concat(),
        b"\0\0\x01\x01\x7f\0\0\x01\0\x35data".to_vec(),
        [&fields[..], b"\0\0\0\x05query\0\0\0\0\0\0\0\x02no"].concat(),
        [&fields[..], b"\0\0\xff\xf8too long"].concat(),
    ]
}

/// Requests of each version and type of address.
#[must_use]
pub fn socks_seeds() -> Vec<Vec<u8>> {
    vec![
        b"\x04\x01\x00\x50\x7f\x00\x00\x01user\x00data".to_vec(),
        b"\x04\x01\x00\x50\x00\x00\x00\x01user\x00host\x00data".to_vec(),
        b"\x04\x02\x00\x50\x7f\x00\x00\x01\x00".to_vec(),
        b"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50data".to_vec(),
        b"\x05\x02\x02\x00\x05\x01\x00\x03\x04host\x00\x50data".to_vec(),
        b"\x05\x01\x00\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x50".to_vec(),
        b"\x05\x01\x00\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50".to_vec(),
        b"\x05\x01\x02".to_vec(),
    ]
}

/// Fields of each type.
#[must_use]
pub fn field_seeds() -> Vec<Vec<u8>> {
    let tcp = ForwardTarget::Tcp {
        host: "localhost".into(),
        port: 80,
    };
    let unix = ForwardTarget::Unix("/run/socket".into());
    let port = Listening::Tcp {
        address: "localhost".into(),
        port: 8080,
    };
    let path = Listening::Unix("/run/socket".into());
    let to_datagrams = ForwardTarget::Udp {
        host: "localhost".into(),
        port: 53,
    };
    let of_datagrams = Listening::Udp {
        address: "localhost".into(),
        port: 53,
    };
    let fields = [
        tcp.open_request(None),
        unix.open_request(None),
        port.open_request(None),
        path.open_request(None),
        port.listen_request(false),
        path.listen_request(false),
        to_datagrams.open_request(None),
        of_datagrams.open_request(None),
        of_datagrams.listen_request(false),
    ];
    let choices = 0_u8..;
    let chosen = choices.zip(fields);
    chosen
        .map(|(choice, (_, fields))| [vec![choice], fields].concat())
        .collect()
}
