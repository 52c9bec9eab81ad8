//! Tests: encoding and decoding, framing, request ids and permits.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use wire::{Field, Put};

use crate::attributes::{Attributes, ExactTimes, Owner, Times, Timestamp, mode};
use crate::client::Requests;
use crate::extension::{self, EXTENSIONS, Extended, Limits};
use crate::frame::{FrameError, FramePiece, ReadingSide, Splitter};
use crate::message::reply::{DATA_HEAD_BYTES, NameEntry, Names, Status, data_head, encode_attrs};
use crate::message::request::{self, write_head};
use crate::message::{Init, Reply, Request, Version, number, open_flag};
use crate::server::{Permits, REQUESTS, RequestRefusal, SftpPhase};
use crate::{Code, MAX_MESSAGE_BYTES, vendor};

fn everything_known() -> Attributes {
    Attributes {
        size: Some(1 << 40),
        owner: Some(Owner { uid: 7, gid: 8 }),
        permissions: Some(0o100_644),
        times: Some(Times {
            accessed: 5,
            modified: 6,
        }),
        exact_times: Some(ExactTimes {
            accessed: Timestamp {
                seconds: 5,
                nanoseconds: 1,
            },
            modified: Timestamp {
                seconds: 6,
                nanoseconds: 999_999_999,
            },
        }),
        sole_writer: true,
    }
}

fn some_requests() -> Vec<Request<'static>> {
    let attributes = everything_known();
    let (path, handle) = (b"/a\xff".as_slice(), b"\0\0\0\x01".as_slice());
    vec![
        Request::Open(request::Open {
            path,
            flags: open_flag::READ,
            attributes,
        }),
        Request::Close(request::Close { handle }),
        Request::Read(request::Read {
            handle,
            offset: 1 << 33,
            len: 9,
        }),
        Request::Write(request::Write {
            handle,
            offset: 4,
            data: b"abc",
        }),
        Request::Setstat(request::Setstat {
            path,
            attributes: Attributes::NONE,
        }),
        Request::Rename(request::Rename {
            old: b"x",
            new: b"y",
        }),
        Request::Symlink(request::Symlink {
            target: b"t",
            link: b"l",
        }),
        Request::Extended(Extended::GetLimits(extension::GetLimits {})),
        Request::Extended(Extended::CopyData(extension::CopyData {
            from: handle,
            from_offset: 1,
            len: 2,
            to: handle,
            to_offset: 3,
        })),
        Request::Extended(Extended::PutFile(extension::PutFile {
            path,
            flags: vendor::put_flag::EXACT,
            attributes,
            data: b"content",
        })),
        Request::Extended(Extended::Cancel(extension::Cancel { request: 4 })),
        Request::Extended(Extended::OpenRead(extension::OpenRead {
            path,
            flags: 0,
            len: 1 << 40,
        })),
    ]
}

#[test]
fn requests_are_read_as_they_were_written() {
    for (id, asked) in (40..).zip(some_requests()) {
        let mut out = Vec::new();
        asked.encode_into(id, &mut out);
        let len = u32::try_from(out.len() - 4).unwrap();
        assert_eq!(out[..4], len.to_be_bytes());
        assert_eq!(Request::decode(&out[4..]), Ok((id, asked)));
        // Fields after the last are ignored.
        out.extend_from_slice(b"\0\0\0\x01");
        assert_eq!(Request::decode(&out[4..]), Ok((id, asked)));
    }
}

#[test]
fn a_request_that_ends_too_soon_is_refused_with_its_id() {
    for asked in some_requests() {
        let mut out = Vec::new();
        asked.encode_into(77, &mut out);
        for end in 4..out.len() {
            match Request::decode(&out[4..end]) {
                Err(refused) if end < 9 => assert_eq!(refused.id, None),
                Err(refused) => assert_eq!(refused.id, Some(77)),
                // A message cut within the name is another extension's.
                Ok((_, read)) => panic!("{read:?} from {end} of {} bytes", out.len()),
            }
        }
    }
}

