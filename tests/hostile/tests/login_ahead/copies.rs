//! The first requests of `fulmar sftp`, which it sends with the login if the server is a Fulmar.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hostile::place::program_through;
use wire::message::{ChannelData, ChannelOpenFailure};

use super::*;

const FULMAR: &str = "SSH-2.0-Fulmar_9.9";
const SFTP: [&str; 3] = ["-v", "-oHostKeyAlias=adversary", "user@127.0.0.1"];
/// The messages of a client that pipelines its requests with the login.
const EARLY: [u8; 6] = [5, 50, 90, 98, 94, 80];
/// The messages of a client that does not.
const PLAIN: [u8; 5] = [5, 50, 90, 98, 80];
/// INIT, followed by the requests for limits and for the directory: their types and numbers.
const ASKED: [(u8, u32); 3] = [(1, 3), (200, 1), (16, 2)];
/// Time limit for a client to pipeline its requests: its threads have to meet for that.
const PATIENCE: Duration = Duration::from_secs(60);

fn sftp(scratch: &Scratch, scripts: Vec<Script<'_>>) -> Outcome {
    program_through("sftp", scratch, &SFTP, scripts)
}

/// The bytes of a message of SFTP.
fn message(kind: u8, fields: &[u8]) -> Vec<u8> {
    let mut payload = vec![kind];
    payload.extend_from_slice(fields);
    let mut out = Vec::new();
    out.put_string(&payload);
    out
}

/// Type and number (of INIT the version) of each message in `data`.
fn asked(mut data: &[u8]) -> Vec<(u8, u32)> {
    let mut all = Vec::new();
    while !data.is_empty() {
        let mut reader = wire::Reader::new(data);
        let payload = reader.string().expect("a whole message");
        data = reader.rest();
        let mut reader = wire::Reader::new(&payload[1..]);
        all.push((payload[0], reader.u32().expect("a number")));
    }
    all
}

/// The data of a message for this channel.
fn data_of(payload: &[u8], channel: u32) -> Vec<u8> {
    let data = ChannelData::decode(payload).expect("data");
    assert_eq!(data.recipient_channel, channel);
    data.data.to_vec()
}

fn say(adversary: &mut Adversary<Tcp>, data: &[u8]) {
    adversary.say(&ChannelData {
        recipient_channel: 0,
        data,
    });
}

fn version() -> Vec<u8> {
    message(2, &3u32.to_be_bytes())
}

/// The name of a directory, as the answer to the request with this number.
fn place(id: u32) -> Vec<u8> {
    let mut name = Vec::new();
    name.put_u32(id);
    name.put_u32(1);
    name.put_string(b"/place");
    name.put_string(b"");
    name.put_u32(0);
    message(104, &name)
}

/// No limits, and a directory.
fn answers() -> Vec<u8> {
    let mut status = Vec::new();
    status.put_u32(1);
    status.put_u32(8);
    status.put_string(b"");
    status.put_string(b"");
    [message(101, &status), place(2)].concat()
}

/// Answers all and waits for the end.
fn answer(adversary: &mut Adversary<Tcp>) {
    say(adversary, &[version(), answers()].concat());
    while adversary.next_payload().is_some() {}
}

fn started(adversary: &mut Adversary<Tcp>) {
    adversary.say(&ChannelSuccess {
        recipient_channel: 0,
    });
}

/// One login to an unknown Fulmar.
fn taught() -> Scratch {
    let scratch = Scratch::new();
    let outcome = sftp(
        &scratch,
        vec![Box::new(|adversary| {
            // Its version line may arrive soon enough.
            let asks = asks_early(adversary);
            grant(adversary);
            confirm(adversary, 0);
            started(adversary);
            if !asks {
                assert_eq!(asked(&data_of(&adversary.expect(94), 0)), ASKED);
            }
            answer(adversary);
        })],
    );
    attached(&outcome);
    scratch
}

fn attached(outcome: &Outcome) {
    ended(outcome, 0);
    assert!(
        said(outcome).contains("Connected to 127.0.0.1."),
        "{}",
        said(outcome)
    );
}

/// Serves a pipelined login to a Fulmar; returns true if the first requests arrived with it.
fn asks_early(adversary: &mut Adversary<Tcp>) -> bool {
    // The client's threads have to meet in this time, else no request is sent yet.
    std::thread::sleep(Duration::from_millis(50));
    exchange_as(adversary, FULMAR, &Offer::default());
    let mut all = take(adversary, 5);
    if numbers(&all) == PLAIN {
        return false;
    }
    all.extend(take(adversary, 1));
    assert_eq!(numbers(&all), EARLY);
    assert_eq!(asked(&data_of(&all[4], 0)), ASKED);
    true
}

