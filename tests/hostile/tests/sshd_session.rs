//! A lying client against the real `fulmar sshd`, with every process that it starts: after login.

use compress::PacketCompressor;
use std::time::Instant;

use hostile::adversary::{Adversary, Offer};
use hostile::place::{Server, user_key};
use hostile::subject::{Subject, Tcp};
use keys::PrivateKey;
use wire::message::{
    ChannelData, ChannelOpenConfirmation, ChannelSuccess, ChannelWindowAdjust, GlobalRequest, Ping,
    RequestSuccess,
};
use wire::{Put, Rest};

fn string(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_string(text);
    out
}

#[test]
fn a_terminal_takes_any_modes_and_any_size() {
    let server = Server::start(&[]);
    let mut adversary = server.logged_in();
    let channel = adversary.open_session(0);
    let mut modes = Vec::new();
    for index in 0..800u32 {
        modes.put_u8(u8::try_from(1 + index % 159).unwrap_or(1));
        modes.put_u32(if index % 2 == 0 { u32::MAX } else { 0 });
    }
    let mut fields = string(b"xterm");
    for size in [u32::MAX, u32::MAX, u32::MAX, 0] {
        fields.put_u32(size);
    }
    fields.put_string(&modes);
    adversary.request(channel, "pty-req", true, &fields);
    adversary.expect(99);
    for size in [0, u32::MAX, 80] {
        let mut fields = Vec::new();
        for _ in 0..4 {
            fields.put_u32(size);
        }
        adversary.request(channel, "window-change", false, &fields);
    }
    adversary.request(channel, "exec", true, &string(b"stty size; echo alive"));
    let out = String::from_utf8_lossy(&adversary.output()).into_owned();
    assert!(out.contains("alive"), "{out:?}");
    drop(adversary);
    server.leaves_nothing_behind();
}

#[test]
fn no_variable_of_a_client_reaches_a_command_unless_configured() {
    let server = Server::start(&[]);
    let mut adversary = server.logged_in();
    let channel = adversary.open_session(0);
    for name in [
        "LD_PRELOAD",
        "PATH",
        "GIT_SSH_COMMAND",
        "LANG",
        "A=B",
        "",
        "HOME\0X",
        "ENV",
    ] {
        let fields = [string(name.as_bytes()), string(b"/from/the/adversary")].concat();
        adversary.request(channel, "env", false, &fields);
    }
    adversary.request(channel, "exec", true, &string(b"env"));
    let out = String::from_utf8_lossy(&adversary.output()).into_owned();
    assert!(out.contains("HOME="), "{out:?}");
    assert!(!out.contains("/from/the/adversary"), "{out:?}");
}

#[test]
fn a_channel_runs_one_program() {
    let server = Server::start(&[]);
    let mut adversary = server.logged_in();
    let channel = adversary.open_session(0);
    adversary.request(channel, "exec", true, &string(b"cat; echo end"));
    adversary.expect(99);
    for (name, fields) in [
        ("exec", string(b"echo twice")),
        ("shell", Vec::new()),
        ("subsystem", string(b"sftp")),
    ] {
        adversary.request(channel, name, true, &fields);
        adversary.expect(100);
    }
    adversary.say(&wire::message::ChannelEof {
        recipient_channel: channel,
    });
    assert_eq!(adversary.output(), b"end\n");
}

#[test]
fn signatures_for_hostkeys_prove_come_in_bounded_number() {
    let server = Server::start(&[]);
    let mut adversary = server.logged_in();
    let announced = adversary.expect(80);
    let request = GlobalRequest::decode(&announced).expect("a request");
    assert_eq!(request.name, b"hostkeys-00@openssh.com");
    let fields = request.fields.0.to_vec();
    let mut signed = 0u128;
    let mut asked = 0u128;
    let start = Instant::now();
    for _ in 0..3_000 {
        asked += 1;
        let sent = adversary.say(&GlobalRequest {
            name: b"hostkeys-prove-00@openssh.com",
            want_reply: true,
            fields: Rest(&fields),
        });
        if !sent {
            break;
        }
        match adversary.next_payload() {
            Some(payload) if payload.first() == Some(&81) => signed += 1,
            Some(_) => {}
            None => break,
        }
    }
    assert!(signed >= 1, "an honest question is answered");
    // Number of signatures that are permitted at once; a further one is permitted every five
    // milliseconds. On a machine so busy that an answer takes longer, all are permitted.
    let permitted = 256 + start.elapsed().as_millis() / 5 + 1;
    assert!(
        signed <= permitted,
        "{signed} signatures for {asked} questions, {permitted} permitted"
    );
    server.still_serves();
}

