//! RecordTerminals: what is recorded, by whom, and that no terminal goes on without it. The judges are
//! OpenSSH's client, whose output the recording must equal, and asciinema, if it is installed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use interop::account::Guest;
use interop::json::Value;
use interop::mounted::Mounted;
use interop::process::{installed, wait};
use interop::report::skipped;
use interop::scratch::until;
use interop::terminal::Terminal;
use privsep_tests::facts::Facts;
use privsep_tests::sshd::{Config, LIMIT, Sshd, UserKey, binary, finish, guest_with, possible};
use sys::signals::Signal;

/// Terminals at once.
const SESSIONS: usize = 24;
/// The command of docs/observability.md that refuses sessions without a terminal.
const ONLY_TERMINALS: &str = "tty -s || { echo 'only with a terminal: ssh -t' >&2; exit 1; }; \
                              eval \"${SSH_ORIGINAL_COMMAND:-exec $SHELL -l}\"";

/// A directory for recordings below directories of root, removed at the end.
struct Recordings(PathBuf);

impl Recordings {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/var/lib/fulmar-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("a directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("its mode");
        Self(path)
    }

    fn line(&self) -> String {
        format!("RecordTerminals {}", self.0.display())
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).expect("the directory");
        entries.map(|entry| entry.expect("a file").path()).collect()
    }

    /// The only file, after the server has ended all processes of the session.
    fn only(&self, server: &Sshd) -> PathBuf {
        server.leaves_nothing_behind();
        let files = self.files();
        let [file] = &files[..] else {
            panic!("{files:?}\n{}", server.daemon.log());
        };
        file.clone()
    }
}

