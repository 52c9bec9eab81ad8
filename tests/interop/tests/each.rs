//! `fulmar each` at OpenSSH's server and at ours: commands, outputs, failures of some hosts, time limits,
//! servers that are killed, questions of jumps, and copies of trees.

#[path = "each/ends.rs"]
mod ends;

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use interop::account::Guest;
use interop::fixture;
use interop::json;
use interop::peers::ours::{Kind, binary};
use interop::peers::{Running, openssh};
use interop::process::{COMMAND_LIMIT, Input, Outcome, descendants, kill, run};
use interop::report::skipped;
use interop::scratch::Scratch;
use interop::terminal::Terminal;

/// A server and a configuration in which `n…` are names of it.
struct Site {
    server: Running,
    scratch: Scratch,
    config: PathBuf,
}

/// `fulmar each` with this configuration.
fn each_of(config: &Path) -> Command {
    let mut command = Command::new(binary());
    command.arg("each").arg("-F").arg(config);
    command
}

/// The same to its end, with `askpass` for its questions.
fn each_that_asks(config: &Path, askpass: &Path, words: &[&str]) -> Outcome {
    let mut command = each_of(config);
    command
        .args(words)
        .env("SSH_ASKPASS", askpass)
        .env("SSH_ASKPASS_REQUIRE", "force");
    run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("fulmar each")
}

impl Site {
    fn new(kind: Kind) -> Option<Self> {
        let extra = "Subsystem sftp internal-sftp\nAcceptEnv FULMAR_TEST_HOST\n";
        let server = match openssh::start(kind, extra) {
            Ok(server) => server,
            Err(why) => {
                skipped(kind.name(), &why);
                return None;
            }
        };
        let scratch = Scratch::new();
        let names = format!(
            "LogLevel INFO\nHost n*\nHostName 127.0.0.1\nPort {}\nUser {}\n\
             SetEnv FULMAR_TEST_HOST=%n\n\
             Host dead\nHostName 127.0.0.1\nPort 1\n\
             Host changed\nHostName 127.0.0.1\nPort {0}\nUser {1}\nHostKeyAlias other\n\
             UserKnownHostsFile {2}\n\
             Host unknown\nHostName 127.0.0.1\nPort {0}\nUser {1}\nUserKnownHostsFile /dev/null\n\
             Host *\n",
            server.daemon.port,
            server.user,
            scratch.join("other_known_hosts").display(),
        );
        let line = fs::read_to_string(fixture::file("user_ed25519.pub")).expect("a key");
        scratch.write("other_known_hosts", format!("other {line}"));
        let config = names + &openssh::client_config(&server.known_hosts, "user_ed25519");
        let config = scratch.write("ssh_config", config);
        Some(Self {
            server,
            scratch,
            config,
        })
    }

    fn command(&self) -> Command {
        each_of(&self.config)
    }

    fn each(&self, words: &[&str]) -> Outcome {
        self.each_with(words, Input::Nothing)
    }

    fn each_with(&self, words: &[&str], input: Input<'_>) -> Outcome {
        let mut command = self.command();
        command.args(words);
        run(&mut command, input, COMMAND_LIMIT).expect("fulmar each")
    }
}

