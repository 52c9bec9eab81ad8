//! Connections of scp and sftp: within their own process, failures and losses of connections, and
//! the state after a signal.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use interop::account::is_root;
use interop::peers::ours::{self, Kind};
use interop::process::{Background, Input, Outcome, descendants, kill, quoted_command_line, tool};
use interop::report::skipped;
use interop::scratch::{Scratch, free_port, until};
use interop::site::{HOST, Site, finish, here, program, scp, there};
use interop::terminal::Terminal;
use sys::signals::{Signal, send};

/// Time limit on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn site(extra: &str) -> Site {
    let lines = format!("{extra}Subsystem sftp internal-sftp\n");
    Site::new(Kind::Fulmar, Kind::Fulmar, &lines)
}

fn content(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| u8::try_from(at.wrapping_mul(31) / 7 % 251).unwrap())
        .collect()
}

/// The part file beside a target.
fn part_of(to: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(to.parent()?).ok()?.flatten();
    let name = to.file_name()?.to_string_lossy().into_owned();
    let is_part =
        |found: &str| found.starts_with(&format!(".{name}.")) && found.ends_with(".fulmar-part");
    entries
        .find(|entry| is_part(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path())
}

/// A copy to the server that takes half a minute; returned once its first bytes have arrived.
struct Slow {
    child: Background,
    to: PathBuf,
    content: Vec<u8>,
}

impl Slow {
    fn begin(site: &Site, scratch: &Scratch, arguments: &[&str]) -> Self {
        let content = content(6_000_000);
        let from = scratch.write("from", &content);
        let to = scratch.join("to");
        let _ = fs::remove_file(&to);
        let mut command = program(site, "scp");
        command
            .args(arguments)
            .args(["--limit", "200K", &here(&from), &there(&to)])
            .stderr(Stdio::piped());
        let child = Background::start(&mut command).unwrap();
        let this = Self { child, to, content };
        assert!(until(LIMIT, || this.len() > 100_000), "nothing arrives");
        this
    }

    fn len(&self) -> u64 {
        fs::metadata(&self.to).map_or(0, |metadata| metadata.len())
    }

    fn process(&mut self) -> &mut Child {
        &mut self.child.0
    }

    /// Its exit status and output.
    fn end(mut self) -> (i32, String) {
        assert!(
            until(LIMIT, || !matches!(self.process().try_wait(), Ok(None))),
            "the copy goes on"
        );
        let status = interop::process::status_number(self.process().wait().unwrap());
        let mut said = String::new();
        let errors = self.process().stderr.take().unwrap();
        let mut errors = std::io::BufReader::new(errors);
        std::io::Read::read_to_string(&mut errors, &mut said).unwrap();
        let part = fs::read(&self.to).unwrap();
        assert!(part.len() < self.content.len() && self.content.starts_with(&part));
        (status, said)
    }
}

#[test]
fn a_copy_is_one_process_unless_a_program_is_named() {
    let site = site("");
    let scratch = Scratch::new();
    let mut slow = Slow::begin(&site, &scratch, &[]);
    let below = descendants(slow.process().id());
    assert!(below.is_empty(), "{below:?}");
    drop(slow);
    let wrapper = here(&site.wrapper());
    let mut slow = Slow::begin(&site, &scratch, &["-S", &wrapper]);
    assert!(!descendants(slow.process().id()).is_empty());
    slow.process().kill().unwrap();
    let (status, _) = slow.end();
    assert_eq!(status, -9);
}

fn fails(outcome: &Outcome, option: &str, said: &str) {
    assert_eq!(outcome.status, 255, "{option}: {}", outcome.summary());
    let words = outcome.stderr.text();
    assert!(words.contains(said), "{option}: {}", outcome.summary());
}

#[test]
fn a_login_that_fails_ends_with_255_and_says_why() {
    let site = site("");
    let scratch = Scratch::new();
    let from = scratch.write("from", "x");
    let port = free_port().to_string();
    for (option, said) in [
        (
            "-oUserKnownHostsFile=/dev/null",
            "Host key verification failed.",
        ),
        ("-oPubkeyAuthentication=no", "Permission denied"),
        ("-oSessionType=none", "SessionType none"),
        (&format!("-oPort={port}"), "Connection refused"),
        ("-oProxyCommand=exit 1", "losed"),
    ] {
        // A subsystem by its path is a command, which SessionType could turn off.
        let by_path = ["-M", "/usr/lib/sftp-server"];
        let extra: &[&str] = match option.contains("SessionType") {
            true => &by_path,
            false => &[],
        };
        let mut command = program(&site, "scp");
        command.arg(option).args(extra);
        command.args([&here(&from), &there(&scratch.join("to"))]);
        let outcome = finish(&mut command, Input::Nothing);
        fails(&outcome, option, said);
        if !extra.is_empty() {
            continue;
        }
        let mut command = program(&site, "sftp");
        command.args([option, HOST]);
        let outcome = finish(&mut command, Input::Nothing);
        fails(&outcome, option, said);
    }
    assert!(!scratch.join("to").exists());
}

#[test]
fn a_server_without_the_subsystem_is_told_from_one_that_hangs() {
    let site = Site::new(Kind::Fulmar, Kind::Fulmar, "");
    let scratch = Scratch::new();
    let from = scratch.write("from", "x");
    let outcome = scp(&site, &[&here(&from), &there(&scratch.join("to"))]);
    assert_eq!(outcome.status, 255, "{}", outcome.summary());
    let said = outcome.stderr.text();
    assert!(
        said.contains("subsystem request failed on channel 0"),
        "{said}"
    );
}

#[test]
fn a_server_that_dies_in_the_middle_ends_the_copy() {
    for arguments in [&[][..], &["-n", "2"]] {
        let site = site("");
        let scratch = Scratch::new();
        let slow = Slow::begin(&site, &scratch, arguments);
        for process in descendants(site.running.daemon.pid()) {
            kill(process);
        }
        let to = here(&slow.to);
        let (status, said) = slow.end();
        assert!(status == 1 || status == 255, "{status}: {said}");
        assert!(said.contains(&to), "{said}");
    }
}

#[test]
fn messages_are_those_of_ssh_and_go_to_standard_error() {
    let site = site("");
    let scratch = Scratch::new();
    let from = scratch.write("from", "x");
    let to = there(&scratch.join("to"));
    let outcome = scp(&site, &["-v", &here(&from), &to]);
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    let said = outcome.stderr.text();
    for line in [
        "Executing: ",
        "debug1: Authenticating to ",
        "debug1: Sending subsystem: sftp",
    ] {
        assert!(said.contains(line), "{line:?} in {said}");
    }
    assert_eq!(outcome.stdout.length, 0);
    // Closed standard streams do not become a connection.
    let command = format!(
        "exec {} scp -F {} {} {to} <&- >&- 2>&-",
        ours::binary().display(),
        site.config("").display(),
        here(&from)
    );
    let outcome = finish(Command::new("sh").args(["-c", &command]), Input::Nothing);
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
}

#[test]
fn another_program_can_be_the_connection_of_a_copy() {
    let (first, second) = (site(""), site(""));
    let scratch = Scratch::new();
    let content = content(3_000_000);
    let from = scratch.write("from", &content);
    let to = scratch.join("to");
    let through = format!(
        "-oProxyCommand={} -W %h:%p {HOST}",
        first.wrapper().display()
    );
    for connections in ["1", "3"] {
        let arguments = [&through, "-n", connections, &here(&from), &there(&to)];
        let outcome = scp(&second, &arguments);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        assert!(fs::read(&to).unwrap() == content);
        fs::remove_file(&to).unwrap();
    }
}

/// `command` at a terminal, followed by the terminal's settings.
fn at_a_terminal(command: &Command) -> Terminal {
    let words = quoted_command_line(command);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!(
        "trap : INT; {}; echo \"status=$?.\"; stty -a; echo 'that is all'",
        words
    ));
    Terminal::new(&shell, 200, 24)
}