#[test]
fn proofs_are_given_for_host_keys_only() {
    let server = Server::start(&[]);
    let mut adversary = server.logged_in();
    let stranger = PrivateKey::from_ed25519_seed(&[22; 32]).public().blob();
    adversary.say(&GlobalRequest {
        name: b"hostkeys-prove-00@openssh.com",
        want_reply: true,
        fields: Rest(&string(&stranger)),
    });
    let answer = loop {
        match adversary.next_payload() {
            Some(payload) if matches!(payload.first(), Some(81 | 82)) => break Some(payload),
            Some(_) => {}
            None => break None,
        }
    };
    assert!(answer.is_none_or(|payload| payload == [82]));
}

#[test]
fn what_is_carried_out_is_answered_with_success() {
    let server = Server::start(&[]);
    let mut adversary = server.logged_in();
    // A request without keys: an empty proof.
    for name in [
        "hostkeys-prove-00@openssh.com",
        "no-more-sessions@openssh.com",
    ] {
        adversary.say(&GlobalRequest {
            name: name.as_bytes(),
            want_reply: true,
            fields: Rest(b""),
        });
        assert!(of_two(&mut adversary, 81, 82), "{name}");
    }
}

/// Every request that forwards connections.
fn forwardings(adversary: &mut Adversary<Tcp>) -> Vec<(&'static str, bool)> {
    let mut granted = Vec::new();
    let tcp = {
        let mut fields = string(b"127.0.0.1");
        fields.put_u32(22);
        fields.put_string(b"127.0.0.1");
        fields.put_u32(1);
        fields
    };
    let unix = [string(b"/run/nothing"), string(b""), vec![0; 4]].concat();
    let mut tun = Vec::new();
    tun.put_u32(1);
    tun.put_u32(0x7fff_ffff);
    for (number, (kind, fields)) in [
        ("direct-tcpip", &tcp),
        ("direct-streamlocal@openssh.com", &unix),
        ("tun@openssh.com", &tun),
        ("tun-segments@fulmar.invalid", &tun),
        ("x11", &tcp),
        ("auth-agent@openssh.com", &Vec::new()),
        ("forwarded-tcpip", &tcp),
        ("direct-udp@fulmar.invalid", &tcp),
        ("forwarded-udp@fulmar.invalid", &tcp),
    ]
    .into_iter()
    .enumerate()
    {
        adversary.say(&wire::message::ChannelOpen {
            kind: kind.as_bytes(),
            sender_channel: u32::try_from(number).unwrap_or(0),
            window: 1 << 20,
            max_packet: 32_768,
            fields: Rest(fields),
        });
        granted.push((kind, of_two(adversary, 91, 92)));
    }
    let path = std::env::temp_dir().join(format!("adversary-{}", std::process::id()));
    for (name, fields) in [
        ("tcpip-forward", [string(b""), vec![0; 4]].concat()),
        (
            "udp-forward@fulmar.invalid",
            [string(b""), vec![0; 4]].concat(),
        ),
        (
            "streamlocal-forward@openssh.com",
            string(path.as_os_str().as_encoded_bytes()),
        ),
    ] {
        adversary.say(&GlobalRequest {
            name: name.as_bytes(),
            want_reply: true,
            fields: Rest(&fields),
        });
        granted.push((name, of_two(adversary, 81, 82)));
    }
    let channel = adversary.open_session(99);
    let x11 = |cookie: &[u8]| {
        let mut fields = vec![0];
        fields.put_string(b"MIT-MAGIC-COOKIE-1");
        fields.put_string(cookie);
        fields.put_u32(0);
        fields
    };
    for (what, name, fields) in [
        ("newline in a cookie", "x11-req", x11(b"00\nxauth add")),
        ("x11-req", "x11-req", x11(b"0123456789abcdef")),
        ("agent-req", "agent-req", Vec::new()),
        ("auth-agent-req", "auth-agent-req@openssh.com", Vec::new()),
    ] {
        adversary.request(channel, name, true, &fields);
        granted.push((what, of_two(adversary, 99, 100)));
    }
    let _ = std::fs::remove_file(path);
    granted
}

