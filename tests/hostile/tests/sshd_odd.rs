//! A lying client against the real `fulmar sshd`: unusual uses of the protocol, and the moment in
//! which one process hands the connection to the next.

use hostile::adversary::{Adversary, Offer, userauth};
use hostile::place::{Server, assert_harmless, user_key};
use hostile::subject::{Subject, Tcp};
use keys::SignatureAlgorithm;
use wire::message::{ChannelClose, ChannelEof, ChannelOpen, ChannelRequest, Encode, GlobalRequest};
use wire::{Put, Rest};

fn string(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_string(text);
    out
}

fn open(number: u32) -> Vec<u8> {
    ChannelOpen {
        kind: b"session",
        sender_channel: number,
        window: 1 << 20,
        max_packet: 32_768,
        fields: Rest(b""),
    }
    .encode()
}

fn exec(command: &[u8]) -> Vec<u8> {
    ChannelRequest {
        recipient_channel: 0,
        name: b"exec",
        want_reply: true,
        fields: Rest(&string(command)),
    }
    .encode()
}

/// A connection, and the packet that logs in on it.
fn logs_in(server: &Server) -> (Adversary<Tcp>, Vec<u8>) {
    let mut adversary = server.ready();
    let (user, key) = (server.user.as_bytes(), user_key());
    let login = adversary.signed_request(user, &key, SignatureAlgorithm::Ed25519);
    let packet = adversary.seal(&login);
    (adversary, packet)
}

#[test]
fn what_is_sent_behind_the_login_reaches_the_session_wherever_it_is_cut() {
    let server = Server::start(&[]);
    for cut in [0, 1, 3, 5, 20, 60, 200] {
        let (mut adversary, first) = logs_in(&server);
        let mut behind = adversary.seal(&open(0));
        behind.extend(adversary.seal(&exec(b"echo behind the login")));
        let (now, later) = behind.split_at(cut.min(behind.len()));
        adversary.send_bytes(&[&first[..], now].concat());
        assert_eq!(adversary.answer(), [52]);
        adversary.send_bytes(later);
        assert_eq!(adversary.output(), b"behind the login\n", "cut at {cut}");
    }
    server.leaves_nothing_behind();
}

#[test]
fn lies_sent_behind_the_login_end_the_session_process() {
    let server = Server::start(&[]);
    let file = server.daemon.scratch().join("written-by-a-lie");
    let command = format!("touch {}", file.display());
    for lie in 0..5 {
        let (mut adversary, mut bytes) = logs_in(&server);
        match lie {
            0 => bytes.extend([0xff; 4096]),
            // A request on a channel that nobody opened.
            1 => bytes.extend(adversary.seal(&exec(command.as_bytes()))),
            2 => bytes.extend(adversary.seal(&[52])),
            3 => bytes.extend(adversary.seal(&[21])),
            _ => {
                let mut changed = adversary.seal(&open(0));
                let last = changed.len() - 1;
                changed[last] ^= 1;
                bytes.extend(changed);
                bytes.extend(adversary.seal(&exec(command.as_bytes())));
            }
        }
        adversary.send_bytes(&bytes);
        while adversary.subject.collect().is_some() {}
        assert!(adversary.subject.has_ended(), "lie {lie}");
    }
    server.leaves_nothing_behind();
    assert!(!file.exists());
    server.still_serves();
}

#[test]
fn a_connection_cut_anywhere_leaves_nothing_behind() {
    let server = Server::start(&[]);
    // The bytes of an honest client up to its login, as far as they depend on no answer.
    let mut honest = b"SSH-2.0-Adversary_1.0\r\n".to_vec();
    let mut recorder = Adversary::new(
        hostile::subject::Memory::server(proto::TransportConfig::default()),
        proto::Role::Client,
    );
    honest.extend(recorder.seal(&Offer::default().payload(proto::Role::Client)));
    let mut init = vec![30];
    init.put_string(&[9; 32]);
    honest.extend(recorder.seal(&init));
    for cut in (0..honest.len()).step_by(honest.len() / 40 + 1) {
        let mut adversary = server.connect();
        adversary.send_bytes(&honest[..cut]);
    }
    server.leaves_nothing_behind();
    server.still_serves();
}

