use zeroize::Zeroizing;

use crate::*;

fn grant() -> SessionGrant {
    SessionGrant {
        user: "ada".into(),
        uid: 1000,
        gid: 1000,
        groups: vec![1000, 27],
        home: "/home/ada".into(),
        shell: "/bin/sh".into(),
        change_user: true,
        chroot: None,
        forced_command: Some("true".into()),
        restrictions: Restrictions {
            permit_open: vec![wire::permissions::PermitTarget {
                is_udp: false,
                host: "localhost".into(),
                port: Some(80),
            }],
            permit_listen: vec![wire::permissions::PermitTarget {
                is_udp: true,
                host: "*".into(),
                port: None,
            }],
            ..Restrictions::none()
        },
        key_environment: vec![("A".into(), "b".into())],
        pam_environment: Vec::new(),
        session_id: vec![7; 32],
        remote_address: "192.0.2.1".into(),
        remote_port: 50000,
        local_address: "192.0.2.2".into(),
        local_port: 22,
        client_version: "SSH-2.0-x".into(),
        options: vec![1, 2, 3],
        host_keys: vec![HostKey {
            index: 0,
            blob: vec![1],
            algorithms: vec!["ssh-ed25519".into()],
        }],
        login_messages: String::new(),
        pam_shows_motd: false,
        auth_info: "publickey ssh-ed25519 AAAA".into(),
        log_level: LogLevel::Info,
        log_verbose: vec!["*".into()],
        password_expired: false,
        selinux_context: Some("a:b:c".into()),
    }
}

fn round_trip<M: Message + PartialEq + core::fmt::Debug>(message: &M) {
    let mut splitter = FrameSplitter::new();
    for byte in message.encode_frame() {
        assert_eq!(splitter.next_frame().unwrap(), None);
        splitter.feed(&[byte]);
    }
    let frame = splitter.next_frame().unwrap().unwrap();
    assert!(splitter.is_empty());
    assert_eq!(&frame.decode::<M>().unwrap(), message);
    let body = message.encode_body();
    for end in 0..body.len() {
        assert!(
            M::decode_body(&body[..end]).is_err(),
            "{} cut at {end}",
            M::NAME
        );
    }
    let mut longer = body;
    longer.push(0);
    assert!(M::decode_body(&longer).is_err());
}

#[test]
fn messages_come_back_as_they_went_and_no_prefix_decodes() {
    round_trip(&Log {
        level: LogLevel::Verbose,
        is_forced: true,
        text: "x".into(),
        tail: Some(" y".into()),
    });
    round_trip(&SignExchangeHash {
        kex_algorithm: "curve25519-sha256".into(),
        host_key_algorithm: "ssh-ed25519".into(),
        key_index: 1,
        hash: vec![1; 32],
        expects_login: true,
    });
    round_trip(&KbdintRespond {
        responses: vec![Secret::new(b"one".to_vec()), Secret::default()],
    });
    round_trip(&HostbasedVerify {
        algorithm: "ssh-ed25519".into(),
        key: vec![1],
        client_host: "a.example.".into(),
        client_user: "ann".into(),
        signature: vec![2],
    });
    round_trip(&KeyVerify {
        algorithm: "ssh-ed25519".into(),
        key: vec![1],
        signature: vec![2],
        hostbound: Some(vec![3]),
    });
    round_trip(&AuthOutcome::Partial {
        methods: vec!["password".into()],
    });
    round_trip(&AuthOutcome::Success);
    round_trip(&Snapshot {
        bytes: Zeroizing::new(vec![9; 300]),
    });
    round_trip(&HostkeysProve {
        keys: vec![(0, "ssh-ed25519".into()), (1, "rsa-sha2-512".into())],
    });
    round_trip(&KbdintPrompts {
        name: "n".into(),
        instruction: "i".into(),
        prompts: vec![Prompt {
            text: "Password: ".into(),
            echo: false,
        }],
    });
    round_trip(&GssExchange {
        kex_algorithm: "gss".into(),
        hash: vec![1; 32],
        token: vec![2; 9],
    });
    round_trip(&GssapiKeyex { mic: vec![3] });
    round_trip(&GssOutcome::Continue { token: vec![1] });
    round_trip(&GssOutcome::Complete {
        token: Vec::new(),
        mic: vec![2],
    });
    round_trip(&GssOutcome::Refused { token: vec![4] });
    round_trip(&PtyAllocate {});
    round_trip(&MonitorConnection {
        accepted_ms: 1,
        greeted: None,
        client: Some(("192.0.2.1".into(), 50000)),
    });
    round_trip(&SessionReport {
        received: 1 << 40,
        sent: 2,
        rekeys: 3,
        channels: vec![1; roles::COUNTED_CHANNELS.len()],
    });
    round_trip(&HeaderRead {
        token: 1 << 40,
        client: None,
        failure: Some("why".into()),
    });
    round_trip(&TunnelOpen {
        ethernet: false,
        unit: Some(3),
        with_header: true,
    });
    round_trip(&grant());
}