#[test]
fn answers_are_read_as_they_were_written() {
    let mut out = Vec::new();
    Status {
        code: Code::FAILURE,
        message: b"No space left on device",
    }
    .encode_into(3, &mut out);
    let (id, read) = Reply::decode(&out[4..]).unwrap();
    assert_eq!(id, 3);
    assert!(
        matches!(read, Reply::Status(status) if status.code == Code::FAILURE
        && status.message == b"No space left on device")
    );

    out.clear();
    encode_attrs(4, &everything_known(), &mut out);
    assert_eq!(
        Reply::decode(&out[4..]),
        Ok((4, Reply::Attrs(everything_known())))
    );

    out.clear();
    let entry = NameEntry {
        name: b"caf\xe9",
        long_name: b"-rw",
        attributes: everything_known(),
    };
    let mut entries = Vec::new();
    entry.encode_into(&mut entries);
    entry.encode_into(&mut entries);
    Names::encode_into(5, 2, &entries, &mut out);
    let Ok((5, Reply::Names(names))) = Reply::decode(&out[4..]) else {
        panic!("no NAME");
    };
    let read: Result<Vec<_>, _> = names.iter().collect();
    assert_eq!(read.unwrap(), [entry, entry]);

    out.clear();
    out.extend_from_slice(&data_head(6, 3));
    assert_eq!(out.len(), DATA_HEAD_BYTES);
    out.extend_from_slice(b"xyz");
    assert_eq!(Reply::decode(&out[4..]), Ok((6, Reply::Data(b"xyz"))));
}

#[test]
fn a_false_count_ends_with_the_message() {
    let mut out = Vec::new();
    Names::encode_into(5, u32::MAX, b"", &mut out);
    let Ok((5, Reply::Names(names))) = Reply::decode(&out[4..]) else {
        panic!("no NAME");
    };
    assert_eq!(names.iter().count(), 1);
    assert!(names.iter().next().unwrap().is_err());
    // The highest possible count of extended attributes.
    let mut attributes = vec![0x80, 0, 0, 0];
    attributes.put_u32(u32::MAX);
    assert!(Attributes::read(&mut wire::Reader::new(&attributes)).is_err());
}

#[test]
fn a_second_has_no_more_nanoseconds_than_fit() {
    let mut wrong = everything_known();
    if let Some(exact) = &mut wrong.exact_times {
        exact.modified.nanoseconds = 1_000_000_000;
    }
    let mut out = Vec::new();
    wrong.write(&mut out);
    assert!(Attributes::read(&mut wire::Reader::new(&out)).is_err());
}

/// Splits a stream pushed in chunks of `step` bytes and joins adjacent payload.
#[test]
fn modes_are_written_as_ls_writes_them() {
    for (bits, letters) in [
        (0o100_644, "-rw-r--r--"),
        (0o000_644, "-rw-r--r--"),
        (0o040_755, "drwxr-xr-x"),
        (0o120_777, "lrwxrwxrwx"),
        (0o010_600, "prw-------"),
        (0o104_755, "-rwsr-xr-x"),
        (0o102_644, "-rw-r-Sr--"),
        (0o041_777, "drwxrwxrwt"),
        (0o041_776, "drwxrwxrwT"),
        (0o170_000, "?---------"),
    ] {
        assert_eq!(mode::letters(bits), letters);
    }
}

