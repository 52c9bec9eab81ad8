//! The agent's behaviour towards its clients, well-meaning or not.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use agent::constraint::{DestinationConstraint, Hop, HopKey};
use agent::message::{
    EXTENSION_FAILURE, FAILURE, IDENTITIES_ANSWER, SIGN_RESPONSE, SUCCESS, session_bind,
};
use agent::{AddRequest, AgentClient, AgentError, Constraints, SignFlags};
use keys::private_file::HeldKey;
use keys::{KeySpec, PrivateKey, SignatureAlgorithm};
use wire::Put;

use crate::{Agent, Folder, Whose, until};

pub(crate) fn key(seed: u8) -> PrivateKey {
    PrivateKey::from_ed25519_seed(&[seed; 32])
}

pub(crate) fn adding(key: PrivateKey, constraints: Constraints) -> AddRequest {
    AddRequest {
        key: HeldKey {
            key,
            certificate: None,
        },
        comment: "a key".to_owned(),
        constraints,
    }
}

fn confirmed() -> Constraints {
    Constraints {
        confirm: true,
        ..Constraints::default()
    }
}

/// A request in its frame.
pub(crate) fn framed(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_string(body);
    out
}

pub(crate) fn sign_request(blob: &[u8], data: &[u8]) -> Vec<u8> {
    let mut body = vec![13];
    body.put_string(blob);
    body.put_string(data);
    body.put_u32(0);
    framed(&body)
}

/// The body of the next answer.
pub(crate) fn answer(stream: &mut UnixStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
    stream.read_exact(&mut body).expect("an answer");
    body
}

pub(crate) fn a_key_that_waits_for_its_user_delays_nobody(folder: &Folder) {
    let agent = Agent::start_asking(folder, &[]);
    let mut client = agent.connect();
    client.add(&adding(key(1), confirmed())).unwrap();
    client.add(&adding(key(2), Constraints::default())).unwrap();
    let [waiting, plain] = [1, 2].map(|seed| key(seed).public().blob());
    let mut stream = UnixStream::connect(&agent.socket).unwrap();
    // The same client, and others, go on; answers keep the order of one client's requests.
    stream.write_all(&sign_request(&waiting, b"data")).unwrap();
    stream.write_all(&sign_request(&plain, b"data")).unwrap();
    until(|| folder.join("asked").exists());
    for _ in 0..20 {
        client.sign(&plain, b"data", SignFlags::NONE).unwrap();
    }
    std::fs::write(folder.join("answer"), "yes").unwrap();
    assert_eq!(answer(&mut stream)[0], SIGN_RESPONSE);
    assert_eq!(answer(&mut stream)[0], SIGN_RESPONSE);
    let asked = std::fs::read_to_string(folder.join("asked")).unwrap();
    let fingerprint = keys::fingerprint::sha256(&waiting);
    assert_eq!(
        asked,
        format!(
            "Allow use of key a key?\nKey fingerprint {fingerprint}.\n\
             It signs data of an unknown kind.\nhint confirm\n"
        )
    );
    // A no, and a key that was removed while its user thought.
    std::fs::write(folder.join("answer"), "no").unwrap();
    assert!(matches!(
        client.sign(&waiting, b"data", SignFlags::NONE),
        Err(AgentError::Refused)
    ));
    std::fs::remove_file(folder.join("answer")).unwrap();
    std::fs::remove_file(folder.join("asked")).unwrap();
    stream.write_all(&sign_request(&waiting, b"data")).unwrap();
    until(|| folder.join("asked").exists());
    client.remove(&waiting).unwrap();
    std::fs::write(folder.join("answer"), "yes").unwrap();
    assert_eq!(answer(&mut stream), [FAILURE]);
}

