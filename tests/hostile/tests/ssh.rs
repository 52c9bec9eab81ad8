//! A lying server against the real `fulmar ssh`.

use std::time::Duration;

use hostile::adversary::{Adversary, HostKey, Offer};
use hostile::place::{assert_harmless, client_against, client_at};
use hostile::subject::{Subject, Tcp};
use interop::process::Outcome;
use interop::scratch::Scratch;
use keys::{PrivateKey, SignatureAlgorithm};
use wire::message::{
    ChannelClose, ChannelData, ChannelEof, ChannelExtendedData, ChannelOpen,
    ChannelOpenConfirmation, ChannelRequest, ChannelSuccess, ChannelWindowAdjust, Debug,
    Disconnect, GlobalRequest, RequestSuccess, UserauthBanner, UserauthFailure,
    UserauthInfoRequest, UserauthSuccess,
};
use wire::{NameList, Put, Rest};

const COMMAND: [&str; 2] = ["user@127.0.0.1", "the command"];

/// Text that must be escaped for a terminal.
const ESCAPES: &[u8] = b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b31m\x08\x08\x00\x7f\xff\xfe";

/// Checks that the client ended by itself, and that its output is harmless.
fn failed(outcome: &Outcome) -> String {
    let said = outcome.stderr.text();
    assert_eq!(outcome.status, 255, "{}", outcome.summary());
    assert!(!said.is_empty(), "it says nothing");
    assert_harmless(&said);
    said
}

/// Accepts the client's session channel and its exec request; returns the client's number for the
/// channel.
fn take_session(adversary: &mut Adversary<Tcp>) -> u32 {
    let payload = adversary.expect(90);
    let number = ChannelOpen::decode(&payload)
        .expect("an open")
        .sender_channel;
    adversary.say(&ChannelOpenConfirmation {
        recipient_channel: number,
        sender_channel: 7,
        window: 1 << 20,
        max_packet: 32_768,
        fields: Rest(b""),
    });
    loop {
        let payload = adversary.expect(98);
        let request = ChannelRequest::decode(&payload).expect("a request");
        if request.name == b"exec" {
            assert_eq!(
                request.fields.0,
                [&[0, 0, 0, 11][..], b"the command"].concat()
            );
            if request.want_reply {
                adversary.say(&ChannelSuccess {
                    recipient_channel: number,
                });
            }
            return number;
        }
    }
}

/// Ends a session like an honest server.
fn finish(adversary: &mut Adversary<Tcp>, number: u32, status: u32) {
    adversary.request(number, "exit-status", false, &status.to_be_bytes());
    adversary.say(&ChannelEof {
        recipient_channel: number,
    });
    adversary.say(&ChannelClose {
        recipient_channel: number,
    });
    while adversary.next_payload().is_some() {}
}

#[test]
fn an_honest_server_is_served_honestly() {
    let outcome = client_against(&COMMAND, |adversary| {
        adversary.serve_login();
        let number = take_session(adversary);
        adversary.say(&ChannelData {
            recipient_channel: number,
            data: b"out",
        });
        adversary.say(&ChannelExtendedData {
            recipient_channel: number,
            code: 1,
            data: b"err",
        });
        finish(adversary, number, 7);
    });
    assert_eq!(outcome.status, 7, "{}", outcome.summary());
    assert_eq!(outcome.stdout.head, b"out");
    assert!(outcome.stderr.text().ends_with("err"));
}

