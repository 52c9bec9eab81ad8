use super::*;

use keys::KeySpec;
use wire::userauth::{HostbasedClaim, hostbased_signed_data};

const HOST: &str = "a.example";

/// A request that may be signed, with one part changed.
struct Request<'a> {
    session_id: &'a [u8],
    service: &'a str,
    algorithm: &'a str,
    host: &'a str,
    user: &'a str,
}

const GOOD: Request<'static> = Request {
    session_id: &[7; 32],
    service: "ssh-connection",
    algorithm: "ssh-ed25519",
    host: "A.example.",
    user: "ann",
};

fn data(key: &PrivateKey, request: &Request<'_>) -> Vec<u8> {
    let claim = HostbasedClaim {
        algorithm: request.algorithm.as_bytes(),
        key: &key.public().blob(),
        host: request.host.as_bytes(),
        user: request.user.as_bytes(),
    };
    hostbased_signed_data(
        request.session_id,
        b"bob",
        request.service.as_bytes(),
        &claim,
    )
}

fn key() -> PrivateKey {
    PrivateKey::generate(KeySpec::Ed25519).unwrap()
}

#[test]
fn only_a_host_based_request_of_the_user_and_the_host_is_signed() {
    let key = key();
    let good = data(&key, &GOOD);
    let (algorithm, found) = valid_request(&good, "ann", HOST).expect("a request");
    assert_eq!(algorithm, SignatureAlgorithm::Ed25519);
    assert_eq!(found.key(), key.public());
    for bad in [
        Request {
            session_id: &[7; 31],
            ..GOOD
        },
        Request {
            service: "ssh-userauth",
            ..GOOD
        },
        Request {
            algorithm: "rsa-sha2-512",
            ..GOOD
        },
        Request {
            algorithm: "ssh-ed25519-cert-v01@openssh.com",
            ..GOOD
        },
        Request {
            algorithm: "x",
            ..GOOD
        },
        Request {
            host: "a.example",
            ..GOOD
        },
        Request {
            host: "a.example..",
            ..GOOD
        },
        Request {
            host: "b.example.",
            ..GOOD
        },
        Request {
            user: "root",
            ..GOOD
        },
    ] {
        assert!(valid_request(&data(&key, &bad), "ann", HOST).is_none());
    }
    let longer = [&good[..], b"x"].concat();
    assert!(valid_request(&longer, "ann", HOST).is_none());
    for end in 0..good.len() {
        assert!(valid_request(&good[..end], "ann", HOST).is_none(), "{end}");
    }
    let blob = key.public().blob();
    let publickey = wire::userauth::publickey_signed_data(
        &[7; 32],
        b"bob",
        b"ssh-connection",
        b"ssh-ed25519",
        &blob,
        None,
    );
    assert!(valid_request(&publickey, "ann", HOST).is_none());
}

#[test]
fn messages_have_a_length_and_a_version() {
    let mut sent = Vec::new();
    send(&mut sent, b"fields").unwrap();
    assert_eq!(sent, b"\0\0\0\x07\x02fields");
    assert_eq!(receive(&mut &sent[..]).unwrap(), b"fields");
    for bad in [
        &b"\0\0\0\x07\x02field"[..],
        b"\0\0\0\x07\x03fields",
        b"\0\0\0\0",
        b"\0\x04\0\x01\x02",
        b"\0\0",
    ] {
        assert!(receive(&mut &bad[..]).is_err(), "{bad:?}");
    }
}

#[test]
fn a_request_with_a_standard_stream_as_its_connection_is_refused() {
    for number in [0, 1, 2, u32::MAX] {
        let mut fields = Vec::new();
        fields.put_u32(number);
        fields.put_string(b"data");
        let mut message = Vec::new();
        send(&mut message, &fields).unwrap();
        let refused = answer(&mut &message[..], "ann", &[key()]).unwrap_err();
        assert!(refused.contains("bad fd"), "{refused}");
    }
}
