//! Masters that end or stop at each point of a passenger's way: a command never runs twice, and none is lost
//! in silence.

use std::fs;
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use interop::peers::ours::Kind;
use interop::process::{Background, Input};
use interop::scratch::until;
use interop::shared::{LIMIT, Shared, assert_has, assert_is, ours, packet, read_packet};
use interop::site::{HOST, program};
use rustix::process::{Pid, Signal, kill_process};

/// What a false master does not read or write any more: it closes the passenger's socket before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// The request.
    Request,
    /// The three descriptors after the message of the request.
    Descriptors,
    /// The last descriptor.
    LastDescriptor,
    /// The answer that the session is open.
    Answer,
    /// The exit status.
    Status,
}

/// A master of one passenger, which runs nothing.
fn false_master(shared: &Shared, cut: Cut) -> JoinHandle<()> {
    let listener = UnixListener::bind(shared.path()).expect("a socket");
    let path = shared.path();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a passenger");
        // Whoever logs in finds nothing here.
        fs::remove_file(path).expect("the socket");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        assert_eq!(read_packet(&mut stream), b"\0\0\0\x01\0\0\0\x04");
        let alive = read_packet(&mut stream);
        assert_eq!(alive[..4], *b"\x10\0\0\x04");
        let hello = packet(&[b"\0\0\0\x01\0\0\0\x04"]);
        let answer = packet(&[b"\x80\0\0\x05", &alive[4..], &[0, 0, 0x10, 0]]);
        stream.write_all(&[hello, answer].concat()).expect("sent");
        cut_off(stream, cut);
    })
}

fn cut_off(mut stream: UnixStream, cut: Cut) {
    let read = match cut {
        Cut::Request => {
            // All of it has arrived.
            let arrived = || sys::socket::peek(&stream, &mut [0; 8]).is_ok_and(|count| count > 0);
            assert!(until(LIMIT, arrived));
            return;
        }
        Cut::Descriptors => 0,
        Cut::LastDescriptor => 2,
        Cut::Answer | Cut::Status => 3,
    };
    let request = read_packet(&mut stream);
    assert_eq!(request[..4], *b"\x10\0\0\x02");
    for _ in 0..read {
        let got = sys::socket::recv_with_fds(&stream, &mut [0], 1).expect("a descriptor");
        assert_eq!((got.len, got.fds.len()), (1, 1));
    }
    if read < 3 {
        let arrived = || sys::socket::peek(&stream, &mut [0]).is_ok_and(|count| count > 0);
        assert!(until(LIMIT, arrived));
    }
    if cut == Cut::Status {
        let opened = packet(&[b"\x80\0\0\x06", &request[4..8], b"\0\0\0\x01"]);
        stream.write_all(&opened).expect("sent");
    }
}

#[test]
fn a_master_that_ends_at_any_point_costs_a_login_or_says_that_the_command_may_have_run() {
    let shared = ours("");
    for (cut, logs_in, words) in [
        (Cut::Request, true, "ended before it took"),
        (Cut::Descriptors, true, "ended before it took"),
        (Cut::LastDescriptor, true, "ended before it took"),
        (Cut::Answer, false, "the command may have run"),
        (Cut::Status, false, "without an exit status"),
    ] {
        let log = shared.folder.join(&format!("log.{cut:?}"));
        let order = format!("echo ran >> {}; echo done; exit 3", log.display());
        let master = false_master(&shared, cut);
        let outcome = shared.ride(&[HOST, &order], Input::Nothing);
        master.join().expect("the master");
        let ran = fs::read_to_string(&log).unwrap_or_default();
        match logs_in {
            true => {
                assert_is(&outcome, 3, "done\n");
                assert_eq!(ran, "ran\n", "{cut:?}");
            }
            false => {
                assert_is(&outcome, 255, "");
                assert_eq!(ran, "", "{cut:?}");
            }
        }
        assert_has(&outcome, words);
    }
}

/// Starts a command through the master that does not end, and waits until it runs.
fn endless(shared: &Shared) -> Background {
    let mark = shared.folder.join("mark");
    let order = format!("echo ran >> {}; exec sleep 60", mark.display());
    let mut command = shared.command();
    command
        .args([HOST, &order])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let client = Background::start(&mut command).expect("ssh");
    let runs = || fs::read_to_string(&mark).is_ok_and(|text| text == "ran\n");
    assert!(until(LIMIT, runs));
    client
}

/// What the client has said when it ends, which it does with 255.
fn last_words(mut client: Background) -> String {
    let stderr = client.0.stderr.take().expect("its errors");
    let ended = interop::process::wait(&mut client.0, LIMIT).expect("its end");
    assert_eq!(ended.code(), Some(255));
    std::io::read_to_string(stderr).expect("its words")
}