/// Repeats logins of a client that knows the server until one pipelines its requests.
fn early(run: impl Fn(&Scratch, &AtomicBool) -> Outcome) -> (Scratch, Outcome) {
    let scratch = taught();
    let path = scratch.join("login_cache");
    let cache = fs::read(&path).expect("the cache");
    let until = Instant::now() + PATIENCE;
    loop {
        fs::write(&path, &cache).expect("the cache");
        let met = AtomicBool::new(false);
        let outcome = run(&scratch, &met);
        if met.load(Ordering::Relaxed) {
            return (scratch, outcome);
        }
        assert!(Instant::now() < until, "never: {}", said(&outcome));
    }
}

/// The same with one connection, on which this follows the first requests.
fn early_on_one(script: impl Fn(&mut Adversary<Tcp>) + Sync) -> (Scratch, Outcome) {
    early(|scratch, met| {
        let whole: Script<'_> = Box::new(|adversary| {
            if asks_early(adversary) {
                met.store(true, Ordering::Relaxed);
                script(adversary);
            }
        });
        sftp(scratch, vec![whole])
    })
}

/// The pipelined requests are sufficient, in one piece or in single bytes.
#[test]
fn what_is_asked_first_leaves_with_the_login() {
    for piece in [usize::MAX, 1] {
        let (_, outcome) = early_on_one(|adversary| {
            adversary.subject.set_piece(piece);
            assert!(waits(adversary));
            grant(adversary);
            confirm(adversary, 0);
            started(adversary);
            answer(adversary);
        });
        attached(&outcome);
    }
}

#[test]
fn under_another_number_it_is_asked_again() {
    let (_, outcome) = early_on_one(|adversary| {
        grant(adversary);
        confirm(adversary, 5);
        let again = adversary.expect(98);
        let request = ChannelRequest::decode(&again).expect("a request");
        assert_eq!(
            (request.name, request.recipient_channel),
            (&b"subsystem"[..], 5)
        );
        assert_eq!(asked(&data_of(&adversary.expect(94), 5)), ASKED);
        started(adversary);
        answer(adversary);
    });
    attached(&outcome);
}

#[test]
fn on_a_channel_that_is_opened_again_it_is_asked_again() {
    let (_, outcome) = early_on_one(|adversary| {
        let open = adversary.received - 3;
        grant(adversary);
        adversary.say(&Unimplemented { sequence: open });
        adversary.expect(90);
        confirm(adversary, 0);
        adversary.expect(98);
        assert_eq!(asked(&data_of(&adversary.expect(94), 0)), ASKED);
        started(adversary);
        answer(adversary);
    });
    attached(&outcome);
}

#[test]
fn a_login_that_fails_with_it_ends_as_ever() {
    let (_, outcome) = early_on_one(|adversary| {
        let last = adversary.received;
        adversary.say(&accept());
        adversary.send(&failure("publickey"));
        for sequence in last - 3..=last {
            adversary.say(&Unimplemented { sequence });
        }
        // `none` would be one more failure.
        assert!(adversary.next_payload().is_none());
        assert!(adversary.ends());
    });
    ended(&outcome, 255);
    let text = said(&outcome);
    assert!(text.contains("Permission denied (publickey)"), "{text}");
    assert!(text.ends_with("Connection closed\n"), "{text}");
}

#[test]
fn a_channel_that_is_refused_ends_as_ever() {
    let (_, outcome) = early_on_one(|adversary| {
        grant(adversary);
        adversary.say(&ChannelOpenFailure {
            recipient_channel: 0,
            reason: 4,
            description: b"none left",
            language: b"",
        });
        assert!(adversary.ends());
    });
    ended(&outcome, 255);
    assert!(said(&outcome).contains("none left"), "{}", said(&outcome));
}

/// The pipelined data exceed this window: a server with this version line and such a window is not
/// a Fulmar.
#[test]
fn a_window_that_does_not_pay_for_it_ends_the_connection() {
    let (_, outcome) = early_on_one(|adversary| {
        grant(adversary);
        adversary.say(&ChannelOpenConfirmation {
            recipient_channel: 0,
            sender_channel: 0,
            window: 10,
            max_packet: 32_768,
            fields: Rest(b""),
        });
        assert!(adversary.ends());
    });
    ended(&outcome, 255);
    let text = said(&outcome);
    assert!(text.contains("smaller than every Fulmar grants"), "{text}");
}

/// As with a command: the request may have been executed, and is not sent again because somebody
/// cut the connection. The next login does not pipeline.
#[test]
fn what_may_have_been_carried_out_is_not_asked_again() {
    for lets_in in [false, true] {
        let (scratch, outcome) = early_on_one(|adversary| {
            if lets_in {
                grant(adversary);
            }
            // The connection ends here; a second one would be refused.
        });
        ended(&outcome, 255);
        assert!(
            !said(&outcome).contains("more carefully"),
            "{}",
            said(&outcome)
        );
        attached(&sftp(&scratch, vec![Box::new(in_steps)]));
    }
}

