//! `open-read`: a file opened and sent by one request.

use super::*;

fn open_read(path: &[u8], len: u64) -> Request<'_> {
    Request::Extended(Extended::OpenRead(extension::OpenRead {
        path,
        flags: 0,
        len,
    }))
}

/// The answers to one request: attributes and handle, the data, and its end.
struct Came {
    attributes: Attributes,
    handle: Vec<u8>,
    bytes: Vec<u8>,
    end: Answer,
}

impl Client {
    fn open_read(&mut self, path: &[u8], len: u64) -> Came {
        let id = self.send(&open_read(path, len));
        self.came(id)
    }

    fn came(&mut self, id: u32) -> Came {
        let mut answers = self.answers().into_iter();
        let Some((answered, Answer::Extended(fields))) = answers.next() else {
            panic!("no EXTENDED_REPLY first");
        };
        assert_eq!(answered, id);
        let opened = vendor::OpenedFile::decode(&fields).unwrap();
        let mut came = Came {
            attributes: opened.attributes,
            handle: opened.handle.to_vec(),
            bytes: Vec::new(),
            end: answers.next_back().unwrap().1,
        };
        for (answered, answer) in answers {
            let Answer::Data(data) = answer else {
                panic!("{answer:?}");
            };
            assert_eq!(answered, id);
            came.bytes.extend(data);
        }
        came
    }

    fn refused(&mut self, path: &[u8]) -> Code {
        match self.ask(&open_read(path, u64::MAX)) {
            Answer::Status(code, _) => code,
            other => panic!("{other:?}"),
        }
    }

    fn close(&mut self, handle: &[u8]) {
        let close = Request::Close(request::Close { handle });
        assert_eq!(self.ask(&close), ok());
    }
}

#[test]
fn a_file_is_opened_and_comes_with_one_request() {
    let scratch = Scratch::new();
    let bytes = noise(3 << 20);
    fs::write(scratch.join("file"), &bytes).unwrap();
    fs::write(scratch.join("empty"), "").unwrap();
    symlink("file", scratch.join("link")).unwrap();
    let mut client = Client::at(&scratch);
    for (path, len, expected) in [
        (b"file".as_slice(), u64::MAX, &bytes[..]),
        (b"link", 3 << 20, &bytes),
        (b"file", (3 << 20) + 1, &bytes),
        (b"file", 100_001, &bytes[..100_001]),
        (b"file", 0, &[]),
        (b"empty", u64::MAX, &[]),
    ] {
        let came = client.open_read(path, len);
        assert!(came.bytes == expected, "{}", came.bytes.len());
        assert_eq!(came.end, ok());
        let size = if path == b"empty" { 0 } else { 3 << 20 };
        assert_eq!(came.attributes.size, Some(size));
        assert!(came.attributes.is(crate::attributes::mode::REGULAR));
        // The file remains open for reading.
        let fstat = Request::Fstat(request::Fstat {
            handle: &came.handle,
        });
        assert_eq!(client.ask(&fstat), Answer::Attrs(came.attributes));
        let write = client.write(&came.handle, 0, b"x");
        assert!(matches!(write, Answer::Status(..)) && write != ok());
        client.close(&came.handle);
    }
    assert_eq!(client.serve.handles.len(), 0);
    let lines = client.log.0.lock().unwrap().clone();
    assert_eq!(
        lines[..3],
        [
            "open \"file\" flags READ mode 0666",
            "write failed: Bad file descriptor",
            "close \"file\" bytes read 3145728 written 0"
        ]
    );
}

