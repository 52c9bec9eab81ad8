//! A lying server against the pipelined messages of the real `fulmar ssh`: the guess of the key
//! exchange, signed requests, the session and its command, and the login cache.
//!
//! docs/login.md describes what is pipelined and when; each test is named after the rule that it
//! checks.

mod copies;
mod learned;
mod several_keys;
mod short;

use std::fs;

use hostile::adversary::{Adversary, Offer, Reply};
use hostile::place::{Script, client_at, client_through, user_key};
use hostile::subject::Tcp;
use interop::process::Outcome;
use interop::scratch::Scratch;
use keys::PrivateKey;
use wire::message::{
    ChannelClose, ChannelEof, ChannelOpen, ChannelOpenConfirmation, ChannelRequest, ChannelSuccess,
    Disconnect, Encode, ExtInfo, ServiceAccept, Unimplemented, UserauthFailure, UserauthPkOk,
    UserauthRequest, UserauthSuccess,
};
use wire::{NameList, Put, Rest};

use learned::ALIAS;

const COMMAND: [&str; 3] = ["-v", "user@127.0.0.1", "the command"];
const OPENSSH: &str = "SSH-2.0-OpenSSH_9.9 Adversary";
const DROPBEAR: &str = "SSH-2.0-dropbear_2099.1";
const OTHER: &str = "SSH-2.0-Other_1";

/// The messages of a client that sends everything at once: service, key, session, command, end of
/// input, no more sessions.
const ALL: [u8; 6] = [5, 50, 90, 98, 96, 80];

fn failure(methods: &str) -> Vec<u8> {
    UserauthFailure {
        methods: NameList::new(methods).expect("a list"),
        partial_success: false,
    }
    .encode()
}

fn accept() -> ServiceAccept<'static> {
    ServiceAccept {
        service: b"ssh-userauth",
    }
}

/// The next `count` payloads.
fn take(adversary: &mut Adversary<Tcp>, count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|_| adversary.next_payload().expect("one more message"))
        .collect()
}

fn numbers(payloads: &[Vec<u8>]) -> Vec<u8> {
    payloads
        .iter()
        .filter_map(|payload| payload.first().copied())
        .collect()
}

/// The first `count` messages of a client that sends everything at once.
fn take_all(adversary: &mut Adversary<Tcp>, count: usize) -> Vec<Vec<u8>> {
    let all = take(adversary, count);
    assert_eq!(numbers(&all), ALL[..count]);
    all
}

/// The sequence numbers of these messages, which arrive next.
fn take_numbered(adversary: &mut Adversary<Tcp>, expected: &[u8]) -> Vec<u32> {
    let numbered = expected.iter().map(|number| {
        assert_eq!(numbers(&take(adversary, 1)), [*number]);
        adversary.received
    });
    numbered.collect()
}

/// Exchanges keys as a server of this version, and receives `count` messages that arrive at once.
fn ahead(adversary: &mut Adversary<Tcp>, version: &str, count: usize) -> Vec<Vec<u8>> {
    exchange_as(adversary, version, &Offer::default());
    take_all(adversary, count)
}

/// Accepts the first of the client's requests.
fn grant(adversary: &mut Adversary<Tcp>) {
    adversary.say(&accept());
    adversary.say(&UserauthSuccess {});
}

fn confirm(adversary: &mut Adversary<Tcp>, number: u32) {
    adversary.say(&ChannelOpenConfirmation {
        recipient_channel: 0,
        sender_channel: number,
        window: 1 << 20,
        max_packet: 32_768,
        fields: Rest(b""),
    });
}

/// The blob of the key in a signed request.
fn key_of(request: &[u8]) -> Vec<u8> {
    let (is_signed, key) = request_of(request);
    assert!(is_signed, "not signed");
    key
}

/// Whether a request is signed, and the blob of its key.
fn request_of(request: &[u8]) -> (bool, Vec<u8>) {
    let request = UserauthRequest::decode(request).expect("a request");
    assert_eq!(request.method, b"publickey");
    let mut reader = wire::Reader::new(request.method_fields.0);
    let is_signed = reader.bool().expect("a flag");
    reader.string().expect("an algorithm");
    (is_signed, reader.string().expect("a key").to_vec())
}

