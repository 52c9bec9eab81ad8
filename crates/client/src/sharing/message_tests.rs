use super::*;

fn bytes(words: &[&[u8]]) -> Vec<u8> {
    words.concat()
}

#[test]
fn messages_have_openssh_s_layout() {
    let hello = PassengerRequest::Hello(VERSION).packet();
    assert_eq!(hello, b"\0\0\0\x08\0\0\0\x01\0\0\0\x04");
    let wish = SessionWish {
        tty: true,
        x11: false,
        agent: true,
        subsystem: false,
        escape: Some(b'~'),
        term: b"vt".to_vec(),
        command: b"ls".to_vec(),
        environment: vec![b"A=b".to_vec()],
    };
    let session = PassengerRequest::Wish(7, Wish::Session(wish)).packet();
    let expected = bytes(&[
        b"\0\0\0\x33\x10\0\0\x02\0\0\0\x07\0\0\0\0",
        b"\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x7e",
        b"\0\0\0\x02vt\0\0\0\x02ls\0\0\0\x03A=b",
    ]);
    assert_eq!(session, expected);
    let path = Wish::StdioForward {
        host: b"/s".to_vec(),
        port: None,
    };
    let stdio = PassengerRequest::Wish(1, path).packet();
    let expected = b"\0\0\0\x16\x10\0\0\x08\0\0\0\x01\0\0\0\0\0\0\0\x02/s\xff\xff\xff\xfe";
    assert_eq!(stdio, expected);
    let denied = MasterReply::Denied(2, "no".into()).packet();
    assert_eq!(denied, b"\0\0\0\x0e\x80\0\0\x02\0\0\0\x02\0\0\0\x02no");
    // Those of OpenSSH 10.3 (mux.c).
    let hello = MasterReply::Hello {
        version: VERSION,
        master: MasterFacts {
            has_info: true,
            server_version: None,
        },
    };
    let expected = b"\0\0\0\x15\0\0\0\x01\0\0\0\x04\0\0\0\x04info\0\0\0\x010";
    assert_eq!(hello.packet(), expected);
    assert_eq!(MasterReply::decode(&expected[4..]), Ok(hello));
    let told = MasterReply::Hello {
        version: VERSION,
        master: MasterFacts {
            has_info: false,
            server_version: Some("SSH-2.0-x".into()),
        },
    };
    let expected =
        b"\0\0\0\x36\0\0\0\x01\0\0\0\x04\0\0\0\x1dserver-version@fulmar.invalid\0\0\0\x09SSH-2.0-x";
    assert_eq!(told.packet(), expected);
    assert_eq!(MasterReply::decode(&expected[4..]), Ok(told));
    let proxy = PassengerRequest::Wish(1, Wish::Proxy).packet();
    assert_eq!(proxy, b"\0\0\0\x08\x10\0\0\x0f\0\0\0\x01");
    let begins = MasterReply::Proxy(1).packet();
    assert_eq!(begins, b"\0\0\0\x08\x80\0\0\x0f\0\0\0\x01");
    let info = PassengerRequest::Wish(1, Wish::Info(b"connection".to_vec())).packet();
    assert_eq!(
        info,
        b"\0\0\0\x16\x20\0\0\x01\0\0\0\x01\0\0\0\x0aconnection"
    );
    let text = MasterReply::Info(1, true, "t".into()).packet();
    assert_eq!(
        text,
        b"\0\0\0\x11\x90\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01t"
    );
}

#[test]
fn forwardings_are_those_of_the_command_line() {
    for (kind, words) in [
        (ForwardKind::Local, "8080:host:80"),
        (ForwardKind::Local, "127.0.0.1:8080:/path"),
        (ForwardKind::Local, "/listen:host:80"),
        (ForwardKind::Remote, "0:host:80"),
        (ForwardKind::Remote, "*:8080:host:80"),
        (ForwardKind::Remote, "1080"),
        (ForwardKind::Dynamic, "localhost:1080"),
    ] {
        let spec = ForwardSpec::parse(words, kind).expect("a forwarding");
        let wish = ForwardWish::new(kind, &spec).expect("no datagrams");
        assert_eq!(wish.spec(), Some((kind, spec)), "{words}");
    }
    let datagrams = ForwardSpec::parse("udp/5353:host:53", ForwardKind::Local).expect("valid");
    assert_eq!(ForwardWish::new(ForwardKind::Local, &datagrams), None);
    let wish = |kind, listen: (&str, u32), connect: (&str, u32)| ForwardWish {
        kind,
        listen_host: listen.0.into(),
        listen_port: listen.1,
        connect_host: connect.0.into(),
        connect_port: connect.1,
    };
    for bad in [
        wish(4, ("", 1), ("h", 1)),
        wish(FORWARD_DYNAMIC, ("/s", PORT_OF_PATH), (SOCKS, 0)),
        wish(FORWARD_LOCAL, ("", PORT_OF_PATH), ("h", 1)),
        wish(FORWARD_LOCAL, ("", 65536), ("h", 1)),
        wish(FORWARD_LOCAL, ("", 1), ("h", 65536)),
        wish(FORWARD_LOCAL, ("", 1), ("h", 0)),
        wish(FORWARD_LOCAL, ("", 1), ("", 1)),
        wish(FORWARD_REMOTE, ("", 1), ("", PORT_OF_PATH)),
    ] {
        assert_eq!(bad.spec(), None, "{bad:?}");
    }
}

#[test]
fn malformed_messages_are_errors_and_unknown_ones_are_named() {
    let decode = |message: &[u8]| PassengerRequest::decode(message);
    assert!(decode(b"").is_err());
    assert!(decode(b"\0\0\0\x01\0\0\0").is_err());
    assert!(decode(b"\0\0\0\x01\0\0\0\x04\0\0\0\x01x").is_err());
    let extended = b"\0\0\0\x01\0\0\0\x04\0\0\0\x01x\0\0\0\x01y";
    assert_eq!(decode(extended), Ok(PassengerRequest::Hello(4)));
    let unknown = decode(b"\x10\0\0\x10\0\0\0\x01");
    let expected = PassengerRequest::Wish(1, Wish::Unknown(0x1000_0010));
    assert_eq!(unknown, Ok(expected));
    // A zero byte would end the string for everybody else.
    let zero = b"\x10\0\0\x08\0\0\0\x01\0\0\0\0\0\0\0\x03a\0b\0\0\0\x16";
    assert!(decode(zero).is_err());
    assert!(MasterReply::decode(b"\x80\0\0\x10\0\0\0\x01").is_err());
}

#[test]
fn variables_beyond_the_limit_are_dropped() {
    let wish = SessionWish {
        tty: false,
        x11: false,
        agent: false,
        subsystem: false,
        escape: None,
        term: Vec::new(),
        command: Vec::new(),
        environment: vec![b"A=b".to_vec(); MAX_VARIABLES + 5],
    };
    let packet = PassengerRequest::Wish(0, Wish::Session(wish)).packet();
    let decoded = PassengerRequest::decode(packet.get(4..).expect("a length"));
    let Ok(PassengerRequest::Wish(0, Wish::Session(wish))) = decoded else {
        panic!("{decoded:?}");
    };
    assert_eq!(wish.environment.len(), MAX_VARIABLES);
}