#[test]
fn odd_version_lines_end_the_client_with_a_message() {
    let mut lines: Vec<Vec<u8>> = [
        &b""[..],
        b"\0",
        b"SSH-1.5-old\r\n",
        b"SSH-2.1-x\r\n",
        b"SSH-\r\n",
        b"SSH-2.0\r\n",
        b"SSH-2.0-a\0b\r\n",
        b"SSH-2.0-\x1b[31mred\r\n",
        b"SSH-2.0-\xff\xfe\r\n",
        b"SSH-2.0-x\r\n\0\0\0\0",
        b"SSH-2.0-x\r\n\xff\xff\xff\xff",
        b"SSH-2.0-x\r\n\0\0\0\x0c\x0a\x14",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"220 mail ESMTP\r\n",
        b"\x1b[2J\x1b]0;owned\x07\r\n",
    ]
    .iter()
    .map(|line| line.to_vec())
    .collect();
    lines.push([&b"SSH-2.0-"[..], &[b'a'; 300], b"\r\n"].concat());
    lines.push(vec![b'x'; 100_000]);
    lines.push([&vec![b'x'; 9_000][..], b"\r\n"].concat());
    lines.push(b"spam\r\n".repeat(1_100));
    lines.push(b"\n".repeat(100_000));
    for line in lines {
        let outcome = client_against(&COMMAND, |adversary| {
            adversary.send_bytes(&line);
        });
        failed(&outcome);
        assert!(outcome.stdout.head.is_empty());
    }
}

/// What the client says at FATAL, ERROR and INFO about a server that behaves like this before its version line; the
/// port is shown as `N`.
fn told_by_level(script: fn(&mut Adversary<Tcp>)) -> [String; 3] {
    ["FATAL", "ERROR", "INFO"].map(|level| {
        let level = format!("-oLogLevel={level}");
        let arguments = [&level, "-oConnectTimeout=1", COMMAND[0], COMMAND[1]];
        let outcome = client_against(&arguments, script);
        assert_eq!(outcome.status, 255, "{}", outcome.summary());
        let said = outcome.stderr.text();
        let words = said.split_inclusive(['\n', ' ', ':']).map(|word| {
            let end = word.trim_start_matches(|c: char| c.is_ascii_digit());
            match word.starts_with(|c: char| c.is_ascii_digit()) && !end.starts_with('.') {
                true if word.len() - end.len() > 1 => format!("N{end}"),
                _ => word.to_owned(),
            }
        });
        words.collect()
    })
}

/// Reads until the client is silent or gone.
fn hear(adversary: &mut Adversary<Tcp>) {
    while adversary.subject.collect().is_some() {}
}

/// As OpenSSH 10.6 tells it.
#[test]
fn the_end_before_the_version_line_has_the_words_and_levels_of_openssh() {
    const MOMENT: Duration = Duration::from_millis(300);
    let closed = told_by_level(|adversary| {
        adversary.read_line();
        // Unread bytes would turn the end into a reset.
        adversary.subject.collect_within(MOMENT);
    });
    assert_eq!(closed, ["", "", "Connection closed by 127.0.0.1 port N\n"]);
    let reset = told_by_level(|_| std::thread::sleep(MOMENT));
    let error = "kex_exchange_identification: read: Connection reset by peer\n";
    let info = "Connection reset by 127.0.0.1 port N\n";
    assert_eq!(reset, ["", error, &format!("{error}{info}")]);
    let silent = told_by_level(hear);
    let error = "Connection timed out during banner exchange\n";
    let info = "Connection to 127.0.0.1 port N timed out\n";
    assert_eq!(silent, ["", error, &format!("{error}{info}")]);
    let old = told_by_level(|adversary| {
        adversary.send_bytes(b"SSH-1.5-old\r\n");
        hear(adversary);
    });
    let error = "Protocol major versions differ: 2 vs. 1\n";
    let info = "banner exchange: Connection to 127.0.0.1 port N: could not read protocol version\n";
    assert_eq!(old, ["", error, &format!("{error}{info}")]);
    let odd = told_by_level(|adversary| {
        adversary.send_bytes(b"SSH-9-x\r\n");
        hear(adversary);
    });
    let error = "Bad remote protocol version identification: 'SSH-9-x'\n";
    let info = "banner exchange: Connection to 127.0.0.1 port N: invalid format\n";
    assert_eq!(odd, ["", error, &format!("{error}{info}")]);
}

#[test]
fn text_before_the_version_line_is_passed_over_within_its_limits() {
    let outcome = client_against(&COMMAND, |adversary| {
        adversary.send_bytes(&b"a word before \x1b[2J\r\n".repeat(1_000));
        adversary.serve_login();
        let number = take_session(adversary);
        finish(adversary, number, 0);
    });
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    assert_harmless(&outcome.stderr.text());
}