/// Confirms the session, answers its command and ends with `status`.
fn serve_started(adversary: &mut Adversary<Tcp>, number: u32, status: u32) {
    confirm(adversary, number);
    if number != 0 {
        let again = adversary.expect(98);
        let request = ChannelRequest::decode(&again).expect("a request");
        assert_eq!(
            (request.name, request.recipient_channel),
            (&b"exec"[..], number)
        );
    }
    adversary.say(&ChannelSuccess {
        recipient_channel: 0,
    });
    end(adversary, status);
}

/// Confirms a session whose command has not arrived.
fn serve_unstarted(adversary: &mut Adversary<Tcp>, status: u32) {
    confirm(adversary, 0);
    adversary.expect(98);
    adversary.say(&ChannelSuccess {
        recipient_channel: 0,
    });
    end(adversary, status);
}

fn end(adversary: &mut Adversary<Tcp>, status: u32) {
    adversary.request(0, "exit-status", false, &status.to_be_bytes());
    adversary.say(&ChannelEof {
        recipient_channel: 0,
    });
    adversary.say(&ChannelClose {
        recipient_channel: 0,
    });
    while adversary.next_payload().is_some() {}
}

/// Serves a client that goes step by step; the command ends with `status`.
fn serve_in_steps(adversary: &mut Adversary<Tcp>, status: u32) {
    adversary.expect(5);
    assert!(waits(adversary), "said more than the service request");
    adversary.say(&accept());
    let request = take(adversary, 1);
    assert_eq!(key_of(&request[0]), user_key().public().blob());
    assert!(waits(adversary), "said more than the request");
    adversary.say(&UserauthSuccess {});
    let opened = adversary.expect(90);
    assert_eq!(
        ChannelOpen::decode(&opened)
            .expect("an open")
            .sender_channel,
        0
    );
    serve_unstarted(adversary, status);
}

/// Checks that the client is silent for a moment.
fn waits(adversary: &mut Adversary<Tcp>) -> bool {
    adversary
        .subject
        .collect_within(std::time::Duration::from_millis(200))
        .is_none()
}

fn exchange_as(adversary: &mut Adversary<Tcp>, version: &str, offer: &Offer) {
    adversary.version = version.into();
    adversary.exchange(offer);
}

fn said(outcome: &Outcome) -> String {
    outcome.stderr.text()
}

fn ended(outcome: &Outcome, status: i32) {
    assert_eq!(outcome.status, status, "{}", outcome.summary());
}

#[test]
fn a_server_that_reads_on_gets_everything_at_once() {
    for strict in [true, false] {
        for version in [OPENSSH, "SSH-2.0-Fulmar_9.9"] {
            let outcome = client_at(&Scratch::new(), &COMMAND, |adversary| {
                let offer = if strict {
                    Offer::default()
                } else {
                    Offer::lax()
                };
                exchange_as(adversary, version, &offer);
                take_all(adversary, 6);
                grant(adversary);
                serve_started(adversary, 0, 7);
            });
            ended(&outcome, 7);
        }
    }
}

#[test]
fn a_channel_under_another_number_gets_its_requests_again() {
    let outcome = client_at(&Scratch::new(), &COMMAND, |adversary| {
        ahead(adversary, OPENSSH, 6);
        grant(adversary);
        serve_started(adversary, 5, 3);
    });
    ended(&outcome, 3);
}

#[test]
fn an_unknown_server_gets_no_session_before_its_answer() {
    let outcome = client_at(&Scratch::new(), &COMMAND, |adversary| {
        ahead(adversary, OTHER, 2);
        assert!(waits(adversary));
        grant(adversary);
        adversary.expect(90);
        serve_unstarted(adversary, 4);
    });
    ended(&outcome, 4);
}

