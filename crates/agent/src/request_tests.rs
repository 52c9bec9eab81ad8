use keys::private_file::HeldKey;
use keys::{KeySpec, PrivateKey};
use wire::Put;

use crate::constraint::{
    AssociatedCertificates, Constraints, DestinationConstraint, Hop, HopKey, RESTRICT_DESTINATION,
};
use crate::request::{AddRequest, AgentRequest, BadRequest};

fn host_key(seed: u8) -> Vec<u8> {
    PrivateKey::from_ed25519_seed(&[seed; 32]).public().blob()
}

fn hop(host: &str, user: &str) -> Hop {
    Hop {
        user: user.to_owned(),
        host: host.to_owned(),
        keys: vec![HopKey {
            blob: host_key(9),
            is_authority: true,
        }],
    }
}

fn everything() -> Constraints {
    Constraints {
        lifetime: Some(60),
        confirm: true,
        max_signatures: Some(3),
        destinations: vec![
            DestinationConstraint {
                from: Hop::default(),
                to: hop("a", "u*"),
            },
            DestinationConstraint {
                from: hop("a", ""),
                to: hop("b", ""),
            },
        ],
        provider: Some("internal".to_owned()),
        certificates: Some(AssociatedCertificates {
            only: true,
            blobs: vec![host_key(1), host_key(2)],
        }),
    }
}

/// The body of a request to add a key with these bytes as constraints.
fn adding(constraints: &[u8]) -> Vec<u8> {
    let request = AddRequest {
        key: HeldKey {
            key: PrivateKey::from_ed25519_seed(&[1; 32]),
            certificate: None,
        },
        comment: "a comment".to_owned(),
        constraints: Constraints::default(),
    };
    let mut body = request.encode().unwrap()[4..].to_vec();
    body[0] = 25;
    body.extend_from_slice(constraints);
    body
}