#[test]
fn an_interrupt_at_a_question_leaves_the_terminal_as_it_was() {
    if !is_root() {
        return skipped("a question for a password", &"needs root");
    }
    let site = site("PasswordAuthentication yes\n");
    let scratch = Scratch::new();
    let from = scratch.write("from", "x");
    let ways = [
        ("scp", vec![here(&from), there(&scratch.join("to"))]),
        ("sftp", vec![HOST.to_owned()]),
    ];
    // To a known server, the copy starts before the question.
    for known in [false, true] {
        if known {
            let outcome = scp(&site, &[&here(&from), &there(&scratch.join("before"))]);
            assert_eq!(outcome.status, 0, "{}", outcome.summary());
        }
        for (name, arguments) in &ways {
            let mut command = program(&site, name);
            command
                .args([
                    "-oBatchMode=no",
                    "-oPreferredAuthentications=password",
                    "-oNumberOfPasswordPrompts=3",
                ])
                .args(arguments);
            let mut terminal = at_a_terminal(&command);
            terminal.expect("password: ");
            terminal.type_text("\u{3}");
            // As with ssh itself, the signal ends the program.
            terminal.expect("status=130.");
            terminal.expect("that is all");
            let screen = terminal.screen();
            assert!(
                !screen.contains("-echo ") && screen.contains(" echo "),
                "{screen}"
            );
            assert_eq!(terminal.end(), 0);
        }
    }
}

