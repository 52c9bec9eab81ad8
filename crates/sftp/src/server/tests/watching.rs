//! Files with a sole writer, and files with several.

use super::*;

fn opening(path: &[u8], sole_writer: bool) -> Request<'_> {
    Request::Open(request::Open {
        path,
        flags: CREATE,
        attributes: Attributes {
            sole_writer,
            ..Attributes::with_permissions(0o644)
        },
    })
}

fn open(client: &mut Client, path: &[u8], sole_writer: bool) -> Vec<u8> {
    match client.ask(&opening(path, sole_writer)) {
        Answer::Handle(handle) => handle,
        other => panic!("{other:?}"),
    }
}

fn set(handle: &[u8], attributes: Attributes) -> Request<'_> {
    Request::Fsetstat(request::Fsetstat { handle, attributes })
}

fn close(handle: &[u8]) -> Request<'_> {
    Request::Close(request::Close { handle })
}

fn noticed() -> Answer {
    let text = "another program wrote this file while it was copied: copy it again";
    Answer::Status(Code::FAILURE, text.to_owned())
}

/// Requests a change of the file with this handle.
type Asks<'a> = &'a dyn Fn(&mut Client, &[u8]) -> Answer;

#[test]
fn a_sole_writer_is_told_of_another_and_changes_nothing_more() {
    let scratch = Scratch::new();
    let size = Attributes {
        size: Some(3),
        ..Attributes::NONE
    };
    let asked: [Asks<'_>; 3] = [
        &|client, handle| client.write(handle, 7, b"again"),
        &|client, handle| client.ask(&set(handle, size)),
        &|client, handle| client.ask(&set(handle, Attributes::with_permissions(0o600))),
    ];
    for ask in asked {
        let _ = fs::remove_file(scratch.join("file"));
        let (mut one, mut two) = (Client::at(&scratch), Client::at(&scratch));
        let ours = open(&mut one, b"file", true);
        assert_eq!(one.write(&ours, 0, b"content"), ok());
        // The watch follows the file, not the name.
        let theirs = open(&mut two, b"file", false);
        assert_eq!(two.write(&theirs, 7, b", more"), ok());
        assert_eq!(ask(&mut one, &ours), noticed());
        assert_eq!(ask(&mut one, &ours), noticed(), "it stays so");
        assert_eq!(one.ask(&close(&ours)), noticed());
        assert!(
            matches!(one.ask(&close(&ours)), Answer::Status(_, text) if text == "no such handle")
        );
        assert_eq!(two.ask(&close(&theirs)), ok());
        assert_eq!(fs::read(scratch.join("file")).unwrap(), b"content, more");
        let mode = fs::metadata(scratch.join("file"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o644);
    }
}

#[test]
fn a_sole_writer_may_do_what_it_likes() {
    let scratch = Scratch::new();
    let mut client = Client::at(&scratch);
    let handle = open(&mut client, b"file", true);
    let when = Timestamp {
        seconds: 1_000_000_000,
        nanoseconds: 5,
    };
    let times = Attributes {
        exact_times: Some(ExactTimes {
            accessed: when,
            modified: when,
        }),
        ..Attributes::with_permissions(0o600)
    };
    for (size, then) in [(9, "grown"), (2, "cut"), (0, "empty")] {
        // After a gap, and before existing data.
        assert_eq!(client.write(&handle, 100_000, &noise(70_000)), ok());
        assert_eq!(client.write(&handle, 5, b"content"), ok());
        assert_eq!(client.ask(&set(&handle, times)), ok());
        let size = Attributes {
            size: Some(size),
            ..Attributes::NONE
        };
        assert_eq!(client.ask(&set(&handle, size)), ok(), "{then}");
        fs::rename(scratch.join("file"), scratch.join(then)).unwrap();
        fs::rename(scratch.join(then), scratch.join("file")).unwrap();
    }
    assert_eq!(client.ask(&close(&handle)), ok());
}

/// sshfs, and clients that copy one file over several handles or connections.
#[test]
fn whoever_does_not_say_so_is_no_sole_writer() {
    let scratch = Scratch::new();
    let (mut one, mut two) = (Client::at(&scratch), Client::at(&scratch));
    let handles = [
        open(&mut one, b"file", false),
        open(&mut one, b"file", false),
        open(&mut two, b"file", false),
    ];
    for (at, handle) in (0..).zip(&handles) {
        let client = if at == 2 { &mut two } else { &mut one };
        assert_eq!(client.write(handle, at * 3, b"abc"), ok());
        assert_eq!(client.write(handle, 30 - at * 3, b"def"), ok());
    }
    for (at, handle) in handles.iter().enumerate() {
        let client = if at == 2 { &mut two } else { &mut one };
        assert_eq!(client.ask(&close(handle)), ok());
    }
    // Writes by the server itself do not count as another program's.
    fs::write(scratch.join("source"), b"source").unwrap();
    let ours = open(&mut one, b"file", true);
    let source = one.open(b"source", open_flag::READ);
    let copied = one.extended(Extended::CopyData(extension::CopyData {
        from: &source,
        from_offset: 0,
        len: 0,
        to: &ours,
        to_offset: 0,
    }));
    assert_eq!(copied, ok());
    assert_eq!(one.write(&ours, 3, b"rce"), ok());
    assert_eq!(one.ask(&close(&ours)), ok());
}

#[test]
fn what_has_no_content_of_its_own_is_written_by_many() {
    for path in [&b"null"[..], b"zero"] {
        let mut client = Client::at(Path::new("/dev"));
        let mut other = Client::at(Path::new("/dev"));
        let handles = [open(&mut client, path, true), open(&mut other, path, true)];
        for _ in 0..2 {
            assert_eq!(client.write(&handles[0], 0, b"one"), ok());
            assert_eq!(other.write(&handles[1], 9, b"two"), ok());
        }
        assert_eq!(client.ask(&close(&handles[0])), ok());
    }
}
