//! Packets of tunnels, as they arrive from the peer.

use bytes::Bytes;
use driver::packets::{PacketForm, Records};
use wire::Put;

/// Largest record in these inputs, bytes.
const MOST: usize = 4096;

/// Data must contain the same records for two sizes of messages. Each packet that the device
/// receives must be the end of what the peer sent, and come back unchanged from the device's form.
///
/// # Panics
/// If it does not.
pub fn tunnel_packets(data: &[u8]) {
    assert_eq!(cut(MOST, data, data.len().max(1)), cut(MOST, data, 3));
    let (records, _) = cut(MOST, data, data.len().max(1));
    for received in records.iter().map(Vec::as_slice).chain([data]) {
        for form in [PacketForm::Layer2, PacketForm::Layer3, PacketForm::Segments] {
            pass(form, received);
        }
    }
}

fn pass(form: PacketForm, received: &[u8]) {
    let Some((header, packet)) = form.to_device(received) else {
        return;
    };
    assert!(received.ends_with(packet) && !packet.is_empty());
    assert_eq!(header.is_some(), form.has_device_header());
    let mut read = header.map_or_else(Vec::new, |header| header.to_vec());
    read.extend_from_slice(packet);
    let (prefix, sent) = form.to_channel(&mut read).expect("a packet of the device");
    assert_eq!(sent, packet);
    if form != PacketForm::Layer3 {
        assert_eq!([prefix.bytes(), sent].concat(), received);
    }
}

/// The records of at most `most` bytes, and whether the data was malformed.
pub(crate) fn cut(most: usize, data: &[u8], step: usize) -> (Vec<Vec<u8>>, bool) {
    let mut records = Records::new(most);
    let mut found = Vec::new();
    for piece in data.chunks(step) {
        records.push(Bytes::copy_from_slice(piece));
        loop {
            match records.next_record() {
                Ok(Some(record)) => found.push(record.to_vec()),
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}

/// A stream of a whole packet and of large segments of both IP versions, and a layer 3 message.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let tcp4 = [
        &[0x45, 0, 0, 240, 0, 0, 0x40, 0, 64, 6][..],
        &[0; 22],
        &[0x50],
        &[7; 207],
    ]
    .concat();
    let tcp6 = [
        &[0x60, 0, 0, 0, 0, 200, 6, 64][..],
        &[0; 44],
        &[0x50],
        &[7; 187],
    ]
    .concat();
    let mut stream = Vec::new();
    for (segment, packet) in [(0, &tcp4), (100, &tcp4), (100, &tcp6)] {
        stream.put_string(&[&[0, segment], &packet[..]].concat());
    }
    vec![stream, [&[0, 0, 0, 2], &tcp4[..]].concat()]
}