#[test]
fn an_interrupt_in_the_middle_leaves_a_prefix_and_the_terminal_as_it_was() {
    let site = site("");
    let scratch = Scratch::new();
    let content = content(6_000_000);
    let from = scratch.write("from", &content);
    for connections in ["1", "2"] {
        let to = scratch.join("to");
        let mut command = program(&site, "scp");
        command.args(["-n", connections, "--limit", "200K"]);
        command.args([here(&from), there(&to)]);
        let mut terminal = at_a_terminal(&command);
        let len = || fs::metadata(&to).map_or(0, |metadata| metadata.len());
        assert!(until(LIMIT, || len() > 100_000));
        terminal.type_text("\u{3}");
        terminal.expect("Interrupted");
        terminal.expect("status=");
        terminal.expect("that is all");
        let screen = terminal.screen();
        assert!(!screen.contains("status=0."), "{screen}");
        assert!(
            !screen.contains("-echo ") && screen.contains(" echo "),
            "{screen}"
        );
        assert_eq!(terminal.end(), 0);
        let part = fs::read(&to).unwrap();
        assert!(part.len() < content.len() && content.starts_with(&part));
        fs::remove_file(&to).unwrap();
    }
}

/// A part file is removed when a signal ends the copy, unless it may be continued; then it is.
#[test]
fn a_signal_leaves_no_part_behind_but_for_who_resumes() {
    let site = site("");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        for (up, resumes) in [(true, false), (false, false), (true, true), (false, true)] {
            let scratch = Scratch::new();
            let content = content(6_000_000);
            let from = scratch.write("from", &content);
            fs::create_dir(scratch.join("folder")).unwrap();
            let to = scratch.join("folder/to");
            let (source, target) = match up {
                true => (here(&from), there(&to)),
                false => (there(&from), here(&to)),
            };
            let mut flags = vec!["--atomic"];
            flags.extend(resumes.then_some("-Z"));
            let mut command = program(&site, "scp");
            command
                .args(&flags)
                .args(["--limit", "400K", &source, &target]);
            let mut copy = Background::start(command.stderr(Stdio::null())).unwrap();
            let len = || part_of(&to).and_then(|part| fs::metadata(part).ok());
            assert!(until(LIMIT, || len().is_some_and(|part| part.len() > 100_000)));
            send(i32::try_from(copy.0.id()).unwrap(), signal).unwrap();
            assert!(until(LIMIT, || !matches!(copy.0.try_wait(), Ok(None))));
            assert!(!copy.0.wait().unwrap().success());
            let what = format!("{signal:?}, up {up}, resumes {resumes}");
            assert!(!to.exists(), "{what}");
            // The server's process may end after ours.
            assert!(until(LIMIT, || part_of(&to).is_some() == resumes), "{what}");
            if resumes {
                let outcome = scp(&site, &["--atomic", "-Z", &source, &target]);
                assert_eq!(outcome.status, 0, "{what}: {}", outcome.summary());
                assert!(fs::read(&to).unwrap() == content, "{what}");
                assert_eq!(fs::read_dir(scratch.join("folder")).unwrap().count(), 1);
            }
        }
    }
}

