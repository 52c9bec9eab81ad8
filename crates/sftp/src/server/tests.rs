//! Requests to a server with real files in a temporary directory: answers, order, failures, limits.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::extension::{self, Extended, Limits};
use crate::frame::Splitter;
use crate::message::{Init, Reply, Request, open_flag, request};
use crate::server::Permits;
use crate::vendor;
use crate::{Attributes, Code, ExactTimes, Timestamp};
use bytes::Bytes;
use packet::PacketBuf;
use sys::fs::PathRoot;

use super::*;
use crate::scratch::Scratch;

mod hashing;
mod opening;
mod permits;
mod trees;
mod watching;

/// Buffers of this many bytes.
struct Plain(usize);

impl Buffers for Plain {
    fn take(&mut self, capacity: usize) -> PacketBuf {
        PacketBuf::with_capacity(capacity)
    }

    fn max_bytes(&self) -> usize {
        self.0
    }
}

#[derive(Clone)]
struct Heard(Arc<Mutex<Vec<String>>>, LogLevel);

impl Log for Heard {
    fn wants(&self, level: LogLevel) -> bool {
        level <= self.1
    }

    fn line(&self, level: LogLevel, text: &str) {
        if self.wants(level) {
            self.0.lock().unwrap().push(text.to_owned());
        }
    }
}

/// An owned answer.
#[derive(Debug, PartialEq)]
enum Answer {
    Status(Code, String),
    Handle(Vec<u8>),
    Data(Vec<u8>),
    Names(Vec<Vec<u8>>),
    Attrs(Attributes),
    Extended(Vec<u8>),
}

struct Client {
    serve: Serve,
    buffers: Plain,
    log: Heard,
    next_id: u32,
    splitter: Splitter,
}

impl Client {
    fn new(place: PathRoot, permits: Permits) -> Self {
        let log = Heard(Arc::default(), LogLevel::Info);
        let mut this = Self {
            serve: Serve::new(place, permits, 16, Box::new(log.clone())),
            buffers: Plain(32_768),
            log,
            next_id: 0,
            // Split with the server's side, so that DATA arrives as a whole message.
            splitter: Splitter::new(ReadingSide::Server),
        };
        let mut init = Vec::new();
        Init { version: 3 }.encode_into(&mut init);
        this.serve.receive(Bytes::from(init));
        this.work();
        let version = this.splitter.next_piece().unwrap();
        assert!(matches!(version, Some(FramePiece::Message(_))));
        this
    }

    fn at(path: &Path) -> Self {
        let place = PathRoot::everywhere(path.as_os_str().as_bytes()).unwrap();
        Self::new(place, Permits::everything())
    }

    fn work(&mut self) -> Work {
        for _ in 0..100_000 {
            let work = self.serve.work(&mut self.buffers).unwrap();
            let mut any = false;
            while let Some(buf) = self.serve.outbox().next(20_000, &mut self.buffers) {
                assert!(buf.len() <= 20_000);
                self.splitter.push(Bytes::copy_from_slice(buf.payload()));
                any = true;
            }
            if work != Work::Busy && !any {
                return work;
            }
        }
        panic!("it never ends");
    }

    /// Runs one turn of the server and leaves its answers queued.
    fn work_once(&mut self) {
        self.serve.work(&mut self.buffers).unwrap();
    }

    fn send(&mut self, request: &Request<'_>) -> u32 {
        self.next_id += 1;
        let mut out = Vec::new();
        request.encode_into(self.next_id, &mut out);
        // In pieces, as packets split it.
        for part in out.chunks(30_000) {
            self.serve.receive(Bytes::copy_from_slice(part));
        }
        self.next_id
    }