/// Runs a test with each server that is installed.
fn with_servers(test: impl Fn(&Site)) {
    for kind in [Kind::OpenSsh, Kind::Fulmar] {
        if let Some(site) = Site::new(kind) {
            test(&site);
            drop(site.server);
        }
    }
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn each_host_has_its_output_under_its_name() {
    with_servers(|site| {
        let found = site.each(&["n[1-3],n2", "--", "echo out; echo err >&2"]);
        assert_eq!(found.status, 0, "{}", found.summary());
        let mut expected = vec!["out"; 3];
        let titles = ["==> n1 <==", "==> n2 <==", "==> n3 <=="];
        expected.extend(titles);
        expected.sort_unstable();
        assert_eq!(sorted(&found.stdout.text()), expected);
        let errors = found.stderr.text();
        assert!(errors.contains("==> n3 (stderr) <==\nerr\n"), "{errors}");
        assert!(errors.contains("1 repeated name is left out"), "{errors}");
    });
}

#[test]
fn lines_have_names_and_bytes_stay_as_they_are() {
    with_servers(|site| {
        let found = site.each(&["--prefix", "n[1-2]", "--", "printf 'a\\033\\377b\\nlast'"]);
        assert_eq!(found.status, 0, "{}", found.summary());
        let mut lines: Vec<&[u8]> = found.stdout.head.split(|byte| *byte == b'\n').collect();
        lines.sort_unstable();
        let expected: [&[u8]; 5] = [
            b"",
            b"n1: a\x1b\xffb",
            b"n1: last",
            b"n2: a\x1b\xffb",
            b"n2: last",
        ];
        assert_eq!(lines, expected);
    });
}

#[test]
fn json_has_one_line_for_a_host_and_more_for_much_output() {
    with_servers(|site| {
        let found = site.each(&[
            "--json",
            "n1,dead",
            "--",
            "echo ä; printf '\\377' >&2; exit 3",
        ]);
        assert_eq!(found.status, 255, "{}", found.summary());
        for line in found.stdout.text().lines() {
            json::Value::read(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        }
        let text = found.stdout.text();
        let host = text
            .lines()
            .find(|line| line.contains("\"n1\""))
            .expect("n1");
        assert!(
            host.contains(r#""stdout":"ä\n","stderr_base64":"/w==","exit":3"#),
            "{host}"
        );
        let dead = text
            .lines()
            .find(|line| line.contains("\"dead\""))
            .expect("dead");
        assert!(
            dead.contains(r#""exit":null,"error":"Connection refused""#),
            "{dead}"
        );

        let found = site.each(&[
            "--json",
            "n1",
            "--",
            "head -c 300000 /dev/zero | tr '\\0' Z",
        ]);
        assert_eq!(found.status, 0, "{}", found.summary());
        let text = found.stdout.text();
        assert!(text.lines().count() > 3, "{}", found.summary());
        assert_eq!(text.matches('Z').count(), 300_000);
    });
}

#[test]
fn files_hold_the_output_of_each_host() {
    with_servers(|site| {
        let folder = site.scratch.join("files");
        let folder = folder.to_str().expect("a path");
        let found = site.each(&[
            "--output",
            folder,
            "n[1-2]",
            "--",
            "head -c 200000 /dev/zero",
        ]);
        assert_eq!(found.status, 0, "{}", found.summary());
        for host in ["n1", "n2"] {
            let path = Path::new(folder).join(format!("{host}.out"));
            assert_eq!(fs::read(path).expect("a file"), vec![0; 200_000]);
            assert!(!Path::new(folder).join(format!("{host}.err")).exists());
        }
    });
}

#[test]
fn a_command_whose_output_cannot_be_kept_does_not_run() {
    with_servers(|site| {
        let directory = site.scratch.join("taken");
        fs::create_dir_all(directory.join("n1.out")).expect("mkdir");
        let marker = site.scratch.join("marker");
        let directory = directory.display().to_string();
        let command = format!("touch {}", marker.display());
        let found = site.each(&["--output", &directory, "n1", "--", &command]);
        assert_eq!(found.status, 255, "{}", found.summary());
        assert!(!marker.exists(), "{}", found.summary());
        assert!(
            found.stderr.text().contains("output not kept"),
            "{}",
            found.summary()
        );
    });
}

#[test]
fn more_than_is_held_is_written_host_after_host() {
    with_servers(|site| {
        let command = "for i in 1 2 3; do head -c 1000000 /dev/zero | tr '\\0' $i; done; echo";
        let found = site.each(&["n[1-4]", "--", command]);
        assert_eq!(found.status, 0, "{}", found.summary());
        let expected = 4 * (3_000_000 + 1 + "==> n1 <==\n".len());
        assert_eq!(found.stdout.length, expected as u64, "{}", found.summary());
    });
}

#[test]
fn the_exit_status_is_that_of_the_worst_host_and_causes_are_listed() {
    with_servers(|site| {
        let found = site.each(&["n[1-2]", "--", "exit 7"]);
        assert_eq!(found.status, 7, "{}", found.summary());
        assert!(
            found.stderr.text().contains("exit 7 (2): n[1-2]"),
            "{}",
            found.summary()
        );
        let found = site.each(&["n1", "dead", "--", "kill -TERM $$"]);
        assert_eq!(found.status, 255, "{}", found.summary());
        let errors = found.stderr.text();
        assert!(errors.contains("2 of 2 hosts failed"), "{errors}");
        assert!(errors.contains("ended by signal TERM: n1"), "{errors}");
        assert!(errors.contains("Connection refused: dead"), "{errors}");
    });
}

#[test]
fn a_changed_or_unknown_host_key_stops_that_host_alone() {
    with_servers(|site| {
        let found = site.each(&["changed", "unknown", "n1", "--", "echo in"]);
        assert_eq!(found.status, 255, "{}", found.summary());
        assert_eq!(found.stdout.text(), "==> n1 <==\nin\n");
        let errors = found.stderr.text();
        assert!(
            errors.contains("host key verification failed (2): changed,unknown"),
            "{errors}"
        );
        assert!(
            errors.contains("changed: Host key verification failed."),
            "{errors}"
        );
    });
}

#[test]
fn a_host_that_hangs_ends_by_its_time_limit() {
    with_servers(|site| {
        let words = ["--timeout", "2", "n1,n2", "--", "echo begun; exec sleep 30"];
        let found = site.each(&words);
        assert_eq!(found.status, 255, "{}", found.summary());
        let errors = found.stderr.text();
        assert!(
            errors.contains("timed out after 2 s (2): n[1-2]"),
            "{errors}"
        );
        assert!(found.stdout.text().contains("begun"), "{}", found.summary());
    });
}

#[test]
fn a_question_ends_by_the_time_limit_of_its_hosts() {
    with_servers(|site| {
        let asked = site.scratch.join("asked");
        let text = format!("#!/bin/sh\necho x >>{}\nexec sleep 60\n", asked.display());
        let askpass = site.scratch.write("askpass", text);
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&askpass, mode).expect("chmod");
        let mut command = site.command();
        command
            .args(["--timeout", "8", "-o", "StrictHostKeyChecking=ask"])
            .args(["-o", "BatchMode=no"])
            .args(["-o", "UserKnownHostsFile=/dev/null", "n1,n2", "--", "true"])
            .env("SSH_ASKPASS", &askpass)
            .env("SSH_ASKPASS_REQUIRE", "force");
        let found = run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("fulmar each");
        assert_eq!(found.status, 255, "{}", found.summary());
        assert!(
            found
                .stderr
                .text()
                .contains("timed out after 8 s (2): n[1-2]"),
            "{}",
            found.summary()
        );
        // The other host's time was over before its turn to ask.
        assert_eq!(fs::read_to_string(&asked).expect("a question"), "x\n");
    });
}

/// Accepts connections, sends `greeting` to each, and then is silent for as long as the test runs.
fn silent_server(greeting: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(greeting.as_bytes());
            kept.push(stream);
        }
    });
    port
}