#[test]
fn a_command_whose_master_is_killed_or_asked_to_end_is_not_lost_in_silence() {
    for (master, kills) in [
        (Kind::Fulmar, true),
        (Kind::Fulmar, false),
        (Kind::OpenSsh, true),
    ] {
        if master.ssh().is_err() {
            interop::report::skipped("openssh", &"it is not installed");
            continue;
        }
        let shared = Shared::new(master, Kind::Fulmar, Kind::Fulmar, "");
        let mut running = shared.start("");
        let client = endless(&shared);
        match kills {
            true => running.0.kill().expect("kill"),
            false => assert_eq!(shared.ask("exit", &[]).status, 0),
        }
        assert!(interop::process::wait(&mut running.0, LIMIT).is_ok());
        let words = last_words(client);
        // The command may run before its passenger has heard that it does.
        let said = ["without an exit status", "the command may have run"];
        assert!(said.iter().any(|text| words.contains(text)), "{words:?}");
        let ran = fs::read_to_string(shared.folder.join("mark")).expect("the mark");
        assert_eq!(ran, "ran\n");
    }
}

#[test]
fn a_master_that_goes_on_is_not_blamed_for_the_end_of_a_command() {
    let shared = ours("");
    let mut running = shared.start("");
    let asked = shared.ride(&[HOST, "kill -9 $$"], Input::Nothing);
    assert_is(&asked, 255, "");
    assert!(
        !asked.stderr.text().contains("master"),
        "{}",
        asked.summary()
    );
    assert_eq!(shared.ask("exit", &[]).status, 0);
    assert!(interop::process::wait(&mut running.0, LIMIT).is_ok());
}

#[test]
fn a_request_that_the_server_refuses_is_told_to_the_passenger() {
    let shared = ours("");
    let mut first = shared.master("ControlMaster auto\nControlPersist 60\n");
    first.args([HOST, "true"]);
    let first = interop::site::finish(&mut first, Input::Nothing);
    assert_is(&first, 0, "");
    let asked = shared.ride(&["-s", HOST, "no-such-subsystem"], Input::Nothing);
    assert_is(&asked, 255, "");
    assert_has(&asked, "subsystem request failed on channel");
    // The master goes on.
    let next = shared.ride(&[HOST, "echo next"], Input::Nothing);
    assert_is(&next, 0, "next\n");
    assert_eq!(shared.ask("exit", &[]).status, 0);
    assert!(until(LIMIT, || !shared.path().exists()));
}

fn signal(process: &Background, signal: Signal) {
    kill_process(Pid::from_child(&process.0), signal).expect("a process");
}

/// Our `scp` by the master, to this place, at this many Kbit/s.
fn copy(shared: &Shared, from: &Path, to: &Path, rate: &str) -> Command {
    let mut command = program(&shared.site, "scp");
    command
        .args(["-q", "-l", rate, "-o"])
        .arg(format!("ControlPath={}", shared.path().display()))
        .arg(format!("{HOST}:{}", from.display()))
        .arg(to)
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    command
}

#[test]
fn a_copy_outlasts_a_master_that_stops_and_fails_in_words_when_it_ends() {
    let shared = ours("Subsystem sftp internal-sftp\n");
    let bytes = interop::matrix::noise(8 << 20);
    let from = shared.folder.write("from", &bytes);
    let to = shared.folder.join("to");
    for ends in [false, true] {
        let _ = fs::remove_file(&to);
        let mut master = shared.start("");
        // Four seconds, or a minute, if nothing happens.
        let rate = if ends { "1000" } else { "16000" };
        let mut client = Background::start(&mut copy(&shared, &from, &to, rate)).expect("scp");
        assert!(until(LIMIT, || to.exists()), "no copy has begun");
        signal(&master, Signal::STOP);
        // The passenger waits meanwhile.
        thread::sleep(Duration::from_millis(300));
        signal(&master, if ends { Signal::KILL } else { Signal::CONT });
        let stderr = client.0.stderr.take().expect("its errors");
        let ended = interop::process::wait(&mut client.0, LIMIT).expect("its end");
        let words = std::io::read_to_string(stderr).expect("its words");
        if ends {
            assert!(ended.code().is_some_and(|code| code != 0), "{ended}");
            assert!(!words.is_empty());
            let _ = interop::process::wait(&mut master.0, LIMIT);
            let mut again = copy(&shared, &from, &to, "10000000");
            let again = interop::site::finish(&mut again, Input::Nothing);
            assert_eq!(again.status, 0, "{}", again.summary());
        } else {
            assert_eq!(ended.code(), Some(0), "{words}");
            shared.ends(master);
        }
        assert!(fs::read(&to).expect("the copy") == bytes);
    }
}
