//! Commands: their output, their input, their end.

use std::process::Stdio;

use interop::matrix::{noise, test_data};
use interop::peers::ours::Kind;
use interop::process::{Background, COMMAND_LIMIT, Input, descendants, kill, wait};
use interop::scratch::{free_port, is_listening, until};
use interop::site::{HOST, Site, each};

#[test]
fn every_exit_status_arrives() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let fast = client == Kind::Fulmar && server == Kind::Fulmar;
        let statuses: Vec<i32> = if fast {
            (0..=255).collect()
        } else {
            vec![0, 1, 2, 7, 126, 127, 128, 129, 137, 254, 255]
        };
        for status in statuses {
            let outcome = site.run(&format!("exit {status}"));
            assert_eq!(outcome.status, status, "{}", outcome.summary());
            assert_eq!(outcome.stdout.length, 0);
        }
    });
}

/// Only Fulmar has this option. The bytes are the same whether the kernel supports it or not.
#[test]
fn multipath_tcp_carries_a_session_where_the_kernel_has_it() {
    let has = std::fs::read_to_string("/proc/sys/net/mptcp/enabled");
    let has = has.is_ok_and(|text| text.trim() == "1");
    each(|client, server| {
        let asked = |kind| match kind {
            Kind::Fulmar => "UseMPTCP yes\nLogLevel DEBUG1\n",
            Kind::OpenSsh => "",
        };
        let site = Site::new(client, server, asked(server));
        let (path, digest) = test_data();
        let outcome = site.run_with(asked(client), &[HOST, "cat"], Input::File(path));
        assert_eq!(outcome.stdout.sha256, digest, "{}", outcome.summary());
        let without = "no Multipath TCP in this kernel";
        if client == Kind::Fulmar {
            let said = outcome.stderr.text();
            assert_eq!(said.contains(without), !has, "{said}");
        }
        if server == Kind::Fulmar {
            let said = site.running.daemon.log();
            assert_eq!(said.contains(without), !has, "{said}");
        }
    });
}

#[test]
fn a_command_that_does_not_exist_is_the_shells_matter() {
    each(|client, server| {
        let outcome = Site::new(client, server, "").run("there-is-no-such-command");
        assert_eq!(outcome.status, 127, "{}", outcome.summary());
        assert!(outcome.stderr.text().contains("there-is-no-such-command"));
    });
}

#[test]
fn a_signal_that_ends_the_command_is_255() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        for signal in ["TERM", "KILL", "SEGV"] {
            let outcome = site.run(&format!("echo before; kill -{signal} $$; sleep 60"));
            assert_eq!(outcome.status, 255, "{signal}: {}", outcome.summary());
            assert_eq!(outcome.stdout.text(), "before\n", "{signal}");
            assert_eq!(outcome.stderr.text(), "", "{signal}");
        }
    });
}

#[test]
fn output_and_error_output_stay_apart() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let outcome = site.run("for i in 1 2 3; do echo out$i; echo err$i >&2; done");
        assert_eq!(outcome.stdout.text(), "out1\nout2\nout3\n");
        assert_eq!(outcome.stderr.text(), "err1\nerr2\nerr3\n");
        let outcome = site.run("head -c 3000000 /dev/zero >&2 & head -c 2000000 /dev/zero; wait");
        assert_eq!(
            (outcome.stdout.length, outcome.stderr.length),
            (2_000_000, 3_000_000)
        );
    });
}

#[test]
fn much_output_of_a_command_that_ends_at_once_arrives_whole() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        for round in 0..5 {
            let outcome = site.run("head -c 8388608 /dev/zero; exit 3");
            assert_eq!(
                (outcome.stdout.length, outcome.status),
                (8_388_608, 3),
                "round {round}"
            );
        }
        // The last output of a shell that has ended before the output is read.
        for round in 0..20 {
            let outcome = site.run("printf last; printf words >&2; exit 9");
            assert_eq!(outcome.stdout.text(), "last", "round {round}");
            assert_eq!(outcome.stderr.text(), "words", "round {round}");
            assert_eq!(outcome.status, 9, "round {round}");
        }
    });
}