/// Returns which of two answers arrives.
fn of_two(adversary: &mut Adversary<Tcp>, yes: u8, no: u8) -> bool {
    loop {
        let payload = adversary.next_payload().expect("an answer");
        match payload.first() {
            Some(number) if *number == yes => return true,
            Some(number) if *number == no => return false,
            _ => {}
        }
    }
}

#[test]
fn every_forwarding_is_refused_under_disable_forwarding_and_under_restrict() {
    let permitted = [
        "AllowTcpForwarding yes",
        "X11Forwarding yes",
        "PermitTunnel yes",
    ];
    let mut disabled = permitted.to_vec();
    disabled.push("DisableForwarding yes");
    for (options, lines) in [("", &disabled[..]), ("restrict ", &permitted)] {
        let server = Server::with_key_options(options, lines);
        let mut adversary = server.logged_in();
        for (what, granted) in forwardings(&mut adversary) {
            assert!(!granted, "{what} under {options:?} {lines:?}");
        }
    }
    // Without them the same requests are granted; no device is made here.
    let server = Server::with_key_options("", &permitted[..2]);
    let granted = forwardings(&mut server.logged_in());
    for (what, expected) in [
        ("tcpip-forward", true),
        ("udp-forward@fulmar.invalid", true),
        ("streamlocal-forward@openssh.com", true),
        ("newline in a cookie", false),
        ("x11-req", true),
        ("x11", false),
        ("forwarded-tcpip", false),
        ("tun@openssh.com", false),
    ] {
        assert!(granted.contains(&(what, expected)), "{what}: {granted:?}");
    }
}

#[test]
fn requests_to_listen_are_answered_in_order_whatever_they_hold() {
    let server = Server::with_key_options("", &[]);
    let mut liar = server.logged_in();
    let tcp = |address: &[u8], port: u32| {
        let mut fields = string(address);
        fields.put_u32(port);
        fields
    };
    // The user of the login may write there.
    let path = string(format!("/tmp/fulmar-adversary-{}.sock", server.daemon.port).as_bytes());
    let (listen, cancel) = ("tcpip-forward", "cancel-tcpip-forward");
    let unix = "streamlocal-forward@openssh.com";
    let unix_cancel = "cancel-streamlocal-forward@openssh.com";
    let long = string(&[b'/'; 4000]);
    let udp = "udp-forward@fulmar.invalid";
    let udp_cancel = "cancel-udp-forward@fulmar.invalid";
    let cases: &[(&str, Vec<u8>, bool)] = &[
        (listen, tcp(b"localhost", 0), true),
        // Only a requested listener can be cancelled.
        (cancel, tcp(b"localhost", 1), false),
        (cancel, tcp(b"", 0), false),
        (listen, tcp(b"localhost", 65_536), false),
        (listen, tcp(b"local\0host", 0), false),
        (listen, tcp(b"\xff", 0), false),
        (listen, Vec::new(), false),
        (listen, [tcp(b"localhost", 0), vec![0]].concat(), false),
        (udp, tcp(b"localhost", 0), true),
        // The listener of TCP is not that of UDP, and neither has this port.
        (udp_cancel, tcp(b"localhost", 1), false),
        (udp, tcp(b"localhost", 65_536), false),
        (udp, tcp(b"local\0host", 0), false),
        (udp, tcp(b"", 22), false),
        (udp, Vec::new(), false),
        (udp, [tcp(b"localhost", 0), vec![0]].concat(), false),
        (udp_cancel, Vec::new(), false),
        (unix, path.clone(), true),
        (unix, path.clone(), false),
        (unix, string(b""), false),
        (unix, string(b"/no/such/folder/s"), false),
        (unix, long, false),
        (unix_cancel, string(b"/other"), false),
        (unix_cancel, path.clone(), true),
        (unix_cancel, path, false),
    ];
    // All at once; a request without a reply between them has none.
    for (name, fields, _) in cases {
        for want_reply in [false, true] {
            let (name, fields) = match want_reply {
                true => (*name, fields.as_slice()),
                false => (unix_cancel, &string(b"/nothing")[..]),
            };
            liar.say(&GlobalRequest {
                name: name.as_bytes(),
                want_reply,
                fields: Rest(fields),
            });
        }
    }
    for (name, fields, granted) in cases {
        assert_eq!(of_two(&mut liar, 81, 82), *granted, "{name} {fields:?}");
    }
    let channel = liar.open_session(0);
    liar.request(channel, "exec", true, &string(b"true"));
    liar.expect(99);
}

