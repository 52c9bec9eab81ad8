//! Connections that a master shares in proxy mode (OpenSSH's PROTOCOL.mux §9): their packets, and what
//! they leave out.

use proto::channel::Request;
use proto::{Connection, Event, Stream, TransportConfig, TransportOutput};

fn shared() -> Connection {
    Connection::shared(TransportConfig::default(), 0).expect("a connection")
}

/// The bytes that wait to be sent.
fn output(connection: &mut Connection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(output) = connection.poll_output() {
        match output {
            TransportOutput::Raw(raw) => bytes.extend(raw),
            TransportOutput::Seal(job) => bytes.extend_from_slice(job.run().wire()),
        }
    }
    bytes
}

fn pass(from: &mut Connection, to: &mut Connection) {
    let bytes = output(from);
    to.receive_buffer().extend_from_slice(&bytes);
    to.process(0).expect("permitted messages");
}

#[test]
fn a_channel_works_without_a_transport() {
    let (mut one, mut other) = (shared(), shared());
    assert!(output(&mut one).is_empty(), "no version, no key exchange");
    let id = one.open_channel("session", b"").expect("a channel");
    pass(&mut one, &mut other);
    let Some(Event::ChannelOpenRequest { channel, .. }) = other.poll_event() else {
        panic!("no CHANNEL_OPEN");
    };
    other.accept_channel(channel).expect("accepted");
    pass(&mut other, &mut one);
    assert!(matches!(one.poll_event(), Some(Event::ChannelOpened(opened)) if opened == id));
    let command = b"true".to_vec();
    one.channel_request(id, &Request::Exec { command }, true)
        .expect("sent");
    let data = vec![7; 30_000];
    assert_eq!(
        one.channel_send_slice(id, Stream::Data, &data)
            .expect("sent"),
        data.len()
    );
    pass(&mut one, &mut other);
    assert!(matches!(
        other.poll_event(),
        Some(Event::ChannelRequest { .. })
    ));
    match other.poll_event() {
        Some(Event::ChannelData { data: got, .. }) => assert_eq!(got, data),
        event => panic!("{event:?}"),
    }
}

#[test]
fn packets_have_no_padding_but_in_messages_that_openssh_could_not_read() {
    let mut one = shared();
    one.open_channel("session", b"").expect("a channel");
    let bytes = output(&mut one);
    let (length, packet) = bytes.split_first_chunk().expect("a length");
    assert_eq!(u32::from_be_bytes(*length) as usize, packet.len());
    assert_eq!(&packet[..2], [0, 90]);
    assert_eq!(packet.len(), 2 + 4 + 7 + 12);
    // REQUEST_FAILURE: OpenSSH reads packets from five bytes.
    let mut asked = shared();
    asked
        .receive_buffer()
        .extend_from_slice(b"\0\0\0\x08\0\x50\0\0\0\x01x\x01");
    asked.process(0).expect("a global request");
    let bytes = output(&mut asked);
    assert_eq!(&bytes[..6], b"\0\0\0\x05\x03\x52");
    assert_eq!(bytes.len(), 9);
}

#[test]
fn only_the_connection_protocol_is_sent_and_accepted() {
    let mut one = shared();
    one.send_ignore(b"x").expect("dropped");
    one.disconnect(11, "bye");
    assert!(output(&mut one).is_empty());
    for number in [1_u8, 2, 3, 20, 21, 30, 50, 52] {
        let mut one = shared();
        let packet = [0, 0, 0, 6, 0, number, 0, 0, 0, 0];
        one.receive_buffer().extend_from_slice(&packet);
        assert!(one.process(0).is_err(), "message {number}");
    }
}