pub(crate) fn pipelined_requests_are_answered_in_order(folder: &Folder) {
    let agent = Agent::start(folder, Whose::Ours, &[]);
    let rsa = PrivateKey::generate(KeySpec::Rsa { bits: 2048 }).unwrap();
    let mut client = agent.connect();
    client.add(&adding(key(1), Constraints::default())).unwrap();
    client
        .add(&adding(rsa.clone(), Constraints::default()))
        .unwrap();
    let stream = UnixStream::connect(&agent.socket).unwrap();
    let mut writer = stream.try_clone().unwrap();
    const COUNT: usize = 400;
    let fast = key(1);
    let (fast_blob, slow_blob) = (fast.public().blob(), rsa.public().blob());
    let sending = std::thread::spawn(move || {
        for index in 0..COUNT {
            let data = index.to_be_bytes();
            let mut body = vec![13];
            body.put_string(if index % 8 == 0 {
                &slow_blob
            } else {
                &fast_blob
            });
            body.put_string(&data);
            body.put_u32(4);
            writer.write_all(&framed(&body)).unwrap();
        }
    });
    let mut reader = stream;
    for index in 0..COUNT {
        let body = answer(&mut reader);
        assert_eq!(body[0], SIGN_RESPONSE);
        let signature = wire::Reader::new(&body[1..]).string().unwrap();
        let (key, algorithm) = match index % 8 {
            0 => (rsa.public(), SignatureAlgorithm::RsaSha512),
            _ => (fast.public(), SignatureAlgorithm::Ed25519),
        };
        let policy = keys::VerifyPolicy::default();
        key.verify(algorithm, &index.to_be_bytes(), signature, &policy)
            .unwrap();
    }
    sending.join().unwrap();
    // A client that never reads its answers does not fill the agent's memory.
    let mut deaf = UnixStream::connect(&agent.socket).unwrap();
    deaf.set_nonblocking(true).unwrap();
    let list = framed(&[11]);
    let mut refused = 0;
    until(|| {
        match deaf.write(&list.repeat(1000)) {
            Ok(_) => refused = 0,
            Err(_) => refused += 1,
        }
        refused > 20
    });
    assert_eq!(client.list().unwrap().len(), 2);
}

pub(crate) fn wrong_passphrases_are_slowed_down(folder: &Folder) {
    let agent = Agent::start(folder, Whose::Ours, &[]);
    let mut client = agent.connect();
    client.lock(b"right").unwrap();
    let start = Instant::now();
    let mut streams: Vec<UnixStream> = (0..4)
        .map(|_| UnixStream::connect(&agent.socket).unwrap())
        .collect();
    // Attempts at the same time, of several clients, wait for each other.
    for stream in &mut streams {
        let mut body = vec![23];
        body.put_string(b"wrong");
        stream.write_all(&framed(&body)).unwrap();
    }
    // Others are not held up: the answer to the last attempt is still to come.
    assert!(client.list().unwrap().is_empty());
    let last = streams.last().unwrap();
    let delays = Duration::from_millis(100 + 200 + 300 + 400);
    last.set_nonblocking(true).unwrap();
    let is_answered = sys::socket::peek(last, &mut [0; 1]).is_ok();
    last.set_nonblocking(false).unwrap();
    assert!(!is_answered || start.elapsed() >= delays);
    for stream in &mut streams {
        assert_eq!(answer(stream), [FAILURE]);
    }
    assert!(start.elapsed() >= delays);
    client.unlock(b"right").unwrap();
    assert!(matches!(client.unlock(b"right"), Err(AgentError::Refused)));
    assert!(matches!(client.lock(b""), Err(AgentError::Refused)));
}

pub(crate) fn lifetimes_end_and_a_signal_drops_keys(folder: &Folder) {
    let agent = Agent::start(folder, Whose::Ours, &["-t", "1h"]);
    let mut client = agent.connect();
    let short = Constraints {
        lifetime: Some(1),
        ..Constraints::default()
    };
    client.add(&adding(key(1), short)).unwrap();
    client.add(&adding(key(2), Constraints::default())).unwrap();
    until(|| client.list().unwrap().len() == 1);
    let blob = key(1).public().blob();
    assert!(client.sign(&blob, b"data", SignFlags::NONE).is_err());
    agent.signal(sys::signals::Signal::USR1);
    until(|| client.list().unwrap().is_empty());
    // A key that is added again has its new constraints.
    for (constraints, left) in [
        (
            Constraints {
                lifetime: Some(1),
                ..Constraints::default()
            },
            0,
        ),
        (Constraints::default(), 1),
    ] {
        let long = Constraints {
            lifetime: Some(600),
            ..Constraints::default()
        };
        client.add(&adding(key(1), long)).unwrap();
        client.add(&adding(key(1), constraints)).unwrap();
        if left == 0 {
            until(|| client.list().unwrap().is_empty());
        }
        assert_eq!(client.list().unwrap().len(), left);
    }
}