#[test]
fn ten_mebibytes_go_there_and_back() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let (path, digest) = test_data();
        let outcome = site.run_with("", &[HOST, "cat"], Input::File(path));
        assert_eq!(outcome.stdout.sha256, digest, "{}", outcome.status);
        let bytes = noise(1_234_567);
        let outcome = site.run_with(
            "",
            &[HOST, "sha256sum; cat >/dev/null"],
            Input::Bytes(&bytes),
        );
        let there =
            interop::process::hex(crypto::hash::HashAlgorithm::Sha256.digest(&bytes).as_ref());
        assert!(
            outcome.stdout.text().starts_with(&there),
            "{}",
            outcome.summary()
        );
    });
}

#[test]
fn the_end_of_input_reaches_the_command_and_leaves_output_open() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let outcome = site.run_with(
            "",
            &[HOST, "cat; echo after; exit 4"],
            Input::Bytes(b"in\n"),
        );
        assert_eq!(outcome.stdout.text(), "in\nafter\n");
        assert_eq!(outcome.status, 4);
        let outcome = site.run_with("", &["-n", HOST, "cat; echo none"], Input::Bytes(b"unread"));
        assert_eq!(outcome.stdout.text(), "none\n");
    });
}

#[test]
fn a_command_that_reads_no_further_ends_the_session() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let (path, _) = test_data();
        let outcome = site.run_with(
            "",
            &[HOST, "head -c 5 >/dev/null; exit 6"],
            Input::File(path),
        );
        assert_eq!(outcome.status, 6, "{}", outcome.summary());
        let outcome = site.run_with("", &[HOST, "exec <&-; echo closed"], Input::File(path));
        assert_eq!(outcome.stdout.text(), "closed\n", "{}", outcome.summary());
    });
}

#[test]
fn a_reader_that_goes_away_ends_the_client() {
    each(|client, server| {
        if client == Kind::OpenSsh && server == Kind::Fulmar {
            // OpenSSH 9.2 sends eow@openssh.com only to servers with OpenSSH's version line; with
            // others it reads on indefinitely.
            return;
        }
        let site = Site::new(client, server, "");
        let mut command = site.ssh("");
        command
            .args([HOST, "yes"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut client = Background::start(&mut command).expect("the client");
        let mut output = client.0.stdout.take().expect("its output");
        let mut start = [0; 4];
        std::io::Read::read_exact(&mut output, &mut start).expect("some output");
        assert_eq!(&start, b"y\ny\n");
        drop(output);
        let status = wait(&mut client.0, COMMAND_LIMIT).expect("the client ends");
        assert!(!status.success());
    });
}

#[test]
fn a_shell_without_a_terminal_takes_its_commands_from_input() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let script = b"echo one\necho word\nexit 12\n";
        let outcome = site.run_with("", &["-T", HOST], Input::Bytes(script));
        assert!(
            outcome.stdout.text().contains("one\nword\n"),
            "{}",
            outcome.summary()
        );
        assert_eq!(outcome.status, 12);
    });
}

#[test]
fn a_background_job_without_our_pipes_does_not_hold_the_session() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let outcome = site.run("sleep 600 </dev/null >/dev/null 2>&1 & echo $!; exit 2");
        let job: u32 = outcome.stdout.text().trim().parse().expect("its process");
        let state = std::fs::read_to_string(format!("/proc/{job}/stat")).unwrap_or_default();
        kill(job);
        assert_eq!(outcome.status, 2, "{}", outcome.summary());
        // It continues: nobody waits for it, and nobody ends it.
        let lives = !state.is_empty() && !state.contains(") Z ");
        assert!(lives, "{state:?}");
    });
}