    fn answers(&mut self) -> Vec<(u32, Answer)> {
        self.work();
        let mut answers = Vec::new();
        while let Some(piece) = self.splitter.next_piece().unwrap() {
            let FramePiece::Message(message) = piece else {
                panic!("{piece:?}");
            };
            let (id, reply) = Reply::decode(&message).unwrap();
            let answer = match reply {
                Reply::Status(status) => Answer::Status(
                    status.code,
                    String::from_utf8(status.message.to_vec()).unwrap(),
                ),
                Reply::Handle(handle) => Answer::Handle(handle.handle.to_vec()),
                Reply::Data(data) => Answer::Data(data.to_vec()),
                Reply::Names(names) => Answer::Names(
                    names
                        .iter()
                        .map(|name| name.unwrap().name.to_vec())
                        .collect(),
                ),
                Reply::Attrs(attributes) => Answer::Attrs(attributes),
                Reply::Extended(fields) => Answer::Extended(fields.to_vec()),
            };
            answers.push((id, answer));
        }
        assert_eq!(self.splitter.held(), 0);
        answers
    }

    fn ask(&mut self, request: &Request<'_>) -> Answer {
        let id = self.send(request);
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        let (answered, answer) = answers.remove(0);
        assert_eq!(answered, id);
        answer
    }

    fn extended(&mut self, request: Extended<'_>) -> Answer {
        self.ask(&Request::Extended(request))
    }

    fn open(&mut self, path: &[u8], flags: u32) -> Vec<u8> {
        let request = Request::Open(request::Open {
            path,
            flags,
            attributes: Attributes::with_permissions(0o644),
        });
        match self.ask(&request) {
            Answer::Handle(handle) => handle,
            other => panic!("{other:?}"),
        }
    }

    fn write(&mut self, handle: &[u8], offset: u64, data: &[u8]) -> Answer {
        self.ask(&Request::Write(request::Write {
            handle,
            offset,
            data,
        }))
    }
}

fn ok() -> Answer {
    Answer::Status(Code::OK, "Success".to_owned())
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[2]
        })
        .collect()
}

const CREATE: u32 = open_flag::READ | open_flag::WRITE | open_flag::CREATE;

#[test]
fn what_is_written_is_read_whatever_the_pieces() {
    let scratch = Scratch::new();
    let mut client = Client::at(&scratch);
    let handle = client.open(b"file", CREATE);
    let bytes = noise(255 * 1024);
    for index in 0..3 {
        let offset = index * bytes.len() as u64;
        assert_eq!(client.write(&handle, offset, &bytes), ok());
    }
    assert_eq!(fs::read(scratch.join("file")).unwrap(), bytes.repeat(3));
    for (offset, len, expected) in [
        (0, u32::MAX, &bytes[..]),
        (5, 100_000, &bytes[5..100_005]),
        (3 * 255 * 1024 - 7, 4096, &bytes[255 * 1024 - 7..]),
        (9, 0, &[]),
    ] {
        let read = Request::Read(request::Read {
            handle: &handle,
            offset,
            len,
        });
        assert_eq!(client.ask(&read), Answer::Data(expected.to_vec()));
    }
    let read = Request::Read(request::Read {
        handle: &handle,
        offset: 1 << 40,
        len: 1,
    });
    assert_eq!(
        client.ask(&read),
        Answer::Status(Code::EOF, "End of file".to_owned())
    );
    let close = Request::Close(request::Close { handle: &handle });
    assert_eq!(client.ask(&close), ok());
    // A closed handle is invalid, even if its slot is reused.
    let again = client.open(b"file", open_flag::READ);
    assert!(again != handle && again[..4] == handle[..4]);
    assert!(matches!(
        client.ask(&close),
        Answer::Status(Code::FAILURE, _)
    ));
    assert!(matches!(
        client.write(&handle, 0, b"x"),
        Answer::Status(Code::FAILURE, _)
    ));
    let lines = client.log.0.lock().unwrap().clone();
    assert_eq!(
        lines[..2],
        [
            "open \"file\" flags READ,WRITE,CREATE mode 0644",
            "close \"file\" bytes read 361127 written 783360"
        ]
    );
}

#[test]
fn answers_come_in_the_order_of_requests() {
    let scratch = Scratch::new();
    let mut client = Client::at(&scratch);
    let mut ids = Vec::new();
    for _ in 0..300 {
        ids.push(client.send(&Request::Lstat(request::Lstat { path: b"." })));
        ids.push(client.send(&Request::Mkdir(request::Mkdir {
            path: b"d",
            attributes: Attributes::NONE,
        })));
        ids.push(client.send(&Request::Rmdir(request::Rmdir { path: b"d" })));
    }
    let answers = client.answers();
    assert!(answers.iter().map(|(id, _)| *id).eq(ids));
    assert!(
        answers
            .iter()
            .all(|(_, answer)| matches!(answer, Answer::Attrs(_) | Answer::Status(Code::OK, _)))
    );
}

