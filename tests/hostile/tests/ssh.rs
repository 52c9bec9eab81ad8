//! A lying server against the real `fulmar ssh`.

use hostile::liar::{HostKey, Liar, Offer};
use hostile::place::{assert_harmless, client_against, client_at};
use hostile::victim::{Tcp, Victim};
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
fn take_session(liar: &mut Liar<Tcp>) -> u32 {
    let payload = liar.expect(90);
    let number = ChannelOpen::decode(&payload)
        .expect("an open")
        .sender_channel;
    liar.say(&ChannelOpenConfirmation {
        recipient_channel: number,
        sender_channel: 7,
        window: 1 << 20,
        max_packet: 32_768,
        fields: Rest(b""),
    });
    loop {
        let payload = liar.expect(98);
        let request = ChannelRequest::decode(&payload).expect("a request");
        if request.name == b"exec" {
            assert_eq!(
                request.fields.0,
                [&[0, 0, 0, 11][..], b"the command"].concat()
            );
            if request.want_reply {
                liar.say(&ChannelSuccess {
                    recipient_channel: number,
                });
            }
            return number;
        }
    }
}

/// Ends a session like an honest server.
fn finish(liar: &mut Liar<Tcp>, number: u32, status: u32) {
    liar.request(number, "exit-status", false, &status.to_be_bytes());
    liar.say(&ChannelEof {
        recipient_channel: number,
    });
    liar.say(&ChannelClose {
        recipient_channel: number,
    });
    while liar.next_payload().is_some() {}
}