/// CVE-2016-10009 and CVE-2023-38408: a client, also a forwarded one, lets the agent load a library.
/// CVE-2023-28531 and CVE-2023-51384: constraints are not applied to the keys of a token.
pub(crate) fn no_provider_is_loaded_for_anybody(folder: &Folder) {
    for flags in [&[][..], &["-O", "allow-remote-pkcs11"]] {
        let agent = Agent::start(folder, Whose::Ours, flags);
        for is_remote in [false, true] {
            let mut stream = UnixStream::connect(&agent.socket).unwrap();
            if is_remote {
                stream.write_all(&bind(key(9), b"session", true)).unwrap();
                assert_eq!(answer(&mut stream), [SUCCESS]);
            }
            let mut constraints = Vec::new();
            confirmed().write(&mut constraints);
            for (number, rest) in [(20, &[][..]), (26, &constraints), (21, &[])] {
                let mut body = vec![number];
                body.put_string(b"/usr/lib/x86_64-linux-gnu/libc.so.6");
                body.put_string(b"1234");
                body.extend_from_slice(rest);
                stream.write_all(&framed(&body)).unwrap();
                assert_eq!(answer(&mut stream), [FAILURE], "{number}");
            }
            // A plain key with a library: the library is that of no security key.
            let with_provider = Constraints {
                provider: Some("/usr/lib/x86_64-linux-gnu/libc.so.6".to_owned()),
                ..Constraints::default()
            };
            let mut client = AgentClient::new(stream);
            let refused = client.add(&adding(key(1), with_provider));
            assert!(matches!(refused, Err(AgentError::Refused)));
            assert!(client.list().unwrap().is_empty());
        }
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", agent.process.id())).unwrap();
        assert!(!maps.contains("pkcs11"), "{maps}");
    }
}

/// A request that binds a connection to a session with this host.
pub(crate) fn bind(host: PrivateKey, session: &[u8], is_forwarding: bool) -> Vec<u8> {
    let signature = host.sign(SignatureAlgorithm::Ed25519, session).unwrap();
    session_bind(&host.public().blob(), session, &signature, is_forwarding)
        .unwrap()
        .to_vec()
}

fn ask(stream: &mut UnixStream, request: &[u8]) -> Vec<u8> {
    stream.write_all(request).unwrap();
    answer(stream)
}

pub(crate) fn bindings_are_verified_and_count_while_locked(folder: &Folder) {
    let agent = Agent::start(folder, Whose::Ours, &[]);
    let mut stream = UnixStream::connect(&agent.socket).unwrap();
    let other = key(8).sign(SignatureAlgorithm::Ed25519, b"s1").unwrap();
    let forged = session_bind(&key(7).public().blob(), b"s1", &other, true).unwrap();
    assert_eq!(ask(&mut stream, &forged), [EXTENSION_FAILURE]);
    assert_eq!(
        ask(&mut stream, &bind(key(7), &[1; 129], true)),
        [EXTENSION_FAILURE]
    );
    assert_eq!(ask(&mut stream, &bind(key(7), b"s1", true)), [SUCCESS]);
    // The same again is no second hop; another key for the same session is wrong.
    assert_eq!(ask(&mut stream, &bind(key(7), b"s1", true)), [SUCCESS]);
    assert_eq!(
        ask(&mut stream, &bind(key(8), b"s1", true)),
        [EXTENSION_FAILURE]
    );
    assert_eq!(ask(&mut stream, &bind(key(8), b"s2", false)), [SUCCESS]);
    assert_eq!(
        ask(&mut stream, &bind(key(9), b"s3", true)),
        [EXTENSION_FAILURE]
    );
    let mut many = UnixStream::connect(&agent.socket).unwrap();
    for hop in 0..17_u8 {
        let expected = if hop < 16 { SUCCESS } else { EXTENSION_FAILURE };
        assert_eq!(ask(&mut many, &bind(key(7), &[hop], true)), [expected]);
    }
    // A binding of a connection that begins while the agent is locked.
    let mut client = agent.connect();
    let to_seven = Constraints {
        destinations: vec![from_to(None, 7, "")],
        ..Constraints::default()
    };
    client.add(&adding(key(1), to_seven)).unwrap();
    client.lock(b"x").unwrap();
    let mut early = UnixStream::connect(&agent.socket).unwrap();
    assert_eq!(ask(&mut early, &bind(key(8), b"s1", true)), [SUCCESS]);
    let mut failed = UnixStream::connect(&agent.socket).unwrap();
    let forged = session_bind(&key(7).public().blob(), b"s1", &other, true).unwrap();
    assert_eq!(ask(&mut failed, &forged), [EXTENSION_FAILURE]);
    client.unlock(b"x").unwrap();
    for stream in [&mut early, &mut failed] {
        assert_eq!(ask(stream, &framed(&[11])), [IDENTITIES_ANSWER, 0, 0, 0, 0]);
    }
    assert_eq!(client.list().unwrap().len(), 1);
    assert_eq!(client.extensions().unwrap(), ["session-bind@openssh.com"]);
}

