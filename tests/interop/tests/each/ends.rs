//! How a run ends: hosts that exceed their time, the first failure, what logins have started, and output that is
//! written late.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use interop::agent::RealAgent;
use interop::fixture;
use interop::peers::ours::Kind;
use interop::process::{COMMAND_LIMIT, Input, processes, run, wait};
use interop::scratch::until;
use interop::terminal::Terminal;
use rustix::process::{Pid, Signal, kill_process};

use super::{Site, each_of, with_servers};

/// Waits until no process has these words in its command line.
pub(super) fn assert_ended(words: &str) {
    let is_left = || {
        processes().any(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line)
                .replace('\0', " ")
                .contains(words)
        })
    };
    assert!(until(COMMAND_LIMIT, || !is_left()), "{words} is left");
}

#[test]
fn a_thread_that_stands_still_keeps_no_other_host_from_its_turn() {
    let Some(site) = Site::new(Kind::Fulmar) else {
        return;
    };
    let socket = site.scratch.join("agent");
    // Connections are accepted by the system, and nothing answers.
    let _agent = UnixListener::bind(&socket).expect("a socket");
    // No other process has this argument.
    let sleep = format!("/bin/sleep 98764{}", std::process::id());
    let config = fs::read_to_string(&site.config).expect("the configuration");
    let config = format!(
        "Host stuck\nHostName 127.0.0.1\nPort {}\nKnownHostsCommand {sleep}\n\
         Host agent\nHostName 127.0.0.1\nPort {0}\nIdentityAgent {}\nIdentitiesOnly no\nHost *\n{config}",
        site.server.daemon.port,
        socket.display(),
    );
    let config = site.scratch.write("stuck_config", config);
    let mut command = each_of(&config);
    command
        .args(["--timeout", "6", "-n", "1", "stuck,agent,n1"])
        .args(["--", "echo in"]);
    let found = run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("fulmar each");
    assert_eq!(found.status, 255, "{}", found.summary());
    assert_eq!(found.stdout.text(), "==> n1 <==\nin\n");
    let errors = found.stderr.text();
    assert!(
        errors.contains("timed out after 6 s (2): stuck,agent"),
        "{errors}"
    );
    assert_ended(&sleep);
}

/// The end of a command is no answer of it: that no key is known, or that a block does not match.
#[test]
fn a_login_that_was_given_up_believes_no_command_and_goes_no_further() {
    let Some(site) = Site::new(Kind::Fulmar) else {
        return;
    };
    let sleep = format!("/bin/sleep 98765{}", std::process::id());
    let (known, ran) = (site.scratch.join("known"), site.scratch.join("ran"));
    let config = fs::read_to_string(&site.config).expect("the configuration");
    let config = format!(
        "Host keys\nHostName 127.0.0.1\nPort {0}\nKnownHostsCommand {sleep}\n\
         StrictHostKeyChecking accept-new\nUserKnownHostsFile {1}\n\
         Match originalhost block exec \"exec {sleep}\"\nHostName 127.0.0.2\n\
         Host block\nHostName 127.0.0.1\nPort {0}\nHost *\n{config}",
        site.server.daemon.port,
        known.display(),
    );
    let config = site.scratch.write("given_up_config", config);
    let mut command = each_of(&config);
    // The last one keeps the run alive until the first ones would have logged in.
    let order = format!("echo in >>{}; sleep 5", ran.display());
    command
        .args(["--timeout", "10", "-n", "1", "keys,block,n1"])
        .args(["--", &order]);
    let found = run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("fulmar each");
    assert_eq!(found.status, 255, "{}", found.summary());
    let errors = found.stderr.text();
    assert!(
        errors.contains("timed out after 10 s (2): keys,block"),
        "{errors}"
    );
    assert_eq!(fs::read_to_string(&ran).expect("a mark"), "in\n");
    assert!(!known.exists(), "{:?}", fs::read_to_string(&known));
    assert_ended(&sleep);
}