#[test]
fn a_secret_is_not_printed() {
    let text = format!(
        "{:?}",
        AuthPassword {
            password: Secret::new(b"hunter2".to_vec())
        }
    );
    assert!(!text.contains("hunter2") && !text.contains("104"), "{text}");
}

#[test]
fn frames_past_their_bound_are_refused_at_the_header() {
    let header = |length: u32, number: u8| {
        let [a, b, c, d] = length.to_be_bytes();
        FrameHeader::parse([a, b, c, d, number])
    };
    assert_eq!(header(0, Log::NUMBER), Err(FrameError::BadLength));
    assert_eq!(
        header(1 << 20, Log::NUMBER).unwrap().body_bytes,
        (1 << 20) - 1
    );
    assert_eq!(
        header((1 << 20) + 1, Log::NUMBER),
        Err(FrameError::BadLength)
    );
    assert!(header(4 << 20, Snapshot::NUMBER).is_ok());
    assert!(header((4 << 20) + 1, Snapshot::NUMBER).is_err());
    let mut splitter = FrameSplitter::new();
    splitter.feed(&[0xff, 0xff, 0xff, 0xff, Log::NUMBER]);
    assert_eq!(splitter.next_frame(), Err(FrameError::BadLength));
}

#[test]
fn a_giant_count_reserves_nothing_and_fails() {
    // HostkeysProve with 2^32-1 keys announced and none sent.
    assert!(HostkeysProve::decode_body(&[0xff; 4]).is_err());
    assert!(KbdintRespond::decode_body(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]).is_err());
}

#[test]
fn numbers_that_only_the_monitor_sends_are_no_requests() {
    for info in MESSAGES.iter().filter(|info| {
        let sender = info.sender;
        matches!(sender, Sender::Monitor | Sender::Listener | Sender::Reader)
    }) {
        let frame = Frame {
            number: info.number,
            body: Vec::new(),
        };
        assert_eq!(
            ToMonitor::decode(&frame),
            Err(FrameError::UnknownMessage(info.number))
        );
        assert!(
            LoginPhase::ALL
                .iter()
                .all(|phase| !permitted(*phase, info.number))
        );
    }
}

#[test]
fn the_table_is_ascending() {
    assert!(
        MESSAGES
            .windows(2)
            .all(|pair| pair[0].number < pair[1].number)
    );
}

/// The whole matrix of 256 numbers × phases.
#[test]
fn permits_are_what_they_were_decided_to_be() {
    let mut table = String::new();
    for phase in LoginPhase::ALL {
        let names: Vec<_> = (0..=255)
            .filter(|number| permitted(phase, *number))
            .map(|number| message::info(number).unwrap().name)
            .collect();
        table.push_str(&format!("{phase:?}: {}\n", names.join(" ")));
    }
    assert_eq!(
        table,
        "KeyExchange: Log ChooseGroup SignExchangeHash GssExchange\n\
         BeforeUser: Log User\n\
         Authenticating: Log AuthNone AuthPassword KbdintStart KeyQuery KeyVerify AuthOther HostbasedVerify GssapiStart GssapiKeyex\n\
         Prompting: Log AuthNone AuthPassword KbdintStart KbdintRespond KeyQuery KeyVerify AuthOther HostbasedVerify GssapiStart GssapiKeyex\n\
         Exchanging: Log AuthNone AuthPassword KbdintStart KeyQuery KeyVerify AuthOther HostbasedVerify GssapiStart GssapiToken GssapiMic GssapiKeyex\n\
         Authenticated: Log Snapshot\n\
         HandedOver: \n\
         Session: Log ChooseGroup SignExchangeHash GssExchange HostkeysProve PtyAllocate PtyRelease TunnelOpen TrafficReport\n"
    );
}

#[test]
fn news_bytes_are_unambiguous() {
    use roles::ConnectionNews;
    for byte in 0..=255 {
        if let Some(news) = ConnectionNews::from_byte(byte) {
            assert_eq!(news.byte(), byte);
        }
    }
    assert_eq!(ConnectionNews::from_byte(b'z'), None);
}

#[test]
fn reports_are_written_as_a_whole() {
    let session = SessionReport {
        received: u64::MAX,
        sent: u64::MAX,
        rekeys: u32::MAX,
        channels: vec![u64::MAX; roles::COUNTED_CHANNELS.len()],
    };
    let attempts = AttemptsReport {
        counts: vec![u32::MAX; 64],
    };
    assert!(session.encode_frame().len() <= roles::MAX_REPORT_BYTES);
    assert!(attempts.encode_frame().len() <= roles::MAX_REPORT_BYTES);
}