fn cut(side: ReadingSide, stream: &[u8], step: usize) -> Result<Vec<FramePiece>, FrameError> {
    let mut splitter = Splitter::new(side);
    let mut pieces = Vec::new();
    let mut consumed = 0;
    for part in stream.chunks(step.max(1)) {
        splitter.push(Bytes::copy_from_slice(part));
        while let Some(piece) = splitter.next_piece()? {
            match (pieces.last_mut(), piece) {
                (
                    Some(FramePiece::Payload { bytes, left }),
                    FramePiece::Payload {
                        bytes: more,
                        left: now,
                    },
                ) => {
                    *bytes = [&bytes[..], &more[..]].concat().into();
                    *left = now;
                }
                (_, piece) => pieces.push(piece),
            }
        }
        consumed += splitter.take_consumed();
    }
    assert_eq!(consumed + splitter.held(), stream.len());
    Ok(pieces)
}

#[test]
fn a_stream_is_cut_alike_whatever_its_pieces() {
    let mut stream = Vec::new();
    Init { version: 3 }.encode_into(&mut stream);
    for (id, asked) in (1..).zip(some_requests()) {
        asked.encode_into(id, &mut stream);
    }
    let mut head = Vec::new();
    write_head(90, b"hand", 7, 70_000, &mut head);
    stream.extend_from_slice(&head);
    stream.extend_from_slice(&vec![0x55; 70_000]);
    request::Close { handle: b"hand" }.encode_into(91, &mut stream);
    let whole = cut(ReadingSide::Server, &stream, stream.len()).unwrap();
    let data = whole.iter().find_map(|piece| match piece {
        FramePiece::Payload { bytes, left: 0 } if bytes.len() == 70_000 => Some(bytes),
        _ => None,
    });
    assert!(data.unwrap()[..] == vec![0x55; 70_000][..]);
    for step in [1, 2, 3, 5, 13, 25, 100, 4096, 32_768] {
        assert_eq!(
            cut(ReadingSide::Server, &stream, step),
            Ok(whole.clone()),
            "{step}"
        );
    }
    // For a client, WRITE is an ordinary message and DATA is streamed.
    let mut answers = Vec::new();
    answers.extend_from_slice(&data_head(8, 5));
    answers.extend_from_slice(b"12345");
    Status {
        code: Code::EOF,
        message: b"",
    }
    .encode_into(9, &mut answers);
    for step in [1, 4, 100] {
        let pieces = cut(ReadingSide::Client, &answers, step).unwrap();
        assert_eq!(pieces[0], FramePiece::Data { id: 8, len: 5 });
        assert!(
            matches!(&pieces[1], FramePiece::Payload { bytes, left: 0 } if bytes[..] == *b"12345")
        );
        assert!(matches!(pieces[2], FramePiece::Message(_)));
    }
}

#[test]
fn nothing_is_gathered_for_a_length_that_cannot_be() {
    let too_long = u32::try_from(MAX_MESSAGE_BYTES + 1).unwrap();
    for (stream, error) in [
        (
            too_long.to_be_bytes().to_vec(),
            FrameError::TooLong(too_long),
        ),
        (vec![0xff; 4], FrameError::TooLong(u32::MAX)),
        (vec![0; 4], FrameError::Empty),
        (
            [vec![0, 0, 0, 20, number::WRITE], vec![0xff; 16]].concat(),
            FrameError::BadPayload,
        ),
    ] {
        assert_eq!(cut(ReadingSide::Server, &stream, 1), Err(error));
    }
    // The data length exceeds the message.
    let mut head = data_head(1, 10);
    head[12] = 11;
    assert_eq!(
        cut(ReadingSide::Client, &head, 3),
        Err(FrameError::BadPayload)
    );
}

#[test]
fn bytes_behind_the_data_of_a_write_are_passed_over() {
    let mut stream = Vec::new();
    write_head(1, b"h", 0, 3, &mut stream);
    stream[3] += 2;
    stream.extend_from_slice(b"abc..");
    request::Close { handle: b"h" }.encode_into(2, &mut stream);
    for step in [1, 7, 1000] {
        let pieces = cut(ReadingSide::Server, &stream, step).unwrap();
        assert_eq!(pieces.len(), 3, "{pieces:?}");
        assert!(matches!(pieces[2], FramePiece::Message(_)));
    }
}