#[test]
fn a_full_disk_is_named_and_leaves_no_hole() {
    // Writes to /dev/full fail as on a full disk, at any offset.
    let mut client = Client::at(Path::new("/dev"));
    let handle = client.open(b"full", open_flag::WRITE);
    let full = Answer::Status(Code::FAILURE, "No space left on device".to_owned());
    assert_eq!(client.write(&handle, 0, b"abc"), full);
    // A write after the first missing byte is refused, even if there is space for it.
    let scratch = Scratch::new();
    let mut client = Client::at(&scratch);
    let handle = client.open(b"file", CREATE);
    client.serve.handles.file(&handle).unwrap().failed =
        Some((3, Failed::new(Code::FAILURE, "No space left on device")));
    assert_eq!(client.write(&handle, 10, b"behind"), full);
    assert_eq!(fs::metadata(scratch.join("file")).unwrap().len(), 0);
    assert_eq!(client.write(&handle, 0, b"abcdef"), ok());
    assert_eq!(client.write(&handle, 10, b"behind"), ok());
}

#[test]
fn attributes_are_told_and_set_to_the_nanosecond_when_asked() {
    let scratch = Scratch::new();
    fs::write(scratch.join("file"), "x").unwrap();
    let mut client = Client::at(&scratch);
    let at = |seconds, nanoseconds| Timestamp {
        seconds,
        nanoseconds,
    };
    let times = ExactTimes {
        accessed: at(1, 2),
        modified: at(1_700_000_000, 123_456_789),
    };
    let attributes = Attributes {
        exact_times: Some(times),
        permissions: Some(0o4751),
        ..Attributes::NONE
    };
    let set = Request::Setstat(request::Setstat {
        path: b"file",
        attributes,
    });
    assert_eq!(client.ask(&set), ok());
    let mode = fs::metadata(scratch.join("file")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o7777, 0o4751);
    let stat = Request::Stat(request::Stat { path: b"file" });
    let Answer::Attrs(told) = client.ask(&stat) else {
        panic!("no ATTRS");
    };
    assert_eq!((told.exact_times, told.size), (None, Some(1)));
    let exact = Extended::SetExactTimes(extension::SetExactTimes { on: true });
    assert_eq!(client.extended(exact), ok());
    let Answer::Attrs(told) = client.ask(&stat) else {
        panic!("no ATTRS");
    };
    assert_eq!(told.exact_times, Some(times));
}

#[test]
fn a_directory_is_listed_in_several_answers() {
    let scratch = Scratch::new();
    for index in 0..1000 {
        fs::write(scratch.join(format!("file-{index}")), "").unwrap();
    }
    fs::write(scratch.join(std::ffi::OsStr::from_bytes(b"caf\xe9\n")), "").unwrap();
    let mut client = Client::at(&scratch);
    let open = Request::Opendir(request::Opendir { path: b"." });
    let Answer::Handle(handle) = client.ask(&open) else {
        panic!("no HANDLE");
    };
    let mut names = Vec::new();
    let mut answers = 0;
    loop {
        let read = Request::Readdir(request::Readdir { handle: &handle });
        match client.ask(&read) {
            Answer::Names(more) => names.extend(more),
            Answer::Status(Code::EOF, _) => break,
            other => panic!("{other:?}"),
        }
        answers += 1;
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 1003);
    assert!(answers > 1 && names.contains(&b"caf\xe9\n".to_vec()));
}

