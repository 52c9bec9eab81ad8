//! Two connections in memory: a login, and bulk data through a channel.

use proto::{ChannelId, Connection, Event, Stream, TransportConfig, TransportOutput};
use sim::Pair;

use crate::Piece;

/// Number of bytes of the bulk transfer.
const BULK_BYTES: usize = 1 << 20;

/// A login, and bulk in either direction.
pub(crate) fn pieces() -> Vec<Piece> {
    vec![
        login(),
        bulk("bulk MiB up", true),
        bulk("bulk MiB down", false),
    ]
}

/// From the version lines to the accepted password, on both sides, including the curves and hashes.
fn login() -> Piece {
    let mut pair = Some(new_pair());
    Piece::new("login", move || {
        if let Some(mut pair) = pair.take() {
            pair.login(usize::MAX).expect("a login");
        }
    })
}

fn new_pair() -> Pair {
    Pair::new(TransportConfig::default(), TransportConfig::default())
}

fn bulk(name: &str, up: bool) -> Piece {
    let mut pair = new_pair();
    pair.login(usize::MAX).expect("a login");
    let id = pair.open_session().expect("a session");
    let (client, server, _) = pair.into_parts();
    let (mut from, mut to) = if up {
        (client, server)
    } else {
        (server, client)
    };
    let data = vec![0x5a; BULK_BYTES];
    Piece::new(name, move || {
        let mut sent = 0;
        let mut arrived = 0;
        while arrived < data.len() {
            let rest = data.get(sent..).unwrap_or_default();
            sent += from
                .channel_send_slice(id, Stream::Data, rest)
                .expect("an open channel");
            carry(&mut from, &mut to);
            arrived += consume(&mut to, id);
            carry(&mut to, &mut from);
            while from.poll_event().is_some() {}
        }
        assert_eq!(arrived, data.len());
    })
}

/// Seals all queued packets of one side and passes them to the other.
fn carry(from: &mut Connection, to: &mut Connection) {
    let mut any = false;
    while let Some(output) = from.poll_output() {
        any = true;
        match output {
            TransportOutput::Raw(bytes) => to.receive_buffer().extend_from_slice(&bytes),
            TransportOutput::Seal(job) => {
                let sealed = job.run();
                to.receive_buffer().extend_from_slice(sealed.wire());
                from.recycle(sealed.into_buf());
            }
        }
    }
    if any {
        to.process(0).expect("legal packets");
    }
}

/// Consumes the received data; returns their number of bytes.
fn consume(to: &mut Connection, id: ChannelId) -> usize {
    let mut bytes = 0;
    while let Some(event) = to.poll_event() {
        if let Event::ChannelData { data, .. } = event {
            bytes += data.len();
            to.channel_consumed(id, data.len())
                .expect("an open channel");
        }
    }
    bytes
}