#[test]
fn answers_find_their_requests_once() {
    let mut requests = Requests::default();
    let ids: Vec<u32> = (0..4).map(|each| requests.insert(each)).collect();
    assert_eq!(requests.answered(ids[2]), Some(2));
    assert_eq!(requests.answered(ids[2]), None);
    assert_eq!(requests.answered(99), None);
    assert_eq!(requests.find(ids[3]).copied(), Some(3));
    let left: Vec<i32> = requests.iter().map(|(_, each)| *each).collect();
    assert_eq!(left, [0, 1, 3]);
    assert_eq!(requests.len(), 3);
}

#[test]
fn every_extension_has_its_line_in_the_table() {
    for (name, version) in EXTENSIONS {
        assert!(
            REQUESTS
                .iter()
                .any(|info| info.extension == Some((name, version))),
            "{name}"
        );
    }
    assert!(vendor::HASH_RANGE.starts_with("hash-range@"));
    assert!(vendor::HASH_RANGE.ends_with(wire::EXTENSION_DOMAIN));
}

#[test]
fn a_conversation_begins_with_init() {
    let mut phase = SftpPhase::default();
    let mut out = Vec::new();
    let permits = Permits::everything();
    assert!(
        phase
            .begin(&[number::OPEN, 0, 0, 0, 1], &permits, &mut out)
            .is_err()
    );
    assert!(out.is_empty() && phase == SftpPhase::Beginning);
    // INIT with extensions, which the draft allows.
    let init = [&[number::INIT, 0, 0, 0, 6][..], b"\0\0\0\x01x"].concat();
    assert_eq!(phase.begin(&init, &permits, &mut out), Ok(()));
    assert_eq!(phase, SftpPhase::Serving { client_version: 6 });
    let version = Version::decode(&out[4..]).unwrap();
    assert_eq!(version.version, 3);
    assert!(version.has(extension::POSIX_RENAME, "1") && version.has(vendor::WALK, "2"));
}

#[test]
fn what_changes_a_file_is_refused_by_a_read_only_server() {
    let permits = Permits::new(true, None::<[&str; 0]>, []).unwrap();
    let mut refused = Vec::new();
    for asked in some_requests() {
        if permits.request(&asked) == Err(RequestRefusal::ReadOnly) {
            refused.push(crate::server::name(&asked).unwrap());
        }
    }
    assert_eq!(
        refused,
        [
            "write",
            "setstat",
            "rename",
            "symlink",
            "copy-data",
            "put-file"
        ]
    );
    for flags in [
        open_flag::WRITE,
        open_flag::CREATE,
        open_flag::READ | open_flag::TRUNCATE,
        open_flag::APPEND,
    ] {
        let open = Request::Open(request::Open {
            path: b"x",
            flags,
            attributes: Attributes::NONE,
        });
        assert_eq!(
            permits.request(&open),
            Err(RequestRefusal::ReadOnly),
            "{flags}"
        );
    }
    assert!(
        permits
            .extensions()
            .all(|(name, _)| name != vendor::PUT_FILE)
    );
}

#[test]
fn lists_of_requests_name_what_is_refused() {
    let permits = Permits::new(false, None::<[&str; 0]>, ["remove", "write"]).unwrap();
    let remove = Request::Remove(request::Remove { path: b"x" });
    assert_eq!(permits.request(&remove), Err(RequestRefusal::NotPermitted));
    let permits = Permits::new(false, Some(["open", "close", "read"]), []).unwrap();
    assert_eq!(permits.request(&remove), Err(RequestRefusal::NotPermitted));
    assert_eq!(permits.request(&some_requests()[0]), Ok(()));
    assert_eq!(
        Permits::new(false, None::<[&str; 0]>, ["rmove"]).unwrap_err(),
        "rmove"
    );
}

