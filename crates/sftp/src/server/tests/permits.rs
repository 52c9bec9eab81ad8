//! Requests denied by -P and -p: the request itself, each extension that does the same, and their
//! announcement in VERSION.

use crate::message::{Version, number};
use crate::server::REQUESTS;
use wire::Put;

use super::*;

/// Returns VERSION of a server with these permits, and its answer to each extension's request with
/// empty fields.
fn asked(place: PathRoot, permits: Permits, extension: &str) -> (bool, Answer) {
    let log = Heard(Arc::default(), LogLevel::Error);
    let mut buffers = Plain(32_768);
    let mut serve = Serve::new(place, permits, 16, Box::new(log));
    let mut out = Vec::new();
    Init { version: 3 }.encode_into(&mut out);
    let mut message = vec![number::EXTENDED];
    message.put_u32(7);
    message.put_string(extension.as_bytes());
    message.extend_from_slice(&[0; 128]);
    out.put_string(&message);
    serve.receive(Bytes::from(out));
    let mut splitter = Splitter::new(ReadingSide::Server);
    serve.work(&mut buffers).unwrap();
    while let Some(buf) = serve.outbox().next(20_000, &mut buffers) {
        splitter.push(Bytes::copy_from_slice(buf.payload()));
    }
    let mut next = || match splitter.next_piece() {
        Ok(Some(FramePiece::Message(message))) => message,
        other => panic!("{other:?}"),
    };
    let version = next();
    let known = REQUESTS.iter().filter_map(|info| info.extension);
    let (_, spoken) = known
        .into_iter()
        .find(|(name, _)| *name == extension)
        .unwrap();
    let announced = Version::decode(&version).unwrap().has(extension, spoken);
    let answer = next();
    let answer = match Reply::decode(&answer).unwrap() {
        (7, Reply::Status(status)) => Answer::Status(status.code, String::new()),
        (7, Reply::Extended(fields)) => Answer::Extended(fields.to_vec()),
        (7, _) => Answer::Data(Vec::new()),
        (id, _) => panic!("an answer to {id}"),
    };
    (announced, answer)
}

#[test]
fn an_extension_is_refused_where_one_request_that_it_stands_for_is() {
    let scratch = Scratch::new();
    let place = || PathRoot::everywhere(scratch.as_os_str().as_bytes()).unwrap();
    let refused = Answer::Status(Code::PERMISSION_DENIED, String::new());
    for info in REQUESTS {
        let Some((extension, _)) = info.extension else {
            continue;
        };
        let (announced, answer) = asked(place(), Permits::everything(), extension);
        assert!(announced && answer != refused, "{extension}: {answer:?}");
        for denied in info.stands_for.iter().chain([&info.name]) {
            let permits = Permits::new(false, None::<[&str; 0]>, [*denied]).unwrap();
            let (announced, answer) = asked(place(), permits, extension);
            assert!(!announced, "{extension} is announced without {denied}");
            assert_eq!(answer, refused, "{extension} without {denied}");
        }
        if info.changes {
            let permits = Permits::new(true, None::<[&str; 0]>, []).unwrap();
            let (announced, answer) = asked(place(), permits, extension);
            assert!(!announced && answer == refused, "{extension}: {answer:?}");
        }
    }
}