fn read(constraints: &[u8]) -> Result<Constraints, BadRequest> {
    match AgentRequest::decode(&adding(constraints))? {
        AgentRequest::Add(request) => Ok(request.constraints),
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_and_constraints_come_back_as_they_were_sent() {
    for spec in [
        KeySpec::Ed25519,
        KeySpec::Ecdsa(keys::EcCurve::P256),
        KeySpec::Ecdsa(keys::EcCurve::P521),
        KeySpec::Rsa { bits: 2048 },
    ] {
        let key = PrivateKey::generate(spec).unwrap();
        for constraints in [Constraints::default(), everything()] {
            let sent = AddRequest {
                key: HeldKey {
                    key: key.clone(),
                    certificate: None,
                },
                comment: "c".to_owned(),
                constraints: constraints.clone(),
            };
            let frame = sent.encode().unwrap();
            let Ok(AgentRequest::Add(got)) = AgentRequest::decode(&frame[4..]) else {
                panic!("a key is added");
            };
            assert_eq!(got.key.blob(), key.public().blob());
            assert_eq!((&*got.comment, got.constraints), ("c", constraints));
            let algorithm = key.key_type().algorithms()[0];
            let signature = got.key.key.sign(algorithm, b"data").unwrap();
            key.public()
                .verify(
                    algorithm,
                    b"data",
                    &signature,
                    &keys::VerifyPolicy::default(),
                )
                .unwrap();
        }
    }
}

/// Golang GO-2026-5005 and 5006: an agent that drops a constraint that it does not know holds a key
/// that is less restricted than its owner asked.
#[test]
fn an_unknown_constraint_refuses_the_key() {
    assert_eq!(read(&[]).unwrap(), Constraints::default());
    for number in [0, 4, 5, 100, 254] {
        assert!(read(&[number]).is_err(), "{number}");
        assert!(read(&[number, 0, 0, 0, 1]).is_err(), "{number}");
    }
    let mut unknown = vec![255];
    unknown.put_string(b"restrict-destination-v01@openssh.com");
    unknown.put_string(b"");
    assert!(read(&unknown).is_err());
}

#[test]
fn a_repeated_constraint_refuses_the_key() {
    let mut once = Vec::new();
    everything().write(&mut once);
    assert_eq!(read(&once).unwrap(), everything());
    let single = [
        Constraints {
            lifetime: Some(1),
            ..Constraints::default()
        },
        Constraints {
            confirm: true,
            ..Constraints::default()
        },
        Constraints {
            max_signatures: Some(1),
            ..Constraints::default()
        },
        Constraints {
            provider: Some(String::new()),
            ..Constraints::default()
        },
        Constraints {
            destinations: everything().destinations,
            ..Constraints::default()
        },
        Constraints {
            certificates: everything().certificates,
            ..Constraints::default()
        },
    ];
    for constraint in single {
        let mut twice = Vec::new();
        constraint.write(&mut twice);
        assert_eq!(read(&twice).unwrap(), constraint);
        constraint.write(&mut twice);
        assert!(read(&twice).is_err(), "{constraint:?}");
    }
}

/// OpenSSH's agent, too, reads constraints after the number of the request without them.
#[test]
fn constraints_count_after_either_number() {
    let mut constraints = Vec::new();
    everything().write(&mut constraints);
    let mut body = adding(&constraints);
    body[0] = 17;
    match AgentRequest::decode(&body) {
        Ok(AgentRequest::Add(request)) => assert_eq!(request.constraints, everything()),
        other => panic!("{other:?}"),
    }
    body.push(100);
    assert!(AgentRequest::decode(&body).is_err());
    for number in [20, 26] {
        let mut body = vec![number];
        body.put_string(b"/usr/lib/x.so");
        body.put_string(b"1234");
        body.extend_from_slice(&constraints);
        match AgentRequest::decode(&body) {
            Ok(AgentRequest::AddSmartcard { constraints, .. }) => {
                assert_eq!(constraints, everything());
            }
            other => panic!("{other:?}"),
        }
        body.push(100);
        assert!(AgentRequest::decode(&body).is_err());
    }
}

#[test]
fn a_certificate_that_cannot_be_read_refuses_the_request() {
    let mut bytes = Vec::new();
    let certificates = AssociatedCertificates {
        only: false,
        blobs: vec![host_key(1), b"no key".to_vec()],
    };
    Constraints {
        certificates: Some(certificates),
        ..Constraints::default()
    }
    .write(&mut bytes);
    assert!(read(&bytes).is_err());
}

/// A comment with a NUL would spoil the list of all keys for OpenSSH's clients.
#[test]
fn a_comment_has_no_nul() {
    let comment = |text: &str| {
        let request = AddRequest {
            key: HeldKey {
                key: PrivateKey::from_ed25519_seed(&[1; 32]),
                certificate: None,
            },
            comment: text.to_owned(),
            constraints: Constraints::default(),
        };
        match AgentRequest::decode(&request.encode().unwrap()[4..]) {
            Ok(AgentRequest::Add(request)) => Some(request.comment),
            _ => None,
        }
    };
    assert_eq!(comment("a b").as_deref(), Some("a b"));
    assert_eq!(comment("a b\0").as_deref(), Some("a b"));
    for text in ["a\0b", "\0a", "a\0\0"] {
        assert_eq!(comment(text), None, "{text:?}");
    }
}

/// CVE-2025-47914: an agent read beyond the end of a short message.
#[test]
fn truncated_requests_are_errors() {
    let mut constraints = Vec::new();
    everything().write(&mut constraints);
    let whole = adding(&constraints);
    let start = whole.len() - constraints.len();
    let mut accepted = Vec::new();
    for end in 0..whole.len() {
        if AgentRequest::decode(&whole[..end]).is_ok() {
            accepted.push(end - start);
        }
    }
    // Complete constraints end there: none, lifetime, confirm, number of signatures, provider,
    // destinations.
    assert_eq!(accepted.len(), 6, "{accepted:?}");
    assert_eq!(accepted[..4], [0, 5, 6, 11]);
    for number in 0..=255 {
        let _ = AgentRequest::decode(&[number]);
        let _ = AgentRequest::decode(&[number, 0xff, 0xff, 0xff, 0xff]);
    }
}

#[test]
fn a_restriction_that_permits_nothing_is_refused() {
    let mut empty = vec![255];
    empty.put_string(RESTRICT_DESTINATION.as_bytes());
    empty.put_string(b"");
    assert!(read(&empty).is_err());
    for (from, to) in [
        (Hop::default(), Hop::default()),
        (Hop::default(), hop("", "")),
        (
            Hop::default(),
            Hop {
                keys: Vec::new(),
                ..hop("a", "")
            },
        ),
        (hop("", ""), hop("b", "")),
        (hop("a", "user"), hop("b", "")),
        (
            Hop {
                keys: Vec::new(),
                ..hop("a", "")
            },
            hop("b", ""),
        ),
    ] {
        let mut bytes = Vec::new();
        Constraints {
            destinations: vec![DestinationConstraint { from, to }],
            ..Constraints::default()
        }
        .write(&mut bytes);
        assert!(read(&bytes).is_err());
    }
}

/// An agent of the caller's own, at one end of a socket pair.
#[test]
fn an_own_agent_is_served() {
    use std::os::unix::net::UnixStream;

    use crate::request::SignRequest;
    use crate::{AgentClient, AgentError, Identity, SignFlags, SigningAgent};

    struct OneKey(PrivateKey);

    impl SigningAgent for OneKey {
        fn identities(&mut self) -> Vec<Identity> {
            vec![Identity {
                blob: self.0.public().blob(),
                comment: "one".to_owned(),
            }]
        }

        fn sign(&mut self, request: &SignRequest<'_>) -> Option<Vec<u8>> {
            let algorithm = request.flags.algorithm(self.0.key_type());
            self.0.sign(algorithm, request.data).ok()
        }
    }

    let (ours, theirs) = UnixStream::pair().unwrap();
    let key = PrivateKey::from_ed25519_seed(&[1; 32]);
    let mut agent = OneKey(key.clone());
    let serving = std::thread::spawn(move || crate::serve(theirs, &mut agent));
    let mut client = AgentClient::new(ours);
    assert_eq!(client.list().unwrap()[0].comment, "one");
    let blob = key.public().blob();
    let signature = client.sign(&blob, b"data", SignFlags::NONE).unwrap();
    let policy = keys::VerifyPolicy::default();
    key.public()
        .verify(
            keys::SignatureAlgorithm::Ed25519,
            b"data",
            &signature,
            &policy,
        )
        .unwrap();
    // Anything else is refused.
    assert!(matches!(client.lock(b"x"), Err(AgentError::Refused)));
    assert!(matches!(client.extensions(), Err(AgentError::Refused)));
    drop(client);
    serving.join().unwrap().unwrap();
}