#[test]
fn an_honest_server_is_served_honestly() {
    let outcome = client_against(&COMMAND, |liar| {
        liar.serve_login();
        let number = take_session(liar);
        liar.say(&ChannelData {
            recipient_channel: number,
            data: b"out",
        });
        liar.say(&ChannelExtendedData {
            recipient_channel: number,
            code: 1,
            data: b"err",
        });
        finish(liar, number, 7);
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
        let outcome = client_against(&COMMAND, |liar| {
            liar.send_bytes(&line);
        });
        failed(&outcome);
        assert!(outcome.stdout.head.is_empty());
    }
}

#[test]
fn text_before_the_version_line_is_passed_over_within_its_limits() {
    let outcome = client_against(&COMMAND, |liar| {
        liar.send_bytes(&b"a word before \x1b[2J\r\n".repeat(1_000));
        liar.serve_login();
        let number = take_session(liar);
        finish(liar, number, 0);
    });
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    assert_harmless(&outcome.stderr.text());
}

#[test]
fn escape_codes_of_a_server_are_shown_and_not_obeyed() {
    let outcome = client_against(&["-v", "user@127.0.0.1", "the command"], |liar| {
        liar.send_bytes(&[ESCAPES, b"\r\n"].concat());
        liar.exchange(&Offer::default());
        liar.say(&Debug {
            always_display: true,
            text: ESCAPES,
            language: b"",
        });
        liar.accept_service();
        liar.say(&UserauthBanner {
            text: ESCAPES,
            language: ESCAPES,
        });
        liar.expect(50);
        liar.say(&UserauthSuccess {});
        liar.say(&Debug {
            always_display: true,
            text: ESCAPES,
            language: ESCAPES,
        });
        liar.say(&GlobalRequest {
            name: ESCAPES,
            want_reply: false,
            fields: Rest(ESCAPES),
        });
        let number = take_session(liar);
        liar.request(number, "exit-signal", false, &{
            let mut fields = Vec::new();
            fields.put_string(b"\x1b[31m");
            fields.put_bool(true);
            fields.put_string(ESCAPES);
            fields.put_string(ESCAPES);
            fields
        });
        liar.say(&Disconnect {
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
        let outcome = client_against(&COMMAND, |liar| {
            liar.hello();
            if stage >= 1 {
                liar.kexinit(&Offer::default());
                liar.expect_kexinit();
            }
            if stage >= 2 {
                liar.agree();
                liar.newkeys();
                liar.expect_newkeys();
            }
            liar.say(&Disconnect {
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
    let outcome = client_against(&COMMAND, |liar| {
        liar.serve_login();
        let payload = liar.expect(90);
        let number = ChannelOpen::decode(&payload)
            .expect("an open")
            .sender_channel;
        liar.say(&wire::message::ChannelOpenFailure {
            recipient_channel: number,
            reason: u32::MAX,
            description: ESCAPES,
            language: ESCAPES,
        });
        while liar.next_payload().is_some() {}
    });
    failed(&outcome);
    let outcome = client_against(&COMMAND, |liar| {
        liar.exchange(&Offer::default());
        liar.accept_service();
        while let Some(payload) = liar.next_payload() {
            if payload.first() == Some(&50) {
                liar.say(&UserauthFailure {
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
    let outcome = client_against(&arguments, |liar| {
        liar.exchange(&Offer::default());
        liar.accept_service();
        let payload = liar.expect(50);
        let request = wire::message::UserauthRequest::decode(&payload).expect("a request");
        assert_eq!(request.method, b"none", "the question that proves nothing");
        liar.say(&UserauthSuccess {});
        let number = take_session(liar);
        finish(liar, number, 0);
    });
    assert_eq!(outcome.status, 0);
    let said = outcome.stderr.text();
    assert!(said.contains("without any proof"), "{said:?}");
}

#[test]
fn a_server_that_grants_what_was_not_asked_is_left() {
    // Before the service, before any request, and to a query for a key.
    let outcome = client_against(&COMMAND, |liar| {
        liar.exchange(&Offer::default());
        liar.say(&UserauthSuccess {});
        while liar.next_payload().is_some() {}
    });
    failed(&outcome);
    let outcome = client_against(&COMMAND, |liar| {
        liar.exchange(&Offer::default());
        liar.expect(5);
        liar.say(&UserauthSuccess {});
        while liar.next_payload().is_some() {}
    });
    failed(&outcome);
    let outcome = client_against(&COMMAND, |liar| {
        liar.exchange(&Offer::default());
        liar.accept_service();
        liar.expect(50);
        for _ in 0..2 {
            liar.say(&UserauthFailure {
                methods: NameList::new("password").expect("names"),
                partial_success: false,
            });
        }
        while liar.next_payload().is_some() {}
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
        let outcome = client_against(&COMMAND, |liar| {
            liar.hello();
            liar.kexinit(&Offer::lax());
            liar.expect_kexinit();
            liar.send(&payload);
            let after = liar.rest();
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
    let outcome = client_against(&COMMAND, |liar| {
        liar.serve_login();
        let _ = take_session(liar);
        liar.host_key = HostKey {
            private: PrivateKey::from_ed25519_seed(&[8; 32]),
            algorithm: SignatureAlgorithm::Ed25519,
        };
        liar.kexinit(&Offer::default());
        liar.expect_kexinit();
        liar.agree();
        while liar.next_payload().is_some() {}
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
    let serve = |liar: &mut Liar<Tcp>| {
        liar.serve_login();
        let number = take_session(liar);
        finish(liar, number, 0);
    };
    let alias = ["-oHostKeyAlias=the-host", "user@127.0.0.1", "the command"];
    assert_eq!(client_at(&scratch, &alias, serve).status, 0);
    let outcome = client_at(&scratch, &alias, |liar| {
        liar.host_key = HostKey {
            private: PrivateKey::from_ed25519_seed(&[8; 32]),
            algorithm: SignatureAlgorithm::Ed25519,
        };
        liar.hello();
        liar.kexinit(&Offer::default());
        liar.expect_kexinit();
        liar.agree();
        let after = liar.rest();
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
    let outcome = client_at(&scratch, &arguments, |liar| {
        liar.serve_login();
        let honest = liar.host_key.private.public().blob();
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
        liar.say(&GlobalRequest {
            name: b"hostkeys-00@openssh.com",
            want_reply: false,
            fields: Rest(&fields),
        });
        let number = take_session(liar);
        // An invalid proof, if the client asks for one.
        liar.say(&RequestSuccess {
            fields: Rest(&[0, 0, 0, 1, 9]),
        });
        finish(liar, number, 0);
    });
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    let known = std::fs::read_to_string(scratch.join("known_hosts")).expect("known_hosts");
    assert_eq!(known.lines().count(), 1, "{known:?}");
}

#[test]
fn channels_that_a_server_opens_are_refused() {
    let outcome = client_against(&COMMAND, |liar| {
        liar.serve_login();
        let number = take_session(liar);
        for (index, kind) in [
            "session",
            "x11",
            "auth-agent@openssh.com",
            "forwarded-tcpip",
            "forwarded-streamlocal@openssh.com",
            "direct-tcpip",
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
            liar.say(&ChannelOpen {
                kind: kind.as_bytes(),
                sender_channel,
                window: 1 << 20,
                max_packet: 32_768,
                fields: Rest(&fields),
            });
            let refusal = liar.expect(92);
            let refusal = wire::message::ChannelOpenFailure::decode(&refusal).expect("a refusal");
            assert_eq!(refusal.recipient_channel, sender_channel, "{kind}");
        }
        finish(liar, number, 3);
    });
    assert_eq!(outcome.status, 3, "{}", outcome.summary());
}

#[test]
fn lies_about_channels_end_the_client() {
    let lies: [fn(&mut Liar<Tcp>, u32); 6] = [
        |liar, number| {
            liar.say(&ChannelData {
                recipient_channel: number,
                data: &vec![0; 100_000],
            });
        },
        |liar, number| {
            for _ in 0..2 {
                liar.say(&ChannelWindowAdjust {
                    recipient_channel: number,
                    bytes: u32::MAX,
                });
            }
        },
        |liar, number| {
            liar.say(&ChannelExtendedData {
                recipient_channel: number,
                code: 9,
                data: &vec![0; 100_000],
            });
        },
        |liar, number| {
            liar.say(&ChannelData {
                recipient_channel: number + 1,
                data: b"x",
            });
        },
        |liar, _| {
            liar.kexinit(&Offer::default());
            liar.kexinit(&Offer::default());
        },
        |liar, _| {
            liar.send_bytes(&[0xff; 512]);
        },
    ];
    for lie in lies {
        let outcome = client_against(&COMMAND, |liar| {
            liar.serve_login();
            let number = take_session(liar);
            lie(liar, number);
            while liar.victim.collect().is_some() {}
        });
        failed(&outcome);
    }
}

#[test]
fn odd_but_harmless_sessions_come_to_an_end() {
    // Data of no bytes or no known type, answers to nothing, unknown requests, and no status at all.
    let outcome = client_against(&COMMAND, |liar| {
        liar.serve_login();
        let number = take_session(liar);
        for _ in 0..5_000 {
            liar.say(&ChannelData {
                recipient_channel: number,
                data: b"",
            });
            liar.say(&ChannelExtendedData {
                recipient_channel: number,
                code: 9,
                data: b"of no known type",
            });
            liar.say(&ChannelSuccess {
                recipient_channel: number,
            });
            liar.say(&RequestSuccess { fields: Rest(b"") });
        }
        for name in ["no-such-request", "pty-req", "exec", "exit-status"] {
            let fields: &[u8] = match name {
                "exit-status" => &[0, 0, 0, 5],
                "exec" => b"\0\0\0\x02id",
                "pty-req" => &[0; 24],
                _ => b"",
            };
            liar.request(number, name, true, fields);
            liar.expect(if name == "exit-status" { 99 } else { 100 });
        }
        liar.say(&ChannelData {
            recipient_channel: number,
            data: b"late",
        });
        finish(liar, number, 5);
    });
    assert_eq!(
        (outcome.status, &outcome.stdout.head[..]),
        (5, &b"late"[..])
    );
    let outcome = client_against(&COMMAND, |liar| {
        liar.serve_login();
        let number = take_session(liar);
        liar.say(&ChannelClose {
            recipient_channel: number,
        });
        while liar.next_payload().is_some() {}
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
    let outcome = client_against(&COMMAND, |liar| {
        liar.exchange(&Offer::default());
        liar.accept_service();
        while let Some(payload) = liar.next_payload() {
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
                liar.say(&UserauthInfoRequest {
                    name: ESCAPES,
                    instruction: ESCAPES,
                    language: b"",
                    count: 1,
                    prompts: Rest(&prompts),
                });
            } else {
                liar.say(&UserauthFailure {
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
    let outcome = client_against(&COMMAND, |liar| {
        liar.exchange(&Offer::default());
        liar.accept_service();
        let mut answers = 0;
        while let Some(payload) = liar.next_payload() {
            if payload.first() == Some(&50) {
                answers += 1;
                assert!(answers < 1_000, "it tries for ever");
                liar.say(&UserauthFailure {
                    methods: NameList::new("publickey,password,keyboard-interactive,none")
                        .expect("names"),
                    partial_success: true,
                });
            }
        }
    });
    failed(&outcome);
}