#[test]
fn an_unknown_server_that_took_the_key_before_gets_the_channel_alone() {
    let scratch = Scratch::new();
    for count in [2, 3] {
        let outcome = client_at(&scratch, &ALIAS, |adversary| {
            ahead(adversary, OTHER, count);
            assert!(waits(adversary));
            grant(adversary);
            if count == 2 {
                adversary.expect(90);
            }
            serve_unstarted(adversary, 0);
        });
        ended(&outcome, 0);
    }
}

/// Nothing that follows the check of the host key has been sent where it fails.
#[test]
fn a_host_key_that_changed_gets_nothing() {
    let scratch = Scratch::new();
    let other = PrivateKey::from_ed25519_seed(&[77; 32]);
    scratch.write(
        "known_hosts",
        format!("adversary {}\n", other.public().to_line()),
    );
    for version in [OPENSSH, OTHER] {
        let arguments = ["-oHostKeyAlias=adversary", "user@127.0.0.1", "the command"];
        let outcome = client_at(&scratch, &arguments, |adversary| {
            adversary.version = version.into();
            adversary.hello();
            adversary.kexinit(&Offer::default());
            adversary.expect_kexinit();
            adversary.agree();
            adversary.newkeys();
            assert_eq!(adversary.rest(), Vec::<Vec<u8>>::new());
            assert!(adversary.goodbye.is_some(), "no word of why");
        });
        ended(&outcome, 255);
        assert!(said(&outcome).contains("HAS CHANGED"), "{}", said(&outcome));
        assert!(!scratch.join("login_cache").exists());
    }
}

/// A changed host key that is accepted gets at most a key's signature, and nothing pipelined.
#[test]
fn a_changed_host_key_that_is_let_through_gets_no_session_ahead() {
    let scratch = Scratch::new();
    let other = PrivateKey::from_ed25519_seed(&[77; 32]);
    scratch.write(
        "known_hosts",
        format!("adversary {}\n", other.public().to_line()),
    );
    let arguments = [
        "-oHostKeyAlias=adversary",
        "-oStrictHostKeyChecking=no",
        "user@127.0.0.1",
        "the command",
    ];
    let outcome = client_at(&scratch, &arguments, |adversary| {
        ahead(adversary, OPENSSH, 2);
        assert!(waits(adversary));
        grant(adversary);
        adversary.expect(90);
        serve_unstarted(adversary, 0);
    });
    // Such a login is not cached.
    assert!(!scratch.join("login_cache").exists());
    ended(&outcome, 0);
}

#[test]
fn a_refused_key_takes_its_session_with_it_and_the_connection_goes_on() {
    let outcome = client_at(&Scratch::new(), &COMMAND, |adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        let first = adversary.received;
        take_all(adversary, 6);
        let last = adversary.received;
        adversary.say(&accept());
        adversary.send(&failure("publickey,password"));
        // Like OpenSSH: the messages after the request are not understood.
        let behind = last.saturating_sub(3)..=last;
        assert!(first <= last || !adversary.strict);
        for sequence in behind {
            adversary.say(&Unimplemented { sequence });
        }
        // There is no user to ask, and `none` would be one more failure.
        assert!(adversary.next_payload().is_none());
        assert!(adversary.ends());
    });
    ended(&outcome, 255);
    assert!(
        said(&outcome).contains("Permission denied (publickey,password)"),
        "{}",
        said(&outcome)
    );
}

/// Like dropbear: refuses the key and ends because of the session after it.
#[test]
fn a_server_that_dies_of_what_went_ahead_is_asked_again_in_steps() {
    let scratch = Scratch::new();
    // It gets a session ahead with a key that it has accepted before.
    let outcome = client_at(&scratch, &ALIAS[1..], |adversary| {
        ahead(adversary, DROPBEAR, 2);
        grant(adversary);
        take_numbered(adversary, &ALL[2..5]);
        serve_started(adversary, 0, 0);
    });
    ended(&outcome, 0);
    let refuse: Script<'_> = Box::new(|adversary| {
        ahead(adversary, DROPBEAR, 5);
        adversary.say(&accept());
        adversary.send(&failure("publickey"));
    });
    let serve: Script<'_> = Box::new(|adversary| {
        exchange_as(adversary, DROPBEAR, &Offer::default());
        serve_in_steps(adversary, 9);
    });
    let outcome = client_through(&scratch, &ALIAS[1..], vec![refuse, serve]);
    ended(&outcome, 9);
    // No message without -v. (The server's key exchange causes a warning.)
    let said = said(&outcome);
    let mut lines = said.lines().filter(|line| !line.starts_with("** "));
    assert!(
        lines.all(|line| line.contains("Permanently added")),
        "{said}"
    );
}