#[test]
fn a_restricted_key_has_no_terminal() {
    let server = Server::with_key_options("restrict ", &[]);
    let mut adversary = server.logged_in();
    let channel = adversary.open_session(0);
    let mut fields = string(b"xterm");
    fields.extend_from_slice(&[0; 16]);
    fields.put_string(b"");
    adversary.request(channel, "pty-req", true, &fields);
    adversary.expect(100);
}

#[test]
fn a_forced_command_runs_whatever_is_asked_for() {
    let server =
        Server::with_key_options("command=\"echo forced\" ", &["Subsystem sftp /bin/false"]);
    let file = server.daemon.scratch().join("not-forced");
    let mut adversary = server.logged_in();
    for (number, (name, fields)) in [
        (
            "exec",
            string(format!("touch {}", file.display()).as_bytes()),
        ),
        ("shell", Vec::new()),
        ("subsystem", string(b"sftp")),
    ]
    .into_iter()
    .enumerate()
    {
        let number = u32::try_from(number).unwrap_or(0);
        let channel = adversary.open_session(number);
        adversary.request(channel, name, true, &fields);
        assert_eq!(
            String::from_utf8_lossy(&adversary.output()),
            "forced\n",
            "{name}"
        );
        adversary.say(&wire::message::ChannelClose {
            recipient_channel: channel,
        });
    }
    assert!(!file.exists());
}

#[test]
fn lies_on_a_live_session_end_the_connection_and_its_processes() {
    let server = Server::start(&[]);
    let lies: [fn(&mut Adversary<Tcp>, u32); 7] = [
        |adversary, channel| {
            for _ in 0..2 {
                adversary.say(&ChannelWindowAdjust {
                    recipient_channel: channel,
                    bytes: u32::MAX,
                });
            }
        },
        |adversary, channel| {
            adversary.say(&ChannelData {
                recipient_channel: channel,
                data: &vec![0; 100_000],
            });
        },
        |adversary, _| {
            adversary.say(&ChannelData {
                recipient_channel: 12_345,
                data: b"x",
            });
        },
        |adversary, _| {
            adversary.kexinit(&Offer::default());
            adversary.kexinit(&Offer::default());
        },
        |adversary, _| {
            adversary.send(&[52]);
        },
        |adversary, _| {
            adversary.send_bytes(&[0xff; 4096]);
        },
        |adversary, channel| {
            adversary.say(&ChannelOpenConfirmation {
                recipient_channel: channel,
                sender_channel: 0,
                window: 0,
                max_packet: 0,
                fields: Rest(b""),
            });
        },
    ];
    for (index, lie) in lies.into_iter().enumerate() {
        let mut adversary = server.logged_in();
        let channel = adversary.open_session(0);
        adversary.request(channel, "exec", true, &string(b"exec sleep 60"));
        adversary.expect(99);
        lie(&mut adversary, channel);
        while adversary.subject.collect().is_some() {}
        assert!(adversary.subject.has_ended(), "lie {index}");
    }
    server.leaves_nothing_behind();
    server.still_serves();
}

