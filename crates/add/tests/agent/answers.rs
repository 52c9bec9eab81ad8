//! Single messages, well-formed or not, to our agent and to OpenSSH's: the answers are the same, or the difference is
//! listed here and in docs/differences.md.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use agent::message::{EXTENSION_RESPONSE, FAILURE, IDENTITIES_ANSWER, SIGN_RESPONSE, SUCCESS};
use agent::{AgentClient, Constraints};
use wire::{Put, Reader};

use crate::protocol::{adding, answer, bind, framed, from_to, key, sign_request};
use crate::{Agent, Folder, Whose, until};

/// Messages in their frames to a new agent by one client, and the answers, as [`told`] has them.
struct Case {
    messages: Vec<Vec<u8>>,
    /// OpenSSH 10.6's.
    theirs: &'static str,
    /// Ours; `None` for the same.
    ours: Option<&'static str>,
    /// True if OpenSSH 9.2 answers as 10.6.
    since_9_2: bool,
}

fn alike(messages: Vec<Vec<u8>>, answers: &'static str) -> Case {
    Case {
        messages,
        theirs: answers,
        ours: None,
        since_9_2: true,
    }
}

/// A case to which OpenSSH 9.2 has another answer than 10.6.
fn newer(case: Case) -> Case {
    Case {
        since_9_2: false,
        ..case
    }
}

fn unlike(messages: Vec<Vec<u8>>, theirs: &'static str, ours: &'static str) -> Case {
    Case {
        ours: Some(ours),
        ..alike(messages, theirs)
    }
}

/// A message of a number and strings.
fn message(number: u8, fields: &[&[u8]]) -> Vec<u8> {
    let mut body = vec![number];
    for field in fields {
        body.put_string(field);
    }
    framed(&body)
}

/// A message with more bytes at its end.
fn and(message: &[u8], more: &[u8]) -> Vec<u8> {
    framed(&[&message[4..], more].concat())
}

fn list() -> Vec<u8> {
    framed(&[11])
}

/// A request to add a key, by its number, with bytes as constraints.
fn add_by(number: u8, constraints: &[u8]) -> Vec<u8> {
    let request = adding(key(1), Constraints::default()).encode();
    let request = request.expect("a request");
    framed(&[&[number], &request[5..], constraints].concat())
}

fn add() -> Vec<u8> {
    add_by(17, b"")
}

fn add_with(constraints: &[u8]) -> Vec<u8> {
    add_by(25, constraints)
}

fn add_with_comment(comment: &[u8]) -> Vec<u8> {
    let request = adding(key(1), Constraints::default()).encode();
    let request = request.expect("a request");
    let before = request.len() - (4 + "a key".len());
    let mut body = request[4..before].to_vec();
    body.put_string(comment);
    framed(&body)
}

