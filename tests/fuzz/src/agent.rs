//! The agent protocol: requests as an agent reads them, answers as a client reads them.

use std::io::{self, Cursor, Read, Write};

use agent::constraint::{AssociatedCertificates, Constraints, DestinationConstraint, Hop, HopKey};
use agent::{AddRequest, AgentClient, AgentRequest, SignFlags, answer, message};
use keys::PrivateKey;
use keys::private_file::HeldKey;

/// A request without its length. A key that is read is written, and read again, as the same.
///
/// # Panics
/// Only for a defect.
pub fn agent_request(data: &[u8]) {
    let Ok(AgentRequest::Add(request)) = AgentRequest::decode(data) else {
        return;
    };
    let frame = request.encode().expect("a key that was read is written");
    let body = frame.get(4..).expect("a length");
    match AgentRequest::decode(body) {
        Ok(AgentRequest::Add(again)) => {
            assert_eq!(again.key.blob(), request.key.blob());
            assert_eq!(again.constraints, request.constraints);
            assert_eq!(again.comment, request.comment);
        }
        other => panic!("{other:?}"),
    }
}

/// The bytes that an agent sends, to a client that asks for everything in turn.
///
/// # Panics
/// Only for a defect.
pub fn agent_answer(data: &[u8]) {
    type Ask = fn(&mut AgentClient<Script>) -> bool;
    let asks: [Ask; 4] = [
        |client| client.list().is_ok(),
        |client| client.sign(b"key", b"data", SignFlags::NONE).is_ok(),
        |client| client.extensions().is_ok(),
        |client| client.remove_all().is_ok(),
    ];
    for ask in asks {
        let mut client = AgentClient::new(Script(Cursor::new(data.to_vec())));
        // Each answer takes at least five bytes.
        let mut answers = 0;
        while ask(&mut client) {
            answers += 1;
            assert!(answers <= data.len());
        }
    }
}

/// An agent that sends these bytes whatever it is asked.
struct Script(Cursor<Vec<u8>>);

impl Read for Script {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn request_seeds() -> Vec<Vec<u8>> {
    let key = PrivateKey::from_ed25519_seed(&[1; 32]);
    let host = PrivateKey::from_ed25519_seed(&[2; 32]).public().blob();
    let hop = |name: &str, user: &str| Hop {
        user: user.to_owned(),
        host: name.to_owned(),
        keys: vec![HopKey {
            blob: host.clone(),
            is_authority: false,
        }],
    };
    let everything = Constraints {
        lifetime: Some(60),
        confirm: true,
        max_signatures: Some(2),
        destinations: vec![DestinationConstraint {
            from: hop("a", ""),
            to: hop("b", "u*"),
        }],
        provider: Some("internal".to_owned()),
        certificates: Some(AssociatedCertificates {
            only: false,
            blobs: vec![host.clone()],
        }),
    };
    let adding = |constraints: Constraints| {
        let request = AddRequest {
            key: HeldKey {
                key: key.clone(),
                certificate: None,
            },
            comment: "comment".to_owned(),
            constraints,
        };
        request.encode().expect("a key")
    };
    let bind = message::session_bind(&host, b"session", b"signature", true).expect("a request");
    let frames = [adding(Constraints::default()), adding(everything), bind];
    let mut seeds: Vec<Vec<u8>> = frames
        .iter()
        .filter_map(|frame| frame.get(4..).map(<[u8]>::to_vec))
        .collect();
    seeds.push(vec![message::REQUEST_IDENTITIES]);
    seeds.push(b"\x14\0\0\0\x01p\0\0\0\x011".to_vec());
    seeds
}

pub(crate) fn answer_seeds() -> Vec<Vec<u8>> {
    let listed = [(&b"blob"[..], "comment"), (&b"other"[..], "")];
    vec![
        answer::identities(listed.into_iter()),
        answer::signature(b"signature"),
        answer::extensions(&["query", message::SESSION_BIND]),
        answer::status(true),
        answer::extension_failure(),
    ]
}
