//! Metrics (MetricsListen, MetricsFile): what is counted, who may write it, requests that are none,
//! and the parsers of Prometheus as judges of the texts.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use interop::process::{Input, installed, run};
use interop::report::skipped;
use interop::scratch::{Scratch, free_port, until};
use privsep_tests::facts::Facts;
use privsep_tests::sshd::{Config, LIMIT, Sshd, UserKey, guest_with, possible};
use sys::signals::Signal;

/// A server with both places of metrics.
struct Measured {
    server: Sshd,
    folder: Scratch,
}

impl Measured {
    fn start(more: &str) -> Self {
        let folder = Scratch::new();
        let socket = folder.join("metrics.sock");
        let file = folder.join("sshd.prom");
        let first = format!(
            "MetricsListen {}\nMetricsFile {}\n{more}",
            socket.display(),
            file.display()
        );
        let server = Sshd::start(Config::new(&first));
        // It listens for logins first.
        let listens = until(LIMIT, || UnixStream::connect(&socket).is_ok());
        assert!(listens, "{}", server.daemon.log());
        Self { server, folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("metrics.sock")
    }

    fn connection(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).expect("the socket");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        stream
    }

    /// The text of the metrics.
    fn text(&self) -> String {
        let mut stream = self.connection();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, text) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert!(
            head.contains(&format!("\r\nContent-Type: {kind}\r\n")),
            "{head}"
        );
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", text.len())));
        text.to_owned()
    }

    fn value(&self, sample: &str) -> f64 {
        let text = self.text();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{sample} ")));
        let line = line.unwrap_or_else(|| panic!("no {sample}:\n{text}"));
        line.parse().expect("a number")
    }

    fn reaches(&self, sample: &str, value: f64) {
        let found = until(LIMIT, || self.value(sample) >= value);
        assert!(
            found,
            "{sample} is {}\n{}",
            self.value(sample),
            self.server.daemon.log()
        );
    }
}

#[test]
fn what_happens_is_counted() {
    if !possible("metrics") {
        return;
    }
    let (key, other) = (UserKey::new(71), UserKey::new(72));
    let guest = guest_with("", &key);
    let measured = Measured::start("PerSourcePenalties authfail:90s min:1s");
    let server = &measured.server;
    assert_eq!(measured.value("fulmar_sshd_sessions"), 0.0);
    let attempts = |method: &str, outcome: &str| {
        format!("fulmar_sshd_attempts_total{{method=\"{method}\",outcome=\"{outcome}\"}}")
    };
    let mut command = server.ssh(&guest.name, &[&key]);
    let port = server.daemon.port;
    let mut session = command
        .args(["-N", "-o", "ExitOnForwardFailure=yes", "-L"])
        .arg(format!("{}:127.0.0.1:{port}", free_port()))
        .arg("127.0.0.1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ssh");
    measured.reaches("fulmar_sshd_sessions", 1.0);
    session.kill().expect("a signal to it");
    session.wait().expect("its end");
    // A session with enough data for a rekey, which does not end before that.
    let options = ["-o", "RekeyLimit=64K"];
    let command = "head -c 300000 /dev/zero; sleep 2";
    let outcome = server.run_with(&guest.name, &[&key], &options, command);
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    measured.reaches("fulmar_sshd_connections_total{end=\"logged_in\"}", 2.0);
    measured.reaches("fulmar_sshd_login_seconds_count", 2.0);
    measured.reaches("fulmar_sshd_channels_total{type=\"session\"}", 1.0);
    measured.reaches(
        "fulmar_sshd_network_bytes_total{direction=\"sent\"}",
        300_000.0,
    );
    measured.reaches(
        "fulmar_sshd_network_bytes_total{direction=\"received\"}",
        500.0,
    );
    measured.reaches("fulmar_sshd_rekeys_total", 1.0);
    assert_eq!(measured.value(&attempts("publickey", "accepted")), 2.0);
    let ended = until(LIMIT, || measured.value("fulmar_sshd_sessions") == 0.0);
    assert!(ended, "{}", measured.text());
    assert_eq!(measured.value("fulmar_sshd_startups"), 0.0);
    server.keeps_out(&guest.name, &other);
    measured.reaches(
        "fulmar_sshd_connections_total{end=\"authentication_failed\"}",
        1.0,
    );
    measured.reaches("fulmar_sshd_penalties_total{offence=\"authfail\"}", 1.0);
    assert_eq!(server.run_command(&guest.name, &key, "true").status, 255);
    measured.reaches(
        "fulmar_sshd_refused_connections_total{reason=\"penalty\"}",
        1.0,
    );
    let text = measured.text();
    for word in [guest.name.as_str(), "127.0.0.1"] {
        assert!(!text.contains(word), "{word} in\n{text}");
    }
    drop(text);
    // A reload keeps what was counted.
    server.hang_up();
    server.logs("Received SIGHUP");
    assert_eq!(measured.value(&attempts("publickey", "accepted")), 2.0);
}