/// The same with a server that reports it: like asyncssh, "Channel not open".
#[test]
fn a_disconnect_before_any_answer_is_tried_again_in_steps() {
    let refuse: Script<'_> = Box::new(|adversary| {
        ahead(adversary, OPENSSH, 6);
        adversary.say(&Disconnect {
            reason: 2,
            description: b"Channel not open",
            language: b"",
        });
    });
    let serve: Script<'_> = Box::new(|adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        serve_in_steps(adversary, 8);
    });
    let outcome = client_through(&Scratch::new(), &COMMAND, vec![refuse, serve]);
    ended(&outcome, 8);
    assert!(
        said(&outcome).contains("more carefully"),
        "{}",
        said(&outcome)
    );
}

/// Somebody who cuts the connection must not make a command run twice: the login may have
/// succeeded, and its answer may be lost.
#[test]
fn a_command_that_may_have_run_is_never_sent_again() {
    let scratch = Scratch::new();
    let alias = [
        "-v",
        "-oHostKeyAlias=adversary",
        "user@127.0.0.1",
        "the command",
    ];
    let outcome = client_at(&scratch, &alias, |adversary| {
        ahead(adversary, OPENSSH, 6);
        // The connection ends here; a second one would be refused.
    });
    ended(&outcome, 255);
    let text = said(&outcome);
    assert!(
        text.contains("Connection closed by") || text.contains("reset"),
        "{text}"
    );
    assert!(!text.contains("Connection refused"), "{text}");
    // The next login is not pipelined, so that it works with such a server.
    let outcome = client_at(&scratch, &alias, |adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        serve_in_steps(adversary, 0);
    });
    ended(&outcome, 0);
}

/// A server that seems to accept pipelining, accepts the login and fails on the next message: the
/// command is not sent again if it may have run, and the next login is not pipelined.
#[test]
fn a_server_that_dies_behind_the_login_gets_nothing_ahead_the_next_time() {
    let scratch = Scratch::new();
    let outcome = client_at(&scratch, &ALIAS, |adversary| {
        ahead(adversary, OPENSSH, 6);
        grant(adversary);
        // Without a message; a second connection would be refused.
    });
    ended(&outcome, 255);
    let text = said(&outcome);
    assert!(!text.contains("more carefully"), "{text}");
    for status in [3, 4] {
        let outcome = client_at(&scratch, &ALIAS, |adversary| {
            exchange_as(adversary, OPENSSH, &Offer::default());
            serve_in_steps(adversary, status);
        });
        ended(&outcome, i32::try_from(status).expect("a status"));
    }
}

