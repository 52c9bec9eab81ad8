//! A lying client against the real `fulmar sshd`, with every process that it starts: before login.

use std::time::{Duration, Instant};

use hostile::adversary::{Adversary, Offer, publickey_fields, signed_data, userauth};
use hostile::place::{Server, assert_harmless, user_key};
use hostile::subject::{Subject, Tcp};
use interop::report::{say, skipped};
use keys::{PrivateKey, SignatureAlgorithm};
use wire::Put;
use wire::message::{Encode, KexGexRequest, ServiceRequest, UserauthFailure};

fn string(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_string(text);
    out
}

fn password_fields(password: &[u8]) -> Vec<u8> {
    let mut fields = vec![0];
    fields.put_string(password);
    fields
}

#[test]
fn channel_open_and_exec_before_login_leave_no_file() {
    let server = Server::start(&[]);
    let file = server.daemon.scratch().join("written-before-login");
    let command = string(format!("touch {}", file.display()).as_bytes());
    let shoot = |adversary: &mut Adversary<Tcp>| {
        adversary.open("session", 0, 1 << 20, 32_768);
        adversary.request(0, "exec", true, &command);
        assert!(adversary.ends());
    };
    let mut adversary = server.connect();
    adversary.hello();
    shoot(&mut adversary);
    let mut adversary = server.connect();
    adversary.hello();
    adversary.kexinit(&Offer::lax());
    adversary.expect_kexinit();
    shoot(&mut adversary);
    let mut adversary = server.connect();
    adversary.exchange(&Offer::default());
    shoot(&mut adversary);
    // From here on a client may expect its login to succeed: the server answers messages that it
    // did not serve.
    let miss = |adversary: &mut Adversary<Tcp>| {
        adversary.open("session", 0, 1 << 20, 32_768);
        adversary.request(0, "exec", true, &command);
        for _ in 0..2 {
            adversary.expect(3);
        }
    };
    let mut adversary = server.ready();
    miss(&mut adversary);
    drop(adversary);
    // After a request that fails.
    let mut adversary = server.ready();
    let mut bytes = adversary.seal(&userauth(server.user.as_bytes(), "none", b""));
    let mut open = vec![90];
    open.put_string(b"session");
    for number in [0, 1 << 20, 32_768] {
        open.put_u32(number);
    }
    bytes.extend(adversary.seal(&open));
    adversary.send_bytes(&bytes);
    assert_eq!(adversary.answer().first(), Some(&51));
    adversary.expect(3);
    miss(&mut adversary);
    drop(adversary);
    // USERAUTH_SUCCESS, sent by the client.
    let mut adversary = server.ready();
    adversary.send(&[52]);
    shoot(&mut adversary);
    server.leaves_nothing_behind();
    assert!(!file.exists());
    server.still_serves();
}

/// Everything that a client can send once it has the reply of the key exchange: NEWKEYS, the
/// service, requests of publickey signed by these keys, and a command on the first channel.
fn flight(
    adversary: &mut Adversary<Tcp>,
    user: &[u8],
    keys: &[&PrivateKey],
    command: &str,
) -> Vec<u8> {
    adversary.hello();
    adversary.kexinit(&Offer::default());
    adversary.expect_kexinit();
    adversary.init();
    adversary.finish();
    let mut payloads = vec![
        ServiceRequest {
            service: b"ssh-userauth",
        }
        .encode(),
    ];
    for key in keys {
        payloads.push(adversary.signed_request(user, key, SignatureAlgorithm::Ed25519));
    }
    let mut open = vec![90];
    open.put_string(b"session");
    for number in [0, 1 << 20, 32_768] {
        open.put_u32(number);
    }
    payloads.push(open);
    let mut exec = vec![98];
    exec.put_u32(0);
    exec.put_string(b"exec");
    exec.put_bool(true);
    exec.put_string(command.as_bytes());
    payloads.push(exec);
    let mut eof = vec![96];
    eof.put_u32(0);
    payloads.push(eof);
    let mut bytes = adversary.sealed_newkeys();
    for payload in payloads {
        bytes.extend(adversary.seal(&payload));
    }
    bytes
}