#[test]
fn escape_codes_of_a_server_are_shown_and_not_obeyed() {
    let outcome = client_against(&["-v", "user@127.0.0.1", "the command"], |adversary| {
        adversary.send_bytes(&[ESCAPES, b"\r\n"].concat());
        adversary.exchange(&Offer::default());
        adversary.say(&Debug {
            always_display: true,
            text: ESCAPES,
            language: b"",
        });
        adversary.accept_service();
        adversary.say(&UserauthBanner {
            text: ESCAPES,
            language: ESCAPES,
        });
        adversary.expect(50);
        adversary.say(&UserauthSuccess {});
        adversary.say(&Debug {
            always_display: true,
            text: ESCAPES,
            language: ESCAPES,
        });
        adversary.say(&GlobalRequest {
            name: ESCAPES,
            want_reply: false,
            fields: Rest(ESCAPES),
        });
        let number = take_session(adversary);
        adversary.request(number, "exit-signal", false, &{
            let mut fields = Vec::new();
            fields.put_string(b"\x1b[31m");
            fields.put_bool(true);
            fields.put_string(ESCAPES);
            fields.put_string(ESCAPES);
            fields
        });
        adversary.say(&Disconnect {
            reason: 2,
            description: ESCAPES,
            language: b"",
        });
    });
    let said = outcome.stderr.text();
    assert_harmless(&said);
    assert!(said.contains("owned"), "the text itself is shown: {said:?}");
}

#[test]
fn a_goodbye_with_escape_codes_at_any_stage_is_harmless() {
    for stage in 0..3 {
        let outcome = client_against(&COMMAND, |adversary| {
            adversary.hello();
            if stage >= 1 {
                adversary.kexinit(&Offer::default());
                adversary.expect_kexinit();
            }
            if stage >= 2 {
                adversary.agree();
                adversary.newkeys();
                adversary.expect_newkeys();
            }
            adversary.say(&Disconnect {
                reason: 11,
                description: ESCAPES,
                language: ESCAPES,
            });
        });
        let said = failed(&outcome);
        assert!(said.contains("owned"), "{said:?}");
    }
}

#[test]
fn a_refused_channel_and_refused_methods_are_told_harmlessly() {
    let outcome = client_against(&COMMAND, |adversary| {
        adversary.serve_login();
        let payload = adversary.expect(90);
        let number = ChannelOpen::decode(&payload)
            .expect("an open")
            .sender_channel;
        adversary.say(&wire::message::ChannelOpenFailure {
            recipient_channel: number,
            reason: u32::MAX,
            description: ESCAPES,
            language: ESCAPES,
        });
        while adversary.next_payload().is_some() {}
    });
    failed(&outcome);
    let outcome = client_against(&COMMAND, |adversary| {
        adversary.exchange(&Offer::default());
        adversary.accept_service();
        while let Some(payload) = adversary.next_payload() {
            if payload.first() == Some(&50) {
                adversary.say(&UserauthFailure {
                    methods: NameList::new("none-of-yours,$(id),%s%n").expect("names"),
                    partial_success: true,
                });
            }
        }
    });
    failed(&outcome);
}

#[test]
fn a_login_that_needed_no_proof_is_told_to_the_user() {
    let arguments = ["-oPubkeyAuthentication=no", "user@127.0.0.1", "the command"];
    let outcome = client_against(&arguments, |adversary| {
        adversary.exchange(&Offer::default());
        adversary.accept_service();
        let payload = adversary.expect(50);
        let request = wire::message::UserauthRequest::decode(&payload).expect("a request");
        assert_eq!(request.method, b"none", "the question that proves nothing");
        adversary.say(&UserauthSuccess {});
        let number = take_session(adversary);
        finish(adversary, number, 0);
    });
    assert_eq!(outcome.status, 0);
    let said = outcome.stderr.text();
    assert!(said.contains("without any proof"), "{said:?}");
}