/// After a DISCONNECT nothing can have run, nor if only the channel was pipelined.
#[test]
fn a_server_that_dies_behind_the_login_is_asked_again_where_nothing_can_have_run() {
    let goodbye = |adversary: &mut Adversary<Tcp>| {
        adversary.say(&Disconnect {
            reason: 2,
            description: b"Channel not open",
            language: b"",
        });
    };
    let scratch = Scratch::new();
    let die: Script<'_> = Box::new(|adversary| {
        ahead(adversary, OPENSSH, 6);
        grant(adversary);
        goodbye(adversary);
    });
    let serve: Script<'_> = Box::new(|adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        serve_in_steps(adversary, 5);
    });
    let outcome = client_through(&scratch, &ALIAS, vec![die, serve]);
    ended(&outcome, 5);
    // The cached profile is used.
    let outcome = client_at(&scratch, &ALIAS, |adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        serve_in_steps(adversary, 0);
    });
    ended(&outcome, 0);

    let scratch = Scratch::new();
    let outcome = client_at(&scratch, &ALIAS, |adversary| {
        ahead(adversary, OTHER, 2);
        grant(adversary);
        adversary.expect(90);
        serve_unstarted(adversary, 0);
    });
    ended(&outcome, 0);
    let die: Script<'_> = Box::new(|adversary| {
        ahead(adversary, OTHER, 3);
        grant(adversary);
    });
    let serve: Script<'_> = Box::new(|adversary| {
        exchange_as(adversary, OTHER, &Offer::default());
        serve_in_steps(adversary, 6);
    });
    let outcome = client_through(&scratch, &ALIAS, vec![die, serve]);
    ended(&outcome, 6);
}

/// A KEXINIT arrives in one piece with USERAUTH_SUCCESS: the client's messages are delayed, and get
/// other sequence numbers.
#[test]
fn a_late_answer_is_known_by_the_number_with_which_its_packet_left() {
    for offer in [Offer::default(), Offer::lax()] {
        let outcome = client_at(&Scratch::new(), &COMMAND, |adversary| {
            exchange_as(adversary, DROPBEAR, &offer);
            take_all(adversary, 2);
            let again = offer.payload(proto::Role::Server);
            let words = [
                accept().encode(),
                UserauthSuccess {}.encode(),
                again.clone(),
            ];
            let bytes = words.map(|payload| adversary.seal(&payload)).concat();
            adversary.send_bytes(&bytes);
            adversary.remember_kexinit(again);
            adversary.expect_kexinit();
            adversary.agree();
            adversary.newkeys();
            adversary.expect_newkeys();
            let left = take_numbered(adversary, &ALL[2..5]);
            adversary.say(&Unimplemented { sequence: left[0] });
            // The client opens it again, and sends its requests again.
            adversary.expect(90);
            serve_unstarted(adversary, 7);
        });
        ended(&outcome, 7);
    }
}

#[test]
fn a_server_that_answers_in_single_bytes_is_heard() {
    let outcome = client_at(&Scratch::new(), &COMMAND, |adversary| {
        adversary.subject.set_piece(1);
        ahead(adversary, OPENSSH, 6);
        grant(adversary);
        serve_started(adversary, 0, 2);
    });
    ended(&outcome, 2);
}

fn ext_info(algorithms: &str) -> Vec<u8> {
    let mut extensions = Vec::new();
    extensions.put_string(b"server-sig-algs");
    extensions.put_string(algorithms.as_bytes());
    ExtInfo {
        count: 1,
        extensions: Rest(&extensions),
    }
    .encode()
}

#[test]
fn ext_info_may_come_late_or_twice() {
    let outcome = client_at(&Scratch::new(), &COMMAND, |adversary| {
        ahead(adversary, OPENSSH, 6);
        adversary.send(&ext_info("ssh-ed25519"));
        adversary.say(&accept());
        adversary.send(&ext_info("ssh-ed25519,rsa-sha2-512"));
        adversary.say(&UserauthSuccess {});
        serve_started(adversary, 0, 0);
    });
    ended(&outcome, 0);
}