#[test]
fn answers_to_nothing_do_not_block_a_session() {
    let server = Server::start(&[]);
    let mut adversary = server.logged_in();
    let channel = adversary.open_session(0);
    for _ in 0..2_000 {
        adversary.say(&RequestSuccess { fields: Rest(b"") });
        adversary.say(&ChannelSuccess {
            recipient_channel: channel,
        });
    }
    adversary.request(channel, "exec", true, &string(b"echo alive"));
    assert_eq!(adversary.output(), b"alive\n");
}

#[test]
fn a_command_that_writes_without_end_waits_for_a_closed_window() {
    let server = Server::start(&[]);
    let mut adversary = server.logged_in();
    adversary.open("session", 0, 100_000, 32_768);
    let confirmation = adversary.expect(91);
    let channel = ChannelOpenConfirmation::decode(&confirmation)
        .expect("confirmed")
        .sender_channel;
    adversary.request(channel, "exec", true, &string(b"cat /dev/zero"));
    let mut got = 0;
    while got < 100_000 {
        let payload = adversary.expect(94);
        got += ChannelData::decode(&payload).expect("data").data.len();
    }
    assert_eq!(got, 100_000);
    // Now it may write nothing; each PONG shows that it has completed another iteration.
    for _ in 0..200 {
        adversary.say(&Ping { data: b"turn" });
        adversary.expect(193);
    }
    server.stays_small();
    drop(adversary);
    server.leaves_nothing_behind();
}

#[test]
fn a_peer_that_inflates_past_the_limit_is_ended() {
    let server = Server::start(&["Compression zstd"]);
    let mut payload = vec![2];
    payload.put_string(&vec![0; 32 << 20]);
    for method in ["zlib@openssh.com", "zstd2@fulmar.invalid"] {
        let mut adversary = server.connect();
        adversary.exchange(&Offer {
            compression: method.into(),
            ..Offer::default()
        });
        adversary.service();
        adversary.login_publickey(server.user.as_bytes(), &user_key());
        let mut small = Vec::new();
        if method.starts_with("zlib") {
            adversary.start_compression();
            compress::Compressor::with_level(9).compress(&payload, &mut small)
        } else {
            adversary.start_zstd();
            compress::ZstdCompressor::new(compress::CompressionSettings::default())
                .compress(&payload, &mut small)
        }
        .expect("compressed");
        adversary.send_deflated_as_is(&small);
        while adversary.subject.collect().is_some() {}
        assert!(adversary.subject.has_ended(), "{method}");
    }
    server.leaves_nothing_behind();
}

#[test]
fn sessions_of_one_connection_have_a_limit() {
    let server = Server::start(&["MaxSessions 3"]);
    let mut adversary = server.logged_in();
    let mut opened = 0;
    for number in 0..10 {
        adversary.open("session", number, 1 << 20, 32_768);
        opened += usize::from(of_two(&mut adversary, 91, 92));
    }
    assert_eq!(opened, 3);
}

#[test]
fn a_process_is_left_behind_by_no_peer_that_vanishes() {
    let server = Server::start(&[]);
    for stage in 0..5 {
        let mut adversary = server.connect();
        if stage >= 1 {
            adversary.hello();
        }
        if stage >= 2 {
            adversary.kexinit(&Offer::default());
            adversary.expect_kexinit();
            adversary.init();
        }
        if stage >= 3 {
            adversary.finish();
            adversary.newkeys();
            adversary.expect_newkeys();
            adversary.service();
        }
        if stage >= 4 {
            adversary.login_publickey(server.user.as_bytes(), &user_key());
            let channel = adversary.open_session(0);
            adversary.request(channel, "exec", true, &string(b"exec sleep 60"));
            adversary.expect(99);
        }
    }
    server.leaves_nothing_behind();
}