#[test]
fn a_server_that_grants_what_was_not_asked_is_left() {
    // Before the service, before any request, and to a query for a key.
    let outcome = client_against(&COMMAND, |adversary| {
        adversary.exchange(&Offer::default());
        adversary.say(&UserauthSuccess {});
        while adversary.next_payload().is_some() {}
    });
    failed(&outcome);
    let outcome = client_against(&COMMAND, |adversary| {
        adversary.exchange(&Offer::default());
        adversary.expect(5);
        adversary.say(&UserauthSuccess {});
        while adversary.next_payload().is_some() {}
    });
    failed(&outcome);
    let outcome = client_against(&COMMAND, |adversary| {
        adversary.exchange(&Offer::default());
        adversary.accept_service();
        adversary.expect(50);
        for _ in 0..2 {
            adversary.say(&UserauthFailure {
                methods: NameList::new("password").expect("names"),
                partial_success: false,
            });
        }
        while adversary.next_payload().is_some() {}
    });
    failed(&outcome);
}

#[test]
fn a_server_out_of_order_gets_no_request_for_login() {
    for payload in [
        vec![52],
        vec![
            6, 0, 0, 0, 12, b's', b's', b'h', b'-', b'u', b's', b'e', b'r', b'a', b'u', b't', b'h',
        ],
        vec![
            51, 0, 0, 0, 8, b'p', b'a', b's', b's', b'w', b'o', b'r', b'd', 0,
        ],
        vec![7, 0, 0, 0, 0],
        vec![90, 0, 0, 0, 0],
    ] {
        let outcome = client_against(&COMMAND, |adversary| {
            adversary.hello();
            adversary.kexinit(&Offer::lax());
            adversary.expect_kexinit();
            adversary.send(&payload);
            let after = adversary.rest();
            assert!(
                after
                    .iter()
                    .all(|each| !matches!(each.first(), Some(5 | 50))),
                "{after:?}"
            );
        });
        failed(&outcome);
    }
}

#[test]
fn a_host_key_that_changes_at_a_rekey_ends_the_client() {
    let outcome = client_against(&COMMAND, |adversary| {
        adversary.serve_login();
        let _ = take_session(adversary);
        adversary.rekey_with_another_host_key();
        while adversary.next_payload().is_some() {}
    });
    assert!(
        failed(&outcome).contains("host key changed"),
        "{}",
        outcome.summary()
    );
}

#[test]
fn a_host_key_other_than_the_known_one_gets_no_login() {
    let scratch = Scratch::new();
    let serve = |adversary: &mut Adversary<Tcp>| {
        adversary.serve_login();
        let number = take_session(adversary);
        finish(adversary, number, 0);
    };
    let alias = ["-oHostKeyAlias=the-host", "user@127.0.0.1", "the command"];
    assert_eq!(client_at(&scratch, &alias, serve).status, 0);
    let outcome = client_at(&scratch, &alias, |adversary| {
        adversary.host_key = HostKey {
            private: PrivateKey::from_ed25519_seed(&[8; 32]),
            algorithm: SignatureAlgorithm::Ed25519,
        };
        adversary.hello();
        adversary.kexinit(&Offer::default());
        adversary.expect_kexinit();
        adversary.agree();
        let after = adversary.rest();
        assert!(
            after
                .iter()
                .all(|each| !matches!(each.first(), Some(5 | 21 | 50))),
            "{after:?}"
        );
    });
    failed(&outcome);
}

#[test]
fn host_keys_that_a_server_announces_cannot_forge_lines_of_known_hosts() {
    let scratch = Scratch::new();
    let arguments = ["-oUpdateHostKeys=yes", "user@127.0.0.1", "the command"];
    let outcome = client_at(&scratch, &arguments, |adversary| {
        adversary.serve_login();
        let honest = adversary.host_key.private.public().blob();
        let stranger = PrivateKey::from_ed25519_seed(&[8; 32]).public().blob();
        let mut fields = Vec::new();
        for key in [
            &honest[..],
            &stranger,
            b"x\n* ssh-ed25519 AAAA",
            b"",
            &[0; 60_000],
        ] {
            fields.put_string(key);
        }
        adversary.say(&GlobalRequest {
            name: b"hostkeys-00@openssh.com",
            want_reply: false,
            fields: Rest(&fields),
        });
        let number = take_session(adversary);
        // An invalid proof, if the client asks for one.
        adversary.say(&RequestSuccess {
            fields: Rest(&[0, 0, 0, 1, 9]),
        });
        finish(adversary, number, 0);
    });
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    let known = std::fs::read_to_string(scratch.join("known_hosts")).expect("known_hosts");
    assert_eq!(known.lines().count(), 1, "{known:?}");
}