fn extension(name: &str, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![255];
    bytes.put_string(name.as_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

/// The constraint of this many destinations, host 7 each.
fn destinations(count: usize, user: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Constraints {
        destinations: vec![from_to(None, 7, user); count],
        ..Constraints::default()
    }
    .write(&mut bytes);
    bytes
}

fn signing(flags: &[u8]) -> Vec<u8> {
    let whole = sign_request(&key(1).public().blob(), b"data");
    framed(&[&whole[4..whole.len() - 4], flags].concat())
}

fn lock(passphrase: &[u8]) -> Vec<u8> {
    message(22, &[passphrase])
}

fn unlock(passphrase: &[u8]) -> Vec<u8> {
    message(23, &[passphrase])
}

fn bound(session: &[u8]) -> Vec<u8> {
    bind(key(8), session, true)
}

fn keys() -> Vec<Case> {
    let blob = key(1).public().blob();
    let remove = message(18, &[&blob]);
    vec![
        alike(vec![add(), list()], "ok keys:1"),
        alike(vec![add(), signing(&[0; 4])], "ok signed"),
        alike(vec![add(), signing(&[0xff, 0, 0, 0])], "ok signed"),
        alike(vec![add(), signing(b"")], "ok failed"),
        alike(vec![signing(&[0; 4])], "failed"),
        alike(vec![remove.clone()], "failed"),
        alike(vec![add(), remove.clone(), list()], "ok ok keys:0"),
        alike(vec![add(), framed(&[19]), list()], "ok ok keys:0"),
        // All keys of protocol 1, the only ones that such a client knows.
        alike(vec![add(), framed(&[9]), list()], "ok ok keys:0"),
        alike(vec![add(), add_with_comment(b"b"), list()], "ok ok keys:1"),
        alike(vec![add_with_comment(b""), list()], "ok keys:1"),
        alike(vec![add_with_comment(b"a\0b"), list()], "failed keys:0"),
        alike(vec![add_with_comment(b"a\0"), list()], "ok keys:1"),
        alike(vec![message(17, &[b"ssh-x", b"", b"c"])], "failed"),
        // What follows the last field.
        unlike(vec![and(&list(), b"x")], "keys:0", "failed"),
        unlike(
            vec![add(), and(&signing(&[0; 4]), b"x")],
            "ok signed",
            "ok failed",
        ),
        unlike(vec![add(), and(&remove, b"x")], "ok ok", "ok failed"),
        unlike(vec![framed(b"\x13x")], "ok", "failed"),
        unlike(vec![and(&lock(b"p"), b"x")], "ok", "failed"),
        // Each number that is not a request.
        alike(
            [0, 1, 7, 24, 99, 255]
                .map(|number| framed(&[number]))
                .to_vec(),
            "failed failed failed failed failed failed",
        ),
    ]
}

fn constraints() -> Vec<Case> {
    let lifetime = |seconds: u32| [&[1][..], &seconds.to_be_bytes()].concat();
    let certificates = |blobs: &[u8]| {
        let mut rest = vec![0];
        rest.put_string(blobs);
        extension("associated-certs-v00@openssh.com", &rest)
    };
    let mut internal = Vec::new();
    internal.put_string(b"internal");
    let provider = extension("sk-provider@openssh.com", &internal);
    let twice = |once: &[u8]| add_with(&once.repeat(2));
    let after = |request: Vec<u8>| vec![request, list()];
    let nowhere = extension("restrict-destination-v00@openssh.com", &[0; 4]);
    let long = "u".repeat(1000);
    vec![
        alike(after(add_with(b"")), "ok keys:1"),
        alike(after(add_by(17, &lifetime(100))), "ok keys:1"),
        alike(after(add_by(17, b"\x63")), "failed keys:0"),
        alike(after(add_with(&lifetime(0))), "ok keys:0"),
        alike(after(add_with(&lifetime(u32::MAX))), "ok keys:1"),
        alike(after(twice(&lifetime(9))), "failed keys:0"),
        alike(after(add_with(&[2])), "ok keys:1"),
        alike(after(twice(&[2])), "failed keys:0"),
        alike(after(add_with(&[3, 0, 0, 0, 1])), "failed keys:0"),
        alike(after(add_with(&extension("x@y", b""))), "failed keys:0"),
        alike(after(add_with(&provider)), "failed keys:0"),
        alike(after(add_with(&certificates(b""))), "failed keys:0"),
        alike(after(add_with(&destinations(1, ""))), "ok keys:1"),
        alike(after(twice(&destinations(1, ""))), "failed keys:0"),
        alike(after(add_with(&destinations(1024, ""))), "ok keys:1"),
        alike(after(add_with(&destinations(1025, ""))), "failed keys:0"),
        unlike(after(add_with(&nowhere)), "ok keys:1", "failed keys:0"),
        newer(unlike(
            after(add_with(&destinations(1, &long))),
            "failed keys:0",
            "ok keys:1",
        )),
        // No library is at this path.
        alike(vec![message(20, &[b"/nonexistent", b""])], "failed"),
        alike(vec![message(21, &[b"/nonexistent", b""])], "failed"),
        newer(unlike(
            vec![message(21, &[b"/usr/lib/os-release", b""])],
            "ok",
            "failed",
        )),
    ]
}

fn sessions() -> Vec<Case> {
    let query = message(27, &[b"query"]);
    let to_seven = add_with(&destinations(1, ""));
    let short = bound(b"s");
    let short = framed(&short[4..short.len() - 1]);
    let in_lock = |request: Vec<u8>| vec![lock(b"p"), request, unlock(b"p")];
    vec![
        newer(alike(vec![query.clone()], "extensions:1")),
        newer(alike(vec![and(&query, b"x")], "extensions:1")),
        newer(unlike(
            vec![message(27, &[b"query\0"])],
            "extensions:1",
            "failed",
        )),
        alike(vec![message(27, &[b"x@y"])], "failed"),
        alike(vec![framed(&[27])], "failed"),
        alike(vec![bound(b"s")], "ok"),
        alike(vec![bound(b"")], "ok"),
        newer(alike(vec![short], "extension-failed")),
        unlike(vec![and(&bound(b"s"), b"x")], "ok", "extension-failed"),
        alike(vec![to_seven.clone(), signing(&[0; 4])], "ok failed"),
        alike(vec![to_seven, bound(b"s"), list()], "ok ok keys:0"),
        alike(vec![bound(b"s"), add(), list()], "ok ok keys:1"),
        alike(vec![bound(b"s"), lock(b"p"), unlock(b"p")], "ok ok ok"),
        alike(vec![lock(b"")], "failed"),
        alike(vec![unlock(b"p")], "failed"),
        alike(vec![lock(b"p"), lock(b"p"), unlock(b"p")], "ok failed ok"),
        alike(in_lock(list()), "ok keys:0 ok"),
        alike(in_lock(add()), "ok failed ok"),
        alike(in_lock(signing(&[0; 4])), "ok failed ok"),
        alike(in_lock(framed(&[19])), "ok failed ok"),
        alike(in_lock(query), "ok failed ok"),
        alike(in_lock(framed(&[99])), "ok failed ok"),
        newer(alike(in_lock(bound(b"s")), "ok ok ok")),
        // OpenSSH's agent ends.
        unlike(
            vec![lock(b"p\0q"), unlock(b"p\0q")],
            "closed closed",
            "ok ok",
        ),
    ]
}

/// What an answer says, in a word.
fn told(stream: &mut UnixStream) -> String {
    let mut length = [0; 4];
    if stream.read_exact(&mut length).is_err() {
        return "closed".to_owned();
    }
    let length = usize::try_from(u32::from_be_bytes(length)).expect("a length");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("an answer");
    let mut reader = Reader::new(&body[1..]);
    match body[0] {
        SUCCESS => "ok".to_owned(),
        FAILURE => "failed".to_owned(),
        SIGN_RESPONSE => "signed".to_owned(),
        IDENTITIES_ANSWER => format!("keys:{}", reader.u32().expect("a count")),
        EXTENSION_RESPONSE => {
            assert_eq!(reader.string(), Ok(&b"query"[..]));
            let names = std::iter::from_fn(|| reader.string().ok());
            format!("extensions:{}", names.count())
        }
        agent::message::EXTENSION_FAILURE => "extension-failed".to_owned(),
        other => format!("message {other}"),
    }
}

/// True if the installed OpenSSH is one of the 10s.
fn is_openssh_10() -> bool {
    let shown = Command::new("ssh").arg("-V").output();
    shown.is_ok_and(|shown| String::from_utf8_lossy(&shown.stderr).starts_with("OpenSSH_10."))
}

pub(crate) fn each_agent_gives_the_same_answers(folder: &Folder) {
    let is_new = is_openssh_10();
    let cases: Vec<Case> = [keys(), constraints(), sessions()]
        .into_iter()
        .flatten()
        .collect();
    for whose in Whose::all() {
        for (number, case) in cases.iter().enumerate() {
            let expected = match (whose, case.ours) {
                (Whose::Ours, Some(ours)) => ours,
                (Whose::Theirs, _) if !is_new && !case.since_9_2 => continue,
                _ => case.theirs,
            };
            let agent = Agent::start(folder, whose, &[]);
            let mut stream = UnixStream::connect(&agent.socket).expect("an agent");
            let answers: Vec<String> = case
                .messages
                .iter()
                .map(|message| {
                    // An agent that has ended takes nothing.
                    let _ = stream.write_all(message);
                    told(&mut stream)
                })
                .collect();
            assert_eq!(answers.join(" "), expected, "{whose:?} {number}");
        }
    }
}

/// Clients that are bound to a session, and so may be on another machine, keep guessing over many connections.
pub(crate) fn attempts_to_unlock_from_elsewhere_delay_nobody_here(folder: &Folder) {
    const CLIENTS: u8 = 40;
    let agent = Agent::start(folder, Whose::Ours, &[]);
    let mut here = agent.connect();
    here.lock(b"right").expect("a lock");
    let mut elsewhere: Vec<UnixStream> = (0..CLIENTS)
        .map(|number| {
            let mut stream = UnixStream::connect(&agent.socket).expect("an agent");
            stream.write_all(&bound(&[number])).expect("a request");
            assert_eq!(answer(&mut stream), [SUCCESS]);
            stream
        })
        .collect();
    // Each sends as many as the agent reads: most are refused at once.
    for stream in &mut elsewhere {
        let guesses = unlock(b"guess").repeat(100);
        stream.write_all(&guesses).expect("requests");
    }
    // By now the delays of those that wait are minutes.
    let start = Instant::now();
    assert!(here.unlock(b"wrong").is_err());
    here.unlock(b"right").expect("it is unlocked");
    let took = start.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
    // A client that may be elsewhere unlocks too, when the attempts before its own have gone.
    here.lock(b"right").expect("a lock");
    drop(elsewhere);
    let mut stream = UnixStream::connect(&agent.socket).expect("an agent");
    stream.write_all(&bound(b"session")).expect("a request");
    assert_eq!(answer(&mut stream), [SUCCESS]);
    AgentClient::new(stream)
        .unlock(b"right")
        .expect("it is unlocked");
}

/// Clients that may be on another machine have the user asked as often as they can.
pub(crate) fn questions_from_elsewhere_leave_room_for_those_from_here(folder: &Folder) {
    let agent = Agent::start_asking(folder, &[]);
    let confirmed = Constraints {
        confirm: true,
        ..Constraints::default()
    };
    let mut here = agent.connect();
    here.add(&adding(key(1), confirmed)).expect("a key");
    let request = signing(&[0; 4]);
    let mut elsewhere: Vec<UnixStream> = (0..4_u8)
        .map(|number| {
            let mut stream = UnixStream::connect(&agent.socket).expect("an agent");
            stream.write_all(&bound(&[number])).expect("a request");
            assert_eq!(answer(&mut stream), [SUCCESS]);
            stream.write_all(&request.repeat(4)).expect("requests");
            stream
        })
        .collect();
    let asked = || {
        let text = std::fs::read_to_string(folder.join("asked")).unwrap_or_default();
        text.matches("Allow use of key").count()
    };
    until(|| asked() == 12);
    let last = elsewhere.last_mut().expect("a client");
    for _ in 0..4 {
        assert_eq!(answer(last), [FAILURE]);
    }
    let mut stream = UnixStream::connect(&agent.socket).expect("an agent");
    stream.write_all(&request).expect("a request");
    until(|| asked() == 13);
    std::fs::write(folder.join("answer"), "yes").expect("an answer");
    assert_eq!(answer(&mut stream)[0], SIGN_RESPONSE);
    // The places are free again.
    let last = elsewhere.last_mut().expect("a client");
    last.write_all(&request).expect("a request");
    assert_eq!(answer(last)[0], SIGN_RESPONSE);
}