#[test]
fn a_login_in_one_flight_is_served_however_it_arrives() {
    let server = Server::start(&[]);
    let user = server.user.as_bytes();
    let stranger = PrivateKey::from_ed25519_seed(&[99; 32]);
    let key = user_key();
    // Requests after the successful one are ignored, and failed ones before it have no effect.
    let lists: [(&[&PrivateKey], usize); 3] = [
        (&[&key], 0),
        (&[&stranger, &key], 1),
        (&[&key, &stranger], 0),
    ];
    for (keys, failures) in lists {
        for piece in [usize::MAX, 1, 13, 400] {
            let mut adversary = server.connect();
            let bytes = flight(&mut adversary, user, keys, "echo all at once; cat");
            for part in bytes.chunks(piece.min(bytes.len())) {
                adversary.send_bytes(part);
            }
            adversary.expect_newkeys();
            adversary.expect(6);
            for _ in 0..failures {
                assert_eq!(adversary.answer().first(), Some(&51));
            }
            assert_eq!(adversary.answer(), [52]);
            let out = adversary.output();
            assert_eq!(String::from_utf8_lossy(&out), "all at once\n", "{piece}");
        }
    }
    server.leaves_nothing_behind();
}

#[test]
fn what_follows_a_login_that_failed_is_unimplemented_and_the_login_goes_on() {
    let server = Server::start(&[]);
    let user = server.user.as_bytes();
    let file = server.daemon.scratch().join("written-without-login");
    let stranger = PrivateKey::from_ed25519_seed(&[99; 32]);
    let mut adversary = server.connect();
    let command = format!("touch {}", file.display());
    let bytes = flight(&mut adversary, user, &[&stranger], &command);
    adversary.send_bytes(&bytes);
    adversary.expect_newkeys();
    adversary.expect(6);
    assert_eq!(adversary.answer().first(), Some(&51));
    // Under strict KEX sequence numbers start at 0 after NEWKEYS: service 0, request 1.
    for sequence in 2_u32..5 {
        let payload = adversary.expect(3);
        assert_eq!(payload.get(1..), Some(&sequence.to_be_bytes()[..]));
    }
    adversary.login_publickey(user, &user_key());
    assert_eq!(adversary.run(0, b"echo in"), b"in\n");
    assert!(!file.exists());
    drop(adversary);
    server.leaves_nothing_behind();
}