#[test]
fn requests_with_nul_and_control_characters_are_refused_or_harmless() {
    let server = Server::start(&["Subsystem odd /bin/echo subsystem"]);
    let terminal = |term: &[u8]| {
        let mut fields = string(term);
        fields.extend_from_slice(&[0; 16]);
        fields.put_string(b"");
        fields
    };
    let requests: [(&str, Vec<u8>); 14] = [
        ("exec", string(b"echo a\0b")),
        ("exec", string(b"\0")),
        ("exec", string(b"")),
        ("exec", string(b"\xff\xfe")),
        ("subsystem", string(b"odd\0")),
        ("subsystem", string(b"../../bin/sh")),
        ("subsystem", string(b"")),
        ("pty-req", terminal(b"x\0y")),
        ("pty-req", terminal(b"x\ny=z")),
        ("pty-req", terminal(&[b'x'; 256])),
        ("signal", string(b"KILL\0")),
        ("signal", string(b"../../9")),
        ("env", [string(b"A\0B"), string(b"\0")].concat()),
        ("break", vec![0xff; 4]),
    ];
    for (number, (name, fields)) in requests.iter().enumerate() {
        let number = u32::try_from(number).unwrap_or(0);
        let mut adversary = server.logged_in();
        let channel = adversary.open_session(number);
        adversary.request(channel, name, true, fields);
        let answer = core::iter::from_fn(|| adversary.next_payload())
            .find(|payload| matches!(payload.first(), Some(99 | 100)));
        assert!(answer.is_some(), "{name} {fields:?} is not answered");
        // The connection continues.
        assert_eq!(
            adversary.run_on(77, b"echo on"),
            b"on\n",
            "{name} {fields:?}"
        );
    }
    assert_harmless(&server.daemon.log());
    server.leaves_nothing_behind();
}

#[test]
fn targets_of_forwardings_that_are_no_hosts_are_refused() {
    let server = Server::start(&["AllowTcpForwarding yes"]);
    for (number, (host, port)) in [
        (&b""[..], 22),
        (b"a\nb", 22),
        (b"a\0b", 22),
        (b"-oProxyCommand=id", 22),
        (b"$(id)", 22),
        (b"/etc/passwd", 22),
        (&[b'a'; 1000], 22),
        (b"127.0.0.1", 0),
        (b"127.0.0.1", 65_536),
        (b"127.0.0.1", u32::MAX),
    ]
    .into_iter()
    .enumerate()
    {
        let mut adversary = server.logged_in();
        let mut fields = string(host);
        fields.put_u32(port);
        fields.put_string(b"127.0.0.1");
        fields.put_u32(1);
        for kind in ["direct-tcpip", "direct-udp@fulmar.invalid"] {
            opens(&mut adversary, kind, number, &fields);
            let answer = core::iter::from_fn(|| adversary.next_payload())
                .find(|payload| matches!(payload.first(), Some(91 | 92)));
            let refused = answer.as_deref().and_then(<[u8]>::first) == Some(&92);
            assert!(refused, "{kind} {host:?}:{port}");
        }
    }
    assert_harmless(&server.daemon.log());
}

/// Requests a channel of this type under this number.
fn opens(adversary: &mut Adversary<Tcp>, kind: &str, number: usize, fields: &[u8]) {
    adversary.say(&ChannelOpen {
        kind: kind.as_bytes(),
        sender_channel: u32::try_from(number).unwrap_or(0),
        window: 1 << 20,
        max_packet: 32_768,
        fields: Rest(fields),
    });
}

/// The first answer with one of these numbers is `no`, not `yes`.
fn is_refused(adversary: &mut Adversary<Tcp>, yes: u8, no: u8) -> bool {
    let answer = core::iter::from_fn(|| adversary.next_payload()).find_map(|payload| {
        let number = payload.first().copied()?;
        [yes, no].contains(&number).then_some(number)
    });
    answer == Some(no)
}