#[test]
fn the_parsers_of_prometheus_read_both_texts() {
    if !possible("the texts of the metrics") {
        return;
    }
    let measured = Measured::start("");
    let key = UserKey::new(73);
    let guest = guest_with("", &key);
    measured.server.lets_in(&guest.name, &key);
    let file = measured.folder.join("sshd.prom");
    let complete =
        || fs::read_to_string(&file).is_ok_and(|text| text.contains("\nfulmar_sshd_sessions "));
    assert!(until(LIMIT, complete), "{}", measured.server.daemon.log());
    match installed("promtool") {
        Some(promtool) => {
            let mut command = Command::new(promtool);
            command.args(["check", "metrics"]);
            let text = fs::read(&file).expect("the file");
            let outcome = run(&mut command, Input::Bytes(&text), LIMIT).expect("promtool");
            assert_eq!(outcome.status, 0, "{}", outcome.summary());
        }
        None => skipped("MetricsFile by promtool", &"not installed"),
    }
    let script = "import sys\n\
                  from prometheus_client.openmetrics.parser import text_string_to_metric_families\n\
                  print(len(list(text_string_to_metric_families(sys.stdin.read()))))\n";
    // The system's Python, which has Debian's packages, need not be the first one.
    let has_library = |python: &&str| {
        Command::new(python)
            .args(["-c", "import prometheus_client"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let pythons = ["python3", "/usr/bin/python3"];
    if let Some(python) = pythons.into_iter().find(has_library) {
        let text = measured.text();
        let mut command = Command::new(python);
        command.args(["-c", script]);
        let outcome = run(&mut command, Input::Bytes(text.as_bytes()), LIMIT).expect("python3");
        assert_eq!(outcome.stdout.text().trim(), "11", "{}", outcome.summary());
    } else {
        skipped("MetricsListen by prometheus_client", &"not installed");
    }
    // The end of the server removes both.
    let (socket, folder) = (measured.socket(), measured.folder);
    let pid = i32::try_from(measured.server.daemon.pid()).expect("a pid");
    let listener = sys::process::PidFd::open(pid).expect("the listener");
    listener.signal(Signal::TERM).expect("a signal to it");
    let gone = || !socket.exists() && !Path::exists(&file);
    assert!(until(LIMIT, gone), "{:?}", fs::read_dir(folder.path()));
}

#[test]
fn the_test_of_a_configuration_names_places_without_metrics() {
    if !possible("places of metrics") {
        return;
    }
    let folder = Scratch::new();
    let server = Sshd::start(Config::new(""));
    let tested = |line: &str| {
        server.rewrite(Config::new(line));
        let outcome = server.test_configuration();
        (outcome.status, outcome.stderr.text())
    };
    let folder_path = folder.path().display();
    let (file, gone) = (folder.join("sshd.prom"), folder.join("gone/sshd.prom"));
    for (path, said) in [
        (folder.path(), ": is a directory\n"),
        (&gone, "/gone: No such file or directory\n"),
        (&file, ""),
    ] {
        let (status, text) = tested(&format!("MetricsFile {}", path.display()));
        let line = text.lines().find(|line| line.contains("MetricsFile"));
        let ends = line.map(|line| format!("{line}\n").ends_with(said));
        assert_eq!(
            (status, ends),
            (0, (!said.is_empty()).then_some(true)),
            "{text}"
        );
    }
    let (status, text) = tested(&format!("MetricsListen {folder_path}/{}", "x".repeat(108)));
    assert_eq!(status, 255, "{text}");
    assert!(text.contains("a path of more than 107 bytes"), "{text}");
}

#[test]
fn those_who_ask_oddly_hold_nobody_up() {
    if !possible("odd requests for metrics") {
        return;
    }
    let key = UserKey::new(74);
    let guest = guest_with("", &key);
    let measured = Measured::start("");
    let silent: Vec<UnixStream> = (0..200).map(|_| measured.connection()).collect();
    let mut slow = measured.connection();
    slow.write_all(b"GET /met").expect("a part");
    let mut large = measured.connection();
    // The server may answer and close before all of it is written.
    let _ = large.write_all(&[b'x'; 100_000]);
    let said = |bytes: &[u8]| {
        let mut stream = measured.connection();
        // The server may refuse and close before all of it is written.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    // A request that comes while the reader has its hands full is refused, and asks again.
    let found = until(LIMIT, || {
        let answer = said(b"GET / HTTP/1.0\r\n\r\n");
        let is_refused = answer.starts_with("HTTP/1.0 503 ");
        assert!(
            is_refused || answer.starts_with("HTTP/1.0 404 "),
            "{answer:?}"
        );
        !is_refused
    });
    assert!(found);
    assert!(said(b"\0\0\0\r\n\r\n").starts_with("HTTP/1.0 400 "));
    assert_eq!(said(b""), "");
    measured.server.lets_in(&guest.name, &key);
    measured.reaches("fulmar_sshd_connections_total{end=\"logged_in\"}", 1.0);
    // Those who say nothing are closed after 5 seconds, or refused if they came too fast.
    for mut stream in silent {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let is_refused = answer.starts_with(b"HTTP/1.0 503 ");
        assert!(answer.is_empty() || is_refused, "{answer:?}");
    }
}

#[test]
fn a_reader_that_takes_nothing_is_no_reason_for_silence() {
    if !possible("a reader that is stopped") {
        return;
    }
    let measured = Measured::start("");
    measured.text();
    let is_reader = |facts: &Facts| facts.command_line.starts_with("fulmar sshd-reader");
    let reader = measured.server.processes().into_iter().find(is_reader);
    let pid = i32::try_from(reader.expect("the reader").pid).expect("a pid");
    let reader = sys::process::PidFd::open(pid).expect("the reader");
    reader.signal(Signal::STOP).expect("a signal to it");
    // The reader's socket has space for some of them.
    let mut asked: Vec<UnixStream> = Vec::new();
    let mut refused = Vec::new();
    while refused.is_empty() && asked.len() < 1000 {
        let mut stream = measured.connection();
        // The listener may have refused it already.
        let _ = stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n");
        stream.set_nonblocking(true).expect("a socket");
        asked.push(stream);
        for stream in &mut asked {
            // The end of one that is refused may be a reset.
            let _ = stream.read_to_end(&mut refused);
        }
    }
    reader.signal(Signal::CONT).expect("a signal to it");
    let refused = String::from_utf8_lossy(&refused);
    assert!(refused.starts_with("HTTP/1.0 503 "), "{refused:?}");
    let (head, body) = refused.split_once("\r\n\r\n").expect("a head");
    // More than one may have been refused in the last turn.
    let body = body.split("HTTP/1.0 503 ").next().unwrap_or_default();
    let length = format!("\r\nContent-Length: {}\r\n", body.len());
    assert!(head.contains(&length), "{refused:?}");
    // It answers the others first.
    let is_served = || {
        let mut stream = measured.connection();
        let _ = stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer.starts_with(b"HTTP/1.0 200 ")
    };
    assert!(until(LIMIT, is_served), "{}", measured.server.daemon.log());
}

#[test]
fn without_descriptors_the_listener_waits() {
    if !possible("a listener without descriptors") {
        return;
    }
    let Some(prlimit) = installed("prlimit") else {
        return skipped("a listener without descriptors", &"no prlimit");
    };
    let measured = Measured::start("PreauthSpares 0");
    measured.text();
    let pid = measured.server.daemon.pid();
    let listener = || Facts::of(pid).expect("the listener");
    let limit_to = |soft: &str| {
        let mut command = Command::new(&prlimit);
        command.args(["--pid", &pid.to_string(), &format!("--nofile={soft}:")]);
        let outcome = run(&mut command, Input::Nothing, LIMIT).expect("prlimit");
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
    };
    let (before, _) = listener().limit("Max open files");
    let open = listener().descriptors;
    let free = (0..).find(|number| !open.contains_key(number));
    limit_to(&free.expect("a number").to_string());
    let mut waiting = measured.connection();
    waiting
        .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
        .expect("a request");
    measured.server.logs("MetricsListen: accept: ");
    // A process that spins never waits.
    let waits = || listener().number("voluntary_ctxt_switches");
    let begun = waits();
    let has_waited = until(LIMIT, || waits() >= begun + 5);
    limit_to(&before);
    assert!(has_waited, "{}", measured.server.daemon.log());
    let mut answer = String::new();
    waiting.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n"), "{answer}");
    // It has failed more than five times, and the log has a line for each minute.
    let log = measured.server.daemon.log();
    let lines = log.matches("MetricsListen: accept: ").count();
    assert!(lines <= 2, "{log}");
}

#[test]
fn a_place_is_taken_when_it_is_free_without_a_reload() {
    if !possible("a place for metrics that another server has") {
        return;
    }
    let folder = Scratch::new();
    let path = folder.join("metrics.sock");
    let other = UnixListener::bind(&path).expect("a socket");
    let line = format!("MetricsListen {}", path.display());
    let server = Sshd::start(Config::new(&line));
    server.logs("another server may be listening there");
    let is_served = || {
        let Ok(mut stream) = UnixStream::connect(&path) else {
            return false;
        };
        let _ = stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer.starts_with(b"HTTP/1.0 200 ")
    };
    drop(other);
    assert!(until(LIMIT, is_served), "{}", server.daemon.log());
    server.logs("metrics.sock: listening");
    // Nor is one needed when its file was removed.
    fs::remove_file(&path).expect("its end");
    assert!(until(LIMIT, is_served), "{}", server.daemon.log());
    server.logs("metrics.sock: the socket's file has gone");
}

#[test]
fn only_monitors_can_report_and_the_text_is_made_for_its_reader_alone() {
    if !possible("the processes of metrics") {
        return;
    }
    let key = UserKey::new(75);
    let guest = guest_with("", &key);
    let measured = Measured::start("");
    let server = &measured.server;
    measured.text();
    let mut command = server.ssh(&guest.name, &[&key]);
    let mut session = command
        .args(["127.0.0.1", "exec sleep 600"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ssh");
    let named = |name: &str| -> Vec<Facts> {
        let all = server.processes().into_iter();
        all.filter(|facts| facts.command_line.contains(name))
            .collect()
    };
    assert!(
        until(LIMIT, || !named("sleep 600").is_empty()),
        "{}",
        server.daemon.log()
    );
    let listener = Facts::of(server.daemon.pid()).expect("the listener");
    // Below are those of standard streams, which may be the log's.
    let pipes = |facts: &Facts| -> Vec<String> {
        let all = facts.descriptors.range(3..).map(|(_, target)| target);
        all.filter(|target| target.starts_with("pipe:"))
            .cloned()
            .collect()
    };
    let ours = pipes(&listener);
    let shares = |facts: &Facts| pipes(facts).iter().any(|pipe| ours.contains(pipe));
    let all = server.processes();
    let (monitors, others): (Vec<&Facts>, Vec<&Facts>) =
        all.iter().partition(|facts| facts.uid() == 0);
    assert!(monitors.into_iter().any(shares), "{all:#?}");
    // The session process, its command and the reader.
    assert!(others.len() >= 3, "{all:#?}");
    for facts in others {
        assert!(!shares(facts), "{facts:#?}");
    }
    let reader = named("sshd-reader").pop().expect("the reader");
    assert_eq!(reader.number("Seccomp"), 2);
    assert_ne!(reader.uid(), 0);
    session.kill().expect("a signal to it");
    session.wait().expect("its end");
}

#[test]
fn a_loopback_address_serves_them_and_a_reload_moves_them() {
    if !possible("metrics at a loopback address") {
        return;
    }
    let (first, second) = (free_port(), free_port());
    let line = |port: u16| format!("MetricsListen 127.0.0.1:{port}");
    let server = Sshd::start(Config::new(&line(first)));
    let asked = |port: u16| -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(LIMIT)).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    // It listens for logins first.
    let is_served = || asked(first).is_some_and(|answer| answer.ends_with("# EOF\n"));
    assert!(until(LIMIT, is_served), "{}", server.daemon.log());
    server.rewrite(Config::new(&line(second)));
    server.hang_up();
    assert!(
        until(LIMIT, || asked(second).is_some()),
        "{}",
        server.daemon.log()
    );
    assert!(until(LIMIT, || asked(first).is_none()));
    server.rewrite(Config::new("MetricsListen 192.0.2.1:9222"));
    server.hang_up();
    server.logs("the old configuration stays in use");
    assert!(asked(second).is_some());
    server.rewrite(Config::default());
    server.hang_up();
    assert!(
        until(LIMIT, || asked(second).is_none()),
        "{}",
        server.daemon.log()
    );
}