impl Drop for Recordings {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A recording, read.
#[derive(Debug, Default)]
struct Replay {
    head: Option<Value>,
    shown: String,
    sizes: Vec<String>,
}

impl Replay {
    fn of(file: &Path) -> Self {
        let text = fs::read_to_string(file).expect("UTF-8");
        assert!(text.ends_with('\n'), "{file:?} ends within a line");
        let mut replay = Self::default();
        let mut last = 0.0;
        for line in text.lines() {
            let value = Value::read(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let Value::List(event) = &value else {
                assert_eq!(value.find("version").and_then(Value::number), Some(2.0));
                assert!(replay.head.replace(value).is_none(), "two heads");
                continue;
            };
            assert!(replay.head.is_some(), "the head is the first line");
            let [at, kind, data] = &event[..] else {
                panic!("{line}");
            };
            let at = at.number().expect("a time");
            assert!(at >= last, "{line}");
            last = at;
            let data = data.text().expect("text");
            match kind.text() {
                Some("o") => replay.shown.push_str(data),
                Some("r") => replay.sizes.push(data.to_owned()),
                _ => panic!("{line}"),
            }
        }
        replay
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.head.as_ref()?.find(name)?.number()
    }
}

/// Asserts that two long texts are equal; shows where they begin to differ.
fn same(left: &str, right: &str) {
    let pairs = left.chars().zip(right.chars());
    let at = pairs.take_while(|(left, right)| left == right).count();
    let rest = |text: &str| text.chars().skip(at).take(60).collect::<String>();
    assert_eq!(
        (rest(left), left.len()),
        (rest(right), right.len()),
        "from letter {at}"
    );
}

/// A key, its user, and a server that records into a new directory; `None`, with a line that `what` is
/// skipped, where this machine cannot have such a server. `number` makes the key.
fn recorded(what: &str, number: u8, directory: &str) -> Option<(UserKey, Guest, Recordings, Sshd)> {
    if !possible(what) {
        return None;
    }
    let key = UserKey::new(number);
    let guest = guest_with("", &key);
    let recordings = Recordings::new(directory);
    let server = Sshd::start(Config::new(&recordings.line()));
    Some((key, guest, recordings, server))
}

fn at_terminal(server: &Sshd, guest: &Guest, key: &UserKey, remote: &str) -> Command {
    let mut command = server.ssh(&guest.name, &[key]);
    command.args(["-q", "-tt", "127.0.0.1", remote]);
    command
}

#[test]
fn a_recording_replays_the_terminal_with_its_sizes_and_without_a_password() {
    let Some((key, guest, recordings, server)) = recorded("recorded terminals", 91, "replays")
    else {
        return;
    };
    assert_eq!(
        server
            .run_command(&guest.name, &key, "echo unseen")
            .stdout
            .text(),
        "unseen\n"
    );
    assert!(recordings.files().is_empty(), "no terminal");
    let mut command = server.ssh(&guest.name, &[&key]);
    command.env("TERM", "vt100").args(["-q", "127.0.0.1"]);
    let mut terminal = Terminal::new(&command, 90, 20);
    // Before its prompt the client's own terminal echoes.
    terminal.expect("$ ");
    terminal.type_text("stty -echo; printf 'gr\\303\\274n \\033[1m\\\\\"%s\\n' re''ady; read x\n");
    terminal.expect("grün \u{1b}[1m\\\"ready");
    terminal.type_text("secret-word\n");
    terminal.type_text("stty echo; echo \"length ${#x}\"\n");
    terminal.expect("length 11");
    terminal.resize(100, 30);
    terminal.type_until("stty size\n", "30 100");
    terminal.type_text("head -c 300000 /dev/zero | tr '\\0' y; exit 3\n");
    assert_eq!(terminal.end(), 3);
    let file = recordings.only(&server);
    let replay = Replay::of(&file);
    same(&replay.shown, &terminal.screen());
    assert!(!replay.shown.contains("secret-word"));
    assert_eq!(replay.sizes, ["100x30"]);
    assert_eq!(
        (replay.number("width"), replay.number("height")),
        (Some(90.0), Some(20.0))
    );
    let term = replay
        .head
        .as_ref()
        .and_then(|head| head.find("env")?.find("TERM"));
    assert_eq!(term.and_then(Value::text), Some("vt100"));
    let name = file
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    assert!(
        name.starts_with(&format!("{}-20", guest.name)) && name.ends_with("-0.cast"),
        "{name}"
    );
    let mode = fs::metadata(&file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    server.logs(&format!(
        "recording a terminal of {} to {}",
        guest.name,
        file.display()
    ));
    match installed("asciinema") {
        Some(asciinema) => {
            let mut command = Command::new(asciinema);
            command.env("LC_ALL", "C.UTF-8").arg("cat").arg(&file);
            let mut player = Terminal::new(&command, 90, 20);
            assert_eq!(player.end(), 0, "{}", player.screen());
            same(&player.screen(), &replay.shown);
        }
        None => skipped("asciinema", &"not installed"),
    }
}

#[test]
fn no_forced_command_escapes_and_only_the_matched_are_recorded() {
    if !possible("recorded forced commands") {
        return;
    }
    let keys = [92, 93, 94, 99].map(UserKey::new);
    let by_key = guest_with("restrict,pty,command=\"echo by-key\"", &keys[0]);
    let by_server = guest_with("", &keys[1]);
    let other = guest_with("", &keys[2]);
    let at_terminals = guest_with("", &keys[3]);
    let recordings = Recordings::new("forced");
    let blocks = format!(
        "Match User {},{},{}\n{}\n\
         Match User {}\nForceCommand echo by-server\n\
         Match User {}\nForceCommand {ONLY_TERMINALS}\n",
        by_key.name,
        by_server.name,
        at_terminals.name,
        recordings.line(),
        by_server.name,
        at_terminals.name
    );
    let server = Sshd::start(Config::blocks(&blocks));
    let guests = [&by_key, &by_server, &other, &at_terminals];
    for (guest, key) in guests.into_iter().zip(&keys) {
        let outcome = finish(&mut at_terminal(&server, guest, key, "echo asked-for"));
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
    }
    let outcome = server.run_command(&at_terminals.name, &keys[3], "echo unseen");
    assert_eq!((outcome.status, outcome.stdout.text().as_str()), (1, ""));
    assert!(
        outcome.stderr.text().contains("only with a terminal"),
        "{}",
        outcome.summary()
    );
    server.leaves_nothing_behind();
    let mut shown: Vec<String> = recordings
        .files()
        .iter()
        .map(|file| Replay::of(file).shown)
        .collect();
    shown.sort();
    assert_eq!(shown, ["asked-for\r\n", "by-key\r\n", "by-server\r\n"]);
}

#[test]
fn the_recorder_is_out_of_the_users_reach_and_the_session_ends_with_it() {
    let Some((key, guest, recordings, server)) = recorded("the process that records", 95, "reach")
    else {
        return;
    };
    let mut command = at_terminal(&server, &guest, &key, "echo here; exec sleep 600");
    let mut session = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ssh");
    let process = |begin: &str| -> Option<Facts> {
        let mut all = server.processes().into_iter();
        all.find(|facts| facts.command_line.starts_with(begin))
    };
    let shown = || {
        let files = recordings.files();
        files
            .iter()
            .any(|file| fs::read_to_string(file).is_ok_and(|text| text.contains("here")))
    };
    // The file has the output before the session ends.
    assert!(until(LIMIT, shown), "{}", server.daemon.log());
    let recorder = process("fulmar sshd-recorder").expect("the recorder");
    assert_ne!(recorder.uid(), 0);
    assert_ne!(
        recorder.uid(),
        interop::account::uid_of(&guest.name).expect("a guest")
    );
    assert_eq!(recorder.number("Seccomp"), 2);
    assert_eq!(recorder.owner, 0, "not dumpable");
    assert_eq!(recorder.descriptors.len(), 5, "{recorder:?}");
    assert!(until(LIMIT, || process("sleep 600").is_some()));
    let program = process("sleep 600").expect("the command");
    let is_terminal = |target: &String| target.starts_with("/dev/pts/");
    assert!(program.descriptors.values().all(is_terminal), "{program:?}");
    let tty = program.descriptors.get(&1).expect("its terminal");
    let title = format!(
        "sshd-session: {}@{}",
        guest.name,
        tty.trim_start_matches("/dev/")
    );
    let session_process = process(&title).expect("the session process");
    assert_eq!(session_process.owner, 0, "not dumpable");
    let (pid, session_pid) = (recorder.pid, session_process.pid);
    let tries = format!(
        "kill -9 {pid} && echo killed; cat /proc/{pid}/environ; ls /proc/{pid}/fd /proc/{session_pid}/fd; \
         cat /proc/{session_pid}/fd/*; ls {}; kill -0 {pid}",
        recordings.0.display()
    );
    let outcome = server.run_command(&guest.name, &key, &tries);
    assert_ne!(outcome.status, 0);
    assert_eq!(outcome.stdout.text(), "", "{}", outcome.summary());
    // After its end nothing more is shown: the next output ends the session.
    let handle = sys::process::PidFd::open(i32::try_from(pid).expect("a pid")).expect("it");
    handle.signal(Signal::KILL).expect("a signal to it");
    let ended = || {
        let _ = fs::write(tty, "more\n");
        matches!(session.try_wait(), Ok(Some(_)))
    };
    assert!(until(LIMIT, ended), "{}", server.daemon.log());
    server.logs("the recording is not complete: its recorder ended");
    server.leaves_nothing_behind();
}

/// As OpenSSH's service removes its own when it is stopped.
#[test]
fn the_empty_directory_may_be_removed_under_a_running_server() {
    if !possible("an empty directory that is removed") {
        return;
    }
    let separate = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]);
        command
    };
    if finish(&mut separate("mount -t tmpfs none /run")).status != 0 {
        skipped("an empty directory that is removed", &"no mount namespaces");
        return;
    }
    let key = UserKey::new(107);
    let guest = guest_with("", &key);
    let recordings = Recordings::new("removed");
    let line = recordings.line();
    let config = Config::new(&line);
    let script = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec \"$0\" \"$@\"";
    let server = Sshd::start_with(config, |_, _| {
        let mut command = separate(script);
        command.arg(binary());
        command
    });
    let run = PathBuf::from(format!("/proc/{}/root/run", server.daemon.pid()));
    let remove = |name: &str| fs::remove_dir(run.join(name)).expect(name);
    remove("sshd");
    server.lets_in(&guest.name, &key);
    remove("fulmar-empty");
    server.lets_in(&guest.name, &key);
    assert!(!run.join("sshd").exists());
    // A connection from before gets a recorder.
    let socket = server.daemon.scratch().join("master");
    let mut master = server.ssh(&guest.name, &[&key]);
    master.arg("-MNS").arg(&socket).arg("127.0.0.1");
    let mut master = Ended(master.stdin(Stdio::null()).spawn().expect("ssh"));
    assert!(until(LIMIT, || socket.exists()), "{}", server.daemon.log());
    remove("fulmar-empty");
    let mut passenger = server.ssh(&guest.name, &[&key]);
    passenger.arg("-S").arg(&socket);
    let outcome = finish(passenger.args(["-tt", "127.0.0.1", "echo here"]));
    assert_eq!(outcome.status, 0, "{}", outcome.summary());
    assert!(matches!(master.0.try_wait(), Ok(None)), "it goes on");
    drop(master);
    let file = recordings.only(&server);
    assert_eq!(Replay::of(&file).shown.trim_end(), "here");
}