/// An agent that answers requests to sign only after `delay`, for the real one at `socket`. The count is of the late
/// answers that were sent.
fn slow_agent(path: &Path, socket: PathBuf, delay: Duration) -> Arc<AtomicUsize> {
    /// SSH_AGENTC_SIGN_REQUEST (RFC 9987 §3.6).
    const SIGN_REQUEST: u8 = 13;
    fn message(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut whole = length.to_vec();
        whole.resize(4 + u32::from_be_bytes(length) as usize, 0);
        stream.read_exact(&mut whole[4..])?;
        Ok(whole)
    }
    let listener = UnixListener::bind(path).expect("a socket");
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    thread::spawn(move || {
        for client in listener.incoming() {
            let (socket, count) = (socket.clone(), Arc::clone(&count));
            let mut client = client.expect("a connection");
            thread::spawn(move || {
                let mut agent = UnixStream::connect(socket).expect("the agent");
                while let Ok(request) = message(&mut client) {
                    agent.write_all(&request).expect("the agent");
                    let answer = message(&mut agent).expect("the agent");
                    let is_late = request.get(4) == Some(&SIGN_REQUEST);
                    if is_late {
                        thread::sleep(delay);
                    }
                    if client.write_all(&answer).is_ok() && is_late {
                        count.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    sent
}

/// The login is at a point where its command would follow in the same packet.
#[test]
fn a_signature_that_comes_after_the_time_limit_logs_nobody_in() {
    let Some(site) = Site::new(Kind::Fulmar) else {
        return;
    };
    let Some(agent) = RealAgent::start_of(Kind::Fulmar, &["ed25519"]) else {
        return;
    };
    let (socket, ran) = (site.scratch.join("agent"), site.scratch.join("ran"));
    let sent = slow_agent(&socket, agent.socket.clone(), Duration::from_secs(10));
    let config = fs::read_to_string(&site.config).expect("the configuration");
    let config = format!(
        "Host late\nHostName 127.0.0.1\nPort {}\nIdentityFile {}\nIdentityAgent {}\nHost *\n{config}",
        site.server.daemon.port,
        fixture::file("user_ed25519.pub").display(),
        socket.display(),
    );
    let config = site.scratch.write("late_config", config);
    let mut command = each_of(&config);
    // The second one keeps the run alive until after the signature.
    let order = format!("echo in >>{}; sleep 5", ran.display());
    command
        .args(["--timeout", "7", "-n", "1", "late,n1"])
        .args(["--", &order]);
    let found = run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("fulmar each");
    assert_eq!(found.status, 255, "{}", found.summary());
    let errors = found.stderr.text();
    assert!(errors.contains("timed out after 7 s: late"), "{errors}");
    assert!(sent.load(Ordering::SeqCst) > 0, "{}", found.summary());
    assert_eq!(fs::read_to_string(&ran).expect("a mark"), "in\n");
    let log = site.server.daemon.log();
    assert_eq!(log.matches("Accepted publickey").count(), 1, "{log}");
}

#[test]
fn processes_of_a_login_end_with_the_run() {
    let Some(site) = Site::new(Kind::Fulmar) else {
        return;
    };
    let (proxied, jumped) = (site.scratch.join("proxied"), site.scratch.join("jumped"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let mark = jumped.clone();
    thread::spawn(move || {
        let connection = listener.accept();
        fs::write(mark, "").expect("a mark");
        thread::sleep(COMMAND_LIMIT);
        drop(connection);
    });
    let sleep = format!("98763{}", std::process::id());
    let proxy = format!("#!/bin/sh\ntouch {}\nexec sleep $1\n", proxied.display());
    let proxy = site.scratch.write("proxy", proxy);
    fs::set_permissions(&proxy, fs::Permissions::from_mode(0o755)).expect("chmod");
    let config = fs::read_to_string(&site.config).expect("the configuration");
    let config = format!(
        "Host silent\nHostName 127.0.0.1\nPort {port}\n\
         Host proxy\nProxyCommand {} {sleep}\n\
         Host between\nHostName 127.0.0.1\nProxyJump silent\n\
         Host jumped\nHostName 127.0.0.1\nProxyJump between\nHost *\n{config}",
        proxy.display(),
    );
    let config = site.scratch.write("proxied_config", config);
    let command = format!(
        "until [ -e {} ] && [ -e {} ]; do sleep 0.1; done; exit 3",
        proxied.display(),
        jumped.display()
    );
    let mut each = each_of(&config);
    each.args(["--first-failure", "proxy,jumped,n1", "--", &command]);
    let found = run(&mut each, Input::Nothing, COMMAND_LIMIT).expect("fulmar each");
    assert_eq!(found.status, 3, "{}", found.summary());
    let errors = found.stderr.text();
    assert!(
        errors.contains("ended with the run (2): proxy,jumped"),
        "{errors}"
    );
    assert_ended(&sleep);
    assert_ended(config.to_str().expect("a path"));
}

#[test]
fn a_failure_that_waits_to_write_is_the_first() {
    with_servers(|site| {
        let mark = |name: &str| site.scratch.join(name).display().to_string();
        let (full, ended) = (mark("full"), mark("ended"));
        // The second and the third host end while the first writes; the third when the second's connection is gone.
        let command = format!(
            "case $FULMAR_TEST_HOST in\n\
             n1) head -c 300000 /dev/zero; touch {full}; exec sleep 1000;;\n\
             n2) until [ -e {full} ]; do sleep 0.1; done; echo $PPID >{ended}.new; mv {ended}.new {ended}; echo small;;\n\
             n3) until [ -e {ended} ]; do sleep 0.1; done; read pid <{ended}; while [ -e /proc/$pid ]; do sleep 0.1; done; sleep 1\n\
             echo failed; exit 3;;\nesac"
        );
        let found = site.each(&["--first-failure", "n[1-3]", "--", &command]);
        assert_eq!(found.status, 3, "{}", found.summary());
        let errors = found.stderr.text();
        assert!(errors.contains("2 of 3 hosts failed"), "{errors}");
        assert!(errors.contains("exit 3: n3"), "{errors}");
        assert!(errors.contains("ended with the run: n1"), "{errors}");
        let text = found.stdout.text();
        assert!(text.contains("==> n2 <==\nsmall\n"), "{}", found.summary());
        assert!(text.contains("==> n3: exit 3 <==\nfailed\n"), "{text}");
        for name in [full, ended] {
            fs::remove_file(name).expect("a mark");
        }
    });
}

#[test]
fn the_time_in_which_a_host_waits_to_write_does_not_count() {
    let Some(site) = Site::new(Kind::Fulmar) else {
        return;
    };
    // More than fits into the window: the command waits, too. The third host takes 24 s.
    let command = "head -c 24000000 /dev/zero; sleep 8";
    let found = site.each(&["--timeout", "20", "n[1-3]", "--", command]);
    assert_eq!(found.status, 0, "{}", found.summary());
}

#[test]
fn what_hosts_hold_is_written_to_a_slow_reader() {
    let Some(site) = Site::new(Kind::Fulmar) else {
        return;
    };
    let marks = ["full", "written"].map(|name| site.scratch.join(name));
    let [full, written] = &marks;
    let command = format!(
        "case $FULMAR_TEST_HOST in\n\
         n1) head -c 300000 /dev/zero; touch {0};;\n\
         *) until [ -e {0} ]; do sleep 0.1; done; head -c 110000 /dev/zero | tr '\\0' x; touch {1};;\n\
         esac; exec sleep 1000",
        full.display(),
        written.display()
    );
    // Nothing is read before the first signal: the first host's thread waits for the reader, the second's for the first.
    let start = || {
        let mut each = site.command();
        each.args(["n[1-2]", "--", &command])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let each = each.spawn().expect("fulmar each");
        let has_written = || marks.iter().all(|mark| mark.exists());
        assert!(until(COMMAND_LIMIT, has_written), "no output");
        // What the commands have written is on its way.
        thread::sleep(Duration::from_secs(2));
        each
    };
    let mut each = start();
    interrupt(&each);
    // Longer than the threads have to end.
    thread::sleep(Duration::from_secs(4));
    let mut text = Vec::new();
    let mut output = each.stdout.take().expect("a pipe");
    output.read_to_end(&mut text).expect("output");
    let status = wait(&mut each, COMMAND_LIMIT).expect("its end");
    assert_eq!(status.code(), Some(130));
    let count = text.iter().filter(|byte| **byte == b'x').count();
    assert_eq!(count, 110_000);
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("==> n2 <==\nxxx"), "no title");
    for mark in &marks {
        fs::remove_file(mark).expect("a mark");
    }
    // Without a reader, the second signal ends it. Two that come at once may be one.
    let mut each = start();
    let ends = until(COMMAND_LIMIT, || {
        interrupt(&each);
        each.try_wait().expect("its status").is_some()
    });
    assert!(ends, "a second signal does not end the run");
}

fn interrupt(process: &Child) {
    let _ = kill_process(Pid::from_child(process), Signal::INT);
}

#[test]
fn a_terminal_gets_no_control_characters_of_a_host() {
    let Some(site) = Site::new(Kind::Fulmar) else {
        return;
    };
    let mut command = site.command();
    let text = r"printf '\033[2J\rone \303\244\ttwo\r\nlast\303\n'; printf '\033c\n' >&2";
    command.args(["-q", "n1", "--", text]);
    let mut terminal = Terminal::new(&command, 80, 24);
    terminal.expect("==> n1 <==\r\n\\033[2J\\015one ä\ttwo\r\nlast\\303\r\n");
    terminal.expect_somewhere("==> n1 (stderr) <==\r\n\\033c\r\n");
    assert_eq!(terminal.end(), 0, "{}", terminal.screen());
}