#[test]
fn what_is_no_regular_file_is_told_and_not_opened() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.join("directory")).unwrap();
    let fifo = scratch.join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    let mut client = Client::at(&scratch);
    let mut paths = vec![
        (b"directory".as_slice(), 0o040_000),
        (b"/dev/null", 0o020_000),
    ];
    if made.is_ok_and(|status| status.success()) {
        paths.push((b"fifo", 0o010_000));
    }
    for (path, kind) in paths {
        let came = client.open_read(path, u64::MAX);
        assert_eq!(came.attributes.permissions.unwrap() & 0o170_000, kind);
        assert!(came.handle.is_empty() && came.bytes.is_empty());
        assert_eq!(came.end, ok());
    }
    assert_eq!(client.serve.handles.len(), 0);
    assert_eq!(client.log.0.lock().unwrap().len(), 0);
    assert_eq!(client.refused(b"missing"), Code::NO_SUCH_FILE);
    assert_eq!(client.refused(b""), Code::NO_SUCH_FILE);
    symlink("nowhere", scratch.join("dangling")).unwrap();
    assert_eq!(client.refused(b"dangling"), Code::NO_SUCH_FILE);
    let odd = Request::Extended(Extended::OpenRead(extension::OpenRead {
        path: b"directory",
        flags: 1,
        len: 0,
    }));
    assert!(matches!(
        client.ask(&odd),
        Answer::Status(Code::OP_UNSUPPORTED, _)
    ));
    assert_eq!(client.serve.handles.len(), 0);
}

#[test]
fn who_may_not_open_or_read_may_not_by_this_either() {
    let scratch = Scratch::new();
    fs::write(scratch.join("file"), "content").unwrap();
    let place = || PathRoot::everywhere(scratch.as_os_str().as_bytes()).unwrap();
    let parts = ["open", "read", "stat", "fstat", "cancel", "open-read"];
    fs::create_dir(scratch.join("folder")).unwrap();
    for denied in parts {
        let permits = Permits::new(false, None::<[&str; 0]>, [denied]).unwrap();
        let mut client = Client::new(place(), permits);
        for path in [b"file".as_slice(), b"folder", b"/dev/null", b"none"] {
            assert_eq!(client.refused(path), Code::PERMISSION_DENIED, "{denied}");
        }
        assert_eq!(client.serve.handles.len(), 0);
    }
    let permits = Permits::new(false, Some(parts), []).unwrap();
    assert_eq!(
        Client::new(place(), permits).open_read(b"file", 4).bytes,
        b"cont"
    );
    // The request changes nothing.
    let permits = Permits::new(true, None::<[&str; 0]>, []).unwrap();
    let came = Client::new(place(), permits).open_read(b"file", u64::MAX);
    assert_eq!((&came.bytes[..], came.end), (&b"content"[..], ok()));
}

#[test]
fn what_is_outside_a_confined_place_is_neither_told_nor_sent() {
    let scratch = Scratch::new();
    let root = scratch.join("root");
    fs::create_dir(&root).unwrap();
    fs::write(scratch.join("secret"), "outside").unwrap();
    fs::write(root.join("in"), "inside").unwrap();
    symlink(scratch.join("secret"), root.join("absolute")).unwrap();
    symlink("../secret", root.join("relative")).unwrap();
    symlink("/in", root.join("inner")).unwrap();
    let Ok(place) = PathRoot::confined(root.as_os_str().as_bytes(), b"/") else {
        return;
    };
    let mut client = Client::new(place, Permits::everything());
    for path in [
        b"absolute".as_slice(),
        b"relative",
        b"../secret",
        b"/../secret",
    ] {
        assert_eq!(client.refused(path), Code::NO_SUCH_FILE);
    }
    let came = client.open_read(b"inner", u64::MAX);
    assert_eq!((&came.bytes[..], came.end), (&b"inside"[..], ok()));
}

