//! What the encoded form holds, and what of it the unprivileged process gets.

use super::*;

#[test]
fn encoded_configurations_come_back() {
    let config = load(RICH);
    let again = ServerConfig::decode(&config.encode()).unwrap();
    assert_eq!(again, config);
    let options = config.for_connection(&ann());
    assert_eq!(again.for_connection(&ann()), options);
    assert_eq!(ServerOptions::decode(&options.encode()).unwrap(), options);
    assert_eq!(
        ServerOptions::decode(&options.encode()).unwrap().dump(),
        options.dump()
    );
}

#[test]
fn words_with_blanks_come_back_whole() {
    let text = "PermitOpen \"a b:1\" [::1]:*\nPermitListen \"x y:80\" udp/53\n\
                ChannelTimeout \"a b=5m\" global=1h\nPermitUserEnvironment \"A B,C\"\n\
                PubkeyAuthOptions max-pk-ok:2\nPerSourcePenaltyExemptList 10.0.0.0/8,::1\n";
    let config = load(text);
    assert_eq!(ServerConfig::decode(&config.encode()).unwrap(), config);
    let options = config.global();
    let again = ServerOptions::decode(&options.encode()).unwrap();
    assert_eq!(again, options);
    let forwarding = &again.forwarding;
    assert!(forwarding.permit_open.opens(PortKind::Tcp, "a b", 1));
    assert!(
        forwarding
            .permit_listen
            .listens(PortKind::Udp, "anything", 53)
    );
    assert!(
        !forwarding
            .permit_listen
            .listens(PortKind::Tcp, "anything", 53)
    );
    assert_eq!(again.limits.channel_timeouts.limit_ms("a b"), 300_000);
    assert!(again.session.permit_user_environment.permits("A B"));
    for line in [
        "\nPermitOpen a b:1 [::1]:*\n",
        "\nPermitListen x y:80 udp/*:53\n",
        "\nChannelTimeout a b=5m global=1h\n",
    ] {
        assert!(again.dump().contains(line), "{line}");
    }
}

#[test]
fn options_that_are_only_read_say_the_same_and_keep_no_second_copy() {
    for text in ["", RICH] {
        let mut options = load(text).for_connection(&ann());
        let read = ServerOptions::decode_to_read(&options.encode()).unwrap();
        let auth = ServerOptions::decode_to_read(&options.encode_for_auth()).unwrap();
        let mut reduced = options.reduced_for_auth();
        for (read, whole) in [(&read, &mut options), (&auth, &mut reduced)] {
            assert_eq!(read.encode(), b"");
            assert_eq!(read.encode_for_auth(), b"");
            whole.source.clear();
            assert_eq!(read, whole);
        }
    }
    assert!(ServerOptions::decode_to_read(b"").is_err());
}

#[test]
fn damaged_blobs_are_refused() {
    let config = load(RICH);
    let blob = config.encode();
    for end in 0..blob.len() {
        assert!(ServerConfig::decode(&blob[..end]).is_err(), "{end}");
    }
    let mut longer = blob.clone();
    longer.push(0);
    assert!(ServerConfig::decode(&longer).is_err());
    let mut huge = b"fulmar sshd_config 2".to_vec();
    huge.extend([0, 0xff, 0xff, 0xff, 0xff]);
    assert!(ServerConfig::decode(&huge).is_err());
    // Any byte may be changed: the result is an error or a configuration, never a panic.
    for at in 0..blob.len() {
        for flip in [1_u8, 0x80] {
            let mut changed = blob.clone();
            changed[at] ^= flip;
            if let Ok(config) = ServerConfig::decode(&changed) {
                let _ = config.for_connection(&ann()).dump();
            }
        }
    }
}

#[test]
fn the_unprivileged_half_is_told_less() {
    let config = load(RICH);
    let reduced = config.reduced_for_auth();
    let blob = reduced.encode();
    let contains = |blob: &[u8], text: &str| blob.windows(text.len()).any(|w| w == text.as_bytes());
    for secret in [
        "/secret/path",
        "zoe",
        "bob",
        "internal-sftp",
        "echo",
        "/before-login",
    ] {
        assert!(contains(&config.encode(), secret), "{secret}");
        assert!(!contains(&blob, secret), "{secret}");
        assert!(
            !contains(&config.for_connection(&ann()).encode_for_auth(), secret),
            "{secret}"
        );
    }
    let (whole, part) = (config.global(), reduced.global());
    assert_eq!(
        part.algorithms.kex_algorithms,
        whole.algorithms.kex_algorithms
    );
    assert_eq!(part.authentication.max_auth_tries, 3);
    assert_eq!(part.connection.version_addendum.as_deref(), Some("hi"));
    let whole = config.for_connection(&ann());
    let options = whole.reduced_for_auth();
    assert_eq!(
        ServerOptions::decode(&whole.encode_for_auth()).unwrap(),
        options
    );
    assert_eq!(
        (
            options.authentication.max_auth_tries,
            options.authentication.password_authentication
        ),
        (2, false)
    );
    assert!(
        options.session.force_command.is_none() && options.authentication.allow_users.is_empty()
    );
}