/// If both have arrived, the list after NEWKEYS decides which signature is made.
#[test]
fn the_list_behind_newkeys_is_heard_before_anything_is_signed() {
    for (list, expected) in [
        ("rsa-sha2-256", "rsa-sha2-256"),
        ("rsa-sha2-512,rsa-sha2-256", "rsa-sha2-512"),
    ] {
        let scratch = Scratch::new();
        let rsa = PrivateKey::generate(keys::KeySpec::Rsa { bits: 2048 }).expect("a key");
        let text = keys::private_file::write_openssh(&rsa, "rsa", None).expect("a key file");
        private(&scratch.write("identity", text.as_bytes()));
        let outcome = client_at(&scratch, &COMMAND, |adversary| {
            adversary.version = OPENSSH.into();
            adversary.hello();
            adversary.kexinit(&Offer::default());
            adversary.expect_kexinit();
            // The reply waits for the client, so the other messages have arrived when the client
            // reads.
            adversary.reply_and_more(&[ext_info(list)]);
            adversary.expect_newkeys();
            let all = take(adversary, 6);
            assert_eq!(numbers(&all), ALL);
            let request = UserauthRequest::decode(&all[1]).expect("a request");
            let mut reader = wire::Reader::new(request.method_fields.0);
            reader.bool().expect("a flag");
            assert_eq!(
                String::from_utf8_lossy(reader.string().expect("an algorithm")),
                expected
            );
            grant(adversary);
            serve_started(adversary, 0, 0);
        });
        ended(&outcome, 0);
    }
}

/// Like HPN-SSH with its own cipher: a key re-exchange right after the login.
#[test]
fn a_rekey_between_the_login_and_the_sessions_answers_is_gone_through() {
    let outcome = client_at(&Scratch::new(), &COMMAND, |adversary| {
        ahead(adversary, OPENSSH, 6);
        grant(adversary);
        adversary.exchange(&Offer::default());
        serve_started(adversary, 0, 5);
    });
    ended(&outcome, 5);
}

#[test]
fn nothing_goes_ahead_where_it_is_not_wanted() {
    let arguments = ["-oPipelineLogin=no", "user@127.0.0.1", "the command"];
    let outcome = client_at(&Scratch::new(), &arguments, |adversary| {
        exchange_as(adversary, OPENSSH, &Offer::default());
        serve_in_steps(adversary, 0);
    });
    ended(&outcome, 0);
}

/// A login with compression, in which only the signed request was pipelined; then `script` gets the
/// sequence numbers of the later messages.
fn compressed_login(script: impl FnOnce(&mut Adversary<Tcp>, &[u32]) + Send) -> Outcome {
    let arguments = ["-C", "-oLogLevel=FATAL", "user@127.0.0.1", "the command"];
    client_at(&Scratch::new(), &arguments, |adversary| {
        let offer = Offer {
            compression: "zlib@openssh.com".into(),
            ..Offer::default()
        };
        exchange_as(adversary, OPENSSH, &offer);
        take_all(adversary, 2);
        assert!(waits(adversary));
        grant(adversary);
        adversary.start_compression();
        // The client is logged in now, and reads on.
        let left = take_numbered(adversary, &ALL[2..]);
        script(adversary, &left);
    })
}

#[test]
fn nothing_goes_ahead_into_a_compressed_stream() {
    let outcome = compressed_login(|adversary, _| serve_started(adversary, 0, 0));
    ended(&outcome, 0);
}

/// A compressed packet gets its sequence number late; the answer to it is still recognised.
#[test]
fn a_request_that_is_not_understood_has_failed_in_a_compressed_stream_too() {
    let outcome = compressed_login(|adversary, left| {
        confirm(adversary, 0);
        adversary.say(&Unimplemented { sequence: left[1] });
        while adversary.next_payload().is_some() {}
    });
    ended(&outcome, 255);
    assert!(
        said(&outcome).contains("exec request failed on channel 0"),
        "{}",
        said(&outcome)
    );
}

#[test]
fn dropbear_gets_the_session_with_a_key_that_it_took_before() {
    let scratch = Scratch::new();
    let alias = ["-oHostKeyAlias=adversary", "user@127.0.0.1", "the command"];
    for count in [2, 5] {
        let outcome = client_at(&scratch, &alias, |adversary| {
            exchange_as(adversary, DROPBEAR, &Offer::default());
            // The server does not support `no-more-sessions`.
            take_all(adversary, count);
            assert!(waits(adversary));
            grant(adversary);
            if count == 2 {
                // The client is logged in now, and reads on.
                take_numbered(adversary, &ALL[2..5]);
            }
            serve_started(adversary, 0, 0);
        });
        ended(&outcome, 0);
    }
}

fn private(path: &std::path::Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(path, mode).expect("its mode");
}