/// VS Code starts its server so, and finds it again after a lost connection.
#[test]
fn a_background_job_outlives_a_client_that_is_killed() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let mut command = site.ssh("");
        // The end of the input ends the command, but not its job.
        command
            .args([HOST, "sleep 600 </dev/null >/dev/null 2>&1 & echo $!; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut client = Background::start(&mut command).expect("the client");
        let output = client.0.stdout.take().expect("its output");
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line)
            .expect("a line");
        let job: u32 = line.trim().parse().expect("its process");
        let listener = site.running.daemon.pid();
        drop(client);
        let gone = until(COMMAND_LIMIT, || {
            interop::process::descendants(listener).is_empty()
        });
        let state = std::fs::read_to_string(format!("/proc/{job}/stat")).unwrap_or_default();
        kill(job);
        assert!(gone, "processes of the session are left");
        let lives = !state.is_empty() && !state.contains(") Z ");
        assert!(lives, "{state:?}");
    });
}

#[test]
fn a_client_that_is_killed_leaves_no_process_behind() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let mark = format!("0.{}{}", std::process::id(), site.running.daemon.port);
        let mut command = site.ssh("");
        // The command writes from time to time, because a closed channel is detected only by
        // writing.
        command
            .args([HOST, &format!("while echo x; do sleep {mark}; done")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut client = Background::start(&mut command).expect("the client");
        let mut output = client.0.stdout.take().expect("its output");
        std::io::Read::read_exact(&mut output, &mut [0; 2]).expect("the command runs");
        let listener = site.running.daemon.pid();
        assert!(!interop::process::descendants(listener).is_empty());
        drop(client);
        let gone = || interop::process::descendants(listener).is_empty();
        assert!(
            until(COMMAND_LIMIT, gone),
            "processes of the session are left"
        );
    });
}

#[test]
fn a_large_environment_arrives() {
    each(|client, server| {
        let site = Site::new(client, server, "AcceptEnv FLM_*\n");
        let mut settings = String::new();
        for number in 0..60 {
            settings.push_str(&format!("SendEnv FLM_{number}\n"));
        }
        let mut command = site.ssh(&settings);
        command.args([
            HOST,
            "env | grep ^FLM_ | sort | sha256sum; env | grep -c ^FLM_; echo \"${OTHER-none}\"",
        ]);
        let mut lines: Vec<String> = Vec::new();
        for number in 0..60 {
            let (name, value) = (format!("FLM_{number}"), "v".repeat(1000 + number));
            lines.push(format!("{name}={value}\n"));
            command.env(name, value);
        }
        command.env("OTHER", "not accepted").env("LC_ALL", "C");
        lines.sort();
        let outcome = interop::site::finish(&mut command, Input::Nothing);
        let text = outcome.stdout.text();
        let digest = crypto::hash::HashAlgorithm::Sha256.digest(lines.concat().as_bytes());
        assert!(
            text.starts_with(&interop::process::hex(digest.as_ref())),
            "{text}"
        );
        assert!(text.ends_with("60\nnone\n"), "{text}");
    });
}

#[test]
fn a_variable_arrives_as_long_as_a_process_can_have_it() {
    each(|client, server| {
        let site = Site::new(client, server, "AcceptEnv FLM_*\n");
        let mut command = site.ssh("SendEnv FLM_*\n");
        command.args([HOST, "echo ${#FLM_LONG}"]);
        command.env("FLM_LONG", "v".repeat(120_000));
        let outcome = interop::site::finish(&mut command, Input::Nothing);
        assert_eq!(outcome.stdout.text(), "120000\n", "{}", outcome.summary());
        if server != Kind::Fulmar {
            return;
        }
        // The client names the variables that it leaves out.
        let mut command = site.ssh("SendEnv FLM_*\n");
        command.args([HOST, "true"]);
        command.envs((0..129).map(|number| (format!("FLM_{number}"), "v")));
        let outcome = interop::site::finish(&mut command, Input::Nothing);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        let log = site.running.daemon.log();
        let ignored = log.matches("Ignoring env request FLM_").count();
        assert_eq!(ignored, 1, "{log}");
    });
}

#[test]
fn a_long_command_line_arrives() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        let word = "w".repeat(30_000);
        let outcome = site.run(&format!("printf %s {word} | wc -c"));
        assert_eq!(
            outcome.stdout.text().trim(),
            "30000",
            "{}",
            outcome.summary()
        );
    });
}

