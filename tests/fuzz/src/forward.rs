//! Requests of forwardings: SOCKS, the fields of channels, and the requests to listen.

use std::fmt::Debug;

use driver::forward::{ForwardTarget, Listening, Socks, SocksStep};
use wire::names;

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
                SocksStep::Connect(_) | SocksStep::Refuse(_) => {
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
    match choice % 6 {
        0 => target(names::CHANNEL_DIRECT_TCPIP, fields),
        1 => target(names::CHANNEL_DIRECT_STREAMLOCAL, fields),
        2 => listening(names::CHANNEL_FORWARDED_TCPIP, fields),
        3 => listening(names::CHANNEL_FORWARDED_STREAMLOCAL, fields),
        4 => request(names::GLOBAL_TCPIP_FORWARD, fields),
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
    let fields = [
        tcp.open_request(None),
        unix.open_request(None),
        port.open_request(None),
        path.open_request(None),
        port.listen_request(false),
        path.listen_request(false),
    ];
    let choices = 0_u8..;
    let chosen = choices.zip(fields);
    chosen
        .map(|(choice, (_, fields))| [vec![choice], fields].concat())
        .collect()
}