/// A constraint from a host (or this machine) to a host, by the seeds of their keys.
pub(crate) fn from_to(from: Option<u8>, to: u8, user: &str) -> DestinationConstraint {
    let hop = |seed: u8, user: &str| Hop {
        user: user.to_owned(),
        host: format!("host{seed}"),
        keys: vec![HopKey {
            blob: key(seed).public().blob(),
            is_authority: false,
        }],
    };
    DestinationConstraint {
        from: from.map_or_else(Hop::default, |seed| hop(seed, "")),
        to: hop(to, user),
    }
}

/// The data of a login.
fn login(session: &[u8], user: &str, blob: &[u8], host: Option<u8>) -> Vec<u8> {
    let mut data = Vec::new();
    data.put_string(session);
    data.put_u8(50);
    data.put_string(user.as_bytes());
    data.put_string(b"ssh-connection");
    data.put_string(match host {
        Some(_) => b"publickey-hostbound-v00@openssh.com",
        None => b"publickey",
    });
    data.put_bool(true);
    data.put_string(b"ssh-ed25519");
    data.put_string(blob);
    if let Some(host) = host {
        data.put_string(&key(host).public().blob());
    }
    data
}

pub(crate) fn restricted_keys_sign_only_on_their_path(folder: &Folder) {
    let all = Whose::all();
    for whose in all {
        let agent = Agent::start(folder, whose, &[]);
        let mut local = agent.connect();
        let constraints = Constraints {
            destinations: vec![from_to(None, 7, "root"), from_to(Some(7), 8, "")],
            ..Constraints::default()
        };
        local.add(&adding(key(1), constraints)).unwrap();
        let blob = key(1).public().blob();
        let signs = |binds: &[(u8, &str, bool)], data: &[u8]| {
            let mut stream = UnixStream::connect(&agent.socket).unwrap();
            for (host, session, is_forwarding) in binds {
                let bound = ask(
                    &mut stream,
                    &bind(key(*host), session.as_bytes(), *is_forwarding),
                );
                assert_eq!(bound, [SUCCESS], "{binds:?}");
            }
            let listed = ask(&mut stream, &framed(&[11]))[4] == 1;
            (
                listed,
                ask(&mut stream, &sign_request(&blob, data))[0] == SIGN_RESPONSE,
            )
        };
        let case = |binds: &[(u8, &str, bool)], user: &str, host: Option<u8>| {
            let session = binds.last().map_or("", |bind| bind.1);
            signs(binds, &login(session.as_bytes(), user, &blob, host))
        };
        let one = |host| [(host, "s", false)];
        let two = |first, second| [(first, "s", true), (second, "t", false)];
        // Listed, and signs.
        assert_eq!(case(&one(7), "root", None), (true, true), "{whose:?}");
        assert_eq!(case(&one(7), "root", Some(7)), (true, true));
        assert_eq!(
            case(&one(7), "root", Some(8)),
            (true, false),
            "another host key"
        );
        assert_eq!(case(&one(7), "guest", None), (true, false), "another user");
        assert_eq!(case(&one(8), "root", None), (false, false), "another host");
        assert_eq!(
            case(&two(7, 8), "guest", Some(8)),
            (true, true),
            "{whose:?}"
        );
        assert_eq!(
            case(&two(7, 8), "guest", None),
            (true, false),
            "no host key"
        );
        assert_eq!(case(&two(8, 7), "root", Some(7)), (false, false));
        assert_eq!(case(&two(7, 9), "guest", Some(9)), (false, false));
        assert_eq!(case(&[], "root", None), (true, false), "no binding");
        let forwarded = [(7, "s", true)];
        assert_eq!(
            case(&forwarded, "root", Some(7)),
            (true, false),
            "no login bound"
        );
        let dead_end = [(7, "s", true), (8, "t", true)];
        assert_eq!(
            case(&dead_end, "root", Some(8)),
            (false, false),
            "not beyond"
        );
        let other_session = login(b"t", "root", &blob, None);
        assert_eq!(signs(&one(7), &other_session), (true, false));
        assert_eq!(signs(&one(7), b"data"), (true, false), "no login");
        // What a host may not see it may neither remove nor replace.
        let mut stranger = UnixStream::connect(&agent.socket).unwrap();
        ask(&mut stranger, &bind(key(9), b"s", true));
        let mut stranger = AgentClient::new(stranger);
        assert!(stranger.remove(&blob).is_err());
        assert!(
            stranger
                .add(&adding(key(1), Constraints::default()))
                .is_err()
        );
        assert_eq!(local.list().unwrap().len(), 1);
        // Nor does it remove it with all others, as it may in OpenSSH's agent.
        local.add(&adding(key(2), Constraints::default())).unwrap();
        stranger.remove_all().unwrap();
        let left: Vec<_> = local.list().unwrap();
        let left: Vec<_> = left.iter().map(|identity| &identity.blob).collect();
        match whose {
            Whose::Ours => assert_eq!(left, [&blob]),
            Whose::Theirs => assert!(left.is_empty()),
        }
        local.remove_all().unwrap();
        assert!(local.list().unwrap().is_empty());
    }
}