/// Serves a client that waits for each answer, until it has the server's VERSION.
fn steps(adversary: &mut Adversary<Tcp>) {
    exchange_as(adversary, FULMAR, &Offer::default());
    adversary.expect(5);
    adversary.say(&accept());
    adversary.expect(50);
    adversary.say(&UserauthSuccess {});
    opens(adversary);
}

/// Opens the channel of a client that waits for each answer, and answers its INIT.
fn opens(adversary: &mut Adversary<Tcp>) {
    adversary.expect(90);
    confirm(adversary, 0);
    adversary.expect(98);
    started(adversary);
    // The server is known to accept each of these.
    assert_eq!(asked(&data_of(&adversary.expect(94), 0)), ASKED[..1]);
    assert!(waits(adversary));
    say(adversary, &version());
}

fn in_steps(adversary: &mut Adversary<Tcp>) {
    steps(adversary);
    assert_eq!(asked(&data_of(&adversary.expect(94), 0)), [(16, 1)]);
    say(adversary, &place(1));
    while adversary.next_payload().is_some() {}
}

/// After a DISCONNECT nothing was executed: a second connection is made, step by step, and the
/// requests of the first are sent on it, one after the other.
#[test]
fn a_server_that_says_goodbye_is_asked_again_with_more_care() {
    let (_, outcome) = early(|scratch, met| {
        let first: Script<'_> = Box::new(|adversary| {
            met.store(asks_early(adversary), Ordering::Relaxed);
            grant(adversary);
            adversary.say(&Disconnect {
                reason: 2,
                description: b"Channel not open",
                language: b"",
            });
        });
        let second: Script<'_> = Box::new(|adversary| {
            steps(adversary);
            let rest = data_of(&adversary.expect(94), 0);
            // Otherwise the requests were written for the second, once the first was logged in.
            if met.load(Ordering::Relaxed) {
                assert_eq!(asked(&rest), ASKED[1..]);
            }
            say(adversary, &answers());
            while adversary.next_payload().is_some() {}
        });
        sftp(scratch, vec![first, second])
    });
    attached(&outcome);
}

/// The host now has another server. A server that reads on gets everything once its channel is
/// open; for others this is unknown, and nothing follows INIT before the server has answered.
#[test]
fn another_server_than_was_expected_gets_what_it_takes() {
    for version_line in [OPENSSH, DROPBEAR] {
        let scratch = taught();
        let outcome = sftp(
            &scratch,
            vec![Box::new(|adversary| {
                exchange_as(adversary, version_line, &Offer::default());
                let reads_on = version_line == OPENSSH;
                take(adversary, if reads_on { 5 } else { 2 });
                assert!(waits(adversary));
                grant(adversary);
                if !reads_on {
                    take(adversary, 2);
                }
                confirm(adversary, 0);
                started(adversary);
                let data = data_of(&adversary.expect(94), 0);
                assert_eq!(asked(&data), ASKED, "{version_line}");
                answer(adversary);
            })],
        );
        attached(&outcome);
    }
    let scratch = taught();
    let outcome = sftp(
        &scratch,
        vec![Box::new(|adversary| {
            exchange_as(adversary, OTHER, &Offer::default());
            assert_eq!(numbers(&take(adversary, 2)), PLAIN[..2]);
            assert!(waits(adversary));
            grant(adversary);
            opens(adversary);
            let rest = asked(&data_of(&adversary.expect(94), 0));
            // The requests for a Fulmar or, if the login was faster, those for this server.
            if rest == ASKED[1..] {
                say(adversary, &answers());
            } else {
                assert_eq!(rest, [(16, 1)]);
                say(adversary, &place(1));
            }
            while adversary.next_payload().is_some() {}
        })],
    );
    attached(&outcome);
}

/// Only its version line is known, which arrives one flight before the last.
#[test]
fn a_fulmar_that_was_not_seen_before_is_asked_with_the_login_as_well() {
    let until = Instant::now() + PATIENCE;
    loop {
        let met = AtomicBool::new(false);
        let first: Script<'_> = Box::new(|adversary| {
            if asks_early(adversary) {
                met.store(true, Ordering::Relaxed);
                grant(adversary);
                confirm(adversary, 0);
                started(adversary);
                answer(adversary);
            }
        });
        let outcome = sftp(&Scratch::new(), vec![first]);
        if met.load(Ordering::Relaxed) {
            return attached(&outcome);
        }
        assert!(Instant::now() < until, "never: {}", said(&outcome));
    }
}
