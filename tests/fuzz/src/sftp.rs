//! SFTP's stream and messages, as server and client parse them.

use ::sftp::frame::{FramePiece, ReadingSide, Splitter};
use ::sftp::message::{Init, Reply, Request, Version};
use ::sftp::vendor;
use bytes::Bytes;

/// A stream must split into the same messages for two sizes of pieces; a decoded message must
/// encode to bytes that decode to the same message.
///
/// # Panics
/// If it does not.
pub fn sftp_stream(data: &[u8]) {
    for side in [ReadingSide::Server, ReadingSide::Client] {
        assert_eq!(cut(side, data, data.len().max(1)), cut(side, data, 7));
        for message in cut(side, data, 4096).0 {
            read(&message);
        }
    }
    read(data);
}

/// Complete messages, all data joined, and whether the stream was invalid.
fn cut(side: ReadingSide, data: &[u8], step: usize) -> (Vec<Vec<u8>>, Vec<u8>, bool) {
    let mut splitter = Splitter::new(side);
    let (mut messages, mut payload) = (Vec::new(), Vec::new());
    let mut consumed = 0;
    for part in data.chunks(step) {
        splitter.push(Bytes::copy_from_slice(part));
        loop {
            match splitter.next_piece() {
                Ok(Some(FramePiece::Message(message))) => messages.push(message.to_vec()),
                Ok(Some(FramePiece::Payload { bytes, .. })) => {
                    assert!(!bytes.is_empty());
                    payload.extend_from_slice(&bytes);
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return (messages, payload, true),
            }
        }
        consumed += splitter.take_consumed();
        assert!(consumed <= data.len());
    }
    assert_eq!(consumed + splitter.held(), data.len());
    (messages, payload, false)
}

fn read(message: &[u8]) {
    if let Ok((id, request)) = Request::decode(message) {
        let mut out = Vec::new();
        request.encode_into(id, &mut out);
        if let Some(encoded) = out.get(4..) {
            // Foreign attributes are left out, and whole seconds accompany exact times: the written
            // bytes may differ from the read ones, but not from those of the next round.
            let (again, same) = Request::decode(encoded).expect("own encoding");
            let mut twice = Vec::new();
            same.encode_into(again, &mut twice);
            assert_eq!((again, twice), (id, out));
        }
    }
    if let Ok((_, reply)) = Reply::decode(message) {
        match reply {
            Reply::Names(names) => {
                assert!(names.iter().count() <= message.len());
            }
            Reply::Extended(fields) => {
                assert!(vendor::entries(fields).count() <= message.len());
                let _ = vendor::Hashes::decode(fields);
                let _ = vendor::Hole::decode(fields);
                let _ = vendor::OpenedFile::decode(fields);
            }
            _ => {}
        }
    }
    drop(Version::decode(message));
    let _ = Init::decode(message);
}

/// Streams of both directions.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    use ::sftp::extension::{Extended, OpenRead, PutFile};
    use ::sftp::message::request::{Open, Write};
    use ::sftp::{Attributes, ExactTimes};

    let attributes = Attributes {
        size: Some(5),
        exact_times: Some(ExactTimes::default()),
        ..Attributes::with_permissions(0o644)
    };
    let mut asked = Vec::new();
    Init { version: 3 }.encode_into(&mut asked);
    let (path, handle) = (b"/a/b".as_slice(), b"\0\0\0\0\0\0\0\x01".as_slice());
    for (id, request) in (1..).zip([
        Request::Open(Open {
            path,
            flags: 26,
            attributes,
        }),
        Request::Write(Write {
            handle,
            offset: 9,
            data: b"some data",
        }),
        Request::Extended(Extended::PutFile(PutFile {
            path,
            flags: 2,
            attributes,
            data: b"content",
        })),
        Request::Extended(Extended::OpenRead(OpenRead {
            path,
            flags: 0,
            len: u64::MAX,
        })),
    ]) {
        request.encode_into(id, &mut asked);
    }
    let mut answered = Vec::new();
    Version::encode(3, [("posix-rename@openssh.com", "1")], &mut answered);
    ::sftp::message::reply::encode_attrs(1, &attributes, &mut answered);
    answered.extend_from_slice(&::sftp::message::reply::data_head(2, 4));
    answered.extend_from_slice(b"data");
    ::sftp::message::reply::encode_extended(3, &mut answered, |out| {
        vendor::OpenedFile { attributes, handle }.write(out);
    });
    vec![asked, answered]
}