#[test]
fn keys_change_in_the_middle_of_bulk_data_both_ways() {
    each(|client, server| {
        let site = Site::new(client, server, "RekeyLimit 1M\nLogLevel DEBUG1\n");
        let (path, digest) = test_data();
        let extra = "RekeyLimit 700K\nKexAlgorithms curve25519-sha256\nLogLevel DEBUG1\n";
        let outcome = site.run_with(extra, &[HOST, "cat"], Input::File(path));
        assert_eq!(outcome.stdout.sha256, digest, "{}", outcome.status);
        if client == Kind::OpenSsh {
            let changes = outcome
                .stderr
                .text()
                .matches("SSH2_MSG_NEWKEYS received")
                .count();
            assert!(changes > 10, "keys changed {changes} times");
        }
        if server == Kind::OpenSsh {
            let log = site.running.daemon.log();
            let changes = log.matches("SSH2_MSG_NEWKEYS received").count();
            assert!(changes > 10, "keys changed {changes} times");
        }
    });
}

/// A tunnel that its service manager ends has not failed. A session has: its status is unknown.
#[test]
fn a_terminated_client_has_failed_only_if_it_has_a_session() {
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let ended = |arguments: &[&str], signal: &str| {
        let port = free_port();
        let mut command = site.ssh("");
        command.args(["-L", &format!("{port}:127.0.0.1:1")]);
        command.args(arguments).stdin(Stdio::piped());
        let mut client = Background::start(command.stdout(Stdio::piped())).expect("the client");
        if arguments.contains(&"-W") {
            let output = client.0.stdout.as_mut().expect("its output");
            std::io::Read::read_exact(output, &mut [0; 4]).expect("the server's version");
        } else {
            assert!(until(COMMAND_LIMIT, || is_listening(port)));
            // Before it can end in this way it has to be at work: the answer to a connection shows that.
            let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).expect("its port");
            let _ = std::io::Read::read(&mut stream, &mut [0]);
        }
        client.signal(signal);
        let ended = wait(&mut client.0, COMMAND_LIMIT);
        ended.expect("its end").code()
    };
    // As OpenSSH 10.6; 9.2 gives 255 in each case.
    let stream = format!("127.0.0.1:{}", site.running.daemon.port);
    assert_eq!(ended(&["-N", HOST], "TERM"), Some(0));
    assert_eq!(ended(&["-o", "SessionType=none", HOST], "TERM"), Some(0));
    assert_eq!(ended(&["-W", &stream, HOST], "TERM"), Some(0));
    assert_eq!(ended(&["-N", HOST], "HUP"), Some(255));
    assert_eq!(ended(&["-N", HOST], "INT"), Some(255));
    assert_eq!(ended(&[HOST, "sleep 60"], "TERM"), Some(255));
}

/// Terminals, and programs that start `ssh`, look for these words.
#[test]
fn a_session_whose_server_is_gone_says_so_at_every_level() {
    each(|client, server| {
        let site = Site::new(client, server, "");
        for (level, tells_end) in [("INFO", true), ("QUIET", false)] {
            let said = site.running.daemon.scratch().join(&format!("said.{level}"));
            let mut command = site.ssh(&format!("LogLevel {level}\n"));
            command.args(["-tt", HOST, "echo in; sleep 60"]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command.stderr(std::fs::File::create(&said).expect("a file"));
            let mut client = Background::start(&mut command).expect("the client");
            let mut output = client.0.stdout.take().expect("its output");
            std::io::Read::read_exact(&mut output, &mut [0; 2]).expect("the command runs");
            for process in descendants(site.running.daemon.pid()) {
                kill(process);
            }
            let status = wait(&mut client.0, COMMAND_LIMIT).expect("its end");
            assert_eq!(status.code(), Some(255));
            let said = std::fs::read_to_string(&said).expect("its words");
            let lost = "Connection to 127.0.0.1 closed by remote host.";
            assert!(said.contains(lost), "{level}: {said}");
            let ends = said
                .lines()
                .any(|line| line == "Connection to 127.0.0.1 closed.");
            assert_eq!(ends, tells_end, "{level}: {said}");
        }
    });
}