/// CVE-2025-47914 and others of its kind: damaged messages end neither the agent nor other clients.
pub(crate) fn a_bad_client_harms_no_other(folder: &Folder) {
    let agent = Agent::start(folder, Whose::Ours, &[]);
    let mut client = agent.connect();
    client.add(&adding(key(1), Constraints::default())).unwrap();
    for length in [0_u32, 256 * 1024 + 1, u32::MAX] {
        let mut stream = UnixStream::connect(&agent.socket).unwrap();
        stream.write_all(&length.to_be_bytes()).unwrap();
        let _ = stream.write_all(b"x");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap_or_default();
        assert!(rest.is_empty(), "{length}");
    }
    let whole = adding(key(2), confirmed()).encode().unwrap();
    let mut stream = UnixStream::connect(&agent.socket).unwrap();
    for end in 5..whole.len() - 1 {
        let body = &whole[4..end];
        let got = ask(&mut stream, &framed(body));
        // Without the constraint it would be less restricted, and the request says that it has one.
        assert!(got == [FAILURE] || end == whole.len() - 1, "{end}");
    }
    for number in 0..=255_u8 {
        let known = [9, 11, 19, 27].contains(&number);
        let got = ask(&mut stream, &framed(&[number]));
        assert!(known || got == [FAILURE], "{number}");
    }
    // A client that sends a request in pieces, and one that ends in the middle.
    client.add(&adding(key(1), Constraints::default())).unwrap();
    for byte in sign_request(&key(1).public().blob(), b"data") {
        stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(answer(&mut stream)[0], SIGN_RESPONSE);
    stream.write_all(&[0, 0, 1]).unwrap();
    drop(stream);
    assert_eq!(client.list().unwrap().len(), 1);
    // Without a flag, SHA-1.
    let rsa = PrivateKey::generate(KeySpec::Rsa { bits: 2048 }).unwrap();
    let blob = rsa.public().blob();
    client.add(&adding(rsa, Constraints::default())).unwrap();
    let signature = client.sign(&blob, b"data", SignFlags::NONE).unwrap();
    let algorithm = keys::Signature::from_blob(&signature).unwrap().algorithm;
    assert_eq!(algorithm, SignatureAlgorithm::RsaSha1);
}

pub(crate) fn a_thousand_clients_are_served(folder: &Folder) {
    let _ = sys::process::raise_open_files();
    let limit = sys::process::limit(sys::process::Resource::OpenFiles).unwrap();
    if limit.soft < 1200 {
        println!("skipped: only {} open files", limit.soft);
        return;
    }
    let agent = Agent::start(folder, Whose::Ours, &[]);
    let mut first = agent.connect();
    first.add(&adding(key(1), Constraints::default())).unwrap();
    let mut clients: Vec<_> = (0..1000).map(|_| agent.connect()).collect();
    let blob = key(1).public().blob();
    for client in &mut clients {
        client.sign(&blob, b"data", SignFlags::NONE).unwrap();
    }
    drop(clients);
    assert_eq!(first.list().unwrap().len(), 1);
}