#[test]
fn channels_that_a_server_opens_are_refused() {
    let outcome = client_against(&COMMAND, |adversary| {
        adversary.serve_login();
        let number = take_session(adversary);
        for (index, kind) in [
            "session",
            "x11",
            "auth-agent@openssh.com",
            "forwarded-tcpip",
            "forwarded-streamlocal@openssh.com",
            "direct-tcpip",
            "direct-udp@fulmar.invalid",
            "forwarded-udp@fulmar.invalid",
            "tun@openssh.com",
            "",
        ]
        .into_iter()
        .enumerate()
        {
            let mut fields = Vec::new();
            fields.put_string(b"127.0.0.1");
            fields.put_u32(22);
            fields.put_string(b"127.0.0.1");
            fields.put_u32(1);
            let sender_channel = 100 + u32::try_from(index).unwrap_or(0);
            adversary.say(&ChannelOpen {
                kind: kind.as_bytes(),
                sender_channel,
                window: 1 << 20,
                max_packet: 32_768,
                fields: Rest(&fields),
            });
            let refusal = adversary.expect(92);
            let refusal = wire::message::ChannelOpenFailure::decode(&refusal).expect("a refusal");
            assert_eq!(refusal.recipient_channel, sender_channel, "{kind}");
        }
        finish(adversary, number, 3);
    });
    assert_eq!(outcome.status, 3, "{}", outcome.summary());
}

/// The client has asked for a listener. Its channels are refused before the server has agreed, for
/// other ports, and after it has refused.
#[test]
fn channels_of_a_listener_that_was_not_granted_are_refused() {
    let command = ["-R", "2345:127.0.0.1:1", "user@127.0.0.1", "the command"];
    let outcome = client_against(&command, |adversary| {
        adversary.serve_login();
        let number = take_session(adversary);
        let mut opened = 100;
        let mut refuses = |adversary: &mut Adversary<Tcp>, port| {
            opened += 1;
            let mut fields = Vec::new();
            fields.put_string(b"localhost");
            fields.put_u32(port);
            fields.put_string(b"127.0.0.1");
            fields.put_u32(1);
            adversary.say(&ChannelOpen {
                kind: b"forwarded-tcpip",
                sender_channel: opened,
                window: 1 << 20,
                max_packet: 32_768,
                fields: Rest(&fields),
            });
            let refusal = adversary.expect(92);
            let refusal = wire::message::ChannelOpenFailure::decode(&refusal).expect("a refusal");
            assert_eq!(refusal.recipient_channel, opened, "{port}");
        };
        for port in [2345, 0, 22, u32::MAX] {
            refuses(adversary, port);
        }
        adversary.say(&wire::message::RequestFailure {});
        refuses(adversary, 2345);
        finish(adversary, number, 3);
    });
    assert_eq!(outcome.status, 3, "{}", outcome.summary());
}

#[test]
fn lies_about_channels_end_the_client() {
    let lies: [fn(&mut Adversary<Tcp>, u32); 6] = [
        |adversary, number| {
            adversary.say(&ChannelData {
                recipient_channel: number,
                data: &vec![0; 100_000],
            });
        },
        |adversary, number| {
            for _ in 0..2 {
                adversary.say(&ChannelWindowAdjust {
                    recipient_channel: number,
                    bytes: u32::MAX,
                });
            }
        },
        |adversary, number| {
            adversary.say(&ChannelExtendedData {
                recipient_channel: number,
                code: 9,
                data: &vec![0; 100_000],
            });
        },
        |adversary, number| {
            adversary.say(&ChannelData {
                recipient_channel: number + 1,
                data: b"x",
            });
        },
        |adversary, _| {
            adversary.kexinit(&Offer::default());
            adversary.kexinit(&Offer::default());
        },
        |adversary, _| {
            adversary.send_bytes(&[0xff; 512]);
        },
    ];
    for lie in lies {
        let outcome = client_against(&COMMAND, |adversary| {
            adversary.serve_login();
            let number = take_session(adversary);
            lie(adversary, number);
            while adversary.subject.collect().is_some() {}
        });
        failed(&outcome);
    }
}