#[test]
fn a_range_is_sent_as_data_after_data_and_holes_are_told() {
    let scratch = Scratch::new();
    let mut bytes = vec![0; 3 << 20];
    bytes[1 << 20..][..100_000].copy_from_slice(&noise(100_000));
    fs::write(scratch.join("dense"), &bytes).unwrap();
    let mut client = Client::at(&scratch);
    let handle = client.open(b"dense", open_flag::READ);
    client.send(&Request::Extended(Extended::ReadRange(
        extension::ReadRange {
            handle: &handle,
            offset: 10,
            len: u64::MAX,
            flags: 0,
        },
    )));
    // Sent meanwhile, and answered before the range is complete.
    let other = client.send(&Request::Stat(request::Stat { path: b"dense" }));
    let answers = client.answers();
    let position = answers.iter().position(|(id, _)| *id == other).unwrap();
    assert!(position < answers.len() - 1);
    let mut got = Vec::new();
    for (_, answer) in &answers {
        if let Answer::Data(data) = answer {
            assert!(data.len() + 13 <= 32_768);
            got.extend_from_slice(data);
        }
    }
    assert!(got == bytes[10..]);
    assert_eq!(answers.last().unwrap().1, ok());

    let sparse = client.open(b"sparse", CREATE);
    assert_eq!(
        client.write(&sparse, 1 << 20, &bytes[1 << 20..][..65_536]),
        ok()
    );
    let size = Attributes {
        size: Some(3 << 20),
        ..Attributes::NONE
    };
    let set = Request::Fsetstat(request::Fsetstat {
        handle: &sparse,
        attributes: size,
    });
    assert_eq!(client.ask(&set), ok());
    client.send(&Request::Extended(Extended::ReadRange(
        extension::ReadRange {
            handle: &sparse,
            offset: 0,
            len: u64::MAX,
            flags: vendor::read_flag::HOLES,
        },
    )));
    let mut got = Vec::new();
    let mut sent = 0;
    for (_, answer) in client.answers() {
        match answer {
            Answer::Data(data) => {
                sent += data.len();
                got.extend_from_slice(&data);
            }
            Answer::Extended(fields) => {
                let hole = vendor::Hole::decode(&fields).unwrap();
                got.resize(got.len() + usize::try_from(hole.len).unwrap(), 0);
            }
            other => assert_eq!(other, ok()),
        }
    }
    assert!(got == fs::read(scratch.join("sparse")).unwrap());
    let allocated = fs::metadata(scratch.join("sparse")).unwrap().blocks() * 512;
    if allocated < 1 << 20 {
        assert!(sent < 1 << 20, "{sent} bytes sent of {allocated}");
    }
}

#[test]
fn small_files_take_one_request_each() {
    let scratch = Scratch::new();
    let mut client = Client::at(&scratch);
    let put = |data| {
        Extended::PutFile(extension::PutFile {
            path: b"file",
            flags: vendor::put_flag::EXACT,
            attributes: Attributes {
                exact_times: Some(ExactTimes {
                    accessed: Timestamp::default(),
                    modified: Timestamp {
                        seconds: 5,
                        nanoseconds: 6,
                    },
                }),
                ..Attributes::with_permissions(0o646)
            },
            data,
        })
    };
    let content = noise(50_000);
    assert_eq!(client.extended(put(&content)), ok());
    let metadata = fs::metadata(scratch.join("file")).unwrap();
    assert_eq!(metadata.mode() & 0o7777, 0o646);
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (5, 6));
    let get = |max_len| {
        Request::Extended(Extended::Walk(extension::Walk {
            path: b"file",
            flags: vendor::walk_flag::FILE,
            max_len,
            window: 0,
        }))
    };
    for (max_len, is_whole) in [(50_000, true), (49_999, false)] {
        client.send(&get(max_len));
        let answers = client.answers();
        let [(_, Answer::Extended(fields)), (_, ended)] = answers.as_slice() else {
            panic!("{answers:?}");
        };
        assert_eq!(*ended, ok());
        let entries: Vec<_> = vendor::entries(fields).collect();
        let [Ok(file)] = entries.as_slice() else {
            panic!("{entries:?}");
        };
        assert!(file.path.is_empty());
        assert!(file.content == is_whole.then_some(&content[..]));
        assert_eq!(file.attributes.size, Some(50_000));
    }
    assert_eq!(client.serve.handles.len(), 0);
}

