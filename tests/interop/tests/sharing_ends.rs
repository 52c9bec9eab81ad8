//! Connection sharing where a master's time is over, where it has lost its server, and where its user
//! refuses.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use interop::peers::ours::Kind;
use interop::process::{Background, Input, descendants};
use interop::report::{is_whole_run, skipped};
use interop::scratch::until;
use interop::shared::{LIMIT, Shared, assert_has, assert_is, each, ours};
use interop::site::{HOST, finish};
use rustix::process::{Pid, Signal, kill_process};

/// Passengers that come at once when the master's time is over.
const AT_ONCE: usize = 3;

#[test]
fn commands_at_the_end_of_a_masters_time_run_once() {
    let shared = ours("MaxStartups 100\n");
    let rounds = if is_whole_run() { 100 } else { 4 };
    for round in 0..rounds {
        let start = |number: usize| {
            let log = shared.folder.join(&format!("log.{round}.{number}"));
            let order = format!("echo ran >> {}; echo done", log.display());
            let mut command = shared.master("ControlMaster auto\nControlPersist 1\n");
            command
                .args([HOST, &order])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            (log, command.spawn().expect("ssh"))
        };
        let ends = |(log, child): (std::path::PathBuf, std::process::Child)| {
            let output = child.wait_with_output().expect("its end");
            let ran = fs::read_to_string(&log).unwrap_or_default();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let found = (output.status.code(), output.stdout, ran.as_str());
            assert_eq!(found, (Some(0), b"done\n".to_vec(), "ran\n"), "{said}");
        };
        ends(start(0));
        let moment = Duration::from_millis(960 + round * 13 % 60);
        thread::sleep(moment);
        let all: Vec<_> = (1..=AT_ONCE).map(start).collect();
        all.into_iter().for_each(ends);
    }
    assert!(until(LIMIT, || !shared.path().exists()), "a master stays");
}

fn signal(processes: &[u32], signal: Signal) {
    for pid in processes {
        let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
        let _ = kill_process(pid.expect("a process"), signal);
    }
}

#[test]
fn a_master_without_its_server_costs_one_login_and_the_command_runs_once() {
    let shared = ours("");
    let master = shared.start("");
    assert_is(&shared.ride(&[HOST, "echo on"], Input::Nothing), 0, "on\n");
    let listener = shared.site.running.daemon.pid();
    let mut server = descendants(listener);
    server.retain(|pid| *pid != listener);
    assert!(!server.is_empty());
    signal(&server, Signal::STOP);
    // Longer than a server may be silent before it is asked for a sign of life.
    thread::sleep(Duration::from_millis(5300));
    let log = shared.folder.join("log");
    let order = format!("echo ran >> {}; echo done", log.display());
    let begin = Instant::now();
    let outcome = shared.ride(&[HOST, &order], Input::Nothing);
    signal(&server, Signal::CONT);
    assert_is(&outcome, 0, "done\n");
    assert_has(&outcome, "does not answer");
    assert!(begin.elapsed() < LIMIT);
    // The server goes on, and the master with it.
    let rides = || shared.ride(&[HOST, "echo on"], Input::Nothing);
    assert!(until(LIMIT, || rides().stderr.length == 0));
    assert_eq!(fs::read_to_string(&log).unwrap(), "ran\n");
    shared.ends(master);
}

#[test]
fn a_passenger_of_openssh_hears_that_the_user_refuses() {
    if Kind::OpenSsh.ssh().is_err() {
        return skipped("openssh", &"it is not installed");
    }
    let shared = Shared::new(Kind::Fulmar, Kind::OpenSsh, Kind::Fulmar, "");
    let master = shared.start_asking("no");
    // It logs in by itself.
    let outcome = shared.ride(&[HOST, "echo ran"], Input::Nothing);
    assert_is(&outcome, 0, "ran\n");
    assert_has(&outcome, "Permission denied");
    for word in ["stop", "exit"] {
        let refused = shared.ask(word, &[]);
        assert_has(&refused, "Permission denied");
    }
    let forward = shared.ask("forward", &["-L", "1:127.0.0.1:1"]);
    assert_eq!(forward.status, 255, "{}", forward.summary());
    assert_has(&forward, "Permission denied");
    drop(master);
}

#[test]
fn with_autoask_the_user_is_asked_for_each_session() {
    let shared = ours("");
    let (answer, asked) = (shared.folder.join("answer"), shared.folder.join("asked"));
    let text = format!(
        "#!/bin/sh\necho \"$1\" >>'{}'\ncat '{}'\n",
        asked.display(),
        answer.display()
    );
    let helper = shared.folder.write("askpass", text);
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).expect("chmod");
    let rides = |answers: &str| {
        fs::write(&answer, answers).expect("the answer");
        let mut command = shared.master("ControlMaster autoask\nControlPersist 60\n");
        command
            .env("SSH_ASKPASS", &helper)
            .env("DISPLAY", ":9")
            .args([HOST, "echo in"]);
        finish(&mut command, Input::Nothing)
    };
    let questions = || {
        fs::read_to_string(&asked)
            .unwrap_or_default()
            .lines()
            .count()
    };
    let logins = || {
        let log = shared.site.running.daemon.log();
        log.matches("Accepted publickey").count()
    };
    assert_is(&rides("yes\n"), 0, "in\n");
    let before = questions();
    assert_is(&rides("yes\n"), 0, "in\n");
    assert!(questions() > before, "nobody was asked");
    assert_eq!(logins(), 1);
    // Refused, it logs in by itself.
    let refused = rides("no\n");
    assert_is(&refused, 0, "in\n");
    assert_has(&refused, "Permission denied");
    assert_eq!(logins(), 2);
    fs::write(&answer, "yes\n").expect("the answer");
    assert_eq!(shared.ask("exit", &[]).status, 0);
    assert!(until(LIMIT, || !shared.path().exists()), "the master stays");
}

#[test]
fn a_passenger_in_proxy_mode_that_stops_at_times_gets_everything() {
    const BYTES: u64 = 160 << 20;
    each(|shared| {
        // The window of OpenSSH's is 2 MiB, so this would take long and show nothing.
        if shared.passenger == Kind::OpenSsh {
            return;
        }
        let master = shared.start("");
        let mut command = shared.command();
        command
            .args(["-O", "proxy", HOST, &format!("head -c {BYTES} /dev/zero")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut passenger = Background::start(&mut command).expect("ssh");
        let mut output = passenger.0.stdout.take().expect("a pipe");
        let reader = thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let pid = [passenger.0.id()];
        // The window opens by the time that an answer takes.
        while !reader.is_finished() {
            thread::sleep(Duration::from_millis(50));
            signal(&pid, Signal::STOP);
            thread::sleep(Duration::from_millis(100));
            signal(&pid, Signal::CONT);
        }
        let read = reader.join().expect("a reader").expect("its bytes");
        let ended = interop::process::wait(&mut passenger.0, LIMIT).expect("its end");
        assert_eq!((read, ended.code()), (BYTES, Some(0)));
        shared.ends(master);
    });
}