/// Nobody reads the data: each signal ends the wait.
#[test]
fn a_signal_ends_the_wait_for_the_reader_of_a_fifo() {
    let site = site("");
    let scratch = Scratch::new();
    let from = scratch.write("from", content(300_000));
    let fifo = scratch.join("fifo");
    if tool(Path::new("mkfifo"), &[&fifo]).is_err() {
        return skipped("FIFOs", &"no mkfifo is installed");
    }
    for reads in [false, true] {
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            let reader = reads.then(|| {
                let mut options = fs::File::options();
                options
                    .read(true)
                    .custom_flags(sys::file::NO_WAIT)
                    .open(&fifo)
                    .unwrap()
            });
            let trace = scratch.join("trace");
            let mut command = program(&site, "scp");
            command.args(["-v", &there(&from), &here(&fifo)]);
            command.stderr(fs::File::create(&trace).unwrap());
            let mut copy = Background::start(&mut command).unwrap();
            // The program waits at the FIFO, or is about to.
            let said = || fs::read_to_string(&trace).unwrap_or_default();
            assert!(
                until(LIMIT, || said().contains("Authenticated to")),
                "{}",
                said()
            );
            send(i32::try_from(copy.0.id()).unwrap(), signal).unwrap();
            let ended = until(LIMIT, || !matches!(copy.0.try_wait(), Ok(None)));
            assert!(ended, "{signal:?}, a reader {reads}: {}", said());
            assert!(!copy.0.wait().unwrap().success());
            drop(reader);
        }
    }
}

#[test]
fn connections_behind_the_first_log_in_together_while_it_copies() {
    let site = site("");
    let scratch = Scratch::new();
    let content = content(20_000_000);
    let (from, to) = (scratch.write("from", &content), scratch.join("to"));
    // The second continues when the third has started, and the third when it may.
    let (begun, may) = (scratch.join("begun"), scratch.join("may"));
    let dialer = scratch.write(
        "dialer",
        format!(
            "echo x >>{0}\nwhile [ \"$(wc -l <{0})\" -eq 2 ]; do sleep 0.1; done\n\
             while [ \"$(wc -l <{0})\" -eq 3 ] && ! [ -e {3} ]; do sleep 0.1; done\n\
             exec '{1}' ssh -F {2} -W \"127.0.0.1:$1\" {HOST}\n",
            begun.display(),
            ours::binary().display(),
            site.config("").display(),
            may.display(),
        ),
    );
    let proxy = format!("-oProxyCommand=sh {} %p", dialer.display());
    let mut command = program(&site, "scp");
    command.args([
        &proxy,
        "-n",
        "3",
        "--limit",
        "2M",
        &here(&from),
        &there(&to),
    ]);
    let mut copy = Background::start(&mut command).unwrap();
    let lines = || fs::read_to_string(&begun).map_or(0, |begun| begun.lines().count());
    assert!(until(LIMIT, || lines() == 3));
    // Several connections write a part file beside the target.
    let len = || part_of(&to).map_or(0, |part| fs::metadata(part).map_or(0, |part| part.len()));
    assert!(
        until(LIMIT, || len() > 1_000_000 || to.exists()),
        "it waits for the others"
    );
    fs::write(&may, "").unwrap();
    let ended = until(LIMIT, || !matches!(copy.0.try_wait(), Ok(None)));
    assert!(ended && copy.0.wait().unwrap().success());
    assert!(fs::read(&to).unwrap() == content);
    assert_eq!(lines(), 3);
}