/// Fifty first lines that no honest client sends.
fn odd_banners() -> Vec<Vec<u8>> {
    let mut list: Vec<Vec<u8>> = [
        &b""[..],
        b"\r\n",
        b"\n",
        b"\0",
        b"\0\0\0\0\n",
        b"SSH\n",
        b"SSH-\n",
        b"SSH-2\n",
        b"SSH-2.0\n",
        b"SSH-2.0 \n",
        b"SSH-1.5-old\r\n",
        b"SSH-1.99-\x07\r\n",
        b"SSH-2.1-future\r\n",
        b"SSH-20-x\r\n",
        b"SSH-2.0-a\0b\r\n",
        b"SSH-2.0-\x1b[31mred\r\n",
        b"SSH-2.0-\xff\xfe\r\n",
        b"SSH-2.0-\xc3\xa9\r\n",
        b"ssh-2.0-lower\r\n",
        b" SSH-2.0-space\r\n",
        b"\r\nSSH-2.0-behind\r\n",
        b"hello\r\nSSH-2.0-behind\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"EHLO x\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 1 22\r\n",
        b"SSH-2.0-\r\r\r\n",
        b"SSH-2.0-tab\tx\r\n",
        b"SSH-2.0-%n%n%n%s%s%s\r\n",
        b"SSH-2.0-$(id)`id`\r\n",
        b"SSH-2.0-x\n\n\n\n",
        b"SSH-2.0-x\r\n\0\0\0\0",
        b"SSH-2.0-x\r\n\xff\xff\xff\xff",
        b"SSH-2.0-x\r\n\0\0\0\x0c\x0a\x14",
        b"SSH-2.0-x\r\n\0\0\0\x01\x14",
        b"SSH-2.0-x\r\n\x00\x04\x00\x00",
        b"SSH-2.0-x\r\n\0\0\0\x10\xff\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ]
    .iter()
    .map(|line| line.to_vec())
    .collect();
    for len in [247, 248, 255, 256, 1000, 8192, 100_000] {
        list.push([&b"SSH-2.0-"[..], &vec![b'a'; len], b"\r\n"].concat());
        list.push(vec![b'S'; len]);
    }
    list
}

#[test]
fn fifty_odd_banners_end_their_connection_and_nothing_else() {
    let server = Server::start(&["LoginGraceTime 3"]);
    let banners = odd_banners();
    assert!(banners.len() >= 50, "{}", banners.len());
    let mut open = Vec::new();
    for banner in &banners {
        let mut adversary = server.connect();
        adversary.send_bytes(banner);
        open.push(adversary);
    }
    for (mut adversary, banner) in open.into_iter().zip(&banners) {
        while adversary.subject.collect().is_some() {}
        assert!(
            adversary.subject.has_ended(),
            "{:?}",
            String::from_utf8_lossy(banner)
        );
    }
    server.leaves_nothing_behind();
    assert_harmless(&server.daemon.log());
    server.still_serves();
}

#[test]
fn a_version_line_byte_by_byte_is_taken_and_nothing_is_taken_before_it() {
    let server = Server::start(&[]);
    let mut adversary = server.connect();
    for byte in b"SSH-2.0-Adversary_1.0" {
        assert!(adversary.send_bytes(&[*byte]));
    }
    adversary.version.clear();
    adversary.hello();
    adversary.version = "SSH-2.0-Adversary_1.0".into();
    adversary.kexinit(&Offer::default());
    adversary.expect_kexinit();
    adversary.agree();
    adversary.newkeys();
    adversary.expect_newkeys();
    adversary.service();
}

#[test]
fn user_names_cannot_be_paths_or_forge_lines_of_the_log() {
    let server = Server::start(&["MaxAuthTries 100"]);
    let names: [&[u8]; 12] = [
        b"../../../../etc/passwd",
        b"/etc/passwd",
        b"..",
        b"",
        b"a\nAccepted publickey for root from 1.2.3.4 port 5 ssh2",
        b"a\r\nAccepted password for root",
        b"\x1b[2J\x1b[31mred",
        b"a\0b",
        b"-oProxyCommand=id",
        b"$(touch /tmp/x)`id`",
        b"\xff\xfe\xfd",
        &[b'a'; 1000],
    ];
    let key = user_key();
    for name in names {
        // A connection for each: the name of a user cannot be changed.
        let mut adversary = server.ready();
        let refused = adversary.ask(name, "none", b"");
        assert_eq!(refused.first(), Some(&51));
        let request = adversary.signed_request(name, &key, SignatureAlgorithm::Ed25519);
        adversary.send(&request);
        assert_eq!(adversary.answer(), refused, "{name:?}");
        assert_eq!(
            adversary.ask(name, "password", &password_fields(b"x")),
            refused
        );
    }
    server.leaves_nothing_behind();
    let log = server.daemon.log();
    assert_harmless(&log);
    for line in log.lines() {
        assert!(
            !line.trim_start().starts_with("Accepted"),
            "a line was forged: {line:?}"
        );
    }
    assert!(
        log.contains("Accepted publickey for root"),
        "the name was not logged: {log}"
    );
}

#[test]
fn connections_that_reach_login_grace_time_at_once_all_end() {
    // Those that go on to the service arrive in time on a busy machine, too.
    let server = Server::start(&["LoginGraceTime 6"]);
    let mut silent = Vec::new();
    for index in 0..30 {
        let mut adversary = server.connect();
        match index % 3 {
            0 => {}
            1 => adversary.hello(),
            _ => {
                adversary.exchange(&Offer::default());
                adversary.service();
            }
        }
        silent.push(adversary);
    }
    for mut adversary in silent {
        while adversary.subject.collect().is_some() {}
        assert!(adversary.subject.has_ended());
    }
    server.leaves_nothing_behind();
    server.still_serves();
}

#[test]
fn login_grace_time_does_not_begin_anew_with_each_message() {
    let server = Server::start(&["LoginGraceTime 4", "MaxAuthTries 1000000"]);
    let mut adversary = server.ready();
    let start = Instant::now();
    let mut answers = 0;
    while adversary.send(&userauth(b"nobody-here", "none", b"")) {
        if adversary.next_payload().is_none() {
            break;
        }
        answers += 1;
        let ends = start.elapsed() < Duration::from_secs(60);
        assert!(ends, "{answers} answers, and it goes on");
    }
    assert!(adversary.subject.has_ended() || adversary.ends());
    server.leaves_nothing_behind();
}

#[test]
fn answers_do_not_tell_whether_a_user_exists() {
    let server = Server::start(&["MaxAuthTries 100000", "LoginGraceTime 600"]);
    let known = server.user.clone();
    let tries = 200;
    let stranger = PrivateKey::from_ed25519_seed(&[22; 32]);
    let blob = stranger.public().blob();
    let query = publickey_fields("ssh-ed25519", &blob, None);
    let methods: [(&str, Vec<u8>); 4] = [
        ("none", Vec::new()),
        ("publickey", query),
        ("keyboard-interactive", [string(b""), string(b"")].concat()),
        ("password", password_fields(b"wrong")),
    ];
    for (method, fields) in methods {
        // Refusals of a password are delayed to multiples of an interval: fewer of them.
        let tries = if method == "password" { 40 } else { tries };
        let mut kinds = Vec::new();
        let mut medians = Vec::new();
        let (mut one, mut other) = (server.ready(), server.ready());
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..tries {
            for (index, (adversary, name)) in
                [(&mut one, known.as_str()), (&mut other, "no-such-user")]
                    .into_iter()
                    .enumerate()
            {
                let start = Instant::now();
                let answer = adversary.ask(name.as_bytes(), method, &fields);
                times[index].push(start.elapsed());
                kinds.push(answer);
            }
        }
        for list in &mut times {
            list.sort();
            medians.push((list[0], list[list.len() / 2]));
        }
        kinds.dedup();
        assert_eq!(kinds.len(), 1, "{method}: {kinds:?}");
        let [(least, median), (other_least, other_median)] = medians[..] else {
            unreachable!()
        };
        say(&format!(
            "refusals by {method}, {tries} tries: known user median {median:?} (least {least:?}), \
             unknown user {other_median:?} ({other_least:?}), medians {:?} apart",
            median.abs_diff(other_median)
        ));
    }
}

#[test]
fn a_first_none_is_answered_alike_for_everybody() {
    let server = Server::start(&["LoginGraceTime 600"]);
    let known = server.user.clone();
    let mut times = [Vec::new(), Vec::new()];
    let mut answers = Vec::new();
    for _ in 0..100 {
        for (index, name) in [known.as_str(), "no-such-user"].into_iter().enumerate() {
            let mut adversary = server.ready();
            let start = Instant::now();
            answers.push(adversary.ask(name.as_bytes(), "none", b""));
            times[index].push(start.elapsed());
        }
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    let [known, unknown] = times.map(|mut list| {
        list.sort();
        (list[list.len() / 2], list[0])
    });
    say(&format!(
        "first none: known user median {:?} (least {:?}), unknown user {:?} ({:?}), medians {:?} apart",
        known.0,
        known.1,
        unknown.0,
        unknown.1,
        known.0.abs_diff(unknown.0)
    ));
}

#[test]
fn a_listed_key_that_was_only_asked_about_lets_nobody_in() {
    let server = Server::start(&["MaxAuthTries 100"]);
    let mut adversary = server.ready();
    let user = server.user.as_bytes().to_vec();
    let listed = user_key();
    let blob = listed.public().blob();
    let refused = |adversary: &mut Adversary<Tcp>, fields: &[u8]| {
        let answer = adversary.ask(&user, "publickey", fields);
        assert_eq!(answer.first(), Some(&51));
    };
    let answer = adversary.ask(
        &user,
        "publickey",
        &publickey_fields("ssh-ed25519", &blob, None),
    );
    assert_eq!(answer.first(), Some(&60), "the listed key would do");
    let stranger = PrivateKey::from_ed25519_seed(&[22; 32]);
    let request = adversary.signed_request(&user, &stranger, SignatureAlgorithm::Ed25519);
    adversary.send(&request);
    assert_eq!(adversary.answer().first(), Some(&51));
    // The listed key with the stranger's signature.
    let id = adversary.session_id.clone().expect("a session");
    let data = signed_data(&id, &user, "ssh-ed25519", &blob);
    let forged = stranger
        .sign(SignatureAlgorithm::Ed25519, &data)
        .expect("a signature");
    let fields = publickey_fields("ssh-ed25519", &blob, Some(&forged));
    refused(&mut adversary, &fields);
    // Signed for another session, another user, and with bytes cut off.
    let data = signed_data(&[1; 32], &user, "ssh-ed25519", &blob);
    let other = listed
        .sign(SignatureAlgorithm::Ed25519, &data)
        .expect("a signature");
    let fields = publickey_fields("ssh-ed25519", &blob, Some(&other));
    refused(&mut adversary, &fields);
    let data = signed_data(&id, b"root2", "ssh-ed25519", &blob);
    let other = listed
        .sign(SignatureAlgorithm::Ed25519, &data)
        .expect("a signature");
    let fields = publickey_fields("ssh-ed25519", &blob, Some(&other));
    refused(&mut adversary, &fields);
    adversary.login_publickey(&user, &listed);
}

#[test]
fn the_algorithm_of_a_signature_cannot_be_swapped() {
    let server = Server::start(&["MaxAuthTries 100"]);
    let mut adversary = server.ready();
    let user = server.user.as_bytes().to_vec();
    let listed = user_key();
    let blob = listed.public().blob();
    let id = adversary.session_id.clone().expect("a session");
    for (asked, named) in [
        ("ssh-ed25519", &b"ssh-rsa"[..]),
        ("ssh-ed25519", b"ssh-ed25519-cert-v01@openssh.com"),
        ("ssh-ed25519", b""),
        ("rsa-sha2-512", b"ssh-ed25519"),
        ("ssh-rsa", b"ssh-ed25519"),
        ("ssh-ed25519-cert-v01@openssh.com", b"ssh-ed25519"),
        ("sk-ssh-ed25519@openssh.com", b"ssh-ed25519"),
        ("none", b"ssh-ed25519"),
    ] {
        let data = signed_data(&id, &user, asked, &blob);
        let honest = listed
            .sign(SignatureAlgorithm::Ed25519, &data)
            .expect("a signature");
        let bytes = &honest[4 + 11..];
        let forged = [string(named), bytes.to_vec()].concat();
        let fields = publickey_fields(asked, &blob, Some(&forged));
        let answer = adversary.ask(&user, "publickey", &fields);
        assert_eq!(answer.first(), Some(&51), "{asked} {named:?}");
    }
    adversary.login_publickey(&user, &listed);
}

#[test]
fn blobs_that_are_empty_or_paths_are_no_keys() {
    let server = Server::start(&["MaxAuthTries 100"]);
    let mut adversary = server.ready();
    let path = server.daemon.scratch().join("authorized_keys");
    let path = path.display().to_string();
    for blob in [
        &b""[..],
        path.as_bytes(),
        b"/dev/zero",
        b"../../authorized_keys",
        &[0; 60_000],
    ] {
        for signature in [None, Some(&b""[..]), Some(&b"/dev/zero"[..])] {
            let fields = publickey_fields("ssh-ed25519", blob, signature);
            let answer = adversary.ask(server.user.as_bytes(), "publickey", &fields);
            assert_eq!(answer.first(), Some(&51), "{blob:?} {signature:?}");
        }
    }
    let user = server.user.clone();
    adversary.login_publickey(user.as_bytes(), &user_key());
}

#[test]
fn a_user_name_cannot_be_changed_in_the_middle() {
    let server = Server::start(&["MaxAuthTries 100"]);
    let mut adversary = server.ready();
    adversary.ask(server.user.as_bytes(), "none", b"");
    let answer = adversary.ask_or_end(b"root", "none", b"");
    assert_eq!(answer, None);
    assert!(adversary.ends());
}

#[test]
fn failures_are_counted_over_all_methods() {
    let server = Server::start(&["MaxAuthTries 3"]);
    let mut adversary = server.ready();
    let user = server.user.clone();
    let mut failures = 0;
    for (index, method) in ["none", "hostbased", "gssapi-with-mic", "x"]
        .iter()
        .cycle()
        .enumerate()
    {
        assert!(index < 100, "{failures} failures and no end");
        if !adversary.send(&userauth(user.as_bytes(), method, b"")) {
            break;
        }
        match adversary.next_payload() {
            Some(payload) if payload.first() == Some(&51) => failures += 1,
            Some(_) => {}
            None => break,
        }
    }
    assert!(failures <= 4, "{failures}");
    server.leaves_nothing_behind();
}

#[test]
fn a_password_of_a_megabyte_ends_the_connection() {
    let server = Server::start(&[]);
    for len in [70 * 1024, 250 * 1024] {
        let mut adversary = server.ready();
        let fields = password_fields(&vec![b'x'; len]);
        adversary.send(&userauth(server.user.as_bytes(), "password", &fields));
        assert!(adversary.ends());
    }
    server.leaves_nothing_behind();
    server.still_serves();
}

#[test]
fn an_empty_password_is_refused_by_default() {
    let server = Server::start(&["MaxAuthTries 100"]);
    let mut adversary = server.ready();
    let answer = adversary.ask(server.user.as_bytes(), "password", &password_fields(b""));
    assert_eq!(answer.first(), Some(&51));
}

#[test]
fn dear_key_exchanges_and_curves_of_nist_are_offered_only_when_configured() {
    let server = Server::start(&[]);
    let mut adversary = server.connect();
    adversary.hello();
    adversary.kexinit(&Offer::default());
    adversary.expect_kexinit();
    for name in adversary.subjects_kexinit().kex.iter() {
        assert!(
            !name.starts_with("diffie-hellman") && !name.starts_with("ecdh-"),
            "{name}"
        );
    }
}

#[test]
fn sizes_of_groups_that_a_client_lies_about_end_the_connection() {
    let method = "diffie-hellman-group-exchange-sha256";
    let server = Server::start(&[&format!("KexAlgorithms {method}")]);
    for (min, preferred, max) in [
        (1, 1, 1),
        (8192, 2048, 1024),
        (2049, 2050, 2051),
        (u32::MAX, u32::MAX, u32::MAX),
    ] {
        let mut adversary = server.connect();
        adversary.hello();
        adversary.kexinit(&Offer::kex(method));
        adversary.expect_kexinit();
        adversary.say(&KexGexRequest {
            min,
            preferred,
            max,
        });
        assert!(adversary.ends(), "{min} {preferred} {max}");
    }
    server.leaves_nothing_behind();
}

#[test]
fn partial_success_of_one_user_is_worth_nothing_to_another() {
    let server = Server::start(&[
        "AuthenticationMethods publickey,password",
        "MaxAuthTries 100",
    ]);
    let Some(password) = server.password.clone() else {
        skipped("two factors", &"needs root");
        return;
    };
    let mut adversary = server.ready();
    let user = server.user.as_bytes().to_vec();
    let request = adversary.signed_request(&user, &user_key(), SignatureAlgorithm::Ed25519);
    adversary.send(&request);
    let answer = adversary.answer();
    let failure = UserauthFailure::decode(&answer).expect("a partial success");
    assert!(failure.partial_success);
    assert_eq!(failure.methods.as_str(), "password");
    let answer = adversary.ask_or_end(b"root", "password", &password_fields(password.as_bytes()));
    assert_ne!(answer.as_deref(), Some(&[52][..]));
    if answer.is_some() {
        let answer = adversary.ask_or_end(&user, "password", &password_fields(password.as_bytes()));
        // A client that changes the name starts again.
        assert_ne!(answer.as_deref(), Some(&[52][..]));
    }
    let mut adversary = server.ready();
    let request = adversary.signed_request(&user, &user_key(), SignatureAlgorithm::Ed25519);
    adversary.send(&request);
    assert_eq!(adversary.answer().first(), Some(&51));
    adversary.login_password(&user, password.as_bytes());
}