#[test]
fn each_phase_of_a_login_ends_by_the_time_limit() {
    let Some(site) = Site::new(Kind::Fulmar) else {
        return;
    };
    let silent = silent_server("");
    let version = silent_server("SSH-2.0-silent\r\n");
    // No other process has this argument.
    let sleep = format!("sleep 98765{}", std::process::id());
    let config = fs::read_to_string(&site.config).expect("the configuration");
    let config = format!(
        "Host silent\nHostName 127.0.0.1\nPort {silent}\n\
         Host version\nHostName 127.0.0.1\nPort {version}\n\
         Host proxy\nProxyCommand {sleep}\n\
         Host fdpass\nProxyCommand {sleep}\nProxyUseFdpass yes\n\
         Host jumped\nHostName 127.0.0.1\nProxyJump silent\nHost *\n{config}"
    );
    let config = site.scratch.write("phases", config);
    let mut command = each_of(&config);
    command.args(["--json", "--timeout", "3"]).args([
        "silent,version,proxy,fdpass,jumped,n1",
        "--",
        "exec sleep 30",
    ]);
    let begun = Instant::now();
    let found = run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("fulmar each");
    assert_eq!(found.status, 255, "{}", found.summary());
    assert!(
        begun.elapsed() < Duration::from_secs(28),
        "{}",
        found.summary()
    );
    let text = found.stdout.text();
    assert_eq!(text.lines().count(), 6, "{text}");
    for line in text.lines() {
        assert!(line.contains(r#""exit":null"#), "{line}");
        assert!(line.contains("timed out"), "{line}");
    }
    ends::assert_ended(&sleep);
}

#[test]
fn no_command_runs_twice_and_none_is_lost_where_servers_are_killed() {
    const HOSTS: usize = 60;
    with_servers(|site| {
        let ran = site.scratch.write("ran", "");
        let command = format!(
            "echo $FULMAR_TEST_HOST >>{}; sleep 0.2; echo done",
            ran.display()
        );
        let listener = site.server.daemon.pid();
        let is_over = AtomicBool::new(false);
        let hosts = format!("n[1-{HOSTS}]");
        let found = thread::scope(|scope| {
            scope.spawn(|| {
                let mut random = 0x9e37_79b9_u32 ^ listener;
                while !is_over.load(Ordering::Relaxed) {
                    random ^= random << 13;
                    random ^= random >> 17;
                    random ^= random << 5;
                    thread::sleep(Duration::from_millis(u64::from(random % 60)));
                    let below = descendants(listener);
                    let at = (random >> 8) as usize % below.len().max(1);
                    if let Some(pid) = below.get(at).filter(|pid| **pid != listener) {
                        kill(*pid);
                    }
                }
            });
            let found = site.each(&["--json", "-n", "16", &hosts, "--", &command]);
            is_over.store(true, Ordering::Relaxed);
            found
        });
        let text = found.stdout.text();
        let ran = sorted(&fs::read_to_string(&ran).expect("the list"));
        let mut once = ran.clone();
        once.dedup();
        assert_eq!(once, ran, "a command ran twice");
        let mut reported = Vec::new();
        let mut failed = 0;
        for line in text.lines() {
            let value = json::Value::read(line).expect("JSON");
            let host = value
                .find("host")
                .and_then(json::Value::text)
                .expect("a host");
            reported.push(host.to_owned());
            let status = value.find("exit").and_then(json::Value::number);
            if status == Some(0.0) {
                assert!(
                    ran.iter().any(|name| name == host),
                    "{host} did not run: {line}"
                );
                assert!(line.contains(r#""stdout":"done\n""#), "{line}");
            } else {
                failed += 1;
                let says_why = value.find("error").is_some_and(|why| why.text().is_some());
                assert!(status.is_some() || says_why, "{line}");
            }
        }
        reported.sort();
        reported.dedup();
        assert_eq!(
            (reported.len(), text.lines().count()),
            (HOSTS, HOSTS),
            "{text}"
        );
        assert!(failed > 0, "no server was killed in time");
        assert_ne!(found.status, 0, "{}", found.summary());
        let summary = format!("{failed} of {HOSTS} hosts failed");
        assert!(
            found.stderr.text().contains(&summary),
            "{}",
            found.summary()
        );
    });
}

#[test]
fn jumps_ask_one_at_a_time_and_the_same_once() {
    let Some(site) = Site::new(Kind::Fulmar) else {
        return;
    };
    let key = fs::read(fixture::file("user_ed25519")).expect("a key");
    let key = site.scratch.write("locked", key);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("chmod");
    let mut command = Command::new(binary());
    command
        .args(["keygen", "-q", "-p", "-P", "", "-N", "the passphrase", "-f"])
        .arg(&key);
    let locked = run(&mut command, Input::Nothing, COMMAND_LIMIT).expect("keygen");
    assert_eq!(locked.status, 0, "{}", locked.summary());
    // Two questions at once would meet in the directory.
    let (asked, busy) = (site.scratch.join("asked"), site.scratch.join("busy"));
    let text = format!(
        "#!/bin/sh\nmkdir '{1}' || echo at once >>'{0}'\necho \"$1\" | tail -n 1 >>'{0}'\nsleep 0.3\n\
         case \"$1\" in *assphrase*) echo the passphrase;; *) echo yes;; esac\nrmdir '{1}'\n",
        asked.display(),
        busy.display()
    );
    let askpass = site.scratch.write("askpass", text);
    fs::set_permissions(&askpass, fs::Permissions::from_mode(0o755)).expect("chmod");
    let config = fs::read_to_string(&site.config).expect("the configuration");
    let config = format!(
        "Host jump\nHostName 127.0.0.1\nPort {}\nUser {}\nIdentityFile {}\nIdentitiesOnly yes\n\
         IdentityAgent none\nUserKnownHostsFile {}\nGlobalKnownHostsFile /dev/null\n\
         StrictHostKeyChecking ask\nBatchMode no\nUpdateHostKeys no\n\
         Host n*\nProxyJump jump\nHost *\n{config}",
        site.server.daemon.port,
        site.server.user,
        key.display(),
        site.scratch.join("jump_known_hosts").display(),
    );
    let config = site.scratch.write("jumped", config);
    let found = each_that_asks(&config, &askpass, &["n[1-6]", "--", "echo through"]);
    assert_eq!(found.status, 0, "{}", found.summary());
    assert_eq!(
        found.stdout.text().matches("through").count(),
        6,
        "{}",
        found.summary()
    );
    let asked = fs::read_to_string(asked).expect("questions");
    let questions: Vec<&str> = asked.lines().collect();
    assert_eq!(questions.len(), 2, "{asked}");
    assert!(questions[0].starts_with("Are you sure"), "{asked}");
    assert!(questions[1].starts_with("Enter passphrase"), "{asked}");
}

#[test]
fn jumps_at_one_host_with_different_ports_get_passwords_of_their_own() {
    let lines = "PasswordAuthentication yes\n";
    let servers = [(); 2].map(|()| openssh::start(Kind::Fulmar, lines));
    let [Ok(first), Ok(second)] = servers else {
        return skipped("jumps", &"no two servers");
    };
    let scratch = Scratch::new();
    let asked = scratch.join("asked");
    let text = format!(
        "#!/bin/sh\necho \"$1\" >>'{}'\necho wrong\n",
        asked.display()
    );
    let askpass = scratch.write("askpass", text);
    fs::set_permissions(&askpass, fs::Permissions::from_mode(0o755)).expect("chmod");
    let ports = [first.daemon.port, second.daemon.port];
    let config = format!(
        "Host n1 n3\nProxyJump 127.0.0.1:{}\nHost n2\nProxyJump 127.0.0.1:{}\nHost *\nHostName 127.0.0.1\nUser nobody-here\nPort 1\n\
         PreferredAuthentications password\nNumberOfPasswordPrompts 1\nStrictHostKeyChecking no\n\
         UserKnownHostsFile /dev/null\nGlobalKnownHostsFile /dev/null\nControlPath none\nLogLevel ERROR\n",
        ports[0], ports[1]
    );
    let config = scratch.write("ssh_config", config);
    let found = each_that_asks(&config, &askpass, &["n[1-3]", "--", "true"]);
    assert_eq!(found.status, 255, "{}", found.summary());
    let asked = fs::read_to_string(asked).expect("questions");
    let question =
        |port: u16| format!("nobody-here@127.0.0.1:{port}: nobody-here@127.0.0.1's password: ");
    let mut expected = ports.map(question).to_vec();
    expected.sort();
    assert_eq!(sorted(&asked), expected, "{}", found.summary());
}

#[test]
fn a_password_is_asked_for_once() {
    const PASSWORD: &str = "the user's password";
    let guest = Guest::new().and_then(|mut guest| {
        guest.set_password(PASSWORD)?;
        Ok(guest)
    });
    let guest = match guest {
        Ok(guest) => guest,
        Err(why) => return skipped("logins by password", &why),
    };
    for kind in [Kind::OpenSsh, Kind::Fulmar] {
        let server = match openssh::start(kind, "PasswordAuthentication yes\n") {
            Ok(server) => server,
            Err(why) => {
                skipped(kind.name(), &why);
                continue;
            }
        };
        let scratch = Scratch::new();
        let askpass = interop::site::askpass(&scratch, &[PASSWORD, "no"]);
        let config = format!(
            "Host n*\nHostName 127.0.0.1\nPort {}\nUser {}\nHost *\n\
             PreferredAuthentications password\nBatchMode no\n{}",
            server.daemon.port,
            guest.name,
            openssh::client_config(&server.known_hosts, "user_ed25519")
        );
        let config = scratch.write("ssh_config", config);
        let found = each_that_asks(&config, &askpass, &["n[1-5]", "--", "echo in as $USER"]);
        assert_eq!(found.status, 0, "{}", found.summary());
        let said = found.stdout.text();
        let greeting = format!("in as {}\n", guest.name);
        assert_eq!(said.matches(&greeting).count(), 5, "{said}");
        let asked = fs::read_to_string(scratch.join("askpass.asked")).expect("questions");
        assert_eq!(asked.lines().count(), 1, "{asked}");
    }
}

#[test]
fn a_terminal_shows_how_many_are_done() {
    let Some(site) = Site::new(Kind::Fulmar) else {
        return;
    };
    let mut command = site.command();
    command.args(["n[1-3]", "--", "sleep 2; echo end"]);
    let mut terminal = Terminal::new(&command, 80, 24);
    terminal.expect("of 3 done, 0 failed, ");
    terminal.expect("end");
    assert_eq!(terminal.end(), 0, "{}", terminal.screen());
}

#[test]
fn no_connection_is_that_of_a_master() {
    with_servers(|site| {
        let path = site.scratch.join("master");
        let master = UnixListener::bind(&path).expect("a socket");
        master.set_nonblocking(true).expect("O_NONBLOCK");
        let file = site.scratch.write("file", "x").display().to_string();
        let copy = site.scratch.join("copy").display().to_string();
        let option = format!("ControlPath={}", path.display());
        for work in [
            &["-n", "1", "n1", "--", "true"][..],
            &["--put", "n1", "--", &file, &copy],
        ] {
            let found = site.each(&[&["-o", &option], work].concat());
            assert_eq!(found.status, 0, "{}", found.summary());
            assert!(master.accept().is_err(), "{work:?} asked the master");
        }
    });
}

#[test]
fn the_first_failure_ends_the_run() {
    with_servers(|site| {
        let words = [
            "--first-failure",
            "-n",
            "2",
            "dead",
            "n[1-5]",
            "--",
            "exec sleep 30",
        ];
        let found = site.each(&words);
        assert_eq!(found.status, 255, "{}", found.summary());
        let errors = found.stderr.text();
        assert!(errors.contains("not started"), "{errors}");
        assert!(errors.contains("Connection refused: dead"), "{errors}");
    });
}

#[test]
fn standard_input_goes_to_each_host_and_none_without_the_flag() {
    with_servers(|site| {
        let input: Vec<u8> = (0..400_000_u32).map(|at| (at % 251) as u8).collect();
        let words = ["--prefix", "--stdin", "n[1-3]", "--", "cksum"];
        let found = site.each_with(&words, Input::Bytes(&input));
        assert_eq!(found.status, 0, "{}", found.summary());
        let sums = sorted(&found.stdout.text());
        assert_eq!(sums.len(), 3, "{sums:?}");
        assert!(sums.iter().all(|sum| sum.ends_with(" 400000")), "{sums:?}");
        let found = site.each_with(&["n1", "--", "wc -c"], Input::Bytes(&input));
        assert_eq!(
            found.stdout.text(),
            "==> n1 <==\n0\n",
            "{}",
            found.summary()
        );
        let found = site.each_with(&["-", "--", "true"], Input::Bytes(b"n[1-2] # two\nn3\n"));
        assert_eq!(found.status, 0, "{}", found.summary());
    });
}

fn tree(root: &Path) {
    fs::create_dir_all(root.join("sub/deep")).expect("a directory");
    fs::write(root.join("one"), b"1").expect("a file");
    fs::write(root.join("sub/two"), vec![7; 300_000]).expect("a file");
    fs::write(root.join("sub/deep/three"), b"").expect("a file");
}

fn same(left: &Path, right: &Path) {
    let found = Command::new("diff").arg("-r").args([left, right]).output();
    let found = found.expect("diff");
    assert!(
        found.status.success(),
        "{}",
        String::from_utf8_lossy(&found.stdout)
    );
}

#[test]
fn trees_are_copied_to_and_from_each_host() {
    with_servers(|site| {
        let from = site.scratch.join("tree");
        tree(&from);
        // All hosts are one machine: each puts to the same place, and fetches to its own.
        let there = site.scratch.join("there");
        fs::create_dir_all(&there).expect("a directory");
        let (source, target) = (from.display().to_string(), there.display().to_string());
        let found = site.each(&["--put", "-r", "n1", "--", &source, &target]);
        assert_eq!(found.status, 0, "{}", found.summary());
        same(&from, &there.join("tree"));

        let here = site.scratch.join("here");
        let here_text = here.display().to_string();
        let source = there.join("tree").display().to_string();
        let found = site.each(&["--get", "-r", "n[1-4]", "--", &source, &here_text]);
        assert_eq!(found.status, 0, "{}", found.summary());
        for host in ["n1", "n2", "n3", "n4"] {
            same(&from, &here.join(host).join("tree"));
        }

        let pattern = site.scratch.join("logs/{host}.log").display().to_string();
        let one = from.join("one").display().to_string();
        let found = site.each(&["--get", "n[1-2]", "dead", "--", &one, &pattern]);
        assert_eq!(found.status, 255, "{}", found.summary());
        for host in ["n1", "n2"] {
            let path = site.scratch.join(&format!("logs/{host}.log"));
            assert_eq!(fs::read(path).expect("a file"), b"1");
        }
        let errors = found.stderr.text();
        assert!(errors.contains("Connection refused: dead"), "{errors}");

        let found = site.each(&["--get", "n1", "--", "/nonexistent/file", &here_text]);
        assert_eq!(found.status, 1, "{}", found.summary());
        assert!(
            found.stderr.text().contains("No such file"),
            "{}",
            found.summary()
        );
    });
}

#[test]
fn bad_lists_start_nothing() {
    let Some(site) = Site::new(Kind::Fulmar) else {
        return;
    };
    for (words, why) in [
        (
            &["n[1-1000000000]", "--", "true"][..],
            "more than 100000 hosts",
        ),
        (&["n[]", "--", "true"], "bad range"),
        (&["n1", "-x", "n1", "--", "true"], "no hosts are left"),
        (&["@/nonexistent", "--", "true"], "No such file"),
        (&["n1;reboot", "--", "true"], "invalid characters"),
        (&["n1"], "command after --"),
        (
            &["--stdin", "-", "--", "true"],
            "--stdin needs another list",
        ),
    ] {
        let found = site.each_with(words, Input::Bytes(b"n1\n"));
        assert_eq!(found.status, 255, "{words:?}: {}", found.summary());
        let errors = found.stderr.text();
        assert!(errors.contains(why), "{words:?}: {errors}");
        assert_eq!(found.stdout.length, 0, "{words:?}");
    }
}