#[test]
fn odd_but_harmless_sessions_come_to_an_end() {
    // Data of no bytes or no known type, answers to nothing, unknown requests, and no status at all.
    let outcome = client_against(&COMMAND, |adversary| {
        adversary.serve_login();
        let number = take_session(adversary);
        for _ in 0..5_000 {
            adversary.say(&ChannelData {
                recipient_channel: number,
                data: b"",
            });
            adversary.say(&ChannelExtendedData {
                recipient_channel: number,
                code: 9,
                data: b"of no known type",
            });
            adversary.say(&ChannelSuccess {
                recipient_channel: number,
            });
            adversary.say(&RequestSuccess { fields: Rest(b"") });
        }
        for name in ["no-such-request", "pty-req", "exec", "exit-status"] {
            let fields: &[u8] = match name {
                "exit-status" => &[0, 0, 0, 5],
                "exec" => b"\0\0\0\x02id",
                "pty-req" => &[0; 24],
                _ => b"",
            };
            adversary.request(number, name, true, fields);
            adversary.expect(if name == "exit-status" { 99 } else { 100 });
        }
        adversary.say(&ChannelData {
            recipient_channel: number,
            data: b"late",
        });
        finish(adversary, number, 5);
    });
    assert_eq!(
        (outcome.status, &outcome.stdout.head[..]),
        (5, &b"late"[..])
    );
    let outcome = client_against(&COMMAND, |adversary| {
        adversary.serve_login();
        let number = take_session(adversary);
        adversary.say(&ChannelClose {
            recipient_channel: number,
        });
        while adversary.next_payload().is_some() {}
    });
    assert_eq!(
        outcome.status,
        255,
        "no status is a failure: {}",
        outcome.summary()
    );
}

#[test]
fn a_prompt_is_refused_in_batch_mode_and_its_text_is_harmless() {
    let outcome = client_against(&COMMAND, |adversary| {
        adversary.exchange(&Offer::default());
        adversary.accept_service();
        while let Some(payload) = adversary.next_payload() {
            let Some(50) = payload.first() else { continue };
            let request = wire::message::UserauthRequest::decode(&payload).expect("a request");
            assert!(
                !matches!(request.method, b"password"),
                "a password leaves in batch mode"
            );
            if request.method == b"keyboard-interactive" {
                let mut prompts = Vec::new();
                prompts.put_string(ESCAPES);
                prompts.put_bool(true);
                adversary.say(&UserauthInfoRequest {
                    name: ESCAPES,
                    instruction: ESCAPES,
                    language: b"",
                    count: 1,
                    prompts: Rest(&prompts),
                });
            } else {
                adversary.say(&UserauthFailure {
                    methods: NameList::new("keyboard-interactive,password").expect("names"),
                    partial_success: false,
                });
            }
        }
    });
    failed(&outcome);
}

#[test]
fn a_server_that_always_wants_more_is_left_in_the_end() {
    let outcome = client_against(&COMMAND, |adversary| {
        adversary.exchange(&Offer::default());
        adversary.accept_service();
        let mut answers = 0;
        while let Some(payload) = adversary.next_payload() {
            if payload.first() == Some(&50) {
                answers += 1;
                assert!(answers < 1_000, "it tries for ever");
                adversary.say(&UserauthFailure {
                    methods: NameList::new("publickey,password,keyboard-interactive,none")
                        .expect("names"),
                    partial_success: true,
                });
            }
        }
    });
    failed(&outcome);
}