#[test]
fn a_link_may_come_in_the_order_of_the_draft() {
    let scratch = Scratch::new();
    let mut client = Client::at(&scratch);
    let mut link = |target: &[u8], link: &[u8]| {
        client.ask(&Request::Symlink(request::Symlink { target, link }))
    };
    assert_eq!(link(b"aim", b"link"), ok());
    client.serve.take_links_by_draft();
    let mut link = |target: &[u8], link: &[u8]| {
        client.ask(&Request::Symlink(request::Symlink { target, link }))
    };
    assert_eq!(link(b"second", b"aim"), ok());
    for name in ["link", "second"] {
        assert_eq!(fs::read_link(scratch.join(name)).unwrap(), Path::new("aim"));
    }
}

#[test]
fn copies_within_the_server_end_even_onto_themselves() {
    let scratch = Scratch::new();
    let bytes = noise(9 << 20);
    fs::write(scratch.join("from"), &bytes).unwrap();
    let mut client = Client::at(&scratch);
    let from = client.open(b"from", CREATE);
    let to = client.open(b"to", CREATE);
    let copy = |from, from_offset, len, to, to_offset| {
        Extended::CopyData(extension::CopyData {
            from,
            from_offset,
            len,
            to,
            to_offset,
        })
    };
    // Later requests wait for it.
    client.send(&Request::Extended(copy(&from, 5, 0, &to, 0)));
    client.send(&Request::Fstat(request::Fstat { handle: &to }));
    let answers = client.answers();
    assert_eq!(answers[0].1, ok());
    assert!(matches!(&answers[1].1, Answer::Attrs(told)
        if told.size == Some(bytes.len() as u64 - 5)));
    assert!(fs::read(scratch.join("to")).unwrap() == bytes[5..]);
    for same in [
        copy(&from, 0, 0, &from, 1 << 20),
        copy(&from, 0, 100, &from, 50),
    ] {
        assert!(matches!(
            client.extended(same),
            Answer::Status(Code::FAILURE, _)
        ));
    }
    let second = client.open(b"from", CREATE);
    let same = copy(&from, 0, 0, &second, 1 << 20);
    assert!(matches!(
        client.extended(same),
        Answer::Status(Code::FAILURE, _)
    ));
    // Two handles of one file denote the same file.
    assert!(matches!(
        client.extended(copy(&from, 0, 100, &second, 50)),
        Answer::Status(Code::FAILURE, _)
    ));
    assert_eq!(client.extended(copy(&from, 0, 50, &second, 50)), ok());
    assert_eq!(client.extended(copy(&from, 0, 50, &from, 50)), ok());
    // A device never ends.
    let endless = client.open(b"/dev/zero", open_flag::READ);
    assert!(matches!(
        client.extended(copy(&endless, 0, 0, &to, 0)),
        Answer::Status(Code::FAILURE, _)
    ));
}

#[test]
fn a_read_only_server_changes_nothing() {
    let scratch = Scratch::new();
    fs::write(scratch.join("file"), "kept").unwrap();
    let place = PathRoot::everywhere(scratch.as_os_str().as_bytes()).unwrap();
    let permits = Permits::new(true, None::<[&str; 0]>, []).unwrap();
    let mut client = Client::new(place, permits);
    let handle = client.open(b"file", open_flag::READ);
    let (path, new) = (b"file".as_slice(), b"new".as_slice());
    let attributes = Attributes::with_permissions(0o777);
    let requests = [
        Request::Open(request::Open {
            path: new,
            flags: CREATE,
            attributes,
        }),
        Request::Open(request::Open {
            path,
            flags: open_flag::READ | open_flag::TRUNCATE,
            attributes,
        }),
        Request::Write(request::Write {
            handle: &handle,
            offset: 0,
            data: b"x",
        }),
        Request::Setstat(request::Setstat { path, attributes }),
        Request::Fsetstat(request::Fsetstat {
            handle: &handle,
            attributes,
        }),
        Request::Remove(request::Remove { path }),
        Request::Mkdir(request::Mkdir {
            path: new,
            attributes,
        }),
        Request::Rmdir(request::Rmdir { path: b"." }),
        Request::Rename(request::Rename { old: path, new }),
        Request::Symlink(request::Symlink {
            target: path,
            link: new,
        }),
        Request::Extended(Extended::PosixRename(extension::PosixRename {
            old: path,
            new,
        })),
        Request::Extended(Extended::Hardlink(extension::Hardlink { old: path, new })),
        Request::Extended(Extended::Lsetstat(extension::Lsetstat { path, attributes })),
        Request::Extended(Extended::PutFile(extension::PutFile {
            path: new,
            flags: 0,
            attributes,
            data: b"x",
        })),
    ];
    for request in &requests {
        match client.ask(request) {
            Answer::Status(Code::PERMISSION_DENIED, text) => assert!(text.contains("read-only")),
            other => panic!("{request:?}: {other:?}"),
        }
    }
    assert_eq!(fs::read(scratch.join("file")).unwrap(), b"kept");
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 1);
}