/// A connection that fails reports the reason, and the copy continues with the others.
#[test]
fn a_connection_that_is_refused_is_done_without() {
    let site = site("");
    let scratch = Scratch::new();
    let content = content(20_000_000);
    let (from, to) = (scratch.write("from", &content), scratch.join("to"));
    let begun = scratch.join("begun");
    let dialer = scratch.write(
        "dialer",
        format!(
            "echo x >>{0}\n[ \"$(wc -l <{0})\" -eq 1 ] || {{ echo no more of you >&2; exit 1; }}\n\
             exec '{1}' ssh -F {2} -W \"127.0.0.1:$1\" {HOST}\n",
            begun.display(),
            ours::binary().display(),
            site.config("").display(),
        ),
    );
    let proxy = format!("-oProxyCommand=sh {} %p", dialer.display());
    for arguments in [[here(&from), there(&to)], [there(&to), here(&to) + "-back"]] {
        let [first, second] = &arguments;
        // On a busy machine the other connections may need as long as a fast copy.
        let told = ["10M", "2M", "400K"].into_iter().any(|limit| {
            let _ = fs::remove_file(&begun);
            let outcome = scp(&site, &[&proxy, "-n", "3", "--limit", limit, first, second]);
            assert_eq!(outcome.status, 0, "{}", outcome.summary());
            outcome.stderr.text().contains("no more of you")
        });
        assert!(told, "to {second}");
    }
    assert!(fs::read(&to).unwrap() == content);
    assert!(fs::read(scratch.join("to-back")).unwrap() == content);
}

#[test]
fn questions_of_several_connections_come_one_after_the_other() {
    let site = site("");
    let scratch = Scratch::new();
    let content = content(20_000_000);
    let (from, to) = (scratch.write("from", &content), scratch.join("to"));
    let options = [
        "-oBatchMode=no",
        "-oUserKnownHostsFile=/dev/null",
        "-oStrictHostKeyChecking=ask",
    ];
    let question = "continue connecting (yes/no/[fingerprint])? ";
    let command = || {
        let mut command = program(&site, "scp");
        command.args(options).args(["-n", "3"]);
        command.args([here(&from), there(&to)]);
        command
    };
    let mut terminal = at_a_terminal(&command());
    for _ in 0..3 {
        terminal.expect(question);
        terminal.type_text("yes\n");
    }
    terminal.expect("status=0.");
    terminal.expect("that is all");
    assert_eq!(terminal.end(), 0);
    assert!(fs::read(&to).unwrap() == content);
    fs::remove_file(&to).unwrap();

    let mut terminal = at_a_terminal(&command());
    terminal.expect(question);
    terminal.type_text("yes\n");
    terminal.expect(question);
    terminal.type_text("\u{3}");
    terminal.expect("status=130.");
    terminal.expect("that is all");
    assert_eq!(terminal.end(), 0);
    assert!(!to.exists());
}

#[test]
fn each_connection_says_as_much_as_its_own_configuration_has_it_say() {
    let site = site("");
    let scratch = Scratch::new();
    let from = scratch.write("from", "x");
    let loud = format!(
        "Host loud\nHostName 127.0.0.1\nPort {}\nUser {}\nLogLevel DEBUG1\n",
        site.running.daemon.port, site.running.user
    );
    let config = site.config(&loud);
    for (one, other) in [("loud", HOST), (HOST, "loud")] {
        let to = scratch.join(&format!("from-{one}"));
        let mut command = Command::new(ours::binary());
        command.args(["scp", "-3", "-F"]).arg(&config);
        command.arg(format!("{one}:{}", from.display()));
        command.arg(format!("{other}:{}", to.display()));
        let outcome = finish(&mut command, Input::Nothing);
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        assert_eq!(fs::read(&to).unwrap(), b"x");
        let said = outcome.stderr.text();
        // Reported at a connection's end, after the other one's level was set.
        assert_eq!(said.matches("debug1: crypto threads").count(), 1, "{said}");
    }
}