/// A client that is ended.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_new_size_that_cannot_be_recorded_ends_the_session() {
    let Some((key, guest, _recordings, server)) = recorded("sizes of terminals", 101, "sizes")
    else {
        return;
    };
    let mut command = server.ssh(&guest.name, &[&key]);
    // No output ends it.
    command.args(["-tt", "127.0.0.1", "echo here; exec sleep 600"]);
    let mut terminal = Terminal::new(&command, 80, 24);
    terminal.expect("here");
    let mut all = server.processes().into_iter();
    let recorder = all.find(|facts| facts.command_line.starts_with("fulmar sshd-recorder"));
    let pid = i32::try_from(recorder.expect("the recorder").pid).expect("a pid");
    let handle = sys::process::PidFd::open(pid).expect("it");
    handle.signal(Signal::KILL).expect("a signal to it");
    // Until it has ended the pipe takes new sizes.
    let has_ended = sys::io::wait_readable(&handle, Some(LIMIT)).expect("a pidfd");
    assert!(has_ended, "{}", server.daemon.log());
    terminal.resize(100, 30);
    assert_eq!(terminal.end(), 255, "{}", terminal.screen());
    server.logs("the recording of the terminal has ended");
    server.leaves_nothing_behind();
}

#[test]
fn without_a_place_for_the_recording_there_is_no_terminal() {
    let Some((key, guest, recordings, server)) =
        recorded("terminals that cannot be recorded", 96, "place")
    else {
        return;
    };
    let open_to_all = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(&recordings.0, mode).expect("its mode");
    };
    // The test of a configuration says it beforehand.
    let is_warned_of = |why: &str| {
        let outcome = server.test_configuration();
        assert_eq!(outcome.status, 0, "{}", outcome.summary());
        let text = outcome.stderr.text();
        let mut lines = text.lines().filter(|line| line.contains("RecordTerminals"));
        lines.any(|line| line.contains(why))
    };
    // OpenSSH's client ends if it was told to insist on a terminal.
    let has_terminal = |server: &Sshd| {
        let outcome = finish(&mut at_terminal(server, &guest, &key, "tty"));
        assert!(matches!(outcome.status, 0 | 255), "{}", outcome.summary());
        assert_eq!(
            outcome.status == 0,
            outcome.stdout.text().contains("/dev/pts/")
        );
        outcome.status == 0
    };
    open_to_all(0o755);
    assert!(!has_terminal(&server));
    server.logs("must be for root only (chmod 700)");
    assert!(is_warned_of("must be for root only (chmod 700)"));
    server.lets_in(&guest.name, &key);
    open_to_all(0o700);
    assert!(has_terminal(&server));
    assert!(!is_warned_of(""));
    fs::remove_dir_all(&recordings.0).expect("its end");
    assert!(!has_terminal(&server));
    server.logs(&format!(
        "no terminal for {}: RecordTerminals: /var/lib/",
        guest.name
    ));
    let in_a_block = format!("Match User nobody\n{}", recordings.line());
    server.rewrite(Config::blocks(&in_a_block));
    assert!(is_warned_of("No such file or directory"));
    let theirs = Sshd::start_as(&guest, &recordings.line());
    assert!(!has_terminal(&theirs));
    theirs.logs("RecordTerminals needs a server that was started as root");
}