/// Everything is permitted, but these opens are the server's to make, or say nothing sensible.
#[test]
fn forwardings_of_the_wrong_side_or_form_are_refused_and_the_session_goes_on() {
    let server = Server::start(&[
        "AllowTcpForwarding yes",
        "AllowStreamLocalForwarding yes",
        "PermitTunnel yes",
        "X11Forwarding yes",
    ]);
    let mut adversary = server.logged_in();
    let path = |path: &[u8]| [string(path), string(b""), vec![0; 4]].concat();
    let mut tcp = string(b"127.0.0.1");
    tcp.put_u32(22);
    let long = vec![b'a'; 300];
    for (number, (kind, fields)) in [
        ("x11", tcp.clone()),
        ("auth-agent@openssh.com", Vec::new()),
        ("agent-connect", Vec::new()),
        ("forwarded-tcpip", [&tcp[..], &tcp].concat()),
        ("forwarded-streamlocal@openssh.com", path(b"/tmp/x")),
        // Fields that end early, or never.
        ("direct-tcpip", Vec::new()),
        ("direct-tcpip", tcp.clone()),
        ("direct-tcpip", vec![0xff; 12]),
        ("direct-streamlocal@openssh.com", Vec::new()),
        ("direct-streamlocal@openssh.com", path(b"")),
        ("direct-streamlocal@openssh.com", path(b"/tmp/a\0b")),
        ("direct-streamlocal@openssh.com", path(&long)),
        ("tun@openssh.com", Vec::new()),
        ("tun@openssh.com", vec![0xff; 8]),
        ("tun@openssh.com", vec![0; 4]),
    ]
    .into_iter()
    .enumerate()
    {
        opens(&mut adversary, kind, number, &fields);
        assert!(is_refused(&mut adversary, 91, 92), "{kind} {fields:?}");
    }
    let mut beyond = string(b"");
    beyond.put_u32(70_000);
    for (name, fields) in [
        ("tcpip-forward", Vec::new()),
        ("tcpip-forward", beyond),
        ("tcpip-forward", string(b"127.0.0.1")),
        ("cancel-tcpip-forward", tcp),
        ("streamlocal-forward@openssh.com", Vec::new()),
        ("streamlocal-forward@openssh.com", string(b"")),
        ("streamlocal-forward@openssh.com", string(&long)),
        ("cancel-streamlocal-forward@openssh.com", string(b"/none")),
    ] {
        adversary.say(&GlobalRequest {
            name: name.as_bytes(),
            want_reply: true,
            fields: Rest(&fields),
        });
        assert!(is_refused(&mut adversary, 81, 82), "{name} {fields:?}");
    }
    assert_eq!(adversary.run(99, b"echo on"), b"on\n");
    assert_harmless(&server.daemon.log());
}

/// CVE-2016-3115, where X11 is permitted: the cookie would reach xauth's standard input.
#[test]
fn a_cookie_with_a_line_break_makes_no_display() {
    let server = Server::start(&["X11Forwarding yes"]);
    let mut adversary = server.logged_in();
    let channel = adversary.open_session(0);
    for (protocol, cookie) in [
        (&b"MIT-MAGIC-COOKIE-1"[..], &b"00\nsource /etc/passwd"[..]),
        (b"MIT-MAGIC-COOKIE-1\nquit", b"00"),
        (b"MIT-MAGIC-COOKIE-1", b""),
        (b"", b"00"),
    ] {
        let mut fields = vec![0];
        fields.put_string(protocol);
        fields.put_string(cookie);
        fields.put_u32(0);
        adversary.request(channel, "x11-req", true, &fields);
        assert!(is_refused(&mut adversary, 99, 100), "{cookie:?}");
    }
    let command = string(b"echo \"<$DISPLAY>\"");
    adversary.request(channel, "exec", true, &command);
    assert_eq!(adversary.output(), b"<>\n");
}