#[test]
fn handles_and_jobs_are_bounded() {
    let scratch = Scratch::new();
    fs::write(scratch.join("file"), noise(1 << 20)).unwrap();
    let mut client = Client::at(&scratch);
    let Answer::Extended(fields) = client.extended(Extended::GetLimits(extension::GetLimits {}))
    else {
        panic!("no limits");
    };
    assert_eq!(Limits::decode(&fields).unwrap().max_handles, 16);
    let mut handles = Vec::new();
    for _ in 0..16 {
        handles.push(client.open(b"file", open_flag::READ));
    }
    let open = Request::Open(request::Open {
        path: b"file",
        flags: open_flag::READ,
        attributes: Attributes::NONE,
    });
    assert!(
        matches!(client.ask(&open), Answer::Status(Code::FAILURE, text)
        if text == "too many open handles")
    );
    // More requests with several answers than the limit on jobs.
    for _ in 0..200 {
        client.send(&Request::Extended(Extended::ReadRange(
            extension::ReadRange {
                handle: &handles[0],
                offset: 0,
                len: u64::MAX,
                flags: 0,
            },
        )));
    }
    let _ = client.serve.work(&mut client.buffers).unwrap();
    assert!(client.serve.jobs.len() <= jobs::MAX_JOBS);
    assert!(client.serve.out.len() < OUTBOX_BYTES + (1 << 20));
}

#[test]
fn a_client_that_does_not_speak_the_protocol_is_told_or_left() {
    let scratch = Scratch::new();
    let place = || PathRoot::everywhere(scratch.as_os_str().as_bytes()).unwrap();
    let log = || Box::new(Heard(Arc::default(), LogLevel::Quiet));
    let mut serve = Serve::new(place(), Permits::everything(), 4, log());
    let mut out = Vec::new();
    request::Stat { path: b"." }.encode_into(1, &mut out);
    serve.receive(Bytes::from(out));
    assert_eq!(serve.work(&mut Plain(1000)), Err(ServeError::NotInit));

    let mut serve = Serve::new(place(), Permits::everything(), 4, log());
    serve.receive(Bytes::from_static(&[0xff; 8]));
    assert!(matches!(
        serve.work(&mut Plain(1000)),
        Err(ServeError::Frame(_))
    ));

    let mut client = Client::at(&scratch);
    for (message, code) in [
        (&[0, 0, 0, 5, 77, 0, 0, 0, 9][..], Code::OP_UNSUPPORTED),
        (&[0, 0, 0, 5, 3, 0, 0, 0, 9], Code::BAD_MESSAGE),
        (
            &[0, 0, 0, 10, 200, 0, 0, 0, 9, 0, 0, 0, 1, b'?'],
            Code::OP_UNSUPPORTED,
        ),
    ] {
        client.serve.receive(Bytes::from_static(message));
        let answers = client.answers();
        assert!(
            matches!(&answers[..], [(9, Answer::Status(told, _))] if *told == code),
            "{answers:?}"
        );
    }
    client.serve.end_input();
    assert_eq!(client.work(), Work::Ended);
}

#[test]
fn small_packets_carry_everything() {
    let scratch = Scratch::new();
    let bytes = noise(100_000);
    fs::write(scratch.join("file"), &bytes).unwrap();
    for max in [14, 100, 1000, 5000] {
        let mut client = Client::at(&scratch);
        client.buffers = Plain(max);
        let handle = client.open(b"file", open_flag::READ);
        let read = Request::Read(request::Read {
            handle: &handle,
            offset: 0,
            len: 100_000,
        });
        assert_eq!(client.ask(&read), Answer::Data(bytes.clone()), "{max}");
    }
}