#[test]
fn a_full_disk_ends_the_session() {
    if !possible("recordings on a full disk") {
        return;
    }
    let key = UserKey::new(97);
    let guest = guest_with("", &key);
    let recordings = Recordings::new("full");
    let mut mount = Command::new("mount");
    let mount = mount.args(["-t", "tmpfs", "-o", "size=640k,mode=700", "small"]);
    let _disk = match Mounted::at(&recordings.0, mount) {
        Ok(disk) => disk,
        Err(why) => return skipped("recordings on a full disk", &why),
    };
    let server = Sshd::start(Config::new(&recordings.line()));
    // Little at a time fills the last part, so that the client has nothing to send when the session ends.
    let remote = "x() { head -c $1 /dev/zero | tr '\\0' x; }; x 500000; sleep 0.5; little=$(x 3000); \
                  for i in $(seq 800); do printf %s $little; sleep 0.01; done; echo end";
    let mut command = server.ssh(&guest.name, &[&key]);
    let outcome = finish(command.args(["-tt", "127.0.0.1", remote]));
    assert_eq!(outcome.status, 255, "{}", outcome.summary());
    // A client that was sending gets a reset instead of the reason.
    let said = outcome.stderr.text();
    let reason = "the recording of the terminal has ended";
    assert!(said.contains(reason) || said.contains("reset"), "{said}");
    server.logs(reason);
    assert!(!outcome.stdout.text().contains("end"));
    server.logs("the recording is not complete: no space left on its disk");
    // Less was shown than fits into the file, the pipe and the recorder's memory.
    let shown = outcome.stdout.text().matches('x').count();
    assert!((100_000..2_000_000).contains(&shown), "{shown}");
    server.leaves_nothing_behind();
}

#[test]
fn many_terminals_at_once_have_a_file_each() {
    let Some((key, guest, recordings, server)) = recorded("many recorded terminals", 98, "many")
    else {
        return;
    };
    let mut sessions = Vec::new();
    for number in 0..SESSIONS {
        let remote = format!("seq 1000; echo number {number}.");
        let mut command = at_terminal(&server, &guest, &key, &remote);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        sessions.push(command.spawn().expect("ssh"));
    }
    for session in &mut sessions {
        assert!(
            wait(session, LIMIT).expect("its end").success(),
            "{}",
            server.daemon.log()
        );
    }
    server.leaves_nothing_behind();
    let mut shown: Vec<String> = recordings
        .files()
        .iter()
        .map(|file| Replay::of(file).shown)
        .collect();
    assert_eq!(shown.len(), SESSIONS);
    for number in 0..SESSIONS {
        let is_its = |text: &String| text.contains(&format!("\r\n1000\r\nnumber {number}.\r\n"));
        let at = shown.iter().position(is_its);
        shown.remove(at.unwrap_or_else(|| panic!("no recording of session {number}")));
    }
}
