//! `ping@openssh.com`: when each side may send it, and that the other side answers.

use proto::{Stream, TransportConfig};
use sim::Pair;

fn pair() -> Pair {
    Pair::new(TransportConfig::default(), TransportConfig::default())
}

#[test]
fn a_ping_is_answered_with_a_packet_of_its_own_size() {
    let mut pair = pair();
    pair.login(usize::MAX).unwrap();
    assert!(pair.client.connection.ping_supported());
    assert!(!pair.server.connection.ping_supported(), "told by nobody");
    for _ in 0..3 {
        assert!(pair.client.connection.send_ping(b"12345").unwrap());
        pair.client.transmit();
        let ping: Vec<u8> = pair.client.wire.drain(..).collect();
        pair.server.receive(&ping, 0).unwrap();
        pair.server.transmit();
        assert_eq!(pair.server.wire.len(), ping.len());
        pair.settle(usize::MAX).unwrap();
    }
}

#[test]
fn a_ping_leaves_at_once_or_not_at_all() {
    let mut pair = pair();
    pair.settle(usize::MAX).unwrap();
    let client = &mut pair.client.connection;
    assert!(!client.is_authenticated() && !client.send_ping(b"x").unwrap());
    assert!(!client.has_output());
    pair.login(usize::MAX).unwrap();
    let id = pair.open_session().unwrap();

    let client = &mut pair.client.connection;
    client
        .channel_send_slice(id, Stream::Data, b"data")
        .unwrap();
    assert!(!client.send_ping(b"x").unwrap(), "behind data");
    pair.settle(usize::MAX).unwrap();

    pair.client.connection.rekey(0).unwrap();
    pair.client.transmit();
    assert!(!pair.client.connection.has_output());
    assert!(
        !pair.client.connection.send_ping(b"x").unwrap(),
        "in a key exchange"
    );
    pair.settle(usize::MAX).unwrap();
    assert!(pair.client.connection.send_ping(b"x").unwrap());

    let client = &mut pair.client.connection;
    client.disconnect(11, "bye");
    pair.client.transmit();
    assert!(
        !pair.client.connection.send_ping(b"x").unwrap(),
        "after goodbye"
    );
}