#[test]
fn a_service_other_than_connection_is_not_served() {
    let server = Server::start(&["MaxAuthTries 100"]);
    for service in ["ssh-userauth", "", "ssh-connection\0", "sftp"] {
        let mut adversary = server.ready();
        let honest = adversary.signed_request(
            server.user.as_bytes(),
            &user_key(),
            SignatureAlgorithm::Ed25519,
        );
        let mut payload = vec![50];
        payload.put_string(server.user.as_bytes());
        payload.put_string(service.as_bytes());
        // The fields after the service in an honest request.
        let at = 1 + 4 + server.user.len() + 4 + "ssh-connection".len();
        payload.extend_from_slice(&honest[at..]);
        adversary.send(&payload);
        let answer = core::iter::from_fn(|| adversary.next_payload())
            .find(|payload| matches!(payload.first(), Some(51 | 52)));
        assert_ne!(answer.as_deref(), Some(&[52][..]), "{service:?}");
    }
    server.leaves_nothing_behind();
}

#[test]
fn a_peer_that_opens_its_window_and_reads_nothing_is_not_queued_for() {
    let server = Server::start(&[]);
    let mut adversary = server.logged_in();
    adversary.open("session", 0, u32::MAX, u32::MAX);
    adversary.expect(91);
    adversary.send(&exec(b"cat /dev/zero"));
    adversary.expect(94);
    // Whole logins pass by meanwhile.
    for _ in 0..5 {
        server.still_serves();
    }
    server.stays_small();
    drop(adversary);
    server.leaves_nothing_behind();
}

#[test]
fn every_process_of_a_connection_ends_with_its_peer_even_in_the_middle_of_output() {
    let server = Server::start(&[]);
    for _ in 0..5 {
        let mut adversary = server.logged_in();
        adversary.open("session", 0, u32::MAX, 32_768);
        adversary.expect(91);
        adversary.send(&exec(b"cat /dev/zero"));
        adversary.expect(94);
    }
    server.leaves_nothing_behind();
}

#[test]
fn more_startups_than_permitted_are_refused_and_an_honest_login_gets_in_afterwards() {
    let server = Server::start(&["MaxStartups 5:100:10", "LoginGraceTime 600"]);
    let mut crowd: Vec<Adversary<Tcp>> = (0..40).map(|_| server.connect()).collect();
    let served = crowd
        .iter_mut()
        .filter_map(|adversary| adversary.subject.collect())
        .filter(|first| first.starts_with(b"SSH-2.0-Fulmar"))
        .count();
    assert!((1..=10).contains(&served), "{served} of 40 are served");
    drop(crowd);
    server.leaves_nothing_behind();
    server.still_serves();
}

#[test]
fn a_request_of_another_user_in_the_same_piece_as_a_login_is_not_answered() {
    let server = Server::start(&[]);
    let (mut adversary, mut bytes) = logs_in(&server);
    bytes.extend(adversary.seal(&userauth(b"root", "none", b"")));
    bytes.extend(adversary.seal(&open(0)));
    bytes.extend(adversary.seal(&exec(b"id -un")));
    adversary.send_bytes(&bytes);
    assert_eq!(adversary.answer(), [52]);
    let out = String::from_utf8_lossy(&adversary.output()).into_owned();
    assert_eq!(out.trim_end(), server.user);
}

#[test]
fn messages_to_a_channel_that_is_still_being_connected_confuse_nothing() {
    let server = Server::start(&["AllowTcpForwarding yes"]);
    for lie in 0..3 {
        let mut adversary = server.logged_in();
        let mut fields = string(b"no-such-host.invalid");
        fields.put_u32(22);
        fields.put_string(b"127.0.0.1");
        fields.put_u32(1);
        let forward = ChannelOpen {
            kind: b"direct-tcpip",
            sender_channel: 5,
            window: 1 << 20,
            max_packet: 32_768,
            fields: Rest(&fields),
        };
        let mut bytes = adversary.seal(&forward.encode());
        // The peer does not know this number, but the lowest free number is always used.
        let behind = match lie {
            0 => ChannelClose {
                recipient_channel: 0,
            }
            .encode(),
            1 => ChannelEof {
                recipient_channel: 0,
            }
            .encode(),
            _ => ChannelRequest {
                recipient_channel: 0,
                name: b"shell",
                want_reply: true,
                fields: Rest(b""),
            }
            .encode(),
        };
        bytes.extend(adversary.seal(&behind));
        adversary.send_bytes(&bytes);
        assert_eq!(
            adversary.run_on(77, b"echo still here"),
            b"still here\n",
            "lie {lie}"
        );
    }
    server.leaves_nothing_behind();
}
