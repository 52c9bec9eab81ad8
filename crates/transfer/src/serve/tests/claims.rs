//! Files that one copy at a time writes.

use sftp::Claim;

use super::*;

fn opening(claim: Option<Claim>) -> Request<'static> {
    Request::Open(request::Open {
        path: b"file",
        flags: open_flag::WRITE | open_flag::CREATE | open_flag::TRUNCATE,
        attributes: Attributes {
            claim,
            ..Attributes::with_permissions(0o644)
        },
    })
}

fn putting() -> Extended<'static> {
    Extended::PutFile(extension::PutFile {
        path: b"file",
        flags: 0,
        attributes: Attributes::with_permissions(0o644),
        data: b"small",
    })
}

fn busy() -> Answer {
    Answer::Status(
        Code::LOCK_CONFLICT,
        "another copy is writing to it".to_owned(),
    )
}

#[test]
fn what_a_copy_writes_is_no_other_copys_and_everybody_elses() {
    let scratch = Scratch::new();
    let [mut one, mut two] = [(); 2].map(|()| Client::at(&scratch));
    for claim in [Claim::Alone, Claim::First] {
        let Answer::Handle(handle) = one.ask(&opening(Some(claim))) else {
            panic!("{claim:?}");
        };
        assert_eq!(one.write(&handle, 0, b"content"), ok());
        for other in [Claim::Alone, Claim::First] {
            assert_eq!(two.ask(&opening(Some(other))), busy());
        }
        assert_eq!(two.extended(putting()), busy());
        assert_eq!(fs::read(scratch.join("file")).unwrap(), b"content");
        // Not even the copy's own second handle; only a further one.
        assert_eq!(one.ask(&opening(Some(Claim::Alone))), busy());
        for claim in [None, Some(Claim::Further)] {
            let Answer::Handle(other) = two.ask(&opening(claim)) else {
                panic!("{claim:?}");
            };
            assert_eq!(fs::read(scratch.join("file")).unwrap(), b"", "{claim:?}");
            assert_eq!(two.write(&other, 0, b"other"), ok());
            let close = Request::Close(request::Close { handle: &other });
            assert_eq!(two.ask(&close), ok());
        }
        let close = Request::Close(request::Close { handle: &handle });
        assert_eq!(one.ask(&close), ok());
        assert_eq!(two.extended(putting()), ok());
        assert_eq!(fs::read(scratch.join("file")).unwrap(), b"small");
    }
}

#[test]
fn what_is_no_regular_file_is_claimed_by_nobody() {
    let scratch = Scratch::new();
    symlink("/dev/null", scratch.join("file")).unwrap();
    let mut client = Client::at(&scratch);
    for _ in 0..2 {
        let answer = client.ask(&opening(Some(Claim::Alone)));
        assert!(matches!(answer, Answer::Handle(_)), "{answer:?}");
    }
    assert_eq!(client.extended(putting()), ok());
}