/// Decodes a request of the extension `name` with every field empty or zero.
fn asked_by_name<'m>(message: &'m mut Vec<u8>, name: &str) -> Request<'m> {
    message.push(number::EXTENDED);
    message.put_u32(1);
    message.put_string(name.as_bytes());
    message.extend_from_slice(&[0; 128]);
    let (_, request) = Request::decode(message).unwrap();
    assert!(
        matches!(&request, Request::Extended(asked) if asked.name() == name),
        "{name}"
    );
    request
}

#[test]
fn what_an_extension_stands_for_denies_it_in_every_way() {
    let row = |name: &str| REQUESTS.iter().find(|info| info.name == name);
    for (extension, version) in EXTENSIONS {
        let mut rows = REQUESTS
            .iter()
            .filter(|info| info.extension == Some((extension, version)));
        let (Some(info), None) = (rows.next(), rows.next()) else {
            panic!("{extension} has not one row");
        };
        let mut message = Vec::new();
        let asked = asked_by_name(&mut message, extension);
        assert_eq!(crate::server::name(&asked), Some(info.name));
        // A denied extension is neither carried out nor announced.
        let is_open = |permits: &Permits| {
            let announced = permits.extensions().any(|(name, _)| name == *extension);
            assert_eq!(permits.request(&asked).is_ok(), announced, "{extension}");
            announced
        };
        let denying = |name| Permits::new(false, None::<[&str; 0]>, [name]).unwrap();
        let everything = || REQUESTS.iter().map(|info| info.name);
        assert!(is_open(&Permits::everything()));
        assert!(is_open(
            &Permits::new(false, Some(everything()), []).unwrap()
        ));
        assert!(!is_open(&denying(info.name)));
        for base in info.stands_for {
            let base_row = row(base).unwrap_or_else(|| panic!("{base} is no request"));
            // "cancel" is a vendor extension, but only ends the answers to other requests.
            let is_base = !base_row.is_vendor() || *base == "cancel";
            assert!(is_base, "{base} of {extension} is ours");
            assert!(!is_open(&denying(base)), "{extension} in spite of {base}");
            // A base request missing from the list of allowed ones denies a vendor extension, not
            // one of OpenSSH.
            let others = everything().filter(|name| name != base);
            let without = Permits::new(false, Some(others), []).unwrap();
            assert_eq!(is_open(&without), !info.is_vendor(), "{extension} {base}");
            assert!(info.changes || !base_row.changes, "{extension} {base}");
        }
        for other in REQUESTS {
            let stands = other.name == info.name || info.stands_for.contains(&other.name);
            assert_eq!(is_open(&denying(other.name)), !stands, "{}", other.name);
        }
        let read_only = Permits::new(true, None::<[&str; 0]>, []).unwrap();
        assert_eq!(is_open(&read_only), !info.changes, "{extension}");
        // A vendor extension that does the work of no request neither reveals nor changes anything.
        let harmless = [vendor::EXACT_TIMES, vendor::CANCEL].contains(extension);
        assert_eq!(
            info.is_vendor() && info.stands_for.is_empty(),
            harmless,
            "{extension}"
        );
    }
    // Requests that reveal attributes need the permits of stat and fstat.
    for tells in ["open-read", "walk"] {
        let stands_for = row(tells).unwrap().stands_for;
        assert!(stands_for.contains(&"stat") && stands_for.contains(&"fstat"));
    }
}

#[test]
fn numbers_of_limits_are_read_as_written() {
    let limits = Limits {
        max_message_bytes: 1,
        max_read_bytes: 2,
        max_write_bytes: 3,
        max_handles: 4,
    };
    let mut out = Vec::new();
    limits.write(&mut out);
    assert_eq!(Limits::decode(&out), Ok(limits));
    assert!(Limits::decode(&out[1..]).is_err());
    let lists: Vec<&[u8]> = extension::strings(b"\0\0\0\x01a\0\0\0\0\0\0\0\x09").collect();
    assert_eq!(lists, [b"a".as_slice(), b""]);
}