#[test]
fn it_counts_among_handles_and_among_what_is_under_way() {
    let scratch = Scratch::new();
    fs::write(scratch.join("file"), noise(300_000)).unwrap();
    let mut client = Client::at(&scratch);
    let mut handles = Vec::new();
    for _ in 0..16 {
        handles.push(client.open_read(b"file", 10).handle);
    }
    match client.ask(&open_read(b"file", 10)) {
        Answer::Status(Code::FAILURE, text) => assert_eq!(text, "too many open handles"),
        other => panic!("{other:?}"),
    }
    client.close(&handles[0]);
    assert_eq!(client.open_read(b"file", 10).bytes.len(), 10);
    // More requests with several answers than the limit on jobs: each takes two slices, and one is
    // sent per request.
    client.serve.handles = handles::Handles::new(1000);
    let handle = client.open(b"file", open_flag::READ);
    for _ in 0..150 {
        client.send(&Request::Extended(Extended::ReadRange(
            extension::ReadRange {
                handle: &handle,
                offset: 0,
                len: u64::MAX,
                flags: 0,
            },
        )));
    }
    let asked: Vec<u32> = (0..50)
        .map(|_| client.send(&open_read(b"file", u64::MAX)))
        .collect();
    let (mut opened, mut refused) = (0, 0);
    for (id, answer) in client.answers() {
        match answer {
            Answer::Extended(_) => opened += 1,
            Answer::Status(Code::FAILURE, text) if asked.contains(&id) => {
                assert_eq!(text, "too many requests in progress");
                refused += 1;
            }
            _ => {}
        }
    }
    assert!(refused > 0 && opened + refused == 50, "{opened} {refused}");
    assert_eq!(client.serve.handles.len(), 1 + opened);
}

/// A client in a folder whose `file` has more bytes than the queue of answers.
fn with_a_large_file() -> (Scratch, Vec<u8>, Client) {
    let scratch = Scratch::new();
    let bytes = noise(8 << 20);
    fs::write(scratch.join("file"), &bytes).unwrap();
    let client = Client::at(&scratch);
    (scratch, bytes, client)
}

#[test]
fn one_that_is_cancelled_stays_open_and_sends_no_more() {
    let (_scratch, bytes, mut client) = with_a_large_file();
    let id = client.send(&open_read(b"file", u64::MAX));
    // The queue of answers has room for only a part.
    client.work_once();
    let cancel = Extended::Cancel(extension::Cancel { request: id });
    let cancelled = client.send(&Request::Extended(cancel));
    let mut answers = client.answers();
    assert_eq!(answers.pop(), Some((cancelled, ok())));
    let ended = Answer::Status(Code::FAILURE, "cancelled".to_owned());
    assert_eq!(answers.pop(), Some((id, ended)));
    let Answer::Extended(fields) = answers.remove(0).1 else {
        panic!("no EXTENDED_REPLY first");
    };
    let mut came = Vec::new();
    for (answered, answer) in answers {
        let Answer::Data(data) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(answered, id);
        came.extend(data);
    }
    assert!(!came.is_empty() && came.len() < bytes.len() && bytes.starts_with(&came));
    // The rest of it can be read.
    let handle = vendor::OpenedFile::decode(&fields).unwrap().handle.to_vec();
    let read = Request::Read(request::Read {
        handle: &handle,
        offset: came.len() as u64,
        len: 1000,
    });
    let next = &bytes[came.len()..came.len() + 1000];
    assert_eq!(client.ask(&read), Answer::Data(next.to_vec()));
    client.close(&handle);
}

#[test]
fn a_file_that_is_closed_or_cut_while_it_comes_ends_it_in_order() {
    let (scratch, bytes, mut client) = with_a_large_file();
    let id = client.send(&open_read(b"file", u64::MAX));
    client.work_once();
    let file = fs::File::options().write(true).open(scratch.join("file"));
    file.unwrap().set_len(6 << 20).unwrap();
    let came = client.came(id);
    assert!(came.bytes == bytes[..6 << 20] && came.end == ok());
    assert_eq!(came.attributes.size, Some(8 << 20));
    client.close(&came.handle);
    // CLOSE does not end the stream.
    let id = client.send(&open_read(b"file", u64::MAX));
    client.work_once();
    let handle = [0_u32, 2].map(u32::to_be_bytes).concat();
    let closed = client.send(&Request::Close(request::Close { handle: &handle }));
    let answers = client.answers();
    let whole: usize = answers
        .iter()
        .map(|(_, answer)| match answer {
            Answer::Data(data) => data.len(),
            _ => 0,
        })
        .sum();
    assert_eq!(whole, 6 << 20);
    assert!(answers.contains(&(closed, ok())) && answers.last() == Some(&(id, ok())));
    assert_eq!(client.serve.handles.len(), 0);
}
